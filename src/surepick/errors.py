"""Exceptions: every error surepick raises on purpose, one docstring each.

An error text says what was needed, what came, and what to do about it.
"""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any


class SurepickError(Exception):
    """Base of every error raised on purpose, so that one `except` catches them all."""


class InvalidInput(SurepickError, ValueError):
    """An argument cannot be used: wrong shape, not finite, outside its range."""


class BadLines(InvalidInput):
    """Lines of a file cannot be used, so nothing of the file is recorded.

    Args:
        title: the file.
        problems: one for each line, which begins with its place.
    """

    def __init__(self, title: str, problems: Sequence[str]) -> None:
        super().__init__(title, problems)
        self.title, self.problems = title, problems

    def __str__(self) -> str:
        return f"{self.title}: nothing is recorded. {'; '.join(self.problems)}."


class ArmsDoNotSpan(InvalidInput):
    """The arms leave some direction of the feature space unmeasured, so theta cannot be estimated."""


class TiedArms(InvalidInput):
    """Two different arms are equally good, so no number of pulls can tell which one is best."""


class StudyExists(InvalidInput):
    """A study of that name is there already."""


class NoSuchStudy(InvalidInput):
    """There is no study of that name."""


class StorageError(SurepickError):
    """The database cannot be used now: locked for too long, full, read-only, gone, or not what its address says.

    Nothing is ever half written: what was being done is either on record as a whole, or not at all.
    """


class OutcomeUnknown(StorageError):
    """The connection was lost while events were being committed: they are on record all together, or none of them is.

    Reading the log again tells which.
    """


class CorruptLog(StorageError):
    """Events are not what was once written: a number or a hash does not follow from the event before."""


class Skipped(SurepickError):
    """Raised by a `pull` function when a measurement was lost: the arm will be asked for again.

    A dropped plate is a reason, and so is anything that other measurements said; the value of this one is not: a value
    that was seen, however implausible, must be returned.
    """


class Conflict(InvalidInput):
    """Two things were said of the same: another value for an ask that has its result, or another use of a key."""


class NotCertified(SurepickError):
    """A design's proved gap is larger than the caller can accept."""


class NotEnoughData(SurepickError):
    """The pulls so far do not determine what was asked for."""


class PullFailed(SurepickError):
    """A measurement, or the callback after it, failed; what was learnt before is not lost.

    Attributes:
        arm: the arm that was to be measured.
        result: the result of all pulls before the failure; `result.history` can be handed to the next call.
    """

    # Plain defaults, so that the error survives being sent between processes.
    def __init__(self, message: str, arm: object = None, result: Any = None) -> None:
        super().__init__(message)
        self.arm = arm
        self.result = result


class NoiseWarning(UserWarning):
    """The rewards scatter more than `noise_std` allows, so a guarantee that rests on it does not hold.

    Or replicates say that options are not equally noisy, so one `noise_std` does not describe them. Or residuals do not
    look like the normal noise of one level that a guarantee without `noise_std` assumes.
    """


class TableWarning(UserWarning):
    """Some columns of a data frame were taken for no feature: a price, a date, a remark, or a numbering."""


class ModelWarning(UserWarning):
    """The rewards contradict "the mean is linear in the features", so no answer that rests on it can be defended."""


class EntryWarning(UserWarning):
    """A value was recorded that raises a question: was it mistyped, or are all values pass or fail?"""


def listed(words: Sequence[str], *, between: str = ", ", last: str = " and ", most: int = 12, room: int = 240) -> str:
    """Return words as one text, such as "a, b and c", or "a, b and 12 more" where they are many or long.

    Args:
        words: at least one.
        between: between two words.
        last: before the last word.
        most: how many of the words are said.
        room: about how many characters they may take.
    """
    short = [word if len(word) <= room else f"{word[: room - 3]}..." for word in words[:most]]
    while len(short) > 1 and sum(map(len, short)) > room:
        short.pop()
    if len(short) < len(words):
        return f"{between.join(short)} and {len(words) - len(short):,} more"
    return between.join(short) if len(short) < 2 else f"{between.join(short[:-1])}{last}{short[-1]}"


def nearest(unknown: str, names: Sequence[str], *, cutoff: float = 0.5) -> str | None:
    """Return the known name that was probably meant by an unknown one; `cutoff`: least likeness, 1 for equal texts."""
    same = [name for name in names if name.casefold() == unknown.casefold()]
    return next(iter(same or difflib.get_close_matches(unknown, names, n=1, cutoff=cutoff)), None)


def or_nearest(unknown: str, names: Sequence[str]) -> str:
    """Return the end of a sentence that lists the known names: the one that was probably meant, if there is one."""
    near = nearest(unknown, names)
    return "." if near is None else f"; did you mean {near!r}?"


def what_was_meant(unknown: str, names: Iterable[str], kind: str, *, most: int = 12) -> str:
    """Return the end of a sentence about an unknown name: the nearest known one, and the others.

    Args:
        unknown: the name.
        names: known names, at least one.
        kind: the word for these, in the plural.
        most: how many of them are said.
    """
    names = list(names)
    near = nearest(unknown, names)
    there_are = f"he {kind} are {listed(names, last=', ', most=most, room=20 * most)}."
    return f"t{there_are}" if near is None else f"did you mean {near!r}? T{there_are}"
