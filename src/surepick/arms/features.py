"""Feature tables: turns an array or a data frame into the matrix of arms.

Encoding of a data frame: numbers and booleans as they are; a column of text or categories becomes one 0/1 column
per level except the first in sorted order (the reference). Rewards of real things have a level of their own, so a
constant column is put in front unless the others can make one up. So a colour column red/green/blue yields
`constant, colour=green, colour=red`. Levels are sorted as text, also where the categories are numbers. An array is
taken as it is: whoever made it knows whether it needs a constant.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from surepick.core.checks import check_matrix, check_vector, is_number
from surepick.errors import InvalidInput
from surepick.types import Array


@final
@dataclass(frozen=True, slots=True)
class FeatureTable:
    """A checked matrix with the names of its columns and, where the source had them, of its rows."""

    X: Array
    feature_names: Sequence[str] | None
    row_names: Sequence[str] | None
    has_added_constant: bool = False


def feature_table(source: Any, *, intercept: bool | None, argument: str = "arms") -> FeatureTable:
    """Read arms from an array, nested lists, or anything with `columns` whose items convert to arrays.

    `argument` is what error texts call the source.
    """
    if not hasattr(source, "columns"):
        X = check_matrix(argument, source)
        if not intercept:
            return FeatureTable(X, None, None)
        names = ["constant", *(f"x{j}" for j in range(X.shape[1]))]
        return FeatureTable(np.column_stack([np.ones(len(X)), X]), names, None, has_added_constant=True)
    columns: list[tuple[str, Array]] = []
    encoded = False
    for label in source.columns:
        series = source[label]
        values = np.asarray(series)
        if values.ndim != 1:
            raise InvalidInput(f"columns must have different names, got {label!r} more than once; rename one of them.")
        if not is_category(series) and _is_numeric(values):
            columns.append((str(label), check_vector(f"{argument}[{label!r}]", values, len(values))))
        else:
            columns += _levels(label, values, category=is_category(series))
            encoded = True
    if not columns and not encoded:
        raise InvalidInput(f"`{argument}` must have at least one column, got an empty data frame; add features.")
    X = np.column_stack([np.empty((len(source), 0)), *(column for _, column in columns)])
    names = [name for name, _ in columns]
    is_added = not in_span(X, np.ones(len(X))) if intercept is None else intercept
    if is_added:
        X, names = np.column_stack([np.ones(len(X)), X]), ["constant", *names]
    return FeatureTable(check_matrix(argument, X), names, row_names(source), has_added_constant=is_added)


def in_span(X: Array, column: Array) -> bool:
    """Return whether a column is a combination of those of X, but for rounding; their units do not matter."""
    size = np.abs(X).max(axis=0, initial=0.0)
    columns = X[:, (size > 0.0) & np.isfinite(size)] / size[(size > 0.0) & np.isfinite(size)]
    left = columns @ np.linalg.lstsq(columns, column, rcond=None)[0] - column
    return bool(np.linalg.norm(left) <= 1e-9 * np.linalg.norm(column))


def is_category(series: Any) -> bool:
    """Return whether a column of a data frame is declared to be one of categories."""
    # pandas calls it `category`, polars `Categorical` or `Enum`; the categories themselves may be numbers.
    return str(getattr(series, "dtype", "")).lower().startswith(("categor", "enum"))


def _is_numeric(values: Any) -> bool:
    return values.dtype.kind in "biuf" or (values.dtype.kind == "O" and all(is_number(value) for value in values))


def _levels(label: Any, values: Any, *, category: bool) -> list[tuple[str, Array]]:
    if not category and values.dtype.kind not in "OUST":
        raise InvalidInput(
            f"column {label!r} must hold numbers or text, got {values.dtype}; convert it to a number first."
        )
    missing = [row for row, value in enumerate(values) if is_missing(value)]
    if missing:
        raise InvalidInput(f"column {label!r} has no value in row {missing[0]}; fill or drop such rows.")
    strange = [value for value in values if not category and not isinstance(value, str | bytes)]
    if strange:
        raise InvalidInput(
            f"column {label!r} must hold numbers alone or text alone, got {strange[0]!r} among others; convert the "
            "column to numbers, to text or to categories first."
        )
    return level_columns(str(label), [str(value) for value in values])


def level_columns(label: str, texts: Sequence[str]) -> list[tuple[str, Array]]:
    """Return name and 0/1 column of every level but the first in sorted order, the reference."""
    cells = np.array(texts)
    return [(f"{label}={level}", (cells == level).astype(np.float64)) for level in np.unique(cells)[1:]]


def is_missing(value: Any) -> bool:
    """Return whether a cell of a data frame stands for no value."""
    try:
        return value is None or bool(value != value)  # noqa: PLR0124 (NaN, NaT)
    except TypeError:  # pandas.NA answers neither yes nor no
        return True
    except ValueError:  # an array inside a column: wrong, but not missing
        return False


def row_names(source: Any) -> Sequence[str] | None:
    """Return the labels of a data frame's index, if it says more than row numbers."""
    index = getattr(source, "index", None)
    if index is None or callable(index):  # polars has none
        return None
    if type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1):
        return None  # a default pandas index only repeats the row numbers
    return [str(label) for label in index]
