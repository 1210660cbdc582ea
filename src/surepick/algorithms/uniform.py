"""Uniform sampling: every arm in turn, in the order of row numbers. The plainest thing to compare with.

    sampling        arm 0, 1, ..., K - 1, 0, 1, ...
    stopping        betting by default; others by name
    recommendation  the leader

Practical: a spanning set first, so that there is an estimate before all K arms were pulled. `variant="paper"`: the
uniform column of published comparisons (Wang, Tzeng and Proutiere 2021), i.e. no such start, and the stopping rule
log((1 + log t)/delta) of Garivier and Kaufmann (2016), which is not proved.

Elimination can only serve the stopping rule: the arms do not depend on rewards.
"""

from dataclasses import dataclass
from typing import final

from surepick.rules.choice import ScheduleOption, Stopping, Variant, check_variant, spanning_start, stopping_rule
from surepick.rules.fixed_design import FixedSampler, InTurn
from surepick.rules.parts import Ground, Rule


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Uniform:
    """Options of the algorithm; None stands for the variant's own choice.

    Args:
        variant: "practical", or "paper" for the version of published comparisons.
        stopping: the rule that decides; None in the paper variant is "heuristic".
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
        spanning = spanning_start(ground)
        stopping = self.stopping or ("heuristic" if is_paper else "betting")
        rule = stopping_rule(stopping, ground, start=spanning, elimination=self.elimination)
        n_arms, dim = ground.arms.n_arms, ground.arms.dim
        start = range(n_arms) if is_paper else spanning
        least = dim if stopping == "betting" else 1
        return FixedSampler(start, InTurn(n_arms), schedule=self.schedule, least=least), rule
