"""Arms that join others: a second table is read by the rules of the first.

A category has the levels of the first table, a column of numbers its decimal marks, and a formula is evaluated as it
was fitted to the first table. An unknown level is refused: as a row of zeros it would silently be the reference.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from surepick.arms.finite import FeatureTable
from surepick.arms.tables.columns import (
    Column,
    Roles,
    filled_cells,
    is_missing,
    read_column,
    repeated,
    text_of,
    with_points,
)
from surepick.arms.tables.sources import Problems, Table, open_table
from surepick.arms.tables.terms import formula_terms, terms_of
from surepick.core.checks import is_number
from surepick.errors import InvalidInput, TableWarning, listed, nearest, what_was_meant
from surepick.types import Array

NAME_HEADERS = ("name", "arm", "id")
"""Headers of the column with the arms' names."""
SLIP = 0.7
"""Likeness from which an unknown level looks like a slip of a known one."""

Written = Mapping[str, Any]


def written_table(
    table: Table, columns: Sequence[Column], name_column: str | None, features: Sequence[str], formula: str | None
) -> dict[str, Any] | None:
    """Return the original columns as JSON has them; None if all of them are features under their own names."""
    read = {column.title: column for column in columns}
    others = [title for title in table.cells if title != name_column]
    if formula is None and all(title in read and title in features for title in others):
        return None
    return {
        "columns": [_written(table, title, read.get(title)) for title in others],
        "formula": formula,
        "names": name_column,
    }


def _written(table: Table, title: str, column: Column | None) -> dict[str, Any]:
    if column is None:
        return {"title": title, "role": "unused", "cells": with_points(table, [*map(_plain, table.cells[title])])}
    if column.numbers is None:
        return {"title": title, "role": "category", "cells": list(column.texts)}
    commas = {"decimal_commas": True} if column.has_commas else {}
    return {"title": title, "role": "number", "cells": column.numbers.tolist(), **commas}


def _plain(cell: Any) -> Any:
    """Return a cell as JSON has it: a number, a text, or None."""
    if is_missing(cell):
        return None
    return float(cell) if is_number(cell) and np.isfinite(float(cell)) else text_of(cell)


def read_joining(
    source: Any,
    written: Written,
    *,
    name_column: str | None = None,
    sheet: str | None = None,
    title: str = "the data frame",
) -> Any:
    """Read arms with the features of other arms.

    Args:
        source: a file or a data frame, as for `read_arms`; its index names the arms, if it has one.
        written: the other arms as the log has them: `features`, `names`, and `table` if they were read from one.
        name_column: the column with the names of the new arms.
        sheet: the sheet of an Excel file.
        title: what a data frame is called in errors.

    Returns:
        `TableArms`, which need not span; their `table` has the columns of the other arms.

    Raises:
        InvalidInput: a column is missing, a cell is no number, or a level of a category is unknown.
    """
    from surepick.arms.tables.read import TableArms  # noqa: PLC0415 (it builds on this module)

    table, first = open_table(source, sheet=sheet, title=title), written.get("table")
    if not table.n_rows:
        raise InvalidInput(f"{table.title} has no arms; it needs one in every line below the titles.")
    problems, features = Problems(table), [str(name) for name in written["features"]]
    values: Mapping[str, Array]
    if first is None:
        values = {name: _by_name(table, name, features, problems) for name in features}
    else:
        columns = _columns(table, first, problems)
    names = None
    if written["names"] is not None:
        before = None if first is None else first["names"]
        wanted = name_column or (before if before in table.cells else None)
        names = _names(table, wanted, _used(features, first), problems)
    problems.check()
    if first is not None:
        values = _features(table, first, columns, features)
    X = np.column_stack([np.broadcast_to(values[name], table.n_rows) for name in features])
    # One row spans nothing by itself; the other arms are there.
    arms: Any = TableArms.rows_only(FeatureTable(X.astype(np.float64), features, names), least=1, argument="join")
    arms.table = None if first is None else {**first, "columns": _joined_columns(table, first, columns)}
    arms.roles = Roles(
        source=table.title,
        n_arms=arms.n_arms,
        feature_names=arms.feature_names,
        constant="as for the arms that they join",
        names="row numbers" if names is None else "as for the arms that they join",
    )
    return arms


def _used(features: Sequence[str], first: Written | None) -> set[str]:
    """Return the columns that make features."""
    if first is not None:
        return {column["title"] for column in first["columns"]}
    return {part.partition("=")[0].removesuffix("^2") for name in features for part in name.split(":")}


def _names(table: Table, name_column: str | None, used: set[str], problems: Problems) -> list[str]:
    """Return the named column, else the index, a column with a usual title, or the only one that is no feature."""
    if name_column is None and table.names is not None:
        return [*table.names]
    headed = [title for title in table.columns if title.lower() in NAME_HEADERS and title not in used]
    others = [title for title in table.columns if title not in used]
    wanted = name_column or (headed[0] if headed else others[0] if len(others) == 1 else None)
    if wanted not in table.columns:
        raise InvalidInput(
            f"{table.title} must have a column of names, got {listed(table.columns)}; say which by `name_column`."
        )
    names = {row: text_of(cell).strip() for row, cell in filled_cells(table, wanted, problems).items()}
    if twice := repeated(names, table):
        raise InvalidInput(f"{table.title}: names must be different: {twice}. Change one of them.")
    return [*names.values()]


def _columns(table: Table, first: Written, problems: Problems) -> list[Column]:
    """Return the columns that make features, as numbers or as known levels."""
    columns = []
    for column in first["columns"]:
        title, role = column["title"], column["role"]
        if role == "unused":
            continue
        if title not in table.cells:
            raise InvalidInput(f"{table.title}: {_lacks(title, table)}")
        columns.append((_levels if role == "category" else _numbers)(table, column, problems))
    return columns


def _levels(table: Table, first: Written, problems: Problems) -> Column:
    cells = filled_cells(table, first["title"], problems)
    texts = tuple(text_of(cell).strip() for cell in cells.values())
    levels = sorted({cell for cell in first["cells"] if cell is not None})
    for row, text in zip(cells, texts, strict=True):
        if text not in levels:
            _refuse_level(row, first["title"], text, levels, problems)
    return Column(first["title"], texts=texts)


def _numbers(table: Table, first: Written, problems: Problems) -> Column:
    title, cells = first["title"], table.cells[first["title"]]
    has_commas = first.get("decimal_commas", False)
    read = read_column(replace(table, takes_grouped=table.takes_grouped or has_commas), title, problems)
    for row, cell in enumerate(cells):
        if read.numbers is None:
            problems.add(row, f"column {title!r} must be a number, got", ".", repr(cell))
        elif has_commas and isinstance(cell, str) and "." in cell:
            what = f"column {title!r} has decimal commas in the first table, here"
            problems.add(row, what, "; write a comma.", repr(cell))
    known = [cell for cell in first["cells"] if cell is not None]
    low, high = min(known), max(known)
    if (
        read.numbers is not None
        and len(read.numbers)
        and (np.abs(2 * read.numbers - low - high) > 3 * (high - low)).any()
    ):
        odd = read.numbers[np.argmax(np.abs(2 * read.numbers - low - high))]
        warnings.warn(
            f"{table.title}: column {title!r} has {odd:g} where the other arms have {low:g} to {high:g}; is that the "
            "same unit?",
            TableWarning,
            stacklevel=2,
        )
    return read


def _lacks(title: str, table: Table) -> str:
    meant = what_was_meant(title, table.columns, "columns")
    return f"a column is needed for every feature of the study, and there is none for {title!r}; {meant}"


def _features(table: Table, first: Written, new: Sequence[Column], features: Sequence[str]) -> Mapping[str, Array]:
    """Return the features of the new rows by name."""
    n_old = first.get("n_fitted") or len(first["columns"][0]["cells"])  # a formula stays fitted to the first arms
    old = {
        column["title"]: Column(column["title"], texts=tuple(column["cells"][:n_old]))
        if column["role"] == "category"
        else Column(column["title"], np.array(column["cells"][:n_old], dtype=np.float64))
        for column in first["columns"]
        if column["role"] != "unused"
    }
    if first["formula"] is not None:
        cells = {title: column.texts or column.numbers for title, column in old.items()}
        whole = Table(title=table.title, cells=cells)
        return formula_terms(first["formula"], [*old.values()], whole, new=new).features
    both = [_after(old[column.title], column) for column in new]
    terms = terms_of(both, interactions=any(":" in name for name in features), quadratic=True, intercept=False)
    return {"constant": np.ones(table.n_rows)} | {name: values[n_old:] for name, values in terms.features.items()}


def _after(old: Column, new: Column) -> Column:
    if old.numbers is None or new.numbers is None:
        return Column(old.title, texts=old.texts + new.texts)
    return Column(old.title, np.concatenate([old.numbers, new.numbers]))


def _joined_columns(table: Table, first: Written, columns: Sequence[Column]) -> list[dict[str, Any]]:
    read = {column.title: column for column in columns}
    empty = [None] * table.n_rows
    return [
        {**column, "cells": empty}
        if column["title"] not in table.cells
        else _written(table, column["title"], read.get(column["title"]))
        for column in first["columns"]
    ]


def _by_name(table: Table, name: str, features: Sequence[str], problems: Problems) -> Array:
    """Return the values of a feature by its name, for arms whose table is not known."""
    if name in table.columns:
        read = read_column(table, name, problems).numbers
        if read is None:
            for row, cell in enumerate(table.cells[name]):
                problems.add(row, f"column {name!r} must be a number, got", ".", repr(cell))
        return np.zeros(table.n_rows) if read is None or len(read) < table.n_rows else read
    if name == "constant":
        return np.ones(table.n_rows)
    if ":" in name:
        one, _, other = name.partition(":")
        return _by_name(table, one, features, problems) * _by_name(table, other, features, problems)
    if name.endswith("^2"):
        return _by_name(table, name.removesuffix("^2"), features, problems) ** 2
    title, equals, level = name.partition("=")
    if not equals or title not in table.columns:
        raise InvalidInput(f"{table.title}: {_lacks(title, table)}")
    texts = [text_of(cell).strip() for cell in table[title]]
    _check_reference(title, texts, features, problems)
    return np.array([float(text == level) for text in texts])


def _check_reference(title: str, texts: Sequence[str], features: Sequence[str], problems: Problems) -> None:
    """Refuse levels that cannot be the reference, which an older log does not name: there is only one."""
    parts = {part for name in features for part in name.split(":")}
    known = sorted(part.removeprefix(f"{title}=") for part in parts if part.startswith(f"{title}="))
    unknown = sorted(set(texts) - set(known))
    close = [text for text in unknown if nearest(text, known, cutoff=SLIP) is not None]
    for row, text in enumerate(texts):
        if text in close or (text in unknown and len(unknown) > 1):
            _refuse_level(row, title, text, [*known, "the reference, which this log does not name"], problems)


def _refuse_level(row: int, title: str, text: str, levels: Sequence[str], problems: Problems) -> None:
    near = nearest(text, levels, cutoff=SLIP)
    meant = "" if near is None else f" (did you mean {near!r}?)"
    known = f"; the known levels are {listed(levels)}. Other levels need a study of their own."
    problems.add(row, f"column {title!r} has the unknown level", known, f"{text!r}{meant}")
