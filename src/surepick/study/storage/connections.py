"""Connections to a database, kept for the next call: queries, transactions, and what is done when one of them fails.

They come from SQLAlchemy's pool, but statements run on the driver itself: SQLAlchemy's own transactions and results
take longer than the database does. Every error of driver or pool leaves here as a `StorageError` of one line.
"""

import re
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from threading import Lock
from typing import Any, TypeVar

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import PoolProxiedConnection

from surepick.errors import OutcomeUnknown, StorageError
from surepick.study.forks import at_forks, no_fork
from surepick.study.storage.database import Database
from surepick.study.storage.schema import bring_up_to_date, check_revision
from surepick.study.storage.statements import STATEMENTS

_Answer = TypeVar("_Answer")


class Connections:
    """The connections of one process to one database. Threads may share them, and the process may fork."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._engine = database.connect()
        # Counts the pools: a connection that was in use while its pool was let go of must not go back there.
        self._pool_number = 0
        self._lock = Lock()
        self._dialect = self._engine.dialect
        self._sql = {name: str(one.compile(dialect=self._dialect)) for name, one in STATEMENTS.items()}
        self._errors = (self._dialect.loaded_dbapi.Error, SQLAlchemyError)
        self.integrity_error: type[Exception] = self._dialect.loaded_dbapi.IntegrityError
        try:
            with no_fork(), self.telling("open"):
                bring_up_to_date(self._engine, database)
        except BaseException:
            self.close()
            raise
        at_forks(self)
        weakref.finalize(self, self._engine.dispose)

    def query(self, doing: str, statement: str, **values: object) -> list[Any]:
        """The answer to one statement that only reads, as of one moment."""

        def ask(driver: Any) -> list[Any]:
            return list(driver.execute(self._sql[statement], values).fetchall())

        with no_fork():
            connection, rows = self._started(doing, ask)
            self._give_back(connection)
        return rows

    @contextmanager
    def transaction(self, doing: str, name: str | None = None) -> Iterator["Transaction"]:
        """A transaction that writes; with `name`, as the only writer of that study.

        Committed when the block is left cleanly, and rolled back when not.
        """
        with no_fork():
            connection, (now, study) = self._started(doing, lambda driver: self._begin(driver, name))
            try:
                transaction = Transaction(self, connection.driver_connection, doing, now, study)
                yield transaction
                transaction.check()
                self._commit(connection, doing)
            except BaseException as error:
                self._end_badly(connection, error)
                raise
            self._give_back(connection)

    @contextmanager
    def telling(self, doing: str) -> Iterator[None]:
        """Turn an error of the database into one for people."""
        try:
            yield
        except self._errors as error:
            raise self._failure(doing, error) from _driver_error(error)

    def sql(self, statement: str) -> str:
        """A statement in the words of this database."""
        return self._sql[statement]

    def close(self) -> None:
        """Close all connections: those that are in use as soon as they are given back."""
        with no_fork():
            self.before_fork()

    def before_fork(self) -> None:
        """Close all connections: an SQLite file would lose its locks, two processes would talk over one line."""
        with self._lock:
            self._pool_number += 1
            self._engine.dispose()

    def renew(self) -> None:
        """Drop what was in use at the fork, without a word to the other side: it is the parent's."""
        self._lock = Lock()
        self._engine.dispose(close=False)

    def _begin(self, driver: Any, name: str | None) -> tuple[datetime, int | None]:
        revision, now = self.database.begin(driver)
        check_revision(revision, self.database)  # another process may have changed the tables since
        return now, None if name is None else self.database.claim(driver, name)

    def _started(self, doing: str, work: Callable[[Any], _Answer]) -> tuple[PoolProxiedConnection, _Answer]:
        """A connection, and the answer to the first thing that was done with it.

        One that was kept may be dead, if the server was started anew; then nothing has happened yet, and a new one is
        tried.
        """
        for is_last_try in (False, True):
            pool_number = self._pool_number
            with self.telling(doing):
                connection = self._engine.raw_connection()
            connection.info.setdefault("pool", pool_number)
            try:
                return connection, work(connection.driver_connection)
            except BaseException as error:
                is_dead = self._end_badly(connection, error)
                if isinstance(error, self._errors):
                    if is_dead and not is_last_try:
                        continue
                    raise self._failure(doing, error) from _driver_error(error)
                raise
        raise AssertionError("the last try returns or raises")

    def _commit(self, connection: PoolProxiedConnection, doing: str) -> None:
        try:
            connection.commit()
        except self._errors as error:
            if self._is_dead(connection, error) or self.database.may_have_committed(error):
                raise self._failure(doing, error, OutcomeUnknown) from _driver_error(error)
            raise self._failure(doing, error) from _driver_error(error)
        self.database.check_committed(connection.driver_connection)

    def _end_badly(self, connection: PoolProxiedConnection, error: BaseException) -> bool:
        """Roll back and give the connection back; return whether it was dead."""
        is_dead = self._is_dead(connection, error.__cause__ or error)
        if not is_dead:
            try:
                connection.rollback()
            except self._errors:
                is_dead = True
        if is_dead:
            connection.invalidate()
            # The others are from the same time, and will be dead as well.
            self.close()
        self._give_back(connection)
        return is_dead

    def _give_back(self, connection: PoolProxiedConnection) -> None:
        with self._lock:
            if connection.is_valid and connection.info["pool"] != self._pool_number:
                connection.invalidate()
            connection.close()

    def _is_dead(self, connection: PoolProxiedConnection, error: BaseException) -> bool:
        driver = connection.driver_connection
        return isinstance(error, self._errors[0]) and self._dialect.is_disconnect(error, driver, None)

    def _failure(self, doing: str, error: Exception, kind: type[StorageError] = StorageError) -> StorageError:
        """What was being done, what the database said, and what to do, in one line."""
        cause = _driver_error(error)
        said = re.sub(r":[^:@\s]*@", ":***@", " ".join(str(cause).split())[:300].rstrip(".;: "))  # a password
        advice = self.database.advice(cause)
        if kind is OutcomeUnknown:
            advice = f"whether it was written is not known, so read the log again; {advice}"
        return kind(f"cannot {doing} {self.database.address}: {said}; {advice}.")


class Transaction:
    """Statements between BEGIN and COMMIT. After an error there is no COMMIT, even if the error was caught."""

    def __init__(self, connections: Connections, driver: Any, doing: str, now: datetime, study: int | None) -> None:
        self.now, self.study = now, study
        self._connections = connections
        self._driver = driver
        self._doing = doing
        self._failure: StorageError | None = None

    def ask(self, statement: str, **values: object) -> list[Any]:
        """The answer to a statement."""
        with self._watched():
            answer: list[Any] = self._driver.execute(self._connections.sql(statement), values).fetchall()
            return answer

    def do(self, statement: str, *every: dict[str, object]) -> None:
        """Run a statement once for each set of values."""
        with self._watched():
            if len(every) == 1:
                self._driver.execute(self._connections.sql(statement), every[0])
            else:
                self._driver.cursor().executemany(self._connections.sql(statement), every)

    def check(self) -> None:
        """Raise the error of an earlier statement again: what it left undone must not be committed."""
        if self._failure is not None:
            raise self._failure

    @contextmanager
    def _watched(self) -> Iterator[None]:
        self.check()
        try:
            with self._connections.telling(self._doing):
                yield
        except StorageError as error:
            self._failure = error
            raise


def _driver_error(error: Exception) -> Exception:
    """What the driver said, without SQLAlchemy's words around it."""
    return error.orig if isinstance(error, DBAPIError) and isinstance(error.orig, Exception) else error
