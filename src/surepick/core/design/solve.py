"""Certified designs: which arms to pull, in which proportions, and a proof that no other proportions are better.

Notation: A(w) = sum w_i x_i x_i'; y directions. `core.design.times` has characteristic times and lower bounds.

**All pairs.** `pairwise_design` resolves all differences of a set of candidates. Z (K, d) candidates; y = z - z' over
all K^2 pairs; phi_y(w) = y'A(w)^-1 y. The largest phi_y of a design is the squared diameter of the mapped candidates
F'z, F F' = A(w)^-1. Few pairs matter, and the solver collects them on the way: solve for the known pairs, look for the
farthest pairs under the solution, add them, until none is farther than the solution claims. A lower bound for some
pairs is a lower bound for all.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from surepick.arms.base import ArmSet
from surepick.arms.finite import FiniteArms, as_arms, rows_like
from surepick.core.checks import (
    REACH,
    check_reach,
    check_tol,
)
from surepick.core.design.certificate import EPS, SLACK, Design
from surepick.core.design.directions import Directions, GapDirections, RowDirections
from surepick.core.design.generation import Generation, PreparedArms, Start, frame_of
from surepick.core.linalg import one_blas_thread, square_norms, triangular, upper_inverse
from surepick.errors import InvalidInput, NotCertified
from surepick.types import Array, IntArray


def as_candidates(name: str, rows: Any, arms: ArmSet, *, reach: float = REACH) -> ArmSet:
    """Return rows with as many features as the arms and at most `reach` times their size; they need not span."""
    if not isinstance(rows, ArmSet):
        rows = rows_like(rows, arms, argument=name)
    candidates: ArmSet = rows
    if candidates.dim != arms.dim:
        raise InvalidInput(
            f"`{name}` must have the arms' {arms.dim} features, got {candidates.dim}; encode both in the same way."
        )
    # Text columns with other levels give as many, but different, features. Tables without names may go with any.
    unnamed = tuple(f"x{j}" for j in range(arms.dim))
    theirs, ours = (getattr(side, "feature_names", None) or unnamed for side in (candidates, arms))
    if theirs != ours and unnamed not in (theirs, ours):
        raise InvalidInput(
            f"`{name}` must have the arms' features {', '.join(ours)}, got {', '.join(theirs)}; give both the same "
            "columns in the same order, with the same levels of text."
        )
    check_reach(name, candidates, frame_of(arms), reach)
    return candidates


def optimal_design(arms: Any, directions: Any = None, tol: float = 1e-4, *, warm_start: Design | None = None) -> Design:
    """Return weights that minimise the largest y'A(w)^-1 y over the directions y.

    Args:
        arms: the arms that may be pulled.
        directions: (m, d) rows to resolve, need not be arms. None means the arms themselves: the G-optimal
            design, whose value is the number of features.
        tol: relative gap between value and lower bound to reach.
        warm_start: an earlier design on the same arms, for speed alone.
    """
    arms = as_arms(arms)
    if directions is None:
        return _checked(_solved(PreparedArms(arms), None, tol=tol, warm_start=warm_start), arms, None)
    rows = as_candidates("directions", directions, arms, reach=1e140)  # the value is about their square
    if not any(chunk.any() for _, chunk in rows.chunks()):
        raise InvalidInput("`directions` are all zero, so there is nothing to resolve; pass differences of arms.")
    design = _solved(PreparedArms(arms), RowDirections(rows), tol=tol, warm_start=warm_start, candidates=rows)
    return _checked(design, arms, None)


def gap_design(
    arms: ArmSet,
    directions: GapDirections,
    *,
    tol: float,
    warm_start: Design | None = None,
    candidates: ArmSet | None = None,
) -> Design:
    """Return the design that attains T* for these directions; `candidates` is None where these are the arms."""
    design = _solved(
        PreparedArms(arms), directions, tol=tol, warm_start=warm_start, candidates=candidates, theta=directions.theta
    )
    return _checked(design, arms, directions)


def separating_design(
    ground: PreparedArms,
    directions: Directions,
    *,
    tol: float,
    warm_start: Design | None = None,
    is_sparse: bool = True,
) -> Design:
    """Return the design that separates a given leader from the candidates that still count, or resolves given rows.

    Learners call this again and again. Unlike `characteristic_time` it takes the directions themselves, and uses up to
    d(d+1)/2 arms unless `is_sparse`, which saves passes over large sets. Only weights, value and bounds
    of the result are meaningful when some candidates no longer count. The value of listed directions has no factor 2.
    """
    gaps = directions if isinstance(directions, GapDirections) else None
    return _solved(
        ground,
        directions,
        tol=tol,
        warm_start=warm_start,
        candidates=None if gaps is None else gaps.candidates,
        theta=None if gaps is None else gaps.theta,
        is_sparse=is_sparse,
    )


@one_blas_thread
def _solved(
    ground: PreparedArms,
    directions: Directions | None,
    *,
    tol: float,
    warm_start: Design | None,
    candidates: ArmSet | None = None,
    theta: Array | None = None,
    is_sparse: bool = True,
) -> Design:
    generation = Generation(ground, directions, tol=check_tol(tol), is_sparse=is_sparse)
    solution = generation.solve(None if warm_start is None else _start(warm_start, ground.arms))
    scale = 1.0 if theta is None else 2.0
    used = solution.lam > 0
    order = np.argsort(solution.support)
    return Design(
        value=scale * solution.value,
        lower_bound=scale * solution.bound,
        support=solution.support[order],
        weights=solution.w[order] / solution.w.sum(),
        hardest=solution.hardest[used],
        multipliers=solution.lam[used],
        alternatives=solution.alternatives[used],
        theta=theta,
        candidates=candidates,
        effort=generation.effort,
        promising=generation.pool,
    )


@one_blas_thread
def _checked(design: Design, arms: ArmSet, directions: GapDirections | None) -> Design:
    """Return the design with claims that its certificate supports, even where the solver's rounding shows.

    The solver maps the arms by their own triangle in double precision, and the certificate is stored in the user's
    coordinates: both lose as many digits as the features' conditioning costs. Gaps lose those that cancel in them.
    """
    R = arms.triangle()
    lost = float(np.linalg.cond(R / np.abs(R).max(axis=0)))
    if directions is not None:
        lost += float((np.abs(directions.vectors(design.hardest)) @ np.abs(directions.theta)).max(initial=0.0))
    # Measured: up to 5 eps times that. Ordinary features are far below the slack and are spared the passes.
    if 32.0 * EPS * lost <= SLACK:
        return design
    design.effort.passes += 2
    return design.restated(arms)


def _start(earlier: Design, arms: ArmSet) -> Start:
    if not isinstance(earlier, Design):
        raise InvalidInput(f"`warm_start` must be an earlier design, got {type(earlier).__name__}.")
    if earlier.support[-1] >= arms.n_arms:
        raise InvalidInput(
            f"`warm_start` must be a design on the same {arms.n_arms} arms, got one that uses arm "
            f"{earlier.support[-1]}; leave it out to start from scratch."
        )
    multipliers = dict(zip(earlier.hardest.tolist(), earlier.multipliers.tolist(), strict=True))
    return Start(earlier.support, earlier.weights, multipliers, earlier.promising)


MAX_ROUNDS = 100
# Numbers in a block of distances.
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
