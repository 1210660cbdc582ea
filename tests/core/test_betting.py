"""Bets: closed forms against their definitions, and what they return under the null."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from surepick.core.betting import log_bet, log_capped, log_returns, shrunk_belief
from surepick.core.linalg import Array
from surepick.errors import InvalidInput
from tests.statistical.bets import shrunk_beliefs
from tests.statistical.chaos import own_belief

NODES, WEIGHTS = np.polynomial.legendre.leggauss(300)


def _log_integral(alpha: Fraction, beta: Fraction) -> tuple[Fraction, float]:
    """The log of the integral of exp(-alpha D^2/2 + beta D) over D >= 0: an exact part, and the rest."""
    kappa = float(beta) / math.sqrt(alpha)
    if kappa > 0:  # in units of the standard deviation around the peak
        low, high, exact = -min(kappa, 13.0), 13.0, beta * beta / (2 * alpha)
        slope = 0.0
    else:
        low, high, exact = 0.0, min(13.0, 50.0 / max(-kappa, 1e-9)), Fraction(0)
        slope = kappa
    u = low + (high - low) * (NODES + 1) / 2
    rest = math.log((high - low) / 2 * float(WEIGHTS @ np.exp(-u * u / 2 + slope * u)))
    return exact, rest - 0.5 * math.log(alpha)


def _reference(z: float, v: float, m: float, s2: float) -> float:
    """log_bet as a ratio of two integrals whose large parts are subtracted in exact rational arithmetic."""
    Z, V, M, S = (Fraction(value) for value in (z, v, m, s2))
    top, bottom = _log_integral(1 / S + 1 / V, M / S + Z / V), _log_integral(1 / S, M / S)
    return float(top[0] - bottom[0]) + (top[1] - bottom[1])


@settings(max_examples=300, deadline=None)
@given(
    z=st.floats(-1e4, 1e4),
    log_v=st.floats(-25, 25),
    ratio=st.one_of(st.just(0.0), st.floats(0, 40)),
    log_s2=st.floats(-25, 25),
)
def test_log_bet_keeps_its_digits_in_the_extremes(z: float, log_v: float, ratio: float, log_s2: float) -> None:
    """Over fifty orders of magnitude the error stays at rounding of the terms that must be added."""
    v, s2 = math.exp(log_v), math.exp(log_s2)
    m = ratio * math.sqrt(s2)
    exact = _reference(z, v, m, s2)
    # The exponent is a sum of z^2, z m and m^2 terms: doubles cannot beat the rounding of each.
    x = (m * v + z * s2) / (v + s2)
    terms = ratio**2 + (abs(x) * math.sqrt(1 / v + 1 / s2)) ** 2 * (x > 0) + abs(log_v) + abs(log_s2)
    assert float(log_bet(z, v, m, s2)) == pytest.approx(exact, abs=1e-13 * (terms + 10), rel=1e-12)


@pytest.mark.parametrize(
    ("z", "v", "m", "s2"),
    [(1.0, 1e-300, 1.0, 1e-4), (-1.0, 1e-300, 1.0, 1e-4), (1e8, 1.0, 0.0, 1e300), (-1e150, 1.0, 0.0, 1e-300)],
)
def test_log_bet_never_turns_into_nan(z: float, v: float, m: float, s2: float) -> None:
    """At the edge of double precision the answer is a number, large or small, without a warning."""
    value = float(log_bet(z, v, m, s2))
    assert value == pytest.approx(_reference(z, v, m, s2), rel=1e-9)


def test_log_bet_of_a_nearly_certain_bet_is_the_likelihood_ratio_at_m() -> None:
    """As s2 tends to 0 the mixture becomes a point at m, whose return is exp(m z/v - m^2/(2v))."""
    z, v, m = np.array([-2.0, 0.1, 3.0]), 0.7, 1.3
    np.testing.assert_allclose(log_bet(z, v, m, 1e-14), m * z / v - m * m / (2 * v), rtol=1e-10)


SPOTS, SPOT_WEIGHTS = np.polynomial.legendre.leggauss(6)
UNIT = ((np.arange(500)[:, None] + 0.5 * (SPOTS + 1.0)) / 500).ravel()
UNIT_WEIGHTS = np.tile(SPOT_WEIGHTS / 1000, 500)


def _mean_return(truth: float, v: float, m: float, s2: float, rest: float, top: float = 40.0) -> float:
    """Expected factor of a block for z ~ N(truth, v), as far as z is below `top` standard deviations."""
    u = -40.0 + (top + 40.0) * UNIT
    given = (np.full_like(u, value) for value in (v, m, s2, rest))
    payoff = log_returns(truth + math.sqrt(v) * u, *given)
    return (top + 40.0) * float(UNIT_WEIGHTS @ np.exp(norm.logpdf(u) + payoff))


def _mean_capped(truth: float, v: float, m: float, s2: float, rest: float) -> float:
    """The same for capped bets: c times the part below the place where the cap begins, and the price above."""
    u = np.linspace(-8.0, 8.0, 5)
    z, one = math.sqrt(v) * u, np.ones(5)
    found = log_capped(z, v * one, m * one, s2 * one, rest * one)
    staked = log_returns(z, v * one, m * one, s2 * one, np.inf * one)
    log_c = float(found[0] - staked[0])
    np.testing.assert_allclose(found, np.minimum(log_c + staked, rest), rtol=1e-9, atol=1e-9)

    def missing(u: float) -> float:
        one = (np.array([value]) for value in (truth + math.sqrt(v) * u, v, m, s2, np.inf))
        return float(log_returns(*one)[0]) + log_c - rest

    top = 40.0 if missing(40.0) < 0.0 else float(brentq(missing, -40.0, 40.0, xtol=1e-13))
    return math.exp(log_c) * _mean_return(truth, v, m, s2, np.inf, top) + math.exp(rest + norm.logsf(top))


@settings(max_examples=60, deadline=None)
@given(
    log_v=st.floats(-12, 12),
    m=st.one_of(st.just(0.0), st.floats(0.0, 12.0)),
    log_s2=st.floats(-9, 4),
    rest=st.floats(1e-3, 25.0),
    loss=st.one_of(st.just(0.0), st.floats(0.0, 6.0)),
)
def test_no_block_pays_more_than_its_stake_under_the_null(
    log_v: float, m: float, log_s2: float, rest: float, loss: float
) -> None:
    """For every D0 <= 0 the conditional mean of a factor is at most 1; m, s and D0 in standard deviations of z."""
    v = math.exp(log_v)
    block = -loss * math.sqrt(v), v, m * math.sqrt(v), math.exp(log_s2) * v, rest
    assert _mean_return(*block) <= 1.0 + 1e-9
    assert _mean_capped(*block) <= 1.0 + 1e-9


@pytest.mark.parametrize("m", [0.0, 0.5, 4.0])
@pytest.mark.parametrize("s2", [0.01, 1.0, 4.0])
def test_stakes_are_fair_at_the_boundary(m: float, s2: float) -> None:
    """Nothing is given away at theta'y = 0, by capped bets hardly anything; their stake is raised by what they save."""
    for rest in (0.1, 1.0, 10.0):
        assert _mean_return(0.0, 0.8, m, s2, rest) == pytest.approx(1.0, abs=1e-8)
        assert _mean_capped(0.0, 0.8, m, s2, rest) >= 1.0 - 1e-3


def test_stakes_are_split_and_end_at_the_goal() -> None:
    """By hand: half on m, a quarter on .6 m and on .3 m, m no larger than sqrt(2 v rest); the cap is the price."""
    z, v, s2 = np.array([0.7, -0.2]), np.array([0.5, 0.5]), np.array([0.1, 0.1])
    for m, rest, used in ((0.4, 1.0, 0.4), (3.0, 0.25, 0.5)):
        expected = sum(
            share * np.exp(log_bet(z, v, part * used, s2)) for part, share in ((1, 0.5), (0.6, 0.25), (0.3, 0.25))
        )
        found = log_returns(z, v, np.full(2, m), s2, np.full(2, rest))
        np.testing.assert_allclose(np.exp(found), expected, rtol=1e-12)
    capped = log_capped(np.array([50.0, 0.3]), v, np.array([1.0, 1.0]), s2, np.array([1.5, 1.5]))
    assert capped[0] == 1.5
    assert capped[1] > log_returns(np.array([0.3]), v[1:], np.ones(1), s2[1:], np.array([1.5]))[0]


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
            np.testing.assert_allclose(found.cov, cov.astype(float), rtol=1e-8, atol=1e-11)
            large = shrunk_belief(1e6 * theta, A_inv, 1e6 * noise_std, level)
            np.testing.assert_allclose(large.mean, 1e6 * found.mean, rtol=1e-12)
            np.testing.assert_allclose(large.cov, 1e12 * found.cov, rtol=1e-10, atol=1e-3)
        mean, cov = shrunk_beliefs(theta[None], A_inv[None], level)
        np.testing.assert_allclose(mean[0], found.mean, rtol=1e-9)
        np.testing.assert_allclose(cov[0], found.cov, rtol=1e-9, atol=1e-12)


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
            spectrum = np.linalg.eigvalsh(belief.cov)
            assert spectrum[0] >= -1e-12 * spectrum[-1]
            if not theta.any():
                np.testing.assert_array_equal(belief.cov, A_inv)


def test_log_bet_broadcasts_and_grows_with_z() -> None:
    """Arguments broadcast like any ufunc's, and a better result never pays less."""
    value = log_bet(np.linspace(-5, 5, 41)[:, None], np.array([0.1, 1.0, 10.0]), 0.3, 0.5)
    assert value.shape == (41, 3)
    assert (np.diff(value, axis=0) > 0).all()


@pytest.mark.parametrize(("v", "s2"), [(0.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (math.nan, 1.0)])
def test_log_bet_refuses_variances_that_are_not_positive(v: float, s2: float) -> None:
    """A variance of zero or below is a mistake of the caller."""
    with pytest.raises(InvalidInput, match="v > 0"):
        log_bet(1.0, v, 0.0, s2)
