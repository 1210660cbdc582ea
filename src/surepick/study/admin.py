"""Studies by name: create, load, list, copy and delete them."""

import getpass
import json
import reprlib
import secrets
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Unpack

from surepick._texts import check_line, shown
from surepick._version import __version__
from surepick.algorithms import check_options
from surepick.arms.base import VectorSet
from surepick.arms.finite import as_arms
from surepick.arms.registry import Written, read_arms, write_arms
from surepick.core.design.solve import as_candidates
from surepick.errors import InvalidInput, StudyExists
from surepick.learning.groups import WORKER
from surepick.learning.noise_models import NoiseModel, spelled
from surepick.learning.spec import DEFAULTS, KEPT, TaskOptions, takes_options
from surepick.study import events
from surepick.study.eras import changed_options, described, earlier_of, learner_of
from surepick.study.events import Kind, canonical, check_chain, rows_of
from surepick.study.log import LOGGER, lease_length
from surepick.study.remote import HttpStorage, RemoteStudy
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
def create_study(  # noqa: PLR0913 (every argument is an option of its own)
    name: str,
    *,
    arms: Any,
    candidates: Any = None,
    algorithm: str = DEFAULTS["algorithm"],
    storage: Address = DEFAULT_STORAGE,
    lease: str | float | timedelta | None = DEFAULT_LEASE,
    author: str | None = None,
    load_if_exists: bool = False,
    group_by: Literal["worker"] | None = None,
    **options: Unpack[TaskOptions],
) -> Study:
    """Begin a study: an experiment that is kept, event by event, in a database.

    Args:
        name: of the study in its storage.
        arms: what may be measured, as for `identify`. A table is kept in the log, a large file by its hash.
        candidates: what is compared, if not the arms: rows with the same features, never measured.
        algorithm: by name.
        storage: path of an SQLite file, "sqlite:///lab.db", "postgresql://user@host/database", "http://host:8080" for
            a server, "memory:", or an open storage.
        lease: how long an ask is kept for who asked: "30m", "2h", "3d", seconds, or None for ever.
        author: who is said to have done what is done through this object; default: the user of this machine.
        load_if_exists: whether to go on with a study of that name, if it has the same arms and options.
        group_by: "worker" makes the worker who tells a result a factor of its label, beside the label that is given.
        options: see `Spec`; they are fixed from now on.

    Raises:
        StudyExists: there is a study of that name; with `load_if_exists`, one of other arms or options.
        InvalidInput: a learner with these options is not possible; nothing was created.
    """
    check_options(options, algorithm, create_study)
    length = lease_length(lease)
    if group_by not in (None, WORKER):
        raise InvalidInput(f'`group_by` must be "worker" or None, got {reprlib.repr(group_by)}.')
    by = _checked_author(author)
    if isinstance(name, str):  # whatever else the storage refuses
        check_line("the name of a study", name)
    written, of_candidates = _written(arms, candidates)
    given: dict[str, Any] = {"algorithm": algorithm, **options}
    if isinstance(given.get("noise"), NoiseModel):
        given |= {"noise": DEFAULTS["noise"], **spelled(given["noise"])}
    kept = changed_options({**KEPT, "own": {}}, given)
    # Of what the log has, as it will be read: what cannot be read back is refused now.
    read_back = json.loads(canonical({"options": kept}))["options"]
    again = None if of_candidates is None else read_arms(of_candidates, spans=False)
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
        **({} if group_by is None else {"group_by": group_by}),
    }
    place = open_storage(storage)
    (row,) = rows_of([canonical(event)])
    created = State(json.loads(row.text), row.hash, learner=learner)
    try:
        place.create(name, [row])
    except StudyExists:
        if not load_if_exists:
            raise
        study = _study(place, name, by)
        if differ := difference(study.state, created):
            raise StudyExists(
                f"there is a study {name!r} in {place.address} already, of other arms or options ({differ}); pass "
                "those, load it by `load_study`, change it by `study.reopen`, or choose another name."
            ) from None
        return study
    LOGGER.info("study %s: created in %s by %s", name, shown(place.address), by)
    return _study(place, name, by, created)


def _checked_author(author: str | None) -> str:
    by = user() if author is None else author
    if not isinstance(by, str):  # not everyone checks types
        raise InvalidInput(f"`author` must be a text, got {by!r}.")
    check_line("the name of an author", by)
    return by


def _written(arms: Any, candidates: Any) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return arms and candidates as the log has them."""
    own = arms if isinstance(arms, VectorSet) else as_arms(arms)
    written = write_arms(own)
    if not (candidates is None or isinstance(own, VectorSet)):
        candidates = as_candidates("candidates", candidates, own)
    return written, None if candidates is None else write_arms(candidates)


def _study(place: Storage, name: str, author: str, created: State | None = None) -> Study:
    """Return a study of a storage; the server of a remote one has written an event of its own."""
    if isinstance(place, HttpStorage):
        return RemoteStudy(place, name, author=author)
    return Study(place, name, author=author, created=created)


def difference(there: State, here: State) -> str:
    """Say how a study differs in arms and options from another; "" if it does not.

    Args:
        there: the study that exists, in its present era.
        here: the study that is wanted.
    """
    known, wanted = _described(there), _described(here)
    sets = [(name, known.pop(name), wanted.pop(name)) for name in ("arms", "candidates")]
    said = [_unlike_arms(*one) for one in sets if not _are_same(*one[1:])]
    plain = [name for name in {**wanted, **known} if known.get(name) != wanted.get(name)]
    if plain:
        other, own = (" ".join(f"{name}={reprlib.repr(one.get(name))}" for name in plain) for one in (known, wanted))
        said.insert(0, f"{other} instead of {own}")
    return "; ".join(said)


def _described(state: State) -> dict[str, Any]:
    """Return options and arms of a study by name; options that are younger than its log have their defaults."""
    options = {**KEPT, **state.options, "earlier": earlier_of(state.options), "lease": state.lease}
    options["group_by"] = state.group_by
    own = options.pop("own")
    return {**options, **own, "arms": state.catalog.written, "candidates": state.catalog.candidates}


def _are_same(there: Written | None, here: Written | None) -> bool:
    if there is None or here is None:
        return there is here
    shared = (there.keys() & here.keys()) - {"path", "table"}  # a file may move, remarks may change
    return all(there[key] == here[key] for key in shared)


def _unlike_arms(what: str, there: Written | None, here: Written | None) -> str:
    """Say how two sets of arms, or of candidates, as logs have them, differ."""
    if there is None or here is None:
        return f"{what} {'not given' if there is None else 'given'} there"
    if (kinds := (there["kind"], here["kind"])) != ("finite", "finite"):
        return f"{what} of the kind {kinds[0]!r} instead of {kinds[1]!r}" if kinds[0] != kinds[1] else f"other {what}"
    if (n := (len(there["rows"]), len(here["rows"])))[0] != n[1]:
        return f"{n[0]} {what} instead of {n[1]}"
    if there["features"] != here["features"]:
        listed = [reprlib.repr(", ".join(one["features"])) for one in (there, here)]
        return f"features of the {what} {listed[0]} instead of {listed[1]}"
    if there["names"] != here["names"]:
        names = [one["names"] or range(n[0]) for one in (there, here)]
        row = next((row for row in range(n[0]) if names[0][row] != names[1][row]), 0)
        return f"{what}: row {row} is called {names[0][row]} instead of {names[1][row]}"
    row = next((row for row in range(n[0]) if there["rows"][row] != here["rows"][row]), 0)
    return f"{what}: row {row} has the features {there['rows'][row]} instead of {here['rows'][row]}"


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
    return _study(place, name, user() if author is None else author)


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
    if isinstance(target, HttpStorage):
        target.writing(to)  # refused before the original is marked
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
