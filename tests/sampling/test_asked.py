from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from surepick.arms.finite import FiniteArms
from surepick.core.estimate import LeastSquares
from surepick.errors import NotEnoughData
from surepick.sampling.base import SamplerContext
from surepick.sampling.choosers import Asked

ARMS = FiniteArms(np.random.default_rng(67).standard_normal((6, 3)))


def context(told: list[int], pending: Mapping[int, int]) -> SamplerContext:
    """Results of these arms, asks pending."""
    estimate = LeastSquares(3)
    for arm in told:
        estimate.update(ARMS.X[arm], 1.0, arm)
    theta = estimate.theta if estimate.has_theta else None
    n_asked = len(told) + sum(pending.values())
    known: dict[str, Any] = {"n_pulls": len(told), "n_asked": n_asked, "theta": theta, "estimate": estimate}
    return SamplerContext(leaders=(), alive=None, pending=pending, **known)


@pytest.mark.parametrize("pending", [{}, {1: 2, 5: 1}])
@pytest.mark.parametrize("ridge", [None, 0.7])
def test_everything_asked_for_is_in(pending: dict[int, int], ridge: float | None) -> None:
    """A, its inverse, n and counts cover results, pending asks and later choices."""
    asked = Asked(ARMS, None if ridge is None else ridge * np.eye(3))
    told = [0, 1, 2, 3, 0]
    asked.renew(context(told, pending))
    for arm in (4, 4, 2):
        asked.add(arm)
    everything = [*told, *[arm for arm, n in pending.items() for _ in range(n)], 4, 4, 2]
    rows = ARMS.X[everything]
    A = rows.T @ rows + (0.0 if ridge is None else ridge) * np.eye(3)
    np.testing.assert_allclose(asked.A, A, rtol=1e-12)
    np.testing.assert_allclose(asked.A_inv, np.linalg.inv(A), rtol=1e-8, atol=1e-12)
    assert asked.n == len(everything)
    expected = np.bincount(everything, minlength=6)
    assert asked.counts.tolist() == expected.tolist()


def test_renewing_forgets_what_was_chosen() -> None:
    """Choices become pending asks or results, or fail; counting them twice, or failures at all, would be wrong."""
    asked = Asked(ARMS)
    asked.renew(context([0, 1, 2], {}))
    asked.add(3)
    asked.add(4)
    asked.renew(context([0, 1, 2, 3], {}))
    assert asked.n == 4
    assert asked.counts.tolist() == [1, 1, 1, 1, 0, 0]


def test_without_a_ridge_the_arms_must_span() -> None:
    """Two pulls in three dimensions have no inverse; a ridge makes up for that."""
    with pytest.raises(NotEnoughData, match="span"):
        Asked(ARMS).renew(context([0, 1], {}))
    Asked(ARMS, np.eye(3)).renew(context([0, 1], {}))


def test_the_results_themselves_are_left_alone() -> None:
    """The estimate belongs to the learner."""
    now = context([0, 1, 2], {})
    before = now.estimate.A.copy()
    asked = Asked(ARMS)
    asked.renew(now)
    asked.add(0)
    assert np.array_equal(now.estimate.A, before)
