"""The files and folders that docs/architecture.md names exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_path_on_the_page_exists() -> None:
    """Paths are written from the folder of the package, as in `core/design` or `learning/learner.py`."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = set(re.findall(r"\b((?:core|arms|stopping|sampling|algorithms|learning|study)/[\w/]+(?:\.py)?)", page))
    assert len(named) > 20
    assert [path for path in sorted(named) if not (ROOT / "src" / "surepick" / path).exists()] == []
