"""Errors of the betting rule where groups read high or low, counted on paths, beside variants that break the proof."""

import numpy as np
import pytest

from benchmarks.groups import DELTA, Case, rejects_best
from tests.statistical.paths import error_limit

pytestmark = pytest.mark.statistical

N_PATHS = 100


def _n_rejected(case: Case, noise_std: float | None) -> int:
    rngs = (np.random.default_rng([3, path]) for path in range(N_PATHS))
    return sum(rejects_best(case, rng, noise_std=noise_std) for rng in rngs)


@pytest.mark.parametrize(
    ("case", "noise_std"), [("groups", 1.0), ("groups", None), ("days of one arm", 1.0), ("label at random", None)]
)
def test_the_best_is_rarely_rejected(case: Case, noise_std: float | None) -> None:
    """Offsets of three standard deviations; a rule that errs with probability 0.3 fails once in a million tests."""
    assert _n_rejected(case, noise_std) <= error_limit(N_PATHS, DELTA)


@pytest.mark.parametrize("case", ["label reacts", "day ends after a look"])
@pytest.mark.parametrize("noise_std", [1.0, None])
def test_labels_that_follow_the_value_are_found_out(case: Case, noise_std: float | None) -> None:
    """The same count exceeds the limit if high values of one arm are put down to another operator.

    So it does if labels are said with the ask, and a day ends where the result before spoke for the best arm.
    """
    assert _n_rejected(case, noise_std) > error_limit(N_PATHS, DELTA)


def test_offsets_that_are_ignored_are_found_out() -> None:
    """Offsets of ten standard deviations, days of nearly one arm: the rule without groups exceeds the limit."""
    rngs = (np.random.default_rng([3, path]) for path in range(N_PATHS))
    n = sum(rejects_best("one arm ignored", rng, noise_std=1.0, sd=10.0) for rng in rngs)
    assert n > error_limit(N_PATHS, DELTA)
