"""A table of a TOML file, checked key by key: what is missing, wrong or unknown is refused in one sentence.

The keys are the fields of a dataclass that are annotated with a `Kind`; those with a default may be left out.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields
from typing import Annotated, Any, NamedTuple, get_type_hints

from surepick.errors import InvalidInput


class Kind(NamedTuple):
    """What a key must be."""

    needed: str
    is_right: Callable[[Any], bool]


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


def matching(pattern: str, needed: str) -> Kind:
    """A text of this form."""
    return Kind(needed, lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None)


NUMBER = Kind("a number", is_number)
TABLE = Kind("a table such as { n_arms = 1000 }", _is_table)
Table = Annotated[Mapping[str, Any], TABLE]
Text = Annotated[str, Kind("a text", lambda value: isinstance(value, str) and value.strip() != "")]
Flag = Annotated[bool, Kind("true or false", lambda value: isinstance(value, bool))]
Count = Annotated[int, count(1)]


def check_table(content: Mapping[str, Any], where: str, kind_of_table: type) -> dict[str, Any]:
    """Return the values of a table, to make such a dataclass of."""
    hints = get_type_hints(kind_of_table, include_extras=True)
    kinds: dict[str, Kind] = {key: hint.__metadata__[0] for key, hint in hints.items() if hasattr(hint, "__metadata__")}
    needed = [one.name for one in fields(kind_of_table) if one.default is one.default_factory is MISSING]
    for key, kind in kinds.items():
        if key not in content and key in needed:
            raise InvalidInput(f"{where}: `{key}` is missing; it must be {kind.needed}.")
        if key in content and not kind.is_right(content[key]):
            raise refused(where, key, kind.needed, content[key])
    unknown = sorted(set(content) - set(kinds))
    if unknown:
        raise InvalidInput(f"{where}: no key `{unknown[0]}` is known; the keys are {', '.join(sorted(kinds))}.")
    return dict(content)


def values_of(value: Any) -> list[Any]:
    """Return what a value stands for: those of a list, or one."""
    return list(value) if isinstance(value, list) else [value]


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
