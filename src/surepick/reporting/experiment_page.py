"""Reports of experiments: Markdown, one HTML page that needs no other file, and tables for LaTeX.

This module writes the sentences and tables, and two templates lay out the page. Published figures come first, with a
count of how many agree with ours.
"""

import html
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from surepick.errors import InvalidInput
from surepick.reporting.experiment_figures import Figure, draw, sentence
from surepick.reporting.experiment_summary import SURE, Compared, Section, Summary, grouped, read_section
from surepick.reporting.html import Cell, Table, data_uri, template
from surepick.simulation.run import has_normal_noise
from surepick.simulation.runs import latex_table, latex_text

NOTHING = "-"
WORDS = {"agrees": "agree", "better": "better", "differs": "differ", "open": "cannot be told"}
LONG = 12
"""Rows above which the table of all cells is folded."""
TOO_GOOD = (
    "below the minimum: the mean is more than 3 standard errors below the lower bound, which holds for every method "
    "that is right with probability 1 - delta on all problems. So this method cannot be right with 1 - delta on all "
    "problems."
)


class Part(NamedTuple):
    """The part of a report about one experiment."""

    name: str
    title: str
    about: list[str]
    facts: str
    unfinished: str
    """Says that runs are missing; "" if none are."""
    finding: str
    whys: list[str]
    tables: list[Table]
    figures: list[Figure]

    @property
    def pictures(self) -> list[tuple[str, str]]:
        """The figures as data URIs, with their captions."""
        return [(data_uri(figure.paths[1].read_bytes()), figure.caption) for figure in self.figures]


def write_report(folders: Sequence[Path], out: Path, *, latex: bool = False) -> list[Path]:
    """Write report.md, report.html and the figures for folders of results.

    Args:
        folders: each with the `experiment.toml` and the `runs.parquet` of one experiment.
        out: folder of the report; created if missing.
        latex: also write report.tex, a table for each experiment, and every figure as PDF for one and two columns.

    Returns:
        The written files, the two reports first.

    Raises:
        InvalidInput: no folder is given, or one has no experiment.
        SurepickError: a table of runs is damaged, or Jinja2, matplotlib or pyarrow is not installed.
    """
    if not folders:
        raise InvalidInput("a report needs at least one folder of results, got none.")
    # Texts come from files of the user, so both templates escape them.
    templates = {"report.md": template("report.md", finalize=_md), "report.html": template("report.html")}
    sections = sorted((read_section(Path(folder)) for folder in folders), key=lambda s: not s.experiment.published)
    out.mkdir(parents=True, exist_ok=True)
    parts = [part_of(section, draw(section, out, in_paper=latex)) for section in sections]
    context = {
        "title": parts[0].title if len(parts) == 1 else f"Report on {len(parts)} experiments",
        "finding": tally([compared for section in sections for _, compared in section.compared]),
        "parts": parts,
    }
    for name, layout in templates.items():
        (out / name).write_text(layout.render(context).rstrip() + "\n", "utf-8", newline="\n")
    if latex:
        (out / "report.tex").write_text("\n".join(map(latex_of, sections)), "utf-8", newline="\n")
    figures = [path for part in parts for figure in part.figures for path in figure.paths]
    return [*(out / name for name in templates), *figures]


def latex_of(section: Section) -> str:
    """Return mean pulls with standard errors and wrong answers as a LaTeX table: algorithms down, problems across.

    The last row has the lower bounds. A dagger marks cells with runs that did not stop, whose mean is too small, a
    double one cells below the minimum. Cells with a fixed budget have a table of their own, of the share of wrong
    answers.
    """
    return "\n".join(_latex_part(part, is_budget=is_budget) for part, is_budget in _by_goal(section))


def _by_goal(section: Section) -> list[tuple[Section, bool]]:
    """Return the cells that stop by themselves, and those that spend a fixed budget, as far as there are such cells."""
    parts = [
        (section._replace(summaries=tuple(s for s in section.summaries if s.spends_all == is_budget)), is_budget)
        for is_budget in (False, True)
    ]
    return [(part, is_budget) for part, is_budget in parts if part.summaries]


def _latex_part(section: Section, *, is_budget: bool) -> str:
    rows = grouped(section.summaries, lambda summary: summary.label)
    places = list(dict.fromkeys(map(section.place, section.summaries)))
    body = []
    for label, summaries in rows.items():
        of_place = {section.place(summary): summary for summary in summaries}
        assert len(of_place) == len(summaries), "two problems have one name"
        rule = summaries[0].rule or "--"
        body.append([*map(latex_text, (label, rule)), *(_latex_entry(of_place.get(place)) for place in places)])
    bounds = {
        place: dict.fromkeys(f"${s.quantities['lower_bound'].mean:.1f}$" for s in some if "lower_bound" in s.quantities)
        for place, some in grouped(section.summaries, section.place).items()
    }
    if any(bounds.values()):  # they differ where algorithms of one column seek different answers
        body.append(["lower bound", "", *(" / ".join(bounds[place]) or "--" for place in places)])
    has_costs = any("cost" in summary.quantities for summary in section.summaries)
    said = [
        f"{latex_text(section.experiment.title)}: "
        + ("wrong answers in per cent" if is_budget else "pulls, or cost where arms have costs" * has_costs or "pulls"),
        r"mean $\pm$ standard error, wrong answers of the runs in brackets",
        rf"$\delta = {', '.join(f'{delta:g}' for delta in section.experiment.delta)}$, seed {section.experiment.seed}.",
    ]
    if any(summary.n_unfinished for summary in section.summaries):
        said[-1] += r" $\dagger$: some runs did not stop, so the mean is too small."
    if any(summary.is_below_bound for summary in section.summaries):
        said[-1] += rf" $\ddagger$: {TOO_GOOD}"
    table = latex_table(["algorithm", "stopping rule", *map(latex_text, places)], body)
    unfinished = _unfinished(section)
    note = f"% {unfinished}\n" if unfinished else ""
    return f"{note}\\begin{{table}}\n\\centering\n\\caption{{{', '.join(said)}}}\n{table}\\end{{table}}\n"


def _latex_entry(summary: Summary | None) -> str:
    if summary is None or not summary.n_runs:
        return "--"
    wrong = f" ({summary.n_errors} of {summary.n_runs})"
    if summary.spends_all:
        share, se = summary.quantities["error"]
        return rf"${100 * share:.1f} \pm {100 * se:.1f}$" + wrong
    mean, se = summary.quantities["cost" if "cost" in summary.quantities else "n_pulls"]
    spread = "" if math.isnan(se) else rf" \pm {se:.1f}"
    mark = r"^\dagger" * bool(summary.n_unfinished) + r"^\ddagger" * summary.is_below_bound
    return f"${mean:.1f}{spread}{mark}${wrong}"


def _unfinished(section: Section) -> str:
    """Say that runs of the last sweep are missing; "" if none are, or if its number of runs is not known."""
    n_done = sum(min(summary.n_runs, section.n_wanted) for summary in section.summaries)
    n_all = section.n_wanted * len(section.summaries)
    return f"The sweep is not finished: {_count(n_done)} of {_count(n_all)} runs." if n_done < n_all else ""


def part_of(section: Section, figures: list[Figure]) -> Part:
    """Return the part of the report about one experiment."""
    experiment = section.experiment
    has_bounds = any("ratio" in summary.quantities for summary in section.summaries)
    words = {"better": "is better", "differs": "differs", "open": "cannot be told"}
    reasons = Counter((s.label, words[c.verdict], c.why) for s, c in section.compared if c.verdict in words)
    found = [
        ("", _errors_of_budgets(part)) if is_budget else _by_size(part, "ratio" if has_bounds else "n_pulls")
        for part, is_budget in _by_goal(section)
    ]
    return Part(
        name=experiment.name,
        title=experiment.title,
        about=[" ".join(text.split()) for text in experiment.about.split("\n\n") if text.strip()],
        facts=_facts(section),
        unfinished=_unfinished(section),
        finding=tally([compared for _, compared in section.compared]) or " ".join(text for text, _ in found if text),
        whys=[f"{label} {word} ({n}){f': {why}' if why else ''}." for (label, word, why), n in reasons.items()],
        tables=[
            *(_beside_published(section) or [table for _, table in found]),
            *_side_by_side(section),
            _every_cell(section),
        ],
        figures=figures,
    )


def tally(compared: Sequence[Compared]) -> str:
    """Return a sentence that counts agreements with published figures; empty if there are none."""
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
    """Return a table of ours and theirs for each published quantity."""

    def entry(summary: Summary, quantity: str) -> Cell:
        compared = [one for one in summary.compared if one.published.quantity == quantity]
        details: list[str] = []
        for one in compared:
            theirs = _with_se(one.published.mean, math.nan if one.published.se is None else one.published.se)
            details += [f"theirs {theirs}", one.verdict + ("" if math.isnan(one.z) else f", z {one.z:+.1f}")]
        return Cell(_quantity(summary, quantity), "\n".join(details), compared[0].verdict if compared else "")

    published = section.experiment.published
    note = f"Published: {'; '.join(dict.fromkeys(figure.source for figure in published))}."
    return [
        _matrix(section, f"{sentence(quantity)}, ours and published", note, partial(entry, quantity=quantity))
        for quantity in dict.fromkeys(figure.quantity for figure in published)
    ]


def _by_size(section: Section, quantity: str) -> tuple[str, Table]:
    """Return a sentence and a matrix on the fewest pulls.

    An algorithm competes if `Summary.is_fair` says so, with those that seek the same number of arms at the same costs.
    """
    known = [summary for summary in section.summaries if quantity in summary.quantities]
    size = {id(summary): summary.quantities[quantity].mean for summary in known}
    least: dict[str, float] = {}
    best: set[int] = set()
    for rank, members in grouped(known, partial(_rank, section)).items():
        least[rank] = min(size[id(summary)] for summary in members)
        fair = [id(summary) for summary in members if summary.is_fair]
        best |= {one for one in fair if size[one] == min(size[other] for other in fair)}

    def entry(summary: Summary) -> Cell:
        mean, *details = _quantity(summary, quantity).split(" ±")
        is_best, low = id(summary) in best, least.get(_rank(section, summary), 0.0)
        # Some cells have runs but no bound: `bounds` may be off for an algorithm.
        shade = min(1.0, math.log10(size[id(summary)] / low)) if low and id(summary) in size else 0.0
        lines = [f"±{se}" for se in details] + ["wrong too often"] * summary.errs_too_often
        if summary.n_errors > summary.cell.delta * summary.n_runs and not summary.errs_too_often:
            lines.append(f"wrong in {summary.n_errors} of {summary.n_runs}")
        lines += ["below the minimum"] * summary.is_below_bound
        lines += ["no guarantee"] * (summary.claim.guarantee not in SURE)
        return Cell("★\u00a0" * is_best + mean, "\n".join(lines), "best" * is_best, round(shade, 2))

    counts = Counter(summary.label for summary in known if id(summary) in best).most_common()
    wins = [f"{label} ({n} of {len(least)})" for label, n in counts[:4]] + ["others"] * (len(counts) > 4)
    what = "Closest to the lower bound" if quantity == "ratio" else "Fewest pulls"
    finding = f"{what}: {', '.join(wins)}." if wins and len(section.experiment.algorithms) > 1 else ""
    note = (
        "★ marks the least on its problem, among methods that stop, are wrong in at most a share delta of the runs, "
        "are proved or published, are not told theta, and are not below the minimum. The darkest cells have ten times "
        "the least or more."
    )
    if quantity == "ratio" and any("cost" in summary.quantities for summary in known):
        note += " Where arms have costs, the cost is divided by the lower bound on the cost."
    if rules := grouped([one for one in section.summaries if one.rule], attrgetter("rule")):
        named = (f"{rule} ({', '.join(dict.fromkeys(one.label for one in some))})" for rule, some in rules.items())
        note += f" Stopping rules: {', '.join(named)}."
    if any(summary.is_below_bound for summary in known):
        note += f" {TOO_GOOD[0].upper()}{TOO_GOOD[1:]}"
    return finding, _matrix(section, sentence(quantity), note, entry)


def _rank(section: Section, summary: Summary) -> str:
    """Return the problem, with m and costs: pulls are comparable where these are equal."""
    options = summary.cell.algorithm.options
    return f"{section.place(summary)}, m = {options.get('m', 1)}, costs = {options.get('costs')}"


def _errors_of_budgets(section: Section) -> Table:
    """Return a matrix of the shares of wrong answers, with exact intervals."""

    def entry(summary: Summary) -> Cell:
        if not summary.n_runs:
            return Cell(NOTHING)
        low, high = summary.error_interval
        return Cell(f"{summary.quantities['error'].mean:.3f}", f"{low:.3f} to {high:.3f}")

    note = "All runs spend a fixed budget, so wrong answers are compared. Below: the exact interval at 95 %."
    return _matrix(section, "Share of wrong answers", note, entry)


def _matrix(section: Section, title: str, note: str, entry: Callable[[Summary], Cell]) -> Table:
    """Return a matrix of algorithms and problems, the longer side as rows; empty where there is no cell."""
    entries = {(summary.label, section.place(summary)): entry(summary) for summary in section.summaries}
    assert len(entries) == len(section.summaries), "two problems have one name"
    labels, places = (list(dict.fromkeys(pair[side] for pair in entries)) for side in (0, 1))
    rows = [[entries.get((label, place), Cell("")) for place in places] for label in labels]
    head, down, across = "Algorithm", labels, places
    if len(places) > len(labels):
        head, down, across, rows = "Problem", places, labels, [list(row) for row in zip(*rows, strict=True)]
    rows = [[Cell(name), *row] for name, row in zip(down, rows, strict=True)]
    return Table(title=title, note=note, headers=[head, *across], n_words=1, rows=rows)


def _side_by_side(section: Section) -> list[Table]:
    """Compare pulls and CPU time of an algorithm with those of its baseline, on the same machine."""
    known = {(summary.label, section.place(summary)): summary for summary in section.summaries if summary.n_runs}
    rows = []
    for (label, place), summary in known.items():
        other = known.get((summary.cell.algorithm.baseline, place))
        if other is not None:
            times = (summary.quantities[name].mean / other.quantities[name].mean for name in ("n_pulls", "seconds"))
            rows.append([*map(Cell, (label, other.label, place, *map(_number, times)))])
    headers = ["Algorithm", "Beside", "Problem", "Pulls, times", "CPU time, times"]
    return [Table(title="Side by side", headers=headers, n_words=3, rows=rows)] if rows else []


def _every_cell(section: Section) -> Table:
    columns: dict[str, Callable[[Summary], str]] = {
        "Algorithm": lambda s: s.label,
        "Stopping rule": lambda s: s.rule or NOTHING,
        "Problem": section.place,
        "Runs": lambda s: str(s.n_runs),
        "Mean pulls": lambda s: _quantity(s, "n_pulls"),
        "Median": lambda s: _number(s.quantiles.get(0.5, math.nan)),
        "90 %": lambda s: _number(s.quantiles.get(0.9, math.nan)),
        "Wrong": _errors,
        "Cost": lambda s: _quantity(s, "cost"),
        "Lower bound": lambda s: _quantity(s, "lower_bound").split(" ±")[0],
        "Ratio": lambda s: _quantity(s, "ratio"),
        "CPU ms": lambda s: _quantity(s, "seconds", 1e3),
        "Arms pulled": lambda s: _quantity(s, "support"),
        "Unfinished": lambda s: str(s.n_unfinished) if s.n_runs else NOTHING,
        "Guarantee": lambda s: (s.claim.words if s.n_runs else "") or NOTHING,
    }
    for header, quantity in (("Cost", "cost"), ("Lower bound", "ratio"), ("Ratio", "ratio")):
        if not any(quantity in summary.quantities for summary in section.summaries):
            del columns[header]
    rows = [[Cell(text(summary)) for text in columns.values()] for summary in section.summaries]
    whys = {_why_no_bound(s): None for s in section.summaries if s.n_runs and "lower_bound" not in s.quantities}
    note = f"No lower bound: {'; '.join(whys)}." if whys and "Lower bound" in columns else ""
    return Table(title="All cells", note=note, headers=list(columns), n_words=3, rows=rows, is_folded=len(rows) > LONG)


def _why_no_bound(summary: Summary) -> str:
    if summary.spends_all:
        return "there is none beside a fixed budget"
    if not summary.cell.bounds:
        return "it was not asked for (`bounds = false`)"
    if not has_normal_noise(summary.cell.algorithm.options):
        return "bounds are for normal noise"
    if summary.cell.epsilon and summary.cell.algorithm.options.get("m", 1) > 1:
        return "none is known for epsilon above 0 beside m > 1"
    return f"none is known for {summary.cell.shown}"


def _errors(summary: Summary) -> str:
    low, high = summary.error_interval
    mark = " > delta!" if summary.errs_too_often else ""
    return f"{summary.n_errors} ({100 * low:.2g} to {100 * high:.2g} %){mark}" if summary.n_runs else NOTHING


def _quantity(summary: Summary, quantity: str, scale: float = 1.0) -> str:
    if quantity not in summary.quantities:
        return NOTHING
    mean, se = summary.quantities[quantity]
    is_low = summary.n_unfinished and quantity in {"n_pulls", "ratio", "cost"}
    return ("≥\u00a0" if is_low else "") + _with_se(scale * mean, scale * se)


def _with_se(mean: float, se: float) -> str:
    return _number(mean) + ("" if math.isnan(se) else f" ±\u00a0{_number(se)}")


def _number(value: float) -> str:
    """Return a number to about four digits, without an exponent for counts."""
    if math.isnan(value):
        return NOTHING
    if value == 0.0 or abs(value) >= 1000.0:
        return _count(round(value))
    return f"{value:.1f}" if abs(value) >= 10.0 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


def _count(number: int) -> str:
    return f"{number:,}".replace(",", "\u202f")


def _md(value: object) -> str:
    """Escape a text for Markdown: no markup, no HTML, no end of a line or of a table's cell."""
    text = html.escape(str(value), quote=False).replace("\n", " ")
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", text)
