"""Anytime thresholds that see A through log-determinants and its smallest eigenvalue, for one regulariser or a grid.

Notation: A (d, d) information, least = lambda_min(A); kappa > 0 a regulariser fixed before the first reward, in
units of the information of the first cycle; logdet = log det(I + A/kappa).

Half the squared distance |theta - true theta|_A^2 / 2 ever exceeds noise_std^2 times one of these with probability
at most delta, whatever rule picks the arms. They are without noise_std: the caller multiplies by noise_std^2. The
reason is the supermartingale of `evidence`, with (A + kappa I)^-1 >= A^-1 least/(least + kappa).
"""

import math

from surepick.core.evidence import Mixture
from surepick.core.linalg import Array
from surepick.core.thresholds import MIX_GRID
from surepick.core.thresholds import mix_grid_threshold as mixture_threshold

GRID_SCALES: Array = MIX_GRID.scales
"""The regularisers 1, 4, ..., 4^9 of the grid, equally weighted; multiply by lambda_min of the first cycle's A."""


def mix_threshold(logdet: float, least: float, scale: float, delta: float) -> float:
    """Return (1 + kappa/least) (logdet/2 + log(1/delta)), the threshold of one regulariser kappa = `scale`.

    Smallest when A has grown to a few times kappa, and then grows like (d/2) log(least); where the number of pulls
    cannot be foreseen the grid is the better choice.

    >>> n, d = 10.0, 2  # A = n I
    >>> round(mix_threshold(d * math.log1p(n), n, 1.0, delta=0.05), 6)
    5.93299
    """
    return (1.0 + scale / least) * (0.5 * logdet - math.log(delta))


def mix_grid_threshold(log_dets: Array, smallest: float, scales: Array, delta: float) -> float:
    """Return the root xi of logsumexp_j [ -log J - log_dets_j/2 + xi least/(least + kappa_j) ] = log(1/delta).

    Args:
        log_dets: log det(I + A/kappa_j), shape (J,).
        smallest: lambda_min(A) > 0.
        scales: the kappa_j, shape (J,), equally weighted; usually `GRID_SCALES` times lambda_min of the first cycle.
        delta: risk.

    >>> import numpy as np
    >>> n, d = 10.0, 2  # A = n I
    >>> round(mix_grid_threshold(d * np.log1p(n / GRID_SCALES), n, GRID_SCALES, delta=0.05), 6)
    7.764739
    """
    return float(mixture_threshold(log_dets, smallest, delta=delta, noise_std=1.0, mixture=Mixture.uniform(scales)))
