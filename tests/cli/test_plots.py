import struct
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from surepick.cli.reproduce import plot
from surepick.reporting import figures
from surepick.reporting.experiment_summary import Section, section_of
from surepick.simulation.experiment import named_experiment
from surepick.simulation.store import TABLE, sweep


@pytest.fixture(scope="module")
def section(tmp_path_factory: pytest.TempPathFactory) -> Section:
    """A few runs at two numbers of arms, both in the published tables."""
    experiment = named_experiment("many-arms")
    problem = experiment.problems[0].model_copy(update={"arguments": {"n_arms": [1000, 2500]}})
    experiment = experiment.model_copy(update={"problems": (problem,)})
    folder = tmp_path_factory.mktemp("runs")
    sweep(experiment, folder, n_runs=3)
    return section_of(experiment, folder / TABLE)


def test_plot_is_a_png_and_an_svg_with_its_words(section: Section, tmp_path: Path) -> None:
    """Both files can be read, are not empty, and the figure says what it shows."""
    png, svg = plot(section, tmp_path / "new" / "folder")
    data = png.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert width > 800
    assert height > 500
    assert len(data) > 20_000
    tree = ET.parse(svg)
    assert tree.getroot().tag.endswith("svg")
    # Text is drawn as shapes; matplotlib leaves the words beside them as comments.
    words = svg.read_text("utf-8")
    for label in (
        "lower bound",
        "surepick",
        "number of arms K",
        "Jedra and Proutiere (2020), Table 2,",
        "Lazy TS",
        "delta = 0.05",
    ):
        assert f"<!-- {label}" in words or label in words


def test_same_numbers_give_the_same_svg(section: Section, tmp_path: Path) -> None:
    """Neither date nor random identifiers are written."""
    first = plot(section, tmp_path / "a")[1].read_bytes()
    assert plot(section, tmp_path / "b")[1].read_bytes() == first


def test_published_figures_are_shown_only_if_there_are_any(section: Section, tmp_path: Path) -> None:
    """At another delta there is nothing published to compare with."""
    other = section._replace(summaries=tuple(replace(summary, compared=()) for summary in section.summaries))
    svg = plot(other, tmp_path)[1].read_text("utf-8")
    assert "Jedra" not in svg
    assert "lower bound" in svg


def test_without_matplotlib_the_table_is_still_there(
    section: Section, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says what to install."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert plot(section, tmp_path) == ()
    assert capsys.readouterr().err == "surepick: no plot: a figure needs matplotlib; install surepick[figures].\n"


def test_what_is_drawn_are_the_means_with_two_standard_errors(
    section: Section, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a log scale that begins below the smallest mean; published means are hollow, named by their source."""
    saved: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: saved.append(self))
    plot(section, tmp_path)
    (axes,) = saved[0].axes
    drawn = {bars.get_label(): bars for bars in axes.containers}
    published = [f"Jedra and Proutiere (2020), Table {number},\nLazy TS" for number in (2, 1)]
    assert list(drawn) == [
        "surepick",
        *published,
        "lower bound",
        "RAGE",
        "Jedra and Proutiere (2020), Tables 1\nand 2, RAGE",
        "Oracle",
        "Jedra and Proutiere (2020), Tables 1\nand 2, Oracle",
    ]
    assert [drawn[name][0].get_markerfacecolor() for name in published] == ["white", "white"]
    assert len({drawn[name][0].get_marker() for name in published}) == 2
    assert drawn[published[1]][0].get_xydata().tolist() == [[1000, 1409], [2500, 1404]]
    ours = [(s.cell.arguments["n_arms"], *s.quantities["n_pulls"]) for s in section.summaries if s.label == "surepick"]
    assert drawn["surepick"][0].get_xydata().tolist() == [[place, mean] for place, mean, _ in ours]
    bars = [segment for lines in drawn["surepick"][2] for segment in lines.get_segments()]
    assert [bar[1, 1] for bar in bars] == pytest.approx([mean + 2.0 * se for _, mean, se in ours])
    bounds = [s.quantities["lower_bound"].mean for s in section.summaries if s.label == "surepick"]
    assert axes.get_yscale() == "log"
    assert axes.get_ylim()[0] == pytest.approx(0.6 * min(bounds))
    assert axes.get_xticks().tolist() == [1000, 2500]


def test_a_bar_on_a_log_scale_does_not_reach_zero() -> None:
    """However long it is; a single run has no bar."""
    _, (axes,) = figures.frame([3.0])
    figures.draw_line(axes, [(10, 40.0, 150.0), (30, 90.0, float("nan"))], "ours")
    (bars,) = axes.containers
    assert [segment.tolist() for segment in bars[2][0].get_segments()] == [[[10, 2], [10, 340]], [[30, 90], [30, 90]]]
