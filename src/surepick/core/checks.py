"""Checks of user input, shared by every public function.

Nothing is repaired here: a value is either usable as it is or refused with a sentence that says what was
needed, what came and what to do.
"""

import math
from typing import Any

import numpy as np

from surepick.core.linalg import Array
from surepick.errors import InvalidInput


def check_number(name: str, value: object, *, needed: str) -> float:
    """Return `value` as a finite float; `needed` finishes the sentence "must be ..."."""
    if isinstance(value, bool | np.bool_ | str | bytes):
        raise InvalidInput(f"`{name}` must be {needed}, got {value!r}; pass a number.")
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"`{name}` must be {needed}, got {value!r}; pass a number.") from error
    if not math.isfinite(number):
        raise InvalidInput(f"`{name}` must be {needed}, got {number}; pass a finite number.")
    return number


def check_delta(delta: object) -> float:
    """Return the risk as a float strictly between 0 and 1."""
    number = check_number("delta", delta, needed="a risk strictly between 0 and 1")
    if not 0.0 < number < 1.0:
        raise InvalidInput(
            f"`delta` must be a risk strictly between 0 and 1, got {number}; 0.05 means 95 % confidence."
        )
    return number


def check_noise_std(noise_std: object) -> float:
    """Return the noise standard deviation as a float above 0."""
    number = check_number("noise_std", noise_std, needed="a standard deviation above 0")
    if not number > 0.0:
        raise InvalidInput(
            f"`noise_std` must be a standard deviation above 0, got {number}; use an upper bound on the noise of "
            "one measurement."
        )
    return number


def check_epsilon(epsilon: object) -> float:
    """Return the slack as a float of at least 0."""
    number = check_number("epsilon", epsilon, needed="a slack of at least 0")
    if number < 0.0:
        raise InvalidInput(
            f"`epsilon` must be a slack of at least 0, got {number}; 0 asks for the best arm itself, a larger "
            "value accepts any arm that loses at most that much."
        )
    return number


def check_tol(tol: object) -> float:
    """Return a relative gap as a float in [1e-12, 1]: tighter is below what floating point can certify."""
    number = check_number("tol", tol, needed="a relative gap between 1e-12 and 1")
    if not 1e-12 <= number <= 1.0:
        raise InvalidInput(f"`tol` must be a relative gap between 1e-12 and 1, got {number}; 1e-4 is the usual choice.")
    return number


def check_count(name: str, value: object, *, least: int) -> int:
    """Return `value` as an int of at least `least`; 3.0 is accepted, 3.5 and True are not."""
    needed = f"a whole number of at least {least}"
    number = check_number(name, value, needed=needed)
    if number != int(number) or number < least:
        raise InvalidInput(f"`{name}` must be {needed}, got {value!r}.")
    return int(number)


def check_vector(name: str, vector: Any, length: int) -> Array:
    """Return `vector` as a float array of that length, all finite."""
    array = _as_float_array(name, vector, needed=f"a vector of {length} numbers")
    if array.shape != (length,):
        raise InvalidInput(f"`{name}` must be a vector of {length} numbers, one per feature, got shape {array.shape}.")
    if not np.isfinite(array).all():
        bad = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InvalidInput(f"`{name}` must be finite, got {array[bad]} at position {bad}.")
    return array


def check_matrix(name: str, matrix: Any, *, n_columns: int | None = None) -> Array:
    """Return `matrix` as a fresh C-ordered float array with at least one row and one column, all finite."""
    wanted = f"a table of numbers with {'some' if n_columns is None else n_columns} columns"
    array = _as_float_array(name, matrix, needed=wanted)
    if array.ndim != 2 or 0 in array.shape or (n_columns is not None and array.shape[1] != n_columns):
        raise InvalidInput(f"`{name}` must be {wanted} and at least one row, got shape {array.shape}.")
    # Adding 0.0 turns -0.0 into 0.0, so that rows that compare equal are equal bit for bit.
    array = np.add(array, 0.0, order="C")
    finite = np.isfinite(array).all(axis=1)
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0])
        column = int(np.flatnonzero(~np.isfinite(array[row]))[0])
        raise InvalidInput(
            f"`{name}` must be finite, got {array[row, column]} in row {row}, column {column}; "
            f"{int((~finite).sum())} of {len(array)} rows are affected: fill or drop them."
        )
    return array


def _as_float_array(name: str, value: Any, *, needed: str) -> Array:
    try:
        raw = np.asarray(value)
    except ValueError as error:  # rows of different lengths
        raise InvalidInput(f"`{name}` must be {needed}, got rows of different lengths.") from error
    if raw.dtype.kind in "OUSMmcV":
        if raw.dtype.kind == "O":
            try:
                return raw.astype(np.float64)
            except (TypeError, ValueError):
                example = raw.ravel()[:1].tolist()
                raise InvalidInput(f"`{name}` must be {needed}, got values such as {example}.") from None
        raise InvalidInput(f"`{name}` must be {needed}, got values of type {raw.dtype}.")
    return raw.astype(np.float64, copy=False)
