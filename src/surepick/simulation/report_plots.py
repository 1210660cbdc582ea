"""Figures of a report: each is written as PNG and SVG.

Same numbers, same bytes of SVG: no date and no random identifiers go into the files. Which figures an experiment gets
follows from its grid: means against an argument that is a number, the ratio to the lower bound against the risk, pulls
and time against the schedule, the distribution of the pulls, or of many cells the ratio to the lower bound, and how
evidence grew in one run.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from surepick.errors import InvalidInput, SurepickError
from surepick.simulation.paths import Look, evidence_path
from surepick.simulation.report_cells import Section, Summary

INK, GREY, LINE = "#1d2127", "#6b7380", "#d9dde3"
COLORS = ("#0b5fa5", "#c8641e", "#3b7d3b", "#7a4fa0", "#b3263e", "#4a8f9c", "#8a6d1c", "#5b5f97")
MARKERS = "os^Dv<>P"
AXES = {"n_pulls": "mean number of pulls", "seconds": "CPU seconds a run", "support": "arms pulled"}
DASHES = ("--", "-.", (0, (1, 1.5)), (0, (6, 2)))
WIDTH = 5.8
"""Inches: on a phone a figure is shown at half its size and must still be read."""
MOST_BOXES = 80
"""Cells whose distributions fit into one figure."""
PNG_DPI = 150
PATH_SECONDS = 3.0
"""A path is drawn by doing a run again; of slower algorithms none is."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure in its files."""

    caption: str
    paths: tuple[Path, Path]
    """PNG and SVG."""
    width: int
    height: int
    """Size on a page, in pixels."""


def draw(section: Section, folder: Path) -> list[Figure]:
    """Draw what the experiment's grid suggests; nothing if there are no runs."""
    summaries = [summary for summary in section.summaries if summary.n_runs]
    if not summaries:
        return []
    drawn: list[Figure] = []
    if (argument := _numeric_argument(section)) is not None:
        drawn.append(_by_argument(section, summaries, argument, folder))
    if len(section.experiment.delta) > 1 and any(summary.value("ratio") for summary in summaries):
        drawn.append(_by_risk(section, summaries, folder))
    if len({summary.cell.algorithm.options.get("schedule") for summary in summaries} - {None}) > 1:
        drawn.append(_by_schedule(section, summaries, folder))
    if len(summaries) <= MOST_BOXES:
        drawn.append(_distributions(section, summaries, folder))
    elif any(summary.value("ratio") for summary in summaries):
        drawn.append(_by_algorithm(section, summaries, folder))
    paths = _paths(summaries)
    return [*drawn, _evidence_paths(section, paths, folder)] if paths else drawn


def _numeric_argument(section: Section) -> str | None:
    """The argument to put on the axis: the first number that varies while every problem has it."""
    first = section.experiment.problems[0].name
    for name in section.varying(first):
        values = [summary.cell.arguments.get(name) for summary in section.summaries]
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            return name
    return None


def _by_argument(section: Section, summaries: Sequence[Summary], argument: str, folder: Path) -> Figure:
    """Means with two standard errors; published ones hollow, once if several algorithms are held against them."""
    quantities = [published.quantity for published in section.experiment.published]
    quantity = quantities[0] if quantities else "n_pulls"
    figure, (axes,) = _panels([4.6])
    seen: set[tuple[float, float]] = set()
    lines = _grouped(summaries, lambda summary: _words(summary.label, section.other_arguments(summary, argument)))
    for place, (label, members) in enumerate(lines.items()):
        style = _style(place)
        _line(axes, [(float(s.cell.arguments[argument]), *s.quantities[quantity]) for s in members], label, **style)
        theirs = [
            (float(s.cell.arguments[argument]), compared.published.mean, compared.published.se or 0.0)
            for s in members
            for compared in s.compared
            if compared.published.quantity == quantity
        ]
        new = [point for point in theirs if point[:2] not in seen]
        seen.update(point[:2] for point in theirs)
        if new:
            _line(axes, new, f"{label}, published", **style, linestyle=":", linewidth=1.0, markerfacecolor="white")
    if quantity == "n_pulls":
        bounded = [summary for summary in summaries if summary.value("lower_bound")]
        groups = _grouped(bounded, lambda s: section.other_arguments(s, argument))
        for place, (rest, members) in enumerate(groups.items()):
            means = {float(s.cell.arguments[argument]): s.quantities["lower_bound"].mean for s in members}
            points = [(x, mean, 0.0) for x, mean in means.items()]
            dashes = DASHES[place % len(DASHES)]
            _line(axes, points, _words("lower bound", rest), color=INK, linestyle=dashes, linewidth=1.0)
    values = sorted({float(summary.cell.arguments[argument]) for summary in summaries})
    if quantity != "support":
        lowest = [s.quantities["lower_bound"].mean for s in summaries if s.value("lower_bound")]
        _log_scale(axes, [*lowest, *(s.quantities[quantity].mean for s in summaries)])
    if values[0] > 0.0 and values[-1] >= 50.0 * values[0]:
        axes.set_xscale("log")
    else:
        axes.set_xticks(values)
    _plain_numbers(axes)
    axes.set_xlabel({"n_arms": "number of arms K", "dim": "dimension d"}.get(argument, argument))
    axes.set_ylabel(AXES[quantity])
    _legend(axes)
    what = f"{AXES[quantity][0].upper()}{AXES[quantity][1:]} by {argument}; bars: two standard errors either way"
    hollow = "; hollow: published" if seen else ""
    return _saved(figure, folder, section, f"{quantity.removeprefix('n_')}-by-{argument}", f"{what}{hollow}.")


def _paths(summaries: Sequence[Summary]) -> list[tuple[Summary, list[Look]]]:
    """Run 0 on the first problem, once more, of the algorithms that are quick enough for that."""
    first = summaries[0].cell
    paths: list[tuple[Summary, list[Look]]] = []
    for summary in summaries:
        cell = summary.cell
        is_first = (cell.problem, cell.arguments, cell.delta) == (first.problem, first.arguments, first.delta)
        if is_first and summary.quantities["seconds"].mean <= PATH_SECONDS and len(paths) < len(COLORS):
            try:
                paths.append((summary, evidence_path(cell)))
            except InvalidInput:
                continue  # the runs may be from a version with other options; their table is shown all the same
    return paths


def _evidence_paths(section: Section, paths: Sequence[tuple[Summary, list[Look]]], folder: Path) -> Figure:
    """How evidence grows in one run of each."""
    figure, (axes,) = _panels([4.2])
    for (summary, looks), color in zip(paths, COLORS, strict=False):
        pulls, shares = [look.n_pulls for look in looks], [min(max(look.share, -0.5), 1.5) for look in looks]
        axes.plot(pulls, shares, label=summary.label, color=color, linewidth=1.3)
    axes.axhline(1.0, color=INK, linestyle="--", linewidth=1.0)
    axes.set_xscale("log")
    _plain_numbers(axes)
    axes.set_xlabel("pulls")
    axes.set_ylabel("evidence / what the rule asks for")
    _legend(axes)
    where = f" on {place}" if (place := section.problem(paths[0][0])) else ""
    return _saved(figure, folder, section, "paths", f"Evidence in run 0{where}; a rule stops at the dashed line.")


def _by_risk(section: Section, summaries: Sequence[Summary], folder: Path) -> Figure:
    """The ratio to the lower bound, and the evidence at the stop beside its target, against log(1/delta)."""
    figure, (left, right) = _panels([3.6, 3.9])
    lines = _grouped(summaries, lambda summary: _words(summary.label, section.problem(summary)))
    for place, (label, members) in enumerate(lines.items()):
        style = _style(place)
        ratios = [(_nats(s), *s.quantities["ratio"]) for s in members if s.value("ratio")]
        _line(left, ratios, label, **style)
        _line(right, [(_nats(s), *s.quantities["evidence"]) for s in members], label, **style, linewidth=1.0)
        targets = [(_nats(s), s.quantities["target"].mean, 0.0) for s in members]
        _line(right, targets, "", color=style["color"], linestyle=":", linewidth=1.0)
    left.axhline(1.0, color=INK, linestyle="--", linewidth=1.0)
    left.set_ylim(bottom=0.0)
    left.set_ylabel("mean of pulls / lower bound")
    right.set_ylabel("evidence at the stop (dotted: target)")
    for axes in (left, right):
        axes.set_xlabel("log(1/delta)")
    _legend(right)
    caption = (
        "Ratio to the lower bound (dashed: 1), and evidence at the stop, as the risk falls; bars: two standard errors."
    )
    return _saved(figure, folder, section, "risk", caption)


def _by_schedule(section: Section, summaries: Sequence[Summary], folder: Path) -> Figure:
    """Pulls and CPU time for each schedule."""
    with_schedule = [s for s in summaries if s.cell.algorithm.options.get("schedule") is not None]
    schedules = list(dict.fromkeys(str(s.cell.algorithm.options["schedule"]) for s in with_schedule))
    figure, panels = _panels([3.4, 4.2])
    lines = _grouped(with_schedule, lambda s: _words(_rest_of_options(s), section.problem(s)))
    for axes, quantity in zip(panels, ("n_pulls", "seconds"), strict=True):
        for place, (label, members) in enumerate(lines.items()):
            points = [
                (float(schedules.index(str(s.cell.algorithm.options["schedule"]))), *s.quantities[quantity])
                for s in members
            ]
            style = _style(place)
            _line(axes, points, label, **style, linewidth=1.0)
        _log_scale(axes, [s.quantities[quantity].mean for s in with_schedule])
        _plain_numbers(axes)
        axes.set_xticks(range(len(schedules)), schedules, rotation=35, ha="right", rotation_mode="anchor")
        axes.set_ylabel(AXES[quantity])
    _legend(panels[-1])
    caption = "Pulls and CPU time by schedule; bars: two standard errors either way."
    return _saved(figure, folder, section, "schedule", caption)


def _distributions(section: Section, summaries: Sequence[Summary], folder: Path) -> Figure:
    """A box for each cell: half of the runs inside, nine in ten between the whiskers."""
    has_risks = len(section.experiment.delta) > 1
    groups = _grouped(summaries, section.problem)
    figure, panels = _panels([0.5 + 0.24 * len(members) for members in groups.values()])
    for axes, (title, members) in zip(panels, groups.items(), strict=True):
        boxes = [
            {
                "label": _words(s.label, f"delta {s.cell.delta:g}" if has_risks else ""),
                **dict(zip(("whislo", "q1", "med", "q3", "whishi"), s.box.tolist(), strict=True)),
            }
            for s in reversed(members)
        ]
        axes.bxp(
            boxes,
            orientation="horizontal",
            showfliers=False,
            widths=0.55,
            boxprops={"color": COLORS[0]},
            whiskerprops={"color": GREY},
            capprops={"color": GREY},
            medianprops={"color": COLORS[1], "linewidth": 2.0},
        )
        axes.set_xscale("log")
        axes.set_title(_words(title), loc="left", fontsize=9, color=INK)
        axes.tick_params(axis="y", labelsize=8.5)
        axes.grid(axis="x", color=LINE, linewidth=0.7)
    low, high = (pick(axes.get_xlim()[end] for axes in panels) for end, pick in ((0, min), (1, max)))
    for axes in panels:  # one scale for all, so that problems can be compared
        axes.set_xlim(low, high)
        _plain_numbers(axes)
    for axes in panels[:-1]:
        axes.tick_params(axis="x", labelbottom=False)
    panels[-1].set_xlabel("number of pulls")
    caption = "Pulls of the runs: half of them inside the box, 90 % between the whiskers; the bar is the median."
    return _saved(figure, folder, section, "distributions", caption)


def _by_algorithm(section: Section, summaries: Sequence[Summary], folder: Path) -> Figure:
    """The ratio to the lower bound of every algorithm, a marker for each problem; hollow if runs did not stop."""
    shown = {summary.label for summary in summaries}
    labels = [spec.label for spec in section.experiment.algorithms if spec.label in shown]
    figure, (axes,) = _panels([1.6 + 0.22 * len(labels)])
    for place, (problem, members) in enumerate(_grouped(summaries, section.problem).items()):
        points = [
            (s.quantities["ratio"].mean, labels.index(s.label), s.n_unfinished) for s in members if s.value("ratio")
        ]
        color, marker = _style(place).values()
        axes.scatter([], [], color=color, marker=marker, s=28, label=_words(problem))
        for is_open in (False, True):
            x = [ratio for ratio, _, n_open in points if bool(n_open) == is_open]
            y = [row for _, row, n_open in points if bool(n_open) == is_open]
            axes.scatter(x, y, marker=marker, s=28, edgecolors=color, facecolors="none" if is_open else color)
    axes.axvline(1.0, color=INK, linestyle="--", linewidth=1.0)
    axes.set_xscale("log")
    _plain_numbers(axes)
    axes.set_yticks(range(len(labels)), map(_words, labels), fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("mean of pulls / lower bound")
    _legend(axes)
    caption = (
        "Ratio to the lower bound (dashed: 1), a marker for each problem; hollow: at least so much, runs did not stop."
    )
    return _saved(figure, folder, section, "ratios", caption)


def _grouped(summaries: Iterable[Summary], label: Callable[[Summary], str]) -> dict[str, list[Summary]]:
    groups: dict[str, list[Summary]] = {}
    for summary in summaries:
        groups.setdefault(label(summary), []).append(summary)
    return groups


def _words(*texts: str) -> str:
    # A dollar sign would start a formula.
    return ", ".join(text for text in texts if text).replace("$", r"\$")


def _style(place: int) -> dict[str, str]:
    return {"color": COLORS[place % len(COLORS)], "marker": MARKERS[place % len(MARKERS)]}


def _rest_of_options(summary: Summary) -> str:
    """What distinguishes algorithms besides the schedule."""
    algorithm = summary.cell.algorithm
    options = [str(value) for name, value in algorithm.options.items() if name != "schedule"]
    return ", ".join(options or [algorithm.name])


def _nats(summary: Summary) -> float:
    return -math.log(summary.cell.delta)


def _panels(heights: Sequence[float]) -> tuple[Any, list[Any]]:
    """A figure with axes below each other, of these heights in inches."""
    try:
        from matplotlib.figure import Figure as Canvas  # noqa: PLC0415 (a second to import, and optional)
    except ImportError as error:
        raise SurepickError("a report needs matplotlib; install surepick[bench].") from error
    canvas = Canvas(figsize=(WIDTH, sum(heights)), layout="constrained")
    grid = canvas.subplots(len(heights), 1, squeeze=False, height_ratios=heights)
    panels = list(grid[:, 0])
    for axes in panels:
        axes.grid(axis="y", color=LINE, linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(GREY)
    return canvas, panels


def _line(axes: Any, points: Sequence[tuple[float, float, float]], label: str, **style: Any) -> None:
    """Points (x, mean, standard error) joined; bars of two standard errors where there is one."""
    x, y = [point[0] for point in points], [point[1] for point in points]
    bars = [2.0 * point[2] if math.isfinite(point[2]) else 0.0 for point in points]
    # On a logarithmic axis a bar may not reach 0.
    down = [min(bar, 0.95 * abs(value)) for bar, value in zip(bars, y, strict=True)]
    usual = {"linewidth": 1.6, "markersize": 5, "capsize": 2}
    axes.errorbar(x, y, yerr=[down, bars] if any(bars) else None, label=label or "_", **{**usual, **style})


def _log_scale(axes: Any, means: Iterable[float]) -> None:
    """A logarithmic y-axis that reaches down to the means, not to the ends of the bars: few runs would stretch it."""
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.6 * min(means))


def _plain_numbers(axes: Any) -> None:
    """On logarithmic axes numbers as people write them, three to a decade if there are few decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator  # noqa: PLC0415

    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        if axis.get_scale() == "log":
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 300.0 * low else (1.0,)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}".replace(",", "\u202f")))
            axis.set_minor_locator(NullLocator())
            axis.set_minor_formatter(NullFormatter())


def _legend(axes: Any) -> None:
    """Below the axes, where a narrow page has room for it."""
    axes.figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=8.5
    )


def _saved(canvas: Any, folder: Path, section: Section, kind: str, caption: str) -> Figure:
    import matplotlib as mpl  # noqa: PLC0415

    paths = tuple(folder / f"{section.experiment.name}-{kind}.{ending}" for ending in ("png", "svg"))
    with mpl.rc_context({"svg.hashsalt": "surepick"}):
        canvas.savefig(paths[0], dpi=PNG_DPI, metadata={"Software": None})
        canvas.savefig(paths[1], metadata={"Date": None})
    width, height = (round(96 * inches) for inches in canvas.get_size_inches())
    return Figure(caption=caption, paths=(paths[0], paths[1]), width=width, height=height)
