"""The Spec: one declaration of every option, and what follows from it."""

import inspect
from dataclasses import fields
from typing import get_args

import numpy as np
import pytest

import surepick as sp
from surepick.algorithms.options import Options
from surepick.cli.options import PlanOptions
from surepick.errors import InvalidInput
from surepick.learning.noise_models import NAMED, UnknownGaussian
from surepick.learning.spec import DEFAULTS, IN_PLAN, KEPT, OPTIONS, NoiseName, Spec, TaskOptions


def test_keywords_for_type_checkers_are_those_of_the_spec() -> None:
    """All options of a task, and those that all algorithms share."""
    shared = {field.name for field in fields(Options)}
    assert {*TaskOptions.__annotations__} == ({*KEPT} - {"algorithm"}) | shared


def test_every_name_of_a_noise_model_stands_for_its_class() -> None:
    """The class that says so; the default is the one whose level is learnt."""
    assert [*NAMED] == [*get_args(NoiseName)]
    assert all(kind.name == name for name, kind in NAMED.items())
    assert NAMED["same"] is UnknownGaussian


@pytest.mark.parametrize("function", [sp.identify, sp.create_study, sp.Learner], ids=lambda one: one.__name__)
def test_signatures_show_every_option_with_its_default(function: object) -> None:
    """As if each were an argument of its own."""
    parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    shown = {name: parameters[name].default for name in OPTIONS if name != "algorithm"}
    assert shown == {name: default for name, default in DEFAULTS.items() if name != "algorithm"}


def test_a_plan_takes_its_options_from_the_spec() -> None:
    """In Python and on the command line; each is explained once, and no other is taken."""
    shown = inspect.signature(sp.plan).parameters
    assert {name: shown[name].default for name in IN_PLAN} == {name: DEFAULTS[name] for name in IN_PLAN}
    assert {OPTIONS[name].flag or name for name in IN_PLAN} <= {field.name for field in fields(PlanOptions)}  # type: ignore[arg-type]
    for name in (*IN_PLAN, "theta", "gap"):
        assert (sp.plan.__doc__ or "").count(f"\n        {name}: ") == 1, name
    assert "\n        budget: " not in (sp.plan.__doc__ or "")
    with pytest.raises(InvalidInput, match="there is no option 'epsillon'; did you mean 'epsilon'"):
        sp.plan(np.eye(2), theta=[1.0, 0.5], epsillon=0.1)  # type: ignore[call-arg]


@pytest.mark.parametrize("function", [sp.identify, sp.create_study])
def test_docstrings_explain_every_option_once(function: object) -> None:
    """From the one text of the Spec."""
    text = function.__doc__ or ""
    for name in OPTIONS:
        assert text.count(f"\n        {name}: ") == 1, name


def test_what_cannot_be_used_is_refused() -> None:
    """By the check of the option; what is none of a task is the algorithm's."""
    for name, value in {"delta": 2.0, "m": 0, "budget": -1.0, "model": "cubic", "earlier": "maybe", "seed": -1}.items():
        with pytest.raises(InvalidInput, match=f"`{name}` must be"):
            Spec.of("uniform", {name: value})
    assert Spec.of("rage", {"alpha": 2.0}).own == {"alpha": 2.0}


def test_one_question_to_rule_and_algorithm() -> None:
    """They say why a task is not supported, or nothing."""
    learner = sp.create_learner("uniform", np.eye(3), noise_std=1.0, stopping="evidence")
    assert learner.rule.unsupported(learner.task) is None
    with pytest.raises(InvalidInput, match="`misfit` must be 0 for stopping='evidence'"):
        sp.create_learner("uniform", np.eye(3), noise_std=1.0, stopping="evidence", misfit=0.1)
    with pytest.raises(InvalidInput, match="`costs` cannot be given to rage"):
        sp.create_learner("rage", np.eye(3), noise_std=1.0, costs=[1.0, 2.0, 3.0])
