"""Bounded rewards and clicks: what is taken in, what is refused, what a unit returns, and how few pulls it needs."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.arms.views import ScaledArms
from surepick.core.betting import bounded
from surepick.core.betting.bets import shrunk_belief
from surepick.core.betting.block import Block
from surepick.core.betting.bounded import (
    BoundedBlock,
    capital_weights,
    largest_loss,
    log_capital,
    nodes,
    rate_variances,
)
from surepick.errors import InvalidInput
from surepick.learning.learner import Learner
from surepick.types import Array
from tests.tasks import interval_of

FACTORIAL = np.array([[1.0, *levels] for levels in itertools.product([-1.0, 1.0], repeat=3)])
RATES = FACTORIAL @ [0.35, 0.12, 0.1, 0.08]


CLICKS: list[dict[str, Any]] = [{"rewards": "binary"}, {"noise_std": 0.5}]
HALF: list[dict[str, Any]] = [{"reward_range": (-3, 7)}, {"noise_std": 5.0}]


def learner_for(arms: Any = FACTORIAL, **options: Any) -> Learner:
    """The default algorithm."""
    return sp.create_learner("lazy-track-and-stop", arms, **options)


def play(learner: Learner, rates: Array, *, seed: int = 0, lo: float = 0.0, hi: float = 1.0) -> Learner:
    """Let arms pay lo or hi, until the rule stops."""
    rng = np.random.default_rng(seed)
    while not learner.stopped:
        for arm in interval_of(learner):
            learner.tell(arm, hi if rng.random() < rates[arm] else lo)
    return learner


@pytest.mark.parametrize("value", [1.0001, -0.0001, 3, math.nan])
def test_a_reward_outside_the_range_is_refused_and_not_recorded(value: float) -> None:
    """Nothing of the learner changes: it goes on as if the value had never come."""
    learner = learner_for(reward_range=(0, 1))
    arm = learner.next_arms()[0]
    log = learner.log
    with pytest.raises(InvalidInput, match="`reward` must be"):
        learner.tell(arm, value)
    assert learner.log == log
    assert learner.estimate.n_pulls == 0
    learner.tell(arm, 1)
    assert learner.estimate.n_pulls == 1


def test_identify_stops_at_a_reward_outside_the_range_and_keeps_the_rest() -> None:
    """What was learnt before is in the error, without the value."""
    rewards = iter([0.2, 0.9, 7.0])
    with pytest.raises(sp.PullFailed, match="must be between 0 and 1") as caught:
        sp.identify(np.eye(2), lambda _: next(rewards), reward_range=(0, 1))
    assert [reward for _, reward in caught.value.result.history] == [0.2, 0.9]


def test_binary_rewards_may_be_booleans_and_nothing_between() -> None:
    """True is 1; .5 is no click; without `rewards` a boolean is no number."""
    rng = np.random.default_rng(3)
    result = sp.identify(
        np.eye(3), lambda arm: bool(rng.random() < [0.9, 0.5, 0.1][arm]), rewards="binary", history=[(0, True)]
    )
    assert result.best == 0
    assert result.stopped
    assert {reward for _, reward in result.history} == {0.0, 1.0}
    assert result.reward_range == (0.0, 1.0)
    learner = learner_for(rewards="binary")
    learner.tell(0, np.True_)  # type: ignore[arg-type]  # what comparisons of arrays give
    with pytest.raises(InvalidInput, match="must be 0 or 1"):
        learner.tell(0, 0.5)
    with pytest.raises(InvalidInput, match="one measured number"):
        learner_for(reward_range=(0, 1)).tell(0, reward=True)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"reward_range": (0, 1), "noise_std": 0.5}, "`noise_std` must be left out"),
        ({"rewards": "binary", "noise_std": 0.5}, "`noise_std` must be left out"),
        ({"rewards": "binary", "reward_range": (0, 1)}, "`reward_range` must be left out"),
        ({"rewards": "clicks"}, '`rewards` must be "binary"'),
        ({"reward_range": (1, 0)}, "lo < hi"),
        ({"reward_range": (0, math.inf)}, "finite"),
        ({"reward_range": "01"}, "smallest and the largest"),
        ({"reward_range": (0, 1, 2)}, "smallest and the largest"),
        ({"reward_range": (1e12, 1e12 + 1)}, "another zero"),
    ],
)
def test_what_does_not_go_together_is_refused_in_words(options: dict[str, Any], text: str) -> None:
    """Before anything is measured."""
    with pytest.raises(InvalidInput, match=text):
        learner_for(**options)


def test_other_rules_take_half_the_range_for_the_noise() -> None:
    """The evidence rule decides as with noise_std = (hi - lo)/2, which is proved, and samplers plan with it."""
    for name in ("lazy-track-and-stop", "lingame"):
        one, other = (
            play(
                sp.create_learner(name, np.eye(3), stopping="evidence", **options),
                np.array([0.9, 0.4, 0.1]),
                lo=-3.0,
                hi=7.0,
            )
            for options in HALF
        )
        assert list(one.history) == list(other.history)


@pytest.mark.parametrize(("lo", "hi"), [(0.0, 1.0), (-3.0, 7.0)])
def test_the_books_are_those_of_the_capital_bet(lo: float, hi: float) -> None:
    """From the log alone, result by result in the user's features: the smallest wealth is the evidence shown."""
    learner = learner_for(FACTORIAL, reward_range=(lo, hi))
    rng, wealth, n_bets = np.random.default_rng(5), np.zeros(8), 0
    past: list[tuple[int, float]] = []
    while not learner.stopped:
        own = [(arm, hi if rng.random() < RATES[arm] else lo) for arm in interval_of(learner)]
        for arm, reward in own:
            learner.tell(arm, reward)
        if len({arm for arm, _ in past}) >= 4:
            leader, gains = _gains(learner, past, own, wealth, lo, hi)
            wealth[gains != 0.0] += gains[gains != 0.0]
            others = np.delete(wealth, leader)
            n_bets += 1
            assert learner.stopped == bool((others >= math.log(20.0)).all())
            if learner.decision.best == leader and not learner.decision.stopped:
                assert learner.decision.evidence == pytest.approx(others.min(), abs=1e-8)
        past += own
    assert n_bets > 10
    assert learner.decision.best == 7


def _gains(learner: Learner, past: list[Any], own: list[Any], wealth: Array, lo: float, hi: float) -> tuple[int, Array]:
    white = learner.measured_arms.gather(np.arange(8))
    X, r = white[[arm for arm, _ in past]], np.array([reward for _, reward in past])
    A: Array = X.T @ X
    theta: Array = np.linalg.solve(A, X.T @ r)
    alive = wealth < math.log(20.0)
    leader = int(np.argmax(np.where(alive, white @ theta, -np.inf)))
    rivals = np.flatnonzero(alive & (np.arange(8) != leader))
    Y = white[leader] - white[rivals]
    X, r = white[[arm for arm, _ in own]], np.array([reward for _, reward in own])
    level: Array = np.linalg.solve(white.T @ white, white.sum(axis=0))  # exact: the features have a constant
    v = rate_variances(X @ theta, sum(reward for _, reward in past), len(past), lo=lo, hi=hi)
    c, centres = capital_weights(Y, X, np.ones(len(r)), v), np.clip(X @ theta, lo, hi)
    variance = (c * c) @ v
    belief = shrunk_belief(theta, np.linalg.inv(A).astype(np.float64), math.sqrt(v.mean()), level)
    m = np.minimum(np.maximum(Y @ belief.mean, 0.0), np.sqrt(2.0 * variance * (math.log(20.0) - wealth[rivals])))
    s2 = ((Y @ belief.root) ** 2).sum(axis=1)
    lam = nodes(m, s2, variance, largest_loss(c, centres, lo=lo, hi=hi))
    gains = np.zeros(8)
    measured = np.abs(c @ X - Y).max(axis=1) < 1e-9  # the others are not bet on
    gains[rivals] = np.where(measured, log_capital(c, lam, r, centres, np.ones(len(r)), bounds=(lo, hi)), 0.0)
    return leader, gains


def _block(rewards: Array) -> Block:
    X = np.repeat(np.eye(3), len(rewards) // 3, axis=0)
    return Block.of(X, rewards, np.array([0.5, 0.4, 0.3]), np.eye(3) / 20)


def test_many_different_rewards_pay_a_little_less_on_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels lower what is paid, whatever the signs of the weights, and by little; two values stay as they are."""
    rng = np.random.default_rng(2)
    one, candidates = np.ones(2), np.array([[1.0, -1.0, 0.0], [0.2, 0.8, -1.0]])

    def paid(rewards: Array, n_levels: int) -> Array:
        monkeypatch.setattr(bounded, "LEVELS", n_levels)
        block = BoundedBlock(_block(rewards), level=np.ones(3), bounds=(0.0, 1.0))
        products = np.array([candidates @ u for u in block.vectors])
        return block.log_returns(products, one, 0.1 * one, 0.01 * one, 3.0 * one)

    for _ in range(20):
        rewards = rng.beta(2.0, 3.0, 300)
        loss = paid(rewards, 300) - paid(rewards, 32)
        assert ((loss >= 0.0) & (loss < 0.05)).all()
        clicks = (rewards < 0.3).astype(float)
        np.testing.assert_allclose(paid(clicks, 300), paid(clicks, 2), rtol=1e-12)
    monkeypatch.setattr(bounded, "WEIGHTS", 1)
    np.testing.assert_allclose(paid(clicks, 32), paid(clicks, 2), rtol=1e-12)


def test_units_do_not_matter() -> None:
    """Rewards of 0 or 8 are asked for and judged as those of 0 or 1; a power of two rounds as they do."""
    unit = play(learner_for(reward_range=(0, 1)), RATES)
    eight = play(learner_for(reward_range=(0, 8)), RATES, hi=8.0)
    assert [arm for arm, _ in unit.history] == [arm for arm, _ in eight.history]


def test_designs_see_noisy_arms_as_short_ones() -> None:
    """A view in which rows have factors answers every oracle as the scaled rows themselves."""
    X = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6], [0.6, 0.6]])
    scaled = ScaledArms(sp.FiniteArms(X), lambda _, rows: 3.0 - 2.0 * rows[:, 0] ** 2)
    plain = sp.FiniteArms(X * (3.0 - 2.0 * X[:, :1] ** 2))
    np.testing.assert_allclose(scaled.gather([0, 1, 2, 3]), plain.X)
    assert scaled.copies(3).tolist() == [2, 3]
    one, other = (sp.optimal_design(arms, np.eye(2)) for arms in (scaled, plain))
    assert one.value == pytest.approx(other.value, rel=1e-9)


def test_slack_is_paid_for_in_fewer_pulls() -> None:
    """With epsilon near-ties stop, and an answer within it is right."""
    rates = np.array([0.5, 0.49, 0.2])
    learner = play(learner_for(np.eye(3), rewards="binary", epsilon=0.2), rates)
    assert learner.decision.best in (0, 1)
    assert learner.estimate.n_pulls < 2000


def test_rare_clicks_need_a_fraction_of_what_bounds_alone_would() -> None:
    """Rates of 2 and 10 %: at least three times fewer pulls than noise_std = 1/2, over a few seeds."""
    known, half = (
        [
            play(learner_for(np.eye(3), **options), np.array([0.1, 0.02, 0.02]), seed=seed).estimate.n_pulls
            for seed in range(3)
        ]
        for options in CLICKS
    )
    assert 3 * sum(known) < sum(half)


def test_a_replayed_log_and_a_saved_result_know_their_range(tmp_path: Any) -> None:
    """The log of a learner with other bounds is refused."""
    learner = play(learner_for(np.eye(3), rewards="binary"), np.array([0.9, 0.5, 0.2]))
    again = learner_for(np.eye(3), reward_range=(0, 1))
    again.replay(learner.log)
    assert again.decision == learner.decision
    with pytest.raises(InvalidInput, match="reward_range"):
        learner_for(np.eye(3), reward_range=(0, 2)).replay(learner.log)
    result = learner.result()
    result.save(tmp_path / "result.json")
    assert sp.Result.load(tmp_path / "result.json") == result
    assert "rewards lie between 0 and 1" in result.explain()
    assert "noise_std" not in result.explain()
