"""The page of a report in a real browser, at the width of a desk and of a phone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surepick.reporting.experiment_page import write_report
from tests.browser import needs_browser, offline_context, open_browser
from tests.reporting.report_folders import PAPER, write_folder

pytestmark = needs_browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two experiments, one with a long label and a long word."""
    folder = tmp_path_factory.mktemp("report")
    runs = {(label, place): [100, 200, 400] for label in ("Lazy TS", "default") for place in (0, 1)}
    wordy = PAPER.replace('"paper"', '"wordy"', 1).replace("Made up", "A_word_of_many_letters_" * 8)
    wordy = wordy.replace("[1000, 2500], variant", "[1000, 1500, 2000, 2500, 3000, 3500, 4000], variant")
    wordy = wordy.replace("another rule", "a note that takes its time to come to an end and has no hurry " * 3)
    folders = [write_folder(folder / "a", PAPER, runs), write_folder(folder / "b", wordy, runs)]
    return write_report(folders, folder / "out")[1]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    with open_browser() as browser:
        yield browser


@pytest.mark.parametrize("width", [1280, 390])
def test_page_from_disk_without_a_network(browser: Any, report: Path, tmp_path: Path, width: int) -> None:
    """Nothing sticks out, nothing is missing, nothing is fetched, nothing is complained about."""
    context = offline_context(browser, width)
    page = context.new_page()
    requests: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(report.as_uri(), wait_until="load")

    # A long table is folded; unfolded it stays inside its box too.
    assert page.evaluate("[...document.querySelectorAll('details')].map((details) => details.open)") == [False]
    page.click("summary")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate("[...document.images].map((image) => image.complete && image.naturalWidth > 0)") == [True] * 6
    # A figure takes the width there is, and a table that needs more scrolls inside its own box.
    assert page.evaluate("[...document.images].every((image) => image.getBoundingClientRect().right <= innerWidth)")
    assert page.evaluate(
        "[...document.querySelectorAll('.box')].every((box) => box.getBoundingClientRect().right <= innerWidth)"
    )
    scrolls = page.evaluate("[...document.querySelectorAll('.box')].map((box) => box.scrollWidth > box.clientWidth)")
    assert len(scrolls) == 4
    assert all(scrolls) or width > 390
    smallest = page.evaluate(
        "Math.min(...[...document.querySelectorAll('td')].map((d) => parseFloat(getComputedStyle(d).fontSize)))"
    )
    assert smallest >= 13
    assert {url.split(":")[0] for url in requests} <= {"file", "data"}
    assert requests[0] == report.as_uri()
    assert complaints == []

    page.click("nav a >> nth=1")
    assert page.evaluate("document.querySelector('#part-2').getBoundingClientRect().top") < 844
    page.screenshot(path=tmp_path / f"{width}.png", full_page=True)
    assert (tmp_path / f"{width}.png").stat().st_size > 10_000
    context.close()
