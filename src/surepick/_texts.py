"""Texts of others on their way to people, notebooks and spreadsheets: names, reasons, paths.

A terminal obeys control characters, so a name could erase a line and paint another. A spreadsheet computes a cell that
begins with =, so a name could be a formula. A notebook shows HTML, so a name could be a script.
"""

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
