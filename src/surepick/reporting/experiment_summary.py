"""The numbers of a report on experiments: the summary of each cell, beside published figures.

Every number comes from the runs in the folders: runs are read from the table cell by cell, and only the summary of a
cell stays in memory.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, final

import numpy as np

from surepick.simulation import experiment as experiments
from surepick.simulation.experiment import Experiment, Published, read_experiment
from surepick.simulation.jobs import job_of
from surepick.simulation.run import has_normal_noise, instance_of, new_learner, run_seeds
from surepick.simulation.runs import brief, error_interval
from surepick.simulation.store import EXPERIMENT, TABLE, file_of_runs, read_cells, wanted_runs
from surepick.types import Array

MEASURED = ("n_pulls", "seconds", "support", "design_support", "evidence", "target")
COLUMNS = ("run", "stopped", "correct", "lower_bound", "version", "cost", *MEASURED)
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95)
"""Levels of the quantiles of the pulls in a summary."""
WITHIN = 3.0
"""Figures agree within this number of combined standard errors; chance exceeds it once in 370 times."""

SURE = ("proved", "published", "")
"""Guarantees with which an algorithm competes; "" is one that is not known."""

Verdict = Literal["agrees", "better", "differs", "open"]


class Estimated(NamedTuple):
    """A mean over runs and its standard error; NaN for a single run."""

    mean: float
    se: float


class Claim(NamedTuple):
    """The stopping rule of an algorithm, and what is claimed of it; the defaults are those of an unknown rule."""

    rule: str = ""
    guarantee: str = ""
    is_own: bool = True
    """Whether the rule is one of surepick; of another, its class says what is claimed."""
    is_normal: bool = False
    """Whether the noise is the normal one that lower bounds are for."""

    @property
    def words(self) -> str:
        """The guarantee as the report says it."""
        says_so = not self.is_own and self.guarantee not in ("none", "")
        return f"{self.guarantee} (says the class)" if says_so else self.guarantee


UNKNOWN = Claim()


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

    cell: experiments.Cell
    compared: tuple[Compared, ...]
    n_runs: int = 0
    quantities: Mapping[str, Estimated] = field(default_factory=dict)
    """Means by column: those of `MEASURED`; with costs also cost; with lower bounds also ratio and lower_bound."""
    quantiles: Mapping[float, float] = field(default_factory=dict)
    """Quantiles of the pulls, by level."""
    n_errors: int = 0
    error_interval: tuple[float, float] = (0.0, 1.0)
    n_unfinished: int = 0
    versions: tuple[str, ...] = ()
    claim: Claim = UNKNOWN

    @property
    def label(self) -> str:
        """Label of the algorithm."""
        return self.cell.algorithm.label

    @property
    def spends_all(self) -> bool:
        """Whether the runs spend a fixed budget: their pulls say nothing, and they promise no risk."""
        return bool(self.cell.algorithm.options.get("goal") == "fixed-budget")

    @property
    def errs_too_often(self) -> bool:
        """Whether chance does not explain the number of wrong answers."""
        return not self.spends_all and self.error_interval[0] > self.cell.delta

    @property
    def rule(self) -> str:
        """Name of the stopping rule; "" if it is not known, or a fixed budget is spent."""
        return "" if self.spends_all else self.claim.rule

    @property
    def is_told(self) -> bool:
        """Whether the algorithm was told theta."""
        return "theta" in self.cell.algorithm.knows

    @property
    def is_below_bound(self) -> bool:
        """Whether the mean is so far below the lower bound that the method cannot be right on all problems."""
        mean, se = self.quantities.get("ratio", Estimated(math.nan, math.nan))
        return self.claim.is_normal and not (self.n_unfinished or self.is_told) and mean + WITHIN * se < 1.0

    @property
    def is_fair(self) -> bool:
        """Whether the pulls are comparable.

        All runs stopped, at most a share delta of them with a wrong answer, the algorithm was not told theta, claims a
        guarantee, and is not below the minimum.
        """
        errs = self.n_errors > self.cell.delta * self.n_runs
        is_sure = self.claim.guarantee in SURE
        return is_sure and not (self.n_unfinished or errs or self.is_told or self.is_below_bound)


class Section(NamedTuple):
    """One experiment of a report."""

    experiment: Experiment
    summaries: tuple[Summary, ...]
    written: datetime | None
    """Time of the last saved run; None without runs."""
    n_wanted: int = 0
    """Runs of each cell that the last sweep was to make; 0 if unknown."""

    @property
    def compared(self) -> list[tuple[Summary, Compared]]:
        """All published figures, each with its cell."""
        return [(summary, compared) for summary in self.summaries for compared in summary.compared]

    def varying(self, problem: str) -> list[str]:
        """Return the arguments, delta among them, with several values for this problem, in the order of the file."""
        cells = [_arguments(summary.cell) for summary in self.summaries if summary.cell.problem.title == problem]
        names = dict.fromkeys(name for arguments in cells for name in arguments)
        return [name for name in names if len({repr(arguments.get(name)) for arguments in cells}) > 1]

    def rest(self, summary: Summary, without: str) -> str:
        """Return the varying part of a cell's problem as text, except `without`: name, arguments, risk; or ""."""
        name, own = summary.cell.problem.title, _arguments(summary.cell)
        varying = self.varying(name)
        label = "" if without in varying else summary.cell.label  # a label would tell the points of a line apart
        has_others = any(
            ((other.cell.label if label else "") or other.cell.problem.title) != (label or name)
            for other in self.summaries
        )
        if label:
            varying = [key for key in varying if key == "delta"]
        words = [f"{key} {brief(own[key])}" for key in varying if key in own and key != without]
        same = [f"({summary.cell.number})"] * bool(summary.cell.number)
        return " ".join([", ".join([label or name] * has_others + words), *same]).strip()

    def place(self, summary: Summary, without: str = "") -> str:
        """Return `rest`, or the name of the problem if nothing varies."""
        return self.rest(summary, without) or summary.cell.label or summary.cell.problem.title


def _arguments(cell: experiments.Cell) -> dict[str, Any]:
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
    return section_of(read_experiment(folder / EXPERIMENT), folder / TABLE)


def section_of(experiment: Experiment, table: Path, n_runs: float = math.inf) -> Section:
    """Summarize the runs of an experiment in a table that may be missing; of each cell the runs below `n_runs`."""
    file = file_of_runs(table)
    has_runs = file.exists()
    cells = {cell.key: cell for cell in experiment.cells()}
    summaries = {key: summarize(cell, None, experiment.published) for key, cell in cells.items()}
    for key, columns in read_cells(table, COLUMNS) if has_runs else ():
        if key in cells:  # a table also has runs of cells that the experiment no longer has
            wanted = {name: values[columns["run"] < n_runs] for name, values in columns.items()}
            summaries[key] = summarize(cells[key], wanted, experiment.published)
    labels = {summary.label: summary for summary in summaries.values() if summary.n_runs}
    claims = {label: claim_of(summary.cell) for label, summary in labels.items()}
    summaries = {key: replace(one, claim=claims.get(one.label, UNKNOWN)) for key, one in summaries.items()}
    written = datetime.fromtimestamp(file.stat().st_mtime, UTC) if has_runs else None
    return Section(experiment, tuple(summaries.values()), written, wanted_runs(table.parent))


def claim_of(cell: experiments.Cell) -> Claim:
    """Return what the algorithm claims on the problem of a cell; nothing is known if it cannot be made any more."""
    try:
        job, seeds = job_of(replace(cell, bounds=False)), run_seeds(cell.seed, 0)
        instance = instance_of(job, seeds)
        learner = new_learner(job, instance, seeds.learner)
        rule, guarantee = learner.rule, learner.decision.guarantee
    except Exception:  # noqa: BLE001 (a plug-in of the user, or options of another version; the runs are there)
        return UNKNOWN
    is_normal = instance.pull is None and has_normal_noise(cell.algorithm.options)
    return Claim(rule.name, guarantee, is_own=rule.is_of_package, is_normal=is_normal)


def summarize(
    cell: experiments.Cell, columns: Mapping[str, Any] | None, published: Sequence[Published] = ()
) -> Summary:
    """Reduce the runs of a cell (arrays by column; None for no runs) to the numbers of a report."""
    figures = [figure for figure in published if figure.is_about(cell)]
    if columns is None or not len(columns["run"]):
        return Summary(cell=cell, compared=tuple(compare(figure, cell, None, n_unfinished=0) for figure in figures))
    values = {name: np.asarray(columns[name], dtype=np.float64) for name in MEASURED}
    bound = np.asarray(columns["lower_bound"], dtype=np.float64)
    spends_all = Summary(cell=cell, compared=()).spends_all  # pulls that are given have no ratio
    spent = values["n_pulls"]
    if "costs" in cell.algorithm.options:
        spent = values["cost"] = np.asarray(columns["cost"], dtype=np.float64)
    if np.isfinite(bound).all() and not spends_all:
        with np.errstate(divide="ignore"):  # a risk of one half has the lower bound 0
            values |= {"lower_bound": bound, "ratio": spent / bound}
    quantities = {name: estimated(array) for name, array in values.items() if not np.isnan(array).all()}
    quantities["error"] = estimated_share(columns["stopped"] & ~columns["correct"])
    n_unfinished, n_errors = int((~columns["stopped"]).sum()), int((columns["stopped"] & ~columns["correct"]).sum())
    n = {"n_unfinished": n_unfinished, "n_runs": len(bound)}
    ours = [compare(figure, cell, quantities.get(figure.quantity), **n) for figure in figures]
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


def estimated_share(happened: Any) -> Estimated:
    """Return a share and its standard error, which is not 0 for 0 of n: it is that of (k + 1)/(n + 2)."""
    n, k = len(happened), int(np.sum(happened))
    near = (k + 1) / (n + 2)
    return Estimated(k / n, math.sqrt(near * (1.0 - near) / n))


def compare(
    figure: Published, cell: experiments.Cell, ours: Estimated | None, *, n_unfinished: int, n_runs: int = 1
) -> Compared:
    """Compare a published figure with ours (None without runs).

    Without a published standard error, the comparison uses ours alone. Where the published runs scatter more than
    ours, the standard error of as many of theirs stands for ours. A cell that repeats a published method
    (`variant = "paper"`, or a plug-in) agrees or differs in its pulls; a cell with another method can also be better,
    if it needs fewer pulls. Less time is better too, except for a plug-in, whose time shows the speed of the computer.
    """
    if ours is not None and figure.std is not None:
        ours = ours._replace(se=float(np.fmax(ours.se, figure.std / math.sqrt(n_runs))))
    z = math.nan if ours is None else z_score(ours, Estimated(figure.mean, figure.se or 0.0))
    is_plugin = cell.algorithm.plugin is not None
    is_repeated = is_plugin or cell.algorithm.options.get("variant") == "paper"
    can_be_better = {
        "n_pulls": not is_repeated, "seconds": not is_plugin, "support": False, "design_support": False,
        "error": not is_repeated,
    }[figure.quantity]  # fmt: skip
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
