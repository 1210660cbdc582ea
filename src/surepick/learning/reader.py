"""What a learner knows at one moment: `Reader`.

Each number is worked out at most once between two events. `Decision`, `Snapshot` and `Result` are made from these
numbers, none of which enters a decision.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, final

import numpy as np

from surepick.arms.views import ArmView, WhitenedArms, as_rows
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import one_blas_thread
from surepick.core.noise import ArmVariances, is_contradicted, noise_estimate, noise_interval, noise_to_assume
from surepick.core.posterior import t_factor, wilson
from surepick.learning.estimates import Estimates, estimates_of, likely_of, margins_of
from surepick.learning.model import DRIFTS, ModelCheck, enough_checks, extrapolation
from surepick.learning.outlook import (
    Fit,
    Forecast,
    Outlook,
    Pulled,
    fit_of,
    forecast_of,
    outlook_of,
    successes_of,
    vector_outlook,
)
from surepick.learning.snapshot import Arm, Call, Decision, NearTie, Snapshot
from surepick.stopping.base import Verdict
from surepick.types import Array, BoolArray, Guarantee, IntArray

if TYPE_CHECKING:
    from surepick.learning.learner import Learner
    from surepick.learning.settlement import Settlement

# Suggest an epsilon once more than three times the pulls so far are still needed: that is what an exact tie looks like.
FAR = 3.0
# Arms pulled most that a forecast spreads further pulls over.
MOST_PULLED = 100


@final
class Reader:
    """Everything that can be read off a learner, each number worked out when first asked for, and then kept.

    A reader belongs to one moment: after every event the learner makes a new one.

    Args:
        learner: the learner to read.
        known: the settlement of its results.
    """

    def __init__(self, learner: "Learner", known: "Settlement") -> None:
        self._learner, self._known, self._plans = learner, known, learner.state.plans

    # ---- the rule

    @cached_property
    def verdict(self) -> Verdict:
        """The verdict of the rule; scans the candidates if the last check of the rule did not.

        If the whole budget is spent whatever is proved, the verdict comes with the end of the budget, and the best
        estimate leads. If the rule answers otherwise, nothing is proved of the leader.
        """
        verdict, learner = self._known.verdict_to_show(), self._learner
        if not learner.task.spends_all or learner.stopped or verdict.leader is None:
            return verdict
        if self._known.has_best_estimate(verdict.leader):
            return replace(verdict, stopped=False)
        best = learner.candidates.best(self._known.estimate.theta)
        return replace(verdict, stopped=False, leader=best, rival=verdict.leader, statistic=0.0)

    @cached_property
    def leaders(self) -> tuple[int, ...]:
        """Numbers of the candidates that would be the answer now, the best first."""
        return self._known.leading(self.verdict)

    @property
    def rivalry(self) -> tuple[list[Arm], Arm | None]:
        """The leaders as users name them, and the candidate hardest to exclude, if the rule knows one."""
        arm_of = self._learner.candidates.arm_of
        return [arm_of(leader) for leader in self.leaders], None if self._hardest is None else arm_of(self._hardest)

    @cached_property
    def _hardest(self) -> int | None:
        """Number of the candidate hardest to exclude: the evidence against it is least; of equals, the runner-up."""
        verdict = self.verdict
        if verdict.rival is None or verdict.stopped:
            return None
        missing = self._known.state.missing(self.leaders)
        if missing is None:
            return verdict.rival
        is_least = missing >= missing[verdict.rival]
        rows = as_rows(self._learner.candidates)
        return int(rows.rivals(self.leaders[-1], self._known.estimate.theta, [], np.copy, 1, is_least).index[0])

    @cached_property
    def decision(self) -> Decision:
        """The verdict of the rule, and whether the results contradict its assumptions."""
        verdict, (leaders, rival) = self.verdict, self.rivalry
        return Decision(
            best=self._answer(leaders) if leaders else None,
            stopped=verdict.stopped,
            evidence=verdict.statistic if verdict.leader is not None else 0.0,
            target=verdict.threshold,
            unit=verdict.unit,
            rule=self._learner.rule.name,
            guarantee=self._guarantee(),
            n_pulls=self._known.estimate.n_pulls,
            rival=rival,
            exact=not verdict.is_bound,
        )

    def _answer(self, leaders: list[Arm]) -> Arm:
        """Return the leader, the list of the m leaders, or beside a target the list of the arms called met."""
        if self._learner.task.target is not None:
            return list(self.verdict.met)
        return leaders if self._learner.m > 1 else leaders[0]

    @cached_property
    def calls(self) -> dict[Any, Call] | None:
        """See `Result.calls`."""
        target = self._learner.task.target
        if target is None:
            return None
        calls: dict[Any, Call] = dict.fromkeys(range(as_rows(self._learner.candidates).n_arms), "open")
        calls.update(dict.fromkeys(self.verdict.met, "met"))
        calls.update(dict.fromkeys(self.verdict.failed, "failed"))
        if target.control is not None:
            del calls[target.control]
        return calls

    def _guarantee(self) -> Guarantee:
        rule = self._learner.rule
        # With an allowed misfit, means are known not to be exactly linear: a contradicted model withdraws nothing.
        is_contradicted = self.model_check == "contradicted" and self._learner.misfit == 0.0
        if is_contradicted or self.noise_contradicted or self._known.repeats:
            return "withdrawn"
        # A proof for a fixed design does not cover results of arms that the learner did not choose.
        if rule.is_fixed_design and not self._known.is_own:
            return "none"
        is_claimed = rule.guarantee in ("proved", "published")
        return "doubtful" if is_claimed and self.noise_doubt else rule.guarantee

    @property
    def is_doubtful(self) -> bool:
        """Whether no risk can be claimed."""
        return self.decision.guarantee in ("doubtful", "withdrawn", "none")

    @cached_property
    def p_value(self) -> float:
        """See `Result.p_value`."""
        learner, decision = self._learner, self.decision
        if self.is_doubtful or not learner.rule.has_p_value(is_noise_known=learner.noise_std is not None):
            return math.nan
        # A rule that stops at log(m/delta) bets against m true hypotheses, each of which has a share of the risk.
        shared = decision.target + math.log(learner.delta)
        return math.exp(min(0.0, shared - decision.evidence))

    @cached_property
    def survivors(self) -> IntArray | None:
        """See `Result.survivors`."""
        if not self._learner.candidates.is_local:
            return None
        rows = as_rows(self._learner.candidates)
        if not self.leaders or self.is_doubtful:
            return np.arange(rows.n_arms)
        if self.verdict.stopped and self.calls is None:
            return np.sort(np.concatenate([rows.copies(leader) for leader in self.leaders]))
        left = self._known.state.survivors(self.leaders[0])
        return np.arange(rows.n_arms) if left is None else np.flatnonzero(left)

    @cached_property
    def n_undecidable(self) -> int:
        """See `Result.n_undecidable`."""
        is_open = self._learner.misfit > 0.0 and not self._known.stopped
        return self._known.state.n_undecidable(self._known.estimate) if is_open else 0

    @cached_property
    def remaining(self) -> Forecast:
        """Forecast of the pulls still needed, not below the rest of the open block.

        Where the rule keeps no evidence against single candidates, the missing evidence times what a unit of evidence
        costs by the plan, without a range.
        """
        decision, books = self.decision, self._learner.state.ledger
        if decision.stopped:
            return Forecast(0.0, 0.0, 0.0)
        if self.n_undecidable or not self.leaders:
            return Forecast(math.inf)
        return self._forecast().between(books.n_planned + books.pending.total(), self._most_left)

    @property
    def _most_left(self) -> float:
        """Pulls that are left at most: a pool ends with its last item."""
        pool, books = self._learner.task.pool, self._learner.state.ledger
        if pool is None or self.survivors is None:
            return math.inf
        return (pool - books.n_opened) * len(self.survivors) + books.n_planned + books.pending.total()

    def _forecast(self) -> Forecast:
        # Of all results: those that wait for an open ask need not be measured again.
        decision, learner, fit = self.decision, self._learner, self._fit_of(self._known.estimate)
        if self._known.state.missing(self.leaders) is not None and learner.misfit == 0.0 and self.survivors is not None:
            return self._drawn_forecast(fit, self.survivors) if fit is not None else Forecast(math.inf)
        missing = max(decision.target - decision.evidence, 0.0)
        per_nat = self._plans.sampler.pulls_per_nat() if decision.unit == "nats" else math.inf
        if math.isinf(per_nat) and decision.evidence > 0.0:
            return Forecast(missing * decision.n_pulls / decision.evidence)  # no plan to go by: as fast as so far
        return Forecast(missing * per_nat * self._known.noise**2)

    def _drawn_forecast(self, fit: Fit, left: IntArray) -> Forecast:
        learner, arms, counts = self._learner, as_rows(self._learner.measured_arms), self._known.estimate.counts
        # Many arms pulled once are as good as those of the design.
        often = sorted(counts, key=lambda arm: -counts[arm])[:MOST_PULLED]
        numbers = np.array(sorted({*often, *arms.design.support.tolist()}))
        levels = None if self._known.levels is None else self._known.levels.now
        stds = np.ones(len(numbers)) if levels is None else levels.of(numbers)
        design = np.zeros(len(numbers))
        design[np.searchsorted(numbers, arms.design.support)] = arms.design.weights
        return forecast_of(
            fit,
            as_rows(learner.candidates),
            Pulled(arms.gather(numbers) / stds[:, None], np.array([counts.get(arm, 0) for arm in numbers]), design),
            self.leaders,
            left,
            self._known.state.missing,  # type: ignore[arg-type]  # the caller has seen that the rule keeps it
            epsilon=learner.epsilon,
            has_costs=learner.task.costs is not None,
        )

    # ---- estimates, not guarantees

    @cached_property
    def _fit(self) -> Fit | None:
        """The estimate that is shown, and the level of its noise; None while there is nothing to go by."""
        return self._fit_of(self.estimate)

    def _fit_of(self, estimate: LeastSquares) -> Fit | None:
        known, learner = self._known, self._learner
        if not self.leaders or math.isinf(known.coarseness):
            return None
        levels = known.levels if isinstance(known.levels, ArmVariances) else None
        return fit_of(estimate, learner.measured_arms, learner.noise_model, levels)

    def _find_outlook(self) -> Callable[[], Outlook | None] | None:
        """Return how to work out the outlook of this moment, also after the learner has learnt on; None: there is none.

        A claim that is withdrawn rests on a model that is wrong, and so would the outlook.
        """
        learner, fit, view = self._learner, self._fit, self._learner.candidates
        is_over = self.decision.stopped or self.decision.guarantee == "withdrawn"
        if fit is None or is_over or learner.misfit > 0.0 or self.calls is not None:
            return None
        if not isinstance(view, WhitenedArms):
            return partial(vector_outlook, fit, view, self.leaders[0], epsilon=learner.epsilon)
        if self.survivors is None:
            return None
        level, n_pulls = learner.task.rows.level, self._known.estimate.n_pulls
        leaders, left = self.leaders, self.survivors
        return partial(outlook_of, fit, view, level, leaders, left, epsilon=learner.epsilon, n_pulls=n_pulls)

    # ---- the assumptions

    @property
    def model_check(self) -> ModelCheck:
        """Whether rewards follow the features. A false "contradicted" occurs in at most one learner in a hundred."""
        return "contradicted" if self._known.repeats else self._known.model.check

    @cached_property
    def misfit(self) -> str:
        """Which constant, measurement or arms do not fit, in plain words; "" if nothing was measured."""
        return self._known.explain_misfit(self._learner.called)

    @property
    def _is_drift(self) -> bool:
        """Whether the rewards scatter more than `noise_std` because they drift."""
        return self.noise_contradicted and self.misfit == DRIFTS

    @property
    def noise_contradicted(self) -> bool:
        """Whether the rewards scatter more than the `noise_std` given allows."""
        # A drift that blocks share is scatter around one fit of all results.
        noise_std = None if self._learner.task.drift > 0.0 else self._learner.noise_std
        return noise_std is not None and is_contradicted(self._known.prefix(), noise_std, self._learner.misfit)

    @property
    def noise_doubt(self) -> str:
        """See `Result.noise_doubt`. A false doubt occurs in less than one learner in a hundred."""
        return self._known.model.doubt()

    @property
    def coarseness(self) -> float:
        """See `Result.coarseness`; inf if all readings are equal."""
        return self._known.coarseness

    @property
    def repeats(self) -> bool:
        """See `Result.repeated`."""
        return self._known.repeats

    @property
    def n_checks(self) -> int:
        """Check pulls told after the verdict."""
        return self._known.model.n_checks

    @cached_property
    def far_share(self) -> float:
        """See `Snapshot.far_share`."""
        learner = self._learner
        if learner.task.costs is None or not self.leaders or not learner.candidates.is_local:
            return 0.0
        arms, compared = as_rows(learner.measured_arms), as_rows(learner.candidates)
        return extrapolation(arms, compared, self.leaders[-1], self._known.estimate, self._outside())

    @cached_property
    def enough_checks(self) -> int:
        """Check pulls that show a misfit of half the lead; at most twice the pulls, or twenty of every arm checked."""
        rows, stds = as_rows(self._learner.measured_arms), self._learner.noise_model.stds
        noise_std = self._known.noise * (1.0 if stds is None else math.sqrt(float(np.mean(stds**2))))
        return enough_checks(rows, noise_std, self.lead, 2 * self._known.estimate.n_pulls)

    # ---- pulls

    @property
    def cost(self) -> float:
        """Cost of all results so far; their number, if no costs are given."""
        return cost_of(self._learner, self._known.estimate.counts)

    @property
    def planned(self) -> dict[Any, float]:
        """Share of the pulls before the newest block that the designs wanted for each arm, if there are any."""
        wanted = self._plans.wanted_before(self._known.estimate.n_pulls)
        total = sum(wanted.values())
        return {self._learner.measured_arms.key_of(arm): n / total for arm, n in wanted.items() if n > 0.0}

    # ---- estimates

    @cached_property
    def estimate(self) -> LeastSquares:
        """The estimate that intervals are around: of the results before the first ask that is still open.

        Under the betting rule the time of a result may depend on its value, so a result that was asked for after an
        open ask counts here once that ask is answered. Nothing is left out for rules that decide after every pull,
        nor with one worker. As long as these results do not span, the estimate of all, and no intervals.
        """
        prefix = self._known.prefix()
        return prefix if prefix.has_theta else self._known.estimate

    @cached_property
    def noise_std(self) -> float | None:
        """The noise scale for intervals: as given; None if one level is learnt; inf where no interval is proved.

        No interval is proved with many levels or an unknown law, noise that does not look normal, an allowed misfit,
        offsets of groups, a pool, arms that may have been chosen after a look at results that would count here, or too
        few results.
        """
        learner = self._learner
        has_none = learner.noise != "same" or learner.misfit > 0.0 or learner.state.is_guided or self.noise_doubt != ""
        has_none = has_none or learner.spec.has_offsets or learner.task.pool is not None
        return math.inf if has_none or not self._known.prefix().has_theta else learner.noise_std

    @property
    def bounds(self) -> dict[str, Any]:
        """Risk and noise scale of all intervals."""
        return {"delta": self._learner.delta, "noise_std": self.noise_std}

    def _outside(self) -> BoolArray | None:
        """Return which candidates (K,) the leaders are compared with; None: all others."""
        if self._learner.m == 1:
            return None
        outside = np.ones(as_rows(self._learner.candidates).n_arms, dtype=bool)
        outside[list(self.leaders)] = False
        return outside

    @cached_property
    def lead(self) -> float:
        """Estimated lead of the answer over the next candidate, or least distance from a target; at least epsilon."""
        rows, theta = as_rows(self._learner.candidates), self._known.estimate.theta
        if (target := self._learner.task.target) is not None:
            return max(target.least_distance(rows, theta), self._learner.epsilon)
        found = rows.rivals(self.leaders[-1], theta, [], np.copy, 1, self._outside())
        return max(float(found.score[0]), self._learner.epsilon)

    @cached_property
    def epsilon_bound(self) -> float:
        """How much the leader can be losing at most, with probability 1 - delta for all times together."""
        return self._epsilon_bound()

    @one_blas_thread
    def _epsilon_bound(self) -> float:
        if self.calls is not None:
            return math.inf  # calls are right or wrong, and no arm is said to be the best
        estimate, candidates = self.estimate, self._learner.candidates
        noise_std, delta = noise_to_assume(estimate, self.noise_std, self._learner.delta)
        if not (estimate.has_theta and math.isfinite(noise_std)):
            return math.inf
        if self._learner.m == 1:
            return candidates.largest_loss(self.leaders[0], estimate, delta=delta, noise_std=noise_std)
        rows, outside = as_rows(candidates), self._outside()
        return max(
            rows.largest_loss(leader, estimate, delta=delta, noise_std=noise_std, among=outside)
            for leader in self.leaders
        )

    @cached_property
    def compared(self) -> Estimates:
        """Estimates of all candidates, with their distances to the leader; of the leaders where they have no list."""
        view = self._learner.candidates
        rows = self.table(view)
        if not self.leaders:
            return rows
        only = self.listed(view)
        margin = margins_of(view, self.estimate, self.leaders[-1], only=only, **self.bounds)
        return replace(
            rows, margin=np.where(margin > 0.0, np.inf, 0.0) if self.decision.guarantee == "withdrawn" else margin
        )

    def table(self, view: ArmView) -> Estimates:
        """Return the estimates of a view of arms; without intervals where the claim is withdrawn."""
        rows = estimates_of(view, self.estimate, only=self.listed(view), **self.bounds)
        if self.decision.guarantee == "withdrawn":
            unknown = np.full(len(rows), np.inf)
            return replace(rows, low=-unknown, high=unknown)
        low, high = rows.low, rows.high
        if (cut := self._range_of(view)) is not None:
            low, high = (np.where(np.isfinite(ends), np.clip(ends, *cut), ends) for ends in (low, high))
        likely_low, likely_high = self._likely(view)
        return replace(rows, low=low, high=high, likely_low=likely_low, likely_high=likely_high)

    def _range_of(self, view: ArmView) -> tuple[float, float] | None:
        """Return the range of the means: for arms that of the rewards. Candidates that are no arms may lie outside."""
        return self._learner.reward_range if view is self._learner.measured_arms else None

    def _likely(self, view: ArmView) -> tuple[Array, Array] | tuple[None, None]:
        """Return the interval of each mean alone; of 0/1 rewards with one feature per arm, Wilson's."""
        learner, fit = self._learner, self._fit
        if fit is None or learner.misfit > 0.0:
            return None, None
        arms, has_shares = learner.measured_arms, not learner.spec.has_offsets
        if (
            learner.is_binary
            and has_shares
            and isinstance(arms, WhitenedArms)
            and arms.n_arms == arms.dim
            and view is arms
        ):
            return wilson(*successes_of(self.estimate, arms))
        return likely_of(view, fit, only=self.listed(view), reward_range=self._range_of(view))

    def listed(self, view: ArmView) -> list[int] | None:
        """Return the arms of a view that a table can list: None for all, else those pulled and the leaders."""
        if view.is_local:
            return None
        pulled = self._known.estimate.counts if view is self._learner.unscaled else ()
        return sorted({*pulled, *(self.leaders if view is self._learner.candidates else ())})

    # ---- all of it

    @property
    def _path(self) -> tuple[tuple[int, float, float], ...]:
        """How evidence grew; until the verdict, the last point is the evidence of today."""
        path, now = self._known.path, self.decision
        if now.stopped or not path or math.isnan(now.evidence):
            return tuple(path)
        return (*(point for point in path if point[0] < now.n_pulls), (now.n_pulls, now.evidence, now.target))

    @cached_property
    def snapshot(self) -> Snapshot:
        """Everything that is shown; two passes over the candidates."""
        learner, decision, known = self._learner, self.decision, self._known
        is_withdrawn = decision.guarantee == "withdrawn"
        names = learner.candidates.names
        is_bounded = self.noise_std != math.inf
        made = Snapshot(
            **given_of(learner),
            n_pulls=decision.n_pulls,
            cost=self.cost,
            best=decision.best,
            best_name=None if names is None or decision.best is None else _named(names, decision.best),
            stopped=decision.stopped,
            evidence=decision.evidence,
            threshold=decision.target,
            epsilon_bound=math.inf if is_withdrawn else self.epsilon_bound,
            remaining=self.remaining.pulls,
            remaining_low=self.remaining.low,
            remaining_high=self.remaining.high,
            hardest=self._hardest if learner.candidates.is_local and learner.candidates.is_enumerable else None,
            _find_outlook=self._find_outlook(),
            p_value=self.p_value,
            survivors=self.survivors,
            path=self._path,
            guarantee=decision.guarantee,
            model_check=self.model_check,
            misfit=self.misfit if self.model_check == "contradicted" or self._is_drift else "",
            n_undecidable=self.n_undecidable,
            n_checks=self.n_checks,
            noise_std=noise_estimate(self.estimate),
            noise_interval=noise_interval(self.estimate, learner.delta) if is_bounded else (0.0, math.inf),
            noise_contradicted=self.noise_contradicted,
            far_share=self.far_share,
            coarseness=self.coarseness,
            repeated=self.repeats,
            noise_doubt=self.noise_doubt,
            n_residuals=known.model.n_residuals,
            groups=known.groups(t_factor),
            calls=self.calls,
            arm_set="" if learner.candidates.is_enumerable else learner.candidates.description,
            exact=decision.exact,
        )
        if not learner.candidates.is_local:
            return made
        beside = beside_rival(made, self.compared)
        return replace(made, **beside, **self._likely_lead(beside))

    def _likely_lead(self, beside: dict[str, Any]) -> dict[str, Any]:
        """Return the interval of the lead over the runner-up, by Student's t."""
        fit = self._fit
        if "rival" not in beside or fit is None or self._learner.misfit > 0.0:
            return {}
        own, other = as_rows(self._learner.candidates).gather([self.leaders[-1], beside["rival"]])
        lead = float((own - other) @ fit.theta)
        half = t_factor(fit.nu) * math.sqrt(fit.variance * float((own - other) @ fit.A_inv @ (own - other)))
        return {"likely_lead": (lead - half, lead + half)}


def cost_of(learner: "Learner", counts: Mapping[int, int]) -> float:
    """Return the cost of results, numbers of them per arm; their number, if no costs are given."""
    costs = learner.costs
    return float(sum(n if costs is None else n * costs[number] for number, n in counts.items()))


def given_of(learner: "Learner") -> dict[str, Any]:
    """Return the fields of a snapshot that depend on options alone."""
    stds = learner.noise_model.stds
    return {
        "m": learner.m,
        "rule": learner.rule.name,
        "is_foreign_rule": not learner.rule.is_of_package,
        "noise_law": learner.noise_model.law(learner.rule),
        "delta": learner.delta,
        "epsilon": learner.epsilon,
        "given_noise_std": learner.noise_std if stds is None else stds,
        "noise": learner.noise,
        "model": learner.model,
        "allowed_misfit": learner.misfit,
        "has_offsets": learner.spec.has_offsets,
        "earlier": learner.earlier if learner.state.start is None else "kept",
        "reward_range": learner.reward_range,
        "drift": learner.spec.drift,
        "budget": learner.spec.budget,
        "batch": learner.spec.batch,
        "rounds": learner.spec.rounds,
        "goal": learner.spec.goal,
        "pool": learner.task.pool,
        "algorithm": learner.algorithm,
        "seed": learner.seed,
        "specification": learner.task.target,
    }


def _named(names: tuple[str, ...], best: Any) -> str | list[str]:
    return [names[arm] for arm in best] if isinstance(best, list) else names[best]


def beside_rival(known: Snapshot, rows: Estimates) -> dict[str, Any]:
    """Return rival, lead, interval and near tie from the table of candidates; nothing where there is no rival.

    The rival is second by estimate, excluded or not, or first: while a block is open, results may put a candidate in
    front of the leader, and the lead is then below 0. A near tie is with a candidate that is not excluded.
    """
    survivors, ahead = known.survivors, list(known.leaders[:-1])
    is_shown = known.best is not None and known.guarantee != "withdrawn" and rows.listed is None and known.calls is None
    if not is_shown or survivors is None or rows.margin is None:
        return {}
    lead, margin = rows.estimate[known.leader] - rows.estimate, rows.margin
    # Copies of the leader are no rivals, nor are, before the verdict, candidates that led when a rule excluded them.
    is_rival = margin > 0.0
    if not known.stopped:
        is_rival &= (lead >= 0.0) | np.isin(np.arange(len(lead)), survivors)
    is_rival[ahead] = False
    others, left = np.flatnonzero(is_rival), survivors[is_rival[survivors]]
    if not len(others):
        return {}
    rival = int(others[np.argmin(lead[others])])
    size, half = float(lead[rival]), float(margin[rival])
    found = {"rival": rival, "lead": size, "interval": (size - half, size + half)}
    is_far = FAR * known.n_until_verdict < known.remaining < math.inf
    if known.stopped or not is_far or not len(left) or not np.isfinite(margin[left]).all() or ahead:
        return found
    # A tolerance as large as all there is to lose would be no help.
    most = min(known.epsilon_bound, float(lead.max()))
    return {**found, "near_tie": _near_tie(known, left, np.maximum(lead[left], 0.0), margin[left], most)}


def _near_tie(known: Snapshot, others: IntArray, lead: Array, margin: Array, most: float) -> NearTie | None:
    """Return the smallest round epsilon with which twice the pulls so far should do, or the largest that helps.

    Margins fall like one over the root of the pulls, so lead + epsilon >= margin holds for all rivals after
    n max (margin / (lead + epsilon))^2 pulls. Leads are 0 or more.
    """
    n, hardest = known.n_until_verdict, int(others[np.argmin(lead / margin)])
    found = None
    for epsilon in _round_numbers(most):
        more = math.ceil(n * (float(np.max(margin / (lead + epsilon))) ** 2 - 1.0))
        if epsilon > known.epsilon and 0 < more < known.remaining:
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
