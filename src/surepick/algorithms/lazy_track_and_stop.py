"""Lazy Track-and-Stop (Jedra and Proutiere 2020), Algorithm 1, as a composition of rules.

    sampling        track the design that best separates the leader from the rest, recomputed only at scheduled times,
                    with forced exploration (section 3.3)
    stopping        betting by default; the paper's rule (section 3.4) and others by name
    recommendation  the leader when the rule stops

Departures from the printed algorithm, each an option: the first design is G-optimal and a share of it, `g_mix`, stays
mixed in (a design computed from d noisy rewards can get stuck on one arm for thousands of pulls; FULL_SHARE has more);
the schedule grows by 1.08, under other rules than betting by 1.15, instead of 2; A0 by pivoted QR instead of at random;
exploration in whitened coordinates.
`variant="paper"` undoes all but the first: it too starts from the G-optimal design, since the paper does not say with
which. Errata of the paper are noted in `sampling.tracking` and `core.thresholds`.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import islice
from typing import ClassVar, final

import numpy as np

from surepick.algorithms.options import Options
from surepick.algorithms.rounds import Rounds, RoundsDesign
from surepick.arms.base import ArmSet, RowSubset
from surepick.arms.views import LARGE, ScaledArms, Task, divided
from surepick.core.betting.bounded import variances_by
from surepick.core.checks import LATER, check_tol
from surepick.core.design import Design
from surepick.core.design.directions import GapDirections, RowDirections
from surepick.core.design.generation import PreparedArms
from surepick.core.design.solve import optimal_design, separating_design
from surepick.core.design.targets import rows_apart
from surepick.core.linalg import one_blas_thread
from surepick.core.noise import noise_estimate
from surepick.errors import InvalidInput
from surepick.sampling.base import Sampler, SamplerContext
from surepick.sampling.pairs import InPairs, Pairs, PairSampler, span_of_differences
from surepick.sampling.pool import PoolSampler
from surepick.sampling.schedules import Geometric, Schedule, schedule_for
from surepick.sampling.tracking import EigenvalueFloor, ExplorationSet, Tracker, Tracking, check_share, exploration_set
from surepick.stopping import Stopping, as_rule
from surepick.stopping.base import Rule
from surepick.stopping.betting import Betting, has_sets
from surepick.stopping.pool import PoolBetting
from surepick.stopping.targets import Targets
from surepick.types import Array, IntArray

# Relative gaps of the designs. A gap of one percent costs at most one percent of the pulls. Early on the estimate is
# less accurate than that: its relative error falls like one over the root of the pulls.
LOOSEST_TOL, TIGHTEST_TOL = 0.05, 1e-2

# Designs take most of the time. Unless a schedule is given, a design serves while leader and rivals stay, until the
# pulls have grown by the factor LAZY, which spans more than one short block of the betting rule.
LAZY = 1.15
# In LARGE tables of arms the first design waits for FIRST_DESIGN pulls per feature, since a leader among many arms by
# fewer results is mostly noise (until then the G-optimal design measures all directions). While the leader stays, a
# design serves until the pulls have grown by the factor LAZIER. Its proved gap may be LARGE_TOL: most passes go into
# the proof, while the weights are within a few percent of optimal long before. Blocks grow by LARGE_RATIO: each ends
# with a pass over all candidates not rejected.
FIRST_DESIGN, LAZIER, LARGE_TOL, LARGE_RATIO = 20, 1.3, 0.25, 1.15

# A constant tenth of the G-optimal design would cost a ninth of the pulls in the end. Rules with a determinant in their
# threshold pay for every direction that is measured well: two thirds more pulls with ten features. Under these rules
# the share decays as 1/sqrt(t) once t > FULL_SHARE d. Betting pays for neither dimensions nor directions.
FULL_SHARE = 200

# Where accounts of sets decide on the m best (`core.betting.sets`), a design serves one block, since the evidence that
# pairs miss changes. Blocks grow by SETS_RATIO, a share SETS_G_MIX of the G-optimal design stays, the first block has
# FIRST_BLOCK pulls per feature. A pair that misses less evidence than LEAST_REST counts as if it missed so much.
SETS_RATIO, SETS_G_MIX, FIRST_BLOCK, LEAST_REST = 1.06, 0.1, 4, 0.3
# Share of a difference between candidates that may lie outside the differences of arms: rounding.
OUTSIDE = 1e-8

# Numbers up to which the candidates still alive are copied out: 80 MB, and as many while they are mapped.
COPIED = 10_000_000


@final
@dataclass(frozen=True, kw_only=True)
class LazyTrackAndStop(Options):
    """Lazy Track-and-Stop, the default: track the design that best separates the leader, recomputed now and then.

    On a set of vectors the set fixes the design, so the algorithm is `rounds.Rounds` there (section 4 of the paper, for
    the sphere), and only `variant`, `stopping` and `design` apply.

    Args:
        tracking: "averaged" follows the sum of all designs, "current" the design in force.
        regularizer: V (d, d) of the evidence rule in the user's coordinates, default the G-optimal information.
        exploration_set: A0 by pivoted QR of the whitened arms, or at random.
        exploration: factor of the floor f(t) on the smallest eigenvalue; 0 switches it off.
        g_mix: share of the G-optimal design mixed into every design; default 0.05 under the betting rule (0.1 for the m
            best), else 0.1, which decays as 1/sqrt(t) once t > 200 d under rules that pay for the determinant.
        elimination: default on if the rule keeps refuted candidates, except in the paper variant.
        design_gap: proved relative gap of every design, which then has as few arms as that allows; default 0.3/sqrt(t)
            after t results, between 0.01 and 0.05.
        design: on a set of vectors, see `rounds.Rounds`.

    Examples:
        >>> import surepick as sp
        >>> sp.simulate(sp.problems.soare(3, angle=0.5), "lazy-track-and-stop", n_runs=5, seed=0).mean
        89.6

    References:
        Jedra and Proutiere (2020), "Optimal best-arm identification in linear bandits".
    """

    tracking: Tracking = "averaged"
    regularizer: Array | None = None
    exploration_set: ExplorationSet | None = None
    exploration: float | None = None
    g_mix: float | None = None
    elimination: bool | None = None
    design_gap: float | None = field(default=None, metadata={LATER: True})
    design: RoundsDesign | None = None

    takes_vectors: ClassVar[bool] = True
    supports_top_m: ClassVar[bool] = True
    takes_costs: ClassVar[bool] = True
    takes_target: ClassVar[bool] = True
    takes_batch: ClassVar[bool] = True
    takes_pool: ClassVar[bool] = True

    def compose(self, task: Task) -> tuple[Sampler, Rule]:
        """Return the sampler and the stopping rule."""
        if task.pool is not None:
            return PoolSampler(task), PoolBetting()
        if not task.arms.is_enumerable:
            return self._rounds(task).compose(task)
        if self.design is not None:
            raise InvalidInput(
                f"`design` is for sets of vectors such as the unit sphere, got {self.design!r}; drop it."
            )
        # Where groups read high or low, pairs of arms take the place of arms.
        pairs = Pairs.of(task) if task.has_offsets else None
        measured = task if pairs is None else pairs.task
        arms, is_paper = measured.rows, self.is_paper
        chosen = exploration_set(
            arms, self.exploration_set or ("random" if is_paper else "pivoted"), measured.spanning, task.seed
        )
        can_bet = task.candidates.is_local and not (task.m > 1 and task.epsilon > 0.0)
        usual: Stopping = "betting" if can_bet else "evidence"
        if task.target is not None:
            usual = Targets()
        rule = as_rule(
            self.stopping or ("paper-appendix" if is_paper else usual),
            start_arms=chosen,
            regularizer=self.regularizer,
            elimination=False if is_paper and self.elimination is None else self.elimination,
        )
        by_sets = has_sets(task) and isinstance(rule, Betting) and not is_paper
        schedule = self.schedule
        if schedule is None and is_paper:
            schedule = "doubling"
        elif schedule is None and arms.n_arms * arms.dim > LARGE:
            schedule = Geometric(LARGE_RATIO)
        elif schedule is None and by_sets:
            schedule = Geometric(SETS_RATIO)
        usual_g_mix = 0.0 if is_paper else SETS_G_MIX if by_sets else rule.usual_g_mix
        times, least = schedule_for(rule, schedule), rule.min_block(task)
        sampler = LazySampler(
            # Other rules assume the noise that the bounds allow, the same for all arms.
            task=measured if rule.pays_real_variances else replace(measured, reward_range=None),
            tracker=Tracker(self.tracking),
            schedule=times if pairs is None else InPairs(times),
            floor=EigenvalueFloor(
                arms.arms if is_paper else arms,
                chosen,
                scale=(1.0 if is_paper else 0.3) if self.exploration is None else self.exploration,
            ),
            g_mix=check_share(usual_g_mix if self.g_mix is None else self.g_mix),
            is_mix_decaying=self.g_mix is None and rule.has_determinant_price,
            least=least if pairs is None else math.ceil(least / 2),
            lazy=LAZY if self.schedule is None and task.batch is None and not (is_paper or by_sets) else 1.0,
            first=FIRST_BLOCK if by_sets else 2,
            onto=None if pairs is None else pairs.onto,
            gap=None if self.design_gap is None else check_tol(self.design_gap, "design_gap"),
        )
        return sampler if pairs is None else PairSampler(sampler, pairs), rule

    def unsupported(self, task: Task) -> str | None:
        """Refuse options of sampling in a pool, and with offsets candidates that are no differences of arms."""
        if task.pool is not None:
            return self._odd_in_pool()
        if not task.has_offsets or task.candidates is task.arms or not task.candidates.is_local:
            return None
        if not task.arms.is_enumerable or task.rows.stds is not None:
            return None  # the rule has no proof, and says so
        X, Z = (rows.gather(range(rows.n_arms)) for rows in (task.rows, task.rivals))
        basis, apart = span_of_differences(X), Z - Z[0]
        if np.abs(apart - apart @ basis @ basis.T).max() <= OUTSIDE * np.abs(apart).max():
            return None
        return (
            'groups="offset" compares candidates by differences of arms, and these do not span the differences of the '
            'candidates; add arms, or use groups="watch".'
        )

    def _odd_in_pool(self) -> str | None:
        """Return why these options have no meaning for a pool."""
        values = {one.name: (getattr(self, one.name), one.default) for one in fields(self)}
        given = [name for name, (value, default) in values.items() if not (value is default or str(value) == default)]
        if not given or (given == ["stopping"] and self.stopping == "betting"):
            return None
        return f"`{given[0]}` must be left out beside `pool`: every item is asked of all arms left, and bets decide."

    def _rounds(self, task: Task) -> Rounds:
        """Return the algorithm for a set of vectors; refuse options that have no meaning there."""
        apply = ("variant", "stopping", "design")
        values = {f.name: (getattr(self, f.name), f.default) for f in fields(self) if f.name not in apply}
        odd = [name for name, (value, usual) in values.items() if np.ndim(value) or value != usual]
        if odd:
            raise InvalidInput(
                f"`{odd[0]}` has no meaning on {task.arms.description}, whose design is fixed; leave it out."
            )
        return Rounds(variant=self.variant, stopping=self.stopping, design=self.design or "rounds")


def _renumbered(numbers: IntArray, old: IntArray | None, new: IntArray | None, n_candidates: int) -> IntArray:
    """Translate directions among the candidates `old` to those among `new` (None: all); -1 for directions gone."""
    place, positions = np.divmod(numbers, n_candidates if old is None else len(old))
    rows = positions if old is None else old[positions]
    if new is None:
        return np.asarray(place * n_candidates + rows)
    positions = np.minimum(np.searchsorted(new, rows), len(new) - 1)
    return np.where(new[positions] == rows, place * len(new) + positions, -1)


@final
@dataclass(kw_only=True, eq=False, repr=False)
class LazySampler:
    """Algorithm 1 without its stopping rule: A0 once, then forced exploration or tracking of the current design."""

    task: Task
    tracker: Tracker
    schedule: Schedule
    floor: EigenvalueFloor
    g_mix: float
    """Share of the G-optimal design in every design."""
    is_mix_decaying: bool
    """Whether this share decays as 1/sqrt(t)."""
    least: int
    """Fewest pulls of a block."""
    lazy: float
    """Growth of the pulls up to which a design serves while leader and rivals stay."""
    first: int = 2
    """Pulls per feature before the first design."""
    onto: Array | None = None
    """Maps theta of the results to that of the task, if the arms of the task are pairs; None: they are the same."""
    gap: float | None = None
    """Proved relative gap of every design; None: as the estimate allows."""

    def __post_init__(self) -> None:
        self._arms = self.task.rows
        self._explored = np.zeros((0, self._arms.dim))  # features of the tracker's arms, in coordinates of the floor
        self._n_started = 0
        self._design: Design | None = None
        self._solved_for: tuple[tuple[int, ...], int] | None = None  # leaders, and the number of rivals alive
        self._solved_at = 0
        self._index: IntArray | None = None  # candidates that number the design's directions; None: all
        self._pairs: IntArray | None = None  # pairs u K + b that number the design's directions; None: no pairs do

    def open(self, context: SamplerContext) -> int:
        """Recompute the design from the results so far; the block lasts until the next scheduled time."""
        t = context.n_asked
        if context.theta is None or not context.leaders:
            self._follow([(self._g_optimal, 1.0)])
            return max(self.schedule.next_after(t) - t, self.first * self._arms.dim - t, self.least)
        self._solve(context)
        return max(self.schedule.next_after(t) - t, self.least)

    def _solve(self, context: SamplerContext) -> None:
        is_large = self._arms.n_arms * self._arms.dim > LARGE
        is_early = context.n_pulls < FIRST_DESIGN * self._arms.dim
        n_rivals = 0 if is_large or context.alive is None else int(np.count_nonzero(context.alive))
        solved_for, factor = (context.leaders, n_rivals), LAZIER if is_large else self.lazy
        is_fresh = solved_for == self._solved_for and context.n_pulls < factor * self._solved_at
        if is_fresh or (is_large and is_early):
            return
        try:
            directions: GapDirections | RowDirections
            if self.task.target is not None:
                directions = self._calls(context)
            elif context.pairs is not None:
                directions = self._listed(context, *context.pairs)
            else:
                directions = self._directions(context)
        except InvalidInput:
            return  # estimates tie or nearly so: the design in force stays
        tol = LARGE_TOL if is_large else min(max(TIGHTEST_TOL, 0.3 * context.n_pulls**-0.5), LOOSEST_TOL)
        self._design = separating_design(
            self._ground(context),
            directions,
            tol=tol if self.gap is None else self.gap,
            warm_start=self._design,
            is_sparse=self.gap is not None,
        )
        self._solved_for, self._solved_at = solved_for, context.n_pulls
        share = self._share_now()
        self._follow([(self._design, 1.0 - share)] + ([(self._g_optimal, share)] if share > 0.0 else []))

    def _follow(self, mixed: Sequence[tuple[Design, float]]) -> None:
        """Track a mixture of designs, whose weights are shares of the cost."""
        support = np.concatenate([design.support for design, _ in mixed])
        weights = np.concatenate([part * design.weights for design, part in mixed])
        if self.task.costs is not None:
            weights = weights / self.task.costs[support]
            weights /= weights.sum()
        self.tracker.retarget(support, weights)

    @cached_property
    def _g_optimal(self) -> Design:
        return (
            self._arms.design
            if self.task.costs is None
            else optimal_design(self.task.priced(self._arms), tol=LARGE_TOL)
        )

    def _ground(self, context: SamplerContext) -> PreparedArms:
        """Return the arms over their estimated noise: near a bound rewards scatter less than `noise_std` says."""
        bounds, estimate = self.task.reward_range, context.estimate
        if context.stds is not None:
            return PreparedArms(self.task.priced(divided(self._arms, context.stds)))
        if bounds is None:
            return self._plain_ground
        variances = variances_by(estimate.theta, estimate.A, self._arms.level, bounds)
        known = ScaledArms(self._arms, lambda _, rows: self.task.noise_std / np.sqrt(variances(rows)))
        return PreparedArms(self.task.priced(known))

    @cached_property
    def _plain_ground(self) -> PreparedArms:
        return PreparedArms(self.task.priced(self._arms))

    def _share_now(self) -> float:
        """Share of the G-optimal design in the design in force."""
        full = FULL_SHARE * self._arms.dim
        return self.g_mix * (math.sqrt(full / max(self._solved_at, full)) if self.is_mix_decaying else 1.0)

    def _listed(self, context: SamplerContext, pairs: IntArray, missing: Array) -> RowDirections:
        """Return the directions of pairs (n, 2), the longer the more evidence (n,) is missing."""
        assert context.theta is not None
        candidates = self.task.rivals
        Y = candidates.gather(pairs[:, 0]) - candidates.gather(pairs[:, 1])
        gaps = Y @ context.theta
        if not len(gaps) or gaps.min() <= 1e-14 * gaps.max():
            raise InvalidInput("estimates tie, and no design tells them apart.")
        # As many pulls per nat as for the pair that misses most: with the factor 2, the value is T* of these pairs.
        share = 2.0 * np.maximum(missing, LEAST_REST) / max(float(missing.max()), LEAST_REST)
        keys = pairs[:, 0] * candidates.n_arms + pairs[:, 1]
        if self._design is not None and self._pairs is not None:
            hardest = self._pairs[self._design.hardest]
            place = np.minimum(np.searchsorted(keys, hardest), len(keys) - 1)
            is_left = keys[place] == hardest
            self._design = replace(self._design, hardest=place[is_left], multipliers=self._design.multipliers[is_left])
        self._pairs = keys
        return RowDirections(RowSubset(Y * (np.sqrt(share) / gaps)[:, None]))

    def _directions(self, context: SamplerContext) -> GapDirections:
        """Return the directions from the leaders to the candidates still alive; if these are few, copy them out."""
        assert context.theta is not None
        alive, candidates, leaders = context.alive, self.task.rivals, np.array(context.leaders)
        rows: ArmSet = candidates
        among, index = alive, None
        n_alive = candidates.n_arms if alive is None else np.count_nonzero(alive)
        if alive is not None and 2 * n_alive <= candidates.n_arms and n_alive * candidates.dim <= COPIED:
            kept = candidates.is_rival(context.leaders, alive)
            kept[leaders] = True
            index = np.flatnonzero(kept)
            among, rows, leaders = None, RowSubset(candidates.gather(index)), np.searchsorted(index, leaders)
        directions = GapDirections(
            rows, context.theta, among=among, leaders=leaders.tolist(), epsilon=self.task.epsilon
        )
        if self._design is not None:
            hardest = _renumbered(self._design.hardest, self._index, index, candidates.n_arms)
            is_left = hardest >= 0
            multipliers = self._design.multipliers[is_left]
            self._design = replace(self._design, hardest=hardest[is_left], multipliers=multipliers)
        self._index = index
        return directions

    def _calls(self, context: SamplerContext) -> RowDirections:
        """Return the directions of the candidates without a call."""
        task, estimate = self.task, context.estimate
        assert context.theta is not None
        assert task.target is not None
        noise = noise_estimate(estimate) if task.given_noise_std is None else task.given_noise_std
        errors = estimate.factor() * (noise if math.isfinite(noise) else 0.0)
        errors = errors if self.onto is None else self.onto @ errors
        return RowDirections(
            RowSubset(rows_apart(task.rivals, task.target, context.theta, task.epsilon, context.alive, errors))
        )

    def next(self) -> int:
        """Return the next arm."""
        tracker, floor = self.tracker, self.floor
        if not self._has_started:
            arm = floor.chosen[self._n_started]
            self._n_started += 1
            tracker.excuse(arm)
            return arm
        if not floor.holds(tracker.n_asked) and (due := self._due()) is not None:
            tracker.note(due)
            return due
        return tracker.next()

    def follow(self, arms: Sequence[int]) -> None:
        """Take note of the arms of a block at once, unless exploration may have been forced in it.

        Arms are asked in another order than they are drawn in: those that are drawn again here are not counted twice.
        """
        tracker, drawn, n = self.tracker, Counter[int](), len(arms)
        while (left := n - drawn.total()) and not (self._has_started and self.floor.holds(tracker.n_asked + left - 1)):
            drawn[self.next()] += 1
        tracker.follow(list(islice((Counter(arms) - drawn).elements(), left)))

    @property
    def _has_started(self) -> bool:
        return self._n_started >= len(self.floor.chosen)

    @one_blas_thread
    def _due(self) -> int | None:
        """Return the arm that must be explored now, None if the information of all pulls asked for suffices."""
        tracker = self.tracker
        if len(self._explored) < len(tracker.arms):
            self._explored = self.floor.arms.gather(tracker.arms)
        return self.floor.due((self._explored.T * tracker.N) @ self._explored, tracker.n_asked)

    def pulls_per_nat(self) -> float:
        """Return T* at the estimate, over the share of pulls that follows its design."""
        design, costs = self._design, self.task.costs
        if design is None or self.g_mix >= 1.0:
            return np.inf
        per_cost = 1.0 if costs is None else float((design.weights / costs[design.support]).sum())
        return per_cost * design.value / (1.0 - self._share_now())

    def planned(self) -> dict[int, float]:
        """Return the sum of the designs so far."""
        return self.tracker.wanted

    def weights(self) -> dict[int, float]:
        """Return the weights of the design in force, its share of the G-optimal design included; none before it."""
        return {} if self._design is None else self.tracker.weights()
