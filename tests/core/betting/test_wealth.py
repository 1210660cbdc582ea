"""The betting rule's accounts, with and without slack: block by block, by hand and by plain formulas."""

import math
import tracemalloc
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from benchmarks.bet_variants import CAPPED, PLAIN, log_bet
from surepick.arms import base as arms_module
from surepick.arms.base import ArmSet
from surepick.arms.finite import FiniteArms
from surepick.arms.views import whiten
from surepick.core.betting import wealth as wealth_module
from surepick.core.betting.bets import SHRUNK, Sizes
from surepick.core.betting.block import Block
from surepick.core.betting.wealth import BaseWealth, EpsilonWealth, Wealth
from surepick.errors import InvalidInput
from surepick.types import Array, IntArray
from tests.blocks import block_of
from tests.statistical.bets import block_statistics


class Rows(ArmSet):
    """Candidates in memory, visited in chunks of a chosen size."""

    def __init__(self, X: Array, step: int = 1000) -> None:
        self.X, self.step = X, step
        self.n_arms, self.dim = X.shape

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """The rows with these numbers."""
        rows: Array = self.X[np.asarray(index)]
        return rows

    def copies(self, arm: int) -> IntArray:
        """The rows equal to this one."""
        return np.flatnonzero((self.X == self.X[arm]).all(axis=1)).astype(np.int64)

    def chunks(self) -> Iterator[tuple[int, Array]]:
        """All rows, `step` at a time."""
        for start in range(0, self.n_arms, self.step):
            yield start, self.X[start : start + self.step]


def _gram(X: Array, counts: Array) -> Array:
    A: Array = (X.T * counts) @ X
    return A


def test_block_statistics_agree_with_the_pseudo_inverse() -> None:
    """A block that measures three of five dimensions says what its pseudo-inverse says, on its range only."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((3, 5))
    A, b = _gram(X, np.array([4.0, 1.0, 9.0])), rng.standard_normal(3) @ X
    Y = np.vstack([rng.standard_normal((4, 3)) @ X, rng.standard_normal((4, 5))])
    z, v, inside = block_statistics(Y, A, b, noise_std=0.3)
    assert inside.tolist() == [True] * 4 + [False] * 4
    inverse = np.linalg.pinv(A, rcond=1e-12)
    np.testing.assert_allclose(z[:4], Y[:4] @ inverse @ b, rtol=1e-9)
    np.testing.assert_allclose(v[:4], 0.09 * np.einsum("ij,jk,ik->i", Y[:4], inverse, Y[:4]), rtol=1e-9)


@pytest.mark.parametrize(("part", "is_inside"), [(1e-12, True), (1e-8, False), (1.0, False)])
def test_a_direction_is_in_range_only_up_to_rounding(part: float, is_inside: bool) -> None:
    """What a block leaves out of a direction must be rounding, relative to the direction's length."""
    A = np.diag([3.0, 2.0, 0.0])
    for scale in (1e-6, 1.0, 1e6):
        Y = scale * np.array([[1.0, -1.0, part]])
        assert block_statistics(Y, A, np.ones(3), noise_std=1.0)[2].tolist() == [is_inside]


def test_an_empty_block_says_nothing() -> None:
    """A block whose pulls all failed has nothing in its range."""
    assert not block_statistics(np.eye(3), np.zeros((3, 3)), np.zeros(3), noise_std=1.0)[2].any()


def _play(
    wealth: BaseWealth, X: Array, theta: Array, *, noise_std: float, n_blocks: int, seed: int, scale: float = 1.0
) -> list[tuple]:
    """Pull all arms X in blocks of growing length; return (leader, theta, A_inv, A, b) of each block."""
    rng = np.random.default_rng(seed)
    total = np.full(len(X), 3.0)
    moments = X.T @ (total * (X @ theta) + np.sqrt(total) * noise_std * rng.standard_normal(len(X))) * scale
    played = []
    for _ in range(n_blocks):
        A_inv = np.linalg.inv(_gram(X, total))
        estimate = A_inv @ moments
        counts = np.ceil(0.4 * total)
        sums = counts * (X @ theta) + np.sqrt(counts) * noise_std * rng.standard_normal(len(X))
        A, b = _gram(X, counts), X.T @ sums * scale
        total += counts
        moments += b
        if wealth.answer is not None:
            break
        leader = wealth.leading(estimate)
        wealth.settle(block_of(A, b, estimate, A_inv))
        played.append((leader, estimate, A_inv, A, b))
    return played


@pytest.mark.parametrize("sizes", [PLAIN, SHRUNK, CAPPED], ids=repr)
def test_wealth_is_the_sum_of_the_bets_along_the_path(sizes: Sizes) -> None:
    """Candidates that are not the arms, several leaders: L_b is what the formula adds up to, one by one."""
    rng = np.random.default_rng(3)
    X, Z, theta = rng.standard_normal((6, 3)), 0.3 * rng.standard_normal((9, 3)), np.array([0.2, 0.1, -0.1])
    level = np.array([0.5, 0.0, 1.0])
    wealth = Wealth(Rows(Z), delta=1e-6, noise_std=0.7, sizes=sizes, level=level)
    blocks = _play(wealth, X, theta, noise_std=0.7, n_blocks=6, seed=4)
    total = np.zeros(9)
    for leader, estimate, A_inv, A, b in blocks:
        belief = sizes.belief(estimate, A_inv, 0.7, level)
        for c in range(9):
            y = Z[leader] - Z[c]
            if c != leader and total[c] < math.log(1e6):
                solved, rest = np.linalg.solve(A, y), math.log(1e6) - total[c]
                bet = (
                    solved @ b,
                    0.49 * solved @ y,
                    max(belief.mean @ y, 0),
                    (y @ belief.root) @ (y @ belief.root),
                    rest,
                )
                total[c] += sizes.log_returns(*(np.array([value]) for value in bet))[0]
    np.testing.assert_allclose(wealth.log_wealth(0)[1:], total[1:], rtol=1e-9, atol=1e-12)
    assert wealth.n_blocks == len(blocks)


def test_wealth_does_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows fetched by index, in one chunk, in threes, or as those of a large table give the same wealth and leaders."""
    rng = np.random.default_rng(5)
    X, theta = rng.standard_normal((50, 4)), np.array([0.5, 0.0, 0.2, -0.3])
    results = []
    for rows, gather, piece, small in (
        (Rows(X), 4096, 2048, 500_000),
        (Rows(X), 0, 2048, 500_000),
        (Rows(X), 0, 7, 500_000),
        (Rows(X, step=3), 0, 2048, 0),
    ):
        for name, value in (("GATHER_ROWS", gather), ("PIECE", piece), ("SMALL", small)):
            monkeypatch.setattr(arms_module, name, value)
        wealth = Wealth(rows, delta=0.05, noise_std=1.0)
        leaders = [block[0] for block in _play(wealth, X, theta, noise_std=1.0, n_blocks=8, seed=6)]
        results.append((leaders, wealth.log_wealth(0), wealth.alternatives(0)))
    assert 1 < results[0][2].sum() < 49
    for leaders, log_wealth, survivors in results[1:]:
        assert leaders == results[0][0]
        np.testing.assert_allclose(log_wealth, results[0][1], rtol=1e-10)
        np.testing.assert_array_equal(survivors, results[0][2])


@pytest.mark.parametrize(("n_pulled", "n_bets"), [(6, 39), (3, 2)])
def test_wealth_in_whitened_coordinates_is_that_of_the_plain_formulas(n_pulled: int, n_bets: int) -> None:
    """Badly scaled and correlated features, duplicates, also blocks that do not span: the fused forms agree."""
    rng = np.random.default_rng(11)
    base = rng.standard_normal((40, 6))
    X = base @ np.diag([1e4, 1.0, 1e-3, 1.0, 1.0, 30.0]) @ (np.eye(6) + 0.9 * np.ones((6, 6)))
    X[7] = X[21]
    white = whiten(FiniteArms(X))
    rows = white.gather(np.arange(40))
    A_inv, theta = np.eye(6) / 20, rows[0] / 9
    leader = int(np.argmax(rows @ theta))
    pulled = np.roll(rows, -leader, axis=0)[:n_pulled]
    A, b = pulled.T @ pulled, pulled.T @ rng.standard_normal(n_pulled)
    wealth = Wealth(white, delta=1e-9, noise_std=0.4, sizes=PLAIN)
    wealth.settle(block_of(A, b, theta, A_inv))
    Y = rows[leader] - rows
    z, v, inside = block_statistics(Y, A, b, noise_std=0.4)
    m, s2 = np.maximum(Y @ theta, 0.0), 0.16 * ((Y @ A_inv) * Y).sum(axis=1)
    inside[leader] = False  # nobody bets against the leader
    assert inside.sum() == n_bets
    expected = np.zeros(40)
    expected[inside] = log_bet(z[inside], v[inside], m[inside], s2[inside])
    others, found = np.arange(40) != leader, wealth.log_wealth(leader)
    np.testing.assert_allclose(found[others], expected[others], rtol=1e-8, atol=1e-8)
    assert found[7] == pytest.approx(found[21], abs=1e-8)


@pytest.mark.parametrize("gather", [0, 4096])
def test_of_equal_candidates_the_first_leads(monkeypatch: pytest.MonkeyPatch, gather: int) -> None:
    """Equal estimates give the lead to the lower row number, also across chunks."""
    monkeypatch.setattr(arms_module, "GATHER_ROWS", gather)
    X = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 2.0], [1.0, 5.0]])
    wealth = Wealth(Rows(X, step=2), delta=0.05, noise_std=1.0)
    assert wealth.leading([1.0, 0.0]) == 1


@pytest.mark.parametrize("epsilon", [0.0, 0.05])
def test_wealth_depends_neither_on_features_nor_on_units(epsilon: float) -> None:
    """An invertible change of features, or other units of reward, leaves every wealth as it is."""
    rng = np.random.default_rng(7)
    X, theta = rng.standard_normal((8, 3)), np.array([0.3, 0.1, -0.2])
    change = np.array([[2.0, 1.0, 0.0], [0.0, 0.5, 0.3], [1.0, 0.0, 4.0]])
    kept = []
    for arms, truth, unit in (
        (X, theta, 1.0),
        (X @ change, np.linalg.solve(change, theta), 1.0),
        (X, theta, 1e4),
    ):
        # The prior is about whitened coordinates, plain bets are about any.
        accounts = EpsilonWealth if epsilon > 0 else Wealth
        wealth = accounts(Rows(arms), delta=1e-5, noise_std=unit, epsilon=epsilon * unit, sizes=PLAIN)
        blocks = _play(wealth, arms, truth, noise_std=1.0, n_blocks=6, seed=8, scale=unit)
        kept.append([wealth.log_wealth(block[0]) for block in blocks])
    np.testing.assert_allclose(kept[1], kept[0], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(kept[2], kept[0], rtol=1e-8, atol=1e-10)


def test_rejection_is_for_good_and_the_last_candidate_is_the_answer() -> None:
    """Wealth of a rejected candidate is frozen, it cannot lead again, and one survivor ends the rule."""
    wealth = Wealth(Rows(np.eye(3)), delta=0.05, noise_std=1.0)
    wealth.settle(block_of(40 * np.eye(3), 40 * np.array([1.0, 0.9, -0.2]), [1.0, 0.8, 0.0], np.eye(3) / 20))
    assert wealth.alternatives(0).tolist() == [False, True, False]
    frozen = wealth.log_wealth(0)[2]
    assert wealth.log_wealth(1)[0] == 0  # nobody bets against the leader
    assert wealth.leading(np.array([0.0, 1.0, 9.0])) == 1
    wealth.settle(block_of(900 * np.eye(3), 900 * np.array([0.2, 1.0, 5.0]), [0.7, 0.8, 9.0], np.eye(3) / 20))
    assert wealth.log_wealth(0)[2] == frozen
    assert wealth.answer == wealth.leading(np.array([1.0, 0.0, 0.0])) == 1
    assert wealth.log_wealth(1).min() >= math.log(20)
    with pytest.raises(InvalidInput, match="stopped"):
        wealth.settle(block_of(np.eye(3), np.zeros(3)))


def _tables(seats: EpsilonWealth) -> list[list[float]]:
    """Smallest wealth up to each of three seats."""
    return [seats.log_wealth(u).tolist() for u in range(3)]


def _blocks(*means: list[float]) -> list[Block]:
    """One pull of every unit vector per block; bets come from the blocks before."""
    known, n = np.zeros(len(means[0])), len(means[0])
    blocks = []
    for k, values in enumerate(means):
        blocks.append(Block.of(np.eye(n), np.array(values), known / max(k, 1), np.eye(n) / k if k else None))
        known = known + values
    return blocks


def test_plain_bets_by_hand_without_slack() -> None:
    """Numbers worked out from the formula; the first block is not bet on."""
    wealth = Wealth(Rows(np.eye(2)), delta=0.05, sizes=PLAIN, noise_std=1.0)
    for block, expected in zip(_blocks([1, 0], [0.8, -0.2], [0.5, 0.1]), (0.0, 0.004781, -0.223839), strict=True):
        wealth.settle(block)
        assert wealth.log_wealth(0)[1] == pytest.approx(expected, abs=1e-6)


def test_plain_bets_of_seats_by_hand() -> None:
    """Every seat bets against everyone, and who is promoted takes the smallest wealth of all seats up to its own."""
    inf = math.inf
    seats = EpsilonWealth(Rows(np.eye(3)), delta=0.05, epsilon=0.5, sizes=PLAIN, noise_std=1.0)
    for block in _blocks([1.0, 0.6, 0.0], [0.7, 0.9, -0.1]):
        seats.settle(block)
    first, second, third = [inf, -0.385465, 0.142700], [-0.053243, inf, 0.340448], [-0.462288, -0.535238, inf]
    assert [V.tolist() for V in seats._seats.values()] == [pytest.approx(V, abs=1e-6) for V in (first, second, third)]
    upto = [first, [-0.053243, inf, 0.142700], [-0.462288, -0.535238, inf]]
    assert _tables(seats) == [pytest.approx(V, abs=1e-6) for V in upto]
    assert seats.leading([0.7, 0.8, 0.0]) == 1
    seats._promote(1)
    assert list(seats._seats) == [1, 0, 2]
    assert seats.log_wealth(1).tolist() == pytest.approx([-0.053243, inf, 0.142700], abs=1e-6)


def test_a_seat_given_up_leaves_its_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two seats and three leaders in turn: a new seat starts with no more than the lost one had."""
    monkeypatch.setattr(wealth_module, "MOST_SEATS", 2)
    seats = EpsilonWealth(Rows(np.eye(3)), delta=0.01, epsilon=0.1, sizes=PLAIN, noise_std=1.0)
    for theta0, values in (([1.0, 0.5, 0.0], [0.0, 0.2, 0.9]), ([0.0, 0.5, 1.0], [0.3, 0.0, 0.1])):
        before = seats.log_wealth(2)
        seats.settle(block_of(np.eye(3), values, theta0, np.eye(3)))
    assert list(seats._seats) == [2, 0]
    assert (before[:2] < 0).any()
    again = seats.log_wealth(1)
    assert (again[[0, 2]] <= np.minimum(before, 0.0)[[0, 2]]).all()
    for _ in range(3):
        seats.settle(block_of(50 * np.eye(3), [50.0, 0.0, -50.0], [1.0, 0.0, -1.0], np.eye(3) / 50))
        if seats.answer is not None:
            break
    assert seats.answer == 0


def test_directions_the_block_did_not_measure_keep_their_wealth() -> None:
    """A block that leaves out arm 2 pays nothing on the pair (0, 2)."""
    wealth = Wealth(Rows(np.eye(3)), delta=1e-9, noise_std=1.0)
    wealth.settle(block_of(np.diag([5.0, 5.0, 0.0]), [5.0, 0.0, 0.0], [1.0, 0.0, 0.0], np.eye(3) / 9))
    assert wealth.log_wealth(0)[1] > 0
    assert wealth.log_wealth(0)[2] == 0


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_a_copy_of_the_leader_is_not_an_alternative(epsilon: float) -> None:
    """Several row numbers of one arm do not keep the rule waiting."""
    X = np.array([[1.0, 0.3], [1.0, 0.3], [1.0, 0.3], [0.0, 1.0]])
    wealth = (EpsilonWealth if epsilon > 0 else Wealth)(Rows(X), delta=0.05, epsilon=epsilon, noise_std=1.0)
    wealth.settle(block_of(50 * np.eye(2), [50.0, 0.0], [1.0, 0.0], np.eye(2) / 50))
    assert wealth.answer == 0


@pytest.mark.parametrize("bad", [{"delta": 0.0}, {"delta": 1.0}, {"noise_std": 0.0}, {"epsilon": -0.1}])
def test_the_rule_refuses_impossible_settings(bad: dict) -> None:
    """Risk, noise and slack are checked before anything starts."""
    with pytest.raises(InvalidInput):
        Wealth(Rows(np.eye(2)), **{"noise_std": 1.0, "delta": 0.05, **bad})


def test_a_block_on_many_candidates_needs_a_few_vectors_of_memory() -> None:
    """Settling 200,000 candidates holds a few K-vectors, not a second copy of the rows."""
    X = np.random.default_rng(9).standard_normal((200_000, 20))
    wealth = Wealth(Rows(X, step=5000), delta=0.05, noise_std=1.0)
    tracemalloc.start()
    try:
        wealth.settle(block_of(10 * np.eye(20), X[7] / 2, X[7] / 20, np.eye(20)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < X.nbytes / 2
    assert np.count_nonzero(wealth.log_wealth(7)) > 199_000
