"""The accounts of calls: against plain formulas, the list of e-BH, and how often calls are wrong."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from surepick.arms.finite import FiniteArms
from surepick.core.betting.bets import SHRUNK, log_returns
from surepick.core.betting.targets import FAILED, MET, OPEN, TargetWealth
from surepick.core.design.targets import Target, rows_apart
from surepick.errors import TiedArms
from surepick.types import Array
from tests.blocks import block_of

X = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, -1.0], [1.0, 0.5]])
DELTA = 0.3


def _wealth(rows: Array, target: Target, **options: float) -> TargetWealth:
    return TargetWealth(FiniteArms.rows_only(rows, least=1), target=target, delta=DELTA, noise_std=1.0, **options)


@pytest.mark.parametrize("control", [None, 2])
@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_accounts_are_bets_on_both_sides_of_the_target(control: int | None, epsilon: float) -> None:
    """One block against the formulas of the docstring, with the level known and unknown theta."""
    rng, value = np.random.default_rng(4), 0.7 if control is None else -0.1
    A, theta0 = np.array([[6.0, 1.0], [1.0, 5.0]]), np.array([0.9, 0.3])
    b = A @ [1.0, 0.2] + rng.standard_normal(2)
    wealth = _wealth(X, Target(value, control), epsilon=epsilon)
    wealth.settle(block_of(A, b, theta0, 0.25 * np.eye(2)))
    K = len(X) - (control is not None)
    belief = SHRUNK.belief(theta0, 0.25 * np.eye(2), 1.0, np.zeros(2))
    for a in range(len(X)):
        if a == control:
            continue
        y = X[a] if control is None else X[a] - X[control]
        z, v = float(y @ np.linalg.solve(A, b)), float(y @ np.linalg.solve(A, y))
        for place, sign in enumerate((1.0, -1.0)):
            m = max(sign * (float(belief.mean @ y) - value) + epsilon, 0.0)
            s2, rest = float(((belief.root.T @ y) ** 2).sum()), math.log(K / DELTA)
            numbers = np.array([sign * (z - value) + epsilon, v, m, s2, rest])
            won = log_returns(*numbers[:, None])
            assert wealth._accounts[place, a] == pytest.approx(float(won[0]), rel=1e-9)


def test_turned_around_met_is_failed() -> None:
    """With rewards and target times -1, the two accounts of every row change places."""
    A, b, theta0 = 9.0 * np.eye(2), np.array([9.0, 3.0]), np.array([0.8, 0.2])
    one, other = _wealth(X, Target(0.5)), _wealth(X, Target(-0.5))
    one.settle(block_of(A, b, theta0))
    other.settle(block_of(A, -b, -theta0))
    np.testing.assert_allclose(one._accounts, other._accounts[::-1], rtol=1e-12)


@pytest.mark.parametrize(
    ("calls", "wealth", "n_met"),
    [
        # K = 4 and delta = 0.3: the prices of lists of 1, 2, 3 and 4 are 13.4, 6.7, 4.5 and 3.4.
        ("all", [14.0, 13.0, 9.0, 5.0], 1),
        ("fdr", [14.0, 13.0, 9.0, 3.0], 3),
        ("fdr", [12.0, 6.0, 5.0, 4.0], 4),  # none alone, all together
        ("fdr", [12.0, 6.0, 4.0, 3.0], 0),
    ],
)
def test_lists(calls: str, wealth: list[float], n_met: int) -> None:
    """The longest list in which every row has reached the price of the list."""
    accounts = _wealth(X, Target(0.5, None, "fdr" if calls == "fdr" else "all"))
    accounts._accounts[0] = np.log(wealth)
    accounts._call()
    assert accounts.calls.tolist() == [MET] * n_met + [OPEN] * (4 - n_met)
    assert accounts.is_open.tolist() == [False] * n_met + [True] * (4 - n_met)
    evidence = accounts.log_wealth(0)
    assert (evidence[:n_met] >= accounts.log_price).all()
    assert (evidence[n_met:] < accounts.log_price).all()


def test_called_rows_rest_and_lists_grow() -> None:
    """A listed account no longer changes, and its list makes the next row cheaper."""
    wealth = _wealth(X, Target(0.5, None, "fdr"))
    wealth._accounts[0] = np.log([30.0, 6.0, 1.0, 1.0])
    wealth._call()
    assert wealth.calls.tolist() == [MET, OPEN, OPEN, OPEN]
    before = wealth._accounts[:, 0].copy()
    wealth.settle(block_of(9.0 * np.eye(2), [9.0, 6.0], [0.8, 0.4]))
    assert (wealth._accounts[:, 0] == before).all()
    assert wealth.calls[1] == MET  # at 6.7, the price of a list of two


def test_rows_that_need_no_measurement() -> None:
    """Copies of the control, and rows of zeros, are called at once; the control has no call."""
    rows = np.vstack([X, X[2]])
    for margin, call in ((0.0, FAILED), (0.5, MET)):
        wealth = _wealth(rows, Target(0.0 - margin, 2))
        assert wealth.calls.tolist() == [OPEN, OPEN, OPEN, OPEN, call]
        assert wealth.is_open.tolist() == [True, True, False, True, False]
        assert wealth.n_rows == 4
    zeros = np.vstack([X, np.zeros(2)])
    assert [_wealth(zeros, Target(value)).calls[-1] for value in (-1.0, 0.0, 1.0)] == [MET, MET, FAILED]


def test_directions_of_calls() -> None:
    """Divided by their distance from the target; rows on the target have none."""
    theta, arms = np.array([1.0, 0.5]), FiniteArms(X)
    rows = rows_apart(arms, Target(0.9), theta)
    np.testing.assert_allclose(rows, math.sqrt(2.0) * X / np.abs(X @ theta - 0.9)[:, None])
    assert not rows_apart(arms, Target(0.0, 1), theta)[1].any()
    wide = rows_apart(arms, Target(0.9), theta, errors=np.eye(2))
    np.testing.assert_allclose(wide[0], math.sqrt(2.0) * X[0])  # a distance of 0.1, known to 1
    assert Target(0.9).least_distance(arms, theta) == pytest.approx(0.1)
    assert Target(0.0, 1).least_distance(arms, theta) == pytest.approx(0.25)  # of 1.5 from 1.25, not of 1.5 itself
    with pytest.raises(TiedArms, match="arm 0 is on the target"):
        rows_apart(arms, Target(1.0), theta)
    assert np.isfinite(rows_apart(arms, Target(1.0), theta, epsilon=0.1)).all()


def _any_wrong(seed: int, calls: str, *, is_broken: bool) -> bool:
    """Sixteen arms, all 0.01 below the target, in blocks of four pulls of each: whether one is called met."""
    rng, K, pulls = np.random.default_rng([seed, 32]), 16, 4.0
    wealth = _wealth(np.eye(K), Target(0.5, None, "fdr" if calls == "fdr" else "all"))
    if is_broken:
        wealth.n_rows = 1  # without log K in the price
    total = np.zeros(K)
    for k in range(50):
        b = pulls * 0.49 + math.sqrt(pulls) * rng.standard_normal(K)
        if k and wealth.answer is None:
            wealth.settle(block_of(pulls * np.eye(K), b, total / (pulls * k), np.eye(K) / (pulls * k)))
        total += b
    return bool((wealth.calls == MET).any())


@pytest.mark.parametrize("calls", ["all", "fdr"])
def test_calls_are_rarely_wrong(calls: str) -> None:
    """Any wrong call in at most delta of the runs; a false alarm of this test has a probability below 1e-6.

    All arms are below the target, so that the share of wrong calls among the met is 1 or 0, and the false discovery
    rate is the probability of any. Without log K in the price the test fails.
    """
    n = 60
    most = binom.isf(1e-6, n, DELTA)
    assert sum(_any_wrong(seed, calls, is_broken=False) for seed in range(n)) <= most
    assert sum(_any_wrong(seed, calls, is_broken=True) for seed in range(n)) > most
