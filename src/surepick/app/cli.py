"""The command line: thin commands that read options, call the layers below and return an exit code."""

import ast
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from surepick._version import __version__
from surepick.app.console import Code, Format, Model, Noise, print_error
from surepick.errors import InvalidInput, SurepickError

INTERRUPTED = 130
"""What typer makes of a Ctrl-C that no command has handled."""

OF_FILES = (
    *("--name-column", "--features", "--drop", "--interactions", "--quadratic", "--formula", "--intercept"),
    *("--on-span", "--sheet", "--costs"),
)
OWN = (
    *("--pull", "--noise-std", "--noise", "--reward-range", "--binary", "--epsilon", "--misfit", "--model", "--audit"),
    *("--m", "--budget", "--algorithm", "--stopping", "--option"),
    *OF_FILES,
    *("--history", "--log", "--save", "--report"),
)
OF_DEMONSTRATION = ("--runs", "--jobs", "--out")

app = typer.Typer(
    name="surepick",
    help="Find the best of many options from noisy, costly measurements, with a guarantee.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _says(text: str, *names: str) -> Any:
    """An option with its help; its name is that of the argument, unless given."""
    return typer.Option(*names, help=text)


def main(arguments: Sequence[str]) -> int:
    """Run a command line; every error is one line on standard error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a name the terminal cannot show must not end a session
    try:
        code = app(list(arguments) or ["--help"], standalone_mode=False, prog_name="surepick")
    except typer.TyperException as error:
        print_error(f"{error.format_message().rstrip('.')}; see surepick --help")
        return error.exit_code
    except InvalidInput as error:
        print_error(str(error))
        return Code.MISUSE
    except (SurepickError, OSError) as error:
        print_error(str(error))
        return Code.FAILURE
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


_NameColumn = Annotated[str | None, _says("Column with the arms' names.")]
_Features = Annotated[str | None, _says("Columns to use as features, and no others: temp,time.")]
_Drop = Annotated[str | None, _says("Columns not to use: remarks,date.")]
_Interactions = Annotated[bool, _says("Add the product of any two columns.", "--interactions")]
_Quadratic = Annotated[bool, _says("Add the square of every column of numbers.", "--quadratic")]
_Formula = Annotated[str | None, _says('Features by a Wilkinson formula instead: "temp * catalyst + C(solvent)".')]
_Intercept = Annotated[
    bool | None,
    _says(
        "Put a constant feature in front, or do not. Default: in front of a table (all but .npy) without one.",
        "--intercept/--no-intercept",
        "--constant/--no-constant",
    ),
]
_OnSpan = Annotated[bool, _says("Leave out features that others make up.", "--on-span")]
_Sheet = Annotated[str | None, _says("Which sheet of an Excel file, if several have cells.")]


@app.command()
def run(  # noqa: PLR0913 (every argument is an option of its own)
    context: typer.Context,
    *,
    arms: Annotated[
        Path | None,
        _says(
            "Your arms: a .csv with a header line, .xlsx, .parquet, .arrow or .npy; without any the demonstration runs."
        ),
    ] = None,
    sphere: Annotated[int | None, _says("Arms: all unit vectors of this dimension.")] = None,
    ellipsoid: Annotated[
        Path | None, _says("Arms: centre + axes u, |u| <= 1; a .csv or .npy: centre first, axes below.")
    ] = None,
    hypercube: Annotated[int | None, _says("Arms: all vectors of -1 and 1 of this dimension.")] = None,
    top_k: Annotated[str | None, _says("Arms: all choices of k out of d, as d,k such as 10,3.")] = None,
    pull: Annotated[
        str | None,
        _says(
            'Command that measures: "cmd {arm}" or "cmd {index}", prints one number; nothing, or exit code 75, if it '
            "has none this time. Default: you are asked."
        ),
    ] = None,
    delta: Annotated[float, _says("Accepted probability of a wrong answer.")] = 0.05,
    noise_std: Annotated[
        str | None,
        _says(
            "Sub-Gaussian scale of one measurement's noise, or an upper bound: a number, or the column of the arms' "
            "file that has one for each arm. Without it the noise is taken for normal, and its level is learnt."
        ),
    ] = None,
    noise: Annotated[
        Noise | None,
        _says("Whether a level that is learnt is the same for all arms (default), or each has its own: per-arm."),
    ] = None,
    reward_range: Annotated[
        tuple[float, float] | None,
        _says("Smallest and largest possible reward, instead of --noise-std.", "--reward-range"),
    ] = None,
    binary: Annotated[bool, _says("Rewards are 0 or 1, such as clicks: --reward-range 0 1.", "--binary")] = False,
    model: Annotated[
        Model | None, _says("How the mean reward follows from the features (default linear); unstructured: not at all.")
    ] = None,
    audit: Annotated[
        str | None, _says('Check pulls of the model after the verdict: a number, or "auto" for as many as needed.')
    ] = None,
    epsilon: Annotated[float | None, _says("An answer that loses at most this is right (default 0).")] = None,
    misfit: Annotated[
        float | None, _says("How far the mean of every arm may be off its linear fit (default 0).")
    ] = None,
    seed: Annotated[int, _says("Seed of everything random.")] = 0,
    max_pulls: Annotated[int | None, _says("Stop measuring after this many pulls (default: never).")] = None,
    m: Annotated[int | None, _says("How many of the best to find (default 1).", "--m")] = None,
    costs: Annotated[str | None, _says("Column of the arms' file that says what a pull of each costs.")] = None,
    budget: Annotated[float | None, _says("Spend at most this: pulls, or cost beside --costs.")] = None,
    algorithm: Annotated[str | None, _says("Which algorithm plans (default lazy-track-and-stop).")] = None,
    stopping: Annotated[str | None, _says("Which rule decides (default: that of the algorithm).")] = None,
    option: Annotated[
        list[str] | None, _says("An option of the algorithm as NAME=VALUE, such as tracking=current.", "--option")
    ] = None,
    name_column: _NameColumn = None,
    features: _Features = None,
    drop: _Drop = None,
    interactions: _Interactions = False,
    quadratic: _Quadratic = False,
    formula: _Formula = None,
    intercept: _Intercept = None,
    on_span: _OnSpan = False,
    sheet: _Sheet = None,
    history: Annotated[Path | None, _says("Earlier measurements: a .csv with columns arm, reward, or a log.")] = None,
    log: Annotated[
        Path | None, _says("Write each measurement there; the same command then goes on where it was.")
    ] = None,
    save: Annotated[Path | None, _says("Write the result to this .json file.")] = None,
    report: Annotated[Path | None, _says("Write a page about the result to this .html file.")] = None,
    runs: Annotated[int | None, _says("Demonstration: runs for each number of arms.")] = None,
    jobs: Annotated[int | None, _says("Demonstration: processes, -1 for one per core.")] = None,
    out: Annotated[Path | None, _says("Demonstration: folder of runs and plots (default out).")] = None,
    output: Annotated[Format, _says("How to write the result.", "--format")] = Format.TABLE,
) -> int:
    """Find the best of your arms; without any, show it on the paper's many-arms problem."""
    sets = {"--arms": arms, "--sphere": sphere, "--ellipsoid": ellipsoid, "--hypercube": hypercube, "--top-k": top_k}
    named = {option: value for option, value in sets.items() if value is not None}
    if len(named) > 1:
        raise InvalidInput(f"one set of arms is needed, got {' and '.join(named)}; leave out all but one.")
    if not named:
        _refuse(context, OWN, "needs your arms; add --arms FILE")
        from surepick.app.demonstrate import demonstrate  # noqa: PLC0415 (`--help` stays quick)

        out = out or Path("out")
        return demonstrate(delta=delta, seed=seed, runs=runs, jobs=jobs, max_pulls=max_pulls, out=out, output=output)
    _refuse(context, OF_DEMONSTRATION, "belongs to the demonstration; leave out --arms to see it")
    from surepick.app.armfile import chosen_arms  # noqa: PLC0415 (`--help` stays quick)
    from surepick.app.session import Request, check_targets, run_session  # noqa: PLC0415
    from surepick.arms.tables.written import parse_number  # noqa: PLC0415

    written = {"--save": save, "--report": report, "--log": log}
    check_targets(written, {"--history": history, "--arms": arms, "--ellipsoid": ellipsoid})
    if report is not None:
        from surepick.showing.html import check_ready  # noqa: PLC0415

        check_ready()
    ((source, value),) = named.items()
    if arms is None:
        _refuse(context, OF_FILES, f"belongs to a file of arms, got {source}")
    level = None if noise_std is None else parse_number(noise_std)
    of_noise = noise_std if level is None else None
    own = chosen_arms(
        source,
        value,
        name_column=name_column,
        features=_columns(features),
        drop=_columns(drop),
        interactions=interactions,
        quadratic=quadratic,
        formula=formula,
        intercept=intercept,
        on_span=on_span,
        noise_column=of_noise,
        cost_column=costs,
        sheet=sheet,
    )
    settings = {
        "delta": delta,
        "noise_std": level if of_noise is None else getattr(own, "stds", None),
        "noise": (noise or Noise.SAME).value,
        "reward_range": reward_range,
        "rewards": "binary" if binary else None,
        "epsilon": epsilon or 0.0,
        "misfit": misfit or 0.0,
        "model": (model or Model.LINEAR).value,
        "audit": _checks(audit),
        "seed": seed,
        "max_pulls": max_pulls,
        "m": 1 if m is None else m,
        "costs": getattr(own, "costs", None),
        "budget": budget,
        "algorithm": algorithm or "lazy-track-and-stop",
        **({} if stopping is None else {"stopping": stopping}),
        **_options_of(option or []),
    }
    files = {"history": history, "log": log, "save": save, "report": report}
    return run_session(Request(own, settings, pull=pull, output=output, **files))


def _columns(listed: str | None) -> list[str] | None:
    return None if listed is None else [title.strip() for title in listed.split(",")]


def _options_of(given: Sequence[str]) -> dict[str, Any]:
    """Options of an algorithm; a value that reads like a Python number, True, False or None is one, else text."""
    found = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not (sign and name.isidentifier()):
            raise InvalidInput(f"--option must be NAME=VALUE, such as tracking=current, got {text!r}.")
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value
    return found


def _checks(audit: str | None) -> int | str:
    if audit is None or audit == "auto":
        return audit or 0
    if not audit.isdecimal():
        raise InvalidInput(f'--audit must be a number of pulls or "auto", got {audit!r}.')
    return int(audit)


@app.command("plan")
def plan_command(  # noqa: PLR0913 (every argument is an option of its own)
    arms: Annotated[Path, typer.Argument(help="Your arms: a .csv with a header line, .npy, .parquet or .arrow.")],
    *,
    gap: Annotated[float | None, _says("How far the best arm is ahead of the next, if nothing else is known.")] = None,
    theta: Annotated[str | None, _says("A guess of the effects of the features, as 1,-0.5,0.8.")] = None,
    pilot: Annotated[Path | None, _says("Results of a pilot: a .csv with the columns arm, reward.")] = None,
    delta: Annotated[float, _says("Accepted probability of a wrong answer.")] = 0.05,
    epsilon: Annotated[float, _says("An answer that loses at most this is right.")] = 0.0,
    noise_std: Annotated[
        str | None,
        _says("Noise of one measurement: a number, or the column of the arms' file that has one for each arm."),
    ] = None,
    reward_range: Annotated[
        tuple[float, float] | None,
        _says("Smallest and largest possible reward, instead of --noise-std.", "--reward-range"),
    ] = None,
    binary: Annotated[bool, _says("Rewards are 0 or 1, such as clicks.", "--binary")] = False,
    costs: Annotated[str | None, _says("Column of the arms' file that says what a pull costs.")] = None,
    m: Annotated[int, _says("How many of the best are sought.", "--m")] = 1,
    simulate: Annotated[int | None, _says("Also simulate this many runs.")] = None,
    seed: Annotated[int, _says("Seed of everything random.")] = 0,
    name_column: _NameColumn = None,
    features: _Features = None,
    drop: _Drop = None,
    interactions: _Interactions = False,
    quadratic: _Quadratic = False,
    formula: _Formula = None,
    intercept: _Intercept = None,
    on_span: _OnSpan = False,
    sheet: _Sheet = None,
    out: Annotated[Path | None, _says("Write a plot to this file: .png, .svg or .pdf.")] = None,
    output: Annotated[Format, _says("How to write the result.", "--format")] = Format.TABLE,
) -> int:
    """Say how many pulls it will take to find the best of your arms, before you measure any."""
    from surepick.app.planning import Request, plan_experiment  # noqa: PLC0415 (`--help` stays quick)

    settings = {
        "gap": gap,
        "delta": delta,
        "epsilon": epsilon,
        "reward_range": reward_range,
        "rewards": "binary" if binary else None,
        "m": m,
        "seed": seed,
    }
    reading = {
        "name_column": name_column,
        "features": _columns(features),
        "drop": _columns(drop),
        "interactions": interactions,
        "quadratic": quadratic,
        "formula": formula,
        "intercept": intercept,
        "on_span": on_span,
        "sheet": sheet,
    }
    return plan_experiment(
        Request(arms, reading, settings, theta, pilot, noise_std, costs, simulate=simulate, out=out, output=output)
    )


@app.command()
def noise(
    replicates: Annotated[Path, typer.Argument(help="A .csv with a column of options and one of values.")],
    *,
    option_column: Annotated[str | None, _says("Column of the options (default: option, arm, name or id).")] = None,
    value_column: Annotated[str | None, _says("Column of the values (default: value, reward, result or y).")] = None,
    confidence: Annotated[float, _says("Of the intervals.")] = 0.95,
    output: Annotated[Format, _says("How to write the result.", "--format")] = Format.TABLE,
) -> int:
    """Say how noisy a measurement is, from options that were measured more than once."""
    from surepick.app.planning import estimate_noise  # noqa: PLC0415 (`--help` stays quick)

    return estimate_noise(
        replicates, option_column=option_column, value_column=value_column, confidence=confidence, output=output
    )


_Full = Annotated[bool, _says("All runs the experiment asks for, not a quick look.", "--full")]
_Runs = Annotated[int | None, _says("Runs of each cell instead of the experiment's own number.")]
_Jobs = Annotated[int | None, _says("Processes, -1 for one per core (default).")]
_Dask = Annotated[str | None, _says('Do the runs on a Dask cluster: its address "tcp://host:8786", or "local".')]
_Out = Annotated[Path, _says("Folder of results and report; what is there is not done again.")]


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Experiments, see --list; all of them by default.")
    ] = None,
    *,
    full: _Full = False,
    runs: _Runs = None,
    jobs: _Jobs = None,
    dask: _Dask = None,
    out: _Out = Path("out"),
    show: Annotated[bool, _says("Say which experiments there are.", "--list")] = False,
) -> int:
    """Repeat the experiments of the paper and more; interrupted, the same command goes on where it was."""
    from surepick.app.reproduce import How, list_experiments  # noqa: PLC0415 (`--help` stays quick)
    from surepick.app.reproduce import reproduce as reproduce_named  # noqa: PLC0415

    if show:
        return list_experiments()
    return reproduce_named(names or [], How(full=full, runs=runs, jobs=jobs, dask=dask, out=out))


bench = typer.Typer(help="Your own experiments: run, report, compare.", rich_markup_mode=None)
app.add_typer(bench, name="bench")


@bench.command("run")
def bench_run(
    files: Annotated[list[Path], typer.Argument(metavar="FILE.toml...", help="Experiments.")],
    *,
    full: _Full = False,
    runs: _Runs = None,
    jobs: _Jobs = None,
    dask: _Dask = None,
    out: _Out = Path("out"),
) -> int:
    """Run the experiments of some files; interrupted, the same command goes on where it was."""
    from surepick.app.bench import run_files  # noqa: PLC0415
    from surepick.app.reproduce import How  # noqa: PLC0415

    return run_files(files, How(full=full, runs=runs, jobs=jobs, dask=dask, out=out))


@bench.command("report")
def bench_report(folder: Annotated[Path, typer.Argument(help="Folder of results, or a folder of such.")]) -> int:
    """Write the report of runs that are there."""
    from surepick.app.bench import report  # noqa: PLC0415

    return report(folder)


@bench.command("compare")
def bench_compare(
    first: Annotated[Path, typer.Argument(metavar="A.parquet", help="Runs.")],
    second: Annotated[Path, typer.Argument(metavar="B.parquet", help="Runs of the same experiment, say of new code.")],
    *,
    output: Annotated[Format, _says("How to write the result.", "--format")] = Format.TABLE,
) -> int:
    """Say what changed between two tables of runs; returns 1 if noise does not explain it."""
    from surepick.app.bench import compare_tables  # noqa: PLC0415

    return compare_tables(first, second, output)


def _refuse(context: typer.Context, options: Sequence[str], why: str) -> None:
    """Refuse options that do not go with the others."""
    for option in options:
        value = context.params[option[2:].replace("-", "_")]
        if value not in (None, False, ()):
            raise InvalidInput(f"{option} {why}.")
