"""Properties of designs that hold for every instance."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surepick as sp
from surepick.core.design.directions import GapDirections
from surepick.core.design.generation import PreparedArms
from surepick.core.design.solve import separating_design
from tests.families import FAMILIES, Array, spanning

TOL = 1e-6
SAME = pytest.approx


@st.composite
def instances(draw: st.DrawFn) -> tuple[Array, Array, np.random.Generator]:
    """Arms of some family, a theta of their scale, and a generator for whatever else is random."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dim = draw(st.integers(2, 6))
    X = spanning(FAMILIES[draw(st.sampled_from(sorted(FAMILIES)))], rng, draw(st.integers(dim + 1, 60)), dim)
    return X, rng.standard_normal(dim) / np.abs(X).max(axis=0), rng


def values(X: Array, theta: Array) -> tuple[float, float]:
    """T* and the G-optimal value."""
    return sp.characteristic_time(X, theta, tol=TOL).value, sp.optimal_design(X, tol=TOL).value


def solvable(X: Array, theta: Array) -> bool:
    """Whether the best arm is ahead by more than rounding, also after a change of features."""
    top = np.sort(np.unique(X @ theta))[-2:]
    return len(top) == 2 and bool(top[1] - top[0] > 1e-6 * np.abs(X @ theta).max())


@given(instances())
def test_permuting_or_duplicating_arms_changes_no_value(instance: tuple[Array, Array, np.random.Generator]) -> None:
    """The order of the rows and the number of copies do not matter."""
    X, theta, rng = instance
    if not solvable(X, theta):
        return
    expected = values(X, theta)
    assert values(X[rng.permutation(len(X))], theta) == SAME(expected, rel=3 * TOL)
    assert values(np.vstack([X, X[rng.integers(0, len(X), 10)]]), theta) == SAME(expected, rel=3 * TOL)


@given(instances(), st.floats(1e-3, 1e3))
def test_scaling_or_mapping_features_changes_no_value(
    instance: tuple[Array, Array, np.random.Generator], scale: float
) -> None:
    """An invertible change of features, with theta changed to match, leaves T* and the G-optimal value alone."""
    X, theta, rng = instance
    if not solvable(X, theta):
        return
    expected = values(X, theta)
    columns = 10.0 ** rng.uniform(-3, 3, X.shape[1])
    assert values(X * columns, theta / columns) == SAME(expected, rel=3 * TOL)
    mixed = np.linalg.qr(rng.standard_normal(2 * X.shape[1:]))[0]
    units = np.abs(X).max(axis=0)  # else rounding X @ mixed already changes a feature that is 1e11 times smaller
    assert values(X / units @ mixed, np.linalg.solve(mixed, theta * units)) == SAME(expected, rel=3 * TOL)
    assert values(X, theta * scale)[0] == SAME(expected[0] / scale**2, rel=3 * TOL)


@given(instances())
def test_weights_lie_on_the_simplex_and_value_is_what_they_reach(
    instance: tuple[Array, Array, np.random.Generator],
) -> None:
    """The reported value is the worst direction of the reported weights, by a direct solve."""
    X, theta, _ = instance
    if not solvable(X, theta):
        return
    design = sp.characteristic_time(X, theta, tol=TOL)
    assert design.weights.min() > 0
    assert design.weights.sum() == SAME(1.0)
    scale = np.abs(X).max(axis=0)
    A = (X[design.support] / scale).T @ (design.weights[:, None] * X[design.support] / scale)
    best = int(np.argmax(X @ theta))
    Y = X[best] - X
    Y = Y[np.any(Y != 0, axis=1)]
    worst = (np.einsum("ij,ji->i", Y / scale, np.linalg.solve(A, (Y / scale).T)) / (Y @ theta) ** 2).max()
    assert 2 * worst == SAME(design.value, rel=1e-6 * max(1.0, np.linalg.cond(A) * 1e-8))


def tampered(design: sp.Design) -> dict[str, sp.Design]:
    """The same design with one claim changed."""
    moved = design.weights.copy()
    moved[0], moved[-1] = moved[0] * 0.9, moved[-1] + 0.1 * moved[0]
    half = len(design.multipliers) // 2
    return {
        "value too good": replace(design, value=design.value * (1 - 1e-3)),
        "bound too good": replace(design, lower_bound=design.lower_bound * (1 + 1e-3)),
        "weights moved": replace(design, weights=moved / moved.sum()),
        "weights do not sum to one": replace(design, weights=design.weights * 1.01),
        "negative multiplier": replace(design, multipliers=-design.multipliers),
        "alternatives swapped": replace(design, alternatives=design.alternatives[::-1] * 1.5 + 0.1),
        "other theta": replace(design, theta=None if design.theta is None else design.theta[::-1] + 0.5),
        "arm out of range": replace(design, support=design.support + 10**6),
        "multipliers cut": replace(design, multipliers=design.multipliers[:half]),
        "not finite": replace(design, weights=design.weights * np.nan),
    }


def test_verify_accepts_the_design_and_refuses_every_tampered_one() -> None:
    """Each single change to weights, bounds, multipliers, alternatives or theta is noticed."""
    rng = np.random.default_rng(40)
    X = FAMILIES["unit_sphere"](rng, 100, 5)
    arms, theta = sp.FiniteArms(X), rng.standard_normal(5)
    design = sp.characteristic_time(arms, theta, tol=1e-8)
    assert design.verify(arms)
    for what, changed in tampered(design).items():
        assert not changed.verify(arms), what


def test_verify_refuses_other_arms() -> None:
    """A certificate belongs to its arms: better arms make its lower bound false, other shapes make it meaningless."""
    rng = np.random.default_rng(41)
    X = FAMILIES["unit_sphere"](rng, 100, 5)
    design = sp.characteristic_time(X, rng.standard_normal(5))
    assert not design.verify(sp.FiniteArms(2.0 * X))
    assert not design.verify(sp.FiniteArms(X[:20]))
    assert not design.verify(sp.FiniteArms(X[:, :4]))


@pytest.mark.parametrize("kind", ["g-optimal", "directions"])
def test_verify_covers_every_kind_of_design(kind: str) -> None:
    """The G-optimal design and designs for given directions are re-checked too."""
    rng = np.random.default_rng(42)
    X = FAMILIES["gaussian"](rng, 100, 4)
    arms = sp.FiniteArms(X)
    design = sp.optimal_design(arms, None if kind == "g-optimal" else rng.standard_normal((20, 4)), tol=1e-6)
    assert design.verify(arms)
    assert not replace(design, value=design.value * 0.999).verify(arms)
    assert not replace(design, lower_bound=design.lower_bound * 1.001).verify(arms)


def test_require_hands_the_design_on_or_raises() -> None:
    """`require` returns the design itself, or NotCertified with both numbers."""
    design = sp.optimal_design(FAMILIES["gaussian"](np.random.default_rng(43), 50, 3), tol=1e-3)
    assert design.require(1e-3) is design
    with pytest.raises(sp.NotCertified, match=r"within 0 of optimal.*smaller `tol`"):
        replace(design, value=design.value * 1.1).require(0.0)


@pytest.mark.parametrize("tol", [0.2, 1e-3])
def test_a_design_that_need_not_be_sparse_is_certified_all_the_same(tol: float) -> None:
    """On up to d(d+1)/2 arms, without a pass to prove it: the stored bounds hold when recomputed."""
    rng = np.random.default_rng(5)
    arms, theta = sp.FiniteArms(rng.standard_normal((30_000, 6))), rng.standard_normal(6)
    design = separating_design(PreparedArms(arms), GapDirections(arms, theta), tol=tol, is_sparse=False)
    assert design.gap <= tol
    assert len(design.support) <= 21
    assert replace(design, candidates=None).verify(arms)


@pytest.mark.parametrize("n_arms", [300, 30_000])
def test_a_design_that_is_still_good_is_kept_without_a_master(n_arms: int) -> None:
    """After a small change of theta the earlier weights are priced, and certified for the new theta."""
    rng = np.random.default_rng(5)
    arms, theta = sp.FiniteArms(rng.standard_normal((n_arms, 4))), rng.standard_normal(4)
    ground = PreparedArms(arms)
    first = separating_design(ground, GapDirections(arms, theta), tol=0.02, is_sparse=False)
    nearby, elsewhere = 1.001 * theta + 1e-4 * rng.standard_normal(4), -theta
    kept, other = (
        separating_design(ground, GapDirections(arms, changed), tol=0.05, warm_start=first, is_sparse=False)
        for changed in (nearby, elsewhere)
    )
    assert kept.effort.rounds == 0 < other.effort.rounds
    np.testing.assert_allclose(kept.weights, first.weights, rtol=1e-12)
    for design in (kept, other):
        assert design.gap <= 0.05
        assert replace(design, candidates=None).verify(arms)
