"""What a misfit looks like: a constant that was left out, one measurement that stands apart, or arms that do not fit.

Notation: n_a, mean_a of arm a with row x_a (d,); fit_a = x_a'theta, theta weighted least squares over the arms;
lack = sum n_a (mean_a - fit_a)^2, about f sigma^2 under the model, f = arms - rank. What is above that is to be
explained: with a column of ones more, with a measurement less, or with a few arms less, how much of it is gone?
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, final

import numpy as np

from surepick.core.linalg import Array, one_blas_thread
from surepick.core.misfit.watch import range_basis

Kind = Literal["constant", "outlier", "arms"]

# A constant or a measurement is named if it explains more than this share, a constant only if more than the worst arm.
MOST = 0.5
# A measurement stands apart from this many standard deviations on.
APART = 4.0
# Arms that are named, at most; those after the first only if they are this many standard errors off.
MOST_ARMS, OFF = 3, 2.0
# Shares below this are rounding.
TINY = 1e-10


class Measurement(NamedTuple):
    """A single result."""

    number: int
    """Its place in the log."""
    arm: int
    """Its position among the arms of the table."""
    value: float


class ArmMisfit(NamedTuple):
    """An arm that does not fit."""

    arm: int
    """Its position among the arms of the table."""
    mean: float
    fit: float
    """What the other arms say, without those named before it."""
    z: float
    """Mean minus fit over the standard error of that."""


class Outlier(NamedTuple):
    """A measurement that stands apart."""

    number: int
    value: float
    fit: float
    z: float
    """Value minus fit over the standard deviation of that."""


@final
@dataclass(frozen=True, slots=True)
class Misfit:
    """The best explanation of a misfit, and the numbers for a sentence on it."""

    kind: Kind
    share: float
    """The part of the lack above `n_spare` that it takes away, between 0 and 1."""
    lack: float
    """In units of sigma^2; about `n_spare` if the model held."""
    n_spare: int
    arms: tuple[ArmMisfit, ...]
    """Those that fit worst, the worst first."""
    constant: float | None = None
    """What every mean has more than the best fit beside it; None unless that is the explanation."""
    outlier: Outlier | None = None
    """None unless that is the explanation."""


@one_blas_thread
def explain_misfit(
    X: Array, counts: Array, means: Array, noise_std: float, *, has_constant: bool, farthest: Measurement | None = None
) -> Misfit:
    """Return what explains the lack of fit of these arms best.

    Args:
        X: rows (s, d) of the arms pulled.
        counts: pulls of each (s,).
        means: of their rewards (s,).
        noise_std: scale of the noise, known or estimated.
        has_constant: whether some combination of the features is constant.
        farthest: the measurement that is farthest from its fit.
    """
    W = np.sqrt(counts)
    Q = range_basis(W[:, None] * X)
    residuals, n_spare = _off(Q, W * means), len(X) - Q.shape[1]
    fits, lack = means - residuals / W, float(residuals @ residuals)
    excess = lack - n_spare * noise_std**2
    arms = _worst(X, counts, means, noise_std)

    def share(*changed: Array) -> float:
        return float(np.clip((lack - _lack(*changed)) / excess, 0.0, 1.0)) if n_spare and excess > 0 else 0.0

    def misfit(kind: Kind, gone: float, constant: float | None = None, outlier: Outlier | None = None) -> Misfit:
        return Misfit(kind, gone, lack / noise_std**2, n_spare, arms, constant, outlier)

    def without(left_out: tuple[ArmMisfit, ...]) -> float:
        return share(*(np.delete(part, [each.arm for each in left_out], axis=0) for part in (X, counts, means)))

    found = []
    ones = _off(Q, W)
    if not has_constant and ones @ ones > TINY * counts.sum():
        gone = share(np.c_[X, np.ones(len(X))], counts, means)
        if gone > max(MOST, without(arms[:1])):
            found.append(misfit("constant", gone, constant=float(ones @ residuals / (ones @ ones))))
    if farthest is not None:
        number, a, value = farthest
        spread = noise_std * math.sqrt(max(1.0 - float(Q[a] @ Q[a]) / counts[a], TINY))
        outlier = Outlier(number, value, float(fits[a]), float(value - fits[a]) / spread)
        gone = share(X, *_without(counts, means, a, value))
        if abs(outlier.z) >= APART and gone > MOST:
            found.append(misfit("outlier", gone, outlier=outlier))
    return max(found, key=lambda each: each.share) if found else misfit("arms", without(arms))


def _off(Q: Array, v: Array) -> Array:
    """Return what the columns of Q, orthonormal, leave of v."""
    left: Array = v - Q @ (Q.T @ v)
    return left


def _worst(X: Array, counts: Array, means: Array, noise_std: float) -> tuple[ArmMisfit, ...]:
    """Return the arm that is farthest off, the one farthest off what the others say, and so on."""
    rest, worst = np.arange(len(X)), list[ArmMisfit]()
    while len(worst) < min(MOST_ARMS, len(X)):
        W = np.sqrt(counts[rest])
        Q = range_basis(W[:, None] * X[rest])
        freedom = np.maximum(1.0 - (Q * Q).sum(axis=1), TINY)  # n_a/sigma^2 times the variance of mean_a - fit_a
        off = np.where(freedom > TINY, _off(Q, W * means[rest]) / freedom, 0.0)
        z = off * np.sqrt(freedom) / noise_std
        i = int(np.argmax(np.abs(z)))
        if worst and abs(z[i]) < OFF:
            break
        a = int(rest[i])
        worst.append(ArmMisfit(a, float(means[a]), float(means[a] - off[i] / W[i]), float(z[i])))
        rest = np.delete(rest, i)
    return tuple(worst)


def _lack(X: Array, counts: Array, means: Array) -> float:
    is_pulled = counts > 0
    X, W, means = X[is_pulled], np.sqrt(counts[is_pulled]), means[is_pulled]
    residuals = _off(range_basis(W[:, None] * X), W * means) if len(X) else W
    return float(residuals @ residuals)


def _without(counts: Array, means: Array, arm: int, value: float) -> tuple[Array, Array]:
    """Return counts and means with one measurement of an arm less."""
    counts, means = counts.copy(), means.copy()
    counts[arm] -= 1.0
    means[arm] -= (value - means[arm]) / max(counts[arm], 1.0)
    return counts, means
