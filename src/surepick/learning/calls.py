"""Calls in plain words: which arms meet a threshold, or are better than a control, which do not, and which are open.

The sentences of `verdict` and `sentences` are part of certificates, as those of `surepick.learning.explain` are.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, get_args

from surepick._texts import counted, joined, percent
from surepick.learning.snapshot import Call, Snapshot
from surepick.types import IntArray

# A sentence names at most this many arms.
MOST_NAMED = 10
Label = Callable[[Any], str]
"""From an arm to the name that the reader knows."""
_IS_OPEN = ("is open", "are open")


def named(arms: Sequence[Any] | IntArray, label: Label) -> list[str]:
    """Return the names of the first arms, and how many more there are."""
    n_more = len(arms) - MOST_NAMED
    return [label(arm) for arm in arms[:MOST_NAMED]] + ([f"{n_more:,} more"] if n_more > 0 else [])


def arms_called(now: Snapshot, call: Call) -> list[Any]:
    """Return the arms with this call, those that are met in the order of their estimates."""
    if call == "met":
        return list(now.leaders)
    return [arm for arm, said in (now.calls or {}).items() if said == call]


def tally(now: Snapshot, label: Label) -> str:
    """Say how many arms meet the target, how many do not and how many are open."""
    assert now.calls is not None
    counts = Counter(now.calls.values())
    one, several, not_one, not_several = _verbs(now, label)
    n_met, n_failed, n_open = counts["met"], counts["failed"], counts["open"]
    said = [f"{n_met:,} of {counted(len(now.calls), 'arm')} {one if n_met == 1 else several}"]
    if n_failed:
        said.append(f"{n_failed:,} {not_one if n_failed == 1 else not_several}")
    if n_open:
        said.append(f"{n_open:,} {_IS_OPEN[n_open != 1]}")
    return ", ".join(said)


def _verbs(now: Snapshot, label: Label) -> tuple[str, str, str, str]:
    """Return what one arm does, what several do, and the same of those that do not."""
    target = now.specification
    assert target is not None
    if target.control is None:
        return f"meets {target.value:g}", f"meet {target.value:g}", "does not", "do not"
    control = label(target.control)
    how = f"at most {-target.value:g} below {control}" if target.value else f"better than {control}"
    return f"is {how}", f"are {how}", "is not", "are not"


def target_words(now: Snapshot, label: Label) -> str:
    """Say what several arms do that meet the target."""
    return _verbs(now, label)[1]


def risk(now: Snapshot) -> str:
    """Say what the accepted risk is about, as the end of a sentence."""
    assert now.specification is not None
    wrong = f"off by more than {now.epsilon:g}" if now.epsilon > 0.0 else "wrong"
    if now.specification.calls == "fdr":
        share = percent(now.delta)
        return f"on average at most {share} of the arms called met, and {share} of those called failed, are {wrong}"
    return f"the probability that any call is {wrong} is at most {percent(now.delta)}"


def verdict(now: Snapshot, label: Label, pulls: str, doubt: str) -> str:
    """Say in a sentence or two what is called, and how sure that is.

    Args:
        now: what was found; not withdrawn.
        label: names of arms.
        pulls: how many pulls there were.
        doubt: why no risk is claimed; "" if one is.
    """
    if not now.stopped:
        return f"Not decided ({pulls}). {doubt}".rstrip()
    if doubt:
        return f"{tally(now, label)}, by the {now.rule} rule after {pulls}, in doubt. {doubt}"
    by = f"{now.rule} rule, as its class says" if now.is_foreign_rule else f"{now.rule} rule"
    claimed = f"proved, {by}" if now.guarantee == "proved" else by
    return f"{tally(now, label)}, after {pulls}: {risk(now)} ({claimed})."


def sentences(now: Snapshot, label: Label, left_to_do: str) -> list[str]:
    """Name the arms that are called, and before the end what is open and what is left to do.

    Args:
        now: what was found; not withdrawn.
        label: names of arms.
        left_to_do: about how many pulls are needed, an estimate; "" leaves that out.
    """
    met, failed, is_open = (arms_called(now, call) for call in get_args(Call))
    said = [] if now.stopped else [f"So far {tally(now, label)}."]
    if met:
        said.append(f"Met: {joined(named(met, label))}.")
    if failed and not is_open:
        return [*said, f"Failed: {joined(named(failed, label))}."] if met else said
    if now.stopped:
        return said
    said.append(f"Open: {joined(named(is_open, label))}{_hardest(now, label, is_open)}.")
    if now.guarantee == "proved" and (met or failed):
        says = ", as the class of the rule says" if now.is_foreign_rule else ""
        said.append(f"Calls so far are proved{says}: {risk(now)}, whenever you stop.")
    return [*said, f"To call all of them: {left_to_do}."] if left_to_do else said


def _hardest(now: Snapshot, label: Label, is_open: Sequence[Any]) -> str:
    return f"; hardest to call: {label(now.hardest)}" if now.hardest is not None and len(is_open) > 1 else ""


def facts(now: Snapshot, label: Label, confidence: str, left_to_do: str) -> dict[str, str]:
    """Return the same as short entries, each under a word."""
    called = {call: named(arms_called(now, call), label) for call in get_args(Call)}
    said = {call: joined(names) for call, names in called.items() if names}
    if not now.stopped and now.hardest is not None:
        said["hardest to call"] = label(now.hardest)
    if now.guarantee == "doubtful":
        said |= {"confidence": confidence, "doubt": now.noise_doubt}
    else:
        said["proved"] = f"{tally(now, label)}; {risk(now)}"
    if not now.stopped and math.isfinite(now.remaining):
        said["remaining"] = left_to_do
    return {word: text for word, text in said.items() if text}
