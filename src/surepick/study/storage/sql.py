"""Studies in an SQL database, the same for SQLite and PostgreSQL."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from surepick.errors import NoSuchStudy, StorageError
from surepick.study.events import Row, check_chain
from surepick.study.storage.base import Summary, check_first, check_name, log_is_short, no_such_study, study_exists
from surepick.study.storage.connections import Connections, Transaction
from surepick.study.storage.database import Database


class SqlStorage:
    """Studies in a database. Threads may share it, and the process may fork."""

    def __init__(self, database: Database) -> None:
        self._connections = Connections(database)
        self.address = database.address

    def names(self) -> list[str]:
        """The names of all studies, sorted."""
        return sorted(name for (name,) in self._connections.query("list the studies of", "names"))

    def summaries(self) -> list[Summary]:
        """All studies at a glance."""
        return sorted(map(Summary._make, self._connections.query("list the studies of", "summaries")))

    def n_events(self, name: str) -> int:
        """How many events a study has."""
        check_name(name)
        ((found,),) = self._connections.query(f"read study {name!r} in", "length", name=name)
        if found is None:
            raise no_such_study(name, self.names(), self.address)
        return int(found)

    def create(self, name: str, rows: Sequence[Row]) -> None:
        """Make a study with its first rows."""
        check_name(name)
        check_first(rows)
        try:
            with self._connections.transaction(f"create study {name!r} in") as transaction:
                transaction.do("add study", {"name": name})
                ((study,),) = transaction.ask("number", name=name)
                _insert(transaction, study, rows)
        except StorageError as error:
            if isinstance(error.__cause__, self._connections.integrity_error):
                raise study_exists(name, self.address) from None
            raise

    def delete(self, name: str) -> None:
        """Remove a study, once its writer has finished."""
        with self._claimed(f"delete study {name!r} in", name) as writer:
            writer.delete()

    def read(self, name: str, after: int = 0) -> list[Row]:
        """The rows of a study after that number."""
        check_name(name)
        after = max(after, 0)
        rows = self._connections.query(f"read study {name!r} in", "read", name=name, after=after)
        if not rows:
            raise log_is_short(name, self.n_events(name), after)
        return list(map(Row._make, rows[1:] if after else rows))

    @contextmanager
    def writing(self, name: str) -> Iterator["SqlWriter"]:
        """Wait to be the one writer of a study."""
        with self._claimed(f"write study {name!r} in", name) as writer:
            yield writer

    def close(self) -> None:
        """Let go of the connections; a later call makes new ones."""
        self._connections.close()

    @contextmanager
    def _claimed(self, doing: str, name: str) -> Iterator["SqlWriter"]:
        def missing() -> NoSuchStudy:
            return no_such_study(name, self.names(), self.address)

        check_name(name)
        with self._connections.transaction(doing, name) as transaction:
            if transaction.study is None:
                raise missing()
            yield SqlWriter(transaction, transaction.study, name, missing)


class SqlWriter:
    """The one writer of a study."""

    def __init__(self, transaction: Transaction, study: int, name: str, missing: Callable[[], NoSuchStudy]) -> None:
        self._transaction = transaction
        self.now = transaction.now
        self._study = study
        self._name = name
        self._missing = missing
        self._known_end: tuple[int, str] | None = None

    def read(self, after: int = 0) -> list[Row]:
        """The rows after that number."""
        after = max(after, 0)
        rows = self._transaction.ask("read claimed", study=self._study, after=after)
        if not rows:
            raise log_is_short(self._name, self._end()[0], after)
        self._known_end = rows[-1][0], rows[-1][2]
        return list(map(Row._make, rows[1:] if after else rows))

    def append(self, rows: Sequence[Row]) -> None:
        """Add rows to the end of the log."""
        if not rows:
            return
        n, end_hash = self._end()
        check_chain(rows, previous=end_hash, first=n + 1)
        _insert(self._transaction, self._study, rows)
        self._known_end = rows[-1].n, rows[-1].hash

    def delete(self) -> None:
        """Remove the study."""
        self._end()
        self._transaction.do("delete events", {"study": self._study})
        self._transaction.do("delete study", {"study": self._study})

    def _end(self) -> tuple[int, str]:
        """Number and hash of the last event.

        Raises:
            NoSuchStudy: there is none, because the study was deleted while we waited for it.
        """
        if self._known_end is None:
            found = self._transaction.ask("end", study=self._study)
            if not found:
                raise self._missing()
            self._known_end = found[0][0], found[0][1]
        return self._known_end


def _insert(transaction: Transaction, study: int, rows: Sequence[Row]) -> None:
    transaction.do("append", *({"study": study, "n": n, "text": text, "hash": found} for n, text, found in rows))
