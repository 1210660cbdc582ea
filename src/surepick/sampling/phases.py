"""Phases as whole pulls: who is left, which arms a design really needs, and pulls in its proportions.

Notation: w weights on the support of a design, A(w) = sum w_i x_i x_i'; rows (m, d) the candidates left, or directions.
"""

from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from surepick.arms.protocol import ArmSet
from surepick.core.block import RANK_TOL
from surepick.core.design import Design
from surepick.core.design.pairs import farthest_pairs
from surepick.core.design.rounding import apportion
from surepick.core.linalg import Array, IntArray
from surepick.core.rows import square_norms
from surepick.sampling.protocol import Situation
from surepick.sampling.schedules import Schedule

# Weights below these shares of the mean weight are tried without, largest cut first.
CUTS = (0.2, 0.01)
# Going without idle arms may cost this much of the value.
COST = 1.01
# A direction counts as measured by a design if no more than this share of it sticks out; rules have their own test.
RANGE_TOL = 1e-9
# Nobody pulls so often; beyond, whole numbers and floating-point ones differ.
MOST_PULLS = 2**53


def candidates_left(situation: Situation, n_candidates: int) -> IntArray:
    """Return the leader and everyone it has yet to be separated from, in increasing order; all before an estimate."""
    if situation.alive is None or situation.leader is None:
        return np.arange(n_candidates)
    left = situation.alive.copy()
    left[situation.leader] = True
    return np.flatnonzero(left)


@final
@dataclass(frozen=True, slots=True)
class Proportions:
    """Arms, their weights (sum 1), and the largest y'A(w)^-1 y over what the design is for."""

    arms: IntArray
    weights: Array
    value: float

    def round(self, n: int) -> IntArray:
        """Return whole pulls per arm, at least one each, sum max(n, arms): efficient rounding as in `Design.round`."""
        return apportion(self.weights, max(min(n, MOST_PULLS), len(self.arms)))


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
    """

    def __init__(self, arms: IntArray, counts: IntArray) -> None:
        used = counts > 0
        self._arms: list[int] = arms[used].tolist()
        self._counts = counts[used].astype(np.float64)
        self._served = np.full(len(self._counts), 0.5)
        self._turn = self._served / self._counts
        self.n = int(counts.sum())

    def next(self) -> int:
        """Return the next arm."""
        slot = int(self._turn.argmin())
        self._served[slot] += 1.0
        self._turn[slot] = self._served[slot] / self._counts[slot]
        return self._arms[slot]


class Planner(Protocol):
    """Says which proportions to follow."""

    def plan(self, situation: Situation) -> Proportions:
        """Return what to follow until the next look; `situation.theta` exists."""
        ...

    def pulls_per_nat(self) -> float:
        """Return how many pulls one unit of evidence costs by the current plan, for noise_std 1; inf if unknown."""
        ...


@final
class PlannedBlocks:
    """The sampler of a phased algorithm whose rule looks inside phases: a spanning set, then blocks by schedule.

    Each block holds every arm of the proportions in force, so that it alone measures what the rule bets on.
    """

    def __init__(self, start: IntArray, planner: Planner, schedule: Schedule) -> None:
        self._start, self._planner, self._schedule = start, planner, schedule
        self._pulls = EvenlySpread(start, np.ones(len(start), dtype=np.int64))

    def open(self, situation: Situation) -> int:
        """Plan a block."""
        t = situation.n_asked
        if situation.theta is None:
            self._pulls = EvenlySpread(self._start, np.ones(len(self._start), dtype=np.int64))
        else:
            proportions = self._planner.plan(situation)
            counts = proportions.round(self._schedule.next_after(t) - t)
            self._pulls = EvenlySpread(proportions.arms, counts)
        return self._pulls.n

    def next(self) -> int:
        """Return the next arm."""
        return self._pulls.next()

    def pulls_per_nat(self) -> float:
        """Return what the planner says."""
        return self._planner.pulls_per_nat()
