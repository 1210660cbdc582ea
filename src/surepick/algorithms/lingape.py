"""LinGapE (Xu, Honda and Sugiyama 2018): measure what separates the leader from the arm it may be losing most to.

    leader          i = the best estimate
    challenger      j = the largest upper confidence bound on theta'(x_j - x_i)
    arm             greedy: the pull that shrinks the uncertainty of x_i - x_j most; or the ratio rule: keep the pulls
                    in the proportions of the L1 allocation of x_i - x_j
    stopping        when no bound is above epsilon

Practical: bounds of the evidence mixture, so that "no bound above epsilon" is the evidence rule itself; a spanning set
first. `variant="paper"`: every arm once; ridge estimate and the confidence width of the paper with its K^2, which needs
`norm_bound`, at least the norm of theta. The paper's K^2 is not needed (the ellipsoid covers all differences together)
and sqrt(ridge) norm_bound is costly where informative arms are nearly parallel. `width="largest-norm"` is the width of
Reda, Kaufmann and Delahaye-Duriez (2021): no K^2, and the determinant bounded through the longest arm. Their ridge is
(noise_std / 20)^2. It is proved under the same condition.

Index and stopping read the same estimate and the same norm. With ridge indices beside an unregularised stopping rule an
arm can look resolved to the sampler, never be pulled again, and keep the rule from stopping.
"""

import math
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from surepick.algorithms.options import Options
from surepick.arms.loss import largest_loss_bound
from surepick.arms.view import Task
from surepick.core.checks import check_number
from surepick.core.estimate import RidgeEstimate
from surepick.core.linalg import Array, cholesky, solve_lower
from surepick.core.thresholds import RidgeThreshold
from surepick.errors import InvalidInput
from surepick.sampling.alternatives import GreedyChoice, L1Allocation
from surepick.sampling.choosers import Asked, Exploration, StartThenChoose
from surepick.sampling.games import ridge_rule
from surepick.sampling.protocol import Situation
from surepick.stopping.protocol import Rule

Selection = Literal["greedy", "ratio"]
Width = Literal["determinant", "largest-norm"]


@final
@dataclass(frozen=True, kw_only=True)
class LinGapE(Options):
    """Options of the algorithm, beside those that all share; None stands for the variant's own choice.

    Args:
        selection: how to pick the arm: "greedy", or "ratio" by the L1 allocation.
        ridge: the paper's lambda.
        norm_bound: the paper's S, a bound on the norm of theta that you know; only for its own rule.
        width: the confidence width of the paper's own rule: "determinant" as published, or "largest-norm".
        g_mix: share of the pulls that follow the G-optimal design; default 0, a tenth under the betting rule, which
            reads blocks and not the index: where the index calls an arm resolved too early, nothing would measure it.
    """

    selection: Selection = "greedy"
    ridge: float = 1.0
    norm_bound: float | None = None
    width: Width = "determinant"
    g_mix: float | None = None

    def compose(self, task: Task) -> tuple[StartThenChoose, Rule]:
        """Return the sampling rule and the stopping rule."""
        is_paper = self.is_paper
        if self.width not in ("determinant", "largest-norm"):
            raise InvalidInput(f"`width` must be 'determinant' or 'largest-norm', got {self.width!r}.")
        arms = task.rows
        start = np.arange(arms.n_arms) if is_paper else task.spanning
        threshold = self._threshold(task) if self.is_own_rule else None
        if threshold is not None:
            rule: Rule = ridge_rule(threshold, elimination=bool(self.elimination))
        else:
            rule = self.rule("evidence")
        g_mix = (rule.usual_g_mix if rule.needs_fixed_intervals else 0.0) if self.g_mix is None else self.g_mix
        exploration = Exploration(arms, task.spanning, floor=0.0, g_mix=g_mix)
        chooser = LinGapEChooser(task, self.selection, threshold, exploration)
        return StartThenChoose(start, chooser, rule=rule, schedule=self.schedule, dim=arms.dim), rule

    def _threshold(self, task: Task) -> RidgeThreshold:
        if self.norm_bound is None:
            raise InvalidInput(
                'lingape with variant="paper" needs `norm_bound`, at least the norm of theta; if none is known, '
                'use variant="practical", which needs none.'
            )
        norm_bound = check_number("norm_bound", self.norm_bound, needed="a bound on the norm of theta")
        if not check_number("ridge", self.ridge, needed="a number above 0") > 0.0 or norm_bound < 0.0:
            raise InvalidInput(f"`ridge` must be above 0 and `norm_bound` at least 0, got {self.ridge}, {norm_bound}.")
        if self.width == "determinant":
            n_tests = task.rivals.n_arms**2
            return RidgeThreshold(name="lingape", ridge=self.ridge, norm_bound=norm_bound, n_tests=n_tests)
        # The norm that the ridge is spherical in: that of the user's features.
        largest = math.sqrt(float(task.rows.arms.top_quadratic(np.eye(task.rows.dim), 1)[1][0]))
        return RidgeThreshold(name="lingape", ridge=self.ridge, norm_bound=norm_bound, largest_norm=largest)


@final
class LinGapEChooser:
    """Leader against challenger, arm by arm; in a batch the estimate stays and the information grows."""

    def __init__(
        self, task: Task, selection: Selection, threshold: RidgeThreshold | None, exploration: Exploration
    ) -> None:
        if selection not in ("greedy", "ratio"):
            raise InvalidInput(f"`selection` must be 'greedy' or 'ratio', got {selection!r}.")
        self._task, self._threshold, self._exploration = task, threshold, exploration
        ridge = None if threshold is None else threshold.ridge * task.rows.metric()
        self._ridge_logdet = 0.0 if ridge is None else float(np.linalg.slogdet(ridge)[1])
        self._asked = Asked(task.rows, ridge)
        self._greedy = GreedyChoice(task.rows) if selection == "greedy" else None
        self._ratio = L1Allocation(task.rows) if selection == "ratio" else None
        self._situation: Situation | None = None
        self._theta: Array | None = None

    def look(self, situation: Situation) -> None:
        """Take in the results so far."""
        self._situation = situation
        self._theta = situation.theta if self._threshold is None else RidgeEstimate(situation.estimate).theta
        self._asked.renew(situation)

    def choose(self) -> int:
        """Return the arm that best separates leader and challenger."""
        situation, asked = self._situation, self._asked
        assert situation is not None
        assert situation.leader is not None
        if (due := self._exploration.due(asked)) is not None:
            asked.add(due)
            return due
        leader = situation.leader
        challenger = self._challenger(situation, leader)
        rows = self._task.rivals.gather([leader, challenger])
        y = rows[0] - rows[1]
        if self._ratio is not None:
            support, share = self._ratio.of(y, key=(min(leader, challenger), max(leader, challenger)))
            arm = int(support[np.argmin([asked.count(int(k)) / p for k, p in zip(support, share, strict=True)])])
        else:
            assert self._greedy is not None
            arm = self._greedy.best(asked.A_inv, y)
        asked.add(arm)
        return arm

    def _challenger(self, situation: Situation, leader: int) -> int:
        """Return the candidate with the largest upper confidence bound on its lead over the leader."""
        task, A, theta = self._task, self._asked.A, self._theta
        assert theta is not None
        if self._threshold is None:
            return largest_loss_bound(
                task.rivals,
                leader,
                theta,
                A,
                delta=task.delta,
                noise_std=task.noise_std,
                among=situation.alive,
            )[0]
        logdet = float(np.linalg.slogdet(A)[1]) - self._ridge_logdet
        limit = self._threshold(
            n_pulls=self._asked.n, dim=len(A), logdet=logdet, delta=task.delta, noise_std=task.noise_std
        )
        width = float(np.sqrt(2.0 * limit))
        factor = solve_lower(cholesky(A), np.eye(len(A))).T
        found = task.rivals.rivals(
            leader, theta, [factor], lambda gap, square: gap - width * np.sqrt(square), 1, situation.alive
        )
        return int(found.index[0])
