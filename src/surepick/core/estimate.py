"""Least-squares state: sums per arm, from which A, its inverse and theta are computed when they are read.

Notation: x_a (d,) features of arm a, n_a its pulls, f_a its first reward; s_a, q_a sums of reward - f_a and of its
square; A (d, d) = sum n_a x_a x_a'; theta (d,) = A^-1 b, no ridge, with b = sum (n_a f_a + s_a) x_a;
V (J, d, d) regularisers of stopping rules, never used by theta; logdets (J,) = log det(I + V_j^-1 A).

A pull adds to the sums of its arm, O(1) and not before they are read, so the state depends on the pulls alone, never on
its readers. Beside regularisers, whose rules read after every pull, A^-1 and every (A + V_j)^-1 live in one
stacked array and are updated together by the Sherman-Morrison formula, O((J + 1) d^2); rounding drift is measured now
and then and repaired by a fresh Cholesky factorisation. All factorisations and measurements are made on D^-1 A D^-1
with D^2 = diag(A), so they do not notice the units of the features. Rewards are measured from the first one of their
arm: a sum of rewards a billion times the noise would lose the noise in rounding, a sum of differences does not.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import cached_property
from types import MappingProxyType
from typing import Any, ParamSpec, Self, TypeVar, final

import numpy as np

from surepick.core.checks import check_count, check_matrix, check_number, check_vector
from surepick.core.linalg import cholesky, one_blas_thread, upper_inverse
from surepick.errors import InvalidInput, NotEnoughData
from surepick.types import Array

P = ParamSpec("P")
T = TypeVar("T")

# A is called singular below this reciprocal condition number, features scaled: a direction measured with so little
# weight beside the others has hardly a correct digit in theta. Regularisers are refused below the second value.
RCOND = 1e-12
RCOND_OF_REGULARIZER = 1e-14
# Drift is measured this often and repaired above this size.
MEASURE_EVERY = 1000
DRIFT_LIMIT = 1e-9
# One update with gain x'A^-1 x = g cancels all but 1/(1 + g) of the inverse along x and loses log10(g) digits
# there; beyond this gain we refactor at once. The determinant bounds how often: d log(t) / log(100) times.
GAIN_LIMIT = 100.0
LARGEST = 1e150
# Up to this many products BLAS uses one thread by itself; limiting BLAS would take longer than the products.
FEW_PRODUCTS = 200_000
# Up to this many pulls are added up faster one by one than as arrays.
FEW_PULLS = 16
# Multiples of a step this small beside the largest reward cannot be told from floating point.
FINEST = 1e-9


class LeastSquaresFit:
    """Least squares from the sums of some arms, computed on demand, then kept: X (m, d), sums n, f, s, q (4, m)."""

    def __init__(self, X: Array, sums: Array) -> None:
        self._X, (self._n, self._f, self._s, self._q) = X, sums
        self.notes: dict[Any, Any] = {}

    @cached_property
    def A(self) -> Array:  # noqa: N802 - the letter of the notation
        """Information (d, d)."""
        A = _alone(np.matmul, self._X.size * self._X.shape[1])(self._X.T * self._n, self._X)
        return _read_only(0.5 * (A + A.T))  # symmetric to the last bit

    def moments(self, theta: Array) -> Array:
        """Return sum (reward - x'theta) x."""
        residuals = self._f - self._X.dot(theta)
        residuals *= self._n
        residuals += self._s
        total: Array = residuals.dot(self._X)
        return total

    @cached_property
    def A_inv(self) -> Array:  # noqa: N802 - the letter of the notation
        """Its inverse."""
        return _read_only(_inverse_and_logdet(self.A)[0])

    @cached_property
    def theta(self) -> Array:
        """The estimate (d,)."""
        A_inv, theta = self.A_inv, np.zeros(self._X.shape[1])
        # The second step adds up residuals, in which large rewards cancel; the third refines an A^-1 with few digits.
        for _ in range(3):
            theta += A_inv.dot(self.moments(theta))
        return _read_only(theta)

    @cached_property
    def residual_sum(self) -> float:
        """Sum of the squared residuals."""
        within = self._q - self._s * self._s / self._n
        between = self._f + self._s / self._n - self._X @ self.theta
        return max(float(within.sum() + self._n @ (between * between)), 0.0)

    @cached_property
    def factor(self) -> Array:
        """F (d, d) with F F' = A^-1."""
        L, scale = _equilibrated_cholesky(self.A)
        return _read_only(upper_inverse(L.T) / scale[:, None])


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
        # Features and sums n, f, s, q of every arm by its place, which its features say; with room for more.
        self._places: dict[bytes, int] = {}
        self._X, self._sums = np.zeros((16, self._dim)), np.zeros((4, 16))
        self._late: tuple[list[int], list[float]] = [], []  # places and rewards not yet in the sums
        self._n_pulls = 0
        self._values: set[float] = set()  # all rewards, equal ones once
        self._n_equal = 0  # rewards that equal the first of their arm, the first ones included
        self._grid: tuple[int, float] | None = None  # how many values there were, and their step
        self._counts: dict[int, int] = {}
        self._kept: LeastSquaresFit | None = None
        self._has_theta: bool | None = False  # None: not looked at since the last pull
        self._last_look = 0.0, np.ones(self._dim)  # the last reciprocal condition number and diagonal of A
        # Beside regularisers: slot 0 is A^-1; zero stands for "not invertible yet" and is left alone by the update.
        self._inverses = np.zeros((len(self._V) + 1, self._dim, self._dim))
        self._logdets = np.zeros(len(self._V) + 1)
        self._is_followed = False  # whether slot 0 is A^-1
        self._refactor()

    @property
    def _fit(self) -> LeastSquaresFit:
        if self._kept is None:
            self._add_up()
            m = len(self._places)
            self._kept = LeastSquaresFit(self._X[:m], self._sums[:, :m])
            if self._is_followed:
                self._kept.A_inv = _read_only(self._inverses[0])
        return self._kept

    @property
    def dim(self) -> int:
        """Number of features d."""
        return self._dim

    @property
    def n_pulls(self) -> int:
        """Number of pulls t so far."""
        return self._n_pulls

    @property
    def n_spare(self) -> int:
        """Pulls beyond the parameters of the fit; below 1 they say nothing of the noise."""
        return self._n_pulls - self._dim

    @property
    def counts(self) -> Mapping[int, int]:
        """Pulls per arm, for the pulls whose arm number was given; arms never pulled are absent."""
        return MappingProxyType(self._counts)

    @property
    def A(self) -> Array:  # noqa: N802 - the letter of the notation
        """Information matrix sum x x' (d, d)."""
        return self._fit.A

    @property
    def b(self) -> Array:
        """Sum of reward * x (d,)."""
        return self._fit.moments(np.zeros(self._dim))

    @property
    def has_theta(self) -> bool:
        """Whether the pulled arms span the space, numerically, so that theta exists."""
        if self._has_theta is None:
            self._has_theta = len(self._places) >= self._dim and self._is_regular()
        return self._has_theta

    def _is_regular(self) -> bool:
        diagonal = np.diagonal(self._fit.A)
        rcond, before = self._last_look
        # A only grows, so features scaled its smallest eigenvalue has lost no larger factor than an entry of the
        # diagonal has gained, and its largest is at most d: mostly that says enough.
        if rcond > 0.0 and rcond * float((before / diagonal).min()) >= self._dim * RCOND:
            return True
        self._last_look = _rcond(self._fit.A), diagonal
        return self._last_look[0] >= RCOND

    @property
    def A_inv(self) -> Array:  # noqa: N802 - the letter of the notation
        """Inverse of A (d, d). Raises before `has_theta`."""
        self._require_theta("A_inv")
        return self._fit.A_inv

    @property
    def theta(self) -> Array:
        """Least-squares estimate A^-1 b (d,). Raises `NotEnoughData` before `has_theta`."""
        self._require_theta("theta")
        return self._fit.theta

    @property
    def residual_sum(self) -> float:
        """Sum of the squared residuals around theta. Raises before `has_theta`."""
        self._require_theta("residual_sum")
        return self._fit.residual_sum

    @property
    def resolution(self) -> float:
        """Step of the grid that the rewards lie on: the largest number that divides the distance of any two.

        0 if no two are equal: noise with a density never repeats a value. inf if all are equal. An instrument that
        rounds to multiples of h has a multiple of h here, once two of its readings are equal; below a billionth of the
        largest reward the step is only an upper bound.
        """
        self._add_up()
        if len(self._values) == self._n_pulls:
            return 0.0
        if self._grid is None or self._grid[0] != len(self._values):
            self._grid = len(self._values), common_step(np.fromiter(self._values, dtype=np.float64))
        return self._grid[1]

    @property
    def notes(self) -> dict[Any, Any]:
        """A cache for values that callers derive from the results so far; empty after the next pull."""
        return self._fit.notes

    @property
    def spread(self) -> float:
        """Distance of the largest reward from the smallest."""
        self._add_up()
        return max(self._values, default=0.0) - min(self._values, default=0.0)

    @property
    def n_repeated(self) -> tuple[int, int]:
        """How many rewards equal the first one of their arm exactly, and how many could: all but the first ones."""
        self._add_up()
        return self._n_equal - len(self._places), self._n_pulls - len(self._places)

    @property
    def regularizers(self) -> Array:
        """The matrices V_j (J, d, d)."""
        return self._V

    @property
    def logdets(self) -> Array:
        """Log-determinants log det(I + V_j^-1 A), (J,)."""
        return _read_only(self._logdets[1:])

    @property
    def regularized_inverses(self) -> Array:
        """Matrices (A + V_j)^-1 (J, d, d)."""
        return _read_only(self._inverses[1:])

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

    def means(self) -> tuple[Array, Array, Array]:
        """Return the different rows measured (m, d), their pulls (m,) and their mean rewards (m,)."""
        self._add_up()
        m = len(self._places)
        n, f, s, _ = self._sums[:, :m]
        return self._X[:m].copy(), n.copy(), f + s / n

    def snapshot(self) -> Self:
        """Return a copy that does not learn with this one."""
        twin = copy(self)
        own = {"_places": dict(self._places), "_counts": dict(self._counts), "_values": set(self._values)}
        own["_kept"] = None
        own |= {name: getattr(self, name).copy() for name in ("_X", "_sums", "_inverses", "_logdets")}
        twin.__dict__.update(own, _late=(self._late[0][:], self._late[1][:]))
        return twin

    def factor(self) -> Array:
        """Return F (d, d) with F F' = A^-1, so that |F'y|^2 = y'A^-1 y."""
        self._require_theta("factor")
        return self._fit.factor

    def drift(self) -> float:
        """Return the largest entry of |(A + V_j)^-1 (A + V_j) - I| over the inverses kept, features scaled.

        About the condition number times 1e-16 right after a repair. Cost O(J d^3).
        """
        first = 0 if self._is_followed else 1
        stack = np.concatenate([self._fit.A[None], self._fit.A + self._V])[first:]
        scale = np.sqrt(np.diagonal(stack, axis1=1, axis2=2))
        products = (self._inverses[first:] * scale[:, :, None]) @ (stack / scale[:, None, :])
        return float(np.abs(products - np.eye(self._dim)).max(initial=0.0))

    def update(self, x: Any, reward: float, arm: int | None = None) -> None:
        """Add one pull: features x (d,), its reward and, if known, the arm's row number for `counts`."""
        if type(x) is not np.ndarray or x.dtype != np.float64 or x.shape != (self._dim,):
            x = check_vector("x", x, self._dim)
        if not (type(reward) is float and math.isfinite(reward)):
            reward = check_number("reward", reward, needed="one measured number")
        self._add(x, reward, arm)
        if len(self._V):
            self._follow(x)

    def update_many(self, X: Any, rewards: Any, arms: Iterable[int] | None = None) -> None:
        """Add pulls at once: features X (n, d), rewards (n,), optionally row numbers (n,).

        The state is the one that single updates would give, with regularisers up to rounding.
        """
        rows = check_matrix("X", X, n_columns=self._dim)
        values = check_vector("rewards", rewards, len(rows))
        labels = [None] * len(rows) if arms is None else list(arms)
        if len(labels) != len(rows):
            raise InvalidInput(f"`arms` must have one row number per pull: {len(rows)}, got {len(labels)}.")
        if not np.abs(rows).sum(axis=1).max(initial=0.0) < LARGEST:
            raise InvalidInput(f"`X` must be below {LARGEST:g} in size; use other units.")
        for x, reward, arm in zip(rows, values.tolist(), labels, strict=True):
            self._add(x, reward, arm)
        self._refactor()

    def _add(self, x: Array, reward: float, arm: int | None) -> None:
        """Add to the sums of the arm with these features."""
        features = x.tobytes()
        place = self._places.get(features)
        if place is None:
            # One comparison finds NaN, infinity and what would overflow when squared.
            if not sum(map(abs, x.tolist())) < LARGEST:
                check_vector("x", x, self._dim)
                raise InvalidInput(f"`x` must be below {LARGEST:g} in size, got {x}; use other units.")
            place = self._places[features] = len(self._places)
            if place == len(self._X):
                self._X = np.concatenate([self._X, np.zeros_like(self._X)])
                self._sums = np.concatenate([self._sums, np.zeros_like(self._sums)], axis=1)
            self._X[place], self._sums[1, place] = x, reward
        places, rewards = self._late
        places.append(place)
        rewards.append(reward)
        self._n_pulls += 1
        self._kept = self._has_theta = None
        if arm is not None:
            self._counts[arm] = self._counts.get(arm, 0) + 1

    def _add_up(self) -> None:
        """Bring the sums up to date: one after the other, in the order of the pulls, so that reads change no bit."""
        n, f, s, q = self._sums
        places, rewards = self._late
        if not places:
            return
        self._values.update(rewards)
        if len(places) < FEW_PULLS:
            for place, reward in zip(places, rewards, strict=True):
                more = reward - float(f[place])
                self._n_equal += more == 0.0
                n[place] += 1.0
                s[place] += more
                q[place] += more * more
        else:
            mores = np.array(rewards) - f[places]
            self._n_equal += int(np.count_nonzero(mores == 0.0))
            np.add.at(n, places, 1.0)
            np.add.at(s, places, mores)
            np.add.at(q, places, mores * mores)
        self._late = [], []

    def _follow(self, x: Array) -> None:
        """Update the inverses by the Sherman-Morrison formula, or afresh where that has lost digits."""
        u = self._inverses.reshape(-1, self._dim).dot(x).reshape(-1, self._dim)
        gain = u.dot(x)
        u /= np.sqrt(1.0 + gain)[:, None]
        # A product of the same two numbers in either order keeps the inverses symmetric to the last bit.
        self._inverses -= u[:, :, None] * u[:, None, :]
        self._logdets += np.log1p(gain)
        gains = gain.tolist()
        is_sound = min(gains) >= 0.0 and max(gains) <= GAIN_LIMIT
        if not is_sound or (self._n_pulls % MEASURE_EVERY == 0 and self.drift() > DRIFT_LIMIT):
            self._refactor()
        elif self._is_followed:
            self._has_theta = True
        elif self.has_theta:
            self._refactor()

    def _require_theta(self, what: str) -> None:
        if not self.has_theta:
            raise NotEnoughData(
                f"`{what}` needs pulled arms that span R^{self._dim}, but after {self._n_pulls} pulls the "
                "information matrix is singular; pull a spanning set of arms first, or whiten features that "
                "are nearly collinear."
            )

    def _refactor(self) -> None:
        """Recompute every inverse and log-determinant that is followed from A itself, O(J d^3)."""
        self._is_followed = len(self._V) > 0 and self.has_theta
        self._kept = None
        for j, V in enumerate(self._V, start=1):
            self._inverses[j], logdet = _inverse_and_logdet(self._fit.A + V)
            self._logdets[j] = logdet - self._V_logdet[j - 1]
        self._inverses[0] = _inverse_and_logdet(self._fit.A)[0] if self._is_followed else 0.0


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
        total: Array = self._fit.A + self._V[0]
        return total

    @property
    def A_inv(self) -> Array:  # noqa: N802 - the letter of the notation
        """(A + V)^-1."""
        inverse: Array = self.regularized_inverses[0]
        return inverse

    def factor(self) -> Array:
        """Return F with |F'y|^2 = y'(A + V)^-1 y."""
        return upper_inverse(cholesky(self.A).T)


def common_step(values: Array) -> float:
    """Return the largest number that divides the distances of the values (n,), as far as doubles can say; inf if none.

    Euclid's algorithm on all distances at once. A remainder below `FINEST` of the largest value is rounding.
    """
    values = np.sort(values)
    rounding = FINEST * float(np.abs(values[[0, -1]]).max())
    steps = np.diff(values)
    steps = steps[steps > rounding]
    if not len(steps):
        return math.inf
    while True:
        least = float(steps.min())
        # Of two numbers that differ by a multiple of the step, the remainder may be next to the divisor as well.
        left = np.abs(steps - least * np.round(steps / least))
        left = left[left > rounding]
        if not len(left):
            return least
        steps = np.append(left, least)


def _equilibrated_cholesky(M: Array) -> tuple[Array, Array]:
    """Return lower triangular L (d, d) and s (d,) > 0 with M = diag(s) L L' diag(s)."""
    scale: Array = np.sqrt(np.diagonal(M))
    return cholesky(M / scale[:, None] / scale), scale


def _alone(work: Callable[P, T], n_products: int) -> Callable[P, T]:
    """Return the work on one BLAS thread."""
    return work if n_products <= FEW_PRODUCTS else one_blas_thread(work)


def _inverse_and_logdet(M: Array) -> tuple[Array, float]:
    L, scale = _alone(_equilibrated_cholesky, len(M) ** 3)(M)
    half = upper_inverse(L.T)
    inverse = _alone(np.matmul, len(M) ** 3)(half, half.T) / (scale[:, None] * scale)
    return inverse, 2.0 * float(np.log(np.diagonal(L) * scale).sum())


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
        if not symmetric or _rcond(matrix) < RCOND_OF_REGULARIZER:
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
