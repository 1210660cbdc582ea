"""Files that appear whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path, *, is_only_writer: bool = False) -> Iterator[Path]:
    """Yield where to write a new version, which takes the file's place in one step once it is on the disk.

    Until then, and whenever the writing fails, the earlier version stays. With `is_only_writer` no other process may
    write this file; then what a killed process left of its new version is written over by the next one.
    """
    new = path.with_name(f".{path.name}.new" if is_only_writer else f".{path.name}.{secrets.token_hex(4)}.new")
    try:
        yield new
        _sync(new)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    _sync(path.parent)


def _sync(path: Path) -> None:
    if path.is_dir() and os.name == "nt":
        return  # Windows has no such thing for folders
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
