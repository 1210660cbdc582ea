"""Labels of measurements: the day, the bench, the plate or the question that a measurement belongs to.

Measurements with the same level of a factor form a group, and a group may read high or low as a whole. The option
`groups` of a task says what follows from the labels. A label says where and when a measurement is made, and never
depends on measured values.
"""

import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from operator import index
from typing import Any, final

from surepick._texts import control_in
from surepick.errors import InvalidInput

GroupLabel = tuple[tuple[str, str], ...]
"""Pairs of factor and level, sorted by factor: (("bench", "B"), ("day", "3")); empty: no label."""
FACTOR = "group"
"""The factor of a label that is one text."""
ITEM = "item"
"""The factor of questions, prompts, panellists: whatever several arms are measured on."""
WORKER = "worker"
"""The factor of the worker who measures."""
LONGEST = 200
"""Characters of a factor or of a level."""
MOST_FACTORS = 8
_NEEDED = '`group` must be a text such as "day 3", or factors with their levels such as {"day": 3, "bench": "B"}'


@final
@dataclass(frozen=True, slots=True)
class GroupEffect:
    """How far the readings of one group stand apart from the others, by estimate."""

    label: GroupLabel
    """One factor and its level."""
    n: int
    """Measurements of the group that count."""
    offset: float
    """How much higher the group reads than the mean of all groups of its factor; NaN if unknown."""
    half_width: float
    """Half the width of an interval of about 95 % around the offset; NaN or infinite if unknown."""
    note: str = ""
    """A sentence about the group; empty if there is nothing to say."""


def group_label(value: Any = None, *, item: Any = None, worker: str | None = None) -> GroupLabel:
    """Return the label that a user gave.

    Args:
        value: a text or a number, which is the level of the factor "group"; factors with their levels; a label; or None
            for none.
        item: the level of the factor "item"; None for none.
        worker: the level of the factor "worker"; None for none.

    Raises:
        InvalidInput: it is no label.
    """
    if value is None and item is None and worker is None:
        return ()  # nearly always
    pairs = [(_text(factor), _level(level)) for factor, level in _pairs(value)]
    pairs += [(factor, _level(level)) for factor, level in ((ITEM, item), (WORKER, worker)) if level is not None]
    label = dict(pairs)
    if len(label) < len(pairs):
        twice = next(factor for place, (factor, _) in enumerate(pairs) if factor in dict(pairs[:place]))
        raise InvalidInput(f"{_NEEDED}; got two levels of {twice!r}; give one.")
    if len(label) > MOST_FACTORS:
        raise InvalidInput(f"{_NEEDED}, {MOST_FACTORS} factors at most, got {len(label)}; name fewer.")
    return tuple(sorted(label.items()))


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    """Return factors and levels as they were given."""
    if value is None:
        return []
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, tuple | list) and all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in value):
        return [(factor, level) for factor, level in value]
    return [(FACTOR, value)]


def _level(value: Any) -> str:
    """Return a level as a text: 3, 3.0 and "3" are one level, and a date is written as 2026-11-18."""
    if isinstance(value, date):
        return value.isoformat().removesuffix("T00:00:00")
    if isinstance(value, float) and math.isfinite(value):  # numpy's are floats too
        return f"{value:.12g}"
    try:
        return _text(value if isinstance(value, str | bool) else str(index(value)))
    except TypeError:
        raise InvalidInput(f"{_NEEDED}; got the level {reprlib.repr(value)}.") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{_NEEDED}; got {reprlib.repr(value)}.")
    text = value.strip()
    if not text or len(text) > LONGEST or control_in(text) is not None:
        raise InvalidInput(
            f"{_NEEDED}, each of 1 to {LONGEST} characters that can be seen, got {reprlib.repr(value)}; shorten or "
            "rename it."
        )
    return text


def label_text(label: GroupLabel) -> str:
    """Return a label as people read it: "bench B, day 3"."""
    return ", ".join(level if factor == FACTOR else f"{factor} {level}" for factor, level in label)


def written_label(label: GroupLabel) -> dict[str, dict[str, str]]:
    """Return the field of an event or a request that has a label; none if the label is empty."""
    return {"group": dict(label)} if label else {}


def check_fixed(what: str, asked: GroupLabel, told: GroupLabel) -> GroupLabel:
    """Return the label of a result: that of its ask, or the one told with the result if the ask has none.

    Args:
        what: names the ask.
        asked: label of the ask.
        told: label told with the result.

    Raises:
        InvalidInput: they differ. A label that could change after a look at the value has no proof.
    """
    if asked and told != asked:
        raise InvalidInput(
            f"{what} was asked for the group {label_text(asked)!r}, and its result must be told with that group or "
            f"with none, got {label_text(told)!r}; give the ask up by `fail` if it was measured elsewhere."
        )
    return told


def refuse_relabelling(group: Any) -> None:
    """Refuse another label for a result whose value is known."""
    if group is not None:
        raise InvalidInput(
            f"`correct` changes a value and never a label, got group={reprlib.repr(group)}: a label that is chosen "
            "after a look at the value has no proof. Void the measurement, giving the wrong label as the reason."
        )
