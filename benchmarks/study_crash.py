"""Studies under kill -9 and power cuts: whatever was acknowledged is there, and the study goes on."""

import math
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.study_common import FORKS, NAME, PLACES, PRELOADED, SEED, check, endless, place, value_of
from surepick.study.admin import load_study
from surepick.study.storage import open_storage
from surepick.study.study import Study

N_KILLS, EVERY, LEASE, N_WORKERS = 100, 1.0, 3.0, 16
N_CUTS, N_WRITERS = 200, 4


def work(url: str, worker: str, acknowledged: str, n: float = math.inf, name: str = NAME) -> None:
    """Measure n times; whatever a tell has acknowledged is noted in a file before the next ask."""
    study = load_study(name, url)
    note = os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    while n > 0:
        n -= 1
        (ask,) = study.ask(1, worker=worker)
        value = value_of(ask.id, ask.arm)
        study.tell(ask.id, value, worker=worker)
        os.write(note, f"{ask.id} {value!r}\n".encode())


def noted(path: Path) -> dict[int, float]:
    """What workers noted, by ask."""
    pairs = (line.split() for line in path.read_text().splitlines()) if path.exists() else ()
    return {int(ask): float(value) for ask, value in pairs}


@contextmanager
def workers(url: str, n: int, notes: Path) -> Iterator[list[Any]]:
    """So many at work; in the end all are killed."""
    FORKS.set_forkserver_preload(PRELOADED)
    running = [_start(url, f"w{i}", notes) for i in range(n)]
    try:
        yield running
    finally:
        for process in running:
            process.kill()
            process.join()


def _start(url: str, worker: str, notes: Path) -> Any:
    process = FORKS.Process(target=work, args=(url, worker, str(notes)), daemon=True)
    process.start()
    return process


def kill_one(running: list[Any], url: str, worker: str, notes: Path, rng: np.random.Generator) -> None:
    """Kill a random one with SIGKILL, and start another in its place, under a new name."""
    place_of = int(rng.integers(len(running)))
    dead = running[place_of]
    assert dead.is_alive(), f"a worker ended by itself with {dead.exitcode}"
    os.kill(dead.pid, signal.SIGKILL)
    dead.join()
    running[place_of] = _start(url, worker, notes)


def kill(
    kinds: Sequence[str] = PLACES, n_kills: int = N_KILLS, every: float = EVERY, n_workers: int = N_WORKERS
) -> None:
    """Print what is left after so many kills."""
    print(
        f"{n_workers} workers, kill -9 of a random one every {every:g} s, {n_kills} times, each replaced by another; "
        f"leases of {LEASE:g} s, seed {SEED}"
    )
    print(
        "| database | acknowledged | of them lost | told | told, not acknowledged | asks expired | asked again | "
        "of them told | open in the end |\n|---|---|---|---|---|---|---|---|---|"
    )
    for kind in kinds:
        rng = np.random.default_rng(SEED)
        with place(kind) as url:
            notes = Path(tempfile.mkdtemp(prefix="surepick-notes-")) / "acknowledged"
            endless(url, lease=LEASE)
            with workers(url, n_workers, notes) as running:
                for i in range(n_kills):
                    time.sleep(every)
                    kill_one(running, url, f"new{i}", notes, rng)
                time.sleep(every)
            acknowledged, n_after = noted(notes), go_on(url, LEASE)
            found = check(url, acknowledged=acknowledged)
            shutil.rmtree(notes.parent)
        n_told = found.n_told - n_after
        cells = [len(acknowledged), 0, n_told, n_told - len(acknowledged), found.n_expired]
        cells += [found.n_asked_again, found.again_told, found.n_open]
        print(f"| {kind} | {' | '.join(f'{cell:,}' for cell in cells)} |", flush=True)


def go_on(url: str, lease: float) -> int:
    """All workers are dead: when their leases have run out one more measures what they left; how many that were."""
    time.sleep(lease)
    with closing(open_storage(url)) as storage:
        study = load_study(NAME, storage)
        before = len(study.measurements)
        _measure(study)
        assert not study.state.open, f"asks of the dead are still open: {list(study.state.open)}"
        attempts = list(study.state.attempts.values())
        left = {one.number for one in attempts} - {one.number for one in attempts if one.results}
        while left:
            left.discard(study.state.attempts[_measure(study)].number)
        assert not study.state.open
        return len(study.measurements) - before


def _measure(study: Study) -> int:
    (ask,) = study.ask(1, worker="last")
    study.tell(ask.id, value_of(ask.id, ask.arm), worker="last")
    return ask.id


# ---- power cuts


def cut(n_cuts: int = N_CUTS, n_writers: int = N_WRITERS) -> None:
    """Print what copies of file and write-ahead log hold that were taken at random moments under load.

    While a copy is taken all writers are stopped (SIGSTOP), in the middle of whatever they are doing: else a checkpoint
    between the copies of the two files could make a pair that no power cut leaves. What the page cache of the system
    holds counts as written, so this does not show what a disk loses that acknowledges before it writes.
    """
    rng, opened, behind = np.random.default_rng(SEED), 0, 0
    folder = Path(tempfile.mkdtemp(prefix="surepick-cuts-"))
    sizes, lengths = [], []
    try:
        with place("sqlite") as url:
            notes = folder / "acknowledged"
            endless(url)
            with workers(url, n_writers, notes) as running:
                while len(noted(notes)) < 2 * n_writers:
                    time.sleep(0.05)
                for _ in range(n_cuts):
                    time.sleep(float(rng.exponential(0.1)))
                    acknowledged = noted(notes)
                    with frozen(running):
                        copy = copied(url, folder / "cut")
                        # Checked before they go on, so that the log does not grow meanwhile.
                        found = check(copy, acknowledged=acknowledged)
                    opened += 1
                    behind += found.n_told - len(acknowledged)
                    lengths.append(found.n_events)
                    sizes.append(Path(f"{url}-wal").stat().st_size)
                    shutil.rmtree(folder / "cut")
    finally:
        shutil.rmtree(folder)
    print(
        f"{n_cuts} copies under {n_writers} writers, stopped in mid-work, file and write-ahead log without its index, "
        f"seed {SEED}: {opened} open, with a whole chain and all that was acknowledged (and {behind} results that were "
        f"about to be); {min(lengths):,} to {max(lengths):,} events, write-ahead logs of {min(sizes) / 1e3:,.0f} to "
        f"{max(sizes) / 1e3:,.0f} kB"
    )


@contextmanager
def frozen(running: Sequence[Any]) -> Iterator[None]:
    """Stop all writers where they are, for a while."""
    for process in running:
        os.kill(process.pid, signal.SIGSTOP)
    try:
        for process in running:
            _wait_stopped(process.pid)
        yield
    finally:
        for process in running:
            os.kill(process.pid, signal.SIGCONT)


def copied(url: str, target: Path) -> str:
    """Copy what a power cut would leave: the file and its write-ahead log."""
    target.mkdir()
    for name in ("lab.db", "lab.db-wal"):
        shutil.copyfile(Path(url).with_name(name), target / name)
    return str(target / "lab.db")


def _wait_stopped(pid: int) -> None:
    """Until all threads of a process stand still."""
    deadline = time.monotonic() + 10
    for status in Path(f"/proc/{pid}/task").glob("*/stat"):
        while status.exists() and status.read_text().rpartition(")")[2].split()[0] not in "TtZ":
            assert time.monotonic() < deadline, f"process {pid} does not stop"
            time.sleep(0.001)
