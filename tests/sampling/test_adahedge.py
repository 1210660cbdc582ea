import copy
import math

import numpy as np
import pytest

from surepick.sampling.adahedge import AdaHedge


def test_two_rounds_by_hand() -> None:
    """Uniform first; then the rate log(2) / D with D = mean loss - least loss of the first round."""
    hedge = AdaHedge(2)
    np.testing.assert_allclose(hedge.weights, [0.5, 0.5])
    hedge.feed(np.array([0.0, 1.0]))
    rate = math.log(2) / 0.5
    expected = np.array([1.0, math.exp(-rate)])
    np.testing.assert_allclose(hedge.weights, expected / expected.sum())
    losses = np.array([2.0, 0.0])
    w = hedge.weights
    mix = -math.log(float(w @ np.exp(-rate * losses))) / rate
    hedge.feed(losses)
    rate = math.log(2) / (0.5 + float(w @ losses) - mix)
    expected = np.exp(-rate * np.array([2.0, 1.0]))
    np.testing.assert_allclose(hedge.weights, expected / expected.sum())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
def test_the_regret_is_bounded_whatever_the_scale(seed: int, scale: float) -> None:
    """The worst-case bound of de Rooij et al.: regret <= S sqrt(T log n) + S (4/3 log n + 2), S the loss range."""
    rng, n, rounds = np.random.default_rng([60, seed]), 7, 600
    means = rng.random(n)
    hedge, lost, totals = AdaHedge(n), 0.0, np.zeros(n)
    for _ in range(rounds):
        losses = scale * (rng.random(n) < means).astype(float)
        assert hedge.weights.sum() == pytest.approx(1.0)
        assert (hedge.weights >= 0.0).all()
        lost += float(hedge.weights @ losses)
        totals += losses
        hedge.feed(losses)
    limit = scale * (math.sqrt(rounds * math.log(n)) + 4 / 3 * math.log(n) + 2)
    assert lost - totals.min() <= limit
    assert hedge.weights[int(np.argmin(totals))] == hedge.weights.max()


def test_constants_added_and_factors_change_no_weight() -> None:
    """AdaHedge has no units: losses shifted or scaled give the same weights."""
    rng = np.random.default_rng(61)
    plain, moved = AdaHedge(4), AdaHedge(4)
    for _ in range(50):
        losses = rng.random(4)
        plain.feed(losses)
        moved.feed(1000.0 * losses - 3.0)
    np.testing.assert_allclose(plain.weights, moved.weights, rtol=1e-6)


def test_one_choice_and_equal_losses() -> None:
    """One choice has weight 1; choices that never differ share equally for ever."""
    one, equal = AdaHedge(1), AdaHedge(3)
    for _ in range(5):
        one.feed(np.array([2.0]))
        equal.feed(np.full(3, 7.0))
    assert one.weights.tolist() == [1.0]
    np.testing.assert_allclose(equal.weights, 1 / 3)


def test_a_copy_goes_its_own_way() -> None:
    """Feeding a copy leaves the original alone."""
    hedge = AdaHedge(2)
    hedge.feed(np.array([0.0, 1.0]))
    other, before = copy.deepcopy(hedge), hedge.weights.copy()
    other.feed(np.array([5.0, 0.0]))
    assert np.array_equal(hedge.weights, before)
    assert not np.array_equal(other.weights, before)


def test_a_choice_given_up_for_good_may_come_back() -> None:
    """A weight of 0 is rounding: when that choice does best by far, its losses still count and nothing breaks."""
    hedge = AdaHedge(3)
    for _ in range(3000):
        hedge.feed(np.array([-1e-6, -5e-7, 0.0]))
    assert hedge.weights[2] == 0.0
    hedge.feed(np.array([0.0, 0.0, -1.0]))
    assert np.isfinite(hedge.weights).all()
    for _ in range(10):
        hedge.feed(np.array([0.0, 0.0, -1.0]))
    assert hedge.weights[2] > 0.9
