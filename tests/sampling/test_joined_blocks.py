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
    [(False, {"noise_std": 0.3}), (False, {}), (False, {"noise": "per-arm"}), (True, {"noise_std": 0.3}), (True, {})],
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
