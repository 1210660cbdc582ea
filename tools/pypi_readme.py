"""README as PyPI shows it: a build makes relative links absolute if `[project.urls]` names the `Source`.

PyPI has the text of README and none of the files beside it. In a clone, links stay relative. Pages are those of the
tag `v` and the version, by the addresses of GitHub and GitLab: SOURCE/blob/TAG/file to read, SOURCE/raw/TAG/file for
pictures.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"""(]\(|\bsrc="|\bsrcset=")(?![a-z]+:|\#)([^)"\s]+)""")


def with_absolute_links(text: str, source: str, version: str) -> str:
    """Return the text with links and pictures at the source's tag of this version; links within the page stay."""

    def address(link: re.Match[str]) -> str:
        kind = "blob" if link[1] == "](" else "raw"
        return f"{link[1]}{source.rstrip('/')}/{kind}/v{version}/{link[2]}"

    return LINK.sub(address, text)


class Readme(MetadataHookInterface):
    """Called by hatchling at every build."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put README into the metadata of the package."""
        text = Path(self.root, "README.md").read_text("utf-8")
        source = metadata.get("urls", {}).get("Source")
        if source is not None:
            text = with_absolute_links(text, source, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
