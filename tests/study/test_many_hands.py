"""Studies with many hands: several processes at once, kills, full disks, servers that stop, clocks that jump.

`benchmarks/study.py` does the same with more processes and for longer.
"""

import resource
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest

from benchmarks.study_common import NAME, check, endless, value_of
from benchmarks.study_crash import go_on, kill_one, noted, work, workers
from benchmarks.study_points import ACKNOWLEDGED, OPERATIONS, REFUSED, base, check_after, rows_of, try_sizes
from surepick.errors import Conflict, StorageError
from surepick.study import events, log
from surepick.study.admin import create_study, load_study
from surepick.study.study import Study, StudyAsk
from tests.postgres import Server
from tests.study.storages import PROCESSES, Place, in_processes, set_time
from tests.waiting import until


def pull(study: Study, worker: str = "me") -> StudyAsk:
    """Ask for one and tell it."""
    (ask,) = study.ask(1, worker=worker)
    study.tell(ask.id, value_of(ask.id, ask.arm), worker=worker)
    return ask


def test_four_processes_lose_nothing_and_double_nothing(shared: Place, tmp_path: Path) -> None:
    """Each asks for one and tells one, fifty times: all results are there, each once, with their values."""
    endless(shared.open())
    notes = tmp_path / "notes"
    in_processes(work, [(shared.url, f"w{i}", str(notes), 50) for i in range(4)])
    found = check(shared.url, acknowledged=noted(notes))
    assert (found.n_asked, found.n_told, found.n_open, found.n_expired) == (200, 200, 0, 0)
    assert len(noted(notes)) == 200
    assert {one.by for one in load_study(NAME, shared.open()).measurements} == {"w0", "w1", "w2", "w3"}


def test_two_studies_at_once_do_not_mix(shared: Place, tmp_path: Path) -> None:
    """Two processes on each of two studies in one place: each log is whole and has its own results."""
    for name in ("a", "b"):
        endless(shared.open(), name)
    in_processes(work, [(shared.url, f"w{i}", str(tmp_path / name), 20, name) for name in "ab" for i in range(2)])
    for name, other in ("ab", "ba"):
        found = check(shared.url, name, acknowledged=noted(tmp_path / name), beside=[other])
        assert (found.n_asked, found.n_told) == (40, 40)


def test_kills_lose_nothing_that_was_acknowledged(shared: Place, tmp_path: Path) -> None:
    """Five times one of three workers is killed in mid-work; what they left is measured by others; all goes on."""
    notes, lease, rng = tmp_path / "notes", 1.0, np.random.default_rng(5)
    endless(shared.open(), lease=lease)
    with workers(shared.url, 3, notes) as running:
        for i in range(5):
            before = len(noted(notes))
            until(lambda before=before: len(noted(notes)) >= before + 5)  # type: ignore[misc]
            kill_one(running, shared.url, f"new{i}", notes, rng)
        until(lambda: len(noted(notes)) >= before + 10)
    acknowledged = noted(notes)
    n_after = go_on(shared.url, lease)
    found = check(shared.url, acknowledged=acknowledged)
    assert found.n_told - n_after - len(acknowledged) <= 8, "at most one of each that was killed"
    assert (found.n_open, found.n_unanswered) == (0, 0)


def asks_and_dies(url: str) -> None:
    """A worker that never answers."""
    load_study(NAME, url).ask(3, worker="gone")


def test_what_the_dead_were_asked_for_is_asked_again(shared: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before their lease is over; then under new ids and the same numbers; a late result is one more."""
    study = endless(shared.open(), lease="1h")
    in_processes(asks_and_dies, [(shared.url,)])
    lost = {one.id: one for one in study.pending}
    assert len(lost) == 3
    pull(study)
    assert len(study.pending) == 3

    set_time(monkeypatch, lambda: datetime.now(UTC) + timedelta(hours=2))
    numbers = {one.number for one in study.state.attempts.values() if one.id in lost}
    again = []
    while numbers:
        ask = pull(study)
        if (number := study.state.attempts[ask.id].number) in numbers:
            assert ask.id not in lost
            assert ask.reason.endswith("asked again, since an attempt before gave no result")
            numbers.discard(number)
            again.append(ask)
    assert sorted(one.arm for one in again) == sorted(one.arm for one in lost.values())
    assert study.pending == []

    late = next(iter(lost.values()))
    n = len(study.measurements)
    study.tell(late.id, value_of(late.id, late.arm), worker="gone")
    assert len(study.measurements) == n + 1
    check(shared.url)


def test_a_clock_that_goes_backwards_does_no_harm(shared: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day back, and two days ahead: events stay in order, leases end too late or too early, nothing is lost."""
    study = endless(shared.open(), lease="1h")
    pull(study)
    (held,) = study.ask(1, worker="slow")
    set_time(monkeypatch, lambda: datetime.now(UTC) - timedelta(days=1))
    pull(study)
    assert [one.id for one in study.pending] == [held.id]
    times = [event["at"] for event in study.log]
    assert times != sorted(times)

    set_time(monkeypatch, lambda: datetime.now(UTC) + timedelta(days=1))
    pull(study)
    assert study.pending == []
    monkeypatch.undo()
    study.tell(held.id, value_of(held.id, held.arm), worker="slow")
    found = check(shared.url)
    assert (found.n_told, found.n_expired) == (4, 1)
    assert load_study(NAME, shared.open()).measurements == study.measurements


def fills_the_disk(path: str, notes: str) -> None:
    """Measure until files may not grow, see what is said, make room, and go on with the same object."""
    study, before = load_study(NAME, path), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, before[1]))
    said = ""
    while not said:
        (ask,) = study.ask(1, worker="w")
        try:
            study.tell(ask.id, value_of(ask.id, ask.arm), worker="w" * 2_000)
        except StorageError as error:
            said = str(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    n = len(study.measurements)
    study.tell(ask.id, value_of(ask.id, ask.arm), worker="w")
    study.tell(ask.id, value_of(ask.id, ask.arm), worker="w")
    with pytest.raises(Conflict, match="has the result"):
        study.tell(ask.id, 0.0, worker="w")
    assert len(study.measurements) <= n + 1
    pull(study)
    Path(notes).write_text(f"{len(study.measurements)} {said}")


def test_a_disk_that_fills_up_during_a_tell_leaves_the_study_usable(tmp_path: Path) -> None:
    """The error says what to do; told again when there is room, the result is there once."""
    path, notes = tmp_path / "lab.db", tmp_path / "notes"
    endless(str(path)).storage.close()
    in_processes(fills_the_disk, [(str(path), str(notes))])
    n, _, said = notes.read_text().partition(" ")
    assert said.startswith(f"cannot write study 'load' in {path}: ")
    assert "make room on the disk" in said or "check the disk: it is full" in said
    found = check(str(path))
    assert found.n_told == int(n)
    assert (found.n_open, found.n_expired) == (0, 0)


def test_a_server_that_stops_in_mid_work_holds_up_and_loses_nothing() -> None:
    """While it is down the error says so; when it is up again the same object goes on where it was."""
    server = Server(Path(mkdtemp(prefix="surepick-")))
    try:
        server.create()
        server.start()
        study = create_study("mix", arms=np.eye(3), noise_std=1.0, storage=server.url("postgres"))
        with closing(study.storage):
            (first, second) = study.ask(2, worker="w")
            study.tell(first.id, 1.0)
            server.stop()
            for call in (lambda: study.tell(second.id, 2.0), lambda: study.ask(1), lambda: study.status):
                with pytest.raises(StorageError, match=r"cannot .* in PostgreSQL database .* check that the server"):
                    call()
            server.start()
            study.tell(second.id, 2.0)
            assert [one.told for one in study.measurements] == [1.0, 2.0]
            assert [one.told for one in load_study("mix", study.storage).measurements] == [1.0, 2.0]
            assert len(study.ask(1)) == 1
    finally:
        server.remove()


def clock_ahead(url: str, n: int, is_loaded: Any, may_go: Any) -> None:
    """A worker on a machine whose clock is an hour ahead."""
    events.now = lambda: datetime.now(UTC) + timedelta(hours=1)
    study = load_study(NAME, url)
    is_loaded.set()
    assert may_go.wait(60)
    for _ in range(n):
        pull(study, "ahead")


def test_a_clock_that_is_ahead_ends_no_lease(shared: Place) -> None:
    """Asks with leases of half an hour are open while a worker measures whose clock is an hour ahead."""
    study, is_loaded, may_go = endless(shared.open(), lease="30m"), PROCESSES.Event(), PROCESSES.Event()
    ahead = PROCESSES.Process(target=clock_ahead, args=(shared.url, 30, is_loaded, may_go))
    ahead.start()
    assert is_loaded.wait(60)
    held = study.ask(3, worker="slow")
    may_go.set()
    ahead.join(60)
    assert ahead.exitcode == 0
    for ask in held:
        study.tell(ask.id, value_of(ask.id, ask.arm), worker="slow")
    found = check(shared.url)
    assert (found.n_told, found.n_expired, found.n_asked_again) == (33, 0, 0)


def test_a_process_measures_leases_itself(shared: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that jumps ahead ends no lease that a process saw being given; what it did not see ends by the clock."""
    study, other = endless(shared.open(), lease="1h"), load_study(NAME, shared.open())
    other.ask(2, worker="slow")
    assert len(study.pending) == 2
    start, passed = datetime.now(UTC), [timedelta(0)]
    real = log.elapsed()
    set_time(monkeypatch, lambda: start + timedelta(hours=3))  # the clock of machine and server is set
    monkeypatch.setattr(log, "elapsed", lambda: real + passed[0].total_seconds())
    pull(study)
    assert len(study.pending) == 2
    passed[0] += timedelta(minutes=59)
    pull(study)
    assert len(study.pending) == 2
    passed[0] += timedelta(minutes=2)
    pull(study)
    assert study.pending == []
    found = check(shared.url)
    assert (found.n_told, found.n_expired) == (3, 2)


def test_a_process_that_looked_away_knows_when_it_looked_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ask that was made meanwhile is as old as its time says, and at most as old as that look."""
    study = endless("memory:", lease="1h")
    other, time = load_study(NAME, study.storage), [datetime.now(UTC)]
    set_time(monkeypatch, lambda: time[0])
    pull(study)
    time[0] += timedelta(hours=1)
    other.ask(1, worker="slow")
    time[0] += timedelta(minutes=59)
    pull(study)
    assert len(study.pending) == 1
    time[0] += timedelta(minutes=2)
    pull(study)
    assert study.pending == []


def stops_in_mid_write(operation: str, ends: str) -> None:
    """Stop an operation in the middle of writes to the write-ahead log, and beyond it."""
    found = try_sizes(operation, (40, 4_160, 33_000))
    Path(ends).write_text(" ".join(found))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_that_stops_in_mid_write_is_there_whole_or_not_at_all(operation: str, tmp_path: Path) -> None:
    """Killed within a write, or told of a full disk there: the chain is whole, and all goes on."""
    in_processes(stops_in_mid_write, [(operation, str(tmp_path / "ends"))])
    assert "killed" in (tmp_path / "ends").read_text()


def test_a_log_that_lost_an_acknowledged_event_is_noticed(tmp_path: Path) -> None:
    """The check after a stop fails where an event is missing, is there by half, or was refused and done."""
    path = base(tmp_path)
    rows = rows_of(path)
    with pytest.raises(AssertionError, match="acknowledged and lost"):
        check_after(path, rows, len(rows) + 1, ACKNOWLEDGED, "here")
    with pytest.raises(AssertionError, match="1 of 2 events"):
        check_after(path, rows[:-1], len(rows) + 1, REFUSED, "here")
    with pytest.raises(AssertionError, match="refused and done"):
        check_after(path, rows[:-1], len(rows), REFUSED, "here")
