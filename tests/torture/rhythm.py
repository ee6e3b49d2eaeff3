"""The rhythm of the witness: how often it polls, and how long the daemon that hosts it had to wait for a processor."""

from __future__ import annotations

import threading
import time
from bisect import bisect
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

from tests.torture.sources import JITTER, Sources

SAMPLE_EVERY = 0.1
MISSED = 3
"""The length of a gap, in intervals, in which two polls were missed."""
STARVED = 0.25
"""The part of a gap in which the daemon waited for a processor, from which on the machine is to blame: on a busy machine,
a process that needs a little work for each poll falls behind for good."""


def looks_in(path: Path) -> list[float]:
    """Return the times of the polls, by `time.monotonic`, which all processes of a machine share. Skip an unfinished line."""
    text = path.read_text() if path.exists() else ""
    return [float(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def gaps(path: Path, since: float) -> list[tuple[float, float]]:
    """Return the gaps: from `since` to the first poll after it, between polls, and from the last poll until now."""
    return [*pairwise([since, *(look for look in looks_in(path) if look > since), time.monotonic()])]


def largest_gap(path: Path, since: float) -> float:
    """Return the largest gap in seconds."""
    return max(end - start for start, end in gaps(path, since))


class Rhythm:
    """The rhythm of the witness since the block began."""

    def __init__(self, sources: Sources, process: int) -> None:
        self._sources, self._process = sources, process
        self._began = time.monotonic()
        self._waits: dict[str, int] = {}
        self._samples = [(self._began, self._waited_so_far())]

    def take_samples(self, over: threading.Event) -> None:
        while not over.wait(SAMPLE_EVERY):
            self._samples.append((time.monotonic(), self._waited_so_far()))

    def _waited_so_far(self) -> float:
        """Return the seconds in which a thread could have run but had no processor. Meanwhile all wait if it
        has the interpreter's lock.

        0 if the kernel does not count them.
        """
        for thread in Path(f"/proc/{self._process}/task").glob("*"):
            with suppress(OSError):  # the thread has ended
                self._waits[thread.name] = int((thread / "schedstat").read_text().split()[1])
        return sum(self._waits.values()) / 1e9

    def _waited(self, start: float, end: float) -> float:
        first, last = (bisect(self._samples, (moment,)) for moment in (start, end))
        return self._samples[min(last, len(self._samples) - 1)][1] - self._samples[max(first - 1, 0)][1]

    def missed(self) -> list[str]:
        """Return the gaps in which the witness missed two polls although the daemon had a processor."""
        longest = MISSED * self._sources.look_every * JITTER
        return [
            f"{end - start:.1f} s, {waited:.1f} s of them without a processor"
            for start, end in gaps(self._sources.looks, self._began)
            if end - start > longest and (waited := self._waited(start, end)) < STARVED * (end - start)
        ]

    def __str__(self) -> str:
        """Show the largest gap, and how much of it the daemon waited for a processor."""
        start, end = max(gaps(self._sources.looks, self._began), key=lambda gap: gap[1] - gap[0])
        return f"{end - start:.1f} ({self._waited(start, end):.1f})"


@contextmanager
def rhythm(sources: Sources, process: int) -> Iterator[Rhythm]:
    measured, over = Rhythm(sources, process), threading.Event()
    thread = threading.Thread(target=measured.take_samples, args=(over,))
    thread.start()
    try:
        yield measured
    finally:
        over.set()
        thread.join()
