import os
from pathlib import Path

import pytest

from surepick._files import replacing


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


def test_a_new_version_has_the_mode_of_the_earlier_one(tmp_path: Path) -> None:
    """A private file stays private, also while it is written; a new one has the mode that the umask allows."""
    path, new = tmp_path / "kept.txt", tmp_path / "new.txt"
    path.write_text("old")
    for mode in (0o600, 0o640, 0o444):
        path.chmod(mode)
        with replacing(path) as draft:
            draft.write_text("new")
            assert draft.stat().st_mode & 0o777 == 0o600
        assert path.stat().st_mode & 0o777 == mode
    before = os.umask(0o027)
    try:
        with replacing(new) as draft:
            draft.write_text("new")
    finally:
        os.umask(before)
    assert new.stat().st_mode & 0o777 == 0o640
