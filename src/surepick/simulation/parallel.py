"""Many runs of many jobs: in this process, in several, or on a Dask cluster, with progress on standard error.

`dispatch` cuts the work into batches of runs of one job, taken from all jobs in turn. A batch lasts about
`BATCH_SECONDS`, estimated from earlier runs of the job: a killed process loses little, and sending takes little time.
The outcome of a run does not depend on batches, processes or machines.

`simulate` runs one algorithm on one problem. Run i depends on (seed, i) only. So results are the same for any number of
processes, the first 50 of 100 runs are those of a call with 50, and two algorithms meet the same instances and the same
noise.
"""

import logging
import os
import reprlib
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from functools import cache
from importlib.util import find_spec
from itertools import islice
from typing import Any, Literal, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

from surepick.algorithms import as_algorithm, check_algorithm_object, check_options
from surepick.core.checks import check_count, check_delta, check_epsilon, check_seed
from surepick.errors import InvalidInput, SurepickError
from surepick.learning.learner import Learner
from surepick.learning.snapshot import Algorithm
from surepick.simulation.run import (
    AnyProblem,
    Job,
    Outcome,
    goal_of,
    has_normal_noise,
    is_problem,
    prepared,
    run_once,
)
from surepick.simulation.runs import MEASURED, Runs

LINE_SECONDS = 30.0
"""Time between two lines of progress if standard error is not a terminal."""
BATCH_SECONDS = 0.5
LARGEST_BATCH = 64
PARENT_SECONDS = 1.0
"""Time between two looks of a process at its parent."""
DASK_SECONDS = 60.0
"""Time to wait for a Dask cluster and its first worker."""

_one_at_a_time = threading.Lock()


class State(NamedTuple):
    """Progress of many runs."""

    done: int
    total: int
    """Runs to do. Runs that existed before count neither here nor in `done`."""
    seconds_left: float | None
    """Estimated time left, from the earlier runs of each job; None at first."""

    def __str__(self) -> str:
        if self.seconds_left is None or self.done == self.total:
            return f"{self.done} of {self.total} runs"
        minutes, seconds = divmod(round(self.seconds_left), 60)
        return f"{self.done} of {self.total} runs, about {minutes // 60}:{minutes % 60:02d}:{seconds:02d} left"


Show = Callable[[State], None]


@contextmanager
def shown(label: str, *, each_quarter: bool = False) -> Iterator[Show]:
    """Yield a function that shows progress after each batch: a bar on a terminal, else occasional lines.

    With `each_quarter`, a line also appears at every quarter of the runs.
    """
    if not sys.stderr.isatty() or find_spec("rich") is None:
        yield _lines(label, each_quarter=each_quarter)
        return
    from rich.console import Console  # noqa: PLC0415 (optional)
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[state]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None, state="")
        yield lambda state: bar.update(task, completed=state.done, total=state.total, state=str(state))


def _lines(label: str, *, each_quarter: bool) -> Show:
    said, quarter = time.monotonic(), 0

    def show(state: State) -> None:
        nonlocal said, quarter
        reached = 4 * state.done // max(state.total, 1)
        if time.monotonic() - said > LINE_SECONDS or (each_quarter and reached > quarter):
            said, quarter = time.monotonic(), reached
            sys.stderr.write(f"{label}: {state}\n")

    return show


class Batch(NamedTuple):
    """Some runs of one job, and their result."""

    number: int
    """Place of the job in the list."""
    runs: list[int]
    result: Any = None
    """The value that the work returned; an error if machines were lost for reasons outside the runs."""
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
    """Yield batches as they finish, in any order. The caller closes the generator.

    Args:
        work: does a batch, in any process.
        jobs: the jobs; each batch is sent with its own.
        missing: the runs to do, by job.
        show: called at the start, and whenever the caller asks for the next batch.
        n_jobs: processes, also of a local Dask cluster; 1 is this one, -1 one per core.
        dask: address of a Dask scheduler such as "tcp://host:8786", or "local" for a cluster on this machine.

    Raises:
        InvalidInput: `dask` is not an address.
        SurepickError: processes or machines were lost. Errors of the work itself are passed on.
    """
    total = sum(map(len, missing))
    n_workers = n_processes(n_jobs, total or 1)
    is_here = n_workers == 1 and dask is None
    # In this process, batches of one run: a finished run does not wait for others.
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
    """The order of the batches, and an estimate of the time left."""

    def __init__(self, missing: Sequence[Sequence[int]], *, largest: int) -> None:
        self._missing, self._largest = missing, largest
        self._seconds, self._n_timed = [0.0] * len(missing), [0] * len(missing)
        self._start = time.perf_counter()

    def batches(self) -> Iterator[Batch]:
        """Yield all batches; each is cut on demand."""
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
        """Take in the time of a batch."""
        self._seconds[done.number] += done.seconds
        self._n_timed[done.number] += len(done.runs)

    @property
    def n_done(self) -> int:
        """Runs that are finished."""
        return sum(self._n_timed)

    @property
    def seconds_left(self) -> float | None:
        """Time left at the pace so far; None until every job with runs left has been timed."""
        sizes, spent = map(len, self._missing), sum(self._seconds)
        left = [job for job in zip(sizes, self._n_timed, self._seconds, strict=True) if job[0] > job[1]]
        if not all(n_timed for _, n_timed, _ in left) or not spent:
            return None
        pace = (time.perf_counter() - self._start) / spent
        return pace * sum((n - n_timed) * seconds / n_timed for n, n_timed, seconds in left)


def _do(work: Work, job: Any, batch: Batch) -> Batch:
    """Do a batch, in any process."""
    start = time.perf_counter()
    with _one_at_a_time:  # a cluster process may have several threads, but only one BLAS whose threads are limited
        result = work(job, batch.runs)
    return batch._replace(result=result, seconds=time.perf_counter() - start)


def _do_in_process(parent: int, *task: Any) -> Batch:
    # Ctrl-C reaches every process of the terminal; only the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with(parent)
    return _do(*task)


@cache
def _end_with(parent: int) -> None:
    """End this process soon after its parent ends, which a killed parent cannot see to; called once for each parent."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _in_processes(tasks: Iterator[Any], n_workers: int) -> Generator[Batch, None, None]:
    try:
        from joblib import Parallel, delayed, parallel_config  # noqa: PLC0415 (optional)
        from joblib.externals.loky.process_executor import BrokenProcessPool  # noqa: PLC0415
    except ImportError as error:
        raise SurepickError("more than one process needs joblib; install surepick[bench] or ask for one.") from error
    with parallel_config(backend="loky", inner_max_num_threads=1):
        results = Parallel(n_jobs=n_workers, batch_size=1, pre_dispatch="2*n_jobs", return_as="generator_unordered")(
            delayed(_do_in_process)(os.getpid(), *task) for task in tasks
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
            # The executor's own shutdown can deadlock if Ctrl-C comes at a bad moment.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # running processes are killed on purpose
                results.close()


def _on_dask(tasks: Iterator[Any], address: str, n_jobs: int) -> Generator[Batch, None, None]:
    try:
        from distributed import Client, as_completed  # noqa: PLC0415 (optional)
        from distributed.comm import get_address_host_port  # noqa: PLC0415
    except ImportError as error:
        raise SurepickError("Dask is not installed; install surepick[dask] or leave it out.") from error
    if address != "local":
        try:
            # A client with a wrong address is never closed, and delays the end of the interpreter by a minute.
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
            # Such an error does not come from a run: the batch lost several workers, or workers lack a package.
            trouble = future.exception()
            yield future.result() if trouble is None else batch._replace(result=trouble)


def _local_cluster(n_jobs: int) -> Any:
    from distributed import LocalCluster  # noqa: PLC0415 (optional)

    with _ignoring_interrupts():
        return LocalCluster(
            n_workers=n_processes(n_jobs, sys.maxsize),
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",  # any free port
            silence_logs=logging.CRITICAL,
        )


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Make processes started in this context ignore Ctrl-C, which reaches every process of the terminal."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def text_of(error: BaseException) -> str:
    """Return an error as one line, with its type unless surepick raised the error."""
    kind = "" if isinstance(error, SurepickError) else f"{type(error).__name__}: "
    return f"{kind}{' '.join(str(error).split())}"


def simulate(  # noqa: PLR0913 (every argument is an option of its own)
    problem: AnyProblem | Callable[[int], AnyProblem],
    algorithm: str | Algorithm = "lazy-track-and-stop",
    *,
    delta: float = 0.05,
    epsilon: float = 0.0,
    noise_std: float | ArrayLike | Literal["known"] | None = "known",
    audit: int | Literal["auto"] = 0,
    n_runs: int = 100,
    seed: int = 0,
    n_jobs: int = 1,
    max_pulls: int | None = None,
    bounds: bool = False,
    trace: bool = False,
    only: Sequence[int] | None = None,
    progress: bool | Callable[[int, int], None] = False,
    **options: Any,
) -> Runs:
    """Run the algorithm `n_runs` times until it stops.

    Args:
        problem: a problem, or a function of a seed that draws one for each run. A problem of your own is a `Problem`
            with a `pull` of its own, or any object with `X` (the arms), `name`, `pull(arm, rng)` and `loss(answer)`.
        algorithm: its name, see `surepick.algorithms.names()`, or an object such as `surepick.algorithms.Rage()`.
        delta: accepted probability of a wrong answer.
        epsilon: slack; an answer that loses at most epsilon is correct. A problem on a set of vectors has its own.
        noise_std: what the algorithm is told about the noise: "known" is the problem's own `noise_std`, None nothing
            (the noise is learnt, as by default in `surepick.identify`), numbers are passed on.
        audit: check pulls after the verdict, as in `surepick.identify`. They count as pulls, and a run whose answer
            they withdraw counts as not stopped.
        n_runs: number of runs.
        seed: seed of all runs; the same seed gives the same runs.
        n_jobs: processes; 1 runs in this one, -1 uses every core. More than one needs joblib.
        max_pulls: most pulls of a run, a million unless given. A run that reaches this limit counts as not stopped; it
            is never dropped. Needed, or `epsilon`, where the best arms are equally good: a run would not end.
        bounds: also compute the lower bound of each run's instance, with `costs` that on the cost, with
            groups="offset" that of groups of any size. It is for normal noise.
        trace: also record evidence and pulls of every arm on the way, see `Runs.traces`.
        only: numbers of the runs to do instead of 0..n_runs-1, for example to repeat a slow run.
        progress: show the progress on standard error, or call a function with (runs done, runs in all).
        options: options of the learner and of the algorithm. `reward_range`, `rewards` and `noise` take the place of
            the problem's `noise_std`: rewards are drawn from that noise model, unless the problem has a `pull` of its
            own. With m above 1 an answer is a set, and wrong if any of its arms is not among the m best. With
            `threshold` or `control`, a row number, an answer is wrong if any call is off by more than epsilon. The
            items of a `surepick.problems.PoolProblem` are asked in the random order of each run. A function is called
            with the problem of the run and must return the option: `theta=lambda problem: problem.theta` tells an
            oracle theta.

    Raises:
        InvalidInput: an argument cannot be used. An error inside a run carries a note with the run's number.
    """
    _check_kinds(problem, algorithm, bounds, progress, options)
    label = algorithm if isinstance(algorithm, str) else as_algorithm(algorithm, {})[1]
    if not (isinstance(noise_std, str) and noise_std == "known"):
        options["noise_std"] = noise_std
    if audit != "auto":
        audit = check_count("audit", audit, least=0)
    check_options(options, algorithm, simulate, Learner.__init__)
    index = range(check_count("n_runs", n_runs, least=1)) if only is None else _checked_only(only)
    epsilon = check_epsilon(epsilon)
    if bounds and epsilon > 0 and options.get("m", 1) != 1:
        raise InvalidInput(
            "`bounds` needs epsilon = 0 beside m > 1, for which no bound is known; leave one of them out."
        )
    if bounds and not has_normal_noise(options):
        raise InvalidInput(
            "`bounds` needs normal noise: no lower bound is known for rewards between bounds and for heavier tails; "
            "leave it out."
        )
    job = Job(
        problem=problem,
        algorithm=algorithm,
        delta=check_delta(delta),
        epsilon=epsilon,
        seed=check_seed(seed),
        max_pulls=10**6 if max_pulls is None else check_count("max_pulls", max_pulls, least=1),
        bounds=bounds,
        options=options,
        audit=audit,
        trace=bool(trace),
        refuses_ties=max_pulls is None and not epsilon and "budget" not in options,
    )
    if is_problem(problem):
        goal = goal_of(options)
        job = job._replace(problem=prepared(problem, delta=job.delta, epsilon=epsilon, bounds=bounds, goal=goal))

    def tell(state: State) -> None:
        if callable(progress) and state.done:
            progress(state.done, state.total)

    outcomes: dict[int, Outcome] = {}
    display = nullcontext(tell) if callable(progress) or not progress else shown(label, each_quarter=True)
    with display as show, closing(dispatch(_batch, [job], [index], show, n_jobs=n_jobs)) as results:
        for done in results:
            outcomes |= done.result
    return collect(job, label, {run: outcomes[run] for run in index}, is_redrawn=not is_problem(problem))


def collect(job: Job, algorithm: str, outcomes: Mapping[int, Outcome], *, is_redrawn: bool = False) -> Runs:
    """Return finished runs as arrays, ordered by run number."""
    rows = list(outcomes.values())
    kinds = {**MEASURED, "cost": np.float64} | ({"lower_bound": np.float64} if job.bounds else {})
    return Runs(
        problem=rows[0].problem,
        is_redrawn=is_redrawn,
        algorithm=algorithm,
        options=job.options,
        delta=job.delta,
        epsilon=rows[0].epsilon,
        seed=job.seed,
        max_pulls=job.max_pulls,
        index=np.array(list(outcomes), dtype=np.int64),
        traces=tuple(row.trace for row in rows if row.trace is not None),
        **{name: np.array([getattr(row, name) for row in rows], dtype=kind) for name, kind in kinds.items()},
    )


def _batch(job: Job, runs: list[int]) -> dict[int, Outcome]:
    outcomes = {}
    for run in runs:
        try:
            outcomes[run] = run_once(job, run)
        except Exception as error:
            error.add_note(f"in run {run} of simulate(seed={job.seed}); simulate(..., only=[{run}]) repeats it")
            raise
    return outcomes


def _check_kinds(
    problem: object, algorithm: object, bounds: object, progress: object, options: Mapping[str, Any]
) -> None:
    if not (is_problem(problem) or callable(problem)):
        raise InvalidInput(
            f"`problem` must be a problem or a function that draws one from a seed, got a {type(problem).__name__}; "
            "`surepick.problems` has many, `surepick.problems.Problem(X=..., theta=..., name=...)` makes your own, and "
            "so does a class with X, name, pull(arm, rng) and loss(answer)."
        )
    check_algorithm_object(algorithm)
    is_flag = isinstance(progress, bool | np.bool_)
    for name, value, is_right, needed in (
        ("bounds", bounds, isinstance(bounds, bool | np.bool_), "True or False"),
        ("progress", progress, is_flag or callable(progress), "True, False or a function of (runs done, runs in all)"),
    ):
        if not is_right:
            raise InvalidInput(f"`{name}` must be {needed}, got {reprlib.repr(value)}.")
    for name in [name for name in ("arms", "candidates") if name in options]:
        raise InvalidInput(
            f"`options` must be options of the algorithm, got `{name}`, which the problem brings; "
            "give it to the problem and leave it out here."
        )


def _checked_only(only: Any) -> list[int]:
    try:
        listed = [] if isinstance(only, str | bytes | Mapping) else list(only)
    except TypeError:
        listed = []
    index = [check_count(f"only[{place}]", run, least=0) for place, run in enumerate(listed)]
    if not index or len(set(index)) < len(index):
        needed = "a list of one or more different runs by numbers of at least 0, such as [3, 7]"
        raise InvalidInput(f"`only` must be {needed}, got {reprlib.repr(only)}.")
    return index
