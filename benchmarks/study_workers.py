"""Pulls that a study needs with sixteen workers who never wait, beside one worker's, by a simulated clock."""

import heapq
import itertools
import math
from collections.abc import Sequence

import numpy as np
from joblib import Parallel, delayed

from surepick.simulation import problems
from surepick.simulation.problems import Problem
from surepick.study.admin import create_study

N_RUNS, N_WORKERS, DELTA, SEED = 200, 16, 0.05, 1810
PROBLEMS: dict[str, Problem] = {
    "many arms K=1000": problems.many_arms(1000),
    "basis .5, .2, .1, 0, -.1": problems.unit_basis((0.5, 0.2, 0.1, 0.0, -0.1)),
    "Soare d=6, angle .1": problems.soare(6),
    "unit sphere d=5 K=50": problems.sphere(5, 50),
    "Soare d=2, angle .1": problems.soare(2),
}


def pulls(problem: Problem, n_workers: int, seed: int) -> tuple[int, bool]:
    """Results told until the study stops, and whether its answer is right; delays are exponential with mean 1."""
    noise, delays = (np.random.default_rng([SEED, seed, i]) for i in (0, 1))
    study = create_study(
        "run", arms=problem.X, noise_std=problem.noise_std, delta=DELTA, seed=seed, storage="memory:", lease=None
    )
    order = itertools.count()
    going_on: list[tuple[float, int, int, int, str]] = []

    def give(worker: str, now: float) -> None:
        for ask in study.ask(1, worker=worker):
            done = now + float(delays.exponential())
            heapq.heappush(going_on, (done, next(order), ask.id, ask.arm, worker))

    for i in range(n_workers):
        give(f"w{i}", 0.0)
    while not study.stopped:
        now, _, id_, arm, worker = heapq.heappop(going_on)
        study.tell(id_, problem.pull(arm, noise), worker=worker)
        give(worker, now)
    return len(study.measurements), study.best == problem.best


def workers(n_runs: int = N_RUNS, names: Sequence[str] = tuple(PROBLEMS), n_jobs: int = -1) -> None:
    """Print a row for each problem."""
    print(f"{n_runs} runs each with the seeds 0.. beside {SEED}, delta = {DELTA}, exponential delays; ± standard error")
    print(f"| problem | one worker | {N_WORKERS} workers | ratio | wrong |\n|---|---|---|---|---|")
    for name in names:
        problem = PROBLEMS[name]
        calls = (delayed(pulls)(problem, n, seed) for seed in range(n_runs) for n in (1, N_WORKERS))
        found = np.array(Parallel(n_jobs)(calls)).reshape(n_runs, 2, 2)
        one, many = found[:, 0, 0], found[:, 1, 0]
        ratio = many.mean() / one.mean()
        # Of a ratio of two means of the same runs.
        error = (many - ratio * one).std(ddof=1) / math.sqrt(n_runs) / one.mean()
        cells = [f"{x.mean():,.0f} ± {x.std(ddof=1) / math.sqrt(n_runs):,.0f}" for x in (one, many)]
        wrong = ", ".join(f"{n:.0f}" for n in (found[:, :, 1] == 0).sum(axis=0))
        print(f"| {name} | {cells[0]} | {cells[1]} | {ratio:.2f} ± {error:.2f} | {wrong} |", flush=True)
