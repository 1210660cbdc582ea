"""Whole runs of every algorithm on near-ties at a loose delta: those labelled proved must keep it.

Each gate: `N_RUNS` seeded runs at delta = .3, at most `LIMIT` wrong answers; if the error probability is delta the
count exceeds the limit with probability below 1e-6 (exact binomial). The rules themselves are counted on thousands of
paths in the other files of this folder; here it is the way each algorithm uses its rule that is on trial.
"""

import numpy as np
import pytest
from scipy.stats import binom

import surepick as sp
from surepick.simulation import problems
from surepick.simulation.problems import Problem
from tests.knowledge import knowledge

pytestmark = pytest.mark.statistical

DELTA, N_RUNS, HORIZON = 0.3, 200, 100
LIMIT = int(binom.isf(1e-6, N_RUNS, DELTA))
NEAR_TIE = problems.unit_basis([0.02, 0.0])
# The best arm e1 leans to neither side of two that lose a fiftieth: luck on either side misleads.
ARC = Problem(X=np.array([[1.0, 0.0], [0.98, 0.6], [0.98, -0.6]]), theta=np.array([1.0, 0.0]), name="arc")


@pytest.mark.parametrize("name", sp.algorithms.names())
def test_practical_variants_keep_delta(name: str) -> None:
    """Default rules, on three arms in the plane where it is possible."""
    problem = NEAR_TIE if name == "track-and-stop" else ARC
    told = knowledge(name, problem)
    runs = sp.simulate(problem, name, delta=DELTA, n_runs=N_RUNS, seed=81, max_pulls=HORIZON, **told)
    assert runs.n_errors <= LIMIT
    assert runs.stopped.sum() >= 5  # the horizon is long enough for some answers


@pytest.mark.parametrize("name", sp.algorithms.names())
def test_published_variants_keep_delta(name: str) -> None:
    """Their own rules, on two arms; the heuristic ones promise nothing and are left out."""
    told = knowledge(name, NEAR_TIE, variant="paper")
    learner = sp.create_learner(name, NEAR_TIE.X, variant="paper", **told)
    if learner.decision.guarantee not in ("proved", "published"):
        assert name in ("frank-wolfe", "top-two", "uniform", "xy-oracle")
        return
    runs = sp.simulate(
        NEAR_TIE,
        name,
        delta=DELTA,
        n_runs=N_RUNS // 2,
        seed=82,
        max_pulls=HORIZON,
        variant="paper",
        **told,
    )
    assert runs.n_errors <= int(binom.isf(1e-6, N_RUNS // 2, DELTA))
