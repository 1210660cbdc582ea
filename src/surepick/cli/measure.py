"""Ways to measure an arm: a command of the user's, a prompt, and a log that repeats what is already known.

A source is called with an arm, a row number or a vector, and returns the reward, None if this measurement is to be left
out, or the `Correction` of an earlier one, after which it is called again. It raises `MeasurementFailed` if none can be
had, and `KeyboardInterrupt` if the user has enough. Called with None, after the value that decides, it returns a
correction of that or None.
"""

import csv
import math
import re
import shlex
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO, TextIOWrapper
from pathlib import Path
from typing import Any, final

from rich.console import Console

from surepick._files import lock
from surepick._texts import safe_cell, told_cell
from surepick.arms.tables.sources import is_grouped, parse_number, refusing
from surepick.errors import InvalidInput

Label = Callable[[Any], str]
"""What an arm is called; in commands, prompts and logs."""
LOG_HEADERS = (("arm", "reward", "corrects"), ("arm", "reward"))
"""As logs have it, and as they had it before there were corrections."""
AT_VERDICT = " at the verdict"
TRY_LATER = 75
"""Exit code of a command that has no value this time: EX_TEMPFAIL of sysexits.h."""

_SETTING = re.compile(r" (?=\w+=)")
"""Between two settings in the first line of a log."""


class MeasurementFailed(Exception):
    """The measurement cannot be had; the text says why."""


@final
@dataclass(frozen=True, slots=True)
class Correction:
    """A value that was entered wrong."""

    n: int
    """Which: 0 for the first, those left out not counted."""
    value: float
    """What it should have been."""
    at_verdict: bool = False
    """Whether it came right after a value that had decided, before anything else was asked for."""

    @property
    def mark(self) -> str:
        """How tables name the value, from 1 on."""
        return f"value {self.n + 1}{AT_VERDICT if self.at_verdict else ''}"

    @classmethod
    def read(cls, mark: str, value: float | None, n_values: int) -> "Correction | None":
        """Return what a line of a table says of one of the values above it, None if that is nothing."""
        word, _, number = mark.removesuffix(AT_VERDICT).partition(" ")
        is_one = word == "value" and number.isdecimal() and 1 <= int(number) <= n_values
        return cls(int(number) - 1, value, mark.endswith(AT_VERDICT)) if is_one and value is not None else None


Answer = float | Correction | None
Source = Callable[[Any], Answer]


@final
@dataclass(frozen=True, slots=True)
class Values:
    """Which numbers a measurement may give; one that is refused reaches neither log nor learner."""

    words: str = "number"
    """As the end of "one ..."."""
    limit: str = ""
    """What is needed of a number besides, as the end of "one number ..."."""
    allowed: Callable[[Any, float], bool] = lambda _arm, _value: True
    """Of an arm and a finite number."""

    def read(self, text: str, arm: Any) -> float | None:
        """Return the number that is meant, None if there is none or it is not allowed."""
        value = parse_number(text)
        return value if value is not None and self.allowed(arm, value) else None

    def needed(self, text: str) -> str:
        """Say what is needed where this text came."""
        return f"{self.words} {self.limit}".strip() if parse_number(text) is not None else self.words


ANY = Values()


def by_command(
    template: str, label: Label, values: Values = ANY, *, say: Callable[[str], object] = lambda _text: None
) -> Source:
    """Run a command for each measurement, without a shell; it prints one number.

    `{arm}` stands for the name and `{index}` for the row number, anywhere in an argument; a vector has no number, both
    stand for its entries. Exit code 75 or no output leave the measurement out, which is said.
    """
    try:
        template_parts = shlex.split(template)
    except ValueError as error:
        raise InvalidInput(f"--pull cannot be read: {error} in {template!r}.") from error
    if not any("{arm}" in part or "{index}" in part for part in template_parts):
        raise InvalidInput(f"--pull must say where the arm goes, as {{arm}} or {{index}}, got {template!r}.")

    def measure(arm: Any) -> float | None:
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
        last = (done.stderr.strip().splitlines() or ["it printed no reason"])[-1]
        if done.returncode not in (0, TRY_LATER):
            raise MeasurementFailed(f"{shown!r} ended with exit code {done.returncode}: {last}")
        printed = done.stdout.strip()
        if done.returncode or not printed:
            why = f"exit code {TRY_LATER}: {last}" if done.returncode else "the command printed nothing"
            say(f"{_skipped(label(arm))} ({why})")
            return None
        # People may write 74,5 and are asked again for 1,500; a program would fail at some of its values only.
        value = None if "," in printed else values.read(printed, arm)
        if value is None:
            pointed = "; write it with a decimal point" if "," in printed else ""
            raise MeasurementFailed(
                f"{shown!r} must print one {values.needed(printed)} for {label(arm)}, got {printed[:60]!r}{pointed}"
            )
        return value

    return measure


def by_prompt(console: Console, label: Label, told: Sequence[tuple[Any, float]], values: Values = ANY) -> Source:
    """Ask the user. Nothing entered leaves the measurement out, q or the end of input ends the session.

    Args:
        console: where.
        label: what arms are called.
        told: the values so far with their arms: `undo` asks for the last one again, and once more for that before it.
        values: which are allowed.
    """
    is_comma_explained = False

    def measure(arm: Any) -> Answer:
        nonlocal is_comma_explained
        place = len(told)  # of the value that is asked for
        while True:
            is_new = place == len(told)
            wanted, before = (arm, math.nan) if is_new else told[place]
            answer = _answer(console, _question(label, wanted, before))
            is_end = answer.lower() in ("q", "quit")
            if answer.lower() == "undo":
                if place == 0:
                    console.print("There is no value to take back.")
                place = max(place - 1, 0)
            elif is_end and arm is not None:
                raise KeyboardInterrupt
            elif is_end or not answer:
                if is_new and arm is not None:
                    console.print(_skipped(label(arm)))
                if is_new:
                    return None
                place = len(told)
            elif wanted is None:
                console.print(f"{answer!r} is not asked for; enter nothing to accept the last value, or undo.")
            elif (value := values.read(answer, wanted)) is not None:
                if "," in answer and not is_comma_explained:
                    console.print(f"{answer} is read as {value:.12g}.")
                    is_comma_explained = True
                return value if is_new else Correction(place, value, at_verdict=arm is None)
            else:
                otherwise = "nothing to leave it out, undo to correct the last one" if is_new else "nothing to keep it"
                console.print(f"{answer!r} {_wrong(answer, values)}; enter one, {otherwise}, or q to stop.")

    return measure


def _skipped(name: str) -> str:
    return f"skipped: {name}, asked for again later"


def _answer(console: Console, question: str) -> str:
    try:
        return console.input(question).strip()
    except EOFError:
        console.print()
        return "q"


def _question(label: Label, arm: Any, before: float) -> str:
    if arm is None:
        return "The last value decides. Enter accepts it, undo corrects it -> "
    return f"measure {label(arm)} -> " if math.isnan(before) else f"{label(arm)} again, instead of {before:.12g} -> "


def _wrong(answer: str, values: Values) -> str:
    if is_grouped(answer) and answer.count(",") == 1:
        return f"could be {answer.replace(',', '.')} or {answer.replace(',', '')}"
    return f"is no {values.needed(answer)}"


@final
class Logged:
    """Writes every measurement to a file as it happens, and repeats those the file already has.

    The algorithm asks in the same order for the same arms, seed and options, so a session that was cut off goes on
    exactly where it was. The first line of the file says what it belongs to. A correction is a line of its own; the
    line with the wrong value stays, since it has led to what was measured next.
    """

    def __init__(self, source: Source, path: Path, label: Label, belongs_to: str) -> None:
        self._source, self._path, self._label = source, path, label
        self._file = _open_alone(path)
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._labels: list[str] = []
        """Of the values so far."""
        self._is_repeated = False
        """Whether the last answer came from the file."""
        try:
            self._known, self.cut_off = self._taken_over(f"# {belongs_to}")
        except BaseException:
            self.close()
            raise
        self.n_known = sum(not isinstance(answer, Correction) for _, answer in self._known)

    def _taken_over(self, first: str) -> tuple[deque[tuple[str, Answer]], str | None]:
        """The measurements of the file, and the line that a crash has cut off; the file has a whole head then."""
        with refusing("cannot read", self._path):
            content = self._path.read_bytes()
            end = _end_of_whole_lines(content)
            whole, rest = content[:end].decode("utf-8-sig"), content[end:].decode(errors="replace")
            if not whole.startswith(first) and _is_unused(whole):  # such as by a command that was refused
                self._file.truncate(0)
                whole = rest = ""
        rows = [] if first.startswith(whole + rest) else _rows(whole or rest, self._path, first)
        known = deque(_entries(rows[1:], self._path))
        # Only now it is certain that this is a log, and may be changed.
        if rest:
            _cut(self._file, self._path, end, rest)
        with refusing("cannot write", self._path):
            if not whole:
                self._write(first)
            if not rows:
                self._write(*LOG_HEADERS[0])
        return known, rest or None

    def __call__(self, arm: Any) -> Answer:
        """Measure once, from the file if it is there."""
        if arm is None and self._is_repeated:
            known = self._known[0][1] if self._known else None
            return self._known.popleft()[1] if isinstance(known, Correction) and known.at_verdict else None
        self._is_repeated = bool(self._known)
        answer = self._repeated(self._label(arm)) if self._known else self._new(arm)
        if isinstance(answer, float):
            self._labels.append(self._label(arm))
        return answer

    def _repeated(self, label: str) -> Answer:
        known, answer = self._known.popleft()
        if label not in (known, told_cell(known)) and not isinstance(answer, Correction):
            raise MeasurementFailed(
                f"the log {self._path} goes on with arm {known!r} where {label!r} is to be measured, so it was "
                "changed, or written by another version; pass it as --history to use its values"
            )
        return answer

    def _new(self, arm: Any) -> Answer:
        answer = self._source(arm)
        if arm is None and answer is None:
            return None
        if isinstance(answer, Correction):
            label, reward, mark = self._labels[answer.n], repr(answer.value), answer.mark
        else:
            label, reward, mark = self._label(arm), "" if answer is None else repr(answer), ""
        try:
            self._write(safe_cell(label), reward, mark)
        except OSError as error:
            raise MeasurementFailed(
                f"cannot write {self._path} ({error.strerror}), so the last value, {reward or 'none'} for {label}, is "
                "not in it; make room and go on with the same command"
            ) from error
        return answer

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


def _is_unused(text: str) -> bool:
    """Whether this is a log without any line but its first two."""
    head, _, header = text.rstrip().partition("\n")
    return head.startswith("# ") and tuple(header.split(",")) in LOG_HEADERS


def _cut(file: TextIOWrapper, path: Path, end: int, rest: str) -> None:
    try:
        file.truncate(end)
    except OSError as error:
        raise InvalidInput(
            f"{path} was cut off and cannot be mended ({error}); remove its last line {rest!r}."
        ) from error


def _rows(text: str, path: Path, first: str) -> list[tuple[int, list[str]]]:
    """Header and measurements of a log, with the numbers of their lines.

    A spreadsheet may have changed line ends and filled up short lines.
    """
    head, _, body = text.partition("\n")
    head = head.rstrip("\r,")
    if head != first:
        there, here = (_SETTING.split(line.lstrip("# ")) for line in (head, first))
        other = " ".join(setting for setting in there if setting not in here) or "less"
        own = " ".join(setting for setting in here if setting not in there) or "no such"
        raise InvalidInput(
            f"{path} was written for other arms or options ({other!r} instead of {own!r}); use another file, or pass "
            "this one as --history."
        )
    reader = csv.reader(StringIO(body, newline=""))
    rows = [(reader.line_num + 1, row) for row in reader if any(row)]
    if rows and tuple(rows[0][1]) not in LOG_HEADERS:
        needed, came = ",".join(LOG_HEADERS[0]), ",".join(rows[0][1])
        raise InvalidInput(f"{path} must have the line {needed!r} below its first, got {came!r}; write it there.")
    return rows


def _entries(rows: list[tuple[int, list[str]]], path: Path) -> Iterator[tuple[str, Answer]]:
    """What the lines of a log say, with the names of the arms."""
    labels: list[str] = []
    for line, row in rows:
        label, reward, mark = row if len(row) == 3 else (*row, "") if len(row) == 2 else ("", "", "unreadable")
        value = parse_number(reward)
        correction = Correction.read(mark, value, len(labels)) if mark else None
        is_right = (value is not None or not reward) if not mark else correction and label == labels[correction.n]
        if not is_right:
            raise InvalidInput(
                f"{path} line {line} must be an arm and its value, as in 'A,0.5,' (with 'value 3' behind it if it "
                f"corrects the third), got {','.join(row)!r}; write it so. Or remove it, pass the file as --history, "
                "and use another --log."
            )
        if value is not None and not mark:
            labels.append(label)
        yield label, correction or value


def _filled(part: str, name: str, index: str) -> str:
    return name.join(piece.replace("{index}", index) for piece in part.split("{arm}"))
