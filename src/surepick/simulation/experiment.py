"""Experiments: problems, algorithms and risks to run, the number of runs, and published figures to compare with.

An experiment is a TOML file. A list as an argument spans the grid. Put an argument that is itself a list into another
list: `means = [[1.0, 0.5, 0.0]]`.

    name = "my-experiment"                  the folder of the results
    title, about                            texts
    delta = [0.05]                          risks
    n_runs = 200, quick_runs = 20           runs of each cell: in full, and by default
    seed = 100, max_pulls = 1000000
    own_seeds = false                       optional: problem i of the grid has its own seed, seed + i
    bounds = false                          optional: also the lower bound of each run's instance, for normal noise
    [[problems]]
    name = "many_arms"                      a function of `surepick.problems`, `simulation.problems_published` or
                                            `simulation.datasets`, or an entry point in the group `surepick.problems`
    plugin = "own.py:function"              optional: a problem in a file, seen from this one; needs no `name`
    file = "arms.csv"                       optional: a table of arms, see `problems.from_file`; needs no `name`
    label = "hard, {n_arms} arms"           optional: its name in tables and figures; {} stands for an argument. If the
                                            label is one text for a whole grid, the varying arguments are added to it
    redraw = true                           optional: a new instance in every run, from the run's own seed
    arguments = { n_arms = [1000, 2500] }   besides the function's own, every problem takes noise_std, epsilon and
                                            budget, the pulls that the algorithms are given
    [[algorithms]]
    label = "ours"                          unique
    name = "lazy-track-and-stop"            see `surepick.algorithms`; "*" stands, in the label too, for each that has
                                            no entry of its own with the same options
    options = { stopping = "betting" }      optional; those of `simulate` too: noise_std = "learnt", m = 2, audit = 20
    knows = ["theta"]                       optional: options with the problem's own value, see `KNOWLEDGE`
    only = { n_arms = 1000 }                optional: problems with such arguments; `name` is the problem's own, `delta`
                                            the risk
    plugin = "own.py:Class"                 optional: an algorithm in a file, seen from this one; needs no `name`
    baseline = "other label"                optional: the report compares pulls and CPU time with this algorithm
    bounds = false                          optional: no lower bounds for this one, to save their time
    [[published]]
    algorithm = "ours"                      a label
    note = "..."                            optional: why ours may differ
    figures = "table_2"                     of experiments/published.csv, as far as they fit; or a figure of your own:
    problem = { n_arms = 1000 }             as in `only`
    mean = 1206.0, se = 30.0                `se` is optional
    std = 130.0                             optional: of one run; few runs of ours then count with it if it is larger
    quantity = "n_pulls"                    optional: or "seconds", "support" (arms pulled), "design_support" (arms in a
                                            design), "error" (share of wrong answers)
    delta = 0.05                            optional: for all risks if left out
    source = "..."

A *cell* is one point of the grid: a problem with its arguments, a risk and an algorithm. Run i of a cell depends on the
cell's key and i alone. The key covers everything that determines a run and no text: a new label keeps the runs, a new
option asks for new ones.

published.csv has the tables of Jedra and Proutiere (2020); Tables 1 and 2 differ in the constants of the stopping rule
only. Three facts are inferred, because the paper does not state them. Its columns "Std" are standard errors: runs
repeated with its constants have standard errors of that size. It made 20 runs: its means are multiples of 1/20. Its
arms are those of `problems.many_arms(variant="as-run")`, the one variant that reproduces its figures.

It also has wrong answers by budget, from results that were published with the code of P1-RAGE (21,000 runs). Processes
there share one stream of random numbers, so standard errors are given as 2.5 times those of independent runs.
"""

import csv
import hashlib
import inspect
import itertools
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Literal, Self, TypeVar, final

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from surepick.algorithms import names as algorithms
from surepick.core.checks import check_count, check_delta, check_epsilon, check_noise_std
from surepick.errors import InvalidInput, or_nearest, what_was_meant
from surepick.simulation.run import AnyProblem, has_normal_noise
from surepick.simulation.runs import brief
from surepick.simulation.sources import DataFile, Plugin, Source, draw_problem, parameters_of

FORMAT = 1
"""Part of every key. Raise the number when a change of the code is meant to change the outcome of runs."""

EXPERIMENTS: Any = resources.files("surepick.simulation") / "experiments"
"""Folder of the experiments that come with the package, and of published.csv."""

OF_ALL = ("noise_std", "epsilon", "budget")
"""Arguments that every problem takes besides those of its own."""
KNOWLEDGE = {
    "theta": lambda problem: problem.theta,
    "norm_bound": lambda problem: float(np.linalg.norm(problem.theta)),
    "reward_bound": lambda problem: float(np.abs(getattr(problem, "means", problem.X @ problem.theta)).max()),
    "least_noise_std": lambda problem: float(np.min(problem.noise_std)),
}
"""Facts that an algorithm may be told: theta, its norm, the largest size of a mean reward, the smallest noise."""

Text = Annotated[str, Field(pattern=r"\S", description="a text")]
Flag = Annotated[bool, Field(description="true or false")]
Count = Annotated[int, Field(ge=1, description="a whole number of at least 1")]
Risk = Annotated[float, AfterValidator(check_delta)]
Values = Annotated[dict[str, Any], Field(description="a table such as { n_arms = 1000 }")]


def _values_of(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def _lists_of(table: dict[str, Any]) -> dict[str, list[Any]]:
    return {key: _values_of(value) for key, value in table.items()}


def _list_of_tables(key: str, default: Any = ...) -> Any:
    return Field(default, strict=False, min_length=1, description=f"a list of tables, each headed [[{key}]]")


class Table(BaseModel):
    """A table of the file. Error messages quote the description of a field."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def _placed(file_name: str, info: ValidationInfo) -> Path:
    """Return the path of a file that is named in an experiment."""
    assert info.context is not None
    # In a folder of results the file is beside the experiment.
    folders: Sequence[Path] = info.context["folders"]
    places = [folder / file for folder in folders for file in (file_name, Path(file_name).name)]
    return next((file for file in places if file.exists()), places[0])


def _plugin_at(place: Any, info: ValidationInfo) -> Plugin:
    """Read the file of a plug-in, written "own.py:name"."""
    if not isinstance(place, str) or not re.fullmatch(r".+\.py:[^\W\d]\w*", place):
        raise ValueError
    file_name, _, class_name = place.rpartition(":")
    file = _placed(file_name, info)
    return Plugin(file, class_name, _read_text(file, f"cannot read the plug-in {file}"))


def _file_at(place: Any, info: ValidationInfo) -> DataFile:
    if not isinstance(place, str):
        raise ValueError
    file = _placed(place, info)
    try:
        return DataFile(file, file.read_bytes())
    except OSError as error:
        raise InvalidInput(f"cannot read the table {file}: {error.strerror}.") from error


@final
class ProblemSpec(Table):
    """One entry of [[problems]]."""

    name: Text = ""
    label: Text = ""
    plugin: Annotated[Plugin | None, PlainValidator(_plugin_at)] = Field(
        None, description='a file and a function or class such as "own.py:problem"'
    )
    file: Annotated[DataFile | None, PlainValidator(_file_at)] = Field(
        None, description='a table of arms such as "arms.csv"'
    )
    redraw: Flag = False
    arguments: Annotated[Values, AfterValidator(_lists_of)] = {}
    """Every argument with the list of its values."""

    @property
    def title(self) -> str:
        """Its name in tables and figures if it has no label: a table of arms has that of its file."""
        return self.name if self.file is None else self.file.file.name

    @property
    def source(self) -> "Source":
        """The origin of the problem."""
        return Source(self.name, self.plugin, self.file)

    @model_validator(mode="before")
    @classmethod
    def _named_by_its_origin(cls, content: Any) -> Any:
        """Take the name from a plug-in or a file, if there is one."""
        given = [key for key in ("name", "plugin", "file") if key in content]
        if not given and content.keys() - cls.model_fields.keys():
            return content  # a key is misspelt, which comes first
        if len(given) != 1:
            said = f"got {' and '.join(given)}" if given else "got none of them"
            raise InvalidInput(f"a problem needs one of `name`, `plugin` and `file`, {said}.")
        if given == ["plugin"]:
            return {**content, "name": str(content["plugin"]).rpartition(":")[2] or "plugin"}
        return {**content, "name": "from_file"} if given == ["file"] else content

    @model_validator(mode="after")
    def _fits_the_generator(self) -> Self:
        name = self.name
        if self.plugin is not None:  # read, but not run before the first run
            return self
        own = parameters_of(self.source)
        if self.redraw and ("seed" not in own or "seed" in self.arguments):
            why = "has no seed to redraw it from" if "seed" not in own else "has a fixed seed in its arguments"
            raise InvalidInput(f"`redraw` must be false, since {name} {why}.")
        variable = [key for key, parameter in own.items() if parameter.kind is parameter.VAR_KEYWORD]
        named = [key for key in own if key not in variable]
        missing = [key for key in named if own[key].default is inspect.Parameter.empty and key not in self.arguments]
        unknown = [] if variable else sorted(set(self.arguments) - {*own, *OF_ALL})
        if missing or unknown:
            wrong = f"no {unknown[0]!r}" if unknown else f"{missing[0]!r}"
            raise InvalidInput(f"{name} takes {wrong}; its arguments are {', '.join(named)}.")
        _check_values(self.arguments)
        return self

    def grid(self) -> list[dict[str, Any]]:
        """Return all combinations of arguments; the last argument varies fastest."""
        points = itertools.product(*self.arguments.values())
        return [dict(zip(self.arguments, point, strict=True)) for point in points]


def _check_values(arguments: Mapping[str, list[Any]]) -> None:
    budget = partial(check_count, "budget", least=1)
    checks: dict[str, Callable[[Any], object]] = {
        "noise_std": check_noise_std, "epsilon": check_epsilon, "budget": budget,
    }  # fmt: skip
    for key, values in arguments.items():
        if not values:
            raise InvalidInput(f"`arguments` must be at least one value for {key}, got {values!r}.")
        for value in values if key in checks else ():
            checks[key](value)


@final
class AlgorithmSpec(Table):
    """One entry of [[algorithms]]."""

    label: Text
    name: Text = ""
    options: Values = {}
    knows: tuple[Literal["theta", "norm_bound", "reward_bound", "least_noise_std"], ...] = Field(
        (), strict=False, description=f"some of {', '.join(KNOWLEDGE)}, none of them among the options"
    )
    only: Values = {}
    plugin: Annotated[Plugin | None, PlainValidator(_plugin_at)] = Field(
        None, description='a file and a class such as "own.py:Class"'
    )
    baseline: Text = ""
    bounds: Flag = True

    @model_validator(mode="after")
    def _is_an_algorithm(self) -> Self:
        known = [*algorithms(), *algorithms(fixed_budget=True)]
        if self.plugin is None and self.name not in (*known, "*"):
            meant = or_nearest(self.name, known)
            raise InvalidInput(f"`name` must be one of {', '.join(known)}, got {self.name!r}{meant}")
        if set(self.knows) & set(self.options):
            needed = AlgorithmSpec.model_fields["knows"].description
            raise InvalidInput(f"`knows` must be {needed}, got {list(self.knows)!r}.")
        return self


@final
class Published(Table):
    """One entry of [[published]]: a published mean to compare with."""

    algorithm: Text
    problem: Values = {}
    mean: float = Field(description="a number")
    se: float | None = Field(None, description="a number")
    std: float | None = Field(None, description="a number")
    """Standard deviation of one published run: a few of ours may scatter too little by chance."""
    quantity: Literal["n_pulls", "seconds", "support", "design_support", "error"] = Field(
        "n_pulls", description="one of n_pulls, seconds, support, design_support, error"
    )
    delta: Risk | None = Field(None, description="a number")
    source: Text
    note: Text = ""
    figures: str = ""
    """Name of the published table; empty for a figure of your own."""

    def is_about(self, cell: "Cell") -> bool:
        """Whether the figure belongs to this cell."""
        wanted = self.problem if self.delta is None else {**self.problem, "delta": self.delta}
        return self.algorithm == cell.algorithm.label and matches(wanted, cell.problem, cell.arguments, cell.delta)


@final
class PublishedTable(Table):
    """One entry of [[published]] that stands for a whole table of published.csv."""

    algorithm: Text
    figures: Text
    note: Text = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One point of the grid: the settings that its runs share."""

    experiment: str
    problem: ProblemSpec
    arguments: Mapping[str, Any]
    algorithm: AlgorithmSpec
    delta: float
    seed: int
    max_pulls: int
    bounds: bool
    shown: str = ""
    """Name of the problem that no other problem of the experiment has: its label, or its title with what varies."""
    number: int = 0
    """Number of the problem among those without a label whose arguments look the same in brief; 0 if it is alone."""

    @property
    def key(self) -> str:
        """Digest of all settings that determine a run, except its number."""
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
        options = algorithm.options
        kinds = {
            "cost": "costs" in options,
            "groups": options.get("groups") == "offset",
            "none": not has_normal_noise(options),
        }
        # Runs of before have the bound on pulls without groups, for normal noise.
        if self.bounds and (of_runs := [kind for kind, is_so in kinds.items() if is_so]):
            content["bound"] = " ".join(of_runs)
        if self.problem.plugin is not None:
            content["problem_plugin"] = hashlib.sha256(self.problem.plugin.source.encode()).hexdigest()
        if self.problem.file is not None:
            content["problem_file"] = hashlib.sha256(self.problem.file.content).hexdigest()
        return hashlib.sha256(canonical_json(content).encode()).hexdigest()

    @property
    def label(self) -> str:
        """Label of the problem, with its arguments filled in; "" if it has none."""
        return label_of(self.problem, self.arguments)

    @property
    def epsilon(self) -> float:
        """Slack of the runs; 0 if the problem has its own slack."""
        is_own = "epsilon" in parameters_of(self.problem.source)
        return 0.0 if is_own else float(self.arguments.get("epsilon", 0.0))

    def draw(self, seed: int) -> AnyProblem:
        """Make the problem; `seed` matters only if the problem is redrawn in every run."""
        return draw_problem(self.problem.source, self.arguments, seed if self.problem.redraw else None)

    def __str__(self) -> str:
        problem = self.label or call_of(self.problem.title, self.arguments)
        return f"{self.algorithm.label} on {problem} at delta {self.delta:g}"


@final
class Experiment(Table):
    """An experiment as written in its file."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="letters, digits, dots and dashes: it becomes the name of a folder",
    )
    title: Text
    about: Text = ""
    delta: tuple[Risk, ...] = Field(
        strict=False, min_length=1, description="a list of one or more different numbers such as [0.05]"
    )
    n_runs: Count
    quick_runs: Count
    seed: int = Field(ge=0, description="a whole number of at least 0")
    own_seeds: Flag = False
    max_pulls: Count
    bounds: Flag = False
    problems: tuple[ProblemSpec, ...] = _list_of_tables("problems")
    algorithms: tuple[AlgorithmSpec, ...] = _list_of_tables("algorithms")
    published: tuple[Published, ...] = _list_of_tables("published", ())
    _text: str = ""

    @field_validator("delta")
    @classmethod
    def _are_risks(cls, delta: tuple[float, ...]) -> tuple[float, ...]:
        if len(set(delta)) < len(delta):
            raise ValueError
        return delta

    def model_post_init(self, context: Any) -> None:
        """Keep the text of the file."""
        self._text = context["text"]

    @property
    def text(self) -> str:
        """The file itself."""
        return self._text

    def cells(self) -> list[Cell]:
        """Return the grid, ordered by problem, arguments, delta and algorithm, each in the order of the file."""
        points = [(problem, arguments) for problem in self.problems for arguments in problem.grid()]
        names = _names(points)
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
                shown=names[place][0],
                number=names[place][1],
            )
            for place, (problem, arguments) in enumerate(points)
            for delta in self.delta
            for algorithm in self.algorithms
            if matches(algorithm.only, problem, arguments, delta)
        ]


def _names(points: Sequence[tuple[ProblemSpec, Mapping[str, Any]]]) -> list[tuple[str, int]]:
    """Return for every point of the grid what `Cell.shown` and `Cell.number` say."""
    values: dict[str, dict[str, set[str]]] = {}
    for problem, arguments in points:
        known = values.setdefault(problem.title, {})
        for name in known.keys() | arguments.keys():
            known.setdefault(name, set()).add(repr(arguments.get(name)))
    texts: list[str] = []
    for problem, arguments in points:
        varying = [name for name in arguments if len(values[problem.title][name]) > 1]
        words = [problem.title, *(f"{name} {brief(arguments[name])}" for name in varying)]
        texts.append(label_of(problem, arguments) or ", ".join(words))
    seen: Counter[str] = Counter()
    found: list[tuple[str, int]] = []
    for (problem, _), text in zip(points, texts, strict=True):
        seen[text] += 1
        if problem.label and seen[text] > 1:
            raise InvalidInput(
                f"two problems are called {text!r} in tables and figures; give each a `label` of its own, or write an "
                'argument that differs into it, such as label = "Soare {angle}".'
            )
        number = seen[text] if texts.count(text) > 1 and not problem.label else 0
        found.append((f"{text} ({number})" if number else text, number))
    return found


def matches(wanted: Mapping[str, Any], problem: ProblemSpec, arguments: Mapping[str, Any], delta: float) -> bool:
    """Return whether a problem has the wanted arguments, each a value or a list; `name` and `delta` count too."""
    own = {**arguments, "name": problem.name, "delta": delta}
    return all(name in own and own[name] in _values_of(value) for name, value in wanted.items())


def call_of(problem: str, arguments: Mapping[str, Any]) -> str:
    """Return a problem with its arguments, written as a call; tables and long lists of numbers by their size."""
    return f"{problem}({', '.join(f'{name}={brief(value)}' for name, value in arguments.items())})"


def label_of(problem: ProblemSpec, arguments: Mapping[str, Any]) -> str:
    """Return the label of a problem, with its arguments filled in; "" if it has none."""
    try:
        return problem.label.format(**arguments)
    except (KeyError, IndexError, ValueError) as error:
        raise InvalidInput(
            f"`label` must be a text with arguments of the problem in braces, got {problem.label!r}; the arguments are "
            f"{', '.join(arguments) or 'none'}."
        ) from error


def canonical_json(value: Any) -> str:
    """Return JSON text that is equal for equal content."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    except TypeError as error:  # TOML has dates
        raise InvalidInput(f"arguments and options must be numbers, texts, lists or tables: {error}.") from error


@cache
def published_tables() -> dict[str, list[Published]]:
    """Return the figures of published.csv by the name of their table."""
    tables: dict[str, list[Published]] = {}
    for row in csv.DictReader((EXPERIMENTS / "published.csv").read_text("utf-8").splitlines()):
        values: dict[str, Any] = {key: value for key, value in row.items() if value} | {"algorithm": row["figures"]}
        about = {key: int(values.pop(key)) for key in ("n_arms", "budget") if key in values}
        if about:
            values["problem"] = about
        tables.setdefault(row["figures"], []).append(Published.model_validate(values, strict=False))
    return tables


def named_experiments() -> list[str]:
    """Names of the experiments that come with the package."""
    return sorted(file.name.removesuffix(".toml") for file in EXPERIMENTS.iterdir() if file.name.endswith(".toml"))


def named_experiment(name: str, **changes: object) -> Experiment:
    """Read an experiment that comes with the package; `changes` replace some of its values."""
    known = named_experiments()
    if name not in known:
        raise InvalidInput(f"an experiment must be one of {', '.join(known)}, got {name!r}{or_nearest(name, known)}")
    text = (EXPERIMENTS / f"{name}.toml").read_text("utf-8")
    for key, value in changes.items():
        text = re.sub(rf"^{key} = .*$", f"{key} = {value}", text, count=1, flags=re.MULTILINE)
    # A plug-in is beside the file in an installed package, and at its path in a copy of the repository.
    return parse_experiment(text, name, Path(str(EXPERIMENTS)), Path(__file__).parents[3])


def read_experiment(path: Path) -> Experiment:
    """Read and check an experiment file. Plug-ins are read, not run.

    Raises:
        InvalidInput: a key is missing, or its value cannot be used.
    """
    return parse_experiment(_read_text(path, f"cannot read {path}"), str(path), path.parent)


def parse_experiment(text: str, origin: str, *folders: Path) -> Experiment:
    """Check the text of an experiment file; `origin` names the file in errors, `folders` are searched for plug-ins."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{origin} must be TOML: {error}.") from error
    readers = {"problems": _problems, "algorithms": _algorithms, "published": _published}
    for key, read in readers.items():
        entries = content.get(key)
        if isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries):
            numbered = [(entry, f"{origin}, [[{key}]] {i}") for i, entry in enumerate(entries, start=1)]
            content[key] = read(numbered, folders)
    experiment = _checked(Experiment, content, origin, text=text)
    try:
        cells = experiment.cells()
        _check_together(experiment, cells)
    except InvalidInput as error:
        raise InvalidInput(f"{origin}: {error}") from error
    fitting = tuple(figure for figure in experiment.published if any(map(figure.is_about, cells)))
    return experiment.model_copy(update={"published": fitting})


Entries = Sequence[tuple[dict[str, Any], str]]
"""Tables under one heading, each with its place for error messages."""
T = TypeVar("T", bound=Table)


def _problems(entries: Entries, folders: Sequence[Path]) -> list[ProblemSpec]:
    specs = [_checked(ProblemSpec, entry, where, folders=folders) for entry, where in entries]
    return [spec.model_copy(update={"label": _label_of_each(spec)}) for spec in specs]


def _label_of_each(spec: ProblemSpec) -> str:
    """Return the label of a problem, with the varying arguments added if it is one text for different problems."""
    texts = [label_of(spec, arguments) for arguments in spec.grid()]
    if not spec.label or len(set(texts)) == len(texts):
        return spec.label
    told = {name.split(".")[0].split("[")[0] for _, name, _, _ in Formatter().parse(spec.label) if name}
    varying = [name for name, values in spec.arguments.items() if len(values) > 1 and name not in told]
    return spec.label + "".join(f", {name} {{{name}}}" for name in varying)


def _algorithms(entries: Entries, folders: Sequence[Path]) -> list[AlgorithmSpec]:
    """Return the algorithms, with every "*" replaced by the algorithms it stands for."""
    specs = [_checked(AlgorithmSpec, entry, where, folders=folders) for entry, where in entries]
    expanded: list[AlgorithmSpec] = []
    for spec in specs:
        own = {other.name for other in specs if other.options == spec.options}
        changes = [{"name": name, "label": spec.label.replace("*", name)} for name in algorithms() if name not in own]
        expanded += [spec.model_copy(update=change) for change in (changes if spec.name == "*" else [{}])]
    return expanded


def _published(entries: Entries, _folders: Sequence[Path]) -> list[Published]:
    figures: list[Published] = []
    for entry, where in entries:
        if "figures" in entry:
            table, known = _checked(PublishedTable, entry, where), published_tables()
            if table.figures not in known:
                raise InvalidInput(f"{where}: `figures` must be one of {', '.join(known)}, got {table.figures!r}.")
            figures += [one.model_copy(update=table.model_dump()) for one in known[table.figures]]
        else:
            figures.append(_checked(Published, entry, where))
    return figures


def _checked(model: type[T], content: Mapping[str, Any], where: str, **context: Any) -> T:
    """Return a table of this model; an error names the first wrong key in one sentence."""
    try:
        return model.model_validate(content, context=context)
    except ValidationError as error:
        found = error.errors(include_url=False)
        # A key that is missing was often misspelt.
        first = next((one for one in found if one["type"] == "extra_forbidden"), found[0])
        own = first.get("ctx", {}).get("error")
        key = str(first["loc"][0]) if first["loc"] else ""
        if isinstance(own, InvalidInput):
            said = str(own)
        elif first["type"] == "extra_forbidden":
            missing = "".join(f" `{one['loc'][0]}` is missing." for one in found if one["type"] == "missing")
            said = (
                f"no key `{key}` is known; {what_was_meant(key, sorted(model.model_fields), 'keys', most=99)}{missing}"
            )
        elif first["type"] == "missing":
            said = f"`{key}` is missing; it must be {model.model_fields[key].description}."
        else:
            said = f"`{key}` must be {model.model_fields[key].description}, got {content[key]!r}."
        raise InvalidInput(f"{where}: {said}") from error


def _read_text(path: Path, complaint: str) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{complaint}: {getattr(error, 'strerror', None) or error}.") from error


def _check_together(experiment: Experiment, cells: Sequence[Cell]) -> None:
    """Check conditions that involve several entries."""
    specs = experiment.algorithms
    labels = [spec.label for spec in specs]
    attached_files(experiment)
    for spec in specs:
        if labels.count(spec.label) > 1:
            raise InvalidInput(f"every algorithm needs a label of its own, got {spec.label!r} twice.")
        if not any(cell.algorithm is spec for cell in cells):
            raise InvalidInput(f"`only` of {spec.label!r} must fit a problem, got {spec.only}.")
        if spec.baseline not in ("", *labels):
            said = f"{', '.join(labels)}, got {spec.baseline!r}{or_nearest(spec.baseline, labels)}"
            raise InvalidInput(f"`baseline` of {spec.label!r} must be one of {said}")
    seen: dict[str, Cell] = {}
    for cell in cells:
        other = seen.setdefault(cell.key, cell)
        if other is not cell:
            raise InvalidInput(f"the cells of an experiment must differ, got the same runs twice: {other}; {cell}.")
    for figure in experiment.published:
        # A whole table only needs its algorithm.
        if not (any(map(figure.is_about, cells)) or (figure.figures and figure.algorithm in labels)):
            raise InvalidInput(
                f"a published figure needs a cell to stand beside, got {figure.algorithm!r} with {figure.problem}; "
                "look at the labels and arguments."
            )


def attached_files(experiment: Experiment) -> dict[str, bytes]:
    """Return the plug-ins and tables of an experiment by the names of their files, which must differ."""
    plugins = [spec.plugin for spec in (*experiment.algorithms, *experiment.problems)]  # type: ignore[attr-defined]
    tables = [problem.file for problem in experiment.problems if problem.file is not None]
    files: dict[str, Path] = {}
    for one in (*filter(None, plugins), *tables):
        if files.setdefault(one.file.name, one.file) != one.file:
            raise InvalidInput(f"files of plug-ins and tables need different names, got {one.file.name} twice.")
    content = {plugin.file.name: plugin.source.encode() for plugin in plugins if plugin is not None}
    return content | {table.file.name: table.content for table in tables}
