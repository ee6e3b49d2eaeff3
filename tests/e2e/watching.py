"""What the tests see of other processes."""

from __future__ import annotations

import os
from pathlib import Path


def processes_that_mention(folder: Path) -> list[str]:
    """Command lines of living processes that work in a folder: daemons, shims, JVMs, Python workers."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
                words = command + (entry / "environ").read_bytes()
            except OSError:
                continue  # it ended, or is not ours to read
            if str(folder).encode() in words:
                found.append(command.replace(b"\0", b" ").decode(errors="replace"))
    return found
