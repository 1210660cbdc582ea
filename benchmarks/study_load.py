"""Sixteen processes on one study: asks and tells per second beside Optuna's on the same kind of database."""

import os
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optuna

from benchmarks.study_common import FORKS, NAME, PLACES, PRELOADED, SEED, check, endless, place, second_place, value_of
from surepick.study.admin import load_study

N_PROCESSES, N_PULLS, N_OPTUNA, N_ROUNDS = 16, 2_000, 8, 3


def ours(url: str, worker: int, n: int, ready: Any, go: Any) -> None:
    """Ask for one and tell one, n times, as one of many processes."""
    study = load_study(NAME, url)
    ready.release()
    go.wait()
    for _ in range(n):
        (ask,) = study.ask(1, worker=f"w{worker}")
        study.tell(ask.id, value_of(ask.id, ask.arm), worker=f"w{worker}")


def optunas(url: str, worker: int, n: int, ready: Any, go: Any) -> None:
    """The same with Optuna: the least it can do, values drawn at random."""
    study = _optuna_study(url, worker)
    ready.release()
    go.wait()
    for _ in range(n):
        one = study.ask()
        x = one.suggest_float("x", 0.0, 1.0)
        study.tell(one, x)


def _optuna_study(url: str, worker: int) -> Any:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    # The driver's default is to give up after 5 s, which sixteen processes might reach.
    options = {"connect_args": {"timeout": 120}} if url.startswith("sqlite") else None
    storage = optuna.storages.RDBStorage(url, engine_kwargs=options)
    sampler = optuna.samplers.RandomSampler(seed=worker)
    return optuna.create_study(study_name="load", storage=storage, sampler=sampler, load_if_exists=True)


def timed(work: Callable[..., None], url: str, n_processes: int, n: int) -> float:
    """Seconds that so many processes take for n pulls each, from when all of them are ready."""
    FORKS.set_forkserver_preload(PRELOADED)
    ready, go = FORKS.Semaphore(0), FORKS.Event()
    processes = [FORKS.Process(target=work, args=(url, i, n, ready, go)) for i in range(n_processes)]
    for process in processes:
        process.start()
    for _ in processes:
        ready.acquire()
    start = time.perf_counter()
    go.set()
    for process in processes:
        process.join()
        assert process.exitcode == 0, f"a process ended with {process.exitcode}"
    return time.perf_counter() - start


def optuna_url(url: str) -> str:
    """The address of a database for Optuna beside ours: another file, or the same server."""
    other = second_place(url, "optuna")
    if not other.startswith("postgres"):
        return f"sqlite:///{other}"
    return other.replace("postgresql:", "postgresql+psycopg:", 1)


def compare(kind: str, n_processes: int, n_pulls: int, n_optuna: int, n_rounds: int) -> tuple[list[float], list[float]]:
    """Asks+tells per second of both in rounds that alternate; then ours is checked event by event."""
    own, others = [], []
    with place(kind) as url:
        other = optuna_url(url)
        endless(url)
        _optuna_study(other, 0)
        for i in range(n_rounds):
            part = n_pulls * (i + 1) // n_rounds - n_pulls * i // n_rounds
            own.append(2 * n_processes * part / timed(ours, url, n_processes, part))
            others.append(2 * n_processes * n_optuna / timed(optunas, other, n_processes, n_optuna))
        found = check(url)
        assert (found.n_asked, found.n_told) == (n_processes * n_pulls,) * 2
        assert (found.n_expired, found.n_open) == (0, 0)
    return own, others


def load(
    kinds: Sequence[str] = PLACES,
    n_processes: int = N_PROCESSES,
    n_pulls: int = N_PULLS,
    n_optuna: int = N_OPTUNA,
    n_rounds: int = N_ROUNDS,
) -> None:
    """Print asks+tells per second on SQLite and PostgreSQL beside Optuna's."""
    print(
        f"{n_processes} processes, {n_pulls:,} pulls each (Optuna {optuna.__version__}: {n_optuna} in each of "
        f"{n_rounds} rounds, alternating with ours), one ask and one tell a pull, seed {SEED}; "
        f"load of the machine before {os.getloadavg()[0]:.0f}"
    )
    print("| database | ours, asks+tells/s | Optuna's | ratio of medians | of each round |\n|---|---|---|---|---|")
    for kind in kinds:
        own, others = compare(kind, n_processes, n_pulls, n_optuna, n_rounds)
        ratios = ", ".join(f"{a:.0f}/{b:.0f}" for a, b in zip(own, others, strict=True))
        rates = [f"{np.median(one):,.0f}" for one in (own, others)]
        print(f"| {kind} | {rates[0]} | {rates[1]} | {np.median(own) / np.median(others):.1f} | {ratios} |", flush=True)
