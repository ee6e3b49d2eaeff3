"""The machine, or the container the process is in, and the release installed on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePosixPath

_MB = 1024 * 1024


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


def program_version() -> str:
    """The installed release; `unknown` when the program runs from its sources, not installed."""
    try:
        return version("asset-watcher")
    except PackageNotFoundError:
        return "unknown"


def url_here(host: str, port: int) -> str:
    """Where this machine reaches what listens on `host`: by the loopback when it listens on every address."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  it is compared with, not bound to
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
