"""Forks of a process with threads: the child inherits every lock as held, without the thread that would release it.

Such locks are surepick's, SQLite's, those of BLAS, of imports, of `cached_property`: no list is complete. So a fork
waits until no other thread works on a study (`no_fork`), and objects with a lock, a connection or a state replace them
in the child (`at_forks`).
"""

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

PATIENCE = 120.0
"""Seconds that a fork waits for work to end before it goes ahead: twice as long as a transaction waits for others."""

_free = threading.Condition(threading.Lock())
_here = threading.local()  # `depth`: how many blocks of `no_fork` this thread is in
_n_at_work = 0  # threads in such a block
_n_forking = 0  # forks that wait or happen; new work waits for them
_owners: "weakref.WeakSet[Forked]" = weakref.WeakSet()


class Forked(Protocol):
    """An object whose locks, connections or state a child of a fork must not share."""

    def before_fork(self) -> None:
        """Close idle connections; other threads have paused."""

    def renew(self) -> None:
        """In the child: replace locks, connections and state, and send nothing over inherited connections."""


@contextmanager
def no_fork() -> Iterator[None]:
    """Let no other thread fork the process while the block runs. The block must not wait for a thread that forks."""
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
    """Call the owner's methods at every fork, as long as the owner lives."""
    _owners.add(owner)


def _pause() -> None:
    global _n_forking  # noqa: PLW0603 (one for the process)
    with _free:
        _n_forking += 1
        own = 1 if getattr(_here, "depth", 0) else 0  # a thread that forks inside such a block does not wait for itself
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
