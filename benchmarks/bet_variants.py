"""Two other sizes of bets for the betting rule, which the default was chosen against: plain and capped ones.

    plain    the belief is least squares with its covariance, and all is staked on the normal law of D, cut to D >= 0;
             blocks are longer, and more of the design is G-optimal
    capped   the three stakes of the default on whole laws; no bet wins more than it needs. The proof holds only for
             Gaussian noise whose standard deviation is exactly `noise_std` (docs/guarantee.md)

Notation: that of `surepick.core.betting.bets`. `PlainBetting` and `CappedBetting` are stopping rules; `PlainBets` and
`CappedBets` are the default algorithm under these rules, which `pulls-*.toml` name as plug-ins.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np
import scipy
from numpy.typing import ArrayLike

from surepick.algorithms.lazy_track_and_stop import LazyTrackAndStop
from surepick.arms.views import Task
from surepick.core.betting.bets import LOG_SHARES, STAKES, Belief, Sizes, plain_belief, shrunk_belief
from surepick.errors import InvalidInput
from surepick.sampling.base import Sampler
from surepick.stopping.base import Rule
from surepick.stopping.betting import Betting
from surepick.types import Array

# From here on the normal distribution function is 1 to double precision.
CERTAIN = 9.0


def _tilted_log_ndtr(x: Array) -> Array:
    """Return log Phi(x) + x^2/2; for x < 0 the two cancel, so erfcx takes their place."""
    value = np.empty_like(x)
    below = x < 0
    value[below] = np.log(0.5 * scipy.special.erfcx(-x[below] / math.sqrt(2.0)))
    upper = x[~below]
    value[~below] = 0.5 * upper * upper + scipy.special.log_ndtr(upper)
    return value


def log_bet(z: ArrayLike, v: ArrayLike, m: ArrayLike, s2: ArrayLike) -> Array:
    """Return the log return of one unit staked on "D >= 0, about m" when D is measured as z with variance v.

    The integral over D >= 0 of N(D; m, s2)/P(D >= 0) exp(D z/v - D^2/(2v)), in closed form. Arguments
    broadcast; v and s2 must be positive. The expectation of its exponential over z ~ N(D0, v) is at most 1
    for every D0 <= 0, and exactly 1 at D0 = 0.
    """
    z, v, m, s2 = np.broadcast_arrays(*(np.asarray(value, dtype=np.float64) for value in (z, v, m, s2)))
    if not (np.all(v > 0) and np.all(s2 > 0)):
        raise InvalidInput(
            "log_bet needs v > 0 and s2 > 0; leave out directions the block or the past says nothing on."
        )
    sd_v, sd_m = np.sqrt(v), np.sqrt(s2)
    kept, shrunk = v / (v + s2), s2 / (v + s2)
    with np.errstate(over="ignore"):  # an infinite return is the right one
        zeta, c, a = z / sd_v, m / sd_v, m / sd_m
        x = a * np.sqrt(kept) + zeta * np.sqrt(shrunk)  # posterior mean of D over its standard deviation
        # (x^2 - a^2)/2 without the difference of two large squares, which loses all digits when m/s is large.
        value = np.asarray(0.5 * (shrunk * zeta * zeta + kept * c * (2.0 * zeta - c)))
        widening = np.log1p(s2 / v)
        if not np.isfinite(widening).all():
            widening = np.logaddexp(0.0, np.log(s2) - np.log(v))
        # Each special function only where it says something: they are most of the cost.
        direct = (x >= 0) & (a >= 0)
        near = direct & (np.minimum(x, a) < CERTAIN)
        value[near] += np.log(scipy.special.ndtr(x[near]) / scipy.special.ndtr(a[near]))
        if not direct.all():
            value[~direct] = _tilted_log_ndtr(x[~direct]) - _tilted_log_ndtr(a[~direct])
    return np.asarray(value - 0.5 * widening)


def _log_staked(z: Array, v: Array, m: Array, s2: Array) -> Array:
    """Return the log return of one unit on the whole laws of the three stakes; arguments (n,), z possibly (k, n)."""
    stakes, log_shares = (values.reshape(-1, *([1] * z.ndim)) for values in (STAKES, LOG_SHARES))
    parts = log_shares + log_bet(z, v, stakes * m, s2)
    top: Array = parts.max(axis=0)
    with np.errstate(invalid="ignore"):  # infinite minus infinite: an infinite return stays one
        summed = top + np.log(np.exp(parts - top).sum(axis=0))
    return np.where(np.isfinite(top), summed, top)


# Where the cap may begin, in standard deviations of z: ends and middles of the pieces on which its price is integrated.
CAP_PLACES = np.linspace(-10.0, 12.0, 177)[:, None]
# Room for rounding; candidates at a time.
CAP_ROOM, CAP_SLICE = 1e-6, 256


def log_capped(z: Array, v: Array, m: Array, s2: Array, rest: Array) -> Array:
    """Log of min(c E(z), e^rest), E(z) the return of the three stakes and c >= 1 the factor that its cap pays for.

    Wealth beyond the price buys nothing, so it is given up and the stake raised until the mean is 1 again:
    E[min(c E(z), e^rest)] = 1 for z ~ N(0, v). The payoff does not decrease in z, so under theta'y <= 0 and noise that
    is exactly Gaussian with the variance given its mean is at most 1. It is not convex: for other sub-Gaussian noise,
    or a noise_std that is only an upper bound, there is no such proof. Arguments (n,), rest > 0.
    """
    log_c = np.empty_like(z)
    for start in range(0, len(z), CAP_SLICE):
        part = slice(start, start + CAP_SLICE)
        log_c[part] = _log_cap_factor(v[part], m[part], s2[part], rest[part])
    return np.minimum(log_c + _log_staked(z, v, m, s2), rest)


def _log_cap_factor(v: Array, m: Array, s2: Array, rest: Array) -> Array:
    """Return log c.

    If the cap begins at z = u sqrt(v), then c = e^rest/E(z) and the mean is e^rest (F(u)/E(z) + P(N > u)) with F(u) the
    integral of E times the density up to there. It falls in u: the piece in which it passes 1 is found first, then the
    place in it. Simpson's rule errs upwards where the integrand is steep, which makes c smaller, never too large.
    """

    def log_payoff(u: Array) -> Array:
        return _log_staked(np.sqrt(v) * u, v, m, s2)

    def density(u: Array, log_E: Array) -> Array:
        return np.exp(log_E - 0.5 * u * u) / math.sqrt(2.0 * math.pi)

    def mean(u: Array, log_E: Array, F: Array) -> Array:
        total: Array = np.exp(rest) * (F * np.exp(-log_E) + scipy.special.ndtr(-u))
        return total

    log_E = log_payoff(CAP_PLACES)
    f = density(CAP_PLACES, log_E)
    width = float(CAP_PLACES[2, 0] - CAP_PLACES[0, 0])
    F = np.cumsum(width / 6.0 * (f[:-2:2] + 4.0 * f[1::2] + f[2::2]), axis=0)
    is_poor = mean(CAP_PLACES[2::2], log_E[2::2], F) <= 1.0 - CAP_ROOM
    piece, column = np.argmax(is_poor, axis=0), np.arange(len(v))
    first = CAP_PLACES[2 * piece, 0]
    F_first, f_first = np.where(piece > 0, F[piece - 1, column], 0.0), f[2 * piece, column]
    low, high = first, first + width
    for _ in range(12):
        u = 0.5 * (low + high)
        middle = 0.5 * (first + u)
        end = log_payoff(u)
        F_u = F_first + (u - first) / 6.0 * (f_first + 4.0 * density(middle, log_payoff(middle)) + density(u, end))
        is_rich = mean(u, end, F_u) > 1.0 - CAP_ROOM
        low, high = np.where(is_rich, u, low), np.where(is_rich, high, u)
    # Where even the last place costs too much, nothing is capped that could ever be seen.
    return np.where(is_poor.any(axis=0), np.maximum(rest - log_payoff(high), 0.0), 0.0)


def _least_squares(theta: Array, A_inv: Array, noise_std: float, _: Array) -> Belief:
    return plain_belief(theta, A_inv, noise_std)


def _log_plain(z: Array, v: Array, m: Array, s2: Array, _: Array) -> Array:
    return log_bet(z, v, m, s2)


PLAIN = Sizes("plain", _least_squares, _log_plain)
CAPPED = Sizes("capped", shrunk_belief, log_capped)


@final
@dataclass(frozen=True, kw_only=True)
class PlainBetting(Betting):
    """The betting rule with plain bets.

    An estimate that is not shrunk needs the longer blocks and the exploration of other rules.
    """

    default_ratio = Rule.default_ratio
    usual_g_mix = Rule.usual_g_mix
    sizes: Sizes = field(default=PLAIN, init=False)
    name: str = field(default="betting-plain", init=False)


@final
@dataclass(frozen=True, kw_only=True)
class CappedBetting(Betting):
    """The betting rule with capped bets."""

    takes_unknown_noise: ClassVar[bool] = False
    sizes: Sizes = field(default=CAPPED, init=False)
    name: str = field(default="betting-capped", init=False)

    def noise_law(self, *, is_known: bool) -> str:
        """Return the assumption on the noise."""
        return "follows exactly a normal law"

    def _limits(self, task: Task) -> Iterator[str]:
        yield from super()._limits(task)
        if task.reward_range is not None:
            yield 'capped bets are for Gaussian noise, got bounded rewards; use stopping="betting".'


@final
@dataclass(frozen=True)
class PlainBets:
    """Lazy Track-and-Stop that stops by plain bets."""

    def compose(self, task: Task) -> tuple[Sampler, Rule]:
        """Return the sampler and the stopping rule."""
        return LazyTrackAndStop(stopping=PlainBetting()).compose(task)


@final
@dataclass(frozen=True)
class CappedBets:
    """Lazy Track-and-Stop that stops by capped bets."""

    def compose(self, task: Task) -> tuple[Sampler, Rule]:
        """Return the sampler and the stopping rule."""
        return LazyTrackAndStop(stopping=CappedBetting()).compose(task)
