"""PEPS: samples with another best arm, gains from them or from the closest alternative, the ridge of the paper."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, multivariate_normal

from surepick.errors import InvalidInput
from surepick.learning.learner import Learner, create_learner
from surepick.simulation import problems
from surepick.types import Array
from tests.learning.lab import chooser_of, run
from tests.tasks import AnyLearner

SOARE = problems.soare(2, angle=0.3)


def told(n_pulls: int, **options: Any) -> Learner:
    """A learner after some pulls, far from its end."""
    learner = create_learner("peps", SOARE.X, noise_std=1.0, delta=1e-30, seed=1, **options)
    run(learner, SOARE, seed=2, most=n_pulls)
    return learner


def rows_of(learner: Learner) -> Array:
    """Arms in the learner's coordinates."""
    return learner.measured_arms.gather(np.arange(3))


def test_samples_disagree_as_often_as_the_posterior_says() -> None:
    """Each has another best arm; of 4,000 draws, 1e-6 allows for the binomial range of the exact probability."""
    learner = told(8, n_kept=10**6, most_draws=4000)
    chooser, rows = chooser_of(learner), rows_of(learner)
    theta, leader = learner.estimate.theta, int(np.argmax(rows @ learner.estimate.theta))
    samples = chooser.samples()
    assert (np.argmax((theta + samples) @ rows.T, axis=1) != leader).all()
    others = np.delete(rows, leader, axis=0) - rows[leader]
    law = multivariate_normal(others @ theta, others @ np.linalg.inv(learner.estimate.A) @ others.T)
    p = 1.0 - float(law.cdf([0.0, 0.0]))
    assert 0.02 < p < 0.5
    assert binom.ppf(5e-7, 4000, p) <= len(samples) <= binom.isf(5e-7, 4000, p)
    assert not binom.ppf(5e-7, 4000, 0.5 * p) <= len(samples) <= binom.isf(5e-7, 4000, 0.5 * p), "a scale would show"


def test_a_round_needs_no_more_samples_than_it_keeps() -> None:
    """And gives up after `most_draws`."""
    assert len(chooser_of(told(40, n_kept=3, most_draws=4000)).samples()) == 3
    assert len(chooser_of(told(40, n_kept=20, most_draws=2)).samples()) <= 2


def test_gains_are_means_over_samples() -> None:
    """Squares along each arm."""
    learner = told(40)
    chooser, rows = chooser_of(learner), rows_of(learner)
    state = chooser._rng.bit_generator.state
    samples = chooser.samples()
    assert len(samples) > 1
    chooser._rng.bit_generator.state = state
    np.testing.assert_allclose(chooser.gains(), np.mean((samples @ rows.T) ** 2, axis=0))


def test_without_a_sample_the_closest_alternative_takes_over() -> None:
    """By brute force over the rivals; after precise results no draw disagrees."""
    learner = create_learner("peps", SOARE.X, noise_std=1e-3, delta=1e-300, seed=1)
    run(learner, replace(SOARE, noise_std=1e-3), seed=2, most=10, is_endless=True)
    chooser, rows, estimate = chooser_of(learner), rows_of(learner), learner.estimate
    A_inv, theta = np.linalg.inv(estimate.A), estimate.theta
    y = rows[0] - rows[1:]
    gap, square = y @ theta, np.einsum("ij,jk,ik->i", y, A_inv, y)
    hardest = int(np.argmin(gap**2 / square))
    apart = A_inv @ y[hardest] * gap[hardest] / square[hardest]
    assert len(chooser.samples()) == 0
    np.testing.assert_allclose(chooser.gains(), (rows @ apart) ** 2, rtol=1e-9)


def test_the_paper_variant_has_its_ridge() -> None:
    """0.1 I in the features as given, in the estimate and in the posterior."""
    learner = told(30, variant="paper")
    chooser = chooser_of(learner)
    rows = SOARE.X[[arm for arm, _ in learner.history]]
    V = rows.T @ rows + 0.1 * np.eye(2)
    theta = np.linalg.solve(V, rows.T @ np.array([reward for _, reward in learner.history]))
    np.testing.assert_allclose(learner.measured_arms.theta_to_user(chooser._theta), theta, rtol=1e-9)
    x = rows_of(learner)
    np.testing.assert_allclose(x @ chooser._asked.A_inv @ x.T, SOARE.X @ np.linalg.inv(V) @ SOARE.X.T, atol=1e-9)


def test_counts_are_checked() -> None:
    """At least one sample of at least one draw."""
    with pytest.raises(InvalidInput, match="`n_kept` must be"):
        AnyLearner("peps", SOARE.X, noise_std=1.0, n_kept=0)
    with pytest.raises(InvalidInput, match="`most_draws` must be"):
        AnyLearner("peps", SOARE.X, noise_std=1.0, most_draws=0)
