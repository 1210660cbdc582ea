"""The betting rule: wealth against "arm b is the best", one settlement per block of pulls.

Notation: z_b (d,) candidates as rows (the arms, unless other candidates are asked about); l the leader,
y = z_l - z_b (d,); theta (d,) and A (d, d) estimate and information of ALL results before the block;
A_k (d, d) = sum x x' over the block; z and v = noise_std^2 y'A_k^+ y what the block by itself says about theta'y and
the variance of that (`core.block`); m = max(theta'y + epsilon, 0) and s2 = noise_std^2 y'A^-1 y the bet;
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
 * `settle` once every ask of the block is told; one that failed is made again, so that A_k stays as it was planned;
 * unsolicited results may enter theta and A of later blocks, never a block;
 * no stopping inside a block: the state changes in `settle` alone;
 * noise_std is a sub-Gaussian scale of the noise.

Reference: mixture martingales, Robbins (1970), here with a truncated normal mixture; Ville (1939).
"""

import math
from dataclasses import dataclass, field
from typing import final

import numpy as np
import scipy
from numpy.typing import ArrayLike

from surepick.arms.protocol import ArmSet, PairForms
from surepick.core.block import NEGLIGIBLE, Block, fit, root_of
from surepick.core.checks import (
    check_count,
    check_delta,
    check_epsilon,
    check_matrix,
    check_noise_std,
    check_vector,
)
from surepick.core.linalg import Array, BoolArray, IntArray, one_blas_thread
from surepick.errors import InvalidInput

# From here on the normal distribution function is 1 to double precision.
CERTAIN = 9.0


def _tilted_log_ndtr(x: Array) -> Array:
    """Return log Phi(x) + x^2/2; for x < 0 the two cancel, so erfcx takes their place."""
    value = np.empty_like(x)
    below = x < 0
    value[below] = np.log(0.5 * scipy.special.erfcx(-x[below] / math.sqrt(2.0)))
    upper = x[~below]
    value[~below] = 0.5 * upper * upper + scipy.special.log_ndtr(upper)
    return value


def log_bet(z: ArrayLike, v: ArrayLike, m: ArrayLike, s2: ArrayLike) -> Array:
    """Log of what one unit staked on "D >= 0, about m" returns when D is measured as z with variance v.

    The integral over D >= 0 of N(D; m, s2)/P(D >= 0) exp(D z/v - D^2/(2v)), in closed form. Arguments
    broadcast; v and s2 must be positive. The expectation of its exponential over z ~ N(D0, v) is at most 1
    for every D0 <= 0, and exactly 1 at D0 = 0.
    """
    z, v, m, s2 = np.broadcast_arrays(*(np.asarray(value, dtype=np.float64) for value in (z, v, m, s2)))
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
        value = np.asarray(0.5 * (shrunk * zeta * zeta + kept * c * (2.0 * zeta - c)))
        widening = np.log1p(s2 / v)
        if not np.isfinite(widening).all():
            widening = np.logaddexp(0.0, np.log(s2) - np.log(v))
        # Each special function only where it says something: they are most of the cost.
        direct = (x >= 0) & (a >= 0)
        near = direct & (np.minimum(x, a) < CERTAIN)
        value[near] += np.log(scipy.special.ndtr(x[near]) / scipy.special.ndtr(a[near]))
        if not direct.all():
            value[~direct] = _tilted_log_ndtr(x[~direct]) - _tilted_log_ndtr(a[~direct])
    return np.asarray(value - 0.5 * widening)


@dataclass(slots=True)
class _Book:
    """Log wealth (K,) against every candidate and the price at which one is rejected, then frozen."""

    log_wealth: Array
    price: float

    @property
    def open(self) -> BoolArray:
        """Which candidates are not rejected, as a fresh array."""
        still: BoolArray = self.log_wealth < self.price
        return still


@dataclass(frozen=True, slots=True)
class _Bets:
    """The bets of one open block, kept as the d^2 numbers from which every m and s2 follows."""

    leader: int
    theta: Array = field(repr=False)
    A_inv: Array = field(repr=False)


@final
class Wealth:
    """State of the betting rule on one set of candidates: alternate `place` and `settle`.

    Args:
        candidates: what is compared.
        delta: risk.
        noise_std: sub-Gaussian scale of the noise.
        epsilon: slack.

    A block opened without `place` (the first one, when no estimate exists yet) is simply not bet on.
    Memory: one K-vector of wealth (with epsilon > 0 one per distinct leader) besides one chunk of rows.
    Time: `place` O(d^2), `settle` one pass over the candidates not yet rejected, O(K d^2).
    """

    def __init__(self, candidates: ArmSet, *, delta: float, noise_std: float = 1.0, epsilon: float = 0.0) -> None:
        self.log_price = -math.log(check_delta(delta))
        """log(1/delta): the evidence at which the rule stops."""
        self.noise_std, self.epsilon = check_noise_std(noise_std), check_epsilon(epsilon)
        self.n_blocks = 0
        self._candidates = candidates
        self._books: dict[int, _Book] = {}
        self._bets: _Bets | None = None
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
        return None if self._bets is None else self._bets.leader

    @property
    def survivors(self) -> IntArray:
        """Candidates that may still be the answer, in order; with epsilon > 0 all, until the rule stops."""
        return np.flatnonzero(self._is_survivor())

    def _is_survivor(self) -> BoolArray:
        n = self._candidates.n_arms
        if self._answer is not None:
            only = np.zeros(n, dtype=bool)
            only[self._answer] = True
            return only
        if self.epsilon > 0:
            return np.ones(n, dtype=bool)
        return self._read(0).open

    def alternatives(self, leader: int) -> IntArray:
        """Candidates that `leader` has yet to reject: what the next design should separate it from."""
        return np.flatnonzero(self.is_alternative(leader))

    def is_alternative(self, leader: int) -> BoolArray:
        """Which candidates (K,) `leader` has yet to reject."""
        remaining = self._read(self._check_candidate(leader)).open
        remaining[leader] = False
        return remaining

    def log_wealth(self, leader: int) -> Array:
        """Log wealth (K,) against every candidate under `leader`, less the leader's share of delta.

        A candidate is rejected at log(1/delta) and its wealth no longer updated. With epsilon = 0 all leaders
        have the same wealth.
        """
        book = self._read(self._check_candidate(leader))
        return book.log_wealth - (book.price - self.log_price)

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
        return self._candidates.best(theta, self._is_survivor())

    def place(self, leader: int, *, theta: ArrayLike, A_inv: ArrayLike) -> None:
        """Open a block: fix its leader and its bets, before its first result.

        Args:
            leader: A survivor, usually `leading(theta)`. Nobody bets against it in its own block.
            theta: Estimate (d,) from all results so far; copied.
            A_inv: Inverse information (d, d) of all results so far, without noise_std; copied.
        """
        if self._bets is not None:
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
        if self.epsilon == 0 and not book.log_wealth[leader] < book.price:
            raise InvalidInput(f"candidate {leader} is rejected and cannot lead; take `leading(theta)`.")
        self._bets = _Bets(leader, theta, A_inv)

    @one_blas_thread
    def settle(self, block: Block) -> None:
        """Close the block: pay out its bets, reject what has reached its price, and stop if nothing is left.

        Args:
            block: its own pulls, measured from the `theta` and `A_inv` of `place`.
        """
        bets = self._bets
        if bets is None:
            raise InvalidInput("no block is open; fix its bets with `place` before its first result.")
        dim = self._candidates.dim
        _check_square("A", block.A, dim)
        check_vector("b", block.b, dim)
        epsilon, noise_std = self.epsilon, self.noise_std
        book = self._books[self._key(bets.leader)]
        # A copy of the leader is the leader under another number, and no measurement can tell them apart.
        copies = self._candidates.copies(bets.leader)
        book.log_wealth[copies[copies != bets.leader]] = np.inf
        said = fit(block)
        factors = [root_of(bets.A_inv), said.root]
        if said.missed is not None:
            factors.append(said.missed)

        def pay(forms: PairForms) -> None:
            past, now = forms.products
            s2, v = (noise_std**2 * square for square in forms.squares[:2])
            m, z = np.maximum(past + epsilon, 0.0), now + epsilon
            played = (v > 0) & (s2 > 0)
            if len(factors) > 2:
                played &= forms.squares[2] <= NEGLIGIBLE**2 * forms.squares[1]
            index = forms.index
            if not played.all():
                index, (z, v, m, s2) = index[played], (values[played] for values in (z, v, m, s2))
            returns = log_bet(z, v, m, s2)
            # Overflow (rewards of 1e150) must not look like evidence: a bet without a value returns the stake.
            book.log_wealth[index] += np.where(np.isnan(returns), 0.0, returns)

        alternatives = self.is_alternative(bets.leader)
        vectors = [bets.theta, said.theta]
        for _ in self._candidates.pair_forms(bets.leader, vectors, factors, alternatives, pay):
            pass  # each piece pays its own candidates
        self._bets = None
        self.n_blocks += 1
        if not self.is_alternative(bets.leader).any():
            self._answer = bets.leader

    def _key(self, leader: int) -> int:
        return leader if self.epsilon > 0 else 0

    def _new_book(self) -> _Book:
        share = len(self._books) + 1
        price = self.log_price + (math.log(share * (share + 1)) if self.epsilon > 0 else 0.0)
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


def _check_square(name: str, value: ArrayLike, dim: int) -> Array:
    """Return a fresh finite (dim, dim) array."""
    matrix = check_matrix(name, value, n_columns=dim)
    if len(matrix) != dim:
        raise InvalidInput(f"`{name}` must be a square ({dim}, {dim}) array, got shape {matrix.shape}.")
    return matrix
