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
    basis = np.empty((len(R), 0))  # orthonormal, of the columns before
    for j, name in enumerate(names):
        if scale[j] == 0.0:
            found[name] = "is always 0"
            continue
        rest = columns[:, j]
        for _ in range(2):  # a second time, for what rounding has left
            rest = rest - basis @ (basis.T @ rest)
        size = np.linalg.norm(rest)
        # As in `independent_columns`: what agrees to 14 digits is the same feature.
        if size > 100 * len(names) * np.finfo(float).eps * np.linalg.norm(columns[:, j]):
            basis = np.column_stack([basis, rest / size])
            before.append(j)
        else:
            weights = np.linalg.lstsq(columns[:, before], columns[:, j], rcond=None)[0] * scale[j] / scale[before]
            found[name] = _said(parts_of(weights, [names[k] for k in before], scale[before]))
    return found


def parts_of(weights: Array, names: Sequence[str], scale: Array) -> list[tuple[str, float]]:
    """Return the features that a combination needs, with their weights; `scale` is how large they are."""
    size = np.abs(weights) * scale
    return [(names[k], float(weights[k])) for k in np.flatnonzero(size > NEGLIGIBLE * size.max()).tolist()]


def joined(words: Sequence[str]) -> str:
    """Return a, b and c."""
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


def _said(parts: Sequence[tuple[str, float]]) -> str:
    if len(parts) > 1:
        return f"follows from {joined([name for name, _ in parts])}"
    ((other, factor),) = parts
    return f"is a copy of {other}" if abs(factor - 1.0) < NEGLIGIBLE else f"is {factor:.6g} times {other}"
