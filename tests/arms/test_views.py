"""Whitened arms: the same oracles as arms whitened by hand, and no trace of the user's coordinates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surepick import Design, FiniteArms, optimal_design
from surepick.arms.base import ArmSet
from surepick.arms.views import WhitenedArms, whiten
from surepick.core.linalg import triangular
from surepick.types import Array
from tests.families import FAMILIES, Family, spanning

seeds = st.integers(0, 2**32 - 1)


def ratio(gap: Array, quad: Array) -> Array:
    """The squared gap per squared length, which decides when to stop."""
    return gap * gap / quad


def total(gap: Array, first: Array, second: Array) -> Array:
    """A score that uses all its arguments and has no ties."""
    return gap + first + second


def invertible(rng: np.random.Generator, dim: int, condition: float) -> Array:
    """Return a (d, d) map with this condition number and random axes."""
    left, right = (np.linalg.qr(rng.standard_normal((dim, dim)))[0] for _ in range(2))
    return (left * np.logspace(0.0, -np.log10(condition), dim)) @ right


def mapped_theta(M: Array, theta: Array) -> Array:
    """Return the parameter that gives mapped arms the rewards theta gives the arms themselves."""
    return np.asarray(np.linalg.solve(M, theta), dtype=np.float64)


def by_design(arms: FiniteArms, design: Design) -> WhitenedArms:
    """Return the view in which these weights, optimal or not, have identity information."""
    return WhitenedArms(arms, triangular(np.sqrt(design.weights)[:, None] * arms.gather(design.support)), design)


def test_whitened_arms_are_an_arm_set() -> None:
    """The view answers every question that algorithms may ask."""
    white = whiten(FiniteArms(np.random.default_rng(0).standard_normal((6, 2))))
    assert isinstance(white, ArmSet)
    assert (white.n_arms, white.dim) == (6, 2)


@given(seed=seeds, n_arms=st.integers(8, 40), dim=st.integers(1, 5))
def test_the_view_answers_as_arms_whitened_by_hand(seed: int, n_arms: int, dim: int) -> None:
    """Mapping the arguments of an oracle gives the answers that mapped rows give."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_arms, dim))
    X[5] = X[2]
    white = whiten(FiniteArms(X))
    by_hand = FiniteArms(X @ white.map)
    theta, F = rng.standard_normal(dim), rng.standard_normal((dim, dim))
    among = rng.random(n_arms) < 0.7

    assert white.best(theta) == by_hand.best(theta)
    for mine, theirs in zip(white.top_quadratic(F, 7), by_hand.top_quadratic(F, 7), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9)
    first, second = (arms.rivals(2, theta, (F, np.eye(dim)), total, 5, among) for arms in (white, by_hand))
    np.testing.assert_array_equal(first.index, second.index)
    np.testing.assert_allclose(first.score, second.score, rtol=1e-9)
    np.testing.assert_allclose(first.gap, second.gap, rtol=1e-9, atol=1e-12)
    assert first.smallest_gap == pytest.approx(second.smallest_gap, rel=1e-9, abs=1e-12)
    one, same = (arms.most_confusing(2, theta, (F, np.eye(dim)), total) for arms in (white, by_hand))
    assert one.index == same.index
    assert one.score == pytest.approx(same.score, rel=1e-9, abs=1e-12)
    assert white.copies(5).tolist() == [2, 5]
    np.testing.assert_allclose(white.gather([4, 0]), by_hand.gather([4, 0]), atol=1e-12)
    np.testing.assert_allclose(np.vstack([rows for _, rows in white.chunks()]), by_hand.X, atol=1e-12)
    assert [start for start, _ in white.chunks()] == [start for start, _ in by_hand.chunks()]
    R = white.triangle()
    assert not np.tril(R, -1).any()
    np.testing.assert_allclose(R.T @ R, by_hand.X.T @ by_hand.X, atol=1e-9 * n_arms)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_g_optimal_design_has_identity_information(family: Family) -> None:
    """In the view the weighted products of the design's arms are the identity, and no arm is longer than sqrt(d)."""
    X = spanning(family, np.random.default_rng(11), 60, 4)
    white = whiten(FiniteArms(X))
    rows = white.gather(white.design.support)
    np.testing.assert_allclose((white.design.weights[:, None] * rows).T @ rows, np.eye(4), atol=1e-8)
    assert white.top_quadratic(np.eye(4), 1)[1][0] == pytest.approx(4.0, rel=2e-4)


@given(seed=seeds, dim=st.integers(1, 5))
def test_parameters_travel_both_ways(seed: int, dim: int) -> None:
    """Rewards are the same in both coordinates, and mapping there and back returns the same theta."""
    rng = np.random.default_rng(seed)
    arms = FiniteArms(rng.standard_normal((3 * dim, dim)) + np.vstack([np.eye(dim)] * 3))
    white, theta = whiten(arms), rng.standard_normal(dim)
    mapped = white.theta_from_user(theta)
    rows = white.gather(np.arange(arms.n_arms))
    tolerance = 1e-11 * np.linalg.cond(white.map)
    np.testing.assert_allclose(rows @ mapped, arms.X @ theta, atol=tolerance)
    np.testing.assert_allclose(white.theta_to_user(mapped), theta, atol=tolerance)


@given(seed=seeds, dim=st.integers(1, 5))
def test_the_metric_is_the_users_identity(seed: int, dim: int) -> None:
    """The form of the metric at a whitened theta is the squared length of theta as the user sees it."""
    rng = np.random.default_rng(seed)
    white = whiten(FiniteArms(rng.standard_normal((3 * dim + 2, dim))))
    theta = rng.standard_normal(dim)
    mapped = white.theta_from_user(theta)
    assert mapped @ white.metric() @ mapped == pytest.approx(theta @ theta, rel=1e-8)


def test_candidates_are_seen_in_the_coordinates_of_the_arms() -> None:
    """Other rows viewed beside the arms keep their rewards and are mapped by the same map."""
    rng = np.random.default_rng(9)
    white = whiten(FiniteArms(rng.standard_normal((12, 3))))
    candidates = FiniteArms.rows_only(rng.standard_normal((2, 3)))
    view = white.view_of(candidates)
    np.testing.assert_array_equal(view.map, white.map)
    assert (view.n_arms, view.best(np.ones(3))) == (2, int(np.argmax(candidates.X @ white.map @ np.ones(3))))
    theta = rng.standard_normal(3)
    np.testing.assert_allclose(view.gather([0, 1]) @ view.theta_from_user(theta), candidates.X @ theta, atol=1e-12)


class TestInvariance:
    """An invertible linear map of the features changes no answer."""

    @given(seed=seeds, dim=st.integers(2, 5), digits=st.integers(0, 7))
    def test_answers_do_not_depend_on_the_users_coordinates(self, seed: int, dim: int, digits: int) -> None:
        """Best arm, hardest rival and statistic agree to what the map's condition number (up to 1e7) leaves."""
        rng = np.random.default_rng(seed)
        X, theta = rng.standard_normal((30, dim)), rng.standard_normal(dim)
        M = invertible(rng, dim, 10.0**digits)
        plain, mapped = whiten(FiniteArms(X)), whiten(FiniteArms(X @ M))
        answers = []
        for white, parameter in ((plain, theta), (mapped, mapped_theta(M, theta))):
            seen = white.theta_from_user(parameter)
            leader = white.best(seen)
            found = white.rivals(leader, seen, (np.eye(dim),), ratio, 2)
            answers.append((leader, found.index[0], found.score, found.gap[0]))
        (leader, rival, score, gap), (other_leader, other_rival, other_score, other_gap) = answers
        assert leader == other_leader
        # The two G-optimal designs are within 1e-6 of optimal and need not agree better than the root of that.
        assert other_score[0] == pytest.approx(score[0], rel=1e-2)
        if score[1] > 1.02 * score[0]:
            rounding = 1e-11 * 10.0**digits
            assert rival == other_rival
            assert other_gap == pytest.approx(gap, rel=rounding, abs=rounding)

    @given(seed=seeds, dim=st.integers(2, 5), digits=st.integers(0, 7))
    def test_with_one_design_the_statistic_is_equal_to_rounding(self, seed: int, dim: int, digits: int) -> None:
        """Whitened by the same weights, arms and mapped arms have the same statistics of every rival."""
        rng = np.random.default_rng(seed)
        X, theta = rng.standard_normal((30, dim)), rng.standard_normal(dim)
        M = invertible(rng, dim, 10.0**digits)
        arms, mapped_arms = FiniteArms(X), FiniteArms(X @ M)
        design = optimal_design(arms, tol=1e-6)
        plain, mapped = by_design(arms, design), by_design(mapped_arms, design)
        seen = plain.theta_from_user(theta)
        seen_mapped = mapped.theta_from_user(mapped_theta(M, theta))
        leader = plain.best(seen)
        rounding = 1e-12 * 10.0**digits
        first = plain.rivals(leader, seen, (np.eye(dim),), ratio, 30)
        second = mapped.rivals(leader, seen_mapped, (np.eye(dim),), ratio, 30)
        order, order_mapped = np.argsort(first.index), np.argsort(second.index)
        np.testing.assert_array_equal(first.index[order], second.index[order_mapped])
        np.testing.assert_allclose(second.gap[order_mapped], first.gap[order], rtol=rounding, atol=rounding)
        np.testing.assert_allclose(second.score[order_mapped], first.score[order], rtol=100 * rounding, atol=rounding)

    @pytest.mark.parametrize("unit", [1e-100, 1e-9, 1e9, 1e100])
    def test_units_leave_no_trace(self, unit: float) -> None:
        """Arms in other units are the same arms once whitened, up to the signs of the axes."""
        X = np.random.default_rng(3).standard_normal((20, 3))
        plain, scaled = whiten(FiniteArms(X)), whiten(FiniteArms(X * unit))
        np.testing.assert_array_equal(plain.design.support, scaled.design.support)
        np.testing.assert_allclose(np.abs(scaled.gather(range(20))), np.abs(plain.gather(range(20))), atol=1e-3)


def test_arms_around_zero_have_no_level() -> None:
    """What rounding leaves of the mean of a simplex is no direction: bets must not depend on it."""
    corners = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]])
    corners = corners @ np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    assert not whiten(FiniteArms(corners)).level.any()
    assert whiten(FiniteArms(corners + np.array([5.0, 0.0, 0.0]))).level.any()
