"""What is shown of a study: one snapshot, read once; and lists that load no study."""

import cProfile
import json
from dataclasses import FrozenInstanceError, asdict
from typing import Any

import pytest

from benchmarks.study_common import twenty_arms, value_of
from surepick.errors import CorruptLog
from surepick.learning import reader
from surepick.learning.snapshot import Decision
from surepick.study import study as studies
from surepick.study import views
from surepick.study.admin import create_study, load_study
from surepick.study.storage.memory import MemoryStorage
from tests.study.tree_study import finish, new


def refuse(*_: Any) -> None:
    """What must not happen."""
    raise AssertionError("a study is loaded")


def test_a_snapshot_stays_as_it_was() -> None:
    """It is frozen, belongs to one event, and has the numbers of the status, the learner and the result."""
    study = new()
    ask = study.ask()[0]
    before = study.snapshot
    kept = repr(before)
    study.tell(ask.id, 0.7)
    assert repr(before) == kept
    assert before.head[0] + 1 == study.snapshot.head[0]
    with pytest.raises(FrozenInstanceError):
        before.status = study.status  # type: ignore[misc]
    finish(study)
    now, result = study.snapshot, study.result()
    assert now.status == study.status
    known = {name: value for name, value in now.record().items() if name not in views.OF_OUTLOOK}
    left_out = ("find_outlook", "calls")  # no arm is called in this study
    assert known == {name: value for name, value in asdict(study.status).items() if name not in left_out}
    assert (now.learner.evidence, now.learner.threshold) == (result.evidence, result.target)
    assert now.label(now.learner.best) == now.status.best_name


def test_looks_between_two_events_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are; and anew after the next event."""
    study, made = new(delta=1e-9), list[int]()
    real = Decision

    def counted(**values: Any) -> Any:
        made.append(1)
        return real(**values)

    for ask in study.ask(4):
        study.tell(ask.id, 0.5)
    monkeypatch.setattr(reader, "Decision", counted)
    _ = study.status, study.snapshot, study.result(), study.remaining(), study.best
    assert len(made) == 1
    n_before = study.status.n_pulls
    study.tell(arm="oak", value=0.4)
    assert study.status.n_pulls == n_before + 1
    assert len(made) == 2


def test_a_study_that_is_held_shows_one_event_of_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without reading it again; then it goes on with what others have written."""
    study = new()
    other = load_study("trees", study.storage)
    head, n_reads = study.head, [0]
    real = MemoryStorage.read

    def read(self: MemoryStorage, name: str, after: int = 0) -> Any:
        n_reads[0] += 1
        return real(self, name, after)

    with study.held():
        other.ask()
        monkeypatch.setattr(MemoryStorage, "read", read)
        assert (study.head, study.status.n_pending, study.result().n_pulls) == (head, 0, 0)
        assert n_reads == [0]
    assert study.status.n_pending == 1


def test_a_list_loads_only_studies_that_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verdict leaves a summary, so does a list; events after it make the summary stale."""
    done = new("done")
    finish(done)
    storage = done.storage
    new("open", storage=storage).ask()
    first = views.list_records(storage)
    assert [(one["name"], one["state"], one["best_name"]) for one in first] == [
        ("done", "stopped", done.best_name),
        ("open", "measuring", None),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(studies.Study, "__init__", refuse)
        assert views.list_records(storage) == first
    load_study("open", storage).ask(worker="bob")
    assert views.list_records(storage)[1]["n_pending"] == 2


def test_a_verdict_keeps_a_summary_that_agrees_with_the_status() -> None:
    """Without anybody listing; a correction that takes the verdict back keeps another."""
    study = new(delta=0.01)
    finish(study)
    (summary,) = study.storage.summaries()
    assert summary.kept is not None
    assert json.loads(summary.kept.text) == study.snapshot.record(views.OF_LIST)
    best = next(one for one in study.measurements if one.arm == study.best)
    study.correct(best.id, -5.0, reason="a slip of the pen")
    assert views.list_records(study.storage)[0]["state"] == study.status.state


def test_a_summary_that_cannot_be_kept_harms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict is told and stands."""

    def broken(*_: Any) -> None:
        raise CorruptLog("the disk is full")

    monkeypatch.setattr(MemoryStorage, "keep_summary", broken)
    study = new()
    finish(study)
    assert study.stopped
    assert load_study("trees", study.storage).stopped


def test_a_list_loads_no_study_that_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server has its studies in memory: what they say now is in the list, though no summary is."""
    study = new()
    study.ask(2)
    monkeypatch.setattr(studies, "Study", refuse)
    (listed,) = views.list_records(study.storage, {study.name: study}.get)
    assert (listed["name"], listed["n_pending"], listed["n_events"]) == (study.name, 2, study.head[0])


def test_a_snapshot_costs_the_same_whatever_the_length_of_the_log() -> None:
    """Counted in calls of functions, after a result that changes it."""
    study = create_study("mix", arms=twenty_arms(), noise_std=1.0, delta=1e-9, storage="memory:")

    def n_calls() -> int:
        (ask,) = study.ask()
        study.tell(ask, value_of(ask.id, 0))
        with cProfile.Profile() as profile:
            study.snapshot.record()
        return sum(one.callcount for one in profile.getstats())

    n = []
    for length in (200, 4_000):
        study.tell_earlier([(k % 20, value_of(k, k % 20)) for k in range(length)])
        n.append(min(n_calls() for _ in range(5)))
    assert n[1] < n[0] + 1_000
