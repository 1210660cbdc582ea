"""Whole runs of every algorithm on near-ties at a loose delta: those labelled proved must keep it.

Each gate: `N_RUNS` seeded runs at delta = .3, at most `LIMIT` wrong answers; if the error probability is delta the
count exceeds the limit with probability below 1e-6 (exact binomial). The rules themselves are counted on thousands of
paths in the other files of this folder; here it is the way each algorithm uses its rule that is on trial.
"""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import surepick as sp
from surepick.simulation import problems
from surepick.simulation.problems import Problem

pytestmark = pytest.mark.statistical

DELTA, N_RUNS, HORIZON = 0.3, 200, 100
LIMIT = int(binom.isf(1e-6, N_RUNS, DELTA))
NEAR_TIE = problems.unit_basis([0.02, 0.0])
# The best arm e1 leans to neither side of two that lose a fiftieth: luck on either side misleads.
ARC = Problem(X=np.array([[1.0, 0.0], [0.98, 0.6], [0.98, -0.6]]), theta=np.array([1.0, 0.0]), name="arc")


def knowledge(problem: Problem) -> dict[str, dict[str, Any]]:
    """What some algorithms, or their published rules, have to be told; true, and not more than that."""
    norm, mean = float(np.linalg.norm(problem.theta)), float(np.abs(problem.X @ problem.theta).max())
    return {
        "xy-oracle": {"theta": problem.theta},
        "lingape": {"norm_bound": norm},
        "lingame": {"norm_bound": norm},
        "lingame-c": {"norm_bound": norm},
        "alba": {"reward_bound": mean},
    }


@pytest.mark.parametrize("name", sp.algorithms())
def test_practical_variants_keep_delta(name: str) -> None:
    """Default rules, on three arms in the plane where it is possible."""
    problem = NEAR_TIE if name == "track-and-stop" else ARC
    needed: dict[str, Any] = {"theta": problem.theta} if name == "xy-oracle" else {}
    runs = sp.simulate(problem, name, delta=DELTA, n_runs=N_RUNS, seed=81, max_pulls=HORIZON, **needed)
    assert runs.n_errors <= LIMIT
    assert runs.stopped.sum() >= 5  # the horizon is long enough for some answers


@pytest.mark.parametrize("name", sp.algorithms())
def test_published_variants_keep_delta(name: str) -> None:
    """Their own rules, on two arms; the heuristic ones promise nothing and are left out."""
    learner = sp.create_learner(name, NEAR_TIE.X, variant="paper", **knowledge(NEAR_TIE).get(name, {}))
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
        **knowledge(NEAR_TIE).get(name, {}),
    )
    assert runs.n_errors <= int(binom.isf(1e-6, N_RUNS // 2, DELTA))
