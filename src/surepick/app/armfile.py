"""Arms and earlier measurements from files, as the command line knows them."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from surepick.app.measure import Correction
from surepick.app.options import LearnerOptions, TableOptions
from surepick.app.vectorset import ChosenSet, chosen_set
from surepick.arms.files import MappedArms
from surepick.arms.tables.read import TableArms, read_arms
from surepick.arms.tables.roles import Roles
from surepick.arms.tables.sources import COLUMN_FILES, read_csv
from surepick.arms.tables.written import parse_number
from surepick.core.linalg import Array
from surepick.core.texts import told_cell
from surepick.errors import InvalidInput

LARGE_FILE = 200_000_000
"""Bytes of a .npy, Parquet or Arrow file from which on it is not read into memory."""


@final
@dataclass(frozen=True, slots=True)
class ArmFile:
    """Arms read from a file."""

    arms: TableArms | MappedArms
    roles: Roles
    title: str
    """The file."""
    stds: Array | None = None
    """How noisy each arm is, if a column says so."""
    costs: Array | None = None
    """What a pull of each costs, if a column says so."""

    def label(self, arm: int) -> str:
        """The name of an arm, or its row number."""
        return str(arm) if self.arms.names is None else self.arms.names[arm]

    def fingerprint(self) -> bytes:
        """What tells these arms from others."""
        return self.arms.digest() + repr(self.arms.names).encode()

    def index(self, label: str) -> int:
        """Row number of an arm given by its name, or by its row number where there are no names."""
        names = self.arms.names
        if names is not None and label in names:
            return names.index(label)
        if names is None and label.isdecimal() and int(label) < self.arms.n_arms:
            return int(label)
        known = "a name" if names is not None else f"a row number from 0 to {self.arms.n_arms - 1}"
        raise InvalidInput(f"{label!r} is not {known} of the arms.")

    def describe(self, model: str = "linear") -> str:
        """Say what was understood; equal features matter to the linear model alone."""
        return str(self.roles if model == "linear" else replace(self.roles, alike=(), attention=()))


def chosen_arms(option: str, value: Any, **reading: Any) -> ArmFile | ChosenSet:
    """The arms that an option names: --arms FILE, which is read as `read_arms` is told, or a set of vectors."""
    if option == "--arms":
        return arm_file(value, **reading)
    if reading["noise_column"] is not None:
        raise InvalidInput(f"--noise-std must be a number beside {option}, got {reading['noise_column']!r}.")
    return chosen_set(option, value)


def arms_and_settings(
    source: str, value: Any, table: TableOptions, learner: LearnerOptions
) -> tuple[ArmFile | ChosenSet, dict[str, Any]]:
    """Return the arms that an option names, and what a learner of theirs is told."""
    level = None if learner.noise_std is None else parse_number(learner.noise_std)
    of_noise = learner.noise_std if level is None else None
    own = chosen_arms(source, value, **table.reading(), noise_column=of_noise, cost_column=learner.costs)
    noise_std = level if of_noise is None else getattr(own, "stds", None)
    return own, learner.settings(noise_std=noise_std, costs=getattr(own, "costs", None))


def arm_file(path: Path, **reading: Any) -> ArmFile:
    """Read arms as `read_arms` is told; a large file stays where it is, and takes no option but `intercept`."""
    is_binary = path.suffix.lower() in (".npy", *COLUMN_FILES)
    if is_binary and path.exists() and path.stat().st_size > LARGE_FILE:
        given = [
            name for name, value in reading.items() if name != "intercept" and value is not None and value is not False
        ]
        if given:
            option = "noise-std NAME" if given[0] == "noise_column" else given[0].replace("_", "-")
            raise InvalidInput(f"--{option} needs a smaller file; {path} is read in pieces, as it is.")
        mapped = MappedArms(path, intercept=reading.get("intercept"))
        roles = Roles(
            source=f"{path} (read in pieces)",
            n_arms=mapped.n_arms,
            feature_names=mapped.feature_names,
            constant="added" if mapped.has_added_constant else "not added",
            numbers=mapped.feature_names[mapped.has_added_constant :],
            names="row numbers, from 0 on",
        )
        return ArmFile(mapped, roles, str(path))
    arms = read_arms(path, **reading)
    return ArmFile(arms, arms.roles, str(path), arms.noise_std, arms.costs)


def _arm(arms: ArmFile | ChosenSet, cell: str) -> Any:
    """Return the arm of a cell, which may have an apostrophe that keeps a spreadsheet from computing it."""
    told = told_cell(cell)
    is_known = told != cell and told in (getattr(arms.arms, "names", None) or ())
    return arms.index(told if is_known else cell)


def read_history(path: Path, arms: ArmFile | ChosenSet) -> list[tuple[Any, float]]:
    """Read earlier measurements: columns `arm` and `reward`, one line each. No reward: the measurement failed.

    In a log the column `corrects` says which values were entered wrong.
    """
    table = read_csv(path)
    cells = {title.lower(): cells for title, cells in table.cells.items()}
    if "arm" not in cells or "reward" not in cells:
        raise InvalidInput(f"{path} must have the columns arm and reward, got {', '.join(table.cells)}.")
    history: list[tuple[Any, float]] = []
    marks = cells.get("corrects", [""] * table.n_rows)
    for row, (label, reward, mark) in enumerate(zip(cells["arm"], cells["reward"], marks, strict=True)):
        if not reward:
            continue
        value = parse_number(reward)
        if value is None:
            raise table.refusal(row, f"the reward must be a number, got {reward!r}.")
        try:
            arm = _arm(arms, label)
        except InvalidInput as error:
            raise table.refusal(row, str(error)) from error
        correction = Correction.read(mark, value, len(history))
        if correction is not None:
            history[correction.n] = arm, value
        elif mark:
            raise table.refusal(row, f"'value 3' would correct the third value above, got {mark!r}; write it so.")
        else:
            history.append((arm, value))
    return history
