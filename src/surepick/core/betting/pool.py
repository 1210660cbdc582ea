"""Bets on a pool: a table of fixed scores, one for each arm and item, whose items are met in random order.

Notation: M items, K arms; scores r in [lo, hi], here divided by w = hi - lo after lo is taken off, so that they are in
[0, 1]; the best arm has the largest mean over the pool; item t is the t-th of a uniformly random order, asked of all
arms that are not rejected; l the leader before it, b another such arm, D_t = r_lt - r_bt; S the sum of D over the items
before t; n = M - t + 1 items are left with item t among them.

If b is best, the pool's sum of D is at most 0, so the items left have a sum of at most -S, and D_t, which is that of a
random one of them, has mean at most m = -S/n given the past. A stake lam >= 0 with lam (1 + m) < 1 multiplies a unit to

    1 + lam (D_t - m),

which is never negative and has mean at most 1 then. Its law is fixed by the past, and a mixture of such products is
as good. b is rejected for good once the wealth against it has reached 1/delta; or once S > M - t after item t, since
the items left cannot make up for that: certain. After item M all scores are known, and the largest sum is the answer.

Why m matters: after half of the pool a lead is there to stay, since what is left must make up for it. With m = 0 the
bets are on the source that the items come from, of which even the whole pool is a sample.

**Stakes.** If the pool's mean of D is g, D_t - m has a mean of about g M/n and the variance of D, so the best stake
grows as M/n. Wealth is the mean over 16 products, whose stakes are shares of `LARGEST` M/n, cut to `LIMIT`/(1 + m).

**Scores that are missing**, because a result is void or because a correction brought an arm back after items were asked
without it: the pair has no bet on such an item, and S counts the score as 0 for the leader and as 1 for its rival.
S is then too small, m too large, and the mean of a factor still at most 1.

docs/guarantee.md has the proof in full (Theorem 39).
"""

import math
from typing import final

import numpy as np

from surepick.types import Array, BoolArray, IntArray

N_STAKES = 16
# Three arms, 400 items, scores 0 or 1 with correlation 0.6, the best ahead by 0.03, 0.06, 0.1, 0.2 and 0.3 (200 runs):
# 339, 242, 154, 68 and 41 items with 0.5; 344, 247, 156, 61 and 34 with 0.7; 349, 257, 162, 63, 33 with 1. Stakes that
# do not grow as M/n, but have the same limit: 359, 266, 165.
LARGEST = 0.7
LIMIT = 0.95
"""The share of a unit that one item may take at most."""
ROUNDING = 1e-9
"""Sums of scores in [0, 1] that differ by less are equal: no certain rejection rests on rounding."""


def largest_mean(S: Array, t: int, n_items: int) -> Array:
    """Return m (n,): the largest mean of D on item t, from 1, if the sum before is S or more and the rival is best."""
    return np.maximum(-S / (n_items - t + 1), -1.0)


def log_factors(D: Array, S: Array, t: int, n_items: int) -> Array:
    """Return the log of the factors (n, 16) by which item t multiplies each product.

    Args:
        D: lead of the leader on item t (n,), in [-1, 1].
        S: sum of its leads on the items before, or less (n,).
        t: number of the item, from 1.
        n_items: size of the pool.
    """
    m = largest_mean(S, t, n_items)[:, None]
    shares = (np.arange(N_STAKES) + 0.5) / N_STAKES
    most = np.divide(LIMIT, 1.0 + m, out=np.full_like(m, np.inf), where=m > -1.0)
    stakes = np.minimum(shares * LARGEST * n_items / (n_items - t + 1), most)
    return np.log1p(stakes * (D[:, None] - m))


@final
class PoolWealth:
    """The wealth against every arm, and the sums of scores.

    Args:
        n_arms: K.
        n_items: M.
        bounds: smallest and largest possible score.
        delta: risk.
    """

    def __init__(self, n_arms: int, n_items: int, bounds: tuple[float, float], delta: float) -> None:
        self.n_items, self.log_price = n_items, math.log(1.0 / delta)
        self._lo, hi = bounds
        self._width = hi - self._lo
        self.n_settled = 0
        """Items that are settled."""
        self._low, self._high = np.zeros((2, n_arms))  # sums of scores, missing ones as 0 and as 1
        self._logs = np.zeros((n_arms, N_STAKES))
        self.log_wealth: Array = np.zeros(n_arms)
        """Log wealth against every arm (K,)."""
        self.is_alive: BoolArray = np.ones(n_arms, dtype=bool)
        """Which arms (K,) are not rejected."""
        self.answer: int | None = None
        """The best arm, once that is decided."""

    @property
    def leader(self) -> int:
        """The arm with the largest sum among those not rejected."""
        return int(np.argmax(np.where(self.is_alive, self._low, -1.0)))

    def settle(self, number: int, arms: IntArray, scores: Array) -> None:
        """Settle the bets on an item.

        Args:
            number: place of the item in the order of asking, from 1; those that were passed over have no scores.
            arms: numbers (n,) of the arms that have a score on it.
            scores: of these arms (n,).
        """
        self._pass_over(number - 1 - self.n_settled)
        seen = np.full(len(self._low), np.nan)
        seen[arms] = (scores - self._lo) / self._width
        leader = self.leader
        rivals = self.is_alive & ~np.isnan(seen)
        rivals[leader] = False
        if not np.isnan(seen[leader]):
            D, S = seen[leader] - seen[rivals], self._low[leader] - self._high[rivals]
            self._logs[rivals] += log_factors(D, S, number, self.n_items)
            self.log_wealth[rivals] = np.logaddexp.reduce(self._logs[rivals], axis=1) - math.log(N_STAKES)
        self._low += np.where(np.isnan(seen), 0.0, seen)
        self._high += np.where(np.isnan(seen), 1.0, seen)
        self.n_settled = number
        self._reject(leader)

    def _pass_over(self, n: int) -> None:
        """Take note of n items without scores."""
        self.n_settled += n
        self._high += n

    def _reject(self, leader: int) -> None:
        """Reject the arms against which the bets on the leader, or its lead, are enough; at the end by the table."""
        left = self.n_items - self.n_settled
        self._remove((self.log_wealth >= self.log_price) | (self._low[leader] - self._high > left + ROUNDING), leader)
        if left == 0:
            self._remove(self._high <= self._low[self.leader], self.leader)
        if np.count_nonzero(self.is_alive) == 1:
            self.answer = self.leader

    def _remove(self, arms: BoolArray, winner: int) -> None:
        """Reject arms (K,) other than the winner; one that is certainly no better has the wealth that this needs."""
        arms = arms & self.is_alive
        arms[winner] = False
        self.log_wealth[arms] = np.maximum(self.log_wealth[arms], self.log_price)
        self.is_alive &= ~arms
