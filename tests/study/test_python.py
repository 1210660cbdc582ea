"""What Python people expect of a study: load if it exists, pickles, frames, loggers, short texts."""

import json
import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import surepick as sp
from surepick.errors import InvalidInput, StudyExists
from surepick.study.admin import difference
from tests.study.kinds import NAMES, ROWS
from tests.study.storages import Place, in_processes
from tests.study.tree_study import finish, means, new


def test_a_study_that_exists_is_loaded_on_request(place: Place) -> None:
    """The same call goes on with it; without the request it is refused."""
    given: dict[str, Any] = {"arms": sp.FiniteArms(ROWS, names=NAMES), "noise_std": 0.2, "storage": place.open()}
    first = sp.create_study("trees", **given, load_if_exists=True)
    (ask,) = first.ask()
    first.tell(ask, 0.5)
    again = sp.create_study("trees", **given, load_if_exists=True)
    assert [one.value for one in again.measurements] == [0.5]
    with pytest.raises(StudyExists, match="load it, delete it, or choose another name"):
        sp.create_study("trees", **given)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delta": 0.1}, "(delta=0.05 instead of delta=0.1)"),
        ({"budget": 40, "m": 2}, "(m=1 budget=None instead of m=2 budget=40)"),
        ({"lease": "2h"}, "(lease='1d' instead of lease='2h')"),
        ({"tracking": "current"}, "(tracking=None instead of tracking='current')"),
        ({"candidates": ROWS[:3]}, "(candidates not given there)"),
        ({"arms": ROWS[:3]}, "(4 arms instead of 3)"),
        ({"arms": sp.Sphere(2), "epsilon": 0.1}, "arms of the kind 'finite' instead of 'sphere')"),
        ({"arms": ROWS}, "(arms: row 0 is called elm instead of 0)"),
        ({"arms": sp.FiniteArms(ROWS, names=["elm", "yew", "ash", "fir"])}, "row 1 is called oak instead of yew"),
        (
            {"arms": sp.FiniteArms(ROWS + np.eye(4, 2) * [0.0, 1.0], names=NAMES)},
            "(arms: row 1 has the features [0.0, 1.0] instead of [0.0, 2.0])",
        ),
        (
            {"arms": pd.DataFrame(ROWS, columns=["u", "v"], index=NAMES)},
            "features of the arms 'x0, x1' instead of 'constant, u, v'",
        ),
    ],
)
def test_another_study_of_that_name_is_refused_with_what_differs(options: dict[str, Any], said: str) -> None:
    """Both sides are named, and nothing has changed."""
    study = new()
    given: dict[str, Any] = {"arms": sp.FiniteArms(ROWS, names=NAMES), "noise_std": 0.2, "storage": study.storage}
    with pytest.raises(StudyExists) as error:
        sp.create_study("trees", **given | options, load_if_exists=True)
    assert said in str(error.value)
    assert study.head[0] == 1


def test_a_study_is_compared_by_its_present_options() -> None:
    """A reopened study is another one; what other versions write more of arms is no difference."""
    study = new(budget=3)
    study.optimize(means)
    study.reopen(budget=50, reason="more money")
    assert difference(study.state, new(budget=3).state) == "budget=50 instead of budget=3"
    assert difference(study.state, new(budget=50).state) == ""
    other = new(budget=50)
    other.state.catalog.written["recipes"] = [["", ""]]
    assert difference(study.state, other.state) == ""


def tell_one(study: sp.Study) -> None:
    """Measure once, as another process does."""
    with study:
        (ask,) = study.ask()
        study.tell(ask, 0.25)


def test_a_study_travels_to_other_processes_by_its_address(shared: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pickle has no state; a relative path stays where it was."""
    study = new(storage=shared.open())
    monkeypatch.chdir("/")
    again = pickle.loads(pickle.dumps(study))
    assert (again.name, again.author) == ("trees", "ann")
    again.tell(arm="elm", value=0.5)
    again.close()
    in_processes(tell_one, [(study,), (study,)])
    assert sorted(one.told for one in study.measurements) == [0.25, 0.25, 0.5]


def test_a_pickle_of_what_is_gone_or_in_memory_is_refused(tmp_path: Path) -> None:
    """A sentence says what to do, and no file is made."""
    with pytest.raises(InvalidInput, match=r'cannot be pickled; create it in a file, storage="lab.db"'):
        pickle.dumps(new())
    study = new(storage=tmp_path / "lab.db")
    study.close()
    text = pickle.dumps(study)
    (tmp_path / "lab.db").unlink()
    with pytest.raises(sp.NoSuchStudy, match="there is no file"):
        pickle.loads(text)
    assert list(tmp_path.iterdir()) == []


def test_measurements_are_a_list_and_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A void one has no value; without pandas the table is columns."""
    study = new()
    for ask in study.ask(3):
        study.tell(ask, 0.5, worker="bob")
    study.tell(arm="fir", value=0.1)
    study.void(1, reason="spilt")
    seen = study.measurements
    assert isinstance(seen, list)
    frame = seen.to_frame()
    assert list(frame.columns) == list(seen.to_columns())
    assert frame["id"].tolist() == [1, 2, 3, 4]
    assert frame["value"].isna().tolist() == [True, False, False, False]
    assert frame["name"].iloc[3] == "fir"
    assert frame["author"].tolist() == ["bob"] * 3 + ["ann"]
    assert frame["changes"].iloc[0] == ["voided: spilt"]
    assert json.loads(json.dumps(seen.to_columns()))["ask"] == [1, 2, 3, None]
    assert pickle.loads(pickle.dumps(seen)) == seen
    assert list(new().measurements.to_frame().columns) == list(frame.columns)
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    assert seen.to_frame() == seen.to_columns()


def test_loggers_hear_what_happens_to_a_study(caplog: pytest.LogCaptureFixture) -> None:
    """At INFO what people care about, once; at DEBUG asks and results too."""
    caplog.set_level(logging.INFO, "surepick")
    study = new(budget=2)
    study.optimize(means)
    study.reopen(budget=100, reason="more money")
    finish(study)
    last = len(study.measurements)
    for one in range(1, last + 1):
        study.correct(one, 0.5 + one / 1000, reason="scale")
    lines = [record.getMessage() for record in caplog.records]
    assert lines[:4] == [
        "study trees: created in memory by ann",
        "study trees: the budget has ended",
        "study trees: reopened, more money",
        f"study trees: decided after {study.state.verdicts[0].n_pulls} pulls, best ash",
    ]
    assert "study trees: the verdict is withdrawn, the corrected values do not bear the verdict" in lines
    caplog.clear()
    caplog.set_level(logging.DEBUG, "surepick")
    study = new()
    (ask,) = study.ask(worker="bob")
    study.tell(ask, 0.5)
    study.void(1, reason="spilt")
    lines = [record.getMessage() for record in caplog.records]
    assert lines[-3:] == [
        f"study trees: bob is asked for {ask.name}",
        f"study trees: ann tells {ask.name} = 0.5",
        "study trees: voided by ann",
    ]


def test_a_claim_that_the_data_contradict_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Rewards that scatter far more than they were said to."""
    caplog.set_level(logging.INFO, "surepick")
    values, study = iter([3.0, -3.0] * 200), new(noise_std=0.01)
    with pytest.warns(sp.NoiseWarning):
        study.optimize(lambda _arm: next(values), max_pulls=60)
    assert study.status.guarantee == "withdrawn"
    assert [record.getMessage() for record in caplog.records if "withdrawn" in record.getMessage()] == [
        "study trees: the claim is withdrawn, the data contradict the model"
    ]


def test_nothing_is_printed_by_default(capfd: pytest.CaptureFixture[str]) -> None:
    """Also without any handler of an application."""
    study = new(budget=3)
    study.optimize(means)
    assert capfd.readouterr() == ("", "")
    assert any(isinstance(one, logging.NullHandler) for one in logging.getLogger("surepick").handlers)


def test_a_path_in_the_place_of_the_kind_of_file(tmp_path: Path) -> None:
    """The error shows the order, and nothing is written."""
    for path in (tmp_path / "log.csv", str(tmp_path / "log.csv")):
        with pytest.raises(sp.InvalidInput, match=r'a path comes after it: study.export\("csv", "log.csv"\)'):
            new().export(path)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
