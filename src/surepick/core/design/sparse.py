"""Sparse support: moves the weights of a solved design onto few arms without losing what was certified.

Notation: U (n, d) the support's arms, whitened by the design itself; a (n,) multipliers, new weight = a_i w_i.
Null vectors v of the columns w_i u_i u_i' leave A unchanged, so weights can be moved along them, in the direction
in which their total does not grow, until one arm is empty (Caratheodory). A has d(d+1)/2 entries, hence at most
that many arms are left. If only A^-1 y of the binding directions is kept fixed, fewer arms may do.
"""

import numpy as np
import scipy

from surepick.core.linalg import Array


def information_columns(U: Array, w: Array) -> Array:
    """Return (d(d+1)/2, n): what each arm contributes to the entries of A."""
    i, j = np.triu_indices(U.shape[1])
    # Off-diagonal entries count twice, so that lengths, and with them all choices below, survive a rotation of U.
    columns: Array = (U[:, i] * U[:, j] * np.where(i == j, 1.0, np.sqrt(2.0)) * w[:, None]).T
    return columns


def score_columns(U: Array, V: Array, w: Array) -> Array:
    """Return (m d, n): what each arm contributes to A theta_j, theta_j = V_j the whitened binding directions."""
    n, d = U.shape
    columns: Array = (w[:, None, None] * (U @ V.T)[:, :, None] * U[:, None, :]).reshape(n, len(V) * d).T
    return columns


def carried(columns: Array, w: Array, *, max_work: float = np.inf) -> Array:
    """Return multipliers a >= 0 with columns @ a = columns @ 1, w'a <= w'1, and as many zeros as possible.

    `max_work`: above about this many floating-point operations nothing is moved.
    """
    p, n = columns.shape
    a = np.ones(n)
    if float(p) * n * min(p, n) > max_work:
        return a
    N = _null_space(columns)
    while N.shape[1]:
        u = _falling(N[:, -1], w)
        falling = np.flatnonzero((u < 0) & (a > 0))
        if not len(falling):
            return a
        steps = -a[falling] / u[falling]
        emptied = falling[np.argmin(steps)]
        a = np.maximum(a + steps.min() * u, 0.0)
        a[emptied] = 0.0
        # The rest of the null space that leaves the emptied arm alone.
        pivot = int(np.argmax(np.abs(N[emptied])))
        N[:, [pivot, -1]] = N[:, [-1, pivot]]
        N = N[:, :-1] - np.outer(N[:, -1], N[emptied, :-1] / N[emptied, -1])
        N[emptied] = 0.0
    return a


def _falling(u: Array, w: Array) -> Array:
    """Return u or -u, whichever does not increase the total weight; if neither does, the largest entry falls."""
    change = float(w @ u)
    if abs(change) > 1e-4 * float(w @ np.abs(u)):
        return u if change < 0 else -u
    # At a G-optimum every null vector keeps the total, so the sign of `change` would be that of a rounding error.
    return u if u[np.argmax(np.abs(u))] < 0 else -u


def _null_space(columns: Array) -> Array:
    # Columns as they are: scaled to one length, rounding would decide the first pivot and so which arms stay.
    _, R, order = scipy.linalg.qr(columns, mode="economic", pivoting=True)
    pivots = np.abs(np.diagonal(R))
    rank = int((pivots > 1e-12 * max(pivots[0], 1e-300)).sum()) if len(pivots) else 0
    n = columns.shape[1]
    N = np.zeros((n, n - rank))
    N[order[:rank]] = -scipy.linalg.solve_triangular(R[:rank, :rank], R[:rank, rank:])
    N[order[rank:]] = np.eye(n - rank)
    return N
