"""The command line as a user meets it: pipes and a terminal.

Processes of their own where streams, exit codes, signals or a terminal are what is tested; `here` elsewhere.
"""

import csv
import io
import json
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import surepick
from surepick._files import lock
from surepick.cli import main as cli
from surepick.errors import StorageError
from surepick.learning.result import Result
from tests.cli.conftest import Here
from tests.cli.terminal import in_terminal
from tests.waiting import LIMIT

ARMS = "paint,gloss,drying\nA,1.0,0.2\nB,0.1,1.0\nC,0.7,0.7\nD,0.3,0.4\nE,0.9,0.9\n"
MEANS = {"A": 0.6, "B": 0.55, "C": 0.7, "D": 0.35, "E": 0.9}
"""What the paints pay: 0.5 gloss + 0.5 drying."""

# Noise of standard deviation about 0.03, a function of how often the command has run: the same in every test run.
MEASURE = f"""
import pathlib, sys
means = {MEANS}
count = pathlib.Path("count")
n = len(count.read_text()) if count.exists() else 0
count.write_text("x" * (n + 1))
print(means[sys.argv[1]] + 0.05 * (((n + 1) * 0.6180339887) % 1 - 0.5))
"""
COMMAND = f"{sys.executable} measure.py {{arm}}"
OWN = ("run", "--arms", "arms.csv", "--noise-std", "0.05")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with arms and a program that measures them."""
    (tmp_path / "arms.csv").write_text(ARMS)
    (tmp_path / "measure.py").write_text(MEASURE)
    return tmp_path


def surepick_in(folder: Path, *arguments: str, keys: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command line in a folder with its three streams as pipes."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "surepick", *arguments],
        cwd=folder,
        input=keys,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=LIMIT,
        check=False,
    )


def told_in(log: Path) -> list[float]:
    """The values that the study of a log has."""
    with surepick.load_study(storage=log) as study:
        return [one.last for one in study.measurements]


def one_line(text: str) -> bool:
    """Whether a text is a single line that says who speaks."""
    return text.startswith("surepick: ") and text.count("\n") == 1 and text.endswith("\n")


def test_version_and_help() -> None:
    """The version is the package's, and no command at all shows the help."""
    here = Path.cwd()
    assert surepick_in(here, "--version").stdout == f"surepick {surepick.__version__}\n"
    done = surepick_in(here)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Commands:" in done.stdout


def test_installed_script_is_the_same_program() -> None:
    """The script `surepick` beside the interpreter answers like `python -m surepick`."""
    script = Path(sys.executable).with_name("surepick")
    done = subprocess.run([str(script), "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"surepick {surepick.__version__}\n"


def test_demonstration_in_a_pipe(tmp_path: Path, here: Here) -> None:
    """One line per stage, the table against the paper, plots, no control codes, a next step; the same runs as JSON."""
    done = surepick_in(tmp_path, "run", "--runs", "2", "--jobs", "1", "--seed", "5")
    assert done.returncode == 0
    assert all(line.startswith("many-arms: ") for line in done.stderr.splitlines())  # progress, if it takes long
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0].startswith("problem: many arms (variant as-run), 1000 arms with 2 features")
    assert lines[1].startswith("one run: stopped after ")
    assert lines[2].startswith("many-arms: 30 runs in ")
    assert "2 runs for each K, arms redrawn in every run, seeds 5 to 9" in done.stdout
    row = next(line.split() for line in lines if line.split()[:1] == ["7500"])
    assert 59.0 < float(row[4]) < 60.0
    assert row[-4:] == ["448", "1434", "1598", "548"]
    assert "published means, different stopping constants" in done.stdout
    assert lines[-1].startswith("Next")
    assert (tmp_path / "out" / "many_arms.png").stat().st_size > 20_000
    assert (tmp_path / "out" / "many_arms.svg").stat().st_size > 10_000
    again = here(tmp_path, "run", "--runs", "2", "--seed", "5").stdout  # nothing is done twice
    assert again.splitlines()[2].startswith("many-arms: 0 runs in ")
    assert again.splitlines()[2].endswith(" s, 30 were there")
    assert again.splitlines()[3:] == lines[3:]
    report = json.loads(here(tmp_path, "run", "--runs", "2", "--seed", "5", "--format", "json").stdout)
    assert [row["n_arms"] for row in report["runs"]] == [1000, 2500, 5000, 7500, 10000]
    assert report["runs"][0]["published_table_1_mean"] == 1409.0
    assert report["runs"][4]["published_table_1_mean"] is None
    assert report["plots"] == ["out/many_arms.png", "out/many_arms.svg"]


def test_demonstration_for_programs(tmp_path: Path, here: Here) -> None:
    """CSV is alone on standard output; other delta, no published figures."""
    options = ("--runs", "2", "--jobs", "1", "--format", "csv", "--delta", "0.5", "--out", "figures")
    done = here(tmp_path, "run", *options)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["seed"] for row in rows] == ["0", "1", "2", "3", "4"]
    assert "published_table_1_mean" not in rows[0]
    assert done.stderr.startswith("problem: many arms")
    assert (tmp_path / "figures" / "many_arms.svg").exists()


def test_demonstration_on_a_terminal_is_live_and_can_be_interrupted(tmp_path: Path) -> None:
    """The view moves; Ctrl-C leaves a sentence about what was learnt, no traceback, and exit code 3."""
    shown, code = in_terminal(tmp_path, "run", "--runs", "1000", keys=b"\x03", after="many-arms")
    assert "Lazy Track-and-Stop, 1000 arms" in shown
    assert "confidence" in shown
    assert "one run: stopped after" in shown
    assert "interrupted; finished runs are in out/many-arms, the same command goes on from there" in shown
    assert "Traceback" not in shown
    assert code == 3


def test_report_of_a_run(folder: Path, here: Here) -> None:
    """The page has the command and the names of the features; where it cannot be written nothing is measured."""
    done = surepick_in(folder, *OWN, "--pull", COMMAND, "--report", "page.html", "--format", "json")
    assert (done.returncode, done.stderr.count("surepick:")) == (0, 0)
    told = json.loads(done.stdout)
    assert told["p_value"] <= 0.05
    assert told["feature_names"] == ["constant", "gloss", "drying"]
    page = (folder / "page.html").read_text("utf-8")
    assert "surepick run --arms" in page
    assert "--report page.html" in page
    assert "drying" in page
    refused = here(folder, *OWN, "--pull", COMMAND, "--report", "no/page.html")
    assert (refused.returncode, refused.stdout) == (2, "")


def test_own_arms_with_a_command(folder: Path) -> None:
    """The best paint is found and explained; the saved result can be loaded."""
    done = surepick_in(folder, *OWN, "--pull", COMMAND, "--save", "result.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert done.stdout.startswith("arms: 5 arms, 3 features, from arms.csv\n  constant    added: ")
    assert "\n  numbers     gloss, drying\n  names       column 'paint'\n" in done.stdout
    assert "E (arm 4) is the best of 5 arms" in done.stdout
    result = Result.load(folder / "result.json")
    assert (result.best_name, result.stopped, result.given_noise_std) == ("E", True, 0.05)
    assert result.n_pulls == len((folder / "count").read_text())


def test_a_command_that_always_says_the_same_is_no_evidence(folder: Path, here: Here) -> None:
    """Exit code 4, one warning that names a cache, and what to do."""
    (folder / "measure.py").write_text(f"import sys\nprint({MEANS}[sys.argv[1]] ** 1.2345)\n")
    done = here(folder, "run", "--arms", "arms.csv", "--pull", COMMAND, "--max-pulls", "40")
    assert done.returncode == 4
    assert done.stderr.count("warning: ") == 1
    assert "a cache may answer" in done.stderr
    assert "No answer can be defended" in done.stdout
    assert "Measure anew each time" in done.stdout


def test_a_messy_spreadsheet_is_announced_before_anything_is_measured(folder: Path, here: Here) -> None:
    """Roles, notes and equal arms come first; the table has one line for arms with the same features."""
    lines = ("Farbe;Glanz;Trocknung;Größe", "A;1,0;0,2;L", "B;0,1;1,0;l", "C;0,7;0,7;L", "D;0,3;0,4;l", "E;0,9;0,9;L")
    (folder / "messy.csv").write_text("\n".join([*lines, "E2;0,9;0,9;L"]), encoding="latin-1")
    (folder / "measure.py").write_text(MEASURE.replace("sys.argv[1]", "sys.argv[1][0]"))
    run = ("run", "--arms", "messy.csv", "--noise-std", "0,05", "--pull", COMMAND)
    done = here(folder, *run, "--drop", "Größe", "--interactions")
    assert done.returncode == 0, done.stderr
    recognised = "Latin-1 letters, semicolons between the columns"
    announced, _, rest = done.stdout.partition("\n\n")
    assert announced.splitlines() == [
        f"arms: 6 arms, 4 features, from messy.csv ({recognised}, decimal commas in Glanz, Trocknung)",
        "  constant    added: no combination of the columns is the same in every row",
        "  numbers     Glanz, Trocknung",
        "  products    Glanz:Trocknung",
        "  names       column 'Farbe'",
        "  dropped     Größe (as you said)",
        "  alike       E and E2 have the same features and cannot be told apart by this model.",
    ]
    assert "E and E2 have the same features and cannot be told apart by this model: the answer is either" in rest
    assert "E = E2" in rest
    short = here(folder, *run, "--formula", "Glanz + Größe", "--max-pulls", "1")
    assert "  categories  Größe: L (reference), l\n" in short.stdout
    assert "attention   Größe has the levels 'L' and 'l', which differ in case alone" in short.stdout


def test_noise_of_each_arm_from_a_column(folder: Path, here: Here) -> None:
    """It is no feature; a log belongs to it; without it levels are learnt."""
    lines = ARMS.splitlines()
    noisy = [f"{line},{value}" for line, value in zip(lines, ("loudness", 0.05, 0.1, 0.05, 0.1, 0.05), strict=True)]
    (folder / "arms.csv").write_text("\n".join(noisy))
    run = ("run", "--arms", "arms.csv", "--pull", COMMAND)
    done = here(folder, *run, "--noise-std", "loudness", "--log", "log.db", "--save", "result.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\n  numbers     gloss, drying\n" in done.stdout
    assert "\n  noise       loudness\n" in done.stdout
    result = Result.load(folder / "result.json")
    assert isinstance(result.given_noise_std, np.ndarray)
    assert (result.best_name, result.given_noise_std.tolist()) == ("E", [0.05, 0.1, 0.05, 0.1, 0.05])
    (folder / "arms.csv").write_text("\n".join(noisy).replace("0.1", "0.2"))
    assert here(folder, *run, "--noise-std", "loudness", "--log", "log.db").returncode == 2
    (folder / "arms.csv").write_text(ARMS)
    for noise in ("per-arm", "symmetric"):
        done = here(folder, *run, "--noise", noise, "--format", "json")
        assert json.loads(done.stdout)["best_name"] == "E"


def test_own_arms_for_programs(folder: Path, here: Here) -> None:
    """JSON has the whole result, CSV a line per arm; the sentences go to standard error."""
    done = here(folder, *OWN, "--pull", COMMAND, "--format", "json")
    report = json.loads(done.stdout)
    assert (report["best_name"], report["stopped"]) == ("E", True)
    assert report["explanation"].startswith("E (arm 4)")
    assert done.stderr.startswith("arms: 5 arms")
    (folder / "count").unlink()
    done = here(folder, *OWN, "--pull", COMMAND, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["name"] for row in rows] == list("ABCDE")
    assert next(row["name"] for row in rows if row["rank"] == "1") == "E"


def test_reaching_max_pulls_is_not_stopped(folder: Path, here: Here) -> None:
    """Exit code 3, exactly that many measurements, and what is known so far."""
    done = here(folder, *OWN, "--pull", COMMAND, "--max-pulls", "3")
    assert (done.returncode, done.stderr) == (3, "")
    assert len((folder / "count").read_text()) == 3
    assert "--log" in done.stdout.splitlines()[-1]


def test_failing_command_keeps_what_was_learnt(folder: Path) -> None:
    """Exit code 1, the command's own reason in one line, and the result of the pulls before."""
    failing = MEASURE.replace("count.write_text", "sys.exit('out of paint') if n == 4 else count.write_text")
    (folder / "measure.py").write_text(failing)
    done = surepick_in(folder, *OWN, "--pull", COMMAND, "--save", "result.json")
    assert done.returncode == 1
    assert one_line(done.stderr)
    assert "exit code 1: out of paint; the state after 4 pulls is above" in done.stderr
    assert "rank" in done.stdout
    assert Result.load(folder / "result.json").n_pulls == 4


@pytest.mark.parametrize("output", ["table", "json", "csv"])
def test_result_that_cannot_be_saved_is_still_printed(folder: Path, here: Here, output: str) -> None:
    """The folder of the result is removed meanwhile: the result is there, one line says why, exit code 1."""
    (folder / "kept").mkdir()
    (folder / "measure.py").write_text(MEASURE + "\nif n == 0: pathlib.Path('kept').rmdir()\n")
    done = here(folder, *OWN, "--pull", COMMAND, "--save", "kept/result.json", "--format", output)
    assert done.returncode == 1
    assert "E (arm 4) is the best" in done.stdout or ",E," in done.stdout
    assert "Saved to" not in done.stdout
    complaint = done.stderr.splitlines()[-1]
    assert complaint.startswith("surepick: the result above could not be saved to kept/result.json: ")


def test_interactive_entry(folder: Path) -> None:
    """Values come from the keyboard: wrong ones are asked for again, nothing skips, q stops with exit code 3."""
    done = surepick_in(folder, *OWN, keys="0.6\nmany\n1,500\n0,55\n\n0.8\nq\n")
    assert (done.returncode, done.stderr) == (3, "")
    assert "0,55 is read as 0.55." in done.stdout
    assert "'1,500' could be 1.500 or 1500; enter one" in done.stdout
    assert "'many' is no number" in done.stdout
    assert "measure A -> " in done.stdout
    assert "Interrupted after 3 pulls" in done.stdout
    assert "\x1b" not in done.stdout


def test_end_of_input_stops_like_q(folder: Path, here: Here) -> None:
    """A script that runs out of values gets what was learnt."""
    done = here(folder, *OWN, keys="0.6\n")
    assert done.returncode == 3
    assert "Interrupted after 1 pull" in done.stdout


def test_interactive_entry_until_decided(folder: Path) -> None:
    """Someone who answers every prompt with the true mean is told the best paint."""
    command = [sys.executable, "-m", "surepick", *OWN]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as session:
        assert session.stdin is not None
        assert session.stdout is not None
        shown = ""
        while letter := session.stdout.read(1):
            shown += letter
            if shown.endswith(" -> "):
                session.stdin.write(f"{MEANS[shown[-5]]}\n")
                session.stdin.flush()
    assert session.returncode == 0
    assert "E (arm 4) is the best of 5 arms" in shown
    assert shown.count("measure ") < 50


def test_prompt_on_a_terminal(folder: Path) -> None:
    """Each value is followed by where things stand."""
    shown, code = in_terminal(folder, *OWN, "--max-pulls", "1", keys=b"0.6\n", after="measure A -> ")
    assert code == 3
    assert "1 pull, no leader yet" in shown


def test_log_lets_a_session_go_on_where_it_was(folder: Path, here: Here) -> None:
    """Cut off after five pulls, the same command measures only the rest and ends like one that was never cut off."""
    whole = here(folder, *OWN, "--pull", COMMAND, "--format", "json")
    (folder / "count").unlink()
    first = here(folder, *OWN, "--pull", COMMAND, "--log", "log.db", "--max-pulls", "5")
    assert first.returncode == 3
    rest = here(folder, *OWN, "--pull", COMMAND, "--log", "log.db", "--format", "json")
    assert json.loads(rest.stdout) == json.loads(whole.stdout)
    assert len((folder / "count").read_text()) == json.loads(whole.stdout)["n_pulls"]
    other = here(folder, *OWN, "--pull", COMMAND, "--log", "log.db", "--delta", "0.05000001")
    assert other.returncode == 2
    assert one_line(other.stderr)


def test_a_run_is_a_study_that_other_commands_read(folder: Path, here: Here) -> None:
    """What a session left open is asked again, and it goes on with what other commands have told meanwhile."""
    slow = MEASURE.replace("count.write_text", "sys.exit('out of paint') if n == 3 else count.write_text")
    (folder / "measure.py").write_text(slow)
    run = (*OWN, "--pull", COMMAND, "--log", "log.db")
    assert here(folder, *run).returncode == 1
    status = json.loads(here(folder, "status", "--storage", "log.db", "--format", "json").stdout)
    assert (status["name"], status["n_pulls"], status["n_pending"]) == ("arms", 3, 1)
    (folder / "measure.py").write_text(MEASURE)
    assert here(folder, "tell", "C", "0.71", "--storage", "log.db").returncode == 0
    done = here(folder, *run, "--save", "result.json")
    assert done.returncode == 0
    assert "log: 3 measurements of log.db are taken over" in done.stdout
    assert Result.load(folder / "result.json").n_pulls == len((folder / "count").read_text()) + 1
    assert here(folder, "best", "--storage", "log.db").returncode == 0


def test_a_log_is_used_by_one_session_at_a_time(folder: Path, here: Here) -> None:
    """A second session would get the same asks; once the first has ended the file is free."""
    run = (*OWN, "--pull", COMMAND, "--log", "log.db", "--max-pulls", "2")
    assert here(folder, *run).returncode == 3
    with (folder / "log.db").open("rb") as file:
        assert lock(file.fileno())
        refused = here(folder, *run)
    assert (refused.returncode, "another session writes to log.db" in refused.stderr) == (2, True)
    assert here(folder, *run).returncode == 3


def test_a_csv_log_of_an_earlier_version_is_a_history(folder: Path, here: Here) -> None:
    """--log refuses it and says what to do; --history and `surepick import` read it, corrections included."""
    (folder / "log.csv").write_text("# surepick run\narm,reward,corrects\nA,6.0,\nB,0.55,\nC,,\nA,0.6,value 1\n")
    refused = here(folder, *OWN, "--log", "log.csv")
    assert refused.returncode == 2
    assert one_line(refused.stderr)
    assert "--log must be a study file such as log.db, got log.csv; pass a .csv log" in refused.stderr
    used = here(folder, *OWN, "--history", "log.csv", "--format", "json", keys="q\n")
    assert json.loads(used.stdout)["history"] == [[0, 0.6], [1, 0.55]]
    assert here(folder, "create", "arms.csv", "--noise-std", "0.05").returncode == 0
    for said in ("they guide the next asks", "they were told before"):
        done = here(folder, "import", "log.csv")
        assert (done.returncode, f"2 results of log.csv are in study arms; {said}" in done.stdout) == (0, True)
    told = json.loads(here(folder, "measurements", "--format", "json").stdout)
    assert [(one["name"], one["value"]) for one in told] == [("A", 0.6), ("B", 0.55)]


def test_history_is_used(folder: Path, here: Here) -> None:
    """Earlier measurements guide; said to be evidence they count, and here decide before anything is measured."""
    (folder / "history.csv").write_text("arm,reward\n" + 5 * "".join(f"{k},{v}\n" for k, v in MEANS.items()))
    command = [*OWN, "--pull", COMMAND, "--history", "history.csv", "--max-pulls", "2", "--format", "json"]
    report = json.loads(here(folder, *command).stdout)
    assert (report["n_pulls"], report["stopped"], report["earlier"]) == (27, False, "guidance")
    report = json.loads(here(folder, *command, "--earlier", "evidence").stdout)
    assert (report["n_pulls"], report["stopped"], report["earlier"]) == (25, True, "evidence")
    assert report["best_name"] == "E"


def test_a_log_keeps_its_history(folder: Path, here: Here) -> None:
    """The same history is told once; another one, or another role of it, is refused."""
    history = "arm,reward\n" + "".join(f"{k},{v}\n" for k, v in MEANS.items())
    (folder / "history.csv").write_text(history)
    command = [*OWN, "--pull", COMMAND, "--max-pulls", "2", "--log", "log.db", "--history", "history.csv"]
    for _ in range(2):
        done = here(folder, *command, "--format", "json")
        assert (done.returncode, json.loads(done.stdout)["n_pulls"]) == (3, 7)
    assert "no evidence" in done.stderr
    other = here(folder, *command, "--earlier", "evidence")
    assert (other.returncode, "(earlier='guidance' instead of earlier='evidence')" in other.stderr) == (2, True)
    (folder / "history.csv").write_text(history.replace("0.6", "0.7"))
    assert here(folder, *command).returncode == 2


def test_ctrl_c_during_a_measurement_keeps_what_was_learnt(folder: Path) -> None:
    """The live view ends, the result so far follows, and the exit code is 3."""
    slow = MEASURE + "\nimport time\nif n == 5: time.sleep(600)\n"
    (folder / "measure.py").write_text(slow)
    shown, code = in_terminal(folder, *OWN, "--pull", COMMAND, keys=b"\x03", after="5    ")
    assert code == 3
    assert "Interrupted after 5 pulls" in shown
    assert "Traceback" not in shown


def test_noise_that_is_too_large_is_reported(folder: Path, here: Here) -> None:
    """Rewards that scatter more than noise_std allows give a warning of one line on standard error."""
    (folder / "measure.py").write_text(MEASURE.replace("0.05 *", "5 *"))
    done = here(folder, *OWN[:-1], "0.001", "--pull", COMMAND, "--max-pulls", "40")
    assert done.stderr.startswith("surepick: warning: the rewards scatter")
    assert one_line(done.stderr)


def contents(folder: Path) -> dict[str, str]:
    """The text of every file; of what is none, that it is there."""
    return {path.name: path.read_text() if path.is_file() else "no file" for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run", "--bogus"], "(Possible options: --log, --out, --rounds); see surepick run --help"),
        (["report", "--out", "x.html"], "; write surepick report FILE.html; see surepick report --help"),
        (["export", "--outt", "x.csv"], "No such option: --outt; write surepick export FILE"),
        (["delete", "--name", "x"], "No such option: --name; write surepick delete NAME"),
        (["walk"], "No such command"),
        (["run", "--delta", "2"], "strictly between 0 and 1"),
        (["run", "--delta", "much"], "--delta"),
        (["run", "--format", "xml"], "--format"),
        (["run", "--runs", "1"], "runs"),
        (["run", "--pull", "x {arm}"], "--pull needs your arms"),
        (["run", "--out", "arms.csv"], "must be a folder"),
        (["run", "--arms", "none.csv"], "cannot read none.csv: No such file"),
        (["run", "--arms", "arms.csv", "--runs", "3"], "--runs belongs to the demonstration"),
        (["run", "--arms", "arms.csv", "--pull", "date"], "{arm} or {index}"),
        (["run", "--arms", "arms.csv", "--delta", "0"], "delta"),
        (["run", "--arms", "arms.csv", "--name-column", "colour"], "no column 'colour'"),
        (["run", "--arms", "arms.csv", "--drop", "gloss, dying"], "no column 'dying' (--drop); did you mean 'drying'?"),
        (["run", "--arms", "arms.csv", "--formula", "glos"], "did you mean 'gloss'?"),
        (
            ["run", "--arms", "arms.csv", "--formula", "gloss", "--quadratic"],
            "so --quadratic cannot go with it",
        ),
        (["run", "--arms", "arms.csv", "--formula", "gloss", "--no-constant"], "so --intercept cannot go"),
        (["run", "--sphere", "3", "--formula", "gloss"], "--formula belongs to a file of arms"),
        (["run", "--arms", "arms.csv", "--noise-std", "loudness"], "no column 'loudness'"),
        (["run", "--arms", "arms.csv", "--noise-std", "paint"], "column 'paint' must be a number in every row"),
        (["run", "--sphere", "3", "--noise-std", "loudness"], "must be a number beside --sphere"),
        (["run", "--arms", "arms.csv", "--save", "no/such/folder.json"], "there is no folder"),
        (["run", "--arms", "arms.csv", "--save", "arms.csv"], "--save and --arms name the same file"),
        (["run", "--arms", "arms.csv", "--save", "link.csv"], "--save and --arms name the same file"),
        (["run", "--arms", "link.csv", "--log", "./arms.csv"], "--log and --arms name the same file"),
        (["run", "--arms", "arms.csv", "--log", "new", "--save", "./new"], "--save and --log name the same file"),
        (["run", "--arms", "arms.csv", "--history", "h.csv", "--save", "h.csv"], "--save and --history name the same"),
        (["run", "--arms", "arms.csv", "--save", "."], "--save must name a regular file or a new one"),
        (["run", "--arms", "arms.csv", "--save", "pipe"], "--save must name a regular file or a new one"),
        (["run", "--arms", "arms.csv", "--log", "pipe"], "--log must name a regular file or a new one"),
        (["run", "--ellipsoid", "e.csv", "--save", "e.csv"], "--save and --ellipsoid name the same file"),
        (["run", "--binary"], "--binary needs your arms"),
        (["run", "--arms", "arms.csv", "--binary", "--noise-std", "1"], "--noise-std must be left out"),
        (["run", "--arms", "arms.csv", "--reward-range", "1", "0"], "lo < hi"),
        (["run", "--misfit", "0.1"], "--misfit needs your arms"),
        (["run", "--arms", "arms.csv", "--misfit", "-1"], "--misfit must be a distance of at least 0"),
        (["run", "--sphere", "3", "--misfit", "0.1"], "no proof for means that are not linear"),
        (["run", "--arms", "measure.py"], "measure.py"),
        (["run", "--arms", "arms.csv", "--history", "arms.csv"], "columns arm and reward"),
    ],
)
def test_misuse_is_one_line_and_exit_code_2(
    folder: Path,
    arguments: list[str],
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """What cannot be done is refused before anything is measured, and no file is changed."""
    monkeypatch.chdir(folder)
    (folder / "link.csv").symlink_to("arms.csv")
    os.mkfifo(folder / "pipe")
    (folder / "h.csv").write_text("arm,reward\nA,0.6\n")
    (folder / "e.csv").write_text("0.5,0.0\n1.0,0.0\n0.2,0.5\n")
    before = contents(folder)
    assert cli.main(arguments) == 2
    error = capfd.readouterr().err
    assert complaint in error
    assert one_line(error)
    assert contents(folder) == before


def test_without_its_packages_the_command_line_says_what_to_install() -> None:
    """A bare installation has no typer; one line says which extra brings it."""
    script = "import sys; sys.modules['typer'] = None; from surepick.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert one_line(done.stderr)
    assert "surepick[app]" in done.stderr


def test_ctrl_c_while_the_packages_load_is_quiet(tmp_path: Path) -> None:
    """The exit code of an interrupt and no traceback; a package that raises the signal stands for a slow one."""
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    for start in (["-m", "surepick"], ["-c", "from surepick.__main__ import main; main()"]):
        done = subprocess.run(
            [sys.executable, *start],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (3, "", "surepick: interrupted\n")


@pytest.mark.parametrize(("noise", "most"), [(OWN[3:], "1e+09 times --noise-std 0.05"), ((), "1e+120")])
def test_a_value_that_is_too_large_is_asked_for_again(
    folder: Path, here: Here, noise: tuple[str, ...], most: str
) -> None:
    """It reaches no log; a command that prints one has failed, and nothing that was measured before is lost."""
    done = here(folder, *OWN[:3], *noise, "--log", "log.db", keys="1.0\n1e308\n2.0\n1.5\nq\n")
    assert (done.returncode, done.stderr) == (3, "")
    assert f"not recorded: the value must be at most {most} in size, got 1e+308" in done.stdout
    assert told_in(folder / "log.db") == [1.0, 2.0, 1.5]
    (folder / "measure.py").write_text(MEASURE.replace("print(", "print('1e308') if n == 3 else print("))
    run = (*OWN[:3], *noise, "--pull", COMMAND, "--save", "result.json", "--log", "other.db")
    done = here(folder, *run)
    assert done.returncode == 1
    assert "the command printed 1e+308 for " in done.stderr
    assert "the state after 3 pulls is above" in done.stderr
    assert len(Result.load(folder / "result.json").history) == 3
    assert len(told_in(folder / "other.db")) == 3
    assert "Next: the same command with --log other.db goes on exactly here." in done.stdout


def test_a_log_that_cannot_be_written_is_said_with_the_value_it_lacks(
    folder: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk without room: no traceback, and the message has the value. None from the start: nothing is measured."""
    command = shlex.join([sys.executable, "-B", "-m", "surepick", *OWN, "--log", "log.db"])
    done = subprocess.run(
        ["bash", "-c", f"ulimit -f 0; {command}"],
        cwd=folder,
        input="1.25\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert one_line(done.stderr)
    assert "cannot open log.db" in done.stderr

    def full(*_: object, **__: object) -> None:
        raise StorageError("cannot write log.db: the disk is full.")

    monkeypatch.setattr(surepick.Study, "tell", full)
    said = here(folder, *OWN, "--log", "log.db", keys="1.25\n")
    assert said.returncode == 1
    assert "the disk is full; the last value, 1.25 for A, is not in the log; the state after 0" in said.stderr


def test_a_misfit_belongs_to_the_log(folder: Path, here: Here) -> None:
    """The log is of this misfit, and of no other."""
    own = ("run", "--arms", "arms.csv", "--pull", COMMAND, "--max-pulls", "9", "--log", "log.db")
    assert here(folder, *own, "--misfit", "0.1").returncode == 3
    done = here(folder, *own)
    assert done.returncode == 2
    assert "was written for other arms or options (misfit=0.1 instead of misfit=0.0)" in done.stderr


def test_bounds_of_rewards_are_asked_for_and_kept(folder: Path, here: Here) -> None:
    """A value outside is asked for again and reaches no log; a command that prints one has failed."""
    own = ("run", "--arms", "arms.csv")
    done = here(folder, *own, "--binary", "--log", "log.db", keys="2\n0.5\n1\n0\nq\n")
    assert done.returncode == 3
    assert done.stdout.count("not recorded: the value must be 0 or 1 (rewards are binary)") == 2
    assert told_in(folder / "log.db") == [1.0, 0.0]
    done = here(folder, *own, "--reward-range", "-1", "0.3", "--pull", COMMAND)
    assert done.returncode == 1
    assert "the value must be between -1 and 0.3 (the range)" in done.stderr
    done = here(folder, *own, "--reward-range", "0", "1", "--pull", COMMAND, "--max-pulls", "40")
    assert "rewards lie between 0 and 1" in done.stdout


def test_undo_asks_for_the_last_value_again(folder: Path, here: Here) -> None:
    """Also for the one before it; nothing entered keeps it. The log has both, and the same command goes on from it."""
    run = (*OWN, "--log", "log.db", "--save", "result.json")
    keys = "undo\n6\n0.55\nundo\nundo\nx\n0,6\nundo\n\n0.9\nq\n"
    code, out, _ = here(folder, *run, keys=keys)
    assert code == 3
    assert "There is no value to take back." in out
    assert "B again, instead of 0.55 -> A again, instead of 6 -> 'x' is no number; enter one, nothing to keep" in out
    assert "corrected: A is 0.6, not 6\n2 pulls, no leader yet\n" in out
    assert told_in(folder / "log.db") == [0.6, 0.55, 0.9]
    first = Result.load(folder / "result.json")
    assert [reward for _, reward in first.history] == [0.6, 0.55, 0.9]
    code, out, _ = here(folder, *run, keys="undo\n0.95\nq\n")
    assert "log: 3 measurements of log.db are taken over" in out
    assert "E again, instead of 0.9 -> corrected: E is 0.95, not 0.9" in out
    again = Result.load(folder / "result.json")
    assert again.history.log[:-2] == first.history.log
    assert again.history.log[-1] == ("correct", 2, 0.95, "undo")
    (folder / "log.csv").write_text("arm,reward,corrects\nA,0.6,\nA,0.6,value 9\n")
    code, _, err = here(folder, *OWN, "--history", "log.csv")
    assert code == 2
    assert "log.csv line 3: 'value 3' would correct the third value above, got 'value 9'" in err


def test_undo_where_a_rule_takes_no_corrections(folder: Path, here: Here) -> None:
    """That is said, and the session goes on."""
    run = (*OWN, "--algorithm", "explore-verify", "--option", "variant=paper")
    code, out, _ = here(folder, *run, keys="6\nundo\n0.6\nq\n")
    assert code == 3
    assert "not corrected: stopping=" in out


def test_the_value_that_decides_can_be_taken_back_on_a_terminal(folder: Path, here: Here) -> None:
    """Before anybody sees the verdict; the log has it."""
    run = (*OWN, "--log", "log.db", "--save", "result.json")
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.environ["TERM"] = "xterm-256color"
        os.execv(sys.executable, [sys.executable, "-m", "surepick", *run])
    shown = ""
    while "Next: --audit" not in shown and "Traceback" not in shown:
        shown += os.read(terminal, 65536).decode("utf-8", errors="replace")
        if shown.endswith("-> "):
            prompt = shown.splitlines()[-1]
            if "decides" in prompt:
                answer = "undo" if shown.count("decides") == 1 else ""
            else:
                answer = "0.62" if "instead of" in prompt else str(MEANS[prompt[-5]])
            os.write(terminal, f"{answer}\n".encode())
    os.close(terminal)
    os.waitpid(child, 0)
    assert "The last value decides. Enter accepts it, undo corrects it -> " in shown
    assert " is 0.62, not " in shown
    first = Result.load(folder / "result.json").history.log
    assert here(folder, *run).returncode == 0
    assert Result.load(folder / "result.json").history.log == first


def test_a_command_that_has_no_value_this_time_is_asked_again(folder: Path, here: Here) -> None:
    """Exit code 75 and no output are said in one line each, and end in the same answer."""
    busy = "count.write_text('x' * (n + 1))\nif n == 1: sys.exit(75)\nif n == 3: sys.exit()\nprint"
    (folder / "measure.py").write_text(MEASURE.replace('count.write_text("x" * (n + 1))\nprint', busy))
    run = (*OWN, "--pull", COMMAND, "--log", "log.db", "--report", "page.html")
    code, out, err = here(folder, *run)
    assert (code, err) == (0, "")
    assert out.count("skipped: ") == 2
    assert "skipped: B, asked for again later (exit code 75: it printed no reason)" in out
    assert "E (arm 4) is the best of 5 arms" in out
    assert "Next: --save result.json keeps this result.\n" in out
    with surepick.load_study(storage=folder / "log.db") as study:
        assert [event["reason"] for event in study.log if event["kind"] == "failed"] == ["skipped", "skipped"]


def test_a_near_tie_is_announced_now_and_then(folder: Path, here: Here) -> None:
    """Not after every pull: when it comes up, and when the pulls have doubled."""
    run = ("run", "--arms", "arms.csv", "--model", "unstructured", "--noise-std", "0.2", "--log", "log.db")
    tied = {name: 0.5 * (name in "AB") for name in MEANS}
    (folder / "measure.py").write_text(MEASURE.replace(str(MEANS), str(tied)))
    code, out, _ = here(folder, *run, "--pull", COMMAND, "--max-pulls", "90")
    assert code == 3
    said = [line for line in out.splitlines() if line.startswith("Near tie with ")]
    assert 1 <= len(said) <= 5
    assert all("with --epsilon " in line for line in said)
    assert "Next: the same command with --log log.db and a larger --max-pulls, or none, goes on exactly here." in out


def test_a_budget_that_is_spent_says_how_to_go_on(folder: Path, here: Here) -> None:
    """The log belongs to budget, m and algorithm; what differs is named, and the study can be reopened with more."""
    run = ("run", "--arms", "arms.csv", "--pull", COMMAND, "--log", "log.db", "--m", "2")
    code, out, _ = here(folder, *run, "--budget", "9")
    assert code == 3
    assert "Next: the budget is spent. To go on: surepick reopen --storage log.db --budget MORE --reason WHY" in out
    code, _, err = here(folder, *run, "--budget", "90")
    assert code == 2
    assert "(budget=9.0 instead of budget=90.0); use another --log, or surepick reopen to change the study" in err
    code, _, err = here(folder, *run[:-2], "--budget", "9", "--stopping", "evidence")
    assert code == 2
    assert "(m=2 stopping=None instead of m=1 stopping='evidence')" in err
    reopen = ("reopen", "--storage", "log.db", "--budget", "400", "--reason", "more paint")
    assert here(folder, *reopen).returncode == 0
    code, out, _ = here(folder, *run, "--budget", "400", "--format", "json")
    assert code == 0
    assert set(json.loads(out)["best"]) == {2, 4}
