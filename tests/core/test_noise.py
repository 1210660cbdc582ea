"""Readings on a grid: its step, what rounding can do to a mean, and readings that repeat each other."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from surepick.arms.finite import FiniteArms
from surepick.core import noise
from surepick.core.betting.bets import Residuals, log_sub_block_returns, log_t_returns
from surepick.core.betting.block import Block, fit
from surepick.core.betting.wealth import Wealth
from surepick.core.estimate import LeastSquares, common_step
from surepick.core.misfit import is_slip
from surepick.core.noise import (
    ROUNDED,
    VARIANCE_RATIOS,
    is_repeating,
    largest_bias,
    noise_interval,
    noise_to_assume,
    residuals,
    rounding_bias,
)
from surepick.types import Array

CELLS = np.arange(-80.0, 81.0)


def _estimate(rewards: list[float], arms: list[int] | None = None, n_arms: int = 3) -> LeastSquares:
    """Least squares of pulls of a constant and a slope, arms in turn unless they are given."""
    estimate = LeastSquares(2)
    for i, reward in enumerate(rewards):
        arm = i % n_arms if arms is None else arms[i]
        estimate.update(np.array([1.0, float(arm)]), reward, arm)
    return estimate


def _chances(mean: float, sigma: float) -> Array:
    """Return the probabilities of the integers that a normal reading is rounded to."""
    low, high = (CELLS - 0.5 - mean) / sigma, (CELLS + 0.5 - mean) / sigma
    # In either tail the difference of the smaller probabilities, so that nothing cancels.
    return np.where(CELLS > mean, norm.sf(low) - norm.sf(high), norm.cdf(high) - norm.cdf(low))


@given(
    step=st.sampled_from([0.1, 0.05, 1.0, 2.0, 5e-3, 4.8828125e-3, 100.0]),
    offset=st.sampled_from([0.0, 0.3, 1e3]),
    places=st.lists(st.integers(-500, 500), min_size=2, max_size=12, unique=True),
)
def test_the_step_of_a_grid_is_the_largest_that_divides_all_distances(
    step: float, offset: float, places: list[int]
) -> None:
    """Decimals, integers and steps of a converter are found, as far as the places have no common factor."""
    factor = math.gcd(*(place - places[0] for place in places))
    assert common_step(offset + step * np.array(places)) == pytest.approx(step * factor, rel=1e-5)


def test_numbers_without_a_grid_have_a_tiny_step() -> None:
    """What divides five arbitrary doubles is rounding; a single value has no step at all."""
    assert common_step(np.random.default_rng(0).standard_normal(5)) < 1e-7
    assert common_step(np.array([3.0, 3.0])) == math.inf


def test_a_resolution_is_seen_when_two_readings_are_equal() -> None:
    """Rewards that all differ have none; equal ones lie on a grid; if all are equal its step is not known."""
    assert _estimate([1.0, 1.1, 1.3]).resolution == 0.0
    assert _estimate([1.0, 1.1, 1.3, 1.1]).resolution == pytest.approx(0.1)
    assert _estimate([1.0, 1.0]).resolution == math.inf
    snapshot = (estimate := _estimate([1.0, 1.1])).snapshot()
    estimate.update(np.array([1.0, 0.0]), 1.1, 0)
    assert snapshot.resolution == 0.0


@pytest.mark.parametrize("sigma", [0.02, 0.1, 0.2, 0.3, 0.5, 1.0])
def test_no_mean_of_rounded_readings_is_off_by_more_than_the_bias(sigma: float) -> None:
    """Against the sum over all cells; at a quarter of the cell the bound is met within a few percent."""
    off = [abs(float(_chances(mean, sigma) @ CELLS) - mean) for mean in np.linspace(0.0, 0.5, 51)]
    assert max(off) <= largest_bias(1.0, sigma) + 1e-15
    if sigma >= 0.3:
        assert max(off) >= 0.8 * largest_bias(1.0, sigma) - 1e-12


@pytest.mark.parametrize("sigma", [0.005, 0.05, 0.1, 0.2, 0.3, 0.35, 0.4, 0.45, 0.5, 0.7, 1.0, 3.0])
def test_rounded_readings_are_no_farther_from_their_mean_than_noise_of_the_stated_variance(sigma: float) -> None:
    """E exp((1 - 1/r) (reading - m)^2 / (2 s^2)) <= sqrt(r): what the proof of the lower limit asks for."""
    s2 = max(ROUNDED[0], sigma**2 + ROUNDED[1])
    for mean in np.linspace(0.0, 0.5, 26):
        chances = _chances(mean, sigma)
        with np.errstate(divide="ignore"):
            logs = (
                np.log(chances)[:, None]
                + 0.5 * (1.0 - 1.0 / np.array(VARIANCE_RATIOS)) * ((CELLS - mean) ** 2 / s2)[:, None]
            )
        assert (np.logaddexp.reduce(logs) <= 0.5 * np.log(VARIANCE_RATIOS)).all()


def test_the_bias_is_half_a_step_until_the_scatter_shows_that_it_is_less() -> None:
    """Noise of the step's own size is believed after a hundred readings, noise far below it never."""
    rng = np.random.default_rng(1)
    fine = _estimate(np.round(rng.standard_normal(200)).tolist())
    coarse = _estimate(np.round(0.2 * rng.standard_normal(200)).tolist())
    assert rounding_bias(fine, fine.resolution) < 1e-3
    assert rounding_bias(coarse, coarse.resolution) == 0.5
    assert rounding_bias(fine, 0.0) == 0.0
    assert rounding_bias(_estimate([1.0, 1.0]), math.inf) == math.inf


def test_equal_readings_of_a_block_are_no_evidence() -> None:
    """Floating point leaves 1e-16 of residuals and of a difference: their ratio says nothing."""
    X = np.tile([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]], (4, 1))
    theta0 = np.array([0.7, 0.1])  # the past expected 0.8, 0.9, 1.0
    said = fit(Block.of(X, X @ theta0 + 1e-16 * np.arange(12), theta0, np.eye(2)))
    assert said.residuals is not None
    dusty, empty = _returns([1e-16], said.residuals), _returns([0.0], Residuals(1.0, said.residuals.nu))
    assert abs(float(dusty[0] - empty[0])) < 1e-3


def _returns(z: list[float], block: Residuals) -> Array:
    """Return what bets with one law pay on blocks that say z."""
    q, m, s2, rest = (np.full(len(z), value) for value in (0.1, 0.5, 0.2, 3.0))
    return log_t_returns(np.array(z), q, m, s2, rest, block, Residuals(1.0, 5))


def test_rounding_that_hides_scatter_lowers_what_a_bet_wins_and_never_what_it_loses() -> None:
    """A block without residuals counts as one with those of its step where it wins."""
    bare, floored = (_returns([0.5, -0.5], block) for block in (Residuals(1e-6, 6), Residuals(1e-6, 6, least=0.5)))
    assert floored[0] < bare[0] - 0.1
    assert floored[1] == bare[1]


def test_equal_repetitions_are_no_evidence_either() -> None:
    """Sub-blocks that agree to the last digit have no scatter to bet by."""
    z_parts = np.array([[1e-16], [0.0], [0.0], [0.0]])
    q, m, s2, rest = (np.array([value]) for value in (0.1, 1e-3, 1.0, 3.0))
    plain, dusty = (log_sub_block_returns(z_parts, q, m, s2, rest, Residuals(1.0, 5), dust) for dust in (0.0, 1e-24))
    assert plain[0] > 1.0
    assert dusty[0] < 0.01


def test_a_reading_that_repeats_beyond_chance_is_no_measurement() -> None:
    """A cache: far from the fit, and the same every time. Honest readings on a grid agree now and then."""
    rng = np.random.default_rng(2)
    cached = [0.318, 2.7182, -1.4142]
    assert is_repeating(_estimate([cached[i % 3] for i in range(12)]))
    honest = _estimate(np.round(rng.standard_normal(60), 1).tolist())
    assert honest.n_repeated[0] > 0
    assert not is_repeating(honest)
    listed = rng.standard_normal(20)
    assert not is_repeating(_estimate(rng.choice(listed, 200).tolist()))  # no cache, but a simulation
    # One digit is what a coarse instrument shows, again and again.
    assert not is_repeating(_estimate([1.0, 1.1, 1.2] * 4))


def test_nothing_is_bet_by_a_past_without_a_scale() -> None:
    """Readings that are all equal, or repeat each other, have no residuals to bet by."""
    assert not residuals(_estimate([1.0] * 9)).has_scale
    assert not residuals(_estimate([0.318, 2.7182, -1.4142] * 4)).has_scale
    assert residuals(_estimate([1.0, 1.1, 1.2, 1.0, 1.1, 1.3])).has_scale


@pytest.mark.parametrize("rewards", [[1.0] * 60, [1.0, 1.1, 1.2] * 20, [0.0] * 60])
def test_no_interval_has_width_zero(rewards: list[float]) -> None:
    """Readings without scatter bound the noise by their step, or not at all."""
    scale, _ = noise_to_assume(_estimate(rewards), None, 0.05)
    assert scale > 0.01


def test_limits_of_the_noise_allow_for_rounding() -> None:
    """They are wider by what rounding can add to the root of the residual sum of squares, and hold the truth."""
    rng = np.random.default_rng(3)
    exact = rng.standard_normal(300)
    low, high = noise_interval(_estimate(exact.tolist()), 0.05)
    rounded = noise_interval(_estimate(np.round(exact).tolist()), 0.05)
    assert rounded[0] < low < 1.0 < high < rounded[1]


@pytest.mark.parametrize("n", [3, 20, 100, 1000])
def test_the_sum_of_squares_that_contradicts_a_level_is_where_the_evidence_passes(n: int) -> None:
    """Just above it the evidence that the noise is larger reaches its alarm, just below it does not."""
    least, alarm = noise._contradicting(n), math.log(1.0 / noise.FALSE_ALARM)
    assert noise.noise_evidence(1.001 * least, n) > alarm > noise.noise_evidence(0.999 * least, n)


def test_what_rounding_can_feign_is_taken_off_every_bet() -> None:
    """A bias b of every reading costs b sqrt(n q) of z, in the belief and in what the block says."""
    rng, X = np.random.default_rng(4), np.tile(np.eye(2), (6, 1))
    rewards = X @ [1.0, 0.4] + 0.3 * rng.standard_normal(12)
    theta0, b = np.array([0.9, 0.5]), 0.03
    paid = []
    for bias in (0.0, b):
        wealth = Wealth(FiniteArms(np.eye(2)), delta=0.01)
        block = Block.of(X, rewards, theta0, np.eye(2) / 20.0, Residuals(1.0, 18), np.tile([0, 1], 6))
        block.bias = bias
        (placed,) = wealth.placed_on(block)
        paid.append((float(placed.products[0, 0]), float(placed.law[1][0])))
    (z, m), (z_less, m_less) = paid
    q = 2.0 / 6.0  # both arms have six pulls
    assert z - z_less == pytest.approx(b * math.sqrt(12 * q))
    assert m - m_less == pytest.approx(b * math.sqrt(12 * q))


def test_the_scale_of_intervals_has_the_bias_of_rounding() -> None:
    """Half a step of every reading, in units of what the claim is apart."""
    estimate = _estimate(np.round(0.2 * np.random.default_rng(1).standard_normal(200)).tolist())
    _, high = noise_interval(estimate, 0.05)
    scale, delta = noise_to_assume(estimate, None, 0.05)
    assert delta == 0.025
    assert scale == pytest.approx(high + 0.5 * math.sqrt(200) / math.sqrt(2.0 * math.log(40.0)))


def test_the_next_step_beside_equal_readings_is_no_slip() -> None:
    """Nearly all of 300 readings in whole numbers are equal: the next number is rounding, one far away a slip."""
    x = np.ones(1)
    for last, is_found in ((4.0, False), (400.0, True)):
        estimate = LeastSquares(1)
        for reward in [2.0, 2.0, *([3.0] * 298), last]:
            estimate.update(x, reward, 0)
        assert is_slip(estimate, x, last - 3.0, 301, None, 0.005) == is_found


def test_a_bet_on_readings_that_say_nothing_is_lost() -> None:
    """An infinite bias leaves a number, below 0."""
    X = np.tile(np.eye(2), (6, 1))
    rewards = X @ [1.0, 0.4] + 0.1 * np.random.default_rng(4).standard_normal(12)
    wealth = Wealth(FiniteArms(np.eye(2)), delta=0.01)
    block = Block.of(X, rewards, np.array([0.9, 0.5]), np.eye(2) / 20.0, Residuals(1.0, 18), np.tile([0, 1], 6))
    block.bias = math.inf
    wealth.settle(block)
    assert -20.0 < wealth.log_wealth(0)[1] < 0.0
