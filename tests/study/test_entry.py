"""Values as they come into a study from Python: questions are warnings, and every value is recorded."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import surepick as sp
from surepick.errors import Conflict
from surepick.study.exchange import sheet_of, write_sheet
from surepick.study.requests import StudyAsk

READINGS = (69.8, 70.1, 70.4, 69.9)


def one_mean() -> sp.Study:
    """A study of one feature with four readings near 70."""
    study = sp.create_study("one", arms=[[1.0], [2.0]], storage="memory:")
    for value in READINGS:
        study.tell(arm=0, value=value)
    return study


def test_a_value_far_apart_warns_once_and_is_recorded() -> None:
    """The warning names the Python call; the same told again changes nothing and warns of nothing."""
    study = one_mean()
    with pytest.warns(sp.EntryWarning, match=r'study\.correct\(5, 69\.95, reason="mistyped"\)'):
        study.tell(arm=0, value=699.5, key="k")
    assert study.measurements[-1].value == 699.5
    study.tell(arm=0, value=699.5, key="k")  # any warning is an error in tests
    study.tell(arm=0, value=7004.0, questions=False)
    assert study.question(6) is not None
    study.void(6, reason="spilt")
    assert study.question(6) is None
    study.correct(5, 69.95, reason="mistyped")
    assert study.question(5) is None


def test_a_warning_that_is_an_error_loses_nothing() -> None:
    """Where warnings are errors, the value is on record before the error."""
    study = one_mean()
    with pytest.raises(sp.EntryWarning):
        study.tell(arm=0, value=699.5)
    assert [one.value for one in study.measurements] == [*READINGS, 699.5]


def test_a_function_mistypes_nothing() -> None:
    """`optimize` asks no questions about the values of a function."""
    study, noise = sp.create_study("f", arms=[[1.0], [1.5]], storage="memory:"), iter([*READINGS, 699.5, 70.0, 70.1])
    with pytest.warns(sp.ModelWarning) as seen:
        study.optimize(lambda _arm: next(noise), max_pulls=7)
    assert sp.EntryWarning not in {one.category for one in seen}
    assert study.question(5) is not None


def test_pass_or_fail_is_noticed_in_python() -> None:
    """The tenth 0 or 1 warns, in words of Python, whoever tells; binary rewards do not."""
    study = sp.create_study("clicks", arms=np.eye(3), storage="memory:")
    rng = np.random.default_rng(0)
    with pytest.warns(sp.EntryWarning, match='these look like pass/fail.*rewards="binary"') as seen:
        study.optimize(lambda _arm: float(rng.random() < 0.5), max_pulls=20)
    assert len([one for one in seen if one.category is sp.EntryWarning]) == 1
    study.reopen(rewards="binary", reason="pass/fail")
    study.tell(arm=0, value=[1, 0, True])
    other = sp.create_study("binary", arms=np.eye(3), rewards="binary", storage="memory:")
    other.tell(arm=0, value=[0, 1] * 8)


@pytest.mark.parametrize(("odd", "is_slip"), [(0.0, False), (8.0, True)])
def test_a_zero_or_one_is_never_called_a_slip(odd: float, *, is_slip: bool) -> None:
    """Where a single failure among passes alarms the watch of a block, the words are about pass and fail."""
    learner = sp.create_learner("lazy-track-and-stop", [[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    for n in range(20):
        (arm,) = learner.next_arms()
        learner.tell(arm, odd if n == 15 else 1.0)
    learner.state.settled.model.has_slip = True
    said = learner.state.settled.explain_misfit(int)
    assert ("stands apart" in said) is is_slip
    assert ('rewards="binary"' in said) is not is_slip


# ---- sheets and recipes

FRAME = pd.DataFrame(
    {
        "value": [1.0, 2.0, 3.0, 4.0],
        "supplier": ["=Beta", "ACME", "ACME", "=Beta"],
        "day": pd.to_datetime(["2026-03-01"] * 2 + ["2026-03-02"] * 2),
    },
    index=["a", "b", "c", "d"],
)


def frames(where: str | Path = "memory:") -> sp.Study:
    """A study of a data frame whose columns have the names of a sheet."""
    return sp.create_study("frames", arms=sp.read_arms(FRAME), storage=where)


@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_titles_of_a_sheet_are_never_mixed_up(tmp_path: Path, suffix: str) -> None:
    """A column of the recipe that is called value has another title; no cell is a formula, and days are texts."""
    study, path = frames(), tmp_path / f"asks{suffix}"
    asks = study.ask(4)
    titles, first, *_ = sheet_of(asks)
    assert titles == ["ask", "arm", "value (recipe)", "supplier", "day", "value", "comment"]
    assert first[2:] == [
        FRAME["value"].iloc[asks[0].arm],
        FRAME["supplier"].iloc[asks[0].arm],
        "2026-03-01",
        None,
        None,
    ]
    write_sheet(asks, path)
    assert study.tell_file(path) == []
    table = pd.read_csv(path) if suffix == ".csv" else pd.read_excel(path)
    table["value"] = table["value"].astype(float)
    table.loc[0, "value"] = 5.25
    table.to_csv(path, index=False, sep=";", decimal=",") if suffix == ".csv" else table.to_excel(path, index=False)
    for _ in range(2):
        assert [one.value for one in study.tell_file(path)] == [5.25]
    assert len(study.measurements) == 1
    table.loc[0, "value"] = 6.0
    table.to_csv(path, index=False, sep=";", decimal=",") if suffix == ".csv" else table.to_excel(path, index=False)
    with pytest.raises(sp.InvalidInput, match="use `correct` for measurement 1"):
        study.tell_file(path)


def test_a_sheet_with_questions_warns(tmp_path: Path) -> None:
    """Every odd value of a file warns, and all are recorded."""
    study = one_mean()
    asks = study.ask(2)
    (tmp_path / "asks.csv").write_text(f"ask,value\n{asks[0].id},{70.2 * (1 + asks[0].arm)}\n{asks[1].id},99999\n")
    with pytest.warns(sp.EntryWarning, match="99999 is recorded"):
        assert len(study.tell_file(tmp_path / "asks.csv")) == 2


def test_vectors_go_to_sheets_too() -> None:
    """An arm of a set of vectors has a column for each entry."""
    study = sp.create_study("sphere", arms=sp.Sphere(2), epsilon=0.1, storage="memory:")
    (ask,) = study.ask()
    titles, row = sheet_of([ask])
    assert titles == ["ask", "arm", "entry 1", "entry 2", "value", "comment"]
    assert row[2:4] == list(ask.arm)


def test_columns_that_are_only_shown_have_numbers_where_they_have_decimal_commas(tmp_path: Path) -> None:
    """Prices as other numbers; a column with one text, and a code without commas, stay as they are in the table."""
    path = tmp_path / "arms.csv"
    path.write_text("name;x;price;remark;code\nA;0,5;12,40;1,5;007\nB;1;8;late;008\nC;4;;2,5;009\n")
    arms = sp.read_arms(path, drop=["price", "remark", "code"])
    kept = sp.create_study("p", arms=arms, storage="memory:").state.catalog
    assert [kept.recipe(key)["price"] for key in range(3)] == [12.4, 8.0, None]
    assert kept.recipe(0) == {"x": 0.5, "price": 12.4, "remark": "1,5", "code": "007"}
    path.write_text('name,x,price\nA,1,"1,500"\nB,2,"1,600"\n')
    kept = sp.create_study("q", arms=sp.read_arms(path, drop=["price"]), storage="memory:").state.catalog
    assert kept.recipe(0)["price"] == "1,500", "1500 or 1.5"


def test_recipes_are_kept_only_where_features_do_not_say_all(tmp_path: Path) -> None:
    """An array, and a table of numbers, leave the log as it was; a level or a column left out is kept, and reloads."""
    numbers = sp.create_study("n", arms=sp.read_arms({"x": [1, 2, 4], "y": [3.0, 1.0, 2.0]}), storage="memory:")
    assert "table" not in numbers.log[0]["arms"]
    assert numbers.state.catalog.recipe(1) == {"x": 2.0, "y": 1.0}
    remarks = sp.read_arms({"x": [1, 2, 4], "remark": ["", "late", None]}, features=["x"])
    kept = sp.create_study("r", arms=remarks, storage="memory:").state.catalog
    assert [kept.recipe(key) for key in range(2)] == [{"x": 1.0, "remark": None}, {"x": 2.0, "remark": "late"}]
    frames(tmp_path / "lab.db").close()
    with sp.load_study(storage=tmp_path / "lab.db") as study:
        assert study.state.catalog.recipe(1) == {"value": 2.0, "supplier": "ACME", "day": "2026-03-01"}
        # A log of before has features alone: the level without a feature is not known.
        study.state.catalog.written.pop("table")
        assert study.state.catalog.recipe(0)["value"] == 1.0
        known = {key: study.state.catalog.recipe(key).get("supplier") for key in range(4)}
        assert known == {0: None, 1: "ACME", 2: "ACME", 3: None}


def test_asks_stay_hashable() -> None:
    """A recipe takes no part in comparing asks."""
    asks = frames().ask(2)
    assert len(set(asks)) == 2
    assert isinstance(asks[0], StudyAsk)


def test_an_ask_answered_by_another_value_is_a_conflict() -> None:
    """As before, for single values."""
    study = one_mean()
    (ask,) = study.ask()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sp.EntryWarning)
        study.tell(ask, 70.0)
        with pytest.raises(Conflict):
            study.tell(ask, 71.0)
