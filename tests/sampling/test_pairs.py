"""Plans of pairs: their bound, whole pairs in every block, and what is too large for them."""

import itertools

import numpy as np
import pytest

from surepick.core.design import characteristic_time, optimal_design
from surepick.learning.learner import Learner
from surepick.sampling.pairs import MOST_PAIRS, InPairs, Pairs, PairSampler
from surepick.sampling.schedules import Geometric, Periodic
from surepick.types import Array

FACTORIAL = np.c_[np.ones(16), np.array(list(itertools.product([-1.0, 1.0], repeat=4)))]


def _task(X: Array, **options: object) -> Learner:
    return Learner("lazy-track-and-stop", X, noise_std=1.0, groups="offset", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("X", "theta", "alone", "in_pairs"),
    [
        (np.eye(5), np.array([1.0, 0.7, 0.6, 0.5, 0.4]), 122.0, 170.0),
        (FACTORIAL, np.array([0.0, 0.12, 0.12, 0.12, 0.12]), 139.0, 139.0),
    ],
)
def test_the_bound_of_pairs(X: Array, theta: Array, alone: float, in_pairs: float) -> None:
    """T* of single arms, of large groups (by a column of ones) and of pairs, in this order; pairs at most twice."""
    pairs = Pairs.of(_task(X).task)
    assert pairs is not None
    best = int(np.argmax(X @ theta))
    others = np.delete(np.arange(len(X)), best)
    Y = (X[best] - X[others]) / ((X[best] - X[others]) @ theta)[:, None]
    compared = pairs.task.rivals.gather(range(len(X)))
    white = (compared[best] - compared[others]) / ((X[best] - X[others]) @ theta)[:, None]
    T_1 = characteristic_time(X, theta).value
    T_2 = 2.0 * optimal_design(pairs.task.rows.gather(range(len(pairs.arms))), white).value
    has_constant = np.linalg.matrix_rank(np.c_[X, np.ones(len(X))]) == X.shape[1]
    T_off = T_1 if has_constant else 2.0 * optimal_design(np.c_[X, np.ones(len(X))], np.c_[Y, np.zeros(len(Y))]).value
    np.testing.assert_allclose([T_1, T_2], [alone, in_pairs], atol=0.6)
    assert T_1 * (1 - 1e-3) <= T_off <= T_2 * (1 + 1e-3)
    assert T_2 <= 2.0 * T_off * (1 + 1e-3)


def test_blocks_are_of_whole_pairs_in_turn() -> None:
    """Every block has an even length; both arms of a pair differ, and each is first in turn."""
    learner, rng = _task(np.eye(4)), np.random.default_rng(0)
    assert isinstance(learner.state.plans.sampler, PairSampler)
    asked: list[int] = []
    while len(asked) < 120:
        n = learner.n_planned or len(learner.next_arms(2, group="day 1")) + learner.n_planned
        assert n % 2 == 0
        asked = [arm for event in learner.log if event[0] == "ask" for arm in event[1]]
        for arm in learner.next_arms(learner.n_planned, group="day 1") if learner.n_planned else ():
            asked.append(arm)
        for arm, count in learner.pending.items():
            for _ in range(count):
                learner.tell(arm, float(arm == 1) + rng.standard_normal())
    first, second = asked[0::2], asked[1::2]
    assert all(one != other for one, other in zip(first, second, strict=False))
    pairs = [tuple(pair) for pair in zip(first, second, strict=False)]
    assert any(tuple(reversed(pair)) in pairs for pair in pairs)


def test_blocks_end_with_groups() -> None:
    """A block that opens inside a group of eight ends with a group, so that whole groups are compared."""
    learner, rng = _task(np.eye(4)), np.random.default_rng(0)
    for day in range(12):
        for arm in learner.next_arms(8, group=f"day {day}"):
            learner.tell(arm, float(arm == 1) + 3.0 * day + rng.standard_normal())
        assert learner.n_planned % 8 == 0


def test_many_arms_are_not_paired_up() -> None:
    """Pairs of 300 arms are too many: pulls follow the plan for single arms."""
    rows = np.random.default_rng(0).standard_normal((300, 3))
    assert 300 * 299 // 2 > MOST_PAIRS
    learner = _task(rows)
    assert Pairs.of(learner.task) is None
    assert not isinstance(learner.state.plans.sampler, PairSampler)


def test_equal_arms_make_no_pair_and_costs_are_those_of_both() -> None:
    """A pair of copies compares nothing; a cheap pair is planned more often."""
    rows = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 0.2]])
    pairs = Pairs.of(_task(rows, costs=[1.0, 1.0, 3.0, 1.0]).task)
    assert pairs is not None
    assert [0, 1] not in pairs.arms.tolist()
    assert pairs.task.costs is not None
    assert dict(zip(map(tuple, pairs.arms.tolist()), pairs.task.costs.tolist(), strict=True))[0, 2] == 2.0


def test_a_schedule_in_pairs_is_that_of_pulls() -> None:
    """Every hundred pulls are every fifty pairs; a schedule always moves on."""
    assert InPairs(Periodic(100)).next_after(0) == 50
    assert InPairs(Periodic(100)).next_after(50) == 100
    assert InPairs(Geometric(1.08)).next_after(1) == 2
