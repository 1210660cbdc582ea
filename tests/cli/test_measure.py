import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from surepick.cli.measure import Answer, Correction, Logged, MeasurementFailed, Source, _cut, _filled, by_command
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
    assert path.read_text().splitlines() == [
        "# this",
        "arm,reward,corrects",
        "two words; $HOME,1.5,",
        "red,,",
        "{index},-2.0,",
    ]


def test_log_of_something_else_is_refused(tmp_path: Path) -> None:
    """Other options, another order of arms or a damaged line are noticed."""
    path = tmp_path / "log.csv"
    path.write_text("# this\narm,reward\nred,1\n")
    with pytest.raises(InvalidInput, match="other arms or options"):
        Logged(lambda _: 0.0, path, LABELS.__getitem__, "that")
    other = Logged(lambda _: 0.0, path, LABELS.__getitem__, "this")
    with pytest.raises(MeasurementFailed, match="goes on with arm 'red'"):
        other(1)
    other.close()


@pytest.mark.parametrize(
    "line", ["red,1,2", "red", "red,x", "red,1,value 2", "red,1,value 0", "red,,value 1", '"two words",1,value 1']
)
def test_log_with_a_bad_line_says_which_and_how_to_go_on(tmp_path: Path, line: str) -> None:
    """A decimal comma is no correction; nor is one of a value that is not there, without a value, or of another arm."""
    path = tmp_path / "log.csv"
    path.write_text(f"# this\narm,reward,corrects\nred,1,\n\n{line}\nred,2,\n")
    with pytest.raises(InvalidInput, match=r"log.csv line 5 must be an arm and its value.*; write it so. Or remove it"):
        Logged(lambda _: 0.0, path, LABELS.__getitem__, "this")


def test_log_keeps_corrections(tmp_path: Path) -> None:
    """Each is a line of its own, repeated where it happened; logs of before have no column for it."""
    path = tmp_path / "log.csv"
    path.write_text("# this\narm,reward\nred,10.0\nred,\n")
    last = Correction(1, 0.25, at_verdict=True)
    answers: Iterator[Answer] = iter([2.0, Correction(1, 0.2), Correction(0, 1.0), None, last])
    first = Logged(lambda _: next(answers), path, LABELS.__getitem__, "this")
    told = [first(0) for _ in range(6)]
    assert told == [10.0, None, 2.0, Correction(1, 0.2), Correction(0, 1.0), None]
    assert first(None) == last
    first.close()
    assert path.read_text().splitlines()[2:] == [
        *("red,10.0", "red,", "red,2.0,", "red,0.2,value 2", "red,1.0,value 1", "red,,"),
        "red,0.25,value 2 at the verdict",
    ]
    second = Logged(lambda _: 7.0, path, LABELS.__getitem__, "this")
    assert second.n_known == 4
    assert [second(0) for _ in range(3)] == told[:3]
    assert second(None) is None  # this value decided nothing
    assert [second(0) for _ in range(3)] == told[3:]
    assert [second(None), second(None)] == [last, None]
    assert second(0) == 7.0
    second.close()


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


def resumed(path: Path, *rewards: float) -> tuple[list[Answer], str, str | None]:
    """What a session that measures `red` gets from a log and then from `rewards`, the file after it, what was cut."""
    answers = iter(rewards)
    log = Logged(lambda _: next(answers), path, LABELS.__getitem__, "this")
    got = [log(0) for _ in range(log.n_known + len(rewards))]
    log.close()
    return got, path.read_text(), log.cut_off


@pytest.mark.parametrize("end", ["red,0", "re", "red,0.2\r", '"red\nand ', '"red\nand",0'])
def test_log_that_was_cut_off_loses_its_last_line(tmp_path: Path, end: str) -> None:
    """A line without its end may lack digits; it is measured again, and the file is whole afterwards."""
    path = tmp_path / "log.csv"
    path.write_bytes(f"# this\narm,reward\nred,1.0\n{end}".encode())
    whole = "# this\narm,reward\nred,1.0\nred,0.25,\n"
    assert resumed(path, 0.25) == ([1.0, 0.25], whole, end)
    assert resumed(path) == ([1.0, 0.25], whole, None)


@pytest.mark.parametrize(
    "text", ["", "# th", "# this", "# this\n", "# this\n\n", "# this\narm,rew", "# this\narm,reward\n"]
)
def test_log_that_was_cut_off_in_its_head_gets_a_whole_one(tmp_path: Path, text: str) -> None:
    """The first measurement is not taken for the header the next time."""
    path = tmp_path / "log.csv"
    path.write_text(text)
    resumed(path, 0.5)
    got, content, _ = resumed(path, 0.75)
    assert got == [0.5, 0.75]
    header = "arm,reward" if "reward\n" in text else "arm,reward,corrects"
    assert content.replace("\n\n", "\n") == f"# this\n{header}\nred,0.5,\nred,0.75,\n"


def test_log_that_was_cut_off_within_a_letter_is_mended(tmp_path: Path) -> None:
    """Half of a letter is no text, which must not make the rest unreadable."""
    path = tmp_path / "log.csv"
    path.write_bytes("# this\narm,reward\nred,1.0\né".encode()[:-1])
    assert resumed(path, 0.25)[::2] == ([1.0, 0.25], "\ufffd")


def test_foreign_file_is_not_cut(tmp_path: Path) -> None:
    """What is no log stays as it is, with or without a line end."""
    path = tmp_path / "log.csv"
    for text in ("name,x\nA,1\nB,2", "name", "# thus", "# this\nname,x\nA,1"):
        path.write_text(text)
        with pytest.raises(InvalidInput):
            Logged(lambda _: 0.0, path, LABELS.__getitem__, "this")
        assert path.read_text() == text


def test_log_without_measurements_belongs_to_nobody(tmp_path: Path) -> None:
    """A command that was refused leaves such a one, and the right command takes it."""
    path = tmp_path / "log.csv"
    path.write_text("# that\narm,reward,corrects\n")
    assert resumed(path, 0.5) == ([0.5], "# this\narm,reward,corrects\nred,0.5,\n", None)


def test_log_that_cannot_be_cut_is_refused(tmp_path: Path) -> None:
    """The user is told which line to remove."""
    path = tmp_path / "log.csv"
    path.write_text("# this\narm,reward\nred,0")
    with path.open() as unwritable, pytest.raises(InvalidInput, match="remove its last line 'red,0'"):
        _cut(unwritable, path, 18, "red,0")


def test_log_saved_by_a_spreadsheet_is_read(tmp_path: Path) -> None:
    """Other line ends, a mark at the start, cells added to short lines, and empty lines change nothing."""
    path = tmp_path / "log.csv"
    path.write_bytes(b"\xef\xbb\xbf# this,\r\narm,reward\r\nred,1.0\r\nred,\r\n,\r\n\r\n")
    assert resumed(path, 2.0)[0] == [1.0, None, 2.0]
    assert resumed(path)[0] == [1.0, None, 2.0]


def test_log_is_written_by_one_session_at_a_time(tmp_path: Path) -> None:
    """A second one would mix its lines in; once the first has ended the file is free."""
    path = tmp_path / "log.csv"
    first = Logged(lambda _: 1.0, path, LABELS.__getitem__, "this")
    with pytest.raises(InvalidInput, match="another session writes to"):
        Logged(lambda _: 2.0, path, LABELS.__getitem__, "this")
    first.close()
    assert resumed(path, 3.0)[0] == [3.0]
