"""Features that follow from others, said by name: v is 2 u."""

from collections.abc import Sequence

import numpy as np

from surepick.core.linalg import Array

# Weights below this share of the largest are rounding.
NEGLIGIBLE = 1e-7


def redundant_features(R: Array, names: Sequence[str]) -> dict[str, str]:
    """Return the features that follow from those before them, each with how it does.

    Args:
        R: (d, d) upper triangular with R'R = X'X.
        names: of the features.
    """
    scale = np.abs(R).max(axis=0)
    columns = R / np.where(scale > 0.0, scale, 1.0)
    found: dict[str, str] = {}
    before: list[int] = []
    for j, name in enumerate(names):
        if scale[j] == 0.0:
            found[name] = "is always 0"
            continue
        weights = np.linalg.lstsq(columns[:, before], columns[:, j], rcond=None)[0]
        rest = columns[:, before] @ weights - columns[:, j]
        # As in `independent_columns`: what agrees to 14 digits is the same feature.
        if np.linalg.norm(rest) <= 100 * len(names) * np.finfo(float).eps * np.linalg.norm(columns[:, j]):
            chosen = np.flatnonzero(np.abs(weights) > NEGLIGIBLE * np.abs(weights).max()).tolist()
            found[name] = _said([(names[before[i]], weights[i] * scale[j] / scale[before[i]]) for i in chosen])
        else:
            before.append(j)
    return found


def _said(parts: Sequence[tuple[str, float]]) -> str:
    if len(parts) > 1:
        return f"follows from {', '.join(part for part, _ in parts[:-1])} and {parts[-1][0]}"
    ((other, factor),) = parts
    return f"is a copy of {other}" if abs(factor - 1.0) < NEGLIGIBLE else f"is {factor:.6g} times {other}"
