"""Why an arm is asked for, in words.

Where a study stands, for people and programs that look on.
"""

from dataclasses import dataclass
from typing import Any, final

from surepick.learning.snapshot import standing_of
from surepick.study.state import AskRecord, State


def reason_for(state: State, one: AskRecord) -> str:
    """Say what a measurement is good for, as things stand now."""
    again = "; asked again, since an attempt before gave no result" if one.is_again else ""
    if state.stopped:
        return f"checks the model after the verdict{again}"
    leaders, rival = state.learner.rivalry()
    if not leaders:
        return f"measures what is not known of yet{again}"
    leader = state.roster.candidate_label(leaders[-1])
    leads = f"{leader} leads" if len(leaders) == 1 else f"{leader} is the last of the {len(leaders)} that lead"
    if rival is None:
        return f"{leads}{again}"
    return f"separates {leader} from {state.roster.candidate_label(rival)}; {leads}{again}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A study at one moment; the names are those of `surepick status --format json` too."""

    name: str
    state: str
    """"new", "measuring", "stopped", "withdrawn" (the data contradict the model, or the noise given), or "spent"."""
    best: Any
    """Row number or vector of the answer, or of who leads before; a list if several are sought; None: nobody yet."""
    best_name: Any
    rival_name: str | None
    """Who is hardest to tell from it; once stopped the runner-up."""
    lead: float
    """How far the best is ahead of the rival, as it seems."""
    lead_low: float
    lead_high: float
    evidence: float
    threshold: float
    confidence: float
    """That the leader is right, at least; NaN where the rule has no such number."""
    remaining: float
    """Pulls still needed, as it seems; inf or NaN while nothing can be said."""
    epsilon_bound: float
    """What the leader can be losing at most, with probability 1 - delta."""
    guarantee: str
    model_check: str
    stopping: str
    delta: float
    n_pulls: int
    n_pending: int
    n_planned: int
    n_arms: int | None
    n_events: int
    n_void: int
    n_corrected: int
    era: int
    stopped_at: str | None
    registrations: list[str]
    """For each era the hash of its first event: give it away before the first ask, and `verify` shows it again."""

    @property
    def stopped(self) -> bool:
        """Whether there is a verdict that holds."""
        return self.stopped_at is not None


def status_of(state: State) -> Status:
    """Return where a study stands; two passes over the candidates."""
    learner, verdict = state.learner, state.verdict
    decision, standing = learner.decision, standing_of(learner)
    leaders = () if standing.leader is None else standing.leaders
    # What was measured after the verdict does not change it.
    keys = [state.roster.candidate_key(arm) for arm in leaders] if verdict is None else list(verdict.best)
    names = [state.roster.key_label(key) for key in keys]
    several = learner.m > 1
    return Status(
        name=state.name,
        state=_word(state),
        best=None if not keys else keys if several else keys[0],
        best_name=None if not keys else names if several else names[0],
        rival_name=None if standing.rival is None else state.roster.candidate_label(standing.rival),
        lead=standing.lead,
        lead_low=standing.interval[0],
        lead_high=standing.interval[1],
        evidence=decision.evidence if verdict is None else verdict.evidence,
        threshold=decision.target if verdict is None else verdict.threshold,
        confidence=standing.confidence,
        remaining=0.0 if verdict is not None else standing.remaining,
        epsilon_bound=standing.loss,
        guarantee=decision.guarantee,
        model_check=learner.model_check,
        stopping=decision.rule,
        delta=learner.delta,
        n_pulls=decision.n_pulls,
        n_pending=len(state.open),
        n_planned=learner.n_planned,
        n_arms=getattr(state.roster.arms, "n_arms", None),
        n_events=state.n_events,
        n_void=sum(one.is_void for one in state.measurements),
        n_corrected=sum(one.is_corrected for one in state.measurements),
        era=state.era,
        stopped_at=None if verdict is None else verdict.at,
        registrations=list(state.registrations),
    )


def _word(state: State) -> str:
    if state.learner.decision.guarantee == "withdrawn":
        return "withdrawn"
    if state.stopped:
        return "stopped"
    if state.learner.is_spent and not state.open:
        return "spent"
    return "measuring" if state.attempts or state.measurements else "new"
