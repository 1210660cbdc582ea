"""What every algorithm must do, whatever its idea: one suite over all names."""

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.algorithms import as_algorithm
from surepick.arms.views import Task
from surepick.errors import ArmsDoNotSpan, InvalidInput
from surepick.learning.learner import Learner, create_learner
from surepick.sampling.base import Sampler, SamplerContext
from surepick.simulation import problems
from surepick.simulation.problems import Problem
from surepick.testing import check_algorithm
from tests.algorithm_needs import knowledge
from tests.learning.lab import run

NAMES = sp.algorithms.names()
BASIS_ONLY = {"track-and-stop"}
OWN_ARMS_ONLY = {"mislid", "track-and-stop"}
LINEAR = [name for name in NAMES if name not in BASIS_ONLY]

# Large enough memory for a few tables of 10^4 x 2 and the solver; a K x K array would take 800 MB.
MEMORY_AT_10_000_ARMS = 150e6

EASY = problems.unit_basis([2.0, 0.0, -0.5, 0.3])
EASIER = Problem(X=EASY.X, theta=2.0 * EASY.theta, name="easier", noise_std=0.5)
TILTED = Problem(
    X=np.array([[1.0, 0.2], [0.3, 1.0], [-0.5, 0.5], [0.6, 0.6], [0.1, -1.0]]),
    theta=np.array([2.0, 0.0]),
    name="five arms in the plane",
)


def needs(name: str, problem: Problem, **options: Any) -> dict[str, Any]:
    """The options this algorithm cannot do without on this problem, and those given."""
    return knowledge(name, problem, variant=options.get("variant", "practical")) | options


def learner_on(name: str, problem: Problem, **options: Any) -> Learner:
    """A learner of this algorithm on the problem."""
    settings = needs(name, problem, **options)
    settings.setdefault("noise_std", problem.noise_std)
    settings.setdefault("candidates", problem.candidates)
    return create_learner(name, problem.X, **{"noise_std": 1.0} | settings)


def easy_for(name: str) -> Problem:
    """An easy problem that the algorithm accepts."""
    return EASY if name in BASIS_ONLY else TILTED


@pytest.mark.parametrize("problem", [EASY, TILTED], ids=lambda problem: problem.name)
@pytest.mark.parametrize("name", NAMES)
def test_it_finds_the_best_arm_of_an_easy_problem(name: str, problem: Problem) -> None:
    """With clear gaps the answer is right, and the decision says which rule it rests on."""
    if name in BASIS_ONLY and problem is not EASY:
        with pytest.raises(InvalidInput, match="lazy-track-and-stop"):
            learner_on(name, problem)
        return
    learner = learner_on(name, problem)
    run(learner, problem, seed=1)
    decision = learner.decision
    assert decision.stopped
    assert decision.best == problem.best
    assert decision.guarantee == "proved"
    assert learner.expected_remaining() == 0.0
    assert learner.epsilon_bound() >= 0.0


@pytest.mark.parametrize("name", NAMES)
def test_the_contract_of_all_algorithms_is_kept(name: str) -> None:
    """Arms, seeds, batches, blocks, failures, replays, late results, and the rate of wrong answers."""
    problem = easy_for(name)
    algorithm, _ = as_algorithm(name, needs(name, problem))
    check_algorithm(algorithm, problem.X, theta=problem.theta)


@pytest.mark.parametrize("name", NAMES)
def test_the_published_variant_keeps_it_too(name: str) -> None:
    """The paper's constants and rules, on an easier problem still: some are very cautious."""
    algorithm, _ = as_algorithm(name, needs(name, EASIER, variant="paper"))
    check_algorithm(algorithm, EASIER.X, theta=EASIER.theta, noise_std=EASIER.noise_std, max_pulls=200_000)


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("stopping", ["betting", "evidence", "heuristic"])
def test_every_stopping_rule_can_be_had(name: str, stopping: str) -> None:
    """The sampling idea of each algorithm runs under each common rule, which the decision names."""
    learner = learner_on(name, TILTED, stopping=stopping)
    run(learner, TILTED, seed=3)
    assert learner.decision.stopped
    assert learner.decision.best == TILTED.best
    assert learner.decision.rule == stopping


PLANS: list[tuple[str, dict[str, Any]]] = [
    *((name, {"variant": variant}) for name in NAMES for variant in ("practical", "paper")),
    *((name, {"stopping": "betting"}) for name in LINEAR),
    *((name, {"stopping": "evidence", "elimination": True}) for name in LINEAR),
    *(("top-two", {"selection": way, "stopping": "betting"}) for way in ("ratio", "ids", "coin", "evidence-greedy")),
    *(("top-two", {"selection": way, "g_mix": 0.0, "exploration": 0.0}) for way in ("ratio", "ids")),
    ("top-two", {"leader": "thompson", "challenger": "resample", "stopping": "betting"}),
    ("top-two", {"challenger": "transport-penalised", "stopping": "betting"}),
    ("lingape", {"selection": "ratio", "stopping": "betting"}),
    ("lingape", {"selection": "ratio", "variant": "paper"}),
]


@pytest.mark.parametrize(("name", "options"), PLANS, ids=str)
def test_results_told_inside_an_interval_do_not_change_its_arms(name: str, options: dict[str, Any]) -> None:
    """Neither answers nor unsolicited results, however extreme: a plan sees what was told before it was made."""
    problem = easy_for(name)
    quiet, loud = (learner_on(name, problem, seed=23, schedule="periodic:12", delta=1e-9, **options) for _ in range(2))
    for learner in (quiet, loud):
        run(learner, problem, seed=24, most=14)
    assert not quiet.stopped
    planned = quiet.next_arms()
    planned += quiet.next_arms(quiet.n_planned) if quiet.n_planned else []
    rng = np.random.default_rng(25)
    asked = loud.next_arms()  # never told, so that the interval stays open
    others = [arm for arm in range(len(problem.X)) if arm != asked[0]]
    while len(asked) < len(planned):
        loud.tell(int(rng.choice(others)), float(10.0 * rng.standard_normal()))
        asked += loud.next_arms()
        if asked[-1] != asked[0]:
            loud.tell(asked[-1], float(10.0 * rng.standard_normal()))
    assert asked == planned


@pytest.mark.parametrize("name", NAMES)
def test_bad_options_are_refused_with_a_way_out(name: str) -> None:
    """Unknown options, variants and rules, and arms that leave a direction unmeasured."""
    problem = easy_for(name)
    with pytest.raises(InvalidInput, match="colour"):
        learner_on(name, problem, colour="red")
    with pytest.raises(InvalidInput, match="variant"):
        learner_on(name, problem, variant="folklore")
    with pytest.raises(InvalidInput, match="stopping"):
        learner_on(name, problem, stopping="gut feeling")
    with pytest.raises(ArmsDoNotSpan):
        create_learner(name, [[1.0, 0.0], [2.0, 0.0]], **{"noise_std": 1.0} | knowledge(name, problem))


@pytest.mark.parametrize("name", NAMES)
def test_a_tie_is_not_decided_and_slack_ends_it(name: str) -> None:
    """Two equally good arms: no crash and (at this delta) no answer; within epsilon either will do."""
    tied = problems.unit_basis([1.0, 1.0, -1.0])
    if name == "xy-oracle":
        with pytest.raises(sp.errors.TiedArms):
            learner_on(name, tied)
        return
    learner = learner_on(name, tied, delta=1e-6)
    run(learner, tied, seed=13, most=400)
    assert not learner.stopped
    slack = learner_on(name, tied, epsilon=1.0)
    run(slack, tied, seed=14)
    assert slack.decision.best in (0, 1)


@pytest.mark.parametrize("name", NAMES)
def test_max_pulls_ends_a_run_without_an_answer(name: str) -> None:
    """A hard problem is given up when told so."""
    problem = problems.unit_basis([0.01, 0.0, 0.0])
    means, rng = problem.X @ problem.theta, np.random.default_rng(15)
    pull: Callable[[int], float] = lambda arm: float(means[arm] + rng.standard_normal())  # noqa: E731
    result = sp.identify(
        problem.X, pull, algorithm=name, max_pulls=57, delta=1e-3, **{"noise_std": 1.0} | needs(name, problem)
    )
    assert not result.stopped
    assert result.n_pulls == 57


@pytest.mark.parametrize("name", LINEAR)
def test_duplicate_arms_are_one_arm(name: str) -> None:
    """Copies of the best arm are no rivals of it, copies of others change nothing."""
    doubled = Problem(X=np.vstack([TILTED.X, TILTED.X[:2]]), theta=TILTED.theta, name="copies")
    learner = learner_on(name, doubled)
    run(learner, doubled, seed=16)
    assert learner.stopped
    assert learner.decision.best in (0, 5)


@pytest.mark.parametrize("name", NAMES)
def test_as_many_arms_as_features_in_any_coordinates(name: str) -> None:
    """K = d with features that are far from orthogonal and in different units."""
    rng = np.random.default_rng(17)
    mixing = rng.standard_normal((4, 4)) * np.array([1.0, 1e3, 1e-3, 1.0])
    problem = Problem(X=EASY.X @ mixing, theta=np.linalg.solve(mixing, EASY.theta), name="mixed units")
    learner = learner_on(name, problem)
    run(learner, problem, seed=18)
    assert learner.decision.stopped
    assert learner.decision.best == problem.best


@pytest.mark.parametrize("name", NAMES)
def test_candidates_other_than_the_arms(name: str) -> None:
    """Answers that cannot be pulled, where the algorithm's setting allows it."""
    candidates = np.array([[1.0, 0.1, 0.0], [0.0, 1.0, 0.2], [0.5, 0.5, -1.0]])
    problem = Problem(X=np.eye(3), theta=np.array([2.0, 0.0, 0.0]), candidates=candidates, name="candidates")
    if name in OWN_ARMS_ONLY:
        with pytest.raises(InvalidInput, match="candidates"):
            learner_on(name, problem)
        return
    learner = learner_on(name, problem)
    run(learner, problem, seed=19)
    assert learner.decision.stopped
    assert learner.decision.best == 0


@pytest.mark.parametrize("name", NAMES)
def test_ten_thousand_arms_fit_in_memory(name: str) -> None:
    """K = 10^4, d = 2 within the stated memory; what cannot do it says so at once."""
    problem = problems.many_arms(10_000, seed=0)
    if name in ("lingame-c", "lingifa", "mislid", *BASIS_ONLY):
        with pytest.raises(InvalidInput, match=r"10000|10,000"):
            learner_on(name, problem)
        return
    options = needs(name, problem)
    tracemalloc.start()
    learner = create_learner(name, problem.X, **{"noise_std": 1.0} | options)
    run(learner, problem, seed=20, most=150)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MEMORY_AT_10_000_ARMS
    assert learner.decision.best is not None


@pytest.mark.parametrize("name", LINEAR)
def test_earlier_results_are_welcome(name: str) -> None:
    """A history that spans already, as evidence: no second start, and the right answer."""
    rng, means = np.random.default_rng(21), TILTED.X @ TILTED.theta
    history = [(arm % 5, float(means[arm % 5] + rng.standard_normal())) for arm in range(20)]
    pull: Callable[[int], float] = lambda arm: float(means[arm] + rng.standard_normal())  # noqa: E731
    options = {"noise_std": 1.0} | needs(name, TILTED)
    result = sp.identify(TILTED.X, pull, algorithm=name, history=history, earlier="evidence", **options)
    assert result.best == TILTED.best


@pytest.mark.parametrize("name", NAMES)
def test_times_given_as_an_iterator_can_be_replayed(name: str) -> None:
    """An iterator is read once, so that a replay meets the same schedule."""
    problem = easy_for(name)
    learner = learner_on(name, problem, schedule=iter([10, 20, 40, 80]))
    arms = learner.next_arms(12)
    learner.replay(learner.log)
    assert learner.log == (("start", learner.identity), ("ask", tuple(arms)))
    fresh = learner_on(name, problem, schedule=[10, 20, 40, 80])
    assert fresh.next_arms(12) == arms


class Stuck(Sampler):
    """Pulls one arm for ever."""

    def open(self, _context: SamplerContext) -> int:
        """Plan one pull."""
        return 1

    def next(self) -> int:
        """Return the first arm."""
        return 0


class StuckAlgorithm:
    """The sampler under a proved rule."""

    def compose(self, _task: Task) -> tuple[Sampler, sp.stopping.Rule]:
        """Return both."""
        return Stuck(), sp.stopping.Evidence()


def test_own_algorithms_are_told_what_to_write() -> None:
    """The flag of an option that a class does not have, and the arms to start with."""
    with pytest.raises(sp.InvalidInput, match=r"set `supports_top_m = True` on the class if its sampler handles it"):
        sp.create_learner(StuckAlgorithm(), np.eye(3), noise_std=1.0, m=2)
    with pytest.raises(sp.InvalidInput) as refused:
        sp.create_learner("lingame", np.eye(3), noise_std=1.0, m=2)
    assert "on the class" not in str(refused.value)
    with pytest.raises(AssertionError, match=r"no answer after \d+ results .*; .* pull `task.spanning` first"):
        check_algorithm(StuckAlgorithm(), max_pulls=200)
    problem = sp.problems.unit_basis([1.0, 0.0])
    for refuse in (
        check_algorithm,
        lambda algorithm: sp.simulate(problem, algorithm, n_runs=1),
        lambda algorithm: sp.identify(np.eye(2), float, algorithm=algorithm),
    ):
        with pytest.raises(sp.InvalidInput, match=r"got the class StuckAlgorithm; write `StuckAlgorithm\(\)`"):
            refuse(StuckAlgorithm)
        with pytest.raises(sp.InvalidInput, match=r"`surepick.algorithms.names\(\)` lists the names, and an algorithm"):
            refuse(Stuck())


@dataclass(frozen=True, kw_only=True)
class Parts:
    """An algorithm whose parts are given."""

    sampler: Any
    rule: Any

    def compose(self, _task: Task) -> Any:
        """Return both."""
        return self.sampler, self.rule


class Stateless(sp.stopping.Rule):
    """A rule without a state."""

    name, guarantee, takes_unknown_noise = "stateless", "none", True

    def start(self, task: Task) -> Any:
        """Return nothing."""


class NeedsNoise(Stuck):
    """A sampler that reads the level of the noise."""

    def __init__(self, task: Task) -> None:
        self._noise_std = task.noise_std


@dataclass(frozen=True, kw_only=True)
class NeedsNoiseAlgorithm:
    """The sampler under a rule that learns the noise."""

    def compose(self, task: Task) -> tuple[Sampler, sp.stopping.Rule]:
        """Return both."""
        return NeedsNoise(task), sp.stopping.Evidence()


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (Parts(sampler=Stuck, rule=sp.stopping.Evidence()), r"got the class Stuck as the sampler; write `Stuck\("),
        (Parts(sampler=Stuck(), rule=sp.stopping.Evidence), r"got the class Evidence as the rule; write `Evidence\("),
        (Parts(sampler=Stuck(), rule=Stateless()), r"`start` of the rule 'stateless' must return a `RuleState`"),
        (NeedsNoiseAlgorithm(), r"`task.noise_std` was read, and the noise is learnt.*noise_estimate"),
    ],
)
def test_parts_of_own_algorithms_that_cannot_be_used(algorithm: Any, message: str) -> None:
    """A class in the place of an object, a rule without a state, and a noise level that nobody told."""
    with pytest.raises(sp.InvalidInput, match=message):
        sp.create_learner(algorithm, np.eye(3)).next_arms(1)
