"""Elimination: never later than the rule without it, valid per leader, and passed on to the sampler."""

from collections.abc import Callable

import numpy as np
import pytest

import surepick as sp
from surepick.core.estimate import LeastSquares
from surepick.core.finite_arms import FiniteArms
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
        sp.simulate(problem, n_runs=20, seed=3, stopping="evidence", elimination=elimination)
        for elimination in (False, True)
    )
    assert eliminating.n_errors == 0
    assert eliminating.mean <= plain.mean + 2.0 * plain.se


def test_the_pairwise_rule_does_not_offer_it() -> None:
    """Said at once, with the rules that do."""
    with pytest.raises(sp.errors.InvalidInput, match="evidence"):
        sp.create_learner("lazy-track-and-stop", np.eye(3), stopping="pairwise", elimination=True)
