"""Where an identification stands, in plain words: who leads, by how much, how sure that is, how much is left to do.

Every sentence states a fact at confidence 1 - delta, or calls its number an estimate, and no two sentences contradict
each other. Programs get evidence in nats; people get percents.
"""

import math

from surepick._texts import (
    about,
    between,
    counted,
    fixed,
    joined,
    percent,
    places_of,
    roughly,
    rounded_down,
    rounded_up,
)
from surepick.learning import calls
from surepick.learning.calls import Label, named
from surepick.learning.snapshot import Snapshot

# A range of remaining pulls says nothing at most if its ends are this factor apart.
WIDE = 20.0
# An estimated loss is next to nothing below this share of the lead.
TINY_SHARE = 0.01
# From this estimated probability on, "about 95 %", the loss that is not exceeded with 95 % is next to 0.
LIKELY = 0.925
# From this estimated probability on, further measurements are for the proof alone.
SURE = 0.975
ALL_EQUAL = "All rewards are equal: there is nothing to compare yet."


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
    if now.calls is not None:
        return calls.sentences(now, label, left_to_do(now) if estimates else "")
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
    if now.calls is not None and now.best is not None:
        return calls.facts(now, label, confidence(now), left_to_do(now))
    words = ("leaders" if now.m > 1 else "leader") if is_open else "best"
    if now.best is None:
        return {words: f"none yet: {counted(now.n_pulls, 'pull')} {too_few(now).partition('.')[0]}"}
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
    if now.calls is not None:
        return f"{pulls}, {calls.tally(now, label)}"
    leads = _leaders(now, label).replace("Leader", "leader", 1)
    likely = estimate_words(now, label, is_short=True)
    estimate = f"; estimate: {likely}" if likely else ""
    word = "confidence" if now.guarantee in ("doubtful", "withdrawn") else _of_proof(now).lower()
    return f"{pulls}, {leads}{_rival(now, label)}{estimate}; {word} {confidence(now).replace(';', ',')}"


def _leaders(now: Snapshot, label: Label) -> str:
    names = [label(arm) for arm in now.leaders]
    return f"Leader {names[0]}" if len(names) == 1 else f"Leaders {joined(names)}"


def _rival(now: Snapshot, label: Label, *, estimates: bool = True) -> str:
    """Name the runner-up and the lead over it; "" if there is none."""
    if now.rival is None:
        return ""
    if now.lead < 0.0:  # while a block is open
        it = "it" if now.m == 1 else label(now.leader)
        return f"; by estimate {label(now.rival)} is ahead of {it} by {_size_words(now, -1.0, estimates=estimates)}"
    last = f"{label(now.leader)} is " if now.m > 1 else ""
    return f", runner-up {label(now.rival)}: {last}ahead by {lead_words(now, estimates=estimates)}"


def lead_words(now: Snapshot, *, estimates: bool = True) -> str:
    """Say how large the lead is, with its confidence interval; after a verdict that says more than it, the verdict.

    Args:
        now: the snapshot to explain.
        estimates: whether to say in which interval the lead is likely, which is not proved.
    """
    if _says_more(now) and now.lead > 0.0:
        size = fixed(now.lead, places_of(now.lead, now.interval[1] - now.lead))
        if now.epsilon > 0.0:
            return f"about {size} (estimate); no other is ahead by more than {now.epsilon:g} (verdict)"
        return f"more than 0 (verdict), about {size} (estimate)"
    return _size_words(now, 1.0, estimates=estimates)


def _size_words(now: Snapshot, sign: float, *, estimates: bool) -> str:
    """Return the lead with its intervals, as the leader has it (sign 1) or the runner-up (-1)."""
    lead, (low, high) = sign * now.lead, sorted(sign * end for end in now.interval)
    likely_low, likely_high = sorted(sign * end for end in now.likely_lead)
    has_likely = math.isfinite(likely_high) and not now.stopped and estimates
    places = places_of(lead, (likely_high if has_likely else high) - lead)
    said = []
    if math.isfinite(high) and (low > -_largest_lead(now) or high < _largest_lead(now)):
        said.append(f"{percent(1.0 - now.delta)}: {between(low, high, places_of(lead, high - lead))}")
    if has_likely:
        said.append(f"likely {between(likely_low, likely_high, places)}")
    size = fixed(lead, places)
    return f"{size} ({'; '.join(said)})" if said else size


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


def _largest_lead(now: Snapshot) -> float:
    """Return the largest difference of two means that the range of rewards allows; inf without a range."""
    return math.inf if now.reward_range is None else now.reward_range[1] - now.reward_range[0]


def _says_more(now: Snapshot) -> bool:
    """Whether a proved verdict says more about the lead than its interval, which also allows for no lead."""
    return now.stopped and now.guarantee in ("proved", "published") and now.interval[0] < -now.epsilon


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


def too_few(now: Snapshot) -> str:
    """Say what is missing for a first leader."""
    if now.model == "unstructured":
        return "leave arms that were never measured. Each needs a pull"
    return "cannot show the effect of every feature. More pulls are needed"


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
    return joined(named(arms, label)) if len(arms) > now.m else ""


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


def stopping_now(now: Snapshot, leader: str) -> str:
    """Say which answer holds if measuring ends now; "" if none does."""
    bound = now.epsilon_bound
    if not math.isfinite(bound) or bound >= _largest_lead(now):
        return ""
    if bound == 0.0:
        best = "they are the best by their" if now.m > 1 else f"{leader} is the best by its"
        return f"{best} intervals, though the {now.rule} rule has not decided"
    half = now.interval[1] - now.lead
    most = rounded_up(bound, places_of(bound, half) if math.isfinite(half) else places_of(bound, bound))
    within = f", which epsilon = {now.epsilon:g} allows" if bound <= now.epsilon else ""
    if now.m > 1:
        return f"none of them is more than {most} below one that is left out{within}"
    return f"{leader} is at most {most} below the best{within}"


def left_to_do(now: Snapshot) -> str:
    """Say about how many pulls are still needed: with a range, or only at least how many if the range is too wide."""
    if not math.isfinite(now.remaining):
        return "more pulls, how many cannot be said yet"
    low, high = now.remaining_low, now.remaining_high
    if now.pool is not None and low == high:  # a pool ends with its last item
        return f"at most {counted(math.ceil(high), 'more pull')}, and then every score is known"
    if not (math.isfinite(low) and math.isfinite(high)):
        return f"about {counted(max(math.ceil(now.remaining), 1), 'more pull')}"
    if high > WIDE * max(low, 1.0):
        return f"at least about {pulls_left(low)} more, too early to say how many at most"
    pulls = pulls_left(now.remaining)
    about = f"about {pulls} more {'pull' if pulls == '1' else 'pulls'}"
    # The rest of the open block is measured in any case, and may be more than the whole range.
    return about if low == high else f"{about} ({pulls_left(low)} to {pulls_left(high)})"


def pulls_left(n: float) -> str:
    """Return an estimated number of pulls with two digits, at least 1."""
    return f"{math.ceil(n):,}" if 0.0 < n < 10.0 else roughly(max(n, 1.0))


def near_tie(now: Snapshot, label: Label, *, epsilon_is: str) -> str:
    """Name the candidate in a near tie with the leader, and what an epsilon would do; "" if the end is in sight."""
    if now.near_tie is None:
        return ""
    rival, epsilon, more = now.near_tie
    return f"{label(rival)}: with {epsilon_is}{epsilon:g} about {counted(more, 'more pull')}"


def far_words(now: Snapshot, label: Label) -> str:
    """Say that the lead is an extrapolation, and how to confirm it; "" if it is none."""
    if not now.far_share or now.rival is None:
        return ""
    return (
        f"{100 * now.far_share:.0f} % of the estimated lead rests on cheaper arms far below {label(now.leader)}. If "
        "means bend near the top, these arms do not show it: measure the leader and the runner-up as well."
    )


def confidence(now: Snapshot) -> str:
    """Say how sure the leader is, in percents that reach 1 - delta only at the end."""
    if now.guarantee == "withdrawn":
        return "withdrawn, the rewards contradict its assumptions"
    if now.guarantee == "doubtful":
        return "in doubt, the noise does not look normal with one level"
    return _sure(now)


def _of_proof(now: Snapshot) -> str:
    """Return the word for the confidence that the rule has reached."""
    return "Proved" if now.guarantee == "proved" and not now.is_foreign_rule else "Confidence"


def rule_words(now: Snapshot) -> str:
    """Name the rule; a claim of a rule that surepick does not have is what its class says."""
    says_so = now.is_foreign_rule and now.guarantee != "none"
    return f"{now.rule} rule" + (", as its class says; surepick has not checked the proof" if says_so else "")


def _sure(now: Snapshot) -> str:
    if math.isnan(now.p_value):
        if now.stopped and now.guarantee in ("proved", "published"):
            return percent(1.0 - now.delta)
        return f"{100.0 * now.share:.0f} % of what the {now.rule} rule asks for"
    # Enough decimals to tell 1 - delta from 1, and no rounding up to 1 - delta.
    places = max(0, math.ceil(-math.log10(now.delta) - 1e-9) - 2)
    shown = f"{rounded_down(100.0 * now.confidence, places)} %"
    return shown if now.stopped else f"{shown}; needed {percent(1.0 - now.delta)}"
