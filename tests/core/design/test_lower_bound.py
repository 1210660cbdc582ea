"""The lower bound where arms differ in noise and cost."""

import math

import numpy as np
import pytest

import surepick as sp

KL = 0.9 * math.log(19.0)
THETA = [1.0, 0.5]


def test_noise_and_cost_of_each_arm() -> None:
    """For two arms T* = 2 (s1 + s2)^2 / gap^2, where a cost c counts as noise sqrt(c)."""
    expected = 2.0 * (0.5 + 2.0) ** 2 / 0.25 * KL
    assert sp.lower_bound(np.eye(2), THETA, 0.05, [0.5, 2.0]) == pytest.approx(expected, rel=1e-5)
    expected = 2.0 * (0.5 + 2.0 * 3.0) ** 2 / 0.25 * KL
    assert sp.lower_bound(np.eye(2), THETA, 0.05, [0.5, 2.0], costs=[1.0, 9.0]) == pytest.approx(expected, rel=1e-5)


def test_equal_noise_and_cost_are_the_plain_bound() -> None:
    """Also for candidates that are not arms."""
    X, candidates = np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]]), np.array([[1.0, 0.1], [0.9, 0.5]])
    for others in (None, candidates):
        plain = sp.lower_bound(X, [1.0, 0.2], 0.05, 0.4, others)
        each = sp.lower_bound(X, [1.0, 0.2], 0.05, [0.4] * 3, others, costs=[2.0] * 3)
        assert each == pytest.approx(2.0 * plain, rel=1e-5)


@pytest.mark.parametrize("wrong", [{"noise_std": [1.0] * 3}, {"costs": [1.0, 0.0]}, {"costs": [1.0]}])
def test_bad_values_are_refused(wrong: dict[str, list[float]]) -> None:
    """By name."""
    with pytest.raises(sp.InvalidInput, match=next(iter(wrong))):
        sp.lower_bound(np.eye(2), THETA, **wrong)  # type: ignore[arg-type]


def test_copies_of_the_best_are_no_rivals() -> None:
    """They are the same answer; T* does not change."""
    once = sp.characteristic_time(np.array([[1.0, 0.0], [0.0, 1.0]]), THETA).value
    twice = sp.characteristic_time(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), THETA).value
    assert twice == pytest.approx(once, rel=1e-3)


def test_simulations_have_the_bound_of_their_noise() -> None:
    """A problem whose arms differ in noise."""
    problem = sp.problems.Problem(X=np.eye(2), theta=np.array(THETA), name="two", noise_std=[0.2, 0.8])
    runs = sp.simulate(problem, n_runs=2, bounds=True)
    assert runs.lower_bound is not None
    assert runs.lower_bound[0] == pytest.approx(2.0 * 1.0 / 0.25 * KL, rel=1e-5)
