"""The log of a study: a state that follows it, and transactions that add events to it.

A transaction waits for its turn, reads what others have written meanwhile, and has its own events on the disk before
the turn ends. So all writers decide on the same log, and an event that was acknowledged is never lost.

A worker has an ask for the time of its lease. That a lease has run out is an event of its own, so nothing that is
decided depends on a clock: a clock that jumps ends leases too early or too late, no more.
"""

import gc
import json
import logging
import math
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar, final

from surepick._texts import shown
from surepick.errors import CorruptLog, InvalidInput, SurepickError
from surepick.study.eras import key_from
from surepick.study.events import START, Kind, Row, canonical, chained, check_chain, written
from surepick.study.state import AskRecord, State
from surepick.study.storage import Storage, Writer
from surepick.study.storage.base import at_forks, no_fork

LOGGER = logging.getLogger("surepick")
"""Events that people care about at INFO, asks and results at DEBUG; an application decides whether and where."""
LOGGER.addHandler(logging.NullHandler())

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_LEASE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhdw]?)\s*")
_LONGEST = timedelta(days=36_500)
_APART = timedelta(microseconds=1)
T = TypeVar("T")


def lease_length(lease: Any) -> timedelta | None:
    """Return the length of a lease: "90s", "30m", "2h", "3d", "1w", seconds, or None for ever."""
    if lease is None or (isinstance(lease, str) and lease.lower() == "none"):
        return None
    if isinstance(lease, str) and (match := _LEASE.fullmatch(lease)) is not None:
        lease = float(match[1]) * _SECONDS[match[2]]
    if isinstance(lease, int | float) and lease is not True and lease <= 1e10:  # NaN is not
        lease = timedelta(seconds=lease)
    if not isinstance(lease, timedelta) or not timedelta(0) < lease <= _LONGEST:
        raise InvalidInput(
            '`lease` must be a positive time such as "30m", "2h" or "3d", a number of seconds, or none for ever, got '
            f"{lease!r}."
        )
    return lease


def elapsed() -> float:
    """Return seconds by a clock that cannot be set; with the time that the system slept, where the system counts it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


@final
class Leases:
    """How long a process has known each ask, so that a wrong clock ends no lease too early.

    A process that saw an ask being made also measures the time since then. For asks from before the process began to
    follow the log, it relies on their times in the log.
    """

    def __init__(self) -> None:
        self._looked: float | None = None
        self._n_known = 0
        self._since: dict[int, float] = {}

    def look(self, n_asks: int) -> None:
        """Note that `n_asks` asks exist by now; new ones were made after the look before."""
        if self._looked is not None:
            self._since |= dict.fromkeys(range(self._n_known + 1, n_asks + 1), self._looked)
        self._n_known, self._looked = n_asks, elapsed()

    def due(self, asks: Iterable[AskRecord], at: str) -> list[int]:
        """Return the ids of asks whose lease has run out: by the clock, and by what this process has seen."""
        return [one.id for one in asks if one.until is not None and one.until <= at and self._is_due(one, one.until)]

    def _is_due(self, one: AskRecord, until: str) -> bool:
        length = datetime.fromisoformat(until) - datetime.fromisoformat(one.at)
        return elapsed() - self._since.get(one.id, -math.inf) >= length.total_seconds()

    def keep(self, asks: Collection[int]) -> None:
        """Forget all other asks, once they are as many: to go through all at each ask would take long."""
        if len(self._since) > 2 * len(asks):
            self._since = {ask: since for ask, since in self._since.items() if ask in asks}


@final
@dataclass
class _Commit:
    """A transaction of the storage, which the transactions of one or more calls share."""

    writer: Writer
    rows: list[Row] = field(default_factory=list)
    """What the calls have written; the storage gets all of it at the end."""
    news: list[tuple[int, str]] = field(default_factory=list)
    """Level and text of what loggers are told once the rows are on the disk."""
    n_calls: int = 0

    def next_time(self) -> datetime:
        """Return the time of the next call: a microsecond after the call before, so that the log tells them apart."""
        self.n_calls += 1
        return self.writer.now + (self.n_calls - 1) * _APART


@final
class LogTransaction:
    """A write transaction on a log: its events share one time and one author.

    Args:
        state: by all events so far.
        now: the time of the events.
        last_hash: of the last event so far.
        by: author.
    """

    def __init__(self, state: State, now: datetime, last_hash: str, by: str) -> None:
        self.state, self.hash, self.by = state, last_hash, by
        self.now, self.at = now, written(now)
        self.rows = list[Row]()
        self.events = list[dict[str, Any]]()
        """What the transaction has written."""

    def write(self, kind: Kind, **fields: Any) -> None:
        """Apply an event to the state and add it to the log."""
        n = self.state.n_events + 1
        event = {"n": n, "at": self.at, "by": self.by, "kind": kind.value, **fields}
        text = canonical(event)
        digest = chained(self.hash, text)
        self.state.apply(event, digest)
        self.hash = digest
        self.rows.append(Row(n, text, digest))
        self.events.append(event)

    def write_verdict(self, *, after_correction: bool = False) -> None:
        """Write a new verdict, or that the last one is withdrawn, if either is so."""
        for kind, fields in self.state.verdict_news(after_correction=after_correction):
            self.write(kind, **fields)

    @property
    def is_ahead(self) -> bool:
        """Whether the state knows more than the log did when the transaction began."""
        return bool(self.rows) or self.state.learner.state.plans.is_proposing


class _DoAgain(Exception):
    """A call was refused after it had written; the others are made again without it."""


AT_ONCE = 1_000
"""Events that are read from one text."""


@final
class StudyLog:
    """The state of one study, kept up to its log.

    Args:
        storage: where its log is.
        name: of the study.
        created: its state by the first event, if it is known.
    """

    def __init__(self, storage: Storage, name: str, created: State | None = None) -> None:
        self._storage, self._name = storage, name
        self._state: State | None
        self.renew()
        if created is not None:
            self._state, self.head = created, (1, created.registrations[0])
        at_forks(self)

    def before_fork(self) -> None:
        """Nothing to let go of."""

    def renew(self) -> None:
        """Begin as if nothing had been read: in the child of a fork a thread of the parent may have had the lock."""
        self.lock = threading.RLock()
        """Its owner alone reads or changes the state."""
        self._is_held = False
        self._commit: _Commit | None = None  # that of `together`
        self._forget()

    def _forget(self) -> None:
        """Know nothing; the log knows all."""
        self._state = None
        self.head = 0, START
        """Number and hash of the last event that is known."""
        self.leases = Leases()

    def state(self) -> State:
        """Return the state by all events so far."""
        with self.lock, no_fork():
            if self._is_held and self._state is not None:
                return self._state
            return self._by(partial(self._storage.read, self._name))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the state as it was last read: inside the block, reading does not look for new events."""
        with self.lock:
            was_held, self._is_held = self._is_held, True
            try:
                yield
            finally:
                self._is_held = was_held

    @contextmanager
    def reading(self) -> Iterator[State]:
        """Read the state by all events so far.

        Reading fills caches, so readers take the lock too. If a reader is interrupted, the state is read again from
        the log.
        """
        with self.lock, no_fork():
            try:
                yield self.state()
            except SurepickError:
                raise
            except BaseException:
                self._forget()
                raise

    @property
    def is_open(self) -> bool:
        """Whether `together` has a transaction open: its events are not on the disk yet."""
        return self._commit is not None

    @contextmanager
    def writing(self, by: str) -> Iterator[LogTransaction]:
        """Write to the log, in turn with all other writers. At the end all events are durable, or none exists.

        Inside `together`, the events are durable when `together` returns.
        """
        with self.lock, no_fork(), self._committing() if self._commit is None else nullcontext(self._commit) as commit:
            transaction = LogTransaction(self._known(), commit.next_time(), self.head[1], by)
            before = _ends(transaction.state)
            try:
                yield transaction
            except BaseException as error:
                # A refusal changes nothing; after anything else the state may be ahead of the log.
                if transaction.is_ahead or not isinstance(error, InvalidInput):
                    self._forget()
                raise
            self.head = transaction.state.n_events, transaction.hash
            commit.rows += transaction.rows
            commit.news += _news(transaction, before)

    def together(self, calls: Sequence[Callable[[], T]]) -> list[T | Exception]:
        """Make calls that write in one transaction; see `Study.together`."""
        refused: dict[int, Exception] = {}
        with self.lock, no_fork():
            while True:
                try:
                    with self._committing() as self._commit, self.held():
                        return [
                            refused[n] if n in refused else self._made(n, calls[n], refused) for n in range(len(calls))
                        ]
                except _DoAgain:
                    continue
                finally:
                    self._commit = None

    def _made(self, n: int, call: Callable[[], T], refused: dict[int, Exception]) -> T | Exception:
        """Return what the n-th call returns, or the error by which it is refused.

        Raises:
            _DoAgain: it has written before it was refused.
        """
        assert self._commit is not None
        n_rows = len(self._commit.rows)
        try:
            return call()
        except Exception as error:  # whatever it is, it is of this call alone
            refused[n] = error
            if self._state is None or len(self._commit.rows) > n_rows:
                raise _DoAgain from error
            return error

    @contextmanager
    def _committing(self) -> Iterator[_Commit]:
        """Begin a transaction of the storage, and commit what was written at the end."""
        self.state()  # what takes long is done before others wait for it
        commit = None
        try:
            with self._storage.writing(self._name) as writer:
                self._by(writer.read)
                commit = _Commit(writer)
                yield commit
                if commit.rows:
                    writer.append(commit.rows)
            self.leases.look(len(self._known().attempts))
        except BaseException as error:
            if commit is not None and (commit.rows or not isinstance(error, InvalidInput)):
                self._forget()
            raise
        for level, text in commit.news:
            LOGGER.log(level, "study %s: %s", shown(self._name), shown(text))

    def _known(self) -> State:
        assert self._state is not None
        return self._state

    def _by(self, read: Callable[[int], list[Row]]) -> State:
        """Bring the state up to the log, of which `read` returns the events after a number."""
        n, last_hash = self.head
        with _no_collections(is_needed=n == 0):
            # With the last event that is known: a study that was deleted and made anew has another one there.
            rows = read(max(n - 1, 0))
            if n and rows[0].hash != last_hash:
                raise CorruptLog(
                    f"study {self._name!r} was deleted and made anew, or its log was changed, since this object was "
                    "loaded; load it again."
                )
            self._take_in(rows[1:] if n else rows)
        self.leases.look(len(self._known().attempts))
        return self._known()

    def _take_in(self, rows: Sequence[Row]) -> None:
        check_chain(rows, self.head[1], self.head[0] + 1)
        try:
            # Many in one text: to read them one by one takes several times as long, and all at once more memory.
            for first in range(0, len(rows), AT_ONCE):
                some = rows[first : first + AT_ONCE]
                events = json.loads(f"[{','.join([row.text for row in some])}]")
                for row, event in zip(some, events, strict=True):
                    if self._state is None:
                        self._state = State(event, row.hash)
                    else:
                        self._state.apply(event, row.hash)
        except BaseException:
            self._forget()
            raise
        if rows:
            self.head = rows[-1].n, rows[-1].hash


def _ends(state: State) -> frozenset[str]:
    """Return what has come to an end, in words for a logger; nothing is worked out if no handler listens."""
    if not LOGGER.isEnabledFor(logging.INFO):
        return frozenset()
    is_spent = state.learner.state.is_spent and not state.open and not state.stopped
    is_withdrawn = state.learner.decision.guarantee == "withdrawn"
    known = {"the budget has ended": is_spent, "the claim is withdrawn, the data contradict the model": is_withdrawn}
    return frozenset(text for text, is_so in known.items() if is_so)


def _news(transaction: LogTransaction, before: frozenset[str]) -> list[tuple[int, str]]:
    """Return what loggers are told of a transaction: level and text."""
    if not LOGGER.isEnabledFor(logging.INFO):
        return []
    state = transaction.state
    ends = [(logging.INFO, text) for text in sorted(_ends(state) - before)]
    return [*(_announced(event, state) for event in transaction.events), *ends]


def _announced(event: Mapping[str, Any], state: State) -> tuple[int, str]:
    label = state.catalog.label
    match event["kind"]:
        case Kind.STOPPED:
            best = ", ".join(state.catalog.key_label(key_from(key)) for key in event["best"])
            return logging.INFO, f"decided after {event['pulls']} pulls, best {best}"
        case Kind.RESUMED:
            return logging.INFO, f"the verdict is withdrawn, {event['reason']}"
        case Kind.REOPENED:
            return logging.INFO, f"reopened, {event['reason']}"
        case Kind.ASKED:
            arms = ", ".join(label(key_from(arm)) for _, arm in event["asks"])
            return logging.DEBUG, f"{event['by']} is asked for {arms}"
        case Kind.TOLD:
            return logging.DEBUG, f"{event['by']} tells {label(key_from(event['arm']))} = {event['value']!r}"
        case kind:
            return logging.DEBUG, f"{kind} by {event['by']}"


@contextmanager
def _no_collections(*, is_needed: bool) -> Iterator[None]:
    """Keep the garbage collector from going through all events again and again while many come in; none is garbage."""
    is_on = is_needed and gc.isenabled()
    if is_on:
        gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()
