"""Bets on a pool of items: values, validity over random orders, and scores that are missing."""

import itertools
import math

import numpy as np
import pytest

from surepick.core.betting.pool import PoolWealth, largest_mean, log_factors


def test_factor_of_the_fifth_of_ten_items() -> None:
    """Leads 1, 0, 1, -1, then 1."""
    # Leads 1, 0, 1, -1 leave a sum of 1 that six items must make up for.
    m = largest_mean(np.array([1.0]), 5, 10)[0]
    assert m == pytest.approx(-1 / 6)
    assert 1.0 + 0.5 * (1.0 - m) == pytest.approx(1.583333, abs=1e-6)


def test_mean_wealth_over_all_orders_is_at_most_one() -> None:
    """Mean wealth over all orders is at most one."""
    # Arm 1 is best by a hair: over all orders of the table, wealth against it has mean at most 1 at every time.
    table = np.array([[1.0, 0.0, 1.0, 0.0, 0.3, 0.5], [0.0, 1.0, 1.0, 0.1, 0.3, 0.4]])
    table[1, 5] += table[0].sum() - table[1].sum()
    means = np.zeros(6)
    orders = list(itertools.permutations(range(6)))
    for order in orders:
        wealth = PoolWealth(2, 6, (0.0, 1.0), 1e-9)  # no rejection by bets
        for t, item in enumerate(order, start=1):
            wealth.settle(t, np.arange(2), table[:, item])
            means[t - 1] += math.exp(min(wealth.log_wealth[1], 20.0))
    assert (means[:5] / len(orders) <= 1.0 + 1e-9).all()


def test_factors_never_fall_below_the_limit() -> None:
    """Factors never fall below the limit."""
    rng = np.random.default_rng(0)
    for t in (1, 2, 50, 99, 100):
        S = rng.uniform(-(t - 1), min(t - 1, 100 - t + 1), 40)
        logs = log_factors(rng.choice([-1.0, 0.0, 1.0], 40), S, t, 100)
        assert np.isfinite(logs).all()
        assert (logs >= math.log(0.05) - 1e-9).all()


def test_lead_that_the_rest_cannot_make_up_for_decides() -> None:
    """Lead that the rest cannot make up for decides."""
    wealth = PoolWealth(2, 5, (0.0, 2.0), 1e-9)
    for t in (1, 2):
        wealth.settle(t, np.arange(2), np.array([0.0, 2.0]))
    wealth.settle(3, np.arange(2), np.array([1.0, 1.0]))
    assert wealth.answer is None  # two items are left, and could bring a tie
    wealth.settle(4, np.arange(2), np.array([1.0, 1.1]))
    assert wealth.answer == 1
    assert wealth.log_wealth[0] >= wealth.log_price


def test_the_whole_table_decides_also_a_tie() -> None:
    """The whole table decides also a tie."""
    wealth = PoolWealth(3, 4, (0.0, 1.0), 1e-9)
    for t, scores in enumerate(([1, 0, 0], [0, 1, 0], [0, 1, 1], [1, 0, 0]), start=1):
        assert wealth.answer is None
        wealth.settle(t, np.arange(3), np.array(scores, dtype=float))
    assert wealth.answer in (0, 1)


@pytest.mark.parametrize(("missing", "lead"), [(1, 0.0), (0, 0.0), (None, -1.0)])
def test_a_score_that_is_missing_counts_at_its_worst(missing: int | None, lead: float) -> None:
    """Arm 0 leads by 1 on every item; on the third one score is missing, or both, and the sum counts the worst lead."""
    wealth = PoolWealth(2, 20, (0.0, 1.0), 1e-9)
    scores = np.array([1.0, 0.0])
    for t in (1, 2, 3, 4, 5):
        if t != 3:
            wealth.settle(t, np.arange(2), scores)
        elif missing is not None:
            wealth.settle(t, np.array([1 - missing]), scores[[1 - missing]])
    sums = {1: 0.0, 2: 1.0, 4: 2.0 + lead, 5: 3.0 + lead}
    logs = sum(log_factors(np.ones(1), np.array([S]), t, 20)[0] for t, S in sums.items())
    assert wealth.log_wealth[1] == pytest.approx(np.logaddexp.reduce(logs) - math.log(16.0))


def test_a_table_with_holes_decides_only_what_holes_cannot_change() -> None:
    """An item without scores may be worth 1 to the rival."""
    short = PoolWealth(2, 3, (0.0, 1.0), 1e-9)
    short.settle(2, np.arange(2), np.array([0.6, 0.0]))
    short.settle(3, np.arange(2), np.array([0.3, 0.0]))
    assert short.answer is None
    short = PoolWealth(2, 3, (0.0, 1.0), 1e-9)
    short.settle(2, np.arange(2), np.array([0.6, 0.0]))
    short.settle(3, np.arange(2), np.array([0.4, 0.0]))
    assert short.answer == 0
