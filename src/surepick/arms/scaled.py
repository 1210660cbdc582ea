"""Arms divided by how noisy they are: the rows a design is made for if a measurement of one says less than of another.

Measuring x with standard deviation s tells as much as measuring x/s with 1. Only what is measured is scaled, never what
is compared, so these rows are for designs alone.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import final

from surepick.arms.protocol import ArmSet
from surepick.core.linalg import Array, IntArray


@final
class ScaledArms(ArmSet):
    """A view of arms in which every row is multiplied by a positive number of its own.

    Args:
        arms: the arms.
        factor: maps rows (n, d) to their factors (n,).
    """

    def __init__(self, arms: ArmSet, factor: Callable[[Array], Array]) -> None:
        self._arms, self._factor = arms, factor
        self.n_arms, self.dim = arms.n_arms, arms.dim
        self.names, self.keeps_numbers = arms.names, arms.keeps_numbers

    def _scaled(self, rows: Array) -> Array:
        return rows * self._factor(rows)[:, None]

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the rows with these numbers, (n, d)."""
        return self._scaled(self._arms.gather(index))

    def chunks(self) -> Iterator[tuple[int, Array]]:
        """Yield (first row number, rows) in order."""
        for start, rows in self._arms.chunks():
            yield start, self._scaled(rows)

    def copies(self, arm: int) -> IntArray:
        """Return the rows equal to this one."""
        return self._arms.copies(arm)
