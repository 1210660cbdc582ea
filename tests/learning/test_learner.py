"""The learner as a fold over its log: batches, delays, failures, unsolicited results, replay."""

import math
from typing import Any

import numpy as np
import pytest

from surepick.algorithms import names as algorithms
from surepick.arms.finite import FiniteArms
from surepick.errors import InvalidInput, NotEnoughData
from surepick.learning.learner import Learner, create_learner
from surepick.simulation import problems
from surepick.simulation.problems import Problem

RULES = ["betting", "evidence", "paper-appendix"]


def started(problem: Problem, **options: object) -> Learner:
    """A learner on a problem's arms."""
    settings = {"noise_std": problem.noise_std, "candidates": problem.candidates, **options}
    return create_learner("lazy-track-and-stop", problem.X, **{"noise_std": 1.0} | settings)


def rewards(problem: Problem, seed: int) -> "Noise":
    """Rewards that depend only on (seed, number of the ask): the same noise whatever the batches."""
    return Noise(problem, seed)


class Noise:
    """The n-th ask's reward is its mean plus the n-th noise."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self.means = problem.X @ problem.theta
        self.noise = problem.noise_std * np.random.default_rng(seed).standard_normal(200_000)

    def __call__(self, arm: int, number: int) -> float:
        """Return the reward of ask `number` of this arm."""
        return float(self.means[arm] + self.noise[number])


def finished(learner: Learner, noise: Noise, *, batch: int = 1, most: int = 50_000) -> list[int]:
    """Ask in batches and tell in order until the learner stops; return the arms told."""
    told: list[int] = []
    while not learner.stopped and len(told) < most:
        for arm in learner.next_arms(batch):
            learner.tell(arm, noise(arm, len(told)))
            told.append(arm)
            if learner.stopped:
                break
    return told


@pytest.mark.parametrize("rule", [*RULES, "paper-main", "paper-remark", "heuristic"])
def test_every_stopping_rule_finds_the_best_arm_of_an_easy_problem(rule: str) -> None:
    """With clear gaps each rule stops with the right answer and says which rule decided."""
    problem = problems.random_linear(seed=3) if rule == "betting" else problems.unit_basis([2.0, 0.0, 0.0])
    learner = started(problem, stopping=rule)
    finished(learner, rewards(problem, 1))
    decision = learner.decision
    assert decision.stopped
    assert decision.best == problem.best
    assert decision.rule == rule
    assert decision.guarantee == ("heuristic" if rule == "heuristic" else "proved")
    assert learner.expected_remaining() == 0.0


def test_the_pairwise_rule_works_on_as_many_arms_as_features() -> None:
    """K = d: the pairwise rule stops with the best arm."""
    problem = problems.unit_basis([1.0, 0.2, 0.0])
    learner = started(problem, stopping="pairwise")
    finished(learner, rewards(problem, 2))
    assert learner.decision.best == 0
    assert learner.decision.rule == "pairwise"


@pytest.mark.parametrize("rule", RULES)
def test_replaying_the_log_gives_the_same_state_bit_for_bit(rule: str) -> None:
    """Same log, same estimate, same decision, same next arm; also with batches, failures and unsolicited results."""
    problem = problems.sphere(4, 30, seed=5)
    learner, noise = started(problem, stopping=rule, delta=1e-6), rewards(problem, 6)
    rng = np.random.default_rng(7)
    for step in range(60):
        arms = learner.next_arms(int(rng.integers(1, 5)))
        rng.shuffle(arms)
        for arm in arms:
            if rng.random() < 0.1:
                learner.fail(arm)
            elif rng.random() < 0.8:
                learner.tell(arm, noise(arm, step))
        if rng.random() < 0.2:
            learner.tell(int(rng.integers(30)), float(rng.standard_normal()))
    again = started(problem, stopping=rule, delta=1e-6)
    again.replay(learner.log)
    assert again.log == learner.log
    np.testing.assert_array_equal(again.estimate.A, learner.estimate.A)
    np.testing.assert_array_equal(again.estimate.theta, learner.estimate.theta)
    assert again.decision == learner.decision
    assert again.next_arms(20) == learner.next_arms(20)


@pytest.mark.parametrize("log", [None, 5, "ask", [("tell", 0)], [("ask",)], [("bogus", 0)], [5], [("fail", 0)]])
def test_a_log_that_cannot_be_gone_through_changes_nothing(log: Any) -> None:
    """Whatever is wrong with it, in words, and the learner is as it was."""
    problem = problems.sphere(3, 20, seed=8)
    learner, noise = started(problem), rewards(problem, 9)
    for number in range(12):
        learner.tell(learner.next_arms()[0], noise(0, number))
    before = learner.log
    with pytest.raises(InvalidInput):
        learner.replay(log)
    assert learner.log == before
    assert learner.estimate.n_pulls == 12


def test_a_log_of_another_learner_is_refused() -> None:
    """Other arms of the same shape, another risk, other options, or no word of whose it is."""
    problem, other = problems.sphere(3, 20, seed=8), problems.sphere(3, 20, seed=9)
    learner = started(problem)
    learner.tell(learner.next_arms()[0], 0.5)
    for stranger in (started(other), started(problem, delta=0.01), started(problem, schedule="periodic:9")):
        with pytest.raises(InvalidInput, match="same arms and options"):
            stranger.replay(learner.log)
        assert stranger.estimate.n_pulls == 0
    with pytest.raises(InvalidInput, match="begin with"):
        started(problem).replay(learner.log[1:])
    started(problem).replay(learner.log)


def test_a_log_whose_asks_are_not_the_learners_is_refused() -> None:
    """Arms swapped by hand, or written by a version that planned otherwise."""
    learner = started(problems.sphere(3, 20, seed=8))
    first, *rest = learner.next_arms(3)
    with pytest.raises(InvalidInput, match=r"event 1 .* asked for"):
        learner.replay([learner.log[0], ("ask", ((first + 1) % 20, *rest))])
    assert sum(learner.pending.values()) == 3


@pytest.mark.parametrize("rule", RULES)
def test_batches_within_an_interval_are_exact(rule: str) -> None:
    """Asking for several arms at once gives the arms that single asks would have given, until the next update."""
    problem = problems.sphere(3, 25, seed=10)
    noise = rewards(problem, 11)
    single, batched = (started(problem, stopping=rule, delta=1e-8, schedule="periodic:12") for _ in range(2))
    for start in range(0, 240, 12):
        arms = []
        for number in range(start, start + 12):
            arms.append(single.next_arms()[0])
            single.tell(arms[-1], noise(arms[-1], number))
        assert batched.next_arms(12) == arms
        for number, arm in enumerate(arms, start=start):
            batched.tell(arm, noise(arm, number))
    np.testing.assert_array_equal(single.estimate.A, batched.estimate.A)
    assert single.decision == batched.decision


def test_a_batch_always_has_the_size_asked_for() -> None:
    """However large the batch and however many results are pending, n arms come back and all of them count."""
    problem = problems.sphere(3, 25, seed=12)
    learner = started(problem)
    first, second = learner.next_arms(50), learner.next_arms(7)
    assert len(first) == 50
    assert len(second) == 7
    assert sum(learner.pending.values()) == 57
    noise = rewards(problem, 13)
    for number, arm in enumerate([*second, *first]):
        learner.tell(arm, noise(arm, number))
    assert sum(learner.pending.values()) == 0
    assert learner.estimate.n_pulls == 57


def test_bets_settle_only_when_every_ask_of_the_interval_is_answered() -> None:
    """Until then the decision stands still; a failed ask counts as answered."""
    problem = problems.unit_basis([5.0, 0.0, 0.0])
    learner, noise = started(problem, schedule="periodic:20"), rewards(problem, 14)
    for interval in range(2):
        arms = learner.next_arms(20)
        before = learner.decision
        for number, arm in enumerate(arms[:-1]):
            learner.tell(arm, noise(arm, 20 * interval + number))
            assert learner.decision.evidence == before.evidence
            assert not learner.stopped
        learner.fail(arms[-1])
        assert not learner.stopped
        assert learner.next_arms() == [arms[-1]]
        learner.tell(arms[-1], noise(arms[-1], 20 * interval + 19))
    assert learner.stopped
    assert learner.decision.best == 0


def test_a_result_of_an_arm_with_a_failed_ask_leaves_none_behind() -> None:
    """It answers the oldest ask, the failed one; what is made again then is the ask that the result came of."""
    learner = started(problems.unit_basis([5.0, 0.0]), schedule="periodic:6")
    lost, *_ = learner.next_arms()
    learner.fail(lost)
    for _ in range(6):
        learner.tell(learner.next_arms()[0], 1.0)
        assert sum(learner.pending.values()) == 0
    assert learner.n_planned == 0
    (late, *_), again = learner.next_asks(4), learner.estimate.n_pulls
    learner.fail(late.arm, ask=late.number)
    learner.tell(late.arm, 1.0, ask=late.number)  # it came after all: nothing is made again
    assert (sum(learner.pending.values()), learner.estimate.n_pulls) == (3, again + 1)
    assert late.number not in [ask.number for ask in learner.next_asks(4)]
    with pytest.raises(InvalidInput, match="has its result already"):
        learner.tell(late.arm, 1.0, ask=late.number)
    with pytest.raises(InvalidInput, match="never made"):
        learner.tell(0, 1.0, ask=99)


def test_unsolicited_results_inform_the_estimate_but_not_the_bets() -> None:
    """Results nobody asked for change theta; without an answered interval the betting rule cannot stop."""
    problem = problems.unit_basis([5.0, 0.0])
    learner, noise = started(problem), rewards(problem, 15)
    for number in range(500):
        learner.tell(number % 2, noise(number % 2, number))
    assert not learner.stopped
    assert learner.decision.best == 0
    assert learner.theta[0] == pytest.approx(5.0, abs=0.5)
    finished(learner, Noise(problem, 16), most=200)
    assert learner.stopped


def test_candidates_other_than_the_arms_are_compared() -> None:
    """The answer is a row of the candidates."""
    problem = problems.transductive(3)
    learner = started(problem)
    finished(learner, rewards(problem, 17))
    assert learner.decision.best == problem.best


def test_duplicate_arms_are_one_arm() -> None:
    """Copies of the best arm do not keep the learner from stopping, and the answer is the lowest row number."""
    problem = problems.unit_basis([1.5, 0.0, 0.0])
    learner = create_learner("lazy-track-and-stop", np.repeat(problem.X, 3, axis=0), noise_std=1.0)
    noise = np.random.default_rng(18)
    while not learner.stopped:
        arm = learner.next_arms()[0]
        learner.tell(arm, float(problem.theta[arm // 3] + noise.standard_normal()))
    assert learner.decision.best == 0


@pytest.mark.parametrize("condition", [1e3, 1e7])
def test_pulls_do_not_depend_on_the_units_or_the_mixture_of_features(condition: float) -> None:
    """A linear map of the features, given the same noise, changes no pull and no decision."""
    problem = problems.sphere(4, 40, seed=19)
    rng = np.random.default_rng(20)
    left, right = (np.linalg.qr(rng.standard_normal((4, 4)))[0] for _ in range(2))
    mapped = left @ np.diag(np.geomspace(1.0, 1.0 / condition, 4)) @ right
    noise = rewards(problem, 21)
    plain = finished(create_learner("lazy-track-and-stop", problem.X, delta=0.01, noise_std=1.0), noise)
    scaled = finished(
        create_learner("lazy-track-and-stop", problem.X * [1e4, 1.0, 1e-3, 7.0], delta=0.01, noise_std=1.0), noise
    )
    mixed = finished(create_learner("lazy-track-and-stop", problem.X @ mapped, delta=0.01, noise_std=1.0), noise)
    assert plain == scaled == mixed


def test_the_epsilon_bound_shrinks_and_covers_the_loss() -> None:
    """Infinite before the arms span, then a bound on what the leader loses that pulls make smaller."""
    problem = problems.sphere(3, 20, seed=22)
    learner, noise = started(problem, delta=1e-9), rewards(problem, 23)
    assert learner.epsilon_bound() == math.inf
    bounds = []
    for number in range(3000):
        arm = learner.next_arms()[0]
        learner.tell(arm, noise(arm, number))
        if number in (100, 1000, 2999):
            best = learner.decision.best
            assert best is not None
            assert problem.gaps[best] <= learner.epsilon_bound()
            bounds.append(learner.epsilon_bound())
    assert bounds[0] > bounds[1] > bounds[2] > 0 or bounds[2] == 0.0


def test_misuse_is_refused_and_changes_nothing() -> None:
    """Unknown arms, names and options, and results that are no numbers raise; the log stays as it was."""
    problem = problems.unit_basis([1.0, 0.0])
    learner = started(problem)
    learner.next_arms(2)
    before = learner.log
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        learner.tell(2, 1.0)
    with pytest.raises(InvalidInput, match="reward"):
        learner.tell(0, float("nan"))
    with pytest.raises(InvalidInput, match="whole number"):
        learner.next_arms(0)
    with pytest.raises(NotEnoughData, match="span"):
        _ = learner.theta
    learner.fail(0)
    with pytest.raises(InvalidInput, match="no pending ask"):
        learner.fail(0)
    assert learner.log == (*before, ("fail", 0))
    with pytest.raises(InvalidInput, match="lazy-track-and-stop"):
        create_learner("fastest", problem.X, noise_std=1.0)
    with pytest.raises(InvalidInput, match=r"no option 'mix'.*g_mix"):
        started(problem, mix=0.2)
    for options in ({"stopping": "soon"}, {"g_mix": 2.0}, {"exploration": -1.0}, {"variant": "new"}):
        with pytest.raises(InvalidInput, match="must be"):
            started(problem, **options)
    with pytest.raises(InvalidInput, match="regularizer"):
        started(problem, regularizer=np.eye(2))


def test_the_registry_lists_the_algorithm() -> None:
    """Names are what create_learner takes."""
    assert "lazy-track-and-stop" in algorithms()


def test_the_pairwise_rule_refuses_other_candidates() -> None:
    """Its proof is about the arms that are pulled."""
    with pytest.raises(InvalidInput, match="pairwise"):
        create_learner("lazy-track-and-stop", np.eye(2), candidates=30 * np.eye(2), stopping="pairwise", noise_std=1.0)


@pytest.mark.parametrize("rule", ["evidence", "paper-main"])
def test_plans_survive_rounding_in_whitened_rows(rule: str) -> None:
    """Rules that keep every candidate alive never take the leader for its own rival."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((8, 3))
        learner = create_learner("lazy-track-and-stop", X, stopping=rule, delta=1e-6, noise_std=1.0)
        for _ in range(60):
            arm = learner.next_arms()[0]
            learner.tell(arm, float(X[arm] @ [1.0, 0.5, -0.5] + rng.standard_normal()))


def test_a_decision_that_was_checked_lazily_is_made_exact_when_read() -> None:
    """The leader and the evidence of a decision are those of a full scan at that moment."""
    problem = problems.sphere(3, 30, seed=30)
    learner, noise = started(problem, stopping="evidence", delta=1e-6), rewards(problem, 31)
    for number in range(120):
        arm = learner.next_arms()[0]
        learner.tell(arm, noise(arm, number))
        if learner.estimate.has_theta and number % 17 == 0:
            assert learner.decision.best == int(np.argmax(problem.X @ learner.theta))


def test_expected_remaining_does_not_depend_on_the_unit_of_rewards() -> None:
    """Rewards and noise in other units leave the estimate of remaining pulls alone, for e-values and ratios alike."""
    problem = problems.sphere(3, 20, seed=32)
    for rule in RULES:
        left = []
        for unit in (1.0, 0.01):
            learner = create_learner(
                "lazy-track-and-stop", problem.X, stopping=rule, delta=1e-9, noise_std=unit * problem.noise_std
            )
            noise = rewards(problem, 33)
            for number in range(60):
                arm = learner.next_arms()[0]
                learner.tell(arm, unit * noise(arm, number))
            left.append(learner.expected_remaining())
        assert left[0] == pytest.approx(left[1], rel=1e-6)


def test_copies_of_the_best_arm_are_found_however_the_features_are_mixed() -> None:
    """Whitening splits exact copies by rounding; they still count as one arm and the learner stops."""
    rng = np.random.default_rng(34)
    left, right = (np.linalg.qr(rng.standard_normal((6, 6)))[0] for _ in range(2))
    X = rng.standard_normal((20, 6))
    theta = X[3] / np.linalg.norm(X[3])
    X[3] *= 2.0
    X = np.vstack([X, X[3], X[3]])
    means = X @ theta
    mapped = X @ left @ np.diag(np.geomspace(1.0, 1e-5, 6)) @ right
    learner = create_learner("lazy-track-and-stop", mapped, noise_std=1.0)
    while not learner.stopped and learner.estimate.n_pulls < 3000:
        arm = learner.next_arms()[0]
        learner.tell(arm, float(means[arm] + rng.standard_normal()))
    assert learner.stopped
    assert learner.decision.best in (3, 20, 21)


def test_schedules_given_as_iterators_or_arrays_can_be_replayed() -> None:
    """Times are read once, so a replay sees them again."""
    problem = problems.unit_basis([1.0, 0.0])
    for schedule in (iter([10, 20, 40]), np.array([10, 20, 40])):
        learner, noise = started(problem, schedule=schedule), rewards(problem, 35)
        for number in range(30):
            arm = learner.next_arms()[0]
            learner.tell(arm, noise(arm, number))
        log, theta = learner.log, learner.theta
        learner.replay(log)
        np.testing.assert_array_equal(learner.theta, theta)


@pytest.mark.parametrize("name", algorithms())
def test_what_is_neither_true_nor_false_is_refused(name: str) -> None:
    """A text such as "no" would count as true."""
    values: list[Any] = ["no", 0, 1.0, np.array([True])]
    for value in values:
        with pytest.raises(InvalidInput, match="`elimination` must be True or False"):
            create_learner(name, np.eye(3), elimination=value, noise_std=1.0)


@pytest.mark.parametrize(
    ("name", "option"), [("lazy-track-and-stop", "exploration_set"), ("lingame", "optimism"), ("top-two", "leader")]
)
def test_what_is_no_name_is_refused_where_a_name_is_needed(name: str, option: str) -> None:
    """Also what Python takes for "not given"."""
    values: list[Any] = [0, [], np.zeros(2)]
    for value in values:
        with pytest.raises(InvalidInput, match=f"`{option}` must be one of"):
            create_learner(name, np.eye(3), **{"noise_std": 1.0} | {option: value})


def test_arms_may_be_told_and_given_up_by_name() -> None:
    """As by row number, event for event; a name that is none is refused with one that is."""
    by_row, by_name = (
        create_learner("lazy-track-and-stop", FiniteArms(np.eye(3), names=["a", "b", "c"]), noise_std=1.0)
        for _ in range(2)
    )
    for learner, called in ((by_row, int), (by_name, "abc".__getitem__)):
        first, *others = learner.next_arms(6)
        learner.fail(called(first))
        for number, arm in enumerate(others):
            learner.tell(called(arm), 0.1 * number)
    assert by_name.log == by_row.log
    for refused in (lambda: by_name.tell("d", 0.1), lambda: by_name.fail("d")):
        with pytest.raises(InvalidInput, match="such as 'a'"):
            refused()


def test_an_algorithm_is_named_or_composed() -> None:
    """What is neither is refused in words."""
    with pytest.raises(InvalidInput, match="must be a name"):
        create_learner(["rage"], np.eye(2), noise_std=1.0)  # type: ignore[arg-type]


def test_a_batch_that_no_memory_holds_is_refused_at_once() -> None:
    """In words, and nothing is asked for."""
    learner = started(problems.unit_basis([1.0, 0.0]))
    with pytest.raises(InvalidInput, match="at most 10,000,000"):
        learner.next_arms(10**12)
    assert sum(learner.pending.values()) == 0


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("rule", ["betting", "evidence"])
def test_who_leads_and_who_rivals_is_the_same_with_and_without_all_checks(rule: str, m: int) -> None:
    """`rivalry` says after every result what `decision` says, from before there is an estimate to after the stop."""
    problem = problems.unit_basis((1.0, 0.7, 0.0, -1.0))
    learner, noise = started(problem, stopping=rule, m=m, delta=0.2), rewards(problem, 7)
    n = 0
    while not learner.stopped:
        best, rival = learner.decision.best, learner.decision.rival
        leaders = [] if best is None else best if isinstance(best, list) else [best]
        assert learner.reader.rivalry == (leaders, rival)
        (arm,) = learner.next_arms()
        learner.tell(arm, noise(arm, n))
        n += 1
    assert learner.reader.rivalry[1] is None
    assert learner.reader.rivalry[0] == (learner.decision.best if m > 1 else [learner.decision.best])
