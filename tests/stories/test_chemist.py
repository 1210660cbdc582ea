"""A chemist with a messy German table, two benches and a budget of 40, by commands alone."""

import datetime as dt
import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl

import surepick as sp
from surepick.reporting.study_view import view_of
from surepick.reporting.study_words import IF_SLIP
from tests.cli.conftest import Here, Said

HEADER = ("Rezept", "Temperatur °C", "Menge, mol/l", "pH-Wert", "Lieferant", "Preis €", "Datum", "Bemerkung")
REMARKS = ("", "nochmal prüfen", "alte Charge", "ok", "trüb")
SUPPLIERS = {"Alfa": 0.0, "Merck": 1.5, "Roth": -0.5}
"""Suppliers, and what each adds to the yield."""
NOISE = 4.0
BUDGET = 40
ROW = re.compile(r"^ +(\d+) +(R-\d+) ", re.MULTILINE)
"""A line of `surepick ask`: the number of the ask, and the recipe."""


class Lab:
    """Recipes whose yield is linear in temperature, amount, pH and supplier, and the command line of their study."""

    def __init__(self, here: Here, folder: Path) -> None:
        self._here, self.folder = here, folder
        self._rng = np.random.default_rng(29)
        self.recipes: dict[str, tuple[Any, ...]] = {}
        self.add(60)

    def add(self, n: int) -> list[str]:
        """Think of n more recipes; return their names."""
        rng, n_before = self._rng, len(self.recipes)
        for i in range(n_before, n_before + n):
            heat, amount = float(rng.choice([40, 50, 60, 70, 80])), float(rng.choice([0.5, 0.75, 1.25, 1.5, 2.0]))
            acid, supplier = round(float(rng.uniform(4.0, 9.0)), 1), str(rng.choice([*SUPPLIERS]))
            price, day = round(float(rng.uniform(5.0, 90.0)), 2), dt.date(2026, 10, 1 + i % 28)
            name = f"R-{i + 1:03d}"
            self.recipes[name] = name, heat, amount, acid, supplier, price, day, str(rng.choice(REMARKS))
        return [*self.recipes][n_before:]

    def mean(self, name: str) -> float:
        """The true yield."""
        _, heat, amount, acid, supplier, *_ = self.recipes[name]
        return 45.0 + 0.15 * heat + 3.0 * amount - 0.6 * acid + SUPPLIERS[supplier]

    def measured(self, name: str) -> str:
        """A yield as the bench writes it down."""
        return f"{self.mean(name) + NOISE * self._rng.standard_normal():.2f}".replace(".", ",")

    def write(self, file: str, names: list[str], **cells: Any) -> None:
        """Write recipes to an Excel file, amounts and some acidities as text; `cells` are typed over, as A23=..."""
        book = openpyxl.Workbook()
        sheet = book.active
        sheet.append(HEADER)
        for i, name in enumerate(names):
            row = list(self.recipes[name])
            row[2] = f"{row[2]}".replace(".", ",")
            row[3] = f"{row[3]}".replace(".", ",") if i % 7 == 3 else row[3]
            sheet.append(row)
        for place, value in cells.items():
            sheet[place] = value
        book.save(self.folder / file)

    def run(self, *arguments: str, code: int = 0) -> Said:
        """Run a command; no output may have a traceback, a name of Python or a number that is none."""
        said = self._here(self.folder, *arguments)
        assert said.returncode == code, said
        if "json" not in arguments:
            assert not re.search(r"Traceback|`|\bnan\b|\binf\b|\d\.\d{9}", said.stdout + said.stderr), said
        return said

    def ask(self, who: str, n: int) -> list[tuple[str, str]]:
        """Ask for n measurements; return asks and recipes."""
        return ROW.findall(self.run("ask", "-n", str(n), "--worker", who).stdout)

    def measure(self, who: str, n: int) -> str:
        """Ask for n measurements, and tell them one by one; return the last output."""
        said = ""
        for ask, name in self.ask(who, n):
            said = self.run("tell", ask, self.measured(name), "--worker", who).stdout
        return said

    def fill(self, file: str, **cells: str) -> list[str]:
        """Fill in the values of a sheet; return them. `cells` are typed over."""
        book = openpyxl.load_workbook(self.folder / file)
        sheet = book.active
        titles = [cell.value for cell in sheet[1]]
        assert [titles[0], titles[1], *titles[-2:]] == ["ask", "arm", "value", "comment"]
        assert titles[2:-2] == list(HEADER[1:])
        rows = list(sheet.iter_rows(min_row=2))
        for row in rows:
            row[-2].value = row[-2].value or self.measured(row[1].value)
        values = [row[-2].value for row in rows]
        for place, value in cells.items():
            sheet[place] = value
        book.save(self.folder / file)
        return values

    def status(self) -> dict[str, Any]:
        """The state of the study, for a program."""
        found: dict[str, Any] = json.loads(self.run("status", "--format", "json").stdout)
        return found


def test_a_chemist_finds_a_recipe_within_her_budget(here: Here, tmp_path: Path) -> None:
    """From a file with errors to the leader, its probability, what it may lose, and how to go on."""
    lab = Lab(here, tmp_path)
    begin(lab)
    first_measurements(lab)
    a_sheet_with_a_slip(lab)
    a_void_and_other_recipes(lab)
    the_budget_ends(lab)
    more_money(lab)


def begin(lab: Lab) -> None:
    """Errors of the file are said at once, with their rows; the first ask is the third command."""
    names = [*lab.recipes]
    lab.write("rezepte.xlsx", names, A23="R-014", D35=None)
    refused = lab.run("create", "rezepte.xlsx", "--budget", str(BUDGET), code=2).stderr
    assert "'R-014' is in rows 15 and 23. Change one of them" in refused
    assert "row 35: column 'pH-Wert' has no value; fill it, or leave out the row or the column (--drop)" in refused
    assert not (lab.folder / "surepick.db").exists()
    lab.write("rezepte.xlsx", names)
    created = lab.run("create", "rezepte.xlsx", "--budget", str(BUDGET)).stdout
    assert "60 arms, 6 features" in created
    assert "numbers     Temperatur °C, 'Menge, mol/l', pH-Wert\n" in created
    assert "categories  Lieferant: Alfa (reference), Merck, Roth\n" in created
    assert created.count("Datum") == created.count("Bemerkung") == 1
    assert (
        "To use a dropped column, list all that you want as --features. A price of each pull is --costs 'Preis €'."
        in created
    )
    assert created.endswith("Next: surepick ask\n")


def first_measurements(lab: Lab) -> None:
    """Two benches; a vial breaks; nothing is claimed before there is anything to claim."""
    said = lab.run("ask", "-n", "4", "--worker", "Anna").stdout
    asks = ROW.findall(said)
    assert [ask for ask, _ in asks] == ["1", "2", "3", "4"]
    name, heat, amount, acid, supplier, price, day, remark = lab.recipes[asks[0][1]]
    assert f"Temperatur °C {heat:g}, 'Menge, mol/l' {amount:g}, pH-Wert {acid:g}," in said
    same = json.loads(lab.run("ask", "-n", "4", "--worker", "Anna", "--format", "json").stdout)["asks"]
    cells = (heat, amount, acid, supplier, price, day.isoformat(), remark)
    assert (same[0]["name"], same[0]["recipe"]) == (name, dict(zip(HEADER[1:], cells, strict=True)))
    assert said.endswith("Next: surepick tell 1 VALUE --worker Anna\n")
    assert len(lab.ask("Ben", 4)) == 4
    for ask, name in asks[:3]:
        lab.run("tell", ask, lab.measured(name), "--worker", "Anna")
    none = lab.run("best", code=3).stdout
    assert none.startswith("No leader yet: 3 pulls of 3 arms")
    assert none.endswith("Next: surepick ask\n")
    lab.run("fail", "4", "--reason", "Vial zerbrochen", "--worker", "Anna")


def a_sheet_with_a_slip(lab: Lab) -> None:
    """A sheet is taken whole or not at all, and once; a value ten times too large is questioned and corrected."""
    assert "add --output" in lab.run("ask", "-n", "6", "--format", "xlsx", "--worker", "Ben", code=2).stderr
    said = lab.run("ask", "-n", "6", "--format", "xlsx", "--output", "ben.xlsx", "--worker", "Ben").stdout
    assert said.endswith("Next: surepick tell --file ben.xlsx --worker Ben\n")
    right = lab.fill("ben.xlsx", J3="trüb", J5="56;1")
    refused = lab.run("tell", "--file", "ben.xlsx", "--worker", "Ben", code=2).stderr
    assert "trüb" in refused
    assert "56;1" in refused
    assert lab.status()["n_pulls"] == 3
    lab.fill("ben.xlsx", J3=right[1], J5=right[3])
    for _ in range(2):
        told = lab.run("tell", "--file", "ben.xlsx", "--worker", "Ben").stdout
        assert lab.status()["n_pulls"] == 9
    assert "was told before: nothing changed" in told
    lab.run("ask", "-n", "6", "--output", "ben.xlsx", "--worker", "Ben")
    values = lab.fill("ben.xlsx")
    lab.fill("ben.xlsx", J4=values[2].replace(",", "")[:3] + "," + values[2][-1])  # 46,01 became 460,1
    asked = lab.run("tell", "--file", "ben.xlsx", "--worker", "Ben").stderr
    meant = float(values[2].replace(",", "."))
    assert f"Did you mean {meant:g}?" in asked
    found = re.search(r"correct it: surepick (correct 12 .*?)\. Do not", asked)
    assert found is not None
    status = lab.run("status").stdout
    assert "withdrawn" in status
    assert "If it is a slip, correct it. If not, repeat with features" in status
    assert "Look at your notes for the measurement that stands apart. If it was mistyped, correct it" in status
    assert "Its data are not lost" not in status
    with sp.load_study(storage=lab.folder / "surepick.db") as study:
        assert view_of(study).next == IF_SLIP
    assert "surepick create ARMS --name rezepte-2 --budget 40 --interactions" in status
    corrected = lab.run(*shlex.split(found[1])).stdout
    assert f"is {meant:g}, not" in corrected
    assert "leader R-" in corrected
    assert lab.status()["guarantee"] == "none", "no answer yet, and none withdrawn"


def a_void_and_other_recipes(lab: Lab) -> None:
    """Five recipes join and one leaves; a dry run says what that keeps and when to do it."""
    lab.run("void", "2", "--reason", "falsche Probe")
    lab.measure("Anna", 3)
    new = lab.add(5)
    lab.write("neu.xlsx", new, E3="Merk")
    refused = lab.run("reopen", "--join", "neu.xlsx", "--dry-run", code=2).stderr
    assert "row 3: column 'Lieferant' has the unknown level 'Merk' (did you mean 'Merck'?)" in refused
    lab.write("neu.xlsx", new)
    preview = lab.run("reopen", "--join", "neu.xlsx", "--dry-run").stdout
    missing = re.search(r"(\d+) results of an unfinished block are missing; reopen when they are told", preview)
    assert missing is not None
    lab.measure("Ben", int(missing[1]))
    n = lab.status()["n_pulls"]
    preview = lab.run("reopen", "--join", "neu.xlsx", "--dry-run").stdout
    assert f"This keeps {n} results as evidence." in preview
    assert f"The budget allows {BUDGET - n - 1} more pulls." in preview  # the void one was paid for
    joined = lab.run("reopen", "--join", "neu.xlsx", "--reason", "fünf neue Rezepte").stdout
    assert "Joined: R-061, R-062, R-063, R-064, R-065." in joined
    assert "open again with 65 arms" in joined
    retired = lab.run("reopen", "--retire", "R-017", "--reason", "giftig").stdout
    assert "Retired: R-017." in retired
    assert lab.status()["n_arms"] == 64
    said = lab.run("ask", "--worker", "Anna").stdout
    assert re.search(r"Why: separates R-\d+ from all others; R-\d+ leads\.", said)


def the_budget_ends(lab: Lab) -> None:
    """The answer so far is an estimate and says so, with what more measurements would buy and how to go on."""
    while lab.measure("Anna", 3) + lab.measure("Ben", 2):
        assert lab.status()["n_pulls"] < BUDGET
    status = lab.status()
    assert (status["state"], status["n_pulls"]) == ("spent", BUDGET - 1)  # and the void one
    best, in_question = status["best_name"], status["in_question"]
    assert max(lab.recipes, key=lab.mean) in in_question
    assert (best in in_question, len(in_question) > 2, 0.5 < status["probability"] < 0.9) == (True, True, True)
    assert "Next: surepick reopen --budget MORE --reason WHY" in lab.run("ask", "--worker", "Ben").stdout
    assert "Next: surepick reopen --budget MORE --reason WHY" in lab.run("status").stdout
    said = lab.run("best", code=3).stdout
    percent = 5 * round(20 * status["probability"])
    names = f"{', '.join(in_question[:-1])} and {in_question[-1]}"
    for words in (
        "Not decided (39 pulls). The budget is spent.\n",
        f"Leader {best}, runner-up {status['rival_name']}: ahead by ",
        f"Estimate, not a guarantee: {best} is best with about {percent} %, within ",
        "stopping now loses about ",
        f"in question: {names}.\n",
        " %; needed 95 %.\n",
        "With more measurements the leader is best with about ",
        "To be sure: ",
    ):
        assert words in said
    assert said.endswith("Next: surepick reopen --budget MORE --reason WHY\n")
    lab.run("report", "bericht.html")
    page = " ".join((lab.folder / "bericht.html").read_text(encoding="utf-8").split())
    for line in said.splitlines()[1:-1]:
        assert line in page
    assert re.search("The budget is spent.*Next: surepick reopen --budget MORE --reason WHY", page)
    assert "'" not in re.findall(r"<th[^>]*>([^<]*mol/l[^<]*)</th>", page)[0]  # quoted in lists alone


def more_money(lab: Lab) -> None:
    """More measurements keep what is known, and no result was lost or counted twice on the way."""
    preview = lab.run("reopen", "--budget", "20", "--dry-run").stdout
    assert "results as evidence" in preview
    assert "The budget allows 20 more pulls." in preview
    lab.run("reopen", "--budget", "20", "--reason", "mehr Zeit")
    assert len(lab.ask("Anna", 2)) == 2
    table = lab.run("measurements", "--format", "csv").stdout.splitlines()
    assert len(table) == 1 + BUDGET
    assert lab.run("export", "rezepte-log.csv").returncode == 0
