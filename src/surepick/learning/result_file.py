"""The file format of results.

The file is JSON. Floats are written with the digits that give back the same double; infinities and NaN, for which
JSON has no word, are the texts "inf", "-inf" and "nan". A checksum tells a damaged file from a whole one.
"""

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surepick._files import replacing
from surepick.errors import InvalidInput
from surepick.learning.estimates import Estimates
from surepick.learning.events import Entry, History
from surepick.learning.margin import Margin
from surepick.types import Array, IntArray

FORMAT = "surepick result"
FORMAT_VERSION = 5
READABLE = (3, 4, FORMAT_VERSION)
# What older files lack, and results made without a learner may.
NEWER = frozenset(
    {"m", "cost", "p_value", "survivors", "feature_names", "theta_margin", "path", "planned", "earlier"}
    | {"coarseness", "repeated", "noise_doubt", "n_residuals"}
)


def write(content: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a result in plain form; the file appears whole or not at all."""
    text = _json(content)
    head = _json({"format": FORMAT, "version": FORMAT_VERSION, "sha256": _checksum(text)})
    with replacing(target_of(path)) as draft:
        draft.write_text(f'{head[:-1]},"result":{text}}}\n', encoding="utf-8")


def target_of(path: str | os.PathLike[str]) -> Path:
    """Return where a file of this name would be, if it can be written there."""
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
    """Say what a file must be."""
    return f"{os.fspath(path)!r} must be a file written by `Result.save`"


def _json(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it: arrays, tuples and tables as lists and dicts, infinities and NaN as text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, np.ndarray):
        return value.tolist() if np.isfinite(value).all() else plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value) if one.name != "_margin"}
    return value


def read_fields(values: Mapping[str, Any], kind: type[Any]) -> dict[str, Any]:
    """Return the fields of a result, which is of this class, from their plain form."""
    read = dict(values)
    if "n_hidden" in read:  # its name up to version 4
        read["n_undecidable"] = read.pop("n_hidden")
    for one in fields(kind):
        if one.name == "_margin" or (one.name in NEWER and one.name not in read):
            continue
        read[one.name] = float(read[one.name]) if one.type is float else read[one.name]  # all others must be there
    read["counts"] = {_read_arm(arm): int(pulls) for arm, pulls in read["counts"]}
    read["history"] = History([_read_event(event) for event in read.pop("log")])  # it has the pairs too
    margin = read.pop("misfit_margin")
    read["_margin"] = Margin(None if margin is None else float(margin))
    read["noise_interval"] = tuple(map(float, read["noise_interval"]))
    read["reward_range"] = None if read["reward_range"] is None else tuple(map(float, read["reward_range"]))
    if isinstance(read["best"], list) and read.get("m", 1) == 1:
        read["best"] = _floats(read["best"])
    if isinstance(read["given_noise_std"], list):
        read["given_noise_std"] = _floats(read["given_noise_std"])
    readers: dict[str, Callable[[Any], Any]]
    readers = {"theta": _floats, "theta_margin": _floats, "arms": _read_estimates, "candidates": _read_estimates}
    readers |= {"survivors": _read_rows, "feature_names": tuple, "path": _read_path, "planned": _read_shares}
    for name in readers.keys() & read.keys():
        read[name] = None if read[name] is None else readers[name](read[name])
    return read


def _read_rows(rows: Sequence[int]) -> IntArray:
    return np.array(rows, dtype=np.int64)


def _read_path(looks: Sequence[Sequence[Any]]) -> tuple[tuple[int, float, float], ...]:
    return tuple((int(n), float(evidence), float(target)) for n, evidence, target in looks)


def _read_shares(shares: Sequence[Sequence[Any]]) -> dict[Any, float]:
    return {_read_arm(arm): float(share) for arm, share in shares}


def _floats(values: Sequence[float | str]) -> Array:
    return np.array([float(value) for value in values], dtype=np.float64)


def _read_arm(arm: Any) -> Any:
    return tuple(float(entry) for entry in arm) if isinstance(arm, list) else int(arm)


def _read_event(event: Sequence[Any]) -> Entry:
    match event:
        case ["start" | "audit", _]:
            rest: tuple[Any, ...] = (event[1],)
        case ["ask", list(arms)]:
            rest = (tuple(_read_arm(arm) for arm in arms),)
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
    )
