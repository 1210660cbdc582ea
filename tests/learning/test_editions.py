"""Editions: logs of earlier releases go on as they began; edition 2 asks for the arms of a block in random order."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.learning.blocks import shuffled
from surepick.learning.ledger import PlannedBlock
from surepick.study.certificate import verify
from surepick.types import ResultNumber

X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.7, 0.6, 0.2], [0.4, 0.3, 0.6]])
THETA = np.array([0.9, 0.5, 0.2])


def learner(**options: Any) -> sp.Learner:
    """A learner on five arms."""
    return sp.create_learner(options.pop("algorithm", "lazy-track-and-stop"), X, **{"seed": 3, **options})


def go_on(one: sp.Learner, n: int, seed: int = 1) -> list[list[int]]:
    """Answer up to n asks; return the arms of each block."""
    rng, blocks = np.random.default_rng(seed), list[list[int]]()
    while not one.stopped and sum(map(len, blocks)) < n:
        (arm,) = one.next_arms()
        if not blocks or one.state.ledger.n_opened > len(blocks):
            blocks.append([])
        blocks[-1].append(arm)
        one.tell(arm, float(X[arm] @ THETA + 0.5 * rng.standard_normal()))
    return blocks


def test_the_identity_names_the_edition_from_the_second_on() -> None:
    """Identities of edition 1 have the bytes that they had."""
    assert ", edition=2, seed=3" in learner().identity
    assert learner(edition=1).identity == learner().identity.replace(", edition=2", "")


@pytest.mark.parametrize("earlier", [0, 4])
def test_a_log_of_edition_1_goes_on_as_it_began(earlier: int) -> None:
    """On a learner of today, with the arms that the learner of that time would ask for next."""
    old, new = learner(edition=1), learner()
    for arm in range(earlier):
        old.tell(arm, 0.3)
    go_on(old, 70)
    new.replay(old.log)
    assert (new.log, new.identity, new.spec.edition) == (old.log, old.identity, 1)
    assert go_on(new, 40, seed=2) == go_on(old, 40, seed=2)
    new.replay((("start", learner().identity),))
    assert new.spec.edition == 2


def test_a_replay_that_fails_leaves_the_edition() -> None:
    """A log of other options, and one that cannot have happened."""
    one, other = learner(), learner(edition=1, delta=0.1)
    for log in (other.log, [*learner(edition=1).log, ("tell", 99, 0.1)], 5):
        with pytest.raises(sp.InvalidInput):
            one.replay(log)  # type: ignore[arg-type]
        assert one.task.edition == one.spec.edition == 2
    go_on(one, 20)


def test_an_edition_of_the_future_is_refused() -> None:
    """By name, and in a log."""
    with pytest.raises(sp.InvalidInput, match="`edition` must be at most 2, got 3"):
        learner(edition=3)
    with pytest.raises(sp.InvalidInput, match="must begin with"):
        learner().replay([("start", learner().identity.replace("edition=2", "edition=3"))])


def test_a_result_file_of_edition_1_goes_on(tmp_path: Path) -> None:
    """`identify(history=...)` asks for what it would have asked."""

    def run(n: int, **given: Any) -> sp.Result:
        rng = np.random.default_rng(len(given.get("history", ())))
        return sp.identify(X, lambda arm: float(X[arm] @ THETA + rng.standard_normal()), max_pulls=n, **given)

    run(60, edition=1).save(tmp_path / "result.json")
    kept = sp.Result.load(tmp_path / "result.json").history
    ended = [run(30, history=kept, **given) for given in ({}, {"edition": 1})]
    assert ended[0].history.log == ended[1].history.log
    assert "edition" not in ended[0].history.log[0][1]


def test_a_study_keeps_its_edition() -> None:
    """In its first event; a reopened one too. A log without an edition is one of edition 1 (tests/golden)."""
    for edition in (1, 2):
        given: dict[str, Any] = {} if edition == 2 else {"edition": 1}
        with sp.create_study("s", arms=X, noise_std=0.5, storage="memory:", **given) as study:
            assert study.state.options["edition"] == study.state.learner.task.edition == edition
            study.reopen(reason="surer", delta=0.01)
            assert study.state.learner.task.edition == edition


# ---- random order


def whole_block(one: sp.Learner) -> list[int]:
    """Ask for all arms of the next block."""
    (first,) = one.next_arms()
    return [first, *(one.next_arms(one.n_planned) if one.n_planned else [])]


@pytest.mark.parametrize("given", [{"noise_std": 0.5}, {"noise_std": 0.5, "budget": 60.0}, {"reward_range": (-9, 9)}])
def test_a_block_has_its_arms_in_random_order(given: dict[str, Any]) -> None:
    """The same arms as in the order of the design, as long as both know the same results."""
    rewards = np.random.default_rng(0).standard_normal(200).tolist()
    olds, news = learner(edition=1, **given), learner(**given)
    while len(olds.history) < 50:
        arms, others = whole_block(olds), whole_block(news)
        # No bet rests on the first block, whose first arms span.
        assert others == (shuffled(arms, 3, len(olds.history)) if olds.history else arms)
        for arm in arms:
            value = rewards.pop()
            olds.tell(arm, value)
            news.tell(arm, value)


def test_every_order_is_equally_likely() -> None:
    """Of three arms, over 6,000 blocks; a fair shuffle fails in one of a million runs (chi-square of 5 degrees)."""
    counts = Counter(tuple(shuffled([0, 1, 2], seed, 7)) for seed in range(6000))
    assert len(counts) == 6
    assert sum((n - 1000.0) ** 2 / 1000.0 for n in counts.values()) < 35.9
    assert len({tuple(shuffled(range(20), 0, first)) for first in range(50)}) == 50


def test_the_order_is_fixed_for_all_time() -> None:
    """Logs rest on it."""
    assert shuffled(list(range(10)), 0, 0) == [3, 2, 1, 8, 6, 0, 7, 4, 5, 9]
    assert shuffled(list(range(10)) * 2, 5, 40, n_parts=2) == [
        5,
        0,
        8,
        3,
        1,
        2,
        7,
        9,
        4,
        6,
        1,
        9,
        5,
        6,
        2,
        7,
        3,
        4,
        8,
        0,
    ]


def test_repetitions_are_shuffled_by_themselves() -> None:
    """Each has the arms of the plan, and its results are told apart by arm."""
    one = learner(noise="per-arm")
    go_on(one, 120)
    is_mixed = False
    for told in one.state.results:
        for block in told.closes:
            n = block.length // block.n_parts
            parts = [block.arms[start : start + n] for start in range(0, block.length, n)]
            assert all(Counter(part) == Counter(parts[0]) for part in parts)
            is_mixed = is_mixed or parts != [parts[0]] * len(parts)
    assert is_mixed
    arms = [2, 0, 1, 0, 0, 0, 1, 2]
    block = PlannedBlock(1, 8, arms, {place: ResultNumber(place) for place in range(8)}, n_parts=2)
    values = [10.0 * arm + place for place, arm in enumerate(arms)]
    assert block.repetitions(values) == ([0, 0, 1, 2], [[1, 3, 12, 20], [4, 5, 16, 27]])
    assert block.repetitions([None, *values[1:]])[1] == [[4, 5, 16, 27]]


@pytest.mark.parametrize(
    "given",
    [
        {"variant": "paper", "stopping": "betting"},
        {"stopping": "evidence"},
        {"algorithm": "g-static", "stopping": "paper-main"},
    ],
)
def test_the_order_stays_where_sampling_is_not_in_blocks_or_is_published(given: dict[str, Any]) -> None:
    """Arms are those of edition 1."""
    asked = [go_on(learner(noise_std=0.5, edition=edition, **given), 40) for edition in (1, 2)]
    assert asked[0] == asked[1]


def test_a_study_asks_in_the_order_of_a_learner() -> None:
    """And whoever loads its log sees that its plans are its own."""
    one = learner(noise_std=0.5)
    with sp.create_study("s", arms=X, noise_std=0.5, seed=3, storage="memory:") as study:
        for value in np.random.default_rng(4).standard_normal(40).tolist():
            (ask,), (arm,) = study.ask(1), one.next_arms()
            assert ask.arm == arm
            study.tell(ask.id, value)
            one.tell(arm, value)
        assert verify(study.certificate(), study.rows()).problems == []
