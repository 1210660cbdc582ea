"""The top-k set: formulas against lists of all choices, the bounds with slack, rounds that span, T*."""

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from surepick.arms import top_k
from surepick.arms.base import VectorSet
from surepick.arms.top_k import TopK
from surepick.core import design
from surepick.errors import InvalidInput, TiedArms

Array = NDArray[np.float64]
SEEDS = st.integers(0, 2**32 - 1)


def random_factor(rng: np.random.Generator, dim: int, log_condition: float) -> Array:
    """F with F F' = A^-1 and more columns than rows; A has random axes and a condition number up to 10^this."""
    axes = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    columns = np.linalg.qr(rng.standard_normal((dim + 2, dim)))[0].T
    return (axes * 10.0 ** rng.uniform(-log_condition / 4, log_condition / 4, dim)) @ columns


def all_choices(dim: int, k: int) -> Array:
    """Every 0/1 vector with k ones."""
    return np.array([[float(i in chosen) for i in range(dim)] for chosen in map(set, combinations(range(dim), k))])


def by_list(theta: Array, F: Array, epsilon: float, k: int) -> float:
    """Z' from its definition over all choices, in extended precision."""
    arms = all_choices(len(theta), k).astype(np.longdouble)
    best = arms[np.argmax(arms @ theta)]
    y = best - arms[(arms != best).any(axis=1)]
    return float(((y @ theta + epsilon) ** 2 / (2 * np.square(y @ F).sum(axis=1))).min())


def attained(theta: Array, F: Array, epsilon: float, best: Array, rival: Array) -> float:
    """The ratio of this one rival."""
    y = best - rival
    return float((theta @ y + epsilon) ** 2 / (2.0 * np.square(y @ F).sum()))


@st.composite
def sizes(draw: st.DrawFn, *, largest: int = 8) -> tuple[int, int]:
    """A number of elements and how many are chosen."""
    dim = draw(st.integers(2, largest))
    return dim, draw(st.integers(1, dim - 1))


@given(seed=SEEDS, size=sizes(), log_condition=st.floats(0.0, 8.0), has_slack=st.booleans())
def test_the_statistic_is_the_smallest_over_all_choices(
    seed: int, size: tuple[int, int], log_condition: float, has_slack: bool
) -> None:
    """With and without slack, also for ill-conditioned A; the rival attains it."""
    rng = np.random.default_rng(seed)
    dim, k = size
    theta, F = rng.standard_normal(dim), random_factor(rng, dim, log_condition)
    epsilon = float(10.0 ** rng.uniform(-2, 1)) if has_slack else 0.0
    arms = TopK(dim, k)
    confusion = arms.confusion(theta, F, epsilon)
    assert confusion.is_exact
    assert confusion.value == pytest.approx(by_list(theta, F, epsilon, k), rel=1e-9)
    best = arms.best(theta)
    assert attained(theta, F, epsilon, best, confusion.rival) == pytest.approx(confusion.value, rel=1e-9)
    np.testing.assert_array_equal(arms.checked(confusion.rival), confusion.rival)
    assert not np.array_equal(confusion.rival, best)


@pytest.mark.parametrize(("dim", "k"), [(2, 1), (5, 2), (8, 4), (12, 6)])
@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_what_all_elements_have_in_common_costs_no_digits(dim: int, k: int, epsilon: float) -> None:
    """A common part of theta or of the rows of F drops out of every difference, however large."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        theta = rng.permutation(np.arange(dim) / 8.0)
        F = rng.integers(-64, 65, (dim, dim)) / 64.0 + 4.0 * np.eye(dim)
        plain = TopK(dim, k).confusion(theta, F, epsilon).value
        # Both shifts are exact, and leave no bit to spare for a sum of several entries.
        assert TopK(dim, k).confusion(theta + 2.0**49, F, epsilon).value == pytest.approx(plain, rel=1e-9)
        assert TopK(dim, k).confusion(theta, F + 2.0**46, epsilon).value == pytest.approx(plain, rel=1e-9)


def test_the_bounds_for_many_choices_are_never_above_the_statistic(monkeypatch: pytest.MonkeyPatch) -> None:
    """On small sets where all choices can be listed; what is reported as exact is, and half of the bounds are good."""
    rng = np.random.default_rng(62)
    shares = []
    for _ in range(300):
        dim = int(rng.integers(4, 9))
        k = int(rng.integers(2, dim - 1))
        theta, F = rng.standard_normal(dim), random_factor(rng, dim, rng.uniform(0.0, 8.0))
        epsilon = float(10.0 ** rng.uniform(-2, 1))
        arms = TopK(dim, k)
        listed, exact = arms.confusion(theta, F, epsilon), by_list(theta, F, epsilon, k)
        assert listed.is_exact
        assert listed.value == pytest.approx(exact, rel=1e-10)
        with monkeypatch.context() as patch:
            patch.setattr(top_k, "ENUMERATED_ARMS", 0)
            confusion = arms.confusion(theta, F, epsilon)
        shares.append(confusion.value / exact)
        assert confusion.value <= exact * (1 + 1e-10)
        assert confusion.value >= arms.confusion(theta, F, 0.0).value * (1 - 1e-12)
        assert attained(theta, F, epsilon, arms.best(theta), confusion.rival) >= exact * (1 - 1e-10)
        if confusion.is_exact:
            assert confusion.value == pytest.approx(exact, rel=1e-10)
    assert 0.8 < np.median(shares)
    assert np.min(shares) < 0.9  # listing is worth something


@pytest.mark.parametrize("epsilon", [1e-14, 0.05, 0.5, 3.0, 30.0])
def test_too_many_choices_to_list(epsilon: float) -> None:
    """8 out of 16, 12870 choices: at most Z', at least the statistic without slack; Z' itself for a symmetric A."""
    rng = np.random.default_rng(16)
    theta, F, arms = rng.standard_normal(16), random_factor(rng, 16, 2.0), TopK(16, 8)
    exact = by_list(theta, F, epsilon, 8)
    bound = arms.confusion(theta, F, epsilon)
    assert arms.confusion(theta, F, 0.0).value * (1 - 1e-12) <= bound.value <= exact * (1 + 1e-10)
    # A = 30 I - 1.5 11': all elements alike, their sum measured worst, which no difference depends on.
    symmetric = np.linalg.inv(np.linalg.cholesky(30.0 * np.eye(16) - 1.5)).T
    confusion = arms.confusion(theta, symmetric, epsilon)
    assert confusion.is_exact
    assert confusion.value == pytest.approx(by_list(theta, symmetric, epsilon, 8), rel=1e-10)


@given(
    seed=SEEDS,
    size=st.sampled_from([(2, 1), (5, 2), (7, 6), (16, 8), (30, 12)]),
    scale=st.sampled_from([1e-60, 1e-3, 7.0, 1e60]),
)
def test_units_do_not_matter_and_slack_only_helps(seed: int, size: tuple[int, int], scale: float) -> None:
    """Rewards in another unit square the scale of Z'; pulling everything c^2 times as often multiplies it by c^2."""
    rng = np.random.default_rng(seed)
    arms = TopK(*size)
    theta, F = rng.standard_normal(arms.dim), random_factor(rng, arms.dim, 4.0)
    slacks = [0.0, 1e-12, 0.01, 0.1, 1.0, 10.0, 100.0]
    values = [arms.confusion(theta, F, epsilon).value for epsilon in slacks]
    assert all(low <= high * (1 + 1e-12) for low, high in pairwise(values))
    for epsilon, value in zip(slacks, values, strict=True):
        scaled = arms.confusion(scale * theta, F, scale * epsilon).value
        assert scaled == pytest.approx(scale**2 * value, rel=1e-10)
        assert arms.confusion(theta, F / scale, epsilon).value == pytest.approx(scale**2 * value, rel=1e-10)


@pytest.mark.parametrize(("dim", "k"), [(2, 1), (6, 3), (9, 8), (16, 8)])
def test_ties_give_zero_without_slack_and_a_number_with(dim: int, k: int) -> None:
    """Elements that tie at the edge of the choice, or all of them; the lower numbers are chosen."""
    arms, F = TopK(dim, k), random_factor(np.random.default_rng(dim), dim, 2.0)
    edge = np.arange(dim, 0.0, -1.0)
    edge[k] = edge[k - 1]
    for theta in (edge, np.zeros(dim), np.full(dim, -3.0)):
        np.testing.assert_array_equal(arms.best(theta), np.arange(dim) < k)
        tied = arms.confusion(theta, F, 0.0)
        assert (tied.value, tied.is_exact) == (0.0, True)
        for epsilon in (1e-300, 1e-20, 0.1):
            confusion = arms.confusion(theta, F, epsilon)
            assert 0.0 <= confusion.value < np.inf
            assert not np.array_equal(confusion.rival, arms.best(theta))
        assert confusion.value > 0.0


def test_best_takes_the_largest_elements() -> None:
    """Of equals the lower number, as a fresh array."""
    arms = TopK(5, 2)
    first = arms.best(np.array([1.0, 3.0, 2.0, 2.0, -7.0]))
    np.testing.assert_array_equal(first, [0.0, 1.0, 1.0, 0.0, 0.0])
    first[:] = 9.0
    np.testing.assert_array_equal(arms.best(np.array([1.0, 3.0, 2.0, 2.0, -7.0])), [0.0, 1.0, 1.0, 0.0, 0.0])


@pytest.mark.parametrize("dim", range(2, 13))
def test_every_round_spans(dim: int) -> None:
    """For every k: each element equally often, a condition number at most 1000, and one circle unless none can do."""
    for k in range(1, dim):
        arms = TopK(dim, k)
        n_circles = 2 if (dim, k) in {(4, 2), (8, 2), (8, 6)} else 1
        for number in range(4):
            rows = arms.cycle(number, seed=5)
            assert rows.shape == (n_circles * dim, dim)
            for row in rows:
                arms.checked(row)
            np.testing.assert_array_equal(rows.sum(axis=0), n_circles * k)
            assert np.linalg.cond(rows.T @ rows) <= 1000.0


def test_rounds_follow_from_number_and_seed() -> None:
    """The same again for the same pair, another order for any other, whatever was asked in between."""
    arms = TopK(9, 3)
    first = arms.cycle(0, seed=1)
    others = [arms.cycle(1, seed=1), arms.cycle(0, seed=2), arms.cycle(1, seed=0)]
    assert all(not np.array_equal(first, other) for other in others)
    again = arms.cycle(0, seed=1)
    np.testing.assert_array_equal(first, again)
    again[:] = 0.0
    np.testing.assert_array_equal(first, arms.cycle(0, seed=1))


def test_many_rounds_approach_the_uniform_design() -> None:
    """A/t = k(d-k)/(d(d-1)) I + k(k-1)/(d(d-1)) 11', the average over all choices."""
    dim, k = 7, 3
    rows = np.vstack([TopK(dim, k).cycle(number, seed=11) for number in range(2000)])
    choices = all_choices(dim, k)
    uniform = choices.T @ choices / len(choices)
    formula = k / (dim * (dim - 1)) * ((dim - k) * np.eye(dim) + (k - 1) * np.ones((dim, dim)))
    np.testing.assert_allclose(uniform, formula, atol=1e-15)
    # Entries are means of 2000 rounds with values in [0, 1]: off by .05 with probability below 2 exp(-10) (Hoeffding).
    np.testing.assert_allclose(rows.T @ rows / len(rows), uniform, atol=0.05)


def test_arms_are_checked() -> None:
    """Zeros and ones of any number type; anything else is refused."""
    arms = TopK(4, 2)
    for arm in ([1, 0, 0, 1], np.array([True, False, False, True]), [1.0, -0.0, 0.0, 1.0]):
        checked = arms.checked(arm)
        assert checked.dtype == np.float64
        np.testing.assert_array_equal(checked, [1.0, 0.0, 0.0, 1.0])
        assert not np.signbit(checked).any()
    for arm, place in (([1, -1, 1, 1], 1), ([1, 0, 0, 1 - 1e-15], 3), ([2, 0, 0, 0], 0), ([0, 1, np.inf, 1], 2)):
        with pytest.raises(InvalidInput, match=f"position {place}"):
            arms.checked(arm)
    for arm in ([1, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]):
        with pytest.raises(InvalidInput, match="exactly 2 elements"):
            arms.checked(arm)
    with pytest.raises(InvalidInput, match="vector of 4 numbers"):
        arms.checked([1, 1])


def test_the_set_is_a_vector_set() -> None:
    """It answers the protocol, and refuses sizes that leave no choice."""
    assert isinstance(TopK(4, 2), VectorSet)
    assert not TopK(4, 2).needs_slack
    assert TopK(4, 2).description == "the choices of 2 out of 4"
    for dim, k, name in ((1, 1, "dim"), (4, 0, "k"), (4, 4, "k"), (4, 5, "k"), (4, 1.5, "k")):
        with pytest.raises(InvalidInput, match=f"`{name}`"):
            TopK(dim, k)  # type: ignore[arg-type]


def test_the_characteristic_time_of_two_arms() -> None:
    """Half of the pulls to each: T* = 2 * 4 / gap^2."""
    arms, theta = TopK(2, 1), [1.0, 0.5]
    assert arms.characteristic_time(theta) == pytest.approx(32.0, rel=1e-4)
    assert arms.lower_bound(theta, 0.05, 2.0) == pytest.approx(32.0 * 4.0 * 0.9 * math.log(19.0), rel=1e-5)


def test_the_characteristic_time_is_that_of_the_listed_choices() -> None:
    """And bounds the statistic: no design makes Z'/t larger than 1/T*."""
    theta = np.array([0.9, 0.1, 0.6, -0.2, 0.35])
    arms = TopK(5, 2)
    certified = design.characteristic_time(all_choices(5, 2), theta, tol=1e-4)
    value = arms.characteristic_time(theta)
    assert certified.lower_bound <= value <= certified.value * (1 + 1e-3)
    listed = all_choices(5, 2)
    for weights in np.random.default_rng(2).dirichlet(np.ones(len(listed)), 200):
        F = np.linalg.inv(np.linalg.cholesky(listed.T @ (weights[:, None] * listed))).T
        assert arms.confusion(theta, F, 0.0).value <= (1 + 1e-9) / certified.lower_bound


def test_the_characteristic_time_needs_a_gap_and_a_list() -> None:
    """A tie at the edge, and a set too large to be listed."""
    with pytest.raises(TiedArms):
        TopK(4, 2).characteristic_time([1.0, 0.5, 0.5, 0.0])
    for ask in (TopK(40, 20).characteristic_time, TopK(40, 20).lower_bound):
        with pytest.raises(InvalidInput, match="list of all choices"):
            ask(np.arange(40.0))
