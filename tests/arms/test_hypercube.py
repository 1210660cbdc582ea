"""The hypercube: formulas against lists of all arms, the bound with slack, Hadamard cycles, the reference table."""

import math
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize
from scipy.stats import binom

from surepick.arms import hypercube
from surepick.arms.base import VectorSet
from surepick.arms.hypercube import Hypercube, coordinate_threshold, hadamard, hadamard_order
from surepick.core import design
from surepick.core.thresholds import MIX_GRID, mix_grid_threshold
from surepick.errors import InvalidInput, TiedArms

Array = NDArray[np.float64]
SEEDS = st.integers(0, 2**32 - 1)


def random_factor(rng: np.random.Generator, dim: int, log_condition: float) -> Array:
    """F with F F' = A^-1 and more columns than rows; A has random axes and a condition number up to 10^this."""
    axes = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    columns = np.linalg.qr(rng.standard_normal((dim + 2, dim)))[0].T
    return (axes * 10.0 ** rng.uniform(-log_condition / 4, log_condition / 4, dim)) @ columns


def by_list(theta: Array, F: Array, epsilon: float) -> float:
    """Z' from its definition over all sign vectors, in extended precision."""
    arms = np.array(list(product([-1.0, 1.0], repeat=len(theta))), dtype=np.longdouble)
    best = arms[np.argmax(arms @ theta)]
    y = best - arms[(arms != best).any(axis=1)]
    return float(((y @ theta + epsilon) ** 2 / (2 * np.square(y @ F).sum(axis=1))).min())


def attained(theta: Array, F: Array, epsilon: float, rival: Array) -> float:
    """The ratio of this one rival."""
    y = np.where(theta >= 0, 1.0, -1.0) - rival
    return float((theta @ y + epsilon) ** 2 / (2.0 * np.square(y @ F).sum()))


@given(seed=SEEDS, dim=st.integers(1, 8), log_condition=st.floats(0.0, 8.0), has_slack=st.booleans())
def test_the_statistic_is_the_smallest_over_all_arms(
    seed: int, dim: int, log_condition: float, has_slack: bool
) -> None:
    """With and without slack, also for ill-conditioned A; the rival attains it."""
    rng = np.random.default_rng(seed)
    theta, F = rng.standard_normal(dim), random_factor(rng, dim, log_condition)
    epsilon = float(10.0 ** rng.uniform(-2, 1)) if has_slack else 0.0
    confusion = Hypercube(dim).confusion(theta, F, epsilon)
    assert confusion.is_exact
    assert confusion.value == pytest.approx(by_list(theta, F, epsilon), rel=1e-9)
    assert attained(theta, F, epsilon, confusion.rival) == pytest.approx(confusion.value, rel=1e-9)
    assert not np.array_equal(confusion.rival, Hypercube(dim).best(theta))


def test_the_bound_for_many_features_is_never_above_the_statistic(monkeypatch: pytest.MonkeyPatch) -> None:
    """On small cubes where all arms can be listed; what is reported as exact is, and half of the bounds are good."""
    rng = np.random.default_rng(61)
    shares = []
    for _ in range(300):
        dim = int(rng.integers(2, 9))
        theta, F = rng.standard_normal(dim), random_factor(rng, dim, rng.uniform(0.0, 8.0))
        epsilon = float(10.0 ** rng.uniform(-2, 1))
        listed, exact = Hypercube(dim).confusion(theta, F, epsilon), by_list(theta, F, epsilon)
        assert listed.is_exact
        assert listed.value == pytest.approx(exact, rel=1e-10)
        with monkeypatch.context() as patch:
            patch.setattr(hypercube, "ENUMERATED_DIM", 0)
            confusion = Hypercube(dim).confusion(theta, F, epsilon)
        shares.append(confusion.value / exact)
        assert confusion.value <= exact * (1 + 1e-10)
        assert confusion.value >= Hypercube(dim).confusion(theta, F, 0.0).value
        assert attained(theta, F, epsilon, confusion.rival) >= exact * (1 - 1e-10)
        if confusion.is_exact:
            assert confusion.value == pytest.approx(exact, rel=1e-10)
    assert 0.8 < np.median(shares)
    assert np.min(shares) < 0.9  # listing is worth something


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 3.0, 30.0])
def test_thirteen_features_are_bounded_by_the_sum_of_what_each_can_lose(epsilon: float) -> None:
    """At least the largest beta with sum_i 2 (sqrt(2 beta (A^-1)_ii) - |theta_i|)_+ <= epsilon, at most Z'."""
    rng = np.random.default_rng(13)
    theta, F = rng.standard_normal(13), random_factor(rng, 13, 2.0)
    confusion = Hypercube(13).confusion(theta, F, epsilon)
    lengths = np.sqrt(np.diagonal(F @ F.T))

    def loss(beta: float) -> float:
        return 2.0 * float(np.maximum(math.sqrt(2.0 * beta) * lengths - np.abs(theta), 0.0).sum())

    beta = float(optimize.brentq(lambda beta: loss(beta) - epsilon, 0.0, 1e6, xtol=1e-14, rtol=1e-13))
    assert beta * (1 - 1e-9) <= confusion.value <= by_list(theta, F, epsilon) * (1 + 1e-10)


@pytest.mark.parametrize("epsilon", [1e-9, 0.3, 2.0, 20.0])
def test_after_whole_cycles_the_bound_is_the_statistic(epsilon: float) -> None:
    """A is a multiple of I then: no price for slack at any number of features."""
    theta = np.random.default_rng(3).standard_normal(14)
    F = np.eye(14) / math.sqrt(48.0)
    confusion = Hypercube(14).confusion(theta, F, epsilon)
    assert confusion.is_exact
    assert confusion.value == pytest.approx(by_list(theta, F, epsilon), rel=1e-12)
    assert attained(theta, F, epsilon, confusion.rival) == pytest.approx(confusion.value, rel=1e-12)


@given(seed=SEEDS, dim=st.sampled_from([1, 3, 8, 14, 30]), scale=st.sampled_from([1e-60, 1e-3, 7.0, 1e60]))
def test_units_do_not_matter_and_slack_only_helps(seed: int, dim: int, scale: float) -> None:
    """Rewards in another unit square the scale of Z'; pulling everything c^2 times as often multiplies it by c^2."""
    rng = np.random.default_rng(seed)
    theta, F, cube = rng.standard_normal(dim), random_factor(rng, dim, 4.0), Hypercube(dim)
    slacks = [0.0, 1e-12, 0.01, 0.1, 1.0, 10.0, 100.0]
    values = [cube.confusion(theta, F, epsilon).value for epsilon in slacks]
    assert all(low <= high * (1 + 1e-12) for low, high in pairwise(values))
    for epsilon, value in zip(slacks, values, strict=True):
        scaled = cube.confusion(scale * theta, F, scale * epsilon).value
        assert scaled == pytest.approx(scale**2 * value, rel=1e-11)
        assert cube.confusion(theta, F / scale, epsilon).value == pytest.approx(scale**2 * value, rel=1e-11)


@pytest.mark.parametrize("dim", [1, 2, 7, 13, 40])
def test_ties_give_zero_without_slack_and_a_number_with(dim: int) -> None:
    """A zero in theta, or nothing but zeros; the best arm takes +1 there."""
    cube, F = Hypercube(dim), random_factor(np.random.default_rng(dim), dim, 2.0)
    one_zero = np.full(dim, -1.0)
    one_zero[0] = -0.0
    for theta in (one_zero, np.zeros(dim)):
        best = cube.best(theta)
        assert best[0] == 1.0
        tied = cube.confusion(theta, F, 0.0)
        assert (tied.value, tied.is_exact) == (0.0, True)
        assert np.flatnonzero(tied.rival != best).size == 1
        assert 0.0 < cube.confusion(theta, F, 0.1).value < np.inf


def test_best_is_the_same_vector_for_the_same_theta() -> None:
    """Signs, as a fresh array."""
    theta = np.array([0.0, -3.0, 1e-300, -1e-300])
    first = Hypercube(4).best(theta)
    np.testing.assert_array_equal(first, [1.0, -1.0, 1.0, -1.0])
    first[:] = 0.0
    np.testing.assert_array_equal(Hypercube(4).best(theta), [1.0, -1.0, 1.0, -1.0])


@pytest.mark.parametrize("dim", range(1, 65))
def test_a_cycle_measures_all_features_equally_and_independently(dim: int) -> None:
    """A = H I exactly, H at most the next power of two; up to 64 only H = 52 is out of reach."""
    cube = Hypercube(dim)
    rows = cube.cycle(3, seed=1)
    H = len(rows)
    assert dim <= H <= 2 ** math.ceil(math.log2(dim))
    assert H == (dim if dim <= 2 else 56 if dim in range(49, 53) else 4 * math.ceil(dim / 4))
    np.testing.assert_array_equal(np.abs(rows), 1.0)
    np.testing.assert_array_equal(rows.T @ rows, H * np.eye(dim))
    rows[:] = 0.0  # a copy
    assert (cube.cycle(4, seed=2) != 0.0).all()


def test_every_construction_of_hadamard_matrices() -> None:
    """All orders up to 200 that can be built: doubling, and a prime of either residue modulo 4."""
    orders = sorted({hadamard_order(n) for n in range(1, 201)})
    assert set(range(4, 201, 4)) - set(orders) == {52, 92, 100, 116, 156, 172, 184, 188}
    for order in orders:
        H = hadamard(order).astype(np.float64)
        assert set(np.unique(H)) <= {-1.0, 1.0}
        np.testing.assert_array_equal(H.T @ H, order * np.eye(order))


def test_arms_are_checked() -> None:
    """Signs of any number type; anything else is refused with its place."""
    cube = Hypercube(3)
    arms: list[Any] = [[1, -1, 1], np.array([1.0, -1.0, 1.0]), (True, -1, 1.0), np.array([1, -1, 1], dtype=np.int8)]
    for arm in arms:
        checked = cube.checked(arm)
        assert checked.dtype == np.float64
        np.testing.assert_array_equal(checked, [1.0, -1.0, 1.0])
    misfits: list[tuple[Any, int]] = [([1, 0, 1], 1), ([1, -1, 1 + 1e-15], 2), ([False, 1, 1], 0), ([1, -1, np.nan], 2)]
    for arm, place in misfits:
        with pytest.raises(InvalidInput, match=f"position {place}"):
            cube.checked(arm)
    shapes: list[Any] = [[1, -1], [[1, -1, 1]], "+-+", None]
    for arm in shapes:
        with pytest.raises(InvalidInput, match="`arm` must be a vector of 3 numbers"):
            cube.checked(arm)


def test_the_cube_is_a_vector_set() -> None:
    """It answers the protocol, and refuses a dimension that is none."""
    assert isinstance(Hypercube(3), VectorSet)
    assert not Hypercube(3).needs_slack
    assert Hypercube(3).description == "the hypercube of 3 signs"
    assert Hypercube(3.0) == Hypercube(3)  # type: ignore[arg-type]
    for dim in (0, 2.5, "3"):
        with pytest.raises(InvalidInput, match="`dim`"):
            Hypercube(dim)  # type: ignore[arg-type]


@pytest.mark.parametrize("dim", [2, 3, 4])
def test_the_characteristic_time_is_that_of_the_listed_arms(dim: int) -> None:
    """Against the certified solver; the bound of the table is 58.9."""
    theta = np.random.default_rng(dim).uniform(0.3, 1.0, dim) * (-1.0) ** np.arange(dim)
    listed = np.array(list(product([-1.0, 1.0], repeat=dim)))
    certified = design.characteristic_time(listed, theta, tol=1e-6)
    assert (
        certified.lower_bound * (1 - 1e-9) <= Hypercube(dim).characteristic_time(theta) <= certified.value * (1 + 1e-9)
    )
    assert Hypercube(dim).lower_bound(theta, 0.1, 2.0) == pytest.approx(
        design.lower_bound(listed, theta, 0.1, 2.0), rel=2e-6
    )
    assert Hypercube(dim).lower_bound([0.3] * dim) == pytest.approx(58.9, abs=0.05)
    assert Hypercube(dim).lower_bound(theta, 0.7) == 0.0


def test_a_zero_coordinate_has_no_characteristic_time() -> None:
    """Zero, or too small to be squared."""
    for zero in (0.0, 1e-200):
        with pytest.raises(TiedArms, match="position 1"):
            Hypercube(3).characteristic_time([1.0, zero, 2.0])
        with pytest.raises(TiedArms, match="position 1"):
            Hypercube(3).lower_bound([1.0, -zero, 2.0])


@pytest.mark.parametrize(("dim", "delta", "n_cycles"), [(1, 0.05, 1), (4, 0.05, 30), (20, 1e-9, 7), (53, 0.4, 10**6)])
def test_the_coordinate_threshold_is_the_root_of_its_mixture(dim: int, delta: float, n_cycles: int) -> None:
    """Against a bracketing root finder, one dimension, risk delta/d, regularisers 4^j."""
    H = hadamard_order(dim)
    t, scales = n_cycles * H, 4.0 ** np.arange(10)

    def excess(xi: float) -> float:
        terms = -math.log(10.0) - 0.5 * np.log1p(t / scales) + xi * t / (t + scales)
        return float(np.logaddexp.reduce(terms)) - math.log(dim / delta)

    expected = optimize.brentq(excess, 0.0, 1000.0, xtol=1e-12)
    assert coordinate_threshold(t, dim, delta) == pytest.approx(expected, rel=1e-10)


def test_the_coordinate_threshold_needs_whole_cycles() -> None:
    """Between two cycles the coordinates are not independent."""
    with pytest.raises(InvalidInput, match="multiple of 12"):
        coordinate_threshold(30, dim=10, delta=0.05)
    with pytest.raises(InvalidInput, match="`n_pulls`"):
        coordinate_threshold(0, dim=10, delta=0.05)
    with pytest.raises(InvalidInput, match="`delta`"):
        coordinate_threshold(12, dim=10, delta=0.0)


REFERENCE = {
    # (d, the features after the first): mean pulls and standard error, for all features together and for each alone.
    (4, 0.3): ((331.7, 1.9), (264.5, 1.7)),
    (4, 1.0): ((219.9, 2.2), (168.3, 1.9)),
    (8, 0.3): ((499.9, 2.0), (333.6, 1.7)),
    (8, 1.0): ((313.9, 2.6), (188.9, 2.0)),
    (20, 0.3): ((869.6, 2.2), (428.6, 1.6)),
    (20, 1.0): ((543.4, 3.5), (218.5, 2.1)),
}
N_RUNS, DELTA = 1000, 0.05


@pytest.mark.statistical
@pytest.mark.parametrize(("dim", "rest"), list(REFERENCE))
def test_mean_pulls_are_those_of_the_reference_table(dim: int, rest: float) -> None:
    """At delta = .05, noise_std 1, checked after each cycle, 1000 runs.

    A mean is off by more than 4 combined standard errors with probability 6e-5 (normal), 8e-4 for all twelve. A rule
    that errs with probability .05 has more errors than the limit with probability below 1e-6 (exact binomial).
    """
    rng = np.random.default_rng([dim, int(10 * rest)])
    theta = np.full(dim, rest)
    theta[0] = 0.3
    n = np.arange(1, 1400 // dim + 1)
    t = n * dim
    # After n cycles of length d, theta_hat - theta is normal with covariance I / t: a walk divided by its time.
    noise = np.cumsum(rng.standard_normal((N_RUNS, len(n), dim)), axis=1) / (math.sqrt(dim) * n[:, None])
    estimates = theta + noise
    statistic = np.square(estimates).min(axis=2) * t / 2.0

    def pulls(thresholds: Array) -> Array:
        reached = statistic >= thresholds
        assert reached.any(axis=1).all()
        stop = np.argmax(reached, axis=1)
        wrong = (estimates[np.arange(N_RUNS), stop] < 0.0).any(axis=1)
        assert np.count_nonzero(wrong) <= binom.isf(1e-6, N_RUNS, DELTA)
        return t[stop].astype(np.float64)

    log_dets = dim * np.log1p(t[:, None] / MIX_GRID.scales)
    together = pulls(mix_grid_threshold(log_dets, t, delta=DELTA, noise_std=1.0))
    alone = pulls(np.array([coordinate_threshold(int(x), dim, DELTA) for x in t]))
    for simulated, (mean, error) in zip((together, alone), REFERENCE[dim, rest], strict=True):
        combined = math.hypot(error, simulated.std(ddof=1) / math.sqrt(N_RUNS))
        assert abs(simulated.mean() - mean) < 4.0 * combined
