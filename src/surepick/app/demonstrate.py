"""The demonstration: the many-arms problem from the live run to table and plot, kept whole if interrupted."""

import sys
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from surepick.app.console import Code, Format, check_out, print_error, results, stages
from surepick.app.formats import to_csv, to_json
from surepick.app.many_arms import PUBLISHED, Report, Settings, as_records, run_live, run_many
from surepick.core.checks import check_count, check_delta
from surepick.simulation import published

NEXT = "Next, with your own options: surepick run --arms arms.csv --noise-std 0.5 --pull './measure {arm}'"


def demonstrate(settings: Settings, folder: Path, output: Format) -> Code:
    """Run the job and print what it found; Ctrl-C prints what there is."""
    check_delta(settings.delta)
    check_count("seed", settings.seed, least=0)
    check_count("runs", settings.n_runs, least=2)
    check_out(folder)
    console = stages(output)
    report = Report(settings)
    try:
        run_live(console, report)
        run_many(console, report)
        report.is_complete = report.live is not None and report.live["stopped"]
    except KeyboardInterrupt:
        console.print(f"interrupted; {len(report.rows or [])} of {len(settings.n_arms)} rows are complete")
    _write(report, folder, output, console)
    return report.code


def _write(report: Report, folder: Path, output: Format, console: Console) -> None:
    if report.rows:
        try:
            from surepick.app.plots import plot_many_arms  # noqa: PLC0415 (matplotlib is optional)

            report.plots = plot_many_arms(report.rows, folder, delta=report.settings.delta)
        except ModuleNotFoundError as error:
            print_error(f"no plot: {error.name} is not installed; pip install 'surepick[bench]'")
    if output is Format.JSON:
        sys.stdout.write(_as_json(report) + "\n")
    elif output is Format.CSV:
        sys.stdout.write(to_csv(as_records(report)))
    elif report.rows:
        _print_table(results(), report)
    if report.plots:
        console.print(f"plot: {' and '.join(str(path) for path in report.plots)}", soft_wrap=True)
    if output is Format.TABLE:
        console.print(NEXT, soft_wrap=True)


def _print_table(console: Console, report: Report) -> None:
    """The table of mean pulls by number of arms."""
    settings = report.settings
    with_published = settings.delta == published.DELTA
    seeds = f"seeds {settings.seed} to {settings.last_seed}"
    console.print(
        f"Mean pulls ± standard error until the answer is right with probability {1 - settings.delta:g}\n"
        f"({settings.n_runs} runs for each K, arms redrawn in every run, {seeds})",
        style="bold",
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))  # 80 columns are enough
    table.add_column("arms\nK", justify="right")
    table.add_column("\nsurepick", justify="right", style="bold")
    table.add_column("lower\nbound", justify="right")
    for title in ("\nRAGE", "\nOracle"):
        table.add_column(title, justify="right")
    if with_published:
        for title in ("Lazy\nTS 2*", "Lazy\nTS 1*", "\nRAGE*", "\nOracle*"):
            table.add_column(title, justify="right", style="dim")
    else:
        table.add_column("times\nbound", justify="right")
        table.add_column("\nmedian", justify="right")
    for row in report.rows or []:
        cells = [str(row.n_arms), f"{row.runs.mean:.0f} ± {row.runs.se:.0f}", f"{row.bound:.1f}"]
        cells += [f"{runs.mean:.0f} ± {runs.se:.0f}" for runs in row.compared.values()]
        if with_published:
            cells += [_published(table.get(row.n_arms)) for table in PUBLISHED.values()]
        else:
            cells += [f"{row.runs.ratio.mean():.2f}", f"{row.runs.median:g}"]
        table.add_row(*cells)
    console.print(table)
    for line in _notes(report, with_published=with_published):
        console.print(line, soft_wrap=not console.is_terminal)


def _notes(report: Report, *, with_published: bool) -> list[str]:
    rows = report.rows or []
    if not rows:
        return []
    n_runs = sum(row.runs.n_runs for row in rows)
    n_errors = sum(row.runs.n_errors for row in rows)
    n_unfinished = sum(row.runs.n_unfinished for row in rows)
    last = rows[-1]
    lines = []
    if with_published:
        lines.append(
            "* published means, different stopping constants: Jedra and Proutiere (2020), tables 1 and 2 (Lazy TS 1 "
            "and 2). surepick stops by its own rule; RAGE and the Oracle, which knows theta, were run here with their "
            "published constants. Arms are drawn as in the public code for this problem (variant as-run), not as "
            "printed there."
        )
    unfinished = f", {n_unfinished} runs did not stop" if n_unfinished else ""
    lines.append(f"{n_errors} of {n_runs} answers were wrong{unfinished}.")
    used, spent = f"{last.runs.support.mean():.1f}", f"{1e3 * last.runs.seconds.mean():.0f} ms CPU"
    if with_published and last.n_arms in published.SECONDS:
        used += f" (published: {published.SUPPORT[last.n_arms].mean:.1f})"
        spent += f" (published: {published.SECONDS[last.n_arms].mean:.0f} s, on a desktop of 2020)"
    lines.append(f"A run with {last.n_arms} arms pulled {used} of them on average and took {spent}.")
    return lines


def _as_json(report: Report) -> str:
    """The whole report for programs."""
    settings = report.settings
    return to_json(
        {
            "problem": "many-arms",
            "algorithm": "lazy-track-and-stop",
            "delta": settings.delta,
            "seed": settings.seed,
            "is_complete": report.is_complete,
            "one_run": report.live,
            "runs": as_records(report),
            "plots": [str(path) for path in report.plots],
        }
    )


def _published(value: published.Mean | None) -> str:
    return "-" if value is None else f"{value.mean:.0f}"
