"""Evidence paths are those of the runs in the table."""

from pathlib import Path

from surepick.reporting.experiment_page import evidence_path
from surepick.simulation.experiment import job_of, read_experiment
from surepick.simulation.run import run_once
from tests.reporting.report_folders import PAPER


def test_looking_does_not_change_the_run(tmp_path: Path) -> None:
    """The path ends where the run ends, at its own evidence; it never goes back and crosses 1 only there."""
    (tmp_path / "experiment.toml").write_text(PAPER, "utf-8")
    for cell in read_experiment(tmp_path / "experiment.toml").cells()[:2]:
        outcome = run_once(job_of(cell), 3)
        path = evidence_path(cell, 3)
        assert path[-1].n_pulls == outcome.n_pulls
        assert path[-1].share == outcome.evidence / outcome.target >= 1.0
        assert [look.n_pulls for look in path] == sorted({look.n_pulls for look in path})
        assert all(look.share < 1.0 for look in path[:-1])
