"""Arms that join a study: a table whose columns have the names of the study's features."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from surepick.arms.finite import FiniteArms
from surepick.arms.tables.read import NAME_HEADERS
from surepick.arms.tables.sources import Table, open_table
from surepick.arms.tables.written import parse_number
from surepick.core.linalg import Array
from surepick.errors import InvalidInput
from surepick.study.state import State


def read_joining(path: Path, state: State, *, name_column: str | None = None) -> FiniteArms:
    """Read arms with the features of a study: its columns, levels such as solvent=W, products a:b and squares a^2.

    Raises:
        InvalidInput: a column is not there, or a cell is no number.
    """
    if state.roster.written["kind"] != "finite":
        raise InvalidInput("--join needs a study of a list of arms.")
    table = open_table(path)
    if not table.n_rows:
        raise InvalidInput(f"{path} has no arms; it needs one in every line below the titles.")
    columns = [_feature(table, str(name)) for name in state.roster.written["features"]]
    names = None if state.roster.names is None else _names(table, name_column, state.roster.written["features"])
    # One row spans nothing by itself; the others of the study are there.
    return FiniteArms.rows_only(np.column_stack(columns), least=1, argument="join", names=names)


def _names(table: Table, name_column: str | None, features: Sequence[str]) -> list[str]:
    """The column that was named, one headed so, or the only one that is no feature."""
    titles = {str(title).lower(): title for title in table.columns}
    parts = {part.partition("=")[0].removesuffix("^2") for name in features for part in str(name).split(":")}
    others = [title for title in table.columns if title not in parts]
    headed = [titles[title] for title in NAME_HEADERS if title in titles]
    wanted = name_column or (headed[0] if headed else others[0] if len(others) == 1 else None)
    if wanted not in table.columns:
        listed = ", ".join(map(str, table.columns))
        raise InvalidInput(f"{table.title} must have a column of names, got {listed}; say which by --name-column.")
    return [str(cell).strip() for cell in table[wanted]]


def _feature(table: Table, name: str) -> Array:
    """The values of a feature, by its name."""
    if name in table.columns:
        return np.array([_number(table, row, name, cell) for row, cell in enumerate(table[name])])
    if name == "constant":
        return np.ones(table.n_rows)
    if ":" in name:
        one, _, other = name.partition(":")
        return _feature(table, one) * _feature(table, other)
    if name.endswith("^2"):
        return _feature(table, name.removesuffix("^2")) ** 2
    column, equals, level = name.partition("=")
    if equals and column in table.columns:
        return np.array([float(str(cell).strip() == level) for cell in table[column]])
    raise InvalidInput(
        f"{table.title} must have a column for every feature of the study, and has none for {name!r}; add it."
    )


def _number(table: Table, row: int, title: str, cell: Any) -> float:
    value = parse_number(str(cell))
    if value is None:
        raise table.refusal(row, f"{title} must be a number, got {cell!r}.")
    return value
