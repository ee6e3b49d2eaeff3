"""Turns links to files that are not pages into their text, because the site has only pages."""

from __future__ import annotations

import os
import re
from pathlib import PurePosixPath
from typing import Any

_LINK = re.compile(r"\[([^\]]+)\]\((\.\.?/[^)\s]+)\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Called by MkDocs for each page, https://www.mkdocs.org/dev-guide/plugins/#on_page_markdown."""
    folder = PurePosixPath(page.file.src_uri).parent

    def shown(link: re.Match[str]) -> str:
        target = os.path.normpath(folder / link[2])
        return link[1] if target.startswith("..") else link[0]

    return _LINK.sub(shown, markdown)
