"""Offsets of groups: the projection, blocks and estimates without them, and the watch on cells."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surepick.core.betting.bets import Residuals, log_t_returns
from surepick.core.betting.block import ArmWeights, Block, fit
from surepick.core.betting.bounded import BoundedBlock
from surepick.core.groups import GroupCodes, OffsetLeastSquares, Offsets, group_effects, indicators
from surepick.core.misfit import MOST_EFFECTS, EffectWatch
from surepick.core.noise import residuals
from surepick.types import Array, IntArray
from tests.statistical.paths import error_limit

PULLS = np.array([0, 1, 2, 0, 1, 1, 2])
GROUPS = np.array([0, 0, 0, 1, 1, 1, 2])[:, None]
REWARDS = np.array([1.0, 0.2, -0.5, 3.1, 2.0, 2.4, 9.9])
Y = np.array([1.0, -1.0, 0.0])


def _block(rewards: Array = REWARDS, groups: IntArray | None = GROUPS, theta0: Array | None = None) -> Block:
    before = np.zeros(3) if theta0 is None else theta0
    return Block.of(np.eye(3)[PULLS], rewards, before, np.eye(3), arms=PULLS, groups=groups)


def _log_bet(z: float, v: float, m: float, s2: float) -> float:
    """Return the log return of a unit on N(m, s2) cut to D >= 0, as docs/guarantee.md has it."""
    p = 1.0 / s2 + 1.0 / v
    mu = (m / s2 + z / v) / p

    def log_phi(x: float) -> float:
        return math.log(0.5 * math.erfc(-x / math.sqrt(2.0)))

    square = 0.5 * (mu * mu * p - m * m / s2)
    return -0.5 * math.log(s2 * p) + square + log_phi(mu * math.sqrt(p)) - log_phi(m / math.sqrt(s2))


def test_a_block_by_hand() -> None:
    """Three arms in three groups: weights, measurement, variance, residuals and what bets return."""
    block = _block()
    found = fit(block)
    assert block.pulls is not None
    c = block.pulls[0] @ found.root @ found.root.T @ Y
    np.testing.assert_allclose(c, np.array([3, -3, 0, 4, -2, -2, 0]) / 7, atol=1e-12)
    z, q = float(Y @ found.theta), float(((found.root.T @ Y) ** 2).sum())
    np.testing.assert_allclose([z, q], 0.857143, atol=1e-6)
    assert found.residuals is not None
    assert found.residuals.R == pytest.approx(0.082857, abs=1e-6)
    assert found.residuals.nu == 2
    assert _log_bet(z, q, 0.5, 0.1) == pytest.approx(0.328413, abs=1e-6)
    one = np.ones(1)
    returned = log_t_returns(z * one, q * one, 0.5 * one, 0.1 * one, 3.0 * one, found.residuals, Residuals(5.0, 10))
    assert returned[0] == pytest.approx(1.010993, abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3))
def test_the_projection_is_that_of_all_columns(seed: int, n_factors: int) -> None:
    """Of any factors, also ones that say the same, and with weights: what dense least squares leaves."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 25))
    codes = rng.integers(0, rng.integers(1, 6), (n, n_factors))
    if n_factors > 1 and seed % 2:
        codes[:, 1] = codes[:, 0] // 2  # a week has its days
    weights, M = rng.integers(1, 9, n).astype(float), rng.standard_normal((n, 2))
    offsets, root = Offsets(codes, weights), np.sqrt(weights)[:, None]
    Z = root * indicators(codes)
    dense = (root * M - Z @ np.linalg.lstsq(Z, root * M, rcond=1e-10)[0]) / root
    np.testing.assert_allclose(offsets.off(M), dense, atol=1e-9)
    np.testing.assert_allclose(offsets.off(M[:, 0]), dense[:, 0], atol=1e-9)
    assert offsets.rank == np.linalg.matrix_rank(Z, tol=1e-8)
    kept = offsets.off(M, keeps_level=True)
    np.testing.assert_allclose(
        kept - dense, np.broadcast_to(np.average(M, axis=0, weights=weights), M.shape), atol=1e-9
    )


@pytest.mark.parametrize("size", [1.0, 1e6])
def test_no_offset_moves_a_block(size: float) -> None:
    """Whatever the groups read, z, q, R and the weights of arms stay; the same block without groups moves."""
    moved = REWARDS + size * np.array([5.0, -3.0, 40.0])[GROUPS[:, 0]]
    plain, other = fit(_block()), fit(_block(moved))
    assert plain.residuals is not None
    assert other.residuals is not None
    assert Y @ other.theta == pytest.approx(Y @ plain.theta, abs=1e-8 * size)
    assert other.residuals.R == pytest.approx(plain.residuals.R, abs=1e-8 * size)
    assert abs(Y @ (fit(_block(moved, None)).theta - fit(_block(groups=None)).theta)) > 0.1


def test_a_group_that_compares_nothing_says_nothing_and_does_no_harm() -> None:
    """A group's only pull, and days of one arm each: no direction is measured, and large offsets leave no rounding."""
    alone = fit(_block())
    keep = GROUPS[:, 0] < 2
    without = fit(Block.of(np.eye(3)[PULLS[keep]], REWARDS[keep], np.zeros(3), np.eye(3), groups=GROUPS[keep]))
    assert alone.residuals is not None
    assert without.residuals is not None
    np.testing.assert_allclose(alone.root @ alone.root.T, without.root @ without.root.T, atol=1e-12)
    assert alone.residuals.nu == without.residuals.nu
    assert alone.residuals.R == pytest.approx(without.residuals.R)
    days = np.array([0, 0, 1, 1, 2, 2])
    rows = np.random.default_rng(1).standard_normal((3, 3))[days]
    found = fit(Block.of(rows, 1e6 * days + days**0.5, np.zeros(3), np.eye(3), groups=days[:, None]))
    assert not found.root.any()
    assert found.missed is not None


def test_beside_a_constant_one_group_is_free() -> None:
    """A single group in a block changes nothing that is compared, if some combination of features is constant."""
    one = fit(_block(groups=np.zeros((7, 1), dtype=np.int64)))
    none = fit(_block(groups=None))
    assert Y @ one.theta == pytest.approx(Y @ none.theta, abs=1e-12)
    assert ((one.root.T @ Y) ** 2).sum() == pytest.approx(((none.root.T @ Y) ** 2).sum(), abs=1e-12)
    assert one.residuals is not None
    assert none.residuals is not None
    assert one.residuals.nu == none.residuals.nu
    assert one.residuals.R == pytest.approx(none.residuals.R)


def test_weights_on_bounded_rewards_sum_to_zero_in_every_group() -> None:
    """And to y over the arms; so do the weights that know of misfit, arm by arm."""
    rewards = np.array([1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    block = _block(rewards, theta0=np.array([0.6, 0.4, 0.3]))
    bounded = BoundedBlock(block, level=np.ones(3), bounds=(0.0, 1.0))
    cells, counts = np.unique(np.c_[np.eye(3)[PULLS], GROUPS], axis=0, return_counts=True)
    c = np.array(bounded.vectors[1:]) @ Y
    np.testing.assert_allclose((counts * c) @ cells[:, :3], Y, atol=1e-12)
    np.testing.assert_allclose((counts * c) @ indicators(cells[:, 3:].astype(int)), 0.0, atol=1e-12)
    found = fit(block)
    assert block.pulls is not None
    for weights in (bounded.weights, ArmWeights.of(PULLS, found.root @ (found.root.T @ block.pulls[0].T))):
        assert weights is not None
        np.testing.assert_allclose(Y @ weights.W @ np.eye(3)[weights.arms], Y, atol=1e-12)


def _results(rng: np.random.Generator, *, has_constant: bool) -> tuple[Array, Array, IntArray]:
    rows = rng.standard_normal((6, 3))
    rows[:, 0] = 1.0 if has_constant else rows[:, 0]
    pulled, days = rng.integers(0, 6, 40), np.repeat(np.arange(8), 5)
    benches = rng.integers(0, 3, 40)
    codes = np.c_[days, benches]
    rewards = rows[pulled] @ [1.0, 2.0, -1.0] + 3.0 * rng.standard_normal(8)[days] + benches + rng.standard_normal(40)
    return rows[pulled], rewards, codes


@pytest.mark.parametrize("has_constant", [True, False])
def test_the_estimate_is_least_squares_with_an_offset_for_every_group(has_constant: bool) -> None:
    """Differences of arms, their precision, residuals and degrees of freedom are those of the whole regression."""
    X, rewards, codes = _results(np.random.default_rng(3), has_constant=has_constant)
    estimate = OffsetLeastSquares(3, has_constant=has_constant)
    estimate.update_all(X[:25], rewards[:25], codes[:25])
    before = estimate.snapshot()
    estimate.update_all(X[25:], rewards[25:], codes[25:])
    M = np.hstack([X, indicators(codes)])
    beta = np.linalg.pinv(M) @ rewards
    y = X[0] - X[7]
    assert y @ estimate.theta == pytest.approx(y @ beta[:3], abs=1e-9)
    K = np.r_[y, np.zeros(M.shape[1] - 3)]
    assert y @ estimate.A_inv @ y == pytest.approx(K @ np.linalg.pinv(M.T @ M) @ K, abs=1e-9)
    assert estimate.residual_sum == pytest.approx(float(((rewards - M @ beta) ** 2).sum()), abs=1e-9)
    assert estimate.n_spare == 40 - np.linalg.matrix_rank(M)
    assert residuals(estimate).nu == estimate.n_spare
    if has_constant:  # the level is that of all results
        assert (X @ estimate.theta).mean() == pytest.approx(rewards.mean(), abs=1e-9)
    assert before.n_pulls == 25
    again = OffsetLeastSquares(3, has_constant=has_constant)
    again.update_all(X[:25], rewards[:25], codes[:25])
    np.testing.assert_array_equal(before.theta, again.theta)


def test_effects_of_groups_are_those_of_the_regression() -> None:
    """Beside the mean of their factor; unknown where the group has an arm of its own."""
    X, rewards, codes = _results(np.random.default_rng(4), has_constant=True)
    found = group_effects(X, rewards, codes)
    M = np.hstack([X, indicators(codes)])
    gamma = (np.linalg.pinv(M) @ rewards)[3:]
    np.testing.assert_allclose(found.offsets[:8], gamma[:8] - gamma[:8].mean(), atol=1e-8)
    np.testing.assert_allclose(found.offsets[8:], gamma[8:] - gamma[8:].mean(), atol=1e-8)
    assert found.counts.tolist() == [5] * 8 + np.bincount(codes[:, 1]).tolist()
    alone = group_effects(np.eye(2)[[0, 0, 1, 1]], np.array([1.0, 2.0, 5.0, 6.0]), np.array([[0], [0], [1], [1]]))
    assert np.isnan(alone.offsets).all()
    assert np.isinf(alone.errors).all()


def test_levels_have_numbers() -> None:
    """In the order in which they come; a result without a factor has its level 0."""
    codes = GroupCodes()
    labels = [[("bench", "A")], [("bench", "B"), ("day", "1")], [("day", "2")], []]
    np.testing.assert_array_equal(codes.matrix(labels), [[1, 0], [2, 1], [0, 2], [0, 0]])
    assert codes.of([("bench", "A"), ("day", "2")]) == (1, 2)


CELLS = np.array([[1.0, -1.0], [1.0, 0.0], [1.0, 1.0]])
TIMES = np.array([2, 1, 2, 1, 2, 2])


@pytest.mark.parametrize(
    ("squares", "noise_std", "of_arms", "of_groups"),
    [(0.0, 1.0, 0.031781, 7.987878), (3.0, None, 0.241923, 4.491032)],
)
def test_the_watch_by_hand(squares: float, noise_std: float | None, of_arms: float, of_groups: float) -> None:
    """Three arms in two groups: misfits of arms beside the offsets, and offsets that nobody allowed for."""
    means = np.array([1.0, 0.2, 0.9, 4.2, 3.1, 3.9])
    rewards = np.repeat(means, TIMES)
    rewards[:2] += np.array([1.0, -1.0]) * math.sqrt(squares / 2.0)  # pure error in the first cell
    X, arms = np.repeat(np.vstack([CELLS, CELLS]), TIMES, axis=0), np.repeat([0, 1, 2, 0, 1, 2], TIMES)
    groups = np.repeat([0, 0, 0, 1, 1, 1], TIMES)
    watch = EffectWatch((0.5,), noise_std)
    watch.settle(X, rewards, groups[:, None], [(arm,) for arm in arms])
    assert watch.log_evidence == pytest.approx(of_arms, abs=1e-5)
    watch = EffectWatch((2.0,), noise_std)
    watch.settle(X, rewards, np.zeros((len(X), 0), dtype=np.int64), [(group,) for group in groups])
    assert watch.log_evidence == pytest.approx(of_groups, abs=1e-5)


def _alarm(rng: np.random.Generator, noise_std: float | None, offset: float, misfit: float, *, of_arms: bool) -> bool:
    """Whether a watch ever reaches 1/0.3 in four blocks of twelve results in two groups each."""
    rows = np.c_[np.ones(6), np.arange(6.0) - 2.5]
    means = rows @ [1.0, 2.0] + misfit * np.array([1, -1, 1, -1, 1, -1])
    watch, gamma = EffectWatch((0.15, 0.5), noise_std), offset * rng.standard_normal(8)
    for k in range(4):
        arms, groups = rng.integers(0, 6, 12), 2 * k + np.repeat([0, 1], 6)
        rewards = means[arms] + gamma[groups] + rng.standard_normal(12)
        if of_arms:
            watch.settle(rows[arms], rewards, groups[:, None], [(arm,) for arm in arms])
        else:
            watch.settle(rows[arms], rewards, np.zeros((12, 0), dtype=np.int64), [(group,) for group in groups])
        if watch.log_evidence >= -math.log(0.3):
            return True
    return False


@pytest.mark.statistical
@pytest.mark.parametrize("noise_std", [1.0, None])
@pytest.mark.parametrize("of_arms", [True, False])
def test_alarms_of_the_watch_are_rare_and_find_what_is_there(noise_std: float | None, of_arms: bool) -> None:
    """At most 0.3 of the paths; a watch that errs so often exceeds the limit once in a million such tests.

    What the watch looks for exceeds the limit: a misfit of one standard deviation beside offsets of three, and offsets
    of three where only labels are known.
    """
    n = 200
    rngs = [np.random.default_rng([7, path]) for path in range(n)]
    quiet = sum(_alarm(rng, noise_std, 3.0 if of_arms else 0.0, 0.0, of_arms=of_arms) for rng in rngs)
    loud = sum(_alarm(rng, noise_std, 3.0, 1.0 if of_arms else 0.0, of_arms=of_arms) for rng in rngs)
    assert quiet <= error_limit(n, 0.3) < loud


def test_hundreds_of_items_are_not_watched() -> None:
    """A bet on that many effects would take longer than all else: evidence stays as it was."""
    rng = np.random.default_rng(0)
    watch, empty = EffectWatch((2.0,), 1.0), np.zeros((8, 0), dtype=np.int64)
    before = 0.0
    for block in range(60):
        items = [(4 * block + place,) for place in (0, 0, 1, 1, 2, 2, 3, 3)]
        watch.settle(np.ones((8, 1)), 3.0 * rng.standard_normal(8), empty, items)
        if 4 * block + 3 < MOST_EFFECTS:
            before = watch.log_evidence
    assert watch.log_evidence == before != 0.0


def test_leverages_are_the_diagonal_of_the_projection() -> None:
    """Of two factors: what dense linear algebra finds; without the level of all, less by one over their number."""
    codes = np.random.default_rng(2).integers(0, 3, (12, 2))
    Z = indicators(codes)
    diagonal = np.diagonal(Z @ np.linalg.pinv(Z))
    np.testing.assert_allclose(Offsets(codes).leverages(), diagonal, atol=1e-12)
    np.testing.assert_allclose(Offsets(codes).leverages(keeps_level=True), diagonal - 1.0 / 12, atol=1e-12)
