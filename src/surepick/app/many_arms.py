"""The rows of the demonstration: a record for each number of arms, ours beside published figures, and their plot."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from surepick.app.plots import BLUE, GREEN, ORANGE, PURPLE, Line, plot_lines
from surepick.simulation.experiment import Experiment
from surepick.simulation.report_cells import COLUMNS as OF_RUNS
from surepick.simulation.report_cells import Summary, summarize
from surepick.simulation.store import TABLE, read_cells

Record = dict[str, Any]
NOTE = 'bars: two standard errors either way (published: from "Std");\npublished with other stopping constants'


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
    found = {
        key: {name: values[columns["run"] < n_runs] for name, values in columns.items()}
        for key, columns in (read_cells(folder / TABLE, OF_RUNS) if (folder / TABLE).exists() else ())
    }
    records: dict[int, Record] = {}
    for n_arms, cells in groupby(experiment.cells(), key=lambda cell: int(cell.arguments["n_arms"])):
        summaries = [summarize(cell, found.get(cell.key)) for cell in cells]
        if all(summary.n_runs for summary in summaries):
            records[n_arms] = {"n_arms": n_arms, **_ours(summaries[0])}
            for other in summaries[1:]:
                name, pulls = other.cell.algorithm.name, other.quantities["n_pulls"]
                records[n_arms] |= {f"{name}_mean": pulls.mean, f"{name}_se": pulls.se}
    for figure in experiment.published:
        for n_arms, record in records.items():
            field, is_here = f"published_{figure.figures}", figure.problem == {"n_arms": n_arms}
            record[f"{field}_mean"] = figure.mean if is_here else record.get(f"{field}_mean")
            record[f"{field}_se"] = figure.se if is_here else record.get(f"{field}_se")
    return list(records.values())


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
    lines.append(Line("lower bound", "black", dashes="--", points=bound))
    title = f"Pulls until the best of K arms is known, delta = {delta:g}"
    return plot_lines(lines, title, NOTE, folder, "many_arms")
