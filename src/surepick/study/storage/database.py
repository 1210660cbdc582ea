"""What SQLite and PostgreSQL do differently; everything else about them is in `sql.py`."""

from datetime import datetime
from typing import Any, Protocol

from sqlalchemy import URL, Engine, create_engine


class Database(Protocol):
    """One kind of database, at one address."""

    address: str
    """Where it is, in words that may be shown."""

    tables: str
    """The query for the names of all tables there."""

    def connect(self) -> Engine:
        """The engine. Its connections commit each statement by itself until `begin`."""

    def prepare(self, connection: Any) -> None:
        """Set what is kept in the database itself, now that it is known to be ours, or empty."""

    def begin(self, connection: Any) -> tuple[str, datetime]:
        """Begin a transaction that will write; return the revision of the tables, and the time by a shared clock."""

    def claim(self, connection: Any, name: str) -> int | None:
        """Wait until no other writes the study; its number, or None if there is none of that name."""

    def claim_schema(self, connection: Any) -> None:
        """Begin a transaction that may change the tables, when no other does."""

    def advice(self, error: Exception) -> str:
        """What to do about an error of the driver."""

    def check_committed(self, connection: Any) -> None:
        """Check that what was committed is where it will be looked for."""

    def may_have_committed(self, error: Exception) -> bool:
        """Whether a COMMIT that failed with this error may nevertheless have happened."""


def engine_for(url: URL, **options: Any) -> Engine:
    """An engine that keeps connections for as many threads as there are, and leaves transactions to us.

    In its "autocommit" a statement is a transaction, until we send a BEGIN of our own: SQLite's must be a BEGIN
    IMMEDIATE, and in PostgreSQL a read then takes one message instead of three.
    """
    return create_engine(
        url,
        isolation_level="AUTOCOMMIT",
        pool_size=8,
        max_overflow=-1,
        # An error text is for people: no 5 MB event in it.
        hide_parameters=True,
        **options,
    )
