"""Intervals are made of a prefix in the order of asks: all results before the first ask that is still open."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.arms.views import as_rows
from surepick.core.evidence import Mixture, loss_bound
from surepick.learning.learner import Learner
from surepick.types import Array

X = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.7], [0.9, -0.3]])
THETA = np.array([0.5, 0.2])


def learner_of(**options: Any) -> Learner:
    """Return a learner of the betting rule."""
    given = {"algorithm": "uniform", "arms": X, "stopping": "betting", "noise_std": 1.0, "delta": 0.1, "seed": 4}
    return sp.create_learner(**{**given, **options})


class Messy:
    """A lab that tells out of order, gives asks up and adds unsolicited results, and knows which results count."""

    def __init__(self, learner: Learner, seed: int, looks: Callable[[Learner], object] = lambda _: None) -> None:
        self.learner, self.looks, self.rng = learner, looks, np.random.default_rng(seed)
        self.open: dict[int, int] = {}
        self.results: list[tuple[float, int, float]] = []
        """Place, arm and reward of every result: ask 3 has place 3, an unsolicited result between asks 2 and 3 2.5."""

    def round(self, n: int) -> None:
        """Ask for n arms and tell about as many results."""
        for ask in self.learner.next_asks(n):
            self.open[ask.number] = ask.arm
        for number in self.rng.permutation(list(self.open)).tolist():
            chance = self.rng.random()
            if chance < 0.5:
                self.tell(self.open.pop(number), number)
            elif chance < 0.6:
                self.learner.fail(self.open.pop(number), ask=number)
        if self.rng.random() < 0.4:
            self.tell(int(self.rng.integers(len(X))), None)
        self.looks(self.learner)

    def tell(self, arm: int, number: int | None) -> None:
        """Tell a result of an ask, or an unsolicited one."""
        reward = float(X[arm] @ THETA + self.rng.standard_normal())
        self.learner.tell(arm, reward, ask="none" if number is None else number)
        self.results.append((self.learner.n_asked - 0.5 if number is None else number, arm, reward))

    def expected(self, voids: tuple[int, ...] = ()) -> list[tuple[int, float]]:
        """Return arm and reward of all results before the first ask without one."""
        told = {place for place, _, _ in self.results}
        first = next((number for number in range(self.learner.n_asked) if number not in told), math.inf)
        kept = [one for number, one in enumerate(self.results) if number not in voids]
        return [(arm, reward) for place, arm, reward in sorted(kept, key=lambda one: one[0]) if place < first]


def fit_of(results: list[tuple[int, float]]) -> Array:
    """Return the least-squares fit of arms and rewards, computed by other means."""
    arms, rewards = zip(*results, strict=True)
    return np.linalg.lstsq(X[list(arms)], np.array(rewards), rcond=None)[0]


@pytest.mark.parametrize("seed", range(4))
def test_the_prefix_has_the_results_before_the_first_open_ask(seed: int) -> None:
    """Failed asks are open until they are made again and told; unsolicited results come after all asks before them."""
    learner = learner_of(schedule="periodic:12")
    lab, n_shorter = Messy(learner, seed), 0
    for _ in range(12):
        lab.round(6)
        expected = lab.expected()
        if len(expected) < 6:
            continue
        n_shorter += len(expected) < learner.estimate.n_pulls
        assert learner.reader.estimate.n_pulls == len(expected)
        result, fit = learner.result(), fit_of(expected)
        assert result.theta == pytest.approx(fit, rel=1e-9)
        assert result.arms.estimate == pytest.approx(X @ fit, rel=1e-9)
        assert (result.arms.low < result.arms.estimate).all()
        assert (result.arms.estimate < result.arms.high).all()
        assert result.noise_interval[0] <= result.noise_std <= result.noise_interval[1]
        assert result.n_pulls == sum(result.counts.values()) == len(lab.results)
        assert result.epsilon_bound == learner.epsilon_bound() == learner.snapshot.epsilon_bound
    assert n_shorter >= 5


def test_looks_replay_and_corrections_change_no_bit() -> None:
    """A learner that was looked at all the time, one that replays its log, and one with voids show what they must."""
    quiet, watched = (learner_of(schedule="periodic:12") for _ in range(2))
    lab, other = Messy(quiet, 7), Messy(watched, 7, lambda learner: learner.result())
    for _ in range(8):
        lab.round(6)
        other.round(6)
    assert len(lab.expected()) < len(lab.results)
    assert quiet.result() == watched.result()
    again = learner_of(schedule="periodic:12")
    again.replay(quiet.log)
    assert again.result() == quiet.result()
    numbers = [n for n, (place, *_) in enumerate(lab.results) if place < 10][:2]
    for n in numbers:
        quiet.void(n)
        watched.void(n)
    expected = lab.expected(tuple(numbers))
    assert quiet.reader.estimate.n_pulls == len(expected)
    assert quiet.result().theta == pytest.approx(fit_of(expected), rel=1e-9)
    lab.round(6)
    other.round(6)
    assert quiet.result() == watched.result()
    again.replay(quiet.log)
    assert again.result() == quiet.result()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"noise_std": None},
        {"stopping": "evidence"},
        {"algorithm": "xy-static"},
        {"algorithm": "rage", "stopping": None, "variant": "paper"},
    ],
)
def test_with_one_worker_nothing_is_left_out(options: dict[str, Any]) -> None:
    """The estimate of all results itself is used, so that no bit changes; batches told in order are as good."""
    learner, rng = learner_of(**options), np.random.default_rng(3)
    for n in (1, 1, 2, 5, 9, 30):
        for ask in learner.next_asks(n):
            learner.tell(ask.arm, float(X[ask.arm] @ THETA + rng.standard_normal()), ask=ask.number)
            assert learner.reader.estimate is learner.estimate
        learner.tell(1, 0.3, ask="none")
        assert learner.reader.estimate is learner.estimate


@pytest.mark.parametrize(("stopping", "is_short"), [("betting", True), ("evidence", False), ("paper-appendix", False)])
def test_rules_that_decide_after_every_pull_count_all_results(stopping: str, is_short: bool) -> None:
    """Their proofs need delays that ignore values, and so may what is shown beside them."""
    learner = learner_of(stopping=stopping)
    asks = learner.next_asks(30)
    for ask in [*asks[:20], *asks[21:]]:
        learner.tell(ask.arm, 0.1 * ask.number, ask=ask.number)
    assert learner.estimate.n_pulls == 29
    assert learner.reader.estimate.n_pulls == (20 if is_short else 29)


@pytest.mark.parametrize("noise_std", [1.0, None])
def test_no_intervals_before_the_prefix_spans(noise_std: float | None) -> None:
    """Estimates are of all results then, and everything can be shown, saved and explained."""
    learner = learner_of(noise_std=noise_std)
    asks = learner.next_asks(40)
    for ask in asks[1:]:
        learner.tell(ask.arm, float(X[ask.arm] @ THETA) + 0.01 * (ask.number % 3), ask=ask.number)
    result = learner.result()
    assert result.best is not None
    assert np.isfinite(result.arms.estimate).all()
    assert np.isinf(result.arms.high).all()
    assert result.theta == pytest.approx(learner.theta)
    assert (result.epsilon_bound, result.noise_interval) == (math.inf, (0.0, math.inf))
    assert sp.Result.from_dict(result.to_dict()) == result
    assert "Leader arm 2" in result.explain()
    standing = learner.snapshot
    assert (standing.epsilon_bound, standing.interval) == (math.inf, (-math.inf, math.inf))
    learner.tell(asks[0].arm, 0.5, ask=asks[0].number)
    assert learner.reader.estimate is learner.estimate
    assert np.isfinite(learner.result().arms.high).all()


def test_loss_bound_of_any_leader_is_the_largest_of_its_pairs() -> None:
    """Whether or not the leader has the largest estimate."""
    learner, rng = learner_of(), np.random.default_rng(5)
    for arm in [0, 1, 2, 3] * 8:
        learner.tell(arm, float(X[arm] @ THETA + rng.standard_normal()), ask="none")
    rows, estimate, mixture = as_rows(learner.candidates), learner.estimate, Mixture.default()
    white, at = rows.gather(range(len(X))), dict[str, Any](noise_std=1.0, delta=0.1)
    gaps = []
    for leader in range(len(X)):
        bounds = []
        for rival in set(range(len(X))) - {leader}:
            y = white[leader] - white[rival]
            q1, q2 = y @ estimate.A_inv @ y, y @ estimate.A_inv @ estimate.A_inv @ y
            bounds.append(loss_bound(y @ estimate.theta, q1, q2, mixture.logdets(estimate.A), mixture=mixture, **at))
            gaps.append(float(y @ estimate.theta))
        assert rows.largest_loss(leader, estimate, **at) == pytest.approx(max(0.0, *map(float, bounds)), rel=1e-9)
    assert min(gaps) < 0.0


def test_loss_bound_of_a_vector_that_does_not_lead() -> None:
    """It covers every corner of a cube: what the pair bounds of each arm with each other say, and no less."""
    learner = sp.create_learner("lazy-track-and-stop", sp.Hypercube(3), noise_std=0.5, delta=0.1, seed=2)
    theta, rng = np.array([0.4, -0.3, 0.2]), np.random.default_rng(8)
    for arm in learner.next_arms(40):
        learner.tell(arm, float(arm @ theta + 0.5 * rng.standard_normal()))
    view, estimate, mixture = learner.candidates, learner.estimate, Mixture.default()
    numbers = [view.number_of(np.array(corner)) for corner in product((-1.0, 1.0), repeat=3)]
    white, at = view.gather(numbers), dict[str, Any](noise_std=0.5, delta=0.1)
    own = view.best(estimate.theta)
    for leader, x in zip(numbers, white, strict=True):
        y = (x - white)[(x != white).any(axis=1)]
        q1, q2 = np.einsum("ij,jk,ik->i", y, estimate.A_inv, y), ((y @ estimate.A_inv) ** 2).sum(axis=1)
        pairs = loss_bound(y @ estimate.theta, q1, q2, mixture.logdets(estimate.A), mixture=mixture, **at)
        bound = view.largest_loss(leader, estimate, **at)
        assert bound >= max(0.0, float(pairs.max())) * (1.0 - 1e-9)
        assert leader == own or bound > view.largest_loss(own, estimate, **at)
