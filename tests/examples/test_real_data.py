"""The examples on data like those of users: each says what it should and leaves a report."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from examples import alloys, clicks, field_trial, questionnaire

EXAMPLES = Path(clicks.__file__).parent


def test_field_trial_has_the_published_means() -> None:
    """The table is the published one: means by nitrogen, by variety and by block, and the mean square of the rest."""
    table = field_trial.yields.reshape(3, 4, 6)
    assert table.mean(axis=(0, 2)).round(2).tolist() == [79.39, 98.89, 114.22, 123.39]
    assert table.mean(axis=(1, 2)).round(2).tolist() == [97.62, 104.5, 109.79]
    assert table.mean(axis=(0, 1)).round(2).tolist() == [135.33, 107.25, 95.92, 98.17, 90.92, 96.25]
    assert field_trial.residuals.mean() == pytest.approx(0.0, abs=1e-9)
    assert field_trial.residuals.std() == pytest.approx(15.3, abs=0.05)


def test_field_trial_names_the_best_option(tmp_path: Path) -> None:
    """The effects add up, so the audit agrees; the best variety gets the most nitrogen."""
    result = field_trial.main(tmp_path)
    assert result.best_name == "Marvellous 0.6"
    assert (result.guarantee, result.model_check) == ("proved", "tested")
    assert "Marvellous 0.6" in (tmp_path / "field_trial.html").read_text("utf-8")


def test_questionnaire_names_the_best_offer(tmp_path: Path) -> None:
    """Yes and no need no noise level; rates add up but for rounding, which the audit does not mind."""
    result = questionnaire.main(tmp_path)
    assert result.best == int(np.argmax(questionnaire.rates))
    assert (result.best_name, result.guarantee, result.model_check) == ("4 euros with both", "proved", "tested")
    assert "4 euros with both" in (tmp_path / "questionnaire.html").read_text("utf-8")


def test_the_answer_about_svm_settings_is_withdrawn(tmp_path: Path) -> None:
    """A plane does not fit the accuracy: no claim is left. Without a model a setting from the plateau is named."""
    from examples import svm_settings  # noqa: PLC0415 (scikit-learn is slow to import)

    linear, free = svm_settings.main(tmp_path)
    assert (linear.guarantee, linear.model_check) == ("withdrawn", "contradicted")
    assert "No answer can be defended" in linear.explain()
    assert "No answer can be defended" in (tmp_path / "svm_linear.html").read_text("utf-8")
    assert free.guarantee == "proved"
    assert free.measured()[free.best] > 0.85
    assert (tmp_path / "svm_unstructured.html").exists()


def test_the_test_of_pages_is_not_worth_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A million visitors do not suffice, whatever the method, and that is said before the first of them comes."""
    hoped, bold = clicks.main(tmp_path)
    assert not hoped.is_possible
    assert hoped.lower_bound > 1e6
    assert bold.is_possible
    said = capsys.readouterr().out
    assert said.startswith("Not possible within 1,000,000 pulls")
    assert "Not worth it." in said
    assert (tmp_path / "clicks.png").stat().st_size > 10_000


def test_an_example_runs_as_a_script(tmp_path: Path) -> None:
    """As a reader would start it, with a folder for the report."""
    command = [sys.executable, str(EXAMPLES / "field_trial.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith(f"Report: {tmp_path / 'field_trial.html'}")


def test_alloys_are_called(tmp_path: Path) -> None:
    """All against 70; against the one in use as many as the budget allows, none of them wrong."""
    meet, better = alloys.main(tmp_path)
    assert meet.stopped
    assert sorted(meet.best) == np.flatnonzero(alloys.STRENGTHS > 70).tolist()
    assert not better.stopped
    assert better.calls is not None
    assert better.specification is not None
    apart = alloys.STRENGTHS - alloys.STRENGTHS[better.specification.control]
    assert all(apart[row] > -0.5 if call == "met" else apart[row] < 0.5 for row, call in better.calls.items()
               if call != "open")  # fmt: skip
    assert "Which alloys reach 70?" in (tmp_path / "alloys.html").read_text("utf-8")
    assert "of 39 arms are better than in use" in (tmp_path / "better.html").read_text("utf-8")
