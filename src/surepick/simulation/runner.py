"""Many seeded runs of one algorithm on a problem, in parallel.

Run i depends on (seed, i) only: `SeedSequence(seed, spawn_key=(i,))` is split into the seed of the instance, the
noise and the seed of the learner. So results are the same for any number of processes, the first 50 of 100 runs are
those of a call with 50, and two algorithms meet the same instances and the same noise.
"""

import reprlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from surepick.arms.finite import FiniteArms
from surepick.arms.vectors import VectorSet
from surepick.core.checks import check_count, check_delta, check_epsilon, check_seed
from surepick.core.design import lower_bound
from surepick.core.linalg import one_blas_thread
from surepick.errors import InvalidInput
from surepick.learning.learner import Algorithm, Learner, create_learner
from surepick.simulation.problems import Problem, VectorProblem
from surepick.simulation.processes import in_processes
from surepick.simulation.progress import OnProgress, reporting
from surepick.simulation.runs import Array, Runs

AnyProblem = Problem | VectorProblem
ProblemSource = AnyProblem | Callable[[int], AnyProblem]
"""A problem, or a function that draws one from a seed."""


def simulate(  # noqa: PLR0913 (every argument is an option of its own)
    problem: ProblemSource,
    algorithm: str = "lazy-track-and-stop",
    *,
    delta: float = 0.05,
    epsilon: float = 0.0,
    n_runs: int = 100,
    seed: int = 0,
    n_jobs: int = 1,
    max_pulls: int = 10**6,
    bounds: bool = False,
    only: Sequence[int] | None = None,
    progress: bool | OnProgress = False,
    **options: Any,
) -> Runs:
    """Run the algorithm `n_runs` times until it stops.

    Args:
        problem: a problem, or a function of a seed that draws one for each run.
        algorithm: its name, see `surepick.algorithms`.
        delta: risk the algorithm is asked for.
        epsilon: slack the algorithm is given; an answer that loses at most this is correct. A problem on a set of
            vectors brings its own.
        n_runs: how many runs.
        seed: of everything; the same seed gives the same runs.
        n_jobs: processes; 1 runs in this one, -1 uses every core. More than one needs joblib.
        max_pulls: where a run is given up. It is counted as not stopped, never dropped.
        bounds: also compute the lower bound of each run's instance.
        only: numbers of the runs to do instead of 0..n_runs-1, say to look at a slow one again.
        progress: show the progress on standard error, or call a function with (runs done, runs in all).
        options: options of the algorithm. A function is called with the run's problem and must return the option:
            `theta=lambda problem: problem.theta` tells an oracle what it is allowed to know.

    Raises:
        InvalidInput: an argument cannot be used. An error inside a run carries a note with the run's number.
    """
    _check_kinds(problem, algorithm, bounds, progress)
    _check_options(options)
    index = range(check_count("n_runs", n_runs, least=1)) if only is None else _checked_only(only)
    epsilon = check_epsilon(epsilon)
    if bounds and epsilon > 0:
        raise InvalidInput(
            "`bounds` holds for epsilon = 0 alone: with slack fewer pulls suffice; leave one of them out."
        )
    job = Job(
        problem=problem,
        algorithm=algorithm,
        delta=check_delta(delta),
        epsilon=epsilon,
        seed=check_seed(seed),
        max_pulls=check_count("max_pulls", max_pulls, least=1),
        bounds=bounds,
        options=options,
    )
    outcomes: dict[int, Outcome] = {}
    with reporting(progress, algorithm) as on_progress:
        for batch in _batches(job, index, n_processes(n_jobs, len(index))):
            outcomes |= batch
            on_progress(len(outcomes), len(index))
    rows = [outcomes[i] for i in index]
    return Runs(
        problem=rows[0].problem,
        is_redrawn=not isinstance(problem, AnyProblem),
        algorithm=algorithm,
        options=options,
        delta=job.delta,
        epsilon=rows[0].epsilon,
        seed=job.seed,
        max_pulls=job.max_pulls,
        index=np.array(index, dtype=np.int64),
        n_pulls=np.array([row.n_pulls for row in rows], dtype=np.int64),
        correct=np.array([row.correct for row in rows]),
        stopped=np.array([row.stopped for row in rows]),
        seconds=np.array([row.seconds for row in rows]),
        support=np.array([row.support for row in rows], dtype=np.int64),
        lower_bound=np.array([row.bound for row in rows]) if bounds else None,
    )


def _check_kinds(problem: object, algorithm: object, bounds: object, progress: object) -> None:
    if not (isinstance(problem, AnyProblem) or callable(problem)):
        raise InvalidInput(
            f"`problem` must be a problem or a function that draws one from a seed, got a {type(problem).__name__}; "
            "`surepick.problems` has many, `surepick.problems.Problem(X=..., theta=..., name=...)` makes your own."
        )
    if not isinstance(algorithm, str):
        raise InvalidInput(
            f"`algorithm` must be a name, got {reprlib.repr(algorithm)}; `surepick.algorithms()` lists them."
        )
    if not isinstance(bounds, bool | np.bool_):
        raise InvalidInput(f"`bounds` must be True or False, got {reprlib.repr(bounds)}; pass one of them.")
    if not (isinstance(progress, bool | np.bool_) or callable(progress)):
        raise InvalidInput(
            f"`progress` must be True, False or a function of (runs done, runs in all), got {reprlib.repr(progress)}; "
            "pass one of them."
        )


def _check_options(options: Mapping[str, Any]) -> None:
    for name in ("arms", "candidates", "noise_std"):
        if name in options:
            raise InvalidInput(
                f"`options` must be options of the algorithm, got `{name}`, which the problem brings; "
                "give it to the problem and leave it out here."
            )


def _checked_only(only: Any) -> list[int]:
    needed = "a list of different runs by numbers of at least 0"
    try:
        listed = None if isinstance(only, str | bytes | Mapping) else list(only)
    except TypeError:
        listed = None
    if listed is None:
        raise InvalidInput(f"`only` must be {needed}, got {reprlib.repr(only)}; pass a list such as [3, 7].")
    index = [check_count(f"only[{place}]", run, least=0) for place, run in enumerate(listed)]
    if not index or len(set(index)) < len(index):
        raise InvalidInput(f"`only` must be {needed}, got {reprlib.repr(index)}; name each run once and at least one.")
    return index


class Seeds(NamedTuple):
    """What one run draws from."""

    instance: int
    noise: np.random.SeedSequence
    learner: int


def run_seeds(seed: int, run: int) -> Seeds:
    """Return the seeds of run number `run`; a function of its arguments alone."""
    instance, noise, learner = np.random.SeedSequence(seed, spawn_key=(run,)).spawn(3)
    return Seeds(int(instance.generate_state(1)[0]), noise, int(learner.generate_state(1)[0]))


@final
@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything the runs share; sent to the processes once per batch."""

    problem: ProblemSource
    algorithm: str | Callable[..., Algorithm]
    """A name, or a class with the algorithm's options as arguments."""
    delta: float
    epsilon: float
    seed: int
    max_pulls: int
    bounds: bool
    options: Mapping[str, Any]


class Outcome(NamedTuple):
    """What is kept of one run."""

    problem: str
    epsilon: float
    n_pulls: int
    correct: bool
    stopped: bool
    seconds: float
    support: int
    evidence: float
    target: float
    bound: float


class Instance(NamedTuple):
    """A problem made ready for runs."""

    problem: AnyProblem
    arms: FiniteArms | VectorSet
    mean: Callable[[Any], float]
    """Mean reward of an arm."""
    epsilon: float
    bound: float


def n_processes(n_jobs: int, n_runs: int) -> int:
    """Processes for n_runs runs; -1 asks for one per core."""
    if n_jobs == -1:
        import os  # noqa: PLC0415

        n_jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(check_count("n_jobs", n_jobs, least=1), n_runs)


def _batches(job: Job, index: Sequence[int], n_processes: int) -> Iterator[dict[int, Outcome]]:
    """Yield outcomes as they come, in any order."""
    if n_processes == 1:
        cache: dict[str, Instance] = {}
        for i in index:
            yield {i: _run(job, i, cache)}
        return
    # Runs differ in length, so many small batches; yet a batch shares the problem's set-up.
    size = max(1, len(index) // (8 * n_processes))
    batches = ((job, index[start : start + size]) for start in range(0, len(index), size))
    with closing(in_processes(_batch, batches, n_processes)) as results:
        yield from results


def _batch(job: Job, index: Sequence[int]) -> dict[int, Outcome]:
    cache: dict[str, Instance] = {}
    return {i: _run(job, i, cache) for i in index}


def _run(job: Job, run: int, cache: dict[str, Instance]) -> Outcome:
    try:
        if isinstance(job.problem, AnyProblem) and "problem" not in cache:
            cache["problem"] = prepared(job.problem, job)
        return run_once(job, run, cache.get("problem"))
    except Exception as error:
        error.add_note(f"in run {run} of simulate(seed={job.seed}); simulate(..., only=[{run}]) repeats it")
        raise


# One BLAS thread here too: sums are then added in the same order in every process.
@one_blas_thread
def run_once(
    job: Job, run: int, instance: Instance | None = None, watch: Callable[[Learner], object] | None = None
) -> Outcome:
    """Do one run, a function of the job and the run's number.

    Args:
        job: what all runs share.
        run: its number.
        instance: the job's problem if already prepared.
        watch: called with the learner after every pull; looking changes nothing but the time.
    """
    seeds = run_seeds(job.seed, run)
    if instance is None:
        problem = job.problem if isinstance(job.problem, AnyProblem) else job.problem(seeds.instance)
        if not isinstance(problem, AnyProblem):
            raise InvalidInput(
                f"`problem` must be a function that returns a problem, got one that returned a "
                f"{type(problem).__name__}; let it return what `surepick.problems` makes."
            )
        instance = prepared(problem, job)
    start = time.thread_time()
    learner = new_learner(job, instance, seeds.learner)
    noise = _noise(instance.problem.noise_std, seeds.noise)
    n_pulls = 0
    while not learner.stopped and n_pulls < job.max_pulls:
        for arm in learner.next_arms():
            learner.tell(arm, instance.mean(arm) + next(noise))
            n_pulls += 1
            if watch is not None:
                watch(learner)
    seconds = time.thread_time() - start
    decision = learner.decision
    return Outcome(
        problem=instance.problem.name,
        epsilon=instance.epsilon,
        n_pulls=decision.n_pulls,
        correct=bool(decision.stopped) and _is_right(instance.problem, decision.best, instance.epsilon),
        stopped=bool(decision.stopped),
        seconds=seconds,
        support=sum(1 for count in learner.counts.values() if count),
        evidence=float(decision.evidence),
        target=float(decision.target),
        bound=instance.bound,
    )


def new_learner(job: Job, instance: Instance, seed: int) -> Learner:
    """Return a learner at its start."""
    problem = instance.problem
    options = {name: value(problem) if callable(value) else value for name, value in job.options.items()}
    arguments: dict[str, Any] = {
        "delta": job.delta,
        "noise_std": problem.noise_std,
        "epsilon": instance.epsilon,
        "candidates": problem.candidates if isinstance(problem, Problem) else None,
        "seed": seed,
    }
    if isinstance(job.algorithm, str):
        return create_learner(job.algorithm, instance.arms, **arguments, **options)
    name = getattr(job.algorithm, "__name__", "")
    return Learner(job.algorithm(**options), instance.arms, **arguments, name=name)


@one_blas_thread
def prepared(problem: AnyProblem, job: Job) -> Instance:
    """Make a problem ready, its lower bound included if the job asks for it."""
    if isinstance(problem, VectorProblem):
        if job.epsilon:
            raise InvalidInput(f"`epsilon` belongs to {problem.name}, which has {problem.epsilon:g}; leave it out.")
        bound = problem.lower_bound(job.delta) if job.bounds else np.nan
        return Instance(problem, problem.vectors, problem.mean, problem.epsilon, bound)
    arms = FiniteArms(problem.X)
    bound = np.nan
    if job.bounds and not job.epsilon:  # with slack fewer pulls suffice, and no bound is known here
        bound = lower_bound(arms, problem.theta, job.delta, problem.noise_std, problem.candidates)
    return Instance(problem, arms, (problem.X @ problem.theta).tolist().__getitem__, job.epsilon, bound)


def _noise(noise_std: float, seeds: np.random.SeedSequence) -> Iterator[float]:
    """The noise of pull 1, 2, ...; drawn in growing chunks, which does not change the numbers."""
    rng = np.random.default_rng(seeds)
    size = 256
    while True:
        chunk: Array = noise_std * rng.standard_normal(size)
        yield from chunk.tolist()
        size = min(2 * size, 2**16)


def _is_right(problem: AnyProblem, answer: Any, epsilon: float) -> bool:
    if answer is None:
        return False
    if isinstance(problem, VectorProblem):
        return problem.loss(answer) <= epsilon
    # A copy of the best row is as good, whatever rounding says about its gap.
    is_copy = np.array_equal(problem.answers[answer], problem.answers[problem.best])
    return is_copy or bool(problem.gaps[answer] <= epsilon)
