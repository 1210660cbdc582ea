"""The Dockerfile and the compose file say what docs/server.md says of them; they cannot be run here."""

import json
import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from typer.main import get_command

from surepick.cli.main import app

ROOT = Path(__file__).parents[2]


def _instructions() -> dict[str, list[str]]:
    """Return the instructions of the Dockerfile, lines that go on joined."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text("utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    found: dict[str, list[str]] = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        found.setdefault(word, []).append(rest.strip())
    return found


def test_the_image_runs_without_root_and_is_watched() -> None:
    """A user of its own, a volume for studies, a health check at a route that exists."""
    found = _instructions()
    assert found["USER"] == ["surepick"]
    assert found["VOLUME"] == ["/data"]
    assert "/readyz" in found["HEALTHCHECK"][0]
    assert found["ENV"] == ["SUREPICK_STORAGE=/data/surepick.db"]


def test_what_the_image_copies_exists() -> None:
    """And is all that the build of the package needs."""
    sources = [word for line in _instructions()["COPY"] for word in line.split()[:-1]]
    assert [one for one in sources if not (ROOT / one).exists()] == []
    assert {"pyproject.toml", "src", "README.md", "LICENSE", "examples/naive", "tools/pypi_readme.py"} <= {*sources}


def test_the_image_calls_a_command_that_exists() -> None:
    """With options that the command has."""
    found = _instructions()
    assert json.loads(found["ENTRYPOINT"][0]) == ["surepick"]
    name, *options = json.loads(found["CMD"][0])
    group: Any = get_command(app)
    group.commands[name].make_context(name, options)


def test_the_extras_of_the_image_exist() -> None:
    """Each is one of pyproject.toml."""
    (named,) = re.findall(r"\.\[([\w,]+)\]", _instructions()["RUN"][0])
    declared = (ROOT / "pyproject.toml").read_text("utf-8")
    assert [one for one in named.split(",") if f"\n{one} = [" not in declared] == []


def test_compose_has_a_server_on_a_database() -> None:
    """The server waits for the database, and is reachable from this machine alone."""
    document = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    server, database = document["services"]["server"], document["services"]["database"]
    assert server["depends_on"]["database"]["condition"] == "service_healthy"
    assert "healthcheck" in database
    assert all(port.startswith("127.0.0.1:") for port in server["ports"])
    assert server["environment"]["SUREPICK_STORAGE"].startswith("postgresql://surepick:")
    assert {volume.partition(":")[0] for volume in database["volumes"]} == {*document["volumes"]}
