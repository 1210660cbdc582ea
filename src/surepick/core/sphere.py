"""The unit sphere as a set of arms: its exact statistic, its optimal design, its lower bounds and the paper's rule.

Notation: as in `vectors`; R = |theta|, a = theta/R. Every other arm is a mirror image b = a - 2 (a'w) w of a, with
|w| = 1. With p = (a'w)^2 in (0, 1] the statistic is a problem in one number:

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
from typing import Any, Literal, final

import numpy as np
import scipy

from surepick.core.checks import check_count, check_delta, check_epsilon, check_noise_std, check_vector
from surepick.core.linalg import Array, IntArray, one_blas_thread
from surepick.core.thresholds import delta_at_round
from surepick.core.vectors import Confusion
from surepick.errors import InvalidInput

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


def tangents(unit: Array) -> Array:
    """Return an orthonormal basis (d - 1, d) of the vectors orthogonal to a unit vector."""
    mirror = unit.copy()
    mirror[0] += math.copysign(1.0, unit[0])  # never cancels
    reflection: Array = np.eye(len(unit)) - np.outer(mirror, mirror) * (2.0 / (mirror @ mirror))
    return reflection[1:]  # its first row is the unit vector or minus it


def check_slack(epsilon: object, description: str) -> float:
    """Return the slack as a float above 0."""
    number = check_epsilon(epsilon)
    if number == 0.0:
        raise InvalidInput(
            f"`epsilon` must be above 0 on {description}, got 0; some arms are as close to the best as one likes, so "
            "no number of pulls can single it out: pass the loss you can accept."
        )
    return number


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
        rival: Array = self.best - self.basis @ (2.0 * float(self.a @ w) * w)
        return rival


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
        return S1 * S1 > s.edge * S2

    w = s.maximiser(s.resolvent(0, _bisect(too_large, good=1e17, bad=AT_POLE))[0], s.edge, 0)
    return s.floor / float(w @ ((1.0 - s.drop) * w))


@final
@dataclass(frozen=True, slots=True)
class Sphere:
    """All vectors of length 1 in R^dim, dim >= 2.

    Args:
        dim: number of features. The "sphere" of one feature is the two arms -1 and +1, which are better listed.

    Raises:
        InvalidInput: dim is below 2 or not whole.

    >>> Sphere(2).best(np.array([3.0, 4.0]))
    array([0.6, 0.8])
    >>> round(Sphere(2).confusion(np.array([3.0, 4.0]), np.eye(2) / 10.0, epsilon=0.1).value, 9)
    50.0
    """

    dim: int

    def __post_init__(self) -> None:
        if self.dim == 1:
            raise InvalidInput(
                "`dim` must be at least 2, got 1; its two arms are a list: pass [[-1.0], [1.0]] as arms."
            )
        object.__setattr__(self, "dim", check_count("dim", self.dim, least=2))

    @property
    def description(self) -> str:
        """What the set is called in sentences."""
        return f"the unit sphere in R^{self.dim}"

    @property
    def needs_slack(self) -> bool:
        """True: there are arms as close to the best as one likes."""
        return True

    def best(self, theta: Array) -> Array:
        """Return theta/|theta|, or the first basis vector if theta is 0."""
        return unit_and_norm(theta)[0]

    def confusion(self, theta: Array, F: Array, epsilon: float) -> Confusion:
        """Return Z', exact unless theta is 0, when it is put at 0.

        Raises:
            InvalidInput: epsilon is not above 0.
        """
        found = most_confusing(theta, F, check_slack(epsilon, self.description))
        return Confusion(found.value, found.value > 0.0, found.rival)

    def cycle(self, number: int, seed: int) -> Array:
        """Return the basis vectors, the same in every round: all directions are measured alike."""
        return np.eye(self.dim)

    def checked(self, arm: Any) -> Array:
        """Return the arm scaled to length 1.

        Raises:
            InvalidInput: its length differs from 1 by more than 1e-6.
        """
        vector = check_vector("arm", arm, self.dim)
        unit, norm = unit_and_norm(vector)
        if abs(norm - 1.0) > 1e-6:
            raise InvalidInput(
                f"`arm` must have length 1 to be on {self.description}, got length {norm:g}; divide it by its length."
            )
        # What has length 1 to rounding stays as it is, so that an arm handed back is still the same arm.
        return vector if abs(norm - 1.0) < 1e-15 else unit

    def characteristic_time(self, theta: Any, epsilon: float) -> float:
        """Return T*: telling theta/|theta| apart takes about noise_std^2 T* log(1/delta) pulls, for small delta.

        T* = 2 (1 + sqrt(1 + (d - 1)(1 + 2 R/epsilon)))^2 / (2 R + epsilon)^2, about (d - 1)/(R epsilon) for small
        epsilon.

        Raises:
            InvalidInput: theta is 0 or epsilon is not above 0.
        """
        _, R, slack = self._checked(theta, epsilon)
        inner = math.sqrt(1.0 + (self.dim - 1) * (1.0 + 2.0 * R / slack))
        ratio = (1.0 + inner) / (2.0 * R + slack)
        return 2.0 * ratio * ratio

    def optimal_weights(self, theta: Any, epsilon: float) -> tuple[Array, Array]:
        """Return arms (d, d) and shares of pulls (d,) that attain T*: the best arm, then directions orthogonal to it.

        Raises:
            InvalidInput: theta is 0 or epsilon is not above 0.
        """
        best, R, slack = self._checked(theta, epsilon)
        first = 1.0 / math.sqrt(1.0 + (self.dim - 1) * (1.0 + 2.0 * R / slack))
        weights = np.full(self.dim, (1.0 - first) / (self.dim - 1))
        weights[0] = first
        return np.vstack([best, tangents(best)]), weights

    def lower_bound(
        self,
        theta: Any,
        epsilon: float,
        delta: float = 0.05,
        noise_std: float = 1.0,
        constant: Literal["sharp", "paper"] = "sharp",
    ) -> float:
        """Return a number of pulls that no (epsilon, delta)-PAC algorithm undercuts on average, with Gaussian noise.

        With kl = (1 - 2 delta) log((1 - delta)/delta), or 0 for a risk of one half or more:

        "sharp": 2 noise_std^2 (d - 1) kl / (R tan angle)^2, proved for every epsilon < R. The angle is the smallest by
        which theta must turn, and grow by 1/cos(angle), until no arm is epsilon-optimal before and after: the root of
        angle = arccos(1 - x) + arccos(1 - x cos(angle)), x = epsilon/R.

        "paper": noise_std^2 (d - 1) kl / (20 R epsilon), proved for epsilon < R/5; smaller.

        Raises:
            InvalidInput: theta is 0, or epsilon is outside the range of the proof.
        """
        _, R, slack = self._checked(theta, epsilon)
        delta, noise_std = check_delta(delta), check_noise_std(noise_std)
        if constant not in ("sharp", "paper"):
            raise InvalidInput(f'`constant` must be "sharp" or "paper", got {constant!r}; pass one of them.')
        limit = R if constant == "sharp" else R / 5.0
        if slack >= limit:
            raise InvalidInput(
                f'`epsilon` must be below {limit:g} for the "{constant}" bound at |theta| = {R:g}, got {slack:g}; no '
                "bound is proved there, ask for a smaller epsilon."
            )
        kl = (1.0 - 2.0 * delta) * math.log((1.0 - delta) / delta) if delta < 0.5 else 0.0
        pulls = noise_std**2 * (self.dim - 1) * kl
        if constant == "paper":
            return pulls / (20.0 * R * slack)
        return 2.0 * pulls / (R * math.tan(_disjoint_angle(slack / R))) ** 2

    def _checked(self, theta: Any, epsilon: float) -> tuple[Array, float, float]:
        best, R = unit_and_norm(check_vector("theta", theta, self.dim))
        if R == 0.0:
            raise InvalidInput("`theta` must not be 0, got only zeros; all arms are then equally good.")
        return best, R, check_slack(epsilon, self.description)


def _disjoint_angle(x: float) -> float:
    """Return the root of angle = arccos(1 - x) + arccos(1 - x cos(angle)) in (0, pi/2), for 0 < x < 1."""

    def cap(height: float) -> float:
        return 2.0 * math.asin(math.sqrt(0.5 * height))  # arccos(1 - height), with all digits for small ones

    def excess(angle: float) -> float:
        return angle - cap(x) - cap(x * math.cos(angle))

    if excess(0.5 * math.pi) <= 0.0:  # x is 1 to rounding
        return 0.5 * math.pi
    return float(scipy.optimize.brentq(excess, 0.0, 0.5 * math.pi, xtol=1e-300, rtol=1e-15))


@final
@dataclass(frozen=True, slots=True)
class PrintedReading:
    """The two conditions of the paper's stopping rule on the sphere; both must hold."""

    statistic: float
    """Z, infinite if |theta| < epsilon_t/2."""
    threshold: float
    information: float
    """The smallest eigenvalue of A: pulls of the least pulled basis vector, when basis vectors are pulled."""
    information_needed: float

    @property
    def is_reached(self) -> bool:
        """Whether the rule stops."""
        return self.statistic >= self.threshold and self.information >= self.information_needed


@one_blas_thread
def printed_rule(
    n_pulls: int, theta: Array, F: Array, *, epsilon: float, delta: float, noise_std: float
) -> PrintedReading:
    """Return the paper's stopping rule on the unit sphere as printed, with c = 1 and delta_t = 6 delta/(pi t)^2.

    With zeta = log(2 det(A + I)^(1/2)/delta_t) and epsilon_t = epsilon/(1 + epsilon/sqrt(L)),
    L = 4 noise_std^2 log(4 ceil(t/d)/delta_t), it asks for Z >= 2 noise_std^2 zeta over the arms that lose at least
    epsilon_t, and for lambda_min(A) >= max(1, 4 noise_std^2 zeta (epsilon_t/(epsilon - epsilon_t))^2 / |theta|^2).
    Proved, for t >= d, but the second condition takes of the order of log(1/delta)^2 pulls, thousands of times what
    `Sphere.confusion` needs, so the theorem on its sample complexity does not hold for it.

    Raises:
        InvalidInput: fewer pulls than features, or a parameter outside its range.
    """
    dim = len(theta)
    t = check_count("n_pulls", n_pulls, least=dim)
    slack, delta, noise_std = check_slack(epsilon, "the unit sphere"), check_delta(delta), check_noise_std(noise_std)
    risk = float(delta_at_round(t, delta=delta))
    L = 4.0 * noise_std**2 * math.log(4.0 * -(-t // dim) / risk)
    epsilon_t = slack / (1.0 + slack / math.sqrt(L))
    singular = np.linalg.svd(F, compute_uv=False)
    zeta = math.log(2.0 / risk) + 0.5 * float(np.log1p(singular**-2.0).sum())
    R = unit_and_norm(theta)[1]
    # (epsilon_t/(epsilon - epsilon_t))^2 is L/epsilon^2; the difference itself would lose digits.
    root = 2.0 * noise_std * math.sqrt(zeta * L) / slack / R if R > 0.0 else math.inf
    return PrintedReading(
        statistic=restricted_statistic(theta, F, epsilon_t),
        threshold=2.0 * noise_std**2 * zeta,
        information=float(singular[0]) ** -2.0,
        information_needed=max(1.0, root * root),
    )
