"""How a study is shown: one frozen snapshot, and the records that programs read as JSON, CSV or HTTP.

`snapshot_of` reads the learner once. The command line, pages and every `--format json` are views of its snapshot.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, final

from surepick._texts import vector_words
from surepick.errors import SurepickError
from surepick.learning.groups import written_label

if TYPE_CHECKING:  # commands that print a help text load no mathematics
    from surepick.learning.outlook import Outlook
    from surepick.learning.snapshot import Snapshot
    from surepick.study.state import AskRecord, Measurement, State
    from surepick.study.storage.base import Storage, Summary
    from surepick.study.study import Study, StudyAsk

Record = dict[str, Any]

OF_OUTLOOK = (
    *("probability", "within", "loss", "likely_loss", "in_question"),
    *("probability_after_10", "loss_after_10", "probability_after_20", "loss_after_20"),
    *("probability_after_50", "loss_after_50"),
)
"""Estimates that are not proved, see `surepick.learning.outlook.Outlook`."""
OF_BEST = (
    *("name", "state", "best", "best_name", "rival_name", "lead", "lead_low", "lead_high", "confidence", "delta"),
    *("guarantee", "epsilon_bound", "n_pulls", "stopped_at"),
    *OF_OUTLOOK,
)
OF_PLAN = ("name", "state", "n_pulls", "remaining", "remaining_low", "remaining_high", "n_planned", "n_pending")
OF_LIST = ("state", "best_name", "n_pulls", "n_pending", "n_events", "stopped_at")
"""Fields of a status that `surepick best`, `plan` and `list` give."""
OF_ASK = ("id", "arm", "name", "features", "until", "reason")
OF_MEASUREMENT = ("id", "arm", "name", "value", "told", "is_void", "ask", "author", "at", "changes")
"""Columns of asks and measurements; a CSV file has them also without rows. Labels are a further one, `group`."""


@final
@dataclass(frozen=True, kw_only=True)
class Status:
    """A study at one moment, under the names of `surepick status --format json`."""

    name: str
    state: str
    """"new", "measuring", "stopped", "withdrawn" (the data contradict the model, or the noise given), or "spent"."""
    best: Any
    """Row number or vector of the answer, or of the leader before; a list with m > 1; None: no leader yet."""
    best_name: Any
    rival_name: str | None
    """The runner-up: second by estimate, excluded or not. None if there is none."""
    hardest_name: str | None
    """The candidate that is hardest to exclude: the evidence against it is least. None once stopped."""
    lead: float
    """Estimated lead of the best over the runner-up."""
    lead_low: float
    lead_high: float
    evidence: float
    threshold: float
    confidence: float
    """Confidence that the leader is right, at least; NaN where the rule has no such number."""
    remaining: float
    """Estimate of the pulls still needed; inf or NaN when unknown."""
    remaining_low: float
    remaining_high: float
    """The pulls still needed are between these with 80 %, by estimate; NaN when unknown."""
    epsilon_bound: float
    """How much the leader can be losing at most, with probability 1 - delta."""
    guarantee: str
    """Of the answer; "none" while there is no answer."""
    model_check: str
    stopping: str
    delta: float
    n_pulls: int
    n_pending: int
    n_planned: int
    n_arms: int | None
    n_events: int
    n_void: int
    n_corrected: int
    era: int
    stopped_at: str | None
    registrations: list[str]
    """For each era the hash of its first event: publish it before the first ask, and `verify` shows it again."""

    calls: dict[str, str] | None = None
    """With `threshold` or `control`: "met", "failed" or "open" for each arm by name; no part of a record if None."""
    find_outlook: "Callable[[], Outlook | None]" = field(repr=False, compare=False)
    """Works out `outlook`; no part of a record."""

    @property
    def stopped(self) -> bool:
        """Whether there is a verdict that holds."""
        return self.stopped_at is not None

    @property
    def outlook(self) -> "Outlook | None":
        """Estimates, not guarantees, see `Snapshot.outlook`; worked out when read, not before."""
        return self.find_outlook()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StudySnapshot:
    """Everything that is shown of a study, after one event of its log."""

    status: Status
    learner: "Snapshot"
    """What the learner of the present era knows."""
    label: Callable[[Any], str]
    """From a candidate, as the learner has it, to its name."""
    is_spent: bool
    """Whether the budget allows no further ask."""
    head: tuple[int, str]
    """Number and hash of the last event."""

    def record(self, only: Sequence[str] = ()) -> Record:
        """Return the status for a program, all of it or some fields; estimates that are not proved are worked out.

        `groups` is there if measurements have labels: how much higher each group reads, by estimate.
        """
        known = {name: value for name, value in vars(self.status).items() if name != "find_outlook"}
        if known["calls"] is None:
            del known["calls"]
        if not only or {*only} & {*OF_OUTLOOK}:
            known |= self._outlook()
        if self.learner.groups:
            known["groups"] = [{**asdict(one), "label": dict(one.label)} for one in self.learner.groups]
        return {name: known[name] for name in only or known}

    def _outlook(self) -> Record:
        """Return the estimates that are not proved, each NaN if there is none."""
        outlook = self.status.outlook
        known: Record = {**dict.fromkeys(OF_OUTLOOK, math.nan), "in_question": []}
        if outlook is None:
            return known
        known |= {name: getattr(outlook, name) for name in ("probability", "within", "loss", "likely_loss")}
        for one in outlook.ahead:
            known |= {f"probability_after_{one.pulls}": one.probability, f"loss_after_{one.pulls}": one.loss}
        return known | {"in_question": [self.label(arm) for arm in outlook.in_question]}

    def summary(self) -> str:
        """Return what `surepick list` shows, as the JSON text that a storage keeps."""
        return json.dumps(self.record(OF_LIST), allow_nan=False)


def snapshot_of(state: "State", name: str, head: tuple[int, str]) -> StudySnapshot:
    """Return everything that is shown of a study, under the name that its storage has for it."""
    learner, verdict, catalog, now = state.learner, state.verdict, state.catalog, state.learner.snapshot
    # What was measured after the verdict does not change it.
    keys = [catalog.candidate_key(arm) for arm in now.leaders] if verdict is None else list(verdict.best)
    is_called = now.calls is not None and now.best is not None
    best, names = (keys, [catalog.key_label(key) for key in keys]) if keys or is_called else (None, None)
    is_one, is_known = learner.m == 1 and keys and not is_called, (keys or is_called) and now.guarantee != "withdrawn"
    status = Status(
        name=name,
        state=_word(state, now),
        best=keys[0] if is_one else best,
        best_name=names[0] if names and is_one else names,
        rival_name=None if now.rival is None else catalog.candidate_label(now.rival),
        hardest_name=None if now.hardest is None else catalog.candidate_label(now.hardest),
        lead=now.lead,
        lead_low=now.interval[0],
        lead_high=now.interval[1],
        evidence=now.evidence if verdict is None else verdict.evidence,
        threshold=now.threshold if verdict is None else verdict.threshold,
        confidence=now.confidence,
        remaining=0.0 if verdict is not None else now.remaining if is_known else math.inf,
        remaining_low=0.0 if verdict is not None else now.remaining_low if is_known else math.nan,
        remaining_high=0.0 if verdict is not None else now.remaining_high if is_known else math.nan,
        epsilon_bound=now.epsilon_bound,
        guarantee=now.guarantee if state.stopped or now.guarantee in ("doubtful", "withdrawn") else "none",
        model_check=now.model_check,
        stopping=now.rule,
        delta=now.delta,
        n_pulls=now.n_pulls,
        n_pending=len(state.open),
        n_planned=learner.n_planned,
        n_arms=getattr(catalog.arms, "n_arms", None),
        n_events=state.n_events,
        n_void=state.n_void,
        n_corrected=state.n_corrected,
        era=state.era,
        stopped_at=None if verdict is None else verdict.at,
        registrations=list(state.registrations),
        calls=None if now.calls is None else {catalog.candidate_label(arm): call for arm, call in now.calls.items()},
        find_outlook=lambda: None if verdict is not None else now.outlook,
    )
    # Vectors have the digits of a verdict.
    label = vector_words if now.arm_set else catalog.candidate_label
    return StudySnapshot(status=status, learner=now, label=label, is_spent=learner.state.is_spent, head=head)


def _word(state: "State", now: "Snapshot") -> str:
    if now.guarantee == "withdrawn":
        return "withdrawn"
    if state.stopped:
        return "stopped"
    if state.learner.state.is_spent and not state.open:
        return "spent"
    return "measuring" if state.attempts or state.measurements else "new"


def reason_for(state: "State", one: "AskRecord") -> str:
    """Say why an arm is asked for, as far as is known now."""
    again = "; asked again, since an attempt before gave no result" if one.is_again else ""
    if state.stopped:
        return f"checks the model after the verdict{again}"
    leaders, rival = state.rivalry
    if not leaders or state.learner.task.pool is not None:
        of_pool = "each item of the pool is asked of every arm that is not excluded"
        return f"{'no data in this direction yet' if state.learner.task.pool is None else of_pool}{again}"
    if state.learner.task.target is not None:
        if rival is None:
            return f"tells which of the open arms are met{again}"
        return f"tells whether {state.catalog.candidate_label(rival)} is met, the hardest to call{again}"
    leader = state.catalog.candidate_label(leaders[-1])
    leads = f"{leader} leads" if len(leaders) == 1 else f"{leader} is the last of the {len(leaders)} that lead"
    if rival is None:
        others = "all others" if len(leaders) == 1 else "all that are left out"
        return f"separates {leader} from {others}; {leads}{again}"
    return f"separates {leader} from {state.catalog.candidate_label(rival)}, the hardest to exclude; {leads}{again}"


def ask_record(one: "StudyAsk") -> Record:
    """Return an ask for a program; `group` is there if it has a label."""
    return {name: getattr(one, name) for name in (*OF_ASK, "recipe", *(["group"] if one.group else []))}


def measurement_record(state: "State", one: "Measurement") -> Record:
    """Return a measurement for a program; `group` is there if it has a label."""
    values = (one.id, one.arm, state.catalog.label(one.arm), one.value, one.told, one.is_void, one.ask, one.by, one.at)
    changes = [f"{change.kind.value}: {change.reason}" for change in one.changes]
    return {**dict(zip(OF_MEASUREMENT, (*values, changes), strict=True)), **written_label(one.group)}


def table_of(records: Sequence[Record]) -> list[Record]:
    """Return records of asks or measurements as rows of one table: all have `group`, or none has."""
    more: Record = {"group": {}} if any("group" in one for one in records) else {}
    return [{**one, **more, **one} for one in records]


def list_records(storage: "Storage", opened: "Callable[[str], Study | None]" = lambda _: None) -> list[Record]:
    """Return all studies of a storage for `surepick list`, sorted by name.

    The storage keeps a summary of each study. A study that has changed since its summary is loaded, and its summary is
    kept anew.

    Args:
        storage: that the studies are in.
        opened: returns a study by its name if it is in memory already; it is not loaded then.
    """
    return [_list_record(storage, one, opened) for one in storage.summaries()]


def _list_record(storage: "Storage", one: "Summary", opened: "Callable[[str], Study | None]") -> Record:
    try:
        known = json.loads(one.kept.text) if one.kept is not None and one.kept.hash == one.hash else None
        if known is None and (study := opened(one.name)) is not None:
            known = study.snapshot.record(OF_LIST)
        if known is None:
            from surepick.study.study import Study  # noqa: PLC0415 (loads the mathematics)

            study = Study(storage, one.name)
            with study.held():
                known = study.snapshot.record(OF_LIST)
                study.keep_summary()
    except SurepickError:  # the others can be listed all the same
        known = {**dict.fromkeys(OF_LIST), "state": "unreadable", "n_events": one.n_events}
    stopped_at = known.pop("stopped_at")
    return {"name": one.name, **known, "created_at": _created_at(one.first), "stopped_at": stopped_at}


def _created_at(event: str) -> str | None:
    try:
        return str(json.loads(event)["at"])
    except (ValueError, KeyError, TypeError):
        return None
