import re
from pathlib import Path

import pytest

from benchmarks import __main__ as runner
from surepick.simulation.experiment import read_experiment
from surepick.simulation.jobs import check_cells


def test_unknown_name_is_misuse_and_lists_what_exists(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown benchmark gives exit code 2 and runs nothing."""
    assert runner.run(["no-such-benchmark"]) == 2
    captured = capsys.readouterr()
    assert "no-such-benchmark" in captured.err
    assert captured.out == ""


def test_named_benchmarks_run_in_the_order_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the named benchmarks run, in the order given."""
    ran: list[str] = []
    names = ["first", "second", "third"]
    monkeypatch.setattr(runner, "discover", lambda: {name: [lambda n=name: ran.append(n)] for name in names})
    assert runner.run(["third", "first"]) == 0
    assert ran == ["third", "first"]
    assert "== third ==" in capsys.readouterr().out


def test_parts_of_a_benchmark_can_be_named_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """`study cut kill` runs two parts of one benchmark, `study` all of them, and a part alone is no benchmark."""
    ran: list[tuple[str, ...]] = []
    found = runner.discover()
    monkeypatch.setattr(runner, "discover", lambda: {**found, "study": [lambda *parts: ran.append(parts)]})
    assert runner.run(["study", "cut", "kill"]) == 0
    assert runner.run(["study"]) == 0
    assert runner.run(["cut"]) == 2
    assert ran == [("cut", "kill"), ()]


def test_every_experiment_of_a_benchmark_can_be_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every problem is drawn and every algorithm composed; the benchmarks that the documents name are there."""
    swept: list[str] = []
    monkeypatch.setattr(runner, "run_files", lambda files, _how: swept.extend(file.name for file in files))
    monkeypatch.chdir(tmp_path)
    found = runner.discover()
    for name in ("comparison", "editions", "published_figures", "vector_sets"):
        assert runner.run([name]) == 0
    files = sorted(Path(runner.__file__).parent.glob("*.toml"))
    with_more = ("identification", "pulls")
    assert set(swept) == {file.name for file in files if not file.name.startswith(with_more)}
    for file in files:
        check_cells(read_experiment(file).cells())
    root = Path(runner.__file__).parents[1]
    documents = [root / "README.md", *(root / "docs").glob("*.md")]
    named = {name for file in documents for name in re.findall(r"make bench ARGS=(\w+)", file.read_text("utf-8"))}
    assert named <= set(found)
