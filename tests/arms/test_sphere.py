"""The sphere: reference values, brute force over mirror images, duality gap, designs, bounds and the printed rule."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from surepick.arms.base import VectorSet
from surepick.arms.sphere import Sphere, printed_rule, tangents
from surepick.arms.sphere_oracle import most_confusing, restricted_statistic, unit_and_norm
from surepick.errors import InvalidInput
from surepick.types import Array


def factor(A: Array) -> Array:
    """F with F F' = A^-1."""
    return np.linalg.inv(np.linalg.cholesky(A)).T


def rotation(rng: np.random.Generator, dim: int) -> Array:
    """A random orthogonal matrix."""
    return np.asarray(np.linalg.qr(rng.standard_normal((dim, dim)))[0])


def ratios(w: Array, theta: Array, F: Array, epsilon: float) -> Array:
    """The objective at b = a - 2 (a'w) w for rows w of any length; never as a - b, which cancels near a."""
    R = float(np.linalg.norm(theta))
    norms = (w * w).sum(axis=-1)
    p = (w @ theta / R) ** 2 / norms
    q = ((w @ F) ** 2).sum(axis=-1) / norms
    return np.asarray((2.0 * R * p + epsilon) ** 2 / (8.0 * p * q))


# A, theta, epsilon: value, p, gamma, nu, floor, restricted.
REFERENCE = [
    (7.0 * np.eye(3), [1, 2, 2], 0.3, (6.3, 0.05, 0, 0.142857, 6.3, 6.3)),
    (7.0 * np.eye(3), [0.1, 0.2, 0.2], 1.0, (2.24, 1, 0.0357143, 0.178571, 2.1, math.inf)),
    (
        np.diag([1.0, 4, 9]),
        [3, 0.1, 0.1],
        0.05,
        (0.5732167606, 0.0089199, -1.01598, 0.253222, 0.15016657, 0.5732167606),
    ),
    (np.diag([1.0, 4, 9]), [0.1, 0.1, 3], 0.5, (1.588040371, 0.0736261, 0.79017, 1.00735, 1.5016657, 1.594901119)),
    (np.diag([1.0, 4, 9]), [0, 1, 1], 0.2, (0.2991138989, 0.0634145, 0.813559, 1, 0.28284271, 0.3001070714)),
    (np.diag([6.0, 6, 5, 5]), [1, -0.5, 0.25, 0.8], 0.4, (2.794637722, 0.143131, 0, 0.2, 2.7946377, 2.794637722)),
    (
        np.diag([6.0, 6, 6, 5]),
        [1, -0.5, 0.25, 0.8],
        0.4,
        (2.816714412, 0.14737, -0.0196499, 0.195579, 2.7946377, 2.816714412),
    ),
    (
        np.array([[5.0, 2], [2, 3]]),
        [0.7, -0.2],
        0.15,
        (0.2277927564, 0.133761, -0.473271, 0.424304, 0.19262428, 0.2277927564),
    ),
]


@pytest.mark.parametrize(("A", "theta", "epsilon", "expected"), REFERENCE)
def test_reference_values(A: Array, theta: list[float], epsilon: float, expected: tuple[float, ...]) -> None:
    """Values to 1e-9; p, gamma, nu and the floor to the digits they are written with."""
    value, p, gamma, nu, floor, restricted = expected
    found = most_confusing(np.array(theta, dtype=float), factor(A), epsilon)
    assert found.value == pytest.approx(value, rel=1e-9)
    assert found.p == pytest.approx(p, rel=1e-5)
    assert found.gamma == pytest.approx(gamma, rel=1e-5, abs=1e-12)
    assert found.nu == pytest.approx(nu, rel=1e-5)
    assert found.floor == pytest.approx(floor, rel=1e-7)
    assert restricted_statistic(np.array(theta, dtype=float), factor(A), epsilon) == pytest.approx(restricted, rel=1e-9)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dim", [2, 3])
def test_brute_force_over_mirror_images(dim: int, seed: int) -> None:
    """A net of w, refined from its best point, with and without the paper's restriction p >= epsilon/(2 R)."""
    rng = np.random.default_rng([dim, seed])
    theta = rng.standard_normal(dim)
    if seed % 3 == 0:
        theta[0] = 0.0  # a has no part along the first eigenvector
    F = np.diag(np.exp(rng.uniform(-2.0, 0.5, dim)))
    F[0, 0] = F.max() * 1.5
    if seed % 2:
        F = rotation(rng, dim) @ F
    R = float(np.linalg.norm(theta))
    epsilon = R * 10.0 ** rng.uniform(-2.0, 0.25)
    if dim == 2:
        angles = np.linspace(0.0, math.pi, 200_001)[1:]
        w = np.column_stack([np.cos(angles), np.sin(angles)])
    else:
        w = rng.standard_normal((200_000, 3))
    w = w[np.abs(w @ theta) > 1e-9 * R]
    scores = ratios(w, theta, F, epsilon)
    starts = w[np.argsort(scores)[:3]]
    polished = [
        optimize.minimize(ratios, w0, (theta, F, epsilon), "Nelder-Mead", options={"xatol": 1e-12, "fatol": 1e-16}).fun
        for w0 in starts
    ]
    found = most_confusing(theta, F, epsilon)
    assert min(polished) == pytest.approx(found.value, rel=1e-10)

    p = (w @ theta / R) ** 2 / (w * w).sum(axis=1)
    allowed = p >= epsilon / (2.0 * R)
    net = float(scores[allowed].min()) if allowed.any() else math.inf
    restricted = restricted_statistic(theta, F, epsilon)
    assert restricted * (1.0 - 1e-9) <= net <= restricted * (1.0 + (1e-3 if dim == 2 else 2e-2))


@given(
    seed=st.integers(0, 2**32 - 1),
    dim=st.integers(2, 20),
    digits=st.floats(0.0, 6.0),
    slack=st.floats(-6.0, 1.0),
    levels=st.sampled_from(["spread", "two", "one"]),
    hard=st.sampled_from([1.0, 1e-4, 1e-9, 1e-16, 1e-30, 0.0]),
    where=st.sampled_from([[0], [1], [0, 1]]),
)
def test_primal_and_dual_meet(
    seed: int, dim: int, digits: float, slack: float, levels: str, hard: float, where: list[int]
) -> None:
    """Condition numbers of A up to 1e6, multiple eigenvalues, and a almost or fully orthogonal to the eigenvectors."""
    rng = np.random.default_rng(seed)
    spread = np.sort(10.0 ** rng.uniform(0.0, digits, dim))
    eigenvalues = {"spread": spread, "two": np.sort(rng.choice([1.0, 10.0**digits], dim)), "one": 0.0 * spread + 7.0}
    a = rng.standard_normal(dim)
    a[where] *= hard
    if not a.any():
        a[0] = 1.0
    Q = rotation(rng, dim)
    theta, F = Q @ a, Q / np.sqrt(eigenvalues[levels])
    epsilon = float(np.linalg.norm(theta)) * 10.0**slack
    found = most_confusing(theta, F, epsilon)
    assert np.linalg.norm(found.rival) == pytest.approx(1.0, abs=1e-14)
    w = unit_and_norm(theta)[0] - found.rival
    primal = float(ratios(w, theta, F, epsilon))
    # The test's own w = a - b carries an error of 1e-16 over |a - b|, at least 1e-3, and no first-order effect.
    assert found.value * (1.0 - 1e-12) <= primal <= found.value * (1.0 + 1e-10)
    assert found.value >= found.floor
    lambda_min = float(np.linalg.svd(F, compute_uv=False)[0]) ** -2
    assert found.floor == pytest.approx(float(np.linalg.norm(theta)) * epsilon * lambda_min, rel=1e-12)


@given(seed=st.integers(0, 2**32 - 1), dim=st.integers(2, 8), s=st.floats(1e-6, 1e6), n=st.floats(1e-6, 1e6))
def test_rotations_scales_and_wide_factors(seed: int, dim: int, s: float, n: float) -> None:
    """Z' is s^2 n Z' for (s theta, s epsilon, n A), the same in every basis, and sees F through F F' only."""
    rng = np.random.default_rng(seed)
    theta, F = rng.standard_normal(dim), rng.standard_normal((dim, dim + 3))
    epsilon = float(10.0 ** rng.uniform(-3.0, 0.5))
    value = most_confusing(theta, F, epsilon).value
    Q, wide = rotation(rng, dim), rotation(rng, dim + 3)
    assert most_confusing(Q @ theta, Q @ F, epsilon).value == pytest.approx(value, rel=1e-9)
    assert most_confusing(theta, F @ wide, epsilon).value == pytest.approx(value, rel=1e-9)
    assert most_confusing(s * theta, F / math.sqrt(n), s * epsilon).value == pytest.approx(s * s * n * value, rel=1e-9)


@pytest.mark.parametrize("dim", [2, 3, 20])
@pytest.mark.parametrize("ratio", [1e-8, 0.1, 0.4999999, 0.5, 0.5000001, 1.0, 1e6, 1e12])
def test_multiples_of_the_identity_have_a_closed_form(dim: int, ratio: float) -> None:
    """N R epsilon for R >= epsilon/2, else n (2 R + epsilon)^2/8; here n = 7, epsilon = 0.3, R = ratio epsilon."""
    theta = 0.3 * ratio * unit_and_norm(np.arange(1.0, dim + 1.0))[0]
    R = 0.3 * ratio
    expected = 7.0 * R * 0.3 if ratio >= 0.5 else 7.0 * (2.0 * R + 0.3) ** 2 / 8.0
    found = Sphere(dim).confusion(theta, np.eye(dim) / math.sqrt(7.0), 0.3)
    assert found.value == pytest.approx(expected, rel=1e-13)
    assert found.is_exact
    if ratio < 0.5:
        np.testing.assert_allclose(found.rival, -unit_and_norm(theta)[0], atol=1e-7)


def test_zero_and_extreme_numbers() -> None:
    """The value of theta = 0 is 0; very small and large units give the same answer in those units."""
    sphere = Sphere(3)
    nothing = sphere.confusion(np.zeros(3), np.eye(3), 0.1)
    assert nothing.value == 0.0
    assert not nothing.is_exact
    np.testing.assert_array_equal(sphere.best(np.zeros(3)), [1.0, 0.0, 0.0])
    theta, F = np.array([1.0, -2.0, 0.5]), factor(np.diag([1.0, 4.0, 9.0]))
    value = sphere.confusion(theta, F, 0.1).value
    for unit in (1e-250, 1e-160, 1e160, 1e250):
        assert sphere.confusion(unit * theta, unit * F, unit * 0.1).value == pytest.approx(value, rel=1e-12)
        assert np.linalg.norm(sphere.best(unit * theta)) == pytest.approx(1.0, abs=1e-15)
    ill = sphere.confusion(theta, np.diag([1.0, 1e-7, 1e-14]), 0.1)  # A has condition number 1e28
    assert ill.value >= math.sqrt(5.25) * 0.1 * (1.0 - 1e-15)
    assert math.isfinite(ill.value)


def test_sphere_as_a_set() -> None:
    """What an algorithm asks of it, and what it refuses."""
    sphere = Sphere(3)
    assert isinstance(sphere, VectorSet)
    assert sphere.needs_slack
    assert sphere.description == "the unit sphere in R^3"
    np.testing.assert_array_equal(sphere.cycle(4, 0), np.eye(3))
    arm = np.array([0.6, 0.0, 0.8]) * (1.0 + 9e-7)
    once = sphere.checked(arm)
    assert float(once @ once) == pytest.approx(1.0, abs=4e-16)
    np.testing.assert_array_equal(sphere.checked(once), once)
    for bad in ([0.6, 0.0, 0.81], [0.0, 0.0, 0.0], [1.0, 0.0], [1.0, 0.0, math.nan]):
        with pytest.raises(InvalidInput, match="`arm` must"):
            sphere.checked(bad)
    for dim in (1, 0, 2.5):
        with pytest.raises(InvalidInput, match="`dim` must"):
            Sphere(dim)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="`epsilon` must be above 0 on the unit sphere in R\\^3"):
        sphere.confusion(np.ones(3), np.eye(3), 0.0)
    with pytest.raises(InvalidInput, match="`epsilon` must be above 0 on the unit sphere in R\\^3, got -1;"):
        sphere.confusion(np.ones(3), np.eye(3), -1.0)


@given(seed=st.integers(0, 2**32 - 1), dim=st.integers(2, 8), slack=st.floats(-3.0, 1.0))
def test_optimal_weights_attain_the_characteristic_time(seed: int, dim: int, slack: float) -> None:
    """The design has Z' = 1/T*, and no other one more: random ones, its neighbours, and round robin."""
    rng = np.random.default_rng(seed)
    sphere, theta = Sphere(dim), rng.standard_normal(dim)
    epsilon = float(np.linalg.norm(theta)) * 10.0**slack
    rows, weights = sphere.optimal_weights(theta, epsilon)
    np.testing.assert_allclose(rows @ rows.T, np.eye(dim), atol=1e-14)
    assert weights.sum() == pytest.approx(1.0)

    def rate(A: Array) -> float:
        return sphere.confusion(theta, factor(A), epsilon).value

    best = rows.T * weights @ rows
    time = sphere.characteristic_time(theta, epsilon)
    assert rate(best) == pytest.approx(1.0 / time, rel=1e-9)
    for _ in range(5):
        arms = rng.standard_normal((3 * dim, dim))
        arms /= np.linalg.norm(arms, axis=1)[:, None]
        other = arms.T @ arms / len(arms)
        for share in (1.0, 0.1, 0.001):
            assert rate((1.0 - share) * best + share * other) <= (1.0 + 1e-9) / time
    assert rate(np.eye(dim) / dim) <= (1.0 + 1e-9) / time


@pytest.mark.parametrize(("dim", "epsilon", "ratio"), [(2, 0.1, 1.36), (2, 0.01, 1.75), (5, 0.1, 1.06), (10, 0.2, 1.0)])
def test_what_round_robin_loses(dim: int, epsilon: float, ratio: float) -> None:
    """d/(R epsilon) over T*; nothing when epsilon/(2 R) = 1/d."""
    time = Sphere(dim).characteristic_time(np.eye(dim)[0], epsilon)
    assert dim / epsilon / time == pytest.approx(ratio, abs=0.005)


LOWER = [(0.01, 24.1, 5.0), (0.05, 4.18, 1.0), (0.1, 1.73, 0.5), (0.15, 0.94, 1 / 3), (0.1999999, 0.57, 0.25)]


@pytest.mark.parametrize(("epsilon", "sharp", "paper"), LOWER)
def test_lower_bounds(epsilon: float, sharp: float, paper: float) -> None:
    """Reference values per noise_std^2 (d - 1) kl, at |theta| = 1."""
    sphere, theta = Sphere(4), np.array([0.0, 0.6, 0.0, 0.8])
    unit = 9.0 * 3.0 * 0.98 * math.log(99.0)
    assert sphere.lower_bound(theta, epsilon, 0.01, 3.0) == pytest.approx(sharp * unit, rel=5e-3)
    assert sphere.lower_bound(theta, epsilon, 0.01, 3.0, constant="paper") == pytest.approx(paper * unit, rel=1e-5)
    assert sphere.lower_bound(theta, epsilon, 0.5) == 0.0
    # A bound on every algorithm cannot exceed what the best one needs when delta is small.
    assert sphere.lower_bound(theta, epsilon, 0.01, 3.0) <= 9.0 * 0.98 * math.log(99.0) * sphere.characteristic_time(
        theta, epsilon
    )


@pytest.mark.parametrize("epsilon", [0.001, 0.2, 0.9])
def test_sharp_bound_is_where_the_sets_of_good_arms_part(epsilon: float) -> None:
    """In the plane, on a net of arms: the two arcs meet just before the angle in the bound and not after."""
    bound = Sphere(2).lower_bound([1.0, 0.0], epsilon, delta=0.1)
    turn = math.sqrt(2.0 * 0.8 * math.log(9.0) / bound)  # tan(angle)
    angles = np.linspace(-0.1, 0.6 * math.pi, 1_000_001)
    arms = np.column_stack([np.cos(angles), np.sin(angles)])
    for factor_of_turn, meet in ((0.999, True), (1.001, False)):
        other = np.array([1.0, factor_of_turn * turn])
        good = (1.0 - arms[:, 0] <= epsilon) & (np.linalg.norm(other) - arms @ other <= epsilon)
        assert good.any() == meet


@pytest.mark.parametrize("epsilon", [1e-200, 1e-12, 1.0 - 1e-6, 1.0 - 1e-9, 1.0 - 1e-15])
def test_sharp_bound_at_the_ends_of_its_range(epsilon: float) -> None:
    """About 1/(4 epsilon) per (d - 1) kl near 0, and next to nothing near |theta|."""
    bound = Sphere(2).lower_bound([0.0, 1.0], epsilon, delta=0.1) / (0.8 * math.log(9.0))
    assert bound == pytest.approx(0.25 / epsilon, rel=1e-3) if epsilon < 0.5 else 0.0 <= bound < 1e-3


def test_bounds_refuse_what_is_not_proved() -> None:
    """Slack beyond the proof's range, theta = 0, unknown names."""
    sphere = Sphere(2)
    with pytest.raises(InvalidInput, match="`epsilon` must be below 2 "):
        sphere.lower_bound([0.0, 2.0], 2.0)
    with pytest.raises(InvalidInput, match=r"`epsilon` must be below 0\.4 "):
        sphere.lower_bound([0.0, 2.0], 0.4, constant="paper")
    with pytest.raises(InvalidInput, match="`constant` must be"):
        sphere.lower_bound([0.0, 2.0], 0.4, constant="best")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="`epsilon` must be above 0"):
        sphere.characteristic_time([0.0, 2.0], 0.0)
    with pytest.raises(InvalidInput, match="`theta` must not be 0"):
        sphere.optimal_weights([0.0, 0.0], 0.1)


@pytest.mark.parametrize("unit", [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.6, -0.8], [-0.6, 1e-20, 0.8]])
def test_tangents_complete_an_orthonormal_basis(unit: list[float]) -> None:
    """Also where a reflection could cancel."""
    basis = np.vstack([unit, tangents(np.array(unit))])
    np.testing.assert_allclose(basis @ basis.T, np.eye(3), atol=1e-15)


PRINTED = {
    # (d, delta): the paper's threshold for A = n I, noise_std 1, at n = 1, 10, 100, 1000, 10000.
    (2, 0.05): [12.532043, 25.151879, 38.796670, 52.594279, 66.407990],
    (5, 0.05): [18.276647, 36.010728, 56.307194, 76.985706, 97.704474],
    (20, 0.05): [34.219032, 77.524334, 131.079180, 186.162205, 241.406257],
    (5, 0.01): [21.495523, 39.229604, 59.526070, 80.204582, 100.923350],
}


@pytest.mark.parametrize(("dim", "delta"), list(PRINTED))
def test_printed_threshold_has_its_reference_values(dim: int, delta: float) -> None:
    """And its statistic the closed form n R epsilon_t after full cycles."""
    theta, epsilon = unit_and_norm(np.ones(dim))[0], 0.5
    for n, expected in zip([1, 10, 100, 1000, 10000], PRINTED[dim, delta], strict=True):
        t, F = n * dim, np.eye(dim) / math.sqrt(n)
        reading = printed_rule(t, theta, F, epsilon=epsilon, delta=delta, noise_std=1.0)
        assert reading.threshold == pytest.approx(expected, abs=1e-6)
        assert printed_rule(t, theta, F, epsilon=epsilon, delta=delta, noise_std=3.0).threshold == pytest.approx(
            9.0 * expected, abs=1e-5
        )
        L = 4.0 * math.log(4.0 * n * (math.pi * t) ** 2 / (6.0 * delta))
        epsilon_t = epsilon / (1.0 + epsilon / math.sqrt(L))
        assert reading.statistic == pytest.approx(n * epsilon_t, rel=1e-12)
        assert reading.information == pytest.approx(n, rel=1e-12)
        rho = 4.0 * 0.5 * expected * epsilon_t**2 / (epsilon - epsilon_t) ** 2
        assert reading.information_needed == pytest.approx(rho, rel=1e-6)


def test_printed_rule_without_rivals_does_not_stop() -> None:
    """A tiny theta leaves no arm that loses epsilon_t: the statistic is infinite, the second condition fails."""
    for theta in (np.zeros(2), np.array([1e-3, 0.0]), np.array([1e-200, 0.0])):
        reading = printed_rule(2000, theta, np.eye(2) / math.sqrt(1000), epsilon=0.5, delta=0.1, noise_std=1.0)
        assert reading.statistic == math.inf
        assert not reading.is_reached
    with pytest.raises(InvalidInput, match="`n_pulls` must be a whole number of at least 2"):
        printed_rule(1, np.ones(2), np.eye(2), epsilon=0.5, delta=0.1, noise_std=1.0)


def test_printed_rule_takes_its_reference_number_of_pulls() -> None:
    """Round robin in the plane, |theta| = 1, epsilon 0.5, delta 0.1, checked after every pull: 202812 on average.

    The stopping time has a standard deviation of 76 sqrt(400) = 1520, so the mean of 30 runs leaves +-0.5 % (3.7
    standard errors) with probability 2e-4. The second condition comes last; it is found on whole paths at once, and
    the rule itself is asked at the time found, one pull before and at earlier times.
    """
    rng = np.random.default_rng(12)
    n_cycles, taken = 110_000, []
    n = np.arange(1, n_cycles + 1)
    t = np.arange(2, 2 * n_cycles + 1)
    risk = 0.6 / (math.pi * t) ** 2
    counts = np.column_stack([(t + 1) // 2, t // 2])
    zeta = np.log(2.0 / risk) + 0.5 * np.log1p(counts).sum(axis=1)
    L = 4.0 * np.log(4.0 * counts[:, 0] / risk)
    for _ in range(30):
        means = math.sqrt(0.5) + np.cumsum(rng.standard_normal((n_cycles, 2)), axis=0) / n[:, None]
        theta = np.column_stack([means[counts[:, 0] - 1, 0], means[counts[:, 1] - 1, 1]])
        square = (theta * theta).sum(axis=1)
        holds = counts[:, 1] >= 4.0 * zeta * L / (0.25 * square)
        stop = int(np.argmax(holds))
        assert holds[stop]
        taken.append(int(t[stop]))
        for i in (stop, stop - 1, *rng.integers(0, stop, 5)):
            reading = printed_rule(
                int(t[i]), theta[i], np.diag(counts[i] ** -0.5), epsilon=0.5, delta=0.1, noise_std=1.0
            )
            assert reading.is_reached == (i == stop)
    assert np.mean(taken) == pytest.approx(202812, rel=5e-3)


def _wrong_parameters(rng: np.random.Generator, theta: Array, A: Array, epsilon: float) -> list[Array]:
    """Return parameters under which the best arm for `theta` loses more than epsilon: the nearest, and longer ones."""
    dim, best = len(theta), unit_and_norm(theta)[0]
    wrong = []
    for tilt in 10.0 ** rng.uniform(-4.0, 1.0, 12):
        b = unit_and_norm(best + tilt * rng.standard_normal(dim))[0]
        y = best - b
        across = np.linalg.solve(A, y)
        # The nearest point, in the norm of A, of the half-space in which b is better by a little more than epsilon.
        wrong.append(theta - (theta @ y + 1.000001 * epsilon) / (y @ across) * across)
        wrong.append(-(10.0 ** rng.uniform(0.0, 2.0)) * epsilon * b)
        wrong.append(10.0 ** rng.uniform(0.0, 4.0) * (np.linalg.norm(theta) + epsilon) * b)
    return [other for other in wrong if np.linalg.norm(other) - other @ best > epsilon]


def _mixture_exponents(seed: int) -> Iterator[tuple[bool, bool, bool, float]]:
    """Yield for wrong truths: do the conditions hold, is the truth long, and S'(A + I)^-1 S / (2 noise_std^2 zeta)."""
    rng = np.random.default_rng(seed)
    dim, noise_std, delta = int(rng.integers(2, 6)), 10.0 ** rng.uniform(-1.0, 1.0), 10.0 ** rng.uniform(-6.0, -0.1)
    epsilon = noise_std * 10.0 ** rng.uniform(-1.0, 3.0)
    axes = rotation(rng, dim)
    A = (axes * 10.0 ** rng.uniform(0.0, rng.choice([0.01, 1.0, 6.0]), dim)) @ axes.T
    t = max(math.ceil(np.trace(A)), dim)
    best = unit_and_norm(rng.standard_normal(dim))[0]
    # The second condition asks |theta| to reach a number: just above it, or below.
    short = printed_rule(t, 1e-9 * best, factor(A), epsilon=epsilon, delta=delta, noise_std=noise_std)
    R = 1e-9 * math.sqrt(short.information_needed / short.information) * 10.0 ** rng.choice([0.01, -0.5, -2.0])
    theta = R * best
    reading = printed_rule(t, theta, factor(A), epsilon=epsilon, delta=delta, noise_std=noise_std)
    L = 4.0 * noise_std**2 * math.log(4.0 * math.ceil(t / dim) * (math.pi * t) ** 2 / (6.0 * delta))
    for truth in _wrong_parameters(rng, theta, A, epsilon):
        S = A @ (theta - truth)
        exponent = float(S @ np.linalg.solve(A + np.eye(dim), S))
        is_long = np.linalg.norm(truth) > (1.0 + epsilon / math.sqrt(L)) * R
        yield (
            reading.statistic >= reading.threshold,
            reading.information >= reading.information_needed,
            bool(is_long),
            exponent / reading.threshold,
        )


def test_a_wrong_stop_of_the_printed_rule_needs_a_large_mixture() -> None:
    """The inequality its proof rests on, in both of its cases; the first condition alone would not do."""
    smallest = {True: math.inf, False: math.inf}
    without_second = math.inf
    for seed in range(1000):
        for is_above, is_informed, is_long, ratio in _mixture_exponents(seed):
            if is_above and is_informed:
                smallest[is_long] = min(smallest[is_long], ratio)
            elif is_above:
                without_second = min(without_second, ratio)
    assert 1.0 - 1e-9 <= min(smallest.values())
    assert max(smallest.values()) < 10.0  # both cases were met, and not from afar
    assert without_second < 0.1
