"""Studies in an SQL database: what SQLite and PostgreSQL have in common.

`Database` names what the two do differently. Connections commit each statement by itself until a transaction begins:
SQLite's must begin with BEGIN IMMEDIATE, and in PostgreSQL a read then takes one message instead of three. Every error
of a driver leaves this module as a `StorageError` of one line.
"""

import re
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, TypeVar

from surepick.errors import NoSuchStudy, OutcomeUnknown, StorageError
from surepick.study.events import Row, check_chain
from surepick.study.storage.base import (
    CACHE_PATIENCE,
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

_Answer = TypeVar("_Answer")

VERSION_TABLE = "surepick_version"
"""Holds the number of the last migration, and marks a database as surepick's."""

MIGRATIONS = (
    (  # In the first release: the names of studies, and their events.
        """CREATE TABLE surepick_version ( version_num VARCHAR(32) NOT NULL,
            CONSTRAINT surepick_version_pkc PRIMARY KEY (version_num) )""",
        "INSERT INTO surepick_version VALUES ('0')",
        "CREATE TABLE studies ( {own_id}, name TEXT NOT NULL, UNIQUE (name) )",
        """CREATE TABLE events ( study INTEGER NOT NULL, n INTEGER NOT NULL, text TEXT NOT NULL, hash TEXT NOT NULL,
            PRIMARY KEY (study, n), FOREIGN KEY(study) REFERENCES studies (id) ){side_by_side}""",
    ),
    (  # The newest status of each study, a cache that may lag behind the log.
        """CREATE TABLE summaries ( study INTEGER NOT NULL PRIMARY KEY, n INTEGER NOT NULL, hash TEXT NOT NULL,
            text TEXT NOT NULL, FOREIGN KEY(study) REFERENCES studies (id) )""",
    ),
    (  # Tokens of a server. A study's name and not its number: a token stays if its study is made anew.
        """CREATE TABLE tokens ( {own_id}, token TEXT NOT NULL, digest TEXT NOT NULL, role TEXT NOT NULL, study TEXT,
            label TEXT NOT NULL, created_at TEXT NOT NULL, revoked_at TEXT, UNIQUE (token), UNIQUE (digest) )""",
    ),
)
"""The statements that bring the tables from each revision to the next; a `Database` fills in the braces.

A migration that was released never changes: databases exist that have its tables.
"""

WITH_TOKENS = 3
"""The first revision that has a table of tokens."""

NEWEST = len(MIGRATIONS)
"""The revision of the tables that this package writes."""

# The row `after` itself comes first, without its text: it shows that the log reaches that far.
_ROWS = (
    "SELECT n, CASE WHEN n > :after THEN text ELSE '' END, hash FROM events WHERE study = {} AND n >= :after ORDER BY n"
)
_SUMMARIES = (
    "SELECT studies.name, last.n, first.text, last.text, last.hash, {} FROM studies"
    " JOIN events AS first ON first.study = studies.id AND first.n = 1"
    " JOIN events AS last ON last.study = studies.id"
    " AND last.n = (SELECT max(n) FROM events WHERE study = studies.id)"
)
_ALL = 2**62
_ID = "(SELECT id FROM studies WHERE name = :name)"

STATEMENTS = {
    "names": "SELECT name FROM studies",
    "summaries": _SUMMARIES.format("kept.n, kept.hash, kept.text") + " LEFT JOIN summaries AS kept ON kept.study = id",
    "summaries of revision 1": _SUMMARIES.format("NULL, NULL, NULL"),
    "length": f"SELECT max(n) FROM events WHERE study = {_ID}",  # noqa: S608 (our own text)
    "read": f"{_ROWS.format(_ID)} LIMIT :limit",
    "read claimed": _ROWS.format(":study"),
    "end": "SELECT n, hash FROM events WHERE study = :study ORDER BY n DESC LIMIT 1",
    "add study": "INSERT INTO studies (name) VALUES (:name)",
    "id": "SELECT id FROM studies WHERE name = :name",
    "append": "INSERT INTO events (study, n, text, hash) VALUES (:study, :n, :text, :hash)",
    "keep summary": "INSERT INTO summaries (study, n, hash, text)"
    " SELECT id, :n, :hash, :text FROM studies WHERE name = :name"
    " ON CONFLICT (study) DO UPDATE SET n = excluded.n, hash = excluded.hash, text = excluded.text"
    " WHERE excluded.n >= summaries.n",
    "delete summary": "DELETE FROM summaries WHERE study = :study",
    "delete events": "DELETE FROM events WHERE study = :study",
    "delete study": "DELETE FROM studies WHERE id = :study",
    "tokens": "SELECT token, digest, role, study, label, created_at, revoked_at FROM tokens ORDER BY id",
    "add token": "INSERT INTO tokens (token, digest, role, study, label, created_at, revoked_at)"
    " VALUES (:id, :digest, :role, :study, :label, :created_at, :revoked_at)",
    "revoke token": "UPDATE tokens SET revoked_at = COALESCE(revoked_at, :at) WHERE token = :id",
    "revision": "SELECT version_num FROM surepick_version",
}
"""All statements on our tables, with parameters in SQLite's notation."""


class Database(Protocol):
    """One kind of database, at one address. A connection is that of its driver."""

    address: str
    """Where the database is, in words for people."""
    url: str | Path
    """By which `open_storage` finds it again; it may have a password, and is never shown."""
    own_id: str
    """A column of numbers. None is given twice: a study that is deleted and created again is another study."""
    side_by_side: str
    """Words that keep the events of a study together, in the order of the primary key."""
    error: type[Exception]
    """The driver's class of all its errors."""
    integrity_error: type[Exception]
    """The driver's class of violated constraints."""
    tables: str
    """The query for the names of all tables."""

    def spelled(self, statement: str) -> str:
        """Return a statement of `STATEMENTS` in the driver's notation for parameters."""

    def connect(self) -> Any:
        """Return a new connection, in which each statement commits by itself."""

    def prepare(self, connection: Any) -> None:
        """Set what the database itself remembers, once it is known to be empty or surepick's."""

    def begin(self, connection: Any, patience: float | None = None) -> tuple[str, datetime]:
        """Begin a transaction that writes; return the revision of the tables and the time by the shared clock.

        Args:
            connection: in no transaction.
            patience: seconds to wait for other writers; None for `PATIENCE`.
        """

    def begin_migration(self, connection: Any) -> None:
        """Begin a transaction that changes the tables, while no other transaction writes."""

    def claim(self, connection: Any, name: str) -> int | None:
        """Wait until no other transaction writes to the study; return its number, None if there is no such study."""

    def advice(self, error: Exception) -> str:
        """Return what to do about an error of the driver."""

    def notify(self, connection: Any, name: str) -> None:
        """Tell who listens that a study has changed, once the transaction is committed."""
        return

    def listen(self, patience: float) -> Generator[str, None, None] | None:
        """Yield the names of studies that have changed; see `ServerStorage.listen`."""
        return None

    def close(self, connection: Any) -> None:
        """Close a connection that is in no transaction."""
        connection.close()

    def is_dead(self, connection: Any) -> bool:
        """Whether the connection is lost."""
        return False

    def may_have_committed(self, error: Exception) -> bool:
        """Whether a COMMIT that failed with this error may have taken effect."""
        return False

    def check_before_use(self) -> None:
        """Check that an idle connection still leads to the database."""
        return

    def check_committed(self, connection: Any) -> None:
        """Check that the committed data is where the next reader looks."""
        return


class Pool:
    """The idle connections of one process to one database.

    psycopg's own pool does not serve: it connects in threads of its own, which a fork leaves in the parent, and it
    answers a wrong password with a timeout.
    """

    MOST_IDLE = 8

    def __init__(self, database: Database) -> None:
        self._database = database
        self._idle: list[Any] = []
        self._lock = Lock()
        # Counts calls of `close`: a connection taken before one of them is closed when it comes back.
        self.generation = 0

    def take(self) -> tuple[Any, int]:
        """Return a connection, and the generation to give it back with."""
        self._database.check_before_use()
        with self._lock:
            generation = self.generation
            if self._idle:
                return self._idle.pop(), generation
        return self._database.connect(), generation

    def give_back(self, connection: Any, generation: int) -> None:
        """Keep a connection for the next caller, or close it."""
        with self._lock:
            if generation == self.generation and len(self._idle) < self.MOST_IDLE:
                self._idle.append(connection)
                return
        self._database.close(connection)

    def close(self) -> None:
        """Close idle connections now, and connections in use when they come back."""
        with self._lock:
            self.generation += 1
            idle, self._idle = self._idle, []
            for connection in idle:
                self._database.close(connection)

    def before_fork(self) -> None:
        """Close idle connections: an SQLite file would lose its locks, two processes would share one socket."""
        self.close()

    def renew(self) -> None:
        """In the child of a fork: forget the parent's connections without closing them."""
        self._idle, self._lock = [], Lock()
        self.generation += 1


class SqlStorage:
    """Studies in a database. Threads may share it, and the process may fork."""

    def __init__(self, database: Database) -> None:
        self.address = database.address
        self._database = database
        self._pool = Pool(database)
        self.sql = {name: database.spelled(statement) for name, statement in STATEMENTS.items()}
        try:
            with no_fork():
                held, _ = self._started("open", self._prepare)
                self._pool.give_back(*held)
        except BaseException:
            self.close()
            raise
        at_forks(self._pool)
        weakref.finalize(self, self._pool.close)

    def __reduce__(self) -> Any:
        """A pickle has the address, with the password if the address had one."""
        from surepick.study.storage import open_storage  # noqa: PLC0415 (the package of this file)

        return partial(open_storage, self._database.url, may_create=False), ()

    def names(self) -> list[str]:
        """Return the names of all studies, sorted."""
        return sorted(name for (name,) in self._query("list the studies of", "names"))

    def summaries(self) -> list[Summary]:
        """Return all studies at a glance."""
        ((revision,),) = self._query("list the studies of", "revision")
        statement = "summaries of revision 1" if revision == "1" else "summaries"
        rows = sorted(self._query("list the studies of", statement))
        return [
            Summary(name, n, first, last, end, None if kept[0] is None else KeptSummary(*kept))
            for name, n, first, last, end, *kept in rows
        ]

    def keep_summary(self, name: str, n: int, hash: str, text: str) -> None:  # noqa: A002 (see `Storage`)
        """Store the status of a study after event `n`, if that is possible now and the tables have a place for it."""
        check_name(name)
        with suppress(StorageError):
            if self._query("open", "revision") == [(str(NEWEST),)]:
                with self._transaction(f"keep the summary of {name!r} in", patience=CACHE_PATIENCE) as writer:
                    writer.run("keep summary", {"name": name, "n": n, "hash": hash, "text": text})

    def n_events(self, name: str) -> int:
        """Return the number of events of a study."""
        check_name(name)
        ((found,),) = self._query(f"read study {name!r} in", "length", name=name)
        if found is None:
            raise self.no_such(name)
        return int(found)

    def create(self, name: str, rows: Sequence[Row]) -> None:
        """Create a study with its first rows."""
        check_name(name)
        check_first(rows)
        try:
            with self._transaction(f"create study {name!r} in") as writer:
                writer.create(name, rows)
        except StorageError as error:
            if isinstance(error.__cause__, self._database.integrity_error):
                raise study_exists(name, self.address) from None
            raise

    def delete(self, name: str) -> None:
        """Delete a study, once its writer has finished."""
        check_name(name)
        with self._transaction(f"delete study {name!r} in", name) as writer:
            writer.delete()

    def read(self, name: str, after: int = 0, limit: int | None = None) -> list[Row]:
        """Return the rows of a study after number `after`, at most `limit`."""
        check_name(name)
        after = max(after, 0)
        most = _ALL if limit is None else limit + (after > 0)
        rows = self._query(f"read study {name!r} in", "read", name=name, after=after, limit=most)
        if not rows:
            raise log_is_short(name, self.n_events(name), after)
        return list(map(Row._make, rows[1:] if after else rows))

    def writing(self, name: str) -> AbstractContextManager["SqlWriter"]:
        """Begin a write transaction on a study."""
        check_name(name)
        return self._transaction(f"write study {name!r} in", name)

    def tokens(self) -> list[TokenRow]:
        """Return all tokens; a database of an older package has none."""
        ((revision,),) = self._query("list the tokens of", "revision")
        rows = self._query("list the tokens of", "tokens") if _known(revision, self.address) >= WITH_TOKENS else []
        return list(map(TokenRow._make, rows))

    def add_token(self, token: TokenRow) -> None:
        """Keep a token."""
        try:
            with self._transaction("add a token to") as writer:
                writer.run("add token", token._asdict())
        except StorageError as error:
            if isinstance(error.__cause__, self._database.integrity_error):
                raise token_exists(token, self.address) from None
            raise

    def revoke_token(self, id: str, at: str) -> None:  # noqa: A002 (see `ServerStorage`)
        """Note that a token is no longer valid."""
        with self._transaction("revoke a token of") as writer:
            known = list(map(TokenRow._make, writer.run("tokens")))
            if id not in {token.id for token in known}:
                raise no_such_token(id, known, self.address)
            writer.run("revoke token", {"id": id, "at": at})

    def listen(self, patience: float = 1.0) -> Generator[str, None, None] | None:
        """Yield the name of each study that any process changes; None for SQLite."""
        return self._database.listen(patience)

    def close(self) -> None:
        """Close all connections: those in use as soon as their transaction ends. A later call opens new ones."""
        with no_fork():
            self._pool.close()

    # ---- statements and transactions

    def _query(self, doing: str, statement: str, **values: object) -> list[Any]:
        """Return the answer to one statement that reads."""

        def ask(connection: Any) -> list[Any]:
            return list(connection.execute(self.sql[statement], values).fetchall())

        with no_fork():
            held, rows = self._started(doing, ask)
            self._pool.give_back(*held)
        return rows

    @contextmanager
    def _transaction(self, doing: str, name: str | None = None, patience: float | None = None) -> Iterator["SqlWriter"]:
        """Begin a transaction that writes: commit it if the block ends normally, and roll it back otherwise.

        Args:
            doing: what it does, for errors.
            name: of the study to be the only writer of; None: of no study.
            patience: seconds to wait for other writers; None for `PATIENCE`.
        """
        with no_fork():
            held, (now, study) = self._started(doing, lambda connection: self._begin(connection, name, patience))
            try:
                writer = SqlWriter(self, held[0], doing, now, name, study)
                if name is not None and study is None:
                    raise self.no_such(name)
                yield writer
                writer.check()
                if writer.changed is not None:
                    with self.telling(doing):
                        self._database.notify(held[0], writer.changed)
                self._commit(held[0], doing)
            except BaseException:
                self._end_badly(*held)
                raise
            self._pool.give_back(*held)

    def _started(self, doing: str, work: Callable[[Any], _Answer]) -> tuple[tuple[Any, int], _Answer]:
        """Return a connection with its generation, and the answer to the first work on the connection.

        An idle connection may be dead, if the server was restarted. Nothing has happened yet then, so a second
        connection is tried.
        """
        for is_last_try in (False, True):
            with self.telling(doing):
                held = self._pool.take()
            try:
                return held, work(held[0])
            except BaseException as error:
                is_dead = self._end_badly(*held)
                if not isinstance(error, self._database.error):
                    raise
                if is_last_try or not is_dead:
                    raise self._failure(doing, error) from error
        raise AssertionError("the last try returns or raises")

    def _begin(self, connection: Any, name: str | None, patience: float | None) -> tuple[datetime, int | None]:
        revision, now = self._database.begin(connection, patience)
        # Another process may have changed the tables since the storage was opened.
        if _known(revision, self.address) < NEWEST:
            connection.rollback()
            self._migrate(connection)
            _, now = self._database.begin(connection, patience)
        return now, None if name is None else self._database.claim(connection, name)

    def _commit(self, connection: Any, doing: str) -> None:
        try:
            connection.commit()
        except self._database.error as error:
            is_unknown = self._database.is_dead(connection) or self._database.may_have_committed(error)
            raise self._failure(doing, error, OutcomeUnknown if is_unknown else StorageError) from error
        self._database.check_committed(connection)

    def _end_badly(self, connection: Any, generation: int) -> bool:
        """Roll back and give the connection back; return whether the connection was dead."""
        is_dead = self._database.is_dead(connection)
        if not is_dead:
            try:
                connection.rollback()
            except self._database.error:
                is_dead = True
        if is_dead:
            # The idle connections are of the same age, and dead as well.
            self._pool.close()
        self._pool.give_back(connection, generation)
        return is_dead

    # ---- tables

    def _prepare(self, connection: Any) -> None:
        """Check that the database is empty or surepick's; create the tables in an empty one.

        The tables of an older package stay as they are until the first transaction that writes.
        """
        revision = self._revision(connection)
        self._database.prepare(connection)
        if revision == 0:
            self._migrate(connection)

    def _migrate(self, connection: Any) -> None:
        """Bring the tables to the newest revision. Any number of processes may do so at once."""
        database = self._database
        database.begin_migration(connection)
        revision = self._revision(connection)
        if revision < NEWEST:
            for statement in [one for migration in MIGRATIONS[revision:] for one in migration]:
                connection.execute(statement.format(own_id=database.own_id, side_by_side=database.side_by_side))
            connection.execute(f"UPDATE surepick_version SET version_num = '{NEWEST}'")  # noqa: S608 (our own number)
        connection.commit()

    def _revision(self, connection: Any) -> int:
        """Return the revision of the tables, 0 for an empty database.

        Raises:
            StorageError: a newer package or another program owns the tables.
        """
        tables = {name for (name,) in connection.execute(self._database.tables).fetchall()}
        if not tables:
            return 0
        if VERSION_TABLE not in tables:
            raise StorageError(
                f"{self.address} has tables of something else ({', '.join(sorted(tables)[:5])}), and is left alone; "
                "choose a database of its own for the studies."
            )
        return _known(connection.execute(self.sql["revision"]).fetchone()[0], self.address)

    # ---- errors

    def no_such(self, name: str) -> NoSuchStudy:
        """Return the error for an unknown study."""
        return no_such_study(name, self.names(), self.address)

    @contextmanager
    def telling(self, doing: str) -> Iterator[None]:
        """Turn an error of the driver into one for people."""
        try:
            yield
        except self._database.error as error:
            raise self._failure(doing, error) from error

    def _failure(self, doing: str, error: Exception, kind: type[StorageError] = StorageError) -> StorageError:
        """Return an error of one line: the action, the driver's words, and what to do."""
        said = re.sub(r":[^:@\s]*@", ":***@", " ".join(str(error).split())[:300].rstrip(".;: "))  # a password
        advice = self._database.advice(error)
        if kind is OutcomeUnknown:
            advice = f"surepick does not know whether it was written, so read the log again; {advice}"
        return kind(f"cannot {doing} {self.address}: {said}; {advice}.")


class SqlWriter:
    """A transaction that writes, as the only writer of one study. After an error nothing can be committed."""

    def __init__(
        self, storage: SqlStorage, connection: Any, doing: str, now: datetime, name: str | None, study: int | None
    ) -> None:
        self.now = now
        self.connection = connection
        self._storage, self._doing = storage, doing
        self._name, self._study = name or "", study
        self.changed: str | None = None
        """The study whose log the transaction changes."""
        self._known_end: tuple[int, str] | None = None
        self._failure: StorageError | None = None

    def read(self, after: int = 0) -> list[Row]:
        """Return the rows after number `after`."""
        after = max(after, 0)
        rows = self.run("read claimed", {"study": self._study, "after": after})
        if not rows:
            raise log_is_short(self._name, self._end()[0], after)
        self._known_end = rows[-1][0], rows[-1][2]
        return list(map(Row._make, rows[1:] if after else rows))

    def append(self, rows: Sequence[Row]) -> None:
        """Append rows to the log."""
        if not rows:
            return
        n, end_hash = self._end()
        check_chain(rows, previous=end_hash, first=n + 1)
        self._insert(rows)

    def create(self, name: str, rows: Sequence[Row]) -> None:
        """Create a study."""
        self._name = name
        self.run("add study", {"name": name})
        ((self._study,),) = self.run("id", {"name": name})
        self._insert(rows)

    def delete(self) -> None:
        """Delete the study."""
        self._end()
        for statement in ("delete summary", "delete events", "delete study"):
            self.run(statement, {"study": self._study})
        self.changed = self._name

    def run(self, statement: str, *every: dict[str, object]) -> list[Any]:
        """Run a statement once for each set of values; return the answer to a single one."""
        self.check()
        sql = self._storage.sql[statement]
        try:
            with self._storage.telling(self._doing):
                if len(every) > 1:
                    self.connection.cursor().executemany(sql, every)
                    return []
                cursor = self.connection.execute(sql, *every)
                return list(cursor.fetchall()) if cursor.description else []
        except StorageError as error:
            self._failure = error
            raise

    def check(self) -> None:
        """Raise the error of an earlier statement again: half of a transaction must not be committed."""
        if self._failure is not None:
            raise self._failure

    def _insert(self, rows: Sequence[Row]) -> None:
        self.run("append", *({"study": self._study, **row._asdict()} for row in rows))
        self._known_end, self.changed = (rows[-1].n, rows[-1].hash), self._name

    def _end(self) -> tuple[int, str]:
        """Return number and hash of the last event.

        Raises:
            NoSuchStudy: there is none, because the study was deleted during the wait.
        """
        if self._known_end is None:
            found = self.run("end", {"study": self._study})
            if not found:
                raise self._storage.no_such(self._name)
            self._known_end = found[0][0], found[0][1]
        return self._known_end


def _known(revision: str, address: str) -> int:
    """Return the revision of tables that this package knows.

    Raises:
        StorageError: a newer package wrote them.
    """
    if not revision.isdecimal() or not 0 < int(revision) <= NEWEST:
        raise StorageError(
            f"{address} was written by a newer surepick (its tables have revision {revision}, "
            f"this one knows up to {NEWEST}), and is left alone; upgrade surepick."
        )
    return int(revision)
