"""Algorithms whose arms depend on no reward: G- and XY-allocation, the oracle, uniform sampling."""

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.algorithms import static
from surepick.algorithms.static import BATCHES, differences
from surepick.arms.finite import FiniteArms
from surepick.arms.views import whiten
from surepick.errors import InvalidInput, TiedArms
from surepick.learning.learner import Learner, create_learner
from surepick.sampling.fixed import LARGEST_TABLE, Drawn, FixedSampler, GreedyAllocation
from surepick.sampling.tracking import Tracker
from surepick.simulation import problems
from surepick.simulation.problems import Problem
from surepick.stopping import Betting
from surepick.types import Array
from tests.learning.lab import run
from tests.tasks import AnyLearner

STATIC = ("g-static", "xy-static", "uniform", "xy-oracle")


def learner_for(problem: Problem, name: str, **options: Any) -> Learner:
    """Return a learner; the oracle is told theta."""
    if name == "xy-oracle":
        options.setdefault("theta", problem.theta)
    return create_learner(name, problem.X, candidates=problem.candidates, **{"noise_std": 1.0} | options)


def asked(learner: Learner, sizes: list[int]) -> list[int]:
    """Ask in batches of these sizes, telling rewards that mean nothing."""
    rng, pulled = np.random.default_rng(len(sizes)), []
    for size in sizes:
        arms = learner.next_arms(size)
        pulled += arms
        for arm in arms:
            learner.tell(arm, float(rng.standard_normal()))
    return pulled


def best_by_force(rows: Array, directions: Array, A: Array) -> Array:
    """Return max over y of y'(A + aa')^-1 y for every arm a, by inverting each matrix."""
    return np.array(
        [np.einsum("ij,jk,ik->i", directions, np.linalg.inv(A + np.outer(a, a)), directions).max() for a in rows]
    )


@pytest.mark.parametrize("name", STATIC)
@pytest.mark.parametrize("variant", ["practical", "paper"])
def test_arms_depend_neither_on_rewards_nor_on_batches(name: str, variant: str) -> None:
    """Other rewards, and asks in batches of any size, give the same sequence of arms."""
    problem = problems.sphere(3, 12, seed=3)
    # A risk so small that no rewards end the run. Edition 2 shuffles blocks, unless one opens before an estimate.
    learners = [learner_for(problem, name, variant=variant, delta=1e-300, seed=5, edition=1) for _ in range(3)]
    one_by_one = asked(learners[0], [1] * 240)
    assert asked(learners[1], [7, 100, 1, 1, 31, 100]) == one_by_one
    assert asked(learners[2], [240]) == one_by_one


@pytest.mark.parametrize("name", STATIC)
@pytest.mark.parametrize("options", [{}, {"variant": "paper"}, {"stopping": "evidence", "elimination": True}])
def test_the_best_arm_is_found(name: str, options: dict[str, Any]) -> None:
    """On an easy problem every variant stops with the right answer, every time."""
    problem = problems.unit_basis([3.0, 0.0, 0.5])
    for seed in range(5):
        learner = learner_for(problem, name, **options)
        run(learner, problem, seed=seed)
        assert learner.decision.stopped
        assert learner.decision.best == problem.best


@pytest.mark.parametrize("name", STATIC)
def test_candidates_other_than_the_arms(name: str) -> None:
    """The best candidate is found though it cannot be pulled, also where the candidates span less than the arms."""
    tilted = problems.transductive(2)
    narrow = Problem(X=np.eye(3), theta=np.array([2.0, 0.0, 1.0]), candidates=np.eye(3)[:2], name="two of three")
    easy = Problem(X=tilted.X, theta=np.array([2.0, 0.0, -9.0, 0.0]), candidates=tilted.candidates, name="easy")
    for problem in (narrow, easy):
        for variant in ("practical", "paper"):
            learner = learner_for(problem, name, variant=variant)
            run(learner, problem, seed=1)
            assert learner.decision.stopped
            assert learner.decision.best == problem.best


@pytest.mark.parametrize("kind", ["arms", "differences"])
def test_the_greedy_allocation_agrees_with_brute_force(kind: str) -> None:
    """Each pull is a minimiser of max y'(A + aa')^-1 y; of several minimisers the one pulled least."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((9, 3)) * [1.0, 3.0, 0.3]
    arms = FiniteArms(X)
    directions = X if kind == "arms" else np.array([a - b for a, b in combinations(X, 2)])
    if kind == "differences":
        np.testing.assert_allclose(differences(arms), directions)
    source = GreedyAllocation(X, directions)
    A = np.zeros((3, 3))
    for arm in (0, 1, 2):
        source.note(arm)
        A += np.outer(X[arm], X[arm])
    # More pulls than between two refreshments of the inverse.
    for t in range(600):
        arm = source.next()
        if t < 100 or t > 500:
            worst = best_by_force(X, directions, A)
            assert worst[arm] <= worst.min() * (1.0 + 1e-6)
        A += np.outer(X[arm], X[arm])


def test_the_greedy_allocation_does_not_get_stuck_on_ties() -> None:
    """On the unit basis no single pull helps; arms pulled least come first, so counts stay within one."""
    arms = FiniteArms(np.eye(4))
    for directions in (np.eye(4), differences(arms)):
        source = GreedyAllocation(arms.X, directions)
        for arm in range(4):
            source.note(arm)
        counts = np.bincount([source.next() for _ in range(402)], minlength=4)
        assert counts.max() - counts.min() <= 1


def test_copies_give_no_differences() -> None:
    """Equal candidates need not be told apart."""
    np.testing.assert_array_equal(differences(FiniteArms([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])), [[1.0, -1.0]])


@pytest.mark.parametrize(
    ("name", "variant", "slack"),
    [("g-static", "practical", 0.03), ("g-static", "paper", 0.1), ("xy-static", "practical", 0.03)],
)
def test_the_pulls_approach_the_optimal_value(name: str, variant: str, slack: float) -> None:
    """After n pulls the largest n y'A^-1 y is near the certified optimum; the greedy allocation comes less close."""
    problem = problems.sphere(3, 15, seed=2)
    X, n = problem.X, 900
    learner = learner_for(problem, name, variant=variant, delta=1e-300)
    counts = np.bincount(asked(learner, [n]), minlength=15)
    directions = X if name == "g-static" else np.array([a - b for a, b in combinations(X, 2)])
    A = (X * counts[:, None]).T @ X
    reached = n * np.einsum("ij,jk,ik->i", directions, np.linalg.inv(A), directions).max()
    best = sp.optimal_design(X, directions, tol=1e-4).value
    assert best * (1.0 - 1e-3) <= reached <= best * (1.0 + slack)


def test_large_sets_are_tracked_and_not_tabulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit the paper variant follows the certified design, which has the same value."""
    problem = problems.sphere(3, 15, seed=2)
    for name, n_pairs in (("g-static", 15**2), ("xy-static", 15 * 105)):
        plain, pulls = learner_for(problem, name, delta=1e-300), []
        for limit in (n_pairs, n_pairs - 1):
            monkeypatch.setattr(static, "LARGEST_TABLE", limit)
            pulls.append(asked(learner_for(problem, name, variant="paper", delta=1e-300), [100]))
        assert pulls[0] != pulls[1] == asked(plain, [100])


def test_the_papers_threshold() -> None:
    """GLR against 8/2 log(6 n^2 K^2 / (pi^2 delta)) nats, whatever the noise; proved for these pulls."""
    problem = problems.unit_basis([1.0, 0.0, 0.0])
    learner = learner_for(problem, "xy-static", variant="paper", delta=0.1, noise_std=2.0)
    asked(learner, [10])
    decision = learner.decision
    assert decision.target == pytest.approx(4.0 * math.log(6.0 / math.pi**2 * 10**2 * 3**2 / 0.1))
    assert decision.guarantee == "proved"
    # What the docstring of the rule says about its risk at K = 2, the worst case.
    risk = sum((0.5 / (6.0 / math.pi**2 * n**2 * 4)) ** 4 for n in range(1, 50))
    assert risk <= 0.03 * 0.5**4


def test_failed_pulls_restart_the_starting_set() -> None:
    """If nothing of the starting set came back it is asked for again, and the run goes on."""
    problem = problems.unit_basis([2.0, 0.0, 0.0])
    for name in STATIC:
        learner = learner_for(problem, name)
        first = learner.next_arms(3)
        for arm in first:
            learner.fail(arm)
        assert learner.next_arms(3) == first
        for arm in first:
            learner.tell(arm, 0.1 * arm)
        run(learner, problem, seed=2)
        assert learner.decision.best == 0


def test_tracking_counts_the_starting_set() -> None:
    """The pulls of the start are part of the proportions: after n pulls no arm is off by more than the support."""
    white = whiten(FiniteArms(problems.sphere(3, 15, seed=2).X))
    design = white.design
    sampler = FixedSampler(design.support[:3], Tracker.of(design), rule=Betting(), least=3)
    counts = np.bincount([sampler.next() for _ in range(500)], minlength=15)[design.support]
    assert np.abs(counts - 500 * design.weights).max() <= len(design.support)


def test_draws_have_the_designs_frequencies() -> None:
    """Frequencies of 20,000 draws within five standard deviations of the weights."""
    design = whiten(FiniteArms(problems.sphere(3, 15, seed=2).X)).design
    source = Drawn(design.support, design.weights, np.random.default_rng(1))
    share = np.bincount([source.next() for _ in range(20_000)], minlength=15)[design.support] / 20_000
    assert (np.abs(share - design.weights) <= 5.0 * np.sqrt(design.weights / 20_000)).all()


def test_uniform_goes_through_all_arms_in_turn() -> None:
    """Paper: row after row from the first pull; practical: a spanning set before that."""
    problem = problems.soare(3)
    paper = learner_for(problem, "uniform", variant="paper", delta=1e-300)
    assert asked(paper, [10]) == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert paper.decision.rule == "heuristic"
    assert paper.decision.guarantee == "heuristic"
    practical = asked(learner_for(problem, "uniform", delta=1e-300), [11])
    assert np.linalg.matrix_rank(problem.X[practical[:3]]) == 3
    assert practical[3:] == [0, 1, 2, 3, 0, 1, 2, 3]


def test_the_oracle_follows_the_optimal_design() -> None:
    """Practical pulls have the proportions of T*, also when features are scaled and mixed."""
    problem, n = problems.soare(3, angle=0.5), 2000
    mix = np.array([[2.0, 1.0, 0.0], [0.0, 50.0, 0.0], [0.0, 3.0, 0.1]])
    design = sp.characteristic_time(problem.X, problem.theta, tol=1e-6)
    for X, theta in ((problem.X, problem.theta), (problem.X @ mix, np.linalg.solve(mix, problem.theta))):
        learner = AnyLearner("xy-oracle", X, theta=theta, delta=1e-300, noise_std=1.0)
        counts = np.bincount(asked(learner, [n]), minlength=4)
        A = (problem.X * counts[:, None]).T @ problem.X / n
        y = problem.X[0] - problem.X[1:]
        value = 2.0 * (np.einsum("ij,jk,ik->i", y, np.linalg.inv(A), y) / (y @ problem.theta) ** 2).max()
        assert value == pytest.approx(design.value, rel=0.02)


def test_the_published_oracle_tests_the_known_answer_after_each_batch() -> None:
    """Batches ceil(1.1^k), k = 1, 3, 5, ...; the k-th test compares the GLR with log(2 k^2 K / delta)."""
    assert BATCHES[:8] == tuple(math.ceil(1.1**k) for k in (1, 3, 5, 7, 9, 11, 13, 15))
    problem = problems.unit_basis([1.0, 0.0])
    learner = learner_for(problem, "xy-oracle", variant="paper", delta=0.05)
    rng, rewards, pulled = np.random.default_rng(4), [], []
    for j, size in enumerate(BATCHES):
        for arm in learner.next_arms(size):
            rewards.append(float(problem.theta[arm] + rng.standard_normal()))
            pulled.append(arm)
            assert not learner.stopped
            learner.tell(arm, rewards[-1])
        k, played = 2 * j + 1, np.array(pulled)
        N = np.bincount(played, minlength=2)
        gap = np.mean([r for r, a in zip(rewards, pulled, strict=True) if a == 0] or [0.0]) - np.mean(
            [r for r, a in zip(rewards, pulled, strict=True) if a == 1] or [0.0]
        )
        width = math.sqrt((1 / N[0] + 1 / N[1]) * 2.0 * math.log(2 * k**2 * 2 / 0.05)) if N.all() else math.inf
        assert learner.stopped == (gap >= width)
        if learner.stopped:
            break
    assert learner.decision.best == 0
    assert learner.decision.guarantee == "none"
    assert learner.decision.n_pulls == sum(BATCHES[: j + 1])


def test_the_published_oracle_reproduces_its_column() -> None:
    """K = 1000: 476 +- 41 pulls in 20 runs published; 449 +- 19 here in 60. Twelve runs within four standard errors."""
    runs = sp.simulate(
        lambda seed: problems.many_arms(1000, seed=seed),
        "xy-oracle",
        variant="paper",
        theta=[1.0, 0.0],
        n_runs=12,
        seed=1,
    )
    assert runs.n_errors == 0
    assert abs(runs.mean - 476.45) <= 4.0 * math.hypot(40.74, runs.se)


def test_the_oracle_refuses_what_it_cannot_use() -> None:
    """No theta, a theta of another length, a tie at the top, elimination with its own test."""
    problem = problems.unit_basis([1.0, 0.0])
    with pytest.raises(InvalidInput, match="needs `theta`"):
        create_learner("xy-oracle", problem.X, noise_std=1.0)
    with pytest.raises(InvalidInput, match="2 numbers"):
        AnyLearner("xy-oracle", problem.X, theta=[1.0, 0.0, 0.0], noise_std=1.0)
    with pytest.raises(TiedArms):
        AnyLearner("xy-oracle", problem.X, theta=[1.0, 1.0], noise_std=1.0)
    with pytest.raises(InvalidInput, match="elimination"):
        AnyLearner("xy-oracle", problem.X, theta=[1.0, 0.0], variant="paper", elimination=True, noise_std=1.0)


@pytest.mark.parametrize("name", STATIC)
def test_options_are_checked(name: str) -> None:
    """A variant or a rule that does not exist is named in the error."""
    problem = problems.unit_basis([1.0, 0.0])
    with pytest.raises(InvalidInput, match="variant"):
        learner_for(problem, name, variant="printed")
    with pytest.raises(InvalidInput, match="stopping"):
        learner_for(problem, name, stopping="never")
    with pytest.raises(InvalidInput, match="schedule"):
        learner_for(problem, name, schedule="sometimes")


def test_schedules_change_when_betting_decides_and_not_the_arms() -> None:
    """An iterator of times serves a replay as well; the arms are those of any other schedule."""
    problem = problems.soare(3, angle=0.6)
    # Edition 2 has another order within blocks.
    by_times = learner_for(problem, "g-static", schedule=iter([10, 30, 60, 120, 240, 480, 960]), edition=1)
    pulled = run(by_times, problem, seed=3)
    again = learner_for(problem, "g-static", schedule=[10, 30, 60, 120, 240, 480, 960])
    again.replay(by_times.log)
    by_times.replay(by_times.log)
    assert again.decision == by_times.decision
    usual = learner_for(problem, "g-static", delta=1e-300, edition=1)
    assert asked(usual, [len(pulled)]) == pulled


def test_the_limit_is_the_one_that_is_documented() -> None:
    """200,000 pairs: up to 447 arms for the G-allocation, up to 74 for all differences."""
    assert 447**2 <= LARGEST_TABLE < 448**2
    assert 74 * (74 * 73 // 2) <= LARGEST_TABLE < 75 * (75 * 74 // 2)


@pytest.mark.parametrize("name", ["g-static", "xy-static"])
def test_the_published_rule_does_not_vouch_for_unsolicited_results(name: str) -> None:
    """Its proof needs arms that depend on no reward, and nobody knows how such arms were chosen."""
    learner = create_learner(name, np.eye(2), variant="paper", noise_std=1.0)
    for arm in learner.next_arms(6):
        learner.tell(arm, 0.0)
    before, labels = learner.log, [learner.decision.guarantee]
    learner.tell(1, 0.3)
    labels.append(learner.decision.guarantee)
    learner.replay(before)
    labels.append(learner.decision.guarantee)
    assert labels == ["proved", "none", "proved"]
    betting = create_learner(name, np.eye(2), noise_std=1.0)
    betting.tell(1, 0.3)
    assert betting.decision.guarantee == "proved"


@pytest.mark.parametrize("name", ["g-static", "xy-static"])
def test_the_published_rule_decides_on_whole_prefixes_of_its_sequence(name: str) -> None:
    """Which of the asks came in first, and which were given up, may depend on rewards: it waits for the others."""
    learner = create_learner(name, np.eye(2), variant="paper", noise_std=1e-3)
    first, second, *rest = learner.next_arms(40)
    learner.fail(first)
    for arm in [second, *rest]:
        learner.tell(arm, float(arm == 0))
    assert not learner.stopped
    assert learner.next_arms() == [first]
    learner.tell(first, float(first == 0))
    assert learner.stopped


def test_earlier_results_chosen_from_rewards_void_the_published_rule() -> None:
    """Each arm is measured until it looks good: a valid history, which leads that rule astray."""
    rng, dim = np.random.default_rng(1), 300
    candidates = np.vstack([np.full(dim, 1.0 / dim), np.zeros(dim)])
    history = []
    for arm in range(dim):
        total = 0.0
        for n in range(1, 61):
            reward = float(rng.standard_normal()) - 1e-3
            history.append((arm, reward))
            total += reward
            if total > 1.2 * math.sqrt(n):
                break
    result = sp.identify(
        np.eye(dim), lambda _: 0.0, candidates=candidates, algorithm="g-static", variant="paper", history=history,
        max_pulls=1, noise_std=1.0,
    )  # fmt: skip
    assert (result.best, result.stopped, result.guarantee) == (0, True, "none")
