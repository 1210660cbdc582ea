"""Results in plain words: what `explain`, the live view and reports say.

One rule for all of them: a sentence says what is known at confidence 1 - delta, or that something is an estimate, and
no two sentences contradict each other. Evidence, which is in nats, is for programs; people get percents.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from surepick.arms.base import same_features
from surepick.learning.events import n_earlier
from surepick.learning.model import ModelCheck
from surepick.learning.noise_models import NAMED, NoiseModel, Symmetric, noise_model
from surepick.learning.snapshot import Standing
from surepick.types import Guarantee

if TYPE_CHECKING:
    from surepick.learning.result import Result


# Said if the rewards allow no more than this share of the noise_std given: then half of all pulls are for nothing.
GENEROUS = 0.7
# Names of arms in a sentence.
MOST_NAMED = 10
# With so few arms each can be measured by itself, without a model.
FEW_ARMS = 50
# Residuals from which on a test of the shape of the noise finds more than the grossest.
FEW_RESIDUALS = 32

_RISKS: Mapping[Guarantee, str] = {
    "proved": "the probability of a wrong answer is at most {delta} (proved, {rule} rule)",
    "published": "the probability of a wrong answer is at most {delta} by a published proof ({rule} rule)",
    "heuristic": (
        "the probability of a wrong answer should be at most about {delta}, but that is not proved ({rule} rule)"
    ),
    "none": "without any guarantee ({rule} rule)",
}
_CHECKS: Mapping[ModelCheck, str] = {
    "tested": "The model was tested by {n} and not contradicted.",
    "not contradicted": "The model is not contradicted, but hardly tested: check pulls would do that (audit).",
    "untestable": "The model is untestable: no more arms were measured than there are features (audit).",
    "contradicted": "",
}


class Assumption(NamedTuple):
    """Something a result rests on, and how it was checked."""

    text: str
    checked: str


def explain(result: "Result") -> str:
    """Say which arm is best, how sure that is, and what it rests on."""
    pulls = counted(result.n_until_verdict, "pull")
    start = f"Interrupted after {pulls}. " if result.interrupted else ""
    if result.best is None or result.guarantee == "withdrawn":
        return f"{start}{verdict(result)}"
    said = [verdict(result), _alike(result), *standing_sentences(result.standing, label_of(result))]
    said += [_survivors(result), _hidden(result)]
    if result.guarantee != "doubtful":
        said += [_assumptions(result), _bears(result), _of_vectors(result)]
    return start + " ".join(filter(None, said))


def _alike(result: "Result") -> str:
    """Say which arms the answer stands for, and that there are others of which that can be said."""
    rows = result.compared
    own = () if result.arm_set or result.m > 1 else rows.group_of(result.best)
    n_others = len(rows.alike) - (len(own) > 1)
    said = []
    if len(own) > 1:
        labels = [label_of(result)(row) for row in own[:MOST_NAMED]]
        labels += [f"{len(own) - MOST_NAMED:,} more"] if len(own) > MOST_NAMED else []
        said.append(f"{same_features(labels)}: the answer is {'either' if len(own) == 2 else 'any'} of them.")
    if n_others:
        has = "has" if n_others == 1 else "have"
        said.append(f"{counted(n_others, 'other group')} of arms {has} the same features too.")
    return " ".join(said)


def _survivors(result: "Result") -> str:
    """Name who is left of those that are compared, if some are excluded and nothing is decided."""
    left, n_compared = result.survivors, len(result.compared)
    if result.stopped or left is None or len(left) == n_compared:
        return ""
    names = [label_of(result)(int(arm)) for arm in left[:MOST_NAMED]]
    names += [f"{len(left) - MOST_NAMED:,} more"] if len(left) > MOST_NAMED else []
    who = "the best is" if result.m == 1 else f"the {result.m} best are"
    among = f"{who} among them at {percent(1.0 - result.delta)} confidence"
    return f"Not excluded: {joined(names)}, {len(left):,} of {n_compared:,}; {among}."


def verdict(result: "Result") -> str:
    """Say in one sentence, or two if the claim is withdrawn, what became of it."""
    pulls = counted(result.n_until_verdict, "pull")
    if result.has_costs:
        pulls += f" at a cost of {result.cost:,.4g}"
    if result.best is None:
        return (
            f"No leader yet: {pulls} of {counted(len(result.counts), 'different arm')} cannot show the effect of every "
            "feature. More pulls are needed."
        )
    if result.guarantee == "withdrawn":
        return _withdrawn(result, pulls)
    if not result.stopped:
        said = "Not decided." if result.interrupted else f"Not decided ({pulls})."
        return f"{said} {_doubt(result)}" if result.guarantee == "doubtful" else said
    # A name keeps its spelling also where it opens the sentence.
    leader = _leader(result) if result.best_name is not None else _leader(result)[0].upper() + _leader(result)[1:]
    if result.guarantee == "doubtful":
        are = "are" if result.m > 1 else "is"
        return f"{leader} {are} the answer of the {result.stopping} rule after {pulls}, in doubt. {_doubt(result)}"
    risk = _RISKS[result.guarantee].format(delta=percent(result.delta), rule=result.stopping)
    return f"{leader} {_is_best(result)}, after {pulls}: {risk}."


def _doubt(result: "Result") -> str:
    """Say why nothing is asserted although no model is contradicted."""
    return f"A risk of {percent(result.delta)} cannot be claimed: {result.noise_doubt}"


def standing_sentences(standing: Standing, label: Callable[[Any], str], *, epsilon_is: str = "epsilon = ") -> list[str]:
    """Say by how much the leader is ahead and, before the end, what stopping now would cost and what is left to do.

    Args:
        standing: where things stand.
        label: what an arm is called.
        epsilon_is: how the reader sets epsilon.
    """
    if standing.leader is None or standing.guarantee == "withdrawn":
        return []
    leader = label(standing.leader)
    if standing.stopped:
        return [] if standing.rival is None else [_after_the_end(standing, label(standing.rival))]
    said = [f"{leaders_words(standing, label)}{rival_words(standing, label, before=', rival ')}."]
    if (cost := stopping_now(standing, leader)) != "":
        said.append(f"Stop now: {cost}.")
    said.append(f"To be sure: {left_to_do(standing)}.")
    if near := near_tie_words(standing, label, epsilon_is=epsilon_is):
        said.append(f"Near tie with {near}.")
    return said


def leaders_words(standing: Standing, label: Callable[[Any], str]) -> str:
    """Name who leads."""
    names = [label(arm) for arm in standing.leaders]
    return f"Leader {names[0]}" if len(names) == 1 else f"Leaders {joined(names)}"


def joined(names: Sequence[str]) -> str:
    """Names in a sentence, such as "A, B and C"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def near_tie_words(standing: Standing, label: Callable[[Any], str], *, epsilon_is: str) -> str:
    """Name who is so close, and say what an epsilon would do; "" if the end is in sight."""
    if standing.near_tie is None:
        return ""
    rival, epsilon, more = standing.near_tie
    return f"{label(rival)}: with {epsilon_is}{epsilon:g} about {counted(more, 'more pull')}"


def rival_words(standing: Standing, label: Callable[[Any], str], *, before: str = "") -> str:
    """Name the rival and the lead over it, with interval; "" if there is none."""
    if standing.rival is None:
        return ""
    last = f"{label(standing.leader)} is " if standing.ahead else ""
    return f"{before}{label(standing.rival)}: {last}ahead by {lead_words(standing)}"


def lead_words(standing: Standing) -> str:
    """Say how large the lead is, with interval."""
    low, high = standing.interval
    places = places_of(standing.lead, high - standing.lead)
    if not math.isfinite(high):
        return fixed(standing.lead, places)
    sure = percent(1.0 - standing.delta)
    return f"{fixed(standing.lead, places)} ({sure}: {between(low, high, places)})"


def stopping_now(standing: Standing, leader: str) -> str:
    """Say what is known if measuring ends now; "" if nothing is."""
    if not math.isfinite(standing.loss):
        return ""
    if standing.loss == 0.0 and standing.ahead:
        return f"they are the best by their intervals, though the {standing.rule} rule has not decided"
    if standing.loss == 0.0:
        return f"{leader} is the best by its intervals, though the {standing.rule} rule has not decided"
    half = standing.interval[1] - standing.lead
    places = places_of(standing.lead, half) if math.isfinite(half) else places_of(standing.loss, standing.loss)
    within = f", which epsilon = {standing.epsilon:g} allows" if standing.loss <= standing.epsilon else ""
    most = _up(standing.loss, places)
    if standing.ahead:
        return f"none of them is more than {most} below one that is left out{within}"
    return f"{leader} is at most {most} below the best{within}"


def left_to_do(standing: Standing) -> str:
    """Say how many pulls are still needed, as it seems."""
    if not math.isfinite(standing.remaining):
        return "more pulls, how many cannot be said yet"
    return f"about {counted(max(math.ceil(standing.remaining), 1), 'more pull')}"


def confidence_words(standing: Standing) -> str:
    """Say how sure the leader is, in percents that reach 1 - delta only at the end."""
    if standing.guarantee == "withdrawn":
        return "withdrawn, the rewards contradict what it rests on"
    if standing.guarantee == "doubtful":
        return "in doubt, the noise does not look normal with one level"
    if math.isnan(standing.p_value):
        if standing.stopped and standing.guarantee in ("proved", "published"):
            return percent(1.0 - standing.delta)
        return f"{100.0 * standing.share:.0f} % of what the {standing.rule} rule asks for"
    # So many decimals that 1 - delta itself can be told from 1, and no rounding up to it.
    places = max(0, math.ceil(-math.log10(standing.delta) - 1e-9) - 2)
    shown = f"{_down(100.0 * standing.confidence, places)} %"
    return shown if standing.stopped else f"{shown}, {percent(1.0 - standing.delta)} needed"


def label_of(result: "Result") -> Callable[[Any], str]:
    """Return what candidates of a result are called."""
    kind = "arm" if result.candidates is None else "candidate"

    def label(arm: Any) -> str:
        if result.arm_set:
            return _vector(arm)
        names = result.compared.names
        if names is not None and result.compared.listed is None:
            return str(names[arm])
        return str(result.best_name) if result.best_name is not None and arm == result.best else f"{kind} {arm}"

    return label


def _after_the_end(standing: Standing, rival: str) -> str:
    """Name the runner-up. That the answer is ahead is the verdict's to say, also where an interval by itself cannot."""
    low, high = standing.interval
    places = places_of(standing.lead, high - standing.lead)
    if standing.lead <= 0.0:
        behind = f"is ahead of it by {fixed(-standing.lead, places)}"
        if standing.epsilon > 0.0:
            return f"By their estimates {rival} {behind}, which epsilon = {standing.epsilon:g} allows."
        return f"By their estimates {rival}, which was excluded on the way, {behind}."
    it = "The last of them" if standing.ahead else "It"
    if low >= -standing.epsilon or not math.isfinite(high):
        return f"{it} is ahead of {rival} by {lead_words(standing)}."
    most, sure = _up(high, places), percent(1.0 - standing.delta)
    return f"{it} is ahead of {rival} by about {fixed(standing.lead, places)}, at most by {most} ({sure})."


def _hidden(result: "Result") -> str:
    """Say so if the allowed misfit keeps the rule from ever deciding."""
    if not result.n_undecidable:
        return ""
    return (
        f"The allowed misfit of {result.allowed_misfit:g} could be all of its lead over "
        f"{counted(result.n_undecidable, 'arm')}, which more such pulls will not change: allow for less, accept "
        "an epsilon, or add features."
    )


def _bears(result: "Result") -> str:
    """Say how much misfit the answer bears, if that is known; not if it is so much that no model was needed."""
    margin = result.misfit_margin if result.stopped else None
    if margin is None or margin == math.inf:
        return ""
    return f"The answer stands if no arm's mean is off its linear fit by more than {margin:.3g}."


REPEATS_ADVICE = "Measure anew each time. If measurements have no noise at all, give noise_std, such as half a digit."


def _withdrawn(result: "Result", pulls: str) -> str:
    was = f"was to be the answer after {pulls}" if result.stopped else f"leads after {pulls}"
    if result.m > 1:
        was = f"were to be the answer after {pulls}" if result.stopped else f"lead after {pulls}"
    if result.repeated:
        return f"No answer can be defended: {_leader(result)} {was}, but {result.misfit} {REPEATS_ADVICE}"
    if not result.noise_contradicted:
        why = f"the rewards contradict a mean that is linear in the features. {result.misfit}"
        advice = "Repeat with features that describe the rewards better"
        if result.arms.listed is None and len(result.arms) <= FEW_ARMS:
            advice += ', or without features: model="unstructured"'
    else:
        why, cure = f"the rewards scatter around the fit by {result.noise_std:.3g}", "without noise_std"
        if isinstance(result.given_noise_std, np.ndarray):
            why, cure = f"{why} times the noise_std that was given for the arms.", "with larger noise_std"
        else:
            why = f"{why} where noise_std = {result.given_noise_std:g} was given."
        why = f"{why} {result.misfit}".rstrip()  # a slip scatters as well
        advice = f"Repeat {cure}, or with features that describe the rewards better"
    return f"No answer can be defended: {_leader(result)} {was}, but {why} {advice}."


def coarse(step: float, noise_std: float) -> str:
    """Say what readings that are coarser than their noise can and cannot show, and how to do better."""
    if math.isinf(step):
        return "All readings are equal: there is nothing to compare yet. Record more digits."
    return (
        f"The readings lie on steps of {step:.3g}, and their noise ({noise_std:.3g}) is smaller than that. Only "
        "differences that rounding cannot explain count as evidence. Record more digits, accept a difference of "
        f"{step:.3g} (epsilon), or give reward_range where rewards are counts or grades."
    )


def _leader(result: "Result") -> str:
    if result.arm_set:
        return f"arm {_vector(result.best)}"
    kind = "arm" if result.candidates is None else "candidate"
    if result.m > 1:
        return joined([label_of(result)(arm) for arm in result.best])
    if result.best_name is None:
        return f"{kind} {result.best}"
    # In a later era, which a study begins with all it knows, the learner's own number is none that users know.
    is_later = result.earlier == "guidance" and any(event[3:] == ("none",) for event in result.history.log[1:2])
    return str(result.best_name) if is_later else f"{result.best_name} ({kind} {result.best})"


def _vector(arm: Any) -> str:
    entries = [f"{entry:.4g}" for entry in arm[:6]]
    return f"({', '.join(entries)}{', ...' if len(arm) > len(entries) else ''})"


def _is_best(result: "Result") -> str:
    if result.arm_set:
        total = result.arm_set
    elif result.arms.listed is not None:
        total = "all arms"
    else:
        total = f"{len(result.arms)} arms" if result.candidates is None else f"{len(result.candidates)} candidates"
    if result.m > 1:
        slack = f", or lose at most {result.epsilon:g} to those" if result.epsilon > 0.0 else ""
        return f"are the {result.m} best of {total}{slack}"
    slack = f" or loses at most {result.epsilon:g} to it" if result.epsilon > 0.0 else ""
    return f"is the best of {total}{slack}"


def _of_vectors(result: "Result") -> str:
    if not result.arm_set:
        return ""
    bound = "" if result.exact else " The evidence is a lower bound, so a stop may come late but never early."
    fewest = "That the pulls are close to the fewest possible in the long run is proved for finite sets only."
    return fewest + bound


def _assumptions(result: "Result") -> str:
    mean = f"{_mean(result)} and that " if _mean(result) else ""
    checked = _checked(result) if result.stopped or result.allowed_misfit > 0.0 else ""
    said = [f"This assumes that {mean}{_noise(result, seen=True)}.", _generous(result), _few_residuals(result), checked]
    return " ".join(filter(None, said))


def _few_residuals(result: "Result") -> str:
    """Say so if an answer rests on normal noise and came before the shape of the noise could show."""
    n = result.n_residuals
    if n is None or n >= FEW_RESIDUALS or not result.stopped:
        return ""
    return f"Whether it does cannot be seen from {counted(n, 'residual')}: rare large values would not have shown."


def _mean(result: "Result") -> str:
    """What is assumed of the means; "" if nothing is."""
    if result.model != "linear":
        return ""
    if result.allowed_misfit > 0.0:
        return (
            f"the mean reward of every arm is within {result.allowed_misfit:g} of one that is linear in the features,"
        )
    return "the mean reward is linear in the features"


def _noise(result: "Result", *, seen: bool) -> str:
    """What is assumed of the noise, and what was seen of it if that is wanted."""
    return noise_of(result).assumption(result.noise_law, result.noise_std if seen else math.nan)


def noise_of(result: "Result") -> NoiseModel:
    """Return the noise model of a result; of one that has no name here, a model that says its law and no more."""
    if result.noise not in NAMED:
        own = Symmetric()
        own.unwatched = f'by the model "{result.noise}"'
        return own
    given = result.given_noise_std if result.reward_range is None else None
    return noise_model(result.noise, given, result.reward_range)


def _checked(result: "Result") -> str:
    """How the means were checked; "" where nothing is assumed of them."""
    if result.model != "linear":
        return ""
    if noise_of(result).needs_bets:
        return f"With noise {noise_of(result).unwatched}, the model is not watched."
    if result.allowed_misfit > 0.0:
        seen = f"The rewards contradict an exactly linear mean, as was allowed for. {result.misfit}"
        return seen if result.misfit else ""
    return _CHECKS[result.model_check].format(n=counted(result.n_checks, "check pull"))


def _generous(result: "Result") -> str:
    """Say so if the noise that was given is far above what the rewards show; pulls go with its square."""
    given = result.given_noise_std
    most = max(result.noise_interval[1], result.noise_std)
    if not isinstance(given, float | int) or result.reward_range is not None or not most < GENEROUS * given:
        return ""
    saved = percent(1.0 - (result.noise_std / given) ** 2)
    return (
        f"You gave noise_std = {given:g}, the data say {result.noise_std:.3g}; leaving it out would need about {saved} "
        "fewer pulls."
    )


def assumptions(result: "Result") -> list[Assumption]:
    """Return everything a result rests on, and how each was checked."""
    kinds = Counter(event[0] for event in result.history.log)
    n_asked = sum(len(event[1]) for event in result.history.log if event[0] == "ask")
    n_unsolicited = _n_unsolicited(result)
    listed = []
    if _mean(result):
        watched = f"Contradicted. {result.misfit}" if result.model_check == "contradicted" else ""
        listed.append(
            Assumption(_sentence(_mean(result).rstrip(",")), _checked(result) or watched or "Not contradicted.")
        )
    listed.append(Assumption(_sentence(_noise(result, seen=False)), _noise_checked(result)))
    chosen = f"The log has {counted(n_asked, 'ask')} before their results"
    n_guiding = _n_guiding(result)
    if n_guiding:
        chosen += f"; {counted(n_guiding, 'result')} of before guide it and are no evidence"
    if n_unsolicited > n_guiding:
        more = counted(n_unsolicited - n_guiding, "result")
        chosen += f"; {more} came without being asked for, chosen by somebody else"
    listed.append(Assumption("Every arm was chosen before its reward was seen.", f"{chosen}."))
    notes = [
        counted(kinds[kind], noun)
        for kind, noun in (("fail", "lost measurement"), ("correct", "correction"), ("void", "void result"))
        if kinds[kind]
    ]
    part = "part of the log that counts" if n_guiding else "log"
    reported = f"The {part} has {', '.join(notes) or 'no lost, corrected or void result'}."
    listed.append(
        Assumption(
            "Every reward is reported; one is lost, corrected or void for reasons other than its value.", reported
        )
    )
    fixed = f"The {result.stopping} rule, delta = {result.delta:g} and epsilon = {result.epsilon:g}"
    own = f"By whoever ran it; the {part} begins with them."
    that_counts = " that counts" if n_guiding else ""
    listed.append(Assumption(f"{fixed} were fixed before the first reward{that_counts}.", own))
    return listed


def _n_unsolicited(result: "Result") -> int:
    """How many results answered no ask."""
    pending, n = Counter[Any](), 0
    for kind, *said in result.history.log:
        if kind == "ask":
            pending.update(said[0])
        elif kind in ("tell", "fail"):
            is_answer = said[-1] != "none" and pending[said[0]] > 0
            pending[said[0]] -= is_answer
            n += not is_answer
    return n


def _n_guiding(result: "Result") -> int:
    """How many results guide plans and bets without being evidence: all that were told before the first ask."""
    return 0 if result.earlier == "evidence" else n_earlier(result.history.log)


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
    """How the law of the noise was checked, and what could not have shown."""
    if result.noise_doubt:
        return f"In doubt: {result.noise_doubt}"
    if not result.n_residuals:
        return "Its law is not tested."
    # An event of probability p is missed by n results with probability (1 - p)^n, above delta for all p below this.
    often = max(1, math.floor(result.n_pulls / -math.log(result.delta)))
    return (
        f"Nothing in {counted(result.n_residuals, 'residual')} speaks against a normal law with one level; values that "
        f"come less than once in {often:,} measurements need not have shown."
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def counted(n: int, noun: str) -> str:
    """Return a number of things."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def percent(probability: float) -> str:
    """Return a probability in percents; beside a risk of 1e-9 these say less than the number itself."""
    if 1e-4 <= probability <= 1.0 - 1e-4:
        return f"{100.0 * probability:.4g} %"
    return f"{probability:.12g}"


def places_of(value: float, width: float) -> int:
    """Return how many decimals show two digits of a width, and one of the value if that is not much smaller."""

    def needed(number: float, digits: int) -> int:
        return digits - 1 - math.floor(math.log10(abs(number))) if number and math.isfinite(number) else -99

    of_width = needed(width, 2) if math.isfinite(width) else needed(value, 3)
    return min(max(of_width, min(needed(value, 1), of_width + 2), 0), 12)


def between(low: float, high: float, places: int) -> str:
    """Return an interval with so many decimals, rounded outwards; "" if it is not bounded."""
    return f"{_down(low, places)} to {_up(high, places)}" if math.isfinite(low) and math.isfinite(high) else ""


def fixed(number: float, places: int) -> str:
    """Return a number with so many decimals."""
    text = f"{number:.{places}f}"
    return text.removeprefix("-") if float(text) == 0.0 else text  # no minus before nothing


def _down(number: float, places: int) -> str:
    """Return a lower bound with so many decimals, not above it."""
    scale = 10.0**places
    return fixed(math.floor(number * scale + 1e-9) / scale, places)


def _up(number: float, places: int) -> str:
    """Return an upper bound with so many decimals, not below it."""
    scale = 10.0**places
    return fixed(math.ceil(number * scale - 1e-9) / scale, places)
