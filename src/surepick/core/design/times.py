"""Characteristic times and lower bounds: the pulls, or the cost, that no algorithm can do without.

Notation: A(w) = sum w_i x_i x_i'; y directions; T* = 2 min over w of max over b of |x_best - x_b|^2 in the norm of
A(w)^-1, divided by the squared gap: the characteristic time of Jedra and Proutiere (2020), Theorem 1. Other tasks have
other directions, or other rows in the place of the arms:

    m best         x_u - x_j over its gap, for u among the m best and j among the others
    threshold tau  x_a over its distance from tau; beside a control, x_a - x_control
    epsilon        y/(theta'y + eps), y from an answer i that loses at most eps to every other candidate: T_i
    noise, costs   x_a/(s_a sqrt(c_a)) in the place of x_a: a unit of cost is then worth one pull with noise 1
    groups         (x_a, 1) and (y, 0) if offsets move whole groups; (x_i - x_j)/2 for groups of two

docs/guarantee.md proves what follows from them: Theorem 33 (costs), Theorem 42 (groups), "Lower bounds".
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, final

import numpy as np

from surepick.arms.base import ArmSet
from surepick.arms.finite import FiniteArms, as_arms, rows_like
from surepick.core.checks import (
    check_count,
    check_delta,
    check_distinct,
    check_epsilon,
    check_noise_std,
    check_noise_stds,
    check_number,
    check_rewards,
    check_vector,
)
from surepick.core.design.certificate import Design
from surepick.core.design.directions import GapDirections
from surepick.core.design.solve import as_candidates, gap_design, optimal_design
from surepick.core.design.targets import Target, rows_apart
from surepick.errors import ArmsDoNotSpan, InvalidInput
from surepick.types import Array

Groups = Literal["offset"]

MOST_PAIRS = 2_000_000
"""Pairs of 2,000 arms."""
BISECTIONS = 60
IN_SPAN = 1e-9
"""Relative rounding error of a direction that is a combination of the pulls."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Goal:
    """What is sought, and in which groups pulls come."""

    m: int
    epsilon: float
    target: Target | None
    groups: str | None
    group_size: int | None

    @classmethod
    def of(
        cls,
        *,
        m: int,
        epsilon: float,
        threshold: float | None,
        control: int | None,
        margin: float,
        groups: str | None,
        group_size: int | None,
    ) -> "_Goal":
        target = None if threshold is None and control is None else _target(threshold, control, margin)
        goal = cls(
            m=check_count("m", m, least=1),
            epsilon=check_epsilon(epsilon),
            target=target,
            groups=groups,
            group_size=None if group_size is None else check_count("group_size", group_size, least=2),
        )
        if groups not in (None, "offset"):
            raise InvalidInput(f'`groups` must be "offset" or left out, got {groups!r}.')
        if group_size is not None and groups is None:
            raise InvalidInput('`group_size` needs groups="offset", got no `groups`; give both or neither.')
        if goal.m > 1 and goal.epsilon:
            raise InvalidInput(f"`epsilon` must be 0 beside m > 1, for which no bound is known, got {epsilon:g}.")
        if goal.m > 1 and target is not None:
            raise InvalidInput("`m` must be 1 beside `threshold` and `control`, which call every candidate.")
        if groups is not None and threshold is not None:
            raise InvalidInput(
                "`threshold` has no characteristic time beside `groups`: a value cannot be told from an offset; give a "
                "`control` instead."
            )
        return goal

    @property
    def has_plain_directions(self) -> bool:
        """Whether the directions are those from the best to every other candidate."""
        return self.m == 1 and self.target is None and not self.epsilon

    def directions(self, compared: ArmSet, theta: Array) -> Iterator[Array]:
        """Yield the rows sqrt(2) y (n, d) whose design has the value T, one array for every right answer."""
        if self.target is not None:
            Y = np.vstack([rows for _, rows in compared.chunks()]) - self.target.origin(compared)
            # Either call of a row that is closer than epsilon is right.
            is_far = np.abs(Y @ theta - self.target.value) >= self.epsilon
            if (Y.any(axis=1) & is_far).any():
                yield rows_apart(compared, self.target, theta, self.epsilon, is_far)
        elif self.epsilon:
            yield from _of_right_answers(compared, theta, self.epsilon)
        else:
            yield _of_several(compared, theta, self.m)


class _Units(NamedTuple):
    """Noise and cost of a pull of each arm (K,)."""

    stds: Array
    costs: Array

    @property
    def of_arms(self) -> Array:
        """A pull of x with noise s at cost c is as informative, by its cost, as x / (s sqrt(c)) with noise 1."""
        return self.stds * np.sqrt(self.costs)


class _Pulls(NamedTuple):
    """The rows that stand for a pull, with the directions in their coordinates."""

    rows: ArmSet
    n_constants: int = 0
    """Zeros to be appended to a direction."""
    is_mapped: bool = False
    """Whether directions are read in the coordinates of the span."""

    def mapped(self, directions: Array) -> Array:
        """Return directions (n, d) in the coordinates of the rows."""
        if not self.is_mapped:
            return directions
        assert isinstance(self.rows, FiniteArms)
        full = np.hstack([directions, np.zeros((len(directions), self.n_constants))])
        kept, *_ = np.linalg.lstsq(self.rows.basis, full.T, rcond=None)
        left = np.abs(self.rows.basis @ kept - full.T).max(axis=0)
        if (left > IN_SPAN * np.abs(full).max(axis=1)).any():
            why = "in groups, pulls compare arms only with each other" if self.n_constants else "the arms do not span"
            raise ArmsDoNotSpan(
                f"the pulls must tell the candidates apart, but no combination of them measures every difference that "
                f"is needed ({why}); add arms, or drop candidates."
            )
        return np.ascontiguousarray(kept.T)


def characteristic_time(  # noqa: PLR0913 - every argument is an option of its own
    arms: Any,
    theta: Any,
    candidates: Any = None,
    tol: float = 1e-4,
    *,
    warm_start: Design | None = None,
    m: int = 1,
    epsilon: float = 0.0,
    threshold: float | None = None,
    control: int | None = None,
    margin: float = 0.0,
    noise_std: Any = 1.0,
    costs: Any = None,
    groups: Groups | None = None,
    group_size: int | None = None,
) -> Design:
    """Return T* of the arms under theta with the weights that attain it.

    Arms with the same features as the best are no rivals: they are the same answer, and are left out. (As defined in
    the paper, T* would be infinite.) Different arms with equal rewards are a tie.

    Arms need not span if `candidates` are given, as long as they measure every difference that is needed.

    Args:
        arms: the arms that may be pulled.
        theta: the parameter; the reward of arm x is theta'x plus noise.
        candidates: the rows that are compared, if not the arms themselves.
        tol: relative gap between value and lower bound to reach.
        warm_start: an earlier design on the same arms (and candidates), for speed alone.
        m: how many of the best are sought; above 1 the design is one of listed directions, m (K - m) of them.
        epsilon: loss below which an answer is right. The smallest T over these answers: one design is solved for each
            of them. Beside a target, candidates closer to it than epsilon need no pulls.
        threshold: T* of calling every candidate met or failed against this value, instead of finding the best.
        control: the same against the candidate with this row number.
        margin: beside `control`, how much worse a candidate may be and still be met.
        noise_std: standard deviation of a pull, or one for each arm; the value is then the pulls per nat of evidence,
            noise included.
        costs: cost of a pull of each arm. Value and weights are then about cost: the weight of an arm is its share of
            the cost, its share of the pulls goes like weight / cost.
        groups: "offset" if pulls come in groups with unknown offsets (days, plates). T* is then that of one group
            without end, which groups of s pulls exceed by a factor of at most s/(s - 1).
        group_size: 2 gives T* of groups of two instead, which no even size exceeds. Its arms are pairs, numbered as
            `itertools.combinations(range(K), 2)` lists them.

    The certificate is about the rows that stand for a pull. Where these are not the arms, `Design.verify` takes
    `FiniteArms.on_span` of them: x / (noise sqrt(cost)), with groups and a constant 1, divided alike; for pairs
    (x_i - x_j) / sqrt((s_i^2 + s_j^2) (c_i + c_j)).

    Raises:
        InvalidInput: an argument cannot be used, or its numbers cannot be squared (`core.checks`).
        TiedArms: the m-th best candidate and the next are equally good, or one is on the target, so T* is infinite.
        ArmsDoNotSpan: the arms do not measure a difference that is needed.

    Examples:
        >>> round(characteristic_time([[1, 0], [0, 1]], theta=[0.5, 0.0]).value, 2)
        32.0
        >>> round(characteristic_time([[1, 0], [0, 1]], theta=[0.5, 0.0], costs=[1, 4]).value, 2)
        72.0
    """
    goal = _Goal.of(
        m=m,
        epsilon=epsilon,
        threshold=threshold,
        control=control,
        margin=margin,
        groups=groups,
        group_size=group_size,
    )
    pulled, spans = _arms(arms, candidates)
    noise, each = _units(pulled.n_arms, noise_std, costs), np.ones(pulled.n_arms)
    units = noise if isinstance(noise, _Units) else None if noise == 1.0 else _Units(noise * each, each)
    designs = list(_designs(goal, pulled, theta, candidates, tol=tol, units=units, spans=spans, start=warm_start))
    if not designs:
        raise InvalidInput(
            f"every candidate is within epsilon = {goal.epsilon:g} of the target, so either call of each is right and "
            "no pull is needed; choose a smaller `epsilon`."
        )
    least = min(designs, key=lambda design: design.value)
    return least if len(designs) == 1 else replace(least, lower_bound=min(each.lower_bound for each in designs))


def lower_bound(  # noqa: PLR0913 - every argument is an option of its own
    arms: Any,
    theta: Any,
    delta: float = 0.05,
    noise_std: Any = 1.0,
    candidates: Any = None,
    *,
    m: int = 1,
    epsilon: float = 0.0,
    threshold: float | None = None,
    control: int | None = None,
    margin: float = 0.0,
    costs: Any = None,
    groups: Groups | None = None,
    group_size: int | None = None,
) -> float:
    """Return the expected pulls that no delta-correct algorithm can be below: T* sigma^2 kl(delta, 1 - delta).

    T* enters through its certified lower end. Gaussian noise of standard deviation `noise_std`, one number or one for
    each arm. With `costs`, one for each arm, the result is the expected cost that no such algorithm can be below. A
    risk of one half or more needs no pulls at all as far as this bound can tell. All other options: see
    `characteristic_time`. With `threshold` and `control` delta is the risk of any wrong call. With `groups` the bound
    is for the worst offsets: for groups of at most two pulls with `group_size=2`, else for groups of any size.

    With `epsilon`, several answers may be right, and an algorithm may prefer any of them. The bound is then the least v
    for which answer i is given with probability p_i, T_i sigma^2 kl(p_i, delta) <= v, and these p_i sum to 1 - delta.
    If one answer is right that is T* sigma^2 kl(delta, 1 - delta). If there are more it is smaller, and 0 with so many
    that (n + 1) delta >= 1: it holds at every delta, unlike the limit T* sigma^2 log(1/delta) for delta to 0 of Degenne
    and Koolen (2019).

    Examples:
        >>> round(lower_bound([[1, 0], [0, 1]], theta=[0.5, 0.0]), 1)
        84.8
        >>> round(lower_bound([[1, 0], [0, 1]], theta=[0.5, 0.0], epsilon=0.2), 1)
        43.3
    """
    goal = _Goal.of(
        m=m,
        epsilon=epsilon,
        threshold=threshold,
        control=control,
        margin=margin,
        groups=groups,
        group_size=group_size,
    )
    delta, (pulled, spans) = check_delta(delta), _arms(arms, candidates)
    noise = _units(pulled.n_arms, noise_std, costs)
    units, scale = (None, noise**2) if isinstance(noise, float) else (noise, 1.0)
    designs = _designs(goal, pulled, theta, candidates, tol=1e-6, units=units, spans=spans)
    times = np.array([design.lower_bound for design in designs])
    if delta >= 0.5 or not len(times):
        return 0.0
    return scale * _least_pulls(times, delta)


def _least_pulls(times: Array, delta: float) -> float:
    """Return the least v with sum p_i >= 1 - delta, p_i the largest p with T_i kl(p, delta) <= v."""
    sure = (1.0 - 2.0 * delta) * math.log((1.0 - delta) / delta)
    if len(times) == 1:
        return float(times[0]) * sure
    low, high = 0.0, float(times.min()) * sure
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if _largest_chances(middle / times, delta).sum() < 1.0 - delta:
            low = middle
        else:
            high = middle
    return low


def _largest_chances(nats: Array, delta: float) -> Array:
    """Return the largest p >= delta with kl(p, delta) <= nats, for each of several."""
    low, high = np.full(len(nats), delta), np.ones(len(nats))
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        rest = 1.0 - middle
        kl = middle * np.log(middle / delta) + rest * np.log(np.maximum(rest, 1e-300) / (1.0 - delta))
        low, high = np.where(kl <= nats, middle, low), np.where(kl <= nats, high, middle)
    return high


def _arms(arms: Any, candidates: Any) -> tuple[ArmSet, bool]:
    """Return the arms, and whether they span; with candidates they need not."""
    try:
        return as_arms(arms), True
    except ArmsDoNotSpan:
        if candidates is None:
            raise
        return FiniteArms.rows_only(arms), False


def _designs(
    goal: _Goal,
    arms: ArmSet,
    theta: Any,
    candidates: Any,
    *,
    tol: float,
    units: _Units | None,
    spans: bool,
    start: Design | None = None,
) -> Iterator[Design]:
    """Yield the design of every right answer."""
    theta = check_vector("theta", theta, arms.dim)
    others = None if candidates is None else _candidates(candidates, arms, spans=spans)
    compared = arms if others is None else others
    if spans:
        check_distinct("arms" if others is None else "candidates", compared, arms.triangle() / math.sqrt(arms.n_arms))
    for rows in (arms, compared):
        check_rewards(rows.triangle(), theta)
    if goal.target is not None and goal.target.control is not None and goal.target.control >= compared.n_arms:
        raise InvalidInput(f"`control` must be a row number below {compared.n_arms}, got {goal.target.control}.")
    pulls = _pulls(goal, arms, units, spans=spans)
    if goal.has_plain_directions and not pulls.is_mapped:
        directions = GapDirections(compared, theta)
        named = others if units is None else compared
        yield gap_design(pulls.rows, directions, tol=tol, warm_start=start, candidates=named)
        return
    for needed in goal.directions(compared, theta):
        start = optimal_design(pulls.rows, pulls.mapped(needed), tol, warm_start=start)
        yield start


def _candidates(rows: Any, arms: ArmSet, *, spans: bool) -> ArmSet:
    if spans:
        return as_candidates("candidates", rows, arms)
    candidates: ArmSet = rows if isinstance(rows, ArmSet) else rows_like(rows, arms, argument="candidates")
    if candidates.dim != arms.dim:
        raise InvalidInput(f"`candidates` must have the arms' {arms.dim} features, got {candidates.dim}.")
    return candidates


def _pulls(goal: _Goal, arms: ArmSet, units: _Units | None, *, spans: bool) -> _Pulls:
    """Return the rows that stand for a pull."""
    n = arms.n_arms
    if goal.groups is None and units is None and spans:
        return _Pulls(arms)
    X, each = arms.gather(np.arange(n)), _Units(np.ones(n), np.ones(n)) if units is None else units
    if goal.groups is None:
        rows = X / each.of_arms[:, None]
        return _Pulls(FiniteArms(rows)) if spans else _Pulls(FiniteArms.on_span(rows), is_mapped=True)
    if goal.group_size != 2:
        rows = np.column_stack([X, np.ones(n)]) / each.of_arms[:, None]
        return _Pulls(FiniteArms.on_span(rows), n_constants=1, is_mapped=True)
    if n * (n - 1) // 2 > MOST_PAIRS:
        raise InvalidInput(f"`group_size` 2 lists all pairs of at most 2,000 arms, got {n}; leave it out.")
    i, j = np.triu_indices(n, 1)
    variances, prices = each.stds**2, each.costs
    size = np.sqrt((variances[i] + variances[j]) * (prices[i] + prices[j]))
    pairs = (X[i] - X[j]) / size[:, None]
    # One pair is no set of arms; half of it is never worth a pull.
    return _Pulls(FiniteArms.on_span(pairs if len(pairs) > 1 else pairs * [[1.0], [0.5]]), is_mapped=True)


def _of_several(candidates: ArmSet, theta: Array, m: int) -> Array:
    """Return sqrt(2) y / theta'y for y from each of the m best to every other candidate, the value of which is T*."""
    if m >= candidates.n_arms:
        raise InvalidInput(f"`m` must be below the number of candidates, {candidates.n_arms}, got {m}; choose fewer.")
    best = candidates.best(theta)
    leaders = [best, *candidates.rivals(best, theta, (), np.copy, m).index[: m - 1].tolist()]
    GapDirections(candidates, theta, leaders=leaders)  # refuses ties
    others = candidates.gather(np.flatnonzero(candidates.is_rival(leaders)))
    Y = (candidates.gather(leaders)[:, None] - others).reshape(-1, candidates.dim)
    scaled: Array = math.sqrt(2.0) * Y / (Y @ theta)[:, None]
    return scaled


def _of_right_answers(candidates: ArmSet, theta: Array, epsilon: float) -> Iterator[Array]:
    """Yield sqrt(2) y / (theta'y + eps), y to every other candidate, for each candidate that loses less than eps."""
    rows = np.vstack([part for _, part in candidates.chunks()])
    means = rows @ theta
    lost = means.max() - means
    for answer in np.flatnonzero(lost < epsilon * (1.0 - 1e-12)).tolist():
        if candidates.copies(answer)[0] != answer:  # the same answer once more
            continue
        Y = rows[answer] - rows[candidates.is_rival([answer])]
        if not len(Y):
            raise InvalidInput("at least two different candidates are needed; there is nothing to separate.")
        yield math.sqrt(2.0) * Y / (means[answer] - means[candidates.is_rival([answer])] + epsilon)[:, None]


def _target(threshold: float | None, control: int | None, margin: float) -> Target:
    if threshold is not None and control is not None:
        raise InvalidInput(f"one of `threshold` and `control` is needed, got {threshold:g} and {control}; drop one.")
    if control is None:
        return Target(check_number("threshold", threshold, needed="a number"))
    number = check_count("control", control, least=0)
    return Target(0.0 - check_number("margin", margin, needed="at least 0", allowed=lambda x: x >= 0.0), number)


def _units(n_arms: int, noise_std: Any, costs: Any) -> "float | _Units":
    """Return noise and cost of each arm; one number, the noise, if all arms are alike in both."""
    stds = check_noise_stds(noise_std) if np.iterable(noise_std) else check_noise_std(noise_std)
    if costs is None and isinstance(stds, float):
        return stds
    prices = np.ones(n_arms) if costs is None else check_vector("costs", costs, n_arms)
    if np.size(stds) not in (1, n_arms):
        raise InvalidInput(
            f"`noise_std` must be one number or one for each of {n_arms} arms, got {np.size(stds)} numbers."
        )
    if not (prices > 0.0).all():
        raise InvalidInput(f"`costs` must be above 0, got a least cost of {prices.min():g}.")
    return _Units(stds * np.ones(n_arms), prices)
