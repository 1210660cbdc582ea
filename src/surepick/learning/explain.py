"""The verdict of a result in plain words, for `explain`, studies, pages and certificates.

`surepick.learning.progress` has the sentences about leader and lead, `surepick.learning.assumptions` those about what
the answer rests on.

The sentences of `verdict` and `explain` are part of certificates. If their words change, certificates of earlier
versions can be checked by those versions only.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from surepick._texts import counted, joined, percent, vector_words
from surepick.arms.base import same_features
from surepick.learning import calls
from surepick.learning.assumptions import REPEATS_ADVICE, assumed
from surepick.learning.calls import Label, named
from surepick.learning.groups import label_text
from surepick.learning.model import DRIFTS, IF_GROUP, IF_SLIP
from surepick.learning.noise_models import looks_binary
from surepick.learning.progress import far_words, rule_words, sentences, too_few
from surepick.types import Guarantee

if TYPE_CHECKING:
    from surepick.learning.result import Result

# Up to this many arms, each can be measured by itself, without a model.
FEW_ARMS = 50
_RISKS: Mapping[Guarantee, str] = {
    "proved": "the probability of a wrong answer is at most {delta} (proved, {rule})",
    "published": "the probability of a wrong answer is at most {delta} by a published proof ({rule})",
    "heuristic": ("the probability of a wrong answer should be at most about {delta}, but that is not proved ({rule})"),
    "none": "without any guarantee ({rule})",
}


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
    said += [_survivors(result), _hidden(result), groups_of_one(result)]
    if result.guarantee != "doubtful":
        said += [assumed(result), _bears(result), far_words(result, label_of(result)), _of_vectors(result)]
    return start + " ".join(filter(None, said))


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
        cost = f", which cost {result.cost:,.4g}," if result.has_costs else ""
        measured = f"{counted(result.n_pulls, 'pull')} of {counted(len(result.counts), 'arm')}{cost}"
        return f"No leader yet: {measured} {too_few(result)}."
    if result.guarantee == "withdrawn":
        return _withdrawn(result, numbers=numbers, pulls=pulls)
    if result.calls is not None:
        doubt = _doubt(result) if result.guarantee == "doubtful" else ""
        return calls.verdict(result, label_of(result), pulls, doubt)
    leader = _leader(result, numbers=numbers)
    # A name keeps its spelling also where it opens the sentence.
    leader = leader if result.best_name is not None else leader[0].upper() + leader[1:]
    if not result.stopped:
        said = "Not decided." if result.interrupted else f"Not decided ({pulls})."
        if result.goal == "fixed-budget":
            said = f"{leader} has the best estimate, not proved ({pulls} of a fixed budget)."
        return f"{said} {_doubt(result)}" if result.guarantee == "doubtful" else said
    if result.guarantee == "doubtful":
        are = "are" if result.m > 1 else "is"
        return f"{leader} {are} the answer of the {result.rule} rule after {pulls}, in doubt. {_doubt(result)}"
    risk = _RISKS[result.guarantee].format(delta=percent(result.delta), rule=rule_words(result))
    return f"{leader} {_is_best(result)}, after {pulls}: {risk}."


def _doubt(result: "Result") -> str:
    """Say why no risk is claimed although the model is not contradicted."""
    return f"A risk of {percent(result.delta)} cannot be claimed: {result.noise_doubt}"


def _withdrawn(result: "Result", *, numbers: bool, pulls: str) -> str:
    if result.calls is not None:
        refused = f"No call can be defended after {pulls}:"
    else:
        were, lead = ("were", "lead") if result.m > 1 else ("was", "leads")
        claimed = f"{were} to be the answer after {pulls}" if result.stopped else f"{lead} after {pulls}"
        refused = f"No answer can be defended: {_leader(result, numbers=numbers)} {claimed}, but"
    if result.repeated:
        return f"{refused} {result.misfit} {REPEATS_ADVICE}"
    if result.misfit.endswith(IF_GROUP):
        return f"{refused} the rewards of some groups read high or low as a whole. {result.misfit}"
    if result.misfit == DRIFTS:
        return f"{refused} {DRIFTS[0].lower()}{DRIFTS[1:]}"
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
    pool = f" on the {result.pool:,} items of the pool" if result.pool is not None else ""
    return f"is the best of {total}{pool}{slack}"


def label_of(result: "Result") -> Label:
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


def _alike(result: "Result") -> str:
    """Name the arms with the features of the answer, and say whether other arms share features."""
    rows = result.compared
    own = () if result.arm_set or result.m > 1 or result.calls is not None else rows.group_of(result.best)
    n_others = len(rows.alike) - (len(own) > 1)
    said = []
    if len(own) > 1:
        either = "either" if len(own) == 2 else "any"
        said.append(f"{same_features(named(own, label_of(result)))}: the answer is {either} of them.")
    if n_others:
        has = "has" if n_others == 1 else "have"
        said.append(f"{counted(n_others, 'other group')} of arms {has} the same features too.")
    return " ".join(said)


def unmeasured(result: "Result", *, audit: str = "audit") -> str:
    """Say that the answer was never measured itself, and how to confirm it; "" otherwise.

    Args:
        result: what was found.
        audit: how the reader measures after the verdict.
    """
    if not result.stopped or result.candidates is not None or result.arm_set:
        return ""
    arms = [arm for arm in result.leaders if not result.counts.get(arm)]
    if not arms:
        return ""
    was, its = ("was", "its mean follows") if len(arms) == 1 else ("were", "their means follow")
    names = joined(named(arms, label_of(result)))
    return (
        f"{names} {was} never measured: {its} from the features. To confirm that, measure after the verdict ({audit})."
    )


def _survivors(result: "Result") -> str:
    """Name the survivors, if some candidates are excluded before the verdict."""
    left, n_compared = result.survivors, len(result.compared)
    if result.stopped or left is None or len(left) == n_compared or result.calls is not None:
        return ""
    who = "the best is" if result.m == 1 else f"the {result.m} best are"
    among = f"{who} among them at {percent(1.0 - result.delta)} confidence"
    return f"Not excluded: {joined(named(left, label_of(result)))}, {len(left):,} of {n_compared:,}; {among}."


def _hidden(result: "Result") -> str:
    """Warn that the allowed misfit keeps the rule from ever deciding."""
    if not result.n_undecidable:
        return ""
    return (
        f"The allowed misfit of {result.allowed_misfit:g} could be all of its lead over "
        f"{counted(result.n_undecidable, 'arm')}, which more such pulls will not change: allow for less, accept "
        "an epsilon, or add features."
    )


def groups_of_one(result: "Result") -> str:
    """Name the groups in which a single arm was measured: where groups have offsets, these compare nothing."""
    alone = [label_text(one.label) for one in result.groups if one.note.startswith("Only")]
    if not alone:
        return ""
    each, it = ("", "it") if len(alone) == 1 else ("each ", "they")
    return (
        f"Only one arm was measured {each}in {joined(alone)}, so {it} could not compare arms; measure at least two "
        "arms in every group."
    )


def _bears(result: "Result") -> str:
    """Say how much misfit the answer bears, if that is known and finite (inf: the answer needed no model)."""
    margin = result.misfit_margin if result.stopped else None
    if margin is None or margin == math.inf:
        return ""
    return f"The answer stands if no arm's mean is off its linear fit by more than {margin:.3g}."


def _of_vectors(result: "Result") -> str:
    if not result.arm_set:
        return ""
    bound = "" if result.exact else " The evidence is a lower bound, so a stop may come late but never early."
    fewest = "That the pulls are close to the fewest possible in the long run is proved for finite sets only."
    return fewest + bound
