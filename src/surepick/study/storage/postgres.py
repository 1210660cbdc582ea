"""PostgreSQL: studies on a server, for many machines. Advisory locks of the server let in one writer per study.

A session keeps nothing, neither prepared statements nor settings nor locks: a pooler such as PgBouncer may give each
transaction another session. Only `listen` needs a session of its own; through such a pooler it reports nothing but the
empty name.
"""

import re
import time
from collections.abc import Generator
from datetime import datetime
from typing import Any, TypeAlias
from urllib.parse import parse_qs, unquote

import psycopg

from surepick.errors import StorageError
from surepick.study.storage.base import PATIENCE
from surepick.study.storage.sql import Database

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

# Advisory locks are pairs of numbers: surepick's ("sure" in ASCII), and the study's, or 0 for the tables.
_OURS = 0x73757265

CHANNEL = "surepick"
"""On which every commit names the study that it changes."""

# Defaults that an address may change (`?connect_timeout=10`, in seconds). A server without power sends nothing, so TCP
# asks after 30 s of silence. A connection and an answer may take as long as a lock.
_OPTIONS = {
    "application_name": "surepick",
    "connect_timeout": f"{PATIENCE:.0f}",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": f"{PATIENCE * 1000:.0f}",
}

# A machine that dies in a transaction holds its lock until the server notices; TCP alone takes two hours.
_LONGEST_SILENCE = 2 * PATIENCE


# A password may contain any character but @.
_ADDRESS = re.compile(
    r"[\w+]+://(?:(?P<user>[^:/]*)(?::(?P<password>[^@]*))?@)?"
    r"(?:\[(?P<ipv6>[^/?\]]+)\]|(?P<host>[^/:?]+))?(?::(?P<port>\d*))?(?:/(?P<dbname>[^?]*))?(?:\?(?P<query>.*))?"
)


class PostgresDatabase(Database):
    """The database that a URL names."""

    own_id, side_by_side = "id SERIAL NOT NULL PRIMARY KEY", ""
    error = psycopg.Error
    integrity_error = psycopg.IntegrityError
    tables = "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema()"

    def __init__(self, url: str) -> None:
        self.url, self._parameters = url, _parameters(url)
        host = self._parameters.get("host", "this machine")
        port = f":{self._parameters['port']}" if "port" in self._parameters else ""
        database = self._parameters.get("dbname") or self._parameters.get("user", "")
        self.address = f"PostgreSQL database {database!r} on {host}{port}"

    def spelled(self, statement: str) -> str:
        """Return a statement with parameters in psycopg's notation."""
        return re.sub(r":(\w+)", r"%(\1)s", statement)

    def connect(self) -> Connection:
        """Return a new connection."""
        parameters: dict[str, Any] = {**_OPTIONS, **self._parameters}
        return psycopg.connect(autocommit=True, prepare_threshold=None, **parameters)

    def is_dead(self, connection: Connection) -> bool:
        """Whether the server or the network has ended the connection."""
        return connection.closed

    def prepare(self, connection: Connection) -> None:
        """Check that the database can store every text.

        Raises:
            StorageError: its encoding is not UTF-8.
        """
        ((encoding,),) = connection.execute("SHOW server_encoding").fetchall()
        if encoding != "UTF8":
            raise StorageError(
                f"{self.address} must keep texts as UTF8, got {encoding}; create a database with ENCODING 'UTF8'."
            )

    def begin(self, connection: Connection, patience: float | None = None) -> tuple[str, datetime]:
        """Begin a transaction in which each statement sees all earlier commits, and the tables do not change.

        The isolation level does not depend on the server's default: in a stricter one the statement after `claim`
        would see the log as of before the wait.
        """
        cursor = connection.execute(  # in one message
            f"{_begin(patience)}; SELECT pg_advisory_xact_lock_shared({_OURS}, 0);"  # noqa: S608 (our numbers)
            "SELECT version_num, clock_timestamp() FROM surepick_version"
        )
        while cursor.nextset():
            pass  # on to the last answer
        ((revision, now),) = cursor.fetchall()
        return revision, now

    def begin_migration(self, connection: Connection) -> None:
        """Begin a transaction, and wait until no other transaction writes or changes the tables."""
        connection.execute(f"{_begin()}; SELECT pg_advisory_xact_lock({_OURS}, 0)")

    def claim(self, connection: Connection, name: str) -> int | None:
        """Wait to be the only writer of a study."""
        found = connection.execute(
            "SELECT id, pg_advisory_xact_lock(%s, id) FROM studies WHERE name = %s", (_OURS, name)
        ).fetchone()
        return int(found[0]) if found else None

    def notify(self, connection: Connection, name: str) -> None:
        """Name the study on our channel; the server sends the name when the transaction is committed."""
        connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, name))

    def listen(self, patience: float) -> Generator[str, None, None]:
        """Yield the names that commits send, over a connection of its own, which is made anew when it is lost."""
        while True:
            try:
                with self.connect() as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    while True:
                        yield ""
                        for message in connection.notifies(timeout=patience):
                            yield message.payload
            except psycopg.Error:  # who looks at the studies now gets the error, too
                time.sleep(patience)
                yield ""

    def advice(self, error: Exception) -> str:
        """Return what to do about an error of PostgreSQL."""
        state = getattr(error, "sqlstate", None) or ""
        for prefix, advice in _ADVICE.items():
            if state.startswith(prefix):
                return advice
        if any(words in str(error) for words in _TOO_MANY):
            return _ADVICE["53300"]
        return "check that the server runs, and host, port, user, password and database in the address"


_ADVICE = {
    "28": "check user and password in the address",
    "3D": "create the database first, or check its name in the address",
    "25006": "this server or user may only read; use the main server, or another user",
    "42501": "ask for the right to use these tables",
    "53100": "the disk of the server is full: make room there and try again; nothing was written",
    "53200": "the server has no memory left; try again when it has less to do",
    "53300": "the server has as many connections as it allows: end programs that do not need theirs, use a pooler such "
    "as PgBouncer, or allow more (max_connections)",
    "55P03": f"another writer has held the study for {PATIENCE:.0f} s; try again when it has finished",
    "25P03": "the transaction was silent for too long and the server ended it; try again",
    "57": "the server is stopping or starting; try again when it is up",
    "08": "the connection broke; try again when the server is up",
    "22": "this text cannot be kept there",
}


# A refusal to connect has no code in the driver's error.
_TOO_MANY = ("too many clients", "too many connections", "remaining connection slots", "no more connections allowed")


def _begin(patience: float | None = None) -> str:
    """Begin a transaction that limits the wait for a lock, and how long a dead writer holds one."""
    return (
        "BEGIN ISOLATION LEVEL READ COMMITTED;"
        f"SET LOCAL lock_timeout = {(PATIENCE if patience is None else patience) * 1000:.0f};"
        f"SET LOCAL idle_in_transaction_session_timeout = {_LONGEST_SILENCE * 1000:.0f}"
    )


def _parameters(url: str) -> dict[str, str]:
    """Return the parameters of a connection that an address names.

    Raises:
        StorageError: the address cannot be read; the error shows nothing of it.
    """
    found = _ADDRESS.fullmatch(url)
    # An @ in the wrong place would show a piece of the password as the name of the server.
    if found is None or "@" in f"{found['host']}{found['dbname']}":
        raise StorageError(
            'the address of a PostgreSQL must be "postgresql://user:password@host:port/database", and cannot be read; '
            "check it, and write %40 for @, %2F for / and %3A for : in a password."
        )
    parts = {name: unquote(found[name] or "") for name in ("user", "password", "port", "dbname")}
    parts["host"] = found["ipv6"] or found["host"] or ""
    query = {name: ",".join(values) for name, values in parse_qs(found["query"] or "").items()}
    return {name: value for name, value in parts.items() if value} | query
