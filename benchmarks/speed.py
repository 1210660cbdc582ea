"""Speed: CPU of whole identifications beside that of an earlier commit, and whether pulls stayed what they were.

`make bench ARGS=speed`, or `python -m benchmarks.speed [compare | ratio | plain | paired | imports]`. The earlier
version is checked out into a temporary folder; both do the same work, in turn, each time in a fresh process, with one
BLAS thread and with as many as there are. What is compared are ratios of one run on one machine; a version may need
other pulls, so these are printed.

`python -m benchmarks.speed ratio OTHER 40` compares the CPU of single runs with that of another commit or folder, with
a standard error: small enough to see a change of a few per cent on a busy machine. `python -m benchmarks.speed plain`
compares pulls, and CPU on the same pulls, of runs without any option with the version before groups, drift, pools and
targets: options that are not used may cost nothing. Its table goes to benchmarks/results/plain.json.
"""

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, Self

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
MAPPED = """
import sys, tempfile
from pathlib import Path
sys.path.insert(0, ".")
from benchmarks.mapped import DIM, write_planted
folder = tempfile.TemporaryDirectory()
write_planted(path := Path(folder.name, "arms.npy"), 10**7)
def work(run):
    arms = sp.MappedArms(path)
    rng, theta = np.random.default_rng([7, run]), 2.0 * arms.gather([0])[0]
    pull = lambda arm: float(arms.gather([arm])[0] @ theta + rng.standard_normal())
    return sp.identify(arms, pull, noise_std=1.0, max_pulls=None if run else 1).n_pulls
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
    "mapped": Case("K=10^7 in a file, d=20, by the clock", MAPPED, 1, 2.0, is_wall=True),
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


def environment_of(tree: Path, n_threads: int | None) -> Mapping[str, str]:
    """Return what a process needs to use the version in this folder."""
    threads = {} if n_threads is None else {"OPENBLAS_NUM_THREADS": str(n_threads)}
    return {**os.environ, **threads, "PYTHONPATH": str(tree / "src")}


def timed(tree: Path, case: Case, n_threads: int | None) -> tuple[float, float]:
    """Return seconds and pulls of the work by the version in this folder, in a process of its own."""
    wall, cpu, pulls = _said(COMMON + case.code + TIMED, str(case.n_runs), environment_of(tree, n_threads))
    return wall if case.is_wall else cpu, pulls


def _said(code: str, word: str, environment: Mapping[str, str]) -> Any:
    """Return what a Python process of its own prints as JSON."""
    command = [sys.executable, "-c", code, word]
    done = subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - our own code
    return json.loads(done.stdout)


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


WORKER = """
import json, sys, time
work(0)
for line in sys.stdin:
    start = time.process_time()
    pulls = work(int(line))
    print(json.dumps([time.process_time() - start, pulls]), flush=True)
"""
OF_RATIO = ("many3", "sphere", "soare")
"""Cases whose single runs are short, so that two versions take turns often."""


class Ratio(NamedTuple):
    """CPU of this version over that of another, on the same seeds."""

    ratio: float
    """Geometric mean over the runs."""
    error: float
    """Its standard error."""
    n_other: int
    """Runs that needed another number of pulls."""


class Worker:
    """A process that does single runs of a case by the version in a folder, with one BLAS thread."""

    def __init__(self, tree: Path, case: Case) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own code
            [sys.executable, "-c", COMMON + case.code + WORKER],
            env=environment_of(tree, 1),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, run: int) -> tuple[float, float]:
        """Return CPU seconds and pulls of a run."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{run}\n")
        process.stdin.flush()
        said = process.stdout.readline()
        if not said:
            raise RuntimeError(f"the process of {self._process.args!r} ended in run {run}; see its message above.")
        seconds, pulls = json.loads(said)
        return seconds, pulls

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def ratio_of(
    then: Callable[[int], tuple[float, float]], now: Callable[[int], tuple[float, float]], n_runs: int
) -> Ratio:
    """Return the ratio over runs 1, 2, ...; which version is first in a pair alternates."""
    logs, n_other = [], 0
    for run in range(1, 1 + n_runs):
        sides = (then, now) if run % 2 else (now, then)
        found = {side: side(run) for side in sides}
        logs.append(math.log(found[now][0] / found[then][0]))
        n_other += found[now][1] != found[then][1]
    ratio = math.exp(statistics.mean(logs))
    return Ratio(ratio, ratio * statistics.stdev(logs) / n_runs**0.5, n_other)


def ratio(other: str = BASE, n_runs: str = "40") -> None:
    """Print the CPU of a run over that of another version, a commit or a folder, paired by seed."""
    is_folder = Path(other).is_dir()
    with nullcontext(Path(other).resolve()) if is_folder else checked_out(other) as tree:
        print(f"CPU of a run over that of {other}, {n_runs} pairs with equal seeds, 1 thread")
        for name in OF_RATIO:
            with Worker(tree, CASES[name]) as then, Worker(ROOT, CASES[name]) as now:
                found = ratio_of(then, now, int(n_runs))
            other_pulls = f"; {found.n_other} with other pulls" if found.n_other else ""
            print(f"{CASES[name].title:28s}{found.ratio:8.3f} +- {found.error:.3f}{other_pulls}", flush=True)


BEFORE_OPTIONS = "5e2b325"
"""The last commit before groups, drift, any noise, pools, targets, rounds and accounts of sets."""
PLAIN: Mapping[str, str] = {
    "basis5, noise known": "problem = problems.unit_basis([1.0, 0.75, 0.5, 0.25, 0.0])",
    "basis5, noise learnt": "problem = problems.unit_basis([1.0, 0.75, 0.5, 0.25, 0.0]); options = {}",
    "Soare d=6, noise known": "problem = problems.soare(6)",
    "sphere d=5 K=50, noise known": "problem = problems.sphere(5, 50, seed=4)",
    "sphere d=5 K=50, noise learnt": "problem = problems.sphere(5, 50, seed=4); options = {}",
    "many arms K=10^3, noise known": "problem = problems.many_arms(1000, seed=0)",
}
PLAIN_RUN = """
options = {"noise_std": 1.0}
%s
options |= %r
def work(run):
    means, total = problem.X @ problem.theta, 0
    for part in range(BATCH):
        noise = iter(np.random.default_rng([9, run, part]).standard_normal(20_000))
        total += sp.identify(problem.X, lambda arm: float(means[arm] + next(noise)), seed=run, **options).n_pulls
    return total / BATCH
"""
PLAIN_BATCH = 5
PLAIN_RESULTS = ROOT / "benchmarks" / "results" / "plain.json"


def plain(other: str = BEFORE_OPTIONS, n_pairs: str = "100") -> None:
    """Print pulls and CPU beside another version, of runs without an option; batches of the versions take turns.

    CPU is compared on the same pulls: those of edition 1, whose blocks are not in random order.
    """
    is_folder = Path(other).is_dir()
    rows = []
    with nullcontext(Path(other).resolve()) if is_folder else checked_out(other) as tree:
        print(f"{int(n_pairs) * PLAIN_BATCH} runs of each version without an option; before: {other}; 1 thread")
        print(f"{'':32s}{'pulls before':>16s}{'now':>16s}{'change':>16s}{'us a pull':>11s}{'CPU, same pulls':>20s}")
        for name, problem in PLAIN.items():
            cases = [
                Case(name, f"BATCH = {PLAIN_BATCH}\n" + PLAIN_RUN % (problem, more), 1, 1.0)
                for more in ({}, {"edition": 1})
            ]
            with Worker(tree, cases[0]) as then, Worker(ROOT, cases[1]) as same, Worker(ROOT, cases[0]) as now:
                row = {
                    "case": name,
                    "runs": int(n_pairs) * PLAIN_BATCH,
                    **plain_of(then, same, now, n_pairs=int(n_pairs)),
                }
            rows.append(row)
            said = f"{row['before']:9.1f} +-{row['before_se']:5.1f}{row['now']:9.1f} +-{row['now_se']:5.1f}"
            said += f"{row['change']:+8.1f} +-{row['change_se']:4.1f} %{row['us_a_pull']:11.1f}"
            print(f"{name:32s}{said}{row['cpu_ratio']:12.3f} +-{row['cpu_ratio_se']:.3f}", flush=True)
            PLAIN_RESULTS.write_text(json.dumps({"before": BEFORE_OPTIONS, "rows": rows}, indent=1) + "\n")


def plain_of(*sides: Callable[[int], tuple[float, float]], n_pairs: int) -> dict[str, float]:
    """Return mean pulls of two versions, their change in per cent, and the ratio of CPU, with errors.

    Args:
        sides: the version before, this one with the same pulls, and this one.
        n_pairs: batches of each.
    """
    found: list[list[tuple[float, float]]] = [[], [], []]
    for pair in range(1, 1 + n_pairs):
        for side in (0, 1, 2) if pair % 2 else (2, 1, 0):
            found[side].append(sides[side](pair))
    (cpu_then, before), (cpu_same, same), (cpu_now, after) = (zip(*one, strict=True) for one in found)
    assert before == same, "edition 1 has other pulls than the version before"
    logs = [math.log(b / a) for a, b in zip(cpu_then, cpu_same, strict=True)]
    ratio, root = math.exp(statistics.mean(logs)), n_pairs**0.5
    mean = statistics.mean(before)
    change = [100.0 * (y - x) / mean for x, y in zip(before, after, strict=True)]
    return {
        "before": mean, "before_se": statistics.stdev(before) / root,
        "now": statistics.mean(after), "now_se": statistics.stdev(after) / root,
        "change": statistics.mean(change), "change_se": statistics.stdev(change) / root,
        "us_a_pull": 1e6 * sum(cpu_now) / sum(after) / PLAIN_BATCH,
        "cpu_ratio": ratio, "cpu_ratio_se": ratio * statistics.stdev(logs) / root,
    }  # fmt: skip


SIX = """
from surepick.simulation.run import run_seeds
SIX = {
    "many arms K=10^3": lambda seed: problems.many_arms(1000, seed=seed),
    "unit basis d=5": lambda seed: problems.unit_basis([1.0, 0.75, 0.5, 0.25, 0.0]),
    "Soare d=2": lambda seed: problems.soare(2),
    "Soare d=6": lambda seed: problems.soare(6),
    "sphere d=5 K=50": lambda seed: problems.sphere(5, 50, seed=seed, times=(30.0, 400.0)),
    "sphere d=10 K=100": lambda seed: problems.sphere(10, 100, seed=seed, times=(30.0, 400.0)),
}
def run_of(problem, seeds):
    rng, means = np.random.default_rng(seeds.noise), problem.X @ problem.theta
    pull = lambda arm: float(means[arm] + rng.standard_normal())
    found = sp.identify(problem.X, pull, noise_std=1.0, seed=seeds.learner)
    return found.n_pulls, int(found.best != problem.best)
import json, sys
every = [run_seeds(8900, run) for run in range(int(sys.argv[1]))]
print(json.dumps({name: [run_of(make(seeds.instance), seeds) for seeds in every] for name, make in SIX.items()}))
"""


def paired(n_runs: str = "200", commit: str = BASE) -> None:
    """Print pulls beside the earlier commit's on the same instances and seeds: speed must not be bought with pulls."""
    with checked_out(commit) as before:
        environments = [
            {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(t / "src")} for t in (before, ROOT)
        ]
        with ThreadPoolExecutor(2) as both:
            then, now = both.map(lambda environment: _said(COMMON + SIX, n_runs, environment), environments)
    print(f"pulls of {n_runs} runs, seed 8900; before: commit {commit}; in brackets: wrong answers")
    for name, runs in then.items():
        (a, wrong_a), (b, wrong_b) = (zip(*side, strict=True) for side in (runs, now[name]))
        mean = statistics.mean(a)
        change = [100.0 * (y - x) / mean for x, y in zip(a, b, strict=True)]
        error = statistics.stdev(change) / len(change) ** 0.5
        said = f"{mean:8.1f} ({sum(wrong_a)}){statistics.mean(b):10.1f} ({sum(wrong_b)})"
        print(f"{name:28s}{said}   change {statistics.mean(change):+.1f} +- {error:.1f} %")


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


PARTS: Mapping[str, Callable[..., None]] = {
    "compare": compare, "ratio": ratio, "plain": plain, "paired": paired, "imports": imports,
}  # fmt: skip


def main() -> None:
    """Print everything."""
    for part in PARTS.values():
        part()


if __name__ == "__main__":
    PARTS[sys.argv[1]](*sys.argv[2:]) if sys.argv[1:2] else main()
