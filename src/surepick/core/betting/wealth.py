"""The betting rule: wealth against "arm b is the best", one settlement per block of pulls.

Notation: that of `core.betting.bets`; L_b the log wealth against candidate b, 0 at the start; price = log(1/delta).
A_k (d, d) = sum x x' over the block. When a block ends, for every b whose y = z_l - z_b is in the range of A_k,

    L_b += log of the return of a unit staked on the leader against b, with z + epsilon in the place of z

and b is rejected for good when L_b >= price. With epsilon = 0 all leaders share one account per b (`Wealth`), and the
rule stops when one candidate is left. With epsilon > 0 every possible answer has accounts of its own
(`EpsilonWealth`). Where means may be off their linear fit, z loses its largest possible bias (`core.betting.block`).

Why it is valid: given the past, the block's arms are fixed, so z - theta'y is a fixed linear form of the block's noise,
sub-Gaussian with variance v. If a is the best candidate, theta'(l - a) <= 0 for every leader l, so the return has
conditional mean at most 1. The wealth against a is a non-negative supermartingale started at 1: by Ville's inequality a
is ever rejected with probability at most delta. A wrong answer needs a rejected, so there is no union over arms. It may
also be started at any e-value against "a is the best" from earlier results, which has mean at most 1: `begin`; or at
the wealth of an earlier rule: `go_on`. docs/guarantee.md has the proofs (Theorem 3; with slack Theorem 5; blocks that
overlap in time Theorem 4; earlier results Theorem 6).

`core.betting.sets` and `core.betting.top_m` have the wealth for the m best.

The proofs require of a caller:
 * the arms of a block are fixed before its first result;
 * blocks are settled in the order in which they were opened, each when every ask of it is told; one that failed is made
   again, so that A_k stays as it was planned;
 * `theta0` and `A0_inv` of a block, from which its bets follow, hold results of earlier blocks, and unsolicited ones
   told before the block was opened; nothing else;
 * no stopping inside a block: the state changes in `settle` alone;
 * noise_std is a sub-Gaussian scale of the noise; or it is None, and the noise of a block is Gaussian with one level,
   or, if the block repeats a design, with one for each arm, or of any symmetric law; or every reward lies within
   bounds, and no scale is needed.

Reference: mixture martingales, Robbins (1970), here with mixtures over the size of a gap; Ville (1939).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from surepick.arms.base import ArmSet, PairForms
from surepick.core.betting.bets import (
    SHRUNK,
    Sizes,
    log_sub_block_returns,
    log_symmetric_returns,
    log_t_returns,
)
from surepick.core.betting.block import NEGLIGIBLE, ArmWeights, Block, BlockFit, fit
from surepick.core.betting.bounded import BoundedBlock, Bounds
from surepick.core.betting.prior_results import log_start
from surepick.core.checks import check_delta, check_epsilon, check_misfit, check_noise_std, check_vector
from surepick.core.linalg import one_blas_thread
from surepick.errors import InvalidInput
from surepick.types import Array, BoolArray, IntArray

# Possible answers that bet under slack, at most; each is a pass over the candidates per block and a number for each.
MOST_SEATS, MOST_NUMBERS = 16, 8_000_000

Returns = Callable[[Array, Array, Array, Array, Array], Array]
"""Maps products of y (k, n), q, m, s2 and the log wealth still missing, all (n,), to the log return of a unit (n,)."""
Law = tuple[float, list[Array], Returns, ArmWeights | None]
"""Believed scale of the noise, vectors, returns, and weights of arms other than those of least squares."""


@final
@dataclass(frozen=True, slots=True)
class Bets:
    """The bets on a block: forms of y, and the return they yield."""

    vectors: list[Array]
    """The mean of the belief; then the vectors whose products with y the returns need."""
    factors: list[Array]
    """F with |F'y|^2 = s2, the variance of the belief; q = y'A^+ y; if needed, the unmeasured directions."""
    log_returns: Returns
    noise_std: float
    """Believed scale of the noise."""
    weights: ArmWeights | None = None
    """How much each arm counts; None if means are exactly linear."""
    rounding: float = 0.0
    """The largest bias of z by rounding of the readings, in units of sqrt(q)."""
    shuns_rounding: bool = False
    """Whether the past knew of the rounding: then there is no bet where the believed gap is within its bias."""
    of_leader: Callable[[int], Sequence[Array]] | None = None
    """Further vectors for a leader, see `core.betting.block.OwnBets`."""

    def vectors_for(self, leader: int) -> list[Array]:
        """Return the vectors for bets on a leader."""
        return self.vectors if self.of_leader is None else [*self.vectors, *self.of_leader(leader)]


@final
@dataclass(frozen=True, slots=True)
class Placed:
    """Bets on a block against some candidates, and their returns."""

    index: IntArray
    """Numbers (n,) of the candidates."""
    products: Array
    """The products (k, n) of the block for each, slack included in the first row."""
    bias: Array | None
    """The largest bias (n,) if means are off their linear fit by 1; None: not needed."""
    law: tuple[Array, Array, Array, Array]
    """q, m, s2 and the log wealth still missing, each (n,): fixed before the first result."""
    returns: Returns

    def log_returns(self, misfit: float) -> Array:
        """Return the log return of a unit (n,) if z loses its bias; falls as the misfit grows."""
        products = self.products
        if misfit > 0.0:
            assert self.bias is not None
            products = np.vstack([products[0] - misfit * self.bias, products[1:]])
        won = self.returns(products, *self.law)
        # Overflow (rewards of 1e150) must not look like evidence: a bet without a value returns the stake.
        return np.where(np.isnan(won), 0.0, won)


def moved(log_wealth: Array, rows: IntArray) -> Array:
    """Return log wealth (K,) by new numbers of the candidates; 0 for those that are new (-1)."""
    found: Array = np.where(rows >= 0, log_wealth[rows], 0.0)
    return found


class BaseWealth(ABC):
    """Base class of the wealth processes: the size of bets, and the return of a block.

    Args:
        candidates: the rows that are compared.
        delta: risk.
        noise_std: sub-Gaussian scale of the noise; None: Gaussian noise of unknown level, see `core.betting.bets`.
        bounds: smallest and largest possible reward, which then are all that is assumed of the noise, see
            `core.betting.bounded`; None: none are known.
        epsilon: slack.
        misfit: eta, if every mean may be off its linear fit by so much: z loses its bias, see `core.betting.block`.
            Candidates are arms then, and blocks say which arm is which.
        weighs_arms: whether bets know their bias also where no misfit is allowed for: for `stopping.betting`.
        sizes: how large bets are, see `core.betting.bets`.
        level: u (d,) with x'u about 1 for the arms; None if no such direction is known.
    """

    def __init__(  # noqa: PLR0913 - every argument is an option of its own
        self,
        candidates: ArmSet,
        *,
        delta: float,
        noise_std: float | None = None,
        bounds: Bounds | None = None,
        epsilon: float = 0.0,
        misfit: float = 0.0,
        weighs_arms: bool = False,
        sizes: Sizes = SHRUNK,
        level: Array | None = None,
    ) -> None:
        self.log_price = -math.log(check_delta(delta))
        """log(1/delta): the evidence at which a candidate is rejected."""
        self.noise_std = None if noise_std is None else check_noise_std(noise_std)
        self.bounds, self.epsilon, self.misfit = bounds, check_epsilon(epsilon), check_misfit(misfit)
        self._weighs_arms = weighs_arms or self.misfit > 0.0
        self._weights: ArmWeights | None = None  # of the last block
        self.n_blocks = 0
        self.answer: int | None = None
        """The candidate the rule stopped at, None before."""
        self._candidates, self._sizes = candidates, sizes
        self._common = np.zeros(candidates.n_arms)
        self._led: tuple[int, Array, int] | None = None
        self._level = np.zeros(candidates.dim) if level is None else check_vector("level", level, candidates.dim)

    def _refuse_slack(self) -> None:
        """Refuse slack and a misfit, for accounts of several leaders."""
        if self.epsilon > 0.0 or self.misfit > 0.0:
            raise InvalidInput("no proof says what accounts of several leaders bear with slack, or with a misfit.")

    def leading(self, theta: ArrayLike) -> int:
        """Return the candidate that would lead a block now, given an estimate; the answer once there is one."""
        if self.answer is not None:
            return self.answer
        theta = check_vector("theta", theta, self._candidates.dim)
        # Asked when a block is planned and when it is settled: one pass over the candidates does for both.
        if self._led is None or self._led[0] != self.n_blocks or not np.array_equal(self._led[1], theta):
            self._led = self.n_blocks, theta.copy(), self._best(theta)
        return self._led[2]

    @abstractmethod
    def _best(self, theta: Array) -> int:
        """Return the candidate that leads by this estimate."""

    @abstractmethod
    def log_wealth(self, leader: int) -> Array:
        """Return a fresh array (K,): log wealth of the leader against every candidate; inf against itself.

        A candidate is rejected at log(1/delta) and its wealth no longer updated. P(ever: leader wrong and the smallest
        is at least log(1/alpha)) <= alpha for each alpha, where wrong means not the best, or with epsilon > 0 worse
        than the best by more than epsilon.
        """

    def log_wealth_of(self, leaders: Sequence[int]) -> Array:
        """Return the same for the arms that would be the answer now, several in `TopMWealth`."""
        return self.log_wealth(leaders[0])

    @abstractmethod
    def _bet(self, theta: Array, leader: int, bets: Bets) -> int | None:
        """Pay out the bets of a block and return the answer, if there is one now."""

    @one_blas_thread
    def begin(self, X: Array, rewards: Array) -> None:
        """Start each wealth at the e-value of results from before the first block, see `core.betting.prior_results`.

        If means need not be exactly linear, such results count for nothing: their e-value assumes linear means.

        Args:
            X: features (n, d) of the measured arms, each chosen from the past, in the order of measuring.
            rewards: (n,).
        """
        if self.misfit > 0.0:
            return
        self._common[:] = log_start(self._candidates, X, rewards, self.noise_std)
        self.conclude()

    def conclude(self) -> None:
        """Answer at once if the wealth that the rule starts with leaves one candidate."""
        leader = int(np.argmin(self._common))
        rivals = self._candidates.is_rival([leader], self.alternatives(leader))
        self.answer = None if rivals.any() else leader

    def go_on(self, before: "BaseWealth", rows: IntArray) -> None:
        """Start each wealth where that of an earlier rule ended; docs/guarantee.md, Theorem 9, says when this holds.

        Args:
            before: the earlier wealth; with slack, one without slack too.
            rows: the number (K,) that each candidate had there; -1: it had none, and its wealth starts at 1.
        """
        self._common[:] = moved(before._common, rows)  # noqa: SLF001 (of this class)

    def log_rejection(self) -> Array:
        """Return the log wealth (K,) by which candidates are rejected, as a fresh array; not with slack."""
        return self._common.copy()

    def alternatives(self, leader: int) -> BoolArray:
        """Return which candidates (K,) the leader has yet to reject, as a fresh array."""
        remaining: BoolArray = self.log_wealth(leader) < self.log_price
        return remaining

    def survivors(self, leader: int) -> BoolArray:
        """Return the candidates (K,) that are not rejected, the leader and copies of survivors with them.

        Without slack they hold the best with probability 1 - delta, at all times together; with slack one that loses at
        most epsilon: the leader, if it does, else the best, which a leader that loses more has not rejected.
        """
        log_wealth = self.log_wealth(leader)
        left: BoolArray = log_wealth < self.log_price
        left[leader] = True
        # Bets leave wealth finite: an infinite one belongs to a copy of some leader, and survives as the leader does.
        for copy in np.flatnonzero(np.isinf(log_wealth)).tolist():
            left[copy] = left[self._candidates.copies(copy)].any()
        return left

    @one_blas_thread
    def n_undecidable(self, theta: Array) -> int:
        """Return against how many candidates no block like the last one can decide, given an estimate.

        Those not rejected over which the leader is ahead by no more than the bias that `misfit` allows for.
        """
        weights, leader = self._weights, self.leading(theta)
        if weights is None or self.misfit == 0.0:
            return 0

        def count(forms: PairForms) -> int:
            lead, *C = forms.products
            bias = weights.bias(np.array(C), leader, forms.index)
            return int((lead + self.epsilon <= self.misfit * bias).sum())

        vectors, left = [theta, *weights.W.T], self.alternatives(leader)
        return sum(self._candidates.pair_forms(leader, vectors, [], left, count))

    @one_blas_thread
    def settle(self, block: Block) -> None:
        """Pay out the bets of a block, reject candidates at the price, and stop if the leader has no rival left.

        There is no bet on a block before which theta was unknown (`A0_inv` is None), or the level of the noise.
        """
        if self.answer is not None:
            raise InvalidInput(f"the rule has stopped at {self.answer}; no further bets can be placed.")
        if block.A0_inv is not None:
            theta = check_vector("theta0", block.theta0, self._candidates.dim)
            bets = self._bets(block, fit(block))
            self.answer = None if bets is None else self._bet(theta, self.leading(theta), bets)
        self.n_blocks += 1

    def _bets(self, block: Block, said: BlockFit) -> Bets | None:
        """Return the bets on a block; None if the past has no scale of the noise."""
        law: Law | None
        of_leader = None
        if block.bet is None:
            law = self._law(block, said)
        else:
            own = block.bet(block, said)
            law = own.noise_std, own.vectors, own.log_returns, None
            of_leader = getattr(own, "of_leader", None)
        if law is None:
            return None
        noise_std, vectors, log_returns, weights = law
        assert block.A0_inv is not None
        belief = self._sizes.belief(block.theta0, block.A0_inv, noise_std, self._level)
        factors = [belief.root, said.root] + ([] if said.missed is None else [said.missed])
        # z = sum c_i r_i with sum c_i^2 = q, so a bias b of every reward adds b sum |c_i| <= b sqrt(n q) at most.
        rounding = 0.0 if block.bias == 0.0 or block.pulls is None else block.bias * math.sqrt(len(block.pulls[1]))
        vectors = [belief.mean, *vectors]
        if self._weighs_arms:
            assert block.pulls is not None  # with a misfit the block holds its pulls and arms
            assert block.arms is not None
            if weights is None and block.grouped is not None:
                # Pulls of one arm have different weights in different groups.
                weights = ArmWeights.of(block.arms, said.root @ (said.root.T @ block.pulls[0].T))
            self._weights = weights = weights or ArmWeights.of_least_squares(block.arms, block.pulls[0], said.root)
            vectors += list(weights.W.T)
        weights = weights if self._weighs_arms else None
        return Bets(vectors, factors, log_returns, noise_std, weights, rounding, block.was_coarse, of_leader)

    def _law(self, block: Block, said: BlockFit) -> Law | None:
        """Return the believed scale of the noise, the vectors and returns of a block, and its weights of arms.

        Weights are None if they are those of least squares. All is None if the past has no scale of the noise.
        """
        if self.bounds is not None:
            results = BoundedBlock(block, level=self._level, bounds=self.bounds)
            return results.noise_std, results.vectors, results.log_returns, results.weights
        if self.noise_std is not None:
            known, variance = self._sizes.log_returns, self.noise_std**2
            return self.noise_std, [said.theta], lambda z, q, m, s2, rest: known(z[0], variance * q, m, s2, rest), None
        own, past = said.residuals, block.past
        if past is None or not past.has_scale:
            return None
        believed = math.sqrt(float(past.variance))
        if block.parts is not None:
            vectors = [said.theta, *said.apart(block.parts)]
            if block.is_symmetric:
                return believed, vectors, partial(log_symmetric_returns, past=past), None
            least = (len(block.parts) - 1) * block.step**2 / 12.0
            return believed, vectors, partial(log_sub_block_returns, past=past, dust=block.dust, least=least), None
        assert own is not None  # without a known noise the block holds the pulls one by one
        return believed, [said.theta], lambda z, q, m, s2, rest: log_t_returns(z[0], q, m, s2, rest, own, past), None

    def _pay(self, leader: int, bets: Bets, log_wealth: Array) -> None:
        """Add the log returns of the block to a leader's log wealth (K,); rejected candidates keep theirs."""
        # A copy of the leader is the leader under another number, and no measurement can tell them apart.
        log_wealth[self._candidates.copies(leader)] = np.inf

        def pay(forms: PairForms) -> None:
            placed = self._placed(leader, bets, log_wealth, forms)
            log_wealth[placed.index] += placed.log_returns(self.misfit)

        vectors = bets.vectors_for(leader)
        for _ in self._candidates.pair_forms(leader, vectors, bets.factors, log_wealth < self.log_price, pay):
            pass  # each piece pays its own candidates

    def _placed(self, leader: int, bets: Bets, log_wealth: Array, forms: PairForms) -> Placed:
        """Return the bets against some candidates; none where the block or the past has no information."""
        believed, first, *others = forms.products
        (s2, q), index, bias = forms.squares[:2], forms.index, None
        believed = believed + self.epsilon
        if bets.weights is not None:
            s = len(bets.weights.arms)
            others, C = others[:-s], others[-s:]
            bias = bets.weights.bias(np.array(C), leader, index)
            believed = believed - self.misfit * bias
        first = first + self.epsilon
        if bets.rounding > 0.0:
            off = bets.rounding * np.sqrt(q)
            believed, first = believed - off, first - off
        m, products = np.maximum(believed, 0.0), [first, *others]
        played = (q > 0) & (s2 > 0)
        if bets.shuns_rounding:
            played &= believed > 0.0
        if len(bets.factors) > 2:
            played &= forms.squares[2] <= NEGLIGIBLE**2 * forms.squares[1]
        if not played.all():
            index, (q, m, s2, *products) = index[played], [values[played] for values in (q, m, s2, *products)]
            bias = None if bias is None else bias[played]
        law = q, m, s2, self.log_price - log_wealth[index]
        return Placed(index, np.array(products), bias, law, bets.log_returns)


@final
class Wealth(BaseWealth):
    """Accounts without slack: one per candidate, shared by all leaders.

    Memory: one K-vector besides one chunk of rows. Time: a settlement is one pass over the candidates not yet rejected,
    O(K d^2).
    """

    def _best(self, theta: Array) -> int:
        """Return the candidate not rejected with the largest estimate theta'z_b, the first of equals."""
        return self._candidates.best(theta, self._common < self.log_price)

    def log_wealth(self, leader: int) -> Array:
        """Return the log wealth (K,) against every candidate; inf against the leader and its copies."""
        log_wealth = self._common.copy()
        log_wealth[self._candidates.copies(leader)] = np.inf
        return log_wealth

    def alternatives(self, leader: int) -> BoolArray:
        """Return which candidates (K,) are not rejected, the leader aside, as a fresh array."""
        remaining: BoolArray = self._common < self.log_price
        remaining[leader] = False
        return remaining

    def _bet(self, theta: Array, leader: int, bets: Bets) -> int | None:
        own = self._common[leader]
        self._pay(leader, bets, self._common)
        self._common[leader] = own  # there is no bet against the leader
        return None if self.alternatives(leader).any() else leader

    @property
    def n_candidates(self) -> int:
        """K."""
        return self._candidates.n_arms

    def copies_of_leader(self, theta: Array) -> IntArray:
        """Return the copies of the candidate that leads by this estimate, itself excluded."""
        leader = self.leading(theta)
        return np.setdiff1d(self._candidates.copies(leader), [leader])

    @one_blas_thread
    def placed_on(self, block: Block) -> list[Placed]:
        """Return the bets on a block against every candidate, with their bias, without paying them.

        Those rejected already are bet against as if their wealth were 1 again; those not rejected have, in pieces of
        their own, the very bets that `settle` would pay.
        """
        if block.A0_inv is None or (bets := self._bets(block, fit(block))) is None:
            return []
        leader = self.leading(block.theta0)
        is_left: BoolArray = self._common < self.log_price
        log_wealth = np.where(is_left, self._common, 0.0)
        is_rival = self._candidates.is_rival([leader])
        return [
            placed
            for among in (is_left & is_rival, ~is_left & is_rival)
            for placed in self._candidates.pair_forms(
                leader, bets.vectors_for(leader), bets.factors, among, partial(self._placed, leader, bets, log_wealth)
            )
        ]


@final
class EpsilonWealth(BaseWealth):
    """Accounts with slack: every possible answer that has a seat bets against every candidate, in every block.

    V_u (K,) is the log wealth of seat u. Seats are ordered; the answer of place j may use only what every seat up to j
    has: it is u_j once the smallest of V_1, .., V_j has reached the price against every candidate. Between blocks
    a candidate is seated at the end, and promoted to the front with the smallest V of all seats up to its own.
    Why: docs/guarantee.md, Theorem 5. The minimum is what makes it valid: a bad answer may not inherit the place of
    another one without its losses.

    Memory: one K-vector per seat. Time: one pass over the candidates per seat and block.
    """

    def __init__(self, candidates: ArmSet, **options: Any) -> None:
        super().__init__(candidates, **options)
        self._seats: dict[int, Array] = {}  # in order
        self._most = max(2, min(MOST_SEATS, MOST_NUMBERS // candidates.n_arms))
        self._first = self._common  # the wealth of a new seat: 0, or less where a seat was given up

    def go_on(self, before: BaseWealth, rows: IntArray) -> None:
        """Start where an earlier rule ended: with its seats, or every seat with its wealth if it had no slack."""
        if not isinstance(before, EpsilonWealth):
            super().go_on(before, rows)
            return
        self._seats = {u: V.copy() for u, V in before._seats.items()}  # noqa: SLF001 (of this class)
        self._first[:] = before._first  # noqa: SLF001

    def conclude(self) -> None:
        """Answer at once if some seat has rejected all others."""
        if self._seats:
            self.answer = self._answer()
        else:
            super().conclude()

    def _answer(self) -> int | None:
        return next((u for u in self._seats if not self.alternatives(u).any()), None)

    def _best(self, theta: Array) -> int:
        """Return the candidate with the largest estimate, rejected by others or not."""
        return self._candidates.best(theta)

    def log_wealth(self, leader: int) -> Array:
        """Return the smallest log wealth (K,) of all seats up to the leader's; of all if it has none."""
        smallest = np.full(self._candidates.n_arms, np.inf)
        for u, V in self._seats.items():
            np.minimum(smallest, V, out=smallest)
            if u == leader:
                break
        else:
            np.minimum(smallest, self._first, out=smallest)
        smallest[self._candidates.copies(leader)] = np.inf
        return smallest

    def _bet(self, theta: Array, leader: int, bets: Bets) -> int | None:
        if not self._seats:
            self._seat_the_best(theta)
        self._promote(leader)
        for u, V in self._seats.items():
            self._pay(u, bets, V)
        return self._answer()

    def _seat_the_best(self, theta: Array) -> None:
        left = np.ones(self._candidates.n_arms, dtype=bool)
        while len(self._seats) < self._most and left.any():
            u = self._candidates.best(theta, left)
            left[self._candidates.copies(u)] = False
            self._seats[u] = self._first.copy()

    def _promote(self, leader: int) -> None:
        """Seat the leader, if it has no seat, and move it to the front."""
        V = self.log_wealth(leader)
        if leader not in self._seats and len(self._seats) == self._most:
            _, dropped = self._seats.popitem()
            np.minimum(self._first, dropped, out=self._first)
        self._seats.pop(leader, None)
        self._seats = {leader: V, **self._seats}
