"""Stopping rules: every rule that decides from the least-squares estimate, in one place.

 * `EvidenceRule`: a log e-value, any arm set, any sampling; proved.
 * `PairwiseRule`: sharper when there are exactly d arms; proved.
 * `GLRRule`: the paper's statistic with the presets "paper-main", "paper-appendix", "paper-remark" (proved)
   or "heuristic" (not proved).

`verdict` has what they share and what a proof asks of the caller, `lazy` how a check avoids looking at the
arms.
"""

from surepick.rules.evidence_rule import EvidenceRule
from surepick.rules.glr_rule import GLRRule
from surepick.rules.pairwise_rule import PairwiseRule, PairwiseState
from surepick.rules.verdict import StoppingRule, StoppingState, Verdict

__all__ = [
    "EvidenceRule",
    "GLRRule",
    "PairwiseRule",
    "PairwiseState",
    "StoppingRule",
    "StoppingState",
    "Verdict",
]
