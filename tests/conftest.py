"""Settings shared by every test."""

import os
import signal
from typing import Any

from hypothesis import HealthCheck, settings

# The server that tests of studies run on, and what stops it.
from tests.postgres import postgres_server, postgres_url, pytest_configure, pytest_unconfigure
from tests.waiting import LIMIT

__all__ = ["postgres_server", "postgres_url", "pytest_configure", "pytest_unconfigure"]

# Read by Dask when it is imported, here and in the processes that it starts; its own limit is 30 s.
os.environ["DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT"] = f"{LIMIT:.0f}s"
os.environ["DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP"] = f"{LIMIT:.0f}s"

# A shell that starts tests in the background lets them ignore Ctrl-C, and what they start would ignore it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Examples are derived from the test itself, so a run that passes once passes always; set
# HYPOTHESIS_PROFILE=explore to look for new ones. Neither is limited in time: timing belongs to the benchmarks.
unhurried: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("repeatable", derandomize=True, max_examples=20, **unhurried)
settings.register_profile("explore", max_examples=1000, **unhurried)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
