"""Every set of the package keeps the contract that `surepick.testing` ships, and the contract can be broken."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest

from surepick.arms.base import ArmSet, HardestRival, PairScore, Rivals
from surepick.arms.dask import DaskArms
from surepick.arms.ellipsoid import Ellipsoid
from surepick.arms.finite import FiniteArms
from surepick.arms.hypercube import Hypercube
from surepick.arms.mapped import MappedArms
from surepick.arms.sphere import Sphere
from surepick.arms.top_k import TopK
from surepick.testing import ArmSetContract
from surepick.types import Array, BoolArray, IntArray

ROWS = np.random.default_rng(0).standard_normal((60, 3)).round(1)
ROWS[[7, 20, 59]] = ROWS[3]
ROWS[41] = ROWS[40]
AXES = [[1.0, 0.3, 0.0], [0.0, 0.5, 0.1], [0.2, 0.0, 2.0]]


class OddChunks(ArmSet):
    """Rows that come in pieces of 7, 1, 7, 1, ..., with copies found by comparison."""

    def __init__(self, rows: Array) -> None:
        self._rows = rows + 0.0
        self.n_arms, self.dim = rows.shape

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Fancy indexing."""
        gathered: Array = self._rows[np.asarray(index, dtype=np.int64)]
        return gathered

    def chunks(self) -> Iterator[tuple[int, Array]]:
        """Pieces of two lengths."""
        start = 0
        while start < self.n_arms:
            stop = start + (7 if start % 8 == 0 else 1)
            yield start, self._rows[start:stop]
            start = stop

    def copies(self, arm: int) -> IntArray:
        """One comparison with every row."""
        return np.flatnonzero((self._rows == self._rows[arm]).all(axis=1))


class TestFiniteArms(ArmSetContract):
    """A table in memory."""

    def make(self) -> Any:
        """With copies."""
        return FiniteArms(ROWS)


class TestFiniteArmsInOddUnits(ArmSetContract):
    """Features that differ by fourteen orders of magnitude."""

    def make(self) -> Any:
        """The same rows, columns scaled."""
        return FiniteArms(ROWS * [1e-7, 1.0, 1e7])


class TestOddChunks(ArmSetContract):
    """A set written with `ArmSet`, as a user would."""

    def make(self) -> Any:
        """Odd pieces."""
        return OddChunks(ROWS)


class TestMappedNpy(ArmSetContract):
    """Rows in a `.npy` file, read five at a time."""

    @pytest.fixture(autouse=True)
    def _write(self, tmp_path: Path) -> None:
        self.path = tmp_path / "arms.npy"
        np.save(self.path, ROWS)

    def make(self) -> Any:
        """The file."""
        return MappedArms(self.path, chunk_rows=5)


class TestMappedParquet(ArmSetContract):
    """Rows in a Parquet file with short row groups."""

    @pytest.fixture(autouse=True)
    def _write(self, tmp_path: Path) -> None:
        self.path = tmp_path / "arms.parquet"
        pd.DataFrame(ROWS, columns=list("abc")).to_parquet(self.path, row_group_size=11)

    def make(self) -> Any:
        """The file."""
        return MappedArms(self.path)


class TestDaskArms(ArmSetContract):
    """A Dask array in blocks of odd lengths, on the threads of this process."""

    def make(self) -> Any:
        """Blocks of 13 rows."""
        return DaskArms(da.from_array(ROWS, chunks=(13, 2)))


class TestCircle(ArmSetContract):
    """The unit sphere in two dimensions."""

    def make(self) -> Any:
        """All unit vectors."""
        return Sphere(2)


class TestSphere(ArmSetContract):
    """The unit sphere in five dimensions."""

    def make(self) -> Any:
        """All unit vectors."""
        return Sphere(5)


class TestCentredEllipsoid(ArmSetContract):
    """An ellipsoid around 0."""

    def make(self) -> Any:
        """Oblique axes."""
        return Ellipsoid([0.0, 0.0, 0.0], AXES)


class TestEllipsoidElsewhere(ArmSetContract):
    """An ellipsoid that does not contain 0."""

    def make(self) -> Any:
        """Oblique axes."""
        return Ellipsoid([3.0, -1.0, 0.5], AXES)


class TestSmallHypercube(ArmSetContract):
    """Eight arms, all looked at."""

    def make(self) -> Any:
        """Three signs."""
        return Hypercube(3)


class TestLargeHypercube(ArmSetContract):
    """16384 arms, bounded with slack."""

    def make(self) -> Any:
        """Fourteen signs."""
        return Hypercube(14)


class TestTopK(ArmSetContract):
    """Fifteen choices, all looked at; rounds of two circles."""

    def make(self) -> Any:
        """Two of six."""
        return TopK(6, 2)


class TestLargeTopK(ArmSetContract):
    """8008 choices, bounded with slack."""

    def make(self) -> Any:
        """Six of sixteen."""
        return TopK(16, 6)


class Wrapped:
    """A sphere that answers as another one would; the broken sets below change one answer each."""

    needs_slack = True
    description = "the broken sphere"
    dim = 3

    def __init__(self) -> None:
        self.sphere = Sphere(3)

    def best(self, theta: Array) -> Array:
        """As it should be."""
        return self.sphere.best(theta)

    def confusion(self, theta: Array, F: Array, epsilon: float) -> HardestRival:
        """As it should be."""
        return self.sphere.confusion(theta, F, epsilon)

    def cycle(self, number: int, seed: int) -> Array:
        """As it should be."""
        return self.sphere.cycle(number, seed)

    def checked(self, arm: Any) -> Array:
        """As it should be."""
        return self.sphere.checked(arm)


class WorseBest(Wrapped):
    """Returns an arm that is a little off the best."""

    def best(self, theta: Array) -> Array:
        """One percent off."""
        return self.sphere.best(theta + 0.01 * np.linalg.norm(theta) * np.eye(3)[2])


class TooMuch(Wrapped):
    """Reports more evidence than there is."""

    def confusion(self, theta: Array, F: Array, epsilon: float) -> HardestRival:
        """One per mille too much."""
        found = super().confusion(theta, F, epsilon)
        return replace(found, value=1.001 * found.value)


class TooLittle(Wrapped):
    """Reports a lower bound and calls it exact."""

    def confusion(self, theta: Array, F: Array, epsilon: float) -> HardestRival:
        """One per mille too little."""
        found = super().confusion(theta, F, epsilon)
        return replace(found, value=0.999 * found.value)


class WithoutSlackTerm(Wrapped):
    """Has a statistic that does not know about the unit of rewards."""

    def confusion(self, theta: Array, F: Array, epsilon: float) -> HardestRival:
        """Capped, which keeps it a lower bound."""
        found = super().confusion(theta, F, epsilon)
        return replace(found, value=min(found.value, 1.0), is_exact=False)


class NotFinite(Wrapped):
    """Fails where there is nothing to go by."""

    def confusion(self, theta: Array, F: Array, epsilon: float) -> HardestRival:
        """NaN at theta = 0."""
        found = super().confusion(theta, F, epsilon)
        return found if theta.any() else replace(found, value=math.nan)


class Flat(Wrapped):
    """Has a later round that leaves a direction out."""

    def cycle(self, number: int, seed: int) -> Array:
        """Complete only at first."""
        return np.eye(3) if number == 0 else np.eye(3)[[0, 1, 1]]


class Forgetful(Wrapped):
    """Draws its rounds from a generator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng(0)

    def cycle(self, number: int, seed: int) -> Array:
        """In random order."""
        return np.eye(3)[self.rng.permutation(3)]


class Rounding(Wrapped):
    """Changes the last bits of what it is given."""

    def checked(self, arm: Any) -> Array:
        """A little longer every time."""
        return self.sphere.checked(arm) * (1.0 + 4e-16)


class Lenient(Wrapped):
    """Accepts vectors of any length."""

    def checked(self, arm: Any) -> Array:
        """Normalises whatever comes."""
        vector = np.asarray(arm, dtype=np.float64)
        return vector / np.linalg.norm(vector)


class Slackless(Wrapped):
    """Answers epsilon = 0, which has no answer."""

    def confusion(self, theta: Array, F: Array, epsilon: float) -> HardestRival:
        """Zero instead of an error."""
        return (
            HardestRival(0.0, is_exact=False, rival=-self.best(theta))
            if epsilon == 0.0
            else super().confusion(theta, F, epsilon)
        )


class Hesitant(Wrapped):
    """Never finds evidence."""

    def confusion(self, theta: Array, F: Array, epsilon: float) -> HardestRival:
        """Zero, which is a lower bound of anything."""
        return replace(super().confusion(theta, F, epsilon), value=0.0, is_exact=False)


class LastOfEquals(OddChunks):
    """Breaks ties towards the highest row number."""

    def best(self, theta: Array, among: BoolArray | None = None) -> int:
        """The last."""
        copies = self.copies(super().best(theta, among))
        return int(copies[-1] if among is None else copies[among[copies]][-1])


class OwnRival(OddChunks):
    """Takes copies of the leader for its rivals."""

    def copies(self, arm: int) -> IntArray:
        """None but itself."""
        return np.array([arm])


class Lossy(OddChunks):
    """Never looks at its last rows."""

    def chunks(self) -> Iterator[tuple[int, Array]]:
        """All pieces but the last."""
        pieces = list(super().chunks())
        yield from pieces[:-1]


class Sorted(OddChunks):
    """Gathers rows in the order of their numbers."""

    def gather(self, index: Sequence[int] | IntArray) -> Array:
        """Sorted."""
        return super().gather(np.sort(np.asarray(index, dtype=np.int64)))


class Everybody(OddChunks):
    """Takes no notice of a restriction to some rows."""

    def rivals(
        self,
        leader: int,
        theta: Array,
        factors: Sequence[Array],
        score: PairScore,
        n: int,
        among: BoolArray | None = None,
    ) -> Rivals:
        """All rows."""
        return super().rivals(leader, theta, factors, score, n)


def contract(make: Callable[[], object]) -> ArmSetContract:
    """The tests of a set."""

    class Contract(ArmSetContract):
        def make(self) -> object:
            return make()

    return Contract()


@pytest.mark.parametrize(
    ("broken", "caught_by", "says"),
    [
        (WorseBest, "test_best_arm", "is better by"),
        (TooMuch, "test_most_confusing_arm", "must be a lower bound"),
        (TooLittle, "test_most_confusing_arm", "called exact, but the rival has"),
        (WithoutSlackTerm, "test_units", "times 8"),
        (NotFinite, "test_extreme_estimates", "must be finite"),
        (Flat, "test_rounds_span", "do not span"),
        (Forgetful, "test_rounds_span", "another round"),
        (Rounding, "test_arms_as_written", "must return an arm of a round as it is"),
        (Lenient, "test_refusals", "was accepted"),
        (Slackless, "test_refusals", "epsilon = 0 must raise InvalidInput"),
        (Forgetful, "test_log_replays", "rebuilt from its log"),
        (Hesitant, "test_identification", "no answer after"),
    ],
)
def test_a_broken_set_of_vectors_is_caught(broken: type, caught_by: str, says: str) -> None:
    """One wrong answer of a set is found by the test that is about it."""
    with pytest.raises(AssertionError, match=says):
        getattr(contract(broken), caught_by)()


@pytest.mark.parametrize(
    ("broken", "caught_by", "says"),
    [
        (LastOfEquals, "test_best_arm", "the first of the best rows"),
        (OwnRival, "test_most_confusing_arm", "copy of the leader"),
        (Lossy, "test_arms_as_written", "chunks cover 56 of 60"),
        (Sorted, "test_arms_as_written", "returned other rows"),
        (Everybody, "test_most_confusing_arm", "not allowed|must return"),
    ],
)
def test_a_broken_set_of_rows_is_caught(broken: type, caught_by: str, says: str) -> None:
    """The same for rows."""
    with pytest.raises(AssertionError, match=says):
        getattr(contract(lambda: broken(ROWS)), caught_by)()


def test_the_sets_that_are_broken_above_pass_when_they_are_not() -> None:
    """The sphere they are derived from keeps the contract, as odd chunks do above: each fails for its own change."""
    for test in (name for name in dir(ArmSetContract) if name.startswith("test_")):
        getattr(contract(Wrapped), test)()


def test_something_that_is_no_set_is_told_what_it_lacks() -> None:
    """The message names the missing members of both kinds."""
    with pytest.raises(AssertionError, match=r"a set of rows needs best, chunks, .*a set of vectors best, checked"):
        contract(object).test_best_arm()


def test_a_contract_without_a_set_says_so() -> None:
    """`make` must be defined."""
    with pytest.raises(NotImplementedError, match="define `make`"):
        ArmSetContract().test_best_arm()


def test_errors_other_than_invalid_input_are_no_refusal() -> None:
    """A set that stumbles over a bad arm has not refused it."""

    class Stumbling(Wrapped):
        def checked(self, arm: Any) -> Array:
            if isinstance(arm, str):
                raise TypeError("what is that")
            return super().checked(arm)

    with pytest.raises(AssertionError, match="raised TypeError: what is that"):
        contract(Stumbling).test_refusals()
