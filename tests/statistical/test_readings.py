"""Coarse, equal and repeated readings: no verdict rests on rounding, and the gate sees rules on which it does.

False alarms: a count of wrong verdicts exceeds its limit with probability below 1e-6 if every run errs with probability
delta or less (exact binomial).
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest.mock import PropertyMock

import numpy as np
import pytest
from scipy.stats import binom

import surepick as sp
from surepick.core.estimate import LeastSquares
from surepick.core.normality import ShapeWatch
from surepick.errors import NoiseWarning
from surepick.learning.learner import Learner
from surepick.learning.result import blocks_of
from surepick.types import Array
from tests.statistical.reference_implementation import Tally

DELTA, N_RUNS = 0.05, 40
LIMIT = int(binom.isf(1e-6, N_RUNS, DELTA))
Case = Callable[[np.random.Generator], tuple[Array, Array, Callable[[int], float]]]


def doses(rng: np.random.Generator) -> tuple[Array, Array, Callable[[int], float]]:
    """Five doses in one cell of the instrument: it shows 1.0 whatever the dose, the largest is best."""
    X = np.column_stack([np.ones(5), np.arange(1.0, 6.0) + rng.uniform(-0.2, 0.2, 5)])
    means = X @ [0.95, 0.008]
    return X, means, lambda arm: round(means[arm] + 0.003 * rng.standard_normal(), 1)


def curve(rng: np.random.Generator) -> tuple[Array, Array, Callable[[int], float]]:
    """A parabola in seven doses, with noise of a tenth of the last digit: rounding shifts every mean."""
    x = np.linspace(-1.0, 1.0, 7)
    X = np.column_stack([np.ones(7), x, x * x])
    means = X @ (rng.normal(size=3) * [1.0, 0.1, 0.1])
    return X, means, lambda arm: round(means[arm] + 0.01 * rng.standard_normal(), 1)


def cache(rng: np.random.Generator) -> tuple[Array, Array, Callable[[int], float]]:
    """Every arm is measured once, and the first value is given out again and again."""
    means = 0.2 * rng.normal(size=4)
    values = means + rng.normal(size=4)
    return np.eye(4), means, lambda arm: float(values[arm])


def count(case: Case, runs: Iterable[int], **options: Any) -> Tally:
    """Count verdicts labelled proved within a hundred pulls, and how many of them are wrong."""
    total = Tally()
    for run in runs:
        rng = np.random.default_rng([26, run])
        X, means, measure = case(rng)
        learner = sp.create_learner("lazy-track-and-stop", X, delta=DELTA, seed=run, **options)
        while not learner.stopped and learner.estimate.n_pulls < 100:
            for arm in learner.next_arms(max(learner.n_planned, 1)):
                learner.tell(arm, measure(arm))
        decision = learner.decision
        is_proved = learner.stopped and decision.guarantee == "proved"
        total += Tally(is_proved and bool(means[decision.best] < means.max()), is_proved, 1)
    return total


def n_wrong(case: Case, **options: Any) -> int:
    """Count wrong verdicts that are labelled proved."""
    return count(case, range(N_RUNS), **options).wrong


@pytest.mark.statistical
@pytest.mark.parametrize("case", [doses, curve, cache])
def test_rounding_is_never_proof(case: Case) -> None:
    """Equal readings, rounding bias and repeated values lead to no wrong verdict beyond delta."""
    assert n_wrong(case) <= LIMIT


@pytest.mark.statistical
@pytest.mark.parametrize("case", [doses, cache])
def test_rounding_is_no_proof_where_every_arm_has_its_own_noise(case: Case) -> None:
    """Repetitions of one plan that agree to the last digit are no evidence."""
    assert n_wrong(case, noise="per-arm") <= LIMIT


@pytest.mark.statistical
@pytest.mark.parametrize("case", [doses, cache])
def test_the_gate_sees_rules_that_take_rounding_for_noise(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that does not look for a grid, and knows no floating point, is wrong far too often."""
    monkeypatch.setattr(LeastSquares, "resolution", PropertyMock(return_value=0.0))
    monkeypatch.setattr(LeastSquares, "n_repeated", PropertyMock(return_value=(0, 0)))
    monkeypatch.setattr("surepick.core.betting.block.DUST", 0.0)
    monkeypatch.setattr(ShapeWatch, "doubt", lambda _: None)
    assert n_wrong(case) > LIMIT


def _learnt(rewards: Callable[[int], float], n: int, **options: Any) -> Learner:
    learner = sp.create_learner("lazy-track-and-stop", np.eye(3), delta=DELTA, **options)
    for arm in learner.next_arms(n):
        if not learner.stopped:
            learner.tell(arm, rewards(arm))
    return learner


@pytest.mark.parametrize("stopping", ["betting", "evidence"])
@pytest.mark.parametrize("value", [0.0, 2.5])
def test_equal_rewards_say_nothing(stopping: str, value: float) -> None:
    """No rule stops, divides by zero, or shows an interval of width zero."""
    result = _learnt(lambda _: value, 60, stopping=stopping).result()
    assert not result.stopped
    assert result.p_value == 1.0 or np.isnan(result.p_value)
    assert result.epsilon_bound > 0.0
    assert result.coarseness == np.inf


def test_a_cache_behind_the_measurement_is_named(tmp_path: Path) -> None:
    """The warning counts the repeated values; the claim is withdrawn, and the words say what to do."""
    values = [0.31415, 2.71828, 1.41421]
    with pytest.warns(NoiseWarning, match=r"repeated measurements equal the first one of their arm .* cache"):
        result = sp.identify(np.eye(3), lambda arm: values[arm])
    assert (result.stopped, result.n_pulls) == (False, 256)  # measuring on would be of no use
    assert result.guarantee == "withdrawn"
    assert result.repeated
    assert "Measure anew each time" in result.explain()
    result.save(tmp_path / "result.json")
    assert sp.Result.load(tmp_path / "result.json").repeated


def test_measurements_without_noise_are_decided_once_that_is_said() -> None:
    """With a noise_std of half the last digit a function that always returns the same is no trouble."""
    values = [0.31415, 2.71828, 1.41421]
    result = sp.identify(np.eye(3), lambda arm: values[arm], noise_std=5e-6, max_pulls=64)
    assert result.stopped
    assert result.best == 1


def test_coarse_readings_are_named() -> None:
    """The warning says how large the steps are; the answer waits for a difference that rounding cannot make."""
    rng = np.random.default_rng(5)
    means = np.array([1.0, 1.02, 1.04])
    with pytest.warns(NoiseWarning, match=r"steps of 0\.1.*more digits"):
        result = sp.identify(np.eye(3), lambda arm: round(means[arm] + 0.02 * rng.standard_normal(), 1), max_pulls=64)
    assert not result.stopped
    assert result.coarseness == pytest.approx(0.1)
    apart = np.array([1.0, 1.5, 3.0])
    clear = sp.identify(np.eye(3), lambda arm: round(apart[arm] + 0.02 * rng.standard_normal(), 1), max_pulls=200)
    assert (clear.best, clear.stopped, clear.guarantee) == (2, True, "proved")


def test_rounding_is_no_misfit() -> None:
    """Means that rounding moves withdraw no claim: the watch does not bet on coarse readings."""
    for run in range(12):
        X, _, measure = curve(np.random.default_rng([26, run]))
        learner = sp.create_learner("lazy-track-and-stop", X, delta=DELTA, seed=run)
        for arm in learner.next_arms(60):
            learner.tell(arm, measure(arm))
        assert learner.decision.guarantee == "proved", run


def test_the_block_in_which_readings_begin_to_repeat_is_lost() -> None:
    """Its bets cannot win by what the block itself has shown to be no measurement."""
    values = [0.31415, 2.71828, 1.41421]
    learner = _learnt(lambda arm: values[arm], 60)
    assert any(np.isinf(block.bias) for block in blocks_of(learner)())
