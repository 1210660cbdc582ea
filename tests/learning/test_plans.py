"""Plans that are written down, and followed: by another process, on another machine, after a correction."""

from typing import Any

import numpy as np
import pytest

from surepick.errors import InvalidInput
from surepick.learning.blocks import Plan
from surepick.learning.learner import Learner
from surepick.learning.model import Model
from surepick.sampling.tracking import Tracker
from surepick.types import AskNumber
from tests.learning.lab import THETA, X


def value(arm: int, n: int) -> float:
    """What an arm gives, with a little scatter."""
    return float(X[arm] @ THETA) + 0.1 * (n % 3 - 1)


def learner(**options: object) -> Learner:
    """One with the usual options."""
    return Learner("lazy-track-and-stop", X, noise_std=0.2, **options)  # type: ignore[arg-type]


def planned(one: Learner, plan: Plan | None = None, *, checks: bool = False) -> Plan:
    """Open a block, by a plan of others or by the learner's own with all its arms."""
    plan = one.state.propose_plan() if plan is None else plan
    one.state.open(plan, checks=checks)
    return plan


@pytest.mark.parametrize("options", [{}, {"stopping": "evidence"}, {"m": 2}, {"budget": 30.0}, {"epsilon": 0.1}])
def test_a_learner_that_follows_plans_is_the_one_that_made_them(options: dict) -> None:
    """Plans drawn at once and handed over give the same arms, the same estimate and the same evidence, bit for bit."""
    makes, follows, plain = learner(**options), learner(**options), learner(**options)
    n = 0
    while not makes.stopped and not makes.state.is_spent and n < 300:
        if makes.state.needs_plan:
            plan = planned(makes)
            assert len(plan.arms) == plan.length
            assert planned(follows, plan, checks=n % 2 == 0) == plan
            assert not follows.state.plans.differs
        (arm,) = makes.next_arms() or [None]
        if arm is None:
            break
        assert follows.next_arms() == plain.next_arms() == [arm]
        n += 1
        for each in (makes, follows, plain):
            each.tell(arm, value(arm, n))
    assert makes.stopped == follows.stopped == plain.stopped
    assert makes.theta.tobytes() == follows.theta.tobytes() == plain.theta.tobytes()
    assert makes.decision == follows.decision == plain.decision


def test_a_plan_of_others_is_followed_and_said_to_differ() -> None:
    """Any plan made before its first result is valid; one that begins elsewhere is refused."""
    one = learner()
    own = planned(learner())
    other = Plan(0, own.length, tuple((arm + 1) % 4 for arm in own.arms))
    planned(one, other, checks=True)
    assert one.state.plans.differs
    assert one.next_arms(own.length) == list(other.arms)
    with pytest.raises(InvalidInput, match=f"begins with ask {own.length}"):
        planned(one, Plan(0, 1, (0,)))


def test_a_result_that_answers_no_ask_leaves_the_asks_open() -> None:
    """ask="none": the arm's ask goes on, and the result counts beside it."""
    one = learner()
    (ask,) = one.next_asks(1)
    one.tell(ask.arm, 0.5, ask="none")
    assert one.state.ledger.awaits(AskNumber(ask.number))
    assert sum(one.pending.values()) == 1
    one.tell(ask.arm, 0.6, ask=ask.number)
    assert not one.state.ledger.awaits(AskNumber(ask.number))
    assert len(one.state.results) == 2


def test_a_restored_result_counts_as_it_last_did() -> None:
    """Void and restored, with a correction before, is the state without the void, bit for bit."""
    one, other = learner(), learner()
    for each in (one, other):
        for n in range(12):
            (arm,) = each.next_arms()
            each.tell(arm, value(arm, n))
        each.correct(3, 0.55)
    one.void(3, reason="spilt")
    assert one.theta.tobytes() != other.theta.tobytes()
    one.restore(3, reason="found")
    assert one.theta.tobytes() == other.theta.tobytes()
    assert one.decision == other.decision
    with pytest.raises(InvalidInput, match="not void"):
        one.restore(3)


def test_an_interval_that_was_planned_and_not_asked_survives_a_correction() -> None:
    """What was told after it was planned stays after it, and its arms are those that were planned."""
    one = learner()
    for n in range(8):
        one.tell(n % 4, value(n % 4, n))
    plan = planned(one)
    one.tell(0, 0.7)
    one.correct(2, 0.9)
    assert one.n_planned == plan.length
    assert not one.state.needs_plan
    assert one.next_arms(plan.length) == list(plan.arms)


def test_intervals_of_one_large_batch_survive_a_correction() -> None:
    """One call may open several intervals: a correction that changes nothing leaves the evidence, bit for bit."""
    one = learner(delta=1e-9)
    arms = one.next_arms(40)
    for n, arm in enumerate(arms):
        one.tell(arm, value(arm, n))
    before = one.decision
    assert before.evidence > 5.0
    one.correct(0, value(arms[0], 0), reason="the same")
    assert one.decision == before


def test_a_plan_in_force_survives_an_audit_that_is_gone_through_again() -> None:
    """A correction goes through the log again; an audit in there leaves what is planned since alone."""
    one = learner()
    n = 0
    while not one.stopped:
        (arm,) = one.next_arms()
        one.tell(arm, value(arm, n))
        n += 1
    one.audit(3)
    for arm in one.next_arms(3):
        one.tell(arm, value(arm, 0))
    n = 0
    while one.stopped:
        one.void(n)
        n += 1
    plan = planned(one)
    first = one.next_arms(1)
    one.correct(len(one.state.results) - 1, 0.5)
    assert first + one.next_arms(plan.length - 1) == list(plan.arms)


def test_an_audit_ends_a_later_interval_that_is_open() -> None:
    """Where workers do not wait, the verdict may come while the next interval is open: it ends with what was asked."""
    one = learner()
    ahead = one.next_asks(1)
    n = 0
    while not one.stopped:
        asks, ahead = [*ahead, *(one.next_asks(one.n_planned) if one.n_planned else [])], one.next_asks(1)
        for ask in asks:
            one.tell(ask.arm, value(ask.arm, n), ask=ask.number)
            n += 1
    assert one.n_planned > 0
    assert one.audit(4) == one.n_planned == 4
    for ask in [*one.next_asks(4), *ahead]:
        one.tell(ask.arm, value(ask.arm, 1), ask=ask.number)
    assert one.reader.n_checks == 4
    assert one.n_planned == 0


def test_the_watch_bets_on_no_interval_that_an_audit_has_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its length may depend on its own results, so the watch of the model only learns from them."""
    taken: dict[str, list[int]] = {"settle": [], "learn": []}
    for name, sizes in taken.items():
        real = getattr(Model, name)

        def noted(self: Any, arms: Any, *rest: Any, real: Any = real, sizes: list[int] = sizes) -> None:
            sizes.append(len(arms))
            real(self, arms, *rest)

        monkeypatch.setattr(Model, name, noted)
    one, n = learner(), 0
    while not one.stopped:
        ahead = one.next_asks(one.n_planned + 1)  # the last of them opens the next interval
        for ask in ahead[:-1]:
            one.tell(ask.arm, value(ask.arm, n), ask=ask.number)
            n += 1
        last = ahead[-1]
        if not one.stopped:
            one.tell(last.arm, value(last.arm, n), ask=last.number)
    n_settled = len(taken["settle"])
    assert taken["learn"] == []
    one.audit(4)
    one.tell(last.arm, value(last.arm, n), ask=last.number)
    assert one.stopped  # reading settles
    assert (len(taken["settle"]), taken["learn"]) == (n_settled, [1])


def test_guidance_is_no_evidence() -> None:
    """Earlier results guide the first plan, and the first verdict needs pulls of its own; as evidence they suffice."""
    guided, told = learner(), learner(earlier="evidence")
    for one in (guided, told):
        for n in range(80):
            one.tell(n % 4, value(n % 4, n))
        planned(
            one,
        )
    assert told.stopped
    assert not guided.stopped
    assert guided.theta.tobytes() == told.theta.tobytes()
    with pytest.raises(InvalidInput, match=r"evidence.*guidance"):
        learner(earlier="hints")


@pytest.mark.parametrize("tracking", ["averaged", "current"])
def test_to_follow_arms_is_to_draw_them_one_by_one(tracking: Any) -> None:
    """A tracker that notes many arms at once is in the state, to the last bit, of one that chose them."""
    rng = np.random.default_rng(0)
    one, many = (Tracker(tracking) for _ in range(2))
    for _ in range(6):
        support = np.sort(rng.choice(9, size=4, replace=False))
        weights = rng.dirichlet(np.ones(4))
        for tracker in (one, many):
            tracker.retarget(support, weights)
        many.follow([one.next() for _ in range(int(rng.integers(1, 40)))])
        assert many.arms.tolist() == one.arms.tolist()
        assert many.N.tobytes() == one.N.tobytes()
        assert many.wanted == one.wanted
        assert many.n_asked == one.n_asked


def test_a_plan_in_random_order_is_followed_where_exploration_is_forced() -> None:
    """A learner that is loaded in the middle plans the next block as the one that never stopped does.

    Exploration may be forced inside these blocks, so the sampler draws some of their arms again, in another order than
    they are asked in. Counted twice, they would change later plans.
    """
    rows, options = np.random.default_rng(1).normal(size=(12, 4)), dict[str, Any](noise_std=2.0, exploration=2.0)
    makes, *loaded = (Learner("lazy-track-and-stop", rows, **options) for _ in range(9))
    for n in range(8):
        plan = planned(makes)
        assert planned(loaded[n]) == plan
        for one in loaded[n + 1 :]:
            planned(one, plan)
        for one in (makes, *loaded[n + 1 :]):
            for ask in one.next_asks(plan.length):
                one.tell(ask.arm, float(rows[ask.arm, 0]) + 0.3 * (ask.number % 3 - 1), ask=ask.number)
