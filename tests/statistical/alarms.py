"""Paths on which the misfit watch raises an alarm although the model holds.

A sampler that serves the watch: blocks grow, and pull the half of the arms that has fitted worst twice as often. The
largest evidence of a path decides for every alpha at once.
"""

from collections.abc import Callable

import numpy as np

from surepick.core.misfit import MisfitWatch
from surepick.core.noise import ArmMeans
from surepick.types import Array, IntArray

ALPHAS = (0.05, 0.3)
# Twelve arms in four dimensions, the last two alike; theta is much larger than the noise.
X = np.random.default_rng(3).standard_normal((12, 4))
X[-1] = X[-2]
THETA = np.full(4, 10.0)

Settle = Callable[[MisfitWatch, IntArray, Array, Array], None]


def estimate(past: ArmMeans) -> Array:
    """Least squares of all results the watch has."""
    return np.asarray(
        np.linalg.solve((past.X.T * past.counts) @ past.X, (past.counts * past.means) @ past.X), dtype=np.float64
    )


def false_alarms(
    noise_std: float | None, *, n_paths: int, settle: Settle = MisfitWatch.settle, n_blocks: int = 3, seed: int = 31
) -> dict[float, int]:
    """Count paths on which the watch ever reaches 1/alpha, for each of `ALPHAS`."""
    rng, log_peaks = np.random.default_rng(seed), np.empty(n_paths)
    for path in range(n_paths):
        watch = MisfitWatch(4, noise_std, has_constant=False)
        for k in range(n_blocks):
            arms = np.arange(12)
            if k:
                past = watch.past  # sorted anew whenever it is read
                off = np.abs(past.means - X @ estimate(past)) * np.sqrt(past.counts)
                arms = np.tile(np.append(arms, np.argsort(-off)[:6]), 4 ** (k - 1))
            settle(watch, arms, X[arms], X[arms] @ THETA + rng.standard_normal(len(arms)))
        log_peaks[path] = watch.log_peak
    return {alpha: int((log_peaks >= -np.log(alpha)).sum()) for alpha in ALPHAS}
