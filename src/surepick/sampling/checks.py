"""Checks of the numbers that algorithms have for options."""

import math
from typing import Literal

from surepick.core.checks import check_number
from surepick.errors import InvalidInput


def check_range(
    name: str,
    value: object,
    ends: Literal["()", "[]", "[)", "(]"],
    low: float,
    high: float = math.inf,
    *,
    needed: str,
    hint: str = "",
) -> float:
    """Return the number, if it lies between `low` and `high`; `needed` finishes "must be ...", `ends` as in (0, 1]."""
    number = check_number(name, value, needed=needed)
    if not low <= number <= high or (ends[0] == "(" and number == low) or (ends[1] == ")" and number == high):
        raise InvalidInput(f"`{name}` must be {needed}, got {number}{hint and '; ' + hint}.")
    return number
