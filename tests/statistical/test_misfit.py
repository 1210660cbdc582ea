"""False alarms of the misfit watch on thousands of paths, and how soon it sees what is there."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from surepick.core.linalg import Array, IntArray
from surepick.core.misfit import watch as misfit_module
from surepick.core.misfit.means import ArmMeans
from surepick.core.misfit.watch import MisfitWatch
from surepick.core.misfit.watch import log_factors as real_log_factors
from tests.statistical.paths import error_limit

pytestmark = pytest.mark.statistical

N_PATHS, N_BROKEN = 4000, 200
# Twelve arms in four dimensions, the last two alike; theta is much larger than the noise.
X = np.random.default_rng(3).standard_normal((12, 4))
X[-1] = X[-2]
THETA = np.full(4, 10.0)

Settle = Callable[[MisfitWatch, IntArray, Array, Array], None]


def _estimate(watch: MisfitWatch) -> Array:
    """Least squares of all results the watch has."""
    rows, counts, means = watch.past.X, watch.past.counts, watch.past.means
    return np.asarray(np.linalg.solve((rows.T * counts) @ rows, (counts * means) @ rows), dtype=np.float64)


def _false_alarms(
    noise_std: float | None, *, settle: Settle = MisfitWatch.settle, n_paths: int = N_PATHS, n_blocks: int = 3
) -> dict[float, int]:
    """Paths on which the watch ever reached 1/alpha although the model holds, for two alpha.

    A sampler that serves the watch: blocks grow, and pull the half of the arms that has fitted worst twice as often.
    """
    rng, log_peaks = np.random.default_rng(31), np.empty(n_paths)
    for path in range(n_paths):
        watch, arms = MisfitWatch(4, noise_std, has_constant=False), np.arange(12)
        for k in range(n_blocks):
            settle(watch, arms, X[arms], X[arms] @ THETA + rng.standard_normal(len(arms)))
            off = np.abs(watch.past.means - X @ _estimate(watch)) * np.sqrt(watch.past.counts)
            arms = np.tile(np.append(np.arange(12), np.argsort(-off)[:6]), 4**k)
        log_peaks[path] = watch.log_peak
    return {alpha: int((log_peaks >= -np.log(alpha)).sum()) for alpha in (0.05, 0.3)}


@pytest.mark.parametrize("noise_std", [1.0, None])
def test_false_alarms_are_rare(noise_std: float | None) -> None:
    """At most alpha; each limit is exceeded once in a million by a watch that errs with probability alpha."""
    n_alarms = _false_alarms(noise_std)
    assert n_alarms[0.3] > 0.02 * N_PATHS, "the instance has become too easy to say anything"
    assert all(n <= error_limit(N_PATHS, alpha) for alpha, n in n_alarms.items()), n_alarms


def _after_a_look(watch: MisfitWatch, arms: IntArray, rows: Array, rewards: Array) -> None:
    watch.learn(arms, rows, rewards)
    watch.settle(arms, rows, rewards)


@pytest.mark.parametrize("noise_std", [1.0, None])
def test_the_gate_sees_bets_that_know_the_results_of_their_own_block(noise_std: float | None) -> None:
    """The beliefs about the misfits of a block may not come from it."""
    n_alarms = _false_alarms(noise_std, settle=_after_a_look, n_paths=N_BROKEN, n_blocks=4)
    assert n_alarms[0.05] > error_limit(N_BROKEN, 0.05), n_alarms


def _around_the_estimate(watch: MisfitWatch, arms: IntArray, rows: Array, rewards: Array) -> None:
    if not len(watch.past.arms):
        return watch.learn(arms, rows, rewards)
    theta = _estimate(watch)

    def log_factors(block: ArmMeans, *belief: Any) -> Array:
        return real_log_factors(replace(block, means=block.means - block.X @ theta), *belief)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(misfit_module, "range_basis", lambda rows: np.zeros((len(rows), 0)))
        patch.setattr(misfit_module, "log_factors", log_factors)
        return watch.settle(arms, rows, rewards)


@pytest.mark.parametrize("noise_std", [1.0, None])
def test_the_gate_sees_an_estimate_of_theta_that_is_taken_for_theta(noise_std: float | None) -> None:
    """What the past got wrong about theta is not misfit: only the spare directions of a block may count."""
    n_alarms = _false_alarms(noise_std, settle=_around_the_estimate, n_paths=N_BROKEN, n_blocks=4)
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
