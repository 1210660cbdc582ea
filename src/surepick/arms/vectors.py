"""Sets whose arms are vectors, infinitely many or too many to number: what an algorithm may ask of them.

Notation: theta (d,) the estimate, A (d, d) its information; F (d, k) with F F' = A^-1, k >= d, so that
|F'y|^2 = y'A^-1 y; a the best arm under theta, b another arm, epsilon >= 0 the slack. The statistic of such a set is

    Z' = inf over arms b other than a of  (theta'(a - b) + epsilon)^2 / (2 |F'(a - b)|^2),

half the squared distance, in the norm of A, from theta to the parameters under which a loses epsilon to some arm. It
has no noise_std: the noise variance belongs into the threshold. Any lower bound on Z' may stand in for it: the answer
then comes later, never wrong more often.
"""

from dataclasses import dataclass
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from surepick.core.checks import check_vector
from surepick.core.evidence import glr
from surepick.core.linalg import Array
from surepick.core.rows import square_norms
from surepick.errors import InvalidInput


@final
@dataclass(frozen=True, slots=True)
class Confusion:
    """The statistic Z' of a set, or a lower bound on it."""

    value: float
    is_exact: bool
    """Whether `value` is Z' itself to rounding."""
    rival: Array
    """An arm (d,) that attains it, or about; for plots and explanations alone."""


@runtime_checkable
class VectorSet(Protocol):
    """A set of vectors that answers questions by formula."""

    @property
    def dim(self) -> int:
        """Number of features d."""

    @property
    def description(self) -> str:
        """What the set is called in sentences, such as "the unit sphere in R^3"."""

    @property
    def needs_slack(self) -> bool:
        """Whether only epsilon > 0 can be answered, because there are arms as close to the best as one likes."""

    def best(self, theta: Array) -> Array:
        """Return an arm (d,) with the largest theta'a; always the same one for the same theta."""

    def confusion(self, theta: Array, F: Array, epsilon: float) -> Confusion:
        """Return Z' or a lower bound on it; epsilon = 0 only if the set does not need slack."""

    def cycle(self, number: int, seed: int) -> Array:
        """Return the arms (n, d) of one round of a fixed design, number = 0, 1, 2, ...; each round alone spans R^d."""

    def checked(self, arm: Any) -> Array:
        """Return the arm as a float vector (d,), exactly as the set writes it.

        Raises:
            InvalidInput: it is not an arm of this set.
        """


def least_statistic(y: Array, theta: Array, F: Array, epsilon: float) -> tuple[float, int]:
    """Return the smallest (theta'y + epsilon)^2 / (2 |F'y|^2) over the rows of y (n, d), and which row has it."""
    values = glr(y @ theta, square_norms(y @ F), epsilon)
    i = int(np.argmin(values))
    return float(values[i]), i


def check_entries(arm: Any, dim: int, allowed: tuple[float, float], needed: str, advice: str) -> Array:
    """Return the arm as a float vector (d,) that has the two allowed entries only; `needed` is what texts call them."""
    vector = check_vector("arm", arm, dim)
    wrong = np.flatnonzero(~np.isin(vector, allowed))
    if wrong.size:
        i = int(wrong[0])
        raise InvalidInput(f"`arm` must have entries {needed} only, got {vector[i]:g} at position {i}; {advice}.")
    return vector
