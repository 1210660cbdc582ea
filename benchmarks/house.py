"""What a study costs beside its measurements: corrections, the write lock, commands that show a study, a list of many.

python -m benchmarks house [corrections] [lock] [best] [status] [listing]
"""

import io
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from surepick.cli.main import main as surepick
from surepick.learning import reader, result
from surepick.study.admin import copy_study, create_study, load_study
from surepick.study.storage import Storage, Writer, open_storage
from surepick.study.storage.sql import SqlStorage
from surepick.study.study import Study

SEED = 1900
N_EVENTS, N_CORRECTIONS = 10_000, (0, 10, 40)
N_LOCKED = 100_000
N_ROUNDS = 3
N_STUDIES, N_LISTED = 200, 1_000

X = np.random.default_rng(SEED).standard_normal((20, 4))
MEANS = X @ np.array([1.0, 0.3, 0.0, 0.0])
NOISE_STD = 3.0


def study_of(n_events: int, n_corrections: int) -> Study:
    """Return a study in memory that does not stop, with corrections of random measurements spread over its log."""
    rng = np.random.default_rng(SEED)
    study = create_study("house", arms=X, delta=1e-300, noise_std=NOISE_STD, storage="memory:")
    between, n_done = n_events // (n_corrections + 1), 0
    while (n := study.state.n_events) < n_events:
        for ask in study.ask(max(study.n_planned, 1)):
            study.tell(ask.id, float(MEANS[ask.arm] + NOISE_STD * rng.standard_normal()))
        if n_done < min(n // between, n_corrections):
            n_done += 1
            measurement = int(rng.integers(1, len(study.measurements) + 1))
            study.correct(measurement, float(NOISE_STD * rng.standard_normal()), reason="a slip")
    return study


def corrections() -> None:
    """Load logs of the same length with more and more corrections; then ask, which makes the sampler catch up."""
    print(f"{N_EVENTS:,} events: corrections, seconds to load, to settle, to ask")
    for n in N_CORRECTIONS:
        study = study_of(N_EVENTS, n)
        rows = []
        for _ in range(N_ROUNDS):
            start = time.perf_counter()
            loaded = load_study("house", study.storage)
            read = time.perf_counter()
            assert loaded.learner.decision == study.learner.decision
            settled = time.perf_counter()
            loaded.learner.state.plans.catch_up()
            rows.append((read - start, settled - read, time.perf_counter() - settled))
        print(f"{n:4d}  " + "  ".join(f"{seconds:.3f}" for seconds in np.min(rows, axis=0)))


class Watch:
    """Measures how long turns to write on a storage last."""

    def __init__(self, storage: Storage, monkey: Callable[[str, object], None]) -> None:
        self.seconds: list[float] = []
        real = storage.writing

        @contextmanager
        def writing(name: str) -> Iterator[Writer]:
            with real(name) as writer:
                start = time.perf_counter()
                yield writer
                self.seconds.append(time.perf_counter() - start)

        monkey("writing", writing)


def lock() -> None:
    """Correct measurements of a long log in SQLite: how long the call takes, and how long others cannot write."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lab.db"
        study = copy_study("house", "house", storage=study_of(N_LOCKED, 0).storage, to_storage=path)
        watch = Watch(study.storage, lambda name, value: setattr(study.storage, name, value))
        calls = []
        for n in (1, N_LOCKED // 4, N_LOCKED // 2 - 500):
            start = time.perf_counter()
            study.correct(n, 0.5, reason="a slip")
            calls.append(time.perf_counter() - start)
        study.close()
    print(
        f"{N_LOCKED:,} events in SQLite, a correction early, in the middle, late: seconds of the call, ms of the lock"
    )
    for call, held in zip(calls, watch.seconds, strict=True):
        print(f"{call:.3f}  {1e3 * held:.1f}")


COUNTED = {
    "decisions": (reader, "Decision"),
    "estimate tables": (reader, "estimates_of"),
    "results": (result, "Result"),
    "log reads": (SqlStorage, "read"),
}


def _command(name: str) -> None:
    """Run a command on a study in SQLite, and count what it works out."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lab.db"
        copy_study("house", "house", storage=study_of(N_LISTED, 0).storage, to_storage=path).close()
        for output in ("table", "json"):
            counts = dict.fromkeys(COUNTED, 0)
            with ExitStack() as patches, redirect_stdout(io.StringIO()):
                for what, (owner, attribute) in COUNTED.items():
                    patches.enter_context(_counting(counts, what, owner, attribute))
                surepick([name, "--storage", str(path), "--format", output])
            print(f"{name} --format {output}: " + ", ".join(f"{n} {what}" for what, n in counts.items()))


def _counting(counts: dict[str, int], what: str, owner: Any, attribute: str) -> AbstractContextManager[Any]:
    real = getattr(owner, attribute)

    def call(*values: Any, **named: Any) -> Any:
        counts[what] += 1
        return real(*values, **named)

    return mock.patch.object(owner, attribute, call)


def best() -> None:
    """Count the work of `surepick best`."""
    _command("best")


def status() -> None:
    """Count the work of `surepick status`."""
    _command("status")


def listing() -> None:
    """List many studies in SQLite: the first time, when all are loaded, and then."""
    study = study_of(N_LISTED, 0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lab.db"
        for n in range(N_STUDIES):
            copy_study("house", f"study {n}", storage=study.storage, to_storage=path).close()
        print(f"{N_STUDIES} studies of {N_LISTED:,} events: seconds of CPU to list them")
        for when in ("first", "again"):
            start = time.process_time()
            with redirect_stdout(io.StringIO()):
                surepick(["list", "--storage", str(path)])
            print(f"{when}  {time.process_time() - start:.2f}")
        assert all(one.kept is not None for one in open_storage(path).summaries())


PARTS: Mapping[str, Callable[[], None]] = {
    "corrections": corrections,
    "lock": lock,
    "best": best,
    "status": status,
    "listing": listing,
}


def main(*parts: str) -> None:
    """Run the parts that are named, or all."""
    for name in parts or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main()
