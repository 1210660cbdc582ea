"""Sizes: what is too large, too small or too close together to be squared is refused before anything is measured.

Notation: X (K, d) the arms; R (d, d) upper triangular with R'R = X'X/K, so that |R|.max(axis=0) is the size of each
feature; T (d, d) its inverse, which maps rows to coordinates in which the arms are of size 1.

A double holds 1e-308 to 1e308 and its square has to be one as well, so whatever is squared must be between 1e-154 and
1e154. Features and rewards are squared by themselves (1e120; what is left is for how ill-conditioned they are). All
else that rules square is of the form (gap + epsilon) / (noise_std |y|), y the difference of two candidates in
coordinates T: epsilon and noise_std have a range of 1e40 each (`core.checks`), |y| has 1e50, and 1e16 more because two
doubles can be that much closer to each other than to 0. Together 1e146; the rest is for the number of pulls.
"""

from collections.abc import Sequence

import numpy as np

from surepick.arms.protocol import ArmSet
from surepick.core.linalg import Array
from surepick.core.rows import row_codes
from surepick.errors import InvalidInput

LARGEST = 1e120
"""Size that features and rewards may have, or their inverse."""
REACH = 1e50
"""How much larger than the arms candidates may be, or smaller, or closer together."""


def check_features(rows: Array, names: Sequence[str] | None = None) -> None:
    """Refuse features whose largest entry (their size) can hardly be squared; a feature that is always 0 may pass."""
    sizes = np.abs(rows).max(axis=0)
    bad = np.flatnonzero((sizes != 0.0) & ~((sizes >= 1.0 / LARGEST) & (sizes <= LARGEST)))
    if len(bad):
        j = int(bad[0])
        raise InvalidInput(
            f"features must be between {1.0 / LARGEST:g} and {LARGEST:g} in size, got {sizes[j]:.3g} for "
            f"{names[j] if names else f'x{j}'}; use other units."
        )


def check_reach(name: str, rows: ArmSet, T: Array, reach: float) -> None:
    """Refuse rows that are more than `reach` times larger or smaller than the arms; rows that are all 0 may pass."""
    with np.errstate(over="ignore", invalid="ignore"):
        size = float(np.abs(rows.triangle() @ T).max())
    if size != 0.0 and not 1.0 / reach <= size <= reach:
        raise InvalidInput(
            f"`{name}` must be at most {reach:g} times larger or smaller than the arms, got {size:.3g} times their "
            "size; use the same units for both."
        )


def check_distinct(name: str, rows: ArmSet, R: Array) -> None:
    """Refuse different rows that cannot be told apart, because the square of their difference vanishes.

    Two numbers differ by at least 1e-16 of the larger, so only entries that are next to nothing can make rows so
    close: rows that differ must still do so when such entries are 0. A pass over the rows, two more if there are such
    entries. Rows on a cluster are not looked at: they would have to leave it.
    """
    if not rows.keeps_numbers:
        return
    least = np.abs(R).max(axis=0) / REACH
    if not any(((np.abs(chunk) < least) & (chunk != 0.0)).any() for _, chunk in rows.chunks()):
        return
    whole = np.concatenate([row_codes(chunk + 0.0) for _, chunk in rows.chunks()])
    cut = np.concatenate([row_codes(np.where(np.abs(chunk) < least, 0.0, chunk)) for _, chunk in rows.chunks()])
    order = np.lexsort((whole, cut))
    close = (np.diff(cut[order]) == 0) & (np.diff(whole[order]) != 0)
    if close.any():
        place = int(np.argmax(close))
        i, j = sorted(order[place : place + 2].tolist())
        raise InvalidInput(
            f"rows of `{name}` must be equal or differ by {1.0 / REACH:g} times the size of the arms' features, got "
            f"rows {i} and {j} that differ by less; use the units of the arms, or make such rows equal."
        )


def check_rewards(rows: Array, theta: Array) -> None:
    """Refuse a parameter under which rewards theta'x, of these rows or of their triangle, can hardly be squared."""
    with np.errstate(over="ignore", invalid="ignore"):
        size = float(np.abs(rows @ theta).max())
    if size != 0.0 and not 1.0 / LARGEST <= size <= LARGEST:
        raise InvalidInput(
            f"rewards theta'x must be between {1.0 / LARGEST:g} and {LARGEST:g} in size, got about {size:.3g}; use "
            "another unit of reward."
        )
