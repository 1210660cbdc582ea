"""SQLite: one file, no server, and still many processes at a time.

Writers take turns by BEGIN IMMEDIATE, readers do not wait (write-ahead log), and a commit is on the disk before it is
acknowledged (synchronous=FULL).
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
from typing import Any, TypeVar

from sqlalchemy import URL, Engine, event

from surepick.errors import StorageError
from surepick.study import clock
from surepick.study.storage.base import PATIENCE
from surepick.study.storage.database import engine_for

_Answer = TypeVar("_Answer")

# SQLite's own waiting sleeps for up to 0.1 s, and the lock is free every few milliseconds. Ours is even shorter, and
# random, so that no process is always the last.
_SHORTEST_NAP, _LONGEST_NAP = 0.0005, 0.005


class SqliteDatabase:
    """The database in one file."""

    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._file: tuple[int, int] | None = None
        self.address = str(path)

    def connect(self) -> Engine:
        """The engine for the file, which is made when it is first used.

        Raises:
            StorageError: there can be no file of that name.
        """
        try:
            if self._path.is_dir():
                raise StorageError(f"a storage must be a file, got the folder {self.address}; add a file's name.")
            if not self._path.parent.is_dir():
                raise StorageError(f"there is no folder {self._path.parent} for {self._path.name}; make it first.")
            self._check_place()
        except OSError as error:
            raise StorageError(f"cannot open {self.address}: {error.strerror}; {_ADVICE['CANTOPEN']}.") from error
        # A URL made of parts, so that a ? or % in the name of the file means itself.
        url = URL.create("sqlite", database=str(self._path))
        engine = engine_for(url, paramstyle="named", connect_args={"timeout": PATIENCE})
        event.listen(engine, "do_connect", self._check_file)
        event.listen(engine, "connect", _set_up)
        event.listen(engine, "checkout", self._check_file)
        event.listen(engine, "close", self._before_close)
        return engine

    def _check_place(self) -> None:
        """Check that the file and the write-ahead log beside it belong together.

        SQLite finds the log by the name of the file: a file with two names would have two logs, of which each hides
        what is in the other, and a new file would wipe a log that was left there.
        """
        file = os.path.realpath(self._path)  # SQLite follows symbolic links too
        # The log before the file, which is made first: otherwise one that is being made would look like half of one.
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

    def prepare(self, connection: Any) -> None:
        """Switch the file to a write-ahead log, which it then keeps.

        Raises:
            StorageError: it cannot have one.
        """
        # Not within SQLite's own waiting: it gives up at once where two processes switch at the same time.
        mode = _patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone()[0])
        if mode != "wal":
            raise StorageError(
                f"SQLite cannot keep a write-ahead log beside {self.address} (it said {mode!r}); "
                "move the file to a disk of this machine, or use PostgreSQL."
            )
        self._file = _identity(self._path)

    def begin(self, connection: Any) -> tuple[str, datetime]:
        """Begin a transaction as the only writer of the file."""
        self.claim_schema(connection)
        return connection.execute("SELECT version_num FROM surepick_version").fetchone()[0], clock.now()

    def claim_schema(self, connection: Any) -> None:
        """Begin a transaction: to write to the file is to be its only writer."""
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            _patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
        finally:
            connection.execute(f"PRAGMA busy_timeout = {PATIENCE * 1000:.0f}")

    def claim(self, connection: Any, name: str) -> int | None:
        """The number of a study; to write to the file is to be its only writer."""
        found = connection.execute("SELECT id FROM studies WHERE name = ?", (name,)).fetchone()
        return found and int(found[0])

    def advice(self, error: Exception) -> str:
        """What to do about an error of SQLite."""
        name = getattr(error, "sqlite_errorname", "")
        for part, advice in _ADVICE.items():
            if part in name:
                return advice
        return "check the file and the disk that it is on"

    def check_committed(self, connection: Any) -> None:
        """Check that the path still leads to the file, which may have been moved during the transaction."""
        if _identity(self._path) != self._file:
            self._before_close(connection)
            raise StorageError(
                f"{self.address} was moved, removed or replaced while this was written: it is on record in the file "
                f"that had this name before (and in {self._path.name}-wal, if that is still there); move that file "
                "back, and do not do this again."
            )

    def _before_close(self, connection: Any, *_: object) -> None:
        """Move all that is in the write-ahead log to the file, so that nothing is lost if it is copied without."""
        if _identity(self._path) not in (self._file, None):
            return  # the log may be that of the other file by now
        # What cannot be moved now, since others are reading or the disk is full, stays safe in the log.
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA busy_timeout = 0")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute(f"PRAGMA busy_timeout = {PATIENCE * 1000:.0f}")

    def may_have_committed(self, error: Exception) -> bool:
        """Whether the commit may be on the disk all the same: it may, if the disk failed."""
        return "IOERR" in getattr(error, "sqlite_errorname", "IOERR")

    def _check_file(self, *_: object) -> None:
        """Check that the path leads to the file that was opened.

        Without it, events would go to a file that was removed, or a new and empty one would be made in its place.
        """
        if self._file is not None and _identity(self._path) != self._file:
            raise StorageError(
                f"{self.address} was removed or replaced by another file after it was opened; "
                "put it back, or open the storage again."
            )


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
    """Whether something is mounted there; its device does not tell if both sides are on one disk."""
    try:
        lines = _MOUNTS.read_bytes().splitlines()
    except OSError:  # not Linux: there are no mounts of single files
        return False
    mounted = (re.sub(rb"\\([0-7]{3})", lambda code: bytes([int(code[1], 8)]), line.split()[4]) for line in lines)
    return os.fsencode(file) in mounted


def _size(file: str) -> int:
    """In bytes; 0 if there is none."""
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


def _set_up(connection: sqlite3.Connection, _: object) -> None:
    """Set what SQLite forgets when a connection ends; none of it changes the file."""
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _patiently(attempt: Callable[[], _Answer]) -> _Answer:
    """Try until the file is not locked, for as long as `PATIENCE`."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as error:
            # The low byte is the kind of error, the others say more about it.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(random.uniform(_SHORTEST_NAP, _LONGEST_NAP))  # noqa: S311 (not a secret)
