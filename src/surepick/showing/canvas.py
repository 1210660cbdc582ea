"""The look of all figures: axes, colours, numbers, and SVG that is the same for the same numbers.

No date and no random identifiers go into the files.
"""

import io
import warnings
from collections.abc import Sequence
from typing import Any

from surepick.errors import SurepickError

INK, GREY, LINE = "#1d2127", "#6b7380", "#d9dde3"
COLORS = ("#0b5fa5", "#c8641e", "#3b7d3b", "#7a4fa0", "#b3263e", "#4a8f9c", "#8a6d1c", "#5b5f97")
WIDTH = 5.8
"""Inches: on a phone a figure is shown at half its size and must still be read."""
PNG_DPI = 150


def frame(heights: Sequence[float], *, grid: str = "y", width: float = WIDTH) -> tuple[Any, list[Any]]:
    """A figure with axes below each other, of these heights in inches and with one x-axis for all."""
    try:
        from matplotlib.figure import Figure as Canvas  # noqa: PLC0415 (a second to import, and optional)
    except ImportError as error:
        raise SurepickError("a figure needs matplotlib; install surepick[report].") from error
    canvas = Canvas(figsize=(width, sum(heights)), layout="constrained")
    panels = list(canvas.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0])
    for axes in panels:
        axes.grid(axis=grid, color=LINE, linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(GREY)
    return canvas, panels


def plain(text: str, most: int = 200) -> str:
    """Return a text as a figure shows it: a dollar sign would start a formula, and a long one would leave no room."""
    short = text if len(text) <= most else f"{text[: most - 3]}..."
    return " ".join(short.split()).replace("$", r"\$")


def finish(canvas: Any) -> None:
    """Write numbers plainly, and one legend below the axes, where a narrow page has room for it."""
    entries: dict[str, Any] = {}
    for axes in canvas.axes:
        _plain_numbers(axes)
        handles, labels = axes.get_legend_handles_labels()
        entries = {**dict(zip(labels, handles, strict=True)), **entries}
    if entries:
        looks = {"loc": "outside lower center", "ncols": 2, "frameon": False, "fontsize": 8.5}
        canvas.legend(list(entries.values()), list(entries), **looks)


def image(canvas: Any, kind: str) -> bytes:
    """Return a finished figure as "svg" or "png"."""
    import matplotlib as mpl  # noqa: PLC0415

    options: dict[str, Any] = {"dpi": PNG_DPI, "metadata": {"Software": None}}
    if kind == "svg":
        options = {"metadata": {"Date": None}}
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "surepick"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # names of arms may be in any script
        canvas.savefig(buffer, format=kind, **options)
    return buffer.getvalue()


def _plain_numbers(axes: Any) -> None:
    """On logarithmic axes numbers as people write them, three to a decade if there are few decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator  # noqa: PLC0415

    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        if axis.get_scale() == "log":
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 300.0 * low else (1.0,)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}".replace(",", "\u202f")))
            axis.set_minor_locator(NullLocator())
