"""Top-two rules: every part against brute force, the exploration that keeps them from getting stuck."""

import math
from itertools import islice
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, norm

import surepick as sp
from surepick.algorithms.top_two import MOST_DRAWS
from surepick.core.evidence import Mixture, log_evidence
from surepick.errors import InvalidInput
from surepick.learning.learner import Learner, create_learner
from surepick.sampling.alternatives import L1Allocation
from surepick.simulation import problems, simulate
from surepick.simulation.problems import Problem
from surepick.testing import check_algorithm
from tests.learning.lab import chooser_of, run
from tests.tasks import AnyLearner

SOARE = problems.soare(6, angle=0.1, scale=2.0)
SPHERE = problems.sphere(3, 9, seed=3)
EASY = Problem(X=np.eye(3), theta=np.array([1.5, 0.0, 0.4]), name="easy")


def looked(problem: Problem, n: int, seed: int, **options: Any) -> tuple[Learner, Any]:
    """A learner after n pulls and the chooser inside, which has just looked at the results."""
    learner = create_learner("top-two", problem.X, delta=1e-30, **{"noise_std": 1.0} | options)
    run(learner, problem, seed=seed, most=n)
    return learner, chooser_of(learner)


def information(learner: Learner, problem: Problem) -> np.ndarray:
    """A in the user's coordinates, from the counts."""
    return np.asarray(sum(n * np.outer(problem.X[k], problem.X[k]) for k, n in learner.counts.items()))


@pytest.mark.parametrize("seed", range(4))
def test_leader_challenger_and_arm_by_brute_force(seed: int) -> None:
    """Best estimate, least transport cost, largest reduction of y'A^-1 y, all in the user's coordinates."""
    learner, chooser = looked(SPHERE, 25, seed)
    A_inv, theta, X = np.linalg.inv(information(learner, SPHERE)), learner.theta, SPHERE.X
    leader = int(np.argmax(X @ theta))
    costs = np.full(len(X), np.inf)
    for j in range(len(X)):
        if j != leader:
            y = X[leader] - X[j]
            costs[j] = (y @ theta) ** 2 / (2 * y @ A_inv @ y)
    pair = chooser._pair()
    assert pair == (leader, int(np.argmin(costs)))
    y = X[leader] - X[pair[1]]
    gains = [(x @ A_inv @ y) ** 2 / (1 + x @ A_inv @ x) for x in X]
    assert chooser._arm(*pair) == int(np.argmax(gains))


def test_the_penalty_prefers_rivals_measured_less() -> None:
    """On a basis z'A^-1 z = 1/N_j, so the index is the transport cost plus log N_j."""
    problem = problems.unit_basis([0.4, 0.1, 0.0, 0.2])
    learner, chooser = looked(problem, 60, 1, challenger="transport-penalised")
    N, theta = np.array([learner.counts[k] for k in range(4)]), learner.theta
    leader = int(np.argmax(theta))
    index = (theta[leader] - theta) ** 2 / (2 * (1 / N[leader] + 1 / N)) + np.log(N)
    index[leader] = np.inf
    assert chooser._pair() == (leader, int(np.argmin(index)))


def test_one_draw_has_the_covariance_of_the_estimate() -> None:
    """theta~ ~ N(theta, noise_std^2 A^-1) jointly, not arm by arm."""
    learner, chooser = looked(SPHERE, 30, 2, leader="thompson", noise_std=0.5)
    draws = np.array(list(islice(chooser._parameters(), 6000)))
    np.testing.assert_allclose(draws.mean(axis=0), learner.estimate.theta, atol=0.02)
    covariance = 0.25 * np.linalg.inv(learner.estimate.A)
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.08 * np.abs(covariance).max())


def test_thompson_leaders_vary_and_challengers_never_equal_them() -> None:
    """Draws disagree while little is known; the challenger is always another row."""
    problem = problems.unit_basis([0.1, 0.05, 0.0])
    for challenger in ("transport", "resample"):
        _, chooser = looked(problem, 12, 3, leader="thompson", challenger=challenger)
        pairs = [chooser._pair() for _ in range(60)]
        assert len({leader for leader, _ in pairs}) >= 2
        assert all(leader != other for leader, other in pairs)


def test_resampling_falls_back_when_draws_agree() -> None:
    """Late in a run no draw disagrees; the challenger is then that of least cost."""
    problem = Problem(X=np.eye(2), theta=np.array([30.0, 0.0]), name="clear")
    _, chooser = looked(problem, 50, 4, challenger="resample")
    assert chooser._pair() == (0, 1)


def test_information_directed_shares_sum_to_one() -> None:
    """N_k (a_k'A^-1 y)^2 sums to y'A^-1 y, and draws follow these shares."""
    learner, chooser = looked(SPHERE, 40, 5, selection="ids")
    A_inv, X = np.linalg.inv(information(learner, SPHERE)), SPHERE.X
    leader, challenger = chooser._pair()
    y = X[leader] - X[challenger]
    N = np.array([learner.counts.get(k, 0) for k in range(len(X))])
    shares = N * (X @ A_inv @ y) ** 2 / (y @ A_inv @ y)
    assert shares.sum() == pytest.approx(1.0)
    drawn = np.bincount([chooser._arm(leader, challenger) for _ in range(4000)], minlength=len(X)) / 4000
    np.testing.assert_allclose(drawn, shares, atol=0.04)


def test_the_ratio_rule_keeps_its_proportions() -> None:
    """The arm pulled is furthest behind the L1 allocation of the pair."""
    learner, chooser = looked(SPHERE, 40, 6, selection="ratio")
    leader, challenger = chooser._pair()
    arms = learner.task.rows
    rows = arms.gather([leader, challenger])
    support, share = L1Allocation(arms).of(rows[0] - rows[1])
    ratios = [learner.counts.get(int(k), 0) / p for k, p in zip(support, share, strict=True)]
    assert chooser._arm(leader, challenger) == support[int(np.argmin(ratios))]


@pytest.mark.parametrize("seed", range(3))
def test_the_evidence_gradient_by_finite_differences(seed: int) -> None:
    """One rival, one kappa: a'G a is the relative change of 1/S when A grows by a a'."""
    problem = Problem(X=np.array([[1.0, 0.3], [0.2, 1.0]]), theta=np.array([0.5, 0.1]), name="two")
    learner, chooser = looked(problem, 20, seed, selection="evidence-greedy")
    kappa = 16.0
    chooser._mixture = Mixture.uniform(kappa)
    G, A = chooser._gradient(), learner.estimate.A
    rows = learner.measured_arms.gather([0, 1])
    y = rows[0] - rows[1]

    def precision(matrix: np.ndarray) -> float:
        u = np.linalg.solve(matrix, y)
        return float(1 / (y @ u + kappa * u @ u))

    for a in (np.array([1.0, 0.0]), np.array([0.3, -0.8])):
        h = 1e-6
        change = (precision(A + h * np.outer(a, a)) - precision(A - h * np.outer(a, a))) / (2 * h * precision(A))
        assert a @ G @ a == pytest.approx(change, rel=1e-5)


def test_the_evidence_it_climbs_is_that_of_the_rule() -> None:
    """Rivals far from the hardest one do not enter: without them the gradient stays."""
    learner, chooser = looked(SPHERE, 60, 7, selection="evidence-greedy")
    estimate, candidates = learner.estimate, learner.candidates
    leader = candidates.best(estimate.theta)
    rows = candidates.gather(np.arange(candidates.n_arms))
    y = np.delete(rows[leader] - rows, leader, axis=0)
    u = y @ np.linalg.inv(estimate.A)
    mixture = Mixture.default()
    evidence = log_evidence(
        y @ estimate.theta,
        np.einsum("ij,ij->i", y, u),
        np.einsum("ij,ij->i", u, u),
        np.log1p(np.linalg.eigvalsh(estimate.A) / mixture.scales[:, None]).sum(axis=1),
        mixture=mixture,
        noise_std=1.0,
    )
    least = evidence.min()
    far = math.log(1000.0) * 0.1 * math.sqrt(max(least, 1.0))
    near = np.delete(np.arange(len(rows)), leader)[evidence - least <= far]
    alive = np.zeros(len(rows), dtype=bool)
    alive[near] = True
    G = chooser._gradient()
    chooser._alive = alive
    np.testing.assert_allclose(chooser._gradient(), G, rtol=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"leader": "thompson"},
        {"leader": "thompson", "challenger": "resample", "selection": "ids"},
        {"challenger": "transport-penalised", "selection": "ratio"},
        {"selection": "coin"},
        {"selection": "evidence-greedy"},
        {"selection": "evidence-greedy", "stopping": "betting"},
        {"stopping": "evidence", "elimination": True},
        {"leader": "thompson", "stopping": "evidence", "elimination": True},
    ],
    ids=str,
)
def test_every_combination_finds_the_best_arm(options: dict[str, Any]) -> None:
    """On an easy problem all parts do, the same way for the same seed."""
    runs, again = (simulate(EASY, "top-two", n_runs=3, seed=2, max_pulls=5000, **options) for _ in range(2))
    assert runs.correct.all()
    assert runs.n_pulls.tolist() == again.n_pulls.tolist()


def test_the_published_variant() -> None:
    """L-T3C: every arm once, a Thompson leader, no exploration, an unproved threshold."""
    learner = create_learner("top-two", SOARE.X, variant="paper", noise_std=1.0)
    assert [learner.next_arms()[0] for _ in range(7)] == list(range(7))
    assert learner.decision.guarantee == "heuristic"
    chooser = chooser_of(learner, looks=False)
    assert chooser._is_thompson
    assert all(chooser._exploration.due(chooser._asked) is None for _ in range(50))


def test_a_share_of_the_pulls_explores() -> None:
    """With g_mix = .25 every fourth pull follows the G-optimal design, in its proportions."""
    _, chooser = looked(problems.unit_basis([1.0, 0.0, 0.0]), 6, 8, g_mix=0.25, exploration=0.0)
    due = [chooser._exploration.due(chooser._asked) for _ in range(120)]
    arms = [arm for arm in due if arm is not None]
    assert len(arms) == 30
    assert np.bincount(arms).tolist() == [10, 10, 10]


def test_the_floor_forces_pulls_of_neglected_arms() -> None:
    """An eigenvalue below scale c sqrt(t) makes the spanning set due, in turn."""
    learner, chooser = looked(problems.unit_basis([1.0, 0.0, 0.0]), 6, 9, g_mix=0.0, exploration=1.0)
    x = learner.measured_arms.gather([0])[0]
    chooser._asked.A = chooser._asked.A + 1e4 * np.outer(x, x)
    chooser._asked.n += 10_000
    due = [chooser._exploration.due(chooser._asked) for _ in range(4)]
    assert due == [(due[0] + i) % 3 for i in range(4)]  # the turn stands where earlier forced pulls left it


def test_a_batch_is_not_one_arm_over_and_over() -> None:
    """Within a batch the information grows."""
    for selection in ("greedy", "evidence-greedy"):
        learner, _ = looked(problems.unit_basis([1.0, 0.5, 0.0, 0.0]), 40, 10, selection=selection, g_mix=0.0)
        assert len(set(learner.next_arms(20))) >= 2


def test_bad_options() -> None:
    """Each is named with what it can be."""
    for option in ("leader", "challenger", "selection"):
        with pytest.raises(InvalidInput, match=f"`{option}` must be one of"):
            create_learner("top-two", EASY.X, **{"noise_std": 1.0} | {option: "other"})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="evidence-greedy"):
        AnyLearner("top-two", EASY.X, selection="evidence-greedy", challenger="resample", noise_std=1.0)
    with pytest.raises(InvalidInput, match="candidates"):
        AnyLearner("top-two", EASY.X, selection="coin", candidates=EASY.X[:2], noise_std=1.0)
    with pytest.raises(InvalidInput, match="exploration"):
        AnyLearner("top-two", EASY.X, exploration=-1.0, noise_std=1.0)


NAMED: dict[str, dict[str, Any]] = {
    "TTTS": {"leader": "thompson", "challenger": "resample", "selection": "coin"},
    "T3C": {"leader": "thompson", "challenger": "transport", "selection": "coin"},
    "L-T3C": {"leader": "thompson", "challenger": "transport", "selection": "greedy"},
    "IDS": {"leader": "thompson", "challenger": "transport", "selection": "ids"},
}
"""Names in the literature."""


@pytest.mark.parametrize("name", NAMED)
def test_rules_with_names_keep_the_contract(name: str) -> None:
    """As published, without exploration besides; on a basis, since a coin pulls one of the two arms compared."""
    algorithm = sp.algorithms.TopTwo(exploration=0.0, g_mix=0.0, **NAMED[name])
    check_algorithm(algorithm, np.eye(4), theta=[2.0, 0.0, -0.5, 0.3])


@pytest.mark.parametrize("challenger", ["resample", "transport"])
def test_published_top_two_rules_pull_arms_as_often_as_their_formulas(challenger: Any) -> None:
    """TTTS and T3C: with a_k the probability that arm k is best, arm k as leader and, by a coin, as challenger.

    TTTS: a_k (1 + sum over j != k of a_j / (1 - a_j)) / 2, but for runs of MOST_DRAWS draws that all agree. Of 3,000
    draws, 1e-6 allows for the binomial range.
    """
    problem = problems.unit_basis([1.5, 0.3, 0.0])
    learner = create_learner(
        sp.algorithms.TopTwo(leader="thompson", challenger=challenger, selection="coin", exploration=0.0, g_mix=0.0),
        problem.X, noise_std=1.0, delta=1e-30,
    )  # fmt: skip
    run(learner, problem, seed=4, most=24)
    counts = np.array([learner.counts[arm] for arm in range(3)])
    sums = np.zeros(3)
    for arm, reward in learner.history:
        sums[arm] += reward
    means, stds = sums / counts, counts**-0.5

    def density(x: float, k: int) -> float:
        return float(norm.pdf(x, means[k], stds[k]) * np.prod(norm.cdf(x, np.delete(means, k), np.delete(stds, k))))

    best = [quad(density, -5, 5, args=(k,))[0] for k in range(3)]
    assert sum(best) == pytest.approx(1.0, abs=1e-6)
    shares = [b / 2 for b in best]  # as leaders
    for k, b in enumerate(best):
        others = np.array([j for j in range(3) if j != k])
        costs = np.maximum(means[k] - means[others], 0.0) ** 2 / (2 * (1 / counts[k] + 1 / counts[others]))
        ties = costs <= costs.min()  # several rivals of cost 0 tie, and one is drawn
        wanting = b**MOST_DRAWS if challenger == "resample" else 1.0  # no draw had another best arm
        for j, is_hardest in zip(others.tolist(), ties.tolist(), strict=True):
            drawn = best[j] / (1.0 - b)
            shares[j] += b / 2 * ((1.0 - wanting) * drawn + wanting * is_hardest / ties.sum())
    assert sum(shares) == pytest.approx(1.0, abs=1e-6)
    chooser = chooser_of(learner)
    found = np.bincount([chooser.pick() for _ in range(3000)], minlength=3)
    for n, share in zip(found.tolist(), shares, strict=True):
        assert binom.ppf(1e-6 / 6, 3000, share) <= n <= binom.isf(1e-6 / 6, 3000, share)
    assert max(abs(a - b) for a, b in zip(shares, best, strict=True)) > 0.1  # plain Thompson sampling would show
