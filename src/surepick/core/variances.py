"""Arm means: what a block, or all results so far, measured on each arm.

Notation: n_a pulls of arm a, mean_a of its rewards, squares_a = sum of (r - mean_a)^2 over them, the arm's pure error:
repeats of one arm differ by noise alone, whatever the model says.

Noise levels of single arms: what earlier results say of how noisy each arm is, for bets and for designs.

Notation: arm a has n_a results of mean mean_a; s_a its standard deviation, as estimated; theta, A weighted least
squares: rows x_a/s_a, rewards r/s_a; RSS_a the squared residuals of the arm, f_a = n_a (1 - x_a'A^-1 x_a/s_a^2) the
degrees of freedom that the fit leaves of them. s_a^2 is RSS_a/f_a, shrunk to the level L^2 of all arms,

    s_a^2 = (RSS_a + F L^2)/(f_a + F),

and L^2 for arms without results. Wrong levels cost pulls, never validity: the past has fixed them.
"""

from dataclasses import dataclass
from typing import Self, final

import numpy as np

from surepick.core.betting.bets import Residuals
from surepick.core.betting.block import LARGEST_REWARD, RANK_TOL, Block
from surepick.types import Array, IntArray


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


SHRINKAGE = 2.0
"""F: an arm is believed to be as noisy as the others until it has about so many results beyond the fit."""
# Levels and fit depend on each other; so often they are put into each other.
ROUNDS = 3


@final
@dataclass(frozen=True, slots=True)
class Levels:
    """What earlier results say: of theta by weighted least squares, and of the noise of each arm."""

    theta: Array
    A_inv: Array
    residuals: Residuals
    """In units of the levels."""
    arms: IntArray
    """Arms with results, in increasing order."""
    stds: Array
    usual: float
    """The level of arms without results."""

    def of(self, arms: IntArray) -> Array:
        """Return the standard deviations of these arms."""
        place = np.minimum(np.searchsorted(self.arms, arms), len(self.arms) - 1)
        return np.where(self.arms[place] == arms, self.stds[place], self.usual)


@final
class ArmVariances:
    """The results of every arm so far, and what they say of its noise.

    Args:
        dim: number of features.
        is_symmetric: whether blocks say that their noise is only known to be symmetric.
    """

    def __init__(self, dim: int, *, is_symmetric: bool = False) -> None:
        self._is_symmetric = is_symmetric
        self._past = ArmMeans.none(dim)
        self._now: Levels | None = None

    def learn(self, arms: IntArray, X: Array, rewards: Array) -> None:
        """Take results: numbers (n,) of the arms, rows (n, d), rewards (n,)."""
        self._past, self._now = self._past.merged(ArmMeans.of(arms, X, rewards)), None

    @property
    def now(self) -> Levels | None:
        """What is known now; None before the arms span, or while nothing is left over for the noise."""
        if self._now is None:
            self._now = _levels(self._past)
        return self._now

    def block(self, arms: IntArray, X: Array, parts: Array) -> Block:
        """Return B repetitions of one design as a block in units of the noise, beside what was known before.

        Args:
            arms: of the design (n,).
            X: their rows (n, d).
            parts: rewards (B, n) of every repetition.
        """
        known = self.now
        if known is None:
            return Block.of(np.tile(X, (len(parts), 1)), parts.ravel(), np.zeros(X.shape[1]))
        stds = known.of(arms)
        rows, rewards = X / stds[:, None], parts / stds
        block = Block.of(
            np.tile(rows, (len(parts), 1)), rewards.ravel(), known.theta, known.A_inv.copy(), known.residuals
        )
        block.parts, block.is_symmetric = (rewards - rows @ known.theta) @ rows, self._is_symmetric
        block.unit = float(stds.min())
        return block


def _levels(past: ArmMeans) -> Levels | None:
    X, n = past.X, past.counts
    n_spare = int(n.sum()) - X.shape[1]
    if n_spare <= 0:
        return None
    variances, theta = np.ones(len(n)), np.zeros(X.shape[1])
    for _ in range(ROUNDS):
        weights = n / variances
        A = (X * weights[:, None]).T @ X
        spread, axes = np.linalg.eigh(A)
        if not spread[0] > RANK_TOL * spread[-1]:
            return None
        A_inv: Array = (axes / spread) @ axes.T
        # Measured from the estimate before: sums of large rewards would lose the noise in rounding.
        theta = theta + A_inv @ ((weights * (past.means - X @ theta)) @ X)
        # Rewards are of the size of theta at most, arms being whitened: less noise than a share of that is rounding.
        dust = float(np.linalg.norm(theta)) / LARGEST_REWARD
        squares = np.maximum(past.squares + n * (past.means - X @ theta) ** 2, n * dust**2)
        free = n * np.maximum(1.0 - np.einsum("ij,jk,ik->i", X, A_inv, X) / variances, 0.0)
        level = float(squares.sum()) / n_spare
        if not level > 0.0:
            return None
        variances = (squares + SHRINKAGE * level) / (free + SHRINKAGE)
    stds = np.sqrt(variances)
    return Levels(
        theta, A_inv, Residuals(float((squares / variances).sum()), n_spare), past.arms, stds, float(np.sqrt(level))
    )
