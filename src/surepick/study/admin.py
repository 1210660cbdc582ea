"""Studies by name: create, load, list, copy and delete them."""

import getpass
import json
import secrets
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from numpy.typing import ArrayLike

from surepick._texts import check_line
from surepick._version import __version__
from surepick.arms.base import VectorSet
from surepick.arms.finite import as_arms
from surepick.arms.registry import read_arms, write_arms
from surepick.errors import InvalidInput
from surepick.study import clock
from surepick.study.eras import changed_options, described, earlier_of, learner_of
from surepick.study.events import Kind, canonical, check_chain, rows_of
from surepick.study.forks import no_fork
from surepick.study.state import State
from surepick.study.storage import Storage, open_storage
from surepick.study.storage.base import check_name, study_exists
from surepick.study.study import Study

DEFAULT_STORAGE = "surepick.db"
"""An SQLite file in the working directory."""
DEFAULT_LEASE = "1d"

Address = str | Path | Storage


@no_fork()  # a module that is being imported is locked
def create_study(  # noqa: PLR0913 (every argument is an option of its own)
    name: str,
    *,
    arms: Any,
    delta: float = 0.05,
    noise_std: float | ArrayLike | None = None,
    noise: Literal["same", "per-arm", "symmetric"] = "same",
    reward_range: tuple[float, float] | None = None,
    rewards: Literal["binary"] | None = None,
    epsilon: float = 0.0,
    misfit: float = 0.0,
    m: int = 1,
    costs: ArrayLike | None = None,
    budget: float | None = None,
    candidates: Any = None,
    model: Literal["linear", "unstructured"] = "linear",
    algorithm: str = "lazy-track-and-stop",
    seed: int = 0,
    earlier: Literal["evidence", "guidance"] = "guidance",
    storage: Address = DEFAULT_STORAGE,
    lease: str | float | timedelta | None = DEFAULT_LEASE,
    author: str | None = None,
    **options: Any,
) -> Study:
    """Begin a study: an experiment that is kept, event by event, in a database.

    Args:
        name: of the study in its storage.
        arms: what may be measured, as for `identify`. A table is kept in the log, a large file by its hash.
        delta: risk.
        noise_std: as for `identify`, and so are all options down to `seed`; they are fixed from now on.
        noise: see above.
        reward_range: see above.
        rewards: see above.
        epsilon: see above.
        misfit: see above.
        m: see above.
        costs: see above.
        budget: see above.
        candidates: see above.
        model: see above.
        algorithm: by name.
        seed: of whatever the algorithm draws.
        earlier: what results are that are told before the first ask. "guidance" (default): plans and bets rest on them,
            and no claim does; rules that count every result, such as evidence, refuse them. "evidence": they count. Say
            so only if arms, candidates and every option were fixed before the first of these results was seen; each arm
            was chosen from results before it; none is left out; in the order of measuring.
        storage: path of an SQLite file, "sqlite:///lab.db", "postgresql://user@host/database", "memory:", or an open
            storage.
        lease: how long an ask is kept for who asked: "30m", "2h", "3d", seconds, or None for ever.
        author: who is said to have done what is done through this object; default: the user of this machine.
        **options: of the algorithm, such as `stopping="evidence"`.

    Raises:
        StudyExists: there is a study of that name.
        InvalidInput: a learner with these options is not possible; nothing was created.
    """
    given: dict[str, Any] = {
        "delta": delta, "noise_std": noise_std, "noise": noise, "reward_range": reward_range, "rewards": rewards,
        "epsilon": epsilon, "misfit": misfit, "m": m, "costs": costs, "budget": budget, "model": model,
        "algorithm": algorithm, "seed": seed, "earlier": earlier,
    }  # fmt: skip
    length = clock.lease_length(lease)
    by = user() if author is None else author
    if not isinstance(by, str):  # not everyone checks types
        raise InvalidInput(f"`author` must be a text, got {by!r}.")
    check_line("the name of an author", by)
    if isinstance(name, str):  # whatever else the storage refuses
        check_line("the name of a study", name)
    written = write_arms(arms if isinstance(arms, VectorSet) else as_arms(arms))
    of_candidates = None if candidates is None else write_arms(candidates)
    kept = changed_options(dict.fromkeys([*given, "own"], None) | {"own": {}}, {**given, **options})
    # Of what the log has, as it will be read: what cannot be read back is refused now.
    read_back = json.loads(canonical({"options": kept}))["options"]
    again = None if of_candidates is None else read_arms(of_candidates)
    learner = learner_of(read_arms(written), again, read_back, earlier_of(read_back))
    event = {
        "n": 1,
        "at": clock.written(clock.now()),
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
        "at": clock.written(clock.now()),
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
