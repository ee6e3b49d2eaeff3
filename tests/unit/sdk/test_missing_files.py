"""A job that misses files: what it asks, what it leaves out, and what it reports with its failure."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from asset_job.errors import AssetJobSkip, FileUnreadable, NoRetry, gone_file
from asset_job.events import TriggeringAssetEvents
from asset_job.missing import MOST_PATHS, without_superseded
from asset_job.run_context import local_run, submitted_run
from tests.unit.sdk.execution_server import LANDING, ExecutionServer, event, refused

OLD, NEW = "s3://landing/a.json", "s3://landing/b.json"


def file(key: str) -> Mapping[str, Any]:
    return {"bucket": "landing", "key": key, "size": 1, "etag": "1"}


def landing(daemon: ExecutionServer, *files: Mapping[str, Any]) -> None:
    events = [event(1, "landing", "2026-01-31T00:00:00Z", files=[*files])]
    daemon.claim |= {"inlets": [LANDING], "triggering_asset_events": {"landing": events}}


def missing(daemon: ExecutionServer) -> list[Mapping[str, Any]]:
    [finish] = daemon.finished
    return list(finish.get("missing", []))


@pytest.mark.parametrize(
    ("error", "gone"),
    [
        (FileUnreadable(f"{OLD} was deleted since it was detected; put it back"), (OLD, False)),
        (FileUnreadable(f"{OLD} was overwritten since it was detected; put it back"), (OLD, True)),
        (
            RuntimeError(f"Job aborted: asset_job.errors.FileUnreadable: {OLD} was deleted since it was detected;"),
            (OLD, False),
        ),
        (FileUnreadable(f"{OLD} may not be read with this connection"), None),
        (RuntimeError(f"{OLD} was deleted since it was detected"), (OLD, False)),
        (FileUnreadable("/in/a b.json was deleted since it was detected; put it back"), ("/in/a b.json", False)),
        (RuntimeError(f"{OLD} was deleted"), None),
    ],
)
def test_the_file_that_is_gone_is_named_by_the_error(error: Exception, gone: tuple[str, bool] | None) -> None:
    assert gone_file(error) == gone


def test_a_failure_names_the_file_that_is_missing(daemon: ExecutionServer) -> None:
    landing(daemon, file("a.json"), file("b.json"))
    with pytest.raises(FileUnreadable), submitted_run(daemon.context()):
        raise FileUnreadable(f"{OLD} was deleted since it was detected; put it back")
    assert missing(daemon) == [{"path": "a.json", "overwritten": False}]
    assert [request.body for request in daemon.requests if request.path == "superseded"] == [
        {"paths": ["a.json", "b.json"]}
    ]


def test_any_failure_names_what_newer_versions_supersede(daemon: ExecutionServer) -> None:
    landing(daemon, file("a.json"), file("b.json"))
    daemon.refusals["superseded"] = (200, {"superseded": ["b.json"]})
    with pytest.raises(ZeroDivisionError), submitted_run(daemon.context()):
        1 / 0  # noqa: B018
    assert missing(daemon) == [{"path": "b.json", "overwritten": True}]


def test_many_files_are_asked_for_a_part_at_a_time_and_only_if_one_is_missing(daemon: ExecutionServer) -> None:
    landing(daemon, *(file(f"{number}.json") for number in range(MOST_PATHS + 1)))
    daemon.refusals["superseded"] = (200, {"superseded": ["7.json"]})
    with pytest.raises(ZeroDivisionError), submitted_run(daemon.context()):
        1 / 0  # noqa: B018
    assert missing(daemon) == []
    daemon.again()
    with pytest.raises(FileUnreadable), submitted_run(daemon.context()):
        raise FileUnreadable("s3://landing/8.json was deleted since it was detected; put it back")
    assert daemon.finished[-1]["missing"] == [
        {"path": "8.json", "overwritten": False},
        {"path": "7.json", "overwritten": True},
    ]
    asked = [request.body["paths"] for request in daemon.requests if request.path == "superseded"]
    assert [len(paths) for paths in asked] == [MOST_PATHS, 1]


def test_a_file_of_a_folder_that_was_written_again_is_missing_whatever_the_job_says(
    daemon: ExecutionServer, tmp_path: Path
) -> None:
    same, other, deleted = (tmp_path / name for name in ("same", "other", "deleted"))
    same.write_text("x")
    other.write_text("x")
    os.utime(same, (1_700_000_000, 1_700_000_000))
    described = {"size": 1, "last_modified": "2023-11-14T22:13:20Z"}
    landing(daemon, *({"path": str(path), **described} for path in (same, other, deleted)))
    with pytest.raises(RuntimeError), submitted_run(daemon.context()):
        raise RuntimeError("status.json has another size")
    assert missing(daemon) == [{"path": str(other), "overwritten": True}]


def test_nothing_is_asked_after_a_final_failure_or_a_skip_or_without_files(daemon: ExecutionServer) -> None:
    landing(daemon, file("a.json"))
    with pytest.raises(NoRetry), submitted_run(daemon.context()):
        raise NoRetry("a.json has no header")
    daemon.again()
    with submitted_run(daemon.context()):
        raise AssetJobSkip
    daemon.again()
    daemon.claim["triggering_asset_events"] = {}
    with pytest.raises(ZeroDivisionError), submitted_run(daemon.context()):
        1 / 0  # noqa: B018
    assert "superseded" not in {request.path for request in daemon.requests}
    assert [finish.get("missing", []) for finish in daemon.finished] == [[], [], []]


def test_a_daemon_that_does_not_know_the_question_changes_nothing(daemon: ExecutionServer, tmp_path: Path) -> None:
    landing(daemon, file("a.json"))
    daemon.refusals["superseded"] = refused(404, "not_found", "There is no such path.")
    with pytest.raises(ZeroDivisionError), submitted_run(daemon.context()):
        1 / 0  # noqa: B018
    assert missing(daemon) == []
    with local_run(tmp_path) as r:
        assert r.leave_out_superseded() == set()


def test_what_is_superseded_is_left_out_of_all_that_names_files(daemon: ExecutionServer) -> None:
    landing(daemon, file("a.json"), file("b.json"))
    daemon.refusals["superseded"] = (200, {"superseded": ["a.json"]})
    with submitted_run(daemon.context()) as r:
        before = r.triggering_asset_events
        assert r.leave_out_superseded() == {"a.json"}
        events = r.triggering_asset_events
        assert events.files() == events["landing"][0].data_files == [file("b.json")]
        assert events.superseded == [file("a.json")]
        for given in (before, before["landing"], before.files()):
            left = without_superseded(given, {"a.json"})
            names = [
                each["key"] for item in left for each in (item.data_files if hasattr(item, "data_files") else [item])
            ]
            assert names == ["b.json"]
        assert without_superseded([(1, 5)], {"a.json"}) == [(1, 5)]


def test_what_the_daemon_left_out_is_counted() -> None:
    events = TriggeringAssetEvents({}, {"superseded": [file("a.json")]})
    assert (events.superseded, events.cleaned) == ([file("a.json")], ())
