"""Results are settled when they are read: loading settles nothing, a correction is worked out before the lock."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from surepick.learning.settlement import Settlement
from surepick.study.admin import load_study
from surepick.study.storage import Writer
from surepick.study.study import Study
from tests.study.tree_study import means, new


def measure(study: Study, n: int, rng: np.random.Generator, *, batch: int = 3) -> list[int]:
    """Ask and tell; return the arms that were asked for."""
    arms: list[int] = []
    while len(arms) < n:
        for ask in study.ask(batch):
            arms.append(int(ask.arm))
            study.tell(ask.id, means(int(ask.arm)) + 0.3 * rng.standard_normal())
    return arms


def corrected(n: int, **options: Any) -> Study:
    """A study that does not stop, with corrections of every kind between its plans."""
    study, rng = new(delta=1e-200, **options), np.random.default_rng(5)
    for turn in range(n):
        measure(study, 9, rng)
        one = study.measurements[int(rng.integers(len(study.measurements)))]
        if one.is_void:
            study.restore(one.id, reason="found")
        elif turn % 3 == 0:
            study.void(one.id, reason="spilt")
        else:
            study.correct(one.id, float(rng.standard_normal()), reason="a slip")
    return study


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stopping": "evidence"},
        {"noise_std": None},
        {"noise_std": None, "noise": "per-arm"},
        {"algorithm": "rage", "stopping": "betting"},
        {"budget": 400.0},
    ],
)
def test_a_loaded_study_asks_for_the_arms_of_the_live_one(options: dict[str, Any]) -> None:
    """Plans made before corrections reach the sampler with the values of their time."""
    live = corrected(8, **options)
    loaded = load_study("trees", live.storage)
    assert loaded.learner.theta.tobytes() == live.learner.theta.tobytes()
    assert loaded.learner.decision == live.learner.decision
    plans = [one.learner.state.propose_plan() if one.learner.state.needs_plan else None for one in (live, loaded)]
    assert plans[0] == plans[1]
    again, *others = (load_study("trees", live.storage) for _ in range(3))
    measure(again, 30, np.random.default_rng(6), batch=1)
    assert {repr(other.status) for other in others} == {repr(again.status)}


def test_loading_settles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither results nor what samplers knew is worked out before it is read."""
    study = corrected(6)
    with monkeypatch.context() as patch:
        patch.setattr(Settlement, "advance", None)
        patch.setattr(Settlement, "context", None)
        loaded = load_study("trees", study.storage)
    assert repr(loaded.status) == repr(study.status)


class Turns:
    """Tells whether a study is locked for writing."""

    def __init__(self, study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_in = False
        real = study.storage.writing

        @contextmanager
        def writing(name: str) -> Iterator[Writer]:
            with real(name) as writer:
                self.is_in = True
                try:
                    yield writer
                finally:
                    self.is_in = False

        monkeypatch.setattr(study.storage, "writing", writing)


def test_a_correction_is_worked_out_before_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within it no block is judged."""
    study = corrected(3)
    turns, real, judged = Turns(study, monkeypatch), Settlement._close, list[bool]()

    def close(settlement: Settlement, *of: Any) -> None:
        judged.append(turns.is_in)
        real(settlement, *of)

    monkeypatch.setattr(Settlement, "_close", close)
    study.correct(5, 0.25, reason="a slip")
    assert study.learner.decision == load_study("trees", study.storage).learner.decision
    assert judged
    assert not any(judged)


@pytest.mark.parametrize("is_correction", [True, False])
def test_what_others_write_meanwhile_is_in_it(monkeypatch: pytest.MonkeyPatch, *, is_correction: bool) -> None:
    """A correction that was worked out without another one is worked out again; one without new results goes on."""
    study, rng, real = corrected(3), np.random.default_rng(7), Study._writing
    other = load_study("trees", study.storage)
    first, second, *_ = (one.id for one in study.measurements if not one.is_void)

    def late(self: Study, *of: Any) -> Any:
        if self is study:
            if is_correction:
                other.correct(second, 0.75, reason="x")
            else:
                measure(other, 12, rng)
        return real(self, *of)

    with monkeypatch.context() as patch:
        patch.setattr(Study, "_writing", late)
        study.correct(first, 0.5, reason="a slip")
    loaded = load_study("trees", study.storage)
    assert study.learner.theta.tobytes() == loaded.learner.theta.tobytes()
    assert study.learner.decision == loaded.learner.decision
    assert [one.value for one in study.measurements] == [one.value for one in loaded.measurements]


def test_the_path_of_evidence_ends_with_the_evidence_of_today() -> None:
    """Also where a late result lets several blocks settle at once: the first of them is not the last point."""
    study, rng, ends = new(delta=1e-200), np.random.default_rng(1), []
    measure(study, 30, rng)
    late = study.ask(1)[0]
    for _ in range(60):
        one = study.ask(1)[0]
        study.tell(one.id, means(int(one.arm)) + 0.3 * rng.standard_normal())
        snapshot = study.learner.snapshot
        assert snapshot.path[-1] == (snapshot.n_pulls, snapshot.evidence, snapshot.threshold)
    waiting = study.learner.snapshot.evidence
    study.tell(late.id, means(int(late.arm)) + 0.3 * rng.standard_normal())
    snapshot = study.learner.snapshot
    assert snapshot.evidence > waiting
    ends.append(snapshot.path[-1])
    assert ends[0] == (snapshot.n_pulls, snapshot.evidence, snapshot.threshold)
    measure(study, 30, rng)
    assert ends[0] in study.learner.snapshot.path
