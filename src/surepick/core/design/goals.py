"""Goals of a design: resolve the arms themselves, or given directions; what the solver needs to know of each.

Notation: w (n,) weights of the master's arms; P (d, d) the whitener of the current design in the frame's
coordinates, |P'x|^2 = x'A(w)^-1 x; gain g_i of an arm, at most 1 for every arm at the optimum; Q the directions
in the master with rows Y (m, d) and multipliers lam (m,).

Sparse support: moves the weights of a solved design onto few arms without losing what was certified.

Notation: U (n, d) the support's arms, whitened by the design itself; a (n,) multipliers, new weight = a_i w_i.
Null vectors v of the columns w_i u_i u_i' leave A unchanged, so weights can be moved along them, in the direction
in which their total does not grow, until one arm is empty (Caratheodory). A has d(d+1)/2 entries, hence at most
that many arms are left. If only A^-1 y of the binding directions is kept fixed, fewer arms may do.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
import scipy

from surepick.arms.base import ArmSet
from surepick.core.design.directions import Directions
from surepick.core.design.master import MasterSolution, solve_d, solve_xy
from surepick.core.linalg import largest, spread_rows, square_norms, triangular
from surepick.types import Array, BoolArray, IntArray


def information_columns(U: Array, w: Array) -> Array:
    """Return (d(d+1)/2, n): what each arm contributes to the entries of A."""
    i, j = np.triu_indices(U.shape[1])
    # Off-diagonal entries count twice, so that lengths, and with them all choices below, survive a rotation of U.
    columns: Array = (U[:, i] * U[:, j] * np.where(i == j, 1.0, np.sqrt(2.0)) * w[:, None]).T
    return columns


def score_columns(U: Array, V: Array, w: Array) -> Array:
    """Return (m d, n): what each arm contributes to A theta_j, theta_j = V_j the whitened binding directions."""
    n, d = U.shape
    columns: Array = (w[:, None, None] * (U @ V.T)[:, :, None] * U[:, None, :]).reshape(n, len(V) * d).T
    return columns


def carried(columns: Array, w: Array, *, max_work: float = np.inf) -> Array:
    """Return multipliers a >= 0 with columns @ a = columns @ 1, w'a <= w'1, and as many zeros as possible.

    `max_work`: above about this many floating-point operations nothing is moved.
    """
    p, n = columns.shape
    a = np.ones(n)
    if float(p) * n * min(p, n) > max_work:
        return a
    N = _null_space(columns)
    while N.shape[1]:
        u = _falling(N[:, -1], w)
        falling = np.flatnonzero((u < 0) & (a > 0))
        if not len(falling):
            return a
        steps = -a[falling] / u[falling]
        emptied = falling[np.argmin(steps)]
        a = np.maximum(a + steps.min() * u, 0.0)
        a[emptied] = 0.0
        # The rest of the null space that leaves the emptied arm alone.
        pivot = int(np.argmax(np.abs(N[emptied])))
        N[:, [pivot, -1]] = N[:, [-1, pivot]]
        N = N[:, :-1] - np.outer(N[:, -1], N[emptied, :-1] / N[emptied, -1])
        N[emptied] = 0.0
    return a


def _falling(u: Array, w: Array) -> Array:
    """Return u or -u, whichever does not increase the total weight; if neither does, the largest entry falls."""
    change = float(w @ u)
    if abs(change) > 1e-4 * float(w @ np.abs(u)):
        return u if change < 0 else -u
    # At a G-optimum every null vector keeps the total, so the sign of `change` would be that of a rounding error.
    return u if u[np.argmax(np.abs(u))] < 0 else -u


def _null_space(columns: Array) -> Array:
    # Columns as they are: scaled to one length, rounding would decide the first pivot and so which arms stay.
    _, R, order = scipy.linalg.qr(columns, mode="economic", pivoting=True)
    pivots = np.abs(np.diagonal(R))
    rank = int((pivots > 1e-12 * max(pivots[0], 1e-300)).sum()) if len(pivots) else 0
    n = columns.shape[1]
    N = np.zeros((n, n - rank))
    N[order[:rank]] = -scipy.linalg.solve_triangular(R[:rank, :rank], R[:rank, rank:])
    N[order[rank:]] = np.eye(n - rank)
    return N


START_LEVEL = 0.3
"""Relative distance from the optimum of a start about which nothing is known."""
ALIKE = 0.9
"""|cos| above which two arms or directions do not enter the master together."""
NEGLIGIBLE = 1e-100
"""Of the worst phi: such a direction is left out at first, as dividing by so small a phi would overflow."""


@final
@dataclass(slots=True)
class Effort:
    """What a solve has cost so far."""

    rounds: int = 0
    iterations: int = 0
    """Interior-point iterations, all masters together."""
    passes: int = 0
    """Full passes over the arms or over the directions."""


@final
class Members:
    """Which of n rows are in the master; a row that was dropped and came back stays, or rounds could cycle."""

    def __init__(self, n: int) -> None:
        self.inside = np.zeros(n, dtype=bool)
        self.dropped = np.zeros(n, dtype=bool)
        self.returned = np.zeros(n, dtype=bool)

    def enter(self, index: IntArray) -> BoolArray:
        """Take these rows in and return which of them were not inside yet."""
        is_new: BoolArray = ~self.inside[index]
        new = index[is_new]
        self.inside[new] = True
        self.returned[new] = self.dropped[new]
        return is_new

    def drop(self, index: IntArray) -> None:
        """Let these rows go."""
        self.inside[index], self.dropped[index] = False, True

    def droppable(self, index: IntArray) -> BoolArray:
        """Return which of these rows may still be dropped."""
        free: BoolArray = ~self.returned[index]
        return free


class Goal(Protocol):
    """What the weights are to achieve: the part of the solver that differs between kinds of design."""

    def start(self, whitener: Array, earlier: Mapping[int, float]) -> None:
        """Choose the first directions, if the goal has any of its own; an earlier solve had some, with multipliers."""
        ...

    def attempts(self, level: float) -> Sequence[tuple[float, bool]]:
        """Return the ways to solve a master, (level, is_cautious), when the last weights are believed `level` away."""
        ...

    def solve(
        self, X: Array, whitener: Array, w: Array, *, tol: float, level: float, is_cautious: bool = False
    ) -> MasterSolution:
        """Solve the master on whitened arms X."""
        ...

    def accept(self, master: MasterSolution) -> None:
        """Go on from the multipliers of this solution."""
        ...

    def factor(self, whitener: Array) -> Array:
        """Return F (d, k) in the frame with gain g_i = |F'x_i|^2."""
        ...

    def pool_bounds(self, w: Array, whitener: Array, largest_gain: float) -> tuple[float, float]:
        """Return value and lower bound as far as the pooled arms (their `largest_gain`) and directions can tell."""
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

    def start(self, whitener: Array, earlier: Mapping[int, float]) -> None:
        """Nothing to choose: the directions are the arms."""

    def attempts(self, level: float) -> Sequence[tuple[float, bool]]:
        """Return starts from afar alone: new arms often have to swap weights with nearly parallel ones."""
        return (START_LEVEL, False), (START_LEVEL, True)

    def solve(
        self, X: Array, whitener: Array, w: Array, *, tol: float, level: float, is_cautious: bool = False
    ) -> MasterSolution:
        """Solve the D-optimal master."""
        return solve_d(X, w, tol=tol, level=level, is_cautious=is_cautious)

    def accept(self, master: MasterSolution) -> None:
        """Nothing to keep: the multipliers are the weights."""

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
        self.members = Members(directions.n_directions)

    def start(self, whitener: Array, earlier: Mapping[int, float]) -> None:
        """Take the worst d directions of the first design, and those of an earlier solve."""
        if self.whole:
            self._fill_pool(*self.directions.existing(np.arange(self.directions.n_directions)))
        else:
            self._refresh(whitener)
        if earlier:
            index, vectors = self.directions.existing(np.fromiter(earlier, dtype=np.int64))
            self._join(index, vectors @ self.frame)
            self.lam = np.array([earlier[direction] for direction in self.Q.tolist()])
        phi = square_norms(self.pool_rows @ whitener)
        least = NEGLIGIBLE * phi.max()
        if len(self.pool) <= 2 * len(self.frame):
            self._join_pooled(phi > least)
        else:
            self._join_worst(whitener, above=least)

    def attempts(self, level: float) -> Sequence[tuple[float, bool]]:
        """Return long steps from nearby first, then from afar, then cautious ones from afar, midway and nearby."""
        cautious = ((distance, True) for distance in (START_LEVEL, math.sqrt(level * START_LEVEL), level))
        return (level, False), (START_LEVEL, False), *cautious

    def solve(
        self, X: Array, whitener: Array, w: Array, *, tol: float, level: float, is_cautious: bool = False
    ) -> MasterSolution:
        """Solve the master on the hardest directions."""
        return solve_xy(X, self.Y @ whitener, w, self.lam, tol=tol, level=level, is_cautious=is_cautious)

    def accept(self, master: MasterSolution) -> None:
        """Keep the multipliers, for pricing and as the next start."""
        self.lam = master.lam

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
        return float(w.sum() * worst), self._bound(largest_gain)

    def _bound(self, largest_gain: float) -> float:
        return float(self.lam.sum()) / largest_gain if largest_gain > 0.0 else 0.0

    def true_bounds(self, w: Array, whitener: Array, largest_gain: float) -> tuple[float, float]:
        """Price every direction, renew the pool, and return the proved value and lower bound."""
        if self.whole:
            return self.pool_bounds(w, whitener, largest_gain)
        self._refresh(whitener)
        return float(w.sum() * self.worst), self._bound(largest_gain)

    def grow(self, whitener: Array) -> None:
        """Drop directions that are far from binding, add up to d violated ones."""
        phi = square_norms(self.Y @ whitener)
        limit = phi.max()
        slack = self.members.droppable(self.Q) & (phi <= 0.7 * limit)
        self.members.drop(self.Q[slack])
        self._keep(~slack)
        self._join_worst(whitener, above=limit)

    def worst_of_all(self, whitener: Array) -> float:
        """Return the largest phi over all directions."""
        if self.whole:
            return float(square_norms(self.pool_rows @ whitener).max())
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
        index, phi = self.directions.top(self.frame @ whitener, self.n_pool)
        self._fill_pool(index, self.directions.vectors(index))
        self.worst = float(phi[0])

    def _fill_pool(self, index: IntArray, vectors: Array) -> None:
        self.pool, self.pool_rows = index, vectors @ self.frame

    def _join_worst(self, whitener: Array, *, above: float) -> None:
        """Add up to d directions of the pool with the largest phi, far from parallel to each other."""
        rows, dim = self.pool_rows @ whitener, len(self.frame)
        phi = square_norms(rows)
        worst = largest(phi, 20 * dim)
        worst = worst[phi[worst] > above]
        self._join_pooled(worst[spread_rows(rows[worst], at_most=dim, cosine=ALIKE)])

    def _join_pooled(self, places: IntArray | BoolArray) -> None:
        self._join(self.pool[places], self.pool_rows[places])

    def _join(self, index: IntArray, rows: Array) -> None:
        is_new = self.members.enter(index)
        self.Q = np.concatenate([self.Q, index[is_new]])
        self.Y = np.vstack([self.Y, rows[is_new]])
        self.lam = np.concatenate([self.lam, np.zeros(int(is_new.sum()))])

    def _keep(self, kept: BoolArray) -> None:
        self.Q, self.Y, self.lam = self.Q[kept], self.Y[kept], self.lam[kept]
