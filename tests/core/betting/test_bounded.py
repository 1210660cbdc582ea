"""The capital bet: values by hand, and its mean by exact enumeration over what may happen."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, truncnorm

from surepick.core.betting import bounded as capital
from surepick.core.betting.bounded import (
    LIMIT,
    capital_weights,
    largest_loss,
    log_capital,
    nodes,
    rate_variances,
)
from surepick.errors import InvalidInput
from surepick.types import Array
from tests.statistical.bets import log_click_capital

C, COUNTS, CENTRES, LAM = np.array([[1 / 4, -1 / 6]]), np.array([4.0, 6.0]), np.array([0.4, 0.3]), np.array([[1.2]])


def test_clicks_by_hand() -> None:
    """Two arms, one stake: the product as it is written."""
    for clicks, expected in (([3.0, 1.0], 0.629232), ([1.0, 4.0], -0.584739)):
        found = log_click_capital(C, LAM, COUNTS, np.array(clicks), CENTRES)[0]
        product = 1.0
        for c, n, k, a in zip(C[0], COUNTS, clicks, CENTRES, strict=True):
            win, lose = 1.0 + 1.2 * c * (1.0 - a), 1.0 - 1.2 * c * a
            product *= win**k * lose ** (n - k) * math.exp(1.2 * c * a * n)
        assert found == pytest.approx(math.log(product), abs=1e-12)
        assert found == pytest.approx(expected, abs=1e-6)
    assert largest_loss(C, CENTRES)[0] == pytest.approx(0.116667, abs=1e-6)


@pytest.mark.parametrize(
    ("rates", "expected"),
    [((0.3, 0.3), 0.998165), ((0.5, 0.5), 0.993326), ((0.1, 0.3), 0.773181), ((0.4, 0.3), 1.127497)],
)
def test_means_over_binomials(rates: tuple[float, float], expected: float) -> None:
    """At most 1 where the first arm is not better."""
    mean = sum(
        binom.pmf(i, 4, rates[0])
        * binom.pmf(j, 6, rates[1])
        * math.exp(log_click_capital(C, LAM, COUNTS, np.array([i, j]), CENTRES)[0])
        for i in range(5)
        for j in range(7)
    )
    assert mean == pytest.approx(expected, abs=1e-6)


units = st.integers(0, 1000).map(lambda k: k / 1000)


@settings(max_examples=150, deadline=None)
@given(
    c=st.lists(st.floats(-3.0, 3.0), min_size=2, max_size=3),
    draws=st.lists(st.tuples(st.integers(1, 5), units, units), min_size=3, max_size=3),
    shares=st.lists(units, min_size=1, max_size=4),
    slack=st.floats(-0.5, 2.0),
)
def test_no_block_pays_more_than_its_stake_under_the_null(
    c: list[float], draws: list[tuple[int, float, float]], shares: list[float], slack: float
) -> None:
    """Any weights, centres, stakes and rates: the mean is at most 1 if theta'y = sum n c p <= -epsilon, exactly.

    Here epsilon is the largest under which the rates are in the null; with that plus `slack` the mean is at most
    the mean of e^(lam slack).
    """
    counts, centres, rates = (np.array(values) for values in zip(*draws[: len(c)], strict=True))
    weights = np.array([c])
    loss = float(largest_loss(weights, centres)[0])
    if loss < 1e-9:
        return
    lam = LIMIT / loss * np.array([shares])
    lam = np.minimum(lam, 30.0)
    epsilon = -float(weights[0] @ (counts * rates))
    clicks = np.array(list(itertools.product(*(range(n + 1) for n in counts))), dtype=float)
    chance = np.asarray(binom.pmf(clicks, counts, rates)).prod(axis=1)
    pays = np.array([log_click_capital(weights, lam, counts, k, centres, epsilon=epsilon + slack)[0] for k in clicks])
    assert float(chance @ np.exp(pays)) <= float(np.exp(lam * slack).mean()) * (1.0 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(
    lo=st.floats(-5.0, 0.0),
    width=st.floats(0.1, 10.0),
    arms=st.lists(st.tuples(st.floats(-2.0, 2.0), units, units, units), min_size=1, max_size=5),
    share=units,
)
def test_rewards_between_any_bounds(
    lo: float, width: float, arms: list[tuple[float, float, float, float]], share: float
) -> None:
    """Rewards of three values, one result per arm: the mean over everything that may happen."""
    hi = lo + width
    c, centres, middles, chances = (np.array(values) for values in zip(*arms, strict=True))
    centres, middles = np.minimum(lo + width * centres, hi), np.minimum(lo + width * middles, hi)
    weights = c[None]
    loss = float(largest_loss(weights, centres, lo=lo, hi=hi)[0])
    if loss < 1e-9:
        return
    lam = np.array([[min(share * LIMIT / loss, 10.0 / width)]])
    values = np.stack([np.full_like(c, lo), middles, np.full_like(c, hi)])
    weight = np.stack([0.5 * chances, 0.5 + 0.0 * chances, 0.5 * (1.0 - chances)])
    epsilon = -float(c @ (weight * values).sum(axis=0))
    mean = 0.0
    for outcome in itertools.product(range(3), repeat=len(c)):
        rewards, chance = values[outcome, range(len(c))], weight[outcome, range(len(c))].prod()
        pay = log_capital(weights, lam, rewards, centres, np.ones(len(c)), epsilon=epsilon, bounds=(lo, hi))
        mean += float(chance) * math.exp(pay[0])
    assert mean <= 1.0 + 1e-9


def _many(n: int, p: int, seed: int = 1) -> tuple[Array, Array, Array, Array]:
    rng = np.random.default_rng(seed)
    c, rewards, centres = rng.standard_normal((n, p)), rng.random(p), rng.random(p)
    lam = rng.random((n, 16)) * (LIMIT / largest_loss(c, centres))[:, None]
    return c, lam, rewards, centres


def test_slices_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates and results at a time: the sums are those of one pass; how often is how often."""
    c, lam, rewards, centres = _many(23, 57)
    times = np.random.default_rng(2).integers(0, 4, 57).astype(float)
    plain = (times * np.log1p(lam[:, :, None] * (c * (rewards - centres))[:, None])).sum(axis=2)
    expected = np.log(np.exp(plain + lam * (c @ (times * centres) + 0.1)[:, None]).mean(axis=1))
    for numbers, results in ((capital.NUMBERS, capital.RESULTS), (640, 7), (1, 1)):
        monkeypatch.setattr(capital, "NUMBERS", numbers)
        monkeypatch.setattr(capital, "RESULTS", results)
        np.testing.assert_allclose(log_capital(c, lam, rewards, centres, times, epsilon=0.1), expected, rtol=1e-10)
    each = np.repeat(np.arange(57), times.astype(int))
    apart = log_capital(c[:, each], lam, rewards[each], centres[each], np.ones(len(each)), epsilon=0.1)
    np.testing.assert_allclose(apart, expected, rtol=1e-10)
    own = log_capital(c, lam, *(np.tile(values, (23, 1)) for values in (rewards, centres, times)), epsilon=0.1)
    np.testing.assert_allclose(own, expected, rtol=1e-10)


def test_memory_stays_bounded() -> None:
    """Five hundred candidates and four thousand results need a part of the 256 MB of one array of all factors."""
    arguments = *_many(500, 4000), np.ones(4000)
    log_capital(*arguments)
    tracemalloc.start()
    log_capital(*arguments)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32e6


def test_a_better_result_pays_more() -> None:
    """More clicks where the weight is positive, fewer where it is negative."""
    lam = np.array([[0.3, 1.2, 4.0]])
    for other in range(7):
        more = [log_click_capital(C, lam, COUNTS, np.array([k, other]), CENTRES)[0] for k in range(5)]
        assert (np.diff(more) > 0).all()
    for other in range(5):
        fewer = [log_click_capital(C, lam, COUNTS, np.array([other, k]), CENTRES)[0] for k in range(7)]
        assert (np.diff(fewer) < 0).all()


@pytest.mark.parametrize(("m", "s2"), [(0.0, 1.0), (0.3, 0.04), (2.0, 0.01), (0.1, 4.0)])
def test_nodes_are_the_middles_of_sixteen_equal_parts(m: float, s2: float) -> None:
    """Quantiles (j + 1/2)/16 of the cut normal law, over v, at most the limit."""
    law = truncnorm(-m / math.sqrt(s2), np.inf, m, math.sqrt(s2))
    one = np.ones(1)
    expected = law.ppf((np.arange(16) + 0.5) / 16) / 0.5
    np.testing.assert_allclose(np.sort(nodes(m * one, s2 * one, 0.5 * one, 1e-9 * one)[0]), expected, rtol=1e-9)
    bounded = nodes(m * one, s2 * one, 0.5 * one, one)[0]
    np.testing.assert_allclose(np.sort(bounded), np.minimum(expected, LIMIT), rtol=1e-9)


def test_a_certain_belief_is_one_stake() -> None:
    """Without doubt all nodes are the same, also at 0; where nothing can be lost there is no limit."""
    found = nodes(np.array([0.4, 0.0, 8.0]), np.zeros(3), np.array([2.0, 1.0, 1.0]), np.array([1.0, 1.0, 0.0]))
    np.testing.assert_array_equal(found, np.repeat([[0.2], [0.0], [8.0]], 16, axis=1))


def test_weights_reproduce_the_contrast() -> None:
    """The condition that makes unknown means cancel, and least variance among such weights."""
    rng = np.random.default_rng(4)
    X, Y = rng.standard_normal((6, 3)), rng.standard_normal((5, 3))
    counts, variances = np.array([3.0, 5.0, 2.0, 9.0, 4.0, 1.0]), rng.uniform(0.01, 0.25, 6)
    c = capital_weights(Y, X, counts, variances)
    np.testing.assert_allclose((c * counts) @ X, Y, rtol=1e-9, atol=1e-12)
    other = capital_weights(Y, X, counts, np.ones(6))
    assert ((c**2 * counts * variances).sum(axis=1) < (other**2 * counts * variances).sum(axis=1)).all()


def test_variances_of_rates() -> None:
    """Half of the common rate, half of the arm's, which is kept off the ends; in any unit; also before any click."""
    found = rate_variances(np.array([0.05, -0.2, 0.9]), 9.5, 199)
    common = 10 / 200
    rates = np.array([0.05, 0.3 * common, 1.0 - 0.3 * (1.0 - common)])
    np.testing.assert_allclose(found, 0.5 * (common * (1 - common) + rates * (1 - rates)))
    shifted = rate_variances(5.0 + 10.0 * np.array([0.05, -0.2, 0.9]), 5.0 * 199 + 95.0, 199, lo=5.0, hi=15.0)
    np.testing.assert_allclose(shifted, 100.0 * found)
    for total, n in ((0.0, 0), (0.0, 100), (100.0, 100)):
        variances = rate_variances(np.array([0.0, 1.0, 0.5]), total, n)
        assert (variances > 0).all()
        assert (variances <= 0.25).all()


@pytest.mark.parametrize("rewards", [[1.1, 0.0], [0.0, -1e-9], [math.nan, 0.0], [math.inf, 0.0]])
def test_rewards_outside_the_bounds_are_refused(rewards: list[float]) -> None:
    """The proof is about rewards within the bounds, so nothing is clipped."""
    with pytest.raises(InvalidInput, match="`rewards` must be within the bounds"):
        log_capital(C, LAM, np.array(rewards), CENTRES, COUNTS)


def test_other_mistakes_are_named() -> None:
    """Centres, bounds, stakes, clicks and beliefs that have no meaning."""
    one = np.ones(1)
    with pytest.raises(InvalidInput, match="`centres` must be within"):
        largest_loss(C, np.array([0.4, 1.3]))
    with pytest.raises(InvalidInput, match="larger largest"):
        largest_loss(C, CENTRES, lo=1.0, hi=1.0)
    with pytest.raises(InvalidInput, match="finite"):
        rate_variances(CENTRES, 1.0, 2, hi=math.inf)
    for lam in (-0.1, 8.6, math.nan):
        with pytest.raises(InvalidInput, match="no one result takes all"):
            log_click_capital(C, np.array([[lam]]), COUNTS, np.array([3.0, 1.0]), CENTRES)
    with pytest.raises(InvalidInput, match="as many clicks as pulls"):
        log_click_capital(C, LAM, COUNTS, np.array([5.0, 1.0]), CENTRES)
    for m, s2, v, largest in ((-1, 1, 1, 1), (1, -1, 1, 1), (1, 1, 0, 1), (1, 1, 1, -1), (math.nan, 1, 1, 1)):
        with pytest.raises(InvalidInput, match="nodes needs"):
            nodes(m * one, s2 * one, v * one, largest * one)
