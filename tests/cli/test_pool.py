"""A pool at the command line: the flag, asks that name their item, and a study.toml with names."""

import json
from pathlib import Path

from tests.cli.conftest import Here

PROMPTS = "prompt,words\nshort,10\nlong,200\npolite,30\n"


def test_create_ask_and_tell(tmp_path: Path, here: Here) -> None:
    """The flag makes a pool, and asks name their items."""
    (tmp_path / "prompts.csv").write_text(PROMPTS)
    made = here(tmp_path, "create", "prompts.csv", "--pool", "20", "--binary")
    assert made.returncode == 0, made.stderr
    asked = here(tmp_path, "ask", "-n", "3")
    assert " ".join(asked.stdout.split()).count("item ") >= 3
    (first, *_) = json.loads(here(tmp_path, "pending", "--format", "json").stdout)
    assert first["group"].keys() == {"item"}
    assert here(tmp_path, "tell", str(first["id"]), "1").returncode == 0
    refused = here(tmp_path, "tell", str(first["name"]), "1", "--yes")
    assert refused.returncode != 0
    assert "takes the scores that it asks for" in refused.stderr


def test_study_file_with_names(tmp_path: Path, here: Here) -> None:
    """A study.toml may name the items."""
    (tmp_path / "prompts.csv").write_text(PROMPTS)
    (tmp_path / "study.toml").write_text('arms = "prompts.csv"\nbinary = true\npool = ["France", "Peru", "Chad"]\n')
    made = here(tmp_path, "create", "--file", "study.toml")
    assert made.returncode == 0, made.stderr
    assert here(tmp_path, "ask", "-n", "9").returncode == 0
    asks = json.loads(here(tmp_path, "pending", "--format", "json").stdout)
    assert {ask["group"]["item"] for ask in asks} == {"France", "Peru", "Chad"}


def test_words_of_refusals(tmp_path: Path, here: Here) -> None:
    """Refusals name flags."""
    (tmp_path / "prompts.csv").write_text(PROMPTS)
    for given, said in ((["--pool", "20"], "--binary"), (["--pool", "1", "--binary"], "2 to 1,000,000")):
        refused = here(tmp_path, "create", "prompts.csv", *given)
        assert refused.returncode == 2
        assert "--pool" in refused.stderr
        assert said in refused.stderr
