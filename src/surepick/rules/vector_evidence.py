"""Evidence on sets of vectors: the log e-value that the leader is within epsilon of the best, and what it can lose.

Notation: whitened coordinates, in which V = I; A (d, d) with eigenvalues l_i and eigenvectors Q; kappa_j, p_j the
default mixture of `core.evidence`; Z'(F) the statistic of `arms.vectors`.

    log E = logsumexp_j [ log p_j - sum_i log(1 + l_i/kappa_j)/2 + Z'(F_j) / noise_std^2 ],
    F_j = Q diag(sqrt(1/l_i + kappa_j/l_i^2)), so that F_j F_j' = A^-1 (A + kappa_j) A^-1

Why it holds: `core.evidence` shows it for one rival. If the leader loses more than epsilon, it does so to some arm b,
whose exponent j is at least Z'(F_j)/noise_std^2, so the supermartingale is at least E. Since every Z'(F_j) may have a b
of its own, E can be below the least evidence against one arm: sound, later at worst.
"""

import math

import numpy as np

from surepick.arms.numbered import NumberedVectors
from surepick.core.estimate import LeastSquares
from surepick.core.evidence import Mixture, log_sum_exp
from surepick.core.linalg import Array

MIXTURE = Mixture.default()


def vector_evidence(
    arms: NumberedVectors, estimate: LeastSquares, epsilon: float, *, noise_std: float
) -> tuple[float, bool, Array]:
    """Return the log e-value that the leader loses at most epsilon, whether some term is only bounded, and a rival."""
    eigenvalues, axes = np.linalg.eigh(estimate.A)
    spread: Array = np.maximum(eigenvalues.astype(np.float64, copy=False), np.finfo(float).tiny)
    found = [
        arms.confusion(estimate.theta, axes * np.sqrt((1.0 + kappa / spread) / spread), epsilon)
        for kappa in MIXTURE.kappas
    ]
    values = np.array([confusion.value for confusion in found])
    terms = _log_priors(spread) + values / noise_std**2
    is_bound = not all(confusion.is_exact for confusion in found)
    return float(log_sum_exp(terms)), is_bound, found[int(np.argmax(terms))].rival


def pair_evidence(
    arms: NumberedVectors, estimate: LeastSquares, rival: Array, epsilon: float, noise_std: float
) -> float:
    """Return the log e-value that the leader loses at most epsilon to this arm (d,); O(d^3), no search."""
    y = (arms.vectors.best(arms.theta_to_user(estimate.theta)) - rival) @ arms.map
    u = estimate.A_inv @ y
    q1 = float(y @ u)
    if not q1 > 0.0:
        return math.inf
    reach = max(float(y @ estimate.theta) + epsilon, 0.0)
    exponents = 0.5 * (reach / noise_std) ** 2 / (q1 + MIXTURE.scales * float(u @ u))
    return float(log_sum_exp(_log_priors(np.linalg.eigvalsh(estimate.A).astype(np.float64, copy=False)) + exponents))


def _log_priors(spread: Array) -> Array:
    """Return log p_j - log det(I + A/kappa_j) / 2 from the eigenvalues of A."""
    logdets = np.log1p(np.maximum(spread, 0.0) / MIXTURE.scales[:, None]).sum(axis=1)
    priors: Array = MIXTURE.log_weights - 0.5 * logdets
    return priors


def largest_loss(arms: NumberedVectors, estimate: LeastSquares, *, delta: float, noise_std: float) -> float:
    """Return what the leader loses at most, with probability 1 - delta for all times together.

    The smallest epsilon whose evidence reaches log(1/delta), from above to one part in a thousand.
    """
    target = math.log(1.0 / delta)

    def is_enough(epsilon: float) -> bool:
        return vector_evidence(arms, estimate, epsilon, noise_std=noise_std)[0] >= target

    if not arms.vectors.needs_slack and is_enough(0.0):
        return 0.0
    high = noise_std
    while not is_enough(high):
        high *= 4.0
        if not math.isfinite(high):
            return math.inf
    low = high / 4.0
    while low > 1e-12 * noise_std and is_enough(low):
        low, high = low / 4.0, low
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
