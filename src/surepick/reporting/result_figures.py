"""Figures of a result: the charts of its page, and drawings of the same numbers by matplotlib."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from surepick._texts import counted, percent, places_of
from surepick.learning.explain import label_of
from surepick.reporting import charts, figures
from surepick.types import Array

if TYPE_CHECKING:
    from surepick.learning.estimates import Estimates
    from surepick.learning.result import Result


class Figure(NamedTuple):
    """A chart and its caption."""

    kind: str
    """The macro of `charts.html` that draws the chart."""
    chart: Any
    caption: str


def planned_pulls(result: "Result") -> Counter[Any]:
    """Return the pulls of each arm without check pulls, which come after all others."""
    return Counter(arm for arm, _ in result.history[: result.n_pulls - result.n_checks])


def figures_of(result: "Result", unit: str = "") -> list[Figure]:
    """Return the figures of a result, without empty ones."""
    has_intervals = bool(np.isfinite(result.compared.high).any())
    intervals = f" with {percent(1.0 - result.delta)} intervals" if has_intervals else ""
    likely = " Thick: likely, an estimate and not a guarantee." if has_likely(result) else ""
    noun, in_unit = "arm" if result.candidates is None else "candidate", f" in {unit}" if unit else ""
    estimated = f"Estimates of {_most(len(result.compared), noun)}{in_unit}{intervals}.{likely}"
    less = ", without the offsets of the groups," if result.has_offsets else ""
    fitted = f"Measured means{less} against the fit{in_unit}: points off the line do not fit the model."
    planned = ", and planned pulls" if result.planned else ""
    pulled = f"Pulls of each arm{planned}{', without check pulls' if result.n_checks else ''}."
    evidence = "Evidence over pulls; the rule decides at the dashed line."
    if not math.isnan(result.p_value):
        evidence += (
            " Half of the threshold does not mean half proved, because evidence is the logarithm of a probability."
        )
    has_evidence = len(result.path) > 1 and result.guarantee != "withdrawn" and any(at[1] > 0.0 for at in result.path)
    has_fit = result.theta is not None and len(measured_of(result)) > len(result.theta)
    drawn: list[tuple[str, bool, Callable[[], Any], str]] = [
        ("interval_bars", result.theta is not None, lambda: _estimates_chart(result), estimated),
        ("evidence_line", has_evidence, lambda: charts.evidence_line(result.path), evidence),
        ("scatter", has_fit, lambda: charts.scatter(points_of(result), places_in(result.arms)), fitted),
        ("bars", bool(result.counts), lambda: charts.pull_bars(pulls_of(result)), pulled),
    ]
    return [Figure(kind, chart(), caption) for kind, is_there, chart, caption in drawn if is_there]


def _estimates_chart(result: "Result") -> charts.IntervalBars:
    return charts.interval_bars(charts.best_first(bars_of(result)), places_in(result.compared), *target_of(result))


def target_of(result: "Result") -> tuple[float | None, str]:
    """Return the value that arms are called against, and its name: the threshold, or the control by its estimate."""
    target = result.specification
    if target is None or result.guarantee == "withdrawn":
        return None, ""
    if target.control is None:
        return target.value, "threshold"
    control = float(result.compared.estimate[target.control])
    margin = f" minus {-target.value:g}" if target.value else ""
    return (control + target.value, f"control{margin} (estimate)") if math.isfinite(control) else (None, "")


def _most(n: int, noun: str) -> str:
    return counted(n, noun) if n <= charts.MOST else f"the first {charts.MOST} of {n:,} {noun}s"


def has_likely(result: "Result") -> bool:
    """Whether estimated intervals of single means are shown: also at a verdict beside calls, or without others."""
    has_others = result.stopped and result.calls is None and bool(np.isfinite(result.compared.high).any())
    return not has_others and result.compared.likely_low is not None


def estimates_figure(result: "Result") -> Any:
    """Draw estimates with confidence intervals."""
    return figures.estimates(bars_of(result), percent(1.0 - result.delta))


def bars_of(result: "Result") -> list[charts.Bar]:
    """Return the estimates of all arms, or candidates, with intervals."""
    rows, names = result.compared, names_of(result, result.compared)
    kinds = ["arm"] * len(rows)
    if result.survivors is not None and result.guarantee != "withdrawn":
        left = set(result.survivors.tolist())
        kinds = ["not excluded" if row in left else "excluded" for row in range(len(rows))]
    for row in leading(result):
        kinds[row] = "leader"
    if result.calls is not None and result.guarantee != "withdrawn":
        kinds = [result.calls.get(row, "control") for row in range(len(rows))]
    numbers = (values.tolist() for values in (rows.estimate, rows.low, rows.high))
    unknown = [math.nan] * len(rows)
    likely = [
        unknown if ends is None or not has_likely(result) else ends.tolist()
        for ends in (rows.likely_low, rows.likely_high)
    ]
    return [charts.Bar(*row) for row in zip(names, *numbers, kinds, *likely, strict=True)]


def leading(result: "Result") -> Sequence[int]:
    """Return the rows of the leaders in `compared`; none of a result that is withdrawn."""
    if result.best is None or result.guarantee == "withdrawn":
        return []
    return result.best if result.m > 1 or result.calls is not None else [result.row_of_leader]


def evidence_figure(result: "Result") -> Any:
    """Draw the growth of evidence."""
    return figures.evidence(result.path)


def fit_figure(result: "Result") -> Any:
    """Draw measured means against the fit."""
    return figures.fit(points_of(result))


def points_of(result: "Result") -> list[charts.Point]:
    """Return measured and fitted means of the arms that were measured."""
    names, measured = names_of(result, result.arms), measured_of(result)
    is_one_level = result.noise == "same" and not isinstance(result.given_noise_std, np.ndarray)
    noise = result.noise_std if is_one_level else math.nan
    has_leader = result.candidates is None and result.calls is None
    best = [result.arms.keys[row] for row in leading(result)] if has_leader else []
    points = []
    for name, arm, fitted in zip(names, result.arms.keys, result.arms.estimate.tolist(), strict=True):
        if rewards := measured.get(arm):
            error = noise / math.sqrt(len(rewards))
            points.append(charts.Point(name, fitted, math.fsum(rewards) / len(rewards), error, is_leader=arm in best))
    return points


def measured_of(result: "Result") -> dict[Any, list[float]]:
    """Return the rewards of every arm that was measured, less the estimated offsets of their groups, if these have any.

    The fit is without offsets too, on the level of all results. Results of a group whose offset is unknown are left
    out: they lie off the fit by an amount that says nothing of the model.
    """
    rewards: dict[Any, list[float]] = {}
    for (arm, reward), shift in zip(result.history, _shifts_of(result), strict=True):
        if math.isfinite(shift):
            rewards.setdefault(arm, []).append(reward - shift)
    return rewards


def _shifts_of(result: "Result") -> list[float]:
    """Return how much higher each result reads than the level of all results, by its groups; NaN where unknown."""
    if not result.has_offsets:
        return [0.0] * len(result.history)
    factors = Counter(one.label[0][0] for one in result.groups)
    # A factor with one level moves all results alike.
    offsets = {one.label[0]: one.offset if factors[one.label[0][0]] > 1 else 0.0 for one in result.groups}
    labels = result.history.labels
    shifts = [sum(offsets.get(pair, math.nan) for pair in label) if label else math.nan for label in labels]
    known = [shift for shift in shifts if math.isfinite(shift)]
    level = math.fsum(known) / len(known) if known else math.nan
    return [shift - level for shift in shifts]


def pulls_figure(result: "Result") -> Any:
    """Draw pulls against the plan."""
    return figures.pulls(pulls_of(result))


def pulls_of(result: "Result") -> list[charts.Pulls]:
    """Return the pulls of each arm beside the planned ones, without check pulls, which the plan does not contain."""
    names = dict(zip(result.arms.keys, names_of(result, result.arms), strict=True))
    counts = planned_pulls(result)
    wanted = {arm: counts.total() * share for arm, share in result.planned.items()}
    unknown = 0.0 if wanted else math.nan
    return [charts.Pulls(names.get(arm, str(arm)), n, wanted.get(arm, unknown)) for arm, n in counts.items()]


def names_of(result: "Result", rows: "Estimates") -> list[str]:
    """Return the names of arms or candidates; numbers where they have none."""
    if rows.names is not None:
        return list(rows.names)
    if result.arm_set and rows is result.compared:
        label = label_of(result)
        return [label(arm) for arm in rows.keys]
    return [str(arm) for arm in rows.keys]


def places_in(rows: "Estimates") -> int:
    """Return the number of decimals for the estimates of a table."""
    top = float(np.abs(rows.estimate[np.isfinite(rows.estimate)]).max(initial=0.0))
    high = rows.high if rows.likely_high is None else rows.likely_high
    return places_of(top, typical(high - rows.estimate))


def typical(widths: Array) -> float:
    """Return the median of the known widths; inf without one."""
    finite = widths[np.isfinite(widths) & (widths > 0.0)]
    return float(np.median(finite)) if len(finite) else math.inf
