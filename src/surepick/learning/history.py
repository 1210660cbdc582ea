"""What has happened to a learner: its events, and the rewards among them as (arm, reward) pairs."""

from collections.abc import Iterable
from typing import Any, Self, final

Event = tuple[Any, ...]
"""("start", identity), ("ask", arms), ("tell", arm, reward) or ("fail", arm), the last two with the number of the ask
behind if it was named; a vector is written as a tuple."""


@final
class History(tuple[tuple[Any, float], ...]):
    """Every (arm, reward) in order, and in `log` the asks and failures between them.

    The log says whose it is, so a learner with the same arms and options can go on exactly where it ended. Pairs of any
    other origin are unsolicited results.

    Args:
        log: as `Learner.log` has it. Asks at its end, still unanswered, are dropped: they would be made again.
    """

    log: tuple[Event, ...]

    def __new__(cls, log: Iterable[Event]) -> Self:
        """Read the pairs off the log."""
        events = list(log)
        while events and events[-1][0] == "ask":
            events.pop()
        history = super().__new__(cls, ((event[1], event[2]) for event in events if event[0] == "tell"))
        history.log = tuple(events)
        return history

    def __getnewargs__(self) -> tuple[tuple[Event, ...]]:
        return (self.log,)
