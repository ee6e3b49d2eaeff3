"""A small disk that can be full."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MEGABYTES = 64


@contextmanager
def small_disk() -> Iterator[Path]:
    """Everybody may write there."""
    folder = Path(tempfile.mkdtemp(prefix="watcher-disk-"))
    try:
        words = ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m,mode=777", "tmpfs", str(folder)]
        mounted = subprocess.run(words, capture_output=True, text=True, check=False)
        if mounted.returncode != 0:
            pytest.skip(f"a full disk takes a disk of its own, which root may mount: {mounted.stderr.strip()}")
        try:
            yield folder
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
    finally:
        folder.rmdir()


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """While the block runs."""
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
