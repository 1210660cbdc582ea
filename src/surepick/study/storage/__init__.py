"""Storages of studies: in memory, in an SQLite file, or in a PostgreSQL database.

`base.py` holds the contract of a storage; `open_storage` returns the storage at an address.
"""

import re
from pathlib import Path

from surepick.errors import NoSuchStudy, StorageError, SurepickError
from surepick.study.storage.base import KeptSummary, ServerStorage, Storage, Summary, TokenRow, Writer, no_fork
from surepick.study.storage.memory import MemoryStorage

__all__ = ["KeptSummary", "ServerStorage", "Storage", "Summary", "TokenRow", "Writer", "file_of", "open_storage"]

_FORMS = (
    'a path such as "lab.db", "sqlite:///lab.db", "postgresql://user:password@host/database", "http://host:8080" for a '
    'server, or "memory:"'
)


@no_fork()  # a module that is being imported is locked
def open_storage(url: str | Path | Storage, *, may_create: bool = True) -> Storage:
    """Open a storage, and create its tables in an empty database.

    Args:
        url: path of an SQLite file, `sqlite:///path`, `postgresql://user:password@host/database`, `http://host:8080`
            for the studies of a server, or `memory:` for a new storage in this process. An open storage is returned as
            it is.
        may_create: whether to create an SQLite file that does not exist.

    Raises:
        StorageError: surepick cannot open the database, or another program owns its tables; the database stays as it
            was.
        NoSuchStudy: the file does not exist, and `may_create` is false.
    """
    if isinstance(url, Storage):
        return url
    if url in ("memory:", "memory://"):
        return MemoryStorage()
    path = file_of(url)
    if path is None and str(url).strip().lower().startswith("http"):
        from surepick.study.remote import HttpStorage  # noqa: PLC0415 (loads the mathematics)

        return HttpStorage(str(url).strip())
    if path is None:
        return _postgres(str(url).strip())
    if not may_create and not path.exists():
        raise NoSuchStudy(f"there is no file {path}, hence no study in it; check the path, or create a study there.")
    # Loaded here, so that a storage in memory needs no database.
    from surepick.study.storage.sql import SqlStorage  # noqa: PLC0415
    from surepick.study.storage.sqlite import SqliteDatabase  # noqa: PLC0415

    return SqlStorage(SqliteDatabase(path))


def file_of(url: str | Path) -> Path | None:
    """Return the SQLite file that an address names; None for the address of a server."""
    if isinstance(url, Path):
        _check_no_password(str(url))
        return url.expanduser()
    if not isinstance(url, str) or url.strip() in ("", ":memory:"):  # type: ignore[redundant-expr] # not everyone checks types
        raise StorageError(f"a storage must be {_FORMS}; got {url!r}.")
    # A single letter before the colon is a drive of Windows.
    scheme = re.match(r"\s*([A-Za-z][A-Za-z0-9+.-]+):", url)
    if scheme is None:
        _check_no_password(url)
        return Path(url).expanduser()
    # The rest of the address may contain a password, so the errors below do not show the address.
    match scheme.group(1).lower():
        case "sqlite" | "sqlite+pysqlite":
            _check_no_password(url[scheme.end() :])
            return _path_in(url).expanduser()
        case "postgresql" | "postgres" | "postgresql+psycopg" | "http" | "https":
            return None
        case other:
            raise StorageError(f"a storage must be {_FORMS}; got one that begins with {other + ':'!r}.")


def _check_no_password(path: str) -> None:
    """Check that a path is not a mistyped address: surepick shows paths, and an address may contain a password."""
    without_drive = re.sub(r"^/*[A-Za-z]:(?=[\\/])", "", path)
    if re.search(r":.*@|password=", without_drive, re.DOTALL | re.IGNORECASE):
        raise StorageError(
            f"a storage must be {_FORMS}; got what may be an address with a password, and is not shown; check how it "
            "begins, or give the file a name without : and @."
        )


def _path_in(url: str) -> Path:
    _, marker, path = url.partition(":///")
    if not marker or not path or path == ":memory:":
        raise StorageError(
            f'an SQLite storage must be a path or "sqlite:///path", got {url!r}; '
            'for a storage in memory write "memory:".'
        )
    if "?" in path:
        raise StorageError(f"an SQLite storage takes no options, got {url!r}; leave out the part from the ? on.")
    return Path(path)


def _postgres(url: str) -> Storage:
    try:
        from surepick.study.storage.postgres import PostgresDatabase  # noqa: PLC0415
        from surepick.study.storage.sql import SqlStorage  # noqa: PLC0415

        return SqlStorage(PostgresDatabase(url))
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise SurepickError(
            f"a study in PostgreSQL needs {package}, which is not installed; pip install 'surepick[study,postgres]'."
        ) from error
