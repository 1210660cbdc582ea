import math
import os
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import surepick as sp
from surepick.errors import InvalidInput, SurepickError
from surepick.reporting.experiment_figures import charts
from surepick.reporting.experiment_page import latex_of, part_of, write_report
from surepick.reporting.experiment_summary import read_section
from surepick.reporting.html import Table
from surepick.simulation.store import Store, sweep
from tests.reporting.report_folders import PAPER, RUNS, label_text, summaries_of, write_folder
from tests.simulation.tiny import tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results whose last cell has no runs."""
    folder = write_folder(tmp_path_factory.mktemp("report") / "runs", PAPER, RUNS)
    os.utime(folder / "runs.parquet", (1_700_000_000, 1_700_000_000))
    return folder


@pytest.fixture(scope="module")
def paths(folder: Path) -> list[Path]:
    """The report on them."""
    return write_report([folder], folder.parent / "out")


def rows_of(table: Table) -> dict[str, list[str]]:
    """Texts of the cells by what stands in the first column."""
    return {row[0].text: [" / ".join([cell.text, *cell.detail.splitlines()]) for cell in row[1:]] for row in table.rows}


def cells_of(folder: Path) -> tuple[list[str], list[list[str]]]:
    """Headers and rows of the table of all cells."""
    table = part_of(read_section(folder), []).tables[-1]
    return table.headers, [[cell.text for cell in row] for row in table.rows]


def test_errors_and_their_exact_interval(tmp_path: Path) -> None:
    """Two wrong answers in five, whose interval lies above delta, are marked."""
    folder = write_folder(tmp_path, PAPER, {("default", 0): [10] * 5}, correct=[True, True, False, True, False])
    ours = summaries_of(folder)["default", 1000]
    low, high = ours.error_interval
    assert ours.n_errors == 2
    # The ends are the risks at which two or more, or two or fewer, errors in five have probability 2.5 %.
    assert binom.sf(1, 5, low) == pytest.approx(0.025)
    assert binom.cdf(2, 5, high) == pytest.approx(0.025)
    row = next(row for row in cells_of(folder)[1] if row[0] == "default" and row[3] == "5")
    assert "2 (5.3 to 85 %) > delta!" in row


def test_a_cell_without_runs(folder: Path) -> None:
    """It is listed, with nothing to say."""
    missing = summaries_of(folder)["default", 2500]
    assert missing.n_runs == 0
    assert missing.compared[0].why == "no runs yet"
    last = cells_of(folder)[1][-1]
    assert last[:4] == ["default", "betting", "n_arms 2500", "0"]
    assert set(last[4:]) == {"-"}
    part = part_of(read_section(folder), [])
    assert "0 to 5 in each of 4 cells" in part.facts
    assert part.finding == "Of 3 published figures: 1 agree, 1 better, 1 cannot be told."
    assert part.whys == ["default is better (1): another rule.", "default cannot be told (1): no runs yet."]


def test_published_figures_beside_ours(folder: Path) -> None:
    """The table of the paper with ours in it: algorithms down, problems across."""
    matrix = part_of(read_section(folder), []).tables[0]
    assert matrix.headers == ["Algorithm", "n_arms 1000", "n_arms 2500"]
    assert rows_of(matrix) == {
        "Lazy TS": ["410.0 ±\u00a012.9 / theirs 400.0 ±\u00a030.0 / agrees, z +0.3", "510.0 ±\u00a05.77"],
        "default": [
            "140.0 ±\u00a014.1 / theirs 400.0 ±\u00a030.0 / better, z -7.8",
            "- / theirs 400.0 ±\u00a030.0 / open",
        ],
    }
    assert [[cell.tone for cell in row[1:]] for row in matrix.rows] == [["agrees", ""], ["better", "open"]]


UNPUBLISHED = PAPER.split("[[published]]", maxsplit=1)[0]


def test_algorithms_by_problem(tmp_path: Path) -> None:
    """Without published figures the ratio to the lower bound, the least of each problem marked and white."""
    runs = {("Lazy TS", 0): [100, 300], ("Lazy TS", 1): [400], ("default", 0): [150, 150], ("default", 1): [900]}
    part = part_of(read_section(write_folder(tmp_path, UNPUBLISHED, runs)), [])
    assert part.finding == "Closest to the lower bound: default (1 of 2), Lazy TS (1 of 2)."
    matrix = part.tables[0]
    assert rows_of(matrix) == {
        "Lazy TS": ["2.00 / ±\u00a01.00", "★\u00a04.00"],
        "default": ["★\u00a01.50 / ±\u00a00", "9.00"],
    }
    shades = [[cell.shade for cell in row[1:]] for row in matrix.rows]
    assert shades == [[round(math.log10(2 / 1.5), 2), 0.0], [0.0, round(math.log10(9 / 4), 2)]]


def test_equals_are_both_the_best(tmp_path: Path) -> None:
    """The order of the file decides nothing."""
    runs = {("Lazy TS", 0): [100, 300], ("default", 0): [200, 200]}
    part = part_of(read_section(write_folder(tmp_path, UNPUBLISHED, runs)), [])
    assert part.finding == "Closest to the lower bound: Lazy TS (1 of 1), default (1 of 1)."


@pytest.mark.parametrize("spoilt", [{"stopped": [False] * 2}, {"correct": [False] * 2}])
def test_who_does_not_stop_or_errs_is_never_the_best(tmp_path: Path, spoilt: dict[str, list[bool]]) -> None:
    """Few pulls are no merit then."""
    part = part_of(read_section(write_folder(tmp_path, UNPUBLISHED, {("Lazy TS", 0): [10, 10]}, **spoilt)), [])
    assert part.finding == ""
    assert "★" not in rows_of(part.tables[0])["Lazy TS"][0]


def test_an_oracle_is_never_the_best(tmp_path: Path) -> None:
    """It is told what the others have to find out."""
    text = UNPUBLISHED.replace('"lazy-track-and-stop"', '"xy-oracle"', 1).replace(
        'variant = "paper" }', '}\nknows = ["theta"]'
    )
    runs = {("Lazy TS", 0): [10, 10], ("default", 0): [200, 200]}
    part = part_of(read_section(write_folder(tmp_path, text, runs)), [])
    assert part.finding == "Closest to the lower bound: default (1 of 1)."


def test_more_problems_than_algorithms_go_down_the_page(tmp_path: Path) -> None:
    """A narrow page has room for few columns."""
    text = UNPUBLISHED.replace("[1000, 2500]", "[1000, 2500, 5000]")
    matrix = part_of(read_section(write_folder(tmp_path, text, {("Lazy TS", 2): [200]})), []).tables[0]
    assert matrix.headers == ["Problem", "Lazy TS", "default"]
    assert list(rows_of(matrix)) == ["n_arms 1000", "n_arms 2500", "n_arms 5000"]


def test_no_table_yet(tmp_path: Path) -> None:
    """A folder before its first run gives a report without figures."""
    folder = write_folder(tmp_path / "runs", PAPER, {})
    (folder / "runs.parquet").unlink()
    paths = write_report([folder], tmp_path / "out")
    assert [path.name for path in paths] == ["report.md", "report.html"]
    assert "No runs yet" in paths[0].read_text("utf-8")


def test_unfinished_runs_are_counted_and_marked(tmp_path: Path) -> None:
    """They are no errors, but means that contain them are lower estimates."""
    stopped = [True, False, True, True, True]
    folder = write_folder(tmp_path, PAPER, {("default", 0): [10, 5000, 20, 30, 40]}, stopped=stopped, correct=stopped)
    ours = summaries_of(folder)["default", 1000]
    assert (ours.n_unfinished, ours.n_errors) == (1, 0)
    assert ours.compared[0].verdict == "open"
    assert ours.compared[0].why == "1 runs did not stop, so our mean is too small"
    row = next(row for row in cells_of(folder)[1] if row[0] == "default" and row[3] == "5")
    assert row[-2] == "1"
    assert row[4].startswith("≥\u00a01\u202f020")


def test_bounds_that_are_missing_give_no_ratio(tmp_path: Path) -> None:
    """NaN stands for a bound nobody asked for."""
    folder = write_folder(tmp_path, PAPER, RUNS, lower_bound=[math.nan] * 5)
    assert "ratio" not in summaries_of(folder)["default", 1000].quantities
    assert "Ratio" not in cells_of(folder)[0]


class Page(HTMLParser):
    """Tags and text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep a tag."""
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Keep text."""
        self.text += data


def test_files_and_facts(paths: list[Path]) -> None:
    """Both reports say how many runs, from which seed, by which version and when."""
    names = ["report.md", "report.html", "paper-pulls-by-n_arms", "paper-distributions", "paper-paths"]
    assert [path.name for path in paths] == [
        *names[:2],
        *(f"{name}.{ending}" for name in names[2:] for ending in ("png", "svg")),
    ]
    assert all(path.stat().st_size > 0 for path in paths)
    page = Page(paths[1].read_text("utf-8"))
    for text in (paths[0].read_text("utf-8"), page.text):
        for fact in (
            "12 runs",
            "seed 7",
            "surepick 1.2.3",
            "2023-11-14 22:13 UTC",
            "Clopper-Pearson",
            "410.0 ±\u00a012.9",
        ):
            assert fact in text
    assert paths[0].read_text("utf-8").count("](paper-") == 3


def test_the_page_needs_nothing_else(paths: list[Path]) -> None:
    """No script, no link but to data inside the page."""
    page = Page(paths[1].read_text("utf-8"))
    links = [value for _, attributes in page.tags for name in ("src", "href") if (value := attributes.get(name))]
    assert len(links) == 4  # the icon, which is empty, and three figures
    assert all(link.startswith("data:") for link in links)
    assert not [tag for tag, _ in page.tags if tag in {"script", "iframe", "object"}]
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in page.tags


def test_texts_of_the_user_are_not_markup(tmp_path: Path) -> None:
    """A label stays a label in HTML, in Markdown and in figures."""
    label = "<img src=x onerror=alert(1)> | **a** $x_1$ & \"b\" 'c'"
    folder = write_folder(tmp_path / "runs", label_text(label), {(label, 0): [10, 20], (label, 1): [30, 40]})
    paths = write_report([folder], tmp_path / "out")
    page = Page(paths[1].read_text("utf-8"))
    assert not [attributes for tag, attributes in page.tags if tag == "img" and "onerror" in attributes]
    assert label in page.text
    markdown = paths[0].read_text("utf-8")
    assert "<img" not in markdown
    assert "\\| \\*\\*a\\*\\*" in markdown
    widths = {line.replace("\\|", "").count("|") for line in markdown.splitlines() if line.startswith("|")}
    assert widths == {4, 15}  # both tables keep their columns


def test_same_runs_same_bytes(folder: Path, paths: list[Path], tmp_path: Path) -> None:
    """Reports can be compared."""
    for path, other in zip(paths, write_report([folder], tmp_path), strict=True):
        assert path.read_bytes() == other.read_bytes(), path.name


def test_several_risks_and_schedules(tmp_path: Path) -> None:
    """Each gets its figure."""
    text = PAPER.split("[[published]]", maxsplit=1)[0].replace("[0.05]", "[0.1, 0.001]").replace("[1000, 2500]", "1000")
    text = text.replace('{ variant = "paper" }', '{ schedule = "doubling" }')
    text = text.replace('label = "default"', 'label = "default"\noptions = { schedule = "every" }')
    runs = {(label, place): [100 * (place + 1), 120] for label in ("Lazy TS", "default") for place in (0, 1)}
    paths = write_report([write_folder(tmp_path / "runs", text, runs)], tmp_path / "out")
    assert [path.stem for path in paths[2::2]] == ["paper-risk", "paper-schedule", "paper-distributions", "paper-paths"]
    assert "| Lazy TS | betting | delta 0.001 | 2 |" in paths[0].read_text("utf-8")


def test_an_algorithm_may_go_without_bounds(tmp_path: Path) -> None:
    """Then it has no ratio, and those that have one are compared."""
    label = 'label = "evidence"'
    experiment = tiny(("max_pulls = 8", "max_pulls = 8\nbounds = true"), (label, f"{label}\nbounds = false"))
    sweep(experiment, tmp_path / "runs", n_runs=2)
    text = write_report([tmp_path / "runs"], tmp_path / "out")[0].read_text("utf-8")
    assert "### Mean pulls / lower bound" in text


def test_many_cells_get_no_boxes_and_fold(tmp_path: Path) -> None:
    """Boxes and rows of 82 cells would fill pages."""
    head, _, _ = PAPER.partition("[[algorithms]]")
    head = head.replace('[1000, 2500], variant = "as-run"', '1000, variant = ["as-run", "normal-std-0.09"]')
    labels = [f"algorithm {i}" for i in range(41)]
    text = head + "".join(
        f'[[algorithms]]\nlabel = "{label}"\nname = "lazy-track-and-stop"\noptions = {{ g_mix = {i / 100} }}\n'
        for i, label in enumerate(labels)
    )
    runs = {(label, place): [100, 200] for label in labels for place in (0, 1)}
    paths = write_report([write_folder(tmp_path / "runs", text, runs)], tmp_path / "out")
    assert [path.stem for path in paths[2::2]] == ["paper-paths"]
    tags = [tag for tag, _ in Page(paths[1].read_text("utf-8")).tags]
    assert tags.count("details") == 1
    assert "<details><summary>82 rows</summary>" in paths[0].read_text("utf-8")


def test_several_experiments_in_one_report(tmp_path: Path) -> None:
    """Every one has its place and a link to it."""
    runs = {("Lazy TS", 0): [10, 20]}
    folders = [write_folder(tmp_path / name, PAPER.replace('"paper"', f'"{name}"', 1), runs) for name in ("a", "b")]
    paths = write_report(folders, tmp_path / "out")
    assert len({path.name for path in paths}) == len(paths) == 14
    page = Page(paths[1].read_text("utf-8"))
    targets = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    assert {attributes["href"] for tag, attributes in page.tags if tag == "a"} == {f"#{target}" for target in targets}


def test_published_figures_come_first(tmp_path: Path) -> None:
    """The report opens with how many of them agree, whatever the order of the folders."""
    runs = {("Lazy TS", 0): [380, 400, 420, 440]}
    texts = {"ours": UNPUBLISHED.replace('"paper"', '"ours"', 1).replace("Pulls by the", "Ours by the"), "paper": PAPER}
    paths = write_report([write_folder(tmp_path / name, text, runs) for name, text in texts.items()], tmp_path / "out")
    for text in (paths[0].read_text("utf-8"), Page(paths[1].read_text("utf-8")).text):
        summary, first, second = (text.index(words) for words in ("1 agree, 2 cannot", "Pulls by", "Ours by"))
        assert summary < first < second


def test_an_algorithm_beside_its_baseline(tmp_path: Path) -> None:
    """Pulls and CPU time as multiples, problem by problem; a baseline that does not exist is refused."""
    text = PAPER.replace('label = "default"\n', 'label = "default"\nbaseline = "Lazy TS"\n')
    runs = {
        ("Lazy TS", 0): [100, 300],
        ("Lazy TS", 1): [400, 400],
        ("default", 0): [50, 50],
        ("default", 1): [600, 600],
    }
    page = write_report([write_folder(tmp_path / "a", text, runs)], tmp_path / "out")[0].read_text("utf-8")
    table = page.split("### Side by side")[1].split("###")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if "Lazy TS" in line]
    assert [row[:4] for row in rows] == [
        ["default", "Lazy TS", r"n\_arms 1000", "0.25"],
        ["default", "Lazy TS", r"n\_arms 2500", "1.50"],
    ]
    with pytest.raises(InvalidInput, match="`baseline` of 'default' must be one of Lazy TS, default, got 'none'"):
        write_report(
            [write_folder(tmp_path / "b", text.replace('baseline = "Lazy TS"', 'baseline = "none"'), runs)], tmp_path
        )


def test_refusals(tmp_path: Path) -> None:
    """Nothing is written if something is wrong."""
    with pytest.raises(InvalidInput, match="at least one folder"):
        write_report([], tmp_path)
    with pytest.raises(InvalidInput, match="cannot read"):
        write_report([tmp_path / "nothing"], tmp_path / "out")
    folder = write_folder(tmp_path / "runs", PAPER, RUNS)
    (folder / "runs.parquet").write_bytes(b"PAR1 and then nothing of use")
    with pytest.raises(SurepickError, match="damaged or no Parquet file"):
        write_report([folder], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_no_problem_hides_another(tmp_path: Path) -> None:
    """Two tables of arms, and two points that look the same in brief, are columns of their own everywhere."""
    for name, best in (("alloys", 1.7), ("other", 1.8)):
        (tmp_path / f"{name}.csv").write_text(f"x,y\n1.0,2.0\n0.5,1.0\n0.2,0.7\n0.9,{best}\n")
    long = [[float(i == best) for i in range(20)] for best in (0, 1)]
    text = """
name = "names"
title = "Names"
delta = [0.05]
n_runs = 2
quick_runs = 2
seed = 7
max_pulls = 500
[[algorithms]]
label = "uniform"
name = "uniform"
"""
    for name in ("alloys", "other"):
        text += f'[[problems]]\nfile = "{name}.csv"\narguments = {{ rewards = "y" }}\n'
    text += f'[[problems]]\nname = "unit_basis"\narguments = {{ means = {long} }}\n'
    pulls = {("uniform", place): [10 * place + 5, 10 * place + 5] for place in range(4)}
    folder = write_folder(tmp_path, text, pulls, lower_bound=[math.nan] * 2)
    section = read_section(folder)
    listed = [rf"unit\_basis, means 20 values ({number})" for number in (1, 2)]
    assert latex_of(section).splitlines()[5:8] == [
        rf"algorithm & stopping rule & alloys.csv & other.csv & {' & '.join(listed)} \\",
        r"\midrule",
        "uniform & betting"
        + "".join(rf" & ${mean} \pm 0.0$ (0 of 2)" for mean in ("5.0", "15.0", "25.0", "35.0"))
        + r" \\",
    ]
    table = part_of(section, []).tables[0]
    assert [row[0].text for row in table.rows] == [section.place(summary) for summary in section.summaries]


def test_fixed_budgets_are_compared_by_wrong_answers(tmp_path: Path) -> None:
    """No ratio, star or headline for pulls that were given; beside cells that stop they have tables of their own."""
    text = """
name = "budget"
title = "Budget"
delta = [0.05]
n_runs = 4
quick_runs = 4
seed = 7
max_pulls = 500
bounds = true
[[problems]]
name = "soare"
arguments = { dim = 2, budget = 60 }
[[algorithms]]
label = "gse"
name = "gse"
options = { goal = "fixed-budget" }
[[algorithms]]
label = "halving"
name = "lin-halving"
options = { goal = "fixed-budget" }
"""
    right = [True, False, True, True]
    pulls = {(label, 0): [60] * 4 for label in ("gse", "halving", "stops")}
    section = read_section(write_folder(tmp_path / "a", text, pulls, correct=right))
    part = part_of(section, [])
    assert (part.finding, part.tables[0].title) == ("", "Share of wrong answers")
    assert [cell.text for cell in part.tables[0].rows[0][1:]] == ["0.250"]
    assert part.tables[0].rows[0][1].detail == "0.006 to 0.806"  # Clopper-Pearson, 1 of 4
    assert "Ratio" not in part.tables[-1].headers
    assert r"gse & -- & $25.0 \pm 23.6$ (1 of 4) \\" in latex_of(section)
    assert [(chart.name, chart.quantities) for chart in charts(section)] == [("error", ["error"])]
    both = text + '[[algorithms]]\nlabel = "stops"\nname = "uniform"\nonly = { budget = 60 }\n'
    mixed = read_section(write_folder(tmp_path / "b", both, {**pulls, ("stops", 0): [200] * 4}))
    part = part_of(mixed, [])
    assert part.finding == "Closest to the lower bound: stops (1 of 1)."
    assert [table.title for table in part.tables[:2]] == ["Mean pulls / lower bound", "Share of wrong answers"]
    assert latex_of(mixed).count("toprule") == 2


def test_only_guarantees_compete_and_within_one_m(tmp_path: Path) -> None:
    """A heuristic rule has no star however few its pulls, and m = 2 is not ranked against m = 1."""
    text = """
name = "claims"
title = "Claims"
delta = [0.05]
n_runs = 2
quick_runs = 2
seed = 7
max_pulls = 500
[[problems]]
name = "soare"
arguments = { dim = 3 }
[[algorithms]]
label = "one"
name = "uniform"
[[algorithms]]
label = "two"
name = "lazy-track-and-stop"
options = { m = 2 }
[[algorithms]]
label = "guess"
plugin = "guess.py:Guess"
"""
    (tmp_path / "guess.py").write_text(
        "import surepick as sp\n"
        "class Guessed(sp.stopping.Rule):\n"
        "    name, guarantee = 'guessed', 'none'\n"
        "    def start(self, task):\n"
        "        return sp.stopping.Evidence().start(task)\n"
        "class Guess:\n"
        "    def compose(self, task):\n"
        "        return sp.algorithms.Uniform(stopping=Guessed()).compose(task)\n"
    )
    pulls = {("one", 0): [100, 101], ("two", 0): [200, 201], ("guess", 0): [10, 11]}
    part = part_of(read_section(write_folder(tmp_path, text, pulls, lower_bound=[math.nan] * 2)), [])
    assert part.finding == "Fewest pulls: one (1 of 2), two (1 of 2)."
    stars = {row[0].text: (row[1].text[0], row[1].detail.split("\n")[-1]) for row in part.tables[0].rows}
    assert {label: star for label, (star, _) in stars.items()} == {"one": "★", "two": "★", "guess": "1"}
    assert stars["guess"][1] == "no guarantee"
    table = part.tables[-1]
    place = table.headers.index("Guarantee")
    assert {row[0].text: row[place].text for row in table.rows} == {"one": "proved", "two": "proved", "guess": "none"}


HASTY = """
name = "hasty"
title = "Hasty"
delta = [0.05]
n_runs = 40
quick_runs = 40
seed = 7
max_pulls = 500
bounds = true
[[problems]]
name = "soare"
arguments = { dim = 2, angle = 0.5 }
[[algorithms]]
label = "hasty"
plugin = "hasty.py:Hasty"
[[algorithms]]
label = "uniform"
name = "uniform"
"""
HASTY_CLASS = """
import surepick as sp
class SaysProved(sp.stopping.Rule):
    name, guarantee = "says-proved", "proved"
    def start(self, task):
        return sp.stopping.Evidence().start(task)
class Hasty:
    def compose(self, task):
        return sp.algorithms.Uniform(stopping=SaysProved()).compose(task)
"""


def hasty_part(folder: Path, pulls: list[int], **columns: list[Any]) -> tuple[str, dict[str, list[str]], str, str]:
    """Headline, cells by algorithm, note and LaTeX table; uniform sampling has 300 and 310 pulls, the bound is 100."""
    folder.mkdir()
    (folder / "hasty.py").write_text(HASTY_CLASS)
    runs = {("hasty", 0): pulls, ("uniform", 0): [300, 310]}
    section = read_section(write_folder(folder, HASTY, runs, **columns))
    part = part_of(section, [])
    assert ["proved (says the class)", "proved"] == [row[-1].text for row in part.tables[-1].rows]
    return part.finding, rows_of(part.tables[0]), part.tables[0].note, latex_of(section)


def test_a_claim_of_the_class_alone_wins_nothing(tmp_path: Path) -> None:
    """Below the lower bound, or wrong more often than delta: no star and no headline, and the table says why."""
    finding, rows, note, latex = hasty_part(tmp_path / "low", [74, 75])
    assert finding == "Closest to the lower bound: uniform (1 of 1)."
    assert "below the minimum" in rows["hasty"][0]
    assert "cannot be right with 1 - delta on all problems" in note
    assert "Stopping rules: says-proved (hasty), betting (uniform)." in note
    assert r"hasty & says-proved & $74.5 \pm 0.5^\ddagger$ (0 of 2)" in latex
    assert r"lower bound &  & $100.0$ \\" in latex
    correct = [*[True] * 11, False]  # 1 of 12 is 8 %, which chance explains at 5 %
    finding, rows, _, _ = hasty_part(tmp_path / "wrong", [110, 120] * 6, correct=correct)
    assert finding == "Closest to the lower bound: uniform (1 of 1)."
    assert "wrong in 1 of 12" in rows["hasty"][0]
    finding, _, note, latex = hasty_part(tmp_path / "fair", [110, 120] * 6)
    assert finding == "Closest to the lower bound: hasty (1 of 1)."
    assert "cannot be right" not in note + latex


def test_costs_are_compared_with_the_bound_on_costs(tmp_path: Path) -> None:
    """The table of runs has the cost, and the report divides it by the bound on the cost."""
    costs = [1.0, 4.0, 2.0]
    given = 'name = "uniform"\noptions = { stopping = "evidence" }'
    changed = f'name = "lazy-track-and-stop"\noptions = {{ costs = {costs} }}'
    experiment = tiny(("max_pulls = 8", "max_pulls = 900\nbounds = true"), (given, changed))
    sweep(experiment, tmp_path / "runs", n_runs=4)
    summaries = {(s.label, s.cell.arguments["means"][0]): s for s in read_section(tmp_path / "runs").summaries}
    for means in ([3.0, 0.0, 0.0], [2.0, 1.0, 0.0]):
        ours, plain = (summaries[label, means[0]].quantities for label in ("evidence", "uniform"))
        assert ours["lower_bound"].mean == pytest.approx(sp.lower_bound(np.eye(3), means, 0.1, costs=costs))
        assert ours["ratio"].mean == pytest.approx(ours["cost"].mean / ours["lower_bound"].mean)
        assert ours["cost"].mean > 1.5 * ours["n_pulls"].mean
        assert "cost" not in plain
    assert "Cost" in cells_of(tmp_path / "runs")[0]
    problem = sp.problems.unit_basis([2.0, 1.0, 0.0])
    runs = sp.simulate(problem, n_runs=3, bounds=True, costs=costs)
    assert runs.cost is not None
    assert runs.ratio == pytest.approx(runs.cost / sp.lower_bound(np.eye(3), [2.0, 1.0, 0.0], costs=costs))
    assert runs.to_columns()["cost"] is runs.cost


def test_a_sweep_that_is_not_finished_says_so(tmp_path: Path) -> None:
    """Above all else, by the number of runs that the last sweep was to make."""
    sweep(tiny(), tmp_path / "runs", n_runs=2)
    assert "not finished" not in write_report([tmp_path / "runs"], tmp_path / "out")[0].read_text("utf-8")
    with Store(tmp_path / "runs", tiny()) as store:  # a sweep of five runs that is killed at once
        store.want(5)
    report = write_report([tmp_path / "runs"], tmp_path / "out")[0].read_text("utf-8")
    assert report.startswith("# Tiny\n\n**The sweep is not finished: 8 of 20 runs.**")
