"""Track-and-Stop without structure: its formulas are those of linear arms on a basis, and its tracking as published."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import zeta

import surepick as sp
from surepick.algorithms.track_and_stop import at_least, optimal_proportions
from surepick.core.thresholds import PairsThreshold, gaussian_price
from surepick.errors import InvalidInput
from surepick.learning.learner import create_learner
from surepick.simulation import problems
from surepick.simulation.problems import Problem
from tests.learning.lab import run
from tests.tasks import AnyLearner

SKEW = np.array([[1.0, 0.2, 0.0], [0.0, 40.0, 0.3], [0.5, 0.0, 0.1]])


@pytest.mark.parametrize("seed", range(6))
def test_optimal_proportions_are_those_of_linear_arms_on_a_basis(seed: int) -> None:
    """Weights and T* = (1 + sum x)/y agree with the certified design; T* also in other coordinates."""
    rng = np.random.default_rng(seed)
    means = rng.standard_normal(rng.integers(2, 9))
    leader = int(np.argmax(means))
    w = optimal_proportions(means[leader] - means, leader)
    design = sp.characteristic_time(np.eye(len(means)), means, tol=1e-9)
    np.testing.assert_allclose(w[design.support], design.weights, atol=1e-4)
    rivals = np.arange(len(means)) != leader
    value = 2.0 * ((1.0 / w[leader] + 1.0 / w[rivals]) / (means[leader] - means[rivals]) ** 2).max()
    assert value == pytest.approx(design.value, rel=1e-8)
    # All alternatives are equally hard at the optimum, and the squares of the ratios add up to one.
    assert ((w[rivals] / w[leader]) ** 2).sum() == pytest.approx(1.0)


def test_optimal_proportions_in_closed_form_and_at_the_edges() -> None:
    """Equal gaps: 1/(1 + sqrt(K - 1)) for the best; two arms: halves; ties share; ruled out arms get nothing."""
    w = optimal_proportions(np.array([0.3, 0.0, 0.3, 0.3, 0.3]), 1)
    assert w[1] == pytest.approx(1.0 / 3.0)
    np.testing.assert_allclose(optimal_proportions(np.array([0.0, 1e-9]), 0), [0.5, 0.5])
    np.testing.assert_allclose(optimal_proportions(np.array([0.0, 0.0, 2.0]), 0), [0.5, 0.5, 0.0])
    np.testing.assert_allclose(optimal_proportions(np.array([0.0, math.inf, 2.0]), 0), [0.5, 0.0, 0.5])
    np.testing.assert_allclose(optimal_proportions(np.array([math.inf, 0.0]), 1), [0.0, 1.0])
    # Gaps of very different size neither overflow nor divide by zero.
    w = optimal_proportions(np.array([0.0, 1e-150, 1.0, 1e150]), 0)
    np.testing.assert_allclose(w, [0.5, 0.5, 0.0, 0.0], atol=1e-12)


def test_the_projection_is_nearest_in_the_largest_coordinate() -> None:
    """Nothing below the floor, sum one, and no point of the set is closer; found by brute force for three arms."""
    grid = [np.array([a, b, 60 - a - b]) / 60.0 for a in range(61) for b in range(61 - a)]
    for w in (np.array([0.9, 0.1, 0.0]), np.array([0.5, 0.5, 0.0]), np.array([1.0, 0.0, 0.0]), np.full(3, 1.0 / 3.0)):
        floor = 0.1
        nearest = at_least(w, floor)
        assert nearest.min() >= floor - 1e-15
        assert nearest.sum() == pytest.approx(1.0)
        closest = min(np.abs(point - w).max() for point in grid if point.min() >= floor - 1e-12)
        assert np.abs(nearest - w).max() <= closest + 1e-12
    np.testing.assert_allclose(at_least(np.array([0.6, 0.4]), 0.1), [0.6, 0.4])


def test_the_proved_threshold() -> None:
    """2 C(log((K - 1)/delta)/2) + 4 log(4 + log(t/2)), C by a fine grid; C(x) is about x + log x."""
    grid = np.linspace(0.5, 1.0, 200_001)[1:-1]
    for x in (0.0, 0.7, 3.0, 30.0):
        values = 2 * grid - 2 * grid * np.log(4 * grid) + np.log(zeta(2 * grid)) - 0.5 * np.log(1 - grid) + x
        assert gaussian_price(x) == pytest.approx((values / grid).min(), rel=1e-9)
    assert gaussian_price(1000.0) == pytest.approx(1000.0 + math.log(1000.0), rel=5e-3)
    threshold = PairsThreshold(n_arms=5)
    expected = 2 * gaussian_price(0.5 * math.log(4 / 0.05)) + 4 * math.log(4 + math.log(np.array([10, 500])[1] / 2))
    got = threshold(n_pulls=[10, 500], dim=5, logdet=0.0, delta=0.05, noise_std=3.0)
    assert got[1] == pytest.approx(9.0 * expected)
    assert got[0] < got[1]


@pytest.mark.parametrize("tracking", ["C", "D"])
def test_the_statistic_is_the_classical_one(tracking: str) -> None:
    """In any coordinates: smallest gap^2 / (2 (1/N + 1/N')) against the threshold, checked after every pull."""
    means = np.array([1.0, 0.0, 0.4])
    learner = AnyLearner("track-and-stop", SKEW, variant="paper", tracking=tracking, delta=0.1, noise_std=1.0, seed=3)
    rng, rewards = np.random.default_rng(6), [[], [], []]  # type: ignore[var-annotated]
    while not learner.stopped:
        arm = learner.next_arms()[0]
        rewards[arm].append(float(means[arm] + rng.standard_normal()))
        learner.tell(arm, rewards[arm][-1])
        if min(map(len, rewards)) == 0:
            continue
        N, average = np.array([len(r) for r in rewards]), np.array([np.mean(r) for r in rewards])
        best = int(np.argmax(average))
        ratios = (average[best] - average) ** 2 / (2.0 * (1.0 / N[best] + 1.0 / N))
        statistic = np.delete(ratios, best).min()
        limit = float(PairsThreshold(n_arms=3)(n_pulls=N.sum(), dim=3, logdet=0.0, delta=0.1, noise_std=1.0))
        assert learner.stopped == (statistic > limit)
    decision = learner.decision
    assert decision.evidence == pytest.approx(statistic)
    assert decision.target == pytest.approx(limit)
    assert decision.rule == "gaussian-pairs"
    assert decision.guarantee == "published"
    assert decision.best == 0


def test_coordinates_do_not_matter() -> None:
    """The same rewards give the same arms on the basis and on three skew arms."""
    means = np.array([1.0, 0.0, 0.4])
    basis = Problem(X=np.eye(3), theta=means, name="basis")
    skew = Problem(X=SKEW, theta=np.linalg.solve(SKEW, means), name="skew")
    for options in ({}, {"variant": "paper"}):
        first = run(create_learner("track-and-stop", basis.X, **{"noise_std": 1.0} | options), basis, seed=2)  # type: ignore[arg-type]
        second = run(create_learner("track-and-stop", skew.X, **{"noise_std": 1.0} | options), skew, seed=2)  # type: ignore[arg-type]
        assert first == second


def test_d_tracking_explores_as_published() -> None:
    """After t pulls every arm has at least sqrt(t) - K/2 - 1 of them, whatever is estimated."""
    problem = problems.unit_basis([5.0, 4.0, -30.0, -40.0])
    learner = create_learner("track-and-stop", problem.X, variant="paper", delta=1e-300, noise_std=1.0)
    pulled = run(learner, problem, seed=1, most=1500)
    counts = np.zeros(4)
    for t, arm in enumerate(pulled, start=1):
        counts[arm] += 1
        assert counts.min() >= math.sqrt(t) - 2.0 - 1.0
    # The two hopeless arms get exploration only: their share of the optimal plan is below a thousandth.
    assert counts[2:].max() <= math.sqrt(1500) + 1


def test_c_tracking_follows_the_sum_of_plans() -> None:
    """Counts end near the optimal proportions raised to the floor, and exploration is at least its sum."""
    problem = problems.unit_basis([1.0, 0.5, 0.0, -5.0])
    learner = create_learner("track-and-stop", problem.X, delta=1e-300, noise_std=1.0)
    pulled = run(learner, problem, seed=1, most=1500)
    counts = np.bincount(pulled, minlength=4)
    floors = sum(0.5 / math.sqrt(16 + s) for s in range(4, 1500))
    assert counts.min() >= floors - 4
    best = optimal_proportions(1.0 - problem.theta, 0)
    assert np.abs(counts / 1500 - best).max() <= 0.06


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tracking": "D"},
        {"variant": "paper"},
        {"variant": "paper", "tracking": "C"},
        {"stopping": "betting"},
        {"stopping": "evidence", "elimination": True},
        {"variant": "paper", "elimination": True},
        {"stopping": "heuristic", "schedule": "geometric:1.2"},
    ],
)
def test_the_best_arm_is_found(options: dict[str, Any]) -> None:
    """All variants, and all of them again from the log, whole and in part."""
    problem = problems.unit_basis([2.0, 0.5, 1.0, 0.0])
    for seed in range(2):
        learner = create_learner("track-and-stop", problem.X, **{"noise_std": 1.0} | options)
        run(learner, problem, seed=seed, most=20)
        middle = learner.log
        run(learner, problem, seed=seed)
        assert learner.decision.stopped
        assert learner.decision.best == 0
        again = create_learner("track-and-stop", problem.X, **{"noise_std": 1.0} | options)
        again.replay(learner.log)
        assert again.decision == learner.decision
        pulls = learner.decision.n_pulls
        learner.replay(middle)
        run(learner, problem, seed=seed)
        assert learner.decision.best == 0
        assert pulls > 20 or learner.decision.n_pulls == pulls


@pytest.mark.parametrize(("tracking", "batch"), [("D", [1] * 9 + [0, 1, 0]), ("C", [1] + [0, 1] * 5 + [0])])
def test_a_batch_makes_up_for_what_was_told_is_pending_and_failed(tracking: str, batch: list[int]) -> None:
    """Two arms are always due equally: D-tracking evens out told and pending, C-tracking what came after its plan."""
    learner = AnyLearner("track-and-stop", np.eye(2), delta=1e-9, tracking=tracking, noise_std=1.0)
    assert learner.next_arms(2) == [0, 1]
    learner.tell(0, 1.0)
    assert learner.next_arms(8) == [0, 1] * 4
    for arm in [1] + [0] * 12:  # eight more results of arm 0 than were asked for
        learner.tell(arm, 1.0 - arm)
    learner.fail(1)
    # Arm 0: 13 told. Arm 1: one told, three pending, one that failed and is made again first. Hence eight, then turns.
    assert learner.next_arms(12) == batch


def test_ruled_out_arms_are_only_explored() -> None:
    """Under elimination the plan forgets an arm once it is refuted."""
    problem = problems.unit_basis([0.1, 0.0, -3.0])
    options: dict[str, Any] = {"stopping": "evidence", "elimination": True, "tracking": "D", "delta": 1e-3}
    learner = create_learner("track-and-stop", problem.X, **{"noise_std": 1.0} | options)
    counts = np.bincount(run(learner, problem, seed=1, most=2000), minlength=3)
    assert counts[2] <= math.sqrt(2000) + 1


def test_what_it_is_not_for_is_refused() -> None:
    """More arms than features, candidates, and options that do not exist."""
    with pytest.raises(InvalidInput, match="lazy-track-and-stop"):
        create_learner("track-and-stop", problems.soare(3).X, noise_std=1.0)
    with pytest.raises(InvalidInput, match="lazy-track-and-stop"):
        create_learner("track-and-stop", np.eye(3), candidates=np.eye(3)[:2], noise_std=1.0)
    with pytest.raises(InvalidInput, match="tracking"):
        AnyLearner("track-and-stop", np.eye(3), tracking="averaged", noise_std=1.0)
    with pytest.raises(InvalidInput, match="variant"):
        AnyLearner("track-and-stop", np.eye(3), variant="printed", noise_std=1.0)
    with pytest.raises(InvalidInput, match="pairwise"):
        create_learner("track-and-stop", np.eye(3), elimination=True, noise_std=1.0)
