"""Many seeded runs of one algorithm on a problem, in parallel.

Run i depends on (seed, i) only: `SeedSequence(seed, spawn_key=(i,))` is split into the seed of the instance, the
noise and the seed of the learner. So results are the same for any number of processes, the first 50 of 100 runs are
those of a call with 50, and two algorithms meet the same instances and the same noise.
"""

import reprlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from typing import Any

import numpy as np

from surepick.core.checks import check_count, check_delta, check_epsilon, check_seed
from surepick.errors import InvalidInput
from surepick.simulation.dispatch import dispatch
from surepick.simulation.one_run import AnyProblem, Job, Outcome, prepared, run_once
from surepick.simulation.progress import State, shown
from surepick.simulation.runs import MEASURED, Runs


def simulate(  # noqa: PLR0913 (every argument is an option of its own)
    problem: AnyProblem | Callable[[int], AnyProblem],
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
    progress: bool | Callable[[int, int], None] = False,
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
    _check_kinds(problem, algorithm, bounds, progress, options)
    index = range(check_count("n_runs", n_runs, least=1)) if only is None else _checked_only(only)
    epsilon = check_epsilon(epsilon)
    if bounds and epsilon > 0:
        raise InvalidInput("`bounds` needs epsilon = 0, for with slack fewer pulls suffice; leave one of them out.")
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
    if isinstance(problem, AnyProblem):
        job = job._replace(problem=prepared(problem, delta=job.delta, epsilon=epsilon, bounds=bounds))

    def tell(state: State) -> None:
        if callable(progress) and state.done:
            progress(state.done, state.total)

    outcomes: dict[int, Outcome] = {}
    display = nullcontext(tell) if callable(progress) or not progress else shown(algorithm, each_quarter=True)
    with display as show, closing(dispatch(_batch, [job], [index], show, n_jobs=n_jobs)) as results:
        for done in results:
            outcomes |= done.result
    rows = [outcomes[i] for i in index]
    kinds = {**MEASURED, "lower_bound": np.float64} if bounds else MEASURED
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
    if not (isinstance(problem, AnyProblem) or callable(problem)):
        raise InvalidInput(
            f"`problem` must be a problem or a function that draws one from a seed, got a {type(problem).__name__}; "
            "`surepick.problems` has many, `surepick.problems.Problem(X=..., theta=..., name=...)` makes your own."
        )
    is_flag = isinstance(progress, bool | np.bool_)
    for name, value, is_right, needed in (
        ("algorithm", algorithm, isinstance(algorithm, str), "a name; `surepick.algorithms()` lists them"),
        ("bounds", bounds, isinstance(bounds, bool | np.bool_), "True or False"),
        ("progress", progress, is_flag or callable(progress), "True, False or a function of (runs done, runs in all)"),
    ):
        if not is_right:
            raise InvalidInput(f"`{name}` must be {needed}, got {reprlib.repr(value)}.")
    for name in [name for name in ("arms", "candidates", "noise_std") if name in options]:
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
