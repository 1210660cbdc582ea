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

import surepick as sp
from surepick import FiniteArms, InvalidInput, read_arms
from surepick.arms.finite import FeatureTable, as_arms, feature_table
from surepick.errors import TableWarning


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


@given(seed=st.integers(0, 2**32 - 1), n_levels=st.integers(2, 5))
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
    assert table({"c": ["x", "y", "x", "y"]}, intercept).feature_names == text_names
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
    "durations": (lambda: pd.to_timedelta([1, 2, 2], unit="D"), "rows 0, 1 and 2: column 'c' must .* got .*timedelta"),
    "durations in nanoseconds": (
        lambda: pd.to_timedelta([1, 2, 2], unit="D").astype("timedelta64[ns]"),
        "rows 0, 1 and 2: column 'c' must .* got .*timedelta",
    ),
    "complex": (lambda: [1j, 2.0, 3.0], "'c' must hold numbers alone or text alone, got 1j"),
    "lists": (lambda: [[1], [2], [3]], r"'c' must hold .* got \[1\]"),
    "arrays": (lambda: pd.Series([np.ones(2), np.ones(2), np.ones(2)]), r"'c' must hold .* got array"),
    "text and numbers": (lambda: pd.Series(["a", 1, "1"], dtype=object), "'c' must hold .* got 1 .*; convert"),
    "missing text": (lambda: ["a", None, "b"], "row 1: column 'c' has no value; fill it"),
    "missing text (NaN)": (lambda: pd.Series(["a", "b", np.nan], dtype=object), "row 2: column 'c' has no value"),
    "missing text (NA)": (lambda: pd.array(["a", pd.NA, "b"], dtype="string"), "row 1: column 'c' has no value"),
    "missing category": (lambda: pd.Categorical([None, "a", "b"]), "row 0: column 'c' has no value"),
    "missing numeric category": (lambda: pd.Categorical([1, 2, None]), "row 2: column 'c' has no value"),
    "missing number": (lambda: [1.0, np.nan, 2.0], "row 1: column 'c' has no value"),
    "missing Int64": (lambda: pd.array([1, 2, pd.NA], dtype="Int64"), "row 2: column 'c'"),
    "missing boolean": (lambda: pd.array([True, pd.NA, False], dtype="boolean"), "row 1: column 'c'"),
    "missing object": (lambda: pd.Series([1, None, 2], dtype=object), "row 1: column 'c' has no value"),
    "infinite": (lambda: [1.0, 2.0, -np.inf], "row 2: column 'c' must be a finite number, got -inf"),
    "too large": (
        lambda: pd.Series([1, 2, 10**400], dtype=object),
        r"row 2: column 'c' must be a finite number, got 10{70,80}\.\.\.",
    ),
}


ALIKE: dict[str, dict[str, Any]] = {
    "name": {"batch": ["A", "B", "C", "D"], "u": [1.0, 2.0, 4.0, 9.0]},
    "dates": {"u": [1.0, 2.0, 4.0], "day": pd.to_datetime(DAYS)},
    "dates with a zone": {"u": [1.0, 2.0, 4.0], "day": pd.to_datetime(DAYS, utc=True)},
    "date objects": {"u": [1.0, 2.0, 4.0], "day": [dt.date(2024, 1, day) for day in (1, 2, 2)]},
    "price": {"u": [1.0, 2.0, 4.0], "price": [3.0, 4.0, 9.0]},
    "numbering": {"Nr": [1, 2, 3], "u": [1.0, 2.0, 4.0]},
    "categories": {"u": [1.0, 2.0, 4.0, 5.0], "c": pd.Series([1, 1, 2, 3], dtype="category")},
}


@pytest.mark.parametrize("columns", ALIKE.values(), ids=ALIKE)
@pytest.mark.filterwarnings("ignore::surepick.errors.TableWarning")
def test_a_frame_is_read_as_read_arms_reads_it(columns: dict[str, Any]) -> None:
    """A column that names the arms, or has no role, is no feature; the same in `FiniteArms`, `as_arms`, `read_arms`."""
    frame = pd.DataFrame(columns)
    read = read_arms(frame)
    for take in (FiniteArms, as_arms):
        arms = take(frame)
        assert isinstance(arms, FiniteArms)
        assert (arms.names, arms.feature_names) == (read.names, read.feature_names)
        assert arms.digest() == read.digest()


def test_columns_that_are_left_out_of_a_frame_are_named_in_a_warning() -> None:
    """`identify` prints no table of roles; `names` replace what a column or the index would say."""
    frame = pd.DataFrame({"u": [1.0, 2.0, 4.0], "price": [3.0, 4.0, 9.0], "remark": ["", "late", ""]}, index=["p"] * 3)
    for take in (FiniteArms, as_arms):
        with pytest.raises(InvalidInput, match="names the arms"):
            take(frame)
        with pytest.warns(TableWarning, match=r"Not used as features: price \(price\) and remark \(remark\)\. To use"):
            take(frame.reset_index(drop=True))
    with pytest.warns(TableWarning):
        assert FiniteArms(frame, names=["a", "b", "c"]).names == ("a", "b", "c")


TAKERS: dict[str, Callable[[Any], object]] = {
    "FiniteArms": FiniteArms,
    "identify": lambda frame: sp.identify(frame, float, max_pulls=1),
    "create_study": lambda frame: sp.create_study("three", arms=frame, storage="memory:"),
}


@pytest.mark.parametrize("taker", TAKERS)
def test_the_warning_names_the_line_of_the_call(taker: str) -> None:
    """Not a line of surepick, in which the user has nothing to change."""
    frame = pd.DataFrame({"u": [1.0, 2.0, 4.0], "price": [3.0, 4.0, 9.0]})
    with pytest.warns(TableWarning) as warned:
        TAKERS[taker](frame)
    assert {one.filename for one in warned} == {__file__}


@pytest.mark.parametrize(("values", "message"), REFUSED.values(), ids=REFUSED)
def test_a_column_that_is_neither_numbers_nor_text_is_refused(values: Callable[[], Any], message: str) -> None:
    """The error names the column and, where one entry is to blame, that entry or its row."""
    frame = pd.DataFrame({"a": [0.0, 1.0, 5.0], "c": values()})
    with pytest.raises(InvalidInput, match=message):
        FiniteArms(frame)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame(), "at least one column and one row, got an empty one"),
        (pd.DataFrame({"a": [], "b": []}), "at least one column and one row"),
        (pd.DataFrame({"c": []}, dtype=object), "at least one column and one row"),
        (pd.DataFrame([[1.0, 2.0], [3.0, 5.0]], columns=["a", "a"]), "different names, got 'a' twice; rename"),
        (pd.DataFrame({"c": ["x", "x"]}), "no feature columns: column 'c' x in every row"),
        (pd.DataFrame({"a": [1.0, 2.0]}, index=["p", "p"]), r"names the arms, .* 'p' is in rows 0 \(p\) and 1"),
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
    with pytest.raises(InvalidInput, match="`candidates` row 0: column 'a' has no value"):
        FiniteArms.rows_only(pd.DataFrame({"a": [np.nan]}), least=1, argument="candidates")
