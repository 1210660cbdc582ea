"""Column-and-constraint generation: solves a design over many arms and directions through small masters.

Notation: S the arms of the current master, w (n,) their weights; gain g_i of an arm, at most 1 for all arms at
the optimum; P (d, d) the whitener of the current design, so that |P'x|^2 = x'A(w)^-1 x.

Coordinates: rows times `frame` have the identity as information of the uniform design (from a QR of X), and the
rows of S are whitened again by the current design before every master; a Cholesky factor of A in the user's
coordinates would lose twice the digits that the features' conditioning costs.

Pricing is partial: a pool of a few thousand promising arms and directions is priced after every master, all
of them only when the pool has nothing left to offer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np

from surepick.arms.base import ArmSet
from surepick.core.checks import check_features
from surepick.core.design.directions import (
    ALIKE,
    START_LEVEL,
    ArmsThemselves,
    Directions,
    Effort,
    GivenDirections,
    Goal,
    Members,
    carried,
    information_columns,
)
from surepick.core.design.master import MasterSolution
from surepick.core.linalg import largest, pivoted_rows, spread_rows, square_norms, triangular, upper_inverse
from surepick.types import Array, BoolArray, IntArray

MAX_ROUNDS = 200
MAX_WORK = 1e9
"""Floating-point operations that a smaller support may cost when the one at hand is small enough."""


@final
@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin: an earlier design with what carried its lower bound, and the arms worth pricing first."""

    support: IntArray
    weights: Array
    multipliers: Mapping[int, float]
    """Of the hardest directions, by number."""
    promising: IntArray


@final
@dataclass(frozen=True, slots=True)
class Solution:
    """Weights w on `support` and multipliers lam on `hardest`, with the bounds a full pass proved for them."""

    support: IntArray
    w: Array
    hardest: IntArray
    lam: Array
    alternatives: Array
    """theta_j (m, d) in the user's coordinates, theta_j'y_j = 1."""
    value: float
    bound: float
    idle: BoolArray
    """Arms of the support that the reduced costs say are not needed."""

    @property
    def gap(self) -> float:
        """Relative distance between the two bounds."""
        return self.value / self.bound - 1.0


def frame_of(arms: ArmSet) -> Array:
    """Return the map (d, d) from the user's coordinates to those where the uniform design is the identity.

    Raises:
        InvalidInput: features are too large or too small, see `core.checks`.
    """
    R, root = arms.triangle(), np.sqrt(arms.n_arms)
    check_features(R / root, getattr(arms, "feature_names", None))
    frame: Array = upper_inverse(R) * root
    return frame


def whitener_of(rows: Array, w: Array) -> Array:
    """Return P with |P'x|^2 = x'A(w)^-1 x, by QR: the condition number is not squared."""
    return upper_inverse(triangular(np.sqrt(w)[:, None] * rows))


def pool_size(dim: int) -> int:
    """Return how many rows are priced between full passes."""
    return max(2000, 40 * dim)


def pooled(n: int, dim: int) -> int:
    """Return how many of n rows go into a pool: all of them when pricing them all is cheap anyway."""
    return n if n <= max(2 * pool_size(dim), 40_000 // dim) else pool_size(dim)


def _strided(n: int, at_most: int) -> IntArray:
    return np.arange(n) if n <= at_most else np.unique(np.linspace(0, n - 1, at_most).astype(np.int64))


def spanning_arms(arms: ArmSet, frame: Array) -> IntArray:
    """Return d arms of large volume in the frame: pivoted QR of a sample, completed by scans where it falls short."""
    index = _strided(arms.n_arms, pool_size(arms.dim))
    for _ in range(arms.dim + 1):
        rows = arms.gather(index) @ frame
        chosen, pivot = pivoted_rows(rows)
        if pivot > 1e-3:  # the uniform design is the identity here, so a good choice is far from singular
            break
        sizes, axes = np.linalg.svd(rows[chosen], full_matrices=True)[1:]
        weak = axes[int((sizes > 1e-3 * sizes[0]).sum()) :]
        index = np.union1d(index, arms.top_quadratic(frame @ weak.T, arms.dim)[0])
    return np.sort(index[chosen])


def _same_information(X: Array, w: Array) -> Array:
    """Return weights, most of them zero, with the same A: every value stays, and their total does not grow."""
    return w * carried(information_columns(X @ whitener_of(X, w), w), w)


@final
class PreparedArms:
    """Arms as every solve on them sees them: their frame, the first pool, and a set that spans."""

    def __init__(self, arms: ArmSet) -> None:
        self.arms, self.frame = arms, frame_of(arms)
        self.pool = _strided(arms.n_arms, pooled(arms.n_arms, arms.dim))
        self.rows = self.gather(self.pool)
        """Of the pool, in the coordinates of the frame."""

    def gather(self, index: IntArray) -> Array:
        """Return rows in the coordinates of the frame."""
        return self.arms.gather(index) @ self.frame

    @cached_property
    def spanning(self) -> IntArray:
        """Return d arms of large volume."""
        return spanning_arms(self.arms, self.frame)


@final
class Generation:
    """One solve: the growing master, the pool of arms, and the goal."""

    def __init__(
        self, ground: PreparedArms, directions: Directions | None, *, tol: float, is_sparse: bool = True
    ) -> None:
        """`directions` None means the arms themselves (the G-optimal design).

        `is_sparse`: look for few arms; else at most d(d+1)/2, which costs no further pass.
        """
        self.ground, self.tol, self.is_sparse = ground, tol, is_sparse
        arms = self.arms = ground.arms
        self.effort = Effort()
        self.frame, self.pool, self.pool_rows = ground.frame, ground.pool, ground.rows
        self.whole = len(self.pool) == arms.n_arms
        self.members = Members(arms.n_arms)
        self.goal: Goal = (
            ArmsThemselves(arms, self.frame, self.effort)
            if directions is None
            else GivenDirections(directions, self.frame, pooled(directions.n_directions, arms.dim), self.effort)
        )

    def solve(self, start: Start | None = None) -> Solution:
        """Alternate masters and pricing until the proved gap is at most tol (or rounds run out)."""
        if start is not None and (kept := self._kept(start)) is not None:
            return kept
        self._begin(start)
        # After an earlier solve the pool can be trusted: a full pass is made only once it claims to be done.
        tol, gap, level = 0.1, np.inf if start is None else 10.0 * self.tol, START_LEVEL
        best: Solution | None = None
        while self.effort.rounds < MAX_ROUNDS:
            self.effort.rounds += 1
            stage = 0.6 * self.tol if self.whole else float(np.clip(0.1 * gap, 0.6 * self.tol, 0.1))
            master = self._master(tol=max(tol, 0.4 * stage), level=level)

            whitener = whitener_of(self.X, self.w)
            factor = self.goal.factor(whitener)
            inside = square_norms(self.X @ factor).max()
            gain = square_norms(self.pool_rows @ factor)
            value, bound = self.goal.pool_bounds(self.w, whitener, max(inside, gain.max()))
            pool_gap = value / bound - 1.0
            if pool_gap <= stage or self.effort.rounds == MAX_ROUNDS:
                solution = self._price_everything(whitener, factor, max(inside, gain.max()), master.z)
                if best is None or solution.gap < best.gap:
                    best = solution
                gap = best.gap
                if gap <= self.tol:
                    break
                if not self.whole:
                    gain = square_norms(self.pool_rows @ factor)
            level = float(np.clip(pool_gap, tol, START_LEVEL))
            # Never loosen, never jump down too far: bouncing between tolerances wastes masters.
            tol = min(tol, max(0.1 * pool_gap, (0.1 if len(self.S) > 100 else 1e-3) * tol))
            self._purge(whitener, master.z)
            self._add(gain, inside, whitener)
            self.goal.grow(whitener)
        assert best is not None
        return self._thinned(best) if self.is_sparse else self._carried(best)

    def _fill_pool(self, index: IntArray) -> None:
        self.pool, self.pool_rows = index, self.ground.gather(index)

    def _kept(self, start: Start) -> Solution | None:
        """Return the earlier design if it is still good enough, as it most often is; priced before any master."""
        self.S, self.w = start.support, start.weights
        self.X = self.ground.gather(self.S)
        if not self.whole:
            self._fill_pool(np.union1d(self.pool, start.promising))
        whitener = whitener_of(self.X, self.w)
        self.goal.start(whitener, start.multipliers)
        factor = self.goal.factor(whitener)
        gain = square_norms(self.pool_rows @ factor).max()
        value, bound = self.goal.pool_bounds(self.w, whitener, gain)
        if value > (1.0 + self.tol) * bound:
            return None
        solution = self._price_everything(whitener, factor, gain, np.zeros(len(self.w)))
        return solution if solution.gap <= self.tol else None

    def _begin(self, start: Start | None) -> None:
        spanning = self.ground.spanning
        even = np.full(len(spanning), 1.0 / len(spanning))
        if start is None:
            self.S, self.w = spanning, even
            if self.arms.n_arms <= 2 * self.arms.dim:
                self.S, self.w = np.arange(self.arms.n_arms), np.full(self.arms.n_arms, 1.0 / self.arms.n_arms)
        else:
            # The spanning set keeps A regular when the earlier design had another leader in mind.
            self.S = np.union1d(start.support, spanning)
            self.w = np.zeros(len(self.S))
            self.w[np.searchsorted(self.S, start.support)] = (1.0 - 1e-3) * start.weights
            self.w[np.searchsorted(self.S, spanning)] += 1e-3 * even
        self.X = self.ground.gather(self.S)
        self.members.enter(self.S)
        if start is None:
            self.goal.start(whitener_of(self.X, self.w), {})

    def _master(self, *, tol: float, level: float) -> MasterSolution:
        """Solve for the current arms and directions, in the ways the goal proposes until one succeeds."""
        best: MasterSolution | None = None
        for distance, is_cautious in self.goal.attempts(level):
            # Raise small weights before whitening by them, else the first step undoes the conditioning.
            w = np.maximum(self.w, distance * self.w.sum() / (2 * len(self.w)))
            whitener = whitener_of(self.X, w)
            master = self.goal.solve(self.X @ whitener, whitener, w, tol=tol, level=distance, is_cautious=is_cautious)
            self.effort.iterations += master.n_iterations
            if best is None or master.gap < best.gap:
                best = master
            if best.gap <= tol:
                break
        assert best is not None
        self.w = best.w
        self.goal.accept(best)
        return best

    def _price_everything(self, whitener: Array, factor: Array, pool_gain: float, z: Array) -> Solution:
        """Bounds over all arms and directions; the pool becomes the most promising arms."""
        largest_gain = pool_gain
        if not self.whole:
            self.effort.passes += 1
            promising, gain = self.arms.top_quadratic(self.frame @ factor, pool_size(self.arms.dim))
            self._fill_pool(promising)
            largest_gain = float(gain[0])
        value, bound = self.goal.true_bounds(self.w, whitener, largest_gain)
        hardest, lam, theta = self.goal.certificate(whitener)
        idle = z >= self.w * square_norms(self.X @ whitener)
        return Solution(self.S, self.w, hardest, lam, theta @ self.frame.T, value, bound, idle)

    def _thinned(self, full: Solution) -> Solution:
        """Return the solution on few arms: the boldest proposal that a full pass accepts."""
        X = self.ground.gather(full.support)
        most = self.arms.dim * (self.arms.dim + 1) // 2
        allowed = full.bound * (1.0 + max(self.tol, full.gap))
        for arms, weights in self._proposals(full, X):
            kept, w = arms[weights > 0], weights[weights > 0]
            if len(kept) > most or pivoted_rows(X[kept])[1] < 1e-9:
                continue
            whitener = whitener_of(X[kept], w)
            gain = square_norms(self.pool_rows @ self.goal.factor(whitener)).max()
            # The pool refuses most of what a full pass would, for a fraction of its cost.
            if self.goal.pool_bounds(w, whitener, gain)[0] <= allowed:
                value = float(w.sum()) * self.goal.worst_of_all(whitener)
                if value <= allowed:
                    return replace(full, support=full.support[kept], w=w, value=value, idle=np.zeros(len(w), bool))
        return full

    def _carried(self, full: Solution) -> Solution:
        """Return the solution on at most d(d+1)/2 arms, its A and so its bounds unchanged: nothing to prove anew."""
        w = _same_information(self.ground.gather(full.support), full.w)
        kept = w > 0
        return replace(full, support=full.support[kept], w=w[kept], idle=full.idle[kept])

    def _proposals(self, full: Solution, X: Array) -> Iterator[tuple[IntArray, Array]]:
        """Yield (arms kept, weights) from the boldest to the safest."""
        kept = np.flatnonzero(~full.idle)
        if pivoted_rows(X[kept])[1] > 1e-9:  # else what is left does not span
            w = full.w[kept]
            whitener = whitener_of(X[kept], w)
            yield kept, w * carried(self.goal.columns(X[kept], w, whitener), w, max_work=MAX_WORK)
            polished = self.goal.solve(X[kept] @ whitener, whitener, w, tol=0.1 * self.tol, level=1e-2)
            self.goal.accept(polished)
            w = polished.w
            whitener = whitener_of(X[kept], w)
            yield kept, w * carried(self.goal.columns(X[kept], w, whitener), w, max_work=MAX_WORK)
            yield kept, w
        # Gets below d(d+1)/2 arms whatever happened above.
        yield np.arange(len(X)), _same_information(X, full.w)

    def _purge(self, whitener: Array, z: Array) -> None:
        """Drop arms that are priced out and carry next to no information."""
        # Leverage, not weight: a weight of 1e-9 may be all that measures some direction.
        leverage = self.w * square_norms(self.X @ whitener)
        n, d = self.X.shape
        idle = np.flatnonzero((z > 0.03) & (leverage < 0.05 * d / n) & self.members.droppable(self.S))
        idle = idle[np.argsort(leverage[idle], kind="stable")]
        # At most half of any direction's information may go, so A stays regular.
        idle = idle[np.cumsum(leverage[idle]) <= 0.5]
        kept = np.ones(n, dtype=bool)
        kept[idle] = False
        self.members.drop(self.S[idle])
        self.S, self.X, self.w = self.S[kept], self.X[kept], self.w[kept]

    def _add(self, gain: Array, limit: float, whitener: Array) -> None:
        """Add the arms whose gain exceeds that of every arm of the master, as many as pay for a larger one."""
        d = self.arms.dim
        top = largest(gain, 40 * d)
        top = top[gain[top] > limit]
        top = top[~self.members.inside[self.pool[top]]]
        top = top[spread_rows(self.pool_rows[top] @ whitener, at_most=min(2 * d, d + 20), cosine=ALIKE)]
        self.members.enter(self.pool[top])
        self.S = np.concatenate([self.S, self.pool[top]])
        self.X = np.vstack([self.X, self.pool_rows[top]])
        self.w = np.concatenate([self.w, np.zeros(len(top))])
