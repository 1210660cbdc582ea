"""Evidence: the GLR statistic, the mixture e-value with its loss bound, and the e-value for K = d arms.

Notation: theta (d,) least squares, A (d, d) information, leader and rival two arms, y = leader - rival (d,),
gap = theta'y; V (d, d) a regulariser fixed before the first reward, V_j = kappa_j V with weight p_j;
q1 = y'A^-1 y; q2 = y'A^-1 V A^-1 y; logdets (J,) = log det(I + V_j^-1 A). "Evidence" is always a log e-value.

    log E = logsumexp_j [ log p_j - logdets_j / 2 + (gap + epsilon)^2 / (2 noise_std^2 (q1 + kappa_j q2)) ]

Why it is valid: with S = A(theta - true theta), the sum over j of
p_j det(I + V_j^-1 A)^(-1/2) exp(S'(A + V_j)^-1 S / (2 noise_std^2)) is a non-negative supermartingale
started at 1, for every rule that picks arms from the past and every noise_std-sub-Gaussian noise. If the
leader loses more than epsilon to the rival, the true theta is in the half-space {lambda'y <= -epsilon}. There
each exponent is at least (gap + epsilon)^2 / (2 noise_std^2 y'W_j y), W_j = A^-1 (A + V_j) A^-1, so the
supermartingale is at least E. By Ville's inequality E ever reaches 1/delta with probability at most delta.

Every formula broadcasts over leading axes.

Reference: Abbasi-Yadkori, Pal and Szepesvari (2011), Theorem 1, for the supermartingale.
"""

import math
from dataclasses import dataclass, field
from typing import Self, final

import numpy as np
from numpy.typing import ArrayLike

from surepick.errors import InvalidInput
from surepick.types import Array

SMALLEST_SQUARE = 1e-200
"""Smaller y'A^-1 y, 0 included, have lost digits or vanished; taken for this much, they never pass for evidence."""


@final
@dataclass(frozen=True, slots=True)
class Mixture:
    """Weights p_j on regularisers kappa_j V: how much information the evidence expects to need.

    kappa_j reads "as much information as V, kappa_j times": evidence is sharpest when the pulls come to about
    ten times that. Must be fixed before the first reward.
    """

    kappas: tuple[float, ...]
    weights: tuple[float, ...]
    log_weights: Array = field(init=False, repr=False, compare=False)
    scales: Array = field(init=False, repr=False, compare=False)
    """The kappas as an array (J,)."""

    def __post_init__(self) -> None:
        kappas, weights = (tuple(map(float, values)) for values in (self.kappas, self.weights))
        if not kappas or len(kappas) != len(weights):
            raise InvalidInput(
                f"a mixture needs as many weights as kappas and at least one, got {len(kappas)} kappas and "
                f"{len(weights)} weights."
            )
        if not all(0.0 < value < math.inf for value in kappas + weights):
            raise InvalidInput(f"kappas and weights must be finite and above 0, got {kappas} and {weights}.")
        if not math.isclose(math.fsum(weights), 1.0, rel_tol=1e-9):
            raise InvalidInput(f"weights must sum to 1, got {math.fsum(weights)}; divide them by their sum.")
        kept = {"kappas": kappas, "weights": weights, "log_weights": np.log(weights), "scales": np.array(kappas)}
        for name, value in kept.items():
            object.__setattr__(self, name, value)

    @classmethod
    def default(cls) -> Self:
        """Return kappa = 4, 16, ..., 4^6 with weights proportional to 1/2, 1/4, ..., 1/64."""
        return cls(tuple(4.0**j for j in range(1, 7)), tuple(2.0**-j / (1.0 - 2.0**-6) for j in range(1, 7)))

    @classmethod
    def uniform(cls, kappas: ArrayLike) -> Self:
        """Return equal weights on these regularisers, or all weight on one."""
        values = tuple(float(kappa) for kappa in np.atleast_1d(np.asarray(kappas, dtype=np.float64)))
        return cls(values, (1.0 / max(len(values), 1),) * len(values))

    def logdets(self, A: Array) -> Array:
        """Return log det(I + A/kappa_j) (J,) for V = I, as in whitened coordinates."""
        spread = np.maximum(np.linalg.eigvalsh(A), 0.0)
        values: Array = np.log1p(spread / self.scales[:, None]).sum(axis=1)
        return values


def glr(gap: ArrayLike, q: ArrayLike, epsilon: float = 0.0) -> Array:
    """Return the generalised likelihood ratio (gap + epsilon)_+^2 / (2 q), without noise_std.

    Half the squared distance, in the norm of A, from theta to the parameters under which the leader loses
    epsilon to the rival; q = y'A^-1 y. The noise variance belongs into the threshold it is compared with.
    """
    reach = np.maximum(np.asarray(gap, dtype=np.float64) + epsilon, 0.0)
    return reach * reach / (2.0 * np.maximum(q, SMALLEST_SQUARE))


def log_evidence(
    gap: ArrayLike,
    q1: ArrayLike,
    q2: ArrayLike,
    logdets: ArrayLike,
    *,
    mixture: Mixture,
    noise_std: float,
    epsilon: float = 0.0,
) -> Array:
    """Return the log e-value against "the leader loses more than epsilon to the rival".

    Args:
        gap: theta'y, shape (...).
        q1: y'A^-1 y > 0, shape (...).
        q2: y'A^-1 V A^-1 y, shape (...).
        logdets: log det(I + V_j^-1 A), shape (..., J).
        mixture: J kappas and weights.
        noise_std: sub-Gaussian scale of one reward's noise.
        epsilon: slack.
    """
    reach = np.maximum(np.asarray(gap, dtype=np.float64) + epsilon, 0.0)
    priors, slopes = _terms(reach, q1, q2, logdets, mixture, noise_std)
    return log_sum_exp(priors + slopes * (reach * reach))


def loss_bound(
    gap: ArrayLike,
    q1: ArrayLike,
    q2: ArrayLike,
    logdets: ArrayLike,
    *,
    mixture: Mixture,
    noise_std: float,
    delta: float,
) -> Array:
    """Return an upper confidence bound on what the leader loses to the rival, shape (...); negative if it wins.

    The smallest epsilon, of either sign, whose log evidence reaches log(1/delta): below 0 exactly when epsilon = 0 is
    more than enough. With probability 1 - delta the leader never loses more than this to the rival, at any time;
    epsilon may be read off after looking at the data, delta may not. Arguments as in `log_evidence`.
    """
    gap = np.asarray(gap, dtype=np.float64)
    priors, slopes = _terms(gap, q1, q2, logdets, mixture, noise_std)
    target = math.log(1.0 / delta)
    # In z = (gap + epsilon)^2 the evidence is convex and increasing. The first z where one term alone
    # reaches the target is right of the root, and from there Newton's steps decrease towards it and never
    # pass it, so a loop cut short would still return a valid bound.
    z = ((target - priors) / slopes).min(axis=0)
    for _ in range(100):
        terms = priors + slopes * z
        top = terms.max(axis=0)
        shares = np.exp(terms - top)
        total = shares.sum(axis=0)
        step = (top + np.log(total) - target) * total / (shares * slopes).sum(axis=0)
        z = z - np.maximum(step, 0.0)
        if (step <= 1e-14 * z).all():
            break
    bound: Array = np.sqrt(z) - gap
    return bound


def log_pairwise_evidence(
    gap: ArrayLike, n_leader: ArrayLike, n_rival: ArrayLike, *, kappa: float, noise_std: float, epsilon: float = 0.0
) -> Array:
    """Return the log e-value of a pair of linearly independent arms from their own pulls, shape (...).

    For K = d arms theta'arm is the mean reward of that arm. With G = N^2 / (N + kappa) for either arm,

        log E = (gap + epsilon)_+^2 / (2 noise_std^2 (1/G_leader + 1/G_rival)) - sum log(1 + N/kappa) / 2.

    Each arm's own mixture is a supermartingale and so is their product, whatever rule picks the arms. A wrong
    answer needs one of K - 1 pairs (answer, best arm) to fail: compare with log((K - 1)/delta). An arm never
    pulled gives no evidence.
    """
    N = [np.asarray(n, dtype=np.float64) for n in (n_leader, n_rival)]
    G_leader, G_rival = (n**2 / (n + kappa) for n in N)
    reach = np.maximum(np.asarray(gap, dtype=np.float64) + epsilon, 0.0)
    # The harmonic form G G'/(G + G') has no division by zero unless neither arm was pulled.
    together = G_leader * G_rival / np.maximum(G_leader + G_rival, np.finfo(float).tiny)
    price = 0.5 * sum(np.log1p(n / kappa) for n in N)
    return reach * reach * together / (2.0 * noise_std**2) - price


def log_sum_exp(terms: Array) -> Array:
    """Return the log of the sum of exponentials over the first axis."""
    top = terms.max(axis=0)
    total: Array = top + np.log(np.exp(terms - top).sum(axis=0))
    return total


def _terms(
    shape_of: Array, q1: ArrayLike, q2: ArrayLike, logdets: ArrayLike, mixture: Mixture, noise_std: float
) -> tuple[Array, Array]:
    """Return log p_j - logdets_j / 2 and 1 / (2 noise_std^2 (q1 + kappa_j q2)), each (J, ...).

    The mixture runs over the first axis: sums of few long rows are much faster than of many short ones.
    """
    q1, q2 = np.asarray(q1, dtype=np.float64), np.asarray(q2, dtype=np.float64)
    logdets = np.asarray(logdets, dtype=np.float64)
    if logdets.ndim == 0 or logdets.shape[-1] != len(mixture.kappas):
        raise InvalidInput(
            f"`logdets` must have one entry per kappa on its last axis, {len(mixture.kappas)}, got shape "
            f"{logdets.shape}."
        )
    n_axes = max(shape_of.ndim, q1.ndim, q2.ndim, logdets.ndim - 1)
    kappas = mixture.scales.reshape(-1, *(1,) * n_axes)
    priors = np.moveaxis(np.array(mixture.log_weights - 0.5 * logdets, ndmin=n_axes + 1), -1, 0)
    return priors, 0.5 / noise_std**2 / np.maximum(q1 + kappas * q2, SMALLEST_SQUARE)
