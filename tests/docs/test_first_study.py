"""The commands of README's "Your first study in five commands", typed as they stand there."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tests.waiting import LIMIT

ROOT = Path(__file__).parents[2]


def commands() -> list[str]:
    """The lines of the block."""
    section = (ROOT / "README.md").read_text("utf-8").partition("## Your first study in five commands")[2]
    block = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert block is not None
    return block[1].splitlines()


def test_the_first_study_of_the_readme(tmp_path: Path) -> None:
    """All five work in a new folder, one process each, and the last says what the others did."""
    shutil.copytree(ROOT / "examples" / "data", tmp_path / "examples" / "data")
    typed = commands()
    assert len(typed) == 5
    said = ""
    for line in typed:
        assert line.startswith("surepick ")
        command = [sys.executable, "-m", *shlex.split(line)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=LIMIT)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        said = done.stdout
    assert "mixtures" in said
    assert "3 open" in said
    assert (tmp_path / "surepick.db").exists()
