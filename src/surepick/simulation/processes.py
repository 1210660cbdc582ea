"""Work shared between processes by joblib: results as they come, and nothing left behind after Ctrl-C."""

import signal
import warnings
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Any, TypeVar

from surepick.errors import SurepickError

T = TypeVar("T")


class ProcessKilled(SurepickError):
    """A process was killed from outside, perhaps for lack of memory."""


def in_processes(
    work: Callable[..., T], tasks: Iterable[tuple[Any, ...]], n_processes: int
) -> Generator[T, None, None]:
    """Yield work(*task) for all tasks, in any order; tasks are drawn as processes become free."""
    try:
        from joblib import Parallel, delayed, parallel_config  # noqa: PLC0415 (optional)
        from joblib.externals.loky.process_executor import BrokenProcessPool  # noqa: PLC0415
    except ImportError as error:
        raise SurepickError("more than one process needs joblib; install surepick[bench] or ask for one.") from error
    with parallel_config(backend="loky", inner_max_num_threads=1):
        results = Parallel(n_jobs=n_processes, batch_size=1, pre_dispatch="2*n_jobs", return_as="generator_unordered")(
            delayed(partial(_deaf, work))(*task) for task in tasks
        )
        try:
            for done in results:  # noqa: UP028 (`yield from` would close them with a warning)
                yield done
        except BrokenProcessPool as error:
            raise ProcessKilled("a process was killed from outside, perhaps for lack of memory.") from error
        finally:
            # Not the executor's own shutdown, which can wait for itself for ever when Ctrl-C comes at a bad moment.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # processes still at work are killed, as they should be
                results.close()


def _deaf(work: Callable[..., T], *task: Any) -> T:
    # Ctrl-C reaches every process of the terminal; the parent alone answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return work(*task)
