"""Pulls with noise="any", beside the rules that know the scale of normal noise or learn it.

    basis5     unit basis, means .5, .2, .1, 0, -.1
    two        two arms, .5 apart
    ten        one arm .5 above nine equal ones

Noise of standard deviation 1: normal; Student's t with 3 degrees of freedom; or normal with a drift of 20 sin(t/100)
and one more at every fifth pull. Run `python -m benchmarks.any_noise [runs [rows]]`; 200 runs take about ten minutes of
CPU time; the first two rows, which compare with known noise on basis5, about one. The table is printed, and written to
results/any_noise.json.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import surepick as sp
from surepick.types import Array

N_RUNS, MOST, DELTA = 200, 20_000, 0.05
RESULTS = Path(__file__).parent / "results"
Noise = Callable[[np.random.Generator, int], Array]
"""Draws the first n errors of a run."""


def normal(rng: np.random.Generator, n: int) -> Array:
    """Standard normal noise."""
    return rng.standard_normal(n)


def heavy(rng: np.random.Generator, n: int) -> Array:
    """Student's t with 3 degrees of freedom, of standard deviation 1."""
    return np.asarray(rng.standard_t(3, n) / np.sqrt(3.0))


def drifting(rng: np.random.Generator, n: int) -> Array:
    """Normal noise with a slow and a fast drift."""
    t = np.arange(n)
    drift: Array = 20.0 * np.sin(t / 100.0) + (t % 5 == 1)
    return normal(rng, n) + drift


MEANS = {"basis5": [0.5, 0.2, 0.1, 0.0, -0.1], "two": [0.5, 0.0], "ten": [0.5, *[0.0] * 9]}
ANY, KNOWN, LEARNT = {"noise": "any"}, {"noise_std": 1.0}, dict[str, Any]()
ROWS: Sequence[tuple[str, Noise, Mapping[str, Any]]] = [
    *((name, normal, options) for name in MEANS for options in (ANY, KNOWN, LEARNT)),
    ("basis5", heavy, ANY),
    ("basis5", heavy, {"noise": "symmetric"}),
    ("basis5", drifting, ANY),
]


def run(X: Array, theta: Array, draw: Noise, seed: int, most: int = MOST, **options: Any) -> sp.Learner:
    """Return a learner that has stopped, or has had `most` results."""
    learner, means = sp.create_learner("lazy-track-and-stop", X, delta=DELTA, seed=seed, **options), X @ theta
    errors = draw(np.random.default_rng([seed, 32]), most)
    for n in range(most):
        if learner.stopped:
            break
        (arm,) = learner.next_arms()
        learner.tell(arm, float(means[arm] + errors[n]))
    return learner


def written(name: str, command: str, rows: list[dict[str, Any]]) -> None:
    """Write rows of a table beside the results of other benchmarks."""
    text = json.dumps({"command": command, "delta": DELTA, "rows": rows}, indent=1)
    (RESULTS / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")


def main(n_runs: int = N_RUNS, n_rows: int = len(ROWS)) -> None:
    """Print a row for each problem, noise and rule, or for the first of them."""
    print(f"{n_runs} runs, seeds 0 to {n_runs - 1}, delta = {DELTA}, mean ± standard error")
    print("| problem | noise | options | pulls | wrong | open |\n|---|---|---|---|---|---|")
    rows = []
    for name, noise, options in ROWS[:n_rows]:
        means = np.array(MEANS[name])
        ends = [run(np.eye(len(means)), means, noise, seed, **options) for seed in range(n_runs)]
        pulls = np.array([end.estimate.n_pulls for end in ends])
        row = {
            "problem": name,
            "noise": noise.__name__,
            "options": dict(options),
            "runs": n_runs,
            "pulls": float(pulls.mean()),
            "standard error": float(pulls.std(ddof=1) / np.sqrt(n_runs)),
            "wrong": sum(end.stopped and end.decision.best != 0 for end in ends),
            "open": sum(not end.stopped for end in ends),
        }
        rows.append(row)
        size = f"{row['pulls']:.0f} ± {row['standard error']:.0f}"
        print(f"| {name} | {noise.__name__} | {dict(options)} | {size} | {row['wrong']} | {row['open']} |", flush=True)
        written("any_noise", f"python -m benchmarks.any_noise {n_runs}", rows)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
