"""identify: answers, bad arguments, history, budgets and callbacks."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import surepick as sp
from surepick.arms.finite import FiniteArms
from surepick.arms.tables.read import read_arms
from surepick.core.design.solve import as_candidates
from surepick.errors import ArmsDoNotSpan, InvalidInput, Skipped
from surepick.learning.identify import Progress, identify
from surepick.learning.result import Result
from tests.learning.lab import NAMES, THETA, RunSettings, X, never


def test_best_arm_is_found_and_described() -> None:
    """A plain call returns the best arm with everything that belongs to the answer."""
    lab = RunSettings()
    result = identify(X, lab, delta=0.05, noise_std=0.5)
    assert result.best == 2
    assert result.best_name is None
    assert result.stopped
    assert not result.interrupted
    assert result.guarantee == "proved"
    assert result.stopping == "betting"
    assert result.evidence >= result.target == pytest.approx(math.log(20.0))
    assert result.n_pulls == len(lab.pulled) == sum(result.counts.values()) == len(result.history)
    assert [arm for arm, _ in result.history] == lab.pulled
    assert result.counts == {arm: lab.pulled.count(arm) for arm in set(lab.pulled)}
    assert result.expected_remaining == 0.0
    assert not result.noise_contradicted
    assert (result.delta, result.epsilon, result.given_noise_std, result.seed) == (0.05, 0.0, 0.5, 0)
    assert result.algorithm == "lazy-track-and-stop"
    assert "Arm 2 is the best of 4 arms" in result.explain()


@pytest.mark.parametrize("stopping", ["betting", "evidence", "heuristic", "mix-grid"])
def test_without_a_leader_there_is_no_evidence(stopping: Any) -> None:
    """Before the pulled arms span, a rule says nothing: no answer, evidence zero, all of the target to go."""
    arms: Any = sp.Hypercube(2) if stopping == "mix-grid" else X
    result = identify(arms, lambda _: 5.0, noise_std=0.5, max_pulls=1, stopping=stopping)
    assert (result.best, result.stopped, result.evidence) == (None, False, 0.0)
    assert result.target == pytest.approx(math.log(20.0)) or stopping in ("heuristic", "mix-grid")


def test_theta_and_table_are_in_the_users_coordinates() -> None:
    """Theta is least squares in the given features, estimates are its products with the rows, and the noise is seen."""
    rows = X * [1.0, 1000.0]
    lab = RunSettings(rows=rows, theta=THETA / [1.0, 1000.0])
    result = identify(rows, lab, noise_std=0.5)
    arms, rewards = zip(*result.history, strict=True)
    theta, residual_sum, *_ = np.linalg.lstsq(rows[list(arms)], np.array(rewards), rcond=None)
    assert result.theta is not None
    np.testing.assert_allclose(result.theta, theta, rtol=1e-8)
    frame = result.to_frame()
    np.testing.assert_allclose(frame["estimate"], rows @ theta, rtol=1e-8)
    assert (frame["low"] < frame["estimate"]).all()
    assert (frame["estimate"] < frame["high"]).all()
    assert frame["pulls"].sum() == result.n_pulls
    assert result.noise_std == pytest.approx(math.sqrt(residual_sum[0] / (result.n_pulls - 2)), rel=1e-8)


def test_same_seeds_same_result() -> None:
    """Two calls with the same seed and the same noise agree bit for bit."""
    first, second = (identify(X, RunSettings(seed=4), noise_std=0.5, seed=7) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("stopping", ["betting", "evidence", "paper-appendix", "heuristic"])
def test_options_reach_the_algorithm(stopping: str) -> None:
    """The rule asked for is the one that decides, and the result carries its label."""
    result = identify(X, RunSettings(seed=1), noise_std=0.5, stopping=stopping)
    assert result.best == 2
    assert result.stopped
    assert result.stopping == stopping
    assert result.guarantee == ("heuristic" if stopping == "heuristic" else "proved")


def test_epsilon_accepts_a_near_tie() -> None:
    """With slack, two nearly equal arms do not keep the experiment going."""
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.001]])
    result = identify(
        rows, RunSettings(rows=rows, theta=np.array([1.0, 0.5])), epsilon=0.2, noise_std=0.5, max_pulls=20_000
    )
    assert result.stopped
    assert result.best in (0, 2)
    assert result.epsilon == 0.2
    assert "or loses at most 0.2 to it" in result.explain()


def test_arms_from_a_data_frame_keep_their_names() -> None:
    """Row labels of a data frame name the answer and the rows of the table; `pull` still gets row numbers."""
    lab = RunSettings()
    result = identify(pd.DataFrame(X, columns=["a", "b"], index=NAMES), lab, noise_std=0.5)
    assert (result.best, result.best_name) == (2, "ash")
    assert result.to_frame()["name"].tolist() == NAMES
    assert all(type(arm) is int for arm in lab.pulled)
    assert "ash (arm 2) is the best of 4 arms" in result.explain()
    assert identify(FiniteArms(X, names=NAMES, intercept=True), RunSettings(), noise_std=0.5).history == result.history


def test_candidates_are_compared_but_not_measured() -> None:
    """The answer is a row of the candidates, with its name; the arms have a table of their own."""
    candidates = pd.DataFrame([[0.5, 0.5], [1.0, 1.0], [-1.0, 0.0]], index=["low", "high", "left"])
    lab = RunSettings()
    result = identify(X[:2], lab, noise_std=0.5, candidates=candidates)
    assert (result.best, result.best_name) == (1, "high")
    assert set(lab.pulled) <= {0, 1}
    assert len(result.to_frame()) == 2
    frame = result.to_frame("candidates")
    assert frame["name"].tolist() == ["low", "high", "left"]
    assert frame["rank"].tolist() == [2, 1, 3]
    assert "high (candidate 1) is the best of 3 candidates" in result.explain()


BAD_ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"pull": 3}, "`pull` must be a function"),
    ({"on_pull": "print"}, "`on_pull` must be a function"),
    ({"max_pulls": -1}, "`max_pulls` must be"),
    ({"max_pulls": 2.5}, "`max_pulls` must be"),
    ({"seed": -1}, "`seed` must be"),
    ({"seed": 0.5}, "`seed` must be"),
    ({"seed": True}, "`seed` must be"),
    ({"delta": 0.0}, "`delta` must be"),
    ({"delta": "5 %"}, "`delta` must be"),
    ({"noise_std": 0.0}, "`noise_std` must be"),
    ({"noise_std": math.nan}, "`noise_std` must be"),
    ({"epsilon": -0.1}, "`epsilon` must be"),
    ({"algorithm": "guess"}, "`algorithm` must be one of"),
    ({"halting": "betting"}, "no option 'halting'"),
    ({"stopping": "never"}, "`stopping` must be"),
    ({"arms": [[1.0, math.nan], [0.0, 1.0]]}, "must be finite"),
    ({"arms": [[1.0, 0.0]]}, "at least two arms"),
    ({"candidates": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]}, "must have the arms' 2 features, got 3"),
    ({"candidates": [[1.0, 0.0]]}, "at least two"),
    ({"candidates": FiniteArms.rows_only([[1.0, 2.0]], least=1)}, "at least two different rows"),
    ({"candidates": "arms"}, "`candidates` must be"),
    ({"history": 3}, "got a int"),
    ({"history": "elm"}, "got a str"),
    ({"history": pd.DataFrame({"arm": [0], "reward": [1.0]})}, "got a DataFrame"),
    ({"history": [(0, 1.0), (1,)]}, "at position 1"),
    ({"history": [7]}, "at position 0"),
    ({"history": [(4, 1.0)]}, "between 0 and 3"),
    ({"history": [(-1, 1.0)]}, "between 0 and 3"),
    ({"history": [(True, 1.0)]}, "between 0 and 3"),
    ({"history": [("elm", 1.0)]}, "no names"),
    ({"history": [(0, math.nan)]}, "history\\[0\\]\\[1\\]"),
    ({"history": [(0, None)]}, "history\\[0\\]\\[1\\]"),
]


@pytest.mark.parametrize(("arguments", "said"), BAD_ARGUMENTS)
def test_bad_arguments_are_refused_before_anything_is_measured(arguments: dict[str, Any], said: str) -> None:
    """Every argument is checked first, with a sentence that says what was needed."""
    everything: dict[str, Any] = {"arms": X, "pull": never} | arguments
    with pytest.raises(InvalidInput, match=said):
        identify(**everything)


def test_arms_that_do_not_span_are_refused() -> None:
    """Features that are always zero are named, with the way out."""
    with pytest.raises(ArmsDoNotSpan, match="on_span"):
        identify([[1.0, 0.0], [2.0, 0.0]], never, noise_std=1.0)


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [
        ("rage", sp.algorithms.Rage(stopping=sp.stopping.Evidence())),
        ("g-static", sp.algorithms.GStatic(stopping=sp.stopping.Evidence(elimination=False))),
    ],
)
def test_an_algorithm_may_be_an_object(name: str, algorithm: Any) -> None:
    """The run of an object is that of its name with options; its options are its own."""
    named = identify(X, RunSettings(), noise_std=0.5, algorithm=name, stopping="evidence").to_dict()
    made = identify(X, RunSettings(), noise_std=0.5, algorithm=algorithm).to_dict()
    assert named.pop("log")[1:] == made.pop("log")[1:]  # but for how its options are written
    assert named == made
    with pytest.raises(InvalidInput, match="`schedule` is an option of the algorithm: pass it to"):
        identify(X, never, algorithm=algorithm, schedule="doubling", noise_std=1.0)


def test_unknown_name_in_history_is_refused() -> None:
    """A misspelt name is repeated with an example of a right one."""
    with pytest.raises(InvalidInput, match=re.escape("got 'beech'; use one of the arms' names, such as 'elm'")):
        identify(FiniteArms(X, names=NAMES), never, history=[("beech", 1.0)], noise_std=1.0)


def test_candidates_with_other_levels_of_text_are_refused() -> None:
    """As many features are not enough: a level that the arms do not have would be taken for another one."""
    arms = pd.DataFrame({"wood": ["elm", "oak", "ash", "ash"], "age": [1, 2, 3, 5]})
    candidates = pd.DataFrame({"wood": ["elm", "oak", "fir", "fir"], "age": [1, 2, 3, 5]})
    with pytest.raises(InvalidInput, match=r"`candidates` rows 2 and 3: .*'wood' .*unknown level 'fir'.*ash, elm"):
        identify(arms, never, candidates=candidates, noise_std=1.0)


def test_candidates_of_a_frame_are_read_by_the_rules_of_the_arms() -> None:
    """A few candidates have few levels, in any order of columns; the reference of the arms stays the reference."""
    arms = read_arms(pd.DataFrame({"name": list("abcd"), "wood": ["elm", "oak", "ash", "ash"], "age": [1, 2, 3, 5]}))
    frame = pd.DataFrame({"age": [4.0, 2.0], "wood": ["oak", "ash"], "price": [1, 2]}, index=["old", "young"])
    candidates = as_candidates("candidates", frame, arms)
    assert [row.tolist() for _, rows in candidates.chunks() for row in rows] == [[1, 0, 1, 4], [1, 0, 0, 2]]
    assert (candidates.names, as_candidates("candidates", frame.reset_index(drop=True), arms).names) == (
        ("old", "young"),
        None,
    )
    result = identify(arms, float, candidates=frame, noise_std=0.01)
    assert result.best_name == "old"


def test_history_counts_and_shortens_the_experiment() -> None:
    """Earlier rewards are part of the result, by name or row number, and fewer new pulls are needed."""
    arms = FiniteArms(X, names=NAMES)
    lab = RunSettings(seed=5)
    earlier: list[tuple[int | str, float]] = []
    for arm in range(4):
        earlier += [(NAMES[arm] if arm % 2 else arm, lab(arm)) for _ in range(50)]
    fresh, again = RunSettings(seed=6), RunSettings(seed=6)
    alone = identify(arms, fresh, noise_std=0.5, stopping="evidence")
    result = identify(arms, again, noise_std=0.5, history=iter(earlier), stopping="evidence", earlier="evidence")
    assert result.best == alone.best == 2
    assert result.n_pulls == 200 + len(again.pulled)
    assert sum(result.counts.values()) == result.n_pulls
    assert [arm for arm, _ in result.history[:200]] == [arm for arm in range(4) for _ in range(50)]
    assert len(again.pulled) < len(fresh.pulled)


def test_history_alone_can_be_judged() -> None:
    """With no new pulls allowed, the result says where earlier rewards have led to."""
    lab = RunSettings(seed=5)
    earlier = [(arm, lab(arm)) for arm in [0, 1, 2, 3] * 5]
    result = identify(X, never, noise_std=0.5, history=earlier, earlier="evidence", max_pulls=0)
    assert result.history == tuple(earlier)
    assert result.best == int(np.argmax(result.arms.estimate))
    assert not result.stopped
    assert 0.0 < result.epsilon_bound < math.inf


def test_history_of_a_result_goes_on_where_it_ended() -> None:
    """What one call learnt is the next one's history."""
    lab = RunSettings()
    first = identify(X, lab, noise_std=0.5, max_pulls=7)
    second = identify(X, lab, noise_std=0.5, history=first.history)
    assert second.stopped
    assert second.history[:7] == first.history
    assert second.n_pulls == len(lab.pulled)


def test_a_history_of_ones_own_goes_on_exactly_where_it_was() -> None:
    """Cut off and continued with the same seed and options, the run equals one that was never cut off."""
    whole = identify(X, RunSettings(seed=5), noise_std=0.5, delta=0.01)
    lab = RunSettings(seed=5)
    part = identify(X, lab, noise_std=0.5, delta=0.01, max_pulls=whole.n_pulls // 2)
    assert not part.stopped
    rest = identify(X, lab, noise_std=0.5, delta=0.01, history=part.history)
    assert rest.history == whole.history
    assert rest.evidence == whole.evidence
    assert rest.best == whole.best


@pytest.mark.parametrize("stopping", ["betting", "evidence"])
def test_lost_measurements_are_part_of_a_history(stopping: str, tmp_path: Path) -> None:
    """With failures in every session, and a file in between, sessions add up to the run that was never cut off."""

    def losing(lab: RunSettings) -> Callable[[int], float]:
        def pull(arm: int) -> float:
            if lab.rng.random() < 0.2:
                raise Skipped
            return lab(arm)

        return pull

    options: dict[str, Any] = {"noise_std": 0.5, "delta": 1e-4, "stopping": stopping}
    whole = identify(X, losing(RunSettings(seed=7)), **options)
    lab = RunSettings(seed=7)
    part = identify(X, losing(lab), max_pulls=9, **options)
    while not part.stopped:
        part.save(tmp_path / "part.json")
        part = identify(X, losing(lab), max_pulls=9, history=Result.load(tmp_path / "part.json").history, **options)
    assert part.history.log == whole.history.log
    assert any(event[0] == "fail" for event in part.history.log)
    assert (part.evidence, part.best, part.stopped) == (whole.evidence, whole.best, True)


@pytest.mark.parametrize(
    "change", [{"schedule": "periodic:9"}, {"delta": 0.1}, {"seed": 1}, {"algorithm": "rage"}, {"noise_std": 0.4}]
)
def test_a_history_is_not_bet_on_again_under_other_options(change: dict[str, Any]) -> None:
    """It is refused; as a plain list its rewards are unsolicited: they inform the estimate, and bets start anew."""
    options: dict[str, Any] = {"noise_std": 0.5, "delta": 1e-3}
    part = identify(X, RunSettings(), max_pulls=40, **options)
    with pytest.raises(InvalidInput, match=r"same arms, algorithm and options.*list\(history\)"):
        identify(X, never, history=part.history, **(options | change))
    result = identify(X, never, max_pulls=0, history=list(part.history), **(options | change))
    assert (result.n_pulls, result.evidence) == (40, 0.0)


def test_a_history_of_other_arms_is_refused() -> None:
    """Same shape, other numbers."""
    part = identify(X, RunSettings(), max_pulls=5, noise_std=0.5)
    with pytest.raises(InvalidInput, match="same arms"):
        identify(X + 1e-12, never, history=part.history, noise_std=0.5)


@pytest.mark.statistical
@pytest.mark.parametrize("stopping", ["betting", "evidence"])
def test_history_does_not_spoil_the_guarantee(stopping: str) -> None:
    """30 runs on a hard instance with up to 30 earlier random pulls: wrong answers stay within the binomial limit.

    At delta = 0.2 the test fails with probability below 1e-6 if the guarantee holds.
    """
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.7]])
    theta = np.array([1.0, 0.85])  # means 1, 0.85 and 1.195: a gap of 0.2 at noise 0.5
    n_wrong = 0
    for run in range(30):
        lab = RunSettings(seed=run, rows=rows, theta=theta)
        pairs = [(int(arm), lab(int(arm))) for arm in lab.rng.integers(3, size=run % 31)]
        options: Any = {"delta": 0.2, "noise_std": 0.5, "stopping": stopping}
        result = identify(rows, lab, history=pairs, earlier="evidence", **options)
        assert result.stopped
        n_wrong += result.best != 2
    assert n_wrong <= stats.binom.ppf(1 - 1e-6, 30, 0.2)


@pytest.mark.parametrize("max_pulls", [0, 1, 5, 40])
def test_budget_ends_the_experiment_undecided(max_pulls: int) -> None:
    """At `max_pulls` the result has stopped False and says what is known and what is missing."""
    lab = RunSettings(noise_std=5.0)
    result = identify(X, lab, noise_std=5.0, max_pulls=max_pulls)
    assert not result.stopped
    assert not result.interrupted
    assert result.n_pulls == len(lab.pulled) == max_pulls
    if max_pulls < 2:
        assert result.best is None
        assert result.theta is None
        assert result.epsilon_bound == math.inf
        assert "No leader yet" in result.explain()
    else:
        assert result.best is not None
        assert f"Not decided ({max_pulls} pulls). Leader " in result.explain()


def test_callback_sees_every_pull() -> None:
    """`on_pull` gets arm, reward, number of rewards and the decision, after each pull and in order."""
    seen: list[Progress] = []
    result = identify(X, RunSettings(), noise_std=0.5, history=[(0, 0.7)], on_pull=seen.append)
    assert tuple((progress.arm, progress.reward) for progress in seen) == result.history[1:]
    assert [progress.n_pulls for progress in seen] == list(range(2, result.n_pulls + 1))
    assert [progress.decision.stopped for progress in seen] == [False] * (len(seen) - 1) + [True]
    assert seen[-1].decision.best == result.best


def test_callback_can_stop_early() -> None:
    """Returning False ends the experiment; None, 0 and the like do not."""
    lab = RunSettings(noise_std=5.0)
    result = identify(X, lab, noise_std=5.0, on_pull=lambda progress: False if progress.n_pulls == 6 else 0)
    assert result.n_pulls == len(lab.pulled) == 6
    assert not result.stopped
    assert not result.interrupted
