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
    "no fence of positions": 18,
    "reload empties queues": 46,
    "forgets what runs made": 3,
    "consumes for all jobs": 4,
    "consumes without a record": 4,
    "loses drivers at a restart": 4,
    "gives up on sources": 40,
    "leases that never end": 4,
    "forgets own tries": 4,
    "catches up in part": 25,
    "forgets deleted runs": 66,
    "replay twice": 23,
    "cleaned after the first job": 113,
    "queues all but the newest": 4,
    "gives runs less": 3,
    "tells nobody": 4,
    "no fence of tries": 32,
    "rewinds undone": 20,
    "watermark before events": 25,
    "events before watermark": 25,
    "outlets again": 20,
    "failed for loaded": 36,
    "forgets pauses": 20,
    "leaves out the newest": 9,
}
"""A seed that finds each planted fault."""
