"""A pool of items: items until the verdict, beside bets that do not know that the pool ends; wrong rejections.

Run `python -m benchmarks.pool [runs [paths]]`; about two minutes of CPU time. Figures go to
benchmarks/results/pool.json.

Three arms pass or fail 400 items. Passes are thresholds of normal numbers that the arms share in part (correlation
0.6 between arms), with exact counts: 70 % of the items for the best arm, and the gap less for the two others.
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from surepick.core.betting.pool import PoolWealth, log_factors
from surepick.types import Array

N_RUNS, N_PATHS, DELTA, RISK_OF_GATE = 1000, 4000, 0.05, 0.3
N_ITEMS, GAPS, SHARE, CORRELATION = 400, (0.03, 0.06, 0.1), 0.7, 0.6
RESULTS = Path(__file__).parent / "results" / "pool.json"


def table(rng: np.random.Generator, shares: tuple[float, ...], n_items: int) -> Array:
    """Return 0 and 1 (M, K): arms that pass exactly these shares of the items, and mostly the same ones."""
    common, own = rng.standard_normal((n_items, 1)), rng.standard_normal((n_items, len(shares)))
    hardness = math.sqrt(CORRELATION) * common + math.sqrt(1.0 - CORRELATION) * own
    ranks = hardness.argsort(axis=0).argsort(axis=0)
    return np.asarray(ranks < np.round(np.array(shares) * n_items), dtype=np.float64)


def until_verdict(scores: Array) -> tuple[int, int]:
    """Return the items until the verdict and the answer, for scores (M, K) in the order of asking."""
    n_items, n_arms = scores.shape
    wealth = PoolWealth(n_arms, n_items, (0.0, 1.0), DELTA)
    while wealth.answer is None:
        arms = np.flatnonzero(wealth.is_alive)
        wealth.settle(wealth.n_settled + 1, arms, scores[wealth.n_settled, arms])
    return wealth.n_settled, wealth.answer


def without_the_end(scores: Array) -> int:
    """Return the items until the verdict of bets with m = 0, M + 1 if there is none."""
    n_items, n_arms = len(scores), scores.shape[1]
    sums, logs, is_alive = np.zeros(n_arms), np.zeros((n_arms, 16)), np.ones(n_arms, dtype=bool)
    for t, seen in enumerate(scores, start=1):
        leader = int(np.argmax(np.where(is_alive, sums, -1.0)))
        rivals = is_alive & (np.arange(n_arms) != leader)
        logs[rivals] += log_factors(seen[leader] - seen[rivals], np.zeros(rivals.sum()), 1, n_items)
        is_alive &= np.logaddexp.reduce(logs, axis=1) - math.log(16.0) < math.log(1.0 / DELTA)
        sums += seen
        if is_alive.sum() == 1:
            return t
    return n_items + 1


def rejected(scores: Array, delta: float) -> bool:
    """Return whether arm 0, one of the best, is rejected before the last item."""
    n_items, n_arms = scores.shape
    wealth = PoolWealth(n_arms, n_items, (0.0, 1.0), delta)
    while wealth.answer is None and wealth.n_settled < n_items - 1:
        arms = np.flatnonzero(wealth.is_alive)
        wealth.settle(wealth.n_settled + 1, arms, scores[wealth.n_settled, arms])
    return not wealth.is_alive[0]


def pulls(n_runs: int) -> list[dict[str, Any]]:
    """Count items until the verdict."""
    rows = []
    for gap in GAPS:
        found = []
        for run in range(n_runs):
            rng = np.random.default_rng([32, run, round(100 * gap)])
            scores = table(rng, (SHARE, SHARE - gap, SHARE - gap), N_ITEMS)  # in random order
            n, answer = until_verdict(scores)
            found.append((n, answer != 0, without_the_end(scores)))
        items, wrong, other = (np.array(column) for column in zip(*found, strict=True))
        capped = np.minimum(other, N_ITEMS)
        rows.append(
            {
                "gap": gap, "runs": n_runs, "items": round(float(items.mean()), 1),
                "se": round(float(items.std(ddof=1)) / math.sqrt(n_runs), 1), "wrong": int(wrong.sum()),
                "items with m = 0": round(float(capped.mean()), 1),
                "se with m = 0": round(float(capped.std(ddof=1)) / math.sqrt(n_runs), 1),
                "decided with m = 0": round(float((other <= N_ITEMS).mean()), 3),
            }
        )  # fmt: skip
        print("gap {gap}: {items} +- {se} items, {wrong} wrong; m = 0: ".format(**rows[-1]), end="")
        print("{items with m = 0} +- {se with m = 0}, {decided with m = 0:.1%} decided".format(**rows[-1]))
    return rows


def gate(n_paths: int) -> list[dict[str, Any]]:
    """Count rejections of one of two best arms at a risk of 0.3, in random order and sorted by who wins."""
    rows = []
    for n_items in (100, 400):
        counts = {"random": 0, "sorted": 0}
        for path in range(n_paths):
            scores = table(np.random.default_rng([33, path, n_items]), (SHARE, SHARE, SHARE - 0.3), n_items)
            counts["random"] += rejected(scores, RISK_OF_GATE)
            if path < 200:
                order = np.argsort(scores[:, 0] - scores[:, 1], kind="stable")
                counts["sorted"] += rejected(scores[order], RISK_OF_GATE)
        share = counts["random"] / n_paths
        broken = counts["sorted"] / min(n_paths, 200)
        error = math.sqrt(share * (1.0 - share) / n_paths)
        rows.append({"items": n_items, "paths": n_paths, "rejected": share, "se": round(error, 4), "sorted": broken})
        print(f"{n_items} items: one of two best rejected {share:.3f} +- {error:.3f}; items sorted: {broken:.3f}")
    return rows


def main(n_runs: str = str(N_RUNS), n_paths: str = str(N_PATHS)) -> None:
    """Print both tables and keep their figures."""
    print(f"{N_ITEMS} items, three arms, delta = {DELTA}; seeds 32")
    of_pulls = pulls(int(n_runs))
    print(f"delta = {RISK_OF_GATE}, two best arms tied, the third 0.3 behind; seeds 33")
    found = {"pulls": of_pulls, "gate": gate(int(n_paths))}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
