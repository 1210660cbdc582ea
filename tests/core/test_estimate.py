"""Least squares: rank-one updates against direct solves, drift, and data that does not determine theta."""

from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surepick.core.estimate import GAIN_LIMIT, LeastSquares
from surepick.errors import InvalidInput, NotEnoughData, SurepickError
from surepick.types import Array


def direct(X: Array, rewards: Array, V: Array) -> tuple[Array, Array, Array]:
    """Return theta, A^-1 and the log-determinants from all pulls at once."""
    theta: Array = np.linalg.lstsq(X, rewards, rcond=None)[0].astype(float)
    A = X.T @ X
    logdets = np.array([np.linalg.slogdet(np.eye(len(A)) + np.linalg.solve(v, A))[1] for v in V])
    return theta, np.linalg.inv(A).astype(float), logdets


def some_regularizers(rng: np.random.Generator, n: int, dim: int) -> Array:
    """Return n random positive definite matrices of very different sizes."""
    roots = rng.standard_normal((n, dim, dim)) + 2.0 * np.eye(dim)
    scales = 10.0 ** rng.uniform(-3, 3, size=(n, 1, 1))
    return scales * (roots @ roots.transpose(0, 2, 1) + np.eye(dim))


@given(seed=st.integers(0, 2**32 - 1), dim=st.integers(1, 8), n_regularizers=st.integers(0, 3))
def test_rank_one_updates_agree_with_a_direct_solve(seed: int, dim: int, n_regularizers: int) -> None:
    """After a thousand pulls theta, the inverse and the log-determinants are those of a direct solve."""
    rng = np.random.default_rng(seed)
    V = some_regularizers(rng, n_regularizers, dim)
    X = rng.standard_normal((1000, dim)) * 10.0 ** rng.uniform(-2, 2, size=dim)
    rewards = X @ rng.standard_normal(dim) + rng.standard_normal(1000)
    estimate = LeastSquares(dim, V)
    for x, reward in zip(X, rewards.tolist(), strict=True):
        estimate.update(x, reward)
    theta, A_inv, logdets = direct(X, rewards, V)
    size = np.sqrt(np.diag(A_inv))
    np.testing.assert_allclose(estimate.theta / size, theta / size, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(estimate.A_inv / np.outer(size, size), A_inv / np.outer(size, size), rtol=0, atol=1e-9)
    np.testing.assert_allclose(estimate.logdets, logdets, rtol=1e-9, atol=1e-9)
    for kept, v in zip(estimate.regularized_inverses, V, strict=True):
        np.testing.assert_allclose(kept @ (X.T @ X + v), np.eye(dim), atol=1e-6)


def test_a_hundred_thousand_updates_agree_with_a_direct_solve() -> None:
    """Over 10^5 pulls that favour three arms, drift stays at rounding level and so do all quantities."""
    rng = np.random.default_rng(7)
    dim, n = 6, 100_000
    V = some_regularizers(rng, 2, dim)
    arms = rng.standard_normal((40, dim))
    pulls = np.where(rng.random(n) < 0.9, rng.integers(3, size=n), rng.integers(40, size=n))
    X = arms[pulls]
    rewards = X @ rng.standard_normal(dim) + rng.standard_normal(n)
    estimate = LeastSquares(dim, V)
    for x, reward, arm in zip(X, rewards.tolist(), pulls.tolist(), strict=True):
        estimate.update(x, reward, arm)
    theta, A_inv, logdets = direct(X, rewards, V)
    np.testing.assert_allclose(estimate.theta, theta, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(estimate.A_inv, A_inv, rtol=1e-7, atol=1e-7 * np.abs(A_inv).max())
    np.testing.assert_allclose(estimate.logdets, logdets, rtol=1e-10)
    assert estimate.drift() < 1e-9
    assert estimate.n_pulls == n
    assert sum(estimate.counts.values()) == n
    assert estimate.counts[0] == int((pulls == 0).sum())


def test_theta_appears_when_the_pulled_arms_span() -> None:
    """Before that, asking for it is an error that says what to do."""
    estimate = LeastSquares(3)
    for i in (0, 1, 1, 0):
        estimate.update(np.eye(3)[i], 1.0)
        assert not estimate.has_theta
    for query in ("theta", "A_inv"):
        with pytest.raises(NotEnoughData, match="span R\\^3"):
            getattr(estimate, query)
    with pytest.raises(NotEnoughData, match="4 pulls"):
        estimate.factor()
    estimate.update(np.array([1.0, 1.0, 1.0]), 5.0)
    assert estimate.has_theta
    np.testing.assert_allclose(estimate.theta, [1.0, 1.0, 3.0], rtol=1e-14)


def test_units_of_the_features_do_not_matter() -> None:
    """Columns that differ by a factor of 10^12 are estimated as well as equal ones."""
    rng = np.random.default_rng(3)
    units = np.array([1e-6, 1.0, 1e6])
    X = rng.standard_normal((5000, 3))
    rewards = X @ np.array([1.0, -2.0, 0.5]) + rng.standard_normal(5000)
    plain, scaled = LeastSquares(3, np.eye(3)[None]), LeastSquares(3, np.diag(units**2)[None])
    plain.update_many(X, rewards)
    scaled.update_many(X * units, rewards)
    np.testing.assert_allclose(scaled.theta * units, plain.theta, rtol=1e-10)
    np.testing.assert_allclose(scaled.A_inv * np.outer(units, units), plain.A_inv, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(scaled.logdets, plain.logdets, rtol=1e-12)
    assert scaled.drift() < 1e-9


@pytest.mark.parametrize("log_cond", [3, 5, 6])
def test_ill_conditioned_arms_lose_only_what_their_conditioning_costs(log_cond: int) -> None:
    """In rotated coordinates theta'x keeps its digits, up to the squared condition number of the arms."""
    rng = np.random.default_rng(log_cond)
    dim = 5
    rotation = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    stretch = np.logspace(0, -log_cond, dim)
    X = (rng.standard_normal((3000, dim)) * stretch) @ rotation
    rewards = rng.standard_normal(3000)
    estimate = LeastSquares(dim)
    estimate.update_many(X, rewards)
    assert estimate.has_theta or log_cond == 6
    if estimate.has_theta:
        fitted = X @ np.linalg.lstsq(X, rewards, rcond=None)[0]
        np.testing.assert_allclose(X @ estimate.theta, fitted, atol=10.0 ** (2 * log_cond - 13))


def test_arms_that_do_not_span_numerically_give_no_theta() -> None:
    """A condition number of 10^12 in rotated coordinates leaves no correct digit, so there is no estimate."""
    rng = np.random.default_rng(11)
    rotation = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    X = (rng.standard_normal((500, 4)) * np.array([1.0, 1.0, 1.0, 1e-12])) @ rotation
    estimate = LeastSquares(4, np.eye(4)[None])
    estimate.update_many(X, np.ones(500))
    assert not estimate.has_theta
    with pytest.raises(SurepickError, match="singular"):
        _ = estimate.theta
    expected = np.linalg.slogdet(np.eye(4) + X.T @ X)[1]
    np.testing.assert_allclose(estimate.logdets, expected, rtol=1e-11)


def test_an_update_that_cancels_digits_is_repaired_at_once() -> None:
    """After nearly collinear first pulls, an informative pull does not leave their rounding errors behind."""
    estimate = LeastSquares(2)
    estimate.update(np.array([1.0, 0.0]), 0.0)
    estimate.update(np.array([1.0, 3e-6]), 0.0)
    assert estimate.has_theta
    x = np.array([0.6, 0.8])
    assert float(x @ estimate.A_inv @ x) > GAIN_LIMIT
    estimate.update(x, 1.0)
    assert estimate.drift() < 1e-14
    np.testing.assert_allclose(estimate.A_inv, np.linalg.inv(estimate.A), rtol=1e-13)


def test_the_factor_gives_the_quadratic_form() -> None:
    """|F'y|^2 = y'A^-1 y, and the factor follows later pulls."""
    rng = np.random.default_rng(5)
    estimate = LeastSquares(4)
    for n in (10, 1):
        estimate.update_many(rng.standard_normal((n, 4)), np.zeros(n))
        F = estimate.factor()
        np.testing.assert_allclose(F @ F.T, np.linalg.inv(estimate.A), rtol=1e-11)


@pytest.mark.parametrize("n_regularizers", [0, 1])
def test_many_updates_at_once_are_the_same_as_one_by_one(n_regularizers: int) -> None:
    """The two states are equal up to rounding, far from the origin too."""
    rng = np.random.default_rng(2)
    X, rewards, V = rng.standard_normal((1500, 3)), 1e6 + rng.standard_normal(1500), np.eye(3)[None][:n_regularizers]
    together, single = LeastSquares(3, V), LeastSquares(3, V)
    arms = [i % 7 for i in range(1500)]
    together.update_many(X[:700], rewards[:700], arms[:700])
    together.update_many(X[700:], rewards[700:], arms[700:])
    for x, reward, arm in zip(X, rewards, arms, strict=True):
        single.update(x.tolist(), reward, arm)
    assert together.n_pulls == single.n_pulls == 1500
    assert together.counts == single.counts
    np.testing.assert_allclose(together.theta, single.theta, rtol=1e-11)
    np.testing.assert_allclose(together.A_inv, single.A_inv, rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(together.logdets, single.logdets, rtol=1e-12)
    np.testing.assert_allclose(together.residual_sum, single.residual_sum, rtol=1e-9)
    assert np.array_equal(together.A, together.A.T)
    assert np.array_equal(together.A_inv, together.A_inv.T)


@pytest.mark.parametrize("n_regularizers", [0, 2])
def test_reading_leaves_no_trace(n_regularizers: int) -> None:
    """A state that was read after every pull equals one that never was, bit for bit: replaying a log relies on it."""
    rng = np.random.default_rng(4)
    V = some_regularizers(rng, n_regularizers, 3)
    read, unread = LeastSquares(3, V), LeastSquares(3, V)
    for x, reward in zip(rng.standard_normal((1500, 3)), rng.standard_normal(1500).tolist(), strict=True):
        for estimate in (read, unread):
            estimate.update(x, reward)
        if read.has_theta:
            _ = read.A_inv, read.theta, read.factor(), read.residual_sum
    for one, other in (
        (read.theta, unread.theta),
        (read.A_inv, unread.A_inv),
        (read.factor(), unread.factor()),
        (read.logdets, unread.logdets),
        (read.regularized_inverses, unread.regularized_inverses),
    ):
        assert np.array_equal(one, other)
    assert np.array_equal(read.A_inv, read.A_inv.T)
    assert read.residual_sum == unread.residual_sum


def test_sums_per_arm_keep_the_noise_of_large_rewards() -> None:
    """Arms pulled many times, rewards a billion times the noise: theta and residuals are those of the noise alone."""
    rng = np.random.default_rng(6)
    arms, noise = np.column_stack([rng.standard_normal((5, 2)), np.ones(5)]), rng.standard_normal(20_000)
    pulls = rng.integers(5, size=len(noise))
    X, level = arms[pulls], np.array([1e8, -2e8, 1e9])
    estimate = LeastSquares(3)
    for x, reward in zip(X, (X @ level + noise).tolist(), strict=True):
        estimate.update(x, reward)
    left, squares = np.linalg.lstsq(X, noise, rcond=None)[:2]
    np.testing.assert_allclose(estimate.theta - level, left, atol=1e-6)
    np.testing.assert_allclose(estimate.residual_sum, squares[0], rtol=1e-6)


def test_theta_is_lost_when_other_directions_outgrow_one() -> None:
    """It is there while the arms differ enough, gone when others weigh 10^18 times as much, and comes back."""
    estimate = LeastSquares(2)
    estimate.update_many([[1.0, 0.0], [1.0, 4e-6]], [0.0, 1.0])
    assert estimate.has_theta
    for size in 10.0 ** np.arange(1, 10):
        estimate.update(np.array([size, 1e-6 * size]), 0.0)
    assert not estimate.has_theta
    estimate.update(np.array([0.0, 1.0]), 0.0)
    assert estimate.has_theta


def test_theta_is_looked_at_again_after_much_growth_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pulls cost no look at the eigenvalues while what they add to the diagonal cannot have made A singular."""
    estimate = LeastSquares(2)
    estimate.update_many(np.eye(2), np.zeros(2))
    assert estimate.has_theta
    looks = Mock(return_value=1.0)
    monkeypatch.setattr("surepick.core.estimate._rcond", looks)
    for size, n_looks in ((1.0, 0), (1e5, 0), (1e6, 1)):
        estimate.update(np.array([size, 0.0]), 0.0)
        assert estimate.has_theta
        np.testing.assert_allclose(estimate.A_inv, np.linalg.inv(estimate.A), rtol=1e-14)
        assert looks.call_count == n_looks


def test_state_cannot_be_changed_from_outside() -> None:
    """Arrays handed out are read-only."""
    estimate = LeastSquares(2, np.eye(2)[None])
    estimate.update_many(np.eye(2), np.zeros(2))
    for array in (
        estimate.A,
        estimate.A_inv,
        estimate.theta,
        estimate.logdets,
        estimate.regularizers,
        estimate.regularized_inverses,
        estimate.factor(),
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_regularizers_are_found_again_by_value() -> None:
    """Two rules can share one estimate; a rule whose regularisers it does not follow is refused."""
    V = np.array([1.0, 2.0, 3.0])[:, None, None] * np.eye(2)
    estimate = LeastSquares(2, V)
    assert estimate.slots(V[1:]) == slice(1, 3)
    assert estimate.slots(V[:0]) == slice(0, 0)
    with pytest.raises(InvalidInput, match=r"state\.regularizers"):
        estimate.slots(4.0 * V)


@pytest.mark.parametrize(
    ("x", "reward"),
    [
        ([1.0, np.nan], 0.0),
        ([1.0, np.inf], 0.0),
        ([1.0], 0.0),
        (["a", "b"], 0.0),
        ([1e200, 1.0], 0.0),
        ([1.0, 2.0], np.nan),
        ([1.0, 2.0], "0.3"),
        ([1.0, 2.0], None),
        ([1.0, 2.0], True),
    ],
)
def test_bad_pulls_are_refused_and_leave_no_trace(x: list, reward: object) -> None:
    """Nothing is repaired silently, and the state is as before."""
    estimate = LeastSquares(2)
    with pytest.raises(InvalidInput):
        estimate.update(x, reward)  # type: ignore[arg-type]
    assert estimate.n_pulls == 0
    assert not estimate.A.any()


@pytest.mark.parametrize(
    "regularizers",
    [np.eye(3)[None], np.eye(2), -np.eye(2)[None], [[[1.0, 0.5], [0.0, 1.0]]], np.full((1, 2, 2), np.nan)],
)
def test_regularizers_must_be_positive_definite(regularizers: object) -> None:
    """Wrong shapes, signs, asymmetry and NaN are refused."""
    with pytest.raises(InvalidInput, match="regulari"):
        LeastSquares(2, regularizers)


def test_lengths_of_many_pulls_must_agree() -> None:
    """Rewards and arms come one per row."""
    estimate = LeastSquares(2)
    with pytest.raises(InvalidInput, match="rewards"):
        estimate.update_many(np.eye(2), [1.0])
    with pytest.raises(InvalidInput, match="one row number per pull"):
        estimate.update_many(np.eye(2), [1.0, 2.0], [0])


def test_a_snapshot_does_not_learn_with_its_original() -> None:
    """Nor the other way round: each has the estimate of its own pulls, to the bit."""
    rng = np.random.default_rng(0)
    X, rewards = rng.standard_normal((60, 3))[rng.integers(5, size=60)], rng.standard_normal(60)
    state, twin = LeastSquares(3), LeastSquares(3)
    state.update_many(X[:30], rewards[:30])
    twin.update_many(X[:30], rewards[:30])
    kept = state.snapshot()
    state.update_many(X[30:], rewards[30:])
    assert (kept.n_pulls, kept.theta.tobytes(), kept.A.tobytes()) == (30, twin.theta.tobytes(), twin.A.tobytes())
    twin.update_many(X[30:], rewards[30:])
    kept.update_many(X[:10], rewards[:10])
    assert kept.has_theta
    assert state.theta.tobytes() == twin.theta.tobytes()
