"""What a storage of studies does, and what every one of them checks before it does it.

A study is kept as rows (`surepick.study.events.Row`). Rows are only ever appended, by one writer at a time, and only
rows that continue the chain; whoever reads sees whole transactions.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from surepick.errors import CorruptLog, InvalidInput, NoSuchStudy, StudyExists, what_was_meant
from surepick.study.events import START, Row, check_chain

LONGEST_NAME = 200
"""Characters of a study's name. PostgreSQL can index at most about 2,700 bytes, and a character may take four."""

PATIENCE = 60.0
"""Seconds to wait for another writer before giving up. A transaction takes milliseconds; a big design, seconds."""


class Summary(NamedTuple):
    """A study at a glance: its name, how many events it has, and the text of the first and the last one."""

    name: str
    n_events: int
    first: str
    last: str


class Writer(Protocol):
    """The one writer of a study, inside a transaction."""

    @property
    def now(self) -> datetime:
        """When the transaction began, by the clock that all writers share: the server's, or the machine's."""

    def read(self, after: int = 0) -> list[Row]:
        """The rows after that number, those appended in this transaction included.

        Raises:
            CorruptLog: there are fewer than `after` events.
        """

    def append(self, rows: Sequence[Row]) -> None:
        """Add rows to the end of the log.

        Raises:
            CorruptLog: the rows do not continue the chain.
        """


@runtime_checkable
class Storage(Protocol):
    """A place that keeps the events of studies."""

    @property
    def address(self) -> str:
        """Where it is, in words that may be shown: never with a password."""

    def names(self) -> list[str]:
        """The names of all studies, sorted."""

    def summaries(self) -> list[Summary]:
        """All studies at a glance, sorted by name."""

    def n_events(self, name: str) -> int:
        """How many events a study has."""

    def create(self, name: str, rows: Sequence[Row]) -> None:
        """Make a study with its first rows, at least one.

        Raises:
            StudyExists: the name is taken.
        """

    def delete(self, name: str) -> None:
        """Remove a study and its events for good."""

    def read(self, name: str, after: int = 0) -> list[Row]:
        """The rows of a study after that number, as they were at one moment; waits for no writer.

        Raises:
            NoSuchStudy: names the nearest.
            CorruptLog: there are fewer than `after` events, so this is not the log that was read before.
        """

    def writing(self, name: str) -> AbstractContextManager[Writer]:
        """Wait to be the one writer of a study, over all processes.

        When the block is left cleanly, all of it is committed and will survive a power cut; when by an exception,
        nothing is. Inside the block open no second writer: it would wait for the first.

        Raises:
            NoSuchStudy: names the nearest.
            StorageError: another writer did not finish within `PATIENCE`, or the database cannot be used.
            OutcomeUnknown: the connection was lost in the commit; read the log to see whether it happened.
        """

    def close(self) -> None:
        """Let go of files and connections. What is committed stays."""


def check_name(name: str) -> None:
    """Check that a study can have this name.

    Raises:
        InvalidInput: not a text, empty, too long, or with characters that cannot be written on one line.
    """
    if not isinstance(name, str):
        raise InvalidInput(f"the name of a study must be a text, got {name!r}; write it in quotes.")
    if not name.strip():
        raise InvalidInput("the name of a study must have at least one letter, got an empty one; choose a name.")
    if len(name) > LONGEST_NAME:
        raise InvalidInput(
            f"the name of a study must have at most {LONGEST_NAME} characters, got {len(name)}; choose a shorter one."
        )
    # Most names need no closer look; the rest may be spaces of other alphabets, which are welcome.
    bad = not name.isprintable() and [one for one in name if unicodedata.category(one) in ("Cc", "Cs")]
    if bad:
        raise InvalidInput(
            f"the name of a study must be a line of text, got {name!r} with {bad[0]!r}; leave that character out."
        )


def check_first(rows: Sequence[Row]) -> None:
    """Check the rows that a new study begins with.

    Raises:
        InvalidInput: there are none.
        CorruptLog: they are no chain from the beginning.
    """
    if not rows:
        raise InvalidInput("a study must begin with at least one event, got none; write how it was created.")
    check_chain(rows, previous=START, first=1)


def no_such_study(name: object, names: Iterable[str], address: str) -> NoSuchStudy:
    """The error that says which studies there are, the nearest name first."""
    names = sorted(names)
    if names:
        return NoSuchStudy(f"there is no study {name!r} in {address}; {what_was_meant(str(name), names, 'studies')}")
    return NoSuchStudy(
        f"there is no study {name!r} in {address}, nor any other; create one, or choose another storage."
    )


def study_exists(name: str, address: str) -> StudyExists:
    """The error for a name that is taken."""
    return StudyExists(f"there is a study {name!r} in {address} already; load it, delete it, or choose another name.")


def log_is_short(name: str, n_events: int, after: int) -> CorruptLog:
    """The error for a log that has fewer events than were read from it before."""
    return CorruptLog(
        f"study {name!r} has {n_events} events, but {after} were read before: "
        "it was deleted and made anew, or has lost its end; load it again, and check it against a copy."
    )
