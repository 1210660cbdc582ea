"""Blocks in random order: readings that drift (Theorem 27), and noise of which nothing is known (Theorem 28)."""

import math
from collections.abc import Callable
from itertools import permutations
from typing import Any, Literal

import numpy as np
import pytest

import surepick as sp
from surepick.core.betting.bets import log_returns
from surepick.core.betting.rounds import PairDifferences, log_round_returns
from surepick.core.linalg import log_chi_mean
from surepick.learning.blocks import shuffled
from surepick.learning.model import DRIFTS, has_drift
from surepick.learning.noise_models import AnyNoise, Drifting, SubGaussian
from surepick.learning.settlement import without_levels
from surepick.study.certificate import verify
from surepick.types import Array
from tests.statistical.paths import DELTA, N_PATHS, error_limit

MEANS = np.array([1.2, 0.5, 0.0, -0.4])
WITH_ONES = np.column_stack([np.ones(6), np.arange(6.0), [0.0, 1.0, 0.0, 1.0, 1.0, 0.0]])
Shape = Callable[[Array], Array]


def slope(t: Array) -> Array:
    """A twentieth of the noise more from pull to pull."""
    return 0.05 * t


def every_other(t: Array) -> Array:
    """Every other reading is too high."""
    return 1.0 * (t % 2)


def steps(t: Array) -> Array:
    """Three standard deviations more after every 37 readings."""
    return 3.0 * (t // 37)


def run(shape: Shape, n: int = 3000, seed: int = 0, means: Array = MEANS, **options: Any) -> sp.Learner:
    """Measure arms with normal noise and a drift until the rule stops."""
    learner = sp.create_learner("lazy-track-and-stop", np.eye(len(means)), seed=seed, **options)
    rng = np.random.default_rng(seed)
    for t in range(n):
        if learner.stopped:
            break
        (arm,) = learner.next_arms()
        learner.tell(arm, float(means[arm] + shape(np.array(t)) + rng.standard_normal()))
    return learner


# ---- gates


Order = Literal["random", "sorted", "cycle"]


def n_rejected(shape: Shape, order: Order) -> int:
    """Paths on which one of two arms that tie is ever rejected, with the variance of the noise and of the drift."""
    rng, price, t = np.random.default_rng(17), -math.log(DELTA), 8
    counts, sums = np.full((N_PATHS, 2), 4.0), 2.0 * rng.standard_normal((N_PATHS, 2))
    L, is_rejected = np.zeros(N_PATHS), np.zeros(N_PATHS, dtype=bool)
    while t < 400:
        n = max(2, round(0.04 * t))
        drift = shape(np.arange(float(t), t + 2.0 * n))
        t += 2 * n
        arms = np.tile(np.repeat([0, 1], n) if order == "sorted" else np.tile([0, 1], n), (N_PATHS, 1))
        if order == "random":
            arms = rng.permuted(arms, axis=1)
        of_arms = np.stack([(arms == arm) @ drift for arm in (0, 1)], axis=1)
        said = of_arms + math.sqrt(n) * rng.standard_normal((N_PATHS, 2))
        means = sums / counts
        played = (means[:, 1] > means[:, 0]) & ~is_rejected
        z, m = said[played] @ [-1.0, 1.0] / n, means[played] @ [-1.0, 1.0]
        v = np.full(len(z), (1.0 + 0.5 * np.ptp(drift) ** 2) * 2.0 / n)
        L[played] += log_returns(z, v, m, (1.0 / counts[played]).sum(axis=1), price - L[played])
        is_rejected |= price <= L
        level = said.mean(axis=1, keepdims=True)  # what the readings of a block share is taken off
        counts, sums = counts + n, sums + said - level
    return int(is_rejected.sum())


def test_the_bet_of_student_has_no_proof_in_random_order() -> None:
    """Arms a, a, b, b without noise, a drift of (1, 1, 0, 0): the mean over all orders is 3.34 at a stake of 3."""
    drift, returned = np.array([1.0, 1.0, 0.0, 0.0]), list[float]()
    for order in set(permutations("aabb")):
        is_a = np.array(order) == "a"
        a, b = drift[is_a], drift[~is_a]
        w, R = a.mean() - b.mean(), ((a - a.mean()) ** 2).sum() + ((b - b.mean()) ** 2).sum()  # q = 1/2 + 1/2
        x = np.array([3.0 * w / math.sqrt(w * w + R)])
        returned.append(float(np.exp(log_chi_mean(3, np.ones(1), x)[0] - 4.5)))
    assert len(returned) == 6
    assert np.mean(returned) == pytest.approx(3.340739, abs=1e-5)


@pytest.mark.statistical
def test_a_drift_in_random_order_keeps_delta_and_the_gate_sees_other_orders() -> None:
    """At delta = 0.3; a rule that errs with probability delta exceeds the limit once in a million runs of the test."""
    for shape in (slope, every_other, steps):
        assert n_rejected(shape, "random") <= error_limit()
    assert n_rejected(slope, "sorted") > error_limit()
    assert n_rejected(every_other, "cycle") > error_limit()


def n_rejected_in_rounds(noise: Callable[[np.random.Generator, int], Array], *, is_random: bool = True) -> int:
    """Paths on which one of two arms that tie is ever rejected by rounds; `noise` draws the readings of a round."""
    rng, price = np.random.default_rng(18), -math.log(DELTA)
    S, Q, L, is_rejected = *np.zeros((3, N_PATHS)), np.zeros(N_PATHS, dtype=bool)
    for n in range(150):
        e = noise(rng, n)
        z = e[:, 1] - e[:, 0]
        if is_random:
            z *= rng.choice([-1.0, 1.0], N_PATHS)
        played = (S > 0.0) & ~is_rejected
        number = np.full(int(played.sum()), float(n))
        L[played] += log_round_returns(z[played], S[played], Q[played], number, price - L[played])
        is_rejected |= price <= L
        S, Q = S + z, Q + z * z
    return int(is_rejected.sum())


def skewed(rng: np.random.Generator, _: int) -> Array:
    """Exponential noise."""
    return rng.exponential(size=(N_PATHS, 2))


def wild(rng: np.random.Generator, _: int) -> Array:
    """Heavy tails, without a variance."""
    return rng.standard_t(2, size=(N_PATHS, 2))


def rising(rng: np.random.Generator, n: int) -> Array:
    """Normal noise, and the second reading of a round is higher."""
    return rng.standard_normal((N_PATHS, 2)) + [0.0, 0.5] + 3.0 * math.sin(n / 10.0)


@pytest.mark.statistical
def test_rounds_keep_delta_whatever_the_noise_and_the_gate_sees_a_fixed_order() -> None:
    """At delta = 0.3, with the limit above; readings that rise within a round need the random order."""
    found = [n_rejected_in_rounds(noise) for noise in (skewed, wild, rising)]
    assert min(found) > 0
    assert max(found) <= error_limit()
    assert n_rejected_in_rounds(rising, is_random=False) > error_limit()


# ---- drift


def test_a_drift_adds_half_its_square_to_the_variance() -> None:
    """Bets, and nothing else, know it; the noise keeps its scale."""
    learner = sp.create_learner("lazy-track-and-stop", WITH_ONES, noise_std=0.8, drift=0.6)
    assert learner.noise_std == pytest.approx(math.sqrt(0.64 + 0.18))
    assert learner.noise_model == Drifting(0.8, 0.6) != SubGaussian(0.8)
    assert "drift=0.6" in learner.identity
    drawn = learner.noise_model.draw(np.random.default_rng(0), np.zeros(4000), np.zeros(4000, dtype=np.int64))
    assert float(drawn.std()) == pytest.approx(0.8, rel=0.1)


@pytest.mark.parametrize("shape", [slope, every_other, steps])
def test_readings_that_drift_lead_to_an_answer(shape: Shape) -> None:
    """It is proved, and the watch on the model is silent."""
    learner = run(shape, noise_std=1.0, drift=3.0)
    assert (learner.stopped, learner.decision.best, learner.decision.guarantee) == (True, 0, "proved")
    result = learner.result()
    assert not np.isfinite(result.arms.low).any()
    said = result.explain()
    assert "of standard deviation 1, and readings drift by at most 3 within a block" in said
    assert sp.Learner("lazy-track-and-stop", np.eye(4), noise_std=1.0, drift=3.0).spec.drift == 3.0


def test_labels_that_follow_the_drift_withdraw_nothing() -> None:
    """Where readings drift, the second half of a block reads high: no group is called high, and the table shows it."""
    learner = sp.create_learner("lazy-track-and-stop", np.eye(4), noise_std=1.0, drift=3.0)
    rng, n = np.random.default_rng(2), 0
    means = np.array([0.25, 0.0, 0.0, 0.0])
    while n < 1500 and not learner.stopped:
        part = ("morning", "noon")[n // 8 % 2]
        for ask in learner.next_asks(8, group=part):
            learner.tell(ask.arm, float(means[ask.arm] + 3.0 * (part == "noon") + rng.normal()), ask=ask.number)
            n += 1
    assert learner.snapshot.model_check != "contradicted"
    assert len(learner.snapshot.groups) == 2


def test_a_drift_that_was_not_given_is_named() -> None:
    """The words say what to do, with known noise."""
    learner = run(slope, n=400, noise_std=1.0)
    assert learner.decision.guarantee == "withdrawn"
    assert learner.reader.misfit == DRIFTS
    said = learner.result().explain()
    assert "readings drift over time" in said
    assert "Repeat" not in said
    t, rng = iter(range(1000)), np.random.default_rng(0)
    with pytest.warns(sp.NoiseWarning, match="Readings drift over time"):
        sp.identify(np.eye(4), lambda _: 0.05 * next(t) + float(rng.standard_normal()), noise_std=1.0, max_pulls=300)


def test_a_slip_or_a_bent_mean_is_no_drift() -> None:
    """Only what differs between blocks is: false about once in a million looks."""
    rng, arms = np.random.default_rng(0), np.tile(np.arange(5.0), 40)
    blocks, rewards = np.repeat(np.arange(20.0), 10), rng.standard_normal(200) + arms**2
    assert not has_drift(arms, blocks, rewards)
    assert not has_drift(arms, blocks, rewards + 200.0 * (np.arange(200) == 77))
    assert has_drift(arms, blocks, rewards + 0.2 * blocks)
    assert not has_drift(arms[:5], blocks[:5], rewards[:5])
    assert not has_drift(arms, blocks, np.zeros(200))
    assert not has_drift(arms, blocks, (rng.random(200) < 0.3).astype(np.float64))


def test_levels_of_blocks_are_taken_off_exactly() -> None:
    """Beside a fit of all rewards, whatever arms a block has; rewards without a block have the newest level."""
    rng = np.random.default_rng(1)
    X = WITH_ONES[rng.integers(6, size=60)]
    blocks = np.sort(rng.integers(1, 6, size=60))
    exact = X @ [2.0, 0.5, -1.0]
    np.testing.assert_allclose(without_levels(X, blocks, exact + 10.0 * blocks**2) - exact, 10.0, atol=1e-9)
    open_ones = np.where(np.arange(60) < 50, np.minimum(blocks, 4), 0)
    given = exact + np.where(open_ones > 0, open_ones, 4) ** 2
    np.testing.assert_allclose(without_levels(X, open_ones, given) - exact, 1.0, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"drift": -0.1, "noise_std": 1.0}, "`drift` must be a number of at least 0"),
        ({"drift": 0.3}, "`drift` needs the scale of the noise"),
        ({"drift": 0.3, "noise_std": [1.0] * 6}, "`drift` needs the scale of the noise"),
        ({"drift": 0.3, "reward_range": (0, 1)}, "`drift` needs the scale of the noise"),
        ({"drift": 0.3, "noise_std": 1.0, "stopping": "evidence"}, 'use "betting"'),
        ({"drift": 0.3, "noise_std": 1.0, "misfit": 0.1}, "`misfit` must be 0 beside `drift`"),
        ({"drift": 0.3, "noise_std": 1.0, "variant": "paper", "stopping": "betting"}, "random order"),
        ({"drift": 0.3, "noise_std": 1.0, "edition": 1}, "random order"),
        ({"drift": 0.3, "noise_std": 1.0, "arms": WITH_ONES[:, 1:]}, "add a column of ones"),
        ({"drift": 0.3, "noise_std": 1.0, "candidates": WITH_ONES[:3]}, "beside `candidates`"),
        ({"drift": 0.3, "noise_std": 1.0, "arms": sp.Sphere(3), "epsilon": 0.1}, "`drift` must be 0 for"),
        ({"noise": "any", "noise_std": 1.0}, "leave out `noise_std`"),
        ({"noise": "any", "budget": 40}, "`budget` is not supported"),
        ({"noise": "any", "costs": np.arange(1.0, 7.0)}, "`costs` are not supported"),
        ({"noise": "any", "candidates": WITH_ONES[:3]}, "without other candidates"),
        ({"noise": "any", "arms": sp.Sphere(3), "epsilon": 0.1}, "for a list"),
        ({"noise": "any", "stopping": "evidence"}, "has no proof"),
        ({"noise": "any", "edition": 1}, "random order"),
        ({"noise": "any", "misfit": 0.1}, "`misfit` must be 0"),
        ({"noise": "any", "arms": np.eye(301)}, "at most 300 arms"),
    ],
)
def test_what_has_no_proof_is_refused(options: dict[str, Any], why: str) -> None:
    """With a sentence that says what to do."""
    with pytest.raises(sp.InvalidInput, match=why.replace("(", r"\(")):
        sp.create_learner("lazy-track-and-stop", options.pop("arms", WITH_ONES), **options)


# ---- any noise


def test_a_round_by_hand() -> None:
    """One point of six: 1 + tanh(D z/sqrt(u)), a wild result counts as one standard deviation, and early none do."""
    z = np.array([0.7, 1e12, -1e12, 0.7, 0.7])
    sums, squares = np.array([2.0, 2.0, 2.0, 2.0, 0.0]), np.array([8.0, 8.0, 8.0, 8.0, 0.0])
    found = log_round_returns(z, sums, squares, np.array([8.0, 8.0, 8.0, 3.0, 8.0]), np.full(5, 3.0))
    assert 0.0 < found[0] < math.log1p(math.tanh(0.7))
    assert found[1] == pytest.approx(math.log1p(math.tanh(1.0)))
    assert found[2] == pytest.approx(math.log1p(-math.tanh(1.0)))
    assert found[3] == found[4] == 0.0


def test_bets_of_a_round_know_the_earlier_rounds_of_their_pair() -> None:
    """Sums, squares and numbers of rounds in which both arms were, by the product with y alone."""
    record, X = PairDifferences(4), 2.0 * np.eye(4)
    rewards = np.array([[1.0, 0.5, 0.0, 3.0], [2.0, 0.0, 1.0, 9.0]])
    record.add(np.array([2, 0, 1, 3]), rewards[0])
    record.add(np.array([0, 1, 2]), rewards[1, :3])
    here = np.array([1, 2, 0])
    bets: Any = record.bets_on(here, X[here])(None, type("Said", (), {"theta": np.zeros(4)}))  # type: ignore[arg-type]
    S, Q, n = (float((X[0] - X[1]) @ v) for v in bets.of_leader(0))
    assert (S, Q, n) == (0.5 + 2.0, 0.25 + 4.0, 2.0)
    assert [float((X[3] - X[1]) @ v) for v in bets.of_leader(3)] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("features", [np.eye(4), np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.5, 0.5]])])
def test_any_noise_takes_turns_and_ignores_the_features(features: Array) -> None:
    """Every arm that is left once in each round, and the answer is the arm that pays best."""
    learner = sp.create_learner("lazy-track-and-stop", features, noise="any")
    rng, rounds = np.random.default_rng(3), list[list[int]]()
    while not learner.stopped:
        (arm,) = learner.next_arms()
        if learner.state.ledger.n_opened > len(rounds):
            rounds.append([])
        rounds[-1].append(arm)
        learner.tell(arm, float(MEANS[arm] + rng.standard_t(2) + 5.0 * math.sin(len(learner.history) / 9.0)))
    assert (learner.decision.best, learner.decision.guarantee) == (0, "proved")
    assert all(len(set(one)) == len(one) for one in rounds)
    assert [len(one) for one in rounds] == sorted([len(one) for one in rounds], reverse=True)
    assert len(rounds[0]) == 4 > len(rounds[-1])
    assert len({tuple(one) for one in rounds[:20]}) > 5
    said = learner.result().explain()
    assert "does not depend on the arm, whatever its law and however it drifts" in said
    assert "linear" not in said


def test_any_noise_takes_corrections_failures_batches_and_replays() -> None:
    """The end is that of the same log; a void result takes its arm out of the round."""
    learner, rng = (
        sp.create_learner("lazy-track-and-stop", np.eye(4), noise="any", delta=1e-4),
        np.random.default_rng(3),
    )
    for _ in range(12):
        asks = learner.next_asks(5)
        learner.fail(asks[0].arm, ask=asks[0].number)
        for ask in asks[1:]:
            learner.tell(ask.arm, float(MEANS[ask.arm] + rng.standard_normal()), ask=ask.number)
    learner.void(5)
    learner.correct(9, 0.25)
    learner.tell(2, 0.3, ask="none")
    again = sp.create_learner("lazy-track-and-stop", np.eye(4), noise="any", delta=1e-4)
    again.replay(learner.log)
    assert again.decision == learner.decision
    assert learner.decision.evidence != 0.0
    with pytest.raises(sp.InvalidInput, match="`audit` has no proof"):
        sp.identify(np.eye(4), lambda _: 0.0, noise="any", audit=3)


def test_rounded_readings_and_readings_of_0_and_1_are_no_trouble_for_rounds() -> None:
    """Nothing is withdrawn, and nothing warned of."""
    rng = np.random.default_rng(3)
    result = sp.identify(np.eye(4), lambda arm: float(rng.random() < 0.3 + 0.5 * (arm == 1)), noise="any")
    assert (result.best, result.guarantee, result.coarseness) == (1, "proved", 0.0)


def test_studies_keep_both() -> None:
    """The log spells them, a certificate agrees, and results are told apart by slack and by several winners too."""
    for options in (
        {"noise": "any"},
        {"noise_std": 1.0, "drift": 0.5},
        {"noise": "any", "m": 2},
        {"noise": AnyNoise()},
    ):
        with sp.create_study("s", arms=WITH_ONES, storage="memory:", **options) as study:
            rng = np.random.default_rng(2)
            for _ in range(60):
                for ask in [] if study.stopped else study.ask(3):
                    study.tell(ask.id, float(ask.features[1] + rng.standard_normal()))
            assert verify(study.certificate(), study.rows()).problems == []
            assert study.state.learner.decision.evidence > 0.0


def test_pairs_stay_together_where_groups_have_offsets() -> None:
    """A pair that is torn apart by the end of a group tells nothing; pairs, and the arms of a pair, change places."""
    orders = [shuffled([*range(9)], seed, 40, in_pairs=True) for seed in range(200)]
    for order in orders:
        places = {arm: place for place, arm in enumerate(order)}
        assert all(abs(places[arm] - places[arm + 1]) == 1 for arm in (0, 2, 4, 6))
    firsts = {order[0] for order in orders}
    # A place is missed by 200 draws with probability at most 9 (9/10)^200 < 1e-8.
    assert firsts == {*range(9)}
