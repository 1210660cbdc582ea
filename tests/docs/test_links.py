"""Links between README, docs and files lead to a file, and to a heading where they name one."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(p for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts)])
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


def anchors(page: Path) -> set[str]:
    """The anchors of a page: its headings, by GitHub's rule, and targets of its own."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    targets = re.findall(r'(?:^\(|<a id=")([\w-]+)(?:\)=$|">)', text, re.MULTILINE)
    return slugs | set(targets)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    """Every relative link of the page names a file or folder that exists, and an anchor that is on that page."""
    links = [link for link in LINK.findall(page.read_text("utf-8")) if "://" not in link[0] and any(link)]
    assert [link for link, _ in links if not (page.parent / link).exists()] == []
    named = [(page.parent / link if link else page, anchor) for link, anchor in links if anchor]
    assert [(target.name, anchor) for target, anchor in named if anchor not in anchors(target)] == []
