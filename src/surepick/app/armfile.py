"""Arms and earlier measurements from files: CSV with a header line, `.npy`, Parquet or Arrow.

Names of the arms come from the column the user names; else from a column headed name, arm or id; else from the first
column of text in which no two rows agree. Every other column is a feature; text becomes 0/1 columns.
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from surepick.app.console import refusing
from surepick.app.vectorset import ChosenSet, chosen_set
from surepick.arms.files import MappedArms
from surepick.arms.finite import FiniteArms
from surepick.core.linalg import Array
from surepick.errors import ArmsDoNotSpan, InvalidInput

NAME_HEADERS = ("name", "arm", "id")
MAPPED = (".parquet", ".arrow", ".feather")
LARGE_FILE = 200_000_000
"""Bytes of a .npy from which on it is not read into memory."""


@final
@dataclass(frozen=True, slots=True)
class ArmFile:
    """Arms read from a file."""

    arms: FiniteArms | MappedArms
    title: str
    """The file."""
    name_column: str | None = None
    stds: Array | None = None
    """How noisy each arm is, if a column says so."""

    def label(self, arm: int) -> str:
        """The name of an arm, or its row number."""
        return str(arm) if self.arms.names is None else self.arms.names[arm]

    def fingerprint(self) -> bytes:
        """What tells these arms from others."""
        return self.arms.digest() + repr(self.arms.names).encode()

    def index(self, label: str) -> int:
        """Row number of an arm given by its name, or by its row number where there are no names."""
        names = self.arms.names
        if names is not None and label in names:
            return names.index(label)
        if names is None and label.isdecimal() and int(label) < self.arms.n_arms:
            return int(label)
        known = "a name" if names is not None else f"a row number from 0 to {self.arms.n_arms - 1}"
        raise InvalidInput(f"{label!r} is not {known} of the arms.")

    def describe(self) -> str:
        """Say what was understood."""
        features = ", ".join(self.arms.feature_names[:6]) + (", ..." if self.arms.dim > 6 else "")
        names = "row numbers as names" if self.name_column is None else f"names from column {self.name_column!r}"
        added = "; the constant was added" if self.arms.has_added_constant else ""
        return f"{self.arms.n_arms} arms, {self.arms.dim} features ({features}{added}), {names}"


@final
@dataclass(frozen=True, slots=True)
class _Table:
    """A CSV file as text; with features as `columns` it is the little of a data frame that `FiniteArms` asks for."""

    path: Path
    cells: dict[str, list[str]]
    """Below each title."""
    lines: list[int]
    """Where in the file each row is."""
    columns: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, title: str) -> Any:
        """A feature: numbers, or text. Refuses numbers that are none."""
        cells = self.cells[title]
        numbers = _numbers(cells)
        if numbers is not None:
            for row in np.flatnonzero(~np.isfinite(numbers)).tolist()[:1]:
                raise self.refusal(row, f"column {title!r} must be a finite number, got {cells[row]!r}; replace it.")
            return numbers
        if _is_mostly_numbers(cells):
            row = next(row for row, cell in enumerate(cells) if _numbers([cell]) is None)
            raise self.refusal(
                row,
                f"column {title!r} is mostly numbers, got {cells[row]!r}; write a number with a decimal point there; "
                f"if it is a category, spell its levels as words; if it names the arms, say --name-column {title!r}.",
            )
        return np.array(cells)

    def numbers(self, title: str) -> Array:
        """A column that must hold numbers."""
        column: Array = self[title]
        if column.dtype.kind != "f":
            raise self.refusal(0, f"column {title!r} must be a number in every row, got {self.cells[title][0]!r}.")
        return column

    def refusal(self, row: int, what: str) -> InvalidInput:
        """Say what is wrong with a row, and in which line that is."""
        return InvalidInput(f"{self.path} line {self.lines[row]}: {what}")


@final
@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns of numbers with names."""

    cells: dict[str, Array]

    @classmethod
    def of(cls, rows: MappedArms) -> "_Columns":
        """Read a file into memory."""
        whole = np.vstack([chunk for _, chunk in rows.chunks()])
        return cls(dict(zip(rows.feature_names, whole.T, strict=True)))

    @property
    def columns(self) -> list[str]:
        return list(self.cells)

    def __len__(self) -> int:
        return len(next(iter(self.cells.values())))

    def __getitem__(self, title: str) -> Array:
        return self.cells[title]


def chosen_arms(option: str, value: Any, **reading: Any) -> ArmFile | ChosenSet:
    """The arms that an option names: --arms FILE, which is read as `read_arms` is told, or a set of vectors."""
    if option == "--arms":
        return read_arms(value, **reading)
    if reading["noise_column"] is not None:
        raise InvalidInput(f"--noise-std must be a number beside {option}, got {reading['noise_column']!r}.")
    return chosen_set(option, value)


def read_arms(
    path: Path, *, name_column: str | None, intercept: bool | None, on_span: bool, noise_column: str | None = None
) -> ArmFile:
    """Read arms; what the file lacks is said with its line and column."""
    is_binary = path.suffix in (".npy", *MAPPED)
    if path.suffix == ".npy" and noise_column is not None:
        raise InvalidInput(f"--noise-std must be a number for {path}, whose columns have no names.")
    if is_binary and name_column is not None:
        raise InvalidInput(f"--name-column needs a .csv file; of {path} all columns are features.")
    if is_binary and path.exists() and path.stat().st_size > LARGE_FILE:
        for option, given in (("--on-span", on_span), ("--noise-std NAME", noise_column)):
            if given:
                raise InvalidInput(f"{option} needs a smaller file; {path} is read in pieces, as it is.")
        return ArmFile(MappedArms(path, intercept=intercept), str(path))
    features: Any
    names = stds = None
    if path.suffix in MAPPED:
        features = _Columns.of(MappedArms.rows_only(path))
        if noise_column is not None:
            _check_column(path, noise_column, features.cells)
            stds = features.cells.pop(noise_column)
    elif path.suffix == ".npy":
        with refusing("cannot read", path):
            features = np.load(path, allow_pickle=False)
    else:
        features, name_column, names = _read_table(path, name_column, noise_column)
        stds = None if noise_column is None else features.numbers(noise_column)
    build = FiniteArms.on_span if on_span else FiniteArms
    try:
        return ArmFile(build(features, names=names, intercept=intercept), str(path), name_column, stds)
    except ArmsDoNotSpan as error:
        what = str(error).partition(";")[0]
        raise ArmsDoNotSpan(f"{path}: {what}; drop redundant features, or do it with --on-span.") from error


def read_history(path: Path, arms: ArmFile | ChosenSet) -> list[tuple[Any, float]]:
    """Read earlier measurements: columns `arm` and `reward`, one line each. No reward: the measurement failed."""
    table = _read_csv(path)
    cells = {title.lower(): cells for title, cells in table.cells.items()}
    if "arm" not in cells or "reward" not in cells:
        raise InvalidInput(f"{path} must have the columns arm and reward, got {', '.join(table.cells)}.")
    history = []
    for row, (label, reward) in enumerate(zip(cells["arm"], cells["reward"], strict=True)):
        if not reward:
            continue
        value = parse_number(reward)
        if value is None:
            raise table.refusal(row, f"the reward must be a number, got {reward!r}.")
        try:
            history.append((arms.index(label), value))
        except InvalidInput as error:
            raise table.refusal(row, str(error)) from error
    return history


def parse_number(text: str) -> float | None:
    """A finite number, or None."""
    numbers = _numbers([text])
    return float(numbers[0]) if numbers is not None and np.isfinite(numbers[0]) else None


def _read_csv(path: Path) -> _Table:
    """Read a CSV file; blank lines and comment lines (#) above the header are skipped."""
    with refusing("cannot read", path), path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        rows = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader]
    rows = [(line, cells) for line, cells in rows if any(cells)]
    while rows and rows[0][1][0].startswith("#"):
        rows.pop(0)
    if len(rows) < 2:
        raise InvalidInput(f"{path} must have a header line and at least one line below it, got {len(rows)} lines.")
    header = rows.pop(0)[1]
    for mark, spoken in ((";", "';'"), ("\t", "tabs")):
        if len(header) == 1 and mark in header[0]:
            raise InvalidInput(
                f"{path} must have commas between its columns, and looks as if it had {spoken}; save it again."
            )
    if len(set(header)) < len(header) or "" in header:
        raise InvalidInput(
            f"{path} needs a header line with a different name for every column, got {', '.join(header)!r}."
        )
    if any(parse_number(title) is not None for title in header):
        raise InvalidInput(f"{path} has numbers in its header line; put the names of the columns there.")
    for line, cells in rows:
        if len(cells) != len(header):
            raise InvalidInput(f"{path} line {line}: {len(header)} cells are needed, got {len(cells)}.")
    columns = {title: [cells[place] for _, cells in rows] for place, title in enumerate(header)}
    return _Table(path, columns, [line for line, _ in rows])


def _read_table(
    path: Path, name_column: str | None, noise_column: str | None
) -> tuple[_Table, str | None, list[str] | None]:
    """The features of a CSV file, which column has the names, and these."""
    table = _read_csv(path)
    for row in range(len(table)):
        for title, cells in table.cells.items():
            if not cells[row]:
                raise table.refusal(row, f"column {title!r} has no value; fill it or drop the line.")
    name_column = _name_column(table, name_column)
    if noise_column is not None:
        _check_column(path, noise_column, table.cells)
    features = [title for title in table.cells if title not in (name_column, noise_column)]
    if not features:
        raise InvalidInput(
            f"{path} has no feature columns; add one column of numbers or text for each property of an arm."
        )
    names = None if name_column is None else table.cells[name_column]
    first: dict[str, int] = {}
    for row, name in enumerate(names or []):
        if first.setdefault(name, row) != row:
            line = table.lines[first[name]]
            raise table.refusal(row, f"the name {name!r} is that of line {line} too; change one.")
    return replace(table, columns=features), name_column, names


def _name_column(table: _Table, wanted: str | None) -> str | None:
    if wanted is not None:
        _check_column(table.path, wanted, table.cells)
    headed = [title for title in table.cells if title.lower() in NAME_HEADERS]
    unlike = [
        title
        for title, cells in table.cells.items()
        if _numbers(cells) is None and len(set(cells)) == len(cells) and not _is_mostly_numbers(cells)
    ]
    return wanted or next(iter([*headed, *unlike]), None)


def _check_column(path: Path, wanted: str, titles: Iterable[str]) -> None:
    if wanted not in titles:
        raise InvalidInput(f"{path} has no column {wanted!r}; its columns are {', '.join(titles)}.")


def _numbers(cells: Sequence[str]) -> Any:
    """The cells as an array of numbers, or None if one of them is no number."""
    try:
        return np.array([float(cell) for cell in cells])
    except ValueError:
        return None


def _is_mostly_numbers(cells: Sequence[str]) -> bool:
    """Whether more than half of the cells are numbers, be it with a decimal comma."""
    return 2 * sum(_numbers([cell.replace(",", ".", 1)]) is not None for cell in cells) > len(cells)
