"""PEPS without a stop: wrong answers after 250 to 2,000 pulls, beside those of another implementation.

`make bench ARGS=peps`, or `python -m benchmarks.peps [runs]`. Soare's problem in two dimensions, angle 0.1, theta = e1,
noise 1; seeds 0, 1, ... The paper variant with at most 20 draws a round; and its 20 accepted of at most 4,000.
"""

import math
import sys
from collections.abc import Sequence

import numpy as np

import surepick as sp

TIMES = (250, 500, 1000, 2000)
REFERENCE = {20: (2000, (0.276, 0.184, 0.096, 0.035)), 4000: (400, (0.233, 0.158, 0.085, 0.022))}
"""Draws at most, to the runs of the other implementation and its shares of wrong answers."""


def is_wrong(seed: int, most_draws: int, times: Sequence[int] = TIMES) -> list[bool]:
    """Return whether the answer is wrong at each of the times."""
    problem = sp.problems.soare(2, angle=0.1, scale=1.0)
    algorithm = sp.algorithms.Peps(variant="paper", most_draws=most_draws)
    learner = sp.create_learner(algorithm, problem.X, noise_std=1.0, delta=1e-30, seed=seed)
    rng, means, wrong = np.random.default_rng([8100, seed]), problem.X @ problem.theta, list[bool]()
    for t in range(1, times[-1] + 1):
        (arm,) = learner.next_arms()
        learner.tell(arm, float(means[arm] + rng.standard_normal()))
        if t in times:
            wrong.append(learner.decision.best != problem.best)
    return wrong


def main(n_runs: str = "200") -> None:
    """Measure both numbers of draws; the second, which is slow, in a tenth of the runs."""
    for most_draws, (n_there, shares) in REFERENCE.items():
        n = int(n_runs) if most_draws == 20 else max(int(n_runs) // 10, 2)
        found = np.mean([is_wrong(seed, most_draws) for seed in range(n)], axis=0)
        print(f"at most {most_draws} draws, {n} runs:")
        for t, ours, theirs in zip(TIMES, found.tolist(), shares, strict=True):
            se = math.hypot(*(math.sqrt(max(p * (1 - p), 1 / k) / k) for p, k in ((ours, n), (theirs, n_there))))
            print(
                f"  {t:5} pulls: wrong {ours:.3f}, reference {theirs:.3f}, {(ours - theirs) / se:+.1f} standard errors"
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
