"""Experiments on the command line: sweep them one after the other, say how far it is, and write the report."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from rich import box
from rich.console import Console
from rich.table import Table

from surepick.cli.output import Code, Format, check_out, print_error, results, stages
from surepick.errors import InvalidInput
from surepick.simulation.experiment import Experiment, named_experiment, named_experiments
from surepick.simulation.parallel import shown
from surepick.simulation.store import sweep

INTERRUPTED = "interrupted; finished runs are in {}, the same command goes on from there"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How the user wants experiments to be run."""

    full: bool
    runs: int | None
    jobs: int | None
    dask: str | None
    out: Path

    def __post_init__(self) -> None:
        if self.full and self.runs is not None:
            raise InvalidInput("one number of runs is needed, got --full and --runs; leave one out.")
        if self.runs is not None and self.runs < 1:
            raise InvalidInput(f"--runs must be at least 1, got {self.runs}.")
        if self.jobs is not None and self.dask not in (None, "local"):
            raise InvalidInput(f"--jobs belongs to this machine, got it with --dask {self.dask}; leave it out.")
        check_out(self.out)

    def n_runs(self, experiment: Experiment) -> int:
        """Runs of each cell."""
        return self.runs or (experiment.n_runs if self.full else experiment.quick_runs)


def reproduce(names: Sequence[str], how: How) -> Code:
    """Run experiments that come with the package; all of them if none is named."""
    known = named_experiments()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InvalidInput(f"an experiment must be one of {', '.join(known)}, got {unknown[0]!r}.")
    return run_experiments([named_experiment(name) for name in names or known], how)


def list_experiments() -> Code:
    """Say which experiments there are."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for header in ("experiment", "what", "cells", "runs each", "with --full"):
        table.add_column(header, justify="left" if header in ("experiment", "what") else "right")
    for name in named_experiments():
        experiment = named_experiment(name)
        n_cells = len(experiment.cells())
        table.add_row(name, experiment.title, str(n_cells), str(experiment.quick_runs), str(experiment.n_runs))
    results().print(table)
    return Code.OK


def run_experiments(experiments: Sequence[Experiment], how: How) -> Code:
    """Do what is missing, write the report over all, and say what failed."""
    names = [experiment.name for experiment in experiments]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InvalidInput(f"every experiment needs a folder of its own, got {twice[0]!r} twice.")
    console = stages(Format.TABLE)
    has_failed = False
    for experiment in experiments:
        folder, n_runs = how.out / experiment.name, how.n_runs(experiment)
        try:
            has_failed |= not fill(folder, experiment, console, n_runs=n_runs, jobs=how.jobs, dask=how.dask)
        except KeyboardInterrupt:
            print_error(INTERRUPTED.format(folder))
            return Code.NOT_STOPPED
    write([how.out / name for name in names], how.out, console)
    return Code.FAILURE if has_failed else Code.OK


def write(folders: Sequence[Path], out: Path, console: Console) -> None:
    """Write the report and say where."""
    from surepick.reporting.experiment_page import write_report  # noqa: PLC0415 (draws; `--help` stays quick)

    markdown, page, *_ = write_report(folders, out)
    console.print(f"report: {markdown}, {page}", soft_wrap=True)


def fill(
    folder: Path, experiment: Experiment, console: Console, *, n_runs: int, jobs: int | None, dask: str | None = None
) -> bool:
    """Do the runs that the folder lacks, say what was done, and return whether none has failed."""
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
