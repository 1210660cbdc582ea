"""Lengths of normal vectors: the mean of exp of a quadratic in such a length, by quadrature."""

import math

import numpy as np
import scipy

from surepick.core.linalg import Array

# Quadrature: nodes on [-1, 1]; at the ends the integrand is below e^-DROP of its largest value.
NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)
DROP = 40.0


def log_chi_mean(p: int, al: Array, be: Array) -> Array:
    """Log of E[exp((1 - al) t^2/2 + be t)] for t the length of p standard normals; al > 0 and be (T,).

    The integrand t^k exp(-al t^2/2 + be t), k = p - 1, is log-concave. Away from its mode m its logarithm falls by
    al (t - m)^2/2 + k (h - log(1 + h)), h = t/m - 1 (at m = 0 by al t^2/2 - be t), which bounds where it matters.
    """
    k = p - 1
    root = np.sqrt(be * be + 4.0 * al * k)
    left = right = np.sqrt(2.0 * DROP / al)
    if k:
        mode = np.where(be > 0, (be + root) / (2.0 * al), 2.0 * k / (root + np.abs(be)))
        q = DROP / k
        left = np.minimum(left, mode * math.sqrt(2.0 * q))
        right = np.minimum(right, mode * (q + math.sqrt(q * (q + 2.0))))
    else:
        mode = np.maximum(be, 0.0) / al
        right = np.minimum(right, DROP / np.maximum(-be, DROP / right))
    low, high = np.maximum(mode - left, 0.0), mode + right
    half = 0.5 * (high - low)[:, None]
    t = low[:, None] + half * (1.0 + NODES)
    log_f = scipy.special.xlogy(k, t) - 0.5 * al[:, None] * t * t + be[:, None] * t
    log_norm = (0.5 * p - 1.0) * math.log(2.0) + math.lgamma(0.5 * p)
    top = log_f.max(axis=1)
    sums = (np.exp(log_f - top[:, None]) * WEIGHTS).sum(axis=1)
    return np.asarray(top + np.log(half[:, 0] * sums) - log_norm)
