"""Figures for papers and reports: each function writes a PNG and an SVG and returns their paths.

Same numbers, same bytes of SVG: no date and no random identifiers go into the files.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

INK, GREY, BLUE, ORANGE, GREEN, PURPLE = "#222222", "#777777", "#0b5fa5", "#c8641e", "#3b7d3b", "#7a4fa0"


class Line(NamedTuple):
    """A line of a figure: means with two standard errors either way."""

    label: str
    color: str
    marker: str = ""
    width: float = 1.4
    dashes: str = "-"
    is_hollow: bool = False
    points: Sequence[tuple[float, float, float]] = ()
    """Place, mean and standard error."""


def plot_lines(lines: Sequence[Line], title: str, note: str, folder: Path, name: str) -> tuple[Path, Path]:
    """Mean pulls by number of arms on a log scale; the legend has the order of the lines."""
    import matplotlib as mpl  # noqa: PLC0415 (a second to import, and optional)
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context({"font.size": 10, "svg.hashsalt": "surepick", "axes.edgecolor": GREY}):
        figure = Figure(figsize=(7.6, 4.6), dpi=160, layout="constrained")
        axes = figure.add_subplot()
        for line in lines:
            places, means, ses = zip(*line.points, strict=True)
            axes.errorbar(
                places,
                means,
                yerr=[2 * se if se == se else 0.0 for se in ses],  # noqa: PLR0124 (NaN: a single run)
                label=line.label,
                color=line.color,
                marker=line.marker,
                markersize=5,
                markerfacecolor="white" if line.is_hollow else line.color,
                linewidth=line.width,
                linestyle=line.dashes,
                capsize=2,
            )
        axes.set_yscale("log")
        # Not down to the ends of the bars: with few runs they would stretch the axis to nothing.
        low = 0.6 * min(mean for line in lines for _, mean, _ in line.points)
        high = 1.2 * axes.get_ylim()[1]
        ticks = [digit * 10.0**power for power in range(9) for digit in (1, 2, 5)]
        axes.set(yticks=[tick for tick in ticks if low <= tick <= high], ylim=(low, high))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")
        axes.set_xticks(sorted({place for line in lines for place, _, _ in line.points}))
        axes.set(xlabel="number of arms K", ylabel="mean number of pulls (log scale)")
        axes.set_title(title, loc="left", color=INK)
        axes.grid(axis="y", color="#dddddd", linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
        figure.supxlabel(note, size=8, color=GREY)
        folder.mkdir(parents=True, exist_ok=True)
        paths = folder / f"{name}.png", folder / f"{name}.svg"
        figure.savefig(paths[0], metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None})
    return paths
