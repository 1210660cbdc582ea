"""A learner's view of its arms, and its task: what may be measured, what is compared, and how sure to be.

Two kinds of set, one view: rows that have numbers (`whitening`) and vectors that get one when they are first named
(`numbered`). Inside a learner an arm is its number; users see what `arm_of` gives.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, final

from surepick.arms.numbered import NumberedVectors
from surepick.arms.whitening import WhitenedArms
from surepick.core.design.generation import frame_of, spanning_arms
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import Array, IntArray
from surepick.errors import InvalidInput


class ArmView(Protocol):
    """What every view of arms can do, in whitened coordinates."""

    dim: int

    @property
    def n_arms(self) -> int:
        """Number of arms; of those named so far where they cannot be listed."""
        ...

    @property
    def is_listed(self) -> bool:
        """Whether the arms are rows that can be gone through, here or on a cluster."""
        ...

    @property
    def keeps_numbers(self) -> bool:
        """Whether a number for every arm can be kept here."""
        ...

    @property
    def description(self) -> str:
        """What the set is called in messages."""
        ...

    @property
    def names(self) -> tuple[str, ...] | None:
        """The arms' names, if they have any."""
        ...

    def identity(self) -> str:
        """Return what tells these arms from others: the same text, the same arms."""
        ...

    def number_of(self, arm: Any) -> int:
        """Return the number of what the user calls an arm."""
        ...

    def arm_of(self, number: int) -> Any:
        """Return what the user calls the arm with this number."""
        ...

    def key_of(self, number: int) -> Any:
        """Return the same in a form that can be written down and compared."""
        ...

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the arms with these numbers, (n, d)."""
        ...

    def best(self, theta: Array) -> int:
        """Return the number of the arm with the largest theta'x."""
        ...

    def theta_to_user(self, theta: Array) -> Array:
        """Return a whitened parameter in the user's coordinates."""
        ...

    def largest_loss(self, leader: int, estimate: LeastSquares, /, *, delta: float, noise_std: float) -> float:
        """Return what the leader can be losing at most, with probability 1 - delta for all times together."""
        ...


@final
@dataclass(frozen=True, kw_only=True)
class Task:
    """What an algorithm is composed for, and a stopping rule started on."""

    arms: ArmView
    """What may be measured."""
    candidates: ArmView
    """What is compared: the same object, unless something else is."""
    delta: float
    noise_std: float
    epsilon: float
    seed: int

    @property
    def rows(self) -> WhitenedArms:
        """The arms as rows that have numbers."""
        return as_rows(self.arms)

    @property
    def rivals(self) -> WhitenedArms:
        """The candidates as rows that have numbers."""
        return as_rows(self.candidates)

    @property
    def vectors(self) -> NumberedVectors:
        """The candidates as vectors that get numbers when they are named."""
        if not isinstance(self.candidates, NumberedVectors):
            raise InvalidInput(f"a set of vectors such as a sphere is needed, got {self.candidates.description}.")
        return self.candidates

    @cached_property
    def spanning(self) -> IntArray:
        """D arms of large volume, in increasing order: what a practical variant pulls first."""
        return spanning_arms(self.rows, frame_of(self.rows))


def as_rows(view: ArmView) -> WhitenedArms:
    """Return the view, if its arms are rows."""
    if not isinstance(view, WhitenedArms):
        raise InvalidInput(f'a list of arms is needed, got {view.description}; use "lazy-track-and-stop".')
    return view
