"""A claim in doubt: residuals that do not look like the normal noise of one level that a proof assumes."""

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.core.normality import ShapeWatch
from surepick.learning.assumptions import assumptions

DOSES = np.array([[1.0], [2.0], [3.0]])
LINE = np.column_stack([np.ones(3), np.arange(3.0)])
FIELD = np.array([[1.0, 0.0], [0.0, 1.0], [math.cos(0.1), math.sin(0.1)]])


def clinic(seed: int, size: float = -0.002) -> Callable[[int], float]:
    """Return measurements of a dose: most have no effect, one in ten a large negative one; the mean is size x dose."""
    rng = np.random.default_rng([seed, 13])
    return lambda arm: size * (arm + 1) + 0.1 - float(rng.exponential() * (rng.random() < 0.1))


def skewed(seed: int) -> Callable[[int], float]:
    """Return measurements on `FIELD` with noise of a long tail to low values."""
    rng = np.random.default_rng([seed, 14])
    return lambda arm: float(FIELD[arm, 0] + rng.exponential() * -1.0 + 1.0)


def quietly(*args: Any, **options: Any) -> sp.Result:
    """Identify without warnings, which other tests look at."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sp.identify(*args, **options)


def uneven() -> Callable[[int], float]:
    """Return measurements on `LINE`, the first arm ten times as noisy as the others."""
    rng = np.random.default_rng([1, 16])
    return lambda arm: 0.5 * arm + float(rng.standard_normal()) * (2.0, 0.2, 0.2)[arm]


def in_doubt() -> sp.Result:
    """Return a result that is stopped and in doubt."""
    return quietly(LINE, uneven())


def test_wrong_answers_by_zero_inflated_noise_are_not_called_proved() -> None:
    """Readings that repeat are no evidence: of 60 runs nearly all are withdrawn or in doubt.

    At most three are wrong and called proved; without a look at repeats and shape a third of the runs is.
    """
    results = [quietly(DOSES, clinic(seed), delta=0.1, seed=seed, max_pulls=100) for seed in range(60)]
    assert sum(one.guarantee in ("doubtful", "withdrawn") for one in results) >= 50
    assert sum(one.stopped and one.best != 0 and one.guarantee == "proved" for one in results) <= 3


def test_nothing_is_asserted_and_the_answer_is_shown() -> None:
    """No p-value, nobody excluded, no interval; the sentence names the answer, the doubt and what to do."""
    result = in_doubt()
    assert (result.stopped, result.guarantee, result.best) == (True, "doubtful", 2)
    assert math.isnan(result.p_value)
    assert result.survivors is not None
    assert result.survivors.tolist() == [0, 1, 2]
    assert result.epsilon_bound == math.inf
    assert np.isinf(result.arms.high).all()
    said = result.explain()
    assert said.startswith("Arm 2 is the answer of the betting rule after ")
    assert "A risk of 5 % cannot be claimed" in said
    assert 'noise="per-arm"' in said
    assert "proved" not in said
    assert result.noise_doubt in said
    assert "In doubt" in next(one.checked for one in assumptions(result) if "noise" in one.text)


def test_a_warning_says_what_to_do() -> None:
    """A `NoiseWarning`, once, in the line of the call."""
    with pytest.warns(sp.NoiseWarning, match="arms differ in noise.*per-arm.*not guaranteed") as caught:
        sp.identify(LINE, uneven())
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_skewed_noise_is_doubted() -> None:
    """By its name, with the skewness of so many residuals, before there is a verdict too."""
    result = quietly(FIELD, skewed(1), delta=1e-6, seed=1, max_pulls=400)
    assert (result.stopped, result.guarantee) == (False, "doubtful")
    assert result.noise_doubt.startswith("the noise looks skewed: ")
    assert result.n_residuals is not None
    assert result.n_residuals > 100
    assert result.explain().startswith("Not decided (400 pulls). A risk of ")


@pytest.mark.parametrize("known", [{"noise_std": 1.0}, {"reward_range": (-50.0, 50.0)}, {"noise": "per-arm"}])
def test_only_a_proof_that_assumes_normal_noise_is_doubted(known: dict[str, Any]) -> None:
    """Not if a level or bounds are given, nor if arms may differ: no residual is looked at."""
    result = quietly(FIELD, skewed(1), delta=1e-6, seed=1, max_pulls=200, **known)
    assert result.guarantee != "doubtful"
    assert (result.noise_doubt, result.n_residuals) == ("", None)


def test_a_contradicted_model_goes_before_a_doubt() -> None:
    """Rewards of an exponential curve in skewed noise are withdrawn, and one warning says so."""
    rng = np.random.default_rng(0)
    curve = np.array([[float(x)] for x in range(1, 9)])
    result = quietly(curve, lambda arm: float(np.exp(0.7 * arm) + rng.exponential()), delta=0.1, audit=80)
    assert result.guarantee == "withdrawn"
    assert result.explain().startswith("No answer can be defended")


def test_a_few_residuals_are_said_to_be_few() -> None:
    """Where nothing speaks against normal noise, the list of assumptions says what may have gone unseen."""
    rng = np.random.default_rng(2)
    result = sp.identify(DOSES, lambda arm: 5.0 * (arm + 1) + float(rng.standard_normal()), delta=0.1)
    assert (result.guarantee, result.n_pulls) == ("proved", 10)
    checked = next(one.checked for one in assumptions(result) if "noise" in one.text)
    assert "Nothing in 8 residuals speaks against a normal law" in checked
    assert "rarer deviations, of less than one in 4 measurements, may have gone unseen" in checked
    assert "cannot be seen from 8 residuals" in result.explain()


def test_no_residual_is_not_counted() -> None:
    """On a sphere no shape is looked at: "0 residuals" would be said of 50 pulls."""
    rng = np.random.default_rng(0)
    result = sp.identify(sp.Sphere(2), lambda x: float(x[0] + 0.1 * rng.standard_normal()), epsilon=0.1)
    assert (result.stopped, result.n_residuals) == (True, 0)
    assert "The law of the noise is not tested: rare large values would not have shown." in result.explain()
    assert "0 residuals" not in result.explain()


def test_means_that_may_be_off_are_no_shape() -> None:
    """With an allowed misfit residuals are taken around each arm's mean: a zigzag in normal noise is not doubted."""
    rng = np.random.default_rng(1)
    means = np.array([0.0, 4.0, 0.0, 5.0])
    X = np.column_stack([np.ones(4), np.arange(4.0)])
    result = quietly(X, lambda arm: means[arm] + float(rng.standard_normal()), misfit=3.0, delta=0.05, max_pulls=300)
    assert result.noise_doubt == ""


def test_looking_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A learner that is looked at after every result ends in the same doubt as one that never was."""
    ends = []
    for looks in (True, False):
        learner, pull = sp.create_learner("lazy-track-and-stop", FIELD, delta=1e-6, seed=1), skewed(1)
        for _ in range(400):
            (arm,) = learner.next_arms()
            learner.tell(arm, pull(arm))
            if looks:
                learner.decision  # noqa: B018
        ends.append((learner.reader.noise_doubt, learner.decision.guarantee))
    assert ends[0] == ends[1]
    assert ends[0][1] == "doubtful"
    monkeypatch.setattr(ShapeWatch, "doubt", lambda _: None)
    learner.replay(learner.log)
    assert learner.decision.guarantee == "proved"


def test_a_result_in_doubt_is_read_again(tmp_path: Path) -> None:
    """With its doubt; its page is neither good nor bad."""
    result = in_doubt()
    result.save(tmp_path / "result.json")
    again = sp.Result.load(tmp_path / "result.json")
    assert (again.guarantee, again.noise_doubt, again.n_residuals) == (
        "doubtful",
        result.noise_doubt,
        result.n_residuals,
    )
    assert again.explain() == result.explain()
    result.report(tmp_path / "result.html")
    assert "Decided, in doubt" in (tmp_path / "result.html").read_text(encoding="utf-8")


def test_a_study_in_doubt_is_stopped_and_says_so() -> None:
    """Its state stays "stopped", its guarantee is doubtful in status and certificate, and `optimize` warns."""
    study, measure = sp.create_study("doses", arms=LINE, storage="memory:"), uneven()
    with pytest.warns(sp.NoiseWarning, match="in doubt"):
        study.optimize(measure)
    assert (study.status.state, study.status.guarantee) == ("stopped", "doubtful")
    assert math.isnan(study.status.confidence)
    assert study.certificate()["guarantee"] == "doubtful"
