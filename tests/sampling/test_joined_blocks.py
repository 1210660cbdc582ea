"""Samplers with blocks of one pull, under a rule that bets on blocks."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.arms.views import Task
from surepick.sampling.base import SamplerContext
from surepick.sampling.choosers import Chooser, StartThenChoose
from surepick.testing import check_algorithm

ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.6], [0.6, 0.8]])
THETA = np.array([1.0, 0.2])


@dataclass(frozen=True, kw_only=True)
class OneByOne:
    """Choose each arm from the context, at random or where the estimate is least certain; bets decide."""

    is_greedy: bool = False

    def compose(self, task: Task) -> tuple["Sampler", sp.stopping.Rule]:
        """Return the parts."""
        return Sampler(task, is_greedy=self.is_greedy), sp.stopping.Betting()


class Sampler:
    """Plans one pull at a time."""

    def __init__(self, task: Task, *, is_greedy: bool) -> None:
        self._task, self._is_greedy = task, is_greedy
        self._rng = np.random.default_rng(task.seed)
        self._arm = 0

    def open(self, context: SamplerContext) -> int:
        """Choose one arm."""
        rows = self._task.rows
        if context.theta is None:
            self._arm = int(self._task.spanning[context.n_asked % rows.dim])
        elif self._is_greedy:
            X = rows.gather(np.arange(rows.n_arms))
            self._arm = int(np.argmax(np.einsum("ij,jk,ik->i", X, context.estimate.A_inv, X)))
        else:
            self._arm = int(self._rng.integers(rows.n_arms))
        return 1

    def next(self) -> int:
        """Return the arm chosen."""
        return self._arm

    def pulls_per_nat(self) -> float:
        """Unknown."""
        return math.inf


@pytest.mark.parametrize(
    ("is_greedy", "options"),
    [
        (False, {"noise_std": 0.3}),
        (False, {}),
        (False, {"noise": "per-arm"}),
        (True, {"noise_std": 0.3}),
        (True, {}),
        (True, {"noise": "per-arm"}),
        (True, {"noise": "symmetric"}),
    ],
)
def test_blocks_of_one_pull_are_joined_and_stop(is_greedy: bool, options: dict[str, Any]) -> None:
    """Without joined blocks no bet is ever made: the evidence stays 0 for ever."""
    rng = np.random.default_rng(0)
    result = sp.identify(
        ARMS,
        lambda arm: ARMS[arm] @ THETA + 0.3 * rng.standard_normal(),
        algorithm=OneByOne(is_greedy=is_greedy),
        max_pulls=4000,
        **options,
    )
    assert result.stopped
    assert result.best == 0


@pytest.mark.parametrize("n_arms", [3, 5, 6])
def test_repeated_plans_hold_all_arms_that_the_sampler_wants(n_arms: int) -> None:
    """With a noise for each arm: the start is not repeated, and a greedy sampler knows that its plan will be.

    If each block of one pull is repeated, a sampler that goes round with the number of its asks measures one arm for
    ever; if it does not know of the repetitions, it measures one arm in each block.
    """
    rng, means = np.random.default_rng(0), np.arange(n_arms, 0.0, -1.0)
    result = sp.identify(
        np.eye(n_arms),
        lambda arm: means[arm] + 0.3 * rng.standard_normal(),
        algorithm=OneByOne(is_greedy=True),
        noise="per-arm",
        max_pulls=300,
    )
    assert result.stopped
    assert max(result.counts.values()) - min(result.counts.values()) <= 6


def test_plans_grow_with_the_run() -> None:
    """Three repetitions of a plan of 3 % of the pulls: few long blocks tell more of the noise than many short ones."""
    learner = sp.create_learner(OneByOne(), ARMS, seed=1, noise="per-arm", delta=1e-12)
    rng, lengths = np.random.default_rng(0), []
    for _ in range(40):
        asked = learner.next_arms(max(1, learner.n_planned))
        asked += learner.next_arms(learner.n_planned) if learner.n_planned else []
        lengths.append(len(asked))
        for arm in asked:
            learner.tell(arm, ARMS[arm] @ THETA + rng.standard_normal())
    assert lengths[-1] > 10
    assert lengths[-1] == pytest.approx(0.09 * sum(lengths[:-1]), abs=3)


class Odd:
    """A sampler whose block and arm are given."""

    def __init__(self, length: Any, arm: Any) -> None:
        self._length, self._arm = length, arm

    def open(self, context: SamplerContext) -> Any:
        """Return the length."""
        return self._length

    def next(self) -> Any:
        """Return the arm."""
        return self._arm

    def pulls_per_nat(self) -> float:
        """Unknown."""
        return math.inf


@dataclass(frozen=True, kw_only=True)
class Composed:
    """An algorithm whose parts are given."""

    parts: Any

    def compose(self, task: Task) -> Any:
        """Return the parts."""
        return self.parts


@pytest.mark.parametrize("rule", [sp.stopping.Evidence(), sp.stopping.Betting()])
@pytest.mark.parametrize(
    ("length", "arm", "named"),
    [
        *((length, 0, "open") for length in (0, None, 1.0, True)),
        *((1, arm, "next") for arm in (4, -1, 0.0, "a", None)),
    ],
)
def test_a_sampler_that_returns_no_number_is_named(rule: sp.stopping.Rule, length: Any, arm: Any, named: str) -> None:
    """The message has the method, what it must return, and the class."""
    learner = sp.create_learner(Composed(parts=(Odd(length, arm), rule)), ARMS, noise_std=1.0)
    with pytest.raises(sp.InvalidInput, match=rf"`{named}` must return .* from Odd"):
        learner.next_arms()


def test_numbers_of_numpy_are_numbers() -> None:
    """A length and an arm may come from an array."""
    learner = sp.create_learner(
        Composed(parts=(Odd(np.int64(3), np.int64(2)), sp.stopping.Evidence())), ARMS, noise_std=1.0
    )
    assert learner.next_arms() == [2]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (None, "got a NoneType"),
        (Odd(1, 0), "got a Odd"),
        ((object(), sp.stopping.Evidence()), "a sampler without `open`"),
        ((Odd(1, 0), "evidence"), "str in the place of the rule"),
    ],
)
def test_compose_that_returns_something_else_is_named(parts: Any, said: str) -> None:
    """A sampler and a rule are needed."""
    with pytest.raises(sp.InvalidInput, match=said):
        sp.create_learner(Composed(parts=parts), ARMS, noise_std=1.0)


def test_a_joined_block_is_fixed_when_it_opens_and_measures_several_arms() -> None:
    """A sampler that reduces uncertainty sees the pulls of the block that are planned; theta stays."""
    learner = sp.create_learner(OneByOne(is_greedy=True), ARMS, seed=1)
    for arm in learner.next_arms(2):
        learner.tell(arm, 1.0 + 0.1 * arm)
    asked = learner.next_arms(6)  # d + 4, since the noise is unknown
    assert len(asked) == 6
    assert len(Counter(asked)) >= 2


def test_the_contract_holds_for_joined_blocks() -> None:
    """Equal seeds, batches, delays and replay."""
    check_algorithm(OneByOne())
    check_algorithm(OneByOne(is_greedy=True))


def test_blocks_that_are_long_enough_and_rules_that_decide_after_pulls_are_left_alone() -> None:
    """The evidence rule sees every result, so its samplers do too."""
    learner = sp.create_learner(sp.algorithms.LinGapE(stopping="evidence"), ARMS, noise_std=0.3)
    assert len(learner.next_arms(2)) == 2
    for arm in (0, 1):
        learner.tell(arm, 0.5)
    assert learner.n_planned <= 1


@dataclass(frozen=True, kw_only=True)
class Closest:
    """Pull the arm that best tells the leader from its closest rival, in long blocks or one by one; bets decide."""

    is_long: bool

    def compose(self, task: Task) -> tuple[Any, sp.stopping.Rule]:
        """Return the parts."""
        rule, chooser = sp.stopping.Betting(), ClosestChooser(task, g_mix=0.1)
        if self.is_long:
            return StartThenChoose(task.spanning, chooser, rule=rule, least=rule.min_block(task)), rule
        return Singly(task, chooser), rule


class ClosestChooser(Chooser):
    """The arm that a pull of which would shrink the uncertain difference most."""

    def pick(self) -> int:
        """Return the arm."""
        X, Z = (rows.gather(range(rows.n_arms)) for rows in (self._task.rows, self._task.rivals))
        A_inv, Y = self._asked.A_inv, Z[self._leader] - Z
        gaps, variances = Y @ self._theta, ((Y @ A_inv) * Y).sum(axis=1)
        far = np.full(len(Y), np.inf)
        y = Y[np.argmin(np.divide(gaps**2, variances, out=far, where=variances > 0.0))]
        return int(np.argmax((X @ A_inv @ y) ** 2 / (1.0 + ((X @ A_inv) * X).sum(axis=1))))


class Singly(Sampler):
    """The same choices, in blocks of one pull."""

    def __init__(self, task: Task, chooser: Chooser) -> None:
        super().__init__(task, is_greedy=False)
        self._chooser = chooser

    def open(self, context: SamplerContext) -> int:
        """Choose one arm."""
        if context.theta is None:
            return super().open(context)
        self._chooser.look(context)
        self._arm = self._chooser.choose()
        return 1


def test_long_blocks_save_pulls_under_betting() -> None:
    """docs/extending.md says so: equal choices, six arms, five other candidates."""
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(6, 3)), rng.normal(size=(5, 3))
    problem = sp.problems.Problem(
        X=X, theta=np.array([1.0, -0.5, 0.3]), candidates=Z, noise_std=0.7, name="six arms, five others"
    )
    long, single = (sp.simulate(problem, Closest(is_long=is_long), n_runs=10, seed=1) for is_long in (True, False))
    assert long.correct.all()
    assert single.correct.all()
    assert 2.5 * long.mean < single.mean
