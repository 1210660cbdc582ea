"""Output of the command line: tables and sentences for people, JSON and CSV for programs, errors in one line.

Control codes go to terminals only. rich is loaded when the first line for people is printed.
"""

import csv
import io
import json
import math
import os
import re
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from enum import IntEnum, StrEnum
from functools import cache
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO

from surepick._texts import plain_data, safe_cell, shown
from surepick.cli.hints import in_shell
from surepick.errors import InvalidInput
from surepick.learning.groups import label_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table

    from surepick.learning.snapshot import Snapshot

PIPE_WIDTH = 120
"""Columns of a table that goes to a file or a pipe."""
BAR_WIDTH = 32
"""Columns of the progress bar in the live view."""
SECONDS_BETWEEN = 0.2
"""Least time between two states of the live view: a look costs as much as many pulls."""
EPSILON_IS = "--epsilon "
"""How sentences for people at the command line name the option for a tolerance."""

Record = Mapping[str, Any]


class Code(IntEnum):
    """Exit codes of the command line."""

    OK = 0
    FAILURE = 1
    MISUSE = 2
    NOT_STOPPED = 3
    WITHDRAWN = 4
    UNCHECKED = 5


class Format(StrEnum):
    """Form of a result."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


# ---- files


def check_out(folder: Path) -> None:
    """Refuse a folder of results that is a file, or in one."""
    there = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    if there.exists() and not there.is_dir():
        raise InvalidInput(f"--out must be a folder, and {there} is a file.")


def check_targets(written: Mapping[str, Path | None], read: Mapping[str, Path | None], *, suffix: str = "") -> None:
    """Refuse targets that cannot be written, or that are also read; files by the options that name them.

    With `suffix`, the names of the files to write must have that ending.
    """
    for option, path in written.items():
        if path is None:
            continue
        if suffix and path.suffix.lower() != suffix:
            raise InvalidInput(f"{option} must be a {suffix} file, got {path}; give it that ending.")
        if not path.absolute().parent.is_dir():
            raise InvalidInput(f"cannot write {path}: there is no folder {path.parent}.")
        if path.exists() and not path.is_file():
            raise InvalidInput(
                f"{option} must name a regular file or a new one, and {path} is a folder, device or the like."
            )
        for other, taken in {**written, **read}.items():
            if other != option and taken is not None and _is_same_file(path, taken):
                raise InvalidInput(f"{option} and {other} name the same file, {path}; give {option} another name.")


def _is_same_file(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))


# ---- for people


def results() -> "Console":
    """Return the console of results."""
    return _console(sys.stdout)


def stages(output: Format) -> "Console":
    """Return the console of progress: standard error if a program may read the result."""
    return _console(sys.stdout if output is Format.TABLE else sys.stderr)


def print_error(*lines: str, is_of_file: bool = False) -> None:
    """Write a line to standard error and further ones below it, in the words of the shell unless of a file."""
    said = "\n  ".join(shown(" ".join((line if is_of_file else in_shell(line)).split())) for line in lines)
    sys.stderr.write(f"surepick: {said}\n")


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Write each warning as an error is written."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print_error(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@cache
def _safe_console() -> "type[Console]":
    from rich.console import Console  # noqa: PLC0415 (loaded once a line is printed)
    from rich.text import Text  # noqa: PLC0415

    class SafeConsole(Console):
        """A console that shows control characters as codes, so that foreign text cannot steer the terminal."""

        def render_str(self, text: str, **options: Any) -> Text:
            """Return a text as the console shows it."""
            return super().render_str(shown(text, keeps_lines=True), **options)

    return SafeConsole


def _console(stream: TextIO) -> "Console":
    # Not rich's own guess: variables of a surrounding tool could make it write control codes into a pipe.
    is_terminal = stream.isatty() and os.environ.get("TERM", "") != "dumb"
    return _safe_console()(
        file=stream,
        force_terminal=is_terminal,
        force_interactive=is_terminal,
        no_color=not is_terminal,
        width=None if is_terminal else PIPE_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )


def say(text: str) -> None:
    """Print sentences in the words of the shell; a terminal breaks lines between words, a pipe gets them whole."""
    text = in_shell(text)
    if not sys.stdout.isatty():
        sys.stdout.write(f"{shown(text)}\n")
        return
    # A line that is a command stays whole, or its copy would be two commands.
    results().print(shown(text), soft_wrap=text.startswith(("  ", "Next: ")))


def print_roles(console: "Console", text: str) -> None:
    """Print the roles of columns; a terminal breaks long lines between words and goes on below the entry."""
    if console.is_terminal:
        text = "\n".join(
            textwrap.fill(line, console.width, subsequent_indent=" " * 14 if line.startswith(" ") else "  ")
            for line in text.splitlines()
        )
    console.print(text, soft_wrap=True)


def new_table(titles: Sequence[str], *, left: Sequence[str], **options: Any) -> "Table":
    """Return an empty table; columns other than those of `left` hold numbers, and long cells go on in the next line."""
    from rich import box  # noqa: PLC0415 (loaded once a table is printed)
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, **options)
    for title in titles:
        table.add_column(title, justify="left" if title in left else "right", overflow="fold")
    return table


def facts_table(facts: "Mapping[str, RenderableType]", *, min_width: int = 0, bold: Sequence[str] = ()) -> "Table":
    """Return a table without lines: each fact beside its word, in bold for the words of `bold`."""
    from rich.table import Table  # noqa: PLC0415 (loaded once a table is printed)

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold", min_width=min_width)
    for word, fact in facts.items():
        entry = in_shell(fact) if word == "doubt" and isinstance(fact, str) else fact  # a sentence with advice
        table.add_row(word, entry, style="bold" if word in bold else None)
    return table


class LiveView:
    """Shows the state of a run in place, at most every `SECONDS_BETWEEN`; without a terminal it shows nothing."""

    def __init__(self, live: "Live | None", title: str, label: Callable[[Any], str]) -> None:
        self._live, self._title, self._label = live, title, label
        self._late: Callable[[], RenderableType] | None = None  # a state that came too soon after another one
        self._shown_at = -math.inf

    def show(self, look: "Callable[[], Snapshot]", *, arm: Any) -> None:
        """Show the state after a pull of `arm`: now, or when the next measurement takes long, or at the end."""
        if self._live is not None:
            self._late = lambda: live_panel(look(), arm, self._title, self._label)
            if monotonic() - self._shown_at >= SECONDS_BETWEEN:
                self.catch_up()

    def catch_up(self) -> None:
        """Show the last state, if it is not shown."""
        if self._live is not None and self._late is not None:
            late, self._late = self._late, None
            self._live.update(late(), refresh=True)
            self._shown_at = monotonic()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Show the last state if the block, which must leave the run alone, takes long."""
        if self._late is None:
            yield
            return
        timer = threading.Timer(SECONDS_BETWEEN, self.catch_up)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()


@contextmanager
def live_view(console: "Console", title: str, label: Callable[[Any], str] = str) -> "Iterator[LiveView]":
    """Yield a view of a run, which stays on the screen when it ends."""
    from rich.live import Live  # noqa: PLC0415 (loaded once a run is shown)

    with Live(console=console, auto_refresh=False) if console.is_terminal else nullcontext() as live:
        view = LiveView(live, title, label)
        yield view
        view.catch_up()


def live_panel(now: "Snapshot", arm: Any, title: str, label: Callable[[Any], str]) -> "RenderableType":
    """Return the live view: leader and runner-up, estimate, proved confidence, pulls so far and pulls to come."""
    from rich.panel import Panel  # noqa: PLC0415 (loaded once a run is shown)
    from rich.progress_bar import ProgressBar  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from surepick.learning.progress import facts  # noqa: PLC0415

    said: dict[str, Any] = {"last pull": f"arm {label(arm)}", **facts(now, label, epsilon_is=EPSILON_IS)}
    said["pulls"] = f"{now.n_pulls:,}"
    if now.stopped:
        said["remaining"] = "none, it is decided"
    for word in {"proved", "confidence"} & said.keys():
        bar = Table.grid(padding=(0, 1))
        bar.add_row(ProgressBar(total=1.0, completed=now.share, width=BAR_WIDTH), said[word])
        said[word] = bar
    rows = facts_table(said, min_width=BAR_WIDTH + 16, bold=("leader", "leaders", "best"))
    return Panel(rows, title=Text(shown(title)), title_align="left", expand=False, padding=(0, 1))


# ---- for programs

_CONTROL = re.compile("[\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
"""Characters up to U+FFFF that `shown` writes as codes and JSON does not."""


def write(output: Format, document: Any, rows: Sequence[Record] | None = None, *, titles: Sequence[str] = ()) -> None:
    """Write a result for a program: a document as JSON, or its rows as CSV; `titles` are the header without rows."""
    if output is Format.JSON:
        sys.stdout.write(f"{to_json(document)}\n")
    else:
        sys.stdout.write(to_csv(document if rows is None else rows, titles))


def to_json(value: Any) -> str:
    """Return indented JSON; infinite numbers become null, and letters that the output cannot hold become codes."""
    is_utf = (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(plain_data(value), indent=2, ensure_ascii=not is_utf, allow_nan=False)
    if text.isascii() and "\x7f" not in text:
        return text
    # JSON allows these control characters as they are; a code is the same text.
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def to_csv(records: Sequence[Record], titles: Sequence[str] = ()) -> str:
    """Return CSV with a header line, the keys of the records or else `titles`. No cell is a formula.

    Lists become text with blanks between the entries, labels read "bench B, day 3", and infinite numbers stay empty.
    """
    text = io.StringIO()
    header = [records[0]] if records else [titles] if titles else []
    rows = [*header, *(record.values() for record in records)]
    csv.writer(text, lineterminator="\n").writerows([[_cell(value) for value in row] for row in rows])
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, dict):
        value = label_text(tuple(value.items()))
    if isinstance(value, list | tuple):
        value = " ".join(map(str, value))
    if isinstance(value, str):
        return safe_cell(shown(value) if sys.stdout.isatty() else value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
