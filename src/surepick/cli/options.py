"""Options that several commands share: each group is a dataclass, and a command that takes one has its options."""

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from surepick.arms import VECTOR_SETS
from surepick.cli.output import Format, check_out
from surepick.errors import InvalidInput
from surepick.learning.spec import DEFAULTS, IN_PLAN, OPTIONS, Spec

T = TypeVar("T")

ARM_FILES = ".csv with a header line, .xlsx, .parquet, .arrow or .npy"


def says(text: str, *names: str, **more: Any) -> Any:
    """An option with its help; its name is that of the argument, unless given."""
    return typer.Option(*names, help=text, **more)


Output = Annotated[Format, says("How to write the result.", "--format")]


def grouped(command: Callable[..., int]) -> Callable[..., int]:
    """Return a command in which every argument that is a dataclass has become one option for each of its fields."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if not is_dataclass(kind):
            parameters.append(parameter.replace(annotation=kind))
            continue
        groups[parameter.name] = kind
        of_fields = get_type_hints(kind, include_extras=True)
        parameters += [
            parameter.replace(name=field.name, default=field.default, annotation=of_fields[field.name])
            for field in fields(kind)
        ]

    def call(**given: Any) -> int:
        made = {
            name: kind(**{field.name: given.pop(field.name) for field in fields(kind)}) for name, kind in groups.items()
        }
        return command(**given, **made)

    call.__name__, call.__doc__, call.__module__ = command.__name__, command.__doc__, command.__module__
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # how signatures are told
    return call


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How a file of arms is read."""

    name_column: Annotated[str | None, says("Column with the arms' names.")] = None
    features: Annotated[str | None, says("Use only these columns as features, such as temp,time.")] = None
    drop: Annotated[str | None, says("Columns to leave out, such as remarks,date.")] = None
    interactions: Annotated[bool, says("Add the product of any two columns.", "--interactions")] = False
    quadratic: Annotated[bool, says("Add the square of every column of numbers.", "--quadratic")] = False
    formula: Annotated[str | None, says('Features by a Wilkinson formula instead: "temp * catalyst + C(solvent)".')] = (
        None
    )
    intercept: Annotated[
        bool | None,
        says(
            "Put a constant feature in front, or do not. Default: in front of a table (all but .npy) without one.",
            "--intercept/--no-intercept",
            "--constant/--no-constant",
        ),
    ] = None
    on_span: Annotated[bool, says("Leave out features that are linear combinations of others.", "--on-span")] = False
    sheet: Annotated[str | None, says("Sheet of an Excel file, needed if several sheets have cells.")] = None

    def reading(self) -> dict[str, Any]:
        """Return the arguments of `read_arms`."""
        return asdict(self)


def _flags(names: Iterable[str]) -> Iterator[tuple[str, Any, Any]]:
    """Yield field, annotation and default of the flag of each of these options; the help may say the default."""
    for name in names:
        option = OPTIONS[name]
        field, kind = option.flag or name, option.flag_type or Spec.__annotations__[name]
        default = None if "default" in option.help else DEFAULTS[name]
        if kind is bool:
            default = False
        kind = kind | None if default is None else kind
        yield field, Annotated[kind, says(option.help, f"--{field.replace('_', '-')}")], default
        if name == "algorithm":
            yield "stopping", Annotated[str | None, says("Stopping rule (default: the rule of the algorithm).")], None
            text = "An option of the algorithm as NAME=VALUE, such as tracking=current."
            yield "option", Annotated[list[str] | None, says(text, "--option")], None


def key_of(kind: str) -> str:
    """Return the name of a vector set in study.toml, and as an argument."""
    return kind.replace("-", "_")


def _set_flags() -> Iterator[tuple[str, Any, Any]]:
    """Yield field, annotation and default of the flag of every vector set."""
    for kind, one in VECTOR_SETS.items():
        yield key_of(kind), Annotated[one.flag_type | None, says(one.help)], None


def _with(flags: Iterable[tuple[str, Any, Any]]) -> Callable[[type[T]], type[T]]:
    """Return a function that makes a class a group of these flags, but for those that it declares itself."""

    def add(group: type[T]) -> type[T]:
        for name, kind, default in flags:
            if name not in group.__annotations__:
                group.__annotations__[name] = kind
                setattr(group, name, default)
        return dataclass(frozen=True, kw_only=True)(group)

    return add


class _Group:
    """A group of flags that are declared elsewhere."""

    if TYPE_CHECKING:

        def __init__(self, **given: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...


@_with(_set_flags())
class SetOptions(_Group):
    """Sets of vectors, instead of a file of arms."""

    def values(self) -> dict[str, Any]:
        """Return what was given, by option."""
        return {f"--{kind}": getattr(self, key_of(kind)) for kind in VECTOR_SETS}

    def files(self) -> dict[str, Path | None]:
        """Return the files of sets, by option."""
        return {option: value for option, value in self.values().items() if isinstance(value, Path)}


class _Flags(_Group):
    """A group with a flag for each of some options of `Spec`."""

    def _given(self, names: Iterable[str], **of_columns: Any) -> dict[str, Any]:
        """Return options by name; a column of the arms' file may have said some of them."""
        given = {name: getattr(self, OPTIONS[name].flag or name) for name in names}
        given |= {**of_columns, "rewards": "binary" if self.binary else None}
        return {name: DEFAULTS[name] if value is None else value for name, value in given.items()}


@_with(_flags(OPTIONS))
class LearnerOptions(_Flags):
    """Goal, risk, noise and algorithm of a task: a flag for each option of `Spec`."""

    def settings(self, *, noise_std: Any, costs: Any) -> dict[str, Any]:
        """Return the arguments of a learner; a column of the arms' file may have said two of them."""
        own = ({} if self.stopping is None else {"stopping": self.stopping}) | options_of(self.option or [])
        return self._given(OPTIONS, noise_std=noise_std, costs=costs) | own


@_with(_flags(IN_PLAN))
class PlanOptions(_Flags):
    """Guess, goal and noise of an experiment to plan: a guess, and a flag for each option of a plan."""

    gap: Annotated[float | None, says("Guess: the lead of the best arm over the next.")] = None
    theta: Annotated[str | None, says("Guess: the effects of the features, as 1,-0.5,0.8.")] = None
    pilot: Annotated[
        Path | None, says("Results of a pilot instead of a guess: a file with the columns arm and reward.")
    ] = None
    noise_std: Annotated[
        str | None,
        says("Noise of one measurement: a number, or the column of the arms' file that has one for each arm."),
    ] = None
    simulate: Annotated[int | None, says("Also simulate this many runs.")] = None

    def settings(self, *, noise_std: Any, costs: Any) -> dict[str, Any]:
        """Return the options of `plan`; a column of the arms' file may have said two of them."""
        return self._given(IN_PLAN, noise_std=noise_std, costs=costs)


@dataclass(frozen=True, kw_only=True)
class ExperimentOptions:
    """How experiments are run."""

    full: Annotated[bool, says("Make all runs of the experiment instead of a few.", "--full")] = False
    runs: Annotated[int | None, says("Runs of each cell, instead of the experiment's own number.")] = None
    jobs: Annotated[int | None, says("Number of processes; -1, the default, starts one per core.")] = None
    dask: Annotated[str | None, says('Do the runs on a Dask cluster: its address "tcp://host:8786", or "local".')] = (
        None
    )
    out: Annotated[Path, says("Folder of results and report; finished runs are not repeated.")] = Path("out")

    def __post_init__(self) -> None:
        if self.full and self.runs is not None:
            raise InvalidInput("one number of runs is needed, got --full and --runs; leave one out.")
        if self.runs is not None and self.runs < 1:
            raise InvalidInput(f"--runs must be at least 1, got {self.runs}.")
        if self.jobs is not None and self.dask not in (None, "local"):
            raise InvalidInput(f"--jobs belongs to this machine, got it with --dask {self.dask}; leave --jobs out.")
        check_out(self.out)


def one_set(arms: Path | None, sets: SetOptions, file_option: str = "--arms") -> tuple[str, Any] | None:
    """Return the one option that says which arms there are, with its value; None if there is none."""
    given = {file_option: arms, **sets.values()}
    named = {option: value for option, value in given.items() if value is not None}
    if len(named) > 1:
        raise InvalidInput(f"one set of arms is needed, got {' and '.join(named)}; leave out all but one.")
    return next(iter(named.items()), None)


def refuse(context: typer.Context, options: Sequence[str], why: str) -> None:
    """Refuse options that do not go with the others."""
    for option in options:
        value = context.params[option[2:].replace("-", "_")]
        default = next(one.default for one in context.command.params if option in one.opts)
        if value not in (None, False, (), [], default):
            raise InvalidInput(f"{option} {why}.")


def option_names(group: type) -> tuple[str, ...]:
    """Return the options of a group, such as --name-column."""
    return tuple(f"--{field.name.replace('_', '-')}" for field in fields(group))


def help_of(group: type) -> dict[str, str]:
    """Return the help of each option of a group, by the names of its fields."""
    hints = get_type_hints(group, include_extras=True)
    return {name: next(iter(hint.__metadata__)).help or "" for name, hint in hints.items()}


def options_of(given: Sequence[str]) -> dict[str, Any]:
    """Options of an algorithm; a value that reads like a Python number, True, False or None is one, else text."""
    found = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not (sign and name.isidentifier()):
            raise InvalidInput(f"--option must be NAME=VALUE, such as tracking=current, got {text!r}.")
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value
    return found


def pulls_or_auto(text: str, what: str = "--audit") -> int | str:
    """Return a number of check pulls, or "auto"."""
    if text != "auto" and not text.isdecimal():
        raise InvalidInput(f'{what} must be a number of pulls or "auto", got {text!r}.')
    return text if text == "auto" else int(text)


OF_FILES = (*option_names(TableOptions), "--costs")
"""Options that need a file of arms."""
