"""All runs of an experiment that its folder does not have yet, each kept as soon as it is finished."""

import hashlib
import json
import sys
import types
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from surepick._version import __version__
from surepick.core.checks import check_count
from surepick.errors import InvalidInput
from surepick.learning.snapshot import Algorithm
from surepick.simulation.experiment import KNOWLEDGE, Cell, Experiment, Plugin, ProblemSpec, canonical_json
from surepick.simulation.parallel import Show, dispatch, text_of
from surepick.simulation.run import Instance, Job, instance_of, new_learner, prepared, run_once, run_seeds
from surepick.simulation.store import Row, Store

N_INSTANCES = 8
"""Problems that a process keeps ready."""


class Failure(NamedTuple):
    """A run that ended in an error."""

    cell: str
    run: int
    error: str


class Summary(NamedTuple):
    """What a sweep did."""

    n_before: int
    """Runs that were there already."""
    n_done: int
    failures: list[Failure]
    """The failure of the lowest run of each cell, in the order of their texts; `n_failed` counts all."""
    n_failed: int


def sweep(
    experiment: Experiment,
    folder: Path,
    *,
    n_runs: int,
    n_jobs: int = 1,
    dask: str | None = None,
    progress: Show = lambda _: None,
) -> Summary:
    """Do the runs 0..n_runs-1 of every cell that the folder lacks, and keep each as soon as it is finished.

    Args:
        experiment: what to run.
        folder: where the runs are kept; see `store`.
        n_runs: runs of each cell.
        n_jobs: processes, also of a local Dask cluster; 1 is this one, -1 one per core.
        dask: address of a Dask scheduler such as "tcp://host:8786", or "local" for a cluster on this machine.
        progress: called at the start and after each batch.

    A run that ends in an error is reported and not kept, the others go on. After Ctrl-C, as after any other end, the
    next call goes on where this one was.

    Raises:
        InvalidInput: an algorithm cannot be composed as described, or `dask` is no address; nothing was run then.
        SurepickError: processes or machines were lost, or a file of the folder is damaged.
    """
    check_count("n_runs", n_runs, least=1)
    cells = experiment.cells()
    with Store(folder, experiment) as store:
        missing = [store.missing(cell.key, n_runs) for cell in cells]
        n_missing = sum(map(len, missing))
        lowest: dict[str, Failure] = {}
        n_failed = 0
        if n_missing:
            check(cells)
        with closing(dispatch(_rows, cells, missing, progress, n_jobs=n_jobs, dask=dask)) as results:
            for done in results:
                is_lost = isinstance(done.result, BaseException)
                cell = str(cells[done.number])
                lost = [Failure(cell, run, text_of(done.result)) for run in done.runs] if is_lost else []
                rows, failures = ([], lost) if is_lost else done.result
                store.append(rows)
                n_failed += len(failures)
                for failure in failures:
                    lowest[cell] = min(failure, lowest.get(cell, failure))
    return Summary(len(cells) * n_runs - n_missing, n_missing - n_failed, sorted(lowest.values()), n_failed)


def check(cells: list[Cell]) -> None:
    """Draw every problem and compose every algorithm on the first of its cells.

    Raises:
        InvalidInput: a problem or an algorithm cannot be made as described.
    """
    seen: set[str] = set()
    for cell in cells:
        label, place = cell.algorithm.label, canonical_json([cell.problem.name, cell.arguments])
        if {label, place} <= seen:
            continue
        seeds = run_seeds(cell.seed, 0)
        try:
            job = job_of(replace(cell, bounds=False))
            instance = instance_of(job, seeds)
            if label not in seen:
                new_learner(job, instance, seeds.learner)
        except Exception as error:
            raise InvalidInput(f"{cell} cannot be run: {text_of(error)}") from error
        seen |= {label, place}


def _rows(cell: Cell, runs: list[int]) -> tuple[list[Row], list[Failure]]:
    """Do some runs of a cell; those that end in an error apart."""
    rows: list[Row] = []
    failures: list[Failure] = []
    for run in runs:
        try:
            found = run_once(job_of(cell), run)
        except Exception as error:  # noqa: BLE001 (whatever it is, the other runs go on)
            failures.append(Failure(str(cell), run, text_of(error)))
        else:
            rows.append({**found._asdict(), "key": cell.key, "run": run, "version": __version__})
    return rows, failures


def job_of(cell: Cell) -> Job:
    """Return what the runs of a cell share; the last few problems that are not redrawn are kept ready."""
    problem, algorithm = cell.problem, cell.algorithm
    shared = problem.name, canonical_json(cell.arguments), cell.delta, cell.bounds
    return Job(
        problem=partial(problem.draw, cell.arguments) if problem.redraw else _instance(*shared),
        algorithm=algorithm.name if algorithm.plugin is None else loaded(algorithm.plugin),
        delta=cell.delta,
        epsilon=problem.slack(cell.arguments),
        seed=cell.seed,
        max_pulls=cell.max_pulls,
        bounds=cell.bounds,
        options={**algorithm.options, **{name: KNOWLEDGE[name] for name in algorithm.knows}},
    )


@lru_cache(N_INSTANCES)
def _instance(name: str, arguments: str, delta: float, bounds: bool) -> Instance:  # noqa: FBT001 (of `job_of`)
    spec, values = ProblemSpec(name=name), json.loads(arguments)
    return prepared(spec.draw(values, 0), delta=delta, epsilon=spec.slack(values), bounds=bounds)


@lru_cache
def loaded(plugin: Plugin) -> Callable[..., Algorithm]:
    """Return the class of a plug-in.

    Raises:
        InvalidInput: the file cannot be run, or has no such class.
    """
    name = f"surepick_plugin_{hashlib.sha256(plugin.source.encode()).hexdigest()[:16]}"
    module = types.ModuleType(name)
    module.__file__ = str(plugin.file)
    sys.modules[name] = module  # where dataclasses look their module up
    try:
        exec(compile(plugin.source, str(plugin.file), "exec"), module.__dict__)  # noqa: S102 (the user's own file)
    except Exception as error:
        del sys.modules[name]
        raise InvalidInput(f"the plug-in {plugin.file} cannot be run: {text_of(error)}") from error
    found: Any = getattr(module, plugin.class_name, None)
    if not callable(getattr(found, "compose", None)):
        raise InvalidInput(f"the plug-in {plugin.file} must have a class {plugin.class_name} with a method `compose`.")
    factory: Callable[..., Algorithm] = found
    return factory
