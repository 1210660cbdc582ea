"""Calls against a threshold or a control: results, words, files, refusals."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.errors import InvalidInput, NoiseWarning
from surepick.learning.learner import Learner
from surepick.learning.result import Result
from surepick.reporting.study_view import line_of, view_of
from surepick.types import Array

RNG = np.random.default_rng(1)
X = np.column_stack([np.ones(12), RNG.normal(size=(12, 3))])
THETA = np.array([69.0, 2.0, 1.0, -1.0])
NAMES = [f"alloy {row}" for row in range(12)]
ALLOYS = sp.FiniteArms(X, names=NAMES)
MEANS = X @ THETA


def _found(means: Array = MEANS, seed: int = 0, arms: Any = ALLOYS, **options: Any) -> Result:
    rng = np.random.default_rng([seed, 5])
    options = {"noise_std": 1.0, "epsilon": 0.1, "max_pulls": 4000, **options}
    return sp.identify(arms, lambda arm: float(means[arm] + rng.standard_normal()), **options)


NOISE: dict[str, dict[str, Any]] = {
    "known": {},
    "unknown": {"noise_std": None},
    "per arm": {"noise_std": None, "noise": "per-arm"},
    "symmetric": {"noise_std": None, "noise": "symmetric"},
    "given for each arm": {"noise_std": [1.0] * 12},
    "without a model": {"model": "unstructured", "epsilon": 0.6},
}


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("calls", ["all", "fdr"])
def test_every_arm_is_called(noise: str, calls: str) -> None:
    """Met above, failed below, for every kind of noise; arms within epsilon may be either."""
    result = _found(threshold=70, calls=calls, **NOISE[noise])
    assert result.stopped
    assert result.guarantee == "proved"
    assert result.rule == "targets"
    assert result.calls is not None
    assert {*result.calls} == {*range(12)}
    epsilon = result.epsilon
    assert all(result.calls[row] == ("met" if MEANS[row] > 70 else "failed") for row in range(12)
               if abs(MEANS[row] - 70) > epsilon)  # fmt: skip
    assert result.best == sorted(result.best, key=lambda row: -result.arms.estimate[row])
    assert result.best_name == [NAMES[row] for row in result.best]
    assert {row for row, call in result.calls.items() if call == "met"} == {*result.best}
    assert result.survivors is not None
    assert result.survivors.tolist() == sorted(result.best)
    assert result.evidence >= result.threshold


def test_clicks() -> None:
    """Bounded rewards: which pages are clicked more than every third time."""
    rates, rng = np.array([0.1, 0.2, 0.6, 0.7]), np.random.default_rng(2)
    found = sp.identify(np.eye(4), lambda arm: bool(rng.random() < rates[arm]), rewards="binary", threshold=0.35)
    assert found.calls == {0: "failed", 1: "failed", 2: "met", 3: "met"}
    assert found.best == [3, 2]


@pytest.mark.parametrize(("margin", "better"), [(0.0, [11, 10, 5, 0]), (0.6, [11, 10, 5, 0, 7])])
def test_a_control(margin: float, better: list[int]) -> None:
    """Superior, and no worse than the margin; the control itself has no call."""
    result = _found(control="alloy 3", margin=margin, epsilon=0.0)
    assert result.calls is not None
    assert sorted(result.best) == sorted(better)
    assert 3 not in result.calls
    assert len(result.calls) == 11
    how = "at most 0.6 below alloy 3" if margin else "better than alloy 3"
    assert str(result).startswith(f"{len(better)} of 11 arms are {how}, {11 - len(better)} are not, after ")
    assert result.to_columns()["call"][3] == "control"
    assert _found(control=3, margin=margin, epsilon=0.0).best == result.best


def test_words_of_a_verdict() -> None:
    """Counts, names, and what the risk is about."""
    said = _found(threshold=70).explain()
    assert "4 of 12 arms meet 70, 8 do not, after" in said
    assert "the probability that any call is off by more than 0.1 is at most 5 % (proved, targets rule)." in said
    assert "Met: alloy 11, alloy 10, alloy 5 and alloy 0. Failed: alloy 1, alloy 2" in said
    assert "best of" not in said
    said = _found(threshold=70, calls="fdr", epsilon=0.0).explain()
    assert "on average at most 5 % of the arms called met, and 5 % of those called failed, are wrong" in said


def test_a_budget_leaves_rows_open() -> None:
    """What is called stays called; the rest is named as open, and nothing says that one arm is the best."""
    result = _found(threshold=70, budget=100, epsilon=0.0)
    assert not result.stopped
    assert result.calls is not None
    counts = [list(result.calls.values()).count(call) for call in ("met", "failed", "open")]
    assert min(counts) > 0
    said = result.explain()
    meet = "meets" if counts[0] == 1 else "meet"
    assert f"So far {counts[0]} of 12 arms {meet} 70, {counts[1]} do not, {counts[2]} are open." in said
    assert "Calls so far are proved: the probability that any call is wrong is at most 5 %, whenever you stop." in said
    assert "hardest to call: " in said
    assert "Leader" not in said
    assert result.outlook is None
    assert result.rival is None


def test_none_meets_it() -> None:
    """An empty list is an answer."""
    result = _found(threshold=90)
    assert result.stopped
    assert result.best == []
    assert result.explain().startswith("0 of 12 arms meet 90, 12 do not, after ")
    assert {*(result.calls or {}).values()} == {"failed"}


def test_before_anything_is_measured() -> None:
    """All arms are open."""
    learner = Learner("lazy-track-and-stop", ALLOYS, threshold=70)
    assert learner.result().best is None
    assert {*(learner.result().calls or {}).values()} == {"open"}


def test_files_give_results_back(tmp_path: Path) -> None:
    """With calls and what they are against; files without calls have no such entries."""
    result = _found(control=3, margin=0.6, calls="fdr", budget=40, epsilon=0.0)
    result.save(tmp_path / "r.json")
    again = Result.load(tmp_path / "r.json")
    assert again == result
    assert (again.calls, again.specification, again.best) == (result.calls, result.specification, result.best)
    assert again.explain() == result.explain()
    plain = sp.identify(np.eye(2), float, noise_std=0.1)
    assert not {"calls", "specification"} & plain.to_dict().keys()
    assert plain.calls is None


def test_a_page(tmp_path: Path) -> None:
    """The page asks the question, and has a call for each arm."""
    result = _found(threshold=70)
    result.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "Which of 12 arms meet 70?" in page
    assert ">Call<" in page
    assert "threshold=70" in page
    assert result.plot_estimates() is not None


def test_a_withdrawn_claim_names_no_call() -> None:
    """Where the rewards contradict the model, no call can be defended."""
    bent = MEANS + 3.0 * (np.arange(12) % 2)
    with pytest.warns(NoiseWarning, match="scatter around the fit"):
        result = _found(bent, threshold=70, audit=200)
    assert result.guarantee == "withdrawn"
    assert result.explain().startswith("No call can be defended after ")


def test_the_identity_names_the_target() -> None:
    """Learners with other targets are other learners; without a target the identity is as it was."""
    said = [
        Learner("lazy-track-and-stop", ALLOYS, **options).identity
        for options in ({}, {"threshold": 70}, {"control": 3, "margin": 0.5, "calls": "fdr"})
    ]
    assert "threshold" not in said[0] + said[2]
    assert "threshold=70.0" in said[1]
    assert all(words in said[2] for words in ("control=3", "margin=0.5", "calls='fdr'"))


@pytest.mark.parametrize("algorithm", ["uniform", "g-static"])
def test_static_allocations_call_too(algorithm: str) -> None:
    """To compare with."""
    result = _found(threshold=69.5, algorithm=algorithm, epsilon=0.3)
    assert sorted(result.best) == [0, 5, 10, 11]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threshold": 70, "control": 3}, "one of `threshold` and `control` is needed"),
        ({"margin": 1}, "`margin` is how far an arm may be below a `control`"),
        ({"control": 3, "margin": -1}, "`margin` must be a number of at least 0, got -1"),
        ({"calls": "fdr"}, 'calls="fdr" goes with `threshold` or `control`'),
        ({"threshold": 70, "calls": "some"}, '`calls` must be "all" or "fdr"'),
        ({"threshold": float("nan")}, "`threshold` must be a number, got nan"),
        ({"threshold": "70"}, "`threshold` must be a number"),
        ({"control": "nobody"}, "`control` must name an arm, got 'nobody'"),
        ({"control": 12}, "`control` must be a row number between 0 and 11"),
        ({"control": 2.5}, "`control` must be the name or the row number of an arm"),
        ({"threshold": 70, "earlier": "evidence"}, 'earlier="evidence" has no proof beside `threshold`'),
        ({"threshold": 70, "m": 2}, "`m` must be 1 beside `threshold`"),
        ({"threshold": 70, "misfit": 1.0}, "`misfit` must be 0 beside `threshold`"),
        ({"threshold": 70, "noise": "any", "noise_std": None}, 'noise="any" has no proof beside `threshold`'),
        ({"control": 3, "noise": "any", "noise_std": None}, 'noise="any" has no proof beside `control`'),
        ({"threshold": 70, "groups": "offset"}, "measure a control in each group"),
        ({"threshold": 70, "drift": 0.5, "noise_std": 1.0}, "`drift` must be 0 beside `threshold`"),
        ({"control": 3, "stopping": "evidence"}, "`control` has no proof for stopping='evidence'"),
        ({"threshold": 70, "stopping": "betting"}, "`threshold` has no proof for stopping='betting'"),
        ({"control": 3, "algorithm": "rage"}, "`control` cannot be given to rage"),
        ({"threshold": 2.0, "noise_std": None, "rewards": "binary"}, "`threshold` must be between the bounds"),
    ],
)
def test_refusals(options: dict[str, Any], words: str) -> None:
    """A sentence for every combination without a proof, before anything is measured."""
    with pytest.raises(InvalidInput) as refused:
        _found(max_pulls=1, **{"epsilon": 0.0, **options})
    assert words in str(refused.value)


@pytest.mark.parametrize("options", [{"groups": "offset"}, {"drift": 3.0, "noise_std": 1.0}])
def test_a_control_takes_offsets_and_drift(options: dict[str, Any]) -> None:
    """Days that read high, or readings that rise, change no call beside a control; the control is measured too."""
    rng, learner = np.random.default_rng(6), Learner("lazy-track-and-stop", ALLOYS, control=3, epsilon=0.4, **options)
    day = n = 0
    while not learner.stopped and n < 3000:
        day += 1
        high = rng.normal(0.0, 20.0) if "groups" in options else 0.0
        for ask in learner.next_asks(6, group=f"day {day}"):
            drift = high if "groups" in options else 0.02 * n
            learner.tell(ask.arm, float(MEANS[int(ask.arm)] + drift + rng.normal()), ask=ask.number)
            n += 1
    calls, apart = learner.snapshot.calls, MEANS - MEANS[3]
    assert learner.stopped
    assert calls is not None
    assert {row: call for row, call in calls.items() if abs(apart[row]) > 0.4} == {
        row: "met" if apart[row] > 0.0 else "failed" for row in range(12) if abs(apart[row]) > 0.4
    }


def test_sets_of_vectors_are_refused() -> None:
    """The message says what to do."""
    with pytest.raises(InvalidInput, match="`threshold` needs a list of arms"):
        Learner("lazy-track-and-stop", sp.Sphere(3), threshold=1.0, epsilon=0.1)


def test_the_lower_bound_of_calls() -> None:
    """Arms by themselves: 2/gap^2 pulls per nat for each; and a factorial with two targets."""
    most = 2.0 * (1.0 / 0.2**2 + 1.0 / 0.4**2) * 0.9 * np.log(19.0)
    assert sp.lower_bound(np.eye(2), [0.7, 0.1], threshold=0.5) == pytest.approx(most, rel=1e-5)
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * 4, indexing="ij")).reshape(4, -1).T
    factorial, theta = np.column_stack([np.ones(16), signs]), [1.0, 0.35, 0.25, 0.2, 0.12]
    assert sp.lower_bound(factorial, theta, threshold=0.9) == pytest.approx(2260.2, abs=0.5)
    assert sp.lower_bound(factorial, theta, control=4) == pytest.approx(2271.4, abs=0.5)
    assert sp.characteristic_time(factorial, theta, threshold=0.9).verify(factorial)
    with pytest.raises(InvalidInput, match="drop one"):
        sp.characteristic_time(factorial, theta, threshold=1.0, control=2)


def test_a_study() -> None:
    """Calls are in status, certificate and log; a larger budget goes on with them, another threshold does not."""
    study = sp.create_study("alloys", arms=ALLOYS, threshold=70, noise_std=1.0, budget=40, storage="memory:")
    rng = np.random.default_rng(3)

    def measure() -> None:
        while asks := study.ask(8):
            for ask in asks:
                study.tell(ask.id, float(MEANS[ask.arm] + rng.standard_normal()))

    assert "calls" not in sp.create_study("plain", arms=ALLOYS, storage="memory:").snapshot.record()
    measure()
    status = study.status
    assert status.state == "spent"
    assert status.calls is not None
    known = {name: call for name, call in status.calls.items() if call != "open"}
    assert known
    assert study.preview_reopen(threshold=71, budget=100).n_evidence == 0
    assert study.preview_reopen(budget=3000).n_evidence > 0
    study.reopen(budget=3000, reason="more to find out")
    now = study.status.calls
    assert now is not None
    assert {name: now[name] for name in known} == known
    measure()
    assert study.stopped
    assert sorted(study.best) == [0, 5, 10, 11]
    view = view_of(study)
    assert view.proved["proved"].startswith("4 of 12 arms meet 70, 8 do not; ")
    assert view.leaders["met"] == "alloy 11, alloy 10, alloy 5 and alloy 0"
    assert {place.name: place.proved for place in view.leaderboard.places} == study.status.calls
    assert line_of(study).proved == "4 of 12 arms meet 70, 8 do not"
    certificate = study.certificate()
    assert certificate["calls"]["alloy 0"] == "met"
    assert certificate["claim"].startswith("4 of 12 arms meet 70, 8 do not, after ")
    assert json.loads(study.snapshot.summary())["best_name"] == study.status.best_name
