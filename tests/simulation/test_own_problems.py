"""Problems of your own in experiments: from files with code, tables of arms and entry points, with labels."""

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import numpy as np
import pytest

from surepick.core.design import lower_bound
from surepick.errors import InvalidInput
from surepick.reporting.experiment_page import _why_no_bound
from surepick.reporting.experiment_summary import section_of
from surepick.simulation import problems, sources
from surepick.simulation.experiment import Experiment, call_of, parse_experiment, read_experiment
from surepick.simulation.store import TABLE, sweep
from tests.simulation.tiny import TINY, content

PLUGIN = '''
import numpy as np
from surepick.simulation.problems import Problem


class Coins(Problem):
    """Rewards 0 and 1."""

    def pull(self, arm, rng):
        return float(rng.random() < self.X[arm] @ self.theta)


def coins(low=0.1):
    return Coins(X=np.eye(2), theta=np.array([0.9, low]), name="coins")
'''
TABLE_OF_ARMS = "name,heat,time,gain\na,1,0,1.0\nb,0,1,0.2\nc,1,1,1.4\nd,2,1,2.1\ne,0,0,0.1\n"
OWN = '[[problems]]\nname = "unit_basis"\narguments = { means = [[3.0, 0.0, 0.0], [2.0, 1.0, 0.0]] }\n'


def written(folder: Path, problem: str, *changes: tuple[str, str]) -> Path:
    """Write an experiment with this entry of [[problems]] beside its files; return its path."""
    (folder / "own.py").write_text(PLUGIN)
    (folder / "arms.csv").write_text(TABLE_OF_ARMS)
    assert OWN in TINY
    text = TINY.replace(OWN, f"[[problems]]\n{problem}\n").replace("max_pulls = 8", "max_pulls = 400")
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    path = folder / "own.toml"
    path.write_text(text)
    return path


def run(path: Path, folder: Path) -> Experiment:
    """Run an experiment twice each cell, and check that the folder stands alone."""
    experiment = read_experiment(path)
    assert sweep(experiment, folder, n_runs=2, n_jobs=2).n_failed == 0
    moved = read_experiment(folder / "experiment.toml")
    assert [cell.key for cell in moved.cells()] == [cell.key for cell in experiment.cells()]
    return experiment


def test_a_problem_in_a_file_draws_its_own_rewards(tmp_path: Path) -> None:
    """Also in other processes; options of `simulate` are options of an algorithm."""
    problem = 'plugin = "own.py:coins"\nlabel = "coins, low {low}"\narguments = { low = [0.1, 0.2] }'
    binary = ('name = "uniform"\n\n', 'name = "uniform"\noptions = { rewards = "binary" }\n\n')
    learnt = ('{ stopping = "evidence" }', '{ rewards = "binary", audit = 5 }')
    experiment = run(written(tmp_path, problem, binary, learnt), tmp_path / "out")
    assert content(tmp_path / "out")["correct"].all()
    assert str(experiment.cells()[0]) == "uniform on coins, low 0.1 at delta 0.1"
    section = section_of(experiment, tmp_path / "out" / TABLE)
    assert section.place(section.summaries[-1]) == "coins, low 0.2"
    before = experiment.cells()[0].key
    (tmp_path / "own.py").write_text(PLUGIN + "\n# changed\n")
    assert read_experiment(tmp_path / "own.toml").cells()[0].key != before


def test_a_lower_bound_is_for_normal_noise_and_for_groups_as_they_come(tmp_path: Path) -> None:
    """Coins have none, and the report says so; with offsets of groups the bound is that of groups."""
    coins = ('name = "uniform"\n\n', 'name = "uniform"\noptions = { rewards = "binary" }\n\n')
    groups = ('{ stopping = "evidence" }', '{ stopping = "betting", groups = "offset" }')
    path = written(
        tmp_path, OWN.partition("\n")[2], ("max_pulls = 400", "max_pulls = 400\nbounds = true"), coins, groups
    )
    own = path.read_text().replace("[[3.0, 0.0, 0.0], [2.0, 1.0, 0.0]]", "[[0.9, 0.1, 0.0]]")
    path.write_text(own)
    experiment = run(path, tmp_path / "out")
    found = content(tmp_path / "out")
    assert found["lower_bound"][found["algorithm"] == "uniform"].isna().all()
    bound = lower_bound(np.eye(3), [0.9, 0.1, 0.0], 0.1, groups="offset")
    assert (found["lower_bound"][found["algorithm"] == "evidence"] == bound).all()
    section = section_of(experiment, tmp_path / "out" / TABLE)
    assert _why_no_bound(section.summaries[0]) == "bounds are for normal noise"


def test_arms_come_from_a_file(tmp_path: Path) -> None:
    """Theta is the fit of the column of rewards; the content of the file is part of the key."""
    path = written(tmp_path, 'file = "arms.csv"\narguments = { rewards = "gain", noise_std = 0.3 }')
    experiment = run(path, tmp_path / "out")
    problem = experiment.cells()[0].draw(0)
    assert isinstance(problem, problems.Problem)
    assert (problem.noise_std, problem.best, problem.name) == (0.3, 3, "arms")
    assert (tmp_path / "out" / "arms.csv").read_text() == TABLE_OF_ARMS
    before = experiment.cells()[0].key
    (tmp_path / "arms.csv").write_text(TABLE_OF_ARMS.replace("2.1", "2.2"))
    assert read_experiment(path).cells()[0].key != before


def test_a_file_is_a_problem(tmp_path: Path) -> None:
    """By a column of rewards, with the scatter around its fit as noise, or by theta."""
    (tmp_path / "arms.csv").write_text(TABLE_OF_ARMS)
    fitted = problems.from_file(tmp_path / "arms.csv", rewards="gain", label="gains")
    means = np.array([1.0, 0.2, 1.4, 2.1, 0.1])
    expected = np.linalg.lstsq(fitted.X, means, rcond=None)
    np.testing.assert_allclose(fitted.theta, expected[0])
    assert fitted.noise_std == pytest.approx(np.sqrt(float(expected[1][0]) / (5 - fitted.dim)))
    assert fitted.name == "gains"
    np.save(tmp_path / "arms.npy", np.eye(3))
    given = problems.from_file(tmp_path / "arms.npy", theta=[0.0, 1.0, 0.5], noise_std=0.2)
    assert (given.best, given.noise_std, given.name) == (1, 0.2, "arms")
    with pytest.raises(InvalidInput, match=r"one of `rewards`.* got neither"):
        problems.from_file(tmp_path / "arms.npy")
    with pytest.raises(InvalidInput, match="got both"):
        problems.from_file(tmp_path / "arms.csv", rewards="gain", theta=[1.0])


def test_an_entry_point_is_a_problem_like_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that declares one in the group `surepick.problems` is found by its name."""
    points = EntryPoints([EntryPoint("two", "surepick.simulation.problems:soare", "surepick.problems")])
    monkeypatch.setattr(sources, "entry_points", lambda group: points.select(group=group))
    experiment = read_experiment(written(tmp_path, 'name = "two"\narguments = { dim = 2, angle = 0.9 }'))
    assert sweep(experiment, tmp_path / "out", n_runs=1).n_done == 2
    with pytest.raises(InvalidInput, match=r"`name` must be one of many_arms, .*two, got 'three'"):
        read_experiment(written(tmp_path, 'name = "three"'))


@pytest.mark.parametrize(
    ("problem", "complaint"),
    [
        ("redraw = true", "needs one of `name`, `plugin` and `file`, got none"),
        ('name = "soare"\nfile = "arms.csv"', "got name and file"),
        ('file = "gone.csv"', "cannot read the table .*gone.csv"),
        ("file = 3", "`file` must be a table of arms"),
        ('plugin = "own.py"', "`plugin` must be a file and a function"),
        ('plugin = "gone.py:f"', "cannot read the plug-in"),
        ('name = "soare"\nlabel = "d {size}"\narguments = { dim = 2 }', "`label` must be a text with arguments"),
        ('file = "arms.csv"\nredraw = true', "no seed to redraw it from"),
    ],
)
def test_bad_problems_are_refused(tmp_path: Path, problem: str, complaint: str) -> None:
    """Before the first run, by what is wrong."""
    with pytest.raises(InvalidInput, match=complaint):
        read_experiment(written(tmp_path, problem))


def test_a_plug_in_without_the_function_is_refused_before_the_first_run(tmp_path: Path) -> None:
    """Files are read first and run later."""
    experiment = read_experiment(written(tmp_path, 'plugin = "own.py:gone"'))
    with pytest.raises(InvalidInput, match="must have a function or class gone"):
        sweep(experiment, tmp_path / "out", n_runs=1)


def test_matrices_are_not_printed() -> None:
    """A table of arms is shown by its size."""
    assert call_of("listed", {"arms": [[1.0, 0.0]] * 30, "theta": [1.0, 0.0]}) == (
        "listed(arms=30 x 2 numbers, theta=[1.0, 0.0])"
    )


def test_keys_of_earlier_experiments_stay() -> None:
    """A problem by name has the key that it had, so that saved runs are found."""
    cell = parse_experiment(TINY, "tiny").cells()[0]
    assert cell.key.startswith("a6ccc51375beb382")


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        ('plugin = "own.py:coins"\narguments = { lo = 0.2 }', "coins takes no 'lo'; its arguments are low"),
        ('plugin = "own.py:number"', "number must return a problem, such as .*, got a int"),
    ],
)
def test_a_problem_in_a_file_is_checked_before_the_first_run(tmp_path: Path, problem: str, said: str) -> None:
    """An argument that the function does not take would be left out without a word."""
    path = written(tmp_path, problem)
    (tmp_path / "own.py").write_text(PLUGIN + "\n\ndef number():\n    return 3\n")
    with pytest.raises(InvalidInput, match=said):
        sweep(read_experiment(path), tmp_path / "out", n_runs=1)


def test_an_option_that_an_own_algorithm_does_not_have_is_named(tmp_path: Path) -> None:
    """With those that it has."""
    (tmp_path / "mine.py").write_text(
        "from surepick.algorithms import Uniform\n\n\nclass Mine:\n    def __init__(self, share=0.5):\n"
        "        self.share = share\n\n    def compose(self, task):\n        return Uniform().compose(task)\n"
    )
    own = ('name = "uniform"\n\n', 'plugin = "mine.py:Mine"\noptions = { shar = 0.5 }\n\n')
    path = written(tmp_path, 'plugin = "own.py:coins"', own)
    with pytest.raises(InvalidInput, match="Mine has no option 'shar'; its options are share"):
        sweep(read_experiment(path), tmp_path / "out", n_runs=1)
