"""One study in several threads, objects and interruptions: looks change nothing, and nobody sees half a change."""

import threading
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.errors import Conflict, CorruptLog
from surepick.learning.learner import Learner
from surepick.learning.reader import Reader
from surepick.study.admin import delete_study, load_study
from surepick.study.certificate import verify
from surepick.study.storage import open_storage
from surepick.study.study import Study
from tests.study.kinds import KINDS, NAMES, ROWS
from tests.study.storages import Place
from tests.study.tree_study import new
from tests.waiting import LIMIT


def measure(study: Study, n: int, seed: int = 0) -> None:
    """Ask and tell so many."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        for ask in study.ask(1):
            study.tell(ask.id, KINDS["usual"].value(ask.features, float(rng.standard_normal())))


def test_threads_that_look_on_change_nothing() -> None:
    """One measures, two ask how many are left: what the object knows is what a fresh one reads."""
    study, is_over = new(delta=1e-12), threading.Event()

    def look_on() -> None:
        while not is_over.is_set():
            study.remaining()
            assert study.status.n_pulls <= len(study.measurements)

    watchers = [threading.Thread(target=look_on) for _ in range(2)]
    for watcher in watchers:
        watcher.start()
    measure(study, 120)
    is_over.set()
    for watcher in watchers:
        watcher.join()
    fresh = load_study("trees", study.storage)
    assert study.learner.estimate.n_pulls == len(study.measurements)
    assert (study.learner.theta == fresh.learner.theta).all()
    assert verify(study.certificate(), study.rows()).ok


@pytest.mark.parametrize("look", ["remaining", "result", "certificate", "status", "pending", "best"])
def test_a_look_waits_until_nobody_else_looks(look: str) -> None:
    """It may work out what is kept, such as sums: two at once would do so twice."""
    study = new(delta=1e-12)
    measure(study, 20)

    def look_on() -> None:
        found = getattr(study, look)
        if callable(found):
            found()

    thread = threading.Thread(target=look_on)
    with study._log.lock:
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
    thread.join(LIMIT)
    assert not thread.is_alive()


@pytest.mark.parametrize(("look", "works"), [("remaining", "expected_remaining"), ("result", "result")])
def test_a_look_is_alone_to_its_end(monkeypatch: pytest.MonkeyPatch, look: str, works: str) -> None:
    """Not only while the log is read."""
    study, is_alone = new(), list[bool]()

    def worked_out(_: Learner) -> None:
        is_alone.append(study._log.lock._is_owned())  # type: ignore[attr-defined]

    monkeypatch.setattr(Learner, works, worked_out)
    getattr(study, look)()
    assert is_alone == [True]


def test_a_look_that_is_broken_off_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of a status: the object goes on as a fresh one would."""
    study = new(delta=1e-12)
    measure(study, 40)
    broken = load_study("trees", study.storage)

    def interrupted(reader: Any) -> Any:
        reader._known.estimate._n_pulls = 0  # what an interrupt may leave half done
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Reader, "snapshot", property(interrupted))
        with pytest.raises(KeyboardInterrupt):
            _ = broken.status
    assert broken.status == load_study("trees", study.storage).status


def test_a_study_that_was_made_anew_is_not_taken_for_the_old_one(place: Place) -> None:
    """Whatever the length of its log: the old object says so, again and again, and tells the new one nothing."""
    for n_new in (0, 1, 5):
        storage = place.open()
        old = new(storage=storage)
        ask, other = old.ask(2, worker="bob")
        old.tell(other, 0.5, worker="bob")
        delete_study("trees", storage)
        again = new(storage=storage, delta=0.01)
        measure(again, n_new)
        before = again.rows()
        for _ in range(2):
            with pytest.raises(CorruptLog, match="made anew"):
                old.tell(ask, 0.5)
            with pytest.raises(CorruptLog, match="made anew"):
                _ = old.status
        assert again.rows() == before
        delete_study("trees", storage)


def test_an_ask_of_another_study_is_recognised() -> None:
    """If its arm is another one: numbers of asks are given out anew where a copy was put back."""
    (ask,) = new().ask(1)
    other = new(arms=sp.FiniteArms(ROWS[::-1], names=NAMES[::-1]))
    assert other.ask(1)[0].arm != ask.arm
    with pytest.raises(Conflict, match="is of arm"):
        other.tell(ask, 0.5)


@pytest.mark.parametrize(
    "options",
    [
        {"algorithm": "alba", "variant": "paper", "reward_bound": 1.0, "noise_std": 1.0},
        {"algorithm": "explore-verify", "variant": "paper"},
        {"algorithm": "rage", "variant": "paper"},
        {"algorithm": "xy-adaptive", "variant": "paper"},
        {"algorithm": "g-static", "variant": "paper"},
    ],
    ids=lambda options: str(options["algorithm"]),
)
def test_rules_that_read_their_sampler_are_loaded_as_they_were(options: dict[str, Any]) -> None:
    """Also in the middle of a phase: a second object follows, and plans what the first does."""
    storage = open_storage("memory:")
    study = new(storage=storage, delta=0.1, **options)
    other = load_study("trees", storage)
    for n in (3, 40, 160):
        measure(study, n)
        assert repr(other.status) == repr(study.status) == repr(load_study("trees", storage).status)  # NaN among them
    assert verify(study.certificate(), study.rows()).ok
