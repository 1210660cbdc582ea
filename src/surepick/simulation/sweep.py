"""All runs of an experiment that its folder does not have yet: in this process, in several, or on a Dask cluster.

Work is cut into batches of runs of one cell, taken from all cells in turn. A batch lasts about `BATCH_SECONDS` by what
the cell's runs took so far, so that little is lost when a process is killed and little time is spent on sending. What a
run gives does not depend on batches, processes or machines.
"""

import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, final

from surepick._version import __version__
from surepick.core.checks import check_count
from surepick.errors import InvalidInput, SurepickError
from surepick.simulation.experiment import KNOWLEDGE, Cell, Experiment, Plugin
from surepick.simulation.runner import Instance, Job, new_learner, n_processes, prepared, run_once, run_seeds
from surepick.simulation.store import Row, Store

BATCH_SECONDS = 0.5
LARGEST_BATCH = 64
N_INSTANCES = 8
"""Problems that a process keeps ready."""
DASK_SECONDS = 30.0
"""How long to wait for a Dask cluster and its first worker."""


class State(NamedTuple):
    """How far a sweep has come."""

    done: int
    total: int
    """Runs of this sweep; those that were there before are in neither."""
    seconds_left: float | None
    """An estimate from what the runs of each cell took so far; None at first."""


class Failure(NamedTuple):
    """A run that ended in an error."""

    cell: str
    run: int
    error: str


@final
@dataclass(slots=True)
class Summary:
    """What a sweep did."""

    n_before: int
    """Runs that were there already."""
    n_done: int = 0
    failures: list[Failure] = field(default_factory=list)
    """The first failure of each cell; `n_failed` counts all."""
    n_failed: int = 0


class _Batch(NamedTuple):
    number: int
    """Of the cell."""
    runs: list[int]


class _Done(NamedTuple):
    batch: _Batch
    rows: list[Row]
    failures: list[tuple[int, str]]
    seconds: float


def sweep(
    experiment: Experiment,
    folder: Path,
    *,
    n_runs: int,
    n_jobs: int = 1,
    dask: str | None = None,
    progress: Callable[[State], None] = lambda _: None,
) -> Summary:
    """Do the runs 0..n_runs-1 of every cell that the folder lacks, and keep each as soon as it is finished.

    Args:
        experiment: what to run.
        folder: where the runs are kept; see `store`.
        n_runs: runs of each cell.
        n_jobs: processes, also of a local Dask cluster; 1 is this one, -1 one per core.
        dask: address of a Dask scheduler such as "tcp://host:8786", or "local" for a cluster on this machine.
        progress: called after each batch.

    A run that ends in an error is reported and not kept, the others go on. After Ctrl-C, as after any other end, the
    next call goes on where this one was.

    Raises:
        InvalidInput: an algorithm cannot be composed as described; nothing was run then.
        SurepickError: processes or machines were lost, or a file of the folder is damaged.
    """
    check_count("n_runs", n_runs, least=1)
    cells = experiment.cells()
    with Store(folder, experiment) as store:
        total = store.n_missing(n_runs)
        summary = Summary(n_before=len(cells) * n_runs - total)
        progress(State(0, total, None))
        if not total:
            return summary
        check(cells)
        plan = _Plan(cells, store, n_runs)
        if dask is not None:
            source = _on_dask(plan, dask, n_jobs)
        else:
            processes = n_processes(n_jobs, total)
            source = _here(plan) if processes == 1 else _on_joblib(plan, processes)
        with closing(source) as results:
            for done in results:
                store.append(done.rows)
                plan.note(done)
                _add(summary, cells[done.batch.number], done)
                progress(State(summary.n_done + summary.n_failed, total, plan.seconds_left))
    return summary


def check(cells: list[Cell]) -> None:
    """Compose every algorithm once, on the first of its cells, and draw every problem that needs no drawing per run.

    Raises:
        InvalidInput: a problem or an algorithm cannot be made as described.
    """
    algorithms: set[str] = set()
    for cell in cells:
        if cell.algorithm.label in algorithms:
            continue
        algorithms.add(cell.algorithm.label)
        seeds = run_seeds(cell.seed, 0)
        try:
            job = _job(cell)
            problem = cell.problem.draw(cell.arguments, seeds.instance)
            new_learner(job, prepared(problem, _job(cell, bounds=False)), seeds.learner)
        except Exception as error:
            raise InvalidInput(f"{cell} cannot be run: {_text(error)}") from error


@final
class _Plan:
    """Which batch comes next."""

    def __init__(self, cells: list[Cell], store: Store, n_runs: int) -> None:
        self.cells = cells
        self._waiting = [store.missing(cell.key, n_runs) for cell in cells]
        self._left = [sum(1 for _ in store.missing(cell.key, n_runs)) for cell in cells]
        self._seconds, self._n_timed = [0.0] * len(cells), [0] * len(cells)
        self.n_workers = 1

    def batches(self) -> Iterator[_Batch]:
        """All batches; each is cut when it is asked for."""
        numbers = list(range(len(self.cells)))
        while numbers:
            for number in list(numbers):
                runs = list(islice(self._waiting[number], self._size(number)))
                if runs:
                    yield _Batch(number, runs)
                else:
                    numbers.remove(number)

    def _size(self, number: int) -> int:
        if not self._n_timed[number]:
            return 1
        each = self._seconds[number] / self._n_timed[number]
        return max(1, min(LARGEST_BATCH, int(BATCH_SECONDS / max(each, 1e-9))))

    def note(self, done: _Done) -> None:
        """Take in how long a batch took."""
        number, n = done.batch.number, len(done.batch.runs)
        self._left[number] -= n
        self._seconds[number] += done.seconds
        self._n_timed[number] += n

    @property
    def seconds_left(self) -> float | None:
        """What is left, if every cell with runs left has been timed."""
        open_cells = [number for number, left in enumerate(self._left) if left]
        if not all(self._n_timed[number] for number in open_cells):
            return None
        costs = (self._left[number] * self._seconds[number] / self._n_timed[number] for number in open_cells)
        return sum(costs) / self.n_workers


def _here(plan: _Plan) -> Iterator[_Done]:
    for batch in plan.batches():
        # One by one: nothing that is finished waits for the rest of its batch.
        for run in batch.runs:
            yield _do(plan.cells[batch.number], _Batch(batch.number, [run]))


def _on_joblib(plan: _Plan, n_jobs: int) -> Iterator[_Done]:
    try:
        from joblib import Parallel, delayed, parallel_config  # noqa: PLC0415 (optional)
        from joblib.externals.loky import get_reusable_executor  # noqa: PLC0415
        from joblib.externals.loky.process_executor import BrokenProcessPool  # noqa: PLC0415
    except ImportError as error:
        raise SurepickError("more than one process needs joblib; install surepick[bench] or ask for one.") from error
    plan.n_workers = n_jobs
    is_complete = False
    try:
        with parallel_config(backend="loky", inner_max_num_threads=1):
            yield from Parallel(n_jobs=n_jobs, batch_size=1, pre_dispatch="2*n_jobs", return_as="generator_unordered")(
                delayed(_do_deaf)(plan.cells[batch.number], batch) for batch in plan.batches()
            )
        is_complete = True
    except BrokenProcessPool as error:
        raise SurepickError("a process was killed; what is finished is kept, the same command goes on.") from error
    finally:
        if not is_complete:  # else the processes would finish what they hold first
            get_reusable_executor().shutdown(kill_workers=True)


def _on_dask(plan: _Plan, address: str, n_jobs: int) -> Iterator[_Done]:
    try:
        from distributed import Client, LocalCluster, as_completed  # noqa: PLC0415 (optional)
    except ImportError as error:
        raise SurepickError("Dask is not installed; install surepick[dask] or leave it out.") from error
    if address == "local":
        n_workers = n_processes(n_jobs, sys.maxsize)
        cluster = partial(LocalCluster, n_workers=n_workers, threads_per_worker=1, dashboard_address=None)
    else:
        cluster = None
    try:
        client = Client(address if cluster is None else cluster(), timeout=DASK_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise SurepickError(f"no Dask scheduler answers at {address}: {_text(error)}") from error
    with client:
        ...
