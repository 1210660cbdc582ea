"""Columns of a table: numbers or categories, what a column is taken for, and errors that name the cells."""

import datetime as dt
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np

from surepick._texts import shown
from surepick.arms.base import same_features
from surepick.arms.tables.sources import (
    Problems,
    Table,
    has_decimal_comma,
    is_date,
    is_grouped,
    is_like_a_number,
    plain_numbers,
)
from surepick.core.checks import LARGEST, is_number
from surepick.errors import InvalidInput, listed
from surepick.types import Array

# From this number of rows on, a column that differs in every row names the rows and is not a property; from NEARLY rows
# on, a column of text does so too in which more than two thirds of the rows are different.
TELLS_APART, NEARLY = 3, 5
# Words in headers. German ones may end a longer word, as in Materialkosten.
_NUMBERING = {"id", "no", "nr", "num", "number", "index", "idx", "code", "key", "uuid", "nummer", "#"}
_HEADERS: Mapping[str, tuple[frozenset[str], tuple[str, ...]]] = {
    "price": (frozenset({"price", "prices", "cost", "costs"}), ("preis", "preise", "kosten")),
    "date": (frozenset({"date", "dates", "timestamp", "datetime"}), ("datum", "zeitstempel", "uhrzeit")),
    "remark": (
        frozenset({"remark", "remarks", "note", "notes", "comment", "comments"}),
        ("bemerkung", "bemerkungen", "notiz", "notizen", "kommentar", "kommentare", "anmerkung", "anmerkungen"),
    ),
}
# Words of headers of results, the German ones at the end of longer words.
_RESULTS = {
    *(
        "hardness",
        "yield",
        "yields",
        "result",
        "results",
        "value",
        "score",
        "scores",
        "reward",
        "measured",
        "measurement",
    ),
    *("response", "output", "strength", "accuracy"),
}
_RESULTS_GERMAN = ("ausbeute", "ergebnis", "härte", "haerte", "messwert", "festigkeit")
_PRICE = re.compile(r"(?:[€$£]|EUR|USD|CHF|GBP)\s*[\d.,]+|[\d.,]+\s*(?:[€$£]|EUR|USD|CHF|GBP)")
_WITH_UNIT = re.compile(r"[+-]?\d+(?:[.,]\d+)?\s*([^\s\d.,:;/+-]\S*)")
# A remark without such a header has on average this many words. As many cells of a column are looked at.
WORDY, LOOKED_AT = 3, 1_000
# A number this many times all others may have a shifted decimal point.
FAR = 5.0
MOST_SUMMED = 50_000_000
"""Numbers that a search for mixtures adds up at most."""


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
        """Return name and values of each feature: the numbers, or 0/1 for every level but the first in sorted order."""
        if self.numbers is not None:
            return [(self.title, self.numbers)]
        cells = np.array(self.texts)
        return [(f"{self.title}={level}", (cells == level).astype(np.float64)) for level in self.levels[1:]]

    def attention(self) -> list[str]:
        """Return warnings about the column, for the user."""
        said = []
        if self.numbers is not None and _is_result(self.title):
            said.append(
                f"{quoted(self.title)} reads like a result, and is used as a feature; if it holds earlier results, "
                f'leave it out with drop="{self.title}", and import the results once the study is there.'
            )
        if self.are_dates:
            said.append(
                f"{self.title} holds dates, such as {self.texts[0]}, taken as a category and not as a time; for a "
                "trend write a number of days, or drop the column."
            )
        units = {found[1] if (found := _WITH_UNIT.fullmatch(level)) else None for level in self.levels}
        if len(units) == 1 and None not in units:
            said.append(
                f"{self.title} has numbers with a unit, such as {self.levels[0]!r}, taken as a category; for a trend "
                f"write the numbers without {units.pop()!r}."
            )
        folded = defaultdict(list)
        for level in self.levels:
            folded[level.casefold()].append(level)
        for spellings in folded.values():
            if len(spellings) > 1:
                both = " and ".join(map(repr, spellings))
                said.append(f"{self.title} has the levels {both}, which differ in case alone; is one meant?")
        return said


def read_column(table: Table, title: str, problems: Problems | None = None) -> Column:
    """Read a column that becomes a feature, or the noise.

    Errors are raised, or added to `problems`; then the column is not to be used.
    """
    found = Problems(table) if problems is None else problems
    column = _read(table, title, found)
    if problems is None:
        found.check()
    return column


def _read(table: Table, title: str, problems: Problems) -> Column:
    cells = table.cells[title]
    if isinstance(cells, np.ndarray):
        return Column(title, _checked(table, title, range(len(cells)), cells.astype(np.float64), problems))
    filled = filled_cells(table, title, problems)
    rows = list(filled)
    if title not in table.categories:
        if all(map(is_number, filled.values())):
            numbers = np.array([_float(cell) for cell in filled.values()])
            return Column(title, _checked(table, title, rows, numbers, problems))
        if table.is_typed:
            typed = _typed_numbers(table, title, filled, problems)
            if typed is not None:
                has_commas = any(isinstance(cell, str) and "," in cell for cell in filled.values())
                return Column(title, _checked(table, title, rows, typed, problems), has_commas=has_commas)
        else:
            _check_one_kind(title, filled, problems)
    texts = tuple(map(text_of, filled.values()))
    return Column(title, texts=texts, are_dates=len(texts) > 0 and all(map(is_date, texts)))


def _float(cell: Any) -> float:
    try:
        return float(cell)
    except OverflowError:  # a whole number that no double can hold
        return np.inf


def filled_cells(table: Table, title: str, problems: Problems) -> dict[int, Any]:
    """Return the cells of a column by row; missing ones are problems."""
    filled = {row: cell for row, cell in enumerate(table.cells[title]) if not is_missing(cell)}
    for row in sorted(set(range(table.n_rows)) - filled.keys()):
        _miss(title, row, problems)
    return filled


def _miss(title: str, row: int, problems: Problems) -> None:
    advice = "; fill it, or leave out the row or the column (`drop`)."
    problems.add(row, f"column {title!r} has no value", advice)


def is_missing(value: Any) -> bool:
    """Return whether a cell stands for no value."""
    try:
        return value is None or bool(value != value) or (isinstance(value, str) and not value)  # noqa: PLR0124 (NaN)
    except TypeError:  # pandas.NA answers neither yes nor no
        return True
    except ValueError:  # an array inside a column: wrong, but not missing
        return False


def purpose_of(table: Table, title: str) -> str | None:
    """Return what a column is for if it describes no arm, by header and cells: price, date, remark or numbering.

    A header alone says little: a price has figures, a remark is text, and a time in minutes is a property.
    """
    headed, cells = _header(title), table.cells[title]
    if isinstance(cells, np.ndarray):
        return headed if headed in ("price", "date") else "numbering" if is_numbering(table, title) else None
    filled = [cell for cell in cells if not is_missing(cell)]
    texts = [text_of(cell) for cell in filled[:LOOKED_AT]]
    if not texts or title in table.categories:
        return None
    if headed == "date" or 2 * sum(map(is_date, texts)) > len(texts):
        return "date"
    has_numbers = _is_mostly_numbers(texts)
    n_prices = sum(_PRICE.fullmatch(text) is not None for text in texts)
    if 2 * n_prices > len(texts) or (headed == "price" and has_numbers):
        return "price"
    if has_numbers:
        return "numbering" if is_numbering(table, title) else None
    is_wordy = len(" ".join(texts).split()) >= WORDY * len(texts) and is_nearly_unique(filled, table.n_rows)
    return "remark" if headed == "remark" or is_wordy else None


def _header(title: str) -> str | None:
    words = re.findall(r"[^\W\d_]+", title.lower())
    for purpose, (english, german) in _HEADERS.items():
        if any(word in english or word.endswith(german) for word in words):
            return purpose
    return None


def _is_result(title: str) -> bool:
    """Return whether a column is headed like a result of measurements."""
    words = re.findall(r"[^\W\d_]+", title.lower())
    return any(word in _RESULTS or word.endswith(_RESULTS_GERMAN) for word in words)


def mixture_slips(table: Table, columns: Sequence[Column]) -> str:
    """Return a warning about rows whose parts do not add up to 1 or 100, if those of nearly all others do.

    The parts are neighbouring columns of numbers; the longest run of such columns is named.
    """
    parts = [column for column in columns if column.numbers is not None]
    n_rows, n_parts = table.n_rows, len(parts)
    if n_rows < NEARLY or n_parts < 2 or n_rows * n_parts**2 > MOST_SUMMED:
        return ""
    sums = np.column_stack([np.zeros(n_rows), *np.cumsum([column.numbers for column in parts], axis=0)])
    for n in range(n_parts, 1, -1):
        for first in range(n_parts - n + 1):
            total = sums[:, first + n] - sums[:, first]
            for whole in (100.0, 1.0):
                odd = np.flatnonzero(np.abs(total - whole) > 1e-6 * whole).tolist()
                if 0 < len(odd) <= n_rows // NEARLY:
                    names = listed([quoted(column.title) for column in parts[first : first + n]])
                    found = listed([f"{total[row]:.6g} in {table.place(row)}" for row in odd[:MOST_GROUPS]])
                    more = f" and in {len(odd) - MOST_GROUPS} more" if len(odd) > MOST_GROUPS else ""
                    n_even = n_rows - len(odd)
                    return f"{names} add up to {whole:g} in {n_even} of {n_rows} rows, but to {found}{more}; a slip?"
    return ""


def shifted_points(table: Table, columns: Sequence[Column]) -> list[str]:
    """Return a warning for every column with one number far above all others that a shifted decimal point explains.

    Such a row would be measured most of all. The two largest of the others are close to each other, as they are not in
    doses such as 1, 10, 100, 1000.
    """
    said = []
    for column in columns:
        if column.numbers is None or table.n_rows < NEARLY or not (column.numbers > 0.0).all():
            continue
        *others, top = np.unique(column.numbers).tolist()
        rows = np.flatnonzero(column.numbers == top)
        if len(others) < 2 or len(rows) > 1 or top < FAR * others[-1] or others[-1] >= FAR * others[-2]:
            continue
        for meant in (top / 10.0, top / 100.0, top / 1000.0):
            if 0.5 * others[0] <= meant <= 2.0 * others[-1]:
                said.append(
                    f"{quoted(column.title)} is {top:.12g} in {table.place(int(rows[0]))}, and {others[0]:.12g} to "
                    f"{others[-1]:.12g} in all other rows; a slip for {meant:.12g}?"
                )
                break
    return said


def is_numbering(table: Table, title: str) -> bool:
    """Return whether a column is headed like a numbering, and has whole numbers that differ in nearly every row."""
    words = re.findall(r"[a-z#]+", title.lower())
    if not words or words[-1] not in _NUMBERING or table.n_rows < TELLS_APART:
        return False
    texts = [text_of(cell) for cell in table.cells[title] if not is_missing(cell)]
    return all(re.fullmatch(r"[+-]?\d+", text) for text in texts) and is_nearly_unique(texts, table.n_rows)


def is_nearly_unique(cells: Sequence[Any], n_rows: int) -> bool:
    """Return whether cells tell apart all rows, or more than two thirds of several."""
    n_different = len(set(map(str, cells)))
    return n_different == n_rows or (n_rows >= NEARLY and 3 * n_different > 2 * n_rows)


def check_describes(table: Table, column: Column, *, is_asked_for: bool) -> None:
    """Refuse a column of text that only names the rows; with few repetitions, unless the user asked for it."""
    n_levels = len(column.levels)
    if is_asked_for and n_levels < table.n_rows:
        return
    if column.numbers is not None or table.n_rows < TELLS_APART or not is_nearly_unique(column.texts, table.n_rows):
        return
    what = "holds dates that differ" if column.are_dates else "is text that differs"
    where = "in every row" if n_levels == table.n_rows else f"in nearly every row ({n_levels} of {table.n_rows})"
    raise InvalidInput(
        f"{table.title}: column {column.title!r} {what} {where}, so it describes no arm; use "
        f'name_column="{column.title}" if it names the arms, or drop="{column.title}". Numbers must stand without '
        "their unit."
    )


def check_points(table: Table, columns: Sequence[Column], problems: Problems) -> None:
    """Refuse 1.500 in a file with decimal commas elsewhere: it could mean 1500 or 1.5."""
    with_commas = [column.title for column in columns if column.has_commas]
    for column in columns if with_commas else ():
        if column.numbers is None or column.has_commas:
            continue
        for row, cell in enumerate(table.cells[column.title]):
            if isinstance(cell, str) and is_grouped(cell):
                what = f"column {column.title!r} has {cell!r}, which could be {cell.replace('.', '')} or"
                advice = f" beside the decimal commas of column {with_commas[0]!r}; write all numbers alike."
                problems.add(row, what, advice, f"{float(cell):g}")


def seems_a_name(table: Table, title: str) -> bool:
    """Return whether a column is text with few repetitions or none, and neither dates nor numbers."""
    cells = table.cells[title]
    if isinstance(cells, np.ndarray) or title in table.categories:
        return False
    texts = [cell for cell in cells if isinstance(cell, str) and cell]
    if len(texts) < len(cells) or not is_nearly_unique(texts, table.n_rows):
        return False
    return not all(map(is_date, texts)) and not (table.is_typed and _is_mostly_numbers(texts))


def _typed_numbers(table: Table, title: str, filled: Mapping[int, Any], problems: Problems) -> Array | None:
    """Return numbers that were typed as text, also with decimal commas, or mixed with number cells in Excel."""
    texts = [text_of(cell) for cell in filled.values()]
    with_comma = [text for text in texts if has_decimal_comma(text)]
    if table.takes_grouped or not all(map(is_grouped, with_comma)):
        pointed = [text.replace(",", ".") if has_decimal_comma(text) else text for text in texts]
    else:
        pointed = texts
    numbers = plain_numbers(pointed)
    if numbers is None:
        if not _is_mostly_numbers(texts) or all(map(is_date, texts)):
            return None
        mark = "comma" if _writes_commas(table) else "point"
        advice = (
            f"; write a number with a decimal {mark} there, without a unit, or leave out the row; if it is a category, "
            f'spell its levels as words; if it names the arms, say name_column="{title}".'
        )
        found = [plain_numbers([cell]) for cell in pointed]
        for row, text, number in zip(filled, texts, found, strict=True):
            if number is None:
                problems.add(row, f"column {title!r} is mostly numbers, got", advice, repr(text))
        return np.concatenate([np.zeros(1) if number is None else number for number in found])
    with_point = [cell for cell in filled.values() if isinstance(cell, str) and "." in cell]
    if with_comma and with_point:  # the rarer spelling is the one to change
        rare = "." if len(with_point) <= len(with_comma) else ","
        what = f"column {title!r} has decimal points and decimal commas, here"
        for row, cell in filled.items():
            if isinstance(cell, str) and rare in cell:
                problems.add(row, what, "; write one of them.", repr(cell))
    return numbers


def _writes_commas(table: Table) -> bool:
    """Return whether a number of a table has a decimal comma."""
    return any(
        isinstance(cell, str) and has_decimal_comma(cell) and (table.takes_grouped or not is_grouped(cell))
        for cells in table.cells.values()
        if not isinstance(cells, np.ndarray)
        for cell in cells
    )


def with_points(table: Table, cells: list[Any]) -> list[Any]:
    """Return the cells of a column that is only shown; if it has decimal commas and numbers alone, as numbers.

    Other cells stay as they are in the table: a text such as 007 may be a code.
    """
    texts = [cell for cell in cells if isinstance(cell, str)]
    with_comma = [text for text in texts if has_decimal_comma(text)]
    if not with_comma or (all(map(is_grouped, with_comma)) and not table.takes_grouped):
        return cells
    numbers = plain_numbers([text.replace(",", ".") if has_decimal_comma(text) else text for text in texts])
    if numbers is None or not np.isfinite(numbers).all():
        return cells
    found = iter(numbers.tolist())
    return [next(found) if isinstance(cell, str) else cell for cell in cells]


def _is_mostly_numbers(texts: Sequence[str]) -> bool:
    return 2 * sum(map(is_like_a_number, texts)) > len(texts)


def _checked(table: Table, title: str, rows: Sequence[int], values: Array, problems: Problems) -> Array:
    """Return the numbers without -0.0; numbers that are not finite or too large to square are problems."""
    for place in np.flatnonzero(~(np.abs(values) <= LARGEST)).tolist():
        row, value = rows[place], float(values[place])
        if np.isnan(value) and not table.is_typed:
            _miss(title, row, problems)
        elif not np.isfinite(value):
            got = repr(cell) if isinstance(cell := table.cells[title][row], str) else str(cell)
            problems.add(row, f"column {title!r} must be a finite number, got", "; replace it.", got)
        else:
            what = f"column {title!r} must be at most {LARGEST:g} in size, got"
            problems.add(row, what, "; replace it, or use other units.", table.cells[title][row])
    return np.add(values, 0.0)


def _check_one_kind(title: str, cells: Mapping[int, Any], problems: Problems) -> None:
    for row, cell in cells.items():
        if not isinstance(cell, str | bytes | dt.date):
            what = f"column {title!r} must hold numbers alone or text alone, got"
            problems.add(row, what, " among others; convert it.", repr(cell))


def text_of(cell: Any) -> str:
    """Return a cell as text: a whole number without a point, a day without a time."""
    if isinstance(cell, dt.datetime) and cell.time() == dt.time():
        cell = cell.date()
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return cell.isoformat() if isinstance(cell, dt.date) else str(cell)


def quoted(title: str) -> str:
    """Return the title of a column in a list; in quotation marks if it has a comma."""
    return repr(title) if "," in title else title


def repeated(names: Mapping[int, str], table: Table) -> str:
    """Return the names of rows that occur more than once, with their places; "" if there are none."""
    rows = defaultdict(list)
    for row, name in names.items():
        rows[name].append(row)
    said = [f"{name!r} is in {table.places(found)}" for name, found in rows.items() if len(found) > 1]
    return listed(said) if said else ""


WIDTH = 12
MOST_GROUPS = 6
"""Of arms with the same features, that are listed."""


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
    not_used: str = ""
    """A sentence on the columns that surepick left out by itself, for a warning; `dropped` lists them too."""
    attention: tuple[str, ...] = ()
    """Warnings: levels that differ in case alone, dates."""
    alike: tuple[tuple[str, ...], ...] = ()
    """Names of arms with the same features."""

    @property
    def head(self) -> str:
        """What was read, in a line."""
        noted = f" ({', '.join(self.notes)})" if self.notes else ""
        dim = len(self.feature_names)
        return shown(f"{self.n_arms} arms, {dim} feature{'' if dim == 1 else 's'}, from {self.source}{noted}")

    @property
    def entries(self) -> list[tuple[str, list[str]]]:
        """Each role, or warning, with what has it."""
        more = len(self.alike) - MOST_GROUPS
        alike = [f"{same_features(group)}." for group in self.alike[:MOST_GROUPS]]
        rows: list[tuple[str, Sequence[str]]] = [
            ("formula", [self.formula] if self.formula else []),
            ("constant", [self.constant]),
            ("numbers", [", ".join(map(quoted, self.numbers))] if self.numbers else []),
            ("categories", [f"{quoted(title)}: {levels}" for title, levels in self.categories.items()]),
            ("products", [", ".join(map(quoted, self.products))] if self.products else []),
            ("squares", [", ".join(map(quoted, self.squares))] if self.squares else []),
            ("left out", self.left_out),
            ("features", [", ".join(map(quoted, self.feature_names))] if self.formula else []),
            ("names", [self.names]),
            ("noise", [self.noise] if self.noise else []),
            ("cost", [self.cost] if self.cost else []),
            ("dropped", self.dropped),
            ("attention", self.attention),
            ("alike", [*alike, f"and {more} more such groups."] if more > 0 else alike),
        ]
        return [(word, [shown(text) for text in texts]) for word, texts in rows if texts]

    def __str__(self) -> str:
        lines = [
            f"  {word if place == 0 else '':{WIDTH}}{text}"
            for word, texts in self.entries
            for place, text in enumerate(texts)
        ]
        return "\n".join([self.head, *lines])
