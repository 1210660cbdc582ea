"""One seeded run of an algorithm on a problem.

Run i depends on (seed, i) only: `SeedSequence(seed, spawn_key=(i,))` is split into the seed of the instance, the
noise and the seed of the learner.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from surepick.arms.base import VectorSet
from surepick.arms.finite import FiniteArms
from surepick.core.design import lower_bound
from surepick.core.linalg import one_blas_thread
from surepick.errors import InvalidInput
from surepick.learning.learner import Learner
from surepick.learning.noise_models import SubGaussian, noise_model
from surepick.learning.snapshot import Algorithm
from surepick.simulation.problems import Problem, VectorProblem
from surepick.simulation.runs import Array

AnyProblem = Problem | VectorProblem


class Seeds(NamedTuple):
    """What one run draws from."""

    instance: int
    noise: np.random.SeedSequence
    learner: int


def run_seeds(seed: int, run: int) -> Seeds:
    """Return the seeds of run number `run`; a function of its arguments alone."""
    instance, noise, learner = np.random.SeedSequence(seed, spawn_key=(run,)).spawn(3)
    return Seeds(int(instance.generate_state(1)[0]), noise, int(learner.generate_state(1)[0]))


class Job(NamedTuple):
    """Everything the runs share; sent to the processes once per batch."""

    problem: "Instance | AnyProblem | Callable[[int], AnyProblem]"
    """Best made ready, or a function that draws one from a seed."""
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
    lower_bound: float


class Instance(NamedTuple):
    """A problem made ready for runs."""

    problem: AnyProblem
    arms: FiniteArms | VectorSet
    mean: Callable[[Any], float]
    """Mean reward of an arm."""
    epsilon: float
    bound: float


# One BLAS thread here too: sums are then added in the same order in every process.
@one_blas_thread
def run_once(job: Job, run: int, watch: Callable[[Learner, Any], object] | None = None) -> Outcome:
    """Do one run, a function of the job and the run's number.

    Args:
        job: what all runs share.
        run: its number.
        watch: called with the learner and the arm after every pull; neither what it does nor its time counts.
    """
    seeds = run_seeds(job.seed, run)
    instance = instance_of(job, seeds)
    start = time.thread_time()
    learner = new_learner(job, instance, seeds.learner)
    measure = _measurement(learner, instance.problem.noise_std, seeds.noise)
    n_pulls = 0
    while not learner.stopped and n_pulls < job.max_pulls:
        for arm in learner.next_arms():
            learner.tell(arm, measure(arm, instance.mean(arm)))
            n_pulls += 1
            if watch is not None:
                paused = time.thread_time()
                watch(learner, arm)
                start += time.thread_time() - paused
    seconds = time.thread_time() - start
    decision = learner.decision
    best: Any = decision.best
    return Outcome(
        problem=instance.problem.name,
        epsilon=instance.epsilon,
        n_pulls=decision.n_pulls,
        correct=bool(decision.stopped and best is not None and instance.problem.loss(best) <= instance.epsilon),
        stopped=bool(decision.stopped),
        seconds=seconds,
        support=sum(1 for count in learner.counts.values() if count),
        evidence=float(decision.evidence),
        target=float(decision.target),
        lower_bound=float(instance.bound),
    )


def instance_of(job: Job, seeds: Seeds) -> Instance:
    """The problem of a run, made ready."""
    if isinstance(job.problem, Instance):
        return job.problem
    problem = job.problem if isinstance(job.problem, AnyProblem) else job.problem(seeds.instance)
    if not isinstance(problem, AnyProblem):
        raise InvalidInput(
            f"`problem` must be a function that returns a problem, got one that returned a "
            f"{type(problem).__name__}; let it return what `surepick.problems` makes."
        )
    return prepared(problem, delta=job.delta, epsilon=job.epsilon, bounds=job.bounds)


def new_learner(job: Job, instance: Instance, seed: int) -> Learner:
    """Return a learner at its start."""
    problem = instance.problem
    options = {name: value(problem) if callable(value) else value for name, value in job.options.items()}
    spelled = {name: options.pop(name) for name in ("noise", "reward_range", "rewards") if name in options}
    arguments: dict[str, Any] = {
        "delta": job.delta,
        "noise": noise_model(**spelled) if spelled else SubGaussian(problem.noise_std),
        "epsilon": instance.epsilon,
        "candidates": problem.candidates if isinstance(problem, Problem) else None,
        "seed": seed,
    }
    if isinstance(job.algorithm, str):
        return Learner(job.algorithm, instance.arms, **arguments, **options)
    return Learner(job.algorithm(**options), instance.arms, **arguments)


@one_blas_thread
def prepared(problem: AnyProblem, *, delta: float, epsilon: float, bounds: bool) -> Instance:
    """Make a problem ready, its lower bound included if asked for."""
    if isinstance(problem, VectorProblem):
        if epsilon:
            raise InvalidInput(f"`epsilon` belongs to {problem.name}, which has {problem.epsilon:g}; leave it out.")
        bound = problem.lower_bound(delta) if bounds else np.nan
        return Instance(problem, problem.vectors, problem.mean, problem.epsilon, bound)
    arms = FiniteArms(problem.X)
    bound = np.nan
    if bounds and not epsilon:  # with slack fewer pulls suffice, and no bound is known here
        bound = lower_bound(arms, problem.theta, delta, problem.noise_std, problem.candidates)
    return Instance(problem, arms, (problem.X @ problem.theta).tolist().__getitem__, epsilon, bound)


def _measurement(learner: Learner, noise_std: float, seeds: np.random.SeedSequence) -> Callable[[Any, float], float]:
    """Return a function from an arm and its mean to a reward, by the learner's noise model."""
    model = learner.noise_model
    if isinstance(model, SubGaussian):
        noise = _noise(model.scale, seeds)
        return lambda _, mean: mean + next(noise)
    rng, number_of = np.random.default_rng(seeds), learner.measured_arms.number_of
    return lambda arm, mean: float(model.draw(rng, np.array([mean]), np.array([number_of(arm)]), noise_std)[0])


def _noise(noise_std: float, seeds: np.random.SeedSequence) -> Iterator[float]:
    """The noise of pull 1, 2, ...; drawn in growing chunks, which does not change the numbers."""
    rng = np.random.default_rng(seeds)
    size = 256
    while True:
        chunk: Array = noise_std * rng.standard_normal(size)
        yield from chunk.tolist()
        size = min(2 * size, 2**16)
