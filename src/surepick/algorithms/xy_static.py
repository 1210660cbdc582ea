"""XY-allocation (Soare, Lazaric and Munos 2014): know every difference equally well, whatever the rewards are.

    sampling        a fixed design that makes the largest y'A^-1 y over all differences y = z - z' small
    stopping        when the leader is ahead of everyone by more than the width of the difference
    recommendation  the leader

Practical: a spanning set, then the certified design for all differences is tracked (the differences that matter are
generated, never all K^2 of them); betting decides. `variant="paper"`: arm by arm the pull after which the largest
y'A^-1 y is smallest, and the paper's constants (`rules.fixed_design`). Where arms times differences exceed 200,000
(above 74 arms that are the candidates too) the paper variant too tracks the certified design, as the authors allow.

Better than the G-allocation where only differences count, yet blind to which of them do. Elimination can only serve the
stopping rule.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from surepick.core.design.pairs import pairwise_design
from surepick.rules.choice import ScheduleOption, Stopping, Variant, check_variant, spanning_start, stopping_rule
from surepick.rules.fixed_design import (
    LARGEST_TABLE,
    FixedSampler,
    GreedyAllocation,
    Source,
    Tracked,
    differences,
    union_rule,
)
from surepick.rules.parts import Ground, Rule


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class XYStatic:
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
        start, arms, candidates = spanning_start(ground), ground.arms, ground.candidates
        if is_paper and self.stopping is None:
            rule: Rule = union_rule(ground, elimination=self.elimination)
        else:
            rule = stopping_rule(self.stopping or "betting", ground, start=start, elimination=self.elimination)
        source: Source
        if is_paper and arms.n_arms * candidates.n_arms * (candidates.n_arms - 1) // 2 <= LARGEST_TABLE:
            source = GreedyAllocation(arms, differences(candidates))
        else:
            source = Tracked(pairwise_design(arms, candidates.gather(np.arange(candidates.n_arms))))
        least = arms.dim if rule.name == "betting" else 1
        return FixedSampler(start, source, schedule=self.schedule, least=least), rule
