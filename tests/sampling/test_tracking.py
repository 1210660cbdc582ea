import math

import numpy as np
import pytest

from surepick.algorithms import LazyTrackAndStop
from surepick.arms.finite import FiniteArms
from surepick.core.design.generation import frame_of, spanning_arms
from surepick.errors import InvalidInput
from surepick.sampling.tracking import EigenvalueFloor, Tracker, exploration_set


@pytest.mark.parametrize("dim", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("seed", range(3))
def test_exploration_keeps_the_smallest_eigenvalue_above_the_floor(dim: int, seed: int) -> None:
    """Lemma 5: lambda_min >= f(t - d - 1) for t >= 5d/4 + 1/(4d) + 3/2, against arms that never help."""
    rng = np.random.default_rng([50, seed, dim])
    rows = rng.standard_normal((dim, dim))
    arms = FiniteArms(np.vstack([rows, np.linalg.svd(rows)[2][:1]]))
    floor = EigenvalueFloor(arms, np.arange(dim), scale=1.0)
    # The last arm is the direction that A0 measures best: pulling it again and again helps nobody else.
    A = np.zeros((dim, dim))
    forcing = 0
    for t in range(2000):
        due = t if t < dim else floor.due(A, t)
        arm = dim if due is None else due
        forcing += due is not None
        A += np.outer(arms.X[arm], arms.X[arm])
        if t + 1 >= 5 * dim / 4 + 1 / (4 * dim) + 1.5:
            assert np.linalg.eigvalsh(A)[0] >= floor.value(t + 1 - dim - 1) * (1 - 1e-9)
    assert dim == 1 or forcing > dim  # the floor was at work


def test_exploration_costs_of_the_order_of_the_square_root_of_the_pulls() -> None:
    """The safety net takes few pulls: after t pulls about d sqrt(t/d)."""
    floor, counts = EigenvalueFloor(FiniteArms(np.eye(4)), np.arange(4), scale=1.0), np.zeros(4)
    n_forced = 0
    for t in range(10_000):
        due = t if t < 4 else floor.due(np.diag(counts), t)
        n_forced += due is not None
        counts[0 if due is None else due] += 1
    assert n_forced <= 4 * math.sqrt(10_000 / 4) + 8


@pytest.mark.parametrize("seed", range(5))
def test_averaged_tracking_stays_within_the_number_of_arms(seed: int) -> None:
    """For any sequence of designs, counts differ from the summed designs by less than the number of arms used."""
    rng = np.random.default_rng([51, seed])
    tracker, total, counts = Tracker("averaged"), np.zeros(12), np.zeros(12)
    used: set[int] = set()
    for t in range(1500):
        if t % 37 == 0:
            support = np.sort(rng.choice(12, size=4, replace=False))
            weights = rng.dirichlet(np.ones(4))
            tracker.retarget(support, weights)
            used |= set(support.tolist())
        total[support] += weights
        counts[tracker.next()] += 1
        assert np.abs(counts - total).max() <= len(used) - 1 + 1e-9
        assert not counts[[k for k in range(12) if k not in used]].any()


def test_tracked_proportions_approach_the_set_the_designs_end_in() -> None:
    """Lemma 6: once designs stay in a segment, so do the proportions, though the designs keep jumping in it."""
    rng = np.random.default_rng(52)
    tracker, counts = Tracker("averaged"), np.zeros(3)
    ends = np.array([[0.6, 0.4, 0.0], [0.2, 0.4, 0.4]])
    for t in range(20_000):
        if t % 10 == 0:
            share = rng.random()
            weights = rng.dirichlet(np.ones(3)) if t < 500 else share * ends[0] + (1 - share) * ends[1]
            tracker.retarget(np.arange(3), weights)
        counts[tracker.next()] += 1
    # Distance to the segment, by its middle coordinate and the line through its ends.
    assert abs(counts[1] / counts.sum() - 0.4) < 0.02
    assert abs(counts[0] / counts.sum() + counts[2] / counts.sum() - 0.6) < 0.02


def test_current_tracking_follows_the_design_in_force() -> None:
    """After a change of design the old proportions are paid back at once."""
    tracker, counts = Tracker("current"), np.zeros(2)
    tracker.retarget(np.array([0, 1]), np.array([0.9, 0.1]))
    for _ in range(100):
        counts[tracker.next()] += 1
    np.testing.assert_allclose(counts, [90, 10], atol=1)
    tracker.retarget(np.array([0, 1]), np.array([0.5, 0.5]))
    assert [tracker.next() for _ in range(50)] == [1] * 50


def test_ties_go_to_the_lowest_arm_whatever_the_rounding() -> None:
    """Weights that differ by rounding are pulled in the order of the arms."""
    tracker = Tracker("averaged")
    tracker.retarget(np.array([9, 2, 5]), np.array([1 / 3 + 1e-12, 1 / 3 - 2e-12, 1 / 3 + 1e-12]))
    assert [tracker.next() for _ in range(6)] == [2, 5, 9, 2, 5, 9]


def test_an_excused_start_is_not_caught_up_with() -> None:
    """Pulls that are excused leave no debt, others are made up for."""
    excused, owed = Tracker("averaged"), Tracker("averaged")
    for tracker, note in ((excused, excused.excuse), (owed, owed.note)):
        for _ in range(5):
            note(0)
        tracker.retarget(np.array([0, 1]), np.array([0.5, 0.5]))
    assert sorted(excused.next() for _ in range(4)) == [0, 0, 1, 1]
    assert [owed.next() for _ in range(4)] == [1, 1, 1, 1]


@pytest.mark.parametrize("kind", ["pivoted", "random"])
def test_exploration_sets_span(kind: str) -> None:
    """Both kinds give d arms that span, also when a single arm of thousands completes the span."""
    X = np.zeros((3000, 3))
    X[:, :2] = np.random.default_rng(53).standard_normal((3000, 2))
    X[1777] = [0.3, 0.1, 1.0]
    arms = FiniteArms(X)
    chosen = exploration_set(arms, kind, spanning_arms(arms, frame_of(arms)), seed=4)  # type: ignore[arg-type]
    assert len(chosen) == 3
    assert np.linalg.matrix_rank(X[chosen]) == 3
    assert 1777 in chosen


def test_random_exploration_sets_follow_the_seed() -> None:
    """The same seed gives the same set, another seed another."""
    arms = FiniteArms(np.random.default_rng(54).standard_normal((500, 4)))
    pivoted = spanning_arms(arms, frame_of(arms))
    sets = [exploration_set(arms, "random", pivoted, seed=seed).tolist() for seed in (1, 1, 2)]
    assert sets[0] == sets[1] != sets[2]


def test_unknown_kinds_are_refused() -> None:
    """A misspelt option names the choices."""
    for option in ("tracking", "exploration_set"):
        with pytest.raises(InvalidInput, match=f"`{option}` must be one of '.*', got 'best'"):
            LazyTrackAndStop(**{option: "best"})  # type: ignore[arg-type]
