"""Ways to measure an arm: a command of the user's, a prompt, and a log that repeats what is already known.

A source is called with an arm, a row number or a vector, and returns the reward, or None if this measurement is to be
left out. It raises `MeasurementFailed` if none can be had, and `KeyboardInterrupt` if the user has enough.
"""

import csv
import math
import shlex
import subprocess
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO, TextIOWrapper
from pathlib import Path
from typing import Any, final

from rich.console import Console

from surepick.arms.tables.sources import refusing
from surepick.arms.tables.written import is_grouped, parse_number
from surepick.errors import InvalidInput
from surepick.files import lock

Source = Callable[[Any], float | None]
Label = Callable[[Any], str]
"""What an arm is called; in commands, prompts and logs."""
LOG_HEADER = ("arm", "reward")


class MeasurementFailed(Exception):
    """The measurement cannot be had; the text says why."""


@final
@dataclass(frozen=True, slots=True)
class Values:
    """Which numbers a measurement may give; one that is refused reaches neither log nor learner."""

    words: str = "number"
    """As the end of "one ..."."""
    allowed: Callable[[float], bool] = math.isfinite

    def read(self, text: str) -> float | None:
        """Return the number that is meant, None if there is none or it is not allowed."""
        value = parse_number(text)
        return value if value is not None and self.allowed(value) else None


ANY = Values()


def by_command(template: str, label: Label, values: Values = ANY) -> Source:
    """Run a command for each measurement, without a shell; it prints one number.

    `{arm}` stands for the name and `{index}` for the row number, anywhere in an argument; a vector has no number, both
    stand for its entries.
    """
    try:
        template_parts = shlex.split(template)
    except ValueError as error:
        raise InvalidInput(f"--pull cannot be read: {error} in {template!r}.") from error
    if not any("{arm}" in part or "{index}" in part for part in template_parts):
        raise InvalidInput(f"--pull must say where the arm goes, as {{arm}} or {{index}}, got {template!r}.")

    def measure(arm: Any) -> float:
        # One pass over each part: a name that contains "{index}" stays as it is.
        index = str(arm) if isinstance(arm, int) else label(arm)
        parts = [_filled(part, label(arm), index) for part in template_parts]
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
        printed = done.stdout.strip()
        # People may write 74,5 and are asked again for 1,500; a program would fail at some of its values only.
        value = None if "," in printed else values.read(printed)
        if value is None:
            came = repr(printed[:60]) if printed else "nothing"
            pointed = "; write it with a decimal point" if "," in printed else ""
            raise MeasurementFailed(f"{shown!r} must print one {values.words}, got {came}{pointed}")
        return value

    return measure


def by_prompt(console: Console, label: Label, values: Values = ANY) -> Source:
    """Ask the user. Nothing entered leaves the measurement out, q or the end of input ends the session."""

    def measure(arm: Any) -> float | None:
        while True:
            try:
                answer = console.input(f"measure {label(arm)} -> ").strip()
            except EOFError:
                answer = "q"
                console.print()
            if answer.lower() in ("q", "quit"):
                raise KeyboardInterrupt
            value = values.read(answer)
            if value is not None and "," in answer:
                console.print(f"{answer} is read as {value:.12g}.")
            if value is not None or not answer:
                return value
            wrong = f"is no {values.words}"
            if is_grouped(answer) and answer.count(",") == 1:
                wrong = f"could be {answer.replace(',', '.')} or {answer.replace(',', '')}"
            console.print(f"{answer!r} {wrong}; enter one, nothing to leave it out, or q to stop.")

    return measure


@final
class Logged:
    """Writes every measurement to a file as it happens, and repeats those the file already has.

    The algorithm asks in the same order for the same arms, seed and options, so a session that was cut off goes on
    exactly where it was. The first line of the file says what it belongs to.
    """

    def __init__(self, source: Source, path: Path, label: Label, belongs_to: str) -> None:
        self._source, self._path, self._label = source, path, label
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
        with refusing("cannot read", self._path):
            content = self._path.read_bytes()
            end = _end_of_whole_lines(content)
            whole, rest = content[:end].decode("utf-8-sig"), content[end:].decode(errors="replace")
        rows = [] if first.startswith(whole + rest) else _rows(whole or rest, self._path, first)
        known = deque(_measurement(row, self._path) for row in rows[1:])
        # Only now it is certain that this is a log, and may be changed.
        if rest:
            _cut(self._file, self._path, end, rest)
        with refusing("cannot write", self._path):
            if not whole:
                self._write(first)
            if not rows:
                self._write(*LOG_HEADER)
        return known, rest or None

    def __call__(self, arm: Any) -> float | None:
        """Measure once, from the file if it is there."""
        label = self._label(arm)
        if self._known:
            known, value = self._known.popleft()
            if known != label:
                raise MeasurementFailed(
                    f"the log {self._path} goes on with arm {known!r} where {label!r} is to be measured, so it was "
                    "changed, or written by another version; pass it as --history to use its values"
                )
            return value
        value = self._source(arm)
        reward = "" if value is None else repr(value)
        try:
            self._write(label, reward)
        except OSError as error:
            raise MeasurementFailed(
                f"cannot write {self._path} ({error.strerror}), so the last value, {reward or 'none'} for {label}, is "
                "not in it; make room and go on with the same command"
            ) from error
        return value

    def notes(self) -> Iterator[str]:
        """What the user should know of the file."""
        if self.cut_off is not None:
            yield f"the last line of {self._path} was cut off and is dropped, got {self.cut_off!r}"
        if self.n_known:
            yield f"{self.n_known} measurements of {self._path} are taken over"

    @property
    def is_repeating(self) -> bool:
        """Whether the next measurement comes from the file."""
        return bool(self._known)

    def _write(self, *cells: str) -> None:
        try:
            self._writer.writerow(cells)
            self._file.flush()
        except OSError:
            with suppress(OSError):  # to be reported once
                self._file.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _open_alone(path: Path) -> TextIOWrapper:
    """Open a log for appending; the lock ends with the process, however that ends."""
    with refusing("cannot write", path):
        file: TextIOWrapper = path.open("a", newline="", encoding="utf-8")
    if not lock(file.fileno()):
        file.close()
        raise InvalidInput(f"another session writes to {path}; wait for its end, or choose another --log.")
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
        raise InvalidInput(
            f"{path} was cut off and cannot be mended ({error}); remove its last line {rest!r}."
        ) from error


def _rows(text: str, path: Path, first: str) -> list[list[str]]:
    """Header and measurements of a log; a spreadsheet may have changed its line ends and filled up short lines."""
    head, _, body = text.partition("\n")
    head = head.rstrip("\r,")
    if head != first:
        raise InvalidInput(
            f"{path} was written for other arms or options ({head.lstrip('# ')!r} instead of {first[2:]!r}); use "
            "another file, or pass this one as --history."
        )
    rows = [row for row in csv.reader(StringIO(body, newline="")) if any(row)]
    if rows and tuple(rows[0]) != LOG_HEADER:
        raise InvalidInput(
            f"{path} must have the line {','.join(LOG_HEADER)!r} below its first, got {','.join(rows[0])!r}."
        )
    return rows


def _measurement(row: list[str], path: Path) -> tuple[str, float | None]:
    reward = parse_number(row[1]) if len(row) == 2 else None
    if len(row) != 2 or (reward is None and row[1]):
        raise InvalidInput(f"{path} has the line {','.join(row)!r}, which is no measurement; repair it.")
    return row[0], reward


def _filled(part: str, name: str, index: str) -> str:
    return name.join(piece.replace("{index}", index) for piece in part.split("{arm}"))
