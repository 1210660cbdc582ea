"""Few rounds: pulls until the answer is proved, and the share of experiments that R batches decide.

`python -m benchmarks.rounds [runs [paths [case ...]]]`; about ten minutes of CPU time for 200 runs of all. Writes
benchmarks/results/rounds.json, where cases that are not measured stay. The standard error of a ratio has the error of
both means.
"""

import json
import math
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import surepick as sp
from surepick.learning.spec import EDITION
from surepick.simulation import problems
from surepick.simulation.problems import Problem
from surepick.types import Array

OUT = Path(__file__).parent / "results" / "rounds.json"
CASES: Mapping[str, Callable[[], Problem]] = {
    "many": lambda: problems.many_arms(1000),
    "basis5": lambda: problems.unit_basis([1.0, 0.75, 0.5, 0.25, 0.0]),
    "basis5, four rivals": lambda: problems.unit_basis([1.0, 0.7, 0.6, 0.5, 0.4]),
    "soare6": lambda: problems.soare(6, 0.1),
    "sphere5": lambda: problems.sphere(5, 50, seed=4),
}
ROUNDS = (3, 5, 10)
SEED = 7300


def measured(n_runs: int, name: str) -> dict[str, Any]:
    """Return pulls of unlimited rounds, pulls over these at batches of N/R, and the share decided at R B = 1.5 N."""
    problem = CASES[name]()
    free = sp.simulate(problem, n_runs=n_runs, seed=SEED, n_jobs=1)
    row: dict[str, Any] = {"edition": EDITION, "runs": n_runs, "N": free.mean, "N s.e.": free.se}
    row["wrong"] = free.n_errors
    for rounds in ROUNDS:
        batch = math.ceil(free.mean / rounds)
        until = sp.simulate(problem, n_runs=n_runs, seed=SEED, n_jobs=1, batch=batch)
        ratio = until.mean / free.mean
        row[f"pulls/N at R={rounds}"] = ratio, ratio * math.hypot(until.se / until.mean, free.se / free.mean)
        batch = math.ceil(1.5 * free.mean / rounds)
        within = sp.simulate(problem, n_runs=n_runs, seed=SEED, n_jobs=1, batch=batch, rounds=rounds)
        share = float(within.stopped.mean())
        row[f"decided within R={rounds}"] = share, math.sqrt(share * (1.0 - share) / n_runs)
        row["wrong"] += until.n_errors + within.n_errors
    return row


def _pull(means: Array, noise: Callable[[], float], arm: int) -> float:
    return float(means[arm] + noise())


def gate(n_paths: int, rounds: int) -> dict[str, Any]:
    """Return how often R batches reject the best of three arms at delta = 0.3: two are tied, a third is 0.3 behind.

    A rule whose bets see their own batch rejects the best at most twice as often here, which is below 0.3 too: the gate
    does not tell it from the rule. tests/statistical has gates that do, with the blocks of the default schedule.
    """
    means, n_rejected = np.array([0.0, 0.0, -0.3]), 0
    for path in range(n_paths):
        noise = np.random.default_rng([SEED, rounds, path]).standard_normal
        given: dict[str, Any] = {"batch": 600 // rounds, "rounds": rounds, "delta": 0.3, "noise_std": 1.0}
        result = sp.identify(np.eye(3), partial(_pull, means, noise), **given)
        n_rejected += result.survivors is not None and 0 not in result.survivors
    return {"paths": n_paths, "rejected": n_rejected / n_paths, "limit": 0.3 + 3.1 * math.sqrt(0.21 / n_paths)}


def main(n_runs: str = "200", n_paths: str = "1000", *cases: str) -> None:
    """Measure, print and write all of it, or some cases."""
    print(f"noise 1, known; delta = 0.05; seed {SEED}; N: mean pulls with the default schedule")
    found: dict[str, Any] = json.loads(OUT.read_text()) if OUT.exists() else {"seed": SEED}
    for name in cases or CASES:
        found[name] = row = measured(int(n_runs), name)
        said = [f"{key} {value[0]:.2f} ({value[1]:.2f})" for key, value in row.items() if isinstance(value, tuple)]
        print(
            f"{name}: {n_runs} runs, N {row['N']:.0f} ({row['N s.e.']:.0f}), {row['wrong']} wrong;", *said, flush=True
        )
        OUT.write_text(json.dumps(found, indent=1) + "\n")
    for rounds in () if cases else (3, 10):
        found[f"gate R={rounds}"] = row = gate(int(n_paths), rounds)
        print(f"gate R = {rounds}: {row}", flush=True)
    OUT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
