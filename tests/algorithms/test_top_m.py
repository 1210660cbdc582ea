"""m-LinGapE and LinGIFA: pairs, arms and published rules by brute force; options that have no meaning."""

import math
from typing import Any

import numpy as np
import pytest

from surepick.core.evidence import Mixture, loss_bound
from surepick.errors import InvalidInput
from surepick.learning.learner import Learner, create_learner
from surepick.simulation import problems, simulate
from surepick.simulation.problems import Problem
from surepick.types import Array
from tests.learning.lab import chooser_of, run
from tests.tasks import AnyLearner

SPHERE = problems.sphere(3, 8, seed=3)
M, NOISE = 3, 0.7
MINE = Problem(X=SPHERE.X * np.linspace(0.6, 1.4, 8)[:, None], theta=SPHERE.theta, name="sphere", noise_std=NOISE)


def told(name: str, seed: int, **options: Any) -> Learner:
    """A learner after 25 pulls, far from its end."""
    learner = create_learner(name, MINE.X, m=M, noise_std=NOISE, delta=1e-6, seed=seed, **options)
    run(learner, MINE, seed=seed, most=25)
    return learner


def team_of(learner: Learner) -> list[int]:
    """The answer if the learner stopped now."""
    best: Any = learner.decision.best
    return list(best)


def ridge_bounds(learner: Learner, ridge: float, C: float) -> Any:
    """Return theta, V^-1 of the ridge estimate in the user's coordinates, and B_ij with j first."""
    rows = MINE.X[[arm for arm, _ in learner.history]]
    V = rows.T @ rows + ridge * np.eye(3)
    theta = np.linalg.solve(V, rows.T @ np.array([reward for _, reward in learner.history]))
    inverse = np.linalg.inv(V)
    bounds = np.array([[(i - j) @ theta + C * math.sqrt((i - j) @ inverse @ (i - j)) for i in MINE.X] for j in MINE.X])
    return theta, inverse, bounds


def greedy(inverse: Array, pair: tuple[int, int]) -> int:
    """Return the arm that shrinks the uncertainty of the pair most."""
    y = MINE.X[pair[0]] - MINE.X[pair[1]]
    return int(np.argmax([(x @ inverse @ y) ** 2 / (1 + x @ inverse @ x) for x in MINE.X]))


@pytest.mark.parametrize("width", ["heuristic", "largest-norm"])
@pytest.mark.parametrize("seed", range(4))
def test_the_published_m_lingape_by_brute_force(seed: int, width: str) -> None:
    """Both widths, the pair with the largest bound of all, the greedy arm, and the rule "no bound above 0"."""
    given: dict[str, Any] = {} if width == "heuristic" else {"norm_bound": 2.2}
    learner = told("m-lingape", seed, variant="paper", width=width, **given)
    ridge, small, L2 = 1.0, (NOISE / 20) ** 2, float((MINE.X**2).sum(axis=1).max())
    if width == "heuristic":
        C = NOISE * math.sqrt(2 * math.log((1 + math.log(25)) / 1e-6))
    else:
        C = NOISE * math.sqrt(2 * math.log(1e6) + 3 * math.log1p(25 * L2 / (3 * small))) + math.sqrt(small) * 2.2
    theta, inverse, bounds = ridge_bounds(learner, ridge, C)
    team = np.argsort(-(MINE.X @ theta))[:M]
    outside = np.setdiff1d(np.arange(8), team)
    of_pairs = bounds[np.ix_(team, outside)]
    b, c = np.unravel_index(np.argmax(of_pairs), of_pairs.shape)
    decision = learner.decision
    assert team_of(learner) == team.tolist()
    assert decision.guarantee == "heuristic"
    assert decision.target == pytest.approx(C**2 / (2 * NOISE**2))
    assert (of_pairs.max() <= 0) == (decision.evidence > decision.target)
    chooser = chooser_of(learner)
    assert chooser.pair() == (team[b], outside[c])
    assert chooser.choose() == greedy(inverse, (team[b], outside[c]))


def test_m_lingape_is_proved_where_width_and_estimate_have_one_ridge() -> None:
    """With ridge 1 the theorem does not apply."""
    own = {"variant": "paper", "width": "largest-norm", "norm_bound": 2.2}
    assert told("m-lingape", 0, ridge=(NOISE / 20) ** 2, **own).decision.guarantee == "proved"
    assert told("m-lingape", 0, **own).decision.guarantee == "heuristic"


@pytest.mark.parametrize("seed", range(4))
def test_the_published_lingifa_by_brute_force(seed: int) -> None:
    """Indices, the team, the pair, the arms of both choices, and the rule "no index of the team above 0"."""
    ridge, L2 = (NOISE / 20) ** 2, float((MINE.X**2).sum(axis=1).max())
    C = NOISE * math.sqrt(2 * math.log(1e6) + 3 * math.log1p(25 * L2 / (3 * ridge))) + math.sqrt(ridge) * 2.2
    for selection in ("greedy", "largest-variance"):
        learner = told("lingifa", seed, variant="paper", norm_bound=2.2, selection=selection)
        theta, inverse, bounds = ridge_bounds(learner, ridge, C)
        np.fill_diagonal(bounds, -np.inf)
        index = np.sort(bounds, axis=1)[:, -M]
        team = np.argsort(index)[:M]
        outside = np.setdiff1d(np.arange(8), team)
        b = team[-1]
        c = outside[np.argmax(bounds[b, outside])]
        decision = learner.decision
        assert set(team_of(learner)) == set(team.tolist())
        assert team_of(learner) == sorted(team_of(learner), key=lambda arm: -MINE.X[arm] @ theta)
        assert decision.guarantee == "published"
        assert (index[team].max() <= 0) == (decision.evidence >= decision.target)
        chooser = chooser_of(learner)
        assert chooser.pair() == (b, c)
        variances = [MINE.X[arm] @ inverse @ MINE.X[arm] for arm in (b, c)]
        arm = greedy(inverse, (b, c)) if selection == "greedy" else (b, c)[int(np.argmax(variances))]
        assert chooser.choose() == arm


@pytest.mark.parametrize("seed", range(3))
def test_practical_indices_are_the_bounds_of_the_evidence(seed: int) -> None:
    """Of all pairs; m-LinGapE finds the largest of them by its passes."""
    learner = told("lingifa", seed, stopping="evidence")
    rows, mixture, estimate = learner.measured_arms.gather(np.arange(8)), Mixture.default(), learner.estimate
    y = (rows[:, None] - rows[None]).reshape(64, 3)
    u = y @ np.linalg.inv(estimate.A)
    logdets = np.log1p(np.linalg.eigvalsh(estimate.A) / mixture.scales[:, None]).sum(axis=1)
    forms = y @ estimate.theta, np.einsum("ij,ij->i", y, u), np.einsum("ij,ij->i", u, u)
    expected = loss_bound(*forms, logdets, mixture=mixture, noise_std=NOISE, delta=1e-6).reshape(8, 8)
    found, off = chooser_of(learner).bounds(), ~np.eye(8, dtype=bool)
    np.testing.assert_allclose(found[off], expected[off], rtol=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_the_practical_pair_of_m_lingape_has_the_largest_bound(seed: int) -> None:
    """Of the evidence, under the evidence rule; by the evidence that accounts of sets miss, under betting."""
    learner = told("m-lingape", seed, stopping="evidence")
    rows, mixture, estimate = learner.measured_arms.gather(np.arange(8)), Mixture.default(), learner.estimate
    team = team_of(learner)
    pairs = [(b, c) for b in team for c in range(8) if c not in team]
    y = np.array([rows[b] - rows[c] for b, c in pairs])
    u = y @ np.linalg.inv(estimate.A)
    logdets = np.log1p(np.linalg.eigvalsh(estimate.A) / mixture.scales[:, None]).sum(axis=1)
    forms = y @ estimate.theta, np.einsum("ij,ij->i", y, u), np.einsum("ij,ij->i", u, u)
    bounds = loss_bound(*forms, logdets, mixture=mixture, noise_std=NOISE, delta=1e-6)
    assert chooser_of(learner).pair() == pairs[int(np.argmax(bounds))]
    learner = told("m-lingape", seed)
    estimate = learner.estimate
    assert learner.decision.rule == "betting"
    sampler: Any = learner.state.plans.sampler
    sampler.open(learner.state.settled.context(learner.state.ledger.outstanding))
    chooser = sampler._sampler._chooser  # blocks that are too short to bet on are joined
    listed, missing = learner.state.settled.state.pairs(estimate) or pytest.fail("no pairs")
    y = rows[listed[:, 0]] - rows[listed[:, 1]]
    A_inv = np.linalg.inv(chooser._asked.A)
    square = np.einsum("ij,jk,ik->i", y, A_inv, y)
    best = np.argmax(NOISE * np.sqrt(2 * missing * square) - y @ estimate.theta)
    assert chooser.pair() == tuple(listed[best].tolist())


@pytest.mark.parametrize("name", ["m-lingape", "lingifa"])
@pytest.mark.parametrize("options", [{}, {"stopping": "evidence"}, {"variant": "paper", "norm_bound": 2.0}], ids=str)
def test_the_m_best_are_found(name: str, options: dict[str, Any]) -> None:
    """On a problem with clear gaps, by every rule."""
    problem = problems.unit_basis([2.0, 1.5, 0.0, -0.5, 0.1])
    runs = simulate(problem, name, m=2, n_runs=4, seed=5, n_jobs=1, noise_std=0.5, max_pulls=5000, **options)
    assert runs.correct.all()


def test_what_has_no_meaning_is_refused() -> None:
    """With what to do instead."""
    with pytest.raises(InvalidInput, match=r"norm_bound.*practical"):
        create_learner("lingifa", MINE.X, variant="paper", noise_std=1.0)
    with pytest.raises(InvalidInput, match=r"300 candidates.*use m-lingape"):
        create_learner("lingifa", problems.sphere(3, 301, seed=0).X, noise_std=1.0)
    with pytest.raises(InvalidInput, match=r"largest-variance.*greedy"):
        AnyLearner("lingifa", MINE.X, selection="largest-variance", candidates=MINE.X[:4], noise_std=1.0)
    with pytest.raises(InvalidInput, match="no proof for m = 2"):
        create_learner("g-static", MINE.X, variant="paper", m=2, noise_std=1.0)
    create_learner("uniform", MINE.X, variant="paper", m=2, noise_std=1.0)  # a heuristic, and labelled so
