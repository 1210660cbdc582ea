"""Calls: which rows meet a target, and which fail it, by two accounts of bets for each row.

Notation: that of `core.betting.bets`; K rows y_a (d,) with targets tau: x_a against a threshold, or x_a - x_c against
-margin, c the control; eps the slack; z the block's own measurement of theta'y_a.

    U_a += log return of a bet on  theta'y_a > tau,   with z - tau + eps in the place of z
    V_a += log return of a bet on  theta'y_a < tau,   with tau - z + eps in the place of z

Row a is called "met" when U_a reaches the price, "failed" when V_a does; then both its accounts rest.

    calls="all"   price log(K/delta): with probability 1 - delta no call is off by more than eps, at all times together
    calls="fdr"   price log(K/(delta k)), k the rows in the same list, met or failed, once this row is in it: of each
                  list the expected share of calls that are off by more than eps is at most delta, whenever you stop

Why it is valid: a call of a row is off by more than eps if it is "met" and theta'y_a <= tau - eps, or "failed" and
theta'y_a >= tau + eps: at most one of the two. The account that would make it is a product of returns of mean at most
1, so a supermartingale from 1. All: Ville's inequality, and K such accounts. FDR: a call in a list of k has wealth of
at least K/(delta k), so its share 1/k of the list is at most delta/K times its wealth; the sum over K accounts of mean
at most 1 has a mean of at most delta. docs/guarantee.md has the proofs (Theorem 40; false discoveries Theorem 43).

The requirements of `core.betting.wealth` on callers hold here too.

References: Ville (1939); e-BH: Wang and Ramdas (2022).
"""

from collections.abc import Iterator
from typing import Any, final

import numpy as np

from surepick.arms.base import ArmSet, PairForms
from surepick.core.betting.wealth import BaseWealth, Bets
from surepick.core.design.targets import Target
from surepick.core.linalg import square_norms
from surepick.types import Array, BoolArray, IntArray

MET, FAILED, OPEN = 1, -1, 0
"""Calls of a row."""
_SIDES = (MET, FAILED)
"""The call that each of the two accounts of a row makes."""


@final
class TargetWealth(BaseWealth):
    """Two accounts per row. Time: one pass over the open rows per block. Memory: two numbers per row.

    Args:
        candidates: the rows that are called.
        target: what they are held against.
        options: of `BaseWealth`, without a misfit.
    """

    def __init__(self, candidates: ArmSet, *, target: Target, **options: Any) -> None:
        super().__init__(candidates, **options)
        self.target, self._origin = target, target.origin(candidates)
        self.calls: IntArray = np.full(candidates.n_arms, OPEN)
        """`MET`, `FAILED` or `OPEN` (K,); the control itself stays open."""
        self.is_row: BoolArray = np.ones(candidates.n_arms, dtype=bool)
        """Whether a candidate is called (K,): all but the control."""
        self._accounts = np.zeros((2, candidates.n_arms))  # U and V
        # A copy of the control is 0 apart from it, and a row of zeros has the mean 0: this needs no measurement.
        known = _zero_rows(candidates) if target.control is None else candidates.copies(target.control)
        is_met = target.value < 0.0 or (target.value == 0.0 and target.control is None)
        self.calls[known], self._accounts[:, known] = MET if is_met else FAILED, np.inf
        if target.control is not None:
            self.is_row[target.control], self.calls[target.control] = False, OPEN
        self.n_rows = int(self.is_row.sum())
        """K."""

    @property
    def is_open(self) -> BoolArray:
        """Which rows (K,) have no call yet, as a fresh array."""
        left: BoolArray = self.is_row & (self.calls == OPEN)
        return left

    def log_wealth(self, leader: int) -> Array:
        """Return the evidence (K,) for the call of every row, less its part of the price; inf for the control.

        A call is made at log(1/delta): of two accounts the one counts that is nearer to that.
        """
        evidence: Array = np.max([self._evidence(place) for place in range(2)], axis=0)
        return np.where(self.is_row, evidence, np.inf)

    def _evidence(self, place: int) -> Array:
        """Return one account of every row (K,), less log(K/k) where k rows share the risk: now, or with an open one."""
        shared: float | Array = 1.0
        if self.target.calls == "fdr":
            n = float(np.count_nonzero(self.calls == _SIDES[place]))
            shared = np.where(self.calls == OPEN, n + 1.0, max(n, 1.0))
        evidence = self._accounts[place] - np.log(self.n_rows / shared)
        # A row that is called has one account that counts.
        return np.where(self.calls == -_SIDES[place], -np.inf, evidence)

    def go_on(self, before: BaseWealth, rows: IntArray) -> None:
        """Start with the accounts and calls of an earlier rule for the same rows and the same target."""
        assert isinstance(before, TargetWealth)
        self._accounts, self.calls = before._accounts.copy(), before.calls.copy()  # noqa: SLF001 (of this class)

    def conclude(self) -> None:
        """Stop at once if the calls that the rule starts with are all."""
        self.answer = None if self.is_open.any() else 0

    def _best(self, theta: Array) -> int:
        """Return the candidate with the largest estimate."""
        return self._candidates.best(theta)

    def _bet(self, theta: Array, leader: int, bets: Bets) -> int | None:
        evidence = [self._evidence(place) for place in range(2)]
        for forms in self._forms(bets):
            for place, side in enumerate(_SIDES):
                placed = self._placed(leader, bets, evidence[place], _against(forms, side, self.target.value))
                self._accounts[place, placed.index] += placed.log_returns(0.0)
        self._call()
        return None if self.is_open.any() else leader

    def _forms(self, bets: Bets) -> Iterator[PairForms]:
        """Yield the forms of the open rows, chunk by chunk."""
        vectors, is_open = np.array(bets.vectors), self.is_open
        for start, rows in self._candidates.chunks():
            index = start + np.flatnonzero(is_open[start : start + len(rows)])
            if len(index):
                Y = rows[index - start] - self._origin
                yield PairForms(index, list(vectors @ Y.T), [square_norms(Y @ F) for F in bets.factors])

    def _call(self) -> None:
        """Call every row whose account has reached its price, met and failed rows in a list each."""
        is_met = self._accounts[0] >= self._accounts[1]
        for place, side in enumerate(_SIDES):
            rows = np.flatnonzero(self.is_open & (is_met if side == MET else ~is_met))
            rows = rows[np.argsort(-self._accounts[place, rows], kind="stable")]
            shared = np.ones(len(rows))
            if self.target.calls == "fdr":
                shared += np.count_nonzero(self.calls == side) + np.arange(len(rows))
            reached = self._accounts[place, rows] >= self.log_price + np.log(self.n_rows / shared)
            # The longest list in which every account has reached the price of the whole list.
            self.calls[rows[: len(rows) - int(np.argmax(reached[::-1]))] if reached.any() else rows[:0]] = side


def _zero_rows(candidates: ArmSet) -> IntArray:
    found = [start + np.flatnonzero(~rows.any(axis=1)) for start, rows in candidates.chunks()]
    return np.concatenate(found)


def _against(forms: PairForms, side: int, value: float) -> PairForms:
    """Return the forms of side y, the first two measured from the target."""
    products = [side * product for product in forms.products]
    products[:2] = [product - side * value for product in products[:2]]
    return PairForms(forms.index, products, forms.squares)
