"""What the leader can be losing at most to the rows of a set: the rival with the largest bound, in one pass.

Notation: whitened coordinates, in which V = I; A (d, d) the information; y = leader - rival, gap = theta'y,
q1 = y'A^-1 y, q2 = y'A^-2 y; the default mixture of `core.evidence`, which has the bound for one rival.
"""

import math
from functools import partial

import numpy as np

from surepick.arms.protocol import ArmSet, Rivals
from surepick.core.evidence import SMALLEST_SQUARE, Mixture, log_sum_exp
from surepick.core.linalg import Array, BoolArray, inverse_factor

MIXTURE = Mixture.default()


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
    they are below 0 for every rival exactly when the evidence rule stops. The leader may be any candidate, also one
    that does not have the largest estimate. One pass over the candidates. The rival is -1 and the bound -inf if the
    leader has no rivals left.
    """
    least_certain = partial(negative_bounds, logdets=MIXTURE.logdets(A), delta=delta, noise_std=noise_std)
    factor = inverse_factor(A)
    found: Rivals = candidates.rivals(leader, theta, [factor, factor @ factor.T], least_certain, 1, among)
    return (int(found.index[0]), -float(found.score[0])) if len(found.index) else (-1, -np.inf)


def negative_bounds(gap: Array, q1: Array, q2: Array, *, logdets: Array, delta: float, noise_std: float) -> Array:
    """Return minus the loss bounds (n,): exact at the smallest, elsewhere a number that is not below it.

    A single term of the mixture gives a cheap upper bound on the loss bound. The rival with the largest gets its exact
    one, by plain numbers, faster on a single rival than arrays. Of those whose cheap bound beats it, one look at their
    evidence there tells which have the larger exact bound: usually none. The next of them is computed, until none is.
    """
    target = math.log(1.0 / delta)
    priors = MIXTURE.log_weights - 0.5 * logdets
    slopes = 0.5 / noise_std**2 / np.maximum(q1 + MIXTURE.scales[:, None] * q2, SMALLEST_SQUARE)
    z = ((target - priors)[:, None] / slopes).min(axis=0)
    score: Array = gap - np.sqrt(z)
    terms, first, best = priors.tolist(), int(np.argmin(score)), math.inf
    while True:
        root = _root(terms, slopes[:, first].tolist(), target, float(z[first]))
        score[first] = gap[first] - math.sqrt(root)
        best = min(best, float(score[first]))
        rest = np.flatnonzero(score < best)
        if not len(rest):
            return score
        reach = np.maximum(gap[rest] - best, 0.0)
        is_larger = log_sum_exp(priors[:, None] + slopes[:, rest] * (reach * reach)) < target
        score[rest[~is_larger]] = np.inf
        if not is_larger.any():
            return score
        first = int(np.argmin(score))


def _root(priors: list[float], slopes: list[float], target: float, z: float) -> float:
    """Return where logsumexp_j (priors_j + slopes_j z) = target, by Newton's steps from the right (`loss_bound`)."""
    for _ in range(100):
        terms = [prior + slope * z for prior, slope in zip(priors, slopes, strict=True)]
        top = max(terms)
        shares = [math.exp(term - top) for term in terms]
        total = sum(shares)
        rise = sum([share * slope for share, slope in zip(shares, slopes, strict=True)])
        step = (top + math.log(total) - target) * total / rise
        z -= max(step, 0.0)
        if step <= 1e-14 * z:
            break
    return z
