"""The ellipsoid: sampling, the sphere as a special case, optimality of its cycle, thin and flat axes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from surepick.arms.base import VectorSet
from surepick.arms.ellipsoid import Ellipsoid
from surepick.arms.sphere import Sphere
from surepick.errors import ArmsDoNotSpan, InvalidInput
from surepick.types import Array


def solve(A: Array, B: Array) -> Array:
    """A^-1 B."""
    return np.asarray(np.linalg.solve(A, B), dtype=np.float64)


def ratios(rivals: Array, best: Array, theta: Array, F: Array, epsilon: float) -> Array:
    """The objective at each rival (n, d)."""
    y = best - rivals
    return np.asarray((y @ theta + epsilon) ** 2 / (2.0 * ((y @ F) ** 2).sum(axis=1)))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dim", [2, 3])
def test_against_sampling(dim: int, seed: int) -> None:
    """Best arm and statistic over a net of the body; the slack keeps the minimum away from 0/0 at the best arm."""
    rng = np.random.default_rng([dim, seed])
    center, axes = rng.standard_normal(dim), rng.standard_normal((dim, dim))
    theta, F = rng.standard_normal(dim), rng.standard_normal((dim, dim + 1))
    epsilon = float(np.linalg.norm(axes.T @ theta)) * rng.uniform(0.2, 3.0)
    body = Ellipsoid(center, axes)
    best, found = body.best(theta), body.confusion(theta, F, epsilon)

    directions = rng.standard_normal((300_000, dim))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    surface = center + directions @ axes.T
    inside = center + directions * rng.uniform(0.0, 1.0, (len(directions), 1)) @ axes.T
    spread = float(np.ptp(surface @ theta))
    assert theta @ best - float((surface @ theta).max()) == pytest.approx(0.0, abs=1e-4 * spread)
    assert theta @ best >= float(np.max([surface @ theta, inside @ theta])) - 1e-12 * spread
    net = float(ratios(surface, best, theta, F, epsilon).min())
    assert found.value * (1.0 - 1e-9) <= net <= found.value * (1.0 + (1e-6 if dim == 2 else 1e-2))
    assert float(ratios(inside, best, theta, F, epsilon).min()) >= found.value * (1.0 - 1e-9)
    np.testing.assert_array_equal(body.checked(found.rival), found.rival)
    assert ratios(found.rival[None], best, theta, F, epsilon)[0] == pytest.approx(found.value, rel=1e-9)


@given(seed=st.integers(0, 2**32 - 1), dim=st.integers(2, 8), radius=st.floats(1e-3, 1e3))
def test_balls_and_changes_of_coordinates(seed: int, dim: int, radius: float) -> None:
    """The unit ball is the sphere, a ball of radius r is the sphere for (r theta, r F); x -> T x changes nothing."""
    rng = np.random.default_rng(seed)
    theta, F, epsilon = rng.standard_normal(dim), rng.standard_normal((dim, dim)), 0.3
    ball = Ellipsoid(rng.standard_normal(dim), radius * np.eye(dim)).confusion(theta, F, epsilon)
    assert ball.value == pytest.approx(Sphere(dim).confusion(radius * theta, radius * F, epsilon).value, rel=1e-9)
    T = rng.standard_normal((dim, dim)) + 3.0 * np.eye(dim)
    center, axes = rng.standard_normal(dim), rng.standard_normal((dim, dim))
    value = Ellipsoid(center, axes).confusion(theta, F, epsilon).value
    moved = Ellipsoid(T @ center, T @ axes).confusion(solve(T.T, theta), solve(T.T, F), epsilon)
    assert moved.value == pytest.approx(value, rel=1e-7)


@pytest.mark.parametrize("length", [0.0, 0.2, 0.5, 0.9, 3.0])
@pytest.mark.parametrize("dim", [2, 3, 5, 10])
def test_cycle_is_e_optimal(dim: int, length: float) -> None:
    """No design beats its smallest eigenvalue per pull: weak duality, max over u of (m + u)'M(m + u), trace M = 1."""
    rng = np.random.default_rng(dim)
    n = rng.standard_normal(dim)
    n /= np.linalg.norm(n)
    axes = rng.standard_normal((dim, dim)) + 2.0 * np.eye(dim)
    body = Ellipsoid(length * axes @ n, axes)
    arms = body.cycle(0, 0)
    assert len(arms) == (2 * (dim - 1) if length else dim)
    for arm in arms:
        np.testing.assert_array_equal(body.checked(arm), arm)
    white = solve(axes, arms.T).T
    least = float(np.linalg.eigvalsh(white.T @ white / len(arms))[0])
    assert 1.0 / dim - 1e-12 <= least <= 1.0 / (dim - 1) + 1e-12

    along = np.linspace(-1.0, 1.0, 20_001)  # n'u; M = s n n' + (1 - s)/(d - 1) (I - n n')

    def worst(s: float) -> float:
        return float((s * (length + along) ** 2 + (1.0 - s) / (dim - 1) * (1.0 - along**2)).max())

    bound = optimize.minimize_scalar(worst, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-10}).fun
    assert least == pytest.approx(bound, abs=1e-7)


@pytest.mark.parametrize(("length", "least"), [(0.0, 1 / 3), (0.2, 0.4048356), (0.5, 0.4812376), (0.9, 0.5)])
def test_cycle_in_three_dimensions(length: float, least: float) -> None:
    """(1 - c^2)/2 with c = (sqrt(3 - 2 l^2) - 2 l)/3, or 0 for l^2 >= 1/2."""
    arms = Ellipsoid([0.0, length, 0.0], np.eye(3)).cycle(0, 0)
    assert np.linalg.eigvalsh(arms.T @ arms / len(arms))[0] == pytest.approx(least, abs=1e-7)


@pytest.mark.parametrize("dim", [2, 3, 6])
@pytest.mark.parametrize("offset", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("is_rotated", [False, True])
def test_thin_axes(dim: int, offset: float, is_rotated: bool) -> None:
    """Condition number 1e12: the cycle spans and the statistic is what the sphere says, up to 1e-16 times 1e12."""
    rng = np.random.default_rng(dim)
    axes = np.diag(np.geomspace(1.0, 1e-12, dim))
    if is_rotated:
        left, right = (np.linalg.qr(rng.standard_normal((dim, dim)))[0] for _ in range(2))
        axes = left @ axes @ right
    u = rng.standard_normal(dim)
    u /= np.linalg.norm(u)
    body = Ellipsoid(offset * axes @ u, axes)
    arms = body.cycle(0, 0)
    F = np.linalg.inv(np.linalg.qr(arms, mode="r"))
    theta = solve(axes.T, rng.standard_normal(dim))
    white = axes.T @ theta
    unit = Ellipsoid(offset * u, np.eye(dim)).cycle(0, 0)
    exact = Sphere(dim).confusion(white, np.linalg.inv(np.linalg.qr(unit, mode="r")), 0.1).value
    found = body.confusion(theta, F, 0.1)
    assert found.value == pytest.approx(exact, rel=5e-3 if is_rotated else 1e-9)
    for arm in (body.best(theta), found.rival, *arms):
        np.testing.assert_array_equal(body.checked(arm), arm)


def test_what_is_and_is_not_an_ellipsoid() -> None:
    """Flat bodies, shapes, one dimension, a centre that drowns the axes."""
    assert isinstance(Ellipsoid([0.0, 0.0], np.eye(2)), VectorSet)
    assert repr(Ellipsoid([0, 1], np.eye(2))) == "Ellipsoid([0.0, 1.0], [[1.0, 0.0], [0.0, 1.0]])"
    for flat in (np.diag([1.0, 0.0]), np.ones((2, 2)), np.array([[1.0, 1.0], [1.0, 1.0 + 1e-15]])):
        with pytest.raises(InvalidInput, match="reduce the dimension first"):
            Ellipsoid([0.0, 0.0], flat)
    for axes in (np.ones((1, 1)), np.ones((2, 3))):
        with pytest.raises(InvalidInput, match="square table with at least 2 rows"):
            Ellipsoid([0.0, 0.0], axes)
    with pytest.raises(InvalidInput, match="`center` must be a vector of 2 numbers"):
        Ellipsoid([0.0], np.eye(2))
    with pytest.raises(ArmsDoNotSpan, match="too far from 0"):
        Ellipsoid([1.0, 1.0], 1e-17 * np.eye(2))


def test_questions_to_an_ellipsoid() -> None:
    """Slack, theta = 0, membership."""
    body = Ellipsoid([1.0, 0.0], np.diag([2.0, 0.5]))
    assert body.needs_slack
    assert body.description == "the ellipsoid in R^2"
    with pytest.raises(InvalidInput, match="`epsilon` must be above 0 on the ellipsoid in R\\^2"):
        body.confusion(np.ones(2), np.eye(2), 0.0)
    assert body.confusion(np.zeros(2), np.eye(2), 0.1).value == 0.0
    np.testing.assert_array_equal(body.best(np.zeros(2)), [3.0, 0.0])
    for inside in ([1.0, 0.0], [3.0, 0.0], [3.0 + 1e-6, 0.0], [1.0 + math.sqrt(2.0), math.sqrt(0.125)]):
        np.testing.assert_array_equal(body.checked(inside), inside)
    for outside in ([3.0 + 3e-6, 0.0], [-1.1, 0.0], [1.0, 0.51]):
        with pytest.raises(InvalidInput, match="`arm` must be inside the ellipsoid"):
            body.checked(outside)
    changed = body.cycle(0, 0)
    changed[:] = 0.0
    assert body.cycle(1, 0).any()  # the set keeps its own
