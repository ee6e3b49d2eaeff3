"""The seeds that are played each time: those that have found something, and what; and those that find the planted faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

KEPT: Final[Mapping[int, str]] = {
    31: "a token that a clock in advance has issued is refused by others for as long as it is in advance: not mended, excused",
    55: "delete, then retention: that a deleted run had consumed an event was forgotten",
    57: "a start whose first commit is not answered for half a minute ends: as documented, excused",
    66: "the same as 55, with a replay before",
    67: "three files of one installation that differ: a run waits until its leader knows the job: the simulator's own fault",
    150: "a reload that fails for want of the database: the changed files counted as read, and were never applied",
    176: "runs that the clean-up removes counted as new ones, and a tick's run that holds the only place was not waited for: the judge's faults",
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
