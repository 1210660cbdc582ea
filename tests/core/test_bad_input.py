"""Bad input: every public function refuses what it cannot use, and says what was needed, what came and what to do."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import surepick as sp
from surepick.errors import ArmsDoNotSpan, InvalidInput, NotCertified, SurepickError, TiedArms

X = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]])
THETA = np.array([1.0, 0.2])
NAN, INF = float("nan"), float("inf")

BAD_ARMS: dict[str, tuple[Any, str]] = {
    "nan": ([[1.0, NAN], [0.0, 1.0]], "finite, got nan in row 0, column 1; .*fill or drop"),
    "inf": ([[1.0, 0.0], [-INF, 1.0]], "finite, got -inf in row 1, column 0; .*fill or drop"),
    "half of the rows nan": ([[NAN], [1.0], [NAN], [2.0]], "2 of 4 rows"),
    "none": (None, "table of numbers .*got a NoneType; convert"),
    "number": (3.0, r"at least one row .*got shape \(\)"),
    "vector": ([1.0, 2.0, 3.0], r"table of numbers .*got shape \(3,\); pass one row per"),
    "cube": (np.zeros((2, 2, 2)), r"got shape \(2, 2, 2\); pass one row per"),
    "no rows": (np.empty((0, 3)), r"at least one row .*got shape \(0, 3\)"),
    "no columns": (np.empty((3, 0)), r"one column.*got shape \(3, 0\)"),
    "empty list": ([], r"got shape \(0,\)"),
    "list of empty lists": ([[], []], r"got shape \(2, 0\)"),
    "ragged": ([[1.0, 2.0], [3.0]], "rows of different lengths; give all the same"),
    "text": ("arms.csv", "table of numbers .*got a str; convert"),
    "table of text": ([["1", "2"], ["3", "4"]], "table of numbers .*got text; convert"),
    "text among numbers": ([[1.0, "x"], [2.0, 3.0]], "table of numbers .*got text; convert"),
    "text among objects": (np.array([[1.0, "x"], [2, 3]], dtype=object), "got 'x' among them; replace"),
    "text that reads like numbers": (np.array([["1", "2"], ["3", "5"]], dtype=object), "got '1' among them"),
    "none among numbers": ([[1.0, None], [2.0, 3.0]], "got None among them; replace"),
    "ragged objects": (np.array([[1, 2], [3]], dtype=object), r"got \[1, 2\] among them"),
    "complex": ([[1j, 0.0], [0.0, 1.0]], "got complex128; convert .*real"),
    "dates": (np.array([["2024-01-01"], ["2024-01-02"]], dtype="M8[D]"), r"got datetime64\[D\]; convert"),
    "records": (np.zeros(3, dtype=[("a", float), ("b", float)]), "got void.*; convert"),
    "masked": (np.ma.masked_array(X, mask=X == 0.6), "got a masked array; fill or drop"),
    "sparse": (sparse.csr_array(X), "got a csr_array; convert it to an array"),
    "dictionary": ({"a": [1.0]}, "got a dict; convert"),
    "generator": ((row for row in X), "got a generator; convert"),
    "too large an int": ([[10**400, 1], [1, 2]], "no double can hold; rescale"),
    "one arm": ([[1.0, 2.0]], "at least two arms are needed, got 1; add"),
    "equal arms": ([[1.0, 2.0]] * 3, "at least two different arms are needed, got 3 copies of one; add"),
    "zero arms": (np.zeros((4, 2)), "at least two different arms are needed, got 4 copies"),
}
BAD_SPANS: dict[str, tuple[Any, str]] = {
    "fewer arms than features": (np.eye(3)[:2], r"span R\^3 but have rank 2 .*on_span"),
    "equal columns": (X[:, [0, 0, 1]], r"span R\^3 but have rank 2; drop redundant features, or .*on_span\(X\)"),
    "sum of columns": (np.column_stack([X, X.sum(axis=1)]), r"span R\^3 but have rank 2; .*on_span"),
    "zero column": (np.column_stack([X, np.zeros(3)]), r"rank 2 \(always zero: x2\); .*on_span"),
    "arms on one line": ([[1.0, 2.0], [2.0, 4.0], [-1.0, -2.0]], r"span R\^2 but have rank 1; .*on_span"),
}


@pytest.mark.parametrize(("arms", "message"), BAD_ARMS.values(), ids=BAD_ARMS)
def test_unusable_arms_are_refused(arms: Any, message: str) -> None:
    """Arms that are no table of two or more different finite vectors raise InvalidInput, not something from NumPy."""
    with pytest.raises(InvalidInput, match=message) as raised:
        sp.FiniteArms(arms)
    assert type(raised.value) is InvalidInput


@pytest.mark.parametrize("arms", [bad for bad, _ in BAD_ARMS.values() if not hasattr(bad, "gi_frame")])
@pytest.mark.parametrize(
    "use",
    [sp.optimal_design, lambda arms: sp.characteristic_time(arms, THETA), sp.FiniteArms.on_span],
    ids=["optimal_design", "characteristic_time", "on_span"],
)
def test_every_way_to_pass_arms_checks_them(arms: Any, use: Callable[[Any], object]) -> None:
    """Designs that are given a raw table refuse the same tables."""
    with pytest.raises(InvalidInput):
        use(arms)


@pytest.mark.parametrize(("arms", "message"), BAD_SPANS.values(), ids=BAD_SPANS)
def test_arms_that_do_not_span_are_refused_with_the_remedy(arms: Any, message: str) -> None:
    """The error gives dimension and rank, and the remedy it offers works on the same input."""
    with pytest.raises(ArmsDoNotSpan, match=message):
        sp.FiniteArms(arms)
    with pytest.raises(ArmsDoNotSpan, match=message):
        sp.optimal_design(arms)
    spanned = sp.FiniteArms.on_span(arms)
    assert sp.optimal_design(spanned).value == pytest.approx(spanned.dim, rel=1e-3)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b"], "one name per arm: 3 arms, got 2 names; add or remove"),
        (["a", "b", "c", "d"], "one name per arm: 3 arms, got 4 names"),
        ([], "one name per arm: 3 arms, got 0 names"),
        (["a", "b", "a"], "different for different arms, got 'a' more than once; pass other"),
        ([1, "1", 2], "different for different arms, got '1' more than once"),
        ("abc", "list of 3 names, got the single text 'abc'; pass one per arm"),
        (7, "list of 3 names, got 7; pass one per arm"),
    ],
    ids=["too few", "too many", "none", "repeated", "equal as text", "a text", "a number"],
)
def test_unusable_names_are_refused(names: Any, message: str) -> None:
    """Names are as many as arms and different; a text is not taken apart into letters."""
    with pytest.raises(InvalidInput, match=message):
        sp.FiniteArms(X, names=names)


NOT_NUMBERS: dict[str, Any] = {
    "nan": NAN,
    "inf": INF,
    "-inf": -INF,
    "true": True,
    "numpy true": np.True_,
    "array of true": np.array(True),  # noqa: FBT003
    "text": "0.05",
    "bytes": b"0.05",
    "array of text": np.array("0.05"),
    "none": None,
    "list": [0.05],
    "array": np.array([0.05]),
    "complex": 0.05j,
    "huge": 10**400,
}
OUT_OF_RANGE: dict[str, tuple[float, ...]] = {
    "delta": (0.0, 1.0, -0.1, 1.5, 5, 1e-301),
    "noise_std": (0.0, -1.0, -1e-300, 1e-41, 1e41),
    "tol": (0.0, -1e-4, 1e-13, 1.0001, 2),
}
TAKES: dict[str, Callable[[Any], object]] = {
    "delta": lambda value: sp.lower_bound(X, THETA, delta=value),
    "noise_std": lambda value: sp.lower_bound(X, THETA, noise_std=value),
    "tol": lambda value: sp.optimal_design(X, tol=value),
}


@pytest.mark.parametrize("name", ["delta", "tol"])
@pytest.mark.parametrize("value", NOT_NUMBERS.values(), ids=NOT_NUMBERS)
def test_an_option_that_is_not_a_finite_number_is_refused(name: str, value: Any) -> None:
    """Nothing is parsed, truncated or taken for 1: the error names the option and asks for a number."""
    with pytest.raises(InvalidInput, match=rf"^`{name}` must be a .*, got .*; pass a (finite )?number"):
        TAKES[name](value)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in OUT_OF_RANGE.items() for value in values]
)
def test_an_option_outside_its_range_is_refused(name: str, value: float) -> None:
    """The error gives the range, the number that came and advice after a semicolon."""
    with pytest.raises(InvalidInput, match=rf"^`{name}` must be .*, got {re.escape(str(float(value)))}; \w+"):
        TAKES[name](value)


def test_the_tolerance_of_a_characteristic_time_is_checked_too() -> None:
    """Both kinds of design share the check."""
    with pytest.raises(InvalidInput, match=r"`tol` must be a relative gap between 1e-12 and 1, got 0.0; 1e-4"):
        sp.characteristic_time(X, THETA, tol=0.0)


BAD_THETAS: dict[str, tuple[Any, str]] = {
    "too short": ([1.0], r"vector of 2 numbers, got shape \(1,\); pass"),
    "too long": ([1.0, 2.0, 3.0], r"vector of 2 numbers, got shape \(3,\); pass"),
    "a row": ([[1.0, 2.0]], r"vector of 2 numbers, got shape \(1, 2\); pass a flat"),
    "a number": (1.0, r"vector of 2 numbers, got shape \(\)"),
    "empty": ([], r"got shape \(0,\)"),
    "nan": ([1.0, NAN], "finite, got nan at position 1; replace"),
    "inf": ([INF, 1.0], "finite, got inf at position 0; replace"),
    "text": ("ab", "vector of 2 numbers, got a str"),
    "texts": (["1", "2"], "vector of 2 numbers, got text"),
    "none": (None, "vector of 2 numbers, got a NoneType"),
    "complex": ([1j, 0.0], "got complex128"),
    "ragged": ([[1.0], [1.0, 2.0]], "rows of different lengths"),
    "masked": (np.ma.masked_array([1.0, 2.0], mask=[True, False]), "got a masked array"),
}


@pytest.mark.parametrize(("theta", "message"), BAD_THETAS.values(), ids=BAD_THETAS)
@pytest.mark.parametrize("use", [sp.characteristic_time, sp.lower_bound])
def test_an_unusable_theta_is_refused(use: Callable[[Any, Any], object], theta: Any, message: str) -> None:
    """A parameter has one finite number per feature."""
    with pytest.raises(InvalidInput, match=rf"^`theta` must be .*{message}"):
        use(X, theta)


BAD_ROWS: dict[str, tuple[Any, str]] = {
    "one column too many": (np.eye(3), "the arms' 2 features, got 3; encode both in the same way"),
    "one column too few": ([[1.0], [2.0]], "the arms' 2 features, got 1; encode both in the same way"),
    "a vector": ([1.0, 0.0], r"table of numbers .*got shape \(2,\); pass one row per"),
    "nan": ([[1.0, 0.0], [NAN, 1.0]], "finite, got nan in row 1, column 0"),
    "no rows": (np.empty((0, 2)), r"at least one row .*got shape \(0, 2\)"),
    "text": ([["a", "b"], ["c", "d"]], "table of numbers .*got text"),
}


@pytest.mark.parametrize(("rows", "message"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_unusable_candidates_are_refused(rows: Any, message: str) -> None:
    """Candidates are finite vectors with the features of the arms."""
    with pytest.raises(InvalidInput, match=message):
        sp.characteristic_time(X, THETA, candidates=rows)


@pytest.mark.parametrize(("rows", "message"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_unusable_directions_are_refused(rows: Any, message: str) -> None:
    """Directions are finite vectors with the features of the arms."""
    with pytest.raises(InvalidInput, match=message):
        sp.optimal_design(X, directions=rows)


@pytest.mark.parametrize("rows", [[[1.0, 0.0]], [[1.0, 0.0], [1.0, -0.0]]], ids=["one", "copies"])
def test_a_single_candidate_leaves_nothing_to_separate(rows: Any) -> None:
    """One candidate, or copies of one, cannot be compared with anything."""
    with pytest.raises(InvalidInput, match="at least two different candidates are needed"):
        sp.characteristic_time(X, THETA, candidates=rows)


def test_zero_directions_leave_nothing_to_resolve() -> None:
    """All-zero directions are refused; a zero row among others costs nothing and is allowed."""
    with pytest.raises(InvalidInput, match=r"`directions` are all zero.*; pass differences of arms"):
        sp.optimal_design(X, directions=np.zeros((2, 2)))
    assert sp.optimal_design(np.eye(2), directions=[[0.0, 0.0], [1.0, 0.0]]).value == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize(
    ("arms", "theta", "pair"),
    [
        (np.eye(3), [1.0, 1.0, 0.0], ("0", "1")),
        (np.eye(3), [0.0, 0.0, 0.0], ("0", "1")),
        ([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], [0.3, 0.3], ("0", "1")),
        ([[0.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 0.0], ("1", "3")),
    ],
    ids=["two at the top", "theta zero", "all three", "beside a copy"],
)
def test_ties_at_the_top_name_the_arms_and_the_remedy(arms: Any, theta: Any, pair: tuple[str, str]) -> None:
    """T* is infinite, and the error says which arms tie and that epsilon > 0 is the remedy."""
    message = rf"arms {pair[0]} and {pair[1]} are tied .*T\* is infinite; .*epsilon > 0"
    for use in (sp.characteristic_time, sp.lower_bound):
        with pytest.raises(TiedArms, match=message):
            use(arms, theta)


def test_copies_of_the_best_arm_are_no_tie() -> None:
    """An arm does not compete with its own aliases."""
    twice = sp.characteristic_time(np.vstack([X, X]), THETA)
    assert twice.value == pytest.approx(sp.characteristic_time(X, THETA).value, rel=2e-4)


class TestDesigns:
    """Methods of a design check what they are given."""

    design = sp.optimal_design(np.eye(3))

    @pytest.mark.parametrize("n", [1, 2])
    def test_too_few_pulls_cannot_be_rounded(self, n: int) -> None:
        """Every arm of the support needs one pull; the error gives the least number and two remedies."""
        with pytest.raises(InvalidInput, match=rf"`n` must be at least 3 .*got {n}; raise it, or .*larger `tol`"):
            self.design.round(n)

    def test_more_pulls_than_doubles_count_are_refused(self) -> None:
        """Rounding would go round and round."""
        assert self.design.round(10**15).sum() == 10**15
        with pytest.raises(InvalidInput, match=r"`n` must be at most 1,000,000,000,000,000, got"):
            self.design.round(10**20)

    @pytest.mark.parametrize("n", [0, -3, 2.5, True, "9", None, NAN, [9]])
    def test_pulls_are_a_whole_number(self, n: Any) -> None:
        """A count that is no whole number of at least 1 is refused."""
        with pytest.raises(InvalidInput, match=r"`n` must be a whole number of at least 1, got .*; pass"):
            self.design.round(n)

    def test_a_gap_that_is_not_reached_is_not_certified(self) -> None:
        """The error gives the gap asked for, the gap proved, and two remedies."""
        loose = sp.characteristic_time(np.random.default_rng(0).standard_normal((40, 3)), [1.0, 0.4, -0.2], tol=0.1)
        assert loose.gap > 1e-9
        with pytest.raises(
            NotCertified, match=r"within 1e-09 .* within .*; solve again with a smaller `tol`, or accept"
        ):
            loose.require(gap=1e-9)
        assert loose.require(gap=0.1) is loose

    @pytest.mark.parametrize("gap", [NAN, "small", None, True])
    def test_the_gap_asked_for_is_a_number(self, gap: Any) -> None:
        """NaN would compare false with everything and is refused instead."""
        with pytest.raises(InvalidInput, match=r"`gap` must be a relative gap of at least 0, got .*; pass a"):
            self.design.require(gap=gap)

    def test_a_theta_changed_later_does_not_change_the_design(self) -> None:
        """The design keeps its own theta, so its certificate still holds."""
        arms, theta = sp.FiniteArms(X), THETA.copy()
        design = sp.characteristic_time(arms, theta)
        theta[:] = [0.0, 5.0]
        np.testing.assert_array_equal(design.theta, THETA)
        assert design.verify(arms)


@pytest.mark.parametrize("error", [InvalidInput, ArmsDoNotSpan, TiedArms, NotCertified, sp.NotEnoughData])
def test_one_except_clause_catches_every_error(error: type[Exception]) -> None:
    """All errors derive from SurepickError; those about arguments are ValueErrors as well."""
    assert issubclass(error, SurepickError)
    assert issubclass(error, ValueError) == issubclass(error, InvalidInput)
