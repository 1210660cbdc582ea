"""The job of a cell of an experiment: what its runs share, ready to be run."""

import json
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from surepick.errors import InvalidInput
from surepick.learning.snapshot import Algorithm
from surepick.simulation.experiment import KNOWLEDGE, Cell, canonical_json
from surepick.simulation.parallel import text_of
from surepick.simulation.run import (
    Instance,
    Job,
    goal_of,
    has_normal_noise,
    instance_of,
    new_learner,
    prepared,
    run_seeds,
)
from surepick.simulation.sources import Plugin, Source, draw_problem, loaded, parameters_of

N_INSTANCES = 8
"""Number of prepared problems that a process caches."""


def check_cells(cells: Sequence[Cell]) -> None:
    """Draw every problem, and compose every algorithm on its first cell.

    Raises:
        InvalidInput: a problem or an algorithm cannot be made as described.
    """
    seen: set[str] = set()
    for cell in cells:
        label, place = cell.algorithm.label, cell.shown
        if {label, place} <= seen:
            continue
        seeds = run_seeds(cell.seed, 0)
        try:
            job = job_of(replace(cell, bounds=False))
            instance = instance_of(job, seeds)
            if label not in seen:
                new_learner(job, instance, seeds.learner)
        except Exception as error:
            raise InvalidInput(f"{cell} cannot be run: {told_of(cell, error)}") from error
        seen |= {label, place}


def told_of(cell: Cell, error: BaseException) -> str:
    """Return an error as one line, with the last line of the cell's plug-ins that it passed."""
    files = {str(plugin.file) for plugin in (cell.algorithm.plugin, cell.problem.plugin) if plugin is not None}
    passed = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    where = f" ({Path(passed[-1].filename).name}, line {passed[-1].lineno})" if passed else ""
    return f"{text_of(error)}{where}"


def job_of(cell: Cell) -> Job:
    """Return the job of a cell. Problems that are not redrawn are cached."""
    algorithm = cell.algorithm
    source = cell.problem.source
    bounds = cell.bounds and has_normal_noise(algorithm.options)
    shared = (
        source,
        canonical_json(cell.arguments),
        cell.delta,
        cell.epsilon,
        bounds,
        canonical_json(goal_of(algorithm.options)),
    )
    options: dict[str, Any] = {**algorithm.options, **{name: KNOWLEDGE[name] for name in algorithm.knows}}
    audit = options.pop("audit", 0)
    if "budget" in cell.arguments and "budget" not in parameters_of(source):
        options["budget"] = cell.arguments["budget"]
    return Job(
        problem=partial(draw_problem, source, cell.arguments) if cell.problem.redraw else _instance(*shared),
        algorithm=algorithm.name if algorithm.plugin is None else _algorithm(algorithm.plugin),
        delta=cell.delta,
        epsilon=cell.epsilon,
        seed=cell.seed,
        max_pulls=cell.max_pulls,
        bounds=bounds,
        options=options,
        audit=audit,
    )


@lru_cache(N_INSTANCES)
def _instance(source: Source, arguments: str, delta: float, epsilon: float, bounds: bool, goal: str) -> Instance:  # noqa: FBT001
    problem = draw_problem(source, json.loads(arguments))
    return prepared(problem, delta=delta, epsilon=epsilon, bounds=bounds, goal=json.loads(goal))


def _algorithm(plugin: Plugin) -> Callable[..., Algorithm]:
    found: Callable[..., Algorithm] | None = loaded(plugin)
    if found is None or not callable(getattr(found, "compose", None)):
        raise InvalidInput(f"the plug-in {plugin.file} must have a class {plugin.class_name} with a method `compose`.")
    return found
