"""Decides whether the files of an event may go, and what a step made of them (pure)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from store.fates import HAS_LOADED, STAYING, Fate
from store.features.clean_source.cleanings import Cleaning, CleaningState
from store.runs.fates import EventAtJob

Verdict: TypeAlias = Literal["clean", "wait", "stay"]
SHORTEST_WAIT: Final = timedelta(seconds=5)
"""Between two looks at an event whose jobs are not done."""
SHORTEST_STAY: Final = timedelta(minutes=1)
"""Between two looks at an event whose files stay until somebody does something."""
PASSES: Final = 3
"""After so many looks a file that the source lacks is gone for good. A lost mount lacks all files for a while."""
_WAITING: Final[Collection[str]] = (Fate.RUNNING, Fate.QUEUED)
_MARKED: Final = "marked"
_STAYING: Final[Sequence[str]] = (*STAYING, _MARKED, Fate.UNKNOWN)


@dataclass(frozen=True, kw_only=True)
class CleaningDecision:
    """Whether the files of an event may go now, else why not, and when to look again. `look_at` None: never."""

    verdict: Verdict
    reason: str | None = None
    look_at: datetime | None = None


def decide(owed: Collection[str], fates: Sequence[EventAtJob], after: timedelta, now: datetime) -> CleaningDecision:
    """Decide by what became of the event at the jobs that were owed it.

    What other jobs made of it does not count, but no file is taken away from a run that is not over. If a run ends well later
    than now, its files go later than `after` from now: nothing is missed by looking then.
    """
    if not owed:
        return CleaningDecision(verdict="stay", reason="no_jobs")
    if (obstacle := _obstacle(owed, fates)) is not None:
        waits = obstacle in _WAITING
        look_at = now + max(after, SHORTEST_WAIT if waits else SHORTEST_STAY)
        return CleaningDecision(verdict="wait" if waits else "stay", reason=obstacle, look_at=look_at)
    last = max(each.ended_at or now for each in fates if each.dag_id in owed)
    if last + after > now:
        return CleaningDecision(verdict="wait", reason="after", look_at=last + after)
    return CleaningDecision(verdict="clean")


def _obstacle(owed: Collection[str], fates: Sequence[EventAtJob]) -> str | None:
    """Return why not every job has loaded the event that was owed it; None: they all have."""
    if any(each.run is not None and each.fate in _WAITING for each in fates):
        return Fate.RUNNING
    at_owed = {
        _MARKED if each.is_marked and each.fate in HAS_LOADED else each.fate for each in fates if each.dag_id in owed
    }
    for obstacle in (*_STAYING, Fate.QUEUED):
        if obstacle in at_owed:
            return obstacle
    has_loaded = {each.dag_id for each in fates if each.fate in HAS_LOADED}
    return None if {*owed} <= has_loaded else Fate.UNKNOWN


def next_numbers(cleaning: Cleaning, files: int, most: int) -> Sequence[int]:
    """Return the numbers of the files of the event that are next in this pass; none at its end."""
    numbers = range(files) if cleaning.files is None else cleaning.files
    return [*numbers[cleaning.next_file : cleaning.next_file + most]]


def passed(cleaning: Cleaning, outcomes: Mapping[int, str], files: int) -> Cleaning:
    """Return the cleaning after the next files of the pass came to these outcomes.

    At the end of a pass another one begins with the files that stay. Those that the source lacks are looked for again a few times.
    """
    left = {number: why for number, why in {**cleaning.staying, **outcomes}.items() if why != "done"}
    after = replace(
        cleaning,
        state="waiting",
        reason=None,
        next_file=cleaning.next_file + len(outcomes),
        staying=left,
        removed=cleaning.removed + sum(outcome == "done" for outcome in outcomes.values()),
        in_hand=None,
    )
    if next_numbers(after, files, 1):
        return after
    passes = after.passes + 1
    left = {number: why for number, why in left.items() if why != "gone" or passes < PASSES}
    if not left:
        return replace(after, state="done", passes=passes, staying={})
    reasons = sorted({*left.values()} - {"gone"}) or ["gone"]
    return replace(
        after, state="staying", reason=reasons[0], passes=passes, staying=left, files=sorted(left), next_file=0
    )


def held_up(cleaning: Cleaning, decision: CleaningDecision) -> Cleaning:
    """Return the cleaning of an event whose files may not go now."""
    state: CleaningState = "staying" if decision.verdict == "stay" else "waiting"
    return replace(cleaning, state=state, reason=decision.reason, in_hand=None)
