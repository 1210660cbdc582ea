"""From proportions to a block of whole pulls, fixed in advance."""

import numpy as np

from surepick.core.design import Design
from surepick.core.linalg import IntArray


def rounded_pulls(design: Design, n: int) -> list[int]:
    """Return at least n arms in order, in the design's proportions and evenly spread; each support arm at least once.

    The counts are those of `Design.round`, efficient rounding by Pukelsheim and Rieder (1992).
    """
    counts = design.round(max(n, len(design.support)))
    return spread_evenly(design.support, counts)


def spread_evenly(arms: IntArray, counts: IntArray) -> list[int]:
    """Return each arm as often as counted, so that every stretch has about the same proportions."""
    turns = np.concatenate([(np.arange(n) + 0.5) / n for n in counts])
    order = np.argsort(turns, kind="stable")
    pulls: list[int] = np.repeat(arms, counts)[order].tolist()
    return pulls
