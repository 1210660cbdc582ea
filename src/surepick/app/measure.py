"""Ways to measure an arm: a command of the user's, a prompt, and a log that repeats what is already known.

A source is called with an arm, a row number or a vector, and returns the reward, or None if this measurement is to be
left out. It raises `MeasurementFailed` if none can be had, and `KeyboardInterrupt` if the user has enough.
"""

import csv
import shlex
import subprocess
from collections import deque
from collections.abc import Callable
from io import StringIO, TextIOWrapper
from pathlib import Path
from typing import Any, final

from rich.console import Console

from surepick.app.armfile import parse_number
from surepick.app.console import misuse
from surepick.files import lock

Source = Callable[[Any], float | None]
Label = Callable[[Any], str]
"""What an arm is called; in commands, prompts and logs."""
LOG_HEADER = ("arm", "reward")


class MeasurementFailed(Exception):
    """The measurement cannot be had; the text says why."""


@final
class Command:
    """Runs a command for each measurement, without a shell; it prints one number.

    `{arm}` stands for the name and `{index}` for the row number, anywhere in an argument; a vector has no number, both
    stand for its entries.
    """

    def __init__(self, template: str, label: Label) -> None:
        try:
            self._template = shlex.split(template)
        except ValueError as error:
            raise misuse(f"--pull cannot be read: {error} in {template!r}.") from error
        if not any("{arm}" in part or "{index}" in part for part in self._template):
            raise misuse(f"--pull must say where the arm goes, as {{arm}} or {{index}}, got {template!r}.")
        self._label = label

    def __call__(self, arm: Any) -> float:
        """Measure once."""
        # One pass over each part: a name that contains "{index}" stays as it is.
        label = self._label(arm)
        index = str(arm) if isinstance(arm, int) else label
        parts = [_filled(part, label, index) for part in self._template]
        shown = shlex.join(parts)
        try:
            done = subprocess.run(  # noqa: S603 (the user's own command, and no shell reads it)
                parts, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
            )
        except OSError as error:
            raise MeasurementFailed(f"cannot run {shown!r}: {error.strerror}") from error
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["it printed no reason"])[-1]
            raise MeasurementFailed(f"{shown!r} ended with exit code {done.returncode}: {last}")
        value = parse_number(done.stdout.strip())
        if value is None:
            came = repr(done.stdout.strip()[:60]) if done.stdout.strip() else "nothing"
            raise MeasurementFailed(f"{shown!r} must print one number, got {came}")
        return value


@final
class Prompt:
    """Asks the user. Nothing entered leaves the measurement out, q or the end of input ends the session."""

    def __init__(self, console: Console, label: Label) -> None:
        self._console, self._label = console, label

    def __call__(self, arm: Any) -> float | None:
        """Measure once."""
        while True:
            try:
                answer = self._console.input(f"measure {self._label(arm)} -> ").strip()
            except EOFError:
                answer = "q"
                self._console.print()
            if answer.lower() in ("q", "quit"):
                raise KeyboardInterrupt
            if not answer:
                return None
            value = parse_number(answer)
            if value is not None:
                return value
            self._console.print(f"{answer!r} is no number; enter one, nothing to leave it out, or q to stop.")


@final
class Logged:
    """Writes every measurement to a file as it happens, and repeats those the file already has.

    The algorithm asks in the same order for the same arms, seed and options, so a session that was cut off goes on
    exactly where it was. The first line of the file says what it belongs to.
    """

    def __init__(self, source: Source, path: Path, label: Label, belongs_to: str) -> None:
        self._source, self._path, self._label = source, path, label
        self._is_broken = False
        self._file = _open_alone(path)
        self._writer = csv.writer(self._file, lineterminator="\n")
        try:
            self._known, self.cut_off = self._taken_over(f"# {belongs_to}")
        except BaseException:
            self.close()
            raise
        self.n_known = len(self._known)

    def _taken_over(self, first: str) -> tuple[deque[tuple[str, float | None]], str | None]:
        """The measurements of the file, and the line that a crash has cut off; the file has a whole head then."""
        try:
            content = self._path.read_bytes()
            end = _end_of_whole_lines(content)
            whole, rest = content[:end].decode("utf-8-sig"), content[end:].decode(errors="replace")
        except (OSError, UnicodeDecodeError) as error:
            raise misuse(f"cannot read {self._path}: {error}.") from error
        rows = [] if first.startswith(whole + rest) else _rows(whole or rest, self._path, first)
        known = deque(_measurement(row, self._path) for row in rows[1:])
        # Only now it is certain that this is a log, and may be changed.
        if rest:
            _cut(self._file, self._path, end, rest)
        try:
            if not whole:
                self._file.write(f"{first}\n")
            if not rows:
                self._writer.writerow(LOG_HEADER)
            self._file.flush()
        except OSError as error:
            self._is_broken = True
            raise misuse(f"cannot write {self._path}: {error.strerror}.") from error
        return known, rest or None

    def __call__(self, arm: Any) -> float | None:
        """Measure once, from the file if it is there."""
        label = self._label(arm)
        if self._known:
            known, reward = self._known.popleft()
            if known != label:
                raise MeasurementFailed(
                    f"the log {self._path} goes on with arm {known!r} where {label!r} is to be measured, so it was "
                    "changed, or written by another version; pass it as --history to use its values"
                )
            return reward
        value = self._source(arm)
        self._write(label, "" if value is None else repr(value))
        return value

    @property
    def is_repeating(self) -> bool:
        """Whether the next measurement comes from the file."""
        return bool(self._known)

    def _write(self, label: str, reward: str) -> None:
        try:
            self._writer.writerow((label, reward))
            self._file.flush()
        except OSError as error:
            self._is_broken = True
            raise MeasurementFailed(
                f"cannot write {self._path} ({error.strerror}), so the last value, {reward or 'none'} for {label}, is "
                "not in it; make room and go on with the same command"
            ) from error

    def close(self) -> None:
        """Close the file."""
        try:
            self._file.close()
        except OSError:
            if not self._is_broken:  # else reported already
                raise


def _open_alone(path: Path) -> TextIOWrapper:
    """Open a log for appending; the lock ends with the process, however that ends."""
    try:
        file: TextIOWrapper = path.open("a", newline="", encoding="utf-8")
    except OSError as error:
        raise misuse(f"cannot write {path}: {error.strerror}.") from error
    if not lock(file.fileno()):
        file.close()
        raise misuse(f"another session writes to {path}; wait for its end, or choose another --log.")
    return file


def _end_of_whole_lines(content: bytes) -> int:
    """Where the last line ends that has its line end; one between quotes belongs to a name."""
    end = content.rfind(b"\n") + 1
    while content[:end].count(b'"') % 2:
        end = content.rfind(b"\n", 0, end - 1) + 1
    return end


def _cut(file: TextIOWrapper, path: Path, end: int, rest: str) -> None:
    try:
        file.truncate(end)
    except OSError as error:
        raise misuse(f"{path} was cut off and cannot be mended ({error}); remove its last line {rest!r}.") from error


def _rows(text: str, path: Path, first: str) -> list[list[str]]:
    """Header and measurements of a log; a spreadsheet may have changed its line ends and filled up short lines."""
    head, _, body = text.partition("\n")
    head = head.rstrip("\r,")
    if head != first:
        raise misuse(
            f"{path} was written for other arms or options ({head.lstrip('# ')!r} instead of {first[2:]!r}); use "
            "another file, or pass this one as --history."
        )
    rows = [row for row in csv.reader(StringIO(body, newline="")) if any(row)]
    if rows and tuple(rows[0]) != LOG_HEADER:
        raise misuse(f"{path} must have the line {','.join(LOG_HEADER)!r} below its first, got {','.join(rows[0])!r}.")
    return rows


def _measurement(row: list[str], path: Path) -> tuple[str, float | None]:
    reward = parse_number(row[1]) if len(row) == 2 else None
    if len(row) != 2 or (reward is None and row[1]):
        raise misuse(f"{path} has the line {','.join(row)!r}, which is no measurement; repair it.")
    return row[0], reward


def _filled(part: str, name: str, index: str) -> str:
    return name.join(piece.replace("{index}", index) for piece in part.split("{arm}"))
