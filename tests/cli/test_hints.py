"""Hints name flags and commands in the shell, and names of Python in Python."""

import re
from pathlib import Path

import pytest
import typer

from surepick.cli.hints import _COMMANDS, _FLAGS, in_shell
from surepick.cli.main import app
from tests.cli.conftest import Here


@pytest.mark.parametrize(
    ("said", "in_the_shell"),
    [
        ("`noise_std` must be given.", "--noise-std must be given."),
        ('these look like pass/fail: rewards="binary"', "these look like pass/fail: --binary"),
        ('Use noise="symmetric", or give reward_range', "Use --noise symmetric, or give --reward-range"),
        ('or without features: model="unstructured"', "or without features: --model unstructured"),
        ('use variant="practical".', "use --option variant=practical."),
        ("but noise_std = 0.05 was given", "but --noise-std 0.05 was given"),
        ("`sheet` is for Excel files", "--sheet is for Excel files"),
        ('or drop="Menge, mol"', "or --drop 'Menge, mol'"),
        ('A price is cost_column="price".', "A price is --costs price."),
        ("is void already; `restore` it", "is void already; surepick restore it"),
        ("estimate it by `noise_from_replicates`", "estimate it by surepick noise"),
        # Texts of users, and words of the language.
        ("arm m=1 theta=0.5 seed='3'", "arm m=1 theta=0.5 seed='3'"),
        ("column 'noise_std' and my_noise_std", "column 'noise_std' and my_noise_std"),
        ("`stopped` and the noise", "`stopped` and the noise"),
        ("use another --log", "use another --log"),
    ],
)
def test_sentences_of_the_library_are_translated(said: str, in_the_shell: str) -> None:
    """Once: what is translated stays as it is."""
    assert in_shell(said) == in_the_shell
    assert in_shell(in_the_shell) == in_the_shell


def test_every_flag_and_command_of_a_hint_exists() -> None:
    """Some command has it."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    flags = {flag for command in commands.values() for one in command.params for flag in one.opts}
    assert set(_FLAGS.values()) <= flags
    assert {command.split()[1] for command in _COMMANDS.values()} <= set(commands)


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--arms", "arms.csv", "--noise-std", "-1", "--pull", "echo {arm}"],
        ["run", "--arms", "arms.csv", "--m", "9", "--noise-std", "1", "--pull", "echo {arm}"],
        [
            "run",
            "--arms",
            "arms.csv",
            "--stopping",
            "pairwise",
            "--misfit",
            "1",
            "--noise-std",
            "1",
            "--pull",
            "a {arm}",
        ],
        ["create", "arms.csv", "--algorithm", "lingape", "--noise-std", "1", "--m", "2"],
        ["plan", "arms.csv", "--gap", "0.1"],
        ["plan", "arms.csv", "--pilot", "pilot.csv"],
    ],
)
def test_errors_of_the_command_line_have_no_names_of_python(arguments: list[str], here: Here, tmp_path: Path) -> None:
    """Errors that the library raises, as a terminal shows them."""
    (tmp_path / "arms.csv").write_text("name,u,v\nA,1,0\nB,0,1\nC,1,1\n")
    (tmp_path / "pilot.csv").write_text("arm,reward\nA,1\n")
    done = here(tmp_path, *arguments)
    assert done.returncode in (1, 2)
    assert "--" in done.stderr
    assert not re.search(r"`[a-z_]+`|\w+=\"|\bnoise_std\b", done.stderr), done.stderr
