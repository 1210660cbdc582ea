"""What a sampling rule is told, and what it must answer.

A learner runs in *intervals*. When one opens, the sampler plans from the situation and says how long the interval is;
from then on its arms depend on no reward. The next interval may open while results of this one are pending. A sampler
that reacts to every result has intervals of one pull.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

from surepick.core.estimate import LeastSquares
from surepick.core.linalg import Array, BoolArray


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a sampler may know when an interval opens."""

    n_pulls: int
    """Results so far."""
    n_asked: int
    """The same, and those still to come."""
    theta: Array | None
    """Estimate in whitened coordinates; None before the pulled arms span."""
    leaders: tuple[int, ...]
    """The candidates that would be the answer now, the best first; none before the pulled arms span."""
    alive: BoolArray | None
    """Candidates the leaders have yet to be separated from; None means all."""
    estimate: LeastSquares
    """All results so far, in whitened coordinates; to be read in `open` alone, never changed: it goes on growing."""
    pending: Mapping[int, int]
    """Asks per arm that are not told: pending, or failed and to be made again."""
    stds: Array | None = None
    """How noisy each arm (K,) seems beside the others, if they may differ."""

    @property
    def leader(self) -> int | None:
        """The first of the leaders."""
        return self.leaders[0] if self.leaders else None


class Sampler(Protocol):
    """Chooses arms; looks at results only when an interval opens."""

    def open(self, situation: Situation) -> int:
        """Plan an interval and return how many pulls it has."""
        ...

    def next(self) -> int:
        """Return the next arm; may not depend on rewards told since `open`."""
        ...

    def pulls_per_nat(self) -> float:
        """Return how many pulls one unit of evidence costs by the current plan, for noise_std 1; inf if unknown."""
        return math.inf


@runtime_checkable
class Apportions(Protocol):
    """A sampler that follows designs and can say what they ask for."""

    def planned(self) -> Mapping[int, float]:
        """Return how the pulls so far should be apportioned to arms; in any unit."""
        ...


@runtime_checkable
class Follows(Protocol):
    """A sampler that can take over many arms at once, in less time than by choosing them again."""

    def follow(self, arms: Sequence[int]) -> None:
        """Take note that the next pulls are of these arms, planned by another sampler in the same situation."""
        ...
