"""Commands about studies: how each is registered, and the options that say which study it is about.

A command is a function of a module of this package under `@command`. Its options are its arguments, and its help is its
docstring: the first sentence stands in the list of commands.
"""

import getpass
import os
import re
import shlex
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surepick._texts import control_in
from surepick.cli.options import grouped, says
from surepick.errors import InvalidInput, SurepickError
from surepick.learning.groups import FACTOR, GroupLabel, group_label
from surepick.reporting.study_words import typed_group

if TYPE_CHECKING:
    from surepick.study.storage import Storage
    from surepick.study.study import Study


TITLE = "Studies: experiments in a file, for several people and many days"
MODULES = ("ask_tell", "inspect", "admin")
"""In the order of the help."""
COMMANDS: dict[str, Callable[..., int]] = {}
"""By name; `add_to` fills it."""
TAKES_NUMBERS = {"ignore_unknown_options": True}
"""Settings of a command with values as arguments: -0.5 is a value and no option."""

DEFAULT = "surepick.db"
OF_STORAGE, OF_STUDY = "SUREPICK_STORAGE", "SUREPICK_STUDY"


def command(function: Callable[..., int]) -> Callable[..., int]:
    """Register a command under the name of its function, up to the first underscore."""
    made = grouped(function)
    COMMANDS[function.__name__.partition("_")[0]] = made
    return made


def add_to(app: typer.Typer) -> None:
    """Add all commands about studies to the command line."""
    for module in MODULES:
        import_module(f"{__name__}.{module}")
    for name, function in COMMANDS.items():
        takes_numbers = "values" in function.__annotations__ or "value" in function.__annotations__
        app.command(name, context_settings=TAKES_NUMBERS if takes_numbers else None)(function)


def who_am_i() -> str:
    """Return the name of the user at this machine."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):  # a container without such a user
        return socket.gethostname()


def complete_studies(context: typer.Context, incomplete: str) -> list[str]:
    """Return names of studies, for shells that complete words."""
    try:
        with StorageOptions(storage=context.params.get("storage")).opened() as storage:
            return [name for name in storage.names() if name.startswith(incomplete) and control_in(name) is None]
    except (SurepickError, OSError):  # a shell that completes has nowhere to say why not
        return []


@dataclass(frozen=True, kw_only=True)
class StorageOptions:
    """Storage of studies, and the author of events."""

    storage: Annotated[
        str | None,
        says(
            f"Where studies are kept: a file, or the URL of a database or server (default: {DEFAULT} in this folder).",
            envvar=OF_STORAGE,
        ),
    ] = None
    author: Annotated[str | None, says("Your name in the log (default: user@machine).", "--author", "--worker")] = None

    @property
    def address(self) -> str:
        """A path or a URL."""
        address = self.storage or DEFAULT
        if address.startswith("memory:"):
            raise InvalidInput("a storage in memory ends with this command; give --storage a file, such as lab.db.")
        return address

    @property
    def file(self) -> Path | None:
        """The file of the storage; None for a server."""
        from surepick.study.storage import file_of  # noqa: PLC0415 (`--help` stays quick)

        return file_of(self.address)

    @property
    def exists(self) -> bool:
        """Whether the file exists; a server always does."""
        return self.file is None or self.file.exists()

    @property
    def who(self) -> str:
        """The author of events."""
        return who_am_i() if self.author is None else self.author

    @contextmanager
    def opened(self, *, may_create: bool = False) -> "Iterator[Storage]":
        """Open the storage; `may_create` allows a new file."""
        from surepick.study.storage import open_storage  # noqa: PLC0415 (`--help` stays quick)

        if not self.exists and not may_create:
            raise InvalidInput(
                f"there is no file {self.file}; go to the folder of your studies, name it by --storage, "
                "or begin one: surepick create arms.csv."
            )
        storage = open_storage(self.address)
        try:
            yield storage
        finally:
            storage.close()

    def command(self, words: str, storage: "Storage", name: str) -> str:
        """Return the next command to type, with the options that lead to this study."""
        more, note = [], ""
        if self.storage not in (None, os.environ.get(OF_STORAGE)):
            if self.file is None and re.search(r"//[^@/]*:.*@|password", self.storage, re.DOTALL | re.IGNORECASE):
                note = f" (with the address of the database in {OF_STORAGE})"  # a password is not shown
            else:
                more += ["--storage", storage.address if self.file else self.storage]
        if os.environ.get(OF_STUDY) != name and storage.names() != [name]:
            more += ["--study", name]
        return f"surepick {words}{' ' if more else ''}{shlex.join(more)}{note}"


@dataclass(frozen=True, kw_only=True)
class StudyOptions(StorageOptions):
    """A study in a storage, and the author of events."""

    study: Annotated[
        str | None,
        says(
            "Name of the study (default: the only one there).",
            envvar=OF_STUDY,
            autocompletion=complete_studies,
        ),
    ] = None

    @contextmanager
    def loaded(self) -> "Iterator[Study]":
        """Load the study."""
        from surepick.study.admin import load_study  # noqa: PLC0415 (`--help` stays quick)

        with self.opened() as storage:
            yield load_study(self.study or _only(storage), storage, author=self.who)

    def next(self, words: str, study: "Study") -> str:
        """Return the next command to type about the same study."""
        worker = None
        if words.startswith(("ask", "tell", "correct")):
            worker = self.author or (_only_worker(study) if words.startswith("ask") else None)
        more = group_flags(study) if words.startswith("ask") else []
        more += [] if worker is None else ["--worker", worker]
        return self.command(f"{words}{' ' if more else ''}{shlex.join(more)}", study.storage, study.name)


def _only_worker(study: "Study") -> str | None:
    """Return the worker of all asks so far, if it was named: an ask under another name would begin another bench.

    Names like user@machine, or machine:process of a program, were not given and are of the machine that asked.
    """
    workers = {one.by for one in study.state.attempts.values()}
    return next((name for name in workers if not {*"@:"} & {*name}), None) if len(workers) == 1 else None


def group_flags(study: "Study") -> list[str]:
    """Return the options that label a measurement, each level in capitals; none if no label is needed or known.

    A study with offsets of groups needs the label of every measurement. Its last label says which factors it has.
    """
    state = study.state
    if not study.learner.spec.has_offsets or state.group_by is not None:
        return []
    last = next((one.group for one in reversed(state.measurements) if one.group), (("day", ""),))
    levels = [factor.upper() if factor == FACTOR else f"{factor}={factor.upper()}" for factor, _ in last]
    return [word for level in levels for word in ("--group", level)]


Groups = Annotated[
    list[str] | None,
    says('Where and when it is measured: "day 3", or day=3; give --group once for each of day, bench, plate, ...'),
]


@dataclass(frozen=True, kw_only=True)
class GroupOptions:
    """Where and when values were measured."""

    group: Groups = None
    group_column: Annotated[
        list[str] | None,
        says("Title of a column of the file that says where or when a value was measured; may be given several times."),
    ] = None

    @property
    def of_file(self) -> dict[str, Any]:
        """The arguments of a call that reads a file."""
        return {"group": group_of(self.group), "group_columns": tuple(self.group_column or ())}


def group_of(texts: list[str] | None) -> GroupLabel:
    """Return the label that options say: each a factor with its level, or a text."""
    return group_label([pair for text in texts or () for pair in (typed_group(text) or group_label(text))])


def _only(storage: "Storage") -> str:
    names = storage.names()
    if not names:
        raise InvalidInput(f"{storage.address} has no study yet; begin one: surepick create arms.csv.")
    if len(names) > 1:
        listed = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        raise InvalidInput(f"{storage.address} has {len(names)} studies, {listed}; say which by --study NAME.")
    return names[0]
