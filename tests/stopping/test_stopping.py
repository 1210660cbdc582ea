"""Stopping rules: lazy checks against full scans, presets against direct computation, dominance, errors."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from surepick.arms.finite import FiniteArms
from surepick.arms.views import largest_loss_bound, whiten
from surepick.core.estimate import LeastSquares
from surepick.core.evidence import Mixture, log_evidence
from surepick.errors import InvalidInput
from surepick.simulation import problems
from surepick.simulation.problems import Problem
from surepick.stopping import GLR, Evidence, MixGrid, Pairwise, PerCoordinate, PrintedSphere, Rule, as_rule, scan
from surepick.types import Array, IntArray
from tests.tasks import begun, task_of, view_of


@dataclass(frozen=True)
class Path:
    """Pulls of one simulated run, chosen without looking at the rewards to come."""

    X: Array
    pulls: IntArray
    rewards: Array

    def replay(self, estimate: LeastSquares) -> Iterator[int]:
        """Feed the pulls one by one, yielding the round number after each."""
        for t, (arm, reward) in enumerate(zip(self.pulls.tolist(), self.rewards.tolist(), strict=True), 1):
            estimate.update(self.X[arm], reward, arm)
            yield t


def simulate(problem: Problem, *, n_rounds: int, seed: int) -> Path:
    """Pull arms half at random and half among the four best, so that leaders change."""
    rng = np.random.default_rng(seed)
    good = np.argsort(problem.gaps)[:4]
    pulls = np.where(
        rng.random(n_rounds) < 0.5, rng.choice(good, size=n_rounds), rng.integers(problem.n_arms, size=n_rounds)
    )
    rewards = problem.X[pulls] @ problem.theta + problem.noise_std * rng.standard_normal(n_rounds)
    return Path(problem.X, pulls, rewards)


def clustered(dim: int, *, seed: int) -> Problem:
    """Return eight tight clusters of arms: near ties everywhere, and many arms within any epsilon."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((8, dim))
    X = np.vstack([np.eye(dim), np.repeat(centres, 25, axis=0) + 1e-3 * rng.standard_normal((200, dim))])
    X = np.vstack([X, X[dim : dim + 5]])  # exact duplicates
    theta = rng.standard_normal(dim) / math.sqrt(dim)
    return Problem(X=X, theta=theta, name=f"clustered d={dim}")


def one_dense_arc(n_arms: int) -> Problem:
    """Return arms so close on an arc that most are within epsilon of the best."""
    angles = np.linspace(0.0, 0.5 * math.pi, n_arms)
    X = np.column_stack([np.cos(angles), np.sin(angles)])
    return Problem(X=X, theta=np.array([0.8, 0.6]), noise_std=0.4, name=f"arc K={n_arms}")


# Noise such that stops fall within the few hundred rounds that full scans can afford in a test.
INSTANCES = {
    "many arms, d=2": replace(problems.many_arms(300, seed=1), noise_std=0.4),
    "soare, d=3": replace(problems.soare(3, 0.5), noise_std=0.6),
    "basis, d=5": replace(problems.unit_basis([1.0, 0.8, 0.5, 0.2, 0.0]), noise_std=0.3),
    "clusters, d=4": replace(clustered(4, seed=2), noise_std=0.015),
    "sphere, d=20": replace(problems.sphere(20, 200, seed=3), noise_std=0.07),
    "near tie, d=6": replace(problems.sphere(6, 100, seed=4, closest_pair=0.45), noise_std=0.005),
}
CASES = [(name, epsilon, scan.POOL_SIZE) for name in INSTANCES for epsilon in (0.0, 0.05)]
# A tiny pool leaves most of the work to the bound on arms outside it.
CASES += [
    ("clusters, d=4", 0.3, 2),
    ("clusters, d=4", 1e-3, 2),
    ("near tie, d=6", 1e-4, 2),
    ("near tie, d=6", 1e-3, scan.POOL_SIZE),
    ("sphere, d=20", 0.1, 2),
]


def rules(dim: int, **options: Any) -> dict[str, Evidence | GLR]:
    """Return the rules that scan."""
    skewed = np.eye(dim) + 0.5 * np.ones((dim, dim))
    return {
        "evidence": Evidence(**options),
        "evidence, own regulariser": Evidence(regularizer=skewed, mixture=Mixture.uniform([1, 10]), **options),
        "paper-appendix": GLR(threshold="paper-appendix", c=1.0, **options),
        "heuristic": GLR(threshold="heuristic", **options),
    }


@pytest.mark.parametrize(("name", "epsilon", "pool"), CASES)
def test_lazy_checks_decide_as_full_scans_in_every_round(
    name: str, epsilon: float, pool: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same decision and, when it is to stop, same answer, in every round and also after the first stop."""
    monkeypatch.setattr(scan, "POOL_SIZE", pool)
    problem = INSTANCES[name]
    task = task_of(problem.X, delta=0.1, noise_std=problem.noise_std, epsilon=epsilon)
    path = simulate(problem, n_rounds=300, seed=5)
    states, full = (
        {label: rule.start(task) for label, rule in rules(task.arms.dim, elimination=False, full_scan=is_full).items()}
        for is_full in (False, True)
    )
    estimate = LeastSquares(task.arms.dim, np.concatenate([state.regularizers for state in states.values()]))
    for t in path.replay(estimate):
        for label, state in states.items():
            verdict, expected = state.after_pull(estimate), full[label].after_pull(estimate)
            assert verdict is not None
            assert expected is not None
            assert verdict.stopped == expected.stopped, (label, t)
            assert verdict.threshold == expected.threshold
            if verdict.stopped:
                assert (verdict.leader, verdict.rival) == (expected.leader, expected.rival)
                assert verdict.is_exact
            elif expected.leader is not None:
                assert verdict.statistic >= expected.statistic - 1e-9 * abs(expected.statistic), (label, t)


@pytest.mark.parametrize("name", list(INSTANCES))
def test_while_undecided_the_arms_are_scanned_a_handful_of_times(name: str) -> None:
    """With so much noise that 3000 rounds decide nothing, passes over the arms are rare."""
    problem = replace(INSTANCES[name], noise_std=10.0)
    path = simulate(problem, n_rounds=3000, seed=6)
    for rule, epsilon in (
        (Evidence(elimination=False), 0.0),
        (GLR(threshold="paper-appendix", c=1.0, elimination=False), 0.0),
        (Evidence(elimination=False), 0.01),
    ):
        state, estimate = begun(rule, task_of(problem.X, noise_std=10.0, epsilon=epsilon))
        for _ in path.replay(estimate):
            assert not state.after_pull(estimate).stopped
        assert state.n_scans <= 5
        assert state.n_leader_passes <= 12


@pytest.mark.parametrize(("epsilon", "noise_std"), [(0.0, 0.1), (0.2, 0.2)])
def test_scans_stay_rare_up_to_the_moment_of_stopping(epsilon: float, noise_std: float) -> None:
    """On the sphere in twenty dimensions, until the rule stops: after 6751 and 380 pulls, with ten passes or fewer."""
    problem = replace(problems.sphere(20, 2000, seed=8), noise_std=noise_std)
    path = simulate(problem, n_rounds=20_000, seed=9)
    state, estimate = begun(Evidence(elimination=False), task_of(problem.X, noise_std=noise_std, epsilon=epsilon))
    stopped_at = next(t for t in path.replay(estimate) if state.after_pull(estimate).stopped)
    assert stopped_at > 300
    assert state.n_scans + state.n_leader_passes <= 15


def test_more_arms_within_epsilon_than_the_pool_holds_is_still_exact() -> None:
    """On a dense arc the bound proves little, so scans are frequent; `spacing` thins them out and is never early."""
    problem = one_dense_arc(500)
    assert len(problem.X) > scan.POOL_SIZE
    path = simulate(problem, n_rounds=1500, seed=10)
    task = task_of(problem.X, delta=0.1, noise_std=problem.noise_std, epsilon=0.1)
    cases: dict[str, dict[str, Any]] = {
        "lazy": {"elimination": False},
        "full": {"full_scan": True},
        "spaced": {"spacing": 0.05},
    }
    stops, passes = {}, {}
    for label, options in cases.items():
        state, estimate = begun(Evidence(**options), task)
        stops[label] = next(t for t in path.replay(estimate) if state.after_pull(estimate).stopped)
        passes[label] = state.n_scans + state.n_leader_passes
    assert stops["lazy"] == stops["full"]
    assert stops["full"] <= stops["spaced"] <= 1.05 * stops["full"] + 1
    assert passes["spaced"] <= 2 * math.log(stops["spaced"]) / math.log(1.05)
    assert passes["spaced"] < passes["full"]


@pytest.mark.parametrize("preset", ["paper-main", "paper-appendix"])
@pytest.mark.parametrize("name", ["many arms, d=2", "soare, d=3", "basis, d=5", "clusters, d=4"])
def test_with_the_same_regulariser_evidence_stops_no_later_than_the_paper(name: str, preset: str) -> None:
    """On every path: one V = u c I against the preset with the same u and c."""
    problem = INSTANCES[name]
    task = task_of(problem.X, delta=0.2, noise_std=problem.noise_std)
    n_decided = 0
    for seed in range(5):
        path = simulate(problem, n_rounds=5000, seed=seed)
        first = problem.X[path.pulls[: 4 * problem.dim]]
        c = max(float(np.linalg.eigvalsh(first.T @ first)[0]), 0.1)
        paper, estimate = begun(GLR(threshold=preset, c=c, elimination=False), task)
        [V] = paper.regularizers
        evidence = Evidence(regularizer=V, mixture=Mixture.uniform(1.0), elimination=False)
        states = [evidence.start(task), paper]
        stops = [math.inf, math.inf]
        for t in path.replay(estimate):
            for i, state in enumerate(states):
                if math.isinf(stops[i]) and state.after_pull(estimate).stopped:
                    stops[i] = t
            if math.isfinite(stops[1]):
                break
        assert stops[0] <= stops[1]
        n_decided += math.isfinite(stops[1])
    # A path on which the paper's rule never stops would compare nothing.
    assert n_decided == 5


@pytest.mark.parametrize("preset", ["paper-main", "paper-appendix", "paper-remark", "heuristic"])
def test_presets_do_not_notice_the_coordinates(preset: str) -> None:
    """With the metric of a change of coordinates, rounds, statistics and thresholds are those of the raw features.

    The expected numbers are computed from the raw pulls, without any of the package's algebra.
    """
    problem = INSTANCES["clusters, d=4"]
    sigma = problem.noise_std
    R = np.triu(np.random.default_rng(12).standard_normal((4, 4))) + 2.0 * np.eye(4)
    c = 0.7 if preset != "paper-remark" else float((problem.X**2).sum(axis=1).max())
    rule = GLR(threshold=preset, c=0.7 if preset != "paper-remark" else None, elimination=False)
    view = view_of(problem.X, back=R)
    tasks = [task_of(arms, delta=0.1, noise_std=sigma) for arms in (problem.X, view)]
    (raw_state, raw), (state, mapped) = (begun(rule, task) for task in tasks)
    path = simulate(problem, n_rounds=400, seed=13)
    mapped_path = replace(path, X=view.gather(np.arange(problem.n_arms)))
    n_stopped = 0
    for t, _ in zip(path.replay(raw), mapped_path.replay(mapped), strict=True):
        verdict = state.exact(mapped)
        assert verdict.stopped == raw_state.after_pull(raw).stopped == state.after_pull(mapped).stopped
        n_stopped += verdict.stopped
        if verdict.leader is None or t % 25:
            continue
        X, r = problem.X[path.pulls[:t]], path.rewards[:t]
        A = X.T @ X
        theta = np.linalg.solve(A, X.T @ r)
        leader = int(np.argmax(problem.X @ theta))
        Y = np.unique(problem.X[leader] - problem.X, axis=0)
        Y = Y[np.abs(Y).sum(axis=1) > 0]
        Z = ((Y @ theta) ** 2 / (2.0 * sigma**2 * (Y * np.linalg.solve(A, Y.T).T).sum(axis=1))).min()
        u = {"paper-main": 1.0, "paper-appendix": 0.1}.get(preset, 1.0)
        logdet = math.log(np.linalg.det(A / (u * c) + np.eye(4)))
        beta = {
            "paper-main": 2.0 * (0.5 * logdet - math.log(0.6 / (math.pi * t) ** 2)),
            "paper-appendix": 1.1 * (0.5 * logdet - math.log(0.1)),
            "paper-remark": 2.0 * (2.0 * math.log(t) - math.log(0.1)),
            "heuristic": math.log((1.0 + math.log(t)) / 0.1),
        }[preset]
        assert verdict.statistic == pytest.approx(Z, rel=1e-6)
        assert verdict.threshold == pytest.approx(beta, rel=1e-9)
        floor = preset == "heuristic" or np.linalg.eigvalsh(A)[0] >= c
        assert verdict.stopped == (Z > beta and floor)
    assert n_stopped > 0


def test_whitened_coordinates_make_the_evidence_independent_of_the_features() -> None:
    """A linear map of the features changes neither evidence nor decisions; the paper's rule keeps its own too."""
    problem = INSTANCES["sphere, d=20"]
    rng = np.random.default_rng(30)
    T = rng.standard_normal((20, 20)) + 5.0 * np.eye(20)
    path = simulate(problem, n_rounds=400, seed=31)
    views = [whiten(FiniteArms(problem.X)), whiten(FiniteArms(problem.X @ T))]
    settings: dict[str, Any] = {"delta": 0.1, "noise_std": problem.noise_std}
    evidence = Evidence(elimination=False)
    paper = GLR(threshold="paper-appendix", c=0.5, elimination=False)
    states: list[Any] = [evidence.start(task_of(view, **settings)) for view in views]
    paper_state, _ = begun(paper, task_of(views[0], **settings))
    raw_state, raw = begun(paper, task_of(problem.X, **settings))
    V = np.concatenate([states[0].regularizers, paper_state.regularizers])
    estimates = [LeastSquares(20, V), LeastSquares(20, V)]
    rows = [view.gather(path.pulls) for view in views]
    for t in path.replay(raw):
        for estimate, white in zip(estimates, rows, strict=True):
            estimate.update(white[t - 1], float(path.rewards[t - 1]))
        assert paper_state.after_pull(estimates[0]).stopped == raw_state.after_pull(raw).stopped
        first, second = (state.after_pull(estimate) for state, estimate in zip(states, estimates, strict=True))
        assert first.stopped == second.stopped
        if t % 50 == 0:
            first, second = (state.exact(estimate) for state, estimate in zip(states, estimates, strict=True))
            assert first.statistic == pytest.approx(second.statistic, rel=1e-3)
            assert (first.leader, first.rival) == (second.leader, second.rival)
    assert first.stopped
    assert raw_state.after_pull(raw).stopped


def test_the_floor_holds_back_a_stop_and_survives_rounding() -> None:
    """No stop while lambda_min(A) < c, however large the statistic; at lambda_min(A) = c exactly, a stop."""
    for c, expected in ((3.0, True), (3.0 + 1e-6, False)):
        rule = GLR(threshold="paper-appendix", c=c)
        state, estimate = begun(rule, task_of(np.eye(2), delta=0.1))
        for _ in range(3):
            estimate.update(np.array([1.0, 0.0]), 1000.0, 0)
            estimate.update(np.array([0.0, 1.0]), 0.0, 1)
        verdict = state.after_pull(estimate)
        assert verdict.statistic > verdict.threshold
        assert verdict.stopped is expected


def test_the_loss_bound_is_the_largest_over_all_rivals() -> None:
    """Against a root finder on every pair; and the rule stops exactly when its epsilon exceeds the bound."""
    problem = INSTANCES["clusters, d=4"]
    rule, task = Evidence(elimination=False), task_of(problem.X, noise_std=0.8)
    _, estimate = begun(rule, task)
    for _ in simulate(problem, n_rounds=120, seed=3).replay(estimate):
        pass
    theta, A_inv = np.linalg.solve(estimate.A, estimate.b), np.linalg.inv(estimate.A)
    leader = int(np.argmax(problem.X @ theta))
    _, bound = largest_loss_bound(task.rows, leader, estimate.theta, estimate.A, delta=0.05, noise_std=0.8)
    roots = []
    for y in problem.X[leader] - problem.X:
        if not np.abs(y).sum() > 0:
            continue
        forms = (theta @ y, y @ A_inv @ y, y @ A_inv @ A_inv @ y, estimate.logdets)

        def excess(epsilon: float, forms: tuple = forms) -> float:
            value = log_evidence(*forms, mixture=rule.mixture, noise_std=0.8, epsilon=epsilon)
            return float(value) - math.log(20.0)

        roots.append(0.0 if excess(0.0) >= 0 else optimize.brentq(excess, 0.0, 1e3, xtol=1e-13))
    assert bound == pytest.approx(max(roots), rel=1e-7)
    for factor, expected in ((0.999, False), (1.001, True)):
        verdict = rule.start(replace(task, epsilon=factor * bound)).after_pull(estimate)
        assert verdict is not None
        assert verdict.stopped is expected


def test_verdicts_say_what_is_known() -> None:
    """Before theta exists, while it is undecided, and at a stop."""
    state, estimate = begun(Evidence(), task_of(np.eye(2)))
    estimate.update(np.array([1.0, 0.0]), 1.0)
    verdict = state.after_pull(estimate)
    assert (verdict.stopped, verdict.leader, verdict.statistic) == (False, None, 0.0)
    estimate.update(np.array([0.0, 1.0]), 0.0)
    verdict = state.after_pull(estimate)
    assert (verdict.stopped, verdict.leader, verdict.rival, verdict.is_exact) == (False, 0, 1, True)
    for _ in range(200):
        estimate.update(np.array([1.0, 0.0]), 1.0)
        estimate.update(np.array([0.0, 1.0]), 0.0)
    verdict = state.after_pull(estimate)
    assert verdict.stopped
    assert verdict.statistic >= verdict.threshold == pytest.approx(math.log(20.0))
    assert verdict.unit == "nats"


def test_looking_changes_nothing() -> None:
    """A query between checks does not count as a scan and does not alter later verdicts."""
    problem = INSTANCES["many arms, d=2"]
    rule, task = Evidence(elimination=False), task_of(problem.X, delta=0.1)
    watched, estimate = begun(rule, task)
    alone, _ = begun(rule, task)
    for _ in simulate(problem, n_rounds=300, seed=1).replay(estimate):
        watched.exact(estimate)
        assert watched.after_pull(estimate) == alone.after_pull(estimate)
    assert watched.n_scans == alone.n_scans


def test_the_pairwise_rule_is_its_formula() -> None:
    """For K = d arms that are not the basis, from the arms' own means and counts."""
    rng = np.random.default_rng(20)
    X = rng.standard_normal((4, 4)) + 2.0 * np.eye(4)
    state, estimate = begun(Pairwise(kappa=7.0), task_of(X, delta=0.1, noise_std=0.2, epsilon=0.05))
    means = np.array([1.0, 0.7, 0.4, 0.0])
    sums, counts = np.zeros(4), np.zeros(4)
    n_stopped = 0
    for t in range(400):
        arm = t if t < 4 else int(rng.integers(4))
        reward = float(means[arm] + 0.2 * rng.standard_normal())
        estimate.update(X[arm], reward, arm)
        sums[arm] += reward
        counts[arm] += 1
        verdict = state.after_pull(estimate)
        if t < 3:
            assert verdict.leader is None
            continue
        averages = sums / counts
        leader = int(np.argmax(averages))
        logs = []
        for b in range(4):
            if b != leader:
                G = [n * n / (n + 7.0) for n in (counts[leader], counts[b])]
                top = (averages[leader] - averages[b] + 0.05) ** 2 / (2.0 * 0.04 * (1 / G[0] + 1 / G[1]))
                logs.append(top - 0.5 * math.log((1 + counts[leader] / 7.0) * (1 + counts[b] / 7.0)))
        assert verdict.leader == leader
        assert verdict.statistic == pytest.approx(min(logs) - math.log(3.0), rel=1e-8, abs=1e-8)
        assert verdict.stopped == (min(logs) >= math.log(3.0 / 0.1))
        n_stopped += verdict.stopped
        assert verdict == state.exact(estimate)
    assert n_stopped > 0


def test_the_pairwise_rule_refuses_what_it_cannot_judge() -> None:
    """Pulls whose arm is not known."""
    state, estimate = begun(Pairwise(), task_of(np.eye(2)))
    estimate.update_many(np.eye(2), [0.0, 1.0])
    with pytest.raises(InvalidInput, match="arm of every pull"):
        state.after_pull(estimate)


@pytest.mark.parametrize(
    ("rule", "options", "match"),
    [
        (Pairwise(), {"arms": np.vstack([np.eye(2), [1.0, 1.0]])}, "as many arms as dimensions"),
        (Pairwise(), {"candidates": np.eye(2)}, "compares the arms themselves"),
        (Evidence(regularizer=np.eye(2)), {"noise_std": None}, "`noise_std` must be given beside"),
        (Evidence(mixture=Mixture.uniform(1.0)), {"noise_std": None}, "`noise_std` must be given beside"),
        (Evidence(spacing=0.1), {"m": 2, "arms": np.vstack([np.eye(2), [1.0, 1.0]])}, "not supported with m > 1"),
        (MixGrid(), {}, "needs a set of vectors"),
        (PerCoordinate(), {}, "is for a hypercube"),
        (PrintedSphere(), {}, "for the unit sphere"),
    ],
)
def test_a_rule_says_which_tasks_it_cannot_do(rule: Rule, options: dict[str, Any], match: str) -> None:
    """In the one place that learners ask, before anything is measured."""
    m = options.pop("m", 1)
    why = rule.unsupported(replace(task_of(options.pop("arms", np.eye(2)), **options), m=m))
    assert why is not None
    assert match in why


@pytest.mark.parametrize("name", ["betting-plain", "betting-capped"])
def test_a_name_that_is_gone_says_what_to_do(name: str) -> None:
    """Studies of before may have it in their options."""
    with pytest.raises(InvalidInput, match=r"no longer part of surepick; use 'betting'.*the version that made it"):
        as_rule(name)


def test_an_estimate_without_the_rules_regularisers_is_refused() -> None:
    """The error says how to build it."""
    estimate = LeastSquares(2)
    estimate.update_many(np.eye(2), [0.0, 1.0])
    with pytest.raises(InvalidInput, match=r"state\.regularizers"):
        Evidence().start(task_of(np.eye(2))).after_pull(estimate)


@pytest.mark.parametrize(
    ("rule", "options", "match"),
    [
        (GLR, {"threshold": "paper-main", "spacing": -0.1}, "spacing"),
        (GLR, {"threshold": "paper-main", "c": 0.0}, "`c`"),
        (GLR, {"threshold": "paper"}, "paper-main"),
        (Evidence, {"regularizer": np.eye(3)}, "regularizer"),
        (Evidence, {"regularizer": np.diag([1.0, 0.0])}, "regularizer"),
        (Evidence, {"regularizer": [[1.0, 0.5], [0.0, 1.0]]}, "regularizer"),
        (Pairwise, {"kappa": 0.0}, "kappa"),
    ],
)
def test_rules_refuse_options_they_cannot_use(rule: Callable[..., Rule], options: dict[str, Any], match: str) -> None:
    """Each error names the option."""
    with pytest.raises(InvalidInput, match=match):
        rule(**options).start(task_of(np.eye(2)))
