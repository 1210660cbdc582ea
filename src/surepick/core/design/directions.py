"""Directions: the differences a design must resolve, explicit or implied by a parameter.

Notation: y (d,) a direction; phi_y = y'A^-1 y. Identifying the best of the candidates under theta needs
y_b = (x_best - x_b) / (theta'(x_best - x_b) + epsilon) for every other candidate b, epsilon what the answer may lose;
the m best need that for each of them. Nobody needs all of them in memory.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol, final

import numpy as np

from surepick.arms.base import ArmSet
from surepick.errors import InvalidInput, TiedArms
from surepick.types import Array, BoolArray, IntArray

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
    """Differences between the leaders and every other candidate, each divided by its gap under theta and the slack.

    The one of leader number i (in their order) and candidate b has the number i K + b.

    Args:
        candidates: what is compared.
        theta: the parameter.
        among: which candidates still count; None means all.
        leaders: the candidates that lead; None means the best under theta. They must be ahead of all others that count.
        epsilon: slack.

    Raises:
        TiedArms: another candidate is as good as a leader to rounding, so T* is infinite.
    """

    def __init__(
        self,
        candidates: ArmSet,
        theta: Array,
        *,
        among: BoolArray | None = None,
        leaders: Sequence[int] | None = None,
        epsilon: float = 0.0,
    ) -> None:
        self.candidates, self.theta, self.epsilon = candidates, theta, epsilon
        self.leaders = np.array([candidates.best(theta)] if leaders is None else leaders)
        self.n_directions = len(self.leaders) * candidates.n_arms
        self.among = among
        if len(self.leaders) > 1:  # else the leader is passed over anyway
            self.among = self._is_rival
        for leader in self.leaders.tolist():
            self._check_ahead(leader)

    def _check_ahead(self, leader: int) -> None:
        """Refuse a leader that is ahead of nobody, or not by a number."""
        candidates, theta, epsilon = self.candidates, self.theta, self.epsilon
        closest = candidates.rivals(leader, theta, (), lambda gap: gap, 1, self.among)
        if not len(closest.index):
            raise InvalidInput("at least two different candidates are needed; there is nothing to separate.")
        x, rival = candidates.gather([leader])[0], int(closest.index[0])
        # Rounding of theta'(x - b): below it a gap has no digits left.
        rounding = 1e-14 * np.abs(theta) @ np.maximum(np.abs(x), np.abs(candidates.gather([rival])[0]))
        smallest = closest.smallest_gap + epsilon
        if smallest <= rounding:
            raise TiedArms(
                f"arms {leader} and {rival} are tied at the top under theta (gap {closest.smallest_gap:.3g}), so "
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
        found = np.ones(self.candidates.n_arms, dtype=bool) if self.among is None else self.among.copy()
        # By number: in mapped coordinates rounding can give the leader a tiny gap to itself.
        for leader in self.leaders.tolist():
            found[self.candidates.copies(leader)] = False
        return found

    def existing(self, index: IntArray) -> tuple[IntArray, Array]:
        """Return those of rivals of the leaders: not themselves, not their copies, not excluded."""
        index = index[index < self.n_directions]
        index = index[self._is_rival[index % self.candidates.n_arms]]
        y, gaps = self._gaps(index)
        if (is_ahead := gaps > 0).all():
            return index, y / gaps[:, None]
        return index[is_ahead], y[is_ahead] / gaps[is_ahead, None]

    def _gaps(self, index: IntArray) -> tuple[Array, Array]:
        """Return differences (n, d) and gaps (n,), slack included."""
        place, rival = np.divmod(index, self.candidates.n_arms)
        leaders = self.candidates.gather(self.leaders)
        y = (leaders if len(leaders) == 1 else leaders[place]) - self.candidates.gather(rival)
        return y, y @ self.theta + self.epsilon

    def top(self, F: Array, n: int) -> tuple[IntArray, Array]:
        """Return the n directions with the largest |F'y|^2 and these values, largest first."""
        epsilon, K = self.epsilon, self.candidates.n_arms
        found = [
            self.candidates.rivals(
                leader, self.theta, (F,), lambda gap, square: -square / (gap + epsilon) ** 2, n, self.among
            )
            for leader in self.leaders.tolist()
        ]
        score = np.concatenate([rivals.score for rivals in found])
        index = np.concatenate([place * K + rivals.index for place, rivals in enumerate(found)])
        order = np.argsort(score, kind="stable")[:n]
        return index[order], -score[order]

    def vectors(self, index: IntArray) -> Array:
        """Return these directions (n, d)."""
        y, gaps = self._gaps(index)
        scaled: Array = y / gaps[:, None]
        return scaled
