"""Figures of a report on experiments, as PNG and SVG.

The grid of an experiment determines its figures: means against each numeric argument, against the risk and against the
schedule; the distribution of the pulls, unless there are too many cells; and the growth of evidence in one run.
"""

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from surepick.errors import InvalidInput
from surepick.learning.learner import Learner
from surepick.reporting.experiment_summary import Section, Summary, grouped
from surepick.reporting.figures import COLORS, GREY, INK, draw_line, frame, plain, save
from surepick.simulation.experiment import Cell
from surepick.simulation.jobs import job_of
from surepick.simulation.run import run_once

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


class Figure(NamedTuple):
    """A caption and the files of its figure."""

    caption: str
    paths: tuple[Path, Path]
    """PNG and SVG."""


class Look(NamedTuple):
    """A point of an evidence path."""

    n_pulls: int
    share: float
    """Evidence divided by the threshold; 1 or more at the stop."""


def evidence_path(cell: Cell, run: int = 0) -> list[Look]:
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
