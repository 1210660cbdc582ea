"""Estimates before the verdict: a posterior of theta, intervals of single means, and a law of waiting times.

Nothing here is proved and nothing here enters a decision. docs/before-the-verdict.md has the calibration.

Notation: theta (d,) least squares in whitened coordinates, A (d, d) its information; S^2 the estimated variance of one
reward with nu degrees of freedom (inf: known); u (d,) the direction of a common level of all arms.

**Shrunk posterior.** The prior N(0, P), P = t2 I + t1 u u', is that of `core.betting.bets.shrunk_belief`, averaged
instead of maximised: t2 on the same grid relative to |theta|^2/d, t1 in {0, c^2} with c = u'A theta/u'A u, and sigma on
16 quantiles of S sqrt(nu/chi2_nu). With Q = P + sigma^2 A^-1 each of the 384 components has

    weight ~ sqrt(t2) |Q|^-1/2 exp(-theta'Q^-1 theta/2),   law N(P Q^-1 theta, P - P Q^-1 P).

The factor sqrt(t2) is a prior that is flat in the standard deviation of the effects instead of their logarithm; with
equal weights small effects are believed in too often. A flat prior instead makes the leader too sure of itself: it
leads partly because its noise was lucky, which shrinkage takes back.

**Flat posterior** (`flat_draws`): theta + sigma A^-1/2 N(0, I), for waiting times. Shrinkage makes gaps smaller than
they are, and waiting times far too long.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import final

import numpy as np
import scipy

from surepick.core.betting.bets import GRID
from surepick.types import Array

N_SIGMAS = 16
"""Levels of the noise that a posterior averages over if the level is learnt."""
CONFIDENCE = 0.95
"""Of intervals of single means."""


@cache
def normals(n: int, dim: int) -> Array:
    """Return fixed standard normal numbers (n, dim): equal ones at every look, or estimates would jitter."""
    drawn = np.random.default_rng(0).standard_normal((n, dim))
    drawn.flags.writeable = False
    return drawn


def variances(variance: float, nu: float, n: int) -> Array:
    """Return n equally likely values of sigma^2; one, if the variance is known."""
    if math.isinf(nu):
        return np.array([variance])
    return np.asarray(variance * nu / scipy.special.chdtri(nu, 1.0 - (np.arange(n) + 0.5) / n), dtype=np.float64)


@final
@dataclass(frozen=True, slots=True)
class Posterior:
    """A mixture of n normal laws of theta, in the eigenbasis of A^-1.

    Each covariance is R R' with R = diag(e) (I + r h h'), so that draws cost O(d).
    """

    axes: Array
    """The eigenbasis (d, d), as columns."""
    weights: Array
    """(n,), with sum 1."""
    means: Array
    """(n, d)."""
    e: Array
    """(n, d)."""
    h: Array
    """(n, d)."""
    r: Array
    """(n,)."""

    def along(self, y: Array) -> tuple[Array, Array]:
        """Return mean and variance (n,) of theta'y under every component."""
        scaled = self.e * (y @ self.axes)
        spread = (scaled + (self.r * (scaled * self.h).sum(axis=1))[:, None] * self.h) ** 2
        return self.means @ (y @ self.axes), spread.sum(axis=1)

    def draws(self, n: int) -> Array:
        """Return n draws of theta (n, d); every component is drawn as often as its weight says."""
        of = np.minimum(np.searchsorted(np.cumsum(self.weights), (np.arange(n) + 0.5) / n), len(self.weights) - 1)
        noise = normals(n, self.means.shape[1]) @ self.axes
        h = self.h[of]
        noise += (self.r[of] * (noise * h).sum(axis=1))[:, None] * h
        drawn: Array = (self.means[of] + self.e[of] * noise) @ self.axes.T
        return drawn


def shrunk_posterior(theta: Array, A_inv: Array, variance: float, nu: float, level: Array) -> Posterior:
    """Return the shrunk posterior.

    Args:
        theta: least squares (d,), not 0.
        A_inv: inverse information (d, d).
        variance: S^2, positive.
        nu: degrees of freedom of S^2; inf: known.
        level: u (d,) with x'u about 1 for the arms; 0 if they have no level.
    """
    spread, axes = _eigenbasis(A_inv)
    z, u = theta @ axes, level @ axes
    weighted = u / spread
    c = float(weighted @ z) / float(weighted @ u) if float(weighted @ u) > 0.0 else 0.0
    sigma2, t2, t1 = (
        one.ravel()
        for one in np.meshgrid(
            variances(variance, nu, N_SIGMAS), float(z @ z) / len(z) * GRID, np.unique([0.0, c * c]), indexing="ij"
        )
    )
    errors = sigma2[:, None] * spread
    Q = t2[:, None] + errors  # without its part of rank one, which the formula of Sherman and Morrison adds
    zz, uz, uu = (z * z / Q).sum(axis=1), (u * z / Q).sum(axis=1), (u * u / Q).sum(axis=1)
    logs = np.log(t2) - np.log(Q).sum(axis=1) - np.log1p(t1 * uu) - zz + t1 * uz * uz / (1.0 + t1 * uu)
    weights = np.exp(0.5 * (logs - logs.max()))
    pull = t1 / (1.0 + t1 * uu)
    shares = errors / Q
    # As in `shrunk_belief`: the covariance is D + pull g g' with D = t2 diag(shares), g = shares u; its root is
    # D^1/2 (I + k h h'/(1 + sqrt(1 + k h'h))) with h = shares^1/2 u and k = pull/t2.
    h, k = np.sqrt(shares) * u, pull / t2
    return Posterior(
        axes,
        weights / weights.sum(),
        t2[:, None] / Q * z + (pull * uz)[:, None] * shares * u,
        np.sqrt(t2[:, None] * shares),
        h,
        k / (1.0 + np.sqrt(1.0 + k * (h * h).sum(axis=1))),
    )


def flat_draws(theta: Array, A_inv: Array, variance: float, nu: float, n: int) -> tuple[Array, Array]:
    """Return n draws of theta (n, d) and of sigma (n,) under a flat prior; arguments as for `shrunk_posterior`."""
    spread, axes = _eigenbasis(A_inv)
    sigma = np.sqrt(np.resize(variances(variance, nu, n), n))
    noise = np.roll(normals(n, len(theta)), n // 2, axis=0) @ axes
    return theta + sigma[:, None] * ((noise * np.sqrt(spread)) @ axes.T), sigma


def _eigenbasis(A_inv: Array) -> tuple[Array, Array]:
    diagonal = np.diagonal(A_inv)
    if np.array_equal(A_inv, np.diag(diagonal)):  # one feature per arm
        return diagonal.copy(), np.eye(len(A_inv))
    spread, axes = np.linalg.eigh(A_inv)
    return np.maximum(spread, np.finfo(float).tiny), axes


def t_factor(nu: float) -> float:
    """Return how many standard errors an interval of one mean reaches to each side; inf without degrees of freedom."""
    if not nu > 0.0:
        return math.inf
    p = 0.5 + 0.5 * CONFIDENCE
    return float(scipy.special.ndtri(p) if math.isinf(nu) else scipy.special.stdtrit(nu, p))


def wilson(successes: Array, n: Array) -> tuple[Array, Array]:
    """Return Wilson's interval of a share, from counts of successes among n trials; arrays or numbers."""
    z = t_factor(math.inf)
    share, room = successes / n, z * z / n
    middle = (share + room / 2.0) / (1.0 + room)
    half = np.sqrt(room * (share * (1.0 - share) + room / 4.0)) / (1.0 + room)
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)


def inverse_gaussian_cdf(x: float | Array, mean: Array, spread: Array) -> Array:
    """Return P(N <= x) for waiting times N with these means (n,) and relative variances (n,); x may be a column."""
    root = np.sqrt(mean / (spread * x))  # lambda = mean/spread
    below = scipy.special.ndtr(root * (x / mean - 1.0))
    above: Array = np.exp(2.0 / spread + scipy.special.log_ndtr(-root * (x / mean + 1.0)))
    total: Array = below + above
    return total


def waiting_quantiles(mean: Array, spread: Array, levels: tuple[float, ...]) -> list[float]:
    """Return quantiles of a waiting time that is equally likely to have each of these inverse Gaussian laws."""
    wanted = np.array(levels)
    low, high = np.full(len(levels), mean.min() * 1e-6), np.full(len(levels), mean.max() * 1e3)
    for _ in range(40):  # to a relative 1e-10
        middle = np.sqrt(low * high)
        is_below = inverse_gaussian_cdf(middle[:, None], mean, spread).mean(axis=1) < wanted
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    found: list[float] = high.tolist()
    return found
