"""LinGapE: the ratio rule's proportions, the index against brute force, the paper's threshold."""

import math
from typing import Any

import numpy as np
import pytest

from surepick.arms.views import largest_loss_bound
from surepick.core.evidence import Mixture, loss_bound
from surepick.errors import InvalidInput
from surepick.learning.learner import Learner, create_learner
from surepick.simulation import problems, simulate
from surepick.simulation.problems import Problem
from surepick.types import Array
from tests.learning.lab import chooser_of, run
from tests.tasks import AnyLearner

SPHERE = problems.sphere(3, 9, seed=3)


def sums(learner: Learner, X: Array) -> tuple[Array, Array]:
    """Return sum x x' and sum r x of all results in the user's coordinates."""
    rows = X[[arm for arm, _ in learner.history]]
    return rows.T @ rows, rows.T @ np.array([reward for _, reward in learner.history])


@pytest.mark.parametrize("width", ["determinant", "largest-norm"])
@pytest.mark.parametrize("seed", range(4))
def test_the_papers_index_and_arm_by_brute_force(seed: int, width: str) -> None:
    """Ridge estimate, both published widths with their sqrt(lambda) S, the challenger, and the greedy arm."""
    ridge, bound, noise, X = 0.6, 2.2, 0.8, SPHERE.X * np.linspace(0.6, 1.4, 9)[:, None]
    problem = Problem(X=X, theta=SPHERE.theta, name="sphere", noise_std=noise)
    options: dict[str, Any] = {"norm_bound": bound, "ridge": ridge, "width": width}
    learner = create_learner("lingape", X, variant="paper", noise_std=noise, delta=1e-6, **options)
    run(learner, problem, seed=seed, most=30)
    A, b = sums(learner, X)
    V = A + ridge * np.eye(3)
    theta, inverse = np.linalg.solve(V, b), np.linalg.inv(V)
    leader = int(np.argmax(X @ theta))
    logdet = np.linalg.slogdet(V)[1] - 3 * math.log(ridge)
    bounded = 3 * math.log(1 + 30 * (X**2).sum(axis=1).max() / (3 * ridge))
    price = math.log(81 / 1e-6) + logdet / 2 if width == "determinant" else math.log(1 / 1e-6) + bounded / 2
    C = noise * math.sqrt(2 * price) + math.sqrt(ridge) * bound
    assert logdet < bounded
    y = X - X[leader]
    index = y @ theta + C * np.sqrt(np.einsum("ij,jk,ik->i", y, inverse, y))
    index[leader] = -np.inf
    challenger = int(np.argmax(index))
    decision = learner.decision
    assert decision.best == leader
    # The rule is "no index above 0" written as a likelihood ratio: statistic = min gap^2/(2 q), limit = C^2/2, in nats.
    assert decision.target == pytest.approx(C**2 / (2 * noise**2))
    assert decision.guarantee == "proved"
    assert (index.max() <= 0) == (decision.evidence > decision.target)
    y = X[leader] - X[challenger]
    gains = [(x @ inverse @ y) ** 2 / (1 + x @ inverse @ x) for x in X]
    assert chooser_of(learner).choose() == int(np.argmax(gains))


@pytest.mark.parametrize("seed", range(4))
def test_the_practical_challenger_has_the_largest_loss_bound(seed: int) -> None:
    """Against the bounds of all rivals; few of them are computed exactly on the way."""
    learner = create_learner("lingape", SPHERE.X, delta=1e-6, noise_std=1.0)
    run(learner, SPHERE, seed=seed, most=25)
    estimate, mixture = learner.estimate, Mixture.default()
    rows = learner.measured_arms.gather(np.arange(9))
    leader = int(np.argmax(rows @ estimate.theta))
    y = np.delete(rows[leader] - rows, leader, axis=0)
    u = y @ np.linalg.inv(estimate.A)
    bounds = loss_bound(
        y @ estimate.theta,
        np.einsum("ij,ij->i", y, u),
        np.einsum("ij,ij->i", u, u),
        np.log1p(np.linalg.eigvalsh(estimate.A) / mixture.scales[:, None]).sum(axis=1),
        mixture=mixture,
        noise_std=1.0,
        delta=1e-6,
    )
    rival, bound = largest_loss_bound(learner.task.rows, leader, estimate.theta, estimate.A, delta=1e-6, noise_std=1.0)
    assert rival == np.delete(np.arange(9), leader)[int(np.argmax(bounds))]
    assert bound == pytest.approx(bounds.max(), rel=1e-9)
    # "No bound above 0" and the evidence rule are the same thing.
    assert (bound <= 0) == learner.stopped


def test_bounds_of_very_many_near_ties_are_exact_too() -> None:
    """When cheap bounds cannot tell rivals apart, the rest is computed at once: same rival, same bound."""
    rng = np.random.default_rng(91)
    angles = 0.8 + 1e-3 * rng.random(500)
    X = np.vstack([np.column_stack([np.cos(angles), np.sin(angles)]), [1.0, 0.0], [-0.7, 0.7]])
    learner = create_learner("lingape", X, delta=1e-6, noise_std=1.0)
    run(learner, Problem(X=X, theta=np.array([1.0, 0.0]), name="cluster"), seed=0, most=20)
    estimate, mixture = learner.estimate, Mixture.default()
    leader = learner.candidates.best(estimate.theta)
    rows = learner.measured_arms.gather(np.arange(len(X)))
    y = np.delete(rows[leader] - rows, leader, axis=0)
    u = y @ np.linalg.inv(estimate.A)
    logdets = np.log1p(np.linalg.eigvalsh(estimate.A) / mixture.scales[:, None]).sum(axis=1)
    forms = y @ estimate.theta, np.einsum("ij,ij->i", y, u), np.einsum("ij,ij->i", u, u)
    bounds = loss_bound(*forms, logdets, mixture=mixture, noise_std=1.0, delta=1e-6)
    _, bound = largest_loss_bound(learner.task.rows, leader, estimate.theta, estimate.A, delta=1e-6, noise_std=1.0)
    assert bound == pytest.approx(bounds.max(), rel=1e-9)


def test_the_ratio_rule_keeps_the_l1_proportions() -> None:
    """On the Soare instance the pair needs e1 and e2 in the proportions 1 - cos w and sin w, nothing else.

    The gaps are large, so that leader and challenger are these two from the start.
    """
    problem = problems.soare(2, angle=0.3, scale=200.0)
    learner = AnyLearner("lingape", problem.X, selection="ratio", delta=1e-300, noise_std=1.0)
    run(learner, problem, seed=1, most=250, is_endless=True)
    expected = (1 - math.cos(0.3)) / (1 - math.cos(0.3) + math.sin(0.3))
    assert learner.counts[0] / 250 == pytest.approx(expected, abs=2 / 250)
    assert learner.counts.get(2, 0) <= 1


def test_norm_bound_is_asked_for() -> None:
    """The paper's rule cannot do without; the message says what to do instead."""
    with pytest.raises(InvalidInput, match=r"norm_bound.*practical"):
        create_learner("lingape", SPHERE.X, variant="paper", noise_std=1.0)
    create_learner("lingape", SPHERE.X, variant="paper", stopping="heuristic", noise_std=1.0)
    with pytest.raises(InvalidInput, match="selection"):
        AnyLearner("lingape", SPHERE.X, selection="other", noise_std=1.0)
    with pytest.raises(InvalidInput, match=r"width.*largest-norm"):
        AnyLearner("lingape", SPHERE.X, width="other", noise_std=1.0)


def test_the_published_variant_pulls_every_arm_first_and_is_right() -> None:
    """All K arms once; then no error on an easy problem."""
    problem = problems.unit_basis([2.0, 0.0, 0.5])
    learner = AnyLearner("lingape", problem.X, variant="paper", norm_bound=2.1, noise_std=1.0)
    assert [learner.next_arms()[0] for _ in range(3)] == [0, 1, 2]
    assert learner.decision.guarantee == "proved"
    runs = simulate(problem, "lingape", variant="paper", norm_bound=2.1, n_runs=5, seed=1)
    assert runs.correct.all()


def test_a_batch_is_not_one_arm_over_and_over() -> None:
    """Within a batch the information grows."""
    learner = create_learner("lingape", np.eye(4), delta=1e-9, noise_std=1.0)
    run(learner, problems.unit_basis([1.0, 0.5, 0.0, 0.0]), seed=2, most=40)
    assert len(set(learner.next_arms(20))) >= 2
