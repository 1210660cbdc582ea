"""Databases and result files of this version open in every later one, and the same deeds leave the same events."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import surepick as sp
from tests.golden.instances import differences, read
from tests.golden.study import DATABASE, DEEDS, KINDS, RECORDS, RESULT, said, script, shown

KEPT = read(RECORDS)


def _plain(found: Any) -> Any:
    return json.loads(json.dumps(found))


@pytest.fixture
def opened(tmp_path: Path) -> Path:
    """A folder with the database, which may be written to."""
    shutil.copy(DATABASE, tmp_path / "studies.db")
    return tmp_path


def test_the_database_opens_and_says_what_it_said(opened: Path) -> None:
    """Status, answer, measurements, certificate and events of every study are those recorded."""
    of_studies = {name: each for name, each in KEPT.items() if not name.startswith("result")}
    assert list(differences(_plain(said(opened)), of_studies)) == []


def test_a_study_of_the_database_goes_on(opened: Path) -> None:
    """Its open ask takes a result, and further asks come."""
    with sp.load_study("eventful", str(opened / "studies.db")) as study:
        (waiting,) = study.pending
        before = len(study.measurements)
        study.tell(waiting.id, 0.4)
        (ask,) = study.ask(1, worker="later")
        study.tell(ask.id, 0.5)
        assert len(study.measurements) == before + 2


def test_every_kind_of_event_is_in_the_database() -> None:
    """A kind that is missing here could change its form unseen."""
    assert {event["kind"] for event in KEPT["copy: events"]} == KINDS


def test_the_same_deeds_leave_the_same_events_and_the_same_result_file(tmp_path: Path) -> None:
    """Everything done again, in a new database, differs by times, hashes and random ids alone."""
    assert list(differences(_plain(script(tmp_path)), read(DEEDS))) == []


def test_the_result_file_loads() -> None:
    """It says what the result said that was saved."""
    assert list(differences(_plain(shown(sp.Result.load(RESULT))), KEPT["result"])) == []
