"""The figure of the demonstration, in the look of the reports."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from surepick.showing.canvas import COLORS, INK, frame
from surepick.simulation.report_plots import saved

BLUE, ORANGE, GREEN, PURPLE = COLORS[:4]


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
    canvas, (axes,) = frame([5.2], width=7.6)
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
    lowest = min(mean for line in lines for _, mean, _ in line.points if mean > 0.0)
    axes.set_ylim(0.6 * lowest, 1.2 * axes.get_ylim()[1])
    axes.set_xticks(sorted({place for line in lines for place, _, _ in line.points}))
    axes.set(xlabel=f"number of arms K\n{note}", ylabel="mean number of pulls (log scale)")
    axes.set_title(title, loc="left", color=INK)
    return saved(canvas, folder / name, title).paths
