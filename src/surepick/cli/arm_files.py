"""Arms on the command line: files of arms, sets of vectors, and earlier measurements."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from surepick._texts import told_cell
from surepick.arms.base import VectorSet
from surepick.arms.mapped import MappedArms
from surepick.arms.registry import MOST_NUMBERS, set_of_option
from surepick.arms.tables.columns import Roles, is_missing, text_of
from surepick.arms.tables.read import TableArms, read_arms
from surepick.arms.tables.sources import COLUMN_FILES, open_table, parse_number
from surepick.cli.hints import in_shell
from surepick.cli.options import LearnerOptions, TableOptions
from surepick.errors import InvalidInput
from surepick.planning.replicates import option_and_value
from surepick.types import Array


@final
@dataclass(frozen=True, slots=True)
class ChosenSet:
    """A set of vectors that an option names."""

    arms: VectorSet
    name: str
    """The option with its value, such as "sphere 3"."""

    @property
    def title(self) -> str:
        """The description of the set."""
        return self.arms.description

    def label(self, arm: Any) -> str:
        """The entries with commas between them; reading them gives the same numbers back."""
        return ",".join(str(int(entry)) if entry == int(entry) else repr(float(entry)) for entry in arm)

    def arm(self, label: str) -> Array:
        """The arm of a label."""
        try:
            return self.arms.checked([float(entry) for entry in label.split(",")])
        except (ValueError, InvalidInput) as error:
            raise InvalidInput(f"{label!r} is not an arm of {self.arms.description}: {error}") from error

    def describe(self, model: str) -> str:
        """Describe the set, the same for every model."""
        return f"{self.arms.description}; an arm is its {self.arms.dim} entries with commas between them"


LARGE_FILE = 200_000_000
"""A .npy, Parquet or Arrow file of more bytes is not read into memory."""


@final
@dataclass(frozen=True, slots=True)
class ArmFile:
    """Arms read from a file."""

    arms: TableArms | MappedArms
    roles: Roles
    title: str
    """The file."""
    stds: Array | None = None
    """The noise of each arm, if a column has it."""
    costs: Array | None = None
    """The cost of a pull of each arm, if a column has it."""

    def label(self, arm: int) -> str:
        """The name of an arm, or its row number."""
        return str(arm) if self.arms.names is None else self.arms.names[arm]

    @property
    def name(self) -> str:
        """The name of the file without its ending."""
        return Path(self.title).stem

    def arm(self, label: str) -> int:
        """Row number of an arm by its name, or by its row number where there are no names.

        A name may have an apostrophe in front that keeps a spreadsheet from computing it.
        """
        names = self.arms.names
        for name in (label, told_cell(label)):
            if names is not None and name in names:
                return names.index(name)
        if names is None and label.isdecimal() and int(label) < self.arms.n_arms:
            return int(label)
        known = "the name of an arm" if names is not None else f"a row number from 0 to {self.arms.n_arms - 1}"
        raise InvalidInput(f"{label!r} is not {known}.")

    def describe(self, model: str = "linear") -> str:
        """Describe the arms as read; equal features matter to the linear model alone."""
        if model != "linear":
            return str(replace(self.roles, alike=(), attention=()))
        return str(replace(self.roles, attention=tuple(map(in_shell, self.roles.attention))))


def chosen_arms(option: str, value: Any, **reading: Any) -> ArmFile | ChosenSet:
    """The arms that an option names: --arms FILE, which is read as `read_arms` is told, or a set of vectors."""
    if option == "--arms":
        return arm_file(value, **reading)
    if reading["noise_column"] is not None:
        raise InvalidInput(f"--noise-std must be a number beside {option}, got {reading['noise_column']!r}.")
    return ChosenSet(set_of_option(option, str(value)), f"{option[2:]} {value}")


def level_or_column(noise_std: str | None) -> tuple[float | None, str | None]:
    """Return the number that --noise-std gives, or the column that it names."""
    level = None if noise_std is None else parse_number(noise_std)
    return level, noise_std if level is None else None


def arms_and_settings(
    source: str, value: Any, table: TableOptions, learner: LearnerOptions
) -> tuple[ArmFile | ChosenSet, dict[str, Any]]:
    """Return the arms that an option names, and the options of their learner."""
    level, of_noise = level_or_column(learner.noise_std)
    own = chosen_arms(source, value, **table.reading(), noise_column=of_noise, cost_column=learner.costs)
    noise_std = level if of_noise is None else getattr(own, "stds", None)
    return own, learner.settings(noise_std=noise_std, costs=getattr(own, "costs", None))


def arm_file(path: Path, **reading: Any) -> ArmFile:
    """Read arms as `read_arms` is told; a large file is read in pieces, and takes no option but `intercept`."""
    is_binary = path.suffix.lower() in (".npy", *COLUMN_FILES)
    given = [
        name for name, value in reading.items() if name != "intercept" and value is not None and value is not False
    ]
    largest = LARGE_FILE if given else min(LARGE_FILE, 8 * MOST_NUMBERS)
    if is_binary and path.exists() and path.stat().st_size > largest:
        if given:
            option = "noise-std NAME" if given[0] == "noise_column" else given[0].replace("_", "-")
            raise InvalidInput(f"--{option} needs a smaller file: {path} is read in pieces; leave the option out.")
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


def read_history(path: Path, arm_of: Callable[[str], Any]) -> list[tuple[Any, float]]:
    """Read earlier measurements: a column of arms and one of values, one line each. A line without a value is left out.

    The columns have titles that `noise_from_replicates` knows, such as arm and reward; two columns alone may have any.
    A log of an earlier version has a column `corrects`: "value 3" replaces the third value above.

    Args:
        path: a .csv or Excel file.
        arm_of: returns the arm of a name, and refuses other names.
    """
    table = open_table(path)
    cells = {str(title).lower(): list(map(_text, column)) for title, column in table.cells.items()}
    arms, values = option_and_value([*cells])
    if arms is None or values is None:
        titles = ", ".join(map(str, table.cells))
        raise InvalidInput(f"{path} must have the columns arm and reward, or just two columns, got {titles}.")
    history: list[tuple[Any, float]] = []
    marks = cells.get("corrects", [""] * table.n_rows)
    for row, (label, reward, mark) in enumerate(zip(cells[arms], cells[values], marks, strict=True)):
        if not reward:
            continue
        value = parse_number(reward)
        if value is None:
            raise table.refusal(row, f"the reward must be a number, got {reward!r}.")
        try:
            arm = arm_of(label)
        except InvalidInput as error:
            raise table.refusal(row, str(error)) from error
        if not mark:
            history.append((arm, value))
            continue
        number = mark.removeprefix("value ").removesuffix(" at the verdict")
        if not (number.isdecimal() and 1 <= int(number) <= len(history)):
            raise table.refusal(row, f"'value 3' would correct the third value above, got {mark!r}; write it so.")
        history[int(number) - 1] = arm, value
    return history


def _text(cell: Any) -> str:
    return "" if is_missing(cell) else text_of(cell)
