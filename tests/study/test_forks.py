"""Forks of a process whose threads are at work on a study: no child waits for a thread that only its parent has."""

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from benchmarks.study_common import NAME, check, endless, value_of
from surepick.study.admin import load_study
from surepick.study.storage import base, open_storage
from surepick.study.study import Study
from tests.study.storages import Place, first_rows, in_processes

LONGEST = 60.0
"""Seconds that a child may take."""


def forked(work: Callable[[], object]) -> int:
    """Do some work in a child of this process, and return its number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on: threads beside a fork, as is meant
        child = os.fork()
    if not child:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return child


def ends_well(child: int, patience: float = LONGEST) -> None:
    """Wait for a child, and end it if it hangs."""
    deadline = time.monotonic() + patience
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError(f"a child hangs: it has not ended after {patience:.0f} s")
        time.sleep(0.002)
    assert ended[1] == 0, f"a child ended with {ended[1]}"


@contextmanager
def in_threads(*works: Callable[[], object]) -> Iterator[None]:
    """Do all of this again and again, each in a thread; whatever fails there fails here."""
    is_over, failures = threading.Event(), list[BaseException]()

    def again_and_again(work: Callable[[], object]) -> None:
        try:
            while not is_over.is_set():
                work()
        except BaseException as error:  # noqa: BLE001 (raised below)
            failures.append(error)

    threads = [threading.Thread(target=again_and_again, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join(LONGEST)
    assert not failures, failures


def measure(study: Study, worker: str) -> None:
    """Ask for one and tell it."""
    (ask,) = study.ask(1, worker=worker)
    study.tell(ask.id, value_of(ask.id, ask.arm), worker=worker)


def forks_beside_threads(url: str) -> None:
    """Twenty forks beside two threads that measure and one that looks on; each child looks and measures."""
    study = endless(url)

    def in_child() -> None:
        assert study.status.n_pulls >= 0
        study.remaining()
        measure(study, f"child {os.getpid()}")

    works = (lambda: measure(study, "a"), lambda: measure(study, "b"), study.remaining)
    with in_threads(*works):
        for _ in range(20):
            time.sleep(0.003)
            ends_well(forked(in_child))
    study.close()


def test_a_fork_beside_threads_that_measure_does_not_hang(shared: Place) -> None:
    """Twenty children look at the study and measure, and nothing is lost or doubled."""
    in_processes(forks_beside_threads, [(shared.url,)])
    found = check(shared.url)
    assert found.n_told >= 20


STUDIES: dict[str, Study] = {}


def look_in_pool(_: int) -> int:
    """What a process of a pool does: look at the study that its parent had at the fork."""
    return STUDIES["one"].status.n_pulls


def pool_beside_optimize(url: str) -> None:
    """Fork pools again and again that read the status, beside `optimize` with two threads."""
    warnings.simplefilter("ignore", DeprecationWarning)
    study = STUDIES["one"] = endless(url)
    noise = iter(range(10**9))
    thread = threading.Thread(
        target=study.optimize, args=(lambda _: float(next(noise) % 3),), kwargs={"n_jobs": 2, "max_pulls": 200}
    )
    thread.start()
    n_pools = 0
    while thread.is_alive() or n_pools < 4:
        with get_context("fork").Pool(2) as pool:
            seen = pool.map_async(look_in_pool, range(8)).get(LONGEST)
            assert all(0 <= one <= 200 for one in seen)
        n_pools += 1
    thread.join()
    assert study.status.n_pulls == 200
    study.close()


def test_a_fork_pool_beside_optimize_does_not_hang(tmp_path: Path) -> None:
    """Pools that read the status come and go until two hundred pulls are made."""
    in_processes(pool_beside_optimize, [(str(tmp_path / "lab.db"),)])


def opens_beside_forks(folder: str) -> None:
    """Children make databases, while a thread of the parent is making some."""
    made = iter(range(10**9))

    def open_another() -> None:
        storage = open_storage(Path(folder) / f"parent {next(made)}.db")
        storage.create("mix", first_rows())
        storage.close()

    with in_threads(open_another):
        for i in range(10):
            time.sleep(0.01)
            ends_well(forked(lambda i=i: open_storage(Path(folder) / f"child {i}.db").create("mix", first_rows())))  # type: ignore[misc]


def test_a_fork_beside_a_thread_that_makes_a_database_does_not_hang(tmp_path: Path) -> None:
    """Each child makes its own."""
    in_processes(opens_beside_forks, [(str(tmp_path),)])


def forks_in_memory() -> None:
    """A study in memory: the child has a copy."""
    study = endless("memory:")

    def in_child() -> None:
        before = len(study.measurements)
        measure(study, "child")
        assert len(study.measurements) == before + 1

    with in_threads(lambda: measure(study, "a"), study.storage.names):
        for _ in range(8):
            ends_well(forked(in_child))


def test_a_study_in_memory_goes_on_in_both() -> None:
    """Child and parent measure, each for itself."""
    in_processes(forks_in_memory, [()])


def forks_while_a_turn_does_not_end(url: str) -> None:
    """A fork does not wait for ever; its child reads the log anew."""
    base.FORK_PATIENCE = 0.2
    study, is_in, may_end = endless(url), threading.Event(), threading.Event()

    def turn() -> None:
        with study._writing("slow") as pen:
            pen.state.n_events = 10**6  # half a change, as a child must not see it
            is_in.set()
            may_end.wait(LONGEST)

    thread = threading.Thread(target=turn)
    thread.start()
    is_in.wait(LONGEST)

    def in_child() -> None:
        assert study.state.n_events == 1

    ends_well(forked(in_child))
    may_end.set()
    thread.join()


def test_a_fork_in_the_middle_of_a_turn_shares_nothing_with_it(shared: Place) -> None:
    """If the turn takes longer than a fork waits, the child has locks, connections and a state of its own."""
    in_processes(forks_while_a_turn_does_not_end, [(shared.url,)])


def forks_itself(url: str) -> None:
    """Who forks in the middle of a look does not wait for itself."""
    study = endless(url)
    children: list[int] = []
    with study._log.reading() as state:
        assert state.n_events == 1
        children.append(forked(lambda: measure(study, "child")))
    ends_well(children[0])
    measure(load_study(NAME, study.storage), "parent")


def test_a_thread_that_forks_within_a_look_does_not_wait_for_itself(shared: Place) -> None:
    """Both sides go on."""
    in_processes(forks_itself, [(shared.url,)])
    assert check(shared.url).n_told == 2


def test_work_waits_for_a_fork_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise busy threads would keep a fork waiting for as long as they are busy."""
    order: list[Any] = []
    in_work, may_end = threading.Event(), threading.Event()

    def first() -> None:
        with base.no_fork():
            in_work.set()
            may_end.wait(10)
            order.append("first")

    def fork() -> None:
        base._pause()
        order.append("fork")
        time.sleep(0.05)
        base._go_on()

    def second() -> None:
        with base.no_fork():
            order.append("second")

    monkeypatch.setattr(base, "_owners", set())
    threads = [threading.Thread(target=one) for one in (first, fork, second)]
    for thread in threads:
        thread.start()
        in_work.wait(10)
        time.sleep(0.05)
    may_end.set()
    for thread in threads:
        thread.join(10)
    assert order == ["first", "fork", "second"]
