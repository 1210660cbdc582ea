"""A database of the first schema, kept as it was written: every later version opens it and says the same."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from surepick.study.admin import load_study
from surepick.study.certificate import SINCE_FORMAT_2, verify
from surepick.study.events import Row, canonical, rows_of
from surepick.study.storage import open_storage
from surepick.study.storage.tables import NEWEST
from surepick.study.study import Study
from tests.study.golden.make import ANSWERS, DATABASE, EARLIER, SQL, answers
from tools import verify_certificate


def check(study: Study) -> None:
    """It says what it said, goes on, and its certificate agrees with its log."""
    kept = json.loads(ANSWERS.read_text(encoding="utf-8"))
    found = json.loads(json.dumps(answers(study)))
    for name in ("theta", "evidence"):
        assert found.pop(name) == pytest.approx(kept.pop(name), rel=1e-6)
    assert found == kept
    assert set(kept["kinds"]) == {
        "created", "planned", "asked", "told", "failed", "expired", "voided", "corrected", "restored", "stopped",
        "resumed", "audited", "reopened",
    }  # fmt: skip
    assert verify(study.certificate(), study.rows()).problems == []
    (ask,) = study.ask(1, worker="later")
    study.tell(ask.id, 0.5)
    assert len(study.measurements) == len(kept["measurements"]) + 1


def test_an_sqlite_file_of_the_first_schema_opens(tmp_path: Path) -> None:
    """It is brought to the tables of this version, and nothing in it is lost or read otherwise."""
    path = tmp_path / "old.db"
    shutil.copy(DATABASE, path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT version_num FROM surepick_version").fetchall() == [("1",)]
    with closing(open_storage(path)) as storage:
        check(load_study("lived", storage))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT version_num FROM surepick_version").fetchall() == [(str(NEWEST),)]


def test_reading_leaves_the_tables_of_the_first_schema_as_they_are(tmp_path: Path) -> None:
    """A look changes no file; summaries have no place there until something is written."""
    path = tmp_path / "old.db"
    shutil.copy(DATABASE, path)

    def tables() -> set[str]:
        with closing(sqlite3.connect(path)) as connection:
            return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    before = tables()
    with closing(open_storage(path)) as storage:
        last = storage.read("lived")[-1]
        storage.keep_summary("lived", last.n, last.hash, "{}")
        (found,) = [one for one in storage.summaries() if one.name == "lived"]
        assert (found.n_events, found.hash, found.kept) == (last.n, last.hash, None)
        assert tables() == before
        storage.create("new", rows_of([canonical({"n": 1})]))
        assert tables() == before | {"summaries", "tokens"}
        storage.keep_summary("lived", last.n, last.hash, "{}")
        assert [one.kept and one.kept.n for one in storage.summaries() if one.name == "lived"] == [last.n]
        assert storage.read("lived")[-1] == last


def test_a_postgresql_database_of_the_first_schema_opens(postgres_url: str) -> None:
    """The same rows in the same tables there."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(SQL.read_bytes())
    with closing(open_storage(postgres_url)) as storage:
        check(load_study("lived", storage))
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT version_num FROM surepick_version").fetchall() == [(str(NEWEST),)]


def test_a_study_of_before_the_option_has_its_earlier_results_as_evidence(tmp_path: Path) -> None:
    """Forty results were told before the first ask and counted: the same verdict, for the package and stand-alone."""
    kept = json.loads(EARLIER.read_text(encoding="utf-8"))
    certificate, rows = kept["certificate"], [Row(one["n"], one["event"], one["hash"]) for one in kept["log"]]
    assert "earlier" not in json.loads(rows[0].text)["options"]
    report = verify(certificate, rows)
    assert report.problems == []
    assert "verdict of event 188: a" in report.notes
    with closing(open_storage("memory:")) as storage:
        storage.create("old", rows)
        study = load_study("old", storage)
        assert (study.stopped, study.learner.earlier, study.status.n_pulls) == (True, "evidence", 136)
        again = study.certificate()
        assert again["evidence"] == certificate["evidence"]
        assert {*again} - {*certificate} == {*SINCE_FORMAT_2}
        # Without them it would not have stopped there.
        events = [json.loads(row.text) for row in rows]
        events[0]["options"]["earlier"] = "guidance"
        assert not verify(certificate, rows_of([canonical(event) for event in events])).ok
    files = [tmp_path / "certificate.json", tmp_path / "log.json"]
    for file, content in zip(files, (certificate, {"log": kept["log"]}), strict=True):
        file.write_text(json.dumps(content), encoding="utf-8")
    assert verify_certificate.main([str(file) for file in files]) == verify_certificate.NOT_ALL_CHECKED


def test_the_golden_files_hold_the_same_log() -> None:
    """The file for SQLite and the one for PostgreSQL are two forms of one study."""
    sql = SQL.read_text(encoding="utf-8")
    with closing(sqlite3.connect(f"file:{DATABASE}?mode=ro&immutable=1", uri=True)) as connection:
        rows = connection.execute("SELECT n, text, hash FROM events ORDER BY n").fetchall()
    assert sql.count("\n(1, ") == len(rows)
    for n, text, digest in rows:
        assert f"(1, {n}, '{text.replace(chr(39), chr(39) * 2)}', '{digest}')" in sql
