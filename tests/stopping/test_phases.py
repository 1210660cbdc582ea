"""Elimination by phases against brute force, and what it must do at the edges."""

import numpy as np
import pytest

from surepick.core.estimate import LeastSquares
from surepick.stopping import phases
from surepick.stopping.phases import Phase, Phases, PhaseState
from surepick.types import Array
from tests.blocks import block_of
from tests.tasks import task_of


def brute_force(Z: Array, A: Array, b: Array, width: float, at_least: float = 0.0) -> list[bool]:
    """Which rows lose, by loops over pairs and a pseudo-inverse."""
    inverse = np.linalg.pinv(A, rcond=1e-10, hermitian=True)
    theta, gone = inverse @ b, []
    for z in Z:
        is_beaten = False
        for other in Z:
            y = other - z
            is_seen = np.linalg.norm(y - A @ (inverse @ y)) <= 1e-7
            gap = theta @ y
            is_beaten |= bool(is_seen and gap > 0 and gap >= max(at_least, width * np.sqrt(max(y @ inverse @ y, 0.0))))
        gone.append(is_beaten)
    return gone


def pulled(rows: Array, theta: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Information and moments of one noisy pull of each row."""
    rewards = rows @ theta + rng.standard_normal(len(rows))
    return rows.T @ rows, rows.T @ rewards


@pytest.mark.parametrize("seed", range(30))
def test_beaten_agrees_with_a_loop_over_pairs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With any block size, phases that leave directions unmeasured, duplicates, and a least gap."""
    rng = np.random.default_rng(seed)
    n, dim = int(rng.integers(2, 25)), int(rng.integers(1, 5))
    Z = rng.integers(-2, 3, size=(n, dim)).astype(float)  # small integers: duplicates and ties occur
    rows = rng.standard_normal((20, dim))
    if seed % 3 == 0:
        rows[:, -1] = 0.0
    A, b = pulled(rows, rng.standard_normal(dim), rng)
    monkeypatch.setattr(phases, "CHUNK", int(rng.integers(1, 3 * n)))
    width, at_least = float(rng.uniform(0.5, 3.0)), float(rng.choice([0.0, 1.0]))
    assert Phase(Z, block_of(A, b)).beaten(width, at_least=at_least).tolist() == brute_force(Z, A, b, width, at_least)


def test_rows_alike_to_many_digits_keep_their_order() -> None:
    """Distances come from differences: rows that agree to eight digits are compared, not confused."""
    Z = np.array([[1.0, 0.0], [1.0, 1e-8], [0.0, 1.0]])
    A, theta = 1e20 * np.eye(2), np.array([1.0, 3.0])
    assert Phase(Z, block_of(A, A @ theta)).beaten(3.0).tolist() == [True, True, False]
    assert Phase(Z[:2], block_of(A, A @ theta)).beaten(3.0).tolist() == [True, False]
    # The first two differ by 1e-8 in a direction measured to 1e-10: the gap of 3e-8 is 3e10 standard errors.
    assert Phase(Z[:2], block_of(A, A @ theta)).beaten(2.9e10).tolist() == [True, False]
    assert Phase(Z[:2], block_of(A, A @ theta)).beaten(3.1e10).tolist() == [False, False]


def state_on(Z: Array, *, epsilon: float = 0.0, noise_std: float = 1.0) -> PhaseState:
    """A rule with a price of 2 at work on these candidates."""
    task = task_of(np.eye(Z.shape[1]), candidates=Z, epsilon=epsilon, noise_std=noise_std)
    return Phases(price=lambda _: 2.0).start(task)


def told(dim: int) -> LeastSquares:
    """An estimate that exists."""
    estimate = LeastSquares(dim)
    for x in np.eye(dim):
        estimate.update(x, 0.0)
    return estimate


def test_phases_reject_for_good_and_the_last_one_left_is_the_answer() -> None:
    """The second phase sees only who is left, and data of the first play no part in it."""
    state, estimate = state_on(np.eye(3)), told(3)
    first = state.after_block(estimate, block_of(10.0 * np.eye(3), 10.0 * np.array([1.0, 0.9, -2.0])))
    assert not first.stopped
    assert state.left.tolist() == [0, 1]
    assert state.alive(0).tolist() == [False, True, False]
    second = state.after_block(estimate, block_of(10.0 * np.eye(3), 10.0 * np.array([-3.0, 0.0, 9.0])))
    assert second.stopped
    assert second.leader == 1
    assert state.n_phases == 2


def test_a_phase_without_results_changes_nothing() -> None:
    """Nothing was measured: nobody goes, and the phase counts."""
    state = state_on(np.eye(3))
    verdict = state.after_block(LeastSquares(3), block_of(np.zeros((3, 3)), np.zeros(3)))
    assert not verdict.stopped
    assert verdict.leader is None
    assert state.left.tolist() == [0, 1, 2]
    assert state.n_phases == 1


def test_copies_of_the_answer_are_no_rivals() -> None:
    """Three equal rows and a bad one: the lowest number answers."""
    state = state_on(np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]))
    verdict = state.after_block(told(2), block_of(50.0 * np.eye(2), 50.0 * np.array([1.0, 0.0])))
    assert verdict.stopped
    assert verdict.leader == 1


def test_slack_ends_a_tie_exactly_when_the_bound_allows() -> None:
    """|y|^2 = 2/n: epsilon^2 n/4 must reach the price 2 times noise_std^2."""
    for noise_std in (0.5, 1.0):
        for n, stops in ((1.01 * 32 * noise_std**2, True), (0.99 * 32 * noise_std**2, False)):
            state = state_on(np.eye(2), epsilon=0.5, noise_std=noise_std)
            verdict = state.after_block(told(2), block_of(n * np.eye(2), n * np.array([1.0, 1.0])))
            assert verdict.stopped == stops


def test_the_best_candidate_is_rejected_no_more_often_than_the_price_says() -> None:
    """Two candidates as good as tied, one test of risk exp(-price): 2000 phases, exact binomial limit."""
    rng, price = np.random.default_rng(8), 3.0
    width, risk = np.sqrt(2.0 * price), np.exp(-price)
    wrong = 0
    for _ in range(2000):
        values = rng.standard_normal(2) / np.sqrt(10.0) + np.array([1e-9, 0.0])
        wrong += bool(Phase(np.eye(2), block_of(10.0 * np.eye(2), 10.0 * values)).beaten(width)[0])
    # The Gaussian tail at sqrt(6) is 0.0072, its bound exp(-3) 0.0498: the count lies near the first, below the second.
    assert 2 <= wrong <= 2000 * risk


def test_near_copies_are_not_compared_by_half_of_their_difference() -> None:
    """Rows that differ by a millionth, a third of it unmeasured: what was measured says nothing about who is better."""
    t, n = 1e-6, 10_000.0
    Z = np.array([[1.0, 1.0], [1.0 + t, 1.0 - 0.29 * t]])
    theta = np.array([1.0, 10.0])  # the first is better by 1.9e-6, and worse by 1e-6 in what was measured
    phase = Phase(Z, block_of(np.diag([n, 0.0]), [n * theta[0], 0.0]))
    assert phase.beaten(3.0).tolist() == [False, False]
    assert phase.least_certainty(1, 0.0, np.array([0])) == 0.0
    # Unmeasured directions in which they do not differ are no obstacle.
    same = np.array([[1.0, 1.0], [1.0 + t, 1.0]])
    phase = Phase(same, block_of(np.diag([n, 0.0]), [n * theta[0], 0.0]))
    assert phase.beaten(99.0).tolist() == [True, False]
    assert phase.beaten(101.0).tolist() == [False, False]
