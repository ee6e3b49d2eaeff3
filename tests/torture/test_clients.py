"""Clients post events and write the asset store while the daemon is killed: confirmed requests are stored, and none twice.

Events that arrive together are stored together. A confirmed post has its event, its row in the queue and its audit entry, each
once; one without an answer has all of them or none. A writer without an answer may continue with its next value.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import anyio
import httpx
import pytest
from sqlalchemy import select

from store.database.schema import asset_event, asset_store_history, audit, queued_event
from tests.databases import both_in_long_form
from tests.effort import SEED, effort
from tests.torture.results import Result
from tests.torture.world import engine_beside
from watcher.features.demo.counting import get
from watcher.features.demo.daemon import Daemon, running_daemon
from watcher.shared.servers import free_port

pytestmark = [pytest.mark.service, pytest.mark.slow]

KILLS = effort(3, 200)
POSTING, WRITING = 8, 2
CONFIGURATION = """
version: 1
settings: {{home: home, database: {{url: "{url}"}}, api: {{port: {port}, auth: none}}}}
assets: {{landing: {{}}}}
jobs: {{load: {{schedule: {{any: [landing]}}, batch: {{debounce: 10h, max_wait: 20h}}, spark: {{application: job.py}}}}}}
"""


class Clients:
    """Clients that each have a number and count their requests."""

    def __init__(self, url: str, asset_id: int) -> None:
        self._url, self._asset_id = url, asset_id
        self.posted: dict[tuple[int, int], int] = {}
        """The id in the answer to each post."""
        self.written = set[tuple[int, int]]()
        self.sent = 0

    async def post_until(self, enough: anyio.Event, client: int) -> None:
        async with httpx.AsyncClient(base_url=self._url, timeout=60) as api:
            while not enough.is_set():
                self.sent += 1
                mark = (client, self.sent)
                event = {"asset_id": self._asset_id, "extra": {"mark": mark}}
                answer = await self._answer(api, "POST", "/api/v2/assets/events", event)
                if answer is not None:
                    self.posted[mark] = int(answer.json()["id"])

    async def write_until(self, enough: anyio.Event, client: int) -> None:
        async with httpx.AsyncClient(base_url=self._url, timeout=60) as api:
            while not enough.is_set():
                self.sent += 1
                value = self.sent
                place = f"/api/v2/assets/{self._asset_id}/store/k{client}"
                if await self._answer(api, "PUT", place, {"value": value}) is not None:
                    self.written.add((client, value))

    async def _answer(self, api: httpx.AsyncClient, method: str, place: str, body: object) -> httpx.Response | None:
        """Send a request. Return None if there is no answer, or one that asks to retry later."""
        try:
            answer = await api.request(method, place, json=body)
        except httpx.TransportError:
            await anyio.sleep(0.05)
            return None
        if answer.status_code == 503:
            await anyio.sleep(0.05)
            return None
        answer.raise_for_status()
        return answer


@pytest.mark.parametrize("dialect", both_in_long_form("postgresql"), indirect=True)
async def test_confirmed_requests_are_stored_and_none_twice(
    tmp_path: Path, database_url: str, dialect: str, record_result: Callable[[Result], None]
) -> None:
    random, enough, port = Random(SEED), anyio.Event(), free_port()
    (tmp_path / "job.py").touch()
    configuration = tmp_path / "watchers.yaml"
    configuration.write_text(CONFIGURATION.format(url=database_url, port=port))
    async with running_daemon(configuration, f"http://127.0.0.1:{port}", os.environ) as daemon:
        clients = Clients(daemon.url, await asset_id_of(daemon))
        async with anyio.create_task_group() as tasks:
            for client in range(POSTING):
                tasks.start_soon(clients.post_until, enough, client)
            for client in range(WRITING):
                tasks.start_soon(clients.write_until, enough, client)
            for _ in range(KILLS):
                await anyio.sleep(random.uniform(0.1, 2))
                await daemon.kill()
                await daemon.start()
            await anyio.sleep(1)
            enough.set()
    stored = Stored(database_url)
    record_result(
        Result(
            fault=f"SIGKILL under {POSTING} clients that post and {WRITING} that write",
            database=dialect,
            seed=SEED,
            times=KILLS,
            rows=len(clients.posted) + len(clients.written),
            events=len(stored.events),
            lost=len(clients.posted.keys() - set(stored.events.values())) + len(clients.written - set(stored.written)),
            repeated=len(stored.events)
            - len(set(stored.events.values()))
            + len(stored.written)
            - len({*stored.written}),
        )
    )
    assert {mark: number for mark, number in clients.posted.items() if stored.events.get(number) != mark} == {}
    assert Counter(stored.events.values()).most_common(1)[0][1] == 1
    assert stored.queued == stored.audited == dict.fromkeys(stored.events, 1)
    assert clients.written - set(stored.written) == set()
    for client in range(WRITING):
        values = [value for writer, value in stored.written if writer == client]
        assert values == sorted(set(values)), "in the order in which they were sent, each once"


async def asset_id_of(daemon: Daemon) -> int:
    async with httpx.AsyncClient(base_url=daemon.url) as api:
        [asset] = (await get(api, "/api/v2/assets"))["assets"]
    return int(asset["id"])


class Stored:
    """The contents of the database at the end."""

    def __init__(self, url: str) -> None:
        a, h = audit.c, asset_store_history.c
        with engine_beside(url).connect() as connection:
            rows = connection.execute(select(asset_event.c.id, asset_event.c.extra)).all()
            self.events: dict[int, Any] = {number: tuple(json.loads(extra)["mark"]) for number, extra in rows}
            queued = connection.execute(select(queued_event.c.event_id)).scalars()
            self.queued = Counter(queued)
            details = connection.execute(select(a.detail).where(a.action == "asset_event.create")).scalars()
            self.audited = Counter(json.loads(detail)["event_id"] for detail in details)
            history = connection.execute(select(h.key, h.value).order_by(h.key, h.version)).all()
            self.written = [(int(key.removeprefix("k")), json.loads(value)) for key, value in history]
