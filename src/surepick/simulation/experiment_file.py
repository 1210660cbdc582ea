"""Experiments in TOML files, read and checked.

A list as an argument spans the grid, so an argument that is itself a list stands in another one:
`means = [[1.0, 0.5, 0.0]]`.

    name = "my-experiment"                  the folder of the results
    title, about                            texts
    delta = [0.05]                          risks
    n_runs = 200, quick_runs = 20           runs of each cell: in full, and by default
    seed = 100, max_pulls = 1000000
    bounds = false                          optional: also the lower bound of each run's instance
    [[problems]]
    name = "many_arms"                      a function of `surepick.problems`
    redraw = true                           optional: a new instance in every run, from the run's own seed
    arguments = { n_arms = [1000, 2500] }   besides the function's own, every problem takes noise_std and epsilon
    [[algorithms]]
    label = "ours"                          unique
    name = "lazy-track-and-stop"            see `surepick.algorithms`
    options = { stopping = "betting" }      optional
    knows = ["theta"]                       optional: options with the problem's own value, see `KNOWLEDGE`
    only = { n_arms = 1000 }                optional: problems with such arguments; `name` is the problem's own
    plugin = "own.py:Class"                 optional: an algorithm in a file, seen from this one; needs no `name`
    baseline = "other label"                optional: the report says how many times its pulls and its CPU time
    [[published]]
    algorithm = "ours"                      a label
    problem = { n_arms = 1000 }             as in `only`
    mean = 1206.0, se = 30.0                `se` is optional
    quantity = "n_pulls"                    optional: or "seconds", "support"
    delta = 0.05                            optional: for all risks if left out
    source = "...", note = "..."            `note` is optional
"""

import inspect
import re
import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from surepick.algorithms import names as algorithms
from surepick.core.checks import check_delta, check_epsilon, check_noise_std
from surepick.errors import InvalidInput
from surepick.simulation.experiment import (
    GENERATORS,
    KNOWLEDGE,
    QUANTITIES,
    AlgorithmSpec,
    Cell,
    Experiment,
    Plugin,
    ProblemSpec,
    Published,
    values_of,
)
from surepick.simulation.toml_table import TomlTable


def named_experiments() -> list[str]:
    """Names of the experiments that come with the package."""
    return sorted(file.name.removesuffix(".toml") for file in _shipped().iterdir() if file.name.endswith(".toml"))


def named_experiment(name: str) -> Experiment:
    """Read an experiment that comes with the package."""
    known = named_experiments()
    if name not in known:
        raise InvalidInput(f"an experiment must be one of {', '.join(known)}, got {name!r}.")
    # A plug-in lies beside the file in an installed package, or where its path says in a copy of the repository.
    folders = Path(str(_shipped())), Path(__file__).parents[3]
    return parse_experiment((_shipped() / f"{name}.toml").read_text("utf-8"), name, *folders)


def read_experiment(path: Path) -> Experiment:
    """Read and check a file.

    Raises:
        InvalidInput: what the file lacks, or what in it cannot be used. A plug-in is read, not run.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read {path}: {getattr(error, 'strerror', None) or error}.") from error
    return parse_experiment(text, str(path), path.parent)


def parse_experiment(text: str, origin: str, *folders: Path) -> Experiment:
    """Check the text of a file; `origin` names it in errors, plug-ins are looked for in the folders."""
    try:
        top, known = TomlTable(tomllib.loads(text), origin), algorithms()
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{origin} must be TOML: {error}.") from error
    experiment = Experiment(
        name=_checked_name(top),
        title=top.text("title"),
        about=top.text("about", ""),
        delta=tuple(top.apply(value, check_delta) for value in top.numbers("delta")),
        n_runs=top.count("n_runs", least=1),
        quick_runs=top.count("quick_runs", least=1),
        seed=top.count("seed", least=0),
        max_pulls=top.count("max_pulls", least=1),
        bounds=top.boolean("bounds", default=False),
        problems=tuple(_problem(entry) for entry in top.tables("problems")),
        algorithms=tuple(_algorithm(entry, known, folders) for entry in top.tables("algorithms")),
        published=tuple(_published(entry) for entry in top.tables("published", needed=False)),
        text=text,
    )
    top.finish()
    _check_whole(experiment, origin)
    return experiment


def _checked_name(top: TomlTable) -> str:
    name = top.text("name")
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) is None:
        raise top.refuse("name", "letters, digits, dots and dashes: it becomes the name of a folder", name)
    return name


def _problem(entry: TomlTable) -> ProblemSpec:
    name, redraw = entry.text("name"), entry.boolean("redraw", default=False)
    if name not in GENERATORS:
        raise entry.refuse("name", f"one of {', '.join(GENERATORS)}", name)
    arguments = {key: values_of(value) for key, value in entry.table("arguments").items()}
    entry.finish()
    own = inspect.signature(GENERATORS[name]).parameters
    if redraw and ("seed" not in own or "seed" in arguments):
        why = "has no seed to redraw it from" if "seed" not in own else "has a fixed seed in its arguments"
        raise InvalidInput(f"{entry.where}: `redraw` must be false, since {name} {why}.")
    needed = [key for key, parameter in own.items() if parameter.default is parameter.empty and key not in arguments]
    unknown = sorted(set(arguments) - {*own, "noise_std", "epsilon"})
    if needed or unknown:
        wrong = f"no {unknown[0]!r}" if unknown else f"{needed[0]!r}"
        raise InvalidInput(f"{entry.where}: {name} takes {wrong}; its arguments are {', '.join(own)}.")
    for key, values in arguments.items():
        if not values:
            raise entry.refuse("arguments", f"at least one value for {key}", values)
    for value in arguments.get("noise_std", ()):
        entry.apply(value, check_noise_std)
    for value in arguments.get("epsilon", ()):
        entry.apply(value, check_epsilon)
    return ProblemSpec(name=name, redraw=redraw, arguments=arguments)


def _algorithm(entry: TomlTable, known: Sequence[str], folders: Sequence[Path]) -> AlgorithmSpec:
    place = entry.text("plugin", "")
    plugin = _plugin(entry, place, folders) if place else None
    label, name = entry.text("label"), entry.text("name", "" if plugin is None else plugin.class_name)
    if not name or (plugin is None and name not in known):
        raise entry.refuse("name", f"one of {', '.join(known)}", name)
    knows = tuple(entry.texts("knows"))
    options = entry.table("options")
    for option in knows:
        if option not in KNOWLEDGE or option in options:
            raise entry.refuse("knows", f"some of {', '.join(KNOWLEDGE)}, none of them among the options", list(knows))
    only = entry.table("only")
    baseline = entry.text("baseline", "")
    entry.finish()
    return AlgorithmSpec(
        label=label, name=name, options=options, knows=knows, only=only, plugin=plugin, baseline=baseline
    )


def _plugin(entry: TomlTable, place: str, folders: Sequence[Path]) -> Plugin:
    file_name, _, class_name = place.rpartition(":")
    if not file_name.endswith(".py") or not class_name.isidentifier():
        raise entry.refuse("plugin", 'a file and a class such as "own.py:Class"', place)
    # In a folder of results the file lies beside the experiment, wherever it was before.
    places = [folder / file for folder in folders for file in (file_name, Path(file_name).name)]
    file = next((file for file in places if file.exists()), places[0])
    try:
        source = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(f"{entry.where}: cannot read the plug-in {file}: {reason}.") from error
    return Plugin(file=file, class_name=class_name, source=source)


def _published(entry: TomlTable) -> Published:
    delta, se = entry.number("delta", None), entry.number("se", None)
    figure = Published(
        algorithm=entry.text("algorithm"),
        problem=entry.table("problem"),
        mean=entry.number("mean"),
        se=se,
        quantity=entry.text("quantity", QUANTITIES[0]),
        delta=None if delta is None else entry.apply(delta, check_delta),
        source=entry.text("source"),
        note=entry.text("note", ""),
    )
    if figure.quantity not in QUANTITIES:
        raise entry.refuse("quantity", f"one of {', '.join(QUANTITIES)}", figure.quantity)
    entry.finish()
    return figure


def _check_whole(experiment: Experiment, origin: str) -> None:
    """What no entry can know alone."""
    labels = [algorithm.label for algorithm in experiment.algorithms]
    for label in labels:
        if labels.count(label) > 1:
            raise InvalidInput(f"{origin}: every algorithm needs a label of its own, got {label!r} twice.")
    cells = experiment.cells()
    for algorithm in experiment.algorithms:
        if not any(cell.algorithm is algorithm for cell in cells):
            raise InvalidInput(
                f"{origin}: `only` of {algorithm.label!r} must fit a problem, got {dict(algorithm.only)}."
            )
    for figure in experiment.published:
        if not any(figure.is_about(cell) for cell in cells):
            raise InvalidInput(
                f"{origin}: a published figure needs a cell to stand beside, got {figure.algorithm!r} with "
                f"{dict(figure.problem)}; look at the labels and arguments."
            )
    seen: dict[str, Cell] = {}
    for cell in cells:
        other = seen.setdefault(cell.key, cell)
        if other is not cell:
            raise InvalidInput(
                f"{origin}: the cells of an experiment must differ, got the same runs twice: {other}; {cell}."
            )
    labels = [spec.label for spec in experiment.algorithms]
    for spec in experiment.algorithms:
        if spec.baseline and spec.baseline not in labels:
            raise InvalidInput(
                f"{origin}: `baseline` of {spec.label!r} must be one of {', '.join(labels)}, got {spec.baseline!r}."
            )
    files = {plugin.file.name: plugin for spec in experiment.algorithms if (plugin := spec.plugin) is not None}
    for spec in experiment.algorithms:
        if spec.plugin is not None and files[spec.plugin.file.name].file != spec.plugin.file:
            raise InvalidInput(f"{origin}: files of plug-ins need different names, got {spec.plugin.file.name} twice.")


def _shipped() -> Any:
    return resources.files("surepick.simulation") / "experiments"
