"""The page of a result: one HTML file that needs nothing else, for screens, phones and paper."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, final

from surepick.files import replacing
from surepick.showing.canvas import image
from surepick.showing.html import data_uri, template


class Cell(NamedTuple):
    """A cell of a table: a text, and what is written small below it."""

    text: str
    detail: str = ""


class Table(NamedTuple):
    """A table; its first columns are words, the others numbers."""

    title: str
    headers: list[str]
    n_words: int
    rows: list[list[Cell]]
    note: str = ""
    first: int | None = None
    """The row that stands out."""
    key: int = 0
    """The column that names the row."""


class Figure(NamedTuple):
    """A drawing and what it shows."""

    canvas: Any
    caption: str


@final
@dataclass(frozen=True, kw_only=True)
class Page:
    """Everything on a page, as plain texts, tables and figures."""

    title: str
    state: str
    """In a word or two."""
    tone: str
    """How that looks: "good", "open" or "bad"."""
    verdict: str
    details: list[str] = field(default_factory=list)
    """Sentences below the verdict."""
    facts: list[tuple[str, str]] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    """The first is above the figures."""
    figures: list[Figure] = field(default_factory=list)
    steps: list[tuple[str, str]] = field(default_factory=list)
    """How to do it again: a sentence, and code or "" below it."""
    foot: str = ""


def write_page(page: Page, path: Path) -> None:
    """Write a page to a file, which appears whole or not at all."""
    layout = template("result.html")
    pictures = [(data_uri(image(figure.canvas, "svg")), figure.caption) for figure in page.figures]
    text = layout.render(page=page, pictures=pictures)
    with replacing(path) as draft:
        draft.write_text(text.rstrip() + "\n", encoding="utf-8", newline="\n")
