"""Noise models: the contract that all of them keep, one that is broken in each way, and what they are spelled by."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surepick as sp
from examples.own_noise import Laplace, LaplaceBets
from surepick.core.betting.block import Block, BlockFit
from surepick.errors import InvalidInput
from surepick.learning.noise_models import (
    NAMED,
    Binary,
    Bounded,
    GaussianPerArm,
    NoiseModel,
    SubGaussian,
    SubGaussianPerArm,
    Symmetric,
    UnknownGaussian,
    noise_model,
)
from surepick.testing import check_noise_model
from surepick.types import Array

SHIPPED = [
    UnknownGaussian(), SubGaussian(0.5), SubGaussianPerArm([0.2, 1.0]), GaussianPerArm(), Symmetric(),
    Bounded(-1.0, 3.0), Binary(),
]  # fmt: skip
X = np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]])


def test_a_name_in_the_table_is_all_that_a_new_model_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Runs, studies, simulations and plans then take it by name, and say what it assumes."""
    monkeypatch.setitem(NAMED, "laplace", Laplace)
    given: Any = {"noise": "laplace", "noise_std": 0.1}
    rng, theta = np.random.default_rng(0), np.array([0.9, 0.2])

    def pull(arm: Any) -> float:
        return float(X[arm] @ theta + rng.laplace(scale=0.1))

    result = sp.identify(X, pull, **given)
    result.save(tmp_path / "result.json")
    for one in (result, sp.Result.load(tmp_path / "result.json")):
        assert one.best == 0
        assert "follows a Laplace law of scale 0.1" in one.explain()
    study = sp.create_study("new", arms=X, storage="memory:", **given)
    study.optimize(pull)
    assert study.best == 0
    assert study.learner.noise_model == Laplace(0.1)
    assert study.learner.noise_model.summary() == "laplace noise of scale 0.1"
    problem = sp.problems.Problem(X=X, theta=theta, noise_std=0.1, name="mine")
    assert sp.simulate(problem, n_runs=2, noise="laplace").n_errors == 0
    assert sp.plan(X, theta=theta, **given).simulate(2).n_errors == 0
    with pytest.raises(InvalidInput, match='noise="laplace" needs the scale of the noise; give `noise_std`'):
        sp.identify(X, pull, noise="laplace")  # type: ignore[arg-type]


@pytest.mark.parametrize("model", [*SHIPPED, Laplace(0.3)], ids=repr)
def test_every_model_keeps_the_contract(model: NoiseModel) -> None:
    """Those that are shipped, and the example."""
    check_noise_model(model)


class _Louder(NoiseModel):
    """Draws three times the noise it says."""

    name = "louder"
    std = 1.0

    def draw(self, rng: np.random.Generator, means: Array, *_: Any) -> Array:
        return means + 3.0 * rng.standard_normal(len(means))


class _Shifted(NoiseModel):
    """Draws rewards that are too large."""

    name = "shifted"

    def draw(self, rng: np.random.Generator, means: Array, *_: Any) -> Array:
        return means + 0.1 + rng.standard_normal(len(means))


class _Forgetful(NoiseModel):
    """Its options leave out its scale."""

    name = "forgetful"

    def __init__(self, std: float = 1.0) -> None:
        self.std = std

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Forgetful) and self.std == other.std

    __hash__ = None  # type: ignore[assignment]


class _Namesake(NoiseModel):
    """Takes the name of another."""


class _Careless(NoiseModel):
    """Takes every finite number."""

    name = "careless"

    def refusal(self, reward: float, arm: int) -> str:
        return ""


class _Free(LaplaceBets):
    """Bets whose stakes cost nothing."""

    def __init__(self, block: Block, fit: BlockFit, scale: float) -> None:
        super().__init__(block, fit, scale)
        self.counts = np.zeros_like(self.counts)


class _Reckless(NoiseModel):
    """Laplace noise with such bets."""

    name = "reckless"
    needs_bets = True

    def bet(self, block: Block, fit: BlockFit) -> LaplaceBets:
        return _Free(block, fit, 0.3)

    def draw(self, rng: np.random.Generator, means: Array, *_: Any) -> Array:
        return rng.laplace(means, 0.3)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (_Louder, "scatter more than its scale"),
        (_Shifted, "whose mean is off"),
        (lambda: _Forgetful(2.0), "spell another model"),
        (_Namesake, "a name that is taken"),
        (_Careless, "for a reward"),
        (_Reckless, "bets too much"),
    ],
)
def test_a_broken_model_is_found(broken: Callable[[], NoiseModel], said: str) -> None:
    """Each by its own check."""
    with pytest.raises(AssertionError, match=said):
        check_noise_model(broken())


@pytest.mark.parametrize("model", SHIPPED, ids=repr)
def test_a_model_and_the_options_that_spell_it_are_the_same(model: NoiseModel) -> None:
    """The same identity of a learner, the same words, the same options in the log of a study."""
    arms = X[:2]
    by_options: dict[str, Any] = model.options()
    one, other = sp.create_learner("uniform", arms, noise=model), sp.create_learner("uniform", arms, **by_options)
    assert one.identity == other.identity
    assert one.result().explain() == other.result().explain()
    texts = []
    for options in ({"noise": model}, by_options):
        given: dict[str, Any] = options
        texts.append(sp.create_study("one", arms=arms, storage="memory:", **given).learner.identity)
    assert len({*texts}) == 1


def test_a_study_refuses_a_model_without_a_name() -> None:
    """Its log could not be read again."""
    with pytest.raises(InvalidInput, match="keeps its noise model by name"):
        sp.create_study("one", arms=X, storage="memory:", noise=Laplace(0.3))


def test_a_model_says_all() -> None:
    """Beside an object nothing else may be said of the noise."""
    with pytest.raises(InvalidInput, match="`noise` is a noise model, which replaces"):
        sp.create_learner("uniform", X, noise=SubGaussian(1.0), noise_std=1.0)
    with pytest.raises(InvalidInput, match='`noise` must be "same", "per-arm", "symmetric" or "any"'):
        noise_model("gaussian")


def test_a_model_of_your_own_finds_the_best_arm_and_says_what_it_assumes() -> None:
    """No interval, no rule but betting, and its law in plain words."""
    rng = np.random.default_rng(1)
    found = sp.identify(X, lambda arm: X[arm] @ [0.6, 0.5] + rng.laplace(scale=0.3), noise=Laplace(0.3))
    assert found.stopped
    assert found.best == 2
    assert "follows a Laplace law of scale 0.3" in found.explain()
    assert math.isinf(found.epsilon_bound)
    with pytest.raises(InvalidInput, match='noise="laplace" has no proof'):
        sp.create_learner("lazy-track-and-stop", X, noise=Laplace(0.3), stopping="evidence")


@pytest.mark.parametrize("model", [Laplace(0.2), *(kind() for kind in NAMED.values()), Bounded(0.0, 1.0)], ids=repr)
def test_simulations_and_plans_take_every_model(model: NoiseModel) -> None:
    """They draw from it."""
    problem = sp.problems.Problem(name="three arms", X=X, theta=np.array([0.6, 0.3]), noise_std=0.2)
    runs = sp.simulate(problem, n_runs=2, noise=model)
    assert runs.stopped.all()
    guess: dict[str, Any] = {"noise": model} if model.std is not None else {"noise": model, "noise_std": 0.2}
    assert sp.plan(X, theta=[0.6, 0.3], **guess).simulate(2).stopped.all()
