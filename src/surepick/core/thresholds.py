"""Thresholds that a GLR statistic must exceed, one object per published formula.

Notation: t pulls; d features; A (d, d) information; c > 0 and u > 0 constants fixed before the first reward;
M (d, d) the metric, i.e. what the identity of the original features is in the coordinates of A: T T' for
x = T x_raw; logdet = log det(I + (u c M)^-1 A), which is log det(I + A/(u c)) in the original features.

The statistic carries no noise_std; the thresholds carry noise_std^2. Functions broadcast.

Reference: Jedra and Proutiere (2020), "Optimal Best-arm Identification in Linear Bandits".
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, final

import numpy as np
import scipy
from numpy.typing import ArrayLike

from surepick.core.checks import LARGEST
from surepick.core.evidence import Mixture, loss_bound
from surepick.errors import InvalidInput
from surepick.types import Array, Guarantee

MIX_GRID = Mixture.uniform([4.0**j for j in range(10)])
"""Ten equally weighted regularisers 1, 4, ..., 4^9, in units of the information of the first cycle."""


def delta_at_round(n_pulls: ArrayLike, *, delta: float) -> Array:
    """Return 6 delta / (pi^2 t^2), the risk given to round t in section 5 of the paper.

    A union bound over rounds on top of a threshold that is already time-uniform: valid, and not needed.
    """
    return 6.0 * delta / (math.pi * np.asarray(n_pulls, dtype=np.float64)) ** 2


def mix_grid_threshold(
    logdets: ArrayLike, lambda_min: ArrayLike, *, delta: float, noise_std: float, mixture: Mixture = MIX_GRID
) -> Array:
    """Return the threshold of the mixture whose exponents are bounded through the smallest eigenvalue of A.

    It is the root beta of
    logsumexp_j [ log p_j - logdets_j/2 + beta/noise_std^2 lambda_min/(lambda_min + kappa_j) ] = log(1/delta)
    with logdets (..., J) = log det(I + A/kappa_j). The rule is the evidence rule when A is a multiple of the
    identity, and stops later otherwise. Proved for any sampling; A only has to be invertible.
    """
    inverse = 1.0 / np.asarray(lambda_min, dtype=np.float64)
    zero = np.zeros_like(inverse)
    # A pair with gap 0, y'A^-1 y = 1 and y'A^-2 y = 1/lambda_min has GLR statistic epsilon^2 / 2.
    root = loss_bound(zero, zero + 1.0, inverse, logdets, mixture=mixture, noise_std=noise_std, delta=delta)
    return 0.5 * root**2


@dataclass(frozen=True, kw_only=True)
class Threshold(ABC):
    """A threshold of a GLR rule.

    Args:
        name: of the rule.
        u: the u of log det(I + A/(u c)), or None if no log-determinant is used.
        guarantee: the guarantee of a rule that uses the threshold.
        needs_floor: whether the proof also asks for A >= c I before stopping.

    Attributes:
        holds_for_all_pairs: whether it belongs to a confidence set for theta, so that it serves m best arms as well.
    """

    holds_for_all_pairs: ClassVar[bool] = True
    name: str
    u: float | None = None
    guarantee: Guarantee = "proved"
    needs_floor: bool = False

    def __call__(self, *, n_pulls: ArrayLike, dim: int, logdet: ArrayLike, delta: float, noise_std: float) -> Array:
        """Return the threshold; broadcasts over n_pulls and logdet. `logdet` is ignored if `u` is None."""
        t, logdets = np.asarray(n_pulls, dtype=np.float64), np.asarray(logdet, dtype=np.float64)
        return np.asarray(self.value(t, dim, logdets, delta=delta, noise_std=noise_std))

    @abstractmethod
    def value(self, t: Array, dim: int, logdet: Array, *, delta: float, noise_std: float) -> Any:
        """Return the threshold, of the shape that t or logdet has."""


@final
@dataclass(frozen=True, kw_only=True)
class DeterminantThreshold(Threshold):
    """(1 + u) noise_std^2 log( det(A/(u c) + I)^(1/2) / delta ), the exploration rate of section 3.4.

    Time-uniform: proved for every t at once, provided A >= c I when the rule stops. Since 1 + u multiplies
    log(1/delta), the asymptotic cost is 1 + u times the optimum for fixed u; the text hides this constant.
    `union_over_time` adds the union bound over rounds of section 5.
    """

    u: float
    union_over_time: bool
    needs_floor: bool = True

    def value(self, t: Array, dim: int, logdet: Array, *, delta: float, noise_std: float) -> Any:
        """Return the threshold at these log-determinants."""
        risk = delta_at_round(t, delta=delta) if self.union_over_time else delta
        return (1.0 + self.u) * noise_std**2 * (0.5 * logdet - np.log(risk))


@final
@dataclass(frozen=True, kw_only=True)
class RemarkThreshold(Threshold):
    """2 noise_std^2 log(t^(d/2) / delta), the simple form in the remark on c and u, section 3.4.

    It follows from u = 1 and c = max |x|^2 by det(I + A/c) <= (1 + t/d)^d <= t^d. The last step needs
    d >= 2 (and t >= 2, true once A is invertible); it is false for d = 1, so t + 1 replaces t there. With a
    smaller c the threshold is not proved.
    """

    name: str = "paper-remark"
    needs_floor: bool = True

    def value(self, t: Array, dim: int, logdet: Array, *, delta: float, noise_std: float) -> Any:
        """Return the threshold at these numbers of pulls."""
        growth = np.log(t + 1.0) if dim == 1 else np.log(t)
        return 2.0 * noise_std**2 * (0.5 * dim * growth - math.log(delta))


@final
@dataclass(frozen=True, kw_only=True)
class HeuristicThreshold(Threshold):
    """noise_std^2 log((1 + g(t))/delta), with g(t) = log t or, if not `of_log`, t. Not proved.

    References: Garivier and Kaufmann (2016), who made log t popular; Tirinzoni and Degenne (2022), who use t.
    """

    of_log: bool
    guarantee: Guarantee = "heuristic"

    def value(self, t: Array, dim: int, logdet: Array, *, delta: float, noise_std: float) -> Any:
        """Return the threshold at these numbers of pulls."""
        growth = np.log(t) if self.of_log else t
        return noise_std**2 * (np.log1p(growth) - math.log(delta))


@final
@dataclass(frozen=True, kw_only=True)
class UnionThreshold(Threshold):
    """scale noise_std^2 log(factor t^2 n_tests / delta): a union bound over n_tests pairs and over all times.

    Proved for pulls that depend on no reward, if scale >= 1 and factor >= pi^2/6 (or scale makes up for a smaller
    factor): given the arms each test is a single Gaussian tail, and the risks delta/(factor t^2) sum to delta.
    """

    holds_for_all_pairs: ClassVar[bool] = False
    n_tests: int
    scale: float = 1.0
    factor: float = math.pi**2 / 6.0

    def value(self, t: Array, dim: int, logdet: Array, *, delta: float, noise_std: float) -> Any:
        """Return the threshold at these numbers of pulls."""
        inside = math.log(self.factor) + 2.0 * np.log(t) + math.log(self.n_tests) - math.log(delta)
        return self.scale * noise_std**2 * inside


@final
@dataclass(frozen=True, kw_only=True)
class RidgeThreshold(Threshold):
    """(noise_std sqrt(log(n_tests/delta) + growth) + sqrt(ridge/2) norm_bound)^2, for a ridge estimate.

    growth is half the log-determinant log det(I + A/ridge), or its bound (d/2) log(1 + t L^2/(ridge d)) if the
    largest norm L of an arm is given. Proved for any sampling if the true theta has at most the norm `norm_bound`,
    both in the features the ridge is spherical in.

    Reference: Abbasi-Yadkori, Pal and Szepesvari (2011), Theorem 2.
    """

    ridge: float
    norm_bound: float
    n_tests: int = 1
    largest_norm: float | None = None
    u: float = 1.0

    def __post_init__(self) -> None:
        if not self.norm_bound <= LARGEST:
            raise InvalidInput(f"`norm_bound` must be at most {LARGEST:g}, got {self.norm_bound:g}; use other units.")

    def value(self, t: Array, dim: int, logdet: Array, *, delta: float, noise_std: float) -> Any:
        """Return the threshold."""
        growth = 0.5 * logdet
        if self.largest_norm is not None:
            growth = 0.5 * dim * np.log1p(t * self.largest_norm**2 / (self.ridge * dim))
        price = math.log(self.n_tests) - math.log(delta) + growth
        return (noise_std * np.sqrt(price) + math.sqrt(self.ridge / 2.0) * self.norm_bound) ** 2


@cache
def gaussian_price(x: float) -> float:
    """Return C(x) = min over 1/2 < l < 1 of (2l - 2l log(4l) + log zeta(2l) - log(1 - l)/2 + x) / l, about x + log x.

    What time-uniformity over the pulls of one arm makes of log(1/delta) = x, apart from an iterated logarithm.

    Reference: Kaufmann and Koolen (2021), "Mixture martingales revisited", Gaussian case.
    """

    def price(l: float) -> float:  # noqa: E741 - the letter of the formula, a lambda
        zeta = float(scipy.special.zeta(2.0 * l))
        return (2.0 * l * (1.0 - math.log(4.0 * l)) + math.log(zeta) - 0.5 * math.log1p(-l) + x) / l

    # At both ends the price is infinite, and in between it has a single minimum.
    best = scipy.optimize.minimize_scalar(
        price, bounds=(0.5 + 1e-9, 1.0 - 1e-9), method="bounded", options={"xatol": 1e-10}
    )
    return float(best.fun)


@final
@dataclass(frozen=True, kw_only=True)
class PairsThreshold(Threshold):
    """noise_std^2 (2 C(log((K - 1)/delta)/2) + 4 log(4 + log(t/2))), C = `gaussian_price`: K arms, each with its mean.

    Published proof, for any sampling of K = d linearly independent arms and Gaussian noise: then a pair is judged from
    the pulls of its two arms alone, and a wrong answer needs one of K - 1 pairs to fail. The sum 2 log(4 + log N) over
    the two arms is at most 4 log(4 + log(t/2)), which is what stands here.

    Reference: Kaufmann and Koolen (2021), "Mixture martingales revisited".
    """

    holds_for_all_pairs: ClassVar[bool] = False
    n_arms: int
    name: str = "gaussian-pairs"
    guarantee: Guarantee = "published"

    def value(self, t: Array, dim: int, logdet: Array, *, delta: float, noise_std: float) -> Any:
        """Return the threshold at these numbers of pulls."""
        fixed = 2.0 * gaussian_price(0.5 * (math.log(self.n_arms - 1) - math.log(delta)))
        return noise_std**2 * (fixed + 4.0 * np.log(4.0 + np.log(0.5 * t)))


PAPER_MAIN = DeterminantThreshold(name="paper-main", u=1.0, union_over_time=True)
"""Section 5: u = 1, delta replaced by 6 delta/(pi^2 t^2), c = lambda_min of the initial arms' information."""

PAPER_APPENDIX = DeterminantThreshold(name="paper-appendix", u=0.1, union_over_time=False)
"""Appendix A: u = 0.1, same c, delta as it is."""

PAPER_REMARK = RemarkThreshold()
HEURISTIC = HeuristicThreshold(name="heuristic", of_log=True)
LOG_T = HeuristicThreshold(name="log-t", of_log=False)

_PRESETS = (PAPER_MAIN, PAPER_APPENDIX, PAPER_REMARK, HEURISTIC, LOG_T)
THRESHOLDS: Mapping[str, Threshold] = {preset.name: preset for preset in _PRESETS}
"""The presets by name."""
