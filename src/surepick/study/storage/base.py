"""The contract of a storage, and the checks, errors and forks that all storages share.

A storage keeps each study as rows (`surepick.study.events.Row`):

- One writer at a time appends rows; rows never change. A row that does not continue the hash chain is refused.
- A transaction is durable once it is committed, and leaves nothing otherwise. Readers see whole transactions, and do
  not wait for writers.
- Beside its rows a study may have a summary. It is a cache: it may be missing or lag behind the log, and no
  transaction on the log waits for it or fails because of it.
- Threads may share a storage. A process may fork; parent and child then use connections and locks of their own.
"""

import os
import threading
import unicodedata
import weakref
from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, ContextDecorator
from datetime import datetime
from typing import NamedTuple, Protocol, final, runtime_checkable

from surepick.errors import CorruptLog, InvalidInput, NoSuchStudy, StudyExists, what_was_meant
from surepick.study.events import START, Row, check_chain

LONGEST_NAME = 200
"""Characters of a study's name. PostgreSQL indexes at most about 2,700 bytes, and a character takes up to four."""

PATIENCE = 60.0
"""Seconds to wait for another writer. A transaction takes milliseconds; one with a large design, seconds."""

FORK_PATIENCE = 2 * PATIENCE
"""Seconds that a fork waits for work to end before it goes ahead."""

CACHE_PATIENCE = 1.0
"""Seconds to wait for other writers before a summary is given up."""


class KeptSummary(NamedTuple):
    """A status that `Storage.keep_summary` stored, and the event that it belongs to."""

    n: int
    hash: str
    text: str


class Summary(NamedTuple):
    """A study at a glance: name, number of events, texts of the first and last event, hash of the last one.

    `kept` is the stored summary, None if there is none. It is current if its hash equals `hash`.
    """

    name: str
    n_events: int
    first: str
    last: str
    hash: str
    kept: KeptSummary | None = None


class TokenRow(NamedTuple):
    """A token by which a server knows who asks; the token itself is kept nowhere."""

    id: str
    digest: str
    """SHA-256 of the token, in hexadecimal digits."""
    role: str
    study: str | None
    """The study that it is for; None for all."""
    label: str
    """Who has it, for people."""
    created_at: str
    revoked_at: str | None


class Writer(Protocol):
    """A write transaction on the log of one study."""

    @property
    def now(self) -> datetime:
        """When the transaction began, by the clock that all writers share: the server's, or the machine's."""

    def read(self, after: int = 0) -> list[Row]:
        """Return the rows after number `after`, including rows appended in this transaction.

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
    """Keeps the events of studies; the module docstring has the contract."""

    @property
    def address(self) -> str:
        """Where the storage is, in words for people, without a password."""

    def names(self) -> list[str]:
        """Return the names of all studies, sorted."""

    def summaries(self) -> list[Summary]:
        """Return all studies at a glance, sorted by name."""

    def keep_summary(self, name: str, n: int, hash: str, text: str) -> None:  # noqa: A002 (the column's name)
        """Store the status of a study after event `n` with this hash, for `summaries`.

        A summary is a cache: this call stores nothing if the study is gone, has a newer summary, or the storage
        cannot be written now, and then raises nothing.

        Args:
            name: of the study.
            n: number of the last event that the status includes.
            hash: of that event.
            text: the status, as JSON.
        """

    def n_events(self, name: str) -> int:
        """Return the number of events of a study."""

    def create(self, name: str, rows: Sequence[Row]) -> None:
        """Create a study with its first rows, at least one.

        Raises:
            StudyExists: the name is taken.
        """

    def delete(self, name: str) -> None:
        """Delete a study and its events for good, once its writer has finished."""

    def read(self, name: str, after: int = 0, limit: int | None = None) -> list[Row]:
        """Return the rows of a study after number `after`, as of one moment; at most `limit`, unless that is None.

        Raises:
            NoSuchStudy: with the nearest name.
            CorruptLog: there are fewer than `after` events, so the log is not the one that was read before.
        """

    def writing(self, name: str) -> AbstractContextManager[Writer]:
        """Begin a write transaction on a study, as its only writer over all processes.

        A block that ends normally is committed, and survives a power cut; a block that raises leaves nothing. Open no
        second writer inside the block: it waits for the first.

        Raises:
            NoSuchStudy: with the nearest name.
            StorageError: another writer did not finish within `PATIENCE`, or the database cannot be used.
            OutcomeUnknown: the connection was lost during the commit; read the log to see whether it happened.
        """

    def close(self) -> None:
        """Close files and connections. A later call opens them again."""


@runtime_checkable
class ServerStorage(Storage, Protocol):
    """A storage that a server can use: it keeps tokens too, and may say which studies others have changed."""

    def tokens(self) -> list[TokenRow]:
        """Return all tokens, revoked ones included, in the order in which they were made."""

    def add_token(self, token: TokenRow) -> None:
        """Keep a token.

        Raises:
            InvalidInput: there is a token with this id or digest.
        """

    def revoke_token(self, id: str, at: str) -> None:  # noqa: A002 (the column's name)
        """Note that a token is no longer valid from `at` on; of a token that is revoked already, the first time stays.

        Raises:
            InvalidInput: there is no token with this id.
        """

    def listen(self, patience: float = 1.0) -> Generator[str, None, None] | None:
        """Yield the name of each study that any process changes, for ever; None if the storage cannot.

        An empty name means that any study may have changed: at first, after `patience` seconds, and when the
        connection was lost. So who looks at all studies then misses nothing, and can leave the loop in time.
        """


def check_name(name: str) -> None:
    """Check the name of a study.

    Raises:
        InvalidInput: the name is not a string, is empty or too long, or has characters that do not fit on one line.
    """
    if not isinstance(name, str):
        raise InvalidInput(f"the name of a study must be a text, got {name!r}; write it in quotes.")
    if not name.strip():
        raise InvalidInput("the name of a study must have at least one letter, got an empty one; choose a name.")
    if len(name) > LONGEST_NAME:
        raise InvalidInput(
            f"the name of a study must have at most {LONGEST_NAME} characters, got {len(name)}; choose a shorter one."
        )
    # Spaces of other alphabets are not printable for Python, and are allowed.
    bad = not name.isprintable() and [one for one in name if unicodedata.category(one) in ("Cc", "Cs")]
    if bad:
        raise InvalidInput(
            f"the name of a study must be a line of text, got {name!r} with {bad[0]!r}; leave that character out."
        )


def check_first(rows: Sequence[Row]) -> None:
    """Check the first rows of a new study.

    Raises:
        InvalidInput: there are none.
        CorruptLog: they are not the beginning of a hash chain.
    """
    if not rows:
        raise InvalidInput("a study must begin with at least one event, got none; write how it was created.")
    check_chain(rows, previous=START, first=1)


def no_such_study(name: object, names: Iterable[str], address: str) -> NoSuchStudy:
    """Return the error for an unknown name: it names the nearest study, or lists the studies."""
    names = sorted(names)
    if names:
        return NoSuchStudy(f"there is no study {name!r} in {address}; {what_was_meant(str(name), names, 'studies')}")
    return NoSuchStudy(
        f"there is no study {name!r} in {address}, nor any other; create one, or choose another storage."
    )


def study_exists(name: str, address: str) -> StudyExists:
    """Return the error for a name that is taken."""
    return StudyExists(
        f"there is a study {name!r} in {address} already; load it, delete it, or choose another name. "
        "`create_study(..., load_if_exists=True)` loads it."
    )


def token_exists(token: TokenRow, address: str) -> InvalidInput:
    """Return the error for a token that is there already."""
    return InvalidInput(f"there is a token {token.id!r}, or one with its digest, in {address} already; make another.")


def no_such_token(id_: str, tokens: Iterable[TokenRow], address: str) -> InvalidInput:
    """Return the error for an unknown token: it names the nearest id."""
    ids = [token.id for token in tokens]
    meant = what_was_meant(id_, ids, "tokens") if ids else "there is none at all."
    return InvalidInput(f"there is no token {id_!r} in {address}; {meant}")


def log_is_short(name: str, n_events: int, after: int) -> CorruptLog:
    """Return the error for a log that is shorter than the part that was read before."""
    return CorruptLog(
        f"study {name!r} has {n_events} events, but {after} were read before: "
        "it was deleted and made anew, or has lost its end; load it again, and check it against a copy."
    )


# ---- forks
#
# The child of a fork inherits every lock as held, without the thread that would release it. Such locks are surepick's,
# SQLite's, those of BLAS, of imports, of `cached_property`: no list is complete. So a fork waits until no other thread
# works on a study (`no_fork`), and objects with a lock, a connection or a state replace them in the child (`at_forks`).

_free = threading.Condition(threading.Lock())
_here = threading.local()  # `depth`: how many blocks of `no_fork` this thread is in
_n_at_work = 0  # threads in such a block
_n_forking = 0  # forks that wait or happen; new work waits for them
_owners: "weakref.WeakSet[Forked]" = weakref.WeakSet()


class Forked(Protocol):
    """An object whose locks, connections or state a child of a fork must not share."""

    def before_fork(self) -> None:
        """Close idle connections; other threads have paused."""

    def renew(self) -> None:
        """In the child: replace locks, connections and state, and send nothing over inherited connections."""


@final
class no_fork(ContextDecorator):  # noqa: N801 (used as a function; a generator would take three times as long)
    """Let no other thread fork the process while the block runs. The block must not wait for a thread that forks."""

    def __enter__(self) -> None:
        global _n_at_work  # noqa: PLW0603 (one for the process)
        depth = getattr(_here, "depth", 0)
        if not depth:
            with _free:
                while _n_forking:
                    _free.wait()
                _n_at_work += 1
        _here.depth = depth + 1

    def __exit__(self, *_: object) -> None:
        global _n_at_work  # noqa: PLW0603 (one for the process)
        _here.depth -= 1
        if not _here.depth:
            with _free:
                _n_at_work -= 1
                _free.notify_all()


def at_forks(owner: Forked) -> None:
    """Call the owner's methods at every fork, as long as the owner lives."""
    _owners.add(owner)


def _pause() -> None:
    global _n_forking  # noqa: PLW0603 (one for the process)
    with _free:
        _n_forking += 1
        own = 1 if getattr(_here, "depth", 0) else 0  # a thread that forks inside such a block does not wait for itself
        _free.wait_for(lambda: _n_at_work <= own, FORK_PATIENCE)
    for owner in list(_owners):
        owner.before_fork()


def _go_on() -> None:
    global _n_forking  # noqa: PLW0603 (one for the process)
    with _free:
        _n_forking -= 1
        _free.notify_all()


def _begin_anew() -> None:
    global _free, _n_at_work, _n_forking  # noqa: PLW0603 (one for the process)
    _free = threading.Condition(threading.Lock())
    _n_at_work, _n_forking = (1 if getattr(_here, "depth", 0) else 0), 0
    for owner in list(_owners):
        owner.renew()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(before=_pause, after_in_parent=_go_on, after_in_child=_begin_anew)
