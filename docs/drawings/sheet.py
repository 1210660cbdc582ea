"""Sheets that pictures are drawn on: texts, bars, dots, lines and axes, light or dark, as SVG."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import NamedTuple

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


def draw_axes(sheet: Sheet, x: Scale, y: Scale, ticks: tuple[Sequence[float], Sequence[float]], unit: str = "") -> None:
    """Draw a grid with numbers: those of x below it, those of y, with their unit, to the left."""
    for value in ticks[1]:
        sheet.path([(x.start, y(value)), (x.end, y(value))], "grid")
        sheet.text(x.start - 6, y(value) + 5, f"{value:,g}{unit}", "end")
    for value in ticks[0]:
        sheet.text(x(value), y.start + 20, f"{value:,g}", "middle")
    sheet.path([(x.start, y.end), (x.start, y.start), (x.end, y.start)], "axis")
