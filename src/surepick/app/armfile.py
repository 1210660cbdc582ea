"""Arms and earlier measurements from files: CSV with a header line, `.npy`, Parquet or Arrow.

Names of the arms come from the column the user names; else from a column headed name, arm or id; else from the first
column of text in which no two rows agree. Every other column is a feature; text becomes 0/1 columns.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from surepick.app.console import Refusal, misuse
from surepick.app.vectorset import ChosenSet
from surepick.arms.files import MappedArms
from surepick.arms.finite import FiniteArms
from surepick.errors import ArmsDoNotSpan

NAME_HEADERS = ("name", "arm", "id")
MAPPED = (".parquet", ".arrow", ".feather")
LARGE_FILE = 200_000_000
"""Bytes of a .npy from which on it is not read into memory."""


@final
@dataclass(frozen=True, slots=True)
class ArmFile:
    """Arms read from a file."""

    arms: FiniteArms | MappedArms
    name_column: str | None

    def label(self, arm: int) -> str:
        """The name of an arm, or its row number."""
        return str(arm) if self.arms.names is None else self.arms.names[arm]

    def fingerprint(self) -> bytes:
        """What tells these arms from others."""
        return self.arms.digest() + repr(self.arms.names).encode()

    def index(self, label: str) -> int:
        """Row number of an arm given by its name, or by its row number where there are no names."""
        names = self.arms.names
        if names is not None:
            if label in names:
                return names.index(label)
        elif label.isdecimal() and int(label) < self.arms.n_arms:
            return int(label)
        known = "a name" if names is not None else f"a row number from 0 to {self.arms.n_arms - 1}"
        raise misuse(f"{label!r} is not {known} of the arms.")

    def describe(self) -> str:
        """Say what was understood."""
        features = ", ".join(self.arms.feature_names[:6]) + (", ..." if self.arms.dim > 6 else "")
        names = "row numbers as names" if self.name_column is None else f"names from column {self.name_column!r}"
        return f"{self.arms.n_arms} arms, {self.arms.dim} features ({features}), {names}"


@final
class _Columns:
    """The little of a data frame that `FiniteArms` asks for."""

    def __init__(self, columns: Mapping[str, Any], n_rows: int) -> None:
        self.columns = list(columns)
        self._columns, self._n_rows = columns, n_rows

    def __getitem__(self, name: str) -> Any:
        return self._columns[name]

    def __len__(self) -> int:
        return self._n_rows


def read_arms(path: Path, *, name_column: str | None, intercept: bool, on_span: bool) -> ArmFile:
    """Read arms; what the file lacks is said with its line and column."""
    build = FiniteArms.on_span if on_span else FiniteArms
    if path.suffix in MAPPED or (path.suffix == ".npy" and _size(path) > LARGE_FILE):
        for option, given in (("--name-column", name_column), ("--intercept", intercept), ("--on-span", on_span)):
            if given:
                raise misuse(f"{option} needs a .csv file or a small .npy file; {path} is read in pieces, as it is.")
        return ArmFile(MappedArms(path), None)
    if path.suffix == ".npy":
        if name_column is not None:
            raise misuse("--name-column needs a .csv file; a .npy file has no columns with names.")
        try:
            matrix = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise misuse(f"cannot read {path}: {_reason(error)}.") from error
        with _advice_of_the_command_line(path):
            return ArmFile(build(matrix, intercept=intercept or None), None)
    header, rows = _read_csv(path)
    for row in rows:
        for title, cell in zip(header, row.cells, strict=True):
            if not cell.strip():
                raise misuse(f"{path} line {row.line}: column {title!r} has no value; fill it or drop the line.")
    columns = {title: [row.cells[j].strip() for row in rows] for j, title in enumerate(header)}
    parsed = {title: _numbers(cells) for title, cells in columns.items()}
    name_column = _name_column(path, columns, parsed, name_column)
    features = {
        title: np.array(columns[title]) if parsed[title] is None else parsed[title]
        for title in header
        if title != name_column
    }
    lines = [row.line for row in rows]
    for title in features:
        _check_feature(path, title, lines, columns[title], parsed[title])
    if not features:
        raise misuse(f"{path} has no feature columns; add one column of numbers or text for each property of an arm.")
    names = None if name_column is None else columns[name_column]
    if names is not None:
        _check_names(path, lines, names)
    with _advice_of_the_command_line(path):
        arms = build(_Columns(features, len(rows)), names=names, intercept=intercept or None)
    return ArmFile(arms, name_column)


def read_history(path: Path, arms: ArmFile | ChosenSet) -> list[tuple[Any, float]]:
    """Read earlier measurements: columns `arm` and `reward`, one line each. No reward: the measurement failed."""
    header, rows = _read_csv(path)
    titles = [title.lower() for title in header]
    if "arm" not in titles or "reward" not in titles:
        raise misuse(f"{path} must have the columns arm and reward, got {', '.join(header)}.")
    arm, reward = titles.index("arm"), titles.index("reward")
    history = []
    for row in rows:
        if not row.cells[reward].strip():
            continue
        value = parse_number(row.cells[reward])
        if value is None:
            raise misuse(f"{path} line {row.line}: the reward must be a number, got {row.cells[reward]!r}.")
        try:
            history.append((arms.index(row.cells[arm].strip()), value))
        except Refusal as refusal:
            raise misuse(f"{path} line {row.line}: {refusal}") from refusal
    return history


def parse_number(text: str) -> float | None:
    """A finite number, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


class _Row(NamedTuple):
    line: int
    cells: list[str]


def _read_csv(path: Path) -> tuple[list[str], list[_Row]]:
    """Header and rows; blank lines and comment lines (#) above the header are skipped."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            rows = [_Row(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise misuse(f"cannot read {path}: {_reason(error)}.") from error
    while rows and rows[0].cells[0].startswith("#"):
        rows.pop(0)
    if len(rows) < 2:
        raise misuse(f"{path} must have a header line and at least one line below it, got {len(rows)} lines.")
    header = [title.strip() for title in rows[0].cells]
    for mark, spoken in ((";", "';'"), ("\t", "tabs")):
        if len(header) == 1 and mark in header[0]:
            raise misuse(
                f"{path} must have commas between its columns, and looks as if it had {spoken}; save it again."
            )
    if len(set(header)) < len(header) or "" in header:
        raise misuse(f"{path} needs a header line with a different name for every column, got {', '.join(header)!r}.")
    if any(parse_number(title) is not None for title in header):
        raise misuse(f"{path} has numbers in its header line; put the names of the columns there.")
    for row in rows[1:]:
        if len(row.cells) != len(header):
            raise misuse(f"{path} line {row.line}: {len(header)} cells are needed, got {len(row.cells)}.")
    return header, rows[1:]


def _numbers(cells: Sequence[str]) -> Any:
    """The cells as an array of numbers, or None if one of them is no number."""
    try:
        return np.array([float(cell) for cell in cells])
    except ValueError:
        return None


def _is_mostly_numbers(cells: Sequence[str]) -> bool:
    """Whether more than half of the cells are numbers, be it with a decimal comma."""
    return 2 * sum(_numbers([cell.replace(",", ".", 1)]) is not None for cell in cells) > len(cells)


def _check_feature(path: Path, title: str, lines: Sequence[int], cells: Sequence[str], numbers: Any) -> None:
    """Refuse numbers that are none."""
    if numbers is not None:
        for i in np.flatnonzero(~np.isfinite(numbers)).tolist()[:1]:
            raise misuse(
                f"{path} line {lines[i]}: column {title!r} must be a finite number, got {cells[i]!r}; replace it."
            )
    elif _is_mostly_numbers(cells):
        line, cell = next((line, cell) for line, cell in zip(lines, cells, strict=True) if _numbers([cell]) is None)
        raise misuse(
            f"{path} line {line}: column {title!r} is mostly numbers, got {cell!r}; write a number with a decimal "
            "point there; if it is a category, spell its levels as words; if it names the arms, say "
            f"--name-column {title!r}."
        )


def _check_names(path: Path, lines: Sequence[int], names: Sequence[str]) -> None:
    first: dict[str, int] = {}
    for line, name in zip(lines, names, strict=True):
        if name in first:
            raise misuse(f"{path} line {line}: the name {name!r} is that of line {first[name]} too; change one.")
        first[name] = line


@contextmanager
def _advice_of_the_command_line(path: Path) -> Iterator[None]:
    """Say which option helps where the library says which call does."""
    try:
        yield
    except ArmsDoNotSpan as error:
        what = str(error).partition(";")[0]
        raise ArmsDoNotSpan(f"{path}: {what}; drop redundant features, or do it with --on-span.") from error


def _name_column(
    path: Path, columns: Mapping[str, list[str]], parsed: Mapping[str, Any], wanted: str | None
) -> str | None:
    if wanted is not None:
        if wanted not in columns:
            raise misuse(f"{path} has no column {wanted!r}; its columns are {', '.join(columns)}.")
        return wanted
    headed = [title for title in columns if title.lower() in NAME_HEADERS]
    unlike = [
        title
        for title, cells in columns.items()
        if parsed[title] is None and len(set(cells)) == len(cells) and not _is_mostly_numbers(cells)
    ]
    return next(iter([*headed, *unlike]), None)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
