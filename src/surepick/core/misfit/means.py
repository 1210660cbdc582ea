"""Arm means: what a block, or all results so far, measured on each arm.

Notation: n_a pulls of arm a, mean_a of its rewards, squares_a = sum of (r - mean_a)^2 over them, the arm's pure error:
repeats of one arm differ by noise alone, whatever the model says.
"""

from dataclasses import dataclass
from typing import Self, final

import numpy as np

from surepick.core.linalg import Array, IntArray


@final
@dataclass(frozen=True, slots=True)
class ArmMeans:
    """One row per arm, in increasing order of the arms' numbers."""

    arms: IntArray
    X: Array
    """Features (s, d)."""
    counts: Array
    means: Array
    squares: Array

    @classmethod
    def none(cls, dim: int) -> Self:
        """Nothing measured."""
        empty = np.zeros(0)
        return cls(np.zeros(0, dtype=np.int64), np.zeros((0, dim)), empty, empty, empty)

    @classmethod
    def of(cls, arms: IntArray, X: Array, rewards: Array) -> Self:
        """Sort pulls by arm: numbers (n,), features (n, d), rewards (n,)."""
        numbers, first, place, n = np.unique(arms, return_index=True, return_inverse=True, return_counts=True)
        counts, level = n.astype(np.float64), rewards[first]
        # Measured from the arm's first reward: sums of large rewards would lose the noise in rounding.
        means = level + np.bincount(place, rewards - level[place], len(numbers)) / counts
        squares = np.bincount(place, (rewards - means[place]) ** 2, len(numbers)).astype(np.float64)
        return cls(numbers.astype(np.int64), X[first], counts, means, squares)

    @property
    def n_repeats(self) -> int:
        """Degrees of freedom of the pure error."""
        return int(self.counts.sum()) - len(self.arms)

    def look_up(self, arms: IntArray) -> tuple[Array, Array]:
        """Return counts and means of these arms, zeros for those never pulled."""
        if not len(self.arms):
            return np.zeros(len(arms)), np.zeros(len(arms))
        place = np.minimum(np.searchsorted(self.arms, arms), len(self.arms) - 1)
        is_known = self.arms[place] == arms
        return np.where(is_known, self.counts[place], 0.0), np.where(is_known, self.means[place], 0.0)

    def merged(self, new: "ArmMeans") -> "ArmMeans":
        """Return the means of both together; two means of one arm that differ add to its squares."""
        arms, first, place = np.unique(np.append(self.arms, new.arms), return_index=True, return_inverse=True)
        start = len(self.arms)
        counts, means, squares = np.zeros((3, len(arms)))
        for part, at in ((self, place[:start]), (new, place[start:])):
            total = counts[at] + part.counts
            apart = part.means - means[at]
            squares[at] += part.squares + apart * apart * counts[at] * part.counts / total
            means[at] += apart * part.counts / total
            counts[at] = total
        return ArmMeans(arms, np.vstack([self.X, new.X])[first], counts, means, squares)
