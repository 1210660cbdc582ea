"""Where things stand: intervals of leads, p-values, survivors, and help in near ties."""

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import surepick as sp
from surepick.arms.finite import FiniteArms
from surepick.core.betting.block import Block
from surepick.core.betting.wealth import Wealth
from surepick.learning.reader import beside_rival
from surepick.learning.snapshot import Snapshot
from tests.statistical.paths import is_settled

X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.4, 0.4, 0.1], [0.3, 0.2, 0.4]])
THETA, TIE = np.array([1.0, 0.6, 0.2]), np.array([1.0, 0.999, 0.2])


def run(n: int | None = None, arms: Any = X, theta: Any = THETA, noise: float = 0.3, **options: Any) -> sp.Result:
    """Return what n pulls with Gaussian noise say."""
    rng = np.random.default_rng(3)
    rows = np.asarray(arms)
    return sp.identify(arms, lambda arm: rows[arm] @ theta + noise * rng.standard_normal(), max_pulls=n, **options)


@pytest.mark.parametrize("options", [{"noise_std": 0.3}, {}, {"noise_std": 0.3, "stopping": "evidence"}])
def test_rival_is_who_may_be_furthest_ahead(options: dict[str, Any]) -> None:
    """The lower end of the interval of the lead is what the leader can be losing at most, by the same mixture."""
    result = run(90, theta=TIE, seed=1, **options)
    assert not result.stopped
    assert result.rival != result.best
    assert -result.interval[0] == pytest.approx(result.epsilon_bound, rel=1e-9)
    estimate = result.arms.estimate
    assert result.lead == estimate[result.best] - estimate[result.rival] >= 0.0


def test_the_runner_up_is_second_by_estimate_though_it_is_excluded() -> None:
    """An arm that is excluded stays second; a near tie is with an arm that is left."""
    learner = sp.create_learner("lazy-track-and-stop", np.eye(3), noise_std=0.1)
    for n in range(12):
        for ask in learner.next_asks(1):
            learner.tell(ask.arm, (1.0, 0.99, 0.98)[ask.arm] + 0.01 * (-1) ** n, ask=ask.number)
    reader = learner.reader
    left = replace(reader.snapshot, survivors=np.array([0, 2]), remaining=1e4)
    assert left.best == 0
    beside = beside_rival(left, reader.compared)
    assert (beside["rival"], beside["near_tie"].rival) == (1, 2)
    assert beside["lead"] == pytest.approx(0.01, abs=0.009)
    alone = beside_rival(replace(left, survivors=np.array([0])), reader.compared)
    assert alone == {name: value for name, value in beside.items() if name != "near_tie"}


def test_the_runner_up_may_be_ahead_by_estimate_while_a_block_is_open() -> None:
    """Else "ahead by 0.5" stands beside "best with about 45 %": the candidate in front would be passed over."""
    rng, learner = np.random.default_rng(3), sp.create_learner("lazy-track-and-stop", np.eye(3), epsilon=0.1)
    for _ in range(8):
        arm = learner.next_arms(1)[0]
        learner.tell(arm, [0.0, 0.05, -0.2][arm] + rng.standard_normal())
    result = learner.result()
    estimate = result.arms.estimate
    assert not result.stopped
    assert (result.best, result.rival) == (2, int(np.argmax(estimate))) == (2, 0)
    assert result.lead == estimate[2] - estimate[0] < 0.0
    assert "Leader arm 2; by estimate arm 0 is ahead of it by 0.03 (likely " in result.explain()


def test_live_and_final_standing_agree() -> None:
    """What `on_pull` sees last is what the result says."""
    seen = []
    result = run(40, theta=TIE, noise_std=0.3, on_pull=lambda progress: seen.append(progress.snapshot))
    for name in (one.name for one in fields(Snapshot)):
        assert repr(getattr(seen[-1], name)) == repr(getattr(result, name)), name
    assert [standing.n_pulls for standing in seen] == list(range(1, 41))


@pytest.mark.parametrize(
    ("options", "has_one"),
    [
        ({}, True),
        ({"noise_std": 0.3}, True),
        ({"noise_std": 0.3, "epsilon": 0.05}, True),
        ({"noise_std": 0.3, "stopping": "evidence"}, True),
        ({"stopping": "evidence"}, False),
        ({"noise_std": 0.3, "stopping": "heuristic"}, False),
        ({"noise_std": 0.3, "algorithm": "rage", "variant": "paper"}, False),
    ],
)
def test_p_value_where_evidence_is_an_e_value(options: dict[str, Any], has_one: bool) -> None:
    """It is at most delta once stopped, at most 1 before, and NaN where evidence is something else."""
    stopped, begun = run(**options), run(12, **options)
    if not has_one:
        assert math.isnan(stopped.p_value)
        assert math.isnan(begun.p_value)
        return
    assert stopped.p_value == pytest.approx(math.exp(-stopped.evidence))
    assert stopped.p_value <= stopped.delta
    assert begun.p_value == min(1.0, math.exp(-begun.evidence))


def test_survivors() -> None:
    """All at first, fewer on the way, the answer with its copies at the end; other rules exclude nobody on the way."""
    arms = np.vstack([X, X[0]])
    assert run(2, arms).survivors.tolist() == list(range(6))  # type: ignore[union-attr]
    halfway, end = run(120, arms, TIE, noise_std=0.3), run(arms=arms, noise_std=0.3)
    assert halfway.survivors is not None
    assert end.survivors is not None
    assert {0, 5} <= set(halfway.survivors.tolist()) < set(range(6))  # a copy fares as the other does
    assert end.survivors.tolist() == [0, 5]
    assert len(run(40, arms, TIE, noise_std=0.3, stopping="evidence").survivors) == 6  # type: ignore[arg-type]
    assert sp.identify(sp.Sphere(2), lambda x: float(x[0]), epsilon=0.1, noise_std=0.1).survivors is None


def test_nothing_is_claimed_after_a_withdrawal() -> None:
    """No p-value, no interval, and everybody survives, although bets have excluded some."""
    with pytest.warns(sp.NoiseWarning):
        result = run(300, noise=3.0, noise_std=0.3)
    assert result.guarantee == "withdrawn"
    assert math.isnan(result.p_value)
    assert result.survivors is not None
    assert result.survivors.tolist() == list(range(5))
    assert result.theta_margin is not None
    assert np.isinf(result.theta_margin).all()
    assert result.rival is None
    columns = result.to_columns()
    assert np.isinf(columns["behind_high"][np.arange(5) != result.best]).all()


@pytest.mark.statistical
def test_survivors_hold_the_best_and_small_p_values_are_rare() -> None:
    """Two arms that nearly tie, ten blocks, 300 runs: the best is excluded, or doubted with p <= 0.2, seldom enough.

    The limit is a binomial quantile: if the claims hold the test fails with probability below 2e-6. Bets that take the
    noise for a tenth of what it is lose the best far more often, and the same limit catches them. Runs that could no
    longer change the verdict are not made.
    """
    n_runs, n_each, delta = 300, 5, 0.2
    limit = stats.binom.ppf(1 - 1e-6, n_runs, delta)
    rows, arms, both = np.repeat(np.eye(2), n_each, axis=0), np.repeat([0, 1], n_each), FiniteArms(np.eye(2))

    def lost(noise_std: float) -> tuple[int, int]:
        n_excluded = n_doubted = 0
        for seed in range(n_runs):
            rewards = rows @ [0.01, 0.0] + np.random.default_rng(seed).standard_normal((10, 2 * n_each))
            wealth, is_doubted, k = Wealth(both, delta=delta, noise_std=noise_std), False, 1
            while k < 10 and wealth.answer is None:
                theta0 = rewards[:k].reshape(-1, 2, n_each).mean(axis=(0, 2))
                wealth.settle(Block.of(rows, rewards[k], theta0, np.eye(2) / (k * n_each), None, arms))
                leader, k = wealth.leading(theta0), k + 1
                is_doubted |= leader == 1 and math.exp(-wealth.log_wealth(1).min()) <= delta
            n_excluded += not wealth.survivors(leader)[0]
            n_doubted += is_doubted
            if all(is_settled(n, seed + 1, n_runs, limit) for n in (n_excluded, n_doubted)):
                break
        return n_excluded, n_doubted

    assert max(lost(1.0)) <= limit < min(lost(0.1))


def test_near_tie_proposes_an_epsilon_that_keeps_its_promise() -> None:
    """After about as many pulls as were promised the leader is known to lose at most the epsilon."""
    half_way = run(200, theta=TIE, noise_std=0.3)
    near = half_way.near_tie
    assert near is not None
    assert near.rival in (0, 1)
    assert half_way.epsilon_bound > near.epsilon
    assert f"with epsilon = {near.epsilon:g} about {near.pulls} more pulls" in half_way.explain()
    later = run(200 + 2 * near.pulls, theta=TIE, noise_std=0.3)
    assert later.epsilon_bound <= near.epsilon
    assert run(8, noise_std=0.3).near_tie is None


def test_no_epsilon_is_proposed_that_would_take_as_long() -> None:
    """The end is far without one, and an epsilon of all there is to lose would hardly bring it nearer."""
    rows = np.random.default_rng(1).uniform(size=(10, 4))
    result = run(60, rows, theta=np.full(4, 0.1), noise=1.0)
    assert result.remaining > 3 * 60
    assert result.near_tie is None


def test_path_and_plan_are_kept() -> None:
    """Evidence over pulls ends at the verdict; the shares of the plan sum to 1 and are close to what was pulled."""
    result = run(noise_std=0.3)
    assert result.path[-1] == (result.n_pulls, result.evidence, result.target)
    assert [n for n, _, _ in result.path] == sorted({n for n, _, _ in result.path})
    assert sum(result.planned.values()) == pytest.approx(1.0)
    assert all(abs(result.counts.get(arm, 0) - result.n_pulls * s) <= 5 for arm, s in result.planned.items())
    again = sp.Result.from_dict(result.to_dict())
    assert again == result
    assert (again.path, again.planned) == (result.path, result.planned)


def test_coefficients_have_intervals_that_do_not_depend_on_units() -> None:
    """A feature in other units has another coefficient, and an interval in those units; names come along."""
    one = run(60, noise_std=0.3)
    frame_of = sp.FiniteArms(X * [1.0, 100.0, 1.0])
    rng = np.random.default_rng(3)
    other = sp.identify(frame_of, lambda arm: X[arm] @ THETA + 0.3 * rng.standard_normal(), max_pulls=60, noise_std=0.3)
    assert one.theta_margin is not None
    assert other.theta_margin is not None
    np.testing.assert_allclose(other.theta_margin * [1.0, 100.0, 1.0], one.theta_margin, rtol=1e-4)
    # A coefficient is the mean of the arm that has this feature alone.
    np.testing.assert_allclose(one.theta_margin, (one.arms.high - one.arms.estimate)[:3], rtol=1e-9)
    assert one.feature_names == ("x0", "x1", "x2")
