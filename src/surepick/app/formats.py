"""Results for programs: JSON and CSV."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any


def to_json(value: Any) -> str:
    """Indented JSON; numbers that JSON cannot hold become null."""
    return json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False)


def to_csv(records: Sequence[Mapping[str, Any]]) -> str:
    """CSV with a header line."""
    text = io.StringIO()
    if records:
        csv.writer(text, lineterminator="\n").writerows([records[0], *(record.values() for record in records)])
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
