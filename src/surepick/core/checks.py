"""Checks of user input, shared by every public function.

Nothing is repaired here: a value is either usable as it is or refused with a sentence that says what was
needed, what came and what to do.
"""

import math
import reprlib
from collections.abc import Callable
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from surepick.core.linalg import Array
from surepick.errors import InvalidInput


def check_number(
    name: str,
    value: object,
    *,
    needed: str,
    allowed: Callable[[float], bool] = math.isfinite,
    advice: str = "",
    takes_booleans: bool = False,
) -> float:
    """Return `value` as a float, if it is finite and allowed.

    Args:
        name: of the argument.
        value: what came.
        needed: finishes the sentence "must be ...".
        allowed: which finite numbers will do.
        advice: what to do if it will not.
        takes_booleans: whether True stands for 1 and False for 0.
    """
    if type(value) is float and allowed is math.isfinite and math.isfinite(value):
        return value  # a reward, of which there are many
    number = value if type(value) is float else _as_number(name, value, needed, takes_booleans=takes_booleans)
    if not (math.isfinite(number) and allowed(number)):
        advice = advice if math.isfinite(number) else "pass a finite number"
        raise InvalidInput(f"`{name}` must be {needed}, got {number}{advice and '; ' + advice}.")
    return number


def _as_number(name: str, value: Any, needed: str, *, takes_booleans: bool) -> float:
    if takes_booleans and isinstance(value, bool | np.bool_):
        return float(value)
    # `float` would read text, take True for 1 and an array of one entry for that entry.
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    if isinstance(value, bool | str | bytes) or kind not in "iuf" or getattr(value, "ndim", 0) != 0:
        raise InvalidInput(f"`{name}` must be {needed}, got {reprlib.repr(value)}; pass a number.")
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"`{name}` must be {needed}, got {reprlib.repr(value)}; pass a number.") from error
    except OverflowError:  # an int beyond the range of doubles
        return math.inf


def check_fraction(name: str, value: object) -> float:
    """Return a number strictly between 0 and 1."""
    needed, advice = "a number strictly between 0 and 1", "0.1 is usual"
    return check_number(name, value, needed=needed, allowed=lambda x: 0.0 < x < 1.0, advice=advice)


def check_delta(delta: object) -> float:
    """Return the risk as a float between 1e-300, below which 1/delta is no number, and 1."""
    needed, advice = "a risk strictly between 0 and 1, of at least 1e-300", "0.05 means 95 % confidence"
    return check_number("delta", delta, needed=needed, allowed=lambda x: 1e-300 <= x < 1.0, advice=advice)


def check_noise_std(noise_std: object) -> float:
    """Return the noise standard deviation as a float between 1e-40 and 1e40; `core.sizes` has the reason."""
    needed = "a standard deviation above 0, between 1e-40 and 1e40"
    advice = "use an upper bound on the noise of one measurement, and a unit in which it has such a size"
    return check_number("noise_std", noise_std, needed=needed, allowed=lambda x: 1e-40 <= x <= 1e40, advice=advice)


def check_noise_stds(stds: object) -> Array:
    """Return the noise standard deviation of every arm, read-only."""
    array = _as_float_array("noise_std", stds, needed="one standard deviation, or a list of one for each arm")
    if array.ndim != 1 or not len(array):
        raise InvalidInput(
            f"`noise_std` must be one standard deviation, or a list of one for each arm, got shape {array.shape}."
        )
    bad = np.flatnonzero(~((array >= 1e-40) & (array <= 1e40)))
    if len(bad):
        i = int(bad[0])
        raise InvalidInput(
            f"`noise_std` must be above 0 for every arm, between 1e-40 and 1e40, got {array[i]} for arm {i}; use upper "
            "bounds on the noise of one measurement."
        )
    array = array.copy()
    array.flags.writeable = False
    return array


def check_reward_range(reward_range: Any) -> tuple[float, float]:
    """Return the smallest and the largest possible reward; their distance is what noise_std may be, twice."""
    needed = "(lo, hi), the smallest and the largest possible reward"
    is_pair = not isinstance(reward_range, str | bytes) and np.shape(reward_range) == (2,)
    if not is_pair:
        raise InvalidInput(f"`reward_range` must be {needed}, got {reprlib.repr(reward_range)}; (0, 1) is for clicks.")
    lo, hi = (check_number("reward_range", end, needed=f"{needed}: two finite numbers") for end in reward_range)
    if not (2e-40 <= hi - lo <= 2e40 and max(-lo, hi) <= 1e8 * (hi - lo)):
        raise InvalidInput(
            f"`reward_range` must be {needed}, with lo < hi, between 2e-40 and 2e40 apart and not far from 0 beside "
            f"that, got ({lo:g}, {hi:g}); rescale the rewards, or measure them from another zero."
        )
    return lo, hi


def check_epsilon(epsilon: object) -> float:
    """Return the slack as a float, 0 or between 1e-100 and 1e40; `core.sizes` has the reason."""
    needed = "a slack of at least 0, namely 0 or between 1e-100 and 1e40"
    advice = "0 asks for the best arm itself, more accepts one that loses at most that much, in a unit of such a size"
    return check_number(
        "epsilon", epsilon, needed=needed, allowed=lambda x: x == 0.0 or 1e-100 <= x <= 1e40, advice=advice
    )


def check_misfit(misfit: object) -> float:
    """Return how far means may be off their linear fit as a float between 0 and 1e40."""
    needed = "a distance of at least 0 between means and their linear fit"
    advice = "0 says that means are exactly linear in the features"
    return check_number("misfit", misfit, needed=needed, allowed=lambda x: 0.0 <= x <= 1e40, advice=advice)


def check_tol(tol: object) -> float:
    """Return a relative gap as a float in [1e-12, 1]: tighter is below what floating point can certify."""
    needed, advice = "a relative gap between 1e-12 and 1", "1e-4 is the usual choice"
    return check_number("tol", tol, needed=needed, allowed=lambda x: 1e-12 <= x <= 1.0, advice=advice)


def check_count(name: str, value: object, *, least: int) -> int:
    """Return `value` as an int of at least `least`; 3.0 is accepted, 3.5 and True are not."""
    needed = f"a whole number of at least {least}"
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= least:
        return int(value)  # exact, however large
    number = check_number(name, value, needed=needed)
    if number != int(number) or number < least:
        raise InvalidInput(f"`{name}` must be {needed}, got {value!r}; pass such a number.")
    return int(number)


def check_seed(seed: object) -> int:
    """Return a seed as an int of at least 0; explicit always, so None is refused."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidInput(f"`seed` must be a whole number of at least 0, got {reprlib.repr(seed)}; pass one.")
    return int(seed)


def check_vector(name: str, vector: Any, length: int) -> Array:
    """Return `vector` as a fresh float array of that length, all finite."""
    needed = f"a vector of {length} numbers"
    array = _as_float_array(name, vector, needed=needed)
    if array.shape != (length,):
        raise InvalidInput(
            f"`{name}` must be {needed}, got shape {array.shape}; pass a flat list or array of {length}."
        )
    if not np.isfinite(array).all():
        bad = int(np.argmin(np.isfinite(array)))
        raise InvalidInput(f"`{name}` must be finite, got {array[bad]} at position {bad}; replace it by a number.")
    return array.copy()


def check_matrix(name: str, matrix: Any, *, n_columns: int | None = None) -> Array:
    """Return `matrix` as a fresh C-ordered float array with at least one row and one column, all finite."""
    needed = f"a table of numbers with at least one row and {n_columns or 'one'} column{'s' if n_columns else ''}"
    array = _as_float_array(name, matrix, needed=needed)
    if array.ndim != 2 or 0 in array.shape or (n_columns is not None and array.shape[1] != n_columns):
        raise InvalidInput(f"`{name}` must be {needed}, got shape {array.shape}; pass one row per vector.")
    # Adding 0.0 turns -0.0 into 0.0, so that rows that compare equal are equal bit for bit.
    array = np.add(array, 0.0, order="C")
    if not np.isfinite(array).all():
        bad = np.argwhere(~np.isfinite(array))
        row, column = bad[0]
        raise InvalidInput(
            f"`{name}` must be finite, got {array[row, column]} in row {row}, column {column}; "
            f"{len(np.unique(bad[:, 0]))} of {len(array)} rows are affected: fill or drop them."
        )
    return array


def is_number(value: object) -> bool:
    """Return whether one entry of an object array is a real number; text that reads like one is not."""
    return isinstance(value, Real | Decimal | np.bool_)


def _as_float_array(name: str, value: Any, *, needed: str) -> Array:
    if np.ma.is_masked(value):  # the values under a mask are not meant to be used
        raise InvalidInput(f"`{name}` must be {needed}, got a masked array; fill or drop its missing entries.")
    try:
        raw = np.asarray(value)
    except ValueError as error:
        raise InvalidInput(f"`{name}` must be {needed}, got rows of different lengths; give all the same.") from error
    if raw.dtype.kind not in "biufO" or (raw.dtype.kind == "O" and raw.ndim == 0):
        came = f"a {type(value).__name__}" if raw.ndim == 0 else "text" if raw.dtype.kind in "UST" else raw.dtype.name
        raise InvalidInput(f"`{name}` must be {needed}, got {came}; convert it to an array of real numbers.")
    if raw.dtype.kind == "O":
        strange = [entry for entry in raw.flat if not is_number(entry)][:1]
        if strange:
            raise InvalidInput(f"`{name}` must be {needed}, got {reprlib.repr(strange[0])} among them; replace it.")
    try:
        with np.errstate(over="ignore"):  # what a double cannot hold becomes inf, which is refused with its place
            return raw.astype(np.float64, copy=False)
    except (OverflowError, ValueError) as error:
        raise InvalidInput(f"`{name}` must be {needed}, got one that no double can hold; rescale it.") from error
