"""All runs of an experiment that its folder does not have yet: in this process, in several, or on a Dask cluster.

Work is cut into batches of runs of one cell, taken from all cells in turn. A batch lasts about `BATCH_SECONDS` by what
the cell's runs took so far, so that little is lost when a process is killed and little time is spent on sending. What a
run gives does not depend on batches, processes or machines.
"""

import hashlib
import logging
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, final

from surepick._version import __version__
from surepick.core.checks import check_count
from surepick.errors import InvalidInput, SurepickError
from surepick.learning.learner import Algorithm
from surepick.simulation.experiment import KNOWLEDGE, Cell, Experiment, Plugin, canonical_json
from surepick.simulation.processes import ProcessKilled, in_processes
from surepick.simulation.runner import Instance, Job, n_processes, new_learner, prepared, run_once, run_seeds
from surepick.simulation.store import Row, Store

BATCH_SECONDS = 0.5
LARGEST_BATCH = 64
N_INSTANCES = 8
"""Problems that a process keeps ready."""
DASK_SECONDS = 30.0
"""How long to wait for a Dask cluster and its first worker."""

_one_at_a_time = threading.Lock()
_ready: dict[str, Instance] = {}


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
    """The failure of the lowest run of each cell; `n_failed` counts all."""
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
        InvalidInput: an algorithm cannot be composed as described, or `dask` is no address; nothing was run then.
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
    """Draw every problem and compose every algorithm on the first of its cells.

    Raises:
        InvalidInput: a problem or an algorithm cannot be made as described.
    """
    drawn: set[str] = set()
    composed: set[str] = set()
    for cell in cells:
        place = canonical_json([cell.problem.name, cell.arguments])
        if place in drawn and cell.algorithm.label in composed:
            continue
        seeds = run_seeds(cell.seed, 0)
        try:
            problem = cell.problem.draw(cell.arguments, seeds.instance)
            if cell.algorithm.label not in composed:
                job = job_of(cell)
                new_learner(job, prepared(problem, replace(job, bounds=False)), seeds.learner)
        except Exception as error:
            raise InvalidInput(f"{cell} cannot be run: {_text(error)}") from error
        drawn.add(place)
        composed.add(cell.algorithm.label)


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


def _here(plan: _Plan) -> Generator[_Done, None, None]:
    for batch in plan.batches():
        # One by one: nothing that is finished waits for the rest of its batch.
        for run in batch.runs:
            yield _do(plan.cells[batch.number], _Batch(batch.number, [run]))


def _on_joblib(plan: _Plan, n_jobs: int) -> Generator[_Done, None, None]:
    plan.n_workers = n_jobs
    tasks = ((plan.cells[batch.number], batch) for batch in plan.batches())
    with closing(in_processes(_do, tasks, n_jobs)) as results:
        try:
            yield from results
        except ProcessKilled as error:
            raise SurepickError("a process was killed; what is finished is kept, the same command goes on.") from error


def _on_dask(plan: _Plan, address: str, n_jobs: int) -> Generator[_Done, None, None]:
    try:
        from distributed import Client, as_completed  # noqa: PLC0415 (optional)
        from distributed.comm import get_address_host_port  # noqa: PLC0415
    except ImportError as error:
        raise SurepickError("Dask is not installed; install surepick[dask] or leave it out.") from error
    if address != "local":
        try:
            # A client that fails on its address is never closed, and keeps the interpreter from ending for a minute.
            get_address_host_port(address)
        except ValueError as error:
            raise InvalidInput(
                f'`dask` must be "local" or an address such as "tcp://host:8786", got {address!r}: {_text(error)}'
            ) from error
    with ExitStack() as stack:
        try:
            cluster = address if address != "local" else stack.enter_context(_local_cluster(n_jobs))
            client = stack.enter_context(Client(cluster, timeout=DASK_SECONDS, set_as_default=False))
            client.wait_for_workers(1, timeout=DASK_SECONDS)
        except (OSError, ValueError) as error:
            raise SurepickError(f"no Dask cluster with a worker answers at {address}: {_text(error)}") from error
        batches, completed = plan.batches(), as_completed(loop=client.loop)
        in_flight: dict[str, _Batch] = {}
        while True:
            plan.n_workers = max(1, sum(client.nthreads().values()))
            for batch in islice(batches, max(0, 2 * plan.n_workers - len(in_flight))):
                future = client.submit(_do, plan.cells[batch.number], batch, pure=False)
                in_flight[future.key] = batch
                completed.add(future)
            if not in_flight:
                return
            future = next(completed)
            batch = in_flight.pop(future.key)
            if future.cancelled():
                raise SurepickError(f"the Dask scheduler at {address} was lost; the same command goes on from here.")
            trouble = future.exception()
            if trouble is None:
                yield future.result()
            else:  # not of a run, which `_do` reports: the batch has lost several workers, or they lack a package
                yield _Done(batch, [], [(run, _text(trouble)) for run in batch.runs], 0.0)


def _local_cluster(n_jobs: int) -> Any:
    from distributed import LocalCluster  # noqa: PLC0415 (optional)

    with _deaf_children():
        return LocalCluster(
            n_workers=n_processes(n_jobs, sys.maxsize),
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",  # any free port
            silence_logs=logging.CRITICAL,
        )


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes started meanwhile do not hear Ctrl-C, which reaches every process of the terminal."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _do(cell: Cell, batch: _Batch) -> _Done:
    """Do a batch, wherever this is."""
    rows: list[Row] = []
    failures: list[tuple[int, str]] = []
    start = time.perf_counter()
    # A process of a cluster may have several threads, but there is one BLAS to be limited.
    with _one_at_a_time:
        for run in batch.runs:
            try:
                rows.append(_row(cell, run))
            except Exception as error:  # noqa: BLE001 (whatever it is, the other runs go on)
                failures.append((run, _text(error)))
    return _Done(batch, rows, failures, time.perf_counter() - start)


def _row(cell: Cell, run: int) -> Row:
    job = job_of(cell)
    outcome = run_once(job, run, None if cell.problem.redraw else instance_of(cell, job))
    return {
        "key": cell.key,
        "run": run,
        "n_pulls": outcome.n_pulls,
        "stopped": outcome.stopped,
        "correct": outcome.correct,
        "support": outcome.support,
        "seconds": outcome.seconds,
        "evidence": outcome.evidence,
        "target": outcome.target,
        "lower_bound": float(outcome.bound),
        "version": __version__,
    }


def job_of(cell: Cell) -> Job:
    """Return what the runs of a cell share."""
    algorithm = cell.algorithm
    return Job(
        problem=partial(cell.problem.draw, cell.arguments),
        algorithm=algorithm.name if algorithm.plugin is None else loaded(algorithm.plugin),
        delta=cell.delta,
        epsilon=cell.problem.slack(cell.arguments),
        seed=cell.seed,
        max_pulls=cell.max_pulls,
        bounds=cell.bounds,
        options={**algorithm.options, **{name: KNOWLEDGE[name] for name in algorithm.knows}},
    )


def instance_of(cell: Cell, job: Job) -> Instance:
    """Return the problem that all runs of a cell share; the last few are kept ready."""
    name = canonical_json([cell.problem.name, cell.arguments, cell.delta, cell.bounds])
    instance = _ready.pop(name, None) or prepared(cell.problem.draw(cell.arguments, 0), job)
    _ready[name] = instance
    while len(_ready) > N_INSTANCES:
        del _ready[next(iter(_ready))]
    return instance


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
        raise InvalidInput(f"the plug-in {plugin.file} cannot be run: {_text(error)}") from error
    found: Any = getattr(module, plugin.class_name, None)
    if not callable(getattr(found, "compose", None)):
        raise InvalidInput(f"the plug-in {plugin.file} must have a class {plugin.class_name} with a method `compose`.")
    factory: Callable[..., Algorithm] = found
    return factory


def _add(summary: Summary, cell: Cell, done: _Done) -> None:
    summary.n_done += len(done.rows)
    summary.n_failed += len(done.failures)
    # The lowest run of each cell, in the order of their texts: the same list whoever finishes first.
    kept = {failure.cell: failure for failure in summary.failures}
    for run, error in done.failures:
        known = kept.get(str(cell))
        if known is None or run < known.run:
            kept[str(cell)] = Failure(str(cell), run, error)
    summary.failures = [kept[name] for name in sorted(kept)]


def _text(error: BaseException) -> str:
    kind = "" if isinstance(error, SurepickError) else f"{type(error).__name__}: "
    return f"{kind}{' '.join(str(error).split())}"
