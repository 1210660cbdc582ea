"""A ridge estimate read off the least-squares state: for algorithms whose papers regularise.

Notation: V = lambda M (d, d) the ridge, M what the identity of the user's features is in whitened coordinates;
theta = (A + V)^-1 b.
"""

from collections.abc import Mapping
from typing import final

import numpy as np

from surepick.core.estimate import LeastSquares
from surepick.core.linalg import Array, cholesky, solve_lower


@final
class RidgeEstimate:
    """The first regulariser of a least-squares state as a ridge, read like an estimate of its own."""

    def __init__(self, estimate: LeastSquares) -> None:
        self._estimate = estimate

    @property
    def dim(self) -> int:
        """Number of features d."""
        return self._estimate.dim

    @property
    def n_pulls(self) -> int:
        """Number of pulls t so far."""
        return self._estimate.n_pulls

    @property
    def has_theta(self) -> bool:
        """Whether theta exists: always, but nothing is decided before the pulled arms span."""
        return self._estimate.has_theta

    @property
    def theta(self) -> Array:
        """The ridge estimate (A + V)^-1 b."""
        theta: Array = self.A_inv.dot(self._estimate.b)
        return theta

    @property
    def A(self) -> Array:  # noqa: N802 - the letter of the notation
        """A + V."""
        total: Array = self._estimate.A + self._estimate.regularizers[0]
        return total

    @property
    def A_inv(self) -> Array:  # noqa: N802 - the letter of the notation
        """(A + V)^-1."""
        inverse: Array = self._estimate.regularized_inverses[0]
        return inverse

    @property
    def counts(self) -> Mapping[int, int]:
        """Pulls per arm."""
        return self._estimate.counts

    @property
    def logdets(self) -> Array:
        """Log-determinants of the state."""
        return self._estimate.logdets

    @property
    def regularized_inverses(self) -> Array:
        """Regularised inverses of the state."""
        return self._estimate.regularized_inverses

    def slots(self, regularizers: Array) -> slice:
        """Return where these regularisers stand in the state."""
        return self._estimate.slots(regularizers)

    def factor(self) -> Array:
        """Return F with |F'y|^2 = y'(A + V)^-1 y."""
        return solve_lower(cholesky(self.A), np.eye(self.dim)).T
