"""What became of an item, judged from what its trigger says and what the store has."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from store.catalog.watchers import WatcherRow
from store.detection.rejections import RejectedRow
from store.detection.starts import WatcherPast
from store.fates import Fate, of_item, of_run
from store.features.clean_source.removed_files import RemovedFile
from store.features.explain.explanations import QueueDeletion
from store.features.explain.item_search import NamingEvent, NamingEvents
from store.runs.fates import ConsumedBy, EventAtJob, JobRecord
from triggers.explanations import Explanation
from watcher.features.explain.beginning import Beginning
from watcher.features.explain.verdicts import Evidence, verdict
from watcher.features.reconcile.comparison import moment

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
VERSION = {"key": "a", "etag": "2"}


def watcher(**values: Any) -> WatcherRow:
    usual: dict[str, Any] = {
        "name": "files",
        "asset_id": 1,
        "asset": "landing",
        "trigger": "s3.new_files",
        "state": "running",
        "paused": False,
        "owner": None,
        "position_version": 1,
        "watermark": None,
        "last_poll_at": NOON,
        "lag_at_poll": 0,
        "up_to_now": None,
        "up_to_version": None,
        "last_event_at": None,
        "error": None,
        "error_count": 0,
        "seen_at": NOON,
    }
    return WatcherRow(**{**usual, **values})


def event(number: int = 7, etag: str = "2", **values: Any) -> NamingEvent:
    content = {"key": "a", "etag": etag}
    return NamingEvent(
        asset_id=1, id=number, timestamp=NOON, content=content, is_rejected=values.get("is_rejected", False)
    )


def run(state: str, number: int = 7, dag_id: str = "load", bad: int | None = None) -> EventAtJob:
    consumer = ConsumedBy(
        id=1,
        event_id=number,
        dag_id=dag_id,
        run_id=f"run_{state}",
        state=state,
        reason="no disk" if state == "failed" else None,
        warning=None,
        bad_records=bad,
        end_date=None,
    )
    return EventAtJob(dag_id=dag_id, fate=of_run(state), run=consumer)


def queued(dag_id: str) -> EventAtJob:
    return EventAtJob(dag_id=dag_id, fate=Fate.QUEUED)


def forgotten(fate: Fate, dag_id: str = "load") -> EventAtJob:
    """A run of the job had it, and was removed; `unknown` was recorded by an older release."""
    run_id = None if fate is Fate.UNKNOWN else "run_gone"
    ended_at = None if fate is Fate.UNKNOWN else NOON
    return EventAtJob(dag_id=dag_id, fate=fate, forgotten_run=run_id, ended_at=ended_at, forgotten_at=NOON + DAY)


def taken_off(dag_id: str, by: str | None) -> EventAtJob:
    return EventAtJob(dag_id=dag_id, fate=Fate.DROPPED, dropped_at=NOON + MINUTE, dropped_by=by)


def evidence(
    *events: NamingEvent, at: tuple[EventAtJob, ...] = (), of: WatcherRow | None = None, **values: Any
) -> Evidence:
    unrecorded_to = values.get("unrecorded_to", 0)
    deletions = values.get("deletions", ())
    deleted_at = max((each.at for each in deletions), default=None)
    return Evidence(
        watcher=of or watcher(),
        naming=NamingEvents(events=events, has_more=False),
        at_jobs={7: at},
        deletions=deletions,
        rejections=values.get("rejections", ()),
        scheduled=[JobRecord(dag_id, unrecorded_to, deleted_at) for dag_id in values.get("scheduled", ("load",))],
        filtered=values.get("filtered", ()),
        begun=NOON - 2 * DAY,
        events_since=values.get("events_since", NOON - 90 * DAY),
        runs_since=values.get("runs_since", NOON - 90 * DAY),
        removed=values.get("removed", {}),
        beginning=values.get("beginning"),
    )


def began(*, passed_before: int | None, kept_since: int | None) -> Beginning:
    past = WatcherPast(names={"files"}, moves=())
    return Beginning(
        past=past, asset_ids=[1], begun=NOON - 2 * DAY, passed_before=passed_before, kept_since=kept_since, doubts=()
    )


def said(state: Any = "reported", **values: Any) -> Explanation:
    return Explanation(state=state, sentence="the trigger says so", name="a", version=VERSION, **values)


DELETION = QueueDeletion(asset_id=1, at=NOON + MINUTE, actor="ann", target="load")
GONE = Explanation(state="missing", sentence="the source does not have it", name="a")
HOUR_AGO = "2026-11-26T11:00:00Z"
HANDLED_ID = Explanation(state="reported", sentence="it is handled", name=5, in_ranges=True)
ROW = Explanation(state="waiting", sentence="the next poll reports it", name=5)
LOCKED = Explanation(state="waiting", sentence="pid 7 locks it", name=5, facts={"reason": "lock"})
ROW_EVENT = NamingEvent(asset_id=1, id=7, timestamp=NOON, content=None, is_rejected=False)
REJECTED = RejectedRow(
    key='"a"', version="1", column_name=None, code="", reason="no UTF-8", rejected_at=NOON + MINUTE, retry_at=None
)


@pytest.mark.parametrize(
    ("explanation", "known", "state", "words"),
    [
        (said(), evidence(event(), at=(run("success", bad=3),)), "loaded", "left out 3 bad records"),
        (
            said(),
            evidence(event(), at=(run("success"), run("failed", dag_id="copy"))),
            "failed",
            "copy failed: no disk; run run_success of load has succeeded",
        ),
        (said(), evidence(event(), at=(run("success"), run("running", dag_id="copy"))), "running", "has succeeded"),
        (said(), evidence(event(), at=(run("success"), queued("copy"))), "queued", "in the queue of copy"),
        (said(), evidence(event(), at=(queued("copy"), forgotten(Fate.LOADED))), "queued", "loaded it by run run_gone"),
        (said(), evidence(event(), at=(forgotten(Fate.LOADED),)), "loaded", "was removed at 2026-11-27T12:00:00Z"),
        (said(), evidence(event(), at=(forgotten(Fate.FAILED),)), "failed", "run run_gone of load failed"),
        (said(), evidence(event(), at=(forgotten(Fate.UNKNOWN),)), "unknown", "was not recorded"),
        (
            said(),
            evidence(event(), at=(run("success", dag_id="copy"),)),
            "loaded",
            "the schedule of load did not take it",
        ),
        (said(), evidence(event(), at=(taken_off("load", "ann"),)), "dropped", "by ann at 2026-11-26T12:01:00Z"),
        (said(), evidence(event(), at=(taken_off("load", None),)), "dropped", "when the job was removed"),
        (said(), evidence(event(), at=(run("running"),)), "running", "run_running"),
        (said(), evidence(event(), at=(run("failed"),)), "failed", "no disk"),
        (said(), evidence(event(), at=(run("queued"),)), "queued", "waits to start"),
        (said(), evidence(event(), at=(queued("load"),)), "queued", "waits in the queue of load"),
        (said(), evidence(event(), scheduled=()), "reported", "no job is scheduled"),
        (said(), evidence(event()), "not_taken", "no job was scheduled on its asset when"),
        (said(), evidence(event(), filtered=("load",)), "not_taken", "no schedule took it when it was reported"),
        (said(), evidence(event(), at=(run("deleted"),)), "dropped", "was deleted"),
        (
            said(),
            evidence(event(), deletions=(DELETION,), unrecorded_to=7),
            "dropped",
            "by ann at 2026-11-26T12:01:00Z",
        ),
        (said(), evidence(event(), deletions=(DELETION,), unrecorded_to=6), "not_taken", "no job was scheduled"),
        (said(), evidence(rejections=(REJECTED,)), "rejected", "no UTF-8"),
        (said(), evidence(event(is_rejected=True), rejections=(REJECTED,)), "rejected", "no UTF-8"),
        (
            said("waiting"),
            evidence(event(etag="1"), at=(run("success"),)),
            "replaced",
            "earlier content, which was loaded",
        ),
        (
            said("waiting", facts={"reason": "min_age"}),
            evidence(event(etag="1"), at=(run("success"),)),
            "waiting",
            "earlier content",
        ),
        (GONE, evidence(event(etag="1"), at=(run("success"),)), "loaded", "does not have it any more"),
        (said("missing"), evidence(), "missing", "no event names it"),
        (said("missing"), evidence(events_since=NOON), "missing", "have been removed"),
        (said("not_matched"), evidence(), "not_matched", "the trigger says so"),
        (said("not_matched"), evidence(event(), at=(run("success"),)), "loaded", "run_success"),
        (said("before_start"), evidence(), "before_start", "the trigger says so"),
        (said("waiting"), evidence(of=watcher(paused=True)), "waiting", "the watcher is paused"),
        (
            said("waiting"),
            evidence(of=watcher(state="failing", error="orders was locked")),
            "waiting",
            "orders was locked",
        ),
        (said(), evidence(), "before_start", "before the watcher's start"),
        (
            said(written="2026-11-26T13:00:00Z"),
            evidence(events_since=NOON),
            "before_start",
            "before the watcher's start",
        ),
        (said(written="2026-11-26T11:00:00Z"), evidence(events_since=NOON), "past_retention", "event_retention_days"),
        (said(written="2026-11-26T11:00:00Z", facts={"horizon": "H"}), evidence(), "unknown", "older than H"),
        (said(written="2026-11-23T11:00:00Z", facts={"horizon": "H"}), evidence(), "before_start", "was there before"),
        (said(), evidence(event(), runs_since=NOON + DAY, unrecorded_to=7), "unknown", "run_retention_days"),
        (said(), evidence(event(), runs_since=NOON + DAY), "not_taken", "no job was scheduled"),
        (
            said(written=HOUR_AGO),
            evidence(beginning=began(passed_before=None, kept_since=None)),
            "not_reported",
            "a rewind",
        ),
        (
            said(written=HOUR_AGO, facts={"horizon": "H"}),
            evidence(beginning=began(passed_before=moment(NOON - DAY), kept_since=None)),
            "not_reported",
            "older than H",
        ),
        (
            said(written=HOUR_AGO),
            evidence(beginning=began(passed_before=moment(NOON), kept_since=None)),
            "before_start",
            "passed over",
        ),
        (
            said(written=HOUR_AGO),
            evidence(beginning=began(passed_before=None, kept_since=moment(NOON))),
            "past_retention",
            "event_retention_days",
        ),
        (
            said(written=HOUR_AGO),
            evidence(event(etag="1"), at=(run("success"),), beginning=began(passed_before=None, kept_since=None)),
            "not_reported",
            "only its earlier contents are named",
        ),
        (
            said(written=HOUR_AGO),
            evidence(event(etag="1"), beginning=began(passed_before=moment(NOON), kept_since=None)),
            "before_start",
            "passed over",
        ),
        (
            HANDLED_ID,
            evidence(beginning=began(passed_before=5, kept_since=None)),
            "not_reported",
            "`watcher rewind files --to 4`",
        ),
        (HANDLED_ID, evidence(beginning=began(passed_before=6, kept_since=None)), "before_start", "passed over"),
        (said("unknown"), evidence(event(), at=(run("success"),)), "loaded", "the trigger says so"),
        (ROW, evidence(ROW_EVENT, at=(run("success"),)), "replaced", "earlier content, which was loaded"),
        (LOCKED, evidence(ROW_EVENT, at=(run("success"),)), "loaded", "run_success"),
        (LOCKED, evidence(), "waiting", "pid 7"),
        (said("unknown"), evidence(), "unknown", "the trigger says so"),
    ],
)
def test_each_state_has_its_evidence(explanation: Explanation, known: Evidence, state: str, words: str) -> None:
    judged = verdict(explanation, known)
    assert judged.state == state, judged.sentence
    assert judged.event is None or judged.state in {
        "replaced",
        "waiting",
        of_item(each.fate for each in judged.at_jobs),
    }
    assert words in judged.sentence


def test_an_event_of_an_older_release_lacks_members_and_still_names_the_content() -> None:
    judged = verdict(
        Explanation(state="reported", sentence="", name="a", version={**VERSION, "inode": 5}),
        evidence(event(), at=(run("success"),)),
    )
    assert judged.state == "loaded"


@pytest.mark.parametrize("explanation", [GONE, said("unknown")])
def test_a_file_that_was_cleaned_away_was_loaded_before(explanation: Explanation) -> None:
    file, removed = replace(event(), files=1), {7: {0: RemovedFile(Fate.CLEANED)}}
    known = evidence(file, at=(run("success"), queued("copy")), removed=removed)
    judged = verdict(explanation, known)
    assert {each.dag_id: each.fate for each in judged.at_jobs} == {"load": Fate.CLEANED, "copy": Fate.CLEANED}
    assert judged.state == Fate.CLEANED
    assert "`clean_source` has deleted it" in judged.sentence or explanation is not GONE
    assert verdict(explanation, evidence(file, at=(run("success"),), removed=removed)).state == Fate.CLEANED
    assert verdict(said(), evidence(file, at=(run("success"),), removed=removed)).state == Fate.LOADED


def test_a_run_that_went_without_a_file_is_not_said_to_have_loaded_it() -> None:
    file, removed = replace(event(), files=1), {7: {0: RemovedFile(Fate.CLEANED)}}
    with_it, without = run("success", dag_id="load"), run("success", dag_id="later")
    without = replace(without, is_left_out=True)
    sentence = verdict(GONE, evidence(file, at=(with_it, without), removed=removed)).sentence
    assert "of load has succeeded with it" in sentence
    assert "of later goes without it" in sentence


@pytest.mark.parametrize("explanation", [GONE, said("unknown")])
def test_a_file_that_was_moved_is_loaded_from_its_new_place_by_jobs_that_wait_for_it(explanation: Explanation) -> None:
    file, removed = replace(event(), files=1), {7: {0: RemovedFile(Fate.MOVED, "/done/a")}}
    judged = verdict(explanation, evidence(file, at=(run("success"), queued("copy")), removed=removed))
    assert {each.dag_id: each.fate for each in judged.at_jobs} == {"load": Fate.MOVED, "copy": Fate.QUEUED}
    assert judged.facts["moved_to"] == "/done/a"
    assert "`clean_source` has moved it to /done/a" in judged.sentence or explanation is not GONE
    assert judged.state == Fate.QUEUED
