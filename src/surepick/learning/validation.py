"""What a learner is given, checked: arms and candidates as it sees them, and what its rewards may be."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from surepick.arms.base import ArmSet, VectorSet, duplicate_groups
from surepick.arms.finite import FiniteArms, as_arms
from surepick.arms.numbered import NumberedVectors
from surepick.arms.views import ArmView, Task, whiten
from surepick.core.checks import (
    check_vector,
)
from surepick.core.design.solve import as_candidates
from surepick.errors import InvalidInput
from surepick.stopping.base import Rule
from surepick.types import Array

# One mean per arm: a square matrix of that size, and pulls of every arm.
MOST_MEANS = 2_000


def arms_given(arms: Any, model: str, candidates: Any) -> ArmSet | VectorSet:
    """Return the set of arms; one feature each if the model is "unstructured"."""
    given: ArmSet | VectorSet = arms if isinstance(arms, VectorSet) else as_arms(arms)
    if model == "linear":
        return given
    if model != "unstructured":
        raise InvalidInput(f'`model` must be "linear" or "unstructured", got {model!r}.')
    if isinstance(given, VectorSet) or given.n_arms > MOST_MEANS or candidates is not None:
        raise InvalidInput(
            f'model="unstructured" is for a list of at most {MOST_MEANS:,} arms without other candidates; use "linear".'
        )
    return FiniteArms(np.eye(given.n_arms), names=given.names)


@final
@dataclass(frozen=True, slots=True)
class Views:
    """What a learner sees of its arms: all in the same coordinates."""

    measured: ArmView
    """The rows that results are of, divided by the arms' noise if it differs."""
    arms: ArmView
    """The arms as they were given; the same object, unless noise differs."""
    candidates: ArmView
    """What is compared: the arms, unless something else is."""


def views(arms: ArmSet | VectorSet, candidates: Any, seed: int, stds: Array | None = None) -> Views:
    """Return what a learner sees of arms and candidates.

    Args:
        arms: what may be measured.
        candidates: what is compared; None: the arms.
        seed: of the rounds of a set of vectors.
        stds: the noise of every arm (K,), if it is given arm by arm.
    """
    n_arms = None if isinstance(arms, VectorSet) else arms.n_arms
    if stds is not None and n_arms != len(stds):
        needed = "one number" if isinstance(arms, VectorSet) else f"one number, or one for each of {n_arms} arms"
        raise InvalidInput(f"`noise_std` must be {needed}, got {len(stds)} of them.")
    if isinstance(arms, VectorSet):
        if candidates is not None:
            raise InvalidInput(
                f"`candidates` go with a list of arms, got them with {arms.description}; leave them out."
            )
        vectors = NumberedVectors(arms, seed)
        return Views(vectors, vectors, vectors)
    white = whiten(arms, stds)
    own = white if stds is None else white.view_of(arms)
    if isinstance(candidates, VectorSet):
        return Views(white, own, NumberedVectors(candidates, seed, back=white.back))
    rows = own if candidates is None else white.view_of(as_candidates("candidates", candidates, arms))
    if len(rows.copies(0)) == rows.n_arms:
        raise InvalidInput("`candidates` must have at least two different rows, got one; add rows, one is no choice.")
    return Views(white, own, rows)


def costs_given(costs: Any, arms: ArmSet | VectorSet) -> Array | None:
    """Return what a pull of each arm costs (K,), checked; None if all cost the same."""
    if costs is None:
        return None
    if isinstance(arms, VectorSet):
        raise InvalidInput(f"`costs` go with a list of arms, got them with {arms.description}; leave them out.")
    prices = check_vector("costs", costs, arms.n_arms)
    if not (prices > 0.0).all():
        raise InvalidInput(
            f"`costs` must be positive, got {prices.min():g} for arm {int(np.argmin(prices))}; give an arm that costs "
            "next to nothing a small cost."
        )
    return prices


def check_several(task: Task, rule: Rule) -> None:
    """Refuse to seek the m best where no proof covers it."""
    if task.m == 1:
        return
    if not task.candidates.is_enumerable:
        raise InvalidInput(f"m = {task.m} needs a list of arms, got {task.candidates.description}; leave `m` out.")
    if task.m >= task.rivals.n_arms:
        raise InvalidInput(
            f"`m` must be below the number of arms that are compared, {task.rivals.n_arms}, got {task.m}."
        )
    if not rule.supports_top_m:
        raise InvalidInput(f'stopping={rule.name!r} has no proof for m = {task.m}; use "betting" or "evidence".')
    if rule.needs_fixed_blocks and (task.epsilon > 0.0 or task.misfit > 0.0):
        raise InvalidInput(
            f"stopping={rule.name!r} has no proof for m = {task.m} with `epsilon` or `misfit` above 0; use "
            'stopping="evidence", which takes `epsilon`, or leave them out.'
        )
    if groups := duplicate_groups(task.rivals.arms):
        raise InvalidInput(
            f"m = {task.m} needs arms with different features, got {' and '.join(map(str, groups[0][:2]))} with equal "
            "ones; leave one of them out."
        )


def check_suited(name: str, composition: object, task: Task) -> None:
    """Refuse a task that an algorithm cannot do."""
    if task.given_noise_std is None and getattr(composition, "plans_with_noise", False):
        raise InvalidInput(
            f"`noise_std` must be given: {name} plans with it. Or use another algorithm, such as "
            '"lazy-track-and-stop", which learns it.'
        )
    for option, is_given, can in (
        ("m", task.m > 1, "supports_top_m"),
        ("costs", task.costs is not None, "takes_costs"),
    ):
        if is_given and not getattr(composition, can, False):
            raise InvalidInput(f'`{option}` cannot be given to {name}, which plans without; use "lazy-track-and-stop".')
    arms, candidates = task.arms, task.candidates
    if not arms.is_enumerable and not getattr(composition, "takes_vectors", False):
        raise InvalidInput(f'{name} needs a list of arms, got {arms.description}; use "lazy-track-and-stop".')
    is_apart = candidates is not arms
    if is_apart and not (candidates.is_enumerable or getattr(composition, "takes_vector_candidates", False)):
        raise InvalidInput(
            f'{name} needs a list of candidates, got {candidates.description}; use "g-static" or "uniform", with '
            'stopping="evidence".'
        )
