"""Judges what became of an item, from what its trigger says and what the store has (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from store.catalog.watchers import WatcherRow
from store.detection.rejections import RejectedRow
from store.detection.sketches import microseconds
from store.fates import HAS_LOADED, Fate, of_item, of_removed, without_event
from store.features.clean_source.cleanings import Cleaning
from store.features.clean_source.removed_files import RemovedFile
from store.features.explain.explanations import QueueDeletion
from store.features.explain.item_search import NamingEvent, NamingEvents
from store.runs.fates import EventAtJob, JobRecord
from triggers.explanations import Explanation
from watcher.features.clean_source.reasons import sentences_of_missing, sentences_of_staying
from watcher.features.explain.beginning import Beginning
from watcher.features.explain.fates_in_words import fates_in_words, moment_in_words


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known of an item beside its trigger's explanation."""

    watcher: WatcherRow
    naming: NamingEvents
    at_jobs: Mapping[int, Sequence[EventAtJob]]
    """What became of the item of each named event at the jobs that got it."""
    deletions: Sequence[QueueDeletion]
    """The deletions from queues since the oldest of the events."""
    rejections: Sequence[RejectedRow]
    scheduled: Sequence[JobRecord]
    """The jobs that wait for the asset's events now."""
    filtered: Sequence[str]
    """Those of them whose schedules have a `where`."""
    begun: datetime
    """When the asset was configured first."""
    events_since: datetime
    """Older events may have been removed."""
    runs_since: datetime
    """Runs that ended earlier may have been removed."""
    cleanings: Mapping[int, Cleaning] = field(default_factory=dict)
    """How far the cleaning of these events has come, of those whose files are to be moved or deleted."""
    removed: Mapping[int, Mapping[int, RemovedFile]] = field(default_factory=dict)
    """The files of these events that `clean_source` has moved or deleted, by event and number."""
    beginning: Beginning | None = None
    """What was passed over and forgotten. None: the trigger cannot list its source, or an event names the item."""

    @property
    def has_forgotten_events(self) -> bool:
        return self.begun < self.events_since


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of an item. `event` decided it; None: no event did. `at_jobs` is what became of that event at each job."""

    state: Fate
    sentence: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    event: NamingEvent | None = None
    at_jobs: Sequence[EventAtJob] = ()


def verdict(explanation: Explanation, evidence: Evidence) -> Verdict:
    """Return what became of an item: of its present content where that is known, else of the newest that was reported."""
    events = [event for event in evidence.naming.events if not event.is_rejected]
    newest = next((event for event in events if _is_present(event, explanation)), None)
    if evidence.rejections and (newest is None or newest.timestamp <= evidence.rejections[0].rejected_at):
        return _rejected(evidence.rejections[0])
    if newest is not None:
        return _fate(newest, explanation, evidence)
    if events and explanation.state == "not_matched":
        return _fate(events[0], explanation, evidence)
    if events and explanation.state not in _PASSED_BY:
        return _replaced(events[0], explanation, evidence)
    return _unreported(explanation, evidence)


_GONE: Final = frozenset({"missing", "not_matched", "unknown"})
"""What the trigger says of an item that may have been removed."""


_PASSED_BY: Final = frozenset({"reported", "before_start"})
"""What the trigger says of a content that no later poll reports."""


def _is_present(event: NamingEvent, explanation: Explanation) -> bool:
    """Return whether an event names the content that the item has now. Events of older releases have fewer members.

    Events name rows by key without their content: one whose present version waits was written again since.
    """
    if event.content is None:
        return explanation.state != "waiting" or explanation.in_ranges or explanation.facts.get("reason") == "lock"
    if explanation.version is None:
        return True
    return all(explanation.version.get(name) == value for name, value in event.content.items())


def _rejected(item: RejectedRow) -> Verdict:
    facts = {"reason": item.reason, "column": item.column_name, "sqlstate": item.code or None}
    again = "; a retry was asked for" if item.retry_at is not None else ""
    return Verdict(
        state=Fate.REJECTED,
        sentence=f"rejected at {moment_in_words(item.rejected_at)}: {item.reason}{again}",
        facts=facts,
    )


def _replaced(event: NamingEvent, explanation: Explanation, evidence: Evidence) -> Verdict:
    """Return the verdict on an item of which events name only earlier contents."""
    fate = _fate(event, explanation, evidence)
    state = Fate.WAITING if explanation.facts.get("reason") == "min_age" else Fate.REPLACED
    sentence = (
        f"event {event.id} of {moment_in_words(event.timestamp)} names an earlier content, which was {fate.state} and has been"
        f" replaced since; of the present one: {explanation.sentence}{_health(evidence.watcher)}"
    )
    return Verdict(state=state, sentence=sentence, facts=fate.facts, event=event)


def _fate(event: NamingEvent, explanation: Explanation, evidence: Evidence) -> Verdict:
    """Return what became of an event that names the item."""
    at_jobs, cleaning = _at_all_jobs(event, evidence), evidence.cleanings.get(event.id)
    removed = evidence.removed.get(event.id, {}).get(event.place) if explanation.state in _GONE else None
    if removed is not None:
        at_jobs = [replace(each, fate=of_removed(each.fate, removed.fate)) for each in at_jobs]
    state = of_item(each.fate for each in at_jobs)
    parts = [
        f"reported in event {event.id} at {moment_in_words(event.timestamp)}",
        *fates_in_words(at_jobs, evidence.filtered, evidence.runs_since),
    ]
    parts += _superseded_before(event, evidence)
    if explanation.state == "missing":
        parts += sentences_of_missing(cleaning, event.files, removed)
    else:
        parts += sentences_of_staying(cleaning)
    if explanation.state == "not_matched":
        parts.append(f"the watcher does not select it any more: {explanation.sentence}")
    if explanation.state == "unknown" or explanation.facts.get("reason") == "gap":
        parts.append(explanation.sentence)
    facts = {**_losses(at_jobs)}
    if queued := [each.dag_id for each in at_jobs if each.fate is Fate.QUEUED and each.run is None]:
        facts["queued_for"] = queued
    if removed is not None and removed.moved_to is not None:
        facts["moved_to"] = removed.moved_to
    return Verdict(state=state, sentence="; ".join(parts), facts=facts, event=event, at_jobs=at_jobs)


def _superseded_before(event: NamingEvent, evidence: Evidence) -> Iterator[str]:
    """Yield clauses that name the earlier versions of the item which runs left out."""
    for earlier in evidence.naming.events:
        jobs = [each.dag_id for each in evidence.at_jobs.get(earlier.id, ()) if each.fate is Fate.SUPERSEDED]
        if jobs and earlier.id < event.id:
            yield f"its earlier version of event {earlier.id} was superseded at {', '.join(jobs)}"


def _at_all_jobs(event: NamingEvent, evidence: Evidence) -> Sequence[EventAtJob]:
    """Return what became of an event at the jobs that got it, and at those that wait for its asset now, by name."""
    known = evidence.at_jobs.get(event.id, ())
    names = {each.dag_id for each in known}
    unrecorded = []
    for job in evidence.scheduled:
        if job.dag_id not in names:
            fate = job.fate_of(event.id, event.timestamp, evidence.runs_since)
            deletion = next((each for each in evidence.deletions if _took_off(each, job, event)), None)
            if fate is Fate.DROPPED and deletion is not None:
                unrecorded.append(
                    EventAtJob(dag_id=job.dag_id, fate=fate, dropped_at=deletion.at, dropped_by=deletion.actor)
                )
            else:
                unrecorded.append(EventAtJob(dag_id=job.dag_id, fate=fate))
    return sorted([*known, *unrecorded], key=lambda each: each.dag_id)


def _took_off(deletion: QueueDeletion, job: JobRecord, event: NamingEvent) -> bool:
    return deletion.concerns(job.dag_id) and deletion.at >= event.timestamp


def _losses(at_jobs: Sequence[EventAtJob]) -> Mapping[str, Any]:
    """Return what runs that succeeded left out: bad records, a skipped file is one, and the sentences that name them."""
    loaded = [each.run for each in at_jobs if each.run is not None and each.fate in HAS_LOADED]
    if not loaded:
        return {}
    warnings = [run.warning for run in loaded if run.warning]
    return {"bad_records": sum(run.bad_records or 0 for run in loaded), **({"warnings": warnings} if warnings else {})}


def _unreported(explanation: Explanation, evidence: Evidence) -> Verdict:
    """Return the verdict on an item that no event names."""
    state = Fate(explanation.state)
    sentence, facts = explanation.sentence, {**explanation.facts}
    removed = f"events before {moment_in_words(evidence.events_since)} have been removed (settings.store.event_retention_days)"
    if evidence.has_forgotten_events:
        facts["forgotten_before"] = evidence.events_since.isoformat()
    if state is Fate.WAITING:
        sentence += _health(evidence.watcher)
        facts |= _hindrance(evidence.watcher)
    elif state is Fate.MISSING:
        sentence += "; no event names it" + (f", and {removed}" if evidence.has_forgotten_events else "")
    elif state is Fate.BEFORE_START and evidence.naming.events:
        sentence += f"; {_EARLIER}"
    elif state is Fate.REPORTED:
        state = _passed_over(explanation, evidence)
        which = _EARLIER if evidence.naming.events else "no event names it"
        sentence += f"; {which}{_why_passed_over(state, explanation, evidence.watcher.name, removed)}"
    return Verdict(state=state, sentence=sentence, facts=facts)


def _passed_over(explanation: Explanation, evidence: Evidence) -> Fate:
    """Return the fate of an item that the watcher is done with and no event names."""
    begin, place = evidence.beginning, explanation.name if explanation.in_ranges else None
    if begin is not None:
        if explanation.written is not None:
            place = microseconds(explanation.written)
        return without_event(place, passed_before=begin.passed_before, kept_since=begin.kept_since)
    written = None if explanation.written is None else datetime.fromisoformat(explanation.written)
    if evidence.has_forgotten_events and (written is None or written < evidence.events_since):
        return Fate.PAST_RETENTION
    if explanation.facts.get("horizon") is not None and written is not None and written >= evidence.begun:
        return Fate.UNKNOWN
    return Fate.BEFORE_START


_EARLIER: Final = "only its earlier contents are named by events"
_PASSED: Final = "it was there before the watcher's start, or was passed over by a rewind"


def _why_passed_over(fate: Fate, explanation: Explanation, watcher: str, removed: str) -> str:
    """Return the rest of the sentence about an item that no event names."""
    horizon = explanation.facts.get("horizon")
    if fate is Fate.BEFORE_START:
        return f": {_PASSED}"
    if fate is Fate.PAST_RETENTION:
        return f", and {removed}"
    if fate is Fate.UNKNOWN:
        words = f"{_PASSED}, or appeared too late for `lateness`"
        return f", and which files are older than {horizon} is not remembered: {words}"
    if explanation.in_ranges:
        return (
            ": ids at or below the position that no event names break a condition of exact detection (docs/postgres.md), or its"
            f" event was deleted; `watcher rewind {watcher} --to {explanation.name - 1}` reports it and what lies above again"
        )
    late = f", or became visible later than `lateness` allows, since it is older than {horizon}" if horizon else ""
    return f": a condition of exact detection was broken{late}, or its event was deleted; a rewind reports it again"


def _health(watcher: WatcherRow) -> str:
    """Return what keeps the watcher from its next poll, as the end of a sentence; empty if nothing does."""
    if watcher.paused:
        return "; the watcher is paused" + (f" after failures: {watcher.error}" if watcher.error else "")
    if watcher.error is not None:
        return f"; the watcher is {watcher.state}: {watcher.error}"
    return "" if watcher.state != "stopped" else "; the watcher is stopped"


def _hindrance(watcher: WatcherRow) -> Mapping[str, Any]:
    if watcher.paused or watcher.error is not None or watcher.state == "stopped":
        return {"watcher_state": "paused" if watcher.paused else watcher.state, "watcher_error": watcher.error}
    return {}
