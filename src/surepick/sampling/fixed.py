"""Pulls that depend on no reward: a starting set, then an endless sequence of arms.

Notation: A (d, d) information of the pulls so far; Y (m, d) the directions to resolve; q_y = y'A^-1 y;
h_a = x_a'A^-1 x_a; N_a pulls of arm a.

The sequence of arms is the same for all results and all batch sizes.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol, final

import numpy as np

from surepick.core.linalg import inverse
from surepick.sampling.base import HasDesign, Sampler, SamplerContext
from surepick.sampling.schedules import ScheduleOption, schedule_for
from surepick.stopping.base import Rule
from surepick.types import Array, IntArray

LARGEST_TABLE = 200_000
"""Pairs (arm, direction) up to which the greedy allocation is used; above, the certified design is tracked."""

# Values within this relative distance are a tie: rounding must not decide between arms.
TIE = 1e-9
# Rank-one updates between two fresh computations of the inverse.
REFRESH = 256


class Source(Protocol):
    """An endless sequence of arms."""

    def note(self, arm: int) -> None:
        """Take in a pull of the starting set; most sequences ignore it."""
        return

    def next(self) -> int:
        """Return the next arm."""
        ...


@final
class FixedSampler(Sampler):
    """A starting set, then the arms of a source; the schedule sets the blocks and changes no arm.

    Args:
        start: arms pulled first, and again while the results do not span. Empty if the source needs none.
        source: gives every later arm.
        rule: the stopping rule, which may need blocks of some length.
        schedule: when blocks end, for rules that decide between blocks; None means the default of the rule.
        least: fewest pulls of a block.
        pulls_per_nat: pulls per nat of evidence under this design, if known.
    """

    def __init__(
        self,
        start: Sequence[int] | IntArray,
        source: Source,
        *,
        rule: Rule,
        least: int,
        schedule: ScheduleOption = None,
        pulls_per_nat: float = math.inf,
    ) -> None:
        self._start = [int(arm) for arm in start]
        self._source = source
        self._schedule = schedule_for(rule, schedule)
        self._least, self._pulls_per_nat = least, pulls_per_nat
        self._turn = 0

    def open(self, context: SamplerContext) -> int:
        """Return the length of the block; reads no reward."""
        if context.theta is None and self._start and not context.pending:
            self._turn = 0
            return len(self._start)
        t = context.n_asked
        return max(self._schedule.next_after(t) - t, self._least)

    def next(self) -> int:
        """Return the next arm."""
        if self._turn == len(self._start):
            return self._source.next()
        arm = self._start[self._turn]
        self._turn += 1
        self._source.note(arm)
        return arm

    def pulls_per_nat(self) -> float:
        """Return the given pulls per nat of evidence."""
        return self._pulls_per_nat

    def weights(self) -> Mapping[int, float]:
        """Return the weights of the design; empty if the arms come from no design."""
        return self._source.weights() if isinstance(self._source, HasDesign) else {}


@final
class Drawn(Source):
    """Independent draws from a design, given by its support and weights."""

    def __init__(self, support: IntArray, weights: Array, rng: np.random.Generator) -> None:
        self._support, self._rng = support, rng
        self._cumulative = np.cumsum(weights)

    def next(self) -> int:
        """Return a draw."""
        place = np.searchsorted(self._cumulative, self._rng.random() * self._cumulative[-1], side="right")
        return int(self._support[min(int(place), len(self._support) - 1)])


@final
class GreedyAllocation(Source):
    """The incremental allocation of Soare, Lazaric and Munos (2014): argmin over a of max over y after a pull of a.

    By the Sherman-Morrison formula q_y becomes q_y - (x_a'A^-1 y)^2 / (1 + h_a), which is at least q_y / (1 + h_a). So
    only directions with q_y >= max q / (1 + max h) can be the largest afterwards. Soon such directions are few, and
    the others cost O(m d) per pull.

    Ties, which the paper breaks at random, go to the arm pulled least so far, then to the lowest row number. Row
    numbers alone would get stuck: on the unit basis no single pull lowers the maximum, so all arms always tie.

    Args:
        rows: the arms (K, d).
        directions: Y (m, d).
    """

    def __init__(self, rows: Array, directions: Array) -> None:
        self._rows, self._directions = rows, directions
        self.counts = np.zeros(len(rows))
        self._A = np.zeros((rows.shape[1], rows.shape[1]))
        self._A_inv = self._A
        self._q = self._h = np.empty(0)
        self._age = REFRESH

    def note(self, arm: int) -> None:
        """Take in a pull of the starting set."""
        self._count(arm)
        self._age = REFRESH

    def largest(self) -> float:
        """Return max over y of q_y."""
        if self._age >= REFRESH:
            self._refresh()
        return float(self._q.max())

    def next(self) -> int:
        """Return the arm whose pull leaves the smallest max over y of q_y."""
        worst = self._worst_after()
        ties = np.flatnonzero(worst <= (1.0 + TIE) * worst.min())
        arm = int(ties[np.argmin(self.counts[ties])])
        u = self._A_inv @ self._rows[arm]
        scale = 1.0 + self._h[arm]
        self._q -= (self._directions @ u) ** 2 / scale
        self._h -= (self._rows @ u) ** 2 / scale
        self._A_inv -= u[:, None] * (u / scale)
        self._count(arm)
        self._age += 1
        return arm

    def _count(self, arm: int) -> None:
        x = self._rows[arm]
        self._A += x[:, None] * x
        self.counts[arm] += 1.0

    def _worst_after(self) -> Array:
        """Return max over y of q_y after one more pull of each arm (K,)."""
        largest, q, h = self.largest(), self._q, self._h
        kept = np.flatnonzero(q >= (1.0 - TIE) * largest / (1.0 + h.max()))
        along = self._rows @ (self._A_inv @ self._directions[kept].T)
        worst: Array = (q[kept] - along * along / (1.0 + h)[:, None]).max(axis=1)
        return worst

    def _refresh(self) -> None:
        self._A_inv = inverse(self._A)
        self._q = np.einsum("ij,ij->i", self._directions @ self._A_inv, self._directions)
        self._h = np.einsum("ij,ij->i", self._rows @ self._A_inv, self._rows)
        self._age = 0
