"""The file format of results.

The file is JSON. Floats have enough digits to give back the same double. Infinities and NaN are the texts "inf", "-inf"
and "nan". A checksum shows whether the file was damaged.
"""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from surepick._files import replacing
from surepick.core.design.targets import Target
from surepick.errors import InvalidInput
from surepick.learning.estimates import Estimates
from surepick.learning.events import Entry, History
from surepick.learning.groups import GroupEffect, group_label
from surepick.learning.outlook import Ahead, Outlook
from surepick.types import Array

if TYPE_CHECKING:
    from surepick.learning.result import Result

FORMAT = "surepick result"
FORMAT_VERSION = 5
READABLE = (3, 4, FORMAT_VERSION)
_LIMITS = ("drift", "budget", "batch", "rounds")
# Fields that older files lack.
NEWER = frozenset(
    {"m", "cost", "p_value", "survivors", "feature_names", "theta_margin", "path", "planned", "earlier"}
    | {"coarseness", "repeated", "noise_doubt", "n_residuals", "remaining_low", "remaining_high", "hardest", "outlook"}
    | {"likely_lead", "far_share", "groups", "has_offsets", "calls", "specification", "goal", "pool"}
    | {"is_foreign_rule"}
    | set(_LIMITS)
)
_NAMES = {"threshold": "target", "remaining": "expected_remaining", "rule": "stopping"}
"""Names in the file of fields that have another name in a snapshot."""
_LEFT_OUT = frozenset({"rival", "lead", "interval", "near_tie", "_find_margin", "_find_outlook", "_recipe"})
"""Fields that are worked out again from the others."""


def write(content: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a result in plain form; the file appears whole or not at all."""
    text = _json(content)
    head = _json({"format": FORMAT, "version": FORMAT_VERSION, "sha256": _checksum(text)})
    with replacing(target_of(path)) as draft:
        draft.write_text(f'{head[:-1]},"result":{text}}}\n', encoding="utf-8")


def target_of(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file that can be written; refuse others."""
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise InvalidInput(f"{os.fspath(path)!r} must be in a folder that exists; create {str(target.parent)!r}.")
    if target.exists() and not target.is_file():
        raise InvalidInput(f"{os.fspath(path)!r} must be the name of a file, but is something else; choose another.")
    return target


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what `write` was given.

    Raises:
        InvalidInput: not such a file, or one that was cut off or changed.
    """
    needed = needed_of(path)
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:  # text that is no UTF-8, or no JSON
        raise InvalidInput(f"{needed}, but it is damaged or something else ({error}); use a copy.") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidInput(f"{needed}, but it holds something else; check the path.")
    if document.get("version") not in READABLE:
        raise InvalidInput(
            f"{needed} in version {' or '.join(map(str, READABLE))} of the format, got version "
            f"{document.get('version')!r}; read it with the release of surepick that wrote it."
        )
    content = document.get("result")
    if not isinstance(content, dict) or document.get("sha256") != _checksum(_json(content)):
        raise InvalidInput(f"{needed}, but its content was changed or damaged afterwards; use a copy.")
    return content


def needed_of(path: str | os.PathLike[str]) -> str:
    """Say which kind of file is needed."""
    return f"{os.fspath(path)!r} must be a file written by `Result.save`"


def _json(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def written(result: "Result") -> dict[str, Any]:
    """Return a result as JSON can hold it."""
    values = {_NAMES.get(name, name): _plain(getattr(result, name)) for name in _saved(type(result))}
    rare = ("far_share", "groups", "has_offsets", "calls", "specification", "goal", "pool", "is_foreign_rule")
    for name in (*rare, *_LIMITS):
        if not values[name] or values[name] == "confidence":
            del values[name]  # nearly always, and its default
    if result.calls is not None:
        values["calls"] = sorted(map(list, result.calls.items()))
    values |= {name: _plain(sorted(getattr(result, name).items())) for name in ("counts", "planned")}
    worked_out = {"misfit_margin": _plain(result.misfit_margin), "outlook": _plain(result.outlook)}
    return values | worked_out | {"log": _plain(result.history.log)}


def _saved(kind: type[Any]) -> Iterator[str]:
    return (one.name for one in fields(kind) if one.name not in _LEFT_OUT)


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it: arrays, tuples and tables as lists and dicts, infinities and NaN as text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, np.ndarray):
        return value.tolist() if np.isfinite(value).all() else _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    return value


def read_fields(values: Mapping[str, Any], kind: "type[Result]") -> dict[str, Any]:
    """Return the fields of a result from their plain form."""
    given = {"n_undecidable": values["n_hidden"]} if "n_hidden" in values else {}  # its name up to version 4
    given |= values
    read: dict[str, Any] = {"history": History([_read_event(event) for event in given["log"]])}
    for one in fields(kind):
        name, key = one.name, _NAMES.get(one.name, one.name)
        if name in _LEFT_OUT or name == "history" or (key in NEWER and key not in given):
            continue
        reader = _READERS.get(name, float if one.type is float else None)
        value = given[key]  # all but newer ones must be there
        read[name] = value if reader is None or value is None else reader(value)
    if isinstance(read["best"], list) and read.get("m", 1) == 1 and "calls" not in given:
        read["best"] = _floats(read["best"])
    margin = None if given["misfit_margin"] is None else float(given["misfit_margin"])
    outlook = None if given.get("outlook") is None else _read_outlook(given["outlook"])
    return {**read, "_find_margin": lambda: margin, "_find_outlook": lambda: outlook}


def _floats(values: Sequence[float | str]) -> Array:
    return np.array([float(value) for value in values], dtype=np.float64)


def _pair(values: Sequence[float | str]) -> tuple[float, ...]:
    return tuple(map(float, values))


def _read_arm(arm: Any) -> Any:
    return _pair(arm) if isinstance(arm, list) else int(arm)


def _read_event(event: Sequence[Any]) -> Entry:
    match event:
        case ["start" | "audit", _]:
            rest: tuple[Any, ...] = (event[1],)
        case ["ask", list(arms), *group]:
            rest = (tuple(_read_arm(arm) for arm in arms), *map(group_label, group))
        case ["tell", arm, reward, ask, list(group)]:
            rest = _read_arm(arm), float(reward), ask if ask in (None, "none") else int(ask), group_label(group)
        case ["tell", arm, reward, *ask]:
            rest = _read_arm(arm), float(reward), *(one if one == "none" else int(one) for one in ask)
        case ["fail", arm, *ask]:
            rest = _read_arm(arm), *map(int, ask)
        case ["void" | "restore", n, *reason]:
            rest = int(n), *map(str, reason)
        case ["correct", n, value, *reason]:
            rest = int(n), float(value), *map(str, reason)
        case _:
            raise ValueError(f"{event!r} is no event")
    return event[0], *rest


def _read_estimates(content: Mapping[str, Any]) -> Estimates:
    names = None if content["names"] is None else tuple(content["names"])
    listed = None if content["listed"] is None else tuple(_read_arm(arm) for arm in content["listed"])
    margin = content.get("margin")  # none in files of version 3
    return Estimates(
        names,
        _floats(content["estimate"]),
        _floats(content["low"]),
        _floats(content["high"]),
        listed,
        None if margin is None else _floats(margin),
        tuple(tuple(map(int, group)) for group in content.get("alike", ())),
        *(None if content.get(name) is None else _floats(content[name]) for name in ("likely_low", "likely_high")),
    )


def _read_outlook(content: Mapping[str, Any]) -> Outlook:
    numbers = {name: float(content[name]) for name in ("probability", "within", "loss", "likely_loss")}
    ahead = tuple(Ahead(int(pulls), float(right), float(loss)) for pulls, right, loss in content["ahead"])
    return Outlook(**numbers, in_question=tuple(map(int, content["in_question"])), ahead=ahead)


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "counts": lambda counts: {_read_arm(arm): int(pulls) for arm, pulls in counts},
    "planned": lambda shares: {_read_arm(arm): float(share) for arm, share in shares},
    "path": lambda looks: tuple((int(n), float(evidence), float(threshold)) for n, evidence, threshold in looks),
    "groups": lambda effects: tuple(
        GroupEffect(
            group_label(one["label"]), int(one["n"]), float(one["offset"]), float(one["half_width"]), one["note"]
        )
        for one in effects
    ),
    "survivors": lambda rows: np.array(rows, dtype=np.int64),
    "given_noise_std": lambda given: _floats(given) if isinstance(given, list) else given,
    **dict.fromkeys(("noise_interval", "reward_range", "likely_lead"), _pair),
    **dict.fromkeys(("theta", "theta_margin"), _floats),
    **dict.fromkeys(("arms", "candidates"), _read_estimates),
    "feature_names": tuple,
    "calls": lambda calls: {_read_arm(arm): call for arm, call in calls},
    "specification": lambda target: Target(**target),
}
"""How to read each field; others are floats by their type, or stay as JSON has them."""
