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

from surepick.arms.finite import FiniteArms
from surepick.arms.protocol import ArmSet
from surepick.arms.scaled import divided
from surepick.core.design import Design, optimal_design
from surepick.core.design.directions import GapDirections, RowDirections
from surepick.core.design.generation import Ground
from surepick.core.design.solve import separating_design
from surepick.core.linalg import Array
from surepick.errors import InvalidInput, TiedArms
from surepick.planner.blocks import evidence_curve
from surepick.planner.forecast import STRAIGHT, Curve

TOL = 1e-6
"""Relative gap of the designs; the formula is far less precise."""
MOST_PAIRS = 1_000_000
"""Rows of differences between the m best and the others, if m > 1."""


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
    directions = GapDirections(arms, theta, epsilon=epsilon) if m == 1 else _pairs(arms, theta, m)
    measured = divided(arms, stds)
    plain = design = _design(measured, directions)
    price, support = 1.0, plain.support
    if costs is not None:
        design = _design(divided(arms, stds * np.sqrt(costs)), directions)
        support = design.support
        price = 1.0 / float((design.weights / costs[support]).sum())
    pulled = design.weights if costs is None else price * design.weights / costs[support]
    shares = design.multipliers / design.multipliers.sum()
    curve = STRAIGHT
    if start is not None:
        hardest = directions.vectors(design.hardest)
        if m == 1:
            hardest = math.sqrt(2.0) * hardest
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


def smallest_gap(arms: ArmSet, theta: Array, m: int = 1) -> float:
    """Return how far the m-th best arm is ahead of the next; copies of the best are no rivals."""
    if m == 1:
        return arms.rivals(arms.best(theta), theta, (), lambda gap: gap, 1).smallest_gap
    values = np.sort(_rows(arms) @ theta)[::-1]
    return float(values[m - 1] - values[m])


def _design(arms: ArmSet, directions: GapDirections | RowDirections) -> Design:
    """Return the design whose value is T."""
    if isinstance(directions, GapDirections):
        return separating_design(Ground(arms), directions, tol=TOL)
    return optimal_design(arms, directions.rows, tol=TOL)


def _pairs(arms: ArmSet, theta: Array, m: int) -> RowDirections:
    """Return the differences between each of the m best and every other arm, divided by their gaps, times sqrt(2).

    With that factor the largest y'A^-1 y is T itself.
    """
    if m * (arms.n_arms - m) > MOST_PAIRS:
        raise InvalidInput(
            f"`m` must leave at most {MOST_PAIRS:,} pairs of one of the best and another arm, got {m} of {arms.n_arms}."
        )
    X = _rows(arms)
    order = np.argsort(-(X @ theta), kind="stable")
    best, others = X[order[:m]], X[order[m:]]
    Y = (best[:, None, :] - others[None, :, :]).reshape(-1, arms.dim)
    gaps = Y @ theta
    rounding = 1e-14 * float(np.abs(theta) @ np.abs(X).max(axis=0))
    if gaps.min() <= rounding:
        raise TiedArms(
            f"the arms number {m} and {m + 1} in order of theta'x are tied (gap {gaps.min():.3g}), so no number of "
            "pulls says which belongs to the best; ask for more or fewer of them."
        )
    return RowDirections(FiniteArms.rows_only(math.sqrt(2.0) * Y / gaps[:, None], least=1))


def _rows(arms: ArmSet) -> Array:
    return arms.gather(np.arange(arms.n_arms))
