import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import pytest

from examples.own_algorithm import HalfLeader
from surepick import algorithms
from surepick.errors import InvalidInput, SurepickError
from surepick.simulation import jobs as jobs_module
from surepick.simulation import parallel as dispatch
from surepick.simulation import simulate
from surepick.simulation import store as module
from surepick.simulation.experiment import Experiment, read_experiment
from surepick.simulation.parallel import State
from surepick.simulation.problems import unit_basis
from surepick.simulation.run import AnyProblem, Instance, prepared
from surepick.simulation.sources import loaded
from surepick.simulation.store import sweep
from tests.simulation.tiny import content, python, tiny, tiny_text
from tests.waiting import LIMIT, until

N_RUNS = 12
EXAMPLE = Path(__file__).parents[2] / "examples" / "own_experiment.toml"
PLUGIN = """
from dataclasses import dataclass
from surepick.algorithms.static import Uniform

@dataclass(frozen=True, kw_only=True)
class Own:
    fails_at: int = -1

    def compose(self, ground):
        if ground.seed % 5 == self.fails_at:
            raise ZeroDivisionError("of my own\\nmaking")
        return Uniform().compose(ground)
"""
OWN = ('name = "uniform"\n\n', 'plugin = "own.py:Own"\n\n')


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The table of a sweep in one process, never interrupted."""
    folder = tmp_path_factory.mktemp("alone")
    summary = sweep(tiny(), folder, n_runs=N_RUNS)
    assert (summary.n_before, summary.n_done, summary.n_failed) == (0, 4 * N_RUNS, 0)
    return content(folder)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with a plug-in."""
    (tmp_path / "own.py").write_text(PLUGIN)
    return tmp_path


def test_runs_are_those_of_simulate(alone: Any) -> None:
    """The same problem, algorithm and seed give the same pulls, cell by cell and run by run."""
    for number, (means, stopping) in enumerate(
        (means, stopping) for means in ([3.0, 0.0, 0.0], [2.0, 1.0, 0.0]) for stopping in (None, "evidence")
    ):
        runs = simulate(unit_basis(means), "uniform", delta=0.1, n_runs=N_RUNS, seed=7, max_pulls=8, stopping=stopping)
        rows = alone[number * N_RUNS : (number + 1) * N_RUNS]
        for name, expected in runs.to_columns().items():
            if name != "seconds":
                np.testing.assert_array_equal(rows[name], expected)
    assert 0 < alone["stopped"].sum() < len(alone)  # of both kinds, or the test would say little


def test_two_processes_give_the_same_table(alone: Any, tmp_path: Path) -> None:
    """With joblib, order included."""
    sweep(tiny(), tmp_path, n_runs=N_RUNS, n_jobs=2)
    assert content(tmp_path).equals(alone)


def test_a_sweep_does_what_is_missing_only(alone: Any, tmp_path: Path) -> None:
    """Fewer runs first, then more; then there is nothing to do."""
    sweep(tiny(), tmp_path, n_runs=5)
    states: list[State] = []
    summary = sweep(tiny(), tmp_path, n_runs=N_RUNS, progress=states.append)
    assert (summary.n_before, summary.n_done) == (20, 4 * N_RUNS - 20)
    assert [state.done for state in states] == list(range(4 * N_RUNS - 20 + 1))
    assert states[-1].total == 4 * N_RUNS - 20
    assert states[0].seconds_left is None
    assert states[-2].seconds_left == pytest.approx(0.0, abs=60.0)
    assert states[-1].seconds_left == 0.0
    again = sweep(tiny(), tmp_path, n_runs=N_RUNS)
    assert (again.n_before, again.n_done) == (4 * N_RUNS, 0)
    assert content(tmp_path).equals(alone)


SWEEP = """
import sys, time
from pathlib import Path
from surepick.simulation import store
from surepick.simulation.experiment import read_experiment
from surepick.simulation.store import sweep
store.GROUP = 16
experiment = read_experiment(Path(sys.argv[1]))
def say(state):
    print(state.done, state.total, flush=True)
    if state.done > state.total // 2:
        time.sleep(600)  # there is work left, however late the kill comes
sweep(experiment, Path(sys.argv[2]), n_runs=int(sys.argv[3]), n_jobs=int(sys.argv[4]), progress=say)
"""


def killed_sweep(file: Path, folder: Path, n_runs: int, n_jobs: int, delay: float) -> tuple[int, int, bool]:
    """Kill a sweep; return the runs that were there at its start, those it reported, and whether it was at work."""
    said = folder.with_suffix(".said")
    arguments = [str(file), str(folder), str(n_runs), str(n_jobs)]
    with said.open("w") as out:
        process = subprocess.Popen([sys.executable, "-c", SWEEP, *arguments], stdout=out, start_new_session=True)
    until(lambda: "\n" in said.read_text())
    time.sleep(delay)
    process.kill()
    is_killed = process.wait() == -signal.SIGKILL
    lines = [line.split() for line in said.read_text().splitlines(keepends=True) if line.endswith("\n")]
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # the processes it has left behind, if any
    return 4 * n_runs - int(lines[0][1]), int(lines[-1][0]), is_killed


@pytest.mark.parametrize(("n_jobs", "n_kills", "n_runs"), [(1, 6, 60), (2, 2, 40)])
def test_kill_at_any_moment(tmp_path: Path, n_jobs: int, n_kills: int, n_runs: int) -> None:
    """What was reported as done is there the next time, and in the end the table is that of an undisturbed sweep."""
    rng = np.random.default_rng(5)
    file, folder = tmp_path / "tiny.toml", tmp_path / "killed"
    file.write_text(tiny_text())
    n_safe, n_killed = 0, 0
    for _ in range(n_kills):
        n_before, n_reported, is_killed = killed_sweep(file, folder, n_runs, n_jobs, rng.uniform(0.0, 0.15))
        assert n_before >= n_safe
        n_safe = n_before + n_reported
        n_killed += is_killed
    assert n_killed == n_kills
    experiment = read_experiment(file)
    summary = sweep(experiment, folder, n_runs=n_runs)
    assert n_safe <= summary.n_before < 4 * n_runs
    sweep(experiment, tmp_path / "undisturbed", n_runs=n_runs)
    assert content(folder).equals(content(tmp_path / "undisturbed"))


def test_memory_does_not_grow_with_the_runs(tmp_path: Path) -> None:
    """Once the allocators are warm, 15,000 more runs take 10 MB at most; their rows alone nearly twice that."""
    script = """
import json, resource, sys
from pathlib import Path
from surepick.simulation.experiment import read_experiment
import surepick.simulation.store as module
experiment = read_experiment(Path(sys.argv[1]))
outcome = module.run_once(module.job_of(experiment.cells()[0]), 0)
module.run_once = lambda job, run: outcome
found = []
for n in (5_000, 20_000):
    summary = module.sweep(experiment, Path(sys.argv[2]), n_runs=n // 4)
    found += [summary.n_done, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]
print(json.dumps(found))
"""
    file = tmp_path / "tiny.toml"
    file.write_text(tiny_text())
    n_few, few, n_more, many = python(script, file, tmp_path / "out")
    assert (n_few, n_more) == (5_000, 15_000)
    assert many < few + 10.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two processes of a Dask cluster on this machine."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=2, dashboard_address="127.0.0.1:0", silence_logs=60, host="127.0.0.1"
    ) as made:
        yield made


def test_dask_gives_the_same_table(alone: Any, cluster: Any, tmp_path: Path) -> None:
    """On a cluster with several threads in a process."""
    sweep(tiny(), tmp_path, n_runs=N_RUNS, dask=cluster.scheduler_address)
    assert content(tmp_path).equals(alone)


def test_dask_survives_the_loss_of_a_worker(cluster: Any, tmp_path: Path) -> None:
    """A worker killed half way: its runs are done elsewhere, and the table is that of one process."""
    from distributed import Client  # noqa: PLC0415

    n_runs = 60
    with Client(cluster.scheduler_address, set_as_default=False) as client:
        victims = list(client.run(os.getpid).values())

    def kill(state: State) -> None:
        if victims and state.done > state.total // 3:
            os.kill(victims.pop(), signal.SIGKILL)
            del victims[:]

    summary = sweep(tiny(), tmp_path / "dask", n_runs=n_runs, dask=cluster.scheduler_address, progress=kill)
    assert not victims
    assert (summary.n_done, summary.n_failed) == (4 * n_runs, 0)
    sweep(tiny(), tmp_path / "here", n_runs=n_runs)
    assert content(tmp_path / "dask").equals(content(tmp_path / "here"))


def test_a_dask_cluster_of_its_own(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """dask="local" starts one; a plug-in travels with its source, errors come back as one line."""
    experiment = tiny((OWN[0], OWN[1] + "options = { fails_at = 1 }\n\n"), folder=own)
    monkeypatch.setattr(module, "check_cells", lambda _: None)
    summary = sweep(experiment, own / "dask", n_runs=8, dask="local", n_jobs=1)
    here = sweep(experiment, own / "here", n_runs=8)
    assert summary.n_failed == here.n_failed > 0
    assert summary.failures == here.failures
    assert content(own / "dask").equals(content(own / "here"))


def test_no_cluster_is_said_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens there."""
    monkeypatch.setattr(dispatch, "DASK_SECONDS", 0.5)
    address = "tcp://127.0.0.1:1"
    with pytest.raises(SurepickError, match=f"no Dask cluster with a worker answers at {address}") as caught:
        sweep(tiny(), tmp_path, n_runs=1, dask=address)
    assert "\n" not in str(caught.value)


def test_an_address_that_is_none_does_not_keep_the_process(tmp_path: Path) -> None:
    """A client that was never connected waits for a minute when the interpreter ends; there is to be none."""
    script = """if True:
        import sys, time
        from pathlib import Path
        from surepick.errors import SurepickError
        from surepick.simulation.store import sweep
        from tests.simulation.tiny import tiny
        for address in sys.argv[2:]:
            try:
                sweep(tiny(), Path(sys.argv[1]), n_runs=1, dask=address)
            except SurepickError as error:
                print(error)
        print(time.monotonic())
    """
    addresses = ["nonsense", "nonsense://1", "tcp://nonsense", "tcp://localhost:x"]
    command = [sys.executable, "-c", script, str(tmp_path), *addresses]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT)
    *errors, at_the_end = done.stdout.splitlines()
    assert time.monotonic() - float(at_the_end) < 50.0, "the interpreter waited for a client"
    for address, said in zip(addresses, errors, strict=True):
        assert f'must be "local" or an address such as "tcp://host:8786", got {address!r}' in said


def test_an_error_in_a_run_leaves_the_others_alone(own: Path) -> None:
    """Failed runs are reported with cell and run, not kept, and tried again the next time."""
    experiment = tiny((OWN[0], OWN[1] + "options = { fails_at = 1 }\n\n"), folder=own)
    summaries = [sweep(experiment, own / "out", n_runs=8) for _ in range(2)]
    first, again = summaries
    assert 0 < first.n_failed < 16
    assert again.n_failed == first.n_failed
    assert first.n_done == 32 - first.n_failed == again.n_before
    assert len(first.failures) == 2  # one for each of the two problems
    assert first.failures[1].cell == "uniform on unit_basis(means=[3.0, 0.0, 0.0]) at delta 0.1"
    assert first.failures[0].error == "ZeroDivisionError: of my own making"
    rows = content(own / "out")
    of_first = rows[(rows["algorithm"] == "uniform") & (rows["arguments"] == rows["arguments"][0])]
    assert first.failures[1].run not in of_first["run"].tolist()


def test_an_interrupted_sweep_goes_on(alone: Any, tmp_path: Path) -> None:
    """Ctrl-C in one process and in two: what is finished is in the table, the rest is done the next time."""

    def interrupt(state: State) -> None:
        if state.done >= 10:
            raise KeyboardInterrupt

    for n_jobs in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            sweep(tiny(), tmp_path, n_runs=N_RUNS, n_jobs=n_jobs, progress=interrupt)
    n_kept = len(content(tmp_path))
    assert 20 <= n_kept < 4 * N_RUNS
    assert sweep(tiny(), tmp_path, n_runs=N_RUNS).n_before == n_kept
    assert content(tmp_path).equals(alone)


def test_a_process_that_dies_ends_the_sweep_in_one_sentence(own: Path) -> None:
    """A plug-in that kills its process: what is finished is kept."""
    (own / "own.py").write_text(
        PLUGIN.replace('raise ZeroDivisionError("of my own\\nmaking")', "import os; os._exit(9)")
    )
    experiment = tiny((OWN[0], OWN[1] + "options = { fails_at = 1 }\n\n"), folder=own)
    with pytest.raises(SurepickError, match=r"a process was killed, .* finished runs of an experiment are kept"):
        sweep(experiment, own / "out", n_runs=30, n_jobs=2)
    assert len(content(own / "out")) > 0


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            ("stopping = ", "stop_rule = "),
            r"evidence on unit_basis.* cannot be run: there is no option 'stop_rule'; the options are",
        ),
        (('stopping = "evidence"', 'stopping = "x"'), r"cannot be run: `stopping` must be one of"),
        (
            ("[2.0, 1.0, 0.0]]", "[2.0]]"),
            r"uniform on unit_basis\(means=\[2.0\]\).* cannot be run: `means` must be at least two",
        ),
        (('name = "uniform"\n\n', 'name = "xy-oracle"\n\n'), r"cannot be run: .*theta"),
        (OWN, r"cannot be run: the plug-in .*own.py must have a class Own with a method `compose`"),
        (
            (OWN[0], 'plugin = "broken.py:Own"\n\n'),
            r"the plug-in .*broken.py cannot be run: ModuleNotFoundError: No mod",
        ),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_runs(tmp_path: Path, change: Any, complaint: str) -> None:
    """Problems are drawn and algorithms composed once beforehand."""
    (tmp_path / "own.py").write_text("class Other: ...\n")
    (tmp_path / "broken.py").write_text("import no_such_module\n")
    with pytest.raises(InvalidInput, match=complaint) as caught:
        sweep(tiny(change, folder=tmp_path), tmp_path / "out", n_runs=2)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out" / "runs.parquet").exists()


def test_options_of_a_plug_in_are_checked(own: Path) -> None:
    """An option it does not have is named."""
    experiment = tiny((OWN[0], OWN[1] + "options = { fails = 1 }\n\n"), folder=own)
    with pytest.raises(InvalidInput, match=r"cannot be run: Own has no option 'fails'; its options are fails_at"):
        sweep(experiment, own / "out", n_runs=1)


def test_a_plug_in_runs_like_a_built_in_algorithm(alone: Any, own: Path) -> None:
    """Uniform sampling in a user's file gives the rows of uniform sampling, in two processes too."""
    experiment = tiny(OWN, folder=own)
    for n_jobs in (1, 2):
        folder = own / str(n_jobs)
        sweep(experiment, folder, n_runs=N_RUNS, n_jobs=n_jobs)
        assert content(folder).drop(columns="key").equals(alone.drop(columns="key"))
        assert (folder / "own.py").read_text() == PLUGIN
        moved = read_experiment(folder / "experiment.toml")  # stands alone, without the user's folder
        assert [cell.key for cell in moved.cells()] == [cell.key for cell in experiment.cells()]


def test_an_entry_point_is_an_algorithm_like_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that declares one is found by its name."""
    points = EntryPoints(
        [EntryPoint(name="half", value="examples.own_algorithm:HalfLeader", group="surepick.algorithms")]
    )
    monkeypatch.setattr(algorithms, "_plug_ins", lambda: points)
    experiment = tiny(('name = "uniform"\n\n', 'name = "half"\noptions = { share = 0.3 }\n\n'))
    assert sweep(experiment, tmp_path, n_runs=3).n_done == 12


def test_the_example_appears_beside_the_others(tmp_path: Path) -> None:
    """The example's experiment runs, with the algorithm of its file."""
    experiment: Experiment = read_experiment(EXAMPLE)
    plugin = experiment.algorithms[0].plugin
    assert plugin is not None
    factory: Callable[..., Any] = loaded(plugin)
    assert factory() == factory(share=HalfLeader().share)
    summary = sweep(experiment, tmp_path, n_runs=1)
    assert (summary.n_done, summary.n_failed) == (len(experiment.cells()), 0)
    table = content(tmp_path)
    assert set(table["algorithm"]) == {"half to the leader", "Lazy Track-and-Stop", "uniform"}
    assert table["stopped"].all()


def test_the_example_as_a_script() -> None:
    """It ends with the right arm; the seed is in the file."""
    script = EXAMPLE.with_name("own_algorithm.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Arm 1 is the best")


def test_instances_are_shared_between_cells_of_one_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A problem that is not redrawn is prepared once in a process, however many algorithms and runs use it."""
    calls: list[str] = []

    def counted(problem: AnyProblem, **options: Any) -> Instance:
        calls.append(problem.name)
        return prepared(problem, **options)

    monkeypatch.setattr(jobs_module, "prepared", counted)
    jobs_module._instance.cache_clear()
    monkeypatch.setattr(module, "check_cells", lambda _: None)
    sweep(tiny(), tmp_path, n_runs=4)
    assert len(calls) == 2


ENDLESS = """
import os, sys, time
from pathlib import Path
from surepick.simulation.parallel import dispatch

def work(folder, runs):
    (Path(folder) / f"{os.getpid()}").touch()
    time.sleep(600)

for _ in dispatch(work, [sys.argv[1]], [range(4)], lambda _: None, n_jobs=2):
    pass
"""


def test_processes_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    """They went on for ever before, and took the cores of the next sweep."""
    script, seen = tmp_path / "endless.py", tmp_path / "seen"
    script.write_text(ENDLESS)
    seen.mkdir()
    process = subprocess.Popen([sys.executable, str(script), str(seen)], start_new_session=True)
    try:
        until(lambda: len(list(seen.iterdir())) == 2)
        process.kill()
        process.wait()
        workers = [int(path.name) for path in seen.iterdir()]
        until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
