"""The published instances to the digits that were published, and problems whose means are not linear."""

import numpy as np
import pytest

import surepick as sp
from surepick.errors import InvalidInput
from surepick.simulation.problems import Problem
from surepick.simulation.problems_published import MeansProblem, reda_a, reda_b, reda_c2, reda_d
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


def test_c_is_checked() -> None:
    """A negative shift is refused."""
    with pytest.raises(InvalidInput, match="`c` must be a number of at least 0"):
        reda_a(-1.0)
