"""The events of a learner, their spelling in a log, and the (arm, reward) pairs among them.

A log is a list of tuples: ("start", identity), then ("ask", arms), ("tell", arm, reward), ... with the fields of each
event in order. Fields at the end that have their default are left out. A vector is written as a tuple, and the label of
a group as pairs of factor and level.
"""

import re
import reprlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, Self, final

from surepick.errors import InvalidInput
from surepick.learning.groups import GroupLabel
from surepick.learning.spec import EDITION
from surepick.types import ArmKey

Entry = tuple[Any, ...]
"""An event as a log spells it."""


class Asked(NamedTuple):
    """Arms were asked for, in this order."""

    arms: tuple[ArmKey, ...]
    group: GroupLabel = ()
    """Day, bench or plate on which they will be measured, if that was said."""


class Told(NamedTuple):
    """A result came in."""

    arm: ArmKey
    reward: float
    ask: int | Literal["none"] | None = None
    """The ask that the result answers, if one was named; "none": it answers none."""
    group: GroupLabel = ()
    """Day, bench or plate on which it was measured: as the ask has it, or as it was told."""


class Failed(NamedTuple):
    """An ask was given up; it is made again."""

    arm: ArmKey
    ask: int | None = None


class Audited(NamedTuple):
    """Check pulls were planned."""

    n: int


class Voided(NamedTuple):
    """A result was taken back."""

    n: int
    """Number of the result, from 0."""
    reason: str = ""


class Corrected(NamedTuple):
    """A result got another value."""

    n: int
    value: float
    reason: str = ""


class Restored(NamedTuple):
    """A void result counts again."""

    n: int
    reason: str = ""


Correction = Voided | Corrected | Restored
Event = Asked | Told | Failed | Audited | Correction
KINDS: dict[str, type[Event]] = {
    "ask": Asked,
    "tell": Told,
    "fail": Failed,
    "audit": Audited,
    "void": Voided,
    "correct": Corrected,
    "restore": Restored,
}
"""Events by their names in a log."""
_SPELLING = {kind: (name, tuple(kind._field_defaults.values())[::-1]) for name, kind in KINDS.items()}


def entry_of(event: Event) -> Entry:
    """Return an event as a log spells it: without fields at the end that have their defaults."""
    name, defaults = _SPELLING[type(event)]
    n = len(event)
    for default in defaults:  # from the last field on
        if event[n - 1] != default:
            break
        n -= 1
    return (name, *event[:n])


def event_of(entry: Any, place: int) -> Event:
    """Return the event that a log has at a place.

    Raises:
        InvalidInput: it is no event.
    """
    try:
        name, *fields = entry
        event = KINDS[name](*fields)
        if not isinstance(event, Asked) or (type(event.arms) is tuple and event.arms):
            return event
    except (KeyError, TypeError, ValueError):
        pass
    raise InvalidInput(
        f"event {place} of `log` must be ('ask', arms), ('tell', arm, reward), ('fail', arm), ('audit', n), "
        f"('void', n), ('correct', n, value) or ('restore', n), got {reprlib.repr(entry)}; pass a log as `Learner.log` "
        "has it."
    )


def n_earlier(log: Iterable[Entry]) -> int:
    """Return how many results were told before the first ask."""
    n = 0
    for entry in log:
        if entry[0] == "ask":
            break
        n += entry[0] == "tell"
    return n


def edition_of(log: object) -> int | None:
    """Return the edition of the learner that wrote a log; None if the log begins with no identity."""
    match log:
        case [("start", str(identity)), *_]:
            named = re.search(r", edition=(\d+)(?:, earlier=\w+)?, seed=\d+$", identity)
            return 1 if named is None else min(int(named[1]), EDITION)
    return None


def check_start(log: Sequence[Entry], identity: Callable[..., str], earlier: str) -> None:
    """Refuse a log that does not begin with the identity of the learner that replays it.

    Args:
        log: to be replayed.
        identity: of the learner, as a function of `is_guided`: whether results before the first ask are guidance.
        earlier: "guidance" or "evidence", as the learner takes such results.
    """
    given: object = log
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise InvalidInput(f"`log` must be a list of events as in `Learner.log`, got {reprlib.repr(given)}.")
    n_before = n_earlier(log[1:])
    expected = identity(is_guided=earlier == "guidance" and n_before > 0)
    if log and log[0] == ("start", expected):
        return
    hint = ""
    if n_before and log[0] == ("start", identity(is_guided=earlier == "evidence")):
        kind = "guidance" if earlier == "evidence" else "evidence"
        hint = f' Its {n_before} results from before the first ask are {kind}: give earlier="{kind}".'
    raise InvalidInput(
        f"`log` must begin with ('start', identity) of this learner, {expected!r}, got "
        f"{log[0] if log else 'nothing'!r}; replay it on a learner with the same arms and options.{hint}"
    )


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

    log: tuple[Entry, ...]
    numbers: tuple[int, ...]

    def __new__(cls, log: Iterable[Entry]) -> Self:
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
        pairs = dict(sorted(pairs.items()))  # a restored result stands at its old place
        history = super().__new__(cls, pairs.values())
        history.log, history.numbers = tuple(events), tuple(pairs)
        return history

    @property
    def labels(self) -> tuple[GroupLabel, ...]:
        """The label of the group of each pair; empty where none was said."""
        told = [entry for entry in self.log if entry[0] == "tell"]
        return tuple(Told(*told[n][1:]).group for n in self.numbers)

    def __getnewargs__(self) -> tuple[tuple[Entry, ...]]:
        return (self.log,)
