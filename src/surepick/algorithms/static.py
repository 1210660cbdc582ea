"""Static allocations: pulls that depend on no reward. Here to be compared with.

    uniform     arm 0, 1, ..., K - 1, 0, 1, ...: the plainest thing there is
    g-static    a fixed design that makes the largest x'A^-1 x over the arms small: know every arm equally well
    xy-static   a fixed design that makes the largest y'A^-1 y over all differences small: know every difference equally
                well, yet blind to which of them matter

Practical: a spanning set first, then arms in turn, or the certified design is tracked (for xy-static the differences
that matter are generated, never all K^2 of them); betting decides. `variant="paper"`: for the two designs arm by arm
the pull after which the largest form is smallest, and the constants of Soare, Lazaric and Munos (2014)
(`sampling.fixed`); above 200,000 pairs (arm, direction), i.e. 447 arms for g-static and 74 for xy-static, the paper
variant too tracks the certified design, as the authors allow. For uniform it is the column of published comparisons
(Wang, Tzeng and Proutiere 2021): no spanning start, and the rule log((1 + log t)/delta) of Garivier and Kaufmann
(2016), which is not proved.

Elimination can only serve the stopping rule.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from surepick.algorithms.options import Options
from surepick.arms.views import Task
from surepick.core.design.solve import pairwise_design
from surepick.sampling.fixed import (
    LARGEST_TABLE,
    FixedSampler,
    GreedyAllocation,
    InTurn,
    Source,
    differences,
    union_rule,
)
from surepick.sampling.tracking import Tracker
from surepick.stopping.base import Rule


@final
@dataclass(frozen=True, kw_only=True)
class Uniform(Options):
    """Every arm in turn."""

    takes_vector_candidates: ClassVar[bool] = True
    supports_top_m: ClassVar[bool] = True

    def compose(self, task: Task) -> tuple[FixedSampler, Rule]:
        """Return the sampling rule and the stopping rule."""
        rule = self.rule("heuristic" if self.is_paper else "betting")
        n_arms = task.rows.n_arms
        start = range(n_arms) if self.is_paper else task.spanning.tolist()
        return FixedSampler(start, InTurn(n_arms), rule=rule, least=rule.min_block(task), schedule=self.schedule), rule


@dataclass(frozen=True, kw_only=True)
class _Static(Options, ABC):
    """A fixed design after a spanning set."""

    def compose(self, task: Task) -> tuple[FixedSampler, Rule]:
        """Return the sampling rule and the stopping rule."""
        own = union_rule(task, elimination=bool(self.elimination))
        rule = own if self.is_own_rule else self.rule("betting")
        source = self.source(task)
        return FixedSampler(task.spanning, source, rule=rule, least=rule.min_block(task), schedule=self.schedule), rule

    @abstractmethod
    def source(self, task: Task) -> Source:
        """Return the sequence of arms after the start."""


@final
@dataclass(frozen=True, kw_only=True)
class GStatic(_Static):
    """A fixed design that resolves every arm."""

    takes_vector_candidates: ClassVar[bool] = True
    supports_top_m: ClassVar[bool] = True

    def source(self, task: Task) -> Source:
        """Return the sequence of arms after the start."""
        arms = task.rows
        if self.is_paper and arms.n_arms**2 <= LARGEST_TABLE:
            rows = arms.gather(np.arange(arms.n_arms))
            return GreedyAllocation(rows, rows)
        return Tracker.of(arms.design)


@final
@dataclass(frozen=True, kw_only=True)
class XYStatic(_Static):
    """A fixed design that resolves every difference."""

    def source(self, task: Task) -> Source:
        """Return the sequence of arms after the start."""
        arms, candidates = task.rows, task.rivals
        n = candidates.n_arms
        if self.is_paper and arms.n_arms * n * (n - 1) // 2 <= LARGEST_TABLE:
            return GreedyAllocation(arms.gather(np.arange(arms.n_arms)), differences(candidates))
        return Tracker.of(pairwise_design(arms, candidates.gather(np.arange(n))))
