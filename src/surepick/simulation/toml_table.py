"""A table of a TOML file, checked key by key: what is missing, wrong or unknown is refused in one sentence."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from surepick.errors import InvalidInput


class Kind(NamedTuple):
    """What a key must be."""

    needed: str
    is_right: Callable[[Any], bool]
    default: Any = ...
    """Must be there if left as it is."""

    def or_(self, default: Any) -> "Kind":
        """The same with another default."""
        return self._replace(default=default)


def is_number(value: Any) -> bool:
    """Whether this is a finite number."""
    return type(value) in (int, float) and math.isfinite(value)


def is_list(value: Any, kind: Callable[[Any], bool]) -> bool:
    """Whether this is a list of such values."""
    return isinstance(value, list) and all(map(kind, value))


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def count(least: int) -> Kind:
    """A whole number."""
    return Kind(f"a whole number of at least {least}", lambda value: type(value) is int and value >= least)


def tables(key: str) -> Kind:
    """The entries of a list of tables."""
    needed = f"a list of tables, each headed [[{key}]]"
    return Kind(needed, lambda value: is_list(value, _is_table) and bool(value))


def one_of(names: Iterable[str]) -> Kind:
    """One of these texts."""
    known = list(names)  # whatever came can be looked for in a list
    return Kind(f"one of {', '.join(known)}", lambda value: value in known)


TEXT = Kind("a text", lambda value: isinstance(value, str) and value.strip() != "")
FLAG = Kind("true or false", lambda value: isinstance(value, bool), default=False)
NUMBER = Kind("a number", is_number)
TABLE = Kind("a table such as { n_arms = 1000 }", _is_table, default={})


def read_table(content: Mapping[str, Any], where: str, keys: Mapping[str, Kind]) -> dict[str, Any]:
    """The values of a table, those left out by their default."""
    for key, kind in keys.items():
        if key not in content and kind.default is ...:
            raise InvalidInput(f"{where}: `{key}` is missing; it must be {kind.needed}.")
        if key in content and not kind.is_right(content[key]):
            raise refused(where, key, kind.needed, content[key])
    unknown = sorted(set(content) - set(keys))
    if unknown:
        raise InvalidInput(f"{where}: no key `{unknown[0]}` is known; the keys are {', '.join(sorted(keys))}.")
    return {key: content.get(key, kind.default) for key, kind in keys.items()}


def refused(where: str, key: str, needed: str, came: object) -> InvalidInput:
    """The error for a value that cannot be used."""
    return InvalidInput(f"{where}: `{key}` must be {needed}, got {came!r}.")


@contextmanager
def saying(where: str) -> Iterator[None]:
    """Errors inside say where."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error
