"""The noise watch: whether the rewards scatter more than `noise_std` allows.

With t rewards and residual sum of squares RSS around the least-squares fit, `noise_std` is called contradicted when

    log E = logsumexp_k [ -log 7 - (t/2) log r_k + (1 - 1/r_k) RSS / (2 noise_std^2) ] >= log(1e6),

r_k the seven `VARIANCE_RATIOS`. False alarms: at most one in a million runs, however long and however often one looks.
Proof: for noise eta that is noise_std-sub-Gaussian given the past and 0 <= c < 1/2,
E exp(c eta^2/noise_std^2) <= (1 - 2c)^(-1/2), so with 1 - 2c = 1/r_k each term, with the sum of eta^2 in the place of
RSS, is a supermartingale started at 1/7. RSS is not larger than that sum, because least squares minimises it. Ville's
inequality does the rest.
"""

import math

import numpy as np

from surepick.core.estimate import LeastSquares

# What the true noise variance might be instead, as a multiple of noise_std^2.
VARIANCE_RATIOS = (1.05, 1.1, 1.2, 1.5, 2.0, 4.0, 16.0)
FALSE_ALARM = 1e-6


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


def is_contradicted(estimate: LeastSquares, noise_std: float) -> bool:
    """Return whether the rewards scatter too much for `noise_std`."""
    alarm = math.log(1.0 / FALSE_ALARM)
    return estimate.has_theta and noise_evidence(estimate.residual_sum / noise_std**2, estimate.n_pulls) >= alarm


def noise_estimate(estimate: LeastSquares) -> float:
    """Return the standard deviation of the rewards around the fit; NaN while there are too few."""
    spare = estimate.n_pulls - estimate.dim
    if spare < 1 or not estimate.has_theta:
        return math.nan
    return math.sqrt(estimate.residual_sum / spare)
