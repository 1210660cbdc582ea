"""Whitening: the coordinates in which the G-optimal design has identity information.

Notation: T (d, d) the map, white rows = rows @ T, white theta = T^-1 theta. In these coordinates nothing depends on
how the user scaled or mixed the features, and A = n I after n pulls of the G-optimal design. The arms are not copied:
the view maps the arguments of every oracle instead of the rows.
"""

import reprlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TypeVar, final

import numpy as np

from surepick.arms.loss import largest_loss_bound
from surepick.arms.protocol import ArmSet, Arrays, PairForms, PairScore, Rivals
from surepick.arms.scaled import divided
from surepick.core.checks import check_count
from surepick.core.design import Design, optimal_design
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import Array, BoolArray, IntArray, triangular, upper_inverse
from surepick.core.sizes import check_distinct, check_features
from surepick.errors import InvalidInput

T = TypeVar("T")

# Numbers in a table of arms above which passes over it take most of the time.
LARGE = 2_000_000


@final
class WhitenedArms(ArmSet):
    """A view of rows in whitened coordinates, answering the same oracles as the rows themselves.

    Args:
        arms: the rows to look at: the arms, or candidates with the same features.
        back: R (d, d) upper triangular with R'R = the information matrix that becomes the identity.
        design: the G-optimal design of the arms.
        stds: standard deviations (K,) that the rows were divided by, if arms differ in noise.
    """

    def __init__(self, arms: ArmSet, back: Array, design: Design, stds: Array | None = None) -> None:
        self.arms, self.back, self.design, self.stds = arms, back, design, stds
        self.n_arms, self.dim = arms.n_arms, arms.dim
        self.map = upper_inverse(back)
        self.names, self.keeps_numbers = arms.names, arms.keeps_numbers
        self.is_listed = True
        self.description = f"{self.n_arms} arms"

    def view_of(self, candidates: ArmSet) -> "WhitenedArms":
        """Return other rows with the same features in the same coordinates.

        Raises:
            InvalidInput: different rows are too close together to be compared, see `core.sizes`.
        """
        check_distinct("candidates", candidates, self.back)
        return WhitenedArms(candidates, self.back, self.design)

    def number_of(self, arm: object) -> int:
        """Return the row number of what the user calls an arm: that very number, or its name."""
        if type(arm) is int and 0 <= arm < self.n_arms:
            return arm
        if isinstance(arm, str) and self.names is not None:
            if arm not in self._numbers:
                raise InvalidInput(
                    f"`arm` must name an arm, got {arm!r}; use one of the arms' names, such as {self.names[0]!r}."
                )
            return self._numbers[arm]
        with suppress(InvalidInput):
            number = check_count("arm", arm, least=0)
            if number < self.n_arms:
                return number
        why = " (the arms have no names)" if isinstance(arm, str) else ""
        raise InvalidInput(
            f"`arm` must be a row number between 0 and {self.n_arms - 1}{why}, got {reprlib.repr(arm)}; correct it."
        )

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names or ())}

    def arm_of(self, number: int) -> int:
        """Return what the user calls this arm: its row number."""
        return number

    key_of = arm_of

    def theta_to_user(self, theta: Array) -> Array:
        """Return a whitened parameter in the user's coordinates."""
        return self.map @ theta

    def theta_from_user(self, theta: Array) -> Array:
        """Return a parameter of the user's coordinates in whitened ones."""
        return self.back @ theta

    def from_user(self, A: Array) -> Array:
        """Return an information matrix of the user's coordinates in whitened ones."""
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused by whoever factors it
            return self.map.T @ A @ self.map

    def metric(self) -> Array:
        """Return what the identity of the user's coordinates, as an information matrix, becomes here."""
        return self.map.T @ self.map

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the arms with these row numbers, (n, d)."""
        return self.arms.gather(index) @ self.map

    def chunks(self) -> Iterator[tuple[int, Array]]:
        """Yield (first row number, rows) over all arms in order."""
        for start, rows in self.arms.chunks():
            yield start, rows @ self.map

    def triangle(self) -> Array:
        """Return R (d, d), upper triangular with R'R = X'X."""
        return triangular(self.arms.triangle() @ self.map)

    def digest(self) -> bytes:
        """Return the hash of the arms as they were given."""
        return self.arms.digest()

    @cached_property
    def level(self) -> Array:
        """The direction u (d,) of a common level of all arms: least squares of x'u = 1 by the G-optimal design."""
        support, weights = self.design.support, self.design.weights
        # Their information is the identity; a row that was divided has the level of one over the divisor.
        level: Array = (weights if self.stds is None else weights / self.stds[support]) @ self.gather(support)
        # Arms around 0 have none, and what rounding leaves of it would make bets by chance. Arms are of size sqrt(d).
        return level if np.linalg.norm(level) > 1e-9 * self.dim**0.5 else np.zeros(self.dim)

    def identity(self) -> str:
        """Return what tells these rows from others."""
        return self.digest().hex()

    def copies(self, arm: int) -> IntArray:
        """Return the rows equal to this one, itself included, in increasing order."""
        return self.arms.copies(arm)

    def best(self, theta: Array, among: BoolArray | None = None) -> int:
        """Return the arm with the largest theta'x; of equals, the lowest row number. `among`: look at these alone."""
        return self.arms.best(self.map @ theta, among)

    def top_quadratic(self, F: Array, n: int) -> tuple[IntArray, Array]:
        """Return the n arms with the largest |F'x|^2 and these values, largest first."""
        return self.arms.top_quadratic(self.map @ F, n)

    def rivals(
        self, leader: int, theta: Array, factors: Arrays, score: PairScore, n: int, among: BoolArray | None = None
    ) -> Rivals:
        """Return the n arms other than `leader` with the smallest score, see `ArmSet.rivals`."""
        return self.arms.rivals(leader, self.map @ theta, [self.map @ F for F in factors], score, n, among)

    def largest_loss(
        self, leader: int, estimate: LeastSquares, *, delta: float, noise_std: float, among: BoolArray | None = None
    ) -> float:
        """Return what the leader can be losing at most, with probability 1 - delta for all times together; one scan.

        `among`: to these alone.
        """
        _, bound = largest_loss_bound(
            self, leader, estimate.theta, estimate.A, delta=delta, noise_std=noise_std, among=among
        )
        return max(0.0, bound)

    def pair_forms(
        self, leader: int, vectors: Arrays, factors: Arrays, among: BoolArray, work: Callable[[PairForms], T]
    ) -> Iterator[T]:
        """Yield work(forms of y = leader - arm) for all arms of `among`, see `ArmSet.pair_forms`."""
        vectors, factors = [self.map @ u for u in vectors], [self.map @ F for F in factors]
        return self.arms.pair_forms(leader, vectors, factors, among, work)


def whiten(arms: ArmSet, stds: Array | None = None) -> WhitenedArms:
    """Return the arms in coordinates where their G-optimal design has identity information.

    Args:
        arms: the rows.
        stds: standard deviations (K,) of the noise of each, by which rows, and their rewards, are divided.

    Raises:
        InvalidInput: features are too large or too small, or different arms too close together, see `core.sizes`.
    """
    if stds is not None:
        arms = divided(arms, stds)
        check_features(arms.triangle())
    # Any regular design gives valid coordinates; over a large table a closer one costs passes and gains nothing.
    design = optimal_design(arms, tol=1e-4 if arms.n_arms * arms.dim <= LARGE else 1e-2)
    # R'R = A(w) by QR, which does not square the condition number.
    back = triangular(np.sqrt(design.weights)[:, None] * arms.gather(design.support))
    check_distinct("arms", arms, back)
    return WhitenedArms(arms, back, design, stds)
