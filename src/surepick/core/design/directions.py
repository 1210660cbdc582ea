"""Directions that a design must resolve, goals of the solver, and moving weights onto few arms.

**Directions.** y (d,) a direction; phi_y = y'A^-1 y. Identifying the best of the candidates under theta needs
y_b = (x_best - x_b) / (theta'(x_best - x_b) + epsilon) for every other candidate b, epsilon the loss that is accepted;
the m best need these directions for each of them. `GapDirections` computes directions on demand: memory never holds
all of them.

**Goals.** A goal is the part of the solver that differs between designs: `ArmsThemselves` (G-optimal) or
`GivenDirections`. Notation: w (n,) weights of the master's arms; P (d, d) the whitener of the current design in the
frame's coordinates, |P'x|^2 = x'A(w)^-1 x; gain g_i of an arm, at most 1 for every arm at the optimum; Q the directions
in the master with rows Y (m, d) and multipliers lam (m,).

**Sparse support.** `carried` moves the weights of a solved design onto few arms and keeps the certificate. Notation:
U (n, d) the support's arms, whitened by the design itself; a (n,) multipliers, new weight = a_i w_i. Null vectors v of
the columns w_i u_i u_i' leave A unchanged, so weights can be moved along them, in the direction in which their total
does not grow, until one arm is empty (Caratheodory). A has d(d+1)/2 entries, hence at most that many arms are left. If
only A^-1 y of the binding directions is kept fixed, fewer arms may do.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import scipy

from surepick.arms.base import ArmSet
from surepick.core.design.master import MasterSolution, solve_d, solve_xy
from surepick.core.linalg import largest, spread_rows, square_norms, triangular
from surepick.errors import InvalidInput, TiedArms
from surepick.types import Array, BoolArray, IntArray

SMALLEST_GAP = 1e-140
"""Below this, gap^2 leaves the range of double precision."""


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

    The direction of the i-th leader and candidate b has the number i K + b.

    Args:
        candidates: the rows that are compared.
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
        """Refuse a leader without rivals, or with a gap that rounding hides."""
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
        # By number: in mapped coordinates rounding can give the leader a tiny gap to itself.
        return self.candidates.is_rival(self.leaders.tolist(), self.among)

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


Directions = RowDirections | GapDirections


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
    """The cost of a solve so far."""

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


Goal = ArmsThemselves | GivenDirections
