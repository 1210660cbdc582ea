import sys

import pytest

from surepick.cli.run import MeasurementFailed, Source, _filled, by_command
from surepick.errors import InvalidInput

LABELS = ("red", "two words; $HOME", "{index}")


def command(script: str) -> Source:
    """A source that runs a line of Python with the arm and its number as arguments."""
    return by_command(f"{sys.executable} -c '{script}' {{arm}} {{index}}", LABELS.__getitem__)


def test_command_gets_the_name_and_the_number_without_a_shell() -> None:
    """Names with blanks, semicolons and dollars arrive whole; one that looks like a placeholder stays as it is."""
    source = command("import sys; print(len(sys.argv[1]) + 100 * int(sys.argv[2]))")
    assert [source(arm) for arm in range(3)] == [3.0, 116.0, 207.0]
    assert _filled("--x={arm}:{index}", "{index}", "4") == "--x={index}:4"


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("import sys; sys.exit(3)", "exit code 3: it printed no reason"),
        ('import sys; sys.exit("out of paint")', "exit code 1: out of paint"),
        ('print("1 2")', "must print one number for red, got '1 2'"),
        ('print("74,5")', "must print one number for red, got '74,5'; write it with a decimal point"),
        ('print("nan")', "must print one number for red, got 'nan'"),
    ],
)
def test_command_that_gives_no_number_fails_with_the_reason(script: str, complaint: str) -> None:
    """The reason is the command's own last words, or what it printed instead of a number."""
    with pytest.raises(MeasurementFailed, match=complaint):
        command(script)(0)


def test_command_must_exist_and_say_where_the_arm_goes() -> None:
    """A missing program is a failure; a command without a place for the arm is misuse."""
    with pytest.raises(MeasurementFailed, match="cannot run"):
        by_command("no-such-program {arm}", LABELS.__getitem__)(0)
    with pytest.raises(InvalidInput, match=r"as \{arm\} or \{index\}"):
        by_command("date", LABELS.__getitem__)
    with pytest.raises(InvalidInput, match="No closing quotation"):
        by_command("date '{arm}", LABELS.__getitem__)


def test_command_may_have_no_value_this_time() -> None:
    """Exit code 75 or no output: the measurement is left out, whatever was printed, and that is said."""
    said: list[str] = []
    for script in ("", 'import sys; print(1.5); print("oven in use", file=sys.stderr); sys.exit(75)'):
        source = by_command(f"{sys.executable} -c '{script}' {{arm}}", LABELS.__getitem__, say=said.append)
        assert source(0) is None
    assert said == [
        "skipped: red, asked for again later (the command printed nothing)",
        "skipped: red, asked for again later (exit code 75: oven in use)",
    ]
