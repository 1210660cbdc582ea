"""Values in words that are the same in every process: what tells one learner, or one set of arms, from another."""

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def written(value: Any) -> str:
    """Return a value in words, with all digits."""
    if is_dataclass(value) and not isinstance(value, type):
        options = ", ".join(f"{field.name}={written(getattr(value, field.name))}" for field in fields(value))
        return f"{type(value).__name__}({options})"
    if isinstance(value, np.ndarray):
        return repr(value.tolist())
    words = repr(value)
    # An object without words of its own is written with its address in memory.
    return type(value).__qualname__ if words == object.__repr__(value) else words
