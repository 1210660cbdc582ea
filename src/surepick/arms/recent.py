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
            rows = self._fetch(wanted)
        else:
            known = {row: self._rows[row] for row in wanted.tolist() if row in self._rows}
            missing = [row for row in wanted.tolist() if row not in known]
            if missing:
                # Copies: a view would keep alive the block it was cut from.
                fetched = self._fetch(np.array(missing, dtype=np.int64))
                known |= {row: x.copy() for row, x in zip(missing, fetched, strict=True)}
                self._remember({row: known[row] for row in missing})
            rows = np.array([known[row] for row in wanted.tolist()]).reshape(len(wanted), self._dim)
        gathered: Array = rows[np.searchsorted(wanted, numbers)]
        return gathered

    def _remember(self, fresh: dict[int, Array]) -> None:
        # A new dict in one step: another thread sees the old or the new one, never half of it.
        kept = {row: x for row, x in self._rows.items() if row not in fresh} | fresh
        self._rows = dict(list(kept.items())[-AT_MOST:])
