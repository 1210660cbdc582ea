"""Pictures for README and docs, drawn light and dark from kept numbers.

`python -m docs.pictures` draws all of them into docs/_static/pictures, from numbers.json beside them and from
benchmarks/results/rivals.json. `python -m docs.pictures NAME ...` first runs the simulations behind these pictures
again; `all` means every picture. All are seeded, and take about a minute together.

The command prints the HTML by which a page shows each picture: GitHub chooses light or dark by itself, and `themed`
lets the site choose by its own switch. The same numbers give the same bytes.
"""

import itertools
import json
import math
import re
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import surepick as sp
from surepick.study import events, log
from surepick.types import Array

FOLDER = Path(__file__).parent / "_static" / "pictures"
NUMBERS = FOLDER / "numbers.json"
RIVALS = Path(__file__).parents[1] / "benchmarks" / "results" / "rivals.json"

WIDTH = 480
"""Width in units of the drawing. A phone shows 350 pixels of it, so that the smallest letters are 11 pixels high."""
SHOWN = 560
"""Width in pixels where there is room."""
SMALL, LARGE = 15, 18
"""Font sizes: texts, and the title."""
THEMES: Mapping[str, Mapping[str, str]] = {
    "light": {"ink": "#1d2127", "grey": "#59626e", "line": "#d5dae1", "ours": "#0b5fa5", "odd": "#b4530a"},
    "dark": {"ink": "#e8eaed", "grey": "#a9b2bd", "line": "#3d444d", "ours": "#5aa9e6", "odd": "#f0913f"},
}
"""Colours by use; blue and orange differ for every kind of colour blindness, and shapes differ too."""
DELTA = 0.05
Point = tuple[float, float]


@dataclass
class Sheet:
    """A drawing: its title says the message, `alt` says in words what it shows."""

    title: str
    alt: str
    drawn: list[str] = field(default_factory=list)
    top: float = 0.0
    """Where the title ends."""
    bottom: float = 0.0
    """Where the drawing ends."""

    def __post_init__(self) -> None:
        for row in textwrap.wrap(self.title, 42):
            self.top += 24.0
            self.text(0, self.top - 4.0, row, "title")
        self.top += 4.0

    def text(self, x: float, y: float, words: str, kind: str = "") -> None:
        """Write words whose base line is at y."""
        self.drawn.append(f'<text x="{x:.4g}" y="{y:.4g}"{_kind(kind)}>{escape(words)}</text>')
        self.bottom = max(self.bottom, y + 8.0)

    def path(self, points: Iterable[Point], kind: str, *, is_closed: bool = False) -> None:
        """Join points by straight lines."""
        steps = " ".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.drawn.append(f'<path d="M{steps}{"z" if is_closed else ""}"{_kind(kind)}/>')

    def bar(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        """Draw a rectangle."""
        self.drawn.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"{_kind(kind)}/>')

    def dot(self, x: float, y: float, r: float, kind: str) -> None:
        """Draw a circle."""
        self.drawn.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}"{_kind(kind)}/>')

    def diamond(self, x: float, y: float, r: float, kind: str) -> None:
        """Draw a square that stands on a corner."""
        self.path([(x - r, y), (x, y - r), (x + r, y), (x, y + r)], kind, is_closed=True)

    def notes(self, rows: Iterable[str]) -> None:
        """Write rows below what is drawn so far."""
        for row in rows:
            self.text(0, self.bottom + 15.0, row, "note")

    def svg(self, theme: str) -> str:
        """Return the picture as an SVG file."""
        height = math.ceil(self.bottom)
        size = f'width="{SHOWN}" height="{SHOWN * height // WIDTH}" viewBox="0 0 {WIDTH} {height}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(self.alt)}">'
        return "\n".join([head, f"<style>{_style(THEMES[theme])}</style>", DEFINITIONS, *self.drawn, "</svg>\n"])


def _kind(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


DEFINITIONS = (
    '<defs><pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<path d="M0 0V7" class="stripe"/></pattern><marker id="tip" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="7" '
    'markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z" class="tip"/></marker></defs>'
)


def _style(color: Mapping[str, str]) -> str:
    ink, grey, line, ours, odd = (color[use] for use in ("ink", "grey", "line", "ours", "odd"))
    return (
        f"text{{font:{SMALL}px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:{ink}}}"
        f".title{{font-size:{LARGE}px;font-weight:700}}.strong{{font-weight:700}}.note,.end.note{{fill:{grey}}}"
        f".middle{{text-anchor:middle}}.end{{text-anchor:end}}path{{fill:none;stroke-width:1.5}}"
        f".axis{{stroke:{grey}}}.grid{{stroke:{line};stroke-width:1}}.goal{{stroke:{ink};stroke-dasharray:6 4}}"
        f".ours{{fill:{ours}}}.odd{{fill:{odd}}}.other{{fill:{grey}}}.hatched{{fill:url(#hatch);stroke:{ours}}}"
        f".stripe{{stroke:{ours};stroke-width:5}}.run{{stroke:{ours};stroke-opacity:.55}}.mean{{stroke:{ours};stroke-width:2.5}}"
        f".band{{fill:{ours};fill-opacity:.2}}.error{{stroke:{ink}}}.open{{fill:none;stroke:{ours};stroke-width:2}}"
        f".box{{fill:{ours};fill-opacity:.12;stroke:{ours};stroke-width:1.5}}.arrow{{stroke:{ink};marker-end:url(#tip)}}"
        f".tip{{fill:{ink};stroke:none}}.lost{{fill:none;stroke:{odd};stroke-width:2;stroke-dasharray:4 3}}"
        f".globe{{fill:{grey};fill-opacity:.15;stroke:{grey}}}.cap{{fill:{ours};fill-opacity:.45;stroke:{ours}}}"
    )


class Scale(NamedTuple):
    """A map of numbers to places on the sheet."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        """Return the place of a number; numbers beyond the ends stay at the ends."""
        low, high, value = (math.log(one) if self.is_log else one for one in (self.low, self.high, value))
        return self.start + (self.end - self.start) * min(max((value - low) / (high - low), 0.0), 1.0)


def _frame(sheet: Sheet, x: Scale, y: Scale, ticks: tuple[Sequence[float], Sequence[float]], unit: str = "") -> None:
    """Draw a grid with numbers: those of x below it, those of y, with their unit, to the left."""
    for value in ticks[1]:
        sheet.path([(x.start, y(value)), (x.end, y(value))], "grid")
        sheet.text(x.start - 6, y(value) + 5, f"{value:,g}{unit}", "end")
    for value in ticks[0]:
        sheet.text(x(value), y.start + 20, f"{value:,g}", "middle")
    sheet.path([(x.start, y.end), (x.start, y.start), (x.end, y.start)], "axis")


# ---- pulls to a defended answer


def rivals_numbers() -> dict[str, Any]:
    """Return what `benchmarks/rivals.py` kept about the questionnaire."""
    found: dict[str, Any] = json.loads(RIVALS.read_text("utf-8"))["questionnaire"]
    return found


def draw_rivals(case: Mapping[str, Any]) -> Sheet:
    """Draw bars: measurements to an answer with a guarantee, of surepick and of what people do otherwise."""
    rows = {row["method"]: row for row in case["rows"]}
    checked = rows["surepick, with the model check"]
    others = {
        "equal samples and least squares": rows["uniform + least squares + Bonferroni"],
        "racing: losers drop out early": rows["racing"],
        "equal samples": rows["uniform + Bonferroni"],
    }
    ours = f"{rows['surepick']['pulls']:,.0f}"
    told = "; ".join(f"{name} {row['pulls']:,.0f}" for name, row in others.items())
    sheet = Sheet(
        "Fewer measurements to an answer that you can defend",
        "Bars: measurements until the best of 12 offers of a questionnaire is known with at most 5 % risk. surepick "
        f"{ours}, with the model check {checked['pulls']:,.0f}; {told}.",
    )
    sheet.text(0, sheet.top + 14, "Which of 12 offers do most people take? People asked:", "note")
    x = Scale(0.0, max(row["pulls"] for row in others.values()), 0.0, 400.0)
    y = sheet.top + 46
    sheet.text(0, y, "surepick", "strong")
    sheet.bar(0, y + 8, x(rows["surepick"]["pulls"]), 24, "ours")
    sheet.bar(x(rows["surepick"]["pulls"]), y + 8, x(checked["pulls"]) - x(rows["surepick"]["pulls"]), 24, "hatched")
    sheet.text(x(checked["pulls"]) + 10, y + 25, f"{ours}; with the model check {checked['pulls']:,.0f}", "strong")
    for name, row in others.items():
        y += 60
        sheet.text(0, y, name)
        sheet.bar(0, y + 8, x(row["pulls"]), 24, "other")
        sheet.text(x(row["pulls"]) + 10, y + 25, f"{row['pulls']:,.0f}")
    sheet.bottom = y + 40
    runs = f"Means of {checked['runs']} simulated runs, {case['date']}."
    sheet.notes(
        [
            "Risk of a wrong answer: at most 5 % for every method.",
            "surepick and least squares assume a linear model.",
            "Hatched: further measurements that test this model.",
            runs,
        ]
    )
    return sheet


# ---- the loop


def draw_loop(_: object) -> Sheet:
    """Draw the loop of ask, measure and tell."""
    sheet = Sheet(
        "surepick asks, you measure, until the answer is sure",
        "A loop of three steps: surepick asks which option comes next; you measure the option; you tell surepick the "
        "result. The loop ends when the answer is sure.",
    )
    top = sheet.top + 12
    boxes = [(155, top, "ask", "which option next?"), (300, top + 140, "measure", "your experiment")]
    boxes.append((10, top + 140, "tell", "what came out"))
    for x, y, name, what in boxes:
        sheet.bar(x, y, 170, 66, "box")
        sheet.text(x + 85, y + 28, name, "title middle")
        sheet.text(x + 85, y + 51, what, "middle")
    arrows = [[(290, 72), (345, 134)], [(294, 173), (186, 173)], [(135, 134), (190, 72)]]
    for arrow in arrows:
        sheet.path([(x, y + top) for x, y in arrow], "arrow")
    sheet.text(240, top + 110, "until the answer", "middle")
    sheet.text(240, top + 130, "is sure", "middle")
    sheet.bottom = top + 212
    return sheet


# ---- why a losing option is measured


def losing_numbers() -> dict[str, Any]:
    """Return the optimal shares of three options, two nearly equal, and the price of leaving out the third."""
    options, theta = np.array([[1.0, 0.0], [np.cos(0.1), np.sin(0.1)], [0.0, 1.0]]), np.array([2.0, 0.0])
    design = sp.characteristic_time(options, theta)
    favourites = sp.characteristic_time(options[:2], theta)
    shares = dict.fromkeys(range(3), 0.0) | dict(zip(design.support.tolist(), design.weights.tolist(), strict=True))
    names = ("A", "C", "B")
    rows = [[names[row], *options[row], options[row] @ theta, shares[row]] for row in range(3)]
    return {"options": rows, "times": favourites.value / design.value}


def draw_losing(numbers: Mapping[str, Any]) -> Sheet:
    """Draw three recipes in the plane of their ingredients; the area of a dot is its share of the measurements."""
    rows = {name: given for name, *given in numbers["options"]}
    times = f"{numbers['times']:,.0f} times as many"
    sheet = Sheet(
        "The losing option tells the two favourites apart",
        "Three recipes by their acid and sugar. A and C are nearly equal and differ mainly in sugar; B is all sugar "
        "and scores worst. "
        + " ".join(f"{name} gets {100 * share:.0f} of 100 measurements." for name, (*_, share) in rows.items())
        + f" Without B the answer takes {times} measurements.",
    )
    x, y = Scale(0.0, 1.0, 55.0, 235.0), Scale(0.0, 1.0, sheet.top + 215.0, sheet.top + 35.0)
    sheet.path([(x(0), y(1) - 25), (x(0), y(0)), (x(1) + 10, y(0))], "axis")
    sheet.text(x(0.5), y(0) + 22, "acid", "middle")
    sheet.text(x(0) - 8, y(0.5), "sugar", "end")
    ranks = {"A": "best", "C": "second", "B": "last"}
    places = {"A": 10.0, "C": 0.0, "B": 5.0}
    for name, (acid, sugar, mean, share) in rows.items():
        sheet.dot(x(acid), y(sugar), max(26.0 * math.sqrt(share), 4.0), "ours" if share > 0.005 else "open")
        counted = f"{100 * share:.0f} of 100" if share > 0.005 else "0 of 100"
        label = f"{name}, {ranks[name]} ({mean:.2f}): {counted}"
        sheet.text(x(acid) + (34 if name == "B" else 14), y(sugar) + places[name], label, "strong")
    for row, words in enumerate(
        ("A and C differ mainly in sugar.", "B shows what sugar does:", "measure B, though B loses.")
    ):
        sheet.text(x(0.5), y(0.62) + 22 * row, words)
    sheet.bottom = y(0) + 28
    sheet.notes(["Large dots: many of 100 measurements. Brackets: scores.", f"Measuring only A and C takes {times}."])
    return sheet


# ---- where the measurements of one run go


def allocation_numbers() -> dict[str, Any]:
    """Return four moments of one run on five options: pulls, estimates and their intervals."""
    means, rng, frames = np.array([1.0, 0.75, 0.5, 0.25, 0.0]), np.random.default_rng(0), []
    learner = sp.create_learner("lazy-track-and-stop", np.eye(5), delta=DELTA, noise_std=0.5, seed=0)
    for n in itertools.count(1):
        row = learner.next_arms(1)[0]
        learner.tell(row, float(means[row] + 0.5 * rng.standard_normal()))
        if learner.stopped or n in (10, 40, 100):
            table = learner.result().to_frame()[["pulls", "estimate", "likely_low", "likely_high"]]
            frames.append({"pulls": n, "options": table.to_numpy().tolist()})
        if learner.stopped:
            break
    return {"frames": frames, "best": learner.result().best}


def draw_allocation(numbers: Mapping[str, Any]) -> Sheet:
    """Draw each moment as five intervals with their counts."""
    last, best = numbers["frames"][-1], "ABCDE"[numbers["best"]]
    counts = ", ".join(f"{name} {row[0]:.0f}" for name, row in zip("ABCDE", last["options"], strict=True))
    sheet = Sheet(
        "Measurements go to the options that are still in doubt",
        f"One run on five options, at four moments: intervals of the means shrink, and after {last['pulls']} "
        f"measurements option {best} is proved to be the best. Measurements of each option at the end: {counts}.",
    )
    for number, frame in enumerate(numbers["frames"]):
        left, top = 245.0 * (number % 2), sheet.top + 10.0 + 160.0 * (number // 2)
        said = f"after {frame['pulls']}" + (f": {best} is proved best" if frame is last else "")
        sheet.text(left, top + 14, said, "strong")
        x = Scale(-1.2, 2.1, left + 22.0, left + 180.0)
        means = [mean for _, mean, *_ in frame["options"]]
        leader = means.index(max(means))
        for row, (pulls, mean, low, high) in enumerate(frame["options"]):
            y = top + 38 + 22 * row
            kind, size = ("odd", 6.0) if row == leader else ("ours", 4.5)
            sheet.text(left, y + 5, "ABCDE"[row])
            sheet.path([(x(low), y), (x(high), y)], "mean")
            (sheet.diamond if row == leader else sheet.dot)(x(mean), y, size, kind)
            sheet.text(left + 222, y + 5, f"{pulls:.0f}", "end")
    sheet.bottom = sheet.top + 320
    sheet.notes(
        ["Right: measurements so far. Diamond: who leads.", "Line: 95 % interval of this mean alone, an estimate."]
    )
    return sheet


# ---- evidence of twenty runs


def evidence_numbers() -> dict[str, Any]:
    """Return the evidence of twenty runs under the default rule, as a share of the threshold, and who was right."""
    angles = np.array([0.0, 0.4, 0.9, 1.5, 2.2])
    arms, runs = np.column_stack([np.cos(angles), np.sin(angles)]), []
    for seed in range(20):
        rng, path = np.random.default_rng([20, seed]), [[0.0, 0.0]]
        learner = sp.create_learner("lazy-track-and-stop", arms, delta=DELTA, seed=seed)
        for n in itertools.count(1):
            row = learner.next_arms(1)[0]
            learner.tell(row, float(arms[row] @ [1.0, 0.0] + 0.5 * rng.standard_normal()))
            share = max(learner.decision.evidence / learner.decision.target, 0.0)
            if share != path[-1][1]:
                path.append([float(n), share])
            if learner.stopped:
                break
        runs.append({"pulls": n, "is_right": learner.result().best == 0, "path": path})
    return {"runs": runs}


def draw_evidence(numbers: Mapping[str, Any]) -> Sheet:
    """Draw the evidence over the measurements, with a mark where each run stops."""
    runs = numbers["runs"]
    stops, n_right = sorted(run["pulls"] for run in runs), sum(run["is_right"] for run in runs)
    spread = f"Stops after {stops[0]} to {stops[-1]} measurements; {n_right} of {len(runs)} answers right."
    sheet = Sheet(
        "Each run stops by itself, once its evidence suffices",
        f"Evidence of {len(runs)} runs over the measurements. Every line ends at the threshold. {spread}",
    )
    most = 20 * math.ceil(stops[-1] / 20)
    x, y = Scale(0, most, 62.0, 460.0), Scale(0.0, 100.0, sheet.top + 215.0, sheet.top + 30.0)
    _frame(sheet, x, y, (range(0, most + 1, 20 if most <= 160 else 40), (0, 50, 100)), " %")
    sheet.path([(x.start, y(100)), (x.end, y(100))], "goal")
    sheet.text(x.start, y(100) - 10, "threshold: wrong with probability at most 5 %")
    for run in runs:
        sheet.path([(x(n), y(100.0 * share)) for n, share in run["path"]], "run")
    for run in runs:
        (sheet.dot if run["is_right"] else sheet.diamond)(
            x(run["pulls"]), y(100.0), 5, "ours" if run["is_right"] else "odd"
        )
    sheet.text(x(most / 2), y(0.0) + 42, "measurements", "middle")
    sheet.notes([spread])
    return sheet


# ---- how the lead decides the number of measurements


def gap_numbers() -> dict[str, Any]:
    """Return what `plan` expects on four options without features, for leads in units of the noise."""
    rows = []
    for gap in np.geomspace(0.1, 1.6, 9).tolist():
        plan = sp.plan(np.eye(4), theta=[gap, 0.0, 0.0, 0.0], noise_std=1.0, delta=DELTA)
        rows.append([gap, plan.pulls, plan.low, plan.high, plan.lower_bound])
    return {"plans": rows}


def draw_gap(numbers: Mapping[str, Any]) -> Sheet:
    """Draw measurements against the lead of the best option, both on logarithmic axes."""
    rows = numbers["plans"]
    ends = [f"a lead of {gap:g} takes about {float(f'{pulls:.2g}'):,.0f}" for gap, pulls, *_ in (rows[0], rows[-1])]
    sheet = Sheet(
        "Half the lead takes about four times the measurements",
        "Measurements against the lead of the best of four options, in standard deviations of the noise: "
        + "; ".join(ends)
        + ". A dashed line below shows the theoretical minimum.",
    )
    x, y = (
        Scale(0.1, 1.6, 68.0, 462.0, is_log=True),
        Scale(10, 30_000, sheet.top + 225.0, sheet.top + 20.0, is_log=True),
    )
    _frame(sheet, x, y, ((0.1, 0.2, 0.4, 0.8, 1.6), (10, 100, 1_000, 10_000)))
    low, high = [(x(row[0]), y(row[2])) for row in rows], [(x(row[0]), y(row[3])) for row in rows]
    sheet.path([*low, *reversed(high)], "band", is_closed=True)
    sheet.path([(x(row[0]), y(row[1])) for row in rows], "mean")
    sheet.path([(x(row[0]), y(row[4])) for row in rows], "goal")
    sheet.text(x(0.25), y(5_500), "surepick: 8 of 10 runs in the band")
    sheet.text(x(0.11), y(70), "no method needs fewer")
    sheet.text(x(0.11), y(70) + 20, "on average (dashed)")
    sheet.text(x(0.4), y.start + 42, "lead, in standard deviations of the noise", "middle")
    sheet.text(0, y.end - 2, "measurements")
    sheet.notes(["Four options, at most 5 % risk."])
    return sheet


# ---- many arms


RULES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "surepick": ("lazy-track-and-stop", {}),
    "Lazy Track-and-Stop": ("lazy-track-and-stop", {"variant": "paper"}),
    "XY-Adaptive": ("xy-adaptive", {"variant": "paper"}),
    "RAGE": ("rage", {"variant": "paper"}),
}
"""Algorithms with a guarantee; all but ours with the rules of their papers."""


def many_numbers() -> dict[str, Any]:
    """Return the pulls of algorithms on the problem of the paper with a thousand arms, and the lower bound."""
    problem, rows, n_runs = sp.problems.many_arms(1000, seed=0), [], 50
    for name, (algorithm, options) in RULES.items():
        runs = sp.simulate(problem, algorithm, delta=DELTA, n_runs=n_runs, seed=31, **options)
        rows.append(
            [name, float(runs.n_pulls.mean()), float(runs.n_pulls.std(ddof=1) / n_runs**0.5), int(runs.correct.sum())]
        )
    bound = sp.lower_bound(problem.X, problem.theta, delta=DELTA, noise_std=1.0)
    return {"bound": bound, "runs": n_runs, "rows": rows}


def draw_many(numbers: Mapping[str, Any]) -> Sheet:
    """Draw bars over the lower bound as a floor."""
    bound, rows = numbers["bound"], numbers["rows"]
    times = rows[0][1] / bound
    told = ", ".join(f"{name} {pulls:,.0f}" for name, pulls, *_ in rows)
    sheet = Sheet(
        f"1,000 options: {times:.1f} times the theoretical minimum",
        f"Bars: measurements until the best of 1,000 options is known with at most 5 % risk. Theoretical minimum "
        f"{bound:.0f}; {told}.",
    )
    x = Scale(0.0, max(pulls for _, pulls, *_ in rows), 0.0, 370.0)
    top = sheet.top + 30
    for place, (name, pulls, error, n_right) in enumerate(rows):
        y = top + 14 + 58 * place
        said = f"{name}, as published" if place else f"{name}: {pulls / bound:.1f} times the minimum"
        sheet.text(
            x(bound) + 8,
            y,
            said + ("" if n_right == numbers["runs"] else f", {n_right} right"),
            "" if place else "strong",
        )
        sheet.bar(0, y + 8, x(pulls), 24, "other" if place else "ours")
        sheet.text(x(pulls) + 8, y + 25, f"{pulls:,.0f} ± {error:,.0f}" if error >= 0.5 else f"{pulls:,.0f}")
    end = top + 14 + 58 * len(rows) - 20
    sheet.text(0, top - 10, f"minimum: {bound:.0f}", "note")
    sheet.path([(x(bound), top - 4), (x(bound), end)], "goal")
    sheet.bottom = end
    sheet.notes([f"Measurements, mean of {numbers['runs']} runs ± standard error; 5 % risk."])
    return sheet


# ---- the model check


def model_numbers() -> dict[str, Any]:
    """Return measured and fitted means of the sixteen settings of docs/model.md, with the clash and without it."""
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
    settings = np.column_stack([np.ones(16), signs])
    linear, clash = settings @ [0.0, 0.5, 0.4, 0.3, 0.15], 0.35 * signs[:, 2] * signs[:, 3]
    return {"panels": [_checked(settings, linear - clash), _checked(settings, linear)]}


def _checked(settings: Array, means: Array) -> dict[str, Any]:
    """Return verdict, and fitted mean, measured mean and its standard error of each setting, after the model check."""
    rng, rewards = np.random.default_rng(7), dict[int, list[float]]()
    with warnings.catch_warnings(action="ignore", category=sp.ModelWarning):
        result = sp.identify(settings, lambda row: float(means[row] + rng.standard_normal()), audit="auto")
    for arm, reward in result.history:
        rewards.setdefault(arm, []).append(reward)
    dots = [
        [float(result.arms.estimate[arm]), sum(found) / len(found), result.noise_std / len(found) ** 0.5]
        for arm, found in sorted(rewards.items())
    ]
    return {"guarantee": result.guarantee, "n_pulls": result.n_pulls, "settings": dots}


def draw_model(numbers: Mapping[str, Any]) -> Sheet:
    """Draw measured against fitted means after the model check, with the clash and without it."""
    panels, titles = numbers["panels"], []
    for panel in panels:
        is_alarm = panel["guarantee"] == "withdrawn"
        titles.append("alarm, answer withdrawn" if is_alarm else "no alarm, answer stands")
    sheet = Sheet(
        "The model check withdraws an answer that the data contradict",
        f"Measured against fitted means of sixteen settings. Left, where two switches clash: {titles[0]}; "
        f"{sum(map(is_odd, panels[0]['settings']))} settings lie off the line. Right, without the clash: {titles[1]}; "
        f"{sum(map(is_odd, panels[1]['settings']))} lie off the line.",
    )
    for number, (panel, title, cause) in enumerate(
        zip(panels, titles, ("Two switches clash", "No clash"), strict=True)
    ):
        left, top = 245.0 * number, sheet.top + 10.0
        sheet.text(left, top + 12, cause, "strong")
        sheet.text(left, top + 33, title, "strong")
        x, y = Scale(-2.2, 2.2, left + 28, left + 225), Scale(-2.2, 2.2, top + 245, top + 48)
        _frame(sheet, x, y, ((-2, 0, 2), (-2, 0, 2)))
        sheet.path([(x(-2.2), y(-2.2)), (x(2.2), y(2.2))], "goal")
        for fitted, measured, error in panel["settings"]:
            sheet.path([(x(fitted), y(measured - 2.0 * error)), (x(fitted), y(measured + 2.0 * error))], "axis")
            if is_odd((fitted, measured, error)):
                sheet.diamond(x(fitted), y(measured), 6.5, "odd")
            else:
                sheet.dot(x(fitted), y(measured), 4.5, "ours")
        sheet.text(left + 126, y.start + 42, "fitted mean", "middle")
    sheet.bottom = sheet.top + 302
    sheet.notes(["Upwards: measured mean, ± 2 standard errors.", "Diamond: more than 3 standard errors off the fit."])
    return sheet


def is_odd(setting: Sequence[float]) -> bool:
    """Whether the measured mean of a setting is far from the fitted one."""
    fitted, measured, error = setting
    return abs(measured - fitted) > 3.0 * error


# ---- a study


def study_numbers() -> dict[str, Any]:
    """Return the log of a study with two benches, of which one falls silent, a typing error, and a verdict."""
    recipes, rng = np.array([[1.0, 0.0], [0.7, 0.7], [0.0, 1.0]]), np.random.default_rng(5)
    start = moment = datetime(2026, 11, 2, 8, tzinfo=UTC)
    means = recipes @ [1.0, 0.35]
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(events, "now", lambda: moment),
        patch.object(log, "elapsed", lambda: moment.timestamp()),  # noqa: PLW0108 (the time goes on)
    ):
        study = sp.create_study(
            "recipes", arms=recipes, storage=f"{folder}/lab.db", noise_std=0.07, delta=DELTA, seed=0, author="Ann"
        )
        for hour in range(1, 40):
            benches = ("bench 1", "bench 2") if hour <= 4 else ("bench 1",)
            asked = {bench: study.ask(1, worker=bench, lease="4h")[0] for bench in benches}
            moment = start + timedelta(hours=hour)
            for bench, ask in asked.items():
                value = float(means[ask.arm] + 0.07 * rng.standard_normal())
                if hour == 6:
                    slip, meant = study.tell(ask.id, 10.0 * value, worker=bench, warn=False)[0], value
                elif bench == "bench 1" or hour < 4:  # bench 2 loses its power during its fourth measurement
                    study.tell(ask.id, value, worker=bench)
            if hour == 8:
                study.correct(slip.id, meant, reason="misplaced decimal point", worker="bench 1")
            if study.status.stopped:
                break
        rows = [json.loads(row.text) for row in study.events_after(0)]
    kept = ("kind", "at", "by", "ask", "asks", "measurement")
    told = [{key: row[key] for key in kept if key in row} for row in rows]
    for row in told:
        row["at"] = (datetime.fromisoformat(row["at"]) - start).total_seconds() / 3600.0
    return {"events": told}


def draw_study(numbers: Mapping[str, Any]) -> Sheet:
    """Draw the measurements of each bench over the hours, with what went wrong and the verdict."""
    told = numbers["events"]
    asked = {row["ask"]: row for row in told if row["kind"] == "asked"}
    done = {row["ask"]: row for row in told if row["kind"] == "told"}
    lost = next(row for row in told if row["kind"] == "expired")
    again = next(
        row
        for row in told
        if row["kind"] == "asked"
        and row["asks"][0][0] == asked[lost["asks"][0]]["asks"][0][0]
        and row["ask"] != lost["asks"][0]
    )
    mended = next(row for row in told if row["kind"] == "corrected")
    slip = next(row for row in told if row.get("measurement") == mended["measurement"])
    end = told[-1]["at"]
    sheet = Sheet(
        "A bench falls silent, a value is mistyped: the study goes on",
        f"Time line of a study with two benches. After {asked[lost['asks'][0]]['at']:.0f} hours bench 2 falls silent; "
        f"its lease runs out after {lost['at']:.0f} hours, and bench 1 gets the measurement. A value mistyped after "
        f"{slip['at']:.0f} hours is corrected after {mended['at']:.0f}. The verdict comes after {end:.0f} hours and "
        f"{len(done)} measurements.",
    )
    x = Scale(0.0, end, 70.0, 472.0)
    top = sheet.top + 34.0
    rows = {"bench 1": top + 56, "bench 2": top + 112}
    for bench, y in rows.items():
        sheet.text(0, y + 17, bench)
    for number, row in asked.items():
        left, y = x(row["at"]), rows[row["by"]]
        if number in done:
            kind = "odd" if done[number] is slip else "hatched" if row is again else "ours"
            sheet.bar(left + 1, y, x(done[number]["at"]) - left - 2, 24, kind)
        else:
            sheet.bar(left + 1, y, x(lost["at"]) - left - 2, 24, "lost")
            sheet.text(left, y + 44, "silent; lease runs out after 4 hours")
    sheet.path([(x(slip["at"]) - 8, top + 50), (x(slip["at"]) - 8, top + 22)], "axis")
    sheet.text(x(slip["at"]) - 8, top + 12, "mistyped", "middle")
    sheet.diamond(x(mended["at"]), top + 44, 7, "odd")
    sheet.text(x(mended["at"]) - 10, top + 32, "corrected")
    sheet.path([(x(lost["at"]), rows["bench 2"] + 12), (x(again["at"]) + 10, rows["bench 1"] + 28)], "arrow")
    sheet.text(x(again["at"]) + 24, rows["bench 1"] + 46, "measured by bench 1")
    sheet.path([(x(end), top + 26), (x(end), rows["bench 2"] + 60)], "goal")
    sheet.text(x(end), top + 12, "verdict", "end strong")
    for hour in range(0, math.ceil(end), 4):
        sheet.text(x(hour), rows["bench 2"] + 76, f"{hour} h", "middle")
    sheet.notes(["Blue: a measurement. Orange: mistyped. Dashed: no result."])
    return sheet


# ---- the sphere


def sphere_numbers() -> dict[str, Any]:
    """Return leader and bound of its loss at three moments of a run on the unit sphere in three dimensions."""
    theta, rng = np.array([0.36, 0.48, 0.8]), np.random.default_rng(3)
    learner = sp.create_learner("lazy-track-and-stop", sp.Sphere(3), delta=DELTA, epsilon=0.02, noise_std=0.5)
    frames = []
    for n in itertools.count(1):
        arm = learner.next_arms(1)[0]
        learner.tell(arm, float(arm @ theta + 0.5 * rng.standard_normal()))
        if learner.stopped or n in (20, 80):
            best = np.asarray(learner.decision.best).tolist()
            frames.append({"pulls": n, "best": best, "loss": learner.epsilon_bound()})
        if learner.stopped:
            break
    return {"theta": theta.tolist(), "frames": frames}


def draw_sphere(numbers: Mapping[str, Any]) -> Sheet:
    """Draw the sphere at each moment, with the cap of points that can be the best."""
    frames = numbers["frames"]
    told = ", ".join(f"after {one['pulls']} measurements at most {one['loss']:.2f}" for one in frames)
    sheet = Sheet(
        "Every point of a sphere is an option: the region of the best one shrinks",
        f"Three spheres; a cap that contains the best point shrinks around the leader. Loss of the leader: {told}.",
    )
    theta = np.array(numbers["theta"])
    # Seen from a point near the best one: right and up span the plane of the picture.
    view = np.array([0.3, 0.55, 0.75]) / np.linalg.norm([0.3, 0.55, 0.75])
    right = np.cross([0.0, 0.0, 1.0], view) / np.linalg.norm(np.cross([0.0, 0.0, 1.0], view))
    up = np.cross(view, right)
    radius, y = 72.0, sheet.top + 90.0
    for number, frame in enumerate(frames):
        x = 78.0 + 162.0 * number
        best = np.array(frame["best"])

        def place(point: Any, x: float = x) -> Point:
            return x + radius * float(point @ right), y - radius * float(point @ up)

        sheet.dot(x, y, radius, "globe")
        angle = math.acos(1.0 - frame["loss"])  # |theta| = 1: a point at this angle loses 1 - cos(angle)
        side = np.cross(best, [1.0, 0.0, 0.0]) / np.linalg.norm(np.cross(best, [1.0, 0.0, 0.0]))
        other = np.cross(best, side)
        turns = np.linspace(0.0, 2.0 * np.pi, 73)[:-1]
        rim = [math.cos(angle) * best + math.sin(angle) * (math.cos(t) * side + math.sin(t) * other) for t in turns]
        sheet.path([place(point) for point in rim], "cap", is_closed=True)
        sheet.dot(*place(best), 3.5, "tip")
        sheet.diamond(*place(theta), 5.5, "odd")
        sheet.text(x, y + radius + 24, f"after {frame['pulls']}", "middle strong")
        sheet.text(x, y + radius + 45, f"loses ≤ {frame['loss']:.2f}", "middle")
    sheet.notes(
        [
            "Dot: the answer so far. Diamond: the best point.",
            "Blue: where the best point can lie, with 95 % confidence.",
        ]
    )
    return sheet


# ---- all of them


class Picture(NamedTuple):
    """A picture: how it is drawn, and how its numbers are measured; numbers of `rivals` are those of its benchmark."""

    draw: Callable[[Any], Sheet]
    measure: Callable[[], dict[str, Any]] | None = None


PICTURES: Mapping[str, Picture] = {
    "rivals": Picture(draw_rivals),
    "loop": Picture(draw_loop),
    "losing-option": Picture(draw_losing, losing_numbers),
    "allocation": Picture(draw_allocation, allocation_numbers),
    "evidence": Picture(draw_evidence, evidence_numbers),
    "model-check": Picture(draw_model, model_numbers),
    "lead": Picture(draw_gap, gap_numbers),
    "many-options": Picture(draw_many, many_numbers),
    "study": Picture(draw_study, study_numbers),
    "sphere": Picture(draw_sphere, sphere_numbers),
}


def sheets() -> dict[str, Sheet]:
    """Return every picture, drawn from the kept numbers."""
    numbers = {**json.loads(NUMBERS.read_text("utf-8")), "rivals": rivals_numbers()}
    return {name: picture.draw(numbers.get(name)) for name, picture in PICTURES.items()}


def file_of(name: str, theme: str) -> Path:
    """Return where a picture is kept."""
    return FOLDER / f"{name}-{theme}.svg"


def html(name: str, alt: str, folder: str = "_static/pictures/") -> str:
    """Return what a page writes to show a picture; `folder` leads from the page to the pictures."""
    words = "\n".join(textwrap.wrap(f'<img src="{folder}{name}-light.svg" alt="{escape(alt)}">', 100))
    dark = f'<source media="(prefers-color-scheme: dark)" srcset="{folder}{name}-dark.svg">'
    return f"<picture>\n{dark}\n{words}\n</picture>"


FOUND = re.compile(
    r'<picture>\s*<source[^>]*srcset="(?P<dark>[^"]*)"\s*>\s*<img\s+src="(?P<light>[^"]*)"\s+alt="(?P<alt>[^"]*)"[^>]*>'
    r"\s*</picture>"
)
"""A picture in a page."""


def themed(page: str) -> str:
    """Return a page whose pictures follow the switch of the site between light and dark, not the system's setting."""
    shown = "\n".join(rf'<img class="only-{theme}" src="\g<{theme}>" alt="\g<alt>">' for theme in THEMES)
    return FOUND.sub(f'<div class="picture">\n{shown}\n</div>', page)


def measure(names: Iterable[str]) -> None:
    """Run the simulations behind pictures again, and keep their numbers."""
    known = json.loads(NUMBERS.read_text("utf-8")) if NUMBERS.exists() else {}
    today = datetime.now(UTC).date().isoformat()
    for name in names:
        run = PICTURES[name].measure
        if run is not None:
            known[name] = {"date": today, "command": f"python -m docs.pictures {name}", **_rounded(run())}
    rows = (f"{json.dumps(name)}: {json.dumps(known[name])}" for name in PICTURES if name in known)
    NUMBERS.write_text("{" + ",\n".join(rows) + "}\n", "utf-8")


def _rounded(value: Any) -> Any:
    """Return plain numbers of five digits: machines differ in more."""
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.5g}")
    return value


def main(names: Sequence[str]) -> None:
    """Measure what is named, and draw everything."""
    unknown = [name for name in names if name not in (*PICTURES, "all")]
    if unknown:
        sys.exit(f"no picture named {', '.join(unknown)}; there are: {', '.join(PICTURES)}, and all for every one")
    measure(PICTURES if "all" in names else names)
    for name, sheet in sheets().items():
        for theme in THEMES:
            file_of(name, theme).write_text(sheet.svg(theme), "utf-8")
        sys.stdout.write(f"{html(name, sheet.alt)}\n\n")


if __name__ == "__main__":
    main(sys.argv[1:])
