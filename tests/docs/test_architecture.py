"""The files and folders that docs/architecture.md names exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "surepick"


def test_every_path_on_the_page_exists() -> None:
    """Paths are written from the folder of the package, as in `core/design` or `learning/learner.py`."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    folders = "|".join(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
    named = set(re.findall(rf"\b((?:{folders})/[\w/]+(?:\.py)?)", page))
    assert len(named) > 20
    assert [path for path in sorted(named) if not (PACKAGE / path).exists()] == []
