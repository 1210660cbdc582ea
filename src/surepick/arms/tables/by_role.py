"""Tables of arms column by column: what each column is taken for, and arms read by roles that a person chose."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from surepick.arms.tables.columns import is_missing, read_column, text_of
from surepick.arms.tables.read import TableArms, guessed_columns, read_arms, without_numbers
from surepick.arms.tables.sources import EXCEL, Problems, Table, open_table
from surepick.errors import InvalidInput, SurepickError, listed

ROLES = {
    "name": "name of the arm",
    "number": "feature: number",
    "category": "feature: category",
    "cost": "cost",
    "noise": "noise",
    "out": "leave out",
}
"""Every role of a column, and its words."""
ONCE = {"name": "name_column", "cost": "cost_column", "noise": "noise_column"}
"""Roles of one column at most, and the options of `read_arms`."""
OF_NUMBERS = ("number", "cost", "noise")
"""Roles that only a column of numbers can have."""
LOOKED_AT, N_EXAMPLES, LONGEST = 50, 3, 40
"""Cells that are looked at for examples, examples of a column, and letters of one."""


class ColumnRole(NamedTuple):
    """A column and its role."""

    title: str
    role: str
    """One of `ROLES`."""
    roles: dict[str, str]
    """The roles that the column can have, and their words."""
    examples: str
    why: str = ""
    """Why `read_arms` leaves the column out."""


def table_of_upload(title: str, content: bytes, sheet: str | None = None) -> Table:
    """Read an uploaded CSV or Excel file; errors name the file as its owner does."""
    ending = next((ending for ending in (*EXCEL, ".xls") if title.lower().endswith(ending)), ".csv")
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"table{ending}"
        path.write_bytes(content)
        try:
            return replace(open_table(path, sheet=sheet if ending in EXCEL else None), title=title)
        except SurepickError as error:
            raise InvalidInput(str(error).replace(str(path), title)) from error


def column_roles(table: Table, chosen: Sequence[str] = ()) -> list[ColumnRole]:
    """Return the columns with the roles that a person chose, in order; where there is none, as `read_arms` guesses."""
    name, dropped = guessed_columns(table)
    found = []
    for place, (title, cells) in enumerate(table.cells.items()):
        is_number = read_column(table, title, Problems(table)).numbers is not None
        guess = "name" if title == name else "out" if title in dropped else "number" if is_number else "category"
        roles = {role: words for role, words in ROLES.items() if is_number or role not in OF_NUMBERS}
        role = chosen[place] if place < len(chosen) and chosen[place] in roles else guess
        texts = [text_of(cell)[:LONGEST] for cell in cells[:LOOKED_AT] if not is_missing(cell)]
        several = list(dict.fromkeys(texts))
        examples = " · ".join([*several[:N_EXAMPLES], *["..."] * (len(several) > N_EXAMPLES)])
        found.append(ColumnRole(title, role, roles, examples, dropped.get(title, "") if role == "out" else ""))
    return found


def read_by_role(
    table: Table, columns: Sequence[ColumnRole], most_features: int | None = None, most_numbers: int | None = None
) -> TableArms:
    """Read arms with the role of each column as chosen.

    Args:
        table: with a line for each arm.
        columns: with their roles.
        most_features: of an arm, with `most_numbers`; default: any number.
        most_numbers: of all arms together. A small table can have many: a category has one for each of its words.

    Raises:
        InvalidInput: as `read_arms`, several columns have a role of one, or there are too many features.
    """
    if most_features is not None and most_numbers is not None:
        _check_size(table, columns, most_features, most_numbers)
    titles: Mapping[str, list[str]] = {role: [one.title for one in columns if one.role == role] for role in ROLES}
    for role in ONCE:
        if len(titles[role]) > 1:
            both = listed([repr(title) for title in titles[role]])
            raise InvalidInput(f'one column at most has the role "{ROLES[role]}", got {both}; change one of them.')
    features = [one.title for one in columns if one.role in ("number", "category")]
    table = without_numbers(table, titles["out"])
    once: dict[str, Any] = {option: next(iter(titles[role]), None) for role, option in ONCE.items()}
    return read_arms(replace(table, categories=table.categories | set(titles["category"])), features=features, **once)


def _check_size(table: Table, columns: Sequence[ColumnRole], most_features: int, most_numbers: int) -> None:
    """Refuse a table whose features would take gigabytes."""
    words = [len({*map(text_of, table.cells[one.title])}) for one in columns if one.role == "category"]
    n_features = sum(words) + sum(one.role == "number" for one in columns)
    n_rows = len(next(iter(table.cells.values())))
    if n_features > most_features or n_features * n_rows > most_numbers:
        raise InvalidInput(
            f"a table must have at most {most_features:,} features and {most_numbers:,} numbers here, got "
            f"{n_features:,} features (one for each word of a category) of {n_rows:,} arms; leave out columns that "
            "tell arms apart and say nothing about them."
        )
