"""Sub-blocks: an interval as repetitions of one plan, for noise that differs between arms or has an unknown law.

Repetitions have the same arms, each as often as in the others, so whatever they say of a difference has one law: they
can be judged by how they differ among themselves (`core.student.log_sub_block_returns`; docs/guarantee.md, Theorem
27), or if that law is symmetric by their signs and sizes (`log_symmetric_returns`; Theorem 32).
"""

import math
from collections import deque
from collections.abc import Mapping
from typing import final

from surepick.sampling.protocol import Apportions, Sampler, Situation

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

    def open(self, situation: Situation) -> int:
        """Plan an interval of about the length that the sampler wants."""
        length = self._sampler.open(situation)
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
