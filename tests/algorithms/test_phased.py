"""XY-adaptive, ALBA and explore-verify: phases, estimators and decisions against what they are said to be."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from surepick.algorithms.alba import AlbaPhases, next_level
from surepick.algorithms.explore_verify import ExploreVerifyState, scaled_directions
from surepick.algorithms.xy_adaptive import greedy_counts
from surepick.arms.finite import FiniteArms
from surepick.arms.views import whiten
from surepick.core.design import optimal_design
from surepick.core.design.solve import pairwise_design
from surepick.core.estimate import LeastSquares
from surepick.errors import InvalidInput
from surepick.learning.learner import create_learner
from surepick.sampling.base import SamplerContext
from surepick.sampling.phases import EvenlySpread, Proportions, without_idle_arms
from surepick.simulation import problems
from surepick.simulation.parallel import simulate
from surepick.simulation.problems import Problem
from surepick.types import Array
from tests.blocks import block_of
from tests.learning.lab import run
from tests.tasks import AnyLearner, interval_of, task_of


def worst_pair(X: Array, arms: list[int]) -> float:
    """The largest y'A^-1 y over all differences of rows of X, A of these pulls."""
    first, second = np.triu_indices(len(X), 1)
    Y, A = X[first] - X[second], X[arms].T @ X[arms]
    return float(np.einsum("ij,ij->i", Y, np.linalg.solve(A, Y.T).T).max())


class TestPlans:
    """Proportions and the order of pulls."""

    def test_pulls_are_spread_evenly_and_go_on_in_proportion(self) -> None:
        """Every stretch has about the right shares; asked twice as often, twice the counts."""
        pulls = EvenlySpread(np.array([3, 5, 9]), np.array([6, 3, 1]))
        order = [pulls.next() for _ in range(20)]
        assert pulls.n == 10
        assert [order[:10].count(arm) for arm in (3, 5, 9)] == [6, 3, 1]
        assert [order.count(arm) for arm in (3, 5, 9)] == [12, 6, 2]
        assert all(abs(order[:n].count(3) - 0.6 * n) <= 1.0 for n in range(21))

    @pytest.mark.parametrize("n", [3, 4, 17, 1000])
    def test_rounding_keeps_the_sum_and_every_arm(self, n: int) -> None:
        """At least one pull each, off by at most one from the share beyond that."""
        proportions = Proportions(np.arange(3), np.array([0.01, 0.29, 0.7]), 1.0)
        pulls = proportions.pulls(n)
        counts = np.bincount([pulls.next() for _ in range(pulls.n)], minlength=3)
        assert pulls.n == n
        assert (counts >= 1).all()
        assert np.abs(counts - n * proportions.weights).max() <= 2.0

    def test_idle_arms_go_where_they_are_not_needed_and_stay_where_they_are(self) -> None:
        """One pair of the basis needs two arms of five; all pairs need all."""
        arms = FiniteArms(np.eye(5))
        two = without_idle_arms(pairwise_design(arms, np.eye(5)[:2]), arms, np.eye(5)[:2], is_pairs=True)
        assert two.arms.tolist() == [0, 1]
        assert two.value == pytest.approx(4.0, rel=0.01)
        everyone = without_idle_arms(pairwise_design(arms, np.eye(5)), arms, np.eye(5), is_pairs=True)
        assert everyone.arms.tolist() == [0, 1, 2, 3, 4]


class TestXYAdaptive:
    """Greedy phases that end when the uncertainty has fallen by alpha."""

    @pytest.mark.parametrize("seed", range(4))
    def test_greedy_agrees_with_trying_every_arm(self, seed: int) -> None:
        """Random arms have no ties: the rank-one updates choose what recomputing from scratch chooses."""
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((8, 3))
        first, second = np.triu_indices(8, 1)
        Y, start, target = X[first] - X[second], np.array([0, 1, 2]), 1.0
        counts, value = greedy_counts(X, Y, start, target)
        brute, A = np.bincount(start, minlength=8), X[start].T @ X[start]
        while np.einsum("ij,ij->i", Y, np.linalg.solve(A, Y.T).T).max() > target:
            after = [np.einsum("ij,ij->i", Y, np.linalg.solve(A + np.outer(x, x), Y.T).T).max() for x in X]
            brute[np.argmin(after)] += 1
            A += np.outer(X[np.argmin(after)], X[np.argmin(after)])
        assert counts.tolist() == brute.tolist()
        assert value <= target

    @pytest.mark.parametrize("problem", [problems.unit_basis([1.0, 0.0, 0.0, 0.0, 0.0]), problems.soare(6)])
    def test_ties_do_not_trap_the_greedy_choice(self, problem: Problem) -> None:
        """On the basis no single pull lowers the maximum, so all tie; pulls must still be near the optimal design."""
        X = problem.X
        first, second = np.triu_indices(len(X), 1)
        counts, value = greedy_counts(X, X[first] - X[second], np.arange(X.shape[1]), 1e-3)
        optimum = pairwise_design(FiniteArms(X), X).value
        assert value <= 1e-3
        assert counts.sum() * value <= 1.3 * optimum

    def test_phases_end_where_the_uncertainty_has_fallen_by_alpha(self) -> None:
        """Phase 1 at alpha/(d(d+1)+1) and not much below; phase 2, nobody gone, 1/alpha times as long."""
        problem = Problem(X=problems.sphere(3, 6, seed=1).X, theta=np.zeros(3), name="all tied")
        learner = AnyLearner("xy-adaptive", problem.X, variant="paper", alpha=0.5, delta=1e-9, noise_std=1.0)
        first = interval_of(learner)
        assert 0.9 * 0.5 / 13 <= worst_pair(problem.X, first) <= 0.5 / 13
        for arm in first:
            learner.tell(arm, 0.0)
        second = interval_of(learner)
        assert len(second) == pytest.approx(2 * len(first), rel=0.1)

    def test_many_differences_are_left_to_the_certified_design(self) -> None:
        """The target is reached there as well."""
        problem = problems.sphere(3, 80, seed=2)
        learner = create_learner("xy-adaptive", problem.X, variant="paper", noise_std=1.0)
        assert worst_pair(problem.X, interval_of(learner)) <= 0.1 / 13 * (1 + 1e-9)

    def test_a_long_phase_is_planned_quickly_and_reaches_its_target(self) -> None:
        """Beyond the greedy pulls proportions go on: a target of 1e-7 takes 10^8 pulls and no time."""
        X = np.eye(4)
        first, second = np.triu_indices(4, 1)
        counts, value = greedy_counts(X, X[first] - X[second], np.arange(4), 1e-7)
        assert value <= 1e-7
        assert counts.sum() == pytest.approx(8e7, rel=0.01)

    def test_price_and_answer(self) -> None:
        """The paper's rule is named, proved and right; alpha is checked."""
        problem = problems.unit_basis([1.5, 0.0, 0.5])
        learner = create_learner("xy-adaptive", problem.X, variant="paper", delta=0.1, noise_std=1.0)
        run(learner, problem, seed=3, most=5000)
        decision = learner.decision
        assert (decision.best, decision.rule, decision.guarantee) == (0, "xy-adaptive", "proved")
        assert decision.target == pytest.approx(math.log(math.pi**2 * 9 / (3 * 0.1)))
        with pytest.raises(InvalidInput, match="alpha"):
            AnyLearner("xy-adaptive", problem.X, alpha=1.0, noise_std=1.0)


class TestAlba:
    """Levels, the estimator with the design's information, its widths, and failed pulls."""

    def test_levels_halve(self) -> None:
        """With d = 8: goals 8, 4, 2, 1; nobody waits at a goal already reached."""
        assert [next_level(0, n, 8) for n in (20, 9, 8, 5, 4, 3, 2, 1)] == [0, 0, 1, 1, 2, 2, 3, 4]
        assert next_level(2, 20, 8) == 2

    def test_lengths_and_risks_are_those_of_the_specification(self) -> None:
        """First phases of the first level, by hand, for two noise levels."""
        for noise_std in (1.0, 0.5):
            phases = AlbaPhases(task_of(np.eye(3), delta=0.1, noise_std=noise_std), bound=1.5)
            for s in (1, 2):
                phases.begin(np.arange(3))
                risk = 36 * 0.1 / (math.pi**4 * 4 * s**2)  # three arms are at most d: level 1 at once
                e, c = 4 / 1.1**s, 4 * 1.5**2 / noise_std**2
                assert phases.level == 1
                assert phases.risk == pytest.approx(risk)
                wanted = 4 * c * (2 + (6 + e) * 3) / e**2 * math.log(5 * 9 / (2 * risk))
                assert phases.n_pulls == math.ceil(wanted)
                assert phases.price == pytest.approx(math.log(2 * 9 / risk))

    def test_estimate_and_widths_against_the_formulas(self) -> None:
        """One phase, everything recomputed from the list of draws."""
        task = task_of(whiten(FiniteArms(problems.sphere(3, 10, seed=4).X)), delta=0.1)
        phases, rng = AlbaPhases(task, bound=2.0), np.random.default_rng(5)
        rows = task.arms.gather(np.arange(10))
        phases.begin(np.arange(10))
        drawn = [phases.next() for _ in range(50)]
        rewards = rng.standard_normal(50)
        best, gap, widths = phases.compared(rows, rows[drawn].T @ rewards)
        A_inv = np.linalg.inv(rows[phases.support].T @ (phases.weights[:, None] * rows[phases.support]))
        theta = A_inv @ (rows[drawn].T @ rewards) / 50
        np.testing.assert_allclose(gap, (rows @ theta).max() - rows @ theta, atol=1e-9)
        y, price = rows[best] - rows[7], phases.price
        b = 2 * 2.0 * np.abs(rows[phases.support] @ A_inv @ y).max()
        expected = (
            2.0 * math.sqrt(y @ A_inv @ y) * math.sqrt(2 * price / 50)
            + 2 * b * price / (3 * 50)
            + math.sqrt(2 * price * ((rows[drawn] @ A_inv @ y) ** 2).sum()) / 50
        )
        assert widths[7] == pytest.approx(expected, rel=1e-9)
        assert phases.is_complete(rows[drawn].T @ rows[drawn])
        assert not phases.is_complete(rows[drawn[1:]].T @ rows[drawn[1:]])

    def test_arms_left_in_a_plane_are_designed_for_there(self) -> None:
        """Two arms of R^4 span two dimensions: half of the draws each, and nothing outside is needed."""
        phases = AlbaPhases(task_of(np.eye(4), delta=0.1), bound=1.0)
        phases.begin(np.array([1, 3]))
        assert phases.basis.shape == (4, 2)
        assert phases.support.tolist() == [1, 3]
        np.testing.assert_allclose(phases.weights, 0.5, atol=1e-3)
        phases.begin(np.array([2]))
        assert phases.support.tolist() == [2]

    @pytest.mark.parametrize("share_failing", [0.0, 0.3])
    def test_the_published_variant_is_right_with_and_without_failures(self, share_failing: float) -> None:
        """Failed pulls of one arm would bias the paper's estimate; least squares takes over."""
        problem = Problem(X=np.eye(3), theta=np.array([2.0, 0.0, 1.0]), noise_std=0.5, name="easy")
        learner = AnyLearner("alba", problem.X, variant="paper", reward_bound=2.0, noise_std=0.5, seed=1)
        rng, n = np.random.default_rng(6), 0
        while not learner.stopped and n < 50_000:
            arm, n = learner.next_arms()[0], n + 1
            if arm == 0 and rng.random() < share_failing:
                learner.fail(arm)
            else:
                learner.tell(arm, float(problem.theta[arm] + 0.5 * rng.standard_normal()))
        assert learner.stopped
        assert (learner.decision.best, learner.decision.unit) == (0, "widths")

    def test_a_replay_keeps_sampler_and_rule_together(self) -> None:
        """After a replay both see the same draws, and the run goes on as it did."""
        problem = problems.unit_basis([1.0, 0.0])
        learner = AnyLearner("alba", problem.X, variant="paper", reward_bound=1.0, seed=2, noise_std=1.0)
        run(learner, problem, seed=7, most=100)
        log = learner.log
        run(learner, problem, seed=8, most=5000)
        ended = (learner.decision, dict(learner.counts))
        learner.replay(log)
        run(learner, problem, seed=8, most=5000)
        assert (learner.decision, dict(learner.counts)) == ended

    def test_what_it_cannot_know_must_be_given(self) -> None:
        """A bound on rewards, above 0; and no candidates apart from the arms."""
        for bound, words in ((None, "reward_bound"), (0.0, "above 0")):
            with pytest.raises(InvalidInput, match=words):
                AnyLearner("alba", np.eye(2), variant="paper", reward_bound=bound, noise_std=1.0)
        with pytest.raises(InvalidInput, match="practical"):
            AnyLearner("alba", np.eye(2), candidates=[[1, 1], [1, 0]], variant="paper", reward_bound=1.0, noise_std=1.0)


class TestExploreVerify:
    """The state machine, the test of the verification, and its designs."""

    def search(self, *, noise_std: float = 1.0, epsilon: float = 0.0) -> ExploreVerifyState:
        """On the basis of R^3."""
        return ExploreVerifyState(
            task_of(np.eye(3), delta=0.1, noise_std=noise_std, epsilon=epsilon), exploration_risk=0.1
        )

    def test_the_course_of_a_round(self) -> None:
        """Explore until one is left, verify, fail, explore again from scratch with the next risk, accept."""
        search, estimate = self.search(), LeastSquares(3)
        for x in np.eye(3):
            estimate.update(x, 0.0)
        clear, unclear = 1000.0 * np.array([1.0, 0.0, 0.0]), 1000.0 * np.array([1.0, 1.0, 0.0])
        search.advance(estimate, block_of(1000.0 * np.eye(3), unclear))
        assert (search.stage, search.phase, search.explored.left.tolist()) == ("explore", 2, [0, 1])
        search.advance(estimate, block_of(1000.0 * np.eye(3), clear))
        assert (search.stage, search.answer) == ("verify", 0)
        assert search.price == pytest.approx(math.log(2 / 0.1))
        search.advance(estimate, block_of(1000.0 * np.eye(3), unclear))
        assert (search.stage, search.round, search.answer, search.phase) == ("explore", 2, None, 1)
        assert search.explored.left.tolist() == [0, 1, 2]
        assert search.price == pytest.approx(math.log(8 / 0.1))
        for _ in range(2):
            assert not search.accepted
            search.advance(estimate, block_of(1000.0 * np.eye(3), clear))
        assert search.accepted

    @pytest.mark.parametrize(("factor", "passes"), [(1.001, True), (0.999, False)])
    @pytest.mark.parametrize("epsilon", [0.0, 0.2])
    def test_an_answer_passes_exactly_at_its_width(self, factor: float, passes: bool, epsilon: float) -> None:
        """The gap plus epsilon against noise_std |y| sqrt(2 log(1/delta_r)), with no number of candidates in it."""
        search = self.search(noise_std=2.0, epsilon=epsilon)
        search.stage, search.answer = "verify", 0
        n = 50.0
        gap = factor * 2.0 * math.sqrt(2.0 / n) * math.sqrt(2.0 * math.log(2 / 0.1)) - epsilon
        search.advance(LeastSquares(3), block_of(n * np.eye(3), n * np.array([gap, 0.0, -9.0])))
        assert search.accepted == passes

    def test_verification_without_results_is_no_pass(self) -> None:
        """Nothing was measured: next round."""
        search = self.search()
        search.stage, search.answer = "verify", 0
        search.advance(LeastSquares(3), block_of(np.zeros((3, 3)), np.zeros(3)))
        assert not search.accepted
        assert search.round == 2

    def test_gaps_are_cautious_and_never_near_zero(self) -> None:
        """Scaled by max(gap/2, gap - caution s, s), by hand on the basis; copies of the leader are left out."""
        view = whiten(FiniteArms([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
        estimate = LeastSquares(2)
        for x in view.gather([0, 1] * 8):
            estimate.update(x, 0.0)
        error = 0.5  # sqrt(1/8 + 1/8)
        for gap, caution, g in ((4.0, 2.0, 3.0), (4.0, 6.0, 2.0), (0.1, 2.0, error), (-3.0, 0.0, error)):
            theta = view.theta_from_user(np.array([gap, 0.0]))
            known: dict[str, Any] = {"n_pulls": 16, "n_asked": 16, "theta": theta, "estimate": estimate}
            context = SamplerContext(leaders=(0,), alive=None, pending={}, **known)
            rows = scaled_directions(task_of(view), 0, context, None, caution)
            np.testing.assert_allclose(rows @ view.back, [np.array([1.0, -1.0]) / g], atol=1e-9)

    def test_a_verification_has_the_length_and_the_design_of_the_specification(self) -> None:
        """N = noise^2 rho (sqrt(2 log(1/delta_1)) + sqrt(2 log(K/kappa)))^2 and one more pull per arm for rounding."""
        problem = problems.unit_basis([2.0, 0.0, 0.5])
        learner = create_learner("explore-verify", problem.X, variant="paper", delta=0.05, seed=3, noise_std=1.0)
        rng = np.random.default_rng(9)
        while learner.rule.search.stage == "explore":  # type: ignore[attr-defined]
            run(learner, problem, seed=rng, most=1)
        caution, estimate = math.sqrt(2 * math.log(3 / 0.1)), learner.estimate
        Y = np.array([[1.0, -1.0, 0.0], [1.0, 0.0, -1.0]])
        white = Y @ learner.task.rows.map
        gap, error = Y @ learner.theta, np.sqrt((white @ estimate.A_inv * white).sum(1))
        rows = Y / np.maximum(np.maximum(gap / 2, gap - caution * error), error)[:, None]
        rho = optimal_design(FiniteArms(problem.X), rows).value
        n = len(interval_of(learner))
        assert n == pytest.approx(rho * (math.sqrt(2 * math.log(2 / 0.05)) + caution) ** 2 + 3, rel=0.02, abs=2)

    def test_a_forecast_is_of_the_size_of_the_run(self) -> None:
        """Evidence is in nats whatever the noise: with noise_std 0.1 nobody announces a hundred times what is left."""
        problem = replace(problems.sphere(4, 20, seed=1), noise_std=0.1)
        learner = create_learner("explore-verify", problem.X, variant="paper", noise_std=0.1)
        rng, announced = np.random.default_rng(0), []
        while not learner.stopped:
            run(learner, problem, seed=rng, most=20)
            announced.append(learner.expected_remaining())
        assert learner.estimate.n_pulls < 3000
        assert 0.0 < max(filter(math.isfinite, announced)) < 3000

    def test_the_published_variant_errs_rarely_and_other_rules_may_decide(self) -> None:
        """At delta = 0.2 at most delta n = 12 errors of 60; and betting or evidence in place of the verification."""
        problem = problems.unit_basis([1.5, 0.0])
        runs = simulate(problem, "explore-verify", variant="paper", delta=0.2, n_runs=60, seed=10)
        assert runs.stopped.all()
        assert (~runs.correct).sum() <= 12
        for stopping in ("betting", "evidence", "heuristic"):
            learner = create_learner("explore-verify", problem.X, variant="paper", stopping=stopping, noise_std=1.0)
            run(learner, problem, seed=11, most=20_000)
            assert learner.decision.rule == stopping
            assert learner.decision.best == 0
            assert learner.stopped

    def test_risks_are_checked(self) -> None:
        """Strictly between 0 and 1."""
        with pytest.raises(InvalidInput, match="exploration_risk"):
            AnyLearner("explore-verify", np.eye(2), exploration_risk=0.0, noise_std=1.0)


@pytest.mark.parametrize("name", ["xy-adaptive", "alba", "explore-verify"])
def test_practical_variants_compare_candidates_that_are_no_arms(name: str) -> None:
    """Betting and evidence, from the same arms."""
    candidates = np.eye(4)[:3] + 0.3 * np.eye(4)[3]
    problem = Problem(X=np.eye(4), theta=np.array([2.0, 0.0, 0.0, 1.0]), candidates=candidates, name="apart")
    for stopping in ("betting", "evidence"):
        learner = create_learner(name, problem.X, candidates=candidates, stopping=stopping, noise_std=1.0)
        run(learner, problem, seed=12, most=5000)
        assert learner.stopped
        assert learner.decision.best == 0
