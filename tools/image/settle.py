"""Gives all files below folders times of whole seconds, because an image's layers keep no fractions.

Bytecode and the class archive are valid for the exact times of their sources. With fractions they would be stale in the image.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

_SECOND: Final = 1_000_000_000


def main(*folders: Path) -> None:
    for path in (path for folder in folders for path in folder.rglob("*")):
        modified = path.lstat().st_mtime_ns
        if modified % _SECOND:
            whole = modified // _SECOND * _SECOND
            os.utime(path, ns=(whole, whole), follow_symlinks=False)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
