import struct
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from surepick.cli.reproduce import Line, Record, plot_lines, plot_records, read_records
from surepick.simulation.experiment import named_experiment
from surepick.simulation.store import sweep


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """A few runs at two numbers of arms, both in the published tables."""
    experiment = named_experiment("many-arms")
    problem = experiment.problems[0].model_copy(update={"arguments": {"n_arms": [1000, 2500]}})
    experiment = experiment.model_copy(update={"problems": (problem,)})
    folder = tmp_path_factory.mktemp("runs")
    sweep(experiment, folder, n_runs=3)
    return read_records(experiment, folder, 3)


def test_plot_is_a_png_and_an_svg_with_its_words(rows: list[Record], tmp_path: Path) -> None:
    """Both files can be read, are not empty, and the figure says what it shows."""
    png, svg = plot_records(rows, tmp_path / "new" / "folder", delta=0.05)
    data = png.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert width > 900
    assert height > 500
    assert len(data) > 20_000
    tree = ET.parse(svg)
    assert tree.getroot().tag.endswith("svg")
    # Text is drawn as shapes; matplotlib leaves the words beside them as comments.
    words = svg.read_text("utf-8")
    for label in (
        "lower bound",
        "surepick, 3 runs",
        "number of arms K",
        "Table 2",
        "RAGE, published",
        "RAGE, run here",
    ):
        assert f"<!-- {label}" in words or label in words


def test_same_numbers_give_the_same_svg(rows: list[Record], tmp_path: Path) -> None:
    """Neither date nor random identifiers are written."""
    first = plot_records(rows, tmp_path / "a", delta=0.05)[1].read_bytes()
    assert plot_records(rows, tmp_path / "b", delta=0.05)[1].read_bytes() == first


def test_published_figures_are_shown_only_if_there_are_any(rows: list[Record], tmp_path: Path) -> None:
    """At another delta there is nothing published to compare with."""
    other = [{name: row[name] for name in row if "published" not in name} for row in rows]
    svg = plot_records(other, tmp_path, delta=0.01)[1].read_text("utf-8")
    assert "Table 1" not in svg
    assert "lower bound" in svg


def test_what_is_drawn_are_the_means_with_two_standard_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a log scale that begins below the smallest mean, however long the bars; a single run has no bar."""
    saved: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: saved.append(self))
    ours = Line("ours", "blue", "o", is_hollow=True, points=[(10, 40.0, 15.0), (30, 90.0, 5.0)])
    bound = Line("bound", "red", "s", points=[(30, 50.0, np.nan)])
    plot_lines([ours, bound], "title", "note", tmp_path, "name")
    (axes,) = saved[0].axes
    drawn = axes.containers
    assert [bars.get_label() for bars in drawn] == ["ours", "bound"]
    assert [bars[0].get_xydata().tolist() for bars in drawn] == [[[10, 40], [30, 90]], [[30, 50]]]
    assert [bars[0].get_markerfacecolor() for bars in drawn] == ["white", "red"]
    segments = [[segment.tolist() for lines in bars[2] for segment in lines.get_segments()] for bars in drawn]
    assert segments == [[[[10, 10], [10, 70]], [[30, 80], [30, 100]]], []]
    assert axes.get_yscale() == "log"
    assert axes.get_ylim() == pytest.approx((24.0, 1.2 * 100 * 10**0.05))  # a margin of 5 % of 10 to 100
    assert [tick for tick in axes.get_yticks() if 24 <= tick <= 135] == [50, 100]
    assert axes.get_xticks().tolist() == [10, 30]
    assert axes.get_legend_handles_labels()[1] == ["ours", "bound"]
