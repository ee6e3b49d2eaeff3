"""Judges what became of an item, from what its trigger says and what the store has (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from store.catalog.watchers import WatcherRow
from store.detection.cleanings import Cleaning
from store.detection.item_search import NamingEvent, NamingEvents
from store.detection.rejections import RejectedRow
from store.runs.explanations import ConsumedBy, QueueDeletion
from store.runs.runs import DELETED
from triggers.explanations import Explanation
from watcher.triggerer.cleaning.reasons import sentences_of_missing, sentences_of_staying

AnswerState: TypeAlias = Literal[
    "loaded",
    "running",
    "queued",
    "failed",
    "reported",
    "dequeued",
    "rejected",
    "waiting",
    "replaced",
    "before_start",
    "not_matched",
    "outside",
    "missing",
    "unknown",
]
_SUCCESS, _RUNNING, _QUEUED, _FAILED = "success", "running", "queued", "failed"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known of an item beside its trigger's explanation. `runs` and `queued` are of the named events."""

    watcher: WatcherRow
    naming: NamingEvents
    runs: Sequence[ConsumedBy]
    queued: Mapping[int, Sequence[str]]
    deletions: Sequence[QueueDeletion]
    """The deletions from queues since the oldest of the events."""
    rejections: Sequence[RejectedRow]
    scheduled: Sequence[str]
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

    @property
    def has_forgotten_events(self) -> bool:
        return self.begun < self.events_since


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of an item. `event` decided it; None: no event did."""

    state: AnswerState
    sentence: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    event: NamingEvent | None = None


def verdict(explanation: Explanation, evidence: Evidence) -> Verdict:
    """Return what became of an item: of its present content where that is known, else of the newest that was reported."""
    events = [event for event in evidence.naming.events if not event.is_rejected]
    newest = next((event for event in events if _is_present(event, explanation)), None)
    if evidence.rejections and (newest is None or newest.timestamp <= evidence.rejections[0].rejected_at):
        return _rejected(evidence.rejections[0])
    if newest is not None:
        return _fate(newest, explanation, evidence)
    if events:
        return _replaced(events[0], explanation, evidence)
    return _unreported(explanation, evidence)


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
    return Verdict(state="rejected", sentence=f"rejected at {_at(item.rejected_at)}: {item.reason}{again}", facts=facts)


def _replaced(event: NamingEvent, explanation: Explanation, evidence: Evidence) -> Verdict:
    """Return the verdict on an item of which events name only earlier contents."""
    fate = _fate(event, explanation, evidence)
    state: AnswerState = "waiting" if explanation.facts.get("reason") == "min_age" else "replaced"
    sentence = (
        f"event {event.id} of {_at(event.timestamp)} names an earlier content, which was {fate.state} and has been"
        f" replaced since; of the present one: {explanation.sentence}{_health(evidence.watcher)}"
    )
    return Verdict(state=state, sentence=sentence, facts=fate.facts, event=event)


def _fate(event: NamingEvent, explanation: Explanation, evidence: Evidence) -> Verdict:
    """Return what became of an event that names the item."""
    runs = [run for run in evidence.runs if run.event_id == event.id]
    waiting = evidence.queued.get(event.id, ())
    state, what = _state_of(runs, waiting) or _unconsumed(event, runs, evidence)
    parts = [f"reported in event {event.id} at {_at(event.timestamp)}", what]
    if state != "failed":
        failed = [run for run in runs if run.state == _FAILED]
        parts += [f"its run {run.run_id} of {run.dag_id} failed{_because(run.reason)}" for run in failed]
    if waiting and state != "queued":
        parts.append(f"it waits in the queue of {', '.join(waiting)}")
    cleaning = evidence.cleanings.get(event.id)
    if explanation.state == "missing":
        parts += sentences_of_missing(cleaning, event.place, event.files)
    else:
        parts += sentences_of_staying(cleaning)
    if explanation.state == "unknown":
        parts.append(explanation.sentence)
    facts = {**_losses([run for run in runs if run.state == _SUCCESS])}
    if waiting:
        facts["queued_for"] = list(waiting)
    return Verdict(state=state, sentence="; ".join(parts), facts=facts, event=event)


def _losses(loaded: Sequence[ConsumedBy]) -> Mapping[str, Any]:
    """Return what runs that succeeded left out: bad records, a skipped file is one, and the sentences that name them."""
    if not loaded:
        return {}
    warnings = [run.warning for run in loaded if run.warning]
    return {"bad_records": sum(run.bad_records or 0 for run in loaded), **({"warnings": warnings} if warnings else {})}


def _state_of(runs: Sequence[ConsumedBy], waiting: Sequence[str]) -> tuple[AnswerState, str] | None:
    """Return the state of an event that runs have or queues hold; None: neither."""
    by_state = {run.state: run for run in runs}
    if (run := by_state.get(_SUCCESS)) is not None:
        bad = f" and left out {run.bad_records} bad records of all its items" if run.bad_records else ""
        return "loaded", f"run {run.run_id} of {run.dag_id} has succeeded with it{bad}"
    if (run := by_state.get(_RUNNING)) is not None:
        return "running", f"run {run.run_id} of {run.dag_id} is running with it"
    if (run := by_state.get(_FAILED)) is not None:
        return "failed", f"run {run.run_id} of {run.dag_id} failed{_because(run.reason)}"
    if (run := by_state.get(_QUEUED)) is not None:
        return "queued", f"run {run.run_id} of {run.dag_id} has it and waits to start{_because(run.reason)}"
    if waiting:
        return "queued", f"it waits in the queue of {', '.join(waiting)} for the rest of the schedule"
    return None


def _unconsumed(event: NamingEvent, runs: Sequence[ConsumedBy], evidence: Evidence) -> tuple[AnswerState, str]:
    """Return the state of an event that no run has and no queue holds any more."""
    if deleted := [run for run in runs if run.state == DELETED]:
        return "dequeued", f"its run {deleted[-1].run_id} of {deleted[-1].dag_id} was deleted"
    if after := [each for each in evidence.deletions if each.at >= event.timestamp]:
        return "dequeued", f"taken off the queue of {after[0].target} by {after[0].actor} at {_at(after[0].at)}"
    if event.timestamp < evidence.runs_since:
        removed = (
            f"runs that ended before {_at(evidence.runs_since)} have been removed (settings.store.run_retention_days)"
        )
        return "unknown", f"no run that is kept has it, and {removed}"
    if not evidence.scheduled:
        return "reported", "no job is scheduled on its asset"
    jobs = ", ".join(evidence.scheduled)
    if evidence.filtered:
        its = ", ".join(evidence.filtered)
        return (
            "reported",
            f"no schedule took it when it was reported; by now {jobs} waits for its asset ({its} with a `where`)",
        )
    return "reported", f"no job was scheduled on its asset when it was reported; by now {jobs} is"


def _unreported(explanation: Explanation, evidence: Evidence) -> Verdict:
    """Return the verdict on an item that no event names."""
    state: AnswerState = explanation.state
    sentence, facts = explanation.sentence, {**explanation.facts}
    removed = f"events before {_at(evidence.events_since)} have been removed (settings.store.event_retention_days)"
    if evidence.has_forgotten_events:
        facts["forgotten_before"] = evidence.events_since.isoformat()
    if state == "waiting":
        sentence += _health(evidence.watcher)
        facts |= _hindrance(evidence.watcher)
    elif state == "missing":
        sentence += "; no event names it" + (f", and {removed}" if evidence.has_forgotten_events else "")
    elif state == "reported":
        state, why = _passed_over(explanation, evidence, removed)
        sentence += f"; no event names it{why}"
    return Verdict(state=state, sentence=sentence, facts=facts)


def _passed_over(explanation: Explanation, evidence: Evidence, removed: str) -> tuple[AnswerState, str]:
    """Return the state, and the rest of the sentence, for an item that the watcher is done with and no event names."""
    written = None if explanation.written is None else datetime.fromisoformat(explanation.written)
    if evidence.has_forgotten_events and (written is None or written < evidence.events_since):
        return "unknown", f", and {removed}"
    horizon = explanation.facts.get("horizon")
    if horizon is not None and written is not None and written >= evidence.begun:
        words = (
            "it was there before the watcher's start, was passed over by a rewind, or appeared too late for `lateness`"
        )
        return "unknown", f", and which files are older than {horizon} is not remembered: {words}"
    return "before_start", ": it was there before the watcher's start, or was passed over by a rewind"


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


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def _at(moment: datetime) -> str:
    return moment.replace(microsecond=0, tzinfo=None).isoformat() + "Z"
