"""Groups: days, benches and plates that read high or low as a whole, and how offsets are regressed out.

Notation: results r = X theta + Z gamma + noise, with rows X (n, d) and one column of Z for every level of every factor:
the days, the benches; gamma their offsets. Q = I - Z Z^+ the projection off the offsets. For one factor Q takes the
mean of its group from every result.

    At = X'Q X,   bt = X'Q r,   y'At^+ bt estimates theta'y free of every gamma, for y in the range of At.

Results of a group that was measured on one arm alone drop out of At, as does the only result of a group.

`Offsets` is the projection. `OffsetLeastSquares` is least squares of all results with one offset per group: plans, bets
and displays go by this estimate, and no proof rests on it. `group_effects` says how high each group reads.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple, final

import numpy as np

from surepick.core.estimate import LeastSquares, LeastSquaresFit
from surepick.types import Array, IntArray

# Singular values below this share of the size of an indicator are rounding: the factor says nothing new.
CONFOUNDED = 1e-9


@final
class Offsets:
    """The projection off the offsets of groups, in the inner product with these weights.

    Cost: O(n) per column for one factor. Further factors cost a singular value decomposition of their columns, so the
    factor with the most levels goes first.

    Args:
        codes: level (n, F) of each of F factors, by number.
        weights: pulls (n,) that each row stands for; None: one.
    """

    def __init__(self, codes: IntArray, weights: Array | None = None) -> None:
        n, n_factors = codes.shape
        self._weights = np.ones(n) if weights is None else weights
        levels = [np.unique(codes[:, f], return_inverse=True)[1].reshape(-1) for f in range(n_factors)]
        counts = [int(level.max(initial=-1)) + 1 for level in levels]
        first = int(np.argmax(counts)) if n_factors else -1
        self._group = levels[first] if n_factors else np.zeros(n, dtype=np.intp)
        self._total = np.bincount(self._group, self._weights)
        self._basis: Array | None = None
        self.rank = len(self._total)
        """Rank of Z."""
        others = [levels[f][:, None] == np.arange(counts[f]) for f in range(n_factors) if f != first]
        if others:
            self._root = np.sqrt(self._weights)[:, None]
            columns = np.hstack(others).astype(np.float64)
            size = float(np.sqrt((self._weights @ columns).max()))
            left, singular, _ = np.linalg.svd(self._root * self.off(columns), full_matrices=False)
            self._basis = left[:, singular > CONFOUNDED * size]
            self.rank += self._basis.shape[1]

    def off(self, M: Array, *, keeps_level: bool = False) -> Array:
        """Return Q M for a vector (n,) or columns (n, k); `keeps_level` leaves the mean of all results where it is."""
        columns = M if M.ndim > 1 else M[:, None]
        weighted = self._weights[:, None] * columns
        sums = np.zeros((len(self._total), columns.shape[1]))
        np.add.at(sums, self._group, weighted)
        projected = columns - (sums / self._total[:, None])[self._group]
        if self._basis is not None:
            projected -= self._basis @ (self._basis.T @ (self._root * projected)) / self._root
        if keeps_level and len(M):
            projected += weighted.sum(axis=0) / self._weights.sum()
        return projected.reshape(M.shape)

    def leverages(self, *, keeps_level: bool = False) -> Array:
        """Return the diagonal of Z Z^+ (n,) for weights of one: how far each result moves its own offsets."""
        leverages = 1.0 / self._total[self._group]
        if self._basis is not None:
            leverages = leverages + (self._basis**2).sum(axis=1)
        return leverages - 1.0 / len(leverages) if keeps_level else leverages


def indicators(codes: IntArray) -> Array:
    """Return Z (n, G): a column for every level of every factor that occurs."""
    parts = [codes[:, [f]] == np.unique(codes[:, f]) for f in range(codes.shape[1])]
    return np.hstack([np.zeros((len(codes), 0)), *parts]).astype(np.float64)


class _OffsetFit(LeastSquaresFit):
    """Least squares of cells, results of one arm in one group, without the offsets of the groups."""

    def __init__(self, X: Array, sums: Array, codes: IntArray, *, keeps_level: bool) -> None:
        super().__init__(X, sums)
        self._offsets, self._keeps_level = Offsets(codes, self._n), keeps_level
        self._QX = self._offsets.off(X, keeps_level=keeps_level)

    @property
    def rank(self) -> int:
        """Rank of Z."""
        return self._offsets.rank

    @cached_property
    def A(self) -> Array:  # noqa: N802 - the letter of the notation
        A = (self._QX.T * self._n) @ self._QX
        return np.asarray(0.5 * (A + A.T))

    def _residuals(self, theta: Array) -> Array:
        e = self._f - self._X.dot(theta) + self._s / self._n
        return self._offsets.off(e, keeps_level=self._keeps_level)

    def moments(self, theta: Array) -> Array:
        """Return X'Q (r - X theta)."""
        return np.asarray((self._n * self._residuals(theta)) @ self._QX)

    @cached_property
    def residual_sum(self) -> float:
        e = self._residuals(self.theta)
        within = self._q - self._s * self._s / self._n
        return max(float(within.sum() + self._n @ (e * e)), 0.0)


@final
class OffsetLeastSquares(LeastSquares):
    """Least squares of all results with an offset for every group.

    Where the features have a constant, it cannot be told from the offsets: the level is then that of all results
    together, which moves no difference of two arms.

    Args:
        dim: number of features d.
        has_constant: whether some combination of the features is constant.
    """

    def __init__(self, dim: int, *, has_constant: bool) -> None:
        super().__init__(dim)
        self._keeps_level = has_constant
        # A place is an arm in a group: its row is followed by the number of the group.
        self._X = np.zeros((16, dim + 1))
        self._codes: dict[tuple[int, ...], int] = {}

    @property
    def _fit(self) -> LeastSquaresFit:
        if self._kept is None:
            self._add_up()
            m = len(self._places)
            cells = level_matrix(list(self._codes))[self._X[:m, -1].astype(np.intp)]
            self._kept = _OffsetFit(
                np.ascontiguousarray(self._X[:m, :-1]), self._sums[:, :m], cells, keeps_level=self._keeps_level
            )
        return self._kept

    @property
    def n_spare(self) -> int:
        """Results beyond the parameters of the fit: coefficients and offsets."""
        fit = self._fit
        assert isinstance(fit, _OffsetFit)
        return self.n_pulls - fit.rank - self.dim + (1 if self._keeps_level else 0)

    def _is_regular(self) -> bool:
        # The level of all results may move A in any way, so that an earlier look says nothing.
        self._last_look = 0.0, np.ones(self.dim)
        return super()._is_regular()

    def update_in(self, x: Array, reward: float, arm: int | None, codes: tuple[int, ...]) -> None:
        """Add one pull of a group, whose levels have these numbers."""
        group = self._codes.setdefault(codes, len(self._codes))
        self._add(np.append(x, float(group)), reward, arm)

    def update_all(self, X: Array, rewards: Array, codes: IntArray, arms: Iterable[int] | None = None) -> None:
        """Add pulls: features (n, d), rewards (n,), levels (n, F)."""
        numbers: Sequence[int | None] = [None] * len(X) if arms is None else list(arms)
        for x, reward, arm, levels in zip(X, rewards.tolist(), numbers, codes.tolist(), strict=True):
            self.update_in(x, reward, arm, tuple(levels))


class GroupEffects(NamedTuple):
    """How high every group reads beside the mean of the groups of its factor, one entry per level of each factor."""

    factor: IntArray
    level: IntArray
    counts: IntArray
    offsets: Array
    """NaN where results do not tell the group from the arms measured in it, and for the only level of a factor."""
    errors: Array
    """Standard errors in units of the noise; inf where the offset is NaN."""
    residual_sum: float
    n_spare: int


def group_effects(X: Array, rewards: Array, codes: IntArray) -> GroupEffects:
    """Return the offsets of groups by least squares of all results; an estimate.

    Args:
        X: rows (n, d).
        rewards: (n,).
        codes: level (n, F) of each factor, by number.
    """
    levels = [np.unique(codes[:, f]) for f in range(codes.shape[1])]
    counts = [len(each) for each in levels]
    Z, d = indicators(codes), X.shape[1]
    M = np.hstack([X, Z])
    size = np.sqrt((M * M).sum(axis=0))
    size = np.where(size > 0.0, size, 1.0)
    spread, axes = np.linalg.eigh((M / size).T @ (M / size))
    kept = spread > CONFOUNDED * max(float(spread[-1]), 0.0)
    root = (axes[:, kept] / np.sqrt(spread[kept])) / size[:, None]
    centred = rewards - rewards.mean()
    beta = root @ (root.T @ (M.T @ centred))
    # The contrast of a level with the mean of its factor: a row each, in the columns of Z.
    K = np.zeros((Z.shape[1], M.shape[1]))
    for start, n in zip(np.cumsum([0, *counts]), counts, strict=False):
        K[start : start + n, d + start : d + start + n] = np.eye(n) - 1.0 / n
    # In the columns that were brought to one size, a contrast is known if it has no part that was dropped.
    scaled = K / size
    lost = ((scaled @ axes[:, ~kept]) ** 2).sum(axis=1)
    is_known = (lost <= CONFOUNDED * (scaled**2).sum(axis=1)) & (np.repeat(counts, counts) > 1)
    left = centred - M @ beta
    return GroupEffects(
        np.repeat(np.arange(len(counts)), counts),
        np.concatenate([np.zeros(0, dtype=np.int64), *levels]).astype(np.int64),
        Z.sum(axis=0).astype(np.int64),
        np.where(is_known, K @ beta, np.nan),
        np.where(is_known, np.sqrt(((K @ root) ** 2).sum(axis=1)), np.inf),
        float(left @ left),
        len(rewards) - int(kept.sum()),
    )


class GroupCodes:
    """Numbers for factors and their levels, in the order of their first occurrence.

    A result that lacks a factor has the level 0 of that factor.
    """

    def __init__(self) -> None:
        self.factors: dict[str, int] = {}
        self.levels: list[dict[str, int]] = []

    def of(self, label: Iterable[tuple[str, str]]) -> tuple[int, ...]:
        """Return the level of every factor known so far."""
        levels = [0] * len(self.factors)
        for factor, level in label:
            place = self.factors.setdefault(factor, len(self.factors))
            if place == len(self.levels):
                self.levels.append({"": 0})
                levels.append(0)
            levels[place] = self.levels[place].setdefault(level, len(self.levels[place]))
        return tuple(levels)

    def matrix(self, labels: Iterable[Iterable[tuple[str, str]]]) -> IntArray:
        """Return the levels (n, F) of labels."""
        return level_matrix([self.of(label) for label in labels])


def level_matrix(codes: Sequence[tuple[int, ...]]) -> IntArray:
    """Return the levels (n, F), 0 for factors that a result did not know of."""
    width = max(map(len, codes), default=0)
    padded = [one + (0,) * (width - len(one)) for one in codes]
    return np.array(padded, dtype=np.int64).reshape(len(codes), width)
