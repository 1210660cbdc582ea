"""What surepick needs beside others, by the lead and by the number of options; a study; a sphere."""

import itertools
import json
import math
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import surepick as sp
from docs.drawings.sheet import DELTA, Point, Scale, Sheet, draw_axes
from surepick.study import events, log

RIVALS = Path(__file__).parents[2] / "benchmarks" / "results" / "rivals.json"


# ---- pulls to a defended answer


def rivals_numbers() -> dict[str, Any]:
    """Return what `benchmarks/rivals.py` kept about the questionnaire."""
    found: dict[str, Any] = json.loads(RIVALS.read_text("utf-8"))["questionnaire"]
    return found


def draw_rivals(case: Mapping[str, Any]) -> Sheet:
    """Draw bars: measurements to an answer with a guarantee, of surepick and of what people do otherwise."""
    rows = {row["method"]: row for row in case["rows"]}
    checked = rows["surepick, with the model check"]
    others = {
        "equal samples and least squares": rows["uniform + least squares + Bonferroni"],
        "racing: losers drop out early": rows["racing"],
        "equal samples": rows["uniform + Bonferroni"],
    }
    ours = f"{rows['surepick']['pulls']:,.0f}"
    told = "; ".join(f"{name} {row['pulls']:,.0f}" for name, row in others.items())
    sheet = Sheet(
        "Fewer measurements to an answer that you can defend",
        "Bars: measurements until the best of 12 offers of a questionnaire is known with at most 5 % risk. surepick "
        f"{ours}, with the model check {checked['pulls']:,.0f}; {told}.",
    )
    sheet.text(0, sheet.top + 14, "Which of 12 offers do most people take? People asked:", "note")
    x = Scale(0.0, max(row["pulls"] for row in others.values()), 0.0, 400.0)
    y = sheet.top + 46
    sheet.text(0, y, "surepick", "strong")
    sheet.bar(0, y + 8, x(rows["surepick"]["pulls"]), 24, "ours")
    sheet.bar(x(rows["surepick"]["pulls"]), y + 8, x(checked["pulls"]) - x(rows["surepick"]["pulls"]), 24, "hatched")
    sheet.text(x(checked["pulls"]) + 10, y + 25, f"{ours}; with the model check {checked['pulls']:,.0f}", "strong")
    for name, row in others.items():
        y += 60
        sheet.text(0, y, name)
        sheet.bar(0, y + 8, x(row["pulls"]), 24, "other")
        sheet.text(x(row["pulls"]) + 10, y + 25, f"{row['pulls']:,.0f}")
    sheet.bottom = y + 40
    runs = f"Means of {checked['runs']} simulated runs, {case['date']}."
    sheet.notes(
        [
            "Risk of a wrong answer: at most 5 % for every method.",
            "surepick and least squares assume a linear model.",
            "Hatched: further measurements that test this model.",
            runs,
        ]
    )
    return sheet


# ---- how the lead decides the number of measurements


def gap_numbers() -> dict[str, Any]:
    """Return what `plan` expects on four options without features, for leads in units of the noise."""
    rows = []
    for gap in np.geomspace(0.1, 1.6, 9).tolist():
        plan = sp.plan(np.eye(4), theta=[gap, 0.0, 0.0, 0.0], noise_std=1.0, delta=DELTA)
        rows.append([gap, plan.pulls, plan.low, plan.high, plan.lower_bound])
    return {"plans": rows}


def draw_gap(numbers: Mapping[str, Any]) -> Sheet:
    """Draw measurements against the lead of the best option, both on logarithmic axes."""
    rows = numbers["plans"]
    ends = [f"a lead of {gap:g} takes about {float(f'{pulls:.2g}'):,.0f}" for gap, pulls, *_ in (rows[0], rows[-1])]
    sheet = Sheet(
        "Half the lead takes about four times the measurements",
        "Measurements against the lead of the best of four options, in standard deviations of the noise: "
        + "; ".join(ends)
        + ". A dashed line below shows the theoretical minimum.",
    )
    x, y = (
        Scale(0.1, 1.6, 68.0, 462.0, is_log=True),
        Scale(10, 30_000, sheet.top + 225.0, sheet.top + 20.0, is_log=True),
    )
    draw_axes(sheet, x, y, ((0.1, 0.2, 0.4, 0.8, 1.6), (10, 100, 1_000, 10_000)))
    low, high = [(x(row[0]), y(row[2])) for row in rows], [(x(row[0]), y(row[3])) for row in rows]
    sheet.path([*low, *reversed(high)], "band", is_closed=True)
    sheet.path([(x(row[0]), y(row[1])) for row in rows], "mean")
    sheet.path([(x(row[0]), y(row[4])) for row in rows], "goal")
    sheet.text(x(0.25), y(5_500), "surepick: 8 of 10 runs in the band")
    sheet.text(x(0.11), y(70), "no method needs fewer")
    sheet.text(x(0.11), y(70) + 20, "on average (dashed)")
    sheet.text(x(0.4), y.start + 42, "lead, in standard deviations of the noise", "middle")
    sheet.text(0, y.end - 2, "measurements")
    sheet.notes(["Four options, at most 5 % risk."])
    return sheet


# ---- many arms


RULES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "surepick": ("lazy-track-and-stop", {}),
    "Lazy Track-and-Stop": ("lazy-track-and-stop", {"variant": "paper"}),
    "XY-Adaptive": ("xy-adaptive", {"variant": "paper"}),
    "RAGE": ("rage", {"variant": "paper"}),
}
"""Algorithms with a guarantee; all but ours with the rules of their papers."""


def many_numbers() -> dict[str, Any]:
    """Return the pulls of algorithms on the problem of the paper with a thousand arms, and the lower bound."""
    problem, rows, n_runs = sp.problems.many_arms(1000, seed=0), [], 50
    for name, (algorithm, options) in RULES.items():
        runs = sp.simulate(problem, algorithm, delta=DELTA, n_runs=n_runs, seed=31, **options)
        rows.append(
            [name, float(runs.n_pulls.mean()), float(runs.n_pulls.std(ddof=1) / n_runs**0.5), int(runs.correct.sum())]
        )
    bound = sp.lower_bound(problem.X, problem.theta, delta=DELTA, noise_std=1.0)
    return {"bound": bound, "runs": n_runs, "rows": rows}


def draw_many(numbers: Mapping[str, Any]) -> Sheet:
    """Draw bars over the lower bound as a floor."""
    bound, rows = numbers["bound"], numbers["rows"]
    times = rows[0][1] / bound
    told = ", ".join(f"{name} {pulls:,.0f}" for name, pulls, *_ in rows)
    sheet = Sheet(
        f"1,000 options: {times:.1f} times the theoretical minimum",
        f"Bars: measurements until the best of 1,000 options is known with at most 5 % risk. Theoretical minimum "
        f"{bound:.0f}; {told}.",
    )
    x = Scale(0.0, max(pulls for _, pulls, *_ in rows), 0.0, 370.0)
    top = sheet.top + 30
    for place, (name, pulls, error, n_right) in enumerate(rows):
        y = top + 14 + 58 * place
        said = f"{name}, as published" if place else f"{name}: {pulls / bound:.1f} times the minimum"
        sheet.text(
            x(bound) + 8,
            y,
            said + ("" if n_right == numbers["runs"] else f", {n_right} right"),
            "" if place else "strong",
        )
        sheet.bar(0, y + 8, x(pulls), 24, "other" if place else "ours")
        sheet.text(x(pulls) + 8, y + 25, f"{pulls:,.0f} ± {error:,.0f}" if error >= 0.5 else f"{pulls:,.0f}")
    end = top + 14 + 58 * len(rows) - 20
    sheet.text(0, top - 10, f"minimum: {bound:.0f}", "note")
    sheet.path([(x(bound), top - 4), (x(bound), end)], "goal")
    sheet.bottom = end
    sheet.notes([f"Measurements, mean of {numbers['runs']} runs ± standard error; 5 % risk."])
    return sheet


# ---- a study


def study_numbers() -> dict[str, Any]:
    """Return the log of a study with two benches, of which one falls silent, a typing error, and a verdict."""
    recipes, rng = np.array([[1.0, 0.0], [0.7, 0.7], [0.0, 1.0]]), np.random.default_rng(5)
    start = moment = datetime(2026, 11, 2, 8, tzinfo=UTC)
    means = recipes @ [1.0, 0.35]
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(events, "now", lambda: moment),
        patch.object(log, "elapsed", lambda: moment.timestamp()),  # noqa: PLW0108 (the time goes on)
    ):
        study = sp.create_study(
            "recipes", arms=recipes, storage=f"{folder}/lab.db", noise_std=0.07, delta=DELTA, seed=0, author="Ann"
        )
        for hour in range(1, 40):
            benches = ("bench 1", "bench 2") if hour <= 4 else ("bench 1",)
            asked = {bench: study.ask(1, worker=bench, lease="4h")[0] for bench in benches}
            moment = start + timedelta(hours=hour)
            for bench, ask in asked.items():
                value = float(means[ask.arm] + 0.07 * rng.standard_normal())
                if hour == 6:
                    slip, meant = study.tell(ask.id, 10.0 * value, worker=bench, warn=False)[0], value
                elif bench == "bench 1" or hour < 4:  # bench 2 loses its power during its fourth measurement
                    study.tell(ask.id, value, worker=bench)
            if hour == 8:
                study.correct(slip.id, meant, reason="misplaced decimal point", worker="bench 1")
            if study.status.stopped:
                break
        rows = [json.loads(row.text) for row in study.events_after(0)]
    kept = ("kind", "at", "by", "ask", "asks", "measurement")
    told = [{key: row[key] for key in kept if key in row} for row in rows]
    for row in told:
        row["at"] = (datetime.fromisoformat(row["at"]) - start).total_seconds() / 3600.0
    return {"events": told}


def draw_study(numbers: Mapping[str, Any]) -> Sheet:
    """Draw the measurements of each bench over the hours, with what went wrong and the verdict."""
    told = numbers["events"]
    asked = {row["ask"]: row for row in told if row["kind"] == "asked"}
    done = {row["ask"]: row for row in told if row["kind"] == "told"}
    lost = next(row for row in told if row["kind"] == "expired")
    again = next(
        row
        for row in told
        if row["kind"] == "asked"
        and row["asks"][0][0] == asked[lost["asks"][0]]["asks"][0][0]
        and row["ask"] != lost["asks"][0]
    )
    mended = next(row for row in told if row["kind"] == "corrected")
    slip = next(row for row in told if row.get("measurement") == mended["measurement"])
    end = told[-1]["at"]
    sheet = Sheet(
        "A bench falls silent, a value is mistyped: the study goes on",
        f"Time line of a study with two benches. After {asked[lost['asks'][0]]['at']:.0f} hours bench 2 falls silent; "
        f"its lease runs out after {lost['at']:.0f} hours, and bench 1 gets the measurement. A value mistyped after "
        f"{slip['at']:.0f} hours is corrected after {mended['at']:.0f}. The verdict comes after {end:.0f} hours and "
        f"{len(done)} measurements.",
    )
    x = Scale(0.0, end, 70.0, 472.0)
    top = sheet.top + 34.0
    rows = {"bench 1": top + 56, "bench 2": top + 112}
    for bench, y in rows.items():
        sheet.text(0, y + 17, bench)
    for number, row in asked.items():
        left, y = x(row["at"]), rows[row["by"]]
        if number in done:
            kind = "odd" if done[number] is slip else "hatched" if row is again else "ours"
            sheet.bar(left + 1, y, x(done[number]["at"]) - left - 2, 24, kind)
        else:
            sheet.bar(left + 1, y, x(lost["at"]) - left - 2, 24, "lost")
            sheet.text(left, y + 44, "silent; lease runs out after 4 hours")
    sheet.path([(x(slip["at"]) - 8, top + 50), (x(slip["at"]) - 8, top + 22)], "axis")
    sheet.text(x(slip["at"]) - 8, top + 12, "mistyped", "middle")
    sheet.diamond(x(mended["at"]), top + 44, 7, "odd")
    sheet.text(x(mended["at"]) - 10, top + 32, "corrected")
    sheet.path([(x(lost["at"]), rows["bench 2"] + 12), (x(again["at"]) + 10, rows["bench 1"] + 28)], "arrow")
    sheet.text(x(again["at"]) + 24, rows["bench 1"] + 46, "measured by bench 1")
    sheet.path([(x(end), top + 26), (x(end), rows["bench 2"] + 60)], "goal")
    sheet.text(x(end), top + 12, "verdict", "end strong")
    for hour in range(0, math.ceil(end), 4):
        sheet.text(x(hour), rows["bench 2"] + 76, f"{hour} h", "middle")
    sheet.notes(["Blue: a measurement. Orange: mistyped. Dashed: no result."])
    return sheet


# ---- the sphere


def sphere_numbers() -> dict[str, Any]:
    """Return leader and bound of its loss at three moments of a run on the unit sphere in three dimensions."""
    theta, rng = np.array([0.36, 0.48, 0.8]), np.random.default_rng(3)
    learner = sp.create_learner("lazy-track-and-stop", sp.Sphere(3), delta=DELTA, epsilon=0.02, noise_std=0.5)
    frames = []
    for n in itertools.count(1):
        arm = learner.next_arms(1)[0]
        learner.tell(arm, float(arm @ theta + 0.5 * rng.standard_normal()))
        if learner.stopped or n in (20, 80):
            best = np.asarray(learner.decision.best).tolist()
            frames.append({"pulls": n, "best": best, "loss": learner.epsilon_bound()})
        if learner.stopped:
            break
    return {"theta": theta.tolist(), "frames": frames}


def draw_sphere(numbers: Mapping[str, Any]) -> Sheet:
    """Draw the sphere at each moment, with the cap of points that can be the best."""
    frames = numbers["frames"]
    told = ", ".join(f"after {one['pulls']} measurements at most {one['loss']:.2f}" for one in frames)
    sheet = Sheet(
        "Every point of a sphere is an option: the region of the best one shrinks",
        f"Three spheres; a cap that contains the best point shrinks around the leader. Loss of the leader: {told}.",
    )
    theta = np.array(numbers["theta"])
    # Seen from a point near the best one: right and up span the plane of the picture.
    view = np.array([0.3, 0.55, 0.75]) / np.linalg.norm([0.3, 0.55, 0.75])
    right = np.cross([0.0, 0.0, 1.0], view) / np.linalg.norm(np.cross([0.0, 0.0, 1.0], view))
    up = np.cross(view, right)
    radius, y = 72.0, sheet.top + 90.0
    for number, frame in enumerate(frames):
        x = 78.0 + 162.0 * number
        best = np.array(frame["best"])

        def place(point: Any, x: float = x) -> Point:
            return x + radius * float(point @ right), y - radius * float(point @ up)

        sheet.dot(x, y, radius, "globe")
        angle = math.acos(1.0 - frame["loss"])  # |theta| = 1: a point at this angle loses 1 - cos(angle)
        side = np.cross(best, [1.0, 0.0, 0.0]) / np.linalg.norm(np.cross(best, [1.0, 0.0, 0.0]))
        other = np.cross(best, side)
        turns = np.linspace(0.0, 2.0 * np.pi, 73)[:-1]
        rim = [math.cos(angle) * best + math.sin(angle) * (math.cos(t) * side + math.sin(t) * other) for t in turns]
        sheet.path([place(point) for point in rim], "cap", is_closed=True)
        sheet.dot(*place(best), 3.5, "tip")
        sheet.diamond(*place(theta), 5.5, "odd")
        sheet.text(x, y + radius + 24, f"after {frame['pulls']}", "middle strong")
        sheet.text(x, y + radius + 45, f"loses ≤ {frame['loss']:.2f}", "middle")
    sheet.notes(
        [
            "Dot: the answer so far. Diamond: the best point.",
            "Blue: where the best point can lie, with 95 % confidence.",
        ]
    )
    return sheet
