"""False alarms of the misfit watch on thousands of paths, and how soon it sees what is there."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from surepick.core import misfit as misfit_module
from surepick.core.misfit import MisfitWatch
from surepick.core.misfit import log_factors as real_log_factors
from surepick.core.noise import ArmMeans
from surepick.types import Array, IntArray
from tests.statistical.alarms import estimate, false_alarms
from tests.statistical.paths import error_limit

pytestmark = pytest.mark.statistical

N_PATHS, N_BROKEN = 3000, 200


@pytest.mark.parametrize("noise_std", [1.0, None])
def test_false_alarms_are_rare(noise_std: float | None) -> None:
    """At most alpha; each limit is exceeded once in a million by a watch that errs with probability alpha.

    One that errs with probability .083 instead of .05, or .362 instead of .3, exceeds it in 99 of 100 gates;
    `benchmarks/rules.py` counts more paths.
    """
    assert binom.sf(error_limit(N_PATHS, 0.05), N_PATHS, 0.083) > 0.99
    assert binom.sf(error_limit(N_PATHS, 0.3), N_PATHS, 0.362) > 0.99
    n_alarms = false_alarms(noise_std, n_paths=N_PATHS)
    assert n_alarms[0.3] > 0.02 * N_PATHS, "the instance has become too easy to say anything"
    assert all(n <= error_limit(N_PATHS, alpha) for alpha, n in n_alarms.items()), n_alarms


def _after_a_look(watch: MisfitWatch, arms: IntArray, rows: Array, rewards: Array) -> None:
    watch.learn(arms, rows, rewards)
    watch.settle(arms, rows, rewards)


@pytest.mark.parametrize("noise_std", [1.0, None])
def test_the_gate_sees_bets_that_know_the_results_of_their_own_block(noise_std: float | None) -> None:
    """The beliefs about the misfits of a block may not come from it."""
    n_alarms = false_alarms(noise_std, settle=_after_a_look, n_paths=N_BROKEN, n_blocks=4)
    assert n_alarms[0.05] > error_limit(N_BROKEN, 0.05), n_alarms


def _around_the_estimate(watch: MisfitWatch, arms: IntArray, rows: Array, rewards: Array) -> None:
    if not len(watch.past.arms):
        return watch.learn(arms, rows, rewards)
    theta = estimate(watch.past)

    def log_factors(block: ArmMeans, *belief: Any) -> Array:
        return real_log_factors(replace(block, means=block.means - block.X @ theta), *belief)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(misfit_module, "range_basis", lambda rows: np.zeros((len(rows), 0)))
        patch.setattr(misfit_module, "log_factors", log_factors)
        return watch.settle(arms, rows, rewards)


@pytest.mark.parametrize("noise_std", [1.0, None])
def test_the_gate_sees_an_estimate_of_theta_that_is_taken_for_theta(noise_std: float | None) -> None:
    """What the past got wrong about theta is not misfit: only the spare directions of a block may count."""
    n_alarms = false_alarms(noise_std, settle=_around_the_estimate, n_paths=N_BROKEN, n_blocks=4)
    assert n_alarms[0.05] > error_limit(N_BROKEN, 0.05), n_alarms


def _factorial(gamma: float, noise_std: float | None, scale: float, rng: np.random.Generator) -> int:
    """Pulls until the alarm at alpha = .01: main effects of 2^4, an interaction, all arms in turn."""
    signs: Array = np.array(list(product([-1.0, 1.0], repeat=4)))
    rows = np.c_[np.ones(16), signs]
    means = rows @ [1.0, 0.5, -0.3, 0.2, 0.1] + gamma * signs[:, 0] * signs[:, 1]
    watch, t, n = MisfitWatch(5, noise_std, has_constant=True), 0, 16
    while t < 5000 and not watch.alarm(0.01):
        arms = np.arange(t, t + n) % 16
        watch.settle(arms, rows[arms], scale * (means[arms] + rng.standard_normal(n)))
        t += n
        n = max(16, round(0.15 * t))
    return t


@pytest.mark.parametrize(("noise_std", "expected"), [(1.0, 172), (None, 198)])
def test_an_interaction_is_seen_in_time(noise_std: float | None, expected: int) -> None:
    """Interaction of .4 standard deviations: the median of 80 runs is within a quarter of what was found before."""
    rng = np.random.default_rng(32)
    pulls = [_factorial(0.4, noise_std, 1.0, rng) for _ in range(80)]
    assert np.median(pulls) == pytest.approx(expected, rel=0.25), np.median(pulls)


def test_unknown_noise_of_any_size_gives_the_same_alarms() -> None:
    """Path by path, so the counts above hold for every scale."""
    pulls = [
        [_factorial(0.4, None, scale, np.random.default_rng(seed)) for seed in range(20)] for scale in (1e-3, 1.0, 1e3)
    ]
    assert pulls[0] == pulls[1] == pulls[2]
