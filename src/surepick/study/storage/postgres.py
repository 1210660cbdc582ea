"""PostgreSQL: a server for many machines. Writers of a study take turns by an advisory lock of the server's."""

from datetime import datetime
from typing import Any

from sqlalchemy import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError

from surepick.errors import StorageError
from surepick.study.storage.base import PATIENCE
from surepick.study.storage.database import engine_for

# Advisory locks are pairs of numbers: one that says whose they are ("sure" in ASCII), and the study's, or 0 for the
# tables themselves.
_OURS = 0x73757265

# What the address does not say otherwise (`?connect_timeout=10`, in seconds). A server that has lost its power sends no
# word, so ask after 30 s of silence. For a connection and for an answer we wait as long as for a lock.
_OPTIONS = {
    "application_name": "surepick",
    "connect_timeout": f"{PATIENCE:.0f}",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": f"{PATIENCE * 1000:.0f}",
}

# A machine that dies in a transaction holds its lock until the server notices, which takes TCP two hours.
_LONGEST_SILENCE = 2 * PATIENCE


class PostgresDatabase:
    """The database that a URL names."""

    tables = "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema()"

    def __init__(self, url: str) -> None:
        self._url = _parsed(url)
        self.address = _shown(self._url)

    def connect(self) -> Engine:
        """The engine for the server, which is not asked yet."""
        options: dict[str, Any] = {name: value for name, value in _OPTIONS.items() if name not in self._url.query}
        # Nothing is kept in a session, neither prepared statements nor settings: a pooler between us and the server
        # may give each transaction another one.
        options |= {"prepare_threshold": None}
        return engine_for(self._url, use_native_hstore=False, connect_args=options)

    def prepare(self, connection: Any) -> None:
        """Check that the database can hold every text.

        Raises:
            StorageError: its encoding is not UTF-8.
        """
        encoding = connection.execute("SHOW server_encoding").fetchone()[0]
        if encoding != "UTF8":
            raise StorageError(
                f"{self.address} must keep texts as UTF8, got {encoding}; create a database with ENCODING 'UTF8'."
            )

    def begin(self, connection: Any) -> tuple[str, datetime]:
        """Begin a transaction in which each statement sees what was committed before it, and no tables change.

        Whatever the server's default is: in a stricter one the statement after `claim` would still see the log as it
        was before the wait.
        """
        cursor = connection.execute(  # in one message
            f"{_begin()}; SELECT pg_advisory_xact_lock_shared({_OURS}, 0);"  # noqa: S608 (our numbers)
            "SELECT version_num, clock_timestamp() FROM surepick_version"
        )
        while cursor.nextset():
            pass  # on to the last answer
        revision, now = cursor.fetchone()
        return revision, now

    def claim(self, connection: Any, name: str) -> int | None:
        """Wait to be the only writer of a study."""
        found = connection.execute(
            "SELECT id, pg_advisory_xact_lock(%s, id) FROM studies WHERE name = %s", (_OURS, name)
        ).fetchone()
        return found and int(found[0])

    def claim_schema(self, connection: Any) -> None:
        """Begin a transaction, and wait until nobody writes or changes the tables."""
        connection.execute(f"{_begin()}; SELECT pg_advisory_xact_lock({_OURS}, 0)")

    def advice(self, error: Exception) -> str:
        """What to do about an error of PostgreSQL."""
        state = getattr(error, "sqlstate", None) or ""
        for prefix, advice in _ADVICE.items():
            if state.startswith(prefix):
                return advice
        if any(words in str(error) for words in _TOO_MANY):
            return _ADVICE["53300"]
        return "check that the server runs, and host, port, user, password and database in the address"

    def check_committed(self, connection: Any) -> None:
        """Nothing to check: the server has said so."""

    def may_have_committed(self, error: Exception) -> bool:
        """Whether the commit may have happened: a server that answers says so itself."""
        return False


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


def _begin() -> str:
    """Begin a transaction that limits how long to wait for a lock, and how long a writer that died can hold one."""
    return (
        "BEGIN ISOLATION LEVEL READ COMMITTED;"
        f"SET LOCAL lock_timeout = {PATIENCE * 1000:.0f};"
        f"SET LOCAL idle_in_transaction_session_timeout = {_LONGEST_SILENCE * 1000:.0f}"
    )


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        parsed = None  # not `from error`: it may show a piece of the password
    # An @ in the wrong place: a piece of the password would be shown as the name of the server.
    if parsed is None or "@" in f"{parsed.host}{parsed.database}":
        raise StorageError(
            'the address of a PostgreSQL must be "postgresql://user:password@host:port/database", and cannot be read; '
            "check it, and write %40 for @, %2F for / and %3A for : in a password."
        )
    return parsed.set(drivername="postgresql+psycopg")


def _shown(url: URL) -> str:
    host = url.host or url.query.get("host") or "this machine"
    port = f":{url.port}" if url.port else ""
    return f"PostgreSQL database {url.database or url.username or ''!r} on {host}{port}"
