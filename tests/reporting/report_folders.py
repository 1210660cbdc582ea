"""Folders of results with runs made up by hand, for the tests of reports."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from surepick.reporting.experiment_summary import Summary, read_section
from surepick.simulation.experiment import Cell, read_experiment
from surepick.simulation.store import cell_columns, schema

PAPER = """
name = "paper"
title = "Pulls by the number of arms"
about = "Made up for a test."
delta = [0.05]
n_runs = 20
quick_runs = 4
seed = 7
max_pulls = 5000
bounds = true

[[problems]]
name = "many_arms"
redraw = true
arguments = { n_arms = [1000, 2500], variant = "as-run" }

[[algorithms]]
label = "Lazy TS"
name = "lazy-track-and-stop"
options = { variant = "paper" }

[[algorithms]]
label = "default"
name = "lazy-track-and-stop"

[[published]]
algorithm = "Lazy TS"
problem = { n_arms = 1000 }
mean = 400.0
se = 30.0
source = "A paper, Table 1"
note = "another instance"

[[published]]
algorithm = "default"
problem = { n_arms = [1000, 2500] }
mean = 400.0
se = 30.0
source = "A paper, Table 1"
note = "another rule"
"""


RUNS = {
    ("Lazy TS", 0): [380, 400, 420, 440],
    ("Lazy TS", 1): [500, 510, 520],
    ("default", 0): [100, 120, 140, 160, 180],
}
"""Pulls that `write_folder` may write: the last cell has no runs."""


def write_folder(folder: Path, text: str, n_pulls: dict[tuple[str, int], list[int]], **columns: list[Any]) -> Path:
    """Write an experiment and its runs; pulls by label and place among the label's cells, other columns for all."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "experiment.toml").write_text(text, "utf-8")
    places: dict[str, int] = {}
    rows = []
    for cell in read_experiment(folder / "experiment.toml").cells():
        place = places[cell.algorithm.label] = places.get(cell.algorithm.label, -1) + 1
        rows += _rows(cell, n_pulls.get((cell.algorithm.label, place), []), columns)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema()), folder / "runs.parquet", row_group_size=3)
    return folder


def _rows(cell: Cell, n_pulls: list[int], columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    usual = {
        "stopped": True,
        "correct": True,
        "support": 4,
        "seconds": 0.002,
        "evidence": 3.5,
        "target": 3.0,
        "lower_bound": 100.0,
        "version": "1.2.3",
        "design_support": 2.5,
    }
    given = [{name: values[run] for name, values in columns.items()} for run in range(len(n_pulls))]
    common = {**cell_columns(cell), **usual}
    return [{**common, "run": run, "n_pulls": n, "cost": n, **given[run]} for run, n in enumerate(n_pulls)]


def label_text(label: str) -> str:
    """The experiment with another label for the default."""
    return PAPER.replace('"default"', json.dumps(label))


def summaries_of(folder: Path) -> dict[tuple[str, int], Summary]:
    """Summaries by label and number of arms."""
    return {(s.label, s.cell.arguments["n_arms"]): s for s in read_section(folder).summaries}
