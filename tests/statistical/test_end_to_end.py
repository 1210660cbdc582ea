"""Whole identifications on near-ties at a loose delta, where a wrong rule would be wrong often.

Each gate: `N_RUNS` seeded runs at delta = .3, at most `LIMIT` wrong answers. If the error probability is delta, the
count exceeds the limit with probability below 1e-6 (exact binomial); the seeds are fixed, so a gate never flickers.
The horizon cuts off runs that would go on for long: these can only be right, as nothing was answered.
"""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

import surepick as sp
from surepick.simulation import problems
from surepick.simulation.problems import Problem

pytestmark = pytest.mark.statistical

DELTA, N_RUNS, HORIZON = 0.3, 200, 200
LIMIT = int(binom.isf(1e-6, N_RUNS, DELTA))


def arc(dim: int, lead: float) -> Problem:
    """The best arm e1 between pairs that lean to either side of it and lose `lead`: every lucky noise misleads."""
    centre, sides = np.eye(dim)[0], 0.6 * np.eye(dim)[1:]
    rows = [
        centre,
        *((1.0 - lead) * centre + side for side in sides),
        *((1.0 - lead) * centre - side for side in sides),
    ]
    return Problem(X=np.array(rows), theta=np.eye(dim)[0], name=f"arc d={dim}")


def near_the_top(seed: int) -> Problem:
    """Twenty random arms in dimension 3 that clearly lose, and two good ones that differ by a hundredth."""
    rng = np.random.default_rng(seed)
    theta = 2.0 * np.eye(3)[0]
    poor = rng.standard_normal((20, 3))
    poor[:, 0] = -np.abs(poor[:, 0])
    good = np.array([[1.0, 0.8, 0.0], [0.995, -0.8, 0.0]])
    return Problem(X=np.vstack([poor, good]), theta=theta, name="two near the top")


HARD: dict[str, Problem | Callable[[int], Problem]] = {
    "arc d=2": arc(2, 0.02),
    "near-tie d=2": problems.unit_basis([0.02, 0.0]),
    "near-tie d=3": problems.unit_basis([0.02, 0.0, -2.0]),
    "near-tie d=5": problems.unit_basis([0.02, 0.0, -2.0, -2.0, -2.0]),
    "two near the top of a sphere": near_the_top,
}


@pytest.mark.parametrize("name", HARD)
def test_default_settings_err_at_most_as_often_as_promised(name: str) -> None:
    """The default algorithm, one pull at a time."""
    runs = sp.simulate(HARD[name], delta=DELTA, n_runs=N_RUNS, seed=60, max_pulls=HORIZON)
    assert runs.n_errors <= LIMIT
    assert runs.stopped.sum() >= 20  # the instance is one on which the rule does answer


@pytest.mark.parametrize("rule", ["betting", "evidence"])
def test_batches_and_delays_that_ignore_the_values_do_no_harm(rule: str) -> None:
    """Asks in batches of 5, results told in random order and up to 3 batches late, some asks lost at random."""
    problem, wrong, answered = arc(2, 0.02), 0, 0
    means = problem.X @ problem.theta
    for run in range(N_RUNS):
        rng = np.random.default_rng([61, run])
        learner = sp.create_learner("lazy-track-and-stop", problem.X, delta=DELTA, stopping=rule)
        waiting: list[int] = []
        while not learner.stopped and learner.estimate.n_pulls < HORIZON:
            waiting += learner.next_arms(5)
            rng.shuffle(waiting)
            cut = int(rng.integers(1, 11))
            told, waiting = waiting[:cut], waiting[cut:]
            for arm in told:
                if rng.random() < 0.05:
                    learner.fail(arm)
                else:
                    learner.tell(arm, float(means[arm] + rng.standard_normal()))
        answered += learner.stopped
        wrong += learner.stopped and learner.decision.best != problem.best
    assert wrong <= LIMIT
    assert answered >= 5


def test_slack_is_honoured() -> None:
    """With epsilon = .1 an answer that loses more is wrong; such answers are as rare as promised."""
    problem = arc(2, 0.13)
    runs = sp.simulate(problem, delta=DELTA, epsilon=0.1, n_runs=N_RUNS, seed=62, max_pulls=HORIZON)
    assert runs.n_errors <= LIMIT
    assert runs.stopped.sum() >= 5
