"""Feature tables: what each kind of column becomes, and which columns are refused."""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surepick import FiniteArms, InvalidInput
from surepick.arms.finite import FeatureTable, feature_table


class PolarsLikeSeries:
    """A column that converts to an array and has a dtype, and nothing else."""

    def __init__(self, values: Any, dtype: str) -> None:
        self.values, self.dtype = values, dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.values, dtype=dtype)


class PolarsLikeFrame:
    """A frame without an index, as polars has it."""

    def __init__(self, **columns: PolarsLikeSeries) -> None:
        self.columns = list(columns)
        self._columns = columns

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())).values)

    def __getitem__(self, label: str) -> PolarsLikeSeries:
        return self._columns[label]


def table(columns: dict[str, Any], intercept: bool | None = None, index: Any = None) -> FeatureTable:
    """Read a pandas frame with these columns."""
    return feature_table(pd.DataFrame(columns, index=index), intercept=intercept)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 3], [1, 2, 3]),
        ([0.5, -1.0, 3.25], [0.5, -1.0, 3.25]),
        ([True, False, True], [1, 0, 1]),
        (np.array([1, 2, 3], dtype=np.uint8), [1, 2, 3]),
        (pd.array([1, 7, 3], dtype="Int64"), [1, 7, 3]),
        (pd.array([1.5, 7.0, 3.0], dtype="Float64"), [1.5, 7.0, 3.0]),
        (pd.array([True, False, True], dtype="boolean"), [1, 0, 1]),
        (pd.Series([1, 2.5, True], dtype=object), [1, 2.5, 1]),
        (pd.Series([np.bool_(1), np.float32(2), np.int8(3)], dtype=object), [1, 2, 3]),
        ([Decimal("0.25"), Decimal(2), Decimal(3)], [0.25, 2, 3]),
    ],
    ids=["int", "float", "bool", "uint8", "Int64", "Float64", "boolean", "object", "numpy-object", "decimal"],
)
def test_numbers_are_used_as_they_are(values: Any, expected: list[float]) -> None:
    """A column of numbers or booleans, however stored, is one feature under its own name."""
    read = table({"a": values, "b": [0.0, 0.0, 1.0]}, intercept=False)
    assert read.feature_names == ["a", "b"]
    np.testing.assert_array_equal(read.X, np.column_stack([expected, [0.0, 0.0, 1.0]]))


@pytest.mark.parametrize(
    "colours",
    [
        pd.Series(["red", "green", "blue", "green"]),
        pd.Series(["red", "green", "blue", "green"], dtype=object),
        pd.Series(["red", "green", "blue", "green"], dtype="string"),
        pd.Series(["red", "green", "blue", "green"], dtype="category"),
        pd.Categorical(["red", "green", "blue", "green"], categories=["red", "green", "blue", "unused"], ordered=True),
    ],
    ids=["default", "object", "string", "category", "ordered-with-unused-level"],
)
def test_text_becomes_one_column_per_level_but_the_first(colours: Any) -> None:
    """The level first in sorted order is the reference, the others are indicators after a constant."""
    read = table({"size": [1.0, 2.0, 3.0, 4.0], "colour": colours})
    assert read.feature_names == ["constant", "size", "colour=green", "colour=red"]
    np.testing.assert_array_equal(read.X, [[1, 1, 0, 1], [1, 2, 1, 0], [1, 3, 0, 0], [1, 4, 1, 0]])


def test_numeric_categories_are_levels_not_numbers() -> None:
    """A column declared as categories is encoded even if its categories are numbers, sorted as text."""
    read = table({"zip": pd.Series([10, 9, 10, 200], dtype="category")})
    assert read.feature_names == ["constant", "zip=200", "zip=9"]
    np.testing.assert_array_equal(read.X, [[1, 0, 0], [1, 0, 1], [1, 0, 0], [1, 1, 0]])


@given(seed=st.integers(0, 2**32 - 1), n_levels=st.integers(1, 5))
def test_any_value_per_level_is_linear_in_the_encoding(seed: int, n_levels: int) -> None:
    """Whatever number each level has, some theta on the encoded features yields it: the encoding loses nothing."""
    rng = np.random.default_rng(seed)
    levels = np.concatenate([np.arange(n_levels), rng.integers(0, n_levels, 10)])
    read = table({"level": [f"level {i}" for i in levels]})
    assert read.X.shape == (n_levels + 10, n_levels)
    wanted = rng.standard_normal(n_levels)[levels]
    theta = np.linalg.lstsq(read.X, wanted, rcond=None)[0]
    np.testing.assert_allclose(read.X @ theta, wanted, atol=1e-12)


@pytest.mark.parametrize(
    ("intercept", "numeric_names", "text_names"),
    [
        (None, ["constant", "a"], ["constant", "c=y"]),
        (True, ["constant", "a"], ["constant", "c=y"]),
        (False, ["a"], ["c=y"]),
    ],
    ids=["default", "yes", "no"],
)
def test_the_intercept_option_overrides_the_default(
    intercept: bool | None, numeric_names: list[str], text_names: list[str]
) -> None:
    """By default there is a constant, unless the columns can make one up; the option decides for all."""
    assert table({"a": [1.0, 2.0]}, intercept).feature_names == numeric_names
    assert table({"c": ["x", "y"]}, intercept).feature_names == text_names
    shares = table({"a": [0.2, 0.5, 0.9], "b": [0.8, 0.5, 0.1]}, intercept)
    assert shares.has_added_constant == bool(intercept)  # mixtures: the shares add up to one


def test_an_intercept_goes_in_front_of_an_array() -> None:
    """The constant is the first feature and is called so; the others keep their numbers."""
    arms = FiniteArms([[2.0, 1.0], [3.0, 5.0], [4.0, 0.0]], intercept=True)
    assert arms.feature_names == ("constant", "x0", "x1")
    np.testing.assert_array_equal(arms.X, [[1, 2, 1], [1, 3, 5], [1, 4, 0]])


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (None, None),
        (["p", "q", "r"], ("p", "q", "r")),
        ([7, 8, 9], ("7", "8", "9")),
        (pd.RangeIndex(1, 4), ("1", "2", "3")),
        (pd.RangeIndex(0, 6, 2), ("0", "2", "4")),
        (pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)]), ("('a', 1)", "('a', 2)", "('b', 1)")),
    ],
    ids=["default", "text", "numbers", "from-one", "every-other", "two-levels"],
)
def test_the_index_names_the_arms(index: Any, expected: tuple[str, ...] | None) -> None:
    """Labels of the index are names unless they only repeat the row numbers; `names` overrides them."""
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0]}, index=index)
    assert FiniteArms(frame).names == expected
    assert FiniteArms(frame, names=["u", "v", "w"]).names == ("u", "v", "w")


def test_a_frame_without_an_index_works() -> None:
    """Anything with `columns`, items that convert to arrays and a length is a data frame."""
    frame = PolarsLikeFrame(
        size=PolarsLikeSeries([1.0, 2.0, 4.0, 4.0], "Float64"),
        colour=PolarsLikeSeries(["b", "a", "b", "a"], "String"),
        code=PolarsLikeSeries([1, 1, 1, 2], "Categorical"),
    )
    arms = FiniteArms(frame)
    assert arms.feature_names == ("constant", "size", "colour=b", "code=2")
    assert arms.names is None
    np.testing.assert_array_equal(arms.X, [[1, 1, 1, 0], [1, 2, 0, 0], [1, 4, 1, 0], [1, 4, 0, 1]])


def test_a_frame_changed_later_has_no_effect() -> None:
    """The arms own their numbers, not those of the frame."""
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0]})
    arms = FiniteArms(frame)
    frame.loc[0, "a"] = 99.0
    np.testing.assert_array_equal(arms.X, [[1, 0], [2, 1]])


DAYS = ["2024-01-01", "2024-01-02", "2024-01-02"]
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "dates": (lambda: pd.to_datetime(DAYS), "'c' must hold numbers or text, got datetime64.*; convert it"),
    "dates with a zone": (lambda: pd.to_datetime(DAYS, utc=True), "'c' must hold .*got Timestamp.*; convert"),
    "date objects": (lambda: [dt.date(2024, 1, day) for day in (1, 2, 2)], "'c' must hold .*; convert"),
    "durations": (lambda: pd.to_timedelta([1, 2, 2], unit="D"), "'c' must hold numbers or text, got timedelta64"),
    "periods": (lambda: pd.PeriodIndex(DAYS, freq="D"), "'c' must hold .*Period.*; convert"),
    "complex": (lambda: [1j, 2.0, 3.0], "'c' must hold numbers or text, got complex128; convert"),
    "lists": (lambda: [[1], [2], [3]], r"'c' must hold .* got \[1\]"),
    "arrays": (lambda: pd.Series([np.ones(2), np.ones(2), np.ones(2)]), r"'c' must hold .* got array"),
    "text and numbers": (lambda: pd.Series(["a", 1, "1"], dtype=object), "'c' must hold .* got 1 .*; convert"),
    "missing text": (lambda: ["a", None, "b"], "'c' has no value in row 1; fill or drop"),
    "missing text (NaN)": (lambda: pd.Series(["a", "b", np.nan], dtype=object), "'c' has no value in row 2"),
    "missing text (NA)": (lambda: pd.array(["a", pd.NA, "b"], dtype="string"), "'c' has no value in row 1"),
    "missing category": (lambda: pd.Categorical([None, "a", "b"]), "'c' has no value in row 0"),
    "missing numeric category": (lambda: pd.Categorical([1, 2, None]), "'c' has no value in row 2"),
    "missing number": (lambda: [1.0, np.nan, 2.0], r"`arms\['c'\]` must be finite, got nan at position 1"),
    "missing Int64": (lambda: pd.array([1, 2, pd.NA], dtype="Int64"), "'c'.* (position|row) 2"),
    "missing boolean": (lambda: pd.array([True, pd.NA, False], dtype="boolean"), "'c'.* (position|row) 1"),
    "missing object": (lambda: pd.Series([1, None, 2], dtype=object), "'c' has no value in row 1"),
    "infinite": (lambda: [1.0, 2.0, -np.inf], r"`arms\['c'\]` must be finite, got -inf at position 2"),
    "too large": (lambda: pd.Series([1, 2, 10**400], dtype=object), "'c'.* no double can hold"),
}


@pytest.mark.parametrize(("values", "message"), REFUSED.values(), ids=REFUSED)
def test_a_column_that_is_neither_numbers_nor_text_is_refused(values: Callable[[], Any], message: str) -> None:
    """The error names the column and, where one entry is to blame, that entry or its row."""
    frame = pd.DataFrame({"a": [0.0, 1.0, 5.0], "c": values()})
    with pytest.raises(InvalidInput, match=message):
        FiniteArms(frame)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame(), "at least one column, got an empty data frame"),
        (pd.DataFrame({"a": [], "b": []}), r"at least one row .*got shape \(0, 2\)"),
        (pd.DataFrame({"c": []}, dtype=object), r"at least one row .*got shape \(0, 1\)"),
        (pd.DataFrame([[1.0, 2.0], [3.0, 5.0]], columns=["a", "a"]), "different names, got 'a' more than once; rename"),
        (pd.DataFrame({"c": ["x", "x"]}), "two different arms .* 2 copies of one"),
        (pd.DataFrame({"a": [1.0, 2.0]}, index=["p", "p"]), "different .*'p' more than once; pass other `names`"),
    ],
    ids=["no columns", "no rows", "no rows of text", "equal column names", "one level", "equal index labels"],
)
def test_a_frame_that_cannot_be_arms_is_refused(frame: Any, message: str) -> None:
    """The error says what the frame lacks."""
    with pytest.raises(InvalidInput, match=message):
        FiniteArms(frame)


def test_errors_call_the_table_what_the_caller_calls_it() -> None:
    """A bad number in the candidates is not reported as one in the arms."""
    with pytest.raises(InvalidInput, match="`candidates` must be finite"):
        FiniteArms.rows_only([[np.nan]], least=1, argument="candidates")
    with pytest.raises(InvalidInput, match=r"`candidates\['a'\]` must be finite"):
        FiniteArms.rows_only(pd.DataFrame({"a": [np.nan]}), least=1, argument="candidates")
