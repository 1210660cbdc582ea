"""Noise models: what a task assumes of the noise of its measurements, one class each.

A model says which rewards it accepts, how it scales them, which scale rules and intervals may use, how the results of
a block become the `Block` that bets are placed on, what to simulate, how it is spelled, and how it describes itself.

    model                        spelled                        proof (docs/guarantee.md)
    UnknownGaussian (default)    nothing, or noise="same"       Student bets; one level for all arms, learnt
    SubGaussian                  noise_std=0.5                  Gaussian bets
    Drifting                     noise_std=0.5, drift=0.3       the same, blocks in random order
    SubGaussianPerArm            noise_std=[0.5, 0.2, ...]      the same, in units of the noise of each arm
    GaussianPerArm               noise="per-arm"                repetitions of one plan, compared with each other
    Symmetric                    noise="symmetric"              signs and sizes of these repetitions
    AnyNoise                     noise="any"                    rounds in random order
    Bounded                      reward_range=(lo, hi)          bets on bounded rewards
    Binary                       rewards="binary"               the same between 0 and 1

To add a model: a class here, and its name in `spec.NoiseName` if a name should spell it; all else follows.
`examples/own_noise.py` has one, and `surepick.testing.check_noise_model` tests it.
"""

import math
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self, final, get_args

import numpy as np
from numpy.typing import ArrayLike

from surepick.core.betting.block import LARGEST_REWARD, Block, BlockFit, OwnBets
from surepick.core.betting.rounds import PairDifferences
from surepick.core.checks import LARGEST, check_noise_std, check_noise_stds, check_number, check_reward_range
from surepick.core.estimate import LeastSquares
from surepick.core.linalg import row_digest
from surepick.core.noise import ArmVariances, is_repeating, residuals, rounding_bias
from surepick.errors import InvalidInput
from surepick.learning.spec import NoiseName
from surepick.sampling.base import Rounds, Sampler, SubBlocks
from surepick.stopping.base import Rule
from surepick.types import Array, IntArray

MOST_IN_ROUND = 300
"""Most arms with noise="any"; each round of n arms takes about n^3 steps."""
ENOUGH_BINARY = 10
"""Values after which 0 and 1 alone look like pass or fail."""


class NoiseModel:
    """An assumption about the noise. Attributes have the values of the default model here."""

    name: ClassVar[str] = "same"
    """Name of the model in `noise=` and in results."""
    needs_bets: ClassVar[bool] = False
    """Whether only rules that bet on blocks have a proof. Then there are no confidence intervals, earlier results are
    guidance, and neither slips nor the scatter around one fit of all results are watched."""
    needs_order: ClassVar[bool] = False
    """Whether the proof needs blocks that are asked in random order."""
    ignores_features: ClassVar[bool] = False
    """Whether every arm has a mean of its own, whatever its features; for a list of arms."""
    minds_rounding: ClassVar[bool] = True
    """Whether readings that are rounded, or often equal, are a matter for bets whose noise is learnt."""
    is_watched: ClassVar[bool] = True
    """Whether there is a proof for the watch on the linear model."""
    is_repeated: ClassVar[bool] = False
    """Whether a block must be several repetitions of one plan."""
    is_normal: ClassVar[bool] = True
    """Whether noise that is learnt is Gaussian."""
    is_binary: ClassVar[bool] = False
    """Whether rewards are 0 or 1, False or True."""
    unwatched: str = "of an unknown law"
    """What keeps the linear model from being watched, after "With noise ...", unless `is_watched`."""
    takes_scale: ClassVar[bool] = False
    """Whether `noise_std` beside `noise=name` is the one argument of the class; else the level is learnt."""
    bet: ClassVar[Callable[[Any, Block, BlockFit], OwnBets] | None] = None
    """A method `bet(block, fit)` that returns the bets of the model on a block; None: those of `core.betting`."""

    std: float | None = None
    """The sub-Gaussian scale of the noise that every rule may use; None: the level is learnt."""
    stds: Array | None = None
    """The scale of every arm (K,), if arms differ. Rows and rewards are divided by it, and `std` is 1."""
    reward_range: tuple[float, float] | None = None
    """Smallest and largest possible reward, if rewards have bounds."""

    @classmethod
    def of(cls, noise_std: Any = None) -> Self:
        """Return the model that `noise=name` spells beside this `noise_std`."""
        if cls.takes_scale:
            if noise_std is None:
                raise InvalidInput(f'noise="{cls.name}" needs the scale of the noise; give `noise_std`.')
            build: Callable[[Any], Self] = cls
            return build(noise_std)
        if noise_std is not None:
            raise InvalidInput(
                f'noise="{cls.name}" is for levels that are learnt: leave out `noise_std`, or give it for each arm '
                "without `noise`; rewards with bounds need neither."
            )
        return cls()

    def options(self) -> dict[str, Any]:
        """Return the options of `identify` that spell the model, as logs and study.toml have them."""
        return {"noise": self.name}

    def identity(self) -> str:
        """Return the part of the identity of a learner that tells this model from others."""
        bounds = "" if self.reward_range is None else f"reward_range={self.reward_range!r}, "
        named = "" if self.name == "same" else f"noise={self.name}, "
        given = self.options().get("noise_std", self.std)
        noise = repr(given) if self.stds is None else f"sha256 {row_digest([self.stds]).hex()}"
        return f"{bounds}{named}noise_std={noise}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.options().items())})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.options() == other.options()

    def __hash__(self) -> int:
        return hash(repr(self))

    # ---- rewards

    def refusal(self, reward: float, arm: int) -> str:
        """Return why a finite reward of this arm cannot be taken: "must be ..., got ...; why". "" if it can."""
        scale = self.std if self.stds is None else float(self.stds[arm])
        if abs(reward) <= (LARGEST if scale is None else LARGEST_REWARD * scale):
            return ""
        if scale is None:
            return f"must be at most {LARGEST:g} in size, got {reward:g}; use another unit."
        most = f"{LARGEST_REWARD:g} times noise_std = {scale:g}"
        return f"must be at most {most} in size, got {reward:g}; beyond that the noise is lost in rounding."

    @final
    def checked(self, name: str, reward: object, arm: int) -> float:
        """Return a reward of an arm, given in an argument of this name, as a float.

        Raises:
            InvalidInput: the model does not allow it.
        """
        value = check_number(name, reward, needed="one measured number", takes_booleans=self.is_binary)
        if why := self.refusal(value, arm):
            call = "`fail`" if name == "reward" else "`void`"
            raise InvalidInput(f"`{name}` {why} If it stands for a missing value, call {call}.")
        return value

    @final
    def scaled(self, arm: int, reward: float) -> float:
        """Return a reward of an arm in units of the noise of the arm, if that is known."""
        return reward if self.stds is None else reward / float(self.stds[arm])

    def draw(self, rng: np.random.Generator, means: Array, arms: IntArray, level: float | Array = 1.0) -> Array:
        """Draw one reward for each of these means (n,), of the arms with these numbers (n,); Gaussian unless said.

        Args:
            rng: what to draw from.
            means: of the rewards.
            arms: whose noise may differ.
            level: the standard deviation, one or (n,), where the model does not say it.
        """
        if self.std is not None:
            level = self.std if self.stds is None else self.stds[arms]
        return means + level * rng.standard_normal(len(means))

    # ---- blocks

    def sampler(self, sampler: Sampler, dim: int) -> Sampler:
        """Return the sampler, with blocks as this model needs them."""
        return SubBlocks(sampler, dim) if self.is_repeated else sampler

    def variances(self, dim: int) -> ArmVariances | PairDifferences | None:
        """Return an empty record of how noisy each arm is; None if the model has no use for one."""
        return None

    def block(
        self,
        pulls: tuple[IntArray, Array, Array],
        past: LeastSquares,
        variances: ArmVariances | PairDifferences | None,
        repetitions: Callable[[], tuple[IntArray, Array, Array]],
        groups: IntArray | None = None,
    ) -> Block | None:
        """Return the results of a block beside what was known before it; None if no bet can rest on them.

        Args:
            pulls: numbers (n,) of arms, rows (n, d) and rewards (n,) of its results that count.
            past: what was known before.
            variances: what was known of the noise of each arm.
            repetitions: gives numbers (n,) and rows (n, d) of the plan, and the rewards (B, n) of its B repetitions of
                which no result is void.
            groups: level (n, F) of each factor, by number, if offsets of groups are regressed out.
        """
        arms, X, rewards = pulls
        if not past.has_theta:
            return Block.of(X, rewards, np.zeros(X.shape[1]), arms=arms, groups=groups)
        left = residuals(past) if self.std is None else None
        block = Block.of(X, rewards, past.theta, past.A_inv.copy(), left, arms, groups)
        block.bet = self.bet
        return block

    def repeats(self, estimate: LeastSquares) -> bool:
        """Whether rewards of one arm equal each other too often to be measurements with noise that is learnt."""
        return self.minds_rounding and self.std is None and is_repeating(estimate, is_normal=self.is_normal)

    @final
    def mind_rounding(self, block: Block, past: LeastSquares, *, was_coarse: bool) -> None:
        """Tell a block whose noise is learnt how coarse readings are: before `past` holds the block's own, and after.

        Afterwards only what makes bets return less: that readings repeat, or a grid that could not be seen before.
        """
        step = past.resolution if block.past is not None else 0.0
        if step > 0.0 and self.repeats(past):
            block.bias = math.inf
        elif step > 0.0 and block.step == 0.0:
            bias = self._rounding_bias(block, past, step)
            block.step, block.bias, block.was_coarse = step / block.unit, bias / block.unit, was_coarse

    def _rounding_bias(self, block: Block, past: LeastSquares, step: float) -> float:
        """Return how far rounding to multiples of `step` can move the mean of a reading."""
        return rounding_bias(past, step)

    # ---- words

    def law(self, rule: Rule) -> str:
        """Return what a proof by this rule assumes of the noise, as the end of "the noise ..."."""
        return rule.noise_law(is_known=self.std is not None)

    def summary(self) -> str:
        """Return the assumption in a few words, for the description of a study."""
        scale = self.options().get("noise_std")
        if scale is None:
            return "the noise is learnt"
        return f"{self.name} noise of scale {scale:g}" if self.takes_scale else f"noise at most {scale:g}"

    def assumption(self, law: str, level: float = math.nan) -> str:
        """Return the assumption as the end of "This assumes that ...", with the level that was seen unless NaN."""
        said = f"the noise of one measurement {law}"
        seen = "" if math.isnan(level) else f" (about {level:.3g})"
        return said if self.needs_bets else f"{said}, with one standard deviation for all arms{seen}"


@final
class UnknownGaussian(NoiseModel):
    """Gaussian noise with one level for all arms, which is learnt."""


class SubGaussian(NoiseModel):
    """Noise with no heavier tails than a normal law of this standard deviation."""

    def __init__(self, scale: float) -> None:
        self.std = self.scale = check_noise_std(scale)

    def options(self) -> dict[str, Any]:
        """Spelled by its scale."""
        return {"noise_std": self.scale}

    def assumption(self, law: str, level: float = math.nan) -> str:
        """Say its scale."""
        return f"the noise of one measurement {law} of standard deviation {self.scale:g}"


@final
class Drifting(SubGaussian):
    """Noise as in `SubGaussian`, of readings that also drift: within a block by at most `drift`, in any way.

    A block is asked in random order, so that a drift inside it acts like noise of variance drift^2/2, and bets have
    weights that sum to 0, so that what all readings of a block share cancels (docs/guarantee.md, Theorem 27).
    """

    name = "drift"
    needs_bets = needs_order = True

    def __init__(self, scale: float, drift: float) -> None:
        super().__init__(scale)
        self.drift, self.std = drift, math.sqrt(self.scale**2 + 0.5 * drift**2)

    @classmethod
    def beside(cls, drift: float, noise: NoiseModel) -> Self:
        """Return the model for a drift beside this noise."""
        if type(noise) is not SubGaussian:
            raise InvalidInput(
                "`drift` needs the scale of the noise, one number for all arms; give `noise_std` beside it, and leave "
                'out `noise`, `reward_range` and `rewards`. If you do not know the scale, use noise="any".'
            )
        return cls(noise.scale, drift)

    def options(self) -> dict[str, Any]:
        """Spelled by its scale and the drift."""
        return {"noise_std": self.scale, "drift": self.drift}

    def draw(self, rng: np.random.Generator, means: Array, arms: IntArray, level: float | Array = 1.0) -> Array:
        """Draw without a drift."""
        return means + self.scale * rng.standard_normal(len(means))

    def law(self, rule: Rule) -> str:
        """Say the scale and the drift."""
        return (
            f"{super().law(rule)} of standard deviation {self.scale:g}, and readings drift by at most "
            f"{self.drift:g} within a block whose arms were measured in the order of the asks"
        )

    def summary(self) -> str:
        """Say the scale and the drift."""
        return f"{super().summary()}; readings drift by at most {self.drift:g} within a block"

    def assumption(self, law: str, level: float = math.nan) -> str:
        """Say its law."""
        return f"the noise of one measurement {law}"


@final
class SubGaussianPerArm(NoiseModel):
    """Noise with no heavier tails than a normal law, whose standard deviation is given for each arm (K,)."""

    def __init__(self, scales: ArrayLike) -> None:
        self.std, self.stds = 1.0, check_noise_stds(scales)

    def options(self) -> dict[str, Any]:
        """Spelled by its scales."""
        assert self.stds is not None
        return {"noise_std": self.stds.tolist()}

    def summary(self) -> str:
        """Leave the scales out."""
        return "a noise for each arm"

    def assumption(self, law: str, level: float = math.nan) -> str:
        """Say how the data compare with the scales."""
        said = "" if math.isnan(level) else f"; the data say {level:.3g} times that"
        return f"the noise of one measurement {law} of the standard deviation given for its arm{said}"


class _Repeated(NoiseModel):
    """Noise whose level differs between arms by an unknown factor: blocks repeat one plan, and are compared."""

    needs_bets = is_repeated = True
    is_watched = False

    def variances(self, dim: int) -> ArmVariances:
        """Learn how noisy each arm is."""
        return ArmVariances(dim, is_symmetric=not self.is_normal)

    def block(
        self,
        pulls: tuple[IntArray, Array, Array],
        past: LeastSquares,
        variances: ArmVariances | PairDifferences | None,
        repetitions: Callable[[], tuple[IntArray, Array, Array]],
        groups: IntArray | None = None,
    ) -> Block | None:
        """Return the repetitions of the plan that are whole; None if fewer than two are left to compare."""
        arms, X, parts = repetitions()
        assert isinstance(variances, ArmVariances)
        if len(parts) < 2 or math.isinf(past.resolution) or self.repeats(past):
            return None
        return variances.block(arms, X, parts)

    def _rounding_bias(self, block: Block, past: LeastSquares, step: float) -> float:
        """Return the bias for the quietest arm.

        Nothing bounds the level of a single arm from below. Rounding does no harm to one that is as large as the step
        (a billionth of it), and the smallest level that the past believes in is taken for that.
        """
        return 0.0 if block.unit >= step else 0.5 * step


@final
class GaussianPerArm(_Repeated):
    """Gaussian noise with a level of its own for each arm, all of them learnt."""

    name = "per-arm"
    unwatched = "of unknown levels, a different one for each arm"

    def summary(self) -> str:
        """Say that levels differ."""
        return "a noise for each arm is learnt"

    def assumption(self, law: str, level: float = math.nan) -> str:
        """Say that levels differ."""
        return f"the noise of one measurement {law}, with a standard deviation of its own for each arm"


@final
class Symmetric(_Repeated):
    """Noise of any law that is symmetric around 0 and independent from pull to pull; simulated as Laplace noise."""

    name = "symmetric"
    is_normal = False

    def summary(self) -> str:
        """Say what is assumed."""
        return "noise of any law that is symmetric"

    def draw(self, rng: np.random.Generator, means: Array, arms: IntArray, level: float | Array = 1.0) -> Array:
        """Draw Laplace noise, whose tails are heavier than normal ones."""
        return means + level * rng.laplace(scale=math.sqrt(0.5), size=len(means))

    def law(self, rule: Rule) -> str:
        """Symmetry is all that is needed, whatever the rule."""
        return "is symmetric around 0, whatever its law, and independent of that of all others"


@final
class AnyNoise(NoiseModel):
    """Noise of which nothing is known but that it does not depend on the arm; simulated as normal noise.

    All arms that are left are measured once in each round, in random order. A round compares every arm with the leader
    (`core.betting.rounds`).
    """

    name = "any"
    needs_bets = is_repeated = needs_order = ignores_features = True
    is_watched = is_normal = minds_rounding = False

    def summary(self) -> str:
        """Say what is assumed."""
        return "any noise that does not depend on the arm"

    def sampler(self, sampler: Sampler, dim: int) -> Sampler:
        """Return rounds in the place of any other sampler."""
        if dim > MOST_IN_ROUND:
            raise InvalidInput(
                f'noise="any" is for at most {MOST_IN_ROUND} arms, because it measures them in turn, got {dim}; leave '
                "some out, or choose another noise."
            )
        return Rounds(dim)

    def variances(self, dim: int) -> PairDifferences:
        """Record how arms differed in earlier rounds."""
        return PairDifferences(dim)

    def block(
        self,
        pulls: tuple[IntArray, Array, Array],
        past: LeastSquares,
        variances: ArmVariances | PairDifferences | None,
        repetitions: Callable[[], tuple[IntArray, Array, Array]],
        groups: IntArray | None = None,
    ) -> Block | None:
        """Return a round beside the differences of arms in earlier rounds."""
        assert isinstance(variances, PairDifferences)
        arms, X, rewards = pulls
        block = Block.of(X, rewards, np.zeros(X.shape[1]), arms=arms)
        if past.has_theta:
            block = Block.of(X, rewards, past.theta, past.A_inv.copy(), arms=arms)
            block.bet = variances.bets_on(arms, X)
        variances.add(arms, rewards)
        return block

    def law(self, rule: Rule) -> str:
        """The order of a round is all that is needed."""
        return (
            "does not depend on the arm, whatever its law and however it drifts, in rounds that were measured in the "
            "order of the asks"
        )


class Bounded(NoiseModel):
    """Rewards between two bounds, of any law; simulated as the noisiest ones, which are at a bound."""

    def __init__(self, lo: float, hi: float) -> None:
        self.reward_range = self._lo, self._hi = check_reward_range((lo, hi))
        self.std = 0.5 * (self._hi - self._lo)  # no reward between the bounds has a larger sub-Gaussian scale

    def options(self) -> dict[str, Any]:
        """Spelled by the bounds."""
        return {"reward_range": self.reward_range}

    def summary(self) -> str:
        """Say the bounds."""
        return "rewards are 0 or 1" if self.is_binary else f"rewards between {self._lo:g} and {self._hi:g}"

    def refusal(self, reward: float, arm: int) -> str:
        """Refuse rewards out of bounds; of binary rewards, all but the bounds."""
        needed = f"between {self._lo:g} and {self._hi:g} (the range)"
        is_allowed = self._lo <= reward <= self._hi
        if self.is_binary:
            needed, is_allowed = "0 or 1 (rewards are binary)", reward in (0.0, 1.0)
        said = f"must be {needed}, got {reward:g}; it is not recorded, and the guarantee holds for no others."
        return "" if is_allowed else said

    def draw(self, rng: np.random.Generator, means: Array, arms: IntArray, level: float | Array = 1.0) -> Array:
        """Draw one of the two bounds."""
        return np.where(self._lo + (self._hi - self._lo) * rng.random(len(means)) < means, self._hi, self._lo)

    def assumption(self, law: str, level: float = math.nan) -> str:
        """Say the bounds."""
        return f"rewards lie between {self._lo:g} and {self._hi:g}"


@final
class Binary(Bounded):
    """Rewards that are 0 or 1, such as clicks."""

    is_binary = True

    def __init__(self) -> None:
        super().__init__(0.0, 1.0)

    def options(self) -> dict[str, Any]:
        """Spelled by a word."""
        return {"rewards": "binary"}


_CLASSES = [kind for kind in vars().values() if isinstance(kind, type) and issubclass(kind, NoiseModel)][1:]
NAMED: Mapping[str, type[NoiseModel]] = {
    name: next(kind for kind in _CLASSES if kind.name == name) for name in get_args(NoiseName)
}
"""Names that `noise=` accepts: each stands for the first class above that has it."""


def takes_scale(noise: object) -> bool:
    """Return whether a name stands for a model whose scale is given by `noise_std`."""
    return isinstance(noise, str) and noise in NAMED and NAMED[noise].takes_scale


def noise_model(
    noise: Any = "same", noise_std: Any = None, reward_range: Any = None, rewards: object = None
) -> NoiseModel:
    """Return the model that these options of `identify` spell, or the one that `noise` is.

    Raises:
        InvalidInput: they contradict each other, or one of them cannot be used.
    """
    has_more = not (reward_range is None and rewards is None)
    if isinstance(noise, NoiseModel):
        if noise_std is not None or has_more:
            raise InvalidInput(
                "`noise` is a noise model, which replaces `noise_std`, `reward_range` and `rewards`: leave these out."
            )
        return noise
    if not isinstance(noise, str) or noise not in NAMED:
        names = '", "'.join(NAMED)
        listed = f'"{names}"'.replace(f', "{[*NAMED][-1]}"', f' or "{[*NAMED][-1]}"')
        raise InvalidInput(f"`noise` must be {listed}, got {reprlib.repr(noise)}.")
    kind = NAMED[noise]
    if kind is not UnknownGaussian:
        return kind.of(reward_range or rewards if has_more else noise_std)
    if not has_more:
        if np.iterable(noise_std) and not isinstance(noise_std, str | bytes):
            return SubGaussianPerArm(check_noise_stds(noise_std))
        return UnknownGaussian() if noise_std is None else SubGaussian(noise_std)
    if rewards not in (None, "binary"):
        raise InvalidInput(f'`rewards` must be "binary" or left out, got {reprlib.repr(rewards)}; see `reward_range`.')
    if rewards is not None and reward_range is not None:
        raise InvalidInput('`reward_range` must be left out beside rewards="binary", which means (0, 1).')
    if noise_std is not None:
        raise InvalidInput(
            "`noise_std` must be left out beside the bounds of the rewards, which say all that is needed of the noise."
        )
    return Binary() if reward_range is None else Bounded(*check_reward_range(reward_range))


def spelled(noise: NoiseModel) -> dict[str, Any]:
    """Return the options that spell a model, for a log.

    Raises:
        InvalidInput: no options spell it.
    """
    options = noise.options()
    if options.get("noise", "same") not in NAMED or noise_model(**options) != noise:
        raise InvalidInput(f"a study keeps its noise model by name, got {noise!r}; use one that has a name.")
    return options


def looks_binary(values: Sequence[float]) -> bool:
    """Return whether there are enough values, all of them are 0 or 1, and some of each: pass or fail."""
    return len(values) >= ENOUGH_BINARY and are_binary(values) and len(set(values)) > 1


def are_binary(values: Iterable[float]) -> bool:
    """Return whether all values are 0 or 1."""
    return all(value in (0.0, 1.0) for value in values)
