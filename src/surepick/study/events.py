"""Events, the only truth about a study: their kinds, their text, and the chain of hashes over them.

To add a kind: its name in `Kind`, its fields in `FIELDS`, and what it changes as a method of `State`, unless it is one
of `RECORDS`. `Study` writes it. `tools/verify_certificate.py` shares no code with this package, and has to be told.

The text of an event is canonical JSON, so the same event has the same bytes on every machine. The hash of event n is
sha256(hash of event n-1 as hex, a line feed, text of event n); 64 zeros stand in the place of the hash before the first
event. A reader who knows the last hash notices an earlier event that was changed, removed or moved.

`check_fields` checks the fields of an event, `check_asked` a log from a stranger. A log of a kilobyte can name a
hypercube of 5,000 dimensions, whose designs take minutes and gigabytes, or a file of arms anywhere on the machine;
`check_asked` refuses both before any computation.
"""

import json
import math
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from surepick.errors import CorruptLog, InvalidInput

START = "0" * 64
"""What stands in the place of the hash before the first event."""


class Kind(StrEnum):
    """What an event says has happened."""

    CREATED = "created"
    PLANNED = "planned"
    ASKED = "asked"
    TOLD = "told"
    FAILED = "failed"
    EXPIRED = "expired"
    VOIDED = "voided"
    CORRECTED = "corrected"
    RESTORED = "restored"
    AUDITED = "audited"
    STOPPED = "stopped"
    RESUMED = "resumed"
    REOPENED = "reopened"
    COPIED = "copied"
    ANCHORED = "anchored"


RECORDS = (Kind.COPIED, Kind.ANCHORED)
"""Kinds that are kept and change nothing else: `State.records` has them."""


class Row(NamedTuple):
    """One event as it is kept: its number (1, 2, ...), its text, and the hash over it and all before it."""

    n: int
    text: str
    hash: str


def now() -> datetime:
    """Return the time by this machine's clock."""
    return datetime.now(UTC)


def written(moment: datetime) -> str:
    """Return a time as the log has it: in one form, in UTC, so that comparing texts compares times."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


# One encoder for all events: making one anew costs more than a short event.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(event: Mapping[str, Any]) -> str:
    """Return the text of an event: JSON with sorted keys, no spaces, and the shortest numbers that read back the same.

    Raises:
        InvalidInput: JSON cannot write a value (NaN, infinity, an array, half a character).
    """
    try:
        text = _ENCODER.encode(dict(event))
        text.encode()  # half a surrogate pair is a character of Python's, not of UTF-8
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"an event must consist of texts, finite numbers, true, false, null, and lists and tables of them; {error}"
        ) from None
    return text


def chained(previous_hash: str, text: str) -> str:
    """Return the hash of an event, from the hash of the event before and its own text."""
    return sha256(f"{previous_hash}\n{text}".encode()).hexdigest()


def rows_of(texts: Iterable[str], previous: str = START, first: int = 1) -> list[Row]:
    """Return the rows of events with these texts, after an event with the hash `previous`."""
    rows = []
    for n, text in enumerate(texts, first):
        previous = chained(previous, text)
        rows.append(Row(n, text, previous))
    return rows


def check_chain(rows: Iterable[Row], previous: str = START, first: int = 1) -> None:
    """Check that the rows are numbered from `first` on and that each hash follows; about a microsecond a row.

    Args:
        rows: the events in the order in which they were read.
        previous: the hash of the event before them.
        first: the number that the first of them must have.

    Raises:
        CorruptLog: names the first event that is wrong, and what is wrong with it.
    """
    expected = first
    for n, text, found in rows:
        if n != expected:
            raise CorruptLog(
                f"event {expected} was expected, and event {n} came in its place: "
                "events are missing, doubled or out of order; go back to a copy of the log that was whole."
            )
        # The same as `chained`, without the call, which would cost a tenth of the time.
        previous = sha256(f"{previous}\n{text}".encode()).hexdigest()
        if found != previous:
            raise CorruptLog(
                f"event {n} has the hash {found}, and {previous} follows from its text and the event before: "
                "one of the two was changed after it was written; go back to a copy of the log that was whole."
            )
        expected += 1


OF_ALL = frozenset({"n", "at", "by", "kind"})
_ERA = ("options", "identity", "rule", "coordinates", "version")
FIELDS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    kind: (OF_ALL | frozenset(needed.split()), frozenset(more.split()))
    for kind, needed, more in (
        (Kind.CREATED, f"name arms candidates lease {' '.join(_ERA)}", "group_by"),
        (Kind.REOPENED, f"reason joined retired {' '.join(_ERA)}", "kept"),
        (Kind.PLANNED, "first arms parts", "last"),
        (Kind.ASKED, "ask asks until", "group"),
        (Kind.TOLD, "measurement ask arm value", "key group"),
        (Kind.FAILED, "ask reason", ""),
        (Kind.EXPIRED, "asks", ""),
        (Kind.VOIDED, "measurement reason", ""),
        (Kind.CORRECTED, "measurement reason value", ""),
        (Kind.RESTORED, "measurement reason", ""),
        (Kind.AUDITED, "first arms", ""),
        (Kind.STOPPED, "best evidence threshold pulls", ""),
        (Kind.RESUMED, "reason", ""),
        (Kind.COPIED, "fork study is_copy", ""),
        (Kind.ANCHORED, "event hash", "token signature"),
    )
}
"""For each kind of event, its required and its optional fields."""
MOST_DIMENSIONS = 500
"""Of a set of vectors, which takes a few bytes to name."""
MOST_FEATURES = 2_000
"""Of a list of arms, which the log holds."""
MOST_ACCOUNTS = 10_000_000
"""Arms times arms sought."""
LARGEST_OPTION = 100_000
"""Number among the options of an algorithm."""


def check_fields(event: Mapping[str, Any]) -> None:
    """Refuse an event that lacks a field of its kind, or has one that this version does not know.

    Raises:
        CorruptLog: names the field.
    """
    known = FIELDS.get(event.get("kind", ""))
    if known is None:
        return  # `State.apply` refuses a kind that is not known
    needed, more = known
    if missing := sorted(needed - event.keys()):
        raise CorruptLog(
            f"event {event.get('n')} ({event['kind']}) must have the field {missing[0]!r}, and has none; the log was "
            "changed."
        )
    if unknown := sorted(event.keys() - needed - more):
        raise CorruptLog(
            f"event {event['n']} ({event['kind']}) has the field {unknown[0]!r}, which this version does not know; the "
            "study was written by a later version."
        )


def check_asked(events: Sequence[dict[str, Any]], *, arms: Path | None = None, trusts: bool = False) -> list[str]:
    """Check every event of a stranger's log before any is applied; return notes about files of arms.

    Args:
        events: all of them; the first one is changed to name `arms`.
        arms: where the file of arms is on this machine, if the arms of the log are in a file.
        trusts: whether to do whatever the log asks for.

    Raises:
        InvalidInput: the log asks for too much, or for a file that was not given.
    """
    for event in events:
        check_fields(event)
    first = events[0]
    notes = []
    for role in ("arms", "candidates"):
        written = first.get(role)
        if not isinstance(written, dict):
            continue
        if written.get("kind") == "file":
            if role == "arms" and arms is not None:
                written["path"] = str(arms)
            elif not trusts:
                raise InvalidInput(
                    f"the {role} of this log are in a file, {written.get('path')!r} on the machine that wrote it; give "
                    "your copy by `arms`. With `trust` the file of that name here is read."
                )
            notes.append(f"the {role} were read from {written['path']}, and have the hash that the log names")
        if not trusts:
            _check_set(role, written)
    for event in () if trusts else events:
        _check_event(event, first["arms"])
    return notes


def _check_event(event: Mapping[str, Any], arms: Mapping[str, Any]) -> None:
    """Refuse options and plans that take more time and memory than their words."""
    if event.get("kind") in (Kind.CREATED, Kind.REOPENED):
        _check_options(event, arms)
    if event.get("kind") == Kind.PLANNED and not _count(event["parts"]) <= max(len(event["arms"]), 1):
        raise _too_much(f"event {event['n']} plans {event['parts']!r} parts of {len(event['arms'])} pulls")


def _check_set(role: str, written: Mapping[str, Any]) -> None:
    """Refuse a set that takes more time and memory than its words."""
    kind = written.get("kind")
    if kind == "finite":
        widest = max(map(len, written["rows"]), default=0)
        if widest > MOST_FEATURES:
            raise _too_much(f"{role} with {widest:,} features")
        if len(written["rows"]) * widest > 2 * sum(map(len, written["rows"])):
            raise InvalidInput(f"the {role} of the log must all have the same number of features.")
        return
    from surepick.arms.registry import claimed_dim  # noqa: PLC0415 (a storage loads no numpy)

    if not _count(dim := claimed_dim(written)) <= MOST_DIMENSIONS:
        raise _too_much(f"{role} of the kind {kind!r} with {dim!r} dimensions")


def _check_options(event: Mapping[str, Any], arms: Mapping[str, Any]) -> None:
    options = event["options"]
    n_arms, m = len(arms.get("rows", ())), options.get("m") or 1
    if n_arms and not _count(m) * n_arms <= MOST_ACCOUNTS:
        raise _too_much(f"event {event['n']} seeks {m!r} of {n_arms:,} arms")
    for name, value in (options.get("own") or {}).items():
        if isinstance(value, int | float) and not abs(value) <= LARGEST_OPTION:
            raise _too_much(f"event {event['n']} has the option {name} = {reprlib.repr(value)}")


def _count(number: Any) -> float:
    """Return a number of things; anything else is too many."""
    return number if type(number) is int and number >= 0 else math.inf


def _too_much(what: str) -> InvalidInput:
    return InvalidInput(f"the log asks for {what}, which may take hours or more memory than there is; `trust` does it.")
