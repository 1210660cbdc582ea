"""Feature tables: turns an array or a data frame into the matrix of arms.

Encoding of a data frame: numbers and booleans as they are; a column of text or categories becomes one 0/1 column
per level except the first in sorted order (the reference), and a constant column is put in front so that the
reference has a value of its own. So a colour column red/green/blue yields `constant, colour=green, colour=red`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, final

import numpy as np

from surepick.core.checks import check_matrix
from surepick.core.linalg import Array
from surepick.errors import InvalidInput


@final
@dataclass(frozen=True, slots=True)
class FeatureTable:
    """A checked matrix with the names of its columns and, where the source had them, of its rows."""

    X: Array
    feature_names: Sequence[str] | None
    row_names: Sequence[str] | None


def feature_table(source: Any, *, intercept: bool | None) -> FeatureTable:
    """Read arms from an array, nested lists, or anything with `columns` whose items convert to arrays."""
    if not hasattr(source, "columns"):
        X = check_matrix("arms", source)
        if intercept:
            X = np.column_stack([np.ones(len(X)), X])
        return FeatureTable(X, None, None)
    columns: list[Array] = []
    names: list[str] = []
    encoded = False
    for label in source.columns:
        values = np.asarray(source[label])
        if _is_numeric(values):
            columns.append(values.astype(np.float64))
            names.append(str(label))
        else:
            for level, indicator in _levels(str(label), values):
                columns.append(indicator)
                names.append(f"{label}={level}")
            encoded = True
    if not columns and not encoded:
        raise InvalidInput("arms must have at least one column, got an empty data frame.")
    n_rows = len(source)
    if intercept or (intercept is None and encoded):
        columns.insert(0, np.ones(n_rows))
        names.insert(0, "constant")
    X = check_matrix("arms", np.column_stack(columns) if columns else np.empty((n_rows, 0)))
    return FeatureTable(X, names, _row_names(source))


def _is_numeric(values: Any) -> bool:
    if values.dtype.kind in "biuf":
        return True
    return values.dtype.kind == "O" and all(isinstance(value, Real) for value in values)


def _levels(label: str, values: Any) -> list[tuple[str, Array]]:
    if values.dtype.kind not in "OUST":
        raise InvalidInput(
            f"column {label!r} must hold numbers or text, got {values.dtype}; convert it to a number first."
        )
    missing = [row for row, value in enumerate(values) if value is None or value != value]  # noqa: PLR0124 (NaN)
    if missing:
        raise InvalidInput(f"column {label!r} has no value in row {missing[0]}; fill or drop such rows.")
    texts = np.array([str(value) for value in values])
    return [(str(level), (texts == level).astype(np.float64)) for level in np.unique(texts)[1:]]


def _row_names(source: Any) -> Sequence[str] | None:
    index = getattr(source, "index", None)
    # A default pandas index only repeats the row numbers; polars has none.
    if index is None or callable(index) or type(index).__name__ == "RangeIndex":
        return None
    return [str(label) for label in index]
