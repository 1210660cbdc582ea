"""What explains a misfit: planted causes are named, with their numbers."""

import numpy as np
import pytest

from surepick.core.misfit_causes import explain_misfit
from surepick.types import Array

THETA = np.array([1.0, 2.0, -1.0])
NOISE = 0.5


def _experiment(seed: int, n_arms: int = 20) -> tuple[Array, Array, Array]:
    """Features without a constant, counts and means under the model."""
    rng = np.random.default_rng(seed)
    X, counts = rng.standard_normal((n_arms, 3)), rng.integers(2, 9, n_arms).astype(float)
    return X, counts, X @ THETA + NOISE * rng.standard_normal(n_arms) / np.sqrt(counts)


@pytest.mark.parametrize("seed", range(5))
def test_a_constant_that_was_left_out(seed: int) -> None:
    """Its size is told; where the features have a constant nobody looks for one."""
    X, counts, means = _experiment(seed)
    found = explain_misfit(X, counts, means + 1.5, NOISE, has_constant=False)
    assert found.kind == "constant"
    assert found.constant == pytest.approx(1.5, abs=0.3)
    assert found.share > 0.9
    assert found.n_spare == 17 < found.lack
    assert explain_misfit(X, counts, means + 1.5, NOISE, has_constant=True).kind == "arms"


@pytest.mark.parametrize("seed", range(5))
def test_arms_that_do_not_fit(seed: int) -> None:
    """The worst come first, at most three, judged by the others: z^2 is what the lack of fit falls by."""
    X, counts, means = _experiment(seed)
    means[[4, 7]] += [2.0, -1.5]
    found = explain_misfit(X, counts, means, NOISE, has_constant=False)
    assert found.kind == "arms"
    assert {arm.arm for arm in found.arms[:2]} == {4, 7}
    assert len(found.arms) <= 3
    assert found.share > 0.7
    worst = found.arms[0]
    without = np.delete(np.arange(20), worst.arm)
    W = np.sqrt(counts[without])
    left = explain_misfit(X[without], counts[without], means[without], NOISE, has_constant=False)
    assert found.lack - left.lack == pytest.approx(worst.z**2, rel=1e-9)
    theta = np.linalg.lstsq(W[:, None] * X[without], W * means[without], rcond=None)[0]
    assert worst.mean == means[worst.arm]
    assert worst.fit == pytest.approx(float(X[worst.arm] @ theta))


def test_a_cause_is_not_named_for_what_another_explains_better() -> None:
    """An arm that decides alone about a constant is the arm's misfit."""
    X, counts, means = _experiment(2)
    X = np.c_[0.1 * X[:, 1:], np.r_[4.0, np.ones(19)]]  # but for the first arm the last feature is constant
    means = X @ THETA + means - _experiment(2)[0] @ THETA
    means[0] += 5.0
    found = explain_misfit(X, counts, means, NOISE, has_constant=False)
    assert (found.kind, found.arms[0].arm) == ("arms", 0)


def test_tables_that_leave_nothing_to_explain() -> None:
    """As many arms as dimensions; rewards exactly on the model; copies of one arm."""
    X, counts, means = _experiment(1)
    few = explain_misfit(X[:3], counts[:3], means[:3], NOISE, has_constant=False)
    assert (few.kind, few.n_spare, few.share) == ("arms", 0, 0.0)
    assert explain_misfit(X, counts, X @ THETA, NOISE, has_constant=False).share == 0.0
    copies = explain_misfit(X[[0, 0]], counts[:2], np.array([0.0, 5.0]), NOISE, has_constant=False)
    assert (copies.kind, copies.n_spare) == ("arms", 1)
