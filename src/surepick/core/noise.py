"""The noise: what the rewards say of its level, and whether they contradict a level that was given.

Notation: t rewards, RSS their residual sum of squares around least squares, sigma the true standard deviation, Q the
sum of squared noise over sigma^2.

**Contradicted.** A given `noise_std` is called contradicted when

    log E = logsumexp_k [ -log 7 - (t/2) log r_k + (1 - 1/r_k) RSS / (2 noise_std^2) ] >= log(1e6),

r_k the seven `VARIANCE_RATIOS`. False alarms: at most one in a million runs, however long and however often one looks.
Proof: for noise eta that is noise_std-sub-Gaussian given the past and 0 <= c < 1/2,
E exp(c eta^2/noise_std^2) <= (1 - 2c)^(-1/2), so with 1 - 2c = 1/r_k each term, with the sum of eta^2 in the place of
RSS, is a supermartingale started at 1/7. RSS is not larger than that sum, because least squares minimises it. Ville's
inequality does the rest.

**Interval**, for Gaussian noise of one unknown level. Mixing the densities of N(0, sigma^2/lambda) over
lambda ~ Gamma(a, a) and dividing by that of N(0, sigma^2) gives a martingale started at 1 that depends on Q alone,

    log E_t(Q) = a log a + lgamma(a + t/2) - lgamma(a) - (a + t/2) log(a + Q/2) + Q/2,

convex in Q, so with probability 1 - delta/2 Q stays between the two roots of log E_t = log(2/delta) for ever. With
S = A(theta - true theta), sigma^2 Q = RSS + S'A^-1 S, and with probability 1 - delta/2 the mixture of `core.evidence`
stays below 2/delta: then S'A^-1 S <= 2 sigma^2 B, B = min over j of (1 + kappa_j/lambda_min(A)) beta_j. Together

    RSS / Q_high <= sigma^2 <= RSS / (Q_low - 2 B)       (no upper end while Q_low <= 2 B).
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from surepick.core.estimate import LeastSquares
from surepick.core.evidence import Mixture
from surepick.core.linalg import Array
from surepick.core.student import Residuals

# What the true noise variance might be instead, as a multiple of noise_std^2.
VARIANCE_RATIOS = (1.05, 1.1, 1.2, 1.5, 2.0, 4.0, 16.0)
FALSE_ALARM = 1e-6
# Shape of the mixture over precisions: sharpest after some ten rewards beyond the features.
SHAPE = 2.0
MIXTURE = Mixture.default()


def noise_evidence(residual_sum: float, n_pulls: int) -> float:
    """Return the log e-value that the noise is larger than assumed.

    Args:
        residual_sum: sum of squared residuals over noise_std^2.
        n_pulls: number of rewards.
    """
    terms = [
        -0.5 * n_pulls * math.log(ratio) + 0.5 * (1.0 - 1.0 / ratio) * residual_sum - math.log(len(VARIANCE_RATIOS))
        for ratio in VARIANCE_RATIOS
    ]
    return float(np.logaddexp.reduce(terms))


def is_contradicted(estimate: LeastSquares, noise_std: float, misfit: float = 0.0) -> bool:
    """Return whether the rewards scatter too much for `noise_std`.

    Means that are off their linear fit by at most `misfit` lengthen the residuals by at most misfit sqrt(t), which is
    taken off: what is left is not longer than the residuals of the noise alone.
    """
    alarm, n = math.log(1.0 / FALSE_ALARM), estimate.n_pulls
    if not estimate.has_theta:
        return False
    rss = estimate.residual_sum
    if misfit > 0.0:
        rss = max(math.sqrt(rss) - misfit * math.sqrt(n), 0.0) ** 2
    return noise_evidence(rss / noise_std**2, n) >= alarm


def noise_estimate(estimate: LeastSquares) -> float:
    """Return the standard deviation of the rewards around the fit; NaN while there are too few."""
    spare = estimate.n_pulls - estimate.dim
    if spare < 1 or not estimate.has_theta:
        return math.nan
    return math.sqrt(estimate.residual_sum / spare)


def residuals(estimate: LeastSquares) -> Residuals:
    """Return what the rewards leave unexplained, at least what rounding alone leaves: noise of 0 is never believed."""
    nu = estimate.n_pulls - estimate.dim
    rounding = np.finfo(float).eps * float(np.linalg.norm(estimate.theta))
    return Residuals(max(estimate.residual_sum, nu * rounding**2), nu)


def noise_interval(estimate: LeastSquares, delta: float) -> tuple[float, float]:
    """Return bounds on the standard deviation that hold at all times together with probability 1 - delta.

    For Gaussian noise of one unknown level; whitened coordinates, any way of choosing arms from the past. On the same
    event the mixture of `core.evidence` is below 2/delta, so whatever follows from that with the upper end in the
    place of noise_std is covered by the same delta.
    """
    if not estimate.has_theta:
        return 0.0, math.inf
    return noise_limits(estimate.A, estimate.residual_sum, estimate.n_pulls, delta)


def noise_limits(A: Array, rss: float, n: int, delta: float) -> tuple[float, float]:
    """Return the same from information A (d, d), the residual sum of squares and the number of rewards."""
    spread = np.linalg.eigvalsh(A)
    if n <= len(A) or not spread[0] > 0.0:
        return 0.0, math.inf
    low, high = _square_limits(n, delta)
    betas = math.log(2.0 / delta) - MIXTURE.log_weights + 0.5 * MIXTURE.logdets(A)
    spare = low - 2.0 * float((betas * (1.0 + MIXTURE.scales / spread[0])).min())
    return math.sqrt(rss / high), math.sqrt(rss / spare) if spare > 0.0 else math.inf


def noise_to_assume(estimate: LeastSquares, noise_std: float | None, delta: float) -> tuple[float, float]:
    """Return a scale of the noise and the risk left for a claim by the mixture of `core.evidence` with this scale.

    The scale itself, if it is given; else the upper end of `noise_interval`, which takes half of the risk; rewards that
    are all alike leave no noise at all, and 1e-40, the smallest that may be given, stands for that.
    """
    return (max(noise_interval(estimate, delta)[1], 1e-40), 0.5 * delta) if noise_std is None else (noise_std, delta)


@lru_cache(maxsize=4096)
def _square_limits(n: int, delta: float) -> tuple[float, float]:
    """Return Q_low and Q_high after n rewards: the roots of log E_n(Q) = log(2/delta)."""
    shape = SHAPE + 0.5 * n
    constant = SHAPE * math.log(SHAPE) + math.lgamma(shape) - math.lgamma(SHAPE) - math.log(2.0 / delta)

    def excess(Q: float) -> float:
        return constant - shape * math.log(SHAPE + 0.5 * Q) + 0.5 * Q

    high = 2.0 * n + 1.0
    while excess(high) < 0.0:
        high *= 2.0
    return _outer(excess, float(n), 0.0), _outer(excess, float(n), high)


def _outer(excess: Callable[[float], float], inner: float, outer: float) -> float:
    """Return where `excess` turns positive between two places, from the outer side; `outer` if it does not."""
    for _ in range(60 if excess(outer) > 0.0 else 0):
        middle = 0.5 * (inner + outer)
        inner, outer = (inner, middle) if excess(middle) > 0.0 else (middle, outer)
    return outer
