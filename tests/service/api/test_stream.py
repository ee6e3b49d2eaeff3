"""The stream of changes: its filters, shapes, cursors and limits."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from store.catalog import watchers
from store.processes import tokens
from tests.databases import on_both
from tests.effort import PATIENCE
from tests.service.api.application import Api, adapted, claimed, serving
from tests.service.api.served import served
from watcher.serving.api.streams.live import LiveChanges
from watcher.serving.api.streams.open_streams import Streams

STREAM = "/api/v2/events/stream"
RUN = "/api/v2/dags/load_orders/dagRuns/manual__1"
TRY_LOG = f"{RUN}/taskInstances/load/logs/1"


class Client:
    """A client that reads one stream event by event."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines
        self.last = ""
        """The cursor of the last event."""

    async def next(self) -> tuple[str, Any]:
        fields: dict[str, str] = {}
        with anyio.fail_after(PATIENCE):
            async for line in self._lines:
                name, _, value = line.partition(": ")
                if line and name:
                    fields[name] = value
                elif "data" in fields:
                    self.last = fields["id"]
                    return fields["event"], json.loads(fields["data"])
        raise AssertionError("the stream ended")

    async def until(self, kind: str) -> Any:
        while True:
            event, data = await self.next()
            if event == kind:
                return data


@asynccontextmanager
async def listening(address: str, last: str | None = None, **query: Any) -> AsyncIterator[Client]:
    """Open a stream and read its first comment, after which every change is sent."""
    headers = {} if last is None else {"Last-Event-ID": last}
    async with (
        httpx.AsyncClient(base_url=address, timeout=PATIENCE) as client,
        client.stream("GET", STREAM, params=query, headers=headers) as answer,
    ):
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        lines = answer.aiter_lines()
        with anyio.fail_after(PATIENCE):
            assert await anext(lines) == ":"
        yield Client(lines)


async def create_event(api: Api, asset: str = "landing") -> int:
    answer = await api.client.post("/api/v2/assets/events", json={"asset_id": api.asset_ids[asset]})
    return int(answer.json()["id"])


@on_both
async def test_changes_are_sent_in_the_shapes_of_rest(api: Api) -> None:
    await create_event(api)  # before anybody listens
    async with served(api.context) as address, listening(address) as client:
        number = await create_event(api)
        data = await client.until("asset_event")
        [listed] = [
            event for event in (await api.get("/api/v2/assets/events"))["asset_events"] if event["id"] == number
        ]
        assert data == listed
        await api.put("landing", "k", {"rows": 1})
        data = await client.until("store")
        assert (data["asset"], data["key"], data["value"], data["version"]) == ("landing", "k", {"rows": 1}, 1)
        await api.put("landing", "k", "2026-01-31")
        assert (await client.until("store"))["value"] == "2026-01-31"
        async with api.database.transaction() as connection:
            await watchers.set_paused(connection, "landing_files", paused=True)
        assert await client.until("watcher") == await api.get("/api/v2/watchers/landing_files")
        await claimed(api)
        run = await client.until("run")
        assert (run["dag_id"], run["dag_run_id"]) == ("load_orders", "manual__1")
        task = await client.until("try")
        assert (task["dag_id"], task["task_id"]) == ("load_orders", "load")


async def test_a_stream_is_filtered_by_type_asset_or_job(api: Api) -> None:
    landing = api.asset_ids["landing"]
    async with (
        served(api.context) as address,
        listening(address, types="asset_event,store", asset_id=landing) as of_asset,
        listening(address, dag_id="load_orders") as of_job,
    ):
        await create_event(api, "customers")
        await api.put("landing", "k", 1)
        await api.start_try()
        await create_event(api)
        assert {(await of_asset.next())[0] for _ in range(2)} == {"store", "asset_event"}
        assert {(await of_job.next())[0] for _ in range(2)} == {"run", "try"}
    answer = await api.client.get(STREAM, params={"types": "asset_event,nothing"})
    assert (answer.status_code, "'nothing'" in answer.json()["detail"]) == (422, True)


async def test_a_client_continues_at_its_cursor_or_is_reset(api: Api) -> None:
    context = adapted(api.context, changes=LiveChanges(most_kept=3))
    async with served(context) as address, listening(address, types="asset_event") as witness:
        async with listening(address, types="asset_event") as client:
            first = await create_event(api)
            assert (await client.until("asset_event"))["id"] == first
        cursor = client.last
        numbers = [await create_event(api) for _ in range(3)]
        for number in [first, *numbers]:
            assert (await witness.until("asset_event"))["id"] == number
        async with listening(address, cursor, types="asset_event") as client:
            assert [(await client.until("asset_event"))["id"] for _ in numbers] == numbers
        await create_event(api)
        await witness.until("asset_event")
        for stale in (cursor, "another-1", "nonsense", f"{cursor}000"):
            async with listening(address, stale) as client:
                assert await client.next() == ("reset", {})


async def test_a_slow_client_is_disconnected_and_streams_are_limited(api: Api) -> None:
    changes = LiveChanges(most_pending=100)
    context = adapted(api.context, changes=changes, streams=Streams(most=1))
    async with served(context) as address, listening(address) as client:
        async with httpx.AsyncClient(base_url=address) as other:
            answer = await other.get(STREAM)
            assert (answer.status_code, "streams are open already" in answer.json()["detail"]) == (503, True)
        await create_event(api)
        with pytest.raises(AssertionError, match="the stream ended"):
            await client.until("nothing that comes")
    async with serving(adapted(api.context, streams=Streams(most=0))) as full:
        assert (await full.get(STREAM)).status_code == 503


@on_both
@pytest.mark.parametrize(
    "path",
    [STREAM, "/api/v2/watchers/landing_files/logs?follow=true", f"{RUN}/wait?interval=0.1", f"{TRY_LOG}?follow=true"],
)
async def test_a_stream_ends_with_the_token_that_opened_it(guarded: Api, path: str) -> None:
    await guarded.start_try()
    async with guarded.database.transaction() as connection:
        token = await tokens.create(connection, "ann", "viewer")
    headers = {"Authorization": f"Bearer {token.token}"}
    context = adapted(guarded.context, streams=Streams(ask_every=0, comment_every=0))
    async with (
        served(context) as address,
        httpx.AsyncClient(base_url=address, timeout=PATIENCE, headers=headers) as client,
        client.stream("GET", path) as answer,
    ):
        assert answer.status_code == 200
        lines = answer.aiter_lines()
        await anext(lines)
        async with guarded.database.transaction() as connection:
            await tokens.revoke(connection, token.id)
        with anyio.fail_after(PATIENCE):
            async for _ in lines:
                pass


async def test_a_client_that_missed_too_much_is_reset(api: Api) -> None:
    changes = LiveChanges()
    async with served(adapted(api.context, changes=changes)) as address, listening(address) as witness:
        await create_event(api)
        await witness.until("asset_event")
        cursor = witness.last
        await create_event(api)
        await witness.until("asset_event")
        changes.most_pending = 100
        async with listening(address, cursor) as client:
            assert await client.next() == ("reset", {})


async def test_a_stream_ends_at_once_while_the_process_stops(api: Api) -> None:
    api.context.live.stopping.set()
    async with serving(api.context) as client:
        answer = await client.get(STREAM)
        assert (answer.status_code, answer.text) == (200, ":\n\n")


async def test_nothing_is_read_while_no_client_listens(api: Api) -> None:
    changes = LiveChanges()
    changes.wake()
    async with served(adapted(api.context, changes=changes)) as address:
        async with listening(address):
            pass
        with anyio.fail_after(PATIENCE):
            while changes._listeners:
                await create_event(api)
        polled_at = changes._polled_at
        changes.wake()
        await create_event(api)
        assert changes._polled_at == polled_at
