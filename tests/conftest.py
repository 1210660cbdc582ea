"""Settings shared by every test."""

import os

from hypothesis import settings

# The server that tests of studies run on, and what stops it.
from tests.postgres import postgres_server, postgres_url, pytest_configure, pytest_unconfigure

__all__ = ["postgres_server", "postgres_url", "pytest_configure", "pytest_unconfigure"]

# Examples are derived from the test itself, so a run that passes once passes always; set
# HYPOTHESIS_PROFILE=explore to look for new ones. No deadline: timing belongs to the benchmarks.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=20)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
