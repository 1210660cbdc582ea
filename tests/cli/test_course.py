"""What the command line says of limits, groups, items and the order of asks."""

from pathlib import Path

import numpy as np
import pytest

import surepick as sp
from tests.cli.conftest import Here

PAINTS = "paint,gloss,drying\nA,1.0,0.2\nB,0.1,1.0\nC,0.7,0.7\nD,0.4,0.1\n"
MEANS = {"A": 1.0, "B": 0.4, "C": 0.9, "D": 0.3}
CASES = {
    "batches": (
        ["--batch", "10", "--rounds", "3"],
        "at most 3 batches of 10",
        "batches 1 of 3 planned, each of 10",
        "Batches: 1 of 3 planned, each of 10.",
    ),
    "budget": (["--budget", "30"], "a budget of 30", "budget 10 of 30 asked for", "Budget: 10 of 30 asked for."),
    "spend all": (
        ["--budget", "30", "--goal", "fixed-budget"],
        "a budget of 30, all of them measured",
        "budget 10 of 30 asked for, all of it will be measured",
        "Budget: 10 of 30 asked for, all of it will be measured.",
    ),
    "pool": (
        ["--pool", "40", "--reward-range", "0", "2"],
        "the best arm on 40 items",
        "items 3 of 40 asked",
        "Items: 3 of 40 asked.",
    ),
    "offsets": (
        ["--groups", "offset"],
        "days, benches and plates may read high or low",
        "groups days, benches or plates may read high or low; give each ask or value its label",
        "",
    ),
    "drift": (
        ["--noise-std", "0.5", "--drift", "0.1"],
        "readings drift by at most 0.1 within a block",
        "order measure in the order of the asks",
        "",
    ),
    "any noise": (
        ["--noise", "any"],
        "any noise that does not depend on the arm",
        "order measure in the order of the asks",
        "",
    ),
    "threshold": (["--threshold", "0.5", "--epsilon", "0.1"], "which arms meet 0.5, give or take 0.1", "", ""),
    "few wrong calls": (
        ["--control", "A", "--calls", "fdr"],
        "which arms are better than A, with at most 5 % of the calls wrong on average",
        "",
        "",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_words_of_a_study(tmp_path: Path, here: Here, case: str) -> None:
    """`create` says what a study is for and what it allows for; `status` and `plan` say how far it has come."""
    flags, aim, status, plan = CASES[case]
    (tmp_path / "paints.csv").write_text(PAINTS)
    created = here(tmp_path, "create", "paints.csv", *flags)
    assert aim in created.stdout
    assert here(tmp_path, "status").returncode == 0  # before the first ask too
    label = ["--group", "bench=A"] if case == "offsets" else []
    asked = here(tmp_path, "ask", "-n", "10", *label).stdout
    assert ("Measure in this order: the proof rests on it." in asked) == (case in ("drift", "any noise"))
    tell_all(tmp_path)
    assert status in " ".join(here(tmp_path, "status").stdout.split())
    assert plan in here(tmp_path, "plan").stdout


def tell_all(folder: Path, seed: int = 0, high: float = 0.0) -> None:
    """Tell noisy values of all open asks."""
    rng = np.random.default_rng(seed)
    with sp.load_study(storage=folder / "surepick.db") as study:
        for ask in study.pending:
            value = MEANS[ask.name] + high + 0.1 * rng.standard_normal()
            study.tell(ask.id, value, warn=False, questions=False)


def test_a_pool_ends_with_its_last_item(tmp_path: Path, here: Here) -> None:
    """The pulls that are left at most are called that; they are no estimate with a range."""
    (tmp_path / "paints.csv").write_text(PAINTS)
    here(tmp_path, "create", "paints.csv", "--pool", "40", "--binary")
    here(tmp_path, "ask", "-n", "40")
    passes = np.random.default_rng(0).random(40) < 0.5  # all alike: every item will be asked
    with sp.load_study(storage=tmp_path / "surepick.db") as study:
        for ask, is_passed in zip(study.pending, passes.tolist(), strict=True):
            study.tell(ask.id, float(is_passed))
    assert "at most 120 more pulls, and then every score is known" in here(tmp_path, "plan").stdout


def test_groups_are_named_before_they_matter(tmp_path: Path, here: Here) -> None:
    """Status says how far benches read apart; a bench that reads high leads to `reopen --groups offset`."""
    (tmp_path / "paints.csv").write_text(PAINTS)
    here(tmp_path, "create", "paints.csv")
    for seed, (bench, high) in enumerate((("A", 0.0), ("B", 0.0), ("C", 0.4))):
        here(tmp_path, "ask", "-n", "6", "--group", f"bench={bench}")
        tell_all(tmp_path, seed, high)
    said = " ".join(here(tmp_path, "status").stdout.split())
    assert "groups watched; bench C +0.2" in said
    seed = 3
    while "No answer can be defended" not in said:
        for bench, high in (("A", 0.0), ("C", 0.4)):
            here(tmp_path, "ask", "-n", "12", "--group", f"bench={bench}")
            tell_all(tmp_path, seed, high)
        said, seed = here(tmp_path, "status").stdout, seed + 1
        assert seed < 12
    assert "The" in said
    assert "read about 0." in said
    assert "surepick reopen --groups offset --reason WHY" in said
    assert "--interactions" not in said
    again = here(tmp_path, "reopen", "--groups", "offset", "--reason", "bench C reads high")
    assert again.returncode == 0
    assert "groups offsets are allowed for; bench C +" in " ".join(here(tmp_path, "status").stdout.split())
