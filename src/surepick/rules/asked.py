"""What the pulls asked for will add up to: results so far, pending asks, and arms chosen since the last look.

Notation: A (d, d) = sum x x' over all of these, in whitened coordinates.

Samplers that choose arm by arm need it, or a batch would consist of one arm n times.
"""

from typing import final

import numpy as np

from surepick.arms.protocol import ArmSet
from surepick.core.linalg import Array, cholesky, solve_cholesky
from surepick.errors import NotEnoughData
from surepick.rules.parts import Situation


@final
class Asked:
    """Information and counts of everything asked for; `renew` when an interval opens, `add` after each choice.

    In between it looks at nothing: results told while the interval lasts must not change its remaining arms, or the
    rules that need arms fixed in advance would lose their proof.

    Args:
        arms: what may be pulled, in whitened coordinates.
        ridge: a matrix added to A, for algorithms that regularise; None for none.
    """

    def __init__(self, arms: ArmSet, ridge: Array | None = None) -> None:
        self._arms, self._ridge = arms, ridge
        self._rows: dict[int, Array] = {}
        self._counts: dict[int, int] = {}
        self.A = np.zeros((arms.dim, arms.dim)) if ridge is None else ridge.copy()
        self.A_inv = np.zeros((arms.dim, arms.dim))
        self.n = 0

    def renew(self, situation: Situation) -> None:
        """Start again from the results so far and the pending asks; needs an estimate unless there is a ridge."""
        estimate = situation.estimate
        if self._ridge is None and not estimate.has_theta:
            raise NotEnoughData("the pulled arms do not span yet; pull a spanning set first.")
        self._counts = dict(estimate.counts)  # a copy: the estimate's own go on counting
        self.n = estimate.n_pulls
        self.A = estimate.A.copy() if self._ridge is None else estimate.A + self._ridge
        for arm, n in situation.pending.items():
            x = self.row(arm)
            self.A += n * (x[:, None] * x)
            self._note(arm, n)
        if self._ridge is None and not situation.pending:
            self.A_inv = estimate.A_inv.copy()  # kept accurate there already
        else:
            self.A_inv = solve_cholesky(cholesky(self.A), np.eye(len(self.A)))

    def add(self, arm: int) -> None:
        """Take note that this arm was chosen."""
        x = self.row(arm)
        self._note(arm, 1)
        self.A += x[:, None] * x
        u = self.A_inv @ x
        self.A_inv -= u[:, None] * (u / (1.0 + float(u @ x)))

    def _note(self, arm: int, n: int) -> None:
        self._counts[arm] = self.count(arm) + n
        self.n += n

    def count(self, arm: int) -> int:
        """Return how often this arm was asked for, or told without being asked before the interval opened."""
        return self._counts.get(arm, 0)

    def counts(self, n_arms: int) -> Array:
        """Return all counts as an array (K,)."""
        counts = np.zeros(n_arms)
        arms = np.fromiter(self._counts, dtype=np.int64, count=len(self._counts))
        counts[arms] = np.fromiter(self._counts.values(), dtype=np.float64, count=len(self._counts))
        return counts

    def row(self, arm: int) -> Array:
        """Return the arm's features."""
        x = self._rows.get(arm)
        if x is None:
            x = self._rows[arm] = self._arms.gather([arm])[0]
        return x
