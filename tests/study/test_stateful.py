"""Whatever is done to a study in any order, by several hands and clocks: nothing is lost, and a replay is the study.

`HYPOTHESIS_PROFILE=explore` looks for long sequences of its own; the default is a few short ones.
"""

import copy
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import surepick as sp
from surepick.errors import Conflict, InvalidInput, NotEnoughData
from surepick.study.admin import copy_study, create_study, load_study
from surepick.study.events import Kind as EventKind
from surepick.study.events import check_chain
from surepick.study.storage import Storage
from surepick.study.study import Study
from tests.study.kinds import KINDS, Kind
from tests.study.storages import Place, set_time

EXPLORES = os.environ.get("HYPOTHESIS_PROFILE") == "explore"
SETTINGS = (
    settings(max_examples=300, stateful_step_count=50)
    if EXPLORES
    # What fails is shown as it was found: to look for the shortest would take minutes.
    else settings(max_examples=12, stateful_step_count=12, phases=[Phase.generate])
)
WORKERS = [None, "ann", "bob", "äöü 🧪"]
_names = count(1)

picks = st.integers(0, 10**6)
normal = st.integers(-2_500, 2_500).map(lambda n: n / 1_000)
workers = st.sampled_from(WORKERS)
people = st.sampled_from([0, 1])
leases: st.SearchStrategy[Any] = st.sampled_from(["own", "30m", "2h", 5.0, None])


def picked(things: list[Any], pick: int) -> Any:
    """One of them."""
    return things[pick % len(things)]


class Studies(RuleBasedStateMachine):
    """One study, seen through two objects, beside a plain list of what it must have kept."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.time = datetime(2026, 11, 17, 12, tzinfo=UTC)
        self.patch = pytest.MonkeyPatch()
        set_time(self.patch, lambda: self.time)
        self.opened: list[Storage] = []
        self.studies: list[Study] = []
        self.kept: list[list[Any]] = []
        """Of every measurement: arm, value told, value that counts, void or not."""
        self.answered: dict[int, list[float]] = {}
        """By ask, what was told for it."""
        self.keyed: dict[str, tuple[Any, list[float]]] = {}

    def teardown(self) -> None:
        """Give the clock back, and all connections."""
        self.patch.undo()
        for storage in self.opened:
            storage.close()

    def storage(self) -> Storage:
        """The place, opened anew."""
        self.opened.append(self.place.open())
        return self.opened[-1]

    @initialize(kind=st.sampled_from(sorted(KINDS)))
    def create(self, kind: str) -> None:
        """Begin one of some kind."""
        self.kind: Kind = KINDS[kind]
        self.name = f"{kind} {next(_names)}"
        storage = self.storage()
        self.studies = [create_study(self.name, **self.kind.given, storage=storage, lease="1h", author="me")]
        self.studies.append(load_study(self.name, storage, author="she"))

    # ---- how anything is done

    def do(self, who: int, action: Callable[[Study], Any]) -> Any:
        """Do something; if it is refused, nothing may have changed, and None is returned."""
        study = self.studies[who]
        before = study.storage.read(self.name)
        try:
            return action(study)
        except InvalidInput:
            written = study.storage.read(self.name)
        assert written == before, "refused, and written all the same"
        return None

    def did(self, who: int, action: Callable[[Study], None]) -> bool:
        """Do something that returns nothing; whether it was not refused."""
        head = self.studies[who].head
        self.do(who, action)
        return self.studies[who].head != head

    def value(self, features: tuple[float, ...], z: float) -> float:
        """What an arm gives."""
        return self.kind.value(features, z)

    def tell(self, who: int, ask: int | None, of: Any, values: list[float], **how: Any) -> None:
        """Tell values by ask or arm, and keep them, if they are not refused."""
        known = len(self.kept)
        given: Any = values[0] if len(values) == 1 else values
        told = self.do(who, lambda study: study.tell(ask, given, **how))
        if told is None:
            return
        assert [one.told for one in told] == values
        ids = [one.id for one in told]
        assert ids == list(range(known + 1, known + 1 + len(values))), "a result that was new is not at the end"
        self.kept += [[of, value, value, False] for value in values]
        for one in told:
            if one.ask is not None:
                self.answered.setdefault(one.ask, []).append(one.told)
        if "key" in how:
            self.keyed[how["key"]] = of, values

    @property
    def attempts(self) -> list[Any]:
        """All asks ever made."""
        return list(self.studies[0].state.attempts.values())

    def some_arm(self, pick: int) -> Any:
        """An arm that is there, or was."""
        state = self.studies[0].state
        if state.catalog.written["kind"] != "finite":
            angle = pick % 7
            return (float(np.cos(angle)), float(np.sin(angle)))
        return pick % len(state.catalog.written["rows"])

    # ---- asks and results

    @rule(who=people, n=st.integers(1, 12), worker=workers, lease=leases)
    def ask(self, who: int, n: int, worker: str | None, lease: Any) -> None:
        """Ask for a few."""
        mine = [one.id for one in self.studies[who].pending if worker is not None]
        asks = self.do(who, lambda study: study.ask(n, worker=worker, lease=lease))
        assert len(asks) <= n
        assert len({ask.id for ask in asks}) == len(asks)
        state = self.studies[who].state
        assert all(ask.id in state.open for ask in asks)
        if worker is None:
            assert not {ask.id for ask in asks} & set(mine)

    @rule(who=people, n=st.integers(1, 40), seed=picks)
    def work(self, who: int, n: int, seed: int) -> None:
        """Much of what others do one by one, so that studies come to a verdict."""
        rng = np.random.default_rng(seed)
        for ask in self.do(who, lambda study: study.ask(n, worker="robot", lease=None)):
            values = [self.value(ask.features, float(rng.standard_normal()))]
            self.tell(who, ask.id, ask.arm, values, worker="robot")

    @precondition(lambda self: self.studies and self.studies[0].state.open)
    @rule(who=people, pick=picks, z=normal, worker=workers, more=st.integers(0, 2))
    def answer(self, who: int, pick: int, z: float, worker: str | None, more: int) -> None:
        """Tell the result of an open ask, with replicates."""
        one = picked(self.studies[who].pending, pick)
        values = [self.value(one.features, z + 0.1 * i) for i in range(1 + more)]
        self.tell(who, one.id, one.arm, values, worker=worker)

    @precondition(lambda self: self.studies and any(not one.results for one in self.attempts))
    @rule(who=people, pick=picks, z=normal)
    def answer_late(self, who: int, pick: int, z: float) -> None:
        """Any ask without a result: open, given up, expired, or of an era that is over."""
        one = picked([one for one in self.attempts if not one.results], pick)
        self.tell(who, one.id, one.arm, [self.value(self.studies[who].state.catalog.features(one.arm), z)])

    @precondition(lambda self: self.answered)
    @rule(who=people, pick=picks, is_same=st.booleans())
    def answer_again(self, *, who: int, pick: int, is_same: bool) -> None:
        """Tell what was told before, the same or otherwise."""
        ask = picked(sorted(self.answered), pick)
        values = self.answered[ask]
        study, head = self.studies[who], self.studies[who].head
        if is_same:
            assert [one.told for one in study.tell(ask, values)] == values
        else:
            with pytest.raises(Conflict, match=f"ask {ask}"):
                study.tell(ask, [*values, 0.0])
        assert study.head == head

    @rule(who=people, pick=picks, z=normal, n=st.integers(1, 3), worker=workers)
    def tell_arm(self, who: int, pick: int, z: float, n: int, worker: str | None) -> None:
        """Tell results by the arm."""
        arm = self.some_arm(pick)
        features = self.studies[who].state.catalog.features(arm)
        self.tell(who, None, arm, [self.value(features, z)] * n, arm=arm, worker=worker)

    @rule(who=people, pick=picks, z=normal, key=st.sampled_from(["a", "b", "ключ"]))
    def tell_with_key(self, who: int, pick: int, z: float, key: str) -> None:
        """Tell a result under a key, which is known or not."""
        arm = self.some_arm(pick)
        values = [self.value(self.studies[who].state.catalog.features(arm), z)]
        if key not in self.keyed:
            self.tell(who, None, arm, values, arm=arm, key=key)
            return
        study, head = self.studies[who], self.studies[who].head
        known, told = self.keyed[key]
        if known == arm and told == values:
            assert [one.told for one in study.tell(None, values, arm=arm, key=key)] == told
        else:
            with pytest.raises(Conflict, match="key"):
                study.tell(None, values, arm=arm, key=key)
        assert [one.told for one in study.tell(None, told, arm=known, key=key)] == told
        assert study.head == head

    @rule(who=people, pick=picks, z=st.lists(normal, min_size=1, max_size=6))
    def tell_earlier(self, who: int, pick: int, z: list[float]) -> None:
        """Tell results that nobody asked for."""
        state = self.studies[who].state
        arms = [self.some_arm(pick + i) for i in range(len(z))]
        pairs = [(arm, self.value(state.catalog.features(arm), one)) for arm, one in zip(arms, z, strict=True)]
        if self.do(who, lambda study: study.tell_earlier(pairs)) is not None:
            self.kept += [[arm, value, value, False] for arm, value in pairs]

    @precondition(lambda self: self.studies and self.attempts)
    @rule(who=people, pick=picks)
    def fail(self, who: int, pick: int) -> None:
        """Give up any ask."""
        one = picked(self.attempts, pick)
        self.do(who, lambda study: study.fail(one.id, reason="dropped"))

    @rule(hours=st.sampled_from([0.3, 1.5, 30.0, -5.0]))
    def pass_time(self, hours: float) -> None:
        """Set the clock, forward or back."""
        self.time += timedelta(hours=hours)

    # ---- corrections

    @precondition(lambda self: self.kept)
    @rule(who=people, pick=picks)
    def void(self, who: int, pick: int) -> None:
        """Take a measurement back."""
        n = pick % len(self.kept)
        if self.did(who, lambda study: study.void(n + 1, reason="spilt")):
            assert not self.kept[n][3]
            self.kept[n][3] = True

    @precondition(lambda self: self.kept)
    @rule(who=people, pick=picks, z=normal)
    def correct(self, who: int, pick: int, z: float) -> None:
        """Correct a measurement."""
        n = pick % len(self.kept)
        value = self.value(self.studies[who].state.catalog.features(self.kept[n][0]), z)
        if self.did(who, lambda study: study.correct(n + 1, value, reason="comma")):
            assert not self.kept[n][3]
            self.kept[n][2] = value

    @precondition(lambda self: any(one[3] for one in self.kept))
    @rule(who=people, pick=picks)
    def restore(self, who: int, pick: int) -> None:
        """Let one count again."""
        n = picked([n for n, one in enumerate(self.kept) if one[3]], pick)
        if self.did(who, lambda study: study.restore(n + 1, reason="found")):
            self.kept[n][3] = False

    # ---- after the verdict, and other eras

    @rule(who=people, n=st.sampled_from(["auto", 3]))
    def audit(self, who: int, n: Any) -> None:
        """Plan check pulls."""
        if not self.studies[who].stopped:
            with pytest.raises(InvalidInput):
                self.studies[who].audit(n)
            return
        self.do(who, lambda study: study.audit(n))

    @rule(who=people, change=st.sampled_from([{}, {"delta": 0.2}, {"epsilon": 0.1}, {"budget": 30.0}, {"seed": 3}]))
    def reopen(self, who: int, change: dict[str, Any]) -> None:
        """Begin an era with other options."""
        self.do(who, lambda study: study.reopen(reason="more", **change))

    @rule(who=people, pick=picks, joins=st.booleans(), retires=st.booleans())
    def change_arms(self, *, who: int, pick: int, joins: bool, retires: bool) -> None:
        """Begin an era with other arms."""
        state = self.studies[who].state
        if state.catalog.written["kind"] != "finite" or state.catalog.candidates is not None:
            return
        n = len(state.catalog.written["rows"])
        rows = [[0.1 * (pick % 9) - 0.3, 0.2 + 0.01 * n]]
        names = None if state.catalog.names is None else [f"new {n}"]
        change: dict[str, Any] = {"join": sp.FiniteArms.rows_only(rows, least=1, argument="join")} if joins else {}
        if joins and names is not None:
            change["join"] = sp.FiniteArms(np.array([*rows, [0.3, 0.1 * n]]), names=[*names, f"newer {n}"])
        if retires:
            change["retire"] = [pick % n]
        self.do(who, lambda study: study.reopen(reason="other arms", **change))

    # ---- hands that come and go

    @rule(who=people)
    def restart(self, who: int) -> None:
        """Forget all, and load it again."""
        self.studies[who] = load_study(self.name, self.storage(), author="me")

    @rule()
    def move(self) -> None:
        """Go on with a copy."""
        name = f"{self.name}'"
        copy_study(self.name, name, storage=self.studies[0].storage)
        self.name, self.studies = name, [load_study(name, study.storage, author="me") for study in self.studies]

    @rule(who=people, bad=st.sampled_from(range(14)))
    def refuse(self, who: int, bad: int) -> None:
        """What can never be done is refused in words, and changes nothing."""
        study, head = self.studies[who], self.studies[who].head
        with pytest.raises(InvalidInput):
            picked(list(refused(study)), bad)()
        assert study.head == head

    # ---- what always holds

    @invariant()
    def keeps_what_it_was_told(self) -> None:
        """No measurement is lost, doubled, changed or out of order."""
        for study in self.studies:
            kept = [[one.arm, one.told, one.last, one.is_void] for one in study.measurements]
            assert kept == self.kept
            assert [one.id for one in study.measurements] == list(range(1, len(kept) + 1))

    @invariant()
    def is_what_its_log_says(self) -> None:
        """One that is loaded afresh is the same to the last bit, and asks the same next."""
        if not self.studies:
            return
        check_chain(self.studies[0].rows())
        fresh = Study(self.studies[0].storage, self.name)
        seen = looks(fresh)
        for study in self.studies:
            assert looks(study) == seen

    @invariant()
    def has_the_verdict_in_its_log(self) -> None:
        """The verdict of the log is that of the learner."""
        for study in self.studies:
            state = study.state
            learner = state.learner
            assert state.stopped == learner.stopped
            if state.verdict is not None:
                decision = learner.decision
                best = decision.best if isinstance(decision.best, list) else [decision.best]
                assert state.verdict.best == tuple(state.catalog.candidate_key(arm) for arm in best)
                assert state.verdict.evidence == pytest.approx(decision.evidence, rel=1e-6)
                assert state.verdict.threshold == decision.target


def refused(study: Study) -> Iterator[Callable[[], object]]:
    """Calls that no study allows."""
    nan: Any = float("nan")
    yield lambda: study.ask(0)
    yield lambda: study.ask(1, lease="soon")
    yield lambda: study.ask(1, worker=3)  # type: ignore[arg-type]
    yield lambda: study.tell(10**6, 1.0)
    yield lambda: study.tell(arm="elmm", value=1.0)
    yield lambda: study.tell(arm=10**6, value=1.0)
    yield lambda: study.tell(arm=study.state.learner.arms, value=1.0)
    yield lambda: study.tell(arm=0, value=nan)
    yield lambda: study.tell(1, 1.0, arm=0)
    yield lambda: study.tell_earlier([(0, 0.5), (0, nan)])
    yield lambda: study.void(10**6, reason="x")
    yield lambda: study.correct(10**6, 1.0, reason="x")
    yield lambda: study.void(1, reason=" ")
    yield lambda: study.reopen(reason="x", delta=2.0)


def looks(study: Study) -> dict[str, Any]:
    """All that can be seen of a study, to the last bit, and what it would ask next."""
    state = study.state
    learner = state.learner
    seen: dict[str, Any] = {
        "status": repr(study.status),
        "pending": study.pending,
        "measurements": repr(study.measurements),
        "attempts": repr(state.attempts),
        "decision": repr(learner.decision),
        "learner": (
            learner.n_asked,
            len(learner.state.results),
            learner.n_planned,
            tuple(learner.state.checks),
            learner.pending,
        ),
        "path": learner.snapshot.path,
        "spent": (
            learner.state.is_spent,
            learner.state.needs_plan,
            learner.reader.model_check,
            learner.reader.n_checks,
        ),
        "names": state.catalog.names,
        "verdicts": state.verdicts,
    }
    try:
        seen["theta"] = learner.theta.tobytes()
    except NotEnoughData:
        seen["theta"] = b""
    ahead = copy.deepcopy(state)
    asks: list[tuple[int, Any]] = []
    while ahead.can_ask and len(asks) < 8:
        event = {"n": ahead.n_events + 1, "at": "", "by": "", "until": None}
        if (plan := ahead.propose_plan()) is not None:
            ahead.apply({**event, "kind": EventKind.PLANNED, **plan})
            continue
        fields = ahead.propose_asks(8 - len(asks))
        if not fields["asks"]:
            break
        ahead.apply({**event, "kind": EventKind.ASKED, **fields})
        asks += [(number, arm) for number, arm in fields["asks"]]
    seen["next"] = asks
    return seen


def test_whatever_happens_nothing_is_lost_and_a_replay_is_the_study(place: Place) -> None:
    """Asks, results, corrections, clocks, restarts and eras in any order leave a study that its log gives again."""

    class Here(Studies):
        def __init__(self) -> None:
            super().__init__(place)

    run_state_machine_as_test(Here, settings=SETTINGS)
