"""Many runs of many jobs: in this process, in several, or on a Dask cluster, as results come.

Work is cut into batches of runs of one job, taken from all jobs in turn. A batch lasts about `BATCH_SECONDS` by what
the job's runs took so far, so that little is lost when a process is killed and little time is spent on sending. What a
run gives does not depend on batches, processes or machines.
"""

import logging
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from typing import Any, NamedTuple, final

from surepick.core.checks import check_count
from surepick.errors import InvalidInput, SurepickError
from surepick.simulation.progress import Show, State

BATCH_SECONDS = 0.5
LARGEST_BATCH = 64
DASK_SECONDS = 60.0
"""How long to wait for a Dask cluster and its first worker."""

_one_at_a_time = threading.Lock()


class Batch(NamedTuple):
    """Some runs of one job, and what became of them."""

    number: int
    """Of the job."""
    runs: list[int]
    result: Any = None
    """What the work has returned; the error if machines were lost with it, which the runs themselves did not cause."""
    seconds: float = 0.0


Work = Callable[[Any, list[int]], Any]
"""Called with a job and the numbers of its runs."""


def dispatch(
    work: Work,
    jobs: Sequence[Any],
    missing: Sequence[Sequence[int]],
    show: Show,
    *,
    n_jobs: int = 1,
    dask: str | None = None,
) -> Generator[Batch, None, None]:
    """Yield batches as they are finished, in any order; to be closed by the caller.

    Args:
        work: does a batch, wherever that is.
        jobs: what to work on; sent along with every batch.
        missing: the runs to do, by job.
        show: called at the start and whenever the caller has taken a batch and asks for the next.
        n_jobs: processes, also of a local Dask cluster; 1 is this one, -1 one per core.
        dask: address of a Dask scheduler such as "tcp://host:8786", or "local" for a cluster on this machine.

    Raises:
        InvalidInput: `dask` is no address.
        SurepickError: processes or machines were lost. What the work itself raises comes through.
    """
    total = sum(map(len, missing))
    n_workers = n_processes(n_jobs, total or 1)
    is_here = n_workers == 1 and dask is None
    # Here one by one: nothing that is finished waits for the rest of its batch.
    plan = _Plan(missing, largest=1 if is_here else LARGEST_BATCH)
    show(State(0, total, None))
    if not total:
        return
    tasks = ((work, jobs[batch.number], batch) for batch in plan.batches())
    if dask is not None:
        source = _on_dask(tasks, dask, n_jobs)
    else:
        source = (_do(*task) for task in tasks) if is_here else _in_processes(tasks, n_workers)
    with closing(source):
        for done in source:
            plan.note(done)
            yield done
            show(State(plan.n_done, total, plan.seconds_left))


def n_processes(n_jobs: int, n_runs: int) -> int:
    """Processes for n_runs runs; -1 asks for one per core."""
    if n_jobs == -1:
        n_jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(check_count("n_jobs", n_jobs, least=1), n_runs)


@final
class _Plan:
    """Which batch comes next, and how long the rest may take."""

    def __init__(self, missing: Sequence[Sequence[int]], *, largest: int) -> None:
        self._missing, self._largest = missing, largest
        self._seconds, self._n_timed = [0.0] * len(missing), [0] * len(missing)
        self._start = time.perf_counter()

    def batches(self) -> Iterator[Batch]:
        """All batches; each is cut when it is asked for."""
        places = dict.fromkeys(range(len(self._missing)), 0)
        while places:
            for number, place in list(places.items()):
                runs = self._missing[number][place : place + self._size(number)]
                if len(runs):
                    yield Batch(number, [int(run) for run in runs])
                    places[number] += len(runs)
                else:
                    del places[number]

    def _size(self, number: int) -> int:
        if not self._n_timed[number]:
            return 1
        each = self._seconds[number] / self._n_timed[number]
        return max(1, min(self._largest, int(BATCH_SECONDS / max(each, 1e-9))))

    def note(self, done: Batch) -> None:
        """Take in how long a batch took."""
        self._seconds[done.number] += done.seconds
        self._n_timed[done.number] += len(done.runs)

    @property
    def n_done(self) -> int:
        """Runs that are finished."""
        return sum(self._n_timed)

    @property
    def seconds_left(self) -> float | None:
        """What is left at the pace so far, if every job with runs left has been timed."""
        sizes, spent = map(len, self._missing), sum(self._seconds)
        left = [job for job in zip(sizes, self._n_timed, self._seconds, strict=True) if job[0] > job[1]]
        if not all(n_timed for _, n_timed, _ in left) or not spent:
            return None
        pace = (time.perf_counter() - self._start) / spent
        return pace * sum((n - n_timed) * seconds / n_timed for n, n_timed, seconds in left)


def _do(work: Work, job: Any, batch: Batch) -> Batch:
    """Do a batch, wherever this is."""
    start = time.perf_counter()
    with _one_at_a_time:  # a process of a cluster may have several threads, but there is one BLAS to be limited
        result = work(job, batch.runs)
    return batch._replace(result=result, seconds=time.perf_counter() - start)


def _deaf(*task: Any) -> Batch:
    # Ctrl-C reaches every process of the terminal; the parent alone answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return _do(*task)


def _in_processes(tasks: Iterator[Any], n_workers: int) -> Generator[Batch, None, None]:
    try:
        from joblib import Parallel, delayed, parallel_config  # noqa: PLC0415 (optional)
        from joblib.externals.loky.process_executor import BrokenProcessPool  # noqa: PLC0415
    except ImportError as error:
        raise SurepickError("more than one process needs joblib; install surepick[bench] or ask for one.") from error
    with parallel_config(backend="loky", inner_max_num_threads=1):
        results = Parallel(n_jobs=n_workers, batch_size=1, pre_dispatch="2*n_jobs", return_as="generator_unordered")(
            delayed(_deaf)(*task) for task in tasks
        )
        try:
            for done in results:  # noqa: UP028 (`yield from` would close them with a warning)
                yield done
        except BrokenProcessPool as error:
            raise SurepickError(
                "a process was killed, perhaps for lack of memory; finished runs of an experiment are kept, the same "
                "command goes on."
            ) from error
        finally:
            # Not the executor's own shutdown, which can wait for itself for ever when Ctrl-C comes at a bad moment.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # processes still at work are killed, as they should be
                results.close()


def _on_dask(tasks: Iterator[Any], address: str, n_jobs: int) -> Generator[Batch, None, None]:
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
                f'`dask` must be "local" or an address such as "tcp://host:8786", got {address!r}: {text_of(error)}'
            ) from error
    with ExitStack() as stack:
        try:
            cluster = address if address != "local" else stack.enter_context(_local_cluster(n_jobs))
            client = stack.enter_context(Client(cluster, timeout=DASK_SECONDS, set_as_default=False))
            client.wait_for_workers(1, timeout=DASK_SECONDS)
        except (OSError, ValueError) as error:
            raise SurepickError(f"no Dask cluster with a worker answers at {address}: {text_of(error)}") from error
        completed = as_completed(loop=client.loop)
        in_flight: dict[str, Batch] = {}
        while True:
            n_threads = max(1, sum(client.nthreads().values()))
            for task in islice(tasks, max(0, 2 * n_threads - len(in_flight))):
                future = client.submit(_do, *task, pure=False)
                in_flight[future.key] = task[-1]
                completed.add(future)
            if not in_flight:
                return
            future = next(completed)
            batch = in_flight.pop(future.key)
            if future.cancelled():
                raise SurepickError(f"the Dask scheduler at {address} was lost; the same command goes on from here.")
            # An error is not of a run: the batch has lost several workers, or they lack a package.
            trouble = future.exception()
            yield future.result() if trouble is None else batch._replace(result=trouble)


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


def text_of(error: BaseException) -> str:
    """An error in one line, with its kind unless it is one of ours."""
    kind = "" if isinstance(error, SurepickError) else f"{type(error).__name__}: "
    return f"{kind}{' '.join(str(error).split())}"
