from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.sdk.execution_server import ALIAS, LANDING, ORDERS, ExecutionServer, event, refused, token
from watcher.sdk.asset_job import (
    Alias,
    Asset,
    AssetJobError,
    AssetJobSkip,
    Fenced,
    Metadata,
    NoContext,
    Run,
    Unreachable,
    run,
)
from watcher.sdk.asset_job.background import token_life
from watcher.sdk.asset_job.client import Client
from watcher.sdk.asset_job.context import context_path
from watcher.submit.sdk_archive import sdk_archive


def finished_as(daemon: ExecutionServer) -> list[str]:
    return [finish["state"] for finish in daemon.finished]


# The claim


def test_a_run_knows_what_it_is(daemon: ExecutionServer) -> None:
    with Run(daemon.context(connections={"lake": {"type": "s3", "region": "eu"}})) as r:
        assert (r.dag_id, r.run_id, r.task_id, r.map_index, r.try_number) == ("load_orders", "manual__1", "load", -1, 2)
        assert r.connections["lake"]["region"] == "eu"
        assert r.now().utcoffset() == timedelta(0)


def test_every_call_carries_the_token_and_every_write_a_key_of_its_own(daemon: ExecutionServer) -> None:
    daemon.claim = {"outlets": [ORDERS]}
    with Run(daemon.context()) as r:
        r.asset_store.set("a", 1)
        r.asset_store.get("a")
        r.asset_store.delete("a")
    assert {request.headers["authorization"] for request in daemon.requests} == {f"Bearer {token('first')}"}
    keys = [request.headers.get("idempotency-key") for request in daemon.requests if request.method != "GET"]
    assert None not in keys
    assert len(set(keys)) == 4


def test_a_second_claimer_exits_with_75_and_reports_nothing(
    daemon: ExecutionServer, caplog: pytest.LogCaptureFixture
) -> None:
    with Run(daemon.context()):
        with pytest.raises(SystemExit) as ended, Run(daemon.context()):
            pytest.fail("entered")
        assert ended.value.code == 75
        assert "The try is claimed by another process." in caplog.text
        assert daemon.finished == []


def test_a_claim_whose_answer_was_lost_is_repeated_as_the_same(daemon: ExecutionServer) -> None:
    daemon.faults = [0]
    with Run(daemon.context()):
        pass
    first, second = [request for request in daemon.requests if request.path == "tries/claim"]
    assert first.body == second.body
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


# The end


def test_leaving_the_block_reports_success(daemon: ExecutionServer) -> None:
    with Run(daemon.context()):
        assert daemon.finished == []
    assert daemon.finished == [{"state": "success", "outlet_events": [], "message": ""}]


def test_an_exception_reports_failure_and_goes_on(daemon: ExecutionServer) -> None:
    daemon.claim = {"outlets": [ORDERS]}
    with pytest.raises(ZeroDivisionError), Run(daemon.context()) as r:
        r.outlet_events["orders"].extra = {"row_count": 1 / 0}
    message = "ZeroDivisionError: division by zero"
    assert daemon.finished == [{"state": "failed", "outlet_events": [], "message": message}]


@pytest.mark.parametrize(("code", "state"), [(0, "success"), (None, "success"), (3, "failed"), ("no", "failed")])
def test_sys_exit_is_a_success_without_a_code(daemon: ExecutionServer, code: Any, state: str) -> None:
    with pytest.raises(SystemExit), Run(daemon.context()):
        sys.exit(code)
    assert finished_as(daemon) == [state]


def test_a_long_message_is_cut(daemon: ExecutionServer) -> None:
    with pytest.raises(RuntimeError), Run(daemon.context()):
        raise RuntimeError("x" * 100_000)
    assert len(daemon.finished[0]["message"]) == 2000


def test_skipping_ends_the_block_quietly(daemon: ExecutionServer) -> None:
    with Run(daemon.context()) as r:
        r.skip("nothing new")
    assert daemon.finished == [{"state": "skipped", "outlet_events": [], "message": "nothing new"}]


def test_skipping_by_raising_is_the_same(daemon: ExecutionServer) -> None:
    with Run(daemon.context()):
        raise AssetJobSkip
    assert finished_as(daemon) == ["skipped"]


def test_a_success_that_is_fenced_is_an_error(daemon: ExecutionServer) -> None:
    daemon.refusals["tries/finish"] = refused(409, "fenced", "Try 2 was superseded by try 3.")
    with pytest.raises(Fenced, match=r"Try 2 was superseded by try 3."), Run(daemon.context()):
        pass


def test_a_failure_that_cannot_be_reported_does_not_hide_the_jobs_error(
    daemon: ExecutionServer, caplog: pytest.LogCaptureFixture
) -> None:
    daemon.refusals["tries/finish"] = refused(409, "fenced", "Try 2 was superseded by try 3.")
    with pytest.raises(ZeroDivisionError), Run(daemon.context()):
        1 / 0  # noqa: B018
    assert "the failure could not be reported: Try 2 was superseded by try 3." in caplog.text


# What triggered the run


def test_events_are_a_mapping_with_the_oldest_first(daemon: ExecutionServer) -> None:
    late, early = "2026-11-20T09:00:00.5Z", "2026-11-20T09:00:00+00:00"
    daemon.claim = {
        "triggering_asset_events": {
            "landing": [event(3, "landing", late), event(2, "landing", early), event(1, "landing", early)],
            "inbox": [event(4, "inbox", early)],
        }
    }
    with Run(daemon.context()) as r:
        events = r.triggering_asset_events
        assert list(events) == ["landing", "inbox"]
        assert len(events) == 2
        assert [event.id for event in events["landing"]] == [1, 2, 3]
        assert events["landing"][0].timestamp == datetime(2026, 11, 20, 9, tzinfo=UTC)
        assert (events["inbox"][0].asset, events["inbox"][0].uri) == ("inbox", "file:///data/inbox")
        assert events["inbox"][0].source_watcher == "inbox_files"
        assert events["inbox"][0].extra == {}
        with pytest.raises(KeyError):
            events["orders"]


def test_files_ranges_and_rows_come_in_the_order_of_their_events(daemon: ExecutionServer) -> None:
    first, second, third = (f"2026-11-20T09:00:0{second}Z" for second in (1, 2, 3))
    daemon.claim = {
        "triggering_asset_events": {
            "landing": [
                event(1, "landing", first, files=[{"key": "a"}, {"key": "b"}]),
                event(5, "landing", third, files=[{"key": "d"}]),
            ],
            "inbox": [event(3, "inbox", second, files=[{"key": "c"}])],
            "customers": [event(4, "customers", second, ranges=[[11, 12], [14, 14]], rows=[{"id": 11}])],
        }
    }
    with Run(daemon.context()) as r:
        events = r.triggering_asset_events
        assert [file["key"] for file in events.files()] == ["a", "b", "c", "d"]
        assert [file["key"] for file in events.files("landing")] == ["a", "b", "d"]
        assert events.files("orders") == []
        assert events.ranges() == [(11, 12), (14, 14)]
        assert events.rows() == [{"id": 11}]


# Outlet events


def test_outlet_events_are_sent_with_the_success(daemon: ExecutionServer) -> None:
    daemon.claim = {"inlets": [LANDING], "outlets": [ORDERS, ALIAS]}
    with Run(daemon.context()) as r:
        r.outlet_events["orders"].extra = {"row_count": 3, "at": datetime(2026, 1, 1, tzinfo=UTC)}
        alias = r.outlet_events["daily_outputs"]
        alias.add("s3://lake/day=1", {"n": 1})
        alias.add(Asset(uri="s3://lake/day=2", name="day_2"))
        alias.add("landing")
    assert daemon.finished[0]["outlet_events"] == [
        {"asset": "orders", "extra": {"row_count": 3, "at": "2026-01-01T00:00:00+00:00"}},
        {"alias": "daily_outputs", "asset": {"name": "", "uri": "s3://lake/day=1"}, "extra": {"n": 1}},
        {"alias": "daily_outputs", "asset": {"name": "day_2", "uri": "s3://lake/day=2"}, "extra": {}},
        {"alias": "daily_outputs", "asset": {"name": "landing", "uri": "s3://landing/orders"}, "extra": {}},
    ]


def test_metadata_says_the_same_in_one_word(daemon: ExecutionServer) -> None:
    daemon.claim = {"outlets": [ORDERS, ALIAS]}
    with Run(daemon.context()) as r:
        r.outlet_events["orders"].extra = {"rows": 1}
        r.outlet_events.add(Metadata("orders", {"files": 2}))
        r.outlet_events.add(Metadata("s3://lake/x", {"n": 1}, alias="daily_outputs"))
        with pytest.raises(AssetJobError, match="nobodys is no outlet"):
            r.outlet_events.add(Metadata("nobodys"))
    assert daemon.finished[0]["outlet_events"] == [
        {"asset": "orders", "extra": {"rows": 1, "files": 2}},
        {"alias": "daily_outputs", "asset": {"name": "", "uri": "s3://lake/x"}, "extra": {"n": 1}},
    ]


# Past events


def test_past_events_are_a_sequence_that_fetches_what_is_looked_at(daemon: ExecutionServer) -> None:
    daemon.claim = {"inlets": [LANDING, ALIAS]}
    daemon.past_events = [event(number, "landing", f"2026-11-20T09:0{number}:00Z", n=number) for number in range(5)]
    with Run(daemon.context()) as r:
        past = r.inlet_events["landing"]
        assert not any(request.path.startswith("asset-events") for request in daemon.requests), "it is lazy"
        assert (past[-1].extra["n"], past[-2].extra["n"], past[0].extra["n"], past[3].extra["n"]) == (4, 3, 0, 3)
        asked = [request.query for request in daemon.requests if request.path == "asset-events/by-asset"]
        assert asked[0] == {"ascending": "false", "limit": "1", "name": "landing"}
        assert asked[3]["limit"] == "4"
        assert [one.id for one in past] == [0, 1, 2, 3, 4]
        assert [one.id for one in past[-2:]] == [3, 4]
        assert len(past) == 5
        with pytest.raises(IndexError, match="only 5 events"):
            past[5]
        with pytest.raises(IndexError):
            past[-6]


def test_past_events_are_asked_for_by_name_by_uri_and_through_an_alias(daemon: ExecutionServer) -> None:
    daemon.claim = {"inlets": [LANDING, ALIAS]}
    with Run(daemon.context()) as r:
        for asset in ("landing", "s3://landing/orders", "daily_outputs", Alias(name="daily_outputs")):
            assert list(r.inlet_events[asset]) == []
    asked = [(one.path, one.query) for one in daemon.requests if one.path.startswith("asset-events")]
    alias = ("asset-events/by-asset-alias", {"name": "daily_outputs", "ascending": "true"})
    assert asked == [
        ("asset-events/by-asset", {"name": "landing", "ascending": "true"}),
        ("asset-events/by-asset", {"uri": "s3://landing/orders", "ascending": "true"}),
        alias,
        alias,
    ]


def test_an_event_names_the_run_that_made_it(daemon: ExecutionServer) -> None:
    source = {"dag_id": "x", "run_id": "r", "data_interval_start": None, "data_interval_end": None}
    made = {
        **event(1, "orders", "2026-11-20T09:00:00Z"),
        "source_dag_run": source,
        "source_task_instance": {"task_id": "t"},
    }
    daemon.claim = {"triggering_asset_events": {"orders": [made]}}
    with Run(daemon.context()) as r:
        (one,) = r.triggering_asset_events["orders"]
        assert one.source_dag_run == source
        assert one.source_task_instance == {"task_id": "t"}


def test_an_event_of_what_is_no_outlet_is_refused(daemon: ExecutionServer) -> None:
    daemon.claim = {"inlets": [LANDING], "outlets": [ORDERS]}
    with Run(daemon.context()) as r:
        with pytest.raises(AssetJobError, match="landing is no outlet of this job: add it to the job's `outlets`"):
            r.outlet_events["landing"].extra = {}
        with pytest.raises(AssetJobError, match="orders is an asset, no alias"):
            r.outlet_events["orders"].add("s3://x")


# Being without the daemon for a while


@pytest.mark.parametrize("faults", [[503], [500, 502], [0], [0, 503, 429]])
def test_a_write_is_repeated_under_one_key_until_it_is_answered(daemon: ExecutionServer, faults: list[int]) -> None:
    daemon.claim = {"outlets": [ORDERS]}
    with Run(daemon.context()) as r:
        daemon.faults = list(faults)
        r.asset_store.set("a", 1)
        assert r.asset_store.get("a") == 1
    puts = [request for request in daemon.requests if request.method == "PUT"]
    assert len(puts) == len(faults) + 1
    assert len({request.headers["idempotency-key"] for request in puts}) == 1


def test_what_the_daemon_refuses_is_not_repeated(daemon: ExecutionServer) -> None:
    daemon.refusals["store/"] = refused(409, "fenced", "no")
    with Run(daemon.context()) as r, pytest.raises(Fenced):
        r.task_store.set("a", 1)
    assert len([request for request in daemon.requests if request.method == "PUT"]) == 1


def test_patience_ends_with_the_reason(daemon: ExecutionServer) -> None:
    client = Client(daemon.url, token("first"))
    daemon.faults = [503]
    with pytest.raises(Unreachable, match=rf"did not answer at {daemon.url}/execution: HTTP 503"):
        client.call("POST", "tries/token", body={}, patience=0)


def test_a_proxy_of_the_environment_is_not_used(daemon: ExecutionServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    with Run(daemon.context()):
        pass
    assert finished_as(daemon) == ["success"]


# The token


def test_a_token_renewed_by_an_answer_is_used_from_then_on(daemon: ExecutionServer) -> None:
    with Run(daemon.context()) as r:
        daemon.refreshed_token = token("second")
        r.task_store.get("a")
        r.task_store.get("b")
    assert [request.headers["authorization"] for request in daemon.requests] == [
        f"Bearer {token(name)}" for name in ("first", "first", "second", "second")
    ]


def test_a_token_is_renewed_while_the_job_computes(daemon: ExecutionServer) -> None:
    with Run(daemon.context(token=token("short", life=0.6))):
        for _ in range(2):
            assert daemon.tokens_given.acquire(timeout=30)
    asked = [request for request in daemon.requests if request.path == "tries/token"]
    assert [request.headers["authorization"] for request in asked[:2]] == [
        f"Bearer {token('short', life=0.6)}",
        f"Bearer {token('renewed', life=0.6)}",
    ]


@pytest.mark.parametrize(
    ("text", "life"), [(token("a", 3600), 3600), ("opaque", 900), ("a.b.c", 900), ("a.bnVsbA.c", 900)]
)
def test_the_life_of_a_token_is_read_from_it(text: str, life: float) -> None:
    assert token_life(text) == life


# The context


def test_the_context_is_found_by_argument_before_environment() -> None:
    environ = {"ASSET_JOB_CONTEXT": "/env"}
    assert context_path(["job.py", "--run-context", "/arg"], environ) == Path("/arg")
    assert context_path(["job.py", "--run-context=/arg"], environ) == Path("/arg")
    assert context_path(["job.py", "x"], environ) == Path("/env")
    assert context_path(["job.py", "--run-context"], {}) is None


def test_a_program_that_was_started_by_hand_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASSET_JOB_CONTEXT", raising=False)
    with pytest.raises(NoContext, match=r"there is no run context: start the job through Asset Watcher"):
        run()


# The package itself


def test_a_job_runs_with_the_sdk_alone(daemon: ExecutionServer, tmp_path: Path) -> None:
    """As spark-submit does it: the archive on the path, nothing of ours, nothing installed."""
    (tmp_path / "job.py").write_text(
        "from asset_job import run\nwith run() as r:\n    r.task_store.set('a', r.try_number)\n"
    )
    (tmp_path / "context.json").write_text(json.dumps(daemon.context()))
    subprocess.run(
        [sys.executable, "-S", "-W", "error", "job.py", "--run-context", "context.json"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(sdk_archive(tmp_path))},
        check=True,
    )
    assert daemon.task_entries["a"]["value"] == 2
    assert finished_as(daemon) == ["success"]


def test_importing_the_sdk_imports_the_standard_library_only(tmp_path: Path) -> None:
    look = (
        "import sys; before = {*sys.modules}; import asset_job, asset_job.backends; print(*({*sys.modules} - before))"
    )
    seen = subprocess.run(
        [sys.executable, "-c", look],
        env={"PYTHONPATH": str(sdk_archive(tmp_path))},
        check=True,
        capture_output=True,
        text=True,
    )
    assert {name.partition(".")[0] for name in seen.stdout.split()} - sys.stdlib_module_names == {"asset_job"}
