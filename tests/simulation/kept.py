"""The seeds that are played each time: those that have found something, and what; and those that find the planted faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

KEPT: Final[Mapping[int, str]] = {
    45: "a newer version came between the clear of a run that had succeeded and its start: the run left the older one out, and lost rows",
    65: "a process is to be frozen that was killed within a transaction: the simulator's own fault, it waited for ever",
    69: "the same as 45, after a replay",
}
"""What each has found."""
FINDS: Final[Mapping[str, int]] = {
    "no fence of positions": 26,
    "reload empties queues": 10,
    "replay twice": 18,
    "no fence of tries": 10,
    "watermark before events": 35,
    "drops without a record": 97,
    "hints without looks": 136,
    "gives up on sources": 25,
    "loses drivers at a restart": 35,
    "leases that never end": 8,
    "forgets own tries": 8,
    "cleaned after the first job": 55,
    "leaves out the newest": 11,
    "goes without more than agreed": 69,
    "events before watermark": 8,
    "gives runs less": 8,
    "tells nobody": 8,
    "consumes for all jobs": 8,
    "failed for loaded": 8,
    "outlets again": 9,
    "forgets pauses": 25,
    "catches up in part": 257,
    "queues all but the newest": 9,
    "rewinds undone": 10,
    "consumes without a record": 8,
}
"""A seed that finds each planted fault."""
