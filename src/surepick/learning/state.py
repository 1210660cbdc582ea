"""The state of a learner: the sum of its events.

`LearnerState` keeps the books: which asks were made, which blocks they belong to, and which results answer them. Events
change nothing else. Everything that depends on values is in a `Settlement`, which its first reader works out.

A correction only replaces a value. Blocks and arms stay as they happened, and the next reader settles again. A log with
many corrections therefore loads as fast as one without.
"""

import math
import reprlib
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal, final

from surepick.arms.views import ArmView, as_rows
from surepick.core.checks import check_count
from surepick.core.linalg import one_blas_thread
from surepick.errors import InvalidInput
from surepick.learning.blocks import Followed, Plan, Plans
from surepick.learning.events import Audited, Corrected, Correction, Entry, Failed, Restored, entry_of
from surepick.learning.groups import GroupLabel, group_label
from surepick.learning.ledger import Ledger, PlannedBlock
from surepick.learning.model import check_arms, check_audit
from surepick.learning.settlement import Setting, Settlement, ToldResult
from surepick.stopping.base import RuleState, Start
from surepick.types import Array, AskNumber, ResultNumber


@final
class ArmFeatures(dict[int, Array]):
    """Features of arms by number. An arm is read once, since every pull needs its features several times."""

    def __init__(self, arms: ArmView) -> None:
        super().__init__()
        self._arms = arms

    def __missing__(self, arm: int) -> Array:
        """Read the features (d,) of an arm."""
        x: Array = self._arms.gather([arm])[0]
        self[arm] = x
        return x


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
        self.log: list[Entry] = []
        """Events so far, as a log spells them: the garbage collector passes over plain tuples."""
        labels = [group_label(item=item) for item in setting.items]
        self.ledger = Ledger(opens_ahead=rule.opens_ahead and not rule.is_fixed_design, item_labels=labels)
        self.checks: deque[int] = deque()
        """Arms of check pulls, not yet asked for."""
        self.results: list[ToldResult] = []
        self.labels: dict[ResultNumber, GroupLabel] = {}
        """Labels of the results that have one: day, bench or plate."""
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
        self._needs_labels = setting.task.has_offsets
        self.rows = ArmFeatures(self._arms)
        """Features (d,) of the arms by number."""
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
        self._spends_all = setting.task.spends_all

    # ---- events

    def go_on(self, start: Start | None) -> None:
        """Let the rule start from the evidence of an earlier learner, or no longer; the next reader settles again.

        First called after the results from before are told, and before the first ask.
        """
        if self.n_start is None:
            self.n_start = self._n_judged = len(self.results)
        self.start, self._unseen, self._prepared = start, [], None
        self._settlement = Settlement(self._setting, self, self.values)

    def answered_by(self, arm: int, ask: int | Literal["none"] | None, group: GroupLabel = ()) -> AskNumber | None:
        """Return the number of the ask that a result answers; None if the result is unsolicited.

        Raises:
            InvalidInput: there is no such ask, or none with this label, or the rule cannot use an unsolicited result
                now.
        """
        answered, rule = self.ledger.find(arm, ask, group), self._setting.rule
        if answered is not None:
            return answered
        if self._setting.items:
            raise InvalidInput(
                f"a pool takes the scores that it asks for, and each once, got another one of arm "
                f"{self._arms.key_of(arm)}; a score that was measured again replaces the first by `correct`."
            )
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
            other = '; else with stopping="betting"' if is_enumerable else ""
            raise InvalidInput(
                f"stopping={self._setting.rule.name!r} counts every result, so earlier results need a promise. Arms, "
                "candidates and every option were fixed before the first of these results was seen; each arm was "
                f'chosen from results before it; none is left out. If that is so, begin with earlier="evidence"{other}.'
            )

    def tell(
        self,
        arm: int,
        value: float,
        ask: int | Literal["none"] | None,
        answered: AskNumber | None,
        group: GroupLabel = (),
    ) -> None:
        """Take in a result.

        Args:
            arm: its number.
            value: the reward.
            ask: as it was named, for the log.
            answered: the ask that is answered, if any.
            group: label told with it; an ask with a label has its own.
        """
        ledger, n = self.ledger, ResultNumber(len(self.results))
        if answered is not None and ledger.has_labels:
            group = ledger.label_of(answered, group)
        if self._needs_labels and not group and answered is not None:
            raise InvalidInput(
                'groups="offset" needs the group of every measurement, such as group="day 3", got a result without '
                "one; say where and when it was measured, with the ask or with the result."
            )
        if group:
            self.log.append(("tell", self._arms.key_of(arm), value, ask, group))
            self.labels[n] = group
        else:
            key = self._arms.key_of(arm)
            self.log.append(("tell", key, value) if ask is None else ("tell", key, value, ask))
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
        told = place, arm, answered is not None, has_block, ledger.n_opened, ledger.is_settled, closes, n_places, group
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
        self.log.append(entry_of(Failed(key, ask)))

    def ask(self, n: int, arms: Sequence[int] = (), group: GroupLabel = ()) -> list[tuple[AskNumber, int]]:
        """Make the next n asks, fewer if a budget ends; return their numbers and arms.

        Asks of a block have the arms of its plan. `arms` are followed where asks belong to no block. `group` is the
        label of all of them.
        """
        asks: list[tuple[AskNumber, int]] = []
        ledger = self.ledger
        while len(asks) < n:
            if not ledger.n_planned:
                if self.needs_plan:
                    self.open(self.propose_plan(draws=False, ends=(n - len(asks), n) if group else None))
                if self.is_spent and not self.checks:
                    break
                if self._setting.items and self.stopped:
                    break  # an arm is measured on the items that its pool asks for, and on no other
            n_before = ledger.n_asked
            asks.append(ledger.ask(partial(self._draw_known, arms[len(asks)]) if arms else self._draw, group))
            if self._has_budget and ledger.n_asked > n_before:
                self.plans.spend(asks[-1][1])
        if asks:
            keys = tuple([self._arms.key_of(arm) for _, arm in asks])
            self.log.append(("ask", keys, group) if group else ("ask", keys))
        return asks

    def _draw(self) -> int:
        return self.checks.popleft() if self.checks else self.plans.next()

    def _draw_known(self, arm: int) -> int:
        if self.checks:
            self.checks.popleft()
        else:
            self.plans.skip()
        return arm

    def next_asks(self, n: int) -> list[tuple[AskNumber, int]]:
        """Return the numbers and arms of the next asks, n or as many as the block has, without making them."""
        ledger = self.ledger
        n = min(n, ledger.n_planned or n)
        n_new = min(n, ledger.n_left) if ledger.n_planned else n
        arms = list(self.checks)[:n_new] if self.checks else self.plans.peek(n_new)
        new = [(AskNumber(number), arm) for number, arm in enumerate(arms, start=ledger.n_asked)]
        return [*new, *ledger.failed(n - n_new)]

    def propose_audit(self, n: int | Literal["auto"], enough: Callable[[], int], *, follows: bool = False) -> list[int]:
        """Return the arms of check pulls, which `audit` then plans.

        Args:
            n: number of check pulls; "auto": as many as `enough` returns.
            enough: called if needed.
            follows: whether a log is followed, which had its verdict.
        """
        if not (follows or self.stopped):
            raise InvalidInput("an audit comes after the verdict, and there is none yet; go on until `stopped`.")
        check_audit(self._setting.noise, self._arms, self._setting.task.pool)
        n_asked, _, length = self.ledger.n_of_check
        if self.checks and n_asked:
            raise InvalidInput(
                f"{n_asked} of {length} check pulls are asked for already, so their number is fixed; measure the other "
                f"{len(self.checks)} first."
            )
        n = enough() if n == "auto" else check_count("n", n, least=1)
        return check_arms(as_rows(self._arms), n, self._setting.task.seed)

    def audit(self, arms: Sequence[int]) -> None:
        """Begin a block of check pulls of these arms; an open block ends with the asks that were made of it.

        Check pulls that were planned, and of which none is asked for, are given up: another number was chosen.
        """
        self.log.append(entry_of(Audited(len(arms))))
        self.plans.drop_rest()
        self.ledger.cut()
        self.checks.clear()
        self.checks.extend(arms)
        self.ledger.open(len(arms), is_check=True)

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

    @property
    def budget_left(self) -> float:
        """What is left of the budget after all asks but those without a result; inf without a budget."""
        return self.plans.budget_left(self.ledger.outstanding)

    @one_blas_thread
    def propose_plan(self, *, draws: bool = True, ends: tuple[int, int] | None = None) -> Plan:
        """Return the plan of the next block, which `open` then adopts; all its arms are drawn now if `draws`.

        `ends`: as for `Plans.propose`.
        """
        settled = self.settled
        if not self.ledger.n_opened:
            settled.look_back()
        return self.plans.propose(settled.context(self.ledger.outstanding), self.ledger.n_asked, draws=draws, ends=ends)

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
        self.log.append(entry_of(event))

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
        found = settlement if is_judged else self.settled
        verdict = found.verdict  # not `found.stopped`: every pull asks twice
        has_stopped = verdict is not None and verdict.stopped
        return has_stopped and (not self._spends_all or self._has_spent(found))

    def _has_spent(self, found: Settlement) -> bool:
        """Return whether the budget is spent, all results are in, and the best estimate is the answer of the rule."""
        verdict = found.verdict
        if not (self.is_spent and self.ledger.is_settled) or verdict is None or verdict.leader is None:
            return False
        return self.settled.has_best_estimate(verdict.leader)

    @property
    def settled(self) -> Settlement:
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
        state: object = self._setting.rule.start(self._setting.task)
        if not isinstance(state, RuleState):
            raise InvalidInput(
                f"`start` of the rule {self._setting.rule.name!r} must return a `RuleState`, got {state!r}; subclass "
                "`surepick.stopping.RuleState` and return an object of it."
            )
        if start is not None:
            state.go_on(*start)
        return state

    def at_the_end(self) -> RuleState:
        """Return the state of the rule with all evidence so far, for a learner that starts from it.

        Before the first block opens, earlier results that are evidence are not taken in yet: here they are.
        """
        if self.ledger.n_opened:
            return self.settled.state
        aside = Settlement(self._setting, self, self.values, watches=False)
        aside.advance(len(self.results))
        aside.look_back()
        return aside.state

    def settled_by(self, state: RuleState) -> Callable[[], None]:
        """Return a function that settles the results so far, and no later ones, with another state of the rule."""
        aside = Settlement(self._setting, self, self.values, state=state, watches=False)
        return partial(aside.advance, len(self.results))

    @property
    def waits_for(self) -> list[AskNumber]:
        """Asks, pending or failed, without which later results do not enter the proof; none if it judges every pull."""
        return [] if self.stopped or self._judges_pulls else self.ledger.blocking

    @property
    def counts_every_result(self) -> bool:
        """Whether the rule takes every result for evidence, asked for or not; with a fixed design its label goes."""
        return self._setting.rule.counts_every_result and not self._setting.rule.is_fixed_design

    @property
    def n_earlier(self) -> int:
        """Results that count and were told before the first block, without being asked for."""
        return sum(self.values[n] is not None for n in self._early)

    @property
    def is_guided(self) -> bool:
        """Whether some results guide plans and bets and are no evidence: arms may be chosen after them."""
        return self._setting.earlier == "guidance" and self.n_earlier > 0

    def _place(self, n_asked: int) -> int:
        """Return the place of the next result after `n_asked` asks, and after the unsolicited results before it."""
        return n_asked + bisect_right(self._asks_before, n_asked)

    def n_places(self) -> float:
        """Return how many places the prefix has: those before the first ask that is not told, or all."""
        return self._place(self.ledger.n_complete) if self._allows_delays else math.inf
