"""Options combine, or are refused in one sentence: all pairs of them."""

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.errors import InvalidInput, ModelWarning, NoiseWarning

ROWS = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.8, 0.5, 0.0], [0.3, 0.3, 0.3]])
THETA = np.array([0.9, 0.2, 0.1])
CHOICES: dict[str, dict[str, dict[str, Any]]] = {
    "m": {"m=2": {"m": 2}},
    "costs": {"costs": {"costs": [1.0, 2.0, 3.0, 4.0, 5.0]}},
    "budget": {
        "budget": {"budget": 12},
        "batch": {"batch": 8},
        "rounds": {"batch": 8, "rounds": 1},
        "fixed budget": {"budget": 12, "goal": "fixed-budget"},
    },
    "epsilon": {"epsilon": {"epsilon": 0.2}},
    "candidates": {"candidates": {"candidates": ROWS[:4] + 0.01}},
    "rewards": {
        "known noise": {"noise_std": 0.2},
        "noise of each arm": {"noise_std": [0.2, 0.3, 0.2, 0.3, 0.2]},
        "unknown noise": {"noise_std": None},
        "levels learnt": {"noise": "per-arm"},
        "symmetric noise": {"noise": "symmetric"},
        "bounds": {"reward_range": (-2.0, 3.0)},
        "binary": {"rewards": "binary"},
    },
    "audit": {"audit": {"audit": 5}},
    "misfit": {"misfit": {"misfit": 0.05}},
    "model": {"unstructured": {"model": "unstructured"}},
    "pool": {"pool": {"pool": 30, "rewards": "binary"}},
    "set": {
        "sphere": {"arms": sp.Sphere(3)},
        "hypercube": {"arms": sp.Hypercube(3)},
        "choices": {"arms": sp.TopK(3, 2)},
        "ellipsoid": {"arms": sp.Ellipsoid(np.ones(3), np.eye(3))},
    },
    "stopping": {"evidence": {"stopping": "evidence"}, "pairwise": {"stopping": "pairwise"}},
    "algorithm": {name: {"algorithm": name} for name in sp.algorithms.names() if name != "xy-oracle"},
}
EACH = [(group, name, options) for group, choices in CHOICES.items() for name, options in choices.items()]
PAIRS = [(one, other) for one, other in itertools.combinations(EACH, 2) if one[0] != other[0]]


def _tried(options: dict[str, Any]) -> str:
    """What became of it: refused, or a result that knows its options."""
    rng = np.random.default_rng(3)
    given = {"arms": ROWS, "max_pulls": 16, **options}
    arms = given.pop("arms")
    is_binary = given.get("rewards") == "binary"

    def pull(arm: Any, *_item: Any) -> float:
        mean = float((ROWS[arm] if isinstance(arm, int) else arm) @ THETA)
        return float(rng.random() < min(max(mean, 0.0), 1.0)) if is_binary else mean + 0.2 * rng.uniform(-1.0, 1.0)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", (ModelWarning, NoiseWarning))
            result = sp.identify(arms, pull, **given)
    except InvalidInput as error:
        text = str(error)
        assert text.endswith("."), text
        assert text.count(". ") <= 1, f"one sentence, and perhaps what to do: {text}"
        assert 20 < len(text) < 400, text
        return "refused"
    # Not after a failure in the midst of measuring: `PullFailed` is no refusal.
    assert result.n_pulls <= 16 + result.n_checks
    assert result.m == options.get("m", 1)
    assert result.best is None or len(np.shape(result.best)) == (0 if result.m == 1 and not result.arm_set else 1)
    assert result.explain()
    if (budget := options.get("budget")) is not None:
        assert result.cost <= budget + 5.0 * result.n_checks
    return "ran"


@pytest.mark.parametrize("place", range(8))
def test_every_pair_of_options_runs_or_is_refused(place: int) -> None:
    """None fails in the midst of measuring, and none is ignored in silence."""
    for one, other in PAIRS[place::8]:
        try:
            _tried({**one[2], **other[2]})
        except Exception as error:
            raise AssertionError(f"{one[1]} with {other[1]}: {error!r}") from error


@pytest.mark.parametrize(
    ("one", "other", "outcome"),
    [
        ("m=2", "costs", "ran"),
        ("m=2", "budget", "ran"),
        ("m=2", "epsilon", "ran"),
        ("m=2", "unknown noise", "ran"),
        ("m=2", "bounds", "ran"),
        ("m=2", "candidates", "ran"),
        ("m=2", "audit", "ran"),
        ("m=2", "misfit", "refused"),
        ("m=2", "sphere", "refused"),
        ("m=2", "rage", "refused"),
        ("costs", "budget", "ran"),
        ("costs", "candidates", "ran"),
        ("costs", "levels learnt", "ran"),
        ("costs", "binary", "ran"),
        ("costs", "sphere", "refused"),
        ("costs", "uniform", "refused"),
        ("budget", "levels learnt", "refused"),
        ("budget", "symmetric noise", "refused"),
        ("symmetric noise", "m=2", "ran"),
        ("symmetric noise", "epsilon", "ran"),
        ("symmetric noise", "candidates", "ran"),
        ("symmetric noise", "audit", "refused"),
        ("symmetric noise", "misfit", "refused"),
        ("symmetric noise", "evidence", "refused"),
        ("budget", "hypercube", "ran"),
        ("budget", "evidence", "ran"),
        ("candidates", "sphere", "refused"),
    ],
)
def test_what_users_would_expect_of_pairs(one: str, other: str, outcome: str) -> None:
    """Those with a proof run."""
    by_name = {name: options for _, name, options in EACH}
    assert _tried({**by_name[one], **by_name[other]}) == outcome
