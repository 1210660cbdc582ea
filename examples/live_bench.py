"""A server with a study of real data, and a simulated bench that measures: open the page, and watch it move.

Run it: `python -m examples.live_bench [port]`, or `make serve`; Ctrl-C ends, and nothing is kept.

The bench is a robot as you would write one: it asks what to measure, measures, and tells the result, over HTTP. Its
measurements are plots of the field trial of `field_trial.py`.
"""

import csv
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import httpx
import numpy as np

import surepick as sp
from examples import field_trial

WORKER = "simulated bench"
FIRST = 60  # results that are there when the page opens
PAUSE = 3.0  # seconds that a measurement takes


def options() -> dict[str, list[str]]:
    """Return the table of options without the yields of the trial: a bench does not know them."""
    with field_trial.TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {title: [row[title] for row in rows] for title in ("option", "variety", "nitrogen")}


def create(storage: Path, rng: np.random.Generator) -> None:
    """Begin the study, and measure a little."""
    arms = sp.read_arms(options(), name_column="option")
    study = sp.create_study("oats", arms=arms, epsilon=field_trial.EPSILON, storage=storage)
    for _ in range(FIRST):
        (ask,) = study.ask(worker=WORKER)
        study.tell(ask, round(field_trial.measure(ask.arm, rng), 1), worker=WORKER)
    study.close()


def measure(url: str, rng: np.random.Generator, ended: threading.Event) -> None:
    """Ask, measure and tell, one after another, until the server has ended."""
    study = f"{url}/api/v1/studies/oats"
    with httpx.Client() as client:
        while not ended.wait(PAUSE):
            try:
                asks = client.post(f"{study}/asks", json={"worker": WORKER}).json().get("asks", [])
                for ask in asks:
                    result = {"value": round(field_trial.measure(ask["arm"], rng), 1), "worker": WORKER}
                    client.post(f"{study}/asks/{ask['id']}/result", json=result)
            except httpx.TransportError:  # the server starts, or ends
                continue


def main(port: int, seed: int = 0) -> int:
    """Serve until Ctrl-C."""
    rng, ended = np.random.default_rng(seed), threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        create(Path(folder) / "demo.db", rng)
        bench = threading.Thread(target=measure, args=(f"http://127.0.0.1:{port}", rng, ended))
        command = [sys.executable, "-m", "surepick", "serve", "--storage", "demo.db", "--port", str(port)]
        with subprocess.Popen(command, cwd=folder) as server:  # noqa: S603 (our own command)
            signal.signal(signal.SIGTERM, lambda *_: server.terminate())  # then the folder is removed
            bench.start()
            try:
                return server.wait()
            except KeyboardInterrupt:  # the server gets it too
                return server.wait()
            finally:
                ended.set()
                bench.join()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 8080))
