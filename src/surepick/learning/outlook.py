"""What can be said before the verdict: how likely the leader is the best, what it may lose, how many pulls are left.

Estimates, not guarantees: no number here is proved, and none enters a decision. The formulas of the posterior are in
`core.posterior`; docs/before-the-verdict.md shows how often these numbers are right.

Notation: theta (d,) least squares, A (d, d) its information, both in whitened coordinates; S^2 the variance of one
reward, with nu degrees of freedom; theta_j (n, d) draws of the posterior; t pulls so far.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from surepick.arms.numbered import NumberedVectors
from surepick.arms.views import WhitenedArms
from surepick.core.estimate import LeastSquares
from surepick.core.groups import OffsetLeastSquares
from surepick.core.linalg import cholesky, one_blas_thread
from surepick.core.noise import ArmVariances
from surepick.core.posterior import CONFIDENCE, flat_draws, normals, shrunk_posterior, waiting_quantiles
from surepick.learning.noise_models import NoiseModel
from surepick.types import Array, BoolArray, IntArray

# Draws of the posterior; fewer, down to the second number, where draws times numbers in the table exceed the third.
MOST_DRAWS, FEWEST_DRAWS, MOST_PRODUCTS = 2000, 200, 2e9
# Rows that are multiplied with all draws at a time.
SLICE = 2048
# Losses of less than this share of the values are rounding.
ROUNDING = 1e-9
NEXT = (10, 20, 50)
"""Numbers of further measurements whose use is estimated."""

# Draws for waiting times; rivals that are looked at, if there are more than the second number; steps of each design.
N_WAITS, FEW_RIVALS, MANY_RIVALS, STEPS = 60, 60, 150, 10
# With more features, one design serves all draws: a matrix for each would fill the memory.
MANY_FEATURES = 64
# Share of the ideal growth of evidence that bets reach; pulls, per feature, that bets need beside it.
EFFICIENCY, OVERHEAD = 0.95, 4
# The forecast is this quantile of the draws: the median is a quarter too long, since few draws are far too long.
POINT = 0.35
# Weight, in logarithms, of the guess that as many pulls are to come as there were: a look is somewhere in a run, and
# most of a run is neither its first nor its last tenth. Chosen on other seeds than those of the calibration.
AS_MANY = 0.3
# Relative variance of a waiting time, over the missing evidence in nats.
WAIT_SPREAD = 0.6


@final
@dataclass(frozen=True, slots=True)
class Fit:
    """Least squares and the level of the noise, as far as they are known."""

    theta: Array
    A_inv: Array
    variance: float
    """S^2 of one reward."""
    nu: float
    """Degrees of freedom of S^2; inf: known."""


def fit_of(
    estimate: LeastSquares, arms: WhitenedArms | NumberedVectors, noise: NoiseModel, levels: ArmVariances | None
) -> Fit | None:
    """Return what estimates rest on; None while the pulled arms do not span, or the noise is not seen."""
    if not estimate.has_theta:
        return None
    if levels is not None:
        return _weighted_fit(levels)
    has_shares = not isinstance(estimate, OffsetLeastSquares)  # beside offsets means are no shares of successes
    if noise.is_binary and has_shares and isinstance(arms, WhitenedArms) and arms.n_arms == estimate.dim:
        return _binary_fit(estimate, arms)
    if noise.std is not None and noise.reward_range is None:
        return Fit(estimate.theta, estimate.A_inv.copy(), noise.std**2, math.inf)
    # Bounds on rewards say little about their scatter, so it is learnt.
    nu = estimate.n_spare
    if nu < 1 or not estimate.residual_sum > 0.0:
        return None
    return Fit(estimate.theta, estimate.A_inv.copy(), estimate.residual_sum / nu, nu)


def _weighted_fit(levels: ArmVariances) -> Fit | None:
    known = levels.now
    if known is None or not known.residuals.has_scale:
        return None
    return Fit(known.theta, known.A_inv, float(known.residuals.variance), known.residuals.nu)


def _binary_fit(estimate: LeastSquares, arms: WhitenedArms) -> Fit:
    """Return the fit of rewards that are 0 or 1, with one feature per arm: each arm has its own share and variance.

    Half a success and half a failure more keep shares off 0 and 1; the variance is half that of the arm and half that
    of all results, since the share of an arm with few pulls says little about its variance.
    """
    successes, n = successes_of(estimate, arms)
    share, common = (successes + 0.5) / (n + 1.0), float(successes.sum() / n.sum())
    variance = 0.5 * share * (1.0 - share) + 0.5 * max(common * (1.0 - common), 0.25 / float(n.sum()))
    inverse = np.linalg.inv(arms.gather(range(arms.n_arms)))
    return Fit(inverse @ share, (inverse * (variance / n)) @ inverse.T, 1.0, math.inf)


def successes_of(estimate: LeastSquares, arms: WhitenedArms) -> tuple[Array, Array]:
    """Return rewards 1 and pulls of every arm (K,), where arms have one feature each and all were pulled."""
    n = np.array([estimate.counts.get(arm, 0) for arm in range(arms.n_arms)], dtype=np.float64)
    means = arms.gather(range(arms.n_arms)) @ estimate.theta
    return np.round(means * n), n


class Ahead(NamedTuple):
    """What further measurements would buy: measured like those so far, then the leader of that time taken.

    Never less than now, since the present leader can be taken as well.
    """

    pulls: int
    probability: float
    """That this leader is the best."""
    loss: float
    """What it loses to the best, on average."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Estimates, not guarantees, of what stopping now would mean."""

    probability: float
    """That the leader is the best (of several: that they are the m best); NaN on sets such as the sphere, where arms
    can be arbitrarily close to the best."""
    within: float
    """That the leader loses at most epsilon."""
    loss: float
    """What the leader loses to the best, on average; of several: the last of them to the best outside."""
    likely_loss: float
    """The leader is within this of the best with 95 %."""
    in_question: tuple[Any, ...] = ()
    """The leaders, then the candidates most likely ahead of them, until the best is among these with 95 %. Candidates
    that the rule has rejected are never among them. Empty for sets that cannot be listed."""
    ahead: tuple[Ahead, ...] = ()
    """What the next 10, 20 and 50 measurements would buy; empty for sets that cannot be listed."""


@one_blas_thread
def outlook_of(
    fit: Fit, rows: WhitenedArms, level: Array, leaders: Sequence[int], left: IntArray, *, epsilon: float, n_pulls: int
) -> Outlook | None:
    """Return the outlook of a list of candidates; None if the estimate is exactly 0.

    Args:
        fit: least squares, in whitened coordinates.
        rows: the candidates.
        level: the direction (d,) of a common level of all arms.
        leaders: the candidates that would be the answer now, the best first.
        left: numbers of the candidates not rejected.
        epsilon: slack.
        n_pulls: t.
    """
    if not fit.theta.any():
        return None
    n = int(np.clip(MOST_PRODUCTS / (len(left) * rows.dim), FEWEST_DRAWS, MOST_DRAWS))
    drawn = shrunk_posterior(fit.theta, fit.A_inv, fit.variance, fit.nu, level).draws(n)
    outside = np.zeros(rows.n_arms, dtype=bool)
    outside[left] = True
    outside[list(leaders)] = False
    own = (drawn @ rows.gather(leaders).T).min(axis=1)
    best, who = _best_of(rows, outside, drawn)
    loss = best - own
    loss[loss <= ROUNDING * np.abs(own)] = 0.0  # copies of a leader may differ from it by rounding
    who = who[loss > 0.0]
    arms, times = np.unique(who, return_counts=True)
    order = np.argsort(-times, kind="stable")
    arms, shares = arms[order], np.cumsum(times[order]) / n
    right = float((loss == 0.0).mean())
    n_named = 0 if right >= CONFIDENCE else int(np.searchsorted(shares + right, CONFIDENCE - 1e-12)) + 1
    return Outlook(
        probability=right,
        within=float((loss <= epsilon).mean()),
        loss=float(loss.mean()),
        likely_loss=float(np.quantile(loss, CONFIDENCE)),
        in_question=(*leaders, *arms[:n_named].tolist()),
        ahead=tuple(
            Ahead(one.pulls, max(one.probability, right), min(one.loss, float(loss.mean())))
            for one in _ahead(fit, rows.gather([*leaders, *arms.tolist()]), drawn, len(leaders), n_pulls)
        ),
    )


def _best_of(rows: WhitenedArms, among: BoolArray, drawn: Array) -> tuple[Array, IntArray]:
    """Return for every draw (n, d) the largest theta_j'x of some rows, and the row; -inf and 0 if there are none."""
    best, who = np.full(len(drawn), -np.inf), np.zeros(len(drawn), dtype=np.int64)
    mapped = drawn @ rows.map.T
    for first, chunk in rows.arms.chunks():
        inside = np.flatnonzero(among[first : first + len(chunk)])
        for start in range(0, len(inside), SLICE):
            index = inside[start : start + SLICE]
            values = mapped @ chunk[index].T
            at = values.argmax(axis=1)
            value = np.take_along_axis(values, at[:, None], axis=1)[:, 0]
            better = value > best
            best[better], who[better] = value[better], first + index[at[better]]
    return best, who


def _ahead(fit: Fit, Z: Array, drawn: Array, m: int, t: int) -> Iterator[Ahead]:
    """Yield what further measurements buy, by candidates Z (k, d) that lead, or are best in some draw.

    If n measurements follow in the proportions of those so far and theta_j is the truth, then least squares is
    (1 - f) theta + f theta_j + S sqrt(f (1 - f)) A^-1/2 N(0, I) with f = n/(n + t).
    """
    spread, axes = np.linalg.eigh(fit.A_inv)
    noise = np.roll(normals(*drawn.shape), 1, axis=0) @ (axes * np.sqrt(np.maximum(spread, 0.0) * fit.variance)).T
    true = drawn @ Z.T
    for pulls in NEXT:
        f = pulls / (pulls + t)
        seen = ((1.0 - f) * fit.theta + f * drawn + math.sqrt(f * (1.0 - f)) * noise) @ Z.T
        chosen = np.zeros(seen.shape, dtype=bool)
        np.put_along_axis(chosen, np.argpartition(-seen, m - 1, axis=1)[:, :m], values=True, axis=1)
        loss = np.where(chosen, -np.inf, true).max(axis=1) - np.where(chosen, true, np.inf).min(axis=1)
        yield Ahead(pulls, float((loss <= 0.0).mean()), float(np.maximum(loss, 0.0).mean()))


@one_blas_thread
def vector_outlook(fit: Fit, view: NumberedVectors, leader: int, *, epsilon: float) -> Outlook | None:
    """Return the outlook of a set of vectors, by its best arm for every draw; None if the estimate is exactly 0."""
    if not fit.theta.any():
        return None
    # Arms of such sets lie around 0, so there is no common level.
    posterior = shrunk_posterior(fit.theta, fit.A_inv, fit.variance, fit.nu, np.zeros(len(fit.theta)))
    drawn = posterior.draws(MOST_DRAWS) @ view.map.T
    loss = np.array([float(theta @ (view.vectors.best(theta) - view.arm_of(leader))) for theta in drawn])
    loss[loss <= ROUNDING * np.abs(drawn).max()] = 0.0
    return Outlook(
        probability=math.nan if view.vectors.needs_slack else float((loss == 0.0).mean()),
        within=float((loss <= epsilon).mean()),
        loss=float(loss.mean()),
        likely_loss=float(np.quantile(loss, CONFIDENCE)),
    )


# ---- waiting times


class Forecast(NamedTuple):
    """Pulls still needed: a point, and a range that the need is in with 80 %."""

    pulls: float
    low: float = math.nan
    high: float = math.nan

    def between(self, least: float, most: float) -> "Forecast":
        """Return the forecast with no end below `least` or above `most`."""
        return Forecast(*(min(max(end, least), most) if end == end else end for end in self))  # noqa: PLR0124


@final
@dataclass(frozen=True, slots=True)
class Pulled:
    """Arms that further pulls are spread over: those pulled so far, and those of the G-optimal design."""

    X: Array
    """Rows (p, d), in units of their noise."""
    pulls: Array
    """Pulls (p,) of each so far."""
    design: Array
    """Weights (p,) of the G-optimal design, with sum 1."""


@one_blas_thread
def forecast_of(
    fit: Fit,
    rows: WhitenedArms,
    arms: Pulled,
    leaders: Sequence[int],
    left: IntArray,
    missing: Callable[[Sequence[int]], Array],
    *,
    epsilon: float,
    has_costs: bool,
) -> Forecast:
    """Return how many pulls bets still need, from draws of the flat posterior.

    For each draw (theta_j, sigma_j), with z_l the m-th best of the candidates left, y_b = z_l - z_b for those below it,

        N_j = 4 d + min over w of max over b of 2 sigma_j^2 rest_b y_b'A(w)^-1 y_b / (0.95 (theta_j'y_b + epsilon)^2).

    Args:
        fit: least squares, in whitened coordinates.
        rows: the candidates.
        arms: that further pulls are spread over.
        leaders: the candidates that would be the answer now, the best first.
        left: numbers of the candidates not rejected.
        missing: gives the log wealth that these leaders still need against every candidate (K,).
        epsilon: slack.
        has_costs: whether arms differ in cost: then pulls follow the proportions so far, not the fewest pulls.
    """
    thetas, sigma = flat_draws(fit.theta, fit.A_inv, fit.variance, fit.nu, N_WAITS)
    m, index = len(leaders), _closest(fit, rows, leaders, left)
    Z = rows.gather(index)
    order = np.argsort(-(thetas @ Z.T), axis=1, kind="stable")
    Y = Z[order[:, m - 1]][:, None] - Z[order[:, m:]]
    teams: dict[tuple[int, ...], Array] = {}
    rest = np.empty(Y.shape[:2])
    for j, places in enumerate(order):
        team = tuple(index[places[:m]].tolist())
        if team not in teams:
            teams[team] = missing(team)
        rest[j] = teams[team][index[places[m:]]]
    gap = np.einsum("jbd,jd->jb", Y, thetas) + epsilon
    is_other = (Y * Y).sum(axis=2) > 0.0  # not a copy
    with np.errstate(divide="ignore", invalid="ignore"):  # of copies
        price = np.where(is_other, 2.0 * (sigma**2)[:, None] * np.maximum(rest, 0.0) / (EFFICIENCY * gap * gap), 0.0)
    if not is_other.any(axis=1).all() or not np.isfinite(price).all():
        return Forecast(math.inf)
    W = 0.8 * arms.pulls / arms.pulls.sum() + 0.2 * arms.design
    hardest, needed = _fewest_pulls(W, arms.X, Y, price, 0 if has_costs or rows.dim > MANY_FEATURES else STEPS)
    mean = OVERHEAD * rows.dim + needed
    nats = np.maximum(rest[np.arange(len(rest)), hardest], 0.1)
    low, high = waiting_quantiles(mean, WAIT_SPREAD / nats, (0.1, 0.9))
    point = float(np.quantile(mean, POINT)) ** (1.0 - AS_MANY) * float(arms.pulls.sum()) ** AS_MANY
    return Forecast(min(max(point, low), high), low, high)


def _closest(fit: Fit, rows: WhitenedArms, leaders: Sequence[int], left: IntArray) -> IntArray:
    """Return the leaders and their rivals; of many, those that are fewest standard errors behind the last leader."""
    others = np.setdiff1d(left, leaders)
    if len(others) > MANY_RIVALS:
        among = np.zeros(rows.n_arms, dtype=bool)
        among[others] = True
        factor = cholesky(fit.A_inv)
        behind = rows.rivals(
            leaders[-1],
            fit.theta,
            [factor],
            lambda gap, q: gap / np.sqrt(np.maximum(q, np.finfo(float).tiny)),
            FEW_RIVALS,
            among,
        )
        others = behind.index
    return np.concatenate([np.asarray(leaders, dtype=np.int64), others])


def _fewest_pulls(W: Array, X: Array, Y: Array, price: Array, steps: int) -> tuple[IntArray, Array]:
    """Return min over w of max over b of price y_b'A(w)^-1 y_b for every draw (n,), about, and the b that decides.

    Multiplicative steps: the weight of an arm grows with the root of its use for the directions that need most.
    """
    W = np.tile(W, (len(Y) if steps else 1, 1))
    found, who = np.full(len(Y), np.inf), np.zeros(len(Y), dtype=np.int64)
    for step in range(steps + 1):
        A_inv = np.linalg.inv((W[:, None] * X.T) @ X)
        V = Y @ A_inv
        needed = price * (V * Y).sum(axis=2)
        top = needed.max(axis=1)
        better = top < found
        found[better], who[better] = top[better], needed.argmax(axis=1)[better]
        if step < steps:
            # Directions that need nearly as much count too, or steps would turn from one to another.
            shares = (needed / np.maximum(top, np.finfo(float).tiny)[:, None]) ** 8 * price
            use = np.einsum("jb,jbp->jp", shares, (V @ X.T) ** 2)
            W = W * np.sqrt(use)
            W /= np.maximum(W.sum(axis=1, keepdims=True), np.finfo(float).tiny)
            W = 0.98 * W + 0.02 / W.shape[1]
    return who, found
