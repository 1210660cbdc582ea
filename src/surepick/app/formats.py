"""Results for programs: JSON and CSV."""

import csv
import io
import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def to_json(value: Any) -> str:
    """Indented JSON; numbers that JSON cannot hold become null, and letters that the output cannot hold codes."""
    is_utf = (sys.stdout.encoding or "").lower().startswith("utf")
    return json.dumps(_plain(value), indent=2, ensure_ascii=not is_utf, allow_nan=False)


def to_csv(records: Sequence[Mapping[str, Any]], titles: Sequence[str] = ()) -> str:
    """CSV with a header line: the keys of the records; `titles` if there are none."""
    text = io.StringIO()
    header = [records[0]] if records else [titles] if titles else []
    csv.writer(text, lineterminator="\n").writerows([*header, *(record.values() for record in records)])
    return text.getvalue()


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
