"""Waiting for another thread, process or server: for a condition, never for a time that a quick machine needs."""

import time
from collections.abc import Callable

import httpx

LIMIT = 300.0
"""Seconds until a test gives up: a busy machine takes less by far, and a test that hangs still ends."""


def until(happens: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    give_up = time.monotonic() + LIMIT
    while not happens():
        assert time.monotonic() < give_up, f"the condition does not hold after {LIMIT:.0f} s"
        time.sleep(0.01)


def answers(url: str) -> bool:
    """Return whether a server answers."""
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False
