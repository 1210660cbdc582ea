"""The commands of studies as people type them: real SQLite files, the real command line."""

import csv
import io
import itertools
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import surepick as sp
from docs.commands import FIELDS
from surepick.cli import output
from surepick.cli.main import main
from surepick.cli.studies import complete_studies
from surepick.cli.studies.ask_tell import complete_arms
from surepick.reporting.study_words import recipe_words
from surepick.study.certificate import digest_of
from surepick.study.signatures import read_stamp
from surepick.study.storage import open_storage
from tests.cli.terminal import in_terminal
from tests.study.golden.make import FOLDER
from tests.waiting import LIMIT

PAINTS = "paint,gloss,drying\nA,1.0,0.2\nB,0.1,1.0\nC,0.7,0.7\nD,0.3,0.4\nE,0.9,0.9\n"
MEANS = {"A": 0.6, "B": 0.55, "C": 0.7, "D": 0.35, "E": 0.9}
"""What the paints pay: 0.5 gloss + 0.5 drying."""


class Done(NamedTuple):
    """What a command has left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What a program reads."""
        return json.loads(self.out)


class Shell:
    """Types commands in one folder."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str) -> Done:
        """Type a command."""
        self._capsys.readouterr()
        code = main(words)
        done = Done(code, *self._capsys.readouterr())
        # An error is one line that says who speaks; everything else goes to standard output.
        assert (done.err == "") or (done.err.startswith("surepick: ") and done.err.count("\n") == 1)
        return done

    def measure(self, most: int = 100, *options: str) -> None:
        """Ask and tell until the study has stopped, with a little noise that is the same in every run."""
        for n in range(1, most + 1):
            asks = self("ask", "--format", "json", *options).json["asks"]
            if not asks:
                return
            value = MEANS[asks[0]["name"]] + 0.05 * ((n * 0.6180339887) % 1 - 0.5)
            assert self("tell", str(asks[0]["id"]), repr(value), *options).code == 0


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A shell in a folder with paints, for one who sits at bench-1."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SUREPICK_STORAGE", raising=False)
    monkeypatch.delenv("SUREPICK_STUDY", raising=False)
    (tmp_path / "paints.csv").write_text(PAINTS)
    return Shell(capsys)


@pytest.fixture
def paints(shell: Shell) -> Shell:
    """The same with a study."""
    assert shell("create", "paints.csv", "--noise-std", "0.05").code == 0
    return shell


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a study that has its answer."""
    folder = tmp_path_factory.mktemp("answered")
    (folder / "paints.csv").write_text(PAINTS)
    storage, noise = open_storage(folder / "surepick.db"), itertools.count(1)
    study = sp.create_study("paints", arms=sp.read_arms(folder / "paints.csv"), noise_std=0.05, storage=storage)
    study.optimize(lambda arm: MEANS["ABCDE"[arm]] + 0.05 * ((next(noise) * 0.6180339887) % 1 - 0.5))
    storage.close()
    return folder / "surepick.db"


@pytest.fixture
def decided(shell: Shell, answered: Path, tmp_path: Path) -> Shell:
    """The same with an answer."""
    shutil.copy(answered, tmp_path)
    return shell


def test_status_says_what_the_proof_waits_for(paints: Shell) -> None:
    """An open ask keeps later results from the proof."""
    assert paints("ask", "--worker", "bench-2").code == 0
    assert "waits" not in paints("status").out
    for _ in range(12):
        (ask,) = paints("ask", "--format", "json", "--worker", "bench-1").json["asks"]
        told = paints("tell", str(ask["id"]), "0.5", "--yes", "--worker", "bench-1")
    waiting = "The proof waits for ask 1 of bench-2, open since today"
    assert waiting in " ".join(paints("status").out.split())
    assert any(line.startswith(waiting) for line in told.out.splitlines())
    assert any(line.startswith(waiting) for line in paints("best").out.splitlines())
    paints("fail", "1", "--worker", "bench-2")
    assert "the proof waits for it: later results enter it afterwards. surepick asks for it again" in paints("best").out


def test_from_arms_to_an_answer(shell: Shell) -> None:
    """Create says what was understood; every command says the next; the answer comes by name, with its risk."""
    made = shell("create", "paints.csv", "--noise-std", "0.05")
    assert made.code == 0
    assert "numbers     gloss, drying" in made.out
    assert "Study paints is in surepick.db: the best arm, at a risk of 5 %; noise at most 0.05." in made.out
    assert made.out.endswith("Next: surepick ask\n")
    (digest,) = shell("status", "--format", "json").json["registrations"]
    assert f"Registration digest {digest}: give it to a colleague now" in made.out
    asked = shell("ask", "-n", "2", "--lease", "2h")
    assert all(text in asked.out for text in ("gloss 1, drying 0.2", "Why: ", "Next: surepick tell 1 VALUE"))
    told = shell("tell", "1", "0,61")
    assert told.out.splitlines()[0] == "A = 0.61 (measurement 1, answers ask 1)."
    assert len(told.out.splitlines()) == 2
    assert shell("best").code == 3
    shell.measure()
    best = shell("best")
    assert best.code == 0
    assert best.out.startswith("E is the best of 5 arms, after ")
    after = shell("ask")
    assert after.code == 0
    assert after.out.startswith("Nothing to measure. E is the best of 5 arms")
    status = shell("status").out.splitlines()
    assert status[0].split() == ["study", "paints,", "decided"]
    assert "after" not in status[-1]
    shell("tell", "E", "0.9")
    n = shell("status", "--format", "json").json["n_pulls"] - 1
    assert shell("status").out.splitlines()[-1].rstrip().endswith(f", after {n} pulls")
    assert shell("best").out.startswith(f"E is the best of 5 arms, after {n} pulls")


def test_an_answer_whose_model_is_hardly_tested(shell: Shell, tmp_path: Path) -> None:
    """The mean is curved, and the two ends of a line cannot show it: `best` says so, as `explain` does."""
    (tmp_path / "ovens.csv").write_text("name,heat\n" + "".join(f"t{n},{20 + 5 * n}\n" for n in range(12)))
    shell("create", "ovens.csv", "--noise-std", "0.05")
    while asks := shell("ask", "--format", "json").json["asks"]:
        shell("tell", str(asks[0]["id"]), "--yes", "--", str(-0.02 * (asks[0]["arm"] - 7.6) ** 2))
    note = "The model is not tested yet. A test needs results of more arms than there are features"
    best = shell("best").out
    assert best.startswith("t11 is the best of 12 arms")
    assert best.endswith(f"{note} (surepick audit).\n")
    assert f"{note} (audit)." in shell("best", "--format", "json").json["explanation"]


def test_nothing_is_planned_after_the_verdict_but_check_pulls(paints: Shell) -> None:
    """The last batch reaches into a block whose rest is never asked for, so the table does not speak of it."""
    while asks := paints("ask", "-n", "25", "--format", "json").json["asks"]:
        for ask in asks:
            paints("tell", str(ask["id"]), repr(MEANS[ask["name"]] + 1e-3 * ask["id"]), "--yes")
    assert paints("status", "--format", "json").json["n_planned"] > 0
    assert "planned" not in paints("status").out
    paints("audit", "2")
    assert "none open, 2 more planned" in paints("status").out


def test_json_has_the_documented_fields(decided: Shell) -> None:
    """What every command writes as JSON has the fields of the page, all of them and no others."""
    decided("tell", "C", "0.7")
    decided("audit", "2")
    decided("certificate", "--out", "certificate.json")
    decided("export", "log.csv")
    asked = decided("ask", "--format", "json").json
    found = {
        "ask": asked,
        "ask: each of asks": asked["asks"][0],
        "pending": decided("pending", "--format", "json").json[0],
        "tell": decided("tell", "E", "0.9", "--format", "json").json,
        "measurements": decided("measurements", "--format", "json").json[0],
        "status": decided("status", "--format", "json").json,
        "best": decided("best", "--format", "json").json,
        "plan": decided("plan", "--format", "json").json,
        "list": decided("list", "--format", "json").json[0],
        "verify": decided("verify", "certificate.json", "--log", "log.csv", "--format", "json").json,
    }
    assert {name: list(record) for name, record in found.items()} == {
        name: list(fields) for name, (_, fields) in FIELDS.items()
    }
    assert list(found["tell"]["measurements"][0]) == list(FIELDS["measurements"][1])
    assert list(found["tell"]["status"]) == list(FIELDS["status"][1])
    assert found["status"]["best_name"] == "E"


@pytest.mark.parametrize("words", ["ask", "pending", "measurements", "status", "best", "plan", "list"], ids=str)
def test_csv_is_a_table(paints: Shell, words: str) -> None:
    """CSV has one line of titles, and lines of as many cells; what is not known stays empty."""
    paints("tell", "E", "0.9")
    paints("ask")
    titles, *rows = csv.reader(io.StringIO(paints(words, "--format", "csv").out))
    assert len(rows) == 1
    assert len(rows[0]) == len(titles)
    assert not {"nan", "inf", "None"} & set(rows[0])


def test_nothing_is_created_by_looking(shell: Shell, tmp_path: Path) -> None:
    """A command that is not `create` makes no file, and says what to do."""
    reading = [
        ("ask",),
        ("status",),
        ("list",),
        ("best",),
        ("tell", "1", "2"),
        ("pending",),
        ("plan",),
        ("export", "l.csv"),
    ]
    for words in reading:
        done = shell(*words)
        assert (done.code, "surepick create" in done.err) == (2, True)
    assert shell("status", "--storage", "sqlite:///other.db").code == 2
    assert shell("create", "paints.csv", "--delta", "7").code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["paints.csv"]


def test_numbers_as_people_write_them(paints: Shell) -> None:
    """Negative numbers are no options, and a decimal comma is one."""
    meant = {"-0.5": -0.5, "-0,5": -0.5, "-.5": -0.5, "+2e-3": 0.002, "-1e2": -100.0, "7": 7.0}
    for typed, value in meant.items():
        told = paints("tell", "E", typed, "--yes", "--format", "json").json["measurements"][0]
        assert told["value"] == value
        again = paints("correct", str(told["id"]), typed, "--reason", "as it was")
        assert (again.code, "there is nothing to correct" in again.err) == (2, True)


MISTAKES = {
    ("tell", "e", "1"): "there is no arm 'e'; did you mean 'E'?",
    ("tell", "Q", "1"): "there is no arm 'Q'; the arms are A, B, C, D, E.",
    ("tell", "1", "abc"): "a measured value must be a number, got 'abc'; write decimals as 0.53 or 0,53.",
    ("tell", "1", "18,2 MPa"): "got '18,2 MPa'; write decimals as 0.53 or 0,53; leave out the unit.",
    ("tell", "1", "1,500"): "'1,500' could be 1.500 or 1500",
    ("tell", "1", "0.5", "--amr"): "there is no option --amr",
    ("tell", "7", "0.5"): "there is no ask 7; no ask is open.",
    ("status", "--study", "paint"): "did you mean 'paints'?",
    ("void", "1", "--reason", "spilt"): "there is no measurement 1",
    ("void", "E", "--reason", "spilt"): "MEASUREMENT must be a number, as surepick measurements lists it",
    ("fail", "E"): "ASK must be a number, as surepick pending lists it",
    ("void", "1"): "Missing option '--reason'",
    ("asks",): "Did you mean 'ask'?",
    (
        "create",
        "paints.csv",
    ): "there is a study 'paints' in surepick.db already, with its arms as they were; go on "
    "with it (surepick ask), begin anew (surepick delete paints), or choose another --name.",
    ("create", "paints.csv", "--name", "more", "--control", "EE"): "use one of the arms' names, such as 'E'.",
    ("create",): "a study needs arms",
    ("create", "--sphere", "3", "--epsilon", "0.1"): "needs a name; add --name NAME.",
    ("create", "paints.csv", "--hypercube", "3"): "one set of arms is needed",
    ("create", "--hypercube", "3", "--name", "cube", "--drop", "x"): "--drop belongs to a file of arms",
    ("ask", "--lease", "soon"): "--lease must be a positive time",
    ("status", "--watch", "--format", "json"): "--watch is for people",
    ("status", "--storage", "memory:"): "give --storage a file",
    ("audit", "many"): "must be a number of pulls",
    ("delete", "paints"): "to delete without a terminal, add --yes",
    ("plan", "paints.csv", "--study", "paints"): "leave out one of them",
    ("plan", "--gap", "0.3"): "--gap belongs to a file of arms",
    ("verify", "paints.csv", "--log", "paints.csv"): "paints.csv must be a certificate",
    ("verify", "paints.csv"): "surepick export log.csv writes it",
    ("import", "paints.csv"): "must have the columns arm and value",
}


def test_a_mistake_is_one_line(paints: Shell) -> None:
    """A mistake changes nothing, returns 2, and one line says what to do."""
    before = paints("status", "--format", "json").json["n_events"]
    for words, said in MISTAKES.items():
        done = paints(*words)
        assert (done.code, done.out) == (2, ""), words
        assert said in done.err
    assert paints("status", "--format", "json").json["n_events"] == before


def test_several_asks_are_given_up_at_once(paints: Shell) -> None:
    """With one reason, all or none; of an ask that has a result the measurement is named that may be void."""
    paints("ask", "-n", "4")
    paints("tell", "1", "0.5")
    done = paints("fail", "2", "3", "--reason", "plate dropped")
    assert [line.partition(" (")[0] for line in done.out.splitlines()] == ["Ask 2", "Ask 3"]
    assert [one["id"] for one in paints("pending", "--format", "json").json] == [4]
    refused = paints("fail", "4", "1")
    assert [one["id"] for one in paints("pending", "--format", "json").json] == [4]
    assert "ask 1 has a result; surepick void measurement 1 if it does not count." in refused.err
    assert "begin anew" not in paints("create", "paints.csv").err


def test_four_terminals(paints: Shell) -> None:
    """Benches have asks of their own, get them back when they ask again, and a dead bench's ask goes to another."""
    benches = ["anna", "ben", "carl", "dora"]
    asks = {bench: paints("ask", "--worker", bench, "--format", "json").json["asks"][0] for bench in benches}
    assert len({one["id"] for one in asks.values()}) == 4
    assert "It was asked of ben before" in paints("ask", "--worker", "ben").out
    assert [one["worker"] for one in paints("pending", "--format", "json").json] == benches
    for bench in ("anna", "ben", "carl"):
        assert paints("tell", str(asks[bench]["id"]), str(MEANS[asks[bench]["name"]]), "--worker", bench).code == 0
    # The fourth dies: who notices gives its ask up, and somebody else gets that.
    failed = paints("fail", str(asks["dora"]["id"]), "--reason", "bench is on fire", "--author", "anna")
    assert failed.out == f"Ask {asks['dora']['id']} ({asks['dora']['name']}) is given up; it will be asked for again.\n"
    taken = paints("ask", "-n", "3", "--worker", "anna", "--format", "json").json["asks"]
    (again,) = [one for one in taken if "asked again" in one["reason"]]
    assert again["name"] == asks["dora"]["name"]
    # A result that comes twice is one, and another value for the same ask is a conflict that names both.
    assert "was told before" in paints("tell", str(asks["anna"]["id"]), str(MEANS[asks["anna"]["name"]])).out
    conflict = paints("tell", str(asks["anna"]["id"]), "5")
    assert conflict.code == 2
    assert "correct" in conflict.err


def test_the_next_ask_keeps_the_name_of_the_bench(paints: Shell) -> None:
    """The only worker so far is named without being typed again; with two, and without a name, none is."""
    (ask,) = paints("ask", "--format", "json", "--worker", "anna").json["asks"]
    paints("tell", str(ask["id"]), "0.5", "--worker", "anna")
    assert paints("best").out.endswith("Next: surepick ask --worker anna\n")
    assert paints("pending").out.endswith("Next: surepick ask --worker anna\n")
    assert paints("best", "--worker", "ben").out.endswith("Next: surepick ask --worker ben\n")
    paints("ask", "--worker", "ben")
    assert paints("best").out.endswith("Next: surepick ask\n")


@pytest.mark.parametrize("name", ["anna@lab", "lab:7645:d046ec2f:0"])
def test_a_name_that_was_not_given_stays_away(paints: Shell, name: str) -> None:
    """The name of a user at a machine, or of a program, is of that machine; a colleague at another one has another."""
    paints("ask", "--worker", name)
    assert paints("best").out.endswith("Next: surepick ask\n")


def test_a_typo_is_corrected(paints: Shell) -> None:
    """A wrong value is found in the list, corrected with a reason, taken back and restored; the list marks it."""
    paints("tell", "E", "9.1")
    assert paints("measurements").out.count("9.1") == 1
    corrected = paints("correct", "1", "0.91", "--reason", "point slipped")
    assert corrected.out.splitlines()[0] == "Measurement 1 of E is 0.91, not 9.1; it was not asked for."
    assert "corrected, was 9.1: point slipped" in " ".join(paints("measurements").out.split())
    asked = paints("ask", "--format", "json").json["asks"][0]["id"]
    paints("tell", str(asked), "5.1")
    paints("correct", "2", "0.51", "--reason", "point slipped")
    assert "was told before and corrected since: it stays 0.51)." in paints("tell", str(asked), "5.1").out
    paints("void", "2", "--reason", "spilt")
    assert "was told before and is void since: it stays void)." in paints("tell", str(asked), "5.1").out
    assert "E = 0.91) is void" in paints("void", "1", "--reason", "wrong can").out
    void = paints("measurements", "--format", "json").json[0]
    assert (void["value"], void["told"], void["is_void"]) == (None, 9.1, True)
    assert void["changes"] == ["corrected: point slipped", "voided: wrong can"]
    assert "counts again" in paints("restore", "1", "--reason", "it was the right can").out


def test_a_correction_takes_the_verdict_back(decided: Shell) -> None:
    """If the corrected values do not bear the verdict, that is said, and `best` returns 3 again."""
    of_best = [one["id"] for one in decided("measurements", "--format", "json").json if one["name"] == "E"]
    said = [decided("void", str(id_), "--reason", "another paint").out for id_ in of_best]
    assert sum("The verdict does not hold after this change: the study goes on." in text for text in said) == 1
    assert decided("best").code == 3
    assert decided("ask", "--format", "json").json["asks"] != []


def test_an_arm_may_be_called_by_a_number(shell: Shell, tmp_path: Path) -> None:
    """Digits are an ask, or an arm with --arm; where there is no such ask the error says so."""
    (tmp_path / "lots.csv").write_text("name,x\n11,0\n12,1\n13,2\n")
    shell("create", "lots.csv", "--noise-std", "0.1")
    assert "add --arm" in shell("tell", "12", "0.5").err
    assert shell("tell", "12", "0.5", "--arm").out.startswith("12 = 0.5 (measurement 1, not asked for")
    assert shell("tell", "--arm", "13", "-1", "-2").out.count("measurement") == 2


def test_a_set_of_vectors(shell: Shell) -> None:
    """Arms of a set are their entries, signs included."""
    shell("create", "--hypercube", "2", "--name", "cube", "--noise-std", "0.1")
    assert shell("ask", "-n", "2", "--format", "json").json["asks"][0]["features"] in (
        [1, 1],
        [1, -1],
        [-1, 1],
        [-1, -1],
    )
    assert shell("tell", "-1,1", "0.5").out.startswith("(-1, 1) = 0.5")
    assert "of a vector the entries" in shell("tell", "corner", "0.5").err


def test_audit_says_why_so_many(decided: Shell) -> None:
    """One sentence for a number that surepick chose, none for a number that was given."""
    lines = decided("audit").out.splitlines()
    assert lines[0].endswith("check pulls are planned.")
    assert lines[1].startswith("Check pulls look for a misfit of half the lead")
    assert lines[1].endswith("Fewer: surepick audit N.")


def test_open_asks_are_named_where_nothing_is_left_to_ask_for(decided: Shell) -> None:
    """Another bench has the check pulls, or the same one under another name."""
    decided("audit", "3")
    decided("ask", "-n", "3")
    said = decided("ask", "--worker", "carl").out
    assert said.startswith("Nothing to measure. ")
    assert "3 asks are open: surepick pending\n" in said


def test_after_the_verdict(decided: Shell, tmp_path: Path) -> None:
    """Check pulls are planned and asked for; a study goes on with arms that join and without those that retire."""
    assert decided("audit", "2").out == "2 check pulls are planned.\nNext: surepick ask -n 2\n"
    assert decided("audit", "3").out == "3 check pulls are planned.\nNext: surepick ask -n 3\n"
    assert "would do that (0 of 3 are done)." in " ".join(decided("best").out.split())
    assert "checks the model after the verdict" in decided("ask", "-n", "2").out
    assert "2 of 3 check pulls are asked for already, so their number is fixed" in decided("audit", "2").err
    assert "1 more is open: surepick pending" in decided("ask").out
    (tmp_path / "more.csv").write_text("paint,gloss,drying\nF,1.1,0.95\n")
    missing = tmp_path / "less.csv"
    missing.write_text("paint,gloss\nG,1.1\n")
    assert "none for 'drying'" in decided("reopen", "--reason", "new", "--join", "less.csv").err
    done = decided("reopen", "--reason", "new recipe", "--join", "more.csv", "--retire", "A,D", "--delta", "0.1")
    assert "\nJoined: F.\nRetired: A, D.\nStudy paints is open again with 4 arms;" in done.out
    assert "retired" in decided("tell", "A", "0.6").out
    assert decided("best").code == 3
    status = decided("status", "--format", "json").json
    assert (status["era"], status["delta"], status["n_arms"]) == (2, 0.1, 4)


def test_a_withdrawn_answer(shell: Shell, tmp_path: Path) -> None:
    """Where the data contradict the model, `best` returns 4, and `ask` and `status` say so."""
    (tmp_path / "dose.csv").write_text("dose,x\na,0\nb,1\nc,2\nd,3\ne,4\n")
    shell("create", "dose.csv", "--noise-std", "0.02")
    bent = {"a": 0.0, "b": 3.0, "c": 0.0, "d": 0.0, "e": 1.0}
    for _ in range(3):
        for one in shell("ask", "-n", "4", "--format", "json").json["asks"]:
            shell("tell", str(one["id"]), *[str(bent[one["name"]])] * 3)
        for name in "bcd":
            shell("tell", name, *[str(bent[name])] * 3)
    done = shell("best")
    assert done.code == 4
    assert "No answer can be defended" in done.out
    assert shell("certificate").code == 4
    assert "withdrawn" in shell("status").out
    assert shell("status", "--format", "json").json["state"] == "withdrawn"


def test_an_answer_in_doubt(shell: Shell, tmp_path: Path) -> None:
    """Where arms differ in noise, `best` returns 0 and says why the answer is in doubt, and so does `status`."""
    (tmp_path / "dose.csv").write_text("dose,x\na,0\nb,1\nc,2\n")
    shell("create", "dose.csv")
    study, rng = sp.load_study("dose"), np.random.default_rng([1, 16])
    while not study.stopped:
        for ask in study.ask(1):
            arm = "abc".index(str(ask.name))
            study.tell(ask.id, 0.5 * arm + float(rng.standard_normal()) * (2.0, 0.2, 0.2)[arm])
    study.close()
    done = shell("best")
    assert (done.code, "in doubt" in done.out, "differ in noise" in done.out) == (0, True, True)
    told = shell("status", "--format", "json").json
    assert (told["state"], told["guarantee"]) == ("stopped", "doubtful")
    assert "doubt" in shell("status").out


def test_a_certificate_that_a_colleague_checks(decided: Shell, tmp_path: Path) -> None:
    """The certificate follows from the exported log; one that was changed does not, and verify returns 1."""
    made = decided("certificate", "--out", "certificate.json")
    assert "no verdict yet" not in made.out
    assert made.code == 0
    assert "surepick verify certificate.json --log log.csv" in made.out
    assert "are in log.csv" in decided("export", "log.csv").out
    done = decided("verify", "certificate.json", "--log", "log.csv")
    assert (done.code, "All of it follows from the log." in done.out) == (0, True)
    certificate = tmp_path / "certificate.json"
    certificate.write_text(certificate.read_text().replace('"delta": 0.05', '"delta": 0.01'))
    bad = decided("verify", "certificate.json", "--log", "log.csv")
    assert (bad.code, "Do not rely on this certificate" in bad.out) == (1, True)
    assert decided("certificate").json["best_names"] == ["E"]
    decided("certificate", "--out", "certificate.json")
    decided("tell", "E", "0.9")
    decided("export", "log.csv")
    later = decided("verify", "certificate.json", "--log", "log.csv")
    assert (later.code, "the log has 1 later event" in " ".join(later.out.split())) == (0, True)
    log = tmp_path / "log.csv"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-2]))
    short = decided("verify", "certificate.json", "--log", "log.csv")
    assert (short.code, short.out.count("Wrong: "), "export all of it" in short.out) == (1, 1, True)


def test_a_claim_that_this_version_cannot_check(decided: Shell, tmp_path: Path) -> None:
    """A false claim under the name of another version is neither ok nor refuted: exit code 5, and a sentence."""
    decided("certificate", "--out", "certificate.json")
    decided("export", "log.csv")
    certificate = tmp_path / "certificate.json"
    said = json.loads(certificate.read_text()) | {"version": "0.9.9", "claim": "A is best"}
    certificate.write_text(json.dumps(said | {"digest": digest_of(said)}))
    done = decided("verify", "certificate.json", "--log", "log.csv")
    assert done.code == 5
    assert "Not checked: claim:" in done.out
    assert "cannot check all of the certificate: use version 0.9.9" in " ".join(done.out.split())
    found = decided("verify", "certificate.json", "--log", "log.csv", "--format", "json")
    assert (found.code, found.json["ok"], found.json["outcome"]) == (5, False, "unchecked")


def test_the_luckiest_of_several_copies_is_told(paints: Shell) -> None:
    """Whoever goes on with a copy cannot have a certificate that does not say so."""
    for n in range(3):
        paints("copy", "paints", f"try{n}")
    paints.measure(100, "--study", "try1")
    assert paints("certificate", "--study", "try1", "--out", "certificate.json").code == 0
    paints("export", "log.csv", "--study", "try1")
    said = " ".join(paints("verify", "certificate.json", "--log", "log.csv").out.split())
    assert "This log is a fork: a copy of study paints, made after event 2" in said
    assert "1 copy was made of this log" in said
    assert "registration digest" in said


def test_an_anchor_is_checked_by_others(decided: Shell, tmp_path: Path) -> None:
    """The head to be time-stamped is said, its time stamp kept, and `verify` writes it out for openssl."""
    head = decided("anchor")
    assert "openssl ts -query -digest" in head.out
    digest = re.search(r"-digest (\w{64}) -sha256", head.out)
    assert digest is not None
    stamp = (FOLDER / "stamp.tsr").read_bytes()
    assert decided("anchor", "--token", "none.tsr").code == 2
    (tmp_path / "answer.tsr").write_bytes(stamp)
    assert "must be of the hash of an event" in decided("anchor", "--token", "answer.tsr").err
    own = stamp.replace(bytes.fromhex(read_stamp(stamp).hash), bytes.fromhex(digest[1]))
    (tmp_path / "answer.tsr").write_bytes(own)
    assert "anchors the log up to event" in decided("anchor", "--token", "answer.tsr").out
    decided("certificate", "--out", "certificate.json")
    decided("export", "log.csv")
    done = decided("verify", "certificate.json", "--log", "log.csv", "--tokens", "stamps")
    assert done.code == 0
    assert "time stamp of 2026-11-18T03:" in done.out
    (file,) = (tmp_path / "stamps").iterdir()
    assert file.read_bytes() == own
    assert f"openssl ts -verify -digest {digest[1]} -in stamps/{file.name} -CAfile" in done.out


def test_a_signed_certificate(decided: Shell, tmp_path: Path) -> None:
    """A key signs, and the public key says who it was."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

    key = Ed25519PrivateKey.generate()
    plain = serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    (tmp_path / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "public.pem").write_bytes(public)
    decided("certificate", "--out", "certificate.json", "--sign", "key.pem")
    decided("export", "log.json")
    done = decided("verify", "certificate.json", "--log", "log.json", "--public-key", "public.pem")
    assert (done.code, "signed by the owner of the public key" in done.out) == (0, True)
    other = decided("verify", "certificate.json", "--log", "log.json", "--public-key", "typo.pem")
    assert (other.code, "typo.pem must be an Ed25519 public key" in other.err) == (2, True)


def test_files_of_a_study(paints: Shell, tmp_path: Path) -> None:
    """Earlier results are imported once, whatever the file is called, measurements exported, a page is written."""
    (tmp_path / "earlier.csv").write_text("arm,value\nA,0.6\nE,0.9\nB,0.55\n")
    said = "3 results of earlier.csv are in study paints; they guide the next asks, and are no evidence."
    assert said in paints("import", "earlier.csv").out
    shutil.copy(tmp_path / "earlier.csv", tmp_path / "copy.csv")
    for name in ("earlier.csv", "copy.csv"):
        assert "they were told before: nothing changed" in paints("import", name).out
    assert paints("create", "paints.csv", "--name", "fixed", "--earlier", "evidence").code == 0
    assert "they count as evidence" in paints("import", "earlier.csv", "--study", "fixed").out
    paints("delete", "fixed", "--yes")
    assert "3 measurements of study paints" in paints("export", "m.csv", "--what", "measurements").out
    assert (tmp_path / "m.csv").read_text().count("\n") == 4
    assert "any browser shows" in paints("report", "page.html", "--unit", "gloss units").out
    assert "Next: " not in (tmp_path / "page.html").read_text(), "its readers measure nothing"
    early = paints("certificate", "--out", "early.json")
    assert (early.code, "There is no verdict yet: " in early.out) == (3, True)
    assert "Estimate (gloss units)" in (tmp_path / "page.html").read_text()
    assert "at most 20 letters" in paints("report", "bad.html", "--unit", "u" * 21).err
    assert not (tmp_path / "bad.html").exists()
    paints("ask")
    paints("void", "2", "--reason", "mislabelled")
    paints("export", "m.csv", "--what", "measurements")
    done = paints("import", "m.csv")
    assert "2 results of m.csv are in study paints; they were told before: nothing changed." in done.out


def test_commas_of_a_file_are_understood_as_a_whole(paints: Shell, tmp_path: Path) -> None:
    """Between semicolons 2,902 is a number below three; beside decimal commas nobody knows what 1.500 is."""
    (tmp_path / "euro.csv").write_text("arm;value\nA;2,902\nE;3,522\n")
    assert paints("import", "euro.csv").code == 0
    told = paints("measurements", "--format", "json").json
    assert [one["value"] for one in told] == [2.902, 3.522]
    (tmp_path / "mixed.csv").write_text("arm;value\nA;1.500\nE;3,5\n")
    assert "decimal points and decimal commas" in paints("import", "mixed.csv").err


def test_nothing_is_written_over_a_study(decided: Shell, tmp_path: Path) -> None:
    """Neither over its file nor over a key; and pages and certificates have their endings."""
    (tmp_path / "key.json").write_text("secret")
    shutil.copy(tmp_path / "surepick.db", tmp_path / "lab.json")
    for command in (
        ("report", "lab.json", "--storage", "lab.json"),
        ("report", "page.txt"),
        ("certificate", "--out", "surepick.db"),
        ("certificate", "--out", "lab.json", "--storage", "lab.json"),
        ("certificate", "--out", "key.json", "--sign", "key.json"),
        ("export", "lab.json", "--storage", "lab.json"),
    ):
        assert decided(*command).code == 2, command
    assert (tmp_path / "key.json").read_text() == "secret"
    assert all(decided("status", "--storage", name).code == 0 for name in ("surepick.db", "lab.json"))


def test_a_number_with_a_nought_before_it_is_a_name(shell: Shell, tmp_path: Path) -> None:
    """Ask 2 is 2; an arm may be called 02."""
    (tmp_path / "arms.csv").write_text("name,x,y\n01,1,0\n02,0,1\n03,1,1\n--dash,1,2\n")
    shell("create", "arms.csv", "--name-column", "name")
    shell("ask", "-n", "3")
    assert shell("tell", "02", "5").out.startswith("02 = 5")
    assert "answers ask 3" in shell("tell", "3", "5").out
    assert shell("tell", "--yes", "--", "--dash", "5").out.startswith("--dash = 5")


def test_a_budget_is_spent_when_its_last_result_is_in(shell: Shell, paints: Shell) -> None:
    """Not when the last ask is out: its result may decide."""
    made = shell("create", "paints.csv", "--name", "few", "--budget", "4", "--noise-std", "0.5")
    assert "a budget of 4" in made.out
    asks = paints("ask", "-n", "9", "--study", "few", "--format", "json").json["asks"]
    assert len(asks) == 4
    assert paints("status", "--study", "few", "--format", "json").json["state"] == "measuring"
    assert "the budget allows no more" in paints("plan", "--study", "few").out
    other = paints("ask", "--study", "few", "--worker", "another").out
    assert ("the last asks that the budget allows" in other, "reopen" in other) == (True, False)
    for ask in asks:
        paints("tell", str(ask["id"]), "0.5", "--study", "few")
    assert paints("status", "--study", "few", "--format", "json").json["state"] == "spent"


def test_reopening_says_what_it_costs(decided: Shell) -> None:
    """Before it is done, too; and what is not over, or changes nothing, is not reopened."""
    n = decided("status", "--format", "json").json["n_pulls"]
    kept = f"This keeps {n} results as evidence. The log keeps "
    assert decided("reopen", "--retire", "A", "--dry-run").out.startswith(kept)
    assert "--reason must say why" in decided("reopen", "--retire", "A").err
    assert decided("status", "--format", "json").json["era"] == 1
    excluded = decided("reopen", "--retire", "A", "--reason", "sold out")
    assert excluded.out.startswith(kept)
    assert "there is a verdict already.\nNext: surepick best" in excluded.out
    best = decided("best", "--format", "json").json["best_name"]
    first = decided("reopen", "--retire", best, "--reason", "sold out")
    assert f"the proof starts anew), because {best} could still be the best" in first.out
    assert "arm A is retired already" in decided("reopen", "--retire", "A", "--reason", "again").err
    assert "the study is not over" in decided("reopen", "--reason", "why not").err
    ask = decided("ask", "--format", "json").json["asks"][0]["id"]
    assert f"surepick no longer waits for ask {ask}," in decided("reopen", "--delta", "0.01", "--reason", "strict").out
    assert "The risk of all 4 eras together: 0.11." in decided("certificate", "--out", "third.json").out
    decided("export", "log.csv")
    assert "Note: risk of all 4 eras together: 0.11." in decided("verify", "third.json", "--log", "log.csv").out


def test_several_studies(paints: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copied, listed, named by option or variable, deleted; next steps name the study where that is needed."""
    made = paints("copy", "paints", "spare")
    assert made.out.startswith("Study paints is copied to spare in surepick.db; both logs say so (fork id ")
    assert "say which by --study NAME" in paints("ask").err
    assert paints("ask", "--study", "spare").out.endswith("Next: surepick tell 1 VALUE --study spare\n")
    monkeypatch.setenv("SUREPICK_STUDY", "spare")
    assert paints("status", "--format", "json").json["name"] == "spare"
    assert paints("ask").out.endswith("Next: surepick tell 1 VALUE\n")
    assert [one["name"] for one in paints("list", "--format", "json").json] == ["paints", "spare"]
    assert paints("copy", "paints", "paints", "--to-storage", "other.db").code == 0
    assert paints("plan", "--study", "paints", "--storage", "other.db").code == 0
    assert paints("delete", "spare", "--yes").out == "Study spare is deleted.\n"
    assert paints("delete", "spare", "--yes").code == 2


def test_a_damaged_study_does_not_hide_the_others(paints: Shell, tmp_path: Path) -> None:
    """One that cannot be read is listed as such, `status` says why and returns 1, and it can be deleted."""
    paints("copy", "paints", "spare")
    with closing(sqlite3.connect(tmp_path / "surepick.db")) as database, database:
        database.execute("UPDATE events SET text = replace(text, '0.05', '0.06') WHERE study = 1")
    states = {one["name"]: one["state"] for one in paints("list", "--format", "json").json}
    assert sorted(states.values()) == ["new", "unreadable"]
    assert "unreadable" in paints("list").out
    (damaged,) = [name for name, state in states.items() if state == "unreadable"]
    assert paints("status", "--study", damaged).code == 1
    assert paints("delete", damaged, "--yes").code == 0


def test_a_command_stays_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A narrow terminal breaks sentences between words, and no command, or its copy would be two commands."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    shown = Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    commands = [f"{start}surepick reopen --budget MORE --reason WHY --storage lab.db" for start in ("Next: ", "  ")]
    for text in (*commands, "This sentence is longer than forty columns are wide."):
        output.say(text)
    lines = shown.getvalue().splitlines()
    assert (lines[:2], len(lines)) == (commands, 4)


def test_a_recipe_is_read_without_doubt() -> None:
    """A comma in the name of a column separates no columns."""
    assert recipe_words({"temperature": 84.0, "supplier": "Brix"}) == "temperature 84, supplier Brix"
    assert recipe_words({"price": "12,40", "supplier": "Brix, Ltd"}) == "price 12,40, supplier 'Brix, Ltd'"
    assert recipe_words({"acid, %": 1.04, "supplier": "Brix"}) == "'acid, %' 1.04, supplier Brix"


def test_a_budget_that_is_spent(shell: Shell) -> None:
    """Then there is nothing to ask for, which is said with what to do, and `best` returns 3."""
    shell("create", "paints.csv", "--noise-std", "5", "--budget", "4")
    shell.measure()
    asked = shell("ask")
    assert asked.code == 0
    assert "the budget is spent" in asked.out
    assert "Next: surepick reopen --budget MORE" in asked.out
    best = shell("best")
    assert best.code == 3
    assert "Next: surepick reopen --budget MORE --reason WHY" in best.out
    assert "; the budget allows no more" in shell("status").out
    shell("report", "page.html")
    page = Path("page.html").read_text("utf-8")
    assert "The budget is spent." in page
    assert "surepick reopen --budget MORE --reason WHY" in page
    assert shell("reopen", "--budget", "9", "--reason", "more money").code == 0
    assert shell("ask", "--format", "json").json["asks"] != []


def test_plan_of_arms_and_of_a_study(paints: Shell) -> None:
    """With a file of arms `plan` is what it was; without, it says what is left of the study."""
    assert "pulls" in paints("plan", "paints.csv", "--gap", "0.2", "--noise-std", "0.05").out
    left = paints("plan")
    assert left.out.startswith("0 pulls so far. To be sure: more pulls, how many cannot be said yet.")


def test_a_study_file(shell: Shell, tmp_path: Path) -> None:
    """A study.toml says all that options say; a key with a typo, a wrong value or an option beside it are refused."""
    folder = tmp_path / "plans"
    folder.mkdir()
    file = folder / "gloss.toml"
    text = 'arms = "../paints.csv"\nnoise_std = 0.05\ndelta = 0.1\nm = 2\n'
    text += 'lease = "2h"\noption = { tracking = "current" }\n'
    for more, said in (
        ("epsilom = 0.1\n", "there is no key 'epsilom'; did you mean 'epsilon'?"),
        ("budget = 'much'\n", "budget: the value should be a valid number, got 'much'."),
        ("sphere = 3\n", "one set of arms is needed"),
    ):
        file.write_text(text + more)
        assert said in shell("create", "--file", "plans/gloss.toml").err
    file.write_text(text)
    assert (
        "--epsilon belongs into plans/gloss.toml"
        in shell("create", "--file", str(file.relative_to(tmp_path)), "--epsilon", "1").err
    )
    made = shell("create", "--file", "plans/gloss.toml")
    assert "Study gloss is in surepick.db: the 2 best arms, at a risk of 10 %" in made.out
    shell("export", "log.json")
    (created,) = json.loads((tmp_path / "log.json").read_text())["log"]
    event = json.loads(created["event"])
    assert (event["lease"], event["options"]["m"], event["options"]["own"]) == ("2h", 2, {"tracking": "current"})
    file.write_text("delta = 0.1\n")
    assert "must say which arms" in shell("create", "--file", "plans/gloss.toml").err


def test_keys_of_the_study_file_are_the_options() -> None:
    """Whatever `create` has as an option for the study is a key, and nothing else is."""
    from surepick.cli.options import LearnerOptions, SetOptions, TableOptions, option_names  # noqa: PLC0415
    from surepick.cli.studies.study_file import StudyFile  # noqa: PLC0415

    options = [name for group in (SetOptions, LearnerOptions, TableOptions) for name in option_names(group)]
    keys = {f"--{name.replace('_', '-')}" for name in StudyFile.model_fields}
    assert keys == {"--name", "--arms", "--lease", "--group-by", *options}


@pytest.mark.usefixtures("paints")
def test_watching_on_a_terminal(tmp_path: Path) -> None:
    """On a terminal the status is refreshed when a result comes from elsewhere; Ctrl-C ends it without complaint."""
    told: list[object] = []

    def tell(shown: str) -> None:
        if not told and "nothing is asked yet" in shown:
            with closing(open_storage(tmp_path / "surepick.db")) as storage:
                told.append(sp.load_study("paints", storage).tell(arm="E", value=0.9))

    watch = ("status", "--watch", "--every", "0.1")
    shown, code = in_terminal(tmp_path, *watch, keys=b"\x03", after="measuring", meanwhile=tell)
    assert told
    assert (code, "Traceback" in shown) == (0, False)


def test_watching_in_a_pipe(decided: Shell) -> None:
    """Elsewhere there is a line for every change, and the answer ends it."""
    done = decided("status", "--watch")
    assert done.code == 0
    assert done.out.startswith("E is the best of 5 arms")
    assert done.out.count("\n") == 1


def test_real_processes(tmp_path: Path) -> None:
    """From a shell of its own: results on standard output without control codes, nothing else, and completion."""
    (tmp_path / "paints.csv").write_text(PAINTS)

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-W", "error", "-m", "surepick", *words]
        given = {**os.environ, **variables}
        return subprocess.run(
            command, cwd=tmp_path, env=given, capture_output=True, text=True, timeout=LIMIT, check=False
        )

    assert run("create", "paints.csv", "--noise-std", "0.05").returncode == 0
    done = run("tell", "E", "-0.5")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("E = -0.5 (measurement 1, ")
    assert "\x1b" not in done.stdout
    asked = {"_SUREPICK_COMPLETE": "complete_bash", "COMP_WORDS": "surepick tell ", "COMP_CWORD": "2"}
    assert run(**asked).stdout.split() == list("ABCDE")


@pytest.mark.usefixtures("paints")
def test_completion_never_complains() -> None:
    """Names of studies are completed from the storage that is named before; one that is not there has none."""
    here: Any = SimpleNamespace(params={})
    assert (complete_studies(here, "pa"), complete_studies(here, "x")) == (["paints"], [])
    nowhere: Any = SimpleNamespace(params={"storage": "other.db"})
    assert complete_studies(nowhere, "") == complete_arms(nowhere, "") == []


def test_help_loads_no_mathematics() -> None:
    """The help is quick: neither numpy nor a database driver are loaded for it."""
    program = (
        "import sys, surepick.cli.main as cli; cli.main(['tell', '--help']); "
        "sys.exit(' '.join({'numpy', 'sqlite3', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.stderr.strip() == ""
    assert "--worker" in done.stdout


def test_hints_about_a_server_can_be_typed_and_show_no_password(
    shell: Shell, tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the address where it holds no password; else it belongs in the environment."""
    monkeypatch.chdir(tmp_path)
    Path("paints.csv").write_text(PAINTS)
    made = shell("create", "paints.csv", "--name", "open", "--storage", postgres_url)
    (hint,) = [line for line in made.out.splitlines() if line.startswith("Next: ")]
    assert shell(*shlex.split(hint.removeprefix("Next: surepick "))).code == 0
    secret = postgres_url.replace("postgres@", "postgres:s3cret@")
    for words in ("create paints.csv --name closed", "ask --study closed", "status --study open"):
        done = shell(*words.split(), "--storage", secret)
        assert done.code == 0
        assert "s3cret" not in done.out + done.err
    assert (
        "(with the address of the database in SUREPICK_STORAGE)"
        in shell("ask", "--study", "open", "--storage", secret).out
    )
    monkeypatch.setenv("SUREPICK_STORAGE", secret)
    done = shell("ask", "--study", "closed")
    assert "SUREPICK_STORAGE" not in done.out
    (hint,) = [line for line in done.out.splitlines() if line.startswith("Next: ")]
    assert shell(*shlex.split(hint.removeprefix("Next: surepick ").replace("VALUE", "0.5"))).code == 0
