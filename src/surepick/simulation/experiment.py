"""Experiments: which problems, which algorithms, how many runs, and what others have published.

An experiment is a grid of *cells*: a problem with its arguments, a risk and an algorithm. Run i of a cell is a
function of the cell's key and i alone, see `one_run`. The key covers all that determines a run and no text: whoever
changes a label keeps the runs, whoever changes an option gets new ones. `experiment_file` reads them from TOML.
"""

import hashlib
import inspect
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple, final

import numpy as np

from surepick.errors import InvalidInput
from surepick.simulation import problems
from surepick.simulation import toml_table as toml
from surepick.simulation.run import AnyProblem

FORMAT = 1
"""Enters every key: raised when runs of the same description come out differently on purpose."""

GENERATORS = {
    name: function
    for name, function in vars(problems).items()
    if inspect.isfunction(function) and function.__module__ == problems.__name__ and not name.startswith("_")
}
"""Problems by name."""

KNOWLEDGE = {
    "theta": lambda problem: problem.theta,
    "norm_bound": lambda problem: float(np.linalg.norm(problem.theta)),
    "reward_bound": lambda problem: float(np.abs(problem.X @ problem.theta).max()),
}
"""What an algorithm may be told about the problem: theta itself, its norm, or the largest size of a mean reward."""

QUANTITIES = ("n_pulls", "seconds", "support")
"""Columns of the runs that published figures can be about."""

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_FOLDER = toml.matching(_NAME, "letters, digits, dots and dashes: it becomes the name of a folder")
_PLUGIN = toml.matching(r".+\.py:[^\W\d]\w*", 'a file and a class such as "own.py:Class"')
_KNOWS = toml.Kind(f"some of {', '.join(KNOWLEDGE)}", lambda value: toml.is_list(value, [*KNOWLEDGE].__contains__))
_RISKS = toml.Kind(
    "a list of one or more different numbers such as [0.05]",
    lambda value: toml.is_list(value, toml.is_number) and len(set(value)) == len(value) > 0,
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemSpec:
    """One entry of [[problems]]."""

    name: Annotated[str, toml.one_of(GENERATORS)]
    redraw: toml.Flag = False
    arguments: Annotated[Mapping[str, Sequence[Any]], toml.TABLE] = field(default_factory=dict)
    """Every argument with its values."""

    def grid(self) -> list[dict[str, Any]]:
        """All combinations, the last argument running fastest."""
        points = itertools.product(*self.arguments.values())
        return [dict(zip(self.arguments, point, strict=True)) for point in points]

    def draw(self, arguments: Mapping[str, Any], seed: int) -> AnyProblem:
        """Make the problem at one point of the grid; `seed` counts only if it is redrawn."""
        generator = GENERATORS[self.name]
        own = {name: value for name, value in arguments.items() if name in inspect.signature(generator).parameters}
        problem: AnyProblem = generator(**own, **({"seed": seed} if self.redraw else {}))
        noise_std = arguments.get("noise_std")
        return problem if noise_std is None else replace(problem, noise_std=noise_std)

    def slack(self, arguments: Mapping[str, Any]) -> float:
        """Epsilon of a problem that does not bring its own."""
        is_own = "epsilon" in inspect.signature(GENERATORS[self.name]).parameters
        return 0.0 if is_own else float(arguments.get("epsilon", 0.0))


class Plugin(NamedTuple):
    """An algorithm in a file of the user's; the source travels with it, to processes on other machines too."""

    file: Path
    class_name: str
    source: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmSpec:
    """One entry of [[algorithms]]."""

    label: toml.Text
    name: toml.Text = ""
    options: toml.Table = field(default_factory=dict)
    knows: Annotated[tuple[str, ...], _KNOWS] = ()
    only: toml.Table = field(default_factory=dict)
    plugin: Annotated[Plugin | None, _PLUGIN] = None
    baseline: toml.Text = ""
    bounds: toml.Flag = True


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One entry of [[published]]: somebody else's mean, to compare ours with."""

    algorithm: toml.Text
    problem: toml.Table = field(default_factory=dict)
    mean: Annotated[float, toml.NUMBER]
    se: Annotated[float | None, toml.NUMBER] = None
    quantity: Annotated[str, toml.one_of(QUANTITIES)] = QUANTITIES[0]
    delta: Annotated[float | None, toml.NUMBER] = None
    source: toml.Text
    note: toml.Text = ""
    figures: str = ""
    """Name of the published table it is from, if from one."""

    def is_about(self, cell: "Cell") -> bool:
        """Whether the figure belongs to this cell."""
        wanted = self.problem if self.delta is None else {**self.problem, "delta": self.delta}
        return self.algorithm == cell.algorithm.label and matches(wanted, cell.problem, cell.arguments, cell.delta)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One point of the grid: everything that its runs have in common."""

    experiment: str
    problem: ProblemSpec
    arguments: Mapping[str, Any]
    algorithm: AlgorithmSpec
    delta: float
    seed: int
    max_pulls: int
    bounds: bool

    @property
    def key(self) -> str:
        """Digest of everything that determines a run besides its number."""
        algorithm, plugin = self.algorithm, self.algorithm.plugin
        content = {
            "format": FORMAT,
            "problem": self.problem.name,
            "arguments": self.arguments,
            "redraw": self.problem.redraw,
            "algorithm": algorithm.name if plugin is None else plugin.class_name,
            "options": algorithm.options,
            "knows": sorted(algorithm.knows),
            "plugin": None if plugin is None else hashlib.sha256(plugin.source.encode()).hexdigest(),
            "delta": self.delta,
            "seed": self.seed,
            "max_pulls": self.max_pulls,
            "bounds": self.bounds,
        }
        return hashlib.sha256(canonical_json(content).encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.algorithm.label} on {call_of(self.problem.name, self.arguments)} at delta {self.delta:g}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """An experiment as written in its file."""

    name: Annotated[str, _FOLDER]
    title: toml.Text
    about: toml.Text = ""
    delta: Annotated[tuple[float, ...], _RISKS]
    n_runs: toml.Count
    quick_runs: toml.Count
    seed: Annotated[int, toml.count(0)]
    own_seeds: toml.Flag = False
    max_pulls: toml.Count
    bounds: toml.Flag = False
    problems: Annotated[tuple[ProblemSpec, ...], toml.tables("problems")]
    algorithms: Annotated[tuple[AlgorithmSpec, ...], toml.tables("algorithms")]
    published: Annotated[tuple[Published, ...], toml.tables("published")] = ()
    text: str
    """The file itself."""

    def cells(self) -> list[Cell]:
        """The grid: by problem, its arguments, delta and algorithm, each in the order of the file."""
        points = [(problem, arguments) for problem in self.problems for arguments in problem.grid()]
        return [
            Cell(
                experiment=self.name,
                problem=problem,
                arguments=arguments,
                algorithm=algorithm,
                delta=delta,
                seed=self.seed + place * self.own_seeds,
                max_pulls=self.max_pulls,
                bounds=self.bounds and algorithm.bounds,
            )
            for place, (problem, arguments) in enumerate(points)
            for delta in self.delta
            for algorithm in self.algorithms
            if matches(algorithm.only, problem, arguments, delta)
        ]


def matches(wanted: Mapping[str, Any], problem: ProblemSpec, arguments: Mapping[str, Any], delta: float) -> bool:
    """Whether a problem has the wanted arguments, each a value or a list; `name` and `delta` count as such."""
    own = {**arguments, "name": problem.name, "delta": delta}
    return all(name in own and own[name] in toml.values_of(value) for name, value in wanted.items())


def call_of(problem: str, arguments: Mapping[str, Any]) -> str:
    """A problem with its arguments, as a call."""
    return f"{problem}({', '.join(f'{name}={value}' for name, value in arguments.items())})"


def canonical_json(value: Any) -> str:
    """JSON in which equal content is equal text."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    except TypeError as error:  # TOML has dates
        raise InvalidInput(f"arguments and options must be numbers, texts, lists or tables: {error}.") from error
