"""Experiments in TOML files, read and checked: what cannot be used is refused in one sentence.

A list as an argument spans the grid, so an argument that is itself a list stands in another one:
`means = [[1.0, 0.5, 0.0]]`.

    name = "my-experiment"                  the folder of the results
    title, about                            texts
    delta = [0.05]                          risks
    n_runs = 200, quick_runs = 20           runs of each cell: in full, and by default
    seed = 100, max_pulls = 1000000
    own_seeds = false                       optional: every problem of the grid has its own: seed, seed + 1, ...
    bounds = false                          optional: also the lower bound of each run's instance
    [[problems]]
    name = "many_arms"                      a function of `surepick.problems`
    redraw = true                           optional: a new instance in every run, from the run's own seed
    arguments = { n_arms = [1000, 2500] }   besides the function's own, every problem takes noise_std and epsilon
    [[algorithms]]
    label = "ours"                          unique
    name = "lazy-track-and-stop"            see `surepick.algorithms`; "*" stands, in the label too, for each that has
                                            no entry of its own with the same options
    options = { stopping = "betting" }      optional
    knows = ["theta"]                       optional: options with the problem's own value, see `KNOWLEDGE`
    only = { n_arms = 1000 }                optional: problems with such arguments; `name` is the problem's own, `delta`
                                            the risk
    plugin = "own.py:Class"                 optional: an algorithm in a file, seen from this one; needs no `name`
    baseline = "other label"                optional: the report says how many times its pulls and its CPU time
    bounds = false                          optional: no lower bounds for this one, to save their time
    [[published]]
    algorithm = "ours"                      a label
    note = "..."                            optional: why ours may differ
    figures = "table_2"                     of experiments/published.csv, as far as they fit; or a figure of your own:
    problem = { n_arms = 1000 }             as in `only`
    mean = 1206.0, se = 30.0                `se` is optional
    quantity = "n_pulls"                    optional: or "seconds", "support"
    delta = 0.05                            optional: for all risks if left out
    source = "..."



What others have published, from an experiment's file or from experiments/published.csv, to compare ours with.

Jedra and Proutiere (2020): Tables 1 and 2 differ in the constants of the stopping rule only. What the paper does
not say and is inferred here: its columns "Std" are read as standard errors, because runs repeated with its
constants have standard errors of that size; the means are multiples of 1/20, which suggests 20 runs; and the arms
are those of `problems.many_arms(variant="as-run")`, the one variant on which its figures come out.
"""

import csv
import inspect
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, final

from surepick.algorithms import names as algorithms
from surepick.core.checks import check_delta, check_epsilon, check_noise_std
from surepick.errors import InvalidInput
from surepick.simulation import toml_table as toml
from surepick.simulation.experiment import (
    GENERATORS,
    KNOWLEDGE,
    AlgorithmSpec,
    Cell,
    Experiment,
    Plugin,
    ProblemSpec,
    Published,
)
from surepick.simulation.toml_table import check_table, refused, saying, values_of

EXPERIMENTS: Any = resources.files("surepick.simulation") / "experiments"
"""Folder of the experiments that come with the package, and of published.csv."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """One entry of [[published]] that stands for a whole table of published.csv."""

    algorithm: toml.Text
    figures: toml.Text
    note: toml.Text = ""


def read_published(entry: dict[str, Any], where: str) -> list[Published]:
    """Return the figures that an entry of [[published]] gives or names."""
    if "figures" not in entry:
        values = toml.check_table(entry, where, Published)
        with toml.saying(where):
            values |= {"delta": check_delta(values["delta"])} if "delta" in values else {}
        return [Published(**values)]
    values, tables = toml.check_table(entry, where, PublishedTable), published_tables()
    if values["figures"] not in tables:
        raise toml.refused(where, "figures", f"one of {', '.join(tables)}", values["figures"])
    return [replace(figure, **values) for figure in tables[values["figures"]]]


@cache
def published_tables() -> dict[str, list[Published]]:
    """Return the figures by the name of their table."""
    tables: dict[str, list[Published]] = {}
    for row in csv.DictReader((EXPERIMENTS / "published.csv").read_text("utf-8").splitlines()):
        figure = Published(
            algorithm="",
            problem={"n_arms": int(row["n_arms"])} if row["n_arms"] else {},
            mean=float(row["mean"]),
            se=float(row["se"]) if row["se"] else None,
            quantity=row["quantity"],
            delta=float(row["delta"]),
            source=row["source"],
            figures=row["figures"],
        )
        tables.setdefault(figure.figures, []).append(figure)
    return tables


def named_experiments() -> list[str]:
    """Names of the experiments that come with the package."""
    return sorted(file.name.removesuffix(".toml") for file in EXPERIMENTS.iterdir() if file.name.endswith(".toml"))


def named_experiment(name: str, **changes: object) -> Experiment:
    """Read an experiment that comes with the package, with other values for some of its numbers."""
    known = named_experiments()
    if name not in known:
        raise InvalidInput(f"an experiment must be one of {', '.join(known)}, got {name!r}.")
    text = (EXPERIMENTS / f"{name}.toml").read_text("utf-8")
    for key, value in changes.items():
        text = re.sub(rf"^{key} = .*$", f"{key} = {value}", text, count=1, flags=re.MULTILINE)
    # A plug-in lies beside the file in an installed package, or where its path says in a copy of the repository.
    return parse_experiment(text, name, Path(str(EXPERIMENTS)), Path(__file__).parents[3])


def read_experiment(path: Path) -> Experiment:
    """Read and check a file.

    Raises:
        InvalidInput: what the file lacks, or what in it cannot be used. A plug-in is read, not run.
    """
    return parse_experiment(_text(path, f"cannot read {path}"), str(path), path.parent)


def parse_experiment(text: str, origin: str, *folders: Path) -> Experiment:
    """Check the text of a file; `origin` names it in errors, plug-ins are looked for in the folders."""
    try:
        top = check_table(tomllib.loads(text), origin, Experiment)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{origin} must be TOML: {error}.") from error

    def entries(key: str) -> Iterator[tuple[dict[str, Any], str]]:
        return ((entry, f"{origin}, [[{key}]] {i}") for i, entry in enumerate(top.get(key, ()), start=1))

    with saying(origin):
        top["delta"] = tuple(check_delta(float(value)) for value in top["delta"])
    top["problems"] = tuple(_problem(*entry) for entry in entries("problems"))
    top["algorithms"] = _expanded([_algorithm(*entry, folders) for entry in entries("algorithms")])
    top["published"] = tuple(figure for entry in entries("published") for figure in read_published(*entry))
    experiment = Experiment(**top, text=text)
    cells = experiment.cells()
    with saying(origin):
        _check_together(experiment, cells)
    fitting = [figure for figure in experiment.published if any(map(figure.is_about, cells))]
    return replace(experiment, published=tuple(fitting))


def _problem(entry: dict[str, Any], where: str) -> ProblemSpec:
    values = check_table(entry, where, ProblemSpec)
    name, redraw = values["name"], values.get("redraw", False)
    arguments = {key: values_of(value) for key, value in values.get("arguments", {}).items()}
    own = inspect.signature(GENERATORS[name]).parameters
    if redraw and ("seed" not in own or "seed" in arguments):
        why = "has no seed to redraw it from" if "seed" not in own else "has a fixed seed in its arguments"
        raise InvalidInput(f"{where}: `redraw` must be false, since {name} {why}.")
    needed = [key for key, parameter in own.items() if parameter.default is parameter.empty and key not in arguments]
    unknown = sorted(set(arguments) - {*own, "noise_std", "epsilon"})
    if needed or unknown:
        wrong = f"no {unknown[0]!r}" if unknown else f"{needed[0]!r}"
        raise InvalidInput(f"{where}: {name} takes {wrong}; its arguments are {', '.join(own)}.")
    for key, given in arguments.items():
        if not given:
            raise refused(where, "arguments", f"at least one value for {key}", given)
    with saying(where):
        for key, check in (("noise_std", check_noise_std), ("epsilon", check_epsilon)):
            for value in arguments.get(key, ()):
                check(value)
    return ProblemSpec(name=name, redraw=redraw, arguments=arguments)


def _algorithm(entry: dict[str, Any], where: str, folders: Sequence[Path]) -> AlgorithmSpec:
    values, known = check_table(entry, where, AlgorithmSpec), algorithms()
    if "plugin" in values:
        values["plugin"] = _plugin(values["plugin"], where, folders)
        values.setdefault("name", values["plugin"].class_name)
    spec = AlgorithmSpec(**values | {"knows": tuple(values.get("knows", ()))})
    if spec.plugin is None and spec.name not in (*known, "*"):
        raise refused(where, "name", f"one of {', '.join(known)}", spec.name)
    if set(spec.knows) & set(spec.options):
        raise refused(where, "knows", f"some of {', '.join(KNOWLEDGE)}, none among the options", values["knows"])
    return spec


def _expanded(specs: Sequence[AlgorithmSpec]) -> tuple[AlgorithmSpec, ...]:
    """Every "*" replaced by the algorithms it stands for."""
    expanded: list[AlgorithmSpec] = []
    for spec in specs:
        own = {other.name for other in specs if other.options == spec.options}
        names = [name for name in algorithms() if name not in own]
        stands_for = [replace(spec, name=name, label=spec.label.replace("*", name)) for name in names]
        expanded += stands_for if spec.name == "*" else [spec]
    return tuple(expanded)


def _plugin(place: str, where: str, folders: Sequence[Path]) -> Plugin:
    file_name, _, class_name = place.rpartition(":")
    # In a folder of results the file lies beside the experiment, wherever it was before.
    places = [folder / file for folder in folders for file in (file_name, Path(file_name).name)]
    file = next((file for file in places if file.exists()), places[0])
    return Plugin(file=file, class_name=class_name, source=_text(file, f"{where}: cannot read the plug-in {file}"))


def _text(path: Path, complaint: str) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{complaint}: {getattr(error, 'strerror', None) or error}.") from error


def _check_together(experiment: Experiment, cells: Sequence[Cell]) -> None:
    """What no entry can know alone."""
    specs = experiment.algorithms
    labels = [spec.label for spec in specs]
    files = {spec.plugin.file.name: spec.plugin.file for spec in specs if spec.plugin is not None}
    for spec in specs:
        if labels.count(spec.label) > 1:
            raise InvalidInput(f"every algorithm needs a label of its own, got {spec.label!r} twice.")
        if not any(cell.algorithm is spec for cell in cells):
            raise InvalidInput(f"`only` of {spec.label!r} must fit a problem, got {dict(spec.only)}.")
        if spec.baseline not in ("", *labels):
            known = ", ".join(labels)
            raise InvalidInput(f"`baseline` of {spec.label!r} must be one of {known}, got {spec.baseline!r}.")
        if spec.plugin is not None and files[spec.plugin.file.name] != spec.plugin.file:
            raise InvalidInput(f"files of plug-ins need different names, got {spec.plugin.file.name} twice.")
    seen: dict[str, Cell] = {}
    for cell in cells:
        other = seen.setdefault(cell.key, cell)
        if other is not cell:
            raise InvalidInput(f"the cells of an experiment must differ, got the same runs twice: {other}; {cell}.")
    for figure in experiment.published:
        # Of a whole table it is enough that its algorithm is there.
        if not (any(map(figure.is_about, cells)) or (figure.figures and figure.algorithm in labels)):
            came = f"{figure.algorithm!r} with {dict(figure.problem)}"
            needed = "a published figure needs a cell to stand beside"
            raise InvalidInput(f"{needed}, got {came}; look at the labels and arguments.")
