"""Sentences of the library in the words of the shell: `noise_std` is --noise-std there, and `void` is surepick void.

The library names options as Python spells them; the command line translates what it prints, here and nowhere else.
"""

import re
import shlex
from collections.abc import Callable
from typing import Any

from surepick.learning.spec import OPTIONS

_OTHERS = [
    "stopping", "audit", "history", "max_pulls", "lease", "reason", "worker", "join", "retire", "arms", "trust",
    "group", "name_column", "features", "drop", "interactions", "quadratic", "formula", "intercept", "on_span", "sheet",
    "gap", "theta", "pilot", "option_column", "value_column",
]  # fmt: skip
_FLAGS = {
    **{name: f"--{(option.flag or name).replace('_', '-')}" for name, option in OPTIONS.items()},
    **{name: f"--{name.replace('_', '-')}" for name in _OTHERS},
    "cost_column": "--costs",
    "noise_column": "--noise-std",
}
"""Options of Python functions, and the flags of commands that set them."""
_COMMANDS = {
    **{name: f"surepick {name}" for name in ("void", "correct", "restore", "fail", "tell")},
    "noise_from_replicates": "surepick noise",
}
_OF_ALGORITHM = ("variant", "elimination", "tracking", "schedule", "selection", "optimism", "design", "regularizer")
"""Options of algorithms that sentences name; `--option NAME=VALUE` sets them."""
_NAMES = "|".join(map(re.escape, [*_FLAGS, *_OF_ALGORITHM]))


def _set(name: str, value: str) -> str:
    """Return how the shell sets an option."""
    if name == "rewards":
        return _FLAGS[name]
    return f"{_FLAGS[name]} {shlex.quote(value)}" if name in _FLAGS else f"--option {name}={value}"


def _bare(found: re.Match[str]) -> str:
    return _FLAGS[found[1]] + (" " if found[0].endswith("= ") else "")


_RULES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    # In double quotes, as advice is written: a name such as "m=1" may be an arm's.
    (re.compile(rf'(?<![\w.-])({_NAMES})="([^"]*)"'), lambda found: _set(found[1], found[2])),
    (re.compile(r"`(\w+)`"), lambda found: {**_FLAGS, **_COMMANDS}.get(found[1], found[0])),
    # With an underscore a word is a name of Python's, also without quotes.
    (re.compile(r"(?<![\w.'\"-])(noise_std|reward_range|max_pulls)\b(?: = )?"), _bare),
)


def in_shell(text: str) -> str:
    """Return a sentence of the library as people at the command line need it."""
    for pattern, said in _RULES:
        text = pattern.sub(said, text)
    return text


def needed_arguments(context: Any) -> str:
    """Return the arguments that a command needs, as its help names them, such as FILE.html; "" if it needs none."""
    params = [] if context is None else context.command.params
    needed = [one for one in params if one.param_type_name == "argument" and one.required]
    return " ".join(one.metavar or one.name.upper() for one in needed)
