"""A busy machine: loops that never rest, four for each processor."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.effort import LONG

TIMES: Final = 4 if LONG else 0
"""Loops for each processor. The short form has none, because it shares its machine with other tests."""
_LOOP: Final = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
while True:
    pass
"""


@contextmanager
def overcommitted() -> Iterator[str]:
    """Keep the machine busy while the block and this process live. Yields words for a line of the table."""
    loops = [
        subprocess.Popen([sys.executable, "-c", _LOOP], stdin=subprocess.PIPE)
        for _ in range(TIMES * (os.cpu_count() or 1))
    ]
    try:
        yield f", CPU overcommitted {TIMES} times" if TIMES else ""
    finally:
        for loop in loops:
            loop.kill()
            loop.communicate()
