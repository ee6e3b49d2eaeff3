"""A small disk that can be full."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MEGABYTES = 64
NO_DISK = "a full disk takes a disk of its own, and mounting one takes root; everything else was done"


@contextmanager
def small_disk() -> Iterator[Path | None]:
    """Mount a small disk to which every user may write. Yields None if this user may not mount."""
    folder = Path(tempfile.mkdtemp(prefix="watcher-disk-"))
    words = ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m,mode=777", "tmpfs", str(folder)]
    try:
        mounted = os.geteuid() == 0 and subprocess.run(words, capture_output=True, check=False).returncode == 0
        try:
            yield folder if mounted else None
        finally:
            if mounted:
                subprocess.run(["umount", "--lazy", str(folder)], check=True)
    finally:
        folder.rmdir()


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """Fill the disk while the block runs."""
    ballast = disk / "ballast"
    try:
        with ballast.open("wb", buffering=0) as file:
            for size in (65_536, 4_096):
                _fill(file.write, bytes(size))
        yield
    finally:
        ballast.unlink()


def _fill(write: Callable[[bytes], int | None], piece: bytes) -> None:
    try:
        while write(piece):
            pass
    except OSError:
        return
