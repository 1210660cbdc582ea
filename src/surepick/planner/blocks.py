"""What whole pulls in short intervals are worth: the evidence that bets can have, interval by interval.

Notation: y a direction of which T = 2 y'A(w)^-1 y pulls by the design w are worth a nat. The betting rule judges an
interval by its own pulls, A_k = sum x x' over them: it is worth 1 / (2 y'A_k^+ y) nats, and none if y is not in the
range of A_k. Early intervals have hardly more pulls than there are features, and a handful of whole pulls is a poor
copy of a design; so a short experiment takes more pulls than its design says.
"""

import math

import numpy as np

from surepick.arms.protocol import ArmSet
from surepick.core.design import Design
from surepick.core.linalg import Array, IntArray
from surepick.planner.forecast import MIXED, Curve

RATIO = 1.08
"""An interval ends when pulls have grown by this factor."""
LONG = 25
"""Pulls for each feature with which an interval is as good as its design."""


def evidence_curve(arms: ArmSet, start: Design, aim: tuple[IntArray, Array], directions: Array, shares: Array) -> Curve:
    """Return pulls and nats at the ends of intervals that track the design, as long as these are short.

    Args:
        arms: what is pulled, divided by its noise.
        start: the G-optimal design, which is tracked first and stays mixed in.
        aim: support and weights of the design, in pulls.
        directions: (n, d), times sqrt(2).
        shares: how much each direction counts (n,), sum 1.
    """
    ends = [2 * arms.dim]
    while (n := max(math.ceil(RATIO * ends[-1]) - ends[-1], arms.dim + 1)) < LONG * arms.dim:
        ends.append(ends[-1] + n)
    t = np.array(ends, dtype=float)
    rows = arms.gather(np.concatenate([start.support, aim[0]]))
    first = np.concatenate([start.weights, np.zeros(len(aim[1]))])
    later = np.concatenate([MIXED * start.weights, (1.0 - MIXED) * aim[1]])
    counts = np.diff(_rounded(t[0] * first + (t - t[0])[:, None] * later), axis=0).clip(min=0.0)
    nats = shares @ _worth(np.einsum("ba,ai,aj->bij", counts, rows, rows, optimize=True), directions)
    # The first interval has no bets.
    return Curve(np.concatenate([[0.0], t]), np.concatenate([[0.0, 0.0], np.cumsum(nats)]))


def _rounded(due: Array) -> Array:
    """Return whole pulls (B, S) that are within one of what is due, as tracking keeps them, and as many in all."""
    whole = np.floor(due)
    missing = np.round((due - whole).sum(axis=1, keepdims=True))
    behind = np.argsort(np.argsort(whole - due, axis=1, kind="stable"), axis=1)
    rounded: Array = whole + (behind < missing)
    return rounded


def _worth(A: Array, directions: Array) -> Array:
    """Return the nats (n, B) of intervals with this information (B, d, d), for each direction."""
    mapped = directions @ np.linalg.pinv(A, hermitian=True)
    is_seen = np.linalg.norm(directions - mapped @ A, axis=2) < 1e-6 * np.linalg.norm(directions, axis=1)
    squares = np.einsum("bni,ni->bn", mapped, directions)
    worth: Array = np.divide(1.0, squares, out=np.zeros_like(squares), where=is_seen & (squares > 0.0)).T
    return worth
