"""The page of the command line and the schema of a study.toml are what the commands are."""

from docs.commands import PAGE, SCHEMA, cli_page
from surepick.cli.studies.study_file import schema_text


def test_the_page_is_current() -> None:
    """docs/cli.md is what `python -m docs.commands` writes."""
    assert PAGE.read_text("utf-8") == cli_page()


def test_the_schema_is_current() -> None:
    """The published JSON Schema is that of the model that reads a study.toml."""
    assert SCHEMA.read_text("utf-8") == schema_text()
