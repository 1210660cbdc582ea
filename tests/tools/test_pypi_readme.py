"""README as PyPI shows it: every link is absolute once the package has an address."""

import re
import tarfile
from email import message_from_string
from pathlib import Path

import pytest

import surepick
from tests.test_package import ROOT, built
from tools.pypi_readme import with_absolute_links

SOURCE = "https://example.org/lab/surepick"


def test_links_and_pictures_become_absolute() -> None:
    """Addresses and links within the page stay."""
    text = '[a](docs/a.md#b) [c](#c) [d](https://d.org/) <img src="e.svg"> <source srcset="f.svg">'
    tag = f"{SOURCE}/{{}}/v1.2.3"
    page, raw = tag.format("blob"), tag.format("raw")
    shown = f'[a]({page}/docs/a.md#b) [c](#c) [d](https://d.org/) <img src="{raw}/e.svg"> <source srcset="{raw}/f.svg">'
    assert with_absolute_links(text, f"{SOURCE}/", "1.2.3") == shown


@pytest.mark.parametrize("has_address", [False, True])
def test_the_package_has_readme(has_address: bool, tmp_path: Path) -> None:
    """Without an address as it is; with an address no link is relative."""
    clone = tmp_path / "clone"
    for name in ("pyproject.toml", "README.md", "LICENSE", "tools/pypi_readme.py", "src/surepick/_version.py"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text((ROOT / name).read_text("utf-8"), "utf-8")
    if has_address:
        with (clone / "pyproject.toml").open("a") as file:
            file.write(f'\n[project.urls]\nSource = "{SOURCE}"\n')
    with tarfile.open(built(clone, "sdist", tmp_path)) as archive:
        packed = archive.extractfile(f"surepick-{surepick.__version__}/PKG-INFO")
        assert packed is not None
        metadata = message_from_string(packed.read().decode("utf-8"))
    assert metadata["Description-Content-Type"] == "text/markdown"
    text = metadata.get_payload()
    assert isinstance(text, str)
    if not has_address:
        assert text == (ROOT / "README.md").read_text("utf-8")
        return
    targets = re.findall(r"""](?:[(])([^)]*)[)]|(?:src|srcset)="([^"]*)""", text)
    assert len(targets) > 25
    assert [one for one, other in targets if not (one or other).startswith((f"{SOURCE}/", "#"))] == []
