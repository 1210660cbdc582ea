"""Means that are nearly linear: the `misfit` that is allowed for, and the margin of an answer."""

import itertools
import math
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

import surepick as sp
from benchmarks.bet_variants import PLAIN, CappedBetting, PlainBetting, log_bet
from surepick.arms.finite import FiniteArms
from surepick.core.betting.block import Block
from surepick.core.betting.wealth import Wealth
from surepick.errors import InvalidInput
from surepick.learning.result import blocks_of
from surepick.simulation import problems
from surepick.stopping.betting import Betting, Replay
from surepick.types import Array

SIGNS = np.array(list(itertools.product([-1.0, 1.0], repeat=3)))
FACTORS = np.column_stack([np.ones(8), SIGNS])
MAIN = FACTORS @ [0.0, 0.9, 0.7, 0.5]
BENT = MAIN - 0.2 * SIGNS[:, 0] * SIGNS[:, 1]
"""Off its linear fit by 0.2 everywhere; the best arm stays the best."""


def lab(means: Array, seed: int, noise_std: float = 1.0) -> Callable[[int], float]:
    """Return a laboratory that measures these means with normal noise."""
    rng = np.random.default_rng(seed)
    return lambda arm: float(means[arm] + noise_std * rng.standard_normal())


def learnt(seed: int = 0, means: Array = MAIN, **options: Any) -> sp.Learner:
    """Return a learner that has stopped."""
    learner, pull = sp.create_learner("lazy-track-and-stop", FACTORS, **options), lab(means, seed)
    while not learner.stopped:
        (arm,) = learner.next_arms()
        learner.tell(arm, pull(arm))
    return learner


def replay_of(learner: sp.Learner) -> Replay:
    """Return the bets of a learner."""
    assert isinstance(learner.rule, Betting)
    return learner.rule.start(learner.task).replay(blocks_of(learner)())


X = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.6]])


def block_of(counts: list[int], theta: list[float], theta0: list[float], off: Any = (0.0, 0.0, 0.0)) -> Block:
    """Return a block without noise, its means off their linear fit by so much."""
    arms = np.repeat(np.arange(3), counts)
    means = X @ theta + np.asarray(off)
    return Block.of(X[arms], means[arms], np.array(theta0), np.eye(2) / 10.0, arms=arms)


def accounts(**options: Any) -> Wealth:
    """Return fresh accounts of three arms in the plane, with bets in closed form."""
    return Wealth(FiniteArms(X), delta=0.05, noise_std=1.0, sizes=PLAIN, weighs_arms=True, **options)


class TestMargin:
    """`Replay` and `Result.misfit_margin`."""

    def test_one_block_by_hand(self) -> None:
        """The margin is where the worst rival's bet, its bias taken off, pays the price; true misfit eats it up."""
        counts, theta = np.array([50, 30, 40]), [1.0, -0.5]
        A_inv = np.linalg.inv((X.T * counts) @ X)

        def weights(b: int) -> Array:
            C: Array = counts * (X @ A_inv @ (X[0] - X[b]))
            return C

        def bias(b: int) -> float:
            return float(np.abs(weights(b) - np.eye(3)[0] + np.eye(3)[b]).sum())

        def missing(eta: float, b: int) -> float:
            y = X[0] - X[b]
            won = log_bet(y @ theta - eta * bias(b), y @ A_inv @ y, y @ [1.0, -0.4], y @ y / 10.0)
            return float(won) - math.log(20)

        roots = {b: float(brentq(missing, 0.0, 5.0, args=(b,))) for b in (1, 2)}
        worst = min(roots, key=roots.__getitem__)
        for eta in (0.0, 0.03, 0.06):
            off = -eta * np.sign(weights(worst))
            replay = Replay(accounts(), [block_of(counts.tolist(), theta, [1.0, -0.4], off)])
            left = roots[worst] - eta * np.abs(weights(worst)).sum() / bias(worst)
            assert replay.answer == 0
            assert replay.margin(0.5) == pytest.approx(left, abs=1e-3)

    def test_bets_go_on_against_arms_that_are_rejected(self) -> None:
        """A second block adds to what the verdict bears, although the first has rejected everyone."""
        blocks = [block_of([50, 30, 40], [1.0, -0.5], [1.0, -0.4]), block_of([100, 60, 80], [1.0, -0.5], [1.0, -0.5])]
        alone, both = (Replay(accounts(), blocks[:n]).margin(0.5) for n in (1, 2))
        assert alone is not None
        assert both is not None
        assert both > 1.3 * alone

    @pytest.mark.parametrize(
        ("stopping", "noise_std"),
        [("betting", 1.0), ("betting", None), (PlainBetting(), 1.0), (CappedBetting(), 1.0)],
        ids=["shrunk", "shrunk, unknown noise", "plain", "capped"],
    )
    def test_without_misfit_the_replay_is_the_verdict(self, stopping: Any, noise_std: float | None) -> None:
        """The same answer; it stands up to the margin and not beyond."""
        learner = learnt(3, noise_std=noise_std, stopping=stopping)
        replay, result = replay_of(learner), learner.result()
        margin = result.misfit_margin
        assert replay.answer == result.best
        assert margin is not None
        assert [replay.stands(eta) for eta in (0.0, margin, margin + 2e-3)] == [True, True, False]

    def test_arms_with_equal_features_are_one_arm(self) -> None:
        """Copies of leaders and rivals have no say; the answer has a margin all the same."""
        rows, means = np.vstack([FACTORS, FACTORS[[7, 6, 7]]]), np.append(MAIN, MAIN[[7, 6, 7]])
        for misfit in (0.0, 0.05):
            result = sp.identify(rows, lab(means, 3), noise_std=1.0, misfit=misfit)
            assert result.best == 7
            assert result.misfit_margin is not None
            assert misfit <= result.misfit_margin < 1.0

    def test_every_account_is_replayed_to_the_bit(self) -> None:
        """At no misfit, until the rule rejects its candidate."""
        problem = problems.sphere(4, 30, seed=2)
        learner, pull = sp.create_learner("lazy-track-and-stop", problem.X), lab(problem.X @ problem.theta, 1)
        while not learner.stopped:
            (arm,) = learner.next_arms()
            learner.tell(arm, pull(arm))
        live, wealth = (
            Wealth(learner.task.rivals, delta=0.05, level=learner.task.rows.level, weighs_arms=weighs)
            for weighs in (False, True)
        )
        log_wealth = np.zeros(30)
        for block in blocks_of(learner)():
            is_left = live.log_wealth(0) < live.log_price
            is_left[0] = live.log_wealth(1)[0] < live.log_price
            for placed in wealth.placed_on(block):
                log_wealth[placed.index] += placed.log_returns(0.0)
            for accounts_of in (live, wealth):
                accounts_of.settle(block)
            found = live.log_wealth(0)
            found[0] = live.log_wealth(1)[0]
            np.testing.assert_array_equal(log_wealth[is_left], found[is_left])
        assert live.answer == wealth.answer == learner.decision.best

    def test_clicks_have_a_margin_too(self) -> None:
        """Rewards of 0 and 1."""
        rng, rates = np.random.default_rng(4), 0.5 + 0.2 * MAIN
        result = sp.identify(FACTORS, lambda arm: bool(rng.random() < rates[arm]), rewards="binary", seed=1)
        assert result.misfit_margin is not None
        assert 0.0 < result.misfit_margin < 0.2

    def test_check_pulls_add_to_it(self) -> None:
        """They are blocks like any other, fixed before their results."""
        results = [sp.identify(FACTORS, lab(MAIN, 5), noise_std=1.0, audit=n) for n in (0, 400)]
        before, after = (result.misfit_margin for result in results)
        assert before is not None
        assert after is not None
        assert after > before + 0.02

    def test_it_is_of_the_moment_of_the_result(self) -> None:
        """Whatever the learner is told later; and asking for it leaves the learner alone."""
        learner = learnt(6, noise_std=1.0)
        result, log = learner.result(), learner.log
        for arm in learner.next_arms(3):
            learner.tell(arm, 50.0)
        learner.void(0)
        assert result.misfit_margin == learnt(6, noise_std=1.0).result().misfit_margin
        assert learner.log[: len(log)] == log

    def test_it_is_said_and_kept(self, tmp_path: Path) -> None:
        """In words, in a file, and in a pickle."""
        result = sp.identify(FACTORS, lab(MAIN, 7))
        margin = result.misfit_margin
        assert margin is not None
        assert (
            f"The answer stands if no arm's mean is off its linear fit by more than {margin:.3g}." in result.explain()
        )
        result.save(tmp_path / "result.json")
        for other in (sp.Result.load(tmp_path / "result.json"), pickle.loads(pickle.dumps(result))):
            assert other.misfit_margin == margin
            assert other == result

    def test_arms_without_a_model_bear_anything(self) -> None:
        """As many arms as features: each is compared by its own pulls, and nothing is said of a margin."""
        problem = problems.unit_basis([1.0, 0.0])
        result = sp.identify(problem.X, lab(problem.X @ problem.theta, 8), noise_std=1.0)
        assert result.misfit_margin == math.inf
        assert "off its linear fit" not in result.explain()

    @pytest.mark.parametrize(
        "options",
        [
            {"epsilon": 0.5},
            {"stopping": "evidence"},
            {"candidates": FACTORS[:4]},
            {"model": "unstructured"},
            {"max_pulls": 20},
            {"history": [(arm, mean) for arm, mean in enumerate(MAIN)] * 40, "earlier": "evidence"},
        ],
    )
    def test_there_is_none(self, options: dict[str, Any]) -> None:
        """With slack, by other rules, for other candidates, without a model, an answer, or own pulls to rest on."""
        result = sp.identify(FACTORS, lab(MAIN, 9), noise_std=1.0, **options)
        assert result.misfit_margin is None
        assert "off its linear fit" not in result.explain()

    def test_a_table_that_does_not_fit_into_memory_has_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Arms times bets are counted first."""
        monkeypatch.setattr("surepick.learning.result.MOST_NUMBERS", 100)
        result = learnt(1, noise_std=1.0).result()
        assert result.misfit_margin is None
        assert "off its linear fit" not in result.explain()


class TestAllowed:
    """`misfit` given."""

    @pytest.mark.parametrize("noise_std", [1.0, None])
    def test_it_costs_pulls_and_is_borne(self, noise_std: float | None) -> None:
        """More pulls than without; the margin is at least what was allowed for."""
        plain, careful = (learnt(2, noise_std=noise_std, misfit=misfit).result() for misfit in (0.0, 0.1))
        assert careful.n_pulls > plain.n_pulls
        assert careful.misfit_margin is not None
        assert careful.misfit_margin >= 0.1
        assert "the mean reward of every arm is within 0.1 of one that is linear" in careful.explain()
        assert np.isinf(careful.arms.high).all()
        assert careful.epsilon_bound == math.inf

    def test_with_slack_and_for_clicks(self) -> None:
        """Both rest on the same bias; slack makes up for misfit."""
        rng, rates = np.random.default_rng(4), 0.5 + 0.2 * MAIN
        clicks = sp.identify(FACTORS, lambda arm: bool(rng.random() < rates[arm]), rewards="binary", misfit=0.02)
        slack = sp.identify(FACTORS, lab(MAIN, 4), noise_std=1.0, misfit=0.1, epsilon=0.5)
        assert (clicks.best, clicks.stopped) == (slack.best, slack.stopped) == (7, True)

    def test_an_alarm_withdraws_nothing(self) -> None:
        """That means are not exactly linear was known; it is reported, without a warning."""
        with warnings.catch_warnings():
            warnings.simplefilter("error", sp.ModelWarning)
            result = sp.identify(FACTORS, lab(BENT, 3), misfit=0.2, audit=1500, epsilon=0.5)
        assert (result.best, result.model_check, result.guarantee) == (7, "contradicted", "proved")
        assert "an exactly linear mean, as was allowed for. Fits worst" in result.explain()

    def test_misfit_is_not_taken_for_noise(self) -> None:
        """Residuals of up to misfit sqrt(n) are allowed for; without that they contradict a small noise_std."""
        said = []
        for misfit in (0.0, 0.2):
            learner, pull = sp.create_learner("uniform", FACTORS, noise_std=0.1, misfit=misfit), lab(BENT, 3, 0.1)
            for arm in learner.next_arms(80):
                learner.tell(arm, pull(arm))
            said.append(learner.reader.noise_contradicted)
        assert said == [True, False]

    def test_what_it_hides_is_said(self) -> None:
        """The lead over three neighbours is below what an allowed misfit of 0.9 can do."""
        result = sp.identify(FACTORS, lab(MAIN, 3), noise_std=1.0, misfit=0.9, max_pulls=300)
        assert not result.stopped
        assert result.n_undecidable > 0
        assert result.expected_remaining == math.inf
        assert "The allowed misfit of 0.9 could be all of its lead over" in result.explain()

    def test_earlier_results_are_no_start(self) -> None:
        """Their evidence rests on means that are exactly linear."""
        history = [(arm, mean) for arm, mean in enumerate(MAIN)] * 40
        told: dict[str, Any] = {"noise_std": 1.0, "history": history, "earlier": "evidence"}
        assert sp.identify(FACTORS, lab(MAIN, 1), **told).n_pulls == len(history)
        assert sp.identify(FACTORS, lab(MAIN, 1), **told, misfit=0.05).n_pulls > len(history)

    def test_a_log_belongs_to_its_misfit(self) -> None:
        """A learner that allows for another misfit refuses it; the same one goes through it."""
        learner = learnt(2, noise_std=1.0, misfit=0.05)
        again = sp.create_learner("lazy-track-and-stop", FACTORS, noise_std=1.0, misfit=0.05)
        again.replay(learner.log)
        assert again.decision == learner.decision
        with pytest.raises(InvalidInput, match=r"misfit=0\.05"):
            sp.create_learner("lazy-track-and-stop", FACTORS, noise_std=1.0).replay(learner.log)

    @pytest.mark.parametrize(
        ("options", "why"),
        [
            ({"misfit": -0.1}, "at least 0"),
            ({"misfit": math.nan}, "finite"),
            ({"stopping": "evidence"}, "no proof for means that are not linear"),
            ({"candidates": FACTORS[:4]}, "beside `candidates`"),
            ({"model": "unstructured"}, "its own fit"),
            ({"arms": sp.Sphere(3)}, "list of arms"),
        ],
    )
    def test_what_has_no_proof_is_refused(self, options: dict[str, Any], why: str) -> None:
        """In one sentence, before anything is measured."""
        given: dict[str, Any] = {"arms": FACTORS, "misfit": 0.1, "noise_std": 1.0} | options
        with pytest.raises(InvalidInput, match=why):
            sp.create_learner("lazy-track-and-stop", **given)
