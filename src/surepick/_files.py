"""Files that appear whole or not at all, and files that one process writes alone."""

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

LONGEST_NAME = 150
"""Bytes of a file's name that is made of another; file systems take 255."""
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
"""Names of devices on Windows."""


def file_name(name: str) -> str:
    """Return a name as one that a file can have in any folder: it leads to no other folder, device or hidden file.

    Two names never become the same: what is changed carries a few digits of the hash of the name.
    """
    kept = re.sub(r"[^\w .()+=,@-]", "_", name).strip(". ").encode()[:LONGEST_NAME].decode(errors="ignore")
    if _RESERVED.fullmatch(kept):
        kept = kept.replace(".", "_")
    elif kept == name:
        return kept
    return f"{kept.strip('. ')}_{sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}".lstrip("_-")


@contextmanager
def replacing(path: Path, *, is_only_writer: bool = False) -> Iterator[Path]:
    """Yield where to write a new version, which takes the file's place in one step once it is on the disk.

    Until then, and whenever the writing fails, the earlier version stays. The new version may be read and written by
    the same people as the earlier one, from its first byte on; a new file by those whom the umask allows.
    With `is_only_writer` no other process may write this file; then what a killed process left of its new version is
    written over by the next one.

    Raises:
        FileExistsError: a folder, a device or the like has that name; it stays.
    """
    if path.exists() and not path.is_file():
        raise FileExistsError(f"{path} must be a regular file or a new one, got a folder or device; choose another.")
    new = path.with_name(f".{path.name}.new" if is_only_writer else f".{path.name}.{secrets.token_hex(4)}.new")
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    try:
        if mode is not None:
            os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, stat.S_IRUSR | stat.S_IWUSR))
        yield new
        if mode is not None:
            new.chmod(mode)
        _sync(new)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    _sync(path.parent)


def lock(handle: int) -> bool:
    """Lock an open file for this process alone; return whether no other has it. Ends with the process, however it ends.

    On Windows there is no such lock, and it is up to the user that one process writes a file.
    """
    try:
        import fcntl  # noqa: PLC0415 (not on Windows)
    except ImportError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sync(path: Path) -> None:
    if path.is_dir() and os.name == "nt":
        return  # Windows has no such thing for folders
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
