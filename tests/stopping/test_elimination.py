"""Elimination: never later than the rule without it, valid per leader, and passed on to the sampler."""

from collections.abc import Callable

import numpy as np
import pytest

import surepick as sp
from surepick.arms.finite import FiniteArms
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import Array, BoolArray
from surepick.rules.stopping import EvidenceRule, GLRRule
from surepick.simulation import problems

RULES: dict[str, Callable[..., EvidenceRule | GLRRule]] = {
    "evidence": lambda *, elimination: EvidenceRule(delta=0.1, elimination=elimination),
    "heuristic": lambda *, elimination: GLRRule(threshold="heuristic", delta=0.1, elimination=elimination),
    "paper-appendix": lambda *, elimination: GLRRule(
        threshold="paper-appendix", delta=0.1, c=0.5, elimination=elimination
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_it_stops_no_later_and_eliminates_only_what_was_refuted(rule: str) -> None:
    """On the same results; every eliminated pair had its statistic above the threshold at some time."""
    problem = problems.sphere(3, 12, seed=4)
    arms, means = FiniteArms(problem.X), problem.X @ problem.theta
    for run in range(4):
        rng = np.random.default_rng([31, run])
        plain, eliminating = (RULES[rule](elimination=choice) for choice in (False, True))
        estimate = LeastSquares(3, plain.regularizers(3))
        states = plain.start(arms), eliminating.start(arms)
        stopped = [0, 0]
        refuted: set[tuple[int, int]] = set()
        n_eliminated = 0
        for t in range(1, 6000):
            arm = int(rng.integers(12))
            estimate.update(problem.X[arm], float(means[arm] + rng.standard_normal()), arm)
            for i, state in enumerate(states):
                if not stopped[i]:
                    verdict = state.check(estimate)
                    stopped[i] = t * verdict.stopped
            if estimate.has_theta:
                leader = arms.best(estimate.theta)
                test = states[0]._test
                limit = test.threshold(estimate)
                refuted |= {
                    (leader, j)
                    for j in range(12)
                    if j != leader and test.pair(estimate, problem.X[leader] - problem.X[j]) >= limit * (1 - 1e-12)
                }
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
    arms = FiniteArms(np.eye(3))
    plain, eliminating = (RULES[rule](elimination=choice) for choice in (False, True))
    estimate = LeastSquares(3, plain.regularizers(3))
    states = plain.start(arms), eliminating.start(arms)
    rewards = [(arm, value) for _ in range(60) for arm, value in ((0, 2.0), (1, 0.0), (2, 1.9))]
    rewards += [(1, 4.0)] * 50  # its mean rises to 1.8
    rewards += [(2, 0.0)] * 300
    stopped = []
    for arm, value in rewards:
        estimate.update(np.eye(3)[arm], value, arm)
        stopped.append([state.check(estimate).stopped for state in states])
    assert not any(first for first, _ in stopped)
    assert stopped[-1][1]  # and it stays so, although arm 1 would not be refuted now


def test_between_passes_the_arms_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """400 checks among 3,000 arms look up the leader, O(K d), only as often as they pass over the rivals."""
    problem = problems.sphere(3, 3000, seed=4)
    arms, means = FiniteArms(problem.X), problem.X @ problem.theta
    thetas, whole = [], FiniteArms.best

    def best(self: FiniteArms, theta: Array, among: BoolArray | None = None) -> int:
        thetas.append(theta)
        return whole(self, theta, among)

    monkeypatch.setattr(FiniteArms, "best", best)
    rule = EvidenceRule(delta=0.1, elimination=True)
    estimate, state = LeastSquares(3, rule.regularizers(3)), rule.start(arms)
    rng = np.random.default_rng(8)
    for _ in range(400):
        arm = int(rng.integers(3000))
        estimate.update(problem.X[arm], float(means[arm] + rng.standard_normal()), arm)
        state.check(estimate)
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
                "lazy-track-and-stop", problem.X, delta=0.1, epsilon=0.6, stopping="evidence", seed=seed
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
    arms = FiniteArms(problem.X)
    n_below = 0
    for run in range(10):
        rng = np.random.default_rng([9, run])
        rule = EvidenceRule(delta=0.1, elimination=True)
        estimate, state = LeastSquares(6, rule.regularizers(6)), rule.start(arms)
        fallen: dict[tuple[int, int], float] = {}
        while True:
            left = state.alive(arms.best(estimate.theta)) if estimate.has_theta else None
            arm = int(rng.choice(6 if left is None else [*np.flatnonzero(left), arms.best(estimate.theta)]))
            estimate.update(problem.X[arm], float(problem.theta[arm] + rng.standard_normal()), arm)
            verdict = state.check(estimate)
            if not verdict.is_exact or verdict.leader is None:
                continue
            leader, test = verdict.leader, state._test
            values = {j: test.pair(estimate, problem.X[leader] - problem.X[j]) for j in range(6) if j != leader}
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
    rule = GLRRule(threshold="paper-appendix", delta=0.1, c=1e6, elimination=True)
    estimate = LeastSquares(2, rule.regularizers(2))
    state = rule.start(FiniteArms(problem.X))
    for t in range(400):
        estimate.update(problem.X[t % 2], float(problem.theta[t % 2]), t % 2)
        assert not state.check(estimate).stopped
    assert state.n_scans < 100


@pytest.mark.parametrize("elimination", [True, False])
@pytest.mark.parametrize("is_glr", [True, False])
def test_rows_too_close_to_compare_are_no_evidence(is_glr: bool, elimination: bool) -> None:
    """Squares of a difference of 1e-170 vanish: such a row is never refuted, unless it cannot lose epsilon."""
    X = np.array([[1.0, 0.0], [1.0, 1e-170], [0.0, 1.0]])
    for epsilon in (0.0, 0.3):
        rule: EvidenceRule | GLRRule = EvidenceRule(delta=0.1, epsilon=epsilon, elimination=elimination)
        if is_glr:
            rule = GLRRule(threshold="log-t", delta=0.1, epsilon=epsilon, elimination=elimination)
        estimate = LeastSquares(2, rule.regularizers(2))
        state = rule.start(FiniteArms(X))
        rng = np.random.default_rng(1)
        stopped = False
        for t in range(400):
            estimate.update(X[2 * (t % 2)], float(X[2 * (t % 2)] @ [2.0, 0.0] + rng.standard_normal()))
            stopped = stopped or state.check(estimate).stopped
        assert stopped == (epsilon > 0.0)


def test_options_of_plain_scans_are_refused() -> None:
    """Passes have a spacing of their own."""
    with pytest.raises(sp.InvalidInput, match="full_scan"):
        EvidenceRule(delta=0.1, elimination=True, full_scan=True).start(FiniteArms(np.eye(2)))


def test_the_pairwise_rule_does_not_offer_it() -> None:
    """Said at once, with the rules that do."""
    with pytest.raises(sp.errors.InvalidInput, match="evidence"):
        sp.create_learner("lazy-track-and-stop", np.eye(3), stopping="pairwise", elimination=True)
