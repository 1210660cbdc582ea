"""Labels of groups at the command line: ask, tell, sheets, files."""

import json
from pathlib import Path
from typing import Any

import pytest

from surepick import load_study
from tests.cli.conftest import Here
from tests.cli.terminal import in_terminal

PAINTS = "paint,gloss,drying\nA,1.0,0.2\nB,0.1,1.0\nC,0.7,0.7\n"


@pytest.fixture
def lab(tmp_path: Path, here: Here) -> Path:
    """Return a folder with a study of paints."""
    (tmp_path / "paints.csv").write_text(PAINTS)
    assert here(tmp_path, "create", "paints.csv", "--noise-std", "1").returncode == 0
    return tmp_path


def groups(folder: Path) -> list[dict[str, str]]:
    """Return the labels of all measurements of the study in a folder."""
    study = load_study(storage=folder / "surepick.db")
    return [dict(one.group) for one in study.measurements]


def test_ask_and_tell(lab: Path, here: Here) -> None:
    """Labels are given with an ask or a value, and shown in the tables and records."""
    asked = here(lab, "ask", "-n", "2", "--group", "day=3", "--group", "bench=B")
    assert "bench B, day 3" in " ".join(asked.stdout.split())
    assert "(measurement 1, bench B, day 3, answers ask 1)" in here(lab, "tell", "1", "0.5").stdout
    refused = here(lab, "tell", "2", "0.5", "--group", "day=4")
    assert refused.returncode != 0
    assert "was asked for the group 'bench B, day 3'" in refused.stderr
    here(lab, "tell", "2", "0.5", "--group", "bench=B", "--group", "day=3")
    here(lab, "tell", "C", "0.5", "--group", "day 4")
    assert groups(lab) == [{"bench": "B", "day": "3"}] * 2 + [{"group": "day 4"}]
    assert "day 4" in here(lab, "measurements").stdout
    records = json.loads(here(lab, "measurements", "--format", "json").stdout)
    assert [one["group"] for one in records] == groups(lab)
    lines = here(lab, "measurements", "--format", "csv").stdout.splitlines()
    assert lines[0].split(",")[-1] == "group"
    assert '"bench B, day 3"' in lines[1]


def test_the_next_command_has_the_label_that_offsets_need(tmp_path: Path, here: Here) -> None:
    """From the first ask on; later with the factors of the labels so far. A label given with the ask is enough."""
    (tmp_path / "paints.csv").write_text(PAINTS)
    assert "Next: surepick ask --group day=DAY\n" in here(tmp_path, "create", "paints.csv", "--groups", "offset").stdout
    labelled = here(tmp_path, "ask", "--group", "shift=1", "--group", "bench=B").stdout
    assert "Next: surepick tell 1 VALUE\n" in labelled
    assert "do not say where or when" not in labelled
    here(tmp_path, "tell", "1", "0.5")
    flags = "--group bench=BENCH --group shift=SHIFT"
    assert f"Next: surepick ask {flags}\n" in here(tmp_path, "best").stdout
    bare = here(tmp_path, "ask", "--worker", "ann").stdout
    assert "Some of these asks do not say where or when they are measured" in bare
    assert f"Next: surepick tell 2 VALUE {flags} --worker ann\n" in bare
    sheet = here(tmp_path, "ask", "-n", "2", "--output", "a.csv").stdout
    assert f"Next: surepick tell --file a.csv {flags}\n" in sheet
    assert here(tmp_path, "create", "paints.csv", "--name", "x", "--storage", "x.db").stdout.endswith(
        "Next: surepick ask --storage x.db\n"
    )


def test_a_new_factor_is_pointed_out(lab: Path, here: Here) -> None:
    """Day 2 would else be a tag of its own, beside days; a label cannot be changed once its value is known."""
    assert "is new" not in here(lab, "ask", "--group", "day=1").stdout
    assert "is new" not in here(lab, "ask", "--group", "day=2").stdout
    said = here(lab, "ask", "-n", "2", "--group", "tag=2").stdout
    assert "Labels so far have day, and tag is new. If that is a slip: surepick fail 3 4 --reason mistyped\n" in said
    assert here(lab, "fail", "3", "4", "--reason", "mistyped").returncode == 0


@pytest.mark.parametrize("given", [["day=3", "day=4"], ["day="], ["=3"], ["a\x1b"], ["day 3", "day 4"]])
def test_bad_labels(lab: Path, here: Here, given: list[str]) -> None:
    """A label that is none is refused in a sentence, and nothing is asked."""
    refused = here(lab, "ask", *(word for one in given for word in ("--group", one)))
    assert refused.returncode != 0
    assert "--group must be a text" in refused.stderr
    assert "No ask is open" in here(lab, "pending").stdout


def test_pending(lab: Path, here: Here) -> None:
    """Open asks are listed with their labels; a table has one column for them."""
    here(lab, "ask", "--group", "day 3", "--worker", "ann")
    here(lab, "ask", "--worker", "bob")
    lines = here(lab, "pending", "--format", "csv").stdout.splitlines()
    assert lines[0].split(",")[-1] == "group"
    assert [line.split(",")[-1] for line in lines[1:]] == ["day 3", ""]


def test_sheet(lab: Path, here: Here) -> None:
    """A sheet carries the labels of its asks; other columns are read if they are named."""
    here(lab, "ask", "-n", "2", "--output", "asks.csv", "--group", "day=3")
    path = lab / "asks.csv"
    titles, *rows = [line.split(",") for line in path.read_text(encoding="utf-8-sig").splitlines()]
    assert titles[-3:] == ["day", "value", "comment"]
    filled = [",".join([*titles, "bench"]), *(",".join([*row[:-2], "0.5", "", "B"]) for row in rows)]
    path.write_text("\n".join(filled), encoding="utf-8")
    told = here(lab, "tell", "--file", "asks.csv", "--group-column", "day")
    assert told.returncode == 0
    assert "--group-column bench" in told.stderr
    assert groups(lab) == [{"day": "3"}] * 2


def test_group_column_needs_a_file(lab: Path, here: Here) -> None:
    """A column belongs to a file."""
    here(lab, "ask")
    refused = here(lab, "tell", "1", "0.5", "--group-column", "day")
    assert refused.returncode != 0
    assert "--group-column is the title of a column of --file" in refused.stderr
    assert groups(lab) == []


@pytest.mark.parametrize(("answer", "label"), [("y", {"day": "3"}), ("", {})])
def test_a_person_is_asked(lab: Path, here: Here, answer: str, label: dict[str, str]) -> None:
    """At a terminal surepick asks whether a column that looks like a label is one."""
    here(lab, "ask")
    (lab / "asks.csv").write_text("ask,day,value\n1,3,0.5\n")
    said, _ = in_terminal(lab, "tell", "--file", "asks.csv", keys=f"{answer}\n".encode(), after="[y/N]")
    assert "Does the column day of the sheet say where or when a value was measured?" in said
    assert groups(lab) == [label]


def test_import_and_worker(lab: Path, here: Here) -> None:
    """Earlier results have labels by columns; a study labels values with their worker by itself."""
    made = here(lab, "create", "paints.csv", "--name", "other", "--group-by", "worker")
    assert made.returncode == 0
    (lab / "earlier.csv").write_text("arm,value,day\nA,0.5,1\nB,0.4,2\n")
    hinted = here(lab, "import", "earlier.csv", "--study", "paints", "--worker", "ann")
    assert "--group-column day" in hinted.stderr
    here(lab, "import", "earlier.csv", "--study", "other", "--worker", "ann", "--group-column", "day")
    study = load_study("other", lab / "surepick.db")
    assert [dict(one.group) for one in study.measurements] == [
        {"day": "1", "worker": "ann"},
        {"day": "2", "worker": "ann"},
    ]


def test_study_file(tmp_path: Path, here: Here) -> None:
    """A study.toml may say that values are labelled with their worker."""
    (tmp_path / "paints.csv").write_text(PAINTS)
    (tmp_path / "study.toml").write_text('arms = "paints.csv"\ngroup_by = "worker"\n')
    assert here(tmp_path, "create", "--file", "study.toml").returncode == 0
    study: Any = load_study(storage=tmp_path / "surepick.db")
    assert study.state.group_by == "worker"
