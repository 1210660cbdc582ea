"""Studies in an SQLite file that fail at every point of an operation: killed before, after and within each write.

A writer is killed at, or hears ENOSPC or EIO from, each of its calls to the system in turn (by `strace`), and is killed
or hears of a full disk in the middle of a write (by a limit on the size of files, at many sizes). After each the log
opens, its chain is whole, what was acknowledged is there, and what was not is there as a whole or not at all.
"""

import itertools
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from benchmarks.study_common import NAME, endless, value_of
from surepick.errors import OutcomeUnknown, SurepickError
from surepick.study.admin import copy_study, load_study
from surepick.study.events import Row, check_chain
from surepick.study.storage import open_storage
from surepick.study.study import Study

N_BEFORE = 12
"""Measurements before the operation."""
KILL_CALLS = ("pwrite64", "write", "fdatasync", "fsync", "ftruncate", "unlink", "openat", "rename")
ERROR_CALLS = ("pwrite64", "write", "fdatasync", "fsync", "ftruncate")
ACKNOWLEDGED, REFUSED, UNKNOWN = 0, 3, 4
"""How a writer ends."""

SIZES = (0, 16, 32, 40, 56, 2_000, 4_152, 4_160, 4_176, 8_300, 12_400, 20_600, 33_000, 45_000)
"""Of the largest file, in bytes: within the heads and pages of a write-ahead log, and beyond."""


def _close_after_tell(study: Study) -> None:
    study.tell(N_BEFORE + 1, value_of(N_BEFORE + 1, study.state.attempts[N_BEFORE + 1].arm))
    study.close()


OPERATIONS: dict[str, Callable[[Study], object]] = {
    "ask": lambda study: study.ask(3, worker="new"),
    "tell": lambda study: study.tell(N_BEFORE + 1, 0.25),
    "tell many": lambda study: study.tell(N_BEFORE + 1, [0.25] * 60),
    "tell by arm": lambda study: study.tell(arm=3, value=0.5, key="k" * 3_000),
    "fail": lambda study: study.fail(N_BEFORE + 2, reason="dropped"),
    "void": lambda study: study.void(2, reason="mislabelled"),
    "correct": lambda study: study.correct(3, 0.75, reason="misplaced decimal point"),
    "restore": lambda study: study.restore(1, reason="found again"),
    "reopen": lambda study: study.reopen(reason="one leaves", retire=[7]),
    "tell and close": _close_after_tell,
    "create": lambda study: endless(study.storage, "second"),
    "copy": lambda study: copy_study(NAME, "copied", storage=study.storage, to_storage=_beside(study, "copy.db")),
    "export": lambda study: study.export("csv", _beside(study, "log.csv")),
}


def _beside(study: Study, name: str) -> Path:
    return Path(study.storage.address).with_name(name)


def base(folder: Path) -> Path:
    """Make a file with a study to which something has happened; two asks are open."""
    path = folder / "lab.db"
    with endless(path) as study:
        for ask in study.ask(N_BEFORE, worker="old"):
            study.tell(ask.id, value_of(ask.id, ask.arm), worker="old")
        study.ask(2, worker="old")
        study.void(1, reason="lost")
    return path


def _do(operation: Callable[[Study], object], path: Path, ready: Callable[[], object]) -> int:
    """Do it in this process, a child, once all is ready; return how it ended."""
    study = load_study(NAME, path)
    ready()
    try:
        operation(study)
    except OutcomeUnknown:
        return UNKNOWN
    except SurepickError:
        return REFUSED
    return ACKNOWLEDGED


def _in_child(work: Callable[[], int], beside: Callable[[int], object] = lambda _: None) -> int:
    """Run work in a fork of this process; return the status it left, or minus the signal that ended it."""
    child = os.fork()
    if not child:
        status = 1
        try:
            status = work()
        finally:
            os._exit(status)
    beside(child)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _limited(size: int, *, kills: bool) -> None:
    """Let no file grow beyond a size: the write that would stops in the middle, and kills if it should."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL if kills else signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def rows_of(path: Path, name: str = NAME) -> list[Row]:
    """What is in a file now, in other words after SQLite has put it in order."""
    with closing(open_storage(path)) as storage:
        return storage.read(name) if name in storage.names() else []


def check_after(path: Path, before: Sequence[Row], n_after: int, ended: int, where: str) -> bool:
    """Check a log after an operation that would have left `n_after` events; return whether it was done."""
    rows = rows_of(path)
    check_chain(rows)
    assert rows[: len(before)] == before, f"{where}: what was there has changed"
    new = len(rows) - len(before)
    assert new in (0, n_after - len(before)), f"{where}: {new} of {n_after - len(before)} events are there"
    is_done = new > 0
    if n_after > len(before):
        assert ended != ACKNOWLEDGED or is_done, f"{where}: acknowledged and lost"
        assert ended != REFUSED or not is_done, f"{where}: refused and done"
    for copy, name in ((path, "second"), (path.with_name("copy.db"), "copied")):
        if copy.exists() and (copied := rows_of(copy, name)):
            check_chain(copied)
            assert name == "second" or copied == before, f"{where}: half a copy"
    log = path.with_name("log.csv")
    if log.exists():
        assert log.read_text().count("\n") == len(before) + 1, f"{where}: half an export"
    with load_study(NAME, path) as study:  # and all goes on
        (ask,) = study.ask(1, worker="next")
        study.tell(ask.id, value_of(ask.id, ask.arm), worker="next")
    return is_done


def try_sizes(name: str, sizes: Sequence[int] = SIZES) -> Counter[str]:
    """Stop an operation in the middle of its writes; count how it ended."""
    ends = Counter[str]()
    with tempfile.TemporaryDirectory(prefix="surepick-points-") as made:
        folder = Path(made)
        start, n_after = _reference(name, folder)
        before = rows_of(start)
        for size in sizes:
            for kills in (True, False):
                path = _fresh(start, folder)
                limit = partial(_limited, size, kills=kills)
                ended = _in_child(partial(_do, OPERATIONS[name], path, limit))
                assert ended in (ACKNOWLEDGED, REFUSED, UNKNOWN, -signal.SIGXFSZ), f"{name} at {size}: {ended}"
                is_done = check_after(path, before, n_after, ended, f"{name} at {size} bytes")
                ends[_word(ended, is_done=is_done)] += 1
    return ends


def _reference(name: str, folder: Path) -> tuple[Path, int]:
    """A file to begin with, and how many events it has after the operation."""
    origin = folder / "origin"
    origin.mkdir()
    start = base(origin)
    path = _fresh(start, folder)
    assert _in_child(partial(_do, OPERATIONS[name], path, lambda: None)) == ACKNOWLEDGED
    return start, len(rows_of(path))


def _fresh(start: Path, folder: Path) -> Path:
    target = folder / "run"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    return Path(shutil.copy(start, target))


def _word(ended: int, *, is_done: bool) -> str:
    if ended < 0:
        return "killed, done" if is_done else "killed, not done"
    return {ACKNOWLEDGED: "acknowledged", REFUSED: "refused", UNKNOWN: "unknown"}[ended]


# ---- every call to the system


def try_calls(name: str, fault: str) -> Counter[str]:
    """Let each call of an operation fail in turn: by `signal=KILL`, `error=ENOSPC` or `error=EIO`."""
    ends = Counter[str]()
    with tempfile.TemporaryDirectory(prefix="surepick-points-") as made:
        folder = Path(made)
        start, n_after = _reference(name, folder)
        before = rows_of(start)
        for call in KILL_CALLS if "KILL" in fault else ERROR_CALLS:
            for n in itertools.count(1):
                path, trace = _fresh(start, folder), folder / "trace"
                ended = _traced(partial(_do, OPERATIONS[name], path), trace, call, f"{fault}:when={n}")
                if ended != -signal.SIGKILL and "INJECTED" not in trace.read_text():
                    break  # there are fewer such calls
                where = f"{name}, {fault} at {call} {n}"
                assert ended in (ACKNOWLEDGED, REFUSED, UNKNOWN, -signal.SIGKILL), f"{where}: {ended}"
                is_done = check_after(path, before, n_after, ended, where)
                ends[_word(ended, is_done=is_done)] += 1
    return ends


def _traced(work: Callable[[Callable[[], object]], int], trace: Path, call: str, fault: str) -> int:
    """Run work in a child that strace watches from the moment all is ready."""
    told_ready = os.pipe()[::-1]
    go = os.pipe()
    strace: list[subprocess.Popen[bytes]] = []

    def ready() -> None:
        os.write(told_ready[0], b".")
        os.read(go[0], 1)

    def watch(child: int) -> None:
        os.read(told_ready[1], 1)
        options = ["-qq", "-e", f"trace={call}", "-e", f"inject={call}:{fault}", "-o", str(trace), "-p", str(child)]
        command = [str(shutil.which("strace")), *options]
        strace.append(subprocess.Popen(command, stderr=subprocess.PIPE))  # noqa: S603 (our words)
        deadline = time.monotonic() + 20
        while "TracerPid:\t0\n" in Path(f"/proc/{child}/status").read_text():
            assert strace[0].poll() is None, f"strace cannot watch a child: {strace[0].communicate()[1].decode()}"
            assert time.monotonic() < deadline
            time.sleep(0.001)
        os.write(go[1], b".")

    try:
        return _in_child(partial(work, ready), watch)
    finally:
        for one in strace:
            one.communicate()
        for end in (*told_ready, *go):
            os.close(end)


def points(names: Sequence[str] = tuple(OPERATIONS)) -> None:
    """Print how operations end that fail at every point."""
    has_strace = shutil.which("strace") is not None
    faults = ("signal=KILL", "error=ENOSPC", "error=EIO") if has_strace else ()
    if not has_strace:
        print("strace is not installed: only writes that stop in the middle are tried")
    columns = ("acknowledged", "refused", "unknown", "killed, done", "killed, not done")
    print(f"| operation | fault | {' | '.join(columns)} |\n|---|---|{'---|' * len(columns)}")
    for name in names:
        tries: list[tuple[str, Counter[str]]] = [("stopped within a write", try_sizes(name))]
        tries += [(fault, try_calls(name, fault)) for fault in faults]
        for fault, ends in tries:
            print(f"| {name} | {fault} | {' | '.join(str(ends[one]) for one in columns)} |", flush=True)
