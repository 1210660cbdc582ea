"""Arms that join others are read by the rules of the first table; unknown levels are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import surepick as sp
from surepick import InvalidInput, TableArms, TableWarning, read_arms
from surepick.arms.tables.joining import read_joining

HEADER = "batch;temp;time;solvent;Preis;remark\n"
FIRST = HEADER + "".join(
    f"F-{i:02d};{60 + 2 * (i % 7)},5;{i * i % 11};{solvent};{i},20;{'cloudy' if i == 3 else ''}\n"
    for i, solvent in enumerate(["ethanol", "water", "acetone"] * 5)
)
MORE = HEADER + "N-1;71,5;4;ethanol;3,00;new\nN-2;60;9;acetone;;\n"
FORMULA = "center(temp) * solvent + poly(time, 2)"


def read(folder: Path, text: str, **options: Any) -> TableArms:
    """Arms from the text of a CSV file."""
    (folder / "arms.csv").write_text(text, encoding="utf-8")
    return read_arms(folder / "arms.csv", **options)


@pytest.mark.parametrize(
    "options",
    [{}, {"interactions": True, "quadratic": True}, {"formula": FORMULA}, {"features": ["temp", "solvent"]}],
    ids=["columns", "products and squares", "formula", "two columns"],
)
def test_rows_of_the_first_table_have_the_same_features_again(tmp_path: Path, options: dict[str, Any]) -> None:
    """Centres and polynomials stay those of the first table, and so do reference levels that the rows do not have."""
    first = read(tmp_path, FIRST, **options)
    lines = FIRST.splitlines(keepends=True)
    again = read(tmp_path, HEADER + "".join(lines[2:5]), like=first)
    assert (again.feature_names, again.names) == (first.feature_names, ("F-01", "F-02", "F-03"))
    np.testing.assert_allclose(again.X, first.X[1:4], rtol=0, atol=1e-12)


def test_the_index_of_a_data_frame_names_the_arms(tmp_path: Path) -> None:
    """As it does for `read_arms`."""
    frame = pd.DataFrame({"temp": [71.5], "time": [4], "solvent": ["water"]}, index=["N-1"])
    assert read_arms(frame, like=read(tmp_path, FIRST)).names == ("N-1",)


def test_unknown_levels_are_refused_with_the_known_ones(tmp_path: Path) -> None:
    """All of them at once, and the nearest known one; a row of zeros would be the reference."""
    first = read(tmp_path, FIRST)
    with pytest.raises(InvalidInput) as refused:
        read(tmp_path, MORE.replace("ethanol", "Ethanoll").replace("acetone", "hexane"), like=first)
    assert (
        "lines 2 and 3: column 'solvent' has the unknown level 'Ethanoll' (did you mean 'ethanol'?) and 'hexane'; the "
        "known levels are acetone, ethanol and water."
    ) in str(refused.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (MORE.replace("71,5", "warm").replace(";60;", ";hot;"), "'temp' must be a number, got 'warm' and 'hot'"),
        (MORE.replace("71,5", ""), "line 2: column 'temp' has no value"),
        (MORE.replace("temp", "Temp"), r"none for 'temp'; did you mean 'Temp'\?"),
        (MORE.replace("N-2", "N-1"), "'N-1' is in lines 2 and 3"),
        (MORE.replace("71,5", "71.5"), "line 2: column 'temp' has decimal commas in the first table, here '71.5'"),
        (HEADER + "\n", "header line and at least one line"),
    ],
)
def test_other_errors_name_their_place(tmp_path: Path, text: str, complaint: str) -> None:
    """As for the first table."""
    first = read(tmp_path, FIRST)
    with pytest.raises(InvalidInput, match=complaint):
        read(tmp_path, text, like=first)


@pytest.mark.parametrize("options", [{}, {"formula": FORMULA}], ids=["columns", "formula"])
def test_arms_join_a_study_by_the_rules_of_its_table(tmp_path: Path, options: dict[str, Any]) -> None:
    """From a file or a data frame, also a second time; the log keeps every original column, the reference included."""
    arms = read(tmp_path, FIRST, **options)
    (tmp_path / "more.csv").write_text(MORE, encoding="utf-8")
    study = sp.create_study("s", arms=arms, noise_std=0.1, storage="memory:")
    study.reopen(reason="new", join=tmp_path / "more.csv")
    frame = pd.DataFrame({"batch": ["N-3"], "temp": [71.5], "time": [4], "solvent": ["ethanol"]})
    study.reopen(reason="newer", join=frame)
    loaded = sp.load_study("s", study.storage).state.catalog
    np.testing.assert_allclose(loaded.features(17), loaded.features(15))  # the same cells
    assert loaded.recipe(2) == {"temp": 64.5, "time": 4.0, "solvent": "acetone", "Preis": 2.2, "remark": None}
    assert loaded.recipe(16) == {"temp": 60.0, "time": 9.0, "solvent": "acetone", "Preis": None, "remark": None}
    assert loaded.recipe(17)["remark"] is None
    with pytest.raises(InvalidInput, match=r"unknown level 'etanol' \(did you mean 'ethanol'\?\)"):
        study.reopen(reason="typo", join=frame.assign(solvent="etanol", batch="N-4"))
    assert len(study.state.eras) == 3


def test_numbers_in_another_unit_are_questioned(tmp_path: Path) -> None:
    """Far outside the range of the first table, never a little outside; the arms are read all the same."""
    first = read(tmp_path, FIRST)
    with pytest.warns(TableWarning, match="column 'temp' has 344.5 where the other arms have 60.5 to 72.5; is that"):
        kelvin = read(tmp_path, MORE.replace("71,5", "344,5"), like=first)
    assert kelvin.X[0, 1] == 344.5
    assert read(tmp_path, MORE.replace("71,5", "80,125"), like=first).X[0, 1] == 80.125


def test_a_table_of_numbers_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    """Where all columns are features, these say everything; arms may join by the names of the features."""
    arms = read(tmp_path, "name,u,v\nA,1,0\nB,2,5\nC,4,1\n")
    study = sp.create_study("s", arms=arms, noise_std=0.1, storage="memory:")
    assert set(study.state.catalog.written) == {"kind", "rows", "names", "features"}
    study.reopen(reason="new", join={"D": [1.0, 3.0, 3.0]})
    assert study.state.catalog.recipe(3) == {"u": 3.0, "v": 3.0}


def test_older_logs_take_one_unknown_level_for_the_reference(tmp_path: Path) -> None:
    """They name no reference: two unknown levels, or one that looks like a slip, cannot be it."""
    first = read(tmp_path, FIRST, features=["temp", "solvent"], interactions=True, quadratic=True)
    written = {"features": first.feature_names, "names": first.names}
    (tmp_path / "more.csv").write_text(MORE, encoding="utf-8")
    old = read_joining(tmp_path / "more.csv", written, name_column="batch")
    new = read_arms(tmp_path / "more.csv", like=first)
    np.testing.assert_array_equal(old.X, new.X)
    for level in ("watter", "hexane"):
        (tmp_path / "more.csv").write_text(MORE.replace("ethanol", level), encoding="utf-8")
        with pytest.raises(InvalidInput, match=f"unknown level .*'{level}'.*the reference, which this log does not"):
            read_joining(tmp_path / "more.csv", written, name_column="batch")
