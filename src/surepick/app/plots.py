"""Figures for papers and reports: each function writes a PNG and an SVG and returns their paths.

Same numbers, same bytes of SVG: no date and no random identifiers go into the files.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from surepick.app.many_arms import Row
from surepick.simulation import published

BESIDE = {"rage": "RAGE, run here", "xy-oracle": "Oracle (knows theta), run here"}
INK, GREY, BLUE, ORANGE, GREEN, PURPLE = "#222222", "#777777", "#0b5fa5", "#c8641e", "#3b7d3b", "#7a4fa0"


def plot_many_arms(rows: Sequence[Row], folder: Path, *, delta: float, name: str = "many_arms") -> tuple[Path, Path]:
    """Mean pulls by number of arms with the published means and the lower bound, on a log scale."""
    import matplotlib as mpl  # noqa: PLC0415 (a second to import, and optional)
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.ticker import FuncFormatter, NullFormatter  # noqa: PLC0415

    with mpl.rc_context({"font.size": 10, "svg.hashsalt": "surepick", "axes.edgecolor": GREY}):
        figure = Figure(figsize=(7.6, 4.6), dpi=160, layout="constrained")
        axes = figure.add_subplot()
        n_arms = [row.n_arms for row in rows]
        if delta == published.DELTA:
            _published(axes, published.RAGE, n_arms, "RAGE, published", PURPLE, "^")
            _published(axes, published.TABLE_1, n_arms, "Lazy TS, published (Table 1)", ORANGE, "s")
            _published(axes, published.ORACLE, n_arms, "Oracle, published", GREEN, "v")
            _published(axes, published.TABLE_2, n_arms, "Lazy TS, published (Table 2)", ORANGE, "D")
        axes.errorbar(
            n_arms,
            [row.runs.mean for row in rows],
            yerr=[2 * row.runs.se if row.runs.n_runs > 1 else 0.0 for row in rows],
            label=f"surepick, {rows[0].runs.n_runs} runs",
            color=BLUE,
            marker="o",
            markersize=6,
            linewidth=2.2,
            capsize=3,
            zorder=5,
        )
        for (other, label), color, marker in zip(BESIDE.items(), (PURPLE, GREEN), ("^", "v"), strict=True):
            axes.errorbar(
                n_arms,
                [row.compared[other].mean for row in rows],
                yerr=[2 * row.compared[other].se if row.runs.n_runs > 1 else 0.0 for row in rows],
                label=label,
                color=color,
                marker=marker,
                markersize=5,
                linewidth=1.4,
                capsize=2,
            )
        # Not `plot`: the legend lists plain lines before those with bars, and its order should be that of the lines.
        axes.errorbar(
            n_arms, [row.bound for row in rows], label="lower bound", color=INK, linestyle="--", linewidth=1.4
        )
        axes.set_yscale("log")
        # Not down to the ends of the bars: with few runs they would stretch the axis to nothing.
        low, high = 0.6 * min(min(row.bound, row.runs.mean) for row in rows), 1.2 * axes.get_ylim()[1]
        ticks = [digit * 10.0**power for power in range(9) for digit in (1, 2, 5)]
        axes.set_yticks([tick for tick in ticks if low <= tick <= high])
        axes.set_ylim(low, high)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xticks(n_arms)
        axes.set_xlabel("number of arms K")
        axes.set_ylabel("mean number of pulls (log scale)")
        axes.set_title(f"Pulls until the best of K arms is known, delta = {delta:g}", loc="left", color=INK)
        axes.grid(axis="y", color="#dddddd", linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
        note = 'bars: two standard errors either way (published: from "Std"); published with other stopping constants'
        figure.supxlabel(note, size=8, color=GREY)
        folder.mkdir(parents=True, exist_ok=True)
        paths = folder / f"{name}.png", folder / f"{name}.svg"
        figure.savefig(paths[0], metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None})
    return paths


def _published(
    axes: Any, table: Mapping[int, published.Mean], n_arms: Sequence[int], label: str, color: str, marker: str
) -> None:
    shown = [k for k in n_arms if k in table]
    if shown:
        axes.errorbar(
            shown,
            [table[k].mean for k in shown],
            yerr=[2 * table[k].se for k in shown],
            label=label,
            color=color,
            marker=marker,
            markersize=5,
            markerfacecolor="white",
            linewidth=1.0,
            capsize=2,
        )
