"""Arms in logs and on the command line: the JSON and the option of every set.

The log holds a table of arms itself, so that a study needs no other file; of a file of arms that is too large for the
log, it holds the path and the hash. JSON keeps as many digits of a double as read back the same number.
"""

import reprlib
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from surepick._texts import check_line
from surepick.arms import VECTOR_SETS
from surepick.arms.base import ArmSet, NamedSet, VectorSet
from surepick.arms.finite import FiniteArms, as_arms
from surepick.arms.mapped import MappedArms
from surepick.core.linalg import row_digest
from surepick.errors import CorruptLog, InvalidInput

MOST_NUMBERS = 4_000_000
"""In a table that the log holds; about 80 MB of text."""

Written = dict[str, Any]


def write_arms(arms: Any, *, names: Sequence[str] | None = None) -> Written:
    """Return arms, or candidates, as JSON has them; arrays and data frames are taken as `FiniteArms` takes them."""
    match arms:
        case NamedSet():
            return arms.to_json()
        case MappedArms():
            constant = bool(arms.has_added_constant)
            return {"kind": "file", "path": str(arms.path), "constant": constant, "digest": arms.digest().hex()}
        case VectorSet():
            raise InvalidInput(f"a study can keep lists of arms and the sets of surepick, got {arms.description}.")
    rows = as_arms(arms) if names is None else FiniteArms(arms, names=names)
    if not isinstance(rows, FiniteArms):
        raise InvalidInput(f"a study can keep arms in memory or in a file, got {reprlib.repr(rows)}.")
    if rows.n_arms * rows.dim > MOST_NUMBERS:
        raise InvalidInput(
            f"the log of a study can hold a table of {MOST_NUMBERS:,} numbers, got {rows.n_arms:,} arms with "
            f'{rows.dim} features; write them to a file and pass sp.MappedArms("arms.npy").'
        )
    for name in rows.names or ():
        check_line("the name of an arm", name)
    for name in rows.feature_names:
        check_line("the name of a feature", name)
    return {
        "kind": "finite",
        "rows": rows.X.tolist(),
        "names": None if rows.names is None else list(rows.names),
        "features": list(rows.feature_names),
        **({} if (table := getattr(rows, "table", None)) is None else {"table": table}),
    }


def read_arms(written: Mapping[str, Any], *, spans: bool = True) -> ArmSet | VectorSet:
    """Return the arms that `write_arms` has written; candidates, which are compared alone, need not span.

    Raises:
        CorruptLog: a file of arms that is no longer what it was.
    """
    match written:
        case {"kind": "finite", "rows": rows, "names": names, "features": features}:
            X = np.array(rows, dtype=np.float64)
            arms = FiniteArms(X, names=names) if spans else FiniteArms.rows_only(X, names, least=1)
            arms.feature_names = tuple(features)
            return arms
        case {"kind": "file", "path": path, "constant": constant, "digest": digest}:
            return _file(Path(path), digest, is_constant_added=constant)
        case {"kind": str(kind)} if kind in VECTOR_SETS and written.keys() >= {*_class_of(kind).parameters}:
            found: VectorSet = _class_of(kind).from_json(written)
            return found
    raise CorruptLog(f"arms of a study must be of a kind that this version knows, got {reprlib.repr(written)}.")


def arms_of(written: Mapping[str, Any]) -> ArmSet | VectorSet:
    """Return arms that a program has written in the form of `write_arms`; what is None is left out.

    Raises:
        InvalidInput: they are not what they should be.
    """
    given = {name: value for name, value in written.items() if value is not None}
    if given["kind"] != "finite":
        try:
            return read_arms(given)
        except CorruptLog as error:
            raise InvalidInput(f"arms of the kind {given['kind']!r} need their parameters: {error}") from None
    if len({len(row) for row in given["rows"]}) > 1:
        raise InvalidInput("the rows of `arms` must all have the same number of features.")
    arms = FiniteArms(np.array(given["rows"]), names=given.get("names"))
    arms.feature_names = tuple(given.get("features", arms.feature_names))
    if len(arms.feature_names) != arms.dim:
        raise InvalidInput(f"`features` must have {arms.dim} names, got {len(arms.feature_names)}.")
    if "table" in given:
        if any(len(column["cells"]) != arms.n_arms for column in given["table"]["columns"]):
            raise InvalidInput(f"every column of `table` must have {arms.n_arms} cells, one for each arm.")
        arms.table = given["table"]  # type: ignore[attr-defined]
    return arms


def set_of_option(option: str, text: str) -> VectorSet:
    """Return the vector set that the command line names, such as --sphere 5 or --top-k 10,3."""
    found: VectorSet = _class_of(option.removeprefix("--")).from_text(text)
    return found


def claimed_dim(written: Mapping[str, Any]) -> Any:
    """Return the number of features that a log claims for a vector set; 0 for anything else."""
    kind = str(written.get("kind"))
    return _class_of(kind).json_dim(written) if kind in VECTOR_SETS else 0


def _class_of(kind: str) -> Any:
    """Return the class of a vector set."""
    module, _, name = VECTOR_SETS[kind].place.partition(":")
    return getattr(import_module(f"surepick.arms.{module}"), name)


def digest_of(written: Mapping[str, Any]) -> str:
    """Return a hash of the rows of a table, or the kind and parameters of another set in words."""
    if written["kind"] == "finite":
        return row_digest([np.array(written["rows"], dtype="<f8")]).hex()
    return str(written.get("digest") or " ".join(f"{name}={value}" for name, value in sorted(written.items())))


def _file(path: Path, digest: str, *, is_constant_added: bool) -> MappedArms:
    if not path.exists():
        raise CorruptLog(f"the arms of this study are in {path}, which is not there; put the file back.")
    arms = MappedArms(path, intercept=is_constant_added)
    if arms.digest().hex() != digest:
        raise CorruptLog(f"the arms of this study are in {path}, which was changed since; put the file back as it was.")
    return arms
