"""Wealth that goes on from an earlier rule: what keeps the risk, and what would not (docs/guarantee.md, Theorem 9).

Two arms have the same mean, so the first is a best one, and the past believes in a lead of the second, so that all bets
are against the first. If the proof holds, it is ever rejected with probability at most delta. A count of its rejections
in `N_RUNS` runs then exceeds `most_of(delta)` with probability at most 1e-6.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

import surepick as sp
from surepick.core.betting.block import Block
from surepick.core.betting.top_m import TopMWealth
from surepick.core.betting.wealth import BaseWealth, EpsilonWealth, Wealth

DELTA, N_RUNS, N_BLOCKS, N_EACH = 0.1, 60, 30, 4
ARMS, PULLS = sp.FiniteArms(np.eye(2)), np.repeat(np.eye(2), N_EACH, axis=0)
BELIEVED, VARIANCE = np.array([0.0, 1.0]), 0.02 * np.eye(2)

Change = Callable[[Wealth], Wealth]


def most_of(risk: float) -> int:
    """The most rejections that a risk allows in all runs, but for a probability of 1e-6."""
    return int(binom.isf(1e-6, N_RUNS, risk))


def going_on(before: Wealth) -> Wealth:
    """Begin an era with all evidence."""
    now = Wealth(ARMS, delta=DELTA, noise_std=1.0)
    now.go_on(before, np.arange(2))
    return now


def forgiving(before: Wealth) -> Wealth:
    """Broken: begin an era with the evidence, or without if that is better."""
    now = going_on(before)
    np.maximum(now._common, 0.0, out=now._common)
    return now


@cache
def peaks(change: Change, *, n_seen: int = 0) -> list[float]:
    """The largest log wealth against the first arm in each run, if every block begins an era, up to the price.

    Args:
        change: makes the wealth of an era from that of the era before.
        n_seen: first results of each arm; a block is given up if they speak against the leader.
    """
    found = []
    for seed in range(N_RUNS):
        rng, wealth, peak = np.random.default_rng(seed), Wealth(ARMS, delta=DELTA, noise_std=1.0), 0.0
        for _ in range(N_BLOCKS):
            rewards = rng.normal(size=(2, N_EACH))
            seen = rewards[:, :n_seen].sum(axis=1)
            if not seen[1] < seen[0]:
                wealth.settle(Block.of(PULLS, rewards.ravel(), BELIEVED, VARIANCE))
            peak = max(peak, float(wealth.log_rejection()[0]))
            if wealth.answer is not None:
                break
            wealth = change(wealth)
        found.append(peak)
    return found


def n_rejected(log_wealth: list[float], risk: float = DELTA) -> int:
    """In how many runs the first arm is rejected at a risk."""
    return sum(peak >= -np.log(risk) for peak in log_wealth)


def test_eras_that_keep_evidence_share_one_risk() -> None:
    """However often the study is reopened between blocks; not if each time the better of two starts is taken."""
    assert n_rejected(peaks(going_on)) <= most_of(DELTA) < n_rejected(peaks(forgiving))


@pytest.mark.parametrize("n_seen", [N_EACH // 2, N_EACH])
def test_a_block_that_began_is_not_given_up(n_seen: int) -> None:
    """Else those that would cost evidence could be left out: after a few results, or if all are known and none is told.

    So a study keeps its evidence after whole blocks alone, and while no ask is open.
    """
    assert n_rejected(peaks(going_on, n_seen=n_seen)) > most_of(DELTA)


@pytest.mark.parametrize("risk", [0.1, 0.2, 0.4])
def test_the_risk_of_a_chain_is_that_of_its_first_era(risk: float) -> None:
    """A wrong answer at any smaller risk, whichever is chosen and when, needs a wealth of 1/risk."""
    assert n_rejected(peaks(going_on), risk) <= most_of(risk) < n_rejected(peaks(forgiving), risk)


def test_candidates_that_are_new_start_at_one() -> None:
    """Others take their wealth with them under their new numbers."""
    before = Wealth(sp.FiniteArms(np.eye(3)), delta=0.05, noise_std=1.0)
    before._common[:] = [1.0, 5.0, -2.0]
    after = Wealth(sp.FiniteArms(np.eye(3)), delta=0.05, noise_std=1.0)
    after.go_on(before, np.array([2, 0, -1]))
    np.testing.assert_array_equal(after.log_rejection(), [-2.0, 1.0, 0.0])
    after.conclude()
    assert after.answer is None
    with_slack = EpsilonWealth(sp.FiniteArms(np.eye(3)), delta=0.05, noise_std=1.0, epsilon=0.1)
    with_slack.go_on(before, np.arange(3))
    np.testing.assert_array_equal(with_slack.log_wealth(0), [np.inf, 5.0, -2.0])


@pytest.mark.parametrize("kind", ["slack", "two best"])
def test_accounts_of_several_leaders_go_on_as_if_nothing_had_happened(kind: str) -> None:
    """With slack, and of the m best: seats, teams and what members keep."""

    def accounts() -> BaseWealth:
        arms = sp.FiniteArms(np.eye(4))
        if kind == "slack":
            return EpsilonWealth(arms, delta=0.05, noise_std=1.0, epsilon=0.2)
        return TopMWealth(arms, m=2, delta=0.05, noise_std=1.0)

    rng, sums, one, other = np.random.default_rng(1), np.zeros(4), accounts(), accounts()
    for k in range(1, 20):
        theta0, A0_inv = sums / k, np.eye(4) / k
        rewards = rng.normal(size=4)
        sums += rewards
        block = Block.of(np.eye(4), rewards, theta0, A0_inv)
        before, other = other, accounts()
        other.go_on(before, np.arange(4))
        other.conclude()
        one.settle(block)
        other.settle(block)
        leader = one.leading(theta0)
        np.testing.assert_array_equal(one.log_wealth(leader), other.log_wealth(leader))
        assert one.answer == other.answer
