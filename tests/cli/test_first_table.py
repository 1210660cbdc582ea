"""A first table as people have it: old results beside the recipes, a slip in a mixture, and numbers mistaken."""

import json
from pathlib import Path

import pytest

import surepick as sp
from tests.cli.conftest import Here

MIX = "Sample;Resin;Hardener;Filler;Hardness [Shore D];Note\n" + "".join(
    f"M-{n};{40 + 3 * n};{30 - 2 * n};{30 - n + 5 * (n == 4)};{60 + n * n % 5},5;{'cloudy' if n == 2 else ''}\n"
    for n in range(1, 8)
)
DROP = ("--drop", "Hardness [Shore D]", "--noise-std", "0,5")


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """Return a folder with the table."""
    (tmp_path / "mix.csv").write_text(MIX, encoding="utf-8")
    return tmp_path


def test_columns_of_results_and_slips_in_mixtures_are_pointed_out(here: Here, lab: Path) -> None:
    """Only where they are features; a mixture without a slip is not mentioned."""
    said = here(lab, "create", "mix.csv", "--name", "a").stdout
    assert "Hardness [Shore D] reads like a result" in said
    assert "--drop 'Hardness [Shore D]'" in said
    assert "add up to 100 in 6 of 7 rows, but to 105 in line 5" in said
    dropped = sp.read_arms(lab / "mix.csv", drop="Hardness [Shore D]").roles.attention
    assert not any("reads like a result" in text for text in dropped)
    (lab / "mix.csv").write_text(MIX.replace(";31;", ";26;"), encoding="utf-8")
    whole = sp.read_arms(lab / "mix.csv", drop="Hardness [Shore D]", features=None, on_span=True).roles.attention
    assert not any("add up" in text for text in whole)


def test_a_dropped_column_of_results_is_shown_to_no_bench_and_can_be_imported(here: Here, lab: Path) -> None:
    """Text stays, as a note; results are imported by the names of their columns."""
    here(lab, "create", "mix.csv", *DROP)
    unnamed = here(lab, "import", "mix.csv")
    assert unnamed.returncode == 2
    assert "--option-column and --value-column" in unnamed.stderr
    named = ("--option-column", "Sample", "--value-column", "Hardness [Shore D]")
    assert "7 results of mix.csv" in here(lab, "import", "mix.csv", *named).stdout
    wrong = here(lab, "import", "mix.csv", "--value-column", "Hardness [Shor D]")
    assert "did you mean 'Hardness [Shore D]'" in wrong.stderr
    asks = json.loads(here(lab, "ask", "-n", "7", "--format", "json").stdout)["asks"]
    assert {*asks[0]["recipe"]} == {"Resin", "Hardener", "Filler", "Note"}


def test_a_sheet_with_values_in_another_column_is_no_success(here: Here, lab: Path) -> None:
    """An untouched sheet is one; nothing is recorded from either."""
    here(lab, "create", "mix.csv", *DROP)
    here(lab, "ask", "-n", "2", "--output", "asks.csv")
    assert here(lab, "tell", "--file", "asks.csv").returncode == 0
    sheet = lab / "asks.csv"
    titles, first, *rest = sheet.read_text(encoding="utf-8").splitlines()
    cells = first.split(",")
    cells[titles.split(",").index("Note")] = "66.4"
    sheet.write_text("\n".join([titles, ",".join(cells), *rest]), encoding="utf-8")
    told = here(lab, "tell", "--file", "asks.csv")
    assert told.returncode == 2
    assert "no value in the column value" in told.stderr
    assert "Note" in told.stderr


def test_a_correction_by_the_number_of_an_ask_is_pointed_out(here: Here, lab: Path) -> None:
    """The sentence names the measurement of that ask, and the command that undoes the change."""
    here(lab, "create", "mix.csv", *DROP)
    here(lab, "import", "mix.csv", "--option-column", "Sample", "--value-column", "Hardness [Shore D]")
    here(lab, "ask", "-n", "2")
    here(lab, "tell", "1", "61")
    said = here(lab, "correct", "1", "66,4", "--reason", "typo").stdout
    assert "Measurement 1 of M-1 is 66.4, not 61.5; it was not asked for." in said
    assert "If you meant ask 1: its result is measurement 8" in said
    assert "surepick correct 1 61.5 --reason wrong-number" in said
    assert "If you meant" not in here(lab, "correct", "8", "66,4", "--reason", "typo").stdout


def test_what_waits_names_the_command_and_a_lost_ask_wants_a_reason(here: Here, lab: Path) -> None:
    """`verify` then mentions corrections, and says which file is which."""
    here(lab, "create", "mix.csv", *DROP)
    here(lab, "ask", "-n", "40")
    for ask in range(2, 41):
        here(lab, "tell", str(ask), str(60 + ask % 3))
    here(lab, "correct", "3", "60,5", "--reason", "typo")
    assert "(surepick fail 1)" in here(lab, "status").stdout
    assert "The log has no reason" in here(lab, "fail", "1").stdout
    here(lab, "certificate", "--out", "c.json")
    here(lab, "export", "log.csv")
    assert "measurement 3 (corrected: typo)" in here(lab, "verify", "c.json", "--log", "log.csv").stdout
    swapped = here(lab, "verify", "log.csv", "--log", "c.json").stderr
    assert "surepick verify CERTIFICATE.json --log LOG.csv" in swapped
    (lab / "c.json").write_text((lab / "c.json").read_text(encoding="utf-8").replace("is linear", "is bent"))
    tampered = here(lab, "verify", "c.json", "--log", "log.csv").stdout
    assert "assumptions: the certificate has other entries than the log.\n" in tampered


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--delta", "0,05"), "--delta must be a number with a decimal point, such as 0.05, got '0,05'"),
        (("--epsilon=5%",), "--epsilon must be a number with a decimal point, such as 0.05, got '5%'"),
        (("--m", "1.5"), "--m must be a whole number, got '1.5'"),
        (("--noise", "lognormal"), "--noise must be one of 'same', 'per-arm'"),
    ],
)
def test_options_are_refused_in_words(here: Here, lab: Path, given: tuple[str, ...], said: str) -> None:
    """What was needed, and what came."""
    assert said in here(lab, "create", "mix.csv", *given).stderr


def test_paths_and_names_that_are_taken_say_what_to_write(here: Here, lab: Path) -> None:
    """In Python, too."""
    (lab / "bench.py").write_text("print(1)\n")
    assert "bench.py is not a table" in here(lab, "create", "bench.py").stderr
    with pytest.raises(sp.InvalidInput, match=r"sp\.read_arms\('mix\.csv'\)"):
        sp.create_study("a", arms="mix.csv", storage="memory:")
    here(lab, "create", "mix.csv", *DROP)
    arms = sp.read_arms(lab / "mix.csv", drop="Hardness [Shore D]")
    with pytest.raises(sp.errors.StudyExists, match="load_if_exists=True"):
        sp.create_study("mix", arms=arms, storage=lab / "surepick.db")
