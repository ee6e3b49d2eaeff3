"""What the tests see of other processes."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def processes_that_mention(folder: Path) -> list[str]:
    """Command lines of living processes that work in a folder: daemons, shims, JVMs, Python workers."""
    return list(_working_in(folder).values())


def programs_at_once_that_mention(folder: Path) -> list[str]:
    """The same, but only those that lived at one moment: a look takes a while, in which one ends and the next begins.

    A child that is about to become another program still shows its parent's words, and is left out.
    """
    found = _working_in(folder)
    alive = {process: words for process, words in found.items() if _command_of(process) == words}
    return [words for process, words in alive.items() if alive.get(_parent_of(process)) != words]


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
                environment = (entry / "environ").read_bytes().decode(errors="replace")
            except OSError:
                continue  # it ended, or is not ours to read
            command = _command_of(int(entry.name))
            if command and str(folder) in command + environment:
                commands[int(entry.name)] = command
    return commands


def _command_of(process: int) -> str:
    """Empty when it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _parent_of(process: int) -> int:
    """0 when it has ended."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
