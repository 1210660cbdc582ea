"""A set of vectors as a learner sees it: whitened coordinates, and a number for every vector once it is named.

Notation: T (d, d) the map, white rows = rows @ T, white theta = T^-1 theta. In these coordinates the rounds of the
set's fixed design have identity information per pull, so nothing depends on how the features were scaled or mixed.
"""

import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from surepick.arms.loss import largest_loss_on_vectors
from surepick.arms.vectors import Confusion, VectorSet
from surepick.core.estimate import LeastSquares
from surepick.core.identity import written
from surepick.core.linalg import Array, IntArray, triangular, upper_inverse
from surepick.core.sizes import check_features


@final
class NumberedVectors:
    """Vectors of a set under the numbers 0, 1, ..., in the order in which they were first named; none is forgotten.

    Args:
        vectors: the set.
        seed: of the rounds of its design.
        back: R (d, d) of other coordinates to work in, those of arms that are measured in place of these.

    Raises:
        InvalidInput: features are too large or too small, see `core.sizes`.
    """

    def __init__(self, vectors: VectorSet, seed: int, back: Array | None = None) -> None:
        self.vectors, self.seed, self.dim = vectors, seed, vectors.dim
        self.is_listed = self.keeps_numbers = False
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
        """How many vectors have a number so far."""
        return len(self._rows)

    def number(self, row: Array) -> int:
        """Return the number of a vector of the set, a new one if it was never named."""
        key = (row + 0.0).tobytes()  # -0.0 and 0.0 are one number
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._rows)
            kept = row + 0.0
            kept.flags.writeable = False
            self._rows.append(kept)
        return found

    def identity(self) -> str:
        """Return what tells this set from others."""
        return written(self.vectors)

    def number_of(self, arm: Any) -> int:
        """Return the number of what the user calls an arm: a vector of the set."""
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
        rows: Array = np.array([self._rows[i] for i in index]).reshape(len(index), self.dim)
        return rows @ self.map

    def best(self, theta: Array) -> int:
        """Return the number of the arm with the largest theta'a."""
        return self.number(self.vectors.best(self.map @ theta))

    def largest_loss(self, _leader: int, estimate: LeastSquares, *, delta: float, noise_std: float) -> float:
        """Return what the leader can be losing at most, with probability 1 - delta for all times together."""
        return largest_loss_on_vectors(self, estimate, delta=delta, noise_std=noise_std)

    def confusion(self, theta: Array, F: Array, epsilon: float) -> Confusion:
        """Return the statistic Z' of `arms.vectors`, or a lower bound on it; theta and F in whitened coordinates."""
        return self.vectors.confusion(self.map @ theta, self.map @ F, epsilon)
