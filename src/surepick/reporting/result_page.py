"""The page of a result, one HTML file for screens, phones and paper, and its figures."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from surepick._files import replacing
from surepick._texts import about, between, counted, fixed, percent, places_of
from surepick._version import __version__
from surepick.learning.assumptions import assumptions
from surepick.learning.explain import label_of, unmeasured, verdict
from surepick.learning.progress import confidence, sentences, wide_words
from surepick.reporting import charts, figures
from surepick.reporting.html import Cell, Table, template
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


@final
@dataclass(frozen=True, kw_only=True)
class Page:
    """The content of a page: texts, tables and figures."""

    title: str
    state: str
    """State of the result, in a word or two."""
    tone: str
    """Colour of the state: "good", "open" or "bad"."""
    verdict: str
    details: list[str] = field(default_factory=list)
    """Sentences below the verdict."""
    facts: list[tuple[str, str]] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    """Tables; the first is above the figures."""
    figures: list[Figure] = field(default_factory=list)
    steps: list[tuple[str, str]] = field(default_factory=list)
    """Steps to reproduce the result, each a sentence and code."""
    foot: str = ""


def write_page(page: Page, path: Path) -> None:
    """Write a page to a file atomically."""
    layout = template("result.html")
    text = layout.render(page=page)
    with replacing(path) as draft:
        draft.write_text(text.rstrip() + "\n", encoding="utf-8", newline="\n")


NOTHING = "-"
MOST_ROWS = 1_000
"""Most rows of a table: a page of 100,000 arms would open in no browser."""


def page_of(
    result: "Result",
    *,
    title: str | None,
    command: str | None,
    steps: Sequence[tuple[str, str]] | None = None,
    recipes: Mapping[str, Mapping[str, Any]] | None = None,
    notes: Sequence[str] = (),
) -> Page:
    """Return the content of the page of a result.

    Args:
        result: the result.
        title: title of the page; None: the question that the result answers.
        command: the command that made the result, if any.
        steps: steps to reproduce the result, each a sentence and code; default: a call of `identify`.
        recipes: by the names of arms, the columns that describe each.
        notes: further sentences below the verdict.
    """
    state, tone = _state(result)
    # A study has row numbers of its own.
    said = [verdict(result, numbers=recipes is None), *sentences(result, label_of(result)), unmeasured(result)]
    said = [sentence for sentence in said if sentence]
    # Before the verdict, the first lines also name the leader.
    n_first = 1 if result.stopped else 2
    return Page(
        title=title or _question(result),
        state=state,
        tone=tone,
        verdict=" ".join(said[:n_first]),
        details=[*said[n_first:], *notes],
        facts=_facts(result),
        tables=[table for table in (*_tables(result), _recipes(recipes or {})) if table.rows],
        figures=figures_of(result),
        steps=_steps(result, command) if steps is None else list(steps),
        foot=f"Written by surepick {__version__}.",
    )


def _state(result: "Result") -> tuple[str, str]:
    if result.guarantee == "withdrawn":
        return "Withdrawn", "bad"
    if result.guarantee == "doubtful" and result.stopped:
        return "Decided, in doubt", "open"
    if result.stopped:
        return ("Decided", "good") if result.guarantee != "none" else ("Decided, without guarantee", "open")
    return "Interrupted, not decided" if result.interrupted else "Not decided", "open"


def _question(result: "Result") -> str:
    if result.arm_set or result.compared.listed is not None:
        return f"Which arm of {result.arm_set or 'all'} is the best?"
    total = counted(len(result.compared), "arm" if result.candidates is None else "candidate")
    return f"Which of {total} is the best?" if result.m == 1 else f"Which are the {result.m} best of {total}?"


def _facts(result: "Result") -> list[tuple[str, str]]:
    checks = f" and {counted(result.n_checks, 'check pull')}" if result.n_checks else ""
    measured = f"{len(result.counts):,}"
    if result.arms.listed is None:
        measured += f" of {len(result.arms):,}"
    cost = [("Cost", f"{result.cost:,.6g}")] if result.has_costs else []
    facts = [
        ("Pulls", f"{result.n_pulls - result.n_checks:,}{checks}"),
        *cost,
        ("Arms measured", measured),
        *_likely(result),
        ("Proved" if result.guarantee == "proved" else "Confidence", _confidence(result)),
        ("Accepted risk (delta)", percent(result.delta)),
    ]
    if result.epsilon > 0.0:
        facts.append(("Accepted loss (epsilon)", f"{result.epsilon:g}"))
    if result.survivors is not None and not result.stopped and result.guarantee not in ("doubtful", "withdrawn"):
        facts.append(("Not excluded", f"{len(result.survivors):,} of {len(result.compared):,}"))
    if not math.isnan(result.noise_std):
        facts.append(("Noise of one measurement", f"{result.noise_std:.3g}"))
    return [*facts, ("Rule", result.rule), ("Algorithm", result.algorithm)]


def _likely(result: "Result") -> list[tuple[str, str]]:
    """Return the probability that the leader is the best, an estimate, before the verdict."""
    outlook = result.outlook
    if outlook is None or math.isnan(outlook.probability):
        return []
    best = "best" if result.m == 1 else f"the {result.m} best"
    return [(f"Estimate: {best} with", about(outlook.probability))]


def _confidence(result: "Result") -> str:
    if result.guarantee == "withdrawn":
        return "withdrawn"
    return NOTHING if result.best is None else confidence(result)


def _tables(result: "Result") -> list[Table]:
    listed = [versus(result), _ranking(result, result.compared)]
    if result.candidates is not None:
        listed.append(_ranking(result, result.arms))
    return [*listed, coefficients(result), resting_on(result)]


def versus(result: "Result") -> Table:
    """Return the table of the leader, the runner-up and the candidate hardest to exclude, if that is another one."""
    rows = result.compared
    likely_low, likely_high = (None, None) if result.stopped else (rows.likely_low, rows.likely_high)
    is_likely = _is_likely(result)
    headers = ["Place", "Arm", "Estimate", *["Likely"] * is_likely, "Interval", "Pulls"]
    table = Table("Leader against runner-up", headers, 2, [])
    if result.rival is None:
        return table
    label, places = label_of(result), places_in(rows)
    leader = "Leader" if result.m == 1 else f"Last of the {result.m} leaders"
    listed = [(leader, result.leader), ("Runner-up", result.rival)]
    if result.hardest not in (None, result.rival):
        listed.append(("Hardest to exclude", result.hardest))
    for kind, arm in listed:
        cells = [kind, label(arm), fixed(rows.estimate[arm], places)]
        if likely_low is not None and likely_high is not None:
            cells.append(between(likely_low[arm], likely_high[arm], places))
        cells.append(between(rows.low[arm], rows.high[arm], places) or NOTHING)
        cells.append(f"{result.counts.get(arm, 0):,}" if result.candidates is None else NOTHING)
        table.rows.append([Cell(text) for text in cells])
    high = result.likely_lead[1] if is_likely else result.interval[1]
    places = places_of(result.lead, high - result.lead)
    likely = [between(*result.likely_lead, places) or NOTHING] if is_likely else []
    interval = between(*result.interval, places_of(result.lead, result.interval[1] - result.lead)) or NOTHING
    table.rows.append(
        [Cell(text) for text in ["Lead over the runner-up", "", fixed(result.lead, places), *likely, interval, ""]]
    )
    return table._replace(note=f"{_of_intervals(result)} {LIKELY_IS if is_likely else ''}".strip())


LIKELY_IS = '"Likely": 95 % interval of this mean alone at this time alone, an estimate and not a guarantee.'


def _of_intervals(result: "Result") -> str:
    """Return a note on the meaning of the confidence intervals, or on why there are none."""
    if not math.isfinite(result.interval[1]):
        if result.noise != "same" or result.allowed_misfit > 0.0:
            return "There are no intervals for noise of an unknown law or of many levels, nor with a misfit."
        return "There is no interval yet: too few pulls to bound the noise."
    if why := wide_words(result):
        below = f"below {-result.epsilon:g}" if result.epsilon > 0.0 else "of 0 or less"
        return f"{why} The verdict excludes leads {below}."
    return f"Intervals hold for all arms and all times together, at {percent(1.0 - result.delta)} confidence."


def _ranking(result: "Result", rows: "Estimates") -> Table:
    """Return the table of all arms, ranked by their estimates."""
    is_arms, columns = rows is result.arms, result.to_columns("arms" if rows is result.arms else "candidates")
    behind, low, high = (columns[name] for name in ("behind", "behind_low", "behind_high"))
    has_leader = rows.margin is not None and result.best is not None
    names, measured, places = _names(result, rows), result.measured(), places_in(rows)
    is_fitted = bool(np.isfinite(rows.estimate).any())
    if not is_fitted:
        places = places_of(max(map(abs, measured.values()), default=0.0), math.inf)
    unmeasured_is = "predicted" if is_fitted else NOTHING
    of_behind = places_of(float(np.nanmax(behind, initial=0.0)), _typical(high - behind))
    best = result.row_of_leader if has_leader else None
    likely_low, likely_high = columns["likely_low"], columns["likely_high"]
    is_likely = bool(np.isfinite(likely_low).any())
    body = []
    for row in np.argsort(columns["rank"], kind="stable")[:MOST_ROWS].tolist():
        cells = [Cell(str(columns["rank"][row]) if is_fitted else NOTHING), Cell(names[row])]
        cells.append(Cell(_known(rows.estimate[row], places), between(rows.low[row], rows.high[row], places)))
        if is_likely:
            cells.append(Cell(between(likely_low[row], likely_high[row], places)))
        if row == best:
            cells.append(Cell(NOTHING))
        elif has_leader:
            cells.append(Cell(fixed(behind[row], of_behind), between(low[row], high[row], of_behind)))
        if is_arms:
            arm = rows.keys[row]
            mean = fixed(measured[arm], places) if arm in measured else unmeasured_is
            cells += [Cell(mean), Cell(f"{result.counts.get(arm, 0):,}")]
        body.append(cells)
    behind_whom = "Behind the leader" if result.m == 1 else "Behind the last of the best"
    headers = ["Rank", "Arm" if is_arms else "Candidate", "Estimate", *["Likely"] * is_likely]
    headers += [behind_whom] * has_leader
    headers += ["Measured mean", "Pulls"] * is_arms
    title = ("All arms" if rows.listed is None else "Arms measured") if is_arms else "All candidates"
    note = "Small: intervals that hold for all arms and all times together." if np.isfinite(rows.high).any() else ""
    if is_likely:
        note += f" {LIKELY_IS}"
    if is_arms and is_fitted and len(measured) < len(rows):
        note += ' "Predicted": never measured; the estimate follows from the features.'
    note += _left_out(len(rows), "the result's `to_frame` has all")
    first = None if best is None else int(columns["rank"][best]) - 1
    return Table(title, headers, 2, body, note.strip(), first=first, key=1)


def _recipes(recipes: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the table of the arms as their own table describes them."""
    columns = dict.fromkeys(title for recipe in recipes.values() for title in recipe)
    shown = islice(recipes.items(), MOST_ROWS)
    rows = [[Cell(name), *(Cell(_said(recipe.get(title))) for title in columns)] for name, recipe in shown]
    note = _left_out(len(recipes), "your table has all").strip()
    # As words that are no sentences: a table of sentences has wide columns.
    return Table("Recipes", ["Arm", *columns], len(columns) + 2, rows, note)


def _left_out(n: int, where: str) -> str:
    """Return a sentence about the rows that a table has no room for."""
    return f" The first {MOST_ROWS:,} of {n:,} rows; {where}." if n > MOST_ROWS else ""


def _said(cell: Any) -> str:
    """Return a cell of a recipe as people read it; an empty one is a dash."""
    return NOTHING if cell is None else f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def coefficients(result: "Result") -> Table:
    """Return the table of the effects of the features, per unit."""
    table = Table("Coefficients", ["Feature", "Coefficient", "Interval"], 1, [])
    if result.theta is None or result.model != "linear":
        return table
    margins = np.full(len(result.theta), np.inf) if result.theta_margin is None else result.theta_margin
    names = result.feature_names or tuple(f"x{j}" for j in range(len(result.theta)))
    for name, value, margin in zip(names, result.theta.tolist(), margins.tolist(), strict=True):
        places = places_of(value, margin)
        interval = between(value - margin, value + margin, places) or NOTHING
        table.rows.append([Cell(name), Cell(fixed(value, places)), Cell(interval)])
    if not np.isfinite(margins).any():
        table = table._replace(headers=table.headers[:2], rows=[row[:2] for row in table.rows])
    return table._replace(note="What one unit more of a feature adds to the mean reward, the others unchanged.")


def resting_on(result: "Result") -> Table:
    """Return the table of assumptions, and how each was checked."""
    rows = [[Cell(one.text), Cell(one.checked)] for one in assumptions(result)]
    return Table("What it rests on, and how that was checked", ["Assumption", "Checked"], 2, rows)


def _steps(result: "Result", command: str | None) -> list[tuple[str, str]]:
    """Return the steps to reproduce the result."""
    given, is_listed = result.given_noise_std, isinstance(result.given_noise_std, np.ndarray)
    options = {name: repr(getattr(result, name)) for name in ("delta", "epsilon", "seed", "algorithm", "model")}
    if result.reward_range is not None:
        options["reward_range"] = repr(result.reward_range)
    elif given is not None:
        options["noise_std"] = "..." if is_listed else repr(given)  # one for each arm
    more = {
        "m": result.m if result.m > 1 else None,
        "audit": result.n_checks or None,
        "noise": result.noise if result.noise != "same" else None,
        "misfit": result.allowed_misfit or None,
    }
    options |= {name: repr(value) for name, value in more.items() if value is not None}
    options |= {"costs": "..."} if result.has_costs else {}
    listed = ", ".join(f"{name}={value}" for name, value in options.items())
    again = (
        'earlier = sp.Result.load("result.json")\n'
        "same = sp.identify(arms, measure, max_pulls=0, history=earlier.history, ...)  # the options above\n"
        "assert same.best == earlier.best"
    )
    steps = [
        ("The command that made this page:", command or ""),
        (
            f"With surepick {__version__}, the same arms and the same rewards, this gives the same pulls:",
            f"import surepick as sp\n\nresult = sp.identify(arms, measure, {listed})",
        ),
        ("From a saved result, every decision is worked out again from the rewards, without measuring:", again),
        ("What was measured belongs to:", str(result.history.log[0][1]) if result.history.log else ""),
    ]
    return [(words, code) for words, code in steps if code]


def figures_of(result: "Result") -> list[Figure]:
    """Return the figures of a result, without empty ones."""
    has_intervals = bool(np.isfinite(result.compared.high).any())
    intervals = f" with {percent(1.0 - result.delta)} intervals" if has_intervals else ""
    likely = " Thick: likely, an estimate and not a guarantee." if _is_likely(result) else ""
    noun = "arm" if result.candidates is None else "candidate"
    estimated = f"Estimates of {_most(len(result.compared), noun)}{intervals}.{likely}"
    fitted = "Measured means against the fit: points off the line do not fit the model."
    planned = ", and planned pulls" if result.planned else ""
    pulled = f"Pulls of each arm{planned}{', without check pulls' if result.n_checks else ''}."
    evidence = "Evidence over pulls; the rule decides at the dashed line."
    has_evidence = len(result.path) > 1 and result.guarantee != "withdrawn" and any(at[1] > 0.0 for at in result.path)
    has_fit = result.theta is not None and len(result.counts) > len(result.theta)
    drawn: list[tuple[str, bool, Callable[[], Any], str]] = [
        ("interval_bars", result.theta is not None, lambda: _estimates_chart(result), estimated),
        ("evidence_line", has_evidence, lambda: charts.evidence_line(result.path), evidence),
        ("scatter", has_fit, lambda: charts.scatter(points_of(result), places_in(result.arms)), fitted),
        ("bars", bool(result.counts), lambda: charts.pull_bars(pulls_of(result)), pulled),
    ]
    return [Figure(kind, chart(), caption) for kind, is_there, chart, caption in drawn if is_there]


def _estimates_chart(result: "Result") -> charts.IntervalBars:
    return charts.interval_bars(charts.best_first(bars_of(result)), places_in(result.compared))


def _most(n: int, noun: str) -> str:
    return counted(n, noun) if n <= charts.MOST else f"the first {charts.MOST} of {n:,} {noun}s"


def _is_likely(result: "Result") -> bool:
    """Whether estimated intervals of single means are shown: before the verdict, where they are known."""
    return not result.stopped and result.compared.likely_low is not None


def estimates_figure(result: "Result") -> Any:
    """Draw estimates with confidence intervals."""
    return figures.estimates(bars_of(result), percent(1.0 - result.delta))


def bars_of(result: "Result") -> list[charts.Bar]:
    """Return the estimates of all arms, or candidates, with intervals."""
    rows, names = result.compared, _names(result, result.compared)
    kinds = ["arm"] * len(rows)
    if result.survivors is not None and result.guarantee != "withdrawn":
        left = set(result.survivors.tolist())
        kinds = ["not excluded" if row in left else "excluded" for row in range(len(rows))]
    for row in _leading(result):
        kinds[row] = "leader"
    numbers = (values.tolist() for values in (rows.estimate, rows.low, rows.high))
    unknown = [math.nan] * len(rows)
    likely = [
        unknown if ends is None or result.stopped else ends.tolist() for ends in (rows.likely_low, rows.likely_high)
    ]
    return [charts.Bar(*row) for row in zip(names, *numbers, kinds, *likely, strict=True)]


def _leading(result: "Result") -> Sequence[int]:
    """Return the rows of the leaders in `compared`; none of a result that is withdrawn."""
    if result.best is None or result.guarantee == "withdrawn":
        return []
    return result.best if result.m > 1 else [result.row_of_leader]


def evidence_figure(result: "Result") -> Any:
    """Draw the growth of evidence."""
    return figures.evidence(result.path)


def fit_figure(result: "Result") -> Any:
    """Draw measured means against the fit."""
    return figures.fit(points_of(result))


def points_of(result: "Result") -> list[charts.Point]:
    """Return measured and fitted means of the arms that were measured."""
    names, means = _names(result, result.arms), result.measured()
    is_one_level = result.noise == "same" and not isinstance(result.given_noise_std, np.ndarray)
    noise = result.noise_std if is_one_level else math.nan
    best = [] if result.candidates is not None else [result.arms.keys[row] for row in _leading(result)]
    return [
        charts.Point(name, fitted, means[arm], noise / math.sqrt(result.counts[arm]), is_leader=arm in best)
        for name, arm, fitted in zip(names, result.arms.keys, result.arms.estimate.tolist(), strict=True)
        if arm in means
    ]


def pulls_figure(result: "Result") -> Any:
    """Draw pulls against the plan."""
    return figures.pulls(pulls_of(result))


def pulls_of(result: "Result") -> list[charts.Pulls]:
    """Return the pulls of each arm beside the planned ones, without check pulls, which the plan does not contain."""
    names = dict(zip(result.arms.keys, _names(result, result.arms), strict=True))
    pairs = result.history[: result.n_pulls - result.n_checks]
    counts = Counter(arm for arm, _ in pairs)
    wanted = {arm: len(pairs) * share for arm, share in result.planned.items()}
    unknown = 0.0 if wanted else math.nan
    return [charts.Pulls(names.get(arm, str(arm)), n, wanted.get(arm, unknown)) for arm, n in counts.items()]


def _names(result: "Result", rows: "Estimates") -> list[str]:
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
    return places_of(top, _typical(high - rows.estimate))


def _typical(widths: Array) -> float:
    finite = widths[np.isfinite(widths) & (widths > 0.0)]
    return float(np.median(finite)) if len(finite) else math.inf


def _known(value: float, places: int) -> str:
    return fixed(value, places) if math.isfinite(value) else NOTHING
