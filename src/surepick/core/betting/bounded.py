"""Bets on rewards between two bounds, such as clicks: evidence grows as the true variance of the rewards falls.

Notation: y = z_l - z_b the contrast of leader and candidate, D = theta'y; a block has results i with arms x_i and
rewards r_i in [lo, hi] whose means are x_i'theta, whatever the rest of their law; c_i weights with sum c_i x_i = y, so
that z = sum c_i r_i measures D; a_i centres in [lo, hi], about where r_i is expected; C = the largest of c_i (a_i - lo)
and c_i (a_i - hi), the most that one unit of lam can lose on one result. A stake lam with 0 <= lam C < 1 multiplies a
unit to

    e^(lam epsilon) prod_i (1 + lam c_i (r_i - a_i)) e^(lam c_i a_i),

and E is the average of this over finitely many lam. Everything but the rewards is fixed when the block begins.

Why it is valid: no factor is negative. Let mu_i = x_i'theta. Given what comes before it the i-th factor has mean
(1 + lam c_i (mu_i - a_i)) e^(lam c_i a_i) <= e^(lam c_i mu_i), because 1 + u <= e^u. From the last result to the first
the product has mean at most e^(lam (theta'y + epsilon)), so at most 1 if theta'y <= -epsilon: the unknown means cancel
since sum c_i x_i = y. No variance, independence or common law is assumed; a reward outside the bounds voids the proof.
docs/guarantee.md has the proof in full (Theorem 34).

Why it pays: log E is about lam z - lam^2/2 sum c_i^2 (r_i - a_i)^2. Where clicks are rare, the sum is far below the
(hi - lo)^2/4 per result that sub-Gaussian noise has to allow for.

Results of one arm with the same reward may be passed once, with their count: clicks are two per arm.

**A block** (`BoundedBlock`). X (S, d) the different arms of the block, n_a their pulls, v_a the variance that the past
predicts for a reward of arm a; u the direction of a common level of all arms, x'u about 1.

    weights   c = V^-1 X (X'V^-1 X)^+ y per pull, those of least squares if the variances are right: linear in y, so
              c_a = w_a'y with one vector w_a (d,) per arm, for all candidates at once
    centres   x_a'theta0, cut to the bounds
    stakes    by the past's belief about theta'y and the variance of z = sum c_i r_i, none beyond the goal (`bets`)

With groups (`core.groups`) the rows of X are arms in groups, and the weights are those of the rows without the offsets:
they sum to 0 in every group, so that offsets cancel.

The part P y of y that the block does not measure is taken from theta0 as in `core.betting.block`: theta0'P y is added
to z.

Rewards of more than `LEVELS` values are put on that many levels, each split between the two next to it, by shares that
keep its size. A logarithm is concave, so the return falls a little, for any levels, chosen after the rewards or not.
"""

import math
from collections.abc import Callable
from typing import final

import numpy as np
import scipy

from surepick.core.betting.block import ArmWeights, Block
from surepick.core.groups import Offsets
from surepick.errors import InvalidInput
from surepick.types import Array, IntArray

LIMIT = 0.95
"""The share of a unit that one result may take at most."""
N_NODES = 16
# Numbers in a temporary array, 1 MB, and results at a time.
NUMBERS, RESULTS = 2**17, 2**10


def rate_variances(estimates: Array, total: float | Array, n: float, *, lo: float = 0.0, hi: float = 1.0) -> Array:
    """Variances (K,) to bet and weigh by, halfway between the variance at the common rate and at the arm's own.

    A rate p has variance p (1 - p) if rewards are lo or hi, and less otherwise. Estimates of rare clicks may be 0 or
    below; an arm's rate is taken to be at least 0.3 of the common one, from either end. A bad guess costs pulls alone.

    Args:
        estimates: x'theta of every arm (K,).
        total: sum of all rewards of the past.
        n: how many there were.
        lo: smallest possible reward.
        hi: largest possible reward.
    """
    width = _width(lo, hi)
    common = ((total - n * lo) / width + 0.5) / (n + 1.0)
    rates = np.clip((estimates - lo) / width, 0.3 * common, 1.0 - 0.3 * (1.0 - common))
    return np.asarray(0.5 * width**2 * (common * (1.0 - common) + rates * (1.0 - rates)))


def capital_weights(Y: Array, X: Array, counts: Array, variances: Array) -> Array:
    """Weights (n, S) with sum_a counts_a c_a x_a = y: those of least squares if arm a has that variance.

    Rows of Y (n, d) are contrasts in the range of the block, rows of X (S, d) its arms.
    """
    A = (X.T * (counts / variances)) @ X
    weights: Array = Y @ np.linalg.pinv(A, hermitian=True) @ X.T / variances
    return weights


def largest_loss(c: Array, centres: Array, *, lo: float = 0.0, hi: float = 1.0) -> Array:
    """Return C (n,), the largest loss of one unit of lam on one result: weights c (n, S), centres (S,) or (n, S)."""
    _width(lo, hi)
    _check_inside("centres", centres, lo, hi)
    return np.asarray(np.maximum(c * (centres - lo), c * (centres - hi)).max(axis=1))


def nodes(m: Array, s2: Array, v: Array, largest: Array) -> Array:
    """Stakes lam (n, 16), equally likely: where N(m, s2) cut to D >= 0 says D/v is, none beyond the limit.

    Args:
        m: believed size of D (n,), at least 0.
        s2: its variance (n,), at least 0.
        v: variance of z (n,), as believed, positive.
        largest: the most that one unit of lam may lose on one result (n,), at least 0.
    """
    if not (np.all(m >= 0.0) and np.all(s2 >= 0.0) and np.all(v > 0.0) and np.all(largest >= 0.0)):
        raise InvalidInput("nodes needs m >= 0, s2 >= 0, v > 0 and largest >= 0; leave out unmeasured directions.")
    s = np.sqrt(s2)
    ratio = np.divide(m, s, out=np.full_like(s, np.inf), where=s > 0.0)
    u = (np.arange(N_NODES) + 0.5) / N_NODES
    D = m[:, None] - s[:, None] * scipy.special.ndtri(scipy.special.ndtr(ratio)[:, None] * u)
    most = np.divide(LIMIT, largest, out=np.full_like(s, np.inf), where=largest > 0.0)
    return np.asarray(np.clip(D / v[:, None], 0.0, most[:, None]))


def log_capital(
    c: Array,
    lam: Array,
    rewards: Array,
    centres: Array,
    times: Array,
    *,
    epsilon: float | Array = 0.0,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Array:
    """Return the log return of a unit (n,), staked in equal parts on the lam of each candidate; O(n p 16).

    Args:
        c: weight of a result (n, p), with sum_p times_p c_p x_p = y.
        lam: stakes (n, k), see `nodes`.
        rewards: (p,), within the bounds; (n, p) if candidates are measured by different results.
        centres: (p,) or (n, p), within the bounds.
        times: how often each of these results occurred, (p,) or (n, p).
        epsilon: slack, or one for each candidate (n,).
        bounds: smallest and largest possible reward.
    """
    lo, hi = bounds
    _check_inside("rewards", rewards, lo, hi)
    rewards, centres, times = (np.broadcast_to(values, c.shape) for values in (rewards, centres, times))
    value = lam * (np.einsum("np,np,np->n", c, times, centres) + epsilon)[:, None]
    (n, p), most = c.shape, lam.max(axis=1)
    step = max(1, NUMBERS // (lam.shape[1] * min(RESULTS, max(p, 1))))
    for start in range(0, n, step):
        rows = slice(start, start + step)
        for first in range(0, p, RESULTS):
            here = rows, slice(first, first + RESULTS)
            losses = most[rows] * largest_loss(c[here], centres[here], lo=lo, hi=hi)
            if not (np.all(lam[rows] >= 0.0) and np.all(losses < 1.0)):
                raise InvalidInput(
                    "a capital bet needs stakes of at least 0 by which no one result takes all; see `nodes`."
                )
            u = lam[rows, :, None] * (c[here] * (rewards[here] - centres[here]))[:, None]
            value[rows] += np.einsum("nkp,np->nk", np.log1p(u, out=u), times[here])
    return np.asarray(np.logaddexp.reduce(value, axis=1) - math.log(value.shape[1]))


def _width(lo: float, hi: float) -> float:
    if not (math.isfinite(hi - lo) and lo < hi):
        raise InvalidInput(
            f"rewards need a smallest and a larger largest value, got {lo} and {hi}; both must be finite."
        )
    return hi - lo


def _check_inside(name: str, values: Array, lo: float, hi: float) -> None:
    outside = ~((values >= lo) & (values <= hi))
    if outside.any():
        raise InvalidInput(
            f"`{name}` must be within the bounds {lo} and {hi}, got {values[outside][0]}; "
            "a bet on bounded rewards holds for no others."
        )


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
        assert block.pulls is not None  # with bounds the block holds the pulls one by one
        assert block.rewards is not None
        assert block.A0_inv is not None
        theta0, self._bounds = block.theta0, bounds
        grouped = block.grouped
        # Cells: the different arms of the block; in every group, if there are groups.
        pulled = block.pulls[0] if grouped is None else np.hstack([grouped.X, grouped.codes])
        cells, first, place, n = np.unique(pulled, axis=0, return_index=True, return_inverse=True, return_counts=True)
        X, counts = cells[:, : len(theta0)], n.astype(np.float64)
        variances = variances_by(theta0, np.linalg.inv(block.A0_inv).astype(np.float64, copy=False), level, bounds)(X)
        self._spread = counts * variances
        self.noise_std = math.sqrt(float(self._spread.sum()) / len(block.rewards))
        """About the standard deviation of one reward, over the pulls of the block."""
        self._centres = np.clip(X @ theta0, *bounds)
        # Weights that sum to 0 in every group: those of rows without the offsets.
        rows = X if grouped is None else Offsets(grouped.codes[first], counts / variances).off(X)
        W = capital_weights(np.eye(len(theta0)), rows, counts, variances)
        self.vectors = [theta0 - W @ (counts * (X @ theta0)), *W.T]
        """P theta0 and the w_a: `log_returns` takes their products with y."""
        self.weights = None if block.arms is None else ArmWeights.of(block.arms[first], counts * W)
        """Weight of all pulls of an arm together; None if the block has no arm numbers."""
        times, levels = _on_levels(block.rewards, place.reshape(-1).astype(np.int64), len(X))
        self._arm, level_of = np.nonzero(times)
        self._rewards, self._times = levels[level_of], times[self._arm, level_of]

    def log_returns(self, products: Array, _: Array, m: Array, s2: Array, rest: Array) -> Array:
        """Return the log return of a unit (n,).

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
