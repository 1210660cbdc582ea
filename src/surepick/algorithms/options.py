"""The options that all algorithms share, and the rule they lead to."""

from dataclasses import dataclass
from typing import Literal

from surepick.errors import InvalidInput
from surepick.sampling.schedules import Schedule, ScheduleOption, as_schedule, schedule_for
from surepick.stopping import Stopping, as_rule
from surepick.stopping.protocol import Rule

Variant = Literal["practical", "paper"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of an algorithm; None stands for the variant's own choice.

    Args:
        variant: "practical", or "paper" for the algorithm as published.
        stopping: the rule that decides, by name or as an object from `surepick.stopping`.
        schedule: when to look at results, for rules that decide between intervals.
        elimination: an alternative once refuted stays refuted, in the rule and, unless pulls are fixed in advance, in
            the sampling; betting always does so.
    """

    variant: Variant = "practical"
    stopping: Stopping | None = None
    schedule: ScheduleOption = None
    elimination: bool | None = False

    def __post_init__(self) -> None:
        if self.variant not in ("practical", "paper"):
            raise InvalidInput(f"`variant` must be 'practical' or 'paper', got {self.variant!r}.")
        if self.schedule is not None:
            # Read once: an iterator of times could not be read again for a replay.
            object.__setattr__(self, "schedule", as_schedule(self.schedule))

    @property
    def is_paper(self) -> bool:
        """Whether the algorithm is to be as published."""
        return self.variant == "paper"

    @property
    def is_own_rule(self) -> bool:
        """Whether the rule is to be the published one."""
        return self.is_paper and self.stopping is None

    def rule(self, usual: str) -> Rule:
        """Return the rule asked for, or the usual one."""
        return as_rule(self.stopping or usual, elimination=self.elimination)

    def times(self, rule: Rule) -> Schedule:
        """Return the schedule asked for, or the one that suits the rule."""
        return schedule_for(rule, self.schedule)
