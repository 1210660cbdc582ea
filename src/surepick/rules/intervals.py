"""Samplers around samplers: a starting set first, and pulls cut into intervals.

A *chooser* picks arms one by one from what is known. Between results it may be asked any number of times, so the same
chooser serves one pull per interval (for rules that decide after every pull) and long intervals (for the betting rule,
whose bets need several pulls between looks).
"""

import math
from collections.abc import Sequence
from typing import Protocol, final

from surepick.rules.parts import Situation
from surepick.rules.schedules import Schedule


class Chooser(Protocol):
    """Picks arms once there is an estimate."""

    def look(self, situation: Situation) -> None:
        """Take in the results so far; `situation.theta` exists."""
        ...

    def choose(self) -> int:
        """Return the next arm; may not depend on rewards told since `look`."""
        ...


@final
class StartThenChoose:
    """The sampler made of a starting set, a chooser and a schedule.

    Args:
        start: arms pulled first, in order; they must span. Pulled again if the results still do not span.
        chooser: picks every later arm.
        schedule: when to look at results; None looks after every pull.
        least: pulls between two looks at least, for rules that need several.
    """

    def __init__(
        self, start: Sequence[int], chooser: Chooser, *, schedule: Schedule | None = None, least: int = 1
    ) -> None:
        self._start = list(start)
        self._chooser, self._schedule, self._least = chooser, schedule, least
        self._turn: int | None = 0  # position in the starting set; None once the chooser has taken over

    def open(self, situation: Situation) -> int:
        """Look at the results and return the length of the interval."""
        if situation.theta is None:
            self._turn = 0
            return len(self._start)
        self._turn = None
        self._chooser.look(situation)
        if self._schedule is None:
            return self._least
        t = situation.n_pulls
        return max(self._schedule.next_after(t) - t, self._least)

    def next(self) -> int:
        """Return the next arm."""
        if self._turn is None:
            return self._chooser.choose()
        arm = self._start[self._turn % len(self._start)]
        self._turn += 1
        return arm

    def pulls_per_nat(self) -> float:
        """Return inf: a chooser has no plan to tell the cost of evidence from."""
        return math.inf
