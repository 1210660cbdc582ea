"""The far share: how much of a lead rests on arms far below the leader, and when costs make it an extrapolation."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.core.extrapolation import PulledRows, extrapolated_share, far_share
from surepick.types import Array
from tests.golden.instances import COSTS, ROWS, THETA

LEVEL = np.linspace(0.0, 1.0, 11)
LINE = np.column_stack([np.ones(11), LEVEL])


def low_is_cheap(price: float) -> Array:
    """The lower five of eleven settings cost 1, the others this much."""
    return np.where(LEVEL < 0.45, 1.0, price)


def find(costs: Array | None, *, bend: float = 0.0, seed: int = 0) -> sp.Result:
    """The best of eleven settings; means rise, and may bend."""
    rng = np.random.default_rng(seed)
    means = LEVEL + 4.0 * bend * LEVEL * (1.0 - LEVEL)
    return sp.identify(LINE, lambda row: float(means[row] + 0.3 * rng.standard_normal()), costs=costs, seed=seed)


def test_the_weights_are_those_of_least_squares() -> None:
    """The lead is a weighted sum of means: the share by hand, with weights found from unit rewards one at a time."""
    rng = np.random.default_rng(3)
    X, counts, y, means = rng.standard_normal((7, 3)), np.arange(1.0, 8.0), rng.standard_normal(3), np.arange(7.0)
    weights = [
        np.linalg.lstsq(np.sqrt(counts)[:, None] * X, np.sqrt(counts) * unit, rcond=None)[0] @ y for unit in np.eye(7)
    ]
    expected = np.abs(weights[:3]).sum() / np.abs(weights).sum()
    assert far_share(PulledRows(X, counts, means), y, 2.5) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("pulled", "expected"), [([0, 10], 0.0), ([0, 4], 1.0), ([0, 1, 10], 0.0), ([6, 10], 0.0)], ids=str
)
def test_a_line_from_both_ends_is_no_extrapolation(pulled: list[int], expected: float) -> None:
    """One half comes from the lower end, whatever is done; all of it from the lower half alone is an extrapolation."""

    def rows(arms: list[int]) -> PulledRows:
        return PulledRows(LINE[arms], np.ones(len(arms)), LEVEL[arms])

    assert far_share(rows([0, 10]), LINE[10] - LINE[9], 0.5) == pytest.approx(0.5)
    found = extrapolated_share(rows(pulled), rows([0, 10]), LINE[10] - LINE[9], 0.5)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("bend", [0.0, 0.3])
def test_cheap_settings_far_away_are_named_as_what_the_answer_rests_on(bend: float, tmp_path: Path) -> None:
    """With a bend near the top the answer is wrong, the model is not contradicted, and the sentence is there."""
    found = find(low_is_cheap(20.0), bend=bend)
    assert (found.best, found.guarantee) == (10, "proved")
    assert found.far_share == pytest.approx(1.0)
    said = "100 % of the estimated lead rests on cheaper arms far below arm 10."
    assert said in found.explain()
    found.save(tmp_path / "result.json")
    assert said in sp.Result.load(tmp_path / "result.json").explain()


@pytest.mark.parametrize("costs", [None, np.ones(11), low_is_cheap(2.0)], ids=["none", "equal", "alike"])
def test_nothing_is_said_where_costs_keep_no_pulls_away(costs: Array | None) -> None:
    """Without costs, with equal ones, and with ones that leave pulls at the top."""
    assert find(costs).far_share == 0.0
    assert "far below" not in find(costs).explain()


def test_linear_instances_of_other_tests_say_nothing() -> None:
    """Golden rows; and features that need far arms whatever a pull costs, where a rival is next to the best."""
    rng = np.random.default_rng(1)
    golden: Any = sp.identify(ROWS, lambda row: float(ROWS[row] @ THETA + 0.2 * rng.standard_normal()), costs=COSTS)
    near = np.vstack([np.eye(3), [np.cos(0.1), np.sin(0.1), 0.0]])
    soare = sp.identify(near, lambda row: 2.0 * near[row, 0] + 0.05 * rng.standard_normal(), costs=[1, 1, 1, 1.5])
    assert (golden.far_share, soare.far_share) == (0.0, 0.0)


def test_a_plan_says_it_before_anything_is_spent() -> None:
    """From the guess and the costs alone."""
    planned = sp.plan(LINE, theta=[0.0, 1.0], noise_std=0.3, costs=low_is_cheap(20.0))
    assert planned.far_share > 0.75
    assert "of the estimated lead will rest on arms far below the best." in planned.explain()
    for costs in (None, low_is_cheap(2.0)):
        harmless = sp.plan(LINE, theta=[0.0, 1.0], noise_std=0.3, costs=costs)
        assert harmless.far_share == 0.0
        assert "far below" not in harmless.explain()


def test_the_status_of_a_study_says_it() -> None:
    """Under its own word, and only where it is so."""
    from surepick.learning.progress import facts  # noqa: PLC0415 (loads slowly)

    for price, is_said in ((20.0, True), (2.0, False)):
        learner = sp.create_learner("lazy-track-and-stop", LINE, costs=low_is_cheap(price))
        rng = np.random.default_rng(0)
        for _ in range(10):
            (arm,) = learner.next_arms(1)
            learner.tell(arm, float(LEVEL[arm] + 0.3 * rng.standard_normal()))
        entries = facts(learner.snapshot, str, epsilon_is="epsilon = ")
        assert ("extrapolation" in entries) == is_said
