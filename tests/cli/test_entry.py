"""Entering data at the command line: questions, sheets to fill in, pass or fail, and a withdrawn answer."""

import csv
import io
import json
import re
from pathlib import Path

import openpyxl
import pytest

import surepick as sp
from tests.cli.conftest import Here
from tests.cli.terminal import in_terminal

MIXES = "id;temp;solvent;price\nR-1;60,5;W;3,2\nR-2;80;E;1\nR-3;80;W;5\nR-4;60,5;E;4\nR-5;70;E;4,4\n"
LOST = "leave the cell of a lost measurement empty, and use surepick fail for ask 3"
READINGS = (69.8, 70.1, 70.4, 69.9)


@pytest.fixture
def bench(tmp_path: Path, here: Here, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a study of mixtures."""
    monkeypatch.delenv("SUREPICK_STORAGE", raising=False)
    monkeypatch.delenv("SUREPICK_STUDY", raising=False)
    (tmp_path / "mixes.csv").write_text(MIXES)
    assert here(tmp_path, "create", "mixes.csv", "--drop", "price").returncode == 0
    return tmp_path


def measured(folder: Path) -> list[float | None]:
    """The values that count."""
    with sp.load_study(storage=folder / "surepick.db") as study:
        return [one.value for one in study.measurements]


# ---- questions


def one_mean(folder: Path) -> None:
    """A study of one feature with four readings near 70."""
    with sp.create_study("one", arms=[[1.0], [2.0]], storage=folder / "surepick.db") as study:
        for value in READINGS:
            study.tell(arm=0, value=value)


def test_a_robot_reads_the_question_and_goes_on(tmp_path: Path, here: Here) -> None:
    """Without a terminal the value is recorded, and the question goes to standard error with the command."""
    one_mean(tmp_path)
    said = here(tmp_path, "tell", "0", "699.5", "--arm")
    assert said.returncode == 0
    assert said.stderr.startswith("surepick: 699.5 is recorded, far from about 70.05 +- 0.94. Did you mean 69.95?")
    assert "surepick correct 5 69.95 --reason mistyped" in said.stderr
    assert measured(tmp_path)[-1] == 699.5
    # The command that was printed does what it says, and then nothing is odd.
    assert here(tmp_path, "correct", "5", "69.95", "--reason", "mistyped").returncode == 0
    assert here(tmp_path, "tell", "0", "70.2", "--arm").stderr == ""
    document = json.loads(here(tmp_path, "tell", "0", "701", "--arm", "--format", "json").stdout)
    assert document["measurements"][0]["value"] == 701


def test_yes_silences_the_question(tmp_path: Path, here: Here) -> None:
    """--yes records and asks nothing."""
    one_mean(tmp_path)
    assert here(tmp_path, "tell", "0", "699.5", "--arm", "--yes").stderr == ""
    assert measured(tmp_path)[-1] == 699.5


@pytest.mark.parametrize(("keys", "last"), [(b"\n", 699.5), (b"y\n", 69.95), (b"70,95\n", 70.95)], ids=str)
def test_a_person_is_asked(tmp_path: Path, keys: bytes, last: float) -> None:
    """Enter keeps the value; y takes the repair, and a number is what the notes say. The log has the correction."""
    one_mean(tmp_path)
    shown, code = in_terminal(tmp_path, "tell", "0", "699.5", "--arm", keys=keys, after="->")
    assert code == 0, shown
    assert measured(tmp_path)[-1] == last
    with sp.load_study(storage=tmp_path / "surepick.db") as study:
        assert study.measurements[-1].told == 699.5
        assert [change.reason for change in study.measurements[-1].changes] == (
            [] if last == 699.5 else ["mistyped, by the notes"]
        )


def test_the_prompt_of_a_run_asks_too(tmp_path: Path, here: Here) -> None:
    """In a run without a terminal the question is on standard error, and no line of input is taken for an answer."""
    (tmp_path / "two.csv").write_text("name,x\na,1\nb,1.01\n")
    keys = "".join(f"{value}\n" for value in (*READINGS, 70.0, 70.3, 699.5, 70.1))
    said = here(
        tmp_path, "run", "--arms", "two.csv", "--no-intercept", "--log", "log.db", "--max-pulls", "8", keys=keys
    )
    assert "Did you mean 69.95?" in said.stderr
    with sp.load_study(storage=tmp_path / "log.db") as study:
        assert [one.value for one in study.measurements][-2:] == [699.5, 70.1]


def test_a_run_corrects_at_once(tmp_path: Path) -> None:
    """At a terminal `run` asks for the value in the notes, and corrects."""
    (tmp_path / "two.csv").write_text("name,x\na,1\nb,1.01\n")
    keys = "".join(f"{value}\n" for value in (*READINGS, 70.0, 70.3, 699.5)).encode() + b"y\n70.1\nq\n"
    arguments = ("run", "--arms", "two.csv", "--no-intercept", "--log", "log.db")
    shown, _ = in_terminal(tmp_path, *arguments, keys=keys, after="measure")
    assert "corrected: " in shown, shown
    assert measured_of(tmp_path / "log.db")[6:8] == [69.95, 70.1]


def measured_of(path: Path) -> list[float | None]:
    """The values that count in a log."""
    with sp.load_study(storage=path) as study:
        return [one.value for one in study.measurements]


# ---- pass or fail


def test_pass_or_fail_is_noticed_once(bench: Path, here: Here) -> None:
    """The tenth value of 0 or 1 is followed by a hint in the words of the shell, and no other one is."""
    hints = []
    for n in range(12):
        (ask,) = json.loads(here(bench, "ask", "--format", "json").stdout)["asks"]
        hints.append(here(bench, "tell", str(ask["id"]), str(n % 2)).stderr)
    assert [n for n, hint in enumerate(hints) if hint] == [9]
    assert "these look like pass/fail" in hints[9]
    assert "--name mixes-2 --binary" in hints[9]
    assert "rewards=" not in hints[9]
    here(bench, "create", "mixes.csv", "--binary", "--name", "clicks", "--drop", "price")
    assert here(bench, "tell", "R-1", *"0101010101", "--study", "clicks").stderr == ""


def test_a_run_by_a_command_notices_pass_or_fail(tmp_path: Path, here: Here) -> None:
    """`surepick run` says which option to add."""
    (tmp_path / "mixes.csv").write_text(MIXES)
    keys = "0\n1\n" * 6
    said = here(tmp_path, "run", "--arms", "mixes.csv", "--max-pulls", "12", keys=keys)
    assert said.stderr.count("use --binary") == 1


# ---- asks and values that are mixed up


def test_asks_among_values_are_no_repeats(bench: Path, here: Here) -> None:
    """`tell 2 53,41 3 64,98` is refused; repeats, and values that only look like it, are told with --yes."""
    here(bench, "ask", "-n", "3")
    for words in (("53,41", "3", "64,98"), ("53.41", "3", "64.98"), ("53,41", "3")):
        said = here(bench, "tell", "2", *words)
        assert said.returncode == 2
        assert "could be repeats of ask 2, or values of ask 2 and ask 3" in said.stderr
        assert measured(bench) == []
    assert here(bench, "tell", "2", "53,41", "53,9", "54").returncode == 0
    assert here(bench, "tell", "1", "5", "3", "4", "--yes").returncode == 0
    assert measured(bench) == [53.41, 53.9, 54.0, 5.0, 3.0, 4.0]


# ---- sheets


def filled(path: Path, values: dict[int, object]) -> None:
    """Fill in an Excel sheet: values by the numbers of asks."""
    book = openpyxl.load_workbook(path)
    sheet = book.active
    titles = [cell.value for cell in sheet[1]]
    for row in sheet.iter_rows(min_row=2):
        if row[0].value in values:
            row[titles.index("value")].value = values[row[0].value]
            row[titles.index("comment")].value = "=fine?"
    book.save(path)


def test_a_sheet_goes_out_and_comes_back(bench: Path, here: Here) -> None:
    """A sheet has the whole recipe; filled in, in part, it is told by ask, once, however often it is sent."""
    said = here(bench, "ask", "-n", "4", "--output", "asks.xlsx")
    assert "Next: surepick tell --file asks.xlsx" in said.stdout
    rows = list(openpyxl.load_workbook(bench / "asks.xlsx").active.iter_rows(values_only=True))
    assert rows[0] == ("ask", "arm", "temp", "solvent", "price", "value", "comment")
    assert rows[1] == (1, "R-1", 60.5, "W", 3.2, None, None)
    filled(bench / "asks.xlsx", {1: "53,41", 3: 64.98})
    for _ in range(2):
        assert here(bench, "tell", "--file", "asks.xlsx").returncode == 0
        assert measured(bench) == [53.41, 64.98]
    filled(bench / "asks.xlsx", {2: 50, 4: 51})
    assert "R-2 = 50 (measurement 3, answers ask 2)" in here(bench, "tell", "--file", "asks.xlsx").stdout
    assert measured(bench) == [53.41, 64.98, 50.0, 51.0]
    filled(bench / "asks.xlsx", {1: 54})
    said = here(bench, "tell", "--file", "asks.xlsx")
    assert said.returncode == 2
    assert (
        "ask 1 has the result 53.41 already (measurement 1), got 54; if the first was mistyped, use surepick correct"
        in (said.stderr)
    )
    assert here(bench, "correct", "1", "54", "--reason", "typo").returncode == 0
    assert here(bench, "tell", "--file", "asks.xlsx").returncode == 0
    assert measured(bench) == [54.0, 64.98, 50.0, 51.0]


def test_a_sheet_is_not_written_over(bench: Path, here: Here) -> None:
    """A file of another kind stays, and so does a sheet with values that are not told yet."""
    assert "is not a sheet of asks of this study" in here(bench, "ask", "--output", "mixes.csv").stderr
    assert (bench / "mixes.csv").read_text() == MIXES
    here(bench, "ask", "-n", "2", "--output", "asks.xlsx")
    filled(bench / "asks.xlsx", {1: 5.5})
    assert "has values that are not told yet" in here(bench, "ask", "-n", "3", "--output", "asks.xlsx").stderr
    here(bench, "tell", "--file", "asks.xlsx")
    assert "3 asks in asks.xlsx" in here(bench, "ask", "-n", "3", "--output", "asks.xlsx").stdout


def test_earlier_results_are_questioned(bench: Path, here: Here) -> None:
    """An import prints at most five questions, and the numbers of further odd values."""
    lines = [f"R-{1 + n % 5},{50 + n * 0.618 % 1:.2f}" for n in range(60)]
    lines[30] = "R-1,505"
    (bench / "earlier.csv").write_text("arm,value\n" + "\n".join(lines) + "\n")
    said = here(bench, "import", "earlier.csv")
    assert said.stderr.startswith("surepick: 505 is recorded, far from about")
    assert "Did you mean 50.5?" in said.stderr
    assert here(bench, "import", "earlier.csv").stderr == ""


def test_a_sheet_on_standard_output(bench: Path, here: Here) -> None:
    """CSV needs no file; the reference level stands there by its name, and a file of it can be told."""
    text = here(bench, "ask", "-n", "3", "--format", "csv").stdout
    titles, *rows = csv.reader(io.StringIO(text))
    assert titles == ["ask", "arm", "temp", "solvent", "price", "value", "comment"]
    assert {row[1]: row[3] for row in rows}["R-2"] == "E"
    (bench / "back.csv").write_text(text.replace("3.2,,", '3.2,"53,41",ok'))
    assert here(bench, "tell", "--file", "back.csv").returncode == 0
    assert measured(bench) == [53.41]
    (bench / "empty.csv").write_text(text)
    assert "has no value yet" in here(bench, "tell", "--file", "empty.csv").stdout


def test_a_sheet_has_the_decimal_commas_of_the_table(bench: Path, here: Here) -> None:
    """A spreadsheet program that writes them would put 60.5 and a comma into one cell, or read 3.2 as a date."""
    here(bench, "ask", "-n", "3", "--output", "back.csv")
    titles, *rows = (bench / "back.csv").read_text("utf-8-sig").splitlines()
    assert titles == "ask;arm;temp;solvent;price;value;comment"
    assert rows[0] == "1;R-1;60,5;W;3,2;;"
    (bench / "back.csv").write_text("\n".join([titles, f"{rows[0][:-1]}69,8;", *rows[1:]]))
    said = here(bench, "tell", "--file", "back.csv")
    assert (said.returncode, measured(bench)) == (0, [69.8])
    (bench / "points.csv").write_text(MIXES.replace(",", ".").replace(";", ","))
    here(bench, "create", "points.csv", "--storage", "points.db")
    here(bench, "ask", "--output", "back-2.csv", "--storage", "points.db")
    assert (bench / "back-2.csv").read_text("utf-8-sig").splitlines()[1].startswith("1,R-1,60.5,W,")


def test_asks_of_a_sheet_without_a_value_are_named(bench: Path, here: Here) -> None:
    """A sample may be lost, and whoever fills in the sheet must know what to do then."""
    here(bench, "ask", "-n", "4", "--output", "back.csv")
    (bench / "back.csv").write_text("ask,value\n1,69.8\n2,\n3,70\n4,\n")
    said = here(bench, "tell", "--file", "back.csv").stdout
    assert "No value yet for ask 2 and ask 4. If a sample is lost: surepick fail 2 --reason WHY\n" in said
    here(bench, "fail", "2", "4", "--reason", "spilt")
    assert "No value yet" not in here(bench, "tell", "--file", "back.csv").stdout


def test_every_bad_line_is_named_and_nothing_is_recorded(bench: Path, here: Here) -> None:
    """Each in a line of its own: another arm, no ask, no number, a line twice, and a thousand or one."""
    here(bench, "ask", "-n", "5")
    (bench / "back.csv").write_text('ask,arm,value\n1,R-9,5\n2,,50\n2,R-2,51\n77,,3\n,R-2,3\n3,,abc\n4,,"1,500"\n5,,\n')
    said = here(bench, "tell", "--file", "back.csv")
    assert said.returncode == 2
    head, *problems = said.stderr.splitlines()
    assert head == "surepick: back.csv: nothing is recorded."
    assert problems.pop(2).startswith("  line 5: there is no ask 77")
    assert problems == [
        "  line 2: ask 1 is of arm R-1, and the line says R-9",
        "  line 4: ask 2 has a value in line 3 too",
        "  line 6: a value needs the number of its ask, got ''",
        f"  line 7: a measured value must be a number, got 'abc'; {LOST}",
        "  line 8: '1,500' could be 1.500 or 1500; write one of them",
    ]
    assert measured(bench) == []
    (bench / "back.csv").write_text("ask,value\n3,abc\n")
    said = here(bench, "tell", "--file", "back.csv")
    one = "surepick: back.csv: nothing is recorded. line 2: a measured value must be a number, got 'abc'"
    assert said.stderr == f"{one}; {LOST}.\n"
    (bench / "back.csv").write_text('ask,value\n3,"18,2 MPa"\n')
    said = here(bench, "tell", "--file", "back.csv")
    assert f"must be a number, got '18,2 MPa'; leave out the unit; {LOST}.\n" in said.stderr


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("ask", "--format", "xlsx"), "--format xlsx needs a file"),
        (("ask", "--format", "json", "--output", "asks.csv"), "--output must be a .json file"),
        (("ask", "--format", "csv", "--output", "asks.xlsx"), "--output must be a .csv file"),
        (("ask", "--output", "asks.txt"), "--output must be a .csv or .xlsx file"),
        (("tell", "1", "--file", "mixes.csv"), "leave out ASK"),
        (("tell",), "tell needs an ask or an arm and its value"),
        (("tell", "--file", "mixes.csv"), "must have the columns ask and value"),
        (("import", "sheet.csv"), "is a sheet of asks"),
        (("export", "x.xlsx", "--what", "log"), "an Excel file can hold"),
    ],
    ids=str,
)
def test_misuse_of_sheets(bench: Path, here: Here, words: tuple[str, ...], problem: str) -> None:
    """Each refusal says what is needed; nothing is asked, told or written."""
    (bench / "sheet.csv").write_text("ask,arm,value,comment\n1,R-1,5,\n")
    before = sorted(bench.iterdir())
    said = here(bench, *words)
    assert (said.returncode, problem in said.stderr) == (2, True), said.stderr
    assert sorted(bench.iterdir()) == before
    assert json.loads(here(bench, "pending", "--format", "json").stdout) == []


def test_an_excel_export_comes_back_without_counting_twice(bench: Path, here: Here) -> None:
    """Measurements go to Excel; imported into their own study they change nothing, and an added line counts once."""
    here(bench, "tell", "R-1", "5")
    here(bench, "ask")
    here(bench, "tell", "1", "6")
    assert "2 measurements of study mixes are in x.xlsx" in here(bench, "export", "x.xlsx").stdout
    assert "told before: nothing changed" in here(bench, "import", "x.xlsx").stdout
    book = openpyxl.load_workbook(bench / "x.xlsx")
    book.active.append([None, "R-3", 7.5, None, None, None, None, None, None])
    book.save(bench / "x.xlsx")
    for n in (3, 3):
        assert here(bench, "import", "x.xlsx").returncode == 0
        assert len(measured(bench)) == n
    here(bench, "create", "mixes.csv", "--name", "other", "--drop", "price")
    here(bench, "export", "x.xlsx", "--study", "mixes")
    assert (
        "3 results of x.xlsx are in study other; they guide"
        in here(bench, "import", "x.xlsx", "--study", "other").stdout
    )


# ---- the whole recipe


def test_a_recipe_is_whole(bench: Path, here: Here) -> None:
    """Every column of the table is there: the reference level, columns left out, and of arms that join."""
    table = here(bench, "ask", "-n", "2").stdout
    assert "temp 80, solvent E, price 1" in table
    asks = json.loads(here(bench, "ask", "-n", "2", "--format", "json").stdout)["asks"]
    assert asks[1]["recipe"] == {"temp": 80.0, "solvent": "E", "price": 1.0}
    (bench / "more.csv").write_text("id;temp;solvent;price\nR-9;75;W;9\n")
    assert here(bench, "reopen", "--join", "more.csv", "--reason", "new").returncode == 0
    with sp.load_study(storage=bench / "surepick.db") as study:
        assert study.state.catalog.recipe(5) == {"temp": 75.0, "solvent": "W", "price": "9"}
        assert study.state.catalog.recipe(1)["solvent"] == "E"
    assert here(bench, "report", "page.html").returncode == 0
    page = (bench / "page.html").read_text()
    assert "Recipes" in page
    assert re.search(r"R-2</th><td[^>]*>80</td><td[^>]*>E</td><td[^>]*>1</td>", page)


# ---- withdrawn


def test_a_withdrawn_answer_says_what_to_do(tmp_path: Path, here: Here) -> None:
    """`ask`, `status` and `best` say why, the commands to type, and what the data say without the model."""
    (tmp_path / "dose.csv").write_text("dose,x,y\na,0,0\nb,1,0\nc,0,1\nd,1,1\ne,2,1\n")
    here(tmp_path, "create", "dose.csv", "--delta", "0.1")
    with sp.load_study(storage=tmp_path / "surepick.db") as study:
        for n in range(60):
            if study.status.state == "withdrawn":
                break
            for ask in study.ask():
                value = (0.0, 1.0, 1.0, 4.0, 7.0)[ask.arm] + 0.1 * (n * 0.618 % 1)
                study.tell(ask, value, questions=False)
            if study.stopped and not study.n_planned:
                study.audit(10)
    for words in (("status",), ("ask",), ("best",)):
        said = here(tmp_path, *words).stdout
        assert "contradict a mean that is linear in the features" in said
        assert "surepick create ARMS --name dose-2 --delta 0.1 --interactions\n" in said
        assert "--model unstructured" in said
        assert "Estimate, not a guarantee: by their own means, without the model, e has 7.0" in said
    assert here(tmp_path, "export", "results.csv", "--what", "measurements").returncode == 0
    again = ("create", "dose.csv", "--name", "dose-2", "--delta", "0.1", "--interactions")
    assert here(tmp_path, *again).returncode == 0
    assert "7 results" in here(tmp_path, "import", "results.csv", "--study", "dose-2").stdout
    assert "withdrawn" not in here(tmp_path, "status", "--study", "dose-2").stdout


def test_a_withdrawn_answer_of_pass_or_fail_says_so(tmp_path: Path, here: Here) -> None:
    """The noise is what contradicts, and other features would be no help."""
    (tmp_path / "arms.csv").write_text("id,x,y\na,1,0\nb,0,1\nc,0.8,0.7\nd,-0.5,0.9\n")
    here(tmp_path, "create", "arms.csv", "--no-intercept")
    with sp.load_study(storage=tmp_path / "surepick.db") as study:
        for n in range(9):
            study.tell(study.ask()[0], float(n % 2))
        with pytest.warns(sp.EntryWarning, match="pass/fail"):
            study.tell(study.ask()[0], 1.0)
        assert study.status.state == "withdrawn"
    said = here(tmp_path, "status").stdout
    assert "the rewards are all 0 or 1, so their noise is not normal: use --binary" in " ".join(said.split())
    assert "surepick create ARMS --name arms-2 --binary\n" in said
    assert "--interactions" not in said
