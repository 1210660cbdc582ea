"""The m best by accounts of sets: bets against "S is the set of the m best", many sets in one account.

Notation: that of `core.betting.wealth`; an account (I, O, L) stands for every set S of m candidates that contains all
of I and none of O, and L is its log wealth, 0 at the start. J the team of a block: the m candidates with the best
estimates before the block, rejected or not. K candidates; price = log(1/delta).

The rule starts with one account, which holds all sets. When a block is settled, an account

    rests       if I = J;
    bets        if some u of O is in J and some s of I is not: L += log of the sum of p_us E_us over all such pairs,
                E_us the return of a unit on y = x_u - x_s, p_us a share that the past has fixed;
    is split    else, before the block, and its children keep L. Without such a u: child r lacks the r-th best free
                member of J and has the better ones. Without such an s: child r has the r-th worst free candidate
                outside J and lacks the worse ones. Without both: all combinations, and the account of J alone.

An account with L >= price is closed. The rule stops when J's own account is the only one left, or none is.

Why it is valid: docs/guarantee.md, Theorem 30. "S is the set of the m best" is true of one S, so there is no union. A
pair of the account that holds it has u outside S and s in S, hence theta'(x_u - x_s) <= 0 and a return of mean at most
1. Where more accounts are open than `most_accounts` allows, those with the same hardest pair are merged: the new one
holds the sets of all, and has the smallest L.

Memory: two bits (here bytes) per account and candidate. Time: the forms of at most m (K - m) pairs per block, and one
return for every pair of every account.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, final

import numpy as np

from surepick.arms.base import ArmSet
from surepick.core.betting.wealth import BaseWealth, Bets, Placed
from surepick.types import Array, BoolArray, IntArray

# Bytes that inside and outside of all accounts may take, each.
MOST_BYTES = 100_000_000
# Bets wait until the past knows the sign of every gap so well: the share of the price that it would have won itself.
# Accounts are split by the team; one that is mostly noise makes many accounts and has most of its first bets wrong.
# After LATEST blocks they wait no longer: candidates may be tied at the edge of the team, and others far off.
WAIT, LATEST = 0.15, 100
# The least share of an account's wealth on each of its pairs, before shares are scaled to add up to 1.
LEAST_SHARE = 1e-6


def most_accounts(n_candidates: int, m: int) -> int:
    """Return how many accounts may be open before some are merged; a first split makes m (K - m) + 1."""
    return 4 * m * (n_candidates - m) + 1000


def has_room(n_candidates: int, m: int) -> bool:
    """Return whether accounts of sets fit into memory; else `TopMWealth` finds the m best."""
    return most_accounts(n_candidates, m) * n_candidates <= MOST_BYTES


def _cases(given: BoolArray, denied: BoolArray, arms: IntArray) -> tuple[BoolArray, BoolArray]:
    """Return masks (n k, K) of all cases: of k arms the r-th is the first that is denied, and those before are given.

    Args:
        given: masks (n, K) that the arms before the r-th join.
        denied: masks (n, K) that the r-th arm joins.
        arms: (k,), in order.
    """
    first = np.tile(np.arange(len(arms)), len(given))
    given, denied = (np.repeat(masks, len(arms), axis=0) for masks in (given, denied))
    denied[np.arange(len(first)), arms[first]] = True
    given[:, arms] |= np.arange(len(arms)) < first[:, None]
    return given, denied


def _each(masks: BoolArray) -> BoolArray:
    """Return for every row of masks (n, k) whether all of it holds (n,)."""
    held: BoolArray = np.logical_and.reduce(masks, axis=1)
    return held


@final
@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs that accounts bet on, those of an account one after the other."""

    account: IntArray
    """(n,), increasing."""
    u: IntArray
    """Member of the team (n,) that the sets of the account lack."""
    s: IntArray
    """Candidate outside the team (n,) that the sets of the account have."""


@final
@dataclass(frozen=True, slots=True)
class Accounts:
    """Bundles of sets, each with a log wealth."""

    inside: BoolArray
    """I (n, K): the candidates that every set of the account has."""
    outside: BoolArray
    """O (n, K): the candidates that no set of the account has."""
    log_wealth: Array
    """L (n,)."""

    def __len__(self) -> int:
        return len(self.log_wealth)

    def __getitem__(self, which: Any) -> "Accounts":
        return Accounts(self.inside[which], self.outside[which], self.log_wealth[which])

    def joined(self, *others: "Accounts") -> "Accounts":
        """Return these accounts and others."""
        parts = (self, *others)
        return Accounts(
            np.concatenate([part.inside for part in parts]),
            np.concatenate([part.outside for part in parts]),
            np.concatenate([part.log_wealth for part in parts]),
        )

    def completed(self, m: int) -> "Accounts":
        """Return the accounts that hold a set of m, with every candidate that all of their sets have or lack."""
        n_inside, n_free = self.inside.sum(axis=1), (~self.outside).sum(axis=1)
        left = self[(n_inside <= m) & (n_free >= m)]
        n_inside, n_free = left.inside.sum(axis=1), (~left.outside).sum(axis=1)
        left.outside[n_inside == m] = ~left.inside[n_inside == m]
        left.inside[n_free == m] = ~left.outside[n_free == m]
        return left

    def is_own(self, team: IntArray) -> BoolArray:
        """Return which accounts (n,) hold the team and no other set."""
        return _each(self.inside[:, team])

    def split(self, ranking: IntArray, m: int) -> "Accounts":
        """Return accounts with the same sets that all bet or rest under the team with which a ranking (K,) begins.

        Members are taken best first and others worst first, so that few sets are left to those that are close.
        """
        team, others = ranking[:m], ranking[: m - 1 : -1]
        lacks, has = ~_each(~self.outside[:, team]), ~_each(~self.inside[:, others])
        is_split = ~(self.is_own(team) | (lacks & has))
        if not is_split.any():
            return self
        return self[~is_split].joined(*(self._children(a, team, others) for a in np.flatnonzero(is_split).tolist()))

    def _children(self, a: int, team: IntArray, others: IntArray) -> "Accounts":
        inside, outside = self.inside[a : a + 1], self.outside[a : a + 1]
        is_free, lacks, has = ~(inside[0] | outside[0]), outside[0, team].any(), inside[0, others].any()
        if not lacks:
            inside, outside = _cases(inside, outside, team[is_free[team]])
        if not has:
            outside, inside = _cases(outside, inside, others[is_free[others]])
        if not (lacks or has):
            own = np.zeros((1, inside.shape[1]), dtype=bool)
            own[0, team] = True
            inside, outside = np.concatenate([inside, own]), np.concatenate([outside, ~own])
        return Accounts(inside, outside, np.full(len(inside), self.log_wealth[a])).completed(len(team))

    def pairs(self, team: IntArray) -> Pairs:
        """Return every u of O in the team with every s of I outside, account by account."""
        is_member = np.zeros(self.inside.shape[1], dtype=bool)
        is_member[team] = True
        account, s = np.nonzero(self.inside & ~is_member)
        of_u, u = np.nonzero(self.outside & is_member)
        n_u = np.bincount(of_u, minlength=len(self))
        first, times = np.cumsum(n_u) - n_u, n_u[account]
        account, s = np.repeat(account, times), np.repeat(s, times)
        turn = np.arange(len(account)) - np.repeat(np.cumsum(times) - times, times)
        return Pairs(account, u[first[account] + turn], s)

    def merged(self, ranking: IntArray, m: int) -> "Accounts":
        """Return at most m (K - m) + 1 accounts: of those with the same best u and worst s one, with the smallest L."""
        team = ranking[:m]
        pairs, place = self.pairs(team), np.argsort(ranking)
        key = np.full(len(self), -1)  # an account that rests stays as it is
        # The last that is written stays: the best u, and of its pairs the one with the worst s.
        order = np.lexsort((place[pairs.s], -place[pairs.u], pairs.account))
        key[pairs.account[order]] = (pairs.u * len(ranking) + pairs.s)[order]
        order = np.argsort(key, kind="stable")
        starts = np.flatnonzero(np.diff(key[order], prepend=-2))
        ordered = self[order]
        return Accounts(
            np.logical_and.reduceat(ordered.inside, starts),
            np.logical_and.reduceat(ordered.outside, starts),
            np.minimum.reduceat(ordered.log_wealth, starts),
        )

    def smallest(self) -> Array:
        """Return for every candidate (K,) the smallest L of an account with a set that has it; inf if there is none."""
        if not len(self):
            return np.full(self.inside.shape[1], np.inf)
        order = np.argsort(self.log_wealth, kind="stable")
        may_have = ~self.outside[order]
        first = may_have.argmax(axis=0)
        found: Array = np.where(may_have.any(axis=0), self.log_wealth[order][first], np.inf)
        return found

    def moved(self, rows: IntArray, m: int) -> "Accounts":
        """Return the accounts by the earlier numbers (K,) of the candidates, -1 for new ones.

        If the m best of all have a new one among them, the others of them were among the m best before: every account
        has, beside its own sets, those that have a new candidate and none of O.
        """
        stays = np.zeros(self.inside.shape[1], dtype=bool)
        stays[rows[rows >= 0]] = True
        kept, is_new = self[~(self.inside & ~stays).any(axis=1)], rows < 0
        own = Accounts(kept.inside[:, rows] & ~is_new, kept.outside[:, rows] | is_new, kept.log_wealth)
        if not is_new.any():
            return own.completed(m)
        outside = self.outside[:, rows] & ~is_new
        outside, inside = _cases(outside, np.zeros_like(outside), np.flatnonzero(is_new))
        more = Accounts(inside, outside, np.repeat(self.log_wealth, np.count_nonzero(is_new)))
        return own.joined(more).completed(m)


@final
class SetWealth(BaseWealth):
    """Accounts of sets of m candidates.

    Args:
        candidates: the rows that are compared; no two of them equal.
        m: how many are sought.
        options: of `BaseWealth`.
    """

    def __init__(self, candidates: ArmSet, *, m: int, **options: Any) -> None:
        super().__init__(candidates, **options)
        self._refuse_slack()
        self.m, self._most = m, most_accounts(candidates.n_arms, m)
        nothing = np.zeros((1, candidates.n_arms), dtype=bool)
        self._open = Accounts(nothing, nothing, np.zeros(1))
        self._closed = self._open[:0]
        self._has_begun = False  # whether there was a bet
        self._team: IntArray | None = None  # the answer

    @cached_property
    def _rows(self) -> Array:
        return self._candidates.gather(np.arange(self._candidates.n_arms))

    def _ranking(self, theta: Array) -> IntArray:
        """Return all candidates (K,), the best estimate first; of equal ones the first."""
        return np.argsort(-(self._rows @ theta), kind="stable")

    def _best(self, theta: Array) -> int:
        return int(self._ranking(theta)[0])

    def members(self, theta: Array) -> list[int]:
        """Return the team by this estimate, the best first; the answer once there is one."""
        ranking = self._ranking(theta)
        return list(map(int, ranking[: self.m] if self._team is None else ranking[np.isin(ranking, self._team)]))

    def begin(self, X: Array, rewards: Array) -> None:
        """Ignore earlier results: their e-value is proved for the best alone."""

    def go_on(self, before: BaseWealth, rows: IntArray) -> None:
        """Start with the accounts of an earlier rule, which sought as many."""
        assert isinstance(before, SetWealth)
        self._open = before._open.joined(before._closed).moved(rows, self.m)  # noqa: SLF001 (of this class)
        self._has_begun = before._has_begun  # noqa: SLF001
        self._close()

    def conclude(self) -> None:
        """Answer at once if one set is left."""
        if len(self._open) == 1 and np.count_nonzero(self._open.inside) == self.m:
            self._team = np.flatnonzero(self._open.inside[0])
            self.answer = int(self._team[0])

    def log_rejection(self) -> Array:
        """Return for every candidate (K,) the smallest log wealth against a set that has it."""
        return self._open.joined(self._closed).smallest()

    def log_wealth(self, leader: int) -> Array:
        """Return the same; inf for the leader."""
        smallest = self.log_rejection()
        smallest[leader] = np.inf
        return smallest

    def log_wealth_of(self, leaders: Sequence[int]) -> Array:
        """Return for every candidate (K,) the smallest log wealth against another set that has it; inf for the leaders.

        P(ever: the m best are not the leaders, and the smallest of these is at least log(1/alpha)) <= alpha for each
        alpha.
        """
        team, accounts = np.array(leaders), self._open.joined(self._closed)
        smallest = accounts[~accounts.is_own(team)].smallest()
        smallest[team] = np.inf
        return smallest

    def alternatives(self, leader: int) -> BoolArray:
        """Return which candidates (K,) are in a set that is not rejected, the leader aside."""
        left = self.survivors(leader)
        left[leader] = False
        return left

    def survivors(self, leader: int) -> BoolArray:
        """Return which candidates (K,) are in a set that is not rejected: the m best are, with risk delta."""
        left: BoolArray = ~np.logical_and.reduce(self._open.outside, axis=0)
        left[leader] = True
        return left

    def directions(self, theta: Array, A_inv: Array) -> tuple[IntArray, Array]:
        """Return pairs (n, 2), a member and another, that a plan has to tell apart, and the log wealth (n,) missing.

        An account with one pair needs that pair. One with several is served by any of them that another account needs
        at least as much; else it needs the one that is easiest to tell apart.

        Args:
            theta: estimate.
            A_inv: inverse information of the estimate.
        """
        ranking = self._ranking(theta)
        team = ranking[: self.m]
        accounts = self._open.split(ranking, self.m)
        pairs, rest, K = accounts.pairs(team), self.log_price - accounts.log_wealth, len(ranking)
        first = np.flatnonzero(np.diff(pairs.account, prepend=-1))
        n_pairs, owner = np.diff(first, append=len(pairs.account)), pairs.account[first]
        keys, found = pairs.u * K + pairs.s, dict[int, float]()
        for key, missing in zip(keys[first[n_pairs == 1]].tolist(), rest[owner[n_pairs == 1]].tolist(), strict=True):
            found[key] = max(missing, found.get(key, 0.0))
        several = np.flatnonzero(n_pairs > 1)
        for one in several[np.argsort(-rest[owner[several]], kind="stable")].tolist():
            own, missing = keys[first[one] : first[one] + n_pairs[one]], float(rest[owner[one]])
            if not any(found.get(key, 0.0) >= missing for key in own.tolist()):
                Y = self._rows[own // K] - self._rows[own % K]
                easiest = int(own[np.argmax((Y @ theta) ** 2 / np.einsum("ij,jk,ik->i", Y, A_inv, Y))])
                found[easiest] = missing
        numbers = np.array(sorted(found), dtype=np.intp)
        return np.column_stack(np.divmod(numbers, K)), np.array([found[key] for key in numbers.tolist()])

    def _bet(self, theta: Array, leader: int, bets: Bets) -> int | None:
        ranking = self._ranking(theta)
        team = ranking[: self.m]
        accounts = self._open.split(ranking, self.m)
        pairs = accounts.pairs(team)
        if len(pairs.account):
            column, placed = self._table(team, pairs, bets)
            self._has_begun = self._has_begun or self.n_blocks >= LATEST or self._knows_signs(placed)
            if not self._has_begun:
                return None
            self._open = accounts
            self._pay_pairs(pairs, column, placed, bets)
            self._close()
            if len(self._open) > self._most:
                self._open = self._open.merged(ranking, self.m)
        if self._open.is_own(team).all():
            self._team = team
            return leader
        return None

    def _knows_signs(self, placed: Placed) -> bool:
        """Return whether the past alone would have won its share of the price on every pair that the block measures."""
        _, m, s2, _ = placed.law
        return len(m) > 0 and bool((m * m >= 2.0 * WAIT * self.log_price * s2).all())

    def _table(self, team: IntArray, pairs: Pairs, bets: Bets) -> tuple[IntArray, Placed]:
        """Return the place (n,) of each pair among the bets, -1 where there is no bet, and the bets."""
        K = self._candidates.n_arms
        column, n_placed, found = np.full(len(pairs.u), -1), 0, list[Placed]()
        for u in team.tolist():
            mine, among, where = np.flatnonzero(pairs.u == u), np.zeros(K, dtype=bool), np.full(K, -1)
            among[pairs.s[mine]] = True
            place_bets = partial(self._placed, u, bets, np.zeros(K))
            for one in self._candidates.pair_forms(u, bets.vectors, bets.factors, among, place_bets):
                where[one.index] = n_placed + np.arange(len(one.index))
                n_placed += len(one.index)
                found.append(one)
            column[mine] = where[pairs.s[mine]]
        q, m, s2, rest = (np.concatenate(values) for values in zip(*[one.law for one in found], strict=True))
        index, products = np.concatenate([one.index for one in found]), np.hstack([one.products for one in found])
        return column, Placed(index, products, None, (q, m, s2, rest), bets.log_returns)

    def _pay_pairs(self, pairs: Pairs, column: IntArray, placed: Placed, bets: Bets) -> None:
        """Add the log returns of a block to the open accounts."""
        is_played = column >= 0
        account, column = pairs.account[is_played], column[is_played]
        if not len(account):
            return
        q, m, s2, _ = (values[column] for values in placed.law)
        L = self._open.log_wealth
        law = q, m, s2, self.log_price - L[account]
        won = Placed(placed.index[column], placed.products[:, column], None, law, placed.returns).log_returns(0.0)
        share = m / np.sqrt(bets.noise_std**2 * q + s2) + LEAST_SHARE
        starts = np.flatnonzero(np.diff(account, prepend=-1))
        total = np.add.reduceat(share, starts)
        L[account[starts]] += np.logaddexp.reduceat(won + np.log(share), starts) - np.log(total)

    def _close(self) -> None:
        """Close accounts at the price; where there are too many, one stands for all that are closed."""
        is_closed = self._open.log_wealth >= self.log_price
        self._closed, self._open = self._closed.joined(self._open[is_closed]), self._open[~is_closed]
        if len(self._closed) > self._most:
            closed = self._closed
            self._closed = Accounts(
                np.logical_and.reduce(closed.inside, axis=0, keepdims=True),
                np.logical_and.reduce(closed.outside, axis=0, keepdims=True),
                closed.log_wealth.min(keepdims=True),
            )
