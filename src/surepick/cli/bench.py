"""The user's own experiments on the command line: run files, report on folders, compare tables of runs."""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from surepick.cli.output import Code, Format, results, stages, to_csv, to_json
from surepick.cli.reproduce import How, run_experiments, write
from surepick.errors import InvalidInput
from surepick.simulation.compare import CellChange, Comparison, compare
from surepick.simulation.experiment import call_of, read_experiment
from surepick.simulation.store import EXPERIMENT, settle


def run_files(files: Sequence[Path], how: How) -> Code:
    """Run experiments from files."""
    return run_experiments([read_experiment(file) for file in files], how)


def report(folder: Path) -> Code:
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
    write(folders, folder, stages(Format.TABLE))
    return Code.OK


def compare_tables(first: Path, second: Path, output: Format) -> Code:
    """Say per cell what changed and whether noise explains it."""
    comparison = compare(first, second)
    if output is Format.JSON:
        sys.stdout.write(to_json(asdict(comparison)) + "\n")
    elif output is Format.CSV:
        sys.stdout.write(to_csv([_record(cell) for cell in comparison.cells]))
    else:
        _print_table(comparison, first, second)
    sys.stdout.flush()
    return Code.FAILURE if comparison.n_changed else Code.OK


def _record(cell: CellChange) -> dict[str, Any]:
    record = asdict(cell)
    for side in ("first", "second"):
        record.update({f"{side}_{name}": value for name, value in getattr(cell, side)._asdict().items()})
        del record[side]
    return record


def _print_table(comparison: Comparison, first: Path, second: Path) -> None:
    console = results()
    console.print(f"first: {first}, second: {second}", soft_wrap=True)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for header in ("algorithm", "problem"):
        table.add_column(header, overflow="fold")
    for header in ("delta", "runs", "pulls", "wrong", "p pulls", "p wrong"):
        table.add_column(header, justify="right")
    table.add_column("so")
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
