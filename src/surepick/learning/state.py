"""The state of a learner: the sum of its events.

`LearnerState` keeps the books: which asks were made, which blocks they belong to, and which results answer them. Events
change nothing else. `Settlement` holds everything that depends on values: the estimate, the state of the stopping rule
and the watch on the model. A settlement is worked out by its first reader, result by result in the order of telling.

A correction only replaces a value. Blocks and arms stay as they happened, and the next reader settles again. A log with
many corrections therefore loads as fast as one without.

The rule judges a block by its own results and by what was known before: the results of earlier blocks, and unsolicited
ones told before the block opened. Blocks are settled in the order of opening, each when all its asks are told.
"""

import math
import reprlib
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, final

import numpy as np

from surepick.arms.views import Task, as_rows
from surepick.core.betting.block import Block
from surepick.core.checks import check_count
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import one_blas_thread
from surepick.core.noise import noise_estimate
from surepick.errors import InvalidInput
from surepick.learning.blocks import Followed, Ledger, Plan, PlannedBlock, Plans
from surepick.learning.events import Asked, Audited, Corrected, Correction, Event, Failed, Restored, Told
from surepick.learning.model import Model, Pulls, check_arms
from surepick.learning.noise_models import NoiseModel
from surepick.sampling.base import SamplerContext
from surepick.stopping.base import Rule, RuleState, Start, Verdict
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
    """Task, rule and assumptions: all that a settlement needs beside the events."""

    task: Task
    rule: Rule
    noise: NoiseModel
    earlier: Literal["evidence", "guidance"]
    """How results told before the first block are used."""


@final
class LearnerState:
    """The books of one learner, and their settlement.

    Args:
        setting: task, rule and assumptions.
        plans: of the sampler.
    """

    def __init__(self, setting: Setting, plans: Plans) -> None:
        rule = setting.rule
        self._setting, self._arms, self.plans = setting, setting.task.arms, plans
        plans.work_out = self._work_out
        self.log: list[Event] = []
        """Events so far."""
        self.ledger = Ledger(opens_ahead=rule.opens_ahead and not rule.is_fixed_design)
        self.checks: deque[int] = deque()
        """Arms of check pulls, not yet asked for."""
        self.results: list[ToldResult] = []
        self.values: list[float | None] = []
        """Value of each result in units of its noise; None: void. A correction makes a new list."""
        self.first_plan: int | None = None
        """Results told before the first block was planned; None: there is no plan yet."""
        self._voided: dict[int, float] = {}  # last values of void results
        self._early: list[int] = []  # unsolicited results told before the first block
        self._asks_before: list[int] = []  # the number of asks made before each unsolicited result
        # Whether the time of a result may depend on its value.
        self._allows_delays = rule.needs_fixed_blocks or rule.is_fixed_design
        # A rule that reads the sampler's plans must see every result before the sampler moves on.
        self._is_eager = not rule.takes_corrections
        self._rows: dict[int, Array] = {}
        self.start: Start | None = None
        """The evidence that the rule starts from; None: none."""
        self.n_start: int | None = None
        """Results told before the rule was given its start; None: it was given none."""
        self._settlement = Settlement(setting, self, self.values)
        self._unseen: list[Followed] = []  # plans followed with the present values, and not passed by the settlement
        self._prepared: tuple[list[float | None], int, float | None, Settlement] | None = None
        self._n_judged = 0  # results up to the last one that the rule has to judge
        self._judges_pulls = self._settlement.state.decides_after_pulls
        self._has_budget = plans.has_budget

    # ---- events

    def go_on(self, start: Start | None) -> None:
        """Let the rule start from the evidence of an earlier learner, or no longer; the next reader settles again.

        First called after the results from before are told, and before the first ask.
        """
        if self.n_start is None:
            self.n_start = self._n_judged = len(self.results)
        self.start, self._unseen, self._prepared = start, [], None
        self._settlement = Settlement(self._setting, self, self.values)

    def answered_by(self, arm: int, ask: int | Literal["none"] | None) -> int | None:
        """Return the number of the ask that a result answers; None if the result is unsolicited.

        Raises:
            InvalidInput: there is no such ask, or the rule cannot use an unsolicited result now.
        """
        answered, rule = self.ledger.find(arm, ask), self._setting.rule
        if answered is not None:
            return answered
        if rule.is_fixed_design and not self._arms.is_enumerable:
            raise InvalidInput(
                f"stopping={rule.name!r} rests on its own fixed design and cannot use an unsolicited result, "
                f'got one of arm {self._arms.key_of(arm)}; use stopping="evidence" for such results.'
            )
        self.check_earlier()
        return None

    def check_earlier(self) -> None:
        """Refuse a result before the first ask if such results are guidance and the rule counts every result."""
        if self._setting.earlier == "guidance" and not (self.ledger.n_asked or self.ledger.n_opened):
            self.refuse_guidance()

    def refuse_guidance(self) -> None:
        """Refuse results that arms or options may have been chosen after, if the rule counts every result."""
        if self.counts_every_result:
            is_enumerable = self._setting.task.candidates.is_enumerable
            other = '; else with stopping="betting", which they guide' if is_enumerable else ""
            raise InvalidInput(
                f"stopping={self._setting.rule.name!r} counts every result, and has no proof if arms or options were "
                "chosen after a look at some, got earlier results. If arms, candidates and every option "
                "were fixed before the first of these results was seen, each arm was chosen from results before it, "
                f'and none is left out, begin with earlier="evidence"{other}.'
            )

    def tell(self, arm: int, value: float, ask: int | Literal["none"] | None, answered: int | None) -> None:
        """Take in a result.

        Args:
            arm: its number.
            value: the reward.
            ask: as it was named, for the log.
            answered: the ask that is answered, if any.
        """
        self.log.append(Told(self._arms.key_of(arm), value, ask))
        ledger, n = self.ledger, len(self.results)
        if answered is None:
            place, has_block = self._place(ledger.n_asked), False
            self._asks_before.append(ledger.n_asked)
            if not ledger.n_opened:
                self._early.append(n)
        else:
            place = self._place(answered) if self._asks_before else answered
            has_block = ledger.tell(answered, n, is_named=ask is not None)
        closes: tuple[PlannedBlock, ...] = ()
        n_places = 0.0
        if ledger.has_settled:
            closes, n_places = tuple(ledger.settled()), self.n_places()
        if closes or self._judges_pulls:
            self._n_judged = n + 1
        told = place, arm, answered is not None, has_block, ledger.n_opened, ledger.is_settled, closes, n_places
        self.results.append(ToldResult._make(told))
        self.values.append(self._setting.noise.scaled(arm, value))
        if self._is_eager:
            self._settle()

    def fail(self, arm: int, ask: int | None) -> None:
        """Give up a pending ask."""
        key = self._arms.key_of(arm)
        if not self.ledger.fail(arm, ask):
            named = "" if ask is None else f" with the number {ask}"
            pending: list[Any] = sorted([self._arms.key_of(number) for number in self.ledger.pending])
            raise InvalidInput(f"arm {key} has no pending ask{named} that could fail; pending are {pending}.")
        self.log.append(Failed(key, ask))

    def ask(self, n: int, arms: Sequence[int] = ()) -> list[tuple[int, int]]:
        """Make the next n asks, fewer if a budget ends; return their numbers and arms.

        Asks of a block have the arms of its plan. `arms` are followed where asks belong to no block.
        """
        asks: list[tuple[int, int]] = []
        ledger = self.ledger
        while len(asks) < n:
            if not ledger.n_planned:
                if self.needs_plan:
                    self.open(self.propose_plan(draws=False))
                if self.is_spent and not self.checks:
                    break
            n_before = ledger.n_asked
            asks.append(ledger.ask(partial(self._draw_known, arms[len(asks)]) if arms else self._draw))
            if self._has_budget and ledger.n_asked > n_before:
                self.plans.spend(asks[-1][1])
        if asks:
            self.log.append(Asked(tuple([self._arms.key_of(arm) for _, arm in asks])))
        return asks

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

    def check_audit(self, *, follows: bool) -> None:
        """Refuse check pulls without a verdict or a proof; a log that is followed had its verdict."""
        noise, n_left = self._setting.noise, len(self.checks)
        if not (follows or self.stopped):
            raise InvalidInput("an audit comes after the verdict, and there is none yet; go on until `stopped`.")
        if noise.needs_bets:
            raise InvalidInput(f'an audit has no proof yet beside noise="{noise.name}"; give noise_std for each arm.')
        if not self._arms.is_enumerable:
            raise InvalidInput(f"an audit needs a list of arms, got {self._arms.description}; leave it out.")
        if n_left:
            raise InvalidInput(f"{n_left} check pulls are planned already; measure them first.")

    def audit(self, n: int) -> None:
        """Begin a block of check pulls; an open block ends with the asks that were made of it."""
        self.log.append(Audited(n))
        self.plans.drop_rest()
        self.ledger.cut()
        self.checks.extend(check_arms(as_rows(self._arms), n, self._setting.task.seed))
        self.ledger.open(n, is_check=True)

    @property
    def can_plan(self) -> bool:
        """Whether a block can open now, be there a verdict or not."""
        return self.ledger.needs_block and not self.plans.has_ended

    @property
    def needs_plan(self) -> bool:
        """Whether the next ask opens a block."""
        return self.can_plan and not self.stopped

    @property
    def is_spent(self) -> bool:
        """Whether the budget allows no further ask; those planned and those that failed are still made."""
        return self.plans.has_ended and not self.ledger.n_planned

    @one_blas_thread
    def propose_plan(self, *, draws: bool = True) -> Plan:
        """Return the plan of the next block, which `open` then adopts; all its arms are drawn now if `draws`."""
        settled = self.settled
        if not self.ledger.n_opened:
            settled.look_back()
        return self.plans.propose(settled.context(self.ledger.outstanding), self.ledger.n_asked, draws=draws)

    def open(self, plan: Plan, *, checks: bool = False) -> None:
        """Begin a block by a plan.

        Args:
            plan: the one that was proposed; or one that is followed, made by another process with the same log or on a
                machine whose sums are rounded differently. Any plan that was made before the block's first result is
                valid.
            checks: whether to find out if this sampler would have made the same plan (`Plans.differs`).
        """
        if plan.first != self.ledger.n_asked:
            raise InvalidInput(
                f"the next block begins with ask {self.ledger.n_asked}, got a plan that begins with {plan.first}."
            )
        if not self.ledger.n_opened:
            self.first_plan = self._n_judged = len(self.results)  # the rule judges earlier results here
        if plan != self.plans.proposed:
            followed = Followed(plan, len(self.results), self.ledger.outstanding, self.values, self.start)
            self._unseen.append(followed)
            if checks or self._is_eager:
                self._settle()
            self.plans.follow(followed, checks=checks, catches_up=self._is_eager)
        self.plans.adopt(plan)
        if plan.length:
            self.ledger.open(plan.length, n_parts=plan.n_parts)

    def prepare(self, event: Correction) -> None:
        """Settle as if a correction had been made, so that `change` can adopt the settlement."""
        value = self._checked(event)[1]
        found = Settlement(self._setting, self, self._changed(event.n, value))
        found.advance(len(found.values))
        found.prefix()
        self._prepared = self.values, event.n, value, found

    def change(self, event: Correction) -> None:
        """Void, correct or restore a result: replace its value."""
        event, value = self._checked(event)
        n, before = event.n, self.values[event.n]
        prepared, self._prepared = self._prepared, None
        if prepared is not None and prepared[0] is self.values and prepared[1:3] == (n, value):
            found = prepared[-1]
            found.values.extend(self.values[len(found.values) :])
        elif n < self._settlement.n_settled:
            found = Settlement(self._setting, self, self._changed(n, value))
        else:
            found = self._settlement
            found.values = self._changed(n, value)
        if value is None and before is not None:
            self._voided[n] = before
        self.values, self._settlement, self._unseen = found.values, found, []
        self.log.append(event)

    def _checked(self, event: Correction) -> tuple[Correction, float | None]:
        """Return a correction as the log has it, and the new value of the result; None: void."""
        n, rule = check_count("n", event.n, least=0), self._setting.rule
        if n >= len(self.results):
            raise InvalidInput(
                f"`n` must be the number of a measurement that was told, below {len(self.results)}, got {n}; they are "
                "numbered from 0 in the order of `history`."
            )
        is_void, arm, value = self.values[n] is None, self.results[n].arm, None
        if isinstance(event, Restored):
            if not is_void:
                raise InvalidInput(f"measurement {n} is not void, so there is nothing to restore.")
            value = self._voided[n]
        elif isinstance(event, Corrected):
            told = self._setting.noise.checked("value", event.value, arm)
            event, value = event._replace(value=told), self._setting.noise.scaled(arm, told)
        if is_void and not isinstance(event, Restored):
            raise InvalidInput(f"measurement {n} is void already; `restore` it, or tell a new result.")
        if not isinstance(event.reason, str):
            raise InvalidInput(f"`reason` must be a text, got {reprlib.repr(event.reason)}.")
        if not rule.takes_corrections:
            raise InvalidInput(
                f"stopping={rule.name!r} judges every result by the plan it was asked for, all of them together, "
                'and has no proof after a correction; use stopping="betting" with list(history), which guides it.'
            )
        return event._replace(n=n), value

    def _changed(self, n: int, value: float | None) -> list[float | None]:
        values = self.values.copy()
        values[n] = value
        return values

    # ---- settling

    @property
    def stopped(self) -> bool:
        """Whether the rule has stopped. Inside a block the rule judges nothing, so no result has to be settled."""
        settlement = self._settlement
        is_judged = settlement.n_settled >= self._n_judged and not self._unseen
        return (settlement if is_judged else self.settled).stopped

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
        except BaseException as error:
            if not isinstance(error, Exception):  # Ctrl-C: half a result may be settled, and the books know all of it
                self._settlement = Settlement(self._setting, self, self.values)
            raise

    def _work_out(self, plans: Iterable[Followed]) -> None:
        """Give plans that were followed the contexts of their time, with the values that were known then."""
        self._settle()
        aside: Settlement | None = None
        start: Start | None = None
        for followed in plans:
            if followed.context is None:
                if aside is None or aside.values is not followed.values or start is not followed.start:
                    start, state = followed.start, self.started(followed.start)
                    aside = Settlement(self._setting, self, followed.values, state=state, watches=False)
                aside.advance(followed.n_told)
                followed.context = aside.context(followed.pending, is_kept=True)

    def started(self, start: Start | None) -> RuleState:
        """Return a fresh state of the rule, or one that starts from earlier evidence."""
        state = self._setting.rule.start(self._setting.task)
        if start is not None:
            state.go_on(*start)
        return state

    def settled_by(self, state: RuleState) -> Callable[[], None]:
        """Return a function that settles the results so far, and no later ones, with another state of the rule."""
        aside = Settlement(self._setting, self, self.values, state=state, watches=False)
        return partial(aside.advance, len(self.results))

    @property
    def counts_every_result(self) -> bool:
        """Whether the rule takes every result for evidence, asked for or not; with a fixed design its label goes."""
        return self._settlement.state.counts_every_result and not self._setting.rule.is_fixed_design

    @property
    def n_earlier(self) -> int:
        """Results that count and were told before the first block, without being asked for."""
        return sum(self.values[n] is not None for n in self._early)

    @property
    def is_guided(self) -> bool:
        """Whether some results guide plans and bets and are no evidence: arms may be chosen after them."""
        return self._setting.earlier == "guidance" and self.n_earlier > 0

    def row(self, arm: int) -> Array:
        """Return the features (d,) of an arm."""
        x = self._rows.get(arm)
        if x is None:
            x = self._rows[arm] = self._arms.gather([arm])[0]
        return x

    def _place(self, n_asked: int) -> int:
        """Return the place of the next result after `n_asked` asks, and after the unsolicited results before it."""
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
        values: their values; None: void.
        state: of the rule, if not a fresh one.
        watches: whether the model is watched; contexts of samplers and bets do not depend on it.
    """

    def __init__(
        self,
        setting: Setting,
        books: LearnerState,
        values: list[float | None],
        *,
        state: RuleState | None = None,
        watches: bool = True,
    ) -> None:
        task, rule, noise = setting.task, setting.rule, setting.noise
        self._task, self._white, self._rule, self._noise = task, task.arms, rule, noise
        self._books, self.values = books, values
        self.n_settled = 0
        """Results that are settled."""
        # Unless the noise is normal with one level, a start from earlier results has no proof.
        self._goes_on = books.start is not None
        self._looks_back = self._goes_on or (setting.earlier == "evidence" and not noise.needs_bets)
        """Whether the rule still has to take in the results from before the first block."""
        self.state = books.started(books.start) if state is None else state
        self.estimate = LeastSquares(self._white.dim, self.state.regularizers)
        self.levels = noise.variances(self._white.dim)
        self.verdict: Verdict | None = None
        """The last verdict of the rule."""
        self._watches = watches and not noise.needs_bets
        self.model = Model(self._white, noise.std, is_watched=self._watches, is_exact=task.misfit == 0.0)
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
        first = self._books.n_start if self._goes_on else self._books.first_plan
        if self._looks_back and first is not None and self.n_settled <= first <= n:
            self._take_in(first)
            self.look_back()
        self._take_in(n)

    def look_back(self) -> None:
        """Before the first block opens, let the rule take in the results so far, which are all unsolicited."""
        if self._looks_back and self._goes_on:
            self._decide(self.state.conclude(self.estimate) if self.estimate.has_theta else None)
        elif self._looks_back and self.estimate.n_pulls > 0:
            pulls = self._pulls()
            self._decide(self.state.begin(self.estimate, pulls.X, pulls.rewards))
        self._looks_back = False

    def _take_in(self, n: int) -> None:
        """Learn from the results up to a number, one by one, and decide."""
        results, state = self._books.results, self.state
        for number in range(self.n_settled, n):
            told, reward = results[number], self.values[number]
            # First: if arms cannot be read, the error is raised once, and the results can still be shown.
            self.n_settled, self._looked = number + 1, None
            if reward is not None:
                self._learn(number, told, reward)
            # A proof for arms fixed in advance covers the first n asks as a whole, not those that came in first.
            is_due = state.decides_after_pulls and (told.is_complete or not self._rule.is_fixed_design)
            if is_due and not self.stopped:
                self._decide(state.after_pull(self.estimate))
            for block in told.closes:
                self._close(block, told.n_places)

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
        """The given or estimated level of the noise; NaN if unknown."""
        given = self._noise.std
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
        """Return the state that a sampler may see, with these asks pending; `is_kept` copies it for a later look."""
        estimate = self.estimate
        theta = estimate.theta if estimate.has_theta else None
        leaders: tuple[int, ...] = ()
        alive = None
        if theta is not None and self._task.candidates.is_enumerable:  # a fixed design does not need the leaders
            leaders = self.state.leaders(estimate)
            alive = None if self.stopped else self.state.alive(leaders[0])
        return SamplerContext(
            n_pulls=estimate.n_pulls,
            n_asked=estimate.n_pulls + pending.total(),
            theta=theta,
            leaders=leaders,
            alive=None if alive is None else alive.copy(),  # a plan must not see later refutations
            estimate=estimate.snapshot() if is_kept else estimate,
            pending=pending,
            stds=self.relative_stds(),
        )

    def verdict_to_show(self) -> Verdict:
        """Return the present verdict; scans the candidates if the last check of the rule did not."""
        verdict = self.verdict
        if verdict is not None and not verdict.is_exact:
            if self._looked is None:
                # Looking decides nothing: a log holds no looks, and has to lead to the same state.
                self._looked = replace(self.state.exact(self.estimate), stopped=False)
            verdict = self._looked
        return Verdict(threshold=math.log(1.0 / self._task.delta)) if verdict is None else verdict

    def leading(self, verdict: Verdict) -> tuple[int, ...]:
        """Return the candidates that a verdict would answer, the best first; none before the pulled arms span."""
        if verdict.leader is not None:
            return verdict.leader, *verdict.others
        return self.state.leaders(self.estimate) if self.estimate.has_theta else ()

    @property
    def repeats(self) -> bool:
        """Whether rewards of one arm equal each other too often to be measurements with noise that is learnt."""
        return self._noise.repeats(self.estimate)

    @property
    def coarseness(self) -> float:
        """Step of the readings if the learnt noise is smaller than this step; else 0."""
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
                self._noise.mind_rounding(block, self._past, was_coarse=False)
                self._decide(self.state.after_block(self.estimate, block))
        if self._watches:
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
        """Return the results that count, of the first `n_places` places, in the order of telling."""
        told = [one for one in self._told if one[0] < n_places]
        places, numbers, arms, rewards = zip(*told, strict=True)
        return Pulls(places, numbers, arms, self._features(arms), np.array(rewards))

    def _block(self, planned: PlannedBlock, arms: IntArray, X: Array, rewards: Array) -> Block | None:
        """Return the results of a block beside those known before it; None if the rule cannot judge them."""

        def repetitions() -> tuple[IntArray, Array, Array]:
            repeated, parts = planned.repetitions(self.values)
            return np.array(repeated), self._features(repeated), np.array(parts)

        block = self._noise.block((arms, X, rewards), self._past, self.levels, repetitions)
        if block is not None:
            self._noise.mind_rounding(block, self._past, was_coarse=True)
        return block

    def _decide(self, verdict: Verdict | None) -> None:
        if verdict is not None:
            self.verdict, self._looked = verdict, None
            n, last = self.estimate.n_pulls, self.path[-1][0] if self.path else 0
            if verdict.is_exact and verdict.leader is not None and (verdict.stopped or n >= PATH_STEP * last):
                self.path.append((n, verdict.statistic, verdict.threshold))
