"""Checks of user input, shared by every public function.

A check repairs nothing: a value is usable as it is, or an error says what is needed, what came and what to do.

**Sizes.** Numbers that are too large, too small or too close together to be squared are refused before the first
measurement. Notation: X (K, d) the arms; R (d, d) upper triangular with R'R = X'X/K, so that |R|.max(axis=0) is the
size of each feature; T (d, d) its inverse, which maps rows to coordinates in which the arms are of size 1.

A double holds 1e-308 to 1e308 and its square has to be a double too, so whatever is squared must be between 1e-154 and
1e154. Features and rewards are squared by themselves (1e120; the rest is for how ill-conditioned they are). All other
squares in the rules have the form (gap + epsilon) / (noise_std |y|), y the difference of two candidates in coordinates
T: epsilon and noise_std have a range of 1e40 each, |y| has 1e50, and 1e16 more because two doubles can be that much
closer to each other than to 0. Together 1e146; the rest is for the number of pulls.
"""

import math
import reprlib
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from surepick.core.linalg import row_codes
from surepick.errors import InvalidInput
from surepick.types import Array

if TYPE_CHECKING:
    from surepick.arms.base import ArmSet


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
        value: the value of the argument.
        needed: finishes the sentence "must be ...".
        allowed: whether a finite number is allowed.
        advice: how to correct a value that is not allowed.
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
    """Return the noise standard deviation as a float between 1e-40 and 1e40; `core.checks` has the reason."""
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
    """Return the slack as a float, 0 or between 1e-100 and 1e40; `core.checks` has the reason."""
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


def check_tol(tol: object, name: str = "tol") -> float:
    """Return a relative gap as a float in [1e-12, 1]: tighter is below what floating point can certify."""
    needed, advice = "a relative gap between 1e-12 and 1", "1e-4 is the usual choice"
    return check_number(name, tol, needed=needed, allowed=lambda x: 1e-12 <= x <= 1.0, advice=advice)


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
        with np.errstate(over="ignore"):  # a number beyond doubles becomes inf, which is refused with its place
            return raw.astype(np.float64, copy=False)
    except (OverflowError, ValueError) as error:
        raise InvalidInput(f"`{name}` must be {needed}, got one that no double can hold; rescale it.") from error


LARGEST = 1e120
"""Size that features and rewards may have, or their inverse."""
REACH = 1e50
"""How much larger than the arms candidates may be, or smaller, or closer together."""


def check_features(rows: Array, names: Sequence[str] | None = None) -> None:
    """Refuse features whose largest entry (their size) can hardly be squared; a feature that is always 0 may pass."""
    sizes = np.abs(rows).max(axis=0)
    bad = np.flatnonzero((sizes != 0.0) & ~((sizes >= 1.0 / LARGEST) & (sizes <= LARGEST)))
    if len(bad):
        j = int(bad[0])
        raise InvalidInput(
            f"features must be between {1.0 / LARGEST:g} and {LARGEST:g} in size, got {sizes[j]:.3g} for "
            f"{names[j] if names else f'x{j}'}; use other units."
        )


def check_reach(name: str, rows: "ArmSet", T: Array, reach: float) -> None:
    """Refuse rows that are more than `reach` times larger or smaller than the arms; rows that are all 0 may pass."""
    with np.errstate(over="ignore", invalid="ignore"):
        size = float(np.abs(rows.triangle() @ T).max())
    if size != 0.0 and not 1.0 / reach <= size <= reach:
        raise InvalidInput(
            f"`{name}` must be at most {reach:g} times larger or smaller than the arms, got {size:.3g} times their "
            "size; use the same units for both."
        )


def check_distinct(name: str, rows: "ArmSet", R: Array) -> None:
    """Refuse different rows that cannot be told apart, because the square of their difference vanishes.

    Two numbers differ by at least 1e-16 of the larger, so only entries that are next to nothing can make rows so
    close: rows that differ must still do so when such entries are 0. A pass over the rows, two more if there are such
    entries. Rows on a cluster are not looked at: they would have to leave it.
    """
    if not rows.is_local:
        return
    least = np.abs(R).max(axis=0) / REACH
    if not any(((np.abs(chunk) < least) & (chunk != 0.0)).any() for _, chunk in rows.chunks()):
        return
    whole = np.concatenate([row_codes(chunk + 0.0) for _, chunk in rows.chunks()])
    cut = np.concatenate([row_codes(np.where(np.abs(chunk) < least, 0.0, chunk)) for _, chunk in rows.chunks()])
    order = np.lexsort((whole, cut))
    close = (np.diff(cut[order]) == 0) & (np.diff(whole[order]) != 0)
    if close.any():
        place = int(np.argmax(close))
        i, j = sorted(order[place : place + 2].tolist())
        raise InvalidInput(
            f"rows of `{name}` must be equal or differ by {1.0 / REACH:g} times the size of the arms' features, got "
            f"rows {i} and {j} that differ by less; use the units of the arms, or make such rows equal."
        )


def check_rewards(rows: Array, theta: Array) -> None:
    """Refuse a parameter under which rewards theta'x, of these rows or of their triangle, can hardly be squared."""
    with np.errstate(over="ignore", invalid="ignore"):
        size = float(np.abs(rows @ theta).max())
    if size != 0.0 and not 1.0 / LARGEST <= size <= LARGEST:
        raise InvalidInput(
            f"rewards theta'x must be between {1.0 / LARGEST:g} and {LARGEST:g} in size, got about {size:.3g}; use "
            "another unit of reward."
        )


LATER = "later"
"""In the metadata of a field: an option that came after logs were written."""


def written(value: Any) -> str:
    """Return a value in words that are the same in every process, with all digits; identities consist of them."""
    if is_dataclass(value) and not isinstance(value, type):
        given = [(field, getattr(value, field.name)) for field in fields(value)]
        # Logs of before name no option that came later, and must open: such a one is written where it is used.
        named = [(field.name, one) for field, one in given if not (LATER in field.metadata and one is field.default)]
        return f"{type(value).__name__}({', '.join(f'{name}={written(one)}' for name, one in named)})"
    if isinstance(value, np.ndarray):
        return repr(value.tolist())
    words = repr(value)
    # An object without words of its own is written with its address in memory.
    return type(value).__qualname__ if words == object.__repr__(value) else words
