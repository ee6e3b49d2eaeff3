"""What this machine, or the container we are in, lets us have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_MB = 1024 * 1024


def memory_mb(root: Path = Path("/")) -> int:
    """The machine's memory, or the lowest limit of our control groups (version 1 or 2) when that is less."""
    return min(_installed(root), *_limits(root)) // _MB


def _installed(root: Path) -> int:
    """In bytes; /proc/meminfo has kB (proc(5))."""
    lines = (root / "proc" / "meminfo").read_text().splitlines()
    found = next(line for line in lines if line.startswith("MemTotal:"))
    return int(found.split()[1]) * 1024


def _limits(root: Path) -> Iterator[int]:
    """Of our groups and all above them (cgroups(7)): in a container only some of them can be seen."""
    yield _installed(root)
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
