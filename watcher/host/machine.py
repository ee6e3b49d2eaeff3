"""The machine, or the container the process is in, and the release installed on it."""

from __future__ import annotations

import atexit
import gc
import os
import resource
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

_MB = 1024 * 1024
DESCRIPTORS: Final = 65_536
"""Open files that are enough for everything here; some programs are slow where there is no limit."""
ALLOCATIONS: Final = 20_000
"""New objects, less those that are gone, between two looks of the garbage collector; Python's own number is 700."""
ALLOCATIONS_OF_A_START: Final = 100_000
"""The same, until a daemon is ready, and to the end of other commands."""


def memory_mb(*, installed: int | None = None, root: Path = Path("/")) -> int:
    """The machine's memory (`installed`, in bytes), or the lowest limit of our control groups when that is less."""
    if installed is None:
        installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([installed, *_limits(root)]) // _MB


def _limits(root: Path) -> Iterator[int]:
    """Of our groups and all above them, version 1 or 2 (cgroups(7)): in a container only some of them can be seen."""
    try:
        groups = (root / "proc" / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for _, controllers, path in (line.split(":", 2) for line in groups):
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        if controllers and "memory" not in controllers.split(","):
            continue
        mount = root / "sys" / "fs" / "cgroup" / ("memory" if controllers else "")
        group = PurePosixPath(path).relative_to("/")
        for folder in (group, *group.parents):
            yield from _limit(mount / folder / name)


def _limit(file: Path) -> Iterator[int]:
    try:
        content = file.read_text().strip()
    except OSError:
        return
    if content.isdigit():  # and not `max`
        yield int(content)


def raise_descriptor_limit() -> int:
    """Let this process have as many files open as the machine allows it, up to `DESCRIPTORS`; returns how many.

    Each watcher in a process of its own takes three, and many systems begin with 1,024.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return DESCRIPTORS
    allowed = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return max(soft, allowed)


def search_rarely_for_garbage() -> None:
    """What a program imports stays to its end: the garbage collector's searches in it take a third of a short command."""
    gc.set_threshold(ALLOCATIONS_OF_A_START)
    atexit.register(gc.freeze)  # else Python goes through all of it several times more before it ends


def keep_what_is_there() -> None:
    """Let the garbage collector leave alone what a start has made, and come more rarely.

    What is under way for hundreds of watchers is no garbage, and the program alone is 200,000 objects: going through them
    keeps every watcher waiting for a tenth of a second. So would one last search: it would find some hundred objects.
    """
    gc.freeze()
    gc.set_threshold(ALLOCATIONS)


def program_version() -> str:
    """The installed release; `unknown` when the program runs from its sources, not installed."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  commands that need it not are quicker

    try:
        return version("asset-watcher")
    except PackageNotFoundError:
        return "unknown"


def url_here(host: str, port: int) -> str:
    """Where this machine reaches what listens on `host`: by the loopback when it listens on every address."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  it is compared with, not bound to
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
