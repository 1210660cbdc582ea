"""What experiments look like: a bench that reads high, drift, calls, a plate, a pool, a budget."""

import json
import math
import string
import warnings
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import surepick as sp
from docs.drawings.sheet import Scale, Sheet, draw_axes
from examples import alloys, benches, plates, prompts

FIXED_BUDGET = Path(__file__).parents[2] / "benchmarks" / "results" / "fixed_budget.json"


# ---- a bench that reads high


def bench_numbers() -> dict[str, Any]:
    """Return how high benches and days read by the story of three benches, and how both of its studies end."""
    ends: dict[str, sp.Result] = {}
    for groups in ("watch", "offset"):
        with sp.create_study(groups, arms=benches.RECIPES, storage="memory:", groups=groups) as study:
            benches.measure(study)
            ends[groups] = study.result()
    listed = ends["offset"].groups
    return {
        "groups": [[list(one.label[0]), one.offset, one.half_width] for one in listed],
        "ends": {groups: [end.n_until_verdict, end.guarantee] for groups, end in ends.items()},
    }


def draw_bench(numbers: Mapping[str, Any]) -> Sheet:
    """Draw how high each bench and day reads, with what follows from ignoring it and from allowing for it."""
    rows = [[" ".join(label), offset, half] for label, offset, half in numbers["groups"]]
    (n_watch, watch), (n_offset, offset) = numbers["ends"]["watch"], numbers["ends"]["offset"]
    highest = max((row for row in rows if row[0].startswith("bench")), key=lambda row: row[1])
    ends = {"withdrawn": "no answer can be defended", "proved": "the best recipe is proved"}
    sheet = Sheet(
        f"B{highest[0][1:]} reads high: allow for it, and the answer stands",
        "How much higher each group reads than the mean of its kind, with intervals of about 95 %: "
        + ", ".join(f"{name} {value:+.1f}" for name, value, _ in rows)
        + f". Ignored: {ends[watch]} after {n_watch} measurements. With offsets: {ends[offset]} after {n_offset}.",
    )
    most = 1.0 + max(abs(value) + half for _, value, half in rows)
    x = Scale(-most, most, 90.0, 400.0)
    top = sheet.top + 16
    for place, (name, value, half) in enumerate(rows):
        y = top + 14 + 24 * place
        sheet.text(0, y + 5, name)
        is_high = name == highest[0]
        sheet.path([(x(value - half), y), (x(value + half), y)], "error" if is_high else "mean")
        (sheet.diamond if is_high else sheet.dot)(x(value), y, 6.0 if is_high else 4.5, "odd" if is_high else "ours")
        sheet.text(472, y + 5, f"{value:+.1f}", "end")
    end = top + 14 + 24 * len(rows)
    sheet.path([(x(0), top), (x(0), end - 8)], "goal")
    sheet.text(x(0), end + 12, "mean of its kind", "middle")
    for line, (said, kind, n) in enumerate(
        (("ignored", watch, n_watch), ('groups="offset"', offset, n_offset)), start=1
    ):
        sheet.text(0, end + 18 + 24 * line, f"{said}: {ends[kind]} after {n}", "strong")
    sheet.notes(["Lines: intervals of about 95 %, estimates. Made-up data."])
    return sheet


# ---- drift


def drift_numbers() -> dict[str, Any]:
    """Return readings of a bench that warms up, without the means of the options, and how ten runs on it end."""
    arms = np.column_stack([np.ones(5), np.arange(5.0), np.arange(5.0) ** 2])
    means, noise, n_runs, readings = arms @ [1.0, 0.9, -0.2], 0.3, 10, list[float]()

    def warming_up(rng: np.random.Generator, row: int) -> float:
        readings.append(float(0.05 * len(readings) + noise * rng.standard_normal()))
        return float(means[row]) + readings[-1]

    ways: dict[str, Any] = {}
    shown = list[float]()
    for way, drift in (("ignored", 0.0), ("drift=0.8", 0.8)):
        ends = Counter[str]()
        for seed in range(n_runs):
            readings.clear()
            pull = partial(warming_up, np.random.default_rng([4, seed]))
            with warnings.catch_warnings(action="ignore"):
                found = sp.identify(arms, pull, noise_std=noise, drift=drift, seed=seed)
            ends[found.guarantee if int(found.best) == int(np.argmax(means)) else "wrong"] += 1
            shown = list(readings) if drift and seed == 0 else shown
        ways[way] = dict(ends)
    return {"readings": shown, "runs": n_runs, "ends": ways}


def draw_drift(numbers: Mapping[str, Any]) -> Sheet:
    """Draw readings over time, and how the runs end that ignore the drift and that allow for it."""
    readings, n_runs = numbers["readings"], numbers["runs"]
    words = {"withdrawn": "answer withdrawn", "proved": "right and proved", "doubtful": "in doubt", "wrong": "wrong"}
    told = {
        way: ", ".join(f"{words[end]} in {n} of {n_runs}" for end, n in ends.items())
        for way, ends in numbers["ends"].items()
    }
    sheet = Sheet(
        "Readings drift: say so, and the answer stands",
        f"Readings of a bench that warms up rise over {len(readings)} measurements. Of {n_runs} runs: "
        + "; ".join(f"{way}: {said}" for way, said in told.items())
        + ".",
    )
    most = 20 * math.ceil(len(readings) / 20)
    low, high = math.floor(min(readings)), math.ceil(max(readings))
    x, y = Scale(0, most, 50.0, 462.0), Scale(low, high, sheet.top + 205.0, sheet.top + 20.0)
    ticks = range(0, high + 1, max(1, high // 4))
    draw_axes(sheet, x, y, (range(0, most + 1, 20 if most <= 160 else 40), ticks))
    for n, reading in enumerate(readings, start=1):
        sheet.dot(x(n), y(reading), 2.5, "ours")
    sheet.text(x(most / 2), y.start + 42, "measurements", "middle")
    sheet.bottom = y.start + 48
    for way, said in told.items():
        rows = said.split(", ")
        for line, row in enumerate(rows):
            sheet.text(0, sheet.bottom + 18, f"{way}: {row}" if line == 0 else f"and {row}", "strong")
    sheet.notes(["Dots: readings less the mean of their option, one run.", "Made-up data; seeds 0 to 9."])
    return sheet


# ---- calls


N_CALLS = 16
"""Arms closest to the threshold that the picture has room for."""


CALLS = ("met", "failed", "open")


def call_numbers() -> dict[str, Any]:
    """Return estimates and calls of the alloys closest to 70, in the middle of the example and at its end."""
    frames = []
    for budget in (40, None):
        pull = partial(alloys.measure, np.random.default_rng(7))
        result = sp.identify(alloys.alloys, pull, threshold=70, epsilon=0.5, budget=budget)
        rows, names = result.compared, alloys.alloys.names
        assert names is not None
        assert result.calls is not None
        assert rows.likely_low is not None
        assert rows.likely_high is not None
        nearest = np.sort(np.argsort(np.abs(alloys.STRENGTHS - 70.0), kind="stable")[:N_CALLS])
        frames.append(
            {
                "pulls": result.n_pulls,
                "counts": dict(Counter(result.calls.values())),
                "arms": [
                    [names[i], rows.estimate[i], rows.likely_low[i], rows.likely_high[i], result.calls[i]]
                    for i in nearest.tolist()
                ],
            }
        )
    return {"frames": frames}


def draw_calls(numbers: Mapping[str, Any]) -> Sheet:
    """Draw the alloys closest to the threshold at two moments, by their calls."""
    frames = numbers["frames"]
    told = [
        f"after {one['pulls']}: " + ", ".join(f"{one['counts'].get(call, 0)} {call}" for call in CALLS)
        for one in frames
    ]
    sheet = Sheet(
        "Met, failed or open: calls come one by one",
        f"Estimated strengths of {N_CALLS} of 40 alloys against the threshold of 70, at two moments. "
        + "; ".join(told)
        + ".",
    )
    kinds = {"met": "odd", "failed": "other", "open": "open"}
    ends = [end for one in frames for _, _, low, high, _ in one["arms"] for end in (low, high)]
    for number, one in enumerate(frames):
        left, top = 245.0 * number, sheet.top + 10.0
        sheet.text(left, top + 12, told[number].partition(":")[0], "strong")
        sheet.text(left, top + 33, told[number].partition(": ")[2])
        x = Scale(min(ends), max(ends), left + 44, left + 225)
        for place, (name, mean, low, high, call) in enumerate(one["arms"]):
            y = top + 56 + 20 * place
            sheet.text(left, y + 5, name)
            sheet.path([(x(low), y), (x(high), y)], "mean" if call == "open" else "axis")
            (sheet.diamond if call == "met" else sheet.dot)(x(mean), y, 5.5 if call == "met" else 4.5, kinds[call])
        end = top + 56 + 20 * len(one["arms"])
        sheet.path([(x(70), top + 44), (x(70), end - 4)], "goal")
        sheet.text(x(70), end + 14, "70", "middle")
    sheet.bottom = sheet.top + 86 + 20 * N_CALLS
    sheet.notes(
        [
            "Diamond: met. Grey: failed. Ring: open.",
            "Lines: likely values, estimates. The calls are proved.",
        ]
    )
    return sheet


# ---- a plate


def plate_numbers() -> dict[str, Any]:
    """Return the recipe of each well of the second plate of examples/plates.py."""
    arms, wells = plates.recipes, plates.WELLS
    study = sp.create_study("plates", arms=arms, storage="memory:", batch=wells, rounds=plates.PLATES)
    rng = np.random.default_rng(2)
    for ask in study.ask(wells):
        study.tell(ask, float(arms[int(ask.arm)] @ plates.effects + rng.standard_normal()), questions=False)
    return {"wells": [int(ask.arm) for ask in study.ask(wells)], "recipes": len(arms)}


def draw_plate(numbers: Mapping[str, Any]) -> Sheet:
    """Draw the plate: a letter in each well, the edge in blue."""
    wells, letters = numbers["wells"], string.ascii_uppercase[: numbers["recipes"]]
    n_edge = sum(map(plates.is_edge, range(len(wells))))
    used = Counter(wells)
    each = " to ".join(map(str, sorted({min(used.values()), max(used.values())})))
    sheet = Sheet(
        "A plate is planned as a whole, and its wells are in random order",
        f"The second plate of {len(wells)} wells: {len(used)} of {len(letters)} recipes, each in {each} wells, in "
        f"random order; {n_edge} wells are at the edge.",
    )
    top = sheet.top + 26
    for place, arm in enumerate(wells):
        row, column = divmod(place, 12)
        x, y = 25.0 + 39.0 * column, top + 34.0 * row
        sheet.dot(x, y, 15, "cap" if plates.is_edge(place) else "globe")
        sheet.text(x, y + 5, letters[arm], "middle")
    sheet.bottom = top + 34.0 * 8 - 10
    sheet.notes(
        [
            f"Letters: recipes. Blue: the {n_edge} wells at the edge, which dry out.",
            "Whether a recipe lies at the edge is chance alone.",
        ]
    )
    return sheet


# ---- a pool


def pool_numbers() -> dict[str, Any]:
    """Return how many questions each prompt of examples/prompts.py was asked."""
    arms = sp.FiniteArms(np.eye(len(prompts.PROMPTS)), names=prompts.PROMPTS)
    result = sp.identify(arms, prompts.grade, pool=prompts.N_QUESTIONS, rewards="binary")
    counts = [result.counts.get(row, 0) for row in range(len(prompts.PROMPTS))]
    return {"counts": counts, "best": int(result.best), "items": prompts.N_QUESTIONS}


def draw_pool(numbers: Mapping[str, Any]) -> Sheet:
    """Draw a bar for each prompt: the questions it was asked."""
    counts, best, items = numbers["counts"], numbers["best"], numbers["items"]
    whole = len(counts) * items
    sheet = Sheet(
        "A prompt that is excluded is asked no more",
        f"Questions asked of each of {len(counts)} prompts, the best one first: from {min(counts)} to {max(counts)} of "
        f"{items}. In all {sum(counts):,} calls; the whole table has {whole:,}.",
    )
    x = Scale(0, items, 8.0, 462.0)
    order = sorted(range(len(counts)), key=lambda row: (row != best, -counts[row]))
    top = sheet.top + 22
    sheet.text(x(0), top - 4, "the best prompt", "strong")
    for place, row in enumerate(order):
        y = top + 4 + 10.0 * place
        sheet.bar(x(0), y, x(items) - x(0), 7, "globe")
        sheet.bar(x(0), y, x(counts[row]) - x(0), 7, "odd" if row == best else "ours")
    end = top + 10.0 * len(order)
    for value in (0, items // 2, items):
        sheet.text(x(value), end + 24, str(value), "middle" if value < items else "end")
    sheet.text(x(items / 4), end + 24, "questions", "middle")
    sheet.bottom = end + 32
    sheet.notes([f"Asked: {sum(counts):,} of {whole:,}. Grey: never needed. Simulated answers."])
    return sheet


# ---- a budget


NAMES = {
    "soare6": "Soare, 6 features",
    "basis5": "5 arms",
    "sphere5": "50 arms, 5 features",
    "equal10": "10 arms, 9 equal",
}


def budget_numbers() -> dict[str, Any]:
    """Return what `benchmarks/fixed_budget.py` kept."""
    kept: dict[str, Any] = json.loads(FIXED_BUDGET.read_text("utf-8"))
    way = "default, all spent"
    return {
        "runs": kept["runs"],
        "times": [0.5, 1.0, 2.0],
        "right": {name: [100.0 * (1.0 - kept[name][way][t]["wrong"]) for t in ("0.5", "1.0", "2.0")] for name in NAMES},
        "proved": {name: [100.0 * kept[name][way][t]["proved"] for t in ("0.5", "1.0", "2.0")] for name in NAMES},
    }


def draw_budget(numbers: Mapping[str, Any]) -> Sheet:
    """Draw the share of right picks, and of proved ones, over the budget."""
    times, right, proved = numbers["times"], numbers["right"], numbers["proved"]
    spread = [(min(one[t] for one in right.values()), max(one[t] for one in right.values())) for t in range(len(times))]
    sheet = Sheet(
        "The pick is right long before it is proved",
        f"Share of right picks over the budget, on {len(right)} problems: "
        + ", ".join(
            f"{low:.0f} to {high:.0f} % at {t:g} times the minimum"
            for t, (low, high) in zip(times, spread, strict=True)
        )
        + f". Proved by then: {min(one[-1] for one in proved.values()):.0f} to "
        f"{max(one[-1] for one in proved.values()):.0f} % at {times[-1]:g} times.",
    )
    x, y = Scale(0.4, 2.1, 62.0, 462.0), Scale(0.0, 100.0, sheet.top + 225.0, sheet.top + 20.0)
    draw_axes(sheet, x, y, (times, (0, 50, 100)), " %")
    for name in right:
        sheet.path([(x(t), y(value)) for t, value in zip(times, right[name], strict=True)], "mean")
        sheet.path([(x(t), y(value)) for t, value in zip(times, proved[name], strict=True)], "lost")
        for t, value in zip(times, right[name], strict=True):
            sheet.dot(x(t), y(value), 4, "ours")
        for t, value in zip(times, proved[name], strict=True):
            sheet.diamond(x(t), y(value), 5, "odd")
    sheet.text(x(1.05), y(83), "right", "strong")
    sheet.text(x(1.35), y(18), "proved", "strong")
    sheet.text(x(1.25), y.start + 42, "budget, as times of the minimum for a risk of 5 %", "middle")
    sheet.notes([f"Four problems, {numbers['runs']} runs each; all of the budget is spent."])
    return sheet
