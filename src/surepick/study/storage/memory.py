"""Studies in the memory of one process: for simulations and tests, gone when the process ends."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

from surepick.errors import StorageError
from surepick.study import clock
from surepick.study.events import Row, check_chain
from surepick.study.forks import at_forks, no_fork
from surepick.study.storage.base import (
    PATIENCE,
    Summary,
    check_first,
    check_name,
    log_is_short,
    no_such_study,
    study_exists,
)


class _Log:
    """One study: its rows, and the lock that its writer holds."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = list(rows)
        self.lock = Lock()


class MemoryStorage:
    """A storage that lives as long as this object. Threads may share it."""

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}
        self._lock = Lock()
        at_forks(self)

    def before_fork(self) -> None:
        """Nothing to let go of."""

    def renew(self) -> None:
        """In the child of a fork, which has a copy of all studies: no thread of the parent has its locks."""
        self._lock = Lock()
        for log in self._logs.values():
            log.lock = Lock()

    @property
    def address(self) -> str:
        """Where it is, in words."""
        return "memory"

    def names(self) -> list[str]:
        """The names of all studies, sorted."""
        with self._lock:
            return sorted(self._logs)

    def summaries(self) -> list[Summary]:
        """All studies at a glance."""
        with self._lock:
            logs = sorted(self._logs.items())
        return [Summary(name, log.rows[-1].n, log.rows[0].text, log.rows[-1].text) for name, log in logs]

    def n_events(self, name: str) -> int:
        """How many events a study has."""
        return len(self._log(name).rows)

    def create(self, name: str, rows: Sequence[Row]) -> None:
        """Make a study with its first rows."""
        check_name(name)
        check_first(rows)
        with self._lock:
            if name in self._logs:
                raise study_exists(name, self.address)
            self._logs[name] = _Log(rows)

    def delete(self, name: str) -> None:
        """Remove a study, once its writer has finished."""
        with self._held(name), self._lock:
            del self._logs[name]

    def read(self, name: str, after: int = 0) -> list[Row]:
        """The rows of a study after that number."""
        return _after(name, self._log(name).rows, after)

    @contextmanager
    def writing(self, name: str) -> Iterator["_MemoryWriter"]:
        """Wait to be the one writer of a study."""
        with no_fork(), self._held(name) as log:
            writer = _MemoryWriter(name, log.rows)
            yield writer
            log.rows += writer.new

    def close(self) -> None:
        """Nothing to let go of: the studies stay as long as the object."""

    def _log(self, name: str) -> _Log:
        check_name(name)
        with self._lock:
            if name in self._logs:
                return self._logs[name]
        raise no_such_study(name, self.names(), self.address)

    @contextmanager
    def _held(self, name: str) -> Iterator[_Log]:
        log = self._log(name)
        lock = log.lock  # in the child of a fork there is another one
        if not lock.acquire(timeout=PATIENCE):
            raise StorageError(
                f"cannot write study {name!r} in memory: another thread has been writing it for {PATIENCE:.0f} s; "
                "let it finish, and do not open a second writer inside the block of the first."
            )
        try:
            if self._log(name) is not log:  # deleted, and perhaps made anew, while we waited
                raise no_such_study(name, self.names(), self.address)
            yield log
        finally:
            lock.release()


class _MemoryWriter:
    """Collects rows, which its storage adds when the transaction ends well."""

    def __init__(self, name: str, rows: list[Row]) -> None:
        self._name = name
        self._rows = rows
        self.now = clock.now()
        self.new: list[Row] = []

    def read(self, after: int = 0) -> list[Row]:
        n_kept = len(self._rows)
        if after <= n_kept:
            return _after(self._name, self._rows, after) + self.new
        if after > n_kept + len(self.new):
            raise log_is_short(self._name, n_kept + len(self.new), after)
        return self.new[after - n_kept :]

    def append(self, rows: Sequence[Row]) -> None:
        last = (self.new or self._rows)[-1]
        check_chain(rows, previous=last.hash, first=last.n + 1)
        self.new += rows


def _after(name: str, rows: list[Row], after: int) -> list[Row]:
    if after > len(rows):
        raise log_is_short(name, len(rows), after)
    return rows[max(after, 0) :]
