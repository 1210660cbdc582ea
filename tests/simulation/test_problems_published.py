"""The published instances to the digits that were published, and problems whose means are not linear."""

from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.errors import InvalidInput
from surepick.simulation.problems import Problem
from surepick.simulation.problems_published import MeansProblem, reda_a, reda_angle, reda_b, reda_c2, reda_d
from surepick.types import Array


def means_of(problem: Problem) -> Array:
    """The means of a problem, linear or not."""
    return problem.means if isinstance(problem, MeansProblem) else problem.X @ problem.theta


def test_instances_have_the_published_means() -> None:
    """Gap of A, the five leading means of B, the two best of C2, the five best drugs."""
    first = np.sort(means_of(reda_a()))[::-1]
    assert round(float(first[2] - first[3]), 5) == 0.27856
    raised, plain = means_of(reda_a(2.0)), means_of(reda_a())
    assert np.flatnonzero(raised != plain).tolist() == [int(np.argsort(-plain)[3])] == [3]
    assert raised[3] == plain[3] + 2.0
    np.testing.assert_allclose(np.sort(reda_b().means)[:-5:-1], [1.42066, 1.27864, 0.81801, 0.41845], atol=5e-6)
    assert set(np.argsort(-reda_c2().means)[:2].tolist()) == {0, 7}
    assert set(np.argsort(-means_of(reda_d()))[:5].tolist()) == {0, 1, 2, 3, 4}
    assert [problem.X.shape for problem in (reda_a(), reda_b(), reda_c2(), reda_d())] == [
        (10, 5), (15, 8), (10, 9), (10, 5)
    ]  # fmt: skip


def test_their_misfit_is_true() -> None:
    """No mean is further off; the linear version of the drugs has none, and the same five best."""
    for problem in (reda_a(5.0), reda_b(), reda_c2(), reda_d()):
        assert isinstance(problem, MeansProblem)
        assert np.abs(problem.means - problem.X @ problem.theta).max() <= problem.misfit + 1e-12
    linear = means_of(reda_d(linear=True))
    assert set(np.argsort(-linear)[:5].tolist()) == {0, 1, 2, 3, 4}
    assert np.abs(linear - means_of(reda_d())).max() < 0.01


def test_rewards_and_losses_are_those_of_the_means() -> None:
    """Not of theta: the raised arm is the best."""
    problem = reda_a(2.0)
    rng = np.random.default_rng(0)
    found = np.mean([problem.pull(3, rng) for _ in range(4000)])
    assert found == pytest.approx(2.24518, abs=5.0 / 4000**0.5)
    assert problem.best == 3
    assert int(np.argmax(problem.X @ problem.theta)) == 1
    assert problem.loss(3) == 0.0
    assert problem.loss([3, 1, 2]) == 0.0
    assert problem.loss([3, 1, 7]) == pytest.approx(0.16688, abs=1e-5)
    runs = sp.simulate(problem, m=3, model="unstructured", n_runs=2, seed=0, n_jobs=1)
    assert runs.correct.all()


def test_a_lower_bound_for_linear_means_is_refused() -> None:
    """It would be about another problem."""
    with pytest.raises(InvalidInput, match="linear in the features, got reda-b"):
        sp.simulate(reda_b(), m=3, bounds=True, n_runs=1)
    runs = sp.simulate(reda_a(), m=3, bounds=True, n_runs=1, max_pulls=5)
    assert runs.lower_bound is not None
    assert runs.lower_bound[0] == pytest.approx(326.6, abs=0.1)


def test_the_angle_of_one_best_arm_is_soares_problem() -> None:
    """In another order; of four arms two have value 1, and the third is at the angle."""
    one, soare = reda_angle(3, 1, angle=0.1), sp.problems.soare(2, angle=0.1, scale=1.0)
    np.testing.assert_allclose(np.sort(one.X, axis=0), np.sort(soare.X, axis=0))
    four = reda_angle()
    np.testing.assert_allclose(four.X @ four.theta, [1.0, 1.0, 0.5, 0.0])
    np.testing.assert_allclose(four.X, [[1, 0, 0], [1, 1, 0], [0.5, 0, 0.75**0.5], [0, 0, 1]])
    assert reda_angle(6, 3).X.shape == (6, 5)
    with pytest.raises(InvalidInput, match=r"`n_arms` must be .* at least 4"):
        reda_angle(3, 2)


def test_both_algorithms_are_near_the_published_means() -> None:
    """Of 500 runs each; the standard deviation is the published one."""
    options: dict[str, Any] = {"variant": "paper", "norm_bound": 1.0, "m": 2, "n_jobs": 1, "seed": 11}
    published: tuple[tuple[str, dict[str, Any], float, float], ...] = (
        ("m-lingape", {"width": "largest-norm"}, 198.4, 61.3),
        ("lingifa", {}, 213.4, 62.7),
    )
    for name, own, mean, std in published:
        runs = sp.simulate(reda_angle(), name, n_runs=12, **options | own)
        assert runs.correct.all()
        assert abs(runs.mean - mean) < 3.0 * std / 12**0.5


def test_c_is_checked() -> None:
    """A negative shift is refused."""
    with pytest.raises(InvalidInput, match="`c` must be a number of at least 0"):
        reda_a(-1.0)
