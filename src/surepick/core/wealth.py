"""The betting rule: wealth against "arm b is the best", one settlement per block of pulls.

Notation: that of `core.betting`; L_b the log wealth against candidate b, 0 at the start; price = log(1/delta).
A_k (d, d) = sum x x' over the block. When a block ends, for every b whose y = z_l - z_b is in the range of A_k,

    L_b += log of the return of a unit staked on the leader against b, with z + epsilon in the place of z

and b is rejected for good when L_b >= price. With epsilon = 0 all leaders share one account per b (`Wealth`), and the
rule stops when one candidate is left. With epsilon > 0 every possible answer has accounts of its own (`Seats`).

Why it is valid: given the past, the block's arms are fixed, so z - theta'y is a fixed linear form of the block's
noise, sub-Gaussian with variance v. If a is the best candidate, theta'(l - a) <= 0 whoever leads, so the return has
conditional mean at most 1. The wealth against a is a non-negative supermartingale started at 1: by Ville's inequality
a is ever rejected with probability at most delta. A wrong answer needs a rejected, so there is no union over arms.
It may also be started at any e-value against "a is the best" from earlier results, which has mean at most 1: `begin`.
docs/guarantee.md has the proofs (Theorem 3; with slack Theorem 17; blocks that overlap in time Theorem 18; earlier
results Theorem 24).

The proof asks of whoever uses it:
 * the arms of a block are fixed before its first result;
 * blocks are settled in the order in which they were opened, each when every ask of it is told; one that failed is made
   again, so that A_k stays as it was planned;
 * `theta0` and `A0_inv` of a block, from which its bets follow, hold results of earlier blocks, and unsolicited ones
   told before the block was opened; nothing else;
 * no stopping inside a block: the state changes in `settle` alone;
 * noise_std is a sub-Gaussian scale of the noise; or it is None, and the noise of a block is Gaussian with one level,
   or with one for each arm if the block repeats a design; or every reward lies within bounds, and no scale is needed.

Reference: mixture martingales, Robbins (1970), here with truncated normal mixtures; Ville (1939).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from surepick.arms.protocol import ArmSet, PairForms
from surepick.core.betting import RETURNS, Sizes, plain_belief, shrunk_belief
from surepick.core.block import NEGLIGIBLE, Block, BlockFit, fit, root_of
from surepick.core.bounded import BoundedBlock, Bounds
from surepick.core.checks import check_delta, check_epsilon, check_noise_std, check_vector
from surepick.core.estimate import LeastSquares
from surepick.core.evidence import Mixture, log_evidence
from surepick.core.linalg import Array, BoolArray, one_blas_thread
from surepick.core.student import log_sub_block_returns, log_t_returns
from surepick.errors import InvalidInput

# Possible answers that bet under slack, at most; each is a pass over the candidates per block and a number for each.
MOST_SEATS, MOST_NUMBERS = 16, 8_000_000
# Share of the stake that is laid on results of before the first block. Where they say nothing it is lost: 0.22 nats,
# against 0.69 for a half; where they say much, a half would be worth 0.9 nats more.
HISTORY_SHARE = 0.2


def log_start(log_e: ArrayLike) -> Array:
    """Return the log of 1 - w + w E, the wealth to start with; mean at most 1 if that of E is, and never below 1 - w.

    The share w is a constant: one that depended on how much was measured before, or on whether it spans, would let
    whoever measured then choose it after a look at the results.
    """
    kept, laid = math.log1p(-HISTORY_SHARE), math.log(HISTORY_SHARE)
    return np.logaddexp(kept, laid + np.asarray(log_e, dtype=np.float64))


Returns = Callable[[Array, Array, Array, Array, Array], Array]
"""Log of what a unit returns (n,), by products of y (k, n), q, m, s2 and the log wealth still missing, all (n,)."""


@final
@dataclass(frozen=True, slots=True)
class Bets:
    """What a block pays, candidate by candidate, in forms of y."""

    vectors: list[Array]
    """The mean of the belief; then those whose products with y the returns need, with epsilon added to the first."""
    factors: list[Array]
    """F with |F'y|^2 = s2, the variance of the belief; q = y'A^+ y; if needed, what the block left unmeasured."""
    log_returns: Returns


class Accounts(ABC):
    """What `Wealth` and `Seats` share: who bets how much, and what a block pays.

    Args:
        candidates: what is compared.
        delta: risk.
        noise_std: sub-Gaussian scale of the noise; None: Gaussian noise whose level is unknown, see `core.student`.
        bounds: smallest and largest possible reward, which then are all that is assumed of the noise, see
            `core.bounded`; None: none are known.
        epsilon: slack.
        sizes: how large bets are, see `core.betting`.
        level: u (d,) with x'u about 1 for the arms; None if no such direction is known.
    """

    def __init__(
        self,
        candidates: ArmSet,
        *,
        delta: float,
        noise_std: float | None = None,
        bounds: Bounds | None = None,
        epsilon: float = 0.0,
        sizes: Sizes = "shrunk",
        level: Array | None = None,
    ) -> None:
        self.log_price = -math.log(check_delta(delta))
        """log(1/delta): the evidence at which a candidate is rejected."""
        self.noise_std = None if noise_std is None else check_noise_std(noise_std)
        self.bounds, self.epsilon = bounds, check_epsilon(epsilon)
        self.n_blocks = 0
        self.answer: int | None = None
        """The candidate the rule stopped at, None before."""
        self._candidates, self._sizes = candidates, sizes
        self._common = np.zeros(candidates.n_arms)
        self._led: tuple[int, Array, int] | None = None
        self._level = np.zeros(candidates.dim) if level is None else check_vector("level", level, candidates.dim)

    def leading(self, theta: ArrayLike) -> int:
        """Return who would lead a block now, given an estimate; the answer once there is one."""
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

    @abstractmethod
    def _bet(self, theta: Array, leader: int, bets: Bets) -> int | None:
        """Pay out the bets of a block and return the answer, if there is one now."""

    @one_blas_thread
    def begin(self, estimate: LeastSquares) -> None:
        """Start each wealth at what results of before the first block say, whoever chose their arms from the past.

        E_b is the evidence (`core.evidence`) that the leader of these results beats b: if b is the best it does not, so
        E_b is an e-value. E_b = 0 as long as the arms do not span. Without a given noise_std nothing is laid on them.
        """
        if self.noise_std is None:
            return
        self._common[:] = log_start(-np.inf)
        if not estimate.has_theta:
            return
        mixture, noise_std, leader = Mixture.default(), self.noise_std, self._candidates.best(estimate.theta)
        logdets = mixture.logdets(estimate.A)

        def start(forms: PairForms) -> None:
            (gap,), (q1, q2) = forms.products, forms.squares
            log_e = log_evidence(gap, q1, q2, logdets, mixture=mixture, noise_std=noise_std)
            self._common[forms.index] = log_start(log_e)

        everyone = np.ones(len(self._common), dtype=bool)
        factors = [estimate.factor(), estimate.A_inv.copy()]
        for _ in self._candidates.pair_forms(leader, [estimate.theta], factors, everyone, start):
            pass  # each piece starts its own candidates
        rivals = self.alternatives(leader)
        rivals[self._candidates.copies(leader)] = False
        self.answer = None if rivals.any() else leader

    def alternatives(self, leader: int) -> BoolArray:
        """Return which candidates (K,) the leader has yet to reject, as a fresh array."""
        remaining: BoolArray = self.log_wealth(leader) < self.log_price
        return remaining

    @one_blas_thread
    def settle(self, block: Block) -> None:
        """Pay out the bets of a block, reject what has reached the price, and stop if nothing is left.

        A block before which nothing was known of theta (`A0_inv` is None), or of a noise whose level was not given, is
        not bet on.
        """
        if self.answer is not None:
            raise InvalidInput(f"the rule has stopped at {self.answer}; no further bets can be placed.")
        if block.A0_inv is not None:
            theta = check_vector("theta0", block.theta0, self._candidates.dim)
            bets = self._bets(block, fit(block))
            self.answer = None if bets is None else self._bet(theta, self.leading(theta), bets)
        self.n_blocks += 1

    def _bets(self, block: Block, said: BlockFit) -> Bets | None:
        """Return the bets that the past makes on a block; None if it knows nothing of the noise."""
        if self.bounds is not None:
            results = BoundedBlock(block, level=self._level, bounds=self.bounds)
            return self._backed(block, said, results.noise_std, results.vectors, results.log_returns)
        if self.noise_std is not None:
            known, variance = RETURNS[self._sizes], self.noise_std**2
            return self._backed(
                block,
                said,
                self.noise_std,
                [said.theta],
                lambda z, q, m, s2, rest: known(z[0], variance * q, m, s2, rest),
            )
        own, past = said.residuals, block.past
        if past is None or not past.has_scale:
            return None
        believed = math.sqrt(float(past.variance))
        if block.parts is not None:
            return self._backed(
                block,
                said,
                believed,
                [said.theta, *said.apart(block.parts)],
                lambda z, q, m, s2, rest: log_sub_block_returns(z, q, m, s2, rest, past),
            )
        assert own is not None  # whoever does not know the noise has the pulls one by one
        return self._backed(
            block,
            said,
            believed,
            [said.theta],
            lambda z, q, m, s2, rest: log_t_returns(z[0], q, m, s2, rest, own, past),
        )

    def _backed(
        self, block: Block, said: BlockFit, noise_std: float, vectors: list[Array], log_returns: Returns
    ) -> Bets:
        """Return the bets with the belief behind them."""
        assert block.A0_inv is not None
        if self._sizes == "plain":
            belief = plain_belief(block.theta0, block.A0_inv, noise_std)
        else:
            belief = shrunk_belief(block.theta0, block.A0_inv, noise_std, self._level)
        factors = [root_of(belief.cov), said.root] + ([] if said.missed is None else [said.missed])
        return Bets([belief.mean, *vectors], factors, log_returns)

    def _pay(self, leader: int, bets: Bets, log_wealth: Array) -> None:
        """Add to a leader's log wealth (K,) what the block returns; rejected candidates keep theirs."""
        epsilon = self.epsilon
        # A copy of the leader is the leader under another number, and no measurement can tell them apart.
        log_wealth[self._candidates.copies(leader)] = np.inf

        def pay(forms: PairForms) -> None:
            believed, first, *others = forms.products
            m, (s2, q), index = np.maximum(believed + epsilon, 0.0), forms.squares[:2], forms.index
            products = [first + epsilon, *others]
            played = (q > 0) & (s2 > 0)
            if len(bets.factors) > 2:
                played &= forms.squares[2] <= NEGLIGIBLE**2 * forms.squares[1]
            if not played.all():
                index, (q, m, s2, *products) = index[played], [values[played] for values in (q, m, s2, *products)]
            won = bets.log_returns(np.array(products), q, m, s2, self.log_price - log_wealth[index])
            # Overflow (rewards of 1e150) must not look like evidence: a bet without a value returns the stake.
            log_wealth[index] += np.where(np.isnan(won), 0.0, won)

        for _ in self._candidates.pair_forms(leader, bets.vectors, bets.factors, log_wealth < self.log_price, pay):
            pass  # each piece pays its own candidates


@final
class Wealth(Accounts):
    """Accounts without slack: one per candidate, whoever leads.

    Memory: one K-vector besides one chunk of rows. Time: a settlement is one pass over the candidates not yet rejected,
    O(K d^2).
    """

    def _best(self, theta: Array) -> int:
        """Return the candidate not rejected with the largest estimate theta'z_b, the first of equals."""
        return self._candidates.best(theta, self._common < self.log_price)

    def log_wealth(self, leader: int) -> Array:
        """Return the log wealth (K,) against every candidate; inf against the leader."""
        log_wealth = self._common.copy()
        log_wealth[leader] = np.inf
        return log_wealth

    def _bet(self, theta: Array, leader: int, bets: Bets) -> int | None:
        own = self._common[leader]
        self._pay(leader, bets, self._common)
        self._common[leader] = own  # nobody bets against the leader
        return None if self.alternatives(leader).any() else leader


@final
class Seats(Accounts):
    """Accounts with slack: every possible answer that has a seat bets against every candidate, in every block.

    V_u (K,) is the log wealth of seat u. Seats are ordered; the answer of place j may use only what every seat up to j
    has: it is u_j once the smallest of V_1, .., V_j has reached the price against every candidate. Between blocks
    a candidate is seated at the end, and promoted to the front with the smallest V of all seats up to its own.
    Why: docs/guarantee.md, Theorem 17. The minimum is what makes it valid: a bad answer may not inherit the place of
    another one without its losses.

    Memory: one K-vector per seat. Time: one pass over the candidates per seat and block.
    """

    def __init__(self, candidates: ArmSet, **options: Any) -> None:
        super().__init__(candidates, **options)
        self._seats: dict[int, Array] = {}  # in order
        self._most = max(2, min(MOST_SEATS, MOST_NUMBERS // candidates.n_arms))
        self._first = self._common  # what a new seat starts with: 0, or less where a seat was given up

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
        return next((u for u in self._seats if not self.alternatives(u).any()), None)

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
