"""Evidence over whole sets: what the leader can be losing at most, on rows and on sets of vectors.

Notation: whitened coordinates, in which V = I; A (d, d) with eigenvalues l_i and eigenvectors Q; kappa_j, p_j the
default mixture of `core.evidence`; Z'(F) the statistic of `arms.vectors`.

    log E = logsumexp_j [ log p_j - sum_i log(1 + l_i/kappa_j)/2 + Z'(F_j) / noise_std^2 ],
    F_j = Q diag(sqrt(1/l_i + kappa_j/l_i^2)), so that F_j F_j' = A^-1 (A + kappa_j) A^-1

Why it holds: `core.evidence` shows it for one rival. If the leader loses more than epsilon, it does so to some arm b,
whose exponent j is at least Z'(F_j)/noise_std^2, so the supermartingale is at least E. Since every Z'(F_j) may have a b
of its own, E can be below the least evidence against one arm: sound, later at worst.
"""

import math
from typing import Protocol

import numpy as np

from surepick.arms.protocol import ArmSet, Rivals
from surepick.arms.vectors import Confusion, VectorSet
from surepick.core.estimate import LeastSquares
from surepick.core.evidence import SMALLEST_SQUARE, Mixture, log_sum_exp, loss_bound
from surepick.core.linalg import Array, BoolArray, cholesky, solve_lower

MIXTURE = Mixture.default()


class Confusing(Protocol):
    """A view of a set of vectors, in whitened coordinates."""

    vectors: VectorSet
    map: Array

    def theta_to_user(self, theta: Array) -> Array:
        """Return a whitened parameter in the user's coordinates."""
        ...

    def confusion(self, theta: Array, F: Array, epsilon: float) -> Confusion:
        """Return the statistic Z' of `arms.vectors`, or a lower bound on it."""
        ...


# After so many bounds one by one, the rest is computed at once.
ONE_BY_ONE = 12


def largest_loss_bound(
    candidates: ArmSet,
    leader: int,
    theta: Array,
    A: Array,
    *,
    delta: float,
    noise_std: float,
    among: BoolArray | None = None,
) -> tuple[int, float]:
    """Return the rival with the largest upper confidence bound on what the leader loses to it, and the bound.

    All bounds hold together, at all times, with probability 1 - delta, if theta and A are those of the results so far;
    they are below 0 for every rival exactly when the evidence rule stops. One pass over the candidates. The rival is
    -1 and the bound -inf if the leader has no rivals left.
    """
    logdets = MIXTURE.logdets(A)

    def least_certain(gap: Array, q1: Array, q2: Array) -> Array:
        return negative_bounds(gap, q1, q2, logdets, delta=delta, noise_std=noise_std)

    factor = solve_lower(cholesky(A), np.eye(len(A))).T
    found: Rivals = candidates.rivals(leader, theta, [factor, factor @ factor.T], least_certain, 1, among)
    return (int(found.index[0]), -float(found.score[0])) if len(found.index) else (-1, -np.inf)


def negative_bounds(gap: Array, q1: Array, q2: Array, logdets: Array, *, delta: float, noise_std: float) -> Array:
    """Return minus the loss bounds (n,): exact at the smallest, elsewhere a lower bound that is not below it.

    A single term of the mixture gives a cheap upper bound on the loss bound. Only rivals whose cheap bound beats the
    best exact one need theirs, usually one or two; on so few, plain numbers are faster than arrays.
    """
    target = math.log(1.0 / delta)
    priors = MIXTURE.log_weights - 0.5 * logdets
    slopes = 0.5 / noise_std**2 / np.maximum(q1 + MIXTURE.scales[:, None] * q2, SMALLEST_SQUARE)
    z = ((target - priors)[:, None] / slopes).min(axis=0)
    score: Array = gap - np.sqrt(z)
    exact: set[int] = set()
    terms = priors.tolist()
    while (first := int(np.argmin(score))) not in exact and len(exact) < ONE_BY_ONE:
        root = _root(terms, slopes[:, first].tolist(), target, float(z[first]))
        score[first] = gap[first] - math.sqrt(root)
        exact.add(first)
    if first not in exact:
        rest = np.flatnonzero(score < score[list(exact)].min())
        score[rest] = -loss_bound(
            gap[rest], q1[rest], q2[rest], logdets, mixture=MIXTURE, noise_std=noise_std, delta=delta
        )
    return score


def _root(priors: list[float], slopes: list[float], target: float, z: float) -> float:
    """Return where logsumexp_j (priors_j + slopes_j z) = target, by Newton's steps from the right (`loss_bound`)."""
    for _ in range(100):
        terms = [prior + slope * z for prior, slope in zip(priors, slopes, strict=True)]
        top = max(terms)
        shares = [math.exp(term - top) for term in terms]
        total = sum(shares)
        rise = sum([share * slope for share, slope in zip(shares, slopes, strict=True)])
        step = (top + math.log(total) - target) * total / rise
        z -= max(step, 0.0)
        if step <= 1e-14 * z:
            break
    return z


def vector_evidence(
    arms: Confusing, estimate: LeastSquares, epsilon: float, *, noise_std: float
) -> tuple[float, bool, Array]:
    """Return the log e-value that the leader loses at most epsilon, whether some term is only bounded, and a rival."""
    eigenvalues, axes = np.linalg.eigh(estimate.A)
    spread: Array = np.maximum(eigenvalues.astype(np.float64, copy=False), np.finfo(float).tiny)
    found = [
        arms.confusion(estimate.theta, axes * np.sqrt((1.0 + kappa / spread) / spread), epsilon)
        for kappa in MIXTURE.kappas
    ]
    values = np.array([confusion.value for confusion in found])
    terms = _log_priors(estimate.A) + values / noise_std**2
    is_bound = not all(confusion.is_exact for confusion in found)
    return float(log_sum_exp(terms)), is_bound, found[int(np.argmax(terms))].rival


def pair_evidence(arms: Confusing, estimate: LeastSquares, rival: Array, epsilon: float, noise_std: float) -> float:
    """Return the log e-value that the leader loses at most epsilon to this arm (d,); O(d^3), no search."""
    y = (arms.vectors.best(arms.theta_to_user(estimate.theta)) - rival) @ arms.map
    u = estimate.A_inv @ y
    q1 = float(y @ u)
    if not q1 > 0.0:
        return math.inf
    reach = max(float(y @ estimate.theta) + epsilon, 0.0)
    exponents = 0.5 * (reach / noise_std) ** 2 / (q1 + MIXTURE.scales * float(u @ u))
    return float(log_sum_exp(_log_priors(estimate.A) + exponents))


def _log_priors(A: Array) -> Array:
    """Return log p_j - log det(I + A/kappa_j) / 2."""
    priors: Array = MIXTURE.log_weights - 0.5 * MIXTURE.logdets(A)
    return priors


def largest_loss_on_vectors(arms: Confusing, estimate: LeastSquares, *, delta: float, noise_std: float) -> float:
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
