"""The state of a study: what its events add up to.

Events go in one by one, in the order of the log. The state depends on nothing else: no clock, no machine, no reader.
What was decided when an event was written (which arms to measure, that the study stops) is in the event. It is followed
and not decided again, so a machine whose sums are rounded differently goes on from the same state.

`propose_*` returns the fields of an event that could come next, and changes nothing that can be seen. `apply` is the
only change: of events that are written, and of events that are read.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import groupby
from typing import Any, NamedTuple, final

from surepick.errors import CorruptLog, InvalidInput
from surepick.learning.blocks import Plan
from surepick.learning.events import Corrected, Correction, Restored, Voided
from surepick.learning.groups import WORKER, GroupLabel, group_label
from surepick.learning.learner import Learner
from surepick.study.eras import Era, Key, described, first_era, key_from, plain_key
from surepick.study.events import RECORDS, Kind, check_fields
from surepick.study.reopening import ReopenPreview, follow, propose, why_not_now
from surepick.types import AskId, AskNumber, MeasurementId, ResultNumber

Event = Mapping[str, Any]
ROUNDING = 1e-6
"""Relative: sums of numbers are rounded differently on other machines."""


class AskState(StrEnum):
    """The state of an ask."""

    OPEN = "open"
    TOLD = "told"
    FAILED = "failed"
    EXPIRED = "expired"


@dataclass(slots=True)
class AskRecord:
    """An ask: a worker was asked to measure an arm. A failed ask is made again, under the learner's same number."""

    id: AskId
    number: AskNumber
    arm: Key
    by: str
    at: str
    until: str | None
    """When the lease runs out."""
    era: int
    is_again: bool = False
    """Whether an attempt before gave no result."""
    state: AskState = AskState.OPEN
    results: tuple[MeasurementId, ...] = ()
    """The measurements told for it."""
    reason: str = ""
    """Why it failed, if a reason was given."""
    group: GroupLabel = ()
    """Where and when it is to be measured, if that was said."""


class Change(NamedTuple):
    """A measurement was voided, corrected or restored."""

    kind: Kind
    value: float | None
    """The value that counts since; None: the measurement is void."""
    reason: str
    by: str
    at: str


@dataclass(slots=True)
class Measurement:
    """A value that was told."""

    id: MeasurementId
    arm: Key
    told: float
    """As it was told first."""
    ask: AskId | None
    by: str
    at: str
    last: float
    """As it was corrected last."""
    key: str | None = None
    is_void: bool = False
    changes: list[Change] = field(default_factory=list)
    """Voids and corrections, in order."""
    group: GroupLabel = ()
    """Where and when it was measured: pairs of factor and level."""

    @property
    def value(self) -> float | None:
        """The value that counts now; None if the measurement is void."""
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
        learner: of the first era, if there is one already.
    """

    def __init__(self, first: Event, digest: str = "", *, checks: bool = False, learner: Learner | None = None) -> None:
        if first.get("kind") != Kind.CREATED:
            raise CorruptLog(f"a log must begin with the creation of the study, got {first.get('kind')!r}.")
        check_fields(first)
        self.name: str = first["name"]
        self.lease: str | None = first["lease"]
        self.group_by: str | None = first.get("group_by")
        """"worker": the worker who tells is a factor of every label; None: labels are as they are given."""
        if self.group_by not in (None, WORKER):
            raise _not_so(first, f"groups measurements by {self.group_by!r}, which this version does not know")
        self.era = 1
        self.eras: list[Event] = [first]
        """The events with which they began."""
        self.registrations = [digest]
        """The hashes of those events: arms and options of an era were fixed when its hash was known."""
        self.records: dict[Kind, list[Event]] = {kind: [] for kind in RECORDS}
        """Events that change nothing else, by kind."""
        self.forks = self.records[Kind.COPIED]
        """Events by which a copy was made of this log, or this log as a copy."""
        self.anchors = self.records[Kind.ANCHORED]
        """Events that keep a signature or a time stamp of an earlier head."""
        self.n_earlier = 0
        """Measurements that were told before the first ask."""
        self.attempts: dict[int, AskRecord] = {}
        self.open: dict[int, AskRecord] = {}
        self.measurements: list[Measurement] = []
        self.n_void = self.n_corrected = 0
        """Measurements that are void, and that count with a corrected value."""
        self.n_of_value = {0.0: 0, 1.0: 0}
        """Measurements that are 0, and that are 1, as they were corrected last; void ones among them."""
        self.by_key: dict[str, tuple[MeasurementId, ...]] = {}
        """Measurements by the key under which they were told."""
        self.verdicts: list[Verdict] = []
        self.stopped = False
        self.n_events = 1
        self.n_plans_differing = self.n_orders_unknown = 0
        self._checks = checks
        self.differences: list[str] = []
        """Where this machine would have decided otherwise, if `checks`."""
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
            **{kind: kept.append for kind, kept in self.records.items()},
        }
        self._rivalry: tuple[list[Any], Any] | None = None
        self._proposed: tuple[int, Era] | None = None  # the next era, and the number of events before it
        self._enter(first_era(first, learner))

    def _enter(self, era: Era) -> None:
        self._now, self.roster, self.options, self.learner = era, era.catalog, era.options, era.learner
        self._given_up: set[AskNumber] = set()  # numbers of asks that were given up
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
        if event["kind"] != Kind.ASKED or not self.attempts:
            self._rivalry = None
        try:
            handle(event)
        except KeyError:
            check_fields(event)
            raise
        if event["kind"] == Kind.REOPENED:
            self.registrations.append(digest)
        self.n_events += 1

    @property
    def now(self) -> Era:
        """The present era."""
        return self._now

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

    def propose_plan(self, *, ends: tuple[int, int] | None = None) -> dict[str, Any] | None:
        """Return the fields of the next plan; None if the next ask needs no plan.

        `ends`: as for `Plans.propose`.
        """
        if not self.learner.state.needs_plan:
            return None
        plan = self.learner.state.propose_plan(ends=ends)
        last = {"last": True} if plan.is_last else {}
        arms = [plain_key(self.key_of(number)) for number in plan.arms]
        return {"first": plan.first, "arms": arms, "parts": plan.n_parts, **last}

    def _planned(self, event: Event) -> None:
        if self.stopped or not self.learner.state.can_plan:
            raise _not_so(event, "plans a block where none can open")
        if self._checks and self.learner.stopped:
            self.differences.append(f"event {event['n']}: the study went on where this machine would have stopped")
        options = self.options
        is_endless = options["budget"] is None and options.get("rounds") is None and options.get("pool") is None
        if (event["parts"] != 1 and options["noise"] == "same") or ("last" in event and is_endless):
            raise _not_so(event, "plans a block that the options do not allow")
        numbers = tuple([self.number_of(arm) for arm in event["arms"]])
        plan = Plan(event["first"], len(numbers), numbers, event["parts"], event.get("last", False))
        if not plan.is_repeated:
            raise _not_so(event, "plans repetitions with different arms")
        self.learner.state.open(plan, checks=self._checks)
        plans = self.learner.state.plans
        self.n_plans_differing += plans.differs
        self.n_orders_unknown += self._checks and plans.order == "unknown"
        if self._checks and plans.order == "other":
            self.differences.append(
                f"event {event['n']} plans a block in another order than the random one of its seed, on which the "
                "proof rests"
            )

    @property
    def can_ask(self) -> bool:
        """Whether an ask is possible: after the verdict, check pulls alone."""
        return (
            self.learner.state.ledger.is_checking and self.learner.n_planned > 0
            if self.stopped
            else not self.learner.state.is_spent
        )

    @property
    def rivalry(self) -> tuple[list[Any], Any]:
        """The leaders, and the candidate hardest to exclude, None if none is; kept while nothing happens but asks."""
        if self._rivalry is None:
            self._rivalry = self.learner.reader.rivalry
        return self._rivalry

    def propose_asks(self, n: int) -> dict[str, Any]:
        """Return the fields of the next asks: at most n, none of a block that has not opened."""
        asks = [[number, plain_key(self.key_of(arm))] for number, arm in self.learner.state.next_asks(n)]
        return {"ask": len(self.attempts) + 1, "asks": asks}

    def _asked(self, event: Event) -> None:
        asks, is_next = event["asks"], event["ask"] == len(self.attempts) + 1
        if self.learner.state.can_plan:
            raise _not_so(event, "asks for unplanned arms")
        # A block has its arms from its plan.
        arms = [] if self.learner.n_planned else [self.number_of(arm) for _, arm in asks]
        if not is_next or [n for n, _ in self.learner.state.ask(len(asks), arms)] != [n for n, _ in asks]:
            raise _not_so(event, "asks for unplanned arms")
        if self._checks:
            self._compare_asks(event)
        by, at, until, era, group = event["by"], event["at"], event["until"], self.era, _label(event)
        ledger, has_items = self.learner.state.ledger, bool(self.learner.spec.items)
        for n, (number, arm) in enumerate(asks, start=event["ask"]):
            id_, is_again = AskId(n), number in self._given_up
            label = tuple(sorted({*group, *ledger.asked_label(number)})) if has_items else group
            one = AskRecord(id_, number, key_from(arm), by, at, until, era, is_again, group=label)
            self.attempts[id_] = self.open[id_] = one

    def _compare_asks(self, event: Event) -> None:
        """Find asks that are of another arm than was planned."""
        for number, arm in event["asks"]:
            own = self.learner.state.ledger.arm_of(number)
            if own is None or plain_key(self.key_of(own)) != arm:
                raise _not_so(event, "asks for unplanned arms")

    def _give_up(self, event: Event, id_: AskId, state: AskState) -> None:
        attempt = self.open.get(id_)
        if attempt is None:
            raise _not_so(event, f"gives up ask {id_}, which is not open")
        if state is AskState.EXPIRED and (attempt.until is None or attempt.until > event["at"]):
            raise _not_so(event, f"ends the lease of ask {id_} before its time")
        if attempt.era == self.era and self.learner.state.ledger.awaits(attempt.number):
            self.learner.fail(self._now.arm(attempt.arm), ask=attempt.number)
            self._given_up.add(attempt.number)
        attempt.state = state
        del self.open[id_]

    def _failed(self, event: Event) -> None:
        self._give_up(event, event["ask"], AskState.FAILED)
        self.attempts[event["ask"]].reason = event["reason"]

    def _expired(self, event: Event) -> None:
        for id_ in event["asks"]:
            self._give_up(event, id_, AskState.EXPIRED)

    # ---- results

    def _told(self, event: Event) -> None:
        id_, arm, value, ask = event["measurement"], event["arm"], event["value"], event["ask"]
        key = key_from(arm)
        attempt = None if ask is None else self.attempts.get(ask)
        is_next = id_ == len(self.measurements) + 1
        if not is_next or (ask is not None and (attempt is None or attempt.arm != key)):
            raise _not_so(event, "answers no ask, or has a wrong number")
        group = _label(event)
        if attempt is not None and not {*attempt.group} <= {*group}:
            raise _not_so(event, "has another group than its ask")
        if self.roster.row_of is None or key in self.roster.row_of:
            answered: Any = "none"
            learner = self.learner
            if attempt is not None and attempt.era == self.era and learner.state.ledger.awaits(attempt.number):
                answered = attempt.number
            learner.tell(self._now.arm(key), value, ask=answered, group=group or None)
            if self._now.numbers is not None:
                self._now.numbers[id_] = ResultNumber(len(learner.state.results) - 1)
        told = Measurement(id_, key, value, ask, event["by"], event["at"], value, event.get("key"), group=group)
        self.measurements.append(told)
        self._count(told, 1)
        if told.key is not None:
            self.by_key[told.key] = (*self.by_key.get(told.key, ()), told.id)
        self.n_earlier += not self.attempts
        if attempt is not None:
            attempt.results = (*attempt.results, id_) if attempt.results else (id_,)
            attempt.state = AskState.TOLD
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

    def _id_of(self, number: ResultNumber) -> MeasurementId:
        """Return the id of the measurement that the learner calls by this number."""
        numbers = self._now.numbers
        return MeasurementId(number + 1) if numbers is None else next(id_ for id_, n in numbers.items() if n == number)

    def _number_to_change(self, kind: str, id_: int) -> ResultNumber | None:
        """Return the learner's number of a measurement that is to be changed; None: the learner does not know it."""
        one, numbers = self.measurement(id_), self._now.numbers
        number = ResultNumber(id_ - 1) if numbers is None else numbers.get(one.id)
        if one.is_void is not (kind == Kind.RESTORED):
            is_void = "is void" if one.is_void else "is not void"
            raise InvalidInput(f"measurement {id_} {is_void}, so it cannot be {kind}.")
        if number is None and kind == Kind.RESTORED and self.roster.is_present(one.arm):
            raise InvalidInput(
                f"measurement {id_} was void when the study was reopened, and cannot be restored since; tell its "
                "value again."
            )
        return number

    def prepare_change(self, kind: Kind, id_: int, value: float | None) -> None:
        """Work out what a correction would lead to, so that applying the event takes no time."""
        number = self._number_to_change(kind, id_)
        if number is not None and not self._is_kept_evidence(MeasurementId(id_)):
            self.learner.state.prepare(_correction(kind, number, value, ""))

    def _changed(self, event: Event) -> None:
        """Void, correct or restore a measurement."""
        kind, reason = event["kind"], event["reason"]
        number, one = self._number_to_change(kind, event["measurement"]), self.measurement(event["measurement"])
        is_kept = self._is_kept_evidence(one.id)
        for era in self._eras_kept:
            if (known := era.number(one.id)) is not None:
                era.learner.state.change(_correction(kind, known, event.get("value"), reason))
            if is_kept and era.before is not None:
                era.learner.state.go_on(era.start)
        if number is not None:
            self.learner.state.change(_correction(kind, number, event.get("value"), reason))
        if is_kept:
            self.learner.state.go_on(self._now.start)
        self._count(one, -1)
        one.is_void, one.last = kind == Kind.VOIDED, event["value"] if kind == Kind.CORRECTED else one.last
        one.changes.append(Change(Kind(kind), one.value, reason, event["by"], event["at"]))
        self._count(one, 1)

    def _count(self, one: Measurement, step: int) -> None:
        """Take a measurement as it is now into the counts, or out of them."""
        self.n_void += step * one.is_void
        self.n_corrected += step * one.is_corrected
        if one.last in self.n_of_value:
            self.n_of_value[one.last] += step

    @property
    def _eras_kept(self) -> list[Era]:
        """The eras before the present one whose evidence was kept, oldest first."""
        eras, era = list[Era](), self._now.before
        while era is not None:
            eras.insert(0, era)
            era = era.before
        return eras

    def _is_kept_evidence(self, id_: MeasurementId) -> bool:
        """Whether an earlier era whose evidence was kept knows a measurement."""
        return any(era.number(id_) is not None for era in self._eras_kept)

    # ---- verdicts

    def verdict_news(self, *, after_correction: bool = False) -> Iterator[tuple[Kind, dict[str, Any]]]:
        """Yield the events that follow from a new verdict, or from a correction that changed the last verdict."""
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
        if not self._checks:
            return
        found = self._found()
        if found is None:
            self.differences.append(f"event {event['n']}: the study stopped where this machine would have gone on")
        elif not self._agrees(found) or found["pulls"] != event["pulls"]:
            self.differences.append(f"event {event['n']} has another verdict than the measurements give, {found}")

    def _resumed(self, event: Event) -> None:
        if not self.stopped:
            raise _not_so(event, "takes back a verdict where there is none")
        if self._checks and self._agrees(self._found()):
            self.differences.append(f"event {event['n']} takes a verdict back that stands")
        self.stopped = False
        self.verdicts[-1] = replace(self.verdicts[-1], taken_back=True)

    @property
    def verdict(self) -> Verdict | None:
        """The verdict that holds: the last one, unless it was taken back or the study goes on."""
        return self.verdicts[-1] if self.stopped else None

    def _audited(self, event: Event) -> None:
        first = self.learner.n_asked
        self.learner.audit(len(event["arms"]), follows=True)
        arms = [plain_key(self.key_of(number)) for number in self.learner.state.checks]
        if event["first"] != first or (self._checks and event["arms"] != arms):
            raise _not_so(event, "plans other check pulls than those of an audit")

    def propose_audit(self, n: Any) -> dict[str, Any]:
        """Return the fields of an audit."""
        learner = self.learner
        arms = learner.state.propose_audit(n, lambda: learner.reader.enough_checks)
        return {"first": learner.n_asked, "arms": [plain_key(self.key_of(number)) for number in arms]}

    # ---- eras

    def propose_reopening(self, changes: Mapping[str, Any], *, keeps: bool = True) -> dict[str, Any]:
        """Return the fields of an era that begins with these arms and options, and keeps evidence where it may.

        Raises:
            InvalidInput: the era cannot begin with these changes.
        """
        era, preview = propose(self, changes, keeps=keeps)
        self._proposed = self.n_events, era
        kept = {"kept": preview.n_evidence} if era.before is not None else {}
        return {**changes, **described(era.learner, era.catalog), **kept}

    def preview_reopening(self, changes: Mapping[str, Any]) -> ReopenPreview:
        """Return what an era that begins with these arms and options would keep."""
        return propose(self, changes)[1]

    def _reopened(self, event: Event) -> None:
        """Begin an era: the one that was proposed, or a new one."""
        n_before, era = self._proposed or (0, None)
        if era is None or n_before != self.n_events or era.learner.identity != event["identity"]:
            era = follow(self, event)
        self._proposed = None
        if self._checks and era.before is not None and (why := why_not_now(self, era)):
            self.differences.append(f"event {event['n']} keeps evidence that has no proof there: {why}")
        self._enter(era)
        self.era += 1
        self.stopped = False
        self.eras.append(event)
        for attempt in self.open.values():
            attempt.state = AskState.EXPIRED  # a result is welcome, but no worker waits for it
        self.open = {}


def _correction(kind: str, number: ResultNumber, value: float | None, reason: str) -> Correction:
    """Return what happens to the learner when a measurement is changed."""
    if kind == Kind.CORRECTED:
        assert value is not None
        return Corrected(number, value, reason)
    return (Voided if kind == Kind.VOIDED else Restored)(number, reason)


def _label(event: Event) -> GroupLabel:
    """Return the label of an event, as it stands there."""
    if "group" not in event:
        return ()
    label = group_label(event["group"])
    if not label or dict(label) != event["group"]:
        raise _not_so(event, "has a group that is not a label")
    return label


def _not_so(event: Event, what: str) -> CorruptLog:
    return CorruptLog(f"event {event['n']} {what}; the log was changed.")


def _keys(arms: Sequence[Any]) -> tuple[Key, ...]:
    return tuple([key_from(arm) for arm in arms])
