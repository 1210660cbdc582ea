"""H-RAGE: an independent short version of the paper's, the blocks that learn the noise, and the practical variant."""

import math
from typing import Any

import numpy as np
import pytest

from surepick.algorithms.h_rage import HRagePhases
from surepick.errors import InvalidInput
from surepick.learning.learner import Learner, create_learner
from surepick.simulation import problems
from surepick.simulation.parallel import simulate
from surepick.simulation.problems import Problem
from surepick.types import Array, IntArray
from tests.tasks import AnyLearner, interval_of

N_RUNS = 150
UNEQUAL = problems.soare_unequal(2, angle=0.3, quiet=0.4)
LOW, HIGH = float(np.min(UNEQUAL.noise_std)), float(np.max(UNEQUAL.noise_std))
TOLD: dict[str, Any] = {"variant": "paper", "noise_std": HIGH, "least_noise_std": LOW}


def best_weights(arms: Array, directions: Array) -> tuple[Array, float]:
    """Weights (K,) that make the largest y'A^-1 y small, and that value, by steps towards the most useful arm."""
    w = np.full(len(arms), 1.0 / len(arms))
    for step in range(200):
        inverse = np.linalg.inv((arms.T * w) @ arms)
        y = directions[np.argmax(np.einsum("ij,jk,ik->i", directions, inverse, directions))]
        w *= 1.0 - 1.0 / (step + 4)
        w[np.argmax((arms @ inverse @ y) ** 2)] += 1.0 / (step + 4)
    inverse = np.linalg.inv((arms.T * w) @ arms)
    return w, float(np.einsum("ij,jk,ik->i", directions, inverse, directions).max())


def literal(problem: Problem, seed: int, delta: float = 0.05) -> tuple[int, int]:
    """Pulls and answer of one run, written from the paper's description and from nothing of the package."""
    X, stds, rng, total = problem.X, np.asarray(problem.noise_std), np.random.default_rng([9, seed]), 0
    K, d = X.shape

    def pulled(w: Array, n: float) -> tuple[IntArray, Array]:
        nonlocal total
        counts = np.floor(w * math.ceil(n)).astype(int)
        rest = math.ceil(n) - counts.sum()
        counts[np.argsort(counts - w * math.ceil(n))[:rest]] += 1
        arms, total = np.repeat(np.arange(K), counts), total + int(counts.sum())
        return arms, X[arms] @ problem.theta + stds[arms] * rng.standard_normal(len(arms))

    n_each = 0.5 * d**2 * math.log(K / delta) * (stds.max() / stds.min()) ** 2
    phi = np.array([[x[i] * x[j] for i in range(d) for j in range(i, d)] for x in X])
    arms, r = pulled(best_weights(X, X)[0], n_each)
    guess = np.linalg.lstsq(X[arms], r, rcond=None)[0]
    arms, r = pulled(best_weights(phi, phi)[0], n_each)
    fitted = np.linalg.lstsq(phi[arms], (r - X[arms] @ guess) ** 2, rcond=None)[0]
    variances = np.clip(phi @ fitted, stds.min() ** 2, stds.max() ** 2)
    left, phase = np.arange(K), 0
    while len(left) > 1:
        phase += 1
        first, second = np.triu_indices(len(left), 1)
        w, rho = best_weights(X / np.sqrt(variances)[:, None], X[left[first]] - X[left[second]])
        arms, r = pulled(w, 3.0 * 4.0**phase * rho * math.log(8 * phase**2 * K**2 / delta))
        weighted = X[arms].T / variances[arms]
        values = X[left] @ np.linalg.solve(weighted @ X[arms], weighted @ r)
        left = left[values.max() - values <= 2.0**-phase]
    return total, int(left[0])


def mean_and_error(pulls: Any) -> tuple[float, float]:
    """Mean and standard error."""
    return float(np.mean(pulls)), float(np.std(pulls, ddof=1) / math.sqrt(len(pulls)))


def apart(first: tuple[float, float], second: tuple[float, float]) -> float:
    """Distance of two means in combined standard errors."""
    return abs(first[0] - second[0]) / math.hypot(first[1], second[1])


def published(problem: Problem = UNEQUAL) -> Learner:
    """A learner of the published variant."""
    return create_learner("h-rage", problem.X, **TOLD)


def tell_block(learner: Learner, rng: np.random.Generator) -> tuple[IntArray, Array]:
    """Measure the block that is about to open; arms and rewards."""
    arms = interval_of(learner)
    rewards = UNEQUAL.X[arms] @ UNEQUAL.theta + UNEQUAL.noise_std[arms] * rng.standard_normal(len(arms))
    for arm, reward in zip(arms, rewards.tolist(), strict=True):
        learner.tell(arm, reward)
    return np.array(arms), rewards


def phases_of(learner: Learner) -> Any:
    """The planner inside."""
    return learner.state.plans.sampler._sampler._planner  # type: ignore[attr-defined]


def test_pulls_are_those_of_a_short_version_and_ignored_weights_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """150 runs each, seeds 0 to 149: within 3 combined standard errors, which chance breaks in 0.3 % of such tests.

    The broken version takes the greatest noise for every arm, so it neither prefers quiet arms nor weighs results.
    """
    found = [literal(UNEQUAL, seed) for seed in range(N_RUNS)]
    reference = mean_and_error([n for n, _ in found])
    ours = simulate(UNEQUAL, "h-rage", n_runs=N_RUNS, seed=0, n_jobs=1, **TOLD)
    assert ours.stopped.all()
    assert (ours.n_errors, sum(best != UNEQUAL.best for _, best in found)) == (0, 0)
    assert apart((ours.mean, ours.se), reference) < 3.0

    def learn_nothing(phases: HRagePhases, _arms: IntArray, _squares: Array) -> None:
        phases.variances = np.full(UNEQUAL.n_arms, HIGH**2)

    monkeypatch.setattr(HRagePhases, "learn", learn_nothing)
    broken = simulate(UNEQUAL, "h-rage", n_runs=20, seed=0, n_jobs=1, **TOLD)
    assert apart((broken.mean, broken.se), reference) > 10.0


def test_two_blocks_learn_the_variances() -> None:
    """Each as long as said, by the G-optimal designs of arms and of products; then least squares of squares."""
    learner, rng = published(), np.random.default_rng(3)
    n_each = math.ceil(2.0 * math.log(3 / 0.05) * (HIGH / LOW) ** 2)
    first, rewards = tell_block(learner, rng)
    guess = np.linalg.lstsq(UNEQUAL.X[first], rewards, rcond=None)[0]
    second, rewards = tell_block(learner, rng)
    assert len(first) == len(second) == n_each
    shares, _ = best_weights(UNEQUAL.X, UNEQUAL.X)
    np.testing.assert_allclose(np.bincount(first, minlength=3) / n_each, shares, atol=0.02)
    # As many products as arms: all equally often.
    np.testing.assert_allclose(np.bincount(second), n_each / 3, atol=1.0)
    phi = UNEQUAL.X[:, [0, 0, 1]] * UNEQUAL.X[:, [0, 1, 1]]
    squares = (rewards - UNEQUAL.X[second] @ guess) ** 2
    fitted = phi @ np.linalg.lstsq(phi[second], squares, rcond=None)[0]
    variances = phases_of(learner).variances
    np.testing.assert_allclose(variances, np.clip(fitted, LOW**2, HIGH**2), rtol=1e-6)
    assert (fitted < HIGH**2).any(), "else a cut would hide the fit"
    phase, _ = tell_block(learner, rng)
    _, rho = best_weights(UNEQUAL.X / np.sqrt(variances)[:, None], UNEQUAL.X[[0, 0, 1]] - UNEQUAL.X[[1, 2, 2]])
    assert len(phase) == pytest.approx(12.0 * rho * math.log(8 * 9 / 0.05), rel=0.03)


def test_fewer_arms_than_products_are_enough() -> None:
    """Four arms in three dimensions, where six products have no estimate of their own: the variances have."""
    runs = simulate(
        problems.soare_unequal(3, angle=0.5, quiet=0.5),
        "h-rage",
        variant="paper",
        noise_std=1.0,
        least_noise_std=0.5,
        n_runs=5,
        seed=4,
        n_jobs=1,
    )
    assert runs.correct.all()


def test_variances_stay_between_their_bounds_and_the_label_is_honest() -> None:
    """Heuristic: nobody knows how many pulls the variances need."""
    learner, rng = published(), np.random.default_rng(5)
    for _ in range(2):
        tell_block(learner, rng)
    variances = phases_of(learner).variances
    assert LOW**2 <= variances.min() <= variances.max() <= HIGH**2
    assert (learner.decision.rule, learner.decision.guarantee) == ("h-rage", "heuristic")


def test_slack_ends_the_phases() -> None:
    """An answer that may lose half of the gap comes earlier."""
    few, many = (
        simulate(UNEQUAL, "h-rage", epsilon=epsilon, n_runs=10, seed=6, n_jobs=1, **TOLD).mean for epsilon in (0.5, 0.0)
    )
    assert few < 0.7 * many


def test_the_practical_variant_follows_the_noise_that_it_learns() -> None:
    """With noise="per-arm" its design is that of RAGE for the arms over their true noise; without it is RAGE."""
    learner, rng = create_learner("h-rage", UNEQUAL.X, noise="per-arm", delta=1e-300), np.random.default_rng(7)
    arms = [tell_block(learner, rng)[0] for _ in range(40)]
    assert learner.decision.guarantee == "proved"
    assert sum(map(len, arms)) > 700
    last, noise = np.bincount(arms[-1], minlength=3), np.asarray(UNEQUAL.noise_std)
    alive = learner.state.settled.state.alive(0)
    left = [arm for arm in range(3) if alive is None or alive[arm] or arm == learner.decision.best]
    first, second = np.triu_indices(len(left), 1)
    directions = UNEQUAL.X[np.array(left)[first]] - UNEQUAL.X[np.array(left)[second]]
    wanted, alike = (best_weights(UNEQUAL.X / stds[:, None], directions)[0] for stds in (noise, np.ones(3)))
    assert np.abs(last / last.sum() - wanted).max() < 0.05
    assert np.abs(alike - wanted).max() > 0.1, "else the design would not show the noise"
    same = [create_learner(name, UNEQUAL.X, noise_std=1.0) for name in ("h-rage", "rage")]
    for learner in same:
        tell_block(learner, np.random.default_rng(8))
        tell_block(learner, np.random.default_rng(9))
    assert same[0].log[1:] == same[1].log[1:]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"noise_std": 1.0}, "needs two bounds on the noise of all arms"),
        ({"least_noise_std": 0.5}, "needs two bounds on the noise of all arms"),
        ({"least_noise_std": 0.5, "noise": "per-arm"}, "needs two bounds"),
        ({"least_noise_std": 0.5, "noise_std": [1.0, 0.5, 0.7]}, "needs two bounds"),
        ({"least_noise_std": 2.0, "noise_std": 1.0}, "at most noise_std = 1, got 2"),
        ({"least_noise_std": 0.5, "noise_std": 1.0, "stopping": "betting"}, "leave `stopping` out"),
        ({"least_noise_std": 0.5, "noise_std": 1.0, "pilot": 0.0}, "`pilot` must be a factor above 0"),
    ],
)
def test_what_the_published_variant_cannot_do_without_is_said(options: dict[str, Any], match: str) -> None:
    """In a sentence."""
    with pytest.raises(InvalidInput, match=match):
        AnyLearner("h-rage", UNEQUAL.X, variant="paper", **options)
