"""Evidence paths: a run of a cell done once more, looking at its evidence on the way.

Figures of a report: each is written as PNG and SVG.

Same numbers, same bytes of SVG. Which figures an experiment gets follows from its grid: means against an argument that
is a number, against the risk and against the schedule, the distribution of the pulls unless there are too many cells,
and how evidence grew in one run.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from surepick.errors import InvalidInput
from surepick.learning.learner import Learner
from surepick.reporting.experiment_cells import Section, Summary, grouped
from surepick.reporting.figures import COLORS, GREY, INK, finish, frame, image, plain
from surepick.simulation.experiment import Cell, job_of
from surepick.simulation.run import run_once

GROWTH = 1.05
"""A look whenever the pulls have grown by this factor: looks cost a pass over the arms."""


class Look(NamedTuple):
    """Where a run stood."""

    n_pulls: int
    share: float
    """Evidence divided by what the rule asks for; 1 or more at the stop."""


def evidence_path(cell: Cell, run: int = 0) -> list[Look]:
    """Return the evidence of this run from its first estimate to its end; the run is the one in the table."""
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


MARKERS = "os^Dv<>P"
DASHES = ("--", "-.", (0, (1, 1.5)), (0, (6, 2)))
WORDS = {"n_pulls": "pulls", "seconds": "CPU seconds", "support": "arms pulled", "ratio": "pulls / lower bound"}
BESIDE = {"n_pulls": "lower_bound", "evidence": "target"}
"""What a quantity is held against."""
MOST_BOXES = 80
"""Cells whose distributions fit into one figure."""
PATH_SECONDS = 3.0
"""A path is drawn by doing a run again; of slower algorithms none is."""

Point = tuple[float, float, float]
"""Where, mean and standard error."""


class Figure(NamedTuple):
    """A figure in its files."""

    caption: str
    paths: tuple[Path, Path]
    """PNG and SVG."""


class Chart(NamedTuple):
    """Means against something that varies, a panel for each quantity."""

    name: str
    cells: Sequence[Summary]
    quantities: Sequence[str]
    x_label: str
    x: Callable[[Summary], float]
    rest: Callable[[Summary], str]
    """The rest of what varies; cells of the same label and rest are joined."""
    label: Callable[[Summary], str] = attrgetter("label")
    ticks: Sequence[str] = ()
    """Names of x = 0, 1, ... where they are no numbers."""


def sentence(*quantities: str) -> str:
    """What is shown, for titles and axes."""
    return f"Mean {' and '.join(WORDS.get(quantity, quantity) for quantity in quantities)}"


def draw(section: Section, folder: Path) -> list[Figure]:
    """Draw what the experiment's grid suggests; nothing if there are no runs."""
    summaries = [summary for summary in section.summaries if summary.n_runs]
    if not summaries:
        return []
    drawn = [(chart.name, *_means(chart)) for chart in _charts(section, summaries)]
    if len(summaries) <= MOST_BOXES:
        drawn.append(("distributions", *_distributions(section, summaries)))
    if paths := list(_paths(summaries)):
        drawn.append(("paths", *_evidence_paths(section.place(summaries[0]), paths)))
    return [saved(canvas, folder / f"{section.experiment.name}-{name}", caption) for name, canvas, caption in drawn]


def _charts(section: Section, summaries: Sequence[Summary]) -> Iterator[Chart]:
    varying = section.varying(section.experiment.problems[0].name)
    numbers = [n for n in varying if all(type(s.cell.arguments.get(n)) in {int, float} for s in section.summaries)]
    if numbers:
        name = numbers[0]
        quantity = next((published.quantity for published in section.experiment.published), "n_pulls")
        x_label = {"n_arms": "number of arms K", "dim": "dimension d"}.get(name, name)
        x, rest = (lambda s: float(s.cell.arguments[name])), (lambda s: section.rest(s, name))
        yield Chart(f"{quantity.removeprefix('n_')}-by-{name}", summaries, [quantity], x_label, x, rest)
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


def _means(chart: Chart) -> tuple[Any, str]:
    """Means with two standard errors; published ones hollow, once if several algorithms are held against them."""
    canvas, panels = frame([4.4 if len(chart.quantities) == 1 else 3.6] * len(chart.quantities))
    lines = grouped(chart.cells, lambda s: _words(chart.label(s), chart.rest(s)))
    for axes, quantity in zip(panels, chart.quantities, strict=True):
        seen: set[tuple[float, float]] = set()
        beside = BESIDE.get(quantity, "")
        for number, (label, members) in enumerate(lines.items()):
            style = {"color": COLORS[number % len(COLORS)], "marker": MARKERS[number % len(MARKERS)]}
            hollow = {**style, "linestyle": ":", "linewidth": 1.0, "markerfacecolor": "white"}
            dashed = {"color": INK, "linestyle": DASHES[number % len(DASHES)], "linewidth": 1.0}
            theirs = [(s, compared.published) for s in members for compared in s.compared]
            points = [(chart.x(s), p.mean, p.se or 0.0) for s, p in theirs if p.quantity == quantity]
            bounds = [(x, mean, 0.0) for x, mean, _ in _points(chart, members, beside)]
            _line(axes, _points(chart, members, quantity), label, **style)
            _line(axes, _new(points, seen), f"{label}, published", **hollow)
            _line(axes, _new(bounds, seen), _words(beside.replace("_", " "), chart.rest(members[0])), **dashed)
        means = [y for name in (quantity, beside) for _, y, _ in _points(chart, chart.cells, name)]
        if quantity in {"n_pulls", "seconds"}:
            # Down to the means, not to the ends of the bars: few runs would stretch it.
            axes.set_yscale("log")
            axes.set_ylim(bottom=0.6 * min(means))
        elif quantity == "ratio":
            axes.axhline(1.0, color=INK, linestyle="--", linewidth=1.0)
            axes.set_ylim(bottom=0.0)
        if chart.ticks:
            axes.set_xticks(range(len(chart.ticks)), chart.ticks, rotation=35, ha="right", rotation_mode="anchor")
        elif (low := min(map(chart.x, chart.cells))) > 0.0 and max(map(chart.x, chart.cells)) >= 50.0 * low:
            axes.set_xscale("log")
        axes.set_ylabel(sentence(quantity))
    panels[-1].set_xlabel(chart.x_label)
    what = sentence(*chart.quantities)
    hollow_ones = "; hollow: published" if any(s.compared for s in chart.cells) else ""
    return canvas, f"{what} by {chart.x_label}; bars: two standard errors either way{hollow_ones}."


def _points(chart: Chart, summaries: Iterable[Summary], quantity: str) -> list[Point]:
    points = [(chart.x(s), *s.quantities[quantity]) for s in summaries if quantity in s.quantities]
    return [point for point in points if math.isfinite(point[1])]  # evidence may be infinite


def _new(points: Iterable[Point], seen: set[tuple[float, float]]) -> list[Point]:
    """Points that no line before has shown."""
    new = [point for point in points if point[:2] not in seen]
    seen.update(point[:2] for point in new)
    return new


def _line(axes: Any, points: Sequence[Point], label: str, **style: Any) -> None:
    """Points joined; bars of two standard errors where there is one. Nothing without points."""
    if not points:
        return
    x, y = [point[0] for point in points], [point[1] for point in points]
    bars = [2.0 * point[2] if math.isfinite(point[2]) else 0.0 for point in points]
    # On a logarithmic axis a bar may not reach 0.
    down = [min(bar, 0.95 * abs(value)) for bar, value in zip(bars, y, strict=True)]
    usual = {"linewidth": 1.4, "markersize": 5, "capsize": 2}
    axes.errorbar(x, y, yerr=[down, bars] if any(bars) else None, label=label, **{**usual, **style})


def _distributions(section: Section, summaries: Sequence[Summary]) -> tuple[Any, str]:
    """A box for each cell: half of the runs inside, nine in ten between the whiskers."""
    groups = grouped(summaries, section.place)
    canvas, panels = frame([0.5 + 0.24 * len(members) for members in groups.values()], grid="x")
    for axes, (title, members) in zip(panels, groups.items(), strict=True):
        levels = {"whislo": 0.05, "q1": 0.25, "med": 0.5, "q3": 0.75, "whishi": 0.95}
        boxes = [
            {"label": _words(s.label), **{name: s.quantiles[level] for name, level in levels.items()}}
            for s in reversed(members)
        ]
        thin, thick = {"color": GREY}, {"color": COLORS[1], "linewidth": 2.0}
        looks = {"boxprops": {"color": COLORS[0]}, "whiskerprops": thin, "capprops": thin, "medianprops": thick}
        axes.bxp(boxes, orientation="horizontal", showfliers=False, widths=0.55, **looks)
        axes.set_xscale("log")
        axes.set_title(_words(title), loc="left", fontsize=9, color=INK)
        axes.tick_params(axis="y", labelsize=8.5)
    panels[-1].set_xlabel("number of pulls")
    return canvas, "Pulls of the runs: half of them inside the box, 90 % between the whiskers; the bar is the median."


def _paths(summaries: Sequence[Summary]) -> Iterator[tuple[str, list[Look]]]:
    """Run 0 on the first problem, once more, of the first algorithms that are quick enough for that."""
    place = attrgetter("cell.problem", "cell.arguments", "cell.delta")
    same = [summary for summary in summaries if place(summary) == place(summaries[0])]
    for summary in [s for s in same if s.quantities["seconds"].mean <= PATH_SECONDS][: len(COLORS)]:
        try:
            yield _words(summary.label), evidence_path(summary.cell)
        except InvalidInput:
            continue  # the runs may be from a version with other options; their table is shown all the same


def _evidence_paths(place: str, paths: Sequence[tuple[str, list[Look]]]) -> tuple[Any, str]:
    """How evidence grows in one run of each."""
    canvas, (axes,) = frame([4.2])
    for (label, looks), color in zip(paths, COLORS, strict=False):
        shares = [min(max(look.share, -0.5), 1.5) for look in looks]
        axes.plot([look.n_pulls for look in looks], shares, label=label, color=color, linewidth=1.3)
    axes.axhline(1.0, color=INK, linestyle="--", linewidth=1.0)
    axes.set_xscale("log")
    axes.set_xlabel("pulls")
    axes.set_ylabel("evidence / what the rule asks for")
    return canvas, f"Evidence in run 0 on {place}; a rule stops at the dashed line."


def _words(*texts: str) -> str:
    return plain(", ".join(text for text in texts if text))


def saved(canvas: Any, path: Path, caption: str) -> Figure:
    """Finish a figure and write its files."""
    finish(canvas)
    path.parent.mkdir(parents=True, exist_ok=True)
    png, svg = (path.with_name(f"{path.name}.{kind}") for kind in ("png", "svg"))
    for file in (png, svg):
        file.write_bytes(image(canvas, file.suffix[1:]))
    return Figure(caption=caption, paths=(png, svg))
