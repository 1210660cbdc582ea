"""The formula for pulls, its law, and the difficulty it starts from."""

import math

import numpy as np
import pytest
import scipy.stats

import surepick as sp
from benchmarks.clicks import factorial
from surepick.planning.forecast import (
    Curve,
    Difficulty,
    Law,
    difficulty,
    evidence_curve,
    expected_pulls,
    quantile,
)


def hard(
    X: object, theta: list[float], *, stds: object = 1.0, costs: list[float] | None = None, m: int = 1
) -> Difficulty:
    """Return the difficulty of arms in memory."""
    arms = sp.FiniteArms(X)
    spread = np.broadcast_to(np.asarray(stds, dtype=float), arms.n_arms)
    return difficulty(arms, np.array(theta), spread, costs=None if costs is None else np.array(costs), m=m)


ANGLE = [[1.0, 0.0], [0.0, 1.0], [math.cos(0.3), math.sin(0.3)]]


@pytest.mark.parametrize(
    ("X", "theta", "costs", "expected"),
    [
        (np.eye(2), [0.5, 0.0], [1.0, 4.0], 72.0),
        (np.eye(3), [1.0, 0.5, 0.0], [1.0, 4.0, 2.0], 76.362548),
        (ANGLE, [2.0, 0.0], [1.0, 1.0, 1.0], 29.006233),
        (ANGLE, [2.0, 0.0], [1.0, 9.0, 1.0], 217.356549),
    ],
)
def test_least_cost_of_a_nat(X: object, theta: list[float], costs: list[float], expected: float) -> None:
    """Arms divided by the root of their cost give the cost that no method can be below."""
    found = hard(X, theta, costs=costs)
    assert found.least_cost == pytest.approx(expected, rel=1e-5)
    assert found.time * found.price == pytest.approx(expected, rel=1e-5)


def test_pulls_of_a_cost_follow_the_shares_of_the_cost() -> None:
    """With costs 1 and 4 two pulls of three are of the cheap arm, so that a pull costs 2 on average."""
    found = hard(np.eye(2), [0.5, 0.0], costs=[1.0, 4.0])
    assert found.price == pytest.approx(2.0, rel=1e-4)
    assert found.least <= found.time


def test_noise_of_an_arm_is_a_cost_by_its_square() -> None:
    """An arm that is twice as noisy takes as many pulls as money if it cost four times as much."""
    noisy, dear = hard(np.eye(2), [0.5, 0.0], stds=[1.0, 2.0]), hard(np.eye(2), [0.5, 0.0], costs=[1.0, 4.0])
    assert noisy.time == pytest.approx(dear.time * dear.price, rel=1e-5)


def test_two_best_of_three_are_the_mirror_image_of_one() -> None:
    """Who is not among the two best is who is best under minus theta."""
    two, mirror = hard(np.eye(3), [1.0, 0.6, 0.0], m=2), hard(np.eye(3), [-1.0, -0.6, 0.0])
    assert two.time == pytest.approx(mirror.time, rel=1e-5)
    assert two.n_rivals == pytest.approx(mirror.n_rivals, rel=1e-2)


def test_two_equal_rivals_count_as_two() -> None:
    """The number of rivals is the perplexity of the multipliers of the lower bound."""
    assert hard(np.eye(3), [1.0, 0.0, 0.0]).n_rivals == pytest.approx(2.0, rel=1e-3)
    assert hard(np.eye(2), [1.0, 0.0]).n_rivals == pytest.approx(1.0)


# The formula as first written: known noise, a tenth of the G-optimal design, log k for k rivals, no learning; k and n_1
# as there.
@pytest.mark.parametrize(
    ("X", "theta", "delta", "first", "k", "is_clicks", "expected"),
    [
        (sp.problems.many_arms(1000).X, [1.0, 0.0], 0.01, 4, 1, False, 160.83196),
        (sp.problems.soare(6).X, [2.0, 0.0, 0.0, 0.0, 0.0, 0.0], 1e-4, 12, 5, False, 3367.91634),
        (np.eye(5), [0.04, 0.03, 0.02, 0.02, 0.02], 0.05, 20, 4, True, 26843.09),
        (factorial(3), [0.06, 0.02, 0.015, 0.005], 0.05, 20, 3, True, 16907.55),
        (factorial(4), [0.0275, 0.005, 0.005, 0.005, 0.0025], 0.05, 20, 4, True, 41250.12),
    ],
    ids=["many arms", "Soare", "5 rates", "2^3", "2^4"],
)
def test_values_of_the_formula(
    X: np.ndarray, theta: list[float], delta: float, first: int, k: int, is_clicks: bool, expected: float
) -> None:
    """Values worked out elsewhere: 161, 3368, 26,843, 16,908 and 41,250."""
    p = X @ theta
    time = hard(X, theta, stds=np.sqrt(p * (1.0 - p)) if is_clicks else 1.0).time
    found = expected_pulls(time, delta, first=first, n_rivals=k, mixed=0.1, per_rival=1.0)
    assert found == pytest.approx(expected, rel=1e-5)


def test_formula_solves_its_equation_and_grows() -> None:
    """N is a fixed point, and more is needed for a smaller risk, more rivals, a longer time."""
    N = expected_pulls(50.0, 0.05, first=8.0, n_rivals=3.0, learning=30.0)
    M = N - 30.0
    assert pytest.approx(M) == 50.0 / 0.95 * (math.log(20) + 0.5 * math.log(M / 8.0) + 1.6 * math.log(3.0))
    assert N < expected_pulls(50.0, 0.01, first=8.0, n_rivals=3.0, learning=30.0)
    assert N < expected_pulls(50.0, 0.05, first=8.0, n_rivals=4.0, learning=30.0)
    assert N < expected_pulls(51.0, 0.05, first=8.0, n_rivals=3.0, learning=30.0)
    assert expected_pulls(1e-9, 0.05, first=8.0, learning=30.0) == pytest.approx(30.0)


def test_first_pulls_are_worth_what_the_curve_says() -> None:
    """Within the curve pulls are read off it, beyond it every pull is worth as much as the design says."""
    curve = Curve(np.array([0.0, 10.0, 100.0]), np.array([0.0, 0.0, 5.0]))
    within = expected_pulls(10.0, math.exp(-2.5), first=1e9, curve=curve)
    assert within == pytest.approx(55.0)
    beyond = expected_pulls(10.0, math.exp(-7.0), first=1e9, curve=curve, mixed=0.2)
    assert beyond == pytest.approx(100.0 + 10.0 / 0.8 * 2.0)


def test_whole_pulls_of_a_basis_are_worth_their_number() -> None:
    """An interval with two pulls of e1 and one of e2 resolves e1 - e2 with variance 1/2 + 1."""
    arms = sp.FiniteArms(np.eye(2))
    start = sp.optimal_design(arms)
    aim = np.array([0, 1]), np.array([0.5, 0.5])
    curve = evidence_curve(arms, start, aim, math.sqrt(2.0) * np.array([[1.0, -1.0]]), np.ones(1))
    assert curve.pulls[:3].tolist() == [0.0, 4.0, 7.0]
    assert curve.nats[:3] == pytest.approx([0.0, 0.0, 1.0 / 3.0])
    # In the end nearly as good as the design itself, which takes 8 pulls for a nat of a gap of 1.
    assert np.diff(curve.nats)[-1] / np.diff(curve.pulls)[-1] == pytest.approx(1.0 / 8.0, rel=0.02)


def test_interval_that_does_not_see_a_direction_is_worth_nothing() -> None:
    """Pulls of one arm alone say nothing about another."""
    arms = sp.FiniteArms(np.eye(3))
    aim = np.array([0, 1]), np.array([0.5, 0.5])
    unseen = evidence_curve(arms, sp.optimal_design(arms), aim, np.array([[1.0, 0.0, -1.0]]), np.ones(1))
    assert np.diff(unseen.nats).min() == 0.0


@pytest.mark.parametrize("spread", [0.05, 0.4, 1.0])
def test_law_is_the_inverse_gaussian_one(spread: float) -> None:
    """Probabilities and quantiles agree with SciPy's, whose scale is the shape."""
    law, shape = Law(200.0, spread), 200.0 / spread**2
    theirs = scipy.stats.invgauss(200.0 / shape, scale=shape)
    for n in (50.0, 150.0, 210.0, 600.0):
        assert law.below(n) == pytest.approx(theirs.cdf(n), rel=1e-9, abs=1e-15)
    assert quantile([law], 0.9) == pytest.approx(theirs.ppf(0.9), rel=1e-6)


def test_quantile_of_several_laws_is_of_their_mixture() -> None:
    """A tied scenario never ends: beyond its share there is no quantile."""
    laws = [Law(100.0, 0.3), Law(1000.0, 0.5), Law(math.inf, 1.0)]
    at = quantile(laws, 0.5)
    assert sum(law.below(at) for law in laws) / 3 == pytest.approx(0.5, abs=1e-9)
    assert quantile(laws, 0.7) == math.inf
