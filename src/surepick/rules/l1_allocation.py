"""The L1 allocation: proportions of pulls that measure a single difference with the fewest pulls.

Notation: X (K, d) arms as rows, y (d,) a difference. min over w of y'A(w)^-1 y = (min |c|_1 with X'c = y)^2, reached
at w = |c| / |c|_1: a linear program with d equations and 2K variables c = c+ - c-.

Reference: Xu, Honda and Sugiyama (2018), section 4; the identity is Elfving's theorem (1952).
"""

from typing import Any, final

import numpy as np
import scipy

from surepick.arms.protocol import ArmSet
from surepick.core.linalg import Array, IntArray
from surepick.errors import SurepickError

# Weights below this share are rounding of the linear program.
SMALLEST = 1e-9


@final
class L1Allocation:
    """Solves the program and remembers its answers."""

    def __init__(self, arms: ArmSet) -> None:
        self._X = np.vstack([rows for _, rows in arms.chunks()])
        self._known: dict[Any, tuple[IntArray, Array]] = {}

    def of(self, y: Array, key: Any = None) -> tuple[IntArray, Array]:
        """Return the arms to pull and their proportions for the difference y.

        `key` names the difference: a later call with the same key gets the same answer without solving again.
        """
        if key is not None and key in self._known:
            return self._known[key]
        n = len(self._X)
        solution = scipy.optimize.linprog(
            np.ones(2 * n), A_eq=np.hstack([self._X.T, -self._X.T]), b_eq=y, method="highs-ds"
        )
        if solution.x is None:
            raise SurepickError(f"the linear program for a difference of two candidates failed: {solution.message}.")
        size = np.abs(solution.x[:n] - solution.x[n:])
        share = size / size.sum()
        support = np.flatnonzero(share > SMALLEST)
        answer = support, share[support] / share[support].sum()
        if key is not None:
            self._known[key] = answer
        return answer
