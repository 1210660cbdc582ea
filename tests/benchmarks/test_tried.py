import pytest

from benchmarks import misfit, pulls, tried
from surepick.simulation.parallel import simulate


def test_without_a_change_the_default_is_run() -> None:
    """The variant that changes nothing pulls what the default pulls; the others pull something else."""
    found = {variant: [tried.pulled(("basis", variant), run)[0] for run in (0, 1)] for variant in tried.VARIANTS}
    usual = found.pop("default")
    plain = simulate(tried.INSTANCES["basis"], n_runs=2, seed=tried.SEED, bounds=True)
    assert plain.lower_bound is not None
    assert usual == (plain.n_pulls / plain.lower_bound).tolist()
    # By chance one may stop at the same two intervals.
    assert sum(pulled != usual for pulled in found.values()) >= len(found) - 1


@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_tables_have_a_line_for_every_case(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What is drawn is what it says it is, and is counted."""
    local = misfit.rates(0, is_local=True)
    explained = 1.0 - (local.means - local.fitted).var() / local.means.var()
    assert explained == pytest.approx(0.97)
    monkeypatch.setattr(pulls, "N_JOBS", 1)
    monkeypatch.setattr(misfit, "LONGEST", 50)
    misfit.main(2)
    tried.main(["many"], 2)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(misfit.CASES) * len(misfit.ALGORITHMS) + 1 + len(tried.VARIANTS)
