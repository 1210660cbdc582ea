"""The page of the command line and the schema of a study.toml are what the commands are."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from docs.commands import EXAMPLE, PAGE, SCHEMA, cli_page, commands, examples
from surepick.cli.studies.study_file import schema_text
from tests.docs.test_examples import blocks, transcript


def test_the_page_is_current() -> None:
    """docs/cli.md is what `python -m docs.commands` writes."""
    assert PAGE.read_text("utf-8") == cli_page()


def test_the_schema_is_current() -> None:
    """The published JSON Schema is that of the model that reads a study.toml."""
    assert SCHEMA.read_text("utf-8") == schema_text()


def called(name: str, example: str) -> bool:
    """Whether an example calls the command and shows its output."""
    typed = [one for block in blocks(example) if block.kind == "console" for one in transcript(block.text)]
    words = name.split()
    return any(shlex.split(command)[1 : 1 + len(words)] == words and shown.strip() for command, shown in typed)


def test_every_command_has_an_example_with_its_output() -> None:
    """`test_examples.py` compares the outputs; a server does not end, and agents speak to `mcp` without a shell."""
    shown = examples()
    names = {name for name, _ in commands()}
    assert {"ask", "token create", "bench compare"} <= names == set(shown)
    assert {name for name in names if not called(name, shown[name])} == {"serve", "mcp"}
    assert [block.kind for block in blocks(shown["mcp"])] == ["python", "output"]


def test_a_command_without_an_example_is_found() -> None:
    """Neither another command nor a command without its output is an example."""
    typed = "```console\n$ surepick tell 1 2\nsaid\n$ surepick ask\n```\n"
    page = f"### ask\n\n{typed}\n```text\nUsage: surepick ask\n```\n"
    ((name, example),) = EXAMPLE.findall(page)
    assert not called(name, example)
    assert called(name, example.replace("surepick ask\n", "surepick ask\nsaid\n"))


def test_the_server_says_what_the_page_shows(tmp_path: Path) -> None:
    """The example of `serve`, with another port."""
    (shown,) = re.findall(r"```text\n(.*)\n```", examples()["serve"])
    command = [sys.executable, "-m", "surepick", "serve", "--port", "0"]
    variables = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=variables) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        process.kill()
    assert re.sub(r":\d+;", ":8080;", said.strip()) == shown
