"""Experiments on the command line, those of the package and your own: run, report, compare."""

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surepick.cli.options import ExperimentOptions
from surepick.cli.output import Code, Format, new_table, print_error, results, stages, write
from surepick.errors import InvalidInput
from surepick.simulation.compare import CellChange, Comparison, compare
from surepick.simulation.experiment import Experiment, call_of, named_experiment, named_experiments, read_experiment
from surepick.simulation.parallel import shown
from surepick.simulation.store import EXPERIMENT, settle, sweep

if TYPE_CHECKING:
    from rich.console import Console

INTERRUPTED = "interrupted; finished runs are in {}, the same command goes on from there"


def reproduce(names: Sequence[str], options: ExperimentOptions) -> Code:
    """Run experiments that come with the package; all of them if none is named."""
    known = named_experiments()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InvalidInput(f"an experiment must be one of {', '.join(known)}, got {unknown[0]!r}.")
    return run_experiments([named_experiment(name) for name in names or known], options)


def list_experiments() -> Code:
    """List the experiments of the package."""
    words = ["experiment", "what"]
    table = new_table([*words, "cells", "runs each", "with --full"], left=words)
    for name in named_experiments():
        experiment = named_experiment(name)
        n_cells = len(experiment.cells())
        table.add_row(name, experiment.title, str(n_cells), str(experiment.quick_runs), str(experiment.n_runs))
    results().print(table)
    return Code.OK


def run_experiments(experiments: Sequence[Experiment], options: ExperimentOptions) -> Code:
    """Do the missing runs, write one report, and print failures."""
    names = [experiment.name for experiment in experiments]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InvalidInput(f"every experiment needs a folder of its own, got {twice[0]!r} twice.")
    console = stages(Format.TABLE)
    has_failed = False
    for experiment in experiments:
        folder, n_runs = options.out / experiment.name, _n_runs(experiment, options)
        try:
            has_failed |= not fill(folder, experiment, console, n_runs=n_runs, jobs=options.jobs, dask=options.dask)
        except KeyboardInterrupt:
            print_error(INTERRUPTED.format(folder))
            return Code.NOT_STOPPED
    write_report_of([options.out / name for name in names], options.out, console)
    return Code.FAILURE if has_failed else Code.OK


def write_report_of(folders: Sequence[Path], out: Path, console: "Console") -> None:
    """Write the report and print its files."""
    from surepick.reporting.experiment_page import write_report  # noqa: PLC0415 (draws; `--help` stays quick)

    markdown, page, *_ = write_report(folders, out)
    console.print(f"report: {markdown}, {page}", soft_wrap=True)


def _n_runs(experiment: Experiment, options: ExperimentOptions) -> int:
    return options.runs or (experiment.n_runs if options.full else experiment.quick_runs)


def fill(
    folder: Path, experiment: Experiment, console: "Console", *, n_runs: int, jobs: int | None, dask: str | None = None
) -> bool:
    """Do the runs that the folder lacks; return whether none has failed."""
    start = time.monotonic()
    with shown(experiment.name) as progress:
        n_jobs = -1 if jobs is None else jobs
        summary = sweep(experiment, folder, n_runs=n_runs, n_jobs=n_jobs, dask=dask, progress=progress)
    before = f", {summary.n_before} were there" if summary.n_before else ""
    seconds = time.monotonic() - start
    console.print(f"{experiment.name}: {summary.n_done} runs in {seconds:.1f} s{before}", soft_wrap=True)
    for failure in summary.failures:
        print_error(f"{failure.cell}, run {failure.run}: {failure.error}")
    if summary.n_failed:
        print_error(f"{experiment.name}: {summary.n_failed} runs failed, the first of each cell is above")
    return not summary.n_failed


# ---- experiments of your own


def run_files(files: Sequence[Path], options: ExperimentOptions) -> Code:
    """Run experiments from files."""
    return run_experiments([read_experiment(file) for file in files], options)


def bench_report(folder: Path) -> Code:
    """Report on a folder of results, or on all such folders in it."""
    if not folder.is_dir():
        raise InvalidInput(f"there is no folder {folder}.")
    folders = (
        [folder] if (folder / EXPERIMENT).exists() else sorted(path.parent for path in folder.glob(f"*/{EXPERIMENT}"))
    )
    if not folders:
        raise InvalidInput(
            f"{folder} has no {EXPERIMENT}, nor has a folder in it; name a folder that a sweep has written."
        )
    for one in folders:
        settle(one, read_experiment(one / EXPERIMENT))
    write_report_of(folders, folder, stages(Format.TABLE))
    return Code.OK


def compare_tables(first: Path, second: Path, output: Format) -> Code:
    """Print for each cell what changed, and whether noise explains the change."""
    comparison = compare(first, second)
    if output is Format.TABLE:
        _print_comparison(comparison, first, second)
    else:
        write(output, asdict(comparison), [_record(cell) for cell in comparison.cells])
    return Code.FAILURE if comparison.n_changed else Code.OK


def _record(cell: CellChange) -> dict[str, Any]:
    record = asdict(cell)
    for side in ("first", "second"):
        record.update({f"{side}_{name}": value for name, value in getattr(cell, side)._asdict().items()})
        del record[side]
    return record


def _print_comparison(comparison: Comparison, first: Path, second: Path) -> None:
    console = results()
    console.print(f"first: {first}, second: {second}", soft_wrap=True)
    words = ["algorithm", "problem", "so"]
    table = new_table([*words[:2], "delta", "runs", "pulls", "wrong", "p pulls", "p wrong", "so"], left=words)
    for cell in comparison.cells:
        a, b = cell.first, cell.second
        runs = f"{a.n_runs}" if a.n_runs == b.n_runs else f"{a.n_runs}, {b.n_runs}"
        table.add_row(
            cell.algorithm,
            call_of(cell.problem, json.loads(cell.arguments)),
            f"{cell.delta:g}",
            runs,
            f"{a.mean:.1f} -> {b.mean:.1f} ({100 * (b.mean / a.mean - 1):+.1f} %)",
            f"{a.n_errors} -> {b.n_errors}",
            _p(cell.p_pulls),
            _p(cell.p_errors),
            cell.verdict,
        )
    console.print(table)
    for where, names in (("first", comparison.only_first), ("second", comparison.only_second)):
        for name in names:
            console.print(f"only in the {where}: {name}", soft_wrap=True)
    n_paired = sum(cell.is_paired for cell in comparison.cells)
    console.print(
        f"{comparison.n_changed} of {len(comparison.cells)} cells changed beyond noise at level {comparison.level:g}; "
        f"{comparison.n_tests} tests, every p is multiplied by that number; {n_paired} cells compared run by run.",
        soft_wrap=True,
    )


def _p(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2g}"
