"""Plans of calls against a target."""

from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.errors import InvalidInput, TiedArms
from surepick.planning.plan import Plan

BASIS = np.array([1.0, 0.75, 0.5, 0.25, 0.0])


def planned(**options: Any) -> Plan:
    """Five arms by themselves, noise 1."""
    return sp.plan(np.eye(5), theta=BASIS, noise_std=1.0, **options)


@pytest.mark.parametrize("goal", [{"threshold": 0.6}, {"control": 2}, {"control": 2, "margin": 0.1}])
def test_the_bound_is_that_of_the_task(goal: dict[str, Any]) -> None:
    """And the forecast is above it."""
    found = planned(**goal)
    assert found.lower_bound == pytest.approx(sp.lower_bound(np.eye(5), BASIS, **goal), rel=1e-5)
    assert found.lower_bound < found.low < found.pulls < found.high


def test_runs_take_about_the_forecast() -> None:
    """Means of simulated runs are between half and twice the forecast, and every call is right."""
    found = planned(threshold=0.6, delta=0.2)
    runs = found.simulate(4)
    assert runs.correct.all()
    assert 0.5 * found.pulls < runs.mean < 2.0 * found.pulls
    assert planned(threshold=0.6, delta=0.2, calls="fdr").pulls < found.pulls
    assert found.gap == pytest.approx(0.1)


def test_what_is_sought_is_said() -> None:
    """By the value, or by the name of the control."""
    named = sp.FiniteArms(np.eye(5), names=list("abcde"))
    assert "which of 5 arms meet 0.6 with a risk" in planned(threshold=0.6).explain()
    assert "which of 5 arms are better than arm 2 with" in planned(control=2).explain()
    told = sp.plan(named, theta=BASIS, noise_std=1.0, control="c", margin=0.1, epsilon=0.05).explain()
    assert "which of 5 arms are at most 0.1 below c, up to 0.05, with" in told


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"theta": None, "gap": 0.3, "threshold": 0.6}, "`gap` says how far the best arm is ahead"),
        ({"threshold": 0.6, "m": 2}, "`m` must be left out"),
        ({"control": 0, "batch": 20, "rounds": 2}, "`rounds` must be left out"),
        ({"control": "no arm"}, "`control` must be the name"),
        ({"pool": 100}, "`pool` has no plan"),
    ],
)
def test_what_has_no_plan_is_refused(wrong: dict[str, Any], match: str) -> None:
    """By name, with what to do."""
    options = {"theta": BASIS, "noise_std": 1.0, **wrong}
    with pytest.raises(InvalidInput, match=match):
        sp.plan(np.eye(5), **options)


def test_an_arm_on_the_target_has_no_plan() -> None:
    """No number of pulls tells on which side it is; with a tolerance there is one."""
    with pytest.raises(TiedArms):
        planned(threshold=0.5)
    assert planned(threshold=0.5, epsilon=0.1).is_possible
