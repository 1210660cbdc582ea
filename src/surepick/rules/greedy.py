"""The greedy choice: the arm whose next pull shrinks the uncertainty of a difference most.

Notation: A (d, d) information, y (d,) a difference. By the Sherman-Morrison formula one more pull of x turns y'A^-1 y
into y'A^-1 y - (x'A^-1 y)^2 / (1 + x'A^-1 x), so the best arm maximises the last term.
"""

from typing import final

import numpy as np

from surepick.arms.protocol import ArmSet
from surepick.core.linalg import Array
from surepick.rules.alternatives import Rows

# Values closer than this, relatively, are a tie: rounding must not decide between arms.
TIE = 1e-9


@final
class GreedyChoice:
    """Finds the arm that helps most; O(K d^2) per choice."""

    def __init__(self, arms: ArmSet) -> None:
        self._rows = Rows(arms)

    def gains(self, A_inv: Array, y: Array) -> Array:
        """Return by how much one pull of each arm (K,) reduces y'A^-1 y."""
        along = self._rows.times(A_inv.dot(y))
        along *= along
        along /= 1.0 + self._rows.squares(A_inv)
        return along

    def best(self, A_inv: Array, y: Array) -> int:
        """Return the arm that helps most; of equals, the lowest row number."""
        gains = self.gains(A_inv, y)
        return int(np.argmax(gains >= (1.0 - TIE) * gains.max()))
