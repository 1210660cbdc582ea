"""Whole identifications: how long they take, and how long a large table should wait for its first design.

The sweeps of this benchmark are the experiments `identification-*.toml`.
"""

import importlib
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import surepick as sp
from examples import tiny
from surepick.simulation import problems
from surepick.simulation.problems import Problem
from surepick.types import Array


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
        problem.X, lambda arm: means[arm] + rng.standard_normal(), 0.05, rng=np.random.default_rng(seed), noise_std=1.0
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
        learner = sp.create_learner("lazy-track-and-stop", problem.X, noise_std=1.0)
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
    """Print everything; a few minutes on two cores."""
    speed()
    first_design()
