"""Track-and-Stop (Garivier and Kaufmann 2016): arms without structure, each with a mean of its own.

    plan            w = the optimal proportions at the estimated means
    sampling        C-tracking: keep the counts near the sum of all plans so far, each moved to where no proportion is
                    below eps_t = (K^2 + t)^(-1/2) / 2; or
                    D-tracking: keep the counts near t w, but first pull any arm with fewer than sqrt(t) - K/2 pulls
    stopping        likelihood ratio gap^2 / (2 (1/N_leader + 1/N_rival)), smallest over rivals, above a threshold
    recommendation  the leader

Notation: K arms, N_a pulls of arm a, i the leader, gaps Delta_a = mean_i - mean_a, D_a = Delta_a^2 / 2. With
x_a(y) = y / (D_a - y), the optimal proportions are w ~ (1 for i, x_a(y) for the others) at the y in (0, min D) where
sum x_a(y)^2 = 1, and T* = (1 + sum x_a(y)) / y; noise_std cancels in w.

In linear terms these are K = d linearly independent arms, in any coordinates. The algorithm refuses more arms than
dimensions: these share information, which it would waste and its proofs do not cover.

Practical: C-tracking, which averages out plans made from poor estimates, and the pairwise rule (proved, checked after
every pull). `variant="paper"`: D-tracking, the plainer of the paper's two rules (optimal proportions are unique here,
so both are asymptotically optimal), and the rule `PairsThreshold`. The paper's own threshold log(2 t (K - 1)/delta) is
proved there for Bernoulli rewards alone; for Gaussian ones this later rule by Kaufmann and Koolen takes its place. The
paper's experiments stop with stopping="heuristic", which has no proof, and have Bernoulli rewards: their numbers of
pulls cannot be compared with Gaussian runs. Ties, at random in the paper, go to the lowest row number.
"""

import math
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from surepick.algorithms.options import Options
from surepick.arms.views import Task
from surepick.core.thresholds import PairsThreshold
from surepick.errors import InvalidInput
from surepick.sampling.base import SamplerContext
from surepick.sampling.choosers import Chooser, StartThenChoose
from surepick.stopping.base import Rule
from surepick.stopping.glr import GLR
from surepick.types import Array

# Deficits closer than this are a tie: rounding must not decide between arms.
TIE = 1e-7


@final
@dataclass(frozen=True, kw_only=True)
class TrackAndStop(Options):
    """Track-and-Stop: the exact optimal proportions for d linearly independent arms.

    Args:
        tracking: "C" follows the sum of all plans, "D" the plan in force.

    Examples:
        >>> import surepick as sp
        >>> sp.simulate(sp.problems.unit_basis([1.0, 0.5, 0.0]), "track-and-stop", n_runs=5, seed=0).mean
        287.0

    References:
        Garivier and Kaufmann (2016), "Optimal best arm identification with fixed confidence".
    """

    tracking: Literal["C", "D"] | None = None

    def compose(self, task: Task) -> tuple[StartThenChoose, Rule]:
        """Return the sampler and the stopping rule."""
        arms = task.rows
        if arms.n_arms != arms.dim:
            raise InvalidInput(
                f"track-and-stop needs linearly independent arms, as many as features, got {arms.n_arms} arms with "
                f"{arms.dim} features; use lazy-track-and-stop, which shares information between arms."
            )
        if task.rivals is not arms:
            raise InvalidInput(
                "track-and-stop compares the arms themselves and cannot be used with `candidates` or with noise_std "
                "for each arm; leave them out, or use lazy-track-and-stop."
            )
        own = GLR(threshold=PairsThreshold(n_arms=arms.n_arms), elimination=self.elimination)
        rule = own if self.is_own_rule else self.rule("pairwise")
        is_cumulative = self.own(self.tracking, practical="C", paper="D") == "C"
        return self.one_by_one(task, MeansChooser(task, is_cumulative=is_cumulative), rule)


@final
class MeansChooser(Chooser):
    """Tracks the optimal proportions at the estimated means; in a batch the plan stays and the counts grow."""

    def __init__(self, task: Task, *, is_cumulative: bool) -> None:
        super().__init__(task)
        self._rows, self._is_cumulative = task.rows.gather(np.arange(task.rows.n_arms)), is_cumulative
        self._w = np.zeros(len(self._rows))
        self._W: Array | None = None

    def look(self, context: SamplerContext) -> None:
        """Plan from the results so far; pending asks count as pulls."""
        super().look(context)
        means = self._rows @ self._theta
        gaps = means[self._leader] - means
        if self._alive is not None:
            gaps[~self._alive] = math.inf
        self._w = optimal_proportions(gaps, self._leader)
        if self._W is None:
            self._W = self._asked.counts.copy()  # pulls before the first plan leave no debt

    def pick(self) -> int:
        """Return the arm furthest behind, or one that must be explored."""
        N, n_arms = self._asked.counts, len(self._rows)
        t = float(N.sum())
        if self._is_cumulative:
            assert self._W is not None
            self._W += at_least(self._w, 0.5 / math.sqrt(n_arms**2 + t))
            behind = self._W - N
        elif N.min() < math.sqrt(t) - 0.5 * n_arms:
            behind = -N
        else:
            behind = t * self._w - N
        return int(np.argmax(behind >= behind.max() - TIE))


def optimal_proportions(gaps: Array, leader: int) -> Array:
    """Return the optimal proportions (K,) for these gaps to the leader; an infinite gap stands for "ruled out".

    Arms tied with the leader share everything equally. With r_a = min D / D_a and y = v min D the equation reads
    sum (v r_a / (1 - v r_a))^2 = 1. Its left side is convex and increasing, and at least 1 at v = 1/2: Newton's method
    from there falls to the root without ever passing it.
    """
    rivals = np.arange(len(gaps)) != leader
    closest = float(gaps[rivals].min())
    w: Array = np.zeros(len(gaps))
    w[leader] = 1.0
    if not closest > 0.0:
        w[gaps <= 0.0] = 1.0
        w /= w.sum()
        return w
    if math.isinf(closest):
        return w
    r = (closest / gaps[rivals]) ** 2
    v = 0.5
    for _ in range(60):
        x = v * r / (1.0 - v * r)
        excess = float(x @ x) - 1.0
        if excess <= 1e-14:
            break
        # The derivative of x in v is r / (1 - v r)^2 = (x + x^2) / v.
        v -= excess * v / (2.0 * float(x @ (x + x * x)))
    w[rivals] = v * r / (1.0 - v * r)
    w /= w.sum()
    return w


def at_least(w: Array, floor: float) -> Array:
    """Return the proportions of at least `floor` nearest to w in the largest coordinate: max(w - s, floor), sum 1.

    The others pay for each proportion that is raised; taking the same s from each keeps the largest change smallest.
    """
    above = np.sort(w - floor)[::-1]
    mass = 1.0 - floor * len(w)
    # As many coordinates stay above the floor as do so when they alone carry the mass.
    excess = (np.cumsum(above) - mass) / np.arange(1, len(w) + 1)
    n_above = int(np.flatnonzero(above > excess)[-1]) + 1
    projected: Array = np.maximum(w - floor - excess[n_above - 1], 0.0) + floor
    return projected
