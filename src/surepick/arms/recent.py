"""Rows fetched lately: an algorithm asks for the same few arms again and again.

Leaders, rivals and the arms of a design come back at every step. Where one row costs decoding a whole group of a file,
or a round trip to a cluster, remembering single rows saves more than remembering groups would.
"""

from collections.abc import Callable, Sequence
from typing import final

import numpy as np

from surepick.core.linalg import Array, IntArray

AT_MOST = 16_384


@final
class RecentRows:
    """Rows by number, fetched once while they are in use.

    Args:
        fetch: returns the rows (n, d) of increasing, different row numbers.
        dim: number of features d.
    """

    def __init__(self, fetch: Callable[[IntArray], Array], dim: int) -> None:
        self._fetch, self._dim = fetch, dim
        self._rows: dict[int, Array] = {}

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the rows with these numbers, in this order, (n, d)."""
        numbers = np.asarray(index, dtype=np.int64)
        wanted = np.unique(numbers)
        if len(wanted) > AT_MOST:
            return self._fetch(wanted).take(np.searchsorted(wanted, numbers), axis=0)
        known = self._rows
        missing = [row for row in wanted.tolist() if row not in known]
        if missing:
            fetched = self._fetch(np.array(missing, dtype=np.int64))
            # Copies: a view would keep alive the block it was cut from. And a new dict in one step: another thread sees
            # the old or the new one, never half of it.
            known = known | {row: x.copy() for row, x in zip(missing, fetched, strict=True)}
            self._rows = dict(list(known.items())[-AT_MOST:])
        return np.array([known[row] for row in numbers.tolist()]).reshape(len(numbers), self._dim)
