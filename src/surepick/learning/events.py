"""What has happened to a learner: its events, and the rewards among them as (arm, reward) pairs."""

from collections.abc import Iterable
from typing import Any, Literal, Self, final

Event = tuple[Any, ...]
"""("start", identity), ("ask", arms), ("tell", arm, reward) or ("fail", arm), the last two with the number of the ask
behind if it was named ("none": it answered none); ("void", n), ("correct", n, value) or ("restore", n) with the number
of the measurement, and the reason behind if one was given. A vector is written as a tuple."""
Correction = Literal["void", "correct", "restore"]


def n_earlier(log: Iterable[Event]) -> int:
    """Return how many results were told before the first ask."""
    n = 0
    for event in log:
        if event[0] == "ask":
            break
        n += event[0] == "tell"
    return n


@final
class History(tuple[tuple[Any, float], ...]):
    """Every (arm, reward) that counts, in order, corrected; in `log` the asks, failures and corrections between them.

    `numbers` has the number of each pair, 0, 1, ... in the order of telling, by which `Learner.void` and `correct` name
    it: its place, as long as nothing is void.

    The log says whose it is, so a learner with the same arms and options can go on exactly where it ended. Pairs of any
    other origin are unsolicited results.

    Args:
        log: as `Learner.log` has it. Asks at its end, still unanswered, are dropped: they would be made again.
    """

    log: tuple[Event, ...]
    numbers: tuple[int, ...]

    def __new__(cls, log: Iterable[Event]) -> Self:
        """Read the pairs off the log."""
        events = list(log)
        while events and events[-1][0] == "ask":
            events.pop()
        pairs = dict(enumerate((event[1], event[2]) for event in events if event[0] == "tell"))
        voided: dict[int, tuple[Any, float]] = {}
        for kind, n, *said in (event for event in events if event[0] in ("correct", "void", "restore")):
            if kind == "correct":
                pairs[n] = pairs[n][0], said[0]
            elif kind == "void":
                voided[n] = pairs.pop(n)
            else:
                pairs[n] = voided.pop(n)
        pairs = dict(sorted(pairs.items()))  # what is restored stands where it was
        history = super().__new__(cls, pairs.values())
        history.log, history.numbers = tuple(events), tuple(pairs)
        return history

    def __getnewargs__(self) -> tuple[tuple[Event, ...]]:
        return (self.log,)
