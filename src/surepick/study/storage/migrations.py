"""The tables of a database, as a list of migrations.

Migration 1 made the tables of the first release; each later one changes the tables of the one before. The table
`surepick_version` holds the number of the last migration, and marks a database as surepick's. A migration that was
released never changes: databases exist that have its tables.
"""

from collections.abc import Callable, Sequence

VERSION_TABLE = "surepick_version"


def studies_and_events(*, is_sqlite: bool) -> Sequence[str]:
    """Migration 1: the names of studies, and their events."""
    # A number is never given twice: a study that is deleted and created again is another study.
    number = "id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT" if is_sqlite else "id SERIAL NOT NULL PRIMARY KEY"
    # In SQLite the events of a study lie side by side in the file, in the order of the primary key.
    order = " WITHOUT ROWID" if is_sqlite else ""
    return (
        """CREATE TABLE surepick_version ( version_num VARCHAR(32) NOT NULL,
            CONSTRAINT surepick_version_pkc PRIMARY KEY (version_num) )""",
        "INSERT INTO surepick_version VALUES ('0')",
        f"CREATE TABLE studies ( {number}, name TEXT NOT NULL, UNIQUE (name) )",
        f"""CREATE TABLE events ( study INTEGER NOT NULL, n INTEGER NOT NULL, text TEXT NOT NULL, hash TEXT NOT NULL,
            PRIMARY KEY (study, n), FOREIGN KEY(study) REFERENCES studies (id) ){order}""",
    )


def summaries(*, is_sqlite: bool) -> Sequence[str]:
    """Migration 2: the newest status of each study, a cache that may lag behind the log."""
    del is_sqlite  # the table is the same in both
    return (
        """CREATE TABLE summaries ( study INTEGER NOT NULL PRIMARY KEY, n INTEGER NOT NULL, hash TEXT NOT NULL,
            text TEXT NOT NULL, FOREIGN KEY(study) REFERENCES studies (id) )""",
    )


MIGRATIONS: tuple[Callable[..., Sequence[str]], ...] = (studies_and_events, summaries)
"""Each returns the statements that bring the tables from the revision before to its own."""

NEWEST = len(MIGRATIONS)
"""The revision of the tables that this package writes."""


def statements_after(revision: int, *, is_sqlite: bool) -> list[str]:
    """Return the statements that bring tables from a revision to the newest one; 0 is an empty database."""
    return [
        *(one for migration in MIGRATIONS[revision:] for one in migration(is_sqlite=is_sqlite)),
        f"UPDATE surepick_version SET version_num = '{NEWEST}'",  # noqa: S608 (our own number)
    ]
