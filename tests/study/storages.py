"""Places to keep studies in: memory, an SQLite file, a PostgreSQL database; and processes that use them."""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from surepick.study import events, log
from surepick.study.events import Row, canonical, rows_of
from surepick.study.storage import Storage, Writer, open_storage
from tests.waiting import LIMIT

# Processes that are forks of one that has loaded everything: a hundred times cheaper than fresh ones. It runs no
# threads, as this one does.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["psycopg", "surepick.study.storage.sql", "tests.study.storages"])


class Place:
    """Somewhere to keep studies, that can be opened any number of times."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_memory = url == "memory:"
        self._opened: list[Storage] = []

    def open(self) -> Storage:
        """A storage there; memory is the same one each time, since another one would be empty."""
        if not (self.is_memory and self._opened):
            self._opened.append(open_storage(self.url))
        return self._opened[-1]

    def close(self) -> None:
        """Close all."""
        for storage in self._opened:
            storage.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Each kind of place, empty."""
    match request.param:
        case "memory":
            url = "memory:"
        case "sqlite":
            url = str(tmp_path / "lab.db")
        case _:
            url = request.getfixturevalue("postgres_url")
    with closing(Place(url)) as new:
        yield new


@pytest.fixture(params=["sqlite", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Each kind of place that processes can share, empty."""
    url = str(tmp_path / "lab.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with closing(Place(url)) as new:
        yield new


def set_time(monkeypatch: pytest.MonkeyPatch, now: Callable[[], datetime]) -> None:
    """Let this be the time, on this machine and on the server."""
    from surepick.study.storage.postgres import PostgresDatabase  # noqa: PLC0415 (loads psycopg)

    real = _REAL.setdefault("begin", PostgresDatabase.begin)
    monkeypatch.setattr(events, "now", now)
    monkeypatch.setattr(log, "elapsed", lambda: now().timestamp())
    monkeypatch.setattr(PostgresDatabase, "begin", lambda self, *given: (real(self, *given)[0], now()))


_REAL: dict[str, Any] = {}


def first_rows(n: int = 1, **fields: object) -> list[Row]:
    """The beginning of a log."""
    return rows_of([canonical({"n": i, "kind": "created", **fields}) for i in range(1, n + 1)])


def next_rows(last: Row, n: int = 1, **fields: object) -> list[Row]:
    """What may follow after a row."""
    texts = [canonical({"n": last.n + i, "kind": "told", **fields}) for i in range(1, n + 1)]
    return rows_of(texts, last.hash, last.n + 1)


def append(storage: Storage, name: str, n: int = 1, **fields: object) -> list[Row]:
    """Append rows in a transaction of their own."""
    known = storage.n_events(name) - 1
    with storage.writing(name) as writer:
        rows = next_rows(writer.read(known)[-1], n, **fields)
        writer.append(rows)
    return rows


def write(storage: Storage, name: str, work: Callable[[Writer], object]) -> None:
    """Do some work in a transaction."""
    with storage.writing(name) as writer:
        work(writer)


def in_processes(work: Callable[..., object], every: Sequence[tuple]) -> None:
    """Run `work` in one process for each tuple of arguments, all at once; each must end well."""
    processes = [PROCESSES.Process(target=work, args=arguments) for arguments in every]
    for process in processes:
        process.start()
    for process in processes:
        process.join(LIMIT)
        assert process.exitcode == 0, f"{work.__name__} in another process ended with {process.exitcode}"
        process.close()


def count_up(url: str, name: str, n: int, by: str) -> None:
    """Append n rows one by one, as one of many processes; each says how many there were before."""
    with closing(open_storage(url)) as storage:
        known: Any = None
        for _ in range(n):
            with storage.writing(name) as writer:
                new = writer.read(known.n if known else 0)
                known = new[-1] if new else known
                rows = next_rows(known, by=by, before=known.n)
                writer.append(rows)
            known = rows[-1]
