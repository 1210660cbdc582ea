"""The m best: pulls as multiples of the lower bound, by accounts of sets and by the accounts of earlier versions.

`make bench ARGS=best_m`, or `python -m benchmarks.best_m [a | drugs | spheres] [runs]`. Results are kept in
`benchmarks/results/best_m.json`. delta = 0.05, sigma = 1; every instance gives both rules the same noise.

`python -m benchmarks.best_m further SEED [runs]` has other instances of the largest sphere, by accounts of sets alone:
the standard error of 100 runs is 4 % there.
"""

import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import surepick as sp
from surepick.simulation.problems_published import reda_a, reda_d
from surepick.types import Array

RESULTS = Path(__file__).parent / "results" / "best_m.json"
SEED, DELTA = 7300, 0.05


class Instance(NamedTuple):
    """Arms, their parameter, and how many are sought."""

    X: Array
    theta: Array
    m: int

    @property
    def bound(self) -> float:
        """T* kl(delta, 1 - delta)."""
        return sp.lower_bound(self.X, self.theta, DELTA, m=self.m)


def instance_a(_: int = 0) -> Instance:
    """Experiment A with c = 0 of Reda, Tirinzoni and Degenne (2021): ten arms at random, three sought."""
    problem = reda_a()
    return Instance(problem.X, problem.theta, 3)


def instance_drugs(_: int = 0) -> Instance:
    """Ten drugs with the means of their linear fit, experiment D of the same paper; five sought."""
    problem = reda_d(linear=True)
    return Instance(problem.X, problem.theta, 5)


def instance_sphere(n_arms: int, dim: int, m: int, seed: int = SEED) -> Callable[[int], Instance]:
    """Return arms and theta at random on the unit sphere, redrawn until T* kl is between 300 and 2,000."""

    def drawn(run: int) -> Instance:
        for attempt in range(1000):
            rng = np.random.default_rng([seed, n_arms, dim, m, run, attempt])
            X, theta = rng.standard_normal((n_arms, dim)), rng.standard_normal(dim)
            found = Instance(X / np.linalg.norm(X, axis=1)[:, None], theta / np.linalg.norm(theta), m)
            if 300.0 <= found.bound <= 2000.0:
                return found
        raise RuntimeError("no such instance was drawn")

    return drawn


def run(instance: Instance, seed: list[int], *, has_sets: bool) -> tuple[int, bool, float]:
    """Return pulls, whether the answer was wrong, and seconds."""
    edition = 2 if has_sets else 1
    learner = sp.create_learner(
        "lazy-track-and-stop", instance.X, m=instance.m, delta=DELTA, noise_std=1.0, edition=edition
    )
    rng, means, began = np.random.default_rng(seed), instance.X @ instance.theta, time.perf_counter()
    while not learner.stopped:
        for arm in learner.next_arms(max(learner.n_planned, 1)):
            learner.tell(arm, float(means[arm] + rng.standard_normal()))
    found: Any = learner.decision.best
    is_wrong = {*found} != {*np.argsort(-means)[: instance.m].tolist()}
    return learner.estimate.n_pulls, is_wrong, time.perf_counter() - began


RULES = ("sets", "before")


def measured(
    name: str, drawn: Callable[[int], Instance], n_runs: int, seed: int = SEED, rules: Sequence[str] = RULES
) -> dict[str, Any]:
    """Run the rules and return mean multiples of the bound with their standard errors."""
    ratios: dict[str, list[float]] = {rule: [] for rule in rules}
    wrong, seconds, pulls = dict.fromkeys(ratios, 0), dict.fromkeys(ratios, 0.0), dict.fromkeys(ratios, 0)
    for n in range(n_runs):
        instance = drawn(n)
        for rule, each in ratios.items():
            n_pulls, is_wrong, took = run(instance, [seed, 1, n], has_sets=rule == "sets")
            each.append(n_pulls / instance.bound)
            wrong[rule] += is_wrong
            seconds[rule] += took
            pulls[rule] += n_pulls
    found = {
        rule: {
            "times_bound": round(statistics.mean(each), 3),
            "standard_error": round(statistics.stdev(each) / math.sqrt(n_runs), 3),
            "mean_pulls": round(pulls[rule] / n_runs, 1),
            "wrong": wrong[rule],
            "seconds_per_run": round(seconds[rule] / n_runs, 3),
        }
        for rule, each in ratios.items()
    }
    for rule, said in found.items():
        print(
            f"  {name}, {n_runs} runs, {rule}: {said['times_bound']:.2f} +- {said['standard_error']:.2f} times the "
            f"bound, {said['mean_pulls']:.0f} pulls, {said['wrong']} wrong, {said['seconds_per_run']:.2f} s a run",
            flush=True,
        )
    return {"runs": n_runs, "seed": seed, **found}


def a(n_runs: str = "300") -> None:
    """Experiment A, without misfit."""
    keep({"A, c = 0": measured("A, c = 0", instance_a, int(n_runs))})


def drugs(n_runs: str = "60") -> None:
    """Ten drugs, the five best."""
    keep({"drugs, m = 5": measured("drugs, m = 5", instance_drugs, int(n_runs))})


SPHERES = ((20, 5, 3), (50, 5, 5))


def spheres(n_runs: str = "100") -> None:
    """Arms at random on the sphere."""
    for n_arms, dim, m in SPHERES:
        name = f"sphere {n_arms} x {dim}, m = {m}"
        keep({name: measured(name, instance_sphere(n_arms, dim, m), int(n_runs))})


def further(seed: str, n_runs: str = "100") -> None:
    """Arms at random on the largest sphere, of another seed."""
    n_arms, dim, m = SPHERES[-1]
    name, drawn = f"sphere {n_arms} x {dim}, m = {m}", instance_sphere(n_arms, dim, m, int(seed))
    keep({f"{name}, seed {seed}": measured(name, drawn, int(n_runs), int(seed), RULES[:1])})


def keep(found: Mapping[str, Any]) -> None:
    """Add results to the file."""
    before = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps({**before, **found}, indent=1) + "\n", encoding="utf-8")


PARTS: Mapping[str, Callable[..., None]] = {"a": a, "drugs": drugs, "spheres": spheres}


def main(parts: Iterable[str] = PARTS) -> None:
    """Measure everything."""
    for part in parts:
        PARTS[part]()


if __name__ == "__main__":
    {**PARTS, "further": further}[sys.argv[1]](*sys.argv[2:]) if sys.argv[1:2] else main()
