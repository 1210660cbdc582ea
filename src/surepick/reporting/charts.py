"""Charts of pages: records, scales and ticks as plain numbers; `templates/charts.html` draws them as inline SVG.

Horizontal places are percents of the width, vertical places are pixels: a chart fills its column, and its letters keep
their size on a phone.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple, final

from surepick._texts import between, counted, fixed

MOST = 30
"""Most arms in a chart that names them."""
LONGEST = 22
"""Most letters of a name beside an axis."""
MOST_POINTS = 300
"""Most points of a chart, which keeps the page of 100,000 arms small."""
HEIGHT, TOP, BOTTOM = 250, 26, 206
"""Height of a chart with two axes, and the pixels between which its values lie; names of the axes are outside."""
RIGHT, LETTER = 98.0, 2.0
"""Percents of the width: the right end of a plot, and one letter on a phone."""
HUGE = 1e200
"""Values above this, and NaN, are on no axis; smaller ones have differences and shares that a float can hold."""
KINDS = ("leader", "not excluded", "excluded", "met", "open", "failed", "control", "arm")
"""Kinds of arms; each has a colour and a shape of its own."""


class Bar(NamedTuple):
    """An arm with its estimate."""

    name: str
    value: float
    low: float
    high: float
    kind: str
    """One of `KINDS`."""
    likely_low: float = math.nan
    likely_high: float = math.nan
    """Interval of this mean alone, an estimate; NaN if unknown."""

    @property
    def has_value(self) -> bool:
        """Whether there is an estimate."""
        return math.isfinite(self.value)

    @property
    def has_interval(self) -> bool:
        """Whether the interval is bounded."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def has_likely(self) -> bool:
        """Whether the likely interval is known."""
        return math.isfinite(self.likely_low) and math.isfinite(self.likely_high)


class Point(NamedTuple):
    """An arm that was measured."""

    name: str
    fitted: float
    measured: float
    error: float
    """Standard error of the measured mean; NaN if the noise is unknown."""
    is_leader: bool = False


class Pulls(NamedTuple):
    """An arm with its pulls."""

    name: str
    pulls: int
    planned: float
    """Planned pulls; NaN without a plan."""


class Tick(NamedTuple):
    """A labelled place of an axis."""

    at: float
    text: str


@final
@dataclass(frozen=True)
class Axis:
    """A scale from values to places."""

    low: float
    high: float
    start: float
    """Place of `low`."""
    end: float
    """Place of `high`."""
    most: int = 5
    """Most ticks."""
    is_count: bool = False
    """Whether values are whole numbers."""

    def at(self, value: float) -> float:
        """Return the place of a value; the nearer end for a value beyond the axis."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + (self.end - self.start) * min(max(share, 0.0), 1.0), 2)

    def is_beyond(self, value: float) -> bool:
        """Whether a value lies outside the axis."""
        return not self.low <= value <= self.high

    @property
    def ticks(self) -> list[Tick]:
        """Round numbers inside the axis: the smallest step of 1, 2, 2.5 or 5 times a power of ten with few enough."""
        least = (self.high - self.low) / (self.most + 1)
        power = math.floor(math.log10(least))
        steps = [digit * 10.0 ** (power + more) for more in (0, 1) for digit in (1.0, 2.0, 2.5, 5.0)]
        if self.is_count:
            steps = [step for step in steps if step == round(step)] or [1.0]
        for step in steps:
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            if last - first < self.most:
                break
        places = next((places for places in range(12) if round(step, places) == step), 12)
        values = [step * number for number in range(first, min(last, first + self.most) + 1)]
        return [Tick(self.at(value), tick_text(value, places)) for value in values]


def tick_text(value: float, places: int) -> str:
    """Return the label of a tick."""
    if value and not 1e-6 < abs(value) < 1e7:
        return f"{value:.3g}"
    return f"{value:,.0f}" if places == 0 else fixed(value, places)


def axis_over(values: Iterable[float], start: float, end: float, *, is_count: bool = False) -> Axis:
    """Return an axis that shows all values but huge ones, with 0 if they are counts."""
    known = [value for value in values if abs(value) <= HUGE]
    known += [0.0] if is_count else []
    low, high = min(known, default=0.0), max(known, default=1.0)
    if high - low <= max(1e-12 * max(abs(low), abs(high)), 1.0 / HUGE):  # equal, but for the last digits
        low, high = (low, high + 1.0) if is_count else (low - abs(low) / 10.0 - 0.1, high + abs(high) / 10.0 + 0.1)
    return Axis(low, high, start, end, is_count=is_count)


class BarRow(NamedTuple):
    """A row of a chart of intervals."""

    label: str
    bar: Bar
    words: str
    """The numbers of the row, for screen readers and below the pointer."""


class IntervalBars(NamedTuple):
    """Estimates with intervals, a row for each arm, on one axis."""

    rows: list[BarRow]
    axis: Axis
    kinds: list[str]
    """Kinds of arms in the chart, for its legend."""
    has_likely: bool
    has_intervals: bool
    has_beyond: bool
    """Whether an estimate or an interval reaches beyond the axis."""
    target: float | None = None
    """The value that arms should reach, a line through all rows; None: none."""
    target_is: str = ""
    """What the legend calls the target."""


def interval_bars(bars: Sequence[Bar], places: int, target: float | None = None, target_is: str = "") -> IntervalBars:
    """Return the chart of some arms, in their order, with `places` decimals."""
    labels = distinct_labels([bar.name for bar in bars])
    rows = [BarRow(label, bar, _bar_words(bar, places)) for label, bar in zip(labels, bars, strict=True)]
    kinds = [kind for kind in KINDS if any(bar.kind == kind for bar in bars)]
    axis, bounded = bar_axis(bars, [] if target is None else [target]), [bar for bar in bars if bar.has_interval]
    ends = [end for bar in bounded for end in (bar.low, bar.high)] + [bar.value for bar in bars if bar.has_value]
    has_beyond = any(map(axis.is_beyond, ends))
    return IntervalBars(
        rows, axis, kinds, any(bar.has_likely for bar in bars), bool(bounded), has_beyond, target, target_is
    )


def bar_axis(bars: Sequence[Bar], marks: Sequence[float] = ()) -> Axis:
    """Return the axis of estimates with intervals.

    Marks, leaders and all estimates but those far off are on the axis. Intervals widen the axis to at most five times
    the range of the estimates: early intervals can be so wide that all estimates would fall on one place.
    """
    values = sorted(bar.value for bar in bars if bar.has_value)
    kept = values
    if len(values) > 3:
        lower, upper = values[len(values) // 4], values[-1 - len(values) // 4]
        fence = 5.0 * (upper - lower) or math.inf
        kept = [value for value in values if lower - fence <= value <= upper + fence]
    kept += [*marks, *(bar.value for bar in bars if bar.kind == "leader")]
    kept += [end for bar in bars for end in (bar.likely_low, bar.likely_high) if bar.kind == "leader"]
    kept = [value for value in kept if math.isfinite(value)]
    room = 2.0 * (max(kept) - min(kept)) if kept else 0.0
    ends = [end for bar in bars for end in (bar.low, bar.high, bar.likely_low, bar.likely_high) if math.isfinite(end)]
    if room > 0.0:
        ends = [min(max(end, min(kept) - room), max(kept) + room) for end in ends]
    return axis_over([*kept, *ends], 3.0, 97.0)


def best_first(bars: Iterable[Bar]) -> list[Bar]:
    """Return the arms with the largest estimates, in order, those without an estimate last."""
    return sorted(bars, key=lambda bar: -bar.value if bar.has_value else math.inf)[:MOST]


def _bar_words(bar: Bar, places: int) -> str:
    parts = [f"estimate {fixed(bar.value, places)}" if bar.has_value else "no estimate yet"]
    parts += [f"interval {ends}"] if (ends := between(bar.low, bar.high, places)) else []
    parts += [f"likely {ends}"] if (ends := between(bar.likely_low, bar.likely_high, places)) else []
    parts += [bar.kind] if bar.kind != "arm" else []
    return f"{bar.name}: {', '.join(parts)}"


class EvidenceLine(NamedTuple):
    """Evidence over pulls, in percent of the threshold."""

    x: Axis
    y: Axis
    points: list[tuple[float, float]]
    """Places: percents of the width, pixels."""
    words: str
    height: int = HEIGHT

    @property
    def line(self) -> str:
        """Places of the line in a plot that is 1,000 wide."""
        width = self.x.end - self.x.start
        return " ".join(f"{1000.0 * (x - self.x.start) / width:.1f},{y:g}" for x, y in self.points)


def evidence_line(path: Sequence[tuple[int, float, float]]) -> EvidenceLine:
    """Return the chart of evidence: (pulls, evidence, threshold) for some times, in order."""
    known = [(n, share_of(value, target)) for n, value, target in thinned(path)]
    y = Axis(0.0, max([110.0, *(1.05 * share for _, share in known)]), BOTTOM, TOP)
    x = axis_over([n for n, _ in known], plot_left(y), RIGHT, is_count=True)
    points = [(x.at(n), y.at(share)) for n, share in known]
    n, share = known[-1] if known else (0, 0.0)
    return EvidenceLine(x, y, points, f"After {counted(n, 'pull')}: {share:.0f} % of the threshold.")


def share_of(evidence: float, threshold: float) -> float:
    """Return evidence in percent of the threshold, from 0 to 150."""
    share = evidence / threshold if threshold > 0.0 else 0.0
    return 0.0 if math.isnan(share) else 100.0 * min(max(share, 0.0), 1.5)


def thinned(path: Sequence[tuple[int, float, float]]) -> list[tuple[int, float, float]]:
    """Return at most `MOST_POINTS` entries and the last one."""
    step = max(1, math.ceil(len(path) / MOST_POINTS))
    return [*path[:-1:step], *path[-1:]]


def plot_left(y: Axis) -> float:
    """Return the left end of a plot, in percent: right of the labels of its vertical axis."""
    return 2.0 + LETTER * max((len(tick.text) for tick in y.ticks), default=0)


class Dot(NamedTuple):
    """A point of a scatter plot, in places."""

    x: float
    y: float
    top: float
    bottom: float
    """Ends of its bar of two standard errors."""
    is_leader: bool
    words: str


class Scatter(NamedTuple):
    """Measured means against fitted means."""

    x: Axis
    y: Axis
    dots: list[Dot]
    has_leader: bool
    words: str
    height: int = HEIGHT


def scatter(points: Sequence[Point], places: int) -> Scatter:
    """Return the chart of measured against fitted means; of many arms, those furthest from the fit."""
    shown = furthest(points)
    means = axis_over([value for point in shown for value in (point.fitted, point.measured)], BOTTOM, TOP)
    room = 0.05 * (means.high - means.low)
    y = Axis(means.low - room, means.high + room, BOTTOM, TOP)
    x = Axis(y.low, y.high, plot_left(y), RIGHT)
    dots = []
    for point in shown:
        error = 0.0 if math.isnan(point.error) else 2.0 * point.error
        words = f"{point.name}: measured {fixed(point.measured, places)}, fitted {fixed(point.fitted, places)}"
        top, bottom = y.at(point.measured + error), y.at(point.measured - error)
        dots.append(Dot(x.at(point.fitted), y.at(point.measured), top, bottom, point.is_leader, words))
    dots.sort(key=lambda dot: dot.is_leader)  # leaders in front
    said = f"{counted(len(shown), 'arm')}{f' of {len(points):,}' if len(shown) < len(points) else ''}."
    return Scatter(x, y, dots, any(point.is_leader for point in points), said)


def furthest(points: Sequence[Point]) -> list[Point]:
    """Return the leaders and the points furthest from the fit, at most `MOST_POINTS`."""

    def distance(point: Point) -> float:
        error = point.error if point.error > 0.0 else 1.0
        return math.inf if point.is_leader else abs(point.measured - point.fitted) / error

    known = [point for point in points if math.isfinite(point.fitted - point.measured)]
    return sorted(known, key=distance, reverse=True)[:MOST_POINTS]


class PullsRow(NamedTuple):
    """A row of a chart of pulls."""

    label: str
    row: Pulls
    words: str


class PullBars(NamedTuple):
    """Pulls beside planned pulls, a row for each arm, on one axis."""

    rows: list[PullsRow]
    axis: Axis
    has_plan: bool


def pull_bars(rows: Iterable[Pulls]) -> PullBars:
    """Return the chart of the arms that were measured most."""
    shown = most_pulled(rows)
    axis = axis_over([value for row in shown for value in (row.pulls, row.planned)], 0.0, 97.0, is_count=True)
    drawn = []
    for label, row in zip(distinct_labels([row.name for row in shown]), shown, strict=True):
        planned = "" if not math.isfinite(row.planned) else f", {row.planned:,.3g} planned"
        drawn.append(PullsRow(label, row, f"{row.name}: {counted(row.pulls, 'pull')}{planned}"))
    return PullBars(drawn, axis, any(math.isfinite(row.planned) for row in shown))


def most_pulled(rows: Iterable[Pulls]) -> list[Pulls]:
    """Return the arms with the most pulls, in order."""
    return sorted(rows, key=lambda row: -row.pulls)[:MOST]


def shortened(text: str, most: int) -> str:
    """Return a text on one line; a long one loses its middle: names of arms often differ at the end alone."""
    text = " ".join(text.split())
    n_last = (most - 3) // 2
    return text if len(text) <= most else f"{text[: most - 3 - n_last]}...{text[len(text) - n_last :]}"


def distinct_labels(names: Sequence[str], most: int = LONGEST) -> list[str]:
    """Return names for an axis, cut to a length; those that the cut makes equal get numbers, so that all differ."""
    cut = [shortened(name, most) for name in names]
    often, taken, found = Counter(cut), set(cut), list[str]()
    for name, short in zip(names, cut, strict=True):
        label = short
        if often[short] > 1:
            endings = (f" ({number})" for number in count(1))
            numbered = (shortened(name, most - len(ending)) + ending for ending in endings)
            label = next(one for one in numbered if one not in taken)
            taken.add(label)
        found.append(label)
    return found
