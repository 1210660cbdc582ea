"""Arms with the same features: one arm to a model that knows nothing else of them."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from surepick.arms.protocol import GATHER_ROWS, ArmSet
from surepick.core.rows import row_codes

Groups = tuple[tuple[int, ...], ...]


def alike_rows(arms: ArmSet) -> Groups:
    """Return the groups of rows that are equal, by their first. One pass over the rows, and a hash of each."""
    codes = np.concatenate([row_codes(np.ascontiguousarray(chunk)) for _, chunk in arms.chunks()])
    ranked = np.sort(codes)  # several times faster than the order itself, which is needed only if two agree
    if not (ranked[1:] == ranked[:-1]).any():
        return ()
    _, place, n_rows = np.unique(codes, return_inverse=True, return_counts=True)
    seen = np.flatnonzero(n_rows[place] > 1)
    groups: dict[bytes, list[int]] = defaultdict(list)  # by the rows: different ones may have the same hash
    for start in range(0, len(seen), GATHER_ROWS):
        piece = seen[start : start + GATHER_ROWS]
        for row, x in zip(piece.tolist(), arms.gather(piece), strict=True):
            groups[x.tobytes()].append(row)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def same_features(labels: Sequence[str]) -> str:
    """Say so of some arms."""
    *others, last = labels
    return f"{', '.join(others)} and {last} have the same features and cannot be told apart by this model"
