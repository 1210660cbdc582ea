"""Results in plain words, for `explain`, the live view, studies and pages.

Every sentence states a fact at confidence 1 - delta, or calls its number an estimate, and no two sentences contradict
each other. Programs get evidence in nats; people get percents.

The sentences of `verdict`, `explain` and `assumptions` are part of certificates. If their words change, certificates
of earlier versions can be checked by those versions only.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from surepick.arms.base import same_features
from surepick.learning.events import n_earlier
from surepick.learning.model import IF_SLIP, ModelCheck
from surepick.learning.noise_models import NAMED, NoiseModel, Symmetric, looks_binary, noise_model, takes_scale
from surepick.learning.snapshot import Snapshot
from surepick.types import Guarantee, IntArray

if TYPE_CHECKING:
    from surepick.learning.result import Result


# A noise_std is called too large if the rewards show at most this share of it: half of the pulls are then wasted.
GENEROUS = 0.7
# A sentence names at most this many arms.
MOST_NAMED = 10
# Up to this many arms, each can be measured by itself, without a model.
FEW_ARMS = 50
# With fewer residuals, a test finds only the grossest deviations from normal noise.
FEW_RESIDUALS = 32
# A range of remaining pulls says nothing at most if its ends are this factor apart.
WIDE = 20.0
# An estimated loss is next to nothing below this share of the lead.
TINY_SHARE = 0.01
# From this estimated probability on, "about 95 %", the loss that is not exceeded with 95 % is next to 0.
LIKELY = 0.925
# From this estimated probability on, further measurements are for the proof alone.
SURE = 0.975

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
    "untestable": "The model is not tested yet: it was watched on no more arms than there are features (audit).",
    "contradicted": "",
}


class Assumption(NamedTuple):
    """An assumption of a result, and how it was checked."""

    text: str
    checked: str


def explain(result: "Result", *, numbers: bool = True, estimates: bool = True) -> str:
    """Say which arm is best, how sure that is, and what it rests on.

    Args:
        result: what was found.
        numbers: as for `verdict`.
        estimates: whether to say what is not proved; a certificate leaves it out.
    """
    pulls = counted(result.n_until_verdict, "pull")
    start = f"Interrupted after {pulls}. " if result.interrupted else ""
    if result.best is None or result.guarantee == "withdrawn":
        return f"{start}{verdict(result, numbers=numbers)}"
    known = sentences(result, label_of(result), estimates=estimates)
    said = [verdict(result, numbers=numbers), _alike(result), *known, unmeasured(result)]
    said += [_survivors(result), _hidden(result)]
    if result.guarantee != "doubtful":
        said += [_assumptions(result), _bears(result), far_words(result, label_of(result)), _of_vectors(result)]
    return start + " ".join(filter(None, said))


def _alike(result: "Result") -> str:
    """Name the arms with the features of the answer, and say whether other arms share features."""
    rows = result.compared
    own = () if result.arm_set or result.m > 1 else rows.group_of(result.best)
    n_others = len(rows.alike) - (len(own) > 1)
    said = []
    if len(own) > 1:
        said.append(
            f"{same_features(_named(result, own))}: the answer is {'either' if len(own) == 2 else 'any'} of them."
        )
    if n_others:
        has = "has" if n_others == 1 else "have"
        said.append(f"{counted(n_others, 'other group')} of arms {has} the same features too.")
    return " ".join(said)


def _survivors(result: "Result") -> str:
    """Name the survivors, if some candidates are excluded before the verdict."""
    left, n_compared = result.survivors, len(result.compared)
    if result.stopped or left is None or len(left) == n_compared:
        return ""
    who = "the best is" if result.m == 1 else f"the {result.m} best are"
    among = f"{who} among them at {percent(1.0 - result.delta)} confidence"
    return f"Not excluded: {joined(_named(result, left))}, {len(left):,} of {n_compared:,}; {among}."


def _named(result: "Result", rows: Sequence[int] | IntArray) -> list[str]:
    label, n_more = label_of(result), len(rows) - MOST_NAMED
    return [label(int(row)) for row in rows[:MOST_NAMED]] + ([f"{n_more:,} more"] if n_more > 0 else [])


def verdict(result: "Result", *, numbers: bool = True) -> str:
    """Say in one sentence, or two if the claim is withdrawn, which arm is best and how sure that is.

    Args:
        result: what was found.
        numbers: whether the row number follows the name of an arm; a study has row numbers of its own.
    """
    pulls = counted(result.n_until_verdict, "pull")
    if result.has_costs:
        is_all = result.n_until_verdict == result.n_pulls
        pulls += f" at a cost of {result.cost:,.4g}" if is_all else f" (all {result.n_pulls:,} cost {result.cost:,.4g})"
    if result.best is None:
        return f"No leader yet: {pulls} of {counted(len(result.counts), 'different arm')} {_too_few(result)}."
    leader = _leader(result, numbers=numbers)
    if result.guarantee == "withdrawn":
        return _withdrawn(result, leader, pulls)
    if not result.stopped:
        said = "Not decided." if result.interrupted else f"Not decided ({pulls})."
        return f"{said} {_doubt(result)}" if result.guarantee == "doubtful" else said
    # A name keeps its spelling also where it opens the sentence.
    leader = leader if result.best_name is not None else leader[0].upper() + leader[1:]
    if result.guarantee == "doubtful":
        are = "are" if result.m > 1 else "is"
        return f"{leader} {are} the answer of the {result.rule} rule after {pulls}, in doubt. {_doubt(result)}"
    risk = _RISKS[result.guarantee].format(delta=percent(result.delta), rule=result.rule)
    return f"{leader} {_is_best(result)}, after {pulls}: {risk}."


def _too_few(now: Snapshot) -> str:
    """Say what is missing for a first leader."""
    if now.model == "unstructured":
        return "leave arms that were never measured. Each needs a pull"
    return "cannot show the effect of every feature. More pulls are needed"


def _doubt(result: "Result") -> str:
    """Say why no risk is claimed although the model is not contradicted."""
    return f"A risk of {percent(result.delta)} cannot be claimed: {result.noise_doubt}"


Label = Callable[[Any], str]
"""From an arm to the name that the reader knows."""


def sentences(now: Snapshot, label: Label, *, epsilon_is: str = "epsilon = ", estimates: bool = True) -> list[str]:
    """Say by how much the leader is ahead and, before the end, what stopping now would cost and what is left to do.

    Args:
        now: the snapshot to explain.
        label: names of arms.
        epsilon_is: how the reader sets epsilon.
        estimates: whether to say what is not proved, beside leader and lead.
    """
    if now.best is None or now.guarantee == "withdrawn":
        return []
    if now.stopped:
        return [] if now.rival is None else [_after_the_end(now, label(now.rival))]
    said = [f"{_leaders(now, label)}{_rival(now, label, estimates=estimates)}."]
    if now.hardest is not None and now.hardest != now.rival:
        said.append(f"Hardest to exclude: {label(now.hardest)}.")
    proved = "" if now.guarantee == "doubtful" else f"{_of_proof(now)} so far: {_sure(now)}."
    if cost := stopping_now(now, label(now.leader)):
        proved += f" Stop now: {cost}."
    return [*said, *(_estimated(now, label, proved, epsilon_is) if estimates else [proved])]


def _estimated(now: Snapshot, label: Label, proved: str, epsilon_is: str) -> list[str]:
    """Return the sentences before the end that are not proved, around the one that is."""
    said = [ALL_EQUAL] if math.isinf(now.coarseness) else []
    if likely := estimate_words(now, label):
        said.append(f"Estimate, not a guarantee: {likely}.")
    said.append(proved.strip())
    if further := next_words(now):
        said.append(f"With more measurements {further}.")
    said.append(f"To be sure: {left_to_do(now)}.")
    if near := near_tie(now, label, epsilon_is=epsilon_is):
        said.append(f"Near tie with {near}.")
    return [sentence for sentence in said if sentence]


def facts(now: Snapshot, label: Label, *, epsilon_is: str) -> dict[str, str]:
    """Return the same as short entries, each under a word; arguments as for `sentences`."""
    is_open = not now.stopped
    if now.guarantee == "withdrawn":
        return {"confidence": confidence(now)}
    words = ("leaders" if now.m > 1 else "leader") if is_open else "best"
    if now.best is None:
        return {words: f"none yet: {counted(now.n_pulls, 'pull')} {_too_few(now).partition('.')[0]}"}
    said = {words: joined([label(arm) for arm in now.leaders])}
    if now.rival is not None:
        said |= {"runner-up": label(now.rival), "ahead by": lead_words(now)}
    if now.hardest is not None:
        said["hardest to exclude"] = label(now.hardest)
    if is_open:
        likely = estimate_words(now, label, is_short=True)
        said["estimate"] = f"{likely} (no guarantee)" if likely else ""
        said["in question"] = _in_question(now, label)
        said["with more pulls"] = next_words(now)
    said["confidence" if now.guarantee == "doubtful" else _of_proof(now).lower()] = confidence(now)
    if now.guarantee == "doubtful":
        said["doubt"] = now.noise_doubt
    said["extrapolation"] = far_words(now, label)
    if is_open:
        said |= {"stop now": stopping_now(now, label(now.leader)), "remaining": left_to_do(now)}
        said["near tie"] = near_tie(now, label, epsilon_is=epsilon_is)
    return {word: text for word, text in said.items() if text}


def state_line(now: Snapshot, label: Label) -> str:
    """Say in one line who leads and how sure that is."""
    pulls = counted(now.n_pulls, "pull")
    if now.best is None:
        return f"{pulls}, no leader yet"
    leads = _leaders(now, label).replace("Leader", "leader", 1)
    likely = estimate_words(now, label, is_short=True)
    estimate = f"; estimate: {likely}" if likely else ""
    word = "confidence" if now.guarantee in ("doubtful", "withdrawn") else _of_proof(now).lower()
    return f"{pulls}, {leads}{_rival(now, label)}{estimate}; {word} {confidence(now).replace(';', ',')}"


ALL_EQUAL = "All rewards are equal: there is nothing to compare yet."


def estimate_words(now: Snapshot, label: Label, *, is_short: bool = False) -> str:
    """Say how likely the leader is the best, and what stopping now would lose; "" if nothing can be said.

    Args:
        now: the snapshot to explain.
        label: names of arms.
        is_short: whether leaders and those in question are named elsewhere.
    """
    outlook = now.outlook
    if outlook is None:
        return ""
    are = "is" if now.m == 1 else "are"
    who = "" if is_short else f"{joined([label(arm) for arm in now.leaders])} {are} "
    said = [] if math.isnan(outlook.probability) else [f"{_best(now)} with {about(outlook.probability)}"]
    if now.epsilon > 0.0:
        said.append(f"{_within(now, f'epsilon = {now.epsilon:g}')} with {about(outlook.within)}")
    elif outlook.likely_loss > 0.0 and not outlook.probability >= LIKELY:
        said.append(f"{_within(now, roughly(outlook.likely_loss))} with about 95 %")
    is_small = outlook.loss < TINY_SHARE * now.lead or outlook.loss == 0.0
    loses = f"stopping now loses {'next to nothing' if is_small else f'about {roughly(outlook.loss)}'} on average"
    named = "" if is_short else _in_question(now, label)
    return f"{who}{', '.join(said)}; {loses}" + (f"; in question: {named}" if named else "")


def _best(now: Snapshot) -> str:
    return "best" if now.m == 1 else f"the {now.m} best"


def _within(now: Snapshot, size: str) -> str:
    """Say that the leader, or the last of several, loses at most this."""
    return f"within {size} of the best" + ("" if now.m == 1 else " left out")


def _in_question(now: Snapshot, label: Label) -> str:
    """Name the candidates of which one is the best with about 95 %; "" if only the leaders are left."""
    arms = () if now.outlook is None else now.outlook.in_question
    if len(arms) <= now.m:
        return ""
    n_more = len(arms) - MOST_NAMED
    return joined([label(arm) for arm in arms[:MOST_NAMED]] + ([f"{n_more:,} more"] if n_more > 0 else []))


def next_words(now: Snapshot) -> str:
    """Say what further measurements would buy; "" if nothing can be said."""
    outlook = now.outlook
    if outlook is None or not outlook.ahead or outlook.probability >= SURE:
        return ""
    are = "leader is" if now.m == 1 else "leaders are"
    chances = [about(one.probability) for one in outlook.ahead]
    if len(set(chances)) == 1:
        pulls, losses = joined([str(one.pulls) for one in outlook.ahead]), [roughly(one.loss) for one in outlook.ahead]
        return f"the {are} {_best(now)} with {chances[0]} after {pulls} alike (loses {', '.join(losses)})"
    said = [
        f"{chance} after {one.pulls} (loses {roughly(one.loss)})"
        for chance, one in zip(chances, outlook.ahead, strict=True)
    ]
    return f"the {are} {_best(now)} with {', '.join(said)}"


def about(probability: float) -> str:
    """Return an estimated probability in steps of 5 %."""
    steps = round(20.0 * probability)
    if steps in (0, 20):
        return "less than 5 %" if steps == 0 else "more than 95 %"
    return f"about {5 * steps} %"


def roughly(number: float) -> str:
    """Return an estimated number with two digits."""
    if not number > 0.0:
        return "0"
    places = 1 - math.floor(math.log10(number))
    return f"{round(number, places):,.{max(places, 0)}f}"


def _of_proof(now: Snapshot) -> str:
    """Return the word for the confidence that the rule has reached."""
    return "Proved" if now.guarantee == "proved" else "Confidence"


def _leaders(now: Snapshot, label: Label) -> str:
    names = [label(arm) for arm in now.leaders]
    return f"Leader {names[0]}" if len(names) == 1 else f"Leaders {joined(names)}"


def _rival(now: Snapshot, label: Label, *, estimates: bool = True) -> str:
    """Name the runner-up and the lead over it; "" if there is none."""
    if now.rival is None:
        return ""
    last = f"{label(now.leader)} is " if now.m > 1 else ""
    return f", runner-up {label(now.rival)}: {last}ahead by {lead_words(now, estimates=estimates)}"


def joined(names: Sequence[str]) -> str:
    """Join names in a sentence, such as "A, B and C"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def near_tie(now: Snapshot, label: Label, *, epsilon_is: str) -> str:
    """Name the candidate in a near tie with the leader, and what an epsilon would do; "" if the end is in sight."""
    if now.near_tie is None:
        return ""
    rival, epsilon, more = now.near_tie
    return f"{label(rival)}: with {epsilon_is}{epsilon:g} about {counted(more, 'more pull')}"


def lead_words(now: Snapshot, *, estimates: bool = True) -> str:
    """Say how large the lead is, with its confidence interval; after a verdict that says more than it, the verdict.

    Args:
        now: the snapshot to explain.
        estimates: whether to say in which interval the lead is likely, which is not proved.
    """
    low, high = now.interval
    has_likely = math.isfinite(now.likely_lead[1]) and not now.stopped and estimates
    places = places_of(now.lead, (now.likely_lead[1] if has_likely else high) - now.lead)
    size = fixed(now.lead, places)
    if _says_more(now) and now.lead > 0.0:
        if now.epsilon > 0.0:
            return f"about {size} (estimate); no other is ahead by more than {now.epsilon:g} (verdict)"
        return f"more than 0 (verdict), about {size} (estimate)"
    said = []
    if math.isfinite(high) and (low > -_largest_lead(now) or high < _largest_lead(now)):
        said.append(f"{percent(1.0 - now.delta)}: {between(low, high, places_of(now.lead, high - now.lead))}")
    if has_likely:
        said.append(f"likely {between(*now.likely_lead, places)}")
    return f"{size} ({'; '.join(said)})" if said else size


def _largest_lead(now: Snapshot) -> float:
    """Return the largest difference of two means that the range of rewards allows; inf without a range."""
    return math.inf if now.reward_range is None else now.reward_range[1] - now.reward_range[0]


def _says_more(now: Snapshot) -> bool:
    """Whether a proved verdict says more about the lead than its interval, which also allows for no lead."""
    return now.stopped and now.guarantee in ("proved", "published") and now.interval[0] < -now.epsilon


def stopping_now(now: Snapshot, leader: str) -> str:
    """Say which answer holds if measuring ends now; "" if none does."""
    bound = now.epsilon_bound
    if not math.isfinite(bound) or bound >= _largest_lead(now):
        return ""
    if bound == 0.0:
        best = "they are the best by their" if now.m > 1 else f"{leader} is the best by its"
        return f"{best} intervals, though the {now.rule} rule has not decided"
    half = now.interval[1] - now.lead
    most = _up(bound, places_of(bound, half) if math.isfinite(half) else places_of(bound, bound))
    within = f", which epsilon = {now.epsilon:g} allows" if bound <= now.epsilon else ""
    if now.m > 1:
        return f"none of them is more than {most} below one that is left out{within}"
    return f"{leader} is at most {most} below the best{within}"


def left_to_do(now: Snapshot) -> str:
    """Say about how many pulls are still needed: with a range, or only at least how many if the range is too wide."""
    if not math.isfinite(now.remaining):
        return "more pulls, how many cannot be said yet"
    low, high = now.remaining_low, now.remaining_high
    if not (math.isfinite(low) and math.isfinite(high)):
        return f"about {counted(max(math.ceil(now.remaining), 1), 'more pull')}"
    if high > WIDE * max(low, 1.0):
        return f"at least about {_pulls(low)} more, too early to say how many at most"
    pulls = _pulls(now.remaining)
    return f"about {pulls} more {'pull' if pulls == '1' else 'pulls'} ({_pulls(low)} to {_pulls(high)})"


def _pulls(n: float) -> str:
    """Return an estimated number of pulls with two digits, at least 1."""
    return f"{math.ceil(n):,}" if 0.0 < n < 10.0 else roughly(max(n, 1.0))


def confidence(now: Snapshot) -> str:
    """Say how sure the leader is, in percents that reach 1 - delta only at the end."""
    if now.guarantee == "withdrawn":
        return "withdrawn, the rewards contradict what it rests on"
    if now.guarantee == "doubtful":
        return "in doubt, the noise does not look normal with one level"
    return _sure(now)


def _sure(now: Snapshot) -> str:
    if math.isnan(now.p_value):
        if now.stopped and now.guarantee in ("proved", "published"):
            return percent(1.0 - now.delta)
        return f"{100.0 * now.share:.0f} % of what the {now.rule} rule asks for"
    # Enough decimals to tell 1 - delta from 1, and no rounding up to 1 - delta.
    places = max(0, math.ceil(-math.log10(now.delta) - 1e-9) - 2)
    shown = f"{_down(100.0 * now.confidence, places)} %"
    return shown if now.stopped else f"{shown}; needed {percent(1.0 - now.delta)}"


def label_of(result: "Result") -> Callable[[Any], str]:
    """Return the word for the candidates of a result."""
    kind = "arm" if result.candidates is None else "candidate"

    def label(arm: Any) -> str:
        if result.arm_set:
            return vector_words(arm)
        names = result.compared.names
        if names is not None and result.compared.listed is None:
            return str(names[arm])
        return str(result.best_name) if result.best_name is not None and arm == result.best else f"{kind} {arm}"

    return label


def _after_the_end(now: Snapshot, rival: str) -> str:
    """Name the runner-up. The verdict says that the answer is ahead, even where this interval alone cannot."""
    places = places_of(now.lead, now.interval[1] - now.lead)
    if now.lead <= 0.0:
        behind = f"is ahead of it by {fixed(-now.lead, places)}"
        if now.epsilon > 0.0:
            return f"By their estimates {rival} {behind}, which epsilon = {now.epsilon:g} allows."
        return f"By their estimates {rival}, which was excluded on the way, {behind}."
    it = "The last of them" if now.m > 1 else "It"
    if not _says_more(now):
        return f"{it} is ahead of {rival} by {lead_words(now)}."
    others = "every other" if now.m == 1 else "all that are left out"
    implied = f"{it} is ahead of {others} by more than 0"
    if now.epsilon > 0.0:
        implied = f"No other is ahead of it by more than {now.epsilon:g}"
    return f"{implied}; the estimated lead over {rival} is {fixed(now.lead, places)}. {wide_words(now)}".strip()


def wide_words(now: Snapshot) -> str:
    """Say why the interval of the lead says less than the verdict; "" if it does not."""
    low, high = now.interval
    if not _says_more(now) or not math.isfinite(high):
        return ""
    interval = between(low, high, places_of(now.lead, high - now.lead))
    return (
        f"The interval of this lead ({percent(1.0 - now.delta)}: {interval}) is wider than the verdict needs, because "
        "intervals hold for all arms and all times together."
    )


def unmeasured(result: "Result", *, audit: str = "audit") -> str:
    """Say that the answer was never measured itself, and how to confirm it; "" otherwise.

    Args:
        result: what was found.
        audit: how the reader measures after the verdict.
    """
    if not result.stopped or result.candidates is not None or result.arm_set:
        return ""
    names = [label_of(result)(arm) for arm in result.leaders if not result.counts.get(arm)]
    if not names:
        return ""
    was, its = ("was", "its mean follows") if len(names) == 1 else ("were", "their means follow")
    return (
        f"{joined(names)} {was} never measured: {its} from the features. To confirm that, measure after the verdict "
        f"({audit})."
    )


def _hidden(result: "Result") -> str:
    """Warn that the allowed misfit keeps the rule from ever deciding."""
    if not result.n_undecidable:
        return ""
    return (
        f"The allowed misfit of {result.allowed_misfit:g} could be all of its lead over "
        f"{counted(result.n_undecidable, 'arm')}, which more such pulls will not change: allow for less, accept "
        "an epsilon, or add features."
    )


def _bears(result: "Result") -> str:
    """Say how much misfit the answer bears, if that is known and finite (inf: the answer needed no model)."""
    margin = result.misfit_margin if result.stopped else None
    if margin is None or margin == math.inf:
        return ""
    return f"The answer stands if no arm's mean is off its linear fit by more than {margin:.3g}."


def far_words(now: Snapshot, label: Label) -> str:
    """Say that the lead is an extrapolation, and how to confirm it; "" if it is none."""
    if not now.far_share or now.rival is None:
        return ""
    return (
        f"{100 * now.far_share:.0f} % of the estimated lead rests on cheaper arms far below {label(now.leader)}. If "
        "means bend near the top, these arms do not show it: measure the leader and the runner-up as well."
    )


REPEATS_ADVICE = "Measure anew each time. If measurements have no noise at all, give noise_std, such as half a digit."


def _withdrawn(result: "Result", leader: str, pulls: str) -> str:
    were, lead = ("were", "lead") if result.m > 1 else ("was", "leads")
    claimed = f"{were} to be the answer after {pulls}" if result.stopped else f"{lead} after {pulls}"
    refused = f"No answer can be defended: {leader} {claimed}, but"
    if result.repeated:
        return f"{refused} {result.misfit} {REPEATS_ADVICE}"
    if not result.noise_contradicted:
        why = f"the rewards contradict a mean that is linear in the features. {result.misfit}"
        if looks_pass_fail(result):
            return f'{refused} the rewards are all 0 or 1, so their noise is not normal: use rewards="binary".'
        again = "If not, repeat" if result.misfit.endswith(IF_SLIP) else "Repeat"
        advice = f"{again} with features that describe the rewards better"
        if result.arms.listed is None and len(result.arms) <= FEW_ARMS:
            advice += ', or without features: model="unstructured"'
        return f"{refused} {why} {advice}."
    if isinstance(result.given_noise_std, np.ndarray):
        why, cure = "times the noise_std that was given for the arms.", "with larger noise_std"
    else:
        why, cure = f"where noise_std = {result.given_noise_std:g} was given.", "without noise_std"
    why = f"the rewards scatter around the fit by {result.noise_std:.3g} {why} {result.misfit}".rstrip()  # or a slip
    return f"{refused} {why} Repeat {cure}, or with features that describe the rewards better."


def looks_pass_fail(result: "Result") -> bool:
    """Return whether rewards are all 0 or 1 where their noise was taken for normal."""
    is_default = result.given_noise_std is None and result.reward_range is None
    return is_default and looks_binary([reward for _, reward in result.history])


def coarse(step: float, noise_std: float) -> str:
    """Say what readings that are coarser than their noise can and cannot show, and how to do better."""
    if math.isinf(step):
        return f"{ALL_EQUAL} Record more digits."
    return (
        f"The readings lie on steps of {step:.3g}, and their noise ({noise_std:.3g}) is smaller than that. Only "
        "differences that rounding cannot explain count as evidence. Record more digits, accept a difference of "
        f"{step:.3g} (epsilon), or give reward_range where rewards are counts or grades."
    )


def _leader(result: "Result", *, numbers: bool) -> str:
    if result.arm_set:
        return f"arm {vector_words(result.best)}"
    if result.m > 1:
        return joined([label_of(result)(arm) for arm in result.best])
    kind = "arm" if result.candidates is None else "candidate"
    if result.best_name is None:
        return f"{kind} {result.best}"
    # In a later era, which a study begins with all it knows, users do not know the learner's own row numbers.
    is_later = result.earlier != "evidence" and any(event[3:] == ("none",) for event in result.history.log[1:2])
    has_number = not is_later and (numbers or kind == "candidate")
    return f"{result.best_name} ({kind} {result.best})" if has_number else str(result.best_name)


def vector_words(arm: Any) -> str:
    """Return a vector as people read it: four digits of its first entries."""
    entries = [f"{entry:.4g}" for entry in arm[:6]]
    return f"({', '.join(entries)}{', ...' if len(arm) > len(entries) else ''})"


def _is_best(result: "Result") -> str:
    if result.arm_set:
        total = result.arm_set
    elif result.arms.listed is not None:
        total = "all arms"
    else:
        total = f"{len(result.arms):,} arms" if result.candidates is None else f"{len(result.candidates):,} candidates"
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
    """Warn of an answer that rests on normal noise and came before the shape of the noise could show."""
    n = result.n_residuals
    if n is None or n >= FEW_RESIDUALS or not result.stopped:
        return ""
    if n == 0:
        return "The law of the noise is not tested: rare large values would not have shown."
    return f"Whether it does cannot be seen from {counted(n, 'residual')}: rare large values would not have shown."


def _mean(result: "Result") -> str:
    """Name the assumption about the means; "" if there is none."""
    if result.model != "linear":
        return ""
    if result.allowed_misfit > 0.0:
        return (
            f"the mean reward of every arm is within {result.allowed_misfit:g} of one that is linear in the features,"
        )
    return "the mean reward is linear in the features"


def _noise(result: "Result", *, seen: bool) -> str:
    """Name the assumption about the noise, with the level that the data show if `seen`."""
    return noise_of(result).assumption(result.noise_law, result.noise_std if seen else math.nan)


def noise_of(result: "Result") -> NoiseModel:
    """Return the noise model of a result; if its fields do not spell it, one that says its law and no more."""
    if result.noise not in NAMED or takes_scale(result.noise):
        own = Symmetric()
        own.unwatched = f'by the model "{result.noise}"'
        return own
    given = result.given_noise_std if result.reward_range is None else None
    return noise_model(result.noise, given, result.reward_range)


def _checked(result: "Result") -> str:
    """Say how the model of the means was checked; "" without a model."""
    if result.model != "linear":
        return ""
    if noise_of(result).needs_bets:
        return f"With noise {noise_of(result).unwatched}, the model is not watched."
    if result.allowed_misfit > 0.0:
        seen = f"The rewards contradict an exactly linear mean, as was allowed for. {result.misfit}"
        return seen if result.misfit else ""
    return _CHECKS[result.model_check].format(n=counted(result.n_checks, "check pull"))


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
    options = f"The {result.rule} rule, delta = {result.delta:g} and epsilon = {result.epsilon:g}"
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
    if mean := _mean(result):
        watched = f"Contradicted. {result.misfit}" if result.model_check == "contradicted" else "Not contradicted."
        listed.insert(0, (_sentence(mean.rstrip(",")), _checked(result) or watched))
    return [Assumption(*one) for one in listed]


def _n_unsolicited(result: "Result") -> int:
    """Return how many results answered no ask."""
    pending, n = Counter[Any](), 0
    for kind, *said in result.history.log:
        if kind == "ask":
            pending.update(said[0])
        elif kind in ("tell", "fail"):
            is_answer = said[-1] != "none" and pending[said[0]] > 0
            pending[said[0]] -= is_answer
            n += not is_answer
    return n


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
        f"Nothing in {counted(result.n_residuals, 'residual')} speaks against a normal law with one level; values that "
        f"come less than once in {often:,} measurements need not have shown."
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def counted(n: int, noun: str) -> str:
    """Return a number with its noun, such as "1 pull" or "2,000 pulls"."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def percent(probability: float) -> str:
    """Return a probability in percents; beside a risk of 1e-9 these say less than the number itself."""
    if 1e-4 <= probability <= 1.0 - 1e-4:
        return f"{100.0 * probability:.4g} %"
    return f"{probability:.12g}"


def places_of(value: float, width: float) -> int:
    """Return how many decimals show two digits of the width, and one of the value unless it is much smaller."""

    def needed(number: float, digits: int) -> int:
        return digits - 1 - math.floor(math.log10(abs(number))) if number and math.isfinite(number) else -99

    of_width = needed(width, 2) if math.isfinite(width) else needed(value, 3)
    return min(max(of_width, min(needed(value, 1), of_width + 2), 0), 12)


def between(low: float, high: float, places: int) -> str:
    """Return an interval with this many decimals, rounded outwards; "" if it is not bounded."""
    return f"{_down(low, places)} to {_up(high, places)}" if math.isfinite(low) and math.isfinite(high) else ""


def fixed(number: float, places: int) -> str:
    """Return a number with this many decimals."""
    text = f"{number:.{places}f}"
    return text.removeprefix("-") if float(text) == 0.0 else text  # no minus before nothing


def _down(number: float, places: int) -> str:
    """Return a lower bound with this many decimals, not above it."""
    scale = 10.0**places
    return fixed(math.floor(number * scale + 1e-9) / scale, places)


def _up(number: float, places: int) -> str:
    """Return an upper bound with this many decimals, not below it."""
    scale = 10.0**places
    return fixed(math.ceil(number * scale - 1e-9) / scale, places)
