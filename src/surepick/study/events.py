"""Events, the only truth about a study: their kinds, their text, and the chain of hashes over them.

The text of an event is canonical JSON, so the same event has the same bytes on every machine. The hash of event n is
sha256(hash of event n-1 as hex, a line feed, text of event n), and before the first event stand 64 zeros: whoever
knows the last hash notices a change of any event before it, one that is missing, and a change of order.
"""

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from hashlib import sha256
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


class Row(NamedTuple):
    """One event as it is kept: its number (1, 2, ...), its text, and the hash over it and all before it."""

    n: int
    text: str
    hash: str


# One encoder for all events: making one anew costs more than a short event.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(event: Mapping[str, Any]) -> str:
    """The text of an event: JSON with sorted keys, no spaces, and numbers as short as reads back the same.

    Raises:
        InvalidInput: a value that JSON has no word for (NaN, infinity, an array, half a character).
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
    """The hash of the event with this text that follows the event with that hash."""
    return sha256(f"{previous_hash}\n{text}".encode()).hexdigest()


def rows_of(texts: Iterable[str], previous: str = START, first: int = 1) -> list[Row]:
    """The rows that keep events with these texts, after an event with the hash `previous`."""
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
