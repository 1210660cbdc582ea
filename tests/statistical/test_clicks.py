"""Accounts of clicks: how often one of three equal arms is rejected, and the peeking that these counts catch.

The accounts are those that learners keep; `test_unknown_noise.py` counts the same bets on many more paths. Runs that
could no longer change the verdict are not made.
"""

import math

import numpy as np
import pytest
from scipy.stats import binom

from surepick.arms.finite import FiniteArms
from surepick.core.betting.block import Block
from surepick.core.betting.wealth import Wealth
from surepick.types import Array, IntArray
from tests.statistical.paths import DELTA, error_limit, is_settled

pytestmark = pytest.mark.statistical

N_RUNS, N_BLOCKS = 500, 16
LIMIT = error_limit(N_RUNS)


def rejections(*, knows_the_block: bool) -> int:
    """Runs that ever reject arm 0, which nothing is better than, until the limit is passed or out of reach."""
    rng, rejected = np.random.default_rng(15), 0
    for run in range(N_RUNS):
        wealth = Wealth(FiniteArms(np.eye(3)), delta=DELTA, bounds=(0.0, 1.0), level=np.ones(3))
        counts, clicks = np.full(3, 10.0), rng.binomial(10, 0.2, 3).astype(float)
        for _ in range(N_BLOCKS):
            own = np.ceil(0.3 * counts).astype(int)
            rewards = [(rng.random(n) < 0.2).astype(float) for n in own]
            won = np.array([arm.sum() for arm in rewards])
            known = won / own if knows_the_block else clicks / counts
            wealth.settle(_block(own, np.concatenate(rewards), known, counts))
            if wealth.answer is not None:
                break
            counts, clicks = counts + own, clicks + won
        rejected += bool(wealth.log_wealth(1)[0] >= -math.log(DELTA))
        if is_settled(rejected, run + 1, N_RUNS, LIMIT):
            break
    return rejected


def _block(own: IntArray, rewards: Array, theta: Array, counts: Array) -> Block:
    return Block.of(np.repeat(np.eye(3), own, axis=0), rewards, theta, np.diag(1.0 / counts))


def test_clicks_keep_delta() -> None:
    """From blocks in which hardly anybody clicks to a thousand pulls; the luckiest arm leads.

    The limit is exceeded once in a million if arm 0 is rejected with probability .3; with .46, in 99 of 100 gates.
    """
    assert binom.sf(LIMIT, N_RUNS, 0.46) > 0.99
    assert 0 < rejections(knows_the_block=False) <= LIMIT


def test_the_count_sees_bets_that_know_the_results() -> None:
    """Whoever leads and bets by what the block itself says is caught."""
    assert rejections(knows_the_block=True) > LIMIT
