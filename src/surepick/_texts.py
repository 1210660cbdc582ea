"""Texts on their way to people: numbers in sentences, and texts of others made safe.

Names, reasons and paths come from others. A terminal obeys control characters, so a name could erase a line and paint
another. A spreadsheet computes a cell that begins with =, so a name could be a formula. A notebook shows HTML, so a
name could be a script.
"""

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from surepick.errors import InvalidInput

_JOINERS = "\u200c\u200d"
"""Invisible, and part of Persian and Indic words and of emoji."""


_COMPUTED = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""How a cell begins that a spreadsheet may compute; with apostrophes in front, so that the added one can come off."""


_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"


_NUMBERS = re.compile(rf"{_NUMBER}(?:,{_NUMBER})*")
"""A number, or the entries of a vector."""


def control_in(text: str) -> str | None:
    """Return the first character that steers a terminal or the direction of writing, or that cannot be seen."""
    if text.isprintable():
        return None
    return next((letter for letter in text if _is_control(letter)), None)


def _is_control(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") and letter not in _JOINERS


def shown(text: str, *, keeps_lines: bool = False) -> str:
    r"""Return a text that a terminal shows as it is: control characters become codes such as \x1b.

    Args:
        text: of anybody.
        keeps_lines: whether line ends stay, where the text is known to have its own.
    """
    if text.isprintable():
        return text
    return "".join(
        ascii(letter)[1:-1] if _is_control(letter) and not (keeps_lines and letter == "\n") else letter
        for letter in text
    )


def check_line(what: str, text: str) -> str:
    """Return a text, if it is a line that a terminal shows as it is.

    Args:
        what: begins the sentence, such as "the name of an arm".
        text: what came.
    """
    if (bad := control_in(text)) is not None:
        raise InvalidInput(f"{what} must be a line of text, got {text!r} with {bad!r}; leave that character out.")
    return text


def safe_cell(text: str) -> str:
    """Return a cell of a CSV file that no spreadsheet computes: with an apostrophe if it begins like a formula."""
    return f"'{text}" if _COMPUTED.match(text) and not _NUMBERS.fullmatch(text) else text


def told_cell(cell: str) -> str:
    """Return the text that `safe_cell` has made a cell of."""
    return cell[1:] if cell.startswith("'") and safe_cell(cell[1:]) == cell else cell


def html_table(caption: str, rows: Iterable[Sequence[object]], titles: Sequence[str] = ()) -> str:
    """Return a small table for a notebook, every text escaped; without colours, so that it fits light and dark ones.

    Args:
        caption: a sentence above the table.
        rows: cells of each row; the first one names the row.
        titles: of the columns.
    """

    def cell(text: object, kind: str) -> str:
        return f'<{kind} style="text-align: left">{escape(shown(str(text)))}</{kind}>'

    head = [[cell(title, "th") for title in titles]] if titles else []
    body = [[cell(first, "th"), *(cell(text, "td") for text in others)] for first, *others in rows]
    lines = "".join(f"<tr>{''.join(cells)}</tr>" for cells in [*head, *body])
    return f'<p style="max-width: 50em">{escape(shown(caption))}</p>' + (f"<table>{lines}</table>" if lines else "")


def plain_data(value: Any) -> Any:
    """Return a record as JSON can have it: arrays are lists, and numbers that are not finite are None."""
    if isinstance(value, Mapping):
        return {str(key): plain_data(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain_data(entry) for entry in value]
    if hasattr(value, "tolist"):
        return plain_data(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def to_json(value: Any) -> bytes:
    """Return JSON in which numbers that are not finite are null."""
    try:
        text = _ENCODER.encode(value)  # nearly every record is plain already
    except (TypeError, ValueError):
        text = _ENCODER.encode(plain_data(value))
    return text.encode(errors="backslashreplace")


def counted(n: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, such as "1 pull" or "2,000 pulls"."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {plural or f'{noun}s'}"


def joined(names: Sequence[str]) -> str:
    """Join names in a sentence, such as "A, B and C"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def percent(probability: float) -> str:
    """Return a probability in percents; beside a risk of 1e-9 these say less than the number itself."""
    if 1e-4 <= probability <= 1.0 - 1e-4:
        return f"{100.0 * probability:.4g} %"
    return f"{probability:.12g}"


def about(probability: float) -> str:
    """Return an estimated probability in steps of 5 %."""
    steps = round(20.0 * probability)
    if steps in (0, 20):
        return "less than 5 %" if steps == 0 else "more than 95 %"
    return f"about {5 * steps} %"


def roughly(number: float) -> str:
    """Return an estimated number with two digits."""
    if not number > 0.0:
        return "0"
    places = 1 - math.floor(math.log10(number))
    return f"{round(number, places):,.{max(places, 0)}f}"


def places_of(value: float, width: float) -> int:
    """Return how many decimals show two digits of the width, and one of the value unless it is much smaller."""

    def needed(number: float, digits: int) -> int:
        return digits - 1 - math.floor(math.log10(abs(number))) if number and math.isfinite(number) else -99

    of_width = needed(width, 2) if math.isfinite(width) else needed(value, 3)
    return min(max(of_width, min(needed(value, 1), of_width + 2), 0), 12)


def between(low: float, high: float, places: int) -> str:
    """Return an interval with this many decimals, rounded outwards; "" if it is not bounded."""
    is_bounded = math.isfinite(low) and math.isfinite(high)
    return f"{rounded_down(low, places)} to {rounded_up(high, places)}" if is_bounded else ""


def fixed(number: float, places: int) -> str:
    """Return a number with this many decimals."""
    text = f"{number:.{places}f}"
    return text.removeprefix("-") if float(text) == 0.0 else text  # no minus before nothing


def rounded_down(number: float, places: int) -> str:
    """Return a lower bound with this many decimals, not above it."""
    scale = 10.0**places
    return fixed(math.floor(number * scale + 1e-9) / scale, places)


def rounded_up(number: float, places: int) -> str:
    """Return an upper bound with this many decimals, not below it."""
    scale = 10.0**places
    return fixed(math.ceil(number * scale - 1e-9) / scale, places)


def vector_words(arm: Any) -> str:
    """Return a vector as people read it: four digits of its first entries."""
    entries = [f"{entry:.4g}" for entry in arm[:6]]
    return f"({', '.join(entries)}{', ...' if len(arm) > len(entries) else ''})"
