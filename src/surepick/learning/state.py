"""LearnerState: what asks and results add up to, and what the stopping rule says of it.

Time runs in intervals, settled in the order of their opening, each when all its asks are told. The rule judges one by
its own results and by what was known before: the results of earlier intervals, and unsolicited ones told before it
opened. Which arms are asked for is none of its business: that is the sampler's, in `plans`. So knowledge can be gained
again from a log, with corrected values, while arms and intervals stay as they happened.
"""

import math
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Literal, final

import numpy as np

from surepick.arms.views import Task, as_rows
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import one_blas_thread
from surepick.core.noise import noise_estimate
from surepick.learning.blocks import Ledger, Plan, PlannedBlock
from surepick.learning.events import Event
from surepick.learning.model import Model, Pulls, check_arms
from surepick.learning.noise_models import NoiseModel
from surepick.stopping.base import Rule, RuleState, Verdict
from surepick.types import Array

COARSE = 0.6
"""Readings are called coarse if they scatter by less than this share of their step; finer ones cost few more pulls."""
PATH_STEP = 1.05
"""Evidence is noted when the pulls have grown by this factor: a result has its path in a few dozen steps."""


@final
class LearnerState:
    """Everything that follows from the events of one learner.

    Args:
        task: what the algorithm is composed for.
        rule: the stopping rule.
        noise: what is assumed of the noise.
        earlier: whether what is told before the first interval is evidence or guidance.
        state: of the rule, if not a fresh one.
    """

    def __init__(
        self,
        task: Task,
        rule: Rule,
        noise: NoiseModel,
        *,
        earlier: Literal["evidence", "guidance"],
        state: RuleState | None = None,
    ) -> None:
        self._task, self._white, self._rule, self._noise = task, task.arms, rule, noise
        self._looks_back = earlier == "evidence" and not noise.needs_bets
        self.state = rule.start(task) if state is None else state
        self.estimate = LeastSquares(self._white.dim, self.state.regularizers)
        self.ledger = Ledger(opens_ahead=rule.opens_ahead and not rule.is_fixed_design)
        self.levels = noise.variances(self._white.dim)
        self.verdict: Verdict | None = None
        """What the rule said last."""
        self.model = Model(self._white, noise.std, is_watched=not noise.needs_bets, is_exact=task.misfit == 0.0)
        self.checks: deque[int] = deque()
        """Arms of check pulls, not yet asked for."""
        self.path: list[tuple[int, float, float]] = []
        """How evidence grew: pulls, evidence and target when the rule looked."""
        self.is_own = True
        """Whether every result was asked for, until the rule stopped."""
        self.n_told = 0
        """Results so far, those void included."""
        self.n_earlier = 0
        """Results that count and were told before the first interval, without being asked for."""
        self._looked: Verdict | None = None
        # What is known before the oldest interval not settled, and unsolicited results that it may not know yet, each
        # with the number of intervals opened before it was told.
        self._past = LeastSquares(self._white.dim)
        self._unsolicited: deque[tuple[int, int, float]] = deque()
        # Results that count, each as place, number, arm and reward. Places, from 0, are in the order of asks; an
        # unsolicited result has the next one after all asks made before it was told.
        self._told: list[tuple[int, int, int, float]] = []
        self._last_place = -1
        self._asks_before: list[int] = []  # the number of those asks, for each unsolicited result
        # Whether the time of a result may depend on its value.
        self._allows_delays = rule.needs_fixed_blocks or rule.is_fixed_design
        # The prefix at the last look, the results told behind it, and the number of results it has looked at.
        self._prefix: tuple[LeastSquares, list[tuple[int, int, int, float]], int] = LeastSquares(self._white.dim), [], 0
        self._rows: dict[int, Array] = {}

    @property
    def stopped(self) -> bool:
        """Whether the rule has stopped."""
        return self.verdict is not None and self.verdict.stopped

    @property
    def noise(self) -> float:
        """The level of the noise as far as it is known; NaN if it is not."""
        given = self._noise.std
        return noise_estimate(self.estimate) if given is None else given

    def prefix(self) -> LeastSquares:
        """Return the estimate from the results before the first ask that is not told, in the order of asks.

        Intervals are made of these. When a result is told may depend on its value, so what was told so far may be a
        biased choice; a prefix of the order of asks is not (docs/guarantee.md, "Intervals under delays"). This is the
        estimate of all results where none is left out, and for rules that decide after every pull: their assumption
        is that delays ignore values.
        """
        n_places = self._n_places()
        if self._last_place < n_places:
            return self.estimate
        estimate, behind, n_seen = self._prefix
        behind = sorted(behind + self._told[n_seen:])
        n_due = bisect_left(behind, (n_places,))
        if n_due:
            _, _, arms, rewards = zip(*behind[:n_due], strict=True)
            estimate = estimate.snapshot()
            estimate.update_many(self._features(arms), np.array(rewards), arms)
        self._prefix = estimate, behind[n_due:], len(self._told)  # in one step: a look may be interrupted
        return estimate

    def _place(self, n_asked: int) -> int:
        """Return the place of what comes next after so many asks, and after the unsolicited results before it."""
        return n_asked + bisect_right(self._asks_before, n_asked)

    def _n_places(self) -> float:
        """Return how many places the prefix has: those before the first ask that is not told, or all."""
        return self._place(self.ledger.n_complete) if self._allows_delays else math.inf

    @property
    def counts_every_result(self) -> bool:
        """Whether the rule takes every result for evidence, asked for or not; with a fixed design its label goes."""
        return self.state.counts_every_result and not self._rule.is_fixed_design

    def relative_stds(self) -> Array | None:
        """Return how noisy each arm (K,) seems beside the level of all results; None if arms are alike, or unknown."""
        known = None if self.levels is None else self.levels.now
        if known is None or not self.noise > 0.0:
            return None
        return known.of(np.arange(self._white.n_arms)) / self.noise

    def verdict_to_show(self) -> Verdict:
        """Return what the rule says now; a pass over the candidates if its last check could do without one."""
        verdict = self.verdict
        if verdict is not None and not verdict.is_exact:
            if self._looked is None:
                # Looking decides nothing: a log holds no looks, and has to lead to the same state.
                self._looked = replace(self.state.exact(self.estimate), stopped=False)
            verdict = self._looked
        return Verdict(threshold=math.log(1.0 / self._task.delta)) if verdict is None else verdict

    def leading(self, verdict: Verdict) -> tuple[int, ...]:
        """Return who would be the answer by a verdict, the best first; nobody before the pulled arms span."""
        if verdict.leader is not None:
            return verdict.leader, *verdict.others
        return self.state.leaders(self.estimate) if self.estimate.has_theta else ()

    def look_back(self) -> None:
        """Before the first interval opens, let the rule take in what was told: nobody had asked for it."""
        if self._looks_back and self.ledger.n_opened == 0 and self.estimate.n_pulls > 0:
            self._looks_back, pulls = False, self._pulls()
            self._decide(self.state.begin(self.estimate, pulls.X, pulls.rewards))

    def plan_checks(self, n: int) -> None:
        """Begin an interval of check pulls; one that is open ends with what was asked of it."""
        self.ledger.cut()
        self.checks.extend(check_arms(as_rows(self._white), n, self._task.seed))
        self.ledger.open(n, is_check=True)

    def take_in(self, number: int, reward: float | None, answered: int | None, *, is_named: bool) -> None:
        """Learn from a result, None if it is void, and decide."""
        ledger = self.ledger
        self.n_told += 1
        self._looked = None
        if answered is None:
            place = self._place(ledger.n_asked)
            self._asks_before.append(ledger.n_asked)
        else:
            place = self._place(answered) if self._asks_before else answered
        if reward is not None:
            reward = self._noise.scaled(number, reward)
            self._told.append((place, self.n_told - 1, number, reward))
            if place > self._last_place:  # noqa: PLR1730 - a call of `max` takes longer, and this is done for every pull
                self._last_place = place
            self.estimate.update(self._row(number), reward, number)
            if answered is None:
                self.is_own = self.is_own and self.stopped
                self.n_earlier += ledger.n_opened == 0
        has_place = answered is not None and ledger.tell(answered, reward, is_named=is_named)
        if reward is not None and not has_place:
            self._unsolicited.append((ledger.n_opened, number, reward))
        # A proof for arms fixed in advance covers the first n asks as a whole, not those that came in first.
        is_due = self.state.decides_after_pulls and (ledger.is_settled or not self._rule.is_fixed_design)
        if is_due and not self.stopped:
            self._decide(self.state.after_pull(self.estimate))
        if ledger.has_settled:
            for interval in ledger.settled():
                self._close(interval)

    def relive(
        self, log: Sequence[Event], opened: Sequence[tuple[int, Plan]], corrected: Mapping[int, float | None]
    ) -> None:
        """Go through a log with corrected values.

        Args:
            log: the events.
            opened: intervals as they were planned, each with the number of events before. One ask may open several.
            corrected: values by the number of the result, None if it is void.
        """
        ledger, number_of, numbers = self.ledger, self._white.number_of, count()
        by_first, by_place = {plan.first: plan for _, plan in opened}, dict(opened)

        def open_again(plan: Plan | None) -> None:
            if plan is not None and plan.first == ledger.n_asked and ledger.needs_block:
                self.look_back()
                if plan.length:
                    ledger.open(plan.length, n_parts=plan.n_parts)

        for place, event in enumerate(log):
            if event[0] != "ask":  # one that was planned and not asked for before something else happened
                open_again(by_place.get(place))
            match event:
                case ("ask", arms):
                    for number in map(number_of, arms):
                        open_again(by_first.get(ledger.n_asked))
                        ledger.ask(self.checks.popleft if self.checks else lambda drawn=number: drawn)  # type: ignore[misc]
                case ("tell", arm, reward, *ask):
                    number = number_of(arm)
                    answered = ledger.find(number, ask[0] if ask else None)
                    self.take_in(number, corrected.get(next(numbers), reward), answered, is_named=bool(ask))
                case ("fail", arm, *ask):
                    ledger.fail(number_of(arm), ask[0] if ask else None)
                case ("audit", n):
                    self.plan_checks(n)
        open_again(by_place.get(len(log)))

    @property
    def repeats(self) -> bool:
        """Whether rewards of one arm equal each other too often to be measurements with noise that is learnt."""
        return self._noise.repeats(self.estimate)

    @property
    def coarseness(self) -> float:
        """Step of the readings where noise that is learnt is smaller than that; 0 where it is not."""
        return self._coarseness(self.estimate)

    def _coarseness(self, estimate: LeastSquares) -> float:
        step = estimate.resolution if self._noise.std is None else 0.0
        is_coarse = step > 0.0 and (math.isinf(step) or noise_estimate(estimate) < COARSE * step)
        return step if is_coarse else 0.0

    def explain_misfit(self, called: Callable[[int], int]) -> str:
        """Say in plain words which constant, measurement or arms do not fit."""
        if self.repeats:
            n_equal, n_could = self.estimate.n_repeated
            return (
                f"{n_equal} of {n_could} repeated measurements equal the first one of their arm to the last digit: a "
                "cache may answer in the place of a measurement, or the noise is often exactly 0."
            )
        return self.model.explain(self.noise, self.estimate, self._pulls, called)

    def _row(self, number: int) -> Array:
        x = self._rows.get(number)
        if x is None:
            x = self._rows[number] = self._white.gather([number])[0]
        return x

    def _features(self, numbers: Sequence[int]) -> Array:
        return np.array([self._row(number) for number in numbers])

    @one_blas_thread
    def _close(self, interval: PlannedBlock) -> None:
        """Let the rule judge an interval, and the model be watched."""
        arms, results = interval.pulls
        if not arms:
            return  # all of it is void
        numbers, X, rewards = np.array(arms), self._features(arms), np.array(results)
        self._learn_before(interval)
        # A length that may depend on the block's own results allows no bet, the watch's neither. And rounding moves the
        # means of coarse readings: that is no misfit, and bets allow for it already.
        is_judged = not (interval.is_cut or self._coarseness(self._past))
        (self.model.settle if is_judged else self.model.learn)(numbers, X, rewards)
        self.model.n_checks += len(arms) if interval.is_check else 0
        if not (self.stopped or self.state.decides_after_pulls):
            block = None
            if not interval.is_cut:
                block = self._noise.block(interval, (numbers, X, rewards), self._past, self.levels, self._features)
            if block is not None:
                self._noise.mind_rounding(block, self._past, was_coarse=True)
            if self.levels is not None:
                self.levels.learn(numbers, X, rewards)
            self._past.update_many(X, rewards)
            if block is not None:
                self._noise.mind_rounding(block, self._past, was_coarse=False)
                self._decide(self.state.after_block(self.estimate, block))
        self.model.look_for_slips(self.prefix(), partial(self._pulls, self._n_places()), now=self.stopped)

    def _learn_before(self, interval: PlannedBlock) -> None:
        """Know the unsolicited results that were told before the interval opened; its bets may."""
        unsolicited, told = self._unsolicited, []
        while unsolicited and unsolicited[0][0] < interval.number:
            told.append(unsolicited.popleft()[1:])
        if told:
            arms, rewards = np.array([arm for arm, _ in told]), np.array([reward for _, reward in told])
            X = self._features(arms.tolist())
            self._past.update_many(X, rewards)
            self.model.learn(arms, X, rewards)
            if self.levels is not None:
                self.levels.learn(arms, X, rewards)

    def _pulls(self, n_places: float = math.inf) -> Pulls:
        """Return the results that count, of the first so many places, in the order in which they were told."""
        told = [one for one in self._told if one[0] < n_places]
        places, numbers, arms, rewards = zip(*told, strict=True)
        return Pulls(places, numbers, arms, self._features(arms), np.array(rewards))

    def _decide(self, verdict: Verdict | None) -> None:
        if verdict is not None:
            self.verdict, self._looked = verdict, None
            n, last = self.estimate.n_pulls, self.path[-1][0] if self.path else 0
            if verdict.is_exact and verdict.leader is not None and (verdict.stopped or n >= PATH_STEP * last):
                self.path.append((n, verdict.statistic, verdict.threshold))
