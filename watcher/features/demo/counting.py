"""Counts what the daemon detected, from outside: the asset events of its API, compared with what was written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from pydantic import TypeAdapter

PAGE: Final = 100
FILE: Final = "demo.json"
"""The counts, in the home of the demo's daemon."""


@dataclass(frozen=True, kw_only=True)
class Count:
    """Items written and seen. Lost: written, never seen. Repeated: seen more than once, or never written."""

    written: int
    seen: int
    lost: int
    repeated: int


def count(written: Iterable[object], seen: Counter[Any]) -> Count:
    expected = set(written)
    return Count(
        written=len(expected),
        seen=len(seen),
        lost=len(expected - seen.keys()),
        repeated=sum(times - 1 for times in seen.values()) + len(seen.keys() - expected),
    )


@dataclass(frozen=True, kw_only=True)
class DemoCounts:
    """How far a demo is, for its page. The demo writes it beside the daemon's own files, and the page reads it."""

    phase: str
    seconds: float
    files: Count
    rows: Count
    is_over: bool = False

    def write(self, home: Path) -> None:
        """Write the counts into the daemon's home, all at once."""
        new = home / f".{FILE}"
        new.write_text(json.dumps(asdict(self)), encoding="utf-8")
        new.replace(home / FILE)


def counts_of(home: Path) -> DemoCounts | None:
    """Return how far the demo is whose daemon has this home; None if it is no demo's."""
    try:
        text = (home / FILE).read_bytes()
    except FileNotFoundError:
        return None
    return _COUNTS.validate_json(text)


_COUNTS: Final = TypeAdapter(DemoCounts)


class Seen:
    """Reads only the events since the last update, so that watching a long demo stays cheap."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._offset = 0
        self.files: Counter[str] = Counter()
        self.rows: Counter[int] = Counter()
        self.latest: list[dict[str, Any]] = []

    async def update(self) -> None:
        path, query = "/api/v2/assets/events", {"order_by": "timestamp"}
        async for event in members(self._client, path, "asset_events", offset=self._offset, **query):
            self._offset += 1
            extra = event["extra"]
            self.latest = [event, *self.latest[:5]]
            if "watcher" not in extra:
                continue  # of a job, about its table
            self.files.update(file["key"] for file in extra.get("files", ()))
            for low, high in extra.get("ranges", ()):
                self.rows.update(range(low, high + 1))


async def get(client: httpx.AsyncClient, path: str, **query: Any) -> Any:
    """Return the JSON of an answer. Raises httpx's error for a refusal."""
    answer = await client.get(path, params=query)
    answer.raise_for_status()
    return answer.json()


async def members(
    client: httpx.AsyncClient, path: str, member: str, *, offset: int = 0, **query: Any
) -> AsyncIterator[dict[str, Any]]:
    """Yield the members of a list from an offset on, page by page."""
    while True:
        page = (await get(client, path, limit=PAGE, offset=offset, **query))[member]
        for item in page:
            yield item
        offset += len(page)
        if len(page) < PAGE:
            return


async def runs_by_state(client: httpx.AsyncClient, jobs: Iterable[str]) -> Counter[str]:
    states: Counter[str] = Counter()
    for dag_id in jobs:
        page = await get(client, f"/api/v2/dags/{dag_id}/dagRuns", limit=PAGE)
        states.update(run["state"] for run in page["dag_runs"])
    return states


async def store_writes(client: httpx.AsyncClient) -> Counter[str]:
    """Count the writes in the assets' histories, by kind of writer."""
    kinds: Counter[str] = Counter()
    async for asset in members(client, "/api/v2/assets", "assets"):
        async for entry in members(client, f"/api/v2/assets/{asset['id']}/store-history", "history"):
            kinds[(entry["last_updated_by"] or {}).get("kind", "none")] += 1
    return kinds
