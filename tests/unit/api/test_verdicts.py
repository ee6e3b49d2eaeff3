"""What became of an item, judged from what its trigger says and what the store has."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from store.catalog.watchers import WatcherRow
from store.detection.item_search import NamingEvent, NamingEvents
from store.detection.rejections import RejectedRow
from store.runs.explanations import ConsumedBy, QueueDeletion
from triggers.explanations import Explanation
from watcher.serving.api.verdicts import Evidence, verdict

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


def run(state: str, number: int = 7, dag_id: str = "load", bad: int | None = None) -> ConsumedBy:
    return ConsumedBy(
        event_id=number,
        dag_id=dag_id,
        run_id=f"run_{state}",
        state=state,
        reason="no disk" if state == "failed" else None,
        warning=None,
        bad_records=bad,
        end_date=None,
    )


def evidence(
    *events: NamingEvent,
    runs: tuple[ConsumedBy, ...] = (),
    has_more: bool = False,
    of: WatcherRow | None = None,
    **values: Any,
) -> Evidence:
    return Evidence(
        watcher=of or watcher(),
        naming=NamingEvents(events=events, has_more=has_more),
        runs=runs,
        queued=values.get("queued", {}),
        deletions=values.get("deletions", ()),
        rejections=values.get("rejections", ()),
        scheduled=values.get("scheduled", ("load",)),
        filtered=values.get("filtered", ()),
        begun=NOON - 2 * DAY,
        events_since=values.get("events_since", NOON - 90 * DAY),
        runs_since=values.get("runs_since", NOON - 90 * DAY),
    )


def said(state: Any = "reported", **values: Any) -> Explanation:
    return Explanation(state=state, sentence="the trigger says so", name="a", version=VERSION, **values)


GONE = Explanation(state="missing", sentence="the source does not have it", name="a")
ROW = Explanation(state="waiting", sentence="the next poll reports it", name=5)
LOCKED = Explanation(state="waiting", sentence="pid 7 locks it", name=5, facts={"reason": "lock"})
ROW_EVENT = NamingEvent(asset_id=1, id=7, timestamp=NOON, content=None, is_rejected=False)
REJECTED = RejectedRow(
    key='"a"', version="1", column_name=None, code="", reason="no UTF-8", rejected_at=NOON + MINUTE, retry_at=None
)


@pytest.mark.parametrize(
    ("explanation", "known", "state", "words"),
    [
        (said(), evidence(event(), runs=(run("success", bad=3),)), "loaded", "left out 3 bad records"),
        (
            said(),
            evidence(event(), runs=(run("success"), run("failed", dag_id="copy"))),
            "loaded",
            "copy failed: no disk",
        ),
        (said(), evidence(event(), runs=(run("running"),)), "running", "run_running"),
        (said(), evidence(event(), runs=(run("failed"),)), "failed", "no disk"),
        (said(), evidence(event(), runs=(run("queued"),)), "queued", "waits to start"),
        (said(), evidence(event(), queued={7: ["load"]}), "queued", "waits in the queue of load"),
        (said(), evidence(event(), scheduled=()), "reported", "no job is scheduled"),
        (said(), evidence(event()), "reported", "no job was scheduled on its asset when"),
        (said(), evidence(event(), filtered=("load",)), "reported", "no schedule took it when it was reported"),
        (said(), evidence(event(), runs=(run("deleted"),)), "dequeued", "was deleted"),
        (
            said(),
            evidence(event(), deletions=(QueueDeletion(at=NOON + MINUTE, actor="ann", target="load"),)),
            "dequeued",
            "by ann at 2026-11-26T12:01:00Z",
        ),
        (said(), evidence(rejections=(REJECTED,)), "rejected", "no UTF-8"),
        (said(), evidence(event(is_rejected=True), rejections=(REJECTED,)), "rejected", "no UTF-8"),
        (
            said("waiting"),
            evidence(event(etag="1"), runs=(run("success"),)),
            "replaced",
            "earlier content, which was loaded",
        ),
        (
            said("waiting", facts={"reason": "min_age"}),
            evidence(event(etag="1"), runs=(run("success"),)),
            "waiting",
            "earlier content",
        ),
        (GONE, evidence(event(etag="1"), runs=(run("success"),)), "loaded", "does not have it any more"),
        (said("missing"), evidence(), "missing", "no event names it"),
        (said("missing"), evidence(events_since=NOON), "missing", "have been removed"),
        (said("not_matched"), evidence(), "not_matched", "the trigger says so"),
        (said("not_matched"), evidence(event(), runs=(run("success"),)), "loaded", "run_success"),
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
        (said(written="2026-11-26T11:00:00Z"), evidence(events_since=NOON), "unknown", "event_retention_days"),
        (said(written="2026-11-26T11:00:00Z", facts={"horizon": "H"}), evidence(), "unknown", "older than H"),
        (said(written="2026-11-23T11:00:00Z", facts={"horizon": "H"}), evidence(), "before_start", "was there before"),
        (said(), evidence(event(), runs_since=NOON + DAY), "unknown", "run_retention_days"),
        (said("unknown"), evidence(event(), runs=(run("success"),)), "loaded", "the trigger says so"),
        (ROW, evidence(ROW_EVENT, runs=(run("success"),)), "replaced", "earlier content, which was loaded"),
        (LOCKED, evidence(ROW_EVENT, runs=(run("success"),)), "loaded", "run_success"),
        (LOCKED, evidence(), "waiting", "pid 7"),
        (said("unknown"), evidence(), "unknown", "the trigger says so"),
    ],
)
def test_each_state_has_its_evidence(explanation: Explanation, known: Evidence, state: str, words: str) -> None:
    judged = verdict(explanation, known)
    assert judged.state == state, judged.sentence
    assert words in judged.sentence


def test_an_event_of_an_older_release_lacks_members_and_still_names_the_content() -> None:
    judged = verdict(
        Explanation(state="reported", sentence="", name="a", version={**VERSION, "inode": 5}),
        evidence(event(), runs=(run("success"),)),
    )
    assert judged.state == "loaded"
