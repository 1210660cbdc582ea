"""The model check: does the mean reward follow the features? Every learner watches it, check pulls test it.

`core.misfit` has the evidence and the proof that alarms are rarely false, `core.misfit_causes` explains an alarm. A
good design measures few arms and so hides misfit: only check pulls spread over all arms, made after the verdict, test
the model. Withdrawing a verdict costs no risk: under the model an answer is wrong with probability at most delta,
alarms or not. Where the user allows for a `misfit`, means are known not to be exactly linear: an alarm is reported, and
withdraws nothing.

Where the noise level is learnt, the proof also assumes normal noise of one level. `core.normality` watches this
assumption: an alarm makes the claim doubtful, with less than one false alarm in a hundred runs.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, final

import numpy as np
import scipy

from surepick._texts import counted
from surepick.arms.base import VectorSet
from surepick.arms.views import ArmView, WhitenedArms, has_constant
from surepick.core.estimate import LeastSquares
from surepick.core.extrapolation import PulledRows, extrapolated_share
from surepick.core.groups import GroupCodes, group_effects, indicators
from surepick.core.misfit import (
    EffectWatch,
    MisfitWatch,
    check_pulls,
    farthest,
    has_slip,
    is_slip,
    range_basis,
)
from surepick.core.misfit_causes import explain_misfit
from surepick.core.normality import Doubt, Kind, ShapeWatch
from surepick.errors import InvalidInput
from surepick.learning.groups import GroupEffect, label_text
from surepick.learning.noise_models import NoiseModel
from surepick.types import Array, BoolArray, IntArray

ALPHA = 0.01
"""Largest probability of a false alarm, over all times together."""
SLIP_SHARE = 0.5
"""Share of `ALPHA` for slips; with unknown noise, half of this share goes to looks inside each block."""
IF_SLIP = "If it is a slip, correct it."
IF_GROUP = 'Repeat with groups="offset", which allows for that.'
# Levels of all factors together, up to which offsets are worked out.
MOST_LEVELS = 200
BENCH_TAUS = (0.3, 1.0, 4.0)
"""Sizes of offsets of days and benches that are looked for, in units of the noise."""
GroupTable = tuple[GroupEffect, ...]
DRIFT_ALPHA = 1e-6
"""About the largest probability of blaming a drift where there is none, at one look."""
DRIFTS = (
    "Readings drift over time: blocks differ from each other by more than the noise. Give `drift` beside `noise_std`, "
    'or use noise="any".'
)
ModelCheck = Literal["tested", "not contradicted", "untestable", "contradicted"]
# How many arms beyond the dimension are checked at most: more spare directions need more pulls to show a misfit.
MOST_SPARE = 32
MOST_EACH = 20
_DOUBTS: Mapping[Kind, str] = {
    "skewed": (
        "the noise looks skewed: {n} residuals have skewness {size:.2g}, normal noise has 0. Give reward_range if "
        "rewards have bounds, or measure on another scale, such as the logarithm"
    ),
    "outliers": (
        "the noise has more far values than normal noise: {n} residuals have kurtosis {size:.3g}, normal noise has 3. "
        'Use noise="symmetric", or give reward_range if rewards have bounds'
    ),
    "levels": (
        'the arms differ in noise: {one} scatters {size:.2g} times as much as {other}. Use noise="per-arm", or give '
        "noise_std for each arm"
    ),
}


class Pulls(NamedTuple):
    """Results in the order in which they were told."""

    places: Sequence[int]
    """In the order of asks, 0 for the first."""
    numbers: Sequence[int]
    """Of the measurements, 0 for the first; those void are left out."""
    arms: Sequence[int]
    X: Array
    """Rows (n, d), without the offsets of groups where these are allowed for."""
    rewards: Array
    beside: Array
    """The part of the rewards (n,) that the offsets of groups explain; 0 where there are none."""
    leverages: Array | float = 0.0
    """How far each reward (n,) moves the offsets of its own groups; 0 where there are none."""

    def farthest(self, estimate: LeastSquares) -> tuple[int, float]:
        """Return which reward is farthest from the prediction by the others, and this prediction."""
        i, predicted = farthest(estimate, self.X, self.rewards - self.beside, self.leverages)
        return i, predicted + float(self.beside[i])


@final
class Model:
    """The check of the model by the rewards.

    Args:
        view: the arms. Results are told in units of their noise where that differs, and explained in the user's.
        noise_std: scale of the noise; None if unknown.
        is_watched: whether there is a proof for an alarm; False if arms differ in noise by unknown amounts.
        is_exact: whether means are exactly linear; else residuals are taken around the mean of each arm.
        has_offsets: whether offsets of groups are allowed for. Else a group that reads high contradicts the model.
    """

    def __init__(
        self,
        view: ArmView,
        noise_std: float | None,
        *,
        is_watched: bool = True,
        is_exact: bool = True,
        has_offsets: bool = False,
    ) -> None:
        self._is_watched, self._is_exact, self._has_offsets = is_watched, is_exact, has_offsets
        self._shape = ShapeWatch() if is_watched and noise_std is None else None
        self._view, self._noise_std = view, noise_std
        self.has_constant = has_constant(view)
        """Whether some combination of the features is constant."""
        self._watch = MisfitWatch(view.dim, noise_std, has_constant=self.has_constant)
        # Of effects beside the model: misfits of arms if groups have offsets, else the offsets of groups.
        self._effects: EffectWatch | None = None
        self._numbers: dict[tuple[int, int], int] = {}
        self._log_before = self._log_peak = 0.0  # evidence of the first watch when the second began, and the largest
        self._next_look, self._n_settled = 1, 0
        self._block_has_slip = False  # by some block alone
        self.has_slip = False
        """Whether there is a reward that no noise explains."""
        self.n_checks = 0
        """Check pulls told so far."""

    def settle(self, arms: IntArray, X: Array, rewards: Array, groups: IntArray | None = None) -> None:
        """Take the results of a block, in order.

        Args:
            arms: numbers (n,) of the arms pulled.
            X: their rows (n, d).
            rewards: (n,).
            groups: level (n, F) of each factor, by number, 0 if unknown; None: no result has a label.
        """
        if not self._is_watched:
            return
        # Before the first watch bets on the block: evidence that is divided holds results of earlier blocks alone.
        effects = None if groups is None else self._effects_now()
        (self._watch.learn if self._has_offsets else self._watch.settle)(arms, X, rewards)
        if effects is not None and groups is not None:
            effects.settle(X, rewards, *self._columns(arms, groups))
        self._log_peak = max(self._log_peak, self._log_evidence)
        self._n_settled += 1
        if self._shape is None:
            return
        Q = range_basis(X if not self._has_offsets or groups is None else np.hstack([X, indicators(groups)]))
        if not self._block_has_slip:
            self._block_has_slip = has_slip(
                Q, rewards, 0.5 * SLIP_SHARE * ALPHA * 6.0 / (math.pi * self._n_settled) ** 2
            )
        if not self._is_exact:
            Q = range_basis((arms[:, None] == np.unique(arms)).astype(np.float64))
        # Beside offsets nothing is said of levels that differ between arms: repeats of an arm differ by their groups.
        self._shape.settle(np.arange(len(arms)) if self._has_offsets else arms, Q, rewards)

    def learn(self, arms: IntArray, X: Array, rewards: Array, groups: IntArray | None = None) -> None:
        """Take results that belong to no block."""
        if self._is_watched:
            self._watch.learn(arms, X, rewards)
            if groups is not None:
                self._effects_now().learn(X, rewards, *self._columns(arms, groups))

    def _effects_now(self) -> EffectWatch:
        """Return the watch on effects, which begins with the first label and takes half of the evidence so far."""
        if self._effects is None:
            taus = self._watch.taus if self._has_offsets else BENCH_TAUS
            self._effects = EffectWatch(taus, self._noise_std)
            self._log_before = self._watch.log_evidence
        return self._effects

    def _columns(self, arms: IntArray, groups: IntArray) -> tuple[IntArray, list[tuple[int, ...]]]:
        """Return levels (n, F) whose offsets are allowed for, and the effects of each result that are looked for."""
        numbers = self._numbers
        if self._has_offsets:
            return groups, [(numbers.setdefault((-1, arm), len(numbers)),) for arm in arms.tolist()]
        effects = [
            tuple([numbers.setdefault((f, level), len(numbers)) for f, level in enumerate(levels) if level])
            for levels in groups.tolist()
        ]
        return np.zeros((len(arms), 0), dtype=np.int64), effects

    @property
    def _log_evidence(self) -> float:
        """Log of the e-value against the model: of both watches, each with half of what was there when one began."""
        if self._effects is None:
            return self._watch.log_evidence
        if self._has_offsets:
            return self._effects.log_evidence
        both = self._watch.log_evidence, self._log_before + self._effects.log_evidence
        return float(np.logaddexp(*both)) - math.log(2.0)

    @property
    def finds_groups(self) -> bool:
        """Whether groups that read high or low contradict the model, and more clearly than arms do."""
        effects = self._effects
        if effects is None or self._has_offsets:
            return False
        log_groups = self._log_before + effects.log_evidence
        return log_groups > max(self._watch.log_evidence, -math.log((1.0 - SLIP_SHARE) * ALPHA))

    def look_for_slips(self, estimate: LeastSquares, pulls: Callable[[], Pulls], *, now: bool) -> None:
        """Look at results one by one, `now` or if they have doubled since.

        Args:
            estimate: of all results; of a prefix in the order of asks if delays may depend on values.
            pulls: gives them.
            now: whether to look in any case.
        """
        is_due = self._is_watched and (now or self._block_has_slip or estimate.n_pulls >= self._next_look)
        if self.has_slip or not estimate.has_theta or not is_due:
            return
        self._next_look = 2 * estimate.n_pulls
        told = pulls()
        i, predicted = told.farthest(estimate)
        off, alpha = float(told.rewards[i]) - predicted, SLIP_SHARE * ALPHA * (0.5 if self._noise_std is None else 1.0)
        # Beside offsets the prediction by all others has no proof, and blocks judge alone.
        is_found = not self._has_offsets and is_slip(
            estimate, told.X[i], off, told.places[i] + 1, self._noise_std, alpha
        )
        # An alarm of a block may also be misfit: one reward is to blame if it explains most of the residual sum.
        taken_off = off**2 * (1.0 - float(told.X[i] @ estimate.A_inv @ told.X[i]))
        self.has_slip = is_found or (self._block_has_slip and taken_off > 0.5 * estimate.residual_sum)

    def _units(self, arms: Sequence[int] | IntArray) -> Array:
        """Return the units by which rows and rewards of these arms were divided."""
        return np.ones(len(arms)) if self._view.stds is None else self._view.stds[np.asarray(arms)]

    @property
    def check(self) -> ModelCheck:
        """State of the model."""
        if self.has_slip or self._block_has_slip or self._log_peak >= -math.log((1.0 - SLIP_SHARE) * ALPHA):
            return "contradicted"
        if self._watch.n_arms <= self._view.dim:
            return "untestable"
        return "tested" if self.n_checks else "not contradicted"

    @property
    def n_residuals(self) -> int | None:
        """How many residuals the shape of the noise was looked at by; None where the proof asks for no shape."""
        return None if self._shape is None else self._shape.n_residuals

    def doubt(self) -> str:
        """Say what speaks against normal noise of one level, and what to do; "" if nothing does."""
        found = None if self._shape is None else self._shape.doubt()
        return "" if found is None else self._doubted(found)

    def _doubted(self, found: Doubt) -> str:
        one, other = map(self._name, found.arms) if found.arms else ("", "")
        return f"{_DOUBTS[found.kind].format(n=found.n, size=found.size, one=one, other=other)}."

    def explain(
        self, noise_std: float, estimate: LeastSquares, pulls: Callable[[], Pulls], called: Callable[[int], int]
    ) -> str:
        """Say in plain words what does not fit.

        Args:
            noise_std: level of the noise.
            estimate: of all results.
            pulls: gives them.
            called: maps the number of a result to the number that users see.
        """
        if self.has_slip:
            # Of all results: when it was found there may have been two of the arm, and either could be the slip.
            told = pulls()
            if np.isin(told.rewards * self._units(told.arms), (0.0, 1.0)).all():
                return 'All rewards are 0 or 1, which normal noise never gives: use rewards="binary".'
            i, predicted = told.farthest(estimate)
            value, others = (float(self._units([told.arms[i]])[0]) * reward for reward in (told.rewards[i], predicted))
            return (
                f"One measurement stands apart: number {called(told.numbers[i])}, of {self._name(told.arms[i])}, is "
                f"{value:.6g} where the others say {others:.3g}. {IF_SLIP}"
            )
        past = self._watch.past
        if not len(past.arms):
            return ""
        if self._has_offsets and self._effects is not None:
            return self._explain_cells(self._effects, noise_std)
        # A mean of n rewards of noise s is as good as one of n/s^2 of noise 1.
        unit = self._units(past.arms)
        X, counts, means = past.X * unit[:, None], past.counts / unit**2, past.means * unit
        found = explain_misfit(X, counts, means, noise_std, has_constant=self.has_constant)
        if found.constant is not None:
            return (
                f"A constant feature is missing: rewards are {found.constant:+.3g} beside what the features explain; "
                "add a column of ones."
            )
        worst = (
            f"{self._name(int(past.arms[one.arm]))} measured {one.mean:.3g} where the others say {one.fit:.3g}"
            for one in found.arms
        )
        return f"Fits worst: {', '.join(worst)}."

    def _explain_cells(self, effects: EffectWatch, noise_std: float) -> str:
        """Name the arms that fit worst beside the offsets of groups."""
        cells, of_arms = effects.cells
        arm_of = {number: arm for (_, arm), number in self._numbers.items()}
        found = explain_misfit(cells.X, cells.counts, cells.means, noise_std, has_constant=True)
        names = dict.fromkeys(self._name(arm_of[of_arms[one.arm][0]]) for one in found.arms)
        return f"Fits worst beside the offsets of the groups: {', '.join(names)}."

    def group_table(
        self,
        arms: IntArray,
        X: Array,
        rewards: Array,
        codes: GroupCodes,
        groups: IntArray,
        reach: Callable[[float], float],
    ) -> GroupTable:
        """Return how high each group reads by all results, with a note on groups that say nothing or stand out.

        Args:
            arms: numbers (n,) of the arms measured.
            X: their rows (n, d).
            rewards: (n,).
            codes: names of factors and levels.
            groups: level (n, F) of each factor, by number.
            reach: maps degrees of freedom to the standard errors that an interval reaches to each side.
        """
        if not groups.shape[1] or sum(map(len, codes.levels)) > MOST_LEVELS:
            return ()
        unit = self._units(arms)
        found = group_effects(X * unit[:, None], rewards * unit, groups)
        known = self._noise_std if self._view.stds is None else None
        nu = math.inf if known is not None else found.n_spare
        scale = known if known is not None else math.sqrt(found.residual_sum / nu) if nu > 0 else math.inf
        half_widths, table = reach(nu) * scale * found.errors, list[GroupEffect]()
        factors, highest = list(codes.factors), _farthest(found.offsets / found.errors)
        names = [list(levels) for levels in codes.levels]
        for i, (f, level) in enumerate(zip(found.factor.tolist(), found.level.tolist(), strict=True)):
            if not level:
                continue  # results without this factor
            note, measured = "", np.unique(arms[groups[:, f] == level])
            if self._has_offsets and len(measured) == 1:
                note = f"Only {self._name(int(measured[0]))} was measured there, so these results compare no arms."
            elif self.finds_groups and i == highest:
                note = f"Reads about {_beside_others(float(found.offsets[i]), int((found.factor == f).sum()))}."
            label = ((factors[f], names[f][level]),)
            table.append(GroupEffect(label, int(found.counts[i]), float(found.offsets[i]), float(half_widths[i]), note))
        return tuple(table)

    def _name(self, number: int) -> str:
        names = self._view.names
        return f"arm {self._view.key_of(number)}" if names is None else names[number]


def _farthest(z: Array) -> int:
    """Return the place of the largest |z|, -1 if all are unknown."""
    return -1 if np.isnan(z).all() else int(np.nanargmax(np.abs(z)))


def _beside_others(offset: float, n_levels: int) -> str:
    """Say an offset beside the mean of the other groups; it is given beside the mean of all."""
    size = abs(offset) * n_levels / (n_levels - 1)
    return f"{size:.3g} {'higher' if offset > 0.0 else 'lower'} than the others"


def group_words(table: GroupTable) -> str:
    """Name the group that stands apart, and say what to do; "" if none does."""
    apart = next((one for one in table if one.note.startswith("Reads")), None)
    if apart is None:
        return ""
    read = apart.note.removeprefix("Reads")
    return f"The {counted(apart.n, 'measurement')} of {label_text(apart.label)} read{read} {IF_GROUP}"


def has_drift(arms: Array, blocks: Array, rewards: Array) -> bool:
    """Return whether blocks differ: an F-test of the ranks of rewards less the median of their arm.

    A slip moves one rank, and a mean that does not follow the features moves a median.

    Args:
        arms: numbers (n,).
        blocks: number of the block of each (n,).
        rewards: (n,).
    """
    apart = rewards.copy()
    for arm in np.unique(arms):
        apart[arms == arm] -= np.median(rewards[arms == arm])
    _, place, ties = np.unique(apart, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(ties) - 0.5 * ties)[place] - 0.5 * len(rewards)  # equal ones share the mean of their ranks
    numbers, block = np.unique(blocks, return_inverse=True)
    more, spare = len(numbers) - 1, len(rewards) - len(numbers) - len(np.unique(arms)) + 1
    if more <= 0 or spare <= 0 or not ranks.any():
        return False
    between = float((np.bincount(block, ranks) ** 2 / np.bincount(block)).sum())
    within = float(ranks @ ranks) - between
    ratio = between / more / (within / spare) if within > 0.0 else math.inf
    return bool(scipy.special.fdtrc(more, spare, ratio) < DRIFT_ALPHA)


def check_audit(noise: NoiseModel, arms: object, pool: object = None) -> None:
    """Refuse check pulls that have no proof: beside this noise model or a pool, and of a set without a list of arms."""
    if pool is not None:
        raise InvalidInput("`audit` tests a model of the means, and a pool has none; leave it out.")
    if noise.needs_bets:
        raise InvalidInput(
            f'`audit` has no proof yet beside noise="{noise.name}"; leave it out, or give noise_std for each arm.'
        )
    vectors = getattr(arms, "vectors", arms)
    if isinstance(vectors, VectorSet):
        raise InvalidInput(f"`audit` needs a list of arms, got {vectors.description}; leave it out.")


def check_arms(view: WhitenedArms, n: int, seed: int) -> list[int]:
    """Return n arms for check pulls: all equally often, or if there are very many a sample; by the seed alone."""
    checked = np.random.default_rng(seed).permutation(view.n_arms)[: view.dim + MOST_SPARE].tolist()
    return [checked[i % len(checked)] for i in range(n)]


def enough_checks(view: WhitenedArms, noise_std: float, lead: float, most: int) -> int:
    """Return how many check pulls show a misfit that could have made up this lead, at least one of every arm checked.

    If the answer is wrong although it seems to lead by g, some arm is off by g/2.

    Args:
        view: the arms.
        noise_std: the level of the noise.
        lead: of the answer over the next candidate.
        most: no more than that, or than `MOST_EACH` of every arm checked.
    """
    n_spare = min(view.n_arms - view.dim, MOST_SPARE)
    n_checked = view.dim + n_spare
    most = max(most, MOST_EACH * n_checked)
    wanted = check_pulls(ALPHA, n_spare, noise_std, 0.5 * lead) if noise_std > 0.0 and lead > 0.0 else most
    return max(min(wanted, most), n_checked)


def extrapolation(
    measured: WhitenedArms, candidates: WhitenedArms, leader: int, estimate: LeastSquares, others: BoolArray | None
) -> float:
    """Return the far share of the lead over the runner-up if the lead is an extrapolation, else 0.

    Args:
        measured: the arms, divided by their noise where that differs.
        candidates: the arms that are compared.
        leader: number of the leader.
        estimate: of all results.
        others: candidates (K,) among which the runner-up is; None: all but the leader.
    """
    theta = estimate.theta
    rival = candidates.rivals(leader, theta, [], np.copy, 1, others).index
    if not len(rival):
        return 0.0
    rows = candidates.gather([leader, int(rival[0])])

    def pulled(arms: IntArray, counts: Array) -> PulledRows:
        X = measured.gather(arms)
        return PulledRows(X, counts, X @ theta * (1.0 if measured.stds is None else measured.stds[arms]))

    every = np.concatenate([chunk @ theta for _, chunk in measured.chunks()])
    lowest = float((every if measured.stds is None else every * measured.stds).min())
    arms, design = np.array([*estimate.counts], dtype=np.int64), measured.design
    counts = np.array([*estimate.counts.values()], dtype=np.float64)
    middle = 0.5 * (float(rows[0] @ theta) + lowest)
    return extrapolated_share(pulled(arms, counts), pulled(design.support, design.weights), rows[0] - rows[1], middle)
