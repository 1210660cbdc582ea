"""Studies in the memory of one process, for simulations and tests."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import NoReturn

from surepick.errors import InvalidInput, StorageError
from surepick.study import events
from surepick.study.events import Row, check_chain
from surepick.study.storage.base import (
    PATIENCE,
    KeptSummary,
    Summary,
    TokenRow,
    at_forks,
    check_first,
    check_name,
    log_is_short,
    no_fork,
    no_such_study,
    no_such_token,
    study_exists,
    token_exists,
)


@dataclass
class _Log:
    """One study: its rows and its summary."""

    rows: list[Row]
    summary: KeptSummary | None = None


class MemoryStorage:
    """A storage that lives as long as this object. Threads may share it."""

    address = "memory"

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}
        self._tokens: dict[str, TokenRow] = {}
        self._lock = Lock()  # of the writer; readers copy lists and dictionaries in one step, and need none
        at_forks(self)

    def __reduce__(self) -> NoReturn:
        raise InvalidInput(
            "a study in memory lives in this process alone, so that it cannot be pickled; create it in a file, "
            'storage="lab.db", which other processes open too.'
        )

    def before_fork(self) -> None:
        """Nothing to close."""

    def renew(self) -> None:
        """In the child of a fork, which has a copy of all studies: replace a lock that a thread of the parent held."""
        self._lock = Lock()

    def names(self) -> list[str]:
        """Return the names of all studies, sorted."""
        return sorted(self._logs)

    def summaries(self) -> list[Summary]:
        """Return all studies at a glance."""
        logs = dict(self._logs)
        found = ((name, logs[name].rows[0], logs[name].rows[-1], logs[name].summary) for name in sorted(logs))
        return [Summary(name, last.n, first.text, last.text, last.hash, kept) for name, first, last, kept in found]

    def keep_summary(self, name: str, n: int, hash: str, text: str) -> None:  # noqa: A002 (see `Storage`)
        """Store the status of a study after event `n`, unless there is a newer one."""
        check_name(name)
        log = self._logs.get(name)
        if log is not None and (log.summary is None or n >= log.summary.n):
            log.summary = KeptSummary(n, hash, text)

    def n_events(self, name: str) -> int:
        """Return the number of events of a study."""
        return len(self._log(name).rows)

    def create(self, name: str, rows: Sequence[Row]) -> None:
        """Create a study with its first rows."""
        check_name(name)
        check_first(rows)
        with self._only_writer():
            if name in self._logs:
                raise study_exists(name, self.address)
            self._logs[name] = _Log(list(rows))

    def delete(self, name: str) -> None:
        """Delete a study, once its writer has finished."""
        with self._only_writer():
            self._log(name)
            del self._logs[name]

    def read(self, name: str, after: int = 0, limit: int | None = None) -> list[Row]:
        """Return the rows of a study after number `after`, at most `limit`."""
        return _after(name, self._log(name).rows, after, limit)

    @contextmanager
    def writing(self, name: str) -> Iterator["_MemoryWriter"]:
        """Begin a write transaction on a study."""
        with no_fork(), self._only_writer():
            log = self._log(name)
            writer = _MemoryWriter(name, log.rows)
            yield writer
            log.rows += writer.new

    def tokens(self) -> list[TokenRow]:
        """Return all tokens."""
        return list(self._tokens.values())

    def add_token(self, token: TokenRow) -> None:
        """Keep a token."""
        with self._only_writer():
            if token.id in self._tokens or token.digest in {known.digest for known in self._tokens.values()}:
                raise token_exists(token, self.address)
            self._tokens[token.id] = token

    def revoke_token(self, id: str, at: str) -> None:  # noqa: A002 (see `ServerStorage`)
        """Note that a token is no longer valid."""
        with self._only_writer():
            known = self._tokens.get(id)
            if known is None:
                raise no_such_token(id, self._tokens.values(), self.address)
            self._tokens[id] = known._replace(revoked_at=known.revoked_at or at)

    def listen(self, patience: float = 1.0) -> None:
        """Return None: no other process changes these studies."""

    def close(self) -> None:
        """Nothing to close: the studies live as long as this object."""

    def _log(self, name: str) -> _Log:
        check_name(name)
        log = self._logs.get(name)
        if log is None:
            raise no_such_study(name, self.names(), self.address)
        return log

    @contextmanager
    def _only_writer(self) -> Iterator[None]:
        lock = self._lock  # `renew` replaces the attribute in the child of a fork
        if not lock.acquire(timeout=PATIENCE):
            raise StorageError(
                f"cannot write in memory: another thread has been writing for {PATIENCE:.0f} s; let it finish, and do "
                "not open a second writer inside the block of the first."
            )
        try:
            yield
        finally:
            lock.release()


class _MemoryWriter:
    """Collects rows, which the storage appends when the transaction ends normally."""

    def __init__(self, name: str, rows: list[Row]) -> None:
        self._name = name
        self._rows = rows
        self.now = events.now()
        self.new: list[Row] = []

    def read(self, after: int = 0) -> list[Row]:
        return _after(self._name, self._rows + self.new if self.new else self._rows, after)

    def append(self, rows: Sequence[Row]) -> None:
        last = (self.new or self._rows)[-1]
        check_chain(rows, previous=last.hash, first=last.n + 1)
        self.new += rows


def _after(name: str, rows: list[Row], after: int, limit: int | None = None) -> list[Row]:
    if after > len(rows):
        raise log_is_short(name, len(rows), after)
    first = max(after, 0)
    return rows[first : None if limit is None else first + limit]
