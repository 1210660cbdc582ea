"""Commands about studies as things: list, copy, delete, export, import."""

import sys
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surepick._texts import shown
from surepick.cli.options import Output, says
from surepick.cli.output import Code, Format, check_targets
from surepick.cli.studies import Place, Where, command, complete_studies, printing
from surepick.cli.studies.ask_tell import say_standing
from surepick.errors import InvalidInput, SurepickError
from surepick.study import views

if TYPE_CHECKING:
    from surepick.study.state import Measurement
    from surepick.study.study import Study


Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the study.", autocompletion=complete_studies)]


class What(StrEnum):
    """Content of an export."""

    LOG = "log"
    MEASUREMENTS = "measurements"


@command
def list_command(*, place: Place, output: Output = Format.TABLE) -> int:
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
    state = printing.WORDS[one["state"]].partition(":")[0]
    pulls = "-" if one["n_pulls"] is None else f"{one['n_pulls']:,}"
    created = "-" if one["created_at"] is None else printing.when(one["created_at"])
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
    place: Place,
) -> int:
    """Copy a study to another name or storage. Both logs record the copy, and certificates show it."""
    from surepick.study.admin import copy_study  # noqa: PLC0415 (`--help` stays quick)

    target = place if to_storage is None else Place(storage=to_storage)
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
    place: Place,
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
    path: Annotated[Path, typer.Argument(metavar="FILE", help="File to write: .csv, .parquet or .json.")],
    *,
    what: Annotated[
        What, says("The log with its hashes, against which a certificate is checked; or the measurements.")
    ] = What.LOG,
    where: Where,
) -> int:
    """Write the log, or the measurements, to a file."""
    from surepick.study.exchange import export as export_to  # noqa: PLC0415

    check_targets({"FILE": path}, {"--storage": where.file})
    with where.loaded() as study:
        export_to(study, path, what.value)
        n = study.head[0] if what is What.LOG else len(study.measurements)
        printing.say(f"{n} {'events' if what is What.LOG else 'measurements'} of study {study.name} are in {path}.")
    return Code.OK


@command
def import_command(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="Table with the columns arm and value: .csv, .xlsx, ...")
    ],
    *,
    where: Where,
) -> int:
    """Tell a study earlier results from a file, all or none. They guide plans and bets, see create --earlier."""
    from surepick.study.eras import earlier_of  # noqa: PLC0415 (`--help` stays quick)

    with where.loaded() as study:
        state, n_before = study.state, len(study.measurements)
        is_evidence = earlier_of(state.options) == "evidence" and not state.attempts and state.era == 1
        told = _imported(study, path, where.who)
        counts = "they count as evidence" if is_evidence else "they guide what is asked next, and are no evidence"
        if told[0].id <= n_before:
            counts = "they were told before: nothing changed"
        printing.say(f"{len(told)} results of {path} are in study {study.name}; {counts}.")
        say_standing(study, where)
    return Code.OK


def _imported(study: "Study", path: Path, who: str) -> "list[Measurement]":
    """Tell the results of a table, or of a .csv log that an earlier `surepick run --log` has written."""
    from surepick.arms.tables.sources import open_table  # noqa: PLC0415 (`--help` stays quick)
    from surepick.cli.arm_files import read_history  # noqa: PLC0415
    from surepick.study.exchange import import_results  # noqa: PLC0415

    if "corrects" not in open_table(path).columns:
        return import_results(study, path, worker=who)
    pairs = read_history(path, study.arm)
    return study.state.told_together(pairs) or study.tell_earlier(pairs, worker=who)
