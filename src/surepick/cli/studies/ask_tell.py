"""Commands that create and measure a study: create, ask, tell, fail, pending."""

import json
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from enum import StrEnum
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
from surepick.cli.output import Code, Format, check_targets, print_error, print_roles, results
from surepick.cli.studies import (
    GroupOptions,
    Groups,
    StorageOptions,
    StudyOptions,
    command,
    group_flags,
    group_of,
    printing,
)
from surepick.errors import EntryWarning, InvalidInput, SurepickError, listed
from surepick.reporting.study_words import (
    IF_SLIP,
    MISTYPED,
    NOT_USABLE,
    failed_words,
    own_means,
    told_words,
    typed_number,
    when,
)
from surepick.study import views

if TYPE_CHECKING:
    from surepick.learning.questions import Question
    from surepick.study.state import Measurement
    from surepick.study.study import Study, StudyAsk


IN_STUDY_FILE = (
    *option_names(SetOptions),
    *option_names(LearnerOptions),
    *option_names(TableOptions),
    "--lease",
    "--group-by",
)


class Factor(StrEnum):
    """What a study labels values with by itself."""

    WORKER = "worker"


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
    group_by: Annotated[
        Factor | None,
        says("Label every value with the worker who tells it. surepick then sees a bench that reads high."),
    ] = None,
) -> int:
    """Create a study from a file of arms. The study lives in one file, for several people and many days."""
    if file is not None:
        if arms is not None:
            raise InvalidInput(f'--file and {arms} say both which arms; write arms = "{arms}" into {file}.')
        refuse(context, IN_STUDY_FILE, f"belongs into {file} beside the rest")
        wanted = _read_study_file(file)
        source, value, table, learner = wanted.source, wanted.value, wanted.table, wanted.learner
        name, lease, group_by = name or wanted.name, wanted.lease, wanted.group_by
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
                go_on = place.command("ask", storage, name)
                is_new = any(one.name == name and one.n_events == 1 for one in storage.summaries())
                anew = f", begin anew ({place.command(shlex.join(['delete', name]), storage, name)})" if is_new else ""
                raise InvalidInput(
                    f"there is a study {name!r} in {storage.address} already, with its arms as they were; go on with "
                    f"it ({go_on}){anew}, or choose another --name."
                )
    own, settings = arms_and_settings(source, value, table, learner)
    # By its address: what is refused makes no file.
    kept: Any = {"storage": place.address, "lease": lease, "author": place.who, "group_by": group_by}
    study = create_study(name, arms=own.arms, **settings, **kept)
    with closing(study.storage) as storage:
        print_roles(results(), f"arms: {own.describe(settings['model'])}")
        printing.say(f"Study {name} is in {storage.address}: {printing.aim_words(study)}.")
        printing.say(printing.registration_words(study))
        printing.say(f"Next: {place.command(shlex.join(['ask', *group_flags(study)]), storage, name)}")
    return Code.OK


def _read_study_file(path: Path) -> Any:
    try:
        from surepick.cli.studies.study_file import read_study_file  # noqa: PLC0415 (loads pydantic)
    except ModuleNotFoundError as error:
        raise SurepickError(
            f"a study.toml needs {error.name}, which is not installed; pip install 'surepick[study]'."
        ) from error
    return read_study_file(path)


class AskFormat(StrEnum):
    """Form of asks."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    XLSX = "xlsx"


@command
def ask(
    *,
    n: Annotated[int, says("How many measurements to ask for.", "-n", min=1)] = 1,
    lease: Annotated[str | None, says('How long new asks are kept for you: "30m", "2h", "3d", or "none".')] = None,
    sheet: Annotated[
        Path | None,
        says("Write a sheet to fill in to this .csv or .xlsx file; surepick tell --file reads it.", "--output"),
    ] = None,
    group: Groups = None,
    where: StudyOptions,
    output: Annotated[
        AskFormat, says("Form of the output; csv and xlsx are sheets to fill in.", "--format")
    ] = AskFormat.TABLE,
) -> int:
    """Ask what to measure next. Your open asks come first."""
    _check_sheet(sheet, output, where)
    label = group_of(group)
    with where.loaded() as study:
        if sheet is not None:
            from surepick.study.exchange import check_replaceable  # noqa: PLC0415 (`--help` stays quick)

            check_replaceable(study.state, sheet)
        before = {one.id for one in study.pending}
        asks = study.ask(n, worker=where.who, group=label, **({} if lease is None else {"lease": lease}))
        if sheet is None and output is not AskFormat.TABLE:
            _write_asks(study, asks, output)
            return Code.OK
        if not asks:
            _say_why_none(study, where)
            return Code.OK
        say_if_withdrawn(study, where)
        if sheet is not None:
            _say_sheet(study, asks, sheet, where)
            return Code.OK
        printing.show_asks(study, asks)
        again = [one for one in asks if one.id in before]
        if again:
            which = "All of them were" if len(again) == len(asks) > 1 else "It was" if len(asks) == 1 else "Some were"
            printing.say(f"{which} asked of {where.who} before; another bench has its own name: --worker NAME.")
        mine = [one for one in study.state.open.values() if one.by == where.who]
        if len(mine) > len(asks):
            n = len(mine) - len(asks)
            printing.say(f"{n} more {'is' if n == 1 else 'are'} open: {where.next('pending', study)}")
        _say_next(study, asks, f"tell {asks[0].id} VALUE", where)
    return Code.OK


def _check_sheet(sheet: Path | None, output: AskFormat, where: StudyOptions) -> None:
    if sheet is None and output is AskFormat.XLSX:
        raise InvalidInput("--format xlsx needs a file; add --output asks.xlsx.")
    if sheet is None:
        return
    check_targets({"--output": sheet}, {"--storage": where.file})
    wanted = ".csv or .xlsx" if output is AskFormat.TABLE else f".{output.value}"
    if output is AskFormat.JSON or sheet.suffix.lower() not in wanted.split(" or "):
        raise InvalidInput(f"--output must be a {wanted} file, got {sheet}; a sheet is --format csv or xlsx.")


def _write_asks(study: "Study", asks: "Sequence[StudyAsk]", output: AskFormat) -> None:
    """Write asks to standard output, for a program or as a sheet."""
    if output is AskFormat.JSON:
        records = [views.ask_record(one) for one in asks]
        printing.write(Format.JSON, {"study": study.name, "state": study.status.state, "asks": records})
        return
    from surepick.study.exchange import sheet_text  # noqa: PLC0415 (`--help` stays quick)

    text = sheet_text(asks)
    sys.stdout.write(shown(text, keeps_lines=True) if sys.stdout.isatty() else text)


def _say_sheet(study: "Study", asks: "Sequence[StudyAsk]", sheet: Path, where: StudyOptions) -> None:
    from surepick.study.exchange import write_sheet  # noqa: PLC0415 (`--help` stays quick)

    write_sheet(asks, sheet, has_commas=study.state.catalog.has_decimal_commas)
    n = len(asks)
    printing.say(f"{n} ask{'' if n == 1 else 's'} in {sheet}: fill in the column value, and leave the column ask.")
    printing.say_order(study)
    _say_next(study, asks, shlex.join(["tell", "--file", str(sheet)]), where)


def _say_next(study: "Study", asks: "Sequence[StudyAsk]", words: str, where: StudyOptions) -> None:
    """Say how to tell the values of these asks, with their label if they need one and have none."""
    ids, state = {one.id for one in asks}, study.state
    labels = [*(one.group for one in state.attempts.values() if one.id not in ids)]
    labels += [one.group for one in state.measurements]
    known = {factor for label in labels for factor, _ in label}
    if known and (new := {factor for one in asks for factor in one.group} - known):
        slip = where.next(f"fail {' '.join(map(str, ids))} --reason mistyped", study)
        printing.say(
            f"Labels so far have {listed(sorted(known))}, and {listed(sorted(new))} is new. If that is a slip: {slip}"
        )
    flags = [] if all(one.group for one in asks) else group_flags(study)
    if flags:
        printing.say(
            "Some of these asks do not say where or when they are measured, which --groups offset needs with each "
            "value. Say it with the next asks: pairs of arms then stay in one group."
        )
    printing.say(f"Next: {where.next(' '.join([words, *flags]), study)}")


def _say_why_none(study: "Study", where: StudyOptions) -> None:
    printing.say(f"Nothing to measure. {printing.standing_line(study)}")
    if n := len(study.state.open):
        printing.say(f"{n} {'ask is' if n == 1 else 'asks are'} open: {where.next('pending', study)}")
    if study.status.state == "stopped":
        printing.say(f"Next: {where.next('best', study)}, or {where.next('audit', study)} to check the model.")
    else:
        say_how_on(study, where)


@command
def tell(  # noqa: PLR0913 (every argument is an option of its own)
    what: Annotated[
        str | None,
        typer.Argument(metavar="ASK|ARM", help="Number of the ask, or name of the arm.", autocompletion=complete_arms),
    ] = None,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="VALUE", help="The measured value; several values are repeats.")
    ] = None,
    *,
    file: Annotated[
        Path | None, says("Tell the values of a sheet that surepick ask --output wrote, all or none.", "--file")
    ] = None,
    arm: Annotated[bool, says("Read ASK|ARM as the name of an arm, even if the name is a number.", "--arm")] = False,
    key: Annotated[
        str | None, says("Your own name for this result; results told under the same name count once.")
    ] = None,
    yes: Annotated[
        bool, says("Record without a question: a value equal to the last one, or far from the others.", "--yes")
    ] = False,
    groups: GroupOptions,
    where: StudyOptions,
    output: Output = Format.TABLE,
) -> int:
    """Tell a measured value. By the number of the ask, by the name of the arm, or a whole sheet by --file."""
    if file is not None:
        if what is not None or key is not None:
            raise InvalidInput("--file has all values; leave out ASK, VALUE and --key.")
        return _tell_file(file, groups, where, output, yes=yes)
    if groups.group_column:
        raise InvalidInput("--group-column is the title of a column of --file; a single value has --group.")
    label = group_of(groups.group)
    if what is None or not values:
        raise InvalidInput("tell needs an ask or an arm and its value, as in surepick tell 2 53.41; or --file.")
    numbers = [number_of(text) for text in values]
    with where.loaded() as study:
        # An ask is 2 and never 02, which may be an arm.
        is_ask = what.isdecimal() and str(int(what)) == what and not arm
        n_before = len(study.measurements)
        if is_ask and int(what) not in study.state.attempts and what in study.state.catalog.rows_by_name:
            raise InvalidInput(f"there is no ask {what}; if you mean the arm of that name, add --arm.")
        given: dict[str, Any] = {"ask": int(what)} if is_ask else {"arm": study.arm(what)}
        if is_ask and not yes:
            _check_repeats(study, what, values)
        if not (is_ask or yes or key is not None) and not _counts_again(study, given["arm"], numbers, where.who):
            printing.say("Nothing is recorded again.")
            return Code.OK
        with no_entry_warnings():
            told = study.tell(**given, value=numbers, worker=where.who, key=key, group=label, questions=False)
        _say_told(study, told, n_before, where, output, asks=not yes)
    return Code.OK


def _tell_file(file: Path, groups: GroupOptions, where: StudyOptions, output: Format, *, yes: bool) -> int:
    with where.loaded() as study:
        n_before = len(study.measurements)
        groups = with_columns(study, file, groups, asks=not yes and output is Format.TABLE)
        with no_entry_warnings():
            told = study.tell_file(file, worker=where.who, **groups.of_file, questions=False)
        if told or output is not Format.TABLE:
            _say_told(study, told, n_before, where, output, asks=not yes)
            _say_missing(study, file, where, output)
        elif changed := _changed_columns(study, file):
            raise InvalidInput(
                f"{file} has no value in the column value, but other cells were filled in or changed, in {changed}; "
                "write measured values into the column value. Nothing is recorded."
            )
        else:
            printing.say(f"{file} has no value yet; fill in the column value.")
    return Code.OK


def _say_missing(study: "Study", file: Path, where: StudyOptions, output: Format) -> None:
    """Say which asks of a sheet have no value yet, and what to do if a sample is lost."""
    from surepick.arms.tables.sources import open_table  # noqa: PLC0415 (`--help` stays quick)
    from surepick.study.exchange import asks_in  # noqa: PLC0415

    if output is not Format.TABLE or study.stopped:
        return
    if left := [one.id for one in asks_in(study.state, open_table(file)) if one.id in study.state.open]:
        numbers, lost = listed([f"ask {one}" for one in left]), where.next(f"fail {left[0]} --reason WHY", study)
        printing.say(f"No value yet for {numbers}. If a sample is lost: {lost}")


def _changed_columns(study: "Study", file: Path) -> str:
    """Return the columns of a sheet, beside value and comment, that differ from what was asked; "" if none does."""
    from surepick.arms.tables.sources import open_table  # noqa: PLC0415 (`--help` stays quick)
    from surepick.study.exchange import changed_columns  # noqa: PLC0415

    return listed(found) if (found := changed_columns(study.state, open_table(file))) else ""


def with_columns(study: "Study", file: Path, groups: GroupOptions, *, asks: bool) -> GroupOptions:
    """Ask whether columns that look like labels are labels; without a terminal say how to read them."""
    from surepick.arms.tables.sources import open_table  # noqa: PLC0415 (`--help` stays quick)
    from surepick.study.exchange import unread_columns, unread_words  # noqa: PLC0415

    named = groups.group_column or []
    if not (unread := unread_columns(study.state, open_table(file), named)):
        return groups
    if not asks or not sys.stdin.isatty():
        print_error(unread_words(unread, shlex.join([word for one in unread for word in ("--group-column", one)])))
        return groups
    question = "Does the column {} of the sheet say where or when a value was measured? [y/N] "
    chosen = [title for title in unread if _is_yes(question.format(title))]
    return replace(groups, group_column=[*named, *chosen])


def _is_yes(question: str) -> bool:
    return _typed(question).lower() in ("y", "yes")


def _typed(question: str) -> str:
    """Return what a person types; "" at the end of the input."""
    try:
        return input(shown(question)).strip()
    except EOFError:
        return ""


def _say_told(
    study: "Study", told: "Sequence[Measurement]", n_before: int, where: StudyOptions, output: Format, *, asks: bool
) -> None:
    """Print results that were told, the questions that they raise, and the state of the study."""
    from surepick.learning.questions import binary_words  # noqa: PLC0415 (`--help` stays quick)
    from surepick.study.requests import turned_binary  # noqa: PLC0415

    if output is Format.TABLE:
        for line in told_words(study.state, told, n_before):
            printing.say(line)
    if asks:
        ask_about(study, [one.id for one in told if one.id > n_before], where, is_silent=output is not Format.TABLE)
    if turned_binary(study.state, n_before):
        print_error(binary_words(f"--binary in a study of its own. {' '.join(_again(study, where, '--binary'))}"))
    if output is Format.TABLE:
        say_standing(study, where)
        return
    records = [views.measurement_record(study.state, one) for one in told]
    printing.write(output, {"measurements": records, "status": study.snapshot.record()}, views.table_of(records))


def ask_about(study: "Study", ids: Sequence[int], where: StudyOptions, *, is_silent: bool) -> None:
    """Ask about values that stand far apart; without a terminal print the questions. Values stay by default.

    Args:
        study: which has the values.
        ids: of measurements.
        where: of the command.
        is_silent: whether a program reads the output.
    """
    found = [(id_, one) for id_ in ids if (one := study.question(id_)) is not None]
    for id_, one in found[:MOST_QUESTIONS]:
        if is_silent or not sys.stdin.isatty():
            print_error(one.words(where.next(f"correct {id_} {one.right} --reason mistyped", study)))
        elif (value := asked_again(one, lambda text: input(shown(text)))) is not None:
            study.correct(id_, value, reason=MISTYPED, worker=where.who)
            printing.say(f"Corrected: measurement {id_} is {value:.12g}, not {one.value:.12g}.")
    if len(found) > MOST_QUESTIONS:
        rest = ", ".join(str(id_) for id_, _ in found[MOST_QUESTIONS:])
        print_error(f"Far from the others as well: measurement {rest}; compare them with your notes.")


MOST_QUESTIONS = 5
"""Questions about the values of one command."""


def asked_again(found: "Question", ask_: Callable[[str], str]) -> float | None:
    """Ask for the value in the notes; return it if it is another than was told. The end of input keeps the value."""
    said = found.prompt
    while True:
        try:
            answer = ask_(said).strip()
        except EOFError:
            return None
        if answer.lower() in ("y", "yes") and found.repair is not None:
            return found.repair
        if answer.lower() in ("", "n", "no", "q"):
            return None
        try:
            value = number_of(answer)
        except InvalidInput as error:
            said = f"{error} -> "
            continue
        return None if value == found.value else value


@contextmanager
def no_entry_warnings() -> Iterator[None]:
    """Keep questions about values from being warnings, where they are asked in the words of the command line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EntryWarning)
        yield


def _check_repeats(study: "Study", what: str, values: list[str]) -> None:
    """Refuse values among which there are numbers of asks: tell 2 53,41 3 64,98 is no list of repeats."""
    others, asks = values[::2], values[1::2]
    known = study.state.attempts
    are_asks = bool(asks) and all(text.isdecimal() and int(text) in known and text != what for text in asks)
    if are_asks and (len(others) > len(asks) or any(mark in text for text in others for mark in ",.")):
        raise InvalidInput(
            f"{' '.join(values)} could be repeats of ask {what}, or values of ask {what} and ask {', '.join(asks)}; "
            "tell one ask at a time or all by --file, and add --yes if these are repeats."
        )


# ---- withdrawn


def say_if_withdrawn(study: "Study", where: StudyOptions) -> None:
    """Say why the answer of a study is withdrawn and what to do, if it is."""
    if study.status.state == "withdrawn":
        printing.say(printing.standing_line(study))
        say_how_on(study, where)


def say_how_on(study: "Study", where: StudyOptions) -> None:
    """Say how to go on in a study that has no answer."""
    for line in how_on(study, where):
        printing.say(line)


def how_on(study: "Study", where: StudyOptions) -> Iterator[str]:
    """Yield how to go on in a study that has no answer, with the commands."""
    if study.status.state == "withdrawn":
        yield from _after_withdrawal(study, where)
    elif study.status.state == "spent":
        more = "--budget" if study.learner.spec.rounds is None else "--rounds"
        yield f"Next: {where.next(f'reopen {more} MORE --reason WHY', study)}"
    elif study.state.can_ask:
        yield f"Next: {where.next('ask', study)}"
    else:
        yield f"Others have the last asks that the budget allows: {where.next('pending', study)}"


def _after_withdrawal(study: "Study", where: StudyOptions) -> Iterator[str]:
    """Yield what to do, with the commands; and what the data say without the model."""
    from surepick.learning.explain import looks_pass_fail  # noqa: PLC0415 (`--help` stays quick)
    from surepick.learning.model import IF_GROUP  # noqa: PLC0415

    learner, result = study.learner, study.result()
    if result.misfit.endswith(IF_GROUP):
        yield "Go on in this study with an offset for every group; the results so far guide the plan:"
        yield f"  {where.next('reopen --groups offset --reason WHY', study)}"
        return
    if result.repeated or learner.model != "linear" or not study.state.catalog.is_enumerable:
        yield "Next: follow the advice above. Do not use any answer of this study."
        return
    is_binary = looks_pass_fail(result)
    yield IF_SLIP if learner.state.settled.model.has_slip and not is_binary else NOT_USABLE
    if is_binary:
        for line in _again(study, where, "--binary"):
            yield f"  {line}"
        return
    learnt = ", and a noise that is learnt" if result.noise_contradicted else ""
    yield f"With products of columns{learnt}, if two columns act together:"
    for line in _again(study, where, "--interactions", without=("noise_std",) if learnt else ()):
        yield f"  {line}"
    yield "Without a model, one mean for each arm: the same with --model unstructured for --interactions."
    yield "A middle way: --misfit SIZE allows every mean to be off its linear fit by SIZE."
    if means := own_means(study.state):
        yield f"Estimate, not a guarantee: by their own means, without the model, {means}."


def _again(study: "Study", where: StudyOptions, option: str, *, without: Sequence[str] = ()) -> list[str]:
    """Return the commands that begin a study with an option more and some less, guided by the results of this one."""
    name, results_file = f"{study.name}-2", "results.csv"
    given = shlex.join(["create", "ARMS", "--name", name, *_flags(study, without), option])
    return [
        where.next(f"export {results_file} --what measurements", study),
        where.command(given, study.storage, name).partition(" --study ")[0],
        where.command(f"import {results_file}", study.storage, name),
    ]


def _flags(study: "Study", without: Sequence[str]) -> list[str]:
    """Return the flags of the options that a study has, where one says them."""
    from surepick.learning.spec import DEFAULTS, OPTIONS  # noqa: PLC0415 (`--help` stays quick)

    # Results that were looked at are guidance, and the model is what changes.
    others = ("model", "misfit", "rewards", "noise", "costs", "earlier", *without)
    flags = []
    for name, option in OPTIONS.items():
        value = study.state.options.get(name, DEFAULTS[name])
        if value == DEFAULTS[name] or name in others or (name == "noise_std" and isinstance(value, list)):
            continue
        entries = [f"{one:.12g}" if isinstance(one, float) else str(one) for one in _entries(value)]
        flags += [f"--{(option.flag or name).replace('_', '-')}", *entries]
    return [*flags, *(f"--option={name}={value}" for name, value in study.state.options["own"].items())]


def _entries(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


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
    numbers, name = ", ".join(f"{value:.12g}" for value in values), state.catalog.label(arm)
    said = f"{who} told {name} = {numbers} already, {when(last[0].at)} (measurement {last[0].id})"
    if not sys.stdin.isatty():
        raise InvalidInput(
            f"{said}, so it is not recorded again; if it is a further measurement, add --yes, and to send a result "
            "twice safely, give it a name by --key."
        )
    return _is_yes(f"{said}. Is this a further measurement? [y/N] ")


def number_of(text: str) -> float:
    """Return the number of a text; a decimal comma is read as a point."""
    if text.startswith("--"):
        raise InvalidInput(f"there is no option {text}; see surepick tell --help.")
    return typed_number(text)


def say_standing(study: "Study", where: StudyOptions) -> None:
    """Print the state of a study, and the next command once it has an answer."""
    for line in (printing.standing_line(study), *printing.waiting_lines(study)):
        printing.say(line)
    study.keep_summary()
    if study.stopped:
        printing.say(f"Next: {where.next('best', study)}")


@command
def fail(
    asks: Annotated[list[int], typer.Argument(metavar="ASK", help="Numbers of asks.")],
    *,
    reason: Annotated[str, says("The reason, in a few words; the log keeps it.")] = "",
    where: StudyOptions,
) -> int:
    """Give up asks; the study asks for them again. Once you have seen a value, you must tell the value."""
    from surepick.study.requests import find_untold  # noqa: PLC0415 (`--help` stays quick)

    with where.loaded() as study:
        for ask in asks:  # all or none
            find_untold(study.state, ask)
        were_open = {ask for ask in asks if ask in study.state.open}
        if were_open and not reason and sys.stdin.isatty():
            reason = _typed("Why is it given up? The log keeps the reason, and certificates show it: ")
        for ask in dict.fromkeys(asks):
            study.fail(ask, reason=reason, worker=where.who)
            printing.say(failed_words(study.state, ask, was_open=ask in were_open))
        if were_open and not reason:
            printing.say("The log has no reason, and a certificate says so. Next time give a reason by --reason.")
    return Code.OK


@command
def pending(*, where: StudyOptions, output: Output = Format.TABLE) -> int:
    """List the open asks and their workers."""
    with where.loaded() as study:
        asks, state = study.pending, study.state
        if output is not Format.TABLE:
            of_asks = [state.attempts[one.id] for one in asks]
            records = [
                {**views.ask_record(one), "worker": by.by, "asked_at": by.at}
                for one, by in zip(asks, of_asks, strict=True)
            ]
            more = ["group"] if any(one.group for one in asks) else []
            titles = [*views.OF_ASK, "worker", "asked_at", *more]
            rows = [{title: record.get(title, {}) for title in titles} for record in records]
            printing.write(output, records, rows, titles=titles)
        elif asks:
            printing.show_asks(study, asks, of_others=True)
        else:
            asks_more = study.state.can_ask
            printing.say(f"No ask is open.{' Next: ' + where.next('ask', study) if asks_more else ''}")
    return Code.OK
