"""Pictures of pages and of the terminal, from real runs: `python -m docs.screenshots` takes them.

Those of docs/dashboard.md come from a real server in a real browser. Those of README are the report that its example
writes, and the live view of `surepick run`. Those of docs/gallery.md are the reports of its examples.
"""

import re
import shutil
import warnings
from contextlib import chdir
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image
from rich.console import Console

import surepick as sp
from examples import alloys, benches, field_trial, live_bench, plates, prompts, questionnaire, svm_settings
from surepick.cli.output import live_panel
from tests.browser import open_browser
from tests.docs.test_examples import blocks, tables
from tests.server.conftest import serving

FOLDER = Path(__file__).parent / "images"
README = Path(__file__).parents[1] / "README.md"
MIXTURES = Path(__file__).parents[1] / "examples" / "data" / "mixtures.csv"
REPORTS = {
    "field_trial": 560,
    "questionnaire": 560,
    "svm_linear": 560,
    "alloys": 1140,
    "watch": 560,
    "offset": 560,
    "prompts": 700,
    "plates": 560,
}
"""Reports in docs/gallery.md, and how many pixels of their tops are shown."""
EFFECTS = np.array([30.0, 0.4, 0.5, 10.0])
"""Simulated yields of the mixtures: a constant, and the effects of temperature, time and acid."""


def mixtures(storage: str, name: str, noise: float, n: int, *, bend: float = 0.0, **options: Any) -> None:
    """Make a study of mixtures with n simulated results; every other mixture is `bend` better than the model says."""
    arms, rng = sp.read_arms(MIXTURES), np.random.default_rng(3)
    study = sp.create_study(name, arms=arms, storage=storage, **options)
    for _ in range(n):
        for ask in study.ask(worker="bench-1"):
            mean = np.asarray(ask.features) @ EFFECTS + bend * (ask.arm % 2)
            study.tell(ask, round(float(mean + noise * rng.standard_normal()), 2), worker="bench-1", warn=False)
    study.close()


def oats(storage: str) -> None:
    """Make a study of the field trial, with open asks of two workers."""
    rng, arms = np.random.default_rng(0), sp.read_arms(live_bench.options(), name_column="option")
    study = sp.create_study("oats", arms=arms, epsilon=field_trial.EPSILON, storage=storage)
    for _ in range(90):
        (ask,) = study.ask(worker="field-1")
        study.tell(ask, round(field_trial.measure(ask.arm, rng), 1), worker="field-1")
    study.ask(2, worker="field-1")
    study.ask(1, worker="field-2")
    study.close()


def keep(page: Any, name: str) -> None:
    """Write what a page shows into a small file, and close the page."""
    file = FOLDER / name
    page.screenshot(path=file)
    Image.open(file).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE).save(file, optimize=True)
    page.close()


def report(folder: Path, browser: Any) -> None:
    """Take the top of the report that the example of README writes."""
    code = "\n".join(block.text for block in blocks(README.read_text("utf-8")) if block.kind == "python")
    for table in tables(README):
        shutil.copy(table, folder)
    with chdir(folder):
        exec(code, {"__name__": "__main__"})  # noqa: S102 (the repository's own page)
    page = browser.new_page(viewport={"width": 840, "height": 1240})
    page.goto((folder / "report.html").as_uri())
    keep(page, "report.png")


def gallery(folder: Path, browser: Any) -> None:
    """Take the tops of the reports that the examples write."""
    for example in (field_trial, questionnaire, svm_settings, alloys, benches, prompts, plates):
        example.main(folder)
    for name, height in REPORTS.items():
        page = browser.new_page(viewport={"width": 840, "height": height})
        page.goto((folder / f"{name}.html").as_uri())
        keep(page, f"report-{name}.png")


def live_view(storage: str) -> None:
    """Draw what `surepick run` shows of a study while it measures; fonts are those of the reader."""
    with sp.load_study("oats", storage=storage) as study:
        now = study.snapshot
        panel = live_panel(now.learner, study.measurements[-1].arm, "oats", now.label)
    console = Console(record=True, width=84, file=StringIO(), force_terminal=True)
    console.print(panel)
    drawn = console.export_svg(title="surepick run --arms oats.csv --epsilon 2", unique_id="live")
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
    (FOLDER / "live.svg").write_text(drawn, encoding="utf-8")


def main() -> None:
    """Take the pictures."""
    FOLDER.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        storage = str(Path(folder) / "lab.db")
        oats(storage)
        live_view(storage)
        mixtures(storage, "mixtures", 0.6, 200)
        mixtures(storage, "mixtures at 90 °C", 0.3, 80, bend=30.0)
        mixtures(storage, "new solvents", 0.0, 0)
        mixtures(storage, "pilot", 6.0, 20, budget=12)
        with serving(storage) as server, open_browser() as browser:
            report(Path(folder), browser)
            gallery(Path(folder), browser)
            for name, path, (width, height), scheme in (
                ("studies", "/", (1280, 400), "light"),
                ("study", "/studies/oats?worker=field-1", (1280, 960), "light"),
                ("decided", "/studies/mixtures", (1280, 960), "dark"),
                ("phone", "/studies/oats?worker=field-1", (390, 880), "light"),
            ):
                size = {"width": width, "height": height}
                page = browser.new_page(viewport=size, color_scheme=scheme)
                page.goto(server.url + path)
                if path != "/":
                    page.get_by_text("live", exact=True).wait_for()
                keep(page, f"dashboard-{name}.png")


if __name__ == "__main__":
    main()
