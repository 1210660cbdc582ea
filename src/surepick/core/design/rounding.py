"""Efficient rounding: whole pulls in nearly the proportions of a design.

Notation: w (p,) weights, sum 1; n whole pulls to hand out; N (p,) the counts.

Reference: Pukelsheim and Rieder (1992). The value of the rounded design is at most 1 / (1 - p/n) times that of w.
"""

import numpy as np

from surepick.core.linalg import Array, IntArray


def apportion(weights: Array, n: int) -> IntArray:
    """Return counts of at least one each with sum n, for n >= len(weights) positive weights."""
    counts = np.ceil((n - len(weights) / 2) * weights).astype(np.int64)
    while (excess := int(counts.sum()) - n) != 0:
        step, ratio = (1, -counts / weights) if excess < 0 else (-1, (counts - 1) / weights)
        counts[np.argmax(ratio)] += step
    return counts
