"""Blocks and running sums keep the noise however large the rewards are, and drop nothing that could matter."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

import surepick as sp
from surepick.core.betting.block import LARGEST_REWARD, NEGLIGIBLE, Block, fit
from surepick.core.estimate import LeastSquares
from surepick.errors import InvalidInput
from surepick.types import Array


def exact_theta(X: Array, pulls: list[tuple[int, float]]) -> list[Fraction]:
    """Least squares in rational arithmetic."""
    rows = [[Fraction(float(entry)) for entry in row] for row in X]
    dim = len(rows[0])
    sums, counts = [Fraction(0)] * len(rows), [0] * len(rows)
    for arm, reward in pulls:
        sums[arm] += Fraction(reward)
        counts[arm] += 1
    arms = range(len(rows))
    system = [
        [sum((counts[k] * rows[k][i] * rows[k][j] for k in arms), Fraction(0)) for j in range(dim)]
        + [sum((sums[k] * rows[k][i] for k in arms), Fraction(0))]
        for i in range(dim)
    ]
    for i in range(dim):
        system[i] = [entry / system[i][i] for entry in system[i]]
        for j in range(dim):
            if j != i:
                system[j] = [a - system[j][i] * b for a, b in zip(system[j], system[i], strict=True)]
    return [row[-1] for row in system]


def largest_error(theta: Array, exact: list[Fraction]) -> float:
    """How far an estimate is from the exact one."""
    return max(abs(float(Fraction(value) - truth)) for value, truth in zip(theta.tolist(), exact, strict=True))


def large_pulls(n: int, first: int) -> tuple[Array, list[tuple[int, float]]]:
    """Arms near the basis with rewards close to the largest allowed, noise 1; the first pulls do not span."""
    rng = np.random.default_rng(50)
    X = np.eye(3)[[0, 1, 2, 0, 1]] + 0.3 * rng.standard_normal((5, 3))
    means = X @ (0.5 * LARGEST_REWARD * np.array([1.0, -0.4, 0.7]))
    arms = np.concatenate([np.arange(first) % 2, rng.integers(5, size=n - first)])
    return X, [(int(arm), float(means[arm] + rng.standard_normal())) for arm in arms]


@pytest.mark.parametrize("first", [0, 10_000])
def test_running_sums_of_huge_rewards_keep_the_noise(first: int) -> None:
    """Twenty thousand rewards of 5e8 noise_std: the estimate is that of exact arithmetic to 5e-6 noise_std.

    Plain sums are off by 7e-5 here, and their error grows like the pulls to the power 3/2.
    """
    X, pulls = large_pulls(20_000, first)
    estimate = LeastSquares(3)
    for arm, reward in pulls:
        estimate.update(X[arm], reward)
    exact = exact_theta(X, pulls)
    assert largest_error(estimate.theta, exact) < 5e-6


def test_a_block_of_huge_rewards_keeps_the_noise() -> None:
    """Measured from a rough estimate, the block's own least squares is that of exact arithmetic to 1e-6 noise_std."""
    X, pulls = large_pulls(5000, 0)
    rough = np.array([float(value) for value in exact_theta(X, pulls[:10])])
    arms, rewards = zip(*pulls, strict=True)
    block = Block.of(X[list(arms)], np.array(rewards), rough, np.eye(3))
    assert largest_error(fit(block).theta, exact_theta(X, pulls)) < 1e-6
    np.testing.assert_allclose(block.moments, sum(reward * X[arm] for arm, reward in pulls), rtol=1e-9)


@pytest.mark.parametrize("stopping", ["betting", "evidence"])
def test_rewards_that_leave_no_digits_for_the_noise_are_refused(stopping: str) -> None:
    """Beyond a billion noise_std, in the unit of the rewards; nothing is recorded."""
    learner = sp.create_learner("lazy-track-and-stop", np.eye(2), noise_std=0.1, stopping=stopping, earlier="evidence")
    before = learner.log
    for reward in (1.01 * LARGEST_REWARD * 0.1, -0.9e12):
        with pytest.raises(InvalidInput, match="lost in rounding"):
            learner.tell(0, reward)
    assert learner.log == before
    learner.tell(0, 0.99 * LARGEST_REWARD * 0.1)


def test_what_sticks_out_of_the_range_is_weighed_by_what_is_known_of_it() -> None:
    """5e-10 of a contrast is unmeasured: negligible if theta was known in that direction, not if nothing is known."""
    A, y = np.diag([100.0, 0.0]), np.array([1.0, 5e-10])
    for known, is_negligible in ((1.0, True), (100.0, True), (1e6, False), (None, False)):
        said = fit(Block(A, np.zeros(2), np.zeros(2), None if known is None else np.diag([1.0, known])))
        assert said.missed is not None
        share = float(np.linalg.norm(said.missed.T @ y) / np.linalg.norm(said.root.T @ y))
        assert share == pytest.approx(5e-9 * (LARGEST_REWARD if known is None else np.sqrt(known)))
        assert (share <= NEGLIGIBLE) == is_negligible
    assert fit(Block(np.eye(2), np.zeros(2), np.zeros(2))).missed is None


NEAR_COPIES = np.array([[0.0, 1.0], [1.0, 1.0 + 9e-10], [1.0, 0.0]])


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["lazy-track-and-stop", "rage"])
def test_a_small_part_of_a_contrast_that_decides_is_not_left_out(name: str) -> None:
    """The second arm is best by .02, thanks to 9e-10 of a feature worth 9e8; without that it loses by .79.

    At delta = .05, 20 runs exceed the limit with probability below 1e-6; leaving the part out, half are.
    """
    theta = np.array([-0.79, 9e8])
    means = [float(sum(Fraction(a) * Fraction(b) for a, b in zip(row, theta, strict=True))) for row in NEAR_COPIES]
    wrong = 0
    for run in range(20):
        rng = np.random.default_rng([5, run])

        def pull(arm: int, rng: np.random.Generator = rng) -> float:
            return means[arm] + float(rng.standard_normal())

        result = sp.identify(NEAR_COPIES, pull, noise_std=1.0, algorithm=name, max_pulls=400)
        wrong += result.stopped and result.best != 1
    assert wrong <= binom.isf(1e-6, 20, 0.05)
