"""Bets: what one block of pulls returns on a stake on "the leader is ahead of b", and how large to stake.

**Noise of a known scale.**

Notation: z_b (d,) candidates; l the leader, y = z_l - z_b (d,); theta (d,) and A (d, d) estimate and information of ALL
results before the block; z the block's own measurement of D = theta'y and v its variance
(`core.betting.block`); m and s2 the bet: D is believed to be about m, with variance s2.

A unit staked on the law pi of D >= 0 returns B = integral of exp(D z/v - D^2/(2v)) pi(dD). Given the past z is
sub-Gaussian with variance v around theta'y, so E[B | past] <= 1 whenever theta'y <= 0, for ANY law that the past has
fixed. Three choices, all from the past alone, so none touches the proof; wrong ones cost pulls, never validity:

    belief   theta ~ N(mean, cov): the posterior under the prior N(0, t2 I + t1 u u') whose t2, t1 make theta most
             likely (empirical Bayes on a grid relative to the estimate, so units do not matter); u is the direction of
             a common level of all arms.
    stakes   half on m = mean'y, a quarter each on 0.6 m and 0.3 m: the rivals that decide when the rule stops are those
             whose gap is smaller than it seems, and a stake that is too large loses more than one that is too small.
    goal     m is at most sqrt(2 v rest), rest the log wealth still missing. With one D the price is reached when
             z >= rest v/D + D/2, least at that D; more pays for wealth that buys nothing.

The law around each stake is a normal one with variance s2, cut to D >= 0. Two points with its mean and variance stand
for it: six exponentials in all. Other choices are `Sizes` of their own; `benchmarks.bet_variants` has two.

**Noise of an unknown scale**: the block's own spread replaces the scale, as in Student's t-test. A_k = sum x x' over
the block, q = y'A_k^+ y, so that z has standard deviation sigma sqrt(q) with sigma unknown; R the block's OWN residual
sum of squares around its least squares, nu = n - rank(A_k) its spare degrees of freedom; S^2 = (residual sum of squares
of the past)/nu0 the past's estimate of sigma^2. The bet depends on the block through the direction alone,

    g = w / sqrt(w^2 + R),   w = z/sqrt(q),   between -1 and 1,

and a unit staked on a law of D/(sigma sqrt(q)) >= 0 returns

    E = integral over s > 0 of chi(s) B(g s) ds,   B(x) the mean of exp(D x - D^2/2) over that law,

chi the density of the length of nu + 1 standard normal numbers: s^nu e^(-s^2/2) / (2^((nu-1)/2) Gamma((nu+1)/2)).

Why it is valid: let theta'y = 0. In an orthonormal basis w and the residuals are nu + 1 independent N(0, sigma^2)
numbers; the direction of such a vector, hence g, is independent of its length and does not know sigma. So with an
invented length s of law chi the product g s is N(0, 1), and the mean of E is the mean of a bet with noise 1: exactly 1.
If theta'y < 0, z is lower at the same R, so is g, and E grows with g. For ANY law of D >= 0 that the past and the
block's arms have fixed; S only says how much to stake. docs/guarantee.md has the proof (Theorem 23).

What it assumes: Gaussian noise with one level inside a block; from block to block the level may change in any way. Not
for clicks or skewed noise (`core.betting.bounded`), and not if some arms are noisier than others: for those
`log_sub_block_returns` compares repetitions of one and the same design. `log_symmetric_returns` bets on such
repetitions where the noise has any symmetric law.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, final

import numpy as np

from surepick.core.linalg import log_chi_mean
from surepick.errors import InvalidInput
from surepick.types import Array

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
    """A normal law of theta, from earlier results."""

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
    """Return the log return of one unit, staked in three parts, none beyond the goal, each on two points.

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
    five terms of a series give closely enough for a bet, these are mu + tau l and tau sqrt(1 - l (l + a)). A size
    less certain than the goal is staked on as if it were that certain: a far larger D would pay for nothing.
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


class Sizes(NamedTuple):
    """How large bets are. Sizes follow from the past, so that they cost pulls at worst, never validity."""

    name: str
    belief: Callable[[Array, Array, float, Array], Belief]
    """Maps theta, A^-1, the scale of the noise and the level u to a belief, see `shrunk_belief`."""
    log_returns: Callable[[Array, Array, Array, Array, Array], Array]
    """Maps z, v, m, s2 and the log wealth still missing, all (n,), to the log return of a unit (n,); for noise of a
    known scale."""

    def __repr__(self) -> str:
        return repr(self.name)


SHRUNK = Sizes("shrunk", shrunk_belief, log_returns)


@final
@dataclass(frozen=True, slots=True)
class Residuals:
    """The residuals of a regression, summed up."""

    R: float | Array
    """Sum of squares; formed from residuals, since a difference of sums of squares cancels."""
    nu: int
    """Degrees of freedom: results less rank."""
    least: float = 0.0
    """The part of R that rounding of the readings may have hidden: a bet that wins counts at least this."""

    @property
    def has_scale(self) -> bool:
        """Whether the residuals show a level of the noise; without one there are no bets."""
        return self.nu > 0 and bool(np.all((self.R > 0.0) & np.isfinite(self.R)))

    @property
    def variance(self) -> float | Array:
        """The estimate R/nu of the variance of one result."""
        return self.R / self.nu


# No stake lies farther out than this, in standard deviations of z; steps of the table of log H below.
MOST, STEP = 12.0, 0.05
# A bet on readings that say nothing at all (z = -inf) is lost; with a finite w its direction is a number.
LOST = 1e150


def log_t_returns(z: Array, q: Array, m: Array, s2: Array, rest: Array, block: Residuals, past: Residuals) -> Array:
    """Return the log return of one unit, staked in three parts, none beyond the goal: `log_returns` without a sigma.

    m is at most sqrt(2 S^2 q rest). That S is itself an estimate adds (m/S)^2/(2 nu0) to the variance of D/sigma. At a
    single point D a unit returns exp(-D^2/2) H(g D), H(x) the mean of exp(x s) over s ~ chi, a function of one number
    that is looked up in a table.

    Args:
        z: the block's measurement of D (n,), slack included.
        q: y'A_k^+ y (n,), positive.
        m: believed size of D (n,), at least 0.
        s2: variance of D (n,), positive, with S in the place of sigma.
        rest: log wealth still missing (n,), positive.
        block: residuals of the block.
        past: residuals of all earlier results, by one regression.
    """
    if not past.has_scale:
        raise InvalidInput("log_t_returns needs residuals of the past, with R > 0 and nu > 0; without them do not bet.")
    S2 = past.variance
    with np.errstate(over="ignore", invalid="ignore"):  # rewards beyond all measure pay NaN, not evidence
        m2 = np.minimum(m * m, 2.0 * S2 * q * rest) / S2
        tau, mu0, goal = np.sqrt((s2 / S2 + m2 / (2.0 * past.nu)) / q), np.sqrt(m2 / q), np.sqrt(2.0 * rest)
        w = np.maximum(z / np.sqrt(q), -LOST)
        # Larger than R only where the bet wins, so that it returns less in any case.
        R = np.where(w > 0.0, np.maximum(block.R, block.least), block.R) if block.least > 0.0 else block.R
        g = _direction(w, R)
        D = np.minimum(points(mu0, tau, goal), MOST)
        logs = _log_H(g * D, block.nu)
        logs -= 0.5 * D * D
        return log_mixed(logs)


def _log_H(x: Array, nu: int) -> Array:  # noqa: N802 - the letter of the notation
    """Log of the mean of exp(x s), s the length of nu + 1 standard normal numbers; |x| <= MOST."""
    table = _table(nu)
    t = (x + MOST) / STEP
    cell = np.where(np.isnan(t), 0.0, t).astype(np.intp)
    np.minimum(cell, table.shape[1] - 1, out=cell)
    t -= cell
    value: Array = table[0][cell]
    for coefficient in table[1:]:
        value *= t
        value += coefficient[cell]
    return value


@lru_cache(maxsize=1024)
def _table(nu: int) -> Array:
    """Return cubic pieces (4, n) of log H on steps of `STEP`, highest power first; their error is below 1e-8."""
    n = round(MOST / STEP)
    x = STEP * np.arange(-n - 2.0, n + 4.0)
    f = log_chi_mean(nu + 1, np.ones_like(x), x)
    slope = (8.0 * (f[3:-1] - f[1:-3]) - (f[4:] - f[:-4])) / 12.0  # per step
    f = f[2:-2]
    rise, left, right = f[1:] - f[:-1], slope[:-1], slope[1:]
    return np.stack([left + right - 2.0 * rise, 3.0 * rise - 2.0 * left - right, left, f[:-1]])


def log_sub_block_returns(
    z_parts: Array, q: Array, m: Array, s2: Array, rest: Array, past: Residuals, dust: float = 0.0, least: float = 0.0
) -> Array:
    """Return the log return of one unit on B repetitions of one design: `log_t_returns` for noise that differs by arm.

    Whatever the noise of each arm, the repetitions measure D independently with one normal law. They are B pulls of a
    single arm with feature 1 and parameter D, so nu = B - 1, and w and R are their mean times sqrt(B) and their squares
    around it. The levels of the arms that the past believes in are in q and s2 alone: they size the bet.

    Args:
        z_parts: the mean of the repetitions' measurements of D, slack included, and the deviations from it (1 + B, n).
        q: predicted variance of that mean (n,), positive, in units of S^2.
        m: believed size of D (n,), at least 0.
        s2: variance of D (n,), positive.
        rest: log wealth still missing (n,), positive.
        past: residuals of all earlier results, in units of the levels.
        dust: the largest R that floating point alone may cause.
        least: the part of R that rounding of the readings may have hidden.
    """
    mean, apart = z_parts[0], z_parts[1:]
    with np.errstate(over="ignore", invalid="ignore"):  # as in `log_t_returns`
        R = np.maximum((apart * apart).sum(axis=0) / (len(apart) * q), dust)  # in units of B q
        own = Residuals(R, len(apart) - 1, least)
    return log_t_returns(mean, q, m, s2, rest, own, past)


# No repetition is bet on as if it were farther out than this, see below. With 0.5, 1, 2 and no limit t_2 noise on the
# unit basis in five dimensions took 2600, 2770, 3130 and 3230 pulls (+- 240); normal noise did not tell them apart.
FARTHEST = 1.0


def log_symmetric_returns(z_parts: Array, q: Array, m: Array, s2: Array, rest: Array, past: Residuals) -> Array:
    """Return the log return of one unit on B repetitions z_j if the noise is only known to be symmetric.

    A share on the point D returns the product over j of 1 + tanh(x_j), where x_j is D z_j/(B v) cut to -FARTHEST ..
    FARTHEST, v the believed variance of the mean. Without the cut it is the likelihood ratio between D and an even
    chance of D and -D for normal z_j of the believed variance, and at least exp(x_j - x_j^2/2).

    Why it is valid: g(z) = tanh(x) is odd and does not decrease, for any D >= 0 and v that the past has fixed. Let z_j
    be symmetric around mu <= 0. Given |z_j - mu| = a both signs are equally likely, and g(mu + a) + g(mu - a) =
    g(mu + a) - g(a - mu) <= 0. So every factor has mean at most 1. docs/guarantee.md has the proof (Theorem 26).

    A repetition returns at most 1 + tanh(1) < 1.77 times the stake, and at least 0.23 of it: a wild result costs
    little, and repetitions that are equal to the last digit are worth as many factors and no more. That the believed
    variance does not fall to the square of rounding is up to `core.noise`.

    Arguments: as of `log_sub_block_returns`.
    """
    if not past.has_scale:
        raise InvalidInput("log_symmetric_returns needs residuals of the past, with R > 0 and nu > 0; do not bet.")
    with np.errstate(over="ignore", invalid="ignore"):  # as in `log_t_returns`
        per_sd = 1.0 / np.sqrt(past.variance * q)
        D = points(m * per_sd, np.sqrt(s2) * per_sd, np.sqrt(2.0 * rest))
        z = (z_parts[0] + z_parts[1:]) * (per_sd / (len(z_parts) - 1))
        x = np.clip(D[:, None] * z, -FARTHEST, FARTHEST)
        return log_mixed(np.log1p(np.tanh(x)).sum(axis=1))


def _direction(w: Array, R: float | Array) -> Array:
    """Return w / sqrt(w^2 + R), 0 where both are 0."""
    length = np.hypot(w, np.sqrt(R))
    return np.divide(w, length, out=np.zeros_like(length), where=length != 0.0)
