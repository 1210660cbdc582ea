"""What a report says about the runs of an experiment: statistics of each cell, and how they stand to published figures.

The runs of one cell at a time are read from the table, and of them only the summary is kept.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from surepick.errors import SurepickError
from surepick.simulation.experiment import Cell, Experiment, Published
from surepick.simulation.experiment_file import read_experiment
from surepick.simulation.runs import Array, Runs
from surepick.simulation.store import EXPERIMENT, TABLE, check_table

COLUMNS = (
    "run",
    "n_pulls",
    "stopped",
    "correct",
    "support",
    "seconds",
    "evidence",
    "target",
    "lower_bound",
    "version",
)
BOX = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles that a box in a plot shows."""
WITHIN = 3.0
"""Differences of up to so many combined standard errors count as agreement: chance exceeds them once in 370 times."""


class Estimated(NamedTuple):
    """A mean over runs and its standard error, NaN for a single run."""

    mean: float
    se: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A published figure beside ours."""

    published: Published
    ours: Estimated | None
    """None if there are no runs."""
    z: float
    """Ours minus theirs in combined standard errors; NaN if it cannot be told."""
    statement: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What is kept of the runs of one cell."""

    cell: Cell
    n_runs: int
    quantities: Mapping[str, Estimated]
    """By column: n_pulls, seconds, support; with lower bounds also ratio and lower_bound; evidence and target."""
    median: float
    quantile_90: float
    box: Array
    n_errors: int
    error_interval: tuple[float, float]
    n_unfinished: int
    versions: tuple[str, ...]
    compared: tuple[Compared, ...]

    @property
    def label(self) -> str:
        """Label of the algorithm."""
        return self.cell.algorithm.label

    def value(self, quantity: str) -> Estimated | None:
        """Mean and standard error of a quantity; None without runs, or without lower bounds."""
        return self.quantities.get(quantity)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One experiment of a report."""

    experiment: Experiment
    summaries: tuple[Summary, ...]
    written: datetime | None
    """When the runs were last added to; None if there are none."""

    @property
    def n_runs(self) -> int:
        """All runs together."""
        return sum(summary.n_runs for summary in self.summaries)

    @property
    def versions(self) -> tuple[str, ...]:
        """Versions of the software that the runs were made with."""
        return tuple(sorted({version for summary in self.summaries for version in summary.versions}))

    def varying(self, problem: str) -> list[str]:
        """Arguments of which this problem has several values, in the order of the file."""
        cells = [summary.cell for summary in self.summaries if summary.cell.problem.name == problem]
        names = dict.fromkeys(name for cell in cells for name in cell.arguments)
        return [name for name in names if len({repr(cell.arguments.get(name)) for cell in cells}) > 1]

    def problem(self, summary: Summary) -> str:
        """The problem of a cell in words: its name where there are several, and the arguments that vary."""
        return self.other_arguments(summary, "") or summary.cell.problem.name

    def other_arguments(self, summary: Summary, argument: str) -> str:
        """The same without one of the arguments; empty if nothing else varies."""
        cell, names = summary.cell, {other.cell.problem.name for other in self.summaries}
        own = [name for name in self.varying(cell.problem.name) if name in cell.arguments and name != argument]
        return ", ".join([cell.problem.name] * (len(names) > 1) + [f"{name} {cell.arguments[name]}" for name in own])


def read_section(folder: Path) -> Section:
    """Read a folder of results.

    Raises:
        InvalidInput: the folder has no experiment, or one that cannot be used.
        SurepickError: the table of runs is damaged.
    """
    experiment = read_experiment(folder / EXPERIMENT)
    table = folder / TABLE
    has_runs = table.exists()
    cells = {cell.key: cell for cell in experiment.cells()}
    summaries = {key: summarize(cell, None, experiment.published) for key, cell in cells.items()}
    for key, columns in _by_cell(table) if has_runs else ():
        if key in cells:  # a table also keeps runs of cells that the experiment has no more
            summaries[key] = summarize(cells[key], columns, experiment.published)
    written = datetime.fromtimestamp(table.stat().st_mtime, UTC) if has_runs else None
    return Section(experiment=experiment, summaries=tuple(summaries.values()), written=written)


def _by_cell(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The runs of one cell after the other, as the table has them; no more than a cell and a group is in memory."""
    key: str | None = None
    pieces: list[Any] = []
    with check_table(path) as file:
        for number in range(file.num_row_groups):
            try:
                table = file.read_row_group(number, columns=["key", *COLUMNS])
            except OSError as error:
                raise SurepickError(f"{path} is damaged; move it away to do its runs again.") from error
            keys = table["key"].to_numpy()
            edges = [0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist(), len(keys)]
            for start, end in pairwise(edges):
                if pieces and keys[start] != key:
                    yield str(key), _arrays(pieces)
                    pieces = []
                key = keys[start]
                pieces.append(table.slice(start, end - start))
    if pieces:
        yield str(key), _arrays(pieces)


def _arrays(pieces: Sequence[Any]) -> dict[str, Any]:
    return {name: np.concatenate([piece[name].to_numpy() for piece in pieces]) for name in COLUMNS}


def summarize(cell: Cell, columns: Mapping[str, Any] | None, published: Sequence[Published] = ()) -> Summary:
    """Reduce the runs of a cell (arrays by column; None for no runs) to what a report shows."""
    figures = [figure for figure in published if figure.is_about(cell)]
    n_runs = 0 if columns is None else len(columns["run"])
    if columns is None or n_runs == 0:
        return Summary(
            cell=cell,
            n_runs=0,
            quantities={},
            median=math.nan,
            quantile_90=math.nan,
            box=np.full(len(BOX), math.nan),
            n_errors=0,
            error_interval=(0.0, 1.0),
            n_unfinished=0,
            versions=(),
            compared=tuple(compare(figure, cell, None, n_unfinished=0) for figure in figures),
        )
    runs = _as_runs(cell, columns)
    quantities = {
        name: estimated(np.asarray(columns[name], dtype=np.float64))
        for name in ("n_pulls", "seconds", "support", "evidence", "target")
    }
    if runs.lower_bound is not None:
        quantities |= {"lower_bound": estimated(runs.lower_bound), "ratio": estimated(runs.ratio)}
    return Summary(
        cell=cell,
        n_runs=n_runs,
        quantities=quantities,
        median=runs.median,
        quantile_90=float(runs.quantiles([0.9])[0]),
        box=runs.quantiles(BOX),
        n_errors=runs.n_errors,
        error_interval=runs.error_interval(),
        n_unfinished=runs.n_unfinished,
        versions=tuple(sorted({str(version) for version in columns["version"]})),
        compared=tuple(
            compare(figure, cell, quantities[figure.quantity], n_unfinished=runs.n_unfinished) for figure in figures
        ),
    )


def _as_runs(cell: Cell, columns: Mapping[str, Any]) -> Runs:
    bound = np.asarray(columns["lower_bound"], dtype=np.float64)
    return Runs(
        problem=cell.problem.name,
        is_redrawn=cell.problem.redraw,
        algorithm=cell.algorithm.label,
        options=cell.algorithm.options,
        delta=cell.delta,
        epsilon=cell.problem.slack(cell.arguments),
        seed=cell.seed,
        max_pulls=cell.max_pulls,
        index=columns["run"],
        n_pulls=columns["n_pulls"],
        correct=np.asarray(columns["correct"], dtype=np.bool_),
        stopped=np.asarray(columns["stopped"], dtype=np.bool_),
        seconds=columns["seconds"],
        support=columns["support"],
        lower_bound=bound if np.isfinite(bound).all() else None,
    )


def estimated(values: Array) -> Estimated:
    """Mean and standard error."""
    n = len(values)
    with np.errstate(over="ignore", invalid="ignore"):  # evidence can be infinite: a rival that no result speaks for
        return Estimated(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan)


def compare(figure: Published, cell: Cell, ours: Estimated | None, *, n_unfinished: int) -> Compared:
    """Put a published figure beside ours and say in plain words how they stand to each other.

    Without a published standard error ours alone counts. A cell that repeats a published method (`variant = "paper"`,
    or a plug-in) can agree or differ in its pulls; one with rules of our own can also be better, if it needs fewer.
    Less time is better too, but for a plug-in, which shows how much of that is due to the computer.
    """
    if ours is None:
        return Compared(published=figure, ours=None, z=math.nan, statement="no runs yet")
    z = z_score(ours, Estimated(figure.mean, figure.se or 0.0))
    is_plugin = cell.algorithm.plugin is not None
    is_repeated = is_plugin or cell.algorithm.options.get("variant") == "paper"
    can_be_better = {"n_pulls": not is_repeated, "seconds": not is_plugin, "support": False}[figure.quantity]
    if n_unfinished and figure.quantity == "n_pulls":
        statement = f"cannot be told: {n_unfinished} runs did not stop, so our mean is too small"
    elif math.isnan(z):
        statement = "cannot be told from one run"
    elif abs(z) <= WITHIN:
        statement = "agrees"
    else:
        word = "better" if z < 0 and can_be_better else "differs"
        statement = f"{word}: {figure.note}" if figure.note else word
    return Compared(published=figure, ours=ours, z=z, statement=statement)


def z_score(ours: Estimated, theirs: Estimated) -> float:
    """The difference in combined standard errors; NaN if ours is unknown."""
    difference, spread = ours.mean - theirs.mean, math.hypot(ours.se, theirs.se)
    if math.isnan(spread) or spread > 0.0:
        return difference / spread
    return math.copysign(math.inf, difference) if difference else 0.0
