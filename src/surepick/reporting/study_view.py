"""Everything that pages show of a study, as plain records: texts, tables and charts, from one event of its log.

The sentences are those of `surepick.learning.explain`. What is proved and what is estimated stay apart: `proved` and
`estimates` of a view, and two columns of the leaderboard.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from surepick._texts import about, between, counted, fixed, joined, percent, roughly
from surepick.errors import SurepickError
from surepick.learning import model
from surepick.learning.assumptions import assumptions
from surepick.learning.calls import tally
from surepick.learning.explain import unmeasured, verdict
from surepick.learning.groups import label_text
from surepick.learning.progress import WIDE, confidence, facts, pulls_left, sentences
from surepick.reporting import charts, result_figures, result_page
from surepick.reporting.html import Table
from surepick.reporting.study_words import (
    IF_SLIP,
    NOT_USABLE,
    WITH_OFFSETS,
    course_words,
    own_means,
    recipe_cells,
    remark_of,
    waiting_words,
    when,
)
from surepick.study.requests import question
from surepick.study.state import State

if TYPE_CHECKING:
    from surepick.learning.result import Result
    from surepick.study.events import Row
    from surepick.study.study import Study, StudyAsk
    from surepick.study.views import Status, StudySnapshot

N_SHOWN = 50
"""Arms of a leaderboard that is folded."""
MOST_SHOWN = 2_000
"""Arms of a leaderboard that is not."""
N_LATEST = 8
"""Measurements on the page of a study."""
LONGEST = 40
"""Most letters of a name in the leaderboard."""
N_ROWS = 50
"""Rows of a page of studies or of the log."""
MOST_ASKS = 200
"""Open asks on a page."""
BEST_FIRST = "Best estimate first"
LEADER_FIRST = (
    "The leader comes first, then the arms by estimate. The leader was chosen when the last block of measurements was "
    "complete. Newer measurements give another arm a larger estimate."
)
"""Captions of the leaderboard."""
NOTHING = result_page.NOTHING
PROVED = ("proved", "confidence", "doubt", "stop now")
ESTIMATED = ("estimate", "in question", "with more pulls", "remaining", "near tie", "extrapolation")
"""Which facts are proved, and which are estimates."""
CHECKS = {
    "tested": ("tested, not contradicted", "good"),
    "not contradicted": ("not contradicted, hardly tested", "open"),
    "untestable": ("not tested yet", "plain"),
    "contradicted": ("contradicted", "bad"),
}
"""Words and tone for each state of the linear model."""


class Badge(NamedTuple):
    """A state in a word or two."""

    text: str
    tone: str
    """Colour and shape: "good", "open", "bad" or "plain"."""


class StudyLine(NamedTuple):
    """A study in the list of studies."""

    name: str
    badge: Badge
    leader: str = ""
    proved: str = ""
    estimate: str = ""
    n_pulls: int = 0
    last: str = ""
    """The last result, and when it came."""


class AskCard(NamedTuple):
    """An open ask."""

    id: int
    name: str
    recipe: Mapping[str, str]
    reason: str
    worker: str
    since: str
    until: str
    group: str
    """Where and when to measure it; "": not said."""


class Entry(NamedTuple):
    """A measurement."""

    id: int
    name: str
    value: str
    ask: str
    by: str
    at: str
    remark: str
    """Whether the measurement is void or corrected, and why."""
    is_void: bool
    group: str
    """Where and when it was measured; "": not said."""
    question: str
    """What to do about a value that stands apart; "": it does not."""


class EventLine(NamedTuple):
    """An event of the log."""

    n: int
    at: str
    by: str
    kind: str
    said: str
    hash: str


class LogView(NamedTuple):
    """A page of the log, the newest first."""

    entries: list[Entry]
    events: list[EventLine]
    n_measurements: int
    n_events: int
    """In the whole study."""


class Place(NamedTuple):
    """An arm of the leaderboard."""

    rank: str
    name: str
    label: str
    """The name, cut in the middle if it is long."""
    pulls: str
    estimate: str
    likely: str
    """Interval by estimate; "" if unknown."""
    interval: str
    """Interval that holds for all arms and all times together; "" if there is none."""
    proved: str
    """"best", "excluded", "not excluded", or "" where the rule excludes none."""
    estimated: str
    """"leader", "in question", or ""."""
    bar: charts.BarRow


class Leaderboard(NamedTuple):
    """Arms or candidates: the leaders, then the others by their estimates."""

    title: str
    caption: str
    """In which order they are."""
    places: list[Place]
    n_all: int
    chart: charts.IntervalBars
    """Axis and legend."""


class Model(NamedTuple):
    """How well the linear model fits."""

    badge: Badge
    sentence: str
    can_audit: bool


@final
@dataclass(frozen=True, kw_only=True)
class StudyView:
    """A study after one event of its log."""

    name: str
    head: tuple[int, str]
    """Number and hash of the last event."""
    badge: Badge
    sentence: str
    """The verdict, or the state."""
    next: str
    """What to do next."""
    details: list[str]
    suspect: int | None
    """The measurement that stands apart where it may be why the answer is withdrawn."""
    leaders: dict[str, str]
    """Leader, runner-up and lead."""
    proved: dict[str, str]
    estimates: dict[str, str]
    numbers: dict[str, str]
    """Pulls, cost, arms measured and options."""
    versus: Table
    leaderboard: Leaderboard
    figures: dict[str, result_figures.Figure]
    """By the macro that draws each: evidence_line, scatter, bars."""
    model: Model | None
    coefficients: Table
    groups: Table
    assumptions: Table
    asks: list[AskCard]
    n_asks: int
    can_ask: bool
    has_labels: bool
    """Whether some measurement or open ask has a label of its group."""
    needs_labels: bool
    """Whether every measurement must have a label of its group."""
    is_spent: bool
    has_calls: bool
    """Whether arms are called met or failed; else the best is sought."""
    has_offset: bool
    """Whether the answer is withdrawn because a group reads high or low."""
    needs_order: bool
    """Whether the proof rests on the order of the asks."""
    has_rounds: bool
    """Whether the budget is a number of batches."""
    is_decided: bool
    latest: list[Entry]
    n_measurements: int
    registration: str


def view_of(study: "Study", *, n_arms: int = N_SHOWN) -> StudyView:
    """Return everything that the page of a study shows, with at most `n_arms` arms in the leaderboard."""
    _ = study.head  # reads what others have written
    with study.held():
        now, result, state = study.snapshot, study.result(), study.state
        status, can_ask, n_open, n_measurements = now.status, state.can_ask, len(state.open), len(state.measurements)
        asks = [_card(state, one) for one in study.pending[:MOST_ASKS]]
        latest, numbers = entries_of(state, n_measurements, N_LATEST), _numbers(state, result)
        has_labels = bool(state.learner.state.labels) or any(one.group for one in state.open.values())
        details = _after_withdrawal(state) if status.state == "withdrawn" else [waiting_words(state)]
    # Estimates may take a second, and writers need not wait for them.
    if status.stopped and not result.stopped:
        result = replace(result, stopped=True)  # by the rounding of another machine; the verdict of the log stands
    known = facts(result, now.label, epsilon_is="epsilon = ")
    said = [verdict(result, numbers=False), *sentences(result, now.label), unmeasured(result)]
    suspect = re.search(r"One measurement stands apart: number (\d+), of", result.misfit)
    n_first = 1 if status.stopped or status.state == "withdrawn" else 2
    return StudyView(
        name=study.name,
        head=now.head,
        badge=badge_of(now),
        sentence=" ".join(said[:n_first]).strip() if result.n_pulls else "Nothing is measured yet.",
        next=WITH_OFFSETS if _has_offset(now, state) else _next(now, result, n_open, can_ask=can_ask),
        details=[*filter(None, [*(said[1:] if status.stopped else []), *details])],
        suspect=None if suspect is None else int(suspect[1]),
        leaders={word: known[word] for word in known if result.n_pulls and word not in (*PROVED, *ESTIMATED)},
        proved={word: known[word] for word in PROVED if word in known and status.state != "withdrawn"},
        estimates={word: known[word] for word in ESTIMATED if word in known} | _cost_of_rest(result),
        numbers=numbers,
        versus=result_page.versus(result),
        leaderboard=_leaderboard(result, n_arms),
        figures={figure.kind: figure for figure in result_figures.figures_of(result)},
        model=_model(result, can_audit=status.state == "stopped" and not can_ask and not n_open),
        coefficients=result_page.coefficients(result),
        groups=result_page.groups_of(result),
        assumptions=result_page.resting_on(result),
        asks=asks,
        n_asks=n_open,
        can_ask=can_ask,
        has_labels=has_labels,
        needs_labels=result.has_offsets,
        is_spent=status.state == "spent",
        has_calls=result.calls is not None,
        has_offset=_has_offset(now, state),
        needs_order=state.learner.noise_model.needs_order,
        has_rounds=state.learner.spec.rounds is not None,
        is_decided=status.stopped,
        latest=latest,
        n_measurements=n_measurements,
        registration=status.registrations[-1],
    )


def line_of(study: "Study") -> StudyLine:
    """Return what the list of studies shows of one."""
    _ = study.head
    with study.held():
        now, state = study.snapshot, study.state
        last = state.measurements[-1] if state.measurements else None
        told = "" if last is None else f"{state.roster.label(last.arm)} = {last.last:.6g}, {when(last.at)}"
    badge, learner = badge_of(now), now.learner
    names = now.status.best_name
    if names is None or now.status.state == "withdrawn":
        return StudyLine(study.name, badge, n_pulls=now.status.n_pulls, last=told)
    outlook = now.status.outlook
    is_likely = outlook is not None and not math.isnan(outlook.probability)
    return StudyLine(
        study.name,
        badge,
        leader=joined(names if isinstance(names, list) else [str(names)]) if learner.calls is None else "",
        proved=confidence(learner) if learner.calls is None else tally(learner, now.label),
        estimate=about(outlook.probability) if outlook is not None and is_likely else "",
        n_pulls=now.status.n_pulls,
        last=told,
    )


def unreadable_line(name: str, error: SurepickError) -> StudyLine:
    """Return the line of a study that cannot be loaded, with the reason."""
    return StudyLine(name, Badge("unreadable", "bad"), last=str(error))


# ---- the state


def badge_of(now: "StudySnapshot") -> Badge:
    """Return the state of a study in a word or two."""
    status = now.status
    if status.state == "withdrawn":
        return Badge("withdrawn", "bad")
    if status.guarantee == "doubtful":
        return Badge("model in doubt", "bad")
    if status.state == "stopped":
        return Badge("decided", "good")
    if status.state == "spent":
        return Badge("budget ended", "plain")
    return Badge(f"measuring{_left(status)}", "open") if status.n_pulls else Badge("no data", "plain")


def _left(status: "Status") -> str:
    """Return between which numbers of pulls are left, or the least if the range is too wide; "" if unknown."""
    if not math.isfinite(status.remaining):
        return ""
    ends = status.remaining_low, status.remaining_high
    least, most = (pulls_left(n) if math.isfinite(n) else "" for n in ends)
    if status.remaining_high > WIDE * max(status.remaining_low, 1.0):
        return f" {least}+ left"
    if not (least and most):
        return f" ~{pulls_left(status.remaining)} left"
    return f" {least} left" if least == most else f" {least} to {most} left"


def _next(now: "StudySnapshot", result: "Result", n_open: int, *, can_ask: bool) -> str:
    """Say what to do next: the first that fits."""
    status = now.status
    is_doubtful = status.stopped and status.guarantee == "doubtful"
    more = " Or ask for more." if can_ask else ""
    said = {
        IF_SLIP: status.state == "withdrawn" and result.misfit.endswith(model.IF_SLIP),
        NOT_USABLE: status.state == "withdrawn",
        "Begin a new study with the remedy named above; these results can guide it.": is_doubtful,
        "The budget is spent. Reopen the study with a larger budget to go on.": status.state == "spent",
        f"Measure, and record the values: {counted(n_open, 'ask')} open.{more}": n_open > 0,
        "Ask for the next measurements.": can_ask,
        "Download the certificate and the log: with both, anyone can check the answer.": status.stopped,
    }
    return next((text for text, holds in said.items() if holds), "The budget allows no further ask.")


def _has_offset(now: "StudySnapshot", state: State) -> bool:
    return now.status.state == "withdrawn" and state.learner.state.settled.model.finds_groups


def _after_withdrawal(state: State) -> list[str]:
    """Return what to do where the answer is withdrawn, and what the data say without the model."""
    if state.learner.state.settled.model.finds_groups:
        return []
    said = []
    if state.learner.model == "linear":
        said.append(
            "A new study can have products of columns, one mean for each arm, or an allowed misfit. The person at the "
            "command line creates such a study."
        )
    if means := own_means(state):
        said.append(f"Estimate, not a guarantee: by their own means, without the model, {means}.")
    return said


def _numbers(state: State, result: "Result") -> dict[str, str]:
    """Return counts and options as short entries."""
    noise_std = result.noise_std
    listed = f" of {len(result.arms):,}" if result.arms.listed is None else ""
    n_told, until = len(state.measurements), result.n_until_verdict
    pulls = f"{result.n_pulls:,}" + (f", of these {until:,} until the verdict" if until != result.n_pulls else "")
    if n_told != result.n_pulls:
        void = f", of these {state.n_void:,} void" if state.n_void else ""
        pulls += f"; the log has {counted(n_told, 'measurement')}{void}"
    known = {
        "pulls": pulls,
        "cost so far": f"{result.cost:,.6g}" if result.has_costs else "",
        **course_words(state, result),
        "arms measured": f"{len(result.counts):,}{listed}",
        "accepted risk (delta)": percent(result.delta),
        "accepted loss (epsilon)": f"{result.epsilon:g}" if result.epsilon > 0.0 else "",
        "noise of one measurement": "" if math.isnan(noise_std) else f"{float(f'{noise_std:.3g}'):,.10g}",
        "rule": result.rule,
    }
    return {word: text for word, text in known.items() if text}


def _cost_of_rest(result: "Result") -> dict[str, str]:
    """Return about what the remaining pulls cost, at the mean cost of a pull so far."""
    if not result.has_costs or not math.isfinite(result.remaining) or result.stopped:
        return {}
    return {"cost of the rest": f"about {roughly(result.remaining * result.cost / result.n_pulls)}"}


# ---- arms


def _leaderboard(result: "Result", n_arms: int) -> Leaderboard:
    """Return the leaders, and the first of the other arms by estimate."""
    rows, bars, places = result.compared, result_figures.bars_of(result), result_figures.places_in(result.compared)
    first = np.argsort(-rows.estimate, kind="stable").tolist()
    first = sorted(first, key=lambda row: bars[row].kind != "leader")[:n_arms]
    is_sorted = not (np.diff(rows.estimate[first]) > 0.0).any()
    chart = charts.interval_bars([bars[row] for row in first], places, *result_figures.target_of(result))
    questioned = {} if result.outlook is None else dict.fromkeys(map(_row, result.outlook.in_question), "in question")
    is_excluding = result.survivors is not None and result.guarantee not in ("doubtful", "withdrawn", "none")
    labels, listed = charts.distinct_labels([bars[row].name for row in first], LONGEST), []
    for rank, (row, bar) in enumerate(zip(first, chart.rows, strict=True), start=1):
        value, is_leader = rows.estimate[row], bar.bar.kind == "leader"
        ends = ""
        if result_figures.has_likely(result) and rows.likely_low is not None and rows.likely_high is not None:
            ends = between(rows.likely_low[row], rows.likely_high[row], places)
        proved = ("best" if result.stopped else "not excluded") if is_leader else bar.bar.kind
        listed.append(
            Place(
                rank=str(rank) if math.isfinite(value) else NOTHING,
                name=bar.bar.name,
                label=labels[rank - 1],
                pulls=f"{result.counts.get(rows.keys[row], 0):,}" if rows is result.arms else "",
                estimate=fixed(value, places) if math.isfinite(value) else NOTHING,
                likely=ends,
                interval=between(rows.low[row], rows.high[row], places),
                proved=proved if is_excluding else "",
                estimated="leader" if is_leader and not result.stopped else questioned.get(row, ""),
                bar=bar,
            )
        )
    title = "Leaderboard" if result.candidates is None else "Leaderboard of the candidates"
    return Leaderboard(title, BEST_FIRST if is_sorted else LEADER_FIRST, listed, len(rows), chart)


def _row(arm: Any) -> Any:
    """Return an arm as a key: a row number, or the entries of a vector."""
    return tuple(arm.tolist()) if isinstance(arm, np.ndarray) else int(arm)


def _model(result: "Result", *, can_audit: bool) -> Model | None:
    """Return how well the linear model fits; None without a model."""
    if result.model != "linear":
        return None
    return Model(Badge(*CHECKS[result.model_check]), assumptions(result)[0].checked, can_audit)


# ---- asks, measurements and events


def _card(state: State, one: "StudyAsk") -> AskCard:
    asked = state.attempts[one.id]
    times = when(asked.at), when(asked.until)
    return AskCard(
        one.id, one.name, recipe_cells(one.recipe), one.reason, asked.by, *times, group=label_text(asked.group)
    )


def entries_of(state: State, last: int, n: int) -> list[Entry]:
    """Return n measurements, the one with the id `last` first, then those before it; of a study that is held."""
    found = []
    for one in reversed(state.measurements[max(last - n, 0) : last]):
        asked = question(state, one.id)
        texts = state.roster.label(one.arm), f"{one.last:.12g}", NOTHING if one.ask is None else str(one.ask)
        remark = "; ".join(filter(None, [remark_of(one), "stands apart" if asked else ""]))
        words = "" if asked is None else asked.words(f'"Change" below measurement {one.id}').replace("+-", "±")
        found.append(Entry(one.id, *texts, one.by, when(one.at), remark, one.is_void, label_text(one.group), words))
    return found


def event_lines(state: State, rows: "Sequence[Row]") -> list[EventLine]:
    """Return events of the log as people read them, in their order."""
    events = [(row, json.loads(row.text)) for row in rows]
    return [
        EventLine(row.n, when(event["at"]), event["by"], event["kind"], _said(state, event), row.hash)
        for row, event in events
    ]


def log_of(study: "Study", *, before: int | None = None, events: int | None = None) -> LogView:
    """Return measurements and events, the newest first: those before a measurement, those before an event."""
    state = study.state
    with study.held():
        last, end = (
            n if given is None else min(max(given - 1, 0), n)
            for given, n in ((before, len(state.measurements)), (events, state.n_events))
        )
        rows = study.events_after(max(end - N_ROWS, 0), N_ROWS)[:end]
        lines = event_lines(state, rows)[::-1]
        return LogView(entries_of(state, last, N_ROWS), lines, len(state.measurements), state.n_events)


def _said(state: State, event: Mapping[str, Any]) -> str:
    """Return the content of an event: arms by name, the value, what the event is about, and the reason."""
    named = [state.roster.label(tuple(arm) if isinstance(arm, list) else arm) for arm in _arms_in(event)]
    shown = named[:MOST_NAMED] + ([f"{len(named) - MOST_NAMED:,} more"] if len(named) > MOST_NAMED else [])
    value = f" = {event['value']:.12g}" if "value" in event else ""
    parts = [joined(shown) + value] if shown else []
    parts += [f"{word} {event[word]}" for word in ("measurement", "ask") if event.get(word) is not None]
    if event["kind"] == "asked" and len(named) > 1:
        parts[-1] = f"asks {event['ask']} to {event['ask'] + len(named) - 1}"
    if not shown and value:
        parts[0] += value
    parts += [label_text(tuple(event["group"].items()))] if "group" in event else []
    parts += [f"asks {', '.join(map(str, event['asks']))}"] if event["kind"] == "expired" else []
    return "; ".join(filter(None, [", ".join(parts), event.get("reason", "")]))


MOST_NAMED = 10
"""Arms that the line of an event names."""


def _arms_in(event: Mapping[str, Any]) -> list[Any]:
    """Return the arms that an event names."""
    match event["kind"]:
        case "asked":
            return [arm for _, arm in event["asks"]]
        case "planned" | "audited":
            return list(event["arms"])
        case "told":
            return [event["arm"]]
    return []
