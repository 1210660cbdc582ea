"""The contract of a set of arms, of rows or of vectors, as tests to inherit."""

from collections.abc import Callable
from typing import Any

import numpy as np

from surepick.arms.base import ArmSet, VectorSet
from surepick.learning.identify import identify
from surepick.learning.learner import Learner, create_learner
from surepick.testing.algorithms import as_tuples, state_of
from surepick.testing.arm_checks import RowChecks, VectorChecks, must_refuse


class ArmSetContract:
    """The contract of a set of arms: subclass it in a test file and define `make`; pytest finds the tests.

    The set may hold rows (`surepick.arms.base.ArmSet`) or vectors (`surepick.arms.base.VectorSet`). The tests compare
    every answer with brute force: over all rows, so make a set of at most a few thousand; or over the arms of some
    rounds and the best arms of random parameters. All random numbers are seeded, so a set that passes once passes
    always. Each test is a method without arguments and needs no test framework.

    Attributes:
        epsilon: slack in the questions to sets of vectors; about the scale on which arms of the set differ when
            parameters have length 1 in coordinates where a round has identity information per pull.
        tolerance: relative error that answers may have.
        max_pulls: pulls within which an identification must stop.

    Examples:
        >>> import surepick as sp
        >>> class TestCube(ArmSetContract):
        ...     def make(self):
        ...         return sp.Hypercube(3)
        >>> TestCube().test_best_arm()
    """

    epsilon: float = 0.25
    tolerance: float = 1e-6
    max_pulls: int = 20_000

    def make(self) -> Any:
        """Return the set. Every test calls `make` anew, and each call must return an equal set."""
        raise NotImplementedError("define `make` in your subclass: it returns the set to be tested")

    def _checks(self) -> RowChecks | VectorChecks:
        made = self.make()
        if isinstance(made, VectorSet):
            return VectorChecks(made, self.make(), epsilon=self.epsilon, tolerance=self.tolerance)
        lacking = _lacking(made, ArmSet)
        assert not lacking, (
            f"{type(made).__name__} is no set of arms: a set of rows needs {lacking} as well, a set of vectors "
            f"{_lacking(made, VectorSet)}"
        )
        return RowChecks(made, self.make(), tolerance=self.tolerance)

    def _learner(self, checks: RowChecks | VectorChecks, **options: Any) -> Learner:
        options = {"epsilon": checks.epsilon, "noise_std": checks.noise_std} | options
        return create_learner("lazy-track-and-stop", self.make(), delta=0.1, **options)

    def _pull(self, checks: RowChecks | VectorChecks, *, seed: int) -> Callable[[Any], float]:
        """Return a function that measures arms with seeded Gaussian noise."""
        rng = np.random.default_rng(seed)
        return lambda arm: checks.mean_of(arm) + checks.noise_std * float(rng.standard_normal())

    def test_arms_as_written(self) -> None:
        """Rows: gather, chunks and copies agree. Vectors: every arm handed out is an arm, and stays as it is."""
        self._checks().arms_as_written()

    def test_rounds_span(self) -> None:
        """Rows: the triangle is that of all rows. Vectors: each round spans, and depends on number and seed alone."""
        self._checks().span()

    def test_best_arm(self) -> None:
        """No arm is better than the best; ties always go to the same arm, in a list of rows to the first."""
        self._checks().best()

    def test_most_confusing_arm(self) -> None:
        """No arm is harder to tell from the best than the set says."""
        self._checks().most_confusing()

    def test_units(self) -> None:
        """Other units of rewards and of information change the numbers as they should, and no answer."""
        self._checks().units()

    def test_extreme_estimates(self) -> None:
        """An estimate of zero and information that is hardly there in some direction are answered with numbers."""
        self._checks().extremes()

    def test_refusals(self) -> None:
        """The set refuses vectors that are no arms with `InvalidInput`, and epsilon = 0 if it needs slack."""
        checks = self._checks()
        checks.refusals()
        learner = self._learner(checks)
        must_refuse(lambda: learner.tell("no arm", 0.0), "tell('no arm', 0.0)")
        if checks.needs_slack:
            must_refuse(lambda: self._learner(checks, epsilon=0.0), "a learner with epsilon = 0")

    def test_log_replays(self) -> None:
        """A learner that goes through the log of another asks for the same arms and decides the same, bit for bit."""
        checks = self._checks()
        first = self._learner(checks)
        pull = self._pull(checks, seed=11)
        asked: list[Any] = []
        for n in (1, 3, 2, 7, 1, 1, 5) * 12:
            batch = first.next_arms(n)
            asked += batch
            for place, arm in enumerate(reversed(batch)):  # results come back in any order, and some are lost
                if (len(asked) + place) % 13 == 5:
                    first.fail(arm)
                else:
                    first.tell(arm, pull(arm))
            _ = first.decision.best  # reading must change nothing
            if first.stopped:
                break
        second = self._learner(checks)
        again: list[Any] = []
        for event in first.log[1:]:
            if event[0] == "ask":
                again += second.next_arms(len(event[1]))
            elif event[0] == "tell":
                second.tell(event[1], event[2])
            else:
                second.fail(event[1])
        assert as_tuples(again) == as_tuples(asked), "a learner that went through the log asked for other arms"
        assert state_of(second) == state_of(first), "a learner that went through the log decides otherwise"
        first.replay(first.log)
        assert state_of(second) == state_of(first), "the learner itself decides otherwise after a replay of its log"
        assert as_tuples(second.next_arms(9)) == as_tuples(first.next_arms(9)), "the same log, but other arms come next"

    def test_identification(self) -> None:
        """An identification with little noise ends, and its answer is within epsilon of the best."""
        checks = self._checks()
        result = identify(
            self.make(),
            self._pull(checks, seed=12),
            delta=0.01,
            noise_std=checks.noise_std,
            epsilon=checks.epsilon,
            max_pulls=self.max_pulls,
        )
        assert result.stopped, f"no answer after {result.n_pulls} pulls: {result.explain()}"
        assert result.guarantee == "proved"
        assert result.n_pulls == sum(result.counts.values()) == len(result.history)
        loss = checks.best_mean() - checks.mean_of(result.best)
        assert loss <= result.epsilon + 1e-9, f"the answer loses {loss:g} to the best, epsilon is {result.epsilon:g}"


def _lacking(made: object, protocol: type) -> str:
    """Return the names of the members that an object would need to have as well."""
    names = sorted(name for name in {*vars(protocol), *protocol.__annotations__} if not name.startswith("_"))
    return ", ".join(name for name in names if not hasattr(made, name))
