"""The noise: its level as the rewards show it, for all arms or each, and whether rewards contradict `noise_std`.

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

**Rounded readings.** An instrument that shows multiples of h (`LeastSquares.resolution`) moves each reward by at most
h/2, hence sqrt(RSS) by at most sqrt(t) h/2: the limits above hold with sqrt(RSS) -/+ sqrt(t) h/2 in its place. For
noise N(0, sigma^2) around m the mean of the rounded reading is m plus a Fourier series,

    (h/pi) sum over k of (-1)^k sin(2 pi k m/h) exp(-2 (pi k sigma/h)^2)/k,   in size at most
    b = min(h/2, -(h/pi) log(1 - exp(-2 (pi sigma/h)^2))),

0.05 h at sigma = 0.3 h and 1e-9 h at sigma = h. Readings contradict sigma if they contradict the noise_std s with
s^2 = max(0.28 h^2, sigma^2 + 0.1 h^2): with it the moments E exp((1 - 1/r_k) (r - m)^2/(2 s^2)) <= sqrt(r_k) of the
proof above hold for the distances of rounded readings from m, whatever m and sigma are. The smallest sigma that is not
contradicted gives a b that bounds the bias of every reading (docs/guarantee.md, Theorem 24). Readings of an arm that
repeat each other to the last digit although their scatter around the fit is far above h are no measurements of their
own: a cache answers, or the noise is often exactly 0.

**Arm means** (`ArmMeans`). Arm a has n_a pulls, mean_a the mean of their rewards, squares_a = sum of (r - mean_a)^2 its
pure error: repeats of one arm differ by noise alone, whatever the model says.

**Noise levels of single arms** (`ArmVariances`), for bets and for designs. s_a the standard deviation of arm a, as
estimated; theta, A weighted least squares: rows x_a/s_a, rewards r/s_a; RSS_a the squared residuals of the arm,
f_a = n_a (1 - x_a'A^-1 x_a/s_a^2) the degrees of freedom that the fit leaves. s_a^2 is RSS_a/f_a, shrunk to the level
L^2 of all arms,

    s_a^2 = (RSS_a + F L^2)/(f_a + F),

and L^2 for arms without results. Wrong levels cost pulls, never validity: the past has fixed them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Self, final

import numpy as np
import scipy

from surepick.core.betting.bets import Residuals
from surepick.core.betting.block import LARGEST_REWARD, RANK_TOL, Block
from surepick.core.estimate import LeastSquares
from surepick.core.evidence import Mixture
from surepick.types import Array, IntArray

# Alternatives to the true noise variance, as multiples of noise_std^2.
VARIANCE_RATIOS = (1.05, 1.1, 1.2, 1.5, 2.0, 4.0, 16.0)
FALSE_ALARM = 1e-6
# A rounded reading is as far from its mean as noise of variance max(first h^2, sigma^2 + second h^2), h the step.
ROUNDED = 0.28, 0.1
# Least number and share of equal readings that raise suspicion; steps of an instrument on which readings that are all
# equal are no accident.
FEW_REPEATS, OFTEN, MANY_STEPS = 3, 0.2, 1e4
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
    taken off: the rest is not longer than the residuals of the noise alone.
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
    spare = estimate.n_spare
    if spare < 1 or not estimate.has_theta:
        return math.nan
    return math.sqrt(estimate.residual_sum / spare)


def residuals(estimate: LeastSquares) -> Residuals:
    """Return the residuals of the rewards, at least those of floating point: noise of 0 is never believed.

    R is inf, which is no scale to bet by, while all rewards are equal, and where they repeat each other.
    """
    nu = estimate.n_spare
    if _says_nothing(estimate):
        return Residuals(math.inf, nu)
    return Residuals(max(estimate.residual_sum, nu * _dust(estimate) ** 2), nu)


def _says_nothing(estimate: LeastSquares) -> bool:
    """Return whether readings are all equal, or repeat each other."""
    step = estimate.resolution
    return step > 0.0 and (math.isinf(step) or is_repeating(estimate))


def _dust(estimate: LeastSquares) -> float:
    """Return the size of a residual that floating point alone explains; whitened coordinates."""
    return float(np.finfo(float).eps) * float(np.linalg.norm(estimate.theta))


def is_repeating(estimate: LeastSquares, *, is_normal: bool = True) -> bool:
    """Return whether rewards of the same arm equal each other too often for noise of the scatter around the fit.

    A reading on a grid of step h hits a given value with probability at most h/(sigma sqrt(2 pi)). False alarms: below
    1e-6 at a look if sigma is as large as the scatter. Readings of more than four digits that never move at all are no
    measurements either, whatever the scatter. That alone counts where the noise need not be normal.
    """
    n_equal, n_could = estimate.n_repeated
    # Values drawn from a list, as simulations do, are equal now and then, and all the same have noise.
    is_rare = n_equal < max(FEW_REPEATS, OFTEN * n_could)
    if is_rare or not estimate.has_theta or estimate.n_spare < 1:
        return False
    step, scatter = estimate.resolution, noise_estimate(estimate)
    if n_equal == n_could and estimate.spread > MANY_STEPS * step:
        return True
    if not is_normal:
        return False
    chance = step / (math.sqrt(2.0 * math.pi) * scatter) if scatter > 0.0 else 1.0
    return chance < 1.0 and float(scipy.special.bdtrc(n_equal - 1, n_could, chance)) < FALSE_ALARM


def rounding_bias(estimate: LeastSquares, step: float) -> float:
    """Return how far rounding to multiples of `step` moves the mean of a reading at most; all times together.

    It holds with probability 1 - 1e-6 for Gaussian noise of one level: levels that the readings contradict are out.
    """
    if step == 0.0:
        return 0.0
    if not (math.isfinite(step) and estimate.has_theta):
        return 0.5 * step
    least = estimate.residual_sum / _contradicting(estimate.n_pulls) / step**2
    return largest_bias(step, step * math.sqrt(least - ROUNDED[1]) if least > ROUNDED[0] else 0.0)


def largest_bias(step: float, sigma: float) -> float:
    """Return b: how far the mean of a Gaussian reading of level sigma, rounded to multiples of `step`, can be off."""
    hidden = math.exp(-2.0 * (math.pi * sigma / step) ** 2)
    return min(0.5 * step, -step / math.pi * math.log1p(-hidden)) if hidden < 1.0 else 0.5 * step


@lru_cache(maxsize=4096)
def _contradicting(n_pulls: int) -> float:
    """Return the sum of squares over noise_std^2 from which on n rewards contradict noise_std."""
    alarm, high = math.log(1.0 / FALSE_ALARM), 2.0 * n_pulls + 100.0
    low = 0.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if noise_evidence(middle, n_pulls) < alarm else (low, middle)
    return high


def noise_interval(estimate: LeastSquares, delta: float) -> tuple[float, float]:
    """Return bounds on the standard deviation that hold at all times together with probability 1 - delta.

    For Gaussian noise of one unknown level; whitened coordinates, any way of choosing arms from the past. On the same
    event the mixture of `core.evidence` is below 2/delta, so whatever follows from that with the upper end in the
    place of noise_std is covered by the same delta.
    """
    if not estimate.has_theta or _says_nothing(estimate):
        return 0.0, math.inf
    key = type(estimate), delta
    if key not in estimate.notes:  # a result asks for it five times
        estimate.notes[key] = _noise_interval(estimate, delta)
    limits: tuple[float, float] = estimate.notes[key]
    return limits


def _noise_interval(estimate: LeastSquares, delta: float) -> tuple[float, float]:
    n = estimate.n_pulls
    rss = max(estimate.residual_sum, n * _dust(estimate) ** 2)
    low, high = noise_limits(estimate.A, rss, n, delta)
    off = 0.5 * estimate.resolution * math.sqrt(n / rss) if rss > 0.0 else 0.0
    return low * max(1.0 - off, 0.0), high * (1.0 + off)


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

    The scale itself, if it is given; else the upper end of `noise_interval`, which takes half of the risk, and the
    bias of rounded readings: at most b sqrt(t) in units of the standard error, beside a claim of at least
    sqrt(2 log(2/delta)) of them.
    """
    if noise_std is not None:
        return noise_std, delta
    high = noise_interval(estimate, delta)[1]
    bias = rounding_bias(estimate, estimate.resolution) * math.sqrt(estimate.n_pulls)
    return high + bias / math.sqrt(2.0 * math.log(2.0 / delta)), 0.5 * delta


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


@final
@dataclass(frozen=True, slots=True)
class ArmMeans:
    """One row per arm, in increasing order of the arms' numbers."""

    arms: IntArray
    X: Array
    """Features (s, d)."""
    counts: Array
    means: Array
    squares: Array

    @classmethod
    def none(cls, dim: int) -> Self:
        """Nothing measured."""
        empty = np.zeros(0)
        return cls(np.zeros(0, dtype=np.int64), np.zeros((0, dim)), empty, empty, empty)

    @classmethod
    def of(cls, arms: IntArray, X: Array, rewards: Array) -> Self:
        """Sort pulls by arm: numbers (n,), features (n, d), rewards (n,)."""
        numbers, first, place, n = np.unique(arms, return_index=True, return_inverse=True, return_counts=True)
        counts, level = n.astype(np.float64), rewards[first]
        # Measured from the arm's first reward: sums of large rewards would lose the noise in rounding.
        means = level + np.bincount(place, rewards - level[place], len(numbers)) / counts
        squares = np.bincount(place, (rewards - means[place]) ** 2, len(numbers)).astype(np.float64)
        return cls(numbers.astype(np.int64), X[first], counts, means, squares)

    @property
    def n_repeats(self) -> int:
        """Degrees of freedom of the pure error."""
        return int(self.counts.sum()) - len(self.arms)

    def look_up(self, arms: IntArray) -> tuple[Array, Array]:
        """Return counts and means of these arms, zeros for those never pulled."""
        if not len(self.arms):
            return np.zeros(len(arms)), np.zeros(len(arms))
        place = np.minimum(np.searchsorted(self.arms, arms), len(self.arms) - 1)
        is_known = self.arms[place] == arms
        return np.where(is_known, self.counts[place], 0.0), np.where(is_known, self.means[place], 0.0)

    def merged(self, new: "ArmMeans") -> "ArmMeans":
        """Return the means of both together; two means of one arm that differ add to its squares."""
        arms, first, place = np.unique(np.append(self.arms, new.arms), return_index=True, return_inverse=True)
        start = len(self.arms)
        counts, means, squares = np.zeros((3, len(arms)))
        for part, at in ((self, place[:start]), (new, place[start:])):
            total = counts[at] + part.counts
            apart = part.means - means[at]
            squares[at] += part.squares + apart * apart * counts[at] * part.counts / total
            means[at] += apart * part.counts / total
            counts[at] = total
        return ArmMeans(arms, np.vstack([self.X, new.X])[first], counts, means, squares)


SHRINKAGE = 2.0
"""F: results beyond the fit after which an arm's own residuals outweigh the level of all arms."""
# Variances and fit depend on each other; rounds of computing one from the other.
ROUNDS = 3


@final
@dataclass(frozen=True, slots=True)
class VarianceEstimate:
    """Weighted least squares of earlier results: theta, and the noise of each arm."""

    theta: Array
    A_inv: Array
    residuals: Residuals
    """In units of the levels."""
    arms: IntArray
    """Arms with results, in increasing order."""
    stds: Array
    usual: float
    """The level of arms without results."""

    def of(self, arms: IntArray) -> Array:
        """Return the standard deviations of these arms."""
        place = np.minimum(np.searchsorted(self.arms, arms), len(self.arms) - 1)
        return np.where(self.arms[place] == arms, self.stds[place], self.usual)


@final
class ArmVariances:
    """The results of every arm so far, and the noise level that they show.

    Args:
        dim: number of features.
        is_symmetric: whether blocks say that their noise is only known to be symmetric.
    """

    def __init__(self, dim: int, *, is_symmetric: bool = False) -> None:
        self._is_symmetric = is_symmetric
        self._past = ArmMeans.none(dim)
        self._now: VarianceEstimate | None = None

    def learn(self, arms: IntArray, X: Array, rewards: Array) -> None:
        """Take results: numbers (n,) of the arms, rows (n, d), rewards (n,)."""
        self._past, self._now = self._past.merged(ArmMeans.of(arms, X, rewards)), None

    @property
    def now(self) -> VarianceEstimate | None:
        """The present estimate; None before the arms span, or while there are no residuals."""
        if self._now is None:
            self._now = _variance_estimate(self._past)
        return self._now

    def block(self, arms: IntArray, X: Array, parts: Array) -> Block:
        """Return B repetitions of one design as a block in units of the noise, measured from the estimate before it.

        Args:
            arms: of the design (n,).
            X: their rows (n, d).
            parts: rewards (B, n) of every repetition.
        """
        known = self.now
        if known is None:
            return Block.of(np.tile(X, (len(parts), 1)), parts.ravel(), np.zeros(X.shape[1]))
        stds = known.of(arms)
        rows, rewards = X / stds[:, None], parts / stds
        block = Block.of(
            np.tile(rows, (len(parts), 1)), rewards.ravel(), known.theta, known.A_inv.copy(), known.residuals
        )
        block.parts, block.is_symmetric = (rewards - rows @ known.theta) @ rows, self._is_symmetric
        block.unit = float(stds.min())
        return block


def _variance_estimate(past: ArmMeans) -> VarianceEstimate | None:
    X, n = past.X, past.counts
    n_spare = int(n.sum()) - X.shape[1]
    if n_spare <= 0:
        return None
    variances, theta = np.ones(len(n)), np.zeros(X.shape[1])
    for _ in range(ROUNDS):
        weights = n / variances
        A = (X * weights[:, None]).T @ X
        spread, axes = np.linalg.eigh(A)
        if not spread[0] > RANK_TOL * spread[-1]:
            return None
        A_inv: Array = (axes / spread) @ axes.T
        # Measured from the estimate before: sums of large rewards would lose the noise in rounding.
        theta = theta + A_inv @ ((weights * (past.means - X @ theta)) @ X)
        # Rewards are of the size of theta at most, arms being whitened: less noise than a share of that is rounding.
        dust = float(np.linalg.norm(theta)) / LARGEST_REWARD
        squares = np.maximum(past.squares + n * (past.means - X @ theta) ** 2, n * dust**2)
        free = n * np.maximum(1.0 - np.einsum("ij,jk,ik->i", X, A_inv, X) / variances, 0.0)
        level = float(squares.sum()) / n_spare
        if not level > 0.0:
            return None
        variances = (squares + SHRINKAGE * level) / (free + SHRINKAGE)
    stds = np.sqrt(variances)
    return VarianceEstimate(
        theta, A_inv, Residuals(float((squares / variances).sum()), n_spare), past.arms, stds, float(np.sqrt(level))
    )
