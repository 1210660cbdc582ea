"""The naive versions are honest: they find the same answers by the same pulls, only more slowly."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from examples import tiny
from examples.naive.lazy_track_and_stop import NaiveLazyTrackAndStop
from examples.naive.rage import NaiveRage
from surepick.errors import InvalidInput
from surepick.learning.learner import Learner, create_learner
from surepick.simulation import problems
from surepick.simulation.problems import Problem


def driven(learner: Learner, problem: Problem, seed: int) -> tuple[int, Mapping[Any, int]]:
    """Drive a learner to its stop; return its answer and the pulls."""
    rng, means = np.random.default_rng([3, seed]), problem.X @ problem.theta
    while not learner.stopped:
        for arm in learner.next_arms():
            learner.tell(arm, float(means[arm] + rng.standard_normal()))
    best = learner.decision.best
    assert best is not None
    return best, learner.counts


@pytest.mark.parametrize("seed", [1])
def test_lazy_track_and_stop_pulls_what_the_tiny_version_pulls(seed: int) -> None:
    """Same rewards, same random arms at the start: the same pulls of every arm."""
    problem = problems.many_arms(30, seed=seed)
    best, counts = driven(Learner(NaiveLazyTrackAndStop(), problem.X, seed=seed, noise_std=1.0), problem, seed)
    rng, means = np.random.default_rng([3, seed]), problem.X @ problem.theta
    answer, wanted, _ = tiny.identify(
        problem.X, lambda arm: means[arm] + rng.standard_normal(), 0.05, rng=np.random.default_rng(seed), noise_std=1.0
    )
    assert best == answer
    assert counts == {arm: int(n) for arm, n in enumerate(wanted) if n}


def test_tracking_the_current_design() -> None:
    """Without averaging the answer is found as well."""
    problem = problems.soare(2, angle=0.5)
    algorithm = NaiveLazyTrackAndStop(tracking="current", n_steps=100)
    assert driven(Learner(algorithm, problem.X, noise_std=1.0), problem, 1)[0] == problem.best


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rage_needs_about_the_pulls_of_the_package(seed: int) -> None:
    """Designs and rounding differ by percents; a phase more or less would be a factor of four."""
    problem = problems.many_arms(60, seed=seed)
    best, counts = driven(Learner(NaiveRage(), problem.X, noise_std=1.0), problem, seed)
    other, others = driven(create_learner("rage", problem.X, variant="paper", noise_std=1.0), problem, seed)
    assert best == other == problem.best
    assert 0.6 < sum(counts.values()) / sum(others.values()) < 1.7


@pytest.mark.parametrize("algorithm", [NaiveLazyTrackAndStop(), NaiveRage()])
def test_candidates_are_refused(algorithm: Any) -> None:
    """Answers that are not the arms are beyond the naive versions, and they say so."""
    problem = problems.transductive(2)
    with pytest.raises(InvalidInput, match="compares the arms themselves"):
        Learner(algorithm, problem.X, candidates=problem.candidates, noise_std=1.0)
