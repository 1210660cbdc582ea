"""What every instance asked and concluded is what it was."""

import json

import pytest

import surepick as sp
from tests.golden.instances import INSTANCES, RECORDS, differences, read, run

KEPT = read(RECORDS)


@pytest.mark.parametrize("name", INSTANCES)
def test_an_instance_asks_and_concludes_what_it_did(name: str) -> None:
    """The arms asked are the same to the last, and the numbers to a millionth."""
    assert list(differences(json.loads(json.dumps(run(name))), KEPT[name])) == []


def test_every_record_has_its_instance() -> None:
    """None was dropped, and none was added without a record."""
    assert list(KEPT) == list(INSTANCES)


def test_every_algorithm_and_every_rule_has_a_run_that_was_not_refused() -> None:
    """A name without one, or a variant, would be free to change."""
    ran = [name for name, record in KEPT.items() if "refused" not in record]
    for algorithm in sp.algorithms.names():
        for variant in ("practical", "paper"):
            assert any(name.startswith(f"{algorithm}/{variant}/") for name in ran), (algorithm, variant)
    for rule in sp.stopping.names():
        assert any(name.startswith((f"rule {rule}/", f"rule {rule} ")) for name in ran), rule
    for algorithm in sp.algorithms.names(vectors=True):
        assert algorithm == "lazy-track-and-stop" or any(name.endswith(f"/{algorithm}") for name in ran), algorithm


def test_a_difference_is_found() -> None:
    """Another arm, a number off by two millionths, what is missing and what is new are all named."""
    kept = {"asked": "a", "n": 3, "evidence": 2.0, "best": [1, 2], "gone": 0}
    found = {"asked": "b", "n": 3, "evidence": 2.000005, "best": [1, 3], "new": 0}
    assert list(differences(found, kept)) == [
        "asked: 'b' in place of 'a'",
        "best[1]: 3 in place of 2",
        "evidence: 2.000005 in place of 2.0",
        "gone: missing",
        "new: new",
    ]
    assert list(differences({"evidence": 2.000001}, {"evidence": 2})) == []
