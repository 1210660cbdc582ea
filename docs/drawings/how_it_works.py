"""How surepick works: the loop, what it measures, when it stops, and the check of the model."""

import itertools
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import surepick as sp
from docs.drawings.sheet import DELTA, Scale, Sheet, draw_axes
from surepick.types import Array

# ---- the loop


def draw_loop(_: object) -> Sheet:
    """Draw the loop of ask, measure and tell."""
    sheet = Sheet(
        "surepick asks, you measure, until the answer is sure",
        "A loop of three steps: surepick asks which option comes next; you measure the option; you tell surepick the "
        "result. The loop ends when the answer is sure.",
    )
    top = sheet.top + 12
    boxes = [(155, top, "ask", "which option next?"), (300, top + 140, "measure", "your experiment")]
    boxes.append((10, top + 140, "tell", "what came out"))
    for x, y, name, what in boxes:
        sheet.bar(x, y, 170, 66, "box")
        sheet.text(x + 85, y + 28, name, "title middle")
        sheet.text(x + 85, y + 51, what, "middle")
    arrows = [[(290, 72), (345, 134)], [(294, 173), (186, 173)], [(135, 134), (190, 72)]]
    for arrow in arrows:
        sheet.path([(x, y + top) for x, y in arrow], "arrow")
    sheet.text(240, top + 110, "until the answer", "middle")
    sheet.text(240, top + 130, "is sure", "middle")
    sheet.bottom = top + 212
    return sheet


# ---- why a losing option is measured


def losing_numbers() -> dict[str, Any]:
    """Return the optimal shares of three options, two nearly equal, and the price of leaving out the third."""
    options, theta = np.array([[1.0, 0.0], [np.cos(0.1), np.sin(0.1)], [0.0, 1.0]]), np.array([2.0, 0.0])
    design = sp.characteristic_time(options, theta)
    favourites = sp.characteristic_time(options[:2], theta)
    shares = dict.fromkeys(range(3), 0.0) | dict(zip(design.support.tolist(), design.weights.tolist(), strict=True))
    names = ("A", "C", "B")
    rows = [[names[row], *options[row], options[row] @ theta, shares[row]] for row in range(3)]
    return {"options": rows, "times": favourites.value / design.value}


def draw_losing(numbers: Mapping[str, Any]) -> Sheet:
    """Draw three recipes in the plane of their ingredients; the area of a dot is its share of the measurements."""
    rows = {name: given for name, *given in numbers["options"]}
    times = f"{numbers['times']:,.0f} times as many"
    sheet = Sheet(
        "The losing option tells the two favourites apart",
        "Three recipes by their acid and sugar. A and C are nearly equal and differ mainly in sugar; B is all sugar "
        "and scores worst. "
        + " ".join(f"{name} gets {100 * share:.0f} of 100 measurements." for name, (*_, share) in rows.items())
        + f" Without B the answer takes {times} measurements.",
    )
    x, y = Scale(0.0, 1.0, 55.0, 235.0), Scale(0.0, 1.0, sheet.top + 215.0, sheet.top + 35.0)
    sheet.path([(x(0), y(1) - 25), (x(0), y(0)), (x(1) + 10, y(0))], "axis")
    sheet.text(x(0.5), y(0) + 22, "acid", "middle")
    sheet.text(x(0) - 8, y(0.5), "sugar", "end")
    ranks = {"A": "best", "C": "second", "B": "last"}
    places = {"A": 10.0, "C": 0.0, "B": 5.0}
    for name, (acid, sugar, mean, share) in rows.items():
        sheet.dot(x(acid), y(sugar), max(26.0 * math.sqrt(share), 4.0), "ours" if share > 0.005 else "open")
        counted = f"{100 * share:.0f} of 100" if share > 0.005 else "0 of 100"
        label = f"{name}, {ranks[name]} ({mean:.2f}): {counted}"
        sheet.text(x(acid) + (34 if name == "B" else 14), y(sugar) + places[name], label, "strong")
    for row, words in enumerate(
        ("A and C differ mainly in sugar.", "B shows what sugar does:", "measure B, though B loses.")
    ):
        sheet.text(x(0.5), y(0.62) + 22 * row, words)
    sheet.bottom = y(0) + 28
    sheet.notes(["Large dots: many of 100 measurements. Brackets: scores.", f"Measuring only A and C takes {times}."])
    return sheet


# ---- where the measurements of one run go


def allocation_numbers() -> dict[str, Any]:
    """Return four moments of one run on five options: pulls, estimates and their intervals."""
    means, rng, frames = np.array([1.0, 0.75, 0.5, 0.25, 0.0]), np.random.default_rng(0), []
    learner = sp.create_learner("lazy-track-and-stop", np.eye(5), delta=DELTA, noise_std=0.5, seed=0)
    for n in itertools.count(1):
        row = learner.next_arms(1)[0]
        learner.tell(row, float(means[row] + 0.5 * rng.standard_normal()))
        if learner.stopped or n in (10, 40, 100):
            table = learner.result().to_frame()[["pulls", "estimate", "likely_low", "likely_high"]]
            frames.append({"pulls": n, "options": table.to_numpy().tolist()})
        if learner.stopped:
            break
    return {"frames": frames, "best": learner.result().best}


def draw_allocation(numbers: Mapping[str, Any]) -> Sheet:
    """Draw each moment as five intervals with their counts."""
    last, best = numbers["frames"][-1], "ABCDE"[numbers["best"]]
    counts = ", ".join(f"{name} {row[0]:.0f}" for name, row in zip("ABCDE", last["options"], strict=True))
    sheet = Sheet(
        "Measurements go to the options that are still in doubt",
        f"One run on five options, at four moments: intervals of the means shrink, and after {last['pulls']} "
        f"measurements option {best} is proved to be the best. Measurements of each option at the end: {counts}.",
    )
    for number, frame in enumerate(numbers["frames"]):
        left, top = 245.0 * (number % 2), sheet.top + 10.0 + 160.0 * (number // 2)
        said = f"after {frame['pulls']}" + (f": {best} is proved best" if frame is last else "")
        sheet.text(left, top + 14, said, "strong")
        x = Scale(-1.2, 2.1, left + 22.0, left + 180.0)
        means = [mean for _, mean, *_ in frame["options"]]
        leader = means.index(max(means))
        for row, (pulls, mean, low, high) in enumerate(frame["options"]):
            y = top + 38 + 22 * row
            kind, size = ("odd", 6.0) if row == leader else ("ours", 4.5)
            sheet.text(left, y + 5, "ABCDE"[row])
            sheet.path([(x(low), y), (x(high), y)], "mean")
            (sheet.diamond if row == leader else sheet.dot)(x(mean), y, size, kind)
            sheet.text(left + 222, y + 5, f"{pulls:.0f}", "end")
    sheet.bottom = sheet.top + 320
    sheet.notes(
        ["Right: measurements so far. Diamond: who leads.", "Line: 95 % interval of this mean alone, an estimate."]
    )
    return sheet


# ---- evidence of twenty runs


def evidence_numbers() -> dict[str, Any]:
    """Return the evidence of twenty runs under the default rule, as a share of the threshold, and who was right."""
    angles = np.array([0.0, 0.4, 0.9, 1.5, 2.2])
    arms, runs = np.column_stack([np.cos(angles), np.sin(angles)]), []
    for seed in range(20):
        rng, path = np.random.default_rng([20, seed]), [[0.0, 0.0]]
        learner = sp.create_learner("lazy-track-and-stop", arms, delta=DELTA, seed=seed)
        for n in itertools.count(1):
            row = learner.next_arms(1)[0]
            learner.tell(row, float(arms[row] @ [1.0, 0.0] + 0.5 * rng.standard_normal()))
            share = max(learner.decision.evidence / learner.decision.target, 0.0)
            if share != path[-1][1]:
                path.append([float(n), share])
            if learner.stopped:
                break
        runs.append({"pulls": n, "is_right": learner.result().best == 0, "path": path})
    return {"runs": runs}


def draw_evidence(numbers: Mapping[str, Any]) -> Sheet:
    """Draw the evidence over the measurements, with a mark where each run stops."""
    runs = numbers["runs"]
    stops, n_right = sorted(run["pulls"] for run in runs), sum(run["is_right"] for run in runs)
    spread = f"Stops after {stops[0]} to {stops[-1]} measurements; {n_right} of {len(runs)} answers right."
    sheet = Sheet(
        "Each run stops by itself, once its evidence suffices",
        f"Evidence of {len(runs)} runs over the measurements. Every line ends at the threshold. {spread}",
    )
    most = 20 * math.ceil(stops[-1] / 20)
    x, y = Scale(0, most, 62.0, 460.0), Scale(0.0, 100.0, sheet.top + 215.0, sheet.top + 30.0)
    draw_axes(sheet, x, y, (range(0, most + 1, 20 if most <= 160 else 40), (0, 50, 100)), " %")
    sheet.path([(x.start, y(100)), (x.end, y(100))], "goal")
    sheet.text(x.start, y(100) - 10, "threshold: wrong with probability at most 5 %")
    for run in runs:
        sheet.path([(x(n), y(100.0 * share)) for n, share in run["path"]], "run")
    for run in runs:
        (sheet.dot if run["is_right"] else sheet.diamond)(
            x(run["pulls"]), y(100.0), 5, "ours" if run["is_right"] else "odd"
        )
    sheet.text(x(most / 2), y(0.0) + 42, "measurements", "middle")
    sheet.notes([spread])
    return sheet


# ---- the model check


def model_numbers() -> dict[str, Any]:
    """Return measured and fitted means of the sixteen settings of docs/model.md, with the clash and without it."""
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
    settings = np.column_stack([np.ones(16), signs])
    linear, clash = settings @ [0.0, 0.5, 0.4, 0.3, 0.15], 0.35 * signs[:, 2] * signs[:, 3]
    return {"panels": [_checked(settings, linear - clash), _checked(settings, linear)]}


def _checked(settings: Array, means: Array) -> dict[str, Any]:
    """Return verdict, and fitted mean, measured mean and its standard error of each setting, after the model check."""
    rng, rewards = np.random.default_rng(7), dict[int, list[float]]()
    with warnings.catch_warnings(action="ignore", category=sp.ModelWarning):
        result = sp.identify(settings, lambda row: float(means[row] + rng.standard_normal()), audit="auto")
    for arm, reward in result.history:
        rewards.setdefault(arm, []).append(reward)
    dots = [
        [float(result.arms.estimate[arm]), sum(found) / len(found), result.noise_std / len(found) ** 0.5]
        for arm, found in sorted(rewards.items())
    ]
    return {"guarantee": result.guarantee, "n_pulls": result.n_pulls, "settings": dots}


def draw_model(numbers: Mapping[str, Any]) -> Sheet:
    """Draw measured against fitted means after the model check, with the clash and without it."""
    panels, titles = numbers["panels"], []
    for panel in panels:
        is_alarm = panel["guarantee"] == "withdrawn"
        titles.append("alarm, answer withdrawn" if is_alarm else "no alarm, answer stands")
    sheet = Sheet(
        "The model check withdraws an answer that the data contradict",
        f"Measured against fitted means of sixteen settings. Left, where two switches clash: {titles[0]}; "
        f"{sum(map(is_odd, panels[0]['settings']))} settings lie off the line. Right, without the clash: {titles[1]}; "
        f"{sum(map(is_odd, panels[1]['settings']))} lie off the line.",
    )
    for number, (panel, title, cause) in enumerate(
        zip(panels, titles, ("Two switches clash", "No clash"), strict=True)
    ):
        left, top = 245.0 * number, sheet.top + 10.0
        sheet.text(left, top + 12, cause, "strong")
        sheet.text(left, top + 33, title, "strong")
        x, y = Scale(-2.2, 2.2, left + 28, left + 225), Scale(-2.2, 2.2, top + 245, top + 48)
        draw_axes(sheet, x, y, ((-2, 0, 2), (-2, 0, 2)))
        sheet.path([(x(-2.2), y(-2.2)), (x(2.2), y(2.2))], "goal")
        for fitted, measured, error in panel["settings"]:
            sheet.path([(x(fitted), y(measured - 2.0 * error)), (x(fitted), y(measured + 2.0 * error))], "axis")
            if is_odd((fitted, measured, error)):
                sheet.diamond(x(fitted), y(measured), 6.5, "odd")
            else:
                sheet.dot(x(fitted), y(measured), 4.5, "ours")
        sheet.text(left + 126, y.start + 42, "fitted mean", "middle")
    sheet.bottom = sheet.top + 302
    sheet.notes(["Upwards: measured mean, ± 2 standard errors.", "Diamond: more than 3 standard errors off the fit."])
    return sheet


def is_odd(setting: Sequence[float]) -> bool:
    """Whether the measured mean of a setting is far from the fitted one."""
    fitted, measured, error = setting
    return abs(measured - fitted) > 3.0 * error
