import math
from pathlib import Path

import numpy as np
import pytest

from surepick.reporting.experiment_summary import LEVELS, Estimated, compare, estimated_share, summarize, z_score
from surepick.simulation.experiment import Published, parse_experiment
from tests.reporting.report_folders import PAPER, RUNS, summaries_of, write_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results whose last cell has no runs."""
    return write_folder(tmp_path_factory.mktemp("report") / "runs", PAPER, RUNS)


def test_statistics_by_hand(folder: Path) -> None:
    """Mean, standard error, quantiles and ratio of 100, 120, 140, 160, 180."""
    ours = summaries_of(folder)["default", 1000]
    assert ours.n_runs == 5
    assert ours.quantities["n_pulls"].mean == pytest.approx(140)
    assert ours.quantities["n_pulls"].se == pytest.approx(math.sqrt(200))  # variance 1000, five runs
    # The 0.9 quantile is 0.4 of the way from the fourth to the fifth of five values.
    assert [ours.quantiles[level] for level in LEVELS] == pytest.approx([104, 120, 140, 160, 172, 176])
    assert ours.quantities["ratio"].mean == pytest.approx(1.4)
    assert ours.quantities["seconds"] == pytest.approx((0.002, 0.0))
    assert ours.versions == ("1.2.3",)


def test_rows_of_a_cell_that_spans_groups_of_the_table(folder: Path) -> None:
    """The table of the test has groups of three rows; the first cell has four, the last one three."""
    summaries = summaries_of(folder)
    assert summaries["Lazy TS", 1000].quantities["n_pulls"].mean == pytest.approx(410)
    assert summaries["Lazy TS", 2500].quantities["n_pulls"].mean == pytest.approx(510)


def figure(**changes: object) -> Published:
    """The first published figure, 400 +- 30, changed."""
    (published,) = parse_experiment(PAPER, "test").published[:1]
    return published.model_copy(update=changes)


CELLS = {cell.algorithm.label: cell for cell in parse_experiment(PAPER, "test").cells()}


@pytest.mark.parametrize(
    ("label", "mean", "quantity", "verdict"),
    [
        ("Lazy TS", 400 + 149, "n_pulls", "agrees"),  # combined standard error 50
        ("Lazy TS", 400 - 149, "n_pulls", "agrees"),
        ("Lazy TS", 400 + 151, "n_pulls", "differs"),
        ("Lazy TS", 400 - 151, "n_pulls", "differs"),  # the same method should need as many
        ("default", 400 - 149, "n_pulls", "agrees"),
        ("default", 400 - 151, "n_pulls", "better"),
        ("default", 400 + 151, "n_pulls", "differs"),
        ("default", 400 - 151, "support", "differs"),  # fewer arms are no merit
        ("Lazy TS", 400 - 151, "seconds", "better"),
        ("Lazy TS", 400 + 151, "seconds", "differs"),
    ],
)
def test_verdicts(label: str, mean: float, quantity: str, verdict: str) -> None:
    """What is said at and beyond three combined standard errors; the note says why."""
    compared = compare(figure(quantity=quantity), CELLS[label], Estimated(mean, 40.0), n_unfinished=0)
    assert compared.verdict == verdict
    assert compared.why == ("" if verdict == "agrees" else "another instance")
    assert compared.z == pytest.approx((mean - 400) / 50)


def test_verdicts_when_little_is_known() -> None:
    """No runs, one run, no note, no published standard error, runs given up."""
    cell = CELLS["default"]
    none, one = (compare(figure(), cell, ours, n_unfinished=0) for ours in (None, Estimated(1.0, math.nan)))
    assert (none.verdict, none.why) == ("open", "no runs yet")
    assert (one.verdict, one.why) == ("open", "one run has no standard error")
    assert compare(figure(note=""), cell, Estimated(1.0, 1.0), n_unfinished=0).why == ""
    assert compare(figure(se=None), cell, Estimated(410.0, 5.0), n_unfinished=0).z == pytest.approx(2.0)
    # Time and support of a run that was given up are what they are.
    few = Estimated(410.0, 1.0)  # of 4 runs, which scatter less than those published
    scattered = [compare(figure(se=None, std=std), cell, few, n_unfinished=0, n_runs=4).z for std in (20.0, 0.5)]
    assert scattered == pytest.approx([1.0, 10.0])
    alone = compare(figure(se=None, std=5.0), cell, Estimated(410.0, math.nan), n_unfinished=0)
    assert alone.z == pytest.approx(2.0)
    assert compare(figure(quantity="support"), cell, Estimated(400.0, 1.0), n_unfinished=3).verdict == "agrees"


def test_shares_of_wrong_answers_have_an_error_without_any_wrong_one() -> None:
    """0 of 30 is not 0 for certain; and other methods may be better, repeated ones only differ."""
    none, some = estimated_share([False] * 30), estimated_share([True] * 6 + [False] * 24)
    assert (none.mean, some.mean) == (0.0, 0.2)
    assert none.se == pytest.approx(math.sqrt(1 / 32 * 31 / 32 / 30))
    assert some.se == pytest.approx(math.sqrt(7 / 32 * 25 / 32 / 30))
    for label, mean, verdict in (("Lazy TS", 0.01, "agrees"), ("Lazy TS", 0.2, "differs"), ("default", 0.2, "better")):
        theirs = figure(mean=mean, se=0.001, quantity="error")
        assert compare(theirs, CELLS[label], none, n_unfinished=0).verdict == verdict


def test_z_without_any_spread() -> None:
    """Counts that never vary can still agree or differ."""
    assert z_score(Estimated(2.0, 0.0), Estimated(2.0, 0.0)) == 0.0
    assert z_score(Estimated(2.0, 0.0), Estimated(2.1, 0.0)) == -math.inf
    assert math.isnan(z_score(Estimated(2.0, math.nan), Estimated(2.0, 1.0)))


def test_a_single_run_has_no_standard_error() -> None:
    """And nothing is made up for it."""
    one = {"run": np.array([0]), "n_pulls": np.array([50]), "stopped": np.array([True]), "correct": np.array([True])}
    one |= {
        name: np.array([1.0]) for name in ("support", "seconds", "design_support", "evidence", "target", "lower_bound")
    }
    summary = summarize(CELLS["default"], {**one, "version": np.array(["1"])})
    assert summary.quantities["n_pulls"].mean == 50
    assert math.isnan(summary.quantities["n_pulls"].se)
