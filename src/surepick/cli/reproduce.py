"""Experiments on the command line: those of the package, your own, and the demonstration.

The demonstration is the experiment `many-arms`: a live run, then a table and a plot beside published figures.
Interrupted, the same command goes on where it was.
"""

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surepick.cli.options import ExperimentOptions
from surepick.cli.output import Code, Format, check_out, live_view, new_table, print_error, results, stages, write
from surepick.core.checks import check_count, check_delta
from surepick.errors import InvalidInput, SurepickError
from surepick.learning.learner import Learner
from surepick.learning.progress import confidence
from surepick.reporting.experiment_figures import charts, draw_means
from surepick.reporting.experiment_page import write_report
from surepick.reporting.experiment_summary import Section, Summary, section_of
from surepick.reporting.figures import INK, save
from surepick.simulation.compare import CellChange, Comparison, compare
from surepick.simulation.experiment import (
    Cell,
    Experiment,
    call_of,
    named_experiment,
    named_experiments,
    read_experiment,
)
from surepick.simulation.jobs import job_of
from surepick.simulation.parallel import shown
from surepick.simulation.problems import Problem
from surepick.simulation.run import run_once, run_seeds
from surepick.simulation.store import EXPERIMENT, TABLE, settle, sweep

if TYPE_CHECKING:
    from rich.console import Console

INTERRUPTED = "interrupted; finished runs are in {}, the same command goes on from there"


def reproduce(names: Sequence[str], options: ExperimentOptions) -> Code:
    """Run experiments that come with the package; all of them if none is named."""
    return run_experiments([named_experiment(name) for name in names or named_experiments()], options)


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


def write_report_of(folders: Sequence[Path], out: Path, console: "Console", *, latex: bool = False) -> None:
    """Write the report and print its files."""
    markdown, page, *_ = write_report(folders, out, latex=latex)
    also = f", {out / 'report.tex'}" if latex else ""
    console.print(f"report: {markdown}, {page}{also}", soft_wrap=True)


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


def bench_report(folder: Path, *, latex: bool = False) -> Code:
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
    write_report_of(folders, folder, stages(Format.TABLE), latex=latex)
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
            cell.label or call_of(cell.problem, json.loads(cell.arguments)),
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


# ---- the demonstration

Record = dict[str, Any]

HEADERS = {
    "": "\nsurepick",
    "rage_": "\nRAGE",
    "xy-oracle_": "\nOracle",
    "published_table_2_": "Lazy\nTS 2*",
    "published_table_1_": "Lazy\nTS 1*",
    "published_rage_": "\nRAGE*",
    "published_oracle_": "\nOracle*",
}
"""Columns of the table, by the first part of the fields `mean` and `se` of a record."""


def records_of(section: Section) -> list[Record]:
    """Return a record for each number of arms that all algorithms have run."""
    published = [f"published_{figure.figures}_" for figure in section.experiment.published]
    records = []
    for n_arms, cells in groupby(section.summaries, key=lambda summary: int(summary.cell.arguments["n_arms"])):
        members = list(cells)
        if all(summary.n_runs for summary in members):
            record = {"n_arms": n_arms, **_ours(members[0])}
            for other in members[1:]:
                pulls = other.quantities["n_pulls"]
                record |= {f"{other.cell.algorithm.name}_{name}": value for name, value in pulls._asdict().items()}
            record |= {f"{part}{name}": None for part in published for name in ("mean", "se")}
            for figure in [one.published for summary in members for one in summary.compared]:
                record |= {f"published_{figure.figures}_{name}": getattr(figure, name) for name in ("mean", "se")}
            records.append(record)
    return records


def _ours(summary: Summary) -> Record:
    pulls = summary.quantities["n_pulls"]
    return {
        "n_runs": summary.n_runs,
        "seed": summary.cell.seed,
        "mean": pulls.mean,
        "se": pulls.se,
        "median": summary.quantiles[0.5],
        "lower_bound": summary.quantities["lower_bound"].mean,
        "ratio": summary.quantities["ratio"].mean,
        "n_errors": summary.n_errors,
        "n_unfinished": summary.n_unfinished,
        "arms_pulled": summary.quantities["support"].mean,
        "seconds_per_run": summary.quantities["seconds"].mean,
    }


NAME = "many-arms"
LIVE_SECONDS = 5.0
"""How long the live view may last on a terminal; the run itself takes milliseconds."""
NEXT = "Next, with your own options: surepick run --arms arms.csv --pull './measure {arm}'"


def demonstrate(
    *, delta: float, seed: int, runs: int | None, jobs: int | None, max_pulls: int | None, out: Path, output: Format
) -> Code:
    """Run the experiment and print its result; after Ctrl-C, the result so far."""
    check_delta(delta)
    check_count("seed", seed, least=0)
    changes = {} if max_pulls is None else {"max_pulls": check_count("max_pulls", max_pulls, least=1)}
    experiment = named_experiment(NAME, delta=[delta], seed=seed, **changes)
    n_runs = experiment.quick_runs if runs is None else check_count("runs", runs, least=2)
    check_out(out)
    console = stages(output)
    live: dict[str, Any] = {}
    is_complete = False
    try:
        _run_live(console, experiment.cells()[0], live)
        is_complete = fill(out / NAME, experiment, console, n_runs=n_runs, jobs=jobs) and bool(live["stopped"])
    except KeyboardInterrupt:
        console.print(INTERRUPTED.format(out / NAME), soft_wrap=True)
    section = section_of(experiment, out / NAME / TABLE, n_runs)
    records = records_of(section)
    plots = plot(section, out) if records else ()
    if output is not Format.TABLE:
        found = {"problem": NAME, "algorithm": experiment.algorithms[0].name, "delta": delta, "seed": seed}
        found |= {"is_complete": is_complete, "one_run": live or None, "runs": records}
        write(output, found | {"plots": [str(path) for path in plots]}, records)
    elif records:
        _print_table(results(), records, delta)
    if plots:
        console.print(f"plot: {' and '.join(map(str, plots))}", soft_wrap=True)
    if output is Format.TABLE:
        console.print(NEXT, soft_wrap=True)
    return Code.OK if is_complete else Code.NOT_STOPPED


def plot(section: Section, out: Path) -> tuple[Path, ...]:
    """Draw mean pulls by number of arms, beside the lower bound and published means."""
    try:
        canvas, _ = draw_means(next(charts(section)))
    except SurepickError as error:
        print_error(f"no plot: {error}")
        return ()
    title = f"Pulls until the best of K arms is known, delta = {section.experiment.delta[0]:g}"
    canvas.axes[0].set_title(title, loc="left", fontsize=9, color=INK)
    return save(canvas, out / "many_arms")


def _run_live(console: "Console", cell: Cell, live: dict[str, Any]) -> None:
    """Show run 0 of the first cell as it happens."""
    problem = cell.draw(run_seeds(cell.seed, 0).instance)
    assert isinstance(problem, Problem)
    console.print(
        f"problem: many arms (variant {cell.arguments['variant']}), {problem.n_arms} arms with {problem.dim} features, "
        f"noise of standard deviation {problem.noise_std:g}, delta {cell.delta:g}, seed {cell.seed}",
        soft_wrap=True,
    )
    start, at_work = time.monotonic(), list[Learner]()

    def watch(learner: Learner, arm: Any) -> None:
        at_work[:] = [learner]
        if console.is_terminal:
            view.show(lambda: learner.snapshot, arm=arm)
            if time.monotonic() - start < LIVE_SECONDS:
                time.sleep(0.03)

    seconds = float("nan")
    try:
        with live_view(console, f"Lazy Track-and-Stop, {problem.n_arms} arms") as view:
            seconds = run_once(job_of(cell), 0, watch).seconds
    finally:
        for learner in at_work:
            live |= _live_result(learner, problem, seconds)
            sure = confidence(learner.snapshot)
            console.print(_live_line(live, problem, sure), soft_wrap=True)


def _live_result(learner: Learner, problem: Problem, seconds: float) -> dict[str, Any]:
    decision = learner.decision
    return {
        "n_arms": problem.n_arms,
        "n_pulls": decision.n_pulls,
        "stopped": bool(decision.stopped),
        "best": decision.best,
        "is_right": decision.best == problem.best,
        "evidence": float(decision.evidence),
        "target": float(decision.target),
        "rule": decision.rule,
        "guarantee": decision.guarantee,
        "arms_pulled": len(learner.counts),
        "seconds": seconds,
    }


def _live_line(live: dict[str, Any], problem: Problem, sure: str) -> str:
    truth = "which is right" if live["is_right"] else f"the truth is {problem.best}"
    live = {**live, "best": "none yet"} if live["best"] is None else live
    state = "stopped" if live["stopped"] else "not stopped yet"
    return (
        f"one run: {state} after {live['n_pulls']} pulls of {live['arms_pulled']} different arms, best arm "
        f"{live['best']} ({truth}), confidence {sure} by the {live['rule']} rule "
        f"({live['guarantee']}), {1e3 * live['seconds']:.0f} ms CPU"
    )


def _print_table(console: "Console", records: list[Record], delta: float) -> None:
    """Print the table of mean pulls by number of arms."""
    console.print(
        f"Mean pulls ± standard error until the answer is right with probability {1 - delta:g}\n"
        f"({max(record['n_runs'] for record in records)} runs for each K, arms redrawn in every run, "
        f"seeds {records[0]['seed']} to {records[-1]['seed']})",
        style="bold",
    )
    columns = [part for part in HEADERS if any(record.get(f"{part}mean") for record in records)]
    has_published = any(part.startswith("published") for part in columns)
    titles = ["arms\nK", *(HEADERS[part] for part in columns)]
    titles[2:2] = ["lower\nbound"]
    titles += [] if has_published else ["times\nbound", "\nmedian"]
    table = new_table(titles, left=[], padding=(0, 0, 0, 1))  # 80 columns are enough
    for title, column in zip(titles, table.columns, strict=True):
        column.style = "bold" if title == HEADERS[""] else "dim" if title.endswith("*") else ""
    for record in records:
        cells = [_mean(record, part) for part in columns]
        cells[1:1] = [f"{record['lower_bound']:.1f}"]
        cells += [] if has_published else [f"{record['ratio']:.2f}", f"{record['median']:g}"]
        table.add_row(str(record["n_arms"]), *cells)
    console.print(table)
    for line in _notes(records, has_published=has_published):
        console.print(line, soft_wrap=not console.is_terminal)


def _mean(record: Record, part: str) -> str:
    if record[f"{part}mean"] is None:
        return "-"
    spread = "" if part.startswith("published") else f" ± {record[f'{part}se']:.0f}"
    return f"{record[f'{part}mean']:.0f}{spread}"


def _notes(records: list[Record], *, has_published: bool) -> list[str]:
    last = records[-1]
    n_runs, n_errors, n_unfinished = (
        sum(record[name] for record in records) for name in ("n_runs", "n_errors", "n_unfinished")
    )
    unfinished = f", {n_unfinished} runs did not stop" if n_unfinished else ""
    used, spent = f"{last['arms_pulled']:.1f}", f"{1e3 * last['seconds_per_run']:.0f} ms CPU"
    if last.get("published_seconds_mean"):
        used += f" (published: {last['published_support_mean']:.1f})"
        spent += f" (published: {last['published_seconds_mean']:.0f} s, on a desktop of 2020)"
    about = (
        "* published means, different stopping constants: Jedra and Proutiere (2020), tables 1 and 2 (Lazy TS 1 "
        "and 2). surepick stops by its own rule; RAGE and the Oracle, which knows theta, were run here with their "
        "published constants. Arms are drawn as in the public code for this problem (variant as-run), not as "
        "printed there."
    )
    return [
        *([about] if has_published else []),
        f"{n_errors} of {n_runs} answers were wrong{unfinished}.",
        f"A run with {last['n_arms']} arms pulled {used} of them on average and took {spent}.",
    ]
