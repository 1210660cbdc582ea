"""A block of rewards between two bounds as the betting rule sees it: who is weighed how, and what a unit returns.

Notation: that of `core.capital`; X (S, d) the different arms of the block, n_a their pulls, v_a the variance that the
past lets expect of a reward of arm a; u the direction of a common level of all arms, x'u about 1.

    weights   c = V^-1 X (X'V^-1 X)^+ y per pull, those of least squares if the variances are right: linear in y, so
              c_a = w_a'y with one vector w_a (d,) per arm, for all candidates at once
    centres   x_a'theta0, cut to the bounds
    stakes    by the past's belief about theta'y and the variance of z = sum c_i r_i, none beyond the goal (`betting`)

What the block does not measure of y, P y, is taken from theta0 as in `core.block`: theta0'P y stands beside z.

Rewards of more than `LEVELS` values are put on so many levels, each split between the two next to it, by shares that
keep its size. A logarithm is concave, so what is paid falls a little, for any levels, chosen after the rewards or not.
"""

import math
from collections.abc import Callable
from typing import final

import numpy as np

from surepick.core.block import Block
from surepick.core.capital import capital_weights, largest_loss, log_capital, nodes, rate_variances
from surepick.core.linalg import Array, IntArray
from surepick.core.misfit.margin import ArmWeights

Bounds = tuple[float, float]
"""Smallest and largest possible reward."""
LEVELS = 32
# Numbers in a table of weights of candidates on results, 8 MB.
WEIGHTS = 2**20


def variances_by(theta: Array, A: Array, level: Array, bounds: Bounds) -> Callable[[Array], Array]:
    """Return the function from rows (n, d) to the variances (n,) that results with this estimate let expect.

    Their common rate is the level of least squares along u: u'A theta is the sum of all rewards if x'u = 1, and u'A u
    their number.
    """
    lo, hi = bounds
    n = float(level @ A @ level)
    total = float(np.clip(level @ A @ theta, n * lo, n * hi))
    return lambda rows: rate_variances(rows @ theta, total, n, lo=lo, hi=hi)


@final
class BoundedBlock:
    """The results of a block, ready to be bet on.

    Args:
        block: with its pulls and rewards one by one, and an estimate from before.
        level: u (d,).
        bounds: of the rewards.
    """

    def __init__(self, block: Block, *, level: Array, bounds: Bounds) -> None:
        assert block.pulls is not None  # whoever knows bounds has the pulls one by one
        assert block.rewards is not None
        assert block.A0_inv is not None
        theta0, self._bounds = block.theta0, bounds
        X, first, place, n = np.unique(
            block.pulls[0], axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        counts = n.astype(np.float64)
        variances = variances_by(theta0, np.linalg.inv(block.A0_inv).astype(np.float64, copy=False), level, bounds)(X)
        self._spread = counts * variances
        self.noise_std = math.sqrt(float(self._spread.sum()) / len(block.rewards))
        """About the standard deviation of one reward, over the pulls of the block."""
        self._centres = np.clip(X @ theta0, *bounds)
        W = capital_weights(np.eye(len(theta0)), X, counts, variances)
        self.vectors = [theta0 - W @ (counts * (X @ theta0)), *W.T]
        """P theta0 and the w_a: their products with y are what `log_returns` is told of a candidate."""
        self.weights = None if block.arms is None else ArmWeights.of(block.arms[first], counts * W)
        """Weight of all pulls of an arm together; None if nobody said which arm is which."""
        times, levels = _on_levels(block.rewards, place.reshape(-1).astype(np.int64), len(X))
        self._arm, level_of = np.nonzero(times)
        self._rewards, self._times = levels[level_of], times[self._arm, level_of]

    def log_returns(self, products: Array, _: Array, m: Array, s2: Array, rest: Array) -> Array:
        """Log of what a unit returns (n,).

        Args:
            products: of y with `vectors` (1 + S, n), slack added to the first.
            _: y'A^+ y, of no use where every arm has its own variance.
            m: believed size of theta'y (n,).
            s2: its variance (n,).
            rest: log wealth still missing (n,).
        """
        value, step = np.empty_like(m), max(1, WEIGHTS // len(self._arm))
        for start in range(0, len(m), step):
            part = slice(start, start + step)
            value[part] = self._log_returns(products[0, part], products[1:, part].T, m[part], s2[part], rest[part])
        return value

    def _log_returns(self, unseen: Array, c: Array, m: Array, s2: Array, rest: Array) -> Array:
        lo, hi = self._bounds
        v = (c * c) @ self._spread
        m = np.minimum(m, np.sqrt(2.0 * v * rest))
        return log_capital(
            c[:, self._arm],
            nodes(m, s2, v, largest_loss(c, self._centres, lo=lo, hi=hi)),
            self._rewards,
            self._centres[self._arm],
            self._times,
            epsilon=unseen,
            bounds=self._bounds,
        )


def _on_levels(rewards: Array, place: IntArray, n_arms: int) -> tuple[Array, Array]:
    """Return how often each arm had each level (S, L), fractions included, and the levels (L,)."""
    levels = np.unique(rewards)
    if len(levels) > LEVELS:
        levels = np.unique(np.quantile(rewards, np.linspace(0.0, 1.0, LEVELS)))
    times = np.zeros((n_arms, len(levels)))
    if len(levels) == 1:
        times[:, 0] = np.bincount(place, minlength=n_arms)
        return times, levels
    below = np.clip(np.searchsorted(levels, rewards, side="right") - 1, 0, len(levels) - 2)
    share = (rewards - levels[below]) / (levels[below + 1] - levels[below])
    np.add.at(times, (place, below), 1.0 - share)
    np.add.at(times, (place, below + 1), share)
    return times, levels
