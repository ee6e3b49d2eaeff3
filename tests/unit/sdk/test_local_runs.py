"""Runs in a local folder: its files. test_run_contract.py tests what holds for every run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from asset_job import AssetJobError, Fenced, Forbidden, run
from asset_job.sources.request import items_of
from tests.unit.sdk.execution_server import ExecutionServer
from watcher.submit.sdk_archive import sdk_archive


@pytest.fixture(autouse=True)
def started_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ASSET_JOB_CONTEXT", "ASSET_JOB_LOCAL", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)


def content(path: Path) -> Any:
    return json.loads(path.read_text())


# The files


def test_missing_members_of_an_event_are_filled_in(tmp_path: Path) -> None:
    events = {"landing": [{"extra": {"files": [{"path": "/a.json"}]}}, {"extra": {"files": [{"path": "/b.json"}]}}, {}]}
    (tmp_path / "events.json").write_text(json.dumps(events))
    (tmp_path / "job.json").write_text('{"dag_id": "load_orders", "inlets": [{"name": "landing", "uri": "s3://l/o"}]}')
    with run(local=tmp_path) as r:
        assert [file["path"] for file in r.triggering_asset_events.files()] == ["/a.json", "/b.json"]
        assert [one.id for one in r.triggering_asset_events["landing"]] == [1, 2, 3]
        assert {(one.asset, one.uri) for one in r.triggering_asset_events["landing"]} == {("landing", "s3://l/o")}
        assert r.triggering_asset_events["landing"][0].timestamp <= r.now()
        assert [one.id for one in r.inlet_events["landing"]] == [1, 2, 3]
        assert (r.dag_id, r.task_id, r.map_index) == ("load_orders", "job", -1)


def test_markers_and_manifests_are_not_among_the_files_to_read(tmp_path: Path) -> None:
    data, marker = {"extra": {"files": [{"path": "/a.csv"}]}}, {"extra": {"files": [{"path": "/_DONE"}], "last": True}}
    (tmp_path / "events.json").write_text(json.dumps({"landing": [data, marker]}))
    with run(local=tmp_path) as r:
        of_run = r.triggering_asset_events
        assert of_run.files() == [{"path": "/a.csv"}]
        assert [event.extra["files"][0]["path"] for event in of_run["landing"]] == ["/a.csv", "/_DONE"]
        assert [file.path for file in items_of(of_run, ())] == ["/a.csv"]
        assert items_of(of_run["landing"][1:], ()) == []


def test_without_any_file_there_are_no_events_and_every_asset_is_an_outlet(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "for the run"
    with run(local=str(folder)) as r:
        assert dict(r.triggering_asset_events) == {}
        assert r.connections == {}
        r.asset_store["orders"].set("a", 1)
        r.asset_store["s3://lake/x"].set("b", "ü")
        r.outlet_events["orders"].extra = {"rows": 3}
        r.task_store.set("t", [1])
    assert content(folder / "finish.json") == {
        "state": "success",
        "outlet_events": [{"asset": "orders", "extra": {"rows": 3}}],
        "message": "",
    }
    assert content(folder / "asset_store.json") == {
        "orders": {"a": {"value": 1, "version": 1}},
        "s3://lake/x": {"b": {"value": "ü", "version": 1}},
    }
    assert content(folder / "task_store.json")["t"]["value"] == [1]


def test_an_author_can_write_entries_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "asset_store.json").write_text('{"orders": {"total_runs": {"value": 4}}}')
    with run(local=tmp_path) as r, r.asset_store["orders"].transaction() as t:
        t["seen"] = t.get("total_runs")
        t.increment("total_runs")
    assert {key: entry["value"] for key, entry in content(tmp_path / "asset_store.json")["orders"].items()} == {
        "total_runs": 5,
        "seen": 4,
    }


def test_what_the_run_of_a_partition_says_is_that_of_the_job_file(tmp_path: Path) -> None:
    said = {"partition_key": "2026-11-20", "partition_complete": True, "redelivered": True}
    (tmp_path / "job.json").write_text(json.dumps(said))
    with run(local=tmp_path) as r:
        assert (r.partition_key, r.partition_complete, r.late, r.redelivered) == ("2026-11-20", True, False, True)


def test_connections_are_those_of_the_job_file(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text('{"connections": {"lake": {"type": "s3", "region": "eu"}}}')
    with run(local=tmp_path) as r:
        assert r.connections["lake"]["region"] == "eu"


def test_a_job_with_declared_outlets_has_no_other_outlets(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text('{"outlets": ["orders"]}')
    with run(local=tmp_path) as r:
        r.asset_store.set("only", 1)
        with pytest.raises(Forbidden, match=r"customers is not among the inlets and outlets in .*job\.json"):
            r.asset_store["customers"].get("a")
        with pytest.raises(AssetJobError, match="customers is not an outlet"):
            r.outlet_events["customers"].extra = {}


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("events.json", "{", "Expecting property name"),
        ("events.json", "[]", "the file is not an object"),
        ("events.json", '{"landing": {}}', "landing is not a list"),
        ("events.json", '{"landing": [1]}', "an event of landing is not an object"),
        ("events.json", '{"landing": [{"extra": []}]}', "`extra` is not an object"),
        ("events.json", '{"landing": [{"extra": {"files": {}}}]}', "files is not a list"),
        ("events.json", '{"landing": [{"extra": {"ranges": [3]}}]}', r"a range must be \[first id, last id\]"),
        ("events.json", '{"landing": [{"timestamp": "2026-11-20T09:00:00"}]}', "not ISO text with a time zone"),
        ("events.json", '{"landing": [{"timestamp": "soon"}]}', "Invalid isoformat string: 'soon'"),
        ("events.json", '{"landing": [{"timestamp": 5}]}', "the timestamp 5 is not ISO text"),
        (
            "job.json",
            '{"logical_date": "2026-11-20"}',
            "the logical_date '2026-11-20' is not ISO text with a time zone",
        ),
        ("job.json", '{"conf": []}', "conf is not an object"),
        ("events.json", '{"landing": [{"asset": "landing"}]}', "`asset` is not an object"),
        ("events.json", '{"landing": [{"asset": {}}]}', "without them they are filled in"),
        ("job.json", '{"outlet": []}', "outlet is not among its members, which are dag_id, "),
        ("job.json", '{"outlets": "orders"}', "outlets is not a list"),
        ("job.json", '{"outlets": [{"nam": "orders"}]}', "is not an inlet or outlet: write a name"),
        ("job.json", '{"dag_id": 7}', "dag_id is not a text"),
        ("job.json", '{"redelivered": 1}', "redelivered is not true or false"),
        ("job.json", '{"worker_backend": {}}', "worker_backend has no path"),
        ("run.json", '{"number": "one"}', "delete the file to begin with the first run"),
    ],
)
def test_a_file_that_cannot_be_used_raises_a_sentence_that_names_it(
    tmp_path: Path, name: str, text: str, why: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(AssetJobError, match=rf"{name} cannot be used: .*{why}") as raised, run(local=tmp_path):
        pytest.fail("entered")
    assert "see 'Local runs' in docs/writing-a-job.md" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ['{"orders": []}', '{"orders": {"a": 1}}', '{"orders": {"a": {"version": "1"}}}'])
def test_a_store_file_that_cannot_be_used_is_reported_and_not_changed(tmp_path: Path, text: str) -> None:
    (tmp_path / "asset_store.json").write_text(text)
    with pytest.raises(AssetJobError, match=r"asset_store\.json cannot be used: "), run(local=tmp_path) as r:
        r.asset_store["orders"].set("a", 1)
    assert (tmp_path / "asset_store.json").read_text() == text


# One run after the other


def test_a_success_is_followed_by_a_new_run_and_a_failure_by_the_next_try(tmp_path: Path) -> None:
    seen = []
    for error in (None, RuntimeError, RuntimeError, None, None):
        try:
            with run(local=tmp_path) as r:
                seen.append((r.run_id, r.try_number, r.task_store.get("left")))
                with r.asset_store["orders"].transaction() as t:
                    t.increment("total_runs")
                r.task_store.set("left", r.try_number)
                if error:
                    raise error
        except RuntimeError:
            assert content(tmp_path / "finish.json")["state"] == "failed"
    assert seen == [
        ("local__1", 1, None),
        ("local__2", 1, None),
        ("local__2", 2, 1),
        ("local__2", 3, 2),
        ("local__3", 1, None),
    ]
    assert content(tmp_path / "asset_store.json")["orders"]["total_runs"]["value"] == 3


def test_a_run_that_was_killed_is_retried(tmp_path: Path) -> None:
    killed = run(local=tmp_path)
    killed.__enter__()
    with run(local=tmp_path) as r:
        assert (r.run_id, r.try_number) == ("local__1", 2)
        with pytest.raises(Fenced, match=r"try 1 of local__1 was superseded by another run in .*"):
            killed.task_store.set("a", 1)
    assert killed.run_id == "local__1"


def test_a_run_that_has_ended_cannot_write(tmp_path: Path) -> None:
    with run(local=tmp_path) as r:
        r.asset_store["orders"].set("a", 1)
    for write in (
        lambda: r.asset_store["orders"].set("a", 2),
        r.task_store.clear,
        lambda: r.asset_store["orders"].delete("a"),
    ):
        with pytest.raises(Fenced, match="try 1 of local__1 has ended"):
            write()
    with pytest.raises(Fenced), r.asset_store["orders"].transaction() as t:
        t["a"] = 3
    assert r.asset_store["orders"].get("a") == 1


# Which folder, and when


def test_the_folder_of_the_environment_is_used_if_the_program_names_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSET_JOB_LOCAL", str(tmp_path / "environment"))
    with run():
        pass
    with run(local=tmp_path / "argument"):
        pass
    assert {path.parent.name for path in tmp_path.rglob("finish.json")} == {"environment", "argument"}


def test_a_job_that_the_daemon_started_ignores_the_local_folder(
    daemon: ExecutionServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program may keep the folder that is meant for its author's machine."""
    monkeypatch.setenv("ASSET_JOB_CONTEXT", str(tmp_path / "context.json"))
    monkeypatch.setenv("ASSET_JOB_LOCAL", str(tmp_path / "local"))
    for local in (None, tmp_path / "local"):
        daemon.again()
        (tmp_path / "context.json").write_text(json.dumps(daemon.context()))
        with run(local=local):
            pass
    assert len(daemon.finished) == 2
    assert not (tmp_path / "local").exists()


def test_the_archive_runs_a_job_alone(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(
        "from asset_job import run\nwith run() as r:\n    r.asset_store['orders'].set('try', r.try_number)\n"
    )
    subprocess.run(
        [sys.executable, "-S", "-W", "error", "job.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(sdk_archive(tmp_path)), "ASSET_JOB_LOCAL": "folder"},
        check=True,
    )
    assert content(tmp_path / "folder" / "finish.json")["state"] == "success"
