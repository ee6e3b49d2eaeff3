"""Other processes of this machine, as the tests see them."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def processes_that_mention(folder: Path) -> list[str]:
    """Return the command lines of living processes that work in a folder: daemons, shims, JVMs, Python workers."""
    return list(_working_in(folder).values())


def programs_at_once_that_mention(folder: Path) -> list[str]:
    """Return the command lines of processes that work in a folder and lived at the same moment.

    Reading them takes a while, in which one process may end and the next begin. A child that is about to become another
    program still has its parent's command line, and is excluded.
    """
    found = _working_in(folder)
    alive = {process: words for process, words in found.items() if _command_of(process) == words}
    return [words for process, words in alive.items() if alive.get(_parent_of(process)) != words]


def kill_what_mentions(folder: Path) -> None:
    """Kill the processes that work in a folder, such as jobs whose daemon a test killed and does not start again."""
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
                continue  # it has ended, or this user may not read it
            command = _command_of(int(entry.name))
            if command and str(folder) in command + environment:
                commands[int(entry.name)] = command
    return commands


def _command_of(process: int) -> str:
    """Return the command line of a process, empty if it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _parent_of(process: int) -> int:
    """Return the parent of a process, 0 if it has ended."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
