"""What the daemon saw, counted from the outside: from the asset events its API tells of, against what was written."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any, Final

import httpx

PAGE: Final = 100


@dataclass(frozen=True, kw_only=True)
class Count:
    """Items written and seen. Lost: written, never seen. Repeated: seen more than once, or never written."""

    written: int
    seen: int
    lost: int
    repeated: int


def count(written: Iterable[object], seen: Counter[Any]) -> Count:
    """Compare what was committed with what events told of."""
    expected = set(written)
    return Count(
        written=len(expected),
        seen=len(seen),
        lost=len(expected - seen.keys()),
        repeated=sum(times - 1 for times in seen.values()) + len(seen.keys() - expected),
    )


class Seen:
    """Reads new events since the last time it was asked, so that watching a long demo stays cheap."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._offset = 0
        self.files: Counter[str] = Counter()
        self.rows: Counter[int] = Counter()
        self.events = 0
        self.latest: list[dict[str, Any]] = []

    async def update(self) -> None:
        """Take in the events that came since."""
        async for event in self._new():
            extra = event["extra"]
            self.events += 1
            self.latest = [event, *self.latest[:5]]
            if "watcher" not in extra:
                continue  # a job told of its table
            self.files.update(file["key"] for file in extra.get("files", ()))
            for low, high in extra.get("ranges", ()):
                self.rows.update(range(low, high + 1))

    async def _new(self) -> AsyncIterator[dict[str, Any]]:
        while True:
            page = await get(
                self._client, "/api/v2/assets/events", limit=PAGE, offset=self._offset, order_by="timestamp"
            )
            for event in page["asset_events"]:
                yield event
            self._offset += len(page["asset_events"])
            if len(page["asset_events"]) < PAGE:
                return


async def get(client: httpx.AsyncClient, path: str, **query: Any) -> Any:
    """The JSON of an answer. Raises httpx's error for a refusal."""
    answer = await client.get(path, params=query)
    answer.raise_for_status()
    return answer.json()


async def runs_by_state(client: httpx.AsyncClient, jobs: Iterable[str]) -> Counter[str]:
    """How many runs of these jobs are in which state."""
    states: Counter[str] = Counter()
    for dag_id in jobs:
        page = await get(client, f"/api/v2/dags/{dag_id}/dagRuns", limit=PAGE)
        states.update(run["state"] for run in page["dag_runs"])
    return states


async def store_writes(client: httpx.AsyncClient) -> Counter[str]:
    """How many writes of each kind the assets' histories hold."""
    kinds: Counter[str] = Counter()
    for asset in (await get(client, "/api/v2/assets", limit=PAGE))["assets"]:
        offset = 0
        while True:
            path = f"/api/v2/assets/{asset['id']}/store-history"
            page = await get(client, path, limit=PAGE, offset=offset)
            kinds.update((entry["last_updated_by"] or {}).get("kind", "none") for entry in page["history"])
            offset += len(page["history"])
            if len(page["history"]) < PAGE:
                break
    return kinds
