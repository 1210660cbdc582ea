"""Bets when the scale of the noise is not known: the block's own spread takes its place, as in Student's t-test.

Notation: that of `core.betting`; A_k = sum x x' over the block, q = y'A_k^+ y, so that z has standard deviation
sigma sqrt(q) with sigma unknown; R the block's OWN residual sum of squares around its least squares, nu = n - rank(A_k)
its spare degrees of freedom; S^2 = (residual sum of squares of the past)/nu0 the past's estimate of sigma^2. All the
bet sees of the block is the direction

    g = w / sqrt(w^2 + R),   w = z/sqrt(q),   between -1 and 1,

and a unit staked on a law of D/(sigma sqrt(q)) >= 0 returns

    E = integral over s > 0 of chi(s) B(g s) ds,   B(x) the mean of exp(D x - D^2/2) over that law,

chi the density of the length of nu + 1 standard normal numbers: s^nu e^(-s^2/2) / (2^((nu-1)/2) Gamma((nu+1)/2)).

Why it is valid: let theta'y = 0. In an orthonormal basis w and the residuals are nu + 1 independent N(0, sigma^2)
numbers; the direction of such a vector, hence g, is independent of its length and does not know sigma. So with an
invented length s of law chi the product g s is N(0, 1), and the mean of E is the mean of a bet with noise 1: exactly 1.
If theta'y < 0, z is lower at the same R, so is g, and E grows with g. For ANY law of D >= 0 that the past and the
block's arms have fixed; S only says how much to stake. docs/guarantee.md has the proof (Theorem 19).

What it assumes: Gaussian noise with one level inside a block; from block to block the level may change in any way. Not
for clicks or skewed noise (`core.capital`), and not if some arms are noisier than others: for those
`log_sub_block_returns` compares repetitions of one and the same design. `log_symmetric_returns` bets on such
repetitions where the noise has any symmetric law.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np

from surepick.core.betting import log_mixed, points
from surepick.core.lengths import log_chi_mean
from surepick.core.linalg import Array
from surepick.errors import InvalidInput


@final
@dataclass(frozen=True, slots=True)
class Residuals:
    """What is left of results when a regression has explained what it can."""

    R: float | Array
    """Sum of squares; formed from residuals, since a difference of sums of squares cancels."""
    nu: int
    """Degrees of freedom: results less rank."""
    least: float = 0.0
    """What rounding of the readings may have hidden of R: a bet that wins counts at least this."""

    @property
    def has_scale(self) -> bool:
        """Whether the level of the noise can be told: without it there is nothing to bet by."""
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
    """Log of what one unit returns that is staked in three parts, none beyond the goal: `log_returns` without a sigma.

    m is at most sqrt(2 S^2 q rest). That S is itself an estimate adds (m/S)^2/(2 nu0) to the variance of D/sigma. At a
    single point D a unit returns exp(-D^2/2) H(g D), H(x) the mean of exp(x s) over s ~ chi, a function of one number
    that is looked up in a table.

    Args:
        z: what the block says about D (n,), slack included.
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
    """Log of what one unit returns on B repetitions of one design: `log_t_returns` for noise that differs between arms.

    Whatever the noise of each arm, what the repetitions say is independent with one normal law. They are B pulls of a
    single arm with feature 1 and parameter D, so nu = B - 1, and w and R are their mean times sqrt(B) and their squares
    around it. The levels of the arms that the past believes in are in q and s2 alone: they size the bet.

    Args:
        z_parts: the mean of what the repetitions say about D, slack included, and how far each is from it (1 + B, n).
        q: predicted variance of that mean (n,), positive, in units of S^2.
        m: believed size of D (n,), at least 0.
        s2: variance of D (n,), positive.
        rest: log wealth still missing (n,), positive.
        past: residuals of all earlier results, in units of the levels.
        dust: what floating point alone may make of R.
        least: what rounding of the readings may have hidden of R.
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
    """Log of what one unit returns on B repetitions z_j if all that is known of the noise is that it is symmetric.

    A share on the point D returns the product over j of 1 + tanh(x_j), where x_j is D z_j/(B v) cut to -FARTHEST ..
    FARTHEST, v the believed variance of the mean. Without the cut it is the likelihood ratio between D and an even
    chance of D and -D for normal z_j of the believed variance, and at least exp(x_j - x_j^2/2).

    Why it is valid: g(z) = tanh(x) is odd and does not decrease, for any D >= 0 and v that the past has fixed. Let z_j
    be symmetric around mu <= 0. Given |z_j - mu| = a both signs are equally likely, and g(mu + a) + g(mu - a) =
    g(mu + a) - g(a - mu) <= 0. So every factor has mean at most 1. docs/guarantee.md has the proof (Theorem 32).

    A repetition returns at most 1 + tanh(1) < 1.77 times the stake, and at least 0.23 of it: a wild result costs
    little, and repetitions that are equal to the last digit are worth as many factors and no more. That the believed
    variance does not fall to the square of rounding is up to `core.levels`.

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
