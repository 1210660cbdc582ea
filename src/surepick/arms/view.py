"""A learner's view of its arms, and its task: what may be measured, what is compared, and how sure to be.

Two kinds of set, one view: rows that have numbers (`whitening`) and vectors that get one when they are first named
(`numbered`). Inside a learner an arm is its number; users see what `arm_of` gives.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from surepick.arms.numbered import NumberedVectors
from surepick.arms.protocol import ArmSet
from surepick.arms.scaled import divided
from surepick.arms.whitening import WhitenedArms
from surepick.core.design.generation import frame_of, spanning_arms
from surepick.core.linalg import Array, IntArray
from surepick.errors import InvalidInput

ArmView = WhitenedArms | NumberedVectors
"""Arms in whitened coordinates; what the two share is all that a learner asks without looking which it has."""


@final
@dataclass(frozen=True, kw_only=True)
class Task:
    """What an algorithm is composed for, and a stopping rule started on."""

    arms: ArmView
    """What may be measured."""
    candidates: ArmView
    """What is compared: the same object, unless something else is."""
    delta: float
    given_noise_std: float | None
    """Sub-Gaussian scale of the noise; None: Gaussian noise of one unknown level."""
    epsilon: float
    seed: int
    reward_range: tuple[float, float] | None = None
    """Smallest and largest possible reward, if rewards have bounds; then `noise_std` is half their distance."""
    misfit: float = 0.0
    """How far the mean of an arm may be off its linear fit."""
    m: int = 1
    """How many of the best are sought."""
    costs: Array | None = None
    """What a pull of each arm (K,) costs; None: all the same."""

    @property
    def noise_std(self) -> float:
        """The scale of the noise, for those who cannot do without it."""
        if self.given_noise_std is None:
            raise InvalidInput("`noise_std` must be given here; nothing else than its level makes sense of this rule.")
        return self.given_noise_std

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

    def priced(self, arms: ArmSet) -> ArmSet:
        """Return the arms as designs see them: what a unit of cost buys of each (docs/guarantee.md, Theorem 29)."""
        return arms if self.costs is None else divided(arms, np.sqrt(self.costs))

    @cached_property
    def spanning(self) -> IntArray:
        """D arms of large volume for their cost, in increasing order: what a practical variant pulls first."""
        priced = self.priced(self.rows)
        return spanning_arms(priced, frame_of(priced))


def as_rows(view: ArmView) -> WhitenedArms:
    """Return the view, if its arms are rows."""
    if not isinstance(view, WhitenedArms):
        raise InvalidInput(f'a list of arms is needed, got {view.description}; use "lazy-track-and-stop".')
    return view
