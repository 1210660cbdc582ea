"""Methods that plan for a budget: phases, designs, answers, and how often they are wrong."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

import surepick as sp
from surepick.algorithms.gse import sizes_of
from surepick.algorithms.od_linbai import n_phases_of, pulls_of_phase
from surepick.core.phased_error import PhaseOf, phased_error_bound, static_error_bound
from surepick.errors import InvalidInput
from surepick.learning.learner import Learner, create_learner
from surepick.simulation import problems
from surepick.simulation.problems import Problem
from surepick.stopping.phases import Phase
from surepick.testing import check_algorithm
from surepick.types import Array

NAMES = sp.algorithms.names(fixed_budget=True)
PHASED = ("gse", "lin-halving", "od-linbai", "peace")
PULLS_CANDIDATES = ("bayes-gap", "gse", "od-linbai")
FALSE_ALARM = 1e-6
VARIANTS = ("practical", "paper")


def learner_on(name: str, problem: Problem, budget: int | None = 240, **options: Any) -> Learner:
    """A learner of this method with a budget."""
    given = {"noise_std": 1.0, "candidates": problem.candidates, "goal": "fixed-budget"} | options
    return create_learner(name, problem.X, budget=budget, **given)


def blocks_of(learner: Learner, problem: Problem, seed: int) -> list[list[int]]:
    """Pull until the budget is spent or the method has its answer; the arms of every block in row order."""
    means, blocks = problem.X @ problem.theta, list[list[int]]()
    while not learner.stopped:
        block = learner.next_arms()
        block += learner.next_arms(learner.n_planned) if learner.n_planned else []
        if not block:
            break
        noise = np.random.default_rng([seed, len(blocks)]).standard_normal(len(problem.X))
        # One mean for each arm and block: it does not matter in which order its pulls are made.
        for arm in block:
            learner.tell(arm, float(means[arm] + noise[arm] / math.sqrt(block.count(arm))))
        blocks.append(sorted(block))
    return blocks


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", NAMES)
def test_the_contract_of_all_algorithms_is_kept(name: str, variant: str) -> None:
    """Arms, seeds, batches, blocks, failures, replays, the budget, and the answer at its end."""
    algorithm, _ = sp.algorithms.as_algorithm(name, {"variant": variant})
    check_algorithm(algorithm, budget=400)


def test_the_contract_finds_a_method_that_answers_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that keeps the worst candidates."""
    value = Phase.__init__

    def upside_down(self: Phase, rows: Array, block: Any) -> None:
        value(self, rows, block)
        self.value = -self.value

    monkeypatch.setattr(Phase, "__init__", upside_down)
    with pytest.raises(AssertionError, match="the answer"):
        check_algorithm(sp.algorithms.GSE(variant="paper"), budget=400)


@pytest.mark.parametrize("name", NAMES)
def test_without_a_budget_it_says_what_to_do(name: str) -> None:
    """In one sentence; and a budget that is too small names the smallest."""
    with pytest.raises(InvalidInput, match=r"`budget` must be given to .* budget=1000, goal="):
        sp.identify(np.eye(3), float, algorithm=name, noise_std=1.0)
    with pytest.raises(InvalidInput, match="`budget` must be at least"):
        learner_on(name, problems.sphere(4, 20, seed=1), budget=3)


@pytest.mark.parametrize("name", PULLS_CANDIDATES)
def test_a_method_that_pulls_what_it_compares_refuses_candidates(name: str) -> None:
    """Linear halving and Peace take them."""
    tilted = problems.transductive(2)
    with pytest.raises(InvalidInput, match="pulls the arms that it compares"):
        learner_on(name, tilted)
    for other in ("lin-halving", "p1-rage", "peace"):
        for variant in VARIANTS:
            easy = Problem(X=tilted.X, theta=np.array([9.0, 0.0, -9.0, 0.0]), candidates=tilted.candidates, name="easy")
            learner = learner_on(other, easy, variant=variant)
            blocks_of(learner, easy, seed=1)
            assert learner.decision.best == 0


def test_phases_of_od_linbai() -> None:
    """m(1000, K = 50, d = 5) = 326.667 in three phases that keep 3, 2 and 1; one feature has one phase."""
    assert pulls_of_phase(1000, 50, 5) == pytest.approx(326.667, abs=1e-3)
    assert [n_phases_of(d) for d in (1, 2, 3, 4, 5, 8, 9)] == [1, 1, 2, 2, 3, 3, 4]
    problem = problems.sphere(5, 50, seed=4)
    learner = learner_on("od-linbai", problem, budget=1000, variant="paper")
    blocks = blocks_of(learner, problem, seed=3)
    assert [len({*block}) for block in blocks[1:]] == [3, 2]
    assert sum(map(len, blocks)) <= 1000
    # ceil(w_i m) of each arm of the support, whose size is at most d (d + 1)/2.
    assert all(326.667 <= len(block) < 326.667 + most for block, most in zip(blocks, (15, 3, 2), strict=True))
    scalar = Problem(X=np.array([[0.2], [1.0], [-0.5]]), theta=np.array([1.0]), name="d = 1")
    single = learner_on("od-linbai", scalar, budget=40, variant="paper")
    assert len(blocks_of(single, scalar, seed=1)) == 1
    assert single.decision.best == 1


def test_phases_of_gse_and_halving() -> None:
    """K = 50 keeps 25, 13, 7, 4, 2 and 1; all pulls are made, the remainder in the last phase."""
    assert sizes_of(50) == [25, 13, 7, 4, 2, 1]
    assert sizes_of(50, 3) == [17, 6, 2, 1]
    problem = problems.sphere(5, 50, seed=4)
    for name in ("gse", "lin-halving"):
        learner = learner_on(name, problem, budget=1000, variant="paper")
        blocks = blocks_of(learner, problem, seed=3)
        assert [len(block) for block in blocks] == [166] * 5 + [170]
        assert (learner.stopped, learner.decision.guarantee, learner.decision.rule) == (True, "none", name)
    thirds = learner_on("gse", problem, budget=1000, variant="paper", eta=3)
    assert [len(block) for block in blocks_of(thirds, problem, seed=3)] == [250] * 4


def test_without_features_halving_is_sequential_halving() -> None:
    """Equal pulls of the arms left in each phase; and so is GSE."""
    basis = problems.unit_basis([1.0, 0.8, 0.6, 0.4, 0.2, 0.1, 0.0, -0.2])
    for name in ("lin-halving", "gse"):
        learner = learner_on(name, basis, budget=240, variant="paper")
        blocks = blocks_of(learner, basis, seed=2)
        left = np.arange(8)
        for phase, block in enumerate(blocks):
            counts = np.bincount(block, minlength=8)
            assert {*np.flatnonzero(counts)} == {*left}
            assert counts[left].max() - counts[left].min() <= 1
            noise = np.random.default_rng([2, phase]).standard_normal(8)
            means = basis.theta + noise / np.sqrt(np.maximum(counts, 1))
            left = np.sort(left[np.argsort(-means[left])[: len(left) // 2]])
        assert learner.decision.best == int(left[0])


def test_cumulative_halving_uses_all_results() -> None:
    """The answer is then the best estimate of all results among the last two."""
    problem = problems.sphere(3, 8, seed=5)
    learner = learner_on("lin-halving", problem, variant="paper", cumulative=True)
    blocks_of(learner, problem, seed=9)
    fresh = learner_on("lin-halving", problem, variant="paper")
    assert learner.rule.cumulative is True  # type: ignore[attr-defined]
    assert fresh.rule.cumulative is False  # type: ignore[attr-defined]
    assert learner.decision.best == int(np.argmax(problem.X @ learner.theta))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", NAMES)
def test_the_order_and_the_units_of_arms_change_nothing(name: str, variant: str) -> None:
    """Permuted rows and features in other coordinates give the same answer after as many pulls."""
    problem = problems.sphere(3, 9, seed=6)
    order = np.random.default_rng(1).permutation(9)
    mixing = np.random.default_rng(2).standard_normal((3, 3)) * [1.0, 30.0, 0.1]
    theta = np.linalg.solve(mixing, problem.theta).astype(np.float64)
    others = {"mapped": (problem.X @ mixing, theta, np.arange(9))}
    if (name, variant) != ("p1-rage", "paper"):  # whose draws go by row numbers
        others["permuted"] = problem.X[order], problem.theta, order
    answers = {}
    for label, (X, theta, rows) in {"plain": (problem.X, problem.theta, np.arange(9)), **others}.items():
        learner = learner_on(
            name, Problem(X=X, theta=theta, name=label), budget=300, variant=variant, edition=1, seed=4
        )
        means = 3.0 * X @ theta
        while not learner.stopped and (arms := learner.next_arms()):
            learner.tell(arms[0], float(means[arms[0]]))
        answers[label] = int(rows[learner.decision.best]), learner.decision.n_pulls
    assert len({*answers.values()}) == 1, answers
    assert answers["plain"][0] == problem.best


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", NAMES)
def test_simulations_spend_at_most_the_budget_and_count_every_answer(name: str, variant: str) -> None:
    """An answer counts whether it is proved or not; practical variants make all pulls."""
    arms = problems.sphere(3, 12, seed=3)
    problem = Problem(X=arms.X, theta=4.0 * arms.X[0], name="clear")
    options: dict[str, Any] = {"budget": 61, "goal": "fixed-budget", "variant": variant, "n_jobs": 1}
    runs = sp.simulate(problem, name, n_runs=12, seed=0, **options)
    assert runs.n_pulls.max() <= 61
    assert runs.stopped.all()
    assert runs.n_errors == 12 - runs.correct.sum()
    assert runs.n_errors <= 2
    if variant == "practical":
        assert (runs.n_pulls == 61).all()
    hopeless = sp.simulate(
        Problem(X=problem.X, theta=1e-9 * problem.theta, name="hopeless"), name, n_runs=12, seed=0, **options
    )
    assert hopeless.n_errors >= 6


@pytest.mark.parametrize("name", ["lazy-track-and-stop", "g-static", "uniform"])
def test_simulations_of_other_samplers_count_the_picks_of_a_spent_budget(name: str) -> None:
    """Unproved picks are answers to a fixed budget, and none where the goal is confidence."""
    problem = problems.sphere(3, 12, seed=3)
    spent = sp.simulate(problem, name, n_runs=6, seed=0, budget=60, goal="fixed-budget", delta=1e-9, n_jobs=1)
    assert (spent.n_unfinished, spent.n_pulls.tolist()) == (0, [60] * 6)
    open_ = sp.simulate(problem, name, n_runs=6, seed=0, budget=60, delta=1e-9, n_jobs=1)
    assert open_.n_unfinished == 6


def test_a_whole_block_at_once_changes_no_run() -> None:
    """A simulation asks for the rest of a block at once; single asks give the same pulls and answers."""
    problem = problems.sphere(3, 12, seed=3)
    for name in PHASED:
        runs = sp.simulate(problem, name, n_runs=3, seed=1, budget=90, goal="fixed-budget", n_jobs=1)
        for run in range(3):
            seeds = sp.simulation.run.run_seeds(1, run)
            learner = learner_on(name, problem, budget=90, seed=seeds.learner)
            rng, means = np.random.default_rng(seeds.noise), problem.X @ problem.theta
            while not learner.stopped and (arms := learner.next_arms()):
                learner.tell(arms[0], float(means[arms[0]]) + float(rng.standard_normal()))
            assert learner.decision.n_pulls == runs.n_pulls[run]
            assert (learner.decision.best == problem.best) == runs.correct[run]


def test_what_is_proved_stands_beside_the_answer() -> None:
    """Practical: survivors, p-value and bound of the betting rule. Paper: no guarantee."""
    arms = problems.sphere(3, 8, seed=5)
    problem = Problem(X=arms.X, theta=3.0 * arms.theta, name="clear")
    found = []
    for variant in VARIANTS:
        learner = learner_on("lin-halving", problem, budget=200, variant=variant)
        blocks_of(learner, problem, seed=3)
        found.append(learner.result())
    ours, theirs = found
    assert (ours.rule, ours.n_pulls) == ("betting", 200)
    assert 0.0 <= ours.p_value <= 1.0
    assert math.isnan(theirs.p_value)
    assert ours.epsilon_bound < math.inf
    assert (theirs.rule, theirs.guarantee, theirs.stopped) == ("lin-halving", "none", True)
    assert "without any guarantee (lin-halving rule)" in theirs.explain()


# ---- the bound on dropping the best


HALVED = problems.unit_basis([1.0, 0.0, 0.0, 0.0])
N_EACH = 12
"""Pulls of each arm in the first of two phases, with twice as many of each in the second."""
PHASES = [PhaseOf(4, 2, 2.0 / N_EACH), PhaseOf(2, 1, 1.0 / N_EACH)]


def wrong_answers(name: str, noise_std: float, n_runs: int = 400) -> int:
    """Wrong answers of a phased method on a basis, where the noise is this."""
    problem = Problem(X=HALVED.X, theta=HALVED.theta, noise_std=noise_std, name="halved")
    options: dict[str, Any] = {"budget": 8 * N_EACH, "goal": "fixed-budget", "variant": "paper", "n_jobs": 1}
    return sp.simulate(problem, name, n_runs=n_runs, seed=8, **options).n_errors


@pytest.mark.parametrize("name", ["lin-halving", "gse", "od-linbai"])
def test_the_bound_is_kept(name: str) -> None:
    """Wrong answers in 400 runs, against the exact binomial limit of the bound (false alarm 1e-6)."""
    phases = PHASES
    if name == "od-linbai":  # 12 and 23 pulls of each arm left: ceil(m/4) and ceil(m/2)
        m = pulls_of_phase(8 * N_EACH, 4, 4)
        phases = [PhaseOf(n, n // 2, 2.0 / math.ceil(m / n)) for n in (4, 2)]
    bound = phased_error_bound(HALVED.gaps, phases)
    assert 0.05 < bound < 0.12
    most = int(binom.isf(FALSE_ALARM, 400, bound))
    assert wrong_answers(name, 1.0) <= most
    # Noise that is three times larger than the bound is told exceeds it by far.
    assert wrong_answers(name, 3.0) > most


def test_the_bound_is_the_sum_of_the_proof() -> None:
    """Over phases the mean of the tails, of the closest candidates, by how many are kept; at most 1."""
    tails = [math.exp(-(gap**2) / (2.0 * 4.0 * 0.1)) for gap in (0.5, 0.7, 0.9)]
    found = phased_error_bound([0.9, 0.0, 0.5, 0.7], [(4, 2, 0.1), (2, 1, 0.1)], noise_std=2.0)
    assert found == pytest.approx(min(1.0, sum(tails) / 2 + tails[0]))
    assert phased_error_bound([0.0, 0.3], [(2, 1, 0.01)]) == pytest.approx(math.exp(-4.5))
    with pytest.raises(InvalidInput, match="`gaps` must be at least 0"):
        phased_error_bound([-1.0, 1.0], [(2, 1, 0.1)])


@pytest.mark.parametrize(("means", "factor"), [([0.4, 0.0], 1.0), ([0.5, 0.0, 0.0, 0.2], 2.0)])
def test_errors_of_pulls_fixed_in_advance(means: list[float], factor: float) -> None:
    """Exact for two candidates, at most the bound for more, and by far more where the noise is larger than told.

    100 runs, and the exact binomial limits of the bound (false alarm 1e-3).
    """
    n, n_runs = len(means), 100
    plain = problems.unit_basis(means)
    bound = static_error_bound(plain.gaps, np.full(n, 2.0 / 30))
    wrong = []
    for noise_std in (1.0, 3.0):
        problem = Problem(X=plain.X, theta=plain.theta, noise_std=noise_std, name="fixed")
        options: dict[str, Any] = {"budget": 30 * n, "goal": "fixed-budget", "noise_std": 1.0, "n_jobs": 1}
        wrong.append(sp.simulate(problem, "uniform", n_runs=n_runs, seed=9, **options).n_errors)
    least, most = binom.ppf(1e-3, n_runs, bound / factor), binom.isf(1e-3, n_runs, bound)
    assert least <= wrong[0] <= most < wrong[1]


def test_the_bound_for_fixed_pulls_is_a_sum_of_tails() -> None:
    """With the noise; impossible numbers are refused."""
    found = static_error_bound([0.0, 0.5, 1.0], [0.0, 0.1, 0.2], noise_std=2.0)
    assert found == pytest.approx(np.sum(norm.cdf([-0.25 / 0.1**0.5, -0.5 / 0.2**0.5])))
    with pytest.raises(InvalidInput, match="`gaps` must be at least 0"):
        static_error_bound([-1.0, 0.0], [1.0, 1.0])
    with pytest.raises(InvalidInput, match="`variances` must be above 0"):
        static_error_bound([0.0, 1.0], [0.0, 0.0])
