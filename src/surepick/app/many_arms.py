"""The rows of the demonstration: a record for each number of arms, ours beside published figures, and their plot."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from surepick.app.plots import BLUE, GREEN, INK, ORANGE, PURPLE, Line, plot_lines
from surepick.simulation.experiment import Experiment
from surepick.simulation.runs import Runs
from surepick.simulation.store import TABLE
from surepick.simulation.table import columns_by_cell, runs_of

Record = dict[str, Any]
NOTE = 'bars: two standard errors either way (published: from "Std"); published with other stopping constants'


class Column(NamedTuple):
    """Means of pulls in table and plot."""

    header: str
    line: Line


COLUMNS = {
    "": Column("\nsurepick", Line("surepick, {n_runs} runs", BLUE, "o", 2.2)),
    "rage_": Column("\nRAGE", Line("RAGE, run here", PURPLE, "^")),
    "xy-oracle_": Column("\nOracle", Line("Oracle (knows theta), run here", GREEN, "v")),
    "published_table_2_": Column("Lazy\nTS 2*", Line("Lazy TS, published (Table 2)", ORANGE, "D", 1.0, is_hollow=True)),
    "published_table_1_": Column("Lazy\nTS 1*", Line("Lazy TS, published (Table 1)", ORANGE, "s", 1.0, is_hollow=True)),
    "published_rage_": Column("\nRAGE*", Line("RAGE, published", PURPLE, "^", 1.0, is_hollow=True)),
    "published_oracle_": Column("\nOracle*", Line("Oracle, published", GREEN, "v", 1.0, is_hollow=True)),
}
"""By the first part of the fields `mean` and `se` of a record."""


def read_records(experiment: Experiment, folder: Path, n_runs: int) -> list[Record]:
    """What a folder of the experiment has, up to n_runs runs a cell; numbers of arms that all algorithms have run."""
    found = columns_by_cell(folder / TABLE) if (folder / TABLE).exists() else {}
    records: dict[int, Record] = {}
    n_algorithms: dict[int, int] = {}
    for cell in experiment.cells():
        n_arms, columns = cell.arguments["n_arms"], found.get(cell.key)
        if columns is not None and (columns["run"] < n_runs).any():
            runs, name = runs_of(cell, columns, n_runs), cell.algorithm.name
            is_ours = cell.algorithm is experiment.algorithms[0]
            own = _ours(runs) if is_ours else {f"{name}_mean": runs.mean, f"{name}_se": runs.se}
            records[n_arms] = records.get(n_arms, {"n_arms": n_arms}) | own
            n_algorithms[n_arms] = n_algorithms.get(n_arms, 0) + 1
    for figure in experiment.published:
        for n_arms, record in records.items():
            field, is_here = f"published_{figure.figures}", figure.problem == {"n_arms": n_arms}
            record[f"{field}_mean"] = figure.mean if is_here else record.get(f"{field}_mean")
            record[f"{field}_se"] = figure.se if is_here else record.get(f"{field}_se")
    return [record for n_arms, record in records.items() if n_algorithms[n_arms] == len(experiment.algorithms)]


def _ours(runs: Runs) -> Record:
    assert runs.lower_bound is not None
    return {
        "n_runs": runs.n_runs,
        "seed": runs.seed,
        "mean": runs.mean,
        "se": runs.se,
        "median": runs.median,
        "lower_bound": float(runs.lower_bound.mean()),
        "ratio": float(runs.ratio.mean()),
        "n_errors": runs.n_errors,
        "n_unfinished": runs.n_unfinished,
        "arms_pulled": float(runs.support.mean()),
        "seconds_per_run": float(runs.seconds.mean()),
    }


def shown_columns(records: Sequence[Record]) -> dict[str, Column]:
    """The columns for which there are figures."""
    return {part: column for part, column in COLUMNS.items() if any(record.get(f"{part}mean") for record in records)}


def plot_records(records: Sequence[Record], folder: Path, *, delta: float) -> tuple[Path, Path]:
    """Mean pulls by number of arms with the published means and the lower bound."""
    lines = [
        column.line._replace(
            label=column.line.label.format(**records[0]),
            points=[(one["n_arms"], one[f"{part}mean"], one[f"{part}se"]) for one in records if one[f"{part}mean"]],
        )
        for part, column in shown_columns(records).items()
    ]
    bound = [(record["n_arms"], record["lower_bound"], 0.0) for record in records]
    lines.append(Line("lower bound", INK, dashes="--", points=bound))
    title = f"Pulls until the best of K arms is known, delta = {delta:g}"
    return plot_lines(lines, title, NOTE, folder, "many_arms")
