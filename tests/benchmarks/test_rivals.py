"""The methods that surepick is compared with do what is said of them: otherwise the comparison is worth nothing."""

import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from benchmarks import rival_methods, rivals
from benchmarks.rival_cases import CASES, Case, case_of, synthetic
from surepick.simulation.problems import unit_basis

STOPPERS = {name: method for name, (method, _) in rivals.RIVALS.items()}


@pytest.mark.parametrize("name", STOPPERS)
def test_a_rival_with_a_guarantee_finds_a_clear_best(name: str) -> None:
    """With gaps of two standard deviations every run is right, and none takes a thousand pulls."""
    case = synthetic(unit_basis([4.0, 2.0, 0.0]))
    for seed in range(10):
        n_pulls, answer = STOPPERS[name](case, np.random.default_rng(seed))
        assert answer == 0
        assert n_pulls < 1000


@pytest.mark.statistical
@pytest.mark.parametrize("name", STOPPERS)
def test_a_rival_keeps_its_risk_where_all_arms_tie(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a tie to a hair an answer is wrong in two of three cases: at most .3 of 200 runs, exceeded once in a million.

    The same gate catches tests without the union over looks and comparisons.
    """
    means = np.array([1e-9, 0.0, 0.0])
    case = Case(X=np.eye(3), means=means, draw=partial(_normal, means), limit=150)
    monkeypatch.setattr(rival_methods, "DELTA", 0.3)
    limit = stats.binom.isf(1e-6, 200, 0.3)

    def n_wrong() -> int:
        answers = [STOPPERS[name](case, np.random.default_rng([7, run]))[1] for run in range(200)]
        return sum(answer is not None and case.is_wrong(answer) for answer in answers)

    assert n_wrong() <= limit
    # 2 comparisons, look 3 of 3 x 4: undone, its tests are at a level of .3 each, and those of later looks near it.
    monkeypatch.setattr(rival_methods, "DELTA", 0.3 * 2 * 3 * 4)
    assert n_wrong() > limit


def _normal(means: np.ndarray, arms: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return means[arms] + rng.standard_normal(len(arms))


def test_methods_with_a_number_of_pulls_keep_to_it() -> None:
    """Halving and the two tools draw no more than they are given, and find a best that is far ahead."""
    means, drawn = np.array([0.0, 9.0, 0.0, 0.0]), [0]

    def draw(arms: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        drawn[0] += len(arms)
        return means[arms] + rng.standard_normal(len(arms))

    case = Case(X=np.eye(4), means=means, draw=draw)
    for name, (method, _) in rivals.GUESSES.items():
        drawn[0] = 0
        assert set(method(case, 60, np.random.default_rng(1))) == {1}, name
        assert 0.9 * 60 <= drawn[0] <= 60, name


def test_every_outcome_is_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """Right, wrong, no answer and withdrawn are counted apart, each answer of a method for itself."""
    rivals.row("both", np.array([5.0, 5.0]), np.array([[rivals.RIGHT, rivals.WRONG], [rivals.WRONG] * 2]), "none")
    rivals.row("neither", np.array([5.0, 7.0]), np.array([[rivals.NONE, rivals.WITHDRAWN]]), "some")
    both, neither = capsys.readouterr().out.splitlines()
    assert both == "| both | 5 | 1; 2 of 2 | none |"
    assert neither == "| neither | 6 +-1 | 0 of 2, no answer 1, withdrawn 1 | some |"


def test_the_model_check_costs_pulls_that_count() -> None:
    """The same run with the check has pulled more, and a model that does not fit is found out."""
    n_pulls, outcome = rivals.outcome(("questionnaire", rivals.CHECKED, 0), 0)
    assert outcome == rivals.RIGHT
    assert n_pulls > rivals.outcome(("questionnaire", rivals.OURS, 0), 0)[0]


def test_figures_are_kept_by_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has date, command, seed, runs, means and standard errors; a case that is run again keeps the others."""
    monkeypatch.setattr(rivals, "RESULTS", tmp_path / "results" / "rivals.json")
    for name in ("questionnaire", "field trial", "questionnaire"):
        rows = [rivals.row("both", np.array([5.0, 7.0]), np.array([[rivals.RIGHT, rivals.WRONG]]), "none")]
        rivals.keep(name, rows, f"python -m benchmarks.rivals 2 0 {name}")
    known = json.loads(rivals.RESULTS.read_text("utf-8"))
    assert list(known) == ["field trial", "questionnaire"]
    (row,) = known["field trial"].pop("rows")
    assert (row["runs"], row["pulls"], row["standard error"], row["wrong"]) == (2, 6.0, 1.0, [1])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", known["field trial"].pop("date"))
    command = "python -m benchmarks.rivals 2 0 field trial"
    assert known["field trial"] == {"command": command, "seed": 6100, "delta": 0.05}
    rivals.keep("field trial", [rivals.row("new", np.array([1.0, 2.0]), np.zeros((1, 2)), "none")], command)
    rows = json.loads(rivals.RESULTS.read_text("utf-8"))["field trial"]["rows"]
    assert [(one["method"], one["pulls"]) for one in rows] == [("both", 6.0), ("new", 1.5)]


def test_the_kept_figures_are_whole() -> None:
    """Every case is there, with surepick, with its check where there is a model to test, and with the rivals."""
    known = json.loads(rivals.RESULTS.read_text("utf-8"))
    assert set(known) == set(CASES)
    for name, case in known.items():
        methods = {row["method"] for row in case["rows"]}
        assert set(rivals.RIVALS) <= methods
        assert (rivals.OURS in methods) == (name != "clicks")
        assert (rivals.CHECKED in methods) == (name not in ("clicks", "unit basis 1, .75, .., 0"))


def test_an_unknown_case_is_refused_before_anything_runs() -> None:
    """The message names the cases that there are."""
    with pytest.raises(SystemExit, match="no case named survey; there are: field trial, questionnaire"):
        rivals.main("survey")


def test_surepick_runs_on_a_case_as_in_its_example() -> None:
    """One run on the field trial is right."""
    n_pulls, outcome = rivals.outcome(("field trial", rivals.OURS, 0), 0)
    assert outcome == rivals.RIGHT
    assert n_pulls < 3000
    assert case_of("field trial").means.argmax() == 11
