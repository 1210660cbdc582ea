import math
import tracemalloc
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from surepick.arms import protocol as arms_module
from surepick.arms.finite import FiniteArms
from surepick.arms.protocol import RowOracles
from surepick.arms.whitening import whiten
from surepick.core.betting import Wealth, log_bet
from surepick.core.block import Block
from surepick.core.linalg import Array, IntArray
from surepick.errors import InvalidInput, SurepickError
from tests.blocks import block_of
from tests.statistical.bets import bet_parameters, block_statistics

NODES, WEIGHTS = np.polynomial.legendre.leggauss(300)


class Rows(RowOracles):
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


def _log_integral(alpha: Fraction, beta: Fraction) -> tuple[Fraction, float]:
    """The log of the integral of exp(-alpha D^2/2 + beta D) over D >= 0: an exact part, and the rest."""
    kappa = float(beta) / math.sqrt(alpha)
    if kappa > 0:  # in units of the standard deviation around the peak
        low, high, exact = -min(kappa, 13.0), 13.0, beta * beta / (2 * alpha)
        slope = 0.0
    else:
        low, high, exact = 0.0, min(13.0, 50.0 / max(-kappa, 1e-9)), Fraction(0)
        slope = kappa
    u = low + (high - low) * (NODES + 1) / 2
    rest = math.log((high - low) / 2 * float(WEIGHTS @ np.exp(-u * u / 2 + slope * u)))
    return exact, rest - 0.5 * math.log(alpha)


def _reference(z: float, v: float, m: float, s2: float) -> float:
    """log_bet as a ratio of two integrals whose large parts are subtracted in exact rational arithmetic."""
    Z, V, M, S = (Fraction(value) for value in (z, v, m, s2))
    top, bottom = _log_integral(1 / S + 1 / V, M / S + Z / V), _log_integral(1 / S, M / S)
    return float(top[0] - bottom[0]) + (top[1] - bottom[1])


@pytest.mark.parametrize("z", [-3.0, -0.2, 0.0, 0.4, 2.5])
@pytest.mark.parametrize("m", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("v", [0.05, 1.0, 20.0])
def test_log_bet_is_the_integral_it_stands_for(z: float, m: float, v: float) -> None:
    """The closed form equals adaptive quadrature of the definition."""
    for s2 in (0.02, 1.0, 9.0):
        s = math.sqrt(s2)

        def integrand(D: float, s: float = s) -> float:
            return math.exp(-(((D - m) / s) ** 2) / 2 + D * z / v - D * D / (2 * v))

        width = 12 * s + abs(z)
        value = sum(quad(integrand, a, a + width / 8, epsabs=0)[0] for a in np.arange(0, m + width, width / 8))
        mass = math.sqrt(2 * math.pi * s2) * float(norm.cdf(m / s))
        assert float(log_bet(z, v, m, s2)) == pytest.approx(math.log(value / mass), abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(
    z=st.floats(-1e4, 1e4),
    log_v=st.floats(-25, 25),
    ratio=st.one_of(st.just(0.0), st.floats(0, 40)),
    log_s2=st.floats(-25, 25),
)
def test_log_bet_keeps_its_digits_in_the_extremes(z: float, log_v: float, ratio: float, log_s2: float) -> None:
    """Over fifty orders of magnitude the error stays at rounding of the terms that must be added."""
    v, s2 = math.exp(log_v), math.exp(log_s2)
    m = ratio * math.sqrt(s2)
    exact = _reference(z, v, m, s2)
    # The exponent is a sum of z^2, z m and m^2 terms: doubles cannot beat the rounding of each.
    x = (m * v + z * s2) / (v + s2)
    terms = ratio**2 + (abs(x) * math.sqrt(1 / v + 1 / s2)) ** 2 * (x > 0) + abs(log_v) + abs(log_s2)
    assert float(log_bet(z, v, m, s2)) == pytest.approx(exact, abs=1e-13 * (terms + 10), rel=1e-12)


@pytest.mark.parametrize(
    ("z", "v", "m", "s2"),
    [(1.0, 1e-300, 1.0, 1e-4), (-1.0, 1e-300, 1.0, 1e-4), (1e8, 1.0, 0.0, 1e300), (-1e150, 1.0, 0.0, 1e-300)],
)
def test_log_bet_never_turns_into_nan(z: float, v: float, m: float, s2: float) -> None:
    """At the edge of double precision the answer is a number, large or small, without a warning."""
    value = float(log_bet(z, v, m, s2))
    assert value == pytest.approx(_reference(z, v, m, s2), rel=1e-9)


def test_log_bet_of_a_nearly_certain_bet_is_the_likelihood_ratio_at_m() -> None:
    """As s2 tends to 0 the mixture becomes a point at m, whose return is exp(m z/v - m^2/(2v))."""
    z, v, m = np.array([-2.0, 0.1, 3.0]), 0.7, 1.3
    np.testing.assert_allclose(log_bet(z, v, m, 1e-14), m * z / v - m * m / (2 * v), rtol=1e-10)


@pytest.mark.parametrize("m", [0.0, 0.5, 4.0])
@pytest.mark.parametrize("s2", [0.01, 1.0, 25.0])
def test_a_bet_is_fair_at_the_boundary_and_loses_beyond(m: float, s2: float) -> None:
    """The expected return is 1 when theta'y = 0 and below 1 when the leader is truly worse."""
    v = 0.8
    s = math.sqrt(v)
    # Under exp(log_bet) dP the value z is spread around D ~ N(m, s2): integrate over both ranges.
    top = 12 * (s + math.sqrt(s2)) + m + 12 * s2
    for truth in (0.0, -0.1, -1.0):
        z = truth + np.linspace(-top, top, 400_001)
        density = norm.logpdf(z, truth, s)
        expected = float(np.trapezoid(np.exp(density + log_bet(z, v, m, s2)), z))
        assert expected == pytest.approx(1.0, abs=1e-6) if truth == 0 else expected < 1


def test_log_bet_broadcasts_and_grows_with_z() -> None:
    """Arguments broadcast like any ufunc's, and a better result never pays less."""
    value = log_bet(np.linspace(-5, 5, 41)[:, None], np.array([0.1, 1.0, 10.0]), 0.3, 0.5)
    assert value.shape == (41, 3)
    assert (np.diff(value, axis=0) > 0).all()


@pytest.mark.parametrize(("v", "s2"), [(0.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (math.nan, 1.0)])
def test_log_bet_refuses_variances_that_are_not_positive(v: float, s2: float) -> None:
    """A variance of zero or below is a mistake of the caller."""
    with pytest.raises(InvalidInput, match="v > 0"):
        log_bet(1.0, v, 0.0, s2)


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


def test_formulas_take_many_blocks_at_once() -> None:
    """Leading axes are separate blocks: a stack gives what one block after the other gives."""
    rng = np.random.default_rng(2)
    Y, theta, b = rng.standard_normal((7, 4, 3)), rng.standard_normal((7, 3)), rng.standard_normal((7, 3))
    roots = rng.standard_normal((7, 5, 3))
    A = np.einsum("kni,knj->kij", roots, roots)
    m, s2 = bet_parameters(Y, theta, A, noise_std=0.5, epsilon=0.1)
    z, v, inside = block_statistics(Y, A, b, noise_std=0.5)
    for k in range(7):
        placed = bet_parameters(Y[k], theta[k], A[k], noise_std=0.5, epsilon=0.1)
        np.testing.assert_allclose(np.stack(placed), np.stack([m[k], s2[k]]), rtol=1e-12)
        settled = block_statistics(Y[k], A[k], b[k], noise_std=0.5)
        np.testing.assert_allclose(np.stack(settled), np.stack([z[k], v[k], inside[k]]), rtol=1e-10)
    np.testing.assert_allclose(s2, 0.25 * np.einsum("kni,kij,knj->kn", Y, A, Y), rtol=1e-10)
    np.testing.assert_allclose(m, np.maximum(np.einsum("kni,ki->kn", Y, theta) + 0.1, 0), rtol=1e-12)


def _play(
    wealth: Wealth, X: Array, theta: Array, *, noise_std: float, n_blocks: int, seed: int, scale: float = 1.0
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
        if wealth.stopped:
            break
        leader = wealth.leading(estimate)
        wealth.place(leader, theta=estimate, A_inv=A_inv)
        wealth.settle(block_of(A, b, estimate, A_inv))
        played.append((leader, estimate, A_inv, A, b))
    return played


def test_wealth_is_the_sum_of_the_bets_along_the_path() -> None:
    """Candidates that are not the arms, several leaders: L_b is what the formula adds up to, one by one."""
    rng = np.random.default_rng(3)
    X, Z, theta = rng.standard_normal((6, 3)), 0.3 * rng.standard_normal((9, 3)), np.array([0.2, 0.1, -0.1])
    wealth = Wealth(Rows(Z), delta=1e-6, noise_std=0.7)
    blocks = _play(wealth, X, theta, noise_std=0.7, n_blocks=6, seed=4)
    total = np.zeros(9)
    for leader, estimate, A_inv, A, b in blocks:
        for c in range(9):
            y = Z[leader] - Z[c]
            if c != leader and total[c] < math.log(1e6):
                solved = np.linalg.solve(A, y)
                total[c] += log_bet(solved @ b, 0.49 * solved @ y, max(estimate @ y, 0), 0.49 * y @ A_inv @ y)
    np.testing.assert_allclose(wealth.log_wealth(0), total, rtol=1e-9, atol=1e-12)
    assert wealth.n_blocks == len(blocks)
    current = wealth.leading(theta)
    assert wealth.evidence(current) == pytest.approx(np.delete(total, current).min())


def test_wealth_does_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows fetched by index, in one chunk or in chunks of three give the same wealth and leaders."""
    rng = np.random.default_rng(5)
    X, theta = rng.standard_normal((50, 4)), np.array([0.5, 0.0, 0.2, -0.3])
    results = []
    for rows, gather in ((Rows(X), 4096), (Rows(X), 0), (Rows(X, step=3), 0)):
        monkeypatch.setattr(arms_module, "GATHER_ROWS", gather)
        wealth = Wealth(rows, delta=0.05)
        leaders = [block[0] for block in _play(wealth, X, theta, noise_std=1.0, n_blocks=8, seed=6)]
        results.append((leaders, wealth.log_wealth(0), wealth.survivors))
    assert 1 < len(results[0][2]) < 50
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
    pulled = rows[:n_pulled]
    A, b, A_inv, theta = pulled.T @ pulled, pulled.T @ rng.standard_normal(n_pulled), np.eye(6) / 20, rows[0] / 9
    wealth = Wealth(white, delta=1e-9, noise_std=0.4)
    wealth.place(0, theta=theta, A_inv=A_inv)
    wealth.settle(block_of(A, b, theta, A_inv))
    Y = rows[0] - rows
    z, v, inside = block_statistics(Y, A, b, noise_std=0.4)
    m, s2 = bet_parameters(Y, theta, A_inv, noise_std=0.4)
    inside[0] = False  # nobody bets against the leader
    assert inside.sum() == n_bets
    expected = np.zeros(40)
    expected[inside] = log_bet(z[inside], v[inside], m[inside], s2[inside])
    np.testing.assert_allclose(wealth.log_wealth(0), expected, rtol=1e-8, atol=1e-8)
    assert wealth.log_wealth(0)[7] == pytest.approx(wealth.log_wealth(0)[21], abs=1e-8)


@pytest.mark.parametrize("gather", [0, 4096])
def test_of_equal_candidates_the_first_leads(monkeypatch: pytest.MonkeyPatch, gather: int) -> None:
    """Equal estimates give the lead to the lower row number, also across chunks."""
    monkeypatch.setattr(arms_module, "GATHER_ROWS", gather)
    X = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 2.0], [1.0, 5.0]])
    wealth = Wealth(Rows(X, step=2), delta=0.05)
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
        wealth = Wealth(Rows(arms), delta=1e-5, noise_std=unit, epsilon=epsilon * unit)
        blocks = _play(wealth, arms, truth, noise_std=1.0, n_blocks=6, seed=8, scale=unit)
        kept.append([wealth.log_wealth(block[0]) for block in blocks])
    np.testing.assert_allclose(kept[1], kept[0], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(kept[2], kept[0], rtol=1e-8, atol=1e-10)


def test_bets_are_fixed_when_they_are_placed() -> None:
    """Changing the caller's arrays during the block does not change the bets."""
    X = np.eye(2)
    results = []
    for spoil in (False, True):
        theta, A_inv = np.array([0.5, 0.1]), np.eye(2) / 10
        wealth = Wealth(Rows(X), delta=0.01)
        wealth.place(0, theta=theta, A_inv=A_inv)
        if spoil:
            theta += 5.0 * np.array([1.0, -1.0])
            A_inv *= 1e-6
        wealth.settle(block_of(5 * np.eye(2), np.array([9.0, 0.0])))
        results.append(wealth.log_wealth(0))
    np.testing.assert_array_equal(results[0], results[1])


def test_rejection_is_for_good_and_the_last_candidate_is_the_answer() -> None:
    """Wealth of a rejected candidate is frozen, it cannot lead again, and one survivor ends the rule."""
    X = np.eye(3)
    wealth = Wealth(Rows(X), delta=0.05)
    start = {"theta": np.array([1.0, 0.8, 0.0]), "A_inv": np.eye(3) / 20}
    wealth.place(0, **start)
    assert wealth.leader == 0
    wealth.settle(block_of(np.diag([40.0, 40.0, 40.0]), 40 * np.array([1.0, 0.9, -0.2])))
    assert wealth.leader is None
    assert wealth.survivors.tolist() == [0, 1]
    assert wealth.alternatives(0).tolist() == [1]
    frozen = wealth.log_wealth(0)[2]
    assert wealth.log_wealth(0)[0] == 0  # nobody bets against the leader
    assert wealth.leading(np.array([0.0, 1.0, 9.0])) == 1
    with pytest.raises(InvalidInput, match="rejected"):
        wealth.place(2, **start)
    assert wealth.leader is None
    wealth.place(1, **start)
    wealth.settle(block_of(np.diag([900.0, 900.0, 900.0]), 900 * np.array([0.2, 1.0, 5.0])))
    assert wealth.log_wealth(0)[2] == frozen
    assert wealth.stopped
    assert wealth.answer == 1
    assert wealth.survivors.tolist() == [1]
    assert wealth.evidence(1) >= math.log(20)
    with pytest.raises(InvalidInput, match="stopped"):
        wealth.place(1, **start)


def test_directions_the_block_did_not_measure_keep_their_wealth() -> None:
    """A block that leaves out arm 2 pays nothing on the pair (0, 2)."""
    wealth = Wealth(Rows(np.eye(3)), delta=1e-9)
    wealth.place(0, theta=np.array([1.0, 0.0, 0.0]), A_inv=np.eye(3) / 9)
    wealth.settle(block_of(np.diag([5.0, 5.0, 0.0]), np.array([5.0, 0.0, 0.0])))
    assert wealth.log_wealth(0)[1] > 0
    assert wealth.log_wealth(0)[2] == 0


def test_with_slack_each_leader_keeps_its_own_book_at_its_own_price() -> None:
    """The j-th distinct leader starts from nothing and pays log(j (j+1)); a leader that rejects all stops."""
    wealth = Wealth(Rows(np.eye(2)), delta=0.1, epsilon=0.2)
    start = {"theta": np.array([0.1, 0.0]), "A_inv": np.eye(2) / 20}
    block = block_of(15 * np.eye(2), [1.5, 0.0])
    assert wealth.evidence(1) == pytest.approx(-math.log(2))
    wealth.place(0, **start)
    wealth.settle(block)
    first = wealth.evidence(0)
    assert wealth.evidence(1) == pytest.approx(-math.log(6))
    assert wealth.survivors.tolist() == [0, 1]
    gain = float(log_bet(0.1 + 0.2, 2 / 15, 0.1 + 0.2, 0.1))
    assert first == pytest.approx(gain - math.log(2))
    wealth.place(1, **start)
    wealth.settle(block)
    assert wealth.evidence(0) == first
    assert wealth.evidence(1) == pytest.approx(float(log_bet(-0.1 + 0.2, 2 / 15, -0.1 + 0.2, 0.1)) - math.log(6))
    n_blocks = 2
    while not wealth.stopped:
        wealth.place(0, **start)
        wealth.settle(block)
        n_blocks += 1
    assert wealth.answer == 0
    assert wealth.evidence(0) == pytest.approx((n_blocks - 1) * gain - math.log(2))
    assert wealth.evidence(0) - gain < math.log(10) <= wealth.evidence(0)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_a_copy_of_the_leader_is_not_an_alternative(epsilon: float) -> None:
    """Several row numbers of one arm do not keep the rule waiting."""
    X = np.array([[1.0, 0.3], [1.0, 0.3], [1.0, 0.3], [0.0, 1.0]])
    wealth = Wealth(Rows(X), delta=0.05, epsilon=epsilon)
    wealth.place(0, theta=np.array([1.0, 0.0]), A_inv=np.eye(2) / 50)
    wealth.settle(block_of(50 * np.eye(2), np.array([50.0, 0.0])))
    assert wealth.answer == 0


def test_commands_out_of_order_are_refused() -> None:
    """Results without bets, and bets during a block, are errors that say what to do."""
    wealth = Wealth(Rows(np.eye(2)), delta=0.05)
    with pytest.raises(InvalidInput, match="`place`"):
        wealth.settle(block_of(np.eye(2), np.zeros(2)))
    wealth.place(0, theta=np.zeros(2), A_inv=np.eye(2))
    with pytest.raises(InvalidInput, match="settle it"):
        wealth.place(0, theta=np.zeros(2), A_inv=np.eye(2))


@pytest.mark.parametrize(
    "bad",
    [
        {"leader": 2},
        {"leader": -1},
        {"leader": 0.5},
        {"theta": np.zeros(3)},
        {"theta": np.array([0.0, np.nan])},
        {"A_inv": np.eye(3)},
        {"A_inv": np.ones((3, 2))},
        {"A_inv": np.full((2, 2), np.inf)},
    ],
)
def test_place_refuses_what_it_cannot_use_and_stays_closed(bad: dict) -> None:
    """Wrong shapes, numbers out of range and non-finite values leave the state unchanged."""
    wealth = Wealth(Rows(np.eye(2)), delta=0.05)
    with pytest.raises(SurepickError):
        wealth.place(**{"leader": 0, "theta": np.zeros(2), "A_inv": np.eye(2), **bad})
    assert wealth.leader is None


@pytest.mark.parametrize("bad", [{"b": np.zeros(3)}, {"b": np.array([np.nan, 0])}, {"A": np.eye(3)}])
def test_settle_refuses_what_it_cannot_use_and_stays_open(bad: dict) -> None:
    """A block settled with unusable sums can be settled again with the right ones."""
    wealth = Wealth(Rows(np.eye(2)), delta=0.05)
    wealth.place(0, theta=np.zeros(2), A_inv=np.eye(2))
    with pytest.raises(SurepickError):
        wealth.settle(Block(**{"A": np.eye(2), "b": np.zeros(2), "theta0": np.zeros(2), **bad}))
    wealth.settle(block_of(np.eye(2), np.zeros(2)))
    assert wealth.n_blocks == 1


@pytest.mark.parametrize("bad", [{"delta": 0.0}, {"delta": 1.0}, {"noise_std": 0.0}, {"epsilon": -0.1}])
def test_the_rule_refuses_impossible_settings(bad: dict) -> None:
    """Risk, noise and slack are checked before anything starts."""
    with pytest.raises(InvalidInput):
        Wealth(Rows(np.eye(2)), **{"delta": 0.05, **bad})


def test_a_block_on_many_candidates_needs_a_few_vectors_of_memory() -> None:
    """Settling 200,000 candidates holds a few K-vectors, not a second copy of the rows."""
    X = np.random.default_rng(9).standard_normal((200_000, 20))
    wealth = Wealth(Rows(X, step=5000), delta=0.05)
    tracemalloc.start()
    try:
        wealth.place(7, theta=X[7] / 20, A_inv=np.eye(20))
        wealth.settle(block_of(10 * np.eye(20), X[7] / 2))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < X.nbytes / 2
    assert 0 < wealth.survivors.size <= 200_000
