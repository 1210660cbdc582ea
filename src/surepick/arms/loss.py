"""What the leader can be losing at most to the rows of a set: the rival with the largest bound, in one pass.

Notation: whitened coordinates, in which V = I; A (d, d) the information; y = leader - rival, gap = theta'y,
q1 = y'A^-1 y, q2 = y'A^-2 y; the default mixture of `core.evidence`, which has the bound for one rival.
"""

import math
from functools import partial

import numpy as np

from surepick.arms.protocol import ArmSet
from surepick.core.evidence import SMALLEST_SQUARE, Mixture, loss_bound
from surepick.core.linalg import Array, BoolArray, inverse_factor
from surepick.core.rows import square_norms

MIXTURE = Mixture.default()

# Rivals whose bound is computed at first, and by how much their number grows if these do not settle it.
FIRST, GROWTH = 12, 16


def largest_loss_bound(
    candidates: ArmSet,
    leader: int,
    theta: Array,
    A: Array,
    *,
    delta: float,
    noise_std: float,
    among: BoolArray | None = None,
) -> tuple[int, float]:
    """Return the rival with the largest upper confidence bound on what the leader loses to it, and the bound.

    All bounds hold together, at all times, with probability 1 - delta, if theta and A are those of the results so far;
    they are below 0 for every rival exactly when the evidence rule stops. One pass over the candidates finds those
    whose cheap bounds are largest, nearly always enough to settle it. The rival is -1 and the bound -inf if the leader
    has no rivals left.
    """
    factor, logdets = inverse_factor(A), MIXTURE.logdets(A)
    factors, n = [factor, factor @ factor.T], FIRST
    while True:
        cheap = partial(cheap_scores, logdets=logdets, delta=delta, noise_std=noise_std)
        found = candidates.rivals(leader, theta, factors, cheap, n, among)
        if not len(found.index):
            return -1, -np.inf
        y = candidates.gather([leader]) - candidates.gather(found.index)
        q1, q2 = (square_norms(y @ F) for F in factors)
        bounds = loss_bound(found.gap, q1, q2, logdets, mixture=MIXTURE, noise_std=noise_std, delta=delta)
        first = int(np.argmax(bounds))
        if len(bounds) < n or bounds[first] >= -found.score[-1]:
            return int(found.index[first]), float(bounds[first])
        n *= GROWTH


def cheap_scores(gap: Array, q1: Array, q2: Array, *, logdets: Array, delta: float, noise_std: float) -> Array:
    """Return minus an upper bound (n,) on each loss bound: where one term of the mixture alone reaches the target."""
    prices = 2.0 * noise_std**2 * (math.log(1.0 / delta) - MIXTURE.log_weights + 0.5 * logdets)
    z = np.full(len(gap), np.inf)
    for price, kappa in zip(prices.tolist(), MIXTURE.kappas, strict=True):
        np.minimum(z, price * np.maximum(q1 + kappa * q2, SMALLEST_SQUARE), out=z)
    score: Array = gap - np.sqrt(z)
    return score
