"""Reopening a study: what a change keeps as evidence, and why other changes make all results guidance.

Evidence is kept where docs/guarantee.md proves that it may be (Theorem 9). Everything else begins a new proof, which
the results so far guide (Theorem 8).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from surepick._texts import counted, joined
from surepick.errors import CorruptLog
from surepick.study.eras import Era, changed_names, era_after, needs_order

if TYPE_CHECKING:
    from surepick.study.state import State

KEEPS = ("budget", "batch", "rounds", "goal", "delta", "costs", "seed", "algorithm", "own", "epsilon")
"""Options that can change without a change of what the bets so far have claimed; `epsilon` if it was 0, `delta` if it
does not grow."""


@final
@dataclass(frozen=True, slots=True)
class ReopenPreview:
    """What a study keeps if it is reopened with some changes."""

    n_evidence: int
    """Results that stay evidence: the proof goes on from them."""
    n_guidance: int
    """Results that guide plans and bets and are no evidence."""
    n_unused: int
    """Results of arms that retire; they stay in the log. Those that are evidence stay evidence."""
    why: str
    """Why nothing stays evidence; "" if something does."""
    risk: float
    """Probability that any verdict of any era is wrong, at most."""
    allows: str = ""
    """What the budget allows from then on, such as "23 more pulls"; "" without a budget."""

    def __str__(self) -> str:
        if self.n_evidence:
            others = f"; {counted(self.n_guidance, 'other result')} as guidance" if self.n_guidance else ""
            said = f"This keeps {counted(self.n_evidence, 'result')} as evidence{others}."
        elif self.n_guidance:
            said = (
                f"This keeps {counted(self.n_guidance, 'result')} as guidance (plans and bets use them; the proof "
                f"starts anew), because {self.why}."
            )
        else:
            said = "There are no results to keep."
        unused = f" The log keeps {counted(self.n_unused, 'result')} of arms that retire." if self.n_unused else ""
        allows = f" The budget allows {self.allows}." if self.allows else ""
        return f"{said}{unused}{allows} Risk of all eras together: {self.risk:.6g}."


def propose(state: "State", changes: Mapping[str, Any], *, keeps: bool = True) -> tuple[Era, ReopenPreview]:
    """Return the era that would begin with these changes, and what it keeps.

    Args:
        state: of the study, which does not change.
        changes: arms that join and retire, and all options.
        keeps: whether to keep evidence where there is a proof; else the proof starts anew in any case.

    Raises:
        InvalidInput: the era cannot begin with these changes.
    """
    era, n_evidence = era_after(state, changes), state.now.n_evidence
    if era.learner.rule.begins_eras:
        going_on = era._replace(before=state.now)
        why = _why_guidance(state, going_on, changes) if keeps else "it was asked for"
        era = era if why else _gone_on(going_on)
    else:  # every result is evidence, or none
        why = "earlier results are no evidence in this study" if era.learner.state.is_guided else ""
    n_evidence = 0 if why else n_evidence
    results = [one for one in state.measurements if one.value is not None]
    n_unused = sum(not era.catalog.is_present(one.arm) for one in results)
    n_guidance = len(results) - n_unused if why else max(len(results) - n_evidence, 0)
    events = [*state.eras, {**changes, **({} if why else {"kept": n_evidence})}]
    return era, ReopenPreview(n_evidence, n_guidance, n_unused, why, risk_of(events, era), _allowed(era))


def _allowed(era: Era) -> str:
    budget = era.options["budget"]
    if (rounds := era.options.get("rounds")) is not None:
        return f"{counted(rounds, 'more batch', 'more batches')} of {era.options['batch']:,}"
    if budget is None:
        return ""
    if era.options["costs"] is not None:
        return f"a further cost of {budget:,.4g}"
    return counted(math.floor(budget), "more pull")


def follow(state: "State", event: Mapping[str, Any]) -> Era:
    """Return the era that an event begins.

    Raises:
        InvalidInput: the era cannot begin like this.
        CorruptLog: it keeps evidence that says nothing about its claim.
    """
    era = era_after(state, event)
    if "kept" not in event:
        return era
    going_on = era._replace(before=state.now)
    if why := _other_claim(state, going_on, event):
        raise CorruptLog(f"event {event['n']} keeps evidence that has no proof there: {why}.")
    return _gone_on(going_on)


def _gone_on(era: Era) -> Era:
    era.learner.state.go_on(era.start)
    return era


def _why_guidance(state: "State", era: Era, changes: Mapping[str, Any]) -> str:
    """Return why no result of before is evidence in an era; "" if the evidence goes on."""
    changed = changed_names(state.options, era.options)
    if needs_order(era.options) and "seed" in changed:  # every era has its own
        changed.remove("seed")
    if not (changed or changes["joined"] or changes["retired"]):
        return "nothing changes, so the new era is a repetition"
    if state.learner.decision.guarantee in ("withdrawn", "doubtful"):
        return "they contradict an assumption of the proof"
    return _other_claim(state, era, changes) or why_not_now(state, era)


def _other_claim(state: "State", era: Era, changes: Mapping[str, Any]) -> str:
    """Return why evidence so far says nothing about the claim of an era; "" if it does."""
    return next(_other_claims(state, era, changes), "")


def _other_claims(state: "State", era: Era, changes: Mapping[str, Any]) -> Iterator[str]:
    before, now, changed = state.options, era.options, changed_names(state.options, era.options)
    if not era.learner.rule.begins_eras or era.learner.rule != state.learner.rule:
        yield "another stopping rule has evidence of another kind"
    if era.learner.task.target is not None:
        if changes["joined"] or changes["retired"] or {*changed} - {"budget", "costs", "seed"}:
            yield "the calls so far are of these arms, against this target, at this risk"
        return
    if "m" in changed:
        yield f"the evidence is about {_sought(before['m'])}, and {_sought(now['m'])} is another claim"
    if era.learner.has_sets != state.learner.has_sets:
        yield "other accounts have evidence of another kind"
    if now["delta"] > before["delta"]:
        yield "a larger delta that is chosen after a look has no bound on the risk of all eras"
    if before["epsilon"] > 0.0 and "epsilon" in changed:
        yield f"the bets so far allowed for a loss of {before['epsilon']:g}"
    if before["epsilon"] > 0.0 and (changes["joined"] or changes["retired"]) and era.catalog.candidates is None:
        yield "with an epsilon, evidence has a proof only while the arms stay"
    if odd := [name for name in changed if name not in KEEPS and not _is_same(state, era, name)]:
        yield f"the bets so far assumed {joined([f'`{name}`' for name in odd])} as before"


def why_not_now(state: "State", era: Era) -> str:
    """Return why evidence that could go on does not: because of the moment, or of the arms that retire."""
    if n := era.n_unfinished:
        after = (
            "reopen when they are told"
            if state.learner.state.ledger.has_begun
            else "tell or give up the open asks first"
        )
        missing = f"{counted(n, 'result')} of an unfinished block {'is' if n == 1 else 'are'} missing"
        return f"{missing}; {after}, and the evidence is kept"
    if odd := era.not_rejected:
        names = joined([state.roster.label(key) for key in odd[:4]] + (["others"] if len(odd) > 4 else []))
        return (
            f"{names} could still be the best at the new risk, so the evidence against the others may rest on these; "
            "reopen once they are excluded, and the evidence is kept"
        )
    return "" if state.now.n_evidence else "no block of measurements is complete yet"


def _sought(m: int) -> str:
    return "the best arm" if m == 1 else f"the {m} best arms"


def _is_same(state: "State", era: Era, name: str) -> bool:
    """Whether an option that has one number for each arm is the same for the arms of both eras."""
    was, now = state.options.get(name), era.options.get(name)
    if not (isinstance(was, list) and isinstance(now, list) and state.roster.is_enumerable):
        return False
    known = dict(zip(state.roster.keys, was, strict=True))
    return all(known.get(key, value) == value for key, value in zip(era.catalog.keys, now, strict=True))


def risk_of(events: Sequence[Mapping[str, Any]], last: Era | None) -> float:
    """Return the probability that any verdict of any era is wrong, at most (docs/guarantee.md, Theorem 9).

    Eras that go on with the same evidence share one risk, that of the first. Arms that join add the risk of theirs.

    Args:
        events: the first event of each era.
        last: the last era.
    """
    goes_on, era = list[bool](), last
    for event in reversed(events):
        goes_on.insert(0, "kept" in event and (era is None or era.kept is not None))
        era = era.before if era is not None and "kept" in event else None
    total = 0.0
    for event, is_kept in zip(events, goes_on, strict=True):
        if not is_kept or event["joined"]:
            total += event["options"]["delta"]
    return total
