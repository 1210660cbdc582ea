"""What a report says about the runs of an experiment: statistics of each cell, and how they stand to published figures.

The runs of one cell at a time are read from `runs.parquet`, and of them only the summary is kept.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from surepick.errors import InvalidInput, SurepickError
from surepick.simulation.experiment import Cell, Experiment, Published, read_experiment
from surepick.simulation.runs import Array, Runs

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

    @property
    def varying(self) -> list[str]:
        """Arguments that not all problems share, in the order of the file."""
        values: dict[str, list[Any]] = {}
        for summary in self.summaries:
            for name in {**summary.cell.arguments}:
                values.setdefault(name, [])
        for name, seen in values.items():
            seen.extend(summary.cell.arguments.get(name) for summary in self.summaries)
        return [name for name, seen in values.items() if any(value != seen[0] for value in seen)]

    def problem(self, summary: Summary) -> str:
        """The problem of a cell in words: its name where there are several, and the arguments that vary."""
        cell = summary.cell
        names = {other.cell.problem.name for other in self.summaries}
        arguments = [f"{name} {cell.arguments[name]}" for name in self.varying if name in cell.arguments]
        return ", ".join([cell.problem.name] * (len(names) > 1 or not arguments) + arguments)


def read_section(folder: Path) -> Section:
    """Read a folder of results.

    Raises:
        InvalidInput: the folder has no experiment, or its runs lack a column.
    """
    experiment = read_experiment(folder / "experiment.toml")
    file = folder / "runs.parquet"
    written = datetime.fromtimestamp(file.stat().st_mtime, UTC) if file.exists() else None
    summaries = tuple(
        summarize(cell, _columns(file, cell.key) if written is not None else None, experiment.published)
        for cell in experiment.cells()
    )
    return Section(experiment=experiment, summaries=summaries, written=written)


def _columns(file: Path, key: str) -> dict[str, Any]:
    """The runs of one cell, in order, as arrays."""
    try:
        from pyarrow import ArrowInvalid, parquet  # noqa: PLC0415 (optional, and slow to import)
    except ImportError as error:
        raise SurepickError("a report needs pyarrow; install surepick[bench].") from error
    try:
        # Row groups that cannot hold the key are skipped by their statistics: runs are sorted by cell.
        table = parquet.read_table(file, columns=list(COLUMNS), filters=[("key", "=", key)])
    except (ArrowInvalid, KeyError, OSError) as error:
        raise InvalidInput(f"{file} must hold runs in Parquet, got an unreadable file: {error}.") from error
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise InvalidInput(f"{file} must have the columns {', '.join(COLUMNS)}, got none named {missing[0]!r}.")
    table = table.sort_by("run")
    return {name: np.asarray(table.column(name)) for name in COLUMNS}


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
    return Estimated(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan)


def compare(figure: Published, cell: Cell, ours: Estimated | None, *, n_unfinished: int) -> Compared:
    """Put a published figure beside ours and say in plain words how they stand to each other.

    Without a published standard error ours alone counts. A cell that repeats a published method (`variant = "paper"`,
    or a plug-in) can agree or differ; one with rules of our own can also be better, if it needs fewer pulls. Less time
    is better for whoever takes it.
    """
    if ours is None:
        return Compared(published=figure, ours=None, z=math.nan, statement="no runs yet")
    z = z_score(ours, Estimated(figure.mean, figure.se or 0.0))
    is_repeated = cell.algorithm.plugin is not None or cell.algorithm.options.get("variant") == "paper"
    can_be_better = figure.quantity == "seconds" or (figure.quantity == "n_pulls" and not is_repeated)
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
