"""Plain and capped bets: closed forms against their definitions, what they return under the null, and their rules."""

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

import surepick as sp
from benchmarks import bet_variants
from benchmarks.bet_variants import CappedBetting, PlainBetting, log_bet, log_capped
from surepick.simulation.experiment import read_experiment
from surepick.simulation.sources import loaded
from surepick.types import Array
from tests.core.betting.test_bets import NULL_BLOCKS, _log_whole, _mean

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


def _mean_capped(truth: float, v: float, m: float, s2: float, rest: float) -> float:
    """The same for capped bets: c times the part below the place where the cap begins, and the price above."""
    u = np.linspace(-8.0, 8.0, 5)
    z, one = math.sqrt(v) * u, np.ones(5)
    found, staked = log_capped(z, v * one, m * one, s2 * one, rest * one), _log_whole(z, v, m, s2)
    log_c = float(found[0] - staked[0])
    np.testing.assert_allclose(found, np.minimum(log_c + staked, rest), rtol=1e-9, atol=1e-9)

    def log_payoff(u: Array) -> Array:
        return _log_whole(truth + math.sqrt(v) * u, v, m, s2)

    def missing(u: float) -> float:
        return float(log_payoff(np.array([u]))[0]) + log_c - rest

    top = 40.0 if missing(40.0) < 0.0 else float(brentq(missing, -40.0, 40.0, xtol=1e-13))
    return math.exp(log_c) * _mean(log_payoff, -40.0, top) + math.exp(rest + norm.logsf(top))


@settings(max_examples=60, deadline=None)
@given(block=NULL_BLOCKS)
def test_no_capped_bet_pays_more_than_its_stake_under_the_null(block: tuple[float, ...]) -> None:
    """For every D0 <= 0 the conditional mean of a factor is at most 1."""
    assert _mean_capped(*block) <= 1.0 + 1e-9


@pytest.mark.parametrize("m", [0.0, 0.5, 4.0])
@pytest.mark.parametrize("s2", [0.01, 1.0, 4.0])
def test_capped_bets_are_nearly_fair_at_the_boundary(m: float, s2: float) -> None:
    """Hardly anything is given away at theta'y = 0: the stake is raised by what the cap saves."""
    for rest in (0.1, 1.0, 10.0):
        assert _mean_capped(0.0, 0.8, m, s2, rest) >= 1.0 - 1e-3


def test_the_cap_is_the_price() -> None:
    """A far result wins what is missing and no more, a small one more than without a cap."""
    one = np.ones(2)
    capped = log_capped(np.array([50.0, 0.3]), 0.5 * one, one, 0.1 * one, 1.5 * one)
    assert capped[0] == 1.5
    assert capped[1] > _log_whole(np.array([0.3]), 0.5, 1.0, 0.1)[0]


def test_log_bet_broadcasts_and_grows_with_z() -> None:
    """Arguments broadcast like any ufunc's, and a better result never pays less."""
    value = log_bet(np.linspace(-5, 5, 41)[:, None], np.array([0.1, 1.0, 10.0]), 0.3, 0.5)
    assert value.shape == (41, 3)
    assert (np.diff(value, axis=0) > 0).all()


@pytest.mark.parametrize(("v", "s2"), [(0.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (math.nan, 1.0)])
def test_log_bet_refuses_variances_that_are_not_positive(v: float, s2: float) -> None:
    """A variance of zero or below is a mistake of the caller."""
    with pytest.raises(sp.InvalidInput, match="v > 0"):
        log_bet(1.0, v, 0.0, s2)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, "`noise_std` must be given"),
        ({"noise": "symmetric"}, "`noise_std` must be given"),
        ({"reward_range": (0, 1)}, "for Gaussian noise"),
    ],
)
def test_capped_bets_refuse_noise_without_a_proof(options: dict[str, Any], match: str) -> None:
    """Before anything is measured."""
    with pytest.raises(sp.InvalidInput, match=match):
        sp.create_learner("lazy-track-and-stop", np.eye(3), stopping=CappedBetting(), **options)


@pytest.mark.parametrize(
    ("sweep", "rule"), [("bets", PlainBetting()), ("small-risk", PlainBetting()), ("capped", CappedBetting())]
)
def test_the_sweeps_run_the_default_under_these_rules(sweep: str, rule: sp.stopping.Rule) -> None:
    """A plug-in asks for the arms that Lazy Track-and-Stop asks for under the rule."""
    folder = Path(bet_variants.__file__).parent
    (plugin,) = [one.plugin for one in read_experiment(folder / f"pulls-{sweep}.toml").algorithms if one.plugin]
    histories = []
    for algorithm in (loaded(plugin)(), sp.algorithms.LazyTrackAndStop(stopping=rule)):
        noise = iter(np.random.default_rng(1).standard_normal(1000))
        result = sp.identify(np.eye(3), lambda arm: float(arm == 1) + next(noise), noise_std=1.0, algorithm=algorithm)  # noqa: B023 - called in this turn of the loop
        assert result.rule == rule.name
        histories.append(list(result.history))
    assert histories[0] == histories[1]
