"""Reports of experiments: Markdown and one HTML file that needs nothing else, with figures as PNG and SVG.

Every number comes from the runs in the folders; `report_cells` computes, `report_plots` draws, this module words, and
the two templates lay out. What others have published comes first, with a tally of how ours stand to it.
"""

import html
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from surepick.errors import InvalidInput
from surepick.reporting.experiment_cells import Compared, Section, Summary, grouped, read_section
from surepick.reporting.experiment_plots import Figure, draw, sentence
from surepick.reporting.html import data_uri, template

NOTHING = "-"
WORDS = {"agrees": "agree", "better": "better", "differs": "differ", "open": "cannot be told"}
LONG = 12
"""Rows from which on a table that lists everything is folded."""


class Entry(NamedTuple):
    """A cell of a table."""

    text: str
    details: tuple[str, ...] = ()
    tone: str = ""
    """How it looks: a verdict, or best."""
    shade: float = 0.0
    """How dark, up to 1."""


class Table(NamedTuple):
    """A table; all but its first columns, which are words, are numbers."""

    title: str
    headers: list[str]
    n_words: int
    rows: list[list[Entry]]
    note: str = ""
    is_folded: bool = False
    """Whether the reader has to ask for it."""


class Part(NamedTuple):
    """What a report shows about one experiment."""

    name: str
    title: str
    about: list[str]
    facts: str
    finding: str
    whys: list[str]
    tables: list[Table]
    figures: list[Figure]


def write_report(folders: Sequence[Path], out: Path) -> list[Path]:
    """Write report.md, report.html and the figures for some folders of results.

    Args:
        folders: each with the `experiment.toml` and the `runs.parquet` of one experiment.
        out: where to; made if there is none.

    Returns:
        The files, the two reports first.

    Raises:
        InvalidInput: no folder is given, or one has no experiment.
        SurepickError: a table of runs is damaged, or Jinja2, matplotlib or pyarrow is not installed.
    """
    if not folders:
        raise InvalidInput("a report needs at least one folder of results, got none.")
    # Texts come from files of the user's, so both escape all of them.
    templates = {
        "report.md": template("report.md", "surepick.reporting", finalize=_md),
        "report.html": template("report.html", "surepick.reporting"),
    }
    sections = sorted((read_section(Path(folder)) for folder in folders), key=lambda s: not s.experiment.published)
    out.mkdir(parents=True, exist_ok=True)
    parts = [part_of(section, draw(section, out)) for section in sections]
    context = {
        "title": parts[0].title if len(parts) == 1 else f"Report on {len(parts)} experiments",
        "finding": tally([compared for section in sections for _, compared in section.compared]),
        "parts": parts,
        "data_uri": lambda path: data_uri(path.read_bytes()),
    }
    for name, layout in templates.items():
        (out / name).write_text(layout.render(context).rstrip() + "\n", "utf-8", newline="\n")
    figures = [path for part in parts for figure in part.figures for path in figure.paths]
    return [*(out / name for name in templates), *figures]


def part_of(section: Section, figures: list[Figure]) -> Part:
    """Word one experiment."""
    experiment = section.experiment
    has_bounds = any("ratio" in summary.quantities for summary in section.summaries)
    words = {"better": "is better", "differs": "differs", "open": "cannot be told"}
    reasons = Counter((s.label, words[c.verdict], c.why) for s, c in section.compared if c.verdict in words)
    finding, sizes = _by_size(section, "ratio" if has_bounds else "n_pulls")
    return Part(
        name=experiment.name,
        title=experiment.title,
        about=[" ".join(text.split()) for text in experiment.about.split("\n\n") if text.strip()],
        facts=_facts(section),
        finding=tally([compared for _, compared in section.compared]) or finding,
        whys=[f"{label} {word} ({n}){f': {why}' if why else ''}." for (label, word, why), n in reasons.items()],
        tables=[*(_beside_published(section) or [sizes]), *_side_by_side(section), _every_cell(section, has_bounds)],
        figures=figures,
    )


def tally(compared: Sequence[Compared]) -> str:
    """How many published figures agree; empty if there are none."""
    counts = Counter[str](one.verdict for one in compared)
    told = [f"{counts[verdict]} {word}" for verdict, word in WORDS.items() if counts[verdict]]
    return f"Of {len(compared)} published figures: {', '.join(told)}." if told else ""


def _facts(section: Section) -> str:
    experiment, counts = section.experiment, [summary.n_runs for summary in section.summaries]
    if section.written is None or not any(counts):
        return f"No runs yet. Seed {experiment.seed}."
    versions = sorted({version for summary in section.summaries for version in summary.versions})
    each = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return (
        f"{_count(sum(counts))} runs, {each} in each of {len(counts)} cells, seed {experiment.seed}, "
        f"at most {_count(experiment.max_pulls)} pulls a run, surepick {' and '.join(versions)}, last run saved "
        f"{section.written:%Y-%m-%d %H:%M} UTC. Runs of the same number share their noise across cells: algorithms are "
        "compared on equal terms, and rows are not independent of each other."
    )


def _beside_published(section: Section) -> list[Table]:
    """For each quantity that others have published: ours, theirs and how they stand to each other."""

    def entry(summary: Summary, quantity: str) -> Entry:
        compared = [one for one in summary.compared if one.published.quantity == quantity]
        details: list[str] = []
        for one in compared:
            theirs = _with_se(one.published.mean, math.nan if one.published.se is None else one.published.se)
            details += [f"theirs {theirs}", one.verdict + ("" if math.isnan(one.z) else f", z {one.z:+.1f}")]
        return Entry(_quantity(summary, quantity), tuple(details), compared[0].verdict if compared else "")

    published = section.experiment.published
    note = f"Published: {'; '.join(dict.fromkeys(figure.source for figure in published))}."
    return [
        _matrix(section, f"{sentence(quantity)}, ours and published", note, partial(entry, quantity=quantity))
        for quantity in dict.fromkeys(figure.quantity for figure in published)
    ]


def _by_size(section: Section, quantity: str) -> tuple[str, Table]:
    """A sentence and a matrix on who needs least; who does not stop, errs or is told theta is out of competition."""
    known = [summary for summary in section.summaries if quantity in summary.quantities]
    size = {id(summary): summary.quantities[quantity].mean for summary in known}
    least: dict[str, float] = {}
    best: set[int] = set()
    for place, members in grouped(known, section.place).items():
        least[place] = min(size[id(summary)] for summary in members)
        fair = [id(summary) for summary in members if summary.is_fair]
        best |= {one for one in fair if size[one] == min(size[other] for other in fair)}

    def entry(summary: Summary) -> Entry:
        mean, *details = _quantity(summary, quantity).split(" ±")
        is_best, low = id(summary) in best, least.get(section.place(summary), 0.0)
        # Some cells have runs and no bound: an experiment may ask for one per instance alone.
        shade = min(1.0, math.log10(size[id(summary)] / low)) if low and id(summary) in size else 0.0
        lines = [f"±{se}" for se in details] + ["wrong too often"] * summary.errs_too_often
        return Entry("★\u00a0" * is_best + mean, tuple(lines), "best" * is_best, round(shade, 2))

    counts = Counter(summary.label for summary in known if id(summary) in best).most_common()
    wins = [f"{label} ({n} of {len(least)})" for label, n in counts[:4]] + ["others"] * (len(counts) > 4)
    what = "Closest to the lower bound" if quantity == "ratio" else "Fewest pulls"
    finding = f"{what}: {', '.join(wins)}." if wins and len(section.experiment.algorithms) > 1 else ""
    note = (
        "★: the least on its problem, of those that stop and are not told theta. Darkest: ten times the least or more."
    )
    return finding, _matrix(section, sentence(quantity), note, entry)


def _matrix(section: Section, title: str, note: str, entry: Callable[[Summary], Entry]) -> Table:
    """Algorithms and problems, the longer side downwards; empty where the experiment has no cell."""
    entries = {(summary.label, section.place(summary)): entry(summary) for summary in section.summaries}
    labels, places = (list(dict.fromkeys(pair[side] for pair in entries)) for side in (0, 1))
    rows = [[entries.get((label, place), Entry("")) for place in places] for label in labels]
    head, down, across = "Algorithm", labels, places
    if len(places) > len(labels):
        head, down, across, rows = "Problem", places, labels, [list(row) for row in zip(*rows, strict=True)]
    rows = [[Entry(name), *row] for name, row in zip(down, rows, strict=True)]
    return Table(title=title, note=note, headers=[head, *across], n_words=1, rows=rows)


def _side_by_side(section: Section) -> list[Table]:
    """How many times the pulls and the CPU time of its baseline an algorithm needed, on the same machine."""
    known = {(summary.label, section.place(summary)): summary for summary in section.summaries if summary.n_runs}
    rows = []
    for (label, place), summary in known.items():
        other = known.get((summary.cell.algorithm.baseline, place))
        if other is not None:
            times = (summary.quantities[name].mean / other.quantities[name].mean for name in ("n_pulls", "seconds"))
            rows.append([*map(Entry, (label, other.label, place, *map(_number, times)))])
    headers = ["Algorithm", "Beside", "Problem", "Pulls, times", "CPU time, times"]
    return [Table(title="Side by side", headers=headers, n_words=3, rows=rows)] if rows else []


def _every_cell(section: Section, has_bounds: bool) -> Table:  # noqa: FBT001 (of `part_of`)
    columns: dict[str, Callable[[Summary], str]] = {
        "Algorithm": lambda s: s.label,
        "Problem": section.place,
        "Runs": lambda s: str(s.n_runs),
        "Mean pulls": lambda s: _quantity(s, "n_pulls"),
        "Median": lambda s: _number(s.quantiles.get(0.5, math.nan)),
        "90 %": lambda s: _number(s.quantiles.get(0.9, math.nan)),
        "Wrong": _errors,
        "Lower bound": lambda s: _quantity(s, "lower_bound").split(" ±")[0],
        "Ratio": lambda s: _quantity(s, "ratio"),
        "CPU ms": lambda s: _quantity(s, "seconds", 1e3),
        "Arms pulled": lambda s: _quantity(s, "support"),
        "Unfinished": lambda s: str(s.n_unfinished) if s.n_runs else NOTHING,
    }
    if not has_bounds:
        del columns["Lower bound"], columns["Ratio"]
    rows = [[Entry(text(summary)) for text in columns.values()] for summary in section.summaries]
    return Table(title="All cells", headers=list(columns), n_words=2, rows=rows, is_folded=len(rows) > LONG)


def _errors(summary: Summary) -> str:
    low, high = summary.error_interval
    mark = " > delta!" if summary.errs_too_often else ""
    return f"{summary.n_errors} ({100 * low:.2g} to {100 * high:.2g} %){mark}" if summary.n_runs else NOTHING


def _quantity(summary: Summary, quantity: str, scale: float = 1.0) -> str:
    if quantity not in summary.quantities:
        return NOTHING
    mean, se = summary.quantities[quantity]
    is_low = summary.n_unfinished and quantity in {"n_pulls", "ratio"}
    return ("≥\u00a0" if is_low else "") + _with_se(scale * mean, scale * se)


def _with_se(mean: float, se: float) -> str:
    return _number(mean) + ("" if math.isnan(se) else f" ±\u00a0{_number(se)}")


def _number(value: float) -> str:
    """Four digits or so, and never an exponent for what people count."""
    if math.isnan(value):
        return NOTHING
    if value == 0.0 or abs(value) >= 1000.0:
        return _count(round(value))
    return f"{value:.1f}" if abs(value) >= 10.0 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


def _count(number: int) -> str:
    return f"{number:,}".replace(",", "\u202f")


def _md(value: object) -> str:
    """Text that Markdown shows as it is: no markup, no HTML, no end of a line or of a table's cell."""
    text = html.escape(str(value), quote=False).replace("\n", " ")
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", text)
