"""Noise that differs between arms: known for each, or learnt from repetitions of one plan."""

import itertools
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest

import surepick as sp
from surepick.arms.finite import FiniteArms
from surepick.arms.views import ScaledArms
from surepick.core.betting.wealth import Wealth
from surepick.core.noise import ArmVariances
from surepick.errors import InvalidInput
from surepick.learning.learner import Learner
from tests.learning.lab import plans_of

X = np.random.default_rng(5).standard_normal((12, 3))
THETA = np.array([1.0, 0.4, -0.3])
STDS = np.random.default_rng(6).uniform(0.2, 2.0, 12)
BEST = int(np.argmax(X @ THETA))


def laboratory(seed: int, X: Any = X, stds: Any = STDS) -> Callable[[int], float]:
    """Measures rows, each with its own noise."""
    rng = np.random.default_rng(seed)
    return lambda row: float(X[row] @ THETA + stds[row] * rng.standard_normal())


class TestKnown:
    """`noise_std` is a list."""

    @pytest.mark.parametrize(
        ("algorithm", "options"),
        [
            ("lazy-track-and-stop", {}),
            ("lazy-track-and-stop", {"epsilon": 0.3}),
            ("lazy-track-and-stop", {"stopping": "evidence"}),
            ("rage", {}),
            ("g-static", {}),
            ("top-two", {}),
        ],
    )
    def test_it_is_the_problem_with_divided_rows_and_rewards(self, algorithm: str, options: dict[str, Any]) -> None:
        """Rows and rewards over the noise, candidates as they are, noise_std 1: the same arms and the same answer."""
        own = sp.create_learner(algorithm, X, noise_std=STDS, **options)
        other = sp.create_learner(algorithm, X / STDS[:, None], noise_std=1.0, candidates=X, **options)
        pull = laboratory(1)
        while not own.stopped:
            (arm,) = own.next_arms()
            assert other.next_arms() == [arm]
            value = pull(arm)
            own.tell(arm, value)
            other.tell(arm, value / float(STDS[arm]))
        assert other.stopped
        assert own.decision.best == other.decision.best == BEST
        result = own.result()
        assert result.candidates is None
        theirs = other.result().candidates
        assert theirs is not None
        for name in ("estimate", "low", "high"):
            np.testing.assert_allclose(getattr(result.arms, name), getattr(theirs, name), rtol=1e-9)
        assert result.epsilon_bound == pytest.approx(other.result().epsilon_bound)

    def test_equal_numbers_are_one_number(self) -> None:
        """The same pulls and the same numbers as noise_std = 0.5 for all."""
        half = [0.5] * 12
        many, one = (sp.identify(X, laboratory(2, stds=half), noise_std=given, max_pulls=60) for given in (half, 0.5))
        assert list(many.history) == list(one.history)
        np.testing.assert_allclose(many.arms.low, one.arms.low)
        assert many.noise_std == pytest.approx(one.noise_std / 0.5)  # as a multiple of what was given

    def test_history_result_and_explanation_are_in_the_users_units(self, tmp_path: Path) -> None:
        """Raw rewards, also through a file; the noise as a multiple of what was given."""
        pulls: list[tuple[int, float]] = []
        pull = laboratory(3)

        def noted(row: int) -> float:
            pulls.append((row, pull(row)))
            return pulls[-1][1]

        result = sp.identify(X, noted, noise_std=STDS)
        assert list(result.history) == pulls
        assert "of the standard deviation given for its arm; the data say" in result.explain()
        result.save(tmp_path / "r.json")
        loaded = sp.Result.load(tmp_path / "r.json")
        assert loaded == result
        np.testing.assert_array_equal(loaded.given_noise_std, STDS)
        again = sp.identify(X, noted, noise_std=STDS, history=loaded.history)
        assert again.n_pulls == result.n_pulls
        with pytest.raises(InvalidInput, match="same arms, algorithm and options"):
            sp.identify(X, noted, noise_std=1.01 * STDS, history=loaded.history)

    def test_corrections_are_of_raw_rewards(self) -> None:
        """A learner corrected is the one told right, for arms that depend on no reward."""
        learners = [sp.create_learner("g-static", X, noise_std=STDS, delta=1e-30) for _ in range(2)]
        pull = laboratory(4)
        for n in range(40):
            value = pull(learners[0].next_arms()[0])
            for learner, told in zip(learners, (value, 5.0 if n == 7 else value), strict=True):
                arm = learner.next_arms()[0] if learner is learners[1] else learner.log[-1][1][0]
                learner.tell(arm, told)
        learners[1].correct(7, learners[0].history[7][1])
        np.testing.assert_array_equal(learners[1].theta, learners[0].theta)
        assert learners[1].decision == learners[0].decision

    def test_a_slip_is_explained_in_the_users_units(self) -> None:
        """The value that was told, beside what the others say of the arm."""
        ones = np.column_stack([np.ones(12), X])
        learner, rng = sp.create_learner("uniform", ones, noise_std=STDS, delta=1e-9), np.random.default_rng(9)
        for n in range(240):
            (arm,) = learner.next_arms()
            learner.tell(arm, 900.0 if n == 100 else float(20.0 + STDS[arm] * rng.standard_normal()))
        assert "is 900 where the others say 19.9" in learner.reader.misfit

    def test_misfits_are_explained_in_the_users_units(self) -> None:
        """A constant that is missing is named by its size."""
        learner, rng = sp.create_learner("uniform", X, noise_std=STDS, delta=1e-9), np.random.default_rng(9)
        for _ in range(600):
            (arm,) = learner.next_arms()
            learner.tell(arm, float(2.0 + X[arm] @ THETA + STDS[arm] * rng.standard_normal()))
        assert learner.reader.model_check == "contradicted"
        said = learner.reader.misfit
        assert said.startswith("A constant feature is missing: rewards are +")
        assert float(said.split("+")[1].split()[0]) == pytest.approx(2.0, abs=0.3)

    def test_too_little_noise_is_noticed(self) -> None:
        """As a multiple of what was given."""
        with pytest.warns(sp.NoiseWarning, match="times the noise_std given"):
            result = sp.identify(X, laboratory(8), noise_std=STDS / 4.0, delta=1e-9, max_pulls=200)
        assert "times the noise_std that was given for the arms" in result.explain()

    def test_large_rewards_are_refused_by_the_arm(self) -> None:
        """What one arm may say, a quieter one may not."""
        learner = sp.create_learner("g-static", X, noise_std=[1.0] * 11 + [1e-3])
        learner.tell(0, 1e8)
        with pytest.raises(InvalidInput, match=r"at most 1e\+09 times noise_std = 0.001"):
            learner.tell(11, 1e8)
        with pytest.raises(InvalidInput, match="`value` must be at most"):
            learner.correct(0, 1e10)

    @pytest.mark.parametrize(
        ("arms", "noise_std", "match"),
        [
            (X, [1.0] * 11, "one for each of 12 arms, got 11"),
            (X, [1.0] * 11 + [0.0], "above 0 for every arm.*got 0.0 for arm 11"),
            (X, [1.0] * 11 + [math.nan], "above 0 for every arm"),
            (X, ["a"] * 12, "got text"),
            (X, np.ones((12, 1)), "got shape"),
            (X, [], "got shape"),
            (sp.Sphere(3), [1.0, 1.0], "must be one number, got 2"),
        ],
    )
    def test_bad_lists_are_refused(self, arms: Any, noise_std: Any, match: str) -> None:
        """With what was needed."""
        with pytest.raises(InvalidInput, match=match):
            sp.create_learner("lazy-track-and-stop", arms, noise_std=noise_std)
        with pytest.raises(InvalidInput, match="noise_std"):
            sp.create_learner("lazy-track-and-stop", arms, noise_std=noise_std, reward_range=(0.0, 1.0))

    def test_rules_that_compare_the_arms_themselves_say_so(self) -> None:
        """Rows that are measured are not those that are compared."""
        with pytest.raises(InvalidInput, match="noise_std for each arm"):
            sp.create_learner("track-and-stop", np.eye(3), noise_std=[1.0, 1.0, 2.0])

    def test_arms_in_a_file_and_on_a_cluster(self, tmp_path: Path) -> None:
        """The same pulls from a file as from memory; on a cluster rows are divided where they are."""
        np.save(tmp_path / "arms.npy", X)
        wanted = sp.identify(X, laboratory(7), noise_std=STDS)
        found = sp.identify(sp.MappedArms(tmp_path / "arms.npy"), laboratory(7), noise_std=STDS)
        assert list(found.history) == list(wanted.history)
        options: dict[str, Any] = {"noise_std": STDS, "stopping": "evidence", "elimination": False}
        wanted = sp.identify(X, laboratory(7), **options)
        found = sp.identify(sp.DaskArms(da.from_array(X, chunks=(5, 3))), laboratory(7), **options)
        assert [arm for arm, _ in found.history] == [arm for arm, _ in wanted.history]
        assert found.best == wanted.best == BEST

    def test_copies_with_other_noise_are_other_rows_to_measure(self) -> None:
        """As candidates they stay one."""
        scaled = ScaledArms(
            sp.FiniteArms(np.eye(2)[[0, 1, 0, 0]]), lambda index, _: np.array([1.0, 1.0, 2.0, 1.0])[index]
        )
        assert scaled.copies(0).tolist() == [0, 3]
        assert scaled.copies(2).tolist() == [2]
        arms = np.eye(2)[[0, 1, 0]]
        result = sp.identify(arms, laboratory(1, arms @ np.eye(2, 3), [1.0, 1.0, 0.1]), noise_std=[1.0, 1.0, 0.1])
        assert result.best == 0
        assert result.counts[2] > result.counts.get(0, 0)


def told(learner: Learner, n: int, seed: int = 0, *, batch: int = 1, shuffled: bool = False) -> None:
    """Measure n arms in batches; with `shuffled` results come in any order, and every fifth attempt fails."""
    rng, noise = np.random.default_rng(seed), {}
    for _ in range(0, n, batch):
        asks = learner.next_asks(batch)
        order = rng.permutation(len(asks)) if shuffled else np.arange(len(asks))
        for place in order.tolist():
            ask = asks[place]
            if ask.number not in noise:
                noise[ask.number] = np.random.default_rng([seed, ask.number]).standard_normal()
                if shuffled and ask.number % 5 == 3:
                    learner.fail(ask.arm, ask=ask.number)
                    continue
            learner.tell(ask.arm, float(X[ask.arm] @ THETA + STDS[ask.arm] * noise[ask.number]), ask=ask.number)


@pytest.mark.parametrize("noise", ["per-arm", "symmetric"])
class TestLearnt:
    """noise="per-arm", and with less assumed noise="symmetric"."""

    def test_it_finds_the_best_arm_and_says_what_it_assumes(self, noise: Any, tmp_path: Path) -> None:
        """Without intervals, which would need a level; the result survives a file, and goes on from there."""
        result = sp.identify(X, laboratory(1), noise=noise)
        assert result.best == BEST
        assert result.guarantee == "proved"
        assumed = {"per-arm": "with a standard deviation of its own for each arm", "symmetric": "is symmetric around 0"}
        assert assumed[noise] in result.explain()
        assert "the model is not watched" in result.explain()
        assert np.isinf(result.arms.high).all()
        assert result.epsilon_bound == math.inf
        assert result.noise_interval == (0.0, math.inf)
        result.save(tmp_path / "r.json")
        assert sp.Result.load(tmp_path / "r.json") == result
        again = sp.identify(X, laboratory(1), noise=noise, history=result.history)
        assert (again.best, again.n_pulls) == (BEST, result.n_pulls)

    def test_every_interval_repeats_one_plan(self, noise: Any) -> None:
        """Three or four times, each time in an order of its own."""
        learner = sp.create_learner("lazy-track-and-stop", X, noise=noise, delta=1e-9)
        told(learner, 200)
        arms = list(itertools.chain.from_iterable(event[1] for event in learner.log if event[0] == "ask"))
        plans = [(plan.first, plan.length, plan.n_parts) for plan in plans_of(learner)]
        assert len(plans) > 5
        for start, length, n_parts in plans[:-1]:
            n = length // n_parts
            assert n_parts in (3, 4)
            assert n * n_parts == length
            parts = [sorted(arms[start + n * i : start + n * (i + 1)]) for i in range(n_parts)]
            assert parts == [parts[0]] * n_parts

    def test_order_and_failures_do_not_matter(self, noise: Any) -> None:
        """Repetitions are told apart by their plan: the same accounts whatever comes first or has to be repeated."""
        calm, wild = (sp.create_learner("uniform", X, noise=noise, delta=1e-12) for _ in range(2))
        told(wild, 240, batch=7, shuffled=True)
        assert any(event[0] == "fail" for event in wild.log)
        accounts = wild.state.settled.state._wealth  # type: ignore[attr-defined]
        assert accounts.n_blocks > 4
        while calm.state.settled.state._wealth.n_blocks < accounts.n_blocks:  # type: ignore[attr-defined]
            told(calm, 1)
        found = calm.state.settled.state._wealth.log_wealth(BEST)  # type: ignore[attr-defined]
        assert np.ptp(np.delete(found, BEST)) > 0.1
        np.testing.assert_allclose(found, accounts.log_wealth(BEST), rtol=1e-9)

    def test_a_void_result_takes_its_repetition_out_of_the_bets(self, noise: Any) -> None:
        """The others still have the same arms; all results but the void one go on informing later bets."""
        learner = sp.create_learner("uniform", X, noise=noise, delta=1e-9)
        told(learner, 150)
        before = learner.state.settled.state._wealth.log_wealth(BEST).copy()  # type: ignore[attr-defined]
        learner.correct(40, 3.0)
        learner.correct(40, learner.log[1 + 2 * 40 + 1][2])
        np.testing.assert_array_equal(learner.state.settled.state._wealth.log_wealth(BEST), before)  # type: ignore[attr-defined]
        learner.void(40)
        assert not np.array_equal(learner.state.settled.state._wealth.log_wealth(BEST), before)  # type: ignore[attr-defined]
        assert learner.decision.n_pulls == 149
        told(learner, 30, seed=3)

    def test_fewer_than_two_whole_repetitions_make_no_bet(self, noise: Any) -> None:
        """Void results in all repetitions but one leave nothing to judge the noise by: the block is out of the bets."""
        learner = sp.create_learner("uniform", X, noise=noise, delta=1e-9)
        while learner.state.settled.state._wealth.n_blocks < 3:  # type: ignore[attr-defined]
            told(learner, 1)
        plan = plans_of(learner)[2]
        n = plan.length // plan.n_parts
        assert plan.n_parts >= 3
        for part in range(plan.n_parts - 2):
            learner.void(plan.first + part * n)
        assert learner.state.settled.state._wealth.n_blocks == 3  # type: ignore[attr-defined]
        learner.void(plan.first + (plan.n_parts - 2) * n)
        assert learner.state.settled.state._wealth.n_blocks == 2  # type: ignore[attr-defined]

    @pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
    def test_repetitions_that_are_no_numbers_pay_nothing(self, odd: float, noise: Any) -> None:
        """Sums that overflow are no evidence: the wealth against every arm stays."""
        wealth, levels = (
            Wealth(FiniteArms(np.eye(2)), delta=0.05, noise_std=None),
            ArmVariances(2, is_symmetric=noise == "symmetric"),
        )
        rng, arms = np.random.default_rng(2), np.arange(2)
        levels.learn(np.tile(arms, 5), np.tile(np.eye(2), (5, 1)), rng.standard_normal(10))
        block = levels.block(arms, np.eye(2), rng.standard_normal((3, 2)))
        assert block.parts is not None
        wealth.settle(block)
        before = wealth.log_wealth(0).copy()
        assert np.nan_to_num(before, posinf=0.0).any()
        spoilt = np.array([odd, 0.0])
        block.parts, block.b = block.parts + spoilt, block.b + spoilt
        with np.errstate(invalid="ignore"):
            wealth.settle(block)
        np.testing.assert_array_equal(wealth.log_wealth(0), before)

    def test_unsolicited_results_inform_the_levels(self, noise: Any) -> None:
        """They are of the past of later intervals."""
        learner = sp.create_learner("lazy-track-and-stop", X, noise=noise, delta=1e-9)
        pull = laboratory(12)
        for arm in range(12):
            for _ in range(10):
                learner.tell(arm, pull(arm))
        told(learner, 60)
        assert learner.state.settled.levels is not None
        known = learner.state.settled.levels.now
        assert known is not None
        np.testing.assert_allclose(known.of(np.arange(12)), STDS, rtol=0.8)

    @pytest.mark.parametrize(
        ("options", "match"),
        [
            ({"noise": "loud"}, '"same", "per-arm", "symmetric" or "any"'),
            ({"noise_std": 1.0}, "leave out `noise_std`"),
            ({"rewards": "binary"}, "levels that are learnt"),
            ({"stopping": "evidence"}, "has no proof for stopping='evidence'"),
            ({"algorithm": "rage"}, "rage plans with it"),
        ],
    )
    def test_what_has_no_proof_is_refused(self, noise: Any, options: dict[str, Any], match: str) -> None:
        """In a sentence."""
        with pytest.raises(InvalidInput, match=match):
            sp.identify(X, laboratory(0), **{"noise": noise, **options})

    def test_an_audit_is_refused(self, noise: Any) -> None:
        """Nothing tests the model where the noise of each arm is unknown."""
        with pytest.raises(InvalidInput, match=noise):
            sp.identify(X, laboratory(0), noise=noise, audit=10)
        with pytest.raises(InvalidInput, match=noise):
            sp.identify(sp.Sphere(3), laboratory(0), noise=noise, epsilon=0.1)


def test_levels_are_learnt_and_shrunk() -> None:
    """Near the truth for arms with many results, the common level for those with none; units do not matter."""
    rng = np.random.default_rng(0)
    arms = np.repeat(np.arange(6), 200)
    rewards = X[arms] @ THETA + STDS[arms] * rng.standard_normal(len(arms))
    found: list[Any] = []
    for unit in (1.0, 1e6):
        levels = ArmVariances(3)
        assert levels.now is None
        levels.learn(arms, X[arms], unit * rewards)
        known = levels.now
        assert known is not None
        np.testing.assert_allclose(known.of(np.arange(6)), unit * STDS[:6], rtol=0.2)
        assert known.of(np.array([9])) == pytest.approx(unit * math.sqrt(float((STDS[:6] ** 2).mean())), rel=0.1)
        assert known.residuals.variance == pytest.approx(1.0, abs=0.05)
        found.append(known.of(np.arange(12)) / unit)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


def test_rewards_without_noise_have_no_level() -> None:
    """All 0: nothing to bet by."""
    levels = ArmVariances(3)
    levels.learn(np.repeat(np.arange(6), 3), X[np.repeat(np.arange(6), 3)], np.zeros(18))
    assert levels.now is None


@pytest.mark.parametrize("size", [0.3, 1.1, 7.7, 123.4])
def test_rounding_is_no_evidence_where_noise_is_only_symmetric(size: float) -> None:
    """Rewards without noise of two arms that tie differ by rounding alone; with a real lead they are told apart."""
    means = np.array([size, size, 0.3 * size])
    rows = np.linalg.qr(np.random.default_rng(4).standard_normal((3, 3)))[0]
    with pytest.warns(sp.NoiseWarning, match="steps of"):
        assert not sp.identify(rows, lambda row: float(means[row]), noise="symmetric", max_pulls=600).stopped
    means[1] *= 1.0 - 1e-6
    with pytest.warns(sp.NoiseWarning, match="cache"):
        assert sp.identify(rows, lambda row: float(means[row]), noise="symmetric", max_pulls=600).best == 0


def test_heavy_tails_are_neither_slips_nor_a_misfit_where_noise_is_only_symmetric() -> None:
    """With noise of Student's law with three degrees of freedom the default asserts nothing."""

    def result(**options: Any) -> sp.Result:
        rng = np.random.default_rng(5)
        return sp.identify(np.eye(3), lambda row: float((1.0, 0.6, 0.0)[row] + rng.standard_t(3)), **options)

    found = result(noise="symmetric")
    assert (found.best, found.guarantee) == (0, "proved")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert result().guarantee in ("doubtful", "withdrawn")
