"""The rows of the demonstration: runs for each number of arms beside published figures, as records and as a plot."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from surepick.app.plots import BLUE, GREEN, INK, ORANGE, PURPLE, Line, plot_lines
from surepick.simulation.experiment import Experiment, Published
from surepick.simulation.runs import Runs
from surepick.simulation.store import TABLE, columns_by_cell, runs_of

PUBLISHED = {
    "table_2": Line("Lazy TS, published (Table 2)", (), ORANGE, "D", 1.0, is_hollow=True),
    "table_1": Line("Lazy TS, published (Table 1)", (), ORANGE, "s", 1.0, is_hollow=True),
    "rage": Line("RAGE, published", (), PURPLE, "^", 1.0, is_hollow=True),
    "oracle": Line("Oracle, published", (), GREEN, "v", 1.0, is_hollow=True),
}
"""How published pulls are drawn, in the order of the table's columns."""
RUN_HERE = {
    "surepick": Line("surepick, {n} runs", (), BLUE, "o", 2.2),
    "RAGE": Line("RAGE, run here", (), PURPLE, "^"),
    "Oracle": Line("Oracle (knows theta), run here", (), GREEN, "v"),
}
BOUND = Line("lower bound", (), INK, dashes="--")
NOTE = 'bars: two standard errors either way (published: from "Std"); published with other stopping constants'


class Row(NamedTuple):
    """One number of arms."""

    n_arms: int
    runs: dict[str, Runs]
    """By label of the algorithm, ours first."""
    published: dict[str, Published]
    """By name of the table."""

    @property
    def ours(self) -> Runs:
        """The runs of our algorithm."""
        return next(iter(self.runs.values()))

    @property
    def bound(self) -> float:
        """Mean lower bound of the runs' instances."""
        assert self.ours.lower_bound is not None
        return float(self.ours.lower_bound.mean())


def read_rows(experiment: Experiment, folder: Path, n_runs: int) -> list[Row]:
    """What a folder of the experiment has, up to n_runs runs a cell; numbers of arms that all algorithms have run."""
    found = columns_by_cell(folder / TABLE) if (folder / TABLE).exists() else {}
    by_arms: dict[int, dict[str, Runs]] = {}
    for cell in experiment.cells():
        columns = found.get(cell.key)
        if columns is not None and (columns["run"] < n_runs).any():
            of_label = by_arms.setdefault(cell.arguments["n_arms"], {})
            of_label[cell.algorithm.label] = runs_of(cell, columns, n_runs)
    return [
        Row(
            n_arms,
            runs,
            {figure.figures: figure for figure in experiment.published if figure.problem == {"n_arms": n_arms}},
        )
        for n_arms, runs in by_arms.items()
        if len(runs) == len(experiment.algorithms)
    ]


def as_record(row: Row, names: Sequence[str], tables: Sequence[str]) -> dict[str, Any]:
    """A flat record: ours, the others by their names, and the published pulls of some tables."""
    ours, *others = row.runs.values()
    record: dict[str, Any] = {
        "n_arms": row.n_arms,
        "n_runs": ours.n_runs,
        "seed": ours.seed,
        "mean": ours.mean,
        "se": ours.se,
        "median": ours.median,
        "lower_bound": row.bound,
        "ratio": float(ours.ratio.mean()),
        "n_errors": ours.n_errors,
        "n_unfinished": ours.n_unfinished,
        "arms_pulled": float(ours.support.mean()),
        "seconds_per_run": float(ours.seconds.mean()),
    }
    for name, runs in zip(names[1:], others, strict=True):
        record[f"{name}_mean"], record[f"{name}_se"] = runs.mean, runs.se
    for table in tables:
        figure = row.published.get(table)
        record[f"published_{table}_mean"] = None if figure is None else figure.mean
        record[f"published_{table}_se"] = None if figure is None else figure.se
    return record


def plot_rows(rows: Sequence[Row], folder: Path, *, delta: float) -> tuple[Path, Path]:
    """Mean pulls by number of arms with the published means and the lower bound."""
    lines = []
    for table, style in PUBLISHED.items():
        figures = [(row.n_arms, figure) for row in rows if (figure := row.published.get(table)) is not None]
        lines.append(style._replace(points=[(n_arms, figure.mean, figure.se or 0.0) for n_arms, figure in figures]))
    for label, style in RUN_HERE.items():
        points = [(row.n_arms, row.runs[label].mean, row.runs[label].se) for row in rows]
        lines.append(style._replace(label=style.label.format(n=rows[0].ours.n_runs), points=points))
    lines.append(BOUND._replace(points=[(row.n_arms, row.bound, 0.0) for row in rows]))
    title = f"Pulls until the best of K arms is known, delta = {delta:g}"
    return plot_lines([line for line in lines if line.points], title, NOTE, folder, "many_arms")
