"""LinGapE (Xu, Honda and Sugiyama 2018): separate the leader from the arm that may beat it by most.

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
from typing import ClassVar, Literal, final

import numpy as np

from surepick.algorithms.options import Options
from surepick.arms.views import Task, largest_loss_bound
from surepick.core.linalg import inverse_factor
from surepick.core.thresholds import RidgeThreshold
from surepick.sampling.alternatives import GreedyChoice, L1Allocation
from surepick.sampling.choosers import Chooser, StartThenChoose
from surepick.stopping.base import Rule
from surepick.stopping.glr import ridge_rule, ridge_threshold


@final
@dataclass(frozen=True, kw_only=True)
class LinGapE(Options):
    """LinGapE: measure the difference between the leader and the arm that may beat it by most.

    Args:
        selection: how to choose the arm: "greedy", or "ratio" by the L1 allocation.
        ridge: the paper's lambda.
        norm_bound: the paper's S, a bound on the norm of theta that you know; only for its own rule.
        width: the confidence width of the paper's own rule: "determinant" as published, or "largest-norm".
        g_mix: share of the pulls that follow the G-optimal design; default 0, a tenth under the betting rule. That rule
            reads blocks and not the index, and no pull would measure an arm that the index calls resolved too early.

    Examples:
        >>> import surepick as sp
        >>> sp.simulate(sp.problems.soare(3, angle=0.5), "lingape", n_runs=5, seed=0).mean
        99.8

    References:
        Xu, Honda and Sugiyama (2018), "A fully adaptive algorithm for pure exploration in linear bandits".
    """

    plans_with_noise: ClassVar[bool] = True
    selection: Literal["greedy", "ratio"] = "greedy"
    ridge: float = 1.0
    norm_bound: float | None = None
    width: Literal["determinant", "largest-norm"] = "determinant"
    g_mix: float | None = None

    def compose(self, task: Task) -> tuple[StartThenChoose, Rule]:
        """Return the sampler and the stopping rule."""
        threshold: RidgeThreshold | None = None
        if self.is_own_rule:
            n_tests = task.rivals.n_arms**2 if self.width == "determinant" else None
            threshold = ridge_threshold("lingape", task, self.ridge, self.norm_bound, n_tests=n_tests)
        rule = self.rule("evidence") if threshold is None else ridge_rule(threshold, elimination=self.elimination)
        g_mix = (rule.usual_g_mix if rule.needs_fixed_blocks else 0.0) if self.g_mix is None else self.g_mix
        separator = GreedyChoice(task.rows) if self.selection == "greedy" else L1Allocation(task.rows)
        return self.one_by_one(task, LinGapEChooser(task, separator, threshold, g_mix), rule)


@final
class LinGapEChooser(Chooser):
    """Leader against challenger, arm by arm."""

    def __init__(
        self, task: Task, separator: GreedyChoice | L1Allocation, threshold: RidgeThreshold | None, g_mix: float
    ) -> None:
        ridge = None if threshold is None else threshold.ridge * task.rows.metric()
        super().__init__(task, g_mix=g_mix, ridge=ridge, reads_ridge=ridge is not None)
        self._separator, self._threshold = separator, threshold
        self._ridge_logdet = 0.0 if ridge is None else float(np.linalg.slogdet(ridge)[1])

    def pick(self) -> int:
        """Return the arm that best separates leader and challenger."""
        pair = self._leader, self._challenger()
        rows = self._task.rivals.gather(pair)
        return self._separator.arm(self._asked, rows[0] - rows[1], pair)

    def _challenger(self) -> int:
        """Return the candidate with the largest upper confidence bound on its lead over the leader."""
        task, A, leader, theta = self._task, self._asked.A, self._leader, self._theta
        if self._threshold is None:
            risk = {"delta": task.delta, "noise_std": task.noise_std}
            return largest_loss_bound(task.rivals, leader, theta, A, among=self._alive, **risk)[0]
        logdet = float(np.linalg.slogdet(A)[1]) - self._ridge_logdet
        limit = self._threshold(
            n_pulls=self._asked.n, dim=len(A), logdet=logdet, delta=task.delta, noise_std=task.noise_std
        )
        width = math.sqrt(2.0 * limit)
        factor = inverse_factor(A)
        found = task.rivals.rivals(
            leader, theta, [factor], lambda gap, square: gap - width * np.sqrt(square), 1, self._alive
        )
        return int(found.index[0])
