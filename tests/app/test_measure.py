import sys
from pathlib import Path

import pytest

from surepick.app.console import Refusal
from surepick.app.measure import Command, Logged, MeasurementFailed, _filled

LABELS = ("red", "two words; $HOME", "{index}")


def command(script: str) -> Command:
    """A source that runs a line of Python with the arm and its number as arguments."""
    return Command(f"{sys.executable} -c '{script}' {{arm}} {{index}}", LABELS.__getitem__)


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
        ('print("1 2")', "must print one number, got '1 2'"),
        ('print("nan")', "must print one number, got 'nan'"),
        ("", "must print one number, got nothing"),
    ],
)
def test_command_that_gives_no_number_fails_with_the_reason(script: str, complaint: str) -> None:
    """The reason is the command's own last words, or what it printed instead of a number."""
    with pytest.raises(MeasurementFailed, match=complaint):
        command(script)(0)


def test_command_must_exist_and_say_where_the_arm_goes() -> None:
    """A missing program is a failure; a command without a place for the arm is misuse."""
    with pytest.raises(MeasurementFailed, match="cannot run"):
        Command("no-such-program {arm}", LABELS.__getitem__)(0)
    with pytest.raises(Refusal, match=r"as \{arm\} or \{index\}"):
        Command("date", LABELS.__getitem__)
    with pytest.raises(Refusal, match="No closing quotation"):
        Command("date '{arm}", LABELS.__getitem__)


def test_log_repeats_what_it_has_and_then_measures(tmp_path: Path) -> None:
    """A second session gets the first one's values, skipped ones included, and goes on with the source."""
    path = tmp_path / "log.csv"
    answers = iter([1.5, None, -2.0])

    def source(_arm: int) -> float | None:
        return next(answers)

    first = Logged(source, path, LABELS.__getitem__, "this")
    assert first(1) == 1.5
    assert first(0) is None
    first.close()
    second = Logged(source, path, LABELS.__getitem__, "this")
    assert second.n_known == 2
    assert second(1) == 1.5
    assert second.is_repeating
    assert second(0) is None
    assert not second.is_repeating
    assert second(2) == -2.0
    second.close()
    assert path.read_text().splitlines() == ["# this", "arm,reward", "two words; $HOME,1.5", "red,", "{index},-2.0"]


def test_log_of_something_else_is_refused(tmp_path: Path) -> None:
    """Other options, another order of arms or a damaged line are noticed."""
    path = tmp_path / "log.csv"
    path.write_text("# this\narm,reward\nred,1\n")
    with pytest.raises(Refusal, match="other arms or options"):
        Logged(lambda _: 0.0, path, LABELS.__getitem__, "that")
    other = Logged(lambda _: 0.0, path, LABELS.__getitem__, "this")
    with pytest.raises(MeasurementFailed, match="goes on with arm 'red'"):
        other(1)
    other.close()
    path.write_text("# this\narm,reward\nred,1,2\n")
    with pytest.raises(Refusal, match="is no measurement"):
        Logged(lambda _: 0.0, path, LABELS.__getitem__, "this")
