"""Bets: closed forms against their definitions, and what they return under the null."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from benchmarks.bet_variants import log_bet
from surepick.core.betting.bets import Belief, log_returns, points, shrunk_belief
from surepick.types import Array
from tests.statistical.bets import shrunk_beliefs
from tests.statistical.reference_implementation import own_belief, own_points

SPOTS, SPOT_WEIGHTS = np.polynomial.legendre.leggauss(6)
UNIT = ((np.arange(500)[:, None] + 0.5 * (SPOTS + 1.0)) / 500).ravel()
UNIT_WEIGHTS = np.tile(SPOT_WEIGHTS / 1000, 500)
STAKES = ((1.0, 0.5), (0.6, 0.25), (0.3, 0.25))
"""Parts of m that are staked on, and the share of the wealth on each."""


def _mean(log_payoff: Callable[[Array], Array], low: float, high: float) -> float:
    """Integral of a payoff over u ~ N(0, 1) between two places."""
    u = low + (high - low) * UNIT
    return (high - low) * float(UNIT_WEIGHTS @ np.exp(norm.logpdf(u) + log_payoff(u)))


def _mean_return(truth: float, v: float, m: float, s2: float, rest: float) -> float:
    """Expected factor of a block for z ~ N(truth, v); no point of the law is beyond 40 standard deviations."""

    def log_payoff(u: Array) -> Array:
        return log_returns(truth + math.sqrt(v) * u, *(np.full_like(u, value) for value in (v, m, s2, rest)))

    return _mean(log_payoff, -40.0, 60.0)


def _log_whole(z: Array, v: float, m: float, s2: float) -> Array:
    """Log of what the three stakes return on whole normal laws."""
    parts = [math.log(share) + log_bet(z, v, part * m, s2) for part, share in STAKES]
    return np.asarray(np.logaddexp.reduce(parts))


def _null_block(log_v: float, m: float, log_s2: float, rest: float, loss: float) -> tuple[float, ...]:
    v = math.exp(log_v)
    return -loss * math.sqrt(v), v, m * math.sqrt(v), math.exp(log_s2) * v, rest


NULL_BLOCKS = st.builds(
    _null_block,
    log_v=st.floats(-12, 12),
    m=st.one_of(st.just(0.0), st.floats(0.0, 12.0)),
    log_s2=st.floats(-9, 4),
    rest=st.floats(1e-3, 25.0),
    loss=st.one_of(st.just(0.0), st.floats(0.0, 6.0)),
)
"""Blocks with D0 <= 0, as (D0, v, m, s2, rest); D0, m and s are drawn in standard deviations of z."""


@settings(max_examples=60, deadline=None)
@given(block=NULL_BLOCKS)
def test_no_block_pays_more_than_its_stake_under_the_null(block: tuple[float, ...]) -> None:
    """For every D0 <= 0 the conditional mean of a factor is at most 1."""
    assert _mean_return(*block) <= 1.0 + 1e-9


@pytest.mark.parametrize("m", [0.0, 0.5, 4.0])
@pytest.mark.parametrize("s2", [0.01, 1.0, 4.0])
def test_stakes_are_fair_at_the_boundary(m: float, s2: float) -> None:
    """Nothing is given away at theta'y = 0."""
    for rest in (0.1, 1.0, 10.0):
        assert _mean_return(0.0, 0.8, m, s2, rest) == pytest.approx(1.0, abs=1e-8)


def test_stakes_are_split_and_end_at_the_goal() -> None:
    """By hand: half on m, a quarter on .6 m and on .3 m, each on two points; m and s no larger than sqrt(2 v rest)."""
    rng = np.random.default_rng(2)
    n = 2500  # slices do not show
    z, (v, s2, m, rest) = rng.standard_normal(n), rng.uniform(0.1, 2.0, (4, n))
    goal = np.sqrt(2.0 * v * rest)
    for values in (m, np.sqrt(s2)):
        assert (values > goal).any()
        assert (values < goal).any()
    expected = np.zeros(n)
    for part, share in STAKES:
        for D in own_points(part * np.minimum(m, goal), np.minimum(np.sqrt(s2), goal)):
            assert (D > 0.0).all()
            expected += 0.5 * share * np.exp(D * z / v - D * D / (2.0 * v))
    np.testing.assert_allclose(log_returns(z, v, m, s2, rest), np.log(expected), rtol=1e-12, atol=1e-13)


def test_the_points_have_mean_and_variance_of_a_normal_law_cut_at_zero() -> None:
    """To a few percent of the standard deviation, wherever the cut is; and never below zero."""
    mu = np.linspace(0.0, 8.0, 801)
    one = np.ones_like(mu)
    D = points(mu, one, np.inf * one)
    for (stake, _), high, low in zip(STAKES, D[:3], D[3:], strict=True):
        a = stake * mu
        cut = norm.pdf(a) / norm.cdf(a)
        np.testing.assert_allclose(0.5 * (high + low), a + cut, rtol=0, atol=0.04)
        np.testing.assert_allclose(0.5 * (high - low), np.sqrt(1.0 - cut * (cut + a)), rtol=0.06)
        assert (low > 0.0).all()
    assert (points(np.array([1e3, 1e12, 1e200]), np.ones(3), np.full(3, np.inf)) >= 0.0).all()


def test_the_points_stand_for_the_whole_law() -> None:
    """Normal laws cut to D >= 0 return nearly the same where blocks are shorter than the past."""
    rng = np.random.default_rng(3)
    z, v, m, s2 = 1.0 + rng.standard_normal(1000), np.ones(1000), rng.uniform(0.0, 2.0, 1000), np.full(1000, 0.1)
    whole = np.array([float(_log_whole(*each)) for each in zip(z, v, m, s2, strict=True)])
    off = log_returns(z, v, m, s2, np.full(1000, 9.0)) - whole
    assert abs(float(np.median(off))) < 0.01
    assert float(np.quantile(np.abs(off), 0.9)) < 0.1


@pytest.mark.parametrize("s2", [1e-300, 1e-12, 1.0, 1e12, 1e250])
@pytest.mark.parametrize("v", [1e-300, 1e-12, 1.0, 1e12, 1e250])
def test_degenerate_bets_pay_a_number(v: float, s2: float) -> None:
    """Directions hardly measured or hardly known, far results: a finite return that does not fall, no warning."""
    z = math.sqrt(v) * np.array([-1e9, -1e3, -1.0, 0.0, 1.0, 1e3, 1e9])
    one = np.ones_like(z)
    for m in (0.0, 1.0, 1e9):
        found = log_returns(z, v * one, m * one, s2 * one, 2.0 * one)
        assert np.isfinite(found).all()
        assert (np.diff(found) >= -1e-9).all()


def test_overflow_does_not_look_like_evidence() -> None:
    """A result that is no number pays no number, which the accounts turn into the stake."""
    one = np.ones(3)
    found = log_returns(np.array([np.nan, np.inf, -1.0]), one, one, one, one)
    assert np.isnan(found[0])
    assert not found[1] < np.inf
    assert np.isfinite(found[2])


def _cov(belief: Belief) -> Array:
    return belief.root @ belief.root.T


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_the_shrunk_belief_is_the_most_likely_posterior(dim: int) -> None:
    """Against dense matrices, with and without a common level; the same for many blocks at once, and in other units."""
    rng = np.random.default_rng(dim)
    for common in (0.0, 5.0):
        level, root = rng.standard_normal(dim), rng.standard_normal((2 * dim, dim))
        theta = common * level + 0.3 * rng.standard_normal(dim)
        A_inv: Array = np.asarray(np.linalg.inv(root.T @ root), dtype=np.float64)
        for noise_std in (0.1, 1.0):
            found = shrunk_belief(theta, A_inv, noise_std, level)
            mean, cov = own_belief(theta, noise_std**2 * A_inv, np.eye(dim), level)
            np.testing.assert_allclose(found.mean, mean.astype(float), rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(_cov(found), cov.astype(float), rtol=1e-8, atol=1e-11)
            large = shrunk_belief(1e6 * theta, A_inv, 1e6 * noise_std, level)
            np.testing.assert_allclose(large.mean, 1e6 * found.mean, rtol=1e-12)
            np.testing.assert_allclose(_cov(large), 1e12 * _cov(found), rtol=1e-10, atol=1e-3)
        mean, cov = shrunk_beliefs(theta[None], A_inv[None], level)
        np.testing.assert_allclose(mean[0], found.mean, rtol=1e-9)
        np.testing.assert_allclose(cov[0], _cov(found), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("level", [np.zeros(3), np.array([1.0, 0.0, 0.0]), np.ones(3)])
def test_the_shrunk_belief_survives_degenerate_inputs(level: Array) -> None:
    """An estimate of zero, directions hardly measured, huge and tiny estimates: finite, and a covariance."""
    axes = np.linalg.qr(np.random.default_rng(8).standard_normal((3, 3)))[0]
    for spread in ([1.0, 1.0, 1.0], [1e-12, 1.0, 1.0], [1.0, 1e6, 1e12]):
        A_inv = axes @ np.diag(spread) @ axes.T
        A_inv = 0.5 * (A_inv + A_inv.T)
        for theta in (np.zeros(3), axes[:, 0], 1e9 * axes[:, 2], 1e-150 * np.ones(3), 1e-170 * np.ones(3)):
            belief = shrunk_belief(theta, A_inv, 1.0, level)
            assert np.isfinite(belief.mean).all()
            assert np.isfinite(belief.root).all()
            if not theta.any():
                np.testing.assert_allclose(_cov(belief), A_inv, rtol=1e-12, atol=1e-14 * max(spread))
