"""Extrapolation: a lead that is estimated from arms far below the leader.

Notation: arm a with row x_a is pulled n_a times, A = sum n_a x_a x_a'; y = x_l - x_b the leader against the runner-up.
Least squares estimates the lead by

    theta'y = sum of C_a mean_a,    C_a = n_a y'A^-1 x_a    (as in `betting.block`),

and the *far share* is

    S = sum over far arms of |C_a| / sum over all arms of |C_a|.

An arm is far if its own estimated mean is below the middle between the leader's and the lowest of all arms. Under the
model S does not matter. If means bend a little, far arms know the slope where they are, not near the leader.

A line is measured best at its two ends, so S = 1/2 is nothing special; and some features need far arms whatever a pull
costs. An extrapolation is called one if S is at least 3/4, halfway from there to 1, and at least 1/4 above the S of the
G-optimal design, which knows no costs: then prices, and not the features, keep pulls away from the leader.
"""

from typing import NamedTuple

import numpy as np

from surepick.types import Array

LEAST_SHARE, LEAST_MORE = 0.75, 0.25


class PulledRows(NamedTuple):
    """Arms that are pulled, or that a design would pull."""

    X: Array
    """(s, d)."""
    counts: Array
    """Pulls (s,), or weights."""
    means: Array
    """Estimated means (s,)."""


def far_share(rows: PulledRows, y: Array, middle: float) -> float:
    """Return S of the formula above; arms with a mean below `middle` are far."""
    A = (rows.X.T * rows.counts) @ rows.X
    C = np.abs(rows.counts * (rows.X @ np.linalg.lstsq(A, y, rcond=None)[0]))
    total = float(C.sum())
    return float(C[rows.means < middle].sum()) / total if total > 0.0 else 0.0


def extrapolated_share(pulled: PulledRows, without_costs: PulledRows, y: Array, middle: float) -> float:
    """Return S if it is an extrapolation, else 0; `without_costs`: the G-optimal design."""
    share = far_share(pulled, y, middle)
    return share if share >= max(LEAST_SHARE, far_share(without_costs, y, middle) + LEAST_MORE) else 0.0
