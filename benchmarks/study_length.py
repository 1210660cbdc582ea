"""Long logs: how long a study takes to load, whether pulls get slower, and whether studies slow one another."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.study_common import FORKS, PRELOADED, SEED, endless, place, second_place, value_of
from surepick.study.admin import copy_study, create_study, load_study
from surepick.study.events import Row
from surepick.study.storage import Storage, open_storage
from surepick.study.study import Study
from surepick.types import Array

N_MEASUREMENTS, N_ARMS, DIM = 100_000, 10_000, 6
FEW = 1_000
N_STUDIES, N_BESIDE, N_TIMED, N_BUSY = 10, 10_000, 300, 2


def many_arms() -> Array:
    """Ten thousand directions; the two best differ in what is worth nothing, so that no study of them ends."""
    X = np.random.default_rng(SEED).standard_normal((N_ARMS, DIM))
    X /= np.linalg.norm(X, axis=1)[:, None]
    X[:2] = 0.0
    X[:2, 0], X[:2, 1] = 1.2, (0.1, -0.1)
    return X


def unit_of_time() -> float:
    """CPU seconds of a hundred products of 300 x 300 matrices: by it times travel from machine to machine."""
    A = np.random.default_rng(0).standard_normal((300, 300))
    start = time.process_time()
    for _ in range(100):
        A = A @ A.T
        A /= np.abs(A).max()
    return time.process_time() - start


def pulled(study: Study, n: int, value: Callable[[Any], float]) -> Array:
    """CPU and wall-clock seconds (n, 2) of n pulls, one ask and one tell each."""
    times = np.empty((n, 2))
    for i in range(n):
        start = time.process_time(), time.perf_counter()
        (ask,) = study.ask(1, worker="w")
        study.tell(ask.id, value(ask), worker="w")
        times[i] = time.process_time() - start[0], time.perf_counter() - start[1]
    return times


def length(n: int = N_MEASUREMENTS) -> None:
    """Print what a log of n measurements of ten thousand arms costs.

    The first and the last pulls are made in an SQLite file; those between in memory, by the same code without a disk.
    """
    X, rng = many_arms(), np.random.default_rng([SEED, 1])
    means = X[:, 0].tolist()

    def value(ask: Any) -> float:
        return float(means[ask.arm] + rng.standard_normal())

    with TemporaryDirectory(prefix="surepick-bench-") as folder:
        files = [str(Path(folder) / name) for name in ("first.db", "last.db")]
        study = create_study("long", arms=X, noise_std=1.0, delta=1e-6, seed=SEED, storage=files[0], lease=None)
        first = pulled(study, FEW, value)
        study = copy_study("long", "long", storage=study.storage, to_storage="memory:")
        pulled(study, n - 2 * FEW, value)
        study = copy_study("long", "long", storage=study.storage, to_storage=files[1])
        last = pulled(study, FEW, value)
        n_events, head = study.head
        study.storage.close()
        unit = unit_of_time()
        start = time.process_time(), time.perf_counter()
        again = load_study("long", files[1])
        spent = time.process_time() - start[0], time.perf_counter() - start[1]
        assert again.head == (n_events, head)
        assert len(again.measurements) == n
        size = Path(files[1]).stat().st_size
        again.storage.close()
    unit = min(unit, unit_of_time())
    arms = f"{N_ARMS:,} arms with {DIM} features"
    print(f"{n:,} measurements, {arms}, {n_events:,} events, {size / 1e6:.0f} MB, seed {SEED}")
    print(
        f"load_study: {spent[0]:.1f} s of CPU = {spent[0] / unit:.0f} times a hundred products of 300 x 300 matrices "
        f"({unit:.3f} s); {spent[1]:.1f} s by the clock"
    )
    print("| one ask and one tell | first 1,000 | last 1,000 | ratio |\n|---|---|---|---|")
    for name, function in (("median", np.median), ("mean, with plans", np.mean)):
        for column, kind in enumerate(("CPU", "clock")):
            a, b = float(function(first[:, column])), float(function(last[:, column]))
            print(f"| {name}, {kind} | {1e3 * a:.2f} ms | {1e3 * b:.2f} ms | {b / a:.2f} |")


# ---- several studies in one database


def keep_writing(url: str, name: str, stop: Any, done: Any) -> None:
    """Measure in a study of one's own until told to stop."""
    with closing(open_storage(url)) as storage:
        study, n = load_study(name, storage), 0
        done.put(0)
        while not stop.is_set():
            (ask,) = study.ask(1, worker=name)
            study.tell(ask.id, value_of(ask.id, ask.arm), worker=name)
            n += 1
    done.put(n)


def beside(kinds: tuple[str, ...] = ("sqlite", "postgres"), n_beside: int = N_BESIDE) -> None:
    """Print what a pull costs alone, with nine other studies there, and while others write to some of them.

    Two processes that write take their share of processors and disk wherever they write, so what the database adds to
    that is seen beside two that write to another one.
    """
    print(f"{N_STUDIES - 1} other studies of {n_beside:,} events, medians of {N_TIMED} pulls, CPU (clock), seed {SEED}")
    print(
        "| database | alone | nine others there | ratio | two processes write elsewhere | to two of the others | "
        "ratio of these, CPU (clock) |\n|---|---|---|---|---|---|---|"
    )
    for kind in kinds:
        with place(kind) as url, closing(open_storage(url)) as storage:
            study, others = endless(storage, "own"), _others(n_beside)
            elsewhere = second_place(url, "elsewhere")
            with closing(open_storage(elsewhere)) as other_storage:
                _add(other_storage, others)
            # Before any is timed, since the first pulls of a study plan more often.
            _median(study)
            alone = _median(study)
            _add(storage, others)
            there = _median(study)
            apart, together = (_while_others_write(one, study) for one in (elsewhere, url))
        row = [kind, _shown(alone), _shown(there), f"{there[0] / alone[0]:.2f}", _shown(apart), _shown(together)]
        row.append(f"{together[0] / apart[0]:.2f} ({together[1] / apart[1]:.2f})")
        print(f"| {' | '.join(row)} |", flush=True)


def _shown(times: Sequence[float]) -> str:
    return f"{1e3 * times[0]:.2f} ({1e3 * times[1]:.2f}) ms"


def _median(study: Study) -> tuple[float, float]:
    cpu, clock = np.median(pulled(study, N_TIMED, lambda ask: value_of(ask.id, ask.arm)), axis=0).tolist()
    return cpu, clock


def _others(n_events: int) -> list[Row]:
    """The log of a study with so many events."""
    model = endless("memory:", "other")
    while model.head[0] < n_events:
        for ask in model.ask(50):
            model.tell(ask.id, value_of(ask.id, ask.arm))
    return model.rows()


def _add(storage: Storage, rows: list[Row]) -> None:
    """Make nine studies with this log."""
    for i in range(N_STUDIES - 1):
        storage.create(f"other{i}", rows)


def _while_others_write(url: str, study: Study) -> tuple[float, float]:
    FORKS.set_forkserver_preload(PRELOADED)
    stop, done = FORKS.Event(), FORKS.Queue()
    others = [FORKS.Process(target=keep_writing, args=(url, f"other{i}", stop, done)) for i in range(N_BUSY)]
    for process in others:
        process.start()
    for _ in others:
        done.get()
    found = _median(study)
    stop.set()
    assert sum(done.get() for _ in others) > 0
    for process in others:
        process.join()
    return found
