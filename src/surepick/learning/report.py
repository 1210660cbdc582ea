"""The page and the figures of a result: which words, tables and pictures are on them."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from surepick._version import __version__
from surepick.core.linalg import Array
from surepick.learning.words import (
    assumptions,
    confidence_words,
    counted,
    label_of,
    lead_words,
    percent,
    places_of,
    standing_sentences,
    verdict,
)
from surepick.showing import plots
from surepick.showing.page import Cell, Figure, Page, Table

if TYPE_CHECKING:
    from surepick.learning.estimates import Estimates
    from surepick.learning.result import Result

NOTHING = "-"


def page_of(result: "Result", *, title: str | None, command: str | None) -> Page:
    """Return everything that the page of a result shows.

    Args:
        result: what was found.
        title: its title; None: a plain one.
        command: what to type to do it again, if it was made by a command.
    """
    state, tone = _state(result)
    said = [] if result.best is None else standing_sentences(result.standing, label_of(result))
    return Page(
        title=title or f"Which of {_total(result)} is the best?",
        state=state,
        tone=tone,
        verdict=verdict(result),
        details=[" ".join(said)] if said else [],
        facts=_facts(result),
        tables=[table for table in _tables(result) if table.rows],
        figures=_figures(result),
        steps=_steps(result, command),
        foot=f"Written by surepick {__version__}.",
    )


def _state(result: "Result") -> tuple[str, str]:
    if result.guarantee == "withdrawn":
        return "Withdrawn", "bad"
    if result.stopped:
        return ("Decided", "good") if result.guarantee != "none" else ("Decided, without guarantee", "open")
    return "Interrupted, not decided" if result.interrupted else "Not decided", "open"


def _total(result: "Result") -> str:
    if result.arm_set or result.compared.listed is not None:
        return result.arm_set or "all arms"
    return counted(len(result.compared), "arm" if result.candidates is None else "candidate")


def _facts(result: "Result") -> list[tuple[str, str]]:
    checks = f" and {counted(result.n_checks, 'check pull')}" if result.n_checks else ""
    measured = f"{len(result.counts):,}"
    if result.arms.listed is None:
        measured += f" of {len(result.arms):,}"
    facts = [
        ("Pulls", f"{result.n_pulls - result.n_checks:,}{checks}"),
        ("Arms measured", measured),
        ("Confidence", confidence_words(result.standing) if result.best is not None else NOTHING),
        ("Accepted risk (delta)", percent(result.delta)),
    ]
    if result.epsilon > 0.0:
        facts.append(("Accepted loss (epsilon)", f"{result.epsilon:g}"))
    if result.survivors is not None and not result.stopped and result.guarantee != "withdrawn":
        facts.append(("Not excluded", f"{len(result.survivors):,} of {len(result.compared):,}"))
    if not math.isnan(result.noise_std):
        facts.append(("Noise of one measurement", f"{result.noise_std:.3g}"))
    return [*facts, ("Rule", result.stopping), ("Algorithm", result.algorithm)]


def _tables(result: "Result") -> list[Table]:
    listed = [_versus(result), _ranking(result, result.compared)]
    if result.candidates is not None:
        listed.append(_ranking(result, result.arms))
    return [*listed, _coefficients(result), _resting_on(result)]


def _versus(result: "Result") -> Table:
    """The leader beside its rival."""
    standing, rows = result.standing, result.compared
    second = "runner-up" if result.stopped else "rival"
    table = Table(f"Leader against {second}", ["", "", "Estimate", "Interval", "Pulls"], 2, [], key=0)
    if standing.rival is None:
        return table
    label, number = label_of(result), _numbers(rows)
    pulls = [_count(result, arm, is_arm=result.candidates is None) for arm in (standing.leader, standing.rival)]
    for kind, arm, made in zip(("Leader", second.capitalize()), (standing.leader, standing.rival), pulls, strict=True):
        interval = _interval(rows.low[arm], rows.high[arm], number)
        table.rows.append([Cell(kind), Cell(label(arm)), Cell(number(rows.estimate[arm])), Cell(interval), Cell(made)])
    shown = lead_words(standing)
    lead, _, interval = shown.partition(" (")
    table.rows.append([Cell("Difference"), Cell(""), Cell(lead), Cell(interval.rstrip(")") or NOTHING), Cell("")])
    note = f"Intervals hold for all arms and all times together, at {percent(1.0 - result.delta)} confidence."
    if result.stopped and standing.interval[0] < -result.epsilon:
        note += (
            f" They pay for looking at everything at any time. The verdict needs less, and excludes the part of the "
            f"interval below {-result.epsilon if result.epsilon else 0:g}."
        )
    return table._replace(note=note)


def _ranking(result: "Result", rows: "Estimates") -> Table:
    """All rows of a table by their estimates; those never measured are predicted by the model."""
    is_arms, kind = rows is result.arms, "arm" if rows is result.arms else "candidate"
    headers = ["Rank", kind.capitalize(), "Estimate", "Behind the leader", "Measured mean", "Pulls"]
    columns = result.to_columns("arms" if is_arms else "candidates")
    number, behind, measured, names = _numbers(rows), columns["behind"], result.measured(), _names(result, rows)
    low, high = columns["behind_low"], columns["behind_high"]
    of_behind = _number(places_of(float(np.nanmax(behind, initial=0.0)), _typical(high - behind)))
    body = []
    for row in np.argsort(columns["rank"], kind="stable").tolist():
        arm, is_leader = rows.keys[row], behind[row] == 0.0 and high[row] == 0.0
        mean = number(measured[arm]) if is_arms and arm in measured else "predicted"
        body.append(
            [
                Cell(str(columns["rank"][row])),
                Cell(names[row]),
                Cell(number(rows.estimate[row]), _interval(rows.low[row], rows.high[row], number, nothing="")),
                Cell(NOTHING if is_leader or math.isnan(behind[row]) else of_behind(behind[row]),
                     "" if is_leader else _interval(low[row], high[row], of_behind, nothing="")),
                Cell(mean),
                Cell(f"{result.counts.get(arm, 0):,}" if is_arms else NOTHING),
            ]
        )  # fmt: skip
    first = None
    if rows is result.compared and result.best is not None:
        first = int(columns["rank"][_row_of_best(result)]) - 1
    note = 'Small: intervals. "Predicted": never measured, the estimate follows from the features.'
    title = "All arms" if rows.listed is None else "Arms measured"
    return Table(title if is_arms else "All candidates", headers, 2, body, note, first=first, key=1)


def _coefficients(result: "Result") -> Table:
    """What one more of each feature does."""
    table = Table("Coefficients", ["Feature", "Coefficient", "Interval"], 1, [], key=0)
    if result.theta is None or result.model != "linear":
        return table
    margins = np.full(len(result.theta), np.inf) if result.theta_margin is None else result.theta_margin
    names = result.feature_names or tuple(f"x{j}" for j in range(len(result.theta)))
    for name, value, margin in zip(names, result.theta.tolist(), margins.tolist(), strict=True):
        number = _number(places_of(value, margin))
        interval = _interval(value - margin, value + margin, number)
        table.rows.append([Cell(name), Cell(number(value)), Cell(interval)])
    return table._replace(note="What one unit more of a feature adds to the mean reward, the others unchanged.")


def _resting_on(result: "Result") -> Table:
    rows = [[Cell(one.text), Cell(one.checked)] for one in assumptions(result)]
    return Table("What it rests on, and how that was checked", ["Assumption", "Checked"], 2, rows, key=0)


def _steps(result: "Result", command: str | None) -> list[tuple[str, str]]:
    steps = [("The command that made this page:", command)] if command else []
    options = [f"delta={result.delta!r}", f"epsilon={result.epsilon!r}", f"seed={result.seed!r}"]
    options += [f"algorithm={result.algorithm!r}", f"model={result.model!r}"]
    if result.reward_range is not None:
        options.append(f"reward_range={result.reward_range!r}")
    elif isinstance(result.given_noise_std, np.ndarray):
        options.append("noise_std=...")  # one for each arm
    elif result.given_noise_std is not None:
        options.append(f"noise_std={result.given_noise_std!r}")
    options += [f"noise={result.noise!r}"] if result.noise != "same" else []
    options += [f"misfit={result.allowed_misfit!r}"] if result.allowed_misfit > 0.0 else []
    call = f"import surepick as sp\n\nresult = sp.identify(arms, measure, {', '.join(options)})"
    again = (
        'earlier = sp.Result.load("result.json")\n'
        "same = sp.identify(arms, measure, max_pulls=0, history=earlier.history, ...)  # the options above\n"
        "assert same.best == earlier.best"
    )
    steps.append((f"With surepick {__version__}, the same arms and the same rewards, this gives the same pulls:", call))
    steps.append(
        ("From a saved result, every decision is worked out again from the rewards, without measuring:", again)
    )
    identity = str(result.history.log[0][1]) if result.history.log else ""
    return [*steps, ("What was measured belongs to:", identity)] if identity else steps


def _figures(result: "Result") -> list[Figure]:
    """The pictures of a result, those for which there is something to draw."""
    estimated = f"Estimates of {_most(len(result.compared))} with {percent(1.0 - result.delta)} intervals."
    fitted = "Measured means against the fit: points off the line do not fit the model."
    pulled = f"Pulls of {_most(len(result.counts))}{', and what the plan wanted' if result.planned else ''}."
    drawn: list[tuple[Callable[[Result], Any], bool, str]] = [
        (estimates_figure, result.theta is not None, estimated),
        (evidence_figure, len(result.path) > 1, "Evidence over pulls; the rule decides at the dashed line."),
        (fit_figure, result.theta is not None, fitted),
        (pulls_figure, bool(result.counts), pulled),
    ]
    return [Figure(draw(result), caption) for draw, is_there, caption in drawn if is_there]


def _most(n: int) -> str:
    return counted(n, "arm") if n <= plots.MOST else f"the first {plots.MOST} of {n:,} arms"


def estimates_figure(result: "Result") -> Any:
    """Draw estimates with intervals."""
    rows, names = result.compared, _names(result, result.compared)
    left = set(range(len(rows)) if result.survivors is None else result.survivors.tolist())
    best = _row_of_best(result)
    bars = [
        plots.Bar(name, value, low, high, is_leader=row == best, is_excluded=row not in left)
        for row, (name, value, low, high) in enumerate(
            zip(names, rows.estimate.tolist(), rows.low.tolist(), rows.high.tolist(), strict=True)
        )
    ]
    return plots.estimates(bars, percent(1.0 - result.delta))


def evidence_figure(result: "Result") -> Any:
    """Draw how evidence grew."""
    return plots.evidence(result.path)


def fit_figure(result: "Result") -> Any:
    """Draw measured means against the fit."""
    names, means = _names(result, result.arms), result.measured()
    is_one_level = result.noise == "same" and not isinstance(result.given_noise_std, np.ndarray)
    noise = result.noise_std if is_one_level else math.nan
    best = None if result.candidates is not None or result.best is None else result.arms.keys[_row_of_best(result)]
    points = [
        plots.Point(name, fitted, means[arm], noise / math.sqrt(result.counts[arm]), is_leader=arm == best)
        for name, arm, fitted in zip(names, result.arms.keys, result.arms.estimate.tolist(), strict=True)
        if arm in means
    ]
    return plots.fit(points)


def pulls_figure(result: "Result") -> Any:
    """Draw pulls against the plan."""
    names, total = (
        dict(zip(result.arms.keys, _names(result, result.arms), strict=True)),
        result.n_pulls - result.n_checks,
    )
    rows = [
        plots.Pulls(names.get(arm, str(arm)), n, total * result.planned.get(arm, 0.0) if result.planned else math.nan)
        for arm, n in result.counts.items()
    ]
    return plots.pulls(rows)


def _row_of_best(result: "Result") -> int:
    rows = result.compared
    if rows.listed is None:
        return int(result.best)
    best = tuple(result.best.tolist()) if isinstance(result.best, np.ndarray) else result.best
    return rows.listed.index(best)


def _names(result: "Result", rows: "Estimates") -> list[str]:
    if rows.names is not None:
        return list(rows.names)
    if result.arm_set and rows is result.compared:
        label = label_of(result)
        return [label(arm) for arm in rows.keys]
    return [str(arm) for arm in rows.keys]


def _count(result: "Result", arm: Any, *, is_arm: bool) -> str:
    return f"{result.counts.get(arm, 0):,}" if is_arm else NOTHING


def _numbers(rows: "Estimates") -> Callable[[float], str]:
    """Return how the estimates of a table are written: all with the same decimals."""
    spread = rows.estimate[np.isfinite(rows.estimate)]
    top = float(np.abs(spread).max(initial=0.0))
    return _number(places_of(top, _typical(rows.high - rows.estimate)))


def _typical(widths: Array) -> float:
    finite = widths[np.isfinite(widths) & (widths > 0.0)]
    return float(np.median(finite)) if len(finite) else math.inf


def _number(places: int) -> Callable[[float], str]:
    def write(value: float) -> str:
        return NOTHING if not math.isfinite(value) else f"{value:,.{places}f}"

    return write


def _interval(low: float, high: float, number: Callable[[float], str], nothing: str = NOTHING) -> str:
    return f"{number(low)} to {number(high)}" if math.isfinite(low) and math.isfinite(high) else nothing
