"""The command line in the process of the tests."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from surepick.cli import main as cli


class Said(NamedTuple):
    """How a command ended, under the names of `subprocess`."""

    returncode: int
    stdout: str
    stderr: str


Here = Callable[..., Said]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """Run commands in a folder without a start of the interpreter; as in a pipe no stream is a terminal."""

    def run(folder: Path, *arguments: str, keys: str = "") -> Said:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "stdin", io.StringIO(keys))
        capsys.readouterr()
        return Said(cli.main(arguments), *capsys.readouterr())

    return run
