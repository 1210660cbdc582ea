"""Targets: what candidates are held against, and the directions that a design must resolve to call them met or failed.

Notation: x_a (d,) candidates; tau the target of theta'y_a, where y_a = x_a for a threshold tau, and y_a = x_a - x_c
with tau = -margin for a control c; eps the slack. The directions are y_a/(|theta'y_a - tau| + eps): the farther a row
is from its target, the fewer pulls tell on which side it is.
"""

import math
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from surepick.arms.base import ArmSet
from surepick.core.design.directions import SMALLEST_GAP
from surepick.core.linalg import square_norms
from surepick.errors import TiedArms
from surepick.types import Array, BoolArray


@final
@dataclass(frozen=True, slots=True)
class Target:
    """What candidates are held against, where each is called met or failed."""

    value: float
    """The threshold; beside a control minus the margin, for differences from it."""
    control: int | None = None
    """Number of the candidate that the others are compared with; None: none."""
    calls: Literal["all", "fdr"] = "all"
    """What the risk is about: any wrong call, or the share of wrong calls."""

    def origin(self, candidates: ArmSet) -> Array:
        """Return the row (d,) that is taken from all others: that of the control, or 0."""
        return np.zeros(candidates.dim) if self.control is None else candidates.gather([self.control])[0]

    def least_distance(self, candidates: ArmSet, theta: Array) -> float:
        """Return how far the closest row is from the target under theta; rows of 0 do not count."""
        origin, least = self.origin(candidates), math.inf
        for _, rows in candidates.chunks():
            Y = rows - origin
            least = min(least, float(np.abs(Y[Y.any(axis=1)] @ theta - self.value).min(initial=math.inf)))
        return least


def rows_apart(
    candidates: ArmSet,
    target: Target,
    theta: Array,
    epsilon: float = 0.0,
    among: BoolArray | None = None,
    errors: Array | None = None,
) -> Array:
    """Return the directions (K, d) that a design must resolve, 0 for other rows.

    These are sqrt(2) y_a/(|theta'y_a - tau| + eps): the largest y'A^-1 y is then the pulls per nat of the hardest row.

    Args:
        candidates: the rows.
        target: what they are held against.
        theta: parameter, or its estimate (d,).
        epsilon: slack.
        among: rows that count (K,); None: all.
        errors: E (d, d) with |E'y| the standard error of theta'y; None: theta is known. No distance from the target
            counts as smaller than its error, or one row that seems to be on the target would have all pulls.

    Raises:
        TiedArms: a row is on the target to rounding.
    """
    Y = np.vstack([rows for _, rows in candidates.chunks()]) - target.origin(candidates)
    gaps: Array = np.abs(Y @ theta - target.value) + epsilon
    if errors is not None:
        gaps = np.maximum(gaps, np.sqrt(square_norms(Y @ errors)))
    counts: BoolArray = (Y != 0.0).any(axis=1) & (True if among is None else among)
    rounding = 1e-14 * (np.abs(Y) @ np.abs(theta) + abs(target.value)) + SMALLEST_GAP
    if len(tied := np.flatnonzero(counts & (gaps <= rounding))):
        raise TiedArms(
            f"arm {tied[0]} is on the target under theta, so no number of pulls tells on which side of it the arm is, "
            "and T* is infinite; accept an epsilon > 0, or move the target."
        )
    return np.where(counts[:, None], math.sqrt(2.0) * Y / np.where(counts, gaps, 1.0)[:, None], 0.0)
