"""Arms in memory: a table of numbers or a data frame, checked, with names.

The name of an arm is its row number in the X that you pass, also when X has duplicate rows.

`arms.tables` reads data frames. Rewards of real things have a level of their own, so a constant column is put in front
of their features unless a combination of the others is constant. An array is used as it is: its author knows whether
it needs a constant.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Self, final

import numpy as np

from surepick.arms.base import ArmSet, VectorSet, check_choice, check_span, duplicate_groups
from surepick.core.checks import check_features, check_matrix
from surepick.core.linalg import independent_columns, row_chunks, tall_qr
from surepick.errors import InvalidInput
from surepick.types import Array, IntArray


@final
@dataclass(frozen=True, slots=True)
class FeatureTable:
    """A checked matrix with the names of its columns and, where the source had them, of its rows."""

    X: Array
    feature_names: Sequence[str] | None = None
    row_names: Sequence[str] | None = None
    has_added_constant: bool = False


def feature_table(
    source: Any, *, intercept: bool | None, argument: str = "arms", names: Sequence[str] | None = None
) -> FeatureTable:
    """Return arms as a checked table of features; `argument` names the source in errors, `names` are those given."""
    if isinstance(source, FeatureTable):
        return source
    if hasattr(source, "columns"):
        from surepick.arms.tables.read import frame_features  # noqa: PLC0415 (it builds on this module)

        return frame_features(source, intercept=intercept, argument=argument, names=names)
    X = check_matrix(argument, source)
    names = [f"x{j}" for j in range(X.shape[1])]
    return with_constant(dict(zip(names, X.T, strict=True)), intercept=True) if intercept else FeatureTable(X)


def with_constant(
    columns: Mapping[str, Array], *, intercept: bool | None, row_names: Sequence[str] | None = None
) -> FeatureTable:
    """Return the columns as a table, with a constant in front; by default, unless a combination of them is constant."""
    X = np.column_stack([*columns.values()])
    is_added = not in_span(X, np.ones(len(X))) if intercept is None else intercept
    names = [*columns]
    if is_added:
        X, names = np.column_stack([np.ones(len(X)), X]), ["constant", *names]
    return FeatureTable(check_matrix("arms", X), names, row_names, has_added_constant=is_added)


def in_span(X: Array, column: Array) -> bool:
    """Return whether a column is a combination of those of X, but for rounding; their units do not matter."""
    size = np.abs(X).max(axis=0, initial=0.0)
    columns = X[:, (size > 0.0) & np.isfinite(size)] / size[(size > 0.0) & np.isfinite(size)]
    left = columns @ np.linalg.lstsq(columns, column, rcond=None)[0] - column
    return bool(np.linalg.norm(left) <= 1e-9 * np.linalg.norm(column))


@final
class FiniteArms(ArmSet):
    """Arms held in memory as the rows of one (K, d) array.

    Args:
        X: the arms: an array, nested lists, or a data frame (pandas or polars), which is read as by `read_arms`.
        names: one name per arm; default: those that `read_arms` finds in a data frame, else row numbers.
        intercept: put a constant 1 in front of the features. Default: in front of those of a data frame, unless some
            combination of them is constant; an array is taken as it is.

    The array is copied once and never changed. Exact duplicates are one arm with several row numbers: the
    lowest stands for all of them, `copies` lists them.

    Raises:
        InvalidInput: not a table of finite numbers, fewer than two different arms, bad names.
        ArmsDoNotSpan: the rows leave a direction unmeasured; `FiniteArms.on_span(X)` drops such directions.
    """

    def __init__(self, X: Any, names: Sequence[str] | None = None, *, intercept: bool | None = None) -> None:
        self._fill(feature_table(X, intercept=intercept, names=names), names)
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
        rows._fill(feature_table(X, intercept=intercept, argument=argument, names=names), names, least=least)
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
        self._first_copy = np.arange(self.n_arms)
        groups = duplicate_groups(self)
        for group in groups:
            self._first_copy[list(group)] = group[0]
        self._has_copies = len(groups) > 0
        if least > 1:
            check_choice(self.n_arms, is_constant=not self._first_copy.any())
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
        if not self._has_copies:
            return np.array([arm], dtype=np.int64)
        return np.flatnonzero(self._first_copy == self._first_copy[arm])

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
    """Return an arm set as it is; a data frame is read by `read_arms`, anything else becomes `FiniteArms`."""
    if isinstance(arms, VectorSet):
        raise InvalidInput(
            f"a list of arms is needed here, got {arms.description}, whose arms cannot be listed; ask the set itself, "
            "for instance its `characteristic_time` or `lower_bound`."
        )
    if hasattr(arms, "columns"):
        from surepick.arms.tables.read import read_frame  # noqa: PLC0415 (it builds on this module)

        return read_frame(arms)
    if isinstance(arms, str | PathLike):
        raise InvalidInput(
            f"`arms` must be arms, got the path {str(arms)!r}; read the file: arms=sp.read_arms({str(arms)!r})."
        )
    return arms if isinstance(arms, ArmSet) else FiniteArms(arms)


def rows_like(rows: Any, arms: ArmSet, *, argument: str) -> ArmSet:
    """Return rows that need not span; a data frame is read by the rules of the arms' table."""
    if hasattr(rows, "columns") and hasattr(arms, "table"):
        from surepick.arms.tables.read import read_candidates  # noqa: PLC0415 (it builds on this module)

        candidates: ArmSet = read_candidates(rows, arms, title=f"`{argument}`")
        return candidates
    # Columns with names are encoded as those of the arms were.
    intercept = getattr(arms, "has_added_constant", False) if hasattr(rows, "columns") else None
    return FiniteArms.rows_only(rows, least=1, argument=argument, intercept=intercept)
