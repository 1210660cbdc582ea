"""Reports of experiments: Markdown, one HTML page that needs no other file, and figures as PNG and SVG.

Every number comes from the runs in the folders: runs are read from the table cell by cell, and only the summary of a
cell stays in memory. This module computes the summaries, writes the sentences and chooses the figures, and two
templates lay out the page. Published figures come first, with a count of how many agree with ours.

The grid of an experiment determines its figures: means against each numeric argument, against the risk and against the
schedule; the distribution of the pulls, unless there are too many cells; and the growth of evidence in one run.
"""

import html
import math
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple, final

import numpy as np

from surepick.errors import InvalidInput
from surepick.learning.learner import Learner
from surepick.reporting.figures import COLORS, GREY, INK, draw_line, frame, plain, save
from surepick.reporting.html import Cell, Table, data_uri, template
from surepick.simulation import experiment as experiments
from surepick.simulation.experiment import Experiment, Published, job_of, read_experiment
from surepick.simulation.run import OF_REWARDS, instance_of, new_learner, run_once, run_seeds
from surepick.simulation.runs import brief, error_interval, latex_table, latex_text
from surepick.simulation.store import EXPERIMENT, TABLE, file_of_runs, read_cells, wanted_runs
from surepick.types import Array

NOTHING = "-"
WORDS = {"agrees": "agree", "better": "better", "differs": "differ", "open": "cannot be told"}
LONG = 12
"""Rows above which the table of all cells is folded."""
GROWTH = 1.05
"""Growth of the pulls between two points of an evidence path; each point costs a pass over the arms."""
MARKERS = "os^Dv<>P"
DASHES = ("--", "-.", (0, (1, 1.5)), (0, (6, 2)))
QUANTITIES = {
    "n_pulls": "pulls",
    "seconds": "CPU seconds",
    "support": "arms pulled",
    "design_support": "arms in a design",
    "ratio": "pulls / lower bound",
    "error": "share of wrong answers",
}
BESIDE = {"n_pulls": "lower_bound", "evidence": "target"}
"""The reference of a quantity."""
MOST_BOXES = 80
"""Cells whose distributions fit into one figure."""
LEGEND_WIDTH = 36
"""Letters in a line of the legend, which has two columns."""
PATH_SECONDS = 3.0
"""Longest time of a run that is repeated to draw its evidence path."""

MEASURED = ("n_pulls", "seconds", "support", "design_support", "evidence", "target")
COLUMNS = ("run", "stopped", "correct", "lower_bound", "version", "cost", *MEASURED)
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95)
"""Levels of the quantiles of the pulls in a summary."""
WITHIN = 3.0
"""Figures agree within this number of combined standard errors; chance exceeds it once in 370 times."""

SURE = ("proved", "published", "")
"""Guarantees with which an algorithm competes; "" is one that is not known."""
TOO_GOOD = (
    "below the minimum: the mean is more than 3 standard errors below the lower bound, which holds for every method "
    "that is right with probability 1 - delta on all problems. So this method cannot be right with 1 - delta on all "
    "problems."
)

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
    ours = [compare(figure, cell, quantities.get(figure.quantity), n_unfinished=n_unfinished) for figure in figures]
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


def compare(figure: Published, cell: experiments.Cell, ours: Estimated | None, *, n_unfinished: int) -> Compared:
    """Compare a published figure with ours (None without runs).

    Without a published standard error, the comparison uses ours alone. A cell that repeats a published method
    (`variant = "paper"`, or a plug-in) agrees or differs in its pulls; a cell with another method can also be better,
    if it needs fewer pulls. Less time is better too, except for a plug-in, whose time shows the speed of the computer.
    """
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


class Figure(NamedTuple):
    """A caption and the files of its figure."""

    caption: str
    paths: tuple[Path, Path]
    """PNG and SVG."""


class Part(NamedTuple):
    """The part of a report about one experiment."""

    name: str
    title: str
    about: list[str]
    facts: str
    unfinished: str
    """Says that runs are missing; "" if none are."""
    finding: str
    whys: list[str]
    tables: list[Table]
    figures: list[Figure]

    @property
    def pictures(self) -> list[tuple[str, str]]:
        """The figures as data URIs, with their captions."""
        return [(data_uri(figure.paths[1].read_bytes()), figure.caption) for figure in self.figures]


def write_report(folders: Sequence[Path], out: Path, *, latex: bool = False) -> list[Path]:
    """Write report.md, report.html and the figures for folders of results.

    Args:
        folders: each with the `experiment.toml` and the `runs.parquet` of one experiment.
        out: folder of the report; created if missing.
        latex: also write report.tex, a table for each experiment, and every figure as PDF for one and two columns.

    Returns:
        The written files, the two reports first.

    Raises:
        InvalidInput: no folder is given, or one has no experiment.
        SurepickError: a table of runs is damaged, or Jinja2, matplotlib or pyarrow is not installed.
    """
    if not folders:
        raise InvalidInput("a report needs at least one folder of results, got none.")
    # Texts come from files of the user, so both templates escape them.
    templates = {"report.md": template("report.md", finalize=_md), "report.html": template("report.html")}
    sections = sorted((read_section(Path(folder)) for folder in folders), key=lambda s: not s.experiment.published)
    out.mkdir(parents=True, exist_ok=True)
    parts = [part_of(section, draw(section, out, in_paper=latex)) for section in sections]
    context = {
        "title": parts[0].title if len(parts) == 1 else f"Report on {len(parts)} experiments",
        "finding": tally([compared for section in sections for _, compared in section.compared]),
        "parts": parts,
    }
    for name, layout in templates.items():
        (out / name).write_text(layout.render(context).rstrip() + "\n", "utf-8", newline="\n")
    if latex:
        (out / "report.tex").write_text("\n".join(map(latex_of, sections)), "utf-8", newline="\n")
    figures = [path for part in parts for figure in part.figures for path in figure.paths]
    return [*(out / name for name in templates), *figures]


def latex_of(section: Section) -> str:
    """Return mean pulls with standard errors and wrong answers as a LaTeX table: algorithms down, problems across.

    The last row has the lower bounds. A dagger marks cells with runs that did not stop, whose mean is too small, a
    double one cells below the minimum. Cells with a fixed budget have a table of their own, of the share of wrong
    answers.
    """
    return "\n".join(_latex_part(part, is_budget=is_budget) for part, is_budget in _by_goal(section))


def _by_goal(section: Section) -> list[tuple[Section, bool]]:
    """Return the cells that stop by themselves, and those that spend a fixed budget, as far as there are such cells."""
    parts = [
        (section._replace(summaries=tuple(s for s in section.summaries if s.spends_all == is_budget)), is_budget)
        for is_budget in (False, True)
    ]
    return [(part, is_budget) for part, is_budget in parts if part.summaries]


def _latex_part(section: Section, *, is_budget: bool) -> str:
    rows = grouped(section.summaries, lambda summary: summary.label)
    places = list(dict.fromkeys(map(section.place, section.summaries)))
    body = []
    for label, summaries in rows.items():
        of_place = {section.place(summary): summary for summary in summaries}
        assert len(of_place) == len(summaries), "two problems have one name"
        rule = summaries[0].rule or "--"
        body.append([*map(latex_text, (label, rule)), *(_latex_entry(of_place.get(place)) for place in places)])
    bounds = {
        place: dict.fromkeys(f"${s.quantities['lower_bound'].mean:.1f}$" for s in some if "lower_bound" in s.quantities)
        for place, some in grouped(section.summaries, section.place).items()
    }
    if any(bounds.values()):  # they differ where algorithms of one column seek different answers
        body.append(["lower bound", "", *(" / ".join(bounds[place]) or "--" for place in places)])
    has_costs = any("cost" in summary.quantities for summary in section.summaries)
    said = [
        f"{latex_text(section.experiment.title)}: "
        + ("wrong answers in per cent" if is_budget else "pulls, or cost where arms have costs" * has_costs or "pulls"),
        r"mean $\pm$ standard error, wrong answers of the runs in brackets",
        rf"$\delta = {', '.join(f'{delta:g}' for delta in section.experiment.delta)}$, seed {section.experiment.seed}.",
    ]
    if any(summary.n_unfinished for summary in section.summaries):
        said[-1] += r" $\dagger$: some runs did not stop, so the mean is too small."
    if any(summary.is_below_bound for summary in section.summaries):
        said[-1] += rf" $\ddagger$: {TOO_GOOD}"
    table = latex_table(["algorithm", "stopping rule", *map(latex_text, places)], body)
    unfinished = _unfinished(section)
    note = f"% {unfinished}\n" if unfinished else ""
    return f"{note}\\begin{{table}}\n\\centering\n\\caption{{{', '.join(said)}}}\n{table}\\end{{table}}\n"


def _latex_entry(summary: Summary | None) -> str:
    if summary is None or not summary.n_runs:
        return "--"
    wrong = f" ({summary.n_errors} of {summary.n_runs})"
    if summary.spends_all:
        share, se = summary.quantities["error"]
        return rf"${100 * share:.1f} \pm {100 * se:.1f}$" + wrong
    mean, se = summary.quantities["cost" if "cost" in summary.quantities else "n_pulls"]
    spread = "" if math.isnan(se) else rf" \pm {se:.1f}"
    mark = r"^\dagger" * bool(summary.n_unfinished) + r"^\ddagger" * summary.is_below_bound
    return f"${mean:.1f}{spread}{mark}${wrong}"


def _unfinished(section: Section) -> str:
    """Say that runs of the last sweep are missing; "" if none are, or if its number of runs is not known."""
    n_done = sum(min(summary.n_runs, section.n_wanted) for summary in section.summaries)
    n_all = section.n_wanted * len(section.summaries)
    return f"The sweep is not finished: {_count(n_done)} of {_count(n_all)} runs." if n_done < n_all else ""


def part_of(section: Section, figures: list[Figure]) -> Part:
    """Return the part of the report about one experiment."""
    experiment = section.experiment
    has_bounds = any("ratio" in summary.quantities for summary in section.summaries)
    words = {"better": "is better", "differs": "differs", "open": "cannot be told"}
    reasons = Counter((s.label, words[c.verdict], c.why) for s, c in section.compared if c.verdict in words)
    found = [
        ("", _errors_of_budgets(part)) if is_budget else _by_size(part, "ratio" if has_bounds else "n_pulls")
        for part, is_budget in _by_goal(section)
    ]
    return Part(
        name=experiment.name,
        title=experiment.title,
        about=[" ".join(text.split()) for text in experiment.about.split("\n\n") if text.strip()],
        facts=_facts(section),
        unfinished=_unfinished(section),
        finding=tally([compared for _, compared in section.compared]) or " ".join(text for text, _ in found if text),
        whys=[f"{label} {word} ({n}){f': {why}' if why else ''}." for (label, word, why), n in reasons.items()],
        tables=[
            *(_beside_published(section) or [table for _, table in found]),
            *_side_by_side(section),
            _every_cell(section),
        ],
        figures=figures,
    )


def tally(compared: Sequence[Compared]) -> str:
    """Return a sentence that counts agreements with published figures; empty if there are none."""
    counts = Counter[str](one.verdict for one in compared)
    told = [f"{counts[verdict]} {word}" for verdict, word in WORDS.items() if counts[verdict]]
    return f"Of {len(compared)} published figures: {', '.join(told)}." if told else ""


def _facts(section: Section) -> str:
    experiment, counts = section.experiment, [summary.n_runs for summary in section.summaries]
    if section.written is None or not any(counts):
        return f"No runs yet. Seed {experiment.seed}."
    versions = sorted({version for summary in section.summaries for version in summary.versions})
    each = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return (
        f"{_count(sum(counts))} runs, {each} in each of {len(counts)} cells, seed {experiment.seed}, "
        f"at most {_count(experiment.max_pulls)} pulls a run, surepick {' and '.join(versions)}, last run saved "
        f"{section.written:%Y-%m-%d %H:%M} UTC. Runs of the same number share their noise across cells: algorithms are "
        "compared on equal terms, and rows are not independent of each other."
    )


def _beside_published(section: Section) -> list[Table]:
    """Return a table of ours and theirs for each published quantity."""

    def entry(summary: Summary, quantity: str) -> Cell:
        compared = [one for one in summary.compared if one.published.quantity == quantity]
        details: list[str] = []
        for one in compared:
            theirs = _with_se(one.published.mean, math.nan if one.published.se is None else one.published.se)
            details += [f"theirs {theirs}", one.verdict + ("" if math.isnan(one.z) else f", z {one.z:+.1f}")]
        return Cell(_quantity(summary, quantity), "\n".join(details), compared[0].verdict if compared else "")

    published = section.experiment.published
    note = f"Published: {'; '.join(dict.fromkeys(figure.source for figure in published))}."
    return [
        _matrix(section, f"{sentence(quantity)}, ours and published", note, partial(entry, quantity=quantity))
        for quantity in dict.fromkeys(figure.quantity for figure in published)
    ]


def _by_size(section: Section, quantity: str) -> tuple[str, Table]:
    """Return a sentence and a matrix on the fewest pulls.

    An algorithm competes if `Summary.is_fair` says so, with those that seek the same number of arms at the same costs.
    """
    known = [summary for summary in section.summaries if quantity in summary.quantities]
    size = {id(summary): summary.quantities[quantity].mean for summary in known}
    least: dict[str, float] = {}
    best: set[int] = set()
    for rank, members in grouped(known, partial(_rank, section)).items():
        least[rank] = min(size[id(summary)] for summary in members)
        fair = [id(summary) for summary in members if summary.is_fair]
        best |= {one for one in fair if size[one] == min(size[other] for other in fair)}

    def entry(summary: Summary) -> Cell:
        mean, *details = _quantity(summary, quantity).split(" ±")
        is_best, low = id(summary) in best, least.get(_rank(section, summary), 0.0)
        # Some cells have runs but no bound: `bounds` may be off for an algorithm.
        shade = min(1.0, math.log10(size[id(summary)] / low)) if low and id(summary) in size else 0.0
        lines = [f"±{se}" for se in details] + ["wrong too often"] * summary.errs_too_often
        if summary.n_errors > summary.cell.delta * summary.n_runs and not summary.errs_too_often:
            lines.append(f"wrong in {summary.n_errors} of {summary.n_runs}")
        lines += ["below the minimum"] * summary.is_below_bound
        lines += ["no guarantee"] * (summary.claim.guarantee not in SURE)
        return Cell("★\u00a0" * is_best + mean, "\n".join(lines), "best" * is_best, round(shade, 2))

    counts = Counter(summary.label for summary in known if id(summary) in best).most_common()
    wins = [f"{label} ({n} of {len(least)})" for label, n in counts[:4]] + ["others"] * (len(counts) > 4)
    what = "Closest to the lower bound" if quantity == "ratio" else "Fewest pulls"
    finding = f"{what}: {', '.join(wins)}." if wins and len(section.experiment.algorithms) > 1 else ""
    note = (
        "★ marks the least on its problem, among methods that stop, are wrong in at most a share delta of the runs, "
        "are proved or published, are not told theta, and are not below the minimum. The darkest cells have ten times "
        "the least or more."
    )
    if quantity == "ratio" and any("cost" in summary.quantities for summary in known):
        note += " Where arms have costs, the cost is divided by the lower bound on the cost."
    if rules := grouped([one for one in section.summaries if one.rule], attrgetter("rule")):
        named = (f"{rule} ({', '.join(dict.fromkeys(one.label for one in some))})" for rule, some in rules.items())
        note += f" Stopping rules: {', '.join(named)}."
    if any(summary.is_below_bound for summary in known):
        note += f" {TOO_GOOD[0].upper()}{TOO_GOOD[1:]}"
    return finding, _matrix(section, sentence(quantity), note, entry)


def _rank(section: Section, summary: Summary) -> str:
    """Return the problem, with m and costs: pulls are comparable where these are equal."""
    options = summary.cell.algorithm.options
    return f"{section.place(summary)}, m = {options.get('m', 1)}, costs = {options.get('costs')}"


def claim_of(cell: experiments.Cell) -> Claim:
    """Return what the algorithm claims on the problem of a cell; nothing is known if it cannot be made any more."""
    try:
        job, seeds = job_of(replace(cell, bounds=False)), run_seeds(cell.seed, 0)
        instance = instance_of(job, seeds)
        learner = new_learner(job, instance, seeds.learner)
        rule, guarantee = learner.rule, learner.decision.guarantee
    except Exception:  # noqa: BLE001 (a plug-in of the user, or options of another version; the runs are there)
        return UNKNOWN
    is_normal = instance.pull is None and not OF_REWARDS & cell.algorithm.options.keys()
    return Claim(rule.name, guarantee, is_own=rule.is_of_package, is_normal=is_normal)


def _errors_of_budgets(section: Section) -> Table:
    """Return a matrix of the shares of wrong answers, with exact intervals."""

    def entry(summary: Summary) -> Cell:
        if not summary.n_runs:
            return Cell(NOTHING)
        low, high = summary.error_interval
        return Cell(f"{summary.quantities['error'].mean:.3f}", f"{low:.3f} to {high:.3f}")

    note = "All runs spend a fixed budget, so wrong answers are compared. Below: the exact interval at 95 %."
    return _matrix(section, "Share of wrong answers", note, entry)


def _matrix(section: Section, title: str, note: str, entry: Callable[[Summary], Cell]) -> Table:
    """Return a matrix of algorithms and problems, the longer side as rows; empty where there is no cell."""
    entries = {(summary.label, section.place(summary)): entry(summary) for summary in section.summaries}
    assert len(entries) == len(section.summaries), "two problems have one name"
    labels, places = (list(dict.fromkeys(pair[side] for pair in entries)) for side in (0, 1))
    rows = [[entries.get((label, place), Cell("")) for place in places] for label in labels]
    head, down, across = "Algorithm", labels, places
    if len(places) > len(labels):
        head, down, across, rows = "Problem", places, labels, [list(row) for row in zip(*rows, strict=True)]
    rows = [[Cell(name), *row] for name, row in zip(down, rows, strict=True)]
    return Table(title=title, note=note, headers=[head, *across], n_words=1, rows=rows)


def _side_by_side(section: Section) -> list[Table]:
    """Compare pulls and CPU time of an algorithm with those of its baseline, on the same machine."""
    known = {(summary.label, section.place(summary)): summary for summary in section.summaries if summary.n_runs}
    rows = []
    for (label, place), summary in known.items():
        other = known.get((summary.cell.algorithm.baseline, place))
        if other is not None:
            times = (summary.quantities[name].mean / other.quantities[name].mean for name in ("n_pulls", "seconds"))
            rows.append([*map(Cell, (label, other.label, place, *map(_number, times)))])
    headers = ["Algorithm", "Beside", "Problem", "Pulls, times", "CPU time, times"]
    return [Table(title="Side by side", headers=headers, n_words=3, rows=rows)] if rows else []


def _every_cell(section: Section) -> Table:
    columns: dict[str, Callable[[Summary], str]] = {
        "Algorithm": lambda s: s.label,
        "Stopping rule": lambda s: s.rule or NOTHING,
        "Problem": section.place,
        "Runs": lambda s: str(s.n_runs),
        "Mean pulls": lambda s: _quantity(s, "n_pulls"),
        "Median": lambda s: _number(s.quantiles.get(0.5, math.nan)),
        "90 %": lambda s: _number(s.quantiles.get(0.9, math.nan)),
        "Wrong": _errors,
        "Cost": lambda s: _quantity(s, "cost"),
        "Lower bound": lambda s: _quantity(s, "lower_bound").split(" ±")[0],
        "Ratio": lambda s: _quantity(s, "ratio"),
        "CPU ms": lambda s: _quantity(s, "seconds", 1e3),
        "Arms pulled": lambda s: _quantity(s, "support"),
        "Unfinished": lambda s: str(s.n_unfinished) if s.n_runs else NOTHING,
        "Guarantee": lambda s: (s.claim.words if s.n_runs else "") or NOTHING,
    }
    for header, quantity in (("Cost", "cost"), ("Lower bound", "ratio"), ("Ratio", "ratio")):
        if not any(quantity in summary.quantities for summary in section.summaries):
            del columns[header]
    rows = [[Cell(text(summary)) for text in columns.values()] for summary in section.summaries]
    whys = {_why_no_bound(s): None for s in section.summaries if s.n_runs and "lower_bound" not in s.quantities}
    note = f"No lower bound: {'; '.join(whys)}." if whys and "Lower bound" in columns else ""
    return Table(title="All cells", note=note, headers=list(columns), n_words=3, rows=rows, is_folded=len(rows) > LONG)


def _why_no_bound(summary: Summary) -> str:
    if summary.spends_all:
        return "there is none beside a fixed budget"
    if not summary.cell.bounds:
        return "it was not asked for (`bounds = false`)"
    if summary.cell.epsilon and summary.cell.algorithm.options.get("m", 1) > 1:
        return "none is known for epsilon above 0 beside m > 1"
    return f"none is known for {summary.cell.shown}"


def _errors(summary: Summary) -> str:
    low, high = summary.error_interval
    mark = " > delta!" if summary.errs_too_often else ""
    return f"{summary.n_errors} ({100 * low:.2g} to {100 * high:.2g} %){mark}" if summary.n_runs else NOTHING


def _quantity(summary: Summary, quantity: str, scale: float = 1.0) -> str:
    if quantity not in summary.quantities:
        return NOTHING
    mean, se = summary.quantities[quantity]
    is_low = summary.n_unfinished and quantity in {"n_pulls", "ratio", "cost"}
    return ("≥\u00a0" if is_low else "") + _with_se(scale * mean, scale * se)


def _with_se(mean: float, se: float) -> str:
    return _number(mean) + ("" if math.isnan(se) else f" ±\u00a0{_number(se)}")


def _number(value: float) -> str:
    """Return a number to about four digits, without an exponent for counts."""
    if math.isnan(value):
        return NOTHING
    if value == 0.0 or abs(value) >= 1000.0:
        return _count(round(value))
    return f"{value:.1f}" if abs(value) >= 10.0 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


def _count(number: int) -> str:
    return f"{number:,}".replace(",", "\u202f")


def _md(value: object) -> str:
    """Escape a text for Markdown: no markup, no HTML, no end of a line or of a table's cell."""
    text = html.escape(str(value), quote=False).replace("\n", " ")
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", text)


class Look(NamedTuple):
    """A point of an evidence path."""

    n_pulls: int
    share: float
    """Evidence divided by the threshold; 1 or more at the stop."""


def evidence_path(cell: experiments.Cell, run: int = 0) -> list[Look]:
    """Repeat a run of the table and return its evidence, from the first estimate to the end."""
    looks: list[Look] = []
    due = 1.0

    def watch(learner: Learner, _arm: object) -> None:
        nonlocal due
        n_pulls = learner.estimate.n_pulls
        if n_pulls < due and not learner.stopped:
            return
        due = GROWTH * n_pulls
        decision = learner.decision
        share = decision.evidence / decision.target
        if math.isfinite(share):
            looks.append(Look(n_pulls, share))

    run_once(job_of(cell), run, watch)
    return looks


Point = tuple[float, float, float]
"""Place, mean and standard error."""


class Chart(NamedTuple):
    """Means against a varying argument, with a panel for each quantity."""

    name: str
    cells: Sequence[Summary]
    quantities: Sequence[str]
    x_label: str
    x: Callable[[Summary], float]
    rest: Callable[[Summary], str]
    """The other varying arguments; cells with equal label and rest are joined by a line."""
    label: Callable[[Summary], str] = attrgetter("label")
    ticks: Sequence[str] = ()
    """Names of x = 0, 1, ... if the values are not numbers."""


def sentence(*quantities: str) -> str:
    """Return a title for these quantities."""
    return f"Mean {' and '.join(QUANTITIES.get(quantity, quantity) for quantity in quantities)}"


def draw(section: Section, folder: Path, *, in_paper: bool = False) -> list[Figure]:
    """Draw the figures for the grid of the experiment; none without runs."""
    summaries = [summary for summary in section.summaries if summary.n_runs]
    if not summaries:
        return []
    drawn = [(chart.name, *draw_means(chart)) for chart in charts(section)]
    stopping = [summary for summary in summaries if not summary.spends_all]
    if 0 < len(stopping) <= MOST_BOXES:
        drawn.append(("distributions", *_distributions(section, stopping)))
    if paths := list(_paths(summaries)):
        drawn.append(("paths", *_evidence_paths(section.place(summaries[0]), paths)))
    return [
        Figure(caption, save(canvas, folder / f"{section.experiment.name}-{name}", in_paper=in_paper, has_rows=rows))
        for name, canvas, caption in drawn
        for rows in [name == "distributions"]
    ]


def charts(section: Section) -> Iterator[Chart]:
    """Yield the charts of means that the grid of the experiment asks for, of the cells that have runs."""
    summaries = [summary for summary in section.summaries if summary.n_runs]
    budgets = [summary for summary in summaries if summary.spends_all]
    summaries = [summary for summary in summaries if not summary.spends_all] or summaries
    varying = section.varying(section.experiment.problems[0].title)
    numbers = [n for n in varying if all(type(s.cell.arguments.get(n)) in {int, float} for s in section.summaries)]
    if numbers:
        name = numbers[0]
        usual = "error" if all(summary.spends_all for summary in summaries) else "n_pulls"
        quantity = next((published.quantity for published in section.experiment.published), usual)
        x_label = {"n_arms": "number of arms K", "dim": "dimension d"}.get(name, name)
        x, rest = (lambda s: float(s.cell.arguments[name])), (lambda s: section.rest(s, name))
        yield Chart(f"{quantity.removeprefix('n_')}-by-{name}", summaries, [quantity], x_label, x, rest)
    if budgets and not (numbers and summaries == budgets):
        places = list(dict.fromkeys(map(section.place, budgets)))
        yield Chart(
            name="error",
            cells=budgets,
            quantities=["error"],
            x_label="problem",
            x=lambda s: places.index(section.place(s)),
            rest=lambda _: "",
            ticks=places,
        )
    if "delta" in varying and any("ratio" in summary.quantities for summary in summaries):
        x, rest = (lambda s: -math.log(s.cell.delta)), (lambda s: section.rest(s, "delta"))
        yield Chart("risk", summaries, ["ratio", "evidence"], "log(1/delta)", x, rest)
    scheduled = [summary for summary in summaries if "schedule" in summary.cell.algorithm.options]
    ticks = list(dict.fromkeys(str(s.cell.algorithm.options["schedule"]) for s in scheduled))
    if len(ticks) > 1:
        yield Chart(
            name="schedule",
            cells=scheduled,
            quantities=["n_pulls", "seconds"],
            x_label="schedule",
            x=lambda s: ticks.index(str(s.cell.algorithm.options["schedule"])),
            rest=lambda s: section.rest(s, ""),
            label=lambda s: ", ".join(str(v) for k, v in s.cell.algorithm.options.items() if k != "schedule"),
            ticks=ticks,
        )


def draw_means(chart: Chart) -> tuple[Any, str]:
    """Draw means with two standard errors; published means are hollow, named by their source, and drawn once."""
    canvas, panels = frame([4.4 if len(chart.quantities) == 1 else 3.6] * len(chart.quantities))
    lines = grouped(chart.cells, lambda s: _words(chart.label(s), chart.rest(s)))
    for axes, quantity in zip(panels, chart.quantities, strict=True):
        seen: set[tuple[float, float]] = set()
        beside, published = BESIDE.get(quantity, ""), _published_lines(chart, lines, quantity)
        for number, (label, members) in enumerate(lines.items()):
            style = {"color": COLORS[number % len(COLORS)], "marker": MARKERS[number % len(MARKERS)]}
            hollow = {**style, "linestyle": ":", "linewidth": 1.0, "markerfacecolor": "white"}
            dashed = {"color": INK, "linestyle": DASHES[number % len(DASHES)], "linewidth": 1.0}
            bounds = [(x, mean, 0.0) for x, mean, _ in _points(chart, members, beside)]
            draw_line(axes, _points(chart, members, quantity), label, **style)
            for place, (name, points) in enumerate(published[label].items()):
                other = {"marker": MARKERS[-place]} if place else {}
                draw_line(axes, points, textwrap.fill(_words(name), LEGEND_WIDTH), **{**hollow, **other})
            draw_line(axes, _new(bounds, seen), _words(beside.replace("_", " "), chart.rest(members[0])), **dashed)
        means = [y for name in (quantity, beside) for _, y, _ in _points(chart, chart.cells, name)]
        if quantity in {"n_pulls", "seconds"}:
            # The axis ends at the means, not at the bars, which few runs make long; a lower bound may be 0.
            axes.set_yscale("log")
            axes.set_ylim(bottom=0.6 * min(mean for mean in means if mean > 0.0))
        elif quantity == "ratio":
            axes.axhline(1.0, color=INK, linestyle="--", linewidth=1.0)
            axes.set_ylim(bottom=0.0)
        places = sorted(set(map(chart.x, chart.cells)))
        if chart.ticks:
            axes.set_xticks(range(len(chart.ticks)), chart.ticks, rotation=35, ha="right", rotation_mode="anchor")
        elif places[0] > 0.0 and places[-1] >= 50.0 * places[0]:
            axes.set_xscale("log")
        elif all(place.is_integer() for place in places):
            axes.set_xticks(places)
        axes.set_ylabel(sentence(quantity))
    panels[-1].set_xlabel(chart.x_label)
    what = sentence(*chart.quantities)
    hollow_ones = "; hollow: published" if any(s.compared for s in chart.cells) else ""
    return canvas, f"{what} by {chart.x_label}; bars: two standard errors either way{hollow_ones}."


def _points(chart: Chart, summaries: Iterable[Summary], quantity: str) -> list[Point]:
    points = [(chart.x(s), *s.quantities[quantity]) for s in summaries if quantity in s.quantities]
    return [point for point in points if math.isfinite(point[1])]  # evidence may be infinite


def _published_lines(
    chart: Chart, lines: Mapping[str, Sequence[Summary]], quantity: str
) -> dict[str, dict[str, list[Point]]]:
    """Return published means by source, each source beside the first of our lines that it is compared with.

    A source with several means at one place has several algorithms: those beside each line are named after it too.
    """
    sources: dict[str, dict[str, list[Point]]] = {}
    for label, members in lines.items():
        for summary, figure in [(s, one.published) for s in members for one in s.compared]:
            if figure.quantity == quantity:
                point = chart.x(summary), figure.mean, figure.se or 0.0
                sources.setdefault(figure.source, {}).setdefault(label, []).append(point)
    found: dict[str, dict[str, list[Point]]] = {label: {} for label in lines}
    for source, parts in sources.items():
        points = sorted({point for part in parts.values() for point in part})
        if len({x for x, _, _ in points}) == len(points):
            found[next(iter(parts))][source] = points
        else:
            for label, part in parts.items():
                found[label][f"{source}, {label}"] = part
    return found


def _new(points: Iterable[Point], seen: set[tuple[float, float]]) -> list[Point]:
    """Return the points that no earlier line has shown."""
    new = [point for point in points if point[:2] not in seen]
    seen.update(point[:2] for point in new)
    return new


def _distributions(section: Section, summaries: Sequence[Summary]) -> tuple[Any, str]:
    """Draw a box for each cell: half of the runs inside, 90 % between the whiskers."""
    groups = grouped(summaries, section.place)
    canvas, panels = frame([0.75 + 0.24 * len(members) for members in groups.values()], grid="x", shares_x=False)
    canvas.set_figheight(canvas.get_figheight() + 0.6)  # label and legend
    for axes, (title, members) in zip(panels, groups.items(), strict=True):
        levels = {"whislo": 0.05, "q1": 0.25, "med": 0.5, "q3": 0.75, "whishi": 0.95}
        boxes = [
            {"label": _words(s.label), **{name: s.quantiles[level] for name, level in levels.items()}}
            for s in reversed(members)
        ]
        thin, thick = {"color": GREY}, {"color": COLORS[1], "linewidth": 2.0}
        looks = {"boxprops": {"color": COLORS[0]}, "whiskerprops": thin, "capprops": thin, "medianprops": thick}
        axes.bxp(boxes, orientation="horizontal", showfliers=False, widths=0.55, **looks)
        for place, summary in enumerate(reversed(members), start=1):
            bound = math.nan if "cost" in summary.quantities else summary.quantities.get("lower_bound", (math.nan,))[0]
            if bound > 0.0:
                dashed = {"color": INK, "linestyle": "--", "linewidth": 1.0, "label": "lower bound"}
                axes.plot([bound, bound], [place - 0.5, place + 0.5], **dashed)
        axes.set_xscale("log")
        axes.set_title(_words(title), loc="left", fontsize=9, color=INK)
        axes.tick_params(axis="y", labelsize=8.5)
    panels[-1].set_xlabel("number of pulls")
    return canvas, (
        "Pulls of the runs: half of them inside the box, 90 % between the whiskers; the bar is the median; each panel "
        "has its own axis."
    )


def _paths(summaries: Sequence[Summary]) -> Iterator[tuple[str, list[Look]]]:
    """Repeat run 0 on the first problem, for the first algorithms that are fast enough."""
    place = attrgetter("cell.problem", "cell.arguments", "cell.delta")
    same = [summary for summary in summaries if place(summary) == place(summaries[0])]
    for summary in [s for s in same if s.quantities["seconds"].mean <= PATH_SECONDS][: len(COLORS)]:
        try:
            yield _words(summary.label), evidence_path(summary.cell)
        except InvalidInput:
            continue  # the runs may be from a version with other options; the report still has their table


def _evidence_paths(place: str, paths: Sequence[tuple[str, list[Look]]]) -> tuple[Any, str]:
    """Draw the growth of evidence in one run of each algorithm."""
    canvas, (axes,) = frame([4.2])
    for (label, looks), color in zip(paths, COLORS, strict=False):
        shares = [min(max(look.share, -0.5), 1.5) for look in looks]
        axes.plot([look.n_pulls for look in looks], shares, label=label, color=color, linewidth=1.3)
    axes.axhline(1.0, color=INK, linestyle="--", linewidth=1.0)
    axes.set_xscale("log")
    axes.set_xlabel("pulls")
    axes.set_ylabel("evidence / threshold")
    return canvas, (
        f"Evidence for the leader divided by the threshold at which the rule stops (the dashed line), in run 0 on "
        f"{place}; evidence and threshold are those of each method's own rule."
    )


def _words(*texts: str) -> str:
    return plain(", ".join(text for text in texts if text))
