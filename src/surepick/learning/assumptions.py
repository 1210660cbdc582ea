"""The assumptions of a result in plain words, and how each was checked.

These sentences are part of certificates. If their words change, certificates of earlier versions can be checked by
those versions only.
"""

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from surepick._texts import counted, percent
from surepick.learning.events import n_earlier
from surepick.learning.model import ModelCheck
from surepick.learning.noise_models import NAMED, Drifting, NoiseModel, Symmetric, noise_model, takes_scale
from surepick.learning.progress import ALL_EQUAL

if TYPE_CHECKING:
    from surepick.learning.result import Result

# A noise_std is called too large if the rewards show at most this share of it: half of the pulls are then wasted.
GENEROUS = 0.7
# With fewer residuals, a test finds only the grossest deviations from normal noise.
FEW_RESIDUALS = 32
REPEATS_ADVICE = "Measure anew each time. If measurements have no noise at all, give noise_std, such as half a digit."
_CHECKS: Mapping[ModelCheck, str] = {
    "tested": "The model was tested by {n} and not contradicted.",
    "not contradicted": "The model is not contradicted, but hardly tested: check pulls would do that ({audit}).",
    "untestable": "The model is not tested yet. A test needs results of more arms than there are features ({audit}).",
    "contradicted": "",
}


class Assumption(NamedTuple):
    """An assumption of a result, and how it was checked."""

    text: str
    checked: str


def assumptions(result: "Result") -> list[Assumption]:
    """Return everything a result rests on, and how each was checked."""
    log = result.history.log
    kinds, n_asked = Counter(event[0] for event in log), sum(len(event[1]) for event in log if event[0] == "ask")
    n_guiding = 0 if result.earlier == "evidence" else n_earlier(log)
    n_others = _n_unsolicited(result) - n_guiding
    part, that_counts = ("part of the log that counts", " that counts") if n_guiding else ("log", "")
    if result.earlier == "kept":
        part, that_counts = "log of this era", " of this era"
    chosen = f"The log has {counted(n_asked, 'ask')} before their results"
    guide_it = "guide it" if result.earlier == "kept" else "guide it and are no evidence"
    chosen += f"; {counted(n_guiding, 'result')} of before {guide_it}" if n_guiding else ""
    if n_others > 0:
        chosen += f"; {counted(n_others, 'result')} came without being asked for"
    nouns = {"fail": "lost measurement", "correct": "correction", "void": "void result"}
    changes = ", ".join(counted(kinds[kind], noun) for kind, noun in nouns.items() if kinds[kind])
    options = f"The {result.rule} rule, {_targets(result)}delta = {result.delta:g} and epsilon = {result.epsilon:g}"
    listed = [
        (_sentence(_noise(result, seen=False)), _noise_checked(result)),
        ("Every arm was chosen before its reward was seen.", f"{chosen}."),
        (
            "Every reward is reported; one is lost, corrected or void for reasons other than its value.",
            f"The {part} has {changes or 'no lost, corrected or void result'}.",
        ),
        (
            f"{options} were fixed before the first reward{that_counts}.",
            f"The {part} begins with them.",
        ),
    ]
    if result.pool is not None:
        drawn = f"The order was drawn from the seed {result.seed}."
        listed.append(("The scores do not depend on the order in which the items were asked.", drawn))
    if result.has_offsets:
        labels = "Labels are right, and which group a measurement belongs to does not depend on values of its block."
        listed.append((labels, "The log cannot show that; a label is never changed."))
    if mean := _mean(result):
        watched = f"Contradicted. {result.misfit}" if result.model_check == "contradicted" else "Not contradicted."
        listed.insert(0, (_sentence(mean.rstrip(",")), model_checked(result) or watched))
    return [Assumption(*one) for one in listed]


def _targets(result: "Result") -> str:
    """Name the threshold, or control and margin; "" without."""
    target = result.specification
    if target is None:
        return ""
    named = f"threshold = {target.value:g}" if target.control is None else "the control"
    margin = f", margin = {-target.value:g}" if target.control is not None and target.value else ""
    return f"{named}{margin}, calls = {target.calls}, "


def _n_unsolicited(result: "Result") -> int:
    """Return how many results answered no ask."""
    pending, n = Counter[Any](), 0
    for kind, *said in result.history.log:
        if kind == "ask":
            pending.update(said[0])
        elif kind in ("tell", "fail"):
            is_answer = said[2:3] != ["none"] and pending[said[0]] > 0
            pending[said[0]] -= is_answer
            n += not is_answer
    return n


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _mean(result: "Result") -> str:
    """Name the assumption about the means; "" if there is none."""
    if result.model != "linear":
        return ""
    if result.allowed_misfit > 0.0:
        return (
            f"the mean reward of every arm is within {result.allowed_misfit:g} of one that is linear in the features,"
        )
    beside = ", beside an offset of every group of measurements," if result.has_offsets else ""
    return f"the mean reward is linear in the features{beside}"


def _noise(result: "Result", *, seen: bool) -> str:
    """Name the assumption about the noise, with the level that the data show if `seen`."""
    if result.pool is not None and result.reward_range is not None:
        lo, hi = result.reward_range
        return f"every arm has one fixed score on each of the {result.pool:,} items, between {lo:g} and {hi:g}"
    return noise_of(result).assumption(result.noise_law, result.noise_std if seen else math.nan)


def noise_of(result: "Result") -> NoiseModel:
    """Return the noise model of a result; if its fields do not spell it, one that says its law and no more."""
    if result.noise == Drifting.name and isinstance(result.given_noise_std, float):
        return Drifting(result.given_noise_std, 0.0)  # its law is in the result
    if result.noise not in NAMED or takes_scale(result.noise):
        own = Symmetric()
        own.unwatched = f'by the model "{result.noise}"'
        return own
    given = result.given_noise_std if result.reward_range is None else None
    return noise_model(result.noise, given, result.reward_range)


def model_checked(result: "Result", *, audit: str = "audit") -> str:
    """Say how the model of the means was checked; "" without a model.

    Args:
        result: what was found.
        audit: how the reader measures after the verdict.
    """
    if result.model != "linear":
        return ""
    if not noise_of(result).is_watched:
        return f"With noise {noise_of(result).unwatched}, the model is not watched."
    if result.allowed_misfit > 0.0:
        seen = f"The rewards contradict an exactly linear mean, as was allowed for. {result.misfit}"
        return seen if result.misfit else ""
    return _CHECKS[result.model_check].format(n=counted(result.n_checks, "check pull"), audit=audit)


def _noise_checked(result: "Result") -> str:
    if result.noise_contradicted:
        return f"Contradicted: the rewards scatter around the fit by {result.noise_std:.3g}."
    if result.reward_range is not None:
        return "Rewards outside are refused."
    if math.isnan(result.noise_std):
        return "Not yet: too few rewards."
    unit = " times what was given" if isinstance(result.given_noise_std, np.ndarray) else ""
    low, high = result.noise_interval
    bounds = f" ({percent(1.0 - result.delta)}: {low:.3g} to {high:.3g})" if math.isfinite(high) else ""
    said = f"The rewards scatter around the fit by {result.noise_std:.3g}{unit}{bounds}."
    if result.coarseness > 0.0:
        return coarse(result.coarseness, result.noise_std)
    return f"{said} {_shape_checked(result)}" if result.given_noise_std is None else f"{said} Not contradicted."


def _shape_checked(result: "Result") -> str:
    """Say how the law of the noise was checked, and what could not have shown."""
    if result.noise_doubt:
        return f"In doubt: {result.noise_doubt}"
    if not result.n_residuals:
        return "Its law is not tested."
    # An event of probability p is missed by n results with probability (1 - p)^n, above delta for all p below this.
    often = max(1, math.floor(result.n_pulls / -math.log(result.delta)))
    return (
        f"Nothing in {counted(result.n_residuals, 'residual')} speaks against a normal law with one level; rarer "
        f"deviations, of less than one in {often:,} measurements, may have gone unseen."
    )


def coarse(step: float, noise_std: float) -> str:
    """Say what readings that are coarser than their noise can and cannot show, and how to do better."""
    if math.isinf(step):
        return f"{ALL_EQUAL} Record more digits."
    return (
        f"The readings lie on steps of {step:.3g}, and their noise ({noise_std:.3g}) is smaller than that. Only "
        "differences that rounding cannot explain count as evidence. Record more digits, accept a difference of "
        f"{step:.3g} (epsilon), or give reward_range where rewards are counts or grades."
    )


def assumed(result: "Result") -> str:
    """Say in a few sentences what a result rests on, and warn of what could not be checked."""
    mean = f"{_mean(result)} and that " if _mean(result) else ""
    checked = model_checked(result) if result.stopped or result.allowed_misfit > 0.0 else ""
    said = [f"This assumes that {mean}{_noise(result, seen=True)}.", _generous(result), _few_residuals(result), checked]
    return " ".join(filter(None, said))


def _few_residuals(result: "Result") -> str:
    """Warn of an answer that rests on normal noise and came before the shape of the noise could show."""
    n = result.n_residuals
    if n is None or n >= FEW_RESIDUALS or not result.stopped:
        return ""
    if n == 0:
        return "The law of the noise is not tested: rare large values would not have shown."
    return f"Whether it does cannot be seen from {counted(n, 'residual')}: rare large values would not have shown."


def _generous(result: "Result") -> str:
    """Say how much a `noise_std` costs that is far above the noise of the rewards; pulls grow with its square."""
    given = result.given_noise_std
    most = max(result.noise_interval[1], result.noise_std)
    if not isinstance(given, float | int) or result.reward_range is not None or not most < GENEROUS * given:
        return ""
    saved = percent(1.0 - (result.noise_std / given) ** 2)
    return (
        f"You gave noise_std = {given:g}, the data say {result.noise_std:.3g}; leaving it out would need about {saved} "
        "fewer pulls."
    )
