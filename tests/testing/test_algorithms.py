"""The contract of algorithms and rules: what keeps it passes, and each way to break it is caught by name."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import surepick as sp
from examples.own_algorithm import HalfLeader
from examples.own_rule import Precision
from surepick.arms.finite import FiniteArms
from surepick.arms.views import Task
from surepick.core.estimate import LeastSquares
from surepick.sampling.base import Sampler, SamplerContext
from surepick.stopping import Rule, RuleState, Verdict, as_rule
from surepick.testing import check_algorithm, check_rule
from surepick.types import Guarantee

VECTOR_RULES = sp.stopping.names(vectors=True)


class Turns(Sampler):
    """Blocks of six arms in turn; the ways to break it are functions of sampler and context."""

    def __init__(self, task: Task, arm: Callable[["Turns"], int]) -> None:
        self.task, self.turn, self.arm = task, 0, arm
        self.context: Any = None

    def open(self, context: SamplerContext) -> int:
        """Plan six pulls."""
        self.context = context
        return 6

    def next(self) -> int:
        """Return the arm that the function says."""
        self.turn += 1
        return self.arm(self)


@dataclass(frozen=True)
class Broken:
    """An algorithm around such a sampler."""

    arm: Callable[[Turns], int]
    rule: Rule = field(default_factory=sp.stopping.Evidence)

    def compose(self, task: Task) -> tuple[Sampler, Rule]:
        """Return the parts."""
        return Turns(task, self.arm), self.rule


@dataclass(frozen=True)
class Hasty(Rule):
    """Stops at the first estimate and calls that proved."""

    name: str = "hasty"
    guarantee: Guarantee = "proved"

    def start(self, task: Task) -> "HastyState":
        """Return a fresh state."""
        return HastyState(task)


class HastyState(RuleState):
    """The hasty rule at work."""

    decides_after_pulls = True

    def after_pull(self, estimate: LeastSquares) -> Verdict:
        """Stop as soon as there is a leader."""
        return self.exact(estimate)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Say that the leader is the answer."""
        if not estimate.has_theta:
            return Verdict(threshold=1.0)
        return Verdict(stopped=True, leader=self.leader(estimate), statistic=math.inf, threshold=1.0)


def test_the_examples_keep_the_contract() -> None:
    """The algorithm and the rule that users are shown."""
    check_algorithm(HalfLeader())
    check_rule(Precision(half_width=0.5))


@dataclass(frozen=True, kw_only=True)
class PullsLeader:
    """The leader in turn with the other arms; with `looks`, by the row of its number."""

    looks: bool = False

    def compose(self, task: Task) -> tuple[Sampler, Rule]:
        """Return the parts."""
        return LeaderSampler(task, looks=self.looks), sp.stopping.Evidence()


class LeaderSampler(Sampler):
    """Takes the number of a candidate for that of an arm."""

    def __init__(self, task: Task, *, looks: bool) -> None:
        self._X, self._looks, self._arm = task.rows.gather(range(task.rows.n_arms)), looks, 0

    def open(self, context: SamplerContext) -> int:
        """Choose one arm."""
        self._arm = context.n_asked % len(self._X)
        if context.leader is not None and context.n_asked % 2:
            self._arm = int(np.argmax(self._X @ self._X[context.leader])) if self._looks else context.leader
        return 1

    def next(self) -> int:
        """Return it."""
        return self._arm


@pytest.mark.parametrize("looks", [False, True])
def test_a_leader_that_is_taken_for_an_arm_is_caught(looks: bool) -> None:
    """Only with candidates of its own can it be seen; an algorithm that refuses them passes."""
    with pytest.raises(AssertionError, match=r"with `candidates` .* `context.leader` is the number of a candidate"):
        check_algorithm(PullsLeader(looks=looks))


def test_the_example_that_pulls_the_leader_refuses_candidates() -> None:
    """The leader is the number of a candidate, which would be taken for the number of an arm."""
    with pytest.raises(sp.InvalidInput, match="HalfLeader pulls the leader: no `candidates`"):
        sp.create_learner(HalfLeader(), np.eye(3), candidates=np.eye(3)[:2] + 0.5, noise_std=1.0)


@pytest.mark.parametrize("name", [name for name in sp.stopping.names() if name not in {*VECTOR_RULES} - {"evidence"}])
def test_every_rule_for_rows_keeps_the_contract(name: str) -> None:
    """Under uniform sampling; the pairwise rule needs as many arms as features."""
    if name == "pairwise":
        check_rule(as_rule(name), np.eye(3), theta=[2.0, 0.0, 0.5])
    else:
        check_rule(as_rule(name))


@pytest.mark.parametrize("stopping", ["evidence", "mix-grid", "per-coordinate"])
def test_algorithms_for_sets_of_vectors_keep_the_contract(stopping: str) -> None:
    """Arms are vectors there; with slack where the set needs it."""
    check_algorithm(sp.algorithms.Rounds(stopping=stopping), sp.Hypercube(3), noise_std=0.3)


def test_slack_is_passed_on() -> None:
    """The sphere has an answer with slack alone."""
    check_algorithm("lazy-track-and-stop", sp.Sphere(3), epsilon=0.3, noise_std=0.2)
    check_algorithm(sp.algorithms.Rounds(design="tangent"), sp.Sphere(2), epsilon=0.3, noise_std=0.2)


@pytest.mark.parametrize("arms", [[[1.0, 0.0], [0.0, 1.0], [0.6, -0.7]], FiniteArms(np.eye(3))], ids=["list", "set"])
def test_arms_may_be_lists_or_sets_of_rows(arms: Any) -> None:
    """Without a parameter the check takes one with a clear best row."""
    check_algorithm("uniform", arms, noise_std=0.5)


@dataclass(frozen=True)
class Told(Rule):
    """A rule whose verdict is a function of its state and the estimate."""

    verdict: Callable[[Any, LeastSquares], Any]
    guarantee: Any = "none"
    name: str = "told"

    def start(self, task: Task) -> "ToldState":
        """Return a fresh state."""
        return ToldState(task, self.verdict)


class ToldState(RuleState):
    """That rule at work."""

    decides_after_pulls = True

    def __init__(self, task: Task, verdict: Callable[[Any, LeastSquares], Any]) -> None:
        super().__init__(task)
        self.verdict, self.n_looks = verdict, 0

    def after_pull(self, estimate: LeastSquares) -> Verdict:
        """Decide by the function."""
        return self.exact(estimate)

    def exact(self, estimate: LeastSquares) -> Verdict:
        """Return what the function says."""
        self.n_looks += 1
        verdict: Verdict = self.verdict(self, estimate)
        return verdict


def _at_100(statistic: Callable[[Any, LeastSquares], float], leader: int | None = None) -> Callable[[Any, Any], Any]:
    """Stop after 100 pulls, with this statistic and leader."""

    def verdict(state: ToldState, estimate: LeastSquares) -> Verdict:
        if not estimate.has_theta:
            return Verdict(threshold=100.0)
        own = state.leader(estimate) if leader is None else leader
        return Verdict(stopped=estimate.n_pulls >= 100, leader=own, statistic=statistic(state, estimate), threshold=100)

    return verdict


PULLS = _at_100(lambda _, estimate: estimate.n_pulls)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (Told(PULLS, guarantee="certain"), "`guarantee` of Told must be one of 'proved', .* got 'certain'"),
        (Told(lambda *_: Verdict(stopped=True, threshold=1.0)), "a verdict that stops needs a `leader`, got None"),
        (Told(_at_100(lambda state, _: state.n_looks)), "`exact` of ToldState gives two verdicts .* change nothing"),
        (Told(_at_100(lambda *_: 1.0, leader=99)), "the number of a candidate, from 0 to 4, got 99 from the rule"),
        (Told(lambda *_: None), "must return a `Verdict`, got None"),
        (Told(_at_100(lambda *_: math.nan)), "`statistic` of a verdict must be a number, got nan"),
    ],
    ids=["guarantee", "too early", "state", "leader", "None", "NaN"],
)
def test_each_way_to_break_a_rule_has_a_sentence(rule: Rule, said: str) -> None:
    """The rule itself, in order, passes."""
    with pytest.raises((AssertionError, sp.InvalidInput), match=said):
        check_rule(rule)
    check_rule(Told(PULLS))


def test_what_breaks_nothing_passes() -> None:
    """The frame of the broken algorithms is itself in order."""
    check_algorithm(Broken(lambda sampler: sampler.turn % 5))


def _impatient(sampler: Turns) -> int:
    """Look at results that came in after the block was opened."""
    return sampler.context.estimate.n_pulls % 5


def test_reading_results_inside_a_block_is_caught() -> None:
    """The estimate goes on growing after `open`, so that a sampler could peek."""
    with pytest.raises(AssertionError, match=r"`next` must not read results|inside a block"):
        check_algorithm(Broken(_impatient))


def test_state_in_the_algorithm_is_caught() -> None:
    """Two learners that share an algorithm must not share a counter."""
    calls = iter(range(10**9))
    with pytest.raises(AssertionError, match="not in the algorithm"):
        check_algorithm(Broken(lambda _: next(calls) % 5))


def test_unseeded_random_numbers_are_caught() -> None:
    """Whatever a sampler draws must come from the seed of the task."""
    rng = np.random.default_rng()
    with pytest.raises(AssertionError, match=r"task\.seed"):
        check_algorithm(Broken(lambda _: int(rng.integers(5))))


def test_an_arm_that_is_none_is_caught() -> None:
    """Row numbers end at K - 1."""
    with pytest.raises((AssertionError, IndexError, sp.InvalidInput), match="5"):
        check_algorithm(Broken(lambda sampler: sampler.turn % 6))


def test_a_neglected_arm_is_caught() -> None:
    """An algorithm that never measures all directions gives no answer."""
    with pytest.raises(AssertionError, match="no answer after"):
        check_algorithm(Broken(lambda _: 0), max_pulls=400)


def test_a_hasty_rule_is_caught() -> None:
    """A rule that claims a proof and stops at once errs in most runs with tiny gaps."""
    with pytest.raises(AssertionError, match=r"loses|under the guarantee"):
        check_rule(Hasty())


def test_a_hasty_rule_that_claims_no_proof_passes() -> None:
    """The rate of wrong answers is a promise of rules that are proved alone."""
    check_rule(Hasty(guarantee="none"))


def test_a_claim_of_a_foreign_rule_is_not_repeated_as_a_fact() -> None:
    """The answer says that the class says so; rules of surepick speak for themselves."""
    means, rng = np.array([1.0, 0.0]), np.random.default_rng(0)
    own, foreign = (
        sp.identify(
            np.eye(2),
            lambda arm: means[arm] + rng.standard_normal(),
            noise_std=1.0,
            algorithm=sp.algorithms.Uniform(stopping=rule),
        )
        for rule in (sp.stopping.Evidence(), Hasty())
    )
    assert "(proved, evidence rule)" in own.explain()
    said = "(proved, hasty rule, as its class says; surepick has not checked the proof)"
    assert said in foreign.explain()
    assert foreign.to_dict()["is_foreign_rule"]
