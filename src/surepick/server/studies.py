"""Studies that a server keeps open: reading in threads, group commit, and waiting for changes.

One writer at a time works on each study. It takes all requests that wait, runs them in one transaction
(`Study.together`), and answers them after the commit: a disk that commits a hundred times a second then takes
thousands of results a second.
"""

import asyncio
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar, cast, final

from anyio import CapacityLimiter, to_thread

from surepick.errors import CorruptLog, NoSuchStudy, SurepickError
from surepick.study.storage.base import ServerStorage
from surepick.study.study import Study
from surepick.study.views import Record, list_records

T = TypeVar("T")
MOST_OPEN = 100
"""Studies that are kept in memory while no request uses them."""
MOST_READERS = 4
"""Threads that read one study. Other studies have threads of their own, so they do not wait for a slow one."""
MOST_DOWNLOADS = 20
"""Files of one study that wait to be made, one after the other."""
MOST_TOGETHER = 200
"""Requests in one commit: the first of them waits for the last."""
LOOK_EVERY = 1.0
"""Seconds between two looks for events that another process has written to a file."""


class TooBusy(SurepickError):
    """More requests wait than the server accepts; the same request may be sent again."""


@final
class _OpenStudy:
    """A study, the requests that wait for its writer, and the event that wakes its listeners."""

    def __init__(self, study: Study) -> None:
        self.study, self.n_listeners = study, 0
        self.waiting = deque[tuple[bool, Callable[[], Any], asyncio.Future[Any]]]()
        self.writer: asyncio.Task[None] | None = None
        self.news = asyncio.Event()
        self.views = dict[Any, tuple[Any, Any]]()
        """What was made of the study, each with the head of the log that it was made of."""
        self.n_reading = [0, 0]
        """Requests that read or wait to read: those for no file, and those for a file."""
        self.readers, self.downloads, self.writers = (CapacityLimiter(n) for n in (MOST_READERS, 1, 1))

    def wake(self) -> None:
        """Wake all that wait for a change."""
        self.news.set()
        self.news = asyncio.Event()


@final
class OpenStudies:
    """The studies of a storage.

    Args:
        storage: open.
        queue: most requests that wait for the writer of one study.
    """

    def __init__(self, storage: ServerStorage, *, queue: int = 1_000) -> None:
        self.storage, self.queue, self.is_closing = storage, queue, False
        self._open = OrderedDict[str, _OpenStudy]()
        self._loading = dict[str, asyncio.Task[_OpenStudy]]()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    # ---- life

    async def __aenter__(self) -> None:
        """Begin to hear of events that other processes write."""
        self._loop = asyncio.get_running_loop()
        if (names := self.storage.listen()) is not None:
            threading.Thread(target=self._hear, args=(names,), name="surepick-listen", daemon=True).start()

    def _hear(self, names: Any) -> None:
        """Wake listeners when PostgreSQL says that a study has changed; "" stands for all."""
        for name in names:  # for ever: it comes back by itself after a lost connection, and once a second with ""
            if self.is_closing:
                return
            self._call(partial(self.wake, name))

    def _call(self, function: Callable[[], object]) -> None:
        """Run a function in the event loop, from another thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function)

    def stop(self) -> None:
        """End all waiting: streams end, and their clients come again."""
        self.is_closing = True
        self.wake("")

    async def __aexit__(self, *_: object) -> None:
        """Finish what is being written, and let go of the storage."""
        self.stop()
        while writers := [one.writer for one in self._open.values() if one.writer is not None]:
            await asyncio.wait(writers)
        await asyncio.to_thread(self.storage.close)

    # ---- studies

    def _get(self, name: str) -> _OpenStudy:
        with self._lock:
            if name in self._open:
                self._open.move_to_end(name)
                return self._open[name]
        made = _OpenStudy(Study(self.storage, name, author="api"))  # a long log takes seconds: others do not wait
        with self._lock:
            known = self._open.setdefault(name, made)
            idle = [n for n, one in self._open.items() if not (one is known or one.writer or one.n_listeners)]
            for other in idle[: max(len(self._open) - MOST_OPEN, 0)]:
                del self._open[other]
            return known

    async def open(self, name: str) -> _OpenStudy:
        """Open a study, if it is not open already; requests that come at the same time load it once."""
        if (known := self._open.get(name)) is not None:
            return known
        if (loading := self._loading.get(name)) is not None:
            with suppress(SurepickError):  # that began, perhaps, before the study was made
                return await asyncio.shield(loading)
        loading = self._loading[name] = asyncio.create_task(to_thread.run_sync(self._get, name))
        try:
            return await asyncio.shield(loading)
        finally:
            if self._loading.get(name) is loading:
                del self._loading[name]

    def forget(self, name: str) -> None:
        """Let go of a study that was deleted; its listeners see that it is gone."""
        with self._lock:
            if (gone := self._open.pop(name, None)) is not None:
                self._call(gone.wake)

    def list(self) -> list[Record]:
        """Return all studies as `surepick list` does, sorted by name."""
        opened = {name: one.study for name, one in list(self._open.items())}
        return list_records(self.storage, opened.get)

    def public(self, error: object) -> str:
        """Return a sentence without the address of the storage."""
        address = self.storage.address
        return str(error).replace(f"in {address}", "on this server").replace(address, "this server")

    # ---- reading and writing

    async def read(self, name: str, call: Callable[[Study], T], *, is_download: bool = False) -> T:
        """Return what a function says of a study; the function runs in a thread of this study.

        Raises:
            TooBusy: too many requests wait already.
        """
        one = await self.open(name)
        threads, most = (one.downloads, MOST_DOWNLOADS) if is_download else (one.readers, self.queue)
        if one.n_reading[is_download] > most:
            raise TooBusy(f"{most:,} requests wait for study {name!r} already; send this one again in a second.")
        one.n_reading[is_download] += 1
        try:
            return await to_thread.run_sync(self._read, name, call, limiter=threads)
        finally:
            one.n_reading[is_download] -= 1

    def _read(self, name: str, call: Callable[[Study], T]) -> T:
        try:
            return call(self._get(name).study)
        except (CorruptLog, NoSuchStudy):  # deleted, made anew, or damaged: loading it again tells
            self.forget(name)
            return call(self._get(name).study)

    async def write(self, name: str, call: Callable[[Study], T], *, grouped: bool = True, last: bool = False) -> T:
        """Call a function that writes to a study; when this returns, its events are on the disk.

        Args:
            name: of the study.
            call: calls one method of the study.
            grouped: whether it shares a commit with others. What takes long before it writes runs by itself.
            last: whether it comes after the others of its commit: asks after results, so that the reasons for all of
                them are worked out once.

        Raises:
            TooBusy: too many requests wait already.
        """
        if not grouped:
            try:
                return await self.read(name, call)
            finally:
                self.wake(name)
        one = await self.open(name)
        if len(one.waiting) >= self.queue:
            raise TooBusy(f"{self.queue:,} requests wait for study {name!r} already; send this one again in a second.")
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        one.waiting.append((last, partial(call, one.study), outcome))
        if one.writer is None:
            one.writer = asyncio.create_task(self._write_waiting(name, one))
        return await outcome

    async def _write_waiting(self, name: str, one: _OpenStudy) -> None:
        """Write what waits, all that there is at a time, until nothing waits."""
        while one.waiting:
            taken = [one.waiting.popleft() for _ in range(min(len(one.waiting), MOST_TOGETHER))]
            taken.sort(key=itemgetter(0))
            calls = [call for _, call, _ in taken]
            try:
                outcomes = await to_thread.run_sync(one.study.together, calls, limiter=one.writers)
            except Exception as error:  # noqa: BLE001 (each caller gets it)
                outcomes = [error] * len(calls)
            if any(isinstance(outcome, CorruptLog | NoSuchStudy) for outcome in outcomes):
                self.forget(name)
            for (_, _, future), outcome in zip(taken, outcomes, strict=True):
                if not future.done():  # else its client has gone
                    settle: Any = future.set_exception if isinstance(outcome, Exception) else future.set_result
                    settle(outcome)
            one.wake()
        one.writer = None

    async def view(self, name: str, make: Callable[..., T], **options: Any) -> T:
        """Return what a function makes of a study; it is made once for each event."""

        def made(study: Study) -> T:
            views, head, key = self._get(name).views, study.head, (make, *options.items())
            if views.get(key, ("",))[0] != head:
                views[key] = head, make(study, **options)
            return cast("T", views[key][1])

        return await self.read(name, made)

    # ---- waiting for changes

    async def changed(self, name: str, after: int, timeout: float) -> int:
        """Wait until a study has more than `after` events, or for `timeout` seconds; return how many it has."""
        end = time.monotonic() + timeout
        one = await self.open(name)
        one.n_listeners += 1
        try:
            while True:
                news = one.news  # before the look: what happens after it wakes us
                n = await to_thread.run_sync(self.storage.n_events, name)
                left = min(end - time.monotonic(), LOOK_EVERY)
                if n > after or left <= 0.0 or self.is_closing:
                    return n
                with suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), left)
        finally:
            one.n_listeners -= 1

    def wake(self, name: str) -> None:
        """Wake all that wait for a change of a study, or of all studies for "" as the name."""
        for known, one in list(self._open.items()):
            if name in ("", known):
                one.wake()
