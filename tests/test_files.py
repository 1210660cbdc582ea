import os
from pathlib import Path

import pytest

from surepick.files import replacing


def test_a_new_version_takes_the_place_of_a_file(tmp_path: Path) -> None:
    """The earlier version stays until the new one is complete, and nothing else is left in the folder."""
    path = tmp_path / "kept.txt"
    path.write_text("old")
    with replacing(path) as draft:
        draft.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_regular_file_is_left_alone(tmp_path: Path) -> None:
    """A pipe, which stands for a device, is refused before anything is written, and stays; so does a folder."""
    pipe, folder = tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    for path in (pipe, folder):
        with pytest.raises(FileExistsError, match=f"{path} must be a regular file"), replacing(path):
            pytest.fail("there is nothing to be written")
    assert pipe.is_fifo()
    assert sorted(tmp_path.iterdir()) == [folder, pipe]
