"""Types that every layer shares."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

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
