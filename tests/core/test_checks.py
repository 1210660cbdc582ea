"""Checks of single values: what is accepted unchanged, and that results are the caller's own."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from surepick.core import checks
from surepick.errors import InvalidInput

CHECKS: dict[str, Callable[[Any], float]] = {
    "delta": checks.check_delta,
    "noise_std": checks.check_noise_std,
    "epsilon": checks.check_epsilon,
    "tol": checks.check_tol,
}
ALLOWED: dict[str, Callable[[float], bool]] = {
    "delta": lambda x: 1e-300 <= x < 1.0,
    "noise_std": lambda x: 1e-40 <= x <= 1e40,
    "epsilon": lambda x: x == 0.0 or 1e-100 <= x <= 1e40,
    "tol": lambda x: 1e-12 <= x <= 1.0,
}


@pytest.mark.parametrize("name", CHECKS)
@given(value=st.floats() | st.integers() | st.floats(0.0, 1.0))
def test_a_number_is_returned_as_it_is_or_refused(name: str, value: float) -> None:
    """Inside its range a number comes back unchanged, outside it an error names the argument and the number."""
    inside = abs(value) <= np.finfo(float).max and ALLOWED[name](value)
    if inside:
        assert CHECKS[name](value) == float(value)
    else:
        with pytest.raises(InvalidInput, match=rf"^`{name}` must be .*, got .*; "):
            CHECKS[name](value)


@pytest.mark.parametrize(
    "half",
    [0.5, Fraction(1, 2), Decimal("0.5"), np.float32(0.5), np.float64(0.5), np.array(0.5)],
    ids=lambda value: type(value).__name__,
)
def test_any_real_number_type_is_a_number(half: Any) -> None:
    """Fractions, decimals and NumPy scalars are as good as floats."""
    assert checks.check_delta(half) == 0.5
    assert type(checks.check_delta(half)) is float


@pytest.mark.parametrize("value", [0.0, 1e-300, 1.0, np.nextafter(1, 0)])
def test_the_ends_of_the_range_of_delta_are_outside(value: float) -> None:
    """0 and 1 are refused, what is next to them is not."""
    if value in (0.0, 1.0):
        with pytest.raises(InvalidInput, match="strictly between 0 and 1"):
            checks.check_delta(value)
    else:
        assert checks.check_delta(value) == value


@given(value=st.integers(-5, 10**6), least=st.integers(-2, 5))
def test_counts_are_whole_numbers(value: int, least: int) -> None:
    """A whole number of any type is accepted from `least` on, a fraction never."""
    accepted: tuple[Any, ...] = (value, float(value), np.int32(value))
    for number in accepted:
        if value >= least:
            assert checks.check_count("n", number, least=least) == value
            assert type(checks.check_count("n", number, least=least)) is int
        else:
            with pytest.raises(InvalidInput, match=rf"`n` must be a whole number of at least {least}, got"):
                checks.check_count("n", number, least=least)
    with pytest.raises(InvalidInput, match="whole number"):
        checks.check_count("n", value + 0.5, least=least)


@given(values=arrays.arrays(np.float64, arrays.array_shapes(max_dims=1, max_side=6)))
def test_a_vector_is_copied_or_the_first_bad_entry_is_named(values: Any) -> None:
    """A finite vector comes back as a fresh array; otherwise the error gives the value and its position."""
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        with pytest.raises(InvalidInput, match=rf"`theta` must be finite, got {values[bad[0]]} at position {bad[0]}"):
            checks.check_vector("theta", values, len(values))
        return
    checked = checks.check_vector("theta", values, len(values))
    np.testing.assert_array_equal(checked, values)
    checked[:] = 17.0
    assert not (values == 17.0).all()


@given(values=arrays.arrays(np.float64, arrays.array_shapes(min_dims=2, max_dims=2, max_side=5)))
def test_a_matrix_is_copied_or_the_first_bad_entry_is_named(values: Any) -> None:
    """A finite matrix comes back as a fresh C-ordered array without -0.0; otherwise row and column are given."""
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0]
        with pytest.raises(InvalidInput, match=rf"`X` must be finite, got .* in row {row}, column {column}; .* rows"):
            checks.check_matrix("X", values)
        return
    checked = checks.check_matrix("X", np.asfortranarray(values))
    assert checked.flags.c_contiguous
    assert checked.flags.writeable
    assert not np.shares_memory(checked, values)
    assert not np.signbit(checked[checked == 0]).any()
    np.testing.assert_array_equal(checked, values)


@pytest.mark.parametrize(
    "values",
    [
        [[1, 2], [3, 4]],
        ((1, 2), (3, 4)),
        np.array([[1, 2], [3, 4]], dtype=object),
        np.array([[Fraction(1), Decimal(2)], [np.float32(3), 4]], dtype=object),
        np.ma.masked_array([[1, 2], [3, 4]], mask=False),
        np.array([[1, 2], [3, 4]], dtype=np.longdouble),
        np.array([[1, 2], [3, 4]], dtype=">i2"),
    ],
    ids=["lists", "tuples", "objects", "fractions", "nothing-masked", "longdouble", "big-endian"],
)
def test_whatever_holds_real_numbers_is_a_matrix(values: Any) -> None:
    """The container and the number type do not matter."""
    np.testing.assert_array_equal(checks.check_matrix("X", values, n_columns=2), [[1.0, 2.0], [3.0, 4.0]])


def test_a_number_too_large_for_a_double_is_not_cut_to_infinity() -> None:
    """What overflows is refused, as a Python int and as an extended float."""
    with pytest.raises(InvalidInput, match="no double can hold"):
        checks.check_vector("theta", [10**400, 1], 2)
    if np.finfo(np.longdouble).maxexp > np.finfo(np.float64).maxexp:
        with pytest.raises(InvalidInput, match="must be finite, got inf"):
            checks.check_vector("theta", np.array([np.longdouble(2) ** 2000, 1]), 2)
