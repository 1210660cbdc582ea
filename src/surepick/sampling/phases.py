"""Phases: the candidates left, a design for them without idle arms, and whole pulls in its proportions.

Notation: w weights on the support of a design, A(w) = sum w_i x_i x_i'; rows (m, d) the candidates left, or directions.
"""

import math
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from surepick.arms.base import ArmSet
from surepick.arms.finite import FiniteArms
from surepick.arms.views import Task, divided
from surepick.core.betting.block import RANK_TOL
from surepick.core.design import Design
from surepick.core.design.certificate import apportion
from surepick.core.design.solve import farthest_pairs, optimal_design, pairwise_design
from surepick.core.linalg import square_norms
from surepick.sampling.base import SamplerContext
from surepick.sampling.schedules import Schedule
from surepick.types import Array, IntArray

# Relative gap at which the solver of a design stops.
TOL = 1e-2
# Arms with a weight below these shares of the mean are idle if the design works without them; largest share first.
CUTS = (0.2, 0.01)
# Largest factor by which dropping idle arms may raise the value.
COST = 1.01
# A design measures a direction if at most this share of it is outside its range; rules have their own test.
RANGE_TOL = 1e-9
# Longest phase; beyond, floating-point numbers do not represent every whole number.
MOST_PULLS = 2**53


def candidates_left(context: SamplerContext, n_candidates: int) -> IntArray:
    """Return the leader and the candidates not separated from it, in order; all before there is an estimate."""
    if context.alive is None or context.leader is None:
        return np.arange(n_candidates)
    left = context.alive.copy()
    left[context.leader] = True
    return np.flatnonzero(left)


@final
@dataclass(frozen=True, slots=True)
class Proportions:
    """Arms, their weights (sum 1), and the largest y'A(w)^-1 y over the design's directions."""

    arms: IntArray
    weights: Array
    value: float

    def pulls(self, n: float, *, pulls_per_nat: float = math.inf) -> "EvenlySpread":
        """Return n whole pulls, at least one of each arm: efficient rounding as in `Design.round`."""
        n_whole = max(math.ceil(min(n, MOST_PULLS)), len(self.arms))
        return EvenlySpread(self.arms, apportion(self.weights, n_whole), pulls_per_nat=pulls_per_nat)


def proportions_of(design: Design) -> Proportions:
    """Return the proportions of the whole design."""
    return Proportions(design.support, design.weights, design.value)


def without_idle_arms(design: Design, arms: ArmSet, rows: Array, *, is_pairs: bool) -> Proportions:
    """Return the design without its idle arms, if that costs at most one percent of the value.

    A solver keeps tiny weights so that A(w) is regular. Rounding would turn each into one pull per block, too many for
    short blocks. It suffices that every direction is in the range of A(w).

    Args:
        design: the design.
        arms: the arms that its support numbers.
        rows: the candidates, or the directions.
        is_pairs: whether the design is for the differences of the rows, or for the rows themselves.
    """
    for cut in CUTS:
        kept = design.weights >= cut / len(design.weights)
        if kept.all():
            continue
        weights = design.weights[kept] / design.weights[kept].sum()
        value = _worst(np.sqrt(weights)[:, None] * arms.gather(design.support[kept]), rows, is_pairs=is_pairs)
        if value <= COST * design.value:
            return Proportions(design.support[kept], weights, value)
    return proportions_of(design)


def _worst(scaled: Array, rows: Array, *, is_pairs: bool) -> float:
    """Return the largest y'A^+ y for A = scaled'scaled, inf if some y is not in its range."""
    spread, axes = np.linalg.eigh(scaled.T @ scaled)
    has_rank = spread > RANK_TOL * spread[-1]
    along = (rows - rows[0] if is_pairs else rows) @ axes
    if (square_norms(along[:, ~has_rank]) > RANGE_TOL**2 * square_norms(along)).any():
        return np.inf
    mapped = along[:, has_rank] / np.sqrt(spread[has_rank])
    return float(farthest_pairs(mapped, 1)[1][0] if is_pairs else square_norms(mapped).max())


@final
class EvenlySpread:
    """A sequence with given counts of each arm, every part of which has about the same proportions.

    Beyond its end the sequence goes on in the same proportions. Memory does not grow with its length.

    Args:
        arms: the arms.
        counts: pulls of each arm.
        pulls_per_nat: pulls per nat of evidence under this plan, if known.
    """

    def __init__(self, arms: IntArray, counts: IntArray, *, pulls_per_nat: float = math.inf) -> None:
        used = counts > 0
        self._arms: list[int] = arms[used].tolist()
        self._counts = counts[used].astype(np.float64)
        self._served = np.full(len(self._counts), 0.5)
        self._turn = self._served / self._counts
        self.arms, self.counts = arms[used], counts[used]
        self.n, self.pulls_per_nat = int(counts.sum()), pulls_per_nat

    def next(self) -> int:
        """Return the next arm."""
        slot = int(self._turn.argmin())
        self._served[slot] += 1.0
        self._turn[slot] = self._served[slot] / self._counts[slot]
        return self._arms[slot]


@final
class Designs:
    """Designs for the candidates left, phase after phase; each is solved from the previous one.

    Args:
        task: the task of the run.
        is_pairs: whether a design is for the differences of the candidates, or for their values.
    """

    def __init__(self, task: Task, *, is_pairs: bool = True) -> None:
        self._task, self._is_pairs = task, is_pairs
        self._last: Design | None = None

    def next(self, left: IntArray, *, is_whole: bool = False, stds: Array | None = None) -> Proportions:
        """Return the design for these candidates, without idle arms unless `is_whole`.

        Args:
            left: the candidates.
            is_whole: whether idle arms stay.
            stds: the noise of every arm (K,), if a design should prefer quiet arms.
        """
        rows = self._task.rivals.gather(left)
        arms: ArmSet = self._task.rows if stds is None else divided(self._task.rows, stds)
        if self._is_pairs:
            self._last = pairwise_design(arms, rows, tol=TOL, warm_start=self._last)
        else:
            directions = FiniteArms.rows_only(rows, least=1)
            self._last = optimal_design(arms, directions, tol=TOL, warm_start=self._last)
        return (
            proportions_of(self._last)
            if is_whole
            else without_idle_arms(self._last, arms, rows, is_pairs=self._is_pairs)
        )


class Planner(Protocol):
    """Plans the pulls of a block."""

    def plan(self, context: SamplerContext) -> EvenlySpread:
        """Return the pulls of the block that opens."""
        ...


@final
class PhasedSampler:
    """The sampler of a phased algorithm; its planner plans every block."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._pulls: EvenlySpread | None = None

    def open(self, context: SamplerContext) -> int:
        """Plan a block."""
        self._pulls = self._planner.plan(context)
        return self._pulls.n

    def next(self) -> int:
        """Return the next arm of the block; beyond its end, in the same proportions."""
        assert self._pulls is not None
        return self._pulls.next()

    def pulls_per_nat(self) -> float:
        """Return the value of the plan; inf for a design for all pairs, where the cost of the last pair is unknown."""
        return math.inf if self._pulls is None else self._pulls.pulls_per_nat


class PhaseEnd(Protocol):
    """Decides when a phase ends; called once per block."""

    def __call__(self, n_pulls: int, left: IntArray, value: float, /) -> bool:
        """Return whether the next phase begins.

        Args:
            n_pulls: pulls asked for so far.
            left: the candidates left.
            value: the value of the current design.
        """
        ...


@final
class PracticalPhases:
    """The planner of a phased algorithm whose rule decides inside phases: a spanning set, then blocks by schedule.

    Each block holds every arm of the current design, so the block alone measures every difference that the rule bets
    on. The design is for the candidates left when its phase began.

    Args:
        task: the task of the run.
        schedule: when blocks end.
        is_over: decides when a phase ends and the next design is due.
        is_pairs: as for `Designs`.
        minds_noise: whether designs prefer arms that seem quiet, where arms may differ in noise.
    """

    def __init__(
        self, task: Task, schedule: Schedule, is_over: PhaseEnd, *, is_pairs: bool = True, minds_noise: bool = False
    ) -> None:
        self._n_candidates, self._schedule, self._is_over = task.rivals.n_arms, schedule, is_over
        self._minds_noise = minds_noise
        self._designs, dim = Designs(task, is_pairs=is_pairs), task.rows.dim
        self._start = self._current = Proportions(task.spanning, np.full(dim, 1.0 / dim), 0.0)

    def plan(self, context: SamplerContext) -> EvenlySpread:
        """Return the pulls of a block."""
        t = context.n_asked
        if context.theta is None:
            return self._start.pulls(len(self._start.arms))
        left = candidates_left(context, self._n_candidates)
        if self._is_over(t, left, self._current.value):
            self._current = self._designs.next(left, stds=context.stds if self._minds_noise else None)
        return self._current.pulls(self._schedule.next_after(t) - t)
