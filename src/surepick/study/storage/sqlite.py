"""SQLite: studies in one file, without a server, for many processes at a time.

BEGIN IMMEDIATE lets one writer in at a time. Readers do not wait (write-ahead log). A commit is on the disk before it
is acknowledged (synchronous=FULL).
"""

import os
import random
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from surepick.errors import StorageError
from surepick.study import events
from surepick.study.storage.base import PATIENCE
from surepick.study.storage.sql import Database

_Answer = TypeVar("_Answer")

# SQLite's own waiting sleeps for up to 0.1 s, but the lock is free every few milliseconds. Short random naps let every
# process have its turn.
_SHORTEST_NAP, _LONGEST_NAP = 0.0005, 0.005


class SqliteDatabase(Database):
    """The database in one file."""

    own_id, side_by_side = "id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT", " WITHOUT ROWID"
    error = sqlite3.Error
    integrity_error = sqlite3.IntegrityError
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._file: tuple[int, int] | None = None
        self.address, self.url = str(path), self._path
        try:
            if self._path.is_dir():
                raise StorageError(f"a storage must be a file, got the folder {self.address}; add a file's name.")
            if not self._path.parent.is_dir():
                raise StorageError(f"there is no folder {self._path.parent} for {self._path.name}; make it first.")
            self._check_place()
        except OSError as error:
            raise StorageError(f"cannot open {self.address}: {error.strerror}; {_ADVICE['CANTOPEN']}.") from error

    def spelled(self, statement: str) -> str:
        """Return the statement as it is."""
        return statement

    def connect(self) -> sqlite3.Connection:
        """Return a new connection; SQLite creates the file when it is first used."""
        # The pool hands a connection to one thread at a time.
        connection = sqlite3.connect(self._path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            # What SQLite forgets when a connection ends. Neither changes the file.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self, connection: sqlite3.Connection) -> None:
        """Move the write-ahead log into the file, so that a copy of the file has all events, and close."""
        self._move_log(connection)
        connection.close()

    def _check_place(self) -> None:
        """Check that the file and the write-ahead log beside it belong together.

        SQLite finds the log by the name of the file. A file with two names would have two logs, and each hides the
        events of the other. A new file would wipe a log that an older one left there.
        """
        file = os.path.realpath(self._path)  # SQLite follows symbolic links too
        # First the log, then the file, which SQLite creates first: a file that is being created would look incomplete.
        is_log_there = _size(f"{file}-wal") > 0
        if is_log_there and not _size(file):
            raise StorageError(
                f"there is no database in {self.address}, but {Path(file).name}-wal beside it, which has the last "
                "events of one that was moved or removed; move that one back, or choose another name."
            )
        if os.path.lexists(file) and (n_names := Path(file).stat().st_nlink) > 1:
            raise StorageError(
                f"{self.address} must have one name, got {n_names} (hard links), and events that are written under one "
                "may be lost under another; remove the others, or make them symbolic links."
            )
        if _is_mount_point(file):
            raise StorageError(
                f"{self.address} is mounted as a single file, and events that are written on one side may be lost on "
                "the other; mount the folder that it is in."
            )

    def prepare(self, connection: sqlite3.Connection) -> None:
        """Switch the file to a write-ahead log, for good.

        Raises:
            StorageError: the file cannot have one.
        """
        # SQLite's own waiting gives up at once if two processes switch at the same time.
        mode = _patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone()[0], PATIENCE)
        if mode != "wal":
            raise StorageError(
                f"SQLite cannot keep a write-ahead log beside {self.address} (it said {mode!r}); "
                "move the file to a disk of this machine, or use PostgreSQL."
            )
        self._file = _identity(self._path)

    def begin(self, connection: sqlite3.Connection, patience: float | None = None) -> tuple[str, datetime]:
        """Begin a transaction as the only writer of the file."""
        self.begin_migration(connection, patience)
        found = connection.execute("SELECT version_num FROM surepick_version").fetchone()
        return found[0], events.now()

    def begin_migration(self, connection: sqlite3.Connection, patience: float | None = None) -> None:
        """Begin a transaction as the only writer of the file."""
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            _patiently(lambda: connection.execute("BEGIN IMMEDIATE"), PATIENCE if patience is None else patience)
        finally:
            connection.execute(f"PRAGMA busy_timeout = {PATIENCE * 1000:.0f}")

    def claim(self, connection: sqlite3.Connection, name: str) -> int | None:
        """Return the number of a study; the transaction is the only writer of the file already."""
        found = connection.execute("SELECT id FROM studies WHERE name = ?", (name,)).fetchone()
        return int(found[0]) if found else None

    def check_before_use(self) -> None:
        """Check that the path leads to the file that was opened.

        Otherwise events would go to a file that was removed, or to a new and empty one in its place.
        """
        if self._file is not None and _identity(self._path) != self._file:
            raise StorageError(
                f"{self.address} was removed or replaced by another file after it was opened; "
                "put it back, or open the storage again."
            )

    def check_committed(self, connection: sqlite3.Connection) -> None:
        """Check that the path still leads to the file: it may have been moved during the transaction."""
        if _identity(self._path) != self._file:
            self._move_log(connection)
            raise StorageError(
                f"{self.address} was moved, removed or replaced while this was written. This is on record in the file "
                f"that had this name before, and in {self._path.name}-wal, if that is still there. Move that file "
                "back, and do not do this again."
            )

    def may_have_committed(self, error: Exception) -> bool:
        """Whether the commit may be on the disk: only if the disk failed."""
        return "IOERR" in getattr(error, "sqlite_errorname", "IOERR")

    def advice(self, error: Exception) -> str:
        """Return what to do about an error of SQLite."""
        name = getattr(error, "sqlite_errorname", "")
        found = (advice for part, advice in _ADVICE.items() if part in name)
        return next(found, "check the file and the disk that it is on")

    def _move_log(self, connection: sqlite3.Connection) -> None:
        """Move all events of the write-ahead log into the file."""
        if _identity(self._path) not in (self._file, None):
            return  # the log may be that of another file by now
        # If others are reading or the disk is full, the events stay safe in the log.
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA busy_timeout = 0")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute(f"PRAGMA busy_timeout = {PATIENCE * 1000:.0f}")


_ADVICE = {
    "BUSY": f"another program has held it for {PATIENCE:.0f} s; try again, and close programs that have the file open",
    "LOCKED": "another program holds it; try again, and close programs that have the file open",
    "FULL": "make room on the disk and try again",
    "READONLY": "get the right to write to the file and its folder, or copy it to where you have it",
    "CANTOPEN": "check that the file and its folder exist and that you have the right to write there",
    "PERM": "check that you have the right to write there",
    "NOTADB": "choose another file",
    "CORRUPT": "the file is damaged; go back to a copy",
    "IOERR": "check the disk: it is full, failing, or cannot lock files (move the file to a disk of this machine)",
}


_MOUNTS = Path("/proc/self/mountinfo")


def _is_mount_point(file: str) -> bool:
    """Whether the file is a mount point; devices do not tell if both sides are on one disk."""
    try:
        lines = _MOUNTS.read_bytes().splitlines()
    except OSError:  # not Linux: there are no mounts of single files
        return False
    mounted = (re.sub(rb"\\([0-7]{3})", lambda code: bytes([int(code[1], 8)]), line.split()[4]) for line in lines)
    return os.fsencode(file) in mounted


def _size(file: str) -> int:
    """Return the size in bytes; 0 if there is no file."""
    try:
        return Path(file).stat().st_size
    except FileNotFoundError:
        return 0


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _patiently(attempt: Callable[[], _Answer], patience: float) -> _Answer:
    """Try until no other process locks the file, for at most `patience` seconds."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as error:
            # The low byte is the kind of error, the others say more about it.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(random.uniform(_SHORTEST_NAP, _LONGEST_NAP))  # noqa: S311 (not a secret)
