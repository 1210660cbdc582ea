"""Pictures for README and docs, drawn light and dark from kept numbers.

`python -m docs.pictures` draws all of them into docs/_static/pictures, from numbers.json beside them and from
benchmarks/results. `python -m docs.pictures NAME ...` first runs the simulations behind these pictures
again; `all` means every picture. All are seeded, and take about a minute together. `docs/drawings` has the drawings.

The command prints the HTML by which a page shows each picture: GitHub chooses light or dark by itself, and `themed`
lets the site choose by its own switch. The same numbers give the same bytes.
"""

import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from docs.drawings import experiments, how_it_works, results
from docs.drawings.sheet import THEMES, Sheet

FOLDER = Path(__file__).parent / "_static" / "pictures"
NUMBERS = FOLDER / "numbers.json"


class Picture(NamedTuple):
    """A picture: how it is drawn, and how its numbers are measured; None: a benchmark did."""

    draw: Callable[[Any], Sheet]
    measure: Callable[[], dict[str, Any]] | None = None


PICTURES: Mapping[str, Picture] = {
    "rivals": Picture(results.draw_rivals),
    "loop": Picture(how_it_works.draw_loop),
    "losing-option": Picture(how_it_works.draw_losing, how_it_works.losing_numbers),
    "allocation": Picture(how_it_works.draw_allocation, how_it_works.allocation_numbers),
    "evidence": Picture(how_it_works.draw_evidence, how_it_works.evidence_numbers),
    "model-check": Picture(how_it_works.draw_model, how_it_works.model_numbers),
    "lead": Picture(results.draw_gap, results.gap_numbers),
    "many-options": Picture(results.draw_many, results.many_numbers),
    "study": Picture(results.draw_study, results.study_numbers),
    "sphere": Picture(results.draw_sphere, results.sphere_numbers),
    "bench": Picture(experiments.draw_bench, experiments.bench_numbers),
    "drift": Picture(experiments.draw_drift, experiments.drift_numbers),
    "calls": Picture(experiments.draw_calls, experiments.call_numbers),
    "plate": Picture(experiments.draw_plate, experiments.plate_numbers),
    "pool": Picture(experiments.draw_pool, experiments.pool_numbers),
    "budget": Picture(experiments.draw_budget),
}


def sheets() -> dict[str, Sheet]:
    """Return every picture, drawn from the kept numbers."""
    kept = {"rivals": results.rivals_numbers(), "budget": experiments.budget_numbers()}
    numbers = {**json.loads(NUMBERS.read_text("utf-8")), **kept}
    return {name: picture.draw(numbers.get(name)) for name, picture in PICTURES.items()}


def file_of(name: str, theme: str) -> Path:
    """Return where a picture is kept."""
    return FOLDER / f"{name}-{theme}.svg"


def html(name: str, alt: str, folder: str = "_static/pictures/") -> str:
    """Return what a page writes to show a picture; `folder` leads from the page to the pictures."""
    words = "\n".join(textwrap.wrap(f'<img src="{folder}{name}-light.svg" alt="{escape(alt)}">', 100))
    dark = f'<source media="(prefers-color-scheme: dark)" srcset="{folder}{name}-dark.svg">'
    return f"<picture>\n{dark}\n{words}\n</picture>"


FOUND = re.compile(
    r'<picture>\s*<source[^>]*srcset="(?P<dark>[^"]*)"\s*>\s*<img\s+src="(?P<light>[^"]*)"\s+alt="(?P<alt>[^"]*)"[^>]*>'
    r"\s*</picture>"
)
"""A picture in a page."""


def themed(page: str) -> str:
    """Return a page whose pictures follow the switch of the site between light and dark, not the system's setting."""
    shown = "\n".join(rf'<img class="only-{theme}" src="\g<{theme}>" alt="\g<alt>">' for theme in THEMES)
    return FOUND.sub(f'<div class="picture">\n{shown}\n</div>', page)


def measure(names: Iterable[str]) -> None:
    """Run the simulations behind pictures again, and keep their numbers."""
    known = json.loads(NUMBERS.read_text("utf-8")) if NUMBERS.exists() else {}
    today = datetime.now(UTC).date().isoformat()
    for name in names:
        run = PICTURES[name].measure
        if run is not None:
            known[name] = {"date": today, "command": f"python -m docs.pictures {name}", **_rounded(run())}
    rows = (f"{json.dumps(name)}: {json.dumps(known[name])}" for name in PICTURES if name in known)
    NUMBERS.write_text("{" + ",\n".join(rows) + "}\n", "utf-8")


def _rounded(value: Any) -> Any:
    """Return plain numbers of five digits: machines differ in more."""
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.5g}")
    return value


def main(names: Sequence[str]) -> None:
    """Measure what is named, and draw everything."""
    unknown = [name for name in names if name not in (*PICTURES, "all")]
    if unknown:
        sys.exit(f"no picture named {', '.join(unknown)}; there are: {', '.join(PICTURES)}, and all for every one")
    measure(PICTURES if "all" in names else names)
    for name, sheet in sheets().items():
        for theme in THEMES:
            file_of(name, theme).write_text(sheet.svg(theme), "utf-8")
        sys.stdout.write(f"{html(name, sheet.alt)}\n\n")


if __name__ == "__main__":
    main(sys.argv[1:])
