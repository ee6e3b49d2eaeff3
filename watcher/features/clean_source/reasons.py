"""Why files stay that were to be moved or deleted, in sentences (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from store.fates import MEANINGS, STAYING, Fate
from store.features.clean_source.cleanings import Cleaning
from store.features.clean_source.removed_files import RemovedFile
from triggers.errors import Finding

SENTENCES: Final[Mapping[str, str]] = {
    **{fate: MEANINGS[fate] for fate in STAYING},
    "no_jobs": "no job was scheduled on the asset when it was reported",
    Fate.FAILED: "a run of it failed",
    Fate.DROPPED: "it was taken off a queue, or a run of it was deleted",
    "marked": "a person marked a run of it",
    Fate.UNKNOWN: "a run of it is past its retention, and its outcome was not recorded",
    Fate.QUEUED: "it waits in the queue of a job",
    Fate.RUNNING: "a run of it is not over",
    "after": "its time has not come",
    "shared": "another event, or another watcher, needs its files",
    "exists": "the target has another file of that name",
    "linked": "a file lies behind a symbolic link",
    "too_large": "a file is larger than 5 GiB, which one request cannot copy",
    "denied": "the rights to remove a file are missing",
    "refused": "a file could not be moved or removed",
    "gone": "the source lacks its files now",
}
"""What is true of an event whose files wait or stay, by reason."""
_NO_CONCERN: Final = frozenset({"gone", "shared"})
"""These pass by themselves."""


def finding_of(staying: Mapping[str, int], target: str | None) -> Finding | None:
    """Return what people should know about files that stay; `staying` counts events by reason. None: nothing."""
    concerns = {reason: count for reason, count in staying.items() if reason not in _NO_CONCERN}
    if not concerns:
        return None
    parts = [f"{count:,} where {SENTENCES.get(reason, reason)}" for reason, count in sorted(concerns.items())]
    done = "deleted" if target is None else f"moved to {target}"
    return Finding.info(
        "clean_source",
        f"the files of {sum(concerns.values()):,} events are not {done}: {', '.join(parts)}",
        "clear the runs that failed, or remove the files yourself; `watcher explain FILE` names the reason of each",
    )


def sentences_of_missing(cleaning: Cleaning | None, files: int, removed: RemovedFile | None) -> Sequence[str]:
    """Say of a file that the source lacks what cleaning has made of it. Its event has so many. `removed` None: nothing is known."""
    if removed is not None:
        to = "" if removed.moved_to is None else f" to {removed.moved_to}"
        return (f"`clean_source` has {'moved' if removed.fate is Fate.MOVED else 'deleted'} it{to}",)
    parts = ["the source does not have it any more"]
    if cleaning is not None and (cleaning.removed or cleaning.in_hand):
        parts.append(f"`clean_source` has moved or deleted {cleaning.removed:,} of the {files:,} files of this event")
    return parts


def sentences_of_staying(cleaning: Cleaning | None) -> Sequence[str]:
    """Say why the cleaning of its event, if there is one, leaves a file."""
    if cleaning is None or cleaning.state == "done" or cleaning.reason is None:
        return ()
    return (f"`clean_source` leaves files of this event: {SENTENCES.get(cleaning.reason, cleaning.reason)}",)
