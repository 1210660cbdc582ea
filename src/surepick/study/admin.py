"""Studies by name: create, load, list, copy and delete them."""

import getpass
import json
import secrets
from datetime import timedelta
from pathlib import Path
from typing import Any, Unpack

from surepick._texts import check_line
from surepick._version import __version__
from surepick.arms.base import VectorSet
from surepick.arms.finite import as_arms
from surepick.arms.registry import read_arms, write_arms
from surepick.errors import InvalidInput
from surepick.learning.noise_models import NoiseModel, spelled
from surepick.learning.spec import DEFAULTS, TaskOptions, takes_options
from surepick.study import events
from surepick.study.eras import changed_options, described, earlier_of, learner_of
from surepick.study.events import Kind, canonical, check_chain, rows_of
from surepick.study.log import lease_length
from surepick.study.state import State
from surepick.study.storage import Storage, open_storage
from surepick.study.storage.base import check_name, no_fork, study_exists
from surepick.study.study import Study

DEFAULT_STORAGE = "surepick.db"
"""An SQLite file in the working directory."""
DEFAULT_LEASE = "1d"

Address = str | Path | Storage


@no_fork()  # a module that is being imported is locked
@takes_options
def create_study(
    name: str,
    *,
    arms: Any,
    candidates: Any = None,
    algorithm: str = DEFAULTS["algorithm"],
    storage: Address = DEFAULT_STORAGE,
    lease: str | float | timedelta | None = DEFAULT_LEASE,
    author: str | None = None,
    **options: Unpack[TaskOptions],
) -> Study:
    """Begin a study: an experiment that is kept, event by event, in a database.

    Args:
        name: of the study in its storage.
        arms: what may be measured, as for `identify`. A table is kept in the log, a large file by its hash.
        candidates: what is compared, if not the arms: rows with the same features, never measured.
        algorithm: by name.
        storage: path of an SQLite file, "sqlite:///lab.db", "postgresql://user@host/database", "memory:", or an open
            storage.
        lease: how long an ask is kept for who asked: "30m", "2h", "3d", seconds, or None for ever.
        author: who is said to have done what is done through this object; default: the user of this machine.
        options: see `Spec`; they are fixed from now on.

    Raises:
        StudyExists: there is a study of that name.
        InvalidInput: a learner with these options is not possible; nothing was created.
    """
    length = lease_length(lease)
    by = user() if author is None else author
    if not isinstance(by, str):  # not everyone checks types
        raise InvalidInput(f"`author` must be a text, got {by!r}.")
    check_line("the name of an author", by)
    if isinstance(name, str):  # whatever else the storage refuses
        check_line("the name of a study", name)
    written = write_arms(arms if isinstance(arms, VectorSet) else as_arms(arms))
    of_candidates = None if candidates is None else write_arms(candidates)
    given: dict[str, Any] = {"algorithm": algorithm, **options}
    if isinstance(given.get("noise"), NoiseModel):
        given |= {"noise": DEFAULTS["noise"], **spelled(given["noise"])}
    kept = changed_options({**DEFAULTS, "own": {}}, given)
    # Of what the log has, as it will be read: what cannot be read back is refused now.
    read_back = json.loads(canonical({"options": kept}))["options"]
    again = None if of_candidates is None else read_arms(of_candidates)
    learner = learner_of(read_arms(written), again, read_back, earlier_of(read_back))
    event = {
        "n": 1,
        "at": events.written(events.now()),
        "by": by,
        "kind": Kind.CREATED.value,
        "name": name,
        "version": __version__,
        "arms": written,
        "candidates": of_candidates,
        "options": kept,
        **described(learner),
        "lease": lease if length is None or isinstance(lease, str) else length.total_seconds(),
    }
    place = open_storage(storage)
    (row,) = rows_of([canonical(event)])
    place.create(name, [row])
    return Study(place, name, author=by, created=State(json.loads(row.text), row.hash, learner=learner))


def load_study(name: str | None = None, storage: Address = DEFAULT_STORAGE, *, author: str | None = None) -> Study:
    """Return a study that exists, as its log says it is.

    Args:
        name: of the study; may be left out if the storage has only one.
        storage: as for `create_study`.
        author: as for `create_study`.

    Raises:
        NoSuchStudy: with the names there are.
        CorruptLog: an event was changed, or is missing.
    """
    place = open_storage(storage, may_create=False)
    if name is None:
        names = place.names()
        if len(names) != 1:
            listed = ", ".join(map(repr, names[:8])) if names else "none"
            raise InvalidInput(f"a study must be named, since {place.address} has {listed}.")
        name = names[0]
    return Study(place, name, author=user() if author is None else author)


def list_studies(storage: Address = DEFAULT_STORAGE) -> list[str]:
    """Return the names of all studies."""
    return open_storage(storage, may_create=False).names()


def copy_study(
    name: str,
    to: str,
    *,
    storage: Address = DEFAULT_STORAGE,
    to_storage: Address | None = None,
    author: str | None = None,
) -> Study:
    """Copy a study, event by event, to another name or another storage. Hashes stay: they say what happened when.

    Both logs get an event that says so, with one random fork id: a certificate lists the forks of its log.

    Raises:
        StudyExists: there is a study of the new name; neither log has changed.
    """
    check_line("the name of a study", to)
    place = open_storage(storage, may_create=False)
    place.n_events(name)  # a name that is not there makes no new file
    target = place if to_storage is None else open_storage(to_storage)
    check_name(to)
    if to in target.names():
        raise study_exists(to, target.address)
    fork = {
        "at": events.written(events.now()),
        "by": user() if author is None else author,
        "kind": Kind.COPIED.value,
        "fork": secrets.token_hex(8),
        "study": name,
    }
    # The original is marked first: a crash between the two leaves a mark without a copy, and no copy without a mark.
    with place.writing(name) as writer:
        rows = writer.read()
        check_chain(rows)
        n, last = len(rows) + 1, rows[-1].hash
        original, copy = (
            rows_of([canonical({**fork, "n": n, "is_copy": is_copy})], last, n) for is_copy in (False, True)
        )
        writer.append(original)
    target.create(to, [*rows, *copy])
    return load_study(to, target)


def delete_study(name: str, storage: Address = DEFAULT_STORAGE) -> None:
    """Remove a study and all its events, for good."""
    open_storage(storage, may_create=False).delete(name)


def user() -> str:
    """Who uses this machine; "" where it has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without such a user
        return ""
