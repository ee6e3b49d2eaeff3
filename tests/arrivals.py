"""Files that arrive in a watched folder as producers should write them: whole, under their name, at one moment."""

from __future__ import annotations

import tempfile
from pathlib import Path


def arrive(file: Path, text: str = "x") -> None:
    """Write a file elsewhere and rename it to its place, so that a watcher without `min_age` never sees half of it.

    A file that is opened and then written is two versions to a scan that falls between both: an empty one and this one.
    """
    with tempfile.TemporaryDirectory() as elsewhere:
        written = Path(elsewhere) / file.name
        written.write_text(text, encoding="utf-8")
        written.rename(file)
