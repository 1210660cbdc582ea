"""How hard it is to tell the best arms from the rest if theta is what somebody thinks: designs, priced.

Notation: y_j = (x_u - x_j) / (theta'(x_u - x_j) + epsilon) for u among the m best and j among the others; arms x_a with
noise s_a and cost c_a per pull. A pull of x_a with noise s_a tells as much as one of x_a/s_a with noise 1, and a unit
of money on x_a as much as one pull of x_a/sqrt(c_a). So with T = 2 min over w of max over y of y'A(w)^-1 y for arms
x_a / (s_a sqrt(c_a)), the weights w are shares of the cost, no method has an expected cost below
T kl(delta, 1 - delta), and a nat takes T of cost, spread over pulls like w_a/c_a.
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from surepick.arms.base import ArmSet
from surepick.arms.views import divided
from surepick.core.design import Design
from surepick.core.design.directions import GapDirections
from surepick.core.design.generation import PreparedArms
from surepick.core.design.solve import separating_design
from surepick.planning.forecast import STRAIGHT, Curve, evidence_curve
from surepick.types import Array

TOL = 1e-6
"""Relative gap of the designs; the formula is far less precise."""


@final
@dataclass(frozen=True, slots=True)
class Difficulty:
    """What a nat of evidence takes."""

    time: float
    """Pulls; infinite if arms are tied."""
    n_rivals: float
    """Rivals that have to be refuted at once, in effect; at least 1."""
    price: float
    """Mean cost of a pull."""
    least: float
    """Pulls that no design can be below; NaN if an answer may lose something: no bound is known then."""
    least_cost: float
    """The same for cost."""
    curve: Curve = STRAIGHT
    """What the first pulls are worth."""


TIED = Difficulty(math.inf, 1.0, 1.0, math.inf, math.inf)


def difficulty(
    arms: ArmSet,
    theta: Array,
    stds: Array,
    *,
    start: Design | None = None,
    epsilon: float = 0.0,
    costs: Array | None = None,
    m: int = 1,
) -> Difficulty:
    """Return what a nat takes.

    Args:
        arms: what may be pulled.
        theta: the parameter (d,).
        stds: the noise of every arm (K,).
        start: the G-optimal design; None: do not look at the first pulls.
        epsilon: slack.
        costs: of a pull of every arm (K,); None: pulls cost 1.
        m: how many of the best are sought.

    Raises:
        TiedArms: the m-th best arm and the next are equally good.
    """
    directions = GapDirections(arms, theta, leaders=leaders_of(arms, theta, m), epsilon=epsilon)
    measured = divided(arms, stds)
    plain = design = separating_design(PreparedArms(measured), directions, tol=TOL)
    price, support = 1.0, plain.support
    if costs is not None:
        design = separating_design(PreparedArms(divided(arms, stds * np.sqrt(costs))), directions, tol=TOL)
        support = design.support
        price = 1.0 / float((design.weights / costs[support]).sum())
    pulled = design.weights if costs is None else price * design.weights / costs[support]
    shares = design.multipliers / design.multipliers.sum()
    curve = STRAIGHT
    if start is not None:
        # T is twice the largest y'A^-1 y.
        hardest = math.sqrt(2.0) * directions.vectors(design.hardest)
        curve = evidence_curve(measured, start, (support, pulled), hardest, shares)
    return Difficulty(
        time=design.value / price,
        # The perplexity of the multipliers: by how many rivals, in effect, the lower bound is carried.
        n_rivals=math.exp(-float(shares @ np.log(shares))),
        price=price,
        least=math.nan if epsilon else float(plain.lower_bound),
        least_cost=math.nan if epsilon else float(design.lower_bound),
        curve=curve,
    )


def leaders_of(arms: ArmSet, theta: Array, m: int) -> list[int]:
    """Return the m best arms, the best first."""
    best = arms.best(theta)
    return [best, *arms.rivals(best, theta, (), np.copy, m).index[: m - 1].tolist()]


def smallest_gap(arms: ArmSet, theta: Array, m: int = 1) -> float:
    """Return how far the m-th best arm is ahead of the next; copies of the best are no rivals."""
    leaders = leaders_of(arms, theta, m)
    others = np.ones(arms.n_arms, dtype=bool)
    others[leaders] = False
    return arms.rivals(leaders[-1], theta, (), lambda gap: gap, 1, others).smallest_gap
