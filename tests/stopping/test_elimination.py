"""Elimination: never later than the rule without it, valid per leader, and passed on to the sampler."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.arms.finite import FiniteArms
from surepick.arms.views import Task
from surepick.core.estimate import LeastSquares
from surepick.core.evidence import Mixture, glr, log_evidence
from surepick.simulation import problems
from surepick.stopping import GLR, Evidence
from surepick.types import Array, BoolArray
from tests.tasks import begun, task_of

RULES: dict[str, Evidence | GLR] = {
    "evidence": Evidence(),
    "heuristic": GLR(threshold="heuristic"),
    "paper-appendix": GLR(threshold="paper-appendix", c=0.5),
}


def both(rule: str, task: Task) -> tuple[list[Any], LeastSquares]:
    """The rule without and with elimination, and an estimate that both can read."""
    started = [begun(replace(RULES[rule], elimination=choice), task) for choice in (False, True)]
    return [state for state, _ in started], started[0][1]


def statistics(rule: str, X: Array, leader: int, estimate: LeastSquares) -> dict[int, float]:
    """What the leader has against every other arm."""
    index = np.delete(np.arange(len(X)), leader)
    Y = X[leader] - X[index]
    U = Y @ estimate.A_inv
    forms = Y @ estimate.theta, (U * Y).sum(axis=1), (U * U).sum(axis=1)
    if rule == "evidence":
        values = log_evidence(*forms, estimate.logdets, mixture=Mixture.default(), noise_std=1.0)
    else:
        values = glr(*forms[:2])
    return dict(zip(index.tolist(), values.tolist(), strict=True))


@pytest.mark.parametrize("rule", RULES)
def test_it_stops_no_later_and_eliminates_only_what_was_refuted(rule: str) -> None:
    """On the same results; every eliminated pair had its statistic above the threshold at some time."""
    problem = problems.sphere(3, 12, seed=4)
    task, means = task_of(problem.X, delta=0.1), problem.X @ problem.theta
    for run in range(2):
        rng = np.random.default_rng([31, run])
        states, estimate = both(rule, task)
        stopped = [0, 0]
        refuted: set[tuple[int, int]] = set()
        n_eliminated = 0
        for t in range(1, 6000):
            arm = int(rng.integers(12))
            estimate.update(problem.X[arm], float(means[arm] + rng.standard_normal()), arm)
            for i, state in enumerate(states):
                if not stopped[i]:
                    stopped[i] = t * state.after_pull(estimate).stopped
            if estimate.has_theta:
                verdict = states[0].exact(estimate)
                leader, limit = verdict.leader, verdict.threshold * (1 - 1e-12)
                values = statistics(rule, problem.X, leader, estimate)
                refuted |= {(leader, j) for j, value in values.items() if value >= limit}
                if not stopped[1]:
                    alive = states[1].alive(leader)
                    if alive is not None:
                        n_eliminated += 1
                        assert {(leader, int(j)) for j in np.flatnonzero(~alive) if j != leader} <= refuted
            if all(stopped):
                break
        # Passes are spaced by five percent, so "no later" holds up to that.
        assert 0 < stopped[1] <= 1.05 * stopped[0] + 1
        assert n_eliminated > 0


@pytest.mark.parametrize("rule", RULES)
def test_what_was_refuted_once_need_not_be_refuted_again(rule: str) -> None:
    """Arm 1 is refuted early and then has a lucky streak: the rule without elimination has to wait for it."""
    states, estimate = both(rule, task_of(np.eye(3), delta=0.1))
    rewards = [(arm, value) for _ in range(60) for arm, value in ((0, 2.0), (1, 0.0), (2, 1.9))]
    rewards += [(1, 4.0)] * 50  # its mean rises to 1.8
    rewards += [(2, 0.0)] * 300
    stopped = []
    for arm, value in rewards:
        estimate.update(np.eye(3)[arm], value, arm)
        stopped.append([state.after_pull(estimate).stopped for state in states])
    assert not any(first for first, _ in stopped)
    assert stopped[-1][1]  # and it stays so, although arm 1 would not be refuted now


def test_between_passes_the_arms_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """400 checks among 3,000 arms look up the leader, O(K d), only as often as they pass over the rivals."""
    problem = problems.sphere(3, 3000, seed=4)
    means = problem.X @ problem.theta
    thetas, whole = [], FiniteArms.best

    def best(self: FiniteArms, theta: Array, among: BoolArray | None = None) -> int:
        thetas.append(theta)
        return whole(self, theta, among)

    monkeypatch.setattr(FiniteArms, "best", best)
    state, estimate = begun(Evidence(elimination=True), task_of(problem.X, delta=0.1))
    rng = np.random.default_rng(8)
    for _ in range(400):
        arm = int(rng.integers(3000))
        estimate.update(problem.X[arm], float(means[arm] + rng.standard_normal()), arm)
        state.after_pull(estimate)
    assert len(thetas) == state.n_scans
    assert 20 < state.n_scans < 150


def test_the_designs_leave_out_what_is_eliminated() -> None:
    """With elimination the sampler's alternatives shrink, and it costs no more pulls on many gaps of different size."""
    problem = problems.unit_basis([1.0, 0.6, 0.2, -0.5, -1.0, -1.5])
    plain, eliminating = (
        sp.simulate(problem, n_runs=10, seed=3, stopping="evidence", elimination=elimination)
        for elimination in (False, True)
    )
    assert eliminating.n_errors == 0
    assert eliminating.mean <= plain.mean + 2.0 * plain.se


def test_looking_decides_nothing() -> None:
    """Whoever reads `decision` after every pull gets the same run; leaders change all the time with so much slack."""
    problem = problems.sphere(3, 60, seed=4)
    for seed in range(12):
        ends = []
        for is_read in (False, True):
            rng = np.random.default_rng([5, seed])
            learner = sp.create_learner(
                "lazy-track-and-stop", problem.X, delta=0.1, epsilon=0.6, stopping="evidence", seed=seed, noise_std=1.0
            )
            while not learner.stopped:
                arm = learner.next_arms(1)[0]
                learner.tell(arm, float(problem.X[arm] @ problem.theta + rng.standard_normal()))
                if is_read and not learner.stopped:
                    assert not learner.decision.stopped
            ends.append((learner.decision.n_pulls, learner.decision.best, learner.decision.evidence))
        assert ends[0] == ends[1]


def test_the_evidence_shown_counts_the_refuted_with_what_refuted_them() -> None:
    """At the stop and before: the smallest over the rivals of the largest that was seen in a pass when they fell."""
    problem = problems.unit_basis([1.0, 0.6, 0.2, -0.5, -1.0, -1.5])
    n_below = 0
    for run in range(10):
        rng = np.random.default_rng([9, run])
        state, estimate = begun(Evidence(elimination=True), task_of(problem.X, delta=0.1))
        fallen: dict[tuple[int, int], float] = {}
        while True:
            left = state.alive(state.leader(estimate)) if estimate.has_theta else None
            arm = int(rng.choice(6 if left is None else [*np.flatnonzero(left), state.leader(estimate)]))
            estimate.update(problem.X[arm], float(problem.theta[arm] + rng.standard_normal()), arm)
            verdict = state.after_pull(estimate)
            if not verdict.is_exact or verdict.leader is None:
                continue
            leader = verdict.leader
            values = statistics("evidence", problem.X, leader, estimate)
            shown = [
                fallen.setdefault((leader, j), v) if v >= verdict.threshold else fallen.get((leader, j), v)
                for j, v in values.items()
            ]
            assert verdict.statistic == pytest.approx(min(shown), rel=1e-9)
            if verdict.stopped:
                n_below += min(values.values()) < verdict.threshold
                break
        assert verdict.statistic >= verdict.threshold
    assert n_below > 0  # what elimination is for: not all are refuted at the same time


def test_passes_wait_for_the_floor() -> None:
    """While the floor on A forbids to stop, nothing can be refuted: a check does not look at the arms."""
    problem = problems.unit_basis([5.0, 0.0])
    rule = GLR(threshold="paper-appendix", c=1e6, elimination=True)
    state, estimate = begun(rule, task_of(problem.X, delta=0.1))
    for t in range(400):
        estimate.update(problem.X[t % 2], float(problem.theta[t % 2]), t % 2)
        assert not state.after_pull(estimate).stopped
    assert state.n_scans < 100


@pytest.mark.parametrize("elimination", [True, False])
@pytest.mark.parametrize("is_glr", [True, False])
def test_rows_too_close_to_compare_are_no_evidence(is_glr: bool, elimination: bool) -> None:
    """Squares of a difference of 1e-170 vanish: such a row is never refuted, unless it cannot lose epsilon."""
    X = np.array([[1.0, 0.0], [1.0, 1e-170], [0.0, 1.0]])
    for epsilon in (0.0, 0.3):
        rule = GLR(threshold="log-t", elimination=elimination) if is_glr else Evidence(elimination=elimination)
        state, estimate = begun(rule, task_of(X, delta=0.1, epsilon=epsilon))
        rng = np.random.default_rng(1)
        stopped = False
        for t in range(400):
            estimate.update(X[2 * (t % 2)], float(X[2 * (t % 2)] @ [2.0, 0.0] + rng.standard_normal()))
            stopped = stopped or state.after_pull(estimate).stopped
        assert stopped == (epsilon > 0.0)


def test_options_of_plain_scans_are_refused() -> None:
    """Passes have a spacing of their own."""
    with pytest.raises(sp.InvalidInput, match="full_scan"):
        Evidence(elimination=True, full_scan=True).start(task_of(np.eye(2)))


def test_the_pairwise_rule_does_not_offer_it() -> None:
    """Said at once, with the rules that do."""
    with pytest.raises(sp.errors.InvalidInput, match="evidence"):
        sp.create_learner("lazy-track-and-stop", np.eye(3), stopping="pairwise", elimination=True, noise_std=1.0)
