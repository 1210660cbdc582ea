"""RAGE: phase lengths and prices as published and as coded, and what the practical variant does differently."""

import math
from typing import Any

import numpy as np
import pytest

from surepick.arms.finite import as_arms
from surepick.arms.views import whiten
from surepick.core.design.solve import pairwise_design
from surepick.errors import InvalidInput
from surepick.learning.learner import Learner, create_learner
from surepick.simulation import problems
from surepick.simulation.parallel import simulate
from surepick.simulation.problems import Problem
from tests.tasks import AnyLearner, interval_of

BASIS = problems.unit_basis([1.0, 0.4, 0.0])


def phase_ends(problem: Problem, *, seed: int, most: int = 100_000, **options: Any) -> tuple[Learner, list[int]]:
    """Run until stopped; the numbers of pulls at which intervals ended."""
    learner = create_learner(
        "rage", problem.X, candidates=problem.candidates, noise_std=problem.noise_std, seed=seed, **options
    )
    rng, means, ends = np.random.default_rng([7, seed]), problem.X @ problem.theta, []
    while not learner.stopped and learner.estimate.n_pulls < most:
        arm = learner.next_arms()[0]
        learner.tell(arm, float(means[arm] + problem.noise_std * rng.standard_normal()))
        if learner.n_planned == 0:
            ends.append(learner.estimate.n_pulls)
    return learner, ends


@pytest.mark.parametrize(("constants", "factor", "tests"), [("public-code", 1.0, 18), ("printed", 4.0, 9)])
@pytest.mark.parametrize("noise_std", [1.0, 0.5, 0.1])
def test_the_first_phase_has_the_published_length(constants: str, factor: float, tests: int, noise_std: float) -> None:
    """N_1 = 8 factor^2 rho (1 + eps) log(tests/delta) noise_std^2, on the basis rho = 2 K; r(eps) with little noise."""
    problem = Problem(X=BASIS.X, theta=BASIS.theta, noise_std=noise_std, name="scaled")
    _, ends = phase_ends(problem, seed=0, variant="paper", constants=constants, delta=0.1)
    white = whiten(as_arms(problem.X))
    rho = pairwise_design(white, white.gather([0, 1, 2])).value
    assert rho == pytest.approx(6.0, rel=0.01)
    wanted = math.ceil(8.0 * factor**2 * rho * 1.1 * math.log(tests / 0.1) * noise_std**2)
    assert ends[0] == max(wanted, 2 * 3 * 10 if constants == "public-code" else 70)


def test_phases_grow_fourfold_while_nobody_goes() -> None:
    """Accuracy doubles from phase to phase, and the price grows with t^2."""
    tied = problems.unit_basis([1.0, 1.0, 1.0])
    tied = Problem(X=tied.X, theta=tied.theta, noise_std=0.5, name="tied")
    _, ends = phase_ends(tied, seed=1, variant="paper", delta=0.1, most=2500)
    lengths = np.diff([0, *ends])[:3]
    price = [math.log(18 * t * t / 0.1) for t in (1, 2, 3)]
    np.testing.assert_allclose(
        lengths / lengths[0], [4.0 ** (t - 1) * price[t - 1] / price[0] for t in (1, 2, 3)], 0.02
    )


def test_the_printed_length_makes_every_width_at_most_the_accuracy() -> None:
    """With N_t pulls noise_std |y| sqrt(2 log(|Z|^2/delta_t)) <= 2^-(t+2), so the lag alone decides."""
    problem = Problem(X=problems.sphere(3, 8, seed=2).X, theta=np.zeros(3), noise_std=0.7, name="widths")
    learner = AnyLearner("rage", problem.X, variant="paper", constants="printed", noise_std=0.7)
    arms = interval_of(learner)
    A = problem.X[arms].T @ problem.X[arms]
    first, second = np.triu_indices(8, 1)
    Y = problem.X[first] - problem.X[second]
    worst = np.sqrt(np.einsum("ij,ij->i", Y, np.linalg.solve(A, Y.T).T).max())
    assert 0.7 * worst * math.sqrt(2.0 * math.log(64 / 0.05)) <= 2.0**-3


def test_a_batch_beyond_the_phase_keeps_its_proportions() -> None:
    """Three times the phase in one ask: each arm three times as often, within one pull per arm and phase."""
    learner = create_learner("rage", problems.sphere(3, 12, seed=3).X, variant="paper", noise_std=1.0)
    arms = learner.next_arms(1)
    n = learner.n_planned + 1
    arms += learner.next_arms(3 * n - 1)
    once, thrice = np.bincount(arms[:n], minlength=12), np.bincount(arms, minlength=12)
    assert np.abs(thrice - 3 * once).max() <= 3
    assert (thrice[once == 0] == 0).all()


def test_later_phases_measure_only_what_separates_those_left() -> None:
    """Once two arms of the basis are left, the third is no longer pulled."""
    problem = problems.unit_basis([1.0, 0.9, -3.0])
    for variant in ("paper", "practical"):
        learner, _ = phase_ends(problem, seed=4, most=3000, variant=variant)
        counts = learner.counts
        assert counts[2] < 0.25 * min(counts[0], counts[1]), variant


def test_both_variants_find_candidates_that_are_no_arms() -> None:
    """The transductive setting, with every rule."""
    problem = Problem(
        X=np.eye(4), theta=np.array([2.0, 0.0, 0.0, 0.0]), candidates=np.eye(4)[:3] + 0.3 * np.eye(4)[3], name="t"
    )
    runs: list[dict[str, Any]] = [
        {"variant": "paper"},
        {},
        {"stopping": "evidence"},
        {"stopping": "log-t"},
        {"schedule": "doubling"},
    ]
    for options in runs:
        learner, _ = phase_ends(problem, seed=5, **options)
        assert learner.stopped, options
        assert learner.decision.best == 0, options


def test_the_papers_variant_is_labelled_and_errs_rarely() -> None:
    """At delta = 0.2 on a small problem; expected errors are far below 0.21 delta n = 4."""
    runs = simulate(problems.unit_basis([1.0, 0.0]), "rage", variant="paper", delta=0.2, n_runs=100, seed=6)
    assert runs.stopped.all()
    assert (~runs.correct).sum() <= 4
    decision = create_learner("rage", np.eye(2), variant="paper", noise_std=1.0).decision
    assert (decision.rule, decision.guarantee) == ("rage", "proved")


@pytest.mark.parametrize(
    ("n_arms", "after_one", "published", "error"), [(1000, 3, 1148.45, 49.82), (10_000, 2, 1479.4, 52.0)]
)
def test_phase_ends_explain_the_published_table(n_arms: int, after_one: int, published: float, error: float) -> None:
    """Many arms, delta = 0.05: so many of 20 runs end with phase 1, the others with phase 2, give mean and error.

    Ends of phases are all that a run's length can be, and how many runs end where is chance; the published error is
    the standard deviation (divided by n, not n - 1) over the root of 20.
    """
    ends: list[int] = []
    for seed in range(20):
        ends = phase_ends(problems.many_arms(n_arms, seed=seed), seed=seed, variant="paper")[1]
        if len(ends) == 2:
            break
    lengths = np.repeat(ends, [after_one, 20 - after_one])
    assert lengths.mean() == pytest.approx(published, abs=3.0)
    assert lengths.std() / math.sqrt(20) == pytest.approx(error, abs=0.1)


def test_options_are_checked() -> None:
    """With what was needed and what came."""
    with pytest.raises(InvalidInput, match="public-code"):
        AnyLearner("rage", np.eye(2), constants="folklore", noise_std=1.0)
    with pytest.raises(InvalidInput, match="rounding_slack"):
        AnyLearner("rage", np.eye(2), rounding_slack=0.0, noise_std=1.0)
    with pytest.raises(InvalidInput, match="schedule"):
        create_learner("rage", np.eye(2), schedule="sometimes", noise_std=1.0)


def test_phases_longer_than_whole_numbers_go() -> None:
    """Noise beyond all measure asks for phases nobody finishes; they are planned like any other."""
    learner = create_learner("rage", np.eye(2), variant="paper", noise_std=1e10)
    arms = learner.next_arms(100)
    assert set(arms) == {0, 1}
    assert not learner.stopped
