"""Stories of people who have the README and --help alone."""

from tests.cli.conftest import here

__all__ = ["here"]
