"""`surepick reproduce` and `surepick bench` as a user meets them."""

import csv
import io
import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from surepick.cli import main as cli
from surepick.simulation.experiment import named_experiments
from surepick.simulation.store import Store
from tests.simulation.tiny import tiny, tiny_text
from tests.waiting import LIMIT, until

PLUGIN = """
class Own:
    def __init__(self):
        pass

    def compose(self, task):
        from surepick.algorithms import Uniform
        if task.seed % 5 == 1:
            raise ZeroDivisionError("mine")
        return Uniform().compose(task)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small experiment, in which the commands are run."""
    (tmp_path / "tiny.toml").write_text(tiny_text())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a sweep of the small experiment leaves in `out`, to be copied."""
    made = tmp_path_factory.mktemp("swept")
    (made / "tiny.toml").write_text(tiny_text())
    assert cli.main(["bench", "run", str(made / "tiny.toml"), "--jobs", "1", "--out", str(made / "out")]) == 0
    return made / "out"


@pytest.fixture
def done(folder: Path, swept: Path) -> Path:
    """The folder of the small experiment, with its runs and its report."""
    shutil.copytree(swept, folder / "out")
    return folder


def run_tiny(*arguments: str) -> int:
    """Sweep the small experiment in this process."""
    return cli.main(["bench", "run", "tiny.toml", "--jobs", "1", *arguments])


def test_a_file_is_run_kept_and_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Quick runs by default; the second time there is nothing to do; --runs and --full add what is missing."""
    assert run_tiny() == 0
    assert "tiny: 12 runs in" in capsys.readouterr().out
    assert pq.read_table(folder / "out" / "tiny" / "runs.parquet").num_rows == 12
    assert (folder / "out" / "tiny" / "experiment.toml").read_text() == tiny_text()
    assert "Tiny" in (folder / "out" / "report.md").read_text()
    assert (folder / "out" / "report.html").exists()
    assert run_tiny("--runs", "3") == 0
    assert re.search(r"tiny: 0 runs in [0-9.]+ s, 12 were there", capsys.readouterr().out)
    assert run_tiny("--full") == 0
    assert "tiny: 36 runs in" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:the rule printed in the paper")
def test_named_experiments_are_listed_and_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The list names all; one run each of the smallest goes through to its report."""
    assert cli.main(["reproduce", "--list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in named_experiments())
    assert cli.main(["reproduce", "sphere", "--runs", "1", "--jobs", "1", "--out", "there"]) == 0
    assert (folder / "there" / "sphere" / "runs.parquet").exists()
    assert (folder / "there" / "report.md").exists()


def test_a_report_is_made_of_what_a_killed_sweep_left(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of one folder of results or of a folder of such; runs that are not in the table yet are in it."""
    results = done / "out" / "tiny"
    left = Store(results, tiny())
    left.append([pq.read_table(results / "runs.parquet").to_pylist()[0] | {"run": 77}])
    left._db.close()
    for place in ("out", "out/tiny"):
        (done / place / "report.html").unlink(missing_ok=True)
        assert cli.main(["bench", "report", place]) == 0
        assert (done / place / "report.html").exists()
    assert pq.read_table(results / "runs.parquet").num_rows == 13
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["reproduce", "paper-table-9"], "an experiment must be one of"),
        (["reproduce", "--full", "--runs", "3"], "one number of runs is needed, got --full and --runs"),
        (["reproduce", "--runs", "0"], "--runs must be at least 1, got 0"),
        (["bench", "run", "none.toml"], "cannot read none.toml: No such file or directory"),
        (["bench", "run", "tiny.toml", "tiny.toml"], "every experiment needs a folder of its own, got 'tiny' twice"),
        (["bench", "run", "tiny.toml", "--dask", "tcp://x:1", "--jobs", "2"], "--jobs belongs to this machine"),
        (["bench", "run", "tiny.toml", "--jobs", "0"], "`n_jobs` must be"),
        (["bench", "run", "tiny.toml", "--out", "tiny.toml"], "--out must be a folder, and tiny.toml is a file"),
        (["bench", "run", "tiny.toml", "--out", "tiny.toml/x"], "--out must be a folder, and tiny.toml is a file"),
        (["reproduce", "sphere", "--out", "tiny.toml"], "--out must be a folder, and tiny.toml is a file"),
        (["bench", "report", "none"], "there is no folder none"),
        (["bench", "report", "."], "has no experiment.toml, nor has a folder in it"),
        (["bench", "run"], "Missing argument"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_misuse_is_one_sentence(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, one line on standard error, no traceback."""
    assert cli.main(arguments) == 2
    err = capsys.readouterr().err
    assert complaint in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("seed = 7", "seed = -7"), "`seed` must be a whole number of at least 0, got -7"),
        (("unit_basis", "unit_bases"), "`name` must be one of many_arms"),
        (('name = "uniform"\n\n', 'name = "equally"\n\n'), "got 'equally'"),
        (("stopping = ", "stop_rule = "), "there is no option 'stop_rule'; the options are"),
        (("[[problems]]", "[[problems]"), "must be TOML"),
    ],
)
def test_bad_experiments_are_one_sentence(
    change: tuple[str, str], complaint: str, done: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and the runs that are there stay as they are."""
    table = (done / "out" / "tiny" / "runs.parquet").read_bytes()
    (done / "tiny.toml").write_text(tiny_text(change))
    capsys.readouterr()
    assert run_tiny("--runs", "5") == 2
    err = capsys.readouterr().err
    assert complaint in err
    assert err.count("\n") == 1
    if "stop_rule" in change[1]:  # the table is of the experiment as it is now; runs of before are kept beside it
        assert pq.read_table(done / "out" / "tiny" / "runs.parquet").num_rows == 6
        (done / "tiny.toml").write_text(tiny_text())
        assert run_tiny() == 0
        assert pq.read_table(done / "out" / "tiny" / "runs.parquet").num_rows == 12
        assert "12 were there" in capsys.readouterr().out
    else:
        assert (done / "out" / "tiny" / "runs.parquet").read_bytes() == table


def test_damage_is_one_sentence(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Database or table damaged, or a folder of another experiment: nothing is overwritten."""
    results = done / "out" / "tiny"
    (results / "runs.sqlite").write_text("nonsense\n")
    capsys.readouterr()
    assert run_tiny("--runs", "5") == 1
    said = capsys.readouterr().err
    assert "out/tiny/runs.sqlite is damaged or no SQLite file; move it away; surepick makes it again" in said
    (results / "runs.sqlite").unlink()
    table = (results / "runs.parquet").read_bytes()
    (results / "runs.parquet").write_bytes(table[:-9])
    for command in (
        ["bench", "report", "out"],
        ["bench", "run", "tiny.toml"],
        ["bench", "compare", *[str(results / "runs.parquet")] * 2],
    ):
        assert cli.main(command) == 1
        err = capsys.readouterr().err
        assert "runs.parquet is damaged" in err
        assert err.count("\n") == 1
    assert (results / "runs.parquet").read_bytes() == table[:-9]
    (results / "experiment.toml").write_text(tiny_text(('name = "tiny"', 'name = "other"')))
    assert run_tiny() == 2
    assert "out/tiny belongs to the experiment 'other', got 'tiny'" in capsys.readouterr().err


def test_failed_runs_are_reported_at_the_end(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for the first failure of each cell; the others are kept and reported; exit code 1."""
    (folder / "own.py").write_text(PLUGIN)
    (folder / "tiny.toml").write_text(tiny_text(('name = "uniform"\n\n', 'plugin = "own.py:Own"\n\n')))
    assert run_tiny("--runs", "8") == 1
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("surepick: uniform on unit_basis(means=[3.0, 0.0, 0.0]) at delta 0.1, run ")
    assert lines[0].endswith("ZeroDivisionError: mine (own.py, line 9)")
    assert "runs failed" in lines[2]
    assert "report:" in out


def test_comparison_of_two_tables(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same twice is identical; twice the noise is not. All formats, exit codes 0 and 1."""
    long = ("max_pulls = 8", "max_pulls = 300")
    noisy = ("1.0, 0.0]] }", "1.0, 0.0]] } # noisier")
    (folder / "tiny.toml").write_text(tiny_text(long))
    assert run_tiny("--runs", "10", "--out", "a") == 0
    (folder / "tiny.toml").write_text(tiny_text(long, noisy, ("delta = [0.1]", "delta = [0.1, 1e-9]")))
    assert run_tiny("--runs", "10", "--out", "b") == 0
    capsys.readouterr()
    a, b = "a/tiny/runs.parquet", "b/tiny/runs.parquet"
    assert cli.main(["bench", "compare", a, b]) == 0
    out = capsys.readouterr().out
    assert "0 of 4 cells changed beyond noise at level 0.05; 0 tests" in out
    assert out.count("only in the second: ") == 4
    # As if new code needed the pulls of a much smaller delta.
    table = pq.read_table(b)
    careful = table.filter(table["delta"].to_numpy() == 1e-9)
    index = careful.schema.get_field_index("delta")
    pq.write_table(careful.set_column(index, careful.schema.field("delta"), [[0.1] * len(careful)]), "c.parquet")
    assert cli.main(["bench", "compare", a, "c.parquet"]) == 1
    assert "4 of 4 cells changed beyond noise at level 0.05; 8 tests" in capsys.readouterr().out
    assert cli.main(["bench", "compare", a, "c.parquet", "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [cell["verdict"] for cell in found["cells"]] == ["changed"] * 4
    assert found["n_tests"] == 8
    assert cli.main(["bench", "compare", a, a, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["verdict"] for row in rows] == ["identical"] * 4
    assert rows[0]["first_mean"] == rows[0]["second_mean"]


def test_ctrl_c_says_how_to_go_on(folder: Path) -> None:
    """One line and exit code 3; the next command does the rest."""
    command = [sys.executable, "-m", "surepick", "bench", "run", "tiny.toml", "--runs", "2000", "--jobs", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        kept = folder / "out" / "tiny" / "runs.sqlite-wal"
        until(lambda: kept.exists() and kept.stat().st_size > 50_000)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 3
    assert err == "surepick: interrupted; finished runs are in out/tiny, the same command goes on from there\n"
    n_kept = pq.read_table(folder / "out" / "tiny" / "runs.parquet").num_rows
    assert 0 < n_kept < 8000
