"""Bets: what one block of pulls pays to whoever had staked on "the leader is ahead of b", and how large to stake.

Notation: z_b (d,) candidates; l the leader, y = z_l - z_b (d,); theta (d,) and A (d, d) estimate and information of ALL
results before the block; z and v what the block by itself says about D = theta'y and the variance of that
(`core.block`); m and s2 the bet: D is believed to be about m, with variance s2.

A unit staked on the law pi of D >= 0 returns B = integral of exp(D z/v - D^2/(2v)) pi(dD). Given the past z is
sub-Gaussian with variance v around theta'y, so E[B | past] <= 1 whenever theta'y <= 0, for ANY law that the past has
fixed. Three choices, all from the past alone, so none touches the proof; wrong ones cost pulls, never validity:

    belief   theta ~ N(mean, cov). "plain": mean = theta, cov = noise_std^2 A^-1. "shrunk": the posterior under the
             prior N(0, t2 I + t1 u u') whose t2, t1 make theta most likely (empirical Bayes on a grid relative to
             the estimate, so units do not matter); u is the direction of a common level of all arms.
    stakes   half on m = mean'y, a quarter each on .6 m and .3 m: the rivals that decide when the rule stops are those
             whose gap is smaller than it seems, and a stake that is too large loses more than one that is too small.
    goal     m is at most sqrt(2 v rest), rest the log wealth still missing. With one D the price is reached when
             z >= rest v/D + D/2, least at that D; more pays for wealth that buys nothing.

The law around each stake is a normal one with variance s2, cut to D >= 0. "plain" and "capped" bets take all of it, by
special functions. The default, with known noise and without (`core.student`), takes two points with its mean and
variance: six exponentials in all.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import scipy
from numpy.typing import ArrayLike

from surepick.core.linalg import Array
from surepick.errors import InvalidInput

Sizes = Literal["shrunk", "plain", "capped"]
"""How large bets are: "capped" is "shrunk" for exactly Gaussian noise of exactly known scale, see `log_capped`."""

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
    """Log of what one unit staked on "D >= 0, about m" returns when D is measured as z with variance v.

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


# Shares of m that are staked on, and the shares of the wealth that go on each.
STAKES = np.array([1.0, 0.6, 0.3])
LOG_SHARES = np.log([0.5, 0.25, 0.25])
# The share of the wealth on each of the six points, see `points`.
LAW = np.tile(np.exp(LOG_SHARES) / 2.0, 2)
# Phi(a)/phi(a) as a power series.
MILLS = (math.sqrt(math.pi / 2.0), 1.0, math.sqrt(math.pi / 8.0), 1.0 / 3.0, math.sqrt(math.pi / 128.0))
# Variances of the prior that are tried, relative to the mean square of the estimate.
GRID = 2.0 ** -np.arange(-1.0, 11.0)


@final
@dataclass(frozen=True, slots=True)
class Belief:
    """What earlier results say about theta."""

    mean: Array
    """(d,)."""
    root: Array
    """F (d, d) with F F' the covariance, noise included; |F'y|^2 is the variance of theta'y."""


def root_of(A_inv: Array) -> Array:
    """Return F with F F' = A_inv: a sum of squares |F'y|^2 cannot turn negative by rounding, as y'(A_inv y) can."""
    spread, axes = np.linalg.eigh(A_inv)
    root: Array = axes * np.sqrt(np.maximum(spread, 0.0))[..., None, :]
    return root


def plain_belief(theta: Array, A_inv: Array, noise_std: float) -> Belief:
    """Return least squares with its covariance."""
    return Belief(theta, noise_std * root_of(A_inv))


def shrunk_belief(theta: Array, A_inv: Array, noise_std: float, level: Array) -> Belief:
    """Return the posterior of theta under the prior of the grid under which the estimate is most likely.

    With S = t2 I + t1 u u' + noise_std^2 A^-1 the log-likelihood is -(log det S + theta'S^-1 theta)/2, t1 is 0 or the
    square of the common level c = u'A theta / u'A u. O(d) per point of the grid once A^-1 is diagonal; the rank-one
    term is taken in by the Sherman-Morrison formula.

    Args:
        theta: estimate (d,), in coordinates in which the arms are of one size (whitened).
        A_inv: inverse information (d, d).
        noise_std: scale of the noise.
        level: u (d,) with x'u about 1 for the arms.
    """
    spread, axes = np.linalg.eigh(A_inv)
    errors = noise_std**2 * np.maximum(spread, np.finfo(float).tiny)
    z, u = theta @ axes, level @ axes
    size = float(z @ z) / len(z)
    if not (size > 0.0 and math.isfinite(size)):
        return plain_belief(theta, A_inv, noise_std)
    t2 = size * GRID
    S = t2[:, None] + errors
    zz, uz, uu = (z * z / S).sum(axis=1), (u * z / S).sum(axis=1), (u * u / S).sum(axis=1)
    weighted = u / errors
    c = float(weighted @ z) / float(weighted @ u) if (weighted @ u) > 0.0 else 0.0
    scores = [-np.log(S).sum(axis=1) - np.log1p(t1 * uu) - zz + t1 * uz * uz / (1.0 + t1 * uu) for t1 in (0.0, c * c)]
    has_level, j = divmod(int(np.argmax(scores)), len(GRID))
    kept = t2[j] / S[j]
    g = (errors / S[j]) * u
    pull = c * c / (1.0 + c * c * uu[j]) if has_level else 0.0
    mean = kept * z + pull * uz[j] * g
    # The covariance is D + pull g g' with D = diag(kept errors) = t2 diag(e)^2 and g = D^1/2 h/sqrt(t2), h = e u: it is
    # D^1/2 (I + r h h') D^1/2 with r = pull/t2, and the middle is the square of I + r h h'/(1 + sqrt(1 + r h'h)).
    e = np.sqrt(errors / S[j])
    h, r = e * u, pull / t2[j]
    root = math.sqrt(t2[j]) * (np.diag(e) + r / (1.0 + math.sqrt(1.0 + r * float(h @ h))) * np.outer(e * h, h))
    return Belief(axes @ mean, axes @ root)


def log_returns(z: Array, v: Array, m: Array, s2: Array, rest: Array) -> Array:
    """Log of what one unit returns that is staked in three parts, none beyond the goal, each on two points.

    In standard deviations of z, a share w of the stake on the point D returns w exp(D z - D^2/2). Arguments (n,); v, s2
    and rest positive.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # rewards beyond all measure pay NaN, not evidence
        per_sd = 1.0 / np.sqrt(v)
        D = points(m * per_sd, np.sqrt(s2) * per_sd, np.sqrt(2.0 * rest))
        logs = -0.5 * D
        logs += z * per_sd
        logs *= D
        return log_mixed(logs)


def points(mu: Array, tau: Array, goal: Array) -> Array:
    """Return the places D >= 0 (6, n) that are staked on, for m, s and the largest m (n,) in standard deviations of z.

    For each stake mean + sd and mean - sd of the normal law cut to D >= 0: with a = mu/tau and l = phi(a)/Phi(a), which
    five terms of a series give closely enough for a bet, these are mu + tau l and tau sqrt(1 - l (l + a)). What is not
    known to within the goal is staked on as if it were: a far larger D would pay for nothing.
    """
    # In place: most of the time goes into moving numbers.
    tau = np.minimum(tau, goal)
    a = STAKES[:, None] * np.minimum(np.minimum(mu, goal) / tau, 1e9)
    cut = MILLS[-1] * a
    for coefficient in MILLS[-2:0:-1]:
        cut += coefficient
        cut *= a
    cut += MILLS[0]
    np.divide(1.0, cut, out=cut)
    a += cut  # the mean in units of tau; the variance is 1 - cut a
    cut *= a
    np.subtract(1.0, cut, out=cut)
    np.sqrt(cut, out=cut)
    D = np.empty((2 * len(a), len(tau)))
    np.add(a, cut, out=D[: len(a)])
    np.subtract(a, cut, out=D[len(a) :])
    D *= tau
    np.maximum(D, 0.0, out=D)  # not below 0 by the formula either, but the proof rests on it
    return D


def log_mixed(logs: Array) -> Array:
    """Log of the mean return (n,) of a unit that is divided between the points; overwrites theirs, `logs` (6, n)."""
    top: Array = logs.max(axis=0)
    logs -= top
    mixed: Array = top + np.log(LAW @ np.exp(logs, out=logs))
    return mixed


def _log_staked(z: Array, v: Array, m: Array, s2: Array) -> Array:
    """Log of what one unit returns on the whole laws of the three stakes; arguments (n,), z possibly (k, n)."""
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


RETURNS: Mapping[Sizes, Callable[[Array, Array, Array, Array, Array], Array]] = {
    "shrunk": log_returns,
    "plain": lambda z, v, m, s2, _: log_bet(z, v, m, s2),
    "capped": log_capped,
}
"""Log of what a unit returns, by z, v, m, s2 and the log wealth still missing, all (n,)."""
