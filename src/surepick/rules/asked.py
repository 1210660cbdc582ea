"""What the pulls asked for will add up to: results so far, pending asks, and arms chosen since the last look.

Notation: A (d, d) = sum x x' over all of these, in whitened coordinates.

Samplers that choose arm by arm need it, or a batch would consist of one arm n times.
"""

from collections import Counter
from typing import final

import numpy as np

from surepick.core.arms import ArmSet
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import Array, cholesky, solve_cholesky
from surepick.errors import NotEnoughData
from surepick.rules.parts import Situation


@final
class Asked:
    """Information and counts of everything asked for; `renew` when an interval opens, `add` after each choice.

    Args:
        arms: what may be pulled, in whitened coordinates.
        ridge: a matrix added to A, for algorithms that regularise; None for none.
    """

    def __init__(self, arms: ArmSet, ridge: Array | None = None) -> None:
        self._arms, self._ridge = arms, ridge
        self._rows: dict[int, Array] = {}
        self._estimate: LeastSquares | None = None
        self._ahead: Counter[int] = Counter()
        self.A = np.zeros((arms.dim, arms.dim)) if ridge is None else ridge.copy()
        self.A_inv = np.zeros((arms.dim, arms.dim))
        self.n = 0

    def renew(self, situation: Situation) -> None:
        """Start again from the results so far and the pending asks; needs an estimate unless there is a ridge."""
        estimate = situation.estimate
        if self._ridge is None and not estimate.has_theta:
            raise NotEnoughData("the pulled arms do not span yet; pull a spanning set first.")
        self._estimate, self._ahead = estimate, Counter(situation.pending)
        self.n = estimate.n_pulls + self._ahead.total()
        self.A = estimate.A.copy() if self._ridge is None else estimate.A + self._ridge
        for arm, n in situation.pending.items():
            x = self.row(arm)
            self.A += n * (x[:, None] * x)
        if self._ridge is None and not situation.pending:
            self.A_inv = estimate.A_inv.copy()  # kept accurate there already
        else:
            self.A_inv = solve_cholesky(cholesky(self.A), np.eye(len(self.A)))

    def add(self, arm: int) -> None:
        """Take note that this arm was chosen."""
        x = self.row(arm)
        self._ahead[arm] += 1
        self.n += 1
        self.A += x[:, None] * x
        u = self.A_inv @ x
        self.A_inv -= u[:, None] * (u / (1.0 + float(u @ x)))

    def count(self, arm: int) -> int:
        """Return how often this arm was asked for, or told without being asked."""
        told = 0 if self._estimate is None else self._estimate.counts.get(arm, 0)
        return told + self._ahead[arm]

    def counts(self, n_arms: int) -> Array:
        """Return all counts as an array (K,)."""
        counts = np.zeros(n_arms)
        for mapping in (() if self._estimate is None else (self._estimate.counts,)) + (self._ahead,):
            if mapping:
                index = np.fromiter(mapping.keys(), dtype=np.int64, count=len(mapping))
                counts[index] += np.fromiter(mapping.values(), dtype=np.float64, count=len(mapping))
        return counts

    def row(self, arm: int) -> Array:
        """Return the arm's features."""
        x = self._rows.get(arm)
        if x is None:
            x = self._rows[arm] = self._arms.gather([arm])[0]
        return x
