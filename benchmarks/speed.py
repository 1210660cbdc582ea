"""Speed: CPU of whole identifications beside that of an earlier commit, and how the cost of a pull grows.

`make bench ARGS=speed`, or `python -m benchmarks.speed [commit]`. The earlier commit is checked out into a temporary
folder; both versions do the same work, in turn, each time in a fresh process, with one BLAS thread and with as many as
there are. What is compared are ratios of one run on one machine; a version may need other pulls, so these are printed.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
BASE = "d3b21f5"
"""The last commit before speed was worked on."""
REPEATS = 3


class Case(NamedTuple):
    """Work that is timed."""

    title: str
    code: str
    """Defines `work(run)`, which returns the pulls of a run; nothing of it counts."""
    n_runs: int
    aim: float
    """How many times less it should take."""
    is_wall: bool = False
    """Whether the clock counts, not the CPU."""


COMMON = """
import numpy as np
import surepick as sp
from surepick.simulation import problems

def identified(problem, run, **options):
    rng, means = np.random.default_rng([9, run]), problem.X @ problem.theta
    pull = lambda arm: float(means[arm] + rng.standard_normal())
    return sp.identify(problem.X, pull, noise_std=1.0, seed=run, **options).n_pulls
"""
MILLION = """
rows = np.random.default_rng(3).standard_normal((10**6, 20))
rows /= np.linalg.norm(rows, axis=1)[:, None]
def work(run):
    rng, theta = np.random.default_rng([9, run]), 3.0 * rows[run]
    return sp.identify(rows, lambda arm: float(rows[arm] @ theta + rng.standard_normal()), noise_std=1.0).n_pulls
"""
SPHERE = """
def work(run):
    rng, theta = np.random.default_rng([9, run]), np.eye(10)[0]
    pull = lambda arm: float(arm @ theta + rng.standard_normal())
    return sp.identify(sp.Sphere(10), pull, noise_std=1.0, epsilon=0.3).n_pulls
"""
SIMULATE = """
def work(run):
    found = sp.simulate(problems.many_arms(1000, seed=0), n_runs=200, seed=run, n_jobs=1)
    return int(np.sum(found.n_pulls))
"""
CASES: Mapping[str, Case] = {
    "many3": Case(
        "many arms K=10^3", "work = lambda run: identified(problems.many_arms(1000, seed=run), run)", 30, 5.0
    ),
    "many4": Case(
        "many arms K=10^4", "work = lambda run: identified(problems.many_arms(10_000, seed=run), run)", 15, 5.0
    ),
    "sphere": Case(
        "sphere d=10 K=100",
        "work = lambda run: identified(problems.sphere(10, 100, seed=run, times=(30.0, 400.0)), run)",
        10,
        3.0,
    ),
    "soare": Case("Soare d=6", "work = lambda run: identified(problems.soare(6), run)", 10, 3.0),
    "unit": Case("the whole sphere, d=10", SPHERE, 3, 2.0),
    "million": Case("K=10^6, d=20, by the clock", MILLION, 1, 3.0, is_wall=True),
    "simulate": Case("simulate, 200 runs, K=10^3", SIMULATE, 1, 5.0),
}
TIMED = """
import json, sys, time
work(0)
wall, cpu = time.perf_counter(), time.process_time()
pulls = sum(work(run) for run in range(1, 1 + int(sys.argv[1])))
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu, pulls]))
"""


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Have a commit in a folder of its own for a while."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        _git("worktree", "add", "--detach", "--quiet", str(tree), commit)
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*words: str) -> None:
    subprocess.run(["git", *words], cwd=ROOT, check=True)  # noqa: S603, S607 - our own words


def timed(tree: Path, case: Case, n_threads: int | None) -> tuple[float, float]:
    """Return seconds and pulls of the work by the version in this folder, in a process of its own."""
    threads = {} if n_threads is None else {"OPENBLAS_NUM_THREADS": str(n_threads)}
    environment = {**os.environ, **threads, "PYTHONPATH": str(tree / "src")}
    command = [sys.executable, "-c", COMMON + case.code + TIMED, str(case.n_runs)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    wall, cpu, pulls = json.loads(done.stdout)
    return wall if case.is_wall else cpu, pulls


def compare(commit: str = BASE) -> None:
    """Print every case beside the earlier commit."""
    print(f"seconds a run, medians of {REPEATS}; before: commit {commit}")
    print(f"{'':28s}{'threads':>8s}{'before':>10s}{'now':>10s}{'times less':>12s}{'aim':>6s}{'pulls':>16s}")
    with checked_out(commit) as before:
        for case in CASES.values():
            for n_threads in (1, None):
                found = [
                    [timed(tree, case, n_threads) for tree in (before, ROOT)] for _ in range(REPEATS)
                ]  # in turn: the machine may be busier at one time than at another
                (then, pulls_then), (now, pulls_now) = (
                    (statistics.median(seconds for seconds, _ in side) / case.n_runs, side[0][1] / case.n_runs)
                    for side in zip(*found, strict=True)
                )
                pulls = f"{pulls_then:.0f}, {pulls_now:.0f}"
                said = f"{then:10.4f}{now:10.4f}{then / now:12.2f}{case.aim:6.1f}{pulls:>16s}"
                print(f"{case.title:28s}{n_threads or 'all':>8}{said}", flush=True)


IMPORTS = ("import numpy, scipy", "import surepick", "import surepick; surepick.identify")


def imports() -> None:
    """Print what the import takes beside that of its libraries."""

    def seconds(statement: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], check=True, cwd=ROOT)  # noqa: S603 - our own words
        return time.perf_counter() - start

    empty, *found = (statistics.median(seconds(words) for _ in range(9)) for words in ("pass", *IMPORTS))
    libraries, *ours = (taken - empty for taken in found)
    for words, taken in zip(IMPORTS[1:], ours, strict=True):
        print(f"{words}: {taken / libraries:.2f} times {IMPORTS[0]} (aim 1.3)")


PARTS: Mapping[str, Callable[..., None]] = {"compare": compare, "imports": imports}


def main() -> None:
    """Print everything."""
    for part in PARTS.values():
        part()


if __name__ == "__main__":
    PARTS[sys.argv[1]](*sys.argv[2:]) if sys.argv[1:2] else main()
