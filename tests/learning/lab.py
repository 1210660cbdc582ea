"""A small experiment that tests can run, with ways for it to fail; runs of a learner; and the chooser inside one."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from surepick.core.linalg import one_blas_thread
from surepick.learning.blocks import Plan
from surepick.learning.learner import Learner
from surepick.simulation.problems import Problem
from surepick.types import Array

# Means 0.7, 0.6, 0.98 and 0.19: the third arm is best.
X = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.7], [-0.5, 0.9]])
THETA = np.array([0.7, 0.6])
NAMES = ["elm", "oak", "ash", "fir"]


class RunSettings:
    """Measures arms with seeded noise and remembers which ones."""

    def __init__(self, *, seed: int = 0, noise_std: float = 0.5, rows: Array = X, theta: Array = THETA) -> None:
        self.rng = np.random.default_rng(seed)
        self.noise_std, self.rows, self.theta = noise_std, rows, theta
        self.pulled: list[int] = []

    def __call__(self, arm: int) -> float:
        """Measure one arm."""
        self.pulled.append(arm)
        return float(self.rows[arm] @ self.theta + self.noise_std * self.rng.standard_normal())


@one_blas_thread
def run(
    learner: Learner, problem: Problem, *, seed: Any, most: int = 20_000, batch: int = 1, is_endless: bool = False
) -> list[int]:
    """Pull with seeded noise until the learner stops, unless it is endless, at most so often; return the arms."""
    rng, means = np.random.default_rng(seed), problem.X @ problem.theta
    pulled: list[int] = []
    while (is_endless or not learner.stopped) and len(pulled) < most:
        for arm in learner.next_arms(batch):
            learner.tell(arm, float(means[arm] + problem.noise_std * rng.standard_normal()))
            pulled.append(arm)
    return pulled


def chooser_of(learner: Learner, *, looks: bool = True) -> Any:
    """Return the chooser inside, which has just looked at the results unless told not to."""
    if looks:
        learner.state.plans.sampler.open(learner.state.settled.context(learner.state.ledger.outstanding))
    return learner.state.plans.sampler._chooser  # type: ignore[attr-defined]


def plans_of(learner: Learner) -> list[Plan]:
    """Return the plans of all blocks so far, without their arms."""
    state = learner.state
    blocks = [*(block for told in state.results for block in told.closes), *state.ledger._unsettled]
    firsts = itertools.accumulate((block.length for block in blocks), initial=0)
    return [Plan(first, block.length, n_parts=block.n_parts) for first, block in zip(firsts, blocks, strict=False)]


def after(n: int, then: Callable[[], object], lab: RunSettings) -> Callable[[int], float]:
    """Return a `pull` that works n times and then does something else."""

    def pull(arm: int) -> Any:
        return lab(arm) if len(lab.pulled) < n else then()

    return pull


def raising(error: BaseException) -> Callable[[], object]:
    """Return a function that raises."""

    def fail() -> object:
        raise error

    return fail


def never(_: int) -> float:
    """Stand in for a measurement that must not be made."""
    pytest.fail("an arm was measured although the arguments cannot be used")
