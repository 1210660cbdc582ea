"""A rule at work that compares a statistic of (leader, rival) pairs with a threshold, by scans of the arms."""

from typing import Protocol, final

from surepick.arms.protocol import ArmSet
from surepick.core.estimate import Estimate
from surepick.core.linalg import BoolArray
from surepick.core.thresholds import Guarantee
from surepick.errors import InvalidInput
from surepick.rules.elimination import EliminatingScan
from surepick.rules.lazy import LazyScan, PairTest, Reading
from surepick.rules.verdict import Verdict, verdict_of


class ScanningRule(Protocol):
    """What the state reads of its rule."""

    @property
    def name(self) -> str:
        """Name of the rule."""
        ...

    @property
    def guarantee(self) -> Guarantee:
        """What is proved about it."""
        ...

    @property
    def full_scan(self) -> bool:
        """Whether every check looks at all arms."""
        ...

    @property
    def spacing(self) -> float:
        """See `LazyScan`."""
        ...

    @property
    def elimination(self) -> bool:
        """Whether an alternative once refuted stays refuted."""
        ...


@final
class ScanState:
    """Such a rule at work on one arm set.

    Args:
        rule: the rule.
        arms: the candidates.
        test: its statistic and threshold.
        first_threshold: what it says of the threshold before there is an estimate.
        is_evidence: whether the statistic is a log e-value.
    """

    def __init__(
        self, rule: ScanningRule, arms: ArmSet, test: PairTest, *, first_threshold: float, is_evidence: bool
    ) -> None:
        if rule.elimination and (rule.full_scan or rule.spacing > 0.0):
            raise InvalidInput("with `elimination` passes have a spacing of their own; drop `full_scan` and `spacing`.")
        self.rule = rule
        self._test = test
        self._scan = (
            EliminatingScan(arms, test)
            if rule.elimination
            else LazyScan(arms, test, full_scan=rule.full_scan, spacing=rule.spacing)
        )
        self._first_threshold, self._is_evidence = first_threshold, is_evidence

    @property
    def n_scans(self) -> int:
        """Full scans of the arms made by `check` so far."""
        return self._scan.n_scans

    @property
    def n_leader_passes(self) -> int:
        """Cheaper passes made by `check` that only looked up the leader."""
        return self._scan.n_leader_passes

    def alive(self, leader: int) -> BoolArray | None:
        """Return which candidates are not refuted as alternatives to this leader, not to be kept; None: all."""
        return self._scan.alive(leader) if isinstance(self._scan, EliminatingScan) else None

    def check(self, estimate: Estimate) -> Verdict:
        """Say whether to stop now."""
        return self._verdict(self._scan.check(estimate) if estimate.has_theta else None)

    def look(self, estimate: Estimate) -> Verdict:
        """Say exactly where things stand, at the cost of a scan."""
        return self._verdict(self._scan.look(estimate) if estimate.has_theta else None)

    def _verdict(self, reading: Reading | None) -> Verdict:
        rule = self.rule
        return verdict_of(reading, rule.name, rule.guarantee, self._first_threshold, is_evidence=self._is_evidence)
