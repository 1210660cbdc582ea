import pytest
from hypothesis import given
from hypothesis import strategies as st

from surepick.errors import InvalidInput
from surepick.sampling.schedules import as_schedule


def times(spec: object, *, start: int = 0, n: int = 8) -> list[int]:
    """The first n scheduled times after `start`."""
    schedule, found = as_schedule(spec), [start]  # type: ignore[arg-type]
    for _ in range(n):
        found.append(schedule.next_after(found[-1]))
    return found[1:]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("doubling", [1, 2, 4, 8, 16, 32, 64, 128]),
        ("every", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("periodic:5", [5, 10, 15, 20, 25, 30, 35, 40]),
        ("geometric:1.5", [1, 2, 3, 5, 8, 12, 18, 27]),
        ([3, 7, 20], [3, 7, 20, 40, 80, 160, 320, 640]),
        ({20, 3, 7}, [3, 7, 20, 40, 80, 160, 320, 640]),
    ],
)
def test_schedules_by_name_or_by_times(spec: object, expected: list[int]) -> None:
    """Each kind of schedule names the times its documentation promises."""
    assert times(spec) == expected


@given(st.sampled_from(["doubling", "every", "periodic:7", "geometric:1.01", "geometric:3"]), st.integers(0, 10**9))
def test_the_next_time_is_always_later(spec: str, t: int) -> None:
    """No schedule stands still, whatever t is."""
    assert as_schedule(spec).next_after(t) > t


@pytest.mark.parametrize(
    "spec", ["", "weekly", "geometric", "geometric:1", "geometric:x", "periodic:0", "periodic:2.5", [], [0, 3], [2.5]]
)
def test_unusable_schedules_are_refused(spec: object) -> None:
    """A schedule that would never advance, or that we cannot read, raises a clear error."""
    with pytest.raises(InvalidInput, match="must"):
        as_schedule(spec)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ([3, 2, 1], "increasing"),
        ([1, 1, 1], "increasing"),
        (iter([5, 4]), "increasing"),
        (b"every", "a text"),
        (bytearray(b"\x01\x02"), "a text"),
        ({1: 2}, "a text"),
        (5, "a text"),
        (None, "a text"),
        ("periodic:1.5", "a whole number, as in 'periodic:100'"),
        ("geometric:x", "a number, as in 'geometric:1.15'"),
    ],
)
def test_a_mistaken_schedule_is_refused_for_what_is_wrong_with_it(spec: object, complaint: str) -> None:
    """Times out of order, things that only look like times, and the wrong kind of number are told apart."""
    with pytest.raises(InvalidInput, match=complaint):
        as_schedule(spec)  # type: ignore[arg-type]
