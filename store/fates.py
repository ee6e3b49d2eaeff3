"""What became of an item, or of an event: the one list of states that all answers use (pure).

An item is a file version, a row, or a change. An event that names it has a fate at each job; an item without an event has one
by itself. `docs/states.md` is made of this module, and a test compares.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple


class Fate(StrEnum):
    """What became of an item: first the fates at a job, then those before any job, then those without an event."""

    QUEUED = "queued"
    RUNNING = "running"
    LOADED = "loaded"
    FAILED = "failed"
    SUPERSEDED = "superseded"
    CLEANED = "cleaned"
    MOVED = "moved"
    DROPPED = "dropped"
    NOT_TAKEN = "not_taken"

    WAITING = "waiting"
    REJECTED = "rejected"
    REPORTED = "reported"

    BEFORE_START = "before_start"
    NOT_MATCHED = "not_matched"
    HIDDEN = "hidden"
    OUTSIDE = "outside"
    REPLACED = "replaced"
    MISSING = "missing"
    NOT_REPORTED = "not_reported"
    PAST_RETENTION = "past_retention"
    UNKNOWN = "unknown"


MEANINGS: Final[Mapping[Fate, str]] = {
    Fate.QUEUED: "the event waits in the job's queue, or the run that has it waits to start",
    Fate.RUNNING: "the run that has it is running",
    Fate.LOADED: "the run that had it has succeeded, or a person marked it as succeeded",
    Fate.FAILED: "the run that had it has failed",
    Fate.SUPERSEDED: "a newer version of its path counts: one of the same run, or one that the job has loaded, has, or waits for",
    Fate.CLEANED: "`clean_source` has deleted it: the job has loaded it before, or runs without it",
    Fate.MOVED: "the job has loaded it, and `clean_source` has moved it since; a further run reads it at its new place",
    Fate.DROPPED: "a person took the event off the queue, its job was removed, or its run was deleted",
    Fate.NOT_TAKEN: "no reference of the job's schedule took the event, or it is from before the job",
    Fate.WAITING: (
        "a later poll reports it: it is younger than `min_age`, a transaction keeps its gap open, the table is locked, or the"
        " next poll decides"
    ),
    Fate.REJECTED: "no event can name it, or its row cannot be read",
    Fate.REPORTED: "an event names it, and no job waits for the asset",
    Fate.BEFORE_START: "it was there before the watcher's start, or a rewind passed over it",
    Fate.NOT_MATCHED: "a pattern, `min_size` or `where` excludes it",
    Fate.HIDDEN: "not built: no program says so yet",
    Fate.OUTSIDE: "it cannot be an item of this watcher",
    Fate.REPLACED: "events name an earlier content only, and the present one is not reported yet",
    Fate.MISSING: "the source does not have it, and no event names it; in a comparison: an event names it",
    Fate.NOT_REPORTED: "the watcher is done with it, and no event names it: where detection is exact, there is none",
    Fate.PAST_RETENTION: "the watcher is done with it, and the event that named it may be past its retention",
    Fate.UNKNOWN: "the source did not answer, or what would decide is no longer kept",
}

AT_A_JOB: Final[Sequence[Fate]] = [*Fate][: [*Fate].index(Fate.WAITING)]
BEFORE_ANY_JOB: Final[Sequence[Fate]] = (Fate.WAITING, Fate.REJECTED, Fate.REPORTED)
WITHOUT_AN_EVENT: Final[Sequence[Fate]] = [*Fate][[*Fate].index(Fate.BEFORE_START) :]

HAS_LOADED: Final[Collection[Fate]] = frozenset({Fate.LOADED, Fate.CLEANED, Fate.MOVED})
"""The fates at a job that has loaded the item."""
LEFT_OUT: Final[Sequence[Fate]] = (Fate.CLEANED, Fate.SUPERSEDED)
"""The fates of items that a try does not get. A run of which nothing else is left is skipped, and has one of them as its reason."""
STAYING: Final[Sequence[Fate]] = (Fate.FAILED, Fate.DROPPED)
"""The fates at a job that has not loaded the item, and does not until somebody does something; the severest first."""
_FIRST: Final = (Fate.FAILED, Fate.RUNNING, Fate.QUEUED, Fate.DROPPED, Fate.SUPERSEDED, Fate.LOADED)
_PLACES: Final = {fate: place for place, fate in enumerate(dict.fromkeys((*_FIRST, *Fate)))}


def urgency(fate: Fate) -> int:
    """Return the place of a fate in the order in which an answer about several jobs considers them; the first is 0."""
    return _PLACES[fate]


def of_item(at_jobs: Iterable[Fate]) -> Fate:
    """Return the fate of an item that an event names, from those at all jobs that wait for it, or got it."""
    return min(at_jobs, key=urgency, default=Fate.REPORTED)


_WITHOUT_REMOVED: Final = frozenset({Fate.QUEUED, Fate.RUNNING, Fate.LOADED, Fate.FAILED})


def of_removed(fate: Fate, removed: Fate) -> Fate:
    """Return the fate of a file at a job, from that of its event there and what `clean_source` has made of the file.

    A job loads no file that was deleted, whatever becomes of its run. It reads one that was moved at its new place.
    """
    if removed is Fate.CLEANED:
        return removed if fate in _WITHOUT_REMOVED else fate
    return removed if fate is Fate.LOADED else fate


RUN_STATES: Final[Mapping[str, Fate]] = {
    "queued": Fate.QUEUED,
    "running": Fate.RUNNING,
    "success": Fate.LOADED,
    "failed": Fate.FAILED,
    "deleted": Fate.DROPPED,
}
"""The fate that each state of a run means for its events."""


def of_run(state: str) -> Fate:
    """Return the fate of the events of a run in this state. Raises `KeyError` for a state that no run has."""
    return RUN_STATES[state]


def without_event(place: int | None, *, passed_before: int | None, kept_since: int | None) -> Fate:
    """Return the fate of an item that its watcher is done with, and that no event names.

    `place` is when its content was written, in microseconds since 1970, or its number; None: its source does not tell. The start or
    the last rewind passed over what lies before `passed_before`, and events of what lies before `kept_since` may have been
    removed. None: nothing was passed over; no event was removed.
    """
    if passed_before is not None and (place is None or place < passed_before):
        return Fate.BEFORE_START
    if kept_since is not None and (place is None or place < kept_since):
        return Fate.PAST_RETENTION
    return Fate.NOT_REPORTED


WORDS_OF_EXPLAIN_BEFORE: Final[Mapping[Fate, str]] = {
    Fate.DROPPED: "dequeued",
    Fate.NOT_TAKEN: "reported",
    Fate.CLEANED: "loaded",
    Fate.MOVED: "loaded",
    Fate.SUPERSEDED: "loaded",
    Fate.NOT_REPORTED: "before_start",
    Fate.PAST_RETENTION: "unknown",
}
"""The words that answers about an item had for these fates before this list, for those that changed; answers still give them."""
WORDS_OF_RECONCILE_BEFORE: Final[Mapping[Fate, str]] = {
    Fate.DROPPED: "dequeued",
    **dict.fromkeys((Fate.QUEUED, Fate.RUNNING, Fate.NOT_TAKEN, Fate.REPORTED), "reported_not_loaded"),
    **dict.fromkeys((Fate.MISSING, Fate.CLEANED, Fate.MOVED), "gone_from_source"),
    Fate.UNKNOWN: "past_retention",
}
"""The words that comparisons of a source had for these fates before this list, for those that changed."""


class Move(NamedTuple):
    """A step from one state to another, mostly of fates. `before` None: what has the states is new. `tools/states.py` draws it."""

    before: str | None
    after: str
    because: str


MOVES_OF_ITEMS: Final[Sequence[Move]] = (
    Move(None, Fate.BEFORE_START, "it is there before the start"),
    Move(None, Fate.WAITING, "it is written"),
    Move(None, Fate.NOT_MATCHED, "the selection excludes it"),
    Move(Fate.WAITING, Fate.REJECTED, "no event can name it"),
    Move(Fate.REJECTED, Fate.WAITING, "a retry"),
    Move(Fate.WAITING, Fate.REPORTED, "an event names it"),
    Move(Fate.WAITING, Fate.MISSING, "it is deleted before a poll"),
    Move(Fate.REPORTED, Fate.REPLACED, "it is written again"),
    Move(Fate.REPLACED, Fate.REPORTED, "an event names the present content"),
    Move(Fate.BEFORE_START, Fate.WAITING, "a rewind to before it"),
    Move(Fate.REPORTED, Fate.PAST_RETENTION, "its event is past its retention"),
)
"""The life of an item until jobs get its event."""
MOVES_AT_JOBS: Final[Sequence[Move]] = (
    Move(None, Fate.QUEUED, "a reference takes the event"),
    Move(None, Fate.NOT_TAKEN, "no reference takes it"),
    Move(Fate.NOT_TAKEN, Fate.QUEUED, "replay"),
    Move(Fate.QUEUED, Fate.RUNNING, "its run starts"),
    Move(Fate.QUEUED, Fate.DROPPED, "it is taken off the queue"),
    Move(Fate.RUNNING, Fate.LOADED, "the run succeeds"),
    Move(Fate.RUNNING, Fate.FAILED, "the run fails for good"),
    Move(Fate.FAILED, Fate.QUEUED, "the run is cleared"),
    Move(Fate.LOADED, Fate.QUEUED, "the run is cleared"),
    Move(Fate.QUEUED, Fate.SUPERSEDED, "a newer version counts"),
    Move(Fate.RUNNING, Fate.SUPERSEDED, "it is gone, and a newer version counts"),
    Move(Fate.FAILED, Fate.DROPPED, "the run is deleted"),
    Move(Fate.LOADED, Fate.DROPPED, "the run is deleted"),
    Move(Fate.LOADED, Fate.CLEANED, "clean_source deletes it"),
    Move(Fate.QUEUED, Fate.CLEANED, "clean_source has deleted it"),
    Move(Fate.LOADED, Fate.MOVED, "clean_source moves it"),
    Move(Fate.DROPPED, Fate.QUEUED, "replay with what was dropped"),
)
"""The life of an event at one job. That the clean-up removes its run moves nothing."""


def table(fates: Sequence[Fate]) -> str:
    """Return the table of these fates and their meanings, as Markdown."""
    return "\n".join(["| state | meaning |", "|---|---|", *(f"| `{fate}` | {MEANINGS[fate]} |" for fate in fates)])
