"""The processes of a try, known by the tag in their environment. A process id alone may belong to another process by now."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TAG_VARIABLE = "ASSET_WATCHER_TRY"
_SETTLE = 0.1
_GONE_WITHIN = 5.0


def kill_tagged(tag: str) -> None:
    """Kill every process of the try and wait until all are gone; blocking.

    A process that is just being executed shows no environment for a moment. So only a second search, some time after the
    last kill, proves that nothing is left.
    """
    quiet = 0
    while quiet < 2:  # noqa: PLR2004
        if signal_tagged(tag, signal.SIGKILL, wait=True):
            quiet = 0
        else:
            quiet += 1
            select.select([], [], [], _SETTLE)


def signal_tagged(tag: str, signal_number: signal.Signals, *, only: int | None = None, wait: bool = False) -> int:
    """Signal the living processes of the try, or only the one with process id `only`. Returns how many there were."""
    living = 0
    processes = {int(folder.name) for folder in Path("/proc").glob("[0-9]*")} - {os.getpid()}
    for process in processes if only is None else [only]:
        with _pinned(process) as descriptor:
            # Checked after it was pinned: from here on the descriptor can mean no other process.
            if descriptor is not None and _has_tag(process, tag):
                living += 1
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal_number)
                if wait:
                    _wait_for_end(descriptor)
    return living


def _wait_for_end(descriptor: int) -> None:
    """Wait a moment for the end of a process. One that takes longer is found, and killed, again by the next search."""
    poll = select.poll()  # a daemon may have more descriptors than `select` can name
    poll.register(descriptor, select.POLLIN)
    poll.poll(_GONE_WITHIN * 1000)


@contextmanager
def _pinned(process: int) -> Iterator[int | None]:
    try:
        descriptor = os.pidfd_open(process)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _has_tag(process: int, tag: str) -> bool:
    """Whether the process has the tag. False for dead processes and for those of other users, which we may not read."""
    try:
        environment = Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        return False
    return f"{TAG_VARIABLE}={tag}".encode() in environment.split(b"\0")
