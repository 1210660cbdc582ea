"""What the betting rule bets and what a block pays, for many blocks and directions at once.

The rule itself forms the same four numbers in one pass over the candidates; here they are plain arrays, so that tests
can check them and count errors on thousands of paths.
"""

import numpy as np

from surepick.core.betting.bets import GRID
from surepick.core.betting.bounded import log_capital
from surepick.errors import InvalidInput
from surepick.types import Array, BoolArray


def shrunk_beliefs(theta: Array, A_inv: Array, level: Array) -> tuple[Array, Array]:
    """Means (P, d) and covariances (P, d, d) of many blocks, as of `core.betting.bets.shrunk_belief` with noise 1.

    Shapes theta (P, d), A_inv (P, d, d), level (d,).
    """
    errors, axes = np.linalg.eigh(A_inv)
    z, u = (theta[:, None] @ axes)[:, 0], level @ axes
    t2 = (z * z).mean(axis=1)[:, None, None] * GRID[:, None]
    S = t2 + errors[:, None]
    zz, uz, uu = (((a * b)[:, None] / S).sum(axis=2) for a, b in ((z, z), (u, z), (u, u)))
    c2 = ((u * z / errors).sum(axis=1) / (u * u / errors).sum(axis=1)) ** 2
    t1 = np.stack([0.0 * c2, c2], axis=1)[:, :, None]
    scores = -np.log(S).sum(axis=2)[:, None] - np.log1p(t1 * uu[:, None]) - zz[:, None]
    scores += t1 * uz[:, None] ** 2 / (1.0 + t1 * uu[:, None])
    rows = np.arange(len(z))
    has_level, j = divmod(scores.reshape(len(z), -1).argmax(axis=1), len(GRID))
    S, t2, uz, uu = S[rows, j], t2[rows, j], uz[rows, j], uu[rows, j]
    pull, g = has_level * c2 / (1.0 + c2 * uu), errors / S * u
    mean = t2 / S * z + (pull * uz)[:, None] * g
    cov = (t2 / S * errors)[:, :, None] * np.eye(z.shape[1]) + pull[:, None, None] * g[:, :, None] * g[:, None]
    return (axes @ mean[:, :, None])[:, :, 0], axes @ cov @ axes.swapaxes(1, 2)


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


def log_click_capital(
    c: Array, lam: Array, counts: Array, clicks: Array, centres: Array, *, epsilon: float = 0.0
) -> Array:
    """Return the log return of a unit (n,) if rewards are 0 or 1, from counts and clicks per arm of the block.

    Args:
        c: weight of a pull of each arm (n, S).
        lam: stakes (n, k).
        counts: pulls of each arm (S,); or (n, S), as may be clicks and centres.
        clicks: how many of them paid 1 (S,).
        centres: (S,).
        epsilon: slack.
    """
    if not np.all((clicks >= 0.0) & (clicks <= counts)):
        raise InvalidInput("log_click_capital needs between 0 and as many clicks as pulls of every arm.")
    rewards = np.repeat([1.0, 0.0], c.shape[1])
    times = np.concatenate([clicks, counts - clicks], axis=-1)
    return log_capital(np.tile(c, 2), lam, rewards, np.tile(centres, 2), times, epsilon=epsilon)
