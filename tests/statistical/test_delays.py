"""What is shown holds although results come in at times that depend on their values, as the betting rule allows.

False alarms: a count exceeds its limit with probability below 1e-6 if every run errs with probability delta or less
(exact binomial).
"""

import math

import numpy as np
import pytest

import surepick as sp
from benchmarks.errors import LATE_DELTA, count_late
from surepick.core.noise import is_contradicted
from surepick.learning.model import ALPHA
from surepick.learning.state import LearnerState
from tests.statistical.reference_implementation import error_limit


@pytest.mark.parametrize("noise_std", [1.0, None])
def test_intervals_and_loss_bound_hold_if_good_values_come_late(noise_std: float | None) -> None:
    """The same formulas from all results told so far fail in nearly every run."""
    n_runs = 60
    missed, missed_by_all, wrong, wrong_by_all = count_late(noise_std, range(n_runs), is_late=True)
    limit = error_limit(n_runs, LATE_DELTA)
    assert missed <= limit < missed_by_all
    assert wrong <= limit < wrong_by_all


def test_noise_is_not_contradicted_if_extreme_values_come_first() -> None:
    """Results told so far scatter too much in every run, those of a prefix of the asks in none: alarms are rare."""
    for run in range(10):
        rng = np.random.default_rng([run, 13])
        learner = sp.create_learner("uniform", np.eye(2), stopping="betting", noise_std=1.0, seed=run)
        measured = [(ask, float(rng.standard_normal())) for ask in learner.next_asks(240)]
        for ask, reward in sorted(measured, key=lambda pair: -abs(pair[1]))[:60]:
            learner.tell(ask.arm, reward, ask=ask.number)
        assert is_contradicted(learner.estimate, 1.0)
        assert not learner.reader.noise_contradicted
        assert learner.decision.guarantee == "proved"


def n_contradicted(n_runs: int) -> int:
    """Count the runs in which the model is contradicted if small errors come before those of the first block."""
    n = 0
    for run in range(n_runs):
        rng = np.random.default_rng([run, 17])
        learner = sp.create_learner("uniform", np.eye(2), stopping="betting", schedule="periodic:10", seed=run)
        measured = [(ask, float(rng.standard_normal())) for ask in learner.next_asks(1200)]
        small = [one for one in measured[10:] if abs(one[1]) < 0.2]
        for ask, reward in small + measured[:10]:
            learner.tell(ask.arm, reward, ask=ask.number)
        n += learner.reader.model_check == "contradicted"
    return n


def test_no_result_is_called_a_slip_if_small_errors_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside all results told so far the first block seems to scatter too much; beside a prefix it does not."""
    n_runs = 20
    limit = error_limit(n_runs, ALPHA)
    assert n_contradicted(n_runs) <= limit
    monkeypatch.setattr(LearnerState, "n_places", lambda _: math.inf)
    assert n_contradicted(n_runs) > limit
