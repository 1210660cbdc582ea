"""`surepick plan` and `surepick noise`, as a user calls them."""

import csv
import io
import json
import re
import sys
from pathlib import Path

import pytest

from surepick.cli import main as cli

ARMS = "paint,gloss,drying,price\nA,1.0,0.2,1\nB,0.1,1.0,2\nC,0.7,0.7,1\nD,0.3,0.4,5\nE,0.9,0.9,1\n"
PILOT = "arm,reward\nA,.7\nB,.5\nC,.7\nA,.6\nE,.9\nD,.4\nE,.7\n"
REPLICATES = "option,value\nA,1.0\nA,1.2\nB,2\nB,2.5\nC,3\nC,3.3\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with arms, a pilot and replicates, to work in."""
    for name, text in (("arms.csv", ARMS), ("pilot.csv", PILOT), ("replicates.csv", REPLICATES)):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """Run a command line; return what it wrote, errors if it was refused."""
    assert cli.main(arguments) == code
    captured = capsys.readouterr()
    return captured.err if code else captured.out


@pytest.mark.usefixtures("folder")
def test_plan_by_lead(capsys: pytest.CaptureFixture[str]) -> None:
    """A lead and the noise suffice; costs come from a column, which is no feature."""
    text = said(capsys, "plan", "arms.csv", "--gap", "0.3", "--noise-std", "0.5", "--costs", "price")
    assert "5 arms, 3 features, from arms.csv" in text
    assert "They cost about" in text
    assert "8 of 10 runs" in text
    rows = list(
        csv.DictReader(
            io.StringIO(said(capsys, "plan", "arms.csv", "--gap", ".3", "--noise-std", "1", "--format", "csv"))
        )
    )
    assert {row["delta"] for row in rows} == {"0.1", "0.05", "0.01", "0.001"}
    assert all(float(row["low"]) < float(row["pulls"]) < float(row["high"]) for row in rows)


def test_plan_by_pilot_with_runs_and_a_plot(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pilot says how noisy measurements are, runs are simulated, the figure is written."""
    asked = ("plan", "arms.csv", "--pilot", "pilot.csv", "--epsilon", "1", "--simulate", "2")
    found = json.loads(said(capsys, *asked, "--out", "plan.png", "--format", "json"))
    assert found["simulated"]["runs"] == 2
    assert found["is_possible"]
    assert found["lower_bound"] is None
    assert (folder / "plan.png").stat().st_size > 1000
    assert "Simulated: " in said(capsys, *asked)


@pytest.mark.usefixtures("folder")
def test_plan_by_guess(capsys: pytest.CaptureFixture[str]) -> None:
    """A guess of theta, noise by a column, clicks."""
    theta = ("plan", "arms.csv", "--theta", "0,.1,.2", "--no-intercept", "--features", "gloss,drying,price")
    assert "About" in said(capsys, *theta, "--noise-std", "1")
    noisy = ("plan", "arms.csv", "--theta", "0,.1,.25", "--noise-std", "price")
    assert "About" in said(capsys, *noisy)
    assert "2 best of 5" in said(capsys, *noisy, "--m", "2")
    assert "About" in said(capsys, *theta[:2], "--theta", "0,.1,.2", "--binary")


@pytest.mark.usefixtures("folder")
def test_plan_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be planned ends with code 2 and one line."""
    assert "one guess is needed, got none: --gap" in said(capsys, "plan", "arms.csv", code=2)
    assert "--theta must be numbers" in said(capsys, "plan", "arms.csv", "--theta", "a,b", code=2)
    two = ("plan", "arms.csv", "--gap", "1", "--noise-std", "price", "--costs", "cost")
    assert "no column 'cost'" in said(capsys, *two, code=2)
    out = ("plan", "arms.csv", "--gap", "1", "--noise-std", "1", "--out", "nowhere/plan.png")
    assert "cannot write" in said(capsys, *out, code=2)


def test_noise(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pooled and by option, in every format; options that differ are named."""
    assert "One measurement has a noise of about" in said(capsys, "noise", "replicates.csv")
    found = json.loads(said(capsys, "noise", "replicates.csv", "--format", "json"))
    assert found["interval"][0] < found["noise_std"] < found["interval"][1]
    assert [one["option"] for one in found["per_option"]] == ["A", "B", "C"]
    rows = list(csv.DictReader(io.StringIO(said(capsys, "noise", "replicates.csv", "--format", "csv"))))
    assert list(rows[0]) == ["option", "n", "mean", "noise_std", "low", "high"]
    (folder / "uneven.csv").write_text("what,y\n" + "".join(f"q,{i / 100}\nl,{10 * i}\n" for i in range(6)) + "s,1\n")
    assert "options differ" in said(capsys, "noise", "uneven.csv")
    assert "no column" in said(capsys, "noise", "replicates.csv", "--option-column", "x", code=2)
    (folder / "single.csv").write_text("option,value\nA,1\nB,2\n")
    assert "measured twice" in said(capsys, "noise", "single.csv", code=1)


def test_plan_reads_the_file_that_noise_reads(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The two columns of a pilot may have the titles of the laboratory."""
    (folder / "lab.csv").write_text(PILOT.replace("arm,reward", "Mischung,MPa"))
    assert "from 2 replicates" in said(capsys, "noise", "lab.csv")
    assert "About" in said(capsys, "plan", "arms.csv", "--pilot", "lab.csv", "--epsilon", "1")


@pytest.mark.usefixtures("folder")
def test_plan_says_first_what_a_picture_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the work, so that no plan is worked out and lost."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr("surepick.cli.plan.plan", None)
    asked = ("plan", "arms.csv", "--gap", "0.3", "--noise-std", "1", "--out", "plan.png")
    assert said(capsys, *asked, code=1) == "surepick: a figure needs matplotlib; install surepick[figures].\n"


@pytest.mark.usefixtures("folder")
def test_the_table_of_a_plan_has_the_numbers_of_its_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    """Both with two digits."""
    text = said(capsys, "plan", "arms.csv", "--gap", "0.1", "--noise-std", "0.5")
    found = re.search(r"About (\S+) pulls.*?8 of 10 runs (\S+) to\s+(\S+)\)", text, re.DOTALL)
    assert found is not None
    pulls, low, high = found.groups()
    assert high == "1,800"
    assert re.search(rf"0.05 +\S 0 +\S {pulls} +\S {low} to {high} ", text)
