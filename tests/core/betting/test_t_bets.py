"""The t-bet: closed forms against independent integrals, and what it returns under the null whatever the noise."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import gammaln, log_ndtr

from benchmarks.bet_variants import log_bet
from surepick.core.betting import bets as student
from surepick.core.betting.bets import (
    FARTHEST,
    LOG_SHARES,
    MOST,
    STAKES,
    Residuals,
    log_sub_block_returns,
    log_symmetric_returns,
    log_t_returns,
)
from surepick.core.linalg import log_chi_mean
from surepick.errors import InvalidInput
from surepick.types import Array
from tests.statistical.reference_implementation import own_points

ANY_PAST = Residuals(30.0, 10)
SPOTS, SPOT_WEIGHTS = np.polynomial.legendre.leggauss(20)


def _panels(low: float, high: float, n: int) -> tuple[Array, Array]:
    """Nodes and weights of n panels."""
    edges = np.linspace(low, high, n + 1)
    half = 0.5 * np.diff(edges)[:, None]
    return (edges[:-1, None] + half * (SPOTS + 1.0)).ravel(), (half * SPOT_WEIGHTS).ravel()


def _direction(z: float, q: float, R: float) -> float:
    return z / math.sqrt(z * z + q * R)


def _whole_law(g: float, nu: int, mu0: float, tau2: float) -> float:
    """Log of E for a normal law of D cut to D >= 0: the integral over s, on a window found by looking."""

    def log_integrand(s: Array) -> Array:
        density = nu * np.log(s) - 0.5 * s * s - 0.5 * (nu - 1) * math.log(2.0) - gammaln(0.5 * (nu + 1))
        return np.asarray(density + log_bet(g * s, 1.0, mu0, tau2))

    s = np.exp(np.linspace(-20.0, 20.0, 20_001))
    mass = log_integrand(s) + np.log(s)
    seen = s[mass > mass.max() - 45.0]
    s, weights = _panels(0.0 if seen[0] < 1e-6 * seen[-1] else seen[0], seen[-1], 60)
    value = log_integrand(s)
    return float(value.max() + math.log(weights @ np.exp(value - value.max())))


@pytest.mark.parametrize("D", [0.3, 2.0, 5.0])
@pytest.mark.parametrize("nu", [1, 3, 40])
def test_a_point_returns_the_ratio_of_noncentral_to_central_t_densities(nu: int, D: float) -> None:
    """T = w/sqrt(R/nu) is all the bet sees: exp(-D^2/2) H(g D) is a likelihood ratio of T."""
    T = np.array([-1.5, 0.0, 0.7, 3.0, 8.0])
    g = T / np.sqrt(T * T + nu)
    ratio = stats.nct.pdf(T, nu, D) / stats.t.pdf(T, nu)
    np.testing.assert_allclose(np.exp(student._log_H(g * D, nu) - 0.5 * D * D), ratio, rtol=1e-6)


def test_without_spare_degrees_it_is_a_bet_on_the_sign() -> None:
    """E = 2 Phi(+-D): two values whose mean is 1."""
    D = np.array([1.2, -1.2])
    np.testing.assert_allclose(np.exp(student._log_H(D.copy(), 0) - 0.5 * D * D), 2.0 * stats.norm.cdf(D), rtol=1e-7)


def _mean_return(nu: int, truth: float, log_pay: Array, angle: Array, weights: Array) -> float:
    """Mean of a return that is a function of the angle, g = sin(angle), when w ~ N(truth, 1).

    In polar coordinates the density is that of length times that of angle, tilted by exp(truth g s - truth^2/2).
    """
    s, s_weights = _panels(max(math.sqrt(nu) - 15.0 + min(truth, 0.0), 0.0), math.sqrt(nu) + 15.0, 12)
    log_chi = nu * np.log(s) - 0.5 * s * s - 0.5 * (nu - 1) * math.log(2.0) - gammaln(0.5 * (nu + 1))
    tilt = np.exp(log_chi + truth * np.sin(angle)[:, None] * s - 0.5 * truth * truth) @ s_weights
    log_h = (nu - 1) * np.log(np.cos(angle)) + gammaln(0.5 * (nu + 1)) - gammaln(0.5 * nu) - 0.5 * math.log(math.pi)
    return float(weights @ (tilt * np.exp(log_h + log_pay)))


ANGLES, ANGLE_WEIGHTS = _panels(-0.5 * math.pi, 0.5 * math.pi, 40)


@settings(max_examples=60, deadline=None)
@given(
    nu=st.integers(0, 60),
    truth=st.one_of(st.just(0.0), st.floats(-4.0, 0.0)),
    scales=st.tuples(st.floats(-7.0, 7.0), st.floats(-4.0, 4.0)),
    log_q=st.floats(-9.0, 9.0),
    m=st.one_of(st.just(0.0), st.floats(0.0, 12.0)),
    log_s2=st.floats(-9.0, 1.5),
    nu0=st.integers(1, 1000),
    rest=st.floats(1e-3, 25.0),
)
def test_no_block_pays_more_than_its_stake_under_the_null(
    nu: int,
    truth: float,
    scales: tuple[float, float],
    log_q: float,
    m: float,
    log_s2: float,
    nu0: int,
    rest: float,
) -> None:
    """For every theta'y <= 0 and every sigma, however wrong the past's estimate S of it; stakes, goal and all.

    The mean is over w and R; truth in standard deviations of z, m and s in those of z as S has it.
    """
    log_sigma, log_error = scales
    S2, q, sigma = math.exp(2.0 * (log_sigma + log_error)), math.exp(log_q), math.exp(log_sigma)
    past = Residuals(S2 * nu0, nu0)

    def log_pay(g: Array) -> Array:
        one = np.ones_like(g)
        # Any length will do: the bet sees the direction.
        length = 3.0 * sigma
        z, block = length * math.sqrt(q) * g, Residuals(length**2 * (1.0 - g * g), nu)
        return log_t_returns(
            z, q * one, m * math.sqrt(S2 * q) * one, math.exp(log_s2) * S2 * q * one, rest * one, block, past
        )

    if nu == 0:
        mean = float(np.exp(log_pay(np.array([1.0, -1.0])) + log_ndtr(truth * np.array([1.0, -1.0]))).sum())
    else:
        mean = _mean_return(nu, truth, log_pay(np.sin(ANGLES)), ANGLES, ANGLE_WEIGHTS)
    assert mean <= 1.0 + 1e-6
    if truth == 0.0:
        assert mean == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("n_pulls", [2, 3, 9])
def test_least_squares_of_a_block_gives_what_the_proof_assumes(n_pulls: int) -> None:
    """A hundred thousand blocks of one design, two pulls of which do not even span: mean 1 within five errors."""
    rng = np.random.default_rng(n_pulls)
    X, theta = rng.standard_normal((n_pulls, 3)), np.array([5.0, -2.0, 1.0])
    y = rng.standard_normal(n_pulls) @ X
    theta = theta - y * (y @ theta) / (y @ y)
    inverse = np.linalg.pinv(X.T @ X, rcond=1e-10)
    rewards = X @ theta + 40.0 * rng.standard_normal((100_000, n_pulls))
    fitted = rewards @ X @ inverse
    R, nu = ((rewards - fitted @ X.T) ** 2).sum(axis=1), n_pulls - min(n_pulls, 3)
    one, q = np.ones(len(R)), float(y @ inverse @ y)
    past = Residuals(30.0**2 * 12, 12)
    bet = 1.2 * 30.0 * math.sqrt(q) * one, 0.3 * 30.0**2 * q * one, 3.0 * one
    pays = np.exp(log_t_returns(fitted @ y, q * one, *bet, Residuals(R if nu else 0.0, nu), past))
    assert float(pays.mean()) == pytest.approx(1.0, abs=5.0 * float(pays.std()) / math.sqrt(len(R)))


def _draw(n: int, seed: int = 3) -> tuple[Array, Array, Array, Array, Array]:
    rng = np.random.default_rng(seed)
    z, q, s2 = rng.standard_normal(n), rng.uniform(0.01, 2.0, n), rng.uniform(0.01, 2.0, n)
    return z, q, np.abs(rng.standard_normal(n)), s2, rng.uniform(0.1, 5.0, n)


def _by_hand(g: Array, mu0: Array, tau: Array, goal: Array, log_H: Callable[[Array], Array]) -> Array:
    """Six points, each with its share of the stake; `log_H` is the log mean of exp(x s)."""
    parts = []
    for stake, log_share in zip(STAKES, LOG_SHARES, strict=True):
        for point in own_points(stake * mu0, np.minimum(tau, goal)):
            D = np.minimum(point, MOST)
            parts.append(log_share - math.log(2.0) - 0.5 * D * D + log_H(g * D))
    return np.asarray(np.logaddexp.reduce(parts))


def test_stakes_are_split_and_end_at_the_goal() -> None:
    """By hand: mu0 = m/(S sqrt q) at most sqrt(2 rest), and the doubt about S in tau2; slices do not show."""
    z, q, m, s2, rest = _draw(2100)
    R, nu, S2, nu0 = 7.0, 6, 0.8, 20
    used = np.minimum(m, np.sqrt(2.0 * S2 * q * rest))
    assert (used < m).any()
    assert (used == m).any()
    g, tau = z / np.sqrt(z * z + q * R), np.sqrt((s2 / S2 + used**2 / S2 / (2 * nu0)) / q)
    expected = _by_hand(
        g, used / np.sqrt(S2 * q), tau, np.sqrt(2.0 * rest), lambda x: log_chi_mean(nu + 1, np.ones_like(x), x)
    )
    found = log_t_returns(z, q, m, s2, rest, Residuals(R, nu), Residuals(S2 * nu0, nu0))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)


def test_the_points_stand_for_the_whole_law() -> None:
    """A truncated normal law returns nearly the same, on either side."""
    z, q, m, s2, rest = _draw(100)
    used = np.minimum(m, np.sqrt(2.0 * q * rest))
    g, tau2 = z / np.sqrt(z * z + 20.0 * q), (s2 + used**2 / 60.0) / q
    log_whole = np.vectorize(_whole_law, otypes=[float])
    whole = [log_whole(g, 20, stake * used / np.sqrt(q), tau2) + s for stake, s in zip(STAKES, LOG_SHARES, strict=True)]
    off = log_t_returns(z, q, m, s2, rest, Residuals(20.0, 20), Residuals(30.0, 30)) - np.logaddexp.reduce(whole)
    assert abs(float(np.median(off))) < 0.1
    assert float(np.quantile(np.abs(off), 0.9)) < 0.5


def test_with_many_degrees_of_freedom_it_is_the_bet_with_known_noise() -> None:
    """The price of not knowing sigma goes to 0: a point D returns exp(D zeta - D^2/2)."""
    z, q, m, s2, rest = _draw(50)
    used = np.minimum(m, np.sqrt(2.0 * 0.49 * q * rest))
    zeta, mu0, tau = (values / np.sqrt(0.49 * q) for values in (z, used, np.sqrt(s2)))
    known = _by_hand(zeta, mu0, tau, np.sqrt(2.0 * rest), lambda x: x)
    for nu, off in ((100, 0.3), (10**4, 3e-3), (10**6, 3e-5)):
        found = log_t_returns(z, q, m, s2, rest, Residuals(0.49 * nu, nu), Residuals(0.49e9, 10**9))
        np.testing.assert_array_less(np.abs(found - known), off * (1.0 + known**2))


@pytest.mark.parametrize("nu", [0, 1, 7, 300, 10**5])
def test_the_table_is_exact_to_eight_digits(nu: int) -> None:
    """Beside adaptive quadrature of the mean, over the whole range of what is looked up."""
    x = np.random.default_rng(nu).uniform(-MOST, MOST, 300)
    np.testing.assert_allclose(
        student._log_H(x.copy(), nu), log_chi_mean(nu + 1, np.ones_like(x), x), rtol=0, atol=1e-8
    )


@given(k=st.integers(-60, 60), j=st.integers(-60, 60))
@settings(max_examples=30, deadline=None)
def test_units_do_not_matter(k: int, j: int) -> None:
    """Rewards and contrasts in other units: the same returns, bit for bit when the unit is a power of two."""
    z, q, m, s2, rest = _draw(40)
    once = log_t_returns(z, q, m, s2, rest, Residuals(3.0, 4), Residuals(9.0, 8))
    for unit, length in ((2.0**k, 2.0**j), (1e-3, 1.0), (1e3, 1.0)):
        c, c2 = unit * length, (unit * length) ** 2
        again = log_t_returns(
            c * z, length**2 * q, c * m, c2 * s2, rest, Residuals(3.0 * unit**2, 4), Residuals(9.0 * unit**2, 8)
        )
        np.testing.assert_allclose(again, once, rtol=1e-11, atol=1e-12)
        if unit not in (1e-3, 1e3):
            np.testing.assert_array_equal(again, once)


@settings(max_examples=60, deadline=None)
@given(nu=st.integers(0, 300), mu0=st.floats(0.0, 15.0), log_tau2=st.floats(-9.0, 2.3))
def test_a_better_result_never_pays_less(nu: int, mu0: float, log_tau2: float) -> None:
    """The proof for theta'y < 0 needs a return that grows with z at the same R."""
    z = np.linspace(-9.0, 9.0, 301)
    one = np.ones_like(z)
    bet = mu0 * one, math.exp(log_tau2) * one, 1e3 * one
    assert (np.diff(log_t_returns(z, one, *bet, Residuals(0.5 * nu, nu), Residuals(50.0, 50))) >= -1e-7).all()


@pytest.mark.parametrize("nu", [0, 1, 40])
@pytest.mark.parametrize("R", [0.0, 1e-300, 1.0, 1e300])
@pytest.mark.parametrize("q", [1e-250, 1e-12, 1.0, 1e12, 1e250])
def test_degenerate_blocks_pay_a_number(q: float, R: float, nu: int) -> None:
    """No residuals, residuals that dwarf everything, directions hardly measured: a finite return, no warning."""
    z = np.array([-1e150, -1.0, 0.0, 1e-150, 1.0, 1e150])
    one = np.ones_like(z)
    for m in (0.0, 1.0, 1e9):
        found = log_t_returns(z, q * one, m * one, one, 2.0 * one, Residuals(R, nu), Residuals(30.0, 10))
        assert np.isfinite(found).all()
        assert (np.diff(found) >= -1e-9).all()


def test_equal_results_and_no_residuals_are_no_evidence() -> None:
    """With z = 0 and R = 0 there is no direction; it pays less than the stake."""
    one = np.ones(1)
    assert log_t_returns(0.0 * one, one, one, one, one, Residuals(0.0, 5), Residuals(1.0, 1))[0] < 0.0


def test_overflow_does_not_look_like_evidence() -> None:
    """A result that is no number pays no number, which the accounts turn into the stake."""
    one = np.ones(2)
    found = log_t_returns(np.array([np.nan, -1e3]), one, one, one, one, Residuals(1.0, 10**4), Residuals(1.0, 1))
    assert np.isnan(found[0])
    assert np.isfinite(found[1])


def test_repetitions_of_a_design_are_pulls_of_one_arm() -> None:
    """B pulls of feature 1 have A = B, hence q = 1/B, and residuals of their own; units do not matter."""
    rng = np.random.default_rng(8)
    z, (m, s2, rest) = rng.standard_normal((4, 50)), rng.uniform(0.1, 2.0, (3, 50))
    z[:, 0] = 0.0  # nothing was seen
    past, mean, q = Residuals(12.0, 10), z.mean(axis=0), np.full(50, 0.25)
    parts = np.vstack([mean, z - mean])
    found = log_sub_block_returns(parts, q, m, s2, rest, past)
    for i in range(50):
        own, at = Residuals(float(((z - mean)[:, i] ** 2).sum()), 3), slice(i, i + 1)
        expected = log_t_returns(mean[at], q[at], m[at], s2[at], rest[at], own, past)
        np.testing.assert_allclose(found[at], expected, rtol=1e-12, atol=1e-14)
    scaled = log_sub_block_returns(8.0 * parts, 64.0 * q, 8.0 * m, 64.0 * s2, rest, past)
    np.testing.assert_allclose(scaled, found, rtol=1e-12, atol=1e-14)


def _parts(z: Array) -> Array:
    """What repetitions z (B, n) say, as the bets are told: the mean, and how far each is from it."""
    return np.vstack([z.mean(axis=0), z - z.mean(axis=0)])


def test_a_symmetric_bet_is_a_product_over_repetitions() -> None:
    """The mean over the six points of e^x/cosh x, by loops; near 0 a little more than exp(x - x^2/2); no units."""
    rng = np.random.default_rng(9)
    z, (m, s2, rest) = 0.3 * rng.standard_normal((4, 50)), rng.uniform(0.1, 2.0, (3, 50))
    q, past = np.full(50, 0.25), Residuals(12.0, 10)
    found = log_symmetric_returns(_parts(z), q, m, s2, rest, past)
    for i in range(50):
        v, product, lower = 1.2 * 0.25, 0.0, 0.0
        goal = math.sqrt(2.0 * v * rest[i])
        for stake, share in ((1.0, 0.25), (0.6, 0.125), (0.3, 0.125)):
            for D in own_points(np.array(stake * min(m[i], goal)), np.array(min(math.sqrt(s2[i]), goal))):
                x = np.clip(D * z[:, i] / (4.0 * v), -1.0, 1.0)
                product += share * float(np.prod(np.exp(x) / np.cosh(x)))
                lower += share * math.exp(float(x.sum() - 0.5 * (x @ x)))
        assert found[i] == pytest.approx(math.log(product), rel=1e-9, abs=1e-12)
        assert found[i] >= math.log(lower)
    scaled = log_symmetric_returns(8.0 * _parts(z), 64.0 * q, 8.0 * m, 64.0 * s2, rest, past)
    np.testing.assert_allclose(scaled, found, rtol=1e-12, atol=1e-14)


@given(
    mu=st.floats(-5.0, 0.0),
    a=st.lists(st.floats(0.0, 1e3) | st.floats(0.0, 2.0), min_size=1, max_size=4),
    bet=st.tuples(*[st.floats(0.01, 10.0)] * 4),
)
def test_a_symmetric_bet_has_mean_at_most_one_whatever_the_sizes(
    mu: float, a: list[float], bet: tuple[float, float, float, float]
) -> None:
    """Over all signs of z_j - mu = -a_j, a_j, equally likely: (f(mu + a) + f(mu - a))/2 <= 1 for one, 1 at mu = 0."""
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=len(a)))).T
    q, m, s2, rest = (np.full(signs.shape[1], value) for value in bet)

    def mean(mu: float) -> float:
        z = mu + np.array(a)[:, None] * signs
        return float(np.exp(log_symmetric_returns(_parts(z), q, m, s2, rest, Residuals(7.0, 5))).mean())

    assert mean(mu) <= 1.0 + 1e-9
    assert mean(0.0) == pytest.approx(1.0, rel=1e-9)


def test_equal_or_endless_readings_pay_no_more_than_their_number() -> None:
    """B factors of 1 + tanh(1), however small the spread; results beyond all measure stay finite, or are no number."""
    z = np.array([0.0, 1e-300, 1e-16, 1.0, 1e16, 1e300, -1e300])
    one, most = np.ones_like(z), 4.0 * math.log1p(math.tanh(FARTHEST))
    for unit in (1e-100, 1e-16, 1.0, 1e16):
        found = log_symmetric_returns(np.vstack([z, np.zeros((4, 7))]), unit**2 * one, one, one, 30.0 * one, ANY_PAST)
        assert np.isfinite(found).all()
        assert found.max() <= most + 1e-12
        assert found[0] <= 1e-12
        assert (np.diff(found[:-1]) >= -1e-12).all()
    one = np.ones(1)
    assert np.isnan(log_symmetric_returns(np.full((5, 1), np.nan), one, one, one, one, ANY_PAST))


@pytest.mark.parametrize("past", [Residuals(0.0, 4), Residuals(1.0, 0), Residuals(math.nan, 4), Residuals(math.inf, 4)])
def test_without_an_estimate_of_the_noise_there_is_no_bet(past: Residuals) -> None:
    """No spare degrees or no residuals in the past: the caller keeps the stake."""
    assert not past.has_scale
    one = np.ones(1)
    with pytest.raises(InvalidInput, match="do not bet"):
        log_t_returns(one, one, one, one, one, Residuals(1.0, 1), past)
    with pytest.raises(InvalidInput, match="do not bet"):
        log_symmetric_returns(np.ones((3, 1)), one, one, one, one, past)
