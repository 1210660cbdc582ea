"""Tables column by column: guesses are those of `read_arms`, and chosen roles hold."""

from pathlib import Path

import pytest

import surepick as sp
from surepick.arms.registry import write_arms
from surepick.arms.tables.by_role import column_roles, read_by_role, table_of_upload

TABLE = """\
id;Name;T;Solvent;Price;Noise
1;a;80,5;W;1,5;0,1
2;b;85,0;E;2,5;0,2
3;c;90,5;W;1,0;0,1
4;d;95,0;E;3,0;0,3
5;e;99,0;W;1,2;0,1
"""


def test_guesses_are_those_of_read_arms(tmp_path: Path) -> None:
    """The arms are the same, whether a person confirms the guesses or never looks at them."""
    path = tmp_path / "t.csv"
    path.write_text("\n".join(line.partition(";")[2] for line in TABLE.splitlines()), encoding="utf-8")
    table = table_of_upload("t.csv", path.read_bytes())
    columns = column_roles(table)
    assert [one.role for one in columns] == ["name", "number", "category", "out", "number"]
    assert columns[3].why == "looks like a price"
    assert columns[1].examples == "80,5 · 85,0 · 90,5 · ..."
    assert write_arms(read_by_role(table, columns)) == write_arms(sp.read_arms(path))


def test_chosen_roles_hold(tmp_path: Path) -> None:
    """Names, noise and costs are no features; numbers can be categories; a text cannot be a number."""
    path = tmp_path / "t.csv"
    path.write_text(TABLE, encoding="utf-8")
    table = table_of_upload("t.csv", path.read_bytes())
    chosen = ["out", "name", "number", "number", "cost", "noise"]
    columns = column_roles(table, chosen)
    assert [one.role for one in columns] == ["out", "name", "number", "category", "cost", "noise"]
    arms = read_by_role(table, columns)
    same = sp.read_arms(path, name_column="Name", drop="id", cost_column="Price", noise_column="Noise")
    assert write_arms(arms) == write_arms(same)
    for mine, other in ((arms.costs, same.costs), (arms.noise_std, same.noise_std)):
        assert mine is not None
        assert other is not None
        assert mine.tolist() == other.tolist()
    levels = read_by_role(table, column_roles(table, ["out", "name", "number", "out", "out", "category"]))
    assert levels.feature_names == ("constant", "T", "Noise=0,2", "Noise=0,3")


def test_one_column_has_the_names() -> None:
    """Two are refused, with both."""
    table = table_of_upload("t.csv", TABLE.encode())
    with pytest.raises(sp.InvalidInput, match=r"one column at most .* got 'id' and 'Name'"):
        read_by_role(table, column_roles(table, ["name", "name"]))


def test_errors_name_the_file_of_the_user() -> None:
    """And no folder of the machine that reads it."""
    with pytest.raises(sp.InvalidInput, match=r"^cannot read lab/t\.csv: it is no text\.$"):
        table_of_upload("lab/t.csv", b"\0")


def test_a_column_of_old_results_that_a_person_leaves_out_is_in_no_recipe() -> None:
    """Text stays in view, as a note."""
    table = table_of_upload("t.csv", b"name,T,hardness,note\na,1,66.1,x\nb,2,67.2,x y\nc,4,68.3,\n")
    arms = read_by_role(table, column_roles(table, ["name", "number", "out", "out"]))
    assert arms.table is not None
    assert [one["title"] for one in arms.table["columns"]] == ["T", "note"]
