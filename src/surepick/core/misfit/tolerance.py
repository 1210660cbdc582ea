"""Known misfit: how far a block can be led astray by means that are not quite linear, and how much a verdict bears.

Notation: |mu_a - theta'x_a| <= eta for every arm a, mu_a its mean; a block pulls arm a n_a times; y = x_l - x_b the
leader against a rival; C_a the weight of arm a in z = sum of C_a mean_a, the block's measurement of theta'y: linear in
y with sum C_a x_a = y, for least squares C_a = n_a y'A^+ x_a with A = sum n_a x_a x_a'.

If arm l is not better than b, E z <= eta |C - e_l + e_b|_1: bets with z minus this bias in the place of z stay valid
(docs/guarantee.md, Theorem 22). Where l and b themselves are pulled and nothing else, C = e_l - e_b: no bias at all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, final

import numpy as np

from surepick.types import Array, IntArray

# Relative precision of the margin; the multiple of the lead beyond which the margin is called infinite.
MARGIN_TOL, MOST_TIMES = 1e-3, 2.0**20


@final
@dataclass(frozen=True, slots=True)
class ArmWeights:
    """How much each arm of a block counts in z, for all y at once."""

    arms: IntArray
    """Numbers of the arms pulled (s,), increasing."""
    W: Array
    """(d, s), C = y'W."""

    @classmethod
    def of(cls, arms: IntArray, W: Array) -> Self:
        """Put arms in order."""
        order = np.argsort(arms)
        return cls(arms[order], W[:, order])

    @classmethod
    def of_least_squares(cls, arms: IntArray, X: Array, root: Array) -> Self:
        """Return the weights of pulls, one by one: arms (n,), rows (n, d), root R (d, d) with R R' = A^+."""
        numbers, first, counts = np.unique(arms, return_index=True, return_counts=True)
        return cls(numbers, root @ (root.T @ (X[first].T * counts)))

    def bias(self, C: Array, leader: int, rivals: IntArray) -> Array:
        """Return |C - e_l + e_b|_1 (n,) for rivals b (n,) with weights C (s, n): the bias of z per unit of eta.

        Arms under different numbers count as different ones: with equal features and hence equal means they have a
        smaller bias than this.
        """
        bias: Array = np.abs(C).sum(axis=0)
        for arm, sign in ((np.full(len(rivals), leader), -1.0), (rivals, 1.0)):
            place = np.minimum(np.searchsorted(self.arms, arm), len(self.arms) - 1)
            weight = np.where(self.arms[place] == arm, C[place, np.arange(len(rivals))], 0.0)
            bias += np.abs(weight + sign) - np.abs(weight)
        return np.where(rivals == leader, 0.0, bias)


def largest_margin(replay: Callable[[float], bool], lead: float, least: float = 0.0) -> float | None:
    """Return an eta at which the replay still holds, next to the largest such; None if there is none.

    Wealth falls as eta grows, so a verdict that holds at eta holds at all smaller ones, and the search costs no risk:
    "right, if no mean is off by more than the margin" is true of all eta together. A verdict that bears a million times
    the lead rests on no model, and has an infinite margin.

    Args:
        replay: whether the verdict stands if every z loses eta times its bias.
        lead: where to begin to look, such as the estimated lead over the closest rival; above 0.
        least: an eta that is to hold, such as the one the rule allowed for.
    """
    if not replay(least):
        return None
    low, high = least, least + lead
    while replay(high):
        low, high = high, 2.0 * high
        if high > MOST_TIMES * lead:
            return np.inf
    tolerance = MARGIN_TOL * high
    while high - low > tolerance:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if replay(middle) else (low, middle)
    return low
