from pathlib import Path

import numpy as np
import pytest

from surepick.app.armfile import read_arms, read_history
from surepick.errors import ArmsDoNotSpan, InvalidInput


def read(folder: Path, text: str, **options: object):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """Arms from the text of a CSV file."""
    path = folder / "arms.csv"
    path.write_text(text, encoding="utf-8")
    settings = {"name_column": None, "intercept": None, "on_span": False, **options}
    return read_arms(path, **settings)  # type: ignore[arg-type]


def test_numbers_are_features_and_unique_text_is_the_name(tmp_path: Path) -> None:
    """The first column of text without repetition names the arms; numbers are used as they are."""
    file = read(tmp_path, "kind,paint,gloss,drying\nx,A,1,0\nx,B,0,1\ny,C,.5,.5\ny,D,0,0\nx,E,2,2\n")
    assert file.arms.names == ("A", "B", "C", "D", "E")
    assert file.name_column == "paint"
    assert file.arms.feature_names == ("constant", "kind=y", "gloss", "drying")
    assert "names from column 'paint'" in file.describe()


def test_a_column_headed_id_is_a_name_even_if_numeric(tmp_path: Path) -> None:
    """Numbers that only tell arms apart do not become a feature."""
    file = read(tmp_path, "id,u,v\n7,1,0\n9,0,1\n")
    assert file.arms.names == ("7", "9")
    assert file.arms.feature_names == ("u", "v")
    assert file.index("9") == 1


def test_without_names_rows_are_numbered(tmp_path: Path) -> None:
    """Row numbers stand for the arms, in history too."""
    file = read(tmp_path, "u,v\n1,0\n0,1\n")
    assert file.arms.names is None
    assert file.index("1") == 1
    with pytest.raises(InvalidInput, match="row number from 0 to 1"):
        file.index("2")


def test_name_column_intercept_and_span_are_options(tmp_path: Path) -> None:
    """The user may name the column, add a constant and drop redundant features."""
    text = "u,v,code\n1,2,3\n2,4,5\n0,0,9\n"
    with pytest.raises(ArmsDoNotSpan, match=r"arms.csv: arms must span R.3 but have rank 2; .* with --on-span"):
        read(tmp_path, text, name_column="code")
    file = read(tmp_path, text, name_column="code", on_span=True, intercept=True)
    assert file.arms.names == ("3", "5", "9")
    assert file.arms.feature_names in [("constant", "u"), ("constant", "v")]


def test_npy_files_are_read(tmp_path: Path) -> None:
    """A matrix in .npy form is a set of arms without names."""
    np.save(tmp_path / "arms.npy", np.eye(3))
    file = read_arms(tmp_path / "arms.npy", name_column=None, intercept=False, on_span=False)
    np.testing.assert_array_equal(file.arms.gather([0, 1, 2]), np.eye(3))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "header line and at least one"),
        ("a,b\n", "header line and at least one"),
        ("1,2\n3,4\n", "numbers in its header"),
        ("a,a\n1,2\n3,4\n", "different name for every column"),
        ("a,\n1,2\n3,4\n", "different name for every column"),
        ("a,b\n1,2\n3\n", "line 3: 2 cells are needed, got 1"),
        ("a,b\n1,2\n\n3,\n", "line 4: column 'b' has no value"),
        ("name\nA\nB\n", "no feature columns"),
        ("u,v\n1,0\n2,1\n\nn/a,1\n", r"arms.csv line 5: column 'u' is mostly numbers, got 'n/a'"),
        ("u,v\n1,0\n2,1\n1,2\nn/a,1\n", r"line 5: column 'u' .* if it is a category, spell its levels as words"),
        ('u,v\n"1,5",0\n"2,5",1\n"1,5",2\n', r"line 2: column 'u' is mostly numbers, got '1,5'; .* decimal point"),
        ("name,u,v\nA,1,0\nB,nan,1\n", "line 3: column 'u' must be a finite number, got 'nan'"),
        ("name,u,v\nA,1,0\nB,1,-inf\n", "line 3: column 'v' must be a finite number, got '-inf'"),
        ("name,u,v\nA,1,0\nB,0,1\n\nA,1,1\n", "line 5: the name 'A' is that of line 2 too"),
        ("name;u;v\nA;1;0\nB;0;1\n", "must have commas between its columns, and looks as if it had ';'"),
        ("u;v\n1,5;0\n0;1,5\n", "must have commas between its columns, and looks as if it had ';'"),
        ("name\tu\tv\nA\t1\t0\nB\t0\t1\n", "must have commas between its columns, and looks as if it had tabs"),
    ],
)
def test_bad_files_are_refused_with_the_place(tmp_path: Path, text: str, complaint: str) -> None:
    """What is wrong with a file is said with its line and column, as misuse."""
    with pytest.raises(InvalidInput, match=complaint):
        read(tmp_path, text)


def test_categories_and_names_may_contain_numbers(tmp_path: Path) -> None:
    """Half of the cells or fewer: a category. A column that is said to hold names may hold anything."""
    file = read(tmp_path, "name,size,u\n1,S,1\n2,M,2\n2b,42,3\n3,44,1\n4,S,2\n5,42,1\n")
    assert file.arms.feature_names == ("constant", "size=44", "size=M", "size=S", "u")
    text = "code,u,v\n1,1,0\n2,0,1\n2b,1,1\n"
    with pytest.raises(InvalidInput, match=r"line 4: column 'code' .* if it names the arms, say --name-column 'code'"):
        read(tmp_path, text)
    assert read(tmp_path, text, name_column="code").arms.names == ("1", "2", "2b")


def test_missing_and_broken_files_are_refused(tmp_path: Path) -> None:
    """A file that is not there, and one that is no .npy although it says so."""
    for name in ("none.csv", "none.npy"):
        with pytest.raises(InvalidInput, match="No such file"):
            read_arms(tmp_path / name, name_column=None, intercept=False, on_span=False)
    (tmp_path / "bad.npy").write_text("1,2\n")
    with pytest.raises(InvalidInput, match="cannot read"):
        read_arms(tmp_path / "bad.npy", name_column=None, intercept=False, on_span=False)
    (tmp_path / "bad.csv").write_bytes(b"a,b\n\xff\xfe,1\n")
    with pytest.raises(InvalidInput, match="cannot read"):
        read_arms(tmp_path / "bad.csv", name_column=None, intercept=False, on_span=False)


def test_history_names_arms_and_skips_failed_measurements(tmp_path: Path) -> None:
    """Pairs come in order; a line without a reward was a failed measurement; comments above the header are skipped."""
    file = read(tmp_path, "name,u,v\nA,1,0\nB,0,1\n")
    path = tmp_path / "history.csv"
    path.write_text("# of last week\nwhen,arm,reward\nmon,B,0.5\ntue,A,\nwed,A,-1\n")
    assert read_history(path, file) == [(1, 0.5), (0, -1.0)]
    path.write_text("arm,reward\nB,high\n")
    with pytest.raises(InvalidInput, match="line 2: the reward must be a number"):
        read_history(path, file)
    path.write_text("arm,reward\nZ,1\n")
    with pytest.raises(InvalidInput, match=r"history.csv line 2: 'Z' is not a name"):
        read_history(path, file)
    path.write_text("arm,value\nB,1\n")
    with pytest.raises(InvalidInput, match="columns arm and reward"):
        read_history(path, file)
