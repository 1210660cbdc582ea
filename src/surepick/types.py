"""Types that every layer shares."""

from collections.abc import Sequence
from typing import Any, Literal, NewType

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

Arm = int | str | Sequence[float] | Array
"""An arm as users name it: a row number, a name, or a vector of a set that has no list of arms."""
ArmKey = int | tuple[float, ...]
"""An arm in logs and tables: a row number, or the entries of a vector."""

AskNumber = NewType("AskNumber", int)
"""An ask as its learner numbers it, from 0; an ask that failed is made again under its number."""
AskId = NewType("AskId", int)
"""An ask as its study numbers it, from 1; every attempt has a number of its own."""
ResultNumber = NewType("ResultNumber", int)
"""A result as its learner numbers it, from 0."""
MeasurementId = NewType("MeasurementId", int)
"""A result as its study numbers it, from 1."""

Guarantee = Literal["proved", "published", "heuristic", "doubtful", "withdrawn", "none"]
"""What is known about the error probability of a rule: "proved" in the docs, or "published" in a paper cited there.

"doubtful": the residuals speak against the normal noise that the proof assumes. "withdrawn": the rewards contradict the
model, or the noise level that was given.
"""


def data_frame(columns: dict[str, Any]) -> Any:
    """Return columns of equal length as a pandas `DataFrame`, or as they are where pandas is not installed."""
    try:
        import pandas as pd  # noqa: PLC0415 (optional, and slow to import)
    except ImportError:
        return columns
    return pd.DataFrame(columns)
