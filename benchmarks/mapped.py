"""Arms in a file that is larger than the memory allowed: time against reading the file, and peak memory.

The instance: random unit rows, d = 20, seed 7, of which row 0 points along theta, |theta| = 2. Memory is counted as
`RssAnon`, what the process itself has filled with data. Pages of the mapped file are not in it: they belong to the
system's cache and are given up when anybody needs the room. It is looked at every few milliseconds, in a process of
its own, so that nothing else is counted.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import numpy as np

import surepick as sp
from surepick.arms.mapped import MappedArms
from surepick.types import Array

DIM = 20
LIMIT_MB = 600
ROWS = 100_000


def write_planted(path: Path, n_arms: int) -> None:
    """Write the instance row by row in pieces: the file may be larger than memory."""
    rng = np.random.default_rng(7)
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n_arms, DIM))
    for start in range(0, n_arms, ROWS):
        rows = rng.standard_normal((min(ROWS, n_arms - start), DIM))
        X[start : start + len(rows)] = rows / np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    theta = rng.standard_normal(DIM)
    X[0] = theta / np.linalg.norm(theta)
    X.flush()


def anonymous_mb() -> float:
    """Return the memory that this process has filled itself, in MB; Linux alone says so."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("this system does not tell anonymous memory from mapped files.")


class PeakMemory:
    """The largest `anonymous_mb` while the block runs."""

    def __enter__(self) -> Self:
        self.peak = anonymous_mb()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._is_over.wait(0.004):
            self.peak = max(self.peak, anonymous_mb())

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


def read_seconds(path: Path, *, is_cold: bool = False) -> float:
    """Return the time of one sequential read of the file: from the disk, or from the system's cache if it is there."""
    buffer = bytearray(2**21)
    with path.open("r+b", buffering=0) as file:
        if is_cold:
            os.fsync(file.fileno())  # only what is on the disk can leave the cache
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        start = time.perf_counter()
        while file.readinto(buffer):
            pass
        return time.perf_counter() - start


def measure(path: Path) -> dict[str, float]:
    """Identify the best arm of a planted file with the default settings, and say what that took."""
    cold = read_seconds(path, is_cold=True)
    read = min(read_seconds(path) for _ in range(3))
    rng = np.random.default_rng([7, 1])
    n_passes = 1  # the one that builds the set
    with PeakMemory() as memory:
        start = time.perf_counter()
        arms = MappedArms(path)
        built = time.perf_counter() - start
        chunks, theta = arms.chunks, 2.0 * arms.gather([0])[0]

        def counted() -> Iterator[tuple[int, Array]]:
            nonlocal n_passes
            n_passes += 1
            return chunks()

        setattr(arms, "chunks", counted)  # noqa: B010 - of this instance alone
        result = sp.identify(
            arms, lambda arm: float(arms.gather([arm])[0] @ theta + rng.standard_normal()), noise_std=1.0
        )
        seconds = time.perf_counter() - start
    return {
        "n_arms": arms.n_arms,
        "best": -1 if result.best is None else result.best,
        "pulls": result.n_pulls,
        "passes": n_passes,
        "built": built,
        "seconds": seconds,
        "read": read,
        "cold": cold,
        "ratio": seconds / (n_passes * read),
        "peak_mb": memory.peak,
    }


def measured_alone(path: Path) -> dict[str, float]:
    """Return `measure` as a fresh process finds it."""
    command = [sys.executable, "-m", "benchmarks.mapped", str(path)]
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)  # noqa: S603 - our own module
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print what ten million arms in a file of 1.6 GB take; about two minutes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "arms.npy")
        write_planted(path, 10**7)
        found = measured_alone(path)
    passes = found["passes"]
    print(
        f"\n{found['n_arms']:.0f} arms in a file, d={DIM}, default settings: arm {found['best']:.0f} after "
        f"{found['pulls']:.0f} pulls and {passes:.0f} passes over the file\n"
        f"  {found['seconds']:.1f} s in all, {found['built']:.1f} s of them to build the set\n"
        f"  one sequential read takes {found['read']:.2f} s from the cache, {found['cold']:.2f} s from the disk; all "
        f"took {found['ratio']:.1f} and {found['seconds'] / (passes * found['cold']):.1f} times passes x read (aim 3)\n"
        f"  peak anonymous memory {found['peak_mb']:.0f} MB (limit {LIMIT_MB})"
    )


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]))))
