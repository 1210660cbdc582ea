"""Designs for all differences of a set of candidates, of which there are K^2 and nobody needs more than a few.

Notation: Z (K, d) candidates; y = z - z' over all pairs; phi_y(w) = y'A(w)^-1 y. The largest phi_y of a design is the
squared diameter of the mapped candidates F'z, F F' = A(w)^-1.

The pairs that matter are collected on the way: solve for those known, look for the farthest pairs under the solution,
add them, until none is farther than the solution claims. A lower bound for some pairs is one for all.
"""

from dataclasses import replace

import numpy as np

from surepick.arms.finite import FiniteArms, as_arms
from surepick.arms.protocol import ArmSet
from surepick.core.checks import check_tol
from surepick.core.design.certificate import Design
from surepick.core.design.solve import optimal_design
from surepick.core.linalg import Array, IntArray, one_blas_thread, triangular, upper_inverse
from surepick.core.rows import square_norms
from surepick.errors import NotCertified

MAX_ROUNDS = 100
# Distances are computed in blocks of so many numbers.
BLOCK = 2_000_000


def farthest_pairs(points: Array, n: int) -> tuple[IntArray, Array]:
    """Return up to n pairs (n, 2) of rows that are far apart, farthest first, and their squared distances.

    The first pair is the farthest of all; the others are each the farthest from one row. Exact: rows that the
    triangle inequality through the centre rules out are skipped. Time at most O(K^2 d), memory O(K d).
    """
    centred = points - 0.5 * (points.max(axis=0) + points.min(axis=0))
    radius = np.sqrt(square_norms(centred))
    order = np.argsort(-radius, kind="stable")
    centred, radius = centred[order], radius[order]
    squares = radius * radius
    found: list[tuple[float, int, int]] = []
    least = 0.0  # squared distance below which a pair is of no use
    start, step = 0, max(1, BLOCK // max(1, len(points)))
    while start < len(centred) and (2.0 * radius[start]) ** 2 >= least:
        rows = centred[start : start + step]
        distance = squares[start : start + len(rows), None] + squares[None, :] - 2.0 * (rows @ centred.T)
        for i, j in enumerate(np.argmax(distance, axis=1).tolist()):
            first, second = sorted((int(order[start + i]), int(order[j])))
            found.append((float(distance[i, j]), first, second))
        found = sorted(set(found), key=lambda pair: (-pair[0], pair[1:]))[:n]
        least = found[0][0] if len(found) < n else found[-1][0]
        start += step
    pairs = np.array([pair[1:] for pair in found], dtype=np.int64)
    # From the differences themselves: the expanded square above loses digits for nearly equal rows.
    return pairs, square_norms(points[pairs[:, 0]] - points[pairs[:, 1]])


@one_blas_thread
def pairwise_design(arms: ArmSet, candidates: Array, *, tol: float = 1e-2, warm_start: Design | None = None) -> Design:
    """Return the design on `arms` that minimises the largest (z - z')'A(w)^-1 (z - z') over all pairs of rows.

    `candidates` (m, d) are rows, at least two different ones. The result's `candidates` are the differences that
    turned out to matter; value and lower bound are certified for all of them.
    """
    tol = check_tol(tol)
    arms = as_arms(arms)
    n_new = 4 * arms.dim
    start = np.eye(arms.dim) if warm_start is None else _factor(arms, warm_start)
    pairs, _ = farthest_pairs(candidates @ start, n_new)
    known = {tuple(pair) for pair in pairs.tolist()}
    rows = candidates[pairs[:, 0]] - candidates[pairs[:, 1]]
    design = warm_start
    for _ in range(MAX_ROUNDS):
        design = optimal_design(arms, FiniteArms.rows_only(rows, least=1), tol=0.5 * tol, warm_start=design)
        farthest, squares = farthest_pairs(candidates @ _factor(arms, design), n_new)
        solved = replace(design, value=max(design.value, float(squares[0])))
        new = [pair for pair in farthest.tolist() if tuple(pair) not in known]
        if solved.gap <= tol or not new:
            return solved
        known |= {tuple(pair) for pair in new}
        index = np.array(new)
        rows = np.vstack([rows, candidates[index[:, 0]] - candidates[index[:, 1]]])
    raise NotCertified(f"the design for all pairs of {len(candidates)} candidates did not settle within {tol:g}.")


def _factor(arms: ArmSet, design: Design) -> Array:
    """Return F with |F'y|^2 = y'A(w)^-1 y."""
    return upper_inverse(triangular(np.sqrt(design.weights)[:, None] * arms.gather(design.support)))
