"""The betting rule: wealth against "arm b is the best", one settlement per block of pulls.

Notation: z_b (d,) candidates as rows (the arms, unless other candidates are asked about); l the leader,
y = z_l - z_b (d,); theta (d,) and A (d, d) estimate and information of ALL results before the block;
A_k (d, d) = sum x x' and b_k (d,) = sum r x over the block; z = y'A_k^+ b_k and v = noise_std^2 y'A_k^+ y
what the block says about theta'y; m = max(theta'y + epsilon, 0) and s2 = noise_std^2 y'A^-1 y the bet;
L_b the log wealth, 0 at the start. When a block ends, for every b whose y is in the range of A_k,

    L_b += log of the integral over D >= 0 of  N(D; m, s2) / P(D >= 0) * exp(D (z + epsilon)/v - D^2 / (2 v))

and b is rejected for good when L_b >= log(1/delta). With epsilon = 0 all leaders share one wealth per b, and
the rule stops when one candidate is left. With epsilon > 0 wealth is kept per (leader, b), the j-th distinct
leader must reach log(j (j+1)/delta), and the rule stops when a leader has rejected every b.

Why it is valid: given the past, the block's arms are fixed, so z - theta'y is a fixed linear form of the
block's noise, sub-Gaussian with variance v. If a is the best candidate, theta'(l - a) <= 0 whoever leads, so
E[exp(D z/v - D^2/(2v)) | past] <= 1 for every D >= 0, and for their mixture, whose law the past has fixed.
The wealth against a is a non-negative supermartingale started at 1: by Ville's inequality a is ever rejected
with probability at most delta. A wrong answer needs a rejected, so there is no union over arms. With
epsilon > 0 the same holds for z + epsilon whenever the leader loses epsilon or more against a, and the shares
1/(j (j+1)) of delta sum to at most 1.

The proof asks of whoever uses it:
 * the arms of a block are fixed before its first result, and so are the bets: `place` first, then pull;
 * `settle` once every ask of the block is told, or has failed for a reason that depends on no result of the block;
 * results nobody asked for may enter theta and A of later blocks, never the A_k, b_k of a block;
 * no stopping inside a block: the state changes in `settle` alone;
 * noise_std is known, or an upper bound.

Reference: mixture martingales, Robbins (1970), here with a truncated normal mixture; Ville (1939).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, log_ndtr

from surepick.core.checks import (
    check_count,
    check_delta,
    check_epsilon,
    check_matrix,
    check_noise_std,
    check_vector,
)
from surepick.core.linalg import Array, BoolArray, IntArray
from surepick.errors import InvalidInput

# y counts as inside the range of A_k if what sticks out is rounding: a larger part left out would bias z.
RANGE_TOL = 1e-9
# Eigenvalues of A_k below this share of the largest are rounding. One kept by mistake is harmless: dividing
# by it makes v so large that the bet returns the stake.
RANK_TOL = 1e-12
# Below this many rows, fetching them by index beats a pass over all arms.
GATHER_ROWS = 4096


class Candidates(Protocol):
    """What the rule needs of an arm set."""

    @property
    def n_arms(self) -> int:
        """Number of candidates K."""
        ...

    @property
    def dim(self) -> int:
        """Number of features d."""
        ...

    def gather(self, index: IntArray, /) -> Array:
        """Rows (n, d) of the given candidates."""
        ...

    def copies(self, arm: int, /) -> IntArray:
        """Candidates equal to this one, itself included."""
        ...

    def chunks(self) -> Iterator[tuple[int, Array]]:
        """All rows in order, as (number of the first row, rows (n, d))."""
        ...


def _tilted_log_ndtr(x: Array) -> Array:
    """Return log Phi(x) + x^2/2; for x < 0 the two cancel, so erfcx takes their place."""
    lower = np.log(0.5 * erfcx(np.maximum(-x, 0.0) / math.sqrt(2.0)))
    upper = np.maximum(x, 0.0)
    return np.where(x < 0, lower, 0.5 * upper * upper + log_ndtr(upper))


def log_bet(z: ArrayLike, v: ArrayLike, m: ArrayLike, s2: ArrayLike) -> Array:
    """Log of what one unit staked on "D >= 0, about m" returns when D is measured as z with variance v.

    The integral over D >= 0 of N(D; m, s2)/P(D >= 0) exp(D z/v - D^2/(2v)), in closed form. Arguments
    broadcast; v and s2 must be positive. The expectation of its exponential over z ~ N(D0, v) is at most 1
    for every D0 <= 0, and exactly 1 at D0 = 0.
    """
    z, v, m, s2 = (np.asarray(value, dtype=np.float64) for value in (z, v, m, s2))
    if not (np.all(v > 0) and np.all(s2 > 0)):
        raise InvalidInput(
            "log_bet needs v > 0 and s2 > 0; leave out directions the block or the past says nothing on."
        )
    sd_v, sd_m = np.sqrt(v), np.sqrt(s2)
    kept, shrunk = v / (v + s2), s2 / (v + s2)
    with np.errstate(over="ignore"):  # an infinite return is the right one
        zeta, c, a = z / sd_v, m / sd_v, m / sd_m
        x = a * np.sqrt(kept) + zeta * np.sqrt(shrunk)  # posterior mean of D over its standard deviation
        # (x^2 - a^2)/2 without the difference of two large squares, which loses all digits when m/s is large.
        exponent = 0.5 * (shrunk * zeta * zeta + kept * c * (2.0 * zeta - c))
        direct = exponent + log_ndtr(x) - log_ndtr(a)
        tilted = _tilted_log_ndtr(x) - _tilted_log_ndtr(a)
    ratio = -0.5 * np.logaddexp(0.0, np.log(s2) - np.log(v))
    return np.asarray(ratio + np.where((x >= 0) & (a >= 0), direct, tilted))


def bet_parameters(
    Y: Array, theta: Array, A_inv: Array, *, noise_std: float, epsilon: float = 0.0
) -> tuple[Array, Array]:
    """Mean m and variance s2 of the bets along the rows of Y, from the results before the block.

    Shapes Y (..., n, d), theta (..., d), A_inv (..., d, d); returns two (..., n). Cost O(n d^2).
    """
    spread, axes = np.linalg.eigh(A_inv)
    m = np.maximum((Y @ theta[..., None])[..., 0] + epsilon, 0.0)
    # A sum of squares cannot turn negative by rounding, as y'(A_inv y) can.
    s2 = noise_std**2 * ((Y @ axes) ** 2 @ np.maximum(spread, 0.0)[..., None])[..., 0]
    return m, s2


def block_statistics(Y: Array, A: Array, b: Array, *, noise_std: float) -> tuple[Array, Array, BoolArray]:
    """Value z and variance v of what a block says about theta'y, and whether y is in its range.

    Shapes Y (..., n, d) with one y per row, A (..., d, d), b (..., d); returns three (..., n). Outside the
    range z and v mean nothing. Cost O(n d^2).
    """
    spread, axes = np.linalg.eigh(A)
    has_rank = spread > RANK_TOL * np.maximum(spread[..., -1:], 0.0)
    inverse = np.where(has_rank, 1.0 / np.where(has_rank, spread, 1.0), 0.0)
    along = Y @ axes
    moments = inverse * (b[..., None, :] @ axes)[..., 0, :]
    z = (along @ moments[..., None])[..., 0]
    squares = along * along
    v = noise_std**2 * (squares @ inverse[..., None])[..., 0]
    outside = (squares @ np.where(has_rank, 0.0, 1.0)[..., None])[..., 0]
    inside = outside <= RANGE_TOL**2 * squares.sum(axis=-1)
    return z, v, inside & (v > 0)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Betting:
    """The betting rule: error probability `delta`, noise `noise_std`, slack `epsilon`. Guarantee: proved."""

    delta: float
    noise_std: float = 1.0
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        check_delta(self.delta)
        check_noise_std(self.noise_std)
        check_epsilon(self.epsilon)

    @property
    def log_price(self) -> float:
        """log(1/delta): the evidence at which the rule stops."""
        return -math.log(self.delta)

    def start(self, candidates: Candidates) -> "Wealth":
        """The state before the first block: nothing rejected."""
        return Wealth(self, candidates)


@dataclass(slots=True)
class _Book:
    """Log wealth (K,) against every candidate and the price at which one is rejected, then frozen."""

    log_wealth: Array
    price: float


@dataclass(frozen=True, slots=True)
class _Block:
    """The bets of one open block, kept as the d^2 numbers from which every m and s2 follows."""

    leader: int
    theta: Array = field(repr=False)
    A_inv: Array = field(repr=False)


@final
class Wealth:
    """State of the betting rule on one set of candidates: alternate `place` and `settle`.

    A block opened without `place` (the first one, when no estimate exists yet) is simply not bet on.
    Memory: one K-vector of wealth (with epsilon > 0 one per distinct leader) besides one chunk of rows.
    Time: `place` O(d^2), `settle` one pass over the candidates not yet rejected, O(K d^2).
    """

    def __init__(self, rule: Betting, candidates: Candidates) -> None:
        self.rule = rule
        self.n_blocks = 0
        self._candidates = candidates
        self._books: dict[int, _Book] = {}
        self._block: _Block | None = None
        self._answer: int | None = None

    @property
    def stopped(self) -> bool:
        """Whether the rule has stopped; for good."""
        return self._answer is not None

    @property
    def answer(self) -> int | None:
        """The candidate the rule stopped at, None before."""
        return self._answer

    @property
    def leader(self) -> int | None:
        """Leader of the open block, None between blocks."""
        return None if self._block is None else self._block.leader

    @property
    def survivors(self) -> IntArray:
        """Candidates that may still be the answer, in order; with epsilon > 0 all, until the rule stops."""
        if self._answer is not None:
            return np.array([self._answer], dtype=np.int64)
        if self.rule.epsilon > 0:
            return np.arange(self._candidates.n_arms)
        book = self._read(0)
        return np.flatnonzero(book.log_wealth < book.price)

    def alternatives(self, leader: int) -> IntArray:
        """Candidates that `leader` has yet to reject: what the next design should separate it from."""
        book = self._read(self._check_candidate(leader))
        remaining = book.log_wealth < book.price
        remaining[leader] = False
        return np.flatnonzero(remaining)

    def log_wealth(self, leader: int) -> Array:
        """Log wealth (K,) against every candidate under `leader`, less the leader's share of delta.

        A candidate is rejected at log(1/delta) and its wealth no longer updated. With epsilon = 0 all leaders
        have the same wealth.
        """
        book = self._read(self._check_candidate(leader))
        return book.log_wealth - (book.price - self.rule.log_price)

    def evidence(self, leader: int) -> float:
        """Log e-value that `leader` is right: the least log wealth against another candidate.

        P(ever: leader wrong and evidence >= log(1/alpha)) <= alpha for each alpha, where wrong means not the
        best, or with epsilon > 0 worse than the best by epsilon or more.
        """
        others = self.log_wealth(leader)
        others[leader] = np.inf
        return float(others.min())

    def leading(self, theta: ArrayLike) -> int:
        """The survivor with the largest estimate theta'z_b, the first of equals; one pass over them."""
        theta = check_vector("theta", theta, self._candidates.dim)
        best, top = -1, -math.inf
        for index, rows in self._rows(self.survivors):
            values = rows @ theta
            first = int(np.argmax(values))
            if values[first] > top:
                best, top = int(index[first]), float(values[first])
        return best

    def place(self, leader: int, *, theta: ArrayLike, A_inv: ArrayLike) -> None:
        """Open a block: fix its leader and its bets, before its first result.

        Args:
            leader: A survivor, usually `leading(theta)`. Nobody bets against it in its own block.
            theta: Estimate (d,) from all results so far; copied.
            A_inv: Inverse information (d, d) of all results so far, without noise_std; copied.
        """
        if self._block is not None:
            raise InvalidInput("the previous block is still open; settle it before placing new bets.")
        if self.stopped:
            raise InvalidInput(f"the rule has stopped at {self._answer}; no further bets can be placed.")
        dim = self._candidates.dim
        leader = self._check_candidate(leader)
        theta = check_vector("theta", theta, dim).copy()
        A_inv = _check_square("A_inv", A_inv, dim)
        book = self._books.get(self._key(leader))
        if book is None:
            book = self._books[self._key(leader)] = self._new_book()
        if self.rule.epsilon == 0 and not book.log_wealth[leader] < book.price:
            raise InvalidInput(f"candidate {leader} is rejected and cannot lead; take `leading(theta)`.")
        self._block = _Block(leader, theta, A_inv)

    def settle(self, *, A: ArrayLike, b: ArrayLike) -> None:
        """Close the block: pay out its bets, reject what has reached its price, and stop if nothing is left.

        Args:
            A: Information sum x x' (d, d) of the block's own pulls.
            b: Moments sum r x (d,) of the block's own pulls.
        """
        if self._block is None:
            raise InvalidInput("no block is open; fix its bets with `place` before its first result.")
        dim = self._candidates.dim
        A = _check_square("A", A, dim)
        b = check_vector("b", b, dim)
        block, epsilon, noise_std = self._block, self.rule.epsilon, self.rule.noise_std
        book = self._books[self._key(block.leader)]
        front = self._candidates.gather(np.array([block.leader], dtype=np.int64))
        # A copy of the leader is the leader under another number, and no measurement can tell them apart.
        copies = self._candidates.copies(block.leader)
        book.log_wealth[copies[copies != block.leader]] = np.inf
        for index, rows in self._rows(self.alternatives(block.leader)):
            Y = front - rows
            z, v, inside = block_statistics(Y, A, b, noise_std=noise_std)
            m, s2 = bet_parameters(Y, block.theta, block.A_inv, noise_std=noise_std, epsilon=epsilon)
            played = inside & (s2 > 0)
            returns = log_bet(z[played] + epsilon, v[played], m[played], s2[played])
            # Overflow (rewards of 1e150) must not look like evidence: a bet without a value returns the stake.
            book.log_wealth[index[played]] += np.where(np.isnan(returns), 0.0, returns)
        self._block = None
        self.n_blocks += 1
        if self.alternatives(block.leader).size == 0:
            self._answer = block.leader

    def _key(self, leader: int) -> int:
        return leader if self.rule.epsilon > 0 else 0

    def _new_book(self) -> _Book:
        share = len(self._books) + 1
        price = self.rule.log_price + (math.log(share * (share + 1)) if self.rule.epsilon > 0 else 0.0)
        return _Book(np.zeros(self._candidates.n_arms), price)

    def _read(self, leader: int) -> _Book:
        """The leader's book, or the one it would open."""
        book = self._books.get(self._key(leader))
        return self._new_book() if book is None else book

    def _check_candidate(self, leader: int) -> int:
        n_arms = self._candidates.n_arms
        number = check_count("leader", leader, least=0)
        if number >= n_arms:
            raise InvalidInput(f"`leader` must be a row number between 0 and {n_arms - 1}, got {leader!r}.")
        return number

    def _rows(self, index: IntArray) -> Iterator[tuple[IntArray, Array]]:
        """Rows of the given candidates (increasing numbers), never more than one chunk at a time."""
        if index.size <= GATHER_ROWS:
            if index.size:
                yield index, self._candidates.gather(index)
            return
        for start, rows in self._candidates.chunks():
            low, high = np.searchsorted(index, (start, start + len(rows)))
            if low < high:
                part = index[low:high]
                yield part, rows if part.size == len(rows) else rows[part - start]


def _check_square(name: str, value: ArrayLike, dim: int) -> Array:
    """Return a fresh finite (dim, dim) array."""
    matrix = check_matrix(name, value, n_columns=dim)
    if len(matrix) != dim:
        raise InvalidInput(f"`{name}` must be a square ({dim}, {dim}) array, got shape {matrix.shape}.")
    return matrix
