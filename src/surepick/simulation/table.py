"""Runs read back from a table: its columns by cell, and the runs of a cell."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from surepick.simulation.experiment import Cell
from surepick.simulation.runs import Runs
from surepick.simulation.store import check_table, damaged


def columns_by_cell(path: Path) -> dict[str, dict[str, Any]]:
    """Return the columns of a table as arrays, by the key of the cell, in the order of the table."""
    with check_table(path) as file:
        try:
            table = file.read()
        except (OSError, ValueError) as error:
            raise damaged(path) from error
    columns = {name: table[name].to_numpy() for name in table.column_names}
    keys, places, of_row = np.unique(columns["key"], return_index=True, return_inverse=True)
    return {
        str(keys[number]): {name: values[of_row == number] for name, values in columns.items()}
        for number in np.argsort(places)
    }


def runs_of(cell: Cell, columns: Mapping[str, Any], n_runs: int) -> Runs:
    """Return the runs of a cell below number n_runs."""
    own = {name: values[columns["run"] < n_runs] for name, values in columns.items()}
    bound = np.asarray(own["lower_bound"], dtype=np.float64)
    return Runs(
        problem=cell.problem.name,
        is_redrawn=cell.problem.redraw,
        algorithm=cell.algorithm.label,
        options=cell.algorithm.options,
        delta=cell.delta,
        epsilon=cell.problem.slack(cell.arguments),
        seed=cell.seed,
        max_pulls=cell.max_pulls,
        index=own["run"],
        **{name: own[name] for name in ("n_pulls", "correct", "stopped", "seconds", "support")},
        lower_bound=bound if np.isfinite(bound).all() else None,
    )
