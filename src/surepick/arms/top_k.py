"""The top-k set: arms are the choices of k elements out of d, as 0/1 vectors with k ones.

Notation: see `surepick.arms.base`; f_i (k_F,) the rows of F. B holds the k elements of the best arm a. A rival b
exchanges m of them, i in B, for m others, j: with gap_ij = theta_i - theta_j >= 0 and y_ij = e_i - e_j, over any way to
match the leaving elements with the coming ones, a - b = sum y_ij, theta'(a - b) = sum gap_ij, and F'(a - b) = sum (f_i
- f_j).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any, Self, final

import numpy as np
import scipy

from surepick.arms.base import HardestRival, NamedSet, check_entries, least_statistic
from surepick.core import design
from surepick.core.checks import check_count, check_tol
from surepick.core.linalg import one_blas_thread
from surepick.errors import InvalidInput
from surepick.types import Array, IntArray

ENUMERATED_ARMS = 5000
"""Largest number of choices whose rivals are all enumerated when there is slack."""
DESIGN_NUMBERS = 1_000_000
"""Largest number of choices times d for which T* is computed, from the list of all choices."""
N_PATTERNS = 200
"""Patterns looked at for a round; one with a flat spectrum is far better than a window of neighbours."""


@final
@dataclass(frozen=True, slots=True)
class TopK(NamedSet):
    """All choices of `k` elements out of `dim`; the reward is the sum over the chosen elements plus noise.

    Args:
        dim: number of elements d, at least 2.
        k: how many are chosen, at least 1 and below `dim`.

    Raises:
        InvalidInput: such a set does not exist, or has one arm only.

    >>> import numpy as np
    >>> pairs = TopK(4, 2)
    >>> theta = np.array([0.1, 0.9, 0.3, 0.5])
    >>> pairs.best(theta)
    array([0., 1., 0., 1.])
    >>> pairs.confusion(theta, F=np.eye(4) / 10, epsilon=0.0).rival  # the third element instead of the fourth
    array([0., 1., 1., 0.])
    """

    kind = "top-k"
    parameters = ("dim", "k")
    needs_slack = False
    """The best arm is ahead of all others unless elements tie at the edge of the choice."""
    dim: int
    k: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", check_count("dim", self.dim, least=2))
        object.__setattr__(self, "k", check_count("k", self.k, least=1))
        if self.k >= self.dim:
            raise InvalidInput(
                f"`k` must be below the number of elements, {self.dim}, got {self.k}: choosing all of them leaves one "
                "arm, which says nothing about single elements; choose fewer."
            )

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the set that --top-k d,k spells."""
        parts = text.split(",")
        if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
            raise InvalidInput(f"--top-k must be two whole numbers such as 10,3: three out of ten, got {text!r}.")
        return cls(int(parts[0]), int(parts[1]))

    @property
    def description(self) -> str:
        """The name of the set in sentences."""
        return f"the choices of {self.k} out of {self.dim}"

    def best(self, theta: Array) -> Array:
        """Return the k elements with the largest theta; of equals, those with the lower number."""
        arm = np.zeros(self.dim)
        arm[_ranked(theta)[: self.k]] = 1.0
        return arm

    @one_blas_thread
    def confusion(self, theta: Array, F: Array, epsilon: float) -> HardestRival:
        """Return Z', exact for epsilon = 0 or at most 5000 arms, else a lower bound.

        Epsilon = 0: Z' = min gap_ij^2 / (2 |f_i - f_j|^2) over exchanges of one element. For a rival with several,
        theta'(a - b) / |F'(a - b)| >= sum gap_ij / sum |f_i - f_j|, which is not below the smallest of the
        gap_ij / |f_i - f_j| in it. When k is 1 or d - 1 there are no other rivals, so the formula holds with slack too.
        """
        ranked, best = _ranked(theta), self.best(theta)
        leaving, coming = ranked[: self.k], ranked[self.k :]
        gaps = theta[leaving, None] - theta[coming]
        lengths = scipy.spatial.distance.cdist(F[leaving], F[coming])  # differences first: no cancellation
        if epsilon == 0.0 or min(self.k, self.dim - self.k) == 1:
            ratios = (gaps + epsilon) / lengths
            i, j = np.unravel_index(int(np.argmin(ratios)), ratios.shape)
            rival = _exchanged(best, leaving[[i]], coming[[j]])
            return HardestRival(0.5 * float(ratios[i, j]) ** 2, is_exact=True, rival=rival)
        # The entries of a - b sum to zero: a common part of all theta_i or all f_i only costs digits.
        theta, F = theta - theta[leaving[-1]], F - F.mean(axis=0)
        if math.comb(self.dim, self.k) <= ENUMERATED_ARMS:
            arms = _all_choices(self.dim, self.k)
            rivals = arms[(arms != best).any(axis=1)]
            value, lowest = least_statistic(best - rivals, theta, F, epsilon)
            return HardestRival(value, is_exact=True, rival=rivals[lowest].copy())
        matched, (rows, columns) = _matching_bound(gaps, lengths, epsilon)
        spread, m = _spread_bound(theta[leaving], theta[coming], F, epsilon)
        value, exchanges = max(matched, spread), ((leaving[rows], coming[columns]), (leaving[-m:], coming[:m]))
        rivals = np.array([_exchanged(best, gone, new) for gone, new in exchanges])
        attained, lowest = least_statistic(best - rivals, theta, F, epsilon)
        return HardestRival(value, is_exact=attained <= value * (1.0 + 1e-12), rival=rivals[lowest])

    def cycle(self, number: int, seed: int) -> Array:
        """Return a pattern of k places shifted around a circle of all elements in random order; each element k times.

        One circle has d arms; the few (d, k) for which no single pattern spans take two. The order of the elements is
        drawn afresh every round, from `seed` and `number` alone.
        """
        order = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,))).permutation(self.dim)
        return _circles(self.dim, self.k)[:, order]

    def checked(self, arm: Any) -> Array:
        """Return the arm as a float vector (d,) of zeros and ones.

        Raises:
            InvalidInput: an entry is neither 0 nor 1, or the ones are not k, or the length is not d.
        """
        vector = check_entries(arm, self.dim, (0.0, 1.0), "0 and 1", "write 1 for a chosen element")
        if vector.sum() != self.k:
            raise InvalidInput(f"`arm` must choose exactly {self.k} elements, got {vector.sum():g}; set {self.k} to 1.")
        return vector + 0.0  # -0.0 becomes 0.0

    def characteristic_time(self, theta: Any, tol: float = 1e-4) -> float:
        """Return T* for the best arm itself (epsilon = 0), from the list of all choices, above by at most `tol`.

        Raises:
            TiedArms: elements tie at the edge of the best choice.
            InvalidInput: there are too many choices to list.
        """
        return design.characteristic_time(self.choices(), theta, tol=check_tol(tol)).value

    def lower_bound(self, theta: Any, delta: float = 0.05, noise_std: float = 1.0) -> float:
        """Return the expected pulls that no delta-correct algorithm can be below: T* sigma^2 kl(delta, 1 - delta).

        Raises:
            TiedArms: elements tie at the edge of the best choice.
            InvalidInput: there are too many choices to list.
        """
        return design.lower_bound(self.choices(), theta, delta, noise_std)

    def choices(self) -> Array:
        """Return all choices as rows (n, d), for `FiniteArms`: adapting to the results then saves pulls.

        Raises:
            InvalidInput: there are too many to list.
        """
        n_arms = math.comb(self.dim, self.k)
        if n_arms * self.dim > DESIGN_NUMBERS:
            raise InvalidInput(
                f"a list of all choices may hold {DESIGN_NUMBERS} numbers, got {n_arms} choices of {self.dim} numbers; "
                "ask for a smaller set."
            )
        return _all_choices(self.dim, self.k).copy()


def _ranked(theta: Array) -> IntArray:
    return np.argsort(-theta, kind="stable")


def _exchanged(arm: Array, leaving: IntArray, coming: IntArray) -> Array:
    rival = arm.copy()
    rival[leaving], rival[coming] = 0.0, 1.0
    return rival


def _matching_bound(gaps: Array, lengths: Array, epsilon: float) -> tuple[float, tuple[IntArray, IntArray]]:
    """Return a lower bound on Z' by the triangle inequality, and the exchanged pairs (rows, columns) that attain it.

    Let M(r) be the largest sum of (r |f_i - f_j| - gap_ij)_+ over matchings, an assignment problem, and let
    M(r) <= epsilon. Any rival is a matching with |F'(a - b)| <= sum |f_i - f_j|, so
    r |F'(a - b)| <= theta'(a - b) + M(r), hence r <= (theta'(a - b) + epsilon) / |F'(a - b)| for all of them:
    Z' >= r^2/2. The largest such r is found from above: M is convex, piecewise linear and increasing, so Newton's steps
    decrease towards it and end after finitely many. As M(r) = 0 up to the smallest gap_ij / |f_i - f_j|, the bound is
    never below the value for epsilon = 0.
    """
    ratios = (gaps + epsilon) / lengths
    level, harmless = float(ratios.min()), float((gaps / lengths).min())  # M(harmless) = 0
    first = np.unravel_index(int(np.argmin(ratios)), ratios.shape)
    pairs = (np.array([first[0]]), np.array([first[1]]))
    while True:
        surplus = np.maximum(level * lengths - gaps, 0.0)
        i, j = scipy.optimize.linear_sum_assignment(surplus, maximize=True)
        total = float(surplus[i, j].sum())
        if total <= epsilon:
            break
        used = surplus[i, j] > 0.0
        i, j = i[used], j[used]
        lower = (epsilon + float(gaps[i, j].sum())) / float(lengths[i, j].sum())
        if lower >= level:
            # Rounding alone keeps M(level) above epsilon. By convexity it is not, this much nearer to `harmless`.
            level = harmless + (level - harmless) * epsilon / total
            break
        level, pairs = lower, (i, j)
    return 0.5 * level**2, pairs


def _spread_bound(leaving: Array, coming: Array, F: Array, epsilon: float) -> tuple[float, int]:
    """Return a lower bound on Z' by the largest singular value s of F, and the number of pairs m that attains it.

    A rival with m exchanges has |a - b|^2 = 2 m, so |F'(a - b)| <= s sqrt(2 m), and loses at least what the m worst
    elements of B lead the m best others by. With F centred, this is Z' itself when A treats all elements alike.
    """
    m = np.arange(1, min(len(leaving), len(coming)) + 1)
    reach = epsilon + np.cumsum(leaving[::-1][: len(m)] - coming[: len(m)])
    ratios = reach / (float(np.linalg.norm(F, 2)) * np.sqrt(2.0 * m))
    i = int(np.argmin(ratios))
    return 0.5 * float(ratios[i]) ** 2, i + 1


@lru_cache(maxsize=4)
def _all_choices(dim: int, k: int) -> Array:
    """Return all 0/1 rows (n, d) with k ones."""
    chosen = np.array(list(combinations(range(dim), k)))
    rows = np.zeros((len(chosen), dim))
    np.put_along_axis(rows, chosen, 1.0, axis=1)
    rows.flags.writeable = False
    return rows


@lru_cache(maxsize=16)
def _circles(dim: int, k: int) -> Array:
    """Return the arms (n, d) of a round before its elements are shuffled, which leaves A's eigenvalues as they are.

    The shifts of one pattern of k ones around a circle: A is circulant, its eigenvalues the squared Fourier transform
    of the pattern. Of the window and many random patterns the one with the largest smallest eigenvalue is taken. A few
    pairs such as (4, 2) have no pattern without a zero; there a second circle in another order, the best of five,
    measures what the first cannot.
    """
    rng = np.random.default_rng([dim, k])
    patterns = np.zeros((N_PATTERNS, dim))
    patterns[0, :k] = 1.0
    for pattern in patterns[1:]:
        pattern[rng.choice(dim, k, replace=False)] = 1.0
    least = np.abs(np.fft.rfft(patterns, axis=1)).min(axis=1)
    chosen = patterns[int(np.argmax(least))]
    circle = np.array([np.roll(chosen, shift) for shift in range(dim)])
    if least.max() > 1e-6:
        return circle
    pairs = [np.vstack([circle, circle[:, rng.permutation(dim)]]) for _ in range(5)]
    return max(pairs, key=lambda rows: float(np.linalg.eigvalsh(rows.T @ rows)[0]))
