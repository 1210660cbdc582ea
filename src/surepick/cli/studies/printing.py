"""Output of the commands about studies: tables and sentences for people, JSON and CSV for programs.

`surepick.study.views` has the records, `surepick.learning.explain` and `surepick.learning.progress` the sentences.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from surepick._texts import counted, joined, percent, shown
from surepick.cli import output
from surepick.cli.output import EPSILON_IS, Code, facts_table, new_table, results
from surepick.learning.groups import label_text
from surepick.reporting.study_words import WORDS, course_words, recipe_words, remark_of, waiting_words, when

if TYPE_CHECKING:
    from rich.console import RenderableType

    from surepick.learning.result import Result
    from surepick.study.state import State
    from surepick.study.study import Study, StudyAsk
    from surepick.study.views import StudySnapshot


say, write = output.say, output.write
"""Sentences for people, and results for programs."""


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
    """Describe the goal of a study, and what it assumes and allows for."""
    learner, now = study.learner, study.snapshot
    spec, sought = learner.spec, "the best arm" if learner.m == 1 else f"the {learner.m} best arms"
    risk = f"at a risk of {percent(learner.delta)}"
    if learner.task.target is not None:
        from surepick.learning.calls import target_words  # noqa: PLC0415 (`--help` stays quick)

        sought = f"which arms {target_words(now.learner, now.label)}"
        if learner.task.target.calls == "fdr":
            risk = f"with at most {percent(learner.delta)} of the calls wrong on average"
    if learner.task.pool is not None:
        sought += f" on {learner.task.pool:,} items"
    near = "" if not learner.epsilon else f", or one at most {learner.epsilon:g} below it"
    if near and learner.task.target is not None:
        near = f", give or take {learner.epsilon:g}"
    parts = [f"{sought}{near}, {risk}", learner.noise_model.summary()]
    if spec.has_offsets:
        parts.append("days, benches and plates may read high or low")
    is_all = ", all of them measured" if learner.task.spends_all else ""
    if spec.rounds is not None:
        parts.append(f"at most {counted(spec.rounds, 'batch', 'batches')} of {spec.batch}{is_all}")
    elif spec.batch is not None:
        parts.append(f"in batches of {spec.batch}")
    elif learner.budget is not None:
        parts.append(f"a budget of {learner.budget:g}{is_all}")
    return "; ".join(parts)


def registration_words(study: "Study") -> str:
    """Show the hash that proves later that arms and options were fixed before the first ask."""
    digest = study.state.registrations[-1]
    return f"Registration digest {digest}: give it to a colleague now; surepick verify will show it again."


# ---- asks


def show_asks(study: "Study", asks: "Sequence[StudyAsk]", *, of_others: bool = False) -> None:
    """Print asks with their reasons; a reason that all share, once."""
    state = study.state
    reasons = {one.reason for one in asks}
    is_vector = any(isinstance(one.arm, tuple) for one in asks)
    titles = ["ask", "arm", *([] if is_vector else ["recipe"]), "until"]
    has_labels = any(one.group for one in asks)
    titles += ["group"] if has_labels else []
    titles += ["for"] if of_others else []
    titles += ["reason"] if len(reasons) > 1 else []
    rows = []
    for one in asks:
        row = [str(one.id), one.name, *([] if is_vector else [recipe_words(one.recipe)]), when(one.until)]
        row += [label_text(tuple(one.group.items()))] if has_labels else []
        row += [state.attempts[one.id].by] if of_others else []
        rows.append([*row, *([one.reason] if len(reasons) > 1 else [])])
    show(titles, rows)
    say_order(study)
    if len(reasons) == 1:
        say(f"Why: {reasons.pop()}.")


def say_order(study: "Study") -> None:
    """Say that the order of the asks must be kept, where the proof rests on it."""
    if study.learner.noise_model.needs_order:
        say("Measure in this order: the proof rests on it.")


# ---- measurements


def show_measurements(state: "State") -> None:
    """Print all measurements, with voids and corrections."""
    has_labels, rows = any(one.group for one in state.measurements), []
    for one in state.measurements:
        row = [str(one.id), state.roster.label(one.arm), f"{one.last:.12g}", "-" if one.ask is None else str(one.ask)]
        row += [label_text(one.group)] if has_labels else []
        rows.append([*row, one.by, when(one.at), remark_of(one)])
    show(("id", "arm", "value", "ask", *(["group"] if has_labels else []), "by", "when", "remark"), rows)


# ---- the state of a study


def standing_line(study: "Study") -> str:
    """Return the state of a study in one line."""
    from surepick.learning.progress import left_to_do, state_line  # noqa: PLC0415 (`--help` stays quick)

    now = study.snapshot
    if now.status.state == "withdrawn" or now.status.stopped:
        return _verdict(study.result())
    said = state_line(now.learner, now.label)
    if now.status.state == "spent":
        return f"{said}; the budget is spent."
    return f"{said}; {left_to_do(now.learner)}." if math.isfinite(now.learner.remaining) else f"{said}."


def waiting_lines(study: "Study") -> list[str]:
    """Return the sentences about asks that the proof waits for, in a line; none if it waits for none."""
    waiting = "" if study.status.state == "withdrawn" else waiting_words(study.state, names_command=True)
    return [waiting] if waiting else []


def status_table(study: "Study") -> "RenderableType":
    """Return the state of a study as a table without lines."""
    return facts_table({word: shown(text) for word, text in _status_lines(study.snapshot, study.state).items()})


def _status_lines(now: "StudySnapshot", state: "State") -> dict[str, str]:
    from surepick.learning.progress import facts  # noqa: PLC0415 (`--help` stays quick)

    status = now.status
    # The study's verdict stands, also where this machine, with other rounding, would have gone on.
    learner = replace(now.learner, stopped=True) if status.stopped else now.learner
    known = facts(learner, now.label, epsilon_is=EPSILON_IS)
    if "best" in known and not isinstance(status.best, tuple):
        known["best"] = joined(status.best_name if isinstance(status.best_name, list) else [status.best_name])
    changed = [f"{n} {word}" for n, word in ((status.n_void, "void"), (status.n_corrected, "corrected")) if n]
    asks = f"{status.n_pending or 'none'} open"
    asks += f", {status.n_planned} more planned" if status.n_planned and (state.can_ask or not status.stopped) else ""
    if status.state == "withdrawn":
        known = {}  # the first line and the sentences below the table say so
    elif now.is_spent and not status.stopped:
        asks += "; the budget allows no more"
    waiting = waiting_words(state, names_command=True)
    course = {} if status.state == "withdrawn" else course_words(state, now.learner)
    return {
        "study": f"{status.name}, {WORDS[status.state]}",
        **known,
        **({} if status.n_arms is None else {"arms": f"{status.n_arms:,}"}),
        "pulls": f"{status.n_pulls:,}" + (f" ({', '.join(changed)})" if changed else ""),
        **course,
        "asks": asks,
        **({"waiting": waiting} if waiting else {}),
        **({"decided": f"{when(status.stopped_at)}{_of_all(now)}"} if status.state == "stopped" else {}),
    }


def _of_all(now: "StudySnapshot") -> str:
    """Say how many pulls came before the verdict, if more came after it."""
    n = now.learner.n_until_verdict
    return f", after {n:,} pulls" if n < now.status.n_pulls else ""


def _verdict(result: "Result") -> str:
    """Return the verdict in a sentence, with the names of arms and without their numbers."""
    from surepick.learning.explain import verdict  # noqa: PLC0415 (`--help` stays quick)

    return verdict(result, numbers=False)


def best_lines(study: "Study") -> list[str]:
    """Return sentences about the best arm in a line; before the verdict, a line for each."""
    from surepick.learning.assumptions import model_checked  # noqa: PLC0415 (`--help` stays quick)
    from surepick.learning.explain import unmeasured  # noqa: PLC0415 (`--help` stays quick)
    from surepick.learning.progress import sentences  # noqa: PLC0415 (`--help` stays quick)

    now, result = study.snapshot, study.result()
    spent = "The budget is spent." if now.status.state == "spent" else ""
    said = [f"{_verdict(result)} {spent}".strip(), *sentences(now.learner, now.label, epsilon_is=EPSILON_IS)]
    if not result.stopped:
        return [*said, *waiting_lines(study)]
    if result.guarantee == "withdrawn":
        return [" ".join(filter(None, said))]
    _, n_told, n_checks = study.state.learner.state.ledger.n_of_check
    audit = f"{n_told} of {n_checks} are done" if n_told < n_checks else "surepick audit"
    notes = unmeasured(result, audit="surepick audit"), model_checked(result, audit=audit)
    return [" ".join(filter(None, [*said, *notes]))]


def plan_words(study: "Study") -> str:
    """Return sentences about the pulls left to do."""
    from surepick.learning.progress import left_to_do  # noqa: PLC0415 (`--help` stays quick)

    now = study.snapshot
    status = now.status
    if status.stopped or status.state == "withdrawn":
        return standing_line(study)
    said = [f"{counted(status.n_pulls, 'pull')} so far."]
    if status.state == "spent":
        said.append("The budget is spent.")
    else:
        said.append(f"To be sure: {left_to_do(now.learner)}.")
        said += [f"{word.capitalize()}: {text}." for word, text in _limits(study).items()]
    said.append(f"{counted(status.n_pending, 'ask')} open" if status.n_pending else "No ask open")
    if now.is_spent:
        return f"{' '.join(said)}; the budget allows no more."
    if status.n_planned:
        return f"{' '.join(said)}, {status.n_planned} more planned: ask for as many at once without a loss."
    return f"{' '.join(said)}; the next ask makes a new plan."


def _limits(study: "Study") -> dict[str, str]:
    """Return how much of the budget, of the batches or of the items is left, in the words of the status."""
    known = course_words(study.state, study.snapshot.learner)
    return {word: known[word] for word in ("budget", "batches", "items") if word in known}


def code_of(study: "Study") -> Code:
    """Return the exit code for a study's answer."""
    status = study.status
    if status.state == "withdrawn":
        return Code.WITHDRAWN
    return Code.OK if status.stopped else Code.NOT_STOPPED
