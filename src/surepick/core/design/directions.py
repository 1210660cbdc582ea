"""Directions: the differences a design must resolve, explicit or implied by a parameter.

Notation: y (d,) a direction; phi_y = y'A^-1 y. Identifying the best of the candidates under theta needs
y_b = (x_best - x_b) / (theta'(x_best - x_b) + epsilon) for every other candidate b, epsilon what the answer may lose;
nobody needs all of them in memory.
"""

from functools import cached_property
from typing import Protocol, final

import numpy as np

from surepick.arms.protocol import ArmSet
from surepick.core.linalg import Array, BoolArray, IntArray
from surepick.errors import InvalidInput, TiedArms

SMALLEST_GAP = 1e-140
"""Below this, gap^2 leaves the range of double precision."""


class Directions(Protocol):
    """What the solver may ask of the directions."""

    @property
    def n_directions(self) -> int:
        """How many there are at most."""
        ...

    def existing(self, index: IntArray) -> tuple[IntArray, Array]:
        """Return those row numbers that stand for a direction here, an earlier solve may have had others; and these."""
        ...

    def top(self, F: Array, n: int) -> tuple[IntArray, Array]:
        """Return the n directions with the largest |F'y|^2 and these values, largest first."""
        ...

    def vectors(self, index: IntArray) -> Array:
        """Return these directions as rows (n, d)."""
        ...


@final
class RowDirections:
    """Directions listed as the rows of a set."""

    def __init__(self, rows: ArmSet) -> None:
        self.rows = rows
        self.n_directions = rows.n_arms

    def existing(self, index: IntArray) -> tuple[IntArray, Array]:
        """Return the rows that are there and not zero."""
        index = index[index < self.n_directions]
        rows = self.rows.gather(index)
        is_direction = rows.any(axis=1)
        return index[is_direction], rows[is_direction]

    def top(self, F: Array, n: int) -> tuple[IntArray, Array]:
        """Return the n rows with the largest |F'y|^2 and these values, largest first."""
        return self.rows.top_quadratic(F, n)

    def vectors(self, index: IntArray) -> Array:
        """Return these rows (n, d)."""
        return self.rows.gather(index)


@final
class GapDirections:
    """Differences between the leader and every other candidate, each divided by its gap under theta and the slack.

    Args:
        candidates: what is compared.
        theta: the parameter.
        among: which candidates still count; None means all.
        leader: the candidate that leads; None means the best under theta. It must be ahead of all that count.
        epsilon: slack.

    Raises:
        TiedArms: another candidate is as good as the best to rounding, so T* is infinite.
    """

    def __init__(
        self,
        candidates: ArmSet,
        theta: Array,
        *,
        among: BoolArray | None = None,
        leader: int | None = None,
        epsilon: float = 0.0,
    ) -> None:
        self.candidates, self.theta, self.among, self.epsilon = candidates, theta, among, epsilon
        self.n_directions = candidates.n_arms
        self.leader = candidates.best(theta) if leader is None else leader
        closest = candidates.rivals(self.leader, theta, (), lambda gap: gap, 1, among)
        if not len(closest.index):
            raise InvalidInput("at least two different candidates are needed; there is nothing to separate.")
        x, rival = candidates.gather([self.leader])[0], int(closest.index[0])
        # Rounding of theta'(x - b): below it a gap has no digits left.
        rounding = 1e-14 * np.abs(theta) @ np.maximum(np.abs(x), np.abs(candidates.gather([rival])[0]))
        smallest = closest.smallest_gap + epsilon
        if smallest <= rounding:
            raise TiedArms(
                f"arms {self.leader} and {rival} are tied at the top under theta (gap {closest.smallest_gap:.3g}), so "
                "no number of pulls separates them and T* is infinite; ask for an answer within epsilon > 0 of "
                "the best instead, or drop one of the two."
            )
        if smallest < SMALLEST_GAP:
            raise InvalidInput(
                f"gaps must be at least {SMALLEST_GAP:g} for T* to be a number, got {smallest:.3g}; "
                "measure rewards in a smaller unit."
            )

    @cached_property
    def _is_rival(self) -> BoolArray:
        found = np.ones(self.n_directions, dtype=bool) if self.among is None else self.among.copy()
        # By number: in mapped coordinates rounding can give the leader a tiny gap to itself.
        found[self.candidates.copies(self.leader)] = False
        return found

    def existing(self, index: IntArray) -> tuple[IntArray, Array]:
        """Return the rows that are rivals of the leader: not itself, not its copies, not excluded."""
        index = index[index < self.n_directions]
        index = index[self._is_rival[index]]
        y, gaps = self._gaps(index)
        if (is_ahead := gaps > 0).all():
            return index, y / gaps[:, None]
        return index[is_ahead], y[is_ahead] / gaps[is_ahead, None]

    def _gaps(self, index: IntArray) -> tuple[Array, Array]:
        """Return differences (n, d) and gaps (n,), slack included."""
        y = self.candidates.gather([self.leader]) - self.candidates.gather(index)
        return y, y @ self.theta + self.epsilon

    def top(self, F: Array, n: int) -> tuple[IntArray, Array]:
        """Return the n rivals whose directions have the largest |F'y|^2 and these values, largest first."""
        epsilon = self.epsilon
        found = self.candidates.rivals(
            self.leader, self.theta, (F,), lambda gap, square: -square / (gap + epsilon) ** 2, n, self.among
        )
        return found.index, -found.score

    def vectors(self, index: IntArray) -> Array:
        """Return the directions of these rivals (n, d)."""
        y, gaps = self._gaps(index)
        scaled: Array = y / gaps[:, None]
        return scaled
