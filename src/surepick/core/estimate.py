"""Least-squares state, kept current pull by pull: A, its inverse, theta, counts and log-determinants.

Notation: x (d,) arm pulled; A (d, d) = sum x x'; b (d,) = sum reward * x; theta (d,) = A^-1 b, no ridge;
theta0 (d,) a reference, residuals b0 (d,) = sum (reward - x'theta0) x, so that theta = theta0 + A^-1 b0;
V (J, d, d) regularisers of stopping rules, never used by theta; logdets (J,) = log det(I + V_j^-1 A).

A pull adds to sums, O(d^2), and A^-1 is computed from A when it is read. Beside regularisers, whose rules read after
every pull, A^-1 and every (A + V_j)^-1 live in one stacked array and are updated together by the Sherman-Morrison
formula, O((J + 1) d^2); rounding drift is measured at intervals and repaired by a fresh Cholesky factorisation.
Either way the state depends on the pulls alone, never on who read it and when. All factorisations and measurements are
made on D^-1 A D^-1 with D^2 = diag(A), so they do not notice the units of the features. Rewards are measured from
theta0, the first estimate there was: a sum of rewards a billion times the noise would lose the noise in rounding, a sum
of residuals does not.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, final

import numpy as np

from surepick.core.checks import check_count, check_matrix, check_number, check_vector
from surepick.core.linalg import Array, cholesky, one_blas_thread, upper_inverse
from surepick.errors import InvalidInput, NotEnoughData

# A is called singular below the first value and, once it was not, again only below the second: a direction
# measured with so little weight beside the others has no correct digits in theta.
RCOND_GAINED = 1e-12
RCOND_LOST = 1e-14
# It is looked at again when an entry of its diagonal has grown so much: until then the smallest eigenvalue, features
# scaled, has lost no larger factor.
GROWTH = 4.0
# Drift is measured this often and repaired above this size.
MEASURE_EVERY = 1000
DRIFT_LIMIT = 1e-9
# One update with gain x'A^-1 x = g cancels all but 1/(1 + g) of the inverse along x and loses log10(g) digits
# there; beyond this gain we refactor at once. The determinant bounds how often: d log(t) / log(100) times.
GAIN_LIMIT = 100.0
LARGEST = 1e150
SHAPES = ("_rows", "_diagonal", "_buffer", "_views")


class LeastSquares:
    """Least-squares estimate of theta.

    Args:
        dim: number of features d.
        regularizers: (J, d, d) symmetric positive definite matrices whose log-determinants are followed; none
            by default.

    Arrays handed out are read-only and hold until the next pull. Two states fed with the same pulls, in the same order
    and by the same calls, are equal bit for bit.
    """

    def __init__(self, dim: int, regularizers: Any = None) -> None:
        self._dim = check_count("dim", dim, least=1)
        self._V, self._V_logdet = _check_regularizers(regularizers, self._dim)
        n = len(self._V) + 1
        self._A = np.zeros((self._dim, self._dim))
        self._theta0 = np.zeros(self._dim)
        self._b0 = np.zeros(self._dim)
        self._squares0 = 0.0
        # Until there is an estimate to measure from, pulls are kept, and then added up again.
        self._early: list[tuple[Array, Array]] | None = []
        # Slot 0 is A^-1, or stale; zero stands for "not invertible yet" and is left alone by the update formula.
        self._inverses = np.zeros((n, self._dim, self._dim))
        self._logdets = np.zeros(n)
        self._n_pulls = 0
        self._counts: dict[int, int] = {}
        self._has_theta = self._is_stale = False
        self._theta: Array | None = None
        self._factor: Array | None = None
        self._make_views()
        self._refactor()

    def _make_views(self) -> None:
        """Other shapes of the same memory, made once because making them costs as much as an update."""
        self._rows = self._inverses.reshape(-1, self._dim)
        self._diagonal = np.diagonal(self._A)
        self._buffer = np.empty_like(self._inverses)
        self._views = {
            "A": _read_only(self._A),
            "A_inv": _read_only(self._inverses[0]),
            "inverses": _read_only(self._inverses[1:]),
            "logdets": _read_only(self._logdets[1:]),
        }

    def __getstate__(self) -> dict[str, Any]:
        # A copy of a view would no longer follow the array it shows.
        return {name: value for name, value in self.__dict__.items() if name not in SHAPES}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_views()

    @property
    def dim(self) -> int:
        """Number of features d."""
        return self._dim

    @property
    def n_pulls(self) -> int:
        """Number of pulls t so far."""
        return self._n_pulls

    @property
    def counts(self) -> Mapping[int, int]:
        """Pulls per arm, for the pulls whose arm number was given; arms never pulled are absent."""
        return MappingProxyType(self._counts)

    @property
    def A(self) -> Array:  # noqa: N802 - the letter of the notation
        """Information matrix sum x x' (d, d)."""
        return self._views["A"]

    @property
    def b(self) -> Array:
        """Sum of reward * x (d,)."""
        total: Array = self._b0 + self._A.dot(self._theta0)
        return total

    @property
    def has_theta(self) -> bool:
        """Whether the pulled arms span the space, numerically, so that theta exists."""
        return self._has_theta

    @property
    def A_inv(self) -> Array:  # noqa: N802 - the letter of the notation
        """Inverse of A (d, d). Raises before `has_theta`."""
        self._require_theta("A_inv")
        self._refresh()
        return self._views["A_inv"]

    @property
    def theta(self) -> Array:
        """Least-squares estimate A^-1 b (d,). Raises `NotEnoughData` before `has_theta`."""
        if self._theta is None:
            self._require_theta("theta")
            theta: Array = self._theta0 + self._solved()
            theta.flags.writeable = False
            self._theta = theta
        return self._theta

    def _solved(self) -> Array:
        """Return A^-1 b0."""
        self._refresh()
        A_inv = self._inverses[0]
        solved: Array = A_inv.dot(self._b0)
        # One step of refinement: the residual is small, so its own error no longer matters.
        solved += A_inv.dot(self._b0 - self._A.dot(solved))
        return solved

    @property
    def residual_sum(self) -> float:
        """Sum of the squared residuals around theta. Raises before `has_theta`."""
        self._require_theta("residual_sum")
        # theta0 is the first estimate, so what is taken off is of the size of the noise too.
        return max(self._squares0 - float(self._b0.dot(self._solved())), 0.0)

    def _refresh(self) -> None:
        """Compute A^-1 from the present A, if there is one and it was not."""
        if self._is_stale and self._has_theta:
            self._inverses[0], self._logdets[0] = _inverse_and_logdet(self._A)
            self._is_stale = False

    @property
    def regularizers(self) -> Array:
        """The matrices V_j (J, d, d)."""
        return self._V

    @property
    def logdets(self) -> Array:
        """Log-determinants log det(I + V_j^-1 A), (J,)."""
        return self._views["logdets"]

    @property
    def regularized_inverses(self) -> Array:
        """Matrices (A + V_j)^-1 (J, d, d)."""
        return self._views["inverses"]

    def slots(self, regularizers: Array) -> slice:
        """Return where these regularisers (J', d, d) stand among those given at construction."""
        n = len(regularizers)
        for start in range(len(self._V) - n + 1):
            if np.array_equal(self._V[start : start + n], regularizers):
                return slice(start, start + n)
        raise InvalidInput(
            f"the estimate must follow the {n} regularisers of this rule but was built with "
            f"{len(self._V)} others; build it with `LeastSquares(dim, state.regularizers)`."
        )

    def factor(self) -> Array:
        """Return F (d, d) with F F' = A^-1, so that |F'y|^2 = y'A^-1 y; computed afresh from A, then kept."""
        if self._factor is None:
            self._require_theta("factor")
            L, scale = _equilibrated_cholesky(self._A)
            self._factor = _read_only(upper_inverse(L.T) / scale[:, None])
        return self._factor

    def drift(self) -> float:
        """Return the largest entry of |(A + V_j)^-1 (A + V_j) - I| over the inverses kept, features scaled.

        About the condition number times 1e-16 right after a repair. Cost O(J d^3).
        """
        self._refresh()
        stack = np.concatenate([self._A[None], self._A + self._V])
        skip = 0 if self._has_theta else 1
        stack, inverses = stack[skip:], self._inverses[skip:]
        if not len(stack):
            return 0.0
        scale = np.sqrt(np.diagonal(stack, axis1=1, axis2=2))
        products = (inverses * scale[:, :, None]) @ (stack / scale[:, None, :])
        return float(np.abs(products - np.eye(self._dim)).max())

    def update(self, x: Any, reward: float, arm: int | None = None) -> None:
        """Add one pull: features x (d,), its reward and, if known, the arm's row number for `counts`."""
        if type(x) is not np.ndarray or x.dtype != np.float64 or x.shape != (self._dim,):
            x = check_vector("x", x, self._dim)
        # One comparison finds NaN, infinity and what would overflow when squared.
        if not sum(map(abs, x.tolist())) < LARGEST:
            check_vector("x", x, self._dim)
            raise InvalidInput(f"`x` must be below {LARGEST:g} in size, got {x}; use other units.")
        if not (type(reward) is float and math.isfinite(reward)):
            reward = check_number("reward", reward, needed="one measured number")
        self._A += x[:, None] * x
        residual = reward - float(x.dot(self._theta0))
        self._b0 += residual * x
        self._squares0 += residual * residual
        if self._early is not None:
            self._early.append((x[None].copy(), np.array([reward])))
        self._count((arm,))
        if len(self._V):
            is_due = self._follow(x) or (self._n_pulls % MEASURE_EVERY == 0 and self.drift() > DRIFT_LIMIT)
        else:
            is_due, self._is_stale = True in (self._diagonal > self._limits).tolist(), True
        if is_due:
            self._refactor()
        elif not self._has_theta:
            self._gain_theta()

    def update_many(self, X: Any, rewards: Any, arms: Iterable[int] | None = None) -> None:
        """Add pulls at once: features X (n, d), rewards (n,), optionally row numbers (n,).

        The state is the one that single updates would give, up to rounding.
        """
        rows = check_matrix("X", X, n_columns=self._dim)
        values = check_vector("rewards", rewards, len(rows))
        labels = [None] * len(rows) if arms is None else list(arms)
        if len(labels) != len(rows):
            raise InvalidInput(f"`arms` must have one row number per pull: {len(rows)}, got {len(labels)}.")
        if not np.abs(rows).sum(axis=1).max(initial=0.0) < LARGEST:
            raise InvalidInput(f"`X` must be below {LARGEST:g} in size; use other units.")
        self._A += rows.T @ rows
        self._add_residuals(rows, values)
        if self._early is not None:
            self._early.append((rows.copy(), values.copy()))
        self._count(labels)
        self._refactor()

    def _add_residuals(self, X: Array, rewards: Array) -> None:
        residuals = rewards - X @ self._theta0
        self._b0 += residuals @ X
        self._squares0 += float(residuals @ residuals)

    def _count(self, arms: Sequence[int | None]) -> None:
        self._n_pulls += len(arms)
        self._theta = self._factor = None
        for arm in arms:
            if arm is not None:
                self._counts[arm] = self._counts.get(arm, 0) + 1

    def _follow(self, x: Array) -> bool:
        """Update the inverses by the Sherman-Morrison formula; return whether they have to be repaired."""
        u = self._rows.dot(x).reshape(-1, self._dim)
        gain = u.dot(x)
        u /= np.sqrt(1.0 + gain)[:, None]
        # A product of the same two numbers in either order keeps the inverses symmetric to the last bit.
        np.multiply(u[:, :, None], u[:, None, :], out=self._buffer)
        self._inverses -= self._buffer
        self._logdets += np.log1p(gain)
        gains = gain.tolist()
        return not (min(gains) >= 0.0 and max(gains) <= GAIN_LIMIT)

    def _require_theta(self, what: str) -> None:
        if not self._has_theta:
            raise NotEnoughData(
                f"`{what}` needs pulled arms that span R^{self._dim}, but after {self._n_pulls} pulls the "
                "information matrix is singular; pull a spanning set of arms first, or whiten features that "
                "are nearly collinear."
            )

    def _gain_theta(self) -> None:
        """Switch theta on if A has become numerically invertible."""
        if self._n_pulls < self._dim or _rcond(self._A) < RCOND_GAINED:
            return
        self._has_theta = self._is_stale = True
        self._refresh()
        if self._early is not None:
            self._theta0 = self._solved()
            self._b0, self._squares0 = np.zeros(self._dim), 0.0
            for X, rewards in self._early:
                self._add_residuals(X, rewards)
            self._early = None

    def _refactor(self) -> None:
        """Recompute every inverse and log-determinant from A itself, O(J d^3)."""
        self._limits = GROWTH * self._diagonal
        for j, V in enumerate(self._V, start=1):
            self._inverses[j], logdet = _inverse_and_logdet(self._A + V)
            self._logdets[j] = logdet - self._V_logdet[j - 1]
        if not self._has_theta:
            self._gain_theta()
        elif _rcond(self._A) >= RCOND_LOST:
            self._is_stale = True
            self._refresh()
        else:
            # Better no estimate than one without correct digits; it returns when other arms are pulled.
            self._has_theta = self._is_stale = False
            self._inverses[0] = 0.0


@final
class RidgeEstimate(LeastSquares):
    """The same state read with its first regulariser V as a ridge: theta = (A + V)^-1 b; to be read, not updated."""

    def __init__(self, estimate: LeastSquares) -> None:
        self.__dict__ = estimate.__dict__

    @property
    def theta(self) -> Array:
        """The ridge estimate."""
        theta: Array = self.A_inv.dot(self.b)
        return theta

    @property
    def A(self) -> Array:  # noqa: N802 - the letter of the notation
        """A + V."""
        total: Array = self._A + self._V[0]
        return total

    @property
    def A_inv(self) -> Array:  # noqa: N802 - the letter of the notation
        """(A + V)^-1."""
        inverse: Array = self.regularized_inverses[0]
        return inverse

    def factor(self) -> Array:
        """Return F with |F'y|^2 = y'(A + V)^-1 y."""
        return upper_inverse(cholesky(self.A).T)


def _equilibrated_cholesky(M: Array) -> tuple[Array, Array]:
    """Return lower triangular L (d, d) and s (d,) > 0 with M = diag(s) L L' diag(s)."""
    scale: Array = np.sqrt(np.diagonal(M))
    L = np.linalg.cholesky(M / scale[:, None] / scale)
    return L.astype(np.float64, copy=False), scale


@one_blas_thread
def _inverse_and_logdet(M: Array) -> tuple[Array, float]:
    L, scale = _equilibrated_cholesky(M)
    half = upper_inverse(L.T)
    inverse = (half @ half.T) / (scale[:, None] * scale)
    return inverse, 2.0 * float(np.log(np.diagonal(L)).sum() + np.log(scale).sum())


@one_blas_thread
def _rcond(M: Array) -> float:
    """Smallest over largest eigenvalue after scaling to unit diagonal; 0 if some feature was never seen."""
    diagonal = np.diagonal(M)
    if not (diagonal > 0.0).all():
        return 0.0
    scale = np.sqrt(diagonal)
    eigenvalues = np.linalg.eigvalsh(M / scale[:, None] / scale)
    return float(eigenvalues[0] / eigenvalues[-1])


def _check_regularizers(regularizers: Any, dim: int) -> tuple[Array, Array]:
    """Return the matrices (J, d, d) and their log-determinants (J,)."""
    V = np.zeros((0, dim, dim)) if regularizers is None else np.array(regularizers, dtype=np.float64)
    if V.size == 0:
        V = np.zeros((0, dim, dim))
    if V.ndim != 3 or V.shape[1:] != (dim, dim):
        raise InvalidInput(f"`regularizers` must have shape (J, {dim}, {dim}), got {V.shape}.")
    logdets = np.zeros(len(V))
    for j, matrix in enumerate(V):
        symmetric = np.isfinite(matrix).all() and np.allclose(matrix, matrix.T, rtol=1e-12, atol=0.0)
        if not symmetric or _rcond(matrix) < RCOND_LOST:
            raise InvalidInput(
                f"every regulariser must be symmetric positive definite, the one at position {j} is not."
            )
        logdets[j] = _inverse_and_logdet(matrix)[1]
    V.flags.writeable = False
    return V, logdets


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view
