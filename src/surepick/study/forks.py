"""Forks beside threads: a child has every lock as it was at the fork, and not the thread that would let go of it.

Such locks are ours, SQLite's, those of BLAS, of an import, of a `cached_property`: no list of them is complete. So a
fork waits until no other thread is at work on a study (`no_fork`), and owners of locks, connections or states make
them anew in the child (`at_forks`).
"""

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

PATIENCE = 120.0
"""Seconds that a fork waits for work to end, twice as long as a turn waits for others; then it goes ahead."""

_free = threading.Condition(threading.Lock())
_here = threading.local()  # `depth`: how many blocks of `no_fork` this thread is in
_n_at_work = 0  # threads in such a block
_n_forking = 0  # forks that wait or happen; they come before new work
_owners: "weakref.WeakSet[Forked]" = weakref.WeakSet()


class Forked(Protocol):
    """Has what a child of a fork must not have."""

    def before_fork(self) -> None:
        """Let go of what is not in use; other threads have paused."""

    def renew(self) -> None:
        """In the child: make all anew, without telling the parent."""


@contextmanager
def no_fork() -> Iterator[None]:
    """Let no other thread fork the process while the block runs; keep it short of waiting for the forking thread."""
    global _n_at_work  # noqa: PLW0603 (one for the process)
    depth = getattr(_here, "depth", 0)
    if not depth:
        with _free:
            while _n_forking:
                _free.wait()
            _n_at_work += 1
    _here.depth = depth + 1
    try:
        yield
    finally:
        _here.depth = depth
        if not depth:
            with _free:
                _n_at_work -= 1
                _free.notify_all()


def at_forks(owner: Forked) -> None:
    """Call the owner's methods at every fork, as long as it lives."""
    _owners.add(owner)


def _pause() -> None:
    global _n_forking  # noqa: PLW0603 (one for the process)
    with _free:
        _n_forking += 1
        own = 1 if getattr(_here, "depth", 0) else 0  # who forks in the middle of something does not wait for itself
        _free.wait_for(lambda: _n_at_work <= own, PATIENCE)
    for owner in list(_owners):
        owner.before_fork()


def _go_on() -> None:
    global _n_forking  # noqa: PLW0603 (one for the process)
    with _free:
        _n_forking -= 1
        _free.notify_all()


def _begin_anew() -> None:
    global _free, _n_at_work, _n_forking  # noqa: PLW0603 (one for the process)
    _free = threading.Condition(threading.Lock())
    _n_at_work, _n_forking = (1 if getattr(_here, "depth", 0) else 0), 0
    for owner in list(_owners):
        owner.renew()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(before=_pause, after_in_parent=_go_on, after_in_child=_begin_anew)
