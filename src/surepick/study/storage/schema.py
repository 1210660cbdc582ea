"""The tables, and how a database gets them: made or changed by the first who opens it with a newer package.

Revisions are numbered "1", "2", ...; each is a file in `migrations/versions`.
"""

from pathlib import Path
from threading import Lock

from sqlalchemy import Column, Connection, Engine, ForeignKey, Integer, MetaData, Table, Text

from surepick.errors import StorageError
from surepick.study.storage.database import Database

REVISIONS = ("1",)
"""All that this package knows, the last one being its own."""

VERSION_TABLE = "surepick_version"
"""Holds the revision of a database. It is also how we know that a database is ours."""

METADATA = MetaData()

STUDIES = Table(
    "studies",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
)

EVENTS = Table(
    "events",
    METADATA,
    Column("study", Integer, ForeignKey("studies.id"), primary_key=True),
    Column("n", Integer, primary_key=True),
    Column("text", Text, nullable=False),
    Column("hash", Text, nullable=False),
)

# Alembic hands the connection to its scripts through a global.
_one_at_a_time = Lock()


def bring_up_to_date(engine: Engine, database: Database) -> None:
    """Give a database the tables of this package, unless it has them. Any number of processes may do so at once.

    Raises:
        StorageError: it belongs to a newer package, or to something else; it is left as it was.
    """
    with engine.connect() as connection:
        revision = _revision(connection, database)
        database.prepare(connection.connection.driver_connection)
        if revision == REVISIONS[-1]:
            return
    with _one_at_a_time, engine.connect() as connection, connection.begin():
        driver = connection.connection.driver_connection
        database.claim_schema(driver)
        if _revision(connection, database) != REVISIONS[-1]:
            _upgrade(connection)


def _revision(connection: Connection, database: Database) -> str | None:
    """The revision of a database, None if it is empty."""
    tables = set(connection.exec_driver_sql(database.tables).scalars())
    if not tables:
        return None
    if VERSION_TABLE not in tables:
        raise StorageError(
            f"{database.address} has tables of something else ({', '.join(sorted(tables)[:5])}), and is left alone; "
            "choose a database of its own for the studies."
        )
    found = connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalar()  # noqa: S608 (our name)
    return check_revision(found, database)


def check_revision(found: object, database: Database) -> str:
    """Check that this package knows the tables of a database.

    Raises:
        StorageError: it does not.
    """
    if found not in REVISIONS:
        raise StorageError(
            f"{database.address} was written by a newer surepick (its tables have revision {found}, "
            f"this one knows up to {REVISIONS[-1]}), and is left alone; upgrade surepick."
        )
    return str(found)


def _upgrade(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415 (slow to import, and needed once in a database's life)
    from alembic.config import Config  # noqa: PLC0415

    folder = Path(__file__).with_name("migrations")
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    command.upgrade(config, REVISIONS[-1])
