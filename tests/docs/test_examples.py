"""The code in README and docs runs: the python blocks of a page in one namespace, top to bottom."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(text: str) -> list[tuple[int, str]]:
    """Line number and source of each python block of a page."""
    return [(text.count("\n", 0, match.start(1)) + 1, match[1]) for match in BLOCK.finditer(text)]


WITH_CODE = [page for page in PAGES if "_build" not in page.parts and blocks(page.read_text("utf-8"))]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every python block of the page runs without an error after the blocks before it."""
    monkeypatch.chdir(tmp_path)  # an example may write files; they must not land in the repository
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, source in blocks(page.read_text("utf-8")):
        # Leading newlines make a traceback point at the line of the page.
        exec(compile("\n" * (line - 1) + source, str(page), "exec"), namespace)


def test_blocks_are_found_with_their_lines() -> None:
    """The extraction returns each python block with its first line, and no other block."""
    text = "intro\n```python\na = 1\n```\n```text\nno\n```\n```python\nb = a\n```\n"
    assert blocks(text) == [(3, "a = 1\n"), (9, "b = a\n")]


def test_readme_shows_code() -> None:
    """The README has at least one block that is run here."""
    assert ROOT / "README.md" in WITH_CODE
