"""The command line: thin commands that read options, call the layers below and return an exit code."""

import re
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from surepick._version import __version__
from surepick.cli import serve
from surepick.cli.hints import needed_arguments
from surepick.cli.options import (
    ARM_FILES,
    OF_FILES,
    ExperimentOptions,
    LearnerOptions,
    Output,
    PlanOptions,
    SetOptions,
    TableOptions,
    grouped,
    one_set,
    option_names,
    pulls_or_auto,
    refuse,
    says,
)
from surepick.cli.output import Code, Format, check_targets, one_line_warnings, print_error
from surepick.cli.studies import COMMANDS as OF_STUDIES
from surepick.cli.studies import TITLE, StudyOptions, add_to
from surepick.errors import BadLines, InvalidInput, SurepickError

INTERRUPTED = 130
"""Exit code of typer after a Ctrl-C that no command has handled."""

OWN = (
    *("--pull", "--audit", "--history", "--log", "--save", "--report"),
    *(name for name in option_names(LearnerOptions) if name not in ("--delta", "--seed")),
    *option_names(TableOptions),
)
OF_PLANS = (*option_names(PlanOptions), *option_names(TableOptions), "--out")
OF_DEMONSTRATION = ("--runs", "--jobs", "--out")


class Sections(TyperGroup):
    """The list of commands in the help, in two sections: general commands, and commands of studies."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the sections."""
        rows = [(name, command.get_short_help_str(62)) for name, command in self.commands.items()]
        for title, is_of_studies in (("Commands", False), (TITLE, True)):
            with formatter.section(title):
                formatter.write_dl([row for row in rows if (row[0] in OF_STUDIES) is is_of_studies])


app = typer.Typer(
    name="surepick",
    cls=Sections,
    help="Find the best of many options from noisy, costly measurements, with a guarantee.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


_BAD_VALUE = re.compile(r"Invalid value for '(?P<what>[^']+)': (?P<why>.*)", re.DOTALL)
_LISTED = {"MEASUREMENT": "surepick measurements", "ASK": "surepick pending"}
"""Arguments that are numbers which surepick gave, and the commands that list these."""
_CHOICES = re.compile(r"(?:Value error, )?(?P<got>'.*?') is not one of (?P<choices>.*)", re.DOTALL)


def _in_own_words(said: str, arguments: Sequence[str]) -> str:
    """Return what was needed and what came, where the parser of options says only that a value is wrong."""
    found = _BAD_VALUE.fullmatch(said)
    if found is None:
        return said
    what, why = found["what"], found["why"]
    if (chosen := _CHOICES.fullmatch(why)) is not None:
        return f"{what} must be one of {chosen['choices']}, got {chosen['got']}"
    if "valid number" not in why and "valid integer" not in why:
        return said
    if what in _LISTED:
        return f"{what} must be a number, as {_LISTED[what]} lists it"
    values = [after for before, after in pairwise(arguments) if before == what]
    values += [text.partition("=")[2] for text in arguments if text.startswith(f"{what}=")]
    got = f", got {values[-1]!r}" if values else ""
    needed = "a number with a decimal point, such as 0.05" if "number" in why else "a whole number"
    return f"{what} must be {needed}{got}"


def main(arguments: Sequence[str]) -> int:
    """Run a command line; every error is one line on standard error, or one for each bad line of a file."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a name the terminal cannot show must not end a session
    try:
        with one_line_warnings():
            code = app(list(arguments) or ["--help"], standalone_mode=False, prog_name="surepick")
    except typer.TyperException as error:
        said, context = _in_own_words(error.format_message().rstrip("."), arguments), getattr(error, "ctx", None)
        command = "surepick" if context is None else context.command_path
        if hasattr(error, "possibilities") and (needed := needed_arguments(context)):  # an option that there is not
            said = f"{said.rstrip('?')}; write {command} {needed}"
        print_error(said if said.endswith("?") else f"{said}; see {command} --help")
        return error.exit_code
    except (SurepickError, OSError) as error:
        # Experiments have their options in files, under the names of Python.
        lines = [str(error)]
        if isinstance(error, BadLines) and len(error.problems) > 1:
            lines = [f"{error.title}: nothing is recorded.", *error.problems]
        print_error(*lines, is_of_file=arguments[0] in ("bench", "reproduce"))
        return Code.MISUSE if isinstance(error, InvalidInput) else Code.FAILURE
    if code == INTERRUPTED:
        print_error("interrupted")
        return Code.NOT_STOPPED
    return int(code or 0)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 (how typer calls it)
    if wanted:
        typer.echo(f"surepick {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
@grouped
def run(  # noqa: PLR0913 (every argument is an option of its own)
    context: typer.Context,
    *,
    arms: Annotated[Path | None, says(f"Your arms: a {ARM_FILES}. Without arms, the demonstration runs.")] = None,
    sets: SetOptions,
    pull: Annotated[
        str | None,
        says(
            'Command that measures, as "cmd {arm}" or "cmd {index}". The command prints one number; no output, or '
            "exit code 75, skips the measurement. Default: you enter each value."
        ),
    ] = None,
    learner: LearnerOptions,
    audit: Annotated[
        str | None, says('Check pulls of the model after the verdict: a number, or "auto" for as many as needed.')
    ] = None,
    max_pulls: Annotated[int | None, says("Stop measuring after this many pulls (default: never).")] = None,
    table: TableOptions,
    history: Annotated[Path | None, says("Earlier measurements: a file with the columns arm and reward.")] = None,
    log: Annotated[
        Path | None,
        says("Keep the run as a study in this file, such as log.db; the same command then resumes the run."),
    ] = None,
    save: Annotated[Path | None, says("Write the result to this .json file.")] = None,
    report: Annotated[Path | None, says("Write a page about the result to this .html file.")] = None,
    runs: Annotated[int | None, says("Demonstration: runs for each number of arms.")] = None,
    jobs: Annotated[int | None, says("Demonstration: number of processes; -1 starts one per core.")] = None,
    out: Annotated[Path | None, says("Demonstration: folder of runs and plots (default out).")] = None,
    output: Output = Format.TABLE,
) -> int:
    """Find the best of your arms. Without arms, show a demonstration: the many-arms problem of the paper."""
    chosen = one_set(arms, sets)
    if chosen is None:
        refuse(context, OWN, "needs your arms; add --arms FILE")
        from surepick.cli.reproduce import demonstrate  # noqa: PLC0415 (`--help` stays quick)

        kept: dict[str, Any] = {"delta": learner.delta, "seed": learner.seed, "max_pulls": max_pulls}
        return demonstrate(**kept, runs=runs, jobs=jobs, out=out or Path("out"), output=output)
    refuse(context, OF_DEMONSTRATION, "belongs to the demonstration; leave out --arms to see it")
    from surepick.cli.arm_files import arms_and_settings  # noqa: PLC0415 (`--help` stays quick)
    from surepick.cli.run import Request, run_session  # noqa: PLC0415

    written = {"--save": save, "--report": report, "--log": log}
    check_targets(written, {"--history": history, "--arms": arms, **sets.files()})
    if report is not None:
        from surepick.reporting.html import check_ready  # noqa: PLC0415

        check_ready()
    if arms is None:
        refuse(context, OF_FILES, f"belongs to a file of arms, got {chosen[0]}")
    own, settings = arms_and_settings(*chosen, table, learner)
    checks = 0 if audit is None else pulls_or_auto(audit)
    files = {"history": history, "log": log, "save": save, "report": report}
    return run_session(Request(own, settings, pull=pull, audit=checks, max_pulls=max_pulls, output=output, **files))


@app.command("plan")
@grouped
def plan_command(
    context: typer.Context,
    arms: Annotated[
        Path | None, typer.Argument(help=f"Your arms: a {ARM_FILES}. Without arms: the pulls left in a study.")
    ] = None,
    *,
    where: StudyOptions,
    options: PlanOptions,
    table: TableOptions,
    out: Annotated[Path | None, says("Write a plot to this file: .png, .svg or .pdf.")] = None,
    output: Output = Format.TABLE,
) -> int:
    """Estimate how many pulls an experiment needs. Without arms: how many a study still needs."""
    if arms is None:
        refuse(context, OF_PLANS, "belongs to a file of arms; name it, or leave the option out for a study")
        from surepick.cli.studies.inspect import left  # noqa: PLC0415 (beside the other way)

        return left(where, output)
    if getattr(context.get_parameter_source("study"), "name", "") == "COMMANDLINE":
        raise InvalidInput(f"--study names a study, and {arms} arms for a new one; leave out one of them.")
    from surepick.cli.plan import plan_experiment  # noqa: PLC0415 (`--help` stays quick)

    return plan_experiment(arms, options, table, out=out, output=output)


@app.command()
def noise(
    replicates: Annotated[Path, typer.Argument(help="A .csv with a column of options and one of values.")],
    *,
    option_column: Annotated[str | None, says("Column of the options (default: option, arm, name or id).")] = None,
    value_column: Annotated[str | None, says("Column of the values (default: value, reward, result or y).")] = None,
    confidence: Annotated[float, says("Confidence of the intervals.")] = 0.95,
    output: Output = Format.TABLE,
) -> int:
    """Estimate the noise of a measurement. The file has options that were measured more than once."""
    from surepick.cli.plan import estimate_noise  # noqa: PLC0415 (`--help` stays quick)

    return estimate_noise(
        replicates, option_column=option_column, value_column=value_column, confidence=confidence, output=output
    )


@app.command()
@grouped
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Experiments, see --list; default: all of them.")
    ] = None,
    *,
    options: ExperimentOptions,
    show: Annotated[bool, says("List the experiments.", "--list")] = False,
) -> int:
    """Repeat the experiments of the paper and more. After an interruption, the same command resumes."""
    from surepick.cli import reproduce as experiments  # noqa: PLC0415 (`--help` stays quick)

    return experiments.list_experiments() if show else experiments.reproduce(names or [], options)


bench = typer.Typer(help="Your own experiments: run, report, compare.", rich_markup_mode=None)
app.add_typer(bench, name="bench")


@bench.command("run")
@grouped
def bench_run(
    files: Annotated[list[Path], typer.Argument(metavar="FILE.toml...", help="Experiments.")],
    *,
    options: ExperimentOptions,
) -> int:
    """Run the experiments of some files. After an interruption, the same command resumes."""
    from surepick.cli.reproduce import run_files  # noqa: PLC0415 (`--help` stays quick)

    return run_files(files, options)


@bench.command("report")
def bench_report(
    folder: Annotated[Path, typer.Argument(help="Folder of results, or a folder of such folders.")],
    *,
    latex: Annotated[bool, typer.Option("--latex", help="Write report.tex and PDF figures for a paper too.")] = False,
) -> int:
    """Write the report of finished runs."""
    from surepick.cli.reproduce import bench_report as report_on  # noqa: PLC0415 (`--help` stays quick)

    return report_on(folder, latex=latex)


@bench.command("compare")
def bench_compare(
    first: Annotated[Path, typer.Argument(metavar="A.parquet", help="Runs.")],
    second: Annotated[
        Path, typer.Argument(metavar="B.parquet", help="Runs of the same experiment, for example with new code.")
    ],
    *,
    output: Output = Format.TABLE,
) -> int:
    """Compare two tables of runs. Exit code 1 if noise does not explain a change."""
    from surepick.cli.reproduce import compare_tables  # noqa: PLC0415 (`--help` stays quick)

    return compare_tables(first, second, output)


add_to(app)
serve.add_to(app)
