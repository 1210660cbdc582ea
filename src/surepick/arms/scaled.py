"""Arms divided by how noisy they are: the rows a design is made for if a measurement of one says less than of another.

Measuring x with standard deviation s tells as much as measuring x/s with 1 (docs/guarantee.md, Theorem 27). Only what
is measured is scaled, never what is compared.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import final

import numpy as np

from surepick.arms.protocol import ArmSet
from surepick.core.linalg import Array, IntArray


@final
class ScaledArms(ArmSet):
    """A view of arms in which every row is multiplied by a positive number of its own.

    Args:
        arms: the arms.
        factor: maps row numbers (n,) and rows (n, d) to their factors (n,).
    """

    def __init__(self, arms: ArmSet, factor: Callable[[IntArray, Array], Array]) -> None:
        self._arms, self._factor = arms, factor
        self.n_arms, self.dim = arms.n_arms, arms.dim
        self.names, self.keeps_numbers = arms.names, arms.keeps_numbers

    def _scaled(self, index: IntArray, rows: Array) -> Array:
        return rows * self._factor(index, rows)[:, None]

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the rows with these numbers, (n, d)."""
        return self._scaled(np.asarray(index, dtype=np.int64), self._arms.gather(index))

    def chunks(self) -> Iterator[tuple[int, Array]]:
        """Yield (first row number, rows) in order."""
        for start, rows in self._arms.chunks():
            yield start, self._scaled(np.arange(start, start + len(rows)), rows)

    def copies(self, arm: int) -> IntArray:
        """Return the copies of this arm that have its factor."""
        copies = self._arms.copies(arm)
        factors = self._factor(copies, self._arms.gather(copies))
        same: IntArray = copies[factors == factors[copies == arm]]
        return same


def divided(arms: ArmSet, stds: Array) -> ArmSet:
    """Return the arms with every row divided by a number of its own (K,)."""
    if hasattr(arms, "times"):  # rows that stay where they are
        there: ArmSet = arms.times(1.0 / stds)
        return there
    return ScaledArms(arms, lambda index, _: 1.0 / stds[index])
