"""Outputs on pages are replaced by what is printed now, and nothing else."""

from pathlib import Path

import pytest

from tools.record_docs import main, updated


def test_words_are_replaced_where_they_stand() -> None:
    """Breaks of lines and dots stay."""
    assert updated("A leads,\nafter 12 pulls at ...\n", "B leads, after 15 pulls at 10:30\n") == (
        "B leads,\nafter 15 pulls at ...\n"
    )


def test_lines_stay_from_their_dots_on() -> None:
    """Tables have times at the ends of their lines, and empty lines around them."""
    shown = " id  arm   when\n  1  A     ...\n  2  B     ...\n"
    assert updated(shown, "\n id  arm   when   \n  1  A     today 10:30\n  2  C     today 10:31\n\n") == (
        " id  arm   when\n  1  A     ...\n  2  C     ...\n"
    )


def test_another_number_of_words_replaces_all() -> None:
    """Lines are wrapped to the column of a page."""
    found = updated("A\n", "one two\n" + "word " * 30 + "\n")
    assert found.startswith("one two\nword word")
    assert max(map(len, found.splitlines())) <= 90


def test_a_page_is_written_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its code and its current outputs stay; a second time nothing changes."""
    page = tmp_path / "page.md"
    code = "```python\nprint(1 + 1, 'is two')\n```\n\n"
    console = "\n```console\n$ python -c 'print(5)'\n{}\n$ surepick version\n...\n```\n"
    page.write_text(f"Say:\n\n{code}```output\n3 is two\n```\n{console.format(4)}", encoding="utf-8")
    main([str(page)])
    assert page.read_text("utf-8") == f"Say:\n\n{code}```output\n2 is two\n```\n{console.format(5)}"
    assert capsys.readouterr().err == "page.md: some words\n" * 2
    main([str(page)])
    assert capsys.readouterr().err == ""
