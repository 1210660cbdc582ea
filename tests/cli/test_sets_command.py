"""`surepick run` on sets of vectors and on files that are read in pieces."""

import csv
import io
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import surepick as sp
from tests.cli.conftest import Here

# A linear reward of whatever vector comes, with noise that is the same in every test run.
MEASURE = """
import pathlib, sys
arm = [float(entry) for entry in sys.argv[1].split(",")]
count = pathlib.Path("count")
n = len(count.read_text()) if count.exists() else 0
count.write_text("x" * (n + 1))
print(sum(x * t for x, t in zip(arm, [1.0, -0.6, 0.3, 0.2, -0.1])) + 0.1 * (((n + 1) * 0.6180339887) % 1 - 0.5))
"""
COMMAND = f"{sys.executable} measure.py {{arm}}"
BY_INDEX = f"{sys.executable} -c 'import sys; print(sys.argv[1])' {{index}}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a program that measures vectors."""
    (tmp_path / "measure.py").write_text(MEASURE)
    return tmp_path


@pytest.mark.parametrize(
    ("options", "best"),
    [
        (("--sphere", "3", "--epsilon", "0.1"), np.array([1.0, -0.6, 0.3]) / np.linalg.norm([1.0, -0.6, 0.3])),
        (("--hypercube", "3"), np.array([1.0, -1.0, 1.0])),
        (("--top-k", "4,2"), np.array([1.0, 0.0, 1.0, 0.0])),
    ],
    ids=["sphere", "hypercube", "top-k"],
)
def test_sets_of_vectors_are_identified(folder: Path, here: Here, options: tuple[str, ...], best: np.ndarray) -> None:
    """The answer is a vector of the set, and loses at most epsilon."""
    done = here(folder, "run", *options, "--noise-std", "0.05", "--pull", COMMAND, "--format", "json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    theta = np.array([1.0, -0.6, 0.3, 0.2])[: len(best)]
    assert theta @ best - theta @ result["best"] <= 0.1
    assert result["guarantee"] == "proved"
    assert result["arm_set"].startswith("the ")


def test_an_ellipsoid_comes_from_a_file(folder: Path, here: Here) -> None:
    """Centre in the first line, axes below; a file of another shape is refused with what is needed."""
    (folder / "e.csv").write_text("0.5,0.0\n1.0,0.0\n0.2,0.5\n")
    options = ("--epsilon", "0.2", "--noise-std", "0.05", "--pull", COMMAND, "--format", "json")
    done = here(folder, "run", "--ellipsoid", "e.csv", *options)
    assert done.returncode == 0, done.stderr
    theta, axes = np.array([1.0, -0.6]), np.array([[1.0, 0.0], [0.2, 0.5]])
    most = theta @ [0.5, 0.0] + float(np.linalg.norm(axes.T @ theta))
    assert most - theta @ json.loads(done.stdout)["best"] <= 0.2
    (folder / "e.csv").write_text("1.0,0.0\n0.2,0.5\n")
    refused = here(folder, "run", "--ellipsoid", "e.csv", *options)
    assert refused.returncode == 2
    assert "centre in its first line" in refused.stderr


def test_a_log_of_vectors_goes_on_where_it_was(folder: Path, here: Here) -> None:
    """A session cut off after 7 pulls and started again asks nothing twice and ends like one that was not."""
    options = ("--sphere", "3", "--epsilon", "0.05", "--noise-std", "0.2", "--pull", COMMAND, "--format", "json")
    whole = here(folder, "run", *options, "--log", "whole.db")
    (folder / "count").unlink()
    cut = here(folder, "run", *options, "--log", "cut.db", "--max-pulls", "7")
    assert (whole.returncode, cut.returncode) == (0, 3)
    rest = here(folder, "run", *options, "--log", "cut.db")
    assert json.loads(rest.stdout) == json.loads(whole.stdout)
    told = []
    for log in ("whole.db", "cut.db"):
        with sp.load_study(storage=folder / log) as study:
            told.append([(one.arm, one.told) for one in study.measurements])
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (np.array([["a", "b"], ["1", "0"], ["0", "1"]]), "must hold real numbers, got <U1"),
        (np.array([[0, 0], [1, 1j], [0, 1]]), "must hold real numbers, got complex128"),
        (np.array([[0, 0], [1, 0], [0, 1]], dtype="datetime64[s]"), "must hold real numbers, got datetime64[s]"),
        (np.array([[0, 0], [True, 0], [0, np.nan]]), "finite"),
    ],
    ids=["text", "complex", "dates", "nan"],
)
def test_an_ellipsoid_is_made_of_real_numbers(folder: Path, here: Here, rows: np.ndarray, complaint: str) -> None:
    """Anything else in a .npy is refused; an imaginary part is not dropped."""
    np.save(folder / "e.npy", rows)
    done = here(folder, "run", "--ellipsoid", "e.npy", "--epsilon", "0.2", "--pull", COMMAND)
    assert done.returncode == 2, done.stderr
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("text", ["", "\n", "# nothing yet\n"])
def test_an_empty_file_is_no_ellipsoid(folder: Path, here: Here, text: str) -> None:
    """One line, without a warning of the package that reads it."""
    (folder / "e.csv").write_text(text)
    done = here(folder, "run", "--ellipsoid", "e.csv", "--epsilon", "0.2", "--pull", COMMAND)
    assert done.returncode == 2
    assert done.stderr.startswith("surepick: e.csv must have the centre in its first line")
    assert len(done.stderr.splitlines()) == 1


def test_a_history_of_vectors_is_read_back(folder: Path, here: Here) -> None:
    """Logged vectors are a history for another session, digit by digit; what is no arm is refused by its line."""
    options = ["--sphere", "2", "--epsilon", "0.5", "--noise-std", "0.2", "--pull", COMMAND]
    (folder / "earlier.csv").write_text('arm,reward\n"1,0",1.0\n"0.6,0.8",0.1\n"0,1",-0.6\n')
    done = here(folder, "run", *options, "--history", "earlier.csv")
    assert (done.returncode, "begin with --earlier evidence" in done.stderr) == (2, True)
    options += ["--earlier", "evidence"]
    done = here(folder, "run", *options, "--history", "earlier.csv", "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert "(0.6, 0.8)" in [row["arm"] for row in csv.DictReader(io.StringIO(done.stdout))]
    (folder / "earlier.csv").write_text('arm,reward\n"1,1",1.0\n')
    refused = here(folder, "run", *options, "--history", "earlier.csv")
    assert refused.returncode == 2
    assert "earlier.csv line 2: '1,1' is not an arm of the unit sphere" in refused.stderr


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--sphere", "3", "--pull", COMMAND), "--epsilon must be above 0"),
        (("--sphere", "3", "--hypercube", "2"), "one set of arms is needed"),
        (("--top-k", "5"), "two whole numbers such as 10,3"),
        (("--top-k", "3,3", "--pull", COMMAND), "`k` must be below"),
        (("--hypercube", "3", "--intercept", "--pull", COMMAND), "--intercept belongs to a file of arms"),
        (("--ellipsoid", "none.csv", "--pull", COMMAND), "cannot read none.csv"),
        (("--arms", "none.parquet", "--pull", COMMAND), "none.parquet"),
    ],
)
def test_misuse_is_one_clear_line(folder: Path, here: Here, options: tuple[str, ...], text: str) -> None:
    """Exit code 2, one line on standard error, nothing measured."""
    done = here(folder, "run", *options)
    assert done.returncode == 2
    assert text in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (folder / "count").exists()


def test_a_parquet_file_gives_what_a_csv_gives(folder: Path, here: Here) -> None:
    """The same arms in both forms: the same pulls and the same answer, and columns are features under their names."""
    X = np.random.default_rng(0).uniform(0.0, 1.0, (30, 3)).round(3)
    pq.write_table(pa.table({f"f{j}": X[:, j] for j in range(3)}), folder / "arms.parquet")
    lines = ["f0,f1,f2", *(",".join(map(str, row)) for row in X.tolist())]
    (folder / "arms.csv").write_text("\n".join(lines) + "\n")
    answers = []
    for file in ("arms.parquet", "arms.csv"):
        done = here(
            folder,
            "run",
            "--arms",
            file,
            "--noise-std",
            "30",
            "--epsilon",
            "60",
            "--pull",
            BY_INDEX,
            "--format",
            "json",
        )
        assert done.returncode == 0, done.stderr
        answers.append(json.loads(done.stdout))
        assert "arms: 30 arms, 4 features, from " in done.stderr
        assert "\n  numbers     f0, f1, f2\n" in done.stderr
    assert answers[0]["history"] == answers[1]["history"]
    assert answers[0]["best"] == answers[1]["best"]
