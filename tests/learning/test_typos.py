"""Keywords that are mistyped: every entry point names the nearest option, among all that it has."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import surepick as sp
from surepick.errors import InvalidInput

X = np.eye(3)


def _pull(_arm: int) -> float:
    raise AssertionError("nothing is measured")


def _study(**options: Any) -> sp.Study:
    return sp.create_study("typo", arms=X, storage="memory:", **options)


@pytest.mark.parametrize(
    ("call", "typo", "meant"),
    [
        (lambda **typo: sp.identify(X, _pull, **typo), "reward", "rewards"),
        (lambda **typo: sp.identify(X, _pull, **typo), "max_pull", "max_pulls"),
        (lambda **typo: sp.identify(X, _pull, **typo), "trackings", "tracking"),
        (lambda **typo: sp.identify(X, _pull, algorithm=sp.algorithms.Rage(), **typo), "budgte", "budget"),
        (lambda **typo: sp.Learner("rage", X, **typo), "epsilom", "epsilon"),
        (lambda **typo: sp.create_learner("rage", X, **typo), "constant", "constants"),
        (_study, "load_if_exist", "load_if_exists"),
        (_study, "noisestd", "noise_std"),
        (lambda **typo: _study().reopen(reason="typo", **typo), "budge", "budget"),
        (lambda **typo: sp.simulate(sp.problems.unit_basis([1.0, 0.0]), **typo), "n_run", "n_runs"),
        (lambda **typo: sp.simulate(sp.problems.unit_basis([1.0, 0.0]), **typo), "reward", "rewards"),
        (lambda **typo: sp.plan(X, gap=0.1, **typo), "noise_sd", "noise_std"),
    ],
)
def test_a_mistyped_keyword_gets_the_option_that_was_meant(call: Callable[..., object], typo: str, meant: str) -> None:
    """With a list of all options, not of the algorithm's alone."""
    with pytest.raises(InvalidInput, match=f"there is no option '{typo}'; did you mean '{meant}'") as error:
        call(**{typo: 1})
    assert {"rewards", "epsilon", "costs", "m"} <= set(str(error.value).replace(",", " ").replace(".", " ").split())


@pytest.mark.parametrize("call", [lambda **odd: sp.identify(X, _pull, **odd), _study])
def test_options_of_another_function_are_sent_there(call: Callable[..., object]) -> None:
    """The nearest name would be no help: `noise` for `n_jobs`."""
    with pytest.raises(InvalidInput, match=r"no option 'n_jobs'; `study.optimize\(function, n_jobs=...\)` has it"):
        call(n_jobs=4)
    with pytest.raises(InvalidInput, match="no option 'binary'; rewards=\"binary\" says"):
        call(binary=True)


def test_an_async_function_is_sent_to_a_study() -> None:
    """Before it is called."""

    async def pull(arm: int) -> float:
        return _pull(arm)

    with pytest.raises(InvalidInput, match=r"got an async function; .*study.optimize\(pull, n_jobs=8\)"):
        sp.identify(X, pull)  # type: ignore[arg-type]


def test_an_option_of_an_algorithm_that_is_an_object_is_sent_there() -> None:
    """It is no typo."""
    with pytest.raises(InvalidInput, match=r"`variant` is an option of the algorithm: pass it to Rage\(...\)"):
        sp.identify(X, _pull, algorithm=sp.algorithms.Rage(), variant="paper")
