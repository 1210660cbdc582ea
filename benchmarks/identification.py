"""Whole identifications: the paper's tables repeated, our defaults against the lower bound, errors, and speed.

All runs are seeded; figures are mean +- standard error over `N_RUNS` runs, delta = .05, noise_std = 1 unless said.
The published figures are those of Jedra and Proutiere (2020), Tables 1, 2 and 4, whose spread is a standard error.
"""

import importlib
import itertools
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import binom

import surepick as sp
from benchmarks._instances import Source, many, unit_sphere
from examples import tiny
from surepick.core.linalg import Array
from surepick.simulation import problems
from surepick.simulation.problems import Problem
from surepick.simulation.published import (
    N_ARMS,
    TABLE_1,
    TABLE_1_NO_AVERAGING,
    TABLE_2,
    TABLE_2_NO_AVERAGING,
    Mean,
)

N_RUNS = 200
N_GATE = 2000
N_JOBS = 2


def paper_tables() -> None:
    """Print our runs of the paper's own settings beside its figures."""
    print(f"\nthe paper's settings, instance as run (random A0, doubling schedule), {N_RUNS} runs, seed 100, 101, ..")
    print(f"{'rule':15s} {'tracking':9s} {'K':>6s} {'ours':>14s} {'published':>14s} {'z':>6s} {'arms pulled':>12s}")
    tables: dict[tuple[str, str], dict[int, Mean]] = {
        ("paper-main", "averaged"): TABLE_1,
        ("paper-main", "current"): TABLE_1_NO_AVERAGING,
        ("paper-appendix", "averaged"): TABLE_2,
        ("paper-appendix", "current"): TABLE_2_NO_AVERAGING,
    }
    # A seed for each row: with one seed all numbers of arms would meet the same noise and look like one result.
    seed = itertools.count(100)
    for (stopping, tracking), published in tables.items():
        for n_arms, figure in published.items():
            runs = sp.simulate(
                many(n_arms),
                n_runs=N_RUNS,
                seed=next(seed),
                n_jobs=N_JOBS,
                variant="paper",
                stopping=stopping,
                tracking=tracking,
            )
            z = (runs.mean - figure.mean) / math.hypot(runs.se, figure.se)
            print(
                f"{stopping:15s} {tracking:9s} {n_arms:6d} {runs.mean:8.0f} +-{runs.se:4.0f} "
                f"{figure.mean:8.0f} +-{figure.se:4.0f} {z:6.1f} {runs.support.mean():12.1f}",
                flush=True,
            )


def defaults() -> None:
    """Print the default settings against the lower bound and against what was aimed for."""
    cases: list[tuple[str, Source, float, str]] = [
        *((f"many arms K={n_arms}", many(n_arms), 0.05, "<= 150 pulls") for n_arms in N_ARMS),
        ("many arms K=1000, delta 1e-10", many(1000), 1e-10, "<= 1.2 x"),
        ("unit basis 1, .75, .., 0", problems.unit_basis([1, 0.75, 0.5, 0.25, 0]), 0.05, "<= 1150 pulls"),
        ("Soare d=2, angle .1", problems.soare(2, angle=0.1, scale=2.0), 0.05, "<= 1200 pulls"),
        ("Soare d=6, angle .1", problems.soare(6, angle=0.1, scale=2.0), 0.05, "<= 1300 pulls"),
        ("unit sphere d=5 K=50", partial(unit_sphere, 5, 50), 0.05, "<= 3.4 x"),
        ("unit sphere d=10 K=100", partial(unit_sphere, 10, 100), 0.05, "<= 3.8 x"),
    ]
    print(
        f"\ndefault settings, {N_RUNS} runs, seed 20, 21, ..; ratio = mean of pulls / lower bound of the run's instance"
    )
    print(f"{'problem':30s} {'pulls':>14s} {'bound':>7s} {'ratio':>13s} {'90 %':>6s} {'max':>6s} {'wrong':>6s}  aim")
    for seed, (name, problem, delta, aim) in enumerate(cases, start=20):
        runs = sp.simulate(problem, delta=delta, n_runs=N_RUNS, seed=seed, n_jobs=N_JOBS, bounds=True)
        assert runs.lower_bound is not None
        spread = float(runs.ratio.std(ddof=1)) / math.sqrt(N_RUNS)
        print(
            f"{name:30s} {runs.mean:8.0f} +-{runs.se:4.0f} {runs.lower_bound.mean():7.0f} "
            f"{runs.ratio.mean():6.2f} +-{spread:4.2f} {runs.quantiles([0.9])[0]:6.0f} {runs.n_pulls.max():6d} "
            f"{runs.n_errors:6d}  {aim}",
            flush=True,
        )
    runs = sp.simulate(many(1000), n_runs=1000, seed=3, n_jobs=N_JOBS)
    print(
        f"1000 default runs at K=1000, seed 3: {runs.mean:.1f} +- {runs.se:.1f} pulls, median {runs.median:.0f}, "
        f"largest {runs.n_pulls.max()} ({runs.n_pulls.max() / runs.median:.1f} x the median), {runs.n_errors} wrong, "
        f"{runs.seconds.sum():.0f} s of CPU"
    )


def variants() -> None:
    """Print what each departure from the default costs or saves, on the same runs."""
    options: list[dict[str, object]] = [
        {},
        {"schedule": "geometric:1.1"},
        {"schedule": "geometric:1.3"},
        {"schedule": "doubling"},
        {"g_mix": 0.05},
        {"g_mix": 0.2},
        {"tracking": "current"},
        {"exploration": 0.0},
        {"stopping": "evidence"},
        {"stopping": "evidence", "elimination": False, "g_mix": 0.1},
        {"stopping": "heuristic"},
    ]
    cases: dict[str, Source] = {
        "many": many(1000),
        "basis": problems.unit_basis([1, 0.75, 0.5, 0.25, 0]),
        "Soare d=6": problems.soare(6, angle=0.1, scale=2.0),
        "sphere d=5": partial(unit_sphere, 5, 50),
    }
    print("\nvariants of the default, 50 runs each, seed 4: mean pulls / lower bound (s.e.); runs capped at 10^5 pulls")
    print(f"{'variant':28s} " + " ".join(f"{name:>14s}" for name in cases))
    for option in options:
        cells = []
        for problem in cases.values():
            runs = sp.simulate(problem, n_runs=50, seed=4, n_jobs=N_JOBS, bounds=True, max_pulls=10**5, **option)  # type: ignore[arg-type]
            cells.append(f"{runs.ratio.mean():6.2f} ({runs.ratio.std(ddof=1) / math.sqrt(50):4.2f})")
        label = ", ".join(f"{key}={value}" for key, value in option.items()) or "default"
        print(f"{label:28s} " + " ".join(f"{cell:>14s}" for cell in cells), flush=True)


def correctness() -> None:
    """Print errors of whole identifications on near-ties at delta = .3 against the exact binomial limit."""
    limit = int(binom.isf(1e-6, N_GATE, 0.3))
    near = {
        "near-tie d=2": problems.unit_basis([0.02, 0.0]),
        "near-tie d=3": problems.unit_basis([0.02, 0.0, -2.0]),
        "near-tie d=5": problems.unit_basis([0.02, 0.0, -2.0, -2.0, -2.0]),
    }
    print(
        f"\nwrong answers in {N_GATE} runs at delta = .3, horizon 300 pulls, seed 5; limit {limit} (false alarm 1e-6)"
    )
    for stopping in ("betting", "evidence"):
        for name, problem in near.items():
            runs = sp.simulate(
                problem, delta=0.3, n_runs=N_GATE, seed=5, n_jobs=N_JOBS, max_pulls=300, stopping=stopping
            )
            print(
                f"  {stopping:9s} {name:14s} {runs.n_errors:5d} wrong, {int(runs.stopped.sum())} answered", flush=True
            )


def _cpu(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def _identified(problem: Problem, seed: int, **options: object) -> int:
    rng, means = np.random.default_rng([6, seed]), problem.X @ problem.theta
    learner = sp.create_learner("lazy-track-and-stop", problem.X, seed=seed, **options)  # type: ignore[arg-type]
    while not learner.stopped:
        arm = learner.next_arms()[0]
        learner.tell(arm, float(means[arm] + rng.standard_normal()))
    return learner.estimate.n_pulls


def _identified_plainly(problem: Problem, seed: int) -> int:
    rng, means = np.random.default_rng([6, seed]), problem.X @ problem.theta
    _, counts, _ = tiny.identify(  # type: ignore[no-untyped-call]
        problem.X, lambda arm: means[arm] + rng.standard_normal(), 0.05, rng=np.random.default_rng(seed)
    )
    return int(counts.sum())


def _planted(n_arms: int, rng: np.random.Generator) -> Problem:
    """Return random unit arms, d = 20, of which the first points along theta, of norm 2."""
    X: Array = rng.standard_normal((n_arms, 20))
    X /= np.sqrt(np.einsum("ij,ij->i", X, X))[:, None]
    theta = rng.standard_normal(20)
    X[0] = theta / np.linalg.norm(theta)
    return Problem(X=X, theta=theta * (2.0 / np.linalg.norm(theta)), name="planted")


def first_design() -> None:
    """Print how long a large table should wait for its first design."""
    module: Any = importlib.import_module("surepick.algorithms.lazy_track_and_stop")
    usual = module.FIRST_DESIGN
    print(
        "\n120,000 unit arms, d=20, 16 instances, seeds 7..22: pulls before the first design / d, mean pulls, seconds"
    )
    for wait in (6, 12, 20, 30):
        module.FIRST_DESIGN = wait
        clock = time.perf_counter()
        pulls = [_identified(_planted(120_000, np.random.default_rng(seed)), seed) for seed in range(7, 23)]
        spread = float(np.std(pulls, ddof=1)) / math.sqrt(len(pulls))
        each = (time.perf_counter() - clock) / len(pulls)
        print(f"  {wait:3d} {np.mean(pulls):7.0f} +-{spread:4.0f} {each:5.1f} s each", flush=True)
    module.FIRST_DESIGN = usual


def speed() -> None:
    """Print ratios of CPU time: against plain vectorised NumPy, and how cost grows with the number of arms."""
    problem = problems.many_arms(10_000, seed=0)
    seeds = range(3)
    ours = _cpu(lambda: [_identified(problem, s, variant="paper", stopping="paper-appendix") for s in seeds])
    plain = _cpu(lambda: [_identified_plainly(problem, s) for s in seeds])
    print(f"\nK=10^4, the paper's settings: examples/tiny.py takes {plain / ours:.0f} times our CPU time (aim 25)")
    print("cost per pull, d=20, default settings (interval work apart), and a whole identification:")
    base = 0.0
    for n_arms in (1000, 10**6):
        rng = np.random.default_rng(7)
        problem = _planted(n_arms, rng)
        means, built, clock = problem.X @ problem.theta, time.process_time(), time.perf_counter()
        learner = sp.create_learner("lazy-track-and-stop", problem.X)
        built = time.process_time() - built
        per_pull: list[float] = []
        per_interval: list[float] = []
        while not learner.stopped:
            start = time.process_time()
            arm = learner.next_arms()[0]
            learner.tell(arm, float(means[arm] + rng.standard_normal()))
            spent = time.process_time() - start
            # An interval's first ask plans and its last result settles: a few milliseconds to seconds each.
            (per_interval if spent > 1e-3 else per_pull).append(spent)
        pull = float(np.median(per_pull))
        base = base or pull
        print(
            f"  K={n_arms}: {pull * 1e6:.0f} us a pull ({pull / base:.2f} x), {sum(per_interval):.1f} s for plans "
            f"and settling, {built:.1f} s to start (CPU), {time.perf_counter() - clock:.1f} s in all by the clock, "
            f"{learner.estimate.n_pulls} pulls, "
            f"right: {learner.decision.best == 0}"
        )


def main() -> None:
    """Print everything; about half an hour on two cores."""
    speed()
    first_design()
    defaults()
    paper_tables()
    correctness()
    variants()
