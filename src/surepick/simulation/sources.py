"""Where the problems and plug-ins of an experiment come from: a function by name, a file with code, a table of arms.

Sources are hashable and can be pickled: the content of a file is sent to the processes, on other machines too.
"""

import hashlib
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from surepick.errors import InvalidInput, or_nearest
from surepick.simulation import datasets, pools, problems, problems_published
from surepick.simulation.parallel import text_of
from surepick.simulation.run import AnyProblem, is_problem

GENERATORS: dict[str, Callable[..., AnyProblem]] = {
    name: function
    for module in (problems, problems_published, pools, datasets)
    for name, function in vars(module).items()
    if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
}
"""Problems by name."""


class Plugin(NamedTuple):
    """An algorithm or a problem in a file of the user."""

    file: Path
    class_name: str
    source: str


class DataFile(NamedTuple):
    """A table of arms."""

    file: Path
    content: bytes


class Source(NamedTuple):
    """The origin of a problem: a name, a file with code, or a table of arms."""

    name: str
    plugin: Plugin | None = None
    file: DataFile | None = None


def _generator(source: Source) -> Callable[..., AnyProblem]:
    """Return the function that makes a problem."""
    if source.plugin is not None:
        made: Callable[..., AnyProblem] | None = loaded(source.plugin)
        if not callable(made):
            plugin = source.plugin
            raise InvalidInput(f"the plug-in {plugin.file} must have a function or class {plugin.class_name}.")
        return made
    if source.file is not None:
        return partial(_from_content, source.file)
    if source.name in GENERATORS:
        return GENERATORS[source.name]
    plug_ins = entry_points(group="surepick.problems")
    if source.name not in plug_ins.names:
        known = [*GENERATORS, *sorted(plug_ins.names)]
        meant = or_nearest(source.name, known)
        raise InvalidInput(f"`name` must be one of {', '.join(known)}, got {source.name!r}{meant}")
    found: Callable[..., AnyProblem] = plug_ins[source.name].load()
    return found


def _from_content(file: DataFile, **arguments: Any) -> AnyProblem:
    with TemporaryDirectory() as folder:
        path = Path(folder) / file.file.name
        path.write_bytes(file.content)
        try:
            return problems.from_file(path, **arguments)
        except InvalidInput as error:  # it names the copy
            raise InvalidInput(str(error).replace(str(path), str(file.file))) from error


def parameters_of(source: Source) -> dict[str, inspect.Parameter]:
    """Return the arguments that a problem takes."""
    parameters = dict(inspect.signature(_generator(source)).parameters)
    if source.file is None:
        return parameters
    return {key: one for key, one in inspect.signature(problems.from_file).parameters.items() if key != "path"}


def draw_problem(source: str | Source, arguments: Mapping[str, Any], seed: int | None = None) -> AnyProblem:
    """Make the problem at one point of the grid; `seed` is for a problem that is redrawn in every run."""
    source = Source(source) if isinstance(source, str) else source
    parameters = parameters_of(source)
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    of_run = {"epsilon", "budget"}
    own = {key: value for key, value in arguments.items() if key in parameters or (takes_all and key not in of_run)}
    if unknown := sorted(arguments.keys() - own.keys() - of_run - {"noise_std"}):  # of a plug-in, read only now
        named = ", ".join(parameters) or "none"
        raise InvalidInput(f"{source.name} takes no {unknown[0]!r}; its arguments are {named}.")
    problem = _generator(source)(**own, **({} if seed is None else {"seed": seed}))
    if not is_problem(problem):
        raise InvalidInput(
            f"{source.name} must return a problem, such as `surepick.problems.Problem(X=..., theta=..., name=...)`, "
            f"got a {type(problem).__name__}."
        )
    noise_std = None if "noise_std" in own else arguments.get("noise_std")
    return problem if noise_std is None else replace(problem, noise_std=noise_std)


@lru_cache
def loaded(plugin: Plugin) -> Any:
    """Return the class or function of a plug-in; None if the file has none of that name.

    Raises:
        InvalidInput: the file cannot be run.
    """
    name = f"surepick_plugin_{hashlib.sha256(plugin.source.encode()).hexdigest()[:16]}"
    if name not in sys.modules:
        module = types.ModuleType(name)
        module.__file__ = str(plugin.file)
        sys.modules[name] = module  # dataclasses look up their module here
        try:
            exec(compile(plugin.source, str(plugin.file), "exec"), module.__dict__)  # noqa: S102 (the user's own file)
        except Exception as error:
            del sys.modules[name]
            raise InvalidInput(f"the plug-in {plugin.file} cannot be run: {text_of(error)}") from error
    return getattr(sys.modules[name], plugin.class_name, None)
