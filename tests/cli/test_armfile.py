import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from surepick.arms.mapped import MappedArms
from surepick.cli import arm_files as armfile
from surepick.cli.arm_files import ArmFile, arm_file, read_history
from surepick.cli.output import print_roles
from surepick.errors import InvalidInput
from tests.excel import excel


def read(folder: Path, text: str) -> ArmFile:
    """Arms from the text of a CSV file."""
    path = folder / "arms.csv"
    path.write_text(text, encoding="utf-8")
    return arm_file(path)


def test_arms_are_found_by_name_or_by_row_number(tmp_path: Path) -> None:
    """Row numbers stand for the arms where there are no names, in history too."""
    assert read(tmp_path, "id,u,v\n7,1,0\n9,0,1\n").arm("9") == 1
    file = read(tmp_path, "u,v\n1,0\n0,1\n")
    assert file.arms.names is None
    assert file.arm("1") == 1
    with pytest.raises(InvalidInput, match="row number from 0 to 1"):
        file.arm("2")


def test_a_large_file_is_read_in_pieces_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would need the whole file is refused by the name of its option."""
    monkeypatch.setattr(armfile, "LARGE_FILE", 10)
    np.save(tmp_path / "arms.npy", np.eye(3))
    file = arm_file(tmp_path / "arms.npy", on_span=False, drop=None)
    assert isinstance(file.arms, MappedArms)
    assert "numbers     x0, x1, x2" in file.describe("linear")
    for option, reading in (("--on-span", {"on_span": True}), ("--noise-std NAME", {"noise_column": "x"})):
        with pytest.raises(InvalidInput, match=f"{option} needs a smaller file"):
            arm_file(tmp_path / "arms.npy", **reading)


def test_equal_features_do_not_matter_without_a_model(tmp_path: Path) -> None:
    """One mean per arm tells all arms apart."""
    file = read(tmp_path, "name,u\nA,1\nB,2\nC,2\n")
    assert "B and C have the same features" in file.describe("linear")
    assert "same features" not in file.describe("unstructured")


def test_history_names_arms_and_skips_failed_measurements(tmp_path: Path) -> None:
    """Pairs come in order; a line without a reward was a failed measurement; comments above the header are skipped."""
    file = read(tmp_path, "name,u,v\nA,1,0\nB,0,1\n")
    path = tmp_path / "history.csv"
    path.write_text("# of last week\nwhen,arm,reward\nmon,B,0.5\ntue,A,\nwed,A,-1\n")
    assert read_history(path, file.arm) == [(1, 0.5), (0, -1.0)]
    path.write_text("arm;reward\nB;0,5\n")
    assert read_history(path, file.arm) == [(1, 0.5)]
    path.write_text("arm,reward\nB,high\n")
    with pytest.raises(InvalidInput, match="line 2: the reward must be a number"):
        read_history(path, file.arm)
    path.write_text("arm,reward\nZ,1\n")
    with pytest.raises(InvalidInput, match=r"history.csv line 2: 'Z' is not the name of an arm"):
        read_history(path, file.arm)
    path.write_text("arm,gloss,drying\nB,1,2\n")
    with pytest.raises(InvalidInput, match="columns arm and reward, or just two columns, got arm, gloss, drying"):
        read_history(path, file.arm)


def test_history_of_other_titles_is_read_as_noise_reads_it(tmp_path: Path) -> None:
    """Two columns have any titles; of more, the titles that `surepick noise` knows count, arm and reward before all."""
    file = read(tmp_path, "name,u,v\nA,1,0\nB,0,1\n")
    path = tmp_path / "history.csv"
    for text in ("Mischung;MPa\nB;0,5\n", "Note,Value,Option\nx,0.5,B\n", "id,value,arm,reward\n7,8,B,0.5\n"):
        path.write_text(text)
        assert read_history(path, file.arm) == [(1, 0.5)]
    sheet = tmp_path / "history.xlsx"
    sheet.write_bytes(excel(Tabelle1=[["Mischung", "MPa"], ["B", 0.5], ["A", None], ["A", 2]]))
    assert read_history(sheet, file.arm) == [(1, 0.5), (0, 2.0)]


def test_roles_of_columns_are_broken_between_words_on_a_terminal() -> None:
    """And go on below the entry; a pipe gets whole lines."""
    text = "arms: 3 arms\n  attention   " + "Not used as features: price. " * 5
    shown = io.StringIO()
    print_roles(Console(file=shown, force_terminal=True, no_color=True, width=60, highlight=False), text)
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= 60
    assert [len(line) - len(line.lstrip()) for line in lines] == [0, 2] + [14] * (len(lines) - 2)
    assert " ".join(" ".join(lines).split()) == " ".join(text.split())
    whole = io.StringIO()
    print_roles(Console(file=whole, width=60, highlight=False), text)
    assert whole.getvalue().splitlines()[1] == text.splitlines()[1]
