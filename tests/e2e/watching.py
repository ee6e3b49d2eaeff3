"""What the tests see of other processes."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def processes_that_mention(folder: Path) -> list[str]:
    """Command lines of living processes that work in a folder: daemons, shims, JVMs, Python workers."""
    return list(_working_in(folder).values())


def kill_what_mentions(folder: Path) -> None:
    """The same processes, such as jobs whose daemon a test has killed for good."""
    while processes := _working_in(folder):
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def _working_in(folder: Path) -> dict[int, str]:
    commands = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
                words = command + (entry / "environ").read_bytes()
            except OSError:
                continue  # it ended, or is not ours to read
            if str(folder).encode() in words:
                commands[int(entry.name)] = command.replace(b"\0", b" ").decode(errors="replace")
    return commands
