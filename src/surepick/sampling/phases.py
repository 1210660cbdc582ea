"""Phases as whole pulls: who is left, a design for them, which arms it really needs, and pulls in its proportions.

Notation: w weights on the support of a design, A(w) = sum w_i x_i x_i'; rows (m, d) the candidates left, or directions.
"""

import math
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from surepick.arms.base import ArmSet
from surepick.arms.finite import FiniteArms
from surepick.arms.views import Task
from surepick.core.betting.block import RANK_TOL
from surepick.core.design import Design
from surepick.core.design.certificate import apportion
from surepick.core.design.solve import farthest_pairs, optimal_design, pairwise_design
from surepick.core.linalg import square_norms
from surepick.sampling.base import SamplerContext
from surepick.sampling.schedules import Schedule
from surepick.types import Array, IntArray

# Relative gap of the designs of phases.
TOL = 1e-2
# Weights below these shares of the mean weight are tried without, largest cut first.
CUTS = (0.2, 0.01)
# Going without idle arms may cost this much of the value.
COST = 1.01
# A direction counts as measured by a design if no more than this share of it sticks out; rules have their own test.
RANGE_TOL = 1e-9
# Nobody pulls so often; beyond, whole numbers and floating-point ones differ.
MOST_PULLS = 2**53


def candidates_left(context: SamplerContext, n_candidates: int) -> IntArray:
    """Return the leader and everyone it has yet to be separated from, in increasing order; all before an estimate."""
    if context.alive is None or context.leader is None:
        return np.arange(n_candidates)
    left = context.alive.copy()
    left[context.leader] = True
    return np.flatnonzero(left)


@final
@dataclass(frozen=True, slots=True)
class Proportions:
    """Arms, their weights (sum 1), and the largest y'A(w)^-1 y over what the design is for."""

    arms: IntArray
    weights: Array
    value: float

    def pulls(self, n: float, *, pulls_per_nat: float = math.inf) -> "EvenlySpread":
        """Return n whole pulls, at least one of each arm: efficient rounding as in `Design.round`."""
        n_whole = max(math.ceil(min(n, MOST_PULLS)), len(self.arms))
        return EvenlySpread(self.arms, apportion(self.weights, n_whole), pulls_per_nat=pulls_per_nat)


def proportions_of(design: Design) -> Proportions:
    """Return the whole design."""
    return Proportions(design.support, design.weights, design.value)


def without_idle_arms(design: Design, arms: ArmSet, rows: Array, *, is_pairs: bool) -> Proportions:
    """Return the design without the arms that hardly matter to it, if that costs no more than a percent.

    A solver keeps tiny weights so that A(w) is regular. As whole pulls each would be one pull per block, which short
    blocks cannot afford; what is needed is that every direction is in the range of A(w).

    Args:
        design: what to thin out.
        arms: what its support refers to.
        rows: candidates whose differences the design is for, or with `is_pairs` False the directions themselves.
        is_pairs: which of the two.
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
    """Each arm as often as counted, in an order in which every stretch has about the same proportions.

    Asked for more than was counted, it goes on in the same proportions. Nothing of the phase's length is stored.

    Args:
        arms: what to pull.
        counts: how often each.
        pulls_per_nat: what a unit of evidence costs by this plan, if known.
    """

    def __init__(self, arms: IntArray, counts: IntArray, *, pulls_per_nat: float = math.inf) -> None:
        used = counts > 0
        self._arms: list[int] = arms[used].tolist()
        self._counts = counts[used].astype(np.float64)
        self._served = np.full(len(self._counts), 0.5)
        self._turn = self._served / self._counts
        self.n, self.pulls_per_nat = int(counts.sum()), pulls_per_nat

    def next(self) -> int:
        """Return the next arm."""
        slot = int(self._turn.argmin())
        self._served[slot] += 1.0
        self._turn[slot] = self._served[slot] / self._counts[slot]
        return self._arms[slot]


@final
class Designs:
    """Designs for those left, phase after phase; each solution starts from the one before.

    Args:
        task: its arms are what may be pulled, its candidates what may be left.
        is_pairs: whether a design is for the differences of those left, or for their values.
    """

    def __init__(self, task: Task, *, is_pairs: bool = True) -> None:
        self._task, self._is_pairs = task, is_pairs
        self._last: Design | None = None

    def next(self, left: IntArray, *, is_whole: bool = False) -> Proportions:
        """Return the design for these candidates, without idle arms unless it is to span."""
        arms, rows = self._task.rows, self._task.rivals.gather(left)
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
    """Says what to pull in an interval."""

    def plan(self, context: SamplerContext) -> EvenlySpread:
        """Return the pulls of the interval that opens."""
        ...


@final
class PhasedSampler:
    """The sampler of a phased algorithm: every interval as its planner says."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._pulls: EvenlySpread | None = None

    def open(self, context: SamplerContext) -> int:
        """Plan an interval."""
        self._pulls = self._planner.plan(context)
        return self._pulls.n

    def next(self) -> int:
        """Return the next arm of the interval; beyond its end, in the same proportions."""
        assert self._pulls is not None
        return self._pulls.next()

    def pulls_per_nat(self) -> float:
        """Return what the plan says: inf for a design for all pairs, which does not tell what the last one costs."""
        return math.inf if self._pulls is None else self._pulls.pulls_per_nat


class PhaseEnd(Protocol):
    """Says when a phase is over; to be asked once per block."""

    def __call__(self, n_pulls: int, left: IntArray, value: float, /) -> bool:
        """Return whether a phase begins, with so many results, these left, and this value of the design in force."""
        ...


@final
class PracticalPhases:
    """A phased algorithm whose rule looks inside phases: a spanning set, then blocks by schedule.

    Each block holds every arm of the design in force, so that it alone measures what the rule bets on; the design is
    for those left when its phase began.

    Args:
        task: what the algorithm is composed for.
        schedule: when blocks end.
        is_over: says when a phase ends and the next design is due.
        is_pairs: as for `Designs`.
    """

    def __init__(self, task: Task, schedule: Schedule, is_over: PhaseEnd, *, is_pairs: bool = True) -> None:
        self._n_candidates, self._schedule, self._is_over = task.rivals.n_arms, schedule, is_over
        self._designs, dim = Designs(task, is_pairs=is_pairs), task.rows.dim
        self._start = self._current = Proportions(task.spanning, np.full(dim, 1.0 / dim), 0.0)

    def plan(self, context: SamplerContext) -> EvenlySpread:
        """Return the pulls of a block."""
        t = context.n_asked
        if context.theta is None:
            return self._start.pulls(len(self._start.arms))
        left = candidates_left(context, self._n_candidates)
        if self._is_over(t, left, self._current.value):
            self._current = self._designs.next(left)
        return self._current.pulls(self._schedule.next_after(t) - t)
