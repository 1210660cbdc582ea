"""Names and the like of strangers neither steer a terminal nor compute in a spreadsheet."""

import csv
import io
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import surepick as sp
from surepick._files import file_name
from surepick._texts import control_in, safe_cell, shown, told_cell
from surepick.cli.main import main
from surepick.errors import InvalidInput
from surepick.study.events import Row, canonical, rows_of
from surepick.study.exchange import import_results
from surepick.study.storage import open_storage
from tests.cli.conftest import Here
from tests.cli.terminal import in_terminal

PAINTED = "\x1b[2J\x1b[H\r\nAll of it follows from the log. \x1b[8m"
"""Clears the screen, writes a sentence, and hides what follows."""
HOSTILE = {"A": f"A{PAINTED}", "B": "[red]B[/red]", "C": "C\u202egnp.\x9b31m", "D": "D\u200b\u2028"}
FORMULAS = ("=1+2", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "'=1+2", "''=x", "'plain", "-5", "\uff1d1", "1e5", "a,b")
ROWS = [[1.0, 0.0], [0.0, 1.0], [0.7, 0.7], [1.0, 1.0]]


def _replaced(value: Any) -> Any:
    if isinstance(value, dict):
        return {_replaced(key): _replaced(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_replaced(entry) for entry in value]
    return HOSTILE.get(value, value) if isinstance(value, str) else value


def hostile_rows(study: sp.Study) -> list[Row]:
    """The log as another program, or an earlier version, may have written it."""
    return rows_of([canonical(_replaced(json.loads(row.text))) for row in study.rows()])


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A folder with a database in which names, authors and reasons hold control characters."""
    with closing(open_storage(tmp_path / "surepick.db")) as storage:
        study = sp.create_study(
            "clean", arms=sp.FiniteArms(ROWS, names=list("ABCD")), noise_std=1.0, storage=storage, author="A"
        )
        for ask in study.ask(2, worker="C"):
            study.tell(ask, 0.5, worker="C")
        study.void(1, reason="A", worker="D")
        study.ask(3, worker="B")
        rows = hostile_rows(study)
        storage.create("paints", rows)
        storage.delete("clean")
    return tmp_path


def _visible(text: str) -> None:
    assert control_in(text.replace("\n", "")) is None, text
    assert not any(line.startswith("All of it follows") for line in text.splitlines())


@pytest.mark.parametrize("output", ["table", "json"])
@pytest.mark.parametrize(
    "command", ["status", "best", "pending", "measurements", "ask -n 4", "list", "tell [red]B[/red] 0.5", "plan"]
)
def test_names_in_a_database_are_shown_and_never_obeyed(here: Here, old: Path, command: str, output: str) -> None:
    """Control characters become codes, also in JSON; markup of rich is shown as it is."""
    said = here(old, *command.split(), "--format", output)
    _visible(said.stdout + said.stderr)
    assert said.returncode in (0, 3)


def test_a_name_stays_in_its_sentence(here: Here, old: Path) -> None:
    """A line end in a name begins no line."""
    said = here(old, "tell", HOSTILE["A"], "0.5", "--worker", "w")
    assert said.stdout.startswith(r"A\x1b[2J\x1b[H\r\nAll of it follows from the log. \x1b[8m = 0.5 (measurement 3")
    _visible(said.stdout)


def test_errors_show_names_too(here: Here, old: Path) -> None:
    """A name of the arguments or of the database stays on the line of the error."""
    for words in (["tell", f"A{PAINTED}!", "1"], ["tell", "[red]B", "1"], ["status", "--storage", f"x{PAINTED}.db"]):
        said = here(old, *words)
        _visible(said.stderr)
        assert (said.returncode, said.stderr.count("\n")) == (2, 1)
    assert "did you mean '[red]B[/red]'?" in here(old, "tell", "[red]B", "1").stderr


def test_a_certificate_that_fails_cannot_say_that_it_holds(here: Here, old: Path) -> None:
    """On a terminal, where the code would be obeyed: it is printed, and the last words are those of the verifier."""
    assert here(old, "certificate", "--out", "c.json").returncode == 3
    assert here(old, "export", "log.csv").returncode == 0
    wrong = json.loads((old / "c.json").read_text(encoding="utf-8"))
    wrong["name"] = f"x{PAINTED}"
    (old / "c.json").write_text(json.dumps(wrong), encoding="utf-8")
    text, code = in_terminal(old, "verify", "c.json", "--log", "log.csv")
    assert code == 1
    _visible(text.replace("\r", ""))
    assert text.rstrip().endswith("Do not rely on this certificate with this log.")


def test_new_names_are_lines_of_text(here: Here, tmp_path: Path) -> None:
    """Arms, features, studies, authors: a control character is refused by name, wherever it is."""
    for bad in ("x\x1b[2J", "x\ny", "x\u202ey", "x\u200by", "x\x9by"):
        arms = sp.FiniteArms(ROWS, names=["A", "B", "C", bad])
        with pytest.raises(InvalidInput, match="the name of an arm must be a line of text"):
            sp.create_study("s", arms=arms, storage="memory:")
        with pytest.raises(InvalidInput, match="the name of a study must be a line of text"):
            sp.create_study(bad, arms=ROWS, storage="memory:")
        with pytest.raises(InvalidInput, match="the name of an author must be a line of text"):
            sp.create_study("s", arms=ROWS, author=bad, storage="memory:")
        study = sp.create_study("s", arms=sp.FiniteArms(ROWS, names=list("ABCD")), storage="memory:")
        with pytest.raises(InvalidInput, match="the name of an arm must be a line of text"):
            study.reopen(reason="more", join={bad: [0.5, 0.2]})
        with pytest.raises(InvalidInput, match="must be a line of text"):
            sp.read_arms({"name": ["A", "B", bad], "x": [1.0, 2.0, 4.0]})
        with pytest.raises(InvalidInput, match="the name of a feature must be a line of text"):
            sp.read_arms({"kind": ["a", "b", bad, "a", "b", bad], "x": [1.0, 2.0, 4.0, 5.0, 6.0, 3.0]})
    (tmp_path / "arms.csv").write_text("name,x\nA,1\nB\x1b[31m,2\n", encoding="utf-8")
    said = here(tmp_path, "create", "arms.csv")
    assert said.returncode == 2
    assert "line 3: a name must be a line of text" in said.stderr


def test_a_study_file_cannot_run_a_program(here: Here, tmp_path: Path) -> None:
    """A formula in a study.toml is read, and not run."""
    (tmp_path / "arms.csv").write_text("name,x\nA,1\nB,2\nC,4\n", encoding="utf-8")
    code = f"__import__('os').system('touch {tmp_path / 'made'}')"
    (tmp_path / "study.toml").write_text(f'arms = "arms.csv"\nformula = "x + I({code})"\n', encoding="utf-8")
    said = here(tmp_path, "create", "--file", "study.toml")
    assert said.returncode == 2
    assert "is not a function that a formula may call" in said.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["arms.csv", "study.toml"]


def test_cells_come_back_as_they_were() -> None:
    """An apostrophe goes in front of what a spreadsheet would compute, and comes off again."""
    for name in FORMULAS:
        cell = safe_cell(name)
        assert told_cell(cell) == name
        assert cell[0] not in "=+@-\uff1d" or name == "-5"
    assert safe_cell("-0.6,1e-3") == "-0.6,1e-3"
    assert shown("\u200d\xa0ü") == "\u200d\xa0ü"


def test_exports_hold_no_formulas_and_give_the_same_names_back(tmp_path: Path) -> None:
    """Of measurements, in CSV and as `--format csv`; what is imported from the file is what was told."""
    rows = [[float(place == row) for place in range(len(FORMULAS))] for row in range(len(FORMULAS))]
    arms = sp.FiniteArms(rows, names=FORMULAS)
    study = sp.create_study("formulas", arms=arms, noise_std=1.0, storage=tmp_path / "s.db", author="=cmd")
    study.tell_earlier([(name, float(n)) for n, name in enumerate(FORMULAS)], worker="@worker")
    path = study.export("csv", tmp_path / "m.csv", what="measurements")
    cells = [cell for row in csv.reader(io.StringIO(path.read_text(encoding="utf-8"))) for cell in row]
    assert not [cell for cell in cells if cell[:1] in ("=", "+", "-", "@", "\uff1d") and cell != "-5"]
    other = sp.create_study("again", arms=arms, noise_std=1.0, storage="memory:")
    import_results(other, path)
    assert [(one.arm, one.value) for one in other.measurements] == [(one.arm, one.value) for one in study.measurements]


def test_csv_of_the_command_line_holds_no_formulas(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--format csv` has the apostrophe, and so has an export of the run, which is a history for another one."""
    monkeypatch.chdir(tmp_path)
    Path("arms.csv").write_text("name,x\n=1+2,1\n@b,2\nc,4\n", encoding="utf-8")
    run = ["run", "--arms", "arms.csv", "--pull", "sh -c 'echo 0.$1' x {index}", "--noise-std", "0.1"]
    assert main([*run, "--max-pulls", "4", "--log", "log.db", "--format", "csv"]) in (0, 3)
    out = capsys.readouterr().out
    assert "'=1+2" in out
    assert not [line for line in out.splitlines() if line.startswith(("=", "@")) or ",=" in line or ",@" in line]
    Path("old.csv").write_text("arm,reward\n'=1+2,0.1\n'@b,0.2\n", encoding="utf-8")
    assert main([*run, "--history", "old.csv", "--max-pulls", "4"]) in (0, 3)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in a folder, to see what is written where."""
    inner = tmp_path / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    return inner


@pytest.mark.parametrize(
    "name", ["../up", "/etc/x", "..", "a/b", "a\\b", "CON", "nul.txt", ".hidden", "\U0001f600" * 200, "ü b"]
)
def test_a_study_is_exported_into_this_folder(elsewhere: Path, name: str) -> None:
    """Whatever the study is called, the file of `export` is a plain one here."""
    study = sp.create_study(name, arms=ROWS, storage="memory:")
    path = study.export("csv")
    assert [one.name for one in elsewhere.iterdir()] == [path.name]
    assert [one.name for one in elsewhere.parent.iterdir()] == ["inner"]
    assert not path.name.startswith(".")
    assert path.stem.split(".")[0].upper() not in ("CON", "NUL")
    assert (path.name == f"{name}-log.csv") is (name == "ü b")


def test_different_names_make_different_files() -> None:
    """What is replaced is told apart by a hash."""
    names = ["a/b", "a\\b", "a_b", "a:b", "..", ".", "/", "NUL", "nul"]
    assert len({file_name(name).lower() for name in names}) == len(names)


@pytest.fixture
def bench(here: Here, tmp_path: Path) -> Path:
    """A folder with a study of three paints."""
    (tmp_path / "paints.csv").write_text("name,x,y\nA,1,0\nB,0,1\nC,1,1\n", encoding="utf-8")
    assert here(tmp_path, "create", "paints.csv", "--noise-std", "0.1").returncode == 0
    return tmp_path


def _measured(here: Here, folder: Path) -> list[Any]:
    records: list[Any] = json.loads(here(folder, "measurements", "--format", "json").stdout)
    return [(one["name"], one["told"]) for one in records]


def test_a_result_that_is_sent_twice_counts_once(here: Here, bench: Path) -> None:
    """By its ask, by its key, and of an arm unless --yes says that it is a further one."""
    here(bench, "ask", "--worker", "w")
    name = json.loads(here(bench, "pending", "--format", "json").stdout)[0]["name"]
    for _ in range(2):
        assert here(bench, "tell", "1", "0.83", "--worker", "w").returncode == 0
    assert "was told before: nothing changed" in here(bench, "tell", "1", "0.83", "--worker", "w").stdout
    assert _measured(here, bench) == [(name, 0.83)]
    # The same by the name of the arm: the ask is answered, and it is no longer open.
    again = here(bench, "tell", name, "0.83", "--worker", "w")
    assert again.returncode == 2
    for word in (f"w told {name} = 0.83 already", "(measurement 1)", "--yes", "--key"):
        assert word in again.stderr
    assert here(bench, "tell", name, "0.83", "--worker", "other").returncode == 0
    assert here(bench, "tell", name, "0.84", "--worker", "w").returncode == 0
    assert here(bench, "tell", name, "0.84", "--worker", "w", "--yes").returncode == 0
    for _ in range(2):
        assert here(bench, "tell", "A", "0.5", "0.6", "--key", "plate 7", "--worker", "w").returncode == 0
    assert [value for _, value in _measured(here, bench)] == [0.83, 0.83, 0.84, 0.84, 0.5, 0.6]
    assert here(bench, "tell", "A", "0.7", "--key", "plate 7").returncode == 2


def test_a_person_is_asked_whether_a_result_is_a_further_one(here: Here, bench: Path) -> None:
    """On a terminal: no is the default, and leaves all as it was."""
    assert here(bench, "tell", "A", "0.5", "--worker", "w").returncode == 0
    tell = ("tell", "A", "0.5", "--worker", "w")
    text, code = in_terminal(bench, *tell, keys=b"\n", after="[y/N]")
    assert (code, "Nothing is recorded again." in text) == (0, True)
    assert len(_measured(here, bench)) == 1
    _, code = in_terminal(bench, *tell, keys=b"y\n", after="[y/N]")
    assert (code, len(_measured(here, bench))) == (0, 2)


def test_the_password_of_a_key_is_asked_for_or_in_the_environment(
    here: Here, bench: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never an option, which others could see; where it cannot be asked for, the sentence names the variable."""
    secret = serialization.BestAvailableEncryption(b"open sesame")
    pem, pkcs = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (bench / "key.pem").write_bytes(Ed25519PrivateKey.generate().private_bytes(pem, pkcs, secret))
    command = ("certificate", "--out", "c.json", "--sign", "key.pem")
    said = here(bench, *command)
    assert (said.returncode, "set SUREPICK_KEY_PASSWORD" in said.stderr) == (2, True)
    monkeypatch.setenv("SUREPICK_KEY_PASSWORD", "wrong")
    assert "cannot be opened with this password" in here(bench, *command).stderr
    assert not (bench / "c.json").exists()
    monkeypatch.setenv("SUREPICK_KEY_PASSWORD", "open sesame")
    assert here(bench, *command).returncode == 3
    monkeypatch.delenv("SUREPICK_KEY_PASSWORD")
    text, code = in_terminal(bench, *command, keys=b"open sesame\n", after="Password of key.pem:")
    assert (code, "open sesame" in text) == (3, False)
    assert "signature" in json.loads((bench / "c.json").read_text(encoding="utf-8"))


def test_a_log_that_asks_for_much_is_checked_with_trust(here: Here, tmp_path: Path) -> None:
    """`surepick verify` names the flag, and does the work with it."""
    assert here(tmp_path, "create", "--hypercube", "501", "--name", "cube", "--noise-std", "1").returncode == 0
    assert here(tmp_path, "certificate", "--out", "c.json").returncode == 3
    assert here(tmp_path, "export", "log.csv").returncode == 0
    refused = here(tmp_path, "verify", "c.json", "--log", "log.csv")
    assert (refused.returncode, "with 501 dimensions" in refused.stdout) == (1, True)
    assert "--trust does it" in refused.stdout
    assert here(tmp_path, "verify", "c.json", "--log", "log.csv", "--trust").returncode == 0
