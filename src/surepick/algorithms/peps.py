"""PEPS (Li, Jamieson and Jain 2024): a game against samples from the posterior; anytime.

Notation: theta, A (d, d) estimate and information; z^ the leader; w (K,) weights of an AdaHedge learner over the arms.

    alternatives    theta_i ~ N(theta, noise_std^2 A^-1), kept if another candidate than z^ is best under theta_i, until
                    `n_kept` are kept or `most_draws` are drawn
    gains           of arm k: the mean of (a_k'(theta_i - theta))^2 over those that were kept. If none was, of the
                    closest alternative lambda in the norm of A (which is LinGame without optimism)
    arm             drawn from w; a share `g_mix` of the pulls follows the G-optimal design
    answer          z^, at any time

The paper proves that the posterior probability of wrong answers falls at the best possible rate, for a version with
known learning rates and a share of the G-optimal design that decays as t^(-1/4). It has no delta and no stopping rule.
Here the evidence rule stops the run, in both variants, and its guarantee does not depend on the samples.

Practical: at most 20 draws, least squares after a spanning set, and forced exploration at the floor of Lazy
Track-and-Stop. `variant="paper"`: 20 samples and a ridge of 0.1, as in the public code, which draws up to 150,000 times
and then freezes; here the closest alternative takes over after 4,000 draws. The code starts without results, with
theta = (1, ..., 1) and a mixability gap of 0.01 in AdaHedge; here a spanning set comes first, and that gap is 0.

Cost: up to `most_draws` products with the candidates per pull. Where one answer has most of the posterior, nearly all
draws are in vain.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from surepick.algorithms.options import Options
from surepick.arms.views import Task
from surepick.core.checks import check_count
from surepick.core.linalg import inverse_factor
from surepick.sampling.adahedge import AdaHedge
from surepick.sampling.alternatives import Alternatives, Rows
from surepick.sampling.base import SamplerContext
from surepick.sampling.choosers import Chooser, StartThenChoose
from surepick.stopping.base import Rule
from surepick.types import Array

# Of the public code.
RIDGE = 0.1
# Draws at once; with a small table of candidates, whose products are one matrix.
CHUNK = 20


@final
@dataclass(frozen=True, kw_only=True)
class Peps(Options):
    """PEPS: pull what tells the estimate from posterior samples with another best arm.

    Args:
        n_kept: samples with another best arm that a round needs.
        most_draws: samples drawn in a round at most; default 20, in the paper variant 4,000.
        exploration: factor of the floor on the smallest eigenvalue; 0 switches it off.
        g_mix: share of the pulls that follow the G-optimal design; default 0, a twentieth under the betting rule.

    Examples:
        >>> import surepick as sp
        >>> sp.simulate(sp.problems.soare(3, angle=0.5), "peps", n_runs=5, seed=0).mean
        91.2

    References:
        Li, Jamieson and Jain (2024), "Optimal exploration is no harder than Thompson sampling".
    """

    plans_with_noise: ClassVar[bool] = True
    n_kept: int = 20
    most_draws: int | None = None
    exploration: float | None = None
    g_mix: float | None = None

    def compose(self, task: Task) -> tuple[StartThenChoose, Rule]:
        """Return the sampler and the stopping rule."""
        rule = self.rule("evidence")
        g_mix = (rule.usual_g_mix if rule.needs_fixed_blocks else 0.0) if self.g_mix is None else self.g_mix
        chooser = PepsChooser(
            task,
            n_kept=check_count("n_kept", self.n_kept, least=1),
            most_draws=check_count("most_draws", self.own(self.most_draws, practical=20, paper=4_000), least=1),
            ridge=RIDGE * task.rows.metric() if self.is_paper else None,
            floor=self.own(self.exploration, practical=0.3, paper=0.0),
            g_mix=g_mix,
        )
        least = rule.min_block(task)
        return StartThenChoose(task.spanning, chooser, rule=rule, schedule=self.schedule, least=least), rule


@final
class PepsChooser(Chooser):
    """Rounds of the game; in a batch the estimate stays and the learner moves on."""

    def __init__(
        self, task: Task, *, n_kept: int, most_draws: int, ridge: Array | None, floor: float, g_mix: float
    ) -> None:
        super().__init__(task, floor=floor, g_mix=g_mix, ridge=ridge)
        self._n_kept, self._most_draws, self._ridge = n_kept, most_draws, ridge
        self._rows, self._alternatives = Rows(task.rows), Alternatives(task.rivals)
        self._hedge = AdaHedge(task.rows.n_arms)
        self._rng = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=(1,)))

    def look(self, context: SamplerContext) -> None:
        """Take in the results so far."""
        super().look(context)
        if self._ridge is not None:
            estimate = context.estimate
            self._theta = np.asarray(np.linalg.solve(estimate.A + self._ridge, estimate.b), dtype=np.float64)
            self._leader, self._alive = self._task.rivals.best(self._theta), None

    def choose(self) -> int:
        """Play a round and return an arm drawn from the weights, unless another must be explored."""
        shares = np.cumsum(self._hedge.weights)
        self._drawn = int(np.searchsorted(shares, self._rng.random() * shares[-1], side="right"))
        self._hedge.feed(-self.gains())
        return super().choose()

    def pick(self) -> int:
        """Return the arm drawn."""
        return self._drawn

    def gains(self) -> Array:
        """Return the gains (K,) of this round."""
        apart = self.samples()
        if not len(apart):
            found = self._alternatives.closest(self._leader, self._theta, self._asked.A_inv, self._alive)
            if found is None or not found.gap > 0.0:
                return np.zeros(self._rows.arms.n_arms)
            # theta - lambda = (gap / q) A^-1 y, and gap / q = 2 cost / gap.
            apart = self._asked.A_inv.dot(found.y)[None] * (2.0 * found.cost / found.gap)
        gains: Array = np.mean([np.square(self._rows.times(one)) for one in apart], axis=0)
        return gains

    def samples(self) -> Array:
        """Return theta_i - theta (n, d) for the samples with another best candidate, n at most `n_kept`."""
        factor, rivals = inverse_factor(self._asked.A), self._alternatives.rivals(self._leader, self._alive)
        kept, n_drawn = list[Array](), 0
        while len(kept) < self._n_kept and n_drawn < self._most_draws:
            n = min(CHUNK, self._most_draws - n_drawn)
            n_drawn += n
            draws = self._task.noise_std * self._rng.standard_normal((n, len(self._theta))) @ factor.T
            best = self._alternatives.rows.best(self._theta + draws)
            kept.extend(draws[rivals[best]])
        return np.array(kept[: self._n_kept]).reshape(-1, len(self._theta))
