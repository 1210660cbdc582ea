"""The posterior before the verdict: values worked out by hand and by quadrature, draws, intervals, waiting times."""

import math

import numpy as np
import pytest
import scipy

from surepick.core.posterior import (
    Posterior,
    flat_draws,
    shrunk_posterior,
    t_factor,
    waiting_quantiles,
    wilson,
)

GAP = np.array([1.0, -1.0])
TWO = {"theta": np.array([1.0, 0.4]), "A_inv": 0.2 * np.eye(2), "variance": 1.0, "nu": 8, "level": np.ones(2)}


def two_arms(posterior: Posterior) -> tuple[float, float, float]:
    """Return P(the first of two arms is best), its expected loss and the mean gap, exactly."""
    mean, variance = posterior.along(GAP)
    std = np.sqrt(variance)
    x = mean / std
    loss = std * np.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi) - mean * scipy.special.ndtr(-x)
    w = posterior.weights
    return float(w @ scipy.special.ndtr(x)), float(w @ loss), float(w @ mean)


def test_two_arms() -> None:
    assert two_arms(shrunk_posterior(**TWO)) == pytest.approx((0.73135, 0.07188, 0.31721), abs=5e-6)


def test_components_are_those_of_the_definition() -> None:
    """Weights, means and covariances by matrices, against the formulas in the eigenbasis."""
    rng = np.random.default_rng(1)
    root = rng.standard_normal((4, 6))
    A_inv, theta, u = np.linalg.inv(root @ root.T), rng.standard_normal(4), rng.standard_normal(4)
    found = shrunk_posterior(theta, A_inv, 0.7, 5, u)
    c = float(u @ np.linalg.solve(A_inv, theta)) / float(u @ np.linalg.solve(A_inv, u))
    y, expected = rng.standard_normal(4), []
    for i in range(16):
        sigma2 = 0.7 * 5 / scipy.special.chdtri(5, 1.0 - (i + 0.5) / 16)
        for t2 in float(theta @ theta) / 4 * 2.0 ** -np.arange(-1.0, 11.0):
            for t1 in (0.0, c * c):
                P = t2 * np.eye(4) + t1 * np.outer(u, u)
                Q = P + sigma2 * A_inv
                weight = math.sqrt(t2 / np.linalg.det(Q)) * math.exp(-0.5 * float(theta @ np.linalg.solve(Q, theta)))
                K = P @ np.linalg.inv(Q)
                expected.append((weight, y @ K @ theta, y @ (P - K @ P) @ y))
    weights, means, variances = np.array(expected).T
    assert found.weights == pytest.approx(weights / weights.sum())
    assert found.along(y)[0] == pytest.approx(means)
    assert found.along(y)[1] == pytest.approx(variances)


def test_draws_follow_the_mixture_and_do_not_jitter() -> None:
    posterior = shrunk_posterior(**TWO)
    gap = posterior.draws(50_000) @ GAP
    # Five standard errors each: a false alarm with probability below 1e-6.
    assert (gap > 0.0).mean() == pytest.approx(0.73135, abs=5 * 0.5 / math.sqrt(50_000))
    assert gap.mean() == pytest.approx(0.31721, abs=5 * gap.std() / math.sqrt(50_000))
    near = shrunk_posterior(**{**TWO, "theta": np.array([1.0, 0.4 + 1e-9])})
    assert np.abs(near.draws(500) - posterior.draws(500)).max() < 1e-3


def test_known_noise_has_one_level() -> None:
    assert len(shrunk_posterior(**{**TWO, "nu": math.inf}).weights) == 24


def test_flat_draws_of_two_arms() -> None:
    thetas, sigma = flat_draws(TWO["theta"], TWO["A_inv"], 1.0, 8, 50_000)
    gap = thetas @ GAP
    assert (gap > 0.0).mean() == pytest.approx(0.81472, abs=5 * 0.5 / math.sqrt(50_000))
    assert np.maximum(-gap, 0.0).mean() == pytest.approx(0.08130, abs=0.006)
    assert np.median(sigma**2) == pytest.approx(8 / 7.344, rel=1e-3)


def test_t_and_wilson() -> None:
    assert t_factor(8) == pytest.approx(2.306, abs=1e-3)
    assert t_factor(math.inf) == pytest.approx(1.96, abs=1e-3)
    assert t_factor(0) == math.inf
    low, high = wilson(np.array([34.0, 51.0, 0.0]), np.array([40.0, 60.0, 10.0]))
    assert low == pytest.approx([0.7093, 0.7389, 0.0], abs=5e-5)
    assert high == pytest.approx([0.9294, 0.9190, 0.2775], abs=5e-5)


def test_waiting_times() -> None:
    one = waiting_quantiles(np.array([100.0]), np.array([0.2]), (0.1, 0.5, 0.9))
    assert one == pytest.approx([52.6087, 91.0214, 158.8361], abs=1e-3)
    # A mixture lies between its parts.
    both = waiting_quantiles(np.array([100.0, 1000.0]), np.array([0.2, 0.2]), (0.25, 0.75))
    assert 60.0 < both[0] < 100.0 < 800.0 < both[1] < 1000.0
