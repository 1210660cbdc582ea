"""The command line: thin commands that read options, call the layers below and return an exit code."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from surepick._version import __version__
from surepick.app.console import Code, Format, Refusal, misuse, print_error
from surepick.errors import InvalidInput, SurepickError

INTERRUPTED = 130
"""What typer makes of a Ctrl-C that no command has handled."""

app = typer.Typer(
    name="surepick",
    help="Find the best of many options from noisy, costly measurements, with a guarantee.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


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
    except Refusal as refusal:
        print_error(str(refusal))
        return refusal.code
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


@app.command()
def run(  # noqa: PLR0913 (every argument is an option of its own)
    *,
    arms: Annotated[
        Path | None,
        typer.Option(
            help="Your arms: a .csv with a header line, .npy, .parquet or .arrow; without any the demonstration runs."
        ),
    ] = None,
    sphere: Annotated[int | None, typer.Option(help="Arms: all unit vectors of this dimension.")] = None,
    ellipsoid: Annotated[
        Path | None, typer.Option(help="Arms: centre + axes u, |u| <= 1; a .csv or .npy: centre first, axes below.")
    ] = None,
    hypercube: Annotated[int | None, typer.Option(help="Arms: all vectors of -1 and 1 of this dimension.")] = None,
    top_k: Annotated[str | None, typer.Option(help="Arms: all choices of k out of d, as d,k such as 10,3.")] = None,
    pull: Annotated[
        str | None,
        typer.Option(
            help='Command that measures: "cmd {arm}" or "cmd {index}", prints one number. Default: you are asked.'
        ),
    ] = None,
    delta: Annotated[float, typer.Option(help="Accepted probability of a wrong answer.")] = 0.05,
    noise_std: Annotated[
        float | None,
        typer.Option(
            help="Sub-Gaussian scale of one measurement's noise, or an upper bound (default 1): the standard deviation "
            "of normal noise; half the range of bounded rewards."
        ),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="An answer that loses at most this is right (default 0).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    max_pulls: Annotated[int | None, typer.Option(help="Stop measuring after this many pulls.")] = None,
    name_column: Annotated[str | None, typer.Option(help="Column of the .csv with the arms' names.")] = None,
    intercept: Annotated[bool, typer.Option("--intercept", help="Put a constant feature in front.")] = False,
    on_span: Annotated[bool, typer.Option("--on-span", help="Drop redundant features.")] = False,
    history: Annotated[
        Path | None, typer.Option(help="Earlier measurements: a .csv with the columns arm, reward.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option(help="Write each measurement there; the same command then goes on where it was.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the result to this .json file.")] = None,
    runs: Annotated[int | None, typer.Option(help="Demonstration: runs for each number of arms.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Demonstration: processes, -1 for one per core.")] = None,
    out: Annotated[Path | None, typer.Option(help="Demonstration: folder of runs and plots (default out).")] = None,
    output: Annotated[Format, typer.Option("--format", help="How to write the result.")] = Format.TABLE,
) -> int:
    """Find the best of your arms; without any, show it on the paper's many-arms problem."""
    own = {
        "--pull": pull,
        "--noise-std": noise_std,
        "--epsilon": epsilon,
        "--name-column": name_column,
        "--intercept": intercept or None,
        "--on-span": on_span or None,
        "--history": history,
        "--log": log,
        "--save": save,
    }
    sets = {"--arms": arms, "--sphere": sphere, "--ellipsoid": ellipsoid, "--hypercube": hypercube, "--top-k": top_k}
    named = [option for option, value in sets.items() if value is not None]
    if len(named) > 1:
        raise misuse(f"one set of arms is needed, got {' and '.join(named)}; leave out all but one.")
    if not named:
        _refuse(own, "needs your arms; add --arms FILE")
        from surepick.app.demonstrate import demonstrate  # noqa: PLC0415 (`--help` stays quick)

        out = out or Path("out")
        return demonstrate(delta=delta, seed=seed, runs=runs, jobs=jobs, max_pulls=max_pulls, out=out, output=output)
    _refuse({"--runs": runs, "--jobs": jobs, "--out": out}, "belongs to the demonstration; leave out --arms to see it")
    from surepick.app.session import Request, run_session  # noqa: PLC0415 (`--help` stays quick)
    from surepick.app.vectorset import chosen_set  # noqa: PLC0415

    chosen = chosen_set(sphere=sphere, hypercube=hypercube, top_k=top_k, ellipsoid=ellipsoid)
    if chosen is not None:
        of_files = {"--name-column": name_column, "--intercept": intercept or None, "--on-span": on_span or None}
        _refuse(of_files, f"belongs to a file of arms, got {named[0]}")
    return run_session(
        Request(
            arms=chosen or arms or Path(),
            pull=pull,
            delta=delta,
            noise_std=1.0 if noise_std is None else noise_std,
            epsilon=0.0 if epsilon is None else epsilon,
            seed=seed,
            max_pulls=max_pulls,
            name_column=name_column,
            intercept=intercept,
            on_span=on_span,
            history=history,
            log=log,
            save=save,
            output=output,
        )
    )


_Full = Annotated[bool, typer.Option("--full", help="All runs the experiment asks for, not a quick look.")]
_Runs = Annotated[int | None, typer.Option(help="Runs of each cell instead of the experiment's own number.")]
_Jobs = Annotated[int | None, typer.Option(help="Processes, -1 for one per core (default).")]
_Dask = Annotated[
    str | None, typer.Option(help='Do the runs on a Dask cluster: its address "tcp://host:8786", or "local".')
]
_Out = Annotated[Path, typer.Option(help="Folder of results and report; what is there is not done again.")]


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
    show: Annotated[bool, typer.Option("--list", help="Say which experiments there are.")] = False,
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
    output: Annotated[Format, typer.Option("--format", help="How to write the result.")] = Format.TABLE,
) -> int:
    """Say what changed between two tables of runs; returns 1 if noise does not explain it."""
    from surepick.app.bench import compare_tables  # noqa: PLC0415

    return compare_tables(first, second, output)


def _refuse(options: dict[str, Any], why: str) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise misuse(f"{given[0]} {why}.")
