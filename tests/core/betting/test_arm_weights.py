"""Known misfit: the bias of a block."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.bet_variants import log_bet
from surepick.core.betting.block import ArmWeights, Block, fit
from surepick.types import Array, IntArray


def weights_of(X: Array, counts: Array, arms: IntArray) -> ArmWeights:
    """Return the weights of a block that pulls rows X (s, d) so many times, under these numbers."""
    n = counts.astype(int)
    rows, numbers = np.repeat(X, n, axis=0), np.repeat(arms, n)
    said = fit(Block.of(rows, np.zeros(len(rows)), np.zeros(X.shape[1])))
    return ArmWeights.of_least_squares(numbers, rows, said.root)


def bias_of(weights: ArmWeights, X: Array, leader: int, rivals: IntArray) -> Array:
    """Return the bias per unit of eta, for arms X (K, d)."""
    return weights.bias(((X[leader] - X[rivals]) @ weights.W).T, leader, rivals)


def test_the_bias_by_hand() -> None:
    """Three arms in the plane: C = (.341365, -.493976, -.176707)."""
    X = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.6]])
    weights = weights_of(X, np.array([5.0, 3.0, 4.0]), np.arange(3))
    np.testing.assert_allclose((X[0] - X[2]) @ weights.W, [0.341365, -0.493976, -0.176707], atol=1e-6)
    assert bias_of(weights, X, 0, np.array([2]))[0] == pytest.approx(1.975904, abs=1e-6)


def test_pulling_the_two_arms_themselves_has_no_bias() -> None:
    """Nor has the leader against itself."""
    X = np.eye(3)
    bias = bias_of(weights_of(X, np.array([3.0, 1.0, 8.0]), np.arange(3)), X, 0, np.arange(3))
    np.testing.assert_allclose(bias, 0.0, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_worst_misfit_attains_the_bias_and_none_exceeds_it(seed: int) -> None:
    """Arms pulled or not: the mean of z less the gap, for misfits of size eta."""
    rng = np.random.default_rng(seed)
    dim, n_arms = int(rng.integers(1, 5)), 8
    X, eta = rng.standard_normal((n_arms, dim)), 0.3
    support = rng.choice(n_arms, int(rng.integers(dim, n_arms + 1)), replace=False)
    counts = rng.integers(1, 9, len(support)).astype(float)
    leader = int(rng.integers(n_arms))
    rivals = np.delete(np.arange(n_arms), leader)
    B = eta * bias_of(weights_of(X[support], counts, support), X, leader, rivals)
    A_inv = np.linalg.inv((X[support].T * counts) @ X[support])
    theta = rng.standard_normal(dim)
    for b, bound in zip(rivals.tolist(), B, strict=True):
        weights = np.zeros(n_arms)
        weights[support] = counts * (X[support] @ A_inv @ (X[leader] - X[b]))

        def bias(off: Array, b: int = b, weights: Array = weights) -> float:
            means = X @ theta + off
            return float(weights @ means - (means[leader] - means[b]))

        slope = weights.copy()
        slope[leader] -= 1.0
        slope[b] += 1.0
        assert bias(eta * np.sign(slope)) == pytest.approx(bound, rel=1e-6, abs=1e-8)
        assert bias(rng.uniform(-eta, eta, n_arms)) <= bound + 1e-8


def test_a_block_with_the_bias_taken_off_pays_at_most_one() -> None:
    """Mean over the noise at the largest mean that z can have under "l is not better than b"."""
    at = np.arange(-12.0, 12.0, 0.05)
    density = 0.05 * np.exp(-0.5 * at * at) / np.sqrt(2 * np.pi)
    for B in (0.0, 0.4):
        E = np.exp(log_bet((B + 0.5 * at) - B, 0.25, 0.7, 0.3))
        assert density @ E == pytest.approx(1.0, abs=1e-9)
