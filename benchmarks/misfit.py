"""Tables that are not quite linear, and mixtures that nearly tie: where do the pulls go?

Run `make bench ARGS=misfit`, or `python -m benchmarks.misfit [runs]`. Noise belongs to the run, the arm and the number
of its pull, so that algorithms share it as far as they can.
"""

import itertools
import math
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy

import surepick as sp
from benchmarks.pulls import DELTA, cell, in_parallel
from surepick.types import Array

SEED, LONGEST = 5200, 20_000


class Case(NamedTuple):
    """What can be measured, what comes out on average, and what a linear model makes of that."""

    X: Array
    means: Array
    fitted: Array
    noise_std: float
    epsilon: float
    is_yes_no: bool


def rates(run: int, *, epsilon: float = 0.0, is_local: bool = False) -> Case:
    """Three by four rates of success; an additive model explains 97 % and has its best arm .04 to .1 ahead.

    That arm is the best; or, `is_local`, compared with the second alone it keeps at most a fifth of its lead.
    """
    X = np.array([[*row, *column] for row in np.eye(3) for column in np.eye(4)[:, 1:]])
    project, rng = X @ np.linalg.pinv(X), np.random.default_rng([SEED, run])
    while True:
        fitted = 0.5 + np.add.outer(rng.normal(0.0, 0.12, 3), rng.normal(0.0, 0.12, 4)).ravel()
        drawn = rng.normal(size=12)
        rest = drawn - project @ drawn
        means = fitted + rest * math.sqrt(0.03 / 0.97 * fitted.var() / rest.var())
        first, second = np.argsort(-fitted)[:2]
        lead, kept = fitted[first] - fitted[second], means[first] - means[second]
        suits = kept <= 0.2 * lead if is_local else first == np.argmax(means)
        if suits and 0.04 <= lead <= 0.1 and means.min() > 0.05 and means.max() < 0.95:
            return Case(X, means, fitted, 0.5, epsilon, is_yes_no=True)


def mixtures(run: int) -> Case:
    """Mixtures of three components in quarters, quadratic blending: 15 arms, d = 6; .1 may be lost."""
    parts = np.array([(i, j, 4 - i - j) for i in range(5) for j in range(5 - i)]) / 4.0
    X = np.column_stack([parts, 4.0 * parts * np.roll(parts, 1, axis=1)])
    means = X @ np.random.default_rng([SEED, run]).normal(0.0, 0.5, 6)
    return Case(X, means, means, 1.0, 0.1, is_yes_no=False)


CASES: Mapping[str, Callable[[int], Case]] = {
    "rates, same best": rates,
    "rates, lead lost": partial(rates, is_local=True),
    "rates, lead lost, .05": partial(rates, is_local=True, epsilon=0.05),
    "mixtures, .1": mixtures,
}
ALGORITHMS = ("lazy-track-and-stop", "uniform")


def pulled(job: tuple[str, str], run: int) -> tuple[int, bool, bool, int]:
    """Return pulls, whether the answer loses too much in truth and by the fit, and when the leader last changed."""
    case, tapes = CASES[job[0]](run), dict[int, np.random.Generator]()
    learner = sp.create_learner(job[1], case.X, delta=DELTA, noise_std=case.noise_std, epsilon=case.epsilon, seed=run)
    n_pulls, leader, changed = 0, None, 0
    while not learner.stopped and n_pulls < LONGEST:
        for arm in learner.next_arms(max(1, learner.n_planned)):
            tape = tapes.setdefault(arm, np.random.default_rng([SEED, run, arm]))
            mean = float(case.means[arm])
            reward = tape.random() < mean if case.is_yes_no else mean + case.noise_std * tape.standard_normal()
            learner.tell(arm, float(reward))
            n_pulls += 1
        best = learner.decision.best
        if best != leader:
            leader, changed = best, n_pulls
    lost = [learner.stopped and values.max() - values[leader] > case.epsilon for values in (case.means, case.fitted)]
    return n_pulls, bool(lost[0]), bool(lost[1]), changed


def main(n_runs: int = 100) -> None:
    """Print pulls, and wrong answers by the truth and by the fit."""
    print(f"delta = {DELTA:g}, {n_runs} runs, seed {SEED}, given up at {LONGEST} pulls; rho: rank correlation")
    columns = f"{'mean':>14s}{'median':>9s}{'90 %':>9s}{'given up':>10s}{'wrong':>7s}{'by fit':>8s}{'rho':>7s}"
    print(f"{'':24s}{'':22s}{columns}")
    for name, algorithm in itertools.product(CASES, ALGORITHMS):
        pulls, wrong, wrong_fit, changed = in_parallel(pulled, [(name, algorithm)], n_runs)[name, algorithm]
        figures = f"{np.median(pulls):9.0f}{np.quantile(pulls, 0.9):9.0f}{(pulls >= LONGEST).sum():10d}"
        counts = f"{wrong.sum():7.0f}{wrong_fit.sum():8.0f}{scipy.stats.spearmanr(pulls, changed).statistic:7.2f}"
        print(f"{name:24s}{algorithm:22s}{cell(pulls):>14s}{figures}{counts}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
