from pathlib import Path
from typing import Any

import pytest

from surepick.reporting.experiment_figures import charts, draw, draw_means, evidence_path
from surepick.reporting.experiment_summary import read_section
from surepick.simulation.experiment import read_experiment
from surepick.simulation.jobs import job_of
from surepick.simulation.run import run_once
from tests.reporting.report_folders import PAPER, RUNS, write_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results whose last cell has no runs."""
    return write_folder(tmp_path_factory.mktemp("report") / "runs", PAPER, RUNS)


def published_series(folder: Path) -> dict[str, list[list[float]]]:
    """The hollow lines of the first figure, by their entry in the legend."""
    canvas, _ = draw_means(next(charts(read_section(folder))))
    lines = {bars.get_label(): bars[0] for bars in canvas.axes[0].containers}
    return {name: line.get_xydata().tolist() for name, line in lines.items() if line.get_markerfacecolor() == "white"}


def test_published_series_are_named_after_their_source(tmp_path: Path) -> None:
    """A table beside two algorithms of ours is one series; means of several algorithms of one table are told apart."""
    runs = {**RUNS, ("default", 1): [90, 110]}
    one = write_folder(tmp_path / "one", PAPER, runs)
    assert published_series(one) == {"A paper, Table 1": [[1000, 400], [2500, 400]]}
    head, _, last = PAPER.rpartition("mean = 400.0")
    several = write_folder(tmp_path / "several", f"{head}mean = 300.0{last}", runs)
    assert published_series(several) == {
        "A paper, Table 1, Lazy TS": [[1000, 400]],
        "A paper, Table 1, default": [[1000, 300], [2500, 300]],
    }


def test_distributions_have_axes_of_their_own_and_the_lower_bound(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A panel whose pulls are large does not squeeze another; the bound of 100 is a dashed line in each row."""
    drawn = {}

    def kept(canvas: Any, path: Path, **_: bool) -> tuple[Path, Path]:
        drawn[path.name] = canvas
        return path, path

    monkeypatch.setattr("surepick.reporting.experiment_figures.save", kept)
    captions = [figure.caption for figure in draw(read_section(folder), tmp_path)]
    first, second = drawn["paper-distributions"].axes
    assert first.get_xlim() != second.get_xlim()
    bounds = [line for line in first.lines if line.get_label() == "lower bound"]
    assert [list(line.get_xdata()) for line in bounds] == [[100.0, 100.0]] * 2
    assert any(caption.startswith("Evidence for the leader divided by the threshold") for caption in captions)


def test_an_evidence_path_does_not_change_the_run(tmp_path: Path) -> None:
    """The path ends where the run ends, at its own evidence; it never goes back and crosses 1 only there."""
    (tmp_path / "experiment.toml").write_text(PAPER, "utf-8")
    for cell in read_experiment(tmp_path / "experiment.toml").cells()[:2]:
        outcome = run_once(job_of(cell), 3)
        path = evidence_path(cell, 3)
        assert path[-1].n_pulls == outcome.n_pulls
        assert path[-1].share == outcome.evidence / outcome.target >= 1.0
        assert [look.n_pulls for look in path] == sorted({look.n_pulls for look in path})
        assert all(look.share < 1.0 for look in path[:-1])
