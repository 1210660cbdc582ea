"""G-allocation (Soare, Lazaric and Munos 2014): know every arm equally well, whatever the rewards are.

    sampling        a fixed design that makes the largest x'A^-1 x over the arms small
    stopping        when the leader is ahead of everyone by more than the width of the difference
    recommendation  the leader

Practical: a spanning set, then the certified G-optimal design is tracked; betting decides. `variant="paper"`: arm by
arm the pull after which the largest x'A^-1 x is smallest, and the paper's constants (`rules.fixed_design`). Above 447
arms (a table of 200,000 numbers per pull) the paper variant too tracks the certified design, as the authors allow.

A static allocation spends its pulls on directions that do not matter for the answer; it is here to be compared with.
Elimination can only serve the stopping rule.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from surepick.rules.choice import ScheduleOption, Stopping, Variant, check_variant, spanning_start, stopping_rule
from surepick.rules.fixed_design import (
    LARGEST_TABLE,
    FixedSampler,
    GreedyAllocation,
    Source,
    Tracked,
    union_rule,
)
from surepick.rules.parts import Ground, Rule


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GStatic:
    """Options of the algorithm; None stands for the variant's own choice.

    Args:
        variant: "practical", or "paper" for the published allocation and constants.
        stopping: the rule that decides; None in the paper variant is the paper's own.
        schedule: when blocks end under the betting rule; changes no arm.
        elimination: an alternative once refuted stays refuted; betting always does so.
    """

    variant: Variant = "practical"
    stopping: Stopping | None = None
    schedule: ScheduleOption = None
    elimination: bool = False

    def compose(self, ground: Ground) -> tuple[FixedSampler, Rule]:
        """Return the sampling rule and the stopping rule."""
        is_paper = check_variant(self.variant)
        start, arms = spanning_start(ground), ground.arms
        if is_paper and self.stopping is None:
            rule: Rule = union_rule(ground, elimination=self.elimination)
        else:
            rule = stopping_rule(self.stopping or "betting", ground, start=start, elimination=self.elimination)
        source: Source
        if is_paper and arms.n_arms**2 <= LARGEST_TABLE:
            source = GreedyAllocation(arms, arms.gather(np.arange(arms.n_arms)))
        else:
            source = Tracked(arms.design)
        least = arms.dim if rule.name == "betting" else 1
        return FixedSampler(start, source, schedule=self.schedule, least=least), rule
