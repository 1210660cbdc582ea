"""The figure of a plan: pulls against risk and against slack, with their range."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from surepick.errors import SurepickError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from surepick.planner.plan import Plan

INK, BLUE, LINE = "#1d2127", "#0b5fa5", "#d9dde3"


def draw(plan: "Plan") -> "Figure":
    """Return the figure: a panel for the risk, and one for the slack unless several arms are sought."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 (a second to import, and optional)
    except ImportError as error:
        raise SurepickError("a plot needs matplotlib; install surepick[report].") from error
    n_panels = 2 if plan.m == 1 else 1
    figure = Figure(figsize=(4.2 * n_panels, 3.9), layout="constrained")
    by_risk, *by_slack = figure.subplots(1, n_panels, sharey=True, squeeze=False)[0]
    _curve(by_risk, [(each.delta, each) for each in plan.by_risk], (plan.delta, plan.pulls))
    by_risk.set(xscale="log", yscale="log", xlabel="risk of a wrong answer, delta", ylabel="pulls")
    by_risk.legend(frameon=False, fontsize=8.5)
    for axes in by_slack:
        _curve(axes, [(each.epsilon, each) for each in plan.by_slack], (plan.epsilon, plan.pulls))
        axes.set(xlabel="what the answer may lose, epsilon")
        axes.locator_params(axis="x", nbins=4)  # rates of clicks differ by numbers with many digits
    return figure


def _curve(axes: Any, plans: Sequence[tuple[float, "Plan"]], now: tuple[float, float]) -> None:
    """Pulls with their range, and the lower bound where there is one."""
    drawn = [(place, plan) for place, plan in plans if math.isfinite(plan.high)]
    places = [place for place, _ in drawn]
    axes.plot(places, [plan.pulls for _, plan in drawn], color=BLUE, label="to expect")
    low, high = [plan.low for _, plan in drawn], [plan.high for _, plan in drawn]
    axes.fill_between(places, low, high, color=BLUE, alpha=0.18, linewidth=0.0, label="8 of 10 runs")
    bounds = [(place, plan.lower_bound) for place, plan in drawn if plan.lower_bound > 0.0]
    if len(bounds) > 1:
        axes.plot(*zip(*bounds, strict=True), color=INK, linestyle="--", linewidth=1.0, label="lower bound")
    axes.plot(*([value] for value in now), "o", color=BLUE, label="this plan")
    axes.grid(color=LINE, linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
