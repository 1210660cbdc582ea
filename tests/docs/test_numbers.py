"""Numbers in README and docs: each follows from a result file or from a table of the lab book.

`facts` writes the pieces of text that have numbers, from the files. Every piece must stand on its page, and once all
pieces are taken away, no number may be left except settings (`SETTINGS`), which no run measures.
"""

import ast
import json
import re
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from benchmarks import experiments

ROOT = Path(__file__).parents[2]
RIVALS = json.loads((ROOT / "benchmarks" / "results" / "rivals.json").read_text("utf-8"))
DRAWN = json.loads((ROOT / "docs" / "_static" / "pictures" / "numbers.json").read_text("utf-8"))
PAGES = ("README.md", "docs/results.md")
CHECKED = "surepick, with the model check"
LEAST_SQUARES = "uniform + least squares + Bonferroni"
SOARE, BASIS = "Soare d=6, angle .1", "unit basis 1, .75, .., 0"
WORDS = {2: "twice", 4: "four times"}
SETTINGS = (
    r"\b5 %|\b1e-10\b",  # risks
    r"\bPython 3\.11\b|\bUCB1\b|Jedra and Proutiere \(2020\)",
    r"\b12 options( and 72 plots of a field trial of 1935)?|\b1000 options|\b(2|6|20) features",  # sizes of problems
    r"\b64 benches|\breach 70\b|\bplates of 96\b",
)


# ---- sources


@cache
def book() -> str:
    """Return the lab book."""
    return (ROOT / "docs" / "lab-book.md").read_text("utf-8")


def table(section: str, number: int = 0) -> dict[str, dict[str, str]]:
    """Return a table of a section of the lab book: by the first cell of a row, its cells by the header."""
    text = re.split(rf"^#+ {re.escape(section)}$", book(), flags=re.MULTILINE)[1]
    head, _, *rows = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)[number].splitlines()
    names, *cells = ([cell.strip(" `*") for cell in row.strip("|").split(" | ")] for row in (head, *rows))
    return {row[0]: dict(zip(names, row, strict=True)) for row in cells}


def first(cell: str) -> float:
    """Return the first number of a cell."""
    found = re.search(r"\d[\d,]*(?:\.\d+)?", cell)
    assert found is not None, cell
    return float(found[0].replace(",", ""))


def row_of(case: str, method: str) -> dict[str, Any]:
    """Return what `benchmarks/rivals.py` kept of a method."""
    (row,) = (row for row in RIVALS[case]["rows"] if row["method"] == method)
    return dict(row)


def pulls(case: str, method: str) -> str:
    """Return the mean number of pulls with its standard error."""
    row = row_of(case, method)
    return f"{row['pulls']:,.0f} ± {row['standard error']:,.0f}"


def mean(case: str, method: str) -> str:
    """Return the mean number of pulls."""
    return f"{row_of(case, method)['pulls']:,.0f}"


def bests(rows: dict[str, dict[str, str]]) -> tuple[int, float]:
    """Return on how many problems our sampler is best, and by which share it is behind the best elsewhere, at most."""
    ours = "lazy-track-and-stop"
    others = [row for name, row in rows.items() if name not in (ours, "xy-oracle")]  # the oracle knows the answer
    behind = []
    for column in list(rows[ours])[1:]:
        cells = [row[column] for row in others if row[column] != "-"]
        behind.append(first(rows[ours][column]) / min(map(first, cells)) - 1.0)
    assert len(behind) == 10
    return sum(share <= 0.0 for share in behind), max(behind)


# ---- what the pages say


def both() -> list[str]:
    """Return the pieces that are on both pages."""
    bounds = {name: first(row["lower bound"]) for name, row in table("Identifications").items()}
    ratios = [first(row["ratio"]) for row in table("Identifications").values()]
    small = first(table("Bets, workers, slack")["many arms K=1000, delta = 1e-10"]["present"])
    ours, published = (f"{drawn:,.0f} ± {error:,.0f}" for _, drawn, error, _ in DRAWN["many-options"]["rows"][:2])
    return [
        f"about {WORDS[round(sum(ratios) / len(ratios))]} the",
        f"{small:.1f} times",
        (
            f"| {pulls('questionnaire', 'surepick')} | {pulls('questionnaire', CHECKED)} | "
            f"{pulls('questionnaire', LEAST_SQUARES)}"
        ),
        f"| {pulls('field trial', 'surepick')} | {pulls('field trial', CHECKED)}",
        f"| {pulls('field trial', LEAST_SQUARES)}",
        f"| {pulls('SVM settings', 'surepick')}",
        f"| {pulls('SVM settings', 'racing')}",
        (
            f"| {bounds['Soare d=6, angle 0.1']:.0f} | {pulls(SOARE, 'surepick')} | {pulls(SOARE, CHECKED)} | "
            f"{pulls(SOARE, LEAST_SQUARES)}"
        ),
        f"| {DRAWN['many-options']['bound']:.0f} | {ours} | not run | {published}",
    ]


def of_results() -> list[str]:
    """Return the pieces that are on the page of results alone."""
    bounds = {name: first(row["lower bound"]) for name, row in table("Identifications").items()}
    bets = table("Bets, workers, slack")
    benches = table("Bets, workers, slack", 1)["many arms K=1000"]
    small = table("Bets, workers, slack", 2)["tooth-like, 6 arms, d=3"]
    plans = {round(plan[0], 2): plan[1] for plan in DRAWN["lead"]["plans"]}
    halves = [plans[0.1] / plans[0.2], plans[0.2] / plans[0.4], plans[0.4] / plans[0.8], plans[0.8] / plans[1.6]]
    ucb = [row_of(case, "MABWiser UCB1, most pulled") for case in RIVALS if case not in (SOARE, "clicks")]
    wins, behind = bests(table("Under the betting rule"))
    wrong, withdrawn = row_of("SVM settings", LEAST_SQUARES), row_of("SVM settings", CHECKED)
    real = json.loads((ROOT / "benchmarks" / "results" / "real_data.json").read_text("utf-8"))
    concrete = {row["algorithm"]: row for row in real if "concrete" in row["problem"]}
    return [
        f"the check needs {mean('field trial', CHECKED)} measurements. Racing needs {mean('field trial', 'racing')},",
        f"Racing needs {mean('SVM settings', 'racing')} measurements there,",
        f"surepick {mean('SVM settings', 'surepick')}.",
        f"equal samples need {first(small['uniform']):.0f}, surepick {first(small['betting']):.0f}.",
        (
            f"{concrete['RAGE']['n_arms']} concrete mixtures RAGE needs {concrete['RAGE']['mean']:.0f} measurements, "
            f"surepick {concrete['surepick']['mean']:.0f}."
        ),
        f"With 20 features surepick needs {first(bets['unit sphere d=20 K=100']['present']):.1f} times",
        f"where 2 features take {first(bets['many arms K=1000']['present']):.1f} times",
        f"{first(benches['exponential, 64']):.1f} times the measurements of one bench",
        f"in only {sum(row['wrong'][0] for row in ucb)} of {sum(row['runs'] for row in ucb)} runs",
        f"best on {({3: 'three'})[wins]} of them, and at most {behind:.0%}".replace("%", " %"),
        (
            f"| {bounds['unit basis 1, 0.75, .., 0']:.0f} | {pulls(BASIS, 'surepick')} | no check possible | "
            f"{pulls(BASIS, 'racing')}"
        ),
        f"it was wrong in {wrong['wrong'][0]} of {wrong['runs']} runs",
        f"withdrew its answer in {withdrawn['withdrawn'][0]} of {withdrawn['runs']}.",
        f"Half the lead takes about {WORDS[round(median(halves))]}",
    ]


def elsewhere() -> dict[str, list[str]]:
    """Return the pieces that other pages quote from results."""
    ratios = [first(row["ratio"]) for row in table("Identifications").values()]
    usual = f"about {WORDS[round(sum(ratios) / len(ratios))]} the"
    small = f"{first(table('Bets, workers, slack')['many arms K=1000, delta = 1e-10']['present']):.1f} times at"
    workers = [first(row["exponential, 16"]) for row in table("Bets, workers, slack", 1).values()]
    pool = json.loads((ROOT / "benchmarks" / "results" / "pool.json").read_text("utf-8"))["pulls"]
    plans = json.loads((ROOT / "benchmarks" / "results" / "target_plans.json").read_text("utf-8"))
    plan, runs = [plan["ratio"] for plan in plans], [plan["runs"] for plan in plans]
    return {
        "docs/pool.md": [
            "{:.0f}, {:.0f} and {:.0f} items on average".format(*(row["items"] for row in pool)),
            f"({pool[0]['runs']:,} runs each, " + "standard errors {}, {} and {})".format(*(row["se"] for row in pool)),
            "take {:.0f}, {:.0f} and {:.0f} items".format(*(row["items with m = 0"] for row in pool)),
            "in {:.0%}, {:.0%} and {:.0%} of the runs".format(*(row["decided with m = 0"] for row in pool)).replace(
                "%", " %"
            ),
        ],
        "docs/targets.md": [
            f"{min(runs)} to {max(runs)} simulated runs each took {min(plan):.2f} to {max(plan):.2f} times"
        ],
        "docs/index.md": [f"{usual} measurements that any method must take", f"and {small} a risk of $10^{{-10}}$"],
        "docs/faq.md": [
            f"{usual} theoretical minimum, and {small} delta = 1e-10",
            f"16 workers at once took {min(workers):.1f} to {max(workers):.1f} times the pulls of one",
        ],
        "docs/gallery.md": [
            f"The mean of {row_of('questionnaire', 'surepick')['runs']} runs is {mean('questionnaire', 'surepick')}"
        ],
    }


def facts(page: str) -> list[str]:
    """Return the pieces of a page that have measured numbers."""
    return both() + (of_results() if page == "docs/results.md" else [])


def prose(page: str) -> str:
    """Return a page in one line, without code and pictures, which have tests of their own, and targets of links."""
    text = (ROOT / page).read_text("utf-8")
    for code in (r"^```.*?^```$", r"<!--.*?-->", r"<picture>.*?</picture>", r"<img[^>]*>", r"`[^`]*`"):
        text = re.sub(code, " ", text, flags=re.DOTALL | re.MULTILINE)
    return " ".join(re.sub(r"\]\([^)]*\)", "]", text).split())


def unexplained(text: str, pieces: list[str]) -> list[str]:
    """Return pieces that the text has not, and its numbers that belong to no piece."""
    missing = [piece for piece in pieces if piece not in text]
    for piece in pieces:
        text = text.replace(piece, " ")
    for setting in SETTINGS:
        text = re.sub(setting, " ", text)
    return missing + re.findall(r"\d[\d,.]*", text)


@pytest.mark.parametrize("page", PAGES)
def test_numbers_follow_from_their_sources(page: str) -> None:
    """Every number is the one of its source, and there is none without a source."""
    assert unexplained(prose(page), facts(page)) == []


@pytest.mark.parametrize("page", elsewhere())
def test_quoted_numbers_follow_from_their_sources(page: str) -> None:
    """Where another page quotes a result, the number is that of its source."""
    assert [piece for piece in elsewhere()[page] if piece not in prose(page)] == []


def test_answers_quote_the_output_of_their_page() -> None:
    """Questions and answers repeat numbers of the example above them, whose output another test compares with a run."""
    page = (ROOT / "docs" / "faq.md").read_text("utf-8")
    (output,) = re.findall(r"^```output\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    counts = ast.literal_eval(output.splitlines()[-1])
    interval = re.search(r"95 %: (\S+) to (\S+)\)", " ".join(output.split()))
    assert interval is not None
    loser = max(counts, key=lambda arm: counts[arm])
    text = prose("docs/faq.md")
    assert f"M{loser} loses and was measured {counts[loser]} times" in text
    assert f"has the interval {interval[1]} to {interval[2]}," in text


def test_pictures_of_the_gallery_are_of_the_runs_on_the_page() -> None:
    """Numbers of pulls in the text beside a picture of a report are those of the output above it."""
    page = (ROOT / "docs" / "gallery.md").read_text("utf-8")
    shown = [" ".join(alt.split()) for alt in re.findall(r"!\[([^]]*)\]", page)]
    output = " ".join(" ".join(re.findall(r"^```console\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)).split())
    found = [number for alt in shown for number in re.findall(r"\d[\d,]* (?:check )?pulls", alt)]
    assert len(found) == 8
    assert [number for number in found if f" {number}" not in output] == []


def test_a_number_that_differs_is_found() -> None:
    """A changed number is missed and left over; a number without a source is left over."""
    page = "docs/results.md"
    text, pieces, checked = prose(page), facts(page), mean("field trial", CHECKED)
    assert text.count(f"needs {checked}") == 1
    wrong = unexplained(text.replace(f"needs {checked}", "needs 645"), pieces)
    assert len(wrong) == 3
    assert "645" in wrong
    assert unexplained(text + " It is 7 times faster.", pieces) == ["7"]


def test_the_lab_book_has_the_numbers_of_the_result_file() -> None:
    """Its table of rivals is that of benchmarks/results/rivals.json."""
    shown = table("Rivals")
    names = {name: name.replace(" .1", " 0.1").replace(".75", "0.75") for name in RIVALS if name != "clicks"}
    for case, column in names.items():
        for row in RIVALS[case]["rows"]:
            if row["guarantee"] == "none":
                for method, wrong in zip(row["method"].split("; "), row["wrong"], strict=True):
                    (cells,) = (cells for name, cells in shown.items() if method.removeprefix("Optuna TPE, ") in name)
                    assert cells[column] == f"({wrong})"
            elif row["no answer"][0]:
                assert shown[row["method"]][column] == f"no answer in {row['no answer'][0]} runs"
            else:
                assert shown[row["method"]][column].startswith(pulls(case, row["method"]))
                assert shown[row["method"]][column].endswith((f"({row['wrong'][0]})", "all withdrawn"))


def test_the_lab_book_has_the_table_of_quadratic_variance() -> None:
    """Every line is that of benchmarks/results/h_rage.json, and there is no other."""
    found = json.loads((ROOT / "benchmarks" / "results" / "h_rage.json").read_text("utf-8"))
    lines: dict[str, str] = {}
    for row in found["rows"]:
        assert row["wrong"] == 0
        lines[row["told"]] = f"{lines.get(row['told'], '')} | {row['pulls']:.0f} ± {row['s.e.']:.0f}"
    section = book().split("### Noise of quadratic variance")[1].split("\n## ")[0]
    assert f"`{found['command']}`" in section
    shown = [line for line in section.splitlines() if line.startswith("|")][2:]
    assert shown == [f"| {told}{cells} |" for told, cells in lines.items()]


# ---- experiments


def rounds_row(title: str, name: str) -> tuple[str, str]:
    """Return the rows of both tables of docs/plates.md about a case of benchmarks/rounds.py."""
    row = json.loads((ROOT / "benchmarks" / "results" / "rounds.json").read_text("utf-8"))[name]
    cells = [
        [f"{value:.2f} ({error:.2f})" for value, error in (row[f"{what} R={r}"] for r in (3, 5, 10))]
        for what in ("pulls/N at", "decided within")
    ]
    return f"| {title} | {row['N']:,.0f} | {' | '.join(cells[0])} |", f"| {title} | {' | '.join(cells[1])} |"


PLATES = {"1,000 arms, 2 features": "many", "Soare, 6 features": "soare6", "50 arms, 5 features": "sphere5"}
PLATES["5 arms without features"] = "basis5"


def test_the_lab_book_has_the_table_of_experiments() -> None:
    """Every line is that of `python -m benchmarks.experiments table`, and there is no other."""
    section = re.split(r"^## Experiments$", book(), flags=re.MULTILINE)[1]
    shown = re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)[0].splitlines()
    assert shown == experiments.table()
    assert {*experiments.PARTS} == {*experiments.TABLES}


@pytest.mark.parametrize("title", PLATES)
def test_what_few_rounds_cost_is_in_the_result_file(title: str) -> None:
    """Both tables of the page on plates have the numbers of benchmarks/results/rounds.json."""
    page = (ROOT / "docs" / "plates.md").read_text("utf-8")
    assert [row for row in rounds_row(title, PLATES[title]) if row not in page] == []
