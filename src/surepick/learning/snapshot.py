"""What goes into a learner and what comes out: an algorithm; asks, and decisions.

Where an identification stands: the leader, its closest rival, what stopping now would cost, what is still to do.

For people who look on. Nothing here enters a decision.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, final

import numpy as np

from surepick.arms.views import Task
from surepick.learning.estimates import Estimates, estimates_of, margins_of
from surepick.sampling.base import Sampler
from surepick.stopping.base import Rule
from surepick.types import Array, Guarantee, IntArray

if TYPE_CHECKING:
    from surepick.learning.learner import Learner
    from surepick.learning.result import Result


Arm = Any
"""What users call an arm: a row number or a name, or a vector (d,) of a set of vectors."""


class Algorithm(Protocol):
    """A composition of rules: what a file of `surepick.algorithms` provides.

    One that can do without a list of arms says so by `takes_vectors = True`, one that can do without a list of
    candidates beside listed arms by `takes_vector_candidates = True`; one whose sampling needs `noise_std` by
    `plans_with_noise = True`; one that can plan for the m best by `supports_top_m = True`, for prices by
    `takes_costs = True`.
    """

    def compose(self, task: Task) -> tuple[Sampler, Rule]:
        """Return the parts, ready to run."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a learner says now."""

    best: Arm | None
    """The leading candidate, a row number or a vector; the answer once stopped. None before the pulled arms span. The
    list of the m best, the best first, if more than one is sought."""
    stopped: bool
    evidence: float
    """What the rule has against the alternatives, to be compared with `target`; in the unit of `unit`."""
    target: float
    rule: str
    guarantee: Guarantee
    n_pulls: int
    rival: Arm | None = None
    """The candidate that is hardest to tell from the best, where the rule knows it."""
    unit: str = "nats"
    exact: bool = True
    """Whether the evidence is the set's own; else a lower bound on it, so that a stop comes later at worst."""


@final
@dataclass(frozen=True, slots=True)
class Ask:
    """One measurement asked for."""

    number: int
    """What `tell` and `fail` may name it by; one that failed keeps its number when it is made again."""
    arm: Arm


# From so many times the pulls so far on, a plan is for ever to somebody who waits for it.
FAR = 10.0


class NearTie(NamedTuple):
    """What may be done where the end is far away."""

    rival: Any
    """The candidate that takes the most pulls to be told from the leader."""
    epsilon: float
    """What one might accept to lose."""
    pulls: int
    """In about how many more pulls the leader should be known to lose at most that."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Who leads, by how much, and how sure that is."""

    n_pulls: int
    stopped: bool
    leader: Any = None
    """Row number or vector; None before the pulled arms span. Of several that are sought, the last."""
    ahead: tuple[Any, ...] = ()
    """The better ones of several that are sought, the best first."""
    rival: Any = None
    """The candidate that may be furthest ahead of the leader; the runner-up once stopped. None if there is none, or
    candidates cannot be listed."""
    lead: float = math.nan
    """How far the leader's estimate is ahead of the rival's."""
    interval: tuple[float, float] = (-math.inf, math.inf)
    """Of the true lead, at confidence 1 - delta, together with all other intervals of a result."""
    loss: float = math.inf
    """What the leader can be losing at most: `Learner.epsilon_bound`."""
    remaining: float = math.inf
    """Pulls still needed, as it seems; inf or NaN while nothing can be said."""
    p_value: float = math.nan
    share: float = 0.0
    """Evidence of what the rule asks for, between 0 and 1; below 1 unless stopped."""
    rule: str = ""
    delta: float
    epsilon: float = 0.0
    guarantee: str = "none"
    near_tie: NearTie | None = None
    """Where `remaining` is more than ten times the pulls so far: what an epsilon would do."""

    @property
    def leaders(self) -> tuple[Any, ...]:
        """Who would be the answer now."""
        return (*self.ahead, self.leader)

    @property
    def confidence(self) -> float:
        """That the leader is right: 1 - `p_value`; NaN where the rule has none."""
        return 1.0 - self.p_value


def p_value_of(learner: "Learner") -> float:
    """Return `Result.p_value` of a learner now."""
    decision = learner.decision
    has_one = learner.rule.has_p_value(is_noise_known=learner.noise_std is not None)
    if not has_one or decision.guarantee in ("doubtful", "withdrawn", "none"):
        return math.nan
    # A rule that stops at log(m/delta) bets against m true hypotheses, each of which has a share of the risk.
    shared = decision.target + math.log(learner.delta)
    return math.exp(min(0.0, shared - decision.evidence))


def standing_of(learner: "Learner") -> Standing:
    """Return where a learner stands; two passes over the candidates."""
    decision, view, estimate = learner.decision, learner.candidates, learner.bounding_estimate
    bare = Standing(
        n_pulls=decision.n_pulls,
        stopped=decision.stopped,
        **_leaders(decision.best),
        p_value=p_value_of(learner),
        share=_share(decision.evidence, decision.target, is_stopped=decision.stopped),
        rule=decision.rule,
        delta=learner.delta,
        epsilon=learner.epsilon,
        guarantee=decision.guarantee,
    )
    if decision.best is None or decision.guarantee == "withdrawn":
        return bare
    known = replace(bare, loss=learner.epsilon_bound(), remaining=learner.expected_remaining())
    survivors = learner.survivors()
    if survivors is None:
        return known
    at: dict[str, Any] = {"delta": learner.delta, "noise_std": learner.bounding_noise_std}
    rows = replace(estimates_of(view, estimate, **at), margin=margins_of(view, estimate, known.leader, **at))
    return _beside_rival(known, rows, survivors)


def standing_in(result: "Result") -> Standing:
    """Return the same of a result."""
    known = Standing(
        n_pulls=result.n_until_verdict,
        stopped=result.stopped,
        **_leaders(result.best),
        loss=result.epsilon_bound,
        remaining=result.expected_remaining,
        p_value=result.p_value,
        share=_share(result.evidence, result.target, is_stopped=result.stopped),
        rule=result.stopping,
        delta=result.delta,
        epsilon=result.epsilon,
        guarantee=result.guarantee,
    )
    rows = result.compared
    if result.best is None or result.survivors is None or rows.listed is not None or result.guarantee == "withdrawn":
        return known
    return _beside_rival(known, rows, result.survivors)


def _leaders(best: Any) -> dict[str, Any]:
    return {"leader": best[-1], "ahead": tuple(best[:-1])} if isinstance(best, list) else {"leader": best}


def _beside_rival(known: Standing, rows: Estimates, survivors: IntArray) -> Standing:
    """Add the rival: among those not excluded, or among all if the leader is the answer."""
    if rows.margin is None:
        return known
    lead, margin = rows.estimate[known.leader] - rows.estimate, rows.margin
    # Copies of the leader are no rivals, nor is who was ahead when a rule excluded it.
    is_rival = margin > 0.0 if known.stopped else (margin > 0.0) & (lead >= 0.0)
    is_rival[list(known.ahead)] = False
    others = np.flatnonzero(is_rival) if known.stopped else survivors[is_rival[survivors]]
    if not len(others):
        return known
    is_bounded = bool(np.isfinite(margin[others]).all())
    # Before the end, whoever may be furthest ahead; then, who came second.
    least = lead[others] - margin[others] if is_bounded and not known.stopped else lead[others]
    rival = int(others[np.argmin(least)])
    half = float(margin[rival])
    beside = replace(
        known,
        rival=rival,
        lead=float(lead[rival]),
        interval=(float(lead[rival]) - half, float(lead[rival]) + half),
    )
    is_far = FAR * known.n_pulls < known.remaining < math.inf
    if known.stopped or not is_far or not is_bounded or known.ahead:
        return beside
    # To lose as much as there is to lose would be no help.
    most = min(known.loss, float(lead.max()))
    return replace(beside, near_tie=_near_tie(beside, others, lead[others], margin[others], most))


def _near_tie(standing: Standing, others: IntArray, lead: Array, margin: Array, most: float) -> NearTie | None:
    """Return the smallest round epsilon for which as many pulls again should do, or the largest up to `most`.

    Margins fall like one over the root of the pulls, so lead + epsilon >= margin holds for all rivals after
    n max (margin / (lead + epsilon))^2 pulls. No lead is below 0.
    """
    n, hardest = standing.n_pulls, int(others[np.argmin(lead / margin)])
    found = None
    for epsilon in _round_numbers(most):
        more = math.ceil(n * (float(np.max(margin / (lead + epsilon))) ** 2 - 1.0))
        if epsilon > standing.epsilon and 0 < more < standing.remaining:
            found = NearTie(hardest, epsilon, more)
            if more <= n:
                break
    return found


def _round_numbers(top: float) -> Iterator[float]:
    """Yield 1, 2 and 5 times powers of ten up to a number, from a thousandth of it."""
    if not 0.0 < top < math.inf:
        return
    first = math.floor(math.log10(top)) - 3
    for digits in (float(f"{m}e{k}") for k in range(first, first + 5) for m in (1, 2, 5)):
        if digits <= top:
            yield digits


def _share(evidence: float, target: float, *, is_stopped: bool) -> float:
    if is_stopped:
        return 1.0
    # Rounding to whole percents must not make it all of them.
    return min(max(evidence / target, 0.0), 0.99) if target > 0.0 and math.isfinite(evidence / target) else 0.0
