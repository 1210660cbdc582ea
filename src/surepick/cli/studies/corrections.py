"""Commands that change what counts: void, correct, restore; and what goes on after a verdict: audit, reopen."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surepick.cli.options import Output, pulls_or_auto, says
from surepick.cli.output import Code, Format
from surepick.cli.studies import Where, command, printing
from surepick.cli.studies.ask_tell import number_of, say_standing
from surepick.study import views

if TYPE_CHECKING:
    from surepick.study.study import Study


Reason = Annotated[str, says("Why, in a few words; the certificate shows it.")]
Id = Annotated[int, typer.Argument(metavar="MEASUREMENT", help="Number of the measurement, see surepick measurements.")]


@command
def measurements(*, where: Where, output: Output = Format.TABLE) -> int:
    """List all measurements with their numbers. Void and corrected ones are marked."""
    with where.loaded() as study:
        state = study.state
        if output is not Format.TABLE:
            records = [views.measurement_record(state, one) for one in state.measurements]
            printing.write(output, records, titles=views.OF_MEASUREMENT)
        elif state.measurements:
            printing.show_measurements(state)
        else:
            printing.say(f"Nothing is measured yet. Next: {where.next('ask', study)}")
    return Code.OK


@command
def void(measurement: Id, *, reason: Reason, where: Where) -> int:
    """Void a measurement, for any reason but its value. The study is recomputed without it."""
    return _let_count(measurement, reason, where, counts=False)


@command
def correct(
    measurement: Id,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The right value.")],
    *,
    reason: Reason,
    where: Where,
) -> int:
    """Correct a measurement that was told wrong. The study is recomputed with the right value."""
    number = number_of(value)
    with where.loaded() as study:
        was_stopped, before = study.stopped, study.state.measurement(measurement).last
        study.correct(measurement, number, reason=reason, worker=where.who)
        name = study.state.roster.label(study.state.measurement(measurement).arm)
        printing.say(f"Measurement {measurement} of {name} is {number:.12g}, not {before:.12g}.")
        _say_what_follows(study, where, was_stopped=was_stopped)
    return Code.OK


@command
def restore(measurement: Id, *, reason: Reason, where: Where) -> int:
    """Restore a void measurement, which then counts again."""
    return _let_count(measurement, reason, where, counts=True)


def _let_count(measurement: int, reason: str, where: Where, *, counts: bool) -> Code:
    with where.loaded() as study:
        was_stopped, change = study.stopped, study.restore if counts else study.void
        change(measurement, reason=reason, worker=where.who)
        one, now = study.state.measurement(measurement), "counts again" if counts else "is void"
        printing.say(f"Measurement {measurement} ({study.state.roster.label(one.arm)} = {one.last:.12g}) {now}.")
        _say_what_follows(study, where, was_stopped=was_stopped)
    return Code.OK


def _say_what_follows(study: "Study", where: Where, *, was_stopped: bool) -> None:
    if was_stopped and not study.stopped:
        goes_on = ": the study goes on" if study.status.state == "measuring" else ""
        printing.say(f"The verdict does not hold after this change{goes_on}.")
    say_standing(study, where)


@command
def audit(
    n: Annotated[
        str, typer.Argument(metavar="[N|auto]", help="How many check pulls; auto: as many as needed.")
    ] = "auto",
    *,
    where: Where,
) -> int:
    """Plan check pulls of the model after the verdict. The next asks are the check pulls."""
    wanted: Any = pulls_or_auto(n, "N")
    with where.loaded() as study:
        planned = study.audit(wanted, worker=where.who)
        printing.say(f"{planned} check pulls are planned." if planned != 1 else "One check pull is planned.")
        if planned:
            printing.say(f"Next: {where.next(f'ask -n {planned}', study)}")
    return Code.OK


@command
def reopen(
    *,
    reason: Annotated[str, says("Why, in a few words; the log keeps it.")],
    delta: Annotated[float | None, says("New risk.")] = None,
    epsilon: Annotated[float | None, says("New tolerance.")] = None,
    budget: Annotated[float | None, says("New budget.")] = None,
    join: Annotated[Path | None, says("Arms to add: a file with a column for each feature and one of names.")] = None,
    retire: Annotated[list[str] | None, says("Arms to remove, by name: A,B.")] = None,
    name_column: Annotated[str | None, says("Column with the names of the added arms.")] = None,
    where: Where,
) -> int:
    """Go on after a verdict, or with other arms or options. The new era has its own risk; earlier results guide it."""
    given = {"delta": delta, "epsilon": epsilon, "budget": budget}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    with where.loaded() as study:
        if join is not None:
            from surepick.cli.arm_files import read_joining  # noqa: PLC0415 (`--help` stays quick)

            changes["join"] = read_joining(join, study.state, name_column=name_column)
        gone = [study.arm(name) for text in retire or [] for name in _names(study, text)]
        dropped = ", ".join(map(str, study.state.open))
        study.reopen(reason=reason, retire=gone, worker=where.who, **changes)
        event = study.state.eras[-1]
        if event["joined"]:
            named = event["joined"]["names"] or [f"{len(event['joined']['rows'])} rows"]
            printing.say(f"Joined: {', '.join(named)}.")
        if gone:
            printing.say(f"Retired: {', '.join(map(study.state.roster.label, gone))}.")
        arms = "" if study.status.n_arms is None else f" with {study.status.n_arms:,} arms"
        printing.say(f"Study {study.name} is open again{arms}; its verdicts stay on record.")
        if n := study.status.n_pulls:
            printing.say(f"What was measured so far ({n:,} pulls) guides it and is no evidence for the next verdict.")
        if dropped:
            printing.say(f"No longer awaited: ask {dropped}; results are welcome all the same.")
        printing.say(printing.registration_words(study))
        printing.say(f"Next: {where.next('ask', study)}")
    return Code.OK


def _names(study: "Study", text: str) -> list[str]:
    """Return the names in a text with commas between them; one name may contain a comma."""
    is_one = text in study.state.roster.rows_by_name
    return [text] if is_one else [name.strip() for name in text.split(",")]
