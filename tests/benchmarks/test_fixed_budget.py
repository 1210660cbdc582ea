"""The simulation of phased methods by the sums of their phases."""

import json
from functools import partial

import numpy as np
import pytest

import surepick as sp
from benchmarks.fixed_budget import OUT, PUBLISHED, apart, phased_answer
from surepick.algorithms.budget import PhasedBudget
from surepick.simulation import problems
from surepick.types import Array, IntArray

PHASED = [name for name, method in PUBLISHED.items() if isinstance(method, PhasedBudget)]


class SameNoise:
    """One standard normal number for each arm and phase, as the sum of its pulls over their root."""

    def __init__(self, seed: int, n_arms: int) -> None:
        self._seed, self._n_arms, self._r = seed, n_arms, 0

    def of_phase(self, r: int) -> Array:
        """The numbers of a phase (K,)."""
        return np.random.default_rng([self._seed, r]).standard_normal(self._n_arms)

    def __call__(self, arms: IntArray) -> Array:
        """The numbers of these arms in the next phase."""
        self._r += 1
        return self.of_phase(self._r - 1)[arms]


@pytest.mark.parametrize("name", PHASED)
def test_sums_of_phases_give_the_answers_of_a_learner(name: str) -> None:
    """With the same sums, pull by pull and at once: the same answers after as many pulls."""
    problem, method = problems.sphere(3, 10, seed=8), PUBLISHED[name]
    assert isinstance(method, PhasedBudget)
    means = 0.05 * problem.X @ problem.theta  # so that answers differ
    create = partial(sp.create_learner, method, problem.X, noise_std=1.0, budget=150, goal="fixed-budget")
    answers = set()
    for seed in range(5):
        learner, noise, r = create(), SameNoise(seed, 10), 0
        while not learner.stopped:
            block = learner.next_arms()
            block += learner.next_arms(learner.n_planned) if learner.n_planned else []
            for arm in block:
                learner.tell(arm, float(means[arm] + noise.of_phase(r)[arm] / np.sqrt(block.count(arm))))
            r += 1
        task = create().task
        rows = task.rows.gather(np.arange(10))
        phasing, is_cumulative = method.phasing(task), method.is_cumulative
        best, n = phased_answer(phasing, rows, means, SameNoise(seed, 10), cumulative=is_cumulative)
        assert (best, n) == (learner.decision.best, learner.decision.n_pulls)
        answers.add(best)
    assert len(answers) > 1  # else any method would agree


def test_wrong_answers_are_those_of_another_implementation() -> None:
    """81 shares, all within three combined standard errors; their mean square is that of chance."""
    found = json.loads(OUT.read_text("utf-8"))
    distances = np.array([*apart(found).values()])
    assert len(distances) == 81
    assert np.abs(distances).max() <= 3.0
    assert 0.7 < np.mean(distances**2) < 1.4
    found["soare10"]["halving"]["1010"]["wrong"] += 0.05
    assert apart(found)["soare10", "halving", "1010"] > 3.0
