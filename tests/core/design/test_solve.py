"""Designs whose value is known in closed form or was computed elsewhere."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog

import surepick as sp
from surepick.arms.finite import FiniteArms
from surepick.core.design import optimal_design
from surepick.core.design.directions import GapDirections
from surepick.core.design.generation import PreparedArms
from surepick.core.design.solve import separating_design
from surepick.simulation import problems

RELATIVE = 1e-6


def certified(arms: object, theta: object, **options: object) -> sp.Design:
    """Solve tightly, and insist that the certificate holds."""
    design = sp.characteristic_time(arms, theta, tol=1e-8, **options)  # type: ignore[arg-type]
    finite = arms if isinstance(arms, sp.FiniteArms) else sp.FiniteArms(arms)
    assert design.gap <= 1e-8
    assert design.verify(finite)
    return design


@pytest.mark.parametrize(("angle", "scale"), [(0.1, 1.0), (0.1, 2.0), (math.pi / 6, 1.0), (0.01, 2.0)])
def test_two_dimensional_soare_instance_follows_its_formula(angle: float, scale: float) -> None:
    """Arms e1, e2, (cos w, sin w): T* and the weights are explicit."""
    problem = problems.soare(2, angle=angle, scale=scale)
    design = certified(problem.X, problem.theta)
    short, long = 1.0 - math.cos(angle), math.sin(angle)
    assert design.value == pytest.approx(2.0 * ((short + long) / (scale * short)) ** 2, rel=RELATIVE)
    np.testing.assert_array_equal(design.support, [0, 1])
    np.testing.assert_allclose(design.weights, np.array([short, long]) / (short + long), rtol=1e-6)


def test_known_values_of_the_two_dimensional_soare_instance() -> None:
    """The formula itself gives the published numbers."""
    values = [
        certified(problem.X, problem.theta).value
        for problem in (problems.soare(2, angle=w, scale=s) for w, s in ((0.1, 1.0), (0.1, 2.0), (0.01, 2.0)))
    ]
    np.testing.assert_allclose(values, [880.60, 220.15, 20200.2], rtol=1e-5)


def test_six_dimensional_soare_instance() -> None:
    """Soare d = 6, angle .1, theta = e1."""
    problem = problems.soare(6, angle=0.1, scale=1.0)
    design = certified(problem.X, problem.theta)
    assert design.value == pytest.approx(888.99966, rel=RELATIVE)
    np.testing.assert_allclose(design.weights, [0.0474, 0.9431, 0.0024, 0.0024, 0.0024, 0.0024], atol=5e-5)


def test_unit_basis_with_even_steps() -> None:
    """Five orthogonal arms with means 1, .75, .., 0: the classical bandit."""
    assert certified(np.eye(5), [1, 0.75, 0.5, 0.25, 0]).value == pytest.approx(142.967124, rel=RELATIVE)


@pytest.mark.parametrize("n_arms", [2, 3, 10, 40])
def test_unit_basis_with_equal_gaps_follows_its_formula(n_arms: int) -> None:
    """Orthogonal arms, one better than the rest by .5."""
    design = certified(np.eye(n_arms), [0.5] + [0.0] * (n_arms - 1))
    root = math.sqrt(n_arms - 1)
    assert design.value == pytest.approx(2.0 * (1.0 + root) ** 2 / 0.25, rel=RELATIVE)
    assert design.weights[0] == pytest.approx(1.0 / (1.0 + root), rel=1e-4)


def test_transductive_instance() -> None:
    """Candidates that cannot be measured: d = 20 in ambient dimension 40."""
    problem = problems.transductive(20)
    design = certified(problem.X, problem.theta, candidates=problem.candidates)
    assert design.value == pytest.approx(928.39752, rel=RELATIVE)


def test_many_arms_on_a_fine_grid() -> None:
    """The many-arms problem in the limit of infinitely many arms."""
    angle = np.linspace(0.78, 0.88, 100_001)
    X = np.vstack([np.column_stack([np.cos(angle), np.sin(angle)]), [[1.0, 0.0], [-0.707, 0.707]]])
    assert certified(X, [1.0, 0.0]).value == pytest.approx(22.434576, rel=RELATIVE)


@pytest.mark.parametrize(("n_arms", "dim"), [(2, 2), (50, 3), (300, 7), (5000, 4), (1000, 20)])
def test_g_optimal_value_is_the_dimension(n_arms: int, dim: int) -> None:
    """Kiefer and Wolfowitz: the smallest possible largest leverage is d."""
    X = np.random.default_rng(n_arms).standard_normal((n_arms, dim))
    design = sp.optimal_design(X, tol=1e-7)
    assert design.value == pytest.approx(dim, rel=RELATIVE)
    assert design.lower_bound == dim
    leverage = np.einsum("ij,jk,ik->i", X, np.linalg.inv((X[design.support].T * design.weights) @ X[design.support]), X)
    assert leverage.max() == pytest.approx(design.value, rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_single_direction_costs_its_squared_l1_norm(seed: int) -> None:
    """One direction y: the value is (min |c|_1 with X'c = y) squared, here by linear programming."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((40, 6)), rng.standard_normal(6)
    program = linprog(np.ones(80), A_eq=np.hstack([X.T, -X.T]), b_eq=y)
    assert sp.optimal_design(X, y[None], tol=1e-8).value == pytest.approx(float(program.fun or 0) ** 2, rel=RELATIVE)


def test_lower_bound_is_the_characteristic_time_in_bits_of_confidence() -> None:
    """T* sigma^2 kl(delta, 1 - delta), with T* = 8/gap^2 for two orthogonal arms."""
    expected = 8.0 / 0.25 * 4.0 * 0.9 * math.log(19.0)
    assert sp.lower_bound(np.eye(2), [0.5, 0.0], delta=0.05, noise_std=2.0) == pytest.approx(expected, rel=RELATIVE)


def test_rounding_keeps_the_total_and_loses_little() -> None:
    """Whole pulls sum to n, and their design is within the factor that the theorem allows."""
    problem = problems.sphere(5, 200, seed=3)
    design = sp.characteristic_time(problem.X, problem.theta)
    for n in (len(design.support), 50, 1000):
        counts = design.round(n)
        assert counts.sum() == n
        assert (counts > 0).all()
    n = 1000
    rounded = sp.Design(
        **{name: getattr(design, name) for name in design.__dataclass_fields__ if name != "weights"},
        weights=design.round(n) / n,
    )
    value, _ = rounded._recomputed(sp.FiniteArms(problem.X))
    assert design.value * (1 - 1e-3) <= value <= design.value / (1.0 - len(design.support) / n)


@pytest.mark.parametrize(
    ("angle", "n_arms", "m", "bound"), [(math.pi / 3, 4, 2, 26.0), (math.pi / 6, 4, 2, 314.0), (0.1, 3, 1, 583.0)]
)
def test_several_leaders_have_the_design_of_all_their_directions(
    angle: float, n_arms: int, m: int, bound: float
) -> None:
    """The m best against the rest: the value of the explicit list of m (K - m) directions, to 1e-5.

    The lower bound 2 sigma^2 value kl(.05, .95) with sigma = .5 is that of the published instances.
    """
    X = np.vstack([np.eye(n_arms - 1), np.zeros(n_arms - 1)])
    X[-1, [0, -1]] = math.cos(angle), math.sin(angle)
    theta = (np.arange(n_arms - 1) < m).astype(float)
    arms = FiniteArms(X)
    design = separating_design(PreparedArms(arms), GapDirections(arms, theta, leaders=list(range(m))), tol=1e-7)
    Y = np.array([(X[u] - X[j]) / ((X[u] - X[j]) @ theta) for u in range(m) for j in range(m, n_arms)])
    listed = optimal_design(X, Y, tol=1e-7)
    assert design.value == pytest.approx(2.0 * listed.value, rel=1e-5)
    assert design.gap <= 1e-7
    assert 0.25 * design.value * 0.9 * math.log(19.0) == pytest.approx(bound, abs=0.5)


def test_several_leaders_with_a_pool_agree_with_the_full_list() -> None:
    """Many candidates, so that directions are priced by passes: the same value as with all of them at hand."""
    X = np.random.default_rng(5).standard_normal((3000, 4))
    theta = np.array([1.0, 0.5, -0.2, 0.1])
    order = np.argsort(-(X @ theta))
    arms = FiniteArms(X)
    design = separating_design(PreparedArms(arms), GapDirections(arms, theta, leaders=order[:3].tolist()), tol=1e-6)
    Y = np.vstack([(X[u] - X[order[3:]]) / ((X[u] - X[order[3:]]) @ theta)[:, None] for u in order[:3]])
    assert design.value == pytest.approx(2.0 * optimal_design(X, Y, tol=1e-6).value, rel=1e-5)
