"""README: its length, its parts, its pictures, and the commands of its shell as a reader types them."""

import inspect
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import surepick as sp
from tests.docs.test_examples import transcript
from tests.waiting import LIMIT

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text("utf-8")
PARTS = [
    "Install",
    "A real table",
    "From the shell",
    "What it can do",
    "Is it for me?",
    "Why it measures options that lose",
    "What is guaranteed",
    "Results",
    "More",
]


def test_it_is_short_and_has_its_parts() -> None:
    """At most 160 lines; what it is and how to install it come before everything else."""
    assert TEXT.count("\n") <= 160
    assert re.findall(r"^## (.*)$", TEXT, re.MULTILINE) == PARTS
    assert TEXT.index("pip install") < TEXT.index("```python")


def test_pictures_are_there_and_small() -> None:
    """Each has words in its place, and at most 100 kB, so that the page loads on a phone."""
    shown = re.findall(r'<img\s+src="([^"]*)"[^>]*?\balt="([^"]+)"', TEXT)
    others = re.findall(r'srcset="([^"]*)"', TEXT)
    assert len(shown) == TEXT.count("<img") == 5
    sizes = {path: (ROOT / path).stat().st_size for path in [*others, *(path for path, _ in shown)]}
    assert max(sizes.values()) < 100_000, sizes


def test_it_says_what_it_can_do() -> None:
    """Each kind of experiment has a row, whose options exist and whose link leads to a page that has them."""
    table = TEXT[TEXT.index("## What it can do") : TEXT.index("## Is it for me?")]
    links = [link for row in table.splitlines()[4:-1] for link in re.findall(r"\[([^\]]*)\]\(([^)#]*)[^)]*\)", row)]
    assert len(links) == 10
    options = {name for words, _ in links for name in re.findall(r"(\w+)=", words)}
    assert options >= {"groups", "drift", "noise", "pool", "threshold", "control", "batch", "budget", "goal", "m"}
    assert options <= set(inspect.signature(sp.identify).parameters)
    for words, page in links:
        said = (ROOT / page).read_text("utf-8")
        assert all(f"{name}=" in said for name in re.findall(r"(\w+)=", words)), page


def test_drawings_fetch_nothing() -> None:
    """The live view uses the fonts of the reader."""
    drawn = (ROOT / "docs" / "images" / "live.svg").read_text("utf-8")
    assert set(re.findall(r"https?://[^\s\"')]*", drawn)) <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}


def test_extras_exist() -> None:
    """Every extra that README names is declared."""
    declared = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    table = TEXT[TEXT.index("| extra |") : TEXT.index("surepick needs Python")]
    named = set(
        re.findall(r"`(\w+)`(?=[,| ])", "\n".join(row.split("|")[1] + "|" for row in table.splitlines()[2:] if row))
    )
    named |= set(re.findall(r"surepick\[([\w,]+)\]", TEXT)[0].split(","))
    assert len(named) >= 6
    assert named <= set(declared)


def test_make_targets_exist() -> None:
    """Every `make` command of README is in the Makefile."""
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    named = set(re.findall(r"`make (\w+)", TEXT))
    assert {"run", "test", "serve"} <= named <= set(targets)


def test_the_shell(tmp_path: Path) -> None:
    """All commands work in a new folder, one process each, and leave a study."""
    shutil.copy(ROOT / "examples" / "data" / "mixtures.csv", tmp_path)
    block = re.search(r"```console\n(.*?)```", TEXT, re.DOTALL)
    assert block is not None
    typed = [command for command, _ in transcript(block[1])]
    assert len(typed) == 3
    said = ""
    for line in [*typed, "surepick status"]:
        command = [sys.executable, "-m", *shlex.split(line)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=LIMIT)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        said = done.stdout
    assert "mixtures" in said
    assert "1 open" in said
    assert (tmp_path / "surepick.db").exists()
