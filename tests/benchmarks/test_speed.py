"""The comparison of speed with another version: who runs when, whose code runs, and the arithmetic."""

import math
from pathlib import Path

import pytest

from benchmarks import speed


def test_pairs_alternate_and_their_ratio_is_the_geometric_mean() -> None:
    """A version is first as often as second, so that a machine which slows down harms both alike."""
    order: list[str] = []

    def then(run: int) -> tuple[float, float]:
        order.append(f"then {run}")
        return 1.0, 10.0

    def now(run: int) -> tuple[float, float]:
        order.append(f"now {run}")
        return (2.0, 10.0) if run % 2 else (8.0, 11.0)

    found = speed.ratio_of(then, now, 4)
    assert order == ["then 1", "now 1", "now 2", "then 2", "then 3", "now 3", "now 4", "then 4"]
    assert found.ratio == pytest.approx(4.0)
    assert found.error == pytest.approx(4.0 * math.log(2.0) * math.sqrt(4.0 / 3.0) / 2.0)
    assert found.n_other == 2


def test_each_side_runs_its_own_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In processes that see the folder named, and the repository."""
    package = tmp_path / "src" / "surepick"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("__file__ = 'other'")
    work = "import surepick\ndef work(run):\n    sum(range(10**5))\n    return int(surepick.__file__ == 'other')"
    monkeypatch.setattr(speed, "COMMON", "")
    monkeypatch.setattr(speed, "CASES", {"tiny": speed.Case("a sum", work, 1, 1.0)})
    monkeypatch.setattr(speed, "OF_RATIO", ("tiny",))
    speed.ratio(str(tmp_path), "4")
    said = capsys.readouterr().out
    assert "4 pairs with equal seeds" in said
    assert "; 4 with other pulls" in said


def test_a_version_that_fails_is_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process has said why on standard error."""
    monkeypatch.setattr(speed, "COMMON", "")
    case = speed.Case("fails", "def work(run):\n    raise SystemExit(3)", 1, 1.0)
    with speed.Worker(speed.ROOT, case) as worker, pytest.raises((RuntimeError, BrokenPipeError)):
        worker(1)
