"""A table of a TOML file, read key by key: what is missing, of the wrong kind or unknown is refused in one sentence."""

import math
from collections.abc import Callable
from typing import Any, TypeVar, final

from surepick.errors import InvalidInput

T = TypeVar("T")
_NEEDED: Any = object()


@final
class TomlTable:
    """One table; `where` says in errors which."""

    def __init__(self, content: dict[str, Any], where: str) -> None:
        self.where = where
        self._content, self._known = content, set[str]()

    def refuse(self, key: str, needed: str, came: object) -> InvalidInput:
        """The error for a value that cannot be used."""
        return InvalidInput(f"{self.where}: `{key}` must be {needed}, got {came!r}.")

    def text(self, key: str, default: str = _NEEDED) -> str:
        """A text that is not empty, unless that is the default."""
        return self._get(key, default, lambda value: isinstance(value, str) and value.strip() != "", "a text")

    def texts(self, key: str) -> list[str]:
        """A list of texts; empty if left out."""
        return self._get(key, [], _list_of(lambda value: isinstance(value, str)), "a list of texts")

    def boolean(self, key: str, *, default: bool) -> bool:
        """True or false."""
        return self._get(key, default, lambda value: isinstance(value, bool), "true or false")

    def count(self, key: str, *, least: int) -> int:
        """A whole number."""
        needed = f"a whole number of at least {least}"
        value: int = self._get(key, _NEEDED, lambda value: type(value) is int and value >= least, needed)
        return value

    def number(self, key: str, default: Any = _NEEDED) -> Any:
        """A number."""
        return self._get(key, default, _is_number, "a number")

    def numbers(self, key: str) -> list[float]:
        """A list of numbers, all different."""
        values = self._get(key, _NEEDED, _list_of(_is_number), "a list of numbers such as [0.05]")
        if not values or len(set(values)) < len(values):
            raise self.refuse(key, "a list of one or more different numbers", values)
        return [float(value) for value in values]

    def table(self, key: str) -> dict[str, Any]:
        """A table in braces; empty if left out."""
        return self._get(key, {}, lambda value: isinstance(value, dict), "a table such as { n_arms = 1000 }")

    def tables(self, key: str, *, needed: bool = True) -> list["TomlTable"]:
        """The entries of a list of tables."""
        is_list = _list_of(lambda value: isinstance(value, dict))
        entries = self._get(key, _NEEDED if needed else [], is_list, f"a list of tables, each headed [[{key}]]")
        if needed and not entries:
            raise self.refuse(key, "a list of one or more tables", entries)
        return [TomlTable(entry, f"{self.where}, [[{key}]] {i}") for i, entry in enumerate(entries, start=1)]

    def apply(self, value: Any, check: Callable[[Any], T]) -> T:
        """The checked value; what the check says is prefixed with the table."""
        try:
            return check(value)
        except InvalidInput as error:
            raise InvalidInput(f"{self.where}: {error}") from error

    def finish(self) -> None:
        """Refuse keys that nobody has asked for."""
        unknown = sorted(set(self._content) - self._known)
        if unknown:
            raise InvalidInput(
                f"{self.where}: no key `{unknown[0]}` is known; the keys are {', '.join(sorted(self._known))}."
            )

    def _get(self, key: str, default: T, is_right: Callable[[Any], bool], needed: str) -> T:
        self._known.add(key)
        if key not in self._content:
            if default is _NEEDED:
                raise InvalidInput(f"{self.where}: `{key}` is missing; it must be {needed}.")
            return default
        value: T = self._content[key]
        if not is_right(value):
            raise self.refuse(key, needed, value)
        return value


def _list_of(is_right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(is_right, value))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)
