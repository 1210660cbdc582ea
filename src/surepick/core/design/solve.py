"""Certified designs: which arms to pull, in which proportions, and what no other proportions could beat.

Notation: A(w) = sum w_i x_i x_i'; y directions; T* = 2 min over w of max over b of |x_best - x_b|^2 in the norm of
A(w)^-1, divided by the squared gap: the characteristic time of Jedra and Proutiere (2020), Theorem 1.
"""

import math
from typing import Any

import numpy as np

from surepick.arms.finite import FiniteArms, as_arms
from surepick.arms.protocol import ArmSet
from surepick.core.checks import check_delta, check_noise_std, check_tol, check_vector
from surepick.core.design.certificate import EPS, SLACK, Design
from surepick.core.design.directions import Directions, GapDirections, RowDirections
from surepick.core.design.generation import Generation, Ground, Start, frame_of
from surepick.core.linalg import Array, one_blas_thread
from surepick.core.sizes import REACH, check_distinct, check_reach, check_rewards
from surepick.errors import InvalidInput


def as_candidates(name: str, rows: Any, arms: ArmSet, *, reach: float = REACH) -> ArmSet:
    """Return rows with as many features as the arms and at most `reach` times their size; they need not span."""
    # Columns with names are encoded as those of the arms were.
    intercept = getattr(arms, "has_added_constant", False) if hasattr(rows, "columns") else None
    if not isinstance(rows, ArmSet):
        rows = FiniteArms.rows_only(rows, least=1, argument=name, intercept=intercept)
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
        arms: what may be pulled.
        directions: (m, d) rows to resolve, need not be arms. None means the arms themselves: the G-optimal
            design, whose value is the number of features.
        tol: relative gap between value and lower bound to reach.
        warm_start: an earlier design on the same arms, for speed alone.
    """
    arms = as_arms(arms)
    if directions is None:
        return _checked(_solved(Ground(arms), None, tol=tol, warm_start=warm_start), arms, None)
    rows = as_candidates("directions", directions, arms, reach=1e140)  # the value is about their square
    if not any(chunk.any() for _, chunk in rows.chunks()):
        raise InvalidInput("`directions` are all zero, so there is nothing to resolve; pass differences of arms.")
    design = _solved(Ground(arms), RowDirections(rows), tol=tol, warm_start=warm_start, candidates=rows)
    return _checked(design, arms, None)


def characteristic_time(
    arms: Any, theta: Any, candidates: Any = None, tol: float = 1e-4, *, warm_start: Design | None = None
) -> Design:
    """Return T* of the arms under theta with the weights that attain it.

    Args:
        arms: what may be pulled.
        theta: the parameter; the reward of arm x is theta'x plus noise.
        candidates: what is compared, if not the arms themselves.
        tol: relative gap between value and lower bound to reach.
        warm_start: an earlier design on the same arms (and candidates), for speed alone.

    Raises:
        InvalidInput: an argument cannot be used, or its numbers cannot be squared (`core.sizes`).
        TiedArms: two candidates are equally good, so T* is infinite.
    """
    arms = as_arms(arms)
    theta = check_vector("theta", theta, arms.dim)
    others = None if candidates is None else as_candidates("candidates", candidates, arms)
    compared = arms if others is None else others
    check_distinct("arms" if others is None else "candidates", compared, arms.triangle() / math.sqrt(arms.n_arms))
    for rows in (arms, compared):
        check_rewards(rows.triangle(), theta)
    directions = GapDirections(compared, theta)
    design = _solved(Ground(arms), directions, tol=tol, warm_start=warm_start, candidates=others, theta=theta)
    return _checked(design, arms, directions)


def lower_bound(arms: Any, theta: Any, delta: float = 0.05, noise_std: float = 1.0, candidates: Any = None) -> float:
    """Return the expected pulls that no delta-correct algorithm can be below: T* sigma^2 kl(delta, 1 - delta).

    T* enters through its certified lower end. Gaussian noise of standard deviation `noise_std`. A risk of one half or
    more needs no pulls at all as far as this bound can tell.
    """
    delta, noise_std = check_delta(delta), check_noise_std(noise_std)
    design = characteristic_time(arms, theta, candidates, tol=1e-6)
    if delta >= 0.5:
        return 0.0
    return design.lower_bound * noise_std**2 * (1.0 - 2.0 * delta) * math.log((1.0 - delta) / delta)


def separating_design(
    ground: Ground,
    directions: GapDirections,
    *,
    tol: float,
    warm_start: Design | None = None,
    is_sparse: bool = True,
) -> Design:
    """Return the design that separates a given leader from the candidates that still count.

    What a learner asks for again and again: like `characteristic_time`, but with the directions at hand, and on up
    to d(d+1)/2 arms if it need not be `is_sparse`, which saves passes over large sets. Only weights, value and bounds
    of the result are meaningful when some candidates no longer count.
    """
    return _solved(
        ground,
        directions,
        tol=tol,
        warm_start=warm_start,
        candidates=directions.candidates,
        theta=directions.theta,
        is_sparse=is_sparse,
    )


@one_blas_thread
def _solved(
    ground: Ground,
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
