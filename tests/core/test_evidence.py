"""Evidence formulas against direct minimisation, and their monotonicity, roots and broadcasting."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from surepick.core.evidence import (
    Mixture,
    glr,
    log_evidence,
    log_pairwise_evidence,
    loss_bound,
)
from surepick.errors import InvalidInput
from surepick.types import Array


def instance(seed: int, dim: int) -> tuple[Array, Array, Array, Array]:
    """Return A, V (both positive definite), theta and a direction y."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((dim + int(rng.integers(1, 60)), dim))
    root = rng.standard_normal((dim, dim)) + np.eye(dim)
    return X.T @ X, root @ root.T + 0.1 * np.eye(dim), rng.standard_normal(dim), rng.standard_normal(dim)


def forms(A: Array, V: Array, y: Array, mixture: Mixture) -> tuple[float, float, Array]:
    """Return q1, q2 and the log-determinants."""
    u = np.linalg.solve(A, y)
    logdets = [np.linalg.slogdet(np.eye(len(A)) + np.linalg.solve(k * V, A))[1] for k in mixture.kappas]
    return float(y @ u), float(u @ V @ u), np.array(logdets)


@given(seed=st.integers(0, 2**32 - 1), dim=st.integers(1, 6), epsilon=st.floats(0.0, 2.0))
def test_each_term_is_the_minimum_of_the_supermartingale_over_the_half_space(
    seed: int, dim: int, epsilon: float
) -> None:
    """For one regulariser the evidence equals log M at the minimiser on lambda'y = -epsilon, and none is lower."""
    A, V, theta, y = instance(seed, dim)
    y = y if theta @ y >= 0 else -y
    mixture = Mixture.uniform(3.0)
    q1, q2, logdets = forms(A, V, y, mixture)
    value = float(log_evidence(theta @ y, q1, q2, logdets, mixture=mixture, noise_std=1.5, epsilon=epsilon))

    def log_m(parameter: Array) -> float:
        S = A @ (theta - parameter)
        quadratic = float(S @ np.linalg.solve(A + 3.0 * V, S))
        return quadratic / (2.0 * 1.5**2) - 0.5 * float(logdets[0])

    W = np.linalg.solve(A, np.linalg.solve(A, A + 3.0 * V).T)
    nearest = theta - W @ y * (theta @ y + epsilon) / (y @ W @ y)
    assert nearest @ y == pytest.approx(-epsilon, abs=1e-6)
    assert log_m(nearest) == pytest.approx(value, rel=1e-6, abs=1e-6)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        other = nearest + rng.standard_normal(dim) * 10.0 ** rng.uniform(-3, 1)
        other -= y * max(float(other @ y) + epsilon, 0.0) / (y @ y)
        assert log_m(other) >= value - 1e-6 * (1.0 + abs(value))


@given(seed=st.integers(0, 2**32 - 1), dim=st.integers(1, 6))
def test_a_mixture_is_the_weighted_sum_of_its_parts(seed: int, dim: int) -> None:
    """Compared in plain exponentials."""
    A, V, theta, y = instance(seed, dim)
    theta = 0.1 * theta
    mixture = Mixture((2.0, 50.0), (0.25, 0.75))
    q1, q2, logdets = forms(A, V, y, mixture)
    parts = [
        math.exp(
            float(log_evidence(theta @ y, q1, q2, logdets[j : j + 1], mixture=Mixture.uniform(kappa), noise_std=1.0))
        )
        for j, kappa in enumerate(mixture.kappas)
    ]
    whole = math.exp(float(log_evidence(theta @ y, q1, q2, logdets, mixture=mixture, noise_std=1.0)))
    assert whole == pytest.approx(0.25 * parts[0] + 0.75 * parts[1], rel=1e-9)


def test_the_glr_is_half_the_squared_distance_to_the_alternative() -> None:
    """And zero when the estimate already says that the leader loses epsilon."""
    A, _, theta, y = instance(1, 4)
    y = y if theta @ y >= 0 else -y
    gap, q = float(theta @ y), float(y @ np.linalg.solve(A, y))
    nearest = theta - np.linalg.solve(A, y) * (gap + 0.3) / q
    distance = 0.5 * float((theta - nearest) @ A @ (theta - nearest))
    assert float(glr(gap, q, 0.3)) == pytest.approx(distance, rel=1e-10)
    assert float(glr(-0.5, q, 0.3)) == 0.0
    np.testing.assert_allclose(glr([0.0, 1.0], [2.0, 2.0]), [0.0, 0.25])


@given(
    gap=st.floats(0.0, 3.0),
    log_q=st.floats(-6.0, 2.0),
    ratio=st.floats(1e-3, 1.0),
    delta=st.floats(1e-10, 0.9),
    noise_std=st.floats(0.1, 10.0),
    prices=st.lists(st.floats(0.0, 200.0), min_size=6, max_size=6),
)
def test_the_loss_bound_is_where_the_evidence_reaches_the_risk(
    gap: float, log_q: float, ratio: float, delta: float, noise_std: float, prices: list[float]
) -> None:
    """A root from the safe side; zero exactly when epsilon = 0 is already enough."""
    q1 = 10.0**log_q
    options: dict[str, Any] = {"mixture": Mixture.default(), "noise_std": noise_std}
    pair: Any = (gap, q1, ratio * q1, np.sort(prices)[::-1])
    bound = max(float(loss_bound(*pair, delta=delta, **options)), 0.0)
    target = math.log(1.0 / delta)
    reached = float(log_evidence(*pair, epsilon=bound, **options))
    if bound > 0.0:
        assert reached == pytest.approx(target, rel=1e-7, abs=1e-7)
    else:
        assert reached >= target - 1e-9
    smaller = float(log_evidence(*pair, epsilon=0.999 * bound, **options))
    assert smaller <= reached + 1e-9


def test_the_loss_bound_agrees_with_a_bracketing_root_finder() -> None:
    """And lies below the best bound from a single regulariser."""
    A, V, theta, y = instance(9, 5)
    y = y if theta @ y >= 0 else -y
    mixture = Mixture.default()
    q1, q2, logdets = forms(A, V, y, mixture)
    gap = 0.01 * float(theta @ y)
    options: dict[str, Any] = {"mixture": mixture, "noise_std": 1.0}
    root = optimize.brentq(
        lambda e: float(log_evidence(gap, q1, q2, logdets, epsilon=e, **options)) - math.log(20.0), 0.0, 1e4
    )
    bound = float(loss_bound(gap, q1, q2, logdets, delta=0.05, **options))
    assert bound == pytest.approx(root, rel=1e-9)
    singles = -gap + np.sqrt(2.0 * (math.log(20.0) - mixture.log_weights + 0.5 * logdets) * (q1 + mixture.scales * q2))
    assert bound <= singles.min()


def test_formulas_broadcast_over_paths() -> None:
    """Log-determinants per path (P, 1, J) against pairs (P, K) give each pair its own path's price."""
    rng = np.random.default_rng(0)
    mixture = Mixture.default()
    gap, q1, q2 = rng.random((4, 3)), 0.1 + rng.random((4, 3)), rng.random((4, 3))
    logdets = 5.0 * rng.random((4, 6))
    options: dict[str, Any] = {"mixture": mixture, "noise_std": 0.7}
    together = log_evidence(gap, q1, q2, logdets[:, None, :], epsilon=0.1, **options)
    bounds = loss_bound(gap, q1, q2, logdets[:, None, :], delta=0.05, **options)
    assert together.shape == bounds.shape == (4, 3)
    for i in range(4):
        np.testing.assert_allclose(
            together[i], log_evidence(gap[i], q1[i], q2[i], logdets[i], epsilon=0.1, **options), rtol=1e-13
        )
        np.testing.assert_allclose(
            bounds[i], loss_bound(gap[i], q1[i], q2[i], logdets[i], delta=0.05, **options), rtol=1e-12
        )


@given(
    gap=st.floats(0.0, 2.0),
    n_leader=st.integers(1, 10_000),
    n_rival=st.integers(1, 10_000),
    epsilon=st.floats(0.0, 1.0),
)
def test_pairwise_evidence_is_the_minimum_over_the_two_means(
    gap: float, n_leader: int, n_rival: int, epsilon: float
) -> None:
    """The product of the two arms' mixtures, minimised on a line of means that differ by -epsilon."""
    kappa, noise_std = 12.0, 2.0

    def log_product(rival_mean: float) -> float:
        # Estimated means are gap and 0; the leader's true mean is the rival's minus epsilon.
        sums = (n_leader * (gap - (rival_mean - epsilon)), n_rival * (0.0 - rival_mean))
        value = 0.0
        for n, s in zip((n_leader, n_rival), sums, strict=True):
            value += s * s / (2.0 * noise_std**2 * (n + kappa)) - 0.5 * math.log(1.0 + n / kappa)
        return value

    best = optimize.minimize_scalar(log_product, bracket=(0.0, gap + epsilon + 1e-3))
    value = float(log_pairwise_evidence(gap, n_leader, n_rival, kappa=kappa, noise_std=noise_std, epsilon=epsilon))
    assert value == pytest.approx(float(best.fun), rel=1e-6, abs=1e-6)


def test_an_arm_never_pulled_gives_no_pairwise_evidence() -> None:
    """No division by zero, and never above zero."""
    values = log_pairwise_evidence(5.0, [0, 10, 0], [10, 0, 0], kappa=4.0, noise_std=1.0)
    assert np.isfinite(values).all()
    assert (values <= 0.0).all()


def test_the_default_mixture() -> None:
    """Six regularisers, each four times the last with half its weight."""
    mixture = Mixture.default()
    assert mixture.kappas == (4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0)
    assert sum(mixture.weights) == pytest.approx(1.0, rel=1e-15)
    np.testing.assert_allclose(np.diff(mixture.log_weights), -math.log(2.0))
    assert Mixture.uniform([1, 2]) == Mixture((1.0, 2.0), (0.5, 0.5))


@pytest.mark.parametrize(
    ("kappas", "weights"),
    [((), ()), ((1.0,), (0.5, 0.5)), ((-1.0,), (1.0,)), ((1.0,), (0.9,)), ((1.0, 2.0), (1.5, -0.5))],
)
def test_a_mixture_that_is_none_is_refused(kappas: tuple[float, ...], weights: tuple[float, ...]) -> None:
    """Lengths, signs and the sum of the weights are checked."""
    with pytest.raises(InvalidInput):
        Mixture(kappas, weights)


def test_log_determinants_must_match_the_mixture() -> None:
    """One per kappa, on the last axis."""
    with pytest.raises(InvalidInput, match="one entry per kappa"):
        log_evidence(1.0, 1.0, 1.0, [1.0, 2.0], mixture=Mixture.default(), noise_std=1.0)
