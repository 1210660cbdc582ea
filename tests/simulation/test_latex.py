"""Tables and figures for a paper."""

from pathlib import Path

import pytest

from surepick.cli import main as cli
from surepick.simulation import problems, simulate
from surepick.simulation.runs import latex_text
from surepick.simulation.store import sweep
from tests.simulation.tiny import tiny


def test_runs_are_a_latex_table() -> None:
    """A row for each; signs that LaTeX reads are escaped."""
    easy = problems.unit_basis([1.0, 0.0])
    runs = simulate(easy, n_runs=3, seed=1)
    table = runs.to_latex(simulate(easy, "uniform", n_runs=1, seed=1))
    lines = table.splitlines()
    assert lines[0] == r"\begin{tabular}{llrrrrrr}"
    assert lines[4].startswith(rf"lazy-track-and-stop & unit-basis d=2 & 0.05 & 3 & {runs.mean:.1f} & {runs.se:.1f} &")
    assert "& -- &" in lines[5]  # one run has no standard error
    assert all(line.endswith(r" \\") for line in (lines[2], *lines[4:6]))
    assert latex_text(r"a_b & 5 % \x") == r"a\_b \& 5 \% \textbackslash{}x"


def test_a_report_for_a_paper(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Algorithms down, problems across; figures as PDF, one column and two columns wide."""
    sweep(tiny(), tmp_path / "tiny", n_runs=3)
    assert cli.main(["bench", "report", str(tmp_path / "tiny"), "--latex"]) == 0
    assert "report.tex" in capsys.readouterr().out
    table = (tmp_path / "tiny" / "report.tex").read_text()
    assert table.count(r"\begin{tabular}{llrr}") == 1
    assert r"\nuniform & betting & $" in repr(table)
    assert r"\dagger" in table  # runs that did not stop within 8 pulls
    assert r"$\delta = 0.1$, seed 7." in table
    assert "(0 of 3)" in table
    for name, points in (("1col", 234), ("2col", 486)):  # 72 points an inch
        (figure,) = (tmp_path / "tiny").glob(f"*distributions-{name}.pdf")
        box = figure.read_bytes().split(b"/MediaBox [")[1].split(b"]")[0].split()
        assert float(box[2]) == pytest.approx(points)
    assert cli.main(["bench", "report", str(tmp_path / "tiny")]) == 0
