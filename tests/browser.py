"""A real browser for tests of pages."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright import sync_api as playwright

CHROMIUM = shutil.which("chromium")
# As root a browser has no sandbox of its own, and the rest keeps it from looking for its maker's servers.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# In CI a missing browser is an error, not a reason to skip.
needs_browser = pytest.mark.skipif(CHROMIUM is None and "CI" not in os.environ, reason="needs Chromium")


@contextmanager
def open_browser() -> Iterator[Any]:
    """Headless Chromium."""
    with playwright.sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()
