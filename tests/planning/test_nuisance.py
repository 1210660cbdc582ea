"""Plans of experiments whose groups read high or low, and of readings that drift."""

import math
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.errors import InvalidInput

BASIS = np.array([1.0, 0.7, 0.6, 0.5, 0.4])
BENT, THETA = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.9]]), [1.0, 0.5]
DELTA = 0.2


def planned(X: Any = BENT, theta: Any = THETA, **options: Any) -> sp.Plan:
    """Three arms without a constant among their features, noise 1."""
    return sp.plan(X, theta=theta, noise_std=1.0, **options)


def test_offsets_cost_what_the_constant_was_worth() -> None:
    """Nothing where the features hold a constant; else the ratio of both characteristic times."""
    basis = {"X": np.eye(5), "theta": BASIS}
    assert planned(**basis, groups="offset").pulls == pytest.approx(planned(**basis).pulls, rel=1e-3)
    plain, found = planned(), planned(groups="offset")
    off = sp.characteristic_time(BENT, THETA, groups="offset").value / sp.characteristic_time(BENT, THETA).value
    assert off > 2.0
    assert found.lower_bound == pytest.approx(plain.lower_bound * off, rel=1e-3)
    assert 0.8 * off < found.pulls / plain.pulls < 1.2 * off
    assert "groups of 4 pulls may take up to 4/3 times as many" in found.explain()


def test_a_drift_is_as_dear_as_noise() -> None:
    """A drift of 0.6 within a block adds 18 % to the variance; no bound says that every method must pay for it."""
    basis: dict[str, Any] = {"X": np.eye(5), "theta": BASIS}
    found = planned(**basis, drift=0.6)
    noisier = sp.plan(np.eye(5), theta=BASIS, noise_std=math.sqrt(1.18))
    assert found.pulls == pytest.approx(noisier.pulls)
    assert found.lower_bound == pytest.approx(planned(**basis).lower_bound)
    assert "A drift of 0.6 within a block takes 18 % more pulls." in found.explain()


@pytest.mark.parametrize("options", [{"groups": "offset"}, {"drift": 0.5}, {"groups": "offset", "batch": 24}])
def test_runs_are_those_of_the_options(options: dict[str, Any]) -> None:
    """Every block is a group, and the level of the noise is known beside a drift; about as many pulls as planned."""
    theta = [1.0, 0.3, 0.0]
    found = planned(X=np.eye(3), theta=theta, delta=DELTA, **options)
    runs = found.simulate(6)
    assert runs.correct.all()
    assert 0.4 * found.pulls < runs.mean < 2.5 * found.pulls


def test_what_has_no_proof_has_no_plan() -> None:
    """The sentences are those of the task itself."""
    for options, match in (
        ({"groups": "offset", "threshold": 0.4}, "measure a control in each group"),
        ({"groups": "offset", "noise": "any"}, "has no proof"),
        ({"drift": 0.5}, "needs a constant among the features"),
        ({"X": np.eye(5), "theta": BASIS, "drift": 0.5, "groups": "offset"}, "has no proof beside `drift`"),
        ({"X": np.eye(5), "theta": BASIS, "drift": 0.5, "noise": "any"}, "needs the scale of the noise"),
    ):
        with pytest.raises(InvalidInput, match=match):
            planned(**options)
