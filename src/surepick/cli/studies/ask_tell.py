"""Commands that create and measure a study: create, ask, tell, fail, pending."""

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surepick._texts import control_in, shown
from surepick.cli.options import (
    ARM_FILES,
    OF_FILES,
    LearnerOptions,
    Output,
    SetOptions,
    TableOptions,
    one_set,
    option_names,
    refuse,
    says,
)
from surepick.cli.output import Code, Format, results
from surepick.cli.studies import StorageOptions, StudyOptions, command, printing
from surepick.errors import InvalidInput, SurepickError
from surepick.study import views

if TYPE_CHECKING:
    from surepick.study.study import Study


IN_STUDY_FILE = (*option_names(SetOptions), *option_names(LearnerOptions), *option_names(TableOptions), "--lease")


def complete_arms(context: typer.Context, incomplete: str) -> list[str]:
    """Return names of arms, for shells that complete words; read from the first event alone, which is quick."""
    given = context.params
    try:
        with StorageOptions(storage=given.get("storage")).opened() as storage:
            studies = {one.name: one.first for one in storage.summaries()}
    except (SurepickError, OSError):  # a shell that completes has nowhere to say why not
        return []
    first = studies.get(given.get("study") or next(iter(studies), ""), "{}")
    names = json.loads(first).get("arms", {}).get("names") or []
    return [name for name in names if name.startswith(incomplete) and control_in(name) is None]


@command
def create(  # noqa: PLR0913 (every argument is an option of its own)
    context: typer.Context,
    arms: Annotated[Path | None, typer.Argument(help=f"Your arms: a {ARM_FILES}.")] = None,
    *,
    name: Annotated[str | None, says("Name of the study (default: the name of the file).")] = None,
    file: Annotated[Path | None, says("Read arms and options from a study.toml, whose keys are the options.")] = None,
    place: StorageOptions,
    sets: SetOptions,
    learner: LearnerOptions,
    table: TableOptions,
    lease: Annotated[
        str, says('How long an ask is kept for its worker: "30m", "2h", "3d", or "none" for ever.')
    ] = "1d",
) -> int:
    """Create a study from a file of arms. The study lives in one file, for several people and many days."""
    if file is not None:
        if arms is not None:
            raise InvalidInput(f'--file and {arms} say both which arms; write arms = "{arms}" into {file}.')
        refuse(context, IN_STUDY_FILE, f"belongs into {file} beside the rest")
        wanted = _read_study_file(file)
        source, value, table, learner = wanted.source, wanted.value, wanted.table, wanted.learner
        name, lease = name or wanted.name, wanted.lease
    else:
        chosen = one_set(arms, sets)
        if chosen is None:
            raise InvalidInput("a study needs arms; give their file, as in surepick create arms.csv, or --file.")
        source, value = chosen
    if source != "--arms":
        refuse(context, OF_FILES, f"belongs to a file of arms, got {source}")
    name = name or (value.stem if source == "--arms" else None)
    if name is None:
        raise InvalidInput(f"a study of {source} needs a name; add --name NAME.")
    from surepick.cli.arm_files import arms_and_settings  # noqa: PLC0415 (`--help` stays quick)
    from surepick.study.admin import create_study  # noqa: PLC0415

    if place.exists:
        with place.opened() as storage:
            if name in storage.names():
                raise InvalidInput(
                    f"there is a study {name!r} in {storage.address} already; go on with it "
                    f"({place.command('ask', storage, name)}), or choose another --name."
                )
    own, settings = arms_and_settings(source, value, table, learner)
    # By its address: what is refused makes no file.
    study = create_study(name, arms=own.arms, **settings, storage=place.address, lease=lease, author=place.who)
    with closing(study.storage) as storage:
        results().print(f"arms: {own.describe(settings['model'])}", soft_wrap=True)
        printing.say(f"Study {name} is in {storage.address}: {printing.aim_words(study)}.")
        printing.say(printing.registration_words(study))
        printing.say(f"Next: {place.command('ask', storage, name)}")
    return Code.OK


def _read_study_file(path: Path) -> Any:
    try:
        from surepick.cli.studies.study_file import read_study_file  # noqa: PLC0415 (loads pydantic)
    except ModuleNotFoundError as error:
        raise SurepickError(
            f"a study.toml needs {error.name}, which is not installed; pip install 'surepick[study]'."
        ) from error
    return read_study_file(path)


@command
def ask(
    *,
    n: Annotated[int, says("How many measurements to ask for.", "-n", min=1)] = 1,
    lease: Annotated[str | None, says('How long new asks are kept for you: "30m", "2h", "3d", or "none".')] = None,
    where: StudyOptions,
    output: Output = Format.TABLE,
) -> int:
    """Ask what to measure next. Your open asks come first."""
    with where.loaded() as study:
        before = {one.id for one in study.pending}
        asks = study.ask(n, worker=where.who, **({} if lease is None else {"lease": lease}))
        records = [views.ask_record(one) for one in asks]
        status = study.status
        if output is not Format.TABLE:
            document = {"study": study.name, "state": status.state, "asks": records}
            printing.write(output, document, records, titles=views.OF_ASK)
            return Code.OK
        if not asks:
            _say_why_none(study, where)
            return Code.OK
        printing.show_asks(study, asks)
        again = [one for one in asks if one.id in before]
        if again:
            which = "All of them were" if len(again) == len(asks) > 1 else "It was" if len(asks) == 1 else "Some were"
            printing.say(f"{which} asked of {where.who} before; another bench has its own name: --worker NAME.")
        mine = [one for one in study.state.open.values() if one.by == where.who]
        if len(mine) > len(asks):
            printing.say(f"{len(mine) - len(asks)} more are open: {where.next('pending', study)}")
        printing.say(f"Next: {where.next(f'tell {asks[0].id} VALUE', study)}")
    return Code.OK


def _say_why_none(study: "Study", where: StudyOptions) -> None:
    printing.say(f"Nothing to measure. {printing.standing_line(study)}")
    state = study.status.state
    if state == "withdrawn":
        printing.say("Next: look at what does not fit; no answer of this study must be used.")
    elif state == "stopped":
        printing.say(f"Next: {where.next('best', study)}, or {where.next('audit', study)} to check the model.")
    elif state == "spent":
        printing.say(f"Next: {where.next('reopen --budget MORE --reason WHY', study)}")
    else:
        printing.say(f"Others have the last asks that the budget allows: {where.next('pending', study)}")


@command
def tell(
    what: Annotated[
        str,
        typer.Argument(metavar="ASK|ARM", help="Number of the ask, or name of the arm.", autocompletion=complete_arms),
    ],
    values: Annotated[
        list[str], typer.Argument(metavar="VALUE", help="The measured value; several values are repeats.")
    ],
    *,
    arm: Annotated[bool, says("Read ASK|ARM as the name of an arm, even if the name is a number.", "--arm")] = False,
    key: Annotated[
        str | None, says("Your own name for this result; results told under the same name count once.")
    ] = None,
    yes: Annotated[bool, says("Count this as a further measurement, even if equal to the last one.", "--yes")] = False,
    where: StudyOptions,
    output: Output = Format.TABLE,
) -> int:
    """Tell a measured value. By the number of the ask, or by the name of the arm."""
    numbers = [number_of(text) for text in values]
    with where.loaded() as study:
        # An ask is 2 and never 02, which may be an arm.
        is_ask = what.isdecimal() and str(int(what)) == what and not arm
        n_before = len(study.measurements)
        if is_ask and int(what) not in study.state.attempts and what in study.state.roster.rows_by_name:
            raise InvalidInput(f"there is no ask {what}; if you mean the arm of that name, add --arm.")
        given: dict[str, Any] = {"ask": int(what)} if is_ask else {"arm": study.arm(what)}
        if not (is_ask or yes or key is not None) and not _counts_again(study, given["arm"], numbers, where.who):
            printing.say("Nothing is recorded again.")
            return Code.OK
        told = study.tell(**given, value=numbers, worker=where.who, key=key)
        state = study.state
        if output is Format.TABLE:
            for line in printing.told_words(state, told, n_before):
                printing.say(line)
            say_standing(study, where)
        else:
            records = [views.measurement_record(state, one) for one in told]
            printing.write(output, {"measurements": records, "status": study.snapshot.record()}, records)
    return Code.OK


def _counts_again(study: "Study", arm: Any, values: list[float], who: str) -> bool:
    """Return whether a result that was not asked for is new, and not the last one sent twice.

    Two equal results of one worker within a lease may be both. A person is asked; a script must say which.
    """
    from surepick.study.events import now, written  # noqa: PLC0415 (`--help` stays quick)
    from surepick.study.log import lease_length  # noqa: PLC0415

    state = study.state
    if any(one.arm == arm and one.by == who for one in state.open.values()):
        return True  # it answers an ask
    lease = lease_length(state.lease)
    since = "" if lease is None else written(now() - lease)
    last = [one for one in state.measurements if one.arm == arm and one.by == who and one.at >= since][-len(values) :]
    if [one.told for one in last] != values:
        return True
    numbers, name = ", ".join(f"{value:.12g}" for value in values), state.roster.label(arm)
    said = f"{who} told {name} = {numbers} already, {printing.when(last[0].at)} (measurement {last[0].id})"
    if not sys.stdin.isatty():
        raise InvalidInput(
            f"{said}, so it is not recorded again; if it is a further measurement, add --yes, and to send a result "
            "twice safely, give it a name by --key."
        )
    try:
        return input(shown(f"{said}. Is this a further measurement? [y/N] ")).strip().lower() in ("y", "yes")
    except EOFError:
        return False


def number_of(text: str) -> float:
    """Return the number of a text; a decimal comma is read as a point."""
    from surepick.arms.tables.sources import is_grouped, parse_number  # noqa: PLC0415

    value = parse_number(text)
    if value is not None:
        return value
    if text.startswith("--"):
        raise InvalidInput(f"there is no option {text}; see surepick tell --help.")
    if is_grouped(text) and text.count(",") == 1:
        raise InvalidInput(f"{text!r} could be {text.replace(',', '.')} or {text.replace(',', '')}; write one of them.")
    raise InvalidInput(f"a measured value must be a number, got {text!r}; write it as 0.53 or 0,53.")


def say_standing(study: "Study", where: StudyOptions) -> None:
    """Print the state of a study, and the next command once it has an answer."""
    printing.say(printing.standing_line(study))
    study.keep_summary()
    if study.stopped:
        printing.say(f"Next: {where.next('best', study)}")


@command
def fail(
    ask: Annotated[int, typer.Argument(metavar="ASK", help="Number of the ask.")],
    *,
    reason: Annotated[str, says("Why, in a few words; the log keeps it.")] = "",
    where: StudyOptions,
) -> int:
    """Give up an ask; the study asks for it again. Once you have seen a value, you must tell the value."""
    with where.loaded() as study:
        was_open = ask in study.state.open
        study.fail(ask, reason=reason, worker=where.who)
        name = study.state.roster.label(study.state.attempts[ask].arm)
        again = "is given up; it will be asked for again" if was_open else "was given up before: nothing changed"
        printing.say(f"Ask {ask} ({name}) {again}.")
    return Code.OK


@command
def pending(*, where: StudyOptions, output: Output = Format.TABLE) -> int:
    """List the open asks and their workers."""
    with where.loaded() as study:
        asks, state = study.pending, study.state
        if output is not Format.TABLE:
            of_asks = [state.attempts[one.id] for one in asks]
            printing.write(
                output,
                [
                    {**views.ask_record(one), "worker": by.by, "asked_at": by.at}
                    for one, by in zip(asks, of_asks, strict=True)
                ],
                titles=(*views.OF_ASK, "worker", "asked_at"),
            )
        elif asks:
            printing.show_asks(study, asks, of_others=True)
        else:
            asks_more = study.state.can_ask
            printing.say(f"No ask is open.{' Next: ' + where.next('ask', study) if asks_more else ''}")
    return Code.OK
