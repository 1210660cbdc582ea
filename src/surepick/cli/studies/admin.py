"""Commands that change what a study rests on, and commands about studies as wholes.

The first are measurements, void, correct, restore, audit and reopen. The others list, copy, delete, export and import.
"""

import sys
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surepick._texts import shown
from surepick.cli.options import Output, pulls_or_auto, says
from surepick.cli.output import Code, Format, check_targets
from surepick.cli.studies import GroupOptions, StorageOptions, StudyOptions, command, complete_studies, printing
from surepick.cli.studies.ask_tell import ask_about, number_of, say_standing, with_columns
from surepick.errors import InvalidInput, SurepickError
from surepick.reporting import study_words
from surepick.study import views

if TYPE_CHECKING:
    from surepick.study.state import Measurement
    from surepick.study.study import Study


Reason = Annotated[str, says("The reason, in a few words; the certificate shows it.")]
Id = Annotated[int, typer.Argument(metavar="MEASUREMENT", help="Number of the measurement, see surepick measurements.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the study.", autocompletion=complete_studies)]


class ExportContent(StrEnum):
    """Content of an export."""

    LOG = "log"
    MEASUREMENTS = "measurements"


# ---- measurements, and what follows a verdict


@command
def measurements(*, where: StudyOptions, output: Output = Format.TABLE) -> int:
    """List all measurements with their numbers. Marks show void and corrected measurements."""
    with where.loaded() as study:
        state = study.state
        if output is not Format.TABLE:
            records = [views.measurement_record(state, one) for one in state.measurements]
            printing.write(output, records, views.table_of(records), titles=views.OF_MEASUREMENT)
        elif state.measurements:
            printing.show_measurements(state)
        else:
            printing.say(f"Nothing is measured yet. Next: {where.next('ask', study)}")
    return Code.OK


@command
def void(measurement: Id, *, reason: Reason, where: StudyOptions) -> int:
    """Void a measurement, for any reason but its value. The study is recomputed without it."""
    return _let_count(measurement, reason, where, counts=False)


@command
def correct(
    measurement: Id,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The right value.")],
    *,
    reason: Reason,
    where: StudyOptions,
) -> int:
    """Correct a measurement that was told wrong. The study is recomputed with the right value."""
    number = number_of(value)
    with where.loaded() as study:
        was_stopped, before = study.stopped, study.state.measurement(measurement).last
        study.correct(measurement, number, reason=reason, worker=where.who)
        one = study.state.measurement(measurement)
        name = study.state.roster.label(one.arm)
        printing.say(f"Measurement {measurement} of {name} is {number:.12g}, not {before:.12g}; {_asked(one)}.")
        _say_if_ask_was_meant(study, one, f"correct {measurement} {before:.12g}", where)
        _say_what_follows(study, where, was_stopped=was_stopped)
    return Code.OK


@command
def restore(measurement: Id, *, reason: Reason, where: StudyOptions) -> int:
    """Restore a void measurement, which then counts again."""
    return _let_count(measurement, reason, where, counts=True)


def _let_count(measurement: int, reason: str, where: StudyOptions, *, counts: bool) -> Code:
    with where.loaded() as study:
        was_stopped, change = study.stopped, study.restore if counts else study.void
        change(measurement, reason=reason, worker=where.who)
        one, now = study.state.measurement(measurement), "counts again" if counts else "is void"
        printing.say(
            f"Measurement {measurement} ({study.state.roster.label(one.arm)} = {one.last:.12g}) {now}; {_asked(one)}."
        )
        _say_if_ask_was_meant(study, one, f"{'void' if counts else 'restore'} {measurement}", where)
        _say_what_follows(study, where, was_stopped=was_stopped)
    return Code.OK


def _asked(one: "Measurement") -> str:
    return "it was not asked for" if one.ask is None else f"it answers ask {one.ask}"


def _say_if_ask_was_meant(study: "Study", one: "Measurement", undo: str, where: StudyOptions) -> None:
    """Point out that the ask of that number has another measurement, where a result that was not asked for changed."""
    ask = study.state.attempts.get(one.id)
    if one.ask is not None or ask is None or not ask.results:
        return
    other = study.state.measurement(ask.results[0])
    printing.say(
        f"If you meant ask {ask.id}: its result is measurement {other.id} ({study.state.roster.label(other.arm)} = "
        f"{other.last:.12g}). To undo this change: {where.next(f'{undo} --reason wrong-number', study)}"
    )


def _say_what_follows(study: "Study", where: StudyOptions, *, was_stopped: bool) -> None:
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
    where: StudyOptions,
) -> int:
    """Plan check pulls of the model after the verdict. The next asks are the check pulls."""
    wanted: Any = pulls_or_auto(n, "N")
    with where.loaded() as study:
        planned = study.audit(wanted, worker=where.who)
        printing.say(f"{planned} check pulls are planned." if planned != 1 else "One check pull is planned.")
        if planned and wanted == "auto":
            printing.say(
                "Check pulls look for a misfit of half the lead, because such a misfit could make the answer wrong. "
                "surepick plans at most twice the pulls so far, or twenty of every arm if that is more. "
                "Fewer: surepick audit N."
            )
        if planned:
            printing.say(f"Next: {where.next(f'ask -n {planned}', study)}")
    return Code.OK


class OfGroups(StrEnum):
    """How surepick uses the labels of measurements."""

    WATCH = "watch"
    OFFSET = "offset"


@command
def reopen(  # noqa: PLR0913 - every argument is an option of its own
    *,
    reason: Annotated[str | None, says("The reason, in a few words; the log keeps it.")] = None,
    delta: Annotated[float | None, says("New risk.")] = None,
    epsilon: Annotated[float | None, says("New tolerance.")] = None,
    budget: Annotated[float | None, says("Budget from here on (default: the rest of the budget).")] = None,
    rounds: Annotated[int | None, says("Most batches from here on (default: the rest of the batches).")] = None,
    m: Annotated[int | None, says("How many of the best arms to find.")] = None,
    groups: Annotated[OfGroups | None, says("Allow for offsets of groups from here on (offset), or watch.")] = None,
    join: Annotated[Path | None, says("Arms to add: a file with a column for each feature and one of names.")] = None,
    retire: Annotated[list[str] | None, says("Arms to remove, by name: A,B.")] = None,
    name_column: Annotated[str | None, says("Column with the names of the added arms.")] = None,
    dry_run: Annotated[bool, says("Show which results stay evidence, and change nothing.", "--dry-run")] = False,
    where: StudyOptions,
) -> int:
    """Reopen a study after a verdict, or change arms or options. Evidence is kept as far as the proof allows."""
    if reason is None and not dry_run:
        raise InvalidInput("--reason must say why in a few words; to see first which evidence is kept, give --dry-run.")
    given: dict[str, Any] = {"delta": delta, "epsilon": epsilon, "budget": budget, "rounds": rounds, "m": m}
    given["groups"] = None if groups is None else groups.value
    changes = {name: value for name, value in given.items() if value is not None}
    with where.loaded() as study:
        if join is not None:
            changes["join"] = study.state.roster.read_joining(join, name_column=name_column)
        gone = [study.arm(name) for text in retire or [] for name in _names(study, text)]
        dropped = ", ".join(map(str, study.state.open))
        printing.say(str(study.preview_reopen(retire=gone, **changes)))
        if dry_run:
            return Code.OK
        assert reason is not None
        study.reopen(reason=reason, retire=gone, worker=where.who, **changes)
        event = study.state.eras[-1]
        if event["joined"]:
            named = event["joined"]["names"] or [f"{len(event['joined']['rows'])} rows"]
            printing.say(f"Joined: {', '.join(named)}.")
        if gone:
            printing.say(f"Retired: {', '.join(map(study.state.roster.label, gone))}.")
        arms = "" if study.status.n_arms is None else f" with {study.status.n_arms:,} arms"
        printing.say(f"Study {study.name} is open again{arms}; its verdicts stay on record.")
        if dropped:
            printing.say(f"surepick no longer waits for ask {dropped}, but still records a result.")
        printing.say(printing.registration_words(study))
        if study.stopped:
            printing.say("The evidence that is kept decides: there is a verdict already.")
        printing.say(f"Next: {where.next('best' if study.stopped else 'ask', study)}")
    return Code.OK


def _names(study: "Study", text: str) -> list[str]:
    """Return the names in a text with commas between them; one name may contain a comma."""
    is_one = text in study.state.roster.rows_by_name
    return [text] if is_one else [name.strip() for name in text.split(",")]


# ---- studies as wholes


@command
def list_command(*, place: StorageOptions, output: Output = Format.TABLE) -> int:
    """List the studies of a storage, and the state of each."""
    with place.opened() as storage:
        records = views.list_records(storage)
        if output is not Format.TABLE:
            printing.write(output, records)
        elif not records:
            printing.say(f"{storage.address} has no study yet. Next: surepick create arms.csv")
        else:
            printing.show(("study", "state", "best so far", "pulls", "created"), [_row(one) for one in records])
    return Code.OK


def _row(one: dict[str, Any]) -> list[str]:
    state = study_words.WORDS[one["state"]].partition(":")[0]
    pulls = "-" if one["n_pulls"] is None else f"{one['n_pulls']:,}"
    created = "-" if one["created_at"] is None else study_words.when(one["created_at"])
    best = None if one["state"] == "withdrawn" else one["best_name"]
    return [one["name"], state, _together(best), pulls, created]


def _together(names: Any) -> str:
    return "-" if names is None else ", ".join(names) if isinstance(names, list) else str(names)


@command
def copy(
    name: Name,
    to: Annotated[str, typer.Argument(metavar="TO", help="Name of the copy.")],
    *,
    to_storage: Annotated[str | None, says("Storage of the copy (default: the same).")] = None,
    place: StorageOptions,
) -> int:
    """Copy a study to another name or storage. Both logs record the copy, and certificates show it."""
    from surepick.study.admin import copy_study  # noqa: PLC0415 (`--help` stays quick)

    target = place if to_storage is None else StorageOptions(storage=to_storage)
    with place.opened() as storage:
        study = copy_study(name, to, storage=storage, to_storage=target.address, author=place.who)
        fork = study.state.forks[-1]["fork"]
        with closing(study.storage) as other:
            printing.say(f"Study {name} is copied to {to} in {other.address}; both logs say so (fork id {fork}).")
    return Code.OK


@command
def delete(
    name: Name,
    *,
    yes: Annotated[bool, says("Delete without a question.", "--yes")] = False,
    place: StorageOptions,
) -> int:
    """Delete a study with all its measurements, for good."""
    from surepick.study.study import Study  # noqa: PLC0415 (`--help` stays quick)

    with place.opened() as storage:
        n = storage.n_events(name)
        try:
            told = f"{len(Study(storage, name).measurements)} measurements"
        except SurepickError:  # one that cannot be read can be deleted all the same
            told = f"{n} events"
        if not yes and not _is_sure(f"Delete study {name} with its {told} for good? Type its name: ", name):
            printing.say(f"Study {name} stays.")
            return Code.FAILURE
        storage.delete(name)
        printing.say(f"Study {name} is deleted.")
    return Code.OK


def _is_sure(question: str, name: str) -> bool:
    if not sys.stdin.isatty():
        raise InvalidInput("to delete without a terminal, add --yes.")
    try:
        return input(shown(question)).strip() == name
    except EOFError:
        return False


@command
def export(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="File to write: .csv, .parquet, .json, or .xlsx for measurements.")
    ],
    *,
    what: Annotated[
        ExportContent | None,
        says("The log with its hashes, against which a certificate is checked (default); or the measurements."),
    ] = None,
    where: StudyOptions,
) -> int:
    """Write the log, or the measurements, to a file."""
    from surepick.study.exchange import export as export_to  # noqa: PLC0415

    check_targets({"FILE": path}, {"--storage": where.file})
    what = what or (ExportContent.MEASUREMENTS if path.suffix.lower() == ".xlsx" else ExportContent.LOG)
    with where.loaded() as study:
        export_to(study, path, what.value)
        n = study.head[0] if what is ExportContent.LOG else len(study.measurements)
        printing.say(
            f"{n} {'events' if what is ExportContent.LOG else 'measurements'} of study {study.name} are in {path}."
        )
    return Code.OK


@command
def import_command(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="Table with the columns arm and value: .csv, .xlsx, ...")
    ],
    *,
    option_column: Annotated[str | None, says("Column of the arms (default: arm, name or id).")] = None,
    value_column: Annotated[str | None, says("Column of the values (default: value, reward or result).")] = None,
    groups: GroupOptions,
    where: StudyOptions,
) -> int:
    """Tell a study earlier results from a file, all or none. They guide plans and bets, see create --earlier."""
    from surepick.study.eras import earlier_of  # noqa: PLC0415 (`--help` stays quick)

    with where.loaded() as study:
        state, n_before = study.state, len(study.measurements)
        is_evidence = earlier_of(state.options) == "evidence" and not state.attempts and state.era == 1
        labels = with_columns(study, path, groups, asks=True).of_file
        columns = {"option_column": option_column, "value_column": value_column}
        told = _imported(study, path, where.who, {**labels, **columns})
        counts = "they count as evidence" if is_evidence else "they guide the next asks, and are no evidence"
        if told[0].id <= n_before:
            counts = "they were told before: nothing changed"
        printing.say(f"{len(told)} results of {path} are in study {study.name}; {counts}.")
        ask_about(study, [one.id for one in told if one.id > n_before], where, is_silent=True)
        say_standing(study, where)
    return Code.OK


def _imported(study: "Study", path: Path, who: str, given: dict[str, Any]) -> "list[Measurement]":
    """Tell the results of a table, or of a .csv log that an earlier `surepick run --log` has written."""
    from surepick.arms.tables.sources import open_table  # noqa: PLC0415 (`--help` stays quick)
    from surepick.cli.arm_files import read_history  # noqa: PLC0415
    from surepick.study.exchange import import_results  # noqa: PLC0415

    if "corrects" not in open_table(path).columns:
        return import_results(study, path, worker=who, **given)
    pairs = read_history(path, study.arm)
    return study.state.told_together(pairs) or study.tell_earlier(pairs, worker=who)
