"""The machine or container that the process runs in, and the installed version of this program."""

from __future__ import annotations

import atexit
import gc
import getpass
import os
import resource
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

_MB = 1024 * 1024
DESCRIPTORS: Final = 65_536
"""A number of open files that is enough for everything here. Some programs are slow without a limit."""
ALLOCATIONS: Final = 20_000
"""The net number of new objects between two runs of the garbage collector. Python's own number is 700."""
ALLOCATIONS_OF_A_START: Final = 500_000
"""The net number of new objects between two runs while a daemon starts, and during other commands."""

LEAST_FREE: Final = 64 * 1024
"""The free bytes below which a disk counts as full: a job's traceback alone takes some of them."""
_PAGE: Final = 4096


def memory_mb(*, installed: int | None = None, root: Path = Path("/")) -> int:
    """Return the memory in MB: the machine's (`installed`, in bytes), or a lower limit of our control groups."""
    if installed is None:
        installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([installed, *_limits(root)]) // _MB


def _limits(root: Path) -> Iterator[int]:
    """Yield the memory limits of our control groups and all above them, version 1 or 2 (cgroups(7)).

    In a container only some groups are visible.
    """
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


def free_bytes(folder: Path) -> int | None:
    """Return the bytes that this account may still write below a folder; None if the folder cannot be asked."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return None
    return disk.f_bavail * disk.f_frsize


def write_fault(folder: Path) -> str:
    """Return why nothing, or next to nothing, can be written below a folder, with its free bytes; '' if it can. Blocks."""
    import tempfile  # noqa: PLC0415  see watcher.cli

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(bytes(_PAGE))
    except OSError as error:
        return f"{error.strerror}, {_in_words(free_bytes(folder))} are free"
    free = free_bytes(folder)
    return "" if free is None or free >= LEAST_FREE else f"the disk is full, {_in_words(free)} are free"


def _in_words(free: int | None) -> str:
    return "nobody knows how many bytes" if free is None else f"{free:,} bytes"


def raise_descriptor_limit() -> int:
    """Raise the limit of open files to what the machine allows, up to `DESCRIPTORS`. Return the limit.

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
    """Let the garbage collector run rarely: imported objects stay to the end, and searching them takes a third of a short command."""
    gc.set_threshold(ALLOCATIONS_OF_A_START)
    atexit.register(gc.freeze)  # else Python goes through all of it several times more before it ends


def keep_what_is_there() -> None:
    """Exclude the objects of the start from garbage collection, and collect less often from now on.

    The objects of hundreds of watchers are no garbage, and the program alone has 200,000: going through them makes every
    watcher wait for a tenth of a second. A last collection would do so, too, and find some hundred objects.
    """
    gc.freeze()
    gc.set_threshold(ALLOCATIONS)


def program_version() -> str:
    """Return the installed version, or `unknown` when the program runs from its sources without being installed."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  commands that need it not are quicker

    try:
        return version("asset-watcher")
    except PackageNotFoundError:
        return "unknown"


def program() -> str:
    """Return what a shell calls this program by: its name where that is found, else its path beside the interpreter."""
    here, on_path = Path(sys.executable).with_name("watcher"), shutil.which("watcher")
    is_found = on_path is not None and (not here.exists() or Path(on_path).samefile(here))
    return "watcher" if is_found or not here.exists() else str(here)


def account() -> str:
    """Return the actor for the audit when access to the database is all the permission needed."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):  # a container's account needs no entry in /etc/passwd
        return f"cli:{os.getuid()}"


def url_here(host: str, port: int) -> str:
    """Return the address at which this machine reaches a server on `host`: the loopback if it listens on every address."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  it is compared with, not bound to
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
