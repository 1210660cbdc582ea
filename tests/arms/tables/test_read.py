"""Tables of arms: what is recognised, what every column is taken for, and which cells are refused."""

import datetime as dt
import pickle
import re
import time
import zipfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather

import surepick as sp
from surepick import ArmsDoNotSpan, FiniteArms, InvalidInput, TableArms, read_arms
from surepick.arms.tables.sources import parse_number
from tests.excel import excel as excel_file

MESSY = """Bezeichnung;Wärme;Zeit;Lösungsmittel;Rührer
F-01;60,5;10;Ethanol;1
F-02;74,5;20;ethanol;0
F-03;60,5;20;Wasser;1
F-04;74,5;10;Wasser;0
F-05;80;15;Ethanol;1
F-06;1,250e2;12;ethanol;1
F-18;74,5;10;Wasser;0
F-19;61;15;Ethanol;0
"""


def read(folder: Path, text: str, encoding: str = "utf-8", **options: Any) -> TableArms:
    """Arms from the text of a CSV file."""
    path = folder / "arms.csv"
    path.write_text(text, encoding=encoding)
    return read_arms(path, **options)


def excel(folder: Path, **sheets: list[list[Any]]) -> Path:
    """An Excel file with these rows in its sheets."""
    (folder / "arms.xlsx").write_bytes(excel_file(**sheets))
    return folder / "arms.xlsx"


def test_numbers_are_features_and_unique_text_is_the_name(tmp_path: Path) -> None:
    """The first column of text without repetition names the arms; numbers are used as they are."""
    arms = read(tmp_path, "kind,paint,gloss,drying\nx,A,1,0\nx,B,0,1\ny,C,.5,.5\ny,D,0,0\nx,E,2,2\n")
    assert arms.names == ("A", "B", "C", "D", "E")
    assert arms.roles.names == "column 'paint'"
    assert arms.feature_names == ("constant", "kind=y", "gloss", "drying")


def test_a_column_headed_id_is_a_name_even_if_numeric(tmp_path: Path) -> None:
    """Numbers that only tell arms apart do not become a feature."""
    arms = read(tmp_path, "id,u,v\n7,1,0\n9,0,1\n")
    assert arms.names == ("7", "9")
    assert arms.feature_names == ("u", "v")


def test_a_messy_spreadsheet_is_understood_and_announced(tmp_path: Path) -> None:
    """Semicolons, decimal commas, Latin-1, levels that differ in case and equal arms: all of it is said."""
    arms = read(tmp_path, MESSY, "latin-1")
    file = tmp_path / "arms.csv"
    assert str(arms.roles) == (
        f"8 arms, 6 features, from {file} (Latin-1 letters, semicolons between the columns, decimal commas in "
        "Wärme)\n"
        "  constant    added: no combination of the columns is the same in every row\n"
        "  numbers     Wärme, Zeit, Rührer\n"
        "  categories  Lösungsmittel: Ethanol (reference), Wasser, ethanol\n"
        "  names       column 'Bezeichnung'\n"
        "  attention   Lösungsmittel has the levels 'Ethanol' and 'ethanol', which differ in case alone; is one "
        "meant?\n"
        "  alike       F-04 and F-18 have the same features and cannot be told apart by this model."
    )
    assert arms.X[:, 1].tolist() == [60.5, 74.5, 60.5, 74.5, 80.0, 125.0, 74.5, 61.0]
    assert pickle.loads(pickle.dumps(arms)).roles == arms.roles


def test_byte_order_marks_and_tabs_are_recognised(tmp_path: Path) -> None:
    """The mark is no part of the first header; what Excel calls Unicode text is UTF-16 with tabs."""
    text = "u,v\n1,0\n0,1\n"
    marked = read(tmp_path, text, "utf-8-sig")
    assert (marked.feature_names, marked.roles.notes) == (("u", "v"), ("a byte order mark",))
    tabs = read(tmp_path, text.replace(",", "\t"), "utf-16")
    assert (tabs.feature_names, tabs.roles.notes) == (("u", "v"), ("UTF-16", "tabs between the columns"))


def test_one_column_is_enough(tmp_path: Path) -> None:
    """Also with decimal commas, which then separate nothing."""
    arms = read(tmp_path, "u\n1,5\n2\n4,25\n")
    assert (arms.feature_names, arms.X[:, 1].tolist()) == (("constant", "u"), [1.5, 2.0, 4.25])
    assert arms.roles.names == "row numbers, from 0 on"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "header line and at least one"),
        ("a,b\n", "header line and at least one"),
        ("1,2\n3,4\n", "numbers in its header"),
        ("a,a\n1,2\n3,4\n", "line 1 must have a different name for every column, got 'a' twice; rename one"),
        ("a,b,\n1,2,3\n3,4,5\n", "line 1 must have the names .* none for column 3; give each a name"),
        ("Stand Mai,,\na,b,c\n1,2,3\n", "line 1 .* column 2 and 3; if it is a title above the table, delete it"),
        ("a,b\n1,2\n3\n", "line 3: 2 cells are needed, got 1"),
        ("a,b\n1,2\n3,4,5\n", "line 3: 2 cells are needed, got 3"),
        ("a,b\n1,2\n\n3,\n", "line 4: column 'b' has no value"),
        ("name,b\n,2\nB,3\n", "line 2: column 'name' has no value"),
        ("name\nA\nB\n", "no feature columns"),
        ("u,v\n1,0\n2,1\n\nn/a,1\n", r"arms.csv line 5: column 'u' is mostly numbers, got 'n/a'"),
        ("u,v\n1,0\n2,1\n1,2\nn/a,1\n", r"line 5: column 'u' .* if it is a category, spell its levels as words"),
        ('u,v\n"1,500",0\n"2,250",1\n1,2\n', r"lines 2 and 3: column 'u' .* got '1,500' and '2,250'; .* decimal point"),
        ("u;v\n20 %;0\n2,5;1\n3;2\n", r"line 2: column 'u' .* got '20 %'; write a number with a decimal comma there"),
        ("u;v\n20 %;0,5\n2;1\n3;2\n", r"line 2: column 'u' .* got '20 %'; write a number with a decimal comma there"),
        ("u;v\n20 %;0.5\n2;1\n3;2\n", r"line 2: column 'u' .* got '20 %'; write a number with a decimal point there"),
        ("u;v\n20 mg;0.5\n2;1\n3;2\n", r"got '20 mg'; write a number .* there, without a unit, or leave out the row"),
        ('u;v\n1.234,5;0\n2;1\n3;2\n', r"line 2: column 'u' is mostly numbers, got '1.234,5'"),
        ("u;v\n1,5;0\n2.5;1\n3;2\n", r"line 3: column 'u' has decimal points and decimal commas, here '2.5'"),
        ('u,v\n1.5,0\n"2,5",1\n3.5,2\n', r"line 3: column 'u' has decimal points and decimal commas, here '2,5'"),
        ("u;v\n1,5;0\n2,5;1.500\n3;2\n", r"line 3: column 'v' has '1.500', which could be 1500 or 1.5 beside"),
        ("name,u,v\nA,1,0\nB,nan,1\n", "line 3: column 'u' must be a finite number, got 'nan'"),
        ("name,u,v\nA,1,0\nB,1,-inf\n", "line 3: column 'v' must be a finite number, got '-inf'"),
        ("name,u,v\nA,1,0\nB,1e200,1\n", r"line 3: column 'u' must be at most 1e\+120 in size, got 1e200"),
        ("name,u,v\nA,1,0\nB,0,1\n\nA,1,1\n", "column 'name' seems to name the arms, .*: 'A' is in lines 2 and 5"),
        ("name,label,u\nA,x,1\nB,y,2\nC,z,5\n", "'label' is text that differs in every row.*name_column=\"label\""),
        ("u,v\n1,2\n1,2\n", "2 copies of one"),
        ("u\n1\n", "at least two arms"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_with_the_place(tmp_path: Path, text: str, complaint: str) -> None:
    """What is wrong with a file is said with its line and column, as misuse."""
    with pytest.raises(InvalidInput, match=complaint):
        read(tmp_path, text)


def test_missing_and_broken_files_are_refused(tmp_path: Path) -> None:
    """A file that is not there, and ones that are not what their names say."""
    for name in ("none.csv", "none.npy", "none.parquet", "none.xlsx"):
        with pytest.raises(InvalidInput, match=r"cannot read .*none"):
            read_arms(tmp_path / name)
    for name in ("bad.npy", "bad.parquet", "bad.arrow", "bad.xlsx"):
        (tmp_path / name).write_text("1,2\n")
        with pytest.raises(InvalidInput, match="cannot read"):
            read_arms(tmp_path / name)
    (tmp_path / "bad.csv").write_bytes(b"a,b\n\x00,1\n")
    with pytest.raises(InvalidInput, match="it is no text"):
        read_arms(tmp_path / "bad.csv")
    with pytest.raises(InvalidInput, match="Excel format of before 2007"):
        read_arms(tmp_path / "old.xls")
    with pytest.raises(InvalidInput, match=r"got a ndarray; for an array use FiniteArms"):
        read_arms(np.eye(2))


def test_a_missing_cell_matters_only_where_it_is_used(tmp_path: Path) -> None:
    """Remarks may have gaps once they are dropped."""
    text = "name,u,colour\nA,1,\nB,2,red\nC,4,\n"
    with pytest.raises(InvalidInput, match="lines 2 and 4: column 'colour' has no value; fill it, or leave out"):
        read(tmp_path, text)
    arms = read(tmp_path, text, drop="colour")
    assert arms.roles.dropped == ("colour (as you said)",)
    assert read(tmp_path, text, features=["u"]).roles.dropped == ("colour (not among the features)",)


def test_categories_and_names_may_contain_numbers(tmp_path: Path) -> None:
    """Half of the cells or fewer: a category. A column that is said to hold names may hold anything."""
    arms = read(tmp_path, "name,size,u\n1,S,1\n2,M,2\n2b,42,3\n3,44,1\n4,S,2\n5,42,1\n")
    assert arms.feature_names == ("constant", "size=44", "size=M", "size=S", "u")
    text = "part,u,v\n1,1,0\n2,0,1\n2b,1,1\n"
    with pytest.raises(InvalidInput, match=r"line 4: column 'part' .* if it names the arms, say name_column=\"part\""):
        read(tmp_path, text)
    assert read(tmp_path, text, name_column="part").names == ("1", "2", "2b")
    assert read(tmp_path, "a,u\n1_2,1\n1_2,2\n1_3,3\n").feature_names == ("constant", "a=1_3", "u")


def test_dates_that_are_asked_for_are_a_category_and_are_named(tmp_path: Path) -> None:
    """A day may be a block of measurements; it is no time."""
    text = "name,u,day\nA,1,1.3.2026\nB,2,1.3.2026\nC,5,2.3.2026\nD,7,2.3.2026\n"
    assert read(tmp_path, text).roles.dropped == ("day (looks like a date)",)
    arms = read(tmp_path, text, features="u,day")
    assert arms.feature_names == ("constant", "u", "day=2.3.2026")
    assert arms.roles.attention[0].startswith("day holds dates, such as 1.3.2026, taken as a category")
    days = [dt.datetime(2026, 3, day) for day in (1, 1, 2, 2)]  # noqa: DTZ001
    frame = read_arms(pd.DataFrame({"u": [1, 2, 5, 7], "day": days}), features=["u", "day"])
    assert frame.feature_names == ("constant", "u", "day=2026-03-02")
    assert frame.roles.attention[0].startswith("day holds dates, such as 2026-03-01")


def test_a_numbering_can_be_asked_for(tmp_path: Path) -> None:
    """A numbering is no feature, or names the arms, unless it is listed; headed otherwise it is a number as others."""
    text = "name,code,u\nA,1,1\nB,2,2\nC,3,5\nD,7,7\n"
    assert read(tmp_path, text).roles.dropped == ("code (looks like a numbering)",)
    assert read(tmp_path, text, drop="name").names == ("1", "2", "3", "7")
    assert read(tmp_path, text, features=["code"]).feature_names == ("constant", "code")
    assert read(tmp_path, text.replace("code", "temp")).feature_names == ("constant", "temp", "u")


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("u,v\n1,0\n2,1\n4,1\n", {}, "added: no combination of the columns is the same in every row"),
        ("u,v\n1,0\n2,1\n4,1\n", {"intercept": True}, "added, as you said"),
        ("u,v\n1,0\n2,1\n4,1\n", {"intercept": False}, "none"),
        ("u,batch\n1,5\n2,5\n4,5\n", {}, "column 'batch', which is 5 in every row"),
        ("a,b,c\n1,0,0\n0,1,0\n0,0,1\n.5,.5,0", {}, "not added: a combination of a, b and c is the same in every row"),
        ("u,v\n1,0\n2,1\n4,1\n", {"formula": "u"}, "by the formula"),
        ("u,v\n1,0\n2,1\n4,1\n", {"formula": "0 + u"}, "none, by the formula"),
    ],
)  # fmt: skip
def test_the_constant_is_said_with_its_reason(tmp_path: Path, text: str, options: dict[str, Any], said: str) -> None:
    """On by default, unless the columns have one already."""
    assert read(tmp_path, text, **options).roles.constant == said


def test_a_text_that_is_the_same_in_every_row_is_dropped(tmp_path: Path) -> None:
    """It makes no feature, and that is said."""
    arms = read(tmp_path, "name,u,lab\nA,1,north\nB,2,north\nC,4,north\n")
    assert arms.feature_names == ("constant", "u")
    assert arms.roles.dropped == ("lab (north in every row)",)


FACTORS = "name,temp,time,stirred,solvent\n" + "".join(
    f"R{i},{temp},{time},{(i // 2) % 2},{solvent}\n"
    for i, (temp, time, solvent) in enumerate(
        (temp, time, solvent) for temp in (50, 60, 80) for time in (1, 2, 5) for solvent in ("water", "ethanol")
    )
)


def test_products_and_squares_have_readable_names(tmp_path: Path) -> None:
    """All pairs of columns, squares of numbers; the square of a 0/1 column is itself and is left out."""
    arms = read(tmp_path, FACTORS, interactions=True, quadratic=True)
    assert arms.feature_names == (
        *("constant", "temp", "time", "stirred", "solvent=water", "temp:time", "temp:stirred", "temp:solvent=water"),
        *("time:stirred", "time:solvent=water", "stirred:solvent=water", "temp^2", "time^2"),
    )
    assert arms.roles.left_out == ("stirred^2: stirred is 0 or 1, so its square is itself",)
    columns = dict(zip(arms.feature_names, arms.X.T, strict=True))
    np.testing.assert_array_equal(columns["temp:time"], columns["temp"] * columns["time"])
    np.testing.assert_array_equal(columns["temp^2"], columns["temp"] ** 2)


def test_what_products_and_squares_leave_out(tmp_path: Path) -> None:
    """Two values: the square follows. Two levels that never meet: the product is always 0. Constants: no products."""
    text = "name,u,v,a,b,one\n" + "".join(
        f"N{i},{u},{v},{a},{b},1\n"
        for i, (u, v, a, b) in enumerate(
            [(1, 0, "x", "p"), (3, 1, "x", "q"), (1, 2, "y", "p"), (3, 4, "y", "p"), (3, 1, "x", "p"), (1, 7, "y", "p")]
        )
    )
    quadratic = read(tmp_path, text, quadratic=True)
    assert quadratic.roles.left_out == ("u^2: u has two values, so its square follows from it",)
    assert quadratic.roles.squares == ("v^2",)
    both = read(tmp_path, text, features=["a", "b", "one"], interactions=True)
    assert both.roles.left_out == ("a=y:b=q: no arm has both",)
    assert both.roles.products == ()


def test_products_that_are_too_large_are_refused(tmp_path: Path) -> None:
    """Cells may be within bounds, and their squares beyond."""
    with pytest.raises(InvalidInput, match=r"feature 'u\^2' must be finite and at most 1e\+120"):
        read(tmp_path, "u,v\n1,0\n2,1\n1e80,1\n3,7\n", quadratic=True)


def test_redundant_features_are_named_and_can_be_left_out(tmp_path: Path) -> None:
    """Which columns are copies, multiples or sums of which."""
    text = "u,twice,copy,v,sum,none,name\n1,2,1,0,1,0,a\n2,4,2,1,3,0,b\n0,0,0,9,9,0,c\n5,10,5,1,6,0,d\n"
    said = "twice is 2 times u; copy is a copy of u; sum follows from u and v; none is always 0"
    with pytest.raises(ArmsDoNotSpan, match=f"arms.csv: 4 arms cannot tell 7 features apart: {said}. .*`on_span`"):
        read(tmp_path, text)
    arms = read(tmp_path, text, on_span=True)
    assert arms.feature_names == ("constant", "u", "v")
    assert arms.roles.left_out == tuple(said.split("; "))
    with pytest.raises(ArmsDoNotSpan, match="one is a copy of constant"):
        read(tmp_path, "u,one\n1,1\n2,1\n5,1\n", intercept=True)


def test_as_many_features_as_arms_are_said(tmp_path: Path) -> None:
    """Such a model learns nothing of one arm from another."""
    arms = read(tmp_path, "name,u,v\nA,1,0\nB,2,1\nC,4,1\n")
    assert arms.roles.attention == (
        "3 features for 3 different arms: no arm tells anything about another; use fewer features.",
    )


def test_formulas_say_which_features_there_are(tmp_path: Path) -> None:
    """Names as elsewhere; the other columns are dropped, and that is said."""
    arms = read(tmp_path, FACTORS, formula="temp * solvent + C(time)")
    assert arms.feature_names == ("constant", "temp", "solvent=water", "C(time)=2", "C(time)=5", "temp:solvent=water")
    assert arms.names is not None
    roles = str(arms.roles)
    for line in (
        "  formula     temp * solvent + C(time)\n",
        "  numbers     temp\n",
        "  categories  solvent: ethanol (reference), water\n              C(time): 1 (reference), 2, 5\n",
        "  features    constant, temp, solvent=water, C(time)=2, C(time)=5, temp:solvent=water\n",
        "  dropped     stirred (not in the formula)",
    ):
        assert line in roles
    ours = read(tmp_path, FACTORS, features=["temp", "solvent"], interactions=True)
    theirs = read(tmp_path, FACTORS, formula="temp * solvent")
    assert (ours.feature_names, ours.digest()) == (theirs.feature_names, theirs.digest())
    curved = read(tmp_path, FACTORS.replace("temp", "temp in C"), formula="`temp in C` + poly(time, 2)")
    assert curved.feature_names == ("constant", "temp in C", "poly(time, 2)[1]", "poly(time, 2)[2]")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"formula": "tempp * solvent"}, r"names 'tempp', which is not a column; did you mean 'temp'\? The columns"),
        ({"formula": "temp +"}, "cannot be used: 'temp .' cannot be read"),
        ({"formula": "y ~ temp"}, "the features alone"),
        ({"formula": "temp | time"}, "the features alone"),
        ({"formula": "log(temp - 60)"}, r"feature 'log\(temp - 60\)' must be finite.* got .* for arm 0"),
        ({"formula": "name + temp"}, "column 'name' is text that differs in every row"),
        ({"formula": "temp", "features": ["time"]}, "`features` cannot go with it"),
        ({"formula": "temp", "drop": []}, "`drop` cannot go with it"),
        ({"formula": "temp", "interactions": True}, "`interactions` cannot go with it"),
        ({"formula": "temp", "intercept": False}, "`intercept` cannot go with it"),
        ({"features": ["temp"], "drop": ["time"]}, "`drop` cannot go with them"),
        ({"features": ["tempp"]}, r"no column 'tempp' \(`features`\); did you mean 'temp'\?"),
        ({"drop": "colour"}, r"no column 'colour' \(`drop`\); the columns are name, temp"),
        ({"name_column": "colour"}, "no column 'colour'"),
        ({"name_column": "temp", "features": ["temp"]}, "'temp' cannot name the arms and have another role"),
        ({"noise_column": "solvent"}, "line 2: column 'solvent' must be a number in every row, got 'water'"),
        ({"sheet": "one"}, "is for Excel files"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_are_refused(tmp_path: Path, options: dict[str, Any], complaint: str) -> None:
    """In one sentence, with what was meant if that can be guessed."""
    with pytest.raises(InvalidInput, match=complaint):
        read(tmp_path, FACTORS, **options)


def test_excel_sheets(tmp_path: Path) -> None:
    """Cells have types; a column that was left empty is none; of several sheets one must be named."""
    rows: list[list[Any]] = [
        ["name", "temp", "on", "size", None],
        [101, 60.5, True, "S", None],
        [None, None, None, None, None],
        [102, "74,5", True, 42, None],
        [103, 80, False, "S", None],
        [104, 81, False, 42, None],
    ]
    arms = read_arms(excel(tmp_path, Arms=rows, Empty=[]))
    assert arms.names == ("101", "102", "103", "104")
    assert arms.feature_names == ("constant", "temp", "on", "size=S")
    assert arms.X[:, 1:3].tolist() == [[60.5, 1], [74.5, 1], [80, 0], [81, 0]]
    assert arms.roles.notes == ("sheet 'Arms'", "decimal commas in temp")
    two = excel(tmp_path, Notes=[["what"], ["old"]], Arms=rows)
    with pytest.raises(InvalidInput, match=r"has the sheets 'Notes', 'Arms'; say which .*sheet=\"Notes\""):
        read_arms(two)
    assert read_arms(two, sheet="Arms").digest() == arms.digest()
    with pytest.raises(InvalidInput, match="has no sheet 'arms'; its sheets are 'Notes', 'Arms'"):
        read_arms(two, sheet="arms")
    rows[3][1] = None
    with pytest.raises(InvalidInput, match=r"arms.xlsx row 4: column 'temp' has no value"):
        read_arms(excel(tmp_path, Arms=rows))
    with pytest.raises(InvalidInput, match="must have a header row and at least one row below it, got 0 rows"):
        read_arms(excel(tmp_path, Empty=[]))


def altered(path: Path, **parts: bytes | None) -> Path:
    """Another Excel file with some parts replaced or left out, by the end of their names."""
    new = path.with_name("altered.xlsx")
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as other:
        for part in archive.namelist():
            name = next((name for name in parts if part.endswith(f"{name}.xml")), None)
            content = archive.read(part) if name is None else parts[name]
            if content is not None:
                other.writestr(part, content)
    return new


def hostile_sheets(folder: Path) -> Iterator[tuple[Path, str]]:
    """Excel files that a library reads for minutes, into gigabytes, or not at all; and what is to be said of them."""
    good = excel(folder, Arms=[["name", "x"], ["A", 1], ["B", 2], ["C", 4]])
    with zipfile.ZipFile(good) as archive:
        sheet = archive.read("xl/worksheets/sheet1.xml")
    start, end = sheet.split(b"<sheetData>")[0], b"</sheetData></worksheet>"
    laughs = b"<!DOCTYPE x [<!ENTITY a 'ha'>" + b"".join(
        b"<!ENTITY %c '%s'>" % (b"bcdefghij"[n], (b"&%c;" % b"abcdefghi"[n]) * 10) for n in range(9)
    )
    for code in ("utf-8", "utf-16"):
        text = b"<!-- " + b"x" * 30_000 + b" -->" + laughs + b"]>" + sheet
        yield altered(good, sheet1=text.decode().encode(code)), "defines entities"
    yield altered(good, sheet1=start + b" " * 250_000_000), "unpacked it has 250,"
    yield altered(good, styles=b" " * 25_000_000), "unpacked it has 25,"
    shared = b'<sheetData><row r="1"><c r="A1" t="s"><v>0</v></c></row>'
    yield altered(good, sheet1=start + shared + end), "damaged"  # there are no shared strings
    yield altered(good, workbook=None), "damaged"
    yield altered(good, styles=b"<styleSheet"), "damaged"
    yield altered(good, sheet1=sheet[: len(sheet) // 2]), "damaged"
    far = (
        b'<sheetData><row r="1"><c r="A1"><v>1</v></c></row><row r="99999999999"><c r="A99999999999"><v>1</v></c></row>'
    )
    yield altered(good, sheet1=start + far + end), "more than 10,000,000 cells"
    rows = b"".join(b'<row r="%d"><c r="A%d"><v>1</v></c></row>' % (n, n) for n in range(1, 2_001))
    wide = b"<sheetData>" + rows + b'<row r="2001"><c r="XFD2001"><v>1</v></c></row>'
    yield altered(good, sheet1=start + wide + end), "2,001 rows and 16,384 columns"
    cut = folder / "cut.xlsx"
    cut.write_bytes(good.read_bytes()[:-200])
    yield cut, "not an Excel file"
    secret = folder / "secret.xlsx"
    content = bytearray(good.read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = content.find(mark)
        content[place + flags] |= 1
    secret.write_bytes(content)
    yield secret, "encrypted"


def test_a_hostile_sheet_gives_one_sentence(tmp_path: Path) -> None:
    """Archives and entities that unfold, cells far away, parts that are missing: each is refused at once, by name."""
    for path, why in hostile_sheets(tmp_path):
        began = time.process_time()
        with pytest.raises(InvalidInput, match=re.escape(why)) as refused:
            read_arms(path)
        assert str(path) in str(refused.value)
        assert time.process_time() - began < 15.0


def test_what_a_sheet_says_of_its_size_is_not_believed(tmp_path: Path) -> None:
    """A sheet that claims a million rows of 16,384 columns is read by the cells that it has."""
    good = excel(tmp_path, Arms=[["name", "x"], *([f"A{n}", n] for n in range(1_000))])
    with zipfile.ZipFile(good) as archive:
        sheet = archive.read("xl/worksheets/sheet1.xml")
    claimed = re.sub(rb'<dimension ref="[^"]*"', b'<dimension ref="A1:XFD1048576"', sheet)
    assert claimed != sheet
    assert read_arms(altered(good, sheet1=claimed)).n_arms == 1_000


def test_all_sources_give_the_same_arms(tmp_path: Path) -> None:
    """CSV, Excel, Parquet, Arrow, data frames and mappings; text and categories as in `FiniteArms`."""
    frame = pd.DataFrame(
        {"name": ["A", "B", "C", "D"], "u": [1.5, 2.0, 4.0, 8.0], "kind": ["x", "y", "y", "x"], "n": [1, 0, 0, 0]}
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_excel(tmp_path / "a.xlsx", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    table = pa.Table.from_pandas(frame)
    feather.write_feather(table, str(tmp_path / "a.arrow"))
    sources = [*(str(tmp_path / f"a.{kind}") for kind in ("csv", "xlsx", "parquet", "arrow")), frame, table]
    indexed = frame.set_index("name")
    indexed.to_parquet(tmp_path / "indexed.parquet")
    expected = FiniteArms(indexed)
    for source in [
        *sources,
        frame.to_dict("list"),
        indexed,
        tmp_path / "indexed.parquet",
        frame.astype({"kind": "category"}),
    ]:
        arms = read_arms(source)
        assert (arms.names, arms.feature_names) == (expected.names, expected.feature_names)
        assert arms.digest() == expected.digest()
    assert read_arms(indexed).roles.names == "the index of the data frame"


def test_npy_files_are_taken_as_they_are(tmp_path: Path) -> None:
    """A matrix in .npy form is a set of arms without names, and without a constant unless one is asked for."""
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [3.0, 5.0]])
    np.save(tmp_path / "arms.npy", rows)
    arms = read_arms(tmp_path / "arms.npy")
    np.testing.assert_array_equal(arms.X, rows)
    assert (arms.names, arms.feature_names) == (None, ("x0", "x1"))
    assert read_arms(tmp_path / "arms.npy", intercept=True).dim == 3


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (pd.DataFrame(), "at least one column and one row, got an empty one"),
        (pd.DataFrame({"a": [1.0, 2.0, np.nan]}), "the data frame row 2: column 'a' has no value"),
        (pd.DataFrame({"a": [1.0, 2.0, None]}, index=list("xyz")), r"row 2 \(z\): column 'a' has no value"),
        (pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64")}), "row 1: column 'a' has no value"),
        (pd.DataFrame({"a": ["x", None, "y"], "b": [1, 2, 4]}), "row 1: column 'a' has no value"),
        (pd.DataFrame({"a": [1.0, np.inf, 3]}), "row 1: column 'a' must be a finite number, got"),
        (pd.DataFrame({"a": ["x", 1, "x"], "b": [1, 2, 4]}), "row 1: column 'a' must hold numbers alone or text alone"),
        (pd.DataFrame([[1.0, 2.0], [3.0, 5.0]], columns=["a", "a"]), "different names, got 'a' twice"),
        ({"a": [1, 2], "b": [1, 2, 3]}, "same length"),
        (pd.DataFrame({"a": [1.0, 2.0]}, index=["p", "p"]), r"names the arms.*: 'p' is in rows 0 \(p\) and 1 \(p\)"),
    ],
)
def test_frames_that_cannot_be_arms_are_refused(frame: Any, complaint: str) -> None:
    """With row and column."""
    with pytest.raises(InvalidInput, match=complaint):
        read_arms(frame)


def test_text_in_a_data_frame_stays_text() -> None:
    """A frame has types: text that reads like numbers was made so on purpose. Decimals are numbers."""
    frame = {"code": ["1", "2", "1", "2"], "u": [Decimal(1), Decimal(2), Decimal("4.5"), Decimal(9)]}
    arms = read_arms(frame)
    assert arms.feature_names == ("constant", "code=2", "u")
    assert arms.X[2].tolist() == [1.0, 0.0, 4.5]


def test_arms_of_a_table_go_straight_into_an_identification(tmp_path: Path) -> None:
    """Names, noise and groups of equal arms are kept to the end."""
    text = MESSY.replace("Rührer\n", "Rührer;Streuung\n").replace("0\n", "0;0,2\n").replace(";1\n", ";1;0,1\n")
    arms = read(tmp_path, text, "latin-1", noise_column="Streuung", drop="Zeit")
    assert arms.noise_std is not None
    assert arms.roles.notes[-1] == "decimal commas in Wärme, Streuung"
    assert arms.noise_std.tolist() == [0.1, 0.2, 0.1, 0.2, 0.1, 0.1, 0.2, 0.2]
    rng = np.random.default_rng(5)
    means = arms.X @ [0.0, 0.01, 5.0, 0.0, 1.0]
    best = int(np.argmax(means))
    result = sp.identify(arms, lambda row: means[row] + 0.1 * rng.standard_normal(), noise_std=arms.noise_std)
    assert (result.best, result.best_name) == (best, "F-03")
    assert "1 other group of arms has the same features too." in result.explain()
    learner = sp.Learner("lazy-track-and-stop", arms, noise_std=0.1)
    assert learner.measured_arms.names == arms.names


def test_equal_arms_are_one_answer() -> None:
    """The sentence, the table and the file say so; a model without features can tell them apart."""
    arms = read_arms({"name": ["F-04", "F-07", "F-18", "F-20", "F-21"], "u": [3, 1, 3, 2, 1], "v": [0, 1, 0, 2, 1]})
    assert arms.roles.alike == (("F-04", "F-18"), ("F-07", "F-21"))
    rng = np.random.default_rng(1)
    result = sp.identify(arms, lambda row: float(arms.X[row, 1]) + 0.01 * rng.standard_normal(), noise_std=0.01)
    assert (
        "F-04 and F-18 have the same features and cannot be told apart by this model: the answer is either of them. "
        "1 other group of arms has the same features too."
    ) in result.explain()
    assert result.to_columns()["same_as"].tolist() == [0, 1, 0, 3, 1]
    assert sp.Result.from_dict(result.to_dict()) == result
    single = sp.identify(arms, lambda row: row + 0.01 * rng.standard_normal(), noise_std=0.01, model="unstructured")
    assert "same_as" not in single.to_columns()
    assert "same features" not in single.explain()


def test_many_equal_arms_are_not_all_named_in_a_sentence() -> None:
    """The announcement and the table have them all."""
    arms = read_arms({"u": [0, *([1] * 14)]})
    assert len(arms.roles.alike[0]) == 14
    rng = np.random.default_rng(1)
    result = sp.identify(arms, lambda row: float(row > 0) + 0.01 * rng.standard_normal(), noise_std=0.01)
    assert "arm 9, arm 10 and 4 more have the same features" in result.explain()
    assert result.to_columns()["same_as"].tolist() == [0, *([1] * 14)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("74.5", 74.5), ("74,5", 74.5), ("-0,125", -0.125), (",5", 0.5), ("1,5e2", 150.0), (" 3 ", 3.0)),
        *(("1,500", None), ("1,234,567", None), ("1.234,5", None), ("1,2,3", None), ("1_2", None), ("", None)),
        *(("nan", None), ("inf", None), ("many", None), ("1,5000", 1.5)),
    ],
)
def test_numbers_as_people_write_them(text: str, value: float | None) -> None:
    """A comma is a decimal one, unless the number could be another."""
    assert parse_number(text) == value


COLUMNS = "Nr.,Probe,Wärme,Lieferant,Einkaufspreis,Messdatum,Bemerkung,Zeit\n"
LINES = [
    f"{i},R-{i:03d},{60 + i % 7},{'Merck' if i % 2 else 'Sigma'},{3 + i % 5}.20,{1 + i % 25}.3.2026,"
    f"{'' if i % 3 else 'looks a bit cloudy'},{i % 4}\n"
    for i in range(1, 61)
]


def test_prices_dates_remarks_and_numberings_are_no_features(tmp_path: Path) -> None:
    """Each is named with what it was taken for and how to use it all the same; a time in minutes is a property."""
    arms = read(tmp_path, COLUMNS + "".join(LINES))
    assert arms.feature_names == ("constant", "Wärme", "Lieferant=Sigma", "Zeit")
    assert arms.names is not None
    assert arms.names[0] == "R-001"
    assert arms.roles.dropped == (
        "Nr. (looks like a numbering)",
        "Einkaufspreis (looks like a price)",
        "Messdatum (looks like a date)",
        "Bemerkung (looks like a remark)",
    )
    assert "list all that you want as `features`. A price" in arms.roles.attention[0]
    assert 'cost_column="Einkaufspreis"' in arms.roles.attention[0]
    told = read(tmp_path, COLUMNS + "".join(LINES), features="Wärme,Messdatum", cost_column="Einkaufspreis")
    assert told.feature_names[:3] == ("constant", "Wärme", "Messdatum=10.3.2026")
    assert told.costs is not None


@pytest.mark.parametrize(
    ("header", "cells", "taken_for"),
    [
        ("cost", ["3.5", "2", "3.5", "7"], "price"),
        ("cost", ["low", "high", "low", "high"], None),
        ("Materialkosten", ["3", "2", "3", "7"], "price"),
        ("per kg", ["3 €", "2 €", "3 €", "7,50 €"], "price"),
        ("Note", ["1", "2", "1", "5"], None),
        ("Note", ["late", "", "", "late"], "remark"),
        ("Kommentar", ["gut", "gut", "", "trüb"], "remark"),
        ("what happened", ["it was late", "it was rather late", "not so late", "it was cold"], "remark"),
        ("measured", ["2026-03-01", "2026-03-01", "2026-03-02", "2026-03-03"], "date"),
        ("measured", ["10:30:00", "11:00:00", "11:30:00", "11:30:00"], "date"),
        ("ratio", ["1:20", "1:10", "1:20", "1:10"], None),
        ("time", ["10", "20", "10", "15"], None),
        ("Zeit", ["10", "20", "10", "15"], None),
        ("Candidate", ["x", "y", "x", "y"], None),
        ("Sample No.", ["4", "2", "3", "1"], "numbering"),
        ("Sample No.", ["4", "2", "3.5", "1"], None),
    ],
)
def test_purposes_by_header_and_cells(tmp_path: Path, header: str, cells: list[str], taken_for: str | None) -> None:
    """A header alone decides nothing: a price has figures, a remark is text, and a grade is a number."""
    lines = [f"R{i};{u};{cell}\n" for i, (u, cell) in enumerate(zip((1, 2, 4, 9), cells, strict=True))]
    arms = read(tmp_path, f"name;u;{header}\n" + "".join(lines))
    expected = () if taken_for is None else (f"{header} (looks like a {taken_for})",)
    assert arms.roles.dropped == expected
    assert any(name.startswith(header) for name in arms.feature_names) == (taken_for is None)


@pytest.mark.parametrize("header", ["Probe", "Nr.", "lot"])
def test_a_repeated_id_is_named_with_its_lines_before_anything_else(tmp_path: Path, header: str) -> None:
    """Not 58 dummy columns: the column that tells nearly all rows apart names them, and has slips."""
    lines = [f"{line.split(',')[1]},{line.split(',')[2]},{i % 9}\n" for i, line in enumerate(LINES)]
    lines[36], lines[40], lines[7] = lines[11], lines[20].replace("66", "n/a"), lines[7].replace("61", "")
    if header == "Nr.":
        lines = [line.replace("R-0", "") for line in lines]
    one, two = ("12", "21") if header == "Nr." else ("R-012", "R-021")
    with pytest.raises(InvalidInput) as refused:
        read(tmp_path, f"{header},temp,time\n" + "".join(lines))
    assert f"{one!r} is in lines 13 and 38 and {two!r} is in lines 22 and 42. Change one" in str(refused.value)
    assert len(str(refused.value)) < 600


def test_text_that_tells_nearly_all_rows_apart_is_no_feature_unless_asked_for(tmp_path: Path) -> None:
    """Where another column names the arms."""
    lots = [f"L{i}" for i in range(12)]
    lots[4] = "L3"
    text = "name,u,lot\n" + "".join(f"R{i},{i * i},{lot}\n" for i, lot in enumerate(lots))
    with pytest.raises(
        InvalidInput, match=r"'lot' is text that differs in nearly every row \(11 of 12\).*drop=\"lot\""
    ):
        read(tmp_path, text)
    assert read(tmp_path, text, features=["lot"]).dim == 11


def test_all_errors_of_a_table_are_said_at_once_and_shortly(tmp_path: Path) -> None:
    """Lines as an editor counts them, also after a cell that goes over two; many are cut short."""
    text = 'name,u,v,w\nA,1,"a\nb",1\n\nB,,x,n/a\nC,2,,2\nD,n/a,x,3\nE,3,y,nan\nF,4,y,6\nG,,y,7\n'
    with pytest.raises(InvalidInput) as refused:
        read(tmp_path, text)
    assert str(refused.value) == (
        f"{tmp_path / 'arms.csv'} has 6 cells to change. lines 5 and 10: column 'u' has no value; line 5: column 'w' "
        "is mostly numbers, got 'n/a'; line 6: column 'v' has no value; line 7: column 'u' is mostly numbers, got "
        "'n/a'; line 8: column 'w' must be a finite number, got 'nan'. Change them, or leave out their rows or columns "
        "(`drop`)."
    )
    wide = [f"a column with quite a long name, number {i}" for i in range(200)]
    many = ";".join(["name", *wide]) + "\n" + "".join(f"R{i}" + ";1;x;" * 66 + ";" * 2 + "\n" for i in range(500))
    with pytest.raises(InvalidInput, match=r"and [0-9]+ more") as refused:
        read(tmp_path, many)
    assert len(str(refused.value)) < 650 + len(str(tmp_path))
    copies = "name," + ",".join(f"u{i}" for i in range(300)) + "\n"
    copies += "".join(f"R{i}" + f",{i}" * 300 + "\n" for i in range(9))
    with pytest.raises(ArmsDoNotSpan, match=r"and [0-9]+ more. Leave such features") as spanless:
        read(tmp_path, copies)
    assert len(str(spanless.value)) < 600 + len(str(tmp_path))
    uneven = "a,b\n" + "1,2,3\n" * 1_000
    with pytest.raises(InvalidInput, match=r"line 2: 2 cells are needed, got 3; line 3: .* and 994 more"):
        read(tmp_path, uneven)


def test_columns_may_have_commas_in_their_names(tmp_path: Path) -> None:
    """In options with a text, in lists, and in formulas between backticks."""
    text = 'name;"T, °C";"time, min";u\n' + "".join(f"R{i};{60 + i},5;{i * i % 7};{i % 3}\n" for i in range(9))
    for features in ("T, °C,u", "T, °C, u", ["T, °C", "u"]):
        assert read(tmp_path, text, features=features).feature_names == ("constant", "T, °C", "u")
    assert read(tmp_path, text, drop="u,time, min").feature_names == ("constant", "T, °C")
    formula = read(tmp_path, text, formula="`T, °C` * u + log(`T, °C`)")
    assert formula.feature_names == ("constant", "T, °C", "u", "log(`T, °C`)", "T, °C:u")
    with pytest.raises(InvalidInput, match=r"no column 'T, F' \(`features`\); did you mean 'T, °C'\?"):
        read(tmp_path, text, features=["T, F"])


def test_equal_names_are_said_with_the_other_errors(tmp_path: Path) -> None:
    """One look at the file is enough to mend both."""
    with pytest.raises(InvalidInput) as refused:
        read(tmp_path, "name,u,v\nA,1,0\nB,,1\nA,1,1\n")
    first, second = "'A' is in lines 2 and 4. Change one of them", "line 3: column 'u' has no value; fill it"
    assert 0 < str(refused.value).find(first) < str(refused.value).find(second)


def test_names_of_columns_with_commas_stand_in_quotation_marks(tmp_path: Path) -> None:
    """In lists; the features have them as they are."""
    text = 'name;"u, mol";v;"Preis, EUR"\nA;1,5;0;2\nB;0,5;1;3\nC;1,5;1;5\n'
    arms = read(tmp_path, text)
    assert arms.feature_names == ("constant", "u, mol", "v")
    said = str(arms.roles)
    assert "numbers     'u, mol', v\n" in said
    assert "decimal commas in 'u, mol')" in said
    assert "dropped     'Preis, EUR' (looks like a price)\n" in said
    assert arms.roles.not_used.startswith("Not used as features: 'Preis, EUR' (price). To use one, list all")
    assert said.count("Preis") == 2  # as dropped, and in the advice on prices


def test_numbers_with_a_unit_are_pointed_out() -> None:
    """As a category they lose their order; levels with other endings, and names such as 2D and x1, are left alone."""
    frame = {"temp": ["40 °C", "60 °C", "40 °C", "80 °C"], "kind": ["2D", "3E", "2D", "x1"], "u": [1, 2, 5, 7]}
    (said,) = read_arms({"name": list("abcd"), **frame}, drop="kind").roles.attention[:1]
    assert said.startswith("temp has numbers with a unit, such as '40 °C', taken as a category; ")
    assert said.endswith("for a trend write the numbers without '°C'.")
    assert not any("unit" in text for text in read_arms({"name": list("abcd"), **frame}, drop="temp").roles.attention)


def test_equal_names_are_said_before_a_cost_that_is_no_number(tmp_path: Path) -> None:
    """The first thing to mend."""
    with pytest.raises(InvalidInput, match="'A' is in lines 2 and 4"):
        read(tmp_path, "name,u,c\nA,1,x\nB,2,y\nA,3,z\n", cost_column="c")


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ("15,3 10,1 8,9 221 13 18,8", "u is 221 in line 5, and 8.9 to 18.8 in all other rows; a slip for 22.1?"),
        ("15,3 10,1 8,9 151 13 18,8", "u is 151 in line 5, and 8.9 to 18.8 in all other rows; a slip for 15.1?"),
        ("1 10 100 1000 10 1", ""),  # doses
        ("15 10 9 151 151 18", ""),  # twice is no slip
        ("15 10 9 60 13 18", ""),  # less than five times
        ("15 10 9 4000 13 18", ""),  # no shifted point explains it
        ("15 10 151", ""),  # too few rows
    ],
)
def test_a_number_with_a_shifted_decimal_point_is_pointed_out(tmp_path: Path, cells: str, said: str) -> None:
    """It would be the row that is measured most."""
    rows = [f"R-{n};{cell};{n % 2}" for n, cell in enumerate(cells.split())]
    (tmp_path / "arms.csv").write_text("\n".join(["name;u;v", *rows]) + "\n")
    attention = " ".join(sp.read_arms(tmp_path / "arms.csv").roles.attention)
    assert ("a slip for" in attention) == bool(said)
    assert said in attention
