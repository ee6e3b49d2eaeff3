from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from asset_job import (
    Alias,
    Fenced,
    Forbidden,
    NoContext,
    NoRetry,
    Unreachable,
    run,
)
from asset_job.background import token_life
from asset_job.client import Client
from asset_job.run_context import context_path, submitted_run
from tests.effort import PATIENCE
from tests.unit.sdk.execution_server import ALIAS, LANDING, ORDERS, ExecutionServer, event, refused, token
from watcher.submit.sdk_archive import sdk_archive


def finished_as(daemon: ExecutionServer) -> list[str]:
    return [finish["state"] for finish in daemon.finished]


# The claim


def test_the_claim_fills_the_fields_of_the_run(daemon: ExecutionServer) -> None:
    with submitted_run(daemon.context(connections={"lake": {"type": "s3", "region": "eu"}})) as r:
        assert (r.dag_id, r.run_id, r.task_id, r.map_index, r.try_number) == ("load_orders", "manual__1", "load", -1, 1)
        assert r.connections["lake"]["region"] == "eu"
        assert r.now().utcoffset() == timedelta(0)


def test_every_call_carries_the_token_and_every_write_a_key_of_its_own(daemon: ExecutionServer) -> None:
    daemon.claim = {"outlets": [ORDERS]}
    context = daemon.context()
    with submitted_run(context) as r:
        r.asset_store.set("a", 1)
        r.asset_store.get("a")
        r.asset_store.delete("a")
    assert {request.headers["authorization"] for request in daemon.requests} == {f"Bearer {context['token']}"}
    keys = [request.headers.get("idempotency-key") for request in daemon.requests if request.method != "GET"]
    assert None not in keys
    assert len(set(keys)) == 4


def test_a_second_claimer_exits_with_75_and_reports_nothing(
    daemon: ExecutionServer, caplog: pytest.LogCaptureFixture
) -> None:
    with submitted_run(daemon.context()):
        with pytest.raises(SystemExit) as ended, submitted_run(daemon.context()):
            pytest.fail("entered")
        assert ended.value.code == 75
        assert "try 1 is claimed by another process" in caplog.text
        assert daemon.finished == []


def test_a_claim_whose_response_was_lost_is_repeated_with_the_same_key(daemon: ExecutionServer) -> None:
    daemon.faults = [0]
    with submitted_run(daemon.context()):
        pass
    first, second = [request for request in daemon.requests if request.path == "tries/claim"]
    assert first.body == second.body
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


# The end


def test_leaving_the_block_raises_when_the_try_is_fenced(daemon: ExecutionServer) -> None:
    daemon.refusals["tries/finish"] = refused(409, "fenced", "Try 2 was superseded by try 3.")
    with pytest.raises(Fenced, match=r"Try 2 was superseded by try 3."), submitted_run(daemon.context()):
        pass


def test_a_failure_that_cannot_be_reported_does_not_hide_the_jobs_error(
    daemon: ExecutionServer, caplog: pytest.LogCaptureFixture
) -> None:
    daemon.refusals["tries/finish"] = refused(409, "fenced", "Try 2 was superseded by try 3.")
    with pytest.raises(ZeroDivisionError), submitted_run(daemon.context()):
        1 / 0  # noqa: B018
    assert "the failure could not be reported: Try 2 was superseded by try 3." in caplog.text


@pytest.mark.parametrize("error", [NoRetry("a.csv has no header"), RuntimeError("FileInvalid: a.csv has no header")])
def test_a_final_failure_asks_for_no_retry(daemon: ExecutionServer, error: Exception) -> None:
    with pytest.raises(type(error)), submitted_run(daemon.context()):
        raise error
    assert [(finish["state"], finish["retry"]) for finish in daemon.finished] == [("failed", False)]


def test_any_other_failure_leaves_the_retry_to_the_daemon(daemon: ExecutionServer) -> None:
    with pytest.raises(ZeroDivisionError), submitted_run(daemon.context()):
        1 / 0  # noqa: B018
    assert "retry" not in daemon.finished[0]


@pytest.mark.parametrize(("number", "reported"), [(0, None), (3, 3)])
def test_a_success_reports_its_bad_records_if_there_are_any(
    daemon: ExecutionServer, number: int, reported: int | None
) -> None:
    with submitted_run(daemon.context()) as r:
        r.bad_records = number
    assert [finish.get("bad_records") for finish in daemon.finished] == [reported]


# Past events


def test_past_events_are_fetched_when_they_are_used(daemon: ExecutionServer) -> None:
    daemon.claim = {"inlets": [LANDING]}
    daemon.past_events = {"landing": [event(number, "landing", "2026-11-20T09:00:00Z") for number in range(5)]}
    with submitted_run(daemon.context()) as r:
        past = r.inlet_events["landing"]
        assert not any(request.path.startswith("asset-events") for request in daemon.requests), "it is lazy"
        assert [past[-1].id, past[-2].id, past[0].id, past[3].id, len(past)] == [4, 3, 0, 3, 5]
    asked = [request.query for request in daemon.requests if request.path == "asset-events/by-asset"]
    assert asked == [
        {"ascending": "false", "limit": "1", "name": "landing"},
        {"ascending": "false", "limit": "2", "name": "landing"},
        {"ascending": "true", "limit": "1", "name": "landing"},
        {"ascending": "true", "limit": "4", "name": "landing"},
        {"ascending": "true", "name": "landing"},
    ]


def test_past_events_are_requested_by_name_by_uri_and_through_an_alias(daemon: ExecutionServer) -> None:
    daemon.claim = {"inlets": [LANDING, ALIAS]}
    with submitted_run(daemon.context()) as r:
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


# Being without the daemon for a while


@pytest.mark.parametrize("faults", [[503], [500, 502], [0], [0, 503, 429]])
def test_a_write_is_repeated_with_one_key_until_it_is_answered(daemon: ExecutionServer, faults: list[int]) -> None:
    daemon.claim = {"outlets": [ORDERS]}
    with submitted_run(daemon.context()) as r:
        daemon.faults = list(faults)
        r.asset_store.set("a", 1)
        assert r.asset_store.get("a") == 1
    puts = [request for request in daemon.requests if request.method == "PUT"]
    assert len(puts) == len(faults) + 1
    assert len({request.headers["idempotency-key"] for request in puts}) == 1


def test_a_refused_call_is_not_repeated(daemon: ExecutionServer) -> None:
    daemon.refusals["store/"] = refused(409, "fenced", "no")
    with submitted_run(daemon.context()) as r, pytest.raises(Fenced):
        r.task_store.set("a", 1)
    assert len([request for request in daemon.requests if request.method == "PUT"]) == 1


def test_a_call_that_is_never_answered_raises_the_reason(daemon: ExecutionServer) -> None:
    client = Client(daemon.url, token("first"))
    daemon.faults = [503]
    with pytest.raises(Unreachable, match=rf"did not answer at {daemon.url}/execution: HTTP 503"):
        client.call("POST", "tries/token", body={}, patience=0)


def test_a_proxy_of_the_environment_is_not_used(daemon: ExecutionServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    with submitted_run(daemon.context()):
        pass
    assert finished_as(daemon) == ["success"]


# The token


def test_a_token_from_a_response_is_used_from_then_on(daemon: ExecutionServer) -> None:
    context = daemon.context()
    first, second = context["token"], daemon.token()
    with submitted_run(context) as r:
        daemon.refreshed_token = second
        r.task_store.get("a")
        r.task_store.get("b")
    assert [request.headers["authorization"] for request in daemon.requests] == [
        f"Bearer {token}" for token in (first, first, second, second)
    ]


def test_a_token_is_renewed_while_the_job_computes(daemon: ExecutionServer) -> None:
    context = daemon.context()
    context["token"] = daemon.token(timedelta(seconds=1))
    with submitted_run(context):
        for _ in range(2):
            assert daemon.tokens_given.acquire(timeout=PATIENCE)
    asked = [request.headers["authorization"] for request in daemon.requests if request.path == "tries/token"]
    assert asked[1] not in {asked[0], f"Bearer {context['token']}"}


def test_an_expired_token_is_rejected(daemon: ExecutionServer) -> None:
    context = daemon.context()
    context["token"] = daemon.token(timedelta(minutes=-5))
    with pytest.raises(Forbidden, match="Invalid token: Signature has expired"), submitted_run(context):
        pytest.fail("entered")


def test_a_superseded_try_writes_nothing_and_reports_no_success(daemon: ExecutionServer) -> None:
    with pytest.raises(Fenced, match="try 1 is "), submitted_run(daemon.context()) as r:  # noqa: PT012 - its end raises
        daemon.supersede()
        with pytest.raises(Fenced):
            r.task_store.set("a", 1)
    assert (daemon.task_entries, daemon.finished) == ({}, [])


@pytest.mark.parametrize(
    ("text", "life"), [(token("a", 3600), 3600), ("opaque", 900), ("a.b.c", 900), ("a.bnVsbA.c", 900)]
)
def test_the_lifetime_of_a_token_is_read_from_its_payload(text: str, life: float) -> None:
    assert token_life(text) == life


# The context


def test_the_context_is_found_by_argument_before_environment() -> None:
    environ = {"ASSET_JOB_CONTEXT": "/env"}
    assert context_path(["job.py", "--run-context", "/arg"], environ) == Path("/arg")
    assert context_path(["job.py", "--run-context=/arg"], environ) == Path("/arg")
    assert context_path(["job.py", "x"], environ) == Path("/env")
    assert context_path(["job.py", "--run-context"], {}) is None


def test_a_program_that_was_started_by_hand_raises_no_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASSET_JOB_CONTEXT", raising=False)
    with pytest.raises(NoContext, match=r"there is no run context: start the job through Asset Watcher"):
        run()


# The package itself


def test_a_job_runs_with_the_sdk_alone(daemon: ExecutionServer, tmp_path: Path) -> None:
    """As under spark-submit: the archive is on the path, and no package is installed."""
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
    assert daemon.task_entries["a"]["value"] == 1
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
