"""Where the command line writes: results on standard output, errors in one line, control codes on terminals only."""

import os
import sys
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import TextIO

from rich.console import Console

from surepick.errors import InvalidInput

PIPE_WIDTH = 120
"""Columns of a table that goes to a file or a pipe."""


class Code(IntEnum):
    """What the command line returns to the shell."""

    OK = 0
    FAILURE = 1
    MISUSE = 2
    NOT_STOPPED = 3
    WITHDRAWN = 4
    UNCHECKED = 5


class Format(StrEnum):
    """How a result is written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class Model(StrEnum):
    """How the mean reward follows from the features."""

    LINEAR = "linear"
    UNSTRUCTURED = "unstructured"


class Noise(StrEnum):
    """What is assumed of noise whose level is not given."""

    SAME = "same"
    PER_ARM = "per-arm"
    SYMMETRIC = "symmetric"


class Earlier(StrEnum):
    """What results are that are known before the first ask."""

    GUIDANCE = "guidance"
    EVIDENCE = "evidence"


def check_out(folder: Path) -> None:
    """Refuse a folder of results that is a file, or in one."""
    there = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    if there.exists() and not there.is_dir():
        raise InvalidInput(f"--out must be a folder, and {there} is a file.")


def results() -> Console:
    """The console of results."""
    return _console(sys.stdout)


def stages(output: Format) -> Console:
    """The console of what happens meanwhile: beside the result if a program may read that."""
    return _console(sys.stdout if output is Format.TABLE else sys.stderr)


def print_error(text: str) -> None:
    """Write one line to standard error."""
    sys.stderr.write(f"surepick: {' '.join(text.split())}\n")


def _console(stream: TextIO) -> Console:
    # Not rich's own guess: variables of a surrounding tool could make it write control codes into a pipe.
    is_terminal = stream.isatty() and os.environ.get("TERM", "") != "dumb"
    return Console(
        file=stream,
        force_terminal=is_terminal,
        force_interactive=is_terminal,
        no_color=not is_terminal,
        width=None if is_terminal else PIPE_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )
