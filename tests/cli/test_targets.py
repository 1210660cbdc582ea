"""Calls at the command line: `run`, `create`, `status` and `best` with --threshold and --control."""

import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Here

TABLE = "name,copper,zinc\ncurrent,10,1\nA,12,2\nB,14,1\nC,9,3\nD,15,3\nE,11,2.5\n"
NAMES = ["current", "A", "B", "C", "D", "E"]
# Copper adds 1.5, zinc 1; the noise of a measurement is drawn from its time.
MEASURE = (
    "import csv, random, sys; row = list(csv.reader(open(sys.argv[1])))[1 + int(sys.argv[2])]; "
    "print(50 + 1.5 * float(row[1]) + float(row[2]) + random.gauss(0, 0.2))"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a table of alloys."""
    (tmp_path / "alloys.csv").write_text(TABLE, encoding="utf-8")
    return tmp_path


def test_a_run_names_the_call_of_each_arm(folder: Path, here: Here) -> None:
    """The sentence, and a column of calls; the control has none. Arms are more than 1 apart from their targets."""
    pull = f"{sys.executable} -I -S -c '{MEASURE}' alloys.csv {{index}}"
    targets = ("--control", "current", "--margin", "1", "--calls", "fdr", "--delta", "0.001", "--noise-std", "0.2")
    said = here(folder, "run", "--arms", "alloys.csv", "--pull", pull, *targets)
    assert said.returncode == 0, said.stderr
    assert "5 of 5 arms are at most 1 below current" in said.stdout
    cells = [line.split() for line in said.stdout.splitlines()]
    calls = {row[1]: row[-1] for row in cells if row and row[0].isdecimal()}
    assert {name: calls[name] for name in NAMES} == {**dict.fromkeys(NAMES, "met"), "current": "control"}


def test_a_study_by_file(folder: Path, here: Here) -> None:
    """study.toml has the keys; status and best have the calls."""
    (folder / "study.toml").write_text('arms = "alloys.csv"\nthreshold = 71\ncalls = "fdr"\n', encoding="utf-8")
    said = here(folder, "create", "--file", "study.toml")
    assert "which arms meet 71, with at most 5 % of the calls wrong on average" in said.stdout
    for command, code in (("status", 0), ("best", 3)):
        said = here(folder, command, "--format", "json")
        assert said.returncode == code
        assert json.loads(said.stdout)["calls"] == dict.fromkeys(NAMES, "open")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--control", "nobody"), "--control must name an arm, got 'nobody'"),
        (("--threshold", "70", "--m", "2"), "--m must be 1 beside --threshold"),
        (("--margin", "1"), "--margin is how far an arm may be below a --control"),
    ],
)
def test_refusals_name_flags(folder: Path, here: Here, given: tuple[str, ...], words: str) -> None:
    """Nothing is created."""
    said = here(folder, "create", "alloys.csv", "--name", "a", *given)
    assert said.returncode == 2
    assert words in said.stderr
    assert not (folder / "surepick.db").exists()
