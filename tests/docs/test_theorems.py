"""Theorems of docs/guarantee.md: numbered in the order of their proofs, and called by their numbers everywhere else."""

import re
from pathlib import Path

import pytest

from docs.parts import anchored

ROOT = Path(__file__).parents[2]
GUARANTEE = (ROOT / "docs" / "guarantee.md").read_text("utf-8")
NUMBERS = [int(number) for number in re.findall(r"^\*\*Theorem (\d+)[ .]", GUARANTEE, re.MULTILINE)]
FOLDERS = ("src", "docs", "tests", "tools", "benchmarks", "examples")
FILES = sorted(
    [
        *ROOT.glob("*.md"),
        *(file for folder in FOLDERS for kind in ("py", "md") for file in (ROOT / folder).rglob(f"*.{kind}")),
    ]
)
MENTION = re.compile(
    r"(?<!\d\d\d\d\), )\bTheorems?\s+(?:#\s+)?(\d+(?:(?:,\s+(?:and\s+|or\s+)?|\s+(?:and|or)\s+|\s+\(or\s+)\d+)*)"
)
"""One or more numbers after the word; those after a year are theorems of a paper."""
LINK = re.compile(r"\[([^][]*)\]\(([^)\s]*guarantee\.md)?(#[^)\s]*)?\)")


def mentioned(text: str) -> set[int]:
    """Numbers of theorems in a text."""
    return {int(number) for found in MENTION.findall(text) for number in re.findall(r"\d+", found)}


def strayed(text: str) -> list[str]:
    """Links that name a theorem and do not lead to it, and links to a theorem that do not name it."""
    faults = []
    for words, page, anchor in LINK.findall(text):
        targets = [f"#theorem-{number}" for number in mentioned(words)]
        is_named = (page or anchor) and len(targets) == 1
        if (is_named or anchor.startswith("#theorem-")) and targets != [anchor]:
            faults.append(words)
    return faults


def test_theorems_are_numbered_as_they_come() -> None:
    """1, 2, 3 and so on; each comes after its own anchor."""
    assert list(range(1, len(NUMBERS) + 1)) == NUMBERS
    anchors = re.findall(r'^<a id="theorem-(\d+)"></a>\n\n\*\*Theorem (\d+)[ .]', GUARANTEE, re.MULTILINE)
    assert anchors == [(str(number), str(number)) for number in NUMBERS]


@pytest.mark.parametrize("folder", ["", *FOLDERS])
def test_every_theorem_that_is_mentioned_exists(folder: str) -> None:
    """In pages, docstrings and comments; and links that name one lead to it."""
    missing, faults = {}, {}
    for file in FILES:
        name = file.relative_to(ROOT)
        if (name.parts[0] if len(name.parts) > 1 else "") == folder and file != Path(__file__):
            text = file.read_text("utf-8")
            missing[str(name)] = mentioned(text) - set(NUMBERS)
            faults[str(name)] = strayed(text) if file.suffix == ".md" else []
    assert {name: found for name, found in missing.items() if found} == {}
    assert {name: found for name, found in faults.items() if found} == {}


def test_numbers_of_the_table_exist() -> None:
    """The table of what a caller may do has numbers in brackets, without the word."""
    rows = [line for line in GUARANTEE.splitlines() if line.startswith("|")]
    found = {
        int(number) for row in rows for few in re.findall(r"\((\d+(?:, \d+)*)\)", row) for number in few.split(", ")
    }
    assert len(found) > 5
    assert found <= set(NUMBERS)


def test_mentions_are_found_in_all_their_forms() -> None:
    """Lists, lines that break, comments; a theorem of a paper is not ours."""
    text = (
        "Theorem 3 (or 19, 20) and Theorems 6\nand 15, by Smith (2011), Theorem 99\n# Theorem\n# 7; Theorem 21 or 26."
    )
    assert mentioned(text) == {3, 19, 20, 6, 15, 7, 21, 26}
    links = "[Theorem 2](guarantee.md#theorem-2) [Theorem 2](guarantee.md) [Theorem 3](#theorem-2) [proof](#theorem-4)"
    assert strayed(links) == ["Theorem 2", "Theorem 3", "proof"]


def test_anchors_become_targets() -> None:
    """Only those that have a line of their own."""
    assert anchored('<a id="theorem-1"></a>\n\ntext <a id="x"></a>') == '(theorem-1)=\n\ntext <a id="x"></a>'
