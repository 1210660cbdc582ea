"""The code in README and docs runs and prints what the pages show.

The blocks of a page run top to bottom, in one namespace and one folder of their own:

- `python` runs. An `output` block after it is what it prints.
- `python` in an HTML comment runs too: it does what a person does between two commands, such as filling in a sheet.
- `console` is a transcript: `$ ` begins a command, the lines below are what it prints.

In an output `...` stands for any text, such as a time. Breaks of lines count as spaces, since pages wrap long lines.
Commands without their output, or commands that go on for ever, are `sh` blocks, which do not run.
"""

import io
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

from surepick.cli import main as cli
from tests.waiting import LIMIT

ROOT = Path(__file__).parents[2]
DOCS = sorted(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts)
BLOCK = re.compile(r"^```(python|console|output)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block of a page."""

    line: int
    kind: str
    text: str


def blocks(text: str) -> list[Block]:
    """Return the blocks of a page that run or show an output."""
    return [Block(text.count("\n", 0, match.start(2)) + 1, match[1], match[2]) for match in BLOCK.finditer(text)]


def tables(page: Path) -> list[Path]:
    """Return the tables that a page links: a reader downloads them before typing the blocks."""
    links = re.findall(r"\]\(([\w./-]+\.csv)\)", page.read_text("utf-8"))
    return sorted({page.parent / link for link in links})


def in_one_line(text: str) -> str:
    """Return the words of a text with single spaces; the mark of UTF-8 that a sheet begins with is not seen."""
    return " ".join(text.replace("\ufeff", "").split())


def check_output(place: str, shown: str, printed: str) -> None:
    """Refuse an output that is not the one on the page."""
    pattern = ".*?".join(re.escape(part) for part in in_one_line(shown).split("..."))
    assert re.fullmatch(pattern, in_one_line(printed), re.DOTALL), f"{place} shows\n{shown}\nbut prints\n{printed}"


def transcript(text: str) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with the output below it."""
    parts = re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)[1:]
    return [(command, shown) for command, _, shown in (part.partition("\n") for part in parts)]


def typed(command: str) -> str:
    """Return what a command prints; surepick itself runs in this process, which saves its start."""
    words = shlex.split(command, comments=True)
    assert words[:2] != ["surepick", "serve"], "a server does not end: show it in a `sh` block"
    printed = io.StringIO()
    if words[0] == "surepick":
        with redirect_stdout(printed), redirect_stderr(printed):
            cli.main(words[1:])
        return printed.getvalue()
    program = [sys.executable, *words[1:]] if words[0] == "python" else words
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=LIMIT)
    return done.stdout + done.stderr


WITH_CODE = [page for page in (ROOT / "README.md", *DOCS) if blocks(page.read_text("utf-8"))]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block runs without an error after the blocks before it, and prints what the page shows."""
    monkeypatch.chdir(tmp_path)  # an example may write files; they must not land in the repository
    for table in tables(page):
        shutil.copy(table, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as for a script in that folder
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setenv("COLUMNS", "100")
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed = ""
    for line, kind, text in blocks(page.read_text("utf-8")):
        place = f"{page.name}:{line}"
        if kind == "python":
            out = io.StringIO()
            with redirect_stdout(out):
                # Leading newlines make a traceback point at the line of the page.
                exec(compile("\n" * (line - 1) + text, str(page), "exec"), namespace)
            printed = out.getvalue()
        elif kind == "output":
            check_output(place, text, printed)
        else:
            for command, shown in transcript(text):
                check_output(f"{place}: $ {command}", shown, typed(command))


def test_blocks_are_found_with_their_lines() -> None:
    """The extraction returns each block that runs or shows an output with its first line, and no other block."""
    text = "intro\n```python\na = 1\n```\n```text\nno\n```\n```output\nb\n```\n"
    assert blocks(text) == [(3, "python", "a = 1\n"), (9, "output", "b\n")]


def test_a_transcript_is_commands_with_their_outputs() -> None:
    """Long commands may go on in the next line."""
    assert transcript("$ one \\\n  two\nsaid\n\nmore\n$ quiet\n") == [("one    two", "said\n\nmore\n"), ("quiet", "")]


def test_an_output_that_differs_is_refused() -> None:
    """Dots stand for any text, lines may be wrapped, and every other difference counts."""
    check_output("here", "at ...\n\nM11\nwins\n", "at 12:30  \nM11 wins\n")
    for printed in ("at 12:30\nM12 wins\n", "at 12:30\nM11 wins\nand more\n", ""):
        with pytest.raises(AssertionError, match="but prints"):
            check_output("here", "at ...\nM11 wins\n", printed)


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_fits_the_column(page: Path) -> None:
    """A browser of 1280 pixels shows 90 columns of code; `text` blocks may scroll."""
    code = re.findall(r"^```(?:python|console|output|sh|toml)\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    assert [line for block in code for line in block.splitlines() if len(line) > 90] == []


def test_readme_shows_code() -> None:
    """The README has at least one block that is run here."""
    assert ROOT / "README.md" in WITH_CODE
