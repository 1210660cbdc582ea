"""Charts of pages: scales, ticks, labels, and SVG that no name can break."""

import math
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from surepick.reporting import charts
from surepick.reporting.charts import LONGEST, MOST_POINTS, Axis, Bar, Point, Pulls, axis_over, distinct_labels
from surepick.reporting.html import template

SUPPLIERS = [f"Suspension polymerisate {letter} of Mayer" for letter in "ABC"]
NASTY = "</svg><script>alert(1)</script>\" onmouseover='x' {{7*7}} ü漢 javascript:"


def drawn(kind: str, chart: object) -> str:
    """Return the HTML of a chart."""
    return str(getattr(template("charts.html").module, kind)(chart))


def tree(html: str) -> ET.Element:
    """Return the elements of some HTML."""
    return ET.fromstring(f"<body>{html}</body>")


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0.0, 1.0, ["0.00", "0.25", "0.50", "0.75", "1.00"]),
        (-5.0, 4.9, ["-4", "-2", "0", "2", "4"]),
        (0.0, 5000.0, ["0", "2,000", "4,000"]),
        (0.1, 0.1004, ["0.1000", "0.1001", "0.1002", "0.1003", "0.1004"]),
        (0.0, 3e9, ["0", "1e+09", "2e+09", "3e+09"]),
    ],
)
def test_ticks_are_round_numbers(low: float, high: float, texts: list[str]) -> None:
    """Few, inside the axis, and with as many digits as they need."""
    ticks = Axis(low, high, 0.0, 100.0).ticks
    assert [tick.text for tick in ticks] == texts


@given(st.lists(st.floats(), max_size=5), st.booleans())
@example(values=[1.6e308], is_count=False)
@example(values=[6e307], is_count=True)
@example(values=[0.0, 1e-323], is_count=False)
def test_every_number_has_a_place(values: list[float], is_count: bool) -> None:
    """Whatever the numbers, the axis has an extent, at most six ticks in order, and a place for each number."""
    counts = [abs(value) for value in values] if is_count else values
    axis = axis_over(counts, 3.0, 97.0, is_count=is_count)
    places = [tick.at for tick in axis.ticks]
    assert axis.low < axis.high
    assert len(places) <= 6
    assert places == sorted(places)
    for value in counts:
        if abs(value) <= charts.HUGE:
            assert not axis.is_beyond(value)
        if not math.isnan(value):
            assert 3.0 <= axis.at(value) <= 97.0


def test_counts_have_whole_ticks_from_zero() -> None:
    """No half of a pull."""
    assert [tick.text for tick in axis_over([1, 2], 0.0, 97.0, is_count=True).ticks] == ["0", "1", "2"]
    assert [tick.text for tick in axis_over([0], 0.0, 97.0, is_count=True).ticks] == ["0", "1"]


def test_an_arm_far_off_does_not_hide_the_others() -> None:
    """It is beyond the axis, and the legend says so, unless it leads; then the others are at one end."""
    others = [Bar(str(n), n / 10.0, n / 10.0 - 0.1, n / 10.0 + 0.1, "arm") for n in range(8)]
    for kind in ("arm", "leader"):
        chart = charts.interval_bars([*others, Bar("far", 1e6, math.nan, math.nan, kind)], 1)
        assert chart.has_beyond == (kind == "arm")
        assert chart.axis.is_beyond(1e6) == (kind == "arm")
        assert ("beyond the axis" in drawn("interval_bars", chart)) == (kind == "arm")


def test_early_intervals_do_not_hide_the_estimates() -> None:
    """Intervals a hundred times as wide as the estimates differ leave room for these."""
    chart = charts.interval_bars([Bar(str(n), n, n - 300.0, n + 300.0, "arm") for n in range(4)], 1)
    assert chart.axis.at(3.0) - chart.axis.at(0.0) > 15.0
    assert chart.has_beyond


def test_unknown_numbers_draw_nothing() -> None:
    """Neither NaN nor infinity is written anywhere."""
    nan = math.nan
    bars = [Bar("a", nan, -math.inf, math.inf, "arm"), Bar("b", 1.0, nan, nan, "leader", nan, nan)]
    pages = [
        drawn("interval_bars", charts.interval_bars(bars, 2)),
        drawn("interval_bars", charts.interval_bars(bars[:1], 2)),
        drawn("scatter", charts.scatter([Point("a", nan, 1.0, nan), Point("b", 1.0, 2.0, nan)], 2)),
        drawn("bars", charts.pull_bars([Pulls("a", 0, nan)])),
        drawn("evidence_line", charts.evidence_line([(1, math.inf, math.inf), (2, math.inf, 3.0)])),
        drawn("evidence_line", charts.evidence_line([])),
    ]
    for page in pages:
        assert not re.search(r"\b(nan|inf)\b", page)
    assert "no estimate yet" in pages[0]


def test_names_are_escaped_and_every_chart_has_words() -> None:
    """No element, attribute or handler comes from a name; SVG has a title, no style attribute and no script."""
    bars = [Bar(NASTY, 1.0, 0.0, 2.0, kind, 0.5, 1.5) for kind in charts.KINDS]
    points = [Point(NASTY, 1.0, 1.2, 0.1, is_leader=True), Point(NASTY, 2.0, 1.9, 0.1)]
    pages = {
        "interval_bars": charts.interval_bars(bars, 2),
        "scatter": charts.scatter(points, 2),
        "bars": charts.pull_bars([Pulls(NASTY, 3, 2.5)]),
        "evidence_line": charts.evidence_line([(5, 1.0, 3.0), (10, 3.1, 3.0)]),
    }
    for kind, chart in pages.items():
        body = tree(drawn(kind, chart))
        names = {element.tag for element in body.iter()}
        attributes = {name for element in body.iter() for name in element.attrib}
        assert "script" not in names
        assert not {name for name in attributes if name.startswith("on") or name == "style"}
        images = [element for element in body.iter("svg") if element.get("role") == "img"]
        assert images
        for image in images:
            assert image[0].tag == "title"
            assert image[0].text
    words = tree(drawn("interval_bars", pages["interval_bars"])).findtext(".//title")
    assert words == f"{NASTY}: estimate 1.00, interval 0.00 to 2.00, likely 0.50 to 1.50, leader"


def test_charts_of_many_arms_are_small() -> None:
    """A hundred thousand arms make no larger page than a few hundred; the points off the line and the leader stay."""
    points = [Point(str(n), n / 1e5, n / 1e5 + 0.01, 0.1) for n in range(100_000)]
    points[7] = Point("odd", 0.5, 90.0, 0.1)
    points[8] = Point("first", 0.5, 0.5, 0.1, is_leader=True)
    chart = charts.scatter(points, 2)
    assert len(chart.dots) == MOST_POINTS
    assert {"odd", "first"} <= {dot.words.partition(":")[0] for dot in chart.dots}
    assert chart.words == "300 arms of 100,000."
    line = charts.evidence_line([(n, n / 1e5, 1.0) for n in range(100_000)])
    assert len(line.points) <= MOST_POINTS + 1
    assert line.points[-1][0] == line.x.end
    assert max(len(drawn("scatter", chart)), len(drawn("evidence_line", line))) < 150_000


@pytest.mark.parametrize(
    "names",
    [
        SUPPLIERS,
        ["a" * 40 + str(n) + "b" * 40 for n in range(30)],
        ["Suspensio...e of Mayer", *SUPPLIERS, "Suspension pol (1)"],
        [*SUPPLIERS, *(f"{label}" for label in distinct_labels(SUPPLIERS))],
        ["x  y", "x y"],
        ["A", "B"],
    ],
)
def test_no_two_labels_are_alike(names: list[str]) -> None:
    """However the names are cut; those that fit stay as they are."""
    labels = distinct_labels(names)
    assert len(set(labels)) == len(names)
    assert max(map(len, labels)) <= LONGEST
    assert distinct_labels(["A", "B"]) == ["A", "B"]
