"""The exact statistic of the unit sphere: the mirror image of the best arm that is hardest to tell from it.

Notation: as in `surepick.arms.base`; R = |theta|, a = theta/R. Every other arm is a mirror image b = a - 2 (a'w) w of
a, with |w| = 1. With p = (a'w)^2 in (0, 1] the statistic is a problem in one number:

    Z' = min over p of k(p)/phi(p),   k(p) = (2 R p + epsilon)^2 / (8 p),   phi(p) = max of w'A^-1 w over these w.

k is convex and phi concave, so there is one minimum. phi(p) <= nu - gamma p for every gamma and
nu = largest eigenvalue of A^-1 + gamma a a', hence the dual: for every gamma >= -R nu/epsilon

    Z' >= epsilon (2 R nu + epsilon gamma) / (2 nu^2),   equal at the best gamma; R epsilon lambda_min(A) at gamma = 0.

In an eigenbasis of A^-1, eigenvalues e_1 >= ... >= e_d, S1 = sum a_i^2/(nu - e_i), S2 = sum a_i^2/(nu - e_i)^2, the
pair belongs together when gamma = 1/S1, then w is parallel to (nu I - A^-1)^-1 a and p = S1^2/S2 grows with nu; the
best pair is the root of 2 R nu S1^2 + 2 epsilon S1 - epsilon nu S2, which is positive where p is too large.

Reference: Jedra and Proutiere (2020), "Optimal Best-arm Identification in Linear Bandits", section on continuous arms.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from surepick.core.linalg import one_blas_thread
from surepick.types import Array, IntArray

# Eigenvalues this close, relatively, count as equal to the largest: raising them can only lower the statistic.
SAME = 1e-12
# A root this close to a pole, relatively, is taken for the pole itself (a has no part along that eigenvector).
AT_POLE = 1e-35


def unit_and_norm(vector: Array) -> tuple[Array, float]:
    """Return the vector scaled to norm 1 and its norm, for any finite entries; of 0 the first basis vector and 0."""
    largest = float(np.abs(vector).max())
    if largest == 0.0:
        return np.eye(1, len(vector))[0], 0.0
    scaled = vector / largest  # squares of very small or large numbers leave the range
    norm = math.sqrt(float(scaled @ scaled))
    return scaled / norm, largest * norm


@final
@dataclass(frozen=True, slots=True)
class MirrorImage:
    """The most confusing arm of the unit sphere, and what proves that no other is more so."""

    value: float
    """The statistic, from the dual: never above Z' but for rounding."""
    floor: float
    """R epsilon lambda_min(A), the dual at gamma = 0."""
    p: float
    gamma: float
    nu: float
    rival: Array
    """The arm (d,)."""


class _Spectrum:
    """theta and A in an eigenbasis of A^-1, whose eigenvalues are divided by the largest.

    Differences of eigenvalues are kept, never formed as nu - e_i: the root may be closer to a pole than rounding.
    """

    def __init__(self, theta: Array, F: Array, epsilon: float) -> None:
        self.best, self.norm = unit_and_norm(theta)
        # Of F and not of A, whose condition number is the square.
        self.basis, singular, _ = np.linalg.svd(F, full_matrices=False)
        self.scale = float(singular[0])  # the square root of the largest eigenvalue of A^-1
        ratio = singular / singular[0]
        self.drop: Array = (1.0 - ratio) * (1.0 + ratio)  # e_1 - e_i
        self.drop[self.drop < SAME] = 0.0
        self.top: IntArray = np.flatnonzero(self.drop == 0.0)
        self.a: Array = self.basis.T @ self.best
        self.top_weight = float(self.a[self.top] @ self.a[self.top])
        self.epsilon = epsilon
        self.ratio = self.norm / epsilon
        self.edge = epsilon / (2.0 * self.norm) if self.norm > 0.0 else math.inf  # where k is smallest
        self.floor = (self.norm / self.scale) * (epsilon / self.scale)

    def resolvent(self, pole: int, shift: float) -> tuple[Array, float, float, float]:
        """Return (nu I - A^-1)^-1 a, nu, S1 and S2 at nu = e_pole + shift."""
        y = self.a / (self.drop - self.drop[pole] + shift)
        return y, float(1.0 - self.drop[pole]) + shift, float(self.a @ y), float(y @ y)

    def root(self) -> tuple[int, float]:
        """Return (pole, shift) of the best nu > e_2 other than e_1; p is at most too large, so gamma is admissible."""

        def too_large(pole: int, shift: float) -> bool:
            _, nu, S1, S2 = self.resolvent(pole, shift)
            # Between the poles S1 < 0 belongs to the largest eigenvalue; it tends to 0 as gamma -> -inf and p -> 0.
            return (nu >= 1.0 or S1 < 0.0) and 2.0 * S1 * (self.ratio * nu * S1 + 1.0) > nu * S2

        if self.edge >= self.top_weight:  # gamma >= 0; at nu = 2 p is always too large
            return 0, _bisect(lambda x: too_large(0, x), good=1.0, bad=AT_POLE)
        half = 0.5 * float(self.drop[1])
        if too_large(1, half):  # the root is closer to e_2
            return 1, _bisect(lambda x: too_large(1, x), good=half, bad=half * AT_POLE)
        return 0, -_bisect(lambda x: too_large(0, -x), good=half * AT_POLE, bad=half)

    def maximiser(self, y: Array, p: float, pole: int) -> Array:
        """Return the unit w parallel to y, plus what an eigenvector orthogonal to a must add to reach (a'w)^2 = p."""
        square = float(y @ y)
        missing = float(self.a @ y) ** 2 / p - square
        if missing < 1e-9 * square:  # rounding, or a relative error of 1e-9 in p, which matters to second order alone
            return y / math.sqrt(square)
        free = np.zeros(len(y))
        group = self.top if self.drop[pole] == 0.0 else np.array([pole])
        part = self.a[group]
        free[group[np.argmin(np.abs(part))]] = 1.0
        if len(group) > 1 and part.any():
            free[group] -= part * (free[group] @ part) / (part @ part)
        w = y + math.sqrt(missing / float(free @ free)) * free
        return w / math.sqrt(float(w @ w))

    def mirrored(self, w: Array) -> Array:
        """Return the arm a - 2 (a'w) w for w in the eigenbasis."""
        return self.best - self.basis @ (2.0 * float(self.a @ w) * w)


def _bisect(too_large: Callable[[float], bool], *, good: float, bad: float) -> float:
    """Return a number where p is too large, next to one where it is not, to relative precision."""
    for _ in range(60):
        middle = math.sqrt(good) * math.sqrt(bad)
        good, bad = (middle, bad) if too_large(middle) else (good, middle)
    return good


@one_blas_thread
def most_confusing(theta: Array, F: Array, epsilon: float) -> MirrorImage:
    """Return Z' of the unit sphere with its proof; epsilon > 0.

    theta = 0 has value 0, so that it never ends a search: every arm is then as good as any other.
    """
    s = _Spectrum(theta, F, epsilon)
    if s.norm == 0.0:
        return MirrorImage(0.0, 0.0, 1.0, 0.0, s.scale * s.scale, -s.best)
    if len(s.top) > 1 and s.edge <= s.top_weight:
        # The largest eigenvalue is a multiple one, and p is best inside its eigenspace.
        pole, nu, gamma, y = 0, 1.0, 0.0, np.where(s.drop == 0.0, s.a, 0.0)
    else:
        pole, shift = s.root()
        y, nu, S1, _ = s.resolvent(pole, shift)
        gamma = 1.0 / S1
    p = min(nu / (2.0 * (s.ratio * nu + gamma)), 1.0)
    value = s.floor / nu + (epsilon / s.scale) * (epsilon / s.scale) * gamma / (2.0 * nu * nu)
    unit = s.scale * s.scale
    return MirrorImage(max(value, s.floor), s.floor, p, gamma * unit, nu * unit, s.mirrored(s.maximiser(y, p, pole)))


@one_blas_thread
def restricted_statistic(theta: Array, F: Array, epsilon: float) -> float:
    """Return Z of the paper, the infimum over the arms that lose at least epsilon only; infinite if there is none."""
    s = _Spectrum(theta, F, epsilon)
    if s.edge > 1.0:
        return math.inf
    free = most_confusing(theta, F, epsilon)
    if free.gamma <= 0.0:  # the unrestricted p is at least epsilon/(2 R) already
        return free.value

    def too_large(x: float) -> bool:
        _, _, S1, S2 = s.resolvent(0, x)
        return s.edge * S2 < S1 * S1

    w = s.maximiser(s.resolvent(0, _bisect(too_large, good=1e17, bad=AT_POLE))[0], s.edge, 0)
    return s.floor / float(w @ ((1.0 - s.drop) * w))
