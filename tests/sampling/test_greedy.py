import numpy as np
import pytest

from surepick.arms.finite import FiniteArms
from surepick.sampling import alternatives
from surepick.sampling.alternatives import GreedyChoice
from surepick.types import Array


@pytest.mark.parametrize("seed", range(5))
def test_gains_are_what_one_more_pull_brings(seed: int) -> None:
    """The formula against inverting A + x x' for every arm."""
    rng = np.random.default_rng([64, seed])
    X, y = rng.standard_normal((9, 4)), rng.standard_normal(4)
    A = X.T @ X
    before = y @ np.linalg.inv(A) @ y
    brute = np.array([before - y @ np.linalg.inv(A + np.outer(x, x)) @ y for x in X])
    greedy, A_inv = GreedyChoice(FiniteArms(X)), np.linalg.inv(A).astype(np.float64)
    np.testing.assert_allclose(greedy.gains(A_inv, y), brute, rtol=1e-9)
    assert greedy.best(A_inv, y) == int(np.argmax(brute))


def test_of_equals_the_lowest_row_is_taken() -> None:
    """Rounding must not decide between an arm and its negative, which help alike."""
    rng = np.random.default_rng(65)
    rows = rng.standard_normal((3, 3))
    greedy = GreedyChoice(FiniteArms(np.vstack([-rows, rows])))
    A_inv: Array = np.linalg.inv(rows.T @ rows + np.eye(3)).astype(np.float64)
    assert greedy.best(A_inv, rows[0] - rows[1]) < 3


def test_large_tables_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a kept copy of the table the answers are the same."""
    rng = np.random.default_rng(66)
    X, y = rng.standard_normal((70_000, 2)), np.array([1.0, -0.3])
    A_inv: Array = np.linalg.inv(X[:50].T @ X[:50]).astype(np.float64)
    kept = GreedyChoice(FiniteArms(X))
    monkeypatch.setattr(alternatives, "KEPT", 10)
    mapped = GreedyChoice(FiniteArms(X))
    np.testing.assert_allclose(mapped.gains(A_inv, y), kept.gains(A_inv, y), rtol=1e-12)
    assert mapped.best(A_inv, y) == kept.best(A_inv, y)
