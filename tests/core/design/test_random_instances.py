"""Designs on random and on hand-made hard instances: all certified, all re-verified, references agree."""

import math

import cvxpy as cp
import numpy as np
import pytest

import surepick as sp
from surepick.arms.finite import FiniteArms
from tests.families import FAMILIES, Array, spanning

PER_FAMILY = 30  # 10 families: 300 instances


@pytest.mark.parametrize("name", FAMILIES)
def test_every_random_instance_is_certified_and_verified(name: str) -> None:
    """Gap at most tol, certificate re-checked, support at most d(d+1)/2, for every kind of design."""
    seed = list(FAMILIES).index(name)
    rng = np.random.default_rng([20, seed])
    for number in range(PER_FAMILY):
        dim, tol = int(rng.integers(2, 13)), 10.0 ** -rng.uniform(2, 8)
        X = spanning(FAMILIES[name], rng, int(rng.integers(dim + 1, 400)), dim)
        arms, scale = FiniteArms(X), np.abs(X).max(axis=0)
        theta = rng.standard_normal(dim) / scale
        kind = number % 4
        if kind == 0:
            design = sp.characteristic_time(arms, theta, tol=tol)
        elif kind == 1:
            design = sp.optimal_design(arms, tol=tol)
        elif kind == 2:
            shrunk = X[: max(2, len(X) // 3)] * rng.uniform(0.5, 1.0, (max(2, len(X) // 3), 1))
            design = sp.characteristic_time(arms, theta, candidates=shrunk, tol=tol)
        else:
            design = sp.optimal_design(arms, rng.standard_normal((int(rng.integers(1, 30)), dim)) * scale, tol=tol)
        label = f"instance {number} of {name} (seed {seed}), kind {kind}, tol {tol:.1e}"
        assert design.gap <= tol, label
        assert design.verify(arms), label
        assert len(design.support) <= dim * (dim + 1) // 2, label
        assert design.weights.min() > 0, label
        assert design.weights.sum() == pytest.approx(1.0, abs=1e-12), label


def reference_value(X: Array, Y: Array) -> float:
    """Worst y'A^-1 y of the best design by CVXPY and Clarabel: sums of quadratic over linear terms."""
    n, m = len(X), len(Y)
    w, worst = cp.Variable(n, nonneg=True), cp.Variable()
    constraints = [cp.sum(w) == 1]
    for j in range(m):
        # y'A(w)^-1 y = min over c with X'c = y of sum c_i^2 / w_i
        c, parts = cp.Variable(n), cp.Variable(n)
        constraints += [X.T @ c == Y[j], cp.sum(parts) <= worst]
        constraints += [cp.quad_over_lin(c[i], w[i]) <= parts[i] for i in range(n)]
    problem = cp.Problem(cp.Minimize(worst), constraints)
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == cp.OPTIMAL
    return float(worst.value)


@pytest.mark.parametrize("seed", range(6))
def test_a_conic_solver_finds_the_same_value(seed: int) -> None:
    """CVXPY with Clarabel agrees on small instances of best-arm, G-optimal and given-direction designs."""
    rng = np.random.default_rng([21, seed])
    X, dim = rng.standard_normal((9, 3)), 3
    theta = rng.standard_normal(dim)
    best = int(np.argmax(X @ theta))
    differences = X[best] - np.delete(X, best, axis=0)
    Y = differences / (differences @ theta)[:, None]
    assert sp.characteristic_time(X, theta, tol=1e-8).value == pytest.approx(2 * reference_value(X, Y), rel=1e-5)
    given = rng.standard_normal((4, dim))
    assert sp.optimal_design(X, given, tol=1e-8).value == pytest.approx(reference_value(X, given), rel=1e-5)
    assert sp.optimal_design(X, tol=1e-8).value == pytest.approx(reference_value(X, X), rel=1e-5)


def _map(cond: float) -> Array:
    rng = np.random.default_rng(22)
    left, right = (np.linalg.qr(rng.standard_normal((5, 5)))[0] for _ in range(2))
    mapped: Array = left @ np.diag(np.geomspace(1.0, 1.0 / cond, 5)) @ right
    return mapped


def _spanned_by_one() -> Array:
    X = np.zeros((5000, 4))
    X[:, :3] = np.random.default_rng(23).standard_normal((5000, 3))
    X[1234] = [0.1, 0.2, 0.3, 1e-3]
    return X


SPHERE = FAMILIES["unit_sphere"](np.random.default_rng(24), 60, 5)
THETA = np.array([0.6, -0.3, 0.2, 0.5, -0.5])
SKEW = np.array([1.0, 1e12, 1e-12, 1e4, 1.0])
EDGES: dict[str, tuple[Array, Array]] = {
    **{f"near-tie {gap:g}": (np.eye(4), np.array([1.0, 1.0 - gap, 0.3, 0.1])) for gap in (1e-3, 1e-6, 1e-9, 1e-12)},
    **{
        f"angle {w:g}": (
            np.vstack([np.eye(5), [[math.cos(w), math.sin(w), 0, 0, 0]]]),
            np.array([1.0, 0, 0, 0, 0]),
        )
        for w in (1e-2, 1e-4, 1.5e-6)
    },
    "five copies": (np.repeat(SPHERE, 5, axis=0), THETA),
    "collinear": (np.vstack([SPHERE, 0.5 * SPHERE, 0.25 * SPHERE]), THETA),
    "copies up to 1e-7": (np.vstack([SPHERE, SPHERE * (1 - 1e-7)]), THETA),
    "column scales 1e24 apart": (SPHERE * SKEW, THETA / SKEW),
    "map of condition 1e7": (SPHERE @ _map(1e7), np.linalg.solve(_map(1e7), THETA)),
    "span through one arm in 5000": (_spanned_by_one(), np.array([1.0, 0.5, 0.2, 0.1])),
    "huge": (SPHERE * 1e100, THETA),
    "small": (SPHERE * 1e-100, THETA),
    "hypercube": (
        np.array([[1.0 if i >> j & 1 else -1.0 for j in range(8)] for i in range(256)]),
        np.linspace(1, 0.3, 8),
    ),
    "one feature": (np.array([[1.0], [2.0]]), np.array([1.0])),
    "as many arms as features": (np.eye(10), np.linspace(1, 0, 10)),
}


@pytest.mark.parametrize("tol", [1e-4, 1e-8])
@pytest.mark.parametrize("name", EDGES)
def test_edge_instances_are_certified(name: str, tol: float) -> None:
    """Near-ties, copies, bad scaling and bad conditioning end with a certificate like everything else."""
    X, theta = EDGES[name]
    arms = sp.FiniteArms(X)
    design = sp.characteristic_time(arms, theta, tol=tol)
    assert design.gap <= tol
    assert design.verify(arms)
    assert len(design.support) <= arms.dim * (arms.dim + 1) // 2


@pytest.mark.parametrize("tol", [1e-4, 1e-8])
def test_an_optimum_that_measures_a_subspace_only_keeps_a_regular_matrix(tol: float) -> None:
    """Candidates in a plane leave some arms nearly unused; the design still spans and is certified."""
    arms = sp.FiniteArms(np.eye(5))
    design = sp.characteristic_time(arms, [1, 0.5, 0.2, 0, 0], candidates=np.eye(5)[:3], tol=tol)
    assert design.gap <= tol
    assert design.verify(arms)
    assert np.linalg.matrix_rank(np.eye(5)[design.support] * design.weights[:, None], tol=1e-300) == 5


def test_many_arms_are_priced_in_few_passes() -> None:
    """At K = 60,000 the pools do most of the work: at most 20 full passes for 1e-4, and the answer verifies."""
    X = FAMILIES["unit_sphere"](np.random.default_rng(25), 60_000, 10)
    arms = sp.FiniteArms(X)
    design = sp.characteristic_time(arms, np.random.default_rng(26).standard_normal(10))
    assert design.effort.passes <= 20
    assert design.require(1e-4).verify(arms)


def test_solving_twice_gives_the_same_bits() -> None:
    """The solver draws no random numbers."""
    X = FAMILIES["unit_sphere"](np.random.default_rng(27), 500, 8)
    theta = np.random.default_rng(28).standard_normal(8)
    first, second = (sp.characteristic_time(X, theta, tol=1e-6) for _ in range(2))
    assert first.value == second.value
    np.testing.assert_array_equal(first.support, second.support)
    np.testing.assert_array_equal(first.weights, second.weights)


def test_a_warm_start_changes_the_way_not_the_value() -> None:
    """From the design of a nearby or of a quite different theta the same value is certified."""
    rng = np.random.default_rng(29)
    X = FAMILIES["unit_sphere"](rng, 2000, 10)
    arms, theta = sp.FiniteArms(X), rng.standard_normal(10)
    cold = sp.characteristic_time(arms, theta, tol=1e-6)
    for other in (theta + 1e-3 * rng.standard_normal(10), rng.standard_normal(10), -theta):
        warm = sp.characteristic_time(arms, theta, tol=1e-6, warm_start=sp.characteristic_time(arms, other))
        assert warm.value == pytest.approx(cold.value, rel=2e-6)
        assert warm.verify(arms)


def test_a_chain_of_warm_starts_with_changing_leaders_stays_certified() -> None:
    """A drifting estimate, as a learner sees it: every design of the chain is certified."""
    rng = np.random.default_rng(30)
    X = FAMILIES["clustered"](rng, 300, 4)
    arms, design = sp.FiniteArms(X), sp.optimal_design(X)
    for step in range(60):
        theta = np.array([1.0, 0.5, 0.0, -0.5]) + 2.0 ** (-step / 10) * rng.standard_normal(4)
        design = sp.characteristic_time(arms, theta, tol=1e-4, warm_start=design)
        assert design.gap <= 1e-4
        assert design.verify(arms)
