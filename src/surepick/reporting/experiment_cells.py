"""Statistics of each cell of an experiment, compared with published figures.

Runs are read from the table cell by cell, and only the summary of a cell stays in memory.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, final

import numpy as np

from surepick.simulation.experiment import Cell, Experiment, Published, read_experiment
from surepick.simulation.runs import error_interval
from surepick.simulation.store import EXPERIMENT, TABLE, read_cells
from surepick.types import Array

MEASURED = ("n_pulls", "seconds", "support", "evidence", "target")
COLUMNS = ("run", "stopped", "correct", "lower_bound", "version", *MEASURED)
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95)
"""Levels of the quantiles of the pulls in a summary."""
WITHIN = 3.0
"""Figures agree within this number of combined standard errors; chance exceeds it once in 370 times."""

Verdict = Literal["agrees", "better", "differs", "open"]


class Estimated(NamedTuple):
    """A mean over runs and its standard error; NaN for a single run."""

    mean: float
    se: float


class Compared(NamedTuple):
    """A published figure beside ours."""

    published: Published
    z: float
    """Ours minus theirs in combined standard errors; NaN if unknown."""
    verdict: Verdict
    why: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Summary of the runs of one cell; the defaults are those of a cell without runs."""

    cell: Cell
    compared: tuple[Compared, ...]
    n_runs: int = 0
    quantities: Mapping[str, Estimated] = field(default_factory=dict)
    """Means by column: the columns of `MEASURED`, with lower bounds also ratio and lower_bound."""
    quantiles: Mapping[float, float] = field(default_factory=dict)
    """Quantiles of the pulls, by level."""
    n_errors: int = 0
    error_interval: tuple[float, float] = (0.0, 1.0)
    n_unfinished: int = 0
    versions: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Label of the algorithm."""
        return self.cell.algorithm.label

    @property
    def errs_too_often(self) -> bool:
        """Whether chance does not explain the number of wrong answers."""
        return self.error_interval[0] > self.cell.delta

    @property
    def is_fair(self) -> bool:
        """Whether the pulls are comparable: all runs stopped, errors are rare, and the algorithm was not told theta."""
        return not (self.n_unfinished or self.errs_too_often or "theta" in self.cell.algorithm.knows)


class Section(NamedTuple):
    """One experiment of a report."""

    experiment: Experiment
    summaries: tuple[Summary, ...]
    written: datetime | None
    """Time of the last saved run; None without runs."""

    @property
    def compared(self) -> list[tuple[Summary, Compared]]:
        """All published figures, each with its cell."""
        return [(summary, compared) for summary in self.summaries for compared in summary.compared]

    def varying(self, problem: str) -> list[str]:
        """Return the arguments, delta among them, with several values for this problem, in the order of the file."""
        cells = [_arguments(summary.cell) for summary in self.summaries if summary.cell.problem.name == problem]
        names = dict.fromkeys(name for arguments in cells for name in arguments)
        return [name for name in names if len({repr(arguments.get(name)) for arguments in cells}) > 1]

    def rest(self, summary: Summary, without: str) -> str:
        """Return the varying part of a cell's problem as text, except `without`: name, arguments, risk; or ""."""
        name, own = summary.cell.problem.name, _arguments(summary.cell)
        has_others = any(other.cell.problem.name != name for other in self.summaries)
        words = [f"{key} {own[key]}" for key in self.varying(name) if key in own and key != without]
        return ", ".join([name] * has_others + words)

    def place(self, summary: Summary, without: str = "") -> str:
        """Return `rest`, or the name of the problem if nothing varies."""
        return self.rest(summary, without) or summary.cell.problem.name


def _arguments(cell: Cell) -> dict[str, Any]:
    return {**cell.arguments, "delta": cell.delta}


def grouped(summaries: Iterable[Summary], label: Callable[[Summary], str]) -> dict[str, list[Summary]]:
    """Return the cells by label, in their order."""
    groups: dict[str, list[Summary]] = {}
    for summary in summaries:
        groups.setdefault(label(summary), []).append(summary)
    return groups


def read_section(folder: Path) -> Section:
    """Read a folder of results.

    Raises:
        InvalidInput: the folder has no experiment, or an invalid one.
        SurepickError: the table of runs is damaged.
    """
    experiment = read_experiment(folder / EXPERIMENT)
    table = folder / TABLE
    has_runs = table.exists()
    cells = {cell.key: cell for cell in experiment.cells()}
    summaries = {key: summarize(cell, None, experiment.published) for key, cell in cells.items()}
    for key, columns in read_cells(table, COLUMNS) if has_runs else ():
        if key in cells:  # a table also has runs of cells that the experiment no longer has
            summaries[key] = summarize(cells[key], columns, experiment.published)
    written = datetime.fromtimestamp(table.stat().st_mtime, UTC) if has_runs else None
    return Section(experiment=experiment, summaries=tuple(summaries.values()), written=written)


def summarize(cell: Cell, columns: Mapping[str, Any] | None, published: Sequence[Published] = ()) -> Summary:
    """Reduce the runs of a cell (arrays by column; None for no runs) to the numbers of a report."""
    figures = [figure for figure in published if figure.is_about(cell)]
    if columns is None or not len(columns["run"]):
        return Summary(cell=cell, compared=tuple(compare(figure, cell, None, n_unfinished=0) for figure in figures))
    values = {name: np.asarray(columns[name], dtype=np.float64) for name in MEASURED}
    bound = np.asarray(columns["lower_bound"], dtype=np.float64)
    if np.isfinite(bound).all():
        with np.errstate(divide="ignore"):  # a risk of one half has the lower bound 0
            values |= {"lower_bound": bound, "ratio": values["n_pulls"] / bound}
    quantities = {name: estimated(array) for name, array in values.items()}
    n_unfinished, n_errors = int((~columns["stopped"]).sum()), int((columns["stopped"] & ~columns["correct"]).sum())
    ours = [compare(figure, cell, quantities[figure.quantity], n_unfinished=n_unfinished) for figure in figures]
    return Summary(
        cell=cell,
        compared=tuple(ours),
        n_runs=len(bound),
        quantities=quantities,
        quantiles=dict(zip(LEVELS, np.quantile(values["n_pulls"], LEVELS).tolist(), strict=True)),
        n_errors=n_errors,
        error_interval=error_interval(n_errors, len(bound)),
        n_unfinished=n_unfinished,
        versions=tuple(sorted(set(columns["version"]))),
    )


def estimated(values: Array) -> Estimated:
    """Return mean and standard error."""
    n = len(values)
    with np.errstate(over="ignore", invalid="ignore"):  # evidence can be infinite
        return Estimated(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan)


def compare(figure: Published, cell: Cell, ours: Estimated | None, *, n_unfinished: int) -> Compared:
    """Compare a published figure with ours (None without runs).

    Without a published standard error, the comparison uses ours alone. A cell that repeats a published method
    (`variant = "paper"`, or a plug-in) agrees or differs in its pulls; a cell with another method can also be better,
    if it needs fewer pulls. Less time is better too, except for a plug-in, whose time shows the speed of the computer.
    """
    z = math.nan if ours is None else z_score(ours, Estimated(figure.mean, figure.se or 0.0))
    is_plugin = cell.algorithm.plugin is not None
    is_repeated = is_plugin or cell.algorithm.options.get("variant") == "paper"
    can_be_better = {"n_pulls": not is_repeated, "seconds": not is_plugin, "support": False}[figure.quantity]
    verdict: Verdict = "open"
    if ours is None:
        why = "no runs yet"
    elif n_unfinished and figure.quantity == "n_pulls":
        why = f"{n_unfinished} runs did not stop, so our mean is too small"
    elif math.isnan(z):
        why = "one run has no standard error"
    elif abs(z) <= WITHIN:
        verdict, why = "agrees", ""
    else:
        verdict = "better" if z < 0 and can_be_better else "differs"
        why = figure.note or ("no reason is known" if verdict == "differs" else "")
    return Compared(published=figure, z=z, verdict=verdict, why=why)


def z_score(ours: Estimated, theirs: Estimated) -> float:
    """Return the difference in combined standard errors; NaN if ours is unknown."""
    difference, spread = ours.mean - theirs.mean, math.hypot(ours.se, theirs.se)
    if math.isnan(spread) or spread > 0.0:
        return difference / spread
    return math.copysign(math.inf, difference) if difference else 0.0
