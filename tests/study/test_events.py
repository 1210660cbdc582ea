"""Events: one text for one event, and a chain that no change survives."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surepick.errors import CorruptLog, InvalidInput, StorageError
from surepick.study.events import START, Kind, Row, canonical, chained, check_chain, rows_of

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ROWS = rows_of([canonical({"n": n, "kind": "told", "value": n / 7}) for n in range(1, 8)])


@given(st.dictionaries(st.text(), values, max_size=4))
def test_a_text_reads_back_as_the_event_bit_for_bit(event: dict) -> None:
    """Numbers lose no digit, and writing again what was read gives the same text."""
    text = canonical(event)
    again = json.loads(text)
    assert again == event
    assert canonical(again) == text


def test_the_text_does_not_depend_on_the_order_of_the_fields() -> None:
    """Sorted keys, no spaces, letters as they are, the shortest digits."""
    text = '{"a":[1,2.5,1e-300],"kind":"told","ä":null}'
    assert canonical({"kind": "told", "ä": None, "a": [1, 2.5, 1e-300]}) == text
    assert canonical({"a": [1, 2.5, 1e-300], "ä": None, "kind": Kind.TOLD}) == text


@pytest.mark.parametrize("value", [math.nan, math.inf, {1, 2}, b"bytes", "\ud800", object()])
def test_what_json_has_no_word_for_is_refused(value: object) -> None:
    """NaN, arrays and half a character are refused before they get into a log."""
    with pytest.raises(InvalidInput, match="an event must consist of texts, finite numbers"):
        canonical({"value": value})


def test_an_event_that_contains_itself_is_refused() -> None:
    """Such a table has no end."""
    event: dict = {}
    event["event"] = event
    with pytest.raises(InvalidInput, match="an event must consist of"):
        canonical(event)


def test_the_hash_is_the_one_that_sha256sum_gives() -> None:
    r"""Anyone can compute the chain with tools at hand: printf '%064d\n%s' 0 '{"n":1}' | sha256sum."""
    assert chained("0" * 64, '{"n":1}') == "bad665c38a61c1ef00dd9dc15e77b0099ac6e73233027efbc233ebbc6fd6f4ef"
    assert START == "0" * 64


def test_a_whole_chain_passes_in_parts_and_at_once() -> None:
    """A reader that knows the first three events checks the others from there."""
    check_chain(ROWS)
    check_chain(ROWS[3:], previous=ROWS[2].hash, first=4)
    check_chain([])


@pytest.mark.parametrize("n", range(1, 8))
@pytest.mark.parametrize("field", ["text", "hash"])
def test_a_change_of_one_character_is_found_at_its_event(n: int, field: str) -> None:
    """The error names the first event that is wrong."""
    old = getattr(ROWS[n - 1], field)
    for place in (0, len(old) // 2, len(old) - 1):
        new = old[:place] + chr(ord(old[place]) ^ 1) + old[place + 1 :]
        rows = [*ROWS[: n - 1], ROWS[n - 1]._replace(**{field: new}), *ROWS[n:]]
        with pytest.raises(CorruptLog, match=f"^event {n} has the hash"):
            check_chain(rows)


def test_an_event_changed_with_its_hash_is_found_at_the_next() -> None:
    """Whoever changes an event must change all that follow, and with them the last hash, which others know."""
    forged = ROWS[2]._replace(text="{}", hash=chained(ROWS[1].hash, "{}"))
    with pytest.raises(CorruptLog, match=r"^event 4 has the hash"):
        check_chain([*ROWS[:2], forged, *ROWS[3:]])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROWS[1:], "event 1 was expected, and event 2 came"),
        ([*ROWS[:2], *ROWS[3:]], "event 3 was expected, and event 4 came"),
        ([*ROWS[:2], ROWS[1], *ROWS[2:]], "event 3 was expected, and event 2 came"),
        ([ROWS[1], ROWS[0], *ROWS[2:]], "event 1 was expected, and event 2 came"),
    ],
)
def test_missing_doubled_and_swapped_events_are_found(rows: list[Row], message: str) -> None:
    """The numbers must be 1, 2, ... without a gap."""
    with pytest.raises(CorruptLog, match=message):
        check_chain(rows)


def test_a_log_of_another_beginning_does_not_continue_ours() -> None:
    """Two logs of the same length cannot be spliced."""
    other = rows_of(["{}"] * 3)
    with pytest.raises(StorageError, match="event 4 has the hash"):
        check_chain(ROWS[3:], previous=other[-1].hash, first=4)
