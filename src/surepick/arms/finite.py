"""Arms in memory: a table of numbers or a data frame, checked, with names.

The name of an arm is its row number in the X that you pass, also when X has duplicate rows.

Encoding of a data frame: numbers and booleans as they are; a column of text or categories becomes one 0/1 column per
level except the first in sorted order (the reference). Rewards of real things have a level of their own, so a constant
column is put in front unless a combination of the others is constant. A colour column red/green/blue yields
`constant, colour=green, colour=red`. Levels are sorted as text, also where the categories are numbers. An array is
used as it is: its author knows whether it needs a constant.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np

from surepick.arms.base import ArmSet, VectorSet, check_choice, check_span
from surepick.core.checks import check_features, check_matrix, check_vector, is_number
from surepick.core.linalg import first_copies, independent_columns, row_chunks, tall_qr
from surepick.errors import InvalidInput
from surepick.types import Array, IntArray


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

    `argument` is the name of the source in errors.
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
    """Return whether a column of a data frame is declared to hold categories."""
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


@final
class FiniteArms(ArmSet):
    """Arms held in memory as the rows of one (K, d) array.

    Args:
        X: the arms: an array, nested lists, or a data frame (pandas or polars). In a data frame numeric and
            boolean columns are used as they are; a column of text or categories becomes one 0/1 column per
            level except the first in sorted order, which is the reference level.
        names: one name per arm; default: the labels of a data frame's index if it has any, else row numbers.
        intercept: put a constant 1 in front of the features. Default: in front of those of a data frame, unless some
            combination of them is constant; an array is taken as it is.

    The array is copied once and never changed. Exact duplicates are one arm with several row numbers: the
    lowest stands for all of them, `copies` lists them.

    Raises:
        InvalidInput: not a table of finite numbers, fewer than two different arms, bad names.
        ArmsDoNotSpan: the rows leave a direction unmeasured; `FiniteArms.on_span(X)` drops such directions.
    """

    def __init__(self, X: Any, names: Sequence[str] | None = None, *, intercept: bool | None = None) -> None:
        self._fill(feature_table(X, intercept=intercept), names)
        advice = "drop redundant features, or let `FiniteArms.on_span(X)` do it"
        check_span(self._triangle, self.feature_names, advice=advice)

    @classmethod
    def on_span(cls, X: Any, names: Sequence[str] | None = None, *, intercept: bool | None = None) -> Self:
        """Build arms from as many features of X as are linearly independent, dropping zero and redundant ones.

        `arms.basis` (d, rank) says how the features of X follow from those kept: X = arms.X @ arms.basis.T, and a
        theta of all features reads `arms.basis.T @ theta` in the kept ones. Rewards, and so answers, do not change.
        """
        arms = cls.rows_only(X, names, intercept=intercept)
        check_features(arms._triangle, arms.feature_names)
        kept = independent_columns(arms._triangle)
        scale = np.abs(arms._triangle).max(axis=0)
        scale[scale == 0] = 1.0
        # Scaled columns, so that a feature in small units keeps its digits beside one in large units.
        R = arms._triangle / scale
        basis = np.linalg.lstsq(R[:, kept], R, rcond=None)[0].T * (scale[:, None] / scale[kept])
        basis[kept] = np.eye(len(kept))
        spanned = cls.__new__(cls)
        columns = check_matrix("arms", arms.X[:, kept])
        spanned._fill(FeatureTable(columns, [arms.feature_names[j] for j in kept], arms.names))
        spanned.basis = basis
        return spanned

    @classmethod
    def rows_only(
        cls,
        X: Any,
        names: Sequence[str] | None = None,
        *,
        intercept: bool | None = None,
        least: int = 2,
        argument: str = "arms",
    ) -> Self:
        """Build a set that need not span: candidates that are compared, or directions, but never measured.

        `argument` is the name of X in errors.
        """
        rows = cls.__new__(cls)
        rows._fill(feature_table(X, intercept=intercept, argument=argument), names, least=least)
        return rows

    def _fill(self, table: FeatureTable, names: Sequence[str] | None = None, *, least: int = 2) -> None:
        self.X = X = table.X
        X.flags.writeable = False
        self.n_arms, self.dim = map(int, X.shape)
        self.has_added_constant = table.has_added_constant
        """Whether a constant was put in front of the features."""
        self.feature_names = tuple(table.feature_names or (f"x{j}" for j in range(self.dim)))
        self.names = _checked_names(table.row_names if names is None else names, self.n_arms)
        self.basis: Array = np.eye(self.dim)
        self._first_copy = first_copies(X)
        if least > 1:
            check_choice(self.n_arms, is_constant=self._first_copy is not None and not self._first_copy.any())
        self._triangle = tall_qr(self.chunks(), self.dim)

    def __len__(self) -> int:
        return self.n_arms

    def __repr__(self) -> str:
        return f"FiniteArms({self.n_arms} arms, {self.dim} features)"

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Return the arms with these row numbers, (n, d)."""
        return self.X.take(np.asarray(index, dtype=np.int64), axis=0)

    def chunks(self) -> Iterator[tuple[int, Array]]:
        """Yield (first row number, rows) over all arms in order."""
        yield from row_chunks(self.X)

    def copies(self, arm: int) -> IntArray:
        """Return the rows equal to this one, itself included, in increasing order."""
        if self._first_copy is None:
            return np.array([arm], dtype=np.int64)
        return np.flatnonzero(self._first_copy == self._first_copy[arm]).astype(np.int64)

    def representative(self, arm: int) -> int:
        """Return the lowest row number among the copies of this arm."""
        return arm if self._first_copy is None else int(self._first_copy[arm])

    def triangle(self) -> Array:
        """Return R (d, d), upper triangular with R'R = X'X, accurate even where X'X is not."""
        return self._triangle


def _checked_names(names: Any, n_arms: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, str) or not np.iterable(names):
        came = f"the single text {names!r}" if isinstance(names, str) else repr(names)
        raise InvalidInput(f"`names` must be a list of {n_arms} names, got {came}; pass one per arm.")
    labels = tuple(str(name) for name in names)
    if len(labels) != n_arms:
        raise InvalidInput(
            f"`names` must have one name per arm: {n_arms} arms, got {len(labels)} names; add or remove some."
        )
    if len(set(labels)) != n_arms:
        twice = next(label for label, n in Counter(labels).items() if n > 1)
        raise InvalidInput(
            f"`names` must be different for different arms, got {twice!r} more than once; pass other `names` (they "
            "replace a data frame's index)."
        )
    return labels


def as_arms(arms: Any) -> ArmSet:
    """Return an arm set as it is; anything else becomes `FiniteArms`."""
    if isinstance(arms, VectorSet):
        raise InvalidInput(
            f"a list of arms is needed here, got {arms.description}, whose arms cannot be listed; ask the set itself, "
            "for instance its `characteristic_time` or `lower_bound`."
        )
    return arms if isinstance(arms, ArmSet) else FiniteArms(arms)
