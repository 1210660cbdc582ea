"""The unit sphere as a set of arms: its optimal design, its lower bounds and the paper's rule.

Notation: as in `surepick.arms.base`; R = |theta|, a = theta/R. `sphere_oracle` has the exact statistic.

Reference: Jedra and Proutiere (2020), "Optimal Best-arm Identification in Linear Bandits", section on continuous arms.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import scipy

from surepick.arms.base import HardestRival, NamedSet
from surepick.arms.sphere_oracle import most_confusing, restricted_statistic, unit_and_norm
from surepick.core.checks import check_count, check_delta, check_noise_std, check_number, check_vector
from surepick.core.linalg import one_blas_thread
from surepick.core.thresholds import delta_at_round
from surepick.errors import InvalidInput
from surepick.types import Arm, Array


def tangents(unit: Array) -> Array:
    """Return an orthonormal basis (d - 1, d) of the vectors orthogonal to a unit vector."""
    mirror = unit.copy()
    mirror[0] += math.copysign(1.0, unit[0])  # never cancels
    reflection: Array = np.eye(len(unit)) - np.outer(mirror, mirror) * (2.0 / (mirror @ mirror))
    return reflection[1:]  # its first row is the unit vector or minus it


def check_slack(epsilon: object, description: str) -> float:
    """Return the slack as a float above 0."""
    number = check_number("epsilon", epsilon, needed="a slack above 0")
    if not number > 0.0:
        raise InvalidInput(
            f"`epsilon` must be above 0 on {description}, got {number:g}; some arms are arbitrarily close to "
            "the best, so no number of pulls can single it out: pass the loss you can accept."
        )
    return number


@final
@dataclass(frozen=True, slots=True)
class Sphere(NamedSet):
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

    kind = "sphere"
    needs_slack = True
    """Arms can be arbitrarily close to the best one."""
    dim: int

    def __post_init__(self) -> None:
        if self.dim == 1:
            raise InvalidInput(
                "`dim` must be at least 2, got 1; its two arms are a list: pass [[-1.0], [1.0]] as arms."
            )
        object.__setattr__(self, "dim", check_count("dim", self.dim, least=2))

    @property
    def description(self) -> str:
        """The name of the set in sentences."""
        return f"the unit sphere in R^{self.dim}"

    def best(self, theta: Array) -> Array:
        """Return theta/|theta|, or the first basis vector if theta is 0."""
        return unit_and_norm(theta)[0]

    def confusion(self, theta: Array, F: Array, epsilon: float) -> HardestRival:
        """Return Z', exact unless theta is 0, when it is put at 0.

        Raises:
            InvalidInput: epsilon is not above 0.
        """
        found = most_confusing(theta, F, check_slack(epsilon, self.description))
        return HardestRival(found.value, found.value > 0.0, found.rival)

    def cycle(self, number: int, seed: int) -> Array:
        """Return the basis vectors, the same in every round: all directions are measured alike."""
        return np.eye(self.dim)

    def checked(self, arm: Arm) -> Array:
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
        # A vector of length 1 to rounding stays as it is, so that an arm handed back is still the same arm.
        return vector if abs(norm - 1.0) < 1e-15 else unit

    def characteristic_time(self, theta: Any, epsilon: float) -> float:
        """Return T*: telling theta/|theta| apart takes about noise_std^2 T* log(1/delta) pulls, for small delta.

        T* = 2 (1 + sqrt(1 + (d - 1)(1 + 2 R/epsilon)))^2 / (2 R + epsilon)^2, about (d - 1)/(R epsilon) for small
        epsilon.

        Raises:
            InvalidInput: theta is 0 or epsilon is not above 0.
        """
        R, slack = self._squarable(theta, epsilon)
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
        R, slack = self._squarable(theta, epsilon)
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

    def _squarable(self, theta: Any, epsilon: float) -> tuple[float, float]:
        """Return |theta| and the slack if 1/(|theta| epsilon), the size of the answers, is a double."""
        _, R, slack = self._checked(theta, epsilon)
        if not (1e-100 <= R <= 1e100 and 1e-200 <= slack <= 1e100):
            raise InvalidInput(
                f"|theta| must be between 1e-100 and 1e100 and `epsilon` between 1e-200 and 1e100, got {R:g} and "
                f"{slack:g}; use another unit of reward."
            )
        return R, slack


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
    Proved, for t >= d and any sampling (`docs/guarantee.md`, Theorem 22), but the second condition takes of the order
    of log(1/delta)^2 pulls, thousands of times what `Sphere.confusion` needs, so the theorem on its sample complexity
    does not hold for it.

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
