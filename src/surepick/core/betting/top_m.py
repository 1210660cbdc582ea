"""The m best by one account for each member of a team, where accounts of sets (`core.betting.sets`) find no room.

Notation: that of `core.betting.wealth`; S the m best in truth; J the team: of the candidates not rejected, the m with
the best estimates; V[u, j] the log wealth of the member u against j outside the team, 0 at the start; price =
log(m/delta).

If j is in S but not in J, some member u of J is not in S, hence theta'(u - j) <= 0: but which one is unknown. So every
member has an account of its own against j, and j is rejected for good once the smallest, min over u in J of V[u, j],
has reached the price. When m candidates are left, they are the answer. When the team changes between blocks, with
low[j] the smallest V[u, j] of the members u that leave,

    a member that stays goes on with min(V[u, j], low[j]), and a new one begins with low[j];
    a candidate that joins keeps its smallest account until it leaves, and all accounts against it go on from there.

Why it is valid: docs/guarantee.md, Theorem 29. Accounts of sets need fewer pulls, and memory.
"""

import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from surepick.arms.base import ArmSet
from surepick.core.betting.wealth import BaseWealth, Bets, moved
from surepick.types import Array, BoolArray, IntArray


@final
class TopMWealth(BaseWealth):
    """Accounts of the m best. Memory: m numbers per candidate. Time: m passes over the candidates per block.

    Args:
        candidates: the rows that are compared; no two of them equal.
        m: how many are sought.
        options: of `BaseWealth`.
    """

    def __init__(self, candidates: ArmSet, *, m: int, **options: Any) -> None:
        super().__init__(candidates, **options)
        self._refuse_slack()
        self.log_price += math.log(m)
        self.m = m
        self._accounts: dict[int, Array] = {}  # V[u] (K,) by member, inf against members
        self._kept = np.zeros(candidates.n_arms)  # of those in the team, the smallest account before

    def begin(self, X: Array, rewards: Array) -> None:
        """Ignore earlier results: their e-value is proved for the best alone."""

    def go_on(self, before: BaseWealth, rows: IntArray) -> None:
        """Start with the team and the accounts of an earlier rule, which sought as many."""
        assert isinstance(before, TopMWealth)
        now = {int(row): number for number, row in enumerate(rows)}
        self._accounts = {now[u]: moved(V, rows) for u, V in before._accounts.items()}  # noqa: SLF001 (of this class)
        self._kept = moved(before._kept, rows)  # noqa: SLF001

    def conclude(self) -> None:
        """Answer at once if as many are left as are sought."""
        left = np.flatnonzero(self._left())
        self.answer = int(left[0]) if len(left) == self.m else None

    def log_rejection(self) -> Array:
        """Return the smallest account (K,) against every candidate; for members what they keep."""
        smallest = self._smallest()
        return np.where(np.isinf(smallest), self._kept, smallest)

    def members(self, theta: Array) -> list[int]:
        """Return the candidates not rejected with the m best estimates, the best first."""
        left = self._left()
        first = self._candidates.best(theta, left)
        others = self._candidates.rivals(first, theta, (), np.copy, self.m, left)
        return [first, *others.index[: self.m - 1].tolist()]

    def _left(self) -> BoolArray:
        left: BoolArray = self._smallest() < self.log_price
        left[list(self._accounts)] = True
        return left

    def _smallest(self) -> Array:
        """Return the smallest account (K,) against every candidate; inf against members."""
        return np.min(list(self._accounts.values()), axis=0) if self._accounts else self._kept.copy()

    def _best(self, theta: Array) -> int:
        """Return the candidate not rejected with the largest estimate."""
        return self._candidates.best(theta, self._left())

    def log_wealth(self, leader: int) -> Array:
        """Return the smallest log wealth (K,) of any member against every candidate; inf against members."""
        smallest = self._smallest()
        smallest[leader] = np.inf
        return smallest

    def log_wealth_of(self, leaders: Sequence[int]) -> Array:
        """Return the smallest log wealth (K,) that this team would begin a block with; inf against its members.

        P(ever: S is not the team, and this is at least log(m/alpha) against all outside) <= alpha for each alpha.
        """
        smallest: Array = np.min(list(self._accounts_of(leaders)[0].values()), axis=0)
        return smallest

    def alternatives(self, leader: int) -> BoolArray:
        """Return which candidates (K,) are not rejected, the leader aside; other members of the team are among them."""
        left = self._left()
        left[leader] = False
        return left

    def survivors(self, leader: int) -> BoolArray:
        """Return the candidates (K,) that are not rejected: they hold the m best with probability 1 - delta, always."""
        return self._left()

    def _bet(self, theta: Array, leader: int, bets: Bets) -> int | None:
        self._change(self.members(theta))
        for u, V in self._accounts.items():
            self._pay(u, bets, V)
        return leader if np.count_nonzero(self._left()) == self.m else None

    def _change(self, team: Sequence[int]) -> None:
        """Make this the team, between two blocks."""
        self._accounts, self._kept = self._accounts_of(team)

    def _accounts_of(self, team: Sequence[int]) -> tuple[dict[int, Array], Array]:
        """Return the accounts V[u] (K,) that a team begins a block with, and the kept accounts against its members."""
        old, kept = self._accounts, self._kept
        leavers = [u for u in old if u not in team]
        joined = [u for u in team if u not in old]
        low = np.min([old[u] for u in leavers], axis=0) if leavers else kept if not old else None
        if low is None:
            return old, kept
        accounts = {u: np.minimum(old[u], low) if u in old else low.copy() for u in team}
        kept = kept.copy()
        kept[joined] = np.min(list(accounts.values()), axis=0)[joined]
        for V in accounts.values():
            V[leavers] = kept[leavers]
            V[list(team)] = np.inf
        return accounts, kept
