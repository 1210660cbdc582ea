"""What a study costs beside its measurements: work of the commands that show a study, and of a list of many studies.

python -m benchmarks house [best] [status] [listing]
"""

import io
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from surepick.cli.main import main as surepick
from surepick.learning import result, snapshot
from surepick.study.admin import copy_study, create_study
from surepick.study.storage import open_storage
from surepick.study.storage.sql import SqlStorage
from surepick.study.study import Study

SEED = 1900
N_STUDIES, N_LISTED = 200, 1_000

X = np.random.default_rng(SEED).standard_normal((20, 4))
MEANS = X @ np.array([1.0, 0.3, 0.0, 0.0])
NOISE_STD = 3.0


def measured(n_events: int) -> Study:
    """Return a study in memory that does not stop."""
    rng = np.random.default_rng(SEED)
    study = create_study("house", arms=X, delta=1e-300, noise_std=NOISE_STD, storage="memory:")
    while study.state.n_events < n_events:
        for ask in study.ask(max(study.n_planned, 1)):
            study.tell(ask.id, float(MEANS[ask.arm] + NOISE_STD * rng.standard_normal()))
    return study


COUNTED = {
    "decisions": (snapshot, "Decision"),
    "estimate tables": (snapshot, "estimates_of"),
    "results": (result, "Result"),
    "log reads": (SqlStorage, "read"),
}


def _command(name: str) -> None:
    """Run a command on a study in SQLite, and count what it works out."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lab.db"
        copy_study("house", "house", storage=measured(N_LISTED).storage, to_storage=path).close()
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
    study = measured(N_LISTED)
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


PARTS: Mapping[str, Callable[[], None]] = {"best": best, "status": status, "listing": listing}


def main(*parts: str) -> None:
    """Run the parts that are named, or all."""
    for name in parts or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main()
