"""The experiment that docs/extending.md shows can be read; its other blocks run in test_examples."""

import re
from pathlib import Path

from surepick.simulation.experiment import read_experiment

ROOT = Path(__file__).parents[2]


def test_the_experiment_on_the_page_can_be_read(tmp_path: Path) -> None:
    """Beside the file of its algorithm it describes one cell per problem, algorithm and delta."""
    page = (ROOT / "docs" / "extending.md").read_text("utf-8")
    (written,) = re.findall(r'^```toml\n(name = "mine".*?)^```$', page, re.MULTILINE | re.DOTALL)
    (tmp_path / "mine.toml").write_text(written, "utf-8")
    (tmp_path / "own_algorithm.py").write_text((ROOT / "examples" / "own_algorithm.py").read_text("utf-8"), "utf-8")
    assert len(read_experiment(tmp_path / "mine.toml").cells()) == 8
