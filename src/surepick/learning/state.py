"""The state of a learner: what its events add up to.

`LearnerState` keeps the books: which asks were made, which blocks they belong to, and which results answer them. Events
change nothing else. `Settlement` holds everything that depends on values: the estimate, the state of the stopping rule
and the watch on the model. A settlement is worked out when somebody reads it, result by result in the order of telling.

A correction only replaces a value. Blocks and arms stay as they happened, and the next reader settles again. A log with
many corrections therefore loads as fast as one without.

The rule judges a block by its own results and by what was known before: the results of earlier blocks, and unsolicited
ones told before the block opened. Blocks are settled in the order of opening, each when all its asks are told.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple, final

import numpy as np

from surepick.arms.views import Task, as_rows
from surepick.core.betting.block import Block
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import one_blas_thread
from surepick.core.noise import ArmVariances, is_repeating, noise_estimate, residuals, rounding_bias
from surepick.learning.blocks import Followed, Ledger, Plan, PlannedBlock, Plans
from surepick.learning.events import Event
from surepick.learning.model import Model, Pulls, check_arms
from surepick.learning.validation import Rewards
from surepick.sampling.base import SamplerContext
from surepick.stopping.base import Rule, RuleState, Verdict
from surepick.types import Array, IntArray

COARSE = 0.6
"""Readings are called coarse if they scatter by less than this share of their step; finer ones cost few more pulls."""
PATH_STEP = 1.05
"""Evidence is noted when the pulls have grown by this factor: a result has its path in a few dozen steps."""


class ToldResult(NamedTuple):
    """A result as the books have it: everything about it but its value."""

    place: int
    """Places, from 0, are in the order of asks. An unsolicited result has the next one after all asks made so far."""
    arm: int
    is_asked: bool
    has_block: bool
    n_opened: int
    """Blocks opened before it was told."""
    is_complete: bool
    """Whether it was the answer to the last open ask."""
    closes: tuple[PlannedBlock, ...]
    """Blocks that it completes, and whose turn it is."""
    n_places: float
    """How many places `Settlement.prefix` has at that moment, if a block is completed."""


@final
@dataclass(frozen=True, slots=True)
class Setting:
    """What a settlement needs to know beside the events."""

    task: Task
    rule: Rule
    rewards: Rewards
    noise: Literal["same", "per-arm", "symmetric"]
    """What is assumed of noise whose level is not given."""
    earlier: Literal["evidence", "guidance"]
    """What results are that were told before the first block."""


@final
class LearnerState:
    """The books of one learner, and the settlement of them.

    Args:
        setting: task, rule and assumptions.
        plans: of the sampler.
    """

    def __init__(self, setting: Setting, plans: Plans) -> None:
        rule = setting.rule
        self._setting, self.plans = setting, plans
        plans.work_out = self._work_out
        self.log: list[Event] = []
        """Events so far."""
        self.ledger = Ledger(opens_ahead=rule.opens_ahead and not rule.is_fixed_design)
        self.checks: deque[int] = deque()
        """Arms of check pulls, not yet asked for."""
        self.results: list[ToldResult] = []
        self.values: list[float | None] = []
        """What each result counts with, in units of its noise; None: void. A correction makes a new list."""
        self.first_plan: int | None = None
        """Results told before the first block was planned; None: there is no plan yet."""
        self._voided: dict[int, float] = {}  # what void results counted with
        self._early: list[int] = []  # unsolicited results told before the first block
        self._asks_before: list[int] = []  # the number of asks made before each unsolicited result
        # Whether the time of a result may depend on its value.
        self._allows_delays = rule.needs_fixed_blocks or rule.is_fixed_design
        # A rule that reads the sampler's plans must see every result before the sampler moves on.
        self._is_eager = not rule.takes_corrections
        self._rows: dict[int, Array] = {}
        self._settlement = Settlement(setting, self, self.values)
        self._unseen: list[Followed] = []  # plans followed with the present values, and not passed by the settlement
        self._prepared: tuple[list[float | None], int, float | None, Settlement] | None = None

    # ---- events

    def tell(self, arm: int, value: float, answered: int | None, *, is_named: bool) -> None:
        """Take in a result."""
        ledger, n = self.ledger, len(self.results)
        if answered is None:
            place, has_block = self._place(ledger.n_asked), False
            self._asks_before.append(ledger.n_asked)
            if not ledger.n_opened:
                self._early.append(n)
        else:
            place = self._place(answered) if self._asks_before else answered
            has_block = ledger.tell(answered, n, is_named=is_named)
        closes = tuple(ledger.settled()) if ledger.has_settled else ()
        n_places = self.n_places() if closes else 0.0
        told = place, arm, answered is not None, has_block, ledger.n_opened, ledger.is_settled, closes, n_places
        self.results.append(ToldResult(*told))
        self.values.append(self._setting.rewards.scaled(arm, value))
        if self._is_eager:
            self._settle()

    def ask(self, known: int | None = None) -> tuple[int, int]:
        """Make the next ask, of an arm that may be known; return its number and its arm."""
        n_before = self.ledger.n_asked
        number, arm = self.ledger.ask(self._draw if known is None else partial(self._draw_known, known))
        if self.ledger.n_asked > n_before:
            self.plans.spend(arm)
        return number, arm

    def _draw(self) -> int:
        return self.checks.popleft() if self.checks else self.plans.next()

    def _draw_known(self, arm: int) -> int:
        if self.checks:
            self.checks.popleft()
        else:
            self.plans.skip()
        return arm

    def next_asks(self, n: int) -> list[tuple[int, int]]:
        """Return the numbers and arms of the next asks, n or as many as the block has, without making them."""
        ledger = self.ledger
        n = min(n, ledger.n_planned or n)
        n_new = min(n, ledger.n_left) if ledger.n_planned else n
        arms = list(self.checks)[:n_new] if self.checks else self.plans.peek(n_new)
        return [*enumerate(arms, start=ledger.n_asked), *ledger.failed(n - n_new)]

    def plan_checks(self, n: int) -> None:
        """Begin a block of check pulls; one that is open ends with what was asked of it."""
        self.plans.drop_rest()
        self.ledger.cut()
        self.checks.extend(check_arms(as_rows(self._setting.task.arms), n, self._setting.task.seed))
        self.ledger.open(n, is_check=True)

    def propose_plan(self, *, draws: bool) -> Plan:
        """Return the plan of the next block, which `open` then adopts."""
        settled = self.settled
        if not self.ledger.n_opened:
            settled.look_back()
        return self.plans.propose(settled.context(self.ledger.outstanding), self.ledger.n_asked, draws=draws)

    def open(self, plan: Plan, *, checks: bool = False) -> None:
        """Begin a block by a plan: the one that was proposed, or one that was made elsewhere and is followed."""
        if not self.ledger.n_opened:
            self.first_plan = len(self.results)
        if plan != self.plans.proposed:
            followed = Followed(plan, len(self.results), self.ledger.outstanding, self.values)
            self._unseen.append(followed)
            if checks or self._is_eager:
                self._settle()
            self.plans.follow(followed, checks=checks, catches_up=self._is_eager)
        self.plans.adopt(plan)
        if plan.length:
            self.ledger.open(plan.length, n_parts=plan.n_parts)

    def prepare(self, n: int, value: float | None) -> None:
        """Settle with another value of a result, so that `change` can adopt the settlement."""
        values = self._changed(n, value)
        found = Settlement(self._setting, self, values)
        found.advance(len(values))
        found.prefix()
        self._prepared = self.values, n, value, found

    def change(self, n: int, value: float | None) -> None:
        """Replace the value of a result, None if it is void."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None and prepared[0] is self.values and prepared[1:3] == (n, value):
            found = prepared[-1]
            found.values.extend(self.values[len(found.values) :])
        elif n < self._settlement.n_settled:
            found = Settlement(self._setting, self, self._changed(n, value))
        else:
            found = self._settlement
            found.values = self._changed(n, value)
        before = self.values[n]
        if value is None and before is not None:
            self._voided[n] = before
        self.values, self._settlement, self._unseen = found.values, found, []

    def _changed(self, n: int, value: float | None) -> list[float | None]:
        values = self.values.copy()
        values[n] = value
        return values

    def value_before(self, n: int) -> float:
        """Return what a void result counted with before."""
        return self._voided[n]

    # ---- what follows

    @property
    def settled(self) -> "Settlement":
        """The settlement of all results so far."""
        if self._unseen or self._settlement.n_settled < len(self.results):
            self._settle()
        return self._settlement

    def _settle(self) -> None:
        found = self._settlement
        try:
            for followed in self._unseen:
                found.advance(followed.n_told)
                followed.context = found.context(followed.pending, is_kept=True)
            self._unseen = []
            found.advance(len(self.results))
        except BaseException:
            # Half a result may have been settled: the books know all of it.
            self._settlement = Settlement(self._setting, self, self.values)
            raise

    def _work_out(self, plans: Iterable[Followed]) -> None:
        """Give plans that were followed the contexts of their time, with the values that were known then."""
        self._settle()
        aside: Settlement | None = None
        for followed in plans:
            if followed.context is None:
                if aside is None or aside.values is not followed.values:
                    aside = Settlement(self._setting, self, followed.values)
                aside.advance(followed.n_told)
                followed.context = aside.context(followed.pending, is_kept=True)

    def settled_by(self, state: RuleState) -> Callable[[], None]:
        """Return a function that settles the results so far, and no later ones, with another state of the rule."""
        aside = Settlement(self._setting, self, self.values, state)
        return partial(aside.advance, len(self.results))

    @property
    def counts_every_result(self) -> bool:
        """Whether the rule takes every result for evidence, asked for or not; with a fixed design its label goes."""
        return self._settlement.state.counts_every_result and not self._setting.rule.is_fixed_design

    @property
    def n_earlier(self) -> int:
        """Results that count and were told before the first block, without being asked for."""
        return sum(self.values[n] is not None for n in self._early)

    def row(self, arm: int) -> Array:
        """Return the features (d,) of an arm."""
        x = self._rows.get(arm)
        if x is None:
            x = self._rows[arm] = self._setting.task.arms.gather([arm])[0]
        return x

    def _place(self, n_asked: int) -> int:
        """Return the place of what comes next after so many asks, and after the unsolicited results before it."""
        return n_asked + bisect_right(self._asks_before, n_asked)

    def n_places(self) -> float:
        """Return how many places the prefix has: those before the first ask that is not told, or all."""
        return self._place(self.ledger.n_complete) if self._allows_delays else math.inf


@final
class Settlement:
    """Everything that follows from the values of results.

    Args:
        setting: task, rule and assumptions.
        books: which results there are.
        values: what they count with.
        state: of the rule, if not a fresh one.
    """

    def __init__(
        self, setting: Setting, books: LearnerState, values: list[float | None], state: RuleState | None = None
    ) -> None:
        task, rule, noise = setting.task, setting.rule, setting.noise
        self._task, self._white, self._rule, self._rewards = task, task.arms, rule, setting.rewards
        self._books, self.values = books, values
        self.n_settled = 0
        """Results that are settled."""
        # Unless the noise is normal with one level, a start from earlier results has no proof.
        self._looks_back = setting.earlier == "evidence" and noise == "same"
        self.state = rule.start(task) if state is None else state
        self.estimate = LeastSquares(self._white.dim, self.state.regularizers)
        self._is_normal = noise != "symmetric"
        self.levels = None if noise == "same" else ArmVariances(self._white.dim, is_symmetric=noise == "symmetric")
        self.verdict: Verdict | None = None
        """What the rule said last."""
        self.model = Model(
            self._white, self._rewards.noise_std, is_watched=self.levels is None, is_exact=task.misfit == 0.0
        )
        self.path: list[tuple[int, float, float]] = []
        """How evidence grew: pulls, evidence and target when the rule looked."""
        self.is_own = True
        """Whether every result was asked for, until the rule stopped."""
        self._looked: Verdict | None = None
        # What is known before the oldest block not settled, and unsolicited results that it may not know yet, each
        # with the number of blocks opened before it was told.
        self._past = LeastSquares(self._white.dim)
        self._unsolicited: deque[tuple[int, int, float]] = deque()
        # Results that count, each as place, number, arm and reward.
        self._told: list[tuple[int, int, int, float]] = []
        self._last_place = -1
        # The prefix at the last look, the results told behind it, and the number of results it has looked at.
        self._prefix: tuple[LeastSquares, list[tuple[int, int, int, float]], int] = LeastSquares(self._white.dim), [], 0

    def advance(self, n: int) -> None:
        """Settle the first n results."""
        first = self._books.first_plan
        if self._looks_back and first is not None and self.n_settled <= first <= n:
            self._take_in(first)
            self.look_back()
        self._take_in(n)

    def look_back(self) -> None:
        """Before the first block opens, let the rule take in what was told: all of it is unsolicited."""
        if self._looks_back and self.estimate.n_pulls > 0:
            pulls = self._pulls()
            self._decide(self.state.begin(self.estimate, pulls.X, pulls.rewards))
        self._looks_back = False

    def _take_in(self, n: int) -> None:
        """Learn from the results up to a number, one by one, and decide."""
        results, state = self._books.results, self.state
        for number in range(self.n_settled, n):
            told, reward = results[number], self.values[number]
            self._looked = None
            if reward is not None:
                self._learn(number, told, reward)
            # A proof for arms fixed in advance covers the first n asks as a whole, not those that came in first.
            is_due = state.decides_after_pulls and (told.is_complete or not self._rule.is_fixed_design)
            if is_due and not self.stopped:
                self._decide(state.after_pull(self.estimate))
            for block in told.closes:
                self._close(block, told.n_places)
            self.n_settled = number + 1

    def _learn(self, number: int, told: ToldResult, reward: float) -> None:
        self._told.append((told.place, number, told.arm, reward))
        if told.place > self._last_place:  # noqa: PLR1730 - a call of `max` takes longer, and every pull comes here
            self._last_place = told.place
        self.estimate.update(self._books.row(told.arm), reward, told.arm)
        if not told.is_asked:
            self.is_own = self.is_own and self.stopped
        if not told.has_block:
            self._unsolicited.append((told.n_opened, told.arm, reward))

    @property
    def stopped(self) -> bool:
        """Whether the rule has stopped."""
        return self.verdict is not None and self.verdict.stopped

    @property
    def noise(self) -> float:
        """The level of the noise as far as it is known; NaN if it is not."""
        given = self._rewards.noise_std
        return noise_estimate(self.estimate) if given is None else given

    def prefix(self, n_places: float | None = None) -> LeastSquares:
        """Return the estimate from the results before the first ask that is not told, in the order of asks.

        Confidence intervals are made of these. When a result is told may depend on its value, so what was told so far
        may be a biased choice; a prefix of the order of asks is not (docs/guarantee.md, "Intervals under delays"). This
        is the estimate of all results where none is left out, and for rules that decide after every pull: their
        assumption is that delays ignore values.
        """
        if n_places is None:
            n_places = self._books.n_places()
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

    def relative_stds(self) -> Array | None:
        """Return how noisy each arm (K,) seems beside the level of all results; None if arms are alike, or unknown."""
        known = None if self.levels is None else self.levels.now
        if known is None or not self.noise > 0.0:
            return None
        return known.of(np.arange(self._white.n_arms)) / self.noise

    def context(self, pending: Counter[int], *, is_kept: bool = False) -> SamplerContext:
        """Return what a sampler may know now, with these asks not told; a copy if more results come before it looks."""
        estimate = self.estimate
        theta = estimate.theta if estimate.has_theta else None
        leaders: tuple[int, ...] = ()
        alive = None
        if theta is not None and self._task.candidates.is_enumerable:  # a fixed design asks nobody who leads
            leaders = self.state.leaders(estimate)
            alive = None if self.stopped else self.state.alive(leaders[0])
        return SamplerContext(
            n_pulls=estimate.n_pulls,
            n_asked=estimate.n_pulls + pending.total(),
            theta=theta,
            leaders=leaders,
            alive=None if alive is None else alive.copy(),  # a plan must not see what is refuted later
            estimate=estimate.snapshot() if is_kept else estimate,
            pending=pending,
            stds=self.relative_stds(),
        )

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

    @property
    def repeats(self) -> bool:
        """Whether rewards of one arm equal each other too often to be measurements with noise that is learnt."""
        return self._rewards.noise_std is None and self._is_repeating(self.estimate)

    def _is_repeating(self, estimate: LeastSquares) -> bool:
        return is_repeating(estimate, is_normal=self._is_normal)

    @property
    def coarseness(self) -> float:
        """Step of the readings where noise that is learnt is smaller than that; 0 where it is not."""
        return self._coarseness(self.estimate)

    def _coarseness(self, estimate: LeastSquares) -> float:
        step = estimate.resolution if self._rewards.noise_std is None else 0.0
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

    def _features(self, numbers: Sequence[int]) -> Array:
        return np.array([self._books.row(number) for number in numbers])

    @one_blas_thread
    def _close(self, planned: PlannedBlock, n_places: float) -> None:
        """Let the rule judge a block, and the model be watched."""
        arms, results = planned.pulls(self.values)
        if not arms:
            return  # all of it is void
        numbers, X, rewards = np.array(arms), self._features(arms), np.array(results)
        self._learn_before(planned)
        # A length that may depend on the block's own results allows no bet, the watch's neither. And rounding moves the
        # means of coarse readings: that is no misfit, and bets allow for it already.
        is_judged = not (planned.is_cut or self._coarseness(self._past))
        (self.model.settle if is_judged else self.model.learn)(numbers, X, rewards)
        self.model.n_checks += len(arms) if planned.is_check else 0
        if not (self.stopped or self.state.decides_after_pulls):
            block = None if planned.is_cut else self._block(planned, numbers, X, rewards)
            if self.levels is not None:
                self.levels.learn(numbers, X, rewards)
            self._past.update_many(X, rewards)
            if block is not None:
                self._mind_rounding(block, was_coarse=False)
                self._decide(self.state.after_block(self.estimate, block))
        self.model.look_for_slips(self.prefix(n_places), partial(self._pulls, n_places), now=self.stopped)

    def _learn_before(self, block: PlannedBlock) -> None:
        """Know the unsolicited results that were told before the block opened; its bets may."""
        unsolicited, told = self._unsolicited, []
        while unsolicited and unsolicited[0][0] < block.number:
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

    def _block(self, planned: PlannedBlock, arms: IntArray, X: Array, rewards: Array) -> Block | None:
        """Return a block's own results beside what was known before; None if the rule cannot judge them."""
        past = self._past
        if self.levels is not None:
            block = self._repeated(planned, self.levels)
        elif past.has_theta:
            left = residuals(past) if self._rewards.noise_std is None else None
            block = Block.of(X, rewards, past.theta, past.A_inv.copy(), left, arms)
        else:
            block = Block.of(X, rewards, np.zeros(self._white.dim), arms=arms)
        if block is not None:
            self._mind_rounding(block, was_coarse=True)
        return block

    def _mind_rounding(self, block: Block, *, was_coarse: bool) -> None:
        """Tell a block whose noise is learnt how coarse readings are: before they hold the block's own, and after.

        Afterwards only what makes bets return less: that readings repeat, or a grid that could not be seen before.
        """
        step = self._past.resolution if block.past is not None else 0.0
        if step > 0.0 and self._is_repeating(self._past):
            block.bias = math.inf
        elif step > 0.0 and block.step == 0.0:
            bias = rounding_bias(self._past, step)
            if self.levels is not None:
                # Nothing bounds the level of a single arm from below. Rounding does no harm to one that is as large as
                # the step (a billionth of it), and the smallest level that the past believes in is taken for that.
                bias = 0.0 if block.unit >= step else 0.5 * step
            block.step, block.bias, block.was_coarse = step / block.unit, bias / block.unit, was_coarse

    def _repeated(self, planned: PlannedBlock, levels: ArmVariances) -> Block | None:
        """Return the repetitions of a block's plan that are whole; None if fewer than two are left to compare."""
        arms, parts = planned.repetitions(self.values)
        if len(parts) < 2 or math.isinf(self._past.resolution) or self._is_repeating(self._past):
            return None
        return levels.block(np.array(arms), self._features(arms), np.array(parts))

    def _decide(self, verdict: Verdict | None) -> None:
        if verdict is not None:
            self.verdict, self._looked = verdict, None
            n, last = self.estimate.n_pulls, self.path[-1][0] if self.path else 0
            if verdict.is_exact and verdict.leader is not None and (verdict.stopped or n >= PATH_STEP * last):
                self.path.append((n, verdict.statistic, verdict.threshold))
