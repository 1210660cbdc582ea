"""Sets of vectors on the command line: which set, and its arms as text such as 0.6,-0.8."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from surepick.app.console import misuse
from surepick.arms.ellipsoid import Ellipsoid
from surepick.arms.hypercube import Hypercube
from surepick.arms.sphere import Sphere
from surepick.arms.top_k import TopK
from surepick.arms.vectors import VectorSet
from surepick.core.linalg import Array
from surepick.errors import InvalidInput


@final
@dataclass(frozen=True, slots=True)
class ChosenSet:
    """A set the user asked for by an option."""

    arms: VectorSet
    text: str
    """The option as it was given."""
    file: Path | None = None
    """What it was read from."""

    def label(self, arm: Any) -> str:
        """The entries with commas between them; reading them gives the same numbers back."""
        return ",".join(str(int(entry)) if entry == int(entry) else repr(float(entry)) for entry in arm)

    def index(self, label: str) -> Array:
        """The arm of a label."""
        try:
            return self.arms.checked([float(entry) for entry in label.split(",")])
        except (ValueError, InvalidInput) as error:
            raise misuse(f"{label!r} is no arm of {self.arms.description}: {error}") from error

    def describe(self) -> str:
        """Say what was understood."""
        return f"{self.arms.description}; an arm is its {self.arms.dim} entries with commas between them"

    def fingerprint(self) -> bytes:
        """What tells this set from others."""
        return self.text.encode()


def chosen_set(
    *, sphere: int | None, hypercube: int | None, top_k: str | None, ellipsoid: Path | None
) -> ChosenSet | None:
    """The set that one of the options names, None if none is given."""
    if sphere is not None:
        return ChosenSet(Sphere(sphere), f"--sphere {sphere}")
    if hypercube is not None:
        return ChosenSet(Hypercube(hypercube), f"--hypercube {hypercube}")
    if top_k is not None:
        parts = top_k.split(",")
        if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
            raise misuse(f"--top-k must be two whole numbers such as 10,3: three out of ten, got {top_k!r}.")
        return ChosenSet(TopK(int(parts[0]), int(parts[1])), f"--top-k {top_k}")
    if ellipsoid is not None:
        rows = _read_rows(ellipsoid)
        return ChosenSet(Ellipsoid(rows[0], rows[1:]), f"--ellipsoid {rows.tolist()}", ellipsoid)
    return None


def _read_rows(path: Path) -> Array:
    """The centre and the axes below it, from a file of plain numbers."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "loadtxt: input contained no data")  # its shape is refused below
            rows: Any = np.load(path, allow_pickle=False) if path.suffix == ".npy" else np.loadtxt(path, delimiter=",")
    except (OSError, ValueError, EOFError) as error:
        raise misuse(f"cannot read {path}: {getattr(error, 'strerror', None) or error}.") from error
    if rows.dtype.kind not in "biuf":
        raise misuse(f"{path} must hold real numbers, got {rows.dtype}; convert them before saving.")
    if rows.ndim != 2 or rows.shape[0] != rows.shape[1] + 1:
        raise misuse(
            f"{path} must have the centre in its first line and the d x d axes below it, one more line than columns; "
            f"got shape {rows.shape}."
        )
    numbers: Array = rows.astype(np.float64)
    return numbers
