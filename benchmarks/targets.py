"""Calls against a threshold and against a control: pulls beside the lower bound, and how often calls are wrong.

Run `python -m benchmarks.targets [runs [paths of the gate [rows]]]`; about a second of CPU time for each run of all
rows, and for five paths. The table is also written to benchmarks/results/targets.json. Runs that are there are not made
again: a later command with more runs adds to them. Delete the file for a new version of the rules.

The problem: a factorial of four factors with a constant, noise 1, delta = 0.05; the target 0.9 is 0.08 from the nearest
mean. The gate: 16 arms, all 0.01 below the target, delta = 0.3, blocks of four pulls of each arm; "without log K" has a
price that does not pay for the number of arms, and must be caught.
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

import surepick as sp
from benchmarks.clicks import factorial
from surepick.arms.finite import FiniteArms
from surepick.core.betting.block import Block
from surepick.core.betting.targets import MET, TargetWealth
from surepick.core.design.targets import Target

N_RUNS, N_PATHS, DELTA, RISK, SEED = 200, 1000, 0.05, 0.3, 32
X, THETA = factorial(4), np.array([1.0, 0.35, 0.25, 0.2, 0.12])
CASES: dict[str, dict[str, Any]] = {
    "threshold, all calls": {"threshold": 0.9},
    "threshold, false discovery rate": {"threshold": 0.9, "calls": "fdr"},
    "control, all calls": {"control": 4},
    "threshold, noise unknown": {"threshold": 0.9, "noise_std": None},
}
RESULTS = Path(__file__).parent / "results" / "targets.json"


def called(seed: int, **options: Any) -> tuple[int, int]:
    """Return the pulls of one run, and how many calls are wrong."""
    means, rng = X @ THETA, np.random.default_rng([seed, SEED])
    options = {"noise_std": 1.0, **options}
    learner = sp.create_learner("lazy-track-and-stop", X, delta=DELTA, seed=seed, **options)
    while not learner.stopped:
        for arm in learner.next_arms(max(learner.n_planned, 1)):
            learner.tell(arm, float(means[arm] + rng.standard_normal()))
    result = learner.result()
    apart = means - (means[options["control"]] if "control" in options else options["threshold"])
    calls = result.calls or {}
    return result.n_pulls, sum((apart[row] > 0.0) != (call == "met") for row, call in calls.items())


def gate(seed: int, calls: str, *, pays_for_arms: bool) -> bool:
    """Return whether an arm is ever called met on a path of 600 pulls of each arm, all below the target."""
    rng, K, pulls = np.random.default_rng([seed, SEED]), 16, 4.0
    arms, target = FiniteArms(np.eye(K)), Target(0.5, None, "fdr" if calls == "fdr" else "all")
    wealth, total = TargetWealth(arms, target=target, delta=RISK, noise_std=1.0), np.zeros(K)
    if not pays_for_arms:
        wealth.n_rows = 1
    for k in range(150):
        b = pulls * 0.49 + math.sqrt(pulls) * rng.standard_normal(K)
        if k and wealth.answer is None:
            theta = total / (pulls * k)
            wealth.settle(Block(pulls * np.eye(K), b - pulls * theta, theta, np.eye(K) / (pulls * k)))
        total += b
    return bool((wealth.calls == MET).any())


def measured(name: str, n_runs: int, before: dict[str, Any]) -> dict[str, Any]:
    """Return mean pulls and wrong runs of seeds 0 to n_runs - 1; `before` has those of the first seeds, or is empty."""
    options, done = CASES[name], int(before.get("runs", 0))
    target = {one: options[one] for one in ("threshold", "control") if one in options}
    total = before.get("pulls", 0.0) * done
    squares = before.get("error", 0.0) ** 2 * done * (done - 1) + before.get("pulls", 0.0) * total
    n_wrong = before.get("wrong", 0)
    for seed in range(done, n_runs):
        n_pulls, n_calls = called(seed, **options)
        total, squares, n_wrong = total + n_pulls, squares + n_pulls**2, n_wrong + int(n_calls > 0)
    n = max(done, n_runs)
    mean = total / n
    error = math.sqrt((squares - n * mean**2) / (n * (n - 1)))
    bound = sp.lower_bound(X, THETA, DELTA, **target)
    return {"runs": n, "bound": bound, "pulls": mean, "error": error, "wrong": n_wrong}


def main(n_runs: int = N_RUNS, n_paths: int = N_PATHS, n_rows: int = len(CASES)) -> None:
    """Print both tables, and write them to a file."""
    rows: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    print(f"delta = {DELTA}, mean ± standard error, seeds from 0")
    print("| | runs | lower bound | pulls | ratio | runs with a wrong call |\n|---|---|---|---|---|---|")
    for name in list(CASES)[:n_rows]:
        for until in sorted({*range(20, n_runs, 20), n_runs}):  # what is done is kept
            row = rows[name] = measured(name, until, rows.get(name, {}))
            RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        said = f"{row['pulls']:,.0f} ± {row['error']:,.0f} | {row['pulls'] / row['bound']:.2f} | {row['wrong']}"
        print(f"| {name} | {row['runs']} | {row['bound']:,.0f} | {said} |", flush=True)
    if not n_paths:
        return
    print(f"\n{n_paths} paths, delta = {RISK}: an arm below the target called met")
    print("| | share |\n|---|---|")
    for calls in ("all", "fdr"):
        for pays in (True, False):
            share = float(np.mean([gate(seed, calls, pays_for_arms=pays) for seed in range(n_paths)]))
            name = f"gate, {calls}{'' if pays else ', without log K'}"
            print(f"| {name} | {share:.3f} |", flush=True)
            rows |= {name: share, "paths": n_paths}
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
