"""Judges what became of an item, from what its trigger says and what the store has (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from store.catalog.watchers import WatcherRow
from store.detection.item_search import NamingEvent, NamingEvents
from store.detection.rejections import RejectedRow
from store.runs.explanations import ConsumedBy, QueueDeletion
from triggers.explanations import Explanation

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
_SUCCESS, _RUNNING, _QUEUED, _FAILED, _DELETED = "success", "running", "queued", "failed", "deleted"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known of an item beside its trigger's explanation. `runs` and `queued` are of the named events."""

    watcher: WatcherRow
    naming: NamingEvents
    runs: Sequence[ConsumedBy]
    queued: Mapping[int, Sequence[str]]
    deletions: Sequence[QueueDeletion]
    """Who took events off the queues since the newest of the events."""
    rejections: Sequence[RejectedRow]
    scheduled: Sequence[str]
    """The jobs that wait for the asset's events now."""
    forgotten_before: datetime | None
    """Events before this moment may have been removed; None: none of the watcher was."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of an item. `event` decided it; None: no event did."""

    state: AnswerState
    sentence: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    event: NamingEvent | None = None


def verdict(explanation: Explanation, evidence: Evidence) -> Verdict:
    """Return what became of an item: of its present content where events name contents, else of the newest that was reported."""
    events = [event for event in evidence.naming.events if not event.is_rejected]
    present = [event for event in events if _is_present(event, explanation)]
    newest = next(iter(present), None)
    if evidence.rejections and (newest is None or newest.timestamp <= evidence.rejections[0].rejected_at):
        return _rejected(evidence.rejections[0])
    if newest is not None:
        return _fate(newest, explanation, evidence)
    if events:
        return _replaced(events[0], explanation, evidence)
    return _unreported(explanation, evidence)


def _is_present(event: NamingEvent, explanation: Explanation) -> bool:
    """Return whether an event names the content that the item has now. Events of older releases have fewer members."""
    if explanation.version is None or event.content is None:
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
    others = [run for run in runs if run.state == _FAILED] if state != "failed" else []
    parts += [f"its run {run.run_id} of {run.dag_id} failed{_because(run.reason)}" for run in others]
    if waiting and state != "queued":
        parts.append(f"it waits in the queue of {', '.join(waiting)}")
    if explanation.state == "missing":
        parts.append("the source does not have it any more")
    loaded = [run for run in runs if run.state == _SUCCESS]
    facts: dict[str, Any] = {"bad_records": sum(run.bad_records or 0 for run in loaded)} if loaded else {}
    warnings = [run.warning for run in loaded if run.warning]
    facts |= {"warnings": warnings} if warnings else {}
    facts |= {"queued_for": list(waiting)} if waiting else {}
    return Verdict(state=state, sentence="; ".join(parts), facts=facts, event=event)


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
    if deleted := [run for run in runs if run.state == _DELETED]:
        return "dequeued", f"its run {deleted[-1].run_id} of {deleted[-1].dag_id} was deleted"
    if after := [each for each in evidence.deletions if each.at >= event.timestamp]:
        return "dequeued", f"taken off the queue of {after[0].target} by {after[0].actor} at {_at(after[0].at)}"
    if not evidence.scheduled:
        return "reported", "no job is scheduled on its asset"
    jobs = ", ".join(evidence.scheduled)
    return "reported", f"no job was scheduled on its asset when it was reported; by now {jobs} is"


def _unreported(explanation: Explanation, evidence: Evidence) -> Verdict:
    """Return the verdict on an item that no event names."""
    facts, forgotten = {**explanation.facts}, evidence.forgotten_before
    if forgotten is not None:
        facts["forgotten_before"] = forgotten.isoformat()
    if evidence.naming.has_more:
        facts["searched"] = "the newest events only"
    state: AnswerState = explanation.state
    sentence = explanation.sentence
    match explanation.state:
        case "waiting":
            sentence += _health(evidence.watcher)
            facts |= _hindrance(evidence.watcher)
        case "missing" if forgotten is not None:
            sentence += f"; no event names it, and events before {_at(forgotten)} have been removed"
        case "missing":
            sentence += "; no event names it"
        case "reported" if _may_be_forgotten(explanation, evidence):
            state = "unknown"
            removed = (
                "only the newest events were searched"
                if forgotten is None
                else (f"events before {_at(forgotten)} have been removed (settings.store.event_retention_days)")
            )
            sentence += f"; no event that is kept names it, and {removed}"
        case "reported":
            state = "before_start"
            sentence += "; no event names it: it was there before the watcher's start, or was passed over by a rewind"
    return Verdict(state=state, sentence=sentence, facts=facts)


def _may_be_forgotten(explanation: Explanation, evidence: Evidence) -> bool:
    """Return whether an event may have named the item and be gone, or not have been searched."""
    if evidence.naming.has_more:
        return True
    if evidence.forgotten_before is None:
        return False
    return explanation.written is None or datetime.fromisoformat(explanation.written) < evidence.forgotten_before


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


def forgotten_before(now: datetime, retention: timedelta, begun: datetime) -> datetime | None:
    """Return the moment before which events of an asset may have been removed; None if it is not older than that."""
    moment = now - retention
    return moment if begun < moment else None
