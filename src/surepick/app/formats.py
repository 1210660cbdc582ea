"""Results for programs: JSON and CSV."""

import csv
import io
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from surepick.core.texts import safe_cell, shown

_CONTROL = re.compile("[\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
"""Of the first 65,536 characters those that `shown` shows as codes, beyond what JSON has codes for."""


def to_json(value: Any) -> str:
    """Indented JSON; numbers that JSON cannot hold become null, and letters that the output cannot hold codes."""
    is_utf = (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(_plain(value), indent=2, ensure_ascii=not is_utf, allow_nan=False)
    # JSON has codes for the control characters that it may hold as they are.
    return (
        text if text.isascii() and "\x7f" not in text else _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    )


def to_csv(records: Sequence[Mapping[str, Any]], titles: Sequence[str] = ()) -> str:
    """CSV with a header line: the keys of the records; `titles` if there are none. No cell is a formula."""
    text = io.StringIO()
    header = [records[0]] if records else [titles] if titles else []
    rows = [*header, *(record.values() for record in records)]
    csv.writer(text, lineterminator="\n").writerows([[_cell(value) for value in row] for row in rows])
    return text.getvalue()


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return safe_cell(shown(value) if sys.stdout.isatty() else value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
