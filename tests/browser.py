"""A real browser for tests of pages."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright import sync_api as playwright

from tests.waiting import LIMIT

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
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=LIMIT * 1000)
        yield browser
        browser.close()


def offline_context(browser: Any, width: int) -> Any:
    """Windows of that width, without a network."""
    context = browser.new_context(viewport={"width": width, "height": 844}, offline=True)
    context.set_default_timeout(LIMIT * 1000)
    return context
