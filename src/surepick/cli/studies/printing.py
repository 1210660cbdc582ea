"""What commands about studies print: tables and sentences for people, JSON and CSV for programs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from surepick._texts import shown
from surepick.cli import output
from surepick.cli.output import Code, new_table, results

if TYPE_CHECKING:
    from rich.console import RenderableType

    from surepick.study.state import Measurement, State
    from surepick.study.study import Study, StudyAsk


say, write = output.say, output.write
"""Sentences for people, and results for programs."""

WORDS = {
    "new": "nothing is asked yet",
    "measuring": "measuring",
    "stopped": "decided",
    "withdrawn": "withdrawn: the data contradict what the answer rests on",
    "spent": "the budget is spent",
    "unreadable": "unreadable",
}
"""Of states, for people."""
OF_BEST = (
    *("name", "state", "best", "best_name", "rival_name", "lead", "lead_low", "lead_high", "confidence", "delta"),
    *("guarantee", "epsilon_bound", "n_pulls", "stopped_at"),
)
OF_ASK = ("id", "arm", "name", "features", "until", "reason")
OF_MEASUREMENT = ("id", "arm", "name", "value", "told", "is_void", "ask", "author", "at", "changes")
"""Fields of what there may be none of."""
OF_PLAN = ("name", "state", "n_pulls", "remaining", "n_planned", "n_pending")
"""Fields of a status that `best` and `plan` give."""


def show(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; long cells go on in the next line."""
    numbers = ("id", "ask", "value", "pulls", "events", "measurement")
    table = new_table(titles, left=[title for title in titles if title not in numbers])
    for column in table.columns:
        column.no_wrap = column.header in numbers
    for row in rows:
        table.add_row(*map(shown, row))
    results().print(table)


def aim_words(study: "Study") -> str:
    """Say what a study is to find, and under which noise."""
    from surepick.learning.explain import percent  # noqa: PLC0415 (`--help` stays quick)

    learner, options = study.learner, study.state.options
    sought = "the best arm" if learner.m == 1 else f"the {learner.m} best arms"
    near = f", or one at most {learner.epsilon:g} below it" if learner.epsilon else ""
    if options["rewards"] == "binary":
        noise = "rewards are 0 or 1"
    elif options["reward_range"] is not None:
        noise = "rewards between {:g} and {:g}".format(*options["reward_range"])
    elif options["noise_std"] is None:
        noise = "the noise is learnt"
    else:
        level = options["noise_std"]
        noise = "a noise for each arm" if isinstance(level, list) else f"noise at most {level:g}"
    budget = "" if learner.budget is None else f"; a budget of {learner.budget:g}"
    return f"{sought}{near}, at a risk of {percent(learner.delta)}; {noise}{budget}"


def registration_words(study: "Study") -> str:
    """Say by which hash others can check later that arms and options were fixed before the first ask."""
    digest = study.state.registrations[-1]
    return f"Registration digest {digest}: give it to a colleague now; surepick verify will show it again."


# ---- asks


def ask_record(one: "StudyAsk") -> dict[str, Any]:
    """An ask as a program reads it."""
    return asdict(one)


def show_asks(study: "Study", asks: "Sequence[StudyAsk]", *, of_others: bool = False) -> None:
    """Print asks, and why they are made: once, if that is the same for all."""
    state = study.state
    reasons = {one.reason for one in asks}
    is_vector = any(isinstance(one.arm, tuple) for one in asks)
    titles = ["ask", "arm", *([] if is_vector else ["features"]), "until"]
    titles += ["for"] if of_others else []
    titles += ["reason"] if len(reasons) > 1 else []
    rows = []
    for one in asks:
        row = [str(one.id), one.name, *([] if is_vector else [features_words(state, one.features)]), when(one.until)]
        row += [state.attempts[one.id].by] if of_others else []
        rows.append([*row, *([one.reason] if len(reasons) > 1 else [])])
    show(titles, rows)
    if len(reasons) == 1:
        say(f"Why: {reasons.pop()}.")


def features_words(state: "State", features: Sequence[float]) -> str:
    """Features as people read them: no constant, no levels that an arm does not have."""
    names = state.roster.written.get("features") or [f"feature {place}" for place, _ in enumerate(features, start=1)]
    named = [(str(name), value) for name, value in zip(names, features, strict=True) if name != "constant"]
    shown = [
        name if "=" in name and value == 1.0 else f"{name} {value:.6g}"
        for name, value in named
        if not ("=" in name and value == 0.0)
    ]
    return ", ".join(shown)


def when(time: str | None) -> str:
    """A time of the log in this place's own; none is for ever."""
    if time is None:
        return "for ever"
    moment = datetime.strptime(time, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC).astimezone()
    now = datetime.now(UTC).astimezone()
    if moment.date() == now.date():
        return f"today {moment:%H:%M}"
    return f"{moment:%d %b %H:%M}" if moment.year == now.year else f"{moment:%d %b %Y}"


# ---- measurements


def measurement_record(state: "State", one: "Measurement") -> dict[str, Any]:
    """A measurement as a program reads it."""
    return {
        "id": one.id,
        "arm": one.arm,
        "name": state.roster.label(one.arm),
        "value": one.value,
        "told": one.told,
        "is_void": one.is_void,
        "ask": one.ask,
        "author": one.by,
        "at": one.at,
        "changes": [f"{change.kind.value}: {change.reason}" for change in one.changes],
    }


def show_measurements(state: "State") -> None:
    """Print all measurements, with what became of them."""
    rows = []
    for one in state.measurements:
        mark = "void" if one.is_void else f"corrected, was {one.told:.12g}" if one.is_corrected else ""
        why = [change.reason for change in one.changes if (change.value is None) is one.is_void]
        reason = f": {why[-1]}" if mark else ""
        asked = "-" if one.ask is None else str(one.ask)
        rows.append(
            [str(one.id), state.roster.label(one.arm), f"{one.last:.12g}", asked, one.by, when(one.at), mark + reason]
        )
    show(("id", "arm", "value", "ask", "by", "when", "remark"), rows)


def told_words(state: "State", told: "Sequence[Measurement]", n_before: int) -> Iterator[str]:
    """Say what values were taken for."""
    for one in told:
        answers = f"answers ask {one.ask}" if one.ask is not None else "nobody asked for it, kept all the same"
        if one.ask is not None and state.attempts[one.ask].results[0] != one.id:
            answers = f"further to ask {one.ask}"
        if not state.roster.is_present(one.arm):
            answers = "of an arm that is retired: kept, without weight"
        before = ", was told before: nothing changed" if one.id <= n_before else ""
        yield f"{state.roster.label(one.arm)} = {one.told:.12g} (measurement {one.id}, {answers}{before})."


# ---- where a study stands


def status_record(study: "Study", only: Sequence[str] = ()) -> dict[str, Any]:
    """A status as a program reads it; of the whole, or of some fields."""
    known = asdict(study.status)
    return {name: known[name] for name in only or known}


def standing_line(study: "Study") -> str:
    """Say in one line where a study stands."""
    from surepick.cli.live import state_line  # noqa: PLC0415
    from surepick.learning.explain import left_to_do  # noqa: PLC0415
    from surepick.learning.snapshot import standing_of  # noqa: PLC0415

    state, status = study.state, study.status
    if status.state == "withdrawn" or status.stopped:
        return verdict_words(study)
    standing = standing_of(state.learner)
    said = state_line(standing, state.roster.candidate_label)
    if status.state == "spent":
        return f"{said}; the budget is spent."
    return f"{said}; {left_to_do(standing)}." if math.isfinite(standing.remaining) else f"{said}."


def status_lines(study: "Study") -> list[tuple[str, str]]:
    """Where a study stands, as words and what is to be said of each."""
    from surepick.cli.live import OPTION, arm_label  # noqa: PLC0415 (`--help` stays quick)
    from surepick.learning import explain  # noqa: PLC0415
    from surepick.learning.snapshot import standing_of  # noqa: PLC0415

    state, status = study.state, study.status
    label, standing = state.roster.candidate_label, standing_of(state.learner)
    is_open = not status.stopped and status.state != "withdrawn"
    names = status.best_name if isinstance(status.best_name, list) else [status.best_name]
    lines = [("study", f"{study.name}, {WORDS[status.state]}")]
    if status.state != "withdrawn":
        leaders = arm_label(None) if status.best_name is None else explain.joined(names)
        lines.append(("leader" if is_open else "best", leaders))
    if standing.rival is not None and status.state != "withdrawn":
        lines.append(("rival" if is_open else "runner-up", label(standing.rival)))
        lines.append(("ahead by", explain.lead_words(standing)))
    lines.append(("confidence", explain.confidence_words(standing)))
    if status.guarantee == "doubtful":
        lines.append(("doubt", state.learner.noise_doubt))
    if status.n_arms is not None:
        lines.append(("arms", f"{status.n_arms:,}"))
    lines.append(("pulls", f"{status.n_pulls:,}{_marks(status.n_void, status.n_corrected)}"))
    planned = f", {status.n_planned} more planned" if status.n_planned else ""
    planned += ", as many as the budget allows" if is_open and state.learner.is_spent else ""
    lines.append(("asks", f"{status.n_pending or 'none'} open{planned}"))
    if is_open and standing.leader is not None:
        if cost := explain.stopping_now(standing, label(standing.leader)):
            lines.append(("stop now", cost))
        lines.append(("remaining", explain.left_to_do(standing)))
    if near := explain.near_tie_words(standing, label, epsilon_is=OPTION):
        lines.append(("near tie", near))
    if status.state == "stopped":
        lines.append(("decided", when(status.stopped_at)))
    return lines


def _marks(n_void: int, n_corrected: int) -> str:
    said = [f"{n_void} void"] if n_void else []
    said += [f"{n_corrected} corrected"] if n_corrected else []
    return f" ({', '.join(said)})" if said else ""


def status_table(study: "Study") -> "RenderableType":
    """The same as a table without lines."""
    from rich.table import Table  # noqa: PLC0415 (loaded once a table is printed)

    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim")
    rows.add_column(overflow="fold")
    for word, text in status_lines(study):
        rows.add_row(word, shown(text))
    return rows


def verdict_words(study: "Study") -> str:
    """Say in a sentence what became of the claim; arms go by their names alone."""
    from surepick.learning.explain import verdict  # noqa: PLC0415 (`--help` stays quick)
    from surepick.study.certificate import named  # noqa: PLC0415

    result = study.result()
    return named(verdict(result), result)


def best_words(study: "Study") -> str:
    """Say who is best, or who leads and what is missing; and that it was never measured, where that is so."""
    from surepick.learning.explain import standing_sentences  # noqa: PLC0415
    from surepick.learning.snapshot import standing_of  # noqa: PLC0415 (`--help` stays quick)

    state = study.state
    said = standing_sentences(standing_of(state.learner), state.roster.candidate_label, epsilon_is="--epsilon ")
    result = study.result()
    is_one_row = result.m == 1 and result.candidates is None and not result.arm_set
    if study.status.state == "stopped" and is_one_row and not result.counts.get(result.best):
        said.append("It was not measured itself: what it gives follows by the model.")
    return " ".join([verdict_words(study), *said])


def plan_words(study: "Study") -> str:
    """Say what is left to do."""
    from surepick.learning.explain import counted  # noqa: PLC0415 (`--help` stays quick)

    status = study.status
    if status.stopped or status.state == "withdrawn":
        return standing_line(study)
    said = [f"{counted(status.n_pulls, 'pull')} so far."]
    if status.state == "spent":
        said.append("The budget is spent.")
    elif math.isfinite(status.remaining):
        said.append(f"About {counted(max(math.ceil(status.remaining), 1), 'more pull')} needed, as it seems.")
    else:
        said.append("How many more are needed cannot be said yet.")
    said.append(f"{counted(status.n_pending, 'ask')} open" if status.n_pending else "No ask open")
    if study.learner.is_spent:
        return f"{' '.join(said)}; the budget allows no more."
    if status.n_planned:
        return f"{' '.join(said)}, {status.n_planned} more planned: a batch of up to {status.n_planned} loses nothing."
    return f"{' '.join(said)}; the next ask makes a new plan."


def code_of(study: "Study") -> Code:
    """What the shell is told of a study's answer."""
    status = study.status
    if status.state == "withdrawn":
        return Code.WITHDRAWN
    return Code.OK if status.stopped else Code.NOT_STOPPED
