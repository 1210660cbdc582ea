"""Known misfit: how far a block can be led astray by means that are not quite linear, and how much a verdict bears.

Notation: |mu_a - theta'x_a| <= eta for every arm a, mu_a its mean; a block pulls arm a n_a times, A = sum n_a x_a x_a';
y = x_l - x_b the leader against a rival, z = y'A^+ sum r x what the block says about it; C_a = n_a y'A^+ x_a, so that
z = sum of C_a mean_a.

If arm l is not better than b, E z <= eta |C - e_l + e_b|_1: bets with z minus this bias in the place of z stay valid
(docs/guarantee.md, Theorem 22). Where l and b themselves are pulled and nothing else, C = e_l - e_b: no bias at all.
"""

from collections.abc import Callable

import numpy as np

from surepick.core.block import RANK_TOL
from surepick.core.linalg import Array, IntArray

# Numbers of C in memory at a time.
CHUNK = 1_000_000
# The margin is found to this share of where it was looked for.
MARGIN_TOL = 1e-3


def misfit_bias(Y: Array, X: Array, counts: Array, *, leader: int, rivals: IntArray) -> Array:
    """Return |C - e_l + e_b|_1 (K,) for every rival b: the bias of z per unit of eta.

    Args:
        Y: directions x_l - x_b (K, d), in the range of the rows that were pulled.
        X: rows (s, d) of the arms the block pulled.
        counts: how often (s,), above 0.
        leader: position of l among these, -1 if the block did not pull it.
        rivals: the same for each b (K,); a b that is the leader has no bias.
    """
    root = np.sqrt(counts)
    # C = y'A^+ X' diag(n) without forming A, which would square the condition number.
    to_weights = np.linalg.pinv(root[:, None] * X, rcond=RANK_TOL) * root
    bias = np.empty(len(Y))
    step = max(1, CHUNK // len(X))
    for start in range(0, len(Y), step):
        part = slice(start, start + step)
        C, places = Y[part] @ to_weights, rivals[part]
        if leader >= 0:
            C[:, leader] -= 1.0
        pulled = np.flatnonzero(places >= 0)
        C[pulled, places[pulled]] += 1.0
        bias[part] = np.abs(C).sum(axis=1) + (leader < 0) + (places < 0)
    return bias


def largest_margin(replay: Callable[[float], bool], upper: float) -> float:
    """Return an eta, at most `upper`, at which the replay still holds, next to the largest such; 0 if there is none.

    Wealth falls as eta grows, so whoever holds at eta holds at everything below, and the search costs no risk: "right,
    if no mean is off by more than the margin" is true of all eta together.

    Args:
        replay: whether the verdict stands if every z loses eta times its bias.
        upper: where to look no further, such as the estimated lead over the closest rival.
    """
    if replay(upper):
        return upper
    low, high = 0.0, upper
    while high - low > MARGIN_TOL * upper:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if replay(middle) else (low, middle)
    return low
