"""How often a fixed budget ends with a wrong answer: phases (docs/guarantee.md, Theorem 43), or pulls fixed in advance.

Notation: gaps Delta_j > 0 of the candidates that are not best; a phase has n candidates, keeps k of them, and measures
the difference of the best and any other with variance at most noise_std^2 v.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import scipy

from surepick.core.checks import check_matrix, check_vector
from surepick.errors import InvalidInput


class PhaseOf(NamedTuple):
    """One phase of a method with a fixed budget."""

    n_left: int
    """Candidates of the phase."""
    n_kept: int
    """How many of them go on."""
    variance: float
    """v, the largest |z* - z|^2 in the norm of the inverse information of the phase's pulls."""


def phased_error_bound(gaps: Any, phases: Iterable[tuple[int, int, float]], noise_std: float = 1.0) -> float:
    """Return a bound on the probability that phases, each judged by its own results, drop the best candidate.

    Args:
        gaps: losses against the best of all candidates; zeros, such as that of the best itself, are left out.
        phases: a `PhaseOf` for each, or tuples (n_left, n_kept, variance).
        noise_std: sub-Gaussian scale of the noise of one pull.

    Examples:
        >>> from surepick.core.phased_error import phased_error_bound
        >>> variance = 4 * 3 / 200  # G-optimal, 3 features, 200 pulls
        >>> round(phased_error_bound([0, 0.8, 0.9, 1.0], [(4, 2, variance), (2, 1, variance)]), 4)
        0.0079
    """
    losses = np.sort(check_matrix("gaps", [gaps])[0])
    if losses[0] < 0.0:
        raise InvalidInput(f"`gaps` must be at least 0, got {losses[0]:g}; give losses against the best.")
    losses = losses[losses > 0.0]
    total = 0.0
    for n_left, n_kept, variance in phases:
        # The best is one of the n_left; the worst case has the closest others beside it.
        terms = np.exp(-(losses[: n_left - 1] ** 2) / (2.0 * noise_std**2 * variance))
        total += math.fsum(terms.tolist()) / n_kept
    return min(1.0, total)


def static_error_bound(gaps: Any, variances: Any, noise_std: float = 1.0) -> float:
    """Return a bound on the probability that the best estimate is not the best candidate, with pulls fixed in advance.

    It is the sum of Phi(-gap/(noise_std sqrt(v))) over the other candidates: each is ahead with that probability if the
    noise is Gaussian. For two candidates the bound is the probability itself.

    Args:
        gaps: losses against the best of all candidates (M,); zeros, such as that of the best itself, are left out.
        variances: v of every candidate (M,), |z* - z|^2 in the norm of the inverse information of all pulls.
        noise_std: standard deviation of the noise of one pull.

    Examples:
        >>> from surepick.core.phased_error import static_error_bound
        >>> variance = 2 / 50  # two arms of a basis, 50 pulls each
        >>> round(static_error_bound([0, 0.4], [0, variance]), 4)
        0.0228
    """
    losses = check_matrix("gaps", [gaps])[0]
    spread = check_vector("variances", variances, len(losses))
    if losses.min() < 0.0:
        raise InvalidInput(f"`gaps` must be at least 0, got {losses.min():g}; give losses against the best.")
    behind = losses > 0.0
    if not (spread[behind] > 0.0).all():
        raise InvalidInput(f"`variances` must be above 0 where there is a gap, got {spread[behind].min():g}.")
    tails = scipy.special.ndtr(-losses[behind] / (noise_std * np.sqrt(spread[behind])))
    return min(1.0, math.fsum(tails.tolist()))
