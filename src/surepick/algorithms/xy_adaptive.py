"""XY-adaptive (Soare, Lazaric and Munos 2014): phases of a static design for the pairs left, each from fresh data.

    phase j         candidates left, differences Y_j; start from d spanning pulls
    arm             greedy: the pull that minimises max over Y_j of y'A^-1 y, A the information of the phase so far
    end of phase    when that maximum has fallen to alpha times its value at the end of the phase before
    elimination     least squares from the pulls of this phase alone; z goes if some z' is ahead by
                    noise_std |z' - z| sqrt(2 log(pi^2 K^2 j^2/(3 delta))), |.| in the norm of A^-1
    stopping        when one candidate is left

The first phase compares with 1/(d (d + 1) + 1). The paper writes the end of a phase with values divided by numbers of
pulls, where the values are those of designs with weights that sum to one; y'A^-1 y has that division in it already, and
public codes that divide again have phases that grow by 1/sqrt(alpha) instead of 1/alpha.

Proved: the tests that can hurt are those of the best candidate against K - 1 others, the risks 3 delta/(pi^2 K^2 j^2)
sum to delta (K - 1)/(2 K^2). The pulls of a phase depend on no reward of it, so a phase is planned as a whole; their
order does not matter to the test and is an even mixture. Departures: the paper starts a phase from A = I, which biases
the estimate; the greedy choice settles, so after `GREEDY_PULLS` pulls the rest of a phase repeats its proportions; with
more than `LARGEST_TABLE` pairs of arm and difference the certified design for all pairs takes the place of the greedy
choice, which approximates it.

Practical: certified designs, data of all phases kept, betting in blocks by schedule. Rejected candidates leave the
design at the end of a phase. Candidates need not be arms.
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from surepick.algorithms.options import Options
from surepick.arms.views import Task
from surepick.core.checks import check_fraction
from surepick.sampling.base import SamplerContext
from surepick.sampling.fixed import LARGEST_TABLE, GreedyAllocation
from surepick.sampling.phases import MOST_PULLS, Designs, EvenlySpread, PhasedSampler, PracticalPhases, candidates_left
from surepick.stopping.base import Rule
from surepick.stopping.phases import Phases
from surepick.types import Array, IntArray

GREEDY_PULLS = 2000
"""Greedy pulls after which a phase goes on in the proportions reached."""


@final
@dataclass(frozen=True, kw_only=True)
class XYAdaptive(Options):
    """XY-adaptive: phases of a static design for the pairs left.

    Args:
        alpha: factor by which the uncertainty falls from phase to phase.

    Examples:
        >>> import surepick as sp
        >>> sp.simulate(sp.problems.soare(3, angle=0.5), "xy-adaptive", n_runs=5, seed=0).mean
        79.4

    References:
        Soare, Lazaric and Munos (2014), "Best-arm identification in linear bandits".
    """

    alpha: float = 0.1
    elimination: bool | None = None

    def compose(self, task: Task) -> tuple[PhasedSampler, Rule]:
        """Return the sampler and the stopping rule."""
        alpha = check_fraction("alpha", self.alpha)
        phases = XYPhases(task, alpha)
        rule = Phases(price=phases.price, name="xy-adaptive") if self.is_own_rule else self.rule("betting")
        planner = (
            phases if self.is_paper else PracticalPhases(task, self.times(rule), WhenAsLongAsPublished(task, alpha))
        )
        return PhasedSampler(planner), rule


def first_uncertainty(dim: int) -> float:
    """Return the largest y'A^-1 y that the first phase compares itself with."""
    return 1.0 / (dim * (dim + 1) + 1)


@final
class XYPhases:
    """The paper's phases j = 1, 2, ..., one block each."""

    def __init__(self, task: Task, alpha: float) -> None:
        self._task, self._alpha = task, alpha
        self._uncertainty = first_uncertainty(task.rows.dim)
        self._designs = Designs(task)

    def price(self, j: int) -> float:
        """Return the log of tests over risk, log(pi^2 K^2 j^2/(3 delta))."""
        return 2.0 * math.log(math.pi * self._task.rivals.n_arms * j) - math.log(3.0 * self._task.delta)

    def plan(self, context: SamplerContext) -> EvenlySpread:
        """Plan pulls until the uncertainty of the pairs left has fallen by alpha."""
        task, target = self._task, self._alpha * self._uncertainty
        left = candidates_left(context, task.rivals.n_arms)
        n_pairs = len(left) * (len(left) - 1) // 2
        if n_pairs * task.rows.n_arms > LARGEST_TABLE:
            chosen = self._designs.next(left, is_whole=True)
            # Rounding to n whole pulls costs a factor of at most n/(n - size of the support).
            n = math.ceil(chosen.value / target)
            self._uncertainty = chosen.value / n
            return chosen.pulls(n + len(chosen.arms))
        rows, table = task.rivals.gather(left), np.vstack([chunk for _, chunk in task.rows.chunks()])
        first, second = np.triu_indices(len(rows), 1)
        counts, self._uncertainty = greedy_counts(table, rows[first] - rows[second], task.spanning, target)
        return EvenlySpread(np.arange(len(table)), counts)


def greedy_counts(arms: Array, differences: Array, start: IntArray, target: float) -> tuple[IntArray, float]:
    """Return pulls per arm (K,) of the greedy XY allocation, and the largest y'A^-1 y they leave, at most `target`.

    Args:
        arms: the arms (K, d).
        differences: the directions to resolve (m, d).
        start: row numbers that span, pulled first.
        target: largest y'A^-1 y to end with.
    """
    allocation = GreedyAllocation(arms, differences)
    for arm in start.tolist():
        allocation.note(arm)
    for _ in range(GREEDY_PULLS):
        if allocation.largest() <= target:
            break
        allocation.next()
    counts = allocation.counts.astype(np.int64)
    used = np.flatnonzero(counts)
    value = _largest_square(arms[used], counts[used], differences)
    if value > target:
        # Every count is multiplied by at least value/target, so every y'A^-1 y is divided by at least that.
        counts = np.ceil(np.minimum(counts * (value / target), MOST_PULLS / len(counts))).astype(np.int64)
        value = _largest_square(arms[used], counts[used], differences)
    return counts, value


def _largest_square(arms: Array, counts: IntArray, differences: Array) -> float:
    A = arms.T @ (counts[:, None] * arms)
    return float(np.einsum("ij,ji->i", differences, np.linalg.solve(A, differences.T)).max())


@final
class WhenAsLongAsPublished:
    """Ends a practical phase when it is as long as the paper's."""

    def __init__(self, task: Task, alpha: float) -> None:
        self._uncertainty, self._alpha, self._began = first_uncertainty(task.rows.dim), alpha, 0

    def __call__(self, n_pulls: int, left: IntArray, value: float, /) -> bool:
        """Return whether the pulls of the phase have made the uncertainty fall by alpha."""
        if n_pulls < self._began + value / self._uncertainty:
            return False
        self._began, self._uncertainty = n_pulls, self._alpha * self._uncertainty
        return True
