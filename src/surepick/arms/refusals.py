"""What no table of arms may be, whether it is in memory, in a file or on a cluster.

Notation: R (d, d) upper triangular with R'R = X'X, of all rows X.
"""

from collections.abc import Sequence

import numpy as np

from surepick.core.linalg import Array, independent_columns
from surepick.errors import ArmsDoNotSpan, InvalidInput

Place = tuple[int, int, float]
"""Row, column and value of a number."""


def first_not_finite(start: int, rows: Array) -> Place | None:
    """Return the first number that is not finite, in rows numbered from `start` on; None if there is none."""
    finite = np.isfinite(rows)
    if finite.all():
        return None
    i, j = (int(place[0]) for place in np.nonzero(~finite))
    return start + i, j, float(rows[i, j])


def check_finite(what: str, bad: Place | None, column_names: Sequence[object]) -> None:
    """Refuse a number that is not finite."""
    if bad is not None:
        row, column, value = bad
        raise InvalidInput(
            f"{what} must be finite, got {value} in row {row}, column {column_names[column]}; fill or drop such rows."
        )


def check_choice(n_arms: int, *, is_constant: bool = False, where: str = "") -> None:
    """Refuse arms that leave no choice: fewer than two, or copies of one."""
    if n_arms < 2:
        raise InvalidInput(f"at least two arms are needed, got {n_arms}{where}; add arms, one is no choice.")
    if is_constant:
        raise InvalidInput(
            f"at least two different arms are needed, got {n_arms} copies of one{where}; add features that differ."
        )


def check_span(R: Array, feature_names: Sequence[str], *, advice: str, where: str = "") -> None:
    """Refuse arms that leave a direction unmeasured; `advice` may name features that are `{enough}`."""
    kept, dim = independent_columns(R), len(feature_names)
    if len(kept) < dim:
        empty = [name for name, column in zip(feature_names, R.T, strict=True) if not column.any()]
        why = f" (always zero: {', '.join(empty)})" if empty else ""
        enough = ", ".join(feature_names[j] for j in kept)
        raise ArmsDoNotSpan(
            f"arms must span R^{dim} but have rank {len(kept)}{why}{where}; {advice.format(enough=enough)}."
        )
