import re
from pathlib import Path

import numpy as np
import pytest

from surepick.algorithms import names as algorithms
from surepick.arms.finite import FiniteArms
from surepick.errors import InvalidInput
from surepick.simulation import experiment as module
from surepick.simulation import problems
from surepick.simulation.experiment import (
    Experiment,
    named_experiment,
    named_experiments,
    parse_experiment,
    read_experiment,
)
from surepick.simulation.jobs import check_cells, job_of
from surepick.simulation.problems import Problem
from surepick.simulation.run import run_once
from tests.simulation.tiny import tiny, tiny_text

PLUGIN = "class Own:\n    def compose(self, task):\n        raise NotImplementedError\n"


def keys(experiment: Experiment) -> list[str]:
    """The keys of all cells."""
    return [cell.key for cell in experiment.cells()]


def test_cells_are_the_grid_in_the_order_of_the_file() -> None:
    """Problems, then arguments with the last one fastest, then delta, then algorithms."""
    grid = tiny(
        ('name = "unit_basis"', 'name = "soare"'),
        ("means = [[3.0, 0.0, 0.0], [2.0, 1.0, 0.0]]", "dim = [2, 3], angle = [0.1, 0.2]"),
        ("delta = [0.1]", "delta = [0.1, 0.01]"),
    )
    found = [(*cell.arguments.values(), cell.delta, cell.algorithm.label) for cell in grid.cells()]
    assert found == [
        (dim, angle, delta, label)
        for dim in (2, 3)
        for angle in (0.1, 0.2)
        for delta in (0.1, 0.01)
        for label in ("uniform", "evidence")
    ]


def test_an_argument_that_is_a_list_stands_in_a_list() -> None:
    """The grid is spanned by the outer list."""
    assert [cell.arguments["means"] for cell in tiny().cells()][::2] == [[3.0, 0.0, 0.0], [2.0, 1.0, 0.0]]


def test_texts_and_other_cells_do_not_enter_the_key() -> None:
    """Labels, titles, numbers of runs and further cells keep the runs that are there."""
    first = keys(tiny())
    changed = tiny(
        ('label = "uniform"', 'label = "in turn"'),
        ('title = "Tiny"', 'title = "Small"\nabout = "x"'),
        ("n_runs = 12", "n_runs = 99"),
        ("delta = [0.1]", "delta = [0.1, 0.2]"),
    )
    assert set(first) < set(keys(changed))
    assert len(set(first)) == 4


@pytest.mark.parametrize(
    "change",
    [
        ("seed = 7", "seed = 8"),
        ("max_pulls = 8", "max_pulls = 9"),
        ("max_pulls = 8", "max_pulls = 8\nbounds = true"),
        ("delta = [0.1]", "delta = [0.11]"),
        ("means = [[3.0, 0.0, 0.0], [2.0, 1.0, 0.0]]", "means = [[3.5, 0.0, 0.0]]"),
        ("1.0, 0.0]] }", "1.0, 0.0]], noise_std = 0.5 }"),
        ('"uniform"\n\n', '"uniform"\nonly = { name = "unit_basis" }\n\n'),
        ('"uniform"\n\n', '"uniform"\noptions = { schedule = "doubling" }\n\n'),
        ('"uniform"\n\n', '"xy-oracle"\nknows = ["theta"]\n\n'),
    ],
)
def test_what_determines_a_run_enters_the_key(change: tuple[str, str]) -> None:
    """Any change of problem, arguments, options, knowledge, risk, seed or limit gives new runs; `only` does not."""
    before, after = keys(tiny()), keys(tiny(change))
    assert (before[0] == after[0]) == ("only" in change[1])


def test_the_source_of_a_plug_in_enters_the_key(tmp_path: Path) -> None:
    """Another version of the file gives other runs; where it lies does not matter."""
    change = ('name = "uniform"\n\n', 'plugin = "sub/own.py:Own"\n\n')
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "own.py").write_text(PLUGIN)
    (tmp_path / "own.py").write_text(PLUGIN)
    first = keys(tiny(change, folder=tmp_path))
    (tmp_path / "sub" / "own.py").unlink()
    assert keys(tiny(change, folder=tmp_path)) == first  # found beside the file, as in a folder of results
    (tmp_path / "own.py").write_text(PLUGIN + "\n")
    again = keys(tiny(change, folder=tmp_path))
    assert [a == b for a, b in zip(first, again, strict=True)] == [False, True, False, True]


def test_arguments_that_every_problem_takes() -> None:
    """noise_std is the problem's, epsilon the learner's."""
    cell = tiny(("[2.0, 1.0, 0.0]] }", "[2.0, 1.0, 0.0]], noise_std = 0.5, epsilon = 0.2 }")).cells()[0]
    assert cell.draw(0).noise_std == 0.5
    assert cell.epsilon == 0.2
    own = tiny(
        ("unit_basis", "sphere_set"), ("means = [[3.0, 0.0, 0.0], [2.0, 1.0, 0.0]]", "dim = 3, epsilon = 0.2")
    ).cells()[0]
    assert own.epsilon == 0.0  # it brings its own


def test_a_budget_is_an_argument_of_every_problem() -> None:
    """It goes to the algorithm, and the runs of another budget are others."""
    spends = ('"uniform"\n\n', '"uniform"\noptions = { goal = "fixed-budget" }\n\n')
    first, other = (
        tiny(("[2.0, 1.0, 0.0]] }", f"[2.0, 1.0, 0.0]], budget = {budget} }}"), spends).cells()[0] for budget in (9, 12)
    )
    assert first.key != other.key
    assert dict(job_of(other).options) == {"goal": "fixed-budget", "budget": 12}
    assert run_once(job_of(other)._replace(max_pulls=100), 0).n_pulls == 12
    with pytest.raises(InvalidInput, match="`budget` must be"):
        tiny(("[2.0, 1.0, 0.0]] }", "[2.0, 1.0, 0.0]], budget = 0 }"))


def test_redrawn_problems_follow_the_seed() -> None:
    """With redraw the run's seed makes the instance; without it the arguments alone do."""
    text = ("unit_basis", "many_arms"), ("means = [[3.0, 0.0, 0.0], [2.0, 1.0, 0.0]]", "n_arms = 9")
    fixed = tiny(*text).cells()[0]
    redrawn = tiny(*text, ('"many_arms"', '"many_arms"\nredraw = true')).cells()[0]

    def arms(cell: module.Cell, seed: int) -> list[list[float]]:
        problem = cell.draw(seed)
        assert isinstance(problem, Problem)
        return problem.X.tolist()

    assert arms(fixed, 1) == arms(fixed, 2) == problems.many_arms(9).X.tolist()
    assert arms(redrawn, 1) != arms(redrawn, 2)
    assert arms(redrawn, 2) == problems.many_arms(9, seed=2).X.tolist()


def test_knowledge_is_true_of_the_problem() -> None:
    """What algorithms are told: theta, its norm, the largest mean in size, the smallest noise."""
    problem = problems.unit_basis([3.0, -4.0])
    told = {name: know(problem) for name, know in module.KNOWLEDGE.items()}
    np.testing.assert_array_equal(told["theta"], [3.0, -4.0])
    assert (told["norm_bound"], told["reward_bound"], told["least_noise_std"]) == (5.0, 4.0, 1.0)
    assert FiniteArms(problem.X).n_arms == 2


def test_a_star_stands_for_algorithms_without_an_entry() -> None:
    """With the same options; labels follow, plug-ins of other packages too."""
    uniform = 'label = "uniform"\nname = "uniform"'
    star = tiny((uniform, 'label = "*, own"\nname = "*"'))
    assert [spec.label for spec in star.algorithms] == [f"{name}, own" for name in algorithms()] + ["evidence"]
    again = tiny(
        ('label = "uniform"\nname = "uniform"', 'label = "*"\nname = "*"\noptions = { stopping = "evidence" }')
    )
    assert sorted(spec.name for spec in again.algorithms) == algorithms()


def test_bounds_can_be_left_out_for_an_algorithm() -> None:
    """They are computed for those that do not say otherwise."""
    text = ("max_pulls = 8", "max_pulls = 8\nbounds = true"), ('"uniform"\n\n', '"uniform"\nbounds = false\n\n')
    assert [cell.bounds for cell in tiny(*text).cells()] == [False, True, False, True]


def test_every_problem_can_have_a_seed_of_its_own() -> None:
    """Seed, seed + 1, ...: cells of one problem share it."""
    assert [cell.seed for cell in tiny().cells()] == [7, 7, 7, 7]
    assert [cell.seed for cell in tiny(("seed = 7", "seed = 7\nown_seeds = true")).cells()] == [7, 7, 8, 8]


def test_published_tables_are_taken_as_far_as_they_fit() -> None:
    """Figures for which there is a cell; a label that nobody has and a table that does not exist are refused."""
    many = ("unit_basis", "many_arms"), ("means = [[3.0, 0.0, 0.0], [2.0, 1.0, 0.0]]", "n_arms = [1000, 10000]")
    figures = '[[published]]\nalgorithm = "uniform"\nfigures = "table_1"\nnote = "n"\n'
    found = tiny(*many, ("# end", figures), ("[0.1]", "[0.05]")).published
    assert [(figure.problem, figure.mean, figure.se, figure.note) for figure in found] == [
        ({"n_arms": 1000}, 1409.0, 57.0, "n")
    ]
    assert tiny(*many, ("# end", figures)).published == ()  # nothing is printed for that risk
    for old, new, complaint in (("uniform", "x", "got 'x' with"), ("table_1", "table_9", "`figures` must be one of")):
        with pytest.raises(InvalidInput, match=complaint):
            tiny(*many, ("# end", figures.replace(old, new)))


def test_published_figures_find_their_cells() -> None:
    """A figure is about the cells with its label, arguments and, if given, its delta."""
    figure = '[[published]]\nalgorithm = "uniform"\nproblem = { means = [[3.0, 0.0, 0.0]] }\nmean = 9\nsource = "me"\n'
    found = tiny(("# end", f"{figure}delta = 0.2"), ("delta = [0.1]", "delta = [0.1, 0.2]"))
    (published,) = found.published
    about = [cell for cell in found.cells() if published.is_about(cell)]
    assert [(cell.delta, cell.arguments["means"][0], cell.algorithm.label) for cell in about] == [(0.2, 3.0, "uniform")]
    assert (published.mean, published.se, published.quantity) == (9.0, None, "n_pulls")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("title", "heading"), r"tiny.toml: no key `heading` is known; .* `title` is missing"),
        (('title = "Tiny"\n', ""), r"tiny.toml: `title` is missing; it must be a text"),
        (('title = "Tiny"', 'title = "Tiny"\ncolour = 1'), r"no key `colour` is known; the keys are .*title"),
        (("[0.1]", "0.1"), r"`delta` must be a list of one or more different numbers such as \[0.05\], got 0.1"),
        (("[0.1]", "[0.1, 0.1]"), r"`delta` must be a list of one or more different numbers"),
        (("[0.1]", "[1.5]"), r"tiny.toml: `delta` must be"),
        (("[0.1]", "[true]"), r"`delta` must be a list of one or more different numbers"),
        (("n_runs = 12", "n_runs = 0"), r"`n_runs` must be a whole number of at least 1, got 0"),
        (("seed = 7", "seed = 7.5"), r"`seed` must be a whole number"),
        (('name = "tiny"', 'name = "../tiny"'), r"`name` must be letters, digits"),
        (('"unit_basis"', '"unit_bases"'), r"\[\[problems\]\] 1: `name` must be one of many_arms, .* got 'unit_bases'"),
        (("{ means", "{ mean"), r"unit_basis takes no 'mean'; its arguments are means"),
        (("arguments = {", "#"), r"unit_basis takes 'means'"),
        (('"unit_basis"', '"unit_basis"\nredraw = true'), r"`redraw` must be false, since unit_basis has no seed"),
        (("[[3.0, 0.0, 0.0], [2.0, 1.0, 0.0]]", "[]"), r"at least one value for means"),
        (("[[3.0, 0.0, 0.0], [2.0, 1.0, 0.0]]", "1979-05-27"), r"must be numbers, texts, lists or tables"),
        (("1.0, 0.0]] }", "1.0, 0.0]], noise_std = 0 }"), r"\[\[problems\]\] 1: `noise_std` must be"),
        (('name = "uniform"\n\n', 'name = "equally"\n\n'), r"\[\[algorithms\]\] 1: `name` must be one of alba, .*equa"),
        (('name = "uniform"\n\n', 'options = { a = 1 }\n\n'), r"`name` must be one of"),
        (('"uniform"\n\n', '"uniform"\nknows = ["thera"]\n\n'), r"`knows` must be some of theta, norm_bound, rew"),
        (('"uniform"\n\n', '"uniform"\nonly = { means = 1 }\n\n'), r"`only` of 'uniform' must fit a problem"),
        (('label = "evidence"', 'label = "uniform"'), r"a label of its own, got 'uniform' twice"),
        (('options = { stopping = "evidence" }', ""), r"the same runs twice: uniform on unit_basis.*; evidence on"),
        (('"uniform"\n\n', '"uniform"\nplugin = "own.py"\n\n'), r"`plugin` must be a file and a class such as"),
        (('"uniform"\n\n', '"uniform"\nplugin = "no.py:Own"\n\n'), r"cannot read the plug-in no.py: No such file"),
        (("[[algorithms]]", "[[algorithm]]"), r"`algorithms` is missing"),
        (("[[problems]]", "[problems]"), r"`problems` must be a list of tables, each headed \[\[problems\]\]"),
        (('title = "Tiny"', 'title = Tiny'), r"tiny.toml must be TOML: .*line 3"),
        (("# end", '[[published]]\nalgorithm = "x"\nmean = 1\nsource = "y"\n'), r"got 'x' with \{\}; look at the"),
        (("# end", '[[published]]\nalgorithm = "x"\nmean = "1"\n'), r"\[\[published\]\] 1: `mean` must be a number"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_in_one_sentence(change: tuple[str, str], complaint: str) -> None:
    """The file, the table, the key, what was needed and what came."""
    with pytest.raises(InvalidInput, match=complaint) as caught:
        tiny(change)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    """A missing file and one that is no text."""
    with pytest.raises(InvalidInput, match=r"cannot read .*none\.toml: No such file"):
        read_experiment(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match=r"cannot read .*latin\.toml"):
        read_experiment(tmp_path / "latin.toml")


def test_experiments_of_the_package_can_be_read() -> None:
    """Each has the name of its file, known algorithms, and fewer runs by default than in full."""
    names = named_experiments()
    assert "paper-table-1" in names
    known = [*algorithms(), *algorithms(fixed_budget=True)]
    for name in names:
        found = named_experiment(name)
        assert found.name == name
        assert found.quick_runs <= found.n_runs
        assert all(spec.plugin is not None or spec.name in known for spec in found.algorithms)
    with pytest.raises(InvalidInput, match=r"an experiment must be one of .*paper-table-1"):
        named_experiment("paper-table-9")


def shown(problems: str, folder: Path) -> list[str]:
    """Names of the problems of an experiment with these entries."""
    text = tiny_text((PROBLEM, problems))
    cells = parse_experiment(text, "tiny.toml", folder).cells()
    return list(dict.fromkeys(cell.shown for cell in cells))


PROBLEM = """[[problems]]
name = "unit_basis"
arguments = { means = [[3.0, 0.0, 0.0], [2.0, 1.0, 0.0]] }
"""


def test_problems_have_names_of_their_own(tmp_path: Path) -> None:
    """A file names its problem; one label for a grid gets what varies; equal labels are refused."""
    for name, best in (("alloys", 1.7), ("other", 1.8)):
        (tmp_path / f"{name}.csv").write_text(f"x,y\n1.0,2.0\n0.5,1.0\n0.2,0.7\n0.9,{best}\n")
    files = "".join(
        f'[[problems]]\nfile = "{name}.csv"\narguments = {{ rewards = "y" }}\n' for name in ("alloys", "other")
    )
    assert shown(files, tmp_path) == ["alloys.csv", "other.csv"]
    soare = '[[problems]]\nname = "soare"\nlabel = "LABEL"\narguments = { dim = 2, angle = [0.3, 0.8] }\n'
    assert shown(soare.replace("LABEL", "Soare"), tmp_path) == ["Soare, angle 0.3", "Soare, angle 0.8"]
    assert shown(soare.replace("LABEL", "Soare {angle:.2f}"), tmp_path) == ["Soare 0.30", "Soare 0.80"]
    with pytest.raises(InvalidInput, match=r"two problems are called 'Soare, angle 0.3' .* label = \"Soare {angle}\""):
        shown(2 * soare.replace("LABEL", "Soare").replace("dim = 2", "dim = 2, epsilon = 0.0", 1), tmp_path)
    long = [[float(i == best) for i in range(20)] for best in (0, 1)]
    means = f'[[problems]]\nname = "unit_basis"\narguments = {{ means = {long} }}\n'
    assert shown(means, tmp_path) == ["unit_basis, means 20 values (1)", "unit_basis, means 20 values (2)"]


def test_errors_of_a_plug_in_name_its_line(tmp_path: Path) -> None:
    """The last line of the user's file, though the error comes from numpy below it."""
    (tmp_path / "own.py").write_text(
        "import numpy as np\n\n\ndef problem():\n    return np.linalg.inv(np.zeros((2, 2)))\n"
    )
    text = tiny_text((PROBLEM, '[[problems]]\nplugin = "own.py:problem"\n'))
    cells = parse_experiment(text, "tiny.toml", tmp_path).cells()
    with pytest.raises(InvalidInput, match=r"LinAlgError: Singular matrix \(own.py, line 5\)"):
        check_cells(cells)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "unit_basis"', 'name = "unit_bases"', "got 'unit_bases'; did you mean 'unit_basis'"),
        ('name = "unit_basis"', 'names = "unit_basis"', "no key `names` is known; did you mean 'name'"),
        ('label = "uniform"', 'labels = "uniform"', "no key `labels` is known; did you mean 'label'"),
        (
            'label = "evidence"\nname = "uniform"',
            'label = "e"\nname = "unifrm"',
            "got 'unifrm'; did you mean 'uniform'",
        ),
    ],
)
def test_a_name_that_is_misspelt_is_known(old: str, new: str, said: str) -> None:
    """The error names the nearest, and a misspelt key comes before the key that is missing."""
    with pytest.raises(InvalidInput, match=said):
        tiny((old, new))


def test_errors_of_a_table_name_the_file_of_the_user(tmp_path: Path) -> None:
    """Not the copy that processes read; and a column is called by the option that named it."""
    (tmp_path / "arms.csv").write_text("x,z,yield\n1,2,3\n2,1,4\n0,1,2\n3,3,nan\n", "utf-8")
    old = 'name = "unit_basis"\narguments = { means = [[3.0, 0.0, 0.0], [2.0, 1.0, 0.0]] }'
    experiment = tiny((old, 'file = "arms.csv"\narguments = { rewards = "yield" }'), folder=tmp_path)
    with pytest.raises(InvalidInput, match=re.escape(f"cannot be run: {tmp_path / 'arms.csv'} line 5: column 'yield'")):
        check_cells(experiment.cells())
    with pytest.raises(InvalidInput, match=r"no column 'yields' \(`rewards`\); did you mean 'yield'"):
        problems.from_file(tmp_path / "arms.csv", rewards="yields")
