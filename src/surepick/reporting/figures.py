"""Figures of a result, a plan and an experiment, drawn from plain numbers in one style.

The same numbers give the same bytes of SVG: files contain no date and no random identifiers.
"""

import io
import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from surepick.errors import SurepickError
from surepick.reporting.charts import Bar, Point, Pulls, best_first, distinct_labels, most_pulled, share_of, shortened

INK, GREY, LINE = "#1d2127", "#6b7380", "#d9dde3"
COLORS = ("#0b5fa5", "#c8641e", "#3b7d3b", "#7a4fa0", "#b3263e", "#4a8f9c", "#8a6d1c", "#5b5f97")
WIDTH = 5.8
"""Width in inches; a figure must stay readable on a phone, at half its size."""
PNG_DPI = 150
BLUE, ORANGE = COLORS[:2]
KINDS = {
    **dict.fromkeys(("leader", "met"), (ORANGE, "D")),
    **dict.fromkeys(("not excluded", "open", "arm"), (BLUE, "o")),
    **dict.fromkeys(("excluded", "failed"), (GREY, "o")),
    "control": (BLUE, "s"),
}
"""Colour and marker of each kind of arm."""


def check_ready() -> Any:
    """Return matplotlib's class of figures; say what to install if matplotlib is missing."""
    try:
        from matplotlib.figure import Figure as Canvas  # noqa: PLC0415 (a second to import, and optional)
    except ImportError as error:
        raise SurepickError("a figure needs matplotlib; install surepick[figures].") from error
    return Canvas


def frame(
    heights: Sequence[float], *, grid: str = "y", width: float = WIDTH, is_row: bool = False, shares_x: bool = True
) -> tuple[Any, list[Any]]:
    """Return a figure with axes of these heights in inches, stacked, with a shared x-axis or each with its own.

    With `is_row` the axes are side by side, with these widths and a shared y-axis.
    """
    Canvas = check_ready()  # noqa: N806 (a class)
    if is_row:
        canvas = Canvas(figsize=(width * len(heights), max(heights)), layout="constrained")
        panels = list(canvas.subplots(1, len(heights), sharey=True, squeeze=False)[0])
    else:
        canvas = Canvas(figsize=(width, sum(heights)), layout="constrained")
        panels = list(canvas.subplots(len(heights), 1, sharex=shares_x, squeeze=False, height_ratios=heights)[:, 0])
    for axes in panels:
        axes.grid(axis=grid, color=LINE, linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(GREY)
    return canvas, panels


def plain(text: str, most: int = 200) -> str:
    """Return a text for a figure: a dollar sign, which starts a formula, is escaped; a long text loses its middle."""
    return _escaped(shortened(text, most))


def _escaped(text: str) -> str:
    return text.replace("$", r"\$")


def finish(canvas: Any) -> None:
    """Format the numbers, and put one legend below the axes, where a narrow page has room."""
    entries: dict[str, Any] = {}
    for axes in canvas.axes:
        _plain_numbers(axes)
        handles, labels = axes.get_legend_handles_labels()
        entries = {**dict(zip(labels, handles, strict=True)), **entries}
    if entries:
        looks = {"loc": "outside lower center", "ncols": 2, "frameon": False, "fontsize": 8.5}
        canvas.legend(list(entries.values()), list(entries), **looks)


def image(canvas: Any, kind: str) -> bytes:
    """Return a finished figure as "svg", "png" or "pdf"."""
    import matplotlib as mpl  # noqa: PLC0415

    options: dict[str, Any] = {"dpi": PNG_DPI, "metadata": {"Software": None}}
    if kind == "svg":
        options = {"metadata": {"Date": None}}
    if kind == "pdf":
        options = {"metadata": {"CreationDate": None}}
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "surepick"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # names of arms can be in any script
        canvas.savefig(buffer, format=kind, **options)
    return buffer.getvalue()


COLUMNS = {"1col": 3.25, "2col": 6.75}
"""Widths in inches of a figure in a paper: one column, and two."""


def save(canvas: Any, path: Path, *, in_paper: bool = False, has_rows: bool = False) -> tuple[Path, Path]:
    """Finish a figure and write it beside `path`, as PNG and as SVG; for a paper also as PDF, one and two columns wide.

    Args:
        canvas: the figure.
        path: without an ending.
        in_paper: whether PDFs are written.
        has_rows: whether rows with names run down the figure, which then keeps its height in a narrow column.

    Returns:
        The PNG and the SVG file.
    """
    finish(canvas)
    path.parent.mkdir(parents=True, exist_ok=True)
    png, svg = (path.with_name(f"{path.name}.{kind}") for kind in ("png", "svg"))
    for file in (png, svg):
        file.write_bytes(image(canvas, file.suffix[1:]))
    width, height = canvas.get_size_inches()
    n_lines = math.ceil(sum(len(legend.get_texts()) for legend in canvas.legends) / 2)
    for name, inches in COLUMNS.items() if in_paper else ():
        least = height if has_rows else 2.2 + 0.2 * n_lines  # the label of the vertical axis is 1.5 inches long
        canvas.set_size_inches(inches, max(height * inches / width, least))
        path.with_name(f"{path.name}-{name}.pdf").write_bytes(image(canvas, "pdf"))
    return png, svg


def draw_line(axes: Any, points: Sequence[tuple[float, float, float]], label: str, **style: Any) -> None:
    """Join points (place, mean, standard error), with bars of two standard errors where known."""
    if not points:
        return
    x, y, errors = zip(*points, strict=True)
    bars = [2.0 * error if math.isfinite(error) else 0.0 for error in errors]
    # On a logarithmic axis a bar must not reach 0.
    down = [min(bar, 0.95 * abs(value)) for bar, value in zip(bars, y, strict=True)]
    usual = {"linewidth": 1.4, "markersize": 5, "capsize": 2}
    axes.errorbar(x, y, yerr=[down, bars] if any(bars) else None, label=label, **{**usual, **style})


def _plain_numbers(axes: Any) -> None:
    """Write numbers on logarithmic axes without exponents, three to a decade if there are few decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator  # noqa: PLC0415

    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        if axis.get_scale() == "log":
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 100.0 * low else (1.0,)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}".replace(",", "\u202f")))
            axis.set_minor_locator(NullLocator())


def estimates(bars: Sequence[Bar], confidence: str) -> Any:
    """Draw estimates with confidence intervals, the best on top."""
    shown = best_first(bars)
    canvas, axes = _rows([bar.name for bar in shown])
    for label, (color, marker) in KINDS.items():
        places = [i for i, bar in enumerate(shown) if bar.kind == label]
        if not places:
            continue
        value = [shown[i].value for i in places]
        ends = [[shown[i].value - shown[i].low for i in places], [shown[i].high - shown[i].value for i in places]]
        is_bounded = all(math.isfinite(end) for side in ends for end in side)
        look = {"color": color, "marker": marker, "linestyle": "none", "markersize": 5, "capsize": 2, "linewidth": 1.2}
        # A fitted mean may lie outside the range of the rewards, which intervals are cut to.
        ends = [[max(end, 0.0) for end in side] for side in ends]
        axes.errorbar(value, places, xerr=ends if is_bounded else None, label=label, **look)
        axes.hlines(
            places, [shown[i].likely_low for i in places], [shown[i].likely_high for i in places], color, linewidth=3.5
        )
    has_intervals = any(math.isfinite(bar.high - bar.low) for bar in shown)
    axes.set_xlabel(f"mean reward, with {confidence} intervals" if has_intervals else "mean reward")
    return _finished(canvas)


def evidence(path: Sequence[tuple[int, float, float]]) -> Any:
    """Draw the evidence, as a share of the threshold, over the pulls."""
    canvas, (axes,) = frame([3.4])
    shares = [share_of(value, target) for _, value, target in path]
    axes.plot([n for n, _, _ in path], shares, color=BLUE, marker="o", markersize=3, linewidth=1.4)
    axes.axhline(100.0, color=INK, linestyle="--", linewidth=1.0)
    axes.set_ylim(0.0, max(110.0, 1.05 * max(shares, default=0.0)))
    axes.set_xlim(left=0.0)
    axes.set(xlabel="pulls", ylabel="evidence, % of the threshold")
    return _finished(canvas)


def fit(points: Sequence[Point]) -> Any:
    """Draw measured means against fitted means."""
    canvas, (axes,) = frame([3.9], grid="both")
    ends = [value for point in points for value in (point.fitted, point.measured)]
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    axes.plot([low, high], [low, high], color=INK, linestyle="--", linewidth=1.0, label="measured = fitted")
    for is_leader, label, color, marker in ((False, "arm", BLUE, "o"), (True, "leader", ORANGE, "D")):
        group = [point for point in points if point.is_leader == is_leader]
        if group:
            bars = [0.0 if math.isnan(point.error) else 2.0 * point.error for point in group]
            look = {"color": color, "marker": marker, "linestyle": "none", "markersize": 5, "linewidth": 1.0}
            x, y = [point.fitted for point in group], [point.measured for point in group]
            axes.errorbar(x, y, yerr=bars if any(bars) else None, label=label, **look)
    axes.set(xlabel="fitted mean reward", ylabel="measured mean, ± 2 standard errors")
    return _finished(canvas)


def pulls(rows: Sequence[Pulls]) -> Any:
    """Draw the pulls of each arm beside the planned ones, the most on top."""
    shown = most_pulled(rows)
    canvas, axes = _rows([row.name for row in shown])
    places = range(len(shown))
    axes.barh(places, [row.pulls for row in shown], color=BLUE, height=0.6, label="pulls")
    planned = [(row.planned, place) for row, place in zip(shown, places, strict=True) if not math.isnan(row.planned)]
    if planned:
        x, y = zip(*planned, strict=True)
        axes.plot(x, y, color=ORANGE, marker="|", markersize=13, markeredgewidth=2.5, linestyle="none", label="planned")
    axes.set_xlabel("pulls")
    axes.set_xlim(left=0.0)
    axes.xaxis.get_major_locator().set_params(integer=True)
    return _finished(canvas)


def shares(times: Sequence[int], values: Any, weights: Mapping[int, float], most: int = 6) -> Any:
    """Draw N(t)/t of the arms with the largest shares at the end, beside the weights of a design as dashed lines.

    Args:
        times: results so far (T,).
        values: share of every arm among them (T, K).
        weights: weight of each arm in the design.
        most: arms to draw.
    """
    canvas, (axes,) = frame([3.8])
    last = values[-1]
    order = sorted(range(len(last)), key=lambda arm: (-max(last[arm], weights.get(arm, 0.0)), arm))[:most]
    for arm, color in zip(sorted(order), COLORS * most, strict=False):
        axes.plot(times, values[:, arm], color=color, linewidth=1.4, label=f"arm {arm}")
        if arm in weights:
            axes.axhline(weights[arm], color=color, linewidth=1.0, linestyle="--")
    if any(arm in weights for arm in order):
        axes.plot([], [], color=GREY, linewidth=1.0, linestyle="--", label="weight in the design")
    axes.set_xscale("log")
    axes.set_xlabel("pulls")
    axes.set_ylabel("share of the pulls")
    return _finished(canvas)


def _rows(names: Sequence[str]) -> tuple[Any, Any]:
    """Return axes with a row for each name, the first on top."""
    canvas, (axes,) = frame([1.1 + 0.22 * max(len(names), 4)], grid="x")
    axes.set_yticks(range(len(names)), list(map(_escaped, distinct_labels(names))), fontsize=8.5)
    axes.set_ylim(len(names) - 0.4, -0.6)
    return canvas, axes


def _finished(canvas: Any) -> Any:
    finish(canvas)
    return canvas


def plan(panels: Sequence[tuple[str, float, Sequence[tuple[float, Any]]]]) -> Any:
    """Draw expected pulls with their range, against the risk (logarithmic axis) and beside it against the slack.

    Args:
        panels: for each panel its label, the place of the plan itself, and the plans at other places.
    """
    canvas, drawn = frame([3.9] * len(panels), grid="both", width=4.2, is_row=True)
    for axes, (label, now, plans) in zip(drawn, panels, strict=True):
        shown = [(place, plan) for place, plan in plans if math.isfinite(plan.high)]
        places = [place for place, _ in shown]
        axes.plot(places, [plan.pulls for _, plan in shown], color=BLUE, label="to expect")
        ends = [plan.low for _, plan in shown], [plan.high for _, plan in shown]
        axes.fill_between(places, *ends, color=BLUE, alpha=0.18, linewidth=0.0, label="8 of 10 runs")
        bounds = [(place, plan.lower_bound) for place, plan in shown if plan.lower_bound > 0.0]
        if len(bounds) > 1:
            axes.plot(*zip(*bounds, strict=True), color=INK, linestyle="--", linewidth=1.0, label="lower bound")
        here = [(place, plan.pulls) for place, plan in plans if place == now]
        axes.plot(*zip(*here, strict=True), "o", color=BLUE, label="this plan")
        axes.locator_params(axis="x", nbins=4)  # rates of clicks differ by numbers with many digits
        axes.set_xlabel(label)
    drawn[0].set(xscale="log", yscale="log", ylabel="pulls")
    return _finished(canvas)
