"""identify when something goes wrong: lost and failed measurements, interruption, noise that is not as given."""

import itertools
import math
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from surepick.arms.finite import FiniteArms
from surepick.arms.mapped import MappedArms
from surepick.core.estimate import LeastSquares
from surepick.core.noise import noise_evidence
from surepick.errors import ModelWarning, NoiseWarning, PullFailed, Skipped, SurepickError
from surepick.learning.identify import Progress, identify
from surepick.learning.learner import Learner
from surepick.learning.questions import binary_words
from surepick.learning.reader import Reader
from surepick.learning.result import Result
from tests.learning.lab import NAMES, THETA, RunSettings, X, after, never, raising


def test_failed_measurement_loses_nothing() -> None:
    """An exception in `pull` comes back as its cause, with the arm and all that was learnt, ready to go on."""
    lab = RunSettings()
    cause = OSError("the balance does not answer")
    with pytest.raises(PullFailed, match=r"raised OSError .the balance does not answer. for arm") as caught:
        identify(FiniteArms(X, names=NAMES), after(9, raising(cause), lab), noise_std=0.5)
    error = caught.value
    assert isinstance(error, SurepickError)
    assert error.__cause__ is cause
    assert f"arm {error.arm} ({NAMES[error.arm]})" in str(error)  # type: ignore[call-overload]
    assert isinstance(error.result, Result)
    assert error.result.n_pulls == 9
    assert not error.result.stopped
    assert [arm for arm, _ in error.result.history] == lab.pulled
    assert identify(X, lab, noise_std=0.5, history=error.result.history).best == 2


def test_failure_of_the_first_measurement() -> None:
    """Even before anything is known the error carries a result that can be shown and saved."""
    with pytest.raises(PullFailed) as caught:
        identify(X, after(0, raising(RuntimeError("off")), RunSettings()), noise_std=1.0)
    assert caught.value.result.n_pulls == 0
    assert "No leader yet: 0 pulls" in caught.value.result.explain()


def test_failure_survives_being_sent_between_processes() -> None:
    """The error can be pickled, result included."""
    with pytest.raises(PullFailed) as caught:
        identify(X, after(5, raising(RuntimeError("off")), RunSettings()), noise_std=1.0)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    assert copy.arm == caught.value.arm
    assert copy.result == caught.value.result


@pytest.mark.parametrize("value", [math.nan, -math.inf, None, "0.7", True, [0.7], np.array([0.7]), 1j, pd.NA, 10**400])
def test_reward_that_is_no_finite_number_is_refused(value: Any) -> None:
    """Whatever is not one finite number ends the experiment with what was learnt before."""
    with pytest.raises(PullFailed, match="must return one finite number but returned") as caught:
        identify(X, after(4, lambda: value, RunSettings()), noise_std=0.5)
    assert caught.value.result.n_pulls == 4


@pytest.mark.parametrize("convert", [np.float64, np.float32, np.array, pd.Series([1.0]).dtype.type])
def test_reward_may_be_any_real_number(convert: Callable[[float], Any]) -> None:
    """NumPy scalars and zero-dimensional arrays are numbers too, and are kept as plain floats."""
    lab = RunSettings()
    result = identify(X, lambda arm: convert(lab(arm)), noise_std=0.5)
    assert result.best == 2
    assert all(type(reward) is float for _, reward in result.history)
    assert identify(X, lambda arm: round(lab(arm)), noise_std=0.8, max_pulls=3).n_pulls == 3


def test_failing_callback_loses_nothing() -> None:
    """An exception in `on_pull` is reported as such, and the pull it followed is kept."""

    def draw(progress: Progress) -> None:
        if progress.n_pulls == 5:
            raise KeyError("axes")

    with pytest.raises(PullFailed, match="`on_pull` must not raise but raised KeyError") as caught:
        identify(X, RunSettings(), noise_std=0.5, on_pull=draw)
    assert caught.value.result.n_pulls == 5


def test_interruption_returns_what_was_learnt(tmp_path: Path) -> None:
    """Ctrl-C during a measurement returns the result so far, equal to that of a budget of as many pulls."""
    result = identify(X, after(11, raising(KeyboardInterrupt()), RunSettings()), noise_std=0.5)
    assert result.interrupted
    assert not result.stopped
    assert result.n_pulls == 11
    assert result.explain().startswith("Interrupted after 11 pulls. ")
    budget = identify(X, RunSettings(), noise_std=0.5, max_pulls=11)
    assert result.to_dict() | {"interrupted": False} == budget.to_dict()
    result.save(tmp_path / "so-far.json")
    assert Result.load(tmp_path / "so-far.json") == result


def test_interruption_of_the_callback_returns_what_was_learnt() -> None:
    """Ctrl-C while a plot is being drawn keeps the pull it was drawn for."""

    def draw(progress: Progress) -> None:
        if progress.n_pulls == 5:
            raise KeyboardInterrupt

    result = identify(X, RunSettings(), noise_std=0.5, on_pull=draw)
    assert result.interrupted
    assert result.n_pulls == 5


@pytest.mark.parametrize("where", ["before", "within", "after"])
def test_interruption_inside_the_algorithm_leaves_a_sound_state(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of an update, which leaves it half done, neither loses the reward nor counts it twice."""
    whole = LeastSquares.update
    left = [11]

    def cut_off(self: LeastSquares, x: Any, reward: float, arm: int | None = None) -> None:
        left[0] -= arm is not None  # else it is what was known before a block that grows
        if left[0] != 0 or arm is None:
            whole(self, x, reward, arm)
            return
        if where == "within":
            self._sums += 7.0
            self._n_pulls += 1
        elif where == "after":
            whole(self, x, reward, arm)
        raise KeyboardInterrupt

    monkeypatch.setattr(LeastSquares, "update", cut_off)
    lab = RunSettings()
    result = identify(X, lab, noise_std=0.5)
    monkeypatch.undo()
    assert result.interrupted
    assert result.n_pulls == len(lab.pulled) >= 11  # results are settled when a block ends
    budget = identify(X, RunSettings(), noise_std=0.5, max_pulls=len(lab.pulled))
    assert result.to_dict() | {"interrupted": False} == budget.to_dict()


def test_interruption_on_the_way_into_the_algorithm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C after a reward is measured and before the learner has heard of it keeps the reward."""
    tell = Learner.tell
    left = [11]

    def cut_off(self: Learner, arm: int, reward: float, **said: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        tell(self, arm, reward, **said)

    monkeypatch.setattr(Learner, "tell", cut_off)
    result = identify(X, RunSettings(), noise_std=0.5)
    monkeypatch.undo()
    budget = identify(X, RunSettings(), noise_std=0.5, max_pulls=11)
    assert result.to_dict() | {"interrupted": False} == budget.to_dict()


def test_interruption_while_the_result_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C after the last pull does not lose the answer; pressed again, it ends the program."""
    bound = Reader._epsilon_bound
    left = [1]

    def slow(self: Reader) -> float:
        left[0] -= 1
        if left[0] >= 0:
            raise KeyboardInterrupt
        return bound(self)

    monkeypatch.setattr(Reader, "_epsilon_bound", slow)
    result = identify(X, RunSettings(), noise_std=0.5)
    assert result.stopped
    assert result.interrupted
    left[0] = 2
    with pytest.raises(KeyboardInterrupt):
        identify(X, RunSettings(), noise_std=0.5)


def test_exit_is_not_swallowed() -> None:
    """What is meant to end the program does."""
    with pytest.raises(SystemExit):
        identify(X, after(3, raising(SystemExit(3)), RunSettings()), noise_std=1.0)


def test_a_lost_measurement_is_left_out_and_the_run_goes_on() -> None:
    """`pull` raising `Skipped` counts as a pull but gives no reward, and the answer is still found."""
    bench, calls = RunSettings(seed=3), 0

    def sometimes(arm: int) -> float:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            raise Skipped
        return bench(arm)

    result = identify(X, sometimes, noise_std=0.5)
    assert result.stopped
    assert result.best == int(np.argmax(X @ THETA))
    assert result.n_pulls == calls - calls // 3


@pytest.mark.parametrize("seed", range(10))
def test_noise_that_is_too_large_is_noticed(seed: int) -> None:
    """Noise of three times `noise_std` is reported once, with both numbers, and the result no longer claims anything.

    The rule cannot stop before 64 pulls at so small a risk; by then the check misses with probability below 1e-8.
    """
    with pytest.warns(NoiseWarning, match=r"noise_std = 0.5 was given.*delta = 1e-100 is not guaranteed") as caught:
        result = identify(X, RunSettings(seed=seed, noise_std=1.5), noise_std=0.5, delta=1e-100, max_pulls=70)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert result.noise_contradicted
    assert result.guarantee == "withdrawn"
    assert "No answer can be defended" in result.explain()
    assert result.noise_std == pytest.approx(1.5, rel=0.5)


def test_noise_of_history_is_checked_before_the_first_pull() -> None:
    """Earlier rewards that contradict `noise_std` are reported even if nothing is measured."""
    lab = RunSettings(noise_std=1.5)
    with pytest.warns(NoiseWarning, match="from 64 pulls") as caught:
        identify(X, never, noise_std=0.5, history=[(arm, lab(arm)) for arm in [0, 1, 2, 3] * 16], max_pulls=0)
    assert caught[0].filename == __file__


def test_noise_is_checked_at_the_end_as_well() -> None:
    """Between powers of two nothing is looked at, so the last pulls are checked when the result is made."""
    seen: list[Progress] = []
    with pytest.warns(NoiseWarning, match="from 63 pulls") as caught:
        identify(
            X,
            lambda arm: X[arm] @ THETA + 20.0 * (len(seen) == 60),
            delta=1e-100,
            max_pulls=63,
            on_pull=seen.append,
            noise_std=1.0,
        )
    assert caught[0].filename == __file__


def test_rewards_that_are_not_linear_are_noticed() -> None:
    """A reward that no linear model describes shows as scatter as well, though there is no noise at all."""
    with pytest.warns(NoiseWarning, match="not linear in the features"):
        identify(
            X, lambda arm: [3.0, -3.0, 5.0, 8.0][arm], noise_std=0.5, history=[(a, a % 2 * 9.0) for a in range(4)] * 9
        )


@pytest.mark.statistical
def test_noise_as_given_raises_no_alarm() -> None:
    """24 runs with the right `noise_std`, normal or two-valued noise: no warning.

    A warning fails the test; if the check is what it claims to be, that happens with probability below 1e-4.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoiseWarning)
        for run in range(12):
            assert not identify(X, RunSettings(seed=run), noise_std=0.5).noise_contradicted
            coin = RunSettings(seed=run, noise_std=0.0)
            result = identify(X, lambda arm, lab=coin: lab(arm) + float(lab.rng.choice([-0.5, 0.5])), noise_std=0.5)  # type: ignore[misc]
            assert not result.noise_contradicted


@pytest.mark.parametrize("n_pulls", [1, 2, 7, 40])
def test_noise_evidence_is_an_e_value(n_pulls: int) -> None:
    """With normal noise of exactly `noise_std` its exponential has mean one at every number of pulls."""

    def weighed(x: float) -> float:
        return math.exp(noise_evidence(x, n_pulls) + float(stats.chi2.logpdf(x, n_pulls)))

    pieces = [0.0, 1.0, 10.0, 100.0, 1000.0, 10_000.0]
    mean = sum(integrate.quad(weighed, low, high, limit=200)[0] for low, high in itertools.pairwise(pieces))
    assert mean == pytest.approx(1.0, abs=1e-6)


def test_noise_evidence_finds_twice_the_variance_in_a_hundred_pulls() -> None:
    """The check is not vacuous: scatter of 1.5 and 2 times the variance is called out after 500 and 120 pulls."""
    assert noise_evidence(1.5 * 500, 500) > math.log(1e6)
    assert noise_evidence(2.0 * 120, 120) > math.log(1e6)
    assert noise_evidence(1.0 * 10_000, 10_000) < 0.0


def test_warning_made_an_error_loses_nothing() -> None:
    """Where warnings are errors, the error carries what was learnt."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoiseWarning)
        with pytest.raises(PullFailed, match="scatter") as caught:
            identify(X, RunSettings(noise_std=5.0), noise_std=0.5, delta=1e-100)
    assert isinstance(caught.value.__cause__, NoiseWarning)
    assert caught.value.arm is not None
    assert caught.value.result.noise_contradicted
    assert caught.value.result.n_pulls in (4, 8, 16, 32, 64), "the check is made at powers of two"


def test_arms_that_vanish_under_way_do_not_take_the_rewards_with_them(tmp_path: Path) -> None:
    """A mapped file is replaced by one of another shape during the 30th measurement: what was paid for stays."""
    path = tmp_path / "arms.npy"
    np.save(path, np.random.default_rng(3).standard_normal((50, 3)))
    n_pulled = itertools.count(1)

    def pull(_arm: int) -> float:
        if next(n_pulled) == 30:
            path.unlink()
            np.save(path, np.eye(2))
        return 0.0

    with pytest.raises(PullFailed) as failure:
        identify(MappedArms(path), pull, noise_std=1.0)
    result = failure.value.result
    assert len(result.history) >= 30
    assert sum(result.counts.values()) == len(result.history)
    result.save(tmp_path / "result.json")
    assert Result.load(tmp_path / "result.json").history == result.history


@pytest.mark.parametrize("stopping", ["betting", "evidence"])
def test_a_number_too_large_to_be_a_reward_is_refused_and_forgotten(stopping: Any) -> None:
    """Such as the largest double, which some instruments write for a missing value."""
    lab = RunSettings()
    n_pulled = itertools.count(1)
    with pytest.raises(PullFailed, match="noise_std") as failure:
        identify(
            X, lambda arm: 1.7e308 if next(n_pulled) == 10 else lab(arm), stopping=stopping, delta=1e-9, noise_std=1.0
        )
    result = failure.value.result
    assert len(result.history) == result.n_pulls == 9
    assert result.theta is not None
    assert np.isfinite(result.theta).all()


def test_measurements_that_are_always_skipped_come_to_an_end() -> None:
    """A lab that delivers nothing is an error after a thousand in a row, not an endless loop."""

    def nothing(_arm: int) -> float:
        raise Skipped

    with pytest.raises(PullFailed, match="1,000 measurements in a row were skipped"):
        identify(X, nothing, noise_std=1.0)


def test_any_kind_of_false_from_the_callback_ends_the_run() -> None:
    """Comparisons of arrays give NumPy's own."""
    result = identify(
        X, RunSettings(), on_pull=lambda progress: np.bool_(progress.n_pulls < 7), delta=1e-9, noise_std=1.0
    )
    assert result.n_pulls == 7


@pytest.mark.parametrize("value", [True, np.False_])
def test_a_boolean_reward_is_refused_with_the_option_for_pass_or_fail(value: bool) -> None:
    """The first measurement says so; with the option it counts as 0 or 1."""
    with pytest.raises(PullFailed, match='this looks like pass/fail: use rewards="binary"'):
        identify(np.eye(3), lambda _arm: value)
    assert identify(np.eye(3), lambda _arm: value, rewards="binary", max_pulls=2).n_pulls == 2


def test_rewards_of_0_and_1_alone_are_pointed_out_once() -> None:
    """Under the default noise; grades, rewards with bounds and few results are none of that."""
    rng = np.random.default_rng(0)

    def click(arm: int) -> float:
        return float(rng.random() < (0.9, 0.5, 0.4)[arm])

    with pytest.warns(NoiseWarning) as caught:
        identify(np.eye(3), click, max_pulls=200)
    assert [str(one.message) for one in caught] == [binary_words('rewards="binary"')]
    identify(np.eye(3), click, max_pulls=9)
    identify(np.eye(3), click, max_pulls=60, rewards="binary")
    rows, values = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.7], [-0.5, 0.9]]), iter([0.0, 1.0] * 5)
    with pytest.warns(ModelWarning), pytest.warns(NoiseWarning, match="pass/fail"):  # after 8 and after 10
        bent = identify(rows, lambda _arm: next(values), max_pulls=10)
    assert bent.guarantee == "withdrawn"
    assert bent.explain().endswith('the rewards are all 0 or 1, so their noise is not normal: use rewards="binary".')
    identify(np.eye(3), lambda arm: 2.0 * click(arm) + click(arm), max_pulls=60)
