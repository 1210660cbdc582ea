"""`Study.optimize` and `Study.optimize_async`: measurements by a Python function, in threads or as coroutines.

Both loops take the same steps, which `_Run` has: the next ask, its value, or the reason why there is none.
"""

import asyncio
import inspect
import os
import secrets
import shutil
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar, final
from zlib import crc32

import numpy as np

from surepick._texts import shown
from surepick.core.checks import check_count, check_number
from surepick.errors import (
    Conflict,
    EntryWarning,
    InvalidInput,
    ModelWarning,
    NoiseWarning,
    Skipped,
    SurepickError,
    listed,
)
from surepick.learning.explain import verdict
from surepick.learning.groups import group_label
from surepick.learning.identify import SKIPPED_IN_A_ROW, with_group
from surepick.learning.progress import state_line
from surepick.study.events import now, written
from surepick.study.log import LOGGER
from surepick.study.requests import PASS_FAIL
from surepick.study.state import AskRecord

if TYPE_CHECKING:
    from surepick.study.study import Study, StudyAsk

Callback = Callable[["Study", "StudyAsk", float], object]
Show = Callable[[], None]
T = TypeVar("T")

LOOK_SECONDS = 0.5
"""Least time between two looks of the progress line: a look takes two passes over all candidates."""
LINE_SECONDS = 30.0
"""Least time between two lines of progress where lines cannot be replaced, such as in a file."""
HOST_PROCESSES = "pid:[4026531836]"
"""The processes of a Linux machine itself; those of a container have another number."""
MOST_AHEAD, PER_ASK = 100, 10
"""A call goes on while at most so many results wait for an open ask; more if the proof has more, or for each ask that
is open: then many measure at once."""
N_NAMED = 3
"""Asks that are named where the proof waits."""

OPTIONS = ("n_jobs", "max_pulls", "timeout", "catch", "callbacks", "on_pull", "progress", "lease", "group")


@final
class _Run:
    """One call: what its jobs share. Its methods may be called by several threads."""

    def __init__(self, study: "Study", options: dict[str, Any]) -> None:
        from surepick.simulation.parallel import n_processes  # noqa: PLC0415 (loads the simulations)

        for unknown in options.keys() - {*OPTIONS}:
            raise InvalidInput(
                f"optimize has no option {unknown!r}; optimize takes max_pulls, the most pulls of a call. The options "
                f"are {listed(OPTIONS)}."
            )
        max_pulls, timeout, catch = options["max_pulls"], options["timeout"], options["catch"]
        self.study, self._lease, self.n_jobs = study, options["lease"], n_processes(options["n_jobs"], sys.maxsize)
        self._pulls = repeat(None) if max_pulls is None else iter([None] * check_count("max_pulls", max_pulls, least=0))
        self._catch = tuple(catch) if isinstance(catch, Iterable) else (catch,)
        if not all(isinstance(one, type) and issubclass(one, Exception) for one in self._catch):
            raise InvalidInput(f"`catch` must hold classes of exceptions, such as (OSError,), got {catch!r}.")
        self._group = group_label(options["group"])
        self.callbacks = _callbacks(options["callbacks"])
        self.callbacks += [] if options["on_pull"] is None else _callbacks([options["on_pull"]])
        self._deadline = None
        if timeout is not None:
            needed = "a number of seconds, at least 0"
            self._deadline = monotonic() + check_number("timeout", timeout, needed=needed, allowed=_is_time)
        self._skipped: dict[str, int] = {}
        """Measurements in a row without a result, by worker."""
        self._ends, self._has_more = threading.Event(), True
        self._machine = _machine()
        self._call = secrets.token_hex(4)  # containers may share the name of the host and the number of the process
        self._is_binary, self._caller = study.learner.is_binary, _caller()
        self._left = [one.id for one in study.state.open.values() if one.by == study.author]
        """Asks of this author, made without a worker's name, that were open before this call."""

    def worker(self, job: int) -> str:
        """Return the name of a job in the log."""
        return f"{self._machine}:{os.getpid()}:{self._call}:{job}"

    def end(self) -> None:
        """Let no job ask again; each first tells the result that it is measuring."""
        self._ends.set()

    def next_ask(self, worker: str) -> "StudyAsk | None":
        """Return what to measure next; None if the study has stopped, or nothing may be asked for any more."""
        is_late = self._deadline is not None and monotonic() >= self._deadline
        has_ended = self.study.stopped and not self.study.state.can_ask  # after a verdict there may be check pulls
        if is_late or self._ends.is_set() or has_ended or next(self._pulls, self) is not None:
            return None
        self._release(worker)
        self._check_ahead()
        asks = self.study.ask(1, worker=worker, lease=self._lease, group=self._group)
        self._has_more = bool(asks)
        return asks[0] if asks else None

    def arguments(self, ask: "StudyAsk") -> tuple[Any, ...]:
        """Return what the function is called with: the arm, and in a pool the item."""
        spec = self.study.learner.spec
        return (ask.arm, spec.item_of(tuple(ask.group.items()))) if spec.pool is not None else (ask.arm,)

    def _release(self, worker: str) -> None:
        """Give up the asks that this author left open before, and those of processes of this machine that have ended.

        Both are made again at once: the process that was to measure them has ended, such as a kernel that was killed.
        """
        while self._left:
            with suppress(IndexError, Conflict):  # another job has it, or it is answered by now
                self.study.fail(self._left.pop(0), reason="open before optimize, which measures it", worker=worker)
        with self.study._log.reading() as state:  # noqa: SLF001 (of the same package)
            ended = [one.id for one in state.open.values() if (process := self._here(one)) and _has_ended(process)]
        for id_ in ended:
            with suppress(Conflict):
                self.study.fail(id_, reason="its process has ended", worker=worker)

    def _here(self, ask: AskRecord) -> int | None:
        """Return the number of the process of this machine that made an ask in `optimize`; None: another made it."""
        machine, *rest = ask.by.split(":")
        return int(rest[0]) if machine == self._machine and len(rest) == 3 and rest[0].isdecimal() else None

    def _check_ahead(self) -> None:
        """End the call if many results wait for an open ask of another bench: further ones would be measured in vain.

        How many is a matter of numbers of asks alone, and of no value. Asks of this machine's running processes are
        being measured, and asks whose lease has run out are made again.
        """
        with self.study._log.reading() as state:  # noqa: SLF001 (of the same package)
            ledger, n_told = state.learner.state.ledger, len(state.measurements)
            if ledger.n_waiting <= max(MOST_AHEAD, n_told - ledger.n_waiting, PER_ASK * len(state.open)):
                return
            numbers = {*state.learner.state.waits_for}
            asks = [one for one in state.open.values() if one.era == state.era and one.number in numbers]
            due = {*self.study._log.leases.due(asks, written(now()))}  # noqa: SLF001
            waited = [one for one in asks if one.id not in due and self._here(one) is None]
            if not waited or len(waited) < len(asks):
                return
            named = listed([f"ask {one.id} ({state.catalog.label(one.arm)}) of {one.by}" for one in waited[:N_NAMED]])
            raise SurepickError(
                f"the proof waits for {named}, open since {waited[0].at}; {ledger.n_waiting:,} later results do not "
                f"enter it before, so `optimize` asks for no more. All results are kept. Tell the value, "
                f"`study.tell({waited[0].id}, value)`, or give the ask up, `study.fail({waited[0].id})`, and call "
                "`optimize` again."
            )

    def goes_on(self, worker: str, ask: "StudyAsk", error: BaseException) -> bool:
        """Give up an ask whose measurement raised; return whether the job goes on."""
        is_skipped = isinstance(error, Skipped)
        reason = _line(error) or "skipped" if is_skipped else f"{type(error).__name__}: {_line(error)}"
        self.study.fail(ask.id, reason=reason, worker=worker)
        if not (is_skipped or isinstance(error, self._catch)):
            if isinstance(error, Exception) and not isinstance(error, SurepickError):
                error.add_note(
                    f"raised for {ask.name} (ask {ask.id}, given up); {len(self.study.measurements)} results are kept. "
                    f"To go on after such errors: `catch={type(error).__name__}`."
                )
            return False
        n = self._skipped[worker] = self._skipped.get(worker, 0) + 1
        if n == SKIPPED_IN_A_ROW:
            raise SurepickError(f"no result in {n} measurements in a row, the last of {ask.name}.") from error
        return True

    def tell(self, worker: str, ask: "StudyAsk", answer: Any) -> Any:
        """Tell the study what was measured, and return the value.

        True and False where numbers are due are kept as 1 and 0, and end all.
        """
        self._skipped[worker] = 0
        value, group = with_group(answer)
        try:
            told = self.study._take_in(  # noqa: SLF001 (of the same package)
                ask.id, None, value, worker=worker, questions=False, takes_flags=True, group=group_label(group)
            )
        except InvalidInput as error:  # not a number, or out of range
            self.study.fail(ask.id, reason=_line(error), worker=worker)
            raise
        except BaseException as error:
            error.add_note(f"the result of ask {ask.id} ({ask.name}), {value!r}, may not have been told.")
            raise
        if isinstance(value, bool | np.bool_) and not self._is_binary:
            raise InvalidInput(f"`function` returned {value!r}, which is recorded as {told[0].told:g}; {PASS_FAIL}")
        for text in told.remarks:
            self._warn(text, EntryWarning)
        return value

    def give_up(self, worker: str) -> None:
        """Give up what a job was still asked for when it was cancelled."""
        with self.study._log.reading() as state:  # noqa: SLF001 (of the same package)
            own = [one.id for one in state.open.values() if one.by == worker]
        for id_ in own:
            self.study.fail(id_, reason="cancelled", worker=worker)

    def heed(self, answer: object) -> None:
        """End if a callback returned False."""
        if answer is False:
            self.end()

    def _warn(self, text: str, kind: type[Warning]) -> None:
        """Warn in the line of the user's call, which is on the stack of no job."""
        file, line, known = self._caller
        place, registry = known.get("__name__", "<unknown>"), known.setdefault("__warningregistry__", {})
        warnings.warn_explicit(text, kind, file, line, place, registry)

    def warn(self) -> None:
        """Warn of an answer that cannot be defended; log if the rest of the measurements is up to others."""
        if not self._has_more and (n := len(self.study.pending)):
            LOGGER.info("study %s: nothing to ask for before %d open asks of others are answered", self.study.name, n)
        if self.study.status.guarantee in ("doubtful", "withdrawn"):
            result = self.study.result()
            is_noise = result.noise_contradicted or result.guarantee == "doubtful"
            self._warn(verdict(result), NoiseWarning if is_noise else ModelWarning)


def optimize(study: "Study", function: Callable[[Any], Any], *, progress: bool, **options: Any) -> None:
    """Measure until the study has stopped; see `Study.optimize`."""
    if not callable(function):
        raise InvalidInput(f"`function` must take an arm and return a number, got {function!r}.")
    if _is_async(function):
        _check_no_loop()
        asyncio.run(_optimize_async(study, function, progress=progress, **options)).warn()
        return
    run = _Run(study, options)
    with _progress(study, is_wanted=progress) as show, ThreadPoolExecutor(run.n_jobs, "surepick") as pool:
        jobs = [pool.submit(_work, run, function, run.worker(job), show) for job in range(run.n_jobs)]
        try:
            for job in jobs:
                job.result()
        except BaseException:  # Ctrl-C reaches this thread only
            run.end()
            raise
    run.warn()


def _work(run: _Run, function: Callable[[Any], Any], worker: str, show: Show) -> None:
    try:
        while (ask := run.next_ask(worker)) is not None:
            try:
                value = _value_of(function, *run.arguments(ask))
            except BaseException as error:
                if not run.goes_on(worker, ask, error):
                    raise
                continue
            value = run.tell(worker, ask, value)
            for callback in run.callbacks:
                run.heed(callback(run.study, ask, value))
            show()
    except BaseException:
        run.end()  # a failure ends all jobs
        raise


async def optimize_async(study: "Study", function: Callable[[Any], Any], *, progress: bool, **options: Any) -> None:
    """Measure by coroutines until the study has stopped; see `Study.optimize_async`."""
    if not callable(function):
        raise InvalidInput(f"`function` must be an async function of an arm, got {function!r}.")
    (await _optimize_async(study, function, progress=progress, **options)).warn()


async def _optimize_async(study: "Study", function: Callable[[Any], Any], *, progress: bool, **options: Any) -> _Run:
    run = _Run(study, options)
    # One thread: the study lets in one writer at a time, and the loop must not wait for its turn.
    with _progress(study, is_wanted=progress) as show, ThreadPoolExecutor(1, "surepick") as pool:
        jobs = [_work_async(run, function, run.worker(job), show, pool) for job in range(run.n_jobs)]
        # A failure ends all jobs, and each first tells what it is measuring: none is cancelled.
        ended = await asyncio.gather(*jobs, return_exceptions=True)
    if failures := [one for one in ended if isinstance(one, BaseException)]:
        raise failures[0]
    return run


async def _work_async(
    run: _Run, function: Callable[[Any], Any], worker: str, show: Show, pool: ThreadPoolExecutor
) -> None:
    try:
        while (ask := await _in(pool, partial(run.next_ask, worker))) is not None:
            try:
                value = await _awaitable(function, *run.arguments(ask))
            except BaseException as error:
                if not await _in(pool, partial(run.goes_on, worker, ask, error)):
                    raise
                continue
            value = await _in(pool, partial(run.tell, worker, ask, value))
            for callback in run.callbacks:
                answer = callback(run.study, ask, value)
                run.heed(await answer if inspect.isawaitable(answer) else answer)
            await _in(pool, show)
    except BaseException as error:
        run.end()
        if isinstance(error, asyncio.CancelledError):  # the ask may have been on its way
            await _in(pool, partial(run.give_up, worker))
        raise


async def _in(pool: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    """Return what a call returns in the thread of the pool; a call that has begun also ends if this is cancelled."""
    future = asyncio.get_running_loop().run_in_executor(pool, call)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise


def _callbacks(given: Any) -> list[Callback]:
    """Return callbacks as a list: none, one, or several."""
    callbacks = [] if given is None else [given] if not isinstance(given, Iterable) else list(given)
    for one in callbacks:
        if not callable(one):
            raise InvalidInput(f"`callbacks` must be functions of a study, an ask and a value, got {one!r}.")
    return callbacks


def _caller() -> tuple[str, int, dict[str, Any]]:
    """Return file, line and module of the user's call."""
    calls = [one.frame for one in inspect.stack(0)]
    names = [one.f_globals.get("__name__", "") for one in calls]
    users = [one for one, name in zip(calls, names, strict=True) if name.split(".")[0] not in ("surepick", "asyncio")]
    call = users[0] if users else calls[-1]
    return call.f_code.co_filename, call.f_lineno, call.f_globals


def _machine() -> str:
    """Return a name for all processes whose numbers can be compared: that of the host, longer in a container."""
    name = socket.gethostname()
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:  # no Linux
        return name
    return name if space == HOST_PROCESSES else f"{name}-{crc32((space + boot).encode()):08x}"


def _has_ended(process: int) -> bool:
    """Return whether there is no process of that number on this machine."""
    if os.name != "posix":  # elsewhere this signal is none that only asks
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # of another user, or no number of a process
        return False
    return False


def _is_time(seconds: float) -> bool:
    return seconds >= 0.0


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _check_no_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise InvalidInput(
        "`optimize` cannot wait for an async function inside a running event loop, such as that of a notebook; "
        "write `await study.optimize_async(...)`."
    )


def _value_of(function: Callable[..., Any], *arguments: Any) -> Any:
    value = function(*arguments)
    if inspect.iscoroutine(value):
        value.close()
        raise InvalidInput("`function` returned a coroutine, no number; use `await study.optimize_async(...)`.")
    return value


async def _awaitable(function: Callable[..., Any], *arguments: Any) -> Any:
    value = function(*arguments)
    if not inspect.isawaitable(value):
        raise InvalidInput(
            f"`function` must be an async function, but returned {value!r}; pass a plain function to `optimize`."
        )
    return await value


@contextmanager
def _progress(study: "Study", *, is_wanted: bool) -> Iterator[Show]:
    """Yield a function that shows the study in one line on standard error, at most every `LOOK_SECONDS`."""
    if not is_wanted:
        yield lambda: None
        return
    lock, looked = threading.Lock(), -LOOK_SECONDS

    def line() -> str:
        now = study.snapshot
        return shown(f"{study.name}: {state_line(now.learner, now.label)}")

    with _line_on_terminal() as write:

        def show() -> None:
            nonlocal looked
            with lock:
                if monotonic() - looked < LOOK_SECONDS:
                    return
                write(line())
                looked = monotonic()

        try:
            yield show
        finally:
            with suppress(SurepickError):  # whatever ended the jobs is said
                write(line())


@contextmanager
def _line_on_terminal() -> Iterator[Callable[[str], None]]:
    """Yield a function that replaces the last line of standard error, by rich if it is installed, also in notebooks.

    Elsewhere than on a terminal it writes a line now and then, and the last one.
    """
    if find_spec("rich") is not None:
        from rich.console import Console  # noqa: PLC0415 (optional)
        from rich.live import Live  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        console = Console(stderr=True)
        if console.is_terminal or console.is_jupyter:
            with Live(console=console, auto_refresh=False) as live:
                yield lambda text: live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)
            return
    last, written, is_terminal = "", monotonic(), sys.stderr.isatty()

    def write(text: str) -> None:
        nonlocal last, written
        if is_terminal:  # a line that goes on in the next one could not be replaced
            text = text[: shutil.get_terminal_size().columns - 1]
            sys.stderr.write(f"\r{text.ljust(len(last))}")
            sys.stderr.flush()
        elif monotonic() - written >= LINE_SECONDS:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
            last, written = "", monotonic()
            return
        last = text

    try:
        yield write
    finally:
        sys.stderr.write("\n" if is_terminal else f"{last}\n" * bool(last))


def _line(error: BaseException) -> str:
    """Return the text of an error as one printable line."""
    return "".join(letter if letter.isprintable() else " " for letter in " ".join(str(error).split()))
