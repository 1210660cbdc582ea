"""Forecast of the pulls of a run: a formula for the mean, the law around the mean, and the designs behind both.

Notation: T the pulls per nat of evidence, sigma^2 T* for the optimal design at the true theta;
d features; k rivals that have to be refuted at once; n_1 = 2d pulls of the first block; g the share of the G-optimal
design in every other. The betting rule rejects a rival at log(1/delta) nats, so a run takes about N = M + c d pulls,

    M = T / (1 - g) (log(1/delta) + 1/2 log(M / n_1) + a log k),

where the first pulls are worth less than (1 - g) / T each (`evidence_curve`). 1/2 log(M / n_1) is the loss of the bets
while the gap is learnt, as for a mixture over an unknown mean. a log k is the cost of the slowest of k rivals, and of
learning the design from them. c d is the cost of learning all other parameters. a and c were fitted to simulated runs
(docs/lab-book.md); the formula is not proved. With rare clicks only clicks are informative: n_1 and c d then count
clicks.

Evidence is about a Brownian motion with drift 1 and variance 2 per nat, so the time at which it reaches N/T follows
the inverse Gaussian law with mean N and relative standard deviation sqrt(2 T / N).

*The first blocks.* Notation: y a direction in which T = 2 y'A(w)^-1 y pulls by the design w are worth a nat. The rule
judges a block by its own pulls, A_k = sum x x' over them: the block is worth 1 / (2 y'A_k^+ y) nats, and none if y
is not in the range of A_k. Early blocks have hardly more pulls than there are features, and a few whole pulls
approximate a design poorly. So a short experiment takes more pulls than its design predicts.

*Calls against a target.* The price of a row is log(K/delta) for calls="all", and log(1/delta) for the last rows of a
long list with calls="fdr". Rows are called one by one and the design turns to the others, so k = 1. On seven problems
4 to 8 simulated runs took 0.75 to 1.25 times the forecast on average: an estimate.

*The difficulty.* Notation: y_j = (x_u - x_j) / (theta'(x_u - x_j) + epsilon) for u among the m best and j among the
others; arms x_a with noise s_a and cost c_a per pull. A pull of x_a with noise s_a is as informative as a pull of
x_a/s_a with noise 1, and a unit of cost spent on x_a as one pull of x_a/sqrt(c_a). Let T = 2 min over w of max over y
of y'A(w)^-1 y for arms x_a / (s_a sqrt(c_a)). Then the weights w are shares of the cost, no method has an expected cost
below T kl(delta, 1 - delta), and a nat costs T, spread over pulls like w_a/c_a.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy

from surepick.arms.base import ArmSet
from surepick.arms.finite import FiniteArms
from surepick.arms.views import divided
from surepick.core.design import Design
from surepick.core.design.directions import Directions, GapDirections, RowDirections
from surepick.core.design.generation import PreparedArms
from surepick.core.design.solve import separating_design
from surepick.core.design.targets import Target, rows_apart
from surepick.core.extrapolation import PulledRows, extrapolated_share
from surepick.types import Array, IntArray

MOST_PULLS = 10**6
"""Most pulls of an experiment that counts as possible."""
MIXED = 0.05
"""g under the betting rule."""
PER_RIVAL = 1.6
"""a."""
LEARNING = 4.0
"""c: pulls per feature."""
TOL = 1e-6
"""Relative gap of the designs; the formula is much less precise than this."""
RATIO = 1.08
"""A block ends when pulls have grown by this factor."""
LONG = 25
"""Pulls per feature from which a block is as good as its design."""


@final
@dataclass(frozen=True, slots=True)
class Curve:
    """Nats as a function of pulls, at the ends of the first blocks; both increase from 0."""

    pulls: Array
    nats: Array


STRAIGHT = Curve(np.zeros(1), np.zeros(1))
"""The curve on which every pull, from the first, is worth (1 - g) / T."""


def expected_pulls(
    time: float,
    delta: float,
    *,
    first: float,
    n_rivals: float = 1.0,
    learning: float = 0.0,
    curve: Curve = STRAIGHT,
    mixed: float = MIXED,
    per_rival: float = PER_RIVAL,
) -> float:
    """Return N of the formula above.

    Args:
        time: T.
        delta: risk.
        first: n_1.
        n_rivals: k.
        learning: c d.
        curve: worth of the first pulls.
        mixed: g.
        per_rival: a.
    """
    fixed = math.log(1.0 / delta) + per_rival * math.log(n_rivals)
    pulls = first
    for _ in range(100):  # the needed nats grow like log N, so the iteration converges
        needed = fixed + 0.5 * math.log(max(pulls / first, 1.0))
        if needed < curve.nats[-1]:
            pulls = float(np.interp(needed, curve.nats, curve.pulls))
        else:
            pulls = float(curve.pulls[-1]) + time / (1.0 - mixed) * (needed - float(curve.nats[-1]))
    return pulls + learning


@final
@dataclass(frozen=True, slots=True)
class Law:
    """The inverse Gaussian law of the pulls of a run."""

    mean: float
    spread: float
    """Relative standard deviation."""

    def below(self, n: float) -> float:
        """Probability of at most n pulls."""
        if not math.isfinite(self.mean):
            return 0.0
        ratio, shape = n / self.mean, self.spread**-2.0
        root = math.sqrt(shape / ratio)
        tail = 2.0 * shape + float(scipy.special.log_ndtr(-root * (ratio + 1.0)))
        return float(scipy.special.ndtr(root * (ratio - 1.0))) + math.exp(min(tail, 0.0))


def quantile(laws: Sequence[Law], share: float) -> float:
    """Return the quantile of the pulls, for equally likely laws."""
    if sum(math.isfinite(law.mean) for law in laws) <= share * len(laws):
        return math.inf
    means: Array = np.array([law.mean for law in laws if math.isfinite(law.mean)])
    low, high = math.log(1e-3 * means.min()), math.log(1e3 * means.max())
    for _ in range(60):
        middle = 0.5 * (low + high)
        is_below = sum(law.below(math.exp(middle)) for law in laws) < share * len(laws)
        low, high = (middle, high) if is_below else (low, middle)
    return math.exp(high)


def evidence_curve(arms: ArmSet, start: Design, aim: tuple[IntArray, Array], directions: Array, shares: Array) -> Curve:
    """Return pulls and nats at the ends of the first, short blocks, which track the design.

    Args:
        arms: the arms, divided by their noise.
        start: the G-optimal design, which is tracked first and stays mixed in.
        aim: support and weights of the design, in pulls.
        directions: (n, d), times sqrt(2).
        shares: weight of each direction (n,), sum 1.
    """
    ends = [2 * arms.dim]
    while (n := max(math.ceil(RATIO * ends[-1]) - ends[-1], arms.dim + 1)) < LONG * arms.dim:
        ends.append(ends[-1] + n)
    t = np.array(ends, dtype=float)
    rows = arms.gather(np.concatenate([start.support, aim[0]]))
    first = np.concatenate([start.weights, np.zeros(len(aim[1]))])
    later = np.concatenate([MIXED * start.weights, (1.0 - MIXED) * aim[1]])
    counts = np.diff(_rounded(t[0] * first + (t - t[0])[:, None] * later), axis=0).clip(min=0.0)
    nats = shares @ _worth(np.einsum("ba,ai,aj->bij", counts, rows, rows, optimize=True), directions)
    # The first block has no bets.
    return Curve(np.concatenate([[0.0], t]), np.concatenate([[0.0, 0.0], np.cumsum(nats)]))


def _rounded(due: Array) -> Array:
    """Return whole pulls (B, S), each within one of the due pulls and with the same sum, as tracking chooses them."""
    whole = np.floor(due)
    missing = np.round((due - whole).sum(axis=1, keepdims=True))
    behind = np.argsort(np.argsort(whole - due, axis=1, kind="stable"), axis=1)
    rounded: Array = whole + (behind < missing)
    return rounded


def _worth(A: Array, directions: Array) -> Array:
    """Return the nats (n, B) of blocks with this information (B, d, d), for each direction."""
    mapped = directions @ np.linalg.pinv(A, hermitian=True)
    is_seen = np.linalg.norm(directions - mapped @ A, axis=2) < 1e-6 * np.linalg.norm(directions, axis=1)
    squares = np.einsum("bni,ni->bn", mapped, directions)
    worth: Array = np.divide(1.0, squares, out=np.zeros_like(squares), where=is_seen & (squares > 0.0)).T
    return worth


@final
@dataclass(frozen=True, slots=True)
class Difficulty:
    """Pulls and cost per nat of evidence."""

    time: float
    """Pulls; infinite if arms are tied."""
    n_rivals: float
    """Effective number of rivals to refute at once; at least 1."""
    price: float
    """Mean cost of a pull."""
    least: float
    """Lower bound on the pulls of any design; NaN with slack, for which no bound is known."""
    least_cost: float
    """Lower bound on the cost of any design; NaN with slack."""
    curve: Curve = STRAIGHT
    """Worth of the first pulls."""
    far_share: float = 0.0
    """Share of the lead that rests on arms far below the best, if costs make it an extrapolation; else 0."""


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
    target: Target | None = None,
) -> Difficulty:
    """Return the pulls and the cost per nat of evidence.

    Args:
        arms: the arms.
        theta: the parameter (d,).
        stds: the noise of every arm (K,).
        start: the G-optimal design; None leaves the first pulls out.
        epsilon: slack.
        costs: cost of a pull of every arm (K,); None means 1 each.
        m: number of best arms sought.
        target: what arms are held against, instead of the best that is sought.

    Raises:
        TiedArms: the m-th best arm and the next are equally good, or one is on the target.
    """
    directions = _directions(arms, theta, m, epsilon, target)
    measured = divided(arms, stds)
    plain = design = separating_design(PreparedArms(measured), directions, tol=TOL)
    price, support = 1.0, plain.support
    if costs is not None:
        design = separating_design(PreparedArms(divided(arms, stds * np.sqrt(costs))), directions, tol=TOL)
        support = design.support
        price = 1.0 / float((design.weights / costs[support]).sum())
    pulled = design.weights if costs is None else price * design.weights / costs[support]
    shares = design.multipliers / design.multipliers.sum()
    curve, far_share = STRAIGHT, 0.0
    if start is not None:
        if costs is not None and target is None:
            far_share = _far_share(arms, measured, theta, m, (support, pulled), start)
        # T is twice the largest y'A^-1 y.
        hardest = directions.vectors(design.hardest) * (math.sqrt(2.0) if target is None else 1.0)
        curve = evidence_curve(measured, start, (support, pulled), hardest, shares)
    return Difficulty(
        time=design.value / price,
        # The perplexity of the multipliers: the effective number of rivals that carry the lower bound.
        # Every row has a call of its own: no leader waits for the slowest of its rivals.
        n_rivals=math.exp(-float(shares @ np.log(shares))) if target is None else 1.0,
        price=price,
        least=math.nan if epsilon else float(plain.lower_bound),
        least_cost=math.nan if epsilon else float(design.lower_bound),
        curve=curve,
        far_share=far_share,
    )


def _directions(arms: ArmSet, theta: Array, m: int, epsilon: float, target: Target | None) -> Directions:
    if target is None:
        return GapDirections(arms, theta, leaders=leaders_of(arms, theta, m), epsilon=epsilon)
    return RowDirections(FiniteArms.rows_only(rows_apart(arms, target, theta, epsilon), least=1))


def _far_share(
    arms: ArmSet, measured: ArmSet, theta: Array, m: int, aim: tuple[IntArray, Array], start: Design
) -> float:
    """Return the far share of the lead by the planned pulls, which mix the G-optimal design in; 0: no extrapolation."""
    leaders = leaders_of(arms, theta, m + 1)
    best, rival = arms.gather(leaders[-2:])
    means = np.concatenate([rows @ theta for _, rows in arms.chunks()])
    index = np.concatenate([aim[0], start.support])
    planned = PulledRows(
        measured.gather(index), np.concatenate([(1.0 - MIXED) * aim[1], MIXED * start.weights]), means[index]
    )
    usual = PulledRows(measured.gather(start.support), start.weights, means[start.support])
    return extrapolated_share(planned, usual, best - rival, 0.5 * float(means[leaders[0]] + means.min()))


def leaders_of(arms: ArmSet, theta: Array, m: int) -> list[int]:
    """Return the m best arms, the best first."""
    best = arms.best(theta)
    return [best, *arms.rivals(best, theta, (), np.copy, m).index[: m - 1].tolist()]


def smallest_gap(arms: ArmSet, theta: Array, m: int = 1) -> float:
    """Return the lead of the m-th best arm over the next; copies of the best do not count as rivals."""
    leaders = leaders_of(arms, theta, m)
    others = np.ones(arms.n_arms, dtype=bool)
    others[leaders] = False
    return arms.rivals(leaders[-1], theta, (), lambda gap: gap, 1, others).smallest_gap
