"""Pictures of README and docs: what they say follows from their numbers, and everybody can read them."""

import json
import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docs import pictures
from docs.drawings import experiments, how_it_works, results
from docs.drawings.sheet import THEMES, WIDTH
from docs.pictures import FOUND, NUMBERS, PICTURES, file_of, html, sheets, themed
from examples import alloys
from tests.browser import needs_browser, offline_context, open_browser

ROOT = Path(__file__).parents[2]
PAGES = [page for page in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]) if "_build" not in page.parts]
KEPT: dict[str, Any] = json.loads(NUMBERS.read_text("utf-8"))
SHEETS = sheets()
SVG = "{http://www.w3.org/2000/svg}"


def drawn(name: str, kind: str) -> list[ET.Element]:
    """The marks of one kind in a picture as it is kept."""
    root = ET.parse(file_of(name, "light")).getroot()
    return [one for one in root.iter() if kind in one.get("class", "").split()]


def words(name: str) -> list[str]:
    """The texts of a picture as it is kept."""
    return ["".join(one.itertext()) for one in ET.parse(file_of(name, "light")).getroot().iter(f"{SVG}text")]


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_drawn_from_its_numbers(name: str) -> None:
    """Both files are what the kept numbers give, small, without script and without anything from elsewhere."""
    for theme in THEMES:
        text = file_of(name, theme).read_text("utf-8")
        assert text == SHEETS[name].svg(theme), "python -m docs.pictures draws it again"
        root = ET.fromstring(text)
        assert (root.get("role"), root.get("aria-label")) == ("img", SHEETS[name].alt)
        assert len(text) < 15_000
        assert not re.search(r"<script|href|url\((?!#)", text)
    assert len(list(file_of(name, "light").parent.glob("*.svg"))) == 2 * len(PICTURES)


@pytest.mark.parametrize("name", KEPT)
def test_kept_numbers_say_where_they_come_from(name: str) -> None:
    """Date and command stand beside the numbers."""
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", KEPT[name]["date"])
    assert KEPT[name]["command"] == f"python -m docs.pictures {name}"


def test_bars_are_as_long_as_the_pulls_of_the_result_file() -> None:
    """Every method of the benchmark's file has its number and a bar to scale; the model check is hatched."""
    rows = {row["method"]: row["pulls"] for row in results.rivals_numbers()["rows"]}
    ours, checked = rows["surepick"], rows["surepick, with the model check"]
    others = [rows[name] for name in ("uniform + least squares + Bonferroni", "racing", "uniform + Bonferroni")]
    said = " ".join(words("rivals"))
    assert all(f"{pulls:,.0f}" in said for pulls in (ours, checked, *others))
    lengths = [float(bar.attrib["width"]) for bar in drawn("rivals", "other")]
    unit = max(lengths) / max(others)
    assert lengths == pytest.approx([unit * pulls for pulls in others], abs=0.1)
    assert [float(bar.attrib["width"]) for bar in drawn("rivals", "ours")] == pytest.approx([unit * ours], abs=0.1)
    (hatched,) = drawn("rivals", "hatched")
    assert float(hatched.attrib["x"]) + float(hatched.attrib["width"]) == pytest.approx(unit * checked, abs=0.2)


def test_the_model_check_says_withdrawn_where_switches_clash() -> None:
    """As docs/model.md says: left an alarm and settings off the line, right neither."""
    fresh = how_it_works.model_numbers()
    assert [panel["guarantee"] for panel in fresh["panels"]] == ["withdrawn", "proved"]
    said = words("model-check")
    left, right = said.index("Two switches clash"), said.index("No clash")
    assert said[left + 1] == "alarm, answer withdrawn"
    assert said[right + 1] == "no alarm, answer stands"
    off, on = (sum(map(how_it_works.is_odd, panel["settings"])) for panel in KEPT["model-check"]["panels"])
    assert off > on == 0
    assert len(drawn("model-check", "odd")) == off
    assert "answer withdrawn" in SHEETS["model-check"].alt


def test_the_title_of_the_model_check_follows_the_guarantee() -> None:
    """Numbers without an alarm are not titled as one."""
    stands = [{**panel, "guarantee": "proved"} for panel in KEPT["model-check"]["panels"]]
    assert "withdrawn" not in how_it_works.draw_model({"panels": stands}).alt


@pytest.mark.parametrize("name", sorted(set(KEPT) - {"many-options"}))
def test_kept_numbers_are_what_surepick_gives_today(name: str) -> None:
    """Measured again, the numbers behind the pictures are the kept ones; many options take most of a minute."""
    measure = PICTURES[name].measure
    assert measure is not None
    kept = {key: value for key, value in KEPT[name].items() if key not in ("date", "command")}
    assert flat(measure()) == pytest.approx(flat(kept), rel=1e-3, abs=1e-6)


def flat(value: Any) -> list[Any]:
    """All numbers inside, in their order."""
    if isinstance(value, dict):
        return [one for key in sorted(value) for one in flat(value[key])]
    if isinstance(value, list | tuple):
        return [one for inner in value for one in flat(inner)]
    return [] if isinstance(value, str) else [float(value)]


def test_every_run_stops_at_the_threshold() -> None:
    """Evidence stays below the threshold until the last point; each of the twenty runs has its mark."""
    runs = KEPT["evidence"]["runs"]
    assert len(runs) == len(drawn("evidence", "run")) == 20
    for run in runs:
        *before, (last, share) = run["path"]
        assert (last, share >= 1.0, any(one >= 1.0 for _, one in before)) == (run["pulls"], True, False)
    assert len(drawn("evidence", "odd")) == sum(not run["is_right"] for run in runs)


def test_the_lower_bound_is_a_floor() -> None:
    """No bar is shorter than the bound, and the title has the ratio of ours."""
    bound, rows = KEPT["many-options"]["bound"], KEPT["many-options"]["rows"]
    assert min(pulls for _, pulls, *_ in rows) == rows[0][1] > bound
    assert f"{rows[0][1] / bound:.1f} times" in SHEETS["many-options"].title
    (floor,) = drawn("many-options", "goal")
    place = float(floor.attrib["d"].removeprefix("M").split()[0])
    lengths = [float(bar.attrib["width"]) for kind in ("ours", "other") for bar in drawn("many-options", kind)]
    assert place == pytest.approx(lengths[0] * bound / rows[0][1], abs=0.2)
    assert min(lengths) > place


def test_the_time_line_has_what_went_wrong() -> None:
    """A silent bench, a measurement handed on, a typing error, and a verdict."""
    kinds = [event["kind"] for event in KEPT["study"]["events"]]
    assert (kinds.count("expired"), kinds.count("corrected"), kinds[-1]) == (1, 1, "stopped")
    assert [len(drawn("study", kind)) for kind in ("lost", "hatched")] == [1, 1]
    assert len(drawn("study", "ours")) == kinds.count("told") - 2


def test_caps_shrink_around_the_best_point() -> None:
    """Each cap holds the best point, and is smaller than the one before."""
    theta, frames = KEPT["sphere"]["theta"], KEPT["sphere"]["frames"]
    losses = [frame["loss"] for frame in frames]
    assert losses == sorted(losses, reverse=True)
    for frame in frames:
        assert 1.0 - np.dot(theta, frame["best"]) <= frame["loss"]
    assert len(drawn("sphere", "cap")) == len(frames)


# ---- experiments


def test_the_bench_that_reads_high_is_marked() -> None:
    """One diamond, at bench C, whose interval has no other bench's; ignored the answer falls, allowed for it stands."""
    groups = {tuple(label): (offset, half) for label, offset, half in KEPT["bench"]["groups"]}
    high, half = groups["bench", "C"]
    assert high - half > max(groups["bench", name][0] + groups["bench", name][1] for name in "AB")
    assert len(drawn("bench", "odd")) == 1
    assert len(drawn("bench", "ours")) == len(groups) - 1
    assert [end for _, end in KEPT["bench"]["ends"].values()] == ["withdrawn", "proved"]
    assert SHEETS["bench"].title.startswith("Bench C reads high")


def test_a_drift_that_is_ignored_costs_the_answer() -> None:
    """Readings rise by far more than the noise; no run that allows for the drift is wrong or withdrawn."""
    kept = KEPT["drift"]
    readings, tenth = kept["readings"], len(kept["readings"]) // 10
    assert np.mean(readings[-tenth:]) - np.mean(readings[:tenth]) > 10 * 0.3
    assert kept["ends"]["ignored"]["withdrawn"] > kept["runs"] / 2
    assert kept["ends"]["drift=0.8"] == {"proved": kept["runs"]}
    assert len(drawn("drift", "ours")) == len(readings)


def test_calls_agree_with_the_strengths() -> None:
    """No alloy that misses 70 by more than epsilon is called met, and calls only grow."""
    strengths = dict(zip(alloys.alloys.names or (), alloys.STRENGTHS.tolist(), strict=True))
    early, late = ({name: call for name, *_, call in one["arms"]} for one in KEPT["calls"]["frames"])
    for name, call in late.items():
        assert call == ("met" if strengths[name] >= 70 else "failed") or abs(strengths[name] - 70) <= 0.5
        assert early[name] in ("open", call)
    assert "open" in early.values()
    n_met = sum(call == "met" for calls in (early, late) for call in calls.values())
    assert len(drawn("calls", "odd")) == n_met
    assert len(drawn("calls", "goal")) == 2


def test_a_plate_has_all_its_wells_and_its_edge() -> None:
    """96 wells, 36 at the edge, and no row that repeats another as an order by plan would."""
    wells = KEPT["plate"]["wells"]
    assert (len(wells), len(drawn("plate", "cap")), len(drawn("plate", "globe"))) == (96, 36, 60)
    assert len({tuple(wells[12 * row : 12 * row + 12]) for row in range(8)}) == 8


def test_bars_of_the_pool_are_to_scale() -> None:
    """The blue and orange share of all bars is the share of the calls that were made."""
    counts, items = KEPT["pool"]["counts"], KEPT["pool"]["items"]
    width = [
        sum(float(bar.attrib["width"]) for kind in kinds for bar in drawn("pool", kind))
        for kinds in (("ours", "odd"), ("globe",))
    ]
    assert width[0] / width[1] == pytest.approx(sum(counts) / (items * len(counts)), abs=0.01)
    assert counts[KEPT["pool"]["best"]] == max(counts)


def test_right_picks_grow_with_the_budget() -> None:
    """The numbers are those of the benchmark; what is proved never exceeds what is right."""
    kept = experiments.budget_numbers()
    for name in kept["right"]:
        right, proved = kept["right"][name], kept["proved"][name]
        assert right == sorted(right)
        assert proved == sorted(proved)
        assert all(one <= other for one, other in zip(proved, right, strict=True))
    assert f"{min(one[0] for one in kept['right'].values()):.0f} to" in SHEETS["budget"].alt


@pytest.mark.parametrize("page", ["groups", "noise", "targets", "plates", "pool", "winners"])
def test_pages_of_experiments_have_a_picture(page: str) -> None:
    """Each how-to page of a kind of experiment shows it."""
    assert FOUND.search((ROOT / "docs" / f"{page}.md").read_text("utf-8"))


# ---- legible


def luminance(color: str) -> float:
    """Relative luminance by WCAG."""
    parts = (int(color[i : i + 2], 16) / 255.0 for i in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot((0.2126, 0.7152, 0.0722), linear))


def contrast(one: str, two: str) -> float:
    """Contrast by WCAG."""
    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("theme", "page"), [("light", "#ffffff"), ("dark", "#131416"), ("dark", "#0d1117")])
def test_colours_stand_out_from_the_page(theme: str, page: str) -> None:
    """Text and marks reach 4.5, the level for small text, on the pages of the site and of GitHub."""
    seen = {use: contrast(color, page) for use, color in THEMES[theme].items() if use != "line"}
    assert min(seen.values()) >= 4.5, seen


def test_letters_are_legible_on_a_phone() -> None:
    """On a screen of 390 pixels, where 350 are left for a picture, letters have 10.5 pixels or more."""
    for name in PICTURES:
        sizes = re.findall(r"font(?:-size)?:(\d+)px", file_of(name, "light").read_text("utf-8"))
        assert min(map(int, sizes)) * 350 / WIDTH >= 10.5


BOXES = """() => [...document.querySelectorAll('svg text')].map(one => {
    const box = one.getBBox(); return [one.textContent, box.x, box.y, box.x + box.width, box.y + box.height]; })"""


@needs_browser
def test_texts_stay_inside_and_apart() -> None:
    """In a browser no text leaves its picture, and no two lie on one another."""
    faults = []
    with open_browser() as browser:
        page = offline_context(browser, 600).new_page()
        for name in PICTURES:
            page.set_content(file_of(name, "light").read_text("utf-8"))
            faults += [(name, *fault) for fault in crowded(page.evaluate(BOXES), math.ceil(SHEETS[name].bottom))]
        page.set_content(
            '<svg viewBox="0 0 480 50"><text x="470" y="20">out</text><text x="465" y="22">on it</text></svg>'
        )
        assert len(crowded(page.evaluate(BOXES), 50)) == 3
    assert faults == []


def crowded(boxes: list[Any], height: float) -> list[tuple[str, ...]]:
    """Texts outside of the picture, and pairs that share some of their letters' place."""
    found: list[tuple[str, ...]] = [
        (text,) for text, x, y, right, low in boxes if x < -1 or y < -1 or right > WIDTH + 1 or low > height + 1
    ]
    for number, (text, x, y, right, low) in enumerate(boxes):
        for other, x2, y2, right2, low2 in boxes[:number]:
            if min(right, right2) - max(x, x2) > 1 and min(low, low2) - max(y, y2) > 4:  # boxes have room above letters
                found.append((text, other))
    return found


# ---- in pages


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pictures_of_a_page_exist_and_say_their_numbers(page: Path) -> None:
    """Light and dark are of one picture, and the words in its place have no other numbers than it has."""
    text = page.read_text("utf-8")
    assert len(re.findall("<picture>", text)) == len(FOUND.findall(text)), "not as `docs.pictures.html` writes it"
    for found in FOUND.finditer(text):
        names = [re.fullmatch(rf".*_static/pictures/(.+)-{theme}\.svg", found[theme]) for theme in THEMES]
        assert all(names)
        (name,) = {match[1] for match in names if match}
        numbers = re.findall(r"\d[\d,.]*\d|\d", found["alt"])
        assert found["alt"].strip()
        assert set(numbers) <= set(re.findall(r"\d[\d,.]*\d|\d", SHEETS[name].alt)), "python -m docs.pictures prints it"


def test_the_site_shows_the_picture_of_its_theme() -> None:
    """Each picture becomes two images, of which the theme of the site shows one."""
    shown = html("loop", 'a loop of "steps"')
    page = themed(f"before\n\n{shown}\n\nafter")
    assert page.startswith("before\n\n<div")
    assert page.endswith("</div>\n\nafter")
    alt = 'alt="a loop of &quot;steps&quot;"'
    assert [line for line in page.splitlines() if "img" in line] == [
        f'<img class="only-{theme}" src="_static/pictures/loop-{theme}.svg" {alt}>' for theme in ("light", "dark")
    ]


def test_how_it_works_has_five_pictures_with_three_sentences_each() -> None:
    """And no formula."""
    text = (ROOT / "docs" / "how-it-works.md").read_text("utf-8")
    _, *parts = text.split("\n## ")
    assert "$" not in text
    assert len(parts) == 5
    for part in parts:
        _, after = part.split("</picture>")
        assert len(re.findall(r"[.!?](?=\s|$)", after)) == 3, part


def test_an_unknown_picture_is_refused() -> None:
    """The message names the pictures that there are."""
    with pytest.raises(SystemExit, match=r"no picture named hero; there are: rivals, loop.* and all for every one"):
        pictures.main(["hero"])
