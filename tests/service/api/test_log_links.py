"""A stored value leads to the log lines of its write, and a growing log can be followed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import structlog
from sqlalchemy import update

from store.base import AssetStoreWriterKind, Writer
from store.database.schema import task_try
from store.errors import Conflict
from store.keys import AssetRef
from store.state.entries import EntryChange
from tests.contract.submitters import ended
from tests.effort import PATIENCE
from tests.plugins.cluster_server import ADDRESS, running_cluster
from tests.plugins.remote_cluster import RemoteCluster
from tests.service.api.application import Api, without_pages
from tests.unit.submit.plain import make_submission, workspace
from watcher.host import logs
from watcher.host.logs.paths import watcher_logs
from watcher.serving.api.routes.logs import LogQuery, answer

log = structlog.get_logger()
LOGS = "/api/v2/watchers/landing_files/logs"


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


async def written_by_the_watcher(api: Api, write_id: str, *, fails: bool = False) -> None:
    """Commit a watermark like the triggerer."""
    writer = Writer(kind=AssetStoreWriterKind.WATCHER, watcher="landing_files", write_id=write_id)
    words = {"watcher": "landing_files", "write_id": write_id}
    async with api.database.transaction() as session:
        asset = AssetRef(id=api.asset_ids["landing"], name="landing", uri="s3://bucket/landing")
        change = EntryChange(asset=asset, key="landing_files.watermark", value="1", writer=writer)
        await api.context.entries.apply(session, change)
        log.info("store.writing", **words)
        if fails:
            raise Conflict("somebody else was first")
    log.info("store.written", **words)


async def test_a_watchers_entry_links_to_the_exact_log_line(api: Api) -> None:
    for n in range(300):
        log.info("watcher.polled", watcher="landing_files", n=n)
        if n == 150:
            await written_by_the_watcher(api, "w150")
    entry = await api.get(api.store("landing", "landing_files.watermark"))

    response = await api.client.get(entry["last_updated_by"]["log_url"])

    assert response.headers["content-type"] == "application/x-ndjson"
    lines = records(response.text)
    assert len(lines) == 201
    assert (lines[100]["event"], lines[100]["write_id"]) == ("store.writing", "w150")
    assert (lines[101]["event"], lines[99]["n"], lines[102]["n"]) == ("store.written", 150, 151)
    assert not any("rolled_back" in line for line in lines)
    few = records((await api.client.get(LOGS, params={"around": "w150", "before": 1, "after": 2})).text)
    assert [line["event"] for line in few] == ["watcher.polled", "store.writing", "store.written", "watcher.polled"]


async def test_without_a_write_the_last_lines_are_returned(api: Api) -> None:
    for n in range(300):
        log.info("watcher.polled", watcher="landing_files", n=n)

    lines = records((await api.client.get(LOGS)).text)

    assert [line["n"] for line in lines] == list(range(100, 300))


async def test_a_write_that_was_rolled_back_is_shown_as_such(api: Api) -> None:
    with pytest.raises(Conflict):
        await written_by_the_watcher(api, "lost", fails=True)
    await written_by_the_watcher(api, "kept")

    lines = records((await api.client.get(LOGS)).text)

    assert [(line["write_id"], line["event"], line.get("rolled_back")) for line in lines] == [
        ("lost", "store.writing", True),
        ("kept", "store.writing", None),
        ("kept", "store.written", None),
    ]


async def test_a_write_without_a_logged_confirmation_is_not_shown_as_rolled_back(api: Api) -> None:
    """The process died right after COMMIT, so only the history has the confirmation."""
    await written_by_the_watcher(api, "w1")
    [path] = (api.context.logs_directory / "watchers" / "landing_files").iterdir()
    path.write_text(path.read_text().splitlines(keepends=True)[0])

    [line] = records((await api.client.get(LOGS)).text)

    assert (line["event"], "rolled_back" in line) == ("store.writing", False)


async def test_a_write_older_than_the_logs_is_shown_from_the_history(api: Api) -> None:
    await written_by_the_watcher(api, "w1")
    [path] = (api.context.logs_directory / "watchers" / "landing_files").iterdir()
    path.write_text("")

    [line] = records((await api.client.get(LOGS, params={"around": "w1"})).text)

    assert (line["event"], line["asset"], line["watcher"], line["value"]) == (
        "store.history",
        "landing",
        "landing_files",
        "1",
    )
    await api.get(LOGS, status=404, around="w2")


async def test_a_link_leads_to_its_line_after_rotations_and_a_restart(api: Api) -> None:
    """`owner` names a process, and another process has continued with its own files. With 0 MB a file has one record."""
    await written_by_the_watcher(api, "w1")
    folder = api.context.logs_directory
    for owner in ("owner", "another"):
        with logs.configure(folder, level="info", json=True, owner=owner, max_file_mb=0):
            for n in range(3):
                log.info("watcher.polled", watcher="landing_files", n=n)
    names = [path.name for path in (folder / "watchers" / "landing_files").iterdir()]
    assert {name.count(".") for name in names} == {1, 2}

    entry = await api.get(api.store("landing", "landing_files.watermark"))
    lines = records((await api.client.get(entry["last_updated_by"]["log_url"])).text)

    assert [line["event"] for line in lines] == ["store.writing", "store.written", *["watcher.polled"] * 3]


async def test_lines_around_a_moment(api: Api) -> None:
    for n in range(5):
        log.info("watcher.polled", watcher="landing_files", n=n)
    third = records((await api.client.get(LOGS)).text)[2]["timestamp"]

    lines = records((await api.client.get(LOGS, params={"at": third, "before": 1, "after": 2})).text)

    assert [line["n"] for line in lines] == [1, 2, 3]
    await api.get(LOGS, status=422, at="yesterday")


async def test_browsers_get_text_where_there_are_no_pages(api: Api) -> None:
    await written_by_the_watcher(api, "w1")
    transport = httpx.ASGITransport(without_pages(api.context))

    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as browser:
        page = await browser.get(LOGS, params={"around": "w1"}, headers={"Accept": "text/html,*/*;q=0.8"})

    assert page.headers["content-type"].startswith("text/plain")
    assert "info store.writing watcher=landing_files write_id=w1" in page.text


async def test_invalid_names_reach_no_file(api: Api) -> None:
    api.context.logs_directory.mkdir()
    (api.context.logs_directory / "secret.log").write_text('{"event": "secret"}\n')

    for name in ("..", "%2E%2E", "..%2F..", "%2E%2E%2Fsecret", "nobody", "a%0Ab", "x" * 300):
        response = await api.client.get(f"/api/v2/watchers/{name}/logs")
        assert response.status_code in {404, 405}, name
        assert "secret" not in response.text or name.endswith("secret")
    for run_id in ("%2E%2E", "..%2Fx", "nothing"):
        path = f"/api/v2/dags/load_orders/dagRuns/{run_id}/taskInstances/load/logs/1"
        assert (await api.client.get(path)).status_code == 404


async def test_the_log_of_a_watcher_without_lines_is_empty(api: Api) -> None:
    assert (await api.client.get(LOGS)).text == ""


async def test_the_lines_of_driver_and_daemon_form_one_log(api: Api) -> None:
    one = await api.start_try()
    path = api.context.logs_directory / "runs/load_orders/manual__1/load/-1/1.log"
    path.parent.mkdir(parents=True)
    path.write_text("  starting\nhalf a li")
    await one.put("orders", "k", 1)
    with path.open("a") as file:
        file.write("ne\nTraceback\n")

    base = "/api/v2/dags/load_orders/dagRuns/manual__1/taskInstances/load/logs/1"
    answer = await api.get(base)

    assert [record["event"] for record in answer["content"]] == [
        "  starting",
        "half a li",
        "store.writing",
        "store.written",
        "ne",
        "Traceback",
    ]
    assert answer["continuation_token"] is None
    as_lines = await api.client.get(base, headers={"Accept": "application/x-ndjson"})
    assert [record["event"] for record in records(as_lines.text)] == [record["event"] for record in answer["content"]]
    as_text = await api.client.get(base, headers={"Accept": "text/plain"})
    assert as_text.text.startswith("  starting\nhalf a li\n")


async def test_a_long_log_is_returned_in_fragments(api: Api) -> None:
    await api.start_try()
    path = api.context.logs_directory / "runs/load_orders/manual__1/load/-1/1.log"
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"line {n}\n" for n in range(2500)))
    base = "/api/v2/dags/load_orders/dagRuns/manual__1/taskInstances/load/logs/1"

    lines, token = [], 0
    while token is not None:
        fragment = await api.get(base, token=token)
        assert len(fragment["content"]) <= 1000
        lines += [record["event"] for record in fragment["content"]]
        token = fragment["continuation_token"]

    assert lines == [f"line {n}" for n in range(2500)]
    assert len((await api.get(base, full_content=True))["content"]) == 2500
    assert (await api.get(base, token=2**62))["content"] == []


async def test_the_log_of_a_remote_driver_is_read_through_its_submitter(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.start_try()
    path = api.context.logs_directory / "runs/load_orders/manual__1/load/-1/1.log"
    path.parent.mkdir(parents=True)
    path.write_text('{"event": "run.submitted"}\n')
    application = tmp_path / "job.py"
    application.write_text("for number in range(1500): print('line', number)")
    base = "/api/v2/dags/load_orders/dagRuns/manual__1/taskInstances/load/logs/1"
    with running_cluster(tmp_path / "cluster") as address:
        monkeypatch.setenv(ADDRESS, address)
        submitter = RemoteCluster(workspace(tmp_path))
        handle = await submitter.submit(make_submission("1", application))
        await ended(submitter, handle)
        async with api.database.transaction() as connection:
            await connection.execute(update(task_try).values(submitter="lake.Remote", handle=json.dumps(handle)))
        assert [record["event"] for record in (await api.get(base))["content"]] == ["run.submitted"]

        monkeypatch.setitem(api.context.jobs.submitters, "lake.Remote", submitter)
        lines, token = [], 0
        while token is not None:
            fragment = await api.get(base, token=token)
            lines += [record["event"] for record in fragment["content"]]
            token = fragment["continuation_token"]
        assert lines == ["run.submitted", *(f"line {number}" for number in range(1500))]
    *_, unreachable = (await api.get(base))["content"]
    assert unreachable["event"] == "log.unreachable"
    assert "the submitter could not read the driver's log (ConnectError: " in unreachable["error"]


async def test_unknown_tries_have_no_log(api: Api) -> None:
    await api.start_try()

    base = "/api/v2/dags/load_orders/dagRuns/manual__1/taskInstances"
    await api.get(f"{base}/other/logs/1", status=404)
    await api.get(f"{base}/load/logs/1", status=404, map_index=3)
    assert (await api.get(f"{base}/load/logs/7"))["content"] == []


async def test_following_shows_existing_and_new_lines(api: Api) -> None:
    """Follow the log over a socket, because the in-process transport would return the stream only at its end."""
    log.info("watcher.polled", watcher="landing_files", n=0)
    query = LogQuery(around=None, before=100, after=100, following=True)

    async def may_listen() -> bool:
        return True

    log_files = partial(watcher_logs, api.context.logs_directory, "landing_files")
    response = await answer(api.context, "landing_files", log_files, query, "*/*", may_listen)
    stream: AsyncIterator[str] = response.body_iterator  # type: ignore[attr-defined]  # a StreamingResponse

    assert response.media_type == "text/event-stream"
    assert [record["n"] for record in await events(stream)] == [0]
    log.info("watcher.polled", watcher="landing_files", n=1)
    assert [record["n"] for record in await events(stream)] == [1]
    api.context.live.stopping.set()
    with anyio.fail_after(PATIENCE):
        assert [chunk async for chunk in stream if chunk != ":\n\n"] == []


async def events(stream: AsyncIterator[str]) -> list[dict[str, Any]]:
    """Return the next events of a stream without its comments."""
    with anyio.fail_after(PATIENCE):
        while (chunk := await anext(stream)) == ":\n\n":
            pass
    return [json.loads(event.removeprefix("data: ")) for event in chunk.split("\n\n") if event]
