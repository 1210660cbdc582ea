import numpy as np
import pytest

from surepick.arms.finite import FiniteArms
from surepick.core.design.solve import optimal_design
from surepick.sampling.alternatives import L1Allocation


def spread(X: np.ndarray, weights: np.ndarray, y: np.ndarray) -> float:
    """y'A(w)^+ y."""
    return float(y @ np.linalg.pinv((X.T * weights) @ X) @ y)


@pytest.mark.parametrize("seed", range(5))
def test_no_other_proportions_measure_the_difference_better(seed: int) -> None:
    """Elfving: y'A(w)^-1 y at the allocation is (min |c|_1)^2, and random proportions are never better."""
    rng = np.random.default_rng([62, seed])
    X = rng.standard_normal((8, 3))
    y = X[0] - X[1]
    support, share = L1Allocation(FiniteArms(X)).of(y)
    assert share.sum() == pytest.approx(1.0)
    assert len(support) <= 3  # a vertex of the program has at most d arms
    weights = np.zeros(8)
    weights[support] = share
    least = spread(X, weights, y)
    for _ in range(300):
        assert spread(X, rng.dirichlet(np.full(8, 0.5)), y) >= least * (1 - 1e-9)
    # The size of the smallest combination, from the answer itself: X'c = y on the support.
    c = np.linalg.lstsq(X[support].T, y, rcond=None)[0]
    assert np.abs(c).sum() ** 2 == pytest.approx(least)
    np.testing.assert_allclose(np.abs(c) / np.abs(c).sum(), share, atol=1e-7)


def test_soare_in_closed_form() -> None:
    """For e1 - (cos w, sin w) only e1 and e2 are pulled, in the proportions 1 - cos w and sin w."""
    w = 0.1
    arms = FiniteArms([[1.0, 0.0], [0.0, 1.0], [np.cos(w), np.sin(w)]])
    support, share = L1Allocation(arms).of(arms.X[0] - arms.X[2])
    expected = np.array([1 - np.cos(w), np.sin(w)])
    assert support.tolist() == [0, 1]
    np.testing.assert_allclose(share, expected / expected.sum(), rtol=1e-6)


def test_it_agrees_with_the_design_solver() -> None:
    """The solver's optimal design for one direction has the same value."""
    rng = np.random.default_rng(63)
    X = rng.standard_normal((12, 4))
    y = X[3] - X[7]
    support, share = L1Allocation(FiniteArms(X)).of(y)
    weights = np.zeros(12)
    weights[support] = share
    design = optimal_design(FiniteArms(X), directions=y[None], tol=1e-4)
    assert spread(X, weights, y) == pytest.approx(design.value, rel=2e-4)


def test_a_named_difference_is_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second question with the same key needs no linear program."""
    allocation = L1Allocation(FiniteArms(np.eye(3)))
    first = allocation.of(np.array([1.0, -1.0, 0.0]), key=(0, 1))
    monkeypatch.setattr("scipy.optimize.linprog", None)
    assert allocation.of(np.array([1.0, -1.0, 0.0]), key=(0, 1)) is first
