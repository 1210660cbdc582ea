"""Reports of experiments: Markdown and one HTML file that needs nothing else, with figures as PNG and SVG.

Every number comes from the runs in the folders; `report_cells` computes, `report_plots` draws, this module words.
"""

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, final

from surepick.errors import InvalidInput, SurepickError
from surepick.simulation.report_cells import Estimated, Section, Summary, read_section
from surepick.simulation.report_plots import Figure, draw

LEGEND = (
    "s.e.: standard error of the mean. 90 %: nine in ten runs needed at most so many pulls. Wrong: runs that stopped "
    "with a wrong answer, and the exact (Clopper-Pearson) 95 % interval of their probability, marked if all of it is "
    "above delta. Ratio: mean of pulls over the lower bound of the run's own instance. Unfinished: runs given up at "
    "the most pulls allowed; the means count them with that many and are then too small. CPU: time of the algorithm "
    "alone. z: ours minus published in combined standard errors; up to 3 either way counts as agreement. With fewer "
    "than ten runs the standard errors are uncertain themselves."
)
NOTHING = "-"
QUANTITY = {"n_pulls": "pulls", "seconds": "CPU seconds", "support": "arms pulled"}


@final
@dataclass(frozen=True, slots=True)
class Table:
    """Cells as text; `numeric` says which columns are numbers."""

    headers: list[str]
    numeric: list[bool]
    rows: list[list[str]]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a report shows about one experiment."""

    name: str
    title: str
    about: list[str]
    facts: str
    verdicts: str
    runs: Table
    compared: Table | None
    ratios: Table | None
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
    template = _template()
    sections = [read_section(Path(folder)) for folder in folders]
    out.mkdir(parents=True, exist_ok=True)
    parts = [part_of(section, draw(section, out)) for section in sections]
    title = parts[0].title if len(parts) == 1 else f"Report on {len(parts)} experiments"
    report_md, report_html = out / "report.md", out / "report.html"
    report_md.write_text(to_markdown(title, parts), "utf-8")
    report_html.write_text(
        template.render(title=title, parts=parts, legend=LEGEND, data_uri=_data_uri), "utf-8", newline="\n"
    )
    return [report_md, report_html, *(path for part in parts for figure in part.figures for path in figure.paths)]


def part_of(section: Section, figures: list[Figure]) -> Part:
    """Word one experiment."""
    experiment = section.experiment
    statements = [compared.statement for summary in section.summaries for compared in summary.compared]
    words = {"agrees": "agree", "better": "better", "differs": "differ"}
    counts = {word: sum(text.split(":")[0] == word for text in statements) for word in words}
    told = [f"{n} {words[word]}" for word, n in counts.items() if n]
    n_open = len(statements) - sum(counts.values())
    verdicts = ", ".join([*told, f"{n_open} cannot be told yet"] if n_open else told)
    return Part(
        name=experiment.name,
        title=experiment.title,
        about=[" ".join(text.split()) for text in experiment.about.split("\n\n") if text.strip()],
        facts=_facts(section),
        verdicts=f"Of {len(statements)} published figures: {verdicts}." if statements else "",
        runs=_runs_table(section),
        compared=_compared_table(section) if statements else None,
        ratios=_ratio_table(section),
        figures=figures,
    )


def _facts(section: Section) -> str:
    experiment = section.experiment
    if section.written is None or section.n_runs == 0:
        return f"No runs yet. Seed {experiment.seed}."
    versions = " and ".join(section.versions)
    counts = sorted({summary.n_runs for summary in section.summaries})
    each = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return (
        f"{_count(section.n_runs)} runs, {each} in each of {len(section.summaries)} cells, seed {experiment.seed}, "
        f"at most {_count(experiment.max_pulls)} pulls a run, surepick {versions}, last run saved "
        f"{section.written:%Y-%m-%d %H:%M} UTC. Runs of the same number share their noise across cells: algorithms are "
        "compared on equal terms, and rows are not independent of each other."
    )


def _runs_table(section: Section) -> Table:
    has_bounds = any(summary.value("ratio") for summary in section.summaries)
    has_risks = len(section.experiment.delta) > 1
    columns = ["Algorithm", "Problem", *["delta"] * has_risks, "Runs", "Mean pulls", "s.e.", "Median", "90 %"]
    columns += ["Wrong", *["Lower bound", "Ratio"] * has_bounds, "CPU ms", "Arms pulled", "Unfinished"]
    rows = []
    for summary in section.summaries:
        row = [summary.label, section.problem(summary), *[f"{summary.cell.delta:g}"] * has_risks, str(summary.n_runs)]
        if summary.n_runs == 0:
            rows.append(row + [NOTHING] * (len(columns) - len(row)))
            continue
        pulls = summary.quantities["n_pulls"]
        mark = "≥ " if summary.n_unfinished else ""
        row += [
            f"{mark}{_number(pulls.mean)}",
            _number(pulls.se),
            _number(summary.median),
            _number(summary.quantile_90),
        ]
        row.append(_errors(summary))
        if has_bounds:
            ratio = summary.value("ratio")
            row += (
                [_number(summary.quantities["lower_bound"].mean), mark + _with_se(ratio)]
                if ratio
                else [NOTHING, NOTHING]
            )
        row.append(_number(1e3 * summary.quantities["seconds"].mean))
        row.append(f"{summary.quantities['support'].mean:.1f}")
        row.append(str(summary.n_unfinished))
        rows.append(row)
    is_text = {"Algorithm", "Problem"}
    return Table(columns, [name not in is_text for name in columns], rows)


def _errors(summary: Summary) -> str:
    low, high = summary.error_interval
    mark = " > delta!" if low > summary.cell.delta else ""
    return f"{summary.n_errors} ({100 * low:.2g} to {100 * high:.2g} %){mark}"


def _compared_table(section: Section) -> Table:
    columns = ["Algorithm", "Problem", "Quantity", "Ours", "Published", "z", "Statement", "Source"]
    rows = []
    for summary in section.summaries:
        for compared in summary.compared:
            figure = compared.published
            published = Estimated(figure.mean, math.nan if figure.se is None else figure.se)
            rows.append(
                [
                    summary.label,
                    section.problem(summary),
                    QUANTITY[figure.quantity],
                    _with_se(compared.ours) if compared.ours else NOTHING,
                    _with_se(published),
                    NOTHING if math.isnan(compared.z) else f"{compared.z:+.1f}",
                    compared.statement,
                    figure.source,
                ]
            )
    return Table(columns, [name in {"Ours", "Published", "z"} for name in columns], rows)


def _ratio_table(section: Section) -> Table | None:
    """How many times the pulls and the CPU time of its baseline an algorithm needed, on the same machine."""
    rows = []
    for summary in section.summaries:
        cell = summary.cell
        for other in section.summaries:
            is_same = other.cell.problem == cell.problem and other.cell.arguments == cell.arguments
            if other.label != cell.algorithm.baseline or not is_same or other.cell.delta != cell.delta:
                continue
            if summary.n_runs and other.n_runs:
                pulls, seconds = (
                    summary.quantities[name].mean / other.quantities[name].mean for name in ("n_pulls", "seconds")
                )
                place = section.problem(summary)
                rows.append([summary.label, other.label, place, f"{pulls:.2f}", f"{_number(seconds)}"])
    if not rows:
        return None
    return Table(["Algorithm", "Beside", "Problem", "Pulls, times", "CPU time, times"], [False] * 3 + [True] * 2, rows)


def _number(value: float) -> str:
    """Four digits or so, and never an exponent for what people count."""
    if math.isnan(value):
        return NOTHING
    if value == 0.0 or abs(value) >= 1000.0:
        return _count(round(value))
    return f"{value:.1f}" if abs(value) >= 10.0 else f"{value:.3g}"


def _count(number: int) -> str:
    return f"{number:,}".replace(",", "\u202f")


def _with_se(value: Estimated) -> str:
    return _number(value.mean) if math.isnan(value.se) else f"{_number(value.mean)} ± {_number(value.se)}"


def to_markdown(title: str, parts: Sequence[Part]) -> str:
    """The report as Markdown; figures are linked as files beside it."""
    lines = [f"# {_md(title)}", ""]
    for part in parts:
        lines += [f"## {_md(part.title)} ({_md(part.name)})", ""] if len(parts) > 1 else []
        lines += [line for text in (*part.about, part.facts, part.verdicts) if text for line in (_md(text), "")]
        lines += ["### Runs", "", *_md_table(part.runs), ""]
        if part.compared is not None:
            lines += ["### Beside the published figures", "", *_md_table(part.compared), ""]
        if part.ratios is not None:
            lines += ["### Side by side", "", *_md_table(part.ratios), ""]
        for figure in part.figures:
            lines += [f"![{_md(figure.caption)}]({figure.paths[0].name})", "", _md(figure.caption), ""]
    return "\n".join([*lines, _md(LEGEND), ""])


def _md(text: str) -> str:
    """Text that Markdown shows as it is: no markup, no HTML, no end of a table's cell."""
    for sign in "\\`*_[]|#":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").split())


def _md_table(table: Table) -> list[str]:
    rule = "|".join("---:" if numeric else "---" for numeric in table.numeric)
    rows = ["| " + " | ".join(map(_md, row)) + " |" for row in (table.headers, *table.rows)]
    return [rows[0], f"|{rule}|", *rows[1:]]


def _template() -> Any:
    try:
        from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 (optional)
    except ImportError as error:
        raise SurepickError("a report needs Jinja2; install surepick[bench].") from error
    source = resources.files("surepick.simulation") / "templates" / "report.html"
    # Escapes everything: labels and notes come from files of the user's.
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(source.read_text("utf-8"))


def _data_uri(path: Path) -> str:
    """A figure as part of the page; inside an image its identifiers cannot meet those of another figure."""
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode("ascii")
