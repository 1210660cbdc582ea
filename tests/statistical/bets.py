"""What the betting rule bets and what a block pays, for many blocks and directions at once.

The rule itself forms the same four numbers in one pass over the candidates; here they are plain arrays, so that tests
can check them and count errors on thousands of paths.
"""

import numpy as np

from surepick.core.block import root_of
from surepick.core.linalg import Array, BoolArray


def bet_parameters(
    Y: Array, theta: Array, A_inv: Array, *, noise_std: float, epsilon: float = 0.0
) -> tuple[Array, Array]:
    """Mean m and variance s2 of the bets along the rows of Y, from the results before the block.

    Shapes Y (..., n, d), theta (..., d), A_inv (..., d, d); returns two (..., n).
    """
    m = np.maximum((Y @ theta[..., None])[..., 0] + epsilon, 0.0)
    s2 = noise_std**2 * ((Y @ root_of(A_inv)) ** 2).sum(axis=-1)
    return m, s2


def block_statistics(Y: Array, A: Array, b: Array, *, noise_std: float) -> tuple[Array, Array, BoolArray]:
    """Value z and variance v of what a block says about theta'y, and whether y is in its range.

    Shapes Y (..., n, d) with one y per row, A (..., d, d), b (..., d); returns three (..., n). Outside the range
    z and v mean nothing.
    """
    inverse = np.linalg.pinv(A, rcond=1e-12, hermitian=True)
    solved = Y @ inverse
    z = (solved @ b[..., None])[..., 0]
    v = noise_std**2 * (solved * Y).sum(axis=-1)
    outside = Y - solved @ A
    return z, v, ((outside**2).sum(axis=-1) <= 1e-18 * (Y * Y).sum(axis=-1)) & (v > 0)
