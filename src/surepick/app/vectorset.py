"""Sets of vectors on the command line: which set, and its arms as text such as 0.6,-0.8."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from surepick.arms.ellipsoid import Ellipsoid
from surepick.arms.hypercube import Hypercube
from surepick.arms.sphere import Sphere
from surepick.arms.tables.sources import refusing
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

    @property
    def title(self) -> str:
        """What the set is called."""
        return self.arms.description

    def label(self, arm: Any) -> str:
        """The entries with commas between them; reading them gives the same numbers back."""
        return ",".join(str(int(entry)) if entry == int(entry) else repr(float(entry)) for entry in arm)

    def index(self, label: str) -> Array:
        """The arm of a label."""
        try:
            return self.arms.checked([float(entry) for entry in label.split(",")])
        except (ValueError, InvalidInput) as error:
            raise InvalidInput(f"{label!r} is no arm of {self.arms.description}: {error}") from error

    def describe(self, model: str) -> str:
        """Say what was understood, whatever the model."""
        return f"{self.arms.description}; an arm is its {self.arms.dim} entries with commas between them"

    def fingerprint(self) -> bytes:
        """What tells this set from others."""
        return self.text.encode()


def chosen_set(option: str, value: Any) -> ChosenSet:
    """The set that an option names: --sphere, --hypercube, --top-k or --ellipsoid."""
    if option == "--ellipsoid":
        value = _read_rows(value).tolist()
        arms: VectorSet = Ellipsoid(value[0], value[1:])
    elif option == "--top-k":
        parts = value.split(",")
        if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
            raise InvalidInput(f"--top-k must be two whole numbers such as 10,3: three out of ten, got {value!r}.")
        arms = TopK(int(parts[0]), int(parts[1]))
    else:
        arms = Sphere(value) if option == "--sphere" else Hypercube(value)
    return ChosenSet(arms, f"{option} {value}")


def _read_rows(path: Path) -> Array:
    """The centre and the axes below it, from a file of plain numbers."""
    with refusing("cannot read", path), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "loadtxt: input contained no data")  # its shape is refused below
        rows: Any = np.load(path, allow_pickle=False) if path.suffix == ".npy" else np.loadtxt(path, delimiter=",")
    if rows.dtype.kind not in "biuf":
        raise InvalidInput(f"{path} must hold real numbers, got {rows.dtype}; convert them before saving.")
    if rows.ndim != 2 or rows.shape[0] != rows.shape[1] + 1:
        raise InvalidInput(
            f"{path} must have the centre in its first line and the d x d axes below it, one more line than columns; "
            f"got shape {rows.shape}."
        )
    return np.asarray(rows, dtype=np.float64)
