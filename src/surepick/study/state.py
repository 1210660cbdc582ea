"""The state of a study: what its events add up to.

Events go in one by one, in the order of the log, and nothing else does: no clock, no machine, no one who looks on. What
was decided when an event was written (which arms to measure, that the study stops) is in the event, and is followed and
not decided again: a machine whose sums are rounded differently goes on from the same state.

An *era* is what one learner saw: the first begins with the study, the next where arms or options change.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import groupby
from typing import Any, Literal, NamedTuple, final

from surepick.arms.registry import read_arms
from surepick.arms.views import WhitenedArms
from surepick.errors import CorruptLog, InvalidInput
from surepick.learning.blocks import Plan
from surepick.learning.learner import Learner
from surepick.learning.snapshot import Ask as LearnerAsk
from surepick.stopping import Betting
from surepick.study.catalog import ArmCatalog, Key, key_from, plain_key
from surepick.study.events import Kind, check_fields

Event = Mapping[str, Any]
Earlier = Literal["evidence", "guidance"]
ROUNDING = 1e-6
"""Relative: sums of numbers are rounded differently on other machines."""


class Standing(StrEnum):
    """What became of an ask."""

    OPEN = "open"
    TOLD = "told"
    FAILED = "failed"
    EXPIRED = "expired"


@dataclass(slots=True)
class AskRecord:
    """Somebody was asked to measure an arm. An ask that failed is made again, under the same number for the learner."""

    id: int
    number: int
    arm: Key
    by: str
    at: str
    until: str | None
    """When the lease runs out."""
    era: int
    is_again: bool = False
    """Whether an attempt before gave no result."""
    standing: Standing = Standing.OPEN
    results: tuple[int, ...] = ()
    """Ids of the measurements told for it."""
    reason: str = ""
    """Why it failed, if a reason was given."""


class Change(NamedTuple):
    """A measurement was voided, corrected or restored."""

    kind: Kind
    value: float | None
    """What counts since; None: nothing."""
    reason: str
    by: str
    at: str


@dataclass(slots=True)
class Measurement:
    """A value that was told."""

    id: int
    arm: Key
    told: float
    """As it was told first."""
    ask: int | None
    by: str
    at: str
    last: float
    """As it was corrected last."""
    key: str | None = None
    is_void: bool = False
    changes: list[Change] = field(default_factory=list)
    """Voids and corrections, in order."""

    @property
    def value(self) -> float | None:
        """What counts now; None if it is void."""
        return None if self.is_void else self.last

    @property
    def is_corrected(self) -> bool:
        """Whether it counts with a value that was corrected."""
        return not self.is_void and any(change.kind is Kind.CORRECTED for change in self.changes)


@dataclass(slots=True, frozen=True)
class Verdict:
    """What a study said when it stopped."""

    event: int
    """Number of the event."""
    era: int
    best: tuple[Key, ...]
    evidence: float
    threshold: float
    n_pulls: int
    at: str
    taken_back: bool = False
    """By a correction."""


@final
class State:
    """The fold over the events of one study.

    Args:
        first: the event that created it.
        digest: hash of that event.
        checks: whether to decide everything again, to find what this machine would have decided otherwise.
    """

    def __init__(self, first: Event, digest: str = "", *, checks: bool = False) -> None:
        if first.get("kind") != Kind.CREATED:
            raise CorruptLog(f"a log must begin with the creation of the study, got {first.get('kind')!r}.")
        check_fields(first)
        self.name: str = first["name"]
        self.lease: str | None = first["lease"]
        self.era = 1
        self.eras: list[Event] = [first]
        """The events with which they began."""
        self.registrations = [digest]
        """The hashes of those events: arms and options of an era were fixed when its hash was known."""
        self.forks: list[Event] = []
        """Events by which a copy was made of this log, or this log as a copy."""
        self.anchors: list[Event] = []
        """Events that keep a signature or a time stamp of an earlier head."""
        self.n_earlier = 0
        """Measurements that were told before the first ask."""
        self.attempts: dict[int, AskRecord] = {}
        self.open: dict[int, AskRecord] = {}
        self.measurements: list[Measurement] = []
        self.by_key: dict[str, tuple[int, ...]] = {}
        """Measurements by the key under which they were told."""
        self.verdicts: list[Verdict] = []
        self.stopped = False
        self.n_events = 1
        self.n_plans_differing = 0
        self._checks = checks
        self.differences: list[str] = []
        """Where this machine would have decided otherwise."""
        self._apply: dict[str, Callable[[Event], None]] = {
            Kind.PLANNED: self._planned,
            Kind.ASKED: self._asked,
            Kind.TOLD: self._told,
            Kind.FAILED: self._failed,
            Kind.EXPIRED: self._expired,
            Kind.VOIDED: self._changed,
            Kind.CORRECTED: self._changed,
            Kind.RESTORED: self._changed,
            Kind.AUDITED: self._audited,
            Kind.STOPPED: self._stopped,
            Kind.RESUMED: self._resumed,
            Kind.REOPENED: self._reopened,
            Kind.COPIED: self.forks.append,
            Kind.ANCHORED: self.anchors.append,
        }
        self._begin(ArmCatalog(first["arms"], first["candidates"]), first["options"], earlier_of(first["options"]))

    def _begin(self, roster: ArmCatalog, options: Mapping[str, Any], earlier: Earlier) -> None:
        """Begin an era, in which results told before its first ask are this."""
        self.roster, self.options = roster, dict(options)
        candidates = None if roster.candidates is None else read_arms(roster.candidates)
        self.learner = learner_of(roster.arms, candidates, options, earlier)
        self._numbers: dict[int, int] | None = None if self.era == 1 else {}
        """The learner's numbers of measurements; None: one less than theirs."""
        self._given_up: set[int] = set()  # numbers of asks that somebody gave up
        self.learner.called = self._id_of

    def apply(self, event: Event, digest: str = "") -> None:
        """Take in the next event, which has this hash in the log.

        Raises:
            InvalidInput: it cannot have happened here; nothing has changed.
        """
        handle = self._apply.get(event["kind"])
        if handle is None:
            raise CorruptLog(
                f"event {event['n']} is of a kind that this version does not know, {event['kind']!r}; the study was "
                "written by a later version."
            )
        try:
            handle(event)
        except KeyError:
            check_fields(event)
            raise
        if event["kind"] == Kind.REOPENED:
            self.registrations.append(digest)
        self.n_events += 1

    # ---- arms

    def key_of(self, number: int) -> Key:
        """Return what a study calls the arm that its learner calls by this number."""
        present = self.roster.present
        return self.learner.measured_arms.key_of(number) if present is None else present[number]

    def number_of(self, key: Key) -> int:
        """Return what the learner calls an arm.

        Raises:
            InvalidInput: it is not there, or no longer.
        """
        if self.roster.row_of is None:
            return self.learner.measured_arms.number_of(key_from(key))
        if key not in self.roster.row_of:
            raise InvalidInput(f"arm {key} is retired.")
        return self.roster.row_of[key]

    # ---- asks

    def plan(self) -> dict[str, Any] | None:
        """Open an interval if the next ask needs one; return what to write of it."""
        if not self.learner.needs_plan:
            return None
        plan = self.learner.plan(draws=True)
        last = {"last": True} if plan.is_last else {}
        arms = [plain_key(self.key_of(number)) for number in plan.arms]
        return {"first": plan.first, "arms": arms, "parts": plan.n_parts, **last}

    def _planned(self, event: Event) -> None:
        if not self.learner.needs_plan:
            if self.stopped or not self.learner.can_plan:
                raise _not_so(event, "plans an interval where none can open")
            self.differences.append(f"event {event['n']}: the study went on where this machine would have stopped")
        options = self.options
        if (event["parts"] != 1 and options["noise"] == "same") or ("last" in event and options["budget"] is None):
            raise _not_so(event, "plans what the options do not allow")
        numbers = tuple([self.number_of(arm) for arm in event["arms"]])
        plan = Plan(event["first"], len(numbers), numbers, event["parts"], event.get("last", False))
        self.learner.plan(plan, checks=self._checks)
        self.n_plans_differing += self.learner.plan_differs

    @property
    def can_ask(self) -> bool:
        """Whether there is anything to ask for: after the verdict, check pulls alone."""
        return self.learner.is_checking and self.learner.n_planned > 0 if self.stopped else not self.learner.is_spent

    def next_asks(self, n: int) -> list[LearnerAsk]:
        """Return the next asks, at most n and none of an interval that has not opened."""
        return self.learner.next_asks(min(n, self.learner.n_planned or n))

    def note_asks(self, event: Event) -> None:
        """Take note of who was asked for what."""
        by, at, until, era = event["by"], event["at"], event["until"], self.era
        for id_, (number, arm) in enumerate(event["asks"], start=event["ask"]):
            key = key_from(arm)
            is_again = number in self._given_up
            self.attempts[id_] = self.open[id_] = AskRecord(id_, number, key, by, at, until, era, is_again)

    def _asked(self, event: Event) -> None:
        asks, is_next = event["asks"], event["ask"] == len(self.attempts) + 1
        if self.learner.needs_plan:
            raise _not_so(event, "asks for what was not planned")
        # An interval has its arms from its plan.
        arms = [] if self.learner.n_planned else [self.number_of(arm) for _, arm in asks]
        if not is_next or self.learner.next_numbers(len(asks), arms) != [number for number, _ in asks]:
            raise _not_so(event, "asks for what was not planned")
        if self._checks:
            self._compare_asks(event)
        self.note_asks(event)

    def _compare_asks(self, event: Event) -> None:
        """Find asks that are of another arm than was planned."""
        for number, arm in event["asks"]:
            own = self.learner.arm_asked(number)
            if own is None or plain_key(self.key_of(own)) != arm:
                raise _not_so(event, "asks for what was not planned")

    def _give_up(self, event: Event, id_: int, standing: Standing) -> None:
        attempt = self.open.get(id_)
        if attempt is None:
            raise _not_so(event, f"gives up ask {id_}, which is not open")
        if standing is Standing.EXPIRED and (attempt.until is None or attempt.until > event["at"]):
            raise _not_so(event, f"ends the lease of ask {id_} before its time")
        if attempt.era == self.era and self.learner.awaits(attempt.number):
            self.learner.fail(self._arm(attempt.arm), ask=attempt.number)
            self._given_up.add(attempt.number)
        attempt.standing = standing
        del self.open[id_]

    def _failed(self, event: Event) -> None:
        self._give_up(event, event["ask"], Standing.FAILED)
        self.attempts[event["ask"]].reason = event["reason"]

    def _expired(self, event: Event) -> None:
        for id_ in event["asks"]:
            self._give_up(event, id_, Standing.EXPIRED)

    def _arm(self, key: Key) -> Any:
        """Return an arm as the learner takes it from users."""
        return key if self.roster.row_of is None else self.roster.row_of[key]

    # ---- results

    def _told(self, event: Event) -> None:
        id_, arm, value, ask = event["measurement"], event["arm"], event["value"], event["ask"]
        key = key_from(arm)
        attempt = None if ask is None else self.attempts.get(ask)
        is_next = id_ == len(self.measurements) + 1
        if not is_next or (ask is not None and (attempt is None or attempt.arm != key)):
            raise _not_so(event, "answers what was not asked, or has a wrong number")
        if self.roster.row_of is None or key in self.roster.row_of:
            answered: Any = "none"
            learner = self.learner
            if attempt is not None and attempt.era == self.era and learner.awaits(attempt.number):
                answered = attempt.number
            learner.tell(self._arm(key), value, ask=answered)
            if self._numbers is not None:
                self._numbers[id_] = learner.n_told - 1
        told = Measurement(id_, key, value, ask, event["by"], event["at"], value, event.get("key"))
        self.measurements.append(told)
        if told.key is not None:
            self.by_key[told.key] = (*self.by_key.get(told.key, ()), told.id)
        self.n_earlier += not self.attempts
        if attempt is not None:
            attempt.results = (*attempt.results, id_) if attempt.results else (id_,)
            attempt.standing = Standing.TOLD
            self.open.pop(attempt.id, None)

    def measurement(self, id_: int) -> Measurement:
        """Return a measurement by its id."""
        if not 1 <= id_ <= len(self.measurements):
            raise InvalidInput(
                f"there is no measurement {id_}; they are numbered from 1 to {len(self.measurements)} in this study."
            )
        return self.measurements[id_ - 1]

    def told_together(self, pairs: Sequence[tuple[Key, float]]) -> list[Measurement]:
        """Return the measurements that were told in one call, unasked, and are these pairs; none if there are none."""
        unasked = (one for one in self.measurements if one.ask is None)
        for _, call in groupby(unasked, key=lambda one: (one.at, one.by, one.key)):
            told = list(call)
            if [(one.arm, one.told) for one in told] == list(pairs):
                return told
        return []

    def _id_of(self, number: int) -> int:
        """Return the id of the measurement that the learner calls by this number."""
        return number + 1 if self._numbers is None else next(id_ for id_, n in self._numbers.items() if n == number)

    def _changed(self, event: Event) -> None:
        """Void, correct or restore a measurement."""
        one, kind, reason = self.measurement(event["measurement"]), event["kind"], event["reason"]
        number = one.id - 1 if self._numbers is None else self._numbers.get(one.id)
        if one.is_void is not (kind == Kind.RESTORED):
            is_void = "is void" if one.is_void else "is not void"
            raise InvalidInput(f"measurement {one.id} {is_void}, so it cannot be {kind}.")
        if number is None and kind == Kind.RESTORED and self.roster.is_present(one.arm):
            raise InvalidInput(
                f"measurement {one.id} was void when the study was reopened, and cannot be restored since; tell its "
                "value again."
            )
        if number is not None:
            if kind == Kind.VOIDED:
                self.learner.void(number, reason=reason)
            elif kind == Kind.CORRECTED:
                self.learner.correct(number, event["value"], reason=reason)
            else:
                self.learner.restore(number, reason=reason)
        one.is_void, one.last = kind == Kind.VOIDED, event["value"] if kind == Kind.CORRECTED else one.last
        one.changes.append(Change(Kind(kind), one.value, reason, event["by"], event["at"]))

    # ---- verdicts

    def verdict_news(self, *, after_correction: bool = False) -> Iterator[tuple[Kind, dict[str, Any]]]:
        """Yield what to write if the learner has come to a verdict, or a correction has changed it or taken it back."""
        found = self._found()
        if after_correction and self.stopped and not self._agrees(found):
            bears = "do not bear the verdict" if found is None else "bear another verdict, or with other evidence"
            yield Kind.RESUMED, {"reason": f"the corrected values {bears}"}
        if found is not None and not self.stopped:
            yield Kind.STOPPED, found

    def _found(self) -> dict[str, Any] | None:
        """Return the learner's verdict as events have it, None if it has none."""
        if not self.learner.stopped:
            return None
        decision = self.learner.decision
        best = decision.best if isinstance(decision.best, list) else [decision.best]
        return {
            "best": [plain_key(self.roster.candidate_key(arm)) for arm in best],
            "evidence": decision.evidence,
            "threshold": decision.target,
            "pulls": decision.n_pulls,
        }

    def _agrees(self, found: Mapping[str, Any] | None) -> bool:
        """Whether the last verdict is the one that was found, up to rounding."""
        last = self.verdicts[-1]
        return (
            found is not None
            and last.best == _keys(found["best"])
            and math.isclose(last.evidence, found["evidence"], rel_tol=ROUNDING)
            and math.isclose(last.threshold, found["threshold"], rel_tol=ROUNDING)
        )

    def _stopped(self, event: Event) -> None:
        if self.stopped:
            raise _not_so(event, "gives a verdict where there is one")
        said = event["evidence"], event["threshold"], event["pulls"]
        self.verdicts.append(Verdict(event["n"], self.era, _keys(event["best"]), *said, event["at"]))
        self.stopped = True
        found = self._found() if self._checks else None
        if not self.learner.stopped:
            self.differences.append(f"event {event['n']}: the study stopped where this machine would have gone on")
        elif found is not None and (not self._agrees(found) or found["pulls"] != event["pulls"]):
            self.differences.append(f"event {event['n']} has another verdict than what was measured gives, {found}")

    def _resumed(self, event: Event) -> None:
        if not self.stopped:
            raise _not_so(event, "takes back a verdict where there is none")
        if self._checks and self._agrees(self._found()):
            self.differences.append(f"event {event['n']} takes a verdict back that stands")
        self.stopped = False
        self.verdicts[-1] = replace(self.verdicts[-1], taken_back=True)

    @property
    def verdict(self) -> Verdict | None:
        """What holds now: the last verdict, unless it was taken back or the study goes on."""
        return self.verdicts[-1] if self.stopped else None

    def _audited(self, event: Event) -> None:
        first = self.learner.n_asked
        self.learner.audit(len(event["arms"]), follows=True)
        arms = [plain_key(self.key_of(number)) for number in self.learner.checks]
        if event["first"] != first or (self._checks and event["arms"] != arms):
            raise _not_so(event, "plans other check pulls than those of an audit")

    def audit(self, n: Any) -> dict[str, Any]:
        """Plan check pulls; return what to write of it."""
        first = self.learner.n_asked
        self.learner.audit(n)
        return {"first": first, "arms": [plain_key(self.key_of(number)) for number in self.learner.checks]}

    # ---- eras

    def _reopened(self, event: Event) -> None:
        """Begin an era: a new learner, guided by all results so far of arms that are still there."""
        before = dict(self.__dict__)
        try:
            self._reopen(event)
        except InvalidInput:
            self.__dict__.update(before)
            raise
        for attempt in self.open.values():
            attempt.standing = Standing.EXPIRED  # a result is welcome, but nobody waits for it
        self.open = {}

    def reopening(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return what to write of an era that begins with these arms and options.

        Raises:
            InvalidInput: it cannot begin so.
        """
        before = dict(self.__dict__)
        try:
            self._reopen({"n": 0, **fields})
            return {**fields, **described(self.learner)}
        finally:
            self.__dict__.update(before)

    def _reopen(self, event: Event) -> None:
        self.era += 1
        self.stopped = False
        self.eras = [*self.eras, event]
        before = self.options
        changed = [name for name, value in event["options"].items() if value != before[name] and name != "budget"]
        is_other = bool(changed or event["joined"] or event["retired"])
        # Where nothing was chosen after a look, a rule that counts every result goes on with those it had.
        counts = not (is_other or isinstance(self.learner.rule, Betting) or self.learner.is_guided)
        roster = self.roster.changed(event["joined"], event["retired"])
        self._begin(roster, event["options"], "evidence" if counts else "guidance")
        if not isinstance(self.learner.rule, Betting) and is_other:
            raise InvalidInput(
                f"stopping={self.learner.rule.name!r} counts what was measured before, and has no proof where arms or "
                "options were chosen after that; change the budget alone, or begin another study."
            )
        assert self._numbers is not None
        for one in self.measurements:
            if one.value is not None and self.roster.is_present(one.arm):
                self.learner.tell(self._arm(one.arm), one.value, ask="none")
                self._numbers[one.id] = self.learner.n_told - 1


def earlier_of(options: Mapping[str, Any]) -> Earlier:
    """Return what results told before the first ask of a study are; studies of before have them as evidence."""
    earlier: Earlier = options.get("earlier", "evidence")
    return earlier


def learner_of(arms: Any, candidates: Any, options: Mapping[str, Any], earlier: Earlier) -> Learner:
    """Return the learner of an era."""
    own = {name: value for name, value in options.items() if name not in ("algorithm", "own", "earlier")}
    if own.get("reward_range") is not None:
        own["reward_range"] = tuple(own["reward_range"])
    return Learner(options["algorithm"], arms, candidates=candidates, earlier=earlier, **own, **options["own"])


def described(learner: Learner) -> dict[str, Any]:
    """Return what the first event of an era says of its learner.

    Bets rest on a belief in coordinates that are fixed before the first result: x R^-1 for an arm x, and a direction u
    there that is the level of all arms. Whoever checks the bets takes them from here.
    """
    white = learner.measured_arms
    coordinates = None
    if isinstance(white, WhitenedArms):
        coordinates = {"back": white.back.tolist(), "level": white.level.tolist()}
    return {"identity": learner.identity, "rule": learner.rule.name, "coordinates": coordinates}


def _not_so(event: Event, what: str) -> CorruptLog:
    return CorruptLog(f"event {event['n']} {what}; the log was changed.")


def _keys(arms: Sequence[Any]) -> tuple[Key, ...]:
    return tuple([key_from(arm) for arm in arms])
