"""The table of docs/combinations.md: every pair of options is allowed and runs, or is refused in a sentence."""

import re
import warnings
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from surepick.errors import InvalidInput, ModelWarning, NoiseWarning
from surepick.learning.learner import Learner

PAGE = Path(__file__).parents[2] / "docs" / "combinations.md"
ROWS = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [1.0, 0.5, 0.8], [1.0, 0.3, 0.3]])
MEANS = ROWS @ [0.2, 0.6, 0.1]
N_PULLS = 40
# By kind, of which a task has one at a time: what the page calls them.
OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "target": {"`threshold`": {"threshold": 0.5}, "`control`": {"control": 0}},
    "m": {"`m` above 1": {"m": 2}},
    "epsilon": {"`epsilon`": {"epsilon": 0.2}},
    "misfit": {"`misfit`": {"misfit": 0.05}},
    "costs": {"`costs`": {"costs": [1.0, 2.0, 3.0, 4.0, 5.0]}},
    "budget": {"`budget`": {"budget": 30.0}},
    "batch": {"`batch`": {"batch": 12}, "`batch` and `rounds`": {"batch": 12, "rounds": 3}},
    "goal": {'`goal="fixed-budget"`': {"goal": "fixed-budget"}},
    "pool": {"`pool`": {"pool": 30}},
    "noise": {
        "noise learnt (default)": {},
        "`noise_std`": {"noise_std": 0.2},
        "`noise_std` for each arm": {"noise_std": [0.2, 0.3, 0.2, 0.3, 0.2]},
        '`noise="per-arm"`': {"noise": "per-arm"},
        '`noise="symmetric"`': {"noise": "symmetric"},
        '`noise="any"`': {"noise": "any"},
        "`reward_range`": {"reward_range": (-2.0, 3.0)},
        '`rewards="binary"`': {"rewards": "binary"},
    },
    "drift": {"`drift`": {"drift": 0.1}},
    "groups": {'`groups="watch"`': {"groups": "watch"}, '`groups="offset"`': {"groups": "offset"}},
    "model": {'`model="unstructured"`': {"model": "unstructured"}},
    "candidates": {"`candidates`": {"candidates": ROWS[:4] * 0.99}},
}
EACH = {name: (kind, options) for kind, own in OPTIONS.items() for name, options in own.items()}
PAIRS = [(one, other) for one, other in combinations(EACH, 2) if EACH[one][0] != EACH[other][0]]
# What an option needs, where the other one of a pair says nothing about that.
NEEDED: dict[str, dict[str, Any]] = {
    "`drift`": {"noise_std": 0.2},
    "`pool`": {"reward_range": (-2.0, 3.0)},
    '`goal="fixed-budget"`': {"budget": 30.0},
}


def table() -> dict[str, tuple[str, set[str]]]:
    """By option: the theorem that the page names, and the options that it is refused beside."""
    lines = [line.strip("|").split(" | ") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    cells = {cells[0].strip(): (cells[1].strip(), cells[2].strip()) for cells in lines[1:]}
    return {
        name: (theorem, {one.strip() for one in refused.split(", ") if one != "-"})
        for name, (theorem, refused) in cells.items()
    }


def given(one: str, other: str) -> dict[str, Any]:
    """Return the options of a pair, with what one of them needs where the other says nothing about that."""
    kinds = {EACH[one][0], EACH[other][0]}
    needed = {key: value for name in (one, other) for key, value in NEEDED.get(name, {}).items()}
    if "noise" in kinds:
        needed = {key: value for key, value in needed.items() if key not in ("noise_std", "reward_range")}
    if "budget" in needed and "batch" in kinds:  # batches have rounds for a budget
        needed = {**needed, "rounds": 3}
        del needed["budget"]
    return {**needed, **EACH[one][1], **EACH[other][1]}


def outcome(options: dict[str, Any]) -> str:
    """Return why a pair is refused; "" if it ran for some blocks and its log replays."""
    rng, n, day = np.random.default_rng(3), 0, 0
    try:
        learner = Learner("lazy-track-and-stop", ROWS, **options)
    except InvalidInput as error:
        return str(error)
    while n < N_PULLS and not learner.stopped:
        day += 1
        asks = learner.next_asks(8, group=f"day {day}" if "groups" in options else None)
        if not asks:
            break
        for ask in asks:
            mean = float(MEANS[int(ask.arm)])
            value = float(rng.random() < mean) if "rewards" in options else mean + 0.2 * rng.uniform(-1.0, 1.0)
            learner.tell(ask.arm, value, ask=ask.number)
            n += 1
    assert n >= 8
    again = Learner("lazy-track-and-stop", ROWS, **options)
    again.replay(learner.log)
    assert again.decision == learner.decision
    assert again.identity == learner.identity
    return ""


@pytest.mark.parametrize("place", range(4))
def test_every_pair_is_as_the_table_says(place: int) -> None:
    """A pair that the table refuses gets a sentence before anything is measured; all others run, and replay."""
    said, wrong = table(), []
    for one, other in PAIRS[place::4]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", (ModelWarning, NoiseWarning))
            why = outcome(given(one, other))
        assert not why or (why.endswith(".") and 20 < len(why) < 400), (one, other, why)
        for first, second in ((one, other), (other, one)):
            if (second in said[first][1]) != bool(why):
                wrong.append(f"{first} beside {second}: {why or 'allowed'}")
    assert not wrong, wrong


def test_the_table_has_every_option_and_theorems_that_exist() -> None:
    """No row is missing or left over, and every theorem has a place in the guarantee."""
    said = table()
    assert list(said) == list(EACH)
    guarantee = (PAGE.parent / "guarantee.md").read_text("utf-8")
    for theorem, refused in said.values():
        assert refused <= {*EACH}
        for number in re.findall(r"\d+", theorem):
            assert re.search(rf"\*\*Theorem {number}(\.| \()", guarantee), number
