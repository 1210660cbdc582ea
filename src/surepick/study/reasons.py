"""Why an arm is asked for, in words."""

from surepick.study.state import Attempt, State


def reason_for(state: State, one: Attempt) -> str:
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
