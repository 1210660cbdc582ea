"""Causes of a misfit: a constant that was left out, or arms that do not fit.

Notation: n_a, mean_a of arm a over all blocks; fit_a = x_a'theta, theta weighted least squares over the arms;
lack = sum n_a (mean_a - fit_a)^2, about f sigma^2 under the model, f = arms - rank. The excess over that is to be
explained: how much of the excess disappears with a column of ones more, or with a few arms less?
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, final

import numpy as np

from surepick.core.linalg import one_blas_thread
from surepick.core.misfit import off_range, range_basis
from surepick.types import Array

# A constant is named if it explains more than this share, and more than the worst arm.
MOST = 0.5
# Arms that are named, at most; those after the first only if they are this many standard errors off.
MOST_ARMS, OFF = 3, 2.0
# Shares below this are rounding.
TINY = 1e-10

Kind = Literal["constant", "arms"]


class ArmMisfit(NamedTuple):
    """An arm that does not fit."""

    arm: int
    """Its position among the arms of the table."""
    mean: float
    fit: float
    """The fit of the other arms, without those named before it."""
    z: float
    """Mean minus fit over the standard error of that."""


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


@one_blas_thread
def explain_misfit(X: Array, counts: Array, means: Array, noise_std: float, *, has_constant: bool) -> Misfit:
    """Return the best explanation of the lack of fit of these arms.

    Args:
        X: rows (s, d) of the arms pulled.
        counts: pulls of each (s,).
        means: of their rewards (s,).
        noise_std: scale of the noise, known or estimated.
        has_constant: whether some combination of the features is constant.
    """
    W = np.sqrt(counts)
    Q = range_basis(W[:, None] * X)
    residuals, n_spare = off_range(Q, W * means), len(X) - Q.shape[1]
    lack = float(residuals @ residuals)
    excess = lack - n_spare * noise_std**2
    arms = _worst(X, counts, means, noise_std)

    def share(*changed: Array) -> float:
        return float(np.clip((lack - _lack(*changed)) / excess, 0.0, 1.0)) if n_spare and excess > 0 else 0.0

    def without(left_out: tuple[ArmMisfit, ...]) -> float:
        return share(*(np.delete(part, [each.arm for each in left_out], axis=0) for part in (X, counts, means)))

    ones = off_range(Q, W)
    kind: Kind = "arms"
    gone, constant = without(arms), None
    if not has_constant and ones @ ones > TINY * counts.sum():
        with_ones = share(np.c_[X, np.ones(len(X))], counts, means)
        if with_ones > max(MOST, without(arms[:1])):
            kind, gone, constant = "constant", with_ones, float(ones @ residuals / (ones @ ones))
    return Misfit(kind, gone, lack / noise_std**2, n_spare, arms, constant)


def _worst(X: Array, counts: Array, means: Array, noise_std: float) -> tuple[ArmMisfit, ...]:
    """Return the arm that is farthest off the fit, then the one farthest off the fit of the others, and so on."""
    rest, worst = np.arange(len(X)), list[ArmMisfit]()
    while len(worst) < min(MOST_ARMS, len(X)):
        W = np.sqrt(counts[rest])
        Q = range_basis(W[:, None] * X[rest])
        freedom = np.maximum(1.0 - (Q * Q).sum(axis=1), TINY)  # n_a/sigma^2 times the variance of mean_a - fit_a
        off = np.where(freedom > TINY, off_range(Q, W * means[rest]) / freedom, 0.0)
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
    residuals = off_range(range_basis(W[:, None] * X), W * means) if len(X) else W
    return float(residuals @ residuals)
