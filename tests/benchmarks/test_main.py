import pytest

from benchmarks import __main__ as runner


def test_unknown_name_is_misuse_and_lists_what_exists(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown benchmark gives exit code 2 and runs nothing."""
    assert runner.run(["no-such-benchmark"]) == 2
    captured = capsys.readouterr()
    assert "no-such-benchmark" in captured.err
    assert captured.out == ""


def test_named_benchmarks_run_in_the_order_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the named benchmarks run, in the order given."""
    ran: list[str] = []
    names = ["first", "second", "third"]
    monkeypatch.setattr(runner, "discover", lambda: {name: lambda n=name: ran.append(n) for name in names})
    assert runner.run(["third", "first"]) == 0
    assert ran == ["third", "first"]
    assert "== third ==" in capsys.readouterr().out
