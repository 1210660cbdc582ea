"""Many calls in one transaction: the same study as by the calls one after the other, with one commit."""

import json
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surepick.errors import Conflict, EntryWarning, InvalidInput, StorageError
from surepick.study.admin import create_study, load_study
from surepick.study.log import StudyLog
from surepick.study.storage import open_storage
from surepick.study.storage.sql import SqlStorage
from surepick.study.study import Study, Told
from tests.study.kinds import KINDS
from tests.study.storages import Place

Step = tuple[str, int, float]

OPERATIONS = (
    *("ask", "ask", "tell", "tell", "tell", "tell arm", "tell again", "two values", "fail", "earlier", "earlier keyed"),
    *("void", "correct", "restore", "audit", "reopen", "out of range", "half"),
)
steps = st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 5), st.sampled_from([0.0, 1.0, 0.25, 0.7]))


def new(kind: str, storage: Any = "memory:") -> Study:
    """A study of some kind."""
    return create_study("mix", **KINDS[kind].given, storage=storage, lease="1h", author="me")


def call(study: Study, step: Step) -> Callable[[], Any]:
    """The call that a step means, whatever the study knows when it is made."""
    operation, n, value = step
    worker = ["ann", "bob", None][n % 3]

    def half() -> None:
        study.ask(1, worker="half")
        study.tell(10**6, value)

    calls: dict[str, Callable[[], Any]] = {
        "ask": partial(study.ask, 1 + n, worker=worker),
        "tell": lambda: study.tell(_oldest(study), value, worker=worker, warn=False),
        "tell arm": partial(study.tell, arm=n, value=value, worker=worker, warn=False),
        "tell again": partial(study.tell, 1, value, worker=worker, warn=False),
        "two values": partial(study.tell, arm=0, value=[value, 0.5], key=f"key {n}", warn=False),
        "fail": lambda: study.fail(_oldest(study), reason="broken", worker=worker),
        "earlier": partial(study.tell_earlier, [(n % 3, value), (1, 1.0)], worker=worker),
        "earlier keyed": partial(study.tell_earlier, [(n % 3, value)], worker=worker, key=f"list {n}"),
        "void": partial(study.void, 1 + n, reason="spilt", worker=worker),
        "correct": partial(study.correct, 1 + n, value, reason="mistyped", worker=worker),
        "restore": partial(study.restore, 1 + n, reason="found", worker=worker),
        "audit": partial(study.audit, 2, worker=worker),
        "reopen": partial(study.reopen, reason="stricter", delta=0.01 / (1 + n), worker=worker),
        "out of range": partial(study.tell, arm=0, value=[value, 1e300], worker=worker, warn=False),
        "half": half,
    }
    return calls[operation]


def _oldest(study: Study) -> int:
    return study.pending[0].id if study.pending else 10**6


def outcome(made: Callable[[], Any]) -> Any:
    """What a call returns, or its error."""
    try:
        return made()
    except Exception as error:  # noqa: BLE001 (compared with what `together` returns)
        return error


def plain(study: Study) -> list[dict[str, Any]]:
    """The log without times."""
    return [{name: value for name, value in event.items() if name not in ("at", "until")} for event in study.log]


def shown(one: Any) -> Any:
    """An outcome without times."""
    if isinstance(one, Exception):
        return type(one), str(one)
    if isinstance(one, list):
        return [(each.id, each.arm, getattr(each, "told", None)) for each in one], getattr(one, "remarks", ())
    return one


@settings(max_examples=60)
@given(
    kind=st.sampled_from(["usual", "bounded", "small budget", "per arm", "binary", "two best"]),
    batches=st.lists(st.lists(steps, max_size=8), max_size=5),
)
def test_any_mix_of_calls_gives_the_same_log_as_one_after_the_other(kind: str, batches: list[list[Step]]) -> None:
    """The same events by the same authors, the same answers and refusals, and a state that is the log's."""
    one_by_one, together = new(kind), new(kind)
    for batch in batches:
        alone = [
            InvalidInput("") if step[0] == "half" else outcome(call(one_by_one, step)) for step in batch
        ]  # a refused call leaves nothing
        at_once = together.together([call(together, step) for step in batch])
        for step, first, second in zip(batch, alone, at_once, strict=True):
            if step[0] == "half":
                assert isinstance(second, InvalidInput)
            else:
                assert shown(first) == shown(second), step
        assert plain(one_by_one) == plain(together)
    again = load_study("mix", together.storage)
    assert again.head == together.head
    assert repr(again.snapshot.record()) == repr(together.snapshot.record())


@pytest.mark.parametrize("kind", KINDS)
def test_the_reasons_of_many_asks_are_those_of_each(kind: str) -> None:
    """Leader and rival are worked out once for many asks, and anew after every result."""
    study = new(kind)
    for n in range(6):
        shown_now = [study.ask(1, worker=f"worker {n} {i}") for i in range(3)]
        assert [one.reason for one in study.pending] == [one.reason for one in load_study("mix", study.storage).pending]
        for asks in shown_now[1:]:
            for one in asks:
                study.tell(one, KINDS[kind].value(one.features, 0.5 - n % 2), worker=one.name, warn=False)


def test_many_calls_take_one_commit_and_are_on_the_disk(shared: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """And each call finds what those before it have written."""
    commits = list[str]()
    real = SqlStorage._commit

    def commit(self: SqlStorage, connection: Any, doing: str) -> None:
        commits.append(doing)
        real(self, connection, doing)

    study = new("usual", shared.open())
    asks = study.ask(4, worker="ann")
    monkeypatch.setattr(SqlStorage, "_commit", commit)
    tells: list[Callable[[], Any]] = [
        partial(study.tell, ask, 0.5, worker=f"worker {ask.id}", warn=False) for ask in asks
    ]
    *told, n_pulls, n_known = study.together([*tells, lambda: study.status.n_pulls, lambda: len(study.measurements)])
    assert commits == ["write study 'mix' in"]
    assert (n_pulls, n_known) == (4, 4)
    assert all(isinstance(one, Told) for one in told)
    other = load_study("mix", shared.open())
    assert [one.by for one in other.measurements] == [f"worker {ask.id}" for ask in asks]
    assert len({one.at for one in other.measurements}) == 4
    assert study.together([]) == []


def test_several_objects_and_threads_write_together_in_turn(shared: Place) -> None:
    """Each finds what the others have written; nothing is lost, and every ask is answered once."""
    first = new("usual", shared.open())
    studies = [first, first, load_study("mix", shared.open()), load_study("mix", shared.open())]

    def work(worker: int) -> None:
        study = studies[worker]
        for _ in range(8):
            asks = [partial(study.ask, 1, worker=f"{worker} {n}") for n in range(5)]
            asked = [one for made in study.together(asks) if not isinstance(made, Exception) for one in made]
            told = study.together([partial(study.tell, ask, 0.5, worker="bench", warn=False) for ask in asked])
            assert all(isinstance(one, Told) for one in told)

    with ThreadPoolExecutor(len(studies)) as pool:
        list(pool.map(work, range(len(studies))))
    again = load_study("mix", shared.open())
    assert {study.head for study in studies} == {again.head}
    assert again.pending == []
    answered = [one.ask for one in again.measurements]
    assert len(answered) == len(set(answered)) == len(again.state.attempts)


def test_a_call_that_was_refused_after_it_wrote_leaves_nothing(shared: Place) -> None:
    """The others are made again without it, in one transaction."""
    study = new("usual", shared.open())

    def half() -> None:
        study.tell(arm="oak", value=0.1)
        raise ZeroDivisionError

    calls: list[Callable[[], Any]] = [partial(study.tell, arm=arm, value=0.7) for arm in ("elm", "ash")]
    first, second, third = study.together([calls[0], half, calls[1]])
    assert isinstance(second, ZeroDivisionError)
    assert [one[0].id for one in (first, third) if isinstance(one, Told)] == [1, 2]
    assert [event.get("arm") for event in study.log] == [None, 0, 2]
    assert load_study("mix", shared.open()).head == study.head


def test_a_list_told_twice_in_one_transaction_is_noticed() -> None:
    """Calls of one transaction differ in their times, so that a list is recognised between two others."""
    study = new("usual")
    lists = [[("elm", 0.5), ("oak", 0.25)], [("ash", 1.0)], [("elm", 0.5), ("oak", 0.25)]]
    outcomes = study.together([partial(study.tell_earlier, pairs) for pairs in lists])
    assert isinstance(outcomes[2], Conflict)
    assert len(study.measurements) == 3


def test_after_a_failed_commit_nothing_is_known_that_is_not_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All callers get the error, nothing is announced, and the study goes on from the log."""
    study = new("usual", open_storage(tmp_path / "lab.db"))
    (ask,) = study.ask(1)

    def fail(*_: object) -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patch, caplog.at_level(logging.DEBUG, "surepick"):
        patch.setattr(SqlStorage, "_commit", fail)
        with pytest.raises(StorageError, match="full"):
            study.together([partial(study.tell, ask, 0.5), partial(study.tell, arm="oak", value=0.25)])
        assert caplog.records == []
    assert study.measurements == []
    assert [one.id for one in study.pending] == [ask.id]
    study.together([partial(study.tell, ask, 0.5)])
    assert [event["kind"] for event in study.log][-1] == "told"


def test_what_is_announced_has_the_author_of_each_call(caplog: pytest.LogCaptureFixture) -> None:
    """In the order of the calls."""
    study = new("usual")
    with caplog.at_level(logging.DEBUG, "surepick"):
        study.together(
            [partial(study.tell, arm="elm", value=0.5, worker="ann"), partial(study.tell, arm="oak", value=1.0)]
        )
    assert [record.getMessage() for record in caplog.records] == [
        "study mix: ann tells elm = 0.5",
        "study mix: me tells oak = 1.0",
    ]


def test_a_verdict_among_many_calls_is_kept_for_lists(shared: Place) -> None:
    """Once it is on the disk: a summary that waits for the own transaction would never come."""
    study = new("usual", shared.open())
    while not study.stopped:
        asks = study.ask(4)
        study.together([partial(study.tell, ask, KINDS["usual"].value(ask.features, 0.0)) for ask in asks])
    (found,) = shared.open().summaries()
    assert found.kept is not None
    assert found.kept.hash == study.head[1]
    assert json.loads(found.kept.text)["state"] == "stopped"


def test_results_of_one_call_are_refused_before_any_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal half way would mean reading the whole log again."""
    study = new("bounded")
    study.tell(arm="elm", value=0.5)
    monkeypatch.setattr(StudyLog, "_forget", lambda _: pytest.fail("the state was thrown away"))
    for tell in (
        partial(study.tell, arm="elm", value=[0.5, 7.0]),
        partial(study.tell_earlier, [("elm", 0.5), ("oak", 7.0)]),
    ):
        with pytest.raises(InvalidInput, match=r"must be between -1 and 2 .the range., got 7"):
            tell()
        (refused,) = study.together([tell])
        assert isinstance(refused, InvalidInput)
    assert len(study.measurements) == 1


def test_remarks_are_in_the_answer_and_warned_of_by_default(tmp_path: Path) -> None:
    """`warn=False` is for programs that show the remarks themselves."""
    study = create_study("mix", arms=KINDS["usual"].given["arms"], storage="memory:")
    for n in range(16):
        study.tell(arm=("elm", "oak")[n % 2], value=1.0 + n / 200)
    told = study.tell(arm="elm", value=104.0, warn=False)
    assert len(told) == 1
    assert "Did you mean 1.04?" in told.remarks[0]
    study.correct(told[0].id, 1.04, reason="mistyped")
    with pytest.warns(EntryWarning, match=r"Did you mean 1.03\?") as warned:
        told = study.tell(arm="elm", value=103.0)
    assert warned[0].filename == __file__
    assert told.remarks == (str(warned[0].message),)
    study.correct(told[0].id, 1.03, reason="mistyped")
    (ask,) = study.ask(1)
    sheet = tmp_path / "sheet.csv"
    sheet.write_text(f"ask,value\n{ask.id},1e9\n", encoding="utf-8")
    assert "far from" in study.tell_file(sheet, warn=False).remarks[0]
    assert study.tell_file(sheet).remarks == ()  # told before
    assert study.tell(arm="elm", value=1e12, questions=False).remarks == ()


def test_counts_of_changes_are_those_of_the_measurements() -> None:
    """Void, corrected, both, restored: the counts are kept as events come in, whatever the length of the log."""
    study = new("usual")
    for value in (0.0, 1.0, 1.0, 0.5):
        study.tell(arm="elm", value=value)
    changes: list[Callable[[], None]] = [
        partial(study.correct, 1, 1.0, reason="a"),
        partial(study.void, 1, reason="b"),
        partial(study.void, 2, reason="c"),
        partial(study.restore, 1, reason="d"),
        partial(study.correct, 4, 0.0, reason="e"),
        partial(study.correct, 4, 0.3, reason="f"),
        partial(study.restore, 2, reason="g"),
    ]
    for change in changes:
        change()
        status, all_ = study.status, study.measurements
        assert (status.n_void, status.n_corrected) == (
            sum(one.is_void for one in all_),
            sum(one.is_corrected for one in all_),
        )
        assert study.state.n_of_value == {value: sum(one.last == value for one in all_) for value in (0.0, 1.0)}
