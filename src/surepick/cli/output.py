"""Where the command line writes: results on standard output, errors in one line, control codes on terminals only.

Results for programs: JSON and CSV.
"""

import csv
import io
import json
import math
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from surepick._texts import safe_cell, shown
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
    sys.stderr.write(f"surepick: {shown(' '.join(text.split()))}\n")


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Write each warning as an error is written."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print_error(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


class _SafeConsole(Console):
    """A console on which no text of others steers the terminal: every text becomes visible characters."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text as the console shows it."""
        return super().render_str(shown(text, keeps_lines=True), **options)


def _console(stream: TextIO) -> Console:
    # Not rich's own guess: variables of a surrounding tool could make it write control codes into a pipe.
    is_terminal = stream.isatty() and os.environ.get("TERM", "") != "dumb"
    return _SafeConsole(
        file=stream,
        force_terminal=is_terminal,
        force_interactive=is_terminal,
        no_color=not is_terminal,
        width=None if is_terminal else PIPE_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )


_CONTROL = re.compile("[\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
"""Of the first 65,536 characters those that `shown` shows as codes, beyond what JSON has codes for."""


def to_json(value: Any) -> str:
    """Indented JSON; numbers that JSON cannot hold become null, and letters that the output cannot hold codes."""
    is_utf = (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(_plain(value), indent=2, ensure_ascii=not is_utf, allow_nan=False)
    # JSON has codes for the control characters that it may hold as they are.
    return (
        text if text.isascii() and "\x7f" not in text else _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    )


def to_csv(records: Sequence[Mapping[str, Any]], titles: Sequence[str] = ()) -> str:
    """CSV with a header line: the keys of the records; `titles` if there are none. No cell is a formula."""
    text = io.StringIO()
    header = [records[0]] if records else [titles] if titles else []
    rows = [*header, *(record.values() for record in records)]
    csv.writer(text, lineterminator="\n").writerows([[_cell(value) for value in row] for row in rows])
    return text.getvalue()


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return safe_cell(shown(value) if sys.stdout.isatty() else value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
