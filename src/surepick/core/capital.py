"""Bets on rewards between two bounds, such as clicks: what they pay shrinks with the variance the rewards really have.

Notation: y = z_l - z_b the contrast of leader and candidate, D = theta'y; a block has results i with arms x_i and
rewards r_i in [lo, hi] whose means are x_i'theta, whatever the rest of their law; c_i weights with sum c_i x_i = y, so
that z = sum c_i r_i measures D; a_i centres in [lo, hi], about where r_i is expected; C = the largest of c_i (a_i - lo)
and c_i (a_i - hi), what one unit of lam can lose on one result. A stake lam with 0 <= lam C < 1 multiplies a unit to

    e^(lam epsilon) prod_i (1 + lam c_i (r_i - a_i)) e^(lam c_i a_i),

and E is the average of this over finitely many lam. Everything but the rewards is fixed when the block begins.

Why it is valid: no factor is negative. Let mu_i = x_i'theta. Given what comes before it the i-th factor has mean
(1 + lam c_i (mu_i - a_i)) e^(lam c_i a_i) <= e^(lam c_i mu_i), because 1 + u <= e^u. From the last result to the first
the product has mean at most e^(lam (theta'y + epsilon)), so at most 1 if theta'y <= -epsilon: the unknown means cancel
since sum c_i x_i = y. No variance, independence or common law is assumed; a reward outside the bounds voids the proof.
docs/guarantee.md has the proof in full (Theorem 20).

Why it pays: log E is about lam z - lam^2/2 sum c_i^2 (r_i - a_i)^2. Where clicks are rare, the sum is far below the
(hi - lo)^2/4 per result that sub-Gaussian noise has to allow for.

Results of one arm with the same reward may be given once, with how often they occurred: clicks are two per arm.
"""

import math

import numpy as np
import scipy

from surepick.core.linalg import Array
from surepick.errors import InvalidInput

LIMIT = 0.95
"""The share of a unit that one result may take at most."""
N_NODES = 16
# Numbers in a temporary array, 1 MB, and results at a time.
NUMBERS, RESULTS = 2**17, 2**10


def rate_variances(estimates: Array, total: float | Array, n: float, *, lo: float = 0.0, hi: float = 1.0) -> Array:
    """Variances (K,) to bet and weigh by, halfway between the variance at the common rate and at the arm's own.

    A rate p has variance p (1 - p) if rewards are lo or hi, and less otherwise. Estimates of rare clicks may be 0 or
    below; an arm's rate is taken to be at least .3 of the common one, from either end. A bad guess costs pulls alone.

    Args:
        estimates: x'theta of every arm (K,).
        total: sum of all rewards of the past.
        n: how many there were.
        lo: smallest possible reward.
        hi: largest possible reward.
    """
    width = _width(lo, hi)
    common = ((total - n * lo) / width + 0.5) / (n + 1.0)
    rates = np.clip((estimates - lo) / width, 0.3 * common, 1.0 - 0.3 * (1.0 - common))
    return np.asarray(0.5 * width**2 * (common * (1.0 - common) + rates * (1.0 - rates)))


def capital_weights(Y: Array, X: Array, counts: Array, variances: Array) -> Array:
    """Weights (n, S) with sum_a counts_a c_a x_a = y: those of least squares if arm a has that variance.

    Rows of Y (n, d) are contrasts in the range of the block, rows of X (S, d) its arms.
    """
    A = (X.T * (counts / variances)) @ X
    weights: Array = Y @ np.linalg.pinv(A, hermitian=True) @ X.T / variances
    return weights


def largest_loss(c: Array, centres: Array, *, lo: float = 0.0, hi: float = 1.0) -> Array:
    """Return C (n,), what one unit of lam may lose on one result, for weights c (n, S) and centres (S,) or (n, S)."""
    _width(lo, hi)
    _check_inside("centres", centres, lo, hi)
    return np.asarray(np.maximum(c * (centres - lo), c * (centres - hi)).max(axis=1))


def nodes(m: Array, s2: Array, v: Array, largest: Array) -> Array:
    """Stakes lam (n, 16), equally likely: where N(m, s2) cut to D >= 0 says D/v is, none beyond the limit.

    Args:
        m: believed size of D (n,), at least 0.
        s2: its variance (n,), at least 0.
        v: variance of z (n,), as believed, positive.
        largest: what one unit of lam may lose on one result (n,), at least 0.
    """
    if not (np.all(m >= 0.0) and np.all(s2 >= 0.0) and np.all(v > 0.0) and np.all(largest >= 0.0)):
        raise InvalidInput("nodes needs m >= 0, s2 >= 0, v > 0 and largest >= 0; leave out what is not measured.")
    s = np.sqrt(s2)
    ratio = np.divide(m, s, out=np.full_like(s, np.inf), where=s > 0.0)
    u = (np.arange(N_NODES) + 0.5) / N_NODES
    D = m[:, None] - s[:, None] * scipy.special.ndtri(scipy.special.ndtr(ratio)[:, None] * u)
    most = np.divide(LIMIT, largest, out=np.full_like(s, np.inf), where=largest > 0.0)
    return np.asarray(np.clip(D / v[:, None], 0.0, most[:, None]))


def log_capital(
    c: Array,
    lam: Array,
    rewards: Array,
    centres: Array,
    times: Array,
    *,
    epsilon: float | Array = 0.0,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Array:
    """Log of what a unit returns (n,), staked in equal parts on the lam of each candidate; O(n p 16).

    Args:
        c: weight of a result (n, p), with sum_p times_p c_p x_p = y.
        lam: stakes (n, k), see `nodes`.
        rewards: (p,), within the bounds; (n, p) if candidates are measured by different results.
        centres: (p,) or (n, p), within the bounds.
        times: how often each of these results occurred, (p,) or (n, p).
        epsilon: slack, or one for each candidate (n,).
        bounds: smallest and largest possible reward.
    """
    lo, hi = bounds
    _check_inside("rewards", rewards, lo, hi)
    rewards, centres, times = (np.broadcast_to(values, c.shape) for values in (rewards, centres, times))
    value = lam * (np.einsum("np,np,np->n", c, times, centres) + epsilon)[:, None]
    (n, p), most = c.shape, lam.max(axis=1)
    step = max(1, NUMBERS // (lam.shape[1] * min(RESULTS, max(p, 1))))
    for start in range(0, n, step):
        rows = slice(start, start + step)
        for first in range(0, p, RESULTS):
            here = rows, slice(first, first + RESULTS)
            _check_stakes(lam[rows], most[rows] * largest_loss(c[here], centres[here], lo=lo, hi=hi))
            u = lam[rows, :, None] * (c[here] * (rewards[here] - centres[here]))[:, None]
            value[rows] += np.einsum("nkp,np->nk", np.log1p(u, out=u), times[here])
    return _log_mean(value)


def log_click_capital(
    c: Array, lam: Array, counts: Array, clicks: Array, centres: Array, *, epsilon: float = 0.0
) -> Array:
    """Log of what a unit returns (n,) if rewards are 0 or 1, from counts and clicks per arm of the block.

    Args:
        c: weight of a pull of each arm (n, S).
        lam: stakes (n, k).
        counts: pulls of each arm (S,); or (n, S), as may be clicks and centres.
        clicks: how many of them paid 1 (S,).
        centres: (S,).
        epsilon: slack.
    """
    if not np.all((clicks >= 0.0) & (clicks <= counts)):
        raise InvalidInput("log_click_capital needs between 0 and as many clicks as pulls of every arm.")
    rewards = np.repeat([1.0, 0.0], c.shape[1])
    times = np.concatenate([clicks, counts - clicks], axis=-1)
    return log_capital(np.tile(c, 2), lam, rewards, np.tile(centres, 2), times, epsilon=epsilon)


def _log_mean(logs: Array) -> Array:
    """Log of the mean of exponentials along the last axis."""
    return np.asarray(np.logaddexp.reduce(logs, axis=1) - math.log(logs.shape[1]))


def _width(lo: float, hi: float) -> float:
    if not (math.isfinite(hi - lo) and lo < hi):
        raise InvalidInput(
            f"rewards need a smallest and a larger largest value, got {lo} and {hi}; both must be finite."
        )
    return hi - lo


def _check_stakes(lam: Array, losses: Array) -> None:
    if not (np.all(lam >= 0.0) and np.all(losses < 1.0)):
        raise InvalidInput("a capital bet needs stakes of at least 0 by which no one result takes all; see `nodes`.")


def _check_inside(name: str, values: Array, lo: float, hi: float) -> None:
    outside = ~((values >= lo) & (values <= hi))
    if outside.any():
        raise InvalidInput(
            f"`{name}` must be within the bounds {lo} and {hi}, got {values[outside][0]}; "
            "a bet on bounded rewards holds for no others."
        )
