"""Designs for all differences: against explicit lists of pairs, farthest pairs against brute force, memory."""

import tracemalloc

import numpy as np
import pytest

from surepick.arms.finite import FiniteArms
from surepick.core.design import optimal_design
from surepick.core.design import solve as pairs
from surepick.core.design.solve import farthest_pairs, pairwise_design
from surepick.types import Array


def all_differences(rows: Array) -> Array:
    """Every z - z', one of y and -y."""
    first, second = np.triu_indices(len(rows), 1)
    return rows[first] - rows[second]


@pytest.mark.parametrize("seed", range(20))
def test_the_first_pair_is_the_farthest_of_all(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the block size, also for clusters, lines and duplicates."""
    rng = np.random.default_rng(seed)
    n, dim = int(rng.integers(2, 60)), int(rng.integers(1, 6))
    points = rng.standard_normal((n, dim)) * np.where(rng.random((n, 1)) < 0.5, 0.01, 1.0) + 5.0 * (seed % 3)
    points[rng.integers(n)] = points[0]
    monkeypatch.setattr(pairs, "BLOCK", int(rng.integers(1, 4 * n)))
    found, squares = farthest_pairs(points, 7)
    brute = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    assert squares[0] == pytest.approx(brute.max(), rel=1e-9)
    np.testing.assert_allclose(squares, brute[found[:, 0], found[:, 1]], rtol=1e-12)
    assert (np.diff(squares) <= 1e-9 * squares[0]).all()
    assert len({tuple(pair) for pair in found.tolist()}) == len(found) <= 7


@pytest.mark.parametrize("seed", range(8))
def test_the_design_is_that_of_the_explicit_list_of_pairs(seed: int) -> None:
    """Same value within the tolerances, and the bounds hold for every pair."""
    rng = np.random.default_rng(100 + seed)
    arms = FiniteArms(rng.standard_normal((15, 4)))
    candidates = arms.X[:9] if seed % 2 else rng.standard_normal((12, 4))
    design = pairwise_design(arms, candidates, tol=1e-3)
    explicit = optimal_design(arms, all_differences(candidates), tol=1e-4)
    assert design.gap <= 1e-3
    assert design.lower_bound <= explicit.value * (1 + 1e-9)
    assert design.value >= explicit.lower_bound * (1 - 1e-9)
    A = arms.X[design.support].T @ (design.weights[:, None] * arms.X[design.support])
    Y = all_differences(candidates)
    worst = np.einsum("ij,ij->i", Y, np.linalg.solve(A, Y.T).T).max()
    assert worst <= design.value * (1 + 1e-9)


def test_duplicates_and_a_single_pair_are_designed_for_too() -> None:
    """On the basis one pair e_i - e_j has value 4, (|c|_1)^2 of its L1 allocation; copies change nothing."""
    arms = FiniteArms(np.eye(4))
    for rows in (np.eye(4)[[0, 1]], np.eye(4)[[0, 1, 0, 1, 1]]):
        design = pairwise_design(arms, rows)
        assert design.lower_bound <= 4.0 <= design.value <= 4.0 * 1.01
        np.testing.assert_allclose(design.weights[:2], 0.5, atol=0.01)


def test_a_warm_start_changes_speed_alone() -> None:
    """From the design of more candidates, the same value within the tolerance."""
    rows = np.random.default_rng(3).standard_normal((30, 3))
    arms = FiniteArms(rows)
    first = pairwise_design(arms, rows)
    cold, warm = pairwise_design(arms, rows[:8]), pairwise_design(arms, rows[:8], warm_start=first)
    assert warm.value == pytest.approx(cold.value, rel=0.02)


def test_ten_thousand_candidates_need_no_table_of_pairs() -> None:
    """K^2 distances would be 800 MB; blocks and a few pairs take a tenth of that."""
    angles = np.random.default_rng(4).uniform(0.0, 2.0 * np.pi, 10_000)
    arms = FiniteArms(np.column_stack([np.cos(angles), np.sin(angles)]))
    tracemalloc.start()
    design = pairwise_design(arms, arms.X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6
    # Differences fill a disc of radius 2 up to rounding, and a disc of radius 1 has the G-optimal value d = 2.
    assert design.value == pytest.approx(8.0, rel=0.02)
