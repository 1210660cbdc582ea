"""Schedules: the numbers of pulls at which a sampler looks at its results and plans anew.

Notation: t pulls so far. Between two scheduled times the sequence of arms does not depend on rewards, so batches lose
nothing. The betting rule settles its bets at these times. Any unbounded schedule keeps Lazy Track-and-Stop
asymptotically optimal almost surely (Jedra and Proutiere 2020, section 3.3; in expectation with a second condition,
section 3.5). Frequent updates cost fewer pulls.
"""

import math
import reprlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Protocol, final, runtime_checkable

from surepick.core.checks import check_count, check_number
from surepick.errors import InvalidInput
from surepick.stopping.base import Rule


@runtime_checkable
class Schedule(Protocol):
    """The times at which a block ends and the next is planned."""

    def next_after(self, t: int) -> int:
        """Return the first scheduled time after t."""
        ...


@final
@dataclass(frozen=True, slots=True)
class Doubling:
    """Times 1, 2, 4, 8, ..., as in the paper's experiments."""

    def next_after(self, t: int) -> int:
        """Return the next power of two."""
        return 1 << t.bit_length()


@final
@dataclass(frozen=True, slots=True)
class Geometric:
    """Each time is `ratio` times the previous one; 1.1 costs few more pulls than planning after every pull."""

    ratio: float

    def __post_init__(self) -> None:
        if not check_number("ratio", self.ratio, needed="a growth factor above 1") > 1.0:
            raise InvalidInput(f"`ratio` must be a growth factor above 1, got {self.ratio}; 1.15 is usual.")

    def next_after(self, t: int) -> int:
        """Return t times the ratio, at least t + 1."""
        return max(t + 1, math.ceil(self.ratio * t - 1e-9))


@final
@dataclass(frozen=True, slots=True)
class Periodic:
    """Every `period` pulls."""

    period: int

    def __post_init__(self) -> None:
        check_count("period", self.period, least=1)

    def next_after(self, t: int) -> int:
        """Return the next multiple of the period."""
        return (t // self.period + 1) * self.period


@final
@dataclass(frozen=True, slots=True)
class AtTimes:
    """The given times; after the last, times double, so that planning never ends."""

    times: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.times or any(later <= earlier for earlier, later in zip(self.times, self.times[1:], strict=False)):
            raise InvalidInput(
                f"`times` must be one or more increasing numbers, got {reprlib.repr(self.times)}; "
                "put them in order, each once."
            )
        check_count("times", self.times[0], least=1)

    def next_after(self, t: int) -> int:
        """Return the next of the times, or 2t after the last."""
        position = bisect_right(self.times, t)
        return self.times[position] if position < len(self.times) else max(2 * t, t + 1)


ScheduleOption = str | Iterable[int] | Schedule | None


def schedule_for(rule: Rule, schedule: ScheduleOption) -> Schedule:
    """Return the given schedule, or the default of the rule."""
    return Geometric(rule.default_ratio) if schedule is None else as_schedule(schedule)


def as_schedule(schedule: "str | Iterable[int] | Schedule") -> Schedule:
    """Read "doubling", "every", "geometric:1.15", "periodic:100", a collection of times, or a schedule object."""
    if isinstance(schedule, str):
        return _named(schedule)
    if isinstance(schedule, Schedule):
        return schedule
    try:
        # Bytes and mappings are iterable too, but do not list times.
        listed = None if isinstance(schedule, bytes | bytearray | Mapping) else list(schedule)
    except TypeError:
        listed = None
    if listed is None:
        raise InvalidInput(
            "`schedule` must be a text, a collection of increasing times or a schedule, got "
            f"{reprlib.repr(schedule)}; pass 'doubling' or [100, 200, 400], say."
        )
    times = [check_count("times", time, least=1) for time in listed]
    # A set has no order, so sort it; a list out of order is probably a mistake.
    return AtTimes(tuple(sorted(times) if isinstance(schedule, AbstractSet) else times))


_NUMBERED: Mapping[str, tuple[Any, type, str]] = {
    "geometric": (Geometric, float, "a number, as in 'geometric:1.15'"),
    "periodic": (Periodic, int, "a whole number, as in 'periodic:100'"),
}
"""Name to the schedule, the kind of its number, and an example."""


def _named(text: str) -> Schedule:
    if text in ("doubling", "every"):
        return Doubling() if text == "doubling" else Periodic(1)
    kind, _, number = text.partition(":")
    if kind not in _NUMBERED:
        raise InvalidInput(
            "`schedule` must be 'doubling', 'every', 'geometric:RATIO', 'periodic:PULLS' or a collection of "
            f"increasing times, got {text!r}."
        )
    make, kind_of_number, needed = _NUMBERED[kind]
    try:
        value = kind_of_number(number)
    except ValueError:
        raise InvalidInput(f"`schedule` must end in {needed}, got {text!r}; change its end.") from None
    made: Schedule = make(value)
    return made
