import numpy as np
import pytest

from surepick.arms.finite import FiniteArms
from surepick.sampling import alternatives
from surepick.sampling.alternatives import Alternatives, Rows


@pytest.mark.parametrize("kept", [10, 4_000_000])
@pytest.mark.parametrize("seed", range(3))
def test_costs_are_distances_to_half_spaces(kept: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At lambda = theta - (gap/q) A^-1 y leader and rival tie; the cost is half the squared distance to it."""
    monkeypatch.setattr(alternatives, "KEPT", kept)
    rng = np.random.default_rng([68, seed])
    X = np.vstack([rng.standard_normal((8, 3)), np.zeros((1, 3))])
    X[8] = X[2]
    theta, A = rng.standard_normal(3), X.T @ X
    A_inv = np.linalg.inv(A)
    found = Alternatives(FiniteArms(X))
    leader = int(np.argmax(X[:8] @ theta))
    gap, costs = found.costs(leader, theta, A_inv)
    for j in range(9):
        y = X[leader] - X[j]
        if np.array_equal(X[j], X[leader]):
            assert costs[j] == np.inf
            continue
        q = y @ A_inv @ y
        change = (y @ theta / q) * (A_inv @ y)
        assert y @ (theta - change) == pytest.approx(0.0, abs=1e-9)
        assert costs[j] == pytest.approx(0.5 * change @ A @ change)
        assert gap[j] == pytest.approx(y @ theta)
    closest = found.closest(leader, theta, A_inv)
    assert closest is not None
    assert closest.rival == int(np.argmin(np.round(costs, 12)))
    np.testing.assert_allclose(closest.y, X[leader] - X[closest.rival])
    np.testing.assert_allclose(found.differences(leader, [0, 1]), X[leader] - X[:2])


def test_who_is_a_rival() -> None:
    """Not the leader, not its copies, only those of `among`; None if nobody is left."""
    X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    found = Alternatives(FiniteArms(X))
    assert found.rivals(0).tolist() == [False, True, False, True]
    among = np.array([True, False, True, False])
    assert found.closest(0, np.ones(2), np.eye(2), among) is None
    # A rival that leads costs nothing.
    closest = found.closest(0, np.ones(2), np.eye(2))
    assert closest is not None
    assert (closest.rival, closest.cost) == (1, 0.0)


def test_rows_answer_alike_kept_or_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products, squares and information against the table itself, in one piece or several."""
    rng = np.random.default_rng(69)
    X, w = rng.standard_normal((70_000, 2)), rng.random(70_000)
    Q = np.array([[2.0, 0.3], [0.3, 1.0]])
    for kept in (4_000_000, 10):
        monkeypatch.setattr(alternatives, "KEPT", kept)
        rows = Rows(FiniteArms(X))
        np.testing.assert_allclose(rows.times(Q[0]), X @ Q[0])
        np.testing.assert_allclose(rows.squares(Q), np.einsum("ij,jk,ik->i", X, Q, X))
        np.testing.assert_allclose(rows.information(w), (X.T * w) @ X)
