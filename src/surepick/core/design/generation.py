"""Column-and-constraint generation: solves a design over many arms and directions through small masters.

Notation: S the arms of the current master, w (n,) their weights; gain g_i of an arm, at most 1 for all arms at
the optimum; P (d, d) the whitener of the current design, so that |P'x|^2 = x'A(w)^-1 x.

Coordinates: rows times `frame` have the identity as information of the uniform design (from a QR of X), and the
rows of S are whitened again by the current design before every master; a Cholesky factor of A in the user's
coordinates would lose twice the digits that the features' conditioning costs.

Pricing is partial: a pool of a few thousand promising arms and directions is priced after every master, all
of them only when the pool has nothing left to offer.
"""

from dataclasses import dataclass, replace
from typing import Protocol, final

import numpy as np

from surepick.core.arms import ArmSet, square_norms
from surepick.core.design.directions import Directions
from surepick.core.design.master import MasterSolution, solve_d, solve_xy
from surepick.core.design.sparse import carried, information_columns, score_columns
from surepick.core.linalg import Array, BoolArray, IntArray, pivoted_rows, spread_rows, triangular, upper_inverse

MAX_ROUNDS = 200
START_LEVEL = 0.3
ALIKE = 0.9
"""|cos| above which two arms or directions do not enter the master together."""


@final
@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin: an earlier design's arms, weights and hardest directions."""

    support: IntArray
    weights: Array
    hardest: IntArray


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


@final
@dataclass(slots=True)
class Effort:
    """What a solve has cost so far."""

    rounds: int = 0
    iterations: int = 0
    """Interior-point iterations, all masters together."""
    passes: int = 0
    """Full passes over the arms or over the directions."""


class Goal(Protocol):
    """What the weights are to achieve: the part of the solver that differs between kinds of design."""

    def start(self, whitener: Array, hardest: IntArray | None) -> None:
        """Choose the first directions, if the goal has any of its own."""
        ...

    def solve(self, X: Array, whitener: Array, w: Array, *, tol: float, level: float) -> MasterSolution:
        """Solve the master on whitened arms X, and keep its multipliers."""
        ...

    def factor(self, whitener: Array) -> Array:
        """Return F (d, k) in the frame with gain g_i = |F'x_i|^2."""
        ...

    def pool_bounds(self, w: Array, whitener: Array, largest_gain: float) -> tuple[float, float]:
        """Return value and lower bound as far as the pooled arms and directions can tell."""
        ...

    def true_bounds(self, w: Array, whitener: Array, largest_gain: float) -> tuple[float, float]:
        """Return value and lower bound over all directions, `largest_gain` being over all arms."""
        ...

    def grow(self, whitener: Array) -> None:
        """Drop slack directions and add violated ones."""
        ...

    def worst_of_all(self, whitener: Array) -> float:
        """Return the largest phi over all directions, by a full pass."""
        ...

    def columns(self, X: Array, w: Array, whitener: Array) -> Array:
        """Return what must stay as it is when weights are moved, one column per arm."""
        ...

    def certificate(self, whitener: Array) -> tuple[IntArray, Array, Array]:
        """Return (hardest directions, multipliers, alternatives theta_j in the frame)."""
        ...


@final
class ArmsThemselves:
    """Resolve every arm: the G-optimal design. Its value is d (Kiefer and Wolfowitz), so none is searched for."""

    def __init__(self, arms: ArmSet, frame: Array, effort: Effort) -> None:
        self.arms, self.frame, self.effort, self.dim = arms, frame, effort, arms.dim

    def start(self, whitener: Array, hardest: IntArray | None) -> None:
        """Nothing to choose: the directions are the arms."""

    def solve(self, X: Array, whitener: Array, w: Array, *, tol: float, level: float) -> MasterSolution:
        """Solve the D-optimal master."""
        return solve_d(X, w, tol=tol, level=level)

    def factor(self, whitener: Array) -> Array:
        """Return the whitener: the gain of an arm is its leverage."""
        return whitener

    def pool_bounds(self, w: Array, whitener: Array, largest_gain: float) -> tuple[float, float]:
        """Return the largest leverage of the design w / 1'w, and d."""
        return float(w.sum()) * largest_gain, float(self.dim)

    true_bounds = pool_bounds

    def grow(self, whitener: Array) -> None:
        """Nothing to add: the directions are the arms."""

    def worst_of_all(self, whitener: Array) -> float:
        """Return the largest leverage over all arms."""
        self.effort.passes += 1
        return float(self.arms.top_quadratic(self.frame @ whitener, 1)[1][0])

    def columns(self, X: Array, w: Array, whitener: Array) -> Array:
        """Return the arms' parts of A: every leverage depends on all of it."""
        return information_columns(X @ whitener, w)

    def certificate(self, whitener: Array) -> tuple[IntArray, Array, Array]:
        """Return nothing: that no design does better than d is a theorem."""
        return np.empty(0, dtype=np.int64), np.empty(0), np.empty((0, self.dim))


@final
class GivenDirections:
    """Resolve a set of directions: the master works on the hardest ones, Q."""

    def __init__(self, directions: Directions, frame: Array, n_pool: int, effort: Effort) -> None:
        self.directions, self.frame, self.n_pool, self.effort = directions, frame, n_pool, effort
        self.whole = n_pool >= directions.n_directions
        self.Q = np.empty(0, dtype=np.int64)
        self.Y = np.empty((0, len(frame)))
        self.lam = np.empty(0)
        # As for arms: a direction that was dropped and came back stays, or rounds can cycle.
        self.dropped = self.returned = np.empty(0, dtype=np.int64)

    def start(self, whitener: Array, hardest: IntArray | None) -> None:
        """Take the worst d directions of the first design, and those of an earlier solve."""
        self._refresh(whitener)
        if hardest is not None:
            self._join(hardest)
        self._join(self.pool[spread_rows(self.pool_rows @ whitener, at_most=len(self.frame), cosine=ALIKE)])
        # A direction of an earlier solve that means nothing now (its arm leads) is zero and has no psi.
        self._keep(square_norms(self.Y @ whitener) > 1e-16 * self.worst)

    def solve(self, X: Array, whitener: Array, w: Array, *, tol: float, level: float) -> MasterSolution:
        """Solve the master on the hardest directions."""
        master = solve_xy(X, self.Y @ whitener, w, self.lam, tol=tol, level=level)
        self.lam = master.lam
        return master

    def factor(self, whitener: Array) -> Array:
        """Return F with F F' = sum lam_j theta_j theta_j', by QR so that no digits are squared away."""
        return triangular(np.sqrt(self.lam)[:, None] * self._alternatives(whitener)).T

    def _alternatives(self, whitener: Array) -> Array:
        V = self.Y @ whitener
        theta: Array = (V @ whitener.T) / square_norms(V)[:, None]
        return theta

    def pool_bounds(self, w: Array, whitener: Array, largest_gain: float) -> tuple[float, float]:
        """Return value and lower bound as far as the pool can tell."""
        worst = max(square_norms(rows @ whitener).max() for rows in (self.Y, self.pool_rows))
        return float(w.sum() * worst), float(self.lam.sum() / largest_gain)

    def true_bounds(self, w: Array, whitener: Array, largest_gain: float) -> tuple[float, float]:
        """Price every direction, renew the pool, and return the proved value and lower bound."""
        if self.whole:
            return self.pool_bounds(w, whitener, largest_gain)
        self._refresh(whitener)
        return float(w.sum() * self.worst), float(self.lam.sum() / largest_gain)

    def grow(self, whitener: Array) -> None:
        """Drop directions that are far from binding, add up to d violated ones."""
        phi = square_norms(self.Y @ whitener)
        limit = phi.max()
        slack = (phi <= 0.7 * limit) & ~np.isin(self.Q, self.returned)
        self.dropped = np.union1d(self.dropped, self.Q[slack])
        self._keep(~slack)
        rows = self.pool_rows @ whitener
        phi = square_norms(rows)
        worst = np.argsort(-phi, kind="stable")[: 20 * len(self.frame)]
        worst = worst[phi[worst] > limit]
        worst = worst[~np.isin(self.pool[worst], self.Q)]
        new = self.pool[worst[spread_rows(rows[worst], at_most=len(self.frame), cosine=ALIKE)]]
        self.returned = np.union1d(self.returned, np.intersect1d(new, self.dropped))
        self._join(new)

    def worst_of_all(self, whitener: Array) -> float:
        """Return the largest phi over all directions."""
        self.effort.passes += 1
        return float(self.directions.top(self.frame @ whitener, 1)[1][0])

    def columns(self, X: Array, w: Array, whitener: Array) -> Array:
        """Return the arms' parts of A theta_j for the binding directions, or of A if that is less to keep."""
        V = self.Y @ whitener
        phi = square_norms(V)
        # Strict complementarity: a direction binds when its multiplier outweighs its slack.
        V = V[self.lam / self.lam.sum() > 1.0 - phi / phi.max()]
        if 2 * len(V) <= len(self.frame):
            return score_columns(X @ whitener, V, w)
        return information_columns(X @ whitener, w)

    def certificate(self, whitener: Array) -> tuple[IntArray, Array, Array]:
        """Return the directions with their multipliers and alternatives."""
        return self.Q, self.lam, self._alternatives(whitener)

    def _refresh(self, whitener: Array) -> None:
        self.effort.passes += 1
        self.pool, phi = self.directions.top(self.frame @ whitener, self.n_pool)
        self.pool_rows = self.directions.vectors(self.pool) @ self.frame
        self.worst = float(phi[0])

    def _join(self, index: IntArray) -> None:
        new = np.setdiff1d(index, self.Q)
        self.Q = np.concatenate([self.Q, new])
        self.Y = np.vstack([self.Y, self.directions.vectors(new) @ self.frame])
        self.lam = np.concatenate([self.lam, np.zeros(len(new))])

    def _keep(self, kept: np.ndarray) -> None:
        self.Q, self.Y, self.lam = self.Q[kept], self.Y[kept], self.lam[kept]


def frame_of(arms: ArmSet) -> Array:
    """Return the map (d, d) from the user's coordinates to those where the uniform design is the identity."""
    frame: Array = upper_inverse(arms.triangle()) * np.sqrt(arms.n_arms)
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
    return np.unique(np.linspace(0, n - 1, min(n, at_most)).astype(np.int64))


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


@final
class Generation:
    """One solve: the growing master, the pool of arms, and the goal."""

    def __init__(self, arms: ArmSet, directions: Directions | None, *, tol: float) -> None:
        """`directions` None means the arms themselves (the G-optimal design)."""
        self.arms, self.tol = arms, tol
        self.effort = Effort()
        self.frame = frame_of(arms)
        self.pool = _strided(arms.n_arms, pooled(arms.n_arms, arms.dim))
        self.whole = len(self.pool) == arms.n_arms
        self.pool_rows = arms.gather(self.pool) @ self.frame
        self.goal: Goal = (
            ArmsThemselves(arms, self.frame, self.effort)
            if directions is None
            else GivenDirections(directions, self.frame, pooled(directions.n_directions, arms.dim), self.effort)
        )

    def solve(self, start: Start | None = None) -> Solution:
        """Alternate masters and pricing until the proved gap is at most tol (or rounds run out)."""
        self._begin(start)
        tol, gap, level = 0.1, np.inf, START_LEVEL
        best: Solution | None = None
        while self.effort.rounds < MAX_ROUNDS:
            self.effort.rounds += 1
            stage = 0.3 * self.tol if self.whole else float(np.clip(0.1 * gap, 0.3 * self.tol, 0.1))
            master = self._master(tol=max(tol, 0.3 * stage), level=level)

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
        return self._thinned(best)

    def _begin(self, start: Start | None) -> None:
        spanning = spanning_arms(self.arms, self.frame)
        even = np.full(len(spanning), 1.0 / len(spanning))
        if start is None:
            self.S, self.w = spanning, even
        else:
            # The spanning set keeps A regular when the earlier design had another leader in mind.
            self.S = np.union1d(start.support, spanning)
            self.w = np.zeros(len(self.S))
            self.w[np.searchsorted(self.S, start.support)] = (1.0 - 1e-3) * start.weights
            self.w[np.searchsorted(self.S, spanning)] += 1e-3 * even
        self.X = self.arms.gather(self.S) @ self.frame
        # An arm that was dropped and came back is never dropped again: without this, rounds can cycle.
        self.dropped = self.returned = np.empty(0, dtype=np.int64)
        self.goal.start(whitener_of(self.X, self.w), None if start is None else start.hardest)

    def _master(self, *, tol: float, level: float) -> MasterSolution:
        """Solve for the current arms and directions, near the last weights first, from afar if that stalls."""
        for distance in (level, START_LEVEL):
            # Raise small weights before whitening by them, else the first step undoes the conditioning.
            w = np.maximum(self.w, distance * self.w.sum() / (2 * len(self.w)))
            whitener = whitener_of(self.X, w)
            master = self.goal.solve(self.X @ whitener, whitener, w, tol=tol, level=distance)
            self.effort.iterations += master.n_iterations
            # A small gap does not mean that the weights are near: nearly parallel arms may have to swap theirs.
            if master.gap <= tol or level == START_LEVEL:
                break
        self.w = master.w
        return master

    def _price_everything(self, whitener: Array, factor: Array, pool_gain: float, z: Array) -> Solution:
        """Bounds over all arms and directions; the pool becomes the most promising arms."""
        largest_gain = pool_gain
        if not self.whole:
            self.effort.passes += 1
            self.pool, gain = self.arms.top_quadratic(self.frame @ factor, len(self.pool))
            self.pool_rows = self.arms.gather(self.pool) @ self.frame
            largest_gain = float(gain[0])
        value, bound = self.goal.true_bounds(self.w, whitener, largest_gain)
        hardest, lam, theta = self.goal.certificate(whitener)
        idle = z >= self.w * square_norms(self.X @ whitener)
        return Solution(self.S, self.w, hardest, lam, theta @ self.frame.T, value, bound, idle)

    def _thinned(self, full: Solution) -> Solution:
        """Return the solution on few arms: drop idle ones, then move weights; keep what a full pass accepts."""
        X = self.arms.gather(full.support) @ self.frame
        most = self.arms.dim * (self.arms.dim + 1) // 2
        allowed = full.bound * (1.0 + max(self.tol, full.gap))
        for ambition in (2, 1, 0):
            kept, w = np.arange(len(X)), full.w
            if ambition > 0:
                kept = np.flatnonzero(~full.idle)
                if pivoted_rows(X[kept])[1] < 1e-9:  # what is left does not span
                    continue
                whitener = whitener_of(X[kept], full.w[kept])
                w = self.goal.solve(X[kept] @ whitener, whitener, full.w[kept], tol=0.1 * self.tol, level=self.tol).w
            whitener = whitener_of(X[kept], w)
            if ambition == 2:
                moved = carried(self.goal.columns(X[kept], w, whitener), w) * w
            elif len(kept) > most:
                moved = carried(information_columns(X[kept] @ whitener, w), w) * w
            else:
                moved = w
            kept, w = kept[moved > 0], moved[moved > 0]
            if len(kept) > most or pivoted_rows(X[kept])[1] < 1e-9:
                continue
            value = float(w.sum()) * self.goal.worst_of_all(whitener_of(X[kept], w))
            if value <= allowed or ambition == 0:
                return replace(full, support=full.support[kept], w=w, value=value, idle=np.zeros(len(kept), bool))
        return full

    def _purge(self, whitener: Array, z: Array) -> None:
        """Drop arms that are priced out and carry next to no information."""
        # Leverage, not weight: a weight of 1e-9 may be all that measures some direction.
        leverage = self.w * square_norms(self.X @ whitener)
        n, d = self.X.shape
        idle = np.flatnonzero((z > 0.1) & (leverage < 0.05 * d / n))
        idle = idle[np.argsort(leverage[idle], kind="stable")]
        # At most half of any direction's information may go, so A stays regular.
        idle = idle[np.cumsum(leverage[idle]) <= 0.5]
        idle = idle[~np.isin(self.S[idle], self.returned)]
        kept = np.ones(n, dtype=bool)
        kept[idle] = False
        self.dropped = np.union1d(self.dropped, self.S[idle])
        self.S, self.X, self.w = self.S[kept], self.X[kept], self.w[kept]

    def _add(self, gain: Array, limit: float, whitener: Array) -> None:
        """Add up to 2d arms whose gain exceeds that of every arm of the master."""
        d = self.arms.dim
        top = np.argsort(-gain, kind="stable")[: 40 * d]
        top = top[gain[top] > limit]
        top = top[~np.isin(self.pool[top], self.S)]
        top = top[spread_rows(self.pool_rows[top] @ whitener, at_most=2 * d, cosine=ALIKE)]
        self.returned = np.union1d(self.returned, np.intersect1d(self.pool[top], self.dropped))
        order = np.argsort(np.concatenate([self.S, self.pool[top]]), kind="stable")
        self.S = np.concatenate([self.S, self.pool[top]])[order]
        self.X = np.vstack([self.X, self.pool_rows[top]])[order]
        self.w = np.concatenate([self.w, np.zeros(len(top))])[order]
