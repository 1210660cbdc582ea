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
from surepick.sampling.tracking import Tracker

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
    tracker, dim = Tracker("averaged"), arms.dim
    tracker.retarget(start.support, start.weights)
    n_block, t, nats = 2 * dim, 0, 0.0
    pulls, worth = [0.0], [0.0]
    while n_block < LONG * dim:
        rows = arms.gather([tracker.next() for _ in range(n_block)])
        if t > 0:  # the first interval has no bets
            nats += float(shares @ _worth(rows, directions))
        else:
            mixed = ((1.0 - MIXED) * aim[1], MIXED * start.weights)
            tracker.retarget(np.concatenate([aim[0], start.support]), np.concatenate(mixed))
        t += n_block
        pulls.append(float(t))
        worth.append(nats)
        n_block = max(math.ceil(RATIO * t) - t, dim + 1)
    return Curve(np.array(pulls), np.array(worth))


def _worth(rows: Array, directions: Array) -> Array:
    """Return the nats (n,) of an interval with these pulls."""
    A = rows.T @ rows
    A_inv = np.linalg.pinv(A, hermitian=True)
    mapped = directions @ A_inv
    is_seen = np.linalg.norm(directions - mapped @ A, axis=1) < 1e-6 * np.linalg.norm(directions, axis=1)
    squares = np.einsum("ij,ij->i", mapped, directions)
    worth: Array = np.divide(1.0, squares, out=np.zeros(len(directions)), where=is_seen & (squares > 0.0))
    return worth
