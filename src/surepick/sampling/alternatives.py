"""Leader against rivals: the closest alternative, and the pulls that tell two candidates apart.

Notation: theta (d,) the estimate, A (d, d) information or that of a design, y = z_i - z (d,) the difference of the
leader i and a rival z, gap = theta'y, q = y'A^-1 y. The parameters under which the rival is at least as good form a
half-space; the nearest of them in the norm of A is

    lambda = theta - (gap / q) A^-1 y,      |theta - lambda|_A^2 / 2 = gap_+^2 / (2 q),

the transport cost of the rival. The rival of least cost is the hardest to tell from the leader.

Two ways to choose arms for a difference y. Greedy: one more pull of x turns y'A^-1 y into y'A^-1 y - (x'A^-1 y)^2 /
(1 + x'A^-1 x) (Sherman-Morrison), so the best arm maximises the last term. L1: the proportions that measure y with the
fewest pulls, min over w of y'A(w)^-1 y = (min |c|_1 with X'c = y)^2, reached at w = |c| / |c|_1: a linear program with
d equations and 2K variables c = c+ - c-.

Reference: Xu, Honda and Sugiyama (2018), section 4; the identity is Elfving's theorem (1952).
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, final

import numpy as np
import scipy

from surepick.arms.base import ArmSet
from surepick.core.linalg import row_chunks
from surepick.errors import SurepickError
from surepick.sampling.choosers import Asked
from surepick.types import Array, BoolArray, IntArray

# Largest table, in numbers, that is kept in whitened coordinates; larger tables are mapped chunk by chunk.
KEPT = 4_000_000
# Values within this relative distance are a tie: rounding must not decide between arms.
TIE = 1e-9
# Weights below this share are rounding of the linear program.
SMALLEST = 1e-9


@final
class Rows:
    """The rows of an arm set in its own coordinates, mapped once if the table is small."""

    def __init__(self, arms: ArmSet) -> None:
        self.arms = arms
        is_small = arms.n_arms * arms.dim <= KEPT
        self.kept = np.vstack([rows for _, rows in arms.chunks()]) if is_small else None

    def chunks(self) -> Iterator[tuple[int, Array]]:
        """Yield (first row number, rows) over all arms in order."""
        return self.arms.chunks() if self.kept is None else row_chunks(self.kept)

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the rows with these numbers."""
        rows: Array = self.arms.gather(index) if self.kept is None else self.kept[index]
        return rows

    def times(self, u: Array) -> Array:
        """Return X u (K,)."""
        return np.concatenate([rows.dot(u) for _, rows in self.chunks()]) if self.kept is None else self.kept.dot(u)

    def best(self, parameters: Array) -> IntArray:
        """Return the row with the largest x'u for each u (n, d), the first of several (n,)."""
        if self.kept is None:
            return np.array([int(np.argmax(self.times(u))) for u in parameters], dtype=np.int64)
        best: IntArray = np.argmax(parameters.dot(self.kept.T), axis=1)
        return best

    def squares(self, Q: Array) -> Array:
        """Return x'Q x (K,) for symmetric Q."""
        return np.concatenate([np.einsum("ij,ij->i", rows.dot(Q), rows) for _, rows in self.chunks()])

    def information(self, weights: Array) -> Array:
        """Return sum_k w_k x_k x_k' (d, d)."""
        total = np.zeros((self.arms.dim, self.arms.dim))
        for start, rows in self.chunks():
            total += (rows.T * weights[start : start + len(rows)]).dot(rows)
        return total


class Closest(NamedTuple):
    """A rival and its transport cost."""

    rival: int
    y: Array
    gap: float
    cost: float
    """gap_+^2 / (2 y'A^-1 y), without noise_std."""


@final
class Alternatives:
    """Transport costs of all rivals of a leader; O(K d^2) per call, at most O(K d) memory."""

    def __init__(self, candidates: ArmSet) -> None:
        self._candidates = candidates
        self.rows = Rows(candidates)
        self._leader = -1
        self._others = np.empty(0, dtype=bool)
        self._differences: Array | None = None

    def rivals(self, leader: int, among: BoolArray | None = None) -> BoolArray:
        """Return a mask (K,) of the leader's rivals: candidates of `among` except the leader and its copies."""
        self._turn_to(leader)
        return self._others if among is None else self._others & among

    def forms(self, leader: int, theta: Array, A_inv: Array) -> tuple[Array, Array]:
        """Return theta'y (K,) and y'A^-1 y (K,) for y = leader - candidate, the leader itself included."""
        self._turn_to(leader)
        if self._differences is not None:
            return _forms(self._differences, theta, A_inv)
        # Subtract first, then multiply: the gap of two nearly equal rows keeps its digits.
        x = self.rows.gather([leader])
        gaps, squares = zip(*(_forms(x - rows, theta, A_inv) for _, rows in self.rows.chunks()), strict=True)
        return np.concatenate(gaps), np.concatenate(squares)

    def costs(self, leader: int, theta: Array, A_inv: Array, among: BoolArray | None = None) -> tuple[Array, Array]:
        """Return theta'y (K,) and the transport costs (K,), inf where there is no rival."""
        gap, q = self.forms(leader, theta, A_inv)
        reach = np.maximum(gap, 0.0)
        is_rival = self.rivals(leader, among)
        costs = np.full(len(gap), np.inf)
        np.divide(reach * reach, 2.0 * q, out=costs, where=is_rival & (q > 0.0))
        return gap, costs

    def closest(self, leader: int, theta: Array, A_inv: Array, among: BoolArray | None = None) -> Closest | None:
        """Return the rival of least cost, or None if there is none; ties go to the lowest row number."""
        gap, costs = self.costs(leader, theta, A_inv, among)
        rival = int(np.argmin(costs))
        if costs[rival] == np.inf:
            return None
        return Closest(rival, self.differences(leader, [rival])[0], float(gap[rival]), float(costs[rival]))

    def differences(self, leader: int, index: Sequence[int] | IntArray) -> Array:
        """Return leader - candidate (n, d) for some candidates."""
        return self.rows.gather([leader]) - self.rows.gather(index)

    def _turn_to(self, leader: int) -> None:
        if leader == self._leader:
            return
        self._leader = leader
        self._others = self._candidates.is_rival([leader])
        self._differences = None if self.rows.kept is None else self.rows.kept[leader] - self.rows.kept


def _forms(y: Array, theta: Array, A_inv: Array) -> tuple[Array, Array]:
    return y.dot(theta), np.einsum("ij,ij->i", y.dot(A_inv), y)


@final
class GreedyChoice:
    """Finds the arm that shrinks y'A^-1 y most; O(K d^2) per choice."""

    def __init__(self, arms: ArmSet) -> None:
        self._rows = Rows(arms)

    def gains(self, A_inv: Array, y: Array) -> Array:
        """Return by how much one pull of each arm (K,) reduces y'A^-1 y."""
        along = self._rows.times(A_inv.dot(y))
        along *= along
        along /= 1.0 + self._rows.squares(A_inv)
        return along

    def best(self, A_inv: Array, y: Array) -> int:
        """Return the arm that shrinks y'A^-1 y most; ties go to the lowest row number."""
        return first_of_largest(self.gains(A_inv, y))

    def arm(self, asked: Asked, y: Array, pair: tuple[int, int]) -> int:
        """Return the arm to pull for the difference y of this pair."""
        return self.best(asked.A_inv, y)


def first_of_largest(gains: Array) -> int:
    """Return the lowest number whose gain is the largest up to rounding."""
    return int(np.argmax(gains >= (1.0 - TIE) * gains.max()))


@final
class L1Allocation:
    """Solves the linear program of the L1 allocation and caches its solutions."""

    def __init__(self, arms: ArmSet) -> None:
        self._X = np.vstack([rows for _, rows in arms.chunks()])
        self._known: dict[Any, tuple[IntArray, Array]] = {}

    def of(self, y: Array, key: Any = None) -> tuple[IntArray, Array]:
        """Return the arms to pull and their proportions for the difference y.

        `key` names the difference: a later call with the same key returns the cached solution.
        """
        if key is not None and key in self._known:
            return self._known[key]
        n = len(self._X)
        solution = scipy.optimize.linprog(
            np.ones(2 * n), A_eq=np.hstack([self._X.T, -self._X.T]), b_eq=y, method="highs-ds"
        )
        if solution.x is None:
            raise SurepickError(f"the linear program for a difference of two candidates failed: {solution.message}.")
        size = np.abs(solution.x[:n] - solution.x[n:])
        share = size / size.sum()
        support = np.flatnonzero(share > SMALLEST)
        answer = support, share[support] / share[support].sum()
        if key is not None:
            self._known[key] = answer
        return answer

    def arm(self, asked: Asked, y: Array, pair: tuple[int, int]) -> int:
        """Return the arm furthest behind the proportions for the difference y of this pair."""
        support, share = self.of(y, key=(min(pair), max(pair)))
        return int(support[np.argmin(asked.counts[support] / share)])
