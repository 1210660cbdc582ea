"""Columns of a table: numbers or categories, errors that name the cell, and the roles of columns."""

import datetime as dt
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np

from surepick._texts import shown
from surepick.arms.base import same_features
from surepick.arms.finite import is_missing, level_columns
from surepick.arms.tables.sources import (
    Table,
    has_decimal_comma,
    is_date,
    is_grouped,
    is_like_a_number,
    plain_numbers,
)
from surepick.core.checks import LARGEST, is_number
from surepick.errors import InvalidInput
from surepick.types import Array

# Last words in headers of row numbers: sample_id, Run No., "Nr".
_NUMBERING = {"id", "no", "nr", "num", "number", "index", "idx", "code", "key", "uuid"}
# From this number of rows on, a column that differs in every row names the rows and is not a property.
TELLS_APART = 3


@final
@dataclass(frozen=True, slots=True)
class Column:
    """A column as numbers, or as texts that are levels of a category."""

    title: str
    numbers: Array | None = None
    texts: tuple[str, ...] = ()
    has_commas: bool = False
    """Whether the column has decimal commas."""
    are_dates: bool = False

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels of a category; the first is the reference."""
        return tuple(np.unique(np.array(self.texts)).tolist()) if self.numbers is None else ()

    @property
    def is_constant(self) -> bool:
        """Whether the column has the same value in all rows."""
        return len(self.levels) == 1 if self.numbers is None else bool((self.numbers == self.numbers[0]).all())

    def encoded(self) -> list[tuple[str, Array]]:
        """Return name and values of each feature of the column."""
        return level_columns(self.title, self.texts) if self.numbers is None else [(self.title, self.numbers)]

    def attention(self) -> list[str]:
        """Return warnings about the column, for the user."""
        said = []
        if self.are_dates:
            said.append(
                f"{self.title} holds dates, such as {self.texts[0]}, taken as a category and not as a time; for a "
                "trend write a number of days, or drop the column."
            )
        folded = defaultdict(list)
        for level in self.levels:
            folded[level.casefold()].append(level)
        for spellings in folded.values():
            if len(spellings) > 1:
                listed = " and ".join(map(repr, spellings))
                said.append(f"{self.title} has the levels {listed}, which differ in case alone; is one meant?")
        return said


def read_column(table: Table, title: str) -> Column:
    """Read a column that becomes a feature, or the noise."""
    cells = table.cells[title]
    if isinstance(cells, np.ndarray):
        return Column(title, _checked(table, title, cells.astype(np.float64), cells))
    check_filled(table, title)
    if title in table.categories:
        return Column(title, texts=tuple(map(text_of, cells)))
    if all(is_number(cell) for cell in cells):
        return Column(title, _checked(table, title, np.array([float(cell) for cell in cells]), cells))
    texts = tuple(map(text_of, cells))
    if table.is_typed:
        typed = _typed_numbers(table, title, texts, cells)
        if typed is not None:
            return Column(title, _checked(table, title, typed, texts), has_commas=any("," in text for text in texts))
    else:
        _check_one_kind(table, title, cells)
    return Column(title, texts=texts, are_dates=all(map(is_date, texts)))


def check_filled(table: Table, title: str) -> None:
    """Refuse a column with a missing cell."""
    for row, cell in enumerate(table.cells[title]):
        if is_missing(cell) or cell == "":
            raise _missing(table, title, row)


def _missing(table: Table, title: str, row: int) -> InvalidInput:
    return table.refusal(row, f"column {title!r} has no value; fill it, or leave out the row or the column (--drop).")


def check_describes(table: Table, column: Column, *, is_asked_for: bool) -> None:
    """Refuse a column that only numbers or names the rows; `is_asked_for`: the user listed it as a feature."""
    if table.n_rows < TELLS_APART:
        return
    advice = (
        f"use --name-column {column.title!r} (`name_column`) if it names the arms, or --drop {column.title!r} (`drop`)"
    )
    if column.numbers is None and len(column.levels) == table.n_rows:
        what = "holds dates that differ" if column.are_dates else "is text that differs"
        raise InvalidInput(
            f"{table.title}: column {column.title!r} {what} in every row, so it describes no arm; {advice}."
        )
    words = re.findall(r"[a-z#]+", column.title.lower())
    if column.numbers is None or is_asked_for or not words or words[-1] not in {*_NUMBERING, "#"}:
        return
    if (column.numbers == np.round(column.numbers)).all() and len(np.unique(column.numbers)) == table.n_rows:
        raise InvalidInput(
            f"{table.title}: column {column.title!r} holds whole numbers that differ in every row and is headed like a "
            f"numbering, so it seems to describe no arm; {advice}, or list it among --features (`features`)."
        )


def check_points(table: Table, columns: Sequence[Column]) -> None:
    """Refuse 1.500 in a file with decimal commas elsewhere: it could mean 1500 or 1.5."""
    with_commas = [column.title for column in columns if column.has_commas]
    for column in columns if with_commas else ():
        if column.numbers is None or column.has_commas:
            continue
        for row, cell in enumerate(table.cells[column.title]):
            if isinstance(cell, str) and is_grouped(cell):
                raise table.refusal(
                    row,
                    f"column {column.title!r} has {cell!r}, which could be {cell.replace('.', '')} or {float(cell):g} "
                    f"beside the decimal commas of column {with_commas[0]!r}; write all numbers alike.",
                )


def seems_a_name(table: Table, title: str) -> bool:
    """Return whether a column is text without repetition, and neither dates nor numbers."""
    cells = table.cells[title]
    if isinstance(cells, np.ndarray) or title in table.categories:
        return False
    texts = [cell for cell in cells if isinstance(cell, str) and cell]
    if len(texts) < len(cells) or len(set(texts)) < len(cells):
        return False
    return not all(map(is_date, texts)) and not (table.is_typed and _is_mostly_numbers(texts))


def _typed_numbers(table: Table, title: str, texts: Sequence[str], cells: Sequence[Any]) -> Array | None:
    """Return numbers that were typed as text, also with decimal commas, or mixed with number cells in Excel."""
    numbers = plain_numbers(texts)
    if numbers is not None:
        return numbers
    with_comma = [text for text in texts if has_decimal_comma(text)]
    if with_comma and plain_numbers([text.replace(",", ".") for text in texts]) is not None:
        for row, cell in enumerate(cells):
            if isinstance(cell, str) and "." in cell:
                raise table.refusal(
                    row, f"column {title!r} has decimal points and decimal commas, here {cell!r}; write one of them."
                )
        if table.takes_grouped or not all(map(is_grouped, with_comma)):
            return plain_numbers([text.replace(",", ".") for text in texts])
    if _is_mostly_numbers(texts) and not all(map(is_date, texts)):
        row = next(row for row, text in enumerate(texts) if plain_numbers([text]) is None)
        raise table.refusal(
            row,
            f"column {title!r} is mostly numbers, got {texts[row]!r}; write a number with a decimal point there; if it "
            f"is a category, spell its levels as words; if it names the arms, say --name-column {title!r}.",
        )
    return None


def _is_mostly_numbers(texts: Sequence[str]) -> bool:
    return 2 * sum(map(is_like_a_number, texts)) > len(texts)


def _checked(table: Table, title: str, numbers: Array, cells: Any) -> Array:
    """Return a copy of the numbers without -0.0; refuse numbers that are not finite or too large to square."""
    for row in np.flatnonzero(np.isnan(numbers)).tolist()[:1]:
        if not table.is_typed:
            raise _missing(table, title, row)
    for row in np.flatnonzero(~np.isfinite(numbers)).tolist()[:1]:
        raise table.refusal(row, f"column {title!r} must be a finite number, got {cells[row]!r}; replace it.")
    for row in np.flatnonzero(np.abs(numbers) > LARGEST).tolist()[:1]:
        raise table.refusal(
            row,
            f"column {title!r} must be at most {LARGEST:g} in size, got {cells[row]}; replace it, or use other units.",
        )
    return np.add(numbers, 0.0)


def _check_one_kind(table: Table, title: str, cells: Sequence[Any]) -> None:
    for row, cell in enumerate(cells):
        if not isinstance(cell, str | bytes | dt.date):
            raise table.refusal(
                row, f"column {title!r} must hold numbers alone or text alone, got {cell!r} among others; convert it."
            )


def text_of(cell: Any) -> str:
    """Return a cell as text: a whole number without a point, a day without a time."""
    if isinstance(cell, dt.datetime) and cell.time() == dt.time():
        cell = cell.date()
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return cell.isoformat() if isinstance(cell, dt.date) else str(cell)


Recipe = tuple[tuple[str, list[Any]], ...]
"""Columns of a table as it stands: the title of each, and its cells as JSON has them."""


def recipe_of(table: Table, columns: Sequence[Column] = (), *, without: str | None = None) -> Recipe:
    """Return all columns of a table but one, those that were read as numbers as numbers; () if they have no titles."""
    if not table.has_titles:
        return ()
    numbers = {column.title: column.numbers for column in columns if column.numbers is not None}
    cells = {**table.cells, **numbers}
    return tuple((title, [*map(_as_json, cells[title])]) for title in table.cells if title != without)


def _as_json(cell: Any) -> Any:
    cell = cell.item() if isinstance(cell, np.generic) else cell
    if is_missing(cell) or cell == "" or (isinstance(cell, float) and not math.isfinite(cell)):
        return None
    return cell if isinstance(cell, bool | int | float) else text_of(cell)


WIDTH = 12


class Levels(NamedTuple):
    """Levels of a category."""

    reference: str | None
    """The level to which the others are compared; None if every level has a feature."""
    others: tuple[str, ...]
    """Levels with a feature of their own."""

    def __str__(self) -> str:
        reference = [] if self.reference is None else [f"{self.reference} (reference)"]
        return ", ".join([*reference, *self.others])


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The role of every column of a table of arms; `str()` lists all roles."""

    source: str
    """The file, or "the data frame"."""
    notes: tuple[str, ...] = ()
    """Recognised properties of the file: semicolons, decimal commas, Latin-1, a byte order mark, the sheet."""
    n_arms: int
    feature_names: tuple[str, ...]
    """Names of all features of the arms."""
    constant: str
    """Whether there is a constant, and why."""
    formula: str | None = None
    numbers: tuple[str, ...] = ()
    """Columns used as numbers."""
    categories: Mapping[str, Levels] = field(default_factory=dict)
    """Columns that became 0/1 features."""
    products: tuple[str, ...] = ()
    squares: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Redundant products, squares and other features, each with the reason."""
    names: str
    """The source of the arms' names."""
    noise: str | None = None
    """The column with the noise of each arm."""
    cost: str | None = None
    """The column with the cost of a pull of each arm."""
    dropped: tuple[str, ...] = ()
    """Unused columns, each with the reason."""
    attention: tuple[str, ...] = ()
    """Warnings: levels that differ in case alone, dates."""
    alike: tuple[tuple[str, ...], ...] = ()
    """Names of arms with the same features."""

    def __str__(self) -> str:
        noted = f" ({', '.join(self.notes)})" if self.notes else ""
        dim = len(self.feature_names)
        head = f"{self.n_arms} arms, {dim} feature{'' if dim == 1 else 's'}, from {self.source}{noted}"
        rows: list[tuple[str, Sequence[str]]] = [
            ("formula", [self.formula] if self.formula else []),
            ("constant", [self.constant]),
            ("numbers", [", ".join(self.numbers)] if self.numbers else []),
            ("categories", [f"{title}: {levels}" for title, levels in self.categories.items()]),
            ("products", [", ".join(self.products)] if self.products else []),
            ("squares", [", ".join(self.squares)] if self.squares else []),
            ("left out", self.left_out),
            ("features", [", ".join(self.feature_names)] if self.formula else []),
            ("names", [self.names]),
            ("noise", [self.noise] if self.noise else []),
            ("cost", [self.cost] if self.cost else []),
            ("dropped", self.dropped),
            ("attention", self.attention),
            ("alike", [f"{same_features(group)}." for group in self.alike]),
        ]
        lines = [
            f"  {word if place == 0 else '':{WIDTH}}{shown(text)}"
            for word, texts in rows
            for place, text in enumerate(texts)
        ]
        return "\n".join([shown(head), *lines])
