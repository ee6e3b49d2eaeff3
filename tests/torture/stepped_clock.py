"""A clock for single programs of this machine. It may be stepped while they run; other programs do not notice."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("stepped_clock.c")
SIZE = 16 * 1024


class SteppedClock:
    """Programs that have its environment use this clock."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "steps"
        self._file.write_bytes(bytes(SIZE))
        self._steps = 0
        self.environment: Mapping[str, str] = {
            "LD_PRELOAD": str(folder / "stepped_clock.so"),
            "STEPPED_CLOCK": str(self._file),
        }

    def set(self, offset: int) -> None:
        """Set the clock `offset` seconds ahead of the machine's clock."""
        with self._file.open("r+b") as file, mmap.mmap(file.fileno(), SIZE) as steps:
            struct.pack_into("qq", steps, 8 + self._steps * 16, time.time_ns(), offset)
            self._steps += 1
            struct.pack_into("q", steps, 0, self._steps)


@contextmanager
def stepped_clock() -> Iterator[SteppedClock]:
    """Build the clock's library in a folder that every account may read: PostgreSQL does not run as root."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("the library that steps a program's clock is compiled here, and there is no `cc`")
    folder = Path(tempfile.mkdtemp(prefix="watcher-clock-"))
    try:
        folder.chmod(0o755)
        words = [compiler, "-shared", "-fPIC", "-O2", "-o", str(folder / "stepped_clock.so"), str(SOURCE), "-ldl"]
        subprocess.run(words, check=True)
        yield SteppedClock(folder)
    finally:
        shutil.rmtree(folder)
