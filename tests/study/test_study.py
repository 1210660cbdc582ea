"""Studies from the outside: every method does what it says, and refuses the rest in words without a trace."""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import surepick as sp
from surepick.errors import Conflict, CorruptLog, InvalidInput, NoSuchStudy, StudyExists
from surepick.study.admin import copy_study, create_study, delete_study, list_studies, load_study
from surepick.study.certificate import verify
from surepick.study.events import canonical, rows_of
from surepick.study.exchange import import_results
from surepick.study.storage import open_storage
from tests.study.kinds import KINDS, NAMES, ROWS
from tests.study.storages import set_time
from tests.study.tree_study import finish, kinds, means, new


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.time = datetime(2026, 11, 17, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        """What it shows."""
        return self.time


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all studies."""
    own = Clock()
    set_time(monkeypatch, own)
    return own


# ---- asks


@pytest.mark.usefixtures("time")
def test_an_ask_says_what_why_and_until_when() -> None:
    """It has an id, the arm with name and features, the end of its lease, and a reason in words."""
    study = new(lease="2h")
    (ask,) = study.ask()
    assert (ask.id, ask.until) == (1, "2026-11-17T14:00:00.000000Z")
    assert ask.name == NAMES[ask.arm]
    assert ask.features == tuple(ROWS[ask.arm])
    assert "no data" in ask.reason
    for each in study.ask(5):
        study.tell(each.id, means(each.arm))
    assert "leads" in study.ask()[0].reason
    assert study.ask(lease=None)[0].until is None
    assert study.ask(lease="90s")[0].until == "2026-11-17T12:01:30.000000Z"
    assert study.ask(lease=timedelta(days=1))[0].until == "2026-11-18T12:00:00.000000Z"


def test_a_worker_that_asks_again_gets_its_open_asks_back() -> None:
    """The same asks, however often; others and those without a name get new ones."""
    study = new()
    first = study.ask(3, worker="bob")
    assert study.ask(3, worker="bob") == first
    assert study.ask(2, worker="bob") == first[:2]
    assert [ask.id for ask in study.ask(4, worker="bob")] == [1, 2, 3, 4]
    assert [ask.id for ask in study.ask(1, worker="eve")] == [5]
    assert [ask.id for ask in study.ask(1)] == [6]
    assert [ask.id for ask in study.ask(1)] == [7]
    assert [ask.id for ask in study.pending] == [1, 2, 3, 4, 5, 6, 7]


def test_a_lease_that_ran_out_gives_the_ask_to_somebody_else(time: Clock) -> None:
    """The next who asks gets the same arm under a new id, and a result of the first attempt counts all the same."""
    study = new(lease="1h")
    (lost,) = study.ask(1, worker="bob")
    rest = study.ask(study.n_planned, worker="eve", lease=None)
    time.time += timedelta(hours=2)
    (again,) = study.ask(1, worker="eve2")
    assert (again.arm, again.id) == (lost.arm, 2 + len(rest))
    assert "asked again" in again.reason
    (late,) = study.tell(lost.id, 0.5)
    (own,) = study.tell(again.id, 0.6)
    assert [late.value, own.value] == [0.5, 0.6]
    assert study.status.n_pulls == 2
    assert study.log[-1]["ask"] == again.id


def test_a_clock_that_goes_back_loses_nothing(time: Clock) -> None:
    """Leases end later then; no event is refused for its time."""
    study = new(lease="1h")
    study.ask(2, worker="bob")
    time.time -= timedelta(days=3)
    study.ask(2, worker="eve")
    assert len(study.pending) == 4
    assert load_study("trees", study.storage).head == study.head


@pytest.mark.parametrize("lease", ["soon", "0s", "-1h", 0, -5, True, math.nan, math.inf, "1y", "99999w", [], {}])
def test_a_lease_that_is_no_time_is_refused(lease: Any) -> None:
    """By `ask` and by `create_study`, in words that have an example."""
    study = new()
    with pytest.raises(InvalidInput, match=r"lease.*30m"):
        study.ask(1, lease=lease)
    with pytest.raises(InvalidInput, match=r"lease.*30m"):
        new(lease=lease)
    assert kinds(study) == ["created"]


@pytest.mark.parametrize("lease", ["30m", 90, 1.5, None, "none", timedelta(hours=2)])
def test_leases_are_kept_as_they_were_given(lease: Any) -> None:
    """A study that is loaded again has the lease it was created with."""
    study = new(lease=lease)
    until = study.ask(1)[0].until
    loaded = load_study("trees", study.storage)
    assert (loaded.ask(1)[0].until is None) is (until is None)


def test_an_ask_that_failed_is_made_again() -> None:
    """For any reason but the value; once given up it may still be told, and nothing happens if it fails twice."""
    study = new()
    asks = study.ask(study.n_planned or 1)
    asks += study.ask(study.n_planned or 1)
    study.fail(asks[0], reason="dropped")
    study.fail(asks[0].id)
    assert kinds(study).count("failed") == 1
    assert study.ask(1)[0].arm == asks[0].arm
    study.tell(asks[0], 0.3)
    with pytest.raises(Conflict, match="has a result"):
        study.fail(asks[0])
    for wrong in (99, 0, -1, True, "1", None, 1.0):
        with pytest.raises(InvalidInput, match="no ask"):
            study.fail(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="reason"):
        study.fail(asks[1], reason=3)  # type: ignore[arg-type]


# ---- results


def test_the_same_result_told_twice_is_one_measurement() -> None:
    """By ask or by key, one value or several; as whatever kind of number it comes."""
    study = new()
    first, second = study.ask(2)
    told = study.tell(first, 0.5)
    head = study.head
    again: Any
    for again in (0.5, np.float32(0.5), [0.5], np.array([0.5]), (0.5,), np.array(0.5)):
        assert study.tell(first.id, again) == told
    assert study.head == head
    many = study.tell(second, [1, 2.0, 3.5], key="run 7")
    assert [one.told for one in many] == [1.0, 2.0, 3.5]
    assert study.tell(second, [1.0, 2.0, 3.5]) == many
    assert study.tell(second, [1.0, 2.0, 3.5], key="run 7") == many
    by_arm = study.tell(arm="oak", value=0.1, key="a")
    assert study.tell(arm=1, value=0.1, key="a") == by_arm
    assert len(study.measurements) == 5


def test_another_result_for_the_same_ask_is_a_conflict() -> None:
    """It names both values and says what to do; nothing is written."""
    study = new()
    first, second = study.ask(2)
    study.tell(first, 0.5)
    study.tell(second, [1.0, 2.0])
    head = study.head
    with pytest.raises(Conflict, match=r"ask 1 has the result 0\.5 already .measurement 1., got 0\.75; .*correct"):
        study.tell(first, 0.75)
    for other in ([1.0], [1.0, 2.0, 3.0], [2.0, 1.0]):
        with pytest.raises(Conflict, match="ask 2 has the result 1, 2"):
            study.tell(second, other)
    assert study.head == head


def test_a_corrected_result_is_the_one_that_an_ask_has() -> None:
    """The conflict names the value that counts, and that value is no conflict."""
    study = new()
    (ask,) = study.ask()
    study.tell(ask, 0.5)
    study.correct(1, 0.75, reason="typo")
    head = study.head
    for value in (0.5, 0.75):
        assert [one.value for one in study.tell(ask, [value])] == [0.75]
    with pytest.raises(Conflict, match=r"ask 1 has the result 0\.75 already"):
        study.tell(ask, 1.0)
    assert study.head == head


def test_a_key_names_one_result() -> None:
    """Used for another value, arm or ask it is a conflict: else a result would be thanked for and lost."""
    study = new()
    first, second = study.ask(2)
    study.tell(first, 0.5, key="k")
    for wrong in (
        lambda: study.tell(first, 0.6, key="k"),
        lambda: study.tell(second, 0.5, key="k"),
        lambda: study.tell(arm=(first.arm + 1) % 4, value=0.5, key="k"),
    ):
        with pytest.raises(Conflict, match="key 'k'"):
            wrong()
    with pytest.raises(InvalidInput, match="`key` must be a line of text"):
        study.tell(second, 0.5, key=7)  # type: ignore[arg-type]
    assert len(study.measurements) == 1


def test_a_result_told_by_arm_answers_the_workers_oldest_open_ask_of_it() -> None:
    """Never another's, who will have a result of it too; without an own one, nobody has asked for it."""
    study = new()
    asks = [*study.ask(6, worker="bob"), *study.ask(6, worker="eve")]
    arm = next(ask.arm for ask in asks if ask.id > 6)
    mine = [ask.id for ask in asks if ask.arm == arm and ask.id > 6]
    (theirs, *_) = [ask.id for ask in asks if ask.arm == arm and ask.id <= 6]
    order = [study.tell(arm=arm, value=0.5, worker="eve")[0].ask for _ in range(len(mine) + 1)]
    assert order == [*mine, None]
    assert study.tell(theirs, 0.7, worker="bob")[0].ask == theirs
    assert study.status.n_pulls == len(order) + 1


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda s: s.tell(1), "number"),
        (lambda s: s.tell(1, []), "at least one"),
        (lambda s: s.tell(1, math.nan), "number"),
        (lambda s: s.tell(1, math.inf), "number"),
        (lambda s: s.tell(1, "0.5"), "number"),
        (lambda s: s.tell(1, value=True), "number"),
        (lambda s: s.tell(1, [0.5, [1.0]]), "number"),
        (lambda s: s.tell(1, [0.5, math.nan]), "number"),
        (lambda s: s.tell(1, {}), "at least one"),
        (lambda s: s.tell(1, 1e300), "noise_std"),
        (lambda s: s.tell(9, 0.5), "no ask 9"),
        (lambda s: s.tell(None, 0.5), "neither"),
        (lambda s: s.tell(1, 0.5, arm="elm"), "both"),
        (lambda s: s.tell(arm="Elm", value=0.5), "did you mean 'elm'"),
        (lambda s: s.tell(arm="2", value=0.5), "no arm '2'"),
        (lambda s: s.tell(arm=4, value=0.5), "below 4"),
        (lambda s: s.tell(arm=-1, value=0.5), "arm"),
        (lambda s: s.tell(arm=1.5, value=0.5), "arm"),
        (lambda s: s.tell(arm=True, value=0.5), "arm"),
        (lambda s: s.tell(arm=[1.0, 0.0], value=0.5), "arm"),
        (lambda s: s.tell(arm=[[1.0], 0.0], value=0.5), "arm"),
        (lambda s: s.tell(1, 0.5, worker=3), "worker"),
        (lambda s: s.tell(1, 0.5, worker="\ud800"), "line of text"),
        (lambda s: s.ask(0), "at least 1"),
        (lambda s: s.ask(1.5), "whole number"),
        (lambda s: s.ask(10**9), "at most"),
        (lambda s: s.tell_earlier([("elm", 0.5), ("oak", math.nan)]), "number"),
        (lambda s: s.tell_earlier([("elm", 0.5), ("oka", 0.5)]), "oak"),
        (lambda s: s.void(1, reason=""), "why"),
        (lambda s: s.void(1, reason=None), "text"),
        (lambda s: s.void(7, reason="x"), "no measurement 7"),
        (lambda s: s.void(0, reason="x"), "at least 1"),
        (lambda s: s.correct(1, "x", reason="x"), "number"),
        (lambda s: s.correct(1, value=True, reason="x"), "number"),
        (lambda s: s.correct(1, 1e300, reason="x"), "noise_std"),
        (lambda s: s.restore(1, reason="x"), "not void"),
        (lambda s: s.audit(), "verdict"),
        (lambda s: s.reopen(reason=" "), "why"),
        (lambda s: s.reopen(reason="x", delta=2), "delta"),
        (lambda s: s.reopen(reason="x", algorithm=3), "name"),
        (lambda s: s.reopen(reason="x", retire=["elmo"]), "elm"),
        (lambda s: s.reopen(reason="x", join=[[1.0, 2.0, 3.0]]), "2 features"),
        (lambda s: s.reopen(reason="x", join=[[1.0, 2.0]]), "names"),
        (lambda s: s.export("xls"), "xls"),
        (lambda s: s.export("csv", "log.json"), "csv"),
        (lambda s: s.optimize(3), "function"),
        (lambda s: s.optimize(means, n_jobs=0), "n_jobs"),
        (lambda s: s.arm("ashh"), "did you mean 'ash'"),
    ],
)
def test_what_cannot_be_is_refused_in_words_and_leaves_no_trace(call: Callable[[Any], object], says: str) -> None:
    """Wrong input of every argument: the error says what was needed, and the study is as it was, here and on disk."""
    study = new()
    study.ask(2)
    study.tell(2, 0.5)
    head, status = study.head, repr(study.status)
    with pytest.raises(InvalidInput, match=says):
        call(study)
    assert (study.head, repr(study.status)) == (head, status)
    assert repr(load_study("trees", study.storage).status) == status
    study.tell(1, 0.5)


def test_earlier_results_count_and_may_be_enough() -> None:
    """In a study that was created so they are evidence: enough of them, and the first ask finds the verdict."""
    study = new(earlier="evidence")
    study.tell_earlier([(NAMES[n % 4], means(n % 4) + 0.01 * (n % 3)) for n in range(80)])
    assert not study.stopped
    assert study.ask(3) == []
    assert study.stopped
    assert study.best_name == "ash"
    assert kinds(study)[-2:] == ["planned", "stopped"]


def test_earlier_results_guide_unless_the_study_was_created_otherwise() -> None:
    """They decide nothing, no interval is shown that would count them, and the log says what they are."""
    study = new()
    study.tell_earlier([(NAMES[n % 4], means(n % 4) + 0.01 * (n % 3)) for n in range(80)])
    (ask,) = study.ask(1)
    assert not study.stopped
    assert study.result().epsilon_bound == math.inf
    assert study.log[0]["options"]["earlier"] == "guidance"
    study.tell(ask.id, means(ask.arm))
    finish(study)
    certificate = study.certificate()
    assert certificate["n_pulls"] > 80
    assert "80 results of before guide it and are no evidence" in str(certificate["assumptions"])
    assert not any("fixed before the first of the" in one for one in certificate["conditions"])
    assert verify(certificate, study.rows()).problems == []
    events = study.log
    events[0]["options"]["earlier"] = "evidence"
    assert not verify(certificate, rows_of([canonical(event) for event in events])).ok


def test_a_certificate_says_what_earlier_results_must_be_to_count() -> None:
    """The condition stands beside the claim."""
    study = new(earlier="evidence")
    study.tell_earlier([(n % 4, means(n % 4) + 0.01 * (n % 3)) for n in range(80)])
    study.ask(1)
    said = study.certificate()["conditions"]
    assert [one for one in said if "fixed before the first of the 80 results was seen" in one]


def test_a_rule_that_counts_every_result_takes_no_earlier_ones() -> None:
    """Neither before the first ask nor as earlier results later; nothing is written. Another budget counts on."""
    study = new(stopping="evidence")
    for _ in range(2):
        head = study.head
        with pytest.raises(InvalidInput, match="counts every result"):
            study.tell_earlier([("elm", 0.5)])
        assert study.head == head
        study.ask(1)
    study.tell(arm="elm", value=0.7)
    finish(study)
    study.reopen(reason="go on", budget=500)
    assert study.stopped
    assert study.learner.decision.guarantee == "proved"
    assert math.isfinite(study.result().epsilon_bound)
    with pytest.raises(InvalidInput, match="counts every result"):
        study.tell_earlier([("elm", 0.5)])
    assert verify(study.certificate(), study.rows()).problems == []


def test_the_same_earlier_results_are_told_once() -> None:
    """Told again they are refused, since they would count twice; with a key they are further measurements."""
    study = new()
    pairs = [("elm", 0.5), ("oak", 0.6), ("elm", 0.5)]
    study.tell_earlier(pairs)
    head = study.head
    with pytest.raises(Conflict, match=r"these 3 results were told before, as measurement 1.*with a key"):
        study.tell_earlier(iter(pairs))
    assert study.head == head
    study.tell_earlier(pairs[:2])
    study.tell_earlier(pairs, key="tuesday")
    assert len(study.measurements) == 8


def test_a_correction_of_earlier_results_keeps_the_interval_that_was_planned() -> None:
    """The verdict of earlier results taken back, the first asks are those that were planned beside it."""
    study = new(earlier="evidence")
    study.tell_earlier([(n % 4, means(n % 4) + 0.01 * (n % 3)) for n in range(80)])
    study.ask(1)
    planned = next(event for event in study.log if event["kind"] == "planned")
    for n in range(79):
        study.void(n + 1, reason="another lab's")
    assert not study.stopped
    asks = study.ask(len(planned["arms"]))
    assert [ask.arm for ask in asks] == planned["arms"]
    assert kinds(study).count("planned") == 1
    assert verify(study.certificate(), study.rows()).problems == []


# ---- corrections and verdicts


# ---- eras


# ---- arms and names


def test_names_may_be_in_any_script() -> None:
    """Study, arms, workers, keys and reasons; a typo gets the nearest name."""
    names = ["Föhre", "楢", "ясень", "🌲 4"]
    study = new("Bäume № 1", arms=sp.FiniteArms(ROWS, names=names))
    study.tell(arm="楢", value=0.5, worker="Žofie", key="ключ")
    study.void(1, reason="zu naß")
    with pytest.raises(InvalidInput, match="did you mean 'ясень'"):
        study.tell(arm="ясен", value=1.0)
    loaded = load_study("Bäume № 1", study.storage)
    assert loaded.measurements == study.measurements
    assert loaded.measurements[0].by == "Žofie"


def test_arms_without_names_go_by_their_row_numbers() -> None:
    """As a number, or written out."""
    study = new(arms=ROWS)
    assert study.arm("3") == study.arm(3) == study.arm(np.int64(3)) == 3
    with pytest.raises(InvalidInput, match="no arm 'elm'"):
        study.arm("elm")
    assert study.tell(arm="2", value=0.5)[0].arm == 2


def test_candidates_of_their_own_have_their_own_numbers() -> None:
    """The answer is a candidate; what is measured are arms."""
    study = new(candidates=np.array([[1.0, 1.0], [0.5, -0.5]]))
    finish(study)
    assert (study.best, study.best_name) == (0, "candidate 0")
    assert verify(study.certificate(), study.rows()).problems == []


def test_candidates_of_a_table_are_read_by_its_rules_and_may_be_few() -> None:
    """Two of them span nothing by themselves, and have not all levels."""
    arms = pd.DataFrame({"name": list("abcd"), "wood": ["elm", "oak", "ash", "ash"], "age": [1, 2, 3, 5]})
    few = pd.DataFrame({"age": [2.0, 4.0], "wood": ["oak", "oak"]}, index=["young", "old"])
    study = create_study("few", arms=arms, candidates=few, noise_std=0.1, storage="memory:")
    while not study.stopped:
        for ask in study.ask(1):
            study.tell(ask.id, float(ask.features[-1]))
    assert study.best_name == load_study("few", study.storage).best_name == "old"
    assert verify(study.certificate(), study.rows()).problems == []


def test_vectors_are_arms_by_their_entries() -> None:
    """On a sphere an arm is a vector, also after a way through the log; others are refused."""
    study = create_study("ball", arms=sp.Sphere(2), noise_std=0.2, epsilon=0.3, earlier="evidence", storage="memory:")
    (told,) = study.tell(arm=[0.6, 0.8], value=0.5)
    assert told.arm == (0.6, 0.8)
    for wrong in ([1.0, 1.0], [1.0], [math.nan, 0.0], 0, "x", [[1.0], 0.0]):
        with pytest.raises(InvalidInput):
            study.tell(arm=wrong, value=0.5)
    with pytest.raises(InvalidInput, match="list of arms"):
        study.reopen(reason="x", retire=[[0.6, 0.8]])
    assert load_study("ball", study.storage).measurements == study.measurements


def test_arms_in_a_file_are_known_by_their_hash(tmp_path: Path) -> None:
    """The file must be there as it was; another one, or none, is said."""
    path = tmp_path / "arms.npy"
    np.save(path, ROWS)
    study = create_study("file", arms=sp.MappedArms(path), noise_std=0.2, storage=tmp_path / "lab.db")
    finish(study)
    assert load_study("file", tmp_path / "lab.db").best == study.best
    np.save(path, ROWS + 1.0)
    with pytest.raises(CorruptLog, match="changed since"):
        load_study("file", tmp_path / "lab.db")
    path.unlink()
    with pytest.raises(CorruptLog, match="not there"):
        load_study("file", tmp_path / "lab.db")


# ---- the library


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"delta": 0}, "delta"),
        ({"noise_std": -1}, "noise_std"),
        ({"noise_std": [0.1]}, "noise_std"),
        ({"costs": [1, 2]}, "costs"),
        ({"budget": -1}, "budget"),
        ({"algorithm": "lazy"}, "lazy"),
        ({"stopping": "never"}, "stopping"),
        ({"colour": "red"}, "colour"),
        ({"seed": "x"}, "seed"),
        ({"arms": [[1.0, 0.0]]}, "arms"),
        ({"arms": "none.csv"}, "sp.read_arms"),
        ({"author": 7}, "author"),
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": 7}, "name"),
        ({"m": 9}, "m"),
    ],
)
def test_a_study_that_cannot_be_is_not_created(options: dict[str, Any], says: str) -> None:
    """What no learner could be made of is refused before anything is written."""
    storage = open_storage("memory:")
    with pytest.raises(InvalidInput, match=says):
        new(options.pop("name", "x"), storage=storage, **options)
    assert list_studies(storage) == []


def test_studies_are_found_copied_and_deleted_by_name(tmp_path: Path) -> None:
    """A name is used once; a copy has the same log, also in another storage, says so, and goes its own way."""
    storage = tmp_path / "lab.db"
    study = new("one", storage=storage)
    study.tell(arm="elm", value=0.5)
    assert load_study(storage=storage).name == "one"
    with pytest.raises(StudyExists, match="one"):
        new("one", storage=storage)
    twin = copy_study("one", "two", storage=storage)
    away = copy_study("one", "one", storage=storage, to_storage=tmp_path / "other.db")
    assert [event["kind"] for event in study.log] == ["created", "told", "copied", "copied"]
    assert (twin.rows()[:-1], away.rows()[:-1]) == (study.rows()[:2], study.rows()[:3])
    marks = [study.log[2], twin.log[2], study.log[3], away.log[3]]
    assert [mark.pop("is_copy") for mark in marks] == [False, True, False, True]
    assert (marks[0], marks[2]) == (marks[1], marks[3])
    assert marks[0]["fork"] != marks[2]["fork"]
    twin.tell(arm="elm", value=0.6)
    assert (len(twin.measurements), len(study.measurements)) == (2, 1)
    assert list_studies(storage) == ["one", "two"]
    with pytest.raises(InvalidInput, match="'one', 'two'"):
        load_study(storage=storage)
    with pytest.raises(NoSuchStudy, match="did you mean 'one'"):
        load_study("onee", storage)
    head = study.head
    with pytest.raises(StudyExists):
        copy_study("one", "two", storage=storage)
    assert study.head == head
    delete_study("two", storage)
    assert list_studies(storage) == ["one"]
    with pytest.raises(NoSuchStudy):
        twin.tell(arm="elm", value=0.6)
    with pytest.raises(NoSuchStudy):
        delete_study("two", storage)


# ---- functions, files


def test_measurements_are_exported_and_imported(tmp_path: Path) -> None:
    """CSV, Parquet, JSON and Excel: what one study exports another takes as earlier results, all or none."""
    study = new()
    study.tell_earlier([(name, means(n) + 1 / 3) for n, name in enumerate(NAMES)])
    told = [(one.arm, one.told) for one in study.measurements]
    frame = pd.DataFrame({"arm": NAMES, "value": [value for _, value in told]})
    frame.to_excel(tmp_path / "results.xlsx", index=False)
    paths = [study.export(kind, tmp_path / f"m.{kind}", what="measurements") for kind in ("csv", "parquet")]
    assert study.export("json", tmp_path / "m.json", what="measurements").read_text().count('"told"') == 4
    for n, path in enumerate([*paths, tmp_path / "results.xlsx"]):
        other = new(f"copy {n}")
        import_results(other, path)
        assert [one.arm for one in other.measurements] == [arm for arm, _ in told]
        # Spreadsheets keep 15 digits.
        is_close = pytest.approx([value for _, value in told], rel=1e-15 if path.suffix == ".xlsx" else 0.0, abs=0.0)
        assert [one.told for one in other.measurements] == is_close
    frame["arm"] = ["elm", "oak", "asch", "fir"]
    frame.to_csv(tmp_path / "typo.csv", index=False)
    other = new("typo")
    with pytest.raises(InvalidInput, match=r"asch.*ash"):
        import_results(other, tmp_path / "typo.csv")
    frame.rename(columns={"value": "when"}).to_csv(tmp_path / "title.csv", index=False)
    with pytest.raises(InvalidInput, match="arm and value"):
        import_results(other, tmp_path / "title.csv")
    frame.assign(value="x").to_csv(tmp_path / "text.csv", index=False)
    with pytest.raises(InvalidInput, match="number"):
        import_results(other, tmp_path / "text.csv")
    assert other.measurements == []


def test_binary_rewards_take_booleans() -> None:
    """True is 1 where rewards are binary, in `tell` and in `correct`; other numbers are refused."""
    study = new(noise_std=None, rewards="binary")
    study.tell(arm="elm", value=[True, False, 1])
    study.correct(1, value=False, reason="misread")
    assert [one.value for one in study.measurements] == [0.0, 0.0, 1.0]
    with pytest.raises(InvalidInput, match="0 or 1"):
        study.tell(arm="elm", value=0.5)


@pytest.mark.parametrize("name", ["per arm", "symmetric"])
def test_what_is_assumed_of_the_noise_is_kept(tmp_path: Path, name: str) -> None:
    """A study whose plans are repeated is the same when it is loaded again, and goes on to its verdict."""
    kind, rng = KINDS[name], np.random.default_rng(1)
    study = sp.create_study(name, **kind.given, storage=tmp_path / "a.db")
    while not study.stopped:
        for ask in study.ask(5):
            study.tell(ask.id, kind.value(ask.features, float(rng.standard_normal())))
        again = sp.load_study(name, storage=tmp_path / "a.db")
        assert again.status == study.status
    assert again.result().noise == kind.options["noise"]
    assert again.result().best_name == "ash"


@pytest.mark.parametrize("name", ["small budget", "costs"])
def test_a_budget_ends_the_asks(name: str) -> None:
    """No further ask then; what was given up is still made, and the state is "spent" unless there is a verdict."""
    kind = KINDS[name]
    study = create_study(name, **kind.given | {"budget": 8.0, "delta": 1e-9}, storage="memory:")
    asks = [ask for _ in range(9) for ask in study.ask(3)]
    assert study.ask(1) == []
    study.fail(asks[0])
    (again,) = study.ask(5)
    for ask in [again, *asks[1:]]:
        study.tell(ask.id, kind.value(ask.features, 0.0))
    assert study.status.state == "spent"
    assert study.ask(1) == []
    study.reopen(reason="more money", budget=20.0)
    assert study.ask(1)


def test_a_study_that_is_closed_can_be_used_again(tmp_path: Path) -> None:
    """To close lets go of connections, and is no end."""
    with sp.create_study("a", arms=ROWS, storage=tmp_path / "a.db") as study:
        study.ask(1)
    assert len(study.pending) == 1
    study.close()


def test_a_list_whose_rows_differ_in_length_is_refused() -> None:
    """The sentence names the option; nothing is created."""
    with pytest.raises(InvalidInput, match="`costs` must have rows of equal length"):
        sp.create_study("trees", arms=np.eye(2), storage="memory:", costs=[[1.0], [1.0, 2.0]])


@pytest.mark.parametrize("value", [-853, True, "x", [1.0], {"a": 1}])
def test_a_range_that_is_none_is_refused_at_the_beginning_and_later(value: Any) -> None:
    """With the sentence of `identify`; nothing is created or changed."""
    with pytest.raises(InvalidInput, match="`reward_range` must be"):
        create_study("none", arms=ROWS, storage="memory:", reward_range=value)
    study = new()
    with pytest.raises(InvalidInput, match="`reward_range` must be"):
        study.reopen(reason="bounds", reward_range=value, noise_std=None)
    assert study.head[0] == 1
