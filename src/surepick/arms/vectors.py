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

from surepick.core.linalg import Array


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
        ...

    @property
    def description(self) -> str:
        """What the set is called in sentences, such as "the unit sphere in R^3"."""
        ...

    @property
    def needs_slack(self) -> bool:
        """Whether only epsilon > 0 can be answered, because there are arms as close to the best as one likes."""
        ...

    def best(self, theta: Array) -> Array:
        """Return an arm (d,) with the largest theta'a; always the same one for the same theta."""
        ...

    def confusion(self, theta: Array, F: Array, epsilon: float) -> Confusion:
        """Return Z' or a lower bound on it; epsilon = 0 only if the set does not need slack."""
        ...

    def cycle(self, number: int, seed: int) -> Array:
        """Return the arms (n, d) of one round of a fixed design, number = 0, 1, 2, ...; each round alone spans R^d."""
        ...

    def checked(self, arm: Any) -> Array:
        """Return the arm as a float vector (d,), exactly as the set writes it.

        Raises:
            InvalidInput: it is not an arm of this set.
        """
        ...
