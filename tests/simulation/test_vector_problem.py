import math
from typing import Any

import numpy as np
import pytest

from surepick.arms.hypercube import Hypercube
from surepick.arms.sphere import Sphere
from surepick.errors import InvalidInput
from surepick.simulation import simulate
from surepick.simulation.problems import VectorProblem, sphere_set
from surepick.simulation.run import Job, prepared, run_once

READY: dict[str, Any] = {"delta": 0.1, "epsilon": 0.0, "bounds": True}


def test_loss_is_counted_from_the_best_unit_vector() -> None:
    """Theta has the norm asked for, along (1, ..., 1); the best arm loses nothing, its opposite twice the norm."""
    problem = sphere_set(4, norm=3.0, epsilon=0.2)
    best = problem.theta / np.linalg.norm(problem.theta)
    np.testing.assert_allclose(problem.theta, 1.5)
    assert problem.loss(best) == pytest.approx(0.0, abs=1e-12)
    assert problem.loss(-best) == pytest.approx(6.0)
    assert problem.dim == 4


def test_runs_on_the_sphere_stop_with_an_answer_within_the_slack() -> None:
    """Errors are rare: at delta 0.1 chance alone gives more than 5 in 10 runs less than once in 6000."""
    runs = simulate(sphere_set(2, norm=2.0, epsilon=0.5), n_runs=10, delta=0.1, seed=1, bounds=True)
    assert runs.stopped.all()
    assert runs.n_errors <= 5
    assert runs.epsilon == 0.5
    assert runs.lower_bound is not None
    expected = Sphere(2).lower_bound(np.full(2, math.sqrt(2.0)), 0.5, 0.1)
    assert runs.lower_bound[0] == pytest.approx(expected)


def test_an_answer_beyond_the_slack_is_wrong() -> None:
    """Right on the problem the rewards came from, wrong on one whose best arm is elsewhere."""
    instance = prepared(sphere_set(2, norm=2.0, epsilon=0.5), **READY)
    fair = Job(problem=instance, algorithm="lazy-track-and-stop", seed=3, max_pulls=500, options={}, **READY)
    outcome = run_once(fair, 0)
    assert outcome.stopped
    assert outcome.correct
    assert outcome.evidence >= outcome.target
    strict = prepared(VectorProblem(vectors=Sphere(2), theta=np.array([-2.0, 0.0]), epsilon=0.5, name="x"), **READY)
    # Rewards of one problem, judged by another whose best arm is elsewhere.
    assert not run_once(fair._replace(problem=instance._replace(problem=strict.problem)), 0).correct


def test_sets_without_a_known_bound_have_none() -> None:
    """NaN, not an error: the runs are still worth having."""
    corners = VectorProblem(vectors=Hypercube(2), theta=np.array([1.0, 0.5]), epsilon=0.1, name="corners")
    assert math.isnan(prepared(corners, **READY).bound)


def test_slack_is_the_problems_own() -> None:
    """A second epsilon is refused, and so are a theta of another length and a negative slack."""
    with pytest.raises(InvalidInput, match="belongs to sphere-set"):
        simulate(sphere_set(2), epsilon=0.3, n_runs=1)
    with pytest.raises(InvalidInput, match="theta"):
        VectorProblem(vectors=Sphere(3), theta=np.ones(2), epsilon=0.1, name="short")
    with pytest.raises(InvalidInput, match="epsilon"):
        sphere_set(2, epsilon=-0.1)
