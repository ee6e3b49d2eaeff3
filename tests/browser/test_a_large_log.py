"""A log of 1 GB with realistic lines: the way from the overview to a line in its middle, and the time of each page.

It runs in the long form only. The short form is in unit/logs, which counts the bytes that are read.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import anyio.to_thread
import pytest
from playwright.async_api import Page, expect

from tests.browser.site import Site
from tests.effort import LONG, SEED

pytestmark = [
    pytest.mark.browser,
    pytest.mark.service,
    pytest.mark.slow,
    pytest.mark.skipif(not LONG, reason="WATCHER_TEST_LONG: unit/logs is the short form"),
]

MINUTE = timedelta(minutes=1)
PER_MINUTE = 300
HALF = 500_000_000
"""Bytes of other lines on each side of the requested line."""


def minutes_of(record: Mapping[str, Any], since: datetime) -> Iterator[bytes]:
    """Yield `HALF` bytes of lines like those of a watcher that polls for days, a minute's lines at a time."""
    number, written = 0, 0
    while written < HALF:
        at = (since + number * MINUTE).isoformat().replace("+00:00", "Z")
        lines = (json.dumps({"timestamp": at, **record, "poll_id": f"{SEED:012x}"}).encode() + b"\n") * PER_MINUTE
        number, written = number + 1, written + len(lines)
        yield lines


def fill(log: Path, write_id: str) -> Path:
    """Write a rotated file beside the current one: other lines, those of the write, other lines."""
    of_write = [line for line in log.read_bytes().splitlines() if write_id.encode() in line]
    first = json.loads(of_write[0])
    at = datetime.fromisoformat(first["timestamp"])
    quiet = {name: first[name] for name in ("watcher", "asset") if name in first}
    quiet = {"level": "debug", "event": "watcher.polled", **quiet, "caught_up": True}
    aside = log.with_name(f"{log.stem}.00000000T000000.log")
    with aside.open("wb") as file:
        file.writelines(minutes_of(quiet, at - MINUTE * (HALF // 150 // PER_MINUTE)))
        file.writelines(line + b"\n" for line in of_write)
        file.writelines(minutes_of(quiet, at + MINUTE))
    return aside


@asynccontextmanager
async def timed(what: str, times: dict[str, float]) -> AsyncIterator[None]:
    began = monotonic()
    yield
    times[what] = round(monotonic() - began, 3)


async def test_the_overview_leads_to_a_line_in_the_middle_of_a_log(page: Page, site: Site) -> None:
    site.put_file("large.json")
    entry = await site.entry("landing_orders", "landing_files.watermark")
    write_id = entry["last_updated_by"]["write_id"]
    (log,) = (site.folder / "home").rglob("watchers/landing_files/*.log")
    aside = await anyio.to_thread.run_sync(fill, log, write_id)
    times: dict[str, float] = {}
    try:
        async with timed("overview", times):
            await page.goto("/")
            await expect(page.get_by_role("link", name="landing_files").first).to_be_visible()
        async with timed("watcher, its last lines", times):
            await page.get_by_role("link", name="landing_files").first.click()
            await expect(page.locator("ol.log li").first).to_be_visible()
        async with timed("the line of a write", times):
            await page.goto(f"/watchers/landing_files/log?around={write_id}#line")
            await expect(page.locator("#line")).to_be_in_viewport()
        assert write_id in await page.locator("#line").inner_text()
        async with timed("a time", times):
            await page.goto(f"/watchers/landing_files/log?at={entry['updated_at']}")
            await expect(page.locator("#line")).to_be_visible()
        print(f"{aside.stat().st_size:,} bytes: {times}")  # noqa: T201  its figures are what it is for
    finally:
        aside.unlink()
