"""What a sampling rule is told, and what it must answer.

A learner runs in *intervals*. When one opens, the sampler plans from the context and says how long the interval is;
from then on its arms depend on no reward. The next interval may open while results of this one are pending. A sampler
that reacts to every result has intervals of one pull.

Sub-blocks: an interval as repetitions of one plan, for noise that differs between arms or has an unknown law.

Repetitions have the same arms, each as often as in the others, so whatever they say of a difference has one law: they
can be judged by how they differ among themselves (`core.student.log_sub_block_returns`; docs/guarantee.md, Theorem
27), or if that law is symmetric by their signs and sizes (`log_symmetric_returns`; Theorem 32).
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

from surepick.core.estimate import LeastSquares
from surepick.types import Array, BoolArray


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerContext:
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

    def open(self, context: SamplerContext) -> int:
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
        """Take note that the next pulls are of these arms, planned by another sampler in the same context."""
        ...


# Repetitions of an interval. The more, the better they say how large the noise is: with three, four and eight 15, 12
# and 6 % of a small difference are lost. But each has to hold all arms that are needed, and short intervals have few
# pulls: with at most 4, 5, 6, 8 and 16 the problems of `benchmarks.trust` needed 1094, 1091, 1056, 1147, 1167 (+- 80)
# and 642, 742, 792, 857, 1069 (+- 60) pulls, 40 to 60 runs each.
FEWEST, MOST = 3, 4


@final
class SubBlocks(Sampler):
    """A sampler whose intervals are planned once and measured several times over.

    Args:
        sampler: chooses the arms of a plan; every stretch of its arms has about the proportions that it wants.
        dim: number of features: a plan has so many arms at least, unless the interval was to be shorter.
    """

    def __init__(self, sampler: Sampler, dim: int) -> None:
        self._sampler, self._dim = sampler, dim
        self._left: deque[int] = deque()
        self.n_parts = 1
        """Repetitions in the newest interval."""

    def open(self, context: SamplerContext) -> int:
        """Plan an interval of about the length that the sampler wants."""
        length = self._sampler.open(context)
        self.n_parts = min(max(length // self._dim, FEWEST), MOST)
        n = max(math.ceil(length / self.n_parts), min(length, self._dim))
        self._left = deque([self._sampler.next() for _ in range(n)] * self.n_parts)
        return len(self._left)

    def next(self) -> int:
        """Return the next arm of the interval; beyond its end, the sampler's."""
        return self._left.popleft() if self._left else self._sampler.next()

    def pulls_per_nat(self) -> float:
        """Return what the sampler says."""
        return self._sampler.pulls_per_nat()

    def planned(self) -> Mapping[int, float]:
        """Return what the sampler planned: one repetition of each interval, in the proportions of all."""
        return self._sampler.planned() if isinstance(self._sampler, Apportions) else {}
