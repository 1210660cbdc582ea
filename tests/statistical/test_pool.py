"""Bets on a pool: how often one of two best arms is rejected, and the order of items that this count catches."""

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.pool import rejected, table
from tests.statistical.paths import DELTA, error_limit, is_settled

pytestmark = pytest.mark.statistical

N_RUNS, N_ITEMS = 800, 60
LIMIT = error_limit(N_RUNS)


def rejections(*, is_sorted: bool) -> int:
    """Runs that reject arm 0, which none is better than, until the limit is passed or out of reach."""
    count = 0
    for run in range(N_RUNS):
        scores = table(np.random.default_rng([39, run]), (0.7, 0.7, 0.4), N_ITEMS)
        if is_sorted:
            scores = scores[np.argsort(scores[:, 0] - scores[:, 1], kind="stable")]
        count += rejected(scores, DELTA)
        if is_settled(count, run + 1, N_RUNS, LIMIT):
            break
    return count


def test_pool_keeps_delta() -> None:
    """Random order: the limit is exceeded once in a million at a risk of 0.3; at 0.43, in 99 of 100 gates."""
    assert binom.sf(LIMIT, N_RUNS, 0.43) > 0.99
    assert 0 < rejections(is_sorted=False) <= LIMIT


def test_the_count_sees_items_that_are_sorted() -> None:
    """Items on which the other arm wins come first: the best is rejected nearly always."""
    assert rejections(is_sorted=True) > LIMIT
