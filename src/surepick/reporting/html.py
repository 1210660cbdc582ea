"""Self-contained HTML pages: tables, templates that escape every text, and embedded figures."""

import base64
import re
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, NamedTuple
from urllib.parse import quote

from surepick._files import file_name
from surepick.errors import SurepickError


class Cell(NamedTuple):
    """A cell of a table."""

    text: str
    detail: str = ""
    """Lines in small print below the text."""
    tone: str = ""
    """CSS class: a verdict, or "best"."""
    shade: float = 0.0
    """Darkness of the background, from 0 to 1."""


class Table(NamedTuple):
    """A table; its first columns are words, the others numbers."""

    title: str
    headers: list[str]
    n_words: int
    rows: list[list[Cell]]
    note: str = ""
    first: int | None = None
    """The highlighted row; with `n_marked`, the first of them."""
    key: int = 0
    """The column that names the row."""
    is_folded: bool = False
    """Whether the table is folded at first."""
    n_marked: int = 1
    """How many rows are highlighted."""


def template(name: str, package: str = "surepick.reporting", **options: Any) -> Any:
    """Return a template of a package, which may use those of this one, with options of Jinja2.

    Texts come from users, so the template escapes them: for HTML, unless the option `finalize` does the escaping.
    """
    check_ready()
    return _template(name, package, **options)


@cache
def _template(name: str, package: str, **options: Any) -> Any:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 (optional)

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("surepick.reporting")]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape="finalize" not in options,  # noqa: S701 (see above)
        **options,
    )
    environment.filters["quoted"] = partial(quote, safe="")
    environment.filters["file_name"] = file_name
    environment.filters["kept"] = _kept
    environment.filters["sentence"] = as_sentence
    return environment.get_template(name)


_WHOLE = re.compile(r"[0-9.,]+ %|[0-9]{4}-[0-9]{2}-[0-9]{2}")
"""A number with its percent sign, and a date."""


def _kept(text: Any) -> Any:
    """Return a text as HTML in which no line breaks between a number and its percent sign, or inside a date."""
    from markupsafe import Markup, escape  # noqa: PLC0415 (comes with jinja2, which is optional)

    return Markup(_WHOLE.sub(r'<span class="whole">\g<0></span>', str(escape(text))))  # noqa: S704 (escaped)


def as_sentence(text: str) -> Any:
    """Return a sentence of the library as a page shows it: with a capital letter, and names of code without backticks.

    A first word that is a name of code, such as `groups=`, stays as it is.
    """
    from markupsafe import Markup, escape  # noqa: PLC0415 (optional)

    text = text[:1].upper() + text[1:] if re.match("(a|[a-z]{2,})[ ,;:]", text) else text
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 (escaped)


def data_uri(svg: bytes) -> str:
    """Return a figure as a data URI; as an image, its identifiers cannot clash with those of another figure."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")


def check_ready() -> None:
    """Raise an error if the package that pages need is missing."""
    if find_spec("jinja2") is None:
        raise SurepickError("a page needs jinja2; install surepick[report].")
