"""A set of vectors as a learner sees it: whitened coordinates, and a number for every vector once it is named.

Notation: T (d, d) the map, white rows = rows @ T, white theta = T^-1 theta. In these coordinates the rounds of the
set's fixed design have identity information per pull, so nothing depends on how the features were scaled or mixed.
A (d, d) with eigenvalues l_i and eigenvectors Q; kappa_j, p_j the default mixture of `core.evidence`; Z'(F) the
statistic of `arms.base`. The evidence over a whole set, with V = I, is

    log E = logsumexp_j [ log p_j - sum_i log(1 + l_i/kappa_j)/2 + Z'(F_j) / noise_std^2 ],
    F_j = Q diag(sqrt(1/l_i + kappa_j/l_i^2)), so that F_j F_j' = A^-1 (A + kappa_j) A^-1

Why it holds: `core.evidence` shows it for one rival. If the leader loses more than epsilon, it does so to some arm b,
whose exponent j is at least Z'(F_j)/noise_std^2, so the supermartingale is at least E. Since every Z'(F_j) may have a b
of its own, E can be below the least evidence against one arm: sound, later at worst.
"""

import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from surepick.arms.base import HardestRival, VectorSet
from surepick.core.checks import check_features, written
from surepick.core.estimate import LeastSquares
from surepick.core.evidence import Mixture, log_sum_exp, loss_bound
from surepick.core.linalg import square_norms, triangular, upper_inverse
from surepick.types import Array, IntArray

MIXTURE = Mixture.default()


@final
class NumberedVectors:
    """Vectors of a set under the numbers 0, 1, ..., in the order in which they were first named; none is forgotten.

    Args:
        vectors: the set.
        seed: of the rounds of its design.
        back: R (d, d) of other coordinates to work in, those of arms that are measured in place of these.

    Raises:
        InvalidInput: features are too large or too small, see `core.checks`.
    """

    def __init__(self, vectors: VectorSet, seed: int, back: Array | None = None) -> None:
        self.vectors, self.seed, self.dim = vectors, seed, vectors.dim
        self.is_enumerable = self.is_local = False
        self.stds = None
        self.description, self.names = vectors.description, None
        first = vectors.cycle(0, seed)
        self.round_length = len(first)
        # R'R = information per pull of the first round, by QR, which does not square the condition number.
        self.back = triangular(first / math.sqrt(len(first))) if back is None else back
        check_features(self.back)
        self.map = upper_inverse(self.back)
        self._rows: list[Array] = []
        self._numbers: dict[bytes, int] = {}

    @property
    def n_arms(self) -> int:
        """Number of vectors that have a number so far."""
        return len(self._rows)

    def number(self, row: Array) -> int:
        """Return the number of a vector of the set, a new one if it was never named."""
        kept = row + 0.0  # -0.0 and 0.0 are one number
        found = self._numbers.setdefault(kept.tobytes(), len(self._rows))
        if found == len(self._rows):
            kept.flags.writeable = False
            self._rows.append(kept)
        return found

    def identity(self) -> str:
        """Return the identity of this set, in words."""
        return written(self.vectors)

    def number_of(self, arm: Any) -> int:
        """Return the number of the user's arm, a vector of the set."""
        if isinstance(arm, np.ndarray | tuple):
            # A vector that was asked for comes back as it was, whatever `checked` would do to its last digit.
            found = self._numbers.get((np.asarray(arm, dtype=np.float64) + 0.0).tobytes())
            if found is not None:
                return found
        return self.number(self.vectors.checked(arm))

    def arm_of(self, number: int) -> Array:
        """Return the vector (d,) with this number, read-only."""
        return self._rows[number]

    def key_of(self, number: int) -> tuple[float, ...]:
        """Return the vector as plain numbers, for logs and tables."""
        return tuple(self._rows[number].tolist())

    def round(self, number: int) -> list[int]:
        """Return the numbers of the arms of one round of the fixed design."""
        return [self.number(row) for row in self.vectors.cycle(number, self.seed)]

    def theta_to_user(self, theta: Array) -> Array:
        """Return a whitened parameter in the user's coordinates."""
        return self.map @ theta

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the vectors with these numbers in whitened coordinates, (n, d)."""
        return np.array([self._rows[i] for i in index]).reshape(len(index), self.dim) @ self.map

    def best(self, theta: Array) -> int:
        """Return the number of the arm with the largest theta'a."""
        return self.number(self.vectors.best(self.map @ theta))

    def largest_loss(self, leader: int, estimate: LeastSquares, *, delta: float, noise_std: float) -> float:
        """Return an upper bound on the leader's loss, with probability 1 - delta for all times together.

        The bound on the loss of the arm with the largest estimate; if the leader is another arm, plus the bound on its
        loss to that arm, by the same event.
        """
        y = (self._rows[leader] - self.vectors.best(self.map @ estimate.theta)) @ self.map
        most = self._most_of_best(estimate, delta=delta, noise_std=noise_std)
        if not y.any():
            return most
        q1, q2 = square_norms(np.array([y @ estimate.factor(), estimate.A_inv @ y]))
        at: dict[str, Any] = {"mixture": MIXTURE, "noise_std": noise_std, "delta": delta}
        behind = loss_bound(y @ estimate.theta, q1, q2, MIXTURE.logdets(estimate.A), **at)
        return most + max(0.0, float(behind))

    def _most_of_best(self, estimate: LeastSquares, *, delta: float, noise_std: float) -> float:
        """Return the smallest epsilon whose evidence reaches log(1/delta), from above to one part in a thousand."""
        target = math.log(1.0 / delta)

        def is_enough(epsilon: float) -> bool:
            return vector_evidence(self, estimate, epsilon, noise_std=noise_std)[0] >= target

        if not self.vectors.needs_slack and is_enough(0.0):
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

    def confusion(self, theta: Array, F: Array, epsilon: float) -> HardestRival:
        """Return the statistic Z' of `arms.base`, or a lower bound on it; theta and F in whitened coordinates."""
        return self.vectors.confusion(self.map @ theta, self.map @ F, epsilon)


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
    terms = _log_priors(estimate.A) + values / noise_std**2
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
    return float(log_sum_exp(_log_priors(estimate.A) + exponents))


def _log_priors(A: Array) -> Array:
    """Return log p_j - log det(I + A/kappa_j) / 2."""
    return MIXTURE.log_weights - 0.5 * MIXTURE.logdets(A)
