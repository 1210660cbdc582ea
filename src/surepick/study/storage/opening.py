"""From an address to a storage: a path, a URL, or "memory:"."""

import re
from pathlib import Path

from surepick.errors import NoSuchStudy, StorageError, SurepickError
from surepick.study.forks import no_fork
from surepick.study.storage.base import Storage
from surepick.study.storage.memory import MemoryStorage

_FORMS = 'a path such as "lab.db", "sqlite:///lab.db", "postgresql://user:password@host/database", or "memory:"'


@no_fork()  # a module that is being imported is locked
def open_storage(url: str | Path | Storage, *, may_create: bool = True) -> Storage:
    """Open a storage, and bring its tables to the version of this package.

    Args:
        url: a path of an SQLite file, `sqlite:///path`, `postgresql://user:password@host/database`, or `memory:` for a
            fresh storage in this process. A storage that is open already is returned as it is.
        may_create: whether an SQLite file that is not there is made.

    Raises:
        StorageError: it cannot be opened, or is a database of something else; that is left as it was.
        NoSuchStudy: there is no such file, and none may be made.
    """
    if isinstance(url, Storage):
        return url
    if url in ("memory:", "memory://"):
        return MemoryStorage()
    path = file_of(url)
    if path is None:
        return _postgres(str(url).strip())
    if not may_create and not path.exists():
        raise NoSuchStudy(f"there is no file {path}, hence no study in it; check the path, or create a study there.")
    return _sqlite(path)


def file_of(url: str | Path) -> Path | None:
    """Return the SQLite file that an address means; None if it means a server."""
    if isinstance(url, Path):
        _check_open(str(url))
        return url.expanduser()
    if not isinstance(url, str) or not url.strip():  # type: ignore[redundant-expr] # not everyone checks types
        raise StorageError(f"a storage must be {_FORMS}; got {url!r}.")
    # A single letter before the colon is a drive of Windows.
    scheme = re.match(r"\s*([A-Za-z][A-Za-z0-9+.-]+):", url)
    if scheme is None:
        _check_open(url)
        return Path(url).expanduser()
    # What follows may hold a password, so from here on no error shows the address that was given.
    match scheme.group(1).lower():
        case "sqlite" | "sqlite+pysqlite":
            _check_open(url[scheme.end() :])
            return _path_in(url).expanduser()
        case "postgresql" | "postgres" | "postgresql+psycopg":
            return None
        case other:
            raise StorageError(f"a storage must be {_FORMS}; got one that begins with {other + ':'!r}.")


def _check_open(path: str) -> None:
    """Check that a path, which is shown, is not an address with a typing error, which may hold a password."""
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


def _sqlite(path: Path) -> Storage:
    try:
        from surepick.study.storage.sql import SqlStorage  # noqa: PLC0415 (loads SQLAlchemy)
        from surepick.study.storage.sqlite import SqliteDatabase  # noqa: PLC0415

        return SqlStorage(SqliteDatabase(path))
    except ModuleNotFoundError as error:
        raise _missing(error, "a study in a file", "study") from error


def _postgres(url: str) -> Storage:
    try:
        import psycopg  # noqa: F401, PLC0415 (is it there?)

        from surepick.study.storage.postgres import PostgresDatabase  # noqa: PLC0415
        from surepick.study.storage.sql import SqlStorage  # noqa: PLC0415

        return SqlStorage(PostgresDatabase(url))
    except ModuleNotFoundError as error:
        raise _missing(error, "a study in PostgreSQL", "study,postgres") from error


def _missing(error: ModuleNotFoundError, what: str, extra: str) -> SurepickError:
    package = (error.name or "").partition(".")[0]
    return SurepickError(f"{what} needs {package}, which is not installed; pip install 'surepick[{extra}]'.")
