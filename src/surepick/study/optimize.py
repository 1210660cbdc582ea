"""`Study.optimize`: measurements by a Python function, in several threads."""

import os
import secrets
import socket
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from threading import Event
from typing import TYPE_CHECKING, Any

from surepick.core.checks import check_count
from surepick.errors import InvalidInput, ModelWarning, NoiseWarning, Skipped, SurepickError
from surepick.learning.explain import verdict
from surepick.learning.identify import SKIPPED_IN_A_ROW

if TYPE_CHECKING:
    from surepick.study.study import Study, StudyAsk


def optimize(
    study: "Study",
    function: Callable[[Any], float],
    *,
    n_jobs: int,
    max_pulls: int | None,
    on_pull: "Callable[[Study, StudyAsk, float], object] | None",
    lease: Any,
) -> None:
    """Measure until the study has stopped, or until `max_pulls` measurements; see `Study.optimize`."""
    if not callable(function):
        raise InvalidInput(f"`function` must take an arm and return a number, got {function!r}.")
    n_jobs = check_count("n_jobs", n_jobs, least=1)
    pulls = repeat(None) if max_pulls is None else iter([None] * check_count("max_pulls", max_pulls, least=0))
    ends = Event()
    call = secrets.token_hex(4)  # containers may share the name of the host and the number of the process

    def work(job: int) -> None:
        worker, n_skipped = f"{socket.gethostname()}:{os.getpid()}:{call}:{job}", 0
        try:
            while not ends.is_set() and not study.stopped and next(pulls, ends) is None:
                asks = study.ask(1, worker=worker, lease=lease)
                if not asks:
                    return
                n_skipped = 0 if _measure(study, asks[0], function, worker, on_pull) else n_skipped + 1
                if n_skipped == SKIPPED_IN_A_ROW:
                    raise SurepickError(f"no result in {n_skipped} measurements in a row, the last of {asks[0].name}.")
        except BaseException:
            ends.set()  # a failure ends all jobs; each first tells the result that it is measuring
            raise

    with ThreadPoolExecutor(n_jobs, thread_name_prefix="surepick") as pool:
        jobs = [pool.submit(work, job) for job in range(n_jobs)]
        try:
            for job in jobs:
                job.result()
        except BaseException:  # Ctrl-C reaches this thread only
            ends.set()
            raise
    if study.status.guarantee in ("doubtful", "withdrawn"):
        result = study.result()
        is_noise = result.noise_contradicted or result.guarantee == "doubtful"
        warnings.warn(verdict(result), NoiseWarning if is_noise else ModelWarning, stacklevel=3)


def _measure(
    study: "Study",
    ask: "StudyAsk",
    function: Callable[[Any], float],
    worker: str,
    on_pull: "Callable[[Study, StudyAsk, float], object] | None",
) -> bool:
    """Measure one ask; return whether there was a result."""
    try:
        value = function(ask.arm)
    except Skipped as error:
        study.fail(ask.id, reason=_line(error) or "skipped", worker=worker)
        return False
    except BaseException as error:
        study.fail(ask.id, reason=f"{type(error).__name__}: {_line(error)}", worker=worker)
        raise
    try:
        study.tell(ask.id, value, worker=worker, questions=False)  # a program mistypes nothing
    except InvalidInput as error:  # not a number, or out of range
        study.fail(ask.id, reason=_line(error), worker=worker)
        raise
    except BaseException as error:
        error.add_note(f"the result of ask {ask.id} ({ask.name}), {value!r}, may not have been told.")
        raise
    if on_pull is not None:
        on_pull(study, ask, value)
    return True


def _line(error: BaseException) -> str:
    """Return the text of an error as one printable line."""
    return "".join(letter if letter.isprintable() else " " for letter in " ".join(str(error).split()))
