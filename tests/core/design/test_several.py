"""T* of the m best: values in closed form, and what is refused."""

import math

import cvxpy as cp
import numpy as np
import pytest

import surepick as sp
from benchmarks.best_m import instance_a, instance_drugs
from surepick.errors import InvalidInput, TiedArms


def test_two_of_four_unit_vectors() -> None:
    """T* = 256/7 with weights 1, 7, 7 and 1 of 16, certified."""
    design = sp.characteristic_time(np.eye(4), [1.0, 0.5, 0.0, -0.5], m=2, tol=1e-8)
    assert design.value == pytest.approx(256.0 / 7.0, rel=1e-7)
    assert design.weights == pytest.approx(np.array([1.0, 7.0, 7.0, 1.0]) / 16.0, rel=1e-5)
    assert design.verify(np.eye(4))
    assert sp.lower_bound(np.eye(4), [1.0, 0.5, 0.0, -0.5], m=2) == pytest.approx(96.91408, abs=1e-5)


@pytest.mark.parametrize(("angle", "value"), [(math.pi / 6, 118.4457), (math.pi / 3, 9.64537)])
def test_the_basis_and_an_arm_at_an_angle(angle: float, value: float) -> None:
    """The two best of four, noise 0.5."""
    X = np.vstack([np.eye(3), [math.cos(angle), 0.0, math.sin(angle)]])
    assert 0.25 * sp.characteristic_time(X, [1.0, 1.0, 0.0], m=2, tol=1e-8).value == pytest.approx(value, rel=1e-5)


def test_ten_arms_of_a_published_experiment() -> None:
    """Experiment A of Reda, Tirinzoni and Degenne (2021) with c = 0, the three best of ten: the bound is 326.6."""
    found = instance_a()
    assert sp.characteristic_time(found.X, found.theta, m=3, tol=1e-8).value == pytest.approx(123.2498, abs=1e-4)
    assert found.bound == pytest.approx(123.2498 * 0.9 * math.log(19.0), rel=1e-5)


def test_all_but_the_worst_is_the_best_of_the_mirror_image() -> None:
    """Both have the same pairs."""
    X, theta = np.random.default_rng(3).normal(size=(6, 3)), np.array([1.0, -0.4, 0.3])
    several, one = sp.characteristic_time(X, theta, m=5, tol=1e-7), sp.characteristic_time(X, -theta, tol=1e-7)
    assert several.value == pytest.approx(one.value, rel=1e-5)


def test_ties_at_the_edge_and_too_many_are_refused() -> None:
    """A tie of two that are both among the best does no harm."""
    with pytest.raises(TiedArms, match="tied"):
        sp.characteristic_time(np.eye(3), [1.0, 0.5, 0.5], m=2)
    assert sp.characteristic_time(np.eye(3), [1.0, 1.0, 0.5], m=2).value > 0.0
    for m in (3, 0):
        with pytest.raises(InvalidInput, match="`m` must be"):
            sp.lower_bound(np.eye(3), [1.0, 0.5, 0.2], m=m)


def test_the_five_best_of_ten_drugs_by_another_solver() -> None:
    """Experiment D of the same paper with the means of its linear fit: T* = 4111.78 by a cone program."""
    found = instance_drugs()
    means, w, t = found.X @ found.theta, cp.Variable(10, nonneg=True), cp.Variable()
    order = np.argsort(-means)
    Y = [(found.X[u] - found.X[j]) / (means[u] - means[j]) for u in order[:5] for j in order[5:]]
    L = np.linalg.cholesky(np.linalg.inv(found.X.T @ found.X))  # better conditioned, and of another size
    rows = found.X @ L
    A = sum(w[k] * np.outer(row, row) for k, row in enumerate(rows))
    limits = [cp.matrix_frac(y @ L / 100.0, A) <= t for y in Y]
    cp.Problem(cp.Minimize(t), [cp.sum(w) == 1.0, *limits]).solve(solver=cp.CLARABEL)
    value = sp.characteristic_time(found.X, found.theta, m=5, tol=1e-8).value
    assert value == pytest.approx(2e4 * float(t.value), rel=1e-5)
    assert value == pytest.approx(4111.778, abs=1e-2)
    assert found.bound == pytest.approx(value * 0.9 * math.log(19.0), rel=1e-3)
