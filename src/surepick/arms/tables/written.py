"""Numbers and dates as people write them: decimal points, decimal commas, and what could be two numbers."""

import math
import re
from collections.abc import Sequence

import numpy as np

from surepick.core.linalg import Array

_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(?:([.,])\d{3})(?:\1\d{3})*")
_GROUPED_AND_CUT = re.compile(r"[+-]?\d{1,3}(?:(?:,\d{3})+\.\d+|(?:\.\d{3})+,\d+)")
_DATE = re.compile(r"(?:\d{4}-\d{1,2}-\d{1,2}|\d{1,2}([./])\d{1,2}\1(?:\d{4}|\d{2}))(?:[ T]\d{1,2}:\d{2}.*)?")


def parse_number(text: str) -> float | None:
    """A finite number, also with a decimal comma; None for all else, and for 1,500, which could be two numbers."""
    text = text.strip()
    value = _float(text)
    if value is None and has_decimal_comma(text) and not is_grouped(text):
        value = _float(text.replace(",", "."))
    return value if value is not None and math.isfinite(value) else None


def plain_numbers(cells: Sequence[str]) -> Array | None:
    """The cells as numbers with decimal points, NaN and infinities among them; None if one of them is no number."""
    values = [_float(cell) for cell in cells]
    return None if None in values else np.array(values, dtype=np.float64)


def has_decimal_comma(text: str) -> bool:
    """Whether this is a number if its comma is a decimal one, such as 74,5."""
    return _COMMA.fullmatch(text) is not None


def is_grouped(text: str) -> bool:
    """Whether this could be thousands, such as 1,500 or 1.500."""
    return _GROUPED.fullmatch(text) is not None


def is_like_a_number(text: str) -> bool:
    """Whether somebody may have meant a number."""
    if _float(text) is not None:
        return True
    return has_decimal_comma(text) or is_grouped(text) or _GROUPED_AND_CUT.fullmatch(text) is not None


def is_date(text: str) -> bool:
    """Whether this is a day, such as 2026-03-01 or 1.3.2026, maybe with a time."""
    return _DATE.fullmatch(text) is not None


def _float(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)  # Python reads 1_2 as 12; in a table it is a label
    except ValueError:
        return None
